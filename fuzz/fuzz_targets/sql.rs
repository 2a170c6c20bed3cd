//! SQL in every dialect.
#![no_main]

use hotcell_guard::Language;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hotcell_fuzz::read("a.sql", bytes, Some(Language::Sql));
});
