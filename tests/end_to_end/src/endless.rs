//! Runs of a test that never ends, which only their time limit ends: enough time on a quiet machine, and then on a busy one.

use std::collections::BTreeMap;

use serde_json::Value;

/// Factors of the time limit, one after the other: on a busy machine a compiler or a runner needs several times as long to come
/// to the tests.
const FACTORS: [u32; 3] = [1, 4, 16];

/// Runs tests that have these results until all of them are there, with a limit of this many seconds and then with longer ones,
/// and gives the last report. A run that came to all of its tests is the last one, whatever their results are.
pub fn past_the_start(seconds: u32, want: &[(&str, &str)], run: impl Fn(&str) -> Value) -> Value {
    let mut report = Value::Null;
    for factor in FACTORS {
        let limit = format!("{}s", seconds * factor);
        report = run(&limit);
        if !is_early(want, &report) {
            break;
        }
        println!("within {limit}, the run did not come to all of its tests");
    }
    report
}

/// True when a run ended before it came to all of its tests.
fn is_early(want: &[(&str, &str)], report: &Value) -> bool {
    let cases = report["cases"].as_array().into_iter().flatten();
    let status: BTreeMap<&str, &str> =
        cases.filter_map(|case| Some((case["id"].as_str()?, case["status"].as_str()?))).collect();
    want.iter().any(|(id, want)| match status.get(id) {
        None => true,
        Some(status) => *status == "not_finished" && status != want,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_a_run_that_is_cut_early_is_repeated() {
        let want = [("a", "passed"), ("b", "not_finished")];
        let report = |cases: &[(&str, &str)]| {
            let cases: Vec<Value> =
                cases.iter().map(|(id, status)| serde_json::json!({"id": id, "status": status})).collect();
            serde_json::json!({ "cases": cases })
        };
        for (cases, runs) in [
            (&[("a", "passed"), ("b", "not_finished")][..], 1),
            (&[("a", "failed"), ("b", "not_finished")], 1),
            (&[("a", "passed"), ("b", "passed"), ("c", "not_finished")], 1),
            (&[("a", "not_finished"), ("b", "not_finished")], 3),
            (&[("a", "not_finished")], 3),
            (&[("a", "passed")], 3),
            (&[], 3),
        ] {
            let count = Cell::new(0);
            let last = past_the_start(5, &want, |_| {
                count.set(count.get() + 1);
                report(cases)
            });
            assert_eq!((count.get(), last), (runs, report(cases)), "{cases:?}");
        }
        let first = Cell::new(true);
        let whole = [("a", "passed"), ("b", "not_finished")];
        let last =
            past_the_start(5, &want, |_| if first.replace(false) { report(&[]) } else { report(&whole) });
        assert_eq!(last, report(&whole));
    }
}
