//! Shell: commands that a script would run, with wrapper commands resolved and texts piped into interpreters
//! followed.
//!
//! tree-sitter provides the structure, words are expanded here, and brush-parser gives a second opinion:
//! where the two disagree, every sequence of words counts as a possible command.

mod arguments;
mod data;
mod execute;
mod fetched;
mod flow;
mod folder;
mod label;
mod output;
mod packed;
mod pattern;
mod quoted;
mod tokens;
mod walk;
mod word;

use crate::limits::too_deep;
use crate::report::PartState;
use crate::value::{Origin, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use tree_sitter::Parser;

use crate::context::Cx;
use crate::language::Language;
use crate::rules::{Call, Spot};

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
        arrays: FxHashMap::default(),
        files: FxHashMap::default(),
        fetched: FxHashMap::default(),
        fetchers: FxHashSet::default(),
        unpacked: None,
        functions: FxHashMap::default(),
        refs: FxHashMap::default(),
        hashed: FxHashMap::default(),
        folder: None,
        followed: 0,
        passed: 0,
        shifts: true,
        calls: 0,
        captured: false,
        input: None,
        remote: FxHashSet::default(),
        body: Body::Other,
        fixed: None,
        unnamed: false,
        guessed: false,
        quoted: false,
        is_inspected: false,
        depth: 0,
        context: Spot::TOP,
        here: (0, 0),
    };
    let clean = shell.script(&joined);
    // Asks the second parser if the first found no errors and the size is ordinary.
    let agreed = clean && (joined.len() > 256 * 1024 || second_opinion(&joined));
    if !agreed {
        shell.folder = None;
        shell.every_sequence(&joined);
        cx.fact(Language::Bash, "parse.partial", (0, 0));
        return PartState::Recovered;
    }
    PartState::Parsed
}

/// Approximate length of the longest pipeline: the parser tries several readings of each command and keeps
/// them all.
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
    fed(cx, argv, None, at);
}

/// Like [`command`], with the path of the file that is its standard input.
pub(crate) fn fed(cx: &mut Cx<'_>, argv: &[Value], file: Option<&str>, at: (usize, usize)) {
    let mut shell = Shell {
        cx,
        vars: FxHashMap::default(),
        arrays: FxHashMap::default(),
        files: FxHashMap::default(),
        fetched: FxHashMap::default(),
        fetchers: FxHashSet::default(),
        unpacked: None,
        functions: FxHashMap::default(),
        refs: FxHashMap::default(),
        hashed: FxHashMap::default(),
        folder: None,
        followed: 0,
        passed: 0,
        shifts: true,
        calls: 0,
        captured: false,
        input: None,
        remote: FxHashSet::default(),
        body: Body::Other,
        fixed: Some(at),
        unnamed: false,
        guessed: false,
        quoted: false,
        is_inspected: false,
        depth: 0,
        context: 0,
        here: at,
    };
    let input = file.map_or_else(|| Value::name(INHERITED), content_of);
    shell.run(argv, &input, at, false);
}

/// Name of the script's own standard input.
const INHERITED: &str = "<stdin>";
/// Prefix of the name of a file's content.
const FROM_FILE: &str = "<file>";

/// Content of a file, known only by its name.
fn content_of(path: &str) -> Value {
    let content = Value::name(&format!("{FROM_FILE}{path}"));
    // The public half of a key is for others.
    let is_secret = crate::rules::is_secret(path) && !path.ends_with(".pub");
    if is_secret { content.with_origin(Origin::SECRET) } else { content }
}

fn inherits(stdin: &Value) -> bool {
    stdin.names.iter().any(|name| &**name == INHERITED)
}

/// Command before a redirection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// `exec`: the redirection persists.
    Exec,
    /// A command that executes its input, or prints output of executed code.
    Interpreter,
    /// No command, or one that does not wait for an answer: a probe.
    Other,
    /// A command that reads.
    Reader,
}

struct Shell<'c, 'p> {
    cx: &'c mut Cx<'p>,
    vars: FxHashMap<String, Value>,
    /// Elements of arrays.
    arrays: FxHashMap<String, Vec<Value>>,
    /// Contents of files that the script wrote itself.
    files: FxHashMap<String, Value>,
    /// Contents of files that the script fetched, by the last parts of their paths.
    fetched: FxHashMap<String, Value>,
    /// Functions of the script that fetch.
    fetchers: FxHashSet<String>,
    /// Content of an archive that the script fetched and unpacked.
    unpacked: Option<Value>,
    /// Bodies of the script's functions.
    functions: FxHashMap<String, Rc<str>>,
    /// Names that stand for other variables: `declare -n`.
    refs: FxHashMap<String, String>,
    /// Programs that names stand for: `hash -p`.
    hashed: FxHashMap<String, Value>,
    /// Folder that the script is in, as far as it is constant.
    folder: Option<Value>,
    /// Number of calls of functions that were followed.
    followed: usize,
    /// Number of calls that were followed because the function executes its arguments.
    passed: usize,
    /// True while `shift` takes arguments of the function that is followed.
    shifts: bool,
    /// Number of such calls that have not ended.
    calls: usize,
    /// True inside `$(…)`, where output is used.
    captured: bool,
    /// Standard input since `exec <FILE`.
    input: Option<Value>,
    /// Descriptors opened on the shell's network device.
    remote: FxHashSet<String>,
    /// Command that the current redirection belongs to.
    body: Body,
    /// Place of findings when the text is not contained verbatim in the file.
    fixed: Option<(usize, usize)>,
    /// True for words that name no command, or may not: a pattern of `case`, the name in `${…}`.
    unnamed: bool,
    /// True while the script is read line by line, where texts look like commands, too.
    guessed: bool,
    /// True for words of a text of such a script.
    quoted: bool,
    /// True once a variable makes Python interactive after its program.
    is_inspected: bool,
    depth: usize,
    context: u32,
    /// Place of the command that is being expanded.
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
        let Some(tree) = crate::syntax::parsed(self.cx, &mut parser, source) else {
            self.cx.not_read("the shell parser gave up");
            return false;
        };
        self.node(tree.root_node(), source, &Value::name(INHERITED));
        !tree.root_node().has_error()
    }

    /// Output of a script inside this one.
    fn capture(&mut self, source: &str) -> Value {
        let outer = std::mem::replace(&mut self.captured, true);
        let folder = self.folder.clone();
        let value = self.capture_with(source, &Value::default());
        (self.captured, self.folder) = (outer, folder);
        value
    }

    fn capture_with(&mut self, source: &str, stdin: &Value) -> Value {
        if self.depth > 12 || !self.cx.tick() {
            return Value::default();
        }
        let mut parser = Parser::new();
        if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
            return Value::default();
        }
        let Some(tree) = crate::syntax::parsed(self.cx, &mut parser, source) else { return Value::default() };
        let fixed = self.fixed.or(Some(self.here));
        let outer = std::mem::replace(&mut self.fixed, fixed);
        self.depth += 1;
        let mut value = self.node(tree.root_node(), source, stdin);
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

    fn tell(&mut self, name: &str, argv: &[Value], stdin: &Value, at: (usize, usize), disguised: bool) {
        let nothing = Value::default();
        let stdin =
            if stdin.origin != Origin::default() && self.reads_data(name, argv) { &nothing } else { stdin };
        // A fetched file as the input of a program is data, unless the program is read from there.
        let is_data = fetched::is_saved(stdin) && !arguments::reads_program_from_stdin(name, argv);
        let stdin = if is_data { &nothing } else { stdin };
        let unknown = stdin.names.iter().all(|name| &**name == INHERITED || name.starts_with(FROM_FILE));
        let stdin = if unknown && stdin.known.is_none() && stdin.origin == Origin::default() {
            &nothing
        } else {
            stdin
        };
        let full: Rc<str> = name.trim_end_matches(".exe").into();
        let hidden = disguised || argv.first().is_some_and(|v| !v.chain.is_empty());
        if hidden && full.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && full.len() > 1 {
            self.cx.fact(Language::Bash, "shell.disguised", at);
        }
        let command = argv.first().and_then(Value::as_text);
        let is_pattern = !self.unnamed
            && name.contains(['?', '[', '*'])
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-?*[]".contains(c))
            && name.len() > 1
            && name != "["
            && name != "[["
            || command.is_some_and(|t| t.starts_with('/') && t.contains(['?', '*', '[']));
        let may_name = || !self.quoted && command.is_none_or(pattern::may_name_program);
        if is_pattern && (!self.guessed || may_name()) {
            self.cx.fact(Language::Bash, "shell.glob_command", at);
        }
        let mut kwargs: Vec<(Rc<str>, Value)> =
            if stdin.names.is_empty() && stdin.known.is_none() && stdin.origin == Origin::default() {
                Vec::new()
            } else {
                vec![("stdin".into(), stdin.clone())]
            };
        // `NAME=$(…)`, where only lines are read, is not a name that is put together.
        let named = argv.first().filter(|_| !command.is_some_and(pattern::is_assignment));
        kwargs.extend(named.map(|first| ("command_name".into(), first.clone())));
        if data::is_litter(name, argv) {
            kwargs.push(("narrow".into(), Value::text("litter")));
        }
        let placed = self.placed(&full, argv);
        let names = [full, "<any>".into()];
        let call = Call {
            names: &names,
            method: None,
            receiver: None,
            args: placed.as_deref().unwrap_or_else(|| argv.get(1..).unwrap_or(&[])),
            kwargs: &kwargs,
            context: self.context,
        };
        self.cx.call(Language::Bash, &call, at);
    }

    /// Reports every line, split at separators, as a command: for scripts on which the parsers disagree.
    fn every_sequence(&mut self, source: &str) {
        self.guessed = true;
        let texts = quoted::texts(source);
        let mut at = 0;
        let mut labels = label::Labels::default();
        for line in source.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let code = line.trim();
            if code.is_empty() || code.starts_with('#') {
                continue;
            }
            let pattern = labels.of(code);
            let mut next = 0;
            for piece in code.split([';', '|', '&', '(', ')', '{', '}']) {
                // Patterns are common there; of a path that begins at the top it is told all the same.
                self.unnamed = pattern.contains(&next) || label::is_parameter(code, next);
                let begin = start + (line.len() - line.trim_start().len()) + next;
                self.quoted = quoted::is_within(&texts, begin + piece.len() - piece.trim_start().len());
                next += piece.len() + 1;
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
                    self.run(&argv, &Value::default(), (start, at), false);
                }
                self.unnamed = false;
            }
        }
        (self.guessed, self.quoted) = (false, false);
    }
}

/// Removes line continuations inside words, and carriage returns before line ends.
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

/// True when brush can parse the script, too.
fn second_opinion(source: &str) -> bool {
    // brush panics at descriptors that are not 32-bit numbers, which no shell supports either.
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
