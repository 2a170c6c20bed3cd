//! The input of the guard for a request.

use std::ffi::OsString;
use std::path::Path;

use hotcell_config::{EnvSetting, Mode};
use hotcell_guard::Artifact;
use hotcell_report::RunReport;
use hotcell_review::gate::Gate;
use hotcell_review::target::Target;
use hotcell_review::whole_command::{Feed, Input, Whole};
use hotcell_sandbox::policy::{Confinement, Stdin};

use super::{Merged, RunRequest, RunTarget, Source};

impl RunRequest {
    /// Input of the guard: the workspace, the source, and the command as a whole.
    pub(super) fn whole<'i>(
        &'i self,
        cwd: &Path,
        text: Option<Vec<u8>>,
        env: Vec<(OsString, OsString)>,
        input: Option<&'i mut dyn Input>,
    ) -> Whole<'i> {
        let mut whole = Whole {
            workspace: self.workspace.as_ref().map(|w| (cwd.join(w), self.layers())),
            argv: Vec::new(),
            source: None,
            inside: None,
            env,
            feed: match &self.stdin {
                Stdin::Bytes(bytes) => Feed::Bytes(bytes),
                Stdin::Piped => Feed::Stream(input),
                // A person who types is trusted, a file that is typed is not.
                Stdin::Terminal(_) if input.is_some() => Feed::Stream(input),
                _ => Feed::Nothing,
            },
            hidden: Vec::new(),
            own_rules: false,
            beside: Vec::new(),
            provided: Vec::new(),
        };
        match (&self.what, text) {
            (RunTarget::Program(argv), _) => whole.argv.clone_from(argv),
            (RunTarget::Source(language, source, arguments), text) => {
                whole.argv.clone_from(arguments);
                let language = language.as_read();
                let named = |name: String, text: Vec<u8>| {
                    Some(Target::Source(Artifact::new(name, text).run_as(language)))
                };
                match (source, text) {
                    // Scanned with the workspace, as the language that it runs as.
                    (Source::Inside(path, _), _) => whole.inside = Some((path.clone(), language)),
                    (Source::Text(_), Some(text)) => {
                        whole.source = named(self.file_name(&text), text);
                    }
                    (Source::File(file), Some(text)) => {
                        let host = cwd.join(file).canonicalize().ok();
                        whole.inside =
                            host.and_then(|host| self.in_workspace(&host, cwd)).map(|path| (path, language));
                        whole.source = named(file.to_string_lossy().into_owned(), text);
                    }
                    (_, None) => {}
                }
            }
        }
        whole
    }

    /// Scans what a caller typed so far into the terminal of a program of this request: as the program's standard input, with the files of the
    /// workspace that it executes.
    ///
    /// # Errors
    /// An outcome that says what was refused.
    pub fn scan_typed(
        &self,
        gate: &Gate,
        confinement: Confinement,
        cwd: &Path,
        typed: &[u8],
    ) -> Result<(), Box<RunReport>> {
        let set = |setting: &EnvSetting| match setting {
            EnvSetting::Set(name, value) => Some((name.clone(), value.clone())),
            EnvSetting::Pass(_) => None,
        };
        let env = self.settings.env.iter().filter_map(set).collect();
        let whole = Whole { feed: Feed::Bytes(typed), ..self.whole(cwd, None, env, None) };
        gate.check(whole, confinement).map(drop)
    }

    /// True when the gate has nothing to scan, so that no reader is needed.
    pub fn is_plain(&self, merged: &Merged) -> bool {
        let set = |setting: &EnvSetting| match setting {
            EnvSetting::Set(name, value) => (name.clone(), value.clone()),
            EnvSetting::Pass(name) => (name.clone(), std::env::var_os(name).unwrap_or_default()),
        };
        let env = merged.env.iter().map(set).collect();
        let mut whole = self.whole(Path::new("/"), None, env, None);
        let settings = &merged.gate.guard.settings;
        whole.own_rules = settings.rules.is_some();
        settings.mode == Mode::Off || whole.is_empty()
    }

    /// File name for a source from standard input.
    pub(super) fn file_name(&self, text: &[u8]) -> String {
        match &self.what {
            RunTarget::Source(language, ..) => language.file_name(text),
            RunTarget::Program(_) => String::new(),
        }
    }
}
