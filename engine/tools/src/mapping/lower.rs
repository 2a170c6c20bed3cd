//! Arguments: JSON text to values, driven by the types, without a tree in between.
//!
//! The reader walks types and text together. It keeps its position as a JSON pointer, so that an error names
//! the field.

mod parts;

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use wasmtime::component::Val;

use self::parts::{Pair, element, element_text, property, record, single, tuple, variant};
use super::bytes::decode;
use super::shape::{Field, Handle, Int, Kind, Shape};
use super::text::cut;
use super::words::{expected, found, unknown, with_value};
use super::{Blobs, Signature};
use crate::{CallError, Limit, Limits};

/// Converts a call's arguments, one JSON object, to the values of its parameters.
///
/// # Errors
/// [`CallError::Arguments`] with the position of the first fault; [`CallError::Limit`] for arguments that are
/// too long or nest too deep.
pub fn lower(
    signature: &Signature,
    arguments: &str,
    limits: &Limits,
    blobs: &mut dyn Blobs,
) -> Result<Vec<Val>, CallError> {
    if arguments.len() as u64 > limits.arguments.0 {
        return Err(CallError::Limit { limit: Limit::Arguments, value: limits.arguments.to_string() });
    }
    let mut reader = Reader { at: Vec::new(), depth: 0, limit: limits.depth, fault: None, blobs };
    let mut json = serde_json::Deserializer::from_str(arguments);
    let seed = Parameters { fields: &signature.params, reader: &mut reader };
    match seed.deserialize(&mut json).and_then(|values| json.end().map(|()| values)) {
        Ok(values) => Ok(values.into_iter().map(|(_, value)| value).collect()),
        Err(error) => Err(reader.fault.take().unwrap_or_else(|| reader.error(&error))),
    }
}

/// One step of the position.
enum Part {
    Index(usize),
    Key(String),
}

/// Position of the reader, and the first error.
struct Reader<'a> {
    at: Vec<Part>,
    depth: u32,
    limit: u32,
    fault: Option<CallError>,
    blobs: &'a mut dyn Blobs,
}

impl Reader<'_> {
    /// The error for text that the parser itself rejects: invalid JSON, or something other than an object
    /// where one is required.
    fn error(&self, error: &serde_json::Error) -> CallError {
        let text = error.to_string();
        let message = match (error.classify(), text.split_once(" at line ")) {
            (Category::Data, Some((message, _))) => message.to_owned(),
            _ => format!("this is not JSON: {text}"),
        };
        CallError::Arguments { at: pointer(&self.at), message: cut(&message, 300) }
    }

    fn fail<E: serde::de::Error>(&mut self, message: &str) -> E {
        let at = pointer(&self.at);
        self.fault.get_or_insert(CallError::Arguments { at, message: cut(message, 300) });
        E::custom("refused")
    }

    /// The error for a field below the reader's position.
    fn fail_at<E: serde::de::Error>(&mut self, field: &str, message: &str) -> E {
        self.at.push(Part::Key(field.to_owned()));
        self.fail(message)
    }

    fn wrong<E: serde::de::Error>(&mut self, shape: &Shape, found: &str) -> E {
        self.fail(&format!("expected {}, found {found}", expected(shape)))
    }

    /// Steps into an array or an object.
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth > self.limit {
            self.fault.get_or_insert(CallError::Limit { limit: Limit::Depth, value: self.limit.to_string() });
            return Err(E::custom("too deep"));
        }
        Ok(())
    }

    fn give<E: serde::de::Error>(&mut self, kind: &Kind, text: &str) -> Result<Val, E> {
        let bytes = decode(text).map_err(|why| self.fail(&format!("expected base64, and {why}")))?;
        match kind {
            Kind::Blob => self.blobs.give(bytes).map_err(|error| self.fail(&error)),
            _ => Ok(Val::List(bytes.into_iter().map(Val::U8).collect())),
        }
    }
}

/// A JSON pointer (RFC 6901).
fn pointer(at: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Index(index) => index.to_string(),
        Part::Key(key) => cut(key, 100).replace('~', "~0").replace('/', "~1"),
    };
    at.iter().map(|part| format!("/{}", text(part))).collect()
}

/// A value of one type.
struct Seed<'a, 'b> {
    shape: &'a Shape,
    reader: &'a mut Reader<'b>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Val;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Val, D::Error> {
        match &self.shape.kind {
            // Numbers with a fraction are read from the text: the parser's own conversion is not exact, and
            // does not support `f32`.
            Kind::F32 | Kind::F64 => {
                let raw = <&RawValue>::deserialize(from)?;
                float(&self.shape.kind, raw.get()).ok_or_else(|| {
                    let is_number = raw.get().parse::<f64>().is_ok();
                    let beyond = if is_number { ", which is beyond its range" } else { "" };
                    self.reader.wrong(self.shape, &format!("{}{beyond}", found(raw.get())))
                })
            }
            Kind::Option(_) => from.deserialize_option(self),
            _ => from.deserialize_any(self),
        }
    }
}

fn float(kind: &Kind, raw: &str) -> Option<Val> {
    let strange = match raw {
        "\"NaN\"" => Some(f64::NAN),
        "\"Infinity\"" => Some(f64::INFINITY),
        "\"-Infinity\"" => Some(f64::NEG_INFINITY),
        _ => None,
    };
    match (kind, strange) {
        (Kind::F64, Some(value)) => Some(Val::Float64(value)),
        (Kind::F64, None) => raw.parse().ok().filter(|value: &f64| value.is_finite()).map(Val::Float64),
        // These three values lose nothing in the conversion.
        #[allow(clippy::cast_possible_truncation)]
        (_, Some(value)) => Some(Val::Float32(value as f32)),
        (_, None) => raw.parse().ok().filter(|value: &f32| value.is_finite()).map(Val::Float32),
    }
}

fn integer(int: Int, value: i128) -> Option<Val> {
    Some(match int {
        Int::S8 => Val::S8(value.try_into().ok()?),
        Int::U8 => Val::U8(value.try_into().ok()?),
        Int::S16 => Val::S16(value.try_into().ok()?),
        Int::U16 => Val::U16(value.try_into().ok()?),
        Int::S32 => Val::S32(value.try_into().ok()?),
        Int::U32 => Val::U32(value.try_into().ok()?),
        Int::S64 => Val::S64(value.try_into().ok()?),
        Int::U64 => Val::U64(value.try_into().ok()?),
    })
}

impl Seed<'_, '_> {
    fn number<E: serde::de::Error>(self, value: i128) -> Result<Val, E> {
        let val = match self.shape.kind {
            // As the schema says: a sender that holds numbers as doubles may have changed the number.
            Kind::Int(int) if int.wide() && value.abs() > super::schema::MAX_SAFE_INTEGER => {
                let told = format!("the number {value}, which has to be a string beyond 2^53 - 1");
                return Err(self.reader.wrong(self.shape, &told));
            }
            Kind::Int(int) => integer(int, value),
            _ => None,
        };
        val.ok_or_else(|| self.reader.wrong(self.shape, &value.to_string()))
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&expected(self.shape))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Val, E> {
        match self.shape.kind {
            Kind::Bool => Ok(Val::Bool(value)),
            _ => Err(self.reader.wrong(self.shape, if value { "true" } else { "false" })),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Val, E> {
        self.number(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Val, E> {
        self.number(value.into())
    }

    // `1.0` and `1e3` are integers in JSON Schema. Beyond 2^53 the double may differ from the number in the
    // text.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Val, E> {
        #[allow(clippy::cast_possible_truncation)]
        if value.fract() == 0.0 && value.abs() <= super::schema::MAX_SAFE_INTEGER as f64 {
            return self.number(value as i128);
        }
        Err(self.reader.wrong(self.shape, &value.to_string()))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Val, E> {
        let Self { shape, reader } = self;
        match &shape.kind {
            Kind::String => Ok(Val::String(value.to_owned())),
            Kind::Char => {
                let mut chars = value.chars();
                match (chars.next(), chars.next()) {
                    (Some(only), None) => Ok(Val::Char(only)),
                    _ => Err(reader.wrong(shape, &format!("{} characters", value.chars().count()))),
                }
            }
            kind @ (Kind::Bytes | Kind::Blob) => reader.give(kind, value),
            Kind::Handle(Handle { resource, own, .. }) => {
                reader.blobs.resolve(value, *resource, *own).map_err(|why| reader.fail(&why))
            }
            Kind::Enum(names) if names.iter().any(|name| name.name == value) => {
                Ok(Val::Enum(value.to_owned()))
            }
            // Models write a case without a value like a case of an enum.
            Kind::Variant(cases) if cases.iter().any(|case| case.name == value && case.shape.is_none()) => {
                Ok(Val::Variant(value.to_owned(), None))
            }
            Kind::Variant(cases) => Err(reader.fail(&match cases.iter().any(|case| case.name == value) {
                true => with_value(value),
                false => unknown("case", value, cases.iter().map(|case| case.name.as_str())),
            })),
            Kind::Enum(names) => {
                Err(reader.fail(&unknown("value", value, names.iter().map(|name| name.name.as_str()))))
            }
            Kind::Int(int) if int.wide() => {
                let digits = value.strip_prefix('-').unwrap_or(value);
                let plain = !digits.is_empty()
                    && digits.len() <= 20
                    && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number = if plain { value.parse().ok() } else { None };
                let val = number.and_then(|number| integer(*int, number));
                val.ok_or_else(|| reader.wrong(shape, &format!("\"{}\"", cut(value, 40))))
            }
            _ => Err(reader.wrong(shape, &format!("the string \"{}\"", cut(value, 40)))),
        }
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Val, E> {
        match self.shape.kind {
            Kind::Option(_) => Ok(Val::Option(None)),
            _ => Err(self.reader.wrong(self.shape, "null")),
        }
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Val, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Val, D::Error> {
        let Kind::Option(inner) = &self.shape.kind else {
            return Err(self.reader.wrong(self.shape, "a value"));
        };
        if inner.is_option() {
            return from.deserialize_any(self);
        }
        let value = Seed { shape: inner, reader: self.reader }.deserialize(from)?;
        Ok(Val::Option(Some(Box::new(value))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Val, A::Error> {
        let Self { shape, reader } = self;
        reader.enter()?;
        let value = match &shape.kind {
            Kind::List(item) => {
                let mut values = Vec::new();
                while let Some(value) = element(item, reader, values.len(), &mut from)? {
                    values.push(value);
                }
                Val::List(values)
            }
            Kind::Fixed(item, length) => {
                let mut values = Vec::new();
                while let Some(value) = element(item, reader, values.len(), &mut from)? {
                    values.push(value);
                    if values.len() > *length {
                        return Err(reader.wrong(shape, "more"));
                    }
                }
                if values.len() < *length {
                    return Err(reader.wrong(shape, &format!("an array of {}", values.len())));
                }
                Val::FixedLengthList(values)
            }
            Kind::Tuple(items) => Val::Tuple(tuple(items.iter(), shape, reader, &mut from)?),
            Kind::Map(key, value) if key.kind != Kind::String => {
                let mut entries = Vec::new();
                loop {
                    reader.at.push(Part::Index(entries.len()));
                    let Some(entry) = from.next_element_seed(Pair { key, value, shape, reader })? else {
                        break;
                    };
                    reader.at.pop();
                    entries.push(entry);
                }
                reader.at.pop();
                Val::Map(entries)
            }
            Kind::Flags(names) => {
                let mut set = vec![false; names.len()];
                let mut count = 0;
                while let Some(given) = element_text(reader, count, &mut from)? {
                    let fault = match names.iter().position(|name| name.name == given) {
                        Some(index) if !set[index] => {
                            set[index] = true;
                            count += 1;
                            continue;
                        }
                        Some(_) => format!("'{given}' is given twice"),
                        None => unknown("flag", &given, names.iter().map(|name| name.name.as_str())),
                    };
                    reader.at.push(Part::Index(count));
                    return Err(reader.fail(&fault));
                }
                let set = names.iter().zip(set).filter(|(_, set)| *set);
                Val::Flags(set.map(|(name, _)| name.name.clone()).collect())
            }
            _ => return Err(reader.wrong(shape, "an array")),
        };
        reader.depth -= 1;
        Ok(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Val, A::Error> {
        let Self { shape, reader } = self;
        let value = match &shape.kind {
            Kind::Record(fields) => return Ok(Val::Record(record(fields, "key", reader, from)?)),
            Kind::Map(key, value) if key.kind == Kind::String => {
                reader.enter()?;
                let mut seen = HashSet::new();
                let mut entries = Vec::new();
                while let Some(key) = from.next_key::<String>()? {
                    if seen.contains(&key) {
                        return Err(reader.fail_at(&key, "this key is given twice"));
                    }
                    let value = property(value, reader, &key, &mut from)?;
                    seen.insert(key.clone());
                    entries.push((Val::String(key), value));
                }
                Val::Map(entries)
            }
            Kind::Variant(cases) => {
                reader.enter()?;
                variant(cases, reader, from)?
            }
            Kind::Result(ok, err) => {
                reader.enter()?;
                let (key, value) = single(&["ok", "err"], reader, &mut from, |key, reader, from| {
                    let payload = if key == "ok" { ok } else { err };
                    match payload {
                        Some(shape) => property(shape, reader, key, from).map(|value| Some(Box::new(value))),
                        None => {
                            reader.at.push(Part::Key(key.to_owned()));
                            if from.next_value::<&RawValue>()?.get() != "null" {
                                return Err(reader.fail("expected null"));
                            }
                            reader.at.pop();
                            Ok(None)
                        }
                    }
                })?;
                Val::Result(if key == "ok" { Ok(value) } else { Err(value) })
            }
            Kind::Option(inner) if inner.is_option() => {
                reader.enter()?;
                let (_, value) = single(&["some"], reader, &mut from, |key, reader, from| {
                    property(inner, reader, key, from)
                })?;
                Val::Option(Some(Box::new(value)))
            }
            _ => return Err(reader.wrong(shape, "an object")),
        };
        reader.depth -= 1;
        Ok(value)
    }
}

/// All parameters.
struct Parameters<'a, 'b> {
    fields: &'a [Field],
    reader: &'a mut Reader<'b>,
}

impl<'de> DeserializeSeed<'de> for Parameters<'_, '_> {
    type Value = Vec<(String, Val)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Parameters<'_, '_> {
    type Value = Vec<(String, Val)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<Self::Value, A::Error> {
        record(self.fields, "argument", self.reader, from)
    }
}
