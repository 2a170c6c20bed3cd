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

    /// The client of this name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }
}
