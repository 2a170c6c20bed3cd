//! Decoders, named by a program and guessed from a string: the first byte chooses.
#![no_main]

use hotcell_fuzz::{decoding, read};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let [decoder, rest @ ..] = bytes {
        read("a.py", decoding(usize::from(*decoder), rest).as_bytes(), None);
        // As a string that nothing names a decoder for.
        let quoted = serde_json::Value::from(String::from_utf8_lossy(rest)).to_string();
        read("b.py", format!("x = {quoted}\n").as_bytes(), None);
    }
});
