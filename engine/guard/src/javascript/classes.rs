//! Classes of the file: what instances hold, their methods, listeners of events, and tools that are silent about
//! what they send.

use super::{Js, Name, flow, span};
use crate::report::StepKind;
use crate::value::{Const, Names, Origin, Value};
use oxc_ast::ast::{
    Argument, CallExpression, Class, ClassElement, Expression, NewExpression, ObjectExpression, PropertyKey,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Maximum number of values of a field, above which nothing is known about it.
const MAX_FIELD_VALUES: u32 = 8;
/// Maximum number of fields, listeners and silent functions of a file.
const MAX_KEPT: usize = 4096;

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
    /// True in a statement whose value is not used, for each function that is being walked.
    unused: Vec<bool>,
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
            if let PropertyKey::StaticIdentifier(name) = key {
                self.begin_function(start, params);
                self.end_function();
                self.method_of_class(name.name.as_str(), start);
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

    /// Listeners of events get what is emitted: `bus.on('job', f)`, `bus.emit('job', x)`.
    pub(super) fn events(&mut self, call: &CallExpression<'a>) {
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
                if args.iter().any(|value| value.origin.has(Origin::CALLER)) {
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

    /// True in a statement that uses no result, in a function of a silent tool.
    pub(super) fn sends_silently(&self) -> bool {
        self.classes.unused.last() == Some(&true) && self.within_silent()
    }

    /// Begins a statement (`true`) or a function (`false`).
    pub(super) fn begin_unused(&mut self, unused: bool) {
        self.classes.unused.push(unused);
    }

    pub(super) fn end_unused(&mut self) {
        self.classes.unused.pop();
    }

    /// Texts that describe a tool, in the call that registers it or in the object that describes it.
    pub(super) fn says(&mut self, arguments: &[Argument<'a>]) -> String {
        let mut all = String::new();
        for argument in arguments {
            match argument {
                Argument::StringLiteral(text) => all.push_str(text.value.as_str()),
                Argument::ObjectExpression(object) => all.push_str(&self.says_of(object)),
                _ => {}
            }
            all.push(' ');
        }
        all
    }

    /// Texts of an object that describes a tool.
    pub(super) fn says_of(&mut self, object: &ObjectExpression<'_>) -> String {
        let mut all = String::new();
        for property in &object.properties {
            if let oxc_ast::ast::ObjectPropertyKind::ObjectProperty(property) = property
                && ["name", "title", "description"]
                    .iter()
                    .any(|key| property.key.is_specific_static_name(key))
            {
                let value = self.value(&property.value);
                all.push_str(value.as_text().unwrap_or_default());
                all.push(' ');
            }
        }
        all
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
        let read = name == "JSON.parse" && args.first().is_some_and(|text| text.as_whole_text().is_none());
        let serves = read && self.source.contains("tools/call") && self.source.contains("process.stdin");
        if serves { Origin::CALLER } else { Origin::default() }
    }
}
