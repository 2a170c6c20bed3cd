//! Languages read with tree-sitter: Go, Rust, C, C++ and Java.
//!
//! Imports and aliases are resolved to canonical names (`std.process.Command.new`, `os/exec.Command`),
//! strings are reported, and constructs that run something by themselves become facts. As everywhere, rules
//! refer to these.

mod go;
mod reach;

use crate::limits::towers;
use crate::report::PartState;
use crate::value::{Origin, Value, concat};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::rc::Rc;
use tree_sitter::{Node, Parser};

use crate::context::Cx;
use crate::decode::unescape;
use crate::language::Language;
use crate::rules::{Call, TextKind};
use crate::syntax::parsed;

/// Reads a source. Neither the parser nor the walk recurses, so nesting costs only memory.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    if towers(source) {
        cx.not_read("brackets nested too deeply");
        return PartState::Skipped("brackets nested too deeply".to_owned());
    }
    let grammar = match language {
        Language::Go => tree_sitter_go::LANGUAGE,
        Language::Rust => tree_sitter_rust::LANGUAGE,
        Language::C => tree_sitter_c::LANGUAGE,
        Language::Cpp => tree_sitter_cpp::LANGUAGE,
        Language::Java => tree_sitter_java::LANGUAGE,
        _ => return PartState::BytesOnly,
    };
    let text = &*as_compiled(language, source);
    let mut parser = Parser::new();
    let parsed = parser.set_language(&grammar.into()).ok().and_then(|()| parsed(cx, &mut parser, text));
    let Some(parsed) = parsed else {
        cx.not_read("the parser gave up");
        return PartState::Skipped("the parser gave up".to_owned());
    };
    let mut tree = Tree {
        cx,
        language,
        text,
        names: FxHashMap::default(),
        stars: Vec::new(),
        vars: FxHashMap::default(),
        arrays: FxHashSet::default(),
        go: go::Flow::default(),
        saved: FxHashMap::default(),
        reach: FxHashMap::default(),
        functions: Vec::new(),
        follows: reach::is_marked(text),
        plain: None,
    };
    tree.walk(parsed.root_node(), Tree::declared);
    let walks = if tree.is_followed() { go::WALKS } else { 0 };
    for _ in 0..walks {
        tree.walk(parsed.root_node(), Tree::learnt);
    }
    if tree.follows {
        tree.walk(parsed.root_node(), Tree::function);
        tree.walk(parsed.root_node(), Tree::bound);
    }
    tree.walk(parsed.root_node(), Tree::told);
    if parsed.root_node().has_error() {
        tree.cx.fact(language, "parse.partial", (0, 0));
        return PartState::Recovered;
    }
    PartState::Parsed
}

/// Applies a compiler's translation steps before tokenising.
pub(crate) fn as_compiled(language: Language, source: &str) -> Cow<'_, str> {
    match language {
        Language::C | Language::Cpp if source.contains("\\\n") => source.replace("\\\n", "").into(),
        Language::Java if source.contains("\\u00") => unicode_escapes(source).into(),
        _ => source.into(),
    }
}

/// Whether an expression is a mode to open a file with for writing, whatever else is set in it.
fn is_writing_mode(text: &str) -> bool {
    text.len() < 120 && (text.contains("O_WRONLY") || text.contains("O_RDWR"))
}

struct Tree<'c, 'p, 's> {
    cx: &'c mut Cx<'p>,
    language: Language,
    text: &'s str,
    /// Canonical names of local names.
    names: FxHashMap<String, String>,
    /// Modules imported with all their names.
    stars: Vec<String>,
    /// Values of variables that hold text.
    vars: FxHashMap<String, Value>,
    /// Arrays that are initialised with bytes.
    arrays: FxHashSet<String>,
    go: go::Flow,
    /// Files that were written with what was fetched.
    saved: FxHashMap<String, Value>,
    /// Reach of names, by the start of the function that they are in.
    reach: FxHashMap<(usize, String), Value>,
    /// Outermost functions, by their first byte and the byte after the last.
    functions: Vec<(usize, usize)>,
    /// True when the source reaches the home folder or fetches.
    follows: bool,
    /// Plain form of the source, once something asks for it.
    plain: Option<crate::hosts::Program>,
}

impl<'s> Tree<'_, '_, 's> {
    /// Calls `see` for every node, without recursion.
    fn walk(&mut self, root: Node<'_>, see: fn(&mut Self, Node<'_>)) {
        let mut cursor = root.walk();
        loop {
            if !self.cx.tick() {
                return;
            }
            see(self, cursor.node());
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
    }

    fn of(&self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    fn fact(&mut self, name: &str, node: Node<'_>) {
        self.cx.fact(self.language, name, (node.start_byte(), node.end_byte()));
    }

    /// First walk: collects names.
    fn declared(&mut self, node: Node<'_>) {
        match (self.language, node.kind()) {
            (Language::Rust, "use_declaration") => {
                let text = self
                    .of(node)
                    .trim_start_matches(|c: char| c != 'u')
                    .trim_start_matches("use")
                    .trim_end_matches(';')
                    .to_owned();
                self.used("", text.trim());
            }
            (Language::Go, "import_spec") => {
                let path = node
                    .child_by_field_name("path")
                    .map_or("", |p| self.of(p))
                    .trim_matches(['"', '`'])
                    .to_owned();
                match node.child_by_field_name("name").map(|n| self.of(n)) {
                    Some(".") => self.stars.push(path),
                    Some(name) => drop(self.names.insert(name.to_owned(), path)),
                    None => {
                        for name in go::package_names(&path) {
                            self.names.entry(name.to_owned()).or_insert_with(|| path.clone());
                        }
                    }
                }
            }
            (Language::C | Language::Cpp, "preproc_function_def") => {
                let name = node.child_by_field_name("name").map(|n| self.of(n).to_owned());
                let value = node.child_by_field_name("value").map_or("", |v| self.of(v));
                if let Some(name) = name.filter(|_| value.contains("##")) {
                    self.names.insert(name, "##".to_owned());
                }
            }
            (Language::C | Language::Cpp, "preproc_def") => {
                if let (Some(name), Some(value)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("value"))
                {
                    let value = self.of(value).trim();
                    if value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                        self.names.insert(self.of(name).to_owned(), value.to_owned());
                    }
                }
            }
            (
                _,
                "let_declaration" | "init_declarator" | "variable_declarator" | "const_item" | "static_item",
            ) => {
                let name = ["pattern", "declarator", "name"]
                    .iter()
                    .find_map(|f| node.child_by_field_name(f))
                    .map(|n| self.of(n).trim_start_matches('*').to_owned());
                if let (Some(name), Some(value)) = (name, node.child_by_field_name("value")) {
                    if let Some((array, _)) = name.split_once('[')
                        && matches!(
                            value.kind(),
                            "string_literal" | "concatenated_string" | "initializer_list"
                        )
                    {
                        self.arrays.insert(array.trim().to_owned());
                    }
                    let value = self.value(value, 0);
                    if value.known.is_some() {
                        self.vars.insert(name, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// `a::b::{c, d as e}` below `prefix`.
    fn used(&mut self, prefix: &str, text: &str) {
        let text = text.trim().trim_start_matches("::");
        if let Some((path, inner)) = text.split_once('{') {
            let prefix = format!("{prefix}{}", path.trim().replace("::", "."));
            let inner = inner.trim_end().trim_end_matches('}');
            let mut depth = 0usize;
            let mut from = 0;
            for (at, c) in inner.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    ',' if depth == 0 => {
                        self.used(&prefix, &inner[from..at]);
                        from = at + 1;
                    }
                    _ => {}
                }
            }
            self.used(&prefix, &inner[from..]);
            return;
        }
        let (path, alias) = text.split_once(" as ").map_or((text, None), |(p, a)| (p.trim(), Some(a.trim())));
        let full = format!("{prefix}{}", path.replace("::", ".").replace("r#", ""));
        if path.is_empty() {
            return;
        }
        if let Some(module) = full.strip_suffix(".*") {
            self.stars.push(module.to_owned());
        } else if let Some(module) = full.strip_suffix(".self") {
            self.names.insert(
                alias.unwrap_or(module.rsplit('.').next().unwrap_or(module)).to_owned(),
                module.to_owned(),
            );
        } else {
            let last = full.rsplit('.').next().unwrap_or(&full).to_owned();
            self.names.insert(alias.map_or(last, str::to_owned), full);
        }
    }

    /// Second walk: reports facts.
    fn told(&mut self, node: Node<'_>) {
        let kind = node.kind();
        if kind.contains("comment") {
            let text = self.of(node);
            self.cx.text(TextKind::Comment, text, (node.start_byte(), node.end_byte()), &[]);
            if self.language == Language::Go && text.starts_with("//go:generate") {
                self.fact("go.generate", node);
                let command = text.trim_start_matches("//go:generate").trim().to_owned();
                self.cx.child(Language::Bash, &command, (node.start_byte(), node.end_byte()), &["recipe"]);
            } else if self.language == Language::Go && text.starts_with("//go:linkname") {
                self.fact("go.linkname", node);
            }
            return;
        }
        match kind {
            "string_literal"
            | "interpreted_string_literal"
            | "raw_string_literal"
            | "concatenated_string" => {
                let value = self.value(node, 0);
                if let Some(text) = value.as_text().filter(|t| t.len() >= 4) {
                    let disguised = self.of(node).matches("\\x").count() >= 4;
                    self.cx.text(
                        TextKind::String,
                        text,
                        (node.start_byte(), node.end_byte()),
                        if disguised { &["escapes"] } else { &[] },
                    );
                    self.cx.encoded(text, (node.start_byte(), node.end_byte()));
                }
            }
            "call_expression" | "method_invocation" | "object_creation_expression" | "macro_invocation" => {
                self.call(node);
                self.reaches(node);
            }
            "function_declaration" | "method_declaration" if self.is_followed() => self.enters(node),
            "composite_literal" => self.go_literal(node),
            "assignment_statement" if self.is_followed() => self.go_assignment(node),
            "var_declaration" if self.is_followed() && is_outermost(node) => self.leaves(),
            "loop_expression" | "for_statement" | "while_statement" | "while_expression" => {
                self.endless(node);
            }
            _ => self.shape(node),
        }
    }

    fn call(&mut self, node: Node<'_>) {
        if self.is_followed() {
            self.go_called(node);
            return;
        }
        let field = |name| node.child_by_field_name(name);
        let callee = match node.kind() {
            "method_invocation" => {
                let name = field("name").map_or("", |n| self.of(n));
                field("object").map_or(name.to_owned(), |o| format!("{}.{name}", self.of(o)))
            }
            "object_creation_expression" => format!("new {}", field("type").map_or("", |n| self.of(n))),
            "macro_invocation" => format!("{}!", field("macro").map_or("", |n| self.of(n))),
            _ => field("function").map_or("", |n| self.of(n)).to_owned(),
        };
        if callee.is_empty() || callee.len() > 400 {
            return;
        }
        let list = field("arguments");
        let mut args = Vec::new();
        if let Some(list) = list {
            let mut cursor = list.walk();
            // A comment may be anywhere and is not an argument.
            let nodes: Vec<Node<'_>> =
                list.named_children(&mut cursor).filter(|n| !n.is_extra()).take(64).collect();
            args.extend(nodes.into_iter().map(|n| self.value(n, 0)));
        }
        let plain: String = without_comments(&callee)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(if callee.starts_with("new ") { " " } else { "" });
        let mut names = vec![self.canonical(&plain)];
        if names[0] == "##" {
            names = vec![
                args.iter()
                    .map(|a| a.names.first().map_or_else(String::new, std::string::ToString::to_string))
                    .collect(),
            ];
        }
        let head = !plain.contains(['.', ':']);
        if head {
            names.extend(self.stars.iter().map(|module| format!("{module}.{plain}")));
        }
        if self.language == Language::Rust
            && plain.contains("::")
            && self.stars.iter().any(|m| m == "std.process")
        {
            names.push(format!("std.process.{}", plain.replace("::", ".")));
        }
        let names: Vec<Rc<str>> = names.into_iter().map(Into::into).collect();
        let call = Call { names: &names, method: None, receiver: None, args: &args, kwargs: &[], context: 0 };
        let at = (node.start_byte(), node.end_byte());
        self.cx.call(self.language, &call, at);
        self.runs(&names[0], &args, node);
    }

    /// Arguments that are a command line.
    fn runs(&mut self, name: &str, args: &[Value], node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        let first = args.first().and_then(Value::as_text).map(str::to_owned);
        match (self.language, name) {
            (Language::C | Language::Cpp, "system" | "popen" | "_popen" | "std::system")
            | (Language::Rust, "libc.system") => {
                if let Some(text) = first {
                    self.cx.child(Language::Bash, &text, at, &["shell"]);
                }
            }
            (Language::Java, name) if name.ends_with("getRuntime().exec") => {
                if let Some(text) = first {
                    self.cx.child(Language::Bash, &text, at, &["shell"]);
                }
            }
            _ => {}
        }
    }

    /// Resolves the first part of a name.
    fn canonical(&self, name: &str) -> String {
        let name = name.trim_start_matches("::").replace("r#", "");
        if matches!(self.language, Language::Rust) {
            let name = name.split("::<").next().unwrap_or(&name).replace("::", ".");
            let (head, rest) = name.split_once('.').map_or((&*name, ""), |(h, r)| (h, r));
            let full = self.names.get(head).map_or(head, String::as_str);
            return if rest.is_empty() { full.to_owned() } else { format!("{full}.{rest}") };
        }
        let (head, rest) = name.split_once('.').map_or((&*name, ""), |(h, r)| (h, r));
        match self.names.get(head) {
            Some(full) if rest.is_empty() => full.clone(),
            Some(full) => format!("{full}.{rest}"),
            None => name,
        }
    }

    fn value(&mut self, node: Node<'_>, depth: usize) -> Value {
        if depth > 64 || !self.cx.tick() {
            return Value::default();
        }
        let text = self.of(node);
        match node.kind() {
            "string_literal" | "interpreted_string_literal" | "char_literal" => {
                let inner = text.trim_start_matches(|c| c != '"' && c != '\'').trim_matches(['"', '\'']);
                Value::text(&unescape(inner))
            }
            "raw_string_literal" => {
                Value::text(text.trim_start_matches('r').trim_matches(['#', '`', '"', '\'', '@']))
            }
            // The mode that a file is opened with, whatever else is set.
            "identifier" | "scoped_identifier" | "selector_expression" | "binary_expression"
                if is_writing_mode(text) =>
            {
                Value::name("O_WRONLY")
            }
            "binary_expression" => {
                let side = |name| node.child_by_field_name(name);
                match (side("left"), side("right")) {
                    (Some(left), Some(right)) => {
                        let (left, right) = (self.value(left, depth + 1), self.value(right, depth + 1));
                        let is_or = node.child_by_field_name("operator").is_some_and(|op| self.of(op) == "|");
                        match (left.as_int(), right.as_int()) {
                            (Some(a), Some(b)) if is_or => Value::int(a | b),
                            _ if left.as_text().is_some() => {
                                concat(&left, &right).with_origin(Origin::COMPUTED)
                            }
                            _ => Value::default(),
                        }
                    }
                    _ => Value::default(),
                }
            }
            "number_literal"
            | "integer_literal"
            | "int_literal"
            | "decimal_integer_literal"
            | "hex_integer_literal" => number(text).map_or_else(Value::default, Value::int),
            // `PROT_READ`, `libc::PROT_READ`, `syscall.PROT_READ`.
            "identifier" | "scoped_identifier" | "selector_expression" if protection(text).is_some() => {
                protection(text).map_or_else(Value::default, Value::int)
            }
            "identifier" => self.vars.get(text).cloned().unwrap_or_else(|| Value::name(text)),
            "concatenated_string" => {
                let mut cursor = node.walk();
                let pieces: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                pieces.into_iter().fold(Value::text(""), |sum, piece| {
                    let value = self.value(piece, depth + 1);
                    concat(&sum, &value)
                })
            }
            _ if node.named_child_count() == 1 => {
                node.named_child(0).map_or_else(Value::default, |inner| self.value(inner, depth + 1))
            }
            _ => Value::default(),
        }
    }

    /// Constructs that run something by themselves, or bypass the language.
    fn shape(&mut self, node: Node<'_>) {
        let text = || self.text.get(node.byte_range()).unwrap_or("");
        let fact = match (self.language, node.kind()) {
            (Language::Rust, "attribute_item") => {
                let text = text();
                if text.contains("link_section")
                    && (text.contains("init_array")
                        || text.contains("ctors")
                        || text.contains("mod_init_func"))
                    || text.starts_with("#[ctor")
                    || text.contains("ctor::ctor")
                {
                    "rust.constructor"
                } else if text.starts_with("#[proc_macro") {
                    "rust.proc_macro"
                } else {
                    return;
                }
            }
            (Language::Rust, "foreign_mod_item") => {
                let body = text();
                if !["fn system", "fn execv", "fn execl", "fn popen", "fn dlopen", "fn fork", "fn mprotect"]
                    .iter()
                    .any(|f| body.contains(f))
                {
                    return;
                }
                "rust.foreign"
            }
            (Language::Rust, "use_declaration") if text().contains("CommandExt") => "rust.command_ext",
            (Language::Go, "import_spec") if text() == "\"C\"" => "go.cgo",
            (Language::Go, "import_spec") if text().contains("\"plugin\"") => "go.plugin",
            (Language::C | Language::Cpp, "attribute_specifier" | "attribute_declaration")
                if text().contains("constructor") =>
            {
                "c.constructor"
            }
            // `(void (*)(void))code`
            (Language::C | Language::Cpp, "cast_expression") => {
                let is_function = node
                    .child_by_field_name("type")
                    .map(|to| without_comments(self.of(to)).split_whitespace().collect::<String>())
                    .is_some_and(|to| to.contains("(*)("));
                let name = node.child_by_field_name("value").map_or("", |value| self.of(value));
                let name = without_comments(name);
                let name = name.trim_matches(['(', ')', '&', ' ']);
                if !is_function || !self.arrays.contains(name.split('[').next().unwrap_or(name)) {
                    return;
                }
                "c.array_called"
            }
            (Language::C | Language::Cpp, "gnu_asm_expression") => {
                if !["syscall", "int $0x80", "int 0x80", "svc", "sysenter"].iter().any(|i| text().contains(i))
                {
                    return;
                }
                "c.asm_syscall"
            }
            (Language::C | Language::Cpp, "preproc_include") => {
                let path = text().trim_start_matches("#include").trim().trim_matches(['"', '<', '>']);
                if !path.starts_with("/etc")
                    && !path.starts_with("/proc")
                    && !path.starts_with("/home")
                    && !path.starts_with("/root")
                    && !path.starts_with("/dev")
                {
                    return;
                }
                "c.include_host"
            }
            _ => return,
        };
        self.fact(fact, node);
    }

    /// A loop with a missing or true condition and an empty body.
    fn endless(&mut self, node: Node<'_>) {
        let Some(body) = node.child_by_field_name("body") else { return };
        let inside: String = self.of(body).split_whitespace().collect();
        if !matches!(inside.as_str(), "{}" | ";" | "{;}") {
            return;
        }
        let condition = node
            .child_by_field_name("condition")
            .map(|c| without_comments(self.of(c)).trim_matches(['(', ')', ' ']).trim().to_owned());
        let clause = self.language == Language::Go
            && node.child_by_field_name("body").is_some()
            && node.named_child_count() > 1;
        if !clause
            && condition.is_none_or(|c| c == "true" || c == "1")
            && node.child_by_field_name("update").is_none()
        {
            self.fact("loop.endless", node);
        }
    }
}

/// True for a declaration of the file, not of a function.
fn is_outermost(node: Node<'_>) -> bool {
    node.parent().is_some_and(|above| above.kind() == "source_file")
}

/// A whole number as C, Rust, Go and Java write it.
fn number(text: &str) -> Option<i64> {
    let text = text.replace('_', "");
    let digits = |text: &str, radix| {
        let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
        let text = text.split_once(['i', 'u']).map_or(text, |(digits, _)| digits);
        i64::from_str_radix(text, radix).ok()
    };
    match text.get(..2) {
        Some("0x" | "0X") => digits(&text[2..], 16),
        Some("0b" | "0B") => digits(&text[2..], 2),
        Some("0o" | "0O") => digits(&text[2..], 8),
        _ if text.len() > 1 && text.starts_with('0') => digits(&text[1..], 8),
        _ => digits(&text, 10),
    }
}

/// Protection of memory by its name in `<sys/mman.h>` and `winnt.h`, on the bits of the former.
fn protection(name: &str) -> Option<i64> {
    Some(match name.rsplit(['.', ':']).next().unwrap_or(name) {
        "PROT_NONE" => 0,
        "PROT_READ" => 1,
        "PROT_WRITE" => 2,
        "PROT_EXEC" => 4,
        "PAGE_EXECUTE" | "PAGE_EXECUTE_READ" | "PAGE_EXECUTE_READWRITE" | "PAGE_EXECUTE_WRITECOPY" => 0x40,
        _ => return None,
    })
}

fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    out + rest
}

/// Decodes `\u0052`, as Java does before tokenising.
fn unicode_escapes(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("\\u") {
        out.push_str(&rest[..at]);
        let digits = rest[at + 2..].trim_start_matches('u');
        match digits.get(..4).and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                rest = &digits[4..];
            }
            None => {
                out.push_str("\\u");
                rest = &rest[at + 2..];
            }
        }
    }
    out + rest
}
