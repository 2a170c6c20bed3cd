//! A request to run something: it becomes a policy, or an outcome in which nothing ran.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hotcell_config::{ChosenSecrets, Configuration, EnvSetting, Mode, RunSettings, UpstreamSetting};
use hotcell_egress::AllowList;
use hotcell_images::Held;
use hotcell_report::{Compile, RunReport};
use hotcell_review::gate::Gate;
use hotcell_review::guard::{Guard, Passed};
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Limits, Network, Policy, Stdin};
use hotcell_sandbox::profile::Profile;
use hotcell_toolchain::{self as toolchain, Surroundings, Toolchain};

use crate::build_folders;
use crate::builds::InUse;
use crate::certificates::Root;
use crate::changes::{ChangePolicy, ViewReader, WorkspaceBaseline};
use crate::compile::Build;
use crate::images::{self, Wanted};
use crate::pinned::PinnedWorkspace;
use crate::processors;
use crate::secrets;

pub use crate::language::Language;
use crate::language::{self, Places, Steps};
use crate::outputs::{FOLDER, OutputRequest};
use crate::variables;
use hotcell_config::limits;
use hotcell_config::network::{self, MakeProxy};
use hotcell_config::typed;
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_review::whole_command::Input;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
pub use plain::{PlainRun, PreparedPlain};

mod plain;
mod programs;
mod scanned;
mod source;
mod workspace;

use programs::{Programs, begin, find, show_environment, start};

/// `PATH` inside, after the toolchain's own folders.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Cache folder for Python inside, when the project has byte code of its own, which was not read.
const PYTHON_CACHE_INSIDE: &str = "/tmp/.python-cache";
/// Advice when no program can run TypeScript.
const NO_TYPESCRIPT: &str = "nothing here reads TypeScript: there is no tsc, and this node is older than 22.6; \
     install one (npm install typescript in the workspace, on Debian: apt install node-typescript)";
/// Maximum size of a source that is run by its language, in bytes.
pub const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// Origin of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, relative to the current folder.
    File(PathBuf),
    /// These bytes.
    Text(Vec<u8>),
    /// A file of the workspace: its path there, and its contents.
    Inside(PathBuf, Vec<u8>),
}

/// Program or source to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunTarget {
    /// A program with its arguments.
    Program(Vec<OsString>),
    /// A source with its arguments.
    Source(Language, Source, Vec<OsString>),
}

/// A request to run something.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Program or source to run.
    pub what: RunTarget,
    /// A host folder, mounted copy-on-write.
    pub workspace: Option<PathBuf>,
    /// The pinned workspace that `workspace` belongs to, if any.
    pub kept: Option<Arc<PinnedWorkspace>>,
    /// Limits, profile and the like; they take precedence over the configuration.
    pub settings: RunSettings,
    /// Default limits of the verb.
    pub limits: Limits,
    /// Standard input.
    pub stdin: Stdin,
    /// Treatment of the changes in the workspace.
    pub keep: ChangePolicy,
}

/// A request merged with its configuration; the policy does not name the program yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// Policy.
    pub policy: Policy,
    /// Environment variables, in order: fixed values, and variables passed through from hotcell's environment.
    pub env: Vec<EnvSetting>,
    /// Gate that scans the code before the run.
    pub gate: Gate,
    /// Limits of a compile step before the run; `None` when nothing is compiled.
    pub compile: Option<Limits>,
    /// Image in place of the host's `/usr`.
    pub image: Option<Wanted>,
    /// State folder for the data that compilers need again.
    pub state: Option<StateChoice>,
    /// Secrets that the program uses without holding them.
    pub secrets: ChosenSecrets,
    /// Hosts that the program may reach beside those of the secrets.
    pub hosts: AllowList,
    /// The operator's own proxy.
    pub upstream: Option<UpstreamSetting>,
}

/// A request that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    /// Policy.
    pub policy: Policy,
    /// Compile step to run first.
    pub build: Option<Build>,
    /// Variables that were to be passed through and are not set; for a warning.
    pub unset: Vec<OsString>,
    /// The guard's result; `None` when the guard is off.
    pub scan: Option<Passed>,
    /// True when it needs a node that reads TypeScript.
    strips: bool,
    /// Source that psql reads.
    psql: Option<Vec<u8>>,
    /// Baseline of the workspace, taken before the run.
    pub before: Option<WorkspaceBaseline>,
    /// Files that are copied out when it has ended.
    pub(crate) outputs: Option<OutputRequest>,
    /// Resources of the run, released after it.
    stay: RunResources,
}

/// Resources that are held until this is dropped.
#[derive(Debug, Default)]
pub struct RunResources {
    /// Image.
    image: Option<Held>,
    /// Temporary folders of hotcell.
    _folders: Vec<tempfile::TempDir>,
    /// Tokens that were made for the run, and end with it.
    _tokens: secrets::MadeTokens,
    /// Entries of caches that the run is shown.
    _in_use: Vec<InUse>,
}

impl RunResources {
    /// Digest of the image, `sha256:…`.
    #[must_use]
    pub fn image_digest(&self) -> Option<String> {
        self.image.as_ref().map(|held| held.image.digest.to_string())
    }
}

impl Prepared {
    /// Splits into the policy, the unset variables, the guard's result and the resources, for a request
    /// without a source of its own.
    pub fn into_parts(self) -> (Policy, Vec<OsString>, Option<Passed>, RunResources) {
        (self.policy, self.unset, self.scan, self.stay)
    }

    /// Digest of the image that it runs in, which its name may stop meaning: `sha256:…`.
    #[must_use]
    pub fn image_digest(&self) -> Option<String> {
        self.stay.image_digest()
    }

    /// Copies files out when the program has ended, however that is.
    pub fn copy_out(&mut self, outputs: OutputRequest) {
        self.before = self.before.take().map(|before| before.copying(outputs.clone()));
        if outputs.takes_folder() {
            self.policy.job.folders.push(FOLDER.into());
        }
        self.outputs = Some(outputs);
    }

    /// Shows the workspace to a reader when the program has ended, however that is.
    pub fn read_after(&mut self, reader: Arc<dyn ViewReader>) {
        self.before = self.before.take().map(|before| before.reading(reader));
    }

    /// True when [`Prepared::sign`] parses the output for errors, so that it has to be captured.
    pub const fn reads_errors(&self) -> bool {
        self.psql.is_some()
    }

    /// Adds the guard's report to an outcome, and PostgreSQL's diagnostics of a source.
    pub fn sign(&self, outcome: &mut RunReport) {
        sign(self.scan.as_ref(), outcome);
        // Node's exit code for an unknown option.
        if self.strips && outcome.cause == Cause::Exited && outcome.exit_code == Some(9) {
            outcome.reason = Some(NO_TYPESCRIPT.to_owned());
        }
        if let Some(source) = &self.psql {
            let printed = outcome.stderr.to_bytes();
            let diagnostics =
                language::read_psql(&String::from_utf8_lossy(&printed), &String::from_utf8_lossy(source));
            if !diagnostics.is_empty() {
                let command = self.policy.job.argv.iter().map(|word| word.to_string_lossy().into_owned());
                outcome.compile = Some(Compile {
                    // Without the script's text.
                    command: command.filter(|word| !word.contains('\n')).collect(),
                    // There was no compile step, and the source ran.
                    done: true,
                    wall_us: None,
                    diagnostics,
                });
            }
        }
    }
}

pub(crate) fn sign(scan: Option<&Passed>, outcome: &mut RunReport) {
    outcome.scan = scan.and_then(|passed| serde_json::to_value(&passed.report).ok());
}

impl RunRequest {
    /// The merged policy, before the program is looked up.
    ///
    /// # Errors
    /// A report when the profile or the configuration is invalid.
    pub fn merge(&self, configuration: &Configuration) -> Result<Merged, ErrorReport> {
        self.merge_with(configuration, network::proxy)
    }

    /// Like [`RunRequest::merge`], with what makes the proxy of a run that has one.
    pub(crate) fn merge_with(
        &self,
        configuration: &Configuration,
        proxy: MakeProxy,
    ) -> Result<Merged, ErrorReport> {
        let Configuration { user, environment, project, .. } = configuration;
        let sources = [
            (&self.settings.profile, None),
            (&environment.run.profile, Some("HOTCELL_PROFILE")),
            (&user.run.profile, Some("profile")),
        ];
        let chosen = sources.iter().find_map(|(p, field)| p.as_deref().map(|p| (p, *field)));
        let (name, field) = chosen.unwrap_or((OsStr::new("standard"), Some("profile")));
        let base = hotcell_config::find_profile(name).map_err(|e| match field {
            Some(field) => hotcell_config::of_profile(e, field),
            None => hotcell_config::of_profile(e, "profile").parameter("profile"),
        })?;
        let theirs = match project {
            // The caller's profile takes precedence over the project's.
            Some(file) if self.settings.profile.is_none() => match &file.settings.run.profile {
                // By name only: a file of the project's must not serve as a profile.
                Some(name) => Some(Profile::named(&name.to_string_lossy()).map_err(|e| {
                    in_file(&file.path, &file.text, "profile", &hotcell_config::of_profile(e, "profile"))
                })?),
                None => None,
            },
            _ => None,
        };
        let project_settings = project.as_ref().map(|file| (&file.settings, theirs.as_ref()));
        let sources = (user, environment, project_settings);
        let joined = hotcell_config::merge_with(proxy, &base, &self.limits, sources, &self.settings);
        let joined = joined.map_err(|widening| {
            if !widening.of_project {
                return ErrorReport::new(Code::Configuration, widening.to_string())
                    .field(widening.key)
                    .hint("name a profile with a loopback, such as standard, or leave ‹network› out");
            }
            let (path, text) = match project {
                Some(file) => (file.path.as_path(), file.text.as_str()),
                None => (Path::new(hotcell_config::PROJECT_FILE), ""),
            };
            let report =
                ErrorReport::new(Code::Configuration, widening.to_string()).field(widening.key).hint(
                    "raise it in your own configuration or with an option, or take it out of the project's",
                );
            in_file(path, text, widening.key, &report)
        });
        let hotcell_config::Merged { policy, env, guard, image, hosts } = joined?;
        let theirs = project.as_ref().map(|file| &file.settings.run.secrets);
        let secrets = hotcell_config::secrets::choose(&user.run.secrets, theirs, &self.settings.secrets)?;
        let compile = if self.compiles() {
            // Merges the same sources for the compile step, whose default limits are those of compilers.
            let over =
                hotcell_config::merge_with(proxy, &base, &limits::for_tests(), sources, &self.settings);
            over.map(|m| m.policy.job.limits).ok()
        } else {
            None
        };
        let state = configuration.asker.as_ref().map(|(_, state)| state.clone());
        let image = image.map(|name| Wanted { name, state: state.clone().unwrap_or(StateChoice::Nowhere) });
        let guard = Guard { settings: guard, reading: configuration.reading() };
        let gate = Gate { guard, keep: QuarantineConfig::of(configuration) };
        let upstream = [environment, user].into_iter().find_map(|settings| settings.upstream.clone());
        Ok(Merged { policy, env, gate, compile, image, state, secrets, hosts, upstream })
    }

    /// Finds the program and its dependencies, and completes the policy.
    ///
    /// # Errors
    /// An outcome in which nothing ran: not found, not executable, or refused.
    pub fn prepare(&self, merged: Merged, around: Surroundings) -> Result<Prepared, Box<RunReport>> {
        self.prepare_with(merged, around, None)
    }

    /// Like [`RunRequest::prepare`], for a program with other commands beside it, each from an option: the
    /// guard scans them, too. `provided` are the absolute paths inside of files that hotcell itself adds.
    ///
    /// # Errors
    /// Like [`RunRequest::prepare`].
    pub fn prepare_beside(
        &self,
        merged: Merged,
        around: Surroundings,
        beside: &[(&str, &str)],
        provided: Vec<String>,
    ) -> Result<Prepared, Box<RunReport>> {
        self.prepare_all(merged, around, None, (beside, provided, false))
    }

    /// Like [`RunRequest::prepare_beside`], for a run that another machine executes: its program is looked up there, not here.
    ///
    /// # Errors
    /// An outcome in which nothing ran: refused.
    pub fn prepare_elsewhere(
        &self,
        merged: Merged,
        around: Surroundings,
        beside: &[(&str, &str)],
        provided: Vec<String>,
    ) -> Result<Prepared, Box<RunReport>> {
        self.prepare_all(merged, around, None, (beside, provided, true))
    }

    /// Like [`RunRequest::prepare`], with standard input, which is read ahead when something executes it.
    ///
    /// # Errors
    /// Like [`RunRequest::prepare`].
    pub fn prepare_with<'i>(
        &'i self,
        merged: Merged,
        around: Surroundings,
        input: Option<&'i mut dyn Input>,
    ) -> Result<Prepared, Box<RunReport>> {
        self.prepare_all(merged, around, input, (&[], Vec::new(), false))
    }

    /// Scans the code of a run that another machine executes: its program is looked up there, not here.
    ///
    /// # Errors
    /// An outcome in which nothing ran: refused by the guard.
    pub fn scan(&self, merged: Merged, cwd: &Path) -> Result<Option<Passed>, Box<RunReport>> {
        let whole = self.whole(cwd, None, set(merged.env, &mut Vec::new()), None);
        merged.gate.check(whole, merged.policy.shape.confinement)
    }

    fn prepare_all<'i>(
        &'i self,
        merged: Merged,
        around: Surroundings,
        input: Option<&'i mut dyn Input>,
        (beside, provided, elsewhere): (&[(&str, &str)], Vec<String>, bool),
    ) -> Result<Prepared, Box<RunReport>> {
        let Merged { mut policy, mut env, gate, compile: most, image, state, secrets, hosts, upstream } =
            merged;
        let refused = |message: String| Box::new(RunReport::without_a_run(Cause::Refused, message));
        let root = if image.is_some() { Root::Image } else { Root::Host };
        let opened = secrets::open(&secrets, hosts, &mut policy, &mut env, root, upstream.as_ref());
        let opened = opened.map_err(&refused)?;
        let image = image.map(|wanted| wanted.hold()).transpose().map_err(|e| refused(e.to_string()))?;
        policy.shape.image = image.as_ref().map(images::root);
        let around = self.surroundings(around, &policy.job.toolchains).map_err(&refused)?;
        let cwd = around.cwd.clone();
        let programs = match &image {
            _ if elsewhere => Programs::Elsewhere,
            Some(held) => Programs::Image(&held.image),
            None => Programs::Host(&around, self.kept.as_deref()),
        };
        // Taken before the guard's scan: the program may or may not see changes made on the host from here
        // on.
        let since = WorkspaceBaseline::moment(self.keep);
        policy.job.workspace = self.workspace.as_ref().map(|w| cwd.join(w));
        policy.job.layers = self.layers();
        policy.job.aliases = self.names(&around);
        policy.job.stdin = self.stdin.clone();
        for toolchain in &mut policy.job.toolchains {
            *toolchain = cwd.join(&*toolchain);
        }
        for bind in &mut policy.job.binds {
            let option = if bind.writable { "‹rw›" } else { "‹ro›" };
            typed::real_from(&cwd, &bind.host, around.project.as_slice())
                .map_err(|e| refused(format!("{option} {}: {e}", bind.host.display())))?;
            bind.host = cwd.join(&bind.host);
            check_bind(bind).map_err(&refused)?;
        }

        // From before the guard's scan on, which may take long.
        let kept = state.as_ref().and_then(|choice| choice.path().ok());
        let in_use = kept.map(|state| InUse::of_binds(state, &policy.job.binds)).unwrap_or_default();
        let mut folders: Vec<tempfile::TempDir> = opened.folder.into_iter().collect();
        folders.extend(self.show_around(&mut policy, &around).map_err(&refused)?);
        let hidden = self.hide(&mut policy, gate.guard.settings.mode, &mut folders);
        let noted = gate.keep.clone().filter(|_| gate.guard.settings.mode == Mode::Enforce);
        let before = WorkspaceBaseline::of(&policy, since, self.keep, self.kept.clone());
        let before = before.map(|before| before.noting(noted));
        let before = before.map(|before| before.without(hidden.iter().map(|hidden| hidden.path.clone())));
        if policy.shape.confinement == Confinement::LandlockOnly && !policy.job.layers.is_empty() {
            folders.extend(self.plain(&mut policy).map_err(&refused)?);
        }
        let mut unset = Vec::new();
        let env = set(env, &mut unset);
        let (mut source, mut read, mut build, mut strips, mut psql) = (None, None, None, false, None);
        match &self.what {
            RunTarget::Program(argv) => {
                start(&mut policy, argv.clone(), programs, &env)?;
                show_environment(&mut policy, programs);
            }
            RunTarget::Source(language, from, arguments) => {
                let language = &match programs {
                    Programs::Host(..) | Programs::Elsewhere => *language,
                    Programs::Image(image) => language.in_image(image.config.path()),
                };
                let (inside, text) =
                    self.place_source(*language, from, &cwd, &mut policy, &mut source).map_err(&refused)?;
                let home = self.home(policy.shape.confinement);
                let tsc = (*language == Language::TypeScript).then(|| self.tsc(&around, programs)).flatten();
                let at = Places { source: &inside, home: &home, tsc: tsc.as_deref() };
                strips = *language == Language::TypeScript && tsc.is_none();
                let Steps { compile, mut argv, native, env: own } = language.steps(&text, at);
                if *language == Language::PostgreSql {
                    psql = Some(text.clone());
                }
                read = Some(text);
                argv.extend(arguments.iter().cloned());
                let with_own = own.into_iter().chain(env.iter().cloned()).collect::<Vec<_>>();
                if let Some(step) = compile {
                    let mut compiling = policy.clone();
                    compiling.job.stdin = Stdin::Null;
                    // A compiler needs no network.
                    if compiling.shape.network == Network::Proxy {
                        (compiling.shape.network, compiling.job.proxy) = (Network::Loopback, None);
                    }
                    compiling.job.limits = most.unwrap_or_else(Limits::for_tests);
                    let with_its = step.env.iter().chain(&env).cloned().collect::<Vec<_>>();
                    start(&mut compiling, step.argv.clone(), programs, &with_its)?;
                    let made =
                        Build::new(compiling, &step, state.clone().filter(|_| !elsewhere)).map_err(|e| {
                            refused(format!("there is no place for the program: {e}; make room in TMPDIR"))
                        })?;
                    policy.job.binds.push(made.bind(Path::new(HOME)));
                    build = Some(made);
                }
                if native {
                    begin(&mut policy, Toolchain::default(), argv, programs, &with_own);
                } else {
                    start(&mut policy, argv, programs, &with_own)?;
                }
            }
        }
        // Variables that tell programs about their sandbox are for the machine that has it.
        if !elsewhere {
            variables::complete(&mut policy.job, policy.shape.network, processors::count());
        }
        let mut whole = self.whole(&cwd, read, env, input);
        whole.beside =
            beside.iter().map(|(option, text)| ((*option).to_owned(), (*text).to_owned())).collect();
        whole.provided = provided;
        whole.hidden = hidden.iter().map(|hidden| hidden.path.clone()).collect();
        let mut scan = gate.check(whole, policy.shape.confinement)?;
        if let Some(passed) = &mut scan {
            passed.note = build_folders::sentence(&hidden);
        }
        if scan.as_ref().is_some_and(Passed::has_python_cache) {
            policy.job.env.push(("PYTHONPYCACHEPREFIX".into(), PYTHON_CACHE_INSIDE.into()));
        }
        folders.extend(source);
        Ok(Prepared {
            policy,
            build,
            unset,
            scan,
            strips,
            psql,
            before,
            outputs: None,
            stay: RunResources { image, _folders: folders, _tokens: opened.tokens, _in_use: in_use },
        })
    }

    /// True when there is a compile step.
    fn compiles(&self) -> bool {
        matches!(&self.what, RunTarget::Source(language, ..) if language.is_compiled())
    }

    /// Home folder as the program has to name it: without a mount namespace it is elsewhere.
    fn home(&self, confinement: Confinement) -> PathBuf {
        match (confinement, &self.workspace) {
            (Confinement::Namespaces, _) => HOME.into(),
            (Confinement::LandlockOnly, None) => ".".into(),
            (Confinement::LandlockOnly, Some(_)) => "..".into(),
        }
    }

    /// TypeScript compiler: the workspace's own, or the one on the caller's `PATH`. Images are not searched.
    fn tsc(&self, around: &Surroundings, programs: Programs<'_>) -> Option<Vec<OsString>> {
        const OWN: &str = "node_modules/typescript/bin/tsc";
        let view = self.kept.as_ref().filter(|kept| kept.has_layers()).map(|kept| kept.view());
        let own = Path::new(OWN);
        // Links are followed only within the workspace, so that it cannot tell which files the host has.
        let has_own = match &view {
            Some(Ok(view)) => toolchain::has(view, around, own),
            Some(Err(_)) => false,
            None => toolchain::has(&toolchain::Host, around, own),
        };
        match programs {
            _ if has_own => Some(vec!["node".into(), OWN.into()]),
            Programs::Host(..) => find(OsStr::new("tsc"), programs).ok().map(|_| vec!["tsc".into()]),
            Programs::Image(_) | Programs::Elsewhere => None,
        }
    }
}

/// Variables that are set, and the names of those to be passed through that are missing.
fn set(env: Vec<EnvSetting>, unset: &mut Vec<OsString>) -> Vec<(OsString, OsString)> {
    let mut all = Vec::new();
    for setting in env {
        match setting {
            EnvSetting::Set(name, value) => all.push((name, value)),
            EnvSetting::Pass(name) => match std::env::var_os(&name) {
                Some(value) => all.push((name, value)),
                None => unset.push(name),
            },
        }
    }
    all
}

/// Checks a bind for errors that the engine could not explain as well.
fn check_bind(bind: &Bind) -> Result<(), String> {
    let option = if bind.writable { "‹rw›" } else { "‹ro›" };
    if let Err(e) = bind.host.symlink_metadata() {
        let colon = bind.host.to_string_lossy().contains(':');
        let hint = if colon {
            "; the place inside is an absolute path, as HOST:/INSIDE"
        } else {
            "; name what exists"
        };
        return Err(format!("{option} {}: {e}{hint}", bind.host.display()));
    }
    if bind.inside.components().any(|c| c == Component::ParentDir) {
        return Err(format!("{option} {}: the place inside must not contain ..", bind.inside.display()));
    }
    Ok(())
}

/// Prefixes a report with the place in a file.
fn in_file(path: &Path, text: &str, key: &str, report: &ErrorReport) -> ErrorReport {
    let line = hotcell_sandbox::profile::line_of_key(text, key);
    let place = match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    };
    ErrorReport { message: format!("{place}: {}", report.message), ..report.clone() }
}
