//! Bytes on a connection of the HTTP front, in pieces whose size the first byte sets: the connection is
//! answered or closed, and always ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [piece, bytes @ ..] = bytes else { return };
    let said =
        hotcell_mcp::fuzzing::http(bytes, usize::from(*piece) * 8).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.is_empty() || said.starts_with(b"HTTP/1."), "no HTTP: {said:?}");
});
