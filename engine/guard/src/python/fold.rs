//! Constant folding: methods of constants and decoders, computed without running anything.

use crate::decode;
use crate::value::{Const, HOLE, MAX_TEXT, Origin, Value, concat};
use std::rc::Rc;

use crate::decode::unescape;

/// Evaluates a method of a constant text, bytes or list.
pub(super) fn method(receiver: &Value, name: &str, args: &[Value]) -> Option<Value> {
    let keep = |value: Value| {
        let mut value = value.with_origin(receiver.origin | Origin::COMPUTED);
        value.chain.clone_from(&receiver.chain);
        Some(value)
    };
    match (receiver.known.as_ref()?, name) {
        (_, "join") => join(receiver, args.first()?),
        (_, "decode") => {
            let codec = args.first().and_then(Value::as_text).unwrap_or("utf-8").to_ascii_lowercase();
            codec_decode(receiver, &codec)
        }
        (Const::Text(text), "encode") => keep(Value::bytes(text.as_bytes())),
        (Const::Bytes(bytes), "hex") => keep(Value::text(&hex::encode(bytes))),
        (_, "isalpha" | "isdigit" | "isalnum") => {
            let text = receiver.as_whole_text()?;
            Some(Value::of(Const::Bool(!text.is_empty() && text.chars().all(is_kind(name)?))))
        }
        (_, "replace") => {
            let (from, to) = (args.first()?.as_text()?, args.get(1)?.as_text()?);
            let text = receiver.as_text()?;
            (text.len().saturating_mul(to.len().max(1)) < 4 * MAX_TEXT)
                .then(|| text.replace(from, to))
                .and_then(|t| keep(same(receiver, &t)))
        }
        (_, "lower" | "casefold") => keep(same(receiver, &receiver.as_text()?.to_lowercase())),
        (_, "upper") => keep(same(receiver, &receiver.as_text()?.to_uppercase())),
        (_, "swapcase") => keep(same(receiver, &swapcase(receiver.as_text()?))),
        (_, "ljust" | "rjust" | "center" | "zfill") => {
            let text = receiver.as_text()?;
            // A wider text has blanks or zeros beside the name, so it is no longer one.
            let is_short =
                usize::try_from(args.first()?.as_int()?).is_ok_and(|width| width > text.chars().count());
            if is_short { None } else { keep(receiver.clone()) }
        }
        (_, "title" | "capitalize" | "expandtabs") => keep(receiver.clone()),
        (_, "strip" | "rstrip" | "lstrip" | "removeprefix" | "removesuffix") => {
            let text = receiver.as_text()?;
            let set = args.first().and_then(Value::as_text);
            let inside = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
            let cut = match name {
                "strip" => text.trim_matches(inside),
                "rstrip" => text.trim_end_matches(inside),
                "lstrip" => text.trim_start_matches(inside),
                "removeprefix" => text.strip_prefix(set?).unwrap_or(text),
                _ => text.strip_suffix(set?).unwrap_or(text),
            };
            keep(same(receiver, cut))
        }
        (_, "split" | "rsplit") => {
            let text = receiver.as_text()?;
            let parts: Vec<Value> = match args.first().and_then(Value::as_text) {
                Some("") => return None,
                Some(by) => text.split(by).map(|p| same(receiver, p)).collect(),
                None => text.split_whitespace().map(|p| same(receiver, p)).collect(),
            };
            keep(Value::list(parts))
        }
        (_, "partition" | "rpartition") => {
            let (text, by) = (receiver.as_text()?, args.first()?.as_text()?);
            let cut = if name == "partition" { text.split_once(by) } else { text.rsplit_once(by) };
            let parts = match cut {
                Some((head, tail)) => [head, by, tail],
                None if name == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            keep(Value::list(parts.iter().map(|p| same(receiver, p)).collect()))
        }
        (_, "splitlines") => {
            keep(Value::list(receiver.as_text()?.lines().map(|p| same(receiver, p)).collect()))
        }
        (_, "translate") => {
            let Const::Map(pairs) = args.first()?.known.as_ref()? else { return None };
            let text: String = receiver.as_text()?.chars().map(|c| translated(c, pairs)).collect();
            keep(same(receiver, &text))
        }
        (Const::List(items), "copy") => keep(Value::list(items.to_vec())),
        (Const::Map(pairs), "get" | "pop" | "setdefault") => {
            get(pairs, args.first()?).or_else(|| args.get(1).cloned())
        }
        (Const::Map(pairs), "values") => keep(Value::list(pairs.iter().map(|(_, v)| v.clone()).collect())),
        (Const::Map(pairs), "keys") => keep(Value::list(pairs.iter().map(|(k, _)| k.clone()).collect())),
        (Const::Map(pairs), "items") => {
            keep(Value::list(pairs.iter().map(|(k, v)| Value::list(vec![k.clone(), v.clone()])).collect()))
        }
        _ => None,
    }
}

/// `receiver.format(…)` and `receiver.format_map(…)`.
pub(super) fn formatted(
    receiver: &Value,
    name: &str,
    args: &[Value],
    named: &[(Rc<str>, Value)],
) -> Option<Value> {
    let template = receiver.as_text()?;
    let text = match (name, args.first().and_then(|v| v.known.as_ref())) {
        ("format", _) => format_braces(template, args, named),
        ("format_map", Some(Const::Map(pairs))) => {
            let named =
                pairs.iter().filter_map(|(key, value)| Some((Rc::from(key.as_text()?), value.clone())));
            format_braces(template, &[], &named.collect::<Vec<_>>())
        }
        _ => return None,
    };
    let mut value = Value::text(&text).with_origin(receiver.origin | Origin::COMPUTED);
    value.chain.clone_from(&receiver.chain);
    Some(value)
}

/// The test of characters that a method of texts makes.
pub(super) fn is_kind(name: &str) -> Option<fn(char) -> bool> {
    Some(match name {
        "isalpha" => char::is_alphabetic,
        "isdigit" => |c| c.is_ascii_digit(),
        "isalnum" => char::is_alphanumeric,
        _ => return None,
    })
}

fn swapcase(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
        .collect()
}

fn translated(c: char, pairs: &[(Value, Value)]) -> char {
    let key = pairs.iter().find(|(k, _)| {
        k.as_int() == Some(i64::from(u32::from(c))) || k.as_text() == Some(c.encode_utf8(&mut [0; 4]))
    });
    key.and_then(|(_, v)| v.as_text().and_then(|t| t.chars().next()).or_else(|| char_of(v.as_int()?)))
        .unwrap_or(c)
}

fn same(like: &Value, text: &str) -> Value {
    if matches!(like.known, Some(Const::Bytes(_))) {
        Value::bytes(text.as_bytes())
    } else {
        Value::text(text)
    }
}

/// A character by its number.
pub(super) fn char_of(number: i64) -> Option<char> {
    u32::try_from(number).ok().and_then(char::from_u32)
}

/// `sep.join(items)`.
pub(super) fn join(separator: &Value, items: &Value) -> Option<Value> {
    let between = separator.as_text()?;
    let parts = items.elements()?;
    let bytes = matches!(separator.known, Some(Const::Bytes(_)));
    let mut text = String::new();
    let mut origin = separator.origin | items.origin | Origin::COMPUTED;
    let mut raw = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            text.push_str(between);
            raw.extend_from_slice(between.as_bytes());
        }
        origin |= part.origin;
        match (&part.known, bytes) {
            (Some(Const::Bytes(b)), true) => raw.extend_from_slice(b),
            _ => text.push_str(&part.text_or_hole()),
        }
        if text.len() > MAX_TEXT || raw.len() > MAX_TEXT {
            return Some(Value::default().with_origin(origin));
        }
    }
    let mut value = if bytes { Value::bytes(&raw) } else { Value::text(&text) };
    value.trail = items.trail.clone().or_else(|| separator.trail.clone());
    value.chain.clone_from(&items.chain);
    if items.origin.has(Origin::DECODED) && value.chain.is_empty() {
        value.chain.push("characters");
    }
    Some(value.with_origin(origin))
}

/// Decodes by the name of a codec.
pub(super) fn codec_decode(value: &Value, codec: &str) -> Option<Value> {
    let plain = codec.replace(['-', '_'], "");
    let step = match plain.as_str() {
        "rot13" => "rot13",
        "hex" | "hexcodec" => "hex",
        "base64" | "base64codec" => "base64",
        "zlib" | "zlibcodec" | "zip" => "zlib",
        "bz2" | "bz2codec" => "bzip2",
        "utf16" | "utf16le" => "utf-16",
        _ => "",
    };
    if !step.is_empty() {
        return decode::apply(step, value).map(|v| as_text_value(&v));
    }
    let mut out = match &value.known {
        Some(Const::Bytes(bytes)) if plain == "unicodeescape" || plain == "rawunicodeescape" => {
            Value::text(&unescape(&String::from_utf8_lossy(bytes))).decoded_by("escapes", value)
        }
        Some(Const::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => Value::text(&bytes.iter().map(|b| char::from(*b)).collect::<String>()),
        },
        _ => value.clone(),
    };
    if out.chain.is_empty() {
        out.chain.clone_from(&value.chain);
    }
    Some(out.with_origin(value.origin))
}

/// Bytes as text, if they are text.
pub(super) fn as_text_value(value: &Value) -> Value {
    let mut out = value.clone();
    if let Some(text) = value.as_text() {
        out.known = Some(Const::Text(text.into()));
    }
    out
}

/// `{}` and `{0}` of `str.format`; everything with a field in it becomes a hole.
fn format_braces(template: &str, args: &[Value], named: &[(Rc<str>, Value)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        if rest[at..].starts_with("{{") || rest[at..].starts_with("}}") {
            out.push_str(&rest[at..=at]);
            rest = &rest[at + 2..];
            continue;
        }
        let Some(end) = rest[at..].find('}') else { break };
        let field = &rest[(at + 1).min(at + end)..at + end];
        let number = if field.is_empty() {
            next += 1;
            Some(next - 1)
        } else {
            field.parse::<usize>().ok()
        };
        let by_name = || named.iter().find(|(name, _)| &**name == field).map(|(_, value)| value);
        match number.map_or_else(by_name, |n| args.get(n)) {
            Some(value) => out.push_str(&value.text_or_hole()),
            None => out.push(HOLE),
        }
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}

/// `%` with a text on its left.
pub(super) fn percent(template: &str, right: &Value) -> Value {
    let args = match &right.known {
        Some(Const::List(items)) => items.to_vec(),
        _ => vec![right.clone()],
    };
    let mut out = String::new();
    let mut args = args.iter();
    let mut chars = template.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.find(|c| c.is_alphabetic() || "%(".contains(*c)) {
            Some('%') | None => out.push('%'),
            Some('(') => {
                chars.find(|c| *c == ')');
                chars.find(|c| c.is_alphabetic());
                out.push(HOLE);
            }
            Some('c') => match args.next().and_then(|v| v.as_int().and_then(char_of)) {
                Some(c) => out.push(c),
                None => out.push(HOLE),
            },
            Some(kind) => {
                let text = args.next().map_or_else(|| HOLE.to_string(), Value::text_or_hole);
                let quote = if kind == 'r' { "'" } else { "" };
                out.extend([quote, &text, quote]);
            }
        }
    }
    Value::text(&out).with_origin(right.origin | Origin::COMPUTED)
}

/// An element by a constant key.
pub(super) fn get(pairs: &[(Value, Value)], key: &Value) -> Option<Value> {
    let found = pairs.iter().rev().find(|(own, _)| match (own.as_text(), key.as_text()) {
        (Some(a), Some(b)) => a == b,
        _ => own.as_int().is_some() && own.as_int() == key.as_int(),
    });
    found.map(|(_, value)| value.clone())
}

/// `value[index]`.
pub(super) fn index(value: &Value, index: &Value) -> Option<Value> {
    let element = match value.known.as_ref()? {
        Const::Map(pairs) => get(pairs, index)?,
        Const::List(items) => items.get(position(index.as_int()?, items.len())?)?.clone(),
        Const::Bytes(bytes) => Value::int(i64::from(*bytes.get(position(index.as_int()?, bytes.len())?)?)),
        Const::Text(text) => {
            let length = text.chars().count();
            let c = text.chars().nth(position(index.as_int()?, length)?)?;
            Value::text(c.encode_utf8(&mut [0; 4]))
        }
        _ => return None,
    };
    Some(element.with_origin(Origin(value.origin.0 & !Origin::ENV.0) | Origin::COMPUTED))
}

fn position(at: i64, length: usize) -> Option<usize> {
    let length_signed = i64::try_from(length).ok()?;
    usize::try_from(if at < 0 { at + length_signed } else { at }).ok()
}

/// `value[lower:upper:step]`, each bound known or left out.
pub(super) fn slice(value: &Value, lower: Option<i64>, upper: Option<i64>, step: i64) -> Option<Value> {
    // Python rejects a step of zero.
    let stride = usize::try_from(step.unsigned_abs()).ok().filter(|stride| *stride > 0)?;
    let items = value.elements()?;
    let length = i64::try_from(items.len()).ok()?;
    let clamp = |at: i64, low: i64, high: i64| (if at < 0 { at + length } else { at }).clamp(low, high);
    let picked: Vec<Value> = if step > 0 {
        let (from, to) = (clamp(lower.unwrap_or(0), 0, length), clamp(upper.unwrap_or(length), 0, length));
        (from..to).step_by(stride).filter_map(|at| items.get(usize::try_from(at).ok()?).cloned()).collect()
    } else {
        let from = lower.map_or(length - 1, |at| clamp(at, -1, length - 1));
        let to = upper.map_or(-1, |at| clamp(at, -1, length - 1));
        (to + 1..=from)
            .rev()
            .step_by(stride)
            .filter_map(|at| items.get(usize::try_from(at).ok()?).cloned())
            .collect()
    };
    let mut out = match &value.known {
        Some(Const::Text(_)) => Value::text(&picked.iter().filter_map(Value::as_text).collect::<String>()),
        Some(Const::Bytes(_)) => Value::bytes(
            &picked.iter().filter_map(|v| v.as_int().and_then(|n| u8::try_from(n).ok())).collect::<Vec<_>>(),
        ),
        _ => Value::list(picked),
    };
    out.chain.clone_from(&value.chain);
    if step < 0 && out.as_text().is_some_and(|t| t.len() > 1) {
        return Some(out.decoded_by("reversed", value));
    }
    Some(out.with_origin(value.origin | Origin::COMPUTED))
}

/// Repeats a text or a list. By doubling: an empty one may be repeated 10^18 times.
fn repeated(value: &Value, mut count: usize) -> Value {
    let (mut sum, mut piece): (Option<Value>, Value) = (None, value.clone());
    while count > 0 {
        if count & 1 == 1 {
            sum = Some(sum.map_or_else(|| piece.clone(), |sum| concat(&sum, &piece)));
        }
        count >>= 1;
        if count > 0 {
            piece = concat(&piece, &piece);
        }
    }
    sum.unwrap_or_else(|| Value::text(""))
}

/// Evaluates a binary operation on numbers, or on texts and lists.
pub(super) fn binary(op: ruff_python_ast::Operator, left: &Value, right: &Value) -> Value {
    use ruff_python_ast::Operator as Op;
    let origin = left.origin | right.origin;
    match op {
        Op::Add => return concat(left, right),
        Op::Mod if left.as_text().is_some() => {
            let text = left.as_text().map_or_else(Value::default, |t| percent(t, right));
            return text.made_of(left).made_of(right);
        }
        // `mode | S_ISUID`: these bits are set, whatever the others are.
        Op::BitOr if left.as_int().is_some() != right.as_int().is_some() => {
            let known = left.as_int().or(right.as_int()).unwrap_or_default();
            return Value::int(known).with_origin(origin);
        }
        Op::Mult => {
            let (sized, times) = if right.as_int().is_some() { (left, right) } else { (right, left) };
            if let (Some(items), Some(count)) =
                (sized.elements().filter(|_| sized.as_int().is_none()), times.as_int())
            {
                let count = usize::try_from(count).unwrap_or(0);
                let one = sized.as_text().map_or(items.len(), str::len);
                if one.saturating_mul(count) <= 65_536 {
                    return repeated(sized, count).with_origin(origin);
                }
                return Value::default().with_origin(origin);
            }
        }
        Op::BitXor if left.as_int().is_none() || right.as_int().is_none() => {
            return Value::default().with_origin(origin | Origin::DECODED);
        }
        _ => {}
    }
    let (Some(a), Some(b)) = (left.as_int(), right.as_int()) else {
        return Value::default().made_of(left).made_of(right);
    };
    let number = match op {
        Op::Sub => a.saturating_sub(b),
        Op::Mult => a.saturating_mul(b),
        Op::FloorDiv | Op::Div if b != 0 => a.wrapping_div_euclid(b),
        Op::Mod if b != 0 => a.wrapping_rem_euclid(b),
        Op::Pow => u32::try_from(b).map_or(0, |b| a.saturating_pow(b)),
        Op::BitXor => a ^ b,
        Op::BitOr => a | b,
        Op::BitAnd => a & b,
        Op::LShift => {
            u32::try_from(b).ok().filter(|b| *b < 62).map_or(i64::MAX, |b| a.saturating_mul(1 << b))
        }
        Op::RShift => u32::try_from(b).ok().filter(|b| *b < 63).map_or(0, |b| a >> b),
        _ => return Value::default().with_origin(origin),
    };
    let decoded = if matches!(op, Op::BitXor) { Origin::DECODED } else { Origin::default() };
    Value::int(number).with_origin(origin | decoded)
}

/// A list of shared items.
pub(super) fn list_of(items: Rc<Vec<Value>>) -> Value {
    Value::of(Const::List(items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_are_bounded() {
        use ruff_python_ast::Operator::Mult;
        for (value, times, text) in
            [("ab", 0, ""), ("ab", 1, "ab"), ("ab", 5, "ababababab"), ("", i64::MAX, "")]
        {
            let product = binary(Mult, &Value::text(value), &Value::int(times));
            assert_eq!(product.as_text(), Some(text), "{value} * {times}");
        }
        let numbers = Value::list(vec![Value::int(1), Value::int(2)]);
        for (times, length) in [(3, Some(6)), (30_000, Some(60_000)), (i64::MAX, None)] {
            let product = binary(Mult, &Value::int(times), &numbers);
            assert_eq!(product.elements().map(|items| items.len()), length, "{times}");
        }
        let nothing = binary(Mult, &Value::list(Vec::new()), &Value::int(i64::MAX));
        assert_eq!(nothing.elements().map(|items| items.len()), Some(0));
    }
}
