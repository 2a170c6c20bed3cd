//! Answers that a compromised reader could send, and how its caller handles them.
#![no_main]

use hotcell_fuzz::PACK;
use hotcell_guard::{Report, merge, sarif};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = serde_json::from_slice::<Report>(bytes) else { return };
    let _ = hotcell_review::guard::sentence(&report);
    let _ = sarif(&report, &PACK);
    let _ = merge("all", [report.clone(), report]);
});
