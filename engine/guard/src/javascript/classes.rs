//! Classes of the file: what instances hold, their methods, listeners of events, and tools that are silent about
//! what they send.

use super::{Js, Name, flow, span};
use crate::feed::Registry;
use crate::report::StepKind;
use crate::value::{Const, Names, Origin, Value};
use oxc_ast::ast::{
    Argument, AssignmentTarget, CallExpression, Class, ClassElement, Expression, NewExpression,
    ObjectExpression, PropertyKey,
};
use oxc_span::Span;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// Maximum number of values of a field, above which nothing is known about it.
const MAX_FIELD_VALUES: u32 = 8;
/// Maximum number of fields, listeners and silent functions of a file.
const MAX_KEPT: usize = 4096;

/// Maximum number of calls of one statement whose results are dropped.
const MAX_DROPPED: usize = 64;

/// Modules with servers of WebSockets, or of the libraries above them.
const SOCKET_SERVERS: &[&str] = &["ws", "isomorphic-ws", "websocket", "socket.io", "sockjs"];
/// Fields of a connection that the server fills.
pub(super) const OF_CONNECTION: &[&str] = &["id", "readyState", "nsp"];

/// Knowledge about classes that is kept from one walk to the next.
#[derive(Default)]
pub(super) struct Classes {
    /// Classes that are being walked, by the place where each begins, with their names.
    within: Vec<(u32, String)>,
    /// Fields and methods, by class.
    members: FxHashMap<(u32, String), (Value, u32)>,
    /// Listeners by the name of their event.
    listeners: FxHashMap<String, Vec<u32>>,
    /// Functions that work for a tool which does not say that it sends anything.
    silent: FxHashSet<u32>,
    /// Calls whose results the statement that is being walked does not use, for each function or statement.
    unused: Vec<Vec<Span>>,
    /// True for a file that imports a server of WebSockets.
    sockets: Cell<bool>,
    /// True for a file that imports the server of socket.io, where `connect` is another name of `connection`.
    socket_io: Cell<bool>,
    /// True for a file that reads messages of a protocol for tools by itself, once that was searched.
    serves: OnceCell<bool>,
}

impl Classes {
    /// Remembers a module with a server of WebSockets.
    pub(super) fn uses(&self, module: &str) {
        if SOCKET_SERVERS.contains(&module) {
            self.sockets.set(true);
            self.socket_io.set(self.socket_io.get() || module == "socket.io");
        }
    }
}

/// True for variables and fields that hold a description, by their names.
fn is_description(expression: &Expression<'_>) -> bool {
    let name = match expression.get_inner_expression() {
        Expression::Identifier(name) => name.name.as_str(),
        Expression::StaticMemberExpression(member) => member.property.name.as_str(),
        _ => "",
    };
    name.to_ascii_lowercase().contains("desc")
}

/// Name of a field or method; of a private one with its mark: `#run`.
pub(super) fn key_name(key: &PropertyKey<'_>) -> Option<String> {
    match key {
        PropertyKey::StaticIdentifier(name) => Some(name.name.to_string()),
        PropertyKey::PrivateIdentifier(name) => Some(format!("#{}", name.name)),
        _ => None,
    }
}

/// Class of an instance or of a class itself.
fn class_of(name: &str) -> Option<u32> {
    name.strip_prefix("?this.").or_else(|| name.strip_prefix("?class."))?.parse().ok()
}

impl<'a> Js<'_, '_, '_> {
    pub(super) fn begin_class(&mut self, start: u32, name: Option<(Name, &str)>) {
        let own = name.as_ref().map_or_else(String::new, |(_, text)| (*text).to_owned());
        if let Some((name, _)) = name {
            self.vars.entry(name).or_insert_with(|| Value::name(&format!("?class.{start}")));
        }
        self.classes.within.push((start, own));
    }

    pub(super) fn end_class(&mut self) {
        self.classes.within.pop();
    }

    /// `this`, within a class.
    pub(super) fn instance(&self) -> Value {
        self.classes
            .within
            .last()
            .map_or_else(Value::default, |(start, _)| Value::name(&format!("?this.{start}")))
    }

    /// An instance, made by `new`.
    pub(super) fn made(&self, callee: &Value, mut value: Value) -> Value {
        for class in callee.names.iter().filter_map(|name| name.strip_prefix("?class.")) {
            value.names.retain(|name| !name.starts_with("?class."));
            value.names.push(format!("?this.{class}").into());
        }
        value
    }

    /// Remembers the methods of a class before its body is walked: a constructor comes first, and may pass them on.
    pub(super) fn methods_of(&mut self, class: &Class<'a>) {
        for element in &class.body.body {
            let (key, start, params) = match element {
                ClassElement::MethodDefinition(method) => {
                    (&method.key, method.value.span.start, &*method.value.params)
                }
                ClassElement::PropertyDefinition(property) => {
                    match property.value.as_ref().and_then(flow::function) {
                        Some((start, params)) => (&property.key, start, params),
                        None => continue,
                    }
                }
                _ => continue,
            };
            if let Some(name) = key_name(key) {
                self.begin_function(start, params);
                self.end_function();
                self.method_of_class(&name, start);
            }
        }
    }

    /// Remembers a method of the class that is being walked, and gives it what other files pass to it.
    fn method_of_class(&mut self, name: &str, start: u32) {
        let Some((class, own)) = self.classes.within.last().cloned() else { return };
        if self.classes.members.len() < MAX_KEPT {
            let value = Value::name(&format!("?@{start}"));
            self.classes.members.entry((class, name.to_owned())).or_insert((value, 1));
        }
        // An instance may be exported under a name of its own.
        let part = self.cx.path();
        let named: Vec<String> = self
            .cx
            .called
            .iter()
            .filter(|called| called.part == part)
            .filter(|called| match called.function.rsplit_once('.') {
                Some((class, method)) => {
                    method == name
                        && (class == own || class == "default" || class.starts_with(char::is_lowercase))
                }
                None => name == "constructor" && (called.function == own || called.function == "default"),
            })
            .map(|called| called.function.clone())
            .collect();
        for function in named {
            self.gets(&function, start);
        }
    }

    /// `this.x = value`.
    pub(super) fn keeps(&mut self, owner: &Value, name: &str, value: &Value) {
        for class in owner.names.iter().filter_map(|own| class_of(own)) {
            let kept = Value { known: None, chain: Vec::new(), ..value.clone() };
            let kept = Value { origin: Origin(kept.origin.0 & flow::FOLLOWED.0), ..kept };
            if kept.names.is_empty() && kept.origin == Origin::default()
                || self.classes.members.len() >= MAX_KEPT
            {
                continue;
            }
            let walk = self.flow.walk.max(1);
            let (older, times) = self.classes.members.entry((class, name.to_owned())).or_default();
            *times += 1;
            if *times > walk * MAX_FIELD_VALUES {
                *older = Value::default();
                continue;
            }
            if kept.origin.0 & !older.origin.0 != 0 {
                self.flow.learnt = true;
            }
            *older = kept.or(older);
        }
    }

    /// `this.#x = value`.
    pub(super) fn keeps_private(&mut self, target: &AssignmentTarget<'_>, value: &Value) {
        if let AssignmentTarget::PrivateFieldExpression(member) = target {
            let owner = self.value(&member.object);
            self.keeps(&owner, &format!("#{}", member.field.name), value);
        }
    }

    /// A field or method of an instance.
    pub(super) fn held(&self, own: &str, name: &str) -> Option<Value> {
        let class = class_of(own)?;
        self.classes.members.get(&(class, name.to_owned())).map(|(value, _)| value.clone())
    }

    /// Teaches the constructor of a class of the file.
    pub(super) fn constructed(&mut self, it: &NewExpression<'a>) {
        if self.emit || self.classes.members.is_empty() {
            return;
        }
        let Expression::Identifier(name) = it.callee.get_inner_expression() else { return };
        let own = self.referred(name);
        let class = self.vars.get(&own).and_then(|v| v.names.iter().find_map(|n| class_of(n)));
        let Some(constructor) = class.and_then(|class| self.held(&format!("?this.{class}"), "constructor"))
        else {
            return;
        };
        let args = self.arguments(&it.arguments);
        self.teach(&constructor, None, &args, it.span);
    }

    /// True for a call that sets the handler of a server's connections: what a connection's listeners get is the
    /// client's.
    pub(super) fn accepts_connections(&self, method: &str, call: &CallExpression<'a>) -> bool {
        matches!(method, "on" | "once" | "addListener")
            && match call.arguments.first() {
                Some(Argument::StringLiteral(event)) => match event.value.as_str() {
                    "connection" => self.classes.sockets.get(),
                    "connect" => self.classes.socket_io.get(),
                    _ => false,
                },
                _ => false,
            }
    }

    /// Notes a module that the file imports.
    pub(super) fn module(&mut self, module: &str, at: Span) {
        self.classes.uses(module);
        self.cx.module(Registry::Npm, module, span(at));
    }

    /// Listeners of events get what is emitted: `bus.on('job', f)`, `bus.emit('job', x)`.
    pub(super) fn events(&mut self, call: &CallExpression<'a>) {
        self.filled(call);
        let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() else { return };
        let Some(Argument::StringLiteral(event)) = call.arguments.first() else { return };
        match member.property.name.as_str() {
            "on" | "once" | "addListener" => {
                let Some(listener) = call.arguments.get(1).and_then(Argument::as_expression) else { return };
                let start = flow::function(listener).map(|(start, _)| start).or_else(|| {
                    let value = self.value(listener);
                    self.own(&value, None)
                });
                let kept = self.classes.listeners.len() < MAX_KEPT;
                if let Some(start) = start.filter(|_| kept) {
                    let all = self.classes.listeners.entry(event.value.to_string()).or_default();
                    if !all.contains(&start) && all.len() < 64 {
                        all.push(start);
                    }
                }
            }
            "emit" if !self.emit => {
                let args = self.arguments(call.arguments.get(1..).unwrap_or(&[]));
                if args.iter().any(|value| value.origin.has(flow::FOLLOWED)) {
                    // A listener may come later in the text.
                    self.flow.learnt |= self.flow.walk == 1;
                    let all = self.classes.listeners.get(event.value.as_str()).cloned().unwrap_or_default();
                    let at = span(call.span);
                    let passed = |value: Value| match value.trail {
                        Some(_) => value.stepped(StepKind::Passed, "emit", at),
                        None => value,
                    };
                    let args: Vec<Value> = args.into_iter().map(passed).collect();
                    all.into_iter().for_each(|start| self.learn(start, &args));
                }
            }
            _ => {}
        }
    }

    /// Records that a tool's handler does not say that it sends anything.
    pub(super) fn is_silent(&mut self, start: u32) {
        if self.classes.silent.len() < MAX_KEPT && self.classes.silent.insert(start) {
            self.flow.learnt |= !self.emit;
        }
    }

    /// A function that a silent one calls is silent as well.
    pub(super) fn silent_too(&mut self, start: u32) {
        if self.within_silent() {
            self.is_silent(start);
        }
    }

    pub(super) fn within_silent(&self) -> bool {
        !self.classes.silent.is_empty()
            && self.flow.within.iter().any(|start| self.classes.silent.contains(start))
    }

    /// True for a call whose result is not used, in a function of a silent tool.
    pub(super) fn sends_silently(&self, at: Span) -> bool {
        self.classes.unused.last().is_some_and(|calls| calls.contains(&at)) && self.within_silent()
    }

    /// Begins a statement, or a function, of which nothing is known yet.
    pub(super) fn begin_unused(&mut self, statement: Option<&Expression<'a>>) {
        let mut calls = Vec::new();
        if let Some(expression) = statement.filter(|_| self.emit && !self.classes.silent.is_empty()) {
            self.not_used(expression, &mut calls);
        }
        self.classes.unused.push(calls);
    }

    /// Calls whose results an expression drops when its own value is dropped.
    fn not_used(&mut self, expression: &Expression<'a>, calls: &mut Vec<Span>) {
        if calls.len() >= MAX_DROPPED || !self.cx.tick() {
            return;
        }
        match expression.get_inner_expression() {
            Expression::AwaitExpression(inner) => self.not_used(&inner.argument, calls),
            Expression::UnaryExpression(inner) => self.not_used(&inner.argument, calls),
            Expression::LogicalExpression(either) => self.not_used(&either.right, calls),
            Expression::ConditionalExpression(either) => {
                self.not_used(&either.consequent, calls);
                self.not_used(&either.alternate, calls);
            }
            Expression::SequenceExpression(list) => {
                list.expressions.iter().for_each(|one| self.not_used(one, calls));
            }
            Expression::NewExpression(new) => calls.push(new.span),
            Expression::ChainExpression(chain) => {
                if let oxc_ast::ast::ChainElement::CallExpression(call) = &chain.expression {
                    self.not_used_call(call, calls);
                }
            }
            Expression::CallExpression(call) => self.not_used_call(call, calls),
            _ => {}
        }
    }

    fn not_used_call(&mut self, call: &CallExpression<'a>, calls: &mut Vec<Span>) {
        let member = match call.callee.get_inner_expression() {
            Expression::StaticMemberExpression(member) => Some(member),
            _ => None,
        };
        let method = member.map_or("", |member| member.property.name.as_str());
        let event = match call.arguments.first() {
            Some(Argument::StringLiteral(event)) => event.value.as_str(),
            _ => "",
        };
        // A failure is not a result.
        let fails =
            matches!(method, "catch" | "finally") || matches!(method, "on" | "once") && event == "error";
        if !fails && self.takes_result(call, method) {
            return;
        }
        calls.push(call.span);
        if matches!(method, "all" | "allSettled" | "race" | "any")
            && let Some(Argument::ArrayExpression(all)) = call.arguments.first()
        {
            let all = all.elements.iter().filter_map(|one| one.as_expression());
            all.for_each(|one| self.not_used(one, calls));
        }
        if let Some(member) = member {
            self.not_used(&member.object, calls);
        }
    }

    /// True when a call is given a function that gets its result. The first argument of a callback of `dns` is an error.
    fn takes_result(&mut self, call: &CallExpression<'a>, method: &str) -> bool {
        let least = if matches!(method, "lookup" | "resolve") { 2 } else { 1 };
        call.arguments.iter().filter_map(Argument::as_expression).any(|argument| {
            match flow::function(argument) {
                Some((_, params)) => params.items.len() >= least,
                None if matches!(argument, Expression::Identifier(_)) => {
                    let value = self.value(argument);
                    match self.own(&value, None) {
                        Some(start) => self.parameters(start) >= least,
                        None => method == "then" && value.names.is_empty(),
                    }
                }
                None => false,
            }
        })
    }

    pub(super) fn end_unused(&mut self) {
        self.classes.unused.pop();
    }

    /// True when a call that registers a tool describes it, and does not say that it sends anything. A description that is not known may say so.
    pub(super) fn hides_sending(&mut self, arguments: &[Argument<'a>]) -> bool {
        let mut all = String::new();
        for (at, argument) in arguments.iter().enumerate() {
            match argument {
                Argument::ObjectExpression(object) => match self.says_of(object) {
                    Some(said) => all.push_str(&said),
                    None => return false,
                },
                // A name and a description; then a schema and a handler.
                other if at < 2 => {
                    let Some(expression) = other.as_expression() else { continue };
                    let value = self.value(expression);
                    let is_described = at == 1 && arguments.len() >= 4 || is_description(expression);
                    match value.as_text() {
                        Some(said) => all.push_str(said),
                        None if is_described && flow::function(expression).is_none() => return false,
                        None => {}
                    }
                }
                _ => {}
            }
            all.push_str(". ");
        }
        !all.trim_matches(['.', ' ']).is_empty() && !crate::instructions::says_that_it_sends(&all)
    }

    /// Texts of an object that describes a tool, if they are known.
    pub(super) fn says_of(&mut self, object: &ObjectExpression<'_>) -> Option<String> {
        let mut all = String::new();
        for property in &object.properties {
            if let oxc_ast::ast::ObjectPropertyKind::ObjectProperty(property) = property
                && ["name", "title", "description"]
                    .iter()
                    .any(|key| property.key.is_specific_static_name(key))
                // A field of a schema may have such a name.
                && !matches!(property.value, Expression::ObjectExpression(_) | Expression::CallExpression(_))
            {
                let value = self.value(&property.value);
                match value.as_text() {
                    Some(said) => all.push_str(said),
                    None if property.key.is_specific_static_name("description") => return None,
                    None => {}
                }
                all.push_str(". ");
            }
        }
        Some(all)
    }

    /// Functions that one of a table's entries is, picked by an unknown key.
    pub(super) fn entries(&self, owner: &Value) -> Names {
        let Some(Const::Map(pairs)) = &owner.known else { return Names::new() };
        let functions = pairs.iter().take(64).flat_map(|(_, value)| value.names.iter());
        let mut all: Vec<Rc<str>> = functions.filter(|name| name.starts_with("?@")).cloned().collect();
        all.truncate(16);
        all.into()
    }

    /// Origin of a message of a protocol for tools that a program reads by itself.
    pub(super) fn message(&self, name: &str, args: &[Value]) -> Origin {
        let is_file = |text: &Value| {
            text.origin.has(Origin::FILE)
                || text
                    .names
                    .iter()
                    .any(|name| name.contains("readFile") || name.contains("createReadStream"))
        };
        let read = name == "JSON.parse"
            && args.first().is_some_and(|text| text.as_whole_text().is_none() && !is_file(text));
        let says = || self.source.contains("tools/call") && self.source.contains("process.stdin");
        if read && *self.classes.serves.get_or_init(says) { Origin::CALLER } else { Origin::default() }
    }
}
