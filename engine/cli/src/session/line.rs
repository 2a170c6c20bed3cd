//! A cell in a line of JSON, and the mistake in another line. Pure.

use std::time::Duration;

use hotcell_sandbox::layer::likely;
use hotcell_sandbox::unique;
use hotcell_sessions::session::MAX_CELL_TIMEOUT;
use hotcell_state::report::printable;
use serde_json::Value;

/// Fields of a line.
const FIELDS: [&str; 3] = ["code", "timeout_ms", "outputs"];
/// Maximum length of a field's name in an error, in characters.
const MAX_NAME_CHARS: usize = 64;

/// A cell as a line has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Source.
    pub code: String,
    /// Time, where the line says it.
    pub timeout: Option<Duration>,
    /// Patterns of files to return.
    pub outputs: Vec<String>,
}

/// Reads a line.
///
/// # Errors
/// A sentence with the wrong field.
pub fn read(line: &str) -> Result<Given, String> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| format!("it is not JSON (column {})", error.column()))?;
    let Value::Object(fields) = value else { return Err("it is not an object".to_owned()) };
    if let Some(name) = unique::twice(line.as_bytes()) {
        return Err(format!("the field \"{}\" stands twice; write it once", shown(&name)));
    }
    let (mut given, mut has_code) = (Given::default(), false);
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("code", Value::String(code)) => (given.code, has_code) = (code, true),
            ("code", _) => return Err("code is not a text".to_owned()),
            ("timeout_ms" | "outputs", Value::Null) => {}
            ("timeout_ms", value) => given.timeout = Some(timeout(&value)?),
            ("outputs", Value::Array(items)) => {
                let text = |item: Value| item.as_str().map(str::to_owned);
                let texts: Option<Vec<_>> = items.into_iter().map(text).collect();
                given.outputs = texts.ok_or("outputs is not a list of texts")?;
            }
            ("outputs", _) => return Err("outputs is not a list of texts".to_owned()),
            (other, _) => {
                let hint = match likely(other, FIELDS) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("there are {}", FIELDS.join(", ")),
                };
                return Err(format!("there is no field \"{}\"; {hint}", shown(other)));
            }
        }
    }
    if has_code { Ok(given) } else { Err("code is missing".to_owned()) }
}

/// A field's name for an error.
fn shown(name: &str) -> String {
    printable(name).chars().take(MAX_NAME_CHARS).collect()
}

fn timeout(value: &Value) -> Result<Duration, String> {
    let most = MAX_CELL_TIMEOUT.as_millis();
    match value.as_u64().filter(|ms| (1..=most).contains(&u128::from(*ms))) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None if value.is_number() => {
            Err(format!("timeout_ms is {value}; allowed is 1 to {most}, in whole milliseconds"))
        }
        None => Err("timeout_ms is not a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cells_or_have_one_plain_mistake() {
        for (line, want) in [
            (r#"{"code":"1"}"#, Ok((None, 0))),
            (r#"{"code":"","timeout_ms":null,"outputs":null}"#, Ok((None, 0))),
            (r#"{"code":"1","timeout_ms":1500,"outputs":["*.png"]}"#, Ok((Some(1500), 1))),
            ("nojson", Err("it is not JSON (column 2)")),
            ("", Err("it is not JSON")),
            ("[]", Err("it is not an object")),
            ("{}", Err("code is missing")),
            (r#"{"code":1}"#, Err("code is not a text")),
            (r#"{"code":"1","code":"2"}"#, Err("the field \"code\" stands twice; write it once")),
            (r#"{"code":"1","co\u0064e":"1"}"#, Err("the field \"code\" stands twice")),
            (r#"{"timeout_ms":null,"code":"1","timeout_ms":5}"#, Err("\"timeout_ms\" stands twice")),
            (r#"{"outputs":["a"],"code":"1","outputs":null}"#, Err("\"outputs\" stands twice")),
            (r#"[{"code":"1","code":"2"}]"#, Err("it is not an object")),
            (r#"{"cod":"1"}"#, Err("there is no field \"cod\"; did you mean \"code\"?")),
            (r#"{"code":"1","zzzzzzzz":1}"#, Err("there are code, timeout_ms, outputs")),
            (r#"{"code":"1","timeout_ms":0}"#, Err("timeout_ms is 0; allowed is 1 to 600000")),
            (r#"{"code":"1","timeout_ms":-1}"#, Err("timeout_ms is -1; allowed is 1 to")),
            (r#"{"code":"1","timeout_ms":1.5}"#, Err("timeout_ms is 1.5; allowed is")),
            (r#"{"code":"1","timeout_ms":700000}"#, Err("timeout_ms is 700000; allowed is")),
            (r#"{"code":"1","timeout_ms":"5"}"#, Err("timeout_ms is not a number")),
            (r#"{"code":"1","outputs":"*"}"#, Err("outputs is not a list of texts")),
            (r#"{"code":"1","outputs":[1]}"#, Err("outputs is not a list of texts")),
        ] {
            match (read(line), want) {
                (Ok(given), Ok((ms, outputs))) => {
                    assert_eq!(
                        (given.timeout, given.outputs.len()),
                        (ms.map(Duration::from_millis), outputs)
                    );
                }
                (Err(why), Err(want)) => assert!(why.contains(want), "{line}: {why}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        let name = format!("{}\\u001b", "z".repeat(10_000));
        for line in [format!("{{\"{name}\":1}}"), format!("{{\"{name}\":1,\"{name}\":1}}")] {
            let why = read(&line).unwrap_err();
            assert!(why.len() < 200 && !why.contains('\u{1b}'), "{why}");
        }
    }
}
