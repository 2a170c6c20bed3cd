//! The operator's set: every installation to which the operator's own settings lead. A project or a caller
//! can only choose among these.
//!
//! The settings are the folders of `PATH`, `VIRTUAL_ENV`, `--toolchain` and the configuration's `toolchains`,
//! and the roots of version managers by their variables or in the home folder. Anything in the project is
//! excluded, even if such a setting points into the project. The set is computed only once something of the
//! project leads to a path outside the project and the system.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::files::{Fs, Kind};
use super::parts::{self, Parts};
use super::place::{self, Bounds, Needed, Reach};
use super::sight::{Seen, Sight};
use super::walk;
use super::{Asks, Surroundings};

/// Search path of `execvp` when `PATH` is not set.
pub(super) const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Folder of the links by which Debian chooses among programs of the system.
const ALTERNATIVES: &str = "/etc/alternatives";

/// Locations of a version manager's installations.
struct Manager {
    /// The variable that names its root.
    variable: &'static str,
    /// Default root below the home folder, if the variable is not set.
    at_home: &'static str,
    /// Folder of the installations, relative to the root.
    below: &'static str,
    /// Number of path components of an installation: one for the version, or two for tool and version.
    names: usize,
}

const fn manager(
    variable: &'static str,
    at_home: &'static str,
    below: &'static str,
    names: usize,
) -> Manager {
    Manager { variable, at_home, below, names }
}

const MANAGERS: [Manager; 12] = [
    manager("PYENV_ROOT", ".pyenv", "versions", 1),
    manager("RBENV_ROOT", ".rbenv", "versions", 1),
    manager("NODENV_ROOT", ".nodenv", "versions", 1),
    manager("GOENV_ROOT", ".goenv", "versions", 1),
    manager("JENV_ROOT", ".jenv", "versions", 1),
    manager("PLENV_ROOT", ".plenv", "versions", 1),
    manager("PHPENV_ROOT", ".phpenv", "versions", 1),
    manager("ASDF_DATA_DIR", ".asdf", "installs", 2),
    manager("MISE_DATA_DIR", ".local/share/mise", "installs", 2),
    manager("NVM_DIR", ".nvm", "versions/node", 1),
    manager("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "", 1),
    manager("RUSTUP_HOME", ".rustup", "toolchains", 1),
];
/// Default locations of conda below the home folder; others are given by `CONDA_EXE` or `MAMBA_ROOT_PREFIX`.
const CONDA_AT_HOME: [&str; 5] = ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba"];

/// Whether a variable gives a version manager's root or its active version.
pub(super) fn names_a_root(variable: &str) -> bool {
    MANAGERS.iter().any(|m| m.variable == variable)
        || matches!(variable, "CONDA_EXE" | "CONDA_PREFIX" | "MAMBA_ROOT_PREFIX")
}

/// The folders in which version managers keep Pythons, each below its version's name.
pub(super) fn of_pythons(around: &Surroundings) -> Vec<PathBuf> {
    const KEPT: [(&str, &str); 4] = [
        ("PYENV_ROOT", ""),
        ("ASDF_DATA_DIR", "python"),
        ("MISE_DATA_DIR", "python"),
        ("UV_PYTHON_INSTALL_DIR", ""),
    ];
    let of = |manager: &Manager| {
        let below = KEPT.iter().find(|(variable, _)| *variable == manager.variable)?.1;
        let said = around.value(manager.variable).map(PathBuf::from).filter(|root| root.is_absolute());
        let root = said.or_else(|| Some(around.home.as_ref()?.join(manager.at_home)))?;
        Some(root.join(manager.below).join(below))
    };
    MANAGERS.iter().filter_map(of).collect()
}

/// One of the places that the operator's words lead to.
#[derive(Debug)]
enum Root {
    /// A folder with all its contents, or one file.
    Whole(PathBuf),
    /// The parts of an installation that are listed in the table.
    Installation(PathBuf, OnceCell<Parts>),
    /// The programs in a folder.
    Programs(PathBuf),
    /// Installations below a version manager's folder, at this depth.
    Versions(PathBuf, usize),
}

/// Decides which paths may be looked at and exposed, and on whose behalf.
pub(super) struct Operator<'a> {
    fs: &'a dyn Fs,
    around: &'a Surroundings,
    /// The homes and the project.
    pub bounds: Bounds,
    /// A file whose path the operator typed: by that path, and by its path with the machine's own links
    /// resolved.
    typed: Vec<PathBuf>,
    /// The current folder, if the operator typed a path relative to it and gives no project: usually a clone.
    ground: Vec<PathBuf>,
    /// Locations given by the settings themselves.
    near: OnceCell<Vec<Root>>,
    /// Targets of links in the folders that the settings give.
    far: OnceCell<Vec<Root>>,
    /// Version managers' installations looked at so far: whether each is a virtual environment, and its
    /// parts.
    versions: RefCell<BTreeMap<PathBuf, (bool, Parts)>>,
    /// Set while one of the two lists is computed. A setting that leads through the project is ignored then.
    is_made: Cell<bool>,
}

impl<'a> Operator<'a> {
    /// The operator of this lookup.
    pub fn new(fs: &'a dyn Fs, around: &'a Surroundings, program: &OsStr) -> Self {
        let mut operator = Self {
            fs,
            around,
            bounds: Bounds::default(),
            typed: Vec::new(),
            ground: Vec::new(),
            near: OnceCell::new(),
            far: OnceCell::new(),
            versions: RefCell::default(),
            is_made: Cell::new(false),
        };
        let both = |path: &Path| {
            let named = walk::normal(&around.cwd.join(path));
            let real = walk::real(operator.sight(), &around.cwd.join(path)).unwrap_or_else(|| named.clone());
            [named, real]
        };
        let project = around.project.as_deref().map(both).into_iter().flatten().collect();
        let homes = around.home.as_deref().map(both).into_iter().flatten();
        let homes: Vec<PathBuf> = homes.filter(|h| h != Path::new("/")).collect();
        let is_path = program.as_encoded_bytes().contains(&b'/') && around.asks == Asks::Operator;
        // A relative entry of PATH leads to whatever is in the current folder.
        let entries = std::env::split_paths(around.path.as_deref().unwrap_or_default());
        let relative: Vec<PathBuf> = entries.filter(|entry| entry.is_relative() && !is_path).collect();
        let is_relative = is_path && Path::new(program).is_relative() || !relative.is_empty();
        let is_from_here = is_relative && around.project.is_none();
        let relative = [around.cwd.clone()].into_iter().chain(relative).filter(|_| is_from_here);
        let ground = relative.flat_map(|folder| both(&folder));
        let is_wide = |f: &PathBuf| f == Path::new("/") || homes.iter().any(|home| home.starts_with(f));
        let ground = ground.filter(|f| !is_wide(f)).collect();
        let bounds = Bounds::new(homes, project, around.value("CARGO_HOME").map(Path::new));
        (operator.bounds, operator.ground) = (bounds, ground);
        if is_path {
            let named = walk::normal(&around.cwd.join(program));
            // The targets of its links were not typed, except for the machine's links on the way to a home.
            let beyond = named.ancestors().skip(1).filter(|above| operator.is_of_the_machine(above));
            let beyond = beyond.filter_map(|above| {
                let real = walk::real(operator.sight(), above).filter(|real| real != above)?;
                Some(real.join(named.strip_prefix(above).ok()?))
            });
            operator.typed = [named.clone()].into_iter().chain(beyond).collect();
        }
        operator
    }

    /// The file system.
    pub fn fs(&self) -> &'a dyn Fs {
        self.fs
    }

    /// Queries on the operator's behalf.
    pub fn sight(&self) -> Sight<'_> {
        Sight::of_the_operator(self)
    }

    /// Environment of the lookup.
    pub fn around(&self) -> &'a Surroundings {
        self.around
    }

    /// The path relative to the project, by the project's given path or by its canonical path.
    pub fn in_project<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.bounds.in_project(path)
    }

    /// Whether the file at this place may be another user's: it lies in the project, in the folder that a typed path counts from, or
    /// where others may put files.
    pub fn is_foreign(&self, path: &Path) -> bool {
        self.is_at_hand(path) || self.is_planted(path)
    }

    /// Whether a path lies in the project, or in the folder that a typed path counts from.
    fn is_at_hand(&self, path: &Path) -> bool {
        self.in_project(path).is_some() || self.ground.iter().any(|ground| path.starts_with(ground))
    }

    /// Whether others than the operator may have put there what lies at a path, which is not the project's.
    pub fn is_planted(&self, path: &Path) -> bool {
        self.around.foreign.holds(path) && self.in_project(path).is_none()
    }

    /// Whether a link at this place is the machine's: at the top, or on the way to a home.
    pub fn is_of_the_machine(&self, link: &Path) -> bool {
        link.components().count() <= 2 || self.bounds.homes.iter().any(|home| home.starts_with(link))
    }

    /// Whether an installation is exposed only because a path in it was typed: the contents of its files were
    /// not typed.
    pub fn is_typed(&self, root: &Path) -> bool {
        self.typed.iter().any(|typed| typed.starts_with(root) && !self.is_searched(typed))
    }

    /// Whether a file is the system's, or lies in a folder on the operator's search path.
    pub fn is_searched(&self, file: &Path) -> bool {
        let in_folder = |root: &Root| matches!(root, Root::Programs(folder) if file.parent() == Some(folder));
        place::always_there(file) || self.near().iter().any(in_folder)
    }

    /// Whether a path of the project may lead to this path: it lies in the project, in the system that every
    /// sandbox shows, or in the operator's set.
    pub fn leads_to(&self, path: &Path) -> bool {
        let is_open = |root: &Root| root.holds(self, path) && !self.is_planted(path);
        place::always_there(path)
            || path.starts_with(ALTERNATIVES)
            || self.is_at_hand(path)
            || self.near().iter().any(is_open)
            || self.far().iter().any(is_open)
    }

    /// Like [`Self::leads_to`], but also true for folders on the way there.
    pub fn lets_look_at(&self, path: &Path) -> bool {
        let is_way =
            |root: &Root| root.holds(self, path) && !self.is_planted(path) || root.is_reached_by(self, path);
        place::always_there(path)
            || Path::new(ALTERNATIVES).starts_with(path)
            || path.starts_with(ALTERNATIVES)
            || self.is_at_hand(path)
            || self.bounds.project.iter().chain(&self.ground).any(|p| p.starts_with(path))
            || self.near().iter().any(is_way)
            || self.far().iter().any(is_way)
    }

    /// The exposed parts of an installation.
    pub fn parts(&self, root: &Path) -> Parts {
        let sight = self.sight();
        let names = walk::real(sight, root).map(|real| sight.names(&real)).unwrap_or_default();
        parts::of(&names, |part| walk::exists(sight, &root.join(part)))
    }

    /// Whether a path below a version manager's installation is one of its parts. A virtual environment there
    /// belongs to some other project.
    fn is_shown_of_version(&self, version: PathBuf, rest: &Path) -> bool {
        let known = self.versions.borrow().get(&version).cloned();
        let (is_venv, parts) = known.unwrap_or_else(|| {
            // A link of another user in it may lead back here: until it is known, nothing of it is shown.
            self.versions.borrow_mut().insert(version.clone(), (true, Parts::default()));
            (place::is_venv(self.sight(), &version), self.parts(&version))
        });
        let is_shown = rest.as_os_str().is_empty() || parts.named.iter().any(|part| rest.starts_with(part));
        self.versions.borrow_mut().insert(version, (is_venv, parts));
        is_shown && !is_venv
    }

    /// The folders on the operator's `PATH`.
    fn path(&self) -> Vec<PathBuf> {
        let path = self.around.path.as_deref().unwrap_or(OsStr::new(USUAL_PATH));
        // A relative entry is resolved in the current folder, which may be untrusted.
        std::env::split_paths(path).filter(|p| p.is_absolute()).map(|p| walk::normal(&p)).collect()
    }

    /// Computes one of the two lists once; it counts as empty while it is computed.
    fn once<'c>(&self, list: &'c OnceCell<Vec<Root>>, make: impl FnOnce() -> Vec<Root>) -> &'c [Root] {
        if let Some(roots) = list.get() {
            return roots;
        }
        if self.is_made.replace(true) {
            return &[];
        }
        let roots = list.get_or_init(make);
        self.is_made.set(false);
        roots
    }

    fn near(&self) -> &[Root] {
        self.once(&self.near, || {
            let mut set = Set { operator: self, roots: Vec::new() };
            for granted in &self.around.granted {
                set.each(granted, Root::Whole);
            }
            for folder in self.path() {
                set.programs(&folder);
            }
            if let Some(environment) = &self.around.virtual_env {
                set.programs(&environment.join("bin"));
            }
            for typed in &self.typed {
                match self.bounds.needed(self.sight(), typed, Reach::Alone) {
                    Needed::Installation(root) => set.installation(root),
                    // By its own path alone: the target of a link in its place was not typed.
                    Needed::Whole(folder) | Needed::Programs(folder) => set.roots.push(Root::Whole(folder)),
                    Needed::File(_) => {}
                }
            }
            set.managers();
            set.roots
        })
    }

    fn far(&self) -> &[Root] {
        self.once(&self.far, || {
            let sight = self.sight();
            let mut set = Set { operator: self, roots: Vec::new() };
            for folder in self.path() {
                let Some(real) = walk::real(sight, &folder) else { continue };
                for name in sight.names(&real) {
                    if matches!(sight.look(&real.join(&name)), Seen::There(Kind::Link(_))) {
                        set.program(&folder.join(name));
                    }
                }
            }
            for root in self.near() {
                let Root::Versions(folder, names) = root else { continue };
                for version in self.below(folder, *names) {
                    if let Some(real) = walk::real(sight, &version)
                        && real != version
                        && !place::is_venv(sight, &real)
                    {
                        set.installation(real);
                    }
                }
            }
            set.roots
        })
    }

    /// All paths at a given depth below a folder.
    fn below(&self, folder: &Path, names: usize) -> Vec<PathBuf> {
        let sight = self.sight();
        (0..names).fold(vec![folder.to_path_buf()], |folders, _| {
            let inside = |f: &PathBuf| {
                let real = walk::real(sight, f)?;
                Some(sight.names(&real).into_iter().map(|n| f.join(n)).collect::<Vec<_>>())
            };
            folders.iter().filter_map(inside).flatten().collect()
        })
    }
}

/// The set while it is computed.
struct Set<'o, 'a> {
    operator: &'o Operator<'a>,
    roots: Vec<Root>,
}

impl Set<'_, '_> {
    /// Adds a location by its given path and by its canonical path, unless it is the project's, the system's
    /// or the kernel's.
    fn each(&mut self, path: &Path, root: impl Fn(PathBuf) -> Root) {
        let named = walk::normal(path);
        let real = walk::real(self.operator.sight(), &named).filter(|real| *real != named);
        // This is another name for a path in the project.
        if real.as_deref().is_some_and(|real| self.operator.is_foreign(real)) {
            return;
        }
        for path in [Some(named), real].into_iter().flatten() {
            if !self.operator.is_foreign(&path) && !place::always_there(&path) && !place::of_the_kernel(&path)
            {
                self.roots.push(root(path));
            }
        }
    }

    /// Adds an installation that is not a home or a system folder.
    fn installation(&mut self, root: PathBuf) {
        if !self.operator.is_foreign(&root)
            && !place::always_there(&root)
            && !self.operator.bounds.forbids(&root)
        {
            self.roots.push(Root::Installation(root, OnceCell::new()));
        }
    }

    /// Adds a folder of programs, the installation that it belongs to, and the Python with which that was
    /// made.
    fn programs(&mut self, folder: &Path) {
        for environment in self.folder(folder) {
            // The contents of an environment in the project are the project's, whatever path leads to it.
            let real = walk::real(self.operator.sight(), &environment);
            if real.is_some_and(|real| self.operator.is_foreign(&real)) {
                continue;
            }
            if let Some(home) = place::made_with(self.operator.sight(), &environment) {
                self.folder(&home);
            }
        }
    }

    /// Adds a folder of programs and the installation that it belongs to. Returns the virtual environments
    /// among these.
    fn folder(&mut self, folder: &Path) -> Vec<PathBuf> {
        let sight = self.operator.sight();
        let begin = self.roots.len();
        self.each(folder, Root::Programs);
        let names: Vec<PathBuf> = self.roots[begin..].iter().map(|root| root.path().to_path_buf()).collect();
        let mut environments = Vec::new();
        for folder in names {
            if let Some(root) = folder.parent().filter(|_| folder.ends_with("shims")) {
                self.each(&root.join("versions"), |f| Root::Versions(f, 1));
                self.each(&root.join("installs"), |f| Root::Versions(f, 2));
                continue;
            }
            match self.operator.bounds.needed(sight, &folder.join("-"), Reach::Folder) {
                Needed::Whole(store) => self.roots.push(Root::Whole(store)),
                Needed::Installation(root) => {
                    if place::is_venv(sight, &root) {
                        environments.push(root.clone());
                    }
                    self.installation(root);
                }
                Needed::Programs(_) | Needed::File(_) => {}
            }
        }
        environments
    }

    /// Adds a program of the operator's that is a link: each of its names, and the installations that contain
    /// these.
    fn program(&mut self, file: &Path) {
        let sight = self.operator.sight();
        let Ok(hops) = walk::chain(sight, file) else { return };
        let is_program = hops.last().is_some_and(|hop| {
            matches!(sight.look(&hop.path), Seen::There(Kind::File { executable: true, .. }))
        });
        for hop in hops.into_iter().skip(1).filter(|_| is_program) {
            if place::always_there(&hop.path) || self.operator.is_foreign(&hop.path) {
                continue;
            }
            match self.operator.bounds.needed(sight, &hop.path, Reach::Folder) {
                Needed::Whole(store) => self.roots.push(Root::Whole(store)),
                Needed::Installation(root) => self.installation(root),
                Needed::Programs(_) | Needed::File(_) => {}
            }
            self.roots.push(Root::Whole(hop.path));
        }
    }

    fn managers(&mut self) {
        let around = self.operator.around;
        let at_home = |below: &str| around.home.as_ref().map(|home| home.join(below));
        let said = |variable: &str| around.value(variable).map(PathBuf::from).filter(|p| p.is_absolute());
        for manager in &MANAGERS {
            if let Some(root) = said(manager.variable).or_else(|| at_home(manager.at_home)) {
                self.each(&root.join(manager.below), |f| Root::Versions(f, manager.names));
            }
        }
        let of_program = said("CONDA_EXE").and_then(|exe| Some(exe.parent()?.parent()?.to_path_buf()));
        let at_home = CONDA_AT_HOME.iter().filter_map(|below| at_home(below));
        for root in of_program.into_iter().chain(said("MAMBA_ROOT_PREFIX")).chain(at_home) {
            if place::is_conda(self.operator.sight(), &root) {
                // The installation's environments belong to other projects, like virtual ones; the active one
                // is the operator's setting.
                self.programs(&root.join("bin"));
            }
        }
        if let Some(active) = said("CONDA_PREFIX") {
            self.programs(&active.join("bin"));
        }
    }
}

impl Root {
    fn path(&self) -> &Path {
        match self {
            Self::Whole(path)
            | Self::Installation(path, _)
            | Self::Programs(path)
            | Self::Versions(path, _) => path,
        }
    }

    /// Whether a path without `..` is in the operator's set. An installation's own folder is too: its names
    /// may be read, although only its parts are exposed.
    fn holds(&self, operator: &Operator<'_>, path: &Path) -> bool {
        match self {
            Self::Whole(whole) => path.starts_with(whole),
            Self::Programs(folder) => path.parent() == Some(folder),
            Self::Installation(root, parts) => path.strip_prefix(root).is_ok_and(|rest| {
                let parts = || parts.get_or_init(|| operator.parts(root));
                rest.as_os_str().is_empty() || parts().named.iter().any(|part| rest.starts_with(part))
            }),
            Self::Versions(folder, names) => {
                let Some((version, rest)) = split(path, folder, *names) else { return false };
                operator.is_shown_of_version(version, rest)
            }
        }
    }

    /// Whether a folder is on the way to such a path.
    fn is_reached_by(&self, operator: &Operator<'_>, path: &Path) -> bool {
        if self.path().starts_with(path) {
            return true;
        }
        match self {
            Self::Whole(_) | Self::Programs(_) => false,
            Self::Installation(root, parts) => path.strip_prefix(root).is_ok_and(|rest| {
                parts.get_or_init(|| operator.parts(root)).named.iter().any(|part| part.starts_with(rest))
            }),
            Self::Versions(folder, names) => path.strip_prefix(folder).is_ok_and(|rest| {
                rest.components().count() <= *names
                    && rest.components().all(|c| matches!(c, Component::Normal(_)))
            }),
        }
    }
}

/// Splits a path below a version manager's folder into the installation and the rest.
fn split<'p>(path: &'p Path, folder: &Path, names: usize) -> Option<(PathBuf, &'p Path)> {
    let mut rest = path.strip_prefix(folder).ok()?.components();
    let mut version = folder.to_path_buf();
    for _ in 0..names {
        match rest.next()? {
            Component::Normal(name) => version.push(name),
            _ => return None,
        }
    }
    Some((version, rest.as_path()))
}
