//! Notebooks: code cells with their magics, and pages in what they have printed.

use crate::report::PartState;
use crate::rules::{Language, TextKind};
use crate::scan::Cx;
use serde_json::Value;

/// Reads a Jupyter notebook, one part a cell; `false` when it is none.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, text: &str) -> bool {
    let named = name.to_ascii_lowercase().ends_with(".ipynb");
    let marked = text.starts_with('{') && text.contains("\"nbformat\"");
    if !named && !marked {
        return false;
    }
    let Ok(book) = serde_json::from_str::<Value>(text) else {
        if named {
            cx.note_part(name, "notebook", PartState::Skipped("not JSON".to_owned()));
            return true;
        }
        return false;
    };
    let sheets =
        book.get("worksheets").and_then(Value::as_array).into_iter().flatten().filter_map(|w| w.get("cells"));
    let cells: Vec<&Value> =
        book.get("cells").into_iter().chain(sheets).filter_map(Value::as_array).flatten().collect();
    let kernel = book
        .pointer("/metadata/kernelspec/language")
        .or_else(|| book.pointer("/metadata/language_info/name"));
    let own = language_of(kernel.and_then(Value::as_str).unwrap_or("python"));
    for (number, cell) in cells.iter().enumerate() {
        let path = format!("{name}!cell-{number}");
        let source = lines(cell.get("source").or_else(|| cell.get("input")));
        if cell.get("cell_type").and_then(Value::as_str) == Some("code") {
            code(cx, &path, own, &source);
        } else {
            cx.read_part(&path, Language::Text, &source, false);
            page(cx, &path, &source);
        }
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            for (kind, data) in output.get("data").and_then(Value::as_object).into_iter().flatten() {
                match kind.as_str() {
                    "text/html" | "image/svg+xml" => page(cx, &path, &lines(Some(data))),
                    "application/javascript" => cx.read_part(
                        &format!("{path}!output"),
                        Language::JavaScript,
                        &lines(Some(data)),
                        false,
                    ),
                    _ => {}
                }
            }
        }
    }
    if cells.is_empty() {
        cx.note_part(name, "notebook", PartState::Parsed);
    }
    true
}

fn code(cx: &mut Cx<'_>, path: &str, own: Option<Language>, source: &str) {
    let first = source.lines().next().unwrap_or("").trim();
    let magic = first.strip_prefix("%%").map(|m| m.split_whitespace().next().unwrap_or(""));
    let rest = source.split_once('\n').map_or("", |(_, rest)| rest);
    match magic.map(str::to_ascii_lowercase).as_deref() {
        Some("bash" | "sh" | "script" | "!" | "shell" | "sx" | "system") => {
            cx.read_part(path, Language::Bash, rest, false);
        }
        Some("javascript" | "js") => cx.read_part(path, Language::JavaScript, rest, false),
        Some("sql") => cx.read_part(path, Language::Sql, rest, false),
        Some("html" | "svg") => page(cx, path, rest),
        Some("markdown" | "latex") => cx.read_part(path, Language::Text, rest, false),
        // What a file of this name will hold is read as its language says.
        Some("writefile" | "file") => {
            let name = first.split_whitespace().next_back().unwrap_or("");
            super::read(cx, &format!("{path}!{name}"), rest.as_bytes(), 1);
        }
        Some(_) => cx.read_part(path, Language::Python, rest, false),
        None => match own {
            Some(language) => cx.read_part(path, language, source, false),
            None => cx.note_part(path, "unknown", PartState::BytesOnly),
        },
    }
}

/// Scripts in a page.
fn page(cx: &mut Cx<'_>, path: &str, html: &str) {
    for script in super::scripts(html) {
        cx.read_part(&format!("{path}!script"), Language::JavaScript, script, false);
    }
}

fn lines(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn language_of(name: &str) -> Option<Language> {
    Some(match name.to_ascii_lowercase().as_str() {
        "python" | "python3" | "ipython" => Language::Python,
        "bash" | "sh" => Language::Bash,
        "javascript" | "typescript" => Language::JavaScript,
        "sql" => Language::Sql,
        "go" => Language::Go,
        "rust" => Language::Rust,
        "java" => Language::Java,
        "c++" | "c++17" => Language::Cpp,
        _ => return None,
    })
}

/// Text rules over something that is not read as a program.
pub(crate) fn plain(cx: &mut Cx<'_>, text: &str) {
    cx.text(TextKind::String, text, (0, text.len()), &[]);
}
