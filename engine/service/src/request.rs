//! One request to run something: what was asked for becomes a policy, or an outcome in which nothing ran.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use hotcell_guard::Artifact;
use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Limits, PROJECT, Policy, Stdin};
use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::temporary;
use hotcell_sandbox::toolchain::{self, LookupError, Surroundings};

use crate::changes::{Before, Keep};
use crate::config::{self, Configuration, EnvSetting, Merged, Settings};
use crate::guard::{Passed, Target};
use crate::report::{Code, ErrorReport};

/// The `PATH` inside, behind the toolchain's own folders.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Where Python keeps byte code inside when the project has some of its own, which nobody has read.
const PYTHON_CACHE_INSIDE: &str = "/tmp/.python-cache";
/// The longest source that is taken from standard input.
pub const LONGEST_SOURCE: u64 = 16 << 20;

/// A language whose source files can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `python3 FILE`
    Python,
    /// `bash FILE`
    Bash,
}

impl Language {
    /// Every language, with its name.
    pub const ALL: [(&'static str, Self); 2] = [("python", Self::Python), ("bash", Self::Bash)];

    pub(crate) const fn interpreter(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Bash => "bash",
        }
    }

    /// The name that a source gets when it has none.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Python => "main.py",
            Self::Bash => "main.sh",
        }
    }
}

/// Where a source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file; relative to the current folder.
    File(PathBuf),
    /// These bytes.
    Text(Vec<u8>),
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
    /// What earlier runs changed in it, the topmost first.
    pub layers: Vec<PathBuf>,
    /// Limits, profile and the like; they go before what is configured.
    pub settings: Settings,
    /// Limits where nobody says more: those of the verb.
    pub limits: Limits,
    /// Standard input.
    pub stdin: Stdin,
    /// What becomes of the changes in the workspace.
    pub keep: Keep,
}

/// A request that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    /// Its policy.
    pub policy: Policy,
    /// Variables that were to be passed through and are not set; for a warning.
    pub unset: Vec<OsString>,
    /// What the guard says of it; `None` when it was not asked.
    pub scan: Option<Passed>,
    /// The workspace as it is before the run.
    pub before: Option<Before>,
    /// The source of standard input, while it is needed.
    _source: Option<tempfile::TempDir>,
}

impl Prepared {
    /// The policy, the unset variables and the guard's word, of a request without a source of its own.
    pub(crate) fn into_parts(self) -> (Policy, Vec<OsString>, Option<Passed>) {
        (self.policy, self.unset, self.scan)
    }

    /// Leaves the guard's report in an outcome.
    pub fn sign(&self, outcome: &mut Outcome) {
        sign(self.scan.as_ref(), outcome);
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
        merged.guard.keep = configuration.keep();
        merged.guard.reading = reading.clone();
        Ok(merged)
    }

    /// Finds the program and what it needs, and completes the policy.
    ///
    /// # Errors
    /// An outcome in which nothing ran: not found, not executable, or refused.
    pub fn prepare(&self, merged: Merged, around: Surroundings) -> Result<Prepared, Box<Outcome>> {
        let Merged { mut policy, env, guard } = merged;
        let refused = |message: String| Box::new(Outcome::without_a_run(Cause::Refused, message));
        let around = self.surroundings(around, &policy.job.toolchains).map_err(&refused)?;
        let cwd = around.cwd.clone();
        // Before the guard reads it: what somebody changes from here on, the program may or may not have seen.
        let since = Before::moment(self.keep);
        policy.job.workspace = self.workspace.as_ref().map(|w| cwd.join(w));
        policy.job.layers.clone_from(&self.layers);
        policy.job.stdin = self.stdin.clone();
        for toolchain in &mut policy.job.toolchains {
            *toolchain = cwd.join(&*toolchain);
        }
        for bind in &mut policy.job.binds {
            bind.host = cwd.join(&bind.host);
            check_bind(bind).map_err(&refused)?;
        }

        let mut source = None;
        let argv = match &self.what {
            What::Program(argv) => argv.clone(),
            What::Source(language, from, arguments) => {
                let inside =
                    self.place_source(*language, from, &cwd, &mut policy, &mut source).map_err(&refused)?;
                let mut argv = vec![OsString::from(language.interpreter()), inside.into()];
                argv.extend(arguments.iter().cloned());
                argv
            }
        };
        let program = argv.first().filter(|p| !p.is_empty());
        let program =
            program.ok_or_else(|| refused("there is no program to run; name one after --".to_owned()))?;
        let found = toolchain::find(program, &around).map_err(|e| not_found(&e))?;
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
        policy.job.argv[0] = found.program.into_os_string();

        let mut all = Vec::new();
        if !folders.is_empty() {
            let mut path = OsString::new();
            for folder in &folders {
                path.push(folder);
                path.push(":");
            }
            path.push(PATH);
            all.push((OsString::from("PATH"), path));
        }
        all.extend(found.env);
        all.append(&mut policy.job.env);
        let mut unset = Vec::new();
        for setting in env {
            match setting {
                EnvSetting::Set(name, value) => all.push((name, value)),
                EnvSetting::Pass(name) => match std::env::var_os(&name) {
                    Some(value) => all.push((name, value)),
                    None => unset.push(name),
                },
            }
        }
        let scan = guard.check(&self.targets(&cwd)?, policy.shape.confinement)?;
        if scan.as_ref().is_some_and(Passed::has_python_cache) {
            all.push(("PYTHONPYCACHEPREFIX".into(), PYTHON_CACHE_INSIDE.into()));
        }
        policy.job.env = all;
        let before = Before::of(&policy, since, self.keep);
        Ok(Prepared { policy, unset, scan, before, _source: source })
    }

    /// What the guard reads: the source, and the workspace.
    fn targets(&self, cwd: &Path) -> Result<Vec<Target>, Box<Outcome>> {
        let workspace = |w: &PathBuf| match self.layers.as_slice() {
            [] => Target::Path(cwd.join(w)),
            layers => Target::View(cwd.join(w), layers.to_vec()),
        };
        let mut targets: Vec<Target> = self.workspace.iter().map(workspace).collect();
        if let What::Source(language, source, _) = &self.what {
            let (name, bytes) = match source {
                Source::Text(text) => (language.file_name().to_owned(), text.clone()),
                Source::File(file) => {
                    let bytes = std::fs::read(cwd.join(file)).map_err(|e| {
                        let why = format!("the file {} cannot be read: {e}", file.display());
                        Box::new(Outcome::without_a_run(Cause::Refused, why))
                    })?;
                    (file.to_string_lossy().into_owned(), bytes)
                }
            };
            let language = match language {
                Language::Python => hotcell_guard::Language::Python,
                Language::Bash => hotcell_guard::Language::Bash,
            };
            targets.push(Target::Source(Artifact::new(name, bytes).run_as(language)));
        }
        Ok(targets)
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

    /// Makes a source visible inside; its path there.
    fn place_source(
        &self,
        language: Language,
        source: &Source,
        cwd: &Path,
        policy: &mut Policy,
        kept: &mut Option<tempfile::TempDir>,
    ) -> Result<PathBuf, String> {
        let (host, name) = match source {
            Source::Text(text) => {
                let kept_text = || {
                    let folder = temporary::folder()?;
                    let host = temporary::file(&folder, language.file_name(), text)?;
                    Ok::<_, std::io::Error>((folder, host))
                };
                let (folder, host) = kept_text().map_err(|e| {
                    format!("standard input cannot be kept for the run: {e}; make room in TMPDIR")
                })?;
                *kept = Some(folder);
                (host, OsString::from(language.file_name()))
            }
            Source::File(file) => {
                let bad = |why: &str| format!("the file {} {why}", file.display());
                let host = cwd.join(file).canonicalize().map_err(|e| bad(&format!("cannot be read: {e}")))?;
                if !host.is_file() {
                    return Err(bad("is not a file; name a source file, or - for standard input"));
                }
                if let Some(inside) = self.in_workspace(&host, cwd) {
                    return Ok(inside);
                }
                let name =
                    file.file_name().filter(|n| *n != "project").unwrap_or(OsStr::new(language.file_name()));
                (host, name.to_owned())
            }
        };
        let inside = Path::new(HOME).join(&name);
        policy.job.binds.push(Bind { host, inside: inside.clone(), writable: false });
        // Without a mount namespace the home folder is somewhere else: the same, as seen from the start folder.
        Ok(match (policy.shape.confinement, &self.workspace) {
            (Confinement::Namespaces, _) => inside,
            (Confinement::LandlockOnly, None) => name.into(),
            (Confinement::LandlockOnly, Some(_)) => Path::new("..").join(name),
        })
    }

    fn in_workspace(&self, host: &Path, cwd: &Path) -> Option<PathBuf> {
        let workspace = cwd.join(self.workspace.as_ref()?).canonicalize().ok()?;
        Some(Path::new(PROJECT).join(host.strip_prefix(workspace).ok()?))
    }
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
