//! Input of a client on standard input, in pieces whose size the first byte sets: answered line by line, and
//! always to an end.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [piece, bytes @ ..] = bytes else { return };
    let said =
        hotcell_mcp::fuzzing::stdio(bytes, usize::from(*piece) * 8).unwrap_or_else(|why| panic!("{why}"));
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: serde_json::Value = serde_json::from_slice(line).expect("each line is JSON");
        assert_eq!(message["jsonrpc"], "2.0");
    }
});
