//! MCP clients: where each keeps its servers, and in which form.
//!
//! | module | idea |
//! | --- | --- |
//! | this | the clients, as a table |
//! | [`json`], [`toml`] | an entry put into a text, read from it, taken out; pure, everything else stays byte for byte |
//! | [`mod@file`] | reading and replacing a configuration file without losing anything |
//! | [`install`], [`check`] | the commands |
//!
//! It stands in the command line's crate: no other part of hotcell has to do with what belongs to other programs.

pub mod check;
pub mod file;
#[cfg(test)]
mod golden;
pub mod install;
pub mod json;
pub mod toml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
}

/// How a program is started, as a client's file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// A name that is looked up on `PATH`, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside the client's own.
    pub env: BTreeMap<String, String>,
}

/// What an entry of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A program to start.
    Program(Entry),
    /// A server that is there already, at this address.
    Address(String),
    /// An entry of another form: why it is none that starts a program.
    Other(String),
}

/// Why a text cannot be worked on. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not of the form that the client reads.
    #[error("line {line}, column {column}: {why}")]
    Broken {
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong there.
        why: String,
    },
    /// What should hold others does not.
    #[error("{0} is not {1}")]
    Form(String, &'static str),
    /// The same key stands there several times; readers disagree which counts.
    #[error("{0} stands there more than once")]
    Twice(String),
    /// There is an entry of this name already, and it says something else.
    #[error("there is an entry {0} already")]
    Exists(String),
    /// There is no entry of this name; those that there are.
    #[error("there is no entry {0}")]
    Missing(String, Vec<String>),
    /// The text would not be what it was with the entry, and nothing else.
    #[error("it cannot be changed without changing other parts of it")]
    Unsafe,
}

/// How a client writes a server down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `command`, `args` and `env`.
    Plain,
    /// The same with `"type": "stdio"`.
    Typed,
    /// `"type": "local"`, `command` as a list, `environment`.
    Local,
    /// A table of TOML.
    Table,
}

/// What makes a client's file its own.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The client's name for people.
    pub title: &'static str,
    /// The key above all servers.
    pub key: &'static str,
    /// How one is written.
    pub form: Form,
    /// Comments, and commas behind the last: clients with plain JSON cannot read a file that has them.
    pub comments: bool,
    /// The page of the client's own documentation that says so.
    pub page: &'static str,
    /// What makes the client read the file again.
    pub then: &'static str,
}

/// Folders of the person who types.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, where it is set.
    pub config: Option<PathBuf>,
    /// `$CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// The current folder.
    pub project: PathBuf,
}

impl Places {
    /// Those of the environment.
    #[must_use]
    pub fn here() -> Self {
        let folder = |name| crate::folder(name).filter(|p| p.is_absolute());
        Self {
            home: folder("HOME"),
            config: folder("XDG_CONFIG_HOME"),
            codex: folder("CODEX_HOME"),
            claude: folder("CLAUDE_CONFIG_DIR"),
            project: crate::current_folder(),
        }
    }

    fn config(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))
    }
}

impl Client {
    /// The name by which the command line knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Opencode => "opencode",
            Self::Zed => "zed",
        }
    }

    /// What its file looks like.
    #[must_use]
    pub fn kind(self) -> Kind {
        let servers = "mcpServers";
        match self {
            Self::ClaudeCode => Kind {
                title: "Claude Code",
                key: servers,
                form: Form::Typed,
                comments: false,
                page: "https://code.claude.com/docs/en/mcp",
                then: "start a new session; /mcp shows it",
            },
            Self::ClaudeDesktop => Kind {
                title: "Claude Desktop",
                key: servers,
                form: Form::Plain,
                comments: false,
                page: "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
                then: "quit it and start it again",
            },
            Self::Cursor => Kind {
                title: "Cursor",
                key: servers,
                form: Form::Plain,
                comments: true,
                page: "https://cursor.com/docs/mcp",
                then: "start it again, and switch the server on where it lists them",
            },
            Self::Vscode => Kind {
                title: "VS Code",
                key: "servers",
                form: Form::Typed,
                comments: true,
                page: "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
                then: "MCP: List Servers starts it, after asking whether you trust it",
            },
            Self::Codex => Kind {
                title: "Codex",
                key: "mcp_servers",
                form: Form::Table,
                comments: true,
                page: "https://developers.openai.com/codex/mcp",
                then: "start a new session; /mcp shows it",
            },
            Self::GeminiCli => Kind {
                title: "Gemini CLI",
                key: servers,
                form: Form::Plain,
                comments: true,
                page: "https://geminicli.com/docs/tools/mcp-server",
                then: "start a new session; /mcp shows it",
            },
            Self::Opencode => Kind {
                title: "opencode",
                key: "mcp",
                form: Form::Local,
                comments: true,
                page: "https://opencode.ai/docs/mcp-servers",
                then: "start a new session; opencode mcp list shows it",
            },
            Self::Zed => Kind {
                title: "Zed",
                key: "context_servers",
                form: Form::Plain,
                comments: true,
                page: "https://zed.dev/docs/ai/mcp",
                then: "Zed reads it at once; the settings of its agent panel show it",
            },
        }
    }

    /// Where its file is: for one person, or for the project in the current folder. `None` where there is no such file, or
    /// no home folder to look in. `exists` says whether a file is there: one client has a choice of two.
    #[must_use]
    pub fn file(self, project: bool, places: &Places, exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let either = |folder: PathBuf| {
            let commented = folder.join("opencode.jsonc");
            if exists(&commented) { commented } else { folder.join("opencode.json") }
        };
        if project {
            let inside = |name: &str| Some(places.project.join(name));
            return match self {
                Self::ClaudeCode => inside(".mcp.json"),
                Self::ClaudeDesktop => None,
                Self::Cursor => inside(".cursor/mcp.json"),
                Self::Vscode => inside(".vscode/mcp.json"),
                Self::Codex => inside(".codex/config.toml"),
                Self::GeminiCli => inside(".gemini/settings.json"),
                Self::Opencode => Some(either(places.project.clone())),
                Self::Zed => inside(".zed/settings.json"),
            };
        }
        let home = |name: &str| Some(places.home.as_ref()?.join(name));
        let config = |name: &str| Some(places.config()?.join(name));
        match self {
            Self::ClaudeCode => match &places.claude {
                Some(folder) => Some(folder.join(".claude.json")),
                None => home(".claude.json"),
            },
            Self::ClaudeDesktop => config("Claude/claude_desktop_config.json"),
            Self::Cursor => home(".cursor/mcp.json"),
            Self::Vscode => config("Code/User/mcp.json"),
            Self::Codex => match &places.codex {
                Some(folder) => Some(folder.join("config.toml")),
                None => home(".codex/config.toml"),
            },
            Self::GeminiCli => home(".gemini/settings.json"),
            Self::Opencode => config("opencode").map(either),
            Self::Zed => config("zed/settings.json"),
        }
    }

    /// A text with an entry: in `old`, or alone. The same entry again changes nothing.
    ///
    /// # Errors
    /// [`Problem`]: nothing is replaced unless `replace` says so.
    pub fn with(
        self,
        old: Option<&str>,
        name: &str,
        entry: &Entry,
        replace: bool,
    ) -> Result<String, Problem> {
        match self.kind().form {
            Form::Table => toml::with(self.kind().key, old, name, entry, replace),
            _ => json::with(&self.kind(), old, name, entry, replace),
        }
    }

    /// The text without an entry.
    ///
    /// # Errors
    /// [`Problem`], also when there is none.
    pub fn without(self, old: &str, name: &str) -> Result<String, Problem> {
        match self.kind().form {
            Form::Table => toml::without(self.kind().key, old, name),
            _ => json::without(&self.kind(), old, name),
        }
    }

    /// What an entry says.
    ///
    /// # Errors
    /// [`Problem`], also when there is none.
    pub fn read(self, text: &str, name: &str) -> Result<Found, Problem> {
        match self.kind().form {
            Form::Table => toml::read(self.kind().key, text, name),
            _ => json::read(&self.kind(), text, name),
        }
    }
}

/// An entry as the client would understand it, from what a file says of it in either form.
fn understood(said: &serde_json::Value) -> Found {
    use serde_json::Value;
    let Value::Object(fields) = said else { return Found::Other("it is not a table of settings".to_owned()) };
    for key in ["url", "httpUrl", "serverUrl"] {
        if let Some(address) = fields.get(key).and_then(Value::as_str) {
            return Found::Address(address.to_owned());
        }
    }
    let off = fields.get("enabled") == Some(&Value::Bool(false))
        || fields.get("disabled") == Some(&Value::Bool(true));
    if off {
        return Found::Other("it is switched off there".to_owned());
    }
    let words = |value: Option<&Value>| -> Option<Vec<String>> {
        match value {
            None => Some(Vec::new()),
            Some(Value::Array(all)) => all.iter().map(|v| v.as_str().map(str::to_owned)).collect(),
            Some(_) => None,
        }
    };
    let Some(mut args) = words(fields.get("args")) else {
        return Found::Other("its args are not a list of texts".to_owned());
    };
    let command = match fields.get("command") {
        Some(Value::String(command)) => command.clone(),
        Some(list @ Value::Array(_)) => match words(Some(list)) {
            Some(mut all) if !all.is_empty() => {
                args = all.split_off(1);
                all.remove(0)
            }
            _ => return Found::Other("its command is not a list of texts".to_owned()),
        },
        _ => return Found::Other("it has no command".to_owned()),
    };
    let mut env = BTreeMap::new();
    for (name, value) in fields
        .get("env")
        .or_else(|| fields.get("environment"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let Some(value) = value.as_str() else {
            return Found::Other(format!("its variable {name} is not a text"));
        };
        env.insert(name.clone(), value.to_owned());
    }
    Found::Program(Entry { command, args, env })
}
