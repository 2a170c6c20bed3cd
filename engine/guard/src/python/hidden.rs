//! Code that the library executes without a call that says so: keys of `max`, patterns of `match`, annotations, examples
//! in documentation, and what a console reads.

use super::call::Named;
use super::{Python, span};
use crate::language::Language;
use crate::value::Value;
use ruff_python_ast::{Expr, Pattern};
use ruff_text_size::Ranged;

/// Maximum number of annotations that are kept.
const MAX_HINTS: usize = 256;
/// Maximum nesting of patterns that are followed.
const MAX_PATTERNS: usize = 64;

/// Annotations written as texts.
#[derive(Default)]
pub(super) struct Hints {
    texts: Vec<(String, (usize, usize))>,
    /// True once something evaluates them.
    are_evaluated: bool,
    /// True once the examples of the file have been read.
    are_examples_read: bool,
}

impl<'a> Python<'_, '_, 'a> {
    /// Keeps an annotation that is a text: `typing.get_type_hints` evaluates it.
    pub(super) fn annotated(&mut self, hint: &Expr) {
        let Expr::StringLiteral(text) = hint else { return };
        if !self.emit || !text.value.to_str().contains('(') {
            return;
        }
        let (text, at) = (text.value.to_str().to_owned(), span(text.range()));
        if self.hints.are_evaluated {
            self.cx.child(Language::Python, &text, at, &["annotation"]);
        } else if self.hints.texts.len() < MAX_HINTS {
            self.hints.texts.push((text, at));
        }
    }

    /// Follows calls that execute something other than a callable or a text in their arguments.
    pub(super) fn evaluates(&mut self, name: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) {
        let keyword =
            |key: &str| kwargs.iter().find(|(own, _)| &**own == key).map(|(_, value)| value.clone());
        match name {
            "max" | "min" => {
                let Some(key) = keyword("key").filter(|key| !key.names.is_empty()) else { return };
                let items = match args {
                    [only] => only.elements().unwrap_or_default(),
                    items => items.to_vec(),
                };
                let first = items.into_iter().next().unwrap_or_default();
                self.invoke(&key, None, &[first], &[], at);
            }
            "typing.get_type_hints" | "typing_extensions.get_type_hints" | "inspect.get_annotations" => {
                let is_asked = name != "inspect.get_annotations"
                    || keyword("eval_str").is_some_and(|value| value.truth() != Some(false));
                if is_asked && self.emit {
                    self.hints.are_evaluated = true;
                    for (text, at) in std::mem::take(&mut self.hints.texts) {
                        self.cx.child(Language::Python, &text, at, &["annotation"]);
                    }
                }
            }
            "doctest.testmod"
            | "doctest.DocTestSuite"
            | "doctest.run_docstring_examples"
            | "doctest.DocTestRunner().run"
            | "doctest.debug"
                if self.emit && !self.hints.are_examples_read =>
            {
                self.hints.are_examples_read = true;
                let text = examples(self.source);
                if !text.is_empty() {
                    self.cx.child(Language::Python, &text, at, &["doctest"]);
                }
            }
            "code.interact"
            | "code.InteractiveConsole().interact"
            | "code.InteractiveConsole().raw_input" => {
                let Some(reads) = keyword("readfunc").or_else(|| args.get(1).cloned()) else { return };
                let read = self.invoke(&reads, None, &[Value::default()], &[], at);
                if let Some(text) = read.as_text().filter(|_| self.emit).map(str::to_owned) {
                    self.cx.child(Language::Python, &text, at, &["console"]);
                }
            }
            _ => {}
        }
    }

    /// Binds the names of a pattern: a class pattern reads members of the value.
    pub(super) fn pattern(&mut self, pattern: &'a Pattern, value: &Value) {
        self.pattern_at(pattern, value, 0);
    }

    fn pattern_at(&mut self, pattern: &'a Pattern, value: &Value, depth: usize) {
        if depth > MAX_PATTERNS || !self.cx.tick() {
            return;
        }
        let depth = depth + 1;
        match pattern {
            Pattern::MatchValue(of) => drop(self.value(&of.value)),
            Pattern::MatchSingleton(_) => {}
            Pattern::MatchSequence(of) => {
                let items = value.elements().filter(|items| items.len() == of.patterns.len());
                for (at, inner) in of.patterns.iter().enumerate() {
                    let item = items.as_ref().and_then(|items| items.get(at)).cloned();
                    self.pattern_at(inner, &item.unwrap_or_default(), depth);
                }
            }
            Pattern::MatchMapping(of) => {
                for (key, inner) in of.keys.iter().zip(&of.patterns) {
                    let key = self.value(key);
                    let item = self.item(value, &key, span(of.range));
                    self.pattern_at(inner, &item, depth);
                }
                if let Some(rest) = &of.rest {
                    self.bind(rest.as_str(), value.clone());
                }
            }
            Pattern::MatchClass(of) => {
                self.value(&of.cls);
                for inner in &of.arguments.patterns {
                    // `str(x)` binds the value itself.
                    self.pattern_at(inner, value, depth);
                }
                for keyword in &of.arguments.keywords {
                    let member = self.member(value, keyword.attr.as_str(), span(keyword.range));
                    self.pattern_at(&keyword.pattern, &member, depth);
                }
            }
            Pattern::MatchStar(of) => {
                if let Some(name) = &of.name {
                    self.bind(name.as_str(), Value::default().made_of(value));
                }
            }
            Pattern::MatchAs(of) => {
                if let Some(inner) = &of.pattern {
                    self.pattern_at(inner, value, depth);
                }
                if let Some(name) = &of.name {
                    self.bind(name.as_str(), value.clone());
                }
            }
            Pattern::MatchOr(of) => {
                of.patterns.iter().for_each(|inner| self.pattern_at(inner, value, depth));
            }
        }
    }
}

/// The examples in the documentation of a file: its lines behind `>>>`, and those that continue them.
fn examples(source: &str) -> String {
    let mut out = String::new();
    let mut is_open = false;
    for line in source.lines() {
        let code = line.trim_start();
        let first = code.strip_prefix(">>>");
        let next = first.or_else(|| code.strip_prefix("...").filter(|_| is_open));
        is_open = next.is_some();
        if let Some(code) = next.filter(|code| code.is_empty() || code.starts_with(' ')) {
            out.push_str(code.strip_prefix(' ').unwrap_or(code));
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_the_lines_of_a_prompt() {
        let source = "def f():\n    \"\"\"\n    >>> for x in y:\n    ...     z(x)\n    1\n    ... no\n    >>>f\n    >>> f()\n    \"\"\"\n";
        assert_eq!(examples(source), "for x in y:\n    z(x)\nf()\n");
    }
}
