//! A definition file: parsed and checked whole, so that a mistake is found before anything runs. Pure.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hotcell_models::endpoint::check_name;
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::profile::{FileError, parse_strict};
use hotcell_sandbox::units::parse_duration;
use hotcell_tools::Capability;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::template::{Place, Template, TextTemplate, tools_of};
use crate::verb::Verb;
use crate::{keys, plan, schema};

/// Maximum size of a definition file in bytes.
pub const MAX_FILE_BYTES: usize = 64 << 10;
/// Maximum number of inputs and of tools of a verb.
pub const MAX_ENTRIES: usize = 32;
/// Maximum length of a description, in characters: each conversation of a client pays for it.
pub const MAX_ABOUT_CHARS: usize = 400;
/// Maximum length of an input's description, in characters.
pub const MAX_INPUT_ABOUT_CHARS: usize = 80;
/// Time limit of the tools of a call, together.
const TOOLS_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a model, for both its tries.
const MODEL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum of any time limit of a file.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time that a result is kept.
const MAX_CACHE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum number of a model's output tokens, unless a file says otherwise.
const OUTPUT_TOKENS: u32 = 2_000;
/// Maximum cost of a call of a verb in dollars, unless a file says otherwise.
const BUDGET: f64 = 0.10;
/// Role whose models are asked, unless a file says otherwise.
const ROLE: &str = "default";
/// Names of inputs that are options of `hotcell agent run`.
const TAKEN: [&str; 10] =
    ["input", "json", "data", "no_cache", "quiet", "verbose", "help", "config", "state", "color"];

/// A checked definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Name and version.
    pub verb: Verb,
    /// Purpose, for people and models.
    pub description: String,
    /// Summary of the data, with places.
    pub summary: Option<TextTemplate>,
    /// Inputs, by name.
    pub inputs: BTreeMap<String, Input>,
    /// Tools, by the names that they have here.
    pub tools: BTreeMap<String, Step>,
    /// The tools in layers; see [`plan::layers`].
    pub layers: Vec<Vec<String>>,
    /// Text for a model; without it there is no second mode.
    pub prompt: Option<Prompt>,
    /// Fields of the answer that come from the data.
    pub fill: Vec<(String, Template)>,
    /// JSON Schema of the answer.
    pub returns: Value,
    /// Time limit of the tools, together.
    pub timeout: Duration,
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Type.
    pub kind: Kind,
    /// Purpose.
    pub description: String,
    /// May be left out.
    pub optional: bool,
    /// Value when it is left out.
    pub default: Option<Value>,
    /// The only possible values; empty for all.
    pub choices: Vec<Value>,
    /// Smallest number.
    pub minimum: Option<f64>,
}

/// Type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A text.
    String,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of the tool: `PLUGIN_FUNCTION`.
    pub tool: String,
    /// Arguments.
    pub arguments: Template,
    /// Tools that have to end before, whatever they come to.
    pub after: Vec<String>,
    /// The tool is called only when this input is given.
    pub when: Option<String>,
    /// Time that a result is kept.
    pub cache: Option<Duration>,
    /// Arguments that name files, whose contents count for the cache.
    pub files: Vec<String>,
    /// Grants without which it is not called, in the words of `hotcell tool grant`.
    pub needs: Vec<String>,
    /// Time limit.
    pub timeout: Option<Duration>,
}

/// Text for a model, and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Instructions that precede everything.
    pub system: String,
    /// Task. Inputs and data follow it in a block.
    pub user: String,
    /// Role whose models are asked.
    pub role: String,
    /// Maximum number of output tokens.
    pub max_output_tokens: u32,
    /// Time limit of both tries together.
    pub timeout: Duration,
    /// Maximum cost of a call in dollars.
    pub budget: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    version: u32,
    description: String,
    summary: Option<String>,
    timeout: Option<String>,
    #[serde(default)]
    inputs: BTreeMap<String, WrittenInput>,
    #[serde(default)]
    tools: BTreeMap<String, WrittenStep>,
    prompt: Option<WrittenPrompt>,
    #[serde(default)]
    fill: Map<String, Value>,
    returns: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenInput {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    description: String,
    #[serde(default)]
    optional: bool,
    default: Option<Value>,
    #[serde(default, rename = "enum")]
    choices: Vec<Value>,
    minimum: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    after: Vec<String>,
    when: Option<String>,
    cache: Option<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
    timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrompt {
    #[serde(default)]
    system: String,
    user: String,
    role: Option<String>,
    max_output_tokens: Option<u32>,
    timeout: Option<String>,
    budget: Option<f64>,
}

impl Definition {
    /// Parses and checks a file.
    ///
    /// # Errors
    /// [`FileError`] with the line, and for an unknown key or name the nearest known one.
    pub fn parse(text: &str, file: &Path) -> Result<Self, FileError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(FileError::of_file(file, format!("a definition has at most {MAX_FILE_BYTES} bytes")));
        }
        let bad = |key: String| move |why: String| FileError::of_key(file, &key, why).found_in(text);
        if let Ok(table) = text.parse::<toml::Table>() {
            keys::check(&table, text, file)?;
        }
        let written: Written = parse_strict(text, file, keys::KEYS)?;
        let verb = Verb::new(&written.name, written.version).map_err(bad("name".to_owned()))?;
        let description =
            short(&written.description, MAX_ABOUT_CHARS).map_err(bad("description".to_owned()))?;
        if description.is_empty() {
            return Err(bad("description".to_owned())("say what it is for".to_owned()));
        }
        for (key, length) in [("inputs", written.inputs.len()), ("tools", written.tools.len())] {
            if length > MAX_ENTRIES {
                return Err(bad(key.to_owned())(format!("there are at most {MAX_ENTRIES}")));
            }
        }
        if written.tools.is_empty() {
            return Err(bad("tools".to_owned())("a verb calls at least one tool".to_owned()));
        }
        let mut inputs = BTreeMap::new();
        for (name, one) in written.inputs {
            let key = format!("inputs.{name}");
            inputs.insert(name.clone(), input(&name, one).map_err(bad(key))?);
        }
        let names: Vec<String> = written.tools.keys().cloned().collect();
        let known = Known { inputs: inputs.keys().collect(), tools: names.iter().collect() };
        let (mut tools, mut needs) = (BTreeMap::new(), plan::Needs::new());
        for (name, one) in written.tools {
            let key = |of: &str| format!("tools.{name}.{of}");
            let step = step(&name, one, &known).map_err(|(of, why)| bad(key(of))(why))?;
            let mut before = tools_of(step.arguments.places());
            before.extend(step.after.iter().cloned());
            needs.insert(name.clone(), before);
            tools.insert(name, step);
        }
        let layers = plan::layers(&needs)
            .map_err(|circle| bad("tools".to_owned())(format!("tools wait for one another: {circle}")))?;
        let summary = written.summary.as_deref().map(TextTemplate::parse).transpose();
        let summary = summary.map_err(bad("summary".to_owned()))?;
        known.all(summary.iter().flat_map(TextTemplate::places)).map_err(bad("summary".to_owned()))?;
        let mut fill = Vec::new();
        for (name, value) in &written.fill {
            let key = format!("fill.{name}");
            let template = Template::parse(value).map_err(bad(key.clone()))?;
            known.all(template.places()).map_err(bad(key.clone()))?;
            let fields = written.returns.get("properties").and_then(Value::as_object);
            if fields.is_none_or(|fields| !fields.contains_key(name)) {
                let near = fields.and_then(|fields| likely(name, fields.keys().map(String::as_str)));
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                return Err(bad(key)(format!("returns has no such property{near}")));
            }
            fill.push((name.clone(), template));
        }
        let mut written_schema = written.returns;
        schema::check(&mut written_schema).map_err(bad("returns".to_owned()))?;
        Ok(Self {
            verb,
            description,
            summary,
            inputs,
            tools,
            layers,
            prompt: written
                .prompt
                .map(prompt)
                .transpose()
                .map_err(|(of, why)| bad(format!("prompt.{of}"))(why))?,
            fill,
            returns: written_schema,
            timeout: time(written.timeout.as_deref(), TOOLS_TIMEOUT, MAX_TIMEOUT)
                .map_err(bad("timeout".to_owned()))?,
        })
    }

    /// `review.analyze@v1(pr_number, repo, path?)`
    #[must_use]
    pub fn signature(&self) -> String {
        let optional = |input: &Input| input.optional || input.default.is_some();
        let mut inputs: Vec<(bool, String)> = self
            .inputs
            .iter()
            .map(|(name, input)| {
                (optional(input), format!("{name}{}", if optional(input) { "?" } else { "" }))
            })
            .collect();
        inputs.sort_by_key(|(optional, _)| *optional);
        let inputs: Vec<String> = inputs.into_iter().map(|(_, name)| name).collect();
        format!("{}({})", self.verb, inputs.join(", "))
    }

    /// JSON Schema of the inputs.
    #[must_use]
    pub fn input_schema(&self) -> Value {
        let property = |(name, input): (&String, &Input)| {
            let mut schema = Map::from_iter([("type".to_owned(), Value::from(input.kind.name()))]);
            if !input.description.is_empty() {
                schema.insert("description".to_owned(), input.description.clone().into());
            }
            if !input.choices.is_empty() {
                schema.insert("enum".to_owned(), input.choices.clone().into());
            }
            if let Some(minimum) = input.minimum {
                schema.insert("minimum".to_owned(), number(minimum));
            }
            if let Some(default) = &input.default {
                schema.insert("default".to_owned(), default.clone());
            }
            (name.clone(), Value::Object(schema))
        };
        let needed = |(name, input): (&String, &Input)| {
            (!input.optional && input.default.is_none()).then(|| Value::from(name.clone()))
        };
        serde_json::json!({
            "type": "object",
            "properties": self.inputs.iter().map(property).collect::<Map<_, _>>(),
            "required": self.inputs.iter().filter_map(needed).collect::<Vec<_>>(),
        })
    }

    /// Names of the plugins whose tools it calls, each once. A tool's name begins with its plugin's.
    #[must_use]
    pub fn plugins(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.tools.values().filter_map(|step| step.tool.split('_').next()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Kind {
    /// Name in a JSON Schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// Whether a value is of this type.
    #[must_use]
    pub fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
        }
    }
}

/// Names that places may use.
struct Known<'a> {
    inputs: Vec<&'a String>,
    tools: Vec<&'a String>,
}

impl Known<'_> {
    fn all<'p>(&self, places: impl IntoIterator<Item = &'p Place>) -> Result<(), String> {
        places.into_iter().try_for_each(|place| match place {
            Place::Input(name) => self.input(name),
            Place::Tool(name, _) => self.tool(name),
        })
    }

    fn input(&self, name: &str) -> Result<(), String> {
        Self::one("input", &self.inputs, name)
    }

    fn tool(&self, name: &str) -> Result<(), String> {
        Self::one("tool", &self.tools, name)
    }

    fn one(kind: &str, known: &[&String], name: &str) -> Result<(), String> {
        if known.iter().any(|one| *one == name) {
            return Ok(());
        }
        let near = likely(name, known.iter().map(|one| one.as_str()));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Err(format!("there is no {kind} {name:?}{near}"))
    }
}

fn short(text: &str, most: usize) -> Result<String, String> {
    let text = text.trim();
    if text.chars().count() > most {
        return Err(format!("it has at most {most} characters"));
    }
    Ok(text.to_owned())
}

fn is_name(name: &str) -> Result<(), String> {
    let fine = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.len() <= 32;
    if fine { Ok(()) } else { Err("a name has small letters, digits and _, at most 32".to_owned()) }
}

fn input(name: &str, written: WrittenInput) -> Result<Input, String> {
    is_name(name)?;
    if TAKEN.contains(&name) {
        return Err(format!("{name} is an option of hotcell agent run; choose another name"));
    }
    let WrittenInput { kind, description, optional, default, choices, minimum } = written;
    if minimum.is_some() && !matches!(kind, Kind::Integer | Kind::Number) {
        return Err(format!("minimum is for numbers, and the type is {}", kind.name()));
    }
    let least = minimum.unwrap_or(f64::NEG_INFINITY);
    if let Some(small) =
        default.iter().chain(&choices).find(|value| value.as_f64().is_some_and(|value| value < least))
    {
        return Err(format!("{small} is below the minimum, {least}"));
    }
    if let Some(wrong) = default.iter().chain(&choices).find(|value| !kind.fits(value)) {
        return Err(format!("{wrong} is not of the type {}", kind.name()));
    }
    if default.as_ref().is_some_and(|default| !choices.is_empty() && !choices.contains(default)) {
        return Err("the default is not one of enum".to_owned());
    }
    let description = short(&description, MAX_INPUT_ABOUT_CHARS)?;
    Ok(Input { kind, description, optional, default, choices, minimum })
}

/// A number as JSON, without a fraction where it has none.
#[allow(clippy::cast_possible_truncation, reason = "checked by the comparison")]
fn number(value: f64) -> Value {
    let whole = value as i64;
    if whole as f64 == value { whole.into() } else { value.into() }
}

fn step(name: &str, written: WrittenStep, known: &Known<'_>) -> Result<Step, (&'static str, String)> {
    is_name(name).map_err(|why| ("tool", why))?;
    if written.tool.split_once('_').is_none_or(|(plugin, function)| plugin.is_empty() || function.is_empty())
    {
        let why = format!("{:?} is no tool: PLUGIN_FUNCTION, as in hotcell tool list", written.tool);
        return Err(("tool", why));
    }
    let arguments =
        Template::parse(&Value::Object(written.arguments.clone())).map_err(|why| ("arguments", why))?;
    known.all(arguments.places()).map_err(|why| ("arguments", why))?;
    written.after.iter().try_for_each(|tool| known.tool(tool)).map_err(|why| ("after", why))?;
    written.when.iter().try_for_each(|input| known.input(input)).map_err(|why| ("when", why))?;
    if let Some(wrong) = written.files.iter().find(|file| !written.arguments.contains_key(*file)) {
        let near = likely(wrong, written.arguments.keys().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(("files", format!("there is no argument {wrong:?}{near}")));
    }
    for word in &written.needs {
        word.parse::<Capability>().map_err(|why| ("needs", format!("{word:?}: {why}")))?;
    }
    let cache = written.cache.as_deref().map(|text| time(Some(text), MAX_CACHE, MAX_CACHE));
    let limit = written.timeout.as_deref().map(|text| time(Some(text), MAX_TIMEOUT, MAX_TIMEOUT));
    Ok(Step {
        tool: written.tool,
        arguments,
        after: written.after,
        when: written.when,
        cache: cache.transpose().map_err(|why| ("cache", why))?,
        files: written.files,
        needs: written.needs,
        timeout: limit.transpose().map_err(|why| ("timeout", why))?,
    })
}

fn prompt(written: WrittenPrompt) -> Result<Prompt, (&'static str, String)> {
    if written.user.trim().is_empty() {
        return Err(("user", "it is empty".to_owned()));
    }
    let role = written.role.unwrap_or_else(|| ROLE.to_owned());
    check_name(&role).map_err(|e| ("role", e.to_string()))?;
    let budget = written.budget.unwrap_or(BUDGET);
    if !(0.0..=1_000.0).contains(&budget) {
        return Err(("budget", "it is an amount of dollars from 0 to 1000".to_owned()));
    }
    let tokens = written.max_output_tokens.unwrap_or(OUTPUT_TOKENS);
    if !(16..=100_000).contains(&tokens) {
        return Err(("max_output_tokens", "it is a number from 16 to 100000".to_owned()));
    }
    Ok(Prompt {
        system: written.system,
        user: written.user,
        role,
        max_output_tokens: tokens,
        timeout: time(written.timeout.as_deref(), MODEL_TIMEOUT, MAX_TIMEOUT)
            .map_err(|why| ("timeout", why))?,
        budget,
    })
}

fn time(text: Option<&str>, usual: Duration, most: Duration) -> Result<Duration, String> {
    let time = text.map_or(Ok(usual), parse_duration).map_err(|e| e.to_string())?;
    if time.is_zero() || time > most {
        return Err(format!("it is a time of at most {} s", most.as_secs()));
    }
    Ok(time)
}

#[cfg(test)]
#[path = "definition/tests.rs"]
mod tests;
