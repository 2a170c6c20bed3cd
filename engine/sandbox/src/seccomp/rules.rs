//! The language of the filter files: its parser and its checks.
//!
//! Each line is a statement; a line that begins with a blank continues the previous one; `#` begins a
//! comment. The first rule of a call whose conditions all hold decides.
//!
//! ```text
//! default ACTION                      action for a call without rules
//! define NAME VALUE
//! ACTION CALL... [if TEST {and TEST}] [when OPTION {and OPTION}]
//! ACTION = allow | deny | notify | enosys | enoprotoopt | eopnotsupp | kill
//! TEST   = WORD [& VALUE] (== VALUE | != VALUE | < VALUE | in VALUE...)
//! WORD   = arg0 .. arg5 (all 64 bits) | int0 .. int5 (the low 32 bits)
//! VALUE  = number or name, several joined by | without blanks
//! OPTION = [not] (internet | namespaces | host_writes | plain | accounted | truncates)
//! ```
//!
//! `intN` is for arguments that the kernel takes as an `int`: the kernel ignores the upper half, and a filter
//! that does not can be bypassed by setting a bit there (CVE-2019-7303). Everything doubtful is an error:
//! unknown and unused names, tests that cannot hold, rules that cannot be reached, calls that no rule
//! decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Arch, Options, Table};

/// The calls that may have a `notify` rule, the only ones that are ever answered with `CONTINUE`.
pub(super) const ADDRESS_CALLS: [&str; 3] = ["bind", "connect", "sendto"];

/// Action for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Allow,
    Deny,
    Notify,
    Enosys,
    /// `ENOPROTOOPT`, as by a kernel that lacks the socket option.
    NoSuchOption,
    /// `EOPNOTSUPP`, as by a kernel or a file system that lacks the flag.
    Unsupported,
    Kill,
}

/// The tested part of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Width {
    /// The lower 32 bits.
    Int,
    /// All 64 bits.
    Full,
}

/// Comparison of the masked argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Test {
    AnyOf(Vec<u64>),
    Not(u64),
    Below(u64),
}

/// One test of one argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Condition {
    pub(super) argument: u8,
    pub(super) width: Width,
    pub(super) mask: u64,
    pub(super) test: Test,
}

/// An action that applies if all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rule {
    pub(super) action: Action,
    pub(super) conditions: Vec<Condition>,
}

/// The rules of one architecture and one set of options.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// Action for calls without rules.
    pub(super) default: Action,
    /// By system call number; the last rule of each has no conditions.
    pub(super) calls: BTreeMap<u32, Vec<Rule>>,
}

/// An error in a filter file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct ParseError {
    line: usize,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error(
        "unknown action {0:?}; one of default, define, allow, deny, notify, enosys, enoprotoopt, eopnotsupp, kill"
    )]
    Action(String),
    #[error("no system call is named {0:?} on any architecture")]
    Call(String),
    #[error("{0:?} stands twice in one rule")]
    Repeated(String),
    #[error("no system call is named")]
    NoCall,
    #[error("{0} expected, found {1:?}")]
    Expected(&'static str, String),
    #[error("{0:?} is neither a number nor defined")]
    Value(String),
    #[error("{0:?} is defined twice")]
    Redefined(String),
    #[error("{0:?} is defined and not used")]
    Unused(String),
    #[error("{0:?} is not a name in capital letters")]
    Name(String),
    #[error("the value {0:#x} has bits outside the mask {1:#x}")]
    OutsideMask(u64, u64),
    #[error("the value {0:#x} has more than 32 bits, use arg instead of int")]
    TooWide(u64),
    #[error("nothing is below 0")]
    BelowNothing,
    #[error("unknown option {0:?}; one of internet, namespaces, host_writes, plain, accounted, truncates")]
    Option(String),
    #[error("the default is set twice")]
    DefaultTwice,
    #[error("the default is not set")]
    NoDefault,
    #[error("the default may be enosys or kill only")]
    Default,
    #[error("notify is for bind, connect and sendto only, not for {0:?}")]
    Notify(String),
    #[error("{0:?} has rules with notify and with deny: its notifications would be ambiguous")]
    Ambiguous(String),
    #[error("the rule for {0:?} is never reached: line {1} decides every case")]
    Unreachable(String, usize),
    #[error("no rule decides the remaining cases of {0:?}: the last one must have no conditions")]
    Undecided(String),
}

/// An option of [`Options`] that a rule depends on, and the value it must have.
type When = (Flag, bool);

#[derive(Clone, Copy, Debug)]
enum Flag {
    Internet,
    Namespaces,
    HostWrites,
    Plain,
    Accounted,
    Truncates,
}

#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    when: Vec<When>,
    rule: Rule,
}

impl Entry {
    /// Whether the rule applies in every case.
    fn is_certain(&self) -> bool {
        self.when.is_empty() && self.rule.conditions.is_empty()
    }

    fn applies(&self, options: Options) -> bool {
        self.when.iter().all(|&(flag, wanted)| match flag {
            Flag::Internet => options.internet == wanted,
            Flag::Namespaces => options.namespaces == wanted,
            Flag::HostWrites => options.host_writes == wanted,
            Flag::Plain => options.plain == wanted,
            Flag::Accounted => options.accounted == wanted,
            Flag::Truncates => options.truncates == wanted,
        })
    }
}

/// A parsed and checked filter file.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    default: Action,
    calls: BTreeMap<&'static str, Vec<Entry>>,
}

impl Rules {
    /// Parses a filter file.
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser::default();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            parser.line = index + 1;
            let mut words = words(line);
            while let Some((_, more)) = lines.next_if(|(_, next)| next.starts_with([' ', '\t'])) {
                words.extend(self::words(more));
            }
            if let Some((&first, rest)) = words.split_first() {
                parser.statement(first, rest).map_err(|problem| parser.error(problem))?;
            }
        }
        if let Some((name, &(_, line))) = parser
            .constants
            .iter()
            .filter(|(name, _)| !parser.used.contains(*name))
            .min_by_key(|(_, entry)| entry.1)
        {
            let problem = Problem::Unused(name.clone());
            return Err(ParseError { line, problem });
        }
        let Some(default) = parser.default else {
            return Err(parser.error(Problem::NoDefault));
        };
        let calls = parser.calls;
        let rules = Self { default, calls };
        rules.check()?;
        Ok(rules)
    }

    /// Selects the rules for one architecture and one set of options.
    pub(super) fn select(&self, table: &Table, options: Options) -> Selection {
        let calls = self.calls.iter().filter_map(|(name, entries)| {
            let rules = entries
                .iter()
                .filter(|entry| entry.applies(options))
                .map(|entry| entry.rule.clone())
                .collect();
            Some((table.number(name)?, rules))
        });
        Selection { default: self.default, calls: calls.collect() }
    }

    /// Whether the file mentions a call.
    #[cfg(test)]
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.calls.contains_key(name)
    }

    /// Checks that every call is decided in every case, and that each rule is used in at least one.
    fn check(&self) -> Result<(), ParseError> {
        let mut idle = BTreeMap::new();
        let mut reached = BTreeSet::new();
        for (&name, entries) in &self.calls {
            if matches!(entries.as_slice(), [only] if only.is_certain()) {
                continue;
            }
            let any = |action| entries.iter().any(|entry| entry.rule.action == action);
            let last = entries.last().map_or(0, |entry| entry.line);
            let fail = |problem| {
                let line = last;
                Err(ParseError { line, problem })
            };
            if any(Action::Notify) && any(Action::Deny) {
                return fail(Problem::Ambiguous(name.to_owned()));
            }
            for bits in 0..64 {
                let [internet, namespaces, host_writes, plain, accounted, truncates] =
                    [1, 2, 4, 8, 16, 32].map(|bit| bits & bit != 0);
                let notify = true;
                let options =
                    Options { notify, internet, namespaces, host_writes, plain, accounted, truncates };
                let mut decided = None;
                for entry in entries.iter().filter(|entry| entry.applies(options)) {
                    if let Some(by) = decided {
                        idle.insert((entry.line, name), by);
                    } else {
                        reached.insert((entry.line, name));
                        if entry.rule.conditions.is_empty() {
                            decided = Some(entry.line);
                        }
                    }
                }
                if decided.is_none() {
                    return fail(Problem::Undecided(name.to_owned()));
                }
            }
        }
        for ((line, name), by) in idle {
            if !reached.contains(&(line, name)) {
                let problem = Problem::Unreachable(name.to_owned(), by);
                return Err(ParseError { line, problem });
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Parser {
    line: usize,
    default: Option<Action>,
    /// Value and line number by name.
    constants: HashMap<String, (u64, usize)>,
    used: BTreeSet<String>,
    calls: BTreeMap<&'static str, Vec<Entry>>,
}

impl Parser {
    fn error(&self, problem: Problem) -> ParseError {
        let line = self.line;
        ParseError { line, problem }
    }

    fn statement(&mut self, first: &str, rest: &[&str]) -> Result<(), Problem> {
        match first {
            "default" => {
                let [action] = rest else {
                    return Err(Problem::Expected("one action", rest.join(" ")));
                };
                let action = parse_action(action)?;
                if !matches!(action, Action::Enosys | Action::Kill) {
                    return Err(Problem::Default);
                }
                match self.default.replace(action) {
                    None => Ok(()),
                    Some(_) => Err(Problem::DefaultTwice),
                }
            }
            "define" => {
                let [name, value] = rest else {
                    return Err(Problem::Expected("a name and a value", rest.join(" ")));
                };
                let valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                if !name.starts_with(|c: char| c.is_ascii_uppercase()) || !name.chars().all(valid) {
                    return Err(Problem::Name((*name).to_owned()));
                }
                let value = self.value(value)?;
                match self.constants.insert((*name).to_owned(), (value, self.line)) {
                    None => Ok(()),
                    Some(_) => Err(Problem::Redefined((*name).to_owned())),
                }
            }
            _ => self.rule(parse_action(first)?, rest),
        }
    }

    fn rule(&mut self, action: Action, words: &[&str]) -> Result<(), Problem> {
        let mut parts = split_at_word(words, "when");
        let (words, when) = (parts.remove(0), parts);
        let mut parts = split_at_word(words, "if");
        let (names, tests) = (parts.remove(0), parts);

        let mut conditions = Vec::new();
        for tests in joined(tests, "one if")? {
            conditions.push(self.condition(tests)?);
        }
        let mut options = Vec::new();
        for option in joined(when, "one when")? {
            let (wanted, name) = match option {
                ["not", name] => (false, *name),
                [name] => (true, *name),
                _ => return Err(Problem::Expected("an option", option.join(" "))),
            };
            let flag = match name {
                "internet" => Flag::Internet,
                "namespaces" => Flag::Namespaces,
                "host_writes" => Flag::HostWrites,
                "plain" => Flag::Plain,
                "accounted" => Flag::Accounted,
                "truncates" => Flag::Truncates,
                _ => return Err(Problem::Option(name.to_owned())),
            };
            options.push((flag, wanted));
        }
        if names.is_empty() {
            return Err(Problem::NoCall);
        }
        for &name in names {
            let entry = Entry {
                line: self.line,
                when: options.clone(),
                rule: Rule { action, conditions: conditions.clone() },
            };
            let known = Arch::ALL.iter().find_map(|arch| {
                let table = arch.table();
                table.name(table.number(name)?)
            });
            let Some(known) = known else {
                return Err(Problem::Call(name.to_owned()));
            };
            if action == Action::Notify && !ADDRESS_CALLS.contains(&name) {
                return Err(Problem::Notify(name.to_owned()));
            }
            let entries = self.calls.entry(known).or_default();
            if entries.last().is_some_and(|last| last.line == self.line) {
                return Err(Problem::Repeated(name.to_owned()));
            }
            entries.push(entry);
        }
        Ok(())
    }

    fn condition(&mut self, words: &[&str]) -> Result<Condition, Problem> {
        let expected = |what| Problem::Expected(what, words.join(" "));
        let (&word, mut rest) = words.split_first().ok_or_else(|| expected("a test"))?;
        let (width, number) = match (word.strip_prefix("arg"), word.strip_prefix("int")) {
            (Some(number), _) => (Width::Full, number),
            (_, Some(number)) => (Width::Int, number),
            _ => return Err(expected("arg0 to arg5 or int0 to int5")),
        };
        let argument = match number.as_bytes() {
            [digit @ b'0'..=b'5'] => digit - b'0',
            _ => return Err(expected("arg0 to arg5 or int0 to int5")),
        };
        let all = match width {
            Width::Int => u64::from(u32::MAX),
            Width::Full => u64::MAX,
        };
        let mut mask = all;
        if let ["&", value, after @ ..] = rest {
            mask = self.value(value)?;
            rest = after;
        }
        let test = match rest {
            ["==", value] => Test::AnyOf(vec![self.value(value)?]),
            ["!=", value] => Test::Not(self.value(value)?),
            ["<", value] => Test::Below(self.value(value)?),
            ["in", values @ ..] if !values.is_empty() => {
                let values = values.iter().map(|value| self.value(value));
                Test::AnyOf(values.collect::<Result<_, _>>()?)
            }
            _ => return Err(expected("== VALUE, != VALUE, < VALUE or in VALUE...")),
        };
        if mask & !all != 0 {
            return Err(Problem::TooWide(mask));
        }
        let values = match &test {
            Test::AnyOf(values) => values.as_slice(),
            Test::Not(value) | Test::Below(value) => std::slice::from_ref(value),
        };
        for &value in values {
            if value & !all != 0 {
                return Err(Problem::TooWide(value));
            }
            if value & !mask != 0 {
                return Err(Problem::OutsideMask(value, mask));
            }
        }
        if test == Test::Below(0) {
            return Err(Problem::BelowNothing);
        }
        Ok(Condition { argument, width, mask, test })
    }

    fn value(&mut self, text: &str) -> Result<u64, Problem> {
        let mut all = 0;
        for item in text.split('|') {
            all |= if let Some(&(value, _)) = self.constants.get(item) {
                self.used.insert(item.to_owned());
                value
            } else {
                parse_number(item).ok_or_else(|| Problem::Value(item.to_owned()))?
            };
        }
        Ok(all)
    }
}

fn parse_action(word: &str) -> Result<Action, Problem> {
    Ok(match word {
        "allow" => Action::Allow,
        "deny" => Action::Deny,
        "notify" => Action::Notify,
        "enosys" => Action::Enosys,
        "enoprotoopt" => Action::NoSuchOption,
        "eopnotsupp" => Action::Unsupported,
        "kill" => Action::Kill,
        _ => return Err(Problem::Action(word.to_owned())),
    })
}

/// Parses a decimal, `0x` hexadecimal or `0o` octal number.
fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = if let Some(digits) = text.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = text.strip_prefix("0o") {
        (digits, 8)
    } else {
        (text, 10)
    };
    let plain = digits.chars().all(|c| c.is_digit(radix));
    (plain && !digits.is_empty()).then(|| u64::from_str_radix(digits, radix).ok())?
}

/// The words of a line without its comment.
fn words(line: &str) -> Vec<&str> {
    let code = line.split('#').next().unwrap_or_default();
    code.split_whitespace().collect()
}

/// Splits words at a word; returns at least one part.
fn split_at_word<'a, 'b>(words: &'b [&'a str], at: &str) -> Vec<&'b [&'a str]> {
    words.split(|word| *word == at).collect()
}

/// The parts between `and` of the one optional clause.
fn joined<'a, 'b>(
    mut clauses: Vec<&'b [&'a str]>,
    what: &'static str,
) -> Result<Vec<&'b [&'a str]>, Problem> {
    match clauses.pop() {
        None => Ok(Vec::new()),
        Some(clause) if clauses.is_empty() => Ok(split_at_word(clause, "and")),
        Some(clause) => Err(Problem::Expected(what, clause.join(" "))),
    }
}
