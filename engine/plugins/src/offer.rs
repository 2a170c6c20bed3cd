//! Which of a plugin's tools are offered to callers. Pure.

use std::collections::BTreeSet;

use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport};
use serde::{Deserialize, Serialize};

/// A choice among a plugin's tools, by their names. It outlives updates of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// These; whatever an update adds is not offered.
    Only(BTreeSet<String>),
    /// All others; whatever an update adds is offered.
    Hide(BTreeSet<String>),
}

impl Default for Offer {
    fn default() -> Self {
        Self::Hide(BTreeSet::new())
    }
}

/// A person's choice of the tools that are offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All tools.
    All,
    /// These and no other, by the tools' names or by those of their functions.
    Only(Vec<String>),
    /// All but these.
    Hide(Vec<String>),
}

impl Offer {
    /// Whether a tool of this name is offered.
    pub fn has(&self, tool: &str) -> bool {
        match self {
            Self::Only(these) => these.contains(tool),
            Self::Hide(these) => !these.contains(tool),
        }
    }

    /// Whether every tool is, also one that there is not yet.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Applies a choice to these tools of this plugin.
    ///
    /// # Errors
    /// A report when a chosen tool does not exist; it names the nearest one.
    pub fn of(choice: &Choice, plugin: &str, tools: &[String]) -> Result<Self, ErrorReport> {
        let all = |words: &[String]| -> Result<BTreeSet<String>, ErrorReport> {
            words.iter().map(|word| named(word, plugin, tools)).collect()
        };
        Ok(match choice {
            Choice::All => Self::default(),
            Choice::Only(words) => Self::Only(all(words)?),
            Choice::Hide(words) => Self::Hide(all(words)?),
        })
    }
}

/// Finds a tool by its name, with or without the plugin's name in front.
fn named(word: &str, plugin: &str, tools: &[String]) -> Result<String, ErrorReport> {
    let full = format!("{plugin}_{word}");
    if let Some(tool) = tools.iter().find(|tool| **tool == word || **tool == full) {
        return Ok(tool.clone());
    }
    let short = |tool: &String| tool.strip_prefix(&format!("{plugin}_")).unwrap_or(tool).to_owned();
    let names: Vec<String> = tools.iter().cloned().chain(tools.iter().map(short)).collect();
    let report = ErrorReport::new(Code::UnknownName, format!("{plugin} has no tool {word:?}")).field("TOOL");
    Err(match likely(word, names.iter().map(String::as_str)) {
        Some(near) => report.hint(format!("did you mean {near}? hotcell tool list {plugin} shows them")),
        None => report.hint(format!("hotcell tool list {plugin} shows them")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tool_choice_covers_present_and_new_tools() {
        let tools = words("files_read files_list files_files_list files_write");
        for (choice, offered, new) in [
            (Choice::All, "files_read files_list files_files_list files_write", true),
            (Choice::Only(words("read files_list")), "files_read files_list", false),
            (Choice::Hide(words("write")), "files_read files_list files_files_list", true),
            (Choice::Hide(words("files_write read read")), "files_list files_files_list", true),
            (Choice::Hide(words("read list files_files_list write")), "", true),
        ] {
            let offer = Offer::of(&choice, "files", &tools).unwrap();
            let has: Vec<&str> = tools.iter().filter(|tool| offer.has(tool)).map(String::as_str).collect();
            assert_eq!((has.join(" "), offer.has("files_new")), (offered.to_owned(), new), "{choice:?}");
            assert_eq!(offer.is_all(), choice == Choice::All);
            let text = serde_json::to_string(&offer).unwrap();
            assert_eq!(serde_json::from_str::<Offer>(&text).unwrap(), offer);
        }
        for (word, near) in
            [("raed", Some("read")), ("files_lis", Some("files_list")), ("zzzzzz", None), ("", None)]
        {
            let report = Offer::of(
                &Choice::Only(words("read").into_iter().chain([word.to_owned()]).collect()),
                "files",
                &tools,
            );
            let hint = report.unwrap_err().hint.unwrap_or_default();
            match near {
                Some(near) => assert!(hint.contains(&format!("did you mean {near}?")), "{word}: {hint}"),
                None => assert!(hint.contains("hotcell tool list files"), "{word}: {hint}"),
            }
        }
    }
}
