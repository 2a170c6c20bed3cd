//! WIT and JSON, in both directions: mapping version 1.
//!
//! | WIT | JSON |
//! | --- | --- |
//! | `bool`, `string`, `char` | boolean; string; string of one code point |
//! | `u8` … `s32` | integer within its range |
//! | `u64`, `s64` | integer; beyond 2^53 a decimal string, which is accepted for smaller ones too, and no number |
//! | `f32`, `f64` | number, or one of the strings `NaN`, `Infinity`, `-Infinity` |
//! | `list<u8>`, `own<hotcell:tool/blob.blob>` | base64 string |
//! | `list<T>`, `list<T, N>`, `tuple<…>` | array |
//! | `map<string, T>`; other keys | object; array of `[key, value]` |
//! | `record` | object; a field of an `option` type may be missing |
//! | `option<T>`; `option<option<T>>` | the value or null; null or `{"some": …}` |
//! | `enum`, `flags` | string; array of different strings |
//! | `variant` | `{"tag": "case", "value": …}`, without `value` when the case has none |
//! | `result<T, E>` | `{"ok": …}` or `{"err": …}`, null where there is no payload |
//!
//! Arguments are one object with a property for each parameter. An answer is an object too: a record is that object, anything else
//! is its property `result`, and no value is `{}`. Of a function that returns a `result`, `ok` is the answer and `err` is
//! `{"error": …}`. Other resources, streams, futures and error contexts have no form in JSON, so such a function is no tool.

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
pub(crate) use shape::{Docs, Reader, Shape, TypeDoc};

/// The parameters and the answer of one function, in a form that values are turned by.
#[derive(Clone, Debug)]
pub struct Signature {
    params: Vec<shape::Field>,
    /// What a successful answer holds, if anything.
    ok: Option<Shape>,
    /// Of a function that returns a `result`: what an error holds, if anything.
    err: Option<Option<Shape>>,
}

/// Where the bytes of an `own<blob>` are kept, which is the instance's table of resources.
pub trait Blobs {
    /// Puts bytes there, and answers with the handle for the guest.
    ///
    /// # Errors
    /// What went wrong: the table is full.
    fn give(&mut self, bytes: Vec<u8>) -> Result<Val, String>;
    /// Takes the bytes that a guest handed over.
    ///
    /// # Errors
    /// What went wrong: the handle is no blob of this instance.
    fn take(&mut self, val: Val) -> Result<Vec<u8>, String>;
}

impl Signature {
    /// Reads the types of a function that has no blob in them.
    ///
    /// # Errors
    /// A sentence that names the parameter and the type that no tool can have.
    pub fn of(func: &ComponentFunc) -> Result<Self, String> {
        Self::with_blob(func, None)
    }

    /// As [`Signature::of`], where `own` of this resource is a base64 string. [`crate::describe::blob_of`] finds it.
    ///
    /// # Errors
    /// The same.
    pub fn with_blob(func: &ComponentFunc, blob: Option<&ResourceType>) -> Result<Self, String> {
        Self::documented(func, blob, Docs::default())
    }

    pub(crate) fn documented(
        func: &ComponentFunc,
        blob: Option<&ResourceType>,
        docs: Docs<'_>,
    ) -> Result<Self, String> {
        let mut reader = shape::Reader::new(blob, docs);
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
        Ok(Self { params, ok, err })
    }

    /// Takes the lines that speak of one parameter (`` `name`: what it is ``, as WIT has no place for them) out of a function's
    /// documentation, and puts them to the parameters. Answers with what is left.
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

    /// JSON Schema (draft 2020-12, without references) of the arguments.
    #[must_use]
    pub fn input_schema(&self) -> serde_json::Value {
        schema::object(&self.params)
    }

    /// JSON Schema of the answer, when it is no error.
    #[must_use]
    pub fn output_schema(&self) -> serde_json::Value {
        schema::answer(self.ok.as_ref())
    }
}
