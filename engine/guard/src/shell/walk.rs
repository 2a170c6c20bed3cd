//! Walks the syntax tree of a script: pipelines, redirections, definitions, loops.

use tree_sitter::Node;

use crate::language::Language;
use crate::rules::{Call, Spot, TextKind};
use crate::value::{HOLE, Origin, Value, concat};

use super::execute::{is_subscript, key};
use super::flow::is_ref_option;
use super::{Body, Shell};

/// Maximum number of words that a loop is walked with one by one.
const MAX_LOOP_WORDS: usize = 8;

impl Shell<'_, '_> {
    /// Walks a node; returns its output, if known.
    pub(super) fn node(&mut self, node: Node<'_>, source: &str, stdin: &Value) -> Value {
        if self.depth > 300 {
            self.cx.not_read("shell nested too deeply");
            return Value::default();
        }
        if !self.cx.tick() {
            return Value::default();
        }
        self.depth += 1;
        // In a shell of its own the folder changes for that one alone.
        let is_apart = matches!(
            node.kind(),
            "subshell" | "pipeline" | "command_substitution" | "process_substitution" | "function_definition"
        );
        let folder = is_apart.then(|| self.folder.clone());
        let value = self.node_inner(node, source, stdin);
        if let Some(folder) = folder {
            self.folder = folder;
        }
        self.depth -= 1;
        value
    }

    fn node_inner(&mut self, node: Node<'_>, source: &str, stdin: &Value) -> Value {
        let at = (node.start_byte(), node.end_byte());
        match node.kind() {
            "command" => self.command_node(node, source, stdin),
            "pipeline" => {
                let mut flow = stdin.clone();
                for child in named(node) {
                    flow = self.node(child, source, &flow);
                }
                flow
            }
            "redirected_statement" => self.redirected(node, source, stdin),
            "variable_assignment" => {
                self.assignment(node, source);
                Value::default()
            }
            "function_definition" => {
                let name = node.child_by_field_name("name").map_or("", |n| text(n, source)).to_owned();
                if let Some(body) = node.child_by_field_name("body") {
                    if is_bomb(body, &name, source) {
                        let at = self.fixed.unwrap_or(at);
                        self.cx.fact(Language::Bash, "fork.bomb", at);
                    }
                    if super::fetched::fetches_in(text(body, source)) {
                        self.fetchers.insert(name.clone());
                    }
                    self.functions.insert(name, text(body, source).into());
                    let outer = self.context;
                    self.context &= !Spot::TOP;
                    self.node(body, source, &Value::default());
                    self.context = outer;
                }
                Value::default()
            }
            "while_statement" | "c_style_for_statement" | "for_statement" => {
                let outer = self.context;
                self.context |= Spot::LOOP;
                if endless(node, source) {
                    self.context |= Spot::ENDLESS;
                    if idle(node, source) {
                        let at = self.fixed.unwrap_or(at);
                        self.cx.fact(Language::Bash, "loop.endless", at);
                    }
                }
                if let Some(variable) =
                    node.child_by_field_name("variable").filter(|_| node.kind() == "for_statement")
                {
                    let items: Vec<Value> = node
                        .children_by_field_name("value", &mut node.walk())
                        .map(|n| text(n, source).to_owned())
                        .collect::<Vec<_>>()
                        .iter()
                        .map(|raw| self.expand_value(raw))
                        .collect();
                    let name = text(variable, source).to_owned();
                    // Each of a few words; of many the first one, and then their common part. Without words
                    // the loop iterates over the arguments.
                    let nested = outer & Spot::LOOP != 0;
                    let mut rounds = match items.as_slice() {
                        [] => vec![Value::default().with_origin(Origin::INPUT)],
                        few if few.len() <= MAX_LOOP_WORDS && !nested => few.to_vec(),
                        [only] => vec![only.clone()],
                        many => vec![many[0].clone(), in_common(many)],
                    };
                    let last = rounds.pop().unwrap_or_default();
                    for item in rounds {
                        self.vars.insert(name.clone(), item);
                        if let Some(body) = node.child_by_field_name("body") {
                            self.node(body, source, stdin);
                        }
                    }
                    self.vars.insert(name, last);
                }
                // The first child of `while` is its condition, which may run commands, too.
                let mut flow = Value::default();
                for child in named(node) {
                    if !matches!(
                        child.kind(),
                        "variable_name"
                            | "word"
                            | "concatenation"
                            | "string"
                            | "simple_expansion"
                            | "expansion"
                    ) {
                        flow = self.node(child, source, stdin);
                    }
                }
                self.context = outer;
                flow
            }
            "comment" => {
                self.cx.text(TextKind::Comment, text(node, source), self.fixed.unwrap_or(at), &[]);
                Value::default()
            }
            "declaration_command" => {
                let keyword = text(node, source).split_whitespace().next().unwrap_or("");
                let is_ref = matches!(keyword, "declare" | "typeset" | "local")
                    && named(node).iter().any(|child| is_ref_option(text(*child, source)));
                for child in named(node) {
                    if child.kind() == "variable_assignment" && !is_ref {
                        self.assignment(child, source);
                    } else {
                        // `declare 'a[$(…)]=1'`
                        self.here = self.fixed.unwrap_or(at);
                        let word = self.word(text(child, source));
                        if is_ref && let Some(text) = word.as_whole_text() {
                            self.refers(text);
                        }
                        self.subscripts("declare", &[Value::default(), word]);
                    }
                }
                // `export -p`.
                let words: Vec<Value> =
                    text(node, source).split_whitespace().skip(1).map(Value::text).collect();
                let whole = super::tokens::prints_environment(keyword, &words);
                if whole { Value::name(super::tokens::ENVIRONMENT) } else { Value::default() }
            }
            "unset_command" => {
                let mut argv = vec![Value::text("unset")];
                for word in named(node) {
                    self.here = self.fixed.unwrap_or(at);
                    argv.push(self.word(text(word, source)));
                }
                self.run(&argv, &Value::default(), at, false)
            }
            "test_command" | "word" | "string" | "raw_string" | "variable_name" | "number"
            | "heredoc_body" => {
                if node.kind() != "raw_string" && text(node, source).contains(['`', '$', '<']) {
                    self.here = self.fixed.unwrap_or(at);
                    let raw = text(node, source).to_owned();
                    self.expand_text(&raw);
                }
                Value::default()
            }
            "command_substitution" | "process_substitution" => {
                let mut flow = Value::default();
                for child in named(node) {
                    flow = self.node(child, source, stdin);
                }
                flow
            }
            _ => {
                // Lists, subshells, branches, and recovered syntax errors.
                let mut printed: Option<Value> = None;
                for child in named(node) {
                    let value = self.node(child, source, stdin);
                    printed = Some(match printed {
                        Some(before) if before.as_text().is_some() && value.as_text().is_some() => {
                            concat(&before, &value)
                        }
                        Some(before) => value.or(&Value { known: None, ..before }),
                        None => value,
                    });
                }
                printed.unwrap_or_default()
            }
        }
    }

    fn assignment(&mut self, node: Node<'_>, source: &str) {
        let Some(name) = node.child_by_field_name("name").map(|n| text(n, source).to_owned()) else { return };
        let at = self.fixed.unwrap_or((node.start_byte(), node.end_byte()));
        self.here = at;
        let value = match node.child_by_field_name("value") {
            // An element by its number is any of them.
            Some(value) if value.kind() == "array" => {
                let words: Vec<Value> = named(value)
                    .into_iter()
                    .flat_map(|word| self.expand(text(word, source)))
                    .map(|word| word.value)
                    .collect();
                self.keep_keyed(&name, &words);
                self.keep_array(&name, &words, text(node, source).contains("+="));
                match words.as_slice() {
                    [only] => only.clone(),
                    words => in_common(words),
                }
            }
            Some(value) => {
                let raw = text(value, source).to_owned();
                self.expand_value(&raw)
            }
            None => Value::text(""),
        };
        let value =
            if text(node, source).contains("+=") { concat(&self.variable(&name), &value) } else { value };
        self.set(&name, value, at);
    }

    /// `export NAME=VALUE` whose first word is quoted or a variable, so that the parser sees only words.
    pub(super) fn declared(&mut self, name: &str, argv: &[Value]) {
        if !matches!(name, "export" | "declare" | "typeset" | "readonly" | "local" | "nameref") {
            return;
        }
        let texts = || argv.iter().skip(1).filter_map(Value::as_whole_text);
        if name == "nameref" || !matches!(name, "export" | "readonly") && texts().any(is_ref_option) {
            return texts().for_each(|text| self.refers(text));
        }
        for word in argv.iter().skip(1) {
            if let Some((name, text)) = word.as_text().and_then(|text| text.split_once('=')) {
                let value = Value { known: Value::text(text).known, ..word.clone() };
                self.set(name, value, self.here);
            }
        }
    }

    fn set(&mut self, name: &str, value: Value, at: (usize, usize)) {
        let name = self.referred(name).to_owned();
        self.tabled(&name, &value);
        self.cx.fact_with(Language::Bash, "env.set", at, &[Value::text(&name), value.clone()], self.context);
        self.told(&value, at);
        // A later `((name))` evaluates it.
        if let Some(text) = value.as_text().filter(|text| is_subscript(text)) {
            let text = text.to_owned();
            self.expand_text(&text);
        }
        if matches!(name.as_str(), "PROMPT_COMMAND" | "BASH_ENV" | "ENV" | "PS4")
            && let Some(text) = value.as_text()
        {
            let text = text.to_owned();
            self.child(Language::Bash, &text, &["quoted"]);
        }
        if let Some(text) = value.as_whole_text() {
            let text = text.to_owned();
            self.loaded(&name, &text);
        }
        self.vars.insert(name, value);
    }

    fn told(&mut self, value: &Value, at: (usize, usize)) {
        if let Some(text) = value.as_text().filter(|t| t.len() >= 4) {
            self.cx.text(TextKind::String, text, at, &value.chain);
            self.cx.encoded(text, at);
        }
    }

    fn command_node(&mut self, node: Node<'_>, source: &str, stdin: &Value) -> Value {
        let at = self.fixed.unwrap_or((node.start_byte(), node.end_byte()));
        self.here = at;
        let mut argv = Vec::new();
        let mut disguised = false;
        let mut input = stdin.clone();
        for child in all(node) {
            // `sh 0<FILE`: the parser takes the descriptor for a word.
            let is_descriptor =
                source.as_bytes().get(child.end_byte()).is_some_and(|c| matches!(c, b'<' | b'>'))
                    && text(child, source).bytes().all(|c| c.is_ascii_digit());
            if is_descriptor && !argv.is_empty() {
                continue;
            }
            match child.kind() {
                "variable_assignment" => self.assignment(child, source),
                "command_name"
                | "word"
                | "string"
                | "raw_string"
                | "ansi_c_string"
                | "concatenation"
                | "simple_expansion"
                | "expansion"
                | "arithmetic_expansion"
                | "command_substitution"
                | "process_substitution"
                | "number"
                | "translated_string"
                | "brace_expression"
                | "regex"
                | "extglob_pattern"
                | "=="
                | "=~"
                | "$"
                | "test_operator" => {
                    let raw = text(child, source).to_owned();
                    self.arithmetic(&raw, at);
                    for word in self.expand(&raw) {
                        if argv.is_empty() {
                            disguised = word.disguised;
                        }
                        self.told(&word.value, at);
                        argv.push(word.value);
                    }
                }
                "herestring_redirect" => {
                    let raw = text(child, source).trim_start_matches("<<<").trim().to_owned();
                    input = self.word(&raw);
                }
                "file_redirect" => self.redirect(child, source, &Value::default()),
                _ => {}
            }
        }
        self.run(&argv, &input, at, disguised)
    }

    fn redirected(&mut self, node: Node<'_>, source: &str, stdin: &Value) -> Value {
        let mut input = stdin.clone();
        for child in all(node) {
            match child.kind() {
                "heredoc_redirect" => input = self.heredoc(child, source),
                "herestring_redirect" => {
                    let raw = text(child, source).trim_start_matches("<<<").trim().to_owned();
                    self.here = self.fixed.unwrap_or((child.start_byte(), child.end_byte()));
                    input = self.word(&raw);
                }
                "file_redirect" if is_input(text(child, source)) => {
                    self.here = self.fixed.unwrap_or((child.start_byte(), child.end_byte()));
                    let raw = text(child, source).trim_start_matches(['0', '<', '>', '&']).trim().to_owned();
                    input = self.expand_value(&raw);
                    let is_remote = (raw.contains("COPROC") || input.is_named(super::flow::COPROCESS))
                        && input.origin.has(Origin::NET);
                    if input.names.iter().all(|n| &**n != "<()") && !is_remote {
                        let content = input.as_text().and_then(|path| self.files.get(key(path)).cloned());
                        let path = input.as_whole_text().map(str::to_owned);
                        input =
                            content.or_else(|| path.as_deref().map(super::content_of)).unwrap_or_default();
                    }
                }
                _ => {}
            }
        }
        let outer = self.body;
        self.body = node.child_by_field_name("body").map_or(Body::Other, |body| body_of(body, source));
        if self.body == Body::Exec && all(node).iter().any(|child| is_input(text(*child, source))) {
            self.input = Some(input.clone());
        }
        let flow = match node.child_by_field_name("body") {
            Some(body) => self.node(body, source, &input),
            None => input.clone(),
        };
        // The line of a here-document may continue: `cat <<E | sh`.
        let mut flow = flow;
        for child in all(node) {
            match child.kind() {
                "file_redirect" => self.redirect(child, source, &flow),
                "heredoc_redirect" => {
                    for inner in named(child) {
                        match inner.kind() {
                            "pipeline" | "command" | "list" | "redirected_statement" => {
                                flow = self.node(inner, source, &flow);
                            }
                            "file_redirect" => self.redirect(inner, source, &flow),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        self.body = outer;
        flow
    }

    /// Reports redirections to and from the shell's network device: connected to a shell it is a remote
    /// shell, opened only to test a connection it is a probe.
    fn remote(&mut self, target: &Value, operator: &str, content: &Value, at: (usize, usize)) {
        let descriptor = operator.trim_end_matches(['<', '>', '&', '|']);
        let Some(text) = target.as_text() else { return };
        let opens = text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/");
        let copies = operator.ends_with('&') && self.remote.contains(text);
        if !opens && !copies {
            return;
        }
        let standard = matches!(descriptor, "" | "0" | "1" | "2");
        if opens && self.body == Body::Exec && !standard {
            self.remote.insert(descriptor.to_owned());
        }
        let fact = match self.body {
            Body::Interpreter => "shell.remote",
            Body::Exec if standard => "shell.remote",
            Body::Reader if operator.contains('<') => "shell.remote_read",
            _ => "shell.remote_open",
        };
        let args = [target.clone(), content.clone()];
        self.cx.fact_with(Language::Bash, fact, at, &args, self.context);
    }

    fn heredoc(&mut self, node: Node<'_>, source: &str) -> Value {
        let body = named(node).into_iter().find(|n| n.kind() == "heredoc_body");
        let quoted = named(node)
            .into_iter()
            .any(|n| n.kind() == "heredoc_start" && text(n, source).contains(['\'', '"', '\\']));
        let raw = body.map_or("", |n| text(n, source)).to_owned();
        self.here = self.fixed.unwrap_or((node.start_byte(), node.end_byte()));
        if quoted { Value::text(&raw) } else { self.expand_text(&raw) }
    }

    fn redirect(&mut self, node: Node<'_>, source: &str, content: &Value) {
        let at = self.fixed.unwrap_or((node.start_byte(), node.end_byte()));
        self.here = at;
        let raw = text(node, source);
        let digits = raw.bytes().take_while(u8::is_ascii_digit).count();
        let signs = raw[digits..].bytes().take_while(|b| b"<>&|".contains(b)).count();
        let operator = raw[..digits + signs].to_owned();
        let target = node.child_by_field_name("destination").map_or("", |n| text(n, source)).to_owned();
        let target = self.expand_value(&target);
        // Of a file in a temporary folder only the way of credentials is followed.
        if operator.contains('>') && target.as_whole_text().is_none() && super::tokens::is_token(content) {
            let path = super::fetched::path_of(&target);
            if !path.contains(HOLE) {
                self.files.insert(key(&path).to_owned(), content.clone());
            }
        }
        // A file with a first line of a shell is a script, also where another program starts it.
        if operator.contains('>')
            && let Some(script) = content.as_text().filter(|text| is_script(text)).map(str::to_owned)
        {
            self.child(Language::Bash, &script, &["heredoc"]);
        }
        if operator.contains('>')
            && let Some(path) = target.as_whole_text()
        {
            let before = if operator.contains(">>") {
                self.files.get(key(path)).cloned().unwrap_or_else(|| Value::text(""))
            } else {
                Value::text("")
            };
            let mut whole =
                if content.as_text().is_some() { concat(&before, content) } else { content.clone() };
            let names = before.names.iter().chain(&content.names);
            if let Some(token) = names.into_iter().find(|name| super::tokens::is_token(&Value::name(name))) {
                whole.names.push(token.clone());
            }
            self.files.insert(key(path).to_owned(), whole);
        }
        // `exec 3<FILE`, for `<&3` later.
        if digits > 0
            && signs == 1
            && operator.ends_with('<')
            && let Some(path) = target.as_whole_text()
        {
            let value = self.files.get(key(path)).cloned().unwrap_or_else(|| super::content_of(path));
            self.files.insert(operator[..digits].to_owned(), value);
        }
        self.remote(&target, &operator, content, at);
        let args = [target, Value::text(&operator), content.clone()];
        let call = Call {
            names: &["redirect".into()],
            method: None,
            receiver: None,
            args: &args,
            kwargs: &[],
            context: self.context,
        };
        self.cx.call(Language::Bash, &call, at);
    }
}

/// Whether a redirection opens standard input: `<FILE`, `0<FILE`, `<>FILE`, `<&3`.
fn is_input(redirect: &str) -> bool {
    let signs = redirect.strip_prefix('0').unwrap_or(redirect);
    signs.starts_with('<') && !signs.starts_with("<<") && !signs.starts_with("<(")
}

/// Common prefix and suffix of texts.
fn in_common(items: &[Value]) -> Value {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_text).collect();
    let Some((first, rest)) = texts.as_deref().and_then(<[_]>::split_first) else { return Value::default() };
    let (mut head, mut tail) = (first.len(), first.len());
    for text in rest {
        head = head.min(first.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count());
        tail = tail.min(first.bytes().rev().zip(text.bytes().rev()).take_while(|(a, b)| a == b).count());
    }
    let shortest = texts.iter().flatten().map(|text| text.len()).min().unwrap_or(0);
    let head = first.floor_char_boundary(head);
    let tail = first.ceil_char_boundary(first.len() - tail.min(shortest.saturating_sub(head)));
    Value::text(&format!("{}{HOLE}{}", &first[..head], &first[tail.max(head)..]))
}

/// Kind of the command before a redirection. A loop or a group that runs unknown commands is an interpreter.
fn body_of(body: Node<'_>, source: &str) -> Body {
    let mut names = Vec::new();
    command_names(body, source, &mut names, 0);
    let interprets = |name: &&str| {
        let bare = name.trim_matches(['"', '\'']);
        crate::rules::is_shell(bare)
            || crate::shell::arguments::language_of(crate::rules::basename(bare)).is_some()
            || matches!(bare, "eval" | "source" | ".")
            || bare.starts_with('$')
    };
    match &names[..] {
        [] => Body::Other,
        names if names.iter().any(interprets) => Body::Interpreter,
        ["exec"] => Body::Exec,
        names
            if names.iter().all(|n| matches!(*n, ":" | "true" | "echo" | "printf" | "timeout" | "sleep")) =>
        {
            Body::Other
        }
        _ => Body::Reader,
    }
}

fn text<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    source.get(node.byte_range()).unwrap_or("")
}

fn named(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).collect()
}

fn all(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

/// Command names below a node, up to a limit.
fn command_names<'s>(node: Node<'_>, source: &'s str, out: &mut Vec<&'s str>, depth: usize) {
    if depth > 60 || out.len() > 200 {
        return;
    }
    if node.kind() == "command_name" {
        out.push(text(node, source));
    }
    for child in named(node) {
        command_names(child, source, out, depth + 1);
    }
}

/// A function that starts itself more than once, or in the background.
fn is_bomb(body: Node<'_>, name: &str, source: &str) -> bool {
    let mut names = Vec::new();
    command_names(body, source, &mut names, 0);
    let own = names.iter().filter(|n| **n == name).count();
    let code = text(body, source);
    own >= 2 && code.contains(['|', '&'])
        || own == 1 && code.contains('&') && !code.contains("&&") && names.len() == 1
}

fn endless(node: Node<'_>, source: &str) -> bool {
    let code = text(node, source);
    let head = code.split("do").next().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
    let head = head.trim_end_matches([';', ' ']);
    let always = matches!(
        head,
        "while true"
            | "while :"
            | "while 1"
            | "while [ 1 ]"
            | "while [[ 1 ]]"
            | "while ((1))"
            | "while (( 1 ))"
            | "while [ true ]"
            | "until false"
            | "until [ ]"
    ) || head.replace(' ', "").starts_with("for((;;))");
    let mut names = Vec::new();
    command_names(node, source, &mut names, 0);
    always && !names.iter().any(|n| matches!(*n, "break" | "return" | "exit")) && !code.contains("break")
}

/// A loop whose commands neither wait nor depend on anything outside.
fn idle(node: Node<'_>, source: &str) -> bool {
    let mut names = Vec::new();
    command_names(node, source, &mut names, 0);
    names.iter().all(|n| {
        matches!(
            *n,
            ":" | "true"
                | "echo"
                | "printf"
                | "false"
                | "["
                | "let"
                | "cat"
                | "mkdir"
                | "touch"
                | "dd"
                | "yes"
        )
    })
}

/// True for a text whose first line says that a shell executes it.
fn is_script(text: &str) -> bool {
    let first = text.lines().next().unwrap_or("");
    let program = first
        .strip_prefix("#!")
        .and_then(|rest| rest.split_whitespace().find(|word| !word.ends_with("/env")));
    program.is_some_and(crate::rules::is_shell) && text.lines().nth(1).is_some()
}
