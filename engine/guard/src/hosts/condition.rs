//! Conditions of a program: which addresses a test vouches for, if it is true and if it is false.

use super::check::{Checks, Danger, Known, State, add, both};
use super::derive::{Root, What};
use super::{Expr, Kind, Statement, last};

impl Checks<'_> {
    /// Addresses that a test vouches for: if it is true, and if it is false.
    pub(super) fn tests(&mut self, test: &Expr, state: &State) -> (Vec<Root>, Vec<Root>) {
        if !self.step() {
            return Default::default();
        }
        match test {
            Expr::Not(inner) => {
                let (if_true, if_false) = self.tests(inner, state);
                (if_false, if_true)
            }
            Expr::And(all) | Expr::Or(all) => {
                let is_and = matches!(test, Expr::And(_));
                let mut sums: Option<(Vec<Root>, Vec<Root>)> = None;
                let mut state = state.clone();
                for one in all {
                    let (if_true, if_false) = self.tests(one, &state);
                    if let Expr::Named(name, value) = one {
                        self.bind(std::slice::from_ref(name), value, &mut state, (0, 0));
                    }
                    sums = Some(match sums {
                        None => (if_true, if_false),
                        // All are true, or which of them is false is not known.
                        Some((mut yes, no)) if is_and => {
                            add(&mut yes, &if_true);
                            (yes, both(&no, &if_false))
                        }
                        Some((yes, mut no)) => {
                            add(&mut no, &if_false);
                            (both(&yes, &if_true), no)
                        }
                    });
                }
                sums.unwrap_or_default()
            }
            Expr::Name(name) => match state.env.get(&**name) {
                Some(Known::Answer(yes, no)) => (yes.clone(), no.clone()),
                Some(Known::Flag(Some(yes))) => (yes.clone(), Vec::new()),
                _ => Default::default(),
            },
            Expr::Named(_, value) => self.tests(value, state),
            Expr::Equal(left, right) => self.equal(left, right, state),
            Expr::In(left, right) => self.within(left, right, state),
            // `ALLOWED[host]`.
            Expr::Index(owner, key) => match self.host_of(key, state) {
                Some(_) => self.within(key, owner, state),
                None => Default::default(),
            },
            Expr::Member(owner, name) => self.private(owner, name, state),
            Expr::Call { function, args, .. } => self.asks(function, args, state),
            Expr::Each { targets, over, item } => {
                let mut state = state.clone();
                for target in targets {
                    let known = match self.derive(over, &state) {
                        Some((root, What::Host)) => Known::Piece(root, What::Host),
                        _ => Known::Nothing,
                    };
                    state.env.insert(target.clone(), known);
                }
                self.tests(item, &state)
            }
            _ => Default::default(),
        }
    }

    /// Address whose host an expression is.
    fn host_of(&mut self, expression: &Expr, state: &State) -> Option<Root> {
        self.piece_of(expression, state).filter(|(_, what)| *what == What::Host).map(|(root, _)| root)
    }

    /// Piece of an address; where a program connects to a host, the whole is the host, with or without a port.
    fn piece_of(&mut self, expression: &Expr, state: &State) -> Option<(Root, What)> {
        let (root, what) = self.derive(expression, state)?;
        let is_peer = self.danger == Danger::Peer && matches!(what, What::Whole | What::Made);
        Some((root, if is_peer { What::Host } else { what }))
    }

    /// `host.is_private`, `host.IsLoopback()`.
    fn private(&mut self, owner: &Expr, name: &str, state: &State) -> (Vec<Root>, Vec<Root>) {
        let is_private = matches!(
            name,
            "is_private"
                | "is_loopback"
                | "is_link_local"
                | "is_reserved"
                | "isPrivate"
                | "isLoopback"
                | "IsPrivate"
                | "IsLoopback"
                | "IsLinkLocalUnicast"
        );
        let is_global = matches!(name, "is_global" | "IsGlobalUnicast" | "isPublic");
        if !is_private && !is_global {
            return Default::default();
        }
        match self.host_of(owner, state) {
            Some(root) if is_private => (Vec::new(), vec![root]),
            Some(root) => (vec![root], Vec::new()),
            None => Default::default(),
        }
    }

    fn equal(&mut self, left: &Expr, right: &Expr, state: &State) -> (Vec<Root>, Vec<Root>) {
        for (one, other) in [(left, right), (right, left)] {
            match other {
                Expr::Nothing | Expr::Number(0) => {
                    let (yes, no) = self.tests(one, state);
                    if !(yes.is_empty() && no.is_empty()) {
                        return (no, yes);
                    }
                }
                Expr::True => {
                    let found = self.tests(one, state);
                    if !(found.0.is_empty() && found.1.is_empty()) {
                        return found;
                    }
                }
                // `LIST.indexOf(x) === -1`.
                Expr::Number(-1) => {
                    let (yes, no) = self.tests(one, state);
                    return (no, yes);
                }
                _ => {}
            }
        }
        for (one, other) in [(left, right), (right, left)] {
            if let Some(found) = self.equals_inside(one, other, state) {
                return found;
            }
            let Some(root) = self.host_of(one, state) else { continue };
            if let Expr::Text(text) = other {
                if text.is_empty() {
                    continue;
                }
                let denied = if is_local(text) { vec![root.clone()] } else { Vec::new() };
                return (vec![root], denied);
            }
            if self.is_fixed(other, &root, state) {
                return (vec![root], Vec::new());
            }
        }
        Default::default()
    }

    /// `item in list`.
    fn within(&mut self, item: &Expr, list: &Expr, state: &State) -> (Vec<Root>, Vec<Root>) {
        let Some(root) = self.host_of(item, state) else { return Default::default() };
        if !self.is_fixed(list, &root, state) {
            return Default::default();
        }
        let denied = if self.names_local(list, 0) { vec![root.clone()] } else { Vec::new() };
        (vec![root], denied)
    }

    /// True for something that was not made of this address, and that no caller gives.
    fn is_fixed(&mut self, expression: &Expr, root: &str, state: &State) -> bool {
        match expression {
            Expr::Nothing | Expr::True | Expr::Number(_) | Expr::Function(_) => return false,
            Expr::List(all) if all.is_empty() => return false,
            _ => {}
        }
        let mut all = Vec::new();
        self.roots(expression, state, &mut all);
        !all.iter().any(|own| {
            let is_given = |given: &Root| {
                own.strip_prefix(&**given).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            **own == *root || state.given.iter().any(is_given)
        })
    }

    /// True for a list, or a text, that names an address inside the network.
    fn names_local(&mut self, expression: &Expr, depth: usize) -> bool {
        if depth > 4 || !self.step() {
            return false;
        }
        match expression {
            Expr::Text(text) => is_local(text),
            Expr::List(all) | Expr::Other(all) => all.iter().any(|one| self.names_local(one, depth + 1)),
            Expr::Call { args, .. } => args.iter().any(|(_, arg)| self.names_local(arg, depth + 1)),
            Expr::Each { over, .. } => self.names_local(over, depth + 1),
            Expr::Name(name) => {
                let constant = self.program.constants.get(name).cloned().flatten();
                constant.is_some_and(|constant| self.names_local(&constant, depth + 1))
            }
            _ => false,
        }
    }

    /// Text of a constant.
    pub(super) fn text(&mut self, expression: &Expr, depth: usize) -> Option<Box<str>> {
        if depth > 4 || !self.step() {
            return None;
        }
        match expression {
            Expr::Text(text) => Some(text.clone()),
            Expr::Call { args, .. } => args.iter().find_map(|(_, arg)| self.text(arg, depth + 1)),
            Expr::List(all) => all.iter().find_map(|one| self.text(one, depth + 1)),
            Expr::Name(name) => {
                let constant = self.program.constants.get(name).cloned().flatten()?;
                self.text(&constant, depth + 1)
            }
            _ => None,
        }
    }

    /// Addresses that a call vouches for.
    fn asks(&mut self, function: &Expr, args: &[(Box<str>, Expr)], state: &State) -> (Vec<Root>, Vec<Root>) {
        let name = last(function);
        let receiver = match function {
            Expr::Member(owner, _) => Some(&**owner),
            _ => None,
        };
        if self.is_own(function) {
            let answers = self.called(name, args, state).unwrap_or_default();
            return (answers.yes, answers.no);
        }
        if let Some(owner) = receiver {
            let found = self.private(owner, name, state);
            if !(found.0.is_empty() && found.1.is_empty()) {
                return found;
            }
        }
        let values: Vec<&Expr> = args.iter().map(|(_, value)| value).collect();
        if let Some(found) = self.asks_inside(name, receiver, &values, state) {
            return found;
        }
        match name {
            // `isPrivate(host)`, of a library.
            "isPrivate" | "is_private" | "isLoopback" | "private_ip" => {
                values.first().map_or_else(Default::default, |first| self.private(first, "is_private", state))
            }
            "startswith" | "startsWith" | "HasPrefix" | "endswith" | "endsWith" | "HasSuffix" => {
                let (subject, affix) = match (receiver, &values[..]) {
                    (_, [subject, affix]) if name.starts_with("Has") => (*subject, *affix),
                    (Some(subject), [affix, ..]) => (subject, *affix),
                    _ => return Default::default(),
                };
                let begins = !name.starts_with('e') && name != "HasSuffix";
                self.affix(subject, affix, begins, state)
            }
            "includes" | "has" | "contains" | "indexOf" | "hasOwn" | "hasOwnProperty" | "Contains"
            | "get" | "__contains__" | "Index" => match (receiver, &values[..]) {
                (_, [list, item]) if matches!(name, "Contains" | "Index" | "hasOwn") => {
                    self.within(item, list, state)
                }
                (Some(list), [item, ..]) => self.within(item, list, state),
                _ => Default::default(),
            },
            "any" | "some" | "ContainsFunc" => {
                let mut found = (Vec::new(), Vec::new());
                for value in values.iter().chain(receiver.iter()) {
                    let inner = self.inner(value, state);
                    add(&mut found.0, &inner.0);
                    add(&mut found.1, &inner.1);
                }
                found
            }
            "bool" | "Boolean" => {
                values.first().map_or_else(Default::default, |first| self.tests(first, state))
            }
            "all" | "every" => {
                let mut found = (Vec::new(), Vec::new());
                for value in values {
                    add(&mut found.0, &self.inner(value, state).0);
                }
                found
            }
            "fullmatch" | "match" | "search" | "test" | "exec" | "MatchString" | "matches" => {
                self.pattern(receiver, &values, state)
            }
            _ => Default::default(),
        }
    }

    /// Test inside a function without a name, or for each element.
    fn inner(&mut self, value: &Expr, state: &State) -> (Vec<Root>, Vec<Root>) {
        let Expr::Function(id) = value else { return self.tests(value, state) };
        let program = self.program;
        let Some(function) = program.functions.get(*id) else { return Default::default() };
        let mut inner = state.clone();
        for param in &function.params {
            inner.env.insert(param.clone(), Known::Nothing);
        }
        match &function.body[..] {
            [Statement { kind: Kind::Return(values), .. }] => {
                values.last().map_or_else(Default::default, |value| self.tests(value, &inner))
            }
            _ => Default::default(),
        }
    }

    /// A beginning or an end of an address or a host.
    fn affix(&mut self, subject: &Expr, affix: &Expr, begins: bool, state: &State) -> (Vec<Root>, Vec<Root>) {
        let Some((root, what)) = self.piece_of(subject, state) else { return Default::default() };
        if !matches!(what, What::Whole | What::Host) {
            return Default::default();
        }
        // Any of several will do, so each has to tell.
        if let Expr::List(all) = affix {
            let each = all.iter().map(|one| self.affix(subject, one, begins, state)).collect::<Vec<_>>();
            let sum = each.into_iter().reduce(|a, b| (both(&a.0, &b.0), both(&a.1, &b.1)));
            return sum.unwrap_or_default();
        }
        match self.text(affix, 0) {
            Some(text) if self.danger == Danger::Option && begins && what == What::Whole => {
                let is_option = text.starts_with('-');
                let list = |is: bool| if is { vec![root.clone()] } else { Vec::new() };
                (list(!is_option && !text.is_empty()), list(is_option))
            }
            Some(text) => {
                let tells = match (what, begins) {
                    (What::Whole, true) => begins_with_host(&text),
                    (What::Host, false) => {
                        text.trim_start_matches('.').contains(['.', ':']) || text.starts_with('.')
                    }
                    _ => false,
                };
                let denied = what == What::Host && is_local(&text);
                let list = |is: bool| if is { vec![root.clone()] } else { Vec::new() };
                (list(tells), list(denied))
            }
            None if self.is_fixed(affix, &root, state) && (begins || what == What::Host) => {
                (vec![root], Vec::new())
            }
            None => Default::default(),
        }
    }

    /// A pattern that an address or a host has to match.
    fn pattern(
        &mut self,
        receiver: Option<&Expr>,
        values: &[&Expr],
        state: &State,
    ) -> (Vec<Root>, Vec<Root>) {
        let all: Vec<&Expr> = receiver.into_iter().chain(values.iter().copied()).collect();
        let subject = all.iter().enumerate().rev().find_map(|(at, one)| match self.piece_of(one, state) {
            Some((root, what @ (What::Whole | What::Host))) => {
                // The name of a pattern is a name like any other: its text tells them apart.
                (self.text(one, 0).is_none() && !is_constant(one)).then_some((at, root, what))
            }
            _ => None,
        });
        let Some((at, root, what)) = subject else { return Default::default() };
        let pattern = all.iter().enumerate().find(|(other, one)| {
            *other != at && !matches!(one, Expr::Name(name) if matches!(&**name, "re" | "regex" | "regexp"))
        });
        let Some((_, pattern)) = pattern else { return Default::default() };
        match self.text(pattern, 0) {
            Some(text) => {
                let list = |is: bool| if is { vec![root.clone()] } else { Vec::new() };
                let is_option = self.danger == Danger::Option;
                let tells = is_option && text.starts_with('^') || names_host(&text, what == What::Whole);
                (list(tells), list(is_local(&text) && what == What::Host))
            }
            None if self.is_fixed(pattern, &root, state) => (vec![root], Vec::new()),
            None => Default::default(),
        }
    }
}

/// True for methods and functions that answer a question about what they are given.
pub(super) fn tests_something(name: &str) -> bool {
    matches!(
        name,
        "has"
            | "hasOwn"
            | "hasOwnProperty"
            | "includes"
            | "indexOf"
            | "contains"
            | "Contains"
            | "Index"
            | "ContainsFunc"
            | "some"
            | "any"
            | "every"
            | "all"
            | "bool"
            | "Boolean"
            | "startswith"
            | "startsWith"
            | "endswith"
            | "endsWith"
            | "HasPrefix"
            | "HasSuffix"
            | "fullmatch"
            | "match"
            | "matches"
            | "search"
            | "test"
            | "exec"
            | "MatchString"
            | "isPrivate"
            | "is_private"
            | "isLoopback"
            | "private_ip"
            | "IsPrivate"
            | "IsLoopback"
            | "IsLinkLocalUnicast"
            | "IsGlobalUnicast"
    )
}

/// True for a name in capitals.
fn is_constant(expression: &Expr) -> bool {
    let name = last(expression);
    name.len() > 2 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// True for a text, or a pattern, that names an address inside the network.
fn is_local(text: &str) -> bool {
    const LOCAL: &[&str] = &[
        "localhost",
        "127.",
        "10.",
        "192.168",
        "169.254",
        "172.16",
        "0.0.0.0",
        "::1",
        ".internal",
        ".local",
    ];
    let plain = text.replace('\\', "").to_lowercase();
    LOCAL.iter().any(|local| plain.contains(local))
}

/// True for the beginning of an address with its whole host: `https://a.example/`.
fn begins_with_host(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or("");
    host.chars().any(char::is_alphanumeric) && rest.len() > host.len()
}

/// True for a pattern with letters of a host outside of its classes and quantities; in one of a whole address these follow
/// the scheme.
fn names_host(pattern: &str, is_whole: bool) -> bool {
    const MIN_LETTERS: usize = 3;
    let plain = pattern.replace("\\/", "/");
    let rest = if is_whole {
        match plain.split_once("://") {
            Some((_, rest)) => rest.split('/').next().unwrap_or(""),
            None => return false,
        }
    } else {
        plain.as_str()
    };
    let (mut run, mut longest, mut in_class, mut in_count) = (0, 0, false, false);
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                run = 0;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '{' => in_count = true,
            '}' => in_count = false,
            c if c.is_alphanumeric() && !in_class && !in_count => {
                run += 1;
                longest = longest.max(run);
            }
            _ => run = 0,
        }
    }
    longest >= MIN_LETTERS
}
