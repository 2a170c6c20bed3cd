//! Calls: what is called, with what, and what comes out.

use super::expression::{concat_all, environment, join_all};
use super::model::{self, Spawn};
use super::statement::canonical;
use super::{Python, fold, span};
use crate::decode;
use crate::rules::{Call, Language, Spot};
use crate::value::{Const, Origin, Value};
use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;
use std::borrow::Cow;
use std::rc::Rc;

type Named = (Rc<str>, Value);

impl<'a> Python<'_, '_, 'a> {
    pub(super) fn call(&mut self, call: &'a ExprCall) -> Value {
        let at = span(call.range());
        let mut args = Vec::new();
        let (callee, receiver) = self.callee(&call.func);
        for argument in &call.arguments.args {
            let value = self.value(argument);
            match (argument, value.elements()) {
                (Expr::Starred(_), Some(items)) => args.extend(items),
                _ => args.push(value),
            }
        }
        let mut kwargs: Vec<Named> = Vec::new();
        for keyword in &call.arguments.keywords {
            let value = self.value(&keyword.value);
            match (&keyword.arg, &value.known) {
                (Some(name), _) => kwargs.push((name.as_str().into(), value)),
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
        self.bound = None;
        let mut result = self.invoke(&callee, object, &args, &kwargs, at);
        if let Some((owner, name)) = object
            && owner.names.iter().all(|n| n.starts_with("?class"))
            && let Some(folded) = fold::method(owner, name, &args)
        {
            if folded.chain.len() > owner.chain.len() || folded.origin.has(Origin::DECODED) {
                self.tell_computed(&folded, at);
            }
            result = folded.or(&Value { known: None, ..result });
        }
        result
    }

    /// What is called, and what it is a member of: `x.y`, `getattr(x, 'y')`, `(z := x.y)`.
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

    /// Calls a value: tells it, follows it into functions of the file, and says what it returns.
    pub(super) fn invoke(
        &mut self,
        callee: &Value,
        object: Option<(&Value, &str)>,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) -> Value {
        let mut origin =
            args.iter().chain(kwargs.iter().map(|(_, v)| v)).fold(Origin::default(), |sum, v| sum | v.origin);
        if let Some((owner, _)) = object {
            origin |= owner.origin;
        }
        let mut names: Vec<Rc<str>> = Vec::new();
        let mut result = Value::default();
        for name in &callee.names {
            match name.strip_prefix('@') {
                Some(own) => {
                    let inner = self.enter(own, args, kwargs);
                    result = inner.or(&result);
                }
                None if !name.starts_with('?') => names.push(canonical(name).into()),
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
        }
        if unknown && let Some((_, method)) = object {
            let name = format!("?.{method}");
            origin |= model::origin(&name);
            self.sinks(&name, args, kwargs, at);
            if matches!(method, "submit" | "apply_async" | "run_in_executor" | "call_later" | "after") {
                self.passes_on(&name, args, kwargs, at);
            }
        }
        for name in &names {
            self.sinks(name, args, kwargs, at);
            self.passes_on(name, args, kwargs, at);
            self.huge_call(name, args, at);
            let own = self.library(name, object, args, kwargs, at);
            result = own.or(&result);
            origin |= model::origin(name);
        }
        // What a program prints does not lie where its arguments do.
        if names.iter().any(|n| model::origin(n).has(Origin::OUTPUT)) {
            origin = Origin(
                origin.0 & !(Origin::TEMP | Origin::TREE | Origin::WALK | Origin::HOME | Origin::WIDE).0,
            );
        }
        // Numbers and truths carry nothing of where they come from.
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
        if plain { result } else { result.with_origin(Origin(origin.0 & !Origin::COMPUTED.0)) }
    }

    /// A function or class of the file: its parameters learn, its result is returned.
    fn enter(&mut self, own: &str, args: &[Value], kwargs: &[Named]) -> Value {
        if self.attributes.contains_key(own) && !self.functions.contains_key(own) {
            // A class: an instance, and its `__init__` learns.
            let init = format!("{own}.__init__");
            if self.functions.contains_key(init.as_str()) {
                self.learn(&init, args, kwargs);
            }
            return Value::name(&format!("@{own}()"));
        }
        if !self.functions.contains_key(own) {
            return Value::default();
        }
        self.learn(own, args, kwargs);
        self.functions.get(own).map(|f| f.returns.clone()).unwrap_or_default()
    }

    fn learn(&mut self, own: &str, args: &[Value], kwargs: &[Named]) {
        let Some(names) = self.parameter_names(own) else { return };
        let Some(function) = self.functions.get_mut(own) else { return };
        let skip = usize::from(function.method);
        let by_position =
            args.iter().enumerate().filter_map(|(at, v)| Some((names.get(at + skip)?.clone(), v)));
        let by_name = kwargs.iter().map(|(k, v)| (k.clone(), v));
        for (name, value) in by_position.chain(by_name) {
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
                match program {
                    Some(value) if value.as_text().is_some() && value.names.is_empty() => {
                        self.executes(Language::Bash, &value, at);
                    }
                    Some(Value { known: Some(Const::List(items)), .. }) if shell => {
                        if let Some(first) = items.first() {
                            self.executes(Language::Bash, &first.clone(), at);
                        }
                    }
                    Some(Value { known: Some(Const::List(items)), .. }) => {
                        crate::shell::command(self.cx, &items, at);
                    }
                    _ => {}
                }
            }
            Some(Spawn::Rest(position)) if args.len() > position => {
                crate::shell::command(self.cx, &args[position..], at);
            }
            _ => {}
        }
    }

    fn executes(&mut self, language: Language, value: &Value, at: (usize, usize)) {
        if let Some(text) = value.as_text() {
            let mut chain = value.chain.clone();
            if value.chain.is_empty() {
                chain.push(language.name());
            }
            let text = if language == Language::Python { text.trim_start() } else { text };
            self.cx.child(language, text, at, &chain);
        }
    }

    /// Calls that call what they are given.
    fn passes_on(&mut self, name: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) {
        let Some((position, keyword)) = model::calls_argument(name) else { return };
        let by_name = kwargs.iter().find(|(k, _)| &**k == keyword).map(|(_, v)| v);
        let Some(target) = by_name.or_else(|| args.get(position)).filter(|v| !v.names.is_empty()).cloned()
        else {
            return;
        };
        let listed = kwargs.iter().find(|(k, _)| &**k == "args").and_then(|(_, v)| v.elements());
        let mapped = matches!(name, "map" | "filter");
        let rest: Vec<Value> = match listed {
            Some(items) => items,
            None if mapped => args
                .get(1)
                .map(|v| vec![v.elements().and_then(|i| i.into_iter().next()).unwrap_or_default()])
                .unwrap_or_default(),
            None => args.iter().skip(position + 1).cloned().collect(),
        };
        self.invoke(&target, None, &rest, &[], at);
    }

    /// What a library call returns.
    fn library(
        &mut self,
        name: &str,
        object: Option<(&Value, &str)>,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) -> Value {
        let first = args.first();
        let text = || first.and_then(Value::as_whole_text);
        if let (Some(step), Some(input)) = (model::decoder(name), first) {
            return match decode::apply(step, input) {
                Some(value) => {
                    self.tell_computed(&value, at);
                    value
                }
                None if step == "url" => Value::default().with_origin(input.origin),
                None => Value::default().with_origin(Origin::UNPACKED | input.origin),
            };
        }
        match name {
            "__import__" | "importlib.import_module" => {
                let Some(module) = text() else {
                    self.fact_with("import.dynamic", args, at);
                    return Value::name(&format!("{name}()"));
                };
                if first.is_some_and(|v| v.origin.has(Origin::COMPUTED)) && self.emit {
                    self.fact_with("import.computed", args, at);
                }
                let listed = args.len() > 3 || kwargs.iter().any(|(k, _)| &**k == "fromlist");
                let whole = name == "importlib.import_module" || listed;
                self.named(canonical(if whole { module } else { module.split('.').next().unwrap_or(module) }))
            }
            "getattr" | "object.__getattribute__" | "inspect.getattr_static" => {
                let (Some(owner), Some(key)) = (first, args.get(1)) else { return Value::default() };
                let Some(member) = key.as_whole_text() else {
                    let modules = owner.names.iter().any(|n| {
                        matches!(&**n, "os" | "subprocess" | "builtins" | "sys" | "importlib" | "ctypes")
                    });
                    if modules {
                        self.fact("reflection.unknown", at);
                    }
                    return Value {
                        names: owner.names.iter().map(|n| format!("{n}.?").into()).collect(),
                        ..Value::default()
                    };
                };
                let found = self.member(owner, member, at);
                self.reached(&found, key, at);
                self.bound = Some((owner.clone(), member.to_owned()));
                found.with_origin(Origin(key.origin.0 & Origin::COMPUTED.0))
            }
            "vars" => first.map_or_else(
                || Value::name("vars()"),
                |v| Value {
                    names: v.names.iter().map(|n| format!("{n}.__dict__").into()).collect(),
                    ..Value::default()
                },
            ),
            "operator.attrgetter" | "operator.methodcaller" => {
                Value { names: vec![format!("?attr:{}", text().unwrap_or("")).into()], ..Value::default() }
            }
            "chr" => first.and_then(Value::as_int).and_then(fold::char_of).map_or_else(Value::default, |c| {
                Value::text(c.encode_utf8(&mut [0; 4])).with_origin(Origin::COMPUTED)
            }),
            "ord" => first
                .and_then(Value::as_text)
                .and_then(|t| t.chars().next())
                .map_or_else(Value::default, |c| Value::int(i64::from(u32::from(c)))),
            "int" => {
                let base = args
                    .get(1)
                    .and_then(Value::as_int)
                    .and_then(|b| u32::try_from(b).ok())
                    .filter(|b| (2..=36).contains(b))
                    .unwrap_or(10);
                match first {
                    Some(v) if v.as_int().is_some() => v.clone(),
                    Some(v) => v
                        .as_text()
                        .and_then(|t| i64::from_str_radix(t.trim_start_matches("0x"), base).ok())
                        .map_or_else(Value::default, Value::int),
                    None => Value::int(0),
                }
            }
            "str" | "ascii" | "repr" | "format" | "memoryview" | "iter" | "copy.copy" | "os.fspath"
            | "os.path.abspath" | "os.path.realpath" | "os.path.normpath" => first.map_or_else(
                || Value::text(""),
                |v| {
                    if v.known.is_some() {
                        Value { names: Vec::new(), ..fold::as_text_value(v) }
                    } else {
                        Value { names: Vec::new(), ..v.clone() }
                    }
                },
            ),
            "bytes" | "bytearray" => first
                .and_then(|v| {
                    Some(
                        Value { chain: v.chain.clone(), ..Value::bytes(&v.as_bytes()?) }
                            .with_origin(v.origin | Origin::COMPUTED),
                    )
                })
                .unwrap_or_default(),
            "list" | "tuple" | "set" | "sorted" | "frozenset" => {
                first.and_then(Value::elements).map_or_else(Value::default, |items| Value {
                    chain: first.map(|v| v.chain.clone()).unwrap_or_default(),
                    ..Value::list(items)
                })
            }
            "dict" => Value::of(Const::Map(
                kwargs.iter().map(|(k, v)| (Value::text(k), v.clone())).collect::<Vec<_>>().into(),
            )),
            "reversed" => first.and_then(Value::elements).map_or_else(Value::default, |mut items| {
                items.reverse();
                // Characters turned around are a disguise; a list in another order is a list.
                let characters = items.len() > 1
                    && items
                        .iter()
                        .all(|i| i.as_int().is_some() || i.as_text().is_some_and(|t| t.chars().count() == 1));
                if !characters {
                    return Value::list(items);
                }
                Value { chain: vec!["reversed"], ..Value::list(items) }.with_origin(Origin::DECODED)
            }),
            "map" => self.mapped(args, at),
            "range" => range(args),
            "zip" | "enumerate" => Value::default(),
            "codecs.decode" => {
                let codec = args.get(1).and_then(Value::as_text).unwrap_or("utf-8").to_ascii_lowercase();
                let value = first
                    .and_then(|v| fold::codec_decode(v, &codec))
                    .unwrap_or_else(|| Value::default().with_origin(Origin::UNPACKED));
                self.tell_computed(&value, at);
                value
            }
            "str.maketrans" => match (first.and_then(Value::as_text), args.get(1).and_then(Value::as_text)) {
                (Some(from), Some(to)) => Value::of(Const::Map(
                    from.chars()
                        .zip(to.chars())
                        .map(|(a, b)| (Value::text(&a.to_string()), Value::text(&b.to_string())))
                        .collect::<Vec<_>>()
                        .into(),
                )),
                _ => Value::default(),
            },
            "str.join" | "bytes.join" => {
                args.get(1).and_then(|items| fold::join(first?, items)).unwrap_or_default()
            }
            "operator.add" | "operator.concat" => concat_all(args),
            "os.path.join" | "posixpath.join" => Value { names: Vec::new(), ..join_all(args) },
            "pathlib.Path" | "pathlib.PurePath" | "pathlib.PosixPath" => {
                Value { names: vec!["pathlib.Path()".into()], ..join_all(args) }
            }
            "pathlib.Path().joinpath" => {
                let mut all = vec![object.map(|(o, _)| o.clone()).unwrap_or_default()];
                all.extend_from_slice(args);
                join_all(&all)
            }
            "pathlib.Path().resolve"
            | "pathlib.Path().absolute"
            | "pathlib.Path().expanduser"
            | "pathlib.Path().with_suffix" => object.map(|(o, _)| o.clone()).unwrap_or_default(),
            "pathlib.Path.home" => {
                Value { names: vec!["pathlib.Path()".into()], ..Value::text("~") }.with_origin(Origin::HOME)
            }
            "os.path.expanduser" | "os.path.expandvars" => {
                let home = text().is_some_and(|t| t.starts_with('~') || t.starts_with("$HOME"));
                first.cloned().unwrap_or_default().with_origin(if home {
                    Origin::HOME
                } else {
                    Origin::default()
                })
            }
            "os.getenv" | "os.environ.get" | "os.environ.pop" => {
                text().map_or_else(Value::default, environment)
            }
            "os.path.basename" | "os.path.dirname" | "os.path.split" | "os.path.splitext" => Value::default(),
            "globals" | "locals" => Value::name(&format!("{name}()")),
            "open" | "io.open_code" => self.opened(args, kwargs),
            "io.TextIOWrapper" | "io.BufferedReader" | "codecs.getreader()" => {
                first.cloned().unwrap_or_default()
            }
            "pathlib.Path().open" => {
                self.opened(&[object.map(|(o, _)| o.clone()).unwrap_or_default()], kwargs)
            }
            "functools.partial" => {
                first.map_or_else(Value::default, |v| Value { names: v.names.clone(), ..Value::default() })
            }
            "os.walk" | "os.listdir" | "os.scandir" | "glob.glob" | "glob.iglob" | "os.fwalk" => {
                tree(name, first)
            }
            "pathlib.Path().rglob" | "pathlib.Path().glob" | "pathlib.Path().iterdir" => {
                tree(name, object.map(|(o, _)| o))
            }
            "type" => Value::name("?type"),
            // Without a count it never ends.
            "itertools.repeat" if args.len() == 1 && kwargs.is_empty() => Value::name("?huge"),
            "mmap.mmap"
                if kwargs.iter().any(|(k, v)| &**k == "prot" && v.as_int().is_some_and(|n| n & 4 != 0)) =>
            {
                self.fact("mapped.executable", at);
                Value::name("mmap.mmap()").with_origin(Origin::MAPPED)
            }
            "ctypes.CFUNCTYPE()" if args.iter().any(|v| v.origin.has(Origin::MAPPED)) => {
                self.fact("mapped.executable", at);
                Value::default()
            }
            "socket.socket" => {
                if args
                    .iter()
                    .chain(kwargs.iter().map(|(_, v)| v))
                    .any(|v| v.is_named("socket.SOCK_RAW") || v.is_named("socket.AF_PACKET"))
                {
                    self.fact("raw.socket", at);
                }
                Value::name("socket.socket()")
            }
            _ => {
                if let Some((owner, _)) = object
                    && let Some(rest) =
                        name.strip_suffix(".__getattribute__").filter(|_| owner.names.len() == 1)
                    && let Some(key) = first
                    && let Some(member) = key.as_whole_text()
                {
                    let found = self.member(&Value::name(rest), member, at);
                    self.reached(&found, key, at);
                    return found.with_origin(Origin(key.origin.0 & Origin::COMPUTED.0));
                }
                if let Some(attribute) = name.strip_prefix("?attr:") {
                    return first.map_or_else(Value::default, |owner| self.member(owner, attribute, at));
                }
                if let (Some(input), Some((_, "encode" | "decode"))) = (object.map(|(o, _)| o), object)
                    && input.known.is_none()
                {
                    return Value { names: Vec::new(), ..input.clone() };
                }
                Value::name(&format!("{}()", &name[..name.floor_char_boundary(150)]))
            }
        }
    }

    fn mapped(&mut self, args: &[Value], at: (usize, usize)) -> Value {
        let (Some(function), Some(items)) = (args.first(), args.get(1).and_then(Value::elements)) else {
            return Value::default();
        };
        if !(function.is_named("chr")
            || function.is_named("int")
            || function.is_named("str")
            || function.is_named("ord"))
            || items.len() > 65_536
        {
            return Value::default();
        }
        let name = function.names[0].clone();
        let out: Vec<Value> =
            items.iter().map(|item| self.library(&name, None, std::slice::from_ref(item), &[], at)).collect();
        let decoded = if &*name == "chr" { Origin::DECODED } else { Origin::default() };
        Value::list(out).with_origin(decoded)
    }

    /// A file object: its path and mode are kept where rules can ask for them, its content is unknown.
    fn opened(&mut self, args: &[Value], kwargs: &[Named]) -> Value {
        let path = args.first().cloned().unwrap_or_default();
        let mode = args
            .get(1)
            .or_else(|| kwargs.iter().find(|(k, _)| &**k == "mode").map(|(_, v)| v))
            .cloned()
            .unwrap_or_else(|| Value::text("r"));
        let mut origin = path.origin | Origin::FILE;
        if path.as_text().is_some_and(crate::rules::is_secret) {
            origin |= Origin::SECRET;
        }
        Value {
            names: vec!["open()".into()],
            known: Some(Const::List(vec![path, mode].into())),
            origin,
            chain: Vec::new(),
        }
    }
}

fn range(args: &[Value]) -> Value {
    let numbers: Option<Vec<i64>> = args.iter().map(Value::as_int).collect();
    let (from, to, step) = match numbers.as_deref() {
        Some([to]) => (0, *to, 1),
        Some([from, to]) => (*from, *to, 1),
        Some([from, to, step]) if *step != 0 => (*from, *to, *step),
        _ => return Value::default(),
    };
    let count = to.saturating_sub(from) / step;
    if count >= 1 << 29 {
        return Value::name("?huge");
    }
    if !(0..=16_384).contains(&count) {
        return Value::default();
    }
    let list: Vec<Value> = (0..)
        .map(|n| from + n * step)
        .take_while(|n| if step > 0 { *n < to } else { *n > to })
        .map(Value::int)
        .collect();
    fold::list_of(list.into())
}

/// A walk or a listing: whether it begins at the root or at home decides how far it reaches.
fn tree(name: &str, root: Option<&Value>) -> Value {
    let mut value = Value::name(&format!("{name}()")).with_origin(Origin::TREE);
    if let Some(root) = root {
        value.origin |= root.origin;
        let listing = matches!(name, "os.listdir" | "os.scandir" | "pathlib.Path().iterdir");
        let wide = root.as_text().is_some_and(|t| crate::rules::is_root_like(t) || t == "/")
            || root.origin.has(Origin::HOME) && root.as_text().is_none_or(crate::rules::is_home_whole);
        if wide && !(listing && root.origin.has(Origin::TEMP)) {
            value.origin |= Origin::WIDE;
        }
    }
    value
}

/// Source without blanks, comments and continuations.
fn dense(source: &str) -> String {
    let lines = source.lines().map(|line| line.split_once('#').map_or(line, |(code, _)| code));
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace() && *c != '\\').collect()
}
