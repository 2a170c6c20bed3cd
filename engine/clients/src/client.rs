//! The MCP clients, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// Claude Code
    ClaudeCode,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Codex
    Codex,
    /// Gemini CLI
    GeminiCli,
    /// opencode
    Opencode,
    /// Zed
    Zed,
    /// Copilot CLI
    Copilot,
    /// Cline
    Cline,
    /// Continue
    Continue,
    /// Qwen Code
    QwenCode,
    /// Goose
    Goose,
}

impl Client {
    /// All clients.
    pub const ALL: [Self; 13] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::Vscode,
        Self::Codex,
        Self::GeminiCli,
        Self::Opencode,
        Self::Zed,
        Self::Copilot,
        Self::Cline,
        Self::Continue,
        Self::QwenCode,
        Self::Goose,
    ];

    /// Programs by which the client is started. Names that other programs commonly have are left out (`zed` is
    /// also OpenZFS's daemon, `goose` a migrator of databases), as are clients without a command.
    #[must_use]
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["claude"],
            Self::Cursor => &["cursor"],
            Self::Vscode => &["code"],
            Self::Codex => &["codex"],
            Self::GeminiCli => &["gemini"],
            Self::Opencode => &["opencode"],
            Self::Zed => &["zeditor"],
            Self::Copilot => &["copilot"],
            Self::Cline => &["cline"],
            Self::QwenCode => &["qwen"],
            Self::ClaudeDesktop | Self::Continue | Self::Goose => &[],
        }
    }

    /// The client of this name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::Places;

    #[test]
    fn clients_are_found_by_their_own_files_folders_and_programs() {
        let places = Places { home: Some("/home/me".into()), ..Places::default() };
        let moved = Places { codex: Some("/srv/codex".into()), ..places.clone() };
        let path: Vec<PathBuf> = vec!["/usr/bin".into()];
        for (there, places, want) in [
            (&[][..], &places, &[][..]),
            // Folders that all programs share say nothing.
            (&["/home/me", "/home/me/.config", "/usr/bin"], &places, &[]),
            (&["/home/me/.claude.json"], &places, &[Client::ClaudeCode]),
            (&["/home/me/.codex"], &places, &[Client::Codex]),
            (&["/home/me/.codex"], &moved, &[]),
            (&["/srv/codex"], &moved, &[Client::Codex]),
            (&["/home/me/.config/Code", "/home/me/.cline"], &places, &[Client::Vscode, Client::Cline]),
            (&["/usr/bin/opencode", "/usr/bin/gemini"], &places, &[Client::GeminiCli, Client::Opencode]),
            // OpenZFS's daemon.
            (&["/usr/bin/zed"], &places, &[]),
        ] {
            let exists = |path: &Path| there.iter().any(|one| Path::new(one) == path);
            let found: Vec<_> =
                Client::ALL.into_iter().filter(|client| client.is_found(places, &path, exists)).collect();
            assert_eq!(found, want, "{there:?}");
        }
    }
}
