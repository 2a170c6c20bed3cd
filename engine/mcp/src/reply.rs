//! Answers of tools: a value with words, or an error.

use hotcell_state::report::{ErrorReport, printable_line, printable_message};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::Serialize;
use serde_json::Value;

use crate::text::{barred, told_back};
use crate::toolsets::{Toolsets, said_off};

/// An answer with an error. It has no structured content, which would have to match the tool's output schema.
pub(crate) fn refused(report: &ErrorReport) -> CallToolResult {
    let mut report = report.clone();
    if let Some(field) = report.field.as_deref().filter(|field| !names(&report, field)) {
        report.message = format!("{}: {}", printable_line(field), report.message);
    }
    report.message = told_back(&report.message);
    report.hint = report.hint.as_deref().map(told_back);
    let words = own_line(&report.to_string());
    report.field = report.field.as_deref().map(|field| printable_line(&told_back(field)));
    report.message = own_line(&report.message);
    report.hint = report.hint.as_deref().map(own_line);
    let mut result = CallToolResult::error(vec![ContentBlock::text(words)]);
    if let Ok(error) = serde_json::to_value(&report) {
        let mut meta = MetaObject::new();
        meta.0.insert("hotcell/error".to_owned(), error);
        result.meta = Some(meta);
    }
    result
}

/// Tells in an error which of the tools that it names are off: its words are of crates that know no toolsets.
pub(crate) fn tell_off(toolsets: &Toolsets, result: &mut CallToolResult) {
    if result.is_error != Some(true) {
        return;
    }
    let Some(ContentBlock::Text(text)) = result.content.first_mut() else { return };
    let off = toolsets.off_in(&text.text);
    if off.is_empty() {
        return;
    }
    let note = said_off(&off);
    let end = text.text.find('\n').unwrap_or(text.text.len());
    text.text.insert_str(end, &format!(" ({note})"));
    let error = result.meta.as_mut().and_then(|meta| meta.0.get_mut("hotcell/error"));
    if let Some(Value::String(hint)) = error.and_then(|error| error.get_mut("hint")) {
        hint.push_str(&format!(" ({note})"));
    }
}

/// Whether the words of an error name the argument that it is about.
fn names(report: &ErrorReport, field: &str) -> bool {
    let last = field.rsplit('.').next().unwrap_or(field).split('[').next().unwrap_or(field);
    let said = report.to_string();
    said.contains(field) || said.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == last)
}

/// A line of ours that contains text of others: further lines of that text are put behind bars.
fn own_line(words: &str) -> String {
    let (first, rest) = words.split_once('\n').unwrap_or((words, ""));
    // Tabs stay, as in [`printable_line`].
    let first = first.split('\t').map(printable_message).collect::<Vec<_>>().join("\t");
    if rest.is_empty() { first } else { format!("{first}\n{}", barred(rest).trim_end_matches('\n')) }
}

/// An answer with a value, and a text about it.
pub(crate) fn answered<T: Serialize>(value: &T, words: impl Into<String>) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(words)]);
    let mut structure = serde_json::to_value(value).unwrap_or_default();
    without_nulls(&mut structure);
    result.structured_content = Some(structure);
    result
}

/// Removes null values, at any depth.
pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use hotcell_state::report::Code;

    use super::*;

    #[test]
    fn errors_tell_which_of_their_tools_are_off() {
        let report =
            |hint: &str| ErrorReport::new(Code::UnknownName, "\"a\" is not there").field("path").hint(hint);
        for (hint, names, want) in [
            (
                "workspace_list shows it",
                &["default"][..],
                " (not offered by this server: workspace_list (toolset workspace))",
            ),
            ("workspace_list shows it\nand workspace_diff", &["workspace"], ""),
            ("workspace_read shows it", &["default"], ""),
        ] {
            let toolsets = Toolsets::parse(names, &[]).unwrap();
            let plain = refused(&report(hint));
            let mut told = plain.clone();
            tell_off(&toolsets, &mut told);
            let words = |result: &CallToolResult| match result.content.first() {
                Some(ContentBlock::Text(text)) => text.text.clone(),
                other => panic!("{other:?}"),
            };
            assert_eq!(words(&told), words(&plain) + want, "{hint}");
            let hint_of = |result: &CallToolResult| {
                result.meta.as_ref().unwrap().0["hotcell/error"]["hint"].as_str().unwrap().to_owned()
            };
            assert_eq!(hint_of(&told), hint_of(&plain) + want, "{hint}");
        }
        let mut good = answered(&serde_json::json!({}), "workspace_list shows it");
        tell_off(&Toolsets::default(), &mut good);
        assert!(!format!("{good:?}").contains("not offered"));
    }
}
