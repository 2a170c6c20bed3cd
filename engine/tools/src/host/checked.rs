//! Checks a process's answers: everything that the host in it has to enforce is checked once more, because
//! the component may have taken the process over. Pure.

use std::collections::BTreeSet;

use crate::asker::{MAX_DENIAL_BYTES, MAX_DENIALS, line};
use crate::component::serves::is_served;
use crate::mapping::text::clean;
use crate::protocol::{Violation, measure};
use crate::{Answer, CallError, Capability, Description, Limits};

/// Maximum length of an error's text, in characters.
const MAX_MESSAGE_CHARS: usize = 4096;
/// Maximum number of functions in a backtrace.
const MAX_FRAMES: usize = 16;
/// Maximum length of one of their names with its repeat count, in bytes.
const MAX_FRAME_BYTES: usize = 160;
/// Length of U+FFFD in bytes, by which a byte that is not valid UTF-8 is replaced.
const REPLACEMENT_BYTES: u64 = 3;
/// Maximum number of functions, and of imports.
const MAX_NAMES: usize = 1_000;
/// Maximum length of one of their names, in bytes.
const MAX_NAME_BYTES: usize = 1_024;
/// Maximum length of a function's documentation, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum length of a manifest, in bytes.
const MAX_MANIFEST_BYTES: usize = 256 << 10;
/// All words for capabilities that a component can have.
const WORDS: [&str; 8] = ["config", "env", "guard", "net", "read", "sandbox", "secret", "write"];

/// Checks the result of a call under these limits, and makes its texts safe to show.
///
/// # Errors
/// [`Violation`] when the host in the process should have refused the result.
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
    // An empty answer is an object too.
    if depth > limits.depth.max(1) as usize {
        return Err(Violation::new(format!("a value {depth} levels deep")));
    }
    let printed = answer.stdout.len() + answer.stderr.len();
    if printed as u64 > limits.output.0.saturating_mul(REPLACEMENT_BYTES) {
        return Err(Violation::new(format!("{printed} printed bytes")));
    }
    if answer.denied.len() > MAX_DENIALS {
        return Err(Violation::new("more denials than there can be"));
    }
    // People see the denials, and may grant them. A name that was cut off may no longer be valid.
    answer.denied.retain(is_denial);
    Ok(answer)
}

/// Whether this names a capability that can be granted, as the host in the process writes it.
fn is_denial(denied: &String) -> bool {
    line(denied, MAX_DENIAL_BYTES) == *denied && denied.parse::<Capability>().is_ok()
}

fn shown(mut error: CallError) -> CallError {
    let text = |text: &mut String| *text = clean(text, MAX_MESSAGE_CHARS);
    match &mut error {
        CallError::Unknown { name } => text(name),
        CallError::Arguments { at, message } => {
            text(at);
            text(message);
        }
        CallError::Limit { value, .. } => text(value),
        CallError::Trap { message, denied, frames } => {
            text(message);
            denied.truncate(MAX_DENIALS);
            denied.retain(is_denial);
            frames.truncate(MAX_FRAMES);
            frames.iter_mut().for_each(|frame| *frame = line(frame, MAX_FRAME_BYTES));
        }
        CallError::Host { message } | CallError::Refused { message } | CallError::Busy { message } => {
            text(message);
        }
        CallError::Cancelled => {}
    }
    error
}

/// Checks the lengths, numbers and words of a description. The component may have taken over the process that
/// wrote it, so a single fault rejects all of it.
///
/// # Errors
/// [`Violation`] that says what is wrong.
pub fn check_description(description: &Description) -> Result<(), Violation> {
    let Description { exports, left_out, imports, at_most, manifest, serves, hidden, handles: _ } =
        description;
    let no = |what: &str| Err(Violation::new(format!("a description with {what}")));
    if [exports.len(), left_out.len(), imports.len()].iter().any(|many| *many > MAX_NAMES) {
        return no("too many names");
    }
    let names = exports.iter().flat_map(|e| [Some(&e.path), Some(&e.function), e.interface.as_ref()]);
    if names.flatten().chain(imports).any(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
        return no("a name that is too long, or empty");
    }
    let paths: BTreeSet<&String> = exports.iter().map(|e| &e.path).collect();
    if paths.len() != exports.len() {
        return no("a function twice");
    }
    if exports.iter().any(|e| e.description.len() > MAX_TEXT_BYTES)
        || manifest.as_ref().is_some_and(|m| m.len() > MAX_MANIFEST_BYTES)
        || hidden.as_ref().is_some_and(|place| place.len() > MAX_TEXT_BYTES)
    {
        return no("a text that is too long");
    }
    if exports.iter().any(|e| !e.input_schema.is_object() || !e.output_schema.is_object()) {
        return no("a schema that is none");
    }
    if serves.iter().collect::<BTreeSet<_>>().len() != serves.len()
        || !serves.iter().all(|path| is_served(path))
    {
        return no("something that it cannot serve");
    }
    if at_most.len() > WORDS.len() || at_most.iter().any(|word| !WORDS.contains(&&**word)) {
        return no("unknown capabilities");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::Bytes;
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::Export;

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
    fn answer_beyond_limits_is_a_violation() {
        for (answer, fits) in [
            (answer("{}", 0, &[]), true),
            (answer(r#"{"result":[[1,2,3]]}"#, 25, &[]), true),
            (answer(r#"{"result":[[1,2,34]]}"#, 0, &[]), false),
            (answer(r#"{"result":[[{}]]}"#, 0, &[]), false),
            (answer("{}", 26, &[]), false),
            (answer("{}", 0, &["guard"; MAX_DENIALS]), true),
            (answer("{}", 0, &["guard"; MAX_DENIALS + 1]), false),
        ] {
            let said = format!("{answer:?}");
            assert_eq!(check(Ok(answer), &limits()).is_ok(), fits, "{said}");
        }
        let shallow = Limits { depth: 0, ..limits() };
        check(Ok(answer("{}", 0, &[])), &shallow).unwrap().unwrap();
    }

    #[test]
    fn reported_denials_are_grantable() {
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
            CallError::Trap { message: long.clone(), denied: Vec::new(), frames: Vec::new() },
            CallError::Trap {
                message: String::new(),
                denied: vec![long.clone(); 99],
                frames: vec!["\u{1b}f".to_owned(); 99],
            },
            CallError::Refused { message: long.clone() },
            CallError::Busy { message: long.clone() },
            CallError::Host { message: long.clone() },
            CallError::Limit { limit: crate::Limit::Wall, value: long.clone() },
        ] {
            let text = check(Err(error), &limits()).unwrap().unwrap_err().to_string();
            assert!(
                text.chars().count() < MAX_MESSAGE_CHARS + 100 && !text.contains('\u{1b}'),
                "{}",
                text.len()
            );
        }
        let trap = CallError::Trap {
            message: "unreachable".to_owned(),
            denied: vec!["config=a".to_owned()],
            frames: vec!["f".to_owned()],
        };
        assert_eq!(check(Err(trap.clone()), &limits()).unwrap().unwrap_err(), trap);
    }

    #[test]
    fn description_must_match_agreed_imports() {
        let export = |path: &str| Export {
            path: path.to_owned(),
            function: "f".to_owned(),
            interface: None,
            description: String::new(),
            input_schema: json!({}),
            output_schema: json!({}),
        };
        let good = Description {
            exports: vec![export("a"), export("b")],
            left_out: Vec::new(),
            imports: vec!["wasi:cli/exit@0.2.0".to_owned()],
            at_most: WORDS.map(str::to_owned).to_vec(),
            handles: false,
            serves: Vec::new(),
            manifest: Some("name = \"a\"".to_owned()),
            hidden: None,
        };
        assert_eq!(check_description(&good), Ok(()));
        let refused = |change: &dyn Fn(&mut Description)| {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(check_description(&bad).is_err(), "{bad:?}");
        };
        refused(&|d| d.exports[1].path = "a".to_owned());
        refused(&|d| d.exports[1].path = String::new());
        refused(&|d| d.exports[1].interface = Some("x".repeat(2_000)));
        refused(&|d| d.exports[1].description = "x".repeat(100_000));
        refused(&|d| d.exports[1].input_schema = json!([]));
        refused(&|d| d.serves = vec!["a".to_owned()]);
        refused(&|d| d.serves = vec!["hotcell:plugin/prompts@0.1.0#get".to_owned(); 2]);
        refused(&|d| d.imports = vec!["x".to_owned(); 2_000]);
        refused(&|d| d.at_most = vec!["everything".to_owned()]);
        refused(&|d| d.manifest = Some("x".repeat(1 << 20)));
        refused(&|d| d.hidden = Some("x".repeat(1 << 20)));
    }
}
