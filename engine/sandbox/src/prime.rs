//! Which runs can be served by an interpreter that is started before they are asked for. Pure.
//!
//! It has to come to the same as a start of its own: whatever would make the interpreter start otherwise (options,
//! variables, another interpreter, folders of the host beside the root) goes the usual way.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::layer::Layer;
use crate::plan::ShapePlan;
use crate::policy::{Confinement, HOME, Job, Network, Shape};
use crate::root::cstring;

/// An interpreter that is started ahead, by what it is started with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prime {
    /// Its name in the job, which tells it where it lives.
    pub program: OsString,
    /// Paths inside, tried in order.
    pub paths: Vec<PathBuf>,
    /// Modules that it imports meanwhile.
    pub modules: Vec<String>,
}

/// Variables that change how an interpreter starts, or what it starts with: by name, or by how the name begins.
const NAMES: [&str; 5] = ["PATH", "HOME", "LANG", "LANGUAGE", "TZ"];
/// What an interpreter is told beside its name: room for the arguments of its job, which the kernel shows in place of its own.
const ROOM: usize = 4096;
const BEGINNINGS: [&str; 6] = ["PYTHON", "LD_", "LC_", "GLIBC_", "MALLOC_", "__PYVENV"];

/// What could be started ahead for jobs like this one in sandboxes of this shape.
#[must_use]
pub fn of(shape: &Shape, job: &Job) -> Option<Prime> {
    let whole = shape.confinement == Confinement::Namespaces && shape.knocked_out.0.is_empty();
    // What is mounted beside the root is not there yet, and a proxy's variables are.
    if !whole || !shape.places.is_empty() || shape.network == Network::Proxy {
        return None;
    }
    let changes = |name: &OsStr| {
        let name = name.as_bytes();
        NAMES.iter().any(|n| n.as_bytes() == name)
            || BEGINNINGS.iter().any(|b| name.starts_with(b.as_bytes()))
    };
    if job.env.iter().any(|(name, _)| changes(name)) {
        return None;
    }
    let program = job.argv.first()?;
    let first = job.argv.get(1)?.as_bytes();
    // An option may change the interpreter, and without one it reads its program from standard input.
    let runs = matches!(first, b"-c" | b"-m") && job.argv.len() > 2 || !first.is_empty() && first[0] != b'-';
    let path = Path::new(program);
    let name = path.file_name()?.to_str()?;
    let version = name.strip_prefix("python3").or_else(|| name.strip_prefix("python"))?;
    let numbered = version.is_empty()
        || version.strip_prefix('.').is_some_and(|v| v.bytes().all(|b| b.is_ascii_digit()) && !v.is_empty());
    if !runs || !numbered {
        return None;
    }
    let paths = if program.as_bytes().contains(&b'/') {
        // Only what is in the root, which nobody can change.
        let parts = path.components().all(|c| !matches!(c, std::path::Component::ParentDir));
        if !parts
            || !["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|top| path.parent() == Some(Path::new(top)))
        {
            return None;
        }
        vec![path.to_owned()]
    } else {
        ["/usr/local/bin", "/usr/bin", "/bin"].iter().map(|top| Path::new(top).join(path)).collect()
    };
    Some(Prime { program: program.clone(), paths, modules: Vec::new() })
}

impl Prime {
    /// Whether a sandbox of this plan can have it.
    pub(crate) fn fits(&self, plan: &ShapePlan) -> bool {
        use hotcell_launcher::wire::setup;
        plan.rooted && !plan.late && plan.setup.flags & setup::PROC != 0 && plan.layers.is_on(Layer::PidNs)
    }

    /// Its programs, arguments and environment.
    pub(crate) fn start(&self) -> [Vec<CString>; 3] {
        let argv =
            [&self.program, OsStr::new(&self.modules.join(",")), OsStr::new(&" ".repeat(ROOM))].map(cstring);
        let env = [
            "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            format!("HOME={HOME}"),
            "LANG=C.UTF-8".to_owned(),
            "TMPDIR=/tmp".to_owned(),
            format!("LD_PRELOAD=/proc/self/fd/{}", hotcell_launcher::wire::LIBRARY_FD),
        ];
        [self.paths.iter().map(cstring).collect(), argv.to_vec(), env.map(cstring).to_vec()]
    }
}
