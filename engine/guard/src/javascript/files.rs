//! Values that pass from one file of a project to another.

use super::{Js, span};
use crate::report::{Argument, StepKind};
use crate::value::{Origin, Value};
use oxc_ast::ast::Expression;
use oxc_span::Span;
use std::rc::Rc;

impl Js<'_, '_, '_> {
    /// Records what a call passes on to a function of another file: `require('./helpers').run(x)`.
    pub(super) fn passes_to_files(&mut self, names: &[Rc<str>], args: &[Value], at: Span) {
        if !args.iter().any(|value| value.origin.has(Origin::CALLER)) {
            return;
        }
        for name in names.iter().filter(|name| name.starts_with('.')) {
            for (position, value) in args.iter().enumerate().filter(|(_, v)| v.origin.has(Origin::CALLER)) {
                let argument = Argument::Position(u32::try_from(position).unwrap_or(u32::MAX));
                self.cx.pass(name, argument, value.trail.as_deref(), span(at));
            }
        }
    }

    /// Teaches a function that this name is given to what other files pass to it.
    pub(super) fn called_from_files(&mut self, name: &str, value: &Expression<'_>) {
        if self.cx.called.is_empty() {
            return;
        }
        match super::flow::function(value) {
            Some((start, _)) => self.gets(name, start),
            // `module.exports = run`, `exports.go = run`.
            None => {
                let value = self.value(value);
                if let Some(start) = self.own(&value, None) {
                    self.gets(name, start);
                }
            }
        }
    }

    /// Teaches a function of this name what other files pass to it.
    pub(super) fn gets(&mut self, name: &str, start: u32) {
        if self.cx.called.is_empty() {
            return;
        }
        let given = |position: usize| {
            if !self.cx.is_called(name, position, "") {
                return Value::default();
            }
            let at = (start as usize, start as usize + 1);
            Value::default().with_origin(Origin::CALLER).stepped(
                StepKind::Source,
                &format!("{name}({position})"),
                at,
            )
        };
        let args: Vec<Value> = (0..self.parameters(start)).map(given).collect();
        self.learn(start, &args);
    }
}
