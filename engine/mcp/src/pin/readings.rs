//! Lines of a server that programs read differently: where a client could find a list that this parser does not see. Pure.
//!
//! | line | who reads it otherwise |
//! | --- | --- |
//! | a key twice in an object | parsers that take the first, or put both together (Go) |
//! | `Result`, `TOOLS`, `toolſ` | parsers that compare keys without case (Go, .NET) |
//! | a carriage return within the line | clients that end lines there (Java, .NET) |
//! | lists in lists, tools or prompts in an object | clients that walk over whatever is there |
//! | numbers, characters and depths that this parser refuses | most others |

use std::borrow::Cow;
use std::fmt;

use hotcell_sandbox::unique;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::kinds::Kind;
use super::words::{ABOUT, INSTRUCTIONS, META, META_SERVER_INFO, SERVER_INFO};
use crate::request_id::{FoundId, find_id};

/// Key of an answer's result.
const RESULT: &str = "result";
/// Lists and words of the server in messages, in the letters that are compared without case.
const IN_RESULTS: Keys<'static> = Keys(&[(RESULT, Some(IN_RESULT))]);
const IN_RESULT: Keys<'static> = Keys(&[
    ("tools", None),
    ("prompts", None),
    ("resources", None),
    ("resourcetemplates", None),
    (INSTRUCTIONS, None),
    ("serverinfo", None),
    (META, Some(IN_NOTES)),
]);
const IN_NOTES: Keys<'static> = Keys(&[("io.modelcontextprotocol/serverinfo", None)]);

/// A line as every client splits lines: carriage returns within it, which are only white space in JSON, become spaces.
#[must_use]
pub fn one_line(mut line: Vec<u8>) -> Vec<u8> {
    let end = if line.ends_with(b"\r\n") { line.len() - 2 } else { line.len() };
    for byte in line.iter_mut().take(end).filter(|byte| **byte == b'\r') {
        *byte = b' ';
    }
    line
}

/// Answer to a client in place of a line that must not pass; `None` where the line answers no request.
#[must_use]
pub fn refusal(line: &[u8]) -> Option<Vec<u8>> {
    let FoundId::Good(id) = find_id(line) else { return None };
    if is_request(line) {
        return None;
    }
    let message = "hotcell: the server's answer cannot be checked for tools, prompts, resources and instructions: it is nested too deeply, has a key twice or in other \
                   letters, or a number or characters that parsers read differently";
    let answer =
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": message } });
    Some(format!("{answer}\n").into_bytes())
}

/// Whether a line is a request of the server's own, whose id is not one of the client's.
fn is_request(line: &[u8]) -> bool {
    Keys(&[("method", None)]).found_in(line).is_ok_and(|found| found)
}

/// Whether a message that this parser reads is another one to another parser.
pub(super) fn is_ambiguous(line: &[u8], message: &Value) -> bool {
    let messages = match message {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let is_odd = |message: &Value| {
        let Value::Object(fields) = message else { return message.is_array() };
        let hidden = |key: &String, plain: &str| key != plain && folded(key) == folded(plain);
        if fields.keys().any(|key| hidden(key, RESULT)) {
            return true;
        }
        let result = fields.get(RESULT).and_then(Value::as_object);
        result.is_some_and(|result| {
            let about = result.get(SERVER_INFO).filter(|about| !about.is_null());
            let has_odd_words = |about: &Value| match about {
                Value::Object(about) => about.keys().any(|key| ABOUT.iter().any(|plain| hidden(key, plain))),
                _ => true,
            };
            let notes = result.get(META).and_then(Value::as_object);
            let has_odd_notes = |notes: &serde_json::Map<String, Value>| {
                let about = notes.get(META_SERVER_INFO).filter(|about| !about.is_null());
                notes.keys().any(|key| hidden(key, META_SERVER_INFO)) || about.is_some_and(has_odd_words)
            };
            let lists = || Kind::ALL.into_iter().map(Kind::list);
            let plain = || lists().chain([INSTRUCTIONS, SERVER_INFO, META]);
            let is_odd_list = |list: &str| {
                result.get(list).is_some_and(|entries| !entries.is_array() && !entries.is_null())
            };
            result.keys().any(|key| plain().any(|plain| hidden(key, plain)))
                || lists().any(is_odd_list)
                || about.is_some_and(has_odd_words)
                || notes.is_some_and(has_odd_notes)
        })
    };
    messages.iter().any(is_odd) || unique::twice(line).is_some()
}

/// Whether a line that this parser refuses has no list and no words of the server to another one. Halves of surrogate pairs and bytes that are not UTF-8 are
/// common in texts.
pub(super) fn lists_nothing(line: &[u8]) -> bool {
    IN_RESULTS.found_in(line).is_ok_and(|found| !found)
}

/// A key as parsers compare it that do not distinguish letter cases.
fn folded(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(key);
    }
    let letters = key.chars().flat_map(|c| match c {
        'ſ' => 's'.to_lowercase(),
        other => other.to_lowercase(),
    });
    Cow::Owned(letters.collect())
}

/// Looks for keys in messages, in any letter case: each for itself, or for further ones in its value. The other values may be of any depth and size, and have
/// text and numbers that parsers refuse.
#[derive(Clone, Copy)]
struct Keys<'a>(&'a [(&'a str, Option<Self>)]);

impl Keys<'_> {
    fn found_in(self, line: &[u8]) -> Result<bool, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(line);
        let found = self.deserialize(&mut reader)?;
        reader.end()?;
        Ok(found)
    }
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message, or a list of messages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            let key = folded(&key);
            let one = self.0.iter().find(|(plain, _)| *plain == key);
            if let Some((_, Some(within))) = one {
                found |= map.next_value_seed(*within)?;
            } else {
                found |= one.is_some();
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(one) = seq.next_element_seed(self)? {
            found |= one;
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests end by panics")]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn lists_that_another_parser_finds_do_not_pass() {
        let evil = r#"[{"name":"evil"}]"#;
        let with = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"tools":{evil}}},"result":{{}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{}},"r\u0065sult":{{"tools":{evil}}}}}"#),
            with(&format!(r#"{{"tools":{evil},"tools":[]}}"#)),
            with(r#"{"tools":[{"name":"a","description":"evil","description":"A"}]}"#),
            with(r#"{"tools":[{"name":"a","inputSchema":{"x":{"title":"evil","title":"A"}}}]}"#),
            format!(r#"{{"jsonrpc":"2.0","id":7,"Result":{{"tools":{evil}}}}}"#),
            with(&format!(r#"{{"Tools":{evil}}}"#)),
            with(&format!(r#"{{"tool\u017f":{evil}}}"#)),
            with(&format!(r#"{{"tools":[],"TOOLS":{evil}}}"#)),
            with(r#"{"tools":{"0":{"name":"evil"},"length":1}}"#),
            with(r#"{"tools":"[{\"name\":\"evil\"}]"}"#),
            format!("[[{}]]", with(&format!(r#"{{"tools":{evil}}}"#))),
            // Beside what this parser refuses.
            format!(r#"{{"id":7,"Result":{{"tools":{evil}}},"x":1e999}}"#),
            format!(r#"{{"id":7,"result":{{"TOOLS":{evil}}},"x":"\ud800"}}"#),
            format!(r#"{{"id":7,"result":{{"tools":{evil}}},"result":{{}},"x":1e999}}"#),
        ] {
            let checked = check(line.as_bytes(), None);
            assert!(checked.is_unread && checked.replaced.is_none(), "{line}");
            let answer = refusal(line.as_bytes()).map(|text| serde_json::from_slice::<Value>(&text).unwrap());
            let id = answer.as_ref().and_then(|answer| answer.get("id"));
            assert_eq!(id, line.starts_with('{').then_some(&Value::from(7)), "{line}");
        }
        for line in [
            with(r#"{"content":[{"type":"text","text":"Result: tools"}],"Name":1}"#),
            with(r#"{"structuredContent":{"Result":{"Tools":[1]}}}"#),
            with(r#"{"capabilities":{"tools":{}}}"#),
            with(r#"{"tools":null}"#),
            with("[]"),
            r#"{"method":"notifications/message","params":{"Result":1}}"#.to_owned(),
            "[]".to_owned(),
            "17".to_owned(),
        ] {
            assert!(!check(line.as_bytes(), None).is_unread, "{line}");
        }
        // A request of the server's is not answered with an error to the client.
        assert_eq!(
            refusal(br#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"a":1,"a":2}}"#),
            None
        );
    }

    #[test]
    fn lines_have_one_end() {
        for (line, want) in [
            ("{\"a\":\r{\"id\":2}\r}\n", "{\"a\": {\"id\":2} }\n"),
            ("{}\r\n", "{}\r\n"),
            ("{}\r\r\n", "{} \r\n"),
            ("{}\r", "{} "),
            ("{}\n", "{}\n"),
            ("\r\n", "\r\n"),
            ("\n", "\n"),
            ("", ""),
        ] {
            assert_eq!(one_line(line.as_bytes().to_vec()), want.as_bytes(), "{line:?}");
        }
    }
}
