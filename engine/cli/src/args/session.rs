//! Arguments of `session`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_config::{EnvSetting, Mode, RunSettings};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::{BindText, LimitSettings};
use hotcell_sandbox::units::parse_duration;
use hotcell_sessions::Language;

use super::path;
use super::sandbox::{mode, variable};

/// Arguments of `hotcell session`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell session [OPTIONS] python|node|bash|sql",
    after_help = "On a terminal it asks for code until Ctrl-D; Ctrl-C interrupts what runs, and variables stay.\n\
                  Without a terminal, standard input is one cell; with --json each line of it is one,\n\
                  {\"code\": \"…\"}, and each answer a line. Exit status: 0 good, 1 error in the last cell,\n\
                  124 it was interrupted, 125 refused or ended, 130 interrupted."
)]
pub struct SessionArgs {
    /// Language: python, node, bash or sql (SQLite in memory)
    #[arg(value_name = "LANG", value_parser = Language::parse)]
    pub language: Language,
    /// Time of a cell, which is then interrupted
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub cell_timeout: Duration,
    /// Write pictures to this folder
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub pictures: Option<PathBuf>,
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

impl SessionArgs {
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
}
