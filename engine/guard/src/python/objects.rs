//! Objects as holders of values: containers that are filled, descriptors, fields of data classes, context managers.

use super::Python;
use super::call::Named;
use super::flow::GIVEN;
use crate::value::{Const, Names, Origin, Value};
use ruff_python_ast::{Expr, Stmt};
use std::rc::Rc;

/// Origins that a container has of what is put into it.
const CARRIED: Origin =
    Origin(GIVEN.0 | Origin::NET.0 | Origin::SECRET.0 | Origin::ENV.0 | Origin::KEYS.0 | Origin::MAIL.0);
/// Beginnings of names of objects that hold in memory what is written to them: files in memory, messages, forms.
const HOLDERS: &[&str] = &["io.", "email.", "aiohttp.FormData", "aiohttp.MultipartWriter", "array.array"];

/// True for methods that fill the objects of [`HOLDERS`].
fn is_filled(method: &str) -> bool {
    matches!(
        method,
        "write"
            | "writelines"
            | "set_content"
            | "set_payload"
            | "attach"
            | "add_attachment"
            | "add_field"
            | "add_header"
    )
}

/// Objects that hand out again, by another method, what was put into them.
const HOLDERS_OF_ONE: &[&str] = &[
    "contextvars.ContextVar()",
    "queue.",
    "asyncio.Queue()",
    "multiprocessing.Queue()",
    "collections.deque()",
    "asyncio.Future()",
    "concurrent.futures.Future()",
];
/// Mark of the class of an instance that such an object holds.
pub(super) const HELD: &str = "held:";

/// True for objects of the library that a program gives fields of its own.
pub(super) fn is_namespace(name: &str) -> bool {
    matches!(
        name,
        "threading.local()" | "types.SimpleNamespace()" | "argparse.Namespace()" | "flask.g" | "builtins"
    )
}

/// True for the methods of subclasses of the log's classes that get a record, by the names of the bases.
pub(super) fn gets_record(bases: &[Rc<str>], method: &str) -> bool {
    matches!(method, "filter" | "format" | "emit" | "formatMessage" | "handle")
        && bases.iter().any(|base| {
            base.strip_prefix("logging.").is_some_and(|class| {
                class.ends_with("Filter") || class.ends_with("Formatter") || class.ends_with("Handler")
            })
        })
}

/// Object that pytest gives to a hook, by the names of the hook and of its parameter.
pub(super) fn of_hook(hook: &str, param: &str) -> Option<&'static str> {
    match param {
        _ if !hook.starts_with("pytest_") => None,
        "session" => Some("pytest.Session()"),
        "report" => Some("pytest.TestReport()"),
        _ => None,
    }
}

/// True for an instance of a class of the file.
fn is_instance(value: &Value) -> bool {
    value.names.iter().any(|name| name.starts_with('@') && name.ends_with("()"))
}

impl<'a> Python<'_, '_, 'a> {
    /// Adds to a container the origins of what is put into it: `jobs.put(x)`, `self.all.append(x)`.
    pub(super) fn put_into(&mut self, container: &'a Expr, method: &str, args: &[Value]) {
        let puts = matches!(
            method,
            "append"
                | "appendleft"
                | "add"
                | "put"
                | "put_nowait"
                | "insert"
                | "extend"
                | "push"
                | "update"
                | "setdefault"
                | "set"
                | "set_result"
        ) || is_filled(method);
        if method == "append"
            && let [text] = args
        {
            self.append_text(container, text);
            self.append_map(container, text);
        }
        if !puts || !args.iter().any(|value| value.origin.has(CARRIED) || is_instance(value)) {
            return;
        }
        let names = self.quietly(container).names;
        let holds_one = names.iter().any(|name| HOLDERS_OF_ONE.iter().any(|holder| name.starts_with(holder)));
        let instances = args.iter().filter(|_| holds_one).flat_map(|value| value.names.iter());
        let instances: Names = instances
            .filter(|name| name.starts_with('@') && name.ends_with("()"))
            .map(|name| Rc::from(format!("{HELD}{name}")))
            .collect();
        let nothing = Value::default();
        let given = args.iter().find(|value| value.origin.has(CARRIED));
        if given.is_none() && instances.is_empty() || !holds_one && matches!(method, "set" | "set_result") {
            return;
        }
        let given = given.unwrap_or(&nothing);
        // A digest tells nothing of what it is made of, and a file on a disk is not what is written to it.
        let is_digest = |name: &Rc<str>| name.starts_with("hashlib.") || name.starts_with("hmac.");
        let in_memory = |name: &Rc<str>| HOLDERS.iter().any(|holder| name.starts_with(holder));
        if method == "update" && names.iter().any(is_digest)
            || is_filled(method) && !names.iter().any(in_memory)
        {
            return;
        }
        let carried = Value {
            origin: Origin(given.origin.0 & CARRIED.0),
            trail: given.trail.clone(),
            names: instances,
            ..Value::default()
        };
        match container {
            Expr::Name(name) => {
                let name = name.id.as_str();
                let at = self.scopes.iter().rposition(|scope| scope.vars.contains_key(name));
                let Some(at) = at else { return };
                if at == 0 {
                    let key = self.interned(name);
                    self.flow.held.insert(key, carried.clone());
                }
                if let Some(slot) = self.scopes[at].vars.get_mut(name) {
                    *slot = std::mem::take(slot).or(&carried);
                }
            }
            Expr::Attribute(attribute) => {
                let owner = self.quietly(&attribute.value);
                for own in owner.names.iter().filter_map(|own| own.strip_prefix('@')) {
                    let key: Rc<str> = format!("{}.{}", own.trim_end_matches("()"), attribute.attr).into();
                    if let Some(slot) = self.attributes.get_mut(&key) {
                        *slot = std::mem::take(slot).or(&carried);
                    }
                }
            }
            _ => {}
        }
    }

    /// Reports where a mail goes, and who a session belongs to: `mail['To'] = x`, `session['user'] = x`.
    pub(super) fn filled(
        &mut self,
        container: &Expr,
        owner: &Value,
        key: &Value,
        value: &Value,
        at: (usize, usize),
    ) {
        let is_session = matches!(container, Expr::Attribute(inner) if inner.attr.as_str() == "session");
        let is_of = |test: fn(&str) -> bool| owner.names.iter().any(|name| test(name));
        match key.as_whole_text() {
            Some("To" | "Cc" | "Bcc" | "to" | "cc" | "bcc") if is_of(|name| name.starts_with("email.")) => {
                self.fact_with("mail.to", std::slice::from_ref(value), at);
            }
            Some(_) if is_session || is_of(|name| name == "flask.session") => {
                self.fact_with("session.set", &[key.clone(), value.clone()], at);
            }
            _ => {}
        }
    }

    /// Appends a constant text to a list of texts that a name stands for: the program comes first.
    fn append_text(&mut self, container: &'a Expr, text: &Value) {
        let Expr::Name(name) = container else { return };
        if text.as_whole_text().is_none() {
            return;
        }
        if let Some(slot) = self.slot(name.id.as_str())
            && let Some(Const::List(items)) = &slot.known
            && items.len() < 16
            && items.iter().all(|item| item.as_whole_text().is_some())
        {
            let mut items = items.to_vec();
            items.push(text.clone());
            slot.known = Some(Const::List(items.into()));
        }
    }

    /// Appends a map to a list of maps that a name stands for, of which nothing may be known yet.
    fn append_map(&mut self, container: &'a Expr, map: &Value) {
        let Expr::Name(name) = container else { return };
        if !matches!(map.known, Some(Const::Map(_))) {
            return;
        }
        let Some(slot) =
            self.slot(name.id.as_str()).filter(|slot| slot.names.iter().all(|name| &**name == "?list"))
        else {
            return;
        };
        let mut items = match &slot.known {
            Some(Const::List(items)) if items.len() < 16 => items.to_vec(),
            None => Vec::new(),
            _ => return,
        };
        if items.iter().all(|item| matches!(item.known, Some(Const::Map(_)) | None)) {
            items.push(map.clone());
            slot.known = Some(Const::List(items.into()));
        }
    }

    /// Value of an attribute, and for a descriptor of the file also what its `__get__` returns.
    pub(super) fn described_by(&mut self, held: Value, owner: &Value, at: (usize, usize)) -> Value {
        if !is_instance(&held) {
            return held;
        }
        let got = self.special(&held, "__get__", std::slice::from_ref(owner), at);
        got.map_or_else(|| held.clone(), |value| value.or(&held))
    }

    /// Value that `with` binds: what `__enter__` of a class of the file returns.
    pub(super) fn entered(&mut self, manager: Value, at: (usize, usize)) -> Value {
        if !is_instance(&manager) {
            return manager;
        }
        let entered =
            ["__enter__", "__aenter__"].into_iter().find_map(|m| self.special(&manager, m, &[], at));
        entered.map_or_else(|| manager.clone(), |value| value.or(&manager))
    }

    /// Annotated fields of a class and their default values: parameters of a data class, in this order.
    pub(super) fn fields(&mut self, class: &Rc<str>, body: &'a [Stmt]) {
        let mut names: Vec<Rc<str>> = Vec::new();
        for statement in body {
            let Stmt::AnnAssign(assign) = statement else { continue };
            let Expr::Name(target) = &*assign.target else { continue };
            let name = self.interned(target.id.as_str());
            if let Some(default) = &assign.value {
                let value = self.quietly(default);
                self.keep_field(class, &name, value);
            }
            names.push(name);
        }
        if !names.is_empty() {
            self.signatures.insert(class.clone(), names);
        }
    }

    /// Adds a value to those of a field.
    pub(super) fn keep_field(&mut self, class: &str, name: &str, value: Value) {
        let key: Rc<str> = format!("{class}.{name}").into();
        let older = self.attributes.get(&key).cloned().unwrap_or_default();
        self.attributes.insert(key, value.or(&older));
    }

    /// Arguments of a class without a constructor of its own: its fields, as in a data class.
    pub(super) fn constructed_by(&mut self, class: &str, args: &[Value], kwargs: &[Named]) {
        let Some(names) = self.signatures.get(class).cloned() else { return };
        for (name, value) in names.iter().zip(args) {
            self.keep_field(class, name, value.clone());
        }
        for (name, value) in kwargs.iter().filter(|(name, _)| names.contains(name)) {
            self.keep_field(class, name, value.clone());
        }
    }

    /// Default value of a field: `field(default=x)`, `field(default_factory=f)`.
    pub(super) fn default_of(&mut self, args: &[Value], kwargs: &[Named], at: (usize, usize)) -> Value {
        let keyword = |names: &[&str]| kwargs.iter().find(|(key, _)| names.contains(&&**key)).map(|(_, v)| v);
        if let Some(value) = keyword(&["default"]).or_else(|| args.first()) {
            return value.clone();
        }
        let Some(factory) = keyword(&["default_factory", "factory"]).cloned() else {
            return Value::default();
        };
        self.invoke(&factory, None, &[], &[], at)
    }
}
