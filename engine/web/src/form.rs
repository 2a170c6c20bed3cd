//! Fields of queries and of posted forms: `application/x-www-form-urlencoded`.

use std::collections::HashMap;

/// Fields by name; of several with one name, the first counts where one is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(HashMap<String, Vec<String>>);

impl Fields {
    /// Reads a query or a body.
    pub fn parse(text: &[u8]) -> Self {
        let mut all: HashMap<String, Vec<String>> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(text) {
            all.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        Self(all)
    }

    /// A field; empty where it is missing.
    pub fn get(&self, name: &str) -> &str {
        self.all(name).first().map_or("", String::as_str)
    }

    /// All fields of one name.
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// A field that is not empty.
    pub fn given(&self, name: &str) -> Option<&str> {
        Some(self.get(name).trim()).filter(|text| !text.is_empty())
    }

    /// Number of a page, from 1.
    pub fn page(&self) -> u64 {
        self.get("page").parse().unwrap_or(1).clamp(1, u64::from(u32::MAX))
    }
}

/// A query of these fields, without empty ones; begins with `?` when there are any.
pub fn query(fields: &[(&str, &str)]) -> String {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    let text = text.finish();
    if text.is_empty() { text } else { format!("?{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_equal_fields_counts() {
        let fields = Fields::parse(b"a=1&a=2&b=%3Cx%3E+y&c=&page=0");
        assert_eq!((fields.get("a"), fields.get("b"), fields.get("d")), ("1", "<x> y", ""));
        assert_eq!((fields.given("c"), fields.page()), (None, 1));
        assert_eq!((fields.all("a").len(), fields.all("d").len()), (2, 0));
        assert_eq!(Fields::parse(b"page=-3").page(), 1);
        assert_eq!(Fields::parse(b"page=12").page(), 12);
        assert_eq!(query(&[("a", ""), ("b", "x&y")]), "?b=x%26y");
        assert_eq!(query(&[("a", "")]), "");
    }
}
