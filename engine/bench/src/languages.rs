//! Interpreters, started outside and inside.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::{Engine, Policy, prime, temporary};
use hotcell_testing::framework;
use hotcell_toolchain::{self as toolchain, Surroundings};
use tempfile::TempDir;

use crate::Row;
use crate::selection::RowName;
use crate::ways::{Variant, Way};

/// An interpreter, its arguments and its files.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Row of the interpreter.
    pub row: RowName,
    /// Label of its rows.
    pub what: &'static str,
    /// Name of the program.
    pub program: &'static str,
    /// Arguments; `@` is the folder of its files, outside and inside.
    pub args: &'static [&'static str],
    /// Names and contents of its files.
    pub files: &'static [(&'static str, &'static str)],
    /// Required test framework, whose modules are imported in a primed interpreter.
    pub framework: Option<&'static str>,
    /// Target for a primed start, as a fraction of a start outside.
    pub target: f64,
}

const TWO_TESTS: &str = "def test_one():\n    assert 1 + 1 == 2\n\ndef test_two():\n    assert 'a' < 'b'\n";

/// The measured interpreters.
pub const ALL: [Language; 3] = [
    Language {
        row: RowName::Python,
        what: "python3 -c print(1)",
        program: "python3",
        args: &["-c", "print(1)"],
        files: &[],
        framework: None,
        target: 0.25,
    },
    Language {
        row: RowName::Pytest,
        what: "pytest, two tests and a JUnit report",
        program: "python3",
        args: &["-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=@/report.xml", "@/test_two.py"],
        files: &[("test_two.py", TWO_TESTS)],
        framework: Some("pytest"),
        target: 0.30,
    },
    Language {
        row: RowName::Node,
        what: "node FILE with console.log(1)",
        program: "node",
        args: &["@/one.js"],
        files: &[("one.js", "console.log(1)\n")],
        framework: None,
        target: 0.35,
    },
];

/// Ways to start an interpreter.
#[derive(Debug, Default)]
pub struct Ways {
    /// Variants in the order of measurement, prewarmed ones last.
    pub variants: Vec<Variant>,
    /// Rows of variants that are not available, with reasons.
    pub missing: Vec<Row>,
    /// Folder of the files, which has to exist during the measurement.
    pub folder: Option<TempDir>,
}

impl Language {
    /// All variants in which the interpreter can be started.
    #[must_use]
    pub fn ways(self, engine: &Engine) -> Ways {
        self.try_ways(engine)
            .unwrap_or_else(|why| Ways { missing: vec![self.missing("bare", why)], ..Ways::default() })
    }

    fn missing(self, variant: &str, why: String) -> Row {
        Row { what: self.what.to_owned(), variant: variant.to_owned(), failed: Some(why), ..Row::default() }
    }

    fn try_ways(self, engine: &Engine) -> Result<Ways, String> {
        let found = toolchain::find(OsStr::new(self.program), &Surroundings::of_this_process())
            .map_err(|e| e.to_string())?;
        let imports = self.framework.and_then(framework).map_or(&[][..], |framework| framework.imports());
        for module in imports.iter().filter(|module| !module.ends_with('?')) {
            let mut asked = Command::new(&found.program);
            asked
                .args(["-c", &format!("import {module}")])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if !asked.status().is_ok_and(|status| status.success()) {
                return Err(format!("{} has no {module}", found.program.display()));
            }
        }
        let folder =
            if self.files.is_empty() { None } else { Some(self.project().map_err(|e| e.to_string())?) };
        let args = |at: &Path| {
            let at = at.display().to_string();
            self.args.iter().map(move |arg| arg.replace('@', &at))
        };
        let outside = folder.as_ref().map_or(Path::new(""), TempDir::path);
        let words = std::iter::once(found.program.clone().into_os_string())
            .chain(args(outside).map(OsString::from))
            .collect();
        let mut path: Vec<_> = found.path_dirs.iter().map(|folder| folder.display().to_string()).collect();
        path.push("/usr/local/bin:/usr/bin:/bin".to_owned());
        let mut policy =
            Policy::new(&found.program).args(args(Path::new(PROJECT))).env("PATH", path.join(":"));
        if let Some(folder) = &folder {
            policy = policy.read_write(folder.path(), PROJECT);
        }
        policy.job.toolchains = found.prefixes;
        policy.job.env.extend(found.env);
        policy.job.imports = imports.iter().map(|name| (*name).to_owned()).collect();
        let mut variants = vec![
            Variant::new(self.what, "bare", Way::Read(words)),
            Variant::new(self.what, "cold", Way::Cold(engine.clone(), policy.clone())),
            Variant::new(self.what, "hot", Way::hot(engine, policy.clone())),
        ];
        let mut missing = Vec::new();
        if prime::can_wait_for(&policy) {
            variants.push(Variant::new(self.what, "primed", Way::primed(engine, policy)));
        } else {
            let why = format!("such a run of {} is not started ahead", found.program.display());
            missing.push(self.missing("primed", why));
        }
        Ok(Ways { variants, missing, folder })
    }

    fn project(self) -> std::io::Result<TempDir> {
        let folder = temporary::folder()?;
        for (name, text) in self.files {
            std::fs::write(folder.path().join(name), text)?;
        }
        Ok(folder)
    }
}
