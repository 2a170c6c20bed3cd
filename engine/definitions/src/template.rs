//! Values with places: `{{inputs.repo}}`, `{{tools.pull.title}}`. A text that is one place takes over the value with its type; in a longer text,
//! values are written out. What is put in is never read for places again. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Maximum length of a text after filling, in bytes: that of a tool's arguments.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// A place in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An input.
    Input(String),
    /// A part of a tool's result: names and numbers of list entries.
    Tool(String, Vec<String>),
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Place(Place),
}

/// A value with places.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// A text.
    Text(TextTemplate),
    /// A list.
    List(Vec<Template>),
    /// An object.
    Object(Vec<(String, Template)>),
    /// Another value.
    Plain(Value),
}

/// A text with places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextTemplate(Vec<Part>);

/// Values that places are filled with.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Inputs.
    pub inputs: &'a Map<String, Value>,
    /// Results of tools.
    pub tools: &'a Map<String, Value>,
}

/// Why a template cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfilled {
    /// An optional input that was not given.
    #[error("the input {0} is not given")]
    Input(String),
    /// A tool has no result, or not this part of it.
    #[error("the result of {tool} has no {}", if path.is_empty() { "value" } else { path.as_str() })]
    Tool {
        /// Tool.
        tool: String,
        /// Part.
        path: String,
    },
    /// A text becomes too long.
    #[error("it would have more than {MAX_TEXT_BYTES} bytes")]
    Long,
}

impl Place {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{{{{{text}}}}} is no place: write inputs.NAME or tools.NAME.PART");
        let mut words = text.trim().split('.').map(str::to_owned);
        let (kind, name) = (words.next().unwrap_or_default(), words.next().ok_or_else(wrong)?);
        let rest: Vec<String> = words.collect();
        let fine = |word: &String| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        };
        if !fine(&name) || !rest.iter().all(fine) {
            return Err(wrong());
        }
        match (kind.as_str(), rest.is_empty()) {
            ("inputs", true) => Ok(Self::Input(name)),
            ("tools", _) => Ok(Self::Tool(name, rest)),
            _ => Err(wrong()),
        }
    }

    fn value<'a>(&self, scope: Scope<'a>) -> Result<&'a Value, Unfilled> {
        match self {
            Self::Input(name) => scope.inputs.get(name).ok_or_else(|| Unfilled::Input(name.clone())),
            Self::Tool(tool, path) => {
                let missing = || Unfilled::Tool { tool: tool.clone(), path: path.join(".") };
                let mut value = scope.tools.get(tool).ok_or_else(missing)?;
                for word in path {
                    value = match value {
                        Value::Array(items) => word.parse::<usize>().ok().and_then(|at| items.get(at)),
                        value => value.get(word),
                    }
                    .ok_or_else(missing)?;
                }
                Ok(value)
            }
        }
    }
}

impl TextTemplate {
    /// Parses a text.
    ///
    /// # Errors
    /// A sentence about a place that is not one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (place, after) =
                after.split_once("}}").ok_or_else(|| format!("{text:?} has {{{{ without }}}}"))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Place(Place::parse(place)?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Places in it.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().filter_map(|part| match part {
            Part::Place(place) => Some(place),
            Part::Text(_) => None,
        })
    }

    /// The value: that of the only place, else a text.
    ///
    /// # Errors
    /// [`Unfilled`].
    pub fn fill(&self, scope: Scope<'_>) -> Result<Value, Unfilled> {
        match &self.0[..] {
            [Part::Place(place)] => place.value(scope).cloned(),
            _ => self.text(scope).map(Value::String),
        }
    }

    /// The text.
    ///
    /// # Errors
    /// [`Unfilled`].
    pub fn text(&self, scope: Scope<'_>) -> Result<String, Unfilled> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(words) => text.push_str(words),
                Part::Place(place) => match place.value(scope)? {
                    Value::String(words) => text.push_str(words),
                    value => text.push_str(&value.to_string()),
                },
            }
            if text.len() > MAX_TEXT_BYTES {
                return Err(Unfilled::Long);
            }
        }
        Ok(text)
    }
}

impl Template {
    /// Parses a value, at any depth.
    ///
    /// # Errors
    /// A sentence about a place that is not one.
    pub fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(TextTemplate::parse(text)?),
            Value::Array(items) => Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Ok((name.clone(), Self::parse(value)?));
                Self::Object(fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    /// Places in it, each once per occurrence.
    #[must_use]
    pub fn places(&self) -> Vec<&Place> {
        match self {
            Self::Text(text) => text.places().collect(),
            Self::List(items) => items.iter().flat_map(Self::places).collect(),
            Self::Object(fields) => fields.iter().flat_map(|(_, value)| value.places()).collect(),
            Self::Plain(_) => Vec::new(),
        }
    }

    /// The value. A field of an object whose input is not given is left out.
    ///
    /// # Errors
    /// [`Unfilled`].
    pub fn fill(&self, scope: Scope<'_>) -> Result<Value, Unfilled> {
        match self {
            Self::Text(text) => text.fill(scope),
            Self::List(items) => {
                items.iter().map(|item| item.fill(scope)).collect::<Result<_, _>>().map(Value::Array)
            }
            Self::Object(fields) => {
                let mut filled = Map::new();
                for (name, value) in fields {
                    match value.fill(scope) {
                        Ok(value) => drop(filled.insert(name.clone(), value)),
                        Err(Unfilled::Input(_)) => {}
                        Err(why) => return Err(why),
                    }
                }
                Ok(Value::Object(filled))
            }
            Self::Plain(value) => Ok(value.clone()),
        }
    }
}

/// Names of the tools whose results are used.
pub fn tools_of<'a>(places: impl IntoIterator<Item = &'a Place>) -> BTreeSet<String> {
    let tool = |place: &Place| match place {
        Place::Tool(tool, _) => Some(tool.clone()),
        Place::Input(_) => None,
    };
    places.into_iter().filter_map(tool).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn filled(template: &Value, inputs: &Value, tools: &Value) -> Result<Value, Unfilled> {
        let (inputs, tools) = (inputs.as_object().unwrap(), tools.as_object().unwrap());
        Template::parse(template).unwrap().fill(Scope { inputs, tools })
    }

    #[test]
    fn places_take_over_values_with_their_types() {
        let inputs = json!({ "repo": "a/b", "n": 7, "evil": "{{inputs.repo}} {{tools.x}}" });
        let tools = json!({ "pull": { "head-commit": "1f", "labels": ["x", "y"], "size": 3, "none": null } });
        for (template, want) in [
            (json!("{{inputs.repo}}"), json!("a/b")),
            (json!("{{ inputs.n }}"), json!(7)),
            (json!("#{{inputs.n}} of {{inputs.repo}}"), json!("#7 of a/b")),
            (json!("{{tools.pull.labels}}"), json!(["x", "y"])),
            (json!("{{tools.pull.labels.1}}"), json!("y")),
            (json!("at {{tools.pull.head-commit}}"), json!("at 1f")),
            (json!("{{tools.pull.none}}"), json!(null)),
            (json!({ "a": ["{{inputs.n}}", 2], "b": true }), json!({ "a": [7, 2], "b": true })),
            (json!({ "a": "{{inputs.absent}}", "b": 1 }), json!({ "b": 1 })),
            // A value is not read for places.
            (json!("{{inputs.evil}}!"), json!("{{inputs.repo}} {{tools.x}}!")),
            (json!("}} {x}"), json!("}} {x}")),
        ] {
            assert_eq!(filled(&template, &inputs, &tools), Ok(want), "{template}");
        }
        for (template, want) in [
            ("{{inputs.absent}}", "the input absent is not given"),
            ("{{tools.no}}", "the result of no has no value"),
            ("{{tools.pull.labels.2}}", "the result of pull has no labels.2"),
            ("{{tools.pull.size.x}}", "the result of pull has no size.x"),
        ] {
            assert_eq!(filled(&json!(template), &inputs, &tools).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn misshapen_places_are_refused() {
        for text in [
            "{{",
            "{{}}",
            "{{inputs}}",
            "{{inputs.}}",
            "{{inputs.a.b}}",
            "{{tools}}",
            "{{env.HOME}}",
            "{{tools.a..b}}",
            "{{tools.a b}}",
        ] {
            assert!(Template::parse(&json!([text])).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn inputs_are_put_in_once(value in "\\PC{0,40}") {
            let inputs = json!({ "x": value });
            prop_assert_eq!(filled(&json!("{{inputs.x}}"), &inputs, &json!({})), Ok(json!(value.clone())));
            prop_assert_eq!(filled(&json!("<{{inputs.x}}>"), &inputs, &json!({})), Ok(json!(format!("<{value}>"))));
        }
    }
}
