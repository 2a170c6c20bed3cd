//! Messages of too many values: once read, a number of one byte takes forty. Pure.

use rmcp::model::ErrorData;

/// The most values in a message: thousands of files with their fields.
const MOST: usize = 100_000;

/// Refuses a JSON text of too many values. What is not JSON may pass.
pub(crate) fn check(text: &[u8]) -> Result<(), ErrorData> {
    // Each but the first has a byte in front that says so.
    if text.len() <= MOST || count(text) <= MOST {
        return Ok(());
    }
    Err(ErrorData::invalid_request(format!("the message has more than {MOST} values"), None))
}

/// Values of a JSON text, about: what stands after a comma or a bracket outside strings.
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
        assert!(check(zeros(MOST).as_bytes()).is_ok() && check(zeros(MOST + 1).as_bytes()).is_err());
        assert!(check(format!("\"{}\"", ",".repeat(MOST * 2)).as_bytes()).is_ok());
    }
}
