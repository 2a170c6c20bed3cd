//! Arguments of `run`, and what becomes of changes.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use hotcell_sandbox::profile::Span;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::request::Language;

use super::{FarmArgs, SandboxArgs, path, written};
use crate::outputs::OutputFiles;

/// Arguments of `hotcell run`.
#[derive(Args, Debug, Default)]
#[command(
    override_usage = "hotcell run [OPTIONS] -- PROGRAM [ARG…]\n       hotcell run [OPTIONS] --lang LANG FILE|- [-- ARG…]",
    after_help = "Also: --remote grpcs://HOST:PORT/INSTANCE (a farm), --json, --state DIR, --config FILE, --quiet, -v\n\
                  Languages: python bash javascript typescript go rust c cpp java sql postgresql\n\
                  Exit status: the program's own; 124 a limit ended it; 125 refused; 126 cannot be executed;\n\
                  127 not found; 128+N killed by signal N; 130 interrupted."
)]
pub struct RunArgs {
    /// Compile and run a source FILE (- for stdin)
    #[arg(long, value_name = "LANG", value_parser = LanguageParser, hide_possible_values = true)]
    pub lang: Option<Language>,
    /// Start in a copy-on-write view of DIR; the original is never written
    #[arg(long, value_name = "DIR", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(path))]
    pub workspace: Option<PathBuf>,
    /// FILE, - or null [default: -, on a terminal null]
    #[arg(long, value_name = "FILE", help_heading = "What it sees")]
    pub stdin: Option<OsString>,
    /// Run it on a farm that speaks the Remote Execution API: grpcs://HOST:PORT/INSTANCE, or fleet for that of the configuration
    #[arg(long, value_name = "FARM", hide = true)]
    pub remote: Option<String>,
    /// With --remote: a result that the farm has of the same run will do
    #[arg(long, hide = true, requires = "remote")]
    pub cached: bool,
    #[command(flatten)]
    pub farm: FarmArgs,
    /// Do not use `hotcell serve`
    #[arg(long = "no-daemon", alias = "cold")]
    pub cold: bool,
    /// Give PROGRAM a terminal [default: shells, editors; -T: never]
    #[arg(short = 't', long, overrides_with = "no_tty")]
    pub tty: bool,
    /// Give PROGRAM no terminal
    #[arg(short = 'T', long, hide = true, overrides_with = "tty")]
    pub no_tty: bool,
    /// With a terminal: time without a key and without output, or none, after which it ends [default: 30m]
    #[arg(long, hide = true, value_name = "TIME", allow_negative_numbers = true)]
    pub idle: Option<Span>,
    /// Pass all output on to a terminal, not only text and colours
    #[arg(long)]
    pub raw: bool,
    /// Write a signed statement of the result (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub receipt: Option<PathBuf>,
    /// Copy files that it wrote to DIR: out=coverage.xml, out='dist/*.whl'
    #[arg(long, value_name = "DIR=GLOB", value_parser = OutputFiles::parse)]
    pub output_files: Vec<OutputFiles>,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// Source file, with --lang
    #[arg(value_name = "FILE", hide = true)]
    pub file: Option<OsString>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true, hide = true)]
    pub program: Vec<OsString>,
}

/// Options for the changes in a workspace.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct KeepArgs {
    /// Print the changes in the workspace
    #[arg(long)]
    pub diff: bool,
    /// Write them to DIR if it exits with 0 (--allow-protected: all)
    #[arg(long)]
    pub commit: bool,
    /// With --commit: also git's own state and files that tools run (.vscode, hidden files …)
    #[arg(long, hide = true)]
    pub allow_protected: bool,
}

impl KeepArgs {
    /// The policy for changes, for the service.
    ///
    /// # Errors
    /// [`ErrorReport`] when the options contradict each other.
    pub fn keep(self, workspace: bool) -> Result<ChangePolicy, ErrorReport> {
        let Self { diff, commit, allow_protected } = self;
        let bad = |option: &str, why: &str, hint: &str| {
            Err(ErrorReport::new(Code::Usage, format!("{option} {why}")).field(option).hint(hint))
        };
        match (workspace, diff, commit, allow_protected) {
            (false, true, _, _) => bad("--diff", "needs a workspace", "name one with --workspace DIR"),
            (false, _, true, _) => bad("--commit", "needs a workspace", "name one with --workspace DIR"),
            (_, _, false, true) => {
                bad("--allow-protected", "means nothing without --commit", "add --commit or take it out")
            }
            _ => Ok(ChangePolicy { diff, commit, allow_protected, ..ChangePolicy::default() }),
        }
    }
}

/// Reads a language by its name or an alias; the names alone are listed.
#[derive(Clone)]
struct LanguageParser;

impl TypedValueParser for LanguageParser {
    type Value = Language;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Language, clap::Error> {
        if let Some(language) = value.to_str().and_then(Language::named) {
            return Ok(language);
        }
        // Words the error, with the nearest name.
        let names = PossibleValuesParser::new(Language::ALL.map(|(name, _)| name));
        names.parse_ref(command, argument, value).map(|_| Language::Python)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Language::ALL.into_iter().map(|(name, _)| PossibleValue::new(name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_read_by_name_or_alias() {
        let read = |word: &str| LanguageParser.parse_ref(&clap::Command::new("run"), None, OsStr::new(word));
        for (word, want) in [
            ("python", Language::Python),
            ("py", Language::Python),
            ("Python3", Language::Python),
            ("JS", Language::JavaScript),
            ("c++", Language::Cpp),
            ("postgres", Language::PostgreSql),
        ] {
            assert_eq!(read(word).unwrap(), want, "{word}");
        }
        for word in ["pyton", "", "ruby"] {
            assert!(read(word).is_err(), "{word:?}");
        }
    }
}
