//! Inputs of a call, checked against a definition. Pure.

use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, printable};
use serde_json::{Map, Value};

use crate::definition::{Definition, Input, Kind};

/// Maximum length of a text among the inputs, in bytes.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// Checked inputs, with defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs(Map<String, Value>);

impl Inputs {
    /// Checks values: unknown, missing and of another type are refused.
    ///
    /// # Errors
    /// [`ErrorReport`] with the input, and the nearest one for an unknown name.
    pub fn check(definition: &Definition, given: &Map<String, Value>) -> Result<Self, ErrorReport> {
        let bad = |name: &str, why: String| {
            // Escaped where it is shown.
            ErrorReport::new(Code::InvalidValue, format!("the input {name} {why}")).field(name)
        };
        let known = || definition.inputs.keys().map(String::as_str);
        if let Some(unknown) = given.keys().find(|name| !definition.inputs.contains_key(*name)) {
            let why = format!("is not one of {}", definition.signature());
            let near = likely(unknown, known()).map(|near| format!("did you mean {near}?"));
            let report = bad(unknown, why);
            return Err(near.into_iter().fold(report, ErrorReport::hint));
        }
        let mut values = Map::new();
        for (name, input) in &definition.inputs {
            let value = match (given.get(name).filter(|value| !value.is_null()), &input.default) {
                (Some(value), _) => value.clone(),
                (None, Some(default)) => default.clone(),
                (None, None) if input.optional => continue,
                (None, None) => {
                    return Err(bad(name, format!("of {} is missing", definition.signature())));
                }
            };
            fits(input, &value).map_err(|why| bad(name, why))?;
            values.insert(name.clone(), value);
        }
        Ok(Self(values))
    }

    /// A value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All values.
    #[must_use]
    pub const fn values(&self) -> &Map<String, Value> {
        &self.0
    }
}

fn fits(input: &Input, value: &Value) -> Result<(), String> {
    let shown = || printable(&value.to_string().chars().take(60).collect::<String>());
    if !input.kind.fits(value) {
        return Err(format!("is {}; wanted is a value of the type {}", shown(), input.kind.name()));
    }
    if !input.choices.is_empty() && !input.choices.contains(value) {
        let all: Vec<_> = input.choices.iter().map(ToString::to_string).collect();
        return Err(format!("is {}; possible are {}", shown(), all.join(", ")));
    }
    if let Some(least) = input.minimum
        && value.as_f64().is_some_and(|value| value < least)
    {
        return Err(format!("is {}; the least is {least}", shown()));
    }
    if value.as_str().is_some_and(|text| text.len() > MAX_INPUT_BYTES) {
        return Err(format!("has more than {MAX_INPUT_BYTES} bytes"));
    }
    Ok(())
}

/// Reads a text of a command line as an input's type asks for; what does not fit stays a text, which the check will refuse.
#[must_use]
pub fn typed(definition: &Definition, name: &str, text: &str) -> Value {
    match definition.inputs.get(name).map(|input| input.kind) {
        None | Some(Kind::String) => text.into(),
        Some(_) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "name = \"a.b\"\nversion = 1\ndescription = \"x\"\n[tools.t]\ntool = \"p_f\"\n[returns]\ntype = \"object\"\n\
        [inputs.repo]\ntype = \"string\"\n[inputs.number]\ntype = \"integer\"\nminimum = 1\n[inputs.path]\ntype = \"string\"\noptional = true\n\
        [inputs.depth]\ntype = \"string\"\nenum = [\"quick\", \"deep\"]\ndefault = \"quick\"\n";

    #[test]
    fn inputs_are_checked_and_completed() {
        let definition = Definition::parse(FILE, "a.toml".as_ref()).unwrap();
        let check = |given: Value| Inputs::check(&definition, given.as_object().unwrap());
        let good = check(json!({ "repo": "a/b", "number": 1, "path": null })).unwrap();
        assert_eq!(
            Value::Object(good.values().clone()),
            json!({ "repo": "a/b", "number": 1, "depth": "quick" })
        );
        for (given, word) in [
            (json!({ "repo": "a/b" }), "number of a.b@v1(number, repo, depth?, path?) is missing"),
            (json!({ "repo": 1, "number": 1 }), "repo is 1; wanted is a value of the type string"),
            (json!({ "repo": "a", "number": 1.5 }), "type integer"),
            (json!({ "repo": "a", "number": "1" }), "type integer"),
            (json!({ "repo": "a", "number": -1 }), "number is -1; the least is 1"),
            (json!({ "repo": "a", "number": 1, "depth": "x" }), "possible are \"quick\", \"deep\""),
            (json!({ "repo": "a", "number": 1, "dept": "x" }), "did you mean depth?"),
            (json!({ "repo": "a".repeat(MAX_INPUT_BYTES + 1), "number": 1 }), "more than"),
        ] {
            let error = check(given).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        for (name, text, want) in [
            ("number", "7", json!(7)),
            ("number", "x", json!("x")),
            ("repo", "7", json!("7")),
            ("no", "7", json!("7")),
        ] {
            assert_eq!(typed(&definition, name, text), want);
        }
    }
}
