//! Python: names are resolved through scopes, constants folded, calls reported with the possible values of
//! their arguments.
//!
//! A module is walked twice: first to learn the arguments and results of functions, then to report. Function
//! bodies are walked after the block that defines them, so that everything they use is known.

mod call;
mod comprehension;
mod entry;
mod expression;
mod facts;
mod flow;
pub(crate) mod fold;
mod guards;
mod hidden;
mod inline;
mod library;
mod loops;
mod model;
mod objects;
mod packages;
mod plain;
mod saved;
mod statement;

use crate::limits::too_deep;
use crate::report::PartState;
use crate::value::{Origin, Value};
use ruff_python_ast::{Expr, Mod, Parameters, Stmt};
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

use crate::context::Cx;
use crate::language::Language;
use crate::rules::TextKind;

/// True for a valid Python program: prose with a line that begins with a keyword is not one.
pub(crate) fn is_sound(source: &str) -> bool {
    too_deep(source, &crate::limits::Limits::default(), true).is_none()
        && ruff_python_parser::parse_module(source).is_ok()
}

/// Reads a Python source.
pub(crate) fn read(cx: &mut Cx<'_>, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    if let Some(why) = too_deep(source, cx.limits, true) {
        cx.not_read(why);
        return PartState::Skipped(why.to_owned());
    }
    let Some(parsed) = parse(source) else {
        let why = "commands of IPython in a source with errors that its parser is lost over";
        cx.not_read(why);
        return PartState::Skipped(why.to_owned());
    };
    let clean = parsed.has_valid_syntax();
    let body: &[Stmt] = match parsed.syntax() {
        Mod::Module(module) => &module.body,
        Mod::Expression(_) => &[],
    };
    if !source.is_ascii() {
        lookalikes(cx, source, parsed.tokens());
    }
    for token in parsed.tokens() {
        if token.kind() == ruff_python_ast::token::TokenKind::Comment {
            let range = token.range();
            cx.text(TextKind::Comment, &source[range], span(range), &[]);
        }
    }
    let mut py = Python::new(cx, source);
    py.flow.serves = source.contains("tools/call");
    py.flow.serves_models = crate::instructions::serves_models(source);
    py.module(body);
    let (functions, attributes, globals) = (py.functions, py.attributes, py.scopes.swap_remove(0).vars);
    let signatures = py.signatures;
    let bodies = py.inlining.bodies;
    let memory = std::mem::take(&mut py.memory);
    let flow = py.flow.kept();
    let mut py = Python::new(cx, source);
    py.flow = flow;
    py.signatures = signatures;
    py.inlining.bodies = bodies;
    py.memory = memory;
    py.functions = functions;
    py.attributes = attributes;
    py.last_globals = globals;
    py.emit = true;
    py.module(body);
    py.shows(body);
    if !clean {
        cx.fact(Language::Python, "parse.partial", (0, 0));
    }
    if clean { PartState::Parsed } else { PartState::Recovered }
}

/// Maximum number of arguments of another file's call that are looked for among a function's further ones.
const MAX_VARIADIC: usize = 8;

/// Parses a source, with commands of IPython (`!ls`, `%cd`) if it contains some and is not valid Python
/// without them.
///
/// While recovering from an error the parser goes back to the start of a line, and panics if the line begins
/// with something that only an IPython prompt takes for a command (ruff 0.0.10, `import{\n,`): such a source
/// is not parsed with commands.
fn parse(source: &str) -> Option<Parsed<Mod>> {
    let parse_as = |source: &str, mode: Mode| parse_unchecked(source, ParseOptions::from(mode));
    let plain = parse_as(source, Mode::Module);
    if plain.has_valid_syntax() || !has_commands(source) {
        return Some(plain);
    }
    let only_at_a_prompt = |line: &str| line.starts_with([',', ';', '/', '?']);
    let is_safe = !lines(source).any(only_at_a_prompt)
        || parse_as(&without_commands(source), Mode::Module).has_valid_syntax();
    is_safe.then(|| parse_as(source, Mode::Ipython))
}

/// True when IPython, or the parser, may find commands: at the start of a line, or after `=`.
fn has_commands(source: &str) -> bool {
    lines(source).any(|line| line.starts_with(['!', '%'])) || source.split('=').skip(1).any(is_command)
}

fn is_command(text: &str) -> bool {
    text.trim_start_matches(is_blank).starts_with(['!', '%'])
}

/// Characters that may precede a command: a superset of those that IPython and the parser skip.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\\' | '\x1c'..='\x1f' | '\u{feff}')
}

/// Lines without invisible leading characters.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    source.split(['\n', '\r']).map(|line| line.trim_start_matches(is_blank))
}

/// The source with commands replaced by Python statements that are invalid inside brackets, as commands are.
fn without_commands(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut continues = false;
    for line in source.split_inclusive(['\n', '\r']) {
        let text = line.trim_end_matches(['\n', '\r']);
        let blank = text.len() - text.trim_start_matches(is_blank).len();
        let behind = text.match_indices('=').map(|(at, _)| at + 1).find(|at| is_command(&text[*at..]));
        let kept = match (continues, is_command(text), behind) {
            (true, ..) => None,
            (_, true, _) => Some((blank, "pass")),
            (_, _, Some(at)) => Some((at, "0;pass")),
            _ => Some((text.len(), "")),
        };
        if let Some((kept, statement)) = kept {
            out.push_str(&text[..kept]);
            out.push_str(statement);
        }
        let is_whole = kept.is_some_and(|(kept, _)| kept == text.len());
        continues = !is_whole && text.ends_with('\\');
        out.push_str(&line[text.len()..]);
    }
    out
}

/// A range as a pair.
fn span(range: TextRange) -> (usize, usize) {
    (range.start().to_usize(), range.end().to_usize())
}

/// Knowledge about a function.
#[derive(Clone, Default)]
struct Function {
    /// Learnt arguments of its parameters, by position, then by name.
    params: Vec<(Rc<str>, Value)>,
    /// Possible results.
    returns: Value,
    /// True when its first parameter is the instance.
    method: bool,
}

/// A body that is walked after its enclosing block.
struct Pending<'a> {
    name: Rc<str>,
    params: &'a Parameters,
    body: &'a [Stmt],
    class: Option<Rc<str>>,
}

#[derive(Default)]
struct Scope {
    vars: FxHashMap<Rc<str>, Value>,
    globals: FxHashSet<Rc<str>>,
    /// Block in which each name that holds something from a caller was bound.
    given_in: FxHashMap<Rc<str>, u32>,
    /// Class bodies are not visible from the functions inside them.
    class: bool,
}

struct Python<'c, 'p, 'a> {
    cx: &'c mut Cx<'p>,
    source: &'a str,
    scopes: Vec<Scope>,
    pending: Vec<Vec<Pending<'a>>>,
    functions: FxHashMap<Rc<str>, Function>,
    /// `C.x` for values that methods store in `self.x`, and `C` for the bases.
    attributes: FxHashMap<Rc<str>, Value>,
    last_globals: FxHashMap<Rc<str>, Value>,
    /// Annotations written as texts, and whether something evaluates them.
    hints: hidden::Hints,
    /// Parameter names of every function seen.
    signatures: FxHashMap<Rc<str>, Vec<Rc<str>>>,
    inlining: inline::Inlining<'a>,
    flow: flow::Flow,
    class: Option<Rc<str>>,
    function: Option<Rc<str>>,
    /// Object and name of the member reached last, if nothing else is known about it: `getattr(x, 'y')`.
    bound: Option<(Value, String)>,
    /// True to report, false to learn only.
    emit: bool,
    /// Bits of `Spot`.
    spot: u32,
    depth: usize,
    memory: Memory,
    /// Statements of the module, and their plain form once something asks for it.
    statements: &'a [Stmt],
    plain: Option<crate::hosts::Program>,
}

/// Answers that are asked for again and again in a file.
#[derive(Default)]
struct Memory {
    /// One copy of each name.
    words: FxHashSet<Rc<str>>,
    /// Origins by names of the library.
    origins: FxHashMap<Rc<str>, Origin>,
    /// Values by names of the library.
    named: FxHashMap<Rc<str>, Value>,
    /// Name that is being put together.
    full: String,
    /// Members of other modules and objects that the file sets: `owner.name`, or `owner.*` for any.
    written: FxHashSet<Rc<str>>,
}

impl<'c, 'p, 'a> Python<'c, 'p, 'a> {
    fn new(cx: &'c mut Cx<'p>, source: &'a str) -> Self {
        Python {
            cx,
            source,
            scopes: vec![Scope::default()],
            pending: Vec::new(),
            functions: FxHashMap::default(),
            attributes: FxHashMap::default(),
            last_globals: FxHashMap::default(),
            hints: hidden::Hints::default(),
            signatures: FxHashMap::default(),
            inlining: inline::Inlining::default(),
            flow: flow::Flow::default(),
            class: None,
            function: None,
            bound: None,
            emit: false,
            spot: 0,
            depth: 0,
            memory: Memory::default(),
            statements: &[],
            plain: None,
        }
    }

    fn module(&mut self, body: &'a [Stmt]) {
        self.statements = body;
        self.spot = crate::rules::Spot::TOP;
        self.block_with_functions(body);
    }

    /// Walks a block, then the bodies of the functions that it defines.
    fn block_with_functions(&mut self, body: &'a [Stmt]) {
        self.pending.push(Vec::new());
        self.block(body);
        self.flush();
    }

    fn flush(&mut self) {
        let spot = self.spot;
        for pending in self.pending.pop().unwrap_or_default() {
            self.spot = 0;
            self.function_body(&pending);
        }
        self.spot = spot;
    }

    fn function_body(&mut self, pending: &Pending<'a>) {
        if self.depth > 60 {
            self.cx.not_read("functions nested too deeply");
            return;
        }
        let known = self.functions.entry(pending.name.clone()).or_default().params.clone();
        let mut scope = Scope::default();
        let block = self.begin_body();
        for (at, parameter) in pending.params.iter_non_variadic_params().enumerate() {
            let name = self.interned(parameter.parameter.name.as_str());
            let instance = at == 0 && pending.class.is_some();
            let value = if let (true, Some(class)) = (instance, &pending.class) {
                Value::name(&format!("@{class}()"))
            } else {
                let default = parameter.default.as_deref().map(|d| self.quietly(d));
                let given = known.iter().find(|(own, _)| *own == name).map(|(_, v)| v.clone());
                let value = match (given, default) {
                    (Some(given), Some(default)) => given.or(&default),
                    (Some(value), None) | (None, Some(value)) => value,
                    (None, None) => Value::default(),
                };
                let mut value = value.with_origin(Origin::PARAM);
                let bases = pending.class.as_ref().filter(|_| at == 1).and_then(|c| self.attributes.get(c));
                let method = pending.name.rsplit('.').next().unwrap_or("");
                if bases.is_some_and(|bases| objects::gets_record(&bases.names, method)) {
                    value = value.or(&Value::name("logging.LogRecord()"));
                }
                if let Some(object) = objects::of_hook(method, &name) {
                    value = value.or(&Value::name(object));
                }
                if entry::is_open(parameter) && !self.is_converted(&pending.name, &name) {
                    let position = at - usize::from(pending.class.is_some()).min(at);
                    self.given(value, &pending.name, (position, &*name), span(parameter.range()))
                } else {
                    value
                }
            };
            if value.origin.has(flow::GIVEN) {
                scope.given_in.insert(name.clone(), self.branch_number());
            }
            scope.vars.insert(name, value);
        }
        for variadic in pending.params.vararg.iter().chain(&pending.params.kwarg) {
            let name = variadic.name.as_str();
            let mut value = Value::default().with_origin(Origin::PARAM);
            // Any further argument is among them.
            let first = pending.params.args.len() + pending.params.posonlyargs.len();
            let first = first - usize::from(pending.class.is_some()).min(first);
            for position in (first..first + MAX_VARIADIC).chain([usize::MAX]) {
                if !value.origin.has(flow::GIVEN) {
                    value = self.given(value, &pending.name, (position, name), span(variadic.range()));
                }
            }
            let name = self.interned(name);
            scope.vars.insert(name, value);
        }
        let is_silent = self.is_silent(pending);
        let silent = std::mem::replace(&mut self.flow.silent, is_silent);
        self.described(pending);
        let outer = (self.class.take(), self.function.take());
        self.class.clone_from(&pending.class);
        self.function = Some(pending.name.clone());
        self.scopes.push(scope);
        self.depth += 1;
        self.endless_recursion(pending);
        self.block_with_functions(pending.body);
        self.depth -= 1;
        self.scopes.pop();
        self.flow.silent = silent;
        self.end_body(block);
        (self.class, self.function) = outer;
    }

    /// Evaluates an expression without reporting.
    fn quietly(&mut self, expression: &'a Expr) -> Value {
        let emit = std::mem::replace(&mut self.emit, false);
        let value = self.value(expression);
        self.emit = emit;
        value
    }

    /// A name, of which one copy is kept.
    fn interned(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.memory.words.get(name) {
            return known.clone();
        }
        let new: Rc<str> = name.into();
        self.memory.words.insert(new.clone());
        new
    }

    /// Origin of the value of a name of the library.
    fn origin_of(&mut self, name: &Rc<str>) -> Origin {
        if let Some(known) = self.memory.origins.get(name) {
            return *known;
        }
        let origin = model::origin(name);
        self.memory.origins.insert(name.clone(), origin);
        origin
    }

    fn lookup(&self, name: &str) -> Value {
        let innermost = self.scopes.len() - 1;
        for (at, scope) in self.scopes.iter().enumerate().rev() {
            if scope.class && at != innermost {
                continue;
            }
            if let Some(value) = scope.vars.get(name) {
                return match self.flow.held.get(name) {
                    Some(held) if at == 0 => value.clone().or(held),
                    _ => value.clone(),
                };
            }
        }
        if let Some(value) = self.last_globals.get(name) {
            return value.clone();
        }
        if model::is_builtin(name) {
            return Value::name(if name == "__builtins__" { "builtins" } else { name });
        }
        match name {
            "__file__" => Value::default().with_origin(Origin::SELF_FILE),
            "__doc__" => Value::name("__doc__").with_origin(Origin::SELF_FILE),
            _ => Value::default(),
        }
    }

    fn bind(&mut self, name: &str, value: Value) {
        let innermost = self.scopes.len() - 1;
        let key = self.interned(name);
        let global = self.scopes[innermost].globals.contains(name);
        let scope = &mut self.scopes[if global { 0 } else { innermost }];
        let block = self.flow.branch;
        // In the block that it was bound in, another value replaces what came from a caller.
        let replaced = scope.given_in.get(name) == Some(&block);
        if value.origin.has(flow::GIVEN) {
            scope.given_in.insert(key.clone(), block);
        }
        if replaced && let Some(older) = scope.vars.get_mut(name) {
            *older = std::mem::take(older).without(flow::GIVEN);
        }
        // Branches and loops are not distinguished: a name may still have its earlier values.
        let value = match scope.vars.get(name) {
            Some(older) if global || older.names.iter().any(|n| !n.starts_with('@')) => value.or(older),
            Some(older) => {
                let trail = value.trail.clone().or_else(|| older.trail.clone());
                let value = value.with_origin(Origin(older.origin.0 & !Origin::COMPUTED.0));
                Value { trail, ..value }
            }
            None => value,
        };
        scope.vars.insert(key, value);
    }
}

/// Identifiers that are normalised to others: mathematical letters for `system`.
fn lookalikes(cx: &mut Cx<'_>, source: &str, tokens: &[ruff_python_ast::token::Token]) {
    use unicode_normalization::UnicodeNormalization as _;
    for token in tokens.iter().filter(|t| t.kind() == ruff_python_ast::token::TokenKind::Name) {
        let word = &source[token.range()];
        if !word.is_ascii() {
            let folded: String = word.nfkc().collect();
            if folded.is_ascii() && folded.len() > 2 {
                cx.fact(Language::Python, "hidden.lookalike", span(token.range()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notebook_commands_are_detected() {
        for (source, commands) in [
            ("x = 1\n", false),
            ("if a != b:\n    c = d % e\n", false),
            ("!ls\n", true),
            ("if x:\n\t%cd /\n", true),
            ("a = !ls\n", true),
            ("a = \\\n  %env\n", true),
            ("\u{2028}!ls", true),
            ("\u{feff}!ls", true),
            ("a = \u{a0}!ls", true),
        ] {
            assert_eq!(has_commands(source), commands, "{source}");
        }
    }

    #[test]
    fn commands_become_statements() {
        let source = "%a\nif x:\n    !ls \\\n  -l\n    y = !ls\nz = a != b % c\n";
        assert_eq!(without_commands(source), "pass\nif x:\n    pass\n\n    y =0;pass\nz = a != b % c\n");
    }

    /// Input that makes the parser panic is never passed to it.
    #[test]
    fn invalid_python_is_read_partially() {
        for (source, valid) in [
            ("x = (a\n % b\n , c)\n", Some(true)),
            ("'''\n% of\n/usr/bin\n'''\n", Some(true)),
            ("!ls\nx = %env\n", Some(true)),
            ("import{\n,", Some(false)),
            ("f(a\n, b\nx = 1\n", Some(false)),
            ("%load_ext sql\nq = '''\nselect a\n , b\n'''\nx = f(a\n  , b)\n", Some(true)),
            ("if x:\n    !ls \\\n  -l\n    y = !ls\nf(a\n, b)", Some(true)),
            ("!ls\nimport{\n,", None),
            ("import{\n;\nx = !ls", None),
            ("{\n!x\n,1}", None),
            ("f(x = !x\n,1)", None),
        ] {
            assert_eq!(parse(source).map(|parsed| parsed.has_valid_syntax()), valid, "{source}");
        }
    }
}
