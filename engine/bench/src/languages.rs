//! Interpreters: as somebody starts them, and the same inside.

use std::ffi::{OsStr, OsString};

use hotcell_sandbox::toolchain::{self, Surroundings};
use hotcell_sandbox::{Engine, Policy, prime};

use crate::Row;
use crate::selection::RowName;
use crate::ways::{Variant, Way};

/// An interpreter and what it is given.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Its row.
    pub row: RowName,
    /// The program.
    pub program: &'static str,
    /// What it is given.
    pub args: [&'static str; 2],
}

/// Those that are measured.
pub const ALL: [Language; 2] = [
    Language { row: RowName::Python, program: "python3", args: ["-c", "print(1)"] },
    Language { row: RowName::Node, program: "node", args: ["-e", "console.log(1)"] },
];

impl Language {
    /// What the rows say.
    #[must_use]
    pub fn what(self) -> String {
        format!("{} {} {}", self.program, self.args[0], self.args[1])
    }

    /// All the ways in which it is started, what is ready beforehand last; and rows for those that cannot be had.
    #[must_use]
    pub fn variants(self, engine: &Engine) -> (Vec<Variant>, Vec<Row>) {
        let what = self.what();
        let missing = |variant: &str, why: String| Row {
            what: what.clone(),
            variant: variant.to_owned(),
            failed: Some(why),
            ..Row::default()
        };
        let found = match toolchain::find(OsStr::new(self.program), &Surroundings::of_this_process()) {
            Ok(found) => found,
            Err(e) => return (Vec::new(), vec![missing("bare", e.to_string())]),
        };
        let words =
            std::iter::once(found.program.clone().into_os_string()).chain(self.args.map(OsString::from));
        let mut path: Vec<_> = found.path_dirs.iter().map(|folder| folder.display().to_string()).collect();
        path.push("/usr/local/bin:/usr/bin:/bin".to_owned());
        let mut policy = Policy::new(&found.program).args(self.args).env("PATH", path.join(":"));
        policy.job.toolchains = found.prefixes;
        policy.job.env.extend(found.env);
        let mut variants = vec![
            Variant::new(&what, "bare", Way::Read(words.collect())),
            Variant::new(&what, "cold", Way::Cold(engine.clone(), policy.clone())),
            Variant::new(&what, "hot", Way::hot(engine, policy.clone())),
        ];
        if prime::can_wait_for(&policy) {
            variants.push(Variant::new(&what, "primed", Way::primed(engine, policy)));
            return (variants, Vec::new());
        }
        let why = format!("such a run of {} is not started ahead", found.program.display());
        (variants, vec![missing("primed", why)])
    }
}
