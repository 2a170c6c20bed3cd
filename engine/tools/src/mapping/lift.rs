//! Answers: values to JSON text, driven by the types, without a tree in between.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wasmtime::component::Val;

use super::schema::STRANGE;
use super::shape::{Case, Handle, Int, Kind, Name, Shape};
use super::{Blobs, Signature};
use crate::{CallError, Limit, Limits};

/// An answer.
#[derive(Clone, Debug)]
pub struct Lifted {
    /// Whether the tool reports an error: the `err` of its `result`.
    pub is_error: bool,
    /// JSON object. The output schema describes it, unless it is an error.
    pub json: String,
}

/// Converts the results of a function to an answer.
///
/// # Errors
/// [`CallError::Limit`] for an answer that is too long or nests too deep; [`CallError::Host`] if the values
/// do not match the types, or a blob is not available.
pub fn lift(
    signature: &Signature,
    results: &[Val],
    limits: &Limits,
    blobs: &mut dyn Blobs,
) -> Result<Lifted, CallError> {
    if signature.prints() {
        // The answer is the output, which the caller has.
        let is_error = matches!(results, [Val::Result(Err(_))]);
        return Ok(Lifted { is_error, json: "{}".to_owned() });
    }
    let (is_error, shape, value) = match (&signature.err, results) {
        (None, []) => (false, signature.ok.as_ref(), None),
        (None, [value]) => (false, signature.ok.as_ref(), Some(value)),
        (Some(_), [Val::Result(Ok(value))]) => (false, signature.ok.as_ref(), value.as_deref()),
        (Some(err), [Val::Result(Err(value))]) => (true, err.as_ref(), value.as_deref()),
        _ => return Err(mismatch()),
    };
    let mut writer = Writer { out: Vec::new(), depth: 0, limits, blobs };
    let direct = !is_error && shape.is_none_or(|shape| matches!(shape.kind, Kind::Record(_)));
    match (shape, value) {
        (None, None) if is_error => writer.put(br#"{"error":null}"#)?,
        (None, None) => writer.put(b"{}")?,
        (Some(shape), Some(value)) if direct => writer.value(shape, value)?,
        (Some(shape), Some(value)) => {
            writer.enter(if is_error { br#"{"error":"# } else { br#"{"result":"# })?;
            writer.value(shape, value)?;
            writer.leave(b"}")?;
        }
        _ => return Err(mismatch()),
    }
    let json = String::from_utf8(writer.out).map_err(|error| host(&error.to_string()))?;
    Ok(Lifted { is_error, json })
}

fn is_one(name: &str, known: &[Name]) -> bool {
    known.iter().any(|known| known.name == name)
}

fn mismatch() -> CallError {
    host("the answer is not of its type")
}

fn host(message: &str) -> CallError {
    CallError::Host { message: message.to_owned() }
}

struct Writer<'a> {
    out: Vec<u8>,
    depth: u32,
    limits: &'a Limits,
    blobs: &'a mut dyn Blobs,
}

impl Writer<'_> {
    /// Checks that `more` bytes still fit.
    fn room(&self, more: usize) -> Result<(), CallError> {
        if (self.out.len() + more) as u64 > self.limits.result.0 {
            return Err(CallError::Limit { limit: Limit::Result, value: self.limits.result.to_string() });
        }
        Ok(())
    }

    fn put(&mut self, text: &[u8]) -> Result<(), CallError> {
        self.room(text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// Begins an array or an object.
    fn enter(&mut self, text: &[u8]) -> Result<(), CallError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(CallError::Limit { limit: Limit::Depth, value: self.limits.depth.to_string() });
        }
        self.put(text)
    }

    fn leave(&mut self, text: &[u8]) -> Result<(), CallError> {
        self.depth -= 1;
        self.put(text)
    }

    fn plain(&mut self, value: &impl serde::Serialize) -> Result<(), CallError> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| host(&error.to_string()))?;
        self.room(0)
    }

    fn text(&mut self, value: &str) -> Result<(), CallError> {
        self.room(value.len() + 2)?;
        // Reserves space for text with escapes at once: a buffer that doubles is moved again and again.
        self.out.reserve(value.len() + value.len() / 16 + 2);
        self.plain(&value)
    }

    fn wide(&mut self, value: i128) -> Result<(), CallError> {
        self.text(&value.to_string())
    }

    fn float<T: serde::Serialize + Into<f64> + Copy>(&mut self, value: T) -> Result<(), CallError> {
        let wide: f64 = value.into();
        let [nan, infinity, minus] = STRANGE;
        match wide {
            wide if wide.is_finite() => self.plain(&value),
            wide if wide.is_nan() => self.text(nan),
            wide => self.text(if wide > 0.0 { infinity } else { minus }),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        let length = base64::encoded_len(bytes.len(), true).unwrap_or(usize::MAX - 2);
        self.room(length.saturating_add(2))?;
        let start = self.out.len() + 1;
        self.out.push(b'"');
        self.out.resize(start + length, 0);
        STANDARD.encode_slice(bytes, &mut self.out[start..]).map_err(|error| host(&error.to_string()))?;
        self.put(b"\"")
    }

    fn array<'v>(&mut self, items: impl Iterator<Item = (&'v Shape, &'v Val)>) -> Result<(), CallError> {
        self.enter(b"[")?;
        for (index, (shape, value)) in items.enumerate() {
            if index > 0 {
                self.put(b",")?;
            }
            self.value(shape, value)?;
        }
        self.leave(b"]")
    }

    fn object<'v>(
        &mut self,
        entries: impl Iterator<Item = (&'v str, &'v Shape, &'v Val)>,
    ) -> Result<(), CallError> {
        self.enter(b"{")?;
        for (index, (key, shape, value)) in entries.enumerate() {
            if index > 0 {
                self.put(b",")?;
            }
            self.text(key)?;
            self.put(b":")?;
            self.value(shape, value)?;
        }
        self.leave(b"}")
    }

    /// Writes an object with one key, whose value may be missing.
    fn single(&mut self, key: &str, shape: Option<&Shape>, value: Option<&Val>) -> Result<(), CallError> {
        self.enter(b"{")?;
        self.text(key)?;
        self.put(b":")?;
        match (shape, value) {
            (Some(shape), Some(value)) => self.value(shape, value)?,
            (None, None) => self.put(b"null")?,
            _ => return Err(mismatch()),
        }
        self.leave(b"}")
    }

    fn value(&mut self, shape: &Shape, value: &Val) -> Result<(), CallError> {
        match (&shape.kind, value) {
            (Kind::Bool, Val::Bool(value)) => self.plain(value),
            (Kind::Int(Int::S8), Val::S8(value)) => self.plain(value),
            (Kind::Int(Int::U8), Val::U8(value)) => self.plain(value),
            (Kind::Int(Int::S16), Val::S16(value)) => self.plain(value),
            (Kind::Int(Int::U16), Val::U16(value)) => self.plain(value),
            (Kind::Int(Int::S32), Val::S32(value)) => self.plain(value),
            (Kind::Int(Int::U32), Val::U32(value)) => self.plain(value),
            (Kind::Int(Int::S64), Val::S64(value)) => self.wide((*value).into()),
            (Kind::Int(Int::U64), Val::U64(value)) => self.wide((*value).into()),
            (Kind::F32, Val::Float32(value)) => self.float(*value),
            (Kind::F64, Val::Float64(value)) => self.float(*value),
            (Kind::Char, Val::Char(value)) => self.text(value.encode_utf8(&mut [0; 4])),
            (Kind::String, Val::String(value)) => self.text(value),
            (Kind::Bytes, Val::List(items)) => {
                self.room(items.len())?;
                let byte = |item: &Val| if let Val::U8(byte) = item { Ok(*byte) } else { Err(mismatch()) };
                self.bytes(&items.iter().map(byte).collect::<Result<Vec<_>, _>>()?)
            }
            (Kind::Blob, value @ Val::Resource(_)) => {
                let bytes = self.blobs.take(value.clone()).map_err(|error| host(&error))?;
                self.bytes(&bytes)
            }
            (Kind::Handle(Handle { name, resource: Some(resource), .. }), value @ Val::Resource(_)) => {
                let text = self.blobs.name(value.clone(), name, *resource).map_err(|error| host(&error))?;
                self.text(&text)
            }
            (Kind::List(item), Val::List(items)) => self.array(items.iter().map(|value| (&**item, value))),
            (Kind::Fixed(item, length), Val::FixedLengthList(items)) if items.len() == *length => {
                self.array(items.iter().map(|value| (&**item, value)))
            }
            (Kind::Tuple(shapes), Val::Tuple(items)) if items.len() == shapes.len() => {
                self.array(shapes.iter().zip(items))
            }
            (Kind::Map(key, shape), Val::Map(entries)) if key.kind == Kind::String => {
                self.map(shape, entries)
            }
            (Kind::Map(key, shape), Val::Map(entries)) => {
                self.enter(b"[")?;
                for (index, (name, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        self.put(b",")?;
                    }
                    self.array([(&**key, name), (&**shape, value)].into_iter())?;
                }
                self.leave(b"]")
            }
            (Kind::Record(fields), Val::Record(values)) if fields.len() == values.len() => self.object(
                fields
                    .iter()
                    .zip(values)
                    .map(|(field, (_, value))| (field.name.as_str(), &field.shape, value)),
            ),
            (Kind::Variant(cases), Val::Variant(tag, value)) => {
                let case = cases.iter().find(|case| case.name == *tag).ok_or_else(mismatch)?;
                self.variant(case, value.as_deref())
            }
            (Kind::Enum(known), Val::Enum(name)) if is_one(name, known) => self.text(name),
            (Kind::Flags(known), Val::Flags(names)) if names.iter().all(|name| is_one(name, known)) => {
                let string = Shape::new(Kind::String);
                let names: Vec<_> = names.iter().cloned().map(Val::String).collect();
                self.array(names.iter().map(|name| (&string, name)))
            }
            (Kind::Option(_), Val::Option(None)) => self.put(b"null"),
            (Kind::Option(inner), Val::Option(Some(value))) if inner.is_option() => {
                self.single("some", Some(inner), Some(value))
            }
            (Kind::Option(inner), Val::Option(Some(value))) => self.value(inner, value),
            (Kind::Result(ok, _), Val::Result(Ok(value))) => {
                self.single("ok", ok.as_deref(), value.as_deref())
            }
            (Kind::Result(_, err), Val::Result(Err(value))) => {
                self.single("err", err.as_deref(), value.as_deref())
            }
            _ => Err(mismatch()),
        }
    }

    fn variant(&mut self, case: &Case, value: Option<&Val>) -> Result<(), CallError> {
        self.enter(br#"{"tag":"#)?;
        self.text(&case.name)?;
        match (&case.shape, value) {
            (Some(shape), Some(value)) => {
                self.put(br#","value":"#)?;
                self.value(shape, value)?;
            }
            (None, None) => {}
            _ => return Err(mismatch()),
        }
        self.leave(b"}")
    }

    /// If a guest gives a key twice, the last value counts, as in the component model.
    fn map(&mut self, shape: &Shape, entries: &[(Val, Val)]) -> Result<(), CallError> {
        let name = |key: &'_ Val| if let Val::String(_) = key { Ok(()) } else { Err(mismatch()) };
        entries.iter().try_for_each(|(key, _)| name(key))?;
        fn key(val: &Val) -> &str {
            if let Val::String(key) = val { key } else { "" }
        }
        let last: HashMap<_, _> =
            entries.iter().enumerate().map(|(index, (name, _))| (key(name), index)).collect();
        let kept = entries.iter().enumerate().filter(|(index, (name, _))| last.get(key(name)) == Some(index));
        self.object(kept.map(|(_, (name, value))| (key(name), shape, value)))
    }
}
