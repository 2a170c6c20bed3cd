//! Folding: methods of constants, and functions that are called where they stand, computed without running anything.

use super::value::characters;
use super::{Js, Name};
use crate::value::{Const, Origin, Value, concat};
use oxc_ast::ast::{
    Argument, ArrowFunctionBody, BindingPattern, CallExpression, Expression, FormalParameters, RegExpLiteral,
    Statement,
};

/// Maximum number of elements of a list that are followed one by one.
pub(super) const MAX_FOLLOWED_ELEMENTS: usize = 1024;

/// A sum of numbers, or a comparison of constants.
pub(super) fn binary(operator: &str, left: &Value, right: &Value) -> Option<Value> {
    if let "===" | "==" | "!==" | "!=" = operator {
        let is_same = match (left.known.as_ref()?, right.known.as_ref()?) {
            (Const::Text(_), Const::Text(_)) => left.as_whole_text()? == right.as_whole_text()?,
            (Const::Int(a), Const::Int(b)) => a == b,
            _ => return None,
        };
        return Some(Value::of(Const::Bool(is_same == operator.starts_with('='))));
    }
    let (a, b) = (left.as_int()?, right.as_int()?);
    let shift = || u32::try_from(b & 31).ok();
    let number = match operator {
        "-" => a.saturating_sub(b),
        "*" => a.saturating_mul(b),
        "%" if b != 0 => a.wrapping_rem(b),
        "^" => a ^ b,
        "&" => a & b,
        "|" => a | b,
        ">>" | ">>>" => a.checked_shr(shift()?)?,
        "<<" => a.checked_shl(shift()?)?,
        _ => return None,
    };
    let decoded = if operator == "^" { Origin::DECODED } else { Origin::default() };
    Some(Value::int(number).with_origin(left.origin | right.origin | decoded))
}

/// Where an index leads that may count from the end.
fn place(at: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if at < 0 { length + at } else { at })
        .ok()
        .filter(|at| i64::try_from(*at).is_ok_and(|at| at < length))
}

/// A method of a constant text or list.
pub(super) fn method(owner: &Value, name: &str, args: &[Value]) -> Option<Value> {
    let keep =
        |value: Value| Some(Value { chain: owner.chain.clone(), ..value }.with_origin(Origin::COMPUTED));
    let first = args.first();
    let number = |at: usize| args.get(at).and_then(Value::as_int);
    if let Some(Const::List(items)) = &owner.known {
        return match name {
            "join" => {
                let between = first.map_or(",", |v| v.as_text().unwrap_or(","));
                let text = items.iter().map(Value::text_or_hole).collect::<Vec<_>>().join(between);
                keep(Value::text(&text))
            }
            "reverse" => {
                let mut items = items.to_vec();
                items.reverse();
                let letters = items.len() > 3
                    && items.iter().all(|i| i.as_text().is_some_and(|t| t.chars().count() == 1));
                let chain = if letters { vec!["reversed"] } else { owner.chain.clone() };
                Some(Value { chain, ..Value::list(items) })
            }
            "concat" => keep(concat(owner, first?)),
            "map" if first?.is_named("String.fromCharCode") => Some(
                Value {
                    chain: vec!["characters"],
                    ..Value::list(items.iter().map(|i| characters(std::slice::from_ref(i))).collect())
                }
                .with_origin(Origin::DECODED),
            ),
            "at" => items.get(place(number(0)?, items.len())?).cloned(),
            "slice" if first.is_none() => Some(owner.clone()),
            _ => None,
        };
    }
    let text = owner.as_whole_text()?;
    let cut = |from: i64, to: i64| {
        let size = usize::try_from((to - from).max(0)).unwrap_or(0);
        text.chars().skip(usize::try_from(from.max(0)).unwrap_or(0)).take(size).collect::<String>()
    };
    let length = i64::try_from(text.chars().count()).unwrap_or(0);
    match name {
        "split" => {
            let by = first?.as_text()?;
            let parts: Vec<Value> = if by.is_empty() {
                text.chars().take(4096).map(|c| Value::text(c.encode_utf8(&mut [0; 4]))).collect()
            } else {
                text.split(by).map(Value::text).collect()
            };
            keep(Value { chain: owner.chain.clone(), ..Value::list(parts) })
        }
        "concat" => keep(args.iter().fold(owner.clone(), |sum, v| concat(&sum, v))),
        "toLowerCase" => keep(Value::text(&text.to_lowercase())),
        "toUpperCase" => keep(Value::text(&text.to_uppercase())),
        "toString" | "valueOf" | "normalize" => Some(owner.clone()),
        "trim" => keep(Value::text(text.trim())),
        "trimStart" | "trimLeft" => keep(Value::text(text.trim_start())),
        "trimEnd" | "trimRight" => keep(Value::text(text.trim_end())),
        "padStart" | "padEnd" => {
            let fill = args.get(1).map_or(Some(" "), Value::as_whole_text)?;
            let missing = usize::try_from((number(0)? - length).clamp(0, 4096)).ok()?;
            let padding: String = fill.chars().cycle().take(missing).collect();
            keep(Value::text(&if name == "padEnd" {
                format!("{text}{padding}")
            } else {
                format!("{padding}{text}")
            }))
        }
        "at" => {
            let at = i64::try_from(place(number(0)?, usize::try_from(length).ok()?)?).ok()?;
            keep(Value::text(&cut(at, at + 1)))
        }
        "charAt" => keep(Value::text(&cut(number(0)?, number(0)? + 1))),
        "slice" | "substring" => {
            let at = |n: i64| if n < 0 { length + n } else { n };
            keep(Value::text(&cut(at(number(0)?), number(1).map_or(length, at))))
        }
        "substr" => keep(Value::text(&cut(number(0)?, number(0)? + number(1).unwrap_or(length)))),
        "replace" | "replaceAll" => {
            let (from, to) = (first?.as_text()?, args.get(1)?.as_text()?);
            (from.len() < 4096 && !from.is_empty())
                .then(|| Value::text(&text.replace(from, to)))
                .and_then(keep)
        }
        "repeat" => {
            let count = usize::try_from(number(0)?).ok()?;
            (count.saturating_mul(text.len()) < 65_536)
                .then(|| Value::text(&text.repeat(count)))
                .and_then(keep)
        }
        _ => None,
    }
}

/// The text that an expression of characters alone finds.
fn plain(expression: &RegExpLiteral<'_>) -> Option<Value> {
    let pattern = expression.regex.pattern.text.as_str();
    let is_plain = !pattern.is_empty()
        && pattern.bytes().all(|b| b.is_ascii_alphanumeric() || b" _-,:;#@~".contains(&b));
    let flags = expression.regex.flags.to_string();
    (is_plain && flags.bytes().all(|flag| b"gu".contains(&flag))).then(|| Value::text(pattern))
}

/// Parameters, and the only thing that a function answers with.
fn answer<'f, 'a>(function: &'f Expression<'a>) -> Option<(&'f FormalParameters<'a>, &'f Expression<'a>)> {
    let (params, body) = match function.get_inner_expression() {
        Expression::ArrowFunctionExpression(arrow) if !arrow.r#async => match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => (&arrow.params, body),
            body => return Some((&arrow.params, body.as_expression()?)),
        },
        Expression::FunctionExpression(function) if !function.r#async && !function.generator => {
            (&function.params, function.body.as_ref()?)
        }
        _ => return None,
    };
    match body.statements.as_slice() {
        [Statement::ReturnStatement(only)] => Some((params, only.argument.as_ref()?)),
        _ => None,
    }
}

impl Js<'_, '_, '_> {
    /// Result of a function of one expression, called with `args`.
    fn answered(&mut self, params: &FormalParameters<'_>, body: &Expression<'_>, args: &[Value]) -> Value {
        let mut before: Vec<(Name, Option<Value>)> = Vec::new();
        for (at, parameter) in params.items.iter().enumerate() {
            let BindingPattern::BindingIdentifier(name) = &parameter.pattern else { continue };
            let name = Self::declared(name);
            let value = args.get(at).cloned().unwrap_or_default();
            before.push((name.clone(), self.vars.insert(name, value)));
        }
        let value = self.value(body);
        for (name, older) in before.into_iter().rev() {
            match older {
                Some(older) => self.vars.insert(name, older),
                None => self.vars.remove(&name),
            };
        }
        value
    }

    /// A call of a small function where it stands, of a method that calls one for each element of a known list, or of one that is given
    /// an expression of characters alone.
    pub(super) fn small_function(&mut self, call: &CallExpression<'_>) -> Option<Value> {
        if let Some((params, body)) = answer(&call.callee) {
            let args = self.arguments(&call.arguments);
            let value = self.answered(params, body, &args);
            return (value.known.is_some() || !value.names.is_empty()).then_some(value);
        }
        let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() else {
            return None;
        };
        let name = member.property.name.as_str();
        let first = call.arguments.first().and_then(Argument::as_expression)?;
        if let (Expression::RegExpLiteral(expression), "replace" | "replaceAll" | "split") = (first, name) {
            let found = plain(expression)?;
            let owner = self.value(&member.object);
            let mut args = self.arguments(&call.arguments);
            *args.first_mut()? = found;
            return method(&owner, name, &args).map(|value| value.with_origin(owner.origin));
        }
        if !matches!(name, "map" | "filter" | "reduce" | "flatMap") {
            return None;
        }
        let (params, body) = answer(first)?;
        let owner = self.value(&member.object);
        let Some(Const::List(items)) = owner.known.clone().filter(|_| owner.names.is_empty()) else {
            return None;
        };
        if items.len() > MAX_FOLLOWED_ELEMENTS {
            return None;
        }
        let mut out = Vec::with_capacity(items.len());
        let mut sum = call.arguments.get(1).and_then(Argument::as_expression).map(|e| self.value(e));
        for (at, item) in items.iter().enumerate() {
            if !self.cx.tick() {
                return None;
            }
            let index = Value::int(i64::try_from(at).unwrap_or(i64::MAX));
            match name {
                "reduce" => {
                    sum = Some(match sum {
                        None => item.clone(),
                        Some(so_far) => self.answered(params, body, &[so_far, item.clone(), index]),
                    });
                }
                "filter" => {
                    if self.answered(params, body, &[item.clone(), index]).truth()? {
                        out.push(item.clone());
                    }
                }
                _ => out.push(self.answered(params, body, &[item.clone(), index])),
            }
        }
        let folded = if name == "reduce" { sum? } else { Value::list(out) };
        folded.known.as_ref()?;
        // Characters by their numbers, written one by one.
        let letters = matches!(&folded.known, Some(Const::List(all)) if all.len() > 2 && all.iter().all(|v| v.as_text().is_some()));
        let from_numbers = letters && items.iter().all(|item| item.as_int().is_some());
        let chain = if from_numbers { vec!["characters"] } else { owner.chain.clone() };
        let decoded = if from_numbers { Origin::DECODED } else { Origin::default() };
        Some(Value { chain, ..folded }.with_origin(owner.origin | decoded | Origin::COMPUTED))
    }
}
