//! Answers of tools.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Answer of a tool. A tool that reports an error (`result::err`) has answered too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer<V = Box<RawValue>> {
    /// Whether the tool reports an error.
    pub is_error: bool,
    /// Value, as JSON text that its output schema describes: an object. For an error, `{"error": …}` with the
    /// error's own value.
    pub value: V,
    /// Standard output, as far as it is kept.
    pub stdout: String,
    /// Standard error, as far as it is kept.
    pub stderr: String,
    /// Denied capabilities, in the words of `hotcell tool grant`, each once, at most 32.
    pub denied: Vec<String>,
    /// Microseconds from the instance's start to its end.
    pub wall_us: u64,
    /// Peak size of all its memories together, in bytes.
    pub peak_memory: u64,
}

impl Answer<String> {
    /// Parses the value as JSON.
    ///
    /// # Errors
    /// When the value is not valid JSON.
    pub fn read(self) -> serde_json::Result<Answer> {
        let Self { is_error, value, stdout, stderr, denied, wall_us, peak_memory } = self;
        let value = RawValue::from_string(value)?;
        Ok(Answer { is_error, value, stdout, stderr, denied, wall_us, peak_memory })
    }
}
