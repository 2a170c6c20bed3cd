//! Finds the id of requests that are valid JSON except for a value that we cannot represent: half of a
//! surrogate pair, as `JSON.stringify` and `json.dumps` may write it, or a number that exceeds a double.
//! Their sender waits for an answer with the id, which then says what is wrong. Pure.

use rmcp::model::{ErrorData, RequestId};
use serde_json::Value;

/// The id of the message that a text begins with: it may be longer than what is here, have other mistakes, or too many values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundId {
    /// A text or a whole number.
    Good(RequestId),
    /// Something that no answer can name: a fraction, a number beyond 64 bits, half of a character, a list.
    Bad,
    /// The message has none, or it does not stand in the text.
    None,
}

/// Finds the id of a message among the keys of its outermost object, without reading what the others hold.
pub(crate) fn find_id(text: &[u8]) -> FoundId {
    let (mut depth, mut at, mut is_key) = (0_usize, 0, false);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = string_end(&text[at..]).map(|length| at + length);
                let Some(end) = end else { return FoundId::None };
                let colon =
                    text[end..].iter().position(|byte| !byte.is_ascii_whitespace()).map(|skip| end + skip);
                let is_id = depth == 1
                    && is_key
                    && serde_json::from_slice::<String>(&text[at..end]).is_ok_and(|key| key == "id");
                if let (true, Some(colon)) = (is_id, colon)
                    && text[colon] == b':'
                {
                    return id_at(text[colon + 1..].trim_ascii_start());
                }
                at = end;
                is_key = false;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                is_key = depth == 1 && *byte == b'{';
            }
            b'}' | b']' => match depth.checked_sub(1) {
                Some(0) | None => return FoundId::None,
                Some(less) => depth = less,
            },
            b',' => is_key = depth == 1,
            _ => {}
        }
        at += 1;
    }
    FoundId::None
}

/// The id that a text begins with.
fn id_at(text: &[u8]) -> FoundId {
    let length = match text.first() {
        Some(b'"') => string_end(text),
        Some(b'-' | b'0'..=b'9') => Some(number(text)),
        Some(b'n') => return FoundId::None,
        Some(_) => return FoundId::Bad,
        None => None,
    };
    let Some(length) = length else { return FoundId::None };
    match serde_json::from_slice::<Value>(&text[..length]) {
        Ok(Value::String(text)) => FoundId::Good(RequestId::String(text.into())),
        Ok(Value::Number(number)) => {
            number.as_i64().map_or(FoundId::Bad, |number| FoundId::Good(RequestId::Number(number)))
        }
        _ => FoundId::Bad,
    }
}

/// Length of the string at the start of the text, with its quotes.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map(|end| end + 2)
}

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

    #[test]
    fn id_is_found_whatever_else_is_wrong() {
        let number = |id| FoundId::Good(RequestId::Number(id));
        let text = |id: &str| FoundId::Good(RequestId::String(id.into()));
        for (message, want) in [
            (r#"{"jsonrpc":"2.0","id":55,"method":5}"#, number(55)),
            (r#"{"method":"x","params":{"id":1,"a":["id",{"id":2}]}, "id" : "a\"b" "#, text("a\"b")),
            (r#"{"\u0069d":7}"#, number(7)),
            (r#"{"id":-3,"params":[1"#, number(-3)),
            (r#"{"params":"id","id":1e400}"#, FoundId::Bad),
            (r#"{"id":1.5}"#, FoundId::Bad),
            (r#"{"id":"\ud800"}"#, FoundId::Bad),
            (r#"{"id":[1]}"#, FoundId::Bad),
            (r#"{"id":9223372036854775808}"#, FoundId::Bad),
            (r#"{"id":null,"method":"x"}"#, FoundId::None),
            (r#"{"method":"id","params":{"id":4}}"#, FoundId::None),
            (r#"{"params":{"a":"id"},"x":["id",3]}"#, FoundId::None),
            (r#"[{"id":1}]"#, FoundId::None),
            (r#"{"a":1} {"id":1}"#, FoundId::None),
            ("", FoundId::None),
            (r#"{"id":"cut"#, FoundId::None),
        ] {
            assert_eq!(find_id(message.as_bytes()), want, "{message}");
        }
    }

    proptest! {
        #[test]
        fn found_id_is_that_of_the_parser(id in 0_i64..99, key in "[a-z\\\\\"{}:,]{0,6}", value in any::<bool>()) {
            let object = serde_json::json!({ key.clone(): [value, { "id": 0 }], "id": id, "z": "id" });
            let key_is_id = key == "id";
            prop_assert!(key_is_id || find_id(object.to_string().as_bytes()) == FoundId::Good(RequestId::Number(id)));
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(text in "[\\\\ud8cef0-9\"{}:,\\[\\]+.eE-]{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (salvage(text.as_bytes()), salvage(&bytes), find_id(text.as_bytes()), find_id(&bytes));
        }
    }
}
