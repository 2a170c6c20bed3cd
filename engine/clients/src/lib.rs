//! MCP clients: where each keeps its servers, and in which format.
//!
//! | module | idea |
//! | --- | --- |
//! | this | the clients, as a table |
//! | [`Client`] | their names |
//! | [`json`], [`toml`], [`yaml`] | add, read and remove an entry in a text; pure, everything else is kept byte for byte |
//! | `proved` | nothing but the entry differs, for TOML and YAML; pure |
//! | [`fetched`] | entries by which `npx` or `uvx` starts hotcell; pure |
//! | [`mod@file`] | reads and replaces a configuration file without losing anything |
//!
//! ```
//! use hotcell_clients::{Client, Entry};
//! let entry = Entry { command: "hotcell".into(), args: vec!["mcp".into()], ..Entry::default() };
//! let text = Client::Cursor.with(None, "hotcell", &entry, false)?;
//! assert!(text.contains("\"mcpServers\""));
//! # Ok::<(), hotcell_clients::Problem>(())
//! ```

#![forbid(unsafe_code)]

mod client;
pub mod fetched;
pub mod file;
#[cfg(test)]
mod golden;
pub mod json;
mod proved;
pub mod toml;
pub mod wrapped;
pub mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use client::Client;

/// Command that starts a server, from a client's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Program: a path, or a name that is looked up on `PATH`.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables in addition to the client's own.
    pub env: BTreeMap<String, String>,
}

/// Contents of an entry in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A program to start.
    Program(Entry),
    /// A server that is there already.
    Address(Address),
    /// An entry of another form, with the reason why it does not start a program.
    Other(String),
}

/// Where a server is that no command starts, as a client's file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// `http://` or `https://`.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values the client takes from variables of the environment, with the names of these.
    pub from_variables: BTreeMap<String, String>,
    /// The older transport, in which answers come by another connection.
    pub older: bool,
    /// A program that gives the client further headers.
    pub helper: bool,
}

/// Why a text cannot be worked on. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is not in the format that the client reads.
    #[error("line {line}, column {column}: {why}")]
    Broken {
        /// Line number, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// Description of the error.
        why: String,
    },
    /// A value that should be a container is not.
    #[error("{0} is not {1}")]
    Form(String, &'static str),
    /// A key occurs several times; parsers disagree on which one counts.
    #[error("{0} stands there more than once")]
    Twice(String),
    /// A different entry of this name exists.
    #[error("there is an entry {0} already")]
    Exists(String),
    /// There is no entry of this name; with the names of existing entries.
    #[error("there is no entry {0}")]
    Missing(String, Vec<String>),
    /// The result would differ from the original in more than the entry.
    #[error("it cannot be changed without changing other parts of it")]
    Unsafe,
}

/// Format of a server's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `command`, `args` and `env`.
    Plain,
    /// Like [`Self::Plain`], with `"type": "stdio"`.
    Typed,
    /// `"type": "local"`, `command` as a list, `environment`.
    Local,
    /// `"type": "local"` with `command`, `args`, and a selection of its tools.
    Tools,
    /// A table of TOML.
    Table,
    /// A mapping of YAML, with `cmd` and `envs`.
    Mapping,
}

/// Properties of a client's file.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Display name of the client.
    pub title: &'static str,
    /// Key that contains all servers.
    pub key: &'static str,
    /// Format of an entry.
    pub form: Form,
    /// Whether comments and trailing commas are allowed: clients with plain JSON cannot read a file that has
    /// them.
    pub comments: bool,
    /// Page of the client's own documentation that describes the file.
    pub page: &'static str,
    /// How to make the client read the file again.
    pub then: &'static str,
    /// Other settings that decide whether the client starts the server, and that cannot be seen from here.
    pub unseen: Option<&'static str>,
}

/// Folders of the user.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, if it is set.
    pub config: Option<PathBuf>,
    /// `$CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// `$CLINE_MCP_SETTINGS_PATH`, a file.
    pub cline: Option<PathBuf>,
    /// `$COPILOT_HOME`.
    pub copilot: Option<PathBuf>,
    /// The current folder.
    pub project: PathBuf,
}

impl Places {
    /// Folders from the environment.
    #[must_use]
    pub fn here() -> Self {
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        Self {
            home: folder("HOME"),
            config: folder("XDG_CONFIG_HOME"),
            codex: folder("CODEX_HOME"),
            claude: folder("CLAUDE_CONFIG_DIR"),
            cline: folder("CLINE_MCP_SETTINGS_PATH"),
            copilot: folder("COPILOT_HOME"),
            project: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        }
    }

    /// Folder of configuration: `$XDG_CONFIG_HOME`, otherwise `~/.config`.
    #[must_use]
    pub fn config(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))
    }
}

impl Entry {
    /// Whether the entry starts a server of hotcell's.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let name = Path::new(&self.command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let this = hotcell_sandbox::own_program::path().ok();
        let is_this = this.is_some_and(|this| this == Path::new(&self.command));
        let args = match fetched::Fetcher::behind(&self.command, &self.args) {
            Some(behind) => behind,
            None if name == "hotcell" || is_this => &self.args,
            None => return false,
        };
        args.first().is_some_and(|first| first == "mcp")
    }
}

impl Client {
    /// Name of the client on the command line.
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
            Self::Copilot => "copilot",
            Self::Cline => "cline",
            Self::Continue => "continue",
            Self::QwenCode => "qwen-code",
            Self::Goose => "goose",
        }
    }

    /// Properties of the client's file.
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
                unseen: Some("a project's own entry, which you approve once (/mcp)"),
            },
            Self::ClaudeDesktop => Kind {
                title: "Claude Desktop",
                key: servers,
                form: Form::Plain,
                comments: false,
                page: "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
                then: "quit it and start it again",
                unseen: None,
            },
            Self::Cursor => Kind {
                title: "Cursor",
                key: servers,
                form: Form::Plain,
                comments: true,
                page: "https://cursor.com/docs/mcp",
                then: "start it again, and switch the server on where it lists them",
                unseen: Some("the switch in its list of servers"),
            },
            Self::Vscode => Kind {
                title: "VS Code",
                key: "servers",
                form: Form::Typed,
                comments: true,
                page: "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
                then: "MCP: List Servers starts it, after asking whether you trust it",
                unseen: Some("whether you trust the server (MCP: List Servers)"),
            },
            Self::Codex => Kind {
                title: "Codex",
                key: "mcp_servers",
                form: Form::Table,
                comments: true,
                page: "https://developers.openai.com/codex/mcp",
                then: "start a new session; /mcp shows it",
                unseen: None,
            },
            Self::GeminiCli => Kind {
                title: "Gemini CLI",
                key: servers,
                form: Form::Plain,
                comments: true,
                page: "https://geminicli.com/docs/tools/mcp-server",
                then: "start a new session; /mcp shows it",
                unseen: Some("whether the folder is trusted (/permissions): in others it starts no server"),
            },
            Self::Opencode => Kind {
                title: "opencode",
                key: "mcp",
                form: Form::Local,
                comments: true,
                page: "https://opencode.ai/docs/mcp-servers",
                then: "start a new session; opencode mcp list shows it",
                unseen: None,
            },
            Self::Zed => Kind {
                title: "Zed",
                key: "context_servers",
                form: Form::Plain,
                comments: true,
                page: "https://zed.dev/docs/ai/mcp",
                then: "Zed reads it at once; the settings of its agent panel show it",
                unseen: None,
            },
            Self::Copilot => Kind {
                title: "Copilot CLI",
                key: servers,
                form: Form::Tools,
                comments: false,
                page: "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
                then: "start a new session; /mcp show shows it",
                unseen: None,
            },
            Self::Cline => Kind {
                title: "Cline",
                key: servers,
                form: Form::Plain,
                comments: false,
                page: "https://docs.cline.bot/mcp/configuring-mcp-servers",
                then: "start a new session; cline mcp list shows it",
                unseen: None,
            },
            Self::Continue => Kind {
                title: "Continue",
                key: servers,
                form: Form::Plain,
                comments: false,
                page: "https://docs.continue.dev/customize/deep-dives/mcp",
                then: "start a new session; its list of tools shows it",
                unseen: Some("an entry of the same name in config.yaml, which counts in place of this one"),
            },
            Self::QwenCode => Kind {
                title: "Qwen Code",
                key: servers,
                form: Form::Plain,
                comments: true,
                page: "https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp",
                then: "start a new session; /mcp shows it",
                unseen: Some("whether the folder is trusted: in others it may start no server"),
            },
            Self::Goose => Kind {
                title: "Goose",
                key: "extensions",
                form: Form::Mapping,
                comments: true,
                page: "https://block.github.io/goose/docs/guides/config-files",
                then: "start a new session; goose configure lists it",
                unseen: None,
            },
        }
    }

    /// Path of the client's file: the user's own, or that of the project in the current folder. `None` if
    /// there is no such file, or no home folder. `exists` tells whether a path exists: one client has a
    /// choice of two.
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
                Self::Copilot | Self::Cline | Self::Goose => None,
                Self::Continue => inside(".continue/mcpServers/hotcell.json"),
                Self::QwenCode => inside(".qwen/settings.json"),
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
            Self::Copilot => match &places.copilot {
                Some(folder) => Some(folder.join("mcp-config.json")),
                None => home(".copilot/mcp-config.json"),
            },
            Self::Cline => match &places.cline {
                Some(file) => Some(file.clone()),
                None => home(".cline/data/settings/cline_mcp_settings.json"),
            },
            Self::Continue => home(".continue/mcpServers/hotcell.json"),
            Self::QwenCode => home(".qwen/settings.json"),
            Self::Goose => config("goose/config.yaml"),
        }
    }

    /// Whether the client seems to be installed here: its file or its own folder of settings exists, or one of
    /// its [`programs`](Self::programs) is in a folder of `path`. `exists` tells whether a path exists.
    #[must_use]
    pub fn is_found(self, places: &Places, path: &[PathBuf], exists: impl Fn(&Path) -> bool) -> bool {
        let shared = [places.config(), places.home.clone()];
        let is_shared = |folder: &Path| shared.iter().any(|place| place.as_deref() == Some(folder));
        let settings = self.file(false, places, &exists).is_some_and(|file| {
            // Below the folders that all programs share; elsewhere the folder that holds the file.
            let own = file.ancestors().find(|at| at.parent().is_some_and(is_shared));
            exists(&file) || own.or(file.parent()).is_some_and(&exists)
        });
        settings || path.iter().any(|dir| self.programs().iter().any(|name| exists(&dir.join(name))))
    }

    /// Another file in the same folder that the client also reads and merges with the first.
    #[must_use]
    pub fn beside(self, file: &Path) -> Option<PathBuf> {
        let name = file.file_name()?.to_str()?;
        match (self, name) {
            (Self::Opencode, "opencode.jsonc") => Some(file.with_file_name("opencode.json")),
            (Self::Opencode, "opencode.json") => Some(file.with_file_name("opencode.jsonc")),
            _ => None,
        }
    }

    /// Adds an entry to the text `old`, or makes a new text. Adding the same entry again changes nothing.
    ///
    /// # Errors
    /// [`Problem`] when the text cannot be edited; a different entry is replaced only with `replace`.
    pub fn with(
        self,
        old: Option<&str>,
        name: &str,
        entry: &Entry,
        replace: bool,
    ) -> Result<String, Problem> {
        match self.kind().form {
            Form::Table => toml::with(self.kind().key, old, name, entry, replace),
            Form::Mapping => yaml::with(self.kind().key, old, name, entry, replace),
            _ => json::with(&self.kind(), old, name, entry, replace),
        }
    }

    /// Removes an entry from a text.
    ///
    /// # Errors
    /// [`Problem`] when the text cannot be edited, or there is no such entry.
    pub fn without(self, old: &str, name: &str) -> Result<String, Problem> {
        match self.kind().form {
            Form::Table => toml::without(self.kind().key, old, name),
            Form::Mapping => yaml::without(self.kind().key, old, name),
            _ => json::without(&self.kind(), old, name),
        }
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`Problem`] when the text cannot be parsed, or there is no such entry.
    pub fn read(self, text: &str, name: &str) -> Result<Found, Problem> {
        match self.kind().form {
            Form::Table => toml::read(self.kind().key, text, name),
            Form::Mapping => yaml::read(self.kind().key, text, name),
            _ => json::read(&self.kind(), text, name),
        }
    }
}

/// Interprets an entry as the client would, from its value in either format.
#[must_use]
pub fn understood(said: &serde_json::Value) -> Found {
    use serde_json::Value;
    let Value::Object(fields) = said else { return Found::Other("it is not a table of settings".to_owned()) };
    let off = fields.get("enabled") == Some(&Value::Bool(false))
        || fields.get("disabled") == Some(&Value::Bool(true));
    if off {
        return Found::Other("it is switched off there".to_owned());
    }
    if let Some(url) =
        ["url", "httpUrl", "serverUrl", "uri"].iter().find_map(|key| fields.get(*key)?.as_str())
    {
        return Found::Address(address(url, fields));
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
        None if fields.get("cmd").is_some_and(Value::is_string) => {
            fields["cmd"].as_str().unwrap_or_default().to_owned()
        }
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
        .or_else(|| fields.get("envs"))
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

/// The address of an entry with its headers, by whatever names the clients have for them.
fn address(url: &str, fields: &serde_json::Map<String, serde_json::Value>) -> Address {
    use serde_json::Value;
    let texts = |value: Option<&Value>| {
        let all = value.and_then(Value::as_object).into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect::<BTreeMap<_, _>>()
    };
    let within = fields.get("requestOptions").or_else(|| fields.get("requestInit"));
    let mut headers = texts(within.and_then(|options| options.get("headers")));
    headers.extend(["headers", "http_headers"].iter().flat_map(|key| texts(fields.get(*key))));
    let mut from_variables = texts(fields.get("env_http_headers"));
    if let Some(variable) = fields.get("bearer_token_env_var").and_then(Value::as_str) {
        from_variables.insert("Authorization".to_owned(), variable.to_owned());
    }
    let kind = fields.get("type").or_else(|| fields.get("transport")).and_then(Value::as_str);
    let older = kind.is_some_and(|kind| kind == "sse");
    let helper = fields.contains_key("headersHelper");
    Address { url: url.to_owned(), headers, from_variables, older, helper }
}
