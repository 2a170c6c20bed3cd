//! Files, archives, character sets, notebooks and build files: the first byte chooses the name.
#![no_main]

use hotcell_fuzz::{NAMES, read, seeds};

libfuzzer_sys::fuzz_target!(init: seeds::write_if_asked(), |bytes: &[u8]| {
    if let [name, rest @ ..] = bytes {
        read(NAMES[usize::from(*name) % NAMES.len()], rest, None);
    }
});
