//! Duplicate keys in an object: the grammar allows them, but readers disagree on their meaning.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::de::{Deserializer, StrRead};

use crate::check::{MOST, Problem};

/// Parses JSON; returns the keys that are repeated in one object.
pub(crate) fn twice(text: &str) -> Result<Vec<Problem>, serde_json::Error> {
    let mut problems = Vec::new();
    let mut reader: Deserializer<StrRead<'_>> = Deserializer::from_str(text);
    serde::de::DeserializeSeed::deserialize(Walk { at: String::new(), into: &mut problems }, &mut reader)?;
    reader.end()?;
    Ok(problems)
}

struct Walk<'a> {
    at: String,
    into: &'a mut Vec<Problem>,
}

impl Walk<'_> {
    fn below(&mut self, name: &str) -> Walk<'_> {
        let name = name.replace('~', "~0").replace('/', "~1");
        Walk { at: format!("{}/{name}", self.at), into: self.into }
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items.next_element_seed(self.below(&index.to_string()))?.is_some() {
            index += 1;
        }
        Ok(())
    }
    fn visit_map<A: serde::de::MapAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = items.next_key::<String>()? {
            let below = self.below(&key);
            if seen.contains(&key) && below.into.len() <= MOST {
                let message = format!("the key '{key}' comes again in the same object");
                below.into.push(Problem { instance: below.at.clone(), schema: String::new(), message });
            }
            items.next_value_seed(below)?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_reported_with_path() {
        for (text, want) in [
            (r#"{"a":1,"b":[{"a":null},2.5,-1,true,"x"]}"#, &[][..]),
            (r#"{"a":1,"a":2,"a":3}"#, &["/a", "/a"]),
            (r#"[0,{"x":{"p/q~":1,"p/q~":1}}]"#, &["/1/x/p~1q~0"]),
        ] {
            let found: Vec<_> = twice(text).unwrap().into_iter().map(|p| p.instance).collect();
            assert_eq!(found, want, "{text}");
        }
        assert_eq!((twice("{\"a\":1\n}}").unwrap_err().line(), twice("[1").is_err()), (2, true));
        assert!(twice(&"[".repeat(100_000)).is_err());
    }
}
