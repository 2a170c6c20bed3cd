use hotcell_sandbox::FileId;
use proptest::prelude::*;

use super::*;
use crate::Limit;
use crate::ask::{Blob, Refused};

fn frame_of(bytes: &[u8]) -> Frame {
    let mut incoming = Incoming::new(1 << 20);
    incoming.room().extend_from_slice(bytes);
    let frame = incoming.frame().unwrap().unwrap();
    assert_eq!(incoming.frame(), Ok(None));
    frame
}

fn to_host(message: &ToHost) -> String {
    let again = ToHost::decode(frame_of(&message.encode().unwrap())).unwrap();
    assert_eq!(format!("{message:?}"), format!("{again:?}"));
    format!("{again:?}")
}

fn from_host(message: &FromHost) {
    let again = FromHost::decode(frame_of(&message.encode().unwrap())).unwrap();
    assert_eq!(format!("{message:?}"), format!("{again:?}"));
}

fn answer(value: &str, stdout: &str) -> Answer {
    Answer {
        is_error: false,
        value: RawValue::from_string(value.to_owned()).unwrap(),
        stdout: stdout.to_owned(),
        stderr: "\u{1b}[0m".to_owned(),
        denied: vec!["net=https://example.org:443".to_owned()],
        wall_us: 17,
        peak_memory: 65_536,
    }
}

#[test]
fn protocol_messages_round_trip() {
    let setting = Setting {
        folders: vec![Folder {
            path: "/srv/a".into(),
            writable: true,
            identity: Some(FileId { dev: 1, ino: u64::MAX }),
        }],
        env: vec![("A".to_owned(), "é".to_owned())],
        limits: Limits::default(),
        keeps: true,
    };
    to_host(&ToHost::Compile { wasm: vec![0, 1, 255] });
    to_host(&ToHost::Load { plugin: 3, setting });
    to_host(&ToHost::Cancel { call: u64::MAX });
    to_host(&ToHost::Replied { ask: 1, reply: Reply::Refused { why: Refused::Denied("x".to_owned()) } });

    let imports = vec!["a".to_owned()];
    let description = Description {
        exports: vec![],
        left_out: vec![],
        imports,
        at_most: vec![],
        handles: false,
        serves: vec![],
        manifest: None,
        hidden: None,
    };
    from_host(&FromHost::Ready(Ok(())));
    from_host(&FromHost::Ready(Err(LoadError::Stale)));
    from_host(&FromHost::Compiled { description: Box::new(description), code: vec![1, 2, 3] });
    from_host(&FromHost::Loaded { plugin: 3 });
    from_host(&FromHost::NotLoaded { plugin: 3, error: LoadError::NoTools });
    from_host(&FromHost::Done { call: 9, result: Box::new(Ok(answer(r#"{"a":"ü"}"#, "out"))) });
    let limit = CallError::Limit { limit: Limit::Memory, value: "64 MiB".to_owned() };
    from_host(&FromHost::Done { call: 9, result: Box::new(Err(limit)) });
    let what = Ask::KvSet { key: "k".to_owned(), value: Blob(vec![0, 255]) };
    from_host(&FromHost::Asked { ask: 1, call: 9, what });
    from_host(&FromHost::Withdrawn { ask: 1 });
}

/// An answer that a process could send after it was taken over.
#[test]
fn malformed_json_value_is_a_violation() {
    let good = FromHost::Done { call: 1, result: Box::new(Ok(answer("{}", ""))) }.encode().unwrap();
    for value in [
        "",
        "[]",
        "1",
        "{",
        "{}}",
        "{} {}",
        "{\n}",
        "{\"a\":1}\n{\"jsonrpc\":\"2.0\"}",
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"\\q\"}",
    ] {
        let mut forged = frame_of(&good);
        forged.body.truncate(forged.body.len() - 2);
        forged.body.extend(value.as_bytes());
        assert!(FromHost::decode(forged).is_err(), "{value:?}");
    }
    let mut forged = frame_of(&good);
    forged.body.extend([0xff, 0xfe]);
    assert!(FromHost::decode(forged).is_err());
}

#[test]
fn heads_that_lie_about_their_length_are_violations() {
    let good = FromHost::Done { call: 1, result: Box::new(Ok(answer("{}", ""))) }.encode().unwrap();
    for length in [0u32, 1, 10_000, u32::MAX] {
        let mut forged = frame_of(&good);
        forged.body[..4].copy_from_slice(&length.to_le_bytes());
        assert!(FromHost::decode(forged).is_err(), "{length}");
    }
    for kind in [0, 1, 5, 64, 73, 255] {
        assert!(FromHost::decode(Frame { kind, number: 0, body: vec![] }).is_err(), "{kind}");
    }
}

/// A frame whose head repeats `"",` `times` times, in place of a valid one.
fn many(kind: u8, before: &str, times: usize, after: &str) -> Frame {
    let head = format!("{before}\"\"{}{after}", ",\"\"".repeat(times - 1));
    let mut body = u32::try_from(head.len()).unwrap().to_le_bytes().to_vec();
    body.extend(head.bytes());
    Frame { kind, number: 1, body }
}

/// Each of these texts takes eight times its bytes once it is parsed.
#[test]
fn head_with_many_values_is_refused() {
    let (before, after) =
        (r#"{"is_error":false,"stdout":"","stderr":"","denied":["#, r#"],"wall_us":1,"peak_memory":1}"#);
    for (times, fits) in [(32, true), (100, false)] {
        let mut frame = many(kind::ANSWERED, before, times, after);
        frame.body.extend(b"{}");
        assert_eq!(FromHost::decode(frame).is_ok(), fits, "{times}");
    }
    let (before, after) = (r#"{"exports":[],"left_out":[],"at_most":[],"manifest":null,"imports":["#, "]}");
    for (times, fits) in [(32, true), (MAX_DESCRIPTION_BYTES / 3, false)] {
        let decoded = FromHost::decode(many(kind::COMPILED, before, times, after));
        assert_eq!(decoded.is_ok(), fits, "{times}: {:?}", decoded.err());
    }
    let asked = |arguments: usize| {
        let what = Ask::Sandbox {
            argv: vec![String::new(); arguments],
            files: vec![],
            stdin: None,
            env: vec![],
            timeout_ms: 1,
            memory: None,
        };
        FromHost::Asked { ask: 1, call: 1, what }
    };
    from_host(&asked(MAX_VALUES - 100));
    // Too many on both sides: the host refuses the question before it asks.
    assert!(asked(MAX_VALUES).encode().is_err());
    let (before, after) = (
        r#"{"call":1,"what":{"ask":"sandbox","files":[],"stdin":null,"env":[],"timeout_ms":1,"memory":null,"argv":["#,
        "]}}",
    );
    for (times, fits) in [(32, true), (MAX_VALUES, false)] {
        let mut frame = many(kind::ASKED, before, times, after);
        frame.body.drain(..4);
        assert_eq!(FromHost::decode(frame).is_ok(), fits, "{times}");
    }
}

#[test]
fn values_and_depth_are_measured_outside_of_texts() {
    for (json, values, depth) in [
        ("{}", 2, 1),
        ("[1,[2,[]]]", 6, 3),
        (r#"{"a":"[[[,,,","b":"\",,\\"}"#, 3, 1),
        (r#"["\\",["\\\"]"]]"#, 4, 2),
        ("]]]", 1, 0),
        (r#"["a"#, 2, 1),
        (r#"["a\"#, 2, 1),
        (r#"["a\""#, 2, 1),
        (r#"["",[""]]"#, 4, 2),
        (r#"\"[","]"#, 2, 0),
        ("", 1, 0),
    ] {
        assert_eq!(measure(json.as_bytes()), (values, depth), "{json}");
    }
}

proptest! {
    #[test]
    fn calls_arrive_as_they_were_sent(call: u64, plugin: u64, path in ".{0,60}", arguments in ".{0,200}") {
        let said = to_host(&ToHost::Call { call, plugin, path: path.clone(), arguments: arguments.clone() });
        let quoted = format!("{arguments:?}");
        prop_assert!(said.contains(&quoted));
    }

    #[test]
    fn answers_arrive_as_they_were_sent(stdout in ".{0,200}", text in ".{0,200}") {
        let value = serde_json::json!({ "result": text }).to_string();
        from_host(&FromHost::Done { call: 1, result: Box::new(Ok(answer(&value, &stdout))) });
    }

    #[test]
    fn arbitrary_frames_are_messages_or_violations(kind: u8, number: u64, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = FromHost::decode(Frame { kind, number, body: body.clone() });
        let _ = ToHost::decode(Frame { kind, number, body });
    }

    #[test]
    fn changed_byte_is_message_or_violation(at in 0usize..400, to: u8) {
        let what = Ask::Http {
            method: "GET".to_owned(),
            url: "https://example.org/".to_owned(),
            headers: vec![("a".to_owned(), Blob(b"b".to_vec()))],
            body: Blob(vec![1; 40]),
            timeout_ms: 5,
        };
        for message in [
            FromHost::Asked { ask: 1, call: 2, what },
            FromHost::Done { call: 1, result: Box::new(Ok(answer(r#"{"a":[1,2]}"#, "x"))) },
        ] {
            let mut frame = frame_of(&message.encode().unwrap());
            if let Some(byte) = frame.body.get_mut(at) { *byte = to }
            let _ = FromHost::decode(frame);
        }
    }
}

/// Maximum lengths of the other side's messages, checked before memory is allocated.
#[test]
fn message_sizes_are_limited() {
    let headed = |kind: u8, head: usize| {
        let mut body = u32::try_from(head).unwrap().to_le_bytes().to_vec();
        body.resize(4 + head, b' ');
        Frame { kind, number: 1, body }
    };
    let plain = |kind: u8, bytes: usize| Frame { kind, number: 1, body: vec![b' '; bytes] };
    for (what, frame, words) in [
        ("ready", plain(kind::READY, MAX_HEAD_BYTES + 1), "1048576 are possible"),
        ("not loaded", plain(kind::NOT_LOADED, MAX_HEAD_BYTES + 1), "1048576 are possible"),
        ("failed", plain(kind::FAILED, MAX_HEAD_BYTES + 1), "1048576 are possible"),
        ("a question", plain(kind::ASKED, MAX_QUESTION_BYTES + 1), "a question of 25165825 bytes"),
        ("a description", headed(kind::COMPILED, MAX_DESCRIPTION_BYTES + 1), "8388608 are possible"),
    ] {
        let error = FromHost::decode(frame).expect_err(what).to_string();
        assert!(error.contains(words), "{what}: {error}");
    }
    let error = ToHost::decode(headed(kind::CALL, MAX_HEAD_BYTES + 1)).expect_err("a call").to_string();
    assert!(error.contains("1048576 are possible"), "{error}");
}
