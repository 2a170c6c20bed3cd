//! Reach of values in languages read with tree-sitter: the home folder as a whole, what is met below it, what
//! was fetched, and files that were fetched and then started.
//!
//! A value keeps its origin through calls without a constant part; a constant part of a path leads to one
//! file, which is ordinary. Names are known by the outermost function that they are in.

use super::Tree;
use crate::language::Language;
use crate::value::{Origin, Value};
use tree_sitter::Node;

/// Maximum number of files that are remembered.
const MAX_SAVED: usize = 256;
/// Maximum length of a function's name with its receiver, in bytes.
const MAX_CALLEE: usize = 400;

/// Texts without which a source neither reaches the home folder nor fetches.
const MARKS: &[&str] = &[
    "HOME",
    "USERPROFILE",
    "HomeDir",
    "home_dir",
    "user.home",
    "http.Get",
    "http.Post",
    "openStream",
    "reqwest",
    "ureq",
    "minreq",
];

/// True for a source that is worth following.
pub(super) fn is_marked(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark))
}

impl Tree<'_, '_, '_> {
    /// Names that an assignment or a loop binds, with the value.
    pub(super) fn bound(&mut self, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        let (names, value, looped) = match (self.language, node.kind()) {
            (Language::Go, "short_var_declaration" | "assignment_statement" | "var_spec") => {
                (field("left").or_else(|| field("name")), field("right").or_else(|| field("value")), false)
            }
            (Language::Go, "range_clause") => (field("left"), field("right"), true),
            (Language::Rust, "for_expression") => (field("pattern"), field("value"), true),
            (Language::Rust, "let_condition") => (field("pattern"), field("value"), false),
            (Language::Java, "enhanced_for_statement") => (field("name"), field("value"), true),
            (
                Language::Rust | Language::C | Language::Cpp | Language::Java,
                "let_declaration" | "init_declarator" | "variable_declarator" | "assignment_expression",
            ) => (
                field("pattern")
                    .or_else(|| field("declarator"))
                    .or_else(|| field("name"))
                    .or_else(|| field("left")),
                field("value").or_else(|| field("right")),
                false,
            ),
            _ => return,
        };
        let (Some(names), Some(value)) = (names, value) else { return };
        let value = self.reached(value, 0);
        // One of many that the loop meets.
        let value = if looped { Value::default().with_origin(value.origin) } else { value };
        let scope = self.scope(node);
        for name in self.of(names).split(|c: char| !c.is_alphanumeric() && c != '_') {
            let is_name = name.starts_with(|c: char| c.is_lowercase() || c == '_');
            if !is_name || matches!(name, "_" | "err" | "mut" | "ref" | "let" | "ok") {
                continue;
            }
            let known = self.reach.entry((scope, name.to_owned()));
            known
                .and_modify(|before| {
                    // Of a name with several values nothing is known.
                    if before.origin != value.origin || before.as_text() != value.as_text() {
                        *before = Value::default();
                    }
                })
                .or_insert_with(|| value.clone());
        }
    }

    /// Start of the outermost function around a node; 0 outside of functions.
    fn scope(&self, node: Node<'_>) -> usize {
        let at = node.start_byte();
        let next = self.functions.partition_point(|(start, _)| *start <= at);
        next.checked_sub(1)
            .map(|n| self.functions[n])
            .filter(|(_, end)| at < *end)
            .map_or(0, |(start, _)| start + 1)
    }

    /// Collects the outermost functions.
    pub(super) fn function(&mut self, node: Node<'_>) {
        let is_function = matches!(
            node.kind(),
            "function_declaration"
                | "method_declaration"
                | "function_item"
                | "function_definition"
                | "constructor_declaration"
        );
        if is_function && self.functions.last().is_none_or(|(_, end)| node.start_byte() >= *end) {
            self.functions.push((node.start_byte(), node.end_byte()));
        }
    }

    /// Value of an expression, with its reach.
    pub(super) fn reached(&mut self, node: Node<'_>, depth: usize) -> Value {
        if depth > 32 || !self.cx.tick() {
            return Value::default();
        }
        match node.kind() {
            "expression_list"
            | "argument_list"
            | "await_expression"
            | "try_expression"
            | "reference_expression"
            | "parenthesized_expression"
            | "unary_expression"
            | "pointer_expression"
            | "cast_expression" => {
                let inner = node.child_by_field_name("value").or_else(|| node.named_child(0));
                inner.map_or_else(Value::default, |inner| self.reached(inner, depth + 1))
            }
            "call_expression" | "method_invocation" | "object_creation_expression" => {
                self.result(node, depth)
            }
            "field_expression" | "selector_expression" | "field_access" => {
                let owner = ["value", "operand", "argument", "object"]
                    .iter()
                    .find_map(|f| node.child_by_field_name(f));
                let text = self.of(node);
                if text.ends_with(".HomeDir") {
                    return Value::default().with_origin(Origin::HOME);
                }
                let owner = owner.map_or_else(Value::default, |owner| self.reached(owner, depth + 1));
                Value::default().with_origin(owner.origin)
            }
            "binary_expression" => {
                let side = |name| node.child_by_field_name(name);
                let (Some(left), Some(right)) = (side("left"), side("right")) else {
                    return Value::default();
                };
                let (left, right) = (self.reached(left, depth + 1), self.reached(right, depth + 1));
                joined(&[left, right])
            }
            "identifier" => {
                let (scope, name) = (self.scope(node), self.of(node).to_owned());
                let own = self.reach.get(&(scope, name.clone())).or_else(|| self.reach.get(&(0, name)));
                own.cloned().unwrap_or_else(|| self.value(node, 0))
            }
            _ => self.value(node, 0),
        }
    }

    /// Result of a call.
    fn result(&mut self, node: Node<'_>, depth: usize) -> Value {
        let field = |name| node.child_by_field_name(name);
        let (name, owner) = self.callee(node);
        let mut args = Vec::new();
        if let Some(list) = field("arguments") {
            let mut cursor = list.walk();
            let nodes: Vec<Node<'_>> =
                list.named_children(&mut cursor).filter(|n| !n.is_extra()).take(16).collect();
            args.extend(nodes.into_iter().map(|n| self.reached(n, depth + 1)));
        }
        let first = args.first().and_then(Value::as_text).unwrap_or("");
        let last = name.rsplit(['.', ' ']).next().unwrap_or(&name);
        match (self.language, &*name) {
            (Language::Go, "os.UserHomeDir")
            | (Language::Rust, "std.env.home_dir" | "env.home_dir" | "dirs.home_dir" | "home.home_dir") => {
                return Value::default().with_origin(Origin::HOME);
            }
            (Language::Go, "os.Getenv" | "os.LookupEnv")
            | (Language::Rust, "std.env.var" | "std.env.var_os" | "env.var" | "env.var_os")
            | (Language::C | Language::Cpp, "getenv" | "std::getenv" | "secure_getenv")
            | (Language::Java, "System.getenv") => {
                let home = matches!(first, "HOME" | "USERPROFILE");
                return Value::default().with_origin(if home { Origin::HOME } else { Origin::ENV });
            }
            (Language::Java, "System.getProperty") => {
                let home = first == "user.home";
                return Value::default().with_origin(if home { Origin::HOME } else { Origin::default() });
            }
            (Language::Go, "net/http.Get" | "net/http.Post")
            | (Language::Rust, "reqwest.get" | "reqwest.blocking.get" | "ureq.get" | "minreq.get") => {
                let url = Value::name(&format!("fetch:{first}"));
                return url.with_origin(Origin::NET);
            }
            (Language::Go, "os.Create" | "os.OpenFile")
            | (Language::Rust, "std.fs.File.create" | "File.create" | "fs.File.create")
            | (Language::Java, "new FileOutputStream") => return args.into_iter().next().unwrap_or_default(),
            _ => {}
        }
        let lists = matches!(
            last,
            "ReadDir"
                | "read_dir"
                | "WalkDir"
                | "Walk"
                | "walk"
                | "list"
                | "listFiles"
                | "newDirectoryStream"
                | "Glob"
        );
        let owner = owner.map_or_else(Value::default, |owner| self.reached(owner, depth + 1));
        let opens = self.language == Language::Java
            && matches!(last, "openStream" | "openConnection" | "getInputStream");
        let mut all = vec![owner];
        all.extend(args);
        if opens {
            let names = all.iter().filter_map(Value::as_text).find(|text| text.contains("://"));
            return Value::name(&format!("fetch:{}", names.unwrap_or(""))).with_origin(Origin::NET);
        }
        let mut whole = joined(&all);
        if lists && is_home(&whole) {
            whole = whole.with_origin(Origin::WIDE);
        }
        whole
    }

    /// Canonical name and receiver of a call.
    fn callee<'t>(&mut self, node: Node<'t>) -> (String, Option<Node<'t>>) {
        let field = |name| node.child_by_field_name(name);
        // Of a long chain only its last step: the whole is text of every one of them.
        let head = field("function").or_else(|| field("object")).or_else(|| field("type"));
        if head.is_some_and(|head| head.end_byte() - head.start_byte() > MAX_CALLEE) {
            let function = field("function");
            let part = |name| function.and_then(|f| f.child_by_field_name(name));
            let last = field("name").or_else(|| part("field")).map_or("", |n| self.of(n)).to_owned();
            let owner = field("object").or_else(|| part("value")).or_else(|| part("operand"));
            return (last, owner);
        }
        let (written, owner) = match node.kind() {
            "method_invocation" => {
                let name = field("name").map_or("", |n| self.of(n));
                let owner = field("object");
                (owner.map_or(name.to_owned(), |o| format!("{}.{name}", self.of(o))), owner)
            }
            "object_creation_expression" => {
                (format!("new {}", field("type").map_or("", |n| self.of(n))), None)
            }
            _ => {
                let function = field("function");
                let owner = function.and_then(|f| {
                    ["value", "operand", "argument"].iter().find_map(|name| f.child_by_field_name(name))
                });
                (function.map_or("", |n| self.of(n)).to_owned(), owner)
            }
        };
        let plain: String = written
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(if written.starts_with("new ") { " " } else { "" });
        if plain.len() > 400 {
            return (String::new(), owner);
        }
        (self.canonical(&plain), owner)
    }

    /// Reports a call by the reach of what it is given.
    pub(super) fn reaches(&mut self, node: Node<'_>) {
        if !self.follows {
            return;
        }
        let (name, owner) = self.callee(node);
        let last = name.rsplit(['.', ':', ' ']).next().unwrap_or(&name).to_owned();
        let list = node.child_by_field_name("arguments");
        let at = (node.start_byte(), node.end_byte());
        let deletes = matches!(
            last.as_str(),
            "RemoveAll"
                | "Remove"
                | "remove_dir_all"
                | "remove_file"
                | "remove_dir"
                | "delete"
                | "deleteIfExists"
                | "deleteDirectory"
                | "nftw"
                | "ftw"
                | "fts_open"
                | "remove_all"
                | "deleteRecursively"
                | "Walk"
                | "WalkDir"
                | "forEach"
                | "walkFileTree"
        );
        let writes = matches!(
            last.as_str(),
            "Copy"
                | "WriteFile"
                | "write"
                | "copy"
                | "write_all"
                | "transferFrom"
                | "transferTo"
                | "Write"
                | "ReadFrom"
        );
        let starts = matches!(
            last.as_str(),
            "Command" | "CommandContext" | "new" | "exec" | "ProcessBuilder" | "StartProcess" | "Exec"
        );
        if !deletes && !writes && !starts {
            return;
        }
        let mut args = Vec::new();
        if let Some(list) = list {
            let mut cursor = list.walk();
            let nodes: Vec<Node<'_>> =
                list.named_children(&mut cursor).filter(|n| !n.is_extra()).take(16).collect();
            args.extend(nodes.into_iter().map(|n| self.reached(n, 0)));
        }
        if deletes {
            let owner = owner.map_or_else(Value::default, |owner| self.reached(owner, 0));
            // A walk deletes by the function that it is given.
            let by_function = matches!(
                last.as_str(),
                "nftw" | "ftw" | "fts_open" | "Walk" | "WalkDir" | "forEach" | "walkFileTree"
            );
            let inside = self.of(list.unwrap_or(node));
            let hands_on = !by_function || self.hands_on(&args, inside);
            let of_owner = matches!(last.as_str(), "delete" | "forEach" | "deleteRecursively");
            let targets = Some(&owner).filter(|_| of_owner).into_iter().chain(args.first());
            if let Some(target) = targets.into_iter().find(|target| is_home(target) && hands_on) {
                self.cx.fact_with(self.language, "tree.deletes_home", at, std::slice::from_ref(target), 0);
            }
        }
        if writes && self.saved.len() < MAX_SAVED {
            let content = args.iter().find(|arg| arg.origin.has(Origin::NET)).cloned();
            let owner = owner.map_or_else(Value::default, |owner| self.reached(owner, 0));
            let path = args
                .iter()
                .chain([&owner])
                .find_map(|arg| arg.as_whole_text().filter(|t| t.len() > 1 && !t.contains("://")));
            if let (Some(content), Some(path)) = (content, path) {
                self.saved.insert(path.to_owned(), content);
            }
        }
        if starts {
            let found =
                args.iter().filter_map(Value::as_whole_text).find_map(|path| self.saved.get(path)).cloned();
            if let Some(content) = found {
                self.cx.fact_with(self.language, "tree.runs_download", at, &[content], 0);
            }
        }
    }

    /// True when a function that is given to a walk deletes what it meets: written there, or by name.
    fn hands_on(&self, args: &[Value], inside: &str) -> bool {
        let deletes = |code: &str| {
            [
                "remove(",
                "unlink(",
                "rmdir(",
                ".delete(",
                "RemoveAll(",
                "os.Remove(",
                "::delete",
                "deleteIfExists",
            ]
            .iter()
            .any(|call| code.contains(call))
        };
        let mut names = args.iter().flat_map(|arg| &arg.names);
        deletes(inside)
            || names.any(|name| matches!(&**name, "remove" | "unlink" | "rmdir"))
            || self.text.match_indices("(const char").any(|(at, _)| {
                // The function's own text, as far as its body goes.
                let body = &self.text[at..];
                deletes(&body[..body.find("\n}").unwrap_or_else(|| body.floor_char_boundary(400))])
            }) && matches!(self.language, Language::C | Language::Cpp)
    }
}

/// The home folder as a whole, or something met below it by a walk.
fn is_home(value: &Value) -> bool {
    value.origin.has(Origin::WIDE)
        || value.origin.has(Origin::HOME) && value.as_text().is_none_or(crate::rules::is_home_whole)
}

/// A value made of others: a constant part leads to one file, and the reach ends there.
fn joined(parts: &[Value]) -> Value {
    let origin = parts.iter().fold(Origin::default(), |sum, part| sum | part.origin);
    let narrow = parts.iter().filter_map(Value::as_text).any(|text| text.chars().any(char::is_alphanumeric));
    let mut whole = match parts.iter().filter(|part| part.known.is_some()).collect::<Vec<_>>()[..] {
        [only] if origin == Origin::default() => only.clone(),
        _ => Value::default(),
    };
    whole.names = parts
        .iter()
        .flat_map(|part| part.names.iter().filter(|n| n.starts_with("fetch:")))
        .take(4)
        .cloned()
        .collect();
    let lost = if narrow { (Origin::HOME | Origin::WIDE).0 } else { 0 };
    whole.with_origin(Origin(origin.0 & !lost))
}
