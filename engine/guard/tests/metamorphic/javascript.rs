//! JavaScript: members in other spellings, and code in code.

use crate::{Transform, base64, decoy, hex, quoted};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Transforms that preserve the program's behaviour.
pub const ALL: &[Transform] = &[
    ("computed members", |text| members(text, |name| format!("[\"{name}\"]"))),
    ("concatenated members", |text| {
        members(text, |name| {
            let (front, back) = name.split_at(name.len() / 2);
            format!("['{front}' + '{back}']")
        })
    }),
    ("template members", |text| members(text, |name| format!("[`{name}`]"))),
    ("joined members", |text| {
        members(text, |name| {
            let letters: Vec<String> = name.chars().map(|c| format!("'{c}'")).collect();
            format!("[[{}].join('')]", letters.join(", "))
        })
    }),
    ("hex members", |text| {
        members(text, |name| {
            format!("[\"{}\"]", name.bytes().map(|b| format!("\\x{b:02x}")).collect::<String>())
        })
    }),
    ("escaped names", |text| {
        members(text, |name| format!(".\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]))
    }),
    ("sequence", |text| replace(text, &CALLEE, |found| format!("{}(0, {})(", &found[1], &found[2]))),
    ("require by another name", |text| {
        let renamed = replace(text, &REQUIRE, |found| format!("{}zq(", &found[1]))?;
        (!text.contains("import ")).then(|| format!("const zq = require;\n{renamed}"))
    }),
    ("hex texts", |text| {
        replace(text, &STRING, |found| {
            format!("'{}'", found[1].bytes().map(|b| format!("\\x{b:02x}")).collect::<String>())
        })
    }),
    ("concatenated texts", |text| {
        replace(text, &STRING, |found| {
            let (front, back) = found[1].split_at(found[1].len() / 2);
            format!("('{front}' + '{back}')")
        })
        .filter(|_| !text.contains("import ") && !text.contains("from "))
    }),
    ("comments", |text| spread(text, "/* x */")),
    ("newlines", |text| spread(text, "\n  ")),
    ("carriage returns", |text| (!text.contains('`')).then(|| text.replace('\n', "\r\n"))),
    ("decoy", |text| (!text.starts_with("#!")).then(|| format!("{}{text}", decoy("// ")))),
    ("in a function", |text| script(text).then(|| format!("(function () {{\n{text}\n}})();\n"))),
    ("in an async arrow", |text| script(text).then(|| format!("(async () => {{\n{text}\n}})();\n"))),
    ("in a class", |text| script(text).then(|| format!("class Z {{ static {{\n{text}\n}} }}\n"))),
    ("in a try", |text| script(text).then(|| format!("try {{\n{text}\n}} catch (zq) {{}}\n"))),
    ("in an if", |text| script(text).then(|| format!("if (Date.now() > 1) {{\n{text}\n}}\n"))),
    ("eval", |text| script(text).then(|| format!("eval({})", quoted(text)))),
    ("Function", |text| script(text).then(|| format!("new Function({})()", quoted(text)))),
    ("timer", |text| script(text).then(|| format!("setTimeout({}, 1)", quoted(text)))),
    ("atob", |text| script(text).then(|| format!("eval(atob('{}'))", base64(text)))),
    ("Buffer", |text| script(text).then(|| format!("eval(Buffer.from('{}', 'hex').toString())", hex(text)))),
    ("reversed", |text| {
        let back: String = text.chars().rev().collect();
        script(text).then(|| format!("eval({}.split('').reverse().join(''))", quoted(&back)))
    }),
];

/// Transforms after which the code is not executed.
pub const HARMLESS: &[Transform] = &[
    ("in comments", |text| {
        Some(text.lines().map(|line| format!("// {line}\n")).collect::<String>() + "let x = 1;\n")
    }),
    ("in a text", |text| Some(format!("let x = {};\n", quoted(text)))),
];

#[allow(clippy::expect_used)]
static MEMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([\w)\]])\.([A-Za-z_]\w+)\(").expect("a pattern"));
#[allow(clippy::expect_used)]
static CALLEE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(^|[\s;=({,])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\(").expect("a pattern"));
#[allow(clippy::expect_used)]
static REQUIRE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|[^.\w])require\(").expect("a pattern"));
#[allow(clippy::expect_used)]
static STRING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"'([A-Za-z0-9_:/. -]{2,})'").expect("a pattern"));

/// True when the code may be inside a function or a text.
fn script(text: &str) -> bool {
    !["import ", "export ", "#!", "await "].iter().any(|word| text.contains(word))
}

fn replace(text: &str, pattern: &Regex, new: impl Fn(&Captures<'_>) -> String) -> Option<String> {
    // Code in string literals is left out.
    if text.contains('`')
        || text.contains('"')
        || text.contains("new ")
        || text.contains("function")
        || text.contains('/')
    {
        return None;
    }
    let out = pattern.replace_all(text, |found: &Captures<'_>| new(found)).into_owned();
    (out != text).then_some(out)
}

fn members(text: &str, spell: impl Fn(&str) -> String) -> Option<String> {
    replace(text, &MEMBER, |found| format!("{}{}(", &found[1], spell(&found[2])))
}

/// Inserts a text after every bracket outside of literals.
fn spread(text: &str, insert: &str) -> Option<String> {
    if text.contains(['`', '/']) || text.starts_with("#!") {
        return None;
    }
    let (mut out, mut quote) = (String::new(), None);
    for c in text.chars() {
        match quote {
            None if "'\"".contains(c) => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => {}
        }
        out.push(c);
        if quote.is_none() && "(,{".contains(c) {
            out.push_str(insert);
        }
    }
    (out != text).then_some(out)
}
