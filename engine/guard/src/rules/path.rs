//! Paths that must not be deleted, read or written.

use crate::value::HOLE;

/// Last component of a path, with either slash as separator.
pub(crate) fn basename(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// True for the home folder as a whole, in any spelling.
pub(crate) fn is_home_whole(path: &str) -> bool {
    let path = path.trim().trim_end_matches(['/', '*', '.', '\\']);
    matches!(
        path,
        "~" | "$HOME"
            | "${HOME}"
            | "%USERPROFILE%"
            | "$env:USERPROFILE"
            | "/root"
            | "/home"
            | "/Users"
            | "C:\\Users"
            | "C:/Users"
    ) || (path.starts_with("/home/") || path.starts_with("/Users/")) && path.matches('/').count() == 2
}

/// True for the root, a folder directly below it, the home folder as a whole, a system folder, or a drive.
pub(crate) fn is_root_like(path: &str) -> bool {
    let trimmed = path.trim();
    if trimmed.is_empty() {
        return false;
    }
    let bare = trimmed.trim_end_matches(['*', '.']).trim_end_matches(['/', '\\']);
    if trimmed.starts_with('/') && bare.is_empty() || is_home_whole(trimmed) {
        return true;
    }
    let mut chars = bare.chars();
    if let (Some(drive), Some(':')) = (chars.next(), chars.next())
        && drive.is_ascii_alphabetic()
    {
        let rest: String = chars.collect::<String>().to_ascii_lowercase();
        let rest = rest.trim_matches(['\\', '/']);
        return rest.is_empty() || rest == "windows" || rest.starts_with("windows\\") || rest == "users";
    }
    if is_temporary(trimmed) || !bare.starts_with('/') {
        return false;
    }
    let inner = bare.trim_start_matches('/');
    let first = inner.split('/').next().unwrap_or("");
    let depth = inner.split('/').count();
    const SYSTEM: [&str; 17] = [
        "bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "sbin", "srv", "sys",
        "usr", "var", "Users", "Library",
    ];
    // The mark of an update that systemd removes, and folders that applications make.
    const OWN: [&str; 10] =
        ["system-update", "tmp", "app", "build", "data", "work", "workspace", "src", "mnt", "dist"];
    if depth == 1 {
        return !OWN.contains(&first);
    }
    depth == 2
        && SYSTEM.contains(&first)
        && !inner.ends_with("tmp")
        && of_the_system(first, &inner[first.len() + 1..])
}

/// True for the root, a drive, the home folder as a whole, or a folder without which no system runs, as a whole: what no program replaces or moves
/// away. A part of [`is_root_like`].
pub(crate) fn is_whole_system(path: &str) -> bool {
    if !is_root_like(path) {
        return false;
    }
    let bare = path.trim().trim_end_matches(['*', '.']).trim_end_matches(['/', '\\']);
    if !bare.starts_with('/') || is_home_whole(path) {
        return true;
    }
    let parts: Vec<&str> = bare.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [] => true,
        [one] => of_a_system(one) && !matches!(*one, "media" | "mnt" | "opt" | "run" | "srv"),
        ["usr", second] => matches!(*second, "bin" | "sbin" | "lib" | "lib64" | "libexec"),
        _ => false,
    }
}

/// True when a folder directly below a system folder belongs to the system, not to one application.
fn of_the_system(first: &str, second: &str) -> bool {
    match first {
        "opt" | "srv" | "home" | "root" => false,
        "usr" => matches!(
            second,
            "bin" | "sbin" | "lib" | "lib32" | "lib64" | "libexec" | "share" | "include" | "local" | "src"
        ),
        "var" => matches!(
            second,
            "lib" | "log" | "www" | "spool" | "mail" | "db" | "backups" | "local" | "run" | "opt"
        ),
        "etc" => matches!(
            second,
            "ssh"
                | "ssl"
                | "pam.d"
                | "systemd"
                | "sudoers.d"
                | "init.d"
                | "cron.d"
                | "cron.daily"
                | "apt"
                | "security"
                | "default"
                | "network"
                | "netplan"
                | "passwd"
                | "shadow"
                | "group"
                | "gshadow"
                | "hosts"
                | "fstab"
                | "sudoers"
                | "resolv.conf"
                | "ld.so.conf.d"
                | "alternatives"
                | "profile.d"
                | "profile"
                | "docker"
                | "kubernetes"
                | "nginx"
                | "postgresql"
                | "mysql"
                | "letsencrypt"
        ),
        _ => true,
    }
}

/// True for paths in a temporary or scratch folder.
pub(crate) fn is_temporary(path: &str) -> bool {
    [
        "/tmp/",
        "/var/tmp/",
        "/dev/shm/",
        "/private/tmp/",
        "$TMPDIR",
        "${TMPDIR",
        "%TEMP%",
        "$env:TEMP",
        "/var/cache/",
        "/run/user/",
    ]
    .iter()
    .any(|start| path.starts_with(start))
        || matches!(path, "/tmp" | "/var/tmp")
}

/// True for folders that the build of an image empties to make it small, or that it has made itself: logs,
/// sources, documentation, and the home folder of the image's user. Only where a build runs, not on a machine.
pub(crate) fn is_of_an_image(path: &str) -> bool {
    const EMPTIED: [&str; 12] = [
        "/var/log",
        "/var/cache",
        "/var/www",
        "/usr/src",
        "/usr/local/src",
        "/usr/share/doc",
        "/usr/share/man",
        "/usr/share/info",
        "/usr/share/locale",
        "/opt",
        "/srv",
        "/root",
    ];
    let path = path.trim();
    if path.split('/').any(|part| part == "..") {
        return false;
    }
    let bare = path.trim_end_matches(['*', '.', '?']).trim_end_matches('/');
    let parts: Vec<&str> = bare.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["home", user] => !user.contains(['*', '?', HOLE]),
        // A folder below the root that no system has.
        [own] => {
            !of_a_system(own) && !own.contains(['*', '?', HOLE])
                || EMPTIED.contains(&bare) && path.ends_with('*')
        }
        _ => EMPTIED.contains(&bare),
    }
}

/// True when systems have a folder of this name directly below the root.
fn of_a_system(name: &str) -> bool {
    matches!(
        name,
        "bin"
            | "boot"
            | "dev"
            | "etc"
            | "home"
            | "lib"
            | "lib32"
            | "lib64"
            | "libx32"
            | "media"
            | "mnt"
            | "opt"
            | "proc"
            | "root"
            | "run"
            | "sbin"
            | "srv"
            | "sys"
            | "usr"
            | "var"
            | "Users"
            | "Library"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_the_build_of_an_image_empties() {
        for path in
            ["/var/log/*", "/var/log", "/usr/src/*", "/home/app", "/build", "/app/", "/root/*", "/srv/*"]
        {
            assert!(is_of_an_image(path), "{path}");
        }
        for path in [
            "/",
            "/*",
            "/etc",
            "/usr",
            "/usr/lib",
            "/home",
            "/home/*",
            "/root",
            "/root/",
            "/var",
            "/lib",
            "",
            "/var/log/../lib",
        ] {
            assert!(!is_of_an_image(path), "{path}");
        }
    }

    #[test]
    fn systems_as_a_whole() {
        for path in [
            "/",
            "/*",
            "/.",
            "//",
            "~",
            "~/",
            "~/*",
            "$HOME",
            "/home",
            "/home/*",
            "/home/ann",
            "/root/",
            "/etc",
            "/etc/*",
            "/usr",
            "/usr/lib",
            "/var/",
            "/boot",
            "C:\\",
            "c:/Windows",
        ] {
            assert!(is_whole_system(path), "{path}");
        }
        for path in [
            "/var/www/",
            "/backup/",
            "/etc/resolv.conf",
            "/entrypoint.new",
            "/logs",
            "/srv",
            "/opt/",
            "/nowhere",
            "/tmp",
            "/usr/share",
            "build",
            "",
            "~/project",
        ] {
            assert!(!is_whole_system(path), "{path}");
        }
    }

    #[test]
    fn paths_that_must_not_go() {
        for path in [
            "/",
            "/*",
            "/.",
            "//",
            "~",
            "~/",
            "~/*",
            "/home",
            "/home/ann",
            "$HOME",
            "/etc",
            "/usr/lib",
            "/etc/ssh",
            "/boot/grub",
            "C:\\",
            "c:/Windows",
            "/nowhere",
            "/root",
            "/root/*",
        ] {
            assert!(is_root_like(path), "{path}");
        }
        for path in [
            "/tmp",
            "/tmp/x",
            "build",
            "./x",
            "/home/ann/project/build",
            "/app",
            "/var/lib/app/cache",
            "",
            "~/project/target",
            "/var/tmp",
            "/etc/my-app",
            "/usr/games",
            "/system-update",
            "/root/.cache",
            "/root/.npm/",
        ] {
            assert!(!is_root_like(path), "{path}");
        }
    }
}
