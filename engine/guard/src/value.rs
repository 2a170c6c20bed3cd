//! Possible values of an expression, as far as they are known without running it.
//!
//! Shared by all languages: canonical dotted names, a bounded constant, the origin of its content, and the
//! transforms that produced it. This module does not decide what is dangerous.

use crate::report::StepKind;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

/// Canonical names of a value. Nearly all have one, which takes no memory of its own.
pub type Names = SmallVec<[Rc<str>; 1]>;

/// Placeholder in a text for an unknown piece.
pub const HOLE: char = '\u{fffc}';
/// Maximum size of a constant; longer ones lose their content, never their origin.
pub const MAX_TEXT: usize = 256 * 1024;
/// Maximum number of elements of a list.
pub const MAX_LIST: usize = 65_536;

/// Origin of content, a set of bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Origin(pub u32);

macro_rules! origins {
    ($($bit:literal $name:ident $text:literal $doc:literal;)*) => {
        impl Origin {
            $(#[doc = $doc] pub const $name: Origin = Origin(1 << $bit);)*
            /// The bit with the name `name` in rules.
            #[must_use] pub fn named(name: &str) -> Option<Origin> {
                match name { $($text => Some(Origin::$name),)* _ => None }
            }
        }
    };
}
origins! {
    0 NET "net" "Received from a network.";
    1 DECODED "decoded" "Came out of a decoder or a decryption.";
    2 INPUT "input" "Typed, or given as an argument, by whoever runs the program.";
    3 FILE "file" "Read from a file.";
    4 SECRET "secret" "Credentials, keys, cookies, wallets.";
    5 OUTPUT "output" "Printed by another process.";
    6 ENV "env" "The whole environment, or several of its variables.";
    7 KEYS "keys" "Keystrokes, clipboard, screen, microphone, camera.";
    8 HOST "host" "Names of the machine, its user and its system.";
    9 COMPUTED "computed" "Put together from pieces.";
    10 SELF_FILE "self" "Read from the program's own file.";
    11 REQUEST "request" "A field of a web request.";
    12 ENCRYPTED "encrypted" "Came out of an encryption.";
    13 WALK "walk" "A path met while walking a tree.";
    14 TEMP "temp" "A path below a temporary folder.";
    15 HOME "home" "A path below the home folder.";
    16 WIDE "wide" "Reached from the root or the home folder as a whole.";
    17 RANDOM "random" "Random bytes.";
    18 PARAM "param" "A parameter of a function.";
    19 PICKLED "pickled" "Built by an unsafe deserialiser.";
    20 CODE "code" "Compiled code.";
    21 TREE "tree" "A path of a tree (a folder walked, listed or matched by a pattern).";
    22 MAPPED "mapped" "Memory that was mapped, executable or not.";
    23 SAVED "saved" "The path of a file that was written with content from a network.";
    25 ENCODED "encoded" "Written in another alphabet, base32 or hexadecimal for example.";
    24 UNPACKED "unpacked" "Came out of a decoder that was fed something unknown.";
    27 MODEL "model" "Answered by a language model that the program asked.";
    28 MAIL "mail" "Read from a mailbox.";
    29 ENTRY "entry" "The name of an entry of an archive.";
    30 BACKUP "backup" "Met in a folder of backups, without a choice among them.";
    26 CALLER "caller" "Given by the caller of a tool or of a route: a model, or a client of a server.";
}

impl Origin {
    /// True when it shares a bit with `other`.
    #[must_use]
    pub fn has(self, other: Origin) -> bool {
        self.0 & other.0 != 0
    }
}
impl std::ops::BitOr for Origin {
    type Output = Origin;
    fn bitor(self, other: Origin) -> Origin {
        Origin(self.0 | other.0)
    }
}
impl std::ops::BitOrAssign for Origin {
    fn bitor_assign(&mut self, other: Origin) {
        self.0 |= other.0;
    }
}

/// Maximum number of steps that are kept of a value's way; later ones are left out.
const MAX_STEPS: u8 = 12;

/// A step on a value's way from its source, and the steps before it.
#[derive(Debug)]
pub struct Step {
    /// Kind of the step.
    pub kind: StepKind,
    /// Name of the parameter, variable, attribute or function.
    pub name: Rc<str>,
    /// Place in the text that is read, in bytes.
    pub at: (usize, usize),
    /// Step before it.
    pub before: Option<Rc<Step>>,
    length: u8,
}

/// A constant.
#[derive(Clone, Debug)]
pub enum Const {
    /// Text, with [`HOLE`] for unknown pieces.
    Text(Rc<str>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A whole number, saturated.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// The language's null value.
    Nothing,
    /// A list, tuple, set or array.
    List(Rc<Vec<Value>>),
    /// A mapping.
    Map(Rc<Vec<(Value, Value)>>),
}

/// Possible values of an expression.
#[derive(Clone, Default, Debug)]
pub struct Value {
    /// Canonical names: `os.system`; `socket.socket()` for a call's result.
    pub names: Names,
    /// Content, if known.
    pub known: Option<Const>,
    /// Origin of the content.
    pub origin: Origin,
    /// Decoders that it passed through, innermost first.
    pub chain: Vec<&'static str>,
    /// Way from its source, for values whose origin rules ask about.
    pub trail: Option<Rc<Step>>,
}

impl Value {
    /// A value known by name only.
    #[must_use]
    pub fn name(name: &str) -> Value {
        Value { names: smallvec![name.into()], ..Value::default() }
    }
    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Value {
        Value::of(Const::Text(cut(text).into()))
    }
    /// A constant.
    #[must_use]
    pub fn of(known: Const) -> Value {
        Value { known: Some(known), ..Value::default() }
    }
    /// A whole number.
    #[must_use]
    pub fn int(number: i64) -> Value {
        Value::of(Const::Int(number))
    }
    /// Bytes.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Value {
        Value::of(Const::Bytes(bytes[..bytes.len().min(MAX_TEXT)].into()))
    }
    /// A list; beyond [`MAX_LIST`] only its origin is kept.
    #[must_use]
    pub fn list(items: Vec<Value>) -> Value {
        let origin = items.iter().take(64).fold(Origin::default(), |sum, item| sum | item.origin);
        let trail = items.iter().take(64).find_map(|item| item.trail.clone());
        let known = (items.len() <= MAX_LIST).then(|| Const::List(items.into()));
        Value { known, origin, trail, ..Value::default() }
    }
    /// Adds origins.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Value {
        self.origin |= origin;
        self
    }
    /// Adds the origins of another value that this one was made from, and its way.
    #[must_use]
    pub fn made_of(mut self, other: &Value) -> Value {
        self.origin |= other.origin;
        if self.trail.is_none() {
            self.trail.clone_from(&other.trail);
        }
        self
    }
    /// Appends a step to its way.
    #[must_use]
    pub fn stepped(mut self, kind: StepKind, name: &str, at: (usize, usize)) -> Value {
        let length = self.trail.as_ref().map_or(0, |step| step.length);
        if length < MAX_STEPS {
            let before = self.trail.take();
            self.trail = Some(Rc::new(Step { kind, name: name.into(), at, before, length: length + 1 }));
        }
        self
    }
    /// Places of the calls that passed it on.
    #[must_use]
    pub fn passed(&self) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        let mut next = self.trail.as_deref();
        while let Some(step) = next {
            if step.kind == StepKind::Passed {
                all.push(step.at);
            }
            next = step.before.as_deref();
        }
        all
    }
    /// Removes origins; its way stays.
    #[must_use]
    pub fn without_origin(mut self, origin: Origin) -> Value {
        self.origin = Origin(self.origin.0 & !origin.0);
        self
    }
    /// Removes origins, and its way.
    #[must_use]
    pub fn without(mut self, origin: Origin) -> Value {
        if self.origin.has(origin) {
            self.origin = Origin(self.origin.0 & !origin.0);
            self.trail = None;
        }
        self
    }
    /// Text, including holes (bytes count if they are UTF-8).
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self.known.as_ref()? {
            Const::Text(text) => Some(text),
            Const::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
    /// Text, if every piece is known.
    #[must_use]
    pub fn as_whole_text(&self) -> Option<&str> {
        self.as_text().filter(|text| !text.contains(HOLE))
    }
    /// Bytes; with `latin`, a text's characters below 256 count as Latin-1.
    #[must_use]
    pub fn as_bytes(&self) -> Option<Rc<[u8]>> {
        match self.known.as_ref()? {
            Const::Text(text) if !text.contains(HOLE) => Some(text.as_bytes().into()),
            Const::Bytes(bytes) => Some(bytes.clone()),
            Const::List(items) => items
                .iter()
                .map(|item| item.as_int().and_then(|n| u8::try_from(n).ok()))
                .collect::<Option<Vec<u8>>>()
                .map(Into::into),
            _ => None,
        }
    }
    /// Number.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self.known.as_ref()? {
            Const::Int(number) => Some(*number),
            Const::Bool(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }
    /// Elements of a list, characters of a text, or bytes.
    #[must_use]
    pub fn elements(&self) -> Option<Vec<Value>> {
        Some(match self.known.as_ref()? {
            Const::List(items) => items.to_vec(),
            Const::Text(text) if text.len() <= MAX_LIST => {
                text.chars().map(|c| Value::text(c.encode_utf8(&mut [0; 4]))).collect()
            }
            Const::Bytes(bytes) if bytes.len() <= MAX_LIST => {
                bytes.iter().map(|b| Value::int(i64::from(*b))).collect()
            }
            Const::Map(pairs) => pairs.iter().map(|(key, _)| key.clone()).collect(),
            _ => return None,
        })
    }
    /// Number of elements; like [`Value::elements`], without making them.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        Some(match self.known.as_ref()? {
            Const::List(items) => items.len(),
            Const::Text(text) if text.len() <= MAX_LIST => text.chars().count(),
            Const::Bytes(bytes) if bytes.len() <= MAX_LIST => bytes.len(),
            Const::Map(pairs) => pairs.len(),
            _ => return None,
        })
    }
    /// The first element of a list, a text or bytes.
    #[must_use]
    pub fn first(&self) -> Option<Value> {
        match self.known.as_ref()? {
            Const::List(items) => items.first().cloned(),
            Const::Text(text) if text.len() <= MAX_LIST => {
                text.chars().next().map(|c| Value::text(c.encode_utf8(&mut [0; 4])))
            }
            Const::Bytes(bytes) if bytes.len() <= MAX_LIST => {
                bytes.first().map(|b| Value::int(i64::from(*b)))
            }
            Const::Map(pairs) => pairs.first().map(|(key, _)| key.clone()),
            _ => None,
        }
    }
    /// Truth value, if certain.
    #[must_use]
    pub fn truth(&self) -> Option<bool> {
        Some(match self.known.as_ref()? {
            Const::Text(text) => !text.is_empty(),
            Const::Bytes(bytes) => !bytes.is_empty(),
            Const::Int(number) => *number != 0,
            Const::Bool(flag) => *flag,
            Const::Nothing => false,
            Const::List(items) => !items.is_empty(),
            Const::Map(pairs) => !pairs.is_empty(),
        })
    }
    /// Union with an older value: names and origins of both, the content of the newer.
    #[must_use]
    pub fn or(mut self, older: &Value) -> Value {
        for name in older.names.iter().take(4) {
            if self.names.len() < 6 && !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
        self.origin |= older.origin;
        if self.known.is_none() {
            self.known.clone_from(&older.known);
        }
        if self.chain.is_empty() {
            self.chain.clone_from(&older.chain);
        }
        if self.trail.is_none() {
            self.trail.clone_from(&older.trail);
        }
        self
    }
    /// True when one of its names is `name`.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|own| &**own == name)
    }
    /// Text, or a hole.
    #[must_use]
    pub fn text_or_hole(&self) -> String {
        match &self.known {
            Some(Const::Int(number)) => number.to_string(),
            Some(Const::Bool(flag)) => flag.to_string(),
            _ => self.as_text().map_or_else(|| HOLE.to_string(), str::to_owned),
        }
    }
    /// Appends a decoder to the transforms of `from`.
    #[must_use]
    pub fn decoded_by(mut self, step: &'static str, from: &Value) -> Value {
        self.chain.clone_from(&from.chain);
        if self.chain.len() < 16 {
            self.chain.push(step);
        }
        self.trail.clone_from(&from.trail);
        self.origin |= from.origin | Origin::DECODED | Origin::COMPUTED;
        self
    }
}

/// True for keys that name one variable of an environment: a single variable is not the whole environment.
#[must_use]
pub fn names_variable(key: &str) -> bool {
    key.starts_with("npm_")
        || key.contains(|c: char| c.is_ascii_uppercase()) && !key.contains(|c: char| c.is_ascii_lowercase())
}

/// Concatenates two texts; unknown sides become holes.
#[must_use]
pub fn concat(left: &Value, right: &Value) -> Value {
    let origin = left.origin | right.origin;
    let mut value = match (&left.known, &right.known) {
        // No further text is kept: copying it for each further piece would take most of a scan's time.
        (Some(Const::Text(a)), _) if a.len() + 3 >= MAX_TEXT => {
            Value::of(Const::Text(a.clone())).with_origin(Origin::COMPUTED)
        }
        (Some(Const::Bytes(a)), Some(Const::Bytes(_))) if a.len() >= MAX_TEXT => {
            Value::of(Const::Bytes(a.clone()))
        }
        (Some(Const::Bytes(a)), Some(Const::Bytes(b))) => Value::bytes(&[&**a, &**b].concat()),
        (Some(Const::List(a)), Some(Const::List(b))) => {
            Value::list(a.iter().chain(b.iter()).cloned().collect())
        }
        (Some(Const::Int(a)), Some(Const::Int(b))) => Value::int(a.saturating_add(*b)),
        (a, b) if matches!(a, Some(Const::Text(_))) || matches!(b, Some(Const::Text(_))) => {
            let mut text = left.text_or_hole();
            text.push_str(&right.text_or_hole());
            Value::text(&text).with_origin(Origin::COMPUTED)
        }
        _ => Value::default(),
    };
    value.chain = if left.chain.is_empty() { right.chain.clone() } else { left.chain.clone() };
    value.trail = left.trail.clone().or_else(|| right.trail.clone());
    value.with_origin(origin)
}

/// The beginning of a text, cut at a character boundary.
#[must_use]
pub fn cut(text: &str) -> &str {
    if text.len() <= MAX_TEXT {
        return text;
    }
    &text[..text.floor_char_boundary(MAX_TEXT)]
}
