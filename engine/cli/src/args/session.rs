//! Arguments of `session`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hotcell_config::{EnvSetting, Mode, RunSettings};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::{BindText, LimitSettings};
use hotcell_sessions::{Cell, Language};
use hotcell_verbs::outputs::OutputPattern;

use super::sandbox::{mode, variable};
use super::times::time_limit;
use super::written;

/// Arguments of `hotcell session`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell session [OPTIONS] python|node|typescript|bash|sql\n       \
                      hotcell session create|exec|interrupt|reset|close NAME …\n       \
                      hotcell session list",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "On a terminal it asks for code until Ctrl-D; Ctrl-C interrupts what runs, and variables stay.\n\
                  Without a terminal, standard input is one cell; with --json each line of it is one,\n\
                  {\"code\": \"…\"}, and each answer a line. Named sessions live in hotcell serve.\n\
                  Exit status: 0 good, 1 error in the last cell, 124 it was interrupted, 125 refused or ended."
)]
pub struct SessionArgs {
    #[command(subcommand)]
    pub command: Option<SessionCommand>,
    /// Language: python, node, typescript, bash, sql (SQLite in memory) or postgresql
    #[arg(value_name = "LANG", required = true, value_parser = Language::parse)]
    pub language: Option<Language>,
    #[command(flatten)]
    pub cells: CellArgs,
    #[command(flatten)]
    pub start: StartArgs,
    /// Write a signed statement of the session (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub receipt: Option<PathBuf>,
}

/// Commands on named sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Start a named session in the service
    Create {
        /// Name: letters, digits, - and _
        name: String,
        /// Language
        #[arg(value_name = "LANG", value_parser = Language::parse)]
        language: Language,
        #[command(flatten)]
        start: Box<StartArgs>,
    },
    /// Run a cell in a named session
    #[command(after_help = "Exit status: 0 good, 1 error, 124 interrupted, 125 refused or ended.")]
    Exec {
        /// Name
        name: String,
        /// Code; without it, standard input
        code: Option<String>,
        #[command(flatten)]
        cells: CellArgs,
    },
    /// Interrupt the cell that runs
    Interrupt {
        /// Name
        name: String,
    },
    /// Begin again, empty
    Reset {
        /// Name
        name: String,
    },
    /// End a named session
    Close {
        /// Name
        name: String,
    },
    /// List named sessions
    List,
}

/// Options of cells.
#[derive(Args, Debug)]
pub struct CellArgs {
    /// Time of a cell, which is then interrupted
    #[arg(long, value_name = "TIME", value_parser = time_limit, default_value = "60s")]
    pub cell_timeout: Duration,
    /// Return files below /home/sandbox after each cell; repeatable
    #[arg(long = "output", value_name = "GLOB", value_parser = OutputPattern::parse)]
    pub outputs: Vec<OutputPattern>,
    /// Write pictures and files of cells to this folder
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(written))]
    pub pictures: Option<PathBuf>,
}

impl CellArgs {
    /// A cell with this code.
    pub fn cell(&self, code: String) -> Cell {
        Cell { code, timeout: self.cell_timeout, outputs: self.outputs.clone() }
    }
}

/// Options of a session's start.
#[derive(Args, Debug)]
pub struct StartArgs {
    /// Install a package of PyPI or npm, once; repeatable
    #[arg(long = "package", value_name = "NAME[==VERSION]")]
    pub packages: Vec<String>,
    /// Memory of all processes, without scratch [default: 512M]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Show a file or folder, read-only
    #[arg(long, value_name = "HOST[:INSIDE]", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub ro: Vec<BindText>,
    /// Run in an image instead of the host's /usr (hotcell image list)
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Set a variable, or pass one through
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new().try_map(|text| variable(&text)))]
    pub env: Vec<EnvSetting>,
    /// standard, strict, landlock-only or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Scan each cell first: enforce, report or off [default: enforce]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub guard: Option<Mode>,
}

impl StartArgs {
    /// The options as settings; relative paths are resolved against `cwd`.
    pub fn settings(&self, cwd: &Path) -> RunSettings {
        RunSettings {
            profile: self.profile.clone(),
            limits: LimitSettings { memory: self.memory, ..LimitSettings::default() },
            env: self.env.clone(),
            image: self.image.clone(),
            binds: self.ro.iter().map(|bind| bind.at(cwd, false)).collect(),
            guard: self.guard,
            ..RunSettings::default()
        }
    }

    /// Variables that are to be passed through, but that `is_set` does not know.
    pub fn unset(&self, is_set: impl Fn(&OsStr) -> bool) -> Vec<OsString> {
        let unset = |setting: &EnvSetting| match setting {
            EnvSetting::Pass(name) if !is_set(name) => Some(name.clone()),
            _ => None,
        };
        self.env.iter().filter_map(unset).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::StartArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        start: StartArgs,
    }

    #[test]
    fn unset_names_only_variables_that_are_passed_through_and_unknown() {
        let line = Line::parse_from(["session", "--env", "KNOWN", "--env", "UNKNOWN", "--env", "SET=1"]);
        assert_eq!(line.start.unset(|name| name == "KNOWN"), ["UNKNOWN"]);
    }
}
