//! Values that reach commands through arrays, arguments of functions, `read`, `set`, `printf -v` and saved files.

use super::Shell;
use crate::language::Language;
use crate::rules::basename;
use crate::value::{Origin, Value, concat};

/// Name of the descriptors of a process beside the script that is connected to the network.
pub(super) const COPROCESS: &str = "<coprocess>";
/// Maximum number of elements of an array that is kept.
const MAX_ELEMENTS: usize = 64;
/// Maximum number of calls of functions that are followed in a script.
const MAX_CALLS: usize = 64;
/// Maximum size, in bytes, of a function's body that is followed.
const MAX_BODY_BYTES: usize = 16 << 10;
/// Maximum nesting of calls that are followed.
const MAX_CALL_DEPTH: usize = 4;
/// Origins of arguments that a call is followed for.
const FOLLOWED: Origin = Origin(
    Origin::NET.0
        | Origin::DECODED.0
        | Origin::SECRET.0
        | Origin::OUTPUT.0
        | Origin::WIDE.0
        | Origin::CALLER.0,
);

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

    /// Keeps the elements of an array that have keys: `table=([key]=word)`.
    pub(super) fn keep_keyed(&mut self, name: &str, words: &[Value]) {
        for word in words.iter().take(MAX_ELEMENTS) {
            let keyed = word.as_text().and_then(|word| word.strip_prefix('[')?.split_once("]="));
            if let Some((key, text)) = keyed {
                let value = Value { known: Value::text(text).known, ..word.clone() };
                self.vars.insert(format!("{name}[{key}]"), value);
            }
        }
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
        self.arrays.get(self.referred(name)).filter(|words| !words.is_empty()).cloned()
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

    /// Reports arithmetic over text of a caller, which runs the commands in it: `$((expression))`, with `a[$(id)]`.
    pub(super) fn arithmetic(&mut self, raw: &str, at: (usize, usize)) {
        let Some((_, rest)) = raw.split_once("$((") else { return };
        let inner = rest.split("))").next().unwrap_or(rest);
        let names = inner.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let given = names
            .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
            .map(|name| self.variable(name))
            .find(|value| value.origin.has(Origin::CALLER));
        if let Some(value) = given {
            self.cx.fact_with(Language::Bash, "flow.arithmetic", at, &[value], 0);
        }
    }

    /// Follows `declare -n NAME=OTHER`.
    pub(super) fn refers(&mut self, text: &str) {
        if let Some((name, other)) = text.split_once('=').filter(|(name, other)| name != other) {
            self.refs.insert(name.to_owned(), other.to_owned());
        }
    }

    /// Follows the tables of names that bash keeps: `BASH_CMDS[NAME]=PROGRAM` is `hash -p PROGRAM NAME`, and
    /// `BASH_ALIASES[NAME]=TEXT` an alias.
    pub(super) fn tabled(&mut self, name: &str, value: &Value) {
        let Some((table, key)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) else { return };
        match (table, value.as_text()) {
            ("BASH_CMDS", Some(_)) => {
                self.hashed.insert(key.trim_matches(['"', '\'']).to_owned(), value.clone());
            }
            ("BASH_ALIASES", Some(text)) => self.child(Language::Bash, text, &["quoted"]),
            _ => {}
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
            // A password that is typed: `read -rs NAME`.
            "read" if is_silent(argv) => {
                let variables = argv.iter().skip(1).filter_map(Value::as_whole_text);
                for variable in variables.filter(|word| is_name(word)).map(str::to_owned).collect::<Vec<_>>()
                {
                    self.arrays.remove(&variable);
                    self.vars.insert(variable, Value::name(crate::rules::SERVICE_TOKEN));
                }
            }
            // `read -u "${COPROC[0]}"`.
            "read" | "mapfile" | "readarray"
                if argv.iter().any(|word| word.is_named(COPROCESS)) && !stdin.is_named(COPROCESS) =>
            {
                let received = Value::name(COPROCESS).with_origin(Origin::NET);
                self.binds(name, argv, &received);
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
            "shift" if self.shifts => {
                let count = text(1).map_or(Some(1), |count| count.parse::<usize>().ok());
                if let Some(words) = self.arrays.get_mut("@") {
                    words.drain(..count.unwrap_or(0).min(words.len()));
                }
            }
            // `hash -p PROGRAM NAME…`
            "hash" => {
                let at = argv.iter().position(|word| word.as_text().is_some_and(|t| t.starts_with("-p")));
                let Some(at) = at else { return };
                let attached = text(at).and_then(|t| t.strip_prefix("-p")).filter(|path| !path.is_empty());
                let (program, names) = match attached {
                    Some(path) => (Some(Value::text(path)), at + 1),
                    None => (argv.get(at + 1).cloned(), at + 2),
                };
                let Some(program) = program else { return };
                let names = argv.iter().skip(names).filter_map(Value::as_whole_text).map(str::to_owned);
                let hashed: Vec<_> = names.map(|name| (name, program.clone())).collect();
                self.hashed.extend(hashed);
            }
            // The descriptors of a process that runs beside the script.
            "coproc" if argv.len() > 1 => {
                let is_network = argv.iter().filter_map(Value::as_text).any(|word| {
                    matches!(basename(word), "nc" | "ncat" | "netcat" | "socat" | "telnet" | "openssl")
                });
                // `coproc NAME { … }`.
                let is_named = text(2).is_some_and(|word| matches!(word, "{" | "("));
                let variable = text(1).filter(|_| is_named).unwrap_or("COPROC").to_owned();
                if is_network {
                    self.arrays.remove(&variable);
                    self.vars.insert(variable, Value::name(COPROCESS).with_origin(Origin::NET));
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
        if self.calls >= MAX_CALL_DEPTH {
            return None;
        }
        if given || used {
            if self.followed >= MAX_CALLS {
                return None;
            }
            self.followed += 1;
        } else {
            if argv.len() < 2 || self.passed >= MAX_CALLS || !executes_arguments(&body) {
                return None;
            }
            self.passed += 1;
        }
        self.calls += 1;
        let outer =
            self.arrays.insert("@".to_owned(), argv.iter().skip(1).take(MAX_ELEMENTS).cloned().collect());
        let mut value = self.capture_with(&body, stdin);
        // A `shift` may stand in a branch that is not taken.
        if self.shifts && body.contains("shift") {
            self.shifts = false;
            self.arrays.insert("@".to_owned(), argv.iter().skip(1).take(MAX_ELEMENTS).cloned().collect());
            value = value.or(&self.capture_with(&body, stdin));
            self.shifts = true;
        }
        match outer {
            Some(words) => drop(self.arrays.insert("@".to_owned(), words)),
            None => drop(self.arrays.remove("@")),
        }
        self.calls -= 1;
        Some(value)
    }
}

/// Whether a word is an option that makes a variable stand for another one.
pub(super) fn is_ref_option(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|letters| {
        letters.contains('n') && letters.bytes().all(|letter| letter.is_ascii_alphabetic())
    })
}

/// Whether a function's body executes its arguments: it names all of them, or one of them, or a variable that one was
/// put into, where a command begins.
fn executes_arguments(body: &str) -> bool {
    body.match_indices('$').any(|(at, _)| {
        let rest = body[at + 1..].trim_start_matches('{');
        if rest.starts_with(['@', '*']) {
            return true;
        }
        if !begins_command(&body[..at]) {
            return false;
        }
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        is_number
            || is_name(&name)
                && ["=$", "=\"$", "=${", "=\"${"].iter().any(|mark| {
                    let assigned = format!("{name}{mark}");
                    body.match_indices(&assigned).any(|(at, _)| {
                        body[at + assigned.len()..]
                            .starts_with(|c: char| c.is_ascii_digit() || "{@*".contains(c))
                    })
                })
    })
}

/// Whether a command, or the text of one, begins after this part of a script.
fn begins_command(before: &str) -> bool {
    const BEFORE: &[&str] = &[
        "then", "do", "else", "elif", "if", "while", "until", "eval", "exec", "command", "builtin", "sudo",
        "time", "nohup", "env", "nice", "trap", "source", ".", "xargs",
    ];
    let before = before.trim_end_matches('"').trim_end_matches([' ', '\t']);
    if before.is_empty() || before.ends_with([';', '|', '&', '(', '{', '!', '\n', '`']) {
        return true;
    }
    let last = before.rsplit(|c: char| c.is_whitespace() || ";|&({!`".contains(c)).next().unwrap_or("");
    BEFORE.contains(&last) || last.starts_with('-') && last.ends_with('c')
}

/// Whether `read` shows nothing of what is typed.
fn is_silent(argv: &[Value]) -> bool {
    let words = argv.iter().skip(1).filter_map(Value::as_whole_text);
    let mut options = words.filter_map(|word| word.strip_prefix('-'));
    options.any(|letters| letters.contains('s') && letters.bytes().all(|b| b.is_ascii_alphabetic()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_execute_their_arguments_are_told() {
        for body in [
            "{ \"$@\"; }",
            "{ $1 $2; }",
            "{ eval \"$1\"; }",
            "{ sh -c \"$1\"; }",
            "{ sudo ${1} x; }",
            "{ local c=$1; shift; if true; then $c x; fi; }",
            "{ c=\"${1}\"\n\"$c\" y; }",
        ] {
            assert!(executes_arguments(body), "{body}");
        }
        for body in [
            "{ echo \"$1\"; }",
            "{ x=$1; echo \"$x\"; }",
            "{ rm \"$dir\"; }",
            "{ make \"$1\"; }",
            "{ $CC x; }",
        ] {
            assert!(!executes_arguments(body), "{body}");
        }
    }
}
