//! Results of library calls: decoders, imports, paths, getters and partial applications, followed without
//! running anything.

use super::call::Named;
use super::expression::{concat_all, environment, join_all};
use super::flow::GIVEN;
use super::objects::HELD;
use super::packages::canonical;
use super::{Python, fold, model};
use crate::artifact::ANY;
use crate::decode;
use crate::value::{Const, HOLE, Names, Origin, Value};
use smallvec::smallvec;
use std::rc::Rc;

impl Python<'_, '_, '_> {
    /// Result of a library call.
    pub(super) fn library(
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
                None if step == "url" => Value::default().made_of(input),
                None => Value::default().with_origin(Origin::UNPACKED).made_of(input),
            };
        }
        if let Some(value) = self.made_by_package(name, args, kwargs, at) {
            return value;
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
            "shutil.which" if text().is_some_and(|name| !crate::rules::is_shell(name)) => {
                Value::name(crate::rules::FOUND_PROGRAM)
            }
            "shlex.split" if args.len() == 1 => {
                let line = text().filter(|line| !line.contains(['\'', '"', '\\', '#']));
                line.map_or_else(Value::default, |line| {
                    Value::list(line.split_whitespace().map(Value::text).collect())
                })
            }
            // A function by its whole name in a text.
            "pkgutil.resolve_name"
            | "pydoc.locate"
            | "unittest.mock._importer"
            | "django.utils.module_loading.import_string"
            | "werkzeug.utils.import_string"
            | "importlib.metadata.EntryPoint().load"
            | "pkg_resources.EntryPoint().load"
            | "pkg_resources.EntryPoint().resolve" => {
                let given = if name.contains("EntryPoint") { object.map(|(owner, _)| owner) } else { first };
                let Some(key) = given.filter(|value| value.as_whole_text().is_some()).cloned() else {
                    return Value::name(&format!("{name}()"));
                };
                let plain = key.as_whole_text().unwrap_or("").replace(':', ".");
                let found = self.named(canonical(plain.trim()));
                self.reached(&found, &key, at);
                found
            }
            "importlib.metadata.EntryPoint" | "pkg_resources.EntryPoint" => {
                let named = kwargs.iter().find(|(k, _)| &**k == "value").map(|(_, v)| v);
                let target = named.or_else(|| args.get(1)).and_then(Value::as_whole_text);
                Value {
                    names: smallvec![format!("{name}()").into()],
                    ..target.map_or_else(Value::default, Value::text)
                }
            }
            // `{'()': 'os.system', …}`: what builds a handler, by its name.
            "logging.config.dictConfig" => {
                if first.is_some_and(|v| v.origin.has(Origin::NET | Origin::REQUEST)) {
                    self.fact("logging.received", at);
                }
                if let Some(settings) = first {
                    self.factories(settings, 0, at);
                }
                Value::default()
            }
            "logging.config.listen" => {
                self.fact("logging.received", at);
                Value::default()
            }
            "getattr" | "object.__getattribute__" | "inspect.getattr_static" => {
                let (Some(owner), Some(key)) = (first, args.get(1)) else { return Value::default() };
                let Some(member) = key.as_whole_text() else {
                    self.picks_unknown(owner, key, at);
                    let names = owner.names.iter().map(|name| any_of(name, key)).collect();
                    let given = Origin(key.origin.0 & GIVEN.0);
                    return Value { names, origin: given, ..Value::default() };
                };
                let found = self.member(owner, member, at);
                self.reached(&found, key, at);
                self.bound = Some((owner.clone(), member.to_owned()));
                found.with_origin(Origin(key.origin.0 & Origin::COMPUTED.0))
            }
            "setattr" => {
                if let (Some(owner), Some(key), Some(value)) =
                    (first, args.get(1).and_then(Value::as_whole_text), args.get(2))
                {
                    self.stored(owner, key, value, at);
                } else if let Some(owner) = first {
                    self.stored_any(owner);
                }
                Value::default()
            }
            "vars" => {
                first.into_iter().for_each(|owner| self.stored_any(owner));
                first.map_or_else(
                    || Value::name("vars()"),
                    |v| Value {
                        names: v.names.iter().map(|n| format!("{n}.__dict__").into()).collect(),
                        ..Value::default()
                    },
                )
            }
            "operator.attrgetter" | "operator.methodcaller" | "operator.itemgetter" => {
                let kind = name.rsplit('.').next().unwrap_or("");
                Value { names: smallvec![format!("?{kind}").into()], ..Value::list(args.to_vec()) }
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
            "repr" | "ascii" if first.and_then(quoted).is_some() => {
                first.and_then(quoted).unwrap_or_default()
            }
            "str" | "ascii" | "repr" | "format" | "memoryview" | "iter" | "copy.copy" | "os.fspath"
            | "os.path.abspath" | "os.path.realpath" | "os.path.normpath" => first.map_or_else(
                || Value::text(""),
                |v| {
                    if v.known.is_some() {
                        Value { names: Names::new(), ..fold::as_text_value(v) }
                    } else {
                        Value { names: Names::new(), ..v.clone() }
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
                let names = first.map(|v| v.names.clone()).unwrap_or_default();
                let names = names.into_iter().filter(|n| n.contains("()")).collect();
                let known = first.and_then(Value::elements);
                known.map_or_else(
                    || Value { names, ..Value::default() },
                    |items| Value {
                        chain: first.map(|v| v.chain.clone()).unwrap_or_default(),
                        ..Value::list(items)
                    },
                )
            }
            "dict" => Value::of(Const::Map(
                kwargs.iter().map(|(k, v)| (Value::text(k), v.clone())).collect::<Vec<_>>().into(),
            )),
            "reversed" => first.and_then(Value::elements).map_or_else(Value::default, |mut items| {
                items.reverse();
                // Reversed characters are a disguise; a reversed list is just a list.
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
            "re.sub" => substituted(args).unwrap_or_default(),
            "range" => range(args),
            "zip" | "enumerate" | "max" | "min" => Value::default(),
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
            "os.path.join" | "posixpath.join" => Value { names: Names::new(), ..join_all(args) },
            "pathlib.Path" | "pathlib.PurePath" | "pathlib.PosixPath" => {
                Value { names: smallvec!["pathlib.Path()".into()], ..join_all(args) }
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
            "pathlib.Path.home" => Value { names: smallvec!["pathlib.Path()".into()], ..Value::text("~") }
                .with_origin(Origin::HOME),
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
            // The function itself, as a member of a class.
            "staticmethod" | "classmethod" => first.cloned().unwrap_or_default(),
            "functools.partial" => first.map_or_else(Value::default, |target| {
                let bound = kwargs.iter().map(|(k, v)| (Value::text(k), v.clone())).collect::<Vec<_>>();
                let parts = vec![
                    Value { known: None, ..target.clone() },
                    Value::list(args.get(1..).unwrap_or(&[]).to_vec()),
                    Value::of(Const::Map(bound.into())),
                ];
                let mut names: Names = smallvec!["?partial".into()];
                names.extend(target.names.iter().cloned());
                Value { names, ..Value::list(parts) }
            }),
            "functools.reduce" => reduced(args),
            "filter" => filtered(args).or_else(|| args.get(1).cloned()).unwrap_or_default(),
            "itertools.islice" | "tqdm.tqdm" | "itertools.chain" => first.cloned().unwrap_or_default(),
            "os.walk" | "os.listdir" | "os.scandir" | "glob.glob" | "glob.iglob" | "os.fwalk" => {
                tree(name, first)
            }
            "pathlib.Path().rglob" | "pathlib.Path().glob" | "pathlib.Path().iterdir" => {
                tree(name, object.map(|(o, _)| o))
            }
            "subprocess.Popen" | "asyncio.create_subprocess_exec"
                if first.is_some_and(crate::rules::is_fed_interpreter)
                    || name != "subprocess.Popen"
                        && crate::rules::is_fed_interpreter(&Value::list(args.to_vec())) =>
            {
                Value {
                    names: smallvec![format!("{name}()").into(), "interpreter()".into()],
                    ..Value::default()
                }
            }
            "dataclasses.field" | "attr.ib" | "attr.field" | "attrs.field" | "pydantic.Field" => {
                self.default_of(args, kwargs, at)
            }
            "type" => Value::name("?type"),
            // A holder of one value.
            "contextvars.ContextVar().get"
            | "queue.Queue().get"
            | "queue.Queue().get_nowait"
            | "asyncio.Queue().get"
            | "asyncio.Queue().get_nowait"
            | "multiprocessing.Queue().get"
            | "collections.deque().pop"
            | "collections.deque().popleft"
            | "asyncio.Future().result"
            | "concurrent.futures.Future().result" => {
                let held = object.into_iter().flat_map(|(owner, _)| owner.names.iter());
                let instances = held.filter_map(|name| name.strip_prefix(HELD).map(Rc::<str>::from));
                let own: Rc<str> = format!("{name}()").into();
                Value { names: std::iter::once(own).chain(instances).collect(), ..Value::default() }
            }
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
                if let (Some(input), Some((_, "encode" | "decode"))) = (object.map(|(o, _)| o), object)
                    && input.known.is_none()
                {
                    return Value { names: Names::new(), ..input.clone() };
                }
                Value::name(&format!("{}()", &name[..name.floor_char_boundary(150)]))
            }
        }
    }

    /// Reports a member of a powerful module or of a native library whose name is not known.
    pub(super) fn picks_unknown(&mut self, owner: &Value, key: &Value, at: (usize, usize)) {
        // Among the names of a file are the modules that it imports.
        let is_any = || {
            let known = key.as_text().is_some_and(|text| !text.trim_matches(HOLE).is_empty());
            key.origin.has(GIVEN) && !known && owner.is_named("globals()")
        };
        let is_powerful = |name: &Rc<str>| model::is_powerful(name.strip_suffix(".__dict__").unwrap_or(name));
        if owner.names.iter().any(is_powerful) || is_any() {
            self.fact_with("reflection.unknown", std::slice::from_ref(key), at);
        }
    }

    /// Calls the functions that a description of log handlers names.
    fn factories(&mut self, settings: &Value, depth: usize, at: (usize, usize)) {
        const MAX_DEPTH: usize = 6;
        const MAX_ENTRIES: usize = 64;
        let Some(Const::Map(pairs)) = settings.known.as_ref().filter(|_| depth < MAX_DEPTH) else { return };
        let pairs = pairs.clone();
        for (key, value) in pairs.iter().take(MAX_ENTRIES) {
            if key.as_whole_text() == Some("()") {
                let function = match value.as_whole_text() {
                    Some(name) if value.names.is_empty() => self.named(canonical(name)),
                    _ => value.clone(),
                };
                self.reached(&function, value, at);
                self.invoke(&function, None, &[], &[], at);
            }
            self.factories(value, depth + 1, at);
        }
    }

    /// `map(function, items)`: each known item is mapped, for others only the kind.
    fn mapped(&mut self, args: &[Value], at: (usize, usize)) -> Value {
        let (Some(function), Some(given)) = (args.first().cloned(), args.get(1)) else {
            return Value::default();
        };
        let emit = std::mem::replace(&mut self.emit, false);
        let decoded = if function.is_named("chr") { Origin::DECODED } else { Origin::default() };
        let value = match given.elements().filter(|items| given.names.is_empty() && items.len() <= 65_536) {
            Some(items) => {
                let simple =
                    ["chr", "int", "str", "ord"].iter().find(|name| function.is_named(name)).copied();
                let most = if simple.is_some() { usize::MAX } else { 64 };
                let out: Vec<Value> = items
                    .iter()
                    .take(most)
                    .map(|item| match simple {
                        Some(name) => self.library(name, None, std::slice::from_ref(item), &[], at),
                        None => self.invoke(&function, None, std::slice::from_ref(item), &[], at),
                    })
                    .collect();
                if items.len() > most { Value::default() } else { Value::list(out) }
            }
            None => {
                let item = self.element(given);
                Value::list(vec![self.invoke(&function, None, &[item], &[], at)])
            }
        };
        self.emit = emit;
        value.with_origin(decoded)
    }

    /// Calls objects made by `operator` and `functools`: getters, callers and partial applications.
    pub(super) fn operator(
        &mut self,
        callee: &Value,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) -> Option<Value> {
        let kind = callee.names.first()?.strip_prefix('?')?;
        let Some(Const::List(parts)) = &callee.known else { return None };
        let parts = parts.clone();
        match kind {
            "partial" => {
                let [target, bound, named] = &parts[..] else { return None };
                let mut all = bound.elements().unwrap_or_default();
                all.extend_from_slice(args);
                let mut by_name = kwargs.to_vec();
                if let Some(Const::Map(pairs)) = &named.known {
                    by_name.extend(pairs.iter().filter_map(|(k, v)| Some((k.as_text()?.into(), v.clone()))));
                }
                Some(self.invoke(&target.clone(), None, &all, &by_name, at))
            }
            "attrgetter" => {
                let path = parts.first()?;
                if path.as_whole_text().is_none() {
                    self.picks_unknown(args.first()?, path, at);
                }
                let mut found = args.first()?.clone();
                for name in path.as_whole_text()?.split('.') {
                    found = self.member(&found, name, at);
                }
                self.reached(&found, path, at);
                Some(found.with_origin(Origin(path.origin.0 & Origin::COMPUTED.0)))
            }
            "methodcaller" => {
                let owner = args.first()?;
                if parts.first()?.as_whole_text().is_none() {
                    self.picks_unknown(owner, parts.first()?, at);
                }
                let name = parts.first()?.as_whole_text()?.to_owned();
                let method = self.member(owner, &name, at);
                Some(self.invoke(&method, Some((owner, &name)), &parts[1..], &[], at))
            }
            "itemgetter" if parts.len() == 1 => Some(self.item(args.first()?, parts.first()?, at)),
            _ => None,
        }
    }

    /// A file object: its path and mode are kept for rules to check, its content is unknown.
    fn opened(&mut self, args: &[Value], kwargs: &[Named]) -> Value {
        let path = args.first().cloned().unwrap_or_default();
        let mode = args
            .get(1)
            .or_else(|| kwargs.iter().find(|(k, _)| &**k == "mode").map(|(_, v)| v))
            .cloned()
            .unwrap_or_else(|| Value::text("r"));
        let mut origin = path.origin | Origin::FILE;
        let is_secret = |text: &str| crate::rules::is_secret(text) || crate::rules::basename(text) == ".env";
        if path.as_text().is_some_and(is_secret) {
            origin |= Origin::SECRET;
        }
        let trail = path.trail.clone();
        // Content that is executed later is read as a program.
        let name = path.as_whole_text().filter(|path| path.len() < 1024).map(str::to_owned);
        Value {
            names: std::iter::once(Rc::from("open()"))
                .chain(name.map(|name| Rc::from(format!("file:{name}"))))
                .collect(),
            known: Some(Const::List(vec![path, mode].into())),
            origin,
            chain: Vec::new(),
            trail,
        }
    }
}

/// Name of a member of which at most the beginning is known: `x.?`, `x.on_?`.
pub(super) fn any_of(owner: &str, key: &Value) -> Rc<str> {
    let begin = key.as_text().and_then(|text| text.split(HOLE).next()).unwrap_or("");
    let is_name = begin.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let begin = if is_name && !model::is_powerful(owner) { begin } else { "" };
    format!("{owner}.{begin}{ANY}").into()
}

/// `reduce` with an operator that concatenates.
fn reduced(args: &[Value]) -> Value {
    let items = args.get(1).and_then(Value::elements).filter(|items| items.len() <= 256);
    let (Some(function), Some(items)) = (args.first(), items) else {
        return Value::default();
    };
    let all: Vec<Value> = args.get(2).cloned().into_iter().chain(items).collect();
    if function.is_named("operator.truediv") {
        return join_all(&all);
    }
    if function.is_named("operator.add") || function.is_named("operator.concat") {
        return all.into_iter().reduce(|sum, v| crate::value::concat(&sum, &v)).unwrap_or_default();
    }
    Value::default()
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

/// A walk or a listing: it is far-reaching if it begins at the root or the home folder.
fn tree(name: &str, root: Option<&Value>) -> Value {
    let mut value = Value::name(&format!("{name}()")).with_origin(Origin::TREE);
    if let Some(root) = root {
        value.origin |= root.origin;
        if root.as_text().is_some_and(crate::rules::names_backups) {
            value.origin |= Origin::BACKUP;
        }
        let listing = matches!(name, "os.listdir" | "os.scandir" | "pathlib.Path().iterdir");
        let reaches = |t: &str| {
            // A pattern reaches from the folder before its first wildcard.
            let from = t
                .split_once(['*', '?', '['])
                .map_or(t, |(head, _)| head.rsplit_once('/').map_or("", |(d, _)| d));
            crate::rules::is_root_like(from) || from == "/" || t.starts_with("/*")
        };
        let wide = root.as_text().is_some_and(reaches)
            || root.origin.has(Origin::HOME)
                // A path that a function made of it lies somewhere below.
                && root.as_text().map_or(root.names.is_empty(), crate::rules::is_home_whole);
        if wide && !(listing && root.origin.has(Origin::TEMP)) {
            value.origin |= Origin::WIDE;
        }
    }
    value
}

/// A text as `repr` writes it, where nothing in it has to be escaped.
fn quoted(value: &Value) -> Option<Value> {
    let Some(Const::Text(text)) = &value.known else { return None };
    let is_plain = text.chars().all(|c| (' '..='~').contains(&c) && !matches!(c, '\'' | '\\'));
    is_plain.then(|| {
        Value { chain: value.chain.clone(), ..Value::text(&format!("'{text}'")) }.with_origin(value.origin)
    })
}

/// `filter(str.isalpha, text)`, and `filter(None, items)`.
fn filtered(args: &[Value]) -> Option<Value> {
    let [test, items] = args else { return None };
    let all = items.elements().filter(|_| items.names.is_empty())?;
    let kind = test.names.iter().find_map(|name| fold::is_kind(name.strip_prefix("str.")?));
    let is_nothing = matches!(test.known, Some(Const::Nothing));
    let passes = |item: &Value| match kind {
        Some(kind) => Some(item.as_whole_text()?.chars().all(kind)),
        None if is_nothing => item.truth(),
        None => None,
    };
    let mut stay = Vec::new();
    for item in all {
        if passes(&item)? {
            stay.push(item);
        }
    }
    Some(
        Value { chain: items.chain.clone(), ..Value::list(stay) }
            .with_origin(items.origin | Origin::COMPUTED),
    )
}

/// `re.sub` with an expression of characters alone.
fn substituted(args: &[Value]) -> Option<Value> {
    let (pattern, by, text) = (args.first()?, args.get(1)?, args.get(2)?);
    let plain = pattern
        .as_whole_text()
        .filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-, ".contains(&b)))?;
    fold::method(text, "replace", &[Value::text(plain), by.clone()])
}
