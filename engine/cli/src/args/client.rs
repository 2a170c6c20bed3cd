//! The MCP clients that `hotcell mcp` installs itself in.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
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
