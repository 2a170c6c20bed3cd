//! Words: removes quotes, and follows expansions as far as they are known.

use super::Shell;
use crate::decode::unescape;
use crate::value::{HOLE, Names, Origin, Value, concat};

/// Maximum number of words of one group in braces, where more than one stands in a word.
const MAX_BRACES: usize = 8;

/// An expanded word of a command line.
pub(super) struct Word {
    pub(super) value: Value,
    /// Written so that its text does not occur in the source: `r''m`, `$'\x72m'`, `r\m`.
    pub(super) disguised: bool,
}

#[derive(Default)]
struct Field {
    text: String,
    origin: Origin,
    started: bool,
    chain: Vec<&'static str>,
    names: Names,
}

impl Shell<'_, '_> {
    /// Expands a word of the source; unquoted expansions may produce several.
    pub(super) fn expand(&mut self, raw: &str) -> Vec<Word> {
        let disguised = looks_disguised(raw);
        if let Some(words) = self.elements(raw) {
            return words.into_iter().map(|value| Word { value, disguised }).collect();
        }
        if let Some(parts) = braces(raw) {
            return parts.into_iter().flat_map(|part| self.expand(&part)).collect();
        }
        let mut fields = vec![Field::default()];
        self.expand_into(raw, &mut fields, false, true);
        fields
            .into_iter()
            .filter(|f| f.started || !f.text.is_empty())
            .map(|f| {
                let mut value = Value::text(&f.text).with_origin(f.origin);
                value.chain = f.chain;
                value.names = f.names;
                Word { value, disguised }
            })
            .collect()
    }

    /// A word without splitting, quotes removed.
    pub(super) fn word(&mut self, raw: &str) -> Value {
        let mut words = self.expand(raw).into_iter().map(|word| word.value);
        let first = words.next().unwrap_or_else(|| Value::text(""));
        words.fold(first, |sum, next| concat(&concat(&sum, &Value::text(" ")), &next))
    }

    /// Text of a here-document, in which quotes are ordinary characters; includes holes.
    pub(super) fn expand_text(&mut self, raw: &str) -> Value {
        self.expand_whole(raw, true)
    }

    /// A word that is always one value: an assigned value, the target of a redirection.
    pub(super) fn expand_value(&mut self, raw: &str) -> Value {
        self.expand_whole(raw, false)
    }

    fn expand_whole(&mut self, raw: &str, quoted: bool) -> Value {
        let mut fields = vec![Field::default()];
        self.expand_into(raw, &mut fields, quoted, false);
        let field = fields.swap_remove(0);
        let mut value = Value::text(&field.text).with_origin(field.origin);
        value.chain = field.chain;
        value.names = field.names;
        value
    }

    fn expand_into(&mut self, raw: &str, fields: &mut Vec<Field>, quoted: bool, split: bool) {
        let bytes = raw.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if !self.cx.tick() {
                return;
            }
            let rest = &raw[at..];
            let last = fields.len() - 1;
            match bytes[at] {
                b'\\' => {
                    let Some(next) = rest[1..].chars().next() else { break };
                    let keep = quoted && !"$`\"\\\n".contains(next);
                    if keep {
                        fields[last].text.push('\\');
                    }
                    if next != '\n' {
                        fields[last].text.push(next);
                    }
                    fields[last].started = true;
                    at += 1 + next.len_utf8();
                }
                b'\'' if !quoted => {
                    let end = rest[1..].find('\'').map_or(rest.len(), |e| e + 1);
                    fields[last].text.push_str(&rest[1..end]);
                    fields[last].started = true;
                    at += end + 1;
                }
                b'"' if !quoted => {
                    let end = closing_quote(rest);
                    let inner = &rest[1..end.max(1)];
                    fields[last].started = true;
                    self.expand_into(inner, fields, true, false);
                    at += end + 1;
                }
                b'`' => {
                    let end = rest[1..].find('`').map_or(rest.len(), |e| e + 1);
                    let inner = rest[1..end].replace("\\`", "`");
                    let value = self.capture(&inner);
                    push(fields, &value, quoted || !split);
                    at += end + 1;
                }
                b'$' => {
                    let (used, value) = self.dollar(rest, quoted);
                    push(fields, &value, quoted || !split);
                    at += used.max(1);
                }
                b'<' | b'>' if !quoted && rest[1..].starts_with('(') => {
                    let end = closing(rest, 1, '(', ')');
                    let value = self.capture(rest.get(2..end).unwrap_or(""));
                    let mut value = value.with_origin(Origin::COMPUTED);
                    value.names.push("<()".into());
                    push(fields, &value, true);
                    at = at + end + 1;
                }
                _ => {
                    let c = rest.chars().next().unwrap_or(HOLE);
                    fields[last].text.push(c);
                    fields[last].started = true;
                    at += c.len_utf8();
                }
            }
            at = raw.ceil_char_boundary(at.min(raw.len()));
        }
    }

    /// Expands text after a `$`: returns its length in bytes, and its value.
    fn dollar(&mut self, rest: &str, quoted: bool) -> (usize, Value) {
        let after = &rest[1..];
        if after.starts_with("((") {
            let end = closing(rest, 1, '(', ')');
            let inner = rest.get(3..end.saturating_sub(1)).unwrap_or("").to_owned();
            if inner.contains(['$', '`']) {
                self.expand_text(&inner);
            }
            return (end + 1, Value::default());
        }
        if after.starts_with('(') {
            let end = closing(rest, 1, '(', ')');
            let value = self.capture(rest.get(2..end).unwrap_or(""));
            return (end + 1, value);
        }
        if after.starts_with('{') {
            let end = closing(rest, 1, '{', '}');
            let value = self.parameter(rest.get(2..end).unwrap_or(""));
            return (end + 1, value);
        }
        if after.starts_with('\'') && !quoted {
            let mut end = 2;
            let bytes = rest.as_bytes();
            while end < bytes.len() && bytes[end] != b'\'' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let inner = rest.get(2..end.min(rest.len())).unwrap_or("");
            let mut value = Value::text(&unescape(inner));
            if inner.contains('\\') {
                value.chain.push("escapes");
            }
            return (end + 1, value);
        }
        if after.starts_with('"') && !quoted {
            return (1, Value::text(""));
        }
        let name: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            return match after.chars().next() {
                Some('@' | '*') => (2, self.argument("@")),
                Some(c) if "#?-$!".contains(c) => (2, Value::default()),
                _ => (1, Value::text("$")),
            };
        }
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return (2, self.argument(&name[..1]));
        }
        (1 + name.len(), self.variable(&name))
    }

    /// The variable that a name stands for.
    pub(super) fn referred<'n>(&'n self, name: &'n str) -> &'n str {
        const MAX_REFERENCES: usize = 8;
        let mut name = name;
        for _ in 0..MAX_REFERENCES {
            match self.refs.get(name) {
                Some(other) => name = other,
                None => break,
            }
        }
        name
    }

    pub(super) fn variable(&self, name: &str) -> Value {
        let name = self.referred(name);
        match self.vars.get(name) {
            Some(value) => value.clone(),
            None => match name {
                "IFS" => Value::text(" "),
                "HOME" => Value::text("~").with_origin(Origin::HOME),
                "TMPDIR" => Value::text("/tmp").with_origin(Origin::TEMP),
                "SHELL" | "BASH" => Value::text("/bin/bash"),
                // Only the clients of these services have a use for them.
                "NPM_TOKEN"
                | "AWS_SECRET_ACCESS_KEY"
                | "AWS_SESSION_TOKEN"
                | "TWINE_PASSWORD"
                | "SSH_PRIVATE_KEY" => Value::name(crate::rules::TOKEN),
                "GITHUB_TOKEN"
                | "GH_TOKEN"
                | "GITLAB_TOKEN"
                | "CI_JOB_TOKEN"
                | "RELEASE_TOKEN"
                | "ACTIONS_RUNTIME_TOKEN"
                | "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
                | "CARGO_REGISTRY_TOKEN"
                | "PYPI_TOKEN"
                | "DOCKER_PASSWORD" => Value::name(crate::rules::SERVICE_TOKEN),
                _ => Value::default(),
            },
        }
    }

    /// Expands the inside of `${…}`.
    fn parameter(&mut self, inner: &str) -> Value {
        if let Some(indirect) = inner.strip_prefix('!') {
            let through = self.variable(indirect.trim_end_matches(['*', '@']));
            return match through.as_whole_text() {
                Some(name) => self.variable(name).with_origin(Origin::COMPUTED),
                None => Value::default(),
            };
        }
        if inner.starts_with('#') {
            return Value::default();
        }
        let name: String = inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let rest = &inner[name.len()..];
        let key = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(key, _)| key);
        if let Some(value) = key.and_then(|key| self.vars.get(&format!("{name}[{key}]"))) {
            return value.clone();
        }
        let value = self.variable(&name);
        if name.is_empty() && inner.starts_with(['@', '*']) {
            return self.argument("@");
        }
        if rest.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
            return self.argument(&name);
        }
        if rest.is_empty() || rest.starts_with('[') {
            let index = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let name = self.referred(&name);
            let element = index.and_then(|index| self.arrays.get(name)?.get(index.parse::<usize>().ok()?));
            return element.cloned().unwrap_or(value);
        }
        if rest.ends_with("@P") {
            if let Some(text) = value.as_text() {
                let text = text.to_owned();
                self.child(crate::language::Language::Bash, &text, &["prompt"]);
            }
            self.hand_files(crate::command::As::Read(crate::language::Language::Bash), &value);
            return value;
        }
        let text = value.as_whole_text().map(str::to_owned);
        if let Some(range) = rest.strip_prefix(':').filter(|r| {
            r.starts_with(|c: char| {
                c.is_ascii_digit() || c == ' ' || c == '-' && r.len() > 1 && r.as_bytes()[1].is_ascii_digit()
            })
        }) {
            let mut numbers = range.splitn(2, ':').map(|n| n.trim().parse::<i64>().ok());
            let (from, length) = (numbers.next().flatten().unwrap_or(0), numbers.next().flatten());
            let Some(text) = text else { return Value::default() };
            let count = i64::try_from(text.chars().count()).unwrap_or(0);
            let start = if from < 0 { count + from } else { from }.clamp(0, count);
            let end = length.map_or(count, |l| if l < 0 { count + l } else { start + l }).clamp(start, count);
            let size = usize::try_from(end - start).unwrap_or(0);
            let cut: String = text.chars().skip(usize::try_from(start).unwrap_or(0)).take(size).collect();
            return Value::text(&cut).with_origin(value.origin | Origin::COMPUTED);
        }
        for (mark, unset) in
            [(":-", true), ("-", true), (":=", true), ("=", true), (":+", false), ("+", false)]
        {
            if let Some(other) = rest.strip_prefix(mark) {
                // In the plain forms the operator directly follows the name.
                if unset && value.known.is_some() {
                    return value;
                }
                return self.expand_text(other);
            }
        }
        let Some(text) = text else { return Value::default().with_origin(value.origin) };
        let changed = if let Some(pattern) = rest.strip_prefix("//") {
            let (from, to) = pattern.split_once('/').unwrap_or((pattern, ""));
            let (from, to) = (self.expand_text(from).text_or_hole(), self.expand_text(to).text_or_hole());
            if from.is_empty() { text } else { text.replace(&from, &to) }
        } else if let Some(pattern) = rest.strip_prefix('/') {
            let (from, to) = pattern.split_once('/').unwrap_or((pattern, ""));
            text.replacen(from, to, 1)
        } else if let Some(suffix) = rest.strip_prefix("%%").or_else(|| rest.strip_prefix('%')) {
            text.strip_suffix(suffix.trim_start_matches('*')).map_or(text.clone(), str::to_owned)
        } else if let Some(prefix) = rest.strip_prefix("##").or_else(|| rest.strip_prefix('#')) {
            text.strip_prefix(prefix.trim_end_matches('*')).map_or(text.clone(), str::to_owned)
        } else if rest.starts_with(",,") || rest == "@L" {
            text.to_lowercase()
        } else if rest.starts_with("^^") || rest == "@U" {
            text.to_uppercase()
        } else {
            text
        };
        Value::text(&changed).with_origin(value.origin | Origin::COMPUTED)
    }
}

/// Adds an expansion's value; outside quotes, white space in it starts new fields.
fn push(fields: &mut Vec<Field>, value: &Value, quoted: bool) {
    let text = value.text_or_hole();
    let mut pieces: Vec<&str> = if quoted { vec![&text] } else { text.split([' ', '\t', '\n']).collect() };
    let last = fields.len() - 1;
    if let Some(first) = pieces.first() {
        fields[last].text.push_str(first);
        fields[last].started |= quoted || !first.is_empty();
    }
    pieces.drain(..pieces.len().min(1));
    for piece in pieces {
        fields.push(Field { text: piece.to_owned(), ..Field::default() });
    }
    for field in fields.iter_mut().skip(last) {
        field.origin |= value.origin;
        if field.chain.is_empty() {
            field.chain.clone_from(&value.chain);
        }
        if field.names.is_empty() {
            field.names.clone_from(&value.names);
        }
    }
}

/// Offset of the closing double quote.
fn closing_quote(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return at,
            b'$' if bytes.get(at + 1) == Some(&b'(') => at = closing(text, at + 1, '(', ')'),
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Offset of the bracket that closes the one at `open`; brackets in quotes are ignored.
fn closing(text: &str, open: usize, left: char, right: char) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, open);
    let (left, right) = (left as u8, right as u8);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' => at = text.get(at + 1..).and_then(|t| t.find('\'')).map_or(bytes.len(), |e| at + 1 + e),
            c if c == left => depth += 1,
            c if c == right => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Expands the first `{a,b,c}` of a word, if nothing before and in it is quoted or expanded.
fn braces(raw: &str) -> Option<Vec<String>> {
    let (before, rest) = raw.split_once('{')?;
    let (inner, after) = rest.split_once('}')?;
    let special = ['{', '}', '$', '"', '\'', '`', '\\', '('];
    if before.contains(special) || inner.contains(special) || !inner.contains(',') {
        return None;
    }
    // Several groups multiply.
    let most = if after.contains('{') { MAX_BRACES } else { usize::MAX };
    (inner.matches(',').count() < most)
        .then(|| inner.split(',').map(|one| format!("{before}{one}{after}")).collect())
}

/// True when a word hides its own text: quotes or backslashes between letters.
fn looks_disguised(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    if raw.starts_with("$'") {
        return raw.contains("\\x") || raw.contains("\\u") || raw.contains("\\1");
    }
    let letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
    (1..bytes.len()).any(|at| match bytes[at] {
        b'\'' | b'"' => {
            bytes[at + 1..].first() == Some(&bytes[at]) && letter(at - 1) && letter(at + 2)
                || bytes[at - 1] == bytes[at] && at == 1 && letter(2)
        }
        b'\\' => letter(at - 1) && (letter(at + 1) || bytes.get(at + 1) == Some(&b'\n')),
        b'$' => letter(at - 1) && matches!(bytes.get(at + 1), Some(b'@' | b'*')) && letter(at + 2),
        _ => false,
    })
}
