//! Messages between the tool host and its parent process. Pure: messages to bytes and back.
//!
//! Arguments and answers travel as the original text, behind a short head in JSON: nothing on the way parses
//! them.
//! The parent treats everything it reads as hostile (a component may have taken over the host process): every
//! length is checked before memory is allocated for it, and a message that is not exactly one of these is a
//! [`Violation`], which ends that process.
//!
//! | from | message | about | answered by |
//! | --- | --- | --- | --- |
//! | host | [`FromHost::Ready`] | itself | |
//! | parent | [`ToHost::Compile`] | a component | [`FromHost::Compiled`] or [`FromHost::NotLoaded`] |
//! | parent | [`ToHost::Load`] and a descriptor | a plugin | [`FromHost::Loaded`] or [`FromHost::NotLoaded`] |
//! | parent | [`ToHost::Call`] | a call | [`FromHost::Done`] |
//! | parent | [`ToHost::Cancel`] | a call | its [`FromHost::Done`] comes soon |
//! | host | [`FromHost::Asked`] | a question of a call | [`ToHost::Replied`] |
//! | host | [`FromHost::Withdrawn`] | a question | |

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub mod frame;

pub use frame::{Frame, Incoming, Violation};

use crate::{Answer, Ask, CallError, Description, Folder, Limits, LoadError, Reply};

/// Maximum size of a component, in bytes. Python in a component has 50 MiB.
pub const MAX_COMPONENT_BYTES: usize = 128 << 20;
/// Maximum size of a compiled component, in bytes.
pub const MAX_COMPILED_BYTES: usize = 512 << 20;
/// Maximum size of a question or reply, in bytes of JSON: 16 MiB of bytes as base64, and names.
pub const MAX_QUESTION_BYTES: usize = 24 << 20;
/// Maximum size of a head before a payload, or of a message without a payload, in bytes.
pub const MAX_HEAD_BYTES: usize = 1 << 20;
/// Maximum size of a component's description, in bytes of JSON.
pub const MAX_DESCRIPTION_BYTES: usize = 8 << 20;
/// Maximum number of open questions per process; further ones wait in the guest.
pub const MAX_OPEN_QUESTIONS: usize = 64;
/// Maximum number of values in the JSON of a question. Each takes some dozen bytes of memory, even if it
/// takes only three in the text.
pub const MAX_VALUES: usize = 1 << 16;
/// Maximum number of values in the head of an answer: its fields and the denials.
const MAX_HEAD_VALUES: usize = 64;

/// Messages from the parent.
#[derive(Debug)]
pub enum ToHost {
    /// Compile and describe a component.
    Compile {
        /// The component.
        wasm: Vec<u8>,
    },
    /// Load a compiled component; the descriptor of its file comes with the first byte.
    Load {
        /// Number of the plugin in later messages.
        plugin: u64,
        /// Settings that apply to its calls.
        setting: Setting,
    },
    /// Call a tool.
    Call {
        /// Number of the call in later messages.
        call: u64,
        /// Number of the plugin.
        plugin: u64,
        /// Export to call.
        path: String,
        /// Arguments, as JSON.
        arguments: String,
    },
    /// Cancel a call: no caller waits for it any more.
    Cancel {
        /// Number of the call.
        call: u64,
    },
    /// The answer to a question.
    Replied {
        /// Number of the question.
        ask: u64,
        /// The answer.
        reply: Reply,
    },
}

/// Settings of a plugin, which apply to each of its calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Granted folders, at the same paths as on the host.
    pub folders: Vec<Folder>,
    /// Complete environment.
    pub env: Vec<(String, String)>,
    /// Limits of each call.
    pub limits: Limits,
    /// Whether its calls share one instance: the process serves one session.
    #[serde(default)]
    pub keeps: bool,
}

/// Messages from the tool host.
#[derive(Debug)]
pub enum FromHost {
    /// First message, sent once: the host can compile, load and call, or the reason it cannot.
    Ready(Result<(), LoadError>),
    /// The component's description and its compiled form.
    Compiled {
        /// Description of the component.
        description: Box<Description>,
        /// Machine code.
        code: Vec<u8>,
    },
    /// A plugin is loaded and can be called.
    Loaded {
        /// Number of the plugin.
        plugin: u64,
    },
    /// A component could not be compiled (number 0), or a plugin could not be loaded.
    NotLoaded {
        /// Number of the plugin, or 0.
        plugin: u64,
        /// Reason for the failure.
        error: LoadError,
    },
    /// A call ended.
    Done {
        /// Number of the call.
        call: u64,
        /// Answer of the tool, or the reason the call failed.
        result: Box<Result<Answer, CallError>>,
    },
    /// A guest asks a question.
    Asked {
        /// Number of the question in later messages.
        ask: u64,
        /// Number of the call that asks.
        call: u64,
        /// The question.
        what: Ask,
    },
    /// The host no longer waits for the reply.
    Withdrawn {
        /// Number of the question.
        ask: u64,
    },
}

mod kind {
    pub const COMPILE: u8 = 1;
    pub const LOAD: u8 = 2;
    pub const CALL: u8 = 3;
    pub const CANCEL: u8 = 4;
    pub const REPLIED: u8 = 5;

    pub const READY: u8 = 65;
    pub const COMPILED: u8 = 66;
    pub const LOADED: u8 = 67;
    pub const NOT_LOADED: u8 = 68;
    pub const ANSWERED: u8 = 69;
    pub const FAILED: u8 = 70;
    pub const ASKED: u8 = 71;
    pub const WITHDRAWN: u8 = 72;
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallHead<'a> {
    plugin: u64,
    #[serde(borrow)]
    path: std::borrow::Cow<'a, str>,
}

/// An [`Answer`] without its value, which is the payload.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerHead<'a> {
    is_error: bool,
    stdout: std::borrow::Cow<'a, str>,
    stderr: std::borrow::Cow<'a, str>,
    denied: std::borrow::Cow<'a, [String]>,
    wall_us: u64,
    peak_memory: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskHead {
    call: u64,
    what: Ask,
}

/// Maximum length of an answer under these limits, in bytes: its value and its output, which JSON escapes can
/// make six times as long.
#[must_use]
pub fn longest_answer(limits: &Limits) -> usize {
    let bytes = |b: hotcell_sandbox::Bytes| usize::try_from(b.0).unwrap_or(usize::MAX);
    bytes(limits.result).saturating_add(bytes(limits.output).saturating_mul(6)).saturating_add(MAX_HEAD_BYTES)
}

/// Maximum length of a call's arguments under these limits with their head, in bytes.
#[must_use]
pub fn longest_call(limits: &Limits) -> usize {
    usize::try_from(limits.arguments.0).unwrap_or(usize::MAX).saturating_add(MAX_HEAD_BYTES)
}

impl ToHost {
    /// Encodes the message as a frame.
    ///
    /// # Errors
    /// [`Violation`] when the message is longer than a frame may be.
    pub fn encode(&self) -> Result<Vec<u8>, Violation> {
        match self {
            Self::Compile { wasm } => with(kind::COMPILE, 0, wasm),
            Self::Load { plugin, setting } => with_json(kind::LOAD, *plugin, setting),
            Self::Call { call, plugin, path, arguments } => Self::call(*call, *plugin, path, arguments),
            Self::Cancel { call } => with(kind::CANCEL, *call, &[]),
            Self::Replied { ask, reply } => with_json(kind::REPLIED, *ask, reply),
        }
    }

    /// Encodes a [`ToHost::Call`] from borrowed parts.
    ///
    /// # Errors
    /// [`Violation`] when the message is longer than a frame may be.
    pub fn call(call: u64, plugin: u64, path: &str, arguments: &str) -> Result<Vec<u8>, Violation> {
        let head = CallHead { plugin, path: path.into() };
        with_head(kind::CALL, call, &head, arguments.as_bytes())
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// [`Violation`] when the frame is not exactly one of these messages, or a part is too large.
    pub fn decode(frame: Frame) -> Result<Self, Violation> {
        let Frame { kind, number, body } = frame;
        match kind {
            kind::COMPILE => Ok(Self::Compile { wasm: body }),
            kind::LOAD => Ok(Self::Load { plugin: number, setting: json("a setting", &body)? }),
            kind::CALL => {
                let (head, at) = head::<CallHead<'_>>("a call", &body, MAX_HEAD_BYTES)?;
                let (plugin, path) = (head.plugin, head.path.into_owned());
                Ok(Self::Call { call: number, plugin, path, arguments: text("arguments", body, at)? })
            }
            kind::CANCEL => nothing(&body).map(|()| Self::Cancel { call: number }),
            kind::REPLIED => Ok(Self::Replied { ask: number, reply: json("a reply", &body)? }),
            other => Err(Violation::new(format!("a message of the unknown kind {other}"))),
        }
    }
}

impl FromHost {
    /// Encodes the message as a frame.
    ///
    /// # Errors
    /// [`Violation`] when the message is longer than a frame may be, or a question has more than
    /// [`MAX_VALUES`] values.
    pub fn encode(&self) -> Result<Vec<u8>, Violation> {
        match self {
            Self::Ready(ready) => with_json(kind::READY, 0, ready),
            Self::Compiled { description, code } => with_head(kind::COMPILED, 0, description, code),
            Self::Loaded { plugin } => with(kind::LOADED, *plugin, &[]),
            Self::NotLoaded { plugin, error } => with_json(kind::NOT_LOADED, *plugin, error),
            Self::Done { call, result } => match result.as_ref() {
                Ok(answer) => answered(*call, answer, answer.value.get()),
                Err(error) => with_json(kind::FAILED, *call, error),
            },
            Self::Asked { ask, call, what } => {
                let frame = with_json(kind::ASKED, *ask, &AskHead { call: *call, what: what.clone() })?;
                few("a question", &frame[frame::HEADER_LEN..], MAX_VALUES).map(|()| frame)
            }
            Self::Withdrawn { ask } => with(kind::WITHDRAWN, *ask, &[]),
        }
    }

    /// Encodes a [`FromHost::Done`] whose answer is passed on as the text that the tool wrote.
    ///
    /// # Errors
    /// [`Violation`] when the message is longer than a frame may be.
    pub fn answered(call: u64, answer: &Answer<String>) -> Result<Vec<u8>, Violation> {
        answered(call, answer, &answer.value)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// [`Violation`] when the frame is not exactly one of these messages, or a part is too large.
    pub fn decode(frame: Frame) -> Result<Self, Violation> {
        let Frame { kind, number, body } = frame;
        match kind {
            kind::READY => Ok(Self::Ready(json("its first message", short(&body)?)?)),
            kind::COMPILED => {
                let (description, at) = head("a description", &body, MAX_DESCRIPTION_BYTES)?;
                Ok(Self::Compiled { description, code: behind(body, at) })
            }
            kind::LOADED => nothing(&body).map(|()| Self::Loaded { plugin: number }),
            kind::NOT_LOADED => {
                Ok(Self::NotLoaded { plugin: number, error: json("an error", short(&body)?)? })
            }
            kind::ANSWERED => {
                // The output has no length limit of its own here; almost only strings can be long.
                let (head, at) = raw_head("an answer", &body, usize::MAX)?;
                few("an answer", head, MAX_HEAD_VALUES)?;
                let head: AnswerHead<'_> = json("an answer", head)?;
                let AnswerHead { is_error, stdout, stderr, denied, wall_us, peak_memory } = head;
                let (stdout, stderr, denied) =
                    (stdout.into_owned(), stderr.into_owned(), denied.into_owned());
                let value = object(text("a value", body, at)?)?;
                let answer = Answer { is_error, value, stdout, stderr, denied, wall_us, peak_memory };
                Ok(Self::Done { call: number, result: Box::new(Ok(answer)) })
            }
            kind::FAILED => {
                let error = json("an error", short(&body)?)?;
                Ok(Self::Done { call: number, result: Box::new(Err(error)) })
            }
            kind::ASKED => {
                if body.len() > MAX_QUESTION_BYTES {
                    return Err(Violation::new(format!("a question of {} bytes", body.len())));
                }
                few("a question", &body, MAX_VALUES)?;
                let AskHead { call, what } = json("a question", &body)?;
                Ok(Self::Asked { ask: number, call, what })
            }
            kind::WITHDRAWN => nothing(&body).map(|()| Self::Withdrawn { ask: number }),
            other => Err(Violation::new(format!("a message of the unknown kind {other}"))),
        }
    }
}

fn answered<V>(call: u64, answer: &Answer<V>, value: &str) -> Result<Vec<u8>, Violation> {
    let head = AnswerHead {
        is_error: answer.is_error,
        stdout: (&*answer.stdout).into(),
        stderr: (&*answer.stderr).into(),
        denied: (&*answer.denied).into(),
        wall_us: answer.wall_us,
        peak_memory: answer.peak_memory,
    };
    with_head(kind::ANSWERED, call, &head, value.as_bytes())
}

fn with(kind: u8, number: u64, body: &[u8]) -> Result<Vec<u8>, Violation> {
    let mut bytes = frame::begin(kind, number, body.len());
    bytes.extend_from_slice(body);
    frame::finish(bytes)
}

fn with_json(kind: u8, number: u64, body: &impl Serialize) -> Result<Vec<u8>, Violation> {
    let mut bytes = frame::begin(kind, number, 256);
    serde_json::to_writer(&mut bytes, body).map_err(|e| Violation::new(e.to_string()))?;
    frame::finish(bytes)
}

/// Builds a frame body: the head's length, the head, the payload.
fn with_head(kind: u8, number: u64, head: &impl Serialize, payload: &[u8]) -> Result<Vec<u8>, Violation> {
    let mut bytes = frame::begin(kind, number, 256 + payload.len());
    let at = bytes.len();
    bytes.extend([0; 4]);
    serde_json::to_writer(&mut bytes, head).map_err(|e| Violation::new(e.to_string()))?;
    let length = u32::try_from(bytes.len() - at - 4).map_err(|_| Violation::new("a head of 4 GiB"))?;
    bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(payload);
    frame::finish(bytes)
}

/// Splits a body into the head (at most `most` bytes) and the offset of the payload.
fn raw_head<'a>(what: &str, body: &'a [u8], most: usize) -> Result<(&'a [u8], usize), Violation> {
    let cut = || Violation::new(format!("{what} that is cut off"));
    let (length, rest) = body.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut())?;
    if length > most {
        return Err(Violation::new(format!("{what} whose head has {length} bytes, and {most} are possible")));
    }
    Ok((rest.get(..length).ok_or_else(cut)?, 4 + length))
}

fn head<'a, T: Deserialize<'a>>(what: &str, body: &'a [u8], most: usize) -> Result<(T, usize), Violation> {
    let (head, at) = raw_head(what, body, most)?;
    Ok((json(what, head)?, at))
}

fn json<'a, T: Deserialize<'a>>(what: &str, body: &'a [u8]) -> Result<T, Violation> {
    serde_json::from_slice(body).map_err(|e| Violation::new(format!("{what} that is none: {e}")))
}

/// Checks that JSON has at most `most` values, before it is parsed.
fn few(what: &str, json: &[u8], most: usize) -> Result<(), Violation> {
    let (values, _) = measure(json);
    if values > most {
        return Err(Violation::new(format!("{what} of {values} values, and {most} are possible")));
    }
    Ok(())
}

/// Upper bounds on the number of values in some JSON and on their nesting depth, without parsing it; other
/// faults in the JSON are not detected.
#[must_use]
pub fn measure(json: &[u8]) -> (usize, usize) {
    let (mut values, mut depth, mut deepest) = (1, 0usize, 0);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            // Strings make up most of a long text, so they are skipped in chunks.
            b'"' => at = end_of_text(json, at),
            b'[' | b'{' => {
                (values, depth) = (values + 1, depth + 1);
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    (values, deepest)
}

/// Index after the quote that ends the string beginning at `at`, or the end of the input.
fn end_of_text(json: &[u8], mut at: usize) -> usize {
    loop {
        match json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            Some(more) if json[at + more] == b'"' => return at + more + 1,
            // A backslash: skip it and the character that it escapes.
            Some(more) => at += more + 2,
            None => return json.len(),
        }
    }
}

fn short(body: &[u8]) -> Result<&[u8], Violation> {
    if body.len() > MAX_HEAD_BYTES {
        return Err(Violation::new(format!("{} bytes where {MAX_HEAD_BYTES} are possible", body.len())));
    }
    Ok(body)
}

fn nothing(body: &[u8]) -> Result<(), Violation> {
    if body.is_empty() { Ok(()) } else { Err(Violation::new("a body where none belongs")) }
}

fn behind(mut body: Vec<u8>, at: usize) -> Vec<u8> {
    body.drain(..at);
    body
}

fn text(what: &str, body: Vec<u8>, at: usize) -> Result<String, Violation> {
    String::from_utf8(behind(body, at)).map_err(|_| Violation::new(format!("{what} that is not UTF-8")))
}

/// Checks that the text is a JSON object on one line. The text is passed on unchanged, into streams that are
/// split at line ends.
fn object(text: String) -> Result<Box<RawValue>, Violation> {
    // The scan reads the whole text, sixteen bytes at a time; a scan that stops at the first match goes byte
    // by byte and takes twenty times as long.
    if !text.starts_with('{') || text.bytes().fold(false, |found, b| found | (b < b' ')) {
        return Err(Violation::new("a value that is no object on one line"));
    }
    RawValue::from_string(text).map_err(|e| Violation::new(format!("a value that is no JSON: {e}")))
}

#[cfg(test)]
mod tests;
