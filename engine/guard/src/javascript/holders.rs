//! Containers that are filled, and settings of a client that its hooks change before each request.

use super::flow::{self, FOLLOWED};
use super::{Js, Name};
use crate::value::{Names, Origin, Value};
use oxc_ast::ast::{CallExpression, Expression};

/// Name of the settings of a request that a hook of its client may change.
const SETTINGS: &str = "request.settings";

/// True for methods that put their arguments into the object that they belong to.
fn fills(method: &str) -> bool {
    matches!(method, "push" | "unshift" | "splice" | "set" | "add" | "append" | "enqueue" | "fill")
}

impl<'a> Js<'_, '_, '_> {
    /// Adds to a container the origins of what is put into it: `all.push(x)`, `form.append('a', x)`.
    pub(super) fn filled(&mut self, call: &CallExpression<'a>) {
        let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() else { return };
        // `store.run(x, f)`, for functions that are called later and ask for `store.getStore()`.
        let stores = matches!(member.property.name.as_str(), "run" | "enterWith")
            && self.value(&member.object).names.iter().any(|name| name.ends_with("AsyncLocalStorage()"));
        if !stores && !fills(member.property.name.as_str()) {
            return;
        }
        let args = self.arguments(&call.arguments);
        // A request's credentials are not part of its contents.
        if args.first().and_then(Value::as_text).is_some_and(|key| key.eq_ignore_ascii_case("authorization"))
        {
            return;
        }
        let carried = Origin(FOLLOWED.0 & !Origin::FILE.0 & !Origin::OUTPUT.0);
        let Some(given) = args.iter().find(|value| value.origin.has(carried)) else { return };
        let origin = args.iter().fold(Origin::default(), |sum, value| sum | value.origin);
        let given =
            Value { origin: Origin(origin.0 & carried.0), trail: given.trail.clone(), ..Value::default() };
        match member.object.get_inner_expression() {
            Expression::Identifier(name) => {
                let own = self.referred(name);
                // Modules and global objects are not containers of the program.
                if let Some(held) = self.vars.get_mut(&own).filter(|_| matches!(own, Name::Declared(_))) {
                    if given.origin.0 & !held.origin.0 != 0 {
                        self.flow.learnt = true;
                    }
                    *held = std::mem::take(held).made_of(&given);
                }
            }
            Expression::StaticMemberExpression(inner) => {
                let owner = self.value(&inner.object);
                self.keeps(&owner, inner.property.name.as_str(), &given);
            }
            _ => {}
        }
    }

    /// A listener that is a field of a connection: `source.onmessage = (e) => …`.
    pub(super) fn listens(&mut self, owner: &Value, name: &str, listener: &Expression<'_>) {
        let received = Value { known: None, names: Names::new(), ..owner.clone() };
        if name.starts_with("on")
            && received.origin.has(Origin::NET)
            && let Some((start, _)) = flow::function(listener)
        {
            self.learn(start, &[received]);
        }
    }

    /// A stream that is written to a file: `r.pipe(fs.createWriteStream(path))`.
    pub(super) fn piped(&mut self, method: Option<&str>, receiver: Option<&Value>, args: &[Value]) {
        if method == Some("pipe")
            && let (Some(from), Some(to)) = (receiver, args.first())
            && to.is_named("fs.createWriteStream()")
            && let Some(path) = to.first()
        {
            self.saves("fs.writeFile", &[path, from.clone()]);
        }
    }

    /// Names the settings that a client gives to a hook before each request: `client.interceptors.request.use(f)`.
    pub(super) fn hooked(&mut self, call: &CallExpression<'a>, receiver: &Value) {
        let of_requests =
            |name: &str| name.ends_with(".interceptors.request") || name.ends_with("hooks.beforeRequest");
        if !receiver.names.iter().any(|name| of_requests(name)) {
            return;
        }
        let hook = call.arguments.first().and_then(oxc_ast::ast::Argument::as_expression);
        let start = hook.and_then(|hook| match flow::function(hook) {
            Some((start, _)) => Some(start),
            None => {
                let value = self.value(hook);
                self.own(&value, None)
            }
        });
        if let Some(start) = start {
            self.names_parameter(start, SETTINGS);
        }
    }
}
