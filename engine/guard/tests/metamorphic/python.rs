//! Python: edits at places given by the parser, so that strings and nested calls stay intact.

use crate::{Transform, base64, decoy, hex, quoted};
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, Stmt};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged, TextRange};

/// Transforms that preserve the program's behaviour.
pub const ALL: &[Transform] = &[
    ("import as", import_as),
    ("__import__", dunder_import),
    ("importlib", importlib),
    ("rebind", rebind),
    ("getattr", |text| attributes(text, |name| format!(", '{name}')"))),
    ("getattr concat", |text| {
        attributes(text, |name| {
            let (front, back) = name.split_at(name.len() / 2);
            format!(", '{front}' + '{back}')")
        })
    }),
    ("getattr reversed", |text| {
        attributes(text, |name| format!(", '{}'[::-1])", name.chars().rev().collect::<String>()))
    }),
    ("nfkc", nfkc),
    ("renamed", renamed),
    ("comments", comments),
    ("newlines in brackets", |text| after(text, |kind| kind == TokenKind::Lpar, "  # nothing\n")),
    ("continued lines", |text| after(text, |kind| kind == TokenKind::Dot, " \\\n")),
    ("spaces", |text| {
        after(text, |kind| matches!(kind, TokenKind::Dot | TokenKind::Lpar | TokenKind::Comma), "  \t ")
    }),
    ("carriage returns", |text| (!text.contains("'''")).then(|| text.replace('\n', "\r\n"))),
    ("decoy", |text| {
        plain(text).then(|| format!("{}import os  # os.system('ls') is not called\n{text}", decoy("# ")))
    }),
    ("dead code", |text| plain(text).then(|| format!("zq = 1\nif zq == 2:\n    print('never')\n{text}"))),
    ("in a function", |text| inside(text, "def zq():", "zq()")),
    ("in a nested function", |text| inside(&inside(text, "def zr():", "zr()")?, "def zq():", "zq()")),
    // Names in a class are not visible in its methods.
    ("in a class", |text| {
        let scopes = ["def ", "class ", "lambda", " for "].iter().any(|word| text.contains(word));
        inside(text, "class Zq:", "").filter(|_| !scopes)
    }),
    ("in an if", |text| inside(text, "if len('x') == 1:", "")),
    ("in a try", |text| inside(text, "try:", "except ValueError:\n    pass")),
    ("in a with", |text| inside(text, "with open('zq') as zq:", "")),
    ("in a string", |text| plain(text).then(|| format!("exec({})", quoted(text)))),
    ("compiled", |text| plain(text).then(|| format!("exec(compile({}, 'x', 'exec'))", quoted(text)))),
    ("base64", |text| {
        plain(text).then(|| format!("import base64\nexec(base64.b64decode('{}'))", base64(text)))
    }),
    ("hex", |text| plain(text).then(|| format!("exec(bytes.fromhex('{}').decode())", hex(text)))),
    ("characters", |text| {
        let codes: Vec<String> = text.chars().map(|c| u32::from(c).to_string()).collect();
        plain(text).then(|| format!("exec(''.join(map(chr, [{}])))", codes.join(", ")))
    }),
    ("reversed", |text| {
        plain(text).then(|| format!("exec({}[::-1])", quoted(&text.chars().rev().collect::<String>())))
    }),
];

/// Transforms after which the code is not executed.
pub const HARMLESS: &[Transform] = &[
    ("in comments", |text| {
        Some(text.lines().map(|line| format!("# {line}\n")).collect::<String>() + "x = 1\n")
    }),
    ("in a docstring", |text| {
        (!text.contains("\"\"\"") && !text.contains('\\'))
            .then(|| format!("def f():\n    \"\"\"{text}\n    \"\"\"\n"))
    }),
    ("in a text", |text| Some(format!("x = {}\n", quoted(text)))),
];

/// True when the code may follow other lines.
fn plain(text: &str) -> bool {
    !text.starts_with("#!") && !text.contains("__future__") && !text.contains("coding")
}

fn inside(text: &str, head: &str, tail: &str) -> Option<String> {
    let parsed = parse_module(text).ok()?;
    let bound = |stmt: &Stmt| matches!(stmt, Stmt::ImportFrom(import) if import.names.iter().any(|n| n.name.as_str() == "*"));
    // Lines within brackets and strings may begin at any column; those of strings must not be moved.
    let moves = parsed.tokens().iter().any(|token| {
        matches!(token.kind(), TokenKind::String | TokenKind::FStringMiddle)
            && text[token.range()].contains('\n')
    });
    let special = text.contains("__doc__") || text.contains("__file__");
    if !plain(text) || moves || special || parsed.suite().iter().any(bound) {
        return None;
    }
    let body: String = text.lines().map(|line| format!("    {line}\n")).collect();
    Some(format!("{head}\n{body}{tail}\n"))
}

/// Inserts a text after every token of a kind.
fn after(text: &str, wanted: fn(TokenKind) -> bool, insert: &str) -> Option<String> {
    let parsed = parse_module(text).ok()?;
    let mut edits = Vec::new();
    let mut depth = 0;
    for token in parsed.tokens() {
        match token.kind() {
            TokenKind::FStringStart => depth += 1,
            TokenKind::FStringEnd => depth -= 1,
            kind if depth == 0 && wanted(kind) => {
                edits.push((TextRange::empty(token.range().end()), insert.to_owned()));
            }
            _ => {}
        }
    }
    apply(text, edits)
}

fn comments(text: &str) -> Option<String> {
    if !plain(text) {
        return None;
    }
    let parsed = parse_module(text).ok()?;
    let ends = parsed.tokens().iter().filter(|t| t.kind() == TokenKind::Newline && !t.range().is_empty());
    let edits =
        ends.map(|t| (TextRange::empty(t.range().start()), "  # print('hello')".to_owned())).collect();
    apply(text, edits)
}

/// Applies edits; `None` without edits, or when the result does not parse.
fn apply(text: &str, mut edits: Vec<(TextRange, String)>) -> Option<String> {
    if edits.is_empty() {
        return None;
    }
    edits.sort_by_key(|(range, _)| range.start());
    let (mut out, mut at) = (String::new(), 0);
    for (range, new) in edits {
        if range.start().to_usize() < at {
            return None;
        }
        out.push_str(&text[at..range.start().to_usize()]);
        out.push_str(&new);
        at = range.end().to_usize();
    }
    out.push_str(&text[at..]);
    parse_module(&out).is_ok().then_some(out)
}

#[derive(Default)]
struct Calls<'a> {
    /// Called functions, as `a.b.c` or a name.
    callees: Vec<&'a Expr>,
    /// `import a`, `from a import b` at any depth.
    imports: Vec<&'a Stmt>,
    /// Names and attributes that are read.
    reads: Vec<&'a Expr>,
    /// Names bound by assignment.
    bound: Vec<&'a Expr>,
}

impl<'a> Visitor<'a> for Calls<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => self.callees.push(&call.func),
            Expr::Name(name) if name.ctx.is_load() => self.reads.push(expr),
            Expr::Name(name) if name.ctx.is_store() => self.bound.push(expr),
            Expr::Attribute(_) => self.reads.push(expr),
            _ => {}
        }
        walk_expr(self, expr);
    }
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if matches!(stmt, Stmt::Import(_) | Stmt::ImportFrom(_)) {
            self.imports.push(stmt);
        }
        walk_stmt(self, stmt);
    }
}

fn with_calls(text: &str, edit: impl FnOnce(&Calls<'_>) -> Vec<(TextRange, String)>) -> Option<String> {
    let parsed = parse_module(text).ok()?;
    let mut calls = Calls::default();
    calls.visit_body(parsed.suite());
    apply(text, edit(&calls))
}

/// `a.b(…)` becomes `getattr(a, 'b')(…)`.
fn attributes(text: &str, spell: impl Fn(&str) -> String) -> Option<String> {
    with_calls(text, |calls| {
        let mut edits = Vec::new();
        for callee in &calls.callees {
            if let Expr::Attribute(attribute) = callee {
                edits.push((TextRange::empty(callee.start()), "getattr(".to_owned()));
                let name = TextRange::new(attribute.value.end(), callee.end());
                edits.push((name, spell(attribute.attr.as_str())));
            }
        }
        edits
    })
}

/// `a.b(…)` becomes `(zq := a.b)(…)`.
fn rebind(text: &str) -> Option<String> {
    with_calls(text, |calls| {
        let mut edits = Vec::new();
        for (number, callee) in calls.callees.iter().enumerate() {
            edits.push((TextRange::empty(callee.start()), format!("(zq{number} := ")));
            edits.push((TextRange::empty(callee.end()), ")".to_owned()));
        }
        edits
    })
}

/// Names bound by an import, each with its target and the source that replaces the import.
fn imports(
    text: &str,
    new: impl Fn(usize, Option<&str>, &str, Option<&str>) -> Option<(String, String)>,
) -> Option<String> {
    with_calls(text, |calls| {
        let mut edits = Vec::new();
        for (number, stmt) in calls.imports.iter().enumerate() {
            let (module, names) = match stmt {
                Stmt::Import(import) => (None, &import.names),
                Stmt::ImportFrom(import) if import.level == 0 => (import.module.as_deref(), &import.names),
                _ => continue,
            };
            let [only] = &names[..] else { continue };
            if only.name.as_str() == "*" {
                continue;
            }
            let written = only.name.as_str();
            let Some((line, local)) = new(number, module, written, only.asname.as_deref()) else { continue };
            let old = only.asname.as_deref().unwrap_or(written);
            edits.push((stmt.range(), line));
            for read in &calls.reads {
                if text[read.range()] == *old {
                    edits.push((read.range(), local.clone()));
                }
            }
        }
        edits
    })
}

fn import_as(text: &str) -> Option<String> {
    imports(text, |number, module, name, _| {
        let from = module.map_or(String::new(), |module| format!("from {module} "));
        Some((format!("{from}import {name} as zq{number}"), format!("zq{number}")))
    })
}

fn dunder_import(text: &str) -> Option<String> {
    imports(text, |number, module, name, _| {
        let local = format!("zq{number}");
        match module {
            None if name.contains('.') => None,
            None => Some((format!("{local} = __import__('{name}')"), local)),
            Some(module) if module.contains('.') => None,
            Some(module) => Some((format!("{local} = __import__('{module}').{name}"), local)),
        }
    })
}

fn importlib(text: &str) -> Option<String> {
    imports(text, |number, module, name, _| {
        let local = format!("zq{number}");
        let (module, rest) = module.map_or((name, String::new()), |module| (module, format!(".{name}")));
        let (front, back) = module.split_at(module.len() / 2);
        let load = format!("__import__('importlib').import_module('{front}' + '{back}'){rest}");
        Some((format!("{local} = {load}"), local))
    })
}

/// Attributes and called names in mathematical letters, which the interpreter normalises.
fn nfkc(text: &str) -> Option<String> {
    with_calls(text, |calls| {
        let mut edits = Vec::new();
        for callee in &calls.callees {
            let (range, name) = match callee {
                Expr::Attribute(attribute) => (attribute.attr.range(), attribute.attr.as_str()),
                Expr::Name(name) => (name.range(), name.id.as_str()),
                _ => continue,
            };
            let bold = |c: char| {
                let letter = c.is_ascii_lowercase().then(|| 0x1D41A + u32::from(c) - u32::from('a'));
                letter.and_then(char::from_u32).unwrap_or(c)
            };
            edits.push((range, name.chars().map(bold).collect()));
        }
        edits
    })
}

/// Renames names that the program binds by assignment.
fn renamed(text: &str) -> Option<String> {
    let other =
        ["global ", "nonlocal ", "def ", "lambda", "class ", "globals", "locals", "vars(", "exec", "eval"];
    if other.iter().any(|word| text.contains(word)) {
        return None;
    }
    with_calls(text, |calls| {
        let bound: Vec<&str> = calls.bound.iter().map(|expr| &text[expr.range()]).collect();
        let all = calls.reads.iter().chain(&calls.bound).filter(|expr| matches!(expr, Expr::Name(_)));
        let own = all.filter(|expr| bound.contains(&&text[expr.range()]));
        own.map(|expr| (expr.range(), format!("zq_{}", &text[expr.range()]))).collect()
    })
}
