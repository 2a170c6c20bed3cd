//! Files that programs execute or obey by themselves: at login, at start, by a timer, at each command.

use super::class::{matches, text_is};
use crate::value::{Origin, Value};
use regex::Regex;
use std::sync::LazyLock;

/// Files that a shell, a system or an interpreter executes by itself, wherever they are.
static PERSIST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(\.bashrc|\.zshrc|\.bash_profile|\.profile|\.bash_login|\.zprofile|etc/profile(\.d/|$)|\.bash_logout|config\.fish)$",
        r"|etc/(cron|rc\.local|init\.d|systemd/system|ld\.so\.preload|sudoers|pam\.d|profile\.d|environment$|passwd$|shadow$|hosts$|resolv\.conf$)",
        r"|\.config/(systemd/user|autostart)|launch(agents|daemons)/|start menu.programs.startup|\.ssh[/\\](authorized_keys|config$|rc$)|var/spool/cron",
        r"|(sitecustomize|usercustomize)\.py$|\.pth$|\.git/hooks/|currentversion\\run|lib/systemd/system|\.vscode/tasks\.json|\.xinitrc|\.xprofile"
        , r"|(\x{fffc}|git_?(common_?)?dir\}?)[/\\]hooks[/\\](applypatch-msg|commit-msg|fsmonitor-watchman|post-(applypatch|checkout|commit|merge|receive|rewrite|update)|pre-(applypatch|auto-gc|commit|merge-commit|push|rebase|receive)|prepare-commit-msg|update)$",
        r"|\.ipython[/\\]profile_\w+[/\\]startup|\.jupyter[/\\]jupyter_\w+_config\.py$"
    ))
    .ok()
});

/// Settings below the home folder that programs of the user obey or execute: git, agents, editors, debuggers,
/// interpreters, containers. Those of package managers are [`is_of_packages`]: honest set-ups write them each day.
static PERSIST_AT_HOME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)^[^\n]*[/\\](\.gitconfig|\.config[/\\]git[/\\](config|hooks[/\\].*)",
        r"|\.cargo[/\\]env|\.gradle[/\\](init\.gradle(\.kts)?|init\.d[/\\].*)|\.curlrc|\.wgetrc",
        r"|\.cursor[/\\](mcp|hooks)\.json|\.claude\.json|\.claude[/\\](settings(\.local)?\.json|claude\.md|(commands|agents|skills|hooks|plugins)[/\\].*)",
        r"|claude_desktop_config\.json|\.codex[/\\](config\.toml|agents\.md)|\.gemini[/\\](settings\.json|gemini\.md)|\.codeium[/\\]windsurf[/\\]mcp_config\.json",
        r"|(code|vscodium|cursor)[/\\]user[/\\](settings|tasks|mcp)\.json|\.vimrc|\.exrc|nvim[/\\]init\.(lua|vim)|\.emacs(\.d[/\\]init\.el)?|\.gdbinit|\.lldbinit|\.pdbrc",
        r"|\.zshenv|\.tmux\.conf|\.psqlrc|\.sqliterc|\.irbrc|\.rprofile|\.docker[/\\]cli-plugins[/\\].*|\.local[/\\]share[/\\]applications[/\\].*)$"
    ))
    .ok()
});

/// Settings of package managers: where packages come from, with which password, and by which programs they are built.
static OF_PACKAGES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(^|[/\\])(\.npmrc|\.yarnrc(\.yml)?|\.?pip[/\\]pip\.(conf|ini)|etc[/\\]pip\.conf|uv[/\\]uv\.toml|\.cargo[/\\]config(\.toml)?",
        r"|\.m2[/\\]settings\.xml)$"
    ))
    .ok()
});

/// Programs of the system that other programs start by their bare names, and that no set-up puts into a folder of its own.
const SHADOWED: &[&str] = &[
    "bash",
    "cat",
    "cp",
    "crontab",
    "doas",
    "env",
    "git",
    "gpg",
    "id",
    "login",
    "ls",
    "mv",
    "passwd",
    "ps",
    "rm",
    "scp",
    "sftp",
    "sh",
    "ssh",
    "ssh-add",
    "ssh-agent",
    "ssh-askpass",
    "su",
    "sudo",
    "top",
];

/// True for the path of a program that is found before the system's own one of that name.
fn shadows(path: &str, is_at_home: bool) -> bool {
    let Some((folder, name)) = path.rsplit_once(['/', '\\']) else { return false };
    let last = folder.rsplit(['/', '\\']).next().unwrap_or("");
    let is_searched =
        matches!(folder, "/usr/local/bin" | "/usr/local/sbin") || is_at_home && is_for_programs(last);
    is_searched && SHADOWED.contains(&name)
}

fn is_for_programs(folder: &str) -> bool {
    matches!(folder, "bin" | ".bin" | "sbin" | "tools" | ".tools" | "shims" | ".shims" | "path" | ".path")
}

/// True for a path below the home folder, in any spelling.
fn is_at_home(value: &Value) -> bool {
    let begins = |text: &str| {
        ["~", "$HOME", "${HOME}", "/root/", "/home/", "/Users/", "%USERPROFILE%", "%APPDATA%"]
            .iter()
            .any(|home| text.starts_with(home))
    };
    value.origin.has(Origin::HOME) || text_is(value, begins)
}

/// True for the path of such a file.
pub(super) fn is_persist(value: &Value) -> bool {
    let at_home = is_at_home(value);
    matches(&PERSIST, value)
        || at_home && matches(&PERSIST_AT_HOME, value)
        || text_is(value, |text| shadows(text, at_home))
}

/// True for the path of a package manager's settings of the user or of the system.
pub(super) fn is_of_packages(value: &Value) -> bool {
    let of_the_system = |text: &str| text.starts_with("/etc/");
    (is_at_home(value) || text_is(value, of_the_system)) && matches(&OF_PACKAGES, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_at_home_persist_and_those_of_a_project_do_not() {
        for (path, is) in [
            ("~/.gitconfig", true),
            ("/home/me/.cursor/mcp.json", true),
            ("~/.claude/commands/x.md", true),
            ("%APPDATA%\\Code\\User\\settings.json", true),
            ("~/.config/nvim/init.lua", true),
            (".npmrc", false),
            ("$HOME/.npmrc", false),
            ("~/.m2/settings.xml", false),
            ("/home/me/.config/pip/pip.conf", false),
            ("~/.cargo/config.toml", false),
            ("project/.cursor/mcp.json", false),
            ("~/.config/todo/config.toml", false),
            ("~/notes/gitconfig", false),
            ("~/.cargo/registry/x", false),
            ("~/.bashrc", true),
            ("\u{fffc}/hooks/post-commit", true),
            ("${GIT_DIR}/hooks/pre-push", true),
            ("src/hooks/pre-push", false),
            ("\u{fffc}/hooks/use-state.ts", false),
            ("~/.local/bin/git", true),
            ("$HOME/.tools/ssh", true),
            ("/usr/local/bin/sudo", true),
            ("~/.local/bin/mytool", false),
            ("~/projects/git", false),
            ("/usr/bin/git", false),
            ("/tmp/fake/bin/git", false),
            ("tests/bin/git", false),
        ] {
            assert_eq!(is_persist(&Value::text(path)), is, "{path}");
        }
    }

    #[test]
    fn settings_of_package_managers_are_known_at_home_and_in_the_system() {
        for (path, is) in [
            ("~/.npmrc", true),
            ("$HOME/.m2/settings.xml", true),
            ("/root/.cargo/config", true),
            ("/home/me/.cargo/config.toml", true),
            ("~/.config/pip/pip.conf", true),
            ("~/.pip/pip.conf", true),
            ("~/.config/uv/uv.toml", true),
            ("/etc/pip.conf", true),
            (".npmrc", false),
            ("project/.cargo/config.toml", false),
            ("~/.bashrc", false),
        ] {
            assert_eq!(is_of_packages(&Value::text(path)), is, "{path}");
        }
    }
}
