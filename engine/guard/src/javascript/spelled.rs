//! Names assembled from pieces so that they do not occur in the source.

use super::{Js, span};
use crate::value::Value;
use oxc_ast::ast::{CallExpression, Expression};
use oxc_span::Span;

use crate::language::Language;

impl Js<'_, '_, '_> {
    /// Reports an assembled text that contains a word that matters.
    pub(super) fn spelled(&mut self, value: &Value, at: Span) {
        if self.emit
            && let Some(text) = value.as_whole_text()
            && crate::spelled::hidden_word(text, self.source).is_some()
        {
            self.cx.fact(Language::JavaScript, "spelled", span(at));
        }
    }

    /// Like [`Js::spelled`], for a call that assembles texts, such as `['a', 'b'].join('')`.
    pub(super) fn spelled_call(&mut self, call: &CallExpression<'_>) {
        let Expression::StaticMemberExpression(member) = &call.callee else { return };
        let joins = matches!(
            member.property.name.as_str(),
            "join" | "concat" | "replace" | "fromCharCode" | "toString" | "reverse"
        );
        if self.emit && joins {
            let value = self.called(call);
            self.spelled(&value, call.span);
        }
    }
}

/// Joins paths as texts.
pub(super) fn joined_path(args: &[Value]) -> Value {
    let pieces: Vec<String> = args.iter().map(Value::text_or_hole).filter(|t| !t.is_empty()).collect();
    let mut text = pieces.join("/");
    while text.contains("//") {
        text = text.replace("//", "/");
    }
    args.iter().fold(Value::text(&text), |sum, v| sum.with_origin(v.origin))
}
