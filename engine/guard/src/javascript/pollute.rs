//! Recursive merges of objects, which set what all objects have if a caller's object has a field `__proto__`.

use super::{Js, flow, span};
use crate::language::Language;
use crate::value::{Origin, Value};
use oxc_ast::ast::{
    AssignmentExpression, AssignmentTarget, CallExpression, Expression, Function, StringLiteral,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::ScopeFlags;
use oxc_span::Span;
use rustc_hash::FxHashMap;

/// Body of a function, as far as it matters here.
#[derive(Default)]
struct Merge {
    /// Sets a field whose name is a variable.
    sets: bool,
    /// Calls itself.
    recurses: bool,
    /// Has the text `__proto__`, which fields are compared with.
    refuses: bool,
}

/// Functions of a program that merge objects recursively, by their names.
#[derive(Default)]
pub(super) struct Merges {
    of: FxHashMap<String, Merge>,
    within: Vec<String>,
}

impl Merges {
    fn inner(&mut self) -> Option<&mut Merge> {
        self.of.get_mut(self.within.last()?)
    }

    /// True for the name of a function that merges what it is given into another object, by any field.
    fn is_open(&self, name: &str) -> bool {
        self.of.get(name).is_some_and(|merge| merge.sets && merge.recurses && !merge.refuses)
    }
}

impl<'a> Visit<'a> for Merges {
    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        let name = it.id.as_ref().map(|id| id.name.to_string());
        let is_named = name.is_some();
        if let Some(name) = name {
            self.of.entry(name.clone()).or_default();
            self.within.push(name);
        }
        walk::walk_function(self, it, flags);
        if is_named {
            self.within.pop();
        }
    }

    fn visit_variable_declarator(&mut self, it: &oxc_ast::ast::VariableDeclarator<'a>) {
        let is_function = it.init.as_ref().is_some_and(|init| flow::function(init).is_some());
        let name = it.id.get_identifier_name().filter(|_| is_function).map(|name| name.to_string());
        let is_named = name.is_some();
        if let Some(name) = name {
            self.of.entry(name.clone()).or_default();
            self.within.push(name);
        }
        walk::walk_variable_declarator(self, it);
        if is_named {
            self.within.pop();
        }
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if let AssignmentTarget::ComputedMemberExpression(member) = &it.left
            && matches!(member.expression.get_inner_expression(), Expression::Identifier(_))
            && let Some(merge) = self.inner()
        {
            merge.sets = true;
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::Identifier(name) = it.callee.get_inner_expression()
            && self.within.last().is_some_and(|own| *own == name.name.as_str())
            && let Some(merge) = self.inner()
        {
            merge.recurses = true;
        }
        walk::walk_call_expression(self, it);
    }

    /// A name that fields are compared with, or one of a list.
    fn visit_string_literal(&mut self, it: &StringLiteral<'a>) {
        if it.value == "__proto__"
            && let Some(merge) = self.inner()
        {
            merge.refuses = true;
        }
    }
}

impl<'a> Js<'_, '_, '_> {
    /// Keeps a call of a function of the file that is given an object of a caller, in the last walk.
    pub(super) fn merges_given(&mut self, call: &CallExpression<'a>) {
        let Expression::Identifier(name) = call.callee.get_inner_expression() else { return };
        if !self.emit || call.arguments.len() < 2 {
            return;
        }
        let args = self.arguments(&call.arguments);
        let given = args.iter().skip(1).find(|value| value.origin.has(Origin::CALLER)).cloned();
        if let Some(given) = given {
            self.merges.push((name.name.to_string(), given, call.span));
        }
    }

    /// Reports the calls that were kept, of functions that merge objects recursively.
    pub(super) fn merged(&mut self, program: &oxc_ast::ast::Program<'a>) {
        let calls: Vec<(String, Value, Span)> = std::mem::take(&mut self.merges);
        if calls.is_empty() {
            return;
        }
        let mut merges = Merges::default();
        merges.visit_program(program);
        for (name, given, at) in calls {
            // The function calls itself, too: what its first caller gives is what matters.
            if merges.is_open(&name) {
                self.cx.fact_with(Language::JavaScript, "flow.merge", span(at), &[given], 0);
            }
        }
    }
}
