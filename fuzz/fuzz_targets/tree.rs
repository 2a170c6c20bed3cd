//! Go, Rust, C, C++, Java and PowerShell: the first byte chooses.
#![no_main]

use hotcell_fuzz::{TREES, read};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let [language, rest @ ..] = bytes {
        read(TREES[usize::from(*language) % TREES.len()], rest, None);
    }
});
