//! Cost of the largest forged report. Runs alone in its process, whose memory it measures.

use std::fmt::Write;
use std::time::Instant;

use hotcell_sandbox::{Cause, Outcome};
use hotcell_testing::case::{MAX_CASES, ReportError};
use hotcell_testing::live::LiveLog;
use hotcell_testing::report::judge::{Asked, judge};
use hotcell_testing::session::MAX_REPORT_SIZE;
use hotcell_testing::{Verdict, framework};

/// Peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn reset_peak() -> u64 {
    // Since Linux 4.0, for the own process.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    peak()
}

#[test]
fn largest_forged_report_has_bounded_cost() {
    let largest = usize::try_from(MAX_REPORT_SIZE.0).unwrap();
    let pytest = framework("pytest").unwrap();
    let outcome = Outcome { exit_code: Some(0), ..Outcome::without_a_run(Cause::Exited, "") };
    // In texts most of the time is spent per byte, and no more memory than for the first of them.
    for (what, most, entry) in [
        (
            "long texts",
            largest / 8,
            format!(
                "<failure message=\"{0}\">{0}</failure><system-out>{0}</system-out>",
                "x&#65;".repeat(20_000)
            ),
        ),
        ("many entities", largest / 8, format!("<failure>{}</failure>", "&amp;".repeat(4_000))),
        ("many cases", largest, String::new()),
    ] {
        let mut text = String::with_capacity(largest);
        let mut live = LiveLog::default();
        let mut reader = pytest.events();
        text.push_str("<testsuites><testsuite>");
        let mut at = 0;
        while text.len() + entry.len() + 400 < most && at < MAX_CASES {
            let padding = if entry.is_empty() { "y".repeat(100) } else { String::new() };
            let name = format!("test_{padding}{at}");
            write!(
                text,
                "<testcase classname=\"test_a\" name=\"{name}\" file=\"test_a.py\">{entry}</testcase>"
            )
            .unwrap();
            for e in ["start", "end\",\"status\":\"passed"] {
                let line = format!("{{\"e\":\"{e}\",\"id\":\"test_a.py::{name}\"}}\n");
                reader.push(line.as_bytes()).iter().for_each(|event| live.apply(event));
            }
            at += 1;
        }
        text.push_str("</testsuite></testsuites>");
        // Including the report itself.
        let before = reset_peak() - text.len() as u64;
        let started = Instant::now();
        let bytes = [text.into_bytes()];
        let report = pytest.report(&bytes, &live);
        assert!(!matches!(report, Err(ReportError::Missing)));
        drop(bytes);
        let judged = judge(pytest, Asked::default(), report, &live, &outcome);
        let used = peak().saturating_sub(before);
        println!("{what}: {at} cases, {} MiB, {:?}", used >> 20, started.elapsed());
        assert_ne!(judged.verdict, Verdict::Passed);
        assert!(used < 200 << 20, "{what}: {} MiB", used >> 20);
    }
}
