//! Decides which runs can be served by an interpreter that was started ahead. Pure, except that it looks up
//! the toolchains' folders.
//!
//! The result must be the same as with a normal start. If anything would make the interpreter start
//! differently (options, variables, another interpreter, host folders beside the root), the run is started
//! normally.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hotcell_launcher::wire::{LIBRARY_FD, MAX_PRIME_MOUNTS};

use crate::plan::{Source, SourceKind, defaults, in_scratch};
use crate::policy::{Confinement, HOME, Job, MountPlace, Network, Policy, Shape, Stdin};
use crate::root::cstring;
use crate::sources;

/// Runtimes that can be started ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// CPython 3.8 or newer, for code, modules and scripts.
    Python,
    /// Node.js, for scripts.
    Node,
}

/// An interpreter to start ahead, identified by everything that its start depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prime {
    /// Kind of interpreter.
    pub runtime: Runtime,
    /// `argv[0]` in the job, from which the interpreter derives where it is installed.
    pub program: OsString,
    /// Paths inside at which it is looked for, in order.
    pub paths: Vec<PathBuf>,
    /// Modules to import ahead; a `?` at the end of a name marks a module that may be missing.
    pub modules: Vec<String>,
    /// Toolchains of the host that the interpreter needs, as found.
    pub(crate) toolchains: Vec<Source>,
    /// The value of `PATH`, if it differs from the default.
    path: Option<OsString>,
    /// Whether [`UNBUFFERED`] is set for it.
    is_unbuffered: bool,
}

/// The one variable that changes how an interpreter starts but still allows starting it ahead: Python writes
/// without buffering.
const UNBUFFERED: (&str, &str) = ("PYTHONUNBUFFERED", "1");

/// Names of variables that change how an interpreter starts, or which environment it starts with.
const NAMES: [&str; 6] = ["PATH", "HOME", "LANG", "LANGUAGE", "TZ", "SETUPTOOLS_USE_DISTUTILS"];
/// Prefixes of the names of such variables. Those of coverage are read by the start files (`.pth`) that it
/// and pytest-cov install.
const BEGINNINGS: [&str; 12] = [
    "PYTHON",
    "__PYVENV",
    "NODE",
    "UV_",
    "SSL_",
    "OPENSSL",
    "LD_",
    "LC_",
    "GLIBC_",
    "MALLOC_",
    "COVERAGE_",
    "COV_CORE_",
];
/// Bytes reserved in the interpreter's arguments: the job's arguments overwrite them, so that the kernel
/// shows those instead.
const RESERVED_ARGUMENT_BYTES: usize = 4096;

/// Whether an interpreter can be started ahead for runs of this policy.
#[must_use]
pub fn can_wait_for(policy: &Policy) -> bool {
    sources::find(&policy.job)
        .is_ok_and(|found| of(&sources::shape_for(policy, &found), &policy.job, &found).is_some())
}

/// The interpreter that can be started ahead for jobs like this one in sandboxes of this shape.
#[must_use]
pub(crate) fn of(shape: &Shape, job: &Job, sources: &[Source]) -> Option<Prime> {
    let whole = shape.confinement == Confinement::Namespaces && shape.knocked_out.0.is_empty();
    // Outside scratch, only toolchains can be mounted before the job; and a proxy's variables are not known
    // yet.
    let toolchain = |s: &&Source| s.kind == SourceKind::Toolchain && !in_scratch(&s.inside);
    let toolchains: Vec<Source> =
        sources.iter().filter(toolchain).map(Source::as_it_is).collect::<Option<_>>()?;
    let covered = |place: &MountPlace| toolchains.iter().any(|t| t.inside == place.inside);
    let many = toolchains.len() > MAX_PRIME_MOUNTS;
    // A terminal is made by the process that becomes the program.
    let terminal = matches!(job.stdin, Stdin::Terminal(_));
    // The interpreter's own files were opened before.
    if shape.watch_files
        || !whole
        || many
        || terminal
        || shape.network == Network::Proxy
        || !shape.places.iter().all(covered)
    {
        return None;
    }
    let path = job.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let usual = defaults(Path::new(HOME));
    let changes = |name: &OsStr, value: &OsStr| {
        if (name.to_str(), value.to_str()) == (Some(UNBUFFERED.0), Some(UNBUFFERED.1)) {
            return false;
        }
        let name = name.as_bytes();
        if usual.iter().any(|(n, v)| (n.as_bytes(), *v) == (name, value)) {
            return false;
        }
        name != b"PATH" && NAMES.iter().any(|n| n.as_bytes() == name)
            || BEGINNINGS.iter().any(|b| name.starts_with(b.as_bytes()))
    };
    if job.env.iter().any(|(name, value)| changes(name, value)) {
        return None;
    }
    let program = job.argv.first()?;
    let first = job.argv.get(1)?.as_bytes();
    let asked = Path::new(program);
    let runtime = runtime(asked.file_name()?.to_str()?)?;
    // An option may change the interpreter, and without arguments it reads its program from standard input.
    let script = !first.is_empty() && first[0] != b'-';
    let own = runtime == Runtime::Python && matches!(first, b"-c" | b"-m") && job.argv.len() > 2;
    if !script && !own {
        return None;
    }
    // Only interpreters in the root or in a toolchain, which no mount of the job can replace.
    let within = |path: &Path| {
        let straight = path.components().all(|c| !matches!(c, Component::ParentDir | Component::CurDir));
        let top = ["/usr", "/bin", "/sbin"]
            .iter()
            .map(Path::new)
            .chain(toolchains.iter().map(|t| t.inside.as_path()));
        straight && path.is_absolute() && top.into_iter().any(|top| path.starts_with(top))
    };
    let paths: Vec<PathBuf> = if program.as_bytes().contains(&b'/') {
        vec![asked.to_owned()]
    } else {
        let usual = defaults(Path::new(HOME))[0].1.to_owned();
        std::env::split_paths(path.as_ref().unwrap_or(&usual)).map(|folder| folder.join(asked)).collect()
    };
    if !paths.iter().all(|path| within(path)) {
        return None;
    }
    let is_unbuffered = job.env.iter().any(|(name, _)| name == UNBUFFERED.0);
    let (program, modules) = (program.clone(), job.imports.clone());
    Some(Prime { runtime, program, paths, modules, toolchains, path, is_unbuffered })
}

/// Recognizes a runtime by the program's name: `python3`, `python3.11`, `node`, `nodejs`.
fn runtime(name: &str) -> Option<Runtime> {
    if matches!(name, "node" | "nodejs") {
        return Some(Runtime::Node);
    }
    let version = name.strip_prefix("python3").or_else(|| name.strip_prefix("python"))?;
    let digits = |v: &str| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit());
    (version.is_empty() || version.strip_prefix('.').is_some_and(digits)).then_some(Runtime::Python)
}

impl Prime {
    /// Programs, arguments and environment of the interpreter.
    pub(crate) fn start(&self) -> [Vec<CString>; 3] {
        let kind = match self.runtime {
            Runtime::Python => "python",
            Runtime::Node => "node",
        };
        let argv = [
            self.program.clone(),
            kind.into(),
            self.modules.join(",").into(),
            " ".repeat(RESERVED_ARGUMENT_BYTES).into(),
        ]
        .map(cstring);
        let library = OsString::from(format!("/proc/self/fd/{LIBRARY_FD}"));
        let mut usual = defaults(Path::new(HOME));
        if let Some(path) = &self.path {
            usual[0].1 = path;
        }
        let unbuffered = Some((UNBUFFERED.0, OsStr::new(UNBUFFERED.1))).filter(|_| self.is_unbuffered);
        let env = usual.into_iter().chain([("LD_PRELOAD", library.as_os_str())]).chain(unbuffered);
        let env = env.map(|(name, value)| cstring([OsStr::new(name), value].join(OsStr::new("="))));
        [self.paths.iter().map(cstring).collect(), argv.to_vec(), env.collect()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    #[test]
    fn python_and_node_commands_are_primable() {
        use Runtime::{Node, Python};
        for (argv, want) in [
            (&["python3", "-c", "1"][..], Some(Python)),
            (&["python3", "-m", "json.tool", "x"], Some(Python)),
            (&["python3.11", "a.py"], Some(Python)),
            (&["/usr/bin/python3", "a.py", "-x"], Some(Python)),
            (&["node", "a.js"], Some(Node)),
            (&["/usr/local/bin/node", "./a.js"], Some(Node)),
            (&["python3"], None),
            (&["python3", "-"], None),
            (&["python3", "-c"], None),
            (&["python3", "-I", "a.py"], None),
            (&["python3", "-Wd", "a.py"], None),
            (&["python3", ""], None),
            (&["node", "-e", "1"], None),
            (&["node", "--test", "a.js"], None),
            (&["python2", "a.py"], None),
            (&["python3.11x", "a.py"], None),
            (&["pythonw", "a.py"], None),
            (&["ipython3", "a.py"], None),
            (&["./python3", "a.py"], None),
            (&["venv/bin/python3", "a.py"], None),
            (&["/home/sandbox/project/.venv/bin/python3", "a.py"], None),
            (&["/usr/bin/../../tmp/python3", "a.py"], None),
            (&["/opt/x/python3", "a.py"], None),
            (&["/usr/lib/x/python3", "a.py"], Some(Python)),
            (&["sh", "-c", "python3 a.py"], None),
            (&[], None),
        ] {
            let mut policy = Policy::new("x");
            policy.job.argv = argv.iter().map(OsString::from).collect();
            assert_eq!(of(&policy.shape, &policy.job, &[]).map(|p| p.runtime), want, "{argv:?}");
        }
    }

    #[test]
    fn interpreter_start_variables_prevent_priming() {
        for (name, primed) in [
            ("A", true),
            ("TERM", true),
            ("PYTEST_ADDOPTS", true),
            ("PYTHONPATH", false),
            ("PYTHON", false),
            ("NODE_OPTIONS", false),
            ("LD_LIBRARY_PATH", false),
            ("LC_ALL", false),
            ("COVERAGE_PROCESS_START", false),
            ("COV_CORE_SOURCE", false),
            ("COVER", true),
            ("SETUPTOOLS_USE_DISTUTILS", false),
            ("LANG", false),
            ("HOME", false),
            ("PATH", false), // "x" is no folder of the root
            ("TMPDIR", true),
            ("TZ", false),
        ] {
            let policy = Policy::new("python3").args(["-c", "1"]).env(name, "x");
            assert_eq!(of(&policy.shape, &policy.job, &[]).is_some(), primed, "{name}");
        }
        let usual = Policy::new("python3").args(["-c", "1"]).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        assert!(of(&usual.shape, &usual.job, &[]).is_some());
        // A path in an image.
        let sbin = Policy::new("python3")
            .args(["-c", "1"])
            .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        assert!(of(&sbin.shape, &sbin.job, &[]).is_some());
    }

    #[test]
    fn unsupported_shapes_prevent_priming() {
        let policy = Policy::new("python3").args(["-c", "1"]);
        assert!(of(&policy.shape, &policy.job, &[]).is_some());
        let mut weak = policy.shape.clone();
        weak.confinement = Confinement::LandlockOnly;
        let mut proxied = policy.shape.clone();
        proxied.network = Network::Proxy;
        let mut more = policy.shape.clone();
        more.places.push(crate::policy::MountPlace { inside: "/opt/x".into(), folder: true });
        for shape in [weak, proxied, more] {
            assert!(of(&shape, &policy.job, &[]).is_none(), "{shape:?}");
        }
    }
}
