//! JavaScript and TypeScript.
#![no_main]

use hotcell_fuzz::read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read("a.js", bytes, None);
    read("a.tsx", bytes, None);
});
