//! Joins the parts: from a program as it was typed to a [`Toolchain`].

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::place::{self, Bounds, Reach};
use super::rustup::Tool;
use super::script::{self, Start};
use super::walk::{self, Dead, Hop};
use super::{LookupError, Surroundings, Toolchain, rustup, shim};
use crate::policy::PROJECT;

/// Scripts started by scripts, shims that lead to shims, environments made from environments.
const DEEPEST: usize = 8;
/// The longest name, in bytes, that a similar one is looked for.
const LONGEST_NAME: usize = 64;
/// So many letters differ in a name that was misspelt.
const NEAR: usize = 2;
/// Where `execvp` looks when there is no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How a lookup came to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    /// The person wrote its path.
    Typed,
    /// It was searched for by name.
    Searched,
    /// A first line, a `pyvenv.cfg` or a version manager names its path on the host.
    Named,
}

/// [`super::find`] on any file system.
pub(super) fn find(fs: &dyn Fs, program: &OsStr, around: &Surroundings) -> Result<Toolchain, LookupError> {
    let mut finder = Finder::new(fs, around);
    let (file, via) = finder.locate(program)?;
    let program = finder.enter(&file, via, None, 0)?;
    Ok(Toolchain {
        program,
        prefixes: outermost(finder.prefixes),
        path_dirs: finder.path_dirs,
        env: finder.env,
    })
}

/// Sorted paths without those within another.
fn outermost(all: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in all {
        if !kept.iter().any(|k| path.starts_with(k)) {
            kept.push(path);
        }
    }
    kept
}

struct Finder<'a> {
    fs: &'a dyn Fs,
    around: &'a Surroundings,
    bounds: Bounds,
    /// The project by the name given and by its name without links.
    project: Option<(PathBuf, PathBuf)>,
    prefixes: BTreeSet<PathBuf>,
    path_dirs: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
    environments: BTreeSet<PathBuf>,
}

impl<'a> Finder<'a> {
    fn new(fs: &'a dyn Fs, around: &'a Surroundings) -> Self {
        let both = |path: &Path| {
            let named = walk::normal(&around.cwd.join(path));
            let real = walk::real(fs, &around.cwd.join(path)).unwrap_or_else(|| named.clone());
            (named, real)
        };
        let project = around.project.as_deref().map(both);
        let homes = around.home.as_deref().map(both).into_iter().flat_map(|(a, b)| [a, b]);
        let bounds = Bounds::new(
            homes.filter(|h| h != Path::new("/")).collect(),
            project.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect(),
            around.value("CARGO_HOME").map(Path::new),
        );
        Self {
            fs,
            around,
            bounds,
            project,
            prefixes: BTreeSet::new(),
            path_dirs: Vec::new(),
            env: Vec::new(),
            environments: BTreeSet::new(),
        }
    }

    /// The file that was typed, as an absolute host path.
    fn locate(&self, program: &OsStr) -> Result<(PathBuf, Via), LookupError> {
        if program.is_empty() || program.as_bytes().contains(&0) {
            return Err(LookupError::NotFound {
                program: program.into(),
                searched: Vec::new(),
                hint: "name a program after --".to_owned(),
            });
        }
        if !program.as_bytes().contains(&b'/') {
            return self.search(program, None).map(|file| (file, Via::Searched));
        }
        let typed = Path::new(program);
        let mut places = vec![self.around.cwd.join(typed)];
        if let Some((named, _)) = &self.project {
            places.extend(typed.strip_prefix(PROJECT).ok().map(|rest| named.join(rest)));
            places.extend(typed.is_relative().then(|| named.join(typed)));
        }
        let first = places[0].clone();
        let there = |p: &PathBuf| walk::chain(self.fs, p) != Err(Dead::Absent);
        match places.into_iter().find(there) {
            Some(file) => Ok((self.settle(&file), Via::Typed)),
            None => Err(LookupError::NotFound {
                program: typed.to_path_buf(),
                searched: Vec::new(),
                hint: match self
                    .similar(program, [first.parent().map(Path::to_path_buf)].into_iter().flatten())
                {
                    Some(near) => format!("did you mean {near}?"),
                    None if typed.is_absolute() => "check the path".to_owned(),
                    None => format!("check the path; it counts from {}", self.around.cwd.display()),
                },
            }),
        }
    }

    /// An absolute path without `.` and `..`, which may follow links.
    fn settle(&self, path: &Path) -> PathBuf {
        if path.components().all(|c| c != std::path::Component::ParentDir) {
            return walk::normal(path);
        }
        match (path.parent().and_then(|p| walk::real(self.fs, p)), path.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => walk::normal(path),
        }
    }

    /// Looks a name up as the caller's shell would, but never in the folder `without`.
    fn search(&self, name: &OsStr, without: Option<&Path>) -> Result<PathBuf, LookupError> {
        let mut environments: Vec<PathBuf> = Vec::new();
        if let Some((named, _)) = &self.project {
            environments.extend([named.join(".venv"), named.join("venv")]);
        }
        environments.extend(self.around.virtual_env.iter().map(|v| self.around.cwd.join(v)));
        environments.retain(|v| place::is_venv(self.fs, v));
        let mut folders: Vec<PathBuf> = environments.iter().map(|v| v.join("bin")).collect();
        let path = self.around.path.as_deref().unwrap_or(OsStr::new(USUAL_PATH));
        folders.extend(std::env::split_paths(path).map(|p| self.around.cwd.join(p)));
        let mut searched: Vec<PathBuf> = Vec::new();
        for folder in folders {
            let folder = self.settle(&folder);
            if Some(folder.as_path()) != without && !searched.contains(&folder) {
                searched.push(folder);
            }
        }
        let mut passed_over = None;
        for folder in &searched {
            let file = folder.join(name);
            let in_environment = folder.parent().is_some_and(|v| environments.iter().any(|e| e == v));
            match walk::chain(self.fs, &file) {
                Ok(_) => match walk::look(self.fs, &file) {
                    Some(Kind::File { executable: true, .. }) => return Ok(file),
                    Some(Kind::File { .. }) => passed_over = passed_over.or(Some(file)),
                    _ => {}
                },
                Err(Dead::Absent) => {}
                // A shell would go on and start another Python than the one that was set up here.
                Err(dead) if in_environment => return Err(self.dead(&file, &dead)),
                Err(_) => passed_over = passed_over.or(Some(file)),
            }
        }
        if let Some(file) = passed_over {
            // Says what is wrong with it.
            self.executable(&file)?;
        }
        let near = self.similar(name, searched.iter().cloned());
        Err(LookupError::NotFound { program: name.into(), hint: install_hint(name, near), searched })
    }

    /// A name in these folders that `name` was probably meant to be.
    fn similar(&self, name: &OsStr, folders: impl Iterator<Item = PathBuf>) -> Option<String> {
        // Nothing that long was misspelt, and looking takes time with its length.
        let name = Path::new(name).file_name()?.to_str().filter(|name| name.len() <= LONGEST_NAME)?;
        let close = |other: &String| strsim::damerau_levenshtein(name, other);
        let as_long = |other: &String| other.len().abs_diff(name.len()) <= NEAR * char::MAX.len_utf8();
        folders
            .filter_map(|f| walk::real(self.fs, &f))
            .flat_map(|f| self.fs.names(&f))
            .filter_map(|n| n.into_string().ok())
            .filter(as_long)
            .filter(|n| (1..=if name.len() > 4 { NEAR } else { 1 }).contains(&close(n)))
            .min_by_key(close)
    }

    /// Every name of an executable file.
    fn executable(&self, file: &Path) -> Result<Vec<Hop>, LookupError> {
        let hops = walk::chain(self.fs, file).map_err(|dead| self.dead(file, &dead))?;
        let not =
            |why: &str, hint: String| LookupError::NotExecutable { path: file.into(), why: why.into(), hint };
        match hops.last().and_then(|h| self.fs.look(&h.path)) {
            Some(Kind::File { executable: true, .. }) => Ok(hops),
            Some(Kind::File { .. }) => {
                Err(not("it may not be executed", format!("run `chmod +x {}`", file.display())))
            }
            Some(Kind::Folder) => Err(not("it is a folder", "name a program in it".to_owned())),
            _ => Err(not("it is not a regular file", "name a program".to_owned())),
        }
    }

    fn dead(&self, file: &Path, dead: &Dead) -> LookupError {
        let path = file.to_path_buf();
        let environment = place::environment(self.fs, file);
        match dead {
            Dead::Absent => LookupError::NotFound {
                program: path,
                searched: Vec::new(),
                hint: "check the path".to_owned(),
            },
            Dead::Loop => LookupError::NotExecutable {
                path,
                why: "its links lead round in a circle".to_owned(),
                hint: "remove the link and install the program again".to_owned(),
            },
            Dead::Dangling(to) => LookupError::NotExecutable {
                path,
                why: format!("it is a link to {}, which is not there", to.display()),
                hint: match environment {
                    Some(venv) => remake(venv),
                    None => "remove the link and install the program again".to_owned(),
                },
            },
        }
    }

    /// Takes in a file and everything that starts it. Returns the path inside of what is really started.
    ///
    /// `from` is the file in the project that led here, when the project had a say in it.
    fn enter(
        &mut self,
        file: &Path,
        via: Via,
        from: Option<&Path>,
        depth: usize,
    ) -> Result<PathBuf, LookupError> {
        if depth > DEEPEST {
            return Err(LookupError::NotExecutable {
                path: file.to_path_buf(),
                why: format!("scripts and shims lead to one another more than {DEEPEST} times"),
                hint: "name the program at the end of them".to_owned(),
            });
        }
        let hops = self.executable(file)?;
        let real = hops.last().map_or_else(|| file.to_path_buf(), |h| h.path.clone());
        let led = from.or_else(|| self.rest_in_project(file).map(|_| file)).map(Path::to_path_buf);
        if let Some(better) = self.stand_in(&hops, file, &real)? {
            let via = if via == Via::Typed { Via::Searched } else { via };
            let led = led.or(better.from);
            return self.enter(&better.file, via, led.as_deref(), depth + 1);
        }

        // A file of the project is started at its place inside, unless it is one of a virtual environment whose scripts
        // name host paths, or a link out of the project that only makes sense outside.
        let venv = place::environment(self.fs, file).map(Path::to_path_buf);
        let mapped = match self.rest_in_project(file) {
            Some(rest) if via == Via::Typed || (via == Via::Searched && venv.is_none()) => self.mapped(&rest),
            _ => None,
        };
        let (program, hops, only_inside) = match mapped {
            Some((inside, hops)) => {
                let out = hops.iter().skip(1).position(|h| h.absolute);
                let count = out.map_or(hops.len(), |i| i + 1);
                (inside, hops, count)
            }
            None => (file.to_path_buf(), hops, 0),
        };
        for (i, hop) in hops.iter().enumerate() {
            let reach = if i == 0 && via == Via::Typed { Reach::Alone } else { Reach::Folder };
            // The project is there; but the scripts of an environment in it name its place on the host.
            if i >= only_inside || place::environment(self.fs, &hop.path).is_some() {
                self.claim(&hop.path, reach, i + 1 == hops.len(), led.as_deref(), depth)?;
            }
        }
        self.offer(&program, file, venv.as_deref(), via);
        self.interpreter(file, &real, led.as_deref(), depth)?;
        Ok(program)
    }

    /// What a shim or a proxy would start in its place.
    fn stand_in(&self, hops: &[Hop], file: &Path, real: &Path) -> Result<Option<Tool>, LookupError> {
        let refuse =
            |why: String, hint: String| Err(LookupError::NotExecutable { path: file.into(), why, hint });
        let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if rustup::is_proxy(self.fs, file, real) {
            return match rustup::resolve(self.fs, self.around, name) {
                Ok(tool) => Ok(Some(tool)),
                Err((why, hint)) => refuse(why, hint),
            };
        }
        if real.ends_with("volta-shim") {
            let hint = "name the real program below ~/.volta/tools/image; `volta which` prints it".to_owned();
            return refuse("it is a shim of volta".to_owned(), hint);
        }
        if real == Path::new("/usr/bin/snap") && name != "snap" {
            let hint = "install it in another way".to_owned();
            return refuse("it is a snap, which only snapd can start".to_owned(), hint);
        }
        let shims = |h: &Hop| h.path.parent().filter(|p| p.ends_with("shims")).map(Path::to_path_buf);
        // A project's own folder of that name is just a folder.
        let Some(shims) = hops.iter().filter(|h| self.rest_in_project(&h.path).is_none()).find_map(shims)
        else {
            return Ok(None);
        };
        match shim::resolve(self.fs, self.around, &shims, name) {
            shim::Target::File(file) => Ok(Some(Tool { file, from: None })),
            shim::Target::System => {
                let file = self.search(OsStr::new(name), Some(&shims))?;
                Ok(Some(Tool { file, from: None }))
            }
            shim::Target::Nothing { why, hint } => refuse(why, hint),
        }
    }

    /// Where `file` lies in the project, by its name or by that of its folder without links.
    fn rest_in_project(&self, file: &Path) -> Option<PathBuf> {
        self.project.as_ref()?;
        if let Some(rest) = self.bounds.in_project(file) {
            return Some(rest.to_path_buf());
        }
        let folder = walk::real(self.fs, file.parent()?)?;
        self.bounds.in_project(&folder.join(file.file_name()?)).map(Path::to_path_buf)
    }

    /// The path inside of a file of the project and its names on the host; `None` when a relative link leads
    /// out of the project, which would lead elsewhere inside.
    fn mapped(&self, rest: &Path) -> Option<(PathBuf, Vec<Hop>)> {
        let (_, root) = self.project.as_ref()?;
        let hops = walk::chain(self.fs, &root.join(rest)).ok()?;
        let relative = hops.iter().skip(1).take_while(|h| !h.absolute);
        let stays = relative.into_iter().all(|h| h.path.starts_with(root));
        stays.then(|| (Path::new(PROJECT).join(rest), hops))
    }

    /// Asks for what `file` needs.
    fn claim(
        &mut self,
        file: &Path,
        reach: Reach,
        last: bool,
        from: Option<&Path>,
        depth: usize,
    ) -> Result<(), LookupError> {
        if place::always_there(file) {
            return Ok(());
        }
        let granted = self.around.granted.iter().find(|g| file.starts_with(g));
        let mut prefix = match granted {
            Some(granted) => granted.clone(),
            None => self.bounds.prefix(self.fs, file, reach),
        };
        let mut real = walk::real(self.fs, &prefix).unwrap_or_else(|| prefix.clone());
        let forbidden =
            self.bounds.forbids(&prefix) || self.bounds.forbids(&real) || place::of_the_kernel(file);
        if forbidden && granted.is_none() {
            return Err(LookupError::TooBroad { program: file.to_path_buf(), path: prefix });
        }
        if let Some(from) = from
            && granted.is_none()
            && !place::is_toolchain(self.fs, &prefix)
            && self.bounds.in_project(&real).is_none()
            && !place::always_there(&real)
        {
            // A name on the way to a toolchain is shown alone, as if it were the file that it leads to.
            if last {
                return Err(LookupError::Untrusted { from: from.into(), path: file.into(), folder: prefix });
            }
            prefix = file.to_path_buf();
            real = prefix.clone();
        }
        let venv = place::is_venv(self.fs, &prefix);
        self.prefixes.insert(prefix.clone());
        if venv && self.environments.insert(real) {
            self.base(&prefix, from, depth)?;
        }
        Ok(())
    }

    /// Takes in the Python that a virtual environment was made with.
    fn base(&mut self, venv: &Path, from: Option<&Path>, depth: usize) -> Result<(), LookupError> {
        let real = walk::real(self.fs, venv).unwrap_or_else(|| venv.to_path_buf());
        let text = self.fs.own_text(&real.join("pyvenv.cfg")).unwrap_or_default();
        let Some(home) = setting(&text, "home").map(PathBuf::from).filter(|h| h.is_absolute()) else {
            return Ok(());
        };
        let named =
            |key| setting(&text, key).map(PathBuf::from).and_then(|p| p.file_name().map(OsStr::to_owned));
        let minor = setting(&text, "version_info").or_else(|| setting(&text, "version")).and_then(|v| {
            let mut parts = v.split('.');
            Some(OsString::from(format!("python{}.{}", parts.next()?, parts.next()?)))
        });
        let names = [
            named("executable"),
            named("base-executable"),
            minor,
            Some("python3".into()),
            Some("python".into()),
        ];
        let there = walk::real(self.fs, &home).map(|h| self.fs.names(&h)).unwrap_or_default();
        let versioned = there
            .into_iter()
            .filter(|n| n.as_bytes().starts_with(b"python") && !n.as_bytes().contains(&b'-'));
        let mut pythons = names.into_iter().flatten().chain(versioned).map(|n| home.join(n));
        let python =
            pythons.find(|p| matches!(walk::look(self.fs, p), Some(Kind::File { executable: true, .. })));
        match python {
            Some(python) => self.enter(&python, Via::Named, from, depth + 1).map(|_| ()),
            None => Err(LookupError::NotExecutable {
                path: venv.to_path_buf(),
                why: format!(
                    "it was made with the Python in {}, which is not there any more",
                    home.display()
                ),
                hint: remake(venv),
            }),
        }
    }

    /// Puts the program's folder on the inside `PATH`, and sets what its environment sets.
    fn offer(&mut self, program: &Path, file: &Path, venv: Option<&Path>, via: Via) {
        if via == Via::Named {
            return;
        }
        let folder = match venv {
            Some(venv) => Some(venv.join("bin")),
            None if program != file && via == Via::Typed => None,
            None => program.parent().map(Path::to_path_buf),
        };
        if let Some(venv) = venv
            && self.env.is_empty()
        {
            let name = if place::is_venv(self.fs, venv) { "VIRTUAL_ENV" } else { "CONDA_PREFIX" };
            self.env.push((name.into(), venv.into()));
        }
        let visible = |f: &Path| {
            f.starts_with(PROJECT) || place::always_there(f) || self.prefixes.iter().any(|p| f.starts_with(p))
        };
        if let Some(folder) = folder.filter(|f| !place::standard(f) && visible(f))
            && !self.path_dirs.contains(&folder)
        {
            self.path_dirs.push(folder);
        }
    }

    /// Takes in what starts a script.
    fn interpreter(
        &mut self,
        file: &Path,
        real: &Path,
        from: Option<&Path>,
        depth: usize,
    ) -> Result<(), LookupError> {
        let Some(head) = self.fs.head(real, script::HEAD) else {
            // A program that may be executed but not read.
            return Ok(());
        };
        let missing = |interpreter: &Path, hint: String| LookupError::MissingInterpreter {
            script: file.to_path_buf(),
            interpreter: interpreter.to_path_buf(),
            hint,
        };
        match script::start(&head) {
            Start::Binary => Ok(()),
            Start::Never(why) => Err(LookupError::NotExecutable {
                path: file.to_path_buf(),
                why: why.to_owned(),
                hint: "give it a first line such as #!/bin/sh, or name the program that runs it".to_owned(),
            }),
            Start::By(interpreter) => {
                if walk::chain(self.fs, &interpreter) == Err(Dead::Absent) {
                    let hint = match place::environment(self.fs, file) {
                        Some(venv) => remake(venv),
                        None => "install it, or change the script's first line".to_owned(),
                    };
                    return Err(missing(&interpreter, hint));
                }
                self.enter(&interpreter, Via::Named, from, depth + 1).map(|_| ())
            }
            Start::ByEnv { env, name } => {
                if walk::chain(self.fs, &env) == Err(Dead::Absent) {
                    return Err(missing(&env, "install env, or change the script's first line".to_owned()));
                }
                if name.as_bytes().contains(&b'/') {
                    return self.enter(Path::new(&name), Via::Named, from, depth + 1).map(|_| ());
                }
                match self.search(&name, None) {
                    // The search path is the caller's, not the project's.
                    Ok(found) => self.enter(&found, Via::Searched, None, depth + 1).map(|_| ()),
                    Err(LookupError::NotFound { .. }) if name.as_bytes().contains(&b' ') => {
                        let hint = "begin it with `#!/usr/bin/env -S` to give arguments";
                        Err(missing(Path::new(&name), hint.to_owned()))
                    }
                    Err(LookupError::NotFound { hint, .. }) => Err(missing(Path::new(&name), hint)),
                    Err(other) => Err(other),
                }
            }
        }
    }
}

/// A value of a `pyvenv.cfg`.
fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case(key))
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

fn remake(venv: &Path) -> String {
    format!(
        "make the environment again: `python3 -m venv --clear {}` (on Debian after `apt install python3-venv`)",
        venv.display()
    )
}

fn install_hint(name: &OsStr, near: Option<String>) -> String {
    let name = name.to_string_lossy();
    if let Some(near) = near {
        return format!("did you mean {near}?");
    }
    match &*name {
        "python" | "python3" | "pip" | "pip3" => {
            "install Python (on Debian: `apt install python3 python3-venv`)".to_owned()
        }
        "pytest" | "tox" | "nox" | "mypy" | "ruff" | "black" => format!(
            "install it into the project's environment: `python3 -m venv .venv && .venv/bin/pip install {name}`"
        ),
        "cargo" | "rustc" => "install Rust from https://rustup.rs".to_owned(),
        "node" | "npm" | "npx" => "install Node.js (on Debian: `apt install nodejs npm`)".to_owned(),
        "go" => "install Go (on Debian: `apt install golang`)".to_owned(),
        "java" | "javac" => "install a JDK (on Debian: `apt install default-jdk-headless`)".to_owned(),
        "gcc" | "cc" | "make" | "g++" => {
            "install a compiler (on Debian: `apt install build-essential`)".to_owned()
        }
        _ => "install it, or give its path".to_owned(),
    }
}
