//! Rejects messages with too many values: a number of one byte takes forty bytes once parsed. Pure.

use rmcp::model::ErrorData;

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
