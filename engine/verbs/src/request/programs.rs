//! The program of a run: looked up where its caller would find it, with the parts of the host that it needs.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use hotcell_images::Image;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Bind, Confinement, Policy};
use hotcell_toolchain::{self as toolchain, Asks, LookupError, Surroundings, Toolchain};

use super::PATH;
use crate::images;
use crate::pinned::PinnedWorkspace;

/// Where to look up programs.
#[derive(Clone, Copy)]
pub(super) enum Programs<'a> {
    /// On the host, as the caller would find them; their dependencies are mounted.
    Host(&'a Surroundings, Option<&'a PinnedWorkspace>),
    /// On the image's `PATH`, inside: nothing of the host is mounted.
    Image(&'a Image),
    /// On another machine, which looks them up by itself.
    Elsewhere,
}

impl Programs<'_> {
    /// `PATH` inside, after the toolchains' own folders.
    fn path(&self) -> &str {
        match self {
            Self::Host(..) | Self::Elsewhere => PATH,
            Self::Image(image) => image.config.path(),
        }
    }
}

/// Looks a program up, in the view of the workspace and on the host.
pub(super) fn find(program: &OsStr, programs: Programs<'_>) -> Result<Toolchain, Box<RunReport>> {
    let found = match programs {
        Programs::Host(around, Some(kept)) if kept.has_layers() => {
            let view = kept.view().map_err(|e| {
                let why = format!("the workspace cannot be read: {e}");
                Box::new(RunReport::without_a_run(Cause::Refused, why))
            })?;
            toolchain::find_in(&view, program, around)
        }
        Programs::Host(around, _) => toolchain::find(program, around),
        // Found at start inside the image: a lookup from here could only guess.
        Programs::Image(_) | Programs::Elsewhere => return Ok(Toolchain::default()),
    };
    found.map_err(|e| not_found(&e))
}

/// Looks a program up, and completes the policy with it and its dependencies.
pub(super) fn start(
    policy: &mut Policy,
    argv: Vec<OsString>,
    programs: Programs<'_>,
    env: &[(OsString, OsString)],
) -> Result<(), Box<RunReport>> {
    let program = argv.first().filter(|p| !p.is_empty()).ok_or_else(|| {
        let why = "there is no program to run; name one after --";
        Box::new(RunReport::without_a_run(Cause::Refused, why))
    })?;
    let found = match shown_by_a_bind(policy, program) {
        Some(found) => found,
        None => find(program, programs)?,
    };
    begin(policy, found, argv, programs, env);
    Ok(())
}

/// System programs that start others by their paths: shells, and programs that run the lines of a file with a
/// shell.
const STARTS_OTHERS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "env", "make", "gmake", "just", "timeout", "time", "nice",
    "xargs",
];
/// Usual paths of virtual environments in projects.
const ENVIRONMENTS: [&str; 2] = [".venv/bin/python", "venv/bin/python"];

/// Mounts the dependencies of the project's virtual environment for a program that may start something of it,
/// such as a shell with a script that begins with `. .venv/bin/activate`. The environment is untrusted and
/// only chooses between the operator's programs: one that leads elsewhere is ignored.
pub(super) fn show_environment(policy: &mut Policy, programs: Programs<'_>) {
    let Programs::Host(around, kept) = programs else { return };
    let name = policy.job.argv.first().and_then(|program| Path::new(program).file_name());
    let starts = name.and_then(OsStr::to_str).is_some_and(|name| STARTS_OTHERS.contains(&name));
    // This does not reveal its path on the host.
    let is_theirs = around.asks == Asks::Operator && around.project.is_some();
    if !starts || !is_theirs || policy.shape.confinement != Confinement::Namespaces {
        return;
    }
    let around = Surroundings { asks: Asks::Caller, ..around.clone() };
    for environment in ENVIRONMENTS {
        let Ok(found) = find(OsStr::new(environment), Programs::Host(&around, kept)) else { continue };
        for prefix in found.prefixes {
            if !policy.job.toolchains.iter().any(|known| prefix.starts_with(known)) {
                policy.job.toolchains.push(prefix);
            }
        }
        for (path, id) in found.identities {
            policy.job.toolchain_ids.entry(path).or_insert(id);
        }
    }
}

/// A program at a path where a bind shows another file than the host's: that file is used, and its
/// dependencies are looked up inside.
fn shown_by_a_bind(policy: &Policy, program: &OsStr) -> Option<Toolchain> {
    let path = Path::new(program);
    let covers = |bind: &&Bind| path.starts_with(&bind.inside) && bind.host != bind.inside;
    let straight = path.is_absolute() && path.components().all(|c| c != Component::ParentDir);
    policy.job.binds.iter().find(covers).filter(|_| straight)?;
    Some(Toolchain { program: path.to_owned(), ..Toolchain::default() })
}

/// Completes a policy with the found program, and with the variables in their order.
pub(super) fn begin(
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
    policy.job.toolchain_ids = found.identities;
    for toolchain in given {
        if !policy.job.toolchains.iter().any(|known| toolchain.starts_with(known)) {
            policy.job.toolchains.retain(|known| !known.starts_with(&toolchain));
            policy.job.toolchains.push(toolchain);
        }
    }
    policy.job.argv = argv;
    if found.program != Path::new("") {
        policy.job.argv[0] = found.program.into_os_string();
        policy.job.argv.splice(1..1, found.arguments);
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

/// Outcome of a failed lookup.
fn not_found(error: &LookupError) -> Box<RunReport> {
    let cause = match error {
        LookupError::NotFound { .. } => Cause::NotFound,
        LookupError::NotExecutable { .. } | LookupError::MissingInterpreter { .. } => Cause::NotExecutable,
        LookupError::TooBroad { .. } | LookupError::Planted { .. } | LookupError::Untrusted { .. } => {
            Cause::Refused
        }
    };
    Box::new(RunReport::without_a_run(cause, error.to_string()))
}
