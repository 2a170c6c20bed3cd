//! The result of a cell. All of it comes from the untrusted side, except the status of one that ended the session.

use std::time::Duration;

use hotcell_report::{LeftOut, RunReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::files::{CellFile, Listed};
use crate::marked::Kept;

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Result of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptResult {
    /// The cell has ended.
    Stopped,
    /// The cell still runs.
    Ignored,
    /// No cell ran.
    Idle,
}

/// Output of a cell on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The result.
    #[serde(flatten)]
    pub result: CellResult,
    /// Standard output.
    pub stdout: Printed,
    /// Standard error.
    pub stderr: Printed,
    /// Pictures, in base64 in JSON. **Unchecked bytes**: a front end has them read in a sandbox before it shows them.
    #[serde(serialize_with = "in_base64", deserialize_with = "of_base64")]
    #[schemars(with = "Vec<String>")]
    pub images: Vec<Vec<u8>>,
    /// Files that it returned: those asked for, those below `outputs` that are new, and other forms of its value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<CellFile>,
    /// Files that it does not return, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftOut>,
    /// Time from the start of the cell, in seconds.
    #[serde(serialize_with = "seconds", deserialize_with = "of_seconds")]
    #[schemars(with = "f64")]
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
            files: Vec::new(),
            left: Vec::new(),
            wall: Duration::ZERO,
        }
    }
}

fn in_base64<S: serde::Serializer>(images: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
    use base64::Engine as _;
    to.collect_seq(images.iter().map(|image| base64::engine::general_purpose::STANDARD.encode(image)))
}

fn of_base64<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
    use base64::Engine as _;
    let texts = Vec::<String>::deserialize(from)?;
    let decoded = texts.iter().map(|text| base64::engine::general_purpose::STANDARD.decode(text));
    decoded.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}

fn of_seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
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
    /// Other forms of the value: `csv`, `html`, `json` or `svg`, and the text.
    pub data: Vec<(String, String)>,
    /// Entries of the home folder.
    pub files: Vec<Listed>,
    /// Contents of a file that was asked for, in base64.
    pub contents: Option<String>,
}

/// Maximum number of pictures of a cell, and size of each in bytes.
const MAX_IMAGES: usize = 4;
const MAX_IMAGE_BYTES: usize = 1 << 20;
/// Forms of a value that are taken as files.
const FORMS: [&str; 4] = ["csv", "html", "json", "svg"];
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
        let is_short = |bytes: &Vec<u8>| bytes.len() <= MAX_IMAGE_BYTES;
        let forms =
            self.data.into_iter().filter(|(form, _)| FORMS.contains(&form.as_str())).take(FORMS.len());
        let form = |(form, text): (String, String)| CellFile {
            path: format!("cell-{cell}.{form}"),
            bytes: text.into_bytes().into(),
        };
        Answer {
            result: CellResult { status, cell, value: text(self.value), error: text(self.error), note: None },
            images: decoded.filter(is_short).collect(),
            files: forms.map(form).collect(),
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
            r#"{"status":"died","value":"x","images":["iVBORw0KGgo=","PHN2Zz4=","!"],"data":[["csv","a"],["sh","b"]],"unknown":1}"#,
        )
        .unwrap();
        let answer = told.into_answer(1);
        assert_eq!((answer.result.status, answer.images.len()), (Status::Error, 2));
        assert_eq!(answer.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["cell-1.csv"]);
        let long = Told { value: Some("x".repeat(MAX_TEXT_BYTES + 1)), ..Told::default() };
        assert_eq!(long.into_answer(1).result.value, None);
    }
}
