//! The result of a cell. All of it comes from the untrusted side, except the status of one that ended the session.

use std::time::Duration;

use hotcell_report::RunReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::marked::Kept;

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// To its end.
    Ok,
    /// By an error of its own.
    Error,
    /// By an interrupt; the state is still there.
    Interrupted,
    /// The guard refused it; it did not run, and the state is still there.
    Refused,
    /// With the session, whose state is lost.
    Died,
}

impl Status {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::Refused => "refused",
            Self::Died => "died",
        }
    }
}

/// Output of a cell on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Printed {
    /// Text, with a line in place of what is left out.
    pub text: String,
    /// All bytes.
    pub bytes: u64,
    /// Bytes that are left out.
    pub omitted: u64,
}

impl From<&Kept> for Printed {
    fn from(kept: &Kept) -> Self {
        let (text, omitted) = kept.text();
        Self { text, bytes: kept.bytes, omitted }
    }
}

/// Why a session ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// One sentence.
    pub why: String,
    /// The sandbox's report, with what the kernel said; `None` if a caller closed it before one was there.
    pub report: Option<RunReport>,
}

/// The result of a cell, without its output: the part that every front end shows in one form.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellResult {
    /// ok, error, interrupted, refused (it did not run) or died (and all variables are lost)
    #[schemars(with = "String")]
    pub status: Status,
    /// Number of the cell.
    pub cell: u64,
    /// Value of the last expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Traceback or message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it was interrupted or refused, or the session ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The answer to a cell: its result and its output.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The result.
    #[serde(flatten)]
    pub result: CellResult,
    /// Standard output.
    pub stdout: Printed,
    /// Standard error.
    pub stderr: Printed,
    /// Pictures in PNG, in base64 in JSON; by their first bytes, and otherwise unchecked.
    #[serde(serialize_with = "in_base64")]
    pub images: Vec<Vec<u8>>,
    /// Time from the start of the cell, in seconds.
    #[serde(serialize_with = "seconds")]
    pub wall: Duration,
}

impl Answer {
    /// An answer without output.
    pub(crate) fn new(status: Status, cell: u64, note: Option<String>) -> Self {
        Self {
            result: CellResult { status, cell, value: None, error: None, note },
            stdout: Printed::default(),
            stderr: Printed::default(),
            images: Vec::new(),
            wall: Duration::ZERO,
        }
    }
}

fn in_base64<S: serde::Serializer>(images: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
    use base64::Engine as _;
    to.collect_seq(images.iter().map(|image| base64::engine::general_purpose::STANDARD.encode(image)))
}

fn seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// A line of the driver's.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Told {
    /// `ready`, once.
    pub op: String,
    /// Number of the cell that it answers.
    pub nonce: String,
    /// `ok`, `error` or `interrupted`.
    pub status: String,
    /// Value of the last expression.
    pub value: Option<String>,
    /// Traceback or message.
    pub error: Option<String>,
    /// Pictures in base64.
    pub images: Vec<String>,
}

/// Maximum number of pictures of a cell, and size of each in bytes.
const MAX_IMAGES: usize = 4;
const MAX_IMAGE_BYTES: usize = 1 << 20;
/// Maximum size of a value or an error, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;

impl Told {
    /// Status and contents as an answer; what is too long or no picture is left out.
    pub fn into_answer(self, cell: u64) -> Answer {
        use base64::Engine as _;
        let status = match self.status.as_str() {
            "ok" => Status::Ok,
            "interrupted" => Status::Interrupted,
            _ => Status::Error,
        };
        let text = |text: Option<String>| text.filter(|text| text.len() <= MAX_TEXT_BYTES);
        let decoded = self.images.into_iter().take(MAX_IMAGES);
        let decoded =
            decoded.filter_map(|image| base64::engine::general_purpose::STANDARD.decode(image).ok());
        let is_png =
            |bytes: &Vec<u8>| bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() <= MAX_IMAGE_BYTES;
        Answer {
            result: CellResult { status, cell, value: text(self.value), error: text(self.error), note: None },
            images: decoded.filter(is_png).collect(),
            ..Answer::new(status, cell, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_results_are_bounded() {
        let told: Told = serde_json::from_str(
            r#"{"status":"died","value":"x","images":["iVBORw0KGgo=","PHN2Zz4=","!"],"unknown":1}"#,
        )
        .unwrap();
        let answer = told.into_answer(1);
        assert_eq!((answer.result.status, answer.images.len()), (Status::Error, 1));
        let long = Told { value: Some("x".repeat(MAX_TEXT_BYTES + 1)), ..Told::default() };
        assert_eq!(long.into_answer(1).result.value, None);
    }
}
