//! Calls: the function, its arguments, and its result.

use super::entry;
use super::flow::GIVEN;
use super::model::{self, Spawn};
use super::packages::{self, canonical};
use super::{Python, fold, span};
use crate::executed::Executed;
use crate::report::{HandedSource, StepKind};
use crate::value::{Const, Names, Origin, Value, names_variable};
use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;
use std::borrow::Cow;
use std::rc::Rc;

use crate::language::Language;
use crate::rules::{Call, Spot};

pub(super) type Named = (Rc<str>, Value);

/// The file that a value is, open or read.
fn opened(value: &Value) -> Option<String> {
    let paths = value.names.iter().filter_map(|name| name.strip_prefix("file:"));
    paths.map(|path| path.strip_suffix(".read()").unwrap_or(path).to_owned()).next()
}

impl<'a> Python<'_, '_, 'a> {
    pub(super) fn call(&mut self, call: &'a ExprCall) -> Value {
        let at = span(call.range());
        let mut args = Vec::new();
        let (callee, receiver) = self.callee(&call.func);
        for argument in &call.arguments.args {
            let value = self.value(argument);
            let spread = if argument.is_starred_expr() { value.elements() } else { None };
            match spread {
                Some(items) => args.extend(items),
                None => args.push(value),
            }
        }
        let mut kwargs: Vec<Named> = Vec::new();
        for keyword in &call.arguments.keywords {
            let value = self.value(&keyword.value);
            match (&keyword.arg, &value.known) {
                (Some(name), _) => kwargs.push((self.interned(name.as_str()), value)),
                (None, Some(Const::Map(pairs))) => {
                    kwargs.extend(pairs.iter().filter_map(|(k, v)| Some((k.as_text()?.into(), v.clone()))));
                }
                (None, _) => kwargs.push(("**".into(), value)),
            }
        }
        let object = receiver.as_ref().map(|(owner, name)| (owner, &**name));
        if let Some((_, "delete")) = object
            && let Expr::Attribute(attribute) = &*call.func
        {
            let before = self
                .source
                .get(span(attribute.value.range()).0..span(attribute.value.range()).1)
                .unwrap_or("");
            let before = dense(before);
            let all = before.ends_with(".objects.all()")
                || before.contains(".query(") && before.matches('(').count() == 1
                || before.ends_with(".query.all()");
            if all {
                self.fact("orm.delete_all", at);
            }
        }
        self.registered_by(&call.func, &args);
        if let Expr::Attribute(attribute) = &*call.func {
            self.put_into(&attribute.value, attribute.attr.as_str(), &args);
        }
        self.bound = None;
        let mut result = self.invoke(&callee, object, &args, &kwargs, at);
        if let Some((owner, name)) = object
            && owner.names.iter().all(|n| n.starts_with("?class"))
            && let Some(folded) =
                fold::method(owner, name, &args).or_else(|| fold::formatted(owner, name, &args, &kwargs))
        {
            if folded.chain.len() > owner.chain.len()
                || folded.origin.has(Origin::DECODED)
                || matches!(name, "join" | "format" | "format_map" | "replace")
            {
                self.tell_computed(&folded, at);
            }
            self.spelled(&folded, at);
            result = folded.or(&Value { known: None, ..result });
        }
        result
    }

    /// Function of a call, and the object that it is a member of: `x.y`, `getattr(x, 'y')`, `(z := x.y)`.
    fn callee(&mut self, func: &'a Expr) -> (Value, Option<(Value, Cow<'a, str>)>) {
        match func {
            Expr::Attribute(attribute) => {
                let owner = self.value(&attribute.value);
                let callee = self.member(&owner, attribute.attr.as_str(), span(attribute.range()));
                (callee, Some((owner, attribute.attr.as_str().into())))
            }
            Expr::Named(named) => {
                let (callee, receiver) = self.callee(&named.value);
                self.assign(&named.target, callee.clone());
                (callee, receiver)
            }
            other => {
                self.bound = None;
                let callee = self.value(other);
                (callee, self.bound.take().map(|(owner, name)| (owner, name.into())))
            }
        }
    }

    /// Calls a value: reports it, follows it into functions of the file, and returns its result.
    pub(super) fn invoke(
        &mut self,
        callee: &Value,
        object: Option<(&Value, &str)>,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) -> Value {
        if !self.cx.tick() {
            return Value::default();
        }
        // A request's credentials are not part of its contents.
        let carried = kwargs.iter().filter(|(key, _)| !crate::rules::authorises(key)).map(|(_, v)| v);
        let mut origin = args.iter().chain(carried).fold(Origin::default(), |sum, v| sum | v.origin);
        if let Some((owner, method)) = object {
            // A single environment variable is not the whole environment.
            let named = || args.first().and_then(Value::as_whole_text).is_some_and(names_variable);
            let one =
                matches!(method, "get" | "pop" | "setdefault") && (owner.is_named("os.environ") || named());
            origin |= if one { Origin(owner.origin.0 & !Origin::ENV.0) } else { owner.origin };
            // An entry of a fixed table, picked by a key.
            if matches!(method, "get" | "index" | "count") && Self::picked(owner) {
                origin = Origin(origin.0 & !GIVEN.0);
            }
        }
        let trail = args
            .iter()
            .chain(object.map(|(owner, _)| owner))
            .chain(kwargs.iter().map(|(_, value)| value))
            .find_map(|value| value.trail.clone());
        let mut names = Names::new();
        let mut result = Value::default();
        // The results of the file's own functions are known by their bodies.
        let is_own = !callee.names.is_empty()
            && callee
                .names
                .iter()
                .all(|n| n.strip_prefix('@').is_some_and(|n| self.functions.contains_key(n)));
        if is_own {
            origin = Origin(origin.0 & !GIVEN.0);
        }
        // A method taken from its class and given the instance.
        let unbound = callee.names.iter().find_map(|n| n.strip_prefix("pathlib.Path."));
        if let (Some(method), Some(instance)) = (unbound, args.first())
            && !method.contains('.')
            && !matches!(method, "home" | "cwd")
        {
            let bound = Value::name(&format!("pathlib.Path().{method}"));
            return self.invoke(&bound, Some((instance, method)), &args[1..], kwargs, at);
        }
        // A path that a class of the file tells itself.
        let told: Option<Vec<Value>> = args
            .iter()
            .any(|value| value.names.iter().any(|name| name.starts_with('@') && name.ends_with("()")))
            .then(|| args.iter().map(|value| self.special(value, "__fspath__", &[], at)).collect())
            .filter(|paths: &Vec<Option<Value>>| paths.iter().any(Option::is_some))
            .map(|paths| {
                paths.into_iter().zip(args).map(|(path, arg)| path.unwrap_or_else(|| arg.clone())).collect()
            });
        let args = told.as_deref().filter(|_| !is_own).unwrap_or(args);
        let of_package = |name| packages::as_of_subprocess(name, args, kwargs);
        if let Some((function, args, kwargs)) = callee.names.iter().find_map(|name| of_package(name)) {
            return self.invoke(&Value::name(function), None, &args, &kwargs, at);
        }
        if let Some(value) = self.operator(callee, args, kwargs, at) {
            return value.with_origin(Origin(origin.0 & !Origin::COMPUTED.0));
        }
        for name in &callee.names {
            match name.strip_prefix('@') {
                Some(own) if own.ends_with("()") && !self.functions.contains_key(own) => {
                    if let Some(value) = self.special(callee, "__call__", args, at) {
                        result = value.or(&result);
                    }
                }
                Some(own) => {
                    let inner = self.enter(own, args, kwargs, at);
                    result = inner.or(&result);
                }
                None if !name.starts_with('?') => {
                    let plain = canonical(name);
                    names.push(if plain == &**name { name.clone() } else { plain.into() });
                }
                None => {}
            }
        }
        let unknown = names.is_empty() && callee.names.is_empty();
        if self.emit && (!names.is_empty() || unknown) {
            let context = self.spot | if callee.origin.has(Origin::COMPUTED) { Spot::OBFUSCATED } else { 0 };
            let call = Call {
                names: &names,
                method: if unknown { object.map(|(_, name)| name) } else { None },
                receiver: object.map(|(owner, _)| owner),
                args,
                kwargs,
                context,
            };
            self.cx.call(Language::Python, &call, at);
            self.passes_to_files(&names, callee.origin.has(GIVEN), args, kwargs, at);
            self.requests_given(&names, args, kwargs, at);
            self.options_given(&names, args, at);
            let unknown_method = object.filter(|_| unknown).map(|(_, method)| method);
            self.runs_elsewhere(&names, unknown_method, args, kwargs, at);
        }
        if self.emit {
            let told = kwargs.iter().filter(|(key, value)| crate::instructions::is_told_of(key, value));
            let told: Vec<Value> = told.map(|(_, value)| value.clone()).collect();
            told.iter().for_each(|text| self.fact_with("model.text", std::slice::from_ref(text), at));
        }
        let last = names.first().map_or("", |name| entry::registering(name));
        self.registered(if unknown { object.map_or("", |(_, name)| name) } else { last }, args, kwargs, at);
        if unknown && let Some((_, method)) = object {
            let name = format!("?.{method}");
            origin |= model::origin(&name);
            self.sinks(&name, args, kwargs, at);
            self.saves_and_runs(&name, object, args, kwargs, at);
            if matches!(
                method,
                "submit"
                    | "apply_async"
                    | "run_in_executor"
                    | "call_later"
                    | "after"
                    | "addCleanup"
                    | "addClassCleanup"
                    | "call_soon_threadsafe"
            ) {
                self.passes_on(&name, args, kwargs, at);
            }
        }
        for name in &names {
            self.sinks(name, args, kwargs, at);
            self.passes_on(name, args, kwargs, at);
            self.saves_and_runs(name, object, args, kwargs, at);
            self.huge_call(name, args, at);
            let own = self.library(name, object, args, kwargs, at);
            result = own.or(&result);
            origin |= self.origin_of(name);
        }
        // A message of a protocol for tools, read by hand.
        if origin.has(Origin::INPUT)
            && self.flow.serves
            && names.iter().any(|n| matches!(&**n, "json.loads" | "json.load" | "orjson.loads"))
        {
            origin |= Origin::CALLER;
        }
        // The output of a program is not located where its arguments are.
        if names.iter().any(|n| self.origin_of(n).has(Origin::OUTPUT)) {
            origin = Origin(
                origin.0 & !(Origin::TEMP | Origin::TREE | Origin::WALK | Origin::HOME | Origin::WIDE).0,
            );
        }
        // Numbers and booleans carry no origin (`plain` below).
        // Parsed arguments do not come from the file itself: its documentation tells how to call the program,
        // not how it is called.
        if names.iter().any(|n| n.starts_with("argparse.") || &**n == "docopt.docopt") {
            origin = Origin(origin.0 & !Origin::SELF_FILE.0);
        }
        // A pickle is this program's own, whatever it was made of.
        if names.iter().any(|n| crate::rules::is_dump(n)) {
            origin = Origin(origin.0 & !Origin::PARAM.0);
        }
        let plain = names.iter().any(|n| {
            matches!(
                &**n,
                "len"
                    | "int"
                    | "isinstance"
                    | "hash"
                    | "bool"
                    | "float"
                    | "id"
                    | "os.path.exists"
                    | "os.path.getsize"
                    | "os.path.isfile"
                    | "os.path.isdir"
                    | "os.path.dirname"
                    | "os.path.basename"
                    | "os.path.split"
                    | "os.path.splitext"
            )
        });
        if plain {
            return result;
        }
        let clean = !names.is_empty() && names.iter().all(|n| super::flow::cleans(n));
        let result = if clean {
            origin = Origin(origin.0 & !GIVEN.0);
            result.without(GIVEN)
        } else {
            result
        };
        let mut made = result.with_origin(Origin(origin.0 & !Origin::COMPUTED.0));
        if object.is_some_and(|(_, method)| entry::picks_administrator(method, kwargs)) {
            made.names.push(crate::rules::ADMINISTRATOR.into());
        }
        let made = Value { trail: made.trail.clone().or(trail), ..made };
        match names.first() {
            Some(name) => Self::sourced(made, name, at),
            None => made,
        }
    }

    /// Enters a function or class of the file: its parameters learn the arguments, and its result is
    /// returned.
    fn enter(&mut self, own: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) -> Value {
        let passed = |value: &Value| {
            Self::bound_at(value.clone(), StepKind::Passed, own.rsplit('.').next().unwrap_or(own), at)
        };
        let mut values = args.iter().chain(kwargs.iter().map(|(_, value)| value));
        let (with_way, named_with_way);
        let (args, kwargs) = if values.any(|value| value.trail.is_some()) {
            with_way = args.iter().map(passed).collect::<Vec<_>>();
            named_with_way =
                kwargs.iter().map(|(key, value)| (key.clone(), passed(value))).collect::<Vec<_>>();
            (&with_way[..], &named_with_way[..])
        } else {
            (args, kwargs)
        };
        if self.attributes.contains_key(own) && !self.functions.contains_key(own) {
            // A class: creates an instance, and its `__init__` learns the arguments.
            let init = format!("{own}.__init__");
            if self.functions.contains_key(init.as_str()) {
                self.learn(&init, args, kwargs);
            } else {
                self.constructed_by(own, args, kwargs);
            }
            return Value::name(&format!("@{own}()"));
        }
        if !self.functions.contains_key(own) {
            return Value::default();
        }
        self.learn(own, args, kwargs);
        if let Some(value) = self.inline(own, args, kwargs, at) {
            return value;
        }
        self.functions.get(own).map(|f| f.returns.clone()).unwrap_or_default()
    }

    fn learn(&mut self, own: &str, args: &[Value], kwargs: &[Named]) {
        let Some(names) = self.parameter_names(own) else { return };
        let Some(function) = self.functions.get_mut(own) else { return };
        let skip = usize::from(function.method);
        let by_position =
            args.iter().enumerate().filter_map(|(at, v)| Some((names.get(at + skip)?.clone(), v)));
        let by_name = kwargs.iter().filter(|(k, _)| &**k != "**").map(|(k, v)| (k.clone(), v));
        // `f(**given)`: any parameter may be among them.
        let spread = kwargs.iter().find(|(k, v)| &**k == "**" && v.origin.has(GIVEN)).map(|(_, v)| v);
        let rest = spread.into_iter().flat_map(|v| names.iter().skip(skip).map(move |n| (n.clone(), v)));
        for (name, value) in by_position.chain(by_name).chain(rest) {
            match function.params.iter_mut().find(|(own, _)| *own == name) {
                Some((_, known)) => *known = value.clone().or(known),
                None => function.params.push((name, value.clone())),
            }
        }
    }

    fn parameter_names(&self, own: &str) -> Option<Vec<Rc<str>>> {
        if own.starts_with("lambda") {
            return self.functions.get(own).map(|f| f.params.iter().map(|(n, _)| n.clone()).collect());
        }
        self.signatures.get(own).cloned()
    }

    /// Arguments that are executed as code, a command line or a query.
    fn sinks(&mut self, name: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) {
        if !self.emit {
            return;
        }
        let keyword = |names: &[&str]| kwargs.iter().find(|(k, _)| names.contains(&&**k)).map(|(_, v)| v);
        self.runs_file(name, args, kwargs);
        if let Some((language, position)) = model::sink(name) {
            let text = args
                .get(position)
                .or_else(|| keyword(&["cmd", "command", "source", "stmt", "sql", "query", "object"]));
            if let Some(value) = text.cloned() {
                self.executes(language, &value, at);
            }
        }
        match model::spawns(name) {
            Some(Spawn::List(position)) => {
                let program = args.get(position).or_else(|| keyword(&["args", "argv"])).cloned();
                let shell = keyword(&["shell"]).is_some_and(|v| v.truth() != Some(false));
                // A file as standard input, open or read.
                let fed = keyword(&["stdin", "input"]).and_then(opened);
                match program {
                    Some(value) if value.as_text().is_some() && value.names.is_empty() => {
                        if fed.is_some() {
                            crate::shell::fed(self.cx, std::slice::from_ref(&value), fed.as_deref(), at);
                        }
                        self.executes(Language::Bash, &value, at);
                    }
                    Some(Value { known: Some(Const::List(items)), .. }) if shell => {
                        if let Some(first) = items.first() {
                            self.executes(Language::Bash, &first.clone(), at);
                        }
                    }
                    Some(Value { known: Some(Const::List(items)), .. }) => {
                        crate::shell::fed(self.cx, &items, fed.as_deref(), at);
                    }
                    _ => {}
                }
            }
            Some(Spawn::Python) => {
                let line: Vec<Value> =
                    std::iter::once(Value::text("python3")).chain(args.iter().cloned()).collect();
                crate::shell::command(self.cx, &line, at);
            }
            Some(Spawn::Rest(position)) if args.len() > position => {
                crate::shell::command(self.cx, &args[position..], at);
            }
            _ => {}
        }
    }

    /// A script, given by its path, that the interpreter executes as its own.
    fn runs_file(&mut self, name: &str, args: &[Value], kwargs: &[Named]) {
        if matches!(
            name,
            "code.interact" | "code.InteractiveConsole" | "IPython.embed" | "pdb.set_trace" | "breakpoint"
        ) {
            self.cx.hand(HandedSource::Stdin, Executed::As(Language::Python));
        }
        // Files whose lines are executed: examples, and paths of packages.
        if matches!(name, "doctest.testfile" | "site.addpackage")
            && let Some(path) =
                args.get(usize::from(name == "site.addpackage")).and_then(Value::as_whole_text)
        {
            let path = path.to_owned();
            self.cx.hand(HandedSource::File(path), Executed::Unread(name.to_owned()));
        }
        let position = match name {
            "runpy.run_path"
            | "importlib.machinery.SourceFileLoader"
            | "imp.load_source"
            | "execfile"
            | "builtins.execfile"
            | "importlib.util.spec_from_file_location"
            | "py_compile.compile" => usize::from(!matches!(
                name,
                "runpy.run_path" | "execfile" | "builtins.execfile" | "py_compile.compile"
            )),
            _ => return,
        };
        let named =
            kwargs.iter().find(|(k, _)| matches!(&**k, "path" | "path_name" | "location" | "pathname"));
        if let Some(path) = args.get(position).or(named.map(|(_, v)| v)).and_then(Value::as_whole_text) {
            let path = path.to_owned();
            self.cx.hand(HandedSource::File(path), Executed::As(Language::Python));
        }
    }

    fn executes(&mut self, language: Language, value: &Value, at: (usize, usize)) {
        for name in &value.names {
            let read = name.strip_prefix("file:").and_then(|rest| rest.strip_suffix(".read()"));
            if let Some(path) = read {
                self.cx.hand(HandedSource::File(path.to_owned()), Executed::As(language));
            }
        }
        if value.origin.has(Origin::INPUT) {
            self.cx.hand(HandedSource::Input, Executed::As(language));
        }
        if let Some(text) = value.as_text() {
            let mut chain = value.chain.clone();
            if value.chain.is_empty() {
                chain.push(language.name());
            }
            let text = if language == Language::Python { text.trim_start() } else { text };
            self.cx.child(language, text, at, &chain);
        }
    }

    /// Functions that call their arguments.
    fn passes_on(&mut self, name: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) {
        self.evaluates(name, args, kwargs, at);
        let Some((position, keyword)) = model::calls_argument(name) else { return };
        let by_name = kwargs.iter().find(|(k, _)| &**k == keyword).map(|(_, v)| v);
        let Some(target) = by_name.or_else(|| args.get(position)).filter(|v| !v.names.is_empty()).cloned()
        else {
            return;
        };
        let listed = kwargs.iter().find(|(k, _)| &**k == "args").and_then(|(_, v)| v.elements());
        let mapped = model::maps_over(name);
        let rest: Vec<Value> = match listed {
            Some(items) => items,
            None if mapped => {
                let first = |v: &Value| v.elements().and_then(|items| items.into_iter().next());
                args.get(1).map(|v| vec![first(v).unwrap_or_else(|| self.element(v))]).unwrap_or_default()
            }
            // A list of arguments.
            None if !name.ends_with(".signal") && position > 0 && args.len() == position + 2 => {
                let only = &args[position + 1];
                let listed = matches!(only.known, Some(Const::List(_)));
                only.elements().filter(|_| listed).unwrap_or_else(|| vec![only.clone()])
            }
            None => args.iter().skip(position + 1).cloned().collect(),
        };
        self.invoke(&target, None, &rest, &[], at);
    }
}

/// Source without blanks, comments and continuations.
fn dense(source: &str) -> String {
    let lines = source.lines().map(|line| line.split_once('#').map_or(line, |(code, _)| code));
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace() && *c != '\\').collect()
}
