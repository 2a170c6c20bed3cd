//! Compiled conditions of a rule.

use super::class::{Class, class};
use super::matching::Call;
use super::pattern::Pattern;
use super::schema::When;
use crate::value::{Const, Origin, Step, Value};

/// A compiled condition.
#[derive(Debug)]
pub(super) struct Condition {
    arg: Vec<Selector>,
    is: Vec<Class>,
    not: Vec<Class>,
    matches: Option<Pattern>,
    origin: Origin,
    absent: bool,
    flag: Vec<String>,
    context: u32,
}

#[derive(Debug)]
enum Selector {
    Position(usize),
    Any,
    Payload,
    Operand,
    Last,
    Source,
    Receiver,
    /// Value of a command's option, by its spelling: `-T`, `--upload-file`.
    Option(String),
    Keyword(String),
}

impl Condition {
    /// Checks and compiles a condition; a `proven` pattern is compiled on first use.
    pub(super) fn of(when: &When, proven: bool) -> Result<Condition, String> {
        let class = |name: &String| class(name).ok_or_else(|| format!("unknown class {name}"));
        let mut origin = Origin::default();
        for name in &when.origin {
            origin |= Origin::named(name).ok_or_else(|| format!("unknown origin {name}"))?;
        }
        let mut context = 0;
        for name in &when.context {
            context |= context_bit(name).ok_or_else(|| format!("unknown context {name}"))?;
        }
        Ok(Condition {
            arg: when
                .arg
                .as_deref()
                .unwrap_or("")
                .split('|')
                .filter(|s| !s.is_empty())
                .map(selector)
                .collect(),
            is: when.is.iter().map(class).collect::<Result<_, _>>()?,
            not: when.not.iter().map(class).collect::<Result<_, _>>()?,
            matches: when.matches.clone().map(|text| Pattern::of(text, proven)).transpose()?,
            origin,
            absent: when.absent,
            flag: when.flag.clone(),
            context,
        })
    }

    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        self.matches.as_ref().is_none_or(Pattern::is_sound)
    }

    pub(super) fn holds(&self, call: &Call<'_>) -> bool {
        if self.context != 0 && call.context & self.context == 0 {
            return false;
        }
        if !self.flag.is_empty() && !self.flag.iter().any(|flag| has_flag(call.args, flag)) {
            return false;
        }
        if self.arg.is_empty() {
            return true;
        }
        let mut given = false;
        for selector in &self.arg {
            let mut check = |value: &Value| {
                given = true;
                self.value_holds(value)
            };
            let found = match selector {
                Selector::Position(at) => call.args.get(*at).is_some_and(&mut check),
                Selector::Keyword(name) => {
                    call.kwargs.iter().filter(|(key, _)| **key == **name).any(|(_, value)| check(value))
                }
                Selector::Receiver => call.receiver.is_some_and(&mut check),
                Selector::Any => {
                    let named =
                        call.kwargs.iter().filter(|(key, _)| &**key != "command_name").map(|(_, v)| v);
                    call.args.iter().chain(named).any(&mut check)
                }
                // Contents of a request, without its credentials and the settings of its connection.
                Selector::Payload => {
                    let sent = |key: &str| !authorises(key) && !is_of_connection(key);
                    let named = call.kwargs.iter().filter(|(key, _)| sent(key)).map(|(_, v)| v);
                    call.args.iter().chain(named).any(&mut check)
                }
                Selector::Operand => operands(call).any(&mut check),
                Selector::Last => destination(call.args).is_some_and(&mut check),
                Selector::Option(name) => of_option(call.args, name).iter().any(&mut check),
                Selector::Source => sources(call.args).into_iter().any(&mut check),
            };
            if found && !self.absent {
                return true;
            }
        }
        self.absent && !given
    }

    /// Way of an argument that has one of the origins that the condition asks about.
    pub(super) fn trail<'v>(&self, call: &Call<'v>) -> Option<&'v Step> {
        if self.origin == Origin::default() {
            return None;
        }
        let named = call.kwargs.iter().map(|(_, value)| value);
        let all = call.args.iter().chain(named).chain(call.receiver);
        all.filter(|value| value.origin.has(self.origin)).find_map(|value| value.trail.as_deref())
    }

    fn value_holds(&self, value: &Value) -> bool {
        self.absent
            || (self.origin == Origin::default() || value.origin.has(self.origin))
                && (self.is.is_empty() || self.is.iter().any(|class| class(value)))
                && !self.not.iter().any(|class| class(value))
                && self.matches.as_ref().is_none_or(|regex| texts(value).any(|text| regex.is_match(text)))
    }
}

/// Arguments other than options.
fn operands<'c>(call: &Call<'c>) -> impl DoubleEndedIterator<Item = &'c Value> {
    call.args.iter().filter(|value| is_operand(value))
}

/// The last operand, which is not the value of an option before it: `rsync a b --exclude c`.
fn destination(args: &[Value]) -> Option<&Value> {
    let takes_value = |before: &Value| {
        before.as_text().is_some_and(|option| {
            matches!(
                option,
                "-e" | "-f"
                    | "--rsh"
                    | "--filter"
                    | "--exclude"
                    | "--include"
                    | "--exclude-from"
                    | "--include-from"
                    | "--files-from"
                    | "--log-file"
                    | "--password-file"
                    | "--timeout"
                    | "--bwlimit"
            )
        })
    };
    let is_value = |at: usize| at.checked_sub(1).and_then(|at| args.get(at)).is_some_and(takes_value);
    args.iter()
        .enumerate()
        .rev()
        .find(|(at, value)| is_operand(value) && !is_value(*at))
        .map(|(_, value)| value)
}

/// Operands of a command that moves or copies them to the last one, or to the folder of `-t`.
fn sources(args: &[Value]) -> Vec<&Value> {
    let targets = |value: &Value| {
        let option = value.as_text().unwrap_or_default();
        let is_short = option.starts_with('-') && !option.starts_with("--") && option.ends_with('t');
        is_short || option == "--target-directory"
    };
    let joined = |value: &Value| value.as_text().is_some_and(|t| t.starts_with("--target-directory="));
    let mut all = Vec::new();
    let (mut has_target, mut is_target) = (args.iter().any(joined), false);
    for value in args {
        if is_target {
            (has_target, is_target) = (true, false);
        } else if targets(value) {
            is_target = true;
        } else if is_operand(value) {
            all.push(value);
        }
    }
    if !has_target {
        all.pop();
    }
    all
}

/// Values of an option: behind it, behind its cluster (`-sT x`), attached (`-Tx`), or after `=` of a long one.
fn of_option(args: &[Value], name: &str) -> Vec<Value> {
    let long = name.starts_with("--");
    let mut found = Vec::new();
    for (at, value) in args.iter().enumerate() {
        let Some(text) = value.as_text() else { continue };
        let attached = if long {
            text.strip_prefix(name)
                .and_then(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix('=') })
        } else if text.starts_with("--") || !text.starts_with('-') {
            None
        } else {
            let letter = &name[1..];
            text[1..]
                .split_once(letter)
                .filter(|(before, _)| before.chars().all(|c| c.is_ascii_alphabetic()))
                .map(|(_, rest)| rest)
        };
        match attached {
            Some("") => found.extend(args.get(at + 1).cloned()),
            Some(rest) => found.push(Value { known: Value::text(rest).known, ..value.clone() }),
            None => {}
        }
    }
    found
}

fn is_operand(value: &Value) -> bool {
    value.as_text().is_none_or(|t| !t.starts_with('-') || t == "-")
}

/// Texts in a value: itself, or the elements of a list one level deep.
pub(super) fn texts(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match &value.known {
        Some(Const::List(items)) => Box::new(items.iter().take(64).filter_map(Value::as_text)),
        Some(Const::Map(pairs)) => {
            Box::new(pairs.iter().take(64).flat_map(|(k, v)| [k.as_text(), v.as_text()]).flatten())
        }
        _ => Box::new(value.as_text().into_iter()),
    }
}

fn selector(name: &str) -> Selector {
    match name {
        "any" => Selector::Any,
        "payload" => Selector::Payload,
        "operand" => Selector::Operand,
        "last" => Selector::Last,
        "source" => Selector::Source,
        "receiver" => Selector::Receiver,
        _ if name.starts_with('-') => Selector::Option(name.to_owned()),
        _ => name.parse().map_or_else(|_| Selector::Keyword(name.to_owned()), Selector::Position),
    }
}

/// True for arguments of a request that authenticate the client.
pub(crate) fn authorises(name: &str) -> bool {
    matches!(name, "headers" | "auth" | "cert" | "cookies" | "verify" | "proxies" | "command_name")
}

/// True for arguments of a request that only its client uses.
fn is_of_connection(name: &str) -> bool {
    matches!(name, "context" | "ssl_context" | "timeout" | "cafile" | "capath")
}

/// True when a command line has an option: a single letter also in clusters (`-rf`), a longer name as
/// `--recursive` or `-name`.
fn has_flag(args: &[Value], flag: &str) -> bool {
    args.iter().filter_map(Value::as_text).take_while(|text| *text != "--").any(|text| {
        if let Some(long) = text.strip_prefix("--") {
            flag.len() > 1 && (long == flag || long.split('=').next() == Some(flag))
        } else if let Some(short) = text.strip_prefix('-') {
            if flag.len() == 1 {
                short.contains(flag) && short.chars().all(|c| c.is_ascii_alphanumeric())
            } else {
                short == flag
            }
        } else {
            false
        }
    })
}

/// Bit of a call's context.
pub(super) fn context_bit(name: &str) -> Option<u32> {
    use super::matching::Spot;
    Some(match name {
        "loop" => Spot::LOOP,
        "endless" => Spot::ENDLESS,
        "walk" => Spot::WALK,
        "top" => Spot::TOP,
        "obfuscated" => Spot::OBFUSCATED,
        "install" => Spot::INSTALL,
        "busy" => Spot::BUSY,
        "serves" => Spot::SERVES,
        "few" => Spot::FEW_CONSTANTS,
        "silent" => Spot::SILENT,
        "image" => Spot::IMAGE,
        "chosen" => Spot::CHOSEN,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_an_option_in_each_spelling() {
        for (line, want) in [
            ("-T x y", &["x"][..]),
            ("-sT x y", &["x"]),
            ("-Tx y", &["x"]),
            ("--upload-file x y", &["x"]),
            ("--upload-file=x y", &["x"]),
            ("--upload-files x", &[]),
            ("-T - y -o -", &["-"]),
            ("-o - y", &[]),
            ("-u a:T y", &[]),
            ("-T", &[]),
        ] {
            let args: Vec<Value> = line.split(' ').map(Value::text).collect();
            let found: Vec<String> = ["-T", "--upload-file"]
                .iter()
                .flat_map(|name| of_option(&args, name))
                .filter_map(|value| value.as_text().map(str::to_owned))
                .collect();
            assert_eq!(found, want, "{line}");
        }
    }
}
