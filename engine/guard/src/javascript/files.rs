//! Values that pass from one file of a project to another.

use super::{Js, span};
use crate::decode;
use crate::language::Language;
use crate::passes::PASSED;
use crate::report::{Argument, StepKind};
use crate::value::{Origin, Value};
use oxc_ast::ast::{
    ExportFromDeclaration, ExportNamedDeclaration, Expression, ModuleExportName, StringLiteral,
};
use oxc_span::{GetSpan, Span};
use std::rc::Rc;

impl Js<'_, '_, '_> {
    /// Records what a call passes on to a function of another file: `require('./helpers').run(x)`.
    pub(super) fn passes_to_files(&mut self, names: &[Rc<str>], args: &[Value], at: Span) {
        if !args.iter().any(|value| value.origin.has(PASSED)) {
            return;
        }
        let silent = self.within_silent();
        for name in names.iter().map(|name| name.strip_prefix("new ").unwrap_or(name)) {
            if !name.starts_with('.') {
                continue;
            }
            for (position, value) in args.iter().enumerate().filter(|(_, v)| v.origin.has(PASSED)) {
                let argument = Argument::Position(u32::try_from(position).unwrap_or(u32::MAX));
                self.cx.pass(name, argument, value, silent, span(at));
            }
        }
    }

    /// Teaches a function that this name is given to what other files pass to it.
    pub(super) fn called_from_files(&mut self, name: &str, value: &Expression<'_>) {
        if self.cx.called.is_empty() {
            return;
        }
        let at = span(value.span());
        match super::flow::function(value) {
            Some((start, _)) => self.gets(name, start),
            // `module.exports = run`, `exports.go = run`.
            None => {
                let value = self.value(value);
                if let Some(start) = self.own(&value, None) {
                    self.gets(name, start);
                }
                // `exports.run = require('./run').run`, `module.exports = require('./lib')`.
                if self.emit {
                    for own in value.names.iter().filter(|own| own.starts_with('.')).take(4) {
                        let own_name = (name != "default").then_some(name);
                        self.cx.pass_on(own_name, own, at);
                    }
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
            let origin = self.cx.called_with(name, position, "");
            if origin == Origin::default() {
                return Value::default();
            }
            let at = (start as usize, start as usize + 1);
            Value::default().with_origin(origin).stepped(StepKind::Source, &format!("{name}({position})"), at)
        };
        let args: Vec<Value> = (0..self.parameters(start)).map(given).collect();
        self.learn(start, &args);
        if self.cx.is_called_silently(name) {
            self.is_silent(start);
        }
    }

    /// `import { run } from './run'; export { run };`.
    pub(super) fn exports(&mut self, it: &ExportNamedDeclaration<'_>) {
        if self.cx.called.is_empty() {
            return;
        }
        for one in &it.specifiers {
            let exported = one.exported.name();
            if let ModuleExportName::IdentifierReference(name) = &one.local {
                let own = self.referred(name);
                let value = self.vars.get(&own).cloned().unwrap_or_default();
                if let Some(start) = self.own(&value, None) {
                    self.gets(exported.as_str(), start);
                }
                for target in value.names.iter().filter(|own| self.emit && own.starts_with('.')).take(4) {
                    self.cx.pass_on(Some(exported.as_str()), target, span(it.span));
                }
            }
        }
    }

    /// `export { run } from './run';`.
    pub(super) fn exports_from(&mut self, it: &ExportFromDeclaration<'_>) {
        if self.cx.called.is_empty() || !self.emit {
            return;
        }
        for one in &it.specifiers {
            let target = format!("{}.{}", it.source.value, one.local.name());
            self.cx.pass_on(Some(one.exported.name().as_str()), &target, span(it.span));
        }
    }
    /// Follows a module that stands in its own address: `data:text/javascript;base64,…`.
    pub(super) fn module_in_address(&mut self, address: &StringLiteral<'_>) {
        self.module(address.value.as_str(), address.span);
        let Some((kind, data)) = address.value.strip_prefix("data:").and_then(|rest| rest.split_once(','))
        else {
            return;
        };
        if !self.emit || !kind.contains("javascript") {
            return;
        }
        let step = if kind.ends_with("base64") { "base64" } else { "url" };
        if let Some(text) = decode::apply(step, &Value::text(data)).as_ref().and_then(Value::as_text) {
            self.cx.child(Language::JavaScript, text, span(address.span), &[step]);
        }
    }

    /// Compares the package of an `import()` with the operator's feeds.
    pub(super) fn imports(&mut self, source: &Value, at: Span) {
        if let Some(module) = source.as_whole_text() {
            self.module(module, at);
        }
    }
}
