//! Shell: two parsers, and the plain sequence of words where they disagree.
#![no_main]

use hotcell_guard::Language;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hotcell_fuzz::read("a.sh", bytes, Some(Language::Bash));
});
