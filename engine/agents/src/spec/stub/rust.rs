//! Stubs of Rust. Functions lose their bodies: they panic, or return values of their results' types, for which the plan's own types get code of their own.

mod known;
mod types;

use super::blank::{blank, group, skip, word};
use super::{Planned, Stub, Unplanned};
use crate::spec::plan::Plan;

/// The library.
const LIBRARY: &str = "src/lib.rs";
/// A program over it.
const PROGRAM: &str = "src/main.rs";
/// File that a stub adds.
const HELPER: &str = "src/hotcell_stub.rs";
/// Values by type.
const VALUES: &str = include_str!("values.rs.txt");
/// Words with which an item begins.
const OF_ITEMS: [&str; 17] = [
    "pub",
    "fn",
    "impl",
    "struct",
    "enum",
    "trait",
    "use",
    "mod",
    "const",
    "static",
    "type",
    "unsafe",
    "async",
    "extern",
    "union",
    "macro_rules",
    "crate",
];

/// A function as it is declared.
#[derive(Debug, PartialEq, Eq)]
struct Declared<'a> {
    name: &'a str,
    /// Result as it is in the code; empty without one.
    result: String,
    /// Place after the head, without `;` and body.
    head: usize,
    /// Place after all of it.
    after: usize,
    has_body: bool,
}

/// Name of the module of a source below `src`.
fn module(path: &str) -> Option<&str> {
    let name = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(name)
}

/// Tells if code has a module of a name.
fn names_module(code: &str, name: &str) -> bool {
    code.match_indices("mod ").any(|(at, found)| {
        word(code, skip(code, at + found.len(), true)) == name
            && !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// Checks the paths of the sources, and names the modules in the library.
pub(super) fn complete(plan: &mut Plan) -> Result<(), Unplanned> {
    let sources: Vec<String> =
        plan.files.iter().map(|file| file.path.clone()).filter(|path| path.ends_with(".rs")).collect();
    if let Some(other) = sources.iter().find(|path| module(path).is_none() || *path == HELPER) {
        return Err(Unplanned::Module(other.clone()));
    }
    let modules = sources.iter().filter(|path| *path != LIBRARY && *path != PROGRAM);
    let modules: Vec<&str> = modules.filter_map(|path| module(path)).collect();
    if let Some(program) = plan.files.iter().find(|file| file.path == PROGRAM) {
        let code = blank(&program.interface, false);
        if let Some(name) = modules.iter().find(|name| names_module(&code, name)) {
            return Err(Unplanned::ModuleOfProgram((*name).to_owned()));
        }
    }
    let Some(library) = plan.files.iter_mut().find(|file| file.path == LIBRARY) else {
        return if sources.is_empty() { Ok(()) } else { Err(Unplanned::NoLibrary) };
    };
    let code = blank(&library.interface, false);
    let missing = modules.into_iter().filter(|name| !names_module(&code, name));
    let lines: String = missing.map(|name| format!("pub mod {name};\n")).collect();
    if !lines.is_empty() {
        // At the end: attributes and comments of the library stand before all items.
        library.interface = format!("{}\n{lines}", library.interface).trim().to_owned();
    }
    Ok(())
}

pub(super) fn stubs(sources: &[&Planned], stub: Stub) -> Vec<(String, String)> {
    let of = |file: &&Planned| {
        // A program's functions are called by no test.
        let stub = if file.path == PROGRAM { Stub::Fails } else { stub };
        let text = text(&file.interface, stub);
        let main = if file.path == PROGRAM && !text.contains("fn main") { "fn main() {}\n" } else { "" };
        let helper = if file.path == LIBRARY && stub != Stub::Fails { "pub mod hotcell_stub;\n" } else { "" };
        (file.path.clone(), format!("#![allow(warnings)]\n{text}\n{main}{helper}"))
    };
    let mut all: Vec<_> = sources.iter().map(of).collect();
    if stub != Stub::Fails {
        let other = if stub == Stub::ReturnsOther { "true" } else { "false" };
        all.push((HELPER.to_owned(), VALUES.replace("IS_OTHER", other)));
    }
    all
}

/// An item that a stub changes or adds to.
enum Item<'a> {
    Function {
        declared: Declared<'a>,
        /// A trait's, without a body.
        is_bare: bool,
        is_const: bool,
        /// Type of the `impl` around it; empty without one.
        of: String,
    },
    /// A type, and the place after it.
    Type(types::Type, usize),
}

/// Owner of a brace.
#[derive(Default)]
enum Around {
    #[default]
    Other,
    Trait,
    /// An `impl` of a type.
    Impl(String),
    Macro,
}

/// Items of a source in their order.
fn items(code: &str) -> Vec<Item<'_>> {
    let (mut all, mut at) = (Vec::new(), 0);
    let (mut open, mut next) = (Vec::new(), Around::Other);
    while at < code.len() {
        let name = word(code, at);
        let after = at + name.len();
        match name {
            "" => {
                match code.as_bytes()[at] {
                    b'{' => open.push(std::mem::take(&mut next)),
                    b'}' => drop(open.pop()),
                    b';' => next = Around::Other,
                    _ => {}
                }
                at += code[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            "trait" => next = Around::Trait,
            "impl" => next = Around::Impl(implemented(code, after)),
            "mod" => next = Around::Other,
            "macro_rules" => next = Around::Macro,
            "struct" | "enum" => {
                next = Around::Other;
                let in_macro = open.iter().any(|around| matches!(around, Around::Macro));
                if !in_macro && let Some((of, end)) = types::declared(code, at) {
                    if has_condition(&code[..at]) {
                        at = end;
                        continue;
                    }
                    all.push(Item::Type(of, end));
                    at = end;
                    continue;
                }
            }
            "fn" => {
                if let Some(declared) = declared(code, at) {
                    let before = code[..at].trim_end();
                    let of = open.iter().rev().find_map(|around| match around {
                        Around::Impl(of) => Some(of.clone()),
                        _ => None,
                    });
                    at = declared.after;
                    all.push(Item::Function {
                        is_bare: matches!(open.last(), Some(Around::Trait)) && !declared.has_body,
                        is_const: before.ends_with("const") || before.ends_with("const unsafe"),
                        of: of.unwrap_or_default(),
                        declared,
                    });
                    continue;
                }
            }
            _ => {}
        }
        at = after;
    }
    all
}

/// Tells if the item that comes after this code is there on a condition.
fn has_condition(before: &str) -> bool {
    let from = before.rfind([';', '}', '{']).map_or(0, |at| at + 1);
    names_condition(&before[from..])
}

/// Tells if code has an attribute by which a part of it is left out.
fn names_condition(code: &str) -> bool {
    code.match_indices('#').any(|(at, _)| {
        let at = skip(code, at + 1, true);
        let at = skip(code, at + usize::from(code[at..].starts_with('!')), true);
        code[at..].starts_with('[') && word(code, skip(code, at + 1, true)).starts_with("cfg")
    })
}

/// Name of the type of an `impl`, whose head begins at a place; empty where it has no name.
fn implemented(code: &str, from: usize) -> String {
    let head = &code[from..];
    let head = &head[..head.find(['{', ';']).unwrap_or(head.len())];
    let begin = skip(head, 0, true);
    let begin = if head[begin..].starts_with('<') { angles(head, begin).unwrap_or(begin) } else { begin };
    let head = &head[begin..];
    let head = head.split_once(" for ").map_or(head, |(_, of)| of);
    let path = head.split(['<', ' ', '\n']).find(|part| !part.is_empty()).unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default().to_owned()
}

/// Text of a source from its items.
fn text(interface: &str, stub: Stub) -> String {
    let code = blank(interface, false);
    let (mut out, mut kept) = (String::new(), 0);
    for item in items(&code) {
        match item {
            Item::Function { declared, is_bare, is_const, .. } => {
                out.push_str(&interface[kept..declared.head]);
                if is_bare {
                    out.push(';');
                } else {
                    out.push_str(&format!(" {{ {} }}", body(&declared, stub, is_const)));
                }
                kept = declared.after;
            }
            Item::Type(of, end) if stub != Stub::Fails => {
                let made = of.made();
                let between = if made.is_empty() { "" } else { "\n" };
                out.push_str(&interface[kept..end]);
                out.push_str(&format!("{between}{made}"));
                kept = end;
            }
            Item::Type(..) => {}
        }
    }
    out.push_str(&interface[kept..]);
    out
}

/// Functions for whose results no stub has a value, as `name -> result`: they panic in each stub.
pub(super) fn unmade(sources: &[&Planned]) -> Vec<String> {
    let codes: Vec<(&str, String)> = sources
        .iter()
        .filter(|file| file.path != PROGRAM)
        .map(|file| (&*file.path, blank(&file.interface, false)))
        .collect();
    let all: Vec<Vec<Item<'_>>> = codes.iter().map(|(_, code)| items(code)).collect();
    let types = all.iter().flatten().filter_map(|item| match item {
        Item::Type(of, _) => Some(of),
        Item::Function { .. } => None,
    });
    let known = known::Known::of(types, codes.iter().map(|(_, code)| &**code));
    let unmade = all.iter().flatten().filter_map(|item| match item {
        Item::Function { declared, is_bare: false, is_const, of } => {
            let result = declared.result.as_str();
            let has_value = result.is_empty()
                || !panics(declared, *is_const) && (iterated(result).is_some() || known.makes(result, of));
            (!has_value && result != "!" && declared.name != "main").then(|| {
                let between = if of.is_empty() { "" } else { "::" };
                format!("{of}{between}{} -> {}", declared.name, crate::text::line(result, 100))
            })
        }
        _ => None,
    });
    unmade.collect()
}

/// Type of the items of a result that is any iterator.
fn iterated(result: &str) -> Option<&str> {
    let rest = result.strip_prefix("impl ")?.trim_start();
    let (path, _) = rest.split_once('<')?;
    let rest = &rest[path.len()..];
    let name = path.rsplit("::").next().unwrap_or(path).trim();
    let inner = rest[..angles(rest, 0)?].strip_prefix('<')?.strip_suffix('>')?;
    let item = inner.trim().strip_prefix("Item")?.trim_start().strip_prefix('=')?.trim();
    let is_iterator =
        matches!(name, "Iterator" | "IntoIterator" | "DoubleEndedIterator" | "ExactSizeIterator");
    (is_iterator && !item.contains("impl ")).then_some(item)
}

/// Tells if a function can only panic, whatever the type of its result.
fn panics(declared: &Declared<'_>, is_const: bool) -> bool {
    let result = declared.result.as_str();
    let is_opaque = (0..result.len()).any(|at| {
        result.as_bytes()[at] == b'i'
            && word(result, at) == "impl"
            && !result[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    });
    declared.name == "main" || is_const || is_opaque && iterated(result).is_none() || result == "!"
}

fn body(declared: &Declared<'_>, stub: Stub, is_const: bool) -> String {
    let result = declared.result.as_str();
    let iterated = iterated(result);
    if let (Stub::Fails, Some(item)) = (stub, iterated) {
        // Its type has to be known although it is never returned.
        return format!(
            "if true {{ panic!(\"{} is not written yet\") }} ::std::vec::Vec::<{item}>::new().into_iter()",
            declared.name
        );
    }
    if stub == Stub::Fails || panics(declared, is_const) {
        return format!("panic!(\"{} is not written yet\")", declared.name);
    }
    if result.is_empty() {
        return "crate::hotcell_stub::call()".to_owned();
    }
    match iterated {
        Some(item) => format!("crate::hotcell_value!(::std::vec::Vec<{item}>).into_iter()"),
        None => format!("crate::hotcell_value!({result})"),
    }
}

/// Reads the declaration of a function at its `fn`; `None` when it is a type.
fn declared(code: &str, from: usize) -> Option<Declared<'_>> {
    let bytes = code.as_bytes();
    let mut at = skip(code, from + "fn".len(), false);
    let name = word(code, at);
    at = skip(code, at + name.len(), true);
    if name.is_empty() {
        return None;
    }
    if bytes.get(at) == Some(&b'<') {
        at = skip(code, angles(code, at)?, true);
    }
    if bytes.get(at) != Some(&b'(') {
        return None;
    }
    at = group(code, at)?;
    let (from, mut depth) = (at, 0_i64);
    let mut result: Option<usize> = None;
    let mut of_result = None;
    let end = loop {
        match bytes.get(at) {
            Some(b'-') if bytes.get(at + 1) == Some(&b'>') => {
                result = result.or(Some(at + 2));
                at += 2;
                continue;
            }
            Some(b'(' | b'[') => {
                at = group(code, at)?;
                continue;
            }
            Some(b'<') => depth += 1,
            Some(b'>') => depth -= 1,
            Some(b'{' | b';' | b'}') | None => break at,
            Some(b'\n') if depth == 0 && ends_item(code, at) => break at,
            Some(b'w') if word(code, at) == "where" && code[..at].ends_with(|c: char| c.is_whitespace()) => {
                of_result = of_result.or(Some(at));
            }
            Some(_) => {}
        }
        at += 1;
    };
    let head = from + code[from..end].trim_end().len();
    let until = of_result.unwrap_or(head).min(head);
    let result = result.map(|from| code[from.min(until)..until].trim().to_owned()).unwrap_or_default();
    let has_body = bytes.get(end) == Some(&b'{');
    let after = match bytes.get(end) {
        Some(b'{') => group(code, end)?,
        Some(b';') => end + 1,
        _ => end,
    };
    Some(Declared { name, result, head, after, has_body })
}

/// Place after the generics that begin at a place; `None` when none begin there, or they have no end.
fn angles(code: &str, from: usize) -> Option<usize> {
    let (mut depth, mut before) = (0_usize, b' ');
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'<' => depth += 1,
            b'>' if before == b'-' => {}
            b'>' if depth <= 1 => return (depth == 1).then_some(at + 1),
            b'>' => depth -= 1,
            // The first one opens them.
            _ if depth == 0 => return None,
            _ => {}
        }
        before = byte;
    }
    None
}

/// Tells if an item begins after the end of a line, or nothing more comes.
fn ends_item(code: &str, from: usize) -> bool {
    let next = skip(code, from, true);
    let rest = &code[next..];
    rest.is_empty() || rest.starts_with(['#', '}']) || OF_ITEMS.contains(&word(code, next))
}

#[cfg(test)]
mod tests;
