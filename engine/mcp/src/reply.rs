//! Answers of tools: a value with words, or an error.

use hotcell_state::report::{ErrorReport, printable_line};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::Serialize;
use serde_json::Value;

use crate::text::{barred, told_back};

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

/// Whether the words of an error name the argument that it is about.
fn names(report: &ErrorReport, field: &str) -> bool {
    let last = field.rsplit('.').next().unwrap_or(field).split('[').next().unwrap_or(field);
    let said = report.to_string();
    said.contains(field) || said.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == last)
}

/// A line of ours that contains text of others: further lines of that text are put behind bars.
fn own_line(words: &str) -> String {
    let (first, rest) = words.split_once('\n').unwrap_or((words, ""));
    let first = printable_line(first);
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
