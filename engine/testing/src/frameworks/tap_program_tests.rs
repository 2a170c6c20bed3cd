//! Ids, live events and reports of programs that print TAP.

use super::*;
use crate::event::Event;
use proptest::prelude::*;

/// Events of the driver for a program that prints `text` and ends with `code`, and its report.
fn both(program: &str, text: &str, code: i32, said: &str) -> (LiveLog, Result<Vec<Entry>, ReportError>) {
    let end = format!(r#""code":{code},"said":{},"stopped":false"#, json!(said));
    let mut told = format!("{{\"e\":\"session\",\"version\":\"1\"}}\n{{\"e\":\"program\",{program}}}\n");
    for piece in text.split_inclusive(' ') {
        told += &format!("{}\n", json!({"e": "tap", "text": piece}));
    }
    told += &format!("{{\"e\":\"exit\",{end}}}\n{{\"e\":\"finish\",\"exit\":{}}}\n", i32::from(code != 0));
    let mut reader = TapEvents::default();
    let mut events: Vec<Event> = told.as_bytes().chunks(7).flat_map(|bytes| reader.push(bytes)).collect();
    events.extend(reader.end());
    let mut live = LiveLog::default();
    events.iter().for_each(|event| live.apply(event));
    let report = format!("{{{program},{end},\"size\":{}}}\n{text}", text.len());
    let entries = parse(report.as_bytes(), &live);
    (live, entries)
}

const TAPE_OF_ONE: &str = r#""program":"t/a.js","headings":true,"top":"/p""#;
const TAP_OF_MANY: &str = r#""program":"tap","nested":true,"top":"/p""#;
const AVA_OF_MANY: &str = r#""program":"ava","top":"/p","names":{"a":"t/a.js","deep › b":"t/deep/b.test.js","b":"t/deep/b.test.js"}"#;

#[test]
fn ids_and_results() {
    for (program, text, code, said, want) in [
        (TAPE_OF_ONE, "# x\nok 1 y\n1..1\n", 0, "", &[("t/a.js::x::y", Status::Passed)][..]),
        (
            TAPE_OF_ONE,
            "# @hotcell file t/b.js\n# x\nnot ok 1 y\n1..1\n",
            1,
            "",
            &[("t/b.js::x::y", Status::Failed)],
        ),
        (
            TAP_OF_MANY,
            "# Subtest: t/a.js\n    ok 1 - x\n    1..1\nok 1 - t/a.js\n1..1\n",
            0,
            "",
            &[("t/a.js::x", Status::Passed)],
        ),
        (
            AVA_OF_MANY,
            "ok 1 - a › good\nok 2 - deep › b › x › y\nnot ok 3 - Error: load\n1..3\n",
            1,
            "",
            &[
                ("t/a.js::good", Status::Passed),
                ("t/deep/b.test.js::x › y", Status::Passed),
                ("ava::Error: load", Status::Failed),
            ],
        ),
        // It ended early, or badly with nothing that says so: never green.
        (
            TAPE_OF_ONE,
            "# x\nok 1 y\n",
            0,
            "",
            &[("t/a.js::x::y", Status::Passed), ("t/a.js", Status::Errored)],
        ),
        (
            TAPE_OF_ONE,
            "# x\nok 1 y\n1..1\n",
            7,
            "",
            &[("t/a.js::x::y", Status::Passed), ("t/a.js", Status::Errored)],
        ),
        (
            TAP_OF_MANY,
            "ok 1 - t/a.js\n1..1\n",
            1,
            "ERROR: Coverage for lines (75%) does not meet global threshold (100%)",
            &[("t/a.js", Status::Passed), ("coverage threshold", Status::Errored)],
        ),
        (TAPE_OF_ONE, "", 1, "Error: no", &[("t/a.js", Status::Errored)]),
        // Nothing to tell of.
        (TAPE_OF_ONE, "hello\n", 0, "", &[]),
    ] {
        let (live, entries) = both(program, text, code, said);
        let entries = entries.unwrap();
        let got: Vec<_> = entries.iter().map(|entry| (entry.id.as_str(), entry.status)).collect();
        assert_eq!(got, want, "{text}");
        let seen: Vec<_> = live.seen().iter().map(|seen| (&*seen.id, seen.status.unwrap())).collect();
        assert_eq!(seen, want, "{text}");
        assert_eq!((live.faults, live.finished.is_some()), (0, true), "{text}");
    }
}

#[test]
fn tap_program_crash_has_position() {
    let (live, entries) =
        both(TAPE_OF_ONE, "# x\n", 1, "/p/t/a.js:3\nthrow new Error('boom');\n\nError: boom\n");
    assert_eq!(live.seen()[0].at, Some(("t/a.js".to_owned(), 3)));
    let message = live.seen()[0].message.clone().unwrap();
    assert!(message.contains("exit code 1") && message.contains("boom"), "{message}");
    assert!(entries.unwrap()[0].details.as_deref().unwrap().contains("Error: boom"));
}

#[test]
fn lines_that_cannot_follow_are_faults() {
    for (text, faults) in [
        ("{\"e\":\"tap\",\"text\":\"ok\"}\n", 1),
        ("{\"e\":\"exit\",\"code\":0}\n", 1),
        (
            "{\"e\":\"program\",\"program\":\"a\"}\n{\"e\":\"exit\",\"code\":0}\n{\"e\":\"program\",\"program\":\"a\"}\n",
            1,
        ),
        ("{\"e\":\"program\",\"program\":\"a\"}\n{\"e\":\"exit\"", 1),
        ("nonsense\n", 1),
    ] {
        let mut reader = TapEvents::default();
        let mut events = reader.push(text.as_bytes());
        events.extend(reader.end());
        assert_eq!(events.iter().filter(|event| **event == Event::Fault).count(), faults, "{text}");
    }
}

#[test]
fn malformed_tap_program_report_is_an_error() {
    for text in [
        "",
        "{}",
        "{}\n",
        "[[[[\n",
        "{\"program\":\"a\",\"size\":3}\nok\n1",
        "{\"program\":\"a\",\"size\":2}\nok\n",
        "{\"program\":\"a\",\"size\":3,\"cut\":true}\nok\n",
        "{\"size\":3}\nok\n",
    ] {
        assert!(parse(text.as_bytes(), &LiveLog::default()).is_err(), "{text}");
    }
    assert_eq!(parse(b"{\"size\":0}\n", &LiveLog::default()), Ok(Vec::new()));
}

proptest! {
    #[test]
    fn arbitrary_tap_program_output_is_read_alike(bytes in proptest::collection::vec(any::<u8>(), 0..300), printed in "(ok|not ok| |#|1|\\.\\.|-|\n|    |1\\.\\.1\n){0,40}") {
        let _ = parse(&bytes, &LiveLog::default());
        let mut reader = TapEvents::default();
        let _ = reader.push(&bytes);
        let _ = reader.end();
        // Whatever a program prints, both witnesses read it alike.
        for program in [TAPE_OF_ONE, TAP_OF_MANY, AVA_OF_MANY] {
            let (live, entries) = both(program, &printed, 1, "");
            for entry in entries.unwrap() {
                prop_assert!(live.position(&entry.id).is_some(), "{}", entry.id);
            }
        }
    }
}
