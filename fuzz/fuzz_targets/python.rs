//! Python: the parser, names, values, loops.
#![no_main]

use hotcell_guard::Language;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hotcell_fuzz::read("a.py", bytes, Some(Language::Python));
});
