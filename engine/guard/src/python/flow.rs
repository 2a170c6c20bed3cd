//! Values on their way from the caller of a tool or a route: where they come in, and where they are checked.

use super::call::Named;
use super::entry::{self, Entry};
use super::guards::{self, Checked, Validator};
use super::saved::Saved;
use super::{Pending, Python, span};
use crate::artifact::ANY;
use crate::hosts::{Asked, Danger};
use crate::passes::PASSED;
use crate::report::{Argument, StepKind};
use crate::value::{Const, Origin, Value};
use ruff_python_ast::{CmpOp, Decorator, Expr, Stmt};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Number of parameters that a registered function of another file is given.
const MAX_REGISTERED: u32 = 4;
/// Origins that a check removes: the value is one of those that the program allows.
pub(super) const GIVEN: Origin = Origin(Origin::CALLER.0 | Origin::REQUEST.0);
/// Origins whose way is kept.
const TRACKED: Origin = Origin(
    Origin::CALLER.0
        | Origin::REQUEST.0
        | Origin::NET.0
        | Origin::SECRET.0
        | Origin::ENV.0
        | Origin::INPUT.0
        | Origin::HOST.0
        | Origin::KEYS.0
        | Origin::OUTPUT.0
        | Origin::DECODED.0
        | Origin::MODEL.0,
);

/// State of the flow analysis that is kept from the first walk to the second.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) entries: FxHashMap<Rc<str>, Entry>,
    /// Parameters of views that every route of theirs closes: `<int:page>`.
    converted: FxHashMap<Rc<str>, Vec<String>>,
    validators: FxHashMap<Rc<str>, Validator>,
    /// Names and descriptions that decorators give; `None` when one is not known.
    said: FxHashMap<Rc<str>, Option<String>>,
    /// Block that is being walked, and the number of blocks so far.
    pub(super) branch: u32,
    branches: u32,
    /// True in a tool that does not say that it sends anything.
    pub(super) silent: bool,
    /// True for a file that answers messages of a protocol for tools by itself.
    pub(super) serves: bool,
    /// True for a file that is a server of tools.
    pub(super) serves_models: bool,
    /// True for a file that closes the engines of its queries to files and the network.
    pub(super) closes_engine: bool,
    /// Files that were written.
    pub(super) saved: Vec<Saved>,
    /// Values from callers that were put into containers of the module.
    pub(super) held: FxHashMap<Rc<str>, Value>,
}

impl Flow {
    /// Knowledge for the second walk. A file that is written later in the text may be started earlier, by a
    /// function.
    pub(super) fn kept(self) -> Self {
        Flow { branch: 0, branches: 0, silent: false, ..self }
    }
}

impl<'a> Python<'_, '_, 'a> {
    /// Walks a block that may not be executed.
    pub(super) fn branch(&mut self, body: &'a [Stmt]) {
        self.flow.branches += 1;
        let outer = std::mem::replace(&mut self.flow.branch, self.flow.branches);
        self.block(body);
        self.flow.branch = outer;
    }

    /// Number of the block that is being walked.
    pub(super) fn branch_number(&self) -> u32 {
        self.flow.branch
    }

    /// Begins a function's body: a block of its own.
    pub(super) fn begin_body(&mut self) -> u32 {
        self.flow.branches += 1;
        std::mem::replace(&mut self.flow.branch, self.flow.branches)
    }

    pub(super) fn end_body(&mut self, outer: u32) {
        self.flow.branch = outer;
    }

    /// Records that a function is an entry point, if one of its decorators or its class says so.
    pub(super) fn enter_by(
        &mut self,
        name: &Rc<str>,
        decorators: &'a [Decorator],
        class: Option<&str>,
        own: &str,
    ) {
        let by_decorator = decorators.iter().find_map(|decorator| {
            let callee = match &decorator.expression {
                Expr::Call(call) => &*call.func,
                other => other,
            };
            let callee = match callee {
                Expr::Named(named) => &*named.value,
                other => other,
            };
            match callee {
                Expr::Name(last) => entry::by_decorator("", &[], last.id.as_str()),
                // `@getattr(mcp, 'tool')()`.
                Expr::Call(call) => {
                    let [Expr::Name(owner), key] = &call.arguments.args[..] else { return None };
                    let key = self.quietly(key);
                    let names = self.lookup(owner.id.as_str()).names;
                    entry::by_decorator(owner.id.as_str(), &names, key.as_whole_text()?)
                }
                Expr::Attribute(attribute) => {
                    let owner = match &*attribute.value {
                        Expr::Name(owner) => owner.id.as_str(),
                        Expr::Attribute(inner) => inner.attr.as_str(),
                        _ => "",
                    };
                    let names = self.lookup(owner).names;
                    entry::by_decorator(owner, &names, attribute.attr.as_str())
                }
                _ => None,
            }
        });
        let kind = by_decorator.or_else(|| {
            let bases = &self.attributes.get(class?)?.names;
            entry::by_base(bases, own)
        });
        if let Some(kind) = kind {
            let said = self.said_by(decorators);
            self.flow.said.insert(name.clone(), said);
            self.flow.entries.insert(name.clone(), kind);
        }
    }

    /// Names and descriptions in the arguments of decorators, if they are known.
    fn said_by(&mut self, decorators: &'a [Decorator]) -> Option<String> {
        let mut all = String::new();
        for decorator in decorators {
            let Expr::Call(call) = &decorator.expression else { continue };
            let named = call.arguments.keywords.iter().filter(|keyword| {
                keyword
                    .arg
                    .as_ref()
                    .is_some_and(|arg| matches!(arg.as_str(), "name" | "title" | "description"))
            });
            for keyword in named {
                let value = self.quietly(&keyword.value);
                all.push_str(value.as_text()?);
                all.push_str(". ");
            }
            for argument in call.arguments.args.iter().take(2) {
                let value = self.quietly(argument);
                all.push_str(value.as_text().unwrap_or_default());
                all.push_str(". ");
            }
        }
        Some(all)
    }

    /// Records the functions that a call registers as entry points; they are walked as such the next time.
    pub(super) fn registered(&mut self, last: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) {
        let Some(kind) = entry::by_call(last) else { return };
        for value in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
            // A function of another file: any of its parameters comes from the caller.
            let imported = value
                .names
                .iter()
                .filter(|name| self.emit && name.contains('.') && !name.starts_with(['@', '?']));
            for name in imported.cloned().collect::<Vec<_>>() {
                let given = Value::default().with_origin(Origin::CALLER);
                let given = given.stepped(StepKind::Source, "caller", at);
                for position in 0..MAX_REGISTERED {
                    self.cx.pass(&name, Argument::Position(position), &given, false, at);
                }
            }
            for own in value.names.iter().filter_map(|name| name.strip_prefix('@')) {
                if self.functions.contains_key(own) {
                    let closed = args.first().and_then(Value::as_whole_text).map(entry::converted);
                    let closed = closed.unwrap_or_default();
                    let is_new = !self.flow.entries.contains_key(own);
                    let known = self
                        .flow
                        .converted
                        .entry(own.into())
                        .or_insert_with(|| if is_new { closed.clone() } else { Vec::new() });
                    known.retain(|name| closed.contains(name));
                    self.flow.entries.insert(own.into(), kind);
                }
            }
        }
    }

    /// True for a parameter of a view that no route of its own leaves open.
    pub(super) fn is_converted(&self, function: &str, name: &str) -> bool {
        self.flow.converted.get(function).is_some_and(|names| names.iter().any(|own| own == name))
    }

    /// Records the functions that a tool's decorator is called with: `mcp.tool()(service.run)`.
    pub(super) fn registered_by(&mut self, maker: &Expr, args: &[Value]) {
        let Expr::Call(call) = maker else { return };
        let last = match &*call.func {
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            Expr::Name(name) => name.id.as_str(),
            _ => return,
        };
        if entry::is_tool_maker(last) {
            self.registered("add_tool", args, &[], super::span(call.range()));
        }
    }

    /// How a function checks its parameters.
    pub(super) fn keep_validator(&mut self, pending: &Pending<'a>) {
        let params: Vec<&str> =
            pending.params.iter_non_variadic_params().map(|p| p.parameter.name.as_str()).collect();
        let mut found = guards::validator(&params, pending.body);
        // The instance is not among the arguments.
        if pending.class.is_some() {
            for all in [&mut found.returns, &mut found.answers] {
                *all = all.iter().filter_map(|at| at.checked_sub(1)).collect();
            }
        }
        if found != Validator::default() {
            let last = pending.name.rsplit('.').next().unwrap_or(&pending.name);
            self.flow.validators.insert(last.into(), found);
        }
    }

    /// Names that a test vouches for.
    pub(super) fn checked(&mut self, test: &'a Expr) -> Checked<'a> {
        // An allow-list that the caller gives allows everything.
        let mut lists = Vec::new();
        allow_lists(test, &mut lists);
        if lists.into_iter().any(|list| self.quietly(list).origin.has(GIVEN)) {
            return Checked::default();
        }
        let answers =
            |name: &str| self.flow.validators.get(name).map(|v| v.answers.clone()).unwrap_or_default();
        guards::checked(test, &answers)
    }

    /// Walks `body` while these names count as checked; a body that always diverts or a following block may
    /// rely on them for longer.
    pub(super) fn with_checked(&mut self, names: &[&str], body: impl FnOnce(&mut Self)) {
        let before: Vec<(&str, Value)> = names
            .iter()
            .filter_map(|name| Some((*name, self.slot(name)?.clone())))
            .filter(|(_, value)| value.origin.has(GIVEN))
            .collect();
        self.trust(names);
        body(self);
        for (name, value) in before {
            if let Some(slot) = self.slot(name) {
                *slot = std::mem::take(slot).or(&value);
            }
        }
    }

    /// Counts the values of these names as checked from here on.
    pub(super) fn trust(&mut self, names: &[&str]) {
        for name in names {
            if let Some(slot) = self.slot(name)
                && slot.origin.has(GIVEN)
            {
                *slot = std::mem::take(slot).without(GIVEN);
            }
        }
    }

    pub(super) fn slot(&mut self, name: &str) -> Option<&mut Value> {
        self.scopes.iter_mut().rev().find_map(|scope| scope.vars.get_mut(name))
    }

    /// Counts arguments as checked after a statement that calls a function which raises for others.
    pub(super) fn after_statement(&mut self, expression: &'a Expr) {
        let inner = match expression {
            Expr::Await(inner) => &*inner.value,
            other => other,
        };
        let Expr::Call(call) = inner else { return };
        let last = match &*call.func {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            _ => return,
        };
        let Some(validator) = self.flow.validators.get(last) else { return };
        let names: Vec<&str> = validator
            .returns
            .iter()
            .filter_map(|at| call.arguments.args.get(*at).and_then(guards::root))
            .collect();
        // `path.relative_to(base)` raises for paths outside.
        self.trust(&names);
    }

    /// A parameter of an entry point.
    pub(super) fn given(
        &self,
        value: Value,
        function: &Rc<str>,
        (position, name): (usize, &str),
        at: (usize, usize),
    ) -> Value {
        let (source, origin) = if self.flow.entries.contains_key(function) {
            (name.to_owned(), Origin::CALLER)
        } else {
            (format!("{function}({name})"), self.cx.called_with(function, position, name))
        };
        if origin == Origin::default() {
            return value;
        }
        let value = Value { trail: None, ..value };
        value.with_origin(origin).stepped(StepKind::Source, &source, at)
    }

    /// Records what a call passes on to a function that may be another file's. A name of which a part is not known means
    /// any function of a file only if it is the caller's.
    pub(super) fn passes_to_files(
        &mut self,
        names: &[Rc<str>],
        is_given_name: bool,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) {
        let is_given = |value: &Value| value.origin.has(PASSED);
        let silent = self.flow.silent;
        if !args.iter().chain(kwargs.iter().map(|(_, value)| value)).any(is_given) {
            return;
        }
        let is_meant = |name: &&Rc<str>| name.contains('.') && (is_given_name || !name.ends_with(ANY));
        for name in names.iter().filter(is_meant) {
            for (at_argument, value) in args.iter().enumerate().filter(|(_, value)| is_given(value)) {
                let position = Argument::Position(u32::try_from(at_argument).unwrap_or(u32::MAX));
                self.cx.pass(name, position, value, silent, at);
            }
            for (key, value) in kwargs.iter().filter(|(_, value)| is_given(value)) {
                self.cx.pass(name, Argument::Name(key.to_string()), value, silent, at);
            }
        }
    }

    /// Reports a request of an address whose host the caller of a tool or a route chooses, unless it is checked.
    pub(super) fn requests_given(
        &mut self,
        names: &[Rc<str>],
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) {
        let Some(position) = names.iter().find_map(|name| crate::rules::address_at(name)) else { return };
        if !self.emit {
            return;
        }
        let named = kwargs.iter().filter(|(key, _)| matches!(&**key, "url" | "base_url"));
        let all = args.get(position).into_iter().chain(named.map(|(_, value)| value));
        let mut given = all.filter(|value| value.origin.has(GIVEN) && value.names.is_empty());
        if let Some(address) = given.find(|value| crate::rules::is_open_address(value)).cloned()
            && !self.is_host_checked(&address, position, at)
        {
            self.fact_with("flow.address", &[address], at);
        }
    }

    /// Reports a value from a caller that a program may take for an option: `git clone URL`, without `--` before it.
    pub(super) fn options_given(&mut self, names: &[Rc<str>], args: &[Value], at: (usize, usize)) {
        let starts = |name: &Rc<str>| {
            matches!(
                &**name,
                "subprocess.run"
                    | "subprocess.call"
                    | "subprocess.check_call"
                    | "subprocess.check_output"
                    | "subprocess.Popen"
                    | "asyncio.create_subprocess_exec"
            )
        };
        let Some(name) = names.iter().find(|name| starts(name)).filter(|_| self.emit) else { return };
        let words = match args.first() {
            Some(list) if !name.starts_with("asyncio") => match list.as_text() {
                Some(line) => line.split_whitespace().map(Value::text).collect(),
                None => list.elements().unwrap_or_default(),
            },
            _ => args.to_vec(),
        };
        if let Some(address) = crate::rules::pushed_to(&words).cloned() {
            self.pushed(address, at);
        }
        let Some(given) = crate::rules::given_as_option(&words, GIVEN).cloned() else { return };
        let position = (!name.starts_with("asyncio")).then_some(0);
        if !self.is_ruled_out(&given, Asked { at, position, danger: Danger::Option }) {
            self.fact_with("flow.option", &[given], at);
        }
    }

    /// Reports a command that a caller has a part in and that a library runs on another machine or in a container, and a repository
    /// that a library pushes.
    pub(super) fn runs_elsewhere(
        &mut self,
        names: &[Rc<str>],
        unknown_method: Option<&str>,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) {
        let is_given = |value: &Value| value.origin.has(GIVEN);
        let has_given = args.iter().chain(kwargs.iter().map(|(_, value)| value)).any(is_given);
        if !self.emit || !has_given && !self.flow.silent {
            return;
        }
        let method = unknown_method.map(|method| Rc::from(format!("?.{method}")));
        let pushed = |name: &Rc<str>| crate::rules::pushed_by(name, args, kwargs);
        if let Some(address) = names.iter().chain(&method).find_map(pushed) {
            self.pushed(address, at);
        }
        let of_name = |name: &Rc<str>| crate::rules::remote_of_python(name, args, kwargs);
        if let Some(command) = names.iter().chain(&method).find_map(of_name) {
            self.fact_with("remote.command", std::slice::from_ref(&command), at);
        }
    }

    /// Reports an address that a repository is pushed to, if a caller gives it or a tool does not say that it sends anything.
    fn pushed(&mut self, address: Value, at: (usize, usize)) {
        let asked = Asked { at, position: None, danger: Danger::Host };
        let is_told = if address.origin.has(GIVEN) {
            !self.is_ruled_out(&address, asked)
        } else {
            self.flow.silent && address.as_whole_text().is_some()
        };
        if is_told {
            self.fact_with("repository.pushed", &[address], at);
        }
    }

    /// Reports the kinds of harm that the plain form of the module shows.
    pub(super) fn shows(&mut self, body: &'a [Stmt]) {
        if !crate::kinds::may_show(self.source) {
            return;
        }
        let plain = self.plain.get_or_insert_with(|| super::plain::program(body));
        for (fact, at) in crate::kinds::shown(self.source, plain) {
            self.fact(fact, at);
        }
    }

    /// True if the host of an address was checked where it is requested, or where a function on its way was called.
    fn is_host_checked(&mut self, address: &Value, position: usize, at: (usize, usize)) -> bool {
        self.is_ruled_out(address, Asked { at, position: Some(position), danger: Danger::Host })
    }

    /// True if a check rules out a danger where a value is used, or where a function on its way was called.
    fn is_ruled_out(&mut self, value: &Value, asked: Asked) -> bool {
        let statements = self.statements;
        let plain = self.plain.get_or_insert_with(|| super::plain::program(statements));
        let mut ways = value.passed().into_iter();
        plain.is_checked(asked) || ways.any(|at| plain.is_checked(Asked { at, position: None, ..asked }))
    }

    /// True in a tool that does not say that it sends anything, by its name and its description.
    pub(super) fn is_silent(&self, pending: &Pending<'a>) -> bool {
        if self.cx.is_called_silently(&pending.name) {
            return true;
        }
        if self.flow.entries.get(&pending.name) != Some(&Entry::Tool) {
            return false;
        }
        let said = match pending.body.first() {
            Some(Stmt::Expr(first)) => match &*first.value {
                Expr::StringLiteral(doc) => doc.value.to_str().to_owned(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        let by_decorators = match self.flow.said.get(&pending.name) {
            Some(None) => return false,
            Some(Some(said)) => said.as_str(),
            None => "",
        };
        !crate::instructions::says_that_it_sends(&format!("{}\n{by_decorators}\n{said}", pending.name))
    }

    /// Reports the description of a tool, which models read as instructions.
    pub(super) fn described(&mut self, pending: &Pending<'a>) {
        if self.flow.entries.contains_key(&pending.name)
            && let Some(Stmt::Expr(first)) = pending.body.first()
            && let Expr::StringLiteral(doc) = &*first.value
        {
            let text = Value::text(doc.value.to_str());
            self.fact_with("model.text", &[text], span(doc.range()));
        }
    }

    /// Begins the way of a value with an origin that rules ask about.
    pub(super) fn sourced(value: Value, name: &str, at: (usize, usize)) -> Value {
        if value.trail.is_some() || !value.origin.has(TRACKED) {
            return value;
        }
        value.stepped(StepKind::Source, name, at)
    }

    /// Records that a tracked value is bound to a name.
    pub(super) fn bound_at(value: Value, kind: StepKind, name: &str, at: (usize, usize)) -> Value {
        if value.trail.is_none() || !value.origin.has(TRACKED) {
            return value;
        }
        if value.trail.as_ref().is_some_and(|step| step.kind == kind && step.at == at) {
            return value;
        }
        value.stepped(kind, name, at)
    }

    /// A value that is picked from a fixed table by a key.
    pub(super) fn picked(owner: &Value) -> bool {
        matches!(owner.known, Some(Const::Map(_) | Const::List(_))) && !owner.origin.has(GIVEN)
    }
}

/// Lists that a test compares with.
fn allow_lists<'a>(test: &'a Expr, out: &mut Vec<&'a Expr>) {
    match test {
        Expr::UnaryOp(unary) => allow_lists(&unary.operand, out),
        Expr::BoolOp(both) => both.values.iter().for_each(|value| allow_lists(value, out)),
        Expr::Compare(compare) => {
            let is_list = compare.ops.iter().any(|op| matches!(op, CmpOp::In | CmpOp::NotIn));
            // The folders above a path are not a list that someone gave.
            let of_path = |e: &&Expr| matches!(e, Expr::Attribute(a) if a.attr.as_str() == "parents");
            out.extend(compare.comparators.iter().filter(|e| is_list && !of_path(e)));
        }
        _ => {}
    }
}

/// True for functions whose results no caller can fill with text of its own.
pub(super) fn cleans(name: &str) -> bool {
    matches!(
        name,
        "shlex.quote"
            | "pipes.quote"
            | "shlex.join"
            | "re.escape"
            | "uuid.UUID"
            | "werkzeug.utils.secure_filename"
            | "ipaddress.ip_address"
            | "ipaddress.ip_network"
            | "ipaddress.IPv4Address"
            | "decimal.Decimal"
            | "datetime.datetime.strptime"
            | "datetime.date.fromisoformat"
            | "datetime.datetime.fromisoformat"
            | "hashlib.sha256"
            | "hashlib.sha1"
            | "hashlib.md5"
            | "os.path.basename"
            // The content of a file is not its path.
            | "open"
            | "pathlib.Path().open"
            | "pathlib.Path().read_text"
            | "pathlib.Path().read_bytes"
            | "sum"
            | "any"
            | "all"
            | "hash"
            // A row is not the key that it is found by.
            | "django.shortcuts.get_object_or_404"
            | "django.shortcuts.get_list_or_404"
    ) || name.ends_with(".objects.get")
}
