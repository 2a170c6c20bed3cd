//! PowerShell: commands by their names, whatever they are spelled like, with the values of their arguments.
//!
//! A script is walked twice in the order of its text: first to learn the values of variables, then to report.

mod names;
mod value;

use crate::context::Cx;
use crate::language::Language;
use crate::limits::towers;
use crate::report::{PartState, StepKind};
use crate::rules::{Call, Spot, TextKind};
use crate::syntax::parsed;
use crate::value::{HOLE, Origin, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use tree_sitter::{Node, Parser};

/// Parameters of `powershell` that matter here, the ones that are shortened most first.
const SHELL_PARAMETERS: &[&str] = &[
    "encodedcommand",
    "ec",
    "command",
    "windowstyle",
    "noprofile",
    "noninteractive",
    "nologo",
    "executionpolicy",
    "ep",
    "file",
    "sta",
];
/// Minimum number of numbers in a list that may be a program.
const MIN_PROGRAM_BYTES: usize = 256;
/// Commands that start what they are given.
const STARTERS: &[&str] = &[
    "start-process",
    "invoke-item",
    "rundll32",
    "regsvr32",
    "msiexec",
    "cmd",
    "powershell",
    "wscript",
    "cscript",
    "mshta",
    "import-module",
    "installutil",
    "explorer",
    "python",
    "schtasks",
];

/// Reads a source.
pub(crate) fn read(cx: &mut Cx<'_>, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    if towers(source) {
        cx.not_read("brackets nested too deeply");
        return PartState::Skipped("brackets nested too deeply".to_owned());
    }
    let mut parser = Parser::new();
    let set = parser.set_language(&tree_sitter_powershell::LANGUAGE.into());
    let Some(tree) = set.ok().and_then(|()| parsed(cx, &mut parser, source)) else {
        cx.not_read("the parser gave up");
        return PartState::Skipped("the parser gave up".to_owned());
    };
    let mut ps = PowerShell { cx, text: source, vars: FxHashMap::default(), saved: Vec::new(), emit: false };
    ps.walk(tree.root_node());
    ps.emit = true;
    ps.walk(tree.root_node());
    if tree.root_node().has_error() {
        // Pieces that the grammar does not know are still checked as text.
        crate::ingest::plain(ps.cx, source);
        ps.cx.fact(Language::PowerShell, "parse.partial", (0, 0));
        return PartState::Recovered;
    }
    PartState::Parsed
}

/// Arguments of a command.
#[derive(Default)]
struct Words {
    /// All in order, as a command line.
    all: Vec<Value>,
    /// Without parameters and their values.
    args: Vec<Value>,
    /// Parameters, in lower case and without their mark, and their values.
    named: Vec<(Rc<str>, Value)>,
    /// True when the name is put together or spelled with marks that the shell removes.
    disguised: bool,
}

struct PowerShell<'c, 'p, 's> {
    cx: &'c mut Cx<'p>,
    text: &'s str,
    vars: FxHashMap<String, Value>,
    /// Paths that were written, in lower case, and what was written.
    saved: Vec<(String, Value)>,
    emit: bool,
}

impl<'s> PowerShell<'_, '_, 's> {
    fn of(&self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    fn walk(&mut self, root: Node<'_>) {
        let mut cursor = root.walk();
        loop {
            if !self.cx.tick() {
                return;
            }
            self.see(cursor.node());
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

    fn see(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        match node.kind() {
            "assignment_expression" => self.assigned(node),
            "foreach_statement" => {
                let mut cursor = node.walk();
                let inner: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                let variable = inner.iter().find(|n| n.kind() == "variable");
                let list = inner.iter().find(|n| n.kind() == "pipeline");
                if let (Some(variable), Some(list)) = (variable, list) {
                    let items = self.value(*list, 0);
                    let name = names::variable(self.of(*variable));
                    self.vars.insert(name, Value::default().made_of(&items));
                }
            }
            _ if !self.emit => {}
            "comment" => {
                let text = self.of(node);
                self.cx.text(TextKind::Comment, text, at, &[]);
            }
            "verbatim_string_characters"
            | "verbatim_here_string_characters"
            | "expandable_string_literal"
            | "expandable_here_string_literal" => {
                let value = self.value(node, 0);
                if let Some(text) = value.as_text().filter(|t| t.len() >= 4).map(str::to_owned) {
                    self.cx.text(TextKind::String, &text, at, &[]);
                    self.cx.encoded(&text, at);
                }
            }
            "additive_expression" | "format_expression" | "comparison_expression"
                if node.named_child_count() >= 2
                    && node.parent().is_none_or(|p| p.kind() != node.kind() || p.named_child_count() < 2) =>
            {
                let value = self.value(node, 0);
                if let Some(text) = value.as_text().filter(|t| t.len() >= 4).map(str::to_owned) {
                    let chain = value.chain.clone();
                    self.cx.text(TextKind::String, &text, at, &chain);
                    if crate::spelled::hidden_word(&text, self.text).is_some() {
                        self.cx.fact(Language::PowerShell, "spelled", at);
                    }
                    if node.kind() == "format_expression" && is_shuffled(self.of(node)) {
                        self.cx.fact(Language::PowerShell, "ps.shuffled", at);
                    }
                }
            }
            "array_literal_expression" if node.named_child_count() >= MIN_PROGRAM_BYTES => {
                let text = self.of(node);
                let digits =
                    text.bytes().filter(|b| b.is_ascii_hexdigit() || b"x, \r\n\t".contains(b)).count();
                if digits * 100 >= text.len() * 99 {
                    self.cx.fact(Language::PowerShell, "ps.bytes", at);
                }
            }
            "command" => self.told_command(node),
            "invokation_expression" => self.told_method(node),
            _ => {}
        }
    }

    fn assigned(&mut self, node: Node<'_>) {
        let Some(right) = node.child_by_field_name("value") else { return };
        let mut cursor = node.walk();
        let inner: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let Some(left) = inner.iter().find(|n| n.kind() == "left_assignment_expression") else { return };
        let adds = inner.iter().any(|n| n.kind() == "assignement_operator" && self.of(*n).starts_with('+'));
        // `[byte[]] $x = …`.
        let written = self.of(*left);
        let Some(from) = written.rfind('$') else { return };
        let name = names::variable(written[from..].trim());
        if name.is_empty() || name.len() > 100 || name.contains(['.', '[', '(', ' ']) {
            return;
        }
        let value = self.value(right, 0);
        let value = match self.vars.get(&name) {
            Some(older) if adds => crate::value::concat(older, &value),
            _ => value,
        };
        let tracked = Origin(Origin::NET.0 | Origin::DECODED.0 | Origin::UNPACKED.0 | Origin::FILE.0);
        let at = (left.start_byte(), left.end_byte());
        let value = if value.origin.has(tracked) { value.stepped(StepKind::Bound, &name, at) } else { value };
        self.vars.insert(name, value);
    }

    /// Name and arguments of a command.
    fn command(&mut self, node: Node<'_>, depth: usize) -> (String, Words) {
        let mut words = Words::default();
        let Some(written) = node.child_by_field_name("command_name") else { return (String::new(), words) };
        let name = if written.kind() == "command_name_expr" {
            let value = self.value(written, depth + 1);
            words.disguised = value.origin.has(Origin::COMPUTED) || value.origin.has(Origin::DECODED);
            match value.as_whole_text() {
                Some(text) => {
                    words.disguised |= text.contains('`');
                    text.to_owned()
                }
                None => {
                    words.all.push(value);
                    String::new()
                }
            }
        } else {
            let text = self.of(written);
            words.disguised = text.trim_matches(['"', '\'']).contains(['`', '"', '\'', '^']);
            text.to_owned()
        };
        let name = names::command(&name);
        if let Some(elements) = node.child_by_field_name("command_elements") {
            let mut cursor = elements.walk();
            let inner: Vec<Node<'_>> = elements
                .named_children(&mut cursor)
                .filter(|n| !n.is_extra() && !matches!(n.kind(), "command_argument_sep" | "redirection"))
                .take(64)
                .collect();
            let mut pending: Option<Rc<str>> = None;
            let mut end = 0;
            for element in inner {
                let is_parameter = element.kind() == "command_parameter";
                let value =
                    if is_parameter { Value::text(self.of(element)) } else { self.value(element, depth + 1) };
                // Pieces without a blank between them are one word: `$env:TEMP\a.exe`.
                let is_glued = element.start_byte() == end && !is_parameter && !words.all.is_empty();
                end = element.end_byte();
                if is_glued {
                    let written = self.of(element);
                    if let Some(last) = words.all.last_mut() {
                        *last = glued(last, written, &value);
                        let whole = last.clone();
                        if let Some(last) = words.args.last_mut() {
                            *last = whole.clone();
                        }
                        if let Some((_, last)) = words.named.last_mut().filter(|_| pending.is_none()) {
                            *last = whole;
                        }
                    }
                    continue;
                }
                words.all.push(value.clone());
                if is_parameter {
                    let plain =
                        self.of(element).trim_start_matches('-').replace('`', "").to_ascii_lowercase();
                    let (plain, given) = plain.split_once(':').map_or((&*plain, None), |(p, v)| (p, Some(v)));
                    match given.filter(|v| !v.is_empty()) {
                        Some(given) => words.named.push((plain.into(), Value::text(given))),
                        None => pending = Some(plain.into()),
                    }
                } else if let Some(parameter) = pending.take() {
                    words.named.push((parameter, value.clone()));
                    words.args.push(value);
                } else {
                    words.args.push(value);
                }
            }
        }
        (name, words)
    }

    /// Value that the pipeline gives to a command.
    fn fed(&mut self, node: Node<'_>) -> Option<Value> {
        let before = node.prev_named_sibling().filter(|n| !n.is_extra())?;
        matches!(before.kind(), "command" | "logical_expression" | "pipeline_chain")
            .then(|| self.value(before, 0))
    }

    fn told_command(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        let (name, mut words) = self.command(node, 0);
        let fed = self.fed(node);
        if words.args.is_empty()
            && let Some(fed) = &fed
        {
            words.args.push(fed.clone());
        }
        // A method of a value in brackets, and a path that begins with a variable, may be pieces to the grammar.
        let written = self.of(node).replace('`', "").to_ascii_lowercase();
        if name == "invoke-expression"
            && (written.contains(".downloadstring") || written.contains(".downloaddata"))
        {
            let fetched = fetched_from(&written);
            match words.args.first_mut().filter(|v| v.as_text().is_none()) {
                Some(first) if !first.origin.has(Origin::NET) => {
                    *first = Value { names: fetched, ..std::mem::take(first) }.with_origin(Origin::NET);
                }
                Some(_) => {}
                None => words
                    .args
                    .insert(0, Value { names: fetched, ..Value::default() }.with_origin(Origin::NET)),
            }
        }
        if matches!(&*name, "invoke-webrequest" | "invoke-restmethod")
            && let Some((_, path)) = written.split_once("-outfile ")
            && let Some(path) = path.split_whitespace().next()
        {
            self.save(&Value::text(path), Value::default().with_origin(Origin::NET));
        }
        self.saves(&name, &words, fed.as_ref());
        self.starts(&name, &words, node);
        if name.is_empty() {
            if let Some(value) = words.all.first().filter(|v| !v.names.iter().any(|n| &**n == "{}")) {
                let value = value.clone();
                self.cx.fact_with(Language::PowerShell, "ps.call_unknown", at, &[value], 0);
            }
            return;
        }
        let context = if words.disguised { Spot::OBFUSCATED } else { 0 };
        let names: [Rc<str>; 1] = [name.as_str().into()];
        let call = Call {
            names: &names,
            method: None,
            receiver: fed.as_ref(),
            args: &words.args,
            kwargs: &words.named,
            context,
        };
        self.cx.call(Language::PowerShell, &call, at);
        match &*name {
            "invoke-expression" => {
                if let Some(value) = words.args.first().cloned() {
                    self.executes(&value, at);
                }
            }
            "powershell" => {
                self.shell(&words.all, at);
                // Typed into another shell, which replaces no variables of this one.
                if let Some(elements) = node.child_by_field_name("command_elements") {
                    let written = self.of(elements);
                    let from = written.find('"').filter(|from| written.len() - from > 20);
                    if let Some(inner) = from.and_then(|from| written[from + 1..].rsplit_once('"')) {
                        let text = Value::text(inner.0);
                        self.executes(&text, at);
                    }
                }
            }
            "cmd" => {
                let rest: Vec<String> = words
                    .all
                    .iter()
                    .skip_while(|v| {
                        !v.as_text()
                            .is_some_and(|t| t.eq_ignore_ascii_case("/c") || t.eq_ignore_ascii_case("/k"))
                    })
                    .skip(1)
                    .map(Value::text_or_hole)
                    .collect();
                self.executes(&Value::text(&rest.join(" ")), at);
            }
            "set-variable" | "new-variable" => {
                if let [key, value, ..] = &words.args[..]
                    && let Some(key) = key.as_whole_text()
                {
                    self.vars.insert(names::variable(key), value.clone());
                }
            }
            "start-process" => self.started(&words, at),
            _ => {
                let mut argv = vec![Value::text(&name)];
                argv.extend(words.all);
                crate::shell::command(self.cx, &argv, at);
            }
        }
    }

    /// `powershell -enc …`, `powershell -c "…"`.
    fn shell(&mut self, argv: &[Value], at: (usize, usize)) {
        let mut rest = argv.iter();
        while let Some(word) = rest.next() {
            let text = word.as_text().unwrap_or("");
            let parameter = names::parameter(text, SHELL_PARAMETERS).filter(|_| text.starts_with(['-', '/']));
            match parameter {
                Some("encodedcommand" | "ec") => {
                    if let Some(encoded) = rest.next() {
                        let plain = crate::decode::apply("base64", encoded)
                            .and_then(|v| crate::decode::apply("utf-16", &v));
                        let plain = plain.unwrap_or_else(|| {
                            Value::default().made_of(encoded).with_origin(Origin::UNPACKED)
                        });
                        let given = std::slice::from_ref(&plain);
                        self.cx.fact_with(Language::PowerShell, "ps.encoded", at, given, 0);
                        self.executes(&plain, at);
                    }
                }
                Some("command") => {
                    let texts: Vec<String> = rest.by_ref().map(Value::text_or_hole).collect();
                    self.executes(&Value::text(&texts.join(" ")), at);
                }
                Some("windowstyle" | "executionpolicy" | "ep" | "file") => drop(rest.next()),
                Some(_) => {}
                None if text.contains(' ') => self.executes(&word.clone(), at),
                None => {}
            }
        }
    }

    /// `Start-Process powershell -ArgumentList '-enc …'`.
    fn started(&mut self, words: &Words, at: (usize, usize)) {
        let named =
            |name: &str| words.named.iter().find(|(k, _)| name.starts_with(&**k)).map(|(_, v)| v.clone());
        let program = named("filepath").or_else(|| words.args.first().cloned()).unwrap_or_default();
        let list = named("argumentlist").or_else(|| words.args.get(1).cloned()).unwrap_or_default();
        let mut argv = Vec::new();
        for item in list.elements().filter(|_| list.as_text().is_none()).unwrap_or_else(|| vec![list.clone()])
        {
            match item.as_text() {
                Some(text) => {
                    argv.extend(text.split_whitespace().map(|word| Value::text(word.trim_matches('"'))));
                }
                None => argv.push(item),
            }
        }
        let name = names::command(program.as_text().unwrap_or(""));
        if name == "powershell" {
            self.shell(&argv, at);
        } else if !name.is_empty() {
            argv.insert(0, Value::text(&name));
            crate::shell::command(self.cx, &argv, at);
        }
    }

    fn executes(&mut self, value: &Value, at: (usize, usize)) {
        if let Some(text) = value.as_text().filter(|t| t.chars().any(|c| c != HOLE && !c.is_whitespace())) {
            let chain = if value.chain.is_empty() { vec!["powershell"] } else { value.chain.clone() };
            let text = text.to_owned();
            self.cx.child(Language::PowerShell, &text, at, &chain);
        }
    }

    fn told_method(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        let (names, result, owner, args) = self.invoked(node, 0);
        let call = Call {
            names: &names,
            method: None,
            receiver: Some(&owner),
            args: &args,
            kwargs: &[],
            context: 0,
        };
        self.cx.call(Language::PowerShell, &call, at);
        let last = names.first().map_or("", |n| n.rsplit('.').next().unwrap_or(n)).to_owned();
        match &*last {
            "downloadfile" | "downloadfileasync" => {
                if let Some(path) = args.get(1) {
                    let fetched = Value::default().with_origin(Origin::NET);
                    self.save(&path.clone(), fetched.stepped(StepKind::Source, "downloadfile", at));
                }
            }
            "writeallbytes" | "writealltext" => {
                if let [path, content, ..] = &args[..] {
                    self.save(&path.clone(), content.clone());
                }
            }
            "start" | "shellexecute" | "exec" | "loadfile" | "loadfrom" | "create" | "run" => {
                self.ran(&args, node);
                if last != "start" {
                    return;
                }
                if let Some(name) = args.first().and_then(Value::as_text).map(names::command)
                    && name == "powershell"
                {
                    let rest = args.get(1).and_then(Value::as_text).unwrap_or("").to_owned();
                    let argv: Vec<Value> = rest.split_whitespace().map(Value::text).collect();
                    self.shell(&argv, at);
                }
            }
            "invokescript" | "addscript" => {
                if let Some(value) = args.first() {
                    self.executes(&value.clone(), at);
                }
            }
            _ => {
                // `[scriptblock]::Create(text)`.
                if names.iter().any(|n| &**n == "scriptblock.create")
                    && let Some(value) = args.first()
                {
                    self.executes(&value.clone(), at);
                }
            }
        }
        if let Some(text) = result.as_text().filter(|_| !result.chain.is_empty()).map(str::to_owned) {
            self.cx.text(TextKind::String, &text, at, &result.chain.clone());
        }
    }

    /// Commands that write a file.
    fn saves(&mut self, name: &str, words: &Words, fed: Option<&Value>) {
        let named = |names: &[&str]| {
            words
                .named
                .iter()
                .find(|(k, _)| names.iter().any(|n| n.starts_with(&**k) && k.len() > 1))
                .map(|(_, v)| v)
        };
        let saved = match name {
            "invoke-webrequest" | "invoke-restmethod" => named(&["outfile"]).map(|path| (path, Origin::NET)),
            "start-bitstransfer" => {
                named(&["destination"]).or_else(|| words.args.get(1)).map(|path| (path, Origin::NET))
            }
            "certutil" | "bitsadmin" => words.args.last().map(|path| (path, Origin::NET)),
            "set-content" | "add-content" | "out-file" => named(&["path", "filepath", "literalpath"])
                .or_else(|| words.args.first())
                .map(|path| (path, Origin::default())),
            _ => None,
        };
        if let Some((path, origin)) = saved {
            let content = named(&["value"]).or(fed).cloned().unwrap_or_default();
            self.save(&path.clone(), Value::default().made_of(&content).with_origin(origin));
        }
    }

    fn save(&mut self, path: &Value, content: Value) {
        let key = path.text_or_hole().to_ascii_lowercase();
        let key =
            key.trim_matches(['"', '\'', ' ']).trim_start_matches(".\\").trim_start_matches("./").to_owned();
        if key.chars().filter(char::is_ascii_alphanumeric).count() >= 3 && self.saved.len() < 256 {
            self.saved.push((key, content));
        } else if let Some(name) = path.names.first().filter(|n| n.starts_with('$')) {
            self.saved.push((name.to_string(), content));
        }
    }

    /// Commands that start a file that was written before.
    fn starts(&mut self, name: &str, words: &Words, node: Node<'_>) {
        let itself = node.child_by_field_name("command_name").map(|n| match self.value(n, 0) {
            value if value.as_text().is_some() || !value.names.is_empty() => value,
            _ => Value::text(self.of(n)),
        });
        let mut given: Vec<Value> = itself.into_iter().collect();
        if STARTERS.contains(&name) || name.is_empty() {
            given.extend(words.all.iter().cloned());
            given.push(Value::text(&self.of(node).to_ascii_lowercase()));
        }
        self.ran(&given, node);
    }

    fn ran(&mut self, given: &[Value], node: Node<'_>) {
        if self.saved.is_empty() {
            return;
        }
        let at = (node.start_byte(), node.end_byte());
        let texts: Vec<String> = given
            .iter()
            .flat_map(|v| {
                let items = v.elements().filter(|_| v.as_text().is_none()).unwrap_or_else(|| vec![v.clone()]);
                items.into_iter().take(64).map(|v| match v.names.first() {
                    Some(name) if v.as_text().is_none() => name.to_string(),
                    _ => v.text_or_hole().to_ascii_lowercase(),
                })
            })
            .collect();
        let found = self.saved.iter().find(|(key, _)| texts.iter().any(|t| t.contains(key.as_str())));
        if let Some((_, content)) = found {
            let content = content.clone();
            self.cx.fact_with(Language::PowerShell, "ps.saved_run", at, &[content], 0);
        }
    }
}

/// Addresses in a command.
fn fetched_from(written: &str) -> Vec<Rc<str>> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')');
    let each = written.match_indices("http").map(|(at, _)| written[at..].split(ends).next().unwrap_or(""));
    each.filter(|url| url.contains("://")).take(4).map(|url| format!("fetch:{url}").into()).collect()
}

/// A word and the piece that follows it without a blank: the end of a path, or a method of a value.
fn glued(word: &Value, written: &str, piece: &Value) -> Value {
    let lower = written.to_ascii_lowercase();
    if word.as_text().is_none() && lower.starts_with('.') {
        let fetches = ["download", "openread", "getresponse"].iter().any(|name| lower.contains(name));
        let made = Value { names: Vec::new(), ..word.clone() };
        return if fetches { made.with_origin(Origin::NET) } else { made };
    }
    if lower.starts_with('(') {
        let url = piece.as_text().filter(|t| t.contains("://")).map(|t| Rc::from(format!("fetch:{t}")));
        return Value { names: url.into_iter().collect(), ..word.clone() };
    }
    crate::value::concat(word, piece)
}

/// True when a format operator puts pieces of text together in another order than they are written in.
fn is_shuffled(written: &str) -> bool {
    let template = written.split("-f").next().unwrap_or("").split("-F").next().unwrap_or("").trim();
    let inner = template.trim_matches(['"', '\'', '(', ')', ' ']);
    let numbers: Option<Vec<u32>> =
        inner.split('}').filter(|p| !p.is_empty()).map(|p| p.strip_prefix('{')?.parse().ok()).collect();
    numbers.is_some_and(|n| n.len() >= 3 && n.windows(2).any(|w| w[0] > w[1]))
}

#[cfg(test)]
mod tests {
    use super::is_shuffled;

    #[test]
    fn shuffled_formats_are_found() {
        for (written, shuffled) in [
            ("\"{2}{0}{1}\" -f 'ke-Ex','pression','Invo'", true),
            ("'{0}{1}{2}' -f $a, $b, $c", false),
            ("'{0}: {1}' -f $a, $b", false),
            ("\"{1}{0}\" -f $a, $b", false),
        ] {
            assert_eq!(is_shuffled(written), shuffled, "{written}");
        }
    }
}
