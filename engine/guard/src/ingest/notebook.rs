//! Notebooks: code cells with their magics, and HTML pages in their output.

use crate::report::PartState;
use serde_json::Value;

use crate::context::Cx;
use crate::language::Language;
use crate::rules::TextKind;

/// Reads a Jupyter notebook, one part per cell; `false` for any other file.
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
            code(cx, &path, own, &source, MAX_WRAPPERS);
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

/// Magics whose contents are a cell themselves.
const WRAPPERS: [&str; 5] = ["capture", "time", "timeit", "prun", "debug"];
/// Maximum nesting of these magics.
const MAX_WRAPPERS: u32 = 8;

fn code(cx: &mut Cx<'_>, path: &str, own: Option<Language>, source: &str, wrappers: u32) {
    let source = &cleaned(source);
    let (first, rest) = source.split_once(is_break).unwrap_or((source, ""));
    let first = first.trim();
    let magic = first.strip_prefix("%%").map(|m| m.split_whitespace().next().unwrap_or(""));
    match magic.map(str::to_ascii_lowercase).as_deref() {
        Some("bash" | "sh" | "script" | "!" | "shell" | "sx" | "system") => {
            cx.read_part(path, Language::Bash, rest, false);
        }
        Some("javascript" | "js") => cx.read_part(path, Language::JavaScript, rest, false),
        Some("sql") => cx.read_part(path, Language::Sql, rest, false),
        Some("html" | "svg") => page(cx, path, rest),
        Some("markdown" | "latex") => cx.read_part(path, Language::Text, rest, false),
        // The new file's contents are read by its name.
        Some("writefile" | "file") => {
            let name = first.split_whitespace().next_back().unwrap_or("");
            super::read(cx, &format!("{path}!{name}"), rest.as_bytes(), 1);
        }
        Some(magic) if WRAPPERS.contains(&magic) && wrappers > 0 => {
            code(cx, path, own, rest, wrappers - 1);
        }
        Some(_) => cx.read_part(path, Language::Python, rest, false),
        None => match own {
            Some(Language::Python) => {
                cx.read_part(path, Language::Python, source, false);
                if let Some(called) = called(source) {
                    cx.read_part(&format!("{path}!called"), Language::Python, &called, false);
                }
                // A magic without its sign, which is optional when it is alone.
                if let Some(command) = ["sx ", "system "].iter().find_map(|word| first.strip_prefix(word))
                    && rest.trim().is_empty()
                {
                    cx.read_part(&format!("{path}!called"), Language::Bash, command, false);
                }
            }
            Some(language) => cx.read_part(path, language, source, false),
            None => cx.note_part(path, "unknown", PartState::BytesOnly),
        },
    }
}

/// True where IPython begins a new line. <https://docs.python.org/3/library/stdtypes.html#str.splitlines>
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A cell as IPython transforms it before it looks for magics: without leading empty lines and without
/// prompts of a pasted session, and with line breaks normalised. (`IPython.core.inputtransformer2`)
fn cleaned(source: &str) -> String {
    let source = source.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '\x1c'..='\x1f'));
    let mut out = String::with_capacity(source.len());
    for (at, c) in source.char_indices() {
        let rest = source[at + c.len_utf8()..].trim_start_matches([' ', '\t']);
        match c != '\n' && is_break(c) && rest.starts_with(['!', '%', ',', ';', '/', '?', '>']) {
            // After a backslash only a real line end continues the line.
            true => out.push_str(if out.ends_with('\\') { " \n" } else { "\n" }),
            false => out.push(c),
        }
    }
    if without_prompt(&out).is_none() {
        return out;
    }
    out.split_inclusive('\n').map(|line| without_prompt(line).unwrap_or(line)).collect()
}

/// A line without a prompt of Python or IPython.
fn without_prompt(line: &str) -> Option<&str> {
    let plain = [">>> ", "... ", ">>>", "..."].iter().find_map(|prompt| line.strip_prefix(prompt));
    plain.or_else(|| {
        let (prompt, rest) = line.split_once(": ").or_else(|| line.split_once(':'))?;
        let number = prompt.strip_prefix("In [").and_then(|number| number.strip_suffix(']'));
        let numbered = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let dots =
            prompt.trim_start().strip_prefix("...").is_some_and(|more| more.bytes().all(|b| b == b'.'));
        (numbered || dots).then_some(rest)
    })
}

/// Expands lines that IPython takes for calls: `,f a b` is `f("a", "b")`, `;f a b` is `f("a b")`, `/f a, b`
/// is `f(a, b)`; `None` when there are no such lines.
fn called(source: &str) -> Option<String> {
    let mut out = String::with_capacity(source.len());
    let mut any = false;
    for line in source.split_inclusive('\n') {
        match call(line.trim()) {
            Some(call) => {
                any = true;
                out.push_str(&line[..line.len() - line.trim_start().len()]);
                out.push_str(&call);
                out.push('\n');
            }
            None => out.push_str(line),
        }
    }
    any.then_some(out)
}

fn call(line: &str) -> Option<String> {
    let sign = line.chars().next().filter(|sign| matches!(sign, ',' | ';' | '/'))?;
    let (name, given) = line[1..].split_once([' ', '\t'])?;
    let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.')) {
        return None;
    }
    let given = match sign {
        ',' => given.split_whitespace().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "),
        ';' => format!("{:?}", given.trim()),
        _ => given.to_owned(),
    };
    Some(format!("{name}({given})"))
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

/// Applies only text rules, to text that is not read as a program.
pub(crate) fn plain(cx: &mut Cx<'_>, text: &str) {
    cx.text(TextKind::String, text, (0, text.len()), &[]);
}
