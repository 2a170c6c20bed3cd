//! Words, names, paths and addresses that classes of values ask about.

use super::path::basename;
use crate::value::HOLE;
use regex::Regex;
use std::sync::LazyLock;

pub(super) static SECRET: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(^|[/\\~])(\.ssh[/\\](id_|.*_rsa|.*_key(\.pem)?$|identity|\*)|\.ssh[/\\]?$|\.aws[/\\]credentials|\.(aws|kube)[/\\]?$|\.gnupg|\.kube[/\\]config|\.docker[/\\]config\.json",
        r"|\.git-credentials|\.netrc$|\.pgpass|\.npmrc$|\.pypirc$|\.bash_history|\.zsh_history|\.config[/\\]gcloud|\.azure[/\\]",
        r"|etc[/\\]shadow|etc[/\\]gshadow|etc[/\\]sudoers|\.mozilla[/\\]firefox|logins\.json|key[34]\.db|cookies\.sqlite|login data|local state$",
        r"|user data[/\\]|wallet\.dat|\.electrum|\.bitcoin|\.ethereum|exodus[/\\]|leveldb|keychains?[/\\]|proc[/\\](self|\d+|\x{fffc}|\*|\[0-9\]\*)[/\\](environ|mem)",
        r"|var[/\\]run[/\\]secrets|serviceaccount[/\\]token|\.config[/\\]gh[/\\]hosts|\.cargo[/\\]credentials|([a-z-]*chrom(e|ium)|brave-browser|microsoft-edge|vivaldi|opera)[/\\].*[/\\](cookies|web data)$|\.terraform\.d[/\\]credentials|\.password-store",
        r"|windows[/\\]system32[/\\]config[/\\]sam|[~/][^ ]*\*[^/ ]*/\.env$)"
    ))
    .ok()
});

/// A command line that only prints, lists or clears, without shell expansions.
pub(super) fn harmless(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "clear",
        "cls",
        "echo",
        "ls",
        "dir",
        "pwd",
        "date",
        "git",
        "title",
        "color",
        "pause",
        "true",
        "false",
        "stty",
        "tput",
        "uname",
        "make",
        "cargo",
        "npm",
        "pip",
        "pytest",
        "python",
        "python3",
        "node",
        "cd",
        "mkdir",
        "cat",
        "ffmpeg",
        "gcc",
        "clang",
        "go",
        "rustc",
        "start",
        "ver",
        "docker",
        "docker-compose",
        "podman",
        "ffprobe",
        "pg_dump",
        "createdb",
        "convert",
        "magick",
        "ruff",
        "black",
        "mypy",
        "flake8",
        "tox",
        "poetry",
        "uv",
        "yarn",
        "pnpm",
        "npx",
        "tsc",
        "jest",
        "pre-commit",
        "sphinx-build",
        "mkdocs",
        "javac",
        "mvn",
        "gradle",
        "cmake",
        "ninja",
        "meson",
        "dotnet",
        "bundle",
        "composer",
        "hugo",
        "pdflatex",
        "pandoc",
        "exiftool",
        "nvidia-smi",
        "df",
        "du",
        "free",
        "uptime",
    ];
    const FILTERS: &[&str] =
        &["wc", "head", "tail", "sort", "uniq", "cut", "tr", "grep", "egrep", "fgrep", "nl"];
    if text.contains([';', '`', '$', '<', '>', HOLE, '\n'])
        || text.contains("||")
        || text.replace("&&", "").contains('&')
    {
        return false;
    }
    // Filters that only print: `sort` and `uniq` can write a file, and `sort` can start a program.
    let is_filter = |command: &str| {
        let words: Vec<&str> = command.split_whitespace().collect();
        let writes = |word: &str| match words[0] {
            "sort" => {
                word.starts_with("--o")
                    || word.starts_with("--c")
                    || !word.starts_with("--") && word.starts_with('-') && word.contains('o')
            }
            "uniq" => !word.starts_with('-'),
            _ => false,
        };
        words.first().is_some_and(|first| FILTERS.contains(first))
            && !words[1..].iter().any(|word| writes(word))
    };
    text.split("&&").all(|pipeline| {
        let mut commands = pipeline.split('|');
        let command = commands.next().unwrap_or("");
        if !commands.all(is_filter) {
            return false;
        }
        if let [name, "--version" | "-V" | "--help"] = command.split_whitespace().collect::<Vec<_>>()[..] {
            return name.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
        }
        // A command passed to another interpreter.
        let command =
            ["cmd /c ", "command /c "].iter().find_map(|by| command.strip_prefix(by)).unwrap_or(command);
        let first = command.split_whitespace().next().unwrap_or("");
        // `mode con`, `TITLE x`: console commands are written in any case.
        let known = WORDS.contains(&first.to_ascii_lowercase().as_str());
        let interpreter = matches!(first, "python" | "python3" | "node");
        known && !(interpreter && command.contains(" -"))
    })
}

/// True for functions that make a pickle of an object.
pub(crate) fn is_dump(name: &str) -> bool {
    matches!(
        name,
        "pickle.dumps"
            | "marshal.dumps"
            | "dill.dumps"
            | "cloudpickle.dumps"
            | "_pickle.dumps"
            | "cPickle.dumps"
    )
}

/// True for an address of Ethereum, Bitcoin or Tron, every piece of which is known. One of a single repeated digit is an
/// example.
pub(super) fn is_payee(text: &str) -> bool {
    let is_base58 = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() && !matches!(b, b'0' | b'O' | b'I' | b'l'))
    };
    let is_varied = |text: &str| {
        let mut seen = [false; 128];
        text.bytes().filter(u8::is_ascii).for_each(|b| seen[usize::from(b)] = true);
        seen.iter().filter(|is| **is).count() > 8
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_hexdigit()) && is_varied(digits);
    }
    if let Some(rest) = text.strip_prefix("bc1") {
        return (39..=59).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && is_varied(rest);
    }
    (26..=35).contains(&text.len())
        && text.starts_with(['1', '3', 'T'])
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_uppercase())
        && is_base58(text)
}

/// A mail address of which every piece is known.
pub(super) fn is_mailbox(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", ""));
    !user.is_empty() && host.contains('.') && !text.contains([HOLE, '\n', ' ']) && text.len() < 200
}

pub(super) fn is_device(text: &str) -> bool {
    let Some(name) = text.strip_prefix("/dev/") else {
        return text.to_ascii_lowercase().starts_with(r"\\.\physicaldrive") || text.starts_with(r"\\.\C:");
    };
    ["sd", "hd", "vd", "nvme", "xvd", "mmcblk", "disk", "mapper/", "mem", "kmem", "port", "loop", "md"]
        .iter()
        .any(|d| name.starts_with(d))
}

pub(super) fn is_setuid_mode(text: &str) -> bool {
    matches!(text, "u+s" | "+s" | "g+s" | "ug+s" | "u+xs" | "a+s")
        || text.len() >= 4 && text.len() <= 5 && text.chars().all(|c| c.is_digit(8)) && {
            let bits = i64::from_str_radix(text, 8).unwrap_or(0);
            bits & 0o6000 != 0
        }
}

/// True for the base name of a shell.
pub(crate) fn is_shell(text: &str) -> bool {
    matches!(
        basename(text).trim_end_matches(".exe"),
        "sh" | "bash"
            | "zsh"
            | "dash"
            | "ksh"
            | "ash"
            | "fish"
            | "csh"
            | "tcsh"
            | "cmd"
            | "powershell"
            | "pwsh"
            | "busybox"
    )
}

/// A numeric address other than loopback and unspecified ones.
pub(super) fn is_address(text: &str) -> bool {
    let host = text.split("://").last().unwrap_or(text).split(['/', ':']).next().unwrap_or("");
    host.parse::<std::net::Ipv4Addr>().is_ok_and(|a| !a.is_loopback() && !a.is_unspecified())
}

/// A numeric address outside this machine and private networks.
pub(super) fn is_public_address(text: &str) -> bool {
    let rest = text.split("://").last().unwrap_or(text).trim_start_matches("//");
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    // Without the user in `user@host`.
    let host = authority.rsplit('@').next().unwrap_or(authority).split(':').next().unwrap_or("");
    host.parse::<std::net::Ipv4Addr>()
        .is_ok_and(|a| !a.is_loopback() && !a.is_unspecified() && !a.is_private() && !a.is_link_local())
}

/// An address of this machine.
pub(super) fn is_loopback(text: &str) -> bool {
    let host = text.split("://").last().unwrap_or(text).split(['/', ':', '?']).next().unwrap_or("");
    host == "localhost"
        || text.contains("://[::1]")
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|a| a.is_loopback())
}

/// Hosts and paths of installers that well-known tools tell users to pipe into a shell. Whole hosts, or the
/// beginning of a path on a shared host, never a part of an address.
pub(super) fn is_known_installer(url: &str) -> bool {
    const HOSTS: [&str; 19] = [
        "sh.rustup.rs",
        "get.docker.com",
        "deb.nodesource.com",
        "rpm.nodesource.com",
        "install.python-poetry.org",
        "astral.sh",
        "bun.sh",
        "deno.land",
        "get.helm.sh",
        "get.k3s.io",
        "bootstrap.pypa.io",
        "sdk.cloud.google.com",
        "get.sdkman.io",
        "get.pnpm.io",
        "starship.rs",
        "pyenv.run",
        "get.scoop.sh",
        "community.chocolatey.org",
        "chocolatey.org",
    ];
    const PATHS: [&str; 7] = [
        "raw.githubusercontent.com/nvm-sh/nvm/",
        "raw.githubusercontent.com/Homebrew/install/",
        "raw.githubusercontent.com/pyenv/pyenv-installer/",
        "raw.githubusercontent.com/helm/helm/",
        "raw.githubusercontent.com/ohmyzsh/ohmyzsh/",
        "raw.githubusercontent.com/rbenv/rbenv-installer/",
        "raw.githubusercontent.com/golangci/golangci-lint/",
    ];
    let Some(rest) = url.strip_prefix("https://").filter(|r| !r.contains(['@', HOLE])) else { return false };
    let host = rest.split(['/', '?', '#', ':']).next().unwrap_or("");
    HOSTS.contains(&host) || PATHS.iter().any(|path| rest.starts_with(path) && !rest.contains(".."))
}

/// True for paths of credentials, keys, cookies or wallets.
pub(crate) fn is_secret(path: &str) -> bool {
    path.len() < 4096 && SECRET.as_ref().is_some_and(|regex| regex.is_match(path))
}

/// True for a path with a folder, a bucket or a file of backups.
pub(crate) fn names_backups(path: &str) -> bool {
    path.len() < 4096
        && path
            .to_ascii_lowercase()
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| matches!(word, "backup" | "backups"))
}

/// True for a well-known program whose output is made for `eval`.
pub(super) fn prints_for_eval(program: &str) -> bool {
    matches!(
        program,
        "ssh-agent"
            | "dircolors"
            | "brew"
            | "direnv"
            | "pyenv"
            | "starship"
            | "conda"
            | "rbenv"
            | "opam"
            | "resize"
            | "minikube"
            | "keychain"
            | "lesspipe"
            | "zoxide"
            | "register-python-argcomplete"
    )
}

/// True for a program that prints something about the machine, its user or its files.
pub(super) fn tells_of_host(program: &str) -> bool {
    matches!(
        program,
        "env"
            | "printenv"
            | "whoami"
            | "id"
            | "hostname"
            | "uname"
            | "ifconfig"
            | "ip"
            | "tar"
            | "history"
            | "ps"
            | "set"
    )
}

/// True for a command that prints the environment.
pub(super) fn prints_environment(command: &str) -> bool {
    matches!(command, "env" | "printenv" | "set" | "export" | "declare" | "compgen")
}

/// True for a function of Python that executes what it is given.
pub(super) fn executes(function: &str) -> bool {
    matches!(
        function,
        "os.system" | "os.popen" | "eval" | "exec" | "builtins.eval" | "builtins.exec" | "os.execv"
    ) || function.strip_prefix("subprocess.").is_some_and(|name| {
        matches!(
            name,
            "run" | "call" | "check_call" | "check_output" | "Popen" | "getoutput" | "getstatusoutput"
        )
    })
}

/// True for a path below a folder of the system.
pub(super) fn is_of_system(path: &str) -> bool {
    [
        "/etc/",
        "/usr/",
        "/bin/",
        "/boot",
        "/lib",
        "/sbin",
        "/var/log",
        "/sys/",
        "/proc/sys",
        "C:\\Windows",
        "/root/",
    ]
    .iter()
    .any(|start| path.starts_with(start))
}

/// True for a loader of YAML that builds any object.
pub(super) fn is_unsafe_loader(name: &str) -> bool {
    matches!(name, "yaml.Loader" | "yaml.UnsafeLoader" | "yaml.FullLoader" | "yaml.loader.UnsafeLoader")
}

/// True for a device that holds a file system.
pub(super) fn is_disk(path: &str) -> bool {
    const DISKS: &[&str] = &["sd", "hd", "vd", "nvme", "xvd", "mmcblk", "disk"];
    path.strip_prefix("/dev/").is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
        || path.to_ascii_lowercase().starts_with(r"\\.\physicaldrive")
}

/// True for the name of a program, a library or a script that a system starts as it is.
pub(super) fn is_program_file(path: &str) -> bool {
    let base = basename(path).to_ascii_lowercase();
    [".exe", ".dll", ".scr", ".bat", ".ps1", ".vbs", ".elf", ".cmd", ".hta"]
        .iter()
        .any(|end| base.ends_with(end))
}

/// True for an object of a library that speaks to a database.
pub(super) fn is_of_database(name: &str) -> bool {
    const LIBRARIES: &[&str] =
        &["mysql", "pg", "postgres", "better-sqlite3", "sqlite", "mssql", "oracledb", "duckdb", "knex"];
    LIBRARIES.iter().any(|library| name.starts_with(library))
}
