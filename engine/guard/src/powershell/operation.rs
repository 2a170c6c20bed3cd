//! Operators, casts, elements and methods over known values. Pure.

use crate::decode;
use crate::value::{Const, HOLE, Names, Origin, Value};
use std::rc::Rc;

/// Maximum number of pieces that a text is made of.
pub(super) const MAX_PIECES: usize = 65_536;

pub(super) fn range(from: Option<i64>, to: Option<i64>) -> Value {
    let (Some(from), Some(to)) = (from, to) else { return Value::default() };
    if from.abs_diff(to) > 16_384 {
        return Value::default();
    }
    let items = if from <= to { (from..=to).collect::<Vec<_>>() } else { (to..=from).rev().collect() };
    Value::list(items.into_iter().map(Value::int).collect())
}

/// `'{1}{0}' -f 'a', 'b'`.
pub(super) fn formatted(template: &Value, rest: &Value) -> Value {
    let items = match &rest.known {
        Some(Const::List(items)) => items.to_vec(),
        _ => vec![rest.clone()],
    };
    let sum = Value::default().made_of(template).made_of(rest).with_origin(Origin::COMPUTED);
    let Some(text) = template.as_text() else { return sum };
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((number, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        let at = number.split([':', ',']).next().and_then(|n| n.trim().parse::<usize>().ok());
        match at.and_then(|at| items.get(at)) {
            Some(item) => out.push_str(&item.text_or_hole()),
            None => out.push(HOLE),
        }
        rest = behind;
    }
    out.push_str(rest);
    Value::text(&out).made_of(&sum)
}

pub(super) fn joined(between: &str, value: &Value) -> Value {
    let Some(items) = value.elements().filter(|_| !matches!(value.known, Some(Const::Text(_)))) else {
        return value.clone();
    };
    let texts: Vec<String> = items.iter().map(Value::text_or_hole).collect();
    Value { chain: value.chain.clone(), ..Value::text(&texts.join(between)) }
        .made_of(value)
        .with_origin(Origin::COMPUTED)
}

pub(super) fn replaced(text: &Value, from: &Value, to: &Value) -> Value {
    let (Some(whole), Some(from), Some(to)) = (text.as_text(), from.as_text(), to.as_text()) else {
        return Value::default().made_of(text);
    };
    if from.is_empty() || whole.len().saturating_mul(to.len().max(1)) > 4 << 20 {
        return text.clone();
    }
    let from = from.replace('\\', "");
    Value { chain: text.chain.clone(), ..Value::text(&whole.replace(&from, to)) }
        .made_of(text)
        .with_origin(Origin::COMPUTED)
}

pub(super) fn split(text: &Value, by: &Value) -> Value {
    let (Some(whole), Some(by)) = (text.as_text(), by.as_text()) else {
        return Value::default().made_of(text);
    };
    let by = by.replace('\\', "");
    if by.is_empty() {
        return Value::default().made_of(text);
    }
    Value::list(whole.split(&by).take(MAX_PIECES).map(Value::text).collect()).made_of(text)
}

/// `[char]65`, `[char[]](65, 66)`, `[string]`, `[int]`.
pub(super) fn cast(to: &str, value: Value) -> Value {
    match to {
        "char" => match value.as_int().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32) {
            Some(c) => Value::text(c.encode_utf8(&mut [0; 4])).with_origin(Origin::COMPUTED),
            None => characters(&value).map_or(value, |text| {
                Value::list(text.elements().unwrap_or_default()).with_origin(Origin::DECODED)
            }),
        },
        "string" => joined(" ", &value),
        "int" | "byte" | "int32" | "convert" => match value.as_text().and_then(number) {
            Some(n) => Value::int(n),
            None => value,
        },
        _ => value,
    }
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

/// Text of a list of numbers of characters.
pub(super) fn characters(value: &Value) -> Option<Value> {
    let items = value.elements().filter(|_| matches!(value.known, Some(Const::List(_))))?;
    let text: Option<String> = items
        .iter()
        .map(|item| item.as_int().or_else(|| item.as_text().and_then(number)))
        .map(|n| n.and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32))
        .collect();
    Some(Value::text(&text?).decoded_by("characters", value))
}

/// `text[4]`, `text[-1..-9]`, `list[0]`.
pub(super) fn element(owner: &Value, key: &Value) -> Value {
    let Some(items) = owner.elements() else { return Value::default().made_of(owner) };
    let count = i64::try_from(items.len()).unwrap_or(0);
    let at = |n: i64| {
        let n = if n < 0 { n + count } else { n };
        usize::try_from(n).ok().and_then(|n| items.get(n)).cloned()
    };
    match (&key.known, key.as_int()) {
        (_, Some(n)) => at(n).unwrap_or_default().with_origin(Origin::COMPUTED),
        (Some(Const::List(keys)), _) => {
            Value::list(keys.iter().filter_map(|k| at(k.as_int()?)).collect()).with_origin(Origin::COMPUTED)
        }
        _ => Value::default().made_of(owner),
    }
}

/// Result of a method.
pub(super) fn method(names: &[Rc<str>], owner: &Value, name: &str, args: &[Value]) -> Value {
    let sum = args.iter().fold(Value::default().made_of(owner), Value::made_of);
    let first = args.first();
    let is = |end: &str| names.iter().any(|n| &**n == end);
    match name {
        "frombase64string" | "frombase64chararray" => first
            .and_then(|v| decode::apply("base64", v))
            .unwrap_or_else(|| Value::default().with_origin(Origin::UNPACKED).made_of(&sum)),
        "getstring" => {
            let Some(bytes) = first else { return sum };
            let wide = owner.names.iter().any(|n| n.contains("unicode"));
            match (wide, &bytes.known) {
                (true, _) => decode::apply("utf-16", bytes).unwrap_or(sum),
                (false, Some(Const::List(_))) => {
                    let raw = bytes.as_bytes().map(|b| Value::bytes(&b).decoded_by("characters", bytes));
                    raw.unwrap_or(sum)
                }
                _ => Value { names: Names::new(), ..bytes.clone() },
            }
        }
        "getbytes" | "tostring" | "trim" | "invokereturnasis" => {
            let text = if name == "getbytes" { first.unwrap_or(owner) } else { owner };
            Value { names: Names::new(), ..text.clone() }
        }
        "replace" if args.len() == 2 => {
            let literal = |v: &Value| v.as_text().map(|t| Value::text(&t.replace('\\', "\\\\")));
            match (literal(&args[0]), &args[1]) {
                (Some(_), to) => replaced(owner, &args[0], to),
                _ => sum,
            }
        }
        "split" => first.map_or(sum, |by| split(owner, by)),
        "tochararray" => owner.elements().map_or(sum, |items| Value::list(items).made_of(owner)),
        "tolower" | "tolowerinvariant" => match owner.as_text() {
            Some(text) => Value::text(&text.to_lowercase()).made_of(owner),
            None => sum,
        },
        "substring" => {
            let (Some(text), Some(from)) = (owner.as_text(), first.and_then(Value::as_int)) else {
                return sum;
            };
            let length =
                args.get(1).and_then(Value::as_int).map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(0));
            let from = usize::try_from(from).unwrap_or(0);
            let piece: String = text.chars().skip(from).take(length).collect();
            Value::text(&piece).made_of(owner).with_origin(Origin::COMPUTED)
        }
        "join" if is("string.join") => {
            args.get(1).map_or(sum, |list| joined(first.and_then(Value::as_text).unwrap_or(""), list))
        }
        "concat" if is("string.concat") => joined("", &Value::list(args.to_vec())),
        "format" if is("string.format") => {
            args.first().map_or(sum, |template| formatted(template, &Value::list(args[1..].to_vec())))
        }
        "downloadstring" | "downloaddata" | "openread" | "getresponse" | "getresponsestream"
        | "readtoend" | "uploadstring" | "getstringasync" | "getbytearrayasync" => {
            let net = matches!(name, "readtoend")
                || first.is_none_or(|v| v.as_text().is_none_or(|t| !t.starts_with('/')));
            let fetched = first.and_then(Value::as_text).map(|t| format!("fetch:{t}").into());
            let origin = if net && name != "readtoend" { Origin::NET } else { Origin::default() };
            Value { names: fetched.into_iter().collect(), ..sum }.with_origin(origin)
        }
        "readallbytes" | "readalltext" | "readalllines" => sum.with_origin(Origin::FILE),
        "toint32" | "toint16" | "tobyte" => {
            let base = args.get(1).and_then(Value::as_int).and_then(|n| u32::try_from(n).ok()).unwrap_or(10);
            let text = first.and_then(Value::as_text);
            match text.filter(|_| (2..=36).contains(&base)).and_then(|t| i64::from_str_radix(t, base).ok()) {
                Some(n) => Value::int(n),
                None => sum,
            }
        }
        _ => {
            let names = names.iter().map(|n| format!("{n}()").into()).collect();
            Value { names, ..sum }
        }
    }
}
