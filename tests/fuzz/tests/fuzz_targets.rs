//! Each target of `fuzz/` over its seeds and inputs like them: that it compiles, and that its promises hold for these bytes. `scripts/fuzz` looks for others.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

// The targets name the macro by libFuzzer's crate.
extern crate self as libfuzzer_sys;

/// Makes the body of a target a function, in place of libFuzzer's entry point.
#[macro_export]
macro_rules! fuzz_target {
    (init: $init:expr, |$bytes:ident: &[u8]| $body:block) => {
        pub fn target($bytes: &[u8]) {
            // It writes seeds where a variable of scripts/fuzz names a folder.
            $init;
            $body
        }
    };
    (|$bytes:ident: &[u8]| $body:block) => {
        pub fn target($bytes: &[u8]) $body
    };
}

/// Inputs of a target, at most: rules have thousands of examples, each of which the guard's own tests read too.
const MAX_SEEDS: usize = 40;

struct Seeds(tempfile::TempDir);

static SEEDS: LazyLock<Seeds> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    hotcell_fuzz::seeds::write(folder.path()).expect("seeds");
    Seeds(folder)
});

impl Seeds {
    /// The seeds of `target` in the order of their names, spread evenly over all that there are.
    fn of(&self, target: &str) -> Vec<Vec<u8>> {
        let folder = self.0.path().join(target);
        let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
            .map(|found| found.map(|entry| entry.expect("an entry").path()).collect())
            .unwrap_or_default();
        names.sort();
        let step = names.len().div_ceil(MAX_SEEDS).max(1);
        names.iter().step_by(step).map(|name| std::fs::read(name).expect("a seed")).collect()
    }
}

/// A seed, what is left of it when it is cut, and what it becomes when one byte differs or when it comes twice.
fn inputs_like(seed: &[u8]) -> Vec<Vec<u8>> {
    let cut = |parts: usize| seed[..seed.len() / parts].to_vec();
    let changed = |at: usize, bits: u8| {
        let mut bytes = seed.to_vec();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= bits;
        }
        bytes
    };
    vec![
        seed.to_vec(),
        cut(2),
        cut(3),
        changed(seed.len() / 2, 0x80),
        changed(seed.len() / 3, 0x01),
        changed(seed.len().saturating_sub(1), 0xff),
        [seed, seed].concat(),
    ]
}

fn check(name: &str, target: fn(&[u8])) {
    let seeds = SEEDS.of(name);
    assert!(!seeds.is_empty(), "the target {name} has no seeds: fuzz/src/seeds.rs writes them");
    target(&[]);
    for seed in seeds {
        inputs_like(&seed).iter().for_each(|bytes| target(bytes));
    }
}

#[path = "../../../fuzz/fuzz_targets"]
mod targets {
    //! A target is the root of a program where libFuzzer runs it.
    #![allow(unused_attributes)]

    pub mod answer;
    pub mod decoder;
    pub mod egress;
    pub mod image;
    pub mod ingest;
    pub mod javascript;
    pub mod junit;
    pub mod mapping;
    pub mod mcp_http;
    pub mod mcp_stdio;
    pub mod python;
    pub mod routes;
    pub mod screen;
    pub mod shell;
    pub mod sql;
    pub mod terminal;
    pub mod tool_host;
    pub mod tree;
    pub mod wire;
}

macro_rules! targets {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name), targets::$name::target);
            }
        )*
    };
}
targets! { answer decoder egress image ingest javascript junit mapping mcp_http mcp_stdio python routes screen shell sql terminal tool_host tree wire }

#[test]
fn every_target_is_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the targets")
        .map(|entry| {
            entry.expect("a target").file_name().to_string_lossy().trim_end_matches(".rs").to_owned()
        })
        .collect();
    files.sort();
    assert_eq!(files, NAMES);
}
