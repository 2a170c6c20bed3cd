//! Walk over a program to the request of an address: which addresses have a checked host when it is reached.

use super::derive::{Root, What};
use super::{At, Expr, FunctionId, Kind, MAX_STEPS, Program, Statement, last};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Maximum nesting of calls of the program's own functions that are followed.
const MAX_CALLS: usize = 4;

/// Knowledge about a name.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// A piece of an address.
    Piece(Root, What),
    /// An answer of a function: addresses that are checked if it is true, and if it is false.
    Answer(Vec<Root>, Vec<Root>),
    /// A flag that is false at first: addresses that are checked wherever it is set; `None` if it is never set.
    Flag(Option<Vec<Root>>),
    /// Neither.
    Nothing,
}

/// Knowledge at one place of the walk.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) env: FxHashMap<Box<str>, Known>,
    /// Addresses whose host is checked.
    checked: Vec<Root>,
    /// Parameters of the functions around the request: a caller may choose their values.
    given: Vec<Root>,
}

/// Knowledge about one call of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Piece of an address that it returns.
    pub(super) result: Option<(Root, What)>,
    /// Addresses that are checked if it returns at all, if its answer is true, and if it is false.
    always: Vec<Root>,
    yes: Vec<Root>,
    no: Vec<Root>,
}

/// End of a function: addresses that are checked there in any case, if its answer is true, and if it is false.
struct Exit {
    checked: Vec<Root>,
    if_true: Vec<Root>,
    if_false: Vec<Root>,
    truth: Option<bool>,
    result: Option<(Root, What)>,
}

/// Request that is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Place of the call.
    pub(crate) at: At,
    /// Position of the address among its arguments; `None` for any of them.
    pub(crate) position: Option<usize>,
    /// Danger that a check has to rule out.
    pub(crate) danger: Danger,
}

/// Danger of a value that a caller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Danger {
    /// An address of any host.
    Host,
    /// An option where a program expects an operand.
    Option,
}

/// A walk.
pub(super) struct Checks<'p> {
    program: &'p Program,
    asked: Option<Asked>,
    pub(super) danger: Danger,
    answer: bool,
    steps: usize,
    stack: Vec<FunctionId>,
    exits: Vec<Exit>,
    leaves: bool,
}

impl Program {
    /// True if the host of the address that a call is given has been checked where the call is reached.
    pub(crate) fn is_checked(&mut self, asked: Asked) -> bool {
        let steps = self.steps;
        let mut checks = Checks {
            program: self,
            asked: Some(asked),
            danger: asked.danger,
            answer: false,
            steps,
            stack: Vec::new(),
            exits: Vec::new(),
            leaves: false,
        };
        let mut state = State::default();
        checks.block(&checks.program.body, &mut state);
        let (answer, steps) = (checks.answer, checks.steps);
        self.steps = steps;
        answer && steps < MAX_STEPS
    }
}

fn add(to: &mut Vec<Root>, all: &[Root]) {
    for one in all {
        if !to.contains(one) {
            to.push(one.clone());
        }
    }
}

fn both(left: &[Root], right: &[Root]) -> Vec<Root> {
    left.iter().filter(|one| right.contains(one)).cloned().collect()
}

fn contains(at: At, inner: At) -> bool {
    at.0 <= inner.0 && inner.1 <= at.1
}

impl<'p> Checks<'p> {
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps < MAX_STEPS
    }

    /// True for a call of a function of the program.
    pub(super) fn is_own(&self, function: &Expr) -> bool {
        // Methods of lists and texts stay these, whatever methods the program has.
        let is_known = |name: &str| tests_something(name) || matches!(name, "get" | "post" | "parse");
        match function {
            Expr::Name(name) => self.program.by_name.contains_key(name),
            Expr::Member(_, name) => !is_known(name) && self.program.by_name.contains_key(name),
            _ => false,
        }
    }

    /// Walks a block; true if control never reaches its end. The walk ends at the call that is asked about.
    fn block(&mut self, block: &'p [Statement], state: &mut State) -> bool {
        for statement in block {
            if !self.step() {
                return true;
            }
            if self.statement(statement, state) {
                return true;
            }
        }
        false
    }

    fn is_inside(&self, at: At) -> bool {
        self.asked.is_some_and(|asked| contains(at, asked.at))
    }

    fn statement(&mut self, statement: &'p Statement, state: &mut State) -> bool {
        let inside = self.is_inside(statement.at);
        match &statement.kind {
            Kind::Bind(names, value) => {
                self.evaluate(value, state);
                self.bind(names, value, state, statement.at);
                false
            }
            Kind::If(test, yes, no) => self.branches(test, yes, no, state),
            Kind::Assert(test) => {
                self.evaluate(test, state);
                let (if_true, _) = self.tests(test, state);
                add(&mut state.checked, &if_true);
                false
            }
            Kind::Run(expression) => {
                self.evaluate(expression, state);
                matches!(expression, Expr::Call { function, .. } if ends(function))
            }
            Kind::Return(values) => {
                values.iter().for_each(|value| self.evaluate(value, state));
                let exit = self.exit(values, state);
                self.exits.push(exit);
                true
            }
            Kind::Raise(values) => {
                values.iter().for_each(|value| self.evaluate(value, state));
                true
            }
            Kind::Leave => {
                self.leaves = true;
                true
            }
            Kind::Loop(targets, over, body) => {
                self.evaluate(over, state);
                let element = self.derive(over, state);
                for target in targets {
                    let known = match &element {
                        Some((root, What::Host)) => Known::Piece(root.clone(), What::Host),
                        Some((root, _)) => {
                            Known::Piece(format!("{root}[{}]", statement.at.0).into(), What::Whole)
                        }
                        None => Known::Nothing,
                    };
                    state.env.insert(target.clone(), known);
                }
                let before = state.checked.clone();
                let outer = std::mem::replace(&mut self.leaves, false);
                self.block(body, state);
                // A loop that is left early has not looked at every element.
                if self.leaves {
                    state.checked = before;
                }
                self.leaves = outer;
                false
            }
            Kind::Try(body, handlers, rest) => {
                let before = state.checked.clone();
                let mut ended = self.block(body, state);
                let after = std::mem::replace(&mut state.checked, before.clone());
                let mut all_end = true;
                for handler in handlers {
                    state.checked.clone_from(&before);
                    all_end &= self.block(handler, state);
                }
                state.checked = if all_end { after } else { before };
                ended &= all_end;
                self.block(rest, state) || ended
            }
            Kind::Define(id) => {
                if inside {
                    self.enter(*id, state);
                }
                false
            }
            Kind::Block(block) => self.block(block, state),
        }
    }

    /// Walks the function that contains the call that is asked about.
    fn enter(&mut self, id: FunctionId, state: &State) {
        let program = self.program;
        let Some(function) = program.functions.get(id) else { return };
        let mut inner = state.clone();
        for param in &function.params {
            inner.env.remove(param);
            inner.given.push(Rc::from(&**param));
        }
        let outer = std::mem::take(&mut self.exits);
        self.block(&function.body, &mut inner);
        self.exits = outer;
    }

    fn branches(
        &mut self,
        test: &'p Expr,
        yes: &'p [Statement],
        no: &'p [Statement],
        state: &mut State,
    ) -> bool {
        self.evaluate(test, state);
        let (if_true, if_false) = self.tests(test, state);
        let before = state.checked.clone();
        add(&mut state.checked, &if_true);
        let ends_yes = self.block(yes, state);
        let after_yes = std::mem::replace(&mut state.checked, before);
        add(&mut state.checked, &if_false);
        let ends_no = self.block(no, state);
        if ends_no && !ends_yes {
            state.checked = after_yes;
        } else if !ends_yes {
            state.checked = both(&after_yes, &state.checked);
        }
        ends_yes && ends_no
    }

    /// Binds names to what an expression yields.
    fn bind(&mut self, names: &[Box<str>], value: &Expr, state: &mut State, at: At) {
        let (if_true, if_false) = self.tests(value, state);
        let own = match unwrapped(value) {
            Expr::Call { function, args, .. } if self.is_own(function) => {
                self.called(last(function), args, state)
            }
            _ => None,
        };
        let piece = self.derive(value, state);
        for (position, name) in names.iter().enumerate() {
            // The last of several results is an error, or tells if something was found.
            let is_verdict = position > 0 && position + 1 == names.len();
            let answers = !(if_true.is_empty() && if_false.is_empty())
                && (is_verdict || names.len() == 1 && own.as_ref().is_none_or(|own| own.result.is_none()));
            let known = match (value, &piece) {
                (Expr::Nothing, _) => match state.env.get(name) {
                    Some(flag @ Known::Flag(_)) => flag.clone(),
                    _ => Known::Flag(None),
                },
                (Expr::True, _) => Known::Flag(Some(match state.env.get(name) {
                    Some(Known::Flag(Some(before))) => both(before, &state.checked),
                    _ => state.checked.clone(),
                })),
                _ if answers => Known::Answer(if_true.clone(), if_false.clone()),
                (_, Some((root, what))) => Known::Piece(root.clone(), *what),
                _ => Known::Piece(format!("{name}@{}", at.0).into(), What::Whole),
            };
            state.env.insert(name.clone(), known);
        }
    }

    fn exit(&mut self, values: &[Expr], state: &State) -> Exit {
        let verdict = values.last();
        let (if_true, if_false) = verdict.map(|value| self.tests(value, state)).unwrap_or_default();
        let result = values.first().and_then(|value| self.derive(value, state));
        let truth = verdict.map_or(Some(false), truth);
        Exit { checked: state.checked.clone(), if_true, if_false, truth, result }
    }

    /// Follows a call of a function of the program.
    pub(super) fn called(&mut self, name: &str, args: &[(Box<str>, Expr)], state: &State) -> Option<Answers> {
        let id = (*self.program.by_name.get(name)?)?;
        let program = self.program;
        let function = program.functions.get(id)?;
        if self.stack.len() >= MAX_CALLS || self.stack.contains(&id) || !self.step() {
            return None;
        }
        let mut inner =
            State { env: FxHashMap::default(), checked: state.checked.clone(), given: state.given.clone() };
        for (position, param) in function.params.iter().enumerate() {
            let by_name = args.iter().find(|(name, _)| name == param);
            let by_position = args.get(position).filter(|(name, _)| name.is_empty());
            let piece = by_name.or(by_position).and_then(|(_, value)| self.derive(value, state));
            let known = match piece {
                Some((root, what)) => Known::Piece(root, what),
                None => Known::Nothing,
            };
            inner.env.insert(param.clone(), known);
        }
        self.stack.push(id);
        let (asked, answer) = (self.asked.take(), self.answer);
        let outer = std::mem::take(&mut self.exits);
        let leaves = self.leaves;
        if !self.block(&function.body, &mut inner) {
            let exit = self.exit(&[], &inner);
            self.exits.push(exit);
        }
        let exits = std::mem::replace(&mut self.exits, outer);
        (self.asked, self.answer, self.leaves) = (asked, answer, leaves);
        self.stack.pop();
        Some(answers(&exits))
    }

    /// Walks an expression for what it checks by itself, up to the call that is asked about.
    fn evaluate(&mut self, expression: &'p Expr, state: &mut State) {
        if !self.step() {
            return;
        }
        match expression {
            Expr::Call { function, args, at } => {
                if let Expr::Member(owner, _) = &**function {
                    self.evaluate(owner, state);
                } else {
                    self.evaluate(function, state);
                }
                args.iter().for_each(|(_, arg)| self.evaluate(arg, state));
                if self.asked.is_some_and(|asked| asked.at == *at) {
                    self.found(args, state);
                    return;
                }
                if self.is_own(function)
                    && let Some(answers) = self.called(last(function), args, state)
                {
                    add(&mut state.checked, &answers.always);
                }
            }
            Expr::Function(id) => {
                let program = self.program;
                if program.functions.get(*id).is_some_and(|function| self.is_inside(function.at)) {
                    self.enter(*id, state);
                }
            }
            Expr::Named(name, value) => {
                self.evaluate(value, state);
                self.bind(std::slice::from_ref(name), value, state, (0, 0));
            }
            // The first is evaluated in any case, the others only if those before it decide nothing.
            Expr::And(all) | Expr::Or(all) => {
                let before = state.checked.clone();
                for one in all {
                    self.evaluate(one, state);
                    let (if_true, if_false) = self.tests(one, state);
                    add(
                        &mut state.checked,
                        if matches!(expression, Expr::And(_)) { &if_true } else { &if_false },
                    );
                }
                state.checked = before;
            }
            Expr::Choice(test, yes, no) => {
                self.evaluate(test, state);
                let (if_true, if_false) = self.tests(test, state);
                let before = state.checked.clone();
                add(&mut state.checked, &if_true);
                self.evaluate(yes, state);
                state.checked.clone_from(&before);
                add(&mut state.checked, &if_false);
                self.evaluate(no, state);
                state.checked = before;
            }
            Expr::Each { targets, over, item } => {
                self.evaluate(over, state);
                for target in targets {
                    let known = self.derive(over, state);
                    let known = known.map_or(Known::Nothing, |(root, what)| match what {
                        What::Host => Known::Piece(root, What::Host),
                        _ => Known::Piece(format!("{root}[]").into(), What::Whole),
                    });
                    state.env.insert(target.clone(), known);
                }
                self.evaluate(item, state);
            }
            Expr::Not(inner) | Expr::Member(inner, _) => self.evaluate(inner, state),
            Expr::Index(left, right) | Expr::In(left, right) | Expr::Equal(left, right) => {
                self.evaluate(left, state);
                self.evaluate(right, state);
            }
            Expr::List(all) | Expr::Other(all) => all.iter().for_each(|one| self.evaluate(one, state)),
            Expr::Name(_) | Expr::Text(_) | Expr::Nothing | Expr::True | Expr::Number(_) => {}
        }
    }

    /// The call that is asked about: answers by the addresses in its arguments.
    fn found(&mut self, args: &[(Box<str>, Expr)], state: &State) {
        let position = self.asked.and_then(|asked| asked.position);
        let mut roots = Vec::new();
        for (at, (name, arg)) in args.iter().enumerate() {
            let is_address = match position {
                None => true,
                Some(position) => {
                    name.is_empty() && at == position
                        || matches!(&**name, "url" | "base_url" | "uri" | "host" | "hostname")
                }
            };
            if is_address {
                self.roots(arg, state, &mut roots);
            }
        }
        self.answer |= roots.iter().any(|root| state.checked.contains(root));
    }

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
            Expr::Index(owner, key) => match self.derive(key, state) {
                Some((_, What::Host)) => self.within(key, owner, state),
                _ => Default::default(),
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
        match self.derive(owner, state) {
            Some((root, What::Host)) if is_private => (Vec::new(), vec![root]),
            Some((root, What::Host)) => (vec![root], Vec::new()),
            _ => Default::default(),
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
            let Some((root, What::Host)) = self.derive(one, state) else { continue };
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
        let Some((root, What::Host)) = self.derive(item, state) else { return Default::default() };
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
    fn text(&mut self, expression: &Expr, depth: usize) -> Option<Box<str>> {
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
        let Some((root, what)) = self.derive(subject, state) else { return Default::default() };
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
        let subject = all.iter().enumerate().rev().find_map(|(at, one)| match self.derive(one, state) {
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

/// Sums the ends of a function.
fn answers(exits: &[Exit]) -> Answers {
    let common = |sets: Vec<Vec<Root>>| sets.into_iter().reduce(|a, b| both(&a, &b)).unwrap_or_default();
    let with = |exit: &Exit, more: &[Root]| {
        let mut all = exit.checked.clone();
        add(&mut all, more);
        all
    };
    let yes = exits.iter().filter(|exit| exit.truth != Some(false));
    let no = exits.iter().filter(|exit| exit.truth != Some(true));
    let mut results = exits.iter().filter(|exit| exit.truth != Some(false)).map(|exit| exit.result.clone());
    let first = results.next().flatten();
    let result = first.and_then(|(root, what)| {
        let mut what = what;
        for other in results {
            let (other, kind) = other?;
            if other != root {
                return None;
            }
            if kind != what {
                what = What::Made;
            }
        }
        Some((root, what))
    });
    Answers {
        result,
        always: common(exits.iter().map(|exit| exit.checked.clone()).collect()),
        yes: common(yes.map(|exit| with(exit, &exit.if_true)).collect()),
        no: common(no.map(|exit| with(exit, &exit.if_false)).collect()),
    }
}

/// An expression without what only waits for it.
fn unwrapped(expression: &Expr) -> &Expr {
    match expression {
        Expr::Named(_, value) => unwrapped(value),
        other => other,
    }
}

/// Truth of a value, if certain. An error that is made is one.
fn truth(expression: &Expr) -> Option<bool> {
    match expression {
        Expr::Nothing => Some(false),
        Expr::True => Some(true),
        Expr::Number(number) => Some(*number != 0),
        Expr::Text(text) => Some(!text.is_empty()),
        Expr::List(all) if !all.is_empty() => Some(true),
        Expr::Call { function, .. } if matches!(last(function), "Errorf" | "New" | "Error") => Some(true),
        Expr::Name(name) if &**name == "err" || name.starts_with("Err") => Some(true),
        _ => None,
    }
}

/// True for functions that never return.
fn ends(function: &Expr) -> bool {
    matches!(last(function), "exit" | "abort" | "_exit" | "quit" | "Exit" | "Fatal" | "Fatalf" | "panic")
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
