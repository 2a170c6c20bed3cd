//! Requests of a program that uses a secret, within intercepted TLS or by a base URL, and answers of the secret's host, of HTTP/1 and HTTP/2.
#![no_main]

use std::sync::OnceLock;

use hotcell_egress::route::reader::Readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static READERS: OnceLock<Readers> = OnceLock::new();
    let readers = READERS.get_or_init(|| Readers::new().expect("readers"));
    if let Err(promise) = readers.check(bytes).and_then(|()| readers.check_stream(bytes)) {
        panic!("{promise}");
    }
});
