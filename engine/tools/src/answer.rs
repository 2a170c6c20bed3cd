//! What a call came to.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a tool answered. A tool that says no (`result::err`) has answered too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer<V = Box<RawValue>> {
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The value, as JSON text that its output schema describes: an object. Of an error, the error's own value as
    /// `{"error": …}`.
    pub value: V,
    /// What it printed, as far as it is kept.
    pub stdout: String,
    /// The same of its errors.
    pub stderr: String,
    /// What it was denied, in the words of `hotcell tool grant`, each once, at most 32.
    pub denied: Vec<String>,
    /// Microseconds from the instance's start to its end.
    pub wall_us: u64,
    /// The most that its memories had together, in bytes.
    pub peak_memory: u64,
}

impl Answer<String> {
    /// The same, with a value that was read as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(self) -> serde_json::Result<Answer> {
        let Self { is_error, value, stdout, stderr, denied, wall_us, peak_memory } = self;
        let value = RawValue::from_string(value)?;
        Ok(Answer { is_error, value, stdout, stderr, denied, wall_us, peak_memory })
    }
}
