//! Words in messages.

/// Puts a word in quotation marks, without escaping quotes in it. Invisible characters are escaped when the
/// report is shown; `Debug` here would escape them first, and its backslashes would be doubled.
pub fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\\\""))
}
