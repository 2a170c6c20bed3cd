//! JSON whose objects have each key once: of a key that stands twice, one reader takes the first and another one the last. Pure.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Checks that no object of a JSON text has a key twice, however its letters are escaped.
///
/// # Errors
/// A sentence that names the first such key, or why the text is not JSON.
pub fn check(json: &[u8]) -> Result<(), String> {
    read(json, &Cell::new(None))
}

/// The first key that stands twice in an object of a text. A text that is not JSON is read up to its mistake.
#[must_use]
pub fn twice(json: &[u8]) -> Option<String> {
    let twice = Cell::new(None);
    let _ = read(json, &twice);
    twice.into_inner()
}

fn read(json: &[u8], twice: &Cell<Option<String>>) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Unique { twice }.deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| error.to_string())
}

/// Reads any value.
#[derive(Clone, Copy)]
struct Unique<'a> {
    twice: &'a Cell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Unique<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !keys.insert(key.clone()) {
                let why = format!("the key {key:?} stands twice in an object");
                self.twice.set(Some(key));
                return Err(A::Error::custom(why));
            }
            map.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_that_stand_twice_are_named() {
        for good in [
            r#"{"a":1,"b":{"a":[{"a":null},{"a":-1.5e3}]}}"#,
            "[]",
            "1",
            r#""a""#,
            "{}",
            "[true,18446744073709551615]",
        ] {
            assert_eq!(check(good.as_bytes()), Ok(()), "{good}");
        }
        for (bad, key) in [
            (r#"{"result":"FAILED","result":"PASSED"}"#, "result"),
            (r#"{"result":"FAILED","res\u0075lt":"PASSED"}"#, "result"),
            (r#"[{"a":{"x":1,"y":2,"x":{}}}]"#, "x"),
            (r#"{"":1,"":2}"#, ""),
        ] {
            assert!(
                check(bad.as_bytes()).is_err_and(|why| why.contains(&format!("{key:?} stands twice"))),
                "{bad}"
            );
            assert_eq!(twice(bad.as_bytes()).as_deref(), Some(key), "{bad}");
        }
        // Up to the mistake.
        assert_eq!(twice(br#"{"a":1,"a":1e999}"#).as_deref(), Some("a"));
        for other in ["", "{", r#"{"a":1,"b":1e999,"a":2}"#, r#"{"a":1} {"a":1,"a":2}"#, r#"{"a":1}"#] {
            assert_eq!(twice(other.as_bytes()), None, "{other}");
        }
        assert!(check(b"{\"a\":1} x").is_err());
        assert!(check(format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000)).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in r#"[\[\]{}:,"a1\\ ]{0,60}"#) {
            let _ = check(&bytes);
            let value = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert!(value || check(text.as_bytes()).is_err());
        }
    }
}
