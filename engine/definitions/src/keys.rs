//! Keys of a definition file below names that its author chose: unknown ones are refused with the nearest. Pure.

use std::path::Path;

use hotcell_sandbox::layer::likely;
use hotcell_sandbox::profile::{FileError, Key};
use toml::{Table, Value};

/// Keys of a file.
pub(crate) const KEYS: &[Key] = &[
    Key::value("name"),
    Key::value("version"),
    Key::value("description"),
    Key::value("summary"),
    Key::value("timeout"),
    Key::value("inputs"),
    Key::value("tools"),
    Key::table(
        "prompt",
        &[
            Key::value("system"),
            Key::value("user"),
            Key::value("role"),
            Key::value("max_output_tokens"),
            Key::value("timeout"),
            Key::value("budget"),
        ],
    ),
    Key::value("fill"),
    Key::value("returns"),
];
/// Keys of `inputs.NAME`.
const INPUT: &[&str] = &["type", "description", "optional", "default", "enum", "minimum"];
/// Keys of `tools.NAME`.
const TOOL: &[&str] = &["tool", "arguments", "after", "when", "cache", "files", "needs", "timeout"];

/// Checks the tables `inputs.NAME` and `tools.NAME`.
///
/// # Errors
/// [`FileError`] with the line and the nearest key.
pub(crate) fn check(table: &Table, text: &str, file: &Path) -> Result<(), FileError> {
    for (kind, known) in [("inputs", INPUT), ("tools", TOOL)] {
        let Some(Value::Table(all)) = table.get(kind) else { continue };
        for (name, one) in all {
            let Value::Table(keys) = one else {
                let why = "it is a table";
                return Err(FileError::of_key(file, &format!("{kind}.{name}"), why).found_in(text));
            };
            let Some(key) = keys.keys().find(|key| !known.contains(&key.as_str())) else { continue };
            let near = likely(key, known.iter().copied()).map(|near| format!("{kind}.{name}.{near}"));
            let why = match &near {
                Some(near) => format!("unknown key; did you mean {near}?"),
                None => format!("unknown key; there are {}", known.join(", ")),
            };
            let mut error = FileError::of_key(file, &format!("{kind}.{name}.{key}"), why).found_in(text);
            error.nearest = near;
            return Err(error);
        }
    }
    Ok(())
}
