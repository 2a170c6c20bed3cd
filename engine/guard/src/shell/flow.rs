//! Values that reach commands through arrays, arguments of functions, `read`, `set`, `printf -v` and saved files.

use super::Shell;
use crate::rules::basename;
use crate::value::{Origin, Value, concat};

/// Maximum number of elements of an array that is kept.
const MAX_ELEMENTS: usize = 64;
/// Maximum number of calls of functions that are followed in a script.
const MAX_CALLS: usize = 64;
/// Maximum size, in bytes, of a function's body that is followed.
const MAX_BODY_BYTES: usize = 16 << 10;
/// Maximum nesting of calls that are followed.
const MAX_CALL_DEPTH: usize = 4;
/// Origins of arguments that a call is followed for.
const FOLLOWED: Origin = Origin(Origin::NET.0 | Origin::DECODED.0 | Origin::SECRET.0 | Origin::OUTPUT.0);

impl Shell<'_, '_> {
    /// Keeps the elements of an array; `adds` appends to it.
    pub(super) fn keep_array(&mut self, name: &str, words: &[Value], adds: bool) {
        let list = self.arrays.entry(name.to_owned()).or_default();
        if !adds {
            list.clear();
        }
        let room = MAX_ELEMENTS.saturating_sub(list.len());
        list.extend(words.iter().take(room).cloned());
    }

    /// Elements of an array that a word consists of: `"${name[@]}"`; arguments for `"$@"`, where they are known.
    pub(super) fn elements(&self, raw: &str) -> Option<Vec<Value>> {
        let bare = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
        let name = match bare {
            "$@" | "$*" | "${@}" | "${*}" => "@",
            _ => {
                let inner = bare.strip_prefix("${")?.strip_suffix('}')?;
                inner.strip_suffix("[@]").or_else(|| inner.strip_suffix("[*]"))?
            }
        };
        self.arrays.get(name).filter(|words| !words.is_empty()).cloned()
    }

    /// An argument of the script or of the function that is followed, by its number; all of them for `@`.
    pub(super) fn argument(&self, name: &str) -> Value {
        let unknown = || Value::default().with_origin(Origin::INPUT);
        let Some(words) = self.arrays.get("@") else { return unknown() };
        match name.parse::<usize>() {
            Ok(0) => unknown(),
            Ok(number) => words.get(number - 1).cloned().unwrap_or_default(),
            Err(_) => {
                let mut words = words.iter();
                let first = words.next().cloned().unwrap_or_default();
                words.fold(first, |sum, word| concat(&concat(&sum, &Value::text(" ")), word))
            }
        }
    }

    /// Follows commands that put values into variables and files.
    pub(super) fn binds(&mut self, name: &str, argv: &[Value], stdin: &Value) {
        let text = |at: usize| argv.get(at).and_then(Value::as_whole_text);
        match name {
            "printf" if text(1) == Some("-v") => {
                if let Some(variable) = text(2).map(str::to_owned) {
                    let line: Vec<Value> = argv[..1].iter().chain(&argv[3..]).cloned().collect();
                    let printed = self.output("printf", &line, stdin);
                    self.vars.insert(variable, printed);
                }
            }
            "read" | "mapfile" | "readarray"
                if stdin.origin.has(FOLLOWED) || stdin.as_whole_text().is_some() =>
            {
                let variables = argv.iter().skip(1).filter_map(Value::as_whole_text);
                let variables: Vec<String> =
                    variables.filter(|word| is_name(word)).map(str::to_owned).collect();
                // Several share the words of a line.
                let known = one_line(stdin).filter(|_| variables.len() == 1 && name == "read");
                let fed = Value { known, ..stdin.clone() };
                for variable in variables {
                    self.arrays.remove(&variable);
                    self.vars.insert(variable, fed.clone());
                }
            }
            "set" if argv.iter().any(|word| word.as_text() == Some("--")) => {
                let words: Vec<Value> =
                    argv.iter().skip_while(|word| word.as_text() != Some("--")).skip(1).cloned().collect();
                self.keep_array("@", &words, false);
            }
            // The descriptors of a process that runs beside the script.
            "coproc" if argv.len() > 1 => {
                let is_network = argv.iter().filter_map(Value::as_text).any(|word| {
                    matches!(basename(word), "nc" | "ncat" | "netcat" | "socat" | "telnet" | "openssl")
                });
                if is_network {
                    self.vars.insert("COPROC".to_owned(), Value::default().with_origin(Origin::NET));
                }
            }
            _ => {}
        }
    }

    /// Follows a call of one of the script's functions whose arguments or input come from elsewhere, or whose
    /// output is used.
    pub(super) fn called(&mut self, name: &str, argv: &[Value], stdin: &Value, used: bool) -> Option<Value> {
        let body = self.functions.get(name).filter(|body| body.len() <= MAX_BODY_BYTES)?.clone();
        let given = argv.iter().skip(1).chain([stdin]).any(|value| value.origin.has(FOLLOWED));
        if !given && !used || self.followed >= MAX_CALLS || self.calls >= MAX_CALL_DEPTH {
            return None;
        }
        self.followed += 1;
        self.calls += 1;
        let outer =
            self.arrays.insert("@".to_owned(), argv.iter().skip(1).take(MAX_ELEMENTS).cloned().collect());
        let value = self.capture_with(&body, stdin);
        match outer {
            Some(words) => drop(self.arrays.insert("@".to_owned(), words)),
            None => drop(self.arrays.remove("@")),
        }
        self.calls -= 1;
        Some(value)
    }
}

/// A text of one line.
fn one_line(value: &Value) -> Option<crate::value::Const> {
    let text = value.as_whole_text()?.trim_end_matches('\n');
    if text.contains('\n') { None } else { Value::text(text).known }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
