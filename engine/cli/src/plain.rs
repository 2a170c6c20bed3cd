//! A plain `hotcell run`: a program in a sandbox, with its streams, its answer and its row in the history.
//!
//! A program that has this path alone ([`crate::front`]) starts in the time of a small one. It reaches no proxy, no image, no workspace and no
//! parser of the guard, which is another process; a run that may need more is left to the whole program before anything of it has begun.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hotcell_config::{Configuration, Settings};
use hotcell_report::RunReport;
use hotcell_review::whole_command::Input;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::Stdin;
use hotcell_sandbox::{Engine, Limits};
use hotcell_state::history::{History, Stored};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateError, StateFolder};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::execute_policy;
use hotcell_verbs::request::{PlainRun, RunRequest, RunTarget};

use crate::args::{Common, LogFormat, RunArgs, parse_plain};
use crate::backend::Backend;
use crate::context::{configuration, current_folder, runtime, state};
use crate::render::scan;
use crate::run::{Passed, input, running, say_unseen, told, typed, warn_unset};
use crate::signals::interrupted;
use crate::stdin::Given;
use crate::terminal::{log, notes};
use crate::tty::options::is_terminal_given;
use crate::{exit, options, usage};

/// A plain run from the command line, decided on and not begun.
pub struct Plain {
    common: Common,
    args: RunArgs,
    run: PlainRun,
    input: Option<std::fs::File>,
    state: State,
    cwd: PathBuf,
}

/// The state folder, which is opened before the run where it is there.
struct State {
    choice: StateChoice,
    folder: Option<StateFolder>,
}

/// Reads the command line and the configuration; `None` for all that is not a plain run, or is wrong.
pub fn plain(words: &[OsString]) -> Option<Plain> {
    let (common, args) = parse_plain(words)?;
    let what = RunTarget::Program(args.program.clone());
    let is_terminal = is_terminal_given(&common, &args, &what).ok()?;
    let cwd = current_folder();
    let configuration = configuration(&common, Some(cwd.clone())).ok()?;
    if is_terminal || !is_plain(&configuration) {
        return None;
    }
    let state = State::with_room(state(&common, &configuration))?;
    let input = input(args.stdin.as_ref(), &cwd, &[]).ok()?;
    let request = RunRequest {
        what,
        workspace: None,
        kept: None,
        settings: args.sandbox.settings(&cwd),
        limits: Limits::default(),
        stdin: if input.is_some() { Stdin::Piped } else { Stdin::Null },
        keep: ChangePolicy::default(),
    };
    let run = PlainRun::of(request, &configuration)?;
    Some(Plain { common, args, run, input, state, cwd })
}

/// True when no source of the configuration asks for more than a plain run has. Pure. Each setting is named, so that a new one is decided on here;
/// what those of runs merge to is decided on by [`PlainRun::of`].
fn is_plain(configuration: &Configuration) -> bool {
    let Configuration { user, environment, project, asker: _, reading: _, home: _ } = configuration;
    let project = project.iter().map(|file| &file.settings);
    [user, environment].into_iter().chain(project).all(|settings| {
        let Settings {
            run: _,
            receipts,
            // The whole program says so once.
            has_former_names,
            // A named state folder is checked with its database, which `State::with_room` leaves to the whole program.
            state: _,
            // Of the guard, and of proxies.
            rules_digest: _,
            quarantine: _,
            approvals: _,
            upstream: _,
            // Of other commands.
            deps_hosts: _,
            pool: _,
            sessions: _,
            mcp: _,
            tools: _,
            policies: _,
            models: _,
            agents: _,
            fleet: _,
            web: _,
        } = settings;
        !receipts.always && !has_former_names
    })
}

impl State {
    /// Opens the folder; `None` where the history may need its database for this run.
    fn with_room(choice: StateChoice) -> Option<Self> {
        let folder = match &choice {
            StateChoice::Named(_) => return None,
            StateChoice::Nowhere => None,
            StateChoice::Usual(path) => StateFolder::open_existing(path).ok()?,
        };
        folder.as_ref().is_none_or(History::has_room).then_some(Self { choice, folder })
    }

    /// Adds a run to the history.
    fn note(self, stored: &Stored, outcome: &RunReport) -> Result<(), StateError> {
        let folder = match self.folder {
            Some(folder) => folder,
            None => StateFolder::open(self.choice.path()?)?,
        };
        History::note_alone(&folder, stored, outcome)
    }
}

impl Plain {
    /// Runs it; returns its exit status.
    pub fn run(self) -> u8 {
        log::start(&self.common, LogFormat::Text);
        let json = self.common.json;
        self.execute().unwrap_or_else(|error| {
            usage::fail(&ErrorReport::new(Code::Internal, format!("{error:#}")), json)
        })
    }

    fn execute(self) -> anyhow::Result<u8> {
        let Self { common, args, run, input, state, cwd } = self;
        // Its launcher is set up while the program is looked up.
        let way = Backend::open(args.cold, Engine::for_one_run);
        let stored = (!args.sandbox.no_history).then(|| Stored::begin(typed(&args)));
        let _running = running(&state.choice, stored.as_ref());
        let answer = |outcome: RunReport, code| answer(&common, state, stored.as_ref(), outcome, code);
        let mut input = input.map(Given::new);
        let ahead = input.as_mut().map(|given| given as &mut dyn Input);
        let prepared = match run.prepare(&Surroundings::of_this_process(), ahead) {
            Ok(prepared) => prepared,
            Err(outcome) => return Ok(answer(*outcome, None)),
        };
        warn_unset(&prepared.unset);
        let runtime = runtime()?;
        notes::guard(prepared.scan.as_ref(), &common);
        let mut passed = Passed::of_plain(&common, input);
        let stop = async {
            interrupted().await;
            None
        };
        let mut executed = runtime.block_on(execute_policy(&way, &prepared.policy, &mut passed, stop));
        prepared.sign(&mut executed.report);
        let mut code = passed.written.err().map(|e| exit::of_write_error(&e));
        if executed.abandoned {
            code = Some(exit::INTERRUPTED);
        }
        let has_failed = executed.report.cause == Cause::Exited && executed.report.exit_code != Some(0);
        let code = answer(executed.report, code);
        if has_failed {
            say_unseen(&common, &args.program, &cwd);
        }
        way.leave();
        runtime.shutdown_background();
        Ok(code)
    }
}

/// Prints the answer and stores the run; returns the exit status. `code` overrides that of the outcome.
fn answer(
    common: &Common,
    state: State,
    stored: Option<&Stored>,
    outcome: RunReport,
    code: Option<u8>,
) -> u8 {
    let outcome = options::of_run(outcome);
    let code = told(common, &outcome, code);
    if code != exit::UNHEARD {
        scan::frames_of(&outcome, &[Path::new("")], common);
        notes::after_run(&outcome, stored.map_or("", |stored| &stored.id), common);
    }
    if let Some(stored) = stored
        && let Err(error) = state.note(stored, &outcome)
    {
        tracing::warn!("this run is not in the history: {error}");
    }
    code
}

#[cfg(test)]
mod tests {
    use hotcell_config::ProjectFile;

    use super::*;

    #[test]
    fn configuration_that_asks_for_more_is_left_to_the_whole_program() {
        let settings = |text: &str| Settings::parse(text, Path::new("/c/config.toml")).expect(text);
        for (text, want) in [
            ("", true),
            ("[limits]\nmemory = \"64M\"", true),
            ("[receipts]\nfolder = \"r\"", true),
            ("[pool]\nper_shape = 3", true),
            ("[receipts]\nalways = true", false),
            ("[hot]\neach = 2", false),
        ] {
            let user = Configuration { user: settings(text), ..Configuration::default() };
            let environment = Configuration { environment: settings(text), ..Configuration::default() };
            let (path, text) = ("/p/hotcell.toml".into(), text.to_owned());
            let project = Some(ProjectFile { path, settings: settings(&text), text });
            for configuration in [user, environment, Configuration { project, ..Configuration::default() }] {
                assert_eq!(is_plain(&configuration), want, "{configuration:?}");
            }
        }
    }

    #[test]
    fn history_that_needs_its_database_is_left_to_the_whole_program() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("state");
        let usual = StateChoice::Usual(path.clone());
        let has_room = |choice: &StateChoice| State::with_room(choice.clone()).is_some();
        assert!(has_room(&StateChoice::Nowhere) && has_room(&usual));
        assert!(!has_room(&StateChoice::Named(path.clone())));
        std::fs::create_dir(&path).expect("a folder");
        assert!(has_room(&usual));
        std::fs::write(path.join("hotcell.db-runs"), vec![b'\n'; 256 * 1024]).expect("a file");
        assert!(!has_room(&usual));
        // Others could change it.
        std::fs::remove_file(path.join("hotcell.db-runs")).expect("the file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("its mode");
        assert!(!has_room(&usual));
    }
}
