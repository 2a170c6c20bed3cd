//! Shell: what a script would run, with wrappers peeled and texts that it pipes into interpreters followed.
//!
//! tree-sitter gives the structure, words are expanded here, and brush-parser is asked for a second opinion:
//! where the two disagree, every sequence of words counts as a possible command.

mod output;
mod peel;
mod walk;
mod word;

use crate::limits::too_deep;
use crate::report::PartState;
use crate::rules::{Call, Language, Spot, basename};
use crate::scan::Cx;
use crate::value::{Origin, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use tree_sitter::Parser;

/// Reads a shell script.
pub(crate) fn read(cx: &mut Cx<'_>, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    if let Some(why) = too_deep(source, cx.limits, true).filter(|why| why.starts_with("brackets")) {
        cx.not_read(why);
        return PartState::Skipped(why.to_owned());
    }
    if pipes(source) > cx.limits.chain {
        cx.not_read("a pipeline too long");
        return PartState::Skipped("a pipeline too long".to_owned());
    }
    let joined = join_words(source);
    let mut shell = Shell {
        cx,
        vars: FxHashMap::default(),
        files: FxHashMap::default(),
        functions: FxHashMap::default(),
        remote: FxHashSet::default(),
        body: Body::Other,
        fixed: None,
        depth: 0,
        context: Spot::TOP,
        here: (0, 0),
    };
    let clean = shell.script(&joined);
    // A second parser's opinion, where the first is content and the size is ordinary.
    let agreed = clean && (joined.len() > 256 * 1024 || second_opinion(&joined));
    if !agreed {
        shell.every_sequence(&joined);
        cx.fact(Language::Bash, "parse.partial", (0, 0));
        return PartState::Recovered;
    }
    PartState::Parsed
}

/// The commands of the longest pipeline, about: the parser tries several readings of each and keeps them all.
fn pipes(source: &str) -> usize {
    let (mut longest, mut now, mut last) = (0, 0, b' ');
    for byte in source.bytes() {
        match byte {
            b'|' => now += 1,
            b'\n' if last != b'|' => now = 0,
            b';' | b'&' => now = 0,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
        longest = longest.max(now);
    }
    longest
}

/// A command line that another language runs without a shell.
pub(crate) fn command(cx: &mut Cx<'_>, argv: &[Value], at: (usize, usize)) {
    let mut shell = Shell {
        cx,
        vars: FxHashMap::default(),
        files: FxHashMap::default(),
        functions: FxHashMap::default(),
        remote: FxHashSet::default(),
        body: Body::Other,
        fixed: Some(at),
        depth: 0,
        context: 0,
        here: at,
    };
    shell.run(argv.to_vec(), &Value::default(), at, false);
}

/// What stands before a redirection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// `exec`: the redirection stays.
    Exec,
    /// Something that executes what it reads, or prints what it executed.
    Interpreter,
    /// Nothing, or a command that does not wait for an answer: a probe.
    Other,
    /// A command that reads.
    Reader,
}

struct Shell<'c, 'p> {
    cx: &'c mut Cx<'p>,
    vars: FxHashMap<String, Value>,
    /// What was written into files of the script's own.
    files: FxHashMap<String, Value>,
    functions: FxHashMap<String, ()>,
    /// Descriptors that were opened on the shell's network device.
    remote: FxHashSet<String>,
    /// What a redirection that is being read belongs to.
    body: Body,
    /// Where findings stand when the text is not the file's own.
    fixed: Option<(usize, usize)>,
    depth: usize,
    context: u32,
    /// The place of the command that is being expanded.
    here: (usize, usize),
}

impl Shell<'_, '_> {
    /// Walks a script; `false` when the parser had to guess.
    fn script(&mut self, source: &str) -> bool {
        let mut parser = Parser::new();
        if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
            self.cx.not_read("no shell grammar");
            return false;
        }
        let Some(tree) = crate::tree::parsed(self.cx, &mut parser, source) else {
            self.cx.not_read("the shell parser gave up");
            return false;
        };
        self.node(tree.root_node(), source, &Value::default());
        !tree.root_node().has_error()
    }

    /// The output of a script inside this one.
    fn capture(&mut self, source: &str) -> Value {
        if self.depth > 12 || !self.cx.tick() {
            return Value::default();
        }
        let mut parser = Parser::new();
        if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
            return Value::default();
        }
        let Some(tree) = crate::tree::parsed(self.cx, &mut parser, source) else { return Value::default() };
        let fixed = self.fixed.or(Some(self.here));
        let outer = std::mem::replace(&mut self.fixed, fixed);
        self.depth += 1;
        let mut value = self.node(tree.root_node(), source, &Value::default());
        self.depth -= 1;
        self.fixed = outer;
        if let Some(text) = value.as_text() {
            let trimmed = text.trim_end_matches('\n').to_owned();
            value.known = Value::text(&trimmed).known;
        }
        value.with_origin(Origin::COMPUTED)
    }

    fn child(&mut self, language: Language, text: &str, chain: &[&'static str]) {
        let at = self.fixed.unwrap_or(self.here);
        self.cx.child(language, text, at, chain);
    }

    /// Runs a command line: tells it, follows what it runs in turn, and says what it prints.
    fn run(&mut self, argv: Vec<Value>, stdin: &Value, at: (usize, usize), disguised: bool) -> Value {
        let at = self.fixed.unwrap_or(at);
        self.here = at;
        let mut argv = argv;
        for _ in 0..8 {
            let Some(first) = argv.first() else { return Value::default() };
            let Some(name) = first.as_text().map(|t| basename(t).to_owned()) else {
                self.tell("?", &argv, stdin, at, disguised);
                return Value::default();
            };
            self.tell(&name, &argv, stdin, at, disguised);
            self.interpret(&name, &argv, stdin);
            self.declared(&name, &argv);
            match peel::inner(&name, &argv) {
                Some(inner) => argv = inner,
                None => return self.output(&name, &argv, stdin),
            }
        }
        Value::default()
    }

    fn tell(&mut self, name: &str, argv: &[Value], stdin: &Value, at: (usize, usize), disguised: bool) {
        let full: Rc<str> = name.trim_end_matches(".exe").into();
        let hidden = disguised || argv.first().is_some_and(|v| !v.chain.is_empty());
        if hidden && full.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && full.len() > 1 {
            self.cx.fact(Language::Bash, "shell.disguised", at);
        }
        if name.contains(['?', '[', '*'])
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-?*[]".contains(c))
            && name.len() > 1
            && name != "["
            && name != "[["
            || argv
                .first()
                .and_then(Value::as_text)
                .is_some_and(|t| t.starts_with('/') && t.contains(['?', '*', '[']))
        {
            self.cx.fact(Language::Bash, "shell.glob_command", at);
        }
        let mut kwargs: Vec<(Rc<str>, Value)> =
            if stdin.names.is_empty() && stdin.known.is_none() && stdin.origin == Origin::default() {
                Vec::new()
            } else {
                vec![("stdin".into(), stdin.clone())]
            };
        kwargs.extend(argv.first().map(|first| ("command_name".into(), first.clone())));
        let names = [full, "<any>".into()];
        let call = Call {
            names: &names,
            method: None,
            receiver: None,
            args: argv.get(1..).unwrap_or(&[]),
            kwargs: &kwargs,
            context: self.context,
        };
        self.cx.call(Language::Bash, &call, at);
    }

    /// Texts that a command executes.
    fn interpret(&mut self, name: &str, argv: &[Value], stdin: &Value) {
        for (language, text) in peel::programs(name, argv) {
            let mut chain = text.chain.clone();
            if chain.is_empty() {
                chain.push("quoted");
            }
            if let Some(text) = text.as_text() {
                self.child(language, text, &chain);
            }
        }
        if peel::reads_program_from_stdin(name, argv)
            && let Some(text) = stdin.as_text()
        {
            let language = peel::language_of(name).unwrap_or(Language::Bash);
            let chain: Vec<&'static str> =
                if stdin.chain.is_empty() { vec!["heredoc"] } else { stdin.chain.clone() };
            self.child(language, text, &chain);
        }
        // What another command prints, as a file: `bash <(echo …)`.
        if matches!(name, "." | "source") || peel::language_of(name).is_some() {
            let printed = argv.iter().skip(1).find(|v| v.names.iter().any(|n| &**n == "<()"));
            if let Some(text) = printed.and_then(Value::as_text) {
                let chain = printed.map(|v| v.chain.clone()).filter(|chain| !chain.is_empty());
                let language = peel::language_of(name).unwrap_or(Language::Bash);
                self.child(language, text, &chain.unwrap_or_else(|| vec!["heredoc"]));
            }
        }
        // A file that the script wrote itself: `. x`, `sh x`, `./x`.
        let operand = argv.get(1).and_then(Value::as_text);
        let path = if matches!(name, "." | "source")
            || crate::rules::is_shell(name)
            || peel::language_of(name).is_some()
        {
            operand
        } else {
            argv.first().and_then(Value::as_text)
        };
        if let Some(path) = path
            && let Some(content) = self.files.get(path).cloned()
        {
            if let Some(text) = content.as_text() {
                let chain = if content.chain.is_empty() { vec!["file"] } else { content.chain.clone() };
                self.child(peel::language_of(name).unwrap_or(Language::Bash), text, &chain);
            }
            if content.origin.has(Origin::NET) {
                self.cx.fact(Language::Bash, "shell.runs_download", self.here);
            }
        }
    }

    /// Every line, cut at separators, as a command: for scripts that the parsers do not agree on.
    fn every_sequence(&mut self, source: &str) {
        let mut at = 0;
        for line in source.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let code = line.trim();
            if code.is_empty() || code.starts_with('#') {
                continue;
            }
            for piece in code.split([';', '|', '&', '(', ')', '{', '}']) {
                let piece = piece.trim();
                let piece = ["then ", "do ", "else ", "! ", "if ", "while "]
                    .iter()
                    .fold(piece, |p, k| p.strip_prefix(k).unwrap_or(p));
                let words: Vec<&str> = piece.split_whitespace().take(64).collect();
                if words.is_empty() {
                    continue;
                }
                let argv: Vec<Value> =
                    words.into_iter().flat_map(|w| self.expand(w)).map(|w| w.value).collect();
                if !argv.is_empty() {
                    self.run(argv, &Value::default(), (start, at), false);
                }
            }
        }
    }
}

/// Line continuations inside words removed, and carriage returns before line ends.
fn join_words(source: &str) -> String {
    let source = source.replace("\r\n", "\n");
    if !source.contains("\\\n") {
        return source;
    }
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut from = 0;
    for (at, _) in source.match_indices("\\\n") {
        let of_a_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-".contains(byte);
        let before = at > 0 && of_a_word(&bytes[at - 1]);
        let after = bytes.get(at + 2).is_some_and(of_a_word);
        if before && after {
            out.push_str(&source[from..at]);
            from = at + 2;
        }
    }
    out.push_str(&source[from..]);
    out
}

/// Whether brush reads the script too.
fn second_opinion(source: &str) -> bool {
    // It panics at descriptors that are no 32-bit numbers; no shell has them either.
    let mut digits = 0;
    let huge = source.bytes().any(|byte| {
        let redirects = digits > 9 && matches!(byte, b'<' | b'>');
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        redirects
    });
    if huge {
        return false;
    }
    let options = brush_parser::ParserOptions::default();
    brush_parser::Parser::new(std::io::Cursor::new(source.as_bytes()), &options).parse_program().is_ok()
}

#[cfg(test)]
mod tests {
    use super::pipes;

    #[test]
    fn pipelines_are_measured() {
        for (source, want) in
            [("", 0), ("a | b |\n  c", 2), ("a | b\nc | d", 1), ("a|b;c|d|e", 2), ("a || b & c | d", 2)]
        {
            assert_eq!(pipes(source), want, "{source}");
        }
    }
}
