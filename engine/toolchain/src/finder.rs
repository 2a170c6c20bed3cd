//! Joins the parts: from a program as typed to a [`Toolchain`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::operator::Operator;
use super::place::{self, Needed, Reach, setting};
use super::rustup::Tool;
use super::sight::Sight;
use super::walk::{self, Dead, Hop};
use super::{Asks, LookupError, Project, Surroundings, Toolchain, rustup, shell_advice, shim};
use hotcell_sandbox::policy::{FileId, PROJECT};

mod interpreter;
mod refusals;
mod search;

use refusals::{changed, outside, remake};

/// Maximum nesting: scripts started by scripts, shims that lead to shims, environments made from
/// environments.
const MAX_SCRIPT_DEPTH: usize = 8;

/// How a lookup arrived at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    /// The user wrote its path.
    Typed,
    /// A search by name found it.
    Searched,
    /// A first line, a `pyvenv.cfg` or a version manager gives its path on the host.
    Named,
}

/// [`super::find`] on any file system.
pub(super) fn find(
    fs: &dyn Fs,
    program: &OsStr,
    around: &Surroundings,
    kind: Project,
) -> Result<Toolchain, LookupError> {
    let operator = Operator::new(fs, around, program);
    let mut finder = Finder::new(&operator, kind == Project::Layered);
    let (file, via) = finder.locate(program)?;
    // A path given by a caller is not the operator's.
    let said = (via == Via::Typed && around.asks == Asks::Caller).then_some(file.as_path());
    let program = finder.enter(&file, via, said, 0)?;
    let prefixes = outermost(std::mem::take(&mut finder.prefixes));
    Ok(Toolchain {
        program,
        identities: finder.identities(&prefixes)?,
        prefixes,
        arguments: finder.arguments,
        path_dirs: finder.path_dirs,
        env: finder.env,
    })
}

/// Sorts paths and removes nested ones.
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
    operator: &'a Operator<'a>,
    around: &'a Surroundings,
    /// Queries on the operator's behalf; on the project's where the project gave the path.
    sight: Sight<'a>,
    /// The project by its given path and by its canonical path.
    project: Option<(PathBuf, PathBuf)>,
    /// A name in the project may be another file on the host than inside, so nothing in the project is
    /// mounted.
    layered: bool,
    prefixes: BTreeSet<PathBuf>,
    path_dirs: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
    arguments: Vec<OsString>,
    environments: BTreeSet<PathBuf>,
}

impl<'a> Finder<'a> {
    fn new(operator: &'a Operator<'a>, layered: bool) -> Self {
        let project = match operator.bounds.project.as_slice() {
            [named, real] => Some((named.clone(), real.clone())),
            _ => None,
        };
        Self {
            operator,
            around: operator.around(),
            sight: operator.sight(),
            project,
            layered,
            prefixes: BTreeSet::new(),
            path_dirs: Vec::new(),
            env: Vec::new(),
            arguments: Vec::new(),
            environments: BTreeSet::new(),
        }
    }

    /// Identities of the files and folders that were checked. They are opened again by name for mounting, and
    /// the names may have been moved meanwhile.
    fn identities(&self, prefixes: &[PathBuf]) -> Result<BTreeMap<PathBuf, FileId>, LookupError> {
        let mut identities = BTreeMap::new();
        for prefix in prefixes {
            let real = walk::real(self.sight, prefix);
            let Some(id) = real.and_then(|real| self.operator.fs().id(&real)) else {
                return Err(LookupError::NotExecutable {
                    path: prefix.clone(),
                    why: "it cannot be opened, or was changed just now".to_owned(),
                    hint: "look at what is there and run it again".to_owned(),
                });
            };
            identities.insert(prefix.clone(), id);
        }
        Ok(identities)
    }

    /// The absolute host path of the program as typed.
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
        let sight = self.sight.led(self.around.asks == Asks::Caller);
        let there = |p: &PathBuf| walk::chain(sight, p) != Err(Dead::Absent);
        match places.into_iter().find(there) {
            Some(file) => Ok((self.settle(sight, &file), Via::Typed)),
            None => Err(LookupError::NotFound {
                program: typed.to_path_buf(),
                searched: Vec::new(),
                hint: match self.similar(
                    sight,
                    program,
                    [first.parent().map(Path::to_path_buf)].into_iter().flatten(),
                ) {
                    Some(near) => format!("did you mean {near}?"),
                    // A folder may have spaces in its name.
                    None if shell_advice(&program.to_string_lossy()).is_some() => {
                        "check the path; no shell reads it: arguments stand behind it, each a word of its own"
                            .to_owned()
                    }
                    None if typed.is_absolute() => "check the path".to_owned(),
                    None => format!("check the path; it counts from {}", self.around.cwd.display()),
                },
            }),
        }
    }

    /// Makes a path absolute, without `.` and `..`, following links if needed.
    fn settle(&self, sight: Sight<'_>, path: &Path) -> PathBuf {
        if path.components().all(|c| c != std::path::Component::ParentDir) {
            return walk::normal(path);
        }
        match (path.parent().and_then(|p| walk::real(sight, p)), path.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => walk::normal(path),
        }
    }

    /// Adds a file and everything that starts it. Returns the path inside of the program that is really
    /// started.
    ///
    /// `from` is the file in the project that led here, if the project had influence.
    fn enter(
        &mut self,
        file: &Path,
        via: Via,
        from: Option<&Path>,
        depth: usize,
    ) -> Result<PathBuf, LookupError> {
        if depth > MAX_SCRIPT_DEPTH {
            return Err(LookupError::NotExecutable {
                path: file.to_path_buf(),
                why: format!("scripts and shims lead to one another more than {MAX_SCRIPT_DEPTH} times"),
                hint: "name the program at the end of them".to_owned(),
            });
        }
        let sight = self.sight.led(from.is_some());
        let hops = self.executable(sight, file, from)?;
        let real = hops.last().map_or_else(|| file.to_path_buf(), |h| h.path.clone());
        // A person who types a path has not read its links.
        let is_typed = via == Via::Typed && self.around.asks == Asks::Operator;
        if is_typed && hops.len() > 1 && !self.operator.is_searched(file) {
            self.executable(sight.typed(), file, from)?;
        }
        if let Some(better) = self.stand_in(&hops, file, &real)? {
            let via = if via == Via::Typed { Via::Searched } else { via };
            return self.enter(&better.file, via, better.from.as_deref(), depth + 1);
        }

        // A file of the project is started at its place inside, unless it belongs to a virtual environment,
        // whose scripts contain host paths, or is a link out of the project, which only works on the host.
        let venv = place::environment(self.sight, file).map(Path::to_path_buf);
        let mapped = match self.rest_in_project(file) {
            Some(rest) if self.layered || via == Via::Typed || (via == Via::Searched && venv.is_none()) => {
                self.mapped(&rest)
            }
            _ => None,
        };
        let venv = match &mapped {
            // Started at its place inside, since nothing of a layered project is mounted.
            Some((inside, _)) if self.layered && venv.is_some() => {
                inside.parent().and_then(Path::parent).map(Path::to_path_buf)
            }
            _ => venv,
        };
        let (program, hops, only_inside) = match mapped {
            Some((inside, hops)) => {
                let out = hops.iter().skip(1).position(|h| h.absolute);
                let count = out.map_or(hops.len(), |i| i + 1);
                (inside, hops, count)
            }
            None => (self.first_outside(&hops).unwrap_or(file).to_path_buf(), hops, 0),
        };
        for (i, hop) in hops.iter().enumerate() {
            let reach = if i == 0 && via == Via::Typed { Reach::Alone } else { Reach::Folder };
            // The project itself is mounted inside; but the scripts of an environment in it contain its path
            // on the host.
            if i >= only_inside || place::environment(self.sight, &hop.path).is_some() {
                if self.layered && i > 0 && hop.absolute && self.operator.in_project(&hop.path).is_some() {
                    return Err(changed(&hop.path));
                }
                self.claim(&hop.path, reach, depth)?;
            }
        }
        self.offer(&program, file, venv.as_deref(), via);
        match self.interpreter(file, &real, via, depth)? {
            Some((interpreter, argument)) => {
                self.arguments = argument.into_iter().chain([program.into_os_string()]).collect();
                Ok(interpreter)
            }
            None => Ok(program),
        }
    }

    /// For a program to which a link of the project leads: its first name outside the project, where nothing
    /// of the project is mounted.
    fn first_outside<'h>(&self, hops: &'h [Hop]) -> Option<&'h Path> {
        let is_in = |hop: &Hop| self.operator.in_project(&hop.path).is_some();
        hops.first().filter(|first| self.layered && is_in(first))?;
        hops.iter().find(|hop| !is_in(hop)).map(|hop| hop.path.as_path())
    }

    /// Maps a path inside the project to the host: an environment that was made in a sandbox contains paths
    /// inside.
    fn on_the_host(&self, named: &Path) -> PathBuf {
        match (&self.project, named.strip_prefix(PROJECT)) {
            (Some((project, _)), Ok(rest)) => project.join(rest),
            _ => named.to_path_buf(),
        }
    }

    /// The program that a shim or a proxy would start.
    fn stand_in(&self, hops: &[Hop], file: &Path, real: &Path) -> Result<Option<Tool>, LookupError> {
        let refuse =
            |why: String, hint: String| Err(LookupError::NotExecutable { path: file.into(), why, hint });
        let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // A project's own file of such a name is treated as an ordinary file.
        let is_foreign = self.operator.is_foreign(real);
        if !is_foreign && rustup::is_proxy(self.sight, file, real) {
            return match rustup::resolve(self.sight, self.around, name) {
                Ok(tool) => Ok(Some(tool)),
                Err((why, hint)) => refuse(why, hint),
            };
        }
        if !is_foreign && real.ends_with("volta-shim") {
            let hint = "name the real program below ~/.volta/tools/image; `volta which` prints it".to_owned();
            return refuse("it is a shim of volta".to_owned(), hint);
        }
        if real == Path::new("/usr/bin/snap") && name != "snap" {
            let hint = "install it in another way".to_owned();
            return refuse("it is a snap, which only snapd can start".to_owned(), hint);
        }
        let shims = |h: &Hop| h.path.parent().filter(|p| p.ends_with("shims")).map(Path::to_path_buf);
        // A project's own folder of that name is treated as an ordinary folder.
        let is_own = |h: &&Hop| !self.operator.is_foreign(&h.path) && self.rest_in_project(&h.path).is_none();
        let Some(shims) = hops.iter().filter(is_own).find_map(shims) else {
            return Ok(None);
        };
        match shim::resolve(self.sight, self.around, &shims, name) {
            shim::Target::File(file, from) => Ok(Some(Tool { file, from })),
            shim::Target::System => {
                let file = self.search(OsStr::new(name), Some(&shims))?;
                Ok(Some(Tool { file, from: None }))
            }
            shim::Target::Nothing { why, hint } => refuse(why, hint),
        }
    }

    /// The path of `file` relative to the project, by its name or by the canonical path of its folder.
    fn rest_in_project(&self, file: &Path) -> Option<PathBuf> {
        self.project.as_ref()?;
        if let Some(rest) = self.operator.in_project(file) {
            return Some(rest.to_path_buf());
        }
        let folder = walk::real(self.sight, file.parent()?)?;
        self.operator.in_project(&folder.join(file.file_name()?)).map(Path::to_path_buf)
    }

    /// The path inside of a file of the project, and its names on the host; `None` if a relative link leads
    /// out of the project, since it would lead elsewhere inside.
    fn mapped(&self, rest: &Path) -> Option<(PathBuf, Vec<Hop>)> {
        let (_, root) = self.project.as_ref()?;
        let hops = walk::chain(self.sight, &root.join(rest)).ok()?;
        let relative = hops.iter().skip(1).take_while(|h| !h.absolute);
        let stays = relative.into_iter().all(|h| h.path.starts_with(root));
        stays.then(|| (Path::new(PROJECT).join(rest), hops))
    }

    /// Requests the mounts that `file` needs. A path influenced by the project is allowed only within the
    /// project or the operator's set.
    fn claim(&mut self, file: &Path, reach: Reach, depth: usize) -> Result<(), LookupError> {
        if place::always_there(file) {
            return Ok(());
        }
        let granted = self.around.granted.iter().find(|g| file.starts_with(g));
        let bounds = &self.operator.bounds;
        let needed = match granted {
            // The operator granted this folder: expose all of it.
            Some(granted) => Needed::Whole(granted.clone()),
            None => bounds.needed(self.sight, file, reach),
        };
        let (Needed::Whole(prefix)
        | Needed::Installation(prefix)
        | Needed::Programs(prefix)
        | Needed::File(prefix)) = &needed;
        let real = walk::real(self.sight, prefix).unwrap_or_else(|| prefix.clone());
        if let Some(planted) = [file, prefix, &real].into_iter().find(|p| self.operator.is_planted(p)) {
            return Err(LookupError::Planted { program: file.to_path_buf(), path: planted.to_path_buf() });
        }
        let forbidden = bounds.forbids(prefix) || bounds.forbids(&real) || place::of_the_kernel(file);
        if forbidden && granted.is_none() {
            return Err(LookupError::TooBroad { program: file.to_path_buf(), path: prefix.clone() });
        }
        let is_own = self.operator.in_project(&real).is_some();
        let is_typed = granted.is_none() && self.operator.is_typed(prefix);
        let sight = if is_typed { self.sight.typed() } else { self.sight };
        for shown in self.shown(&needed, file, is_own) {
            // A name in the project may be a link of the project, to a folder that is part of the path just
            // followed.
            if (is_typed || self.operator.is_foreign(&shown))
                && let Err(Dead::Barred(to)) = walk::chain(sight, &shown)
            {
                return Err(outside(&shown, &to));
            }
            if self.layered && self.operator.in_project(&shown).is_some() {
                continue;
            }
            if self.layered
                && walk::real(self.sight, &shown).is_some_and(|r| self.operator.in_project(&r).is_some())
            {
                return Err(changed(&shown));
            }
            self.prefixes.insert(shown);
        }
        if place::is_venv(self.sight, prefix) && self.environments.insert(real.clone()) {
            let prefix = prefix.clone();
            self.base(&prefix, &real, depth)?;
        }
        Ok(())
    }

    /// The paths to mount for a file's needs.
    fn shown(&self, needed: &Needed, file: &Path, is_own: bool) -> Vec<PathBuf> {
        let root = match needed {
            Needed::Installation(root) => root,
            Needed::Whole(path) | Needed::Programs(path) | Needed::File(path) => return vec![path.clone()],
        };
        // The project is mounted anyway, at another place.
        if is_own && place::is_venv(self.sight, root) {
            return vec![root.clone()];
        }
        let parts = self.operator.parts(root);
        // Mount an installation without other contents as a whole: one mount takes less time than five. Not
        // if it is the project's, whose links may change.
        if parts.all && (is_own || !self.operator.is_foreign(root)) {
            return vec![root.clone()];
        }
        let mut shown: Vec<PathBuf> = parts.named.iter().map(|part| root.join(part)).collect();
        if !shown.iter().any(|part| file.starts_with(part)) {
            shown.push(file.to_path_buf());
        }
        shown
    }

    /// Adds the Python with which a virtual environment was made.
    fn base(&mut self, venv: &Path, real: &Path, depth: usize) -> Result<(), LookupError> {
        let configuration = real.join("pyvenv.cfg");
        let text = self.sight.own_text(&configuration).unwrap_or_default();
        let Some(home) = setting(&text, "home").map(PathBuf::from).filter(|h| h.is_absolute()) else {
            return Ok(());
        };
        // In the project, this file says whatever the project wants.
        let is_foreign = self.operator.is_foreign(real) || self.operator.is_typed(real);
        let from = is_foreign.then(|| venv.join("pyvenv.cfg"));
        let sight = self.sight.led(from.is_some());
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
        let there = match walk::chain(sight, &home.join("python3")) {
            Err(Dead::Barred(path)) => {
                return Err(outside(from.as_deref().unwrap_or(venv), &path).with_hint(&remake(venv)));
            }
            _ => walk::real(sight, &home).map(|h| sight.names(&h)).unwrap_or_default(),
        };
        let versioned = there
            .into_iter()
            .filter(|n| n.as_bytes().starts_with(b"python") && !n.as_bytes().contains(&b'-'));
        let mut pythons = names.into_iter().flatten().chain(versioned).map(|n| home.join(n));
        let python =
            pythons.find(|p| matches!(walk::look(sight, p), Some(Kind::File { executable: true, .. })));
        match python {
            Some(python) => {
                let entered = self.enter(&python, Via::Named, from.as_deref(), depth + 1);
                self.veil(entered, from.as_deref(), &python)
            }
            None if self.is_veiled(from.as_deref(), &home) => {
                Err(outside(from.as_deref().unwrap_or(venv), &home.join("python3")))
            }
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

    /// Prepends the program's folder to the inside `PATH`, and sets the variables of its environment.
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
            let name = if place::is_venv(self.sight, venv) { "VIRTUAL_ENV" } else { "CONDA_PREFIX" };
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
}
