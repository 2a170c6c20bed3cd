//! Walk over a program to the request of an address: which addresses have a checked host when it is reached.

use super::condition::tests_something;
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
    pub(super) given: Vec<Root>,
}

/// Knowledge about one call of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Piece of an address that it returns.
    pub(super) result: Option<(Root, What)>,
    /// Addresses that are checked if it returns at all, if its answer is true, and if it is false.
    always: Vec<Root>,
    pub(super) yes: Vec<Root>,
    pub(super) no: Vec<Root>,
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
    /// A host that is connected to, with or without a port.
    Peer,
    /// An address outside of the program's own pages.
    Redirect,
    /// A path that is given as a whole, outside of the folder that it is meant for.
    Path,
    /// A path that is given below a folder, and leads out of it.
    Below,
    /// An option where a program expects an operand.
    Option,
}

impl Danger {
    /// True for dangers of paths.
    pub(crate) fn is_path(self) -> bool {
        matches!(self, Danger::Path | Danger::Below)
    }
}

/// A walk.
pub(super) struct Checks<'p> {
    pub(super) program: &'p Program,
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

pub(super) fn add(to: &mut Vec<Root>, all: &[Root]) {
    for one in all {
        if !to.contains(one) {
            to.push(one.clone());
        }
    }
}

pub(super) fn both(left: &[Root], right: &[Root]) -> Vec<Root> {
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
    pub(super) fn bind(&mut self, names: &[Box<str>], value: &Expr, state: &mut State, at: At) {
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
        // A part of what is given was checked: `f.Name` before `extract(f)`.
        let is_part = |root: &Root, checked: &Root| {
            self.danger.is_path() && checked.strip_prefix(&**root).is_some_and(|rest| rest.starts_with('.'))
        };
        self.answer |= roots
            .iter()
            .any(|root| state.checked.iter().any(|checked| checked == root || is_part(root, checked)));
    }
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
