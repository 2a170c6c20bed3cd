//! Finds the id of requests that are valid JSON except for a value that we cannot represent: half of a
//! surrogate pair, as `JSON.stringify` and `json.dumps` may write it, or a number that exceeds a double.
//! Their sender waits for an answer with the id, which then says what is wrong. Pure.

use rmcp::model::{ErrorData, RequestId};
use serde_json::Value;

/// Id of a request that could not be parsed, and the error; `None` for a text that is not a request in any
/// case.
pub(crate) fn salvage(text: &[u8]) -> Option<(RequestId, ErrorData)> {
    let (mended, why) = mend(text)?;
    // Fails when the text has a further mistake.
    let message: Value = serde_json::from_slice(&mended).ok()?;
    message.get("method")?.as_str()?;
    let id = message.get("id").filter(|id| id.is_string() || id.is_number())?;
    let id = serde_json::from_value(id.clone()).ok()?;
    Some((id, ErrorData::invalid_params(why, None)))
}

/// Replaces such values; returns the text and the first problem, or `None` without any such value.
fn mend(text: &[u8]) -> Option<(Vec<u8>, String)> {
    let mut mended = Vec::with_capacity(text.len());
    let mut why = None;
    let mut at = 0;
    let mut quoted = false;
    while let Some(&byte) = text.get(at) {
        let length = match byte {
            b'"' => {
                quoted = !quoted;
                1
            }
            b'\\' if quoted => match unit(&text[at..]) {
                Some(high @ 0xd800..=0xdbff) => match unit(text.get(at + 6..).unwrap_or_default()) {
                    Some(0xdc00..=0xdfff) => 12,
                    _ => lone(&mut mended, &mut why, high),
                },
                Some(low @ 0xdc00..=0xdfff) => lone(&mut mended, &mut why, low),
                _ => 2,
            },
            b'-' | b'0'..=b'9' if !quoted => {
                let number = &text[at..][..number(&text[at..])];
                let shown = String::from_utf8_lossy(&number[..number.len().min(40)]).into_owned();
                let infinite = shown.parse::<f64>().is_ok() && is_infinite(number);
                if infinite {
                    why.get_or_insert_with(|| {
                        format!("{shown} is beyond the largest number there is (1.8e308)")
                    });
                    mended.push(b'0');
                    at += number.len();
                    continue;
                }
                number.len()
            }
            _ => 1,
        };
        if length == REPLACED_LEN {
            at += 6;
            continue;
        }
        let end = (at + length).min(text.len());
        mended.extend_from_slice(&text[at..end]);
        at = end;
    }
    why.map(|why| (mended, why))
}

/// Returned instead of a length when a replacement was written.
const REPLACED_LEN: usize = usize::MAX;

fn lone(mended: &mut Vec<u8>, why: &mut Option<String>, unit: u16) -> usize {
    why.get_or_insert_with(|| {
        format!("a text has half of a surrogate pair (\\u{unit:04x}), which is no character: leave it out, or write both halves")
    });
    mended.extend_from_slice(b"\\ufffd");
    REPLACED_LEN
}

/// Number of the `\uXXXX` escape at the start of the text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let all_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| all_hex)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Length in bytes of the number at the start of the text.
fn number(text: &[u8]) -> usize {
    text.iter()
        .position(|b| !matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        .unwrap_or(text.len())
}

fn is_infinite(number: &[u8]) -> bool {
    std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok()).is_some_and(f64::is_infinite)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(id: &str, value: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{{"s":{value}}}}}}}"#
        )
    }

    #[test]
    fn unrepresentable_json_is_answered_with_id() {
        for (value, words) in [
            (r#""\ud800x""#, "\\ud800"),
            (r#""x\udfff""#, "\\udfff"),
            (r#""\ud83d\ud83d\ude00""#, "\\ud83d"),
            (r#""\ude00\ud83d""#, "\\ude00"),
            ("1e400", "1e400"),
            ("[1,-1e999]", "-1e999"),
            (&"9".repeat(400), "99999"),
        ] {
            for id in ["2", "\"two\""] {
                let (found, error) = salvage(call(id, value).as_bytes()).expect(value);
                assert_eq!(serde_json::to_value(found).unwrap().to_string(), id);
                assert!(error.code.0 == -32602 && error.message.contains(words), "{value}: {error:?}");
            }
        }
        // Also outside of the arguments.
        assert!(salvage(br#"{"id":7,"method":"ping","x":"\udc00"}"#).is_some());
    }

    #[test]
    fn salvage_ignores_other_malformed_text() {
        let half = r#""\ud800""#;
        for text in [
            call("2", r#""\ud83d\ude00""#),
            call("2", r#""\\ud800""#),
            call("2", "1e300"),
            call("2", r#""1e400""#),
            call("null", half),
            call("{}", half),
            call("2", half).replace("method", "result"),
            format!("{} {{", call("2", half)),
            format!("[{}]", call("2", half)),
            call("2", r#""\ud800"#),
            half.to_owned(),
            String::new(),
        ] {
            assert!(salvage(text.as_bytes()).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_cause_no_panic(text in "[\\\\ud8cef0-9\"{}:,\\[\\]+.eE-]{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (salvage(text.as_bytes()), salvage(&bytes));
        }
    }
}
