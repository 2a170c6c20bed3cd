//! Types with parts: records, tuples, variants, and objects of one key.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use wasmtime::component::Val;

use super::super::shape::{Case, Field, Shape};
use super::super::words::{expected, found, unknown, with_value};
use super::{Part, Reader, Seed};

/// Reads the next value of an array.
pub(super) fn element<'de, A: SeqAccess<'de>>(
    shape: &Shape,
    reader: &mut Reader<'_>,
    index: usize,
    from: &mut A,
) -> Result<Option<Val>, A::Error> {
    reader.at.push(Part::Index(index));
    let value = from.next_element_seed(Seed { shape, reader })?;
    reader.at.pop();
    Ok(value)
}

/// Reads the value of a key.
pub(super) fn property<'de, A: MapAccess<'de>>(
    shape: &Shape,
    reader: &mut Reader<'_>,
    key: &str,
    from: &mut A,
) -> Result<Val, A::Error> {
    reader.at.push(Part::Key(key.to_owned()));
    let value = from.next_value_seed(Seed { shape, reader })?;
    reader.at.pop();
    Ok(value)
}

/// Reads the value of a key, which must be a string.
fn property_text<'de, A: MapAccess<'de>>(
    reader: &mut Reader<'_>,
    key: &str,
    from: &mut A,
) -> Result<String, A::Error> {
    let raw: &RawValue = from.next_value()?;
    serde_json::from_str(raw.get())
        .map_err(|_| reader.fail_at(key, &format!("expected a string, found {}", found(raw.get()))))
}

/// Reads the next value of an array, which must be a string.
pub(super) fn element_text<'de, A: SeqAccess<'de>>(
    reader: &mut Reader<'_>,
    index: usize,
    from: &mut A,
) -> Result<Option<String>, A::Error> {
    let Some(raw) = from.next_element::<&RawValue>()? else { return Ok(None) };
    serde_json::from_str(raw.get()).map(Some).map_err(|_| {
        reader.at.push(Part::Index(index));
        reader.fail(&format!("expected a string, found {}", found(raw.get())))
    })
}

pub(super) fn tuple<'a, 'de, A: SeqAccess<'de>>(
    items: impl ExactSizeIterator<Item = &'a Shape>,
    whole: &Shape,
    reader: &mut Reader<'_>,
    from: &mut A,
) -> Result<Vec<Val>, A::Error> {
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.enumerate() {
        match element(item, reader, index, from)? {
            Some(value) => values.push(value),
            None => return Err(reader.wrong(whole, &format!("an array of {index}"))),
        }
    }
    if from.next_element::<&RawValue>()?.is_some() {
        return Err(reader.wrong(whole, "more"));
    }
    Ok(values)
}

/// Reads the object of a record, or of all parameters. Values are returned in the order of the fields,
/// whatever the order of the keys.
pub(super) fn record<'de, A: MapAccess<'de>>(
    fields: &[Field],
    what: &str,
    reader: &mut Reader<'_>,
    mut from: A,
) -> Result<Vec<(String, Val)>, A::Error> {
    reader.enter()?;
    let mut values: Vec<Option<Val>> = vec![None; fields.len()];
    while let Some(key) = from.next_key::<String>()? {
        let Some(index) = fields.iter().position(|field| field.name == key) else {
            let message = unknown(what, &key, fields.iter().map(|field| field.name.as_str()));
            return Err(reader.fail_at(&key, &message));
        };
        if values[index].is_some() {
            return Err(reader.fail_at(&key, "this key is given twice"));
        }
        values[index] = Some(property(&fields[index].shape, reader, &key, &mut from)?);
    }
    let mut all = Vec::with_capacity(fields.len());
    for (field, value) in fields.iter().zip(values) {
        let value = match value {
            Some(value) => value,
            None if field.shape.is_option() => Val::Option(None),
            None => {
                return Err(
                    reader.fail_at(&field.name, &format!("missing; expected {}", expected(&field.shape)))
                );
            }
        };
        all.push((field.name.clone(), value));
    }
    reader.depth -= 1;
    Ok(all)
}

/// Reads an object with exactly one key, which must be one of these.
pub(super) fn single<'de, A: MapAccess<'de>, T>(
    keys: &[&'static str],
    reader: &mut Reader<'_>,
    from: &mut A,
    read: impl FnOnce(&'static str, &mut Reader<'_>, &mut A) -> Result<T, A::Error>,
) -> Result<(&'static str, T), A::Error> {
    let expected = format!("expected an object with one key: {}", keys.join(" or "));
    let Some(given) = from.next_key::<String>()? else { return Err(reader.fail(&expected)) };
    let Some(key) = keys.iter().find(|key| **key == given) else {
        return Err(reader.fail_at(&given, &unknown("key", &given, keys.iter().copied())));
    };
    let value = read(key, reader, from)?;
    match from.next_key::<String>()? {
        Some(other) => Err(reader.fail_at(&other, &expected)),
        None => Ok((key, value)),
    }
}

/// Reads `{"tag": …, "value": …}`, in either order.
pub(super) fn variant<'de, A: MapAccess<'de>>(
    cases: &[Case],
    reader: &mut Reader<'_>,
    mut from: A,
) -> Result<Val, A::Error> {
    let mut case: Option<&Case> = None;
    let mut early: Option<&'de RawValue> = None;
    let mut value: Option<Val> = None;
    while let Some(key) = from.next_key::<String>()? {
        match key.as_str() {
            "tag" if case.is_none() => {
                let tag = property_text(reader, "tag", &mut from)?;
                case = cases.iter().find(|case| case.name == tag);
                if case.is_none() {
                    let names = cases.iter().map(|case| case.name.as_str());
                    return Err(reader.fail_at("tag", &unknown("case", &tag, names)));
                }
            }
            "value" if value.is_none() && early.is_none() => match case {
                None => early = Some(from.next_value()?),
                Some(Case { shape: Some(shape), .. }) => {
                    value = Some(property(shape, reader, "value", &mut from)?);
                }
                Some(Case { name, .. }) => {
                    // Models write null for a missing value.
                    if from.next_value::<&RawValue>()?.get() != "null" {
                        return Err(reader.fail_at("value", &format!("the case '{name}' has no value")));
                    }
                }
            },
            "tag" | "value" => return Err(reader.fail_at(&key, "this key is given twice")),
            _ if cases.iter().any(|case| case.name == key) => {
                return Err(reader.fail_at(&key, &with_value(&key)));
            }
            _ => return Err(reader.fail_at(&key, &unknown("key", &key, ["tag", "value"].into_iter()))),
        }
    }
    let Some(case) = case else { return Err(reader.fail_at("tag", "missing; expected the name of a case")) };
    let value = match (&case.shape, early, value) {
        (Some(shape), Some(raw), _) => {
            reader.at.push(Part::Key("value".into()));
            let mut json = serde_json::Deserializer::from_str(raw.get());
            let value = Seed { shape, reader }.deserialize(&mut json).map_err(|error| {
                let fault = reader.error(&error);
                reader.fault.get_or_insert(fault);
                A::Error::custom("refused")
            })?;
            reader.at.pop();
            Some(value)
        }
        (Some(_), None, Some(value)) => Some(value),
        (Some(shape), None, None) if shape.is_option() => Some(Val::Option(None)),
        (Some(shape), None, None) => {
            return Err(reader.fail_at("value", &format!("missing; expected {}", expected(shape))));
        }
        (None, Some(raw), _) if raw.get() != "null" => {
            return Err(reader.fail_at("value", &format!("the case '{}' has no value", case.name)));
        }
        (None, ..) => None,
    };
    Ok(Val::Variant(case.name.clone(), value.map(Box::new)))
}

/// Reads one `[key, value]`.
pub(super) struct Pair<'a, 'b> {
    pub key: &'a Shape,
    pub value: &'a Shape,
    pub shape: &'a Shape,
    pub reader: &'a mut Reader<'b>,
}

impl<'de> DeserializeSeed<'de> for Pair<'_, '_> {
    type Value = (Val, Val);

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Pair<'_, '_> {
    type Value = (Val, Val);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key, value]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        self.reader.enter()?;
        let mut values =
            tuple([self.key, self.value].into_iter(), self.shape, self.reader, &mut from)?.into_iter();
        self.reader.depth -= 1;
        match (values.next(), values.next()) {
            (Some(key), Some(value)) => Ok((key, value)),
            _ => Err(self.reader.wrong(self.shape, "less")),
        }
    }
}
