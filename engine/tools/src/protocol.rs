//! What the tool host and whoever started it say to each other. Pure: messages to bytes and back.
//!
//! Arguments and answers travel as the text that they are, behind a short head in JSON: nobody on the way parses them.
//! What the parent reads is hostile (a component may have taken its process over): every length is bounded before memory
//! is taken for it, and a message that is not exactly one of these is a [`Violation`], which ends that process.
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

/// The longest component, in bytes. Python in a component has 50 MiB.
pub const LONGEST_COMPONENT: usize = 128 << 20;
/// The longest compiled form, in bytes.
pub const LONGEST_COMPILED: usize = 512 << 20;
/// The longest question or reply, as JSON: 16 MiB of bytes as base64, and names.
pub const LONGEST_ASK: usize = 24 << 20;
/// The longest head before a payload, and the longest message without one.
pub const LONGEST_HEAD: usize = 1 << 20;
/// The longest description of a component, as JSON.
pub const LONGEST_DESCRIPTION: usize = 8 << 20;
/// Questions of one process that are open at the same time; further ones wait in the guest.
pub const MOST_ASKS: usize = 64;
/// Values in the JSON of a question. Each takes some dozen bytes of memory, though it may be written in three.
pub const MOST_VALUES: usize = 1 << 16;
/// Values in the head of an answer: its fields, and what was denied.
const MOST_HEAD_VALUES: usize = 64;

/// What the parent says.
#[derive(Debug)]
pub enum ToHost {
    /// Compile this and describe it.
    Compile {
        /// The component.
        wasm: Vec<u8>,
    },
    /// Here is a compiled component; the descriptor of its file comes with the first byte.
    Load {
        /// What the plugin is called from now on.
        plugin: u64,
        /// What its calls get.
        setting: Setting,
    },
    /// Call a tool.
    Call {
        /// What the call is called.
        call: u64,
        /// Whose tool.
        plugin: u64,
        /// Its export.
        path: String,
        /// JSON.
        arguments: String,
    },
    /// Nobody waits for this call any more.
    Cancel {
        /// The call.
        call: u64,
    },
    /// The answer to a question.
    Replied {
        /// The question.
        ask: u64,
        /// The answer.
        reply: Reply,
    },
}

/// What all calls of a plugin get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Folders, at their own paths.
    pub folders: Vec<Folder>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Limits of each call.
    pub limits: Limits,
}

/// What the tool host says.
#[derive(Debug)]
pub enum FromHost {
    /// It can compile, load and call; or why it cannot. The first message, once.
    Ready(Result<(), LoadError>),
    /// The component's description and its compiled form.
    Compiled {
        /// What it says of itself.
        description: Box<Description>,
        /// Machine code.
        code: Vec<u8>,
    },
    /// A plugin can be called.
    Loaded {
        /// Which.
        plugin: u64,
    },
    /// A component could not be compiled (number 0), or a plugin loaded.
    NotLoaded {
        /// Which.
        plugin: u64,
        /// Why.
        error: LoadError,
    },
    /// A call ended.
    Done {
        /// Which.
        call: u64,
        /// How.
        result: Box<Result<Answer, CallError>>,
    },
    /// A guest asks.
    Asked {
        /// What the question is called.
        ask: u64,
        /// In which call.
        call: u64,
        /// What.
        what: Ask,
    },
    /// Nobody waits for the reply any more.
    Withdrawn {
        /// The question.
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

/// The longest answer of a call with these limits: its value, and what it printed, which JSON may make six times as long.
#[must_use]
pub fn longest_answer(limits: &Limits) -> usize {
    let bytes = |b: hotcell_sandbox::Bytes| usize::try_from(b.0).unwrap_or(usize::MAX);
    bytes(limits.result).saturating_add(bytes(limits.output).saturating_mul(6)).saturating_add(LONGEST_HEAD)
}

/// The longest of a call's arguments with these limits, with its head.
#[must_use]
pub fn longest_call(limits: &Limits) -> usize {
    usize::try_from(limits.arguments.0).unwrap_or(usize::MAX).saturating_add(LONGEST_HEAD)
}

impl ToHost {
    /// The frame.
    ///
    /// # Errors
    /// When it is longer than any frame.
    pub fn encode(&self) -> Result<Vec<u8>, Violation> {
        match self {
            Self::Compile { wasm } => with(kind::COMPILE, 0, wasm),
            Self::Load { plugin, setting } => with_json(kind::LOAD, *plugin, setting),
            Self::Call { call, plugin, path, arguments } => Self::call(*call, *plugin, path, arguments),
            Self::Cancel { call } => with(kind::CANCEL, *call, &[]),
            Self::Replied { ask, reply } => with_json(kind::REPLIED, *ask, reply),
        }
    }

    /// [`ToHost::Call`], of what is borrowed.
    ///
    /// # Errors
    /// When it is longer than any frame.
    pub fn call(call: u64, plugin: u64, path: &str, arguments: &str) -> Result<Vec<u8>, Violation> {
        let head = CallHead { plugin, path: path.into() };
        with_head(kind::CALL, call, &head, arguments.as_bytes())
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn decode(frame: Frame) -> Result<Self, Violation> {
        let Frame { kind, number, body } = frame;
        match kind {
            kind::COMPILE => Ok(Self::Compile { wasm: body }),
            kind::LOAD => Ok(Self::Load { plugin: number, setting: json("a setting", &body)? }),
            kind::CALL => {
                let (head, at) = head::<CallHead<'_>>("a call", &body, LONGEST_HEAD)?;
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
    /// The frame.
    ///
    /// # Errors
    /// When it is longer than any frame, or a question of more than [`MOST_VALUES`].
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
                few("a question", &frame[frame::HEADER..], MOST_VALUES).map(|()| frame)
            }
            Self::Withdrawn { ask } => with(kind::WITHDRAWN, *ask, &[]),
        }
    }

    /// [`FromHost::Done`], of an answer that is passed on as it was written.
    ///
    /// # Errors
    /// When it is longer than any frame.
    pub fn answered(call: u64, answer: &Answer<String>) -> Result<Vec<u8>, Violation> {
        answered(call, answer, &answer.value)
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn decode(frame: Frame) -> Result<Self, Violation> {
        let Frame { kind, number, body } = frame;
        match kind {
            kind::READY => Ok(Self::Ready(json("its first message", short(&body)?)?)),
            kind::COMPILED => {
                let (description, at) = head("a description", &body, LONGEST_DESCRIPTION)?;
                Ok(Self::Compiled { description, code: behind(body, at) })
            }
            kind::LOADED => nothing(&body).map(|()| Self::Loaded { plugin: number }),
            kind::NOT_LOADED => {
                Ok(Self::NotLoaded { plugin: number, error: json("an error", short(&body)?)? })
            }
            kind::ANSWERED => {
                // What was printed has no length of its own here; nearly nothing but texts can be long.
                let (head, at) = raw_head("an answer", &body, usize::MAX)?;
                few("an answer", head, MOST_HEAD_VALUES)?;
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
                if body.len() > LONGEST_ASK {
                    return Err(Violation::new(format!("a question of {} bytes", body.len())));
                }
                few("a question", &body, MOST_VALUES)?;
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

/// A head's length, the head, the payload.
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

/// The head of at most so many bytes, and where the payload begins.
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

/// Whether some JSON has at most so many values, before it is taken apart.
fn few(what: &str, json: &[u8], most: usize) -> Result<(), Violation> {
    let (values, _) = measure(json);
    if values > most {
        return Err(Violation::new(format!("{what} of {values} values, and {most} are possible")));
    }
    Ok(())
}

/// How many values some JSON has at most, and how deep they nest, without taking it apart: what else is wrong with it is not seen.
#[must_use]
pub fn measure(json: &[u8]) -> (usize, usize) {
    let (mut values, mut depth, mut deepest) = (1, 0usize, 0);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            // Texts are most of what is long: they are passed over by the piece.
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

/// Behind the quote that ends a text that begins there, or the end of all.
fn end_of_text(json: &[u8], mut at: usize) -> usize {
    loop {
        match json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            Some(more) if json[at + more] == b'"' => return at + more + 1,
            // And whatever it stands before.
            Some(more) => at += more + 2,
            None => return json.len(),
        }
    }
}

fn short(body: &[u8]) -> Result<&[u8], Violation> {
    if body.len() > LONGEST_HEAD {
        return Err(Violation::new(format!("{} bytes where {LONGEST_HEAD} are possible", body.len())));
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

/// JSON on one line, an object. It is passed on as it is, into streams in which lines count.
fn object(text: String) -> Result<Box<RawValue>, Violation> {
    // All of it is looked at: sixteen bytes at a time, where stopping at the first is one at a time and takes twenty times as long.
    if !text.starts_with('{') || text.bytes().fold(false, |found, b| found | (b < b' ')) {
        return Err(Violation::new("a value that is no object on one line"));
    }
    RawValue::from_string(text).map_err(|e| Violation::new(format!("a value that is no JSON: {e}")))
}

#[cfg(test)]
mod tests;
