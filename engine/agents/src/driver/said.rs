//! Notes of a front end that a prompt has: instructions that came while the session ran, and the operator's words before the instructions.

use serde_json::Value;

/// Kind of a note with an instruction.
pub const INSTRUCTION: &str = "instruction";
/// Kind of a note with the operator's words before the instructions; the last one counts.
pub const BASE_PROMPT: &str = "base_prompt";

/// Contents of notes that a prompt has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Instructions, in their order.
    pub instructions: Vec<String>,
    /// Operator's words.
    pub base_prompt: Option<String>,
}

impl Said {
    /// From all notes of a session.
    pub(crate) fn of(notes: &[(String, Value)]) -> Self {
        let mut said = Self::default();
        for (what, value) in notes {
            let Some(text) = value.as_str() else { continue };
            match what.as_str() {
                INSTRUCTION => said.instructions.push(text.to_owned()),
                BASE_PROMPT => said.base_prompt = Some(text.to_owned()),
                _ => {}
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts_have_instructions_and_the_last_base_prompt() {
        let note = |what: &str, value| (what.to_owned(), value);
        let notes = [
            note(INSTRUCTION, json!("a")),
            note(BASE_PROMPT, json!("one")),
            note("caller", json!("c")),
            note(INSTRUCTION, json!({ "no": "text" })),
            note(BASE_PROMPT, json!("two")),
            note(INSTRUCTION, json!("b")),
        ];
        let want =
            Said { instructions: vec!["a".to_owned(), "b".to_owned()], base_prompt: Some("two".to_owned()) };
        assert_eq!(Said::of(&notes), want);
    }
}
