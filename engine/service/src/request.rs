//! One request to run something: what was asked for becomes a policy, or an outcome in which nothing ran.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hotcell_guard::Artifact;
use hotcell_images::{Held, Image};
use hotcell_sandbox::outcome::{Cause, Compile, Outcome};
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Limits, Network, PROJECT_NAME, Policy, Stdin};
use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::temporary;
use hotcell_sandbox::toolchain::{self, LookupError, Surroundings, Toolchain};

use crate::changes::{Before, Keep};
use crate::compile::Build;
use crate::config::{self, Configuration, EnvSetting, Merged, Settings};
use crate::guard::{Passed, Target};
use crate::images;
use crate::kept::Kept;
pub use crate::language::Language;
use crate::language::{self, Places, Steps};
use crate::report::{Code, ErrorReport};

/// The `PATH` inside, behind the toolchain's own folders.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Where Python keeps byte code inside when the project has some of its own, which nobody has read.
const PYTHON_CACHE_INSIDE: &str = "/tmp/.python-cache";
/// What to do where nothing can read TypeScript.
const NO_TYPESCRIPT: &str = "nothing here reads TypeScript: there is no tsc, and this node is older than 22.6; \
     install one (npm install typescript in the workspace, on Debian: apt install node-typescript)";
/// The longest source that is run by its language.
pub const LONGEST_SOURCE: u64 = 16 << 20;

/// Where a source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file; relative to the current folder.
    File(PathBuf),
    /// These bytes.
    Text(Vec<u8>),
    /// A file of the workspace, by its path there, and its bytes.
    Inside(PathBuf, Vec<u8>),
}

/// What is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A program with its arguments.
    Program(Vec<OsString>),
    /// A source with its arguments.
    Source(Language, Source, Vec<OsString>),
}

/// A request to run something.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// What.
    pub what: What,
    /// A host folder, mounted copy-on-write.
    pub workspace: Option<PathBuf>,
    /// The workspace that stays, whose folder that is.
    pub kept: Option<Arc<Kept>>,
    /// Limits, profile and the like; they go before what is configured.
    pub settings: Settings,
    /// Limits where nobody says more: those of the verb.
    pub limits: Limits,
    /// Standard input.
    pub stdin: Stdin,
    /// What becomes of the changes in the workspace.
    pub keep: Keep,
}

/// Limits of test suites and compilers where nobody says any, on this machine.
pub(crate) fn limits_for_tests() -> Limits {
    let limits = Limits::for_tests();
    hotcell_sandbox::host::memory().map_or(limits.clone(), |memory| limits.at_most(memory))
}

/// A request that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    /// Its policy.
    pub policy: Policy,
    /// What has to be compiled first.
    pub build: Option<Build>,
    /// Variables that were to be passed through and are not set; for a warning.
    pub unset: Vec<OsString>,
    /// What the guard says of it; `None` when it was not asked.
    pub scan: Option<Passed>,
    /// It needs a node that reads TypeScript.
    strips: bool,
    /// The source that psql reads.
    psql: Option<Vec<u8>>,
    /// The workspace as it is before the run.
    pub before: Option<Before>,
    /// What the run sees of ours, while it is needed.
    stay: Stay,
}

/// What stays while this does.
#[derive(Debug, Default)]
pub(crate) struct Stay {
    /// The image.
    _image: Option<Held>,
    /// Files of ours.
    _folders: Vec<tempfile::TempDir>,
}

impl Prepared {
    /// The policy, the unset variables, the guard's word and what has to stay, of a request without a source of its own.
    pub(crate) fn into_parts(self) -> (Policy, Vec<OsString>, Option<Passed>, Stay) {
        (self.policy, self.unset, self.scan, self.stay)
    }

    /// Whether [`Prepared::sign`] reads what was printed as errors, so that it has to be captured.
    pub(crate) const fn reads_errors(&self) -> bool {
        self.psql.is_some()
    }

    /// Leaves the guard's report in an outcome, and what PostgreSQL said of a source.
    pub fn sign(&self, outcome: &mut Outcome) {
        sign(self.scan.as_ref(), outcome);
        // Node's exit code for an option that it does not know.
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
                    // Not the script's text.
                    command: command.filter(|word| !word.contains('\n')).collect(),
                    // Nothing had to be made, and it ran.
                    done: true,
                    wall_us: None,
                    diagnostics,
                });
            }
        }
    }
}

pub(crate) fn sign(scan: Option<&Passed>, outcome: &mut Outcome) {
    outcome.scan = scan.and_then(|passed| serde_json::to_value(&passed.report).ok());
}

impl RunRequest {
    /// The policy, before the program is looked up.
    ///
    /// # Errors
    /// A report for a mistake in profile or configuration.
    pub fn merge(&self, configuration: &Configuration) -> Result<Merged, ErrorReport> {
        let Configuration { user, environment, project, reading, .. } = configuration;
        let sources = [
            (&self.settings.profile, "--profile"),
            (&environment.profile, "HOTCELL_PROFILE"),
            (&user.profile, "profile"),
        ];
        let chosen = sources.iter().find_map(|(p, field)| p.as_deref().map(|p| (p, *field)));
        let (name, field) = chosen.unwrap_or((OsStr::new("standard"), "profile"));
        let base = config::find_profile(name).map_err(|e| config::of_profile(e, field))?;
        let theirs = match project {
            // Who asks goes before the project.
            Some(file) if self.settings.profile.is_none() => match &file.settings.profile {
                // By name only: a file of the project's is not a profile of ours.
                Some(name) => Some(Profile::named(&name.to_string_lossy()).map_err(|e| {
                    in_file(&file.path, &file.text, "profile", &config::of_profile(e, "profile"))
                })?),
                None => None,
            },
            _ => None,
        };
        let project_settings = project.as_ref().map(|file| (&file.settings, theirs.as_ref()));
        let joined = config::merge(&base, &self.limits, user, environment, project_settings, &self.settings);
        let joined = joined.map_err(|widening| {
            if !widening.of_project {
                return ErrorReport::new(Code::Configuration, widening.to_string())
                    .field(widening.key)
                    .hint("name a profile with a loopback, such as standard, or leave --network out");
            }
            let (path, text) = match project {
                Some(file) => (file.path.as_path(), file.text.as_str()),
                None => (Path::new(config::PROJECT_FILE), ""),
            };
            let report =
                ErrorReport::new(Code::Configuration, widening.to_string()).field(widening.key).hint(
                    "raise it in your own configuration or with an option, or take it out of the project's",
                );
            in_file(path, text, widening.key, &report)
        });
        let mut merged = joined?;
        if self.compiles() {
            // The same choices over what compilers may take where nobody says anything.
            let over = config::merge(
                &base,
                &limits_for_tests(),
                user,
                environment,
                project_settings,
                &self.settings,
            );
            merged.compile = over.map(|m| m.policy.job.limits).ok();
        }
        merged.guard.keep = configuration.keep();
        merged.guard.reading = reading.clone();
        if let (Some(image), Some((_, state))) = (&mut merged.image, &configuration.asker) {
            image.state = state.clone();
        }
        merged.state = configuration.asker.as_ref().map(|(_, state)| state.clone());
        Ok(merged)
    }

    /// Finds the program and what it needs, and completes the policy.
    ///
    /// # Errors
    /// An outcome in which nothing ran: not found, not executable, or refused.
    pub fn prepare(&self, merged: Merged, around: Surroundings) -> Result<Prepared, Box<Outcome>> {
        let Merged { mut policy, env, guard, compile: most, image, state } = merged;
        let refused = |message: String| Box::new(Outcome::without_a_run(Cause::Refused, message));
        let image = image.map(|wanted| wanted.hold()).transpose().map_err(|e| refused(e.to_string()))?;
        policy.shape.image = image.as_ref().map(images::root);
        let around = self.surroundings(around, &policy.job.toolchains).map_err(&refused)?;
        let cwd = around.cwd.clone();
        let programs = image
            .as_ref()
            .map_or(Programs::Host(&around, self.kept.as_deref()), |held| Programs::Image(&held.image));
        // Before the guard reads it: what somebody changes from here on, the program may or may not have seen.
        let since = Before::moment(self.keep);
        policy.job.workspace = self.workspace.as_ref().map(|w| cwd.join(w));
        policy.job.layers = self.layers();
        policy.job.stdin = self.stdin.clone();
        for toolchain in &mut policy.job.toolchains {
            *toolchain = cwd.join(&*toolchain);
        }
        for bind in &mut policy.job.binds {
            bind.host = cwd.join(&bind.host);
            check_bind(bind).map_err(&refused)?;
        }

        let mut folders: Vec<tempfile::TempDir> = Vec::new();
        let before = Before::of(&policy, since, self.keep, self.kept.clone());
        if policy.shape.confinement == Confinement::LandlockOnly && !policy.job.layers.is_empty() {
            folders.extend(self.plain(&mut policy).map_err(&refused)?);
        }
        let mut unset = Vec::new();
        let env = set(env, &mut unset);
        let (mut source, mut read, mut build, mut strips, mut psql) = (None, None, None, false, None);
        match &self.what {
            What::Program(argv) => start(&mut policy, argv.clone(), programs, &env)?,
            What::Source(language, from, arguments) => {
                let language = &match programs {
                    Programs::Host(..) => *language,
                    Programs::Image(image) => language.in_image(image.config.path()),
                };
                let (inside, text) =
                    self.place_source(*language, from, &cwd, &mut policy, &mut source).map_err(&refused)?;
                let home = self.home(policy.shape.confinement);
                let tsc = (*language == Language::TypeScript).then(|| self.tsc(&cwd, programs)).flatten();
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
                    // A compiler has nobody to talk to.
                    if compiling.shape.network == Network::Proxy {
                        (compiling.shape.network, compiling.job.proxy) = (Network::Loopback, None);
                    }
                    compiling.job.limits = most.unwrap_or_else(Limits::for_tests);
                    let with_its = step.env.iter().chain(&env).cloned().collect::<Vec<_>>();
                    start(&mut compiling, step.argv.clone(), programs, &with_its)?;
                    let made = Build::new(compiling, &step, state.clone()).map_err(|e| {
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
        let scan = guard.check(&self.targets(&cwd, read), policy.shape.confinement)?;
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
            stay: Stay { _image: image, _folders: folders },
        })
    }

    /// Whether something has to be compiled before anything runs.
    fn compiles(&self) -> bool {
        matches!(&self.what, What::Source(language, ..) if language.is_compiled())
    }

    /// The home folder as the program has to name it: without a mount namespace it is somewhere else.
    fn home(&self, confinement: Confinement) -> PathBuf {
        match (confinement, &self.workspace) {
            (Confinement::Namespaces, _) => HOME.into(),
            (Confinement::LandlockOnly, None) => ".".into(),
            (Confinement::LandlockOnly, Some(_)) => "..".into(),
        }
    }

    /// The compiler of TypeScript: the workspace's own, or the one on the caller's `PATH`. An image is not asked.
    fn tsc(&self, cwd: &Path, programs: Programs<'_>) -> Option<Vec<OsString>> {
        const OWN: &str = "node_modules/typescript/bin/tsc";
        let own = self.workspace.as_ref().filter(|w| cwd.join(w).join(OWN).is_file());
        match (own, programs) {
            (Some(_), _) => Some(vec!["node".into(), OWN.into()]),
            (None, Programs::Host(..)) => find(OsStr::new("tsc"), programs).ok().map(|_| vec!["tsc".into()]),
            (None, Programs::Image(_)) => None,
        }
    }

    fn layers(&self) -> Vec<PathBuf> {
        self.kept.as_ref().map(|kept| kept.mount().1).unwrap_or_default()
    }

    /// Without mounts nothing is laid over anything: a plain copy of what the layers show.
    fn plain(&self, policy: &mut Policy) -> Result<Option<tempfile::TempDir>, String> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let copy = kept.copy(&policy.job.limits).map_err(|e| {
            format!("the workspace cannot be copied for the run: {e}; raise --disk or --files, or use a profile with namespaces")
        })?;
        policy.job.workspace = Some(copy.path().to_owned());
        policy.job.layers.clear();
        Ok(Some(copy))
    }

    /// What the guard reads: the source, and the workspace.
    fn targets(&self, cwd: &Path, text: Option<Vec<u8>>) -> Vec<Target> {
        let layers = self.layers();
        let workspace = |w: &PathBuf| match layers.as_slice() {
            [] => Target::Path(cwd.join(w)),
            layers => Target::View(cwd.join(w), layers.to_vec()),
        };
        let mut targets: Vec<Target> = self.workspace.iter().map(workspace).collect();
        if let (What::Source(language, source, _), Some(text)) = (&self.what, text) {
            let name = match source {
                // Read with the workspace, and by its name as what it is run as.
                Source::Inside(..) => return targets,
                Source::Text(_) => language.file_name(&text),
                Source::File(file) => file.to_string_lossy().into_owned(),
            };
            targets.push(Target::Source(Artifact::new(name, text).run_as(language.as_read())));
        }
        targets
    }

    /// The caller's side of the lookup, with the project and the toolchains that were named.
    fn surroundings(&self, mut around: Surroundings, toolchains: &[PathBuf]) -> Result<Surroundings, String> {
        if let Some(workspace) = &self.workspace {
            let path = around.cwd.join(workspace);
            let folder = path.canonicalize().map_err(|e| {
                format!(
                    "the workspace {} cannot be opened: {e}; name a folder that exists",
                    workspace.display()
                )
            })?;
            if !folder.is_dir() {
                return Err(format!("the workspace {} is not a folder; name one", workspace.display()));
            }
            around.project = Some(folder);
        }
        if !toolchains.is_empty() {
            let mut path = OsString::new();
            for toolchain in toolchains {
                let toolchain = around.cwd.join(toolchain);
                if !toolchain.exists() {
                    return Err(format!(
                        "the toolchain {} is not there; name a folder that exists",
                        toolchain.display()
                    ));
                }
                let bin = toolchain.join("bin");
                path.push(if bin.is_dir() { &bin } else { &toolchain });
                path.push(":");
                around.granted.push(toolchain);
            }
            path.push(around.path.as_deref().unwrap_or(OsStr::new(PATH)));
            around.path = Some(path);
        }
        Ok(around)
    }

    /// Makes a source visible inside; its path there, and its text.
    fn place_source(
        &self,
        language: Language,
        source: &Source,
        cwd: &Path,
        policy: &mut Policy,
        kept: &mut Option<tempfile::TempDir>,
    ) -> Result<(PathBuf, Vec<u8>), String> {
        let home = self.home(policy.shape.confinement);
        let (host, name, text) = match source {
            Source::Inside(path, text) => return Ok((home.join(PROJECT_NAME).join(path), text.clone())),
            Source::Text(text) => {
                let name = language.file_name(text);
                let kept_text = || {
                    let folder = temporary::folder()?;
                    let host = temporary::file(&folder, &name, text)?;
                    Ok::<_, std::io::Error>((folder, host))
                };
                let (folder, host) = kept_text().map_err(|e| {
                    format!("standard input cannot be kept for the run: {e}; make room in TMPDIR")
                })?;
                *kept = Some(folder);
                (host, OsString::from(name), text.clone())
            }
            Source::File(file) => {
                let bad = |why: &str| format!("the file {} {why}", file.display());
                let host = cwd.join(file).canonicalize().map_err(|e| bad(&format!("cannot be read: {e}")))?;
                if !host.is_file() {
                    return Err(bad("is not a file; name a source file, or - for standard input"));
                }
                let text = read_source(&host).map_err(|e| bad(&format!("cannot be read: {e}")))?;
                if let Some(below) = self.in_workspace(&host, cwd) {
                    return Ok((home.join(PROJECT_NAME).join(below), text));
                }
                let own = file.file_name().filter(|n| *n != PROJECT_NAME && *n != language::COMPILED);
                let name = own.map_or_else(|| language.file_name(&text).into(), OsStr::to_owned);
                (host, name, text)
            }
        };
        policy.job.binds.push(Bind {
            host,
            inside: Path::new(HOME).join(&name),
            writable: false,
            copy_on_write: false,
            identity: None,
        });
        Ok((home.join(name), text))
    }

    /// A file's path below the workspace, where it lies in it.
    fn in_workspace(&self, host: &Path, cwd: &Path) -> Option<PathBuf> {
        let workspace = cwd.join(self.workspace.as_ref()?).canonicalize().ok()?;
        Some(host.strip_prefix(workspace).ok()?.to_owned())
    }
}

/// A source that may have any length.
fn read_source(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(LONGEST_SOURCE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_SOURCE {
        return Err(std::io::Error::other(format!("it is longer than {} MiB", LONGEST_SOURCE >> 20)));
    }
    Ok(text)
}

/// The variables that are set, and the names of those that were to be passed through and are not there.
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

/// Where programs are looked for.
#[derive(Clone, Copy)]
enum Programs<'a> {
    /// As the caller would find them; what they need is shown.
    Host(&'a Surroundings, Option<&'a Kept>),
    /// By the image's `PATH`, inside: nothing of the host is shown.
    Image(&'a Image),
}

impl Programs<'_> {
    /// The `PATH` inside, behind the toolchains' own folders.
    fn path(&self) -> &str {
        match self {
            Self::Host(..) => PATH,
            Self::Image(image) => image.config.path(),
        }
    }
}

/// Looks a program up, in what the workspace shows and on the host.
fn find(program: &OsStr, programs: Programs<'_>) -> Result<Toolchain, Box<Outcome>> {
    let found = match programs {
        Programs::Host(around, Some(kept)) if kept.has_layers() => {
            let view = kept.view().map_err(|e| {
                let why = format!("the workspace cannot be read: {e}");
                Box::new(Outcome::without_a_run(Cause::Refused, why))
            })?;
            toolchain::find_in(&view, program, around)
        }
        Programs::Host(around, _) => toolchain::find(program, around),
        // Its loader finds it: a look from here could only guess.
        Programs::Image(_) => return Ok(Toolchain::default()),
    };
    found.map_err(|e| not_found(&e))
}

/// Looks a program up, and completes the policy with it and with what it needs.
fn start(
    policy: &mut Policy,
    argv: Vec<OsString>,
    programs: Programs<'_>,
    env: &[(OsString, OsString)],
) -> Result<(), Box<Outcome>> {
    let program = argv.first().filter(|p| !p.is_empty()).ok_or_else(|| {
        let why = "there is no program to run; name one after --";
        Box::new(Outcome::without_a_run(Cause::Refused, why))
    })?;
    let found = find(program, programs)?;
    begin(policy, found, argv, programs, env);
    Ok(())
}

/// Completes a policy with a program, where it was found, and the variables in their order.
fn begin(
    policy: &mut Policy,
    found: Toolchain,
    argv: Vec<OsString>,
    programs: Programs<'_>,
    env: &[(OsString, OsString)],
) {
    let given = std::mem::take(&mut policy.job.toolchains);
    let mut folders = found.path_dirs;
    for toolchain in &given {
        let bin = toolchain.join("bin");
        folders.push(if bin.is_dir() { bin } else { toolchain.clone() });
    }
    policy.job.toolchains = found.prefixes;
    for toolchain in given {
        if !policy.job.toolchains.iter().any(|known| toolchain.starts_with(known)) {
            policy.job.toolchains.retain(|known| !known.starts_with(&toolchain));
            policy.job.toolchains.push(toolchain);
        }
    }
    policy.job.argv = argv;
    if found.program != Path::new("") {
        policy.job.argv[0] = found.program.into_os_string();
    }
    let mut all = Vec::new();
    if let Programs::Image(image) = programs {
        all.extend(images::variables(image));
        policy.job.imports.clone_from(&image.config.prime);
    }
    if !folders.is_empty() || programs.path() != PATH {
        let mut path = OsString::new();
        for folder in &folders {
            path.push(folder);
            path.push(":");
        }
        path.push(programs.path());
        all.push((OsString::from("PATH"), path));
    }
    all.extend(found.env);
    all.append(&mut policy.job.env);
    all.extend(env.iter().cloned());
    policy.job.env = all;
}

/// What is wrong with a bind that the engine could not say as well.
fn check_bind(bind: &Bind) -> Result<(), String> {
    let option = if bind.writable { "--rw" } else { "--ro" };
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

/// A lookup that failed, as an outcome.
fn not_found(error: &LookupError) -> Box<Outcome> {
    let cause = match error {
        LookupError::NotFound { .. } => Cause::NotFound,
        LookupError::NotExecutable { .. } | LookupError::MissingInterpreter { .. } => Cause::NotExecutable,
        LookupError::TooBroad { .. } | LookupError::Untrusted { .. } => Cause::Refused,
    };
    Box::new(Outcome::without_a_run(cause, error.to_string()))
}

/// A report with the place in a file in front.
fn in_file(path: &Path, text: &str, key: &str, report: &ErrorReport) -> ErrorReport {
    let line = hotcell_sandbox::profile::line_of_key(text, key);
    let place = match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    };
    ErrorReport { message: format!("{place}: {}", report.message), ..report.clone() }
}
