//! Final reports of test suites, which the tests themselves can write: JUnit XML, and what programs print as TAP.
#![no_main]

use hotcell_testing::frameworks::tap::tree::{Style, Tree};
use hotcell_testing::frameworks::tap::{Tap, diagnostics};
use hotcell_testing::live::LiveLog;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hotcell_testing::junit::parse(bytes);
    let _ = hotcell_testing::frameworks::tap_program::parse(bytes, &LiveLog::default());
    let text = String::from_utf8_lossy(bytes);
    let _ = (diagnostics::message(&text), diagnostics::place(&text, "/p"));
    let mut flat = Tap::default();
    text.lines().for_each(|line| drop(flat.line(line)));
    for bits in 0..8 {
        let style = Style { nested: bits & 1 != 0, headings: bits & 2 != 0, bare: bits & 4 != 0 };
        let (mut tree, mut found) = (Tree::new(style), Vec::new());
        text.lines().for_each(|line| tree.line(line, &mut found));
        let ended = tree.end(&mut found);
        // A failure is not forgotten at the end.
        assert!(ended.bad || found.iter().all(|found| found.status.is_good()));
    }
});
