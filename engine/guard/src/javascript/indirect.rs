//! Calls that hand their arguments on to a function of the file: timers, `call` and `apply`, tags of templates, traps
//! of proxies, ends of pipelines.

use super::{Js, flow, span};
use crate::hosts::{Asked, Danger};
use crate::language::Language;
use crate::rules::Call;
use crate::value::{Const, Origin, Value};
use oxc_ast::ast::{
    Argument, CallExpression, Expression, NewExpression, Statement, TaggedTemplateExpression,
};
use std::rc::Rc;

/// Traps whose first parameter is the object behind the proxy.
const TRAPS: &[&str] = &[
    "get",
    "set",
    "has",
    "apply",
    "construct",
    "ownKeys",
    "deleteProperty",
    "defineProperty",
    "getOwnPropertyDescriptor",
];
/// Scripts of a package that its manager runs by itself.
const HOOKS: &[&str] =
    &["install", "postinstall", "preinstall", "prepack", "prepare", "prepublish", "prepublishOnly"];

impl<'a> Js<'_, '_, '_> {
    /// Teaches a function of the file the arguments that another call hands on to it: `setImmediate(f, x)`,
    /// `f.call(this, x)`, `Reflect.apply(f, this, [x])`.
    pub(super) fn hands_on(&mut self, call: &CallExpression<'a>) {
        if self.emit {
            return;
        }
        let first = call.arguments.first().and_then(Argument::as_expression);
        let (target, from, is_list) = match call.callee.get_inner_expression() {
            Expression::Identifier(name) => match name.name.as_str() {
                "setTimeout" | "setInterval" => (first, 2, false),
                "setImmediate" | "queueMicrotask" => (first, 1, false),
                _ => return,
            },
            Expression::StaticMemberExpression(member) => match member.property.name.as_str() {
                "nextTick" => (first, 1, false),
                "call" => (Some(&member.object), 1, false),
                "apply" if call.arguments.len() == 3 => (first, 2, true),
                "apply" => (Some(&member.object), 1, true),
                _ => return,
            },
            _ => return,
        };
        let Some(target) = target else { return };
        let mut args = self.arguments(call.arguments.get(from..).unwrap_or(&[]));
        if is_list {
            let list = args.first().cloned().unwrap_or_default();
            args = list.elements().unwrap_or_else(|| vec![Value::default().made_of(&list)]);
        }
        if args.iter().any(|value| value.origin.has(flow::FOLLOWED)) {
            let callee = self.value(target);
            self.teach(&callee, None, &args, call.span);
        }
    }

    /// Teaches a tag of the file the values of a template: its first argument is the list of texts.
    pub(super) fn tagged(&mut self, it: &TaggedTemplateExpression<'a>) {
        if self.emit || it.quasi.expressions.is_empty() {
            return;
        }
        let callee = self.value(&it.tag);
        let mut args = vec![Value::default()];
        args.extend(it.quasi.expressions.iter().map(|expression| self.value(expression)));
        self.teach(&callee, None, &args, it.span);
    }

    /// Teaches the traps of a proxy the object behind it: `new Proxy(object, { get(target, key) { … } })`.
    pub(super) fn proxied(&mut self, it: &NewExpression<'a>) {
        let is_proxy =
            matches!(it.callee.get_inner_expression(), Expression::Identifier(name) if name.name == "Proxy");
        if self.emit || !is_proxy {
            return;
        }
        let args = self.arguments(&it.arguments);
        let [object, handler, ..] = &args[..] else { return };
        let Some(Const::Map(traps)) = handler.known.as_ref().filter(|_| object.origin.has(flow::FOLLOWED))
        else {
            return;
        };
        for (key, trap) in traps.iter() {
            if key.as_whole_text().is_some_and(|key| TRAPS.contains(&key)) {
                self.teach(trap, None, std::slice::from_ref(object), it.span);
            }
        }
    }

    /// Reports what flows into a connection at the end of a pipeline: `from.pipe(socket)`, `pipeline(from, socket)`.
    pub(super) fn flows_into(
        &mut self,
        names: &[Rc<str>],
        receiver: Option<&Value>,
        method: Option<&str>,
        args: &[Value],
        at: oxc_span::Span,
    ) {
        let joins = names.iter().any(|name| name.starts_with("stream") && name.ends_with(".pipeline"));
        let (all, method): (Vec<&Value>, Rc<str>) = match method {
            _ if joins => (args.iter().collect(), "stream.pipeline".into()),
            Some("pipe" | "pipeTo") => (receiver.into_iter().chain(args).collect(), "stream.pipe".into()),
            _ => return,
        };
        let Some((last, before)) = all.split_last() else { return };
        // A generator stands for what it yields.
        let before: Vec<Value> = before
            .iter()
            .map(|value| {
                let yields = self.own_result(value, None);
                yields.map_or_else(|| (*value).clone(), |yields| (*value).clone().made_of(&yields))
            })
            .collect();
        let call = Call {
            names: &[method],
            method: None,
            receiver: Some(*last),
            args: &before,
            kwargs: &[],
            context: 0,
        };
        self.cx.call(Language::JavaScript, &call, span(at));
    }

    /// Keeps a request of an address whose host the caller of a tool or a route chooses.
    pub(super) fn requests_given(
        &mut self,
        names: &[Rc<str>],
        method: Option<&str>,
        args: &[Value],
        at: oxc_span::Span,
    ) {
        let requests = names.iter().any(|name| crate::rules::requests_address(name))
            || names.is_empty() && method == Some("goto");
        if !requests {
            return;
        }
        let is_plain = |value: &Value| value.names.iter().all(|name| name.ends_with("URL()"));
        let given = args.first().filter(|value| value.origin.has(Origin::CALLER) && is_plain(value));
        let open = given.filter(|value| crate::rules::is_open_address(value)).cloned();
        self.requests.extend(open.map(|address| (address, at)));
    }

    /// Keeps a value from a caller that a program may take for an option: `execFile('git', ['clone', url])`.
    pub(super) fn options_given(&mut self, names: &[Rc<str>], args: &[Value], at: oxc_span::Span) {
        let starts = |name: &Rc<str>| {
            matches!(
                &**name,
                "child_process.execFile"
                    | "child_process.execFileSync"
                    | "child_process.spawn"
                    | "child_process.spawnSync"
            )
        };
        let of_shell = |name: &Rc<str>| matches!(&**name, "child_process.exec" | "child_process.execSync");
        if names.iter().any(of_shell)
            && let Some(line) = args.first().and_then(Value::as_whole_text)
        {
            let words: Vec<Value> = line.split_whitespace().map(Value::text).collect();
            if let Some(address) = crate::rules::pushed_to(&words).cloned() {
                self.pushed(address, at);
            }
        }
        let [program, list, ..] = args else { return };
        if !names.iter().any(starts) {
            return;
        }
        let mut words = vec![program.clone()];
        words.extend(list.elements().unwrap_or_default());
        if let Some(address) = crate::rules::pushed_to(&words).cloned() {
            self.pushed(address, at);
        }
        if let Some(given) = crate::rules::given_as_option(&words, Origin::CALLER) {
            self.options.push((given.clone(), at));
        }
    }

    /// Keeps an address that a repository is pushed to and that a caller gives; reports one of the program's own, if the tool
    /// does not say that it sends anything.
    pub(super) fn pushed(&mut self, address: Value, at: oxc_span::Span) {
        if address.origin.has(Origin::CALLER) {
            self.pushes.push((address, at));
        } else if self.within_silent() && address.as_whole_text().is_some() {
            self.cx.fact_with(Language::JavaScript, "repository.pushed", span(at), &[address], 0);
        }
    }

    /// Reports the kinds of harm that the plain form shows, and the requests and programs that were kept, unless a check rules the
    /// danger out where they are, or where a function on the way of the value was called.
    pub(super) fn requested(&mut self, body: &[Statement<'_>]) {
        let (requests, options) = (std::mem::take(&mut self.requests), std::mem::take(&mut self.options));
        let pushes = std::mem::take(&mut self.pushes);
        let may_show = crate::kinds::may_show(self.source);
        if requests.is_empty() && options.is_empty() && pushes.is_empty() && !may_show {
            return;
        }
        let mut plain = super::plain::program(body);
        for (fact, at) in crate::kinds::shown(self.source, &plain) {
            self.cx.fact(Language::JavaScript, fact, at);
        }
        let asked = |position: Option<usize>, danger: Danger| Asked { at: (0, 0), position, danger };
        let requests =
            requests.into_iter().map(|(v, at)| (v, at, "flow.address", asked(Some(0), Danger::Host)));
        let options =
            options.into_iter().map(|(v, at)| (v, at, "flow.option", asked(Some(1), Danger::Option)));
        let pushes =
            pushes.into_iter().map(|(v, at)| (v, at, "repository.pushed", asked(None, Danger::Host)));
        let all = requests.chain(options).chain(pushes);
        for (value, at, fact, asked) in all {
            let at = span(at);
            let mut ways = value.passed().into_iter();
            if !plain.is_checked(Asked { at, ..asked })
                && !ways.any(|at| plain.is_checked(Asked { at, position: None, ..asked }))
            {
                self.cx.fact_with(Language::JavaScript, fact, at, &[value], 0);
            }
        }
    }

    /// Reports a script of a package that is set to something, if its manager runs it by itself.
    pub(super) fn sets_script(&mut self, owner: &Value, name: &str, value: &Value, at: oxc_span::Span) {
        let has_hook = |value: &Value| match &value.known {
            Some(Const::Map(pairs)) => {
                pairs.iter().any(|(key, _)| key.as_whole_text().is_some_and(|key| HOOKS.contains(&key)))
            }
            _ => false,
        };
        let sets = HOOKS.contains(&name) && owner.names.iter().any(|own| own.ends_with(".scripts"))
            || name == "scripts" && !owner.names.is_empty() && has_hook(value);
        if sets {
            self.cx.fact_with(
                Language::JavaScript,
                "npm.script_set",
                span(at),
                std::slice::from_ref(value),
                0,
            );
        }
    }
}
