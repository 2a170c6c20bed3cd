//! Rejects messages with too many values (a number of one byte takes forty bytes once parsed), and those with a key twice, which another reader,
//! such as a gateway in front of this server, takes for another message. Pure.

use hotcell_sandbox::text::printable;
use hotcell_sandbox::unique;
use rmcp::model::ErrorData;

/// Maximum length of a key that an error repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// Maximum number of values in a message, enough for thousands of files with their fields.
const MAX_VALUES: usize = 100_000;

/// Rejects a JSON text with too many values. A text that is not JSON may pass.
pub(crate) fn check(text: &[u8]) -> Result<(), ErrorData> {
    // Each value except the first is preceded by a byte that is counted.
    if text.len() <= MAX_VALUES || count(text) <= MAX_VALUES {
        return Ok(());
    }
    Err(ErrorData::invalid_request(format!("the message has more than {MAX_VALUES} values"), None))
}

/// Rejects a JSON text in which an object has a key twice. A text that is not JSON may pass.
pub(crate) fn check_keys(text: &[u8]) -> Result<(), ErrorData> {
    let Some(key) = unique::twice(text) else { return Ok(()) };
    let key = printable(&key.chars().take(MAX_SHOWN_CHARS).collect::<String>());
    Err(ErrorData::invalid_request(
        format!("the key \"{key}\" stands twice in an object of the message; send it once"),
        None,
    ))
}

/// Approximate number of values in a JSON text: those after a comma or an opening bracket outside strings.
fn count(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_stand_twice_are_rejected() {
        for (text, key) in [
            (r#"{"params":{"arguments":{"argv":["a"],"argv":["b"]}}}"#, "argv"),
            (r#"{"params":{"arguments":{"argv":["a"],"\u0061rgv":["b"]}}}"#, "argv"),
            (r#"[{"a":{"b\u001b":1,"b\u001b":1}}]"#, "b\\u{1b}"),
        ] {
            let error = check_keys(text.as_bytes()).unwrap_err();
            assert!(
                error.message.contains(&format!("the key \"{key}\" stands twice")),
                "{text}: {}",
                error.message
            );
        }
        for text in [r#"{"a":{"x":1},"b":{"x":1}}"#, "17", "", "{no", r#"[{"a":1},{"a":1}]"#] {
            assert!(check_keys(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn values_are_counted_outside_strings() {
        for (text, want) in [
            ("17", 0),
            ("[0,0,0]", 3),
            (r#"{"a":[1,2],"b":{}}"#, 5),
            (r#"[",[{,","\",[",0]"#, 3),
            (r#"["\\",0]"#, 2),
        ] {
            assert_eq!(count(text.as_bytes()), want, "{text}");
        }
        let zeros = |n: usize| format!("[{}]", vec!["0"; n].join(","));
        assert!(
            check(zeros(MAX_VALUES).as_bytes()).is_ok() && check(zeros(MAX_VALUES + 1).as_bytes()).is_err()
        );
        assert!(check(format!("\"{}\"", ",".repeat(MAX_VALUES * 2)).as_bytes()).is_ok());
    }
}
