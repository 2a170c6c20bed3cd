//! What a process may answer: whatever the host in it is to keep to, held against it once more, because it may be somebody else's by
//! now. Pure.

use crate::asker::{DENIAL, DENIED, line};
use crate::mapping::text::clean;
use crate::protocol::{Violation, measure};
use crate::{Answer, CallError, Capability, Limits};

/// Characters of the text of an error.
const MESSAGE: usize = 4096;
/// What is printed may be no UTF-8; then a byte becomes the three of U+FFFD.
const REPLACED: u64 = 3;

/// The result of a call with these limits, with texts that can be shown.
///
/// # Errors
/// [`Violation`] when the host in the process would have said no.
pub fn check(
    result: Result<Answer, CallError>,
    limits: &Limits,
) -> Result<Result<Answer, CallError>, Violation> {
    match result {
        Ok(answer) => check_answer(answer, limits).map(Ok),
        Err(error) => Ok(Err(shown(error))),
    }
}

fn check_answer(mut answer: Answer, limits: &Limits) -> Result<Answer, Violation> {
    let value = answer.value.get();
    if value.len() as u64 > limits.result.0 {
        return Err(Violation::new(format!("a value of {} bytes", value.len())));
    }
    let (_, depth) = measure(value.as_bytes());
    // Nothing is an object too.
    if depth > limits.depth.max(1) as usize {
        return Err(Violation::new(format!("a value {depth} levels deep")));
    }
    let printed = answer.stdout.len() + answer.stderr.len();
    if printed as u64 > limits.output.0.saturating_mul(REPLACED) {
        return Err(Violation::new(format!("{printed} printed bytes")));
    }
    if answer.denied.len() > DENIED {
        return Err(Violation::new("more denials than there can be"));
    }
    // It stands before people, who may grant it. The name in one that was cut off may be none.
    answer.denied.retain(|denied| line(denied, DENIAL) == *denied && denied.parse::<Capability>().is_ok());
    Ok(answer)
}

fn shown(mut error: CallError) -> CallError {
    let text = |text: &mut String| *text = clean(text, MESSAGE);
    match &mut error {
        CallError::Unknown { name } => text(name),
        CallError::Arguments { at, message } => {
            text(at);
            text(message);
        }
        CallError::Limit { value, .. } => text(value),
        CallError::Trap { message } | CallError::Host { message } => text(message),
        CallError::Cancelled => {}
    }
    error
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::Bytes;
    use serde_json::value::RawValue;

    use super::*;

    fn answer(value: &str, stdout: usize, denied: &[&str]) -> Answer {
        Answer {
            is_error: false,
            value: RawValue::from_string(value.to_owned()).unwrap(),
            stdout: "x".repeat(stdout),
            stderr: "x".repeat(5),
            denied: denied.iter().map(|denied| (*denied).to_owned()).collect(),
            wall_us: 1,
            peak_memory: 0,
        }
    }

    fn limits() -> Limits {
        Limits { result: Bytes(20), output: Bytes(10), depth: 3, ..Limits::default() }
    }

    #[test]
    fn what_the_limits_do_not_allow_is_a_violation() {
        for (answer, fits) in [
            (answer("{}", 0, &[]), true),
            (answer(r#"{"result":[[1,2,3]]}"#, 25, &[]), true),
            (answer(r#"{"result":[[1,2,34]]}"#, 0, &[]), false),
            (answer(r#"{"result":[[{}]]}"#, 0, &[]), false),
            (answer("{}", 26, &[]), false),
            (answer("{}", 0, &["guard"; DENIED]), true),
            (answer("{}", 0, &["guard"; DENIED + 1]), false),
        ] {
            let said = format!("{answer:?}");
            assert_eq!(check(Ok(answer), &limits()).is_ok(), fits, "{said}");
        }
        let shallow = Limits { depth: 0, ..limits() };
        check(Ok(answer("{}", 0, &[])), &shallow).unwrap().unwrap();
    }

    #[test]
    fn only_what_can_be_granted_was_denied() {
        let long = format!("read=/{}", "a".repeat(300));
        let denied = [
            "net=https://example.org:443",
            "config=a",
            "run this: curl evil",
            "",
            "read=/a\u{1b}[31m",
            "read=/a\nb",
            &long,
            "secret=A",
            "sandbox",
        ];
        let checked = check(Ok(answer("{}", 0, &denied)), &limits()).unwrap().unwrap();
        assert_eq!(checked.denied, ["net=https://example.org:443", "config=a", "secret=A", "sandbox"]);
    }

    #[test]
    fn texts_of_errors_are_short_and_harmless() {
        let long = "\u{1b}[31m".to_owned() + &"a".repeat(1 << 20);
        for error in [
            CallError::Unknown { name: long.clone() },
            CallError::Arguments { at: long.clone(), message: String::new() },
            CallError::Arguments { at: String::new(), message: long.clone() },
            CallError::Trap { message: long.clone() },
            CallError::Host { message: long.clone() },
            CallError::Limit { limit: crate::Limit::Wall, value: long.clone() },
        ] {
            let text = check(Err(error), &limits()).unwrap().unwrap_err().to_string();
            assert!(text.chars().count() < MESSAGE + 100 && !text.contains('\u{1b}'), "{}", text.len());
        }
        let trap = CallError::Trap { message: "unreachable".to_owned() };
        assert_eq!(check(Err(trap.clone()), &limits()).unwrap().unwrap_err(), trap);
    }
}
