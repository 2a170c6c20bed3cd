//! Writes a pickle's calls as Python.

use super::opcodes::{Item, Walk};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write as _;

/// Maximum size of the source, in bytes; a pickle with more calls counts as not fully read.
const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Maximum size of an argument list, in bytes; of longer ones only the call is written.
const MAX_ARGUMENTS_BYTES: usize = 64 << 10;
/// Maximum number of calls per name: further arguments add nothing new.
const MAX_CALLS_PER_NAME: u32 = 64;
/// Maximum depth of arguments.
const MAX_ARGUMENT_DEPTH: usize = 16;

/// Writes every call on a line of its own, in order; `None` when the limit is exceeded.
pub(super) fn source(walk: &Walk<'_>) -> Option<String> {
    let mut out = String::new();
    let mut imported = FxHashSet::default();
    for name in &walk.globals {
        let module = canonical(name);
        if let Some((module, _)) = module.rsplit_once('.')
            && imported.insert(module.to_owned())
            && module != "builtins"
            && is_path(module)
        {
            let _infallible = writeln!(out, "import {module}");
        }
    }
    let mut times: FxHashMap<usize, u32> = FxHashMap::default();
    for (at, call) in walk.calls.iter().enumerate() {
        if let Item::Global(name) = call.callee {
            let count = times.entry(name).or_default();
            *count += 1;
            if *count > MAX_CALLS_PER_NAME && !leads_on(&walk.globals[name]) {
                continue;
            }
        }
        let mut args = String::new();
        let known = match call.args {
            Item::Sequence(items) => items_of(walk, &walk.sequences[items], &mut args, 0),
            other => {
                args.push('*');
                item(walk, other, &mut args, 0)
            }
        };
        if !known {
            args = "unknown".to_owned();
        }
        let _infallible = write!(out, "v{at} = ");
        item(walk, call.callee, &mut out, 0);
        let _infallible = writeln!(out, "({args})");
        if out.len() > MAX_SOURCE_BYTES {
            return None;
        }
    }
    Some(out)
}

/// True when the result of such a call depends on its arguments, so that every call counts.
fn leads_on(name: &str) -> bool {
    ["builtins.", "operator.", "functools.", "importlib.", "types."]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Modules that execute something, or lead to it.
const MODULES: [&str; 12] = [
    "os",
    "sys",
    "subprocess",
    "builtins",
    "importlib",
    "shutil",
    "ctypes",
    "socket",
    "posix",
    "nt",
    "pty",
    "types",
];

/// True for a name of such a module itself, which no other text begins with.
pub(super) fn is_of_system(name: &str) -> bool {
    name.split_once('.').is_some_and(|(module, _)| MODULES.contains(&module))
        && !super::known::is_needed(name)
}

/// Shortest name: a module reached through another one gets its own name.
pub(super) fn canonical(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let last = parts.len().saturating_sub(1);
    let from = parts[..last].iter().rposition(|part| MODULES.contains(part)).unwrap_or(0);
    parts[from..].join(".")
}

fn is_path(name: &str) -> bool {
    name.split('.').all(|part| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

fn items_of(walk: &Walk<'_>, items: &[Item<'_>], out: &mut String, depth: usize) -> bool {
    items.iter().all(|own| {
        let known = item(walk, *own, out, depth);
        out.push_str(", ");
        known
    })
}

/// Writes a value; `false` when a limit is exceeded.
fn item(walk: &Walk<'_>, value: Item<'_>, out: &mut String, depth: usize) -> bool {
    match value {
        Item::Text(text) => quote(&String::from_utf8_lossy(text), out),
        Item::Bytes(bytes) => {
            out.push('b');
            quote(&bytes.iter().map(|b| char::from(*b)).collect::<String>(), out);
        }
        Item::Int(number) => _ = write!(out, "{number}"),
        Item::Global(at) => {
            let name = canonical(&walk.globals[at]);
            let name = name.strip_prefix("builtins.").unwrap_or(&name);
            out.push_str(if is_path(name) { name } else { "unknown" });
        }
        Item::Result(at) => _ = write!(out, "v{at}"),
        Item::Sequence(at) => {
            if depth == MAX_ARGUMENT_DEPTH {
                return false;
            }
            out.push('[');
            let known =
                out.len() < MAX_ARGUMENTS_BYTES && items_of(walk, &walk.sequences[at], out, depth + 1);
            out.push(']');
            return known;
        }
        Item::Other => out.push_str("None"),
    }
    out.len() < MAX_ARGUMENTS_BYTES || depth == 0
}

/// Writes a text as a Python literal.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars().take(MAX_ARGUMENTS_BYTES) {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if (c as u32) < 256 => _ = write!(out, "\\x{:02x}", c as u32),
            c => _ = write!(out, "\\U{:08x}", c as u32),
        }
    }
    out.push('"');
}

/// A text as a Python literal.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(text, &mut out);
    out
}
