//! WIT and JSON, in both directions: mapping version 1.
//!
//! | WIT | JSON |
//! | --- | --- |
//! | `bool`, `string`, `char` | boolean; string; string of one code point |
//! | `u8` … `s32` | integer within its range |
//! | `u64`, `s64` | string of decimal digits; as an argument an integer up to 2^53 - 1 too |
//! | `f32`, `f64` | number, or one of the strings `NaN`, `Infinity`, `-Infinity` |
//! | `list<u8>`, `own<hotcell:tool/blob.blob>` | base64 string |
//! | `list<T>`, `list<T, N>`, `tuple<…>` | array |
//! | `map<string, T>`; other keys | object; array of `[key, value]` |
//! | `record` | object; a field of an `option` type may be missing |
//! | `option<T>`; `option<option<T>>` | the value or null; null or `{"some": …}` |
//! | `enum`, `flags` | string; array of different strings |
//! | `variant` | `{"tag": "case", "value": …}`, without `value` for a case without one (see below) |
//! | `result<T, E>` | `{"ok": …}` or `{"err": …}`, null where there is no payload |
//! | `own<R>`, `borrow<R>` of a resource that the component exports | string: a handle of this instance |
//!
//! As an argument, a variant's case without a value may also have the value null, or be the case name alone
//! as a string.
//!
//! Arguments are one object with a property for each parameter. An answer is an object too: a record is that
//! object, any other value is its property `result`, and a function without a result gives `{}`. If a
//! function returns a `result`, `ok` is the answer and `err` is `{"error": …}`. Other resources, streams,
//! futures and error contexts have no form in JSON, so a function with one cannot be a tool.

pub mod bytes;
pub mod lift;
pub mod lower;
pub mod names;
pub mod schema;
mod shape;
pub mod text;
mod words;

use wasmtime::component::Val;
use wasmtime::component::types::{ComponentFunc, ResourceType};

pub use lift::{Lifted, lift};
pub use lower::lower;
pub(crate) use shape::{Docs, Reader, Resources, Shape, TypeDoc};

/// Name of the parameter that is a method's own handle.
const HANDLE: &str = "handle";

/// Parameters and result of one function, in a form that drives the conversions.
#[derive(Clone, Debug)]
pub struct Signature {
    params: Vec<shape::Field>,
    /// Type of a successful answer, if it has a value.
    ok: Option<Shape>,
    /// For a function that returns a `result`: the type of an error, if it has a value.
    err: Option<Option<Shape>>,
    /// Whether the output is the answer.
    prints: bool,
}

/// Store for the bytes of `own<blob>`, and for the handles of the component's own resources: the instance's
/// tables.
pub trait Blobs {
    /// Stores bytes, and returns the handle for the guest.
    ///
    /// # Errors
    /// A sentence when the table is full.
    fn give(&mut self, bytes: Vec<u8>) -> Result<Val, String>;
    /// Takes the bytes of a handle that a guest passed.
    ///
    /// # Errors
    /// A sentence when the handle is not a blob of this instance.
    fn take(&mut self, val: Val) -> Result<Vec<u8>, String>;
    /// Resolves a handle: lends what it stands for, or takes it out (`own`). `resource` is the number of the
    /// expected resource, `None` for any. Without an override there are no handles.
    ///
    /// # Errors
    /// A sentence when it is not a handle of this instance, one of another resource, or used twice in one call.
    fn resolve(&mut self, handle: &str, resource: Option<usize>, own: bool) -> Result<Val, String> {
        let _ = (handle, resource, own);
        Err(NO_HANDLE.to_owned())
    }
    /// Names a resource that a guest returned. `resource` is the number of its type, whose name begins the
    /// handle. Without an override there are no handles.
    ///
    /// # Errors
    /// A sentence when there are too many, or the kernel gives no random numbers.
    fn name(&mut self, val: Val, name: &str, resource: usize) -> Result<String, String> {
        let _ = (val, name, resource);
        Err(NO_HANDLE.to_owned())
    }
}

/// Refusal of a handle. It does not tell whether there ever was one: not all handles are this caller's.
pub(crate) const NO_HANDLE: &str = "there is no such handle: none was given to this caller, or it was used up, dropped, or left idle for too long, or its instance has ended";

impl Signature {
    /// Reads the types of a function without blobs.
    ///
    /// # Errors
    /// A sentence that names the parameter and the type that a tool cannot have.
    pub fn of(func: &ComponentFunc) -> Result<Self, String> {
        Self::with_blob(func, None)
    }

    /// Like [`Signature::of`], but `own` of this resource is a base64 string. [`crate::component::describe::blob_of`]
    /// finds the resource.
    ///
    /// # Errors
    /// As [`Signature::of`].
    pub fn with_blob(func: &ComponentFunc, blob: Option<&ResourceType>) -> Result<Self, String> {
        Self::documented(func, Resources { blob, own: &[] }, Docs::default())
    }

    pub(crate) fn documented(
        func: &ComponentFunc,
        resources: Resources<'_>,
        docs: Docs<'_>,
    ) -> Result<Self, String> {
        let mut reader = shape::Reader::new(resources, docs);
        let mut params = Vec::new();
        for (name, ty) in func.params() {
            params.push(reader.field(name, &ty).map_err(|error| format!("parameter '{name}': {error}"))?);
        }
        let mut results = func.results();
        let result = results.next();
        if results.next().is_some() {
            return Err("it returns more than one value".into());
        }
        let result =
            result.map(|ty| reader.shape(&ty)).transpose().map_err(|error| format!("its result: {error}"))?;
        let (ok, err) = match result {
            Some(Shape { kind: shape::Kind::Result(ok, err), .. }) => {
                (ok.map(|ok| *ok), Some(err.map(|err| *err)))
            }
            other => (other, None),
        };
        Ok(Self { params, ok, err, prints: false })
    }

    /// Moves the lines about single parameters (`` `name`: description ``, as WIT has no place for them) from
    /// a function's documentation to the parameters. Returns the remaining text.
    pub(crate) fn document(&mut self, text: &str) -> String {
        let mut left: Vec<&str> = Vec::new();
        for line in text.lines() {
            let spoken = line
                .trim_start_matches(['-', '*', ' '])
                .strip_prefix('`')
                .and_then(|line| line.split_once("`:"));
            let param = spoken.and_then(|(name, doc)| {
                Some((self.params.iter_mut().find(|param| param.name == name)?, doc))
            });
            match param {
                Some((param, doc)) if param.doc.is_empty() => doc.trim().clone_into(&mut param.doc),
                _ => left.push(line),
            }
        }
        left.join("\n").trim().to_owned()
    }

    /// Signature of the function that frees what a handle stands for.
    #[must_use]
    pub(crate) fn of_drop() -> Self {
        let any = shape::Handle { name: String::new(), resource: None, own: true };
        let handle = shape::Field {
            name: HANDLE.to_owned(),
            doc: String::new(),
            shape: Shape::new(shape::Kind::Handle(any)),
        };
        Self { params: vec![handle], ok: None, err: None, prints: false }
    }

    /// Renames a method's first parameter, which is always `self`: in some clients' languages that is taken.
    pub(crate) fn of_a_method(mut self) -> Self {
        let taken = self.params.iter().skip(1).any(|param| param.name == HANDLE);
        if let Some(first) = self.params.first_mut() {
            first.name = if taken { format!("this-{HANDLE}") } else { HANDLE.to_owned() };
        }
        self
    }

    /// Whether an argument may be a handle, and whether the answer may have one.
    pub(crate) fn handles(&self) -> (bool, bool) {
        let answers = [self.ok.as_ref(), self.err.as_ref().and_then(Option::as_ref)];
        (
            self.params.iter().any(|param| param.shape.has_handle()),
            answers.into_iter().flatten().any(Shape::has_handle),
        )
    }

    /// Turns this into the signature of a command (`wasi:cli/run`), whose answer is its output, a text.
    #[must_use]
    pub(crate) fn of_a_command(mut self) -> Self {
        self.ok = Some(Shape::new(shape::Kind::String));
        self.prints = true;
        self
    }

    /// Whether the output is the answer.
    pub(crate) fn prints(&self) -> bool {
        self.prints
    }

    /// JSON Schema (draft 2020-12, without references) of the arguments.
    #[must_use]
    pub fn input_schema(&self) -> serde_json::Value {
        schema::object(&self.params)
    }

    /// JSON Schema of an answer that is not an error.
    #[must_use]
    pub fn output_schema(&self) -> serde_json::Value {
        schema::answer(self.ok.as_ref())
    }
}
