//! Short prompts, for very small models: a few sentences about one file, and code in a fence. The full instructions take a model of a hundred million
//! parameters so much attention that it writes no code at all.

use hotcell_models::Request;

use super::{FRESH_TEMPERATURE, REPAIR_TEMPERATURE, Task, Unusable, asked, printed};
use crate::machine::Ask;
use crate::text::{block, ends};

/// Maximum size of failures and output, in bytes.
const MAX_PRINTED_BYTES: usize = 1200;

/// The request for a question about the only file of a project.
#[must_use]
pub fn request(
    ask: Ask,
    task: &Task<'_>,
    path: &str,
    unusable: Option<Unusable<'_>>,
    max_output_tokens: u32,
    seed: Option<i64>,
) -> Request {
    // A long answer of before, and the reason why it was not usable, lead such a model further away.
    let unusable = unusable.filter(|unusable| unusable.answer.len() < MAX_PRINTED_BYTES);
    Request {
        messages: asked(&text(ask, task, path), unusable),
        max_output_tokens,
        temperature: Some(if ask == Ask::Fresh { FRESH_TEMPERATURE } else { REPAIR_TEMPERATURE }),
        seed,
        ..Request::default()
    }
}

fn text(ask: Ask, task: &Task<'_>, path: &str) -> String {
    let old = task.files.iter().find(|file| file.path == path);
    // A fresh sample of a program that has to be made sees nothing of before.
    let old = old.filter(|_| ask == Ask::Repair || task.brief.is_none());
    let mut parts = Vec::new();
    parts.push(match old {
        Some(_) => format!("The tests of the file {path} fail."),
        None => format!("Write the file {path}."),
    });
    parts.extend(task.brief.or(task.words).map(|words| words.trim().to_owned()));
    parts.extend(task.constraints.iter().map(|constraint| format!("Also: {constraint}")));
    if let Some(old) = old {
        parts.push(format!("```\n{}\n```", old.text.trim_end()));
        let printed = task.evidence.map(printed).unwrap_or_default();
        if !printed.is_empty() {
            parts.push(block(task.word, "messages of the tests", &ends(&printed, MAX_PRINTED_BYTES)));
        }
        parts.push("Answer with the corrected code of the whole file in one block.".to_owned());
    } else {
        parts.push("Answer with the code of the whole file in one block, without tests.".to_owned());
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use hotcell_models::Message;

    use super::*;
    use crate::prompt::Shown;

    fn said(ask: Ask, task: &Task<'_>) -> String {
        let request = request(ask, task, "calc.py", None, 100, Some(1));
        assert!(request.check().is_ok() && request.system.is_none());
        match request.messages.as_slice() {
            [Message::User { text }] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn short_prompts_have_one_file_and_show_it_for_a_repair_only() {
        let files = [Shown { path: "calc.py".to_owned(), text: "x = 1\n".to_owned(), is_test: false }];
        let task = Task { brief: Some("add(a, b) adds."), files: &files, word: "w0rd", ..Task::default() };
        let first = said(Ask::First, &task);
        assert!(first.starts_with("Write the file calc.py.\n\nadd(a, b) adds.") && !first.contains("x = 1"));
        assert_eq!(said(Ask::Fresh, &task), first);
        assert!(said(Ask::Repair, &task).contains("```\nx = 1\n```"));
        // A project that is there is shown always: nothing else says what the file should do.
        let given = Task { brief: None, ..task };
        assert!(said(Ask::Fresh, &given).contains("x = 1"));
    }
}
