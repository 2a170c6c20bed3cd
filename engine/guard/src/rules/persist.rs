//! Files that programs execute or obey by themselves: at login, at start, by a timer, at each command.

use super::class::{matches, text_is};
use crate::value::{Origin, Value};
use regex::Regex;
use std::sync::LazyLock;

/// Files that a shell, a system or an interpreter executes by itself, wherever they are.
static PERSIST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(\.bashrc|\.zshrc|\.bash_profile|\.profile|\.bash_login|\.zprofile|etc/profile(\.d/|$)|\.bash_logout|config\.fish)$",
        r"|etc/(cron|rc\.local|init\.d|systemd/system|ld\.so\.preload|sudoers|pam\.d|profile\.d|environment$|passwd$|shadow$|hosts$|resolv\.conf$|pip\.conf$)",
        r"|\.config/(systemd/user|autostart)|launch(agents|daemons)/|start menu.programs.startup|\.ssh[/\\](authorized_keys|config$|rc$)|var/spool/cron",
        r"|(sitecustomize|usercustomize)\.py$|\.pth$|\.git/hooks/|currentversion\\run|lib/systemd/system|\.vscode/tasks\.json|\.xinitrc|\.xprofile"
        , r"|\.ipython[/\\]profile_\w+[/\\]startup|\.jupyter[/\\]jupyter_\w+_config\.py$|[./]pip[/\\]pip\.(conf|ini)$"
    ))
    .ok()
});

/// Settings below the home folder that programs of the user obey or execute: git, package managers, agents, editors,
/// debuggers, interpreters, containers.
static PERSIST_AT_HOME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)^[^\n]*[/\\](\.gitconfig|\.config[/\\]git[/\\](config|hooks[/\\].*)|\.npmrc|\.yarnrc(\.yml)?|\.pip[/\\]pip\.conf|\.config[/\\]uv[/\\]uv\.toml",
        r"|\.cargo[/\\](config(\.toml)?|env)|\.m2[/\\]settings\.xml|\.gradle[/\\](init\.gradle(\.kts)?|init\.d[/\\].*)|\.curlrc|\.wgetrc",
        r"|\.cursor[/\\](mcp|hooks)\.json|\.claude\.json|\.claude[/\\](settings(\.local)?\.json|claude\.md|(commands|agents|skills|hooks|plugins)[/\\].*)",
        r"|claude_desktop_config\.json|\.codex[/\\](config\.toml|agents\.md)|\.gemini[/\\](settings\.json|gemini\.md)|\.codeium[/\\]windsurf[/\\]mcp_config\.json",
        r"|(code|vscodium|cursor)[/\\]user[/\\](settings|tasks|mcp)\.json|\.vimrc|\.exrc|nvim[/\\]init\.(lua|vim)|\.emacs(\.d[/\\]init\.el)?|\.gdbinit|\.lldbinit|\.pdbrc",
        r"|\.zshenv|\.tmux\.conf|\.psqlrc|\.sqliterc|\.irbrc|\.rprofile|\.docker[/\\]cli-plugins[/\\].*|\.local[/\\]share[/\\]applications[/\\].*)$"
    ))
    .ok()
});

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
    matches(&PERSIST, value) || is_at_home(value) && matches(&PERSIST_AT_HOME, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_at_home_persist_and_those_of_a_project_do_not() {
        for (path, is) in [
            ("~/.gitconfig", true),
            ("$HOME/.npmrc", true),
            ("/home/me/.cursor/mcp.json", true),
            ("~/.claude/commands/x.md", true),
            ("%APPDATA%\\Code\\User\\settings.json", true),
            ("~/.config/nvim/init.lua", true),
            (".npmrc", false),
            ("project/.cursor/mcp.json", false),
            ("~/.config/todo/config.toml", false),
            ("~/notes/gitconfig", false),
            ("~/.cargo/registry/x", false),
            ("~/.bashrc", true),
        ] {
            assert_eq!(is_persist(&Value::text(path)), is, "{path}");
        }
    }
}
