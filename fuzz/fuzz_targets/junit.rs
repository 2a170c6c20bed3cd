//! Final reports of test suites, which the tests themselves can write.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hotcell_testing::junit::parse(bytes);
});
