//! MCP resources and prompts that a component offers, by exporting `hotcell:plugin/resources` and
//! `hotcell:plugin/prompts`: names of the functions, and their answers. Pure. What is read here comes from the
//! component, so that everything is bounded and checked.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Description;
use crate::asker::line;
use crate::mapping::text::clean;

/// Package of the interfaces, whose versions 0.1 are compatible.
const PACKAGE: &str = "hotcell:plugin/";
/// Maximum number of listed resources, and of listed prompts, of a plugin.
const MAX_LIST_ITEMS: [usize; 2] = [100, 32];
/// Maximum length of a resource's path, and of a prompt's or a parameter's name, in bytes.
const MAX_NAME_BYTES: [usize; 2] = [512, 40];
/// Maximum number of parameters of a prompt, and of messages.
const MAX_PARTS: usize = 32;
/// Maximum length of a title and of a description, in bytes.
const MAX_TEXT_BYTES: [usize; 2] = [200, 1_000];

/// Function that serves something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// `resources.list`.
    Resources,
    /// `resources.read`.
    Resource,
    /// `prompts.list`.
    Prompts,
    /// `prompts.get`.
    Prompt,
}

impl Served {
    const ALL: [(Self, &str, &str); 4] = [
        (Self::Resources, "resources", "list"),
        (Self::Resource, "resources", "read"),
        (Self::Prompts, "prompts", "list"),
        (Self::Prompt, "prompts", "get"),
    ];

    fn of(path: &str) -> Option<Self> {
        let (interface, function) = path.strip_prefix(PACKAGE)?.split_once('#')?;
        let (interface, version) = interface.split_once('@')?;
        let known = |(_, of, name): &&(Self, &str, &str)| (*of, *name) == (interface, function);
        Self::ALL.iter().find(known).filter(|_| version.starts_with("0.1.")).map(|(served, ..)| *served)
    }

    /// Path of this function in a component, if it serves it. Both functions of an interface have to be there.
    #[must_use]
    pub fn path(self, description: &Description) -> Option<&str> {
        let all: BTreeSet<Self> = description.serves.iter().filter_map(|path| Self::of(path)).collect();
        let pair = match self {
            Self::Resources | Self::Resource => [Self::Resources, Self::Resource],
            Self::Prompts | Self::Prompt => [Self::Prompts, Self::Prompt],
        };
        let found = description.serves.iter().find(|path| Self::of(path) == Some(self))?;
        pair.iter().all(|one| all.contains(one)).then_some(found)
    }
}

/// Whether a function serves something and is not a tool.
#[must_use]
pub fn is_served(path: &str) -> bool {
    Served::of(path).is_some()
}

/// Words for what a component serves: `resources`, `prompts`.
#[must_use]
pub fn words(description: &Description) -> Vec<&'static str> {
    let known = [(Served::Resources, "resources"), (Served::Prompts, "prompts")];
    known.into_iter().filter(|(served, _)| served.path(description).is_some()).map(|(_, word)| word).collect()
}

/// A resource that a plugin lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Resource {
    /// Path, of printable ASCII.
    pub path: String,
    /// A few words, on one line.
    pub title: Option<String>,
    /// Purpose; of the plugin, and therefore to be quoted.
    pub description: Option<String>,
    /// Media type.
    pub mime_type: Option<String>,
}

/// Contents of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A parameter of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Parameter {
    /// Name: letters, digits, `-` and `_`.
    pub name: String,
    /// Meaning.
    pub description: Option<String>,
    /// Whether callers have to give a value.
    pub required: bool,
}

/// A prompt that a plugin lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Prompt {
    /// Name, without that of its plugin: letters, digits, `-` and `_`.
    pub name: String,
    /// A few words, on one line.
    pub title: Option<String>,
    /// Purpose; of the plugin, and therefore to be quoted.
    pub description: Option<String>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
}

/// A message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// `user` or `assistant`.
    pub role: Role,
    /// Text; of the plugin.
    pub text: String,
}

/// Who is to have said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Listed resources, each path once; entries that do not keep to the rules are left out.
#[must_use]
pub fn resources(answer: &Value) -> Vec<Resource> {
    let mut seen = BTreeSet::new();
    listed::<Resource>(answer, MAX_LIST_ITEMS[0])
        .filter(|one| is_path(&one.path) && seen.insert(one.path.clone()))
        .map(|one| Resource {
            title: one.title.map(|text| line(&text, MAX_TEXT_BYTES[0])),
            description: one.description.map(|text| clean(&text, MAX_TEXT_BYTES[1])),
            mime_type: one.mime_type.filter(|kind| is_media_type(kind)),
            ..one
        })
        .collect()
}

/// Listed prompts, each name once; entries that do not keep to the rules are left out.
#[must_use]
pub fn prompts(answer: &Value) -> Vec<Prompt> {
    let mut seen = BTreeSet::new();
    let parameter = |one: Parameter| Parameter {
        description: one.description.map(|text| clean(&text, MAX_TEXT_BYTES[1])),
        ..one
    };
    listed::<Prompt>(answer, MAX_LIST_ITEMS[1])
        .filter(|one| {
            let names: BTreeSet<&String> = one.parameters.iter().map(|parameter| &parameter.name).collect();
            is_name(&one.name)
                && names.len() == one.parameters.len()
                && names.len() <= MAX_PARTS
                && names.iter().all(|name| is_name(name))
                && seen.insert(one.name.clone())
        })
        .map(|one| Prompt {
            title: one.title.map(|text| line(&text, MAX_TEXT_BYTES[0])),
            description: one.description.map(|text| clean(&text, MAX_TEXT_BYTES[1])),
            parameters: one.parameters.into_iter().map(parameter).collect(),
            ..one
        })
        .collect()
}

/// Contents of a resource; `None` when the answer is something else.
#[must_use]
pub fn content(answer: &Value) -> Option<Content> {
    let content = &answer["result"];
    let value = content["value"].as_str()?;
    match content["tag"].as_str()? {
        "text" => Some(Content::Text(value.to_owned())),
        "bytes" => STANDARD.decode(value).ok().map(Content::Bytes),
        _ => None,
    }
}

/// Messages of a prompt; `None` when the answer is something else, or has too many.
#[must_use]
pub fn messages(answer: &Value) -> Option<Vec<Message>> {
    let messages: Vec<Message> = serde_json::from_value(answer["result"].clone()).ok()?;
    (messages.len() <= MAX_PARTS).then_some(messages)
}

/// Arguments of [`Served::Resource`].
#[must_use]
pub fn read_arguments(path: &str) -> Value {
    json!({ "path": path })
}

/// Arguments of [`Served::Prompt`].
#[must_use]
pub fn get_arguments(name: &str, arguments: &[(String, String)]) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn listed<T: for<'de> Deserialize<'de>>(answer: &Value, most: usize) -> impl Iterator<Item = T> {
    let all = answer["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read: Vec<T> =
        all.iter().filter_map(|one| serde_json::from_value(one.clone()).ok()).take(most).collect();
    read.into_iter()
}

/// Whether a text is valid as a resource's path.
#[must_use]
pub fn is_path(path: &str) -> bool {
    (1..=MAX_NAME_BYTES[0]).contains(&path.len()) && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text is valid as the name of a prompt or a parameter.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_NAME_BYTES[1]).contains(&name.len()) && name.bytes().all(plain)
}

fn is_media_type(kind: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
    kind.len() <= 100
        && kind
            .split_once('/')
            .is_some_and(|(of, sub)| [of, sub].iter().all(|part| !part.is_empty() && part.bytes().all(plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(paths: &[&str]) -> Description {
        Description {
            exports: Vec::new(),
            left_out: Vec::new(),
            imports: Vec::new(),
            at_most: Vec::new(),
            handles: false,
            serves: paths.iter().map(|path| (*path).to_owned()).collect(),
            manifest: None,
            hidden: None,
        }
    }

    #[test]
    fn both_functions_of_a_known_version_serve() {
        let (list, read) = ("hotcell:plugin/resources@0.1.0#list", "hotcell:plugin/resources@0.1.7#read");
        let (prompts, get) = ("hotcell:plugin/prompts@0.1.0#list", "hotcell:plugin/prompts@0.1.0#get");
        for (paths, wanted) in [
            (&[][..], &[][..]),
            (&[list], &[]),
            (&[list, read], &["resources"]),
            (&[prompts, get], &["prompts"]),
            (&[list, read, prompts, get], &["resources", "prompts"]),
            (&["hotcell:plugin/resources@0.2.0#list", "hotcell:plugin/resources@0.2.0#read"], &[]),
            (&["acme:plugin/resources@0.1.0#list", "acme:plugin/resources@0.1.0#read"], &[]),
        ] {
            assert_eq!(words(&description(paths)), wanted, "{paths:?}");
        }
        assert!(is_served(list) && !is_served("hotcell:plugin/tools@0.1.0#list") && !is_served("list"));
    }

    #[test]
    fn invalid_resources_are_not_listed() {
        let hostile = "\u{1b}[31m\u{202e}x\nhotcell: y";
        let entry = |path: &str| json!({ "path": path, "title": hostile, "description": hostile, "mime-type": hostile });
        let long = "p".repeat(513);
        let all = ["a", "a", "", "b c", "../b", "\u{e9}", "x\u{1b}", &long].map(entry);
        let found = resources(&json!({ "result": all }));
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a", "../b"]);
        let (title, kind) = (found[0].title.as_deref().unwrap(), &found[0].mime_type);
        assert!(!title.contains(['\u{1b}', '\u{202e}', '\n']) && kind.is_none(), "{title:?}");
        let good = resources(&json!({ "result": [{ "path": "a", "mime-type": "text/markdown" }] }));
        assert_eq!(good[0].mime_type.as_deref(), Some("text/markdown"));
        let many: Vec<_> = (0..1_000).map(|n| entry(&n.to_string())).collect();
        assert_eq!(resources(&json!({ "result": many })).len(), MAX_LIST_ITEMS[0]);
        for other in [
            json!(null),
            json!({}),
            json!({ "result": {} }),
            json!({ "error": "no" }),
            json!({ "result": [1] }),
        ] {
            assert_eq!((resources(&other).len(), prompts(&other).len()), (0, 0));
            assert_eq!((content(&other), messages(&other).map(|all| all.len())), (None, None));
        }
    }

    #[test]
    fn prompt_names_are_plain_and_unique() {
        let prompt = |name: &str, parameters: &[&str]| {
            let one = |name: &&str| json!({ "name": name, "description": null, "required": true });
            json!({ "name": name, "parameters": parameters.iter().map(one).collect::<Vec<_>>() })
        };
        let long = "n".repeat(41);
        for (name, parameters, fits) in [
            ("a", &[][..], true),
            ("a-b_C1", &["x", "y"], true),
            ("", &[], false),
            ("a b", &[], false),
            ("a\n", &[], false),
            (&long, &[], false),
            ("a", &["x", "x"], false),
            ("a", &["x y"], false),
        ] {
            assert_eq!(
                prompts(&json!({ "result": [prompt(name, parameters)] })).len(),
                usize::from(fits),
                "{name:?}"
            );
        }
        assert_eq!(prompts(&json!({ "result": [prompt("a", &[]), prompt("a", &[])] })).len(), 1);
    }

    #[test]
    fn contents_and_messages() {
        let text = json!({ "result": { "tag": "text", "value": "a" } });
        let bytes = json!({ "result": { "tag": "bytes", "value": "AAE=" } });
        assert_eq!(content(&text), Some(Content::Text("a".to_owned())));
        assert_eq!(content(&bytes), Some(Content::Bytes(vec![0, 1])));
        assert_eq!(content(&json!({ "result": { "tag": "bytes", "value": "!" } })), None);
        let message = json!({ "role": "user", "text": "a" });
        assert_eq!(messages(&json!({ "result": [message] })).unwrap()[0].role, Role::User);
        assert_eq!(messages(&json!({ "result": [{ "role": "system", "text": "a" }] })), None);
        assert_eq!(messages(&json!({ "result": vec![message; 33] })), None);
    }
}
