//! Expressions and their possible values.

use super::flow::GIVEN;
use super::library::any_of;
use super::packages::canonical;
use super::{Python, Scope, fold, model, span};
use crate::value::{Const, HOLE, Origin, Value, concat, names_variable};
use ruff_python_ast::{Expr, FStringPart, InterpolatedStringElement, Number, UnaryOp};
use ruff_text_size::Ranged;
use std::rc::Rc;

use crate::language::Language;

impl<'a> Python<'_, '_, 'a> {
    /// Evaluates an expression and reports every call and text in it.
    pub(super) fn value(&mut self, expression: &'a Expr) -> Value {
        if !self.cx.tick() {
            return Value::default();
        }
        match expression {
            Expr::Name(name) => self.name(name.id.as_str()),
            Expr::StringLiteral(literal) => {
                let text = literal.value.to_str();
                self.tell_text(text, span(literal.range()));
                Value::text(text)
            }
            Expr::BytesLiteral(literal) => {
                let bytes: Vec<u8> = literal.value.bytes().collect();
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    self.tell_text(text, span(literal.range()));
                }
                Value::bytes(&bytes)
            }
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(int) => Value::int(int.as_i64().unwrap_or(i64::MAX)),
                #[allow(clippy::cast_possible_truncation)]
                Number::Float(float) => Value::int(*float as i64),
                Number::Complex { .. } => Value::default(),
            },
            Expr::BooleanLiteral(flag) => Value::of(Const::Bool(flag.value)),
            Expr::NoneLiteral(_) => Value::of(Const::Nothing),
            Expr::Attribute(attribute) => {
                let owner = self.value(&attribute.value);
                self.member(&owner, attribute.attr.as_str(), span(attribute.range()))
            }
            Expr::Call(call) => self.call(call),
            Expr::Subscript(subscript) => self.subscript(subscript),
            Expr::BinOp(binary) => {
                let (left, right) = (self.value(&binary.left), self.value(&binary.right));
                self.oversize(binary.op, &left, &right, span(binary.range()));
                if binary.op == ruff_python_ast::Operator::Div
                    && left.names.iter().any(|n| n.starts_with("pathlib."))
                {
                    return path_join(&left, &right);
                }
                let value = fold::binary(binary.op, &left, &right);
                // Parts of a longer concatenation are reported once, by the outermost one, to save work.
                if value.as_text().is_some_and(|t| t.len() >= 4)
                    && matches!(binary.op, ruff_python_ast::Operator::Add | ruff_python_ast::Operator::Mod)
                {
                    self.tell_computed(&value, span(binary.range()));
                    self.spelled(&value, span(binary.range()));
                }
                value
            }
            Expr::UnaryOp(unary) => {
                let value = self.value(&unary.operand);
                match (unary.op, value.as_int(), value.truth()) {
                    (UnaryOp::USub, Some(n), _) => Value::int(n.saturating_neg()),
                    (UnaryOp::Invert, Some(n), _) => Value::int(!n),
                    (UnaryOp::Not, _, Some(flag)) => Value::of(Const::Bool(!flag)),
                    _ => Value::default().made_of(&value),
                }
            }
            Expr::BoolOp(op) => {
                let values: Vec<Value> = op.values.iter().map(|v| self.value(v)).collect();
                // The first that decides is the answer, where all before it are known.
                let ends = op.op == ruff_python_ast::BoolOp::Or;
                let passed = values.iter().take_while(|v| v.truth() == Some(!ends)).count();
                let (before, after) = values.split_at(passed.min(values.len().saturating_sub(1)));
                let all = after.iter().chain(before).cloned().collect::<Vec<_>>();
                all.into_iter().rev().reduce(|sum, v| v.or(&sum)).unwrap_or_default()
            }
            Expr::If(conditional) => {
                self.value(&conditional.test);
                let checked = self.checked(&conditional.test);
                let (mut yes, mut no) = (Value::default(), Value::default());
                self.with_checked(&checked.if_true, |py| yes = py.value(&conditional.body));
                self.with_checked(&checked.if_false, |py| no = py.value(&conditional.orelse));
                yes.or(&no)
            }
            Expr::Named(named) => {
                let value = self.value(&named.value);
                self.assign(&named.target, value.clone());
                value
            }
            Expr::Compare(compare) => {
                let left = self.value(&compare.left);
                let rights: Vec<Value> = compare.comparators.iter().map(|c| self.value(c)).collect();
                self.compared(compare, &left, &rights)
            }
            Expr::FString(fstring) => self.fstring(fstring),
            Expr::TString(_) | Expr::EllipsisLiteral(_) => Value::default(),
            // `listing = !ls`
            Expr::IpyEscapeCommand(command) => {
                if self.emit {
                    self.notebook_line(command.kind, &command.value, span(command.range()));
                }
                Value::default()
            }
            Expr::List(list) => self.listing(&list.elts),
            Expr::Tuple(tuple) => self.listing(&tuple.elts),
            Expr::Set(set) => self.listing(&set.elts),
            Expr::Dict(dict) => {
                let mut pairs = Vec::new();
                let mut sum = Value::default();
                for item in &dict.items {
                    let value = self.value(&item.value);
                    sum = sum.made_of(&value);
                    match &item.key {
                        Some(key) => pairs.push((self.value(key), value)),
                        None => {
                            if let Some(Const::Map(inner)) = &value.known {
                                pairs.extend(inner.iter().cloned());
                            }
                        }
                    }
                }
                self.tell_map(&pairs, span(dict.range()));
                Value::of(Const::Map(pairs.into())).made_of(&sum)
            }
            Expr::Starred(starred) => self.value(&starred.value),
            Expr::Await(inner) => self.value(&inner.value),
            Expr::YieldFrom(inner) => {
                let value = self.value(&inner.value);
                let value = self.element(&value);
                self.add_return(&value);
                value
            }
            Expr::Yield(inner) => match &inner.value {
                Some(inner) => {
                    let value = self.value(inner);
                    self.add_return(&value);
                    Value::default()
                }
                // A wrapper of a hook gets the report that the hooks inside it made.
                None => match &self.function {
                    Some(name) if name.ends_with("pytest_runtest_makereport") => {
                        Value::name("pytest.TestReport()")
                    }
                    _ => Value::default(),
                },
            },
            Expr::ListComp(comp) => self.listed(&comp.generators, &comp.elt),
            Expr::SetComp(comp) => self.listed(&comp.generators, &comp.elt),
            Expr::Generator(comp) => self.comprehension(&comp.generators, &comp.elt),
            Expr::DictComp(comp) => match &comp.key {
                Some(key) => {
                    let keys = self.comprehension(&comp.generators, key);
                    let values = self.comprehension(&comp.generators, &comp.value);
                    let pairs = (keys.elements(), values.elements());
                    match (keys.names.is_empty() && values.names.is_empty(), pairs) {
                        (true, (Some(keys), Some(all))) if keys.len() == all.len() => {
                            Value::of(Const::Map(keys.into_iter().zip(all).collect::<Vec<_>>().into()))
                        }
                        _ => Value::default(),
                    }
                    .made_of(&values)
                }
                None => Value::default(),
            },
            Expr::Lambda(lambda) => self.lambda(lambda),
            Expr::Slice(slice) => {
                slice.lower.iter().chain(&slice.upper).chain(&slice.step).for_each(|e| drop(self.value(e)));
                Value::default()
            }
        }
    }

    fn name(&mut self, name: &str) -> Value {
        self.lookup(name)
    }

    fn compared(&mut self, compare: &ruff_python_ast::ExprCompare, left: &Value, rights: &[Value]) -> Value {
        use ruff_python_ast::CmpOp;
        match (&compare.ops[..], rights, left.as_int()) {
            ([op], [right], Some(a)) => match (op, right.as_int()) {
                (CmpOp::Eq, Some(b)) => Value::of(Const::Bool(a == b)),
                (CmpOp::NotEq, Some(b)) => Value::of(Const::Bool(a != b)),
                (CmpOp::Lt, Some(b)) => Value::of(Const::Bool(a < b)),
                (CmpOp::Gt, Some(b)) => Value::of(Const::Bool(a > b)),
                _ => Value::default(),
            },
            _ => Value::default(),
        }
    }

    /// A value with its meaning in the library: its origin, and the constants of some names.
    pub(super) fn named(&self, name: &str) -> Value {
        let mut value = Value::name(name);
        value.origin = model::origin(name);
        match name {
            "string.ascii_lowercase" => value.known = Some(Const::Text("abcdefghijklmnopqrstuvwxyz".into())),
            "string.ascii_letters" => {
                value.known =
                    Some(Const::Text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".into()));
            }
            "sys.executable" => value.known = Some(Const::Text("python3".into())),
            "stat.S_ISUID" => value.known = Some(Const::Int(0o4000)),
            "stat.S_ISGID" => value.known = Some(Const::Int(0o2000)),
            "stat.S_IRWXU" => value.known = Some(Const::Int(0o700)),
            "stat.S_IRWXG" => value.known = Some(Const::Int(0o070)),
            "stat.S_IRWXO" => value.known = Some(Const::Int(0o007)),
            "stat.S_IXUSR" | "stat.S_IEXEC" => value.known = Some(Const::Int(0o100)),
            "stat.S_IXGRP" => value.known = Some(Const::Int(0o010)),
            "stat.S_IXOTH" => value.known = Some(Const::Int(0o001)),
            "os.O_RDONLY" => value.known = Some(Const::Int(0)),
            "os.O_WRONLY" => value.known = Some(Const::Int(1)),
            "os.O_RDWR" => value.known = Some(Const::Int(2)),
            "mmap.PROT_READ" => value.known = Some(Const::Int(1)),
            "mmap.PROT_WRITE" => value.known = Some(Const::Int(2)),
            "mmap.PROT_EXEC" => value.known = Some(Const::Int(4)),
            "os.sep" => value.known = Some(Const::Text("/".into())),
            _ => {}
        }
        value
    }

    /// Value of a member of the library.
    fn named_member(&mut self, own: &str, name: &str) -> Value {
        let mut full = std::mem::take(&mut self.memory.full);
        full.clear();
        full.push_str(own);
        full.push('.');
        full.push_str(name);
        let plain = canonical(&full);
        let value = match self.memory.named.get(plain) {
            Some(known) => known.clone(),
            None => {
                let value = self.named(plain);
                self.memory.named.insert(plain.into(), value.clone());
                value
            }
        };
        self.memory.full = full;
        value
    }

    /// `owner.name`.
    pub(super) fn member(&mut self, owner: &Value, name: &str, at: (usize, usize)) -> Value {
        // A neighbour of the program's own file is another file.
        let keep =
            if matches!(name, "parent" | "parents" | "name" | "stem") { !Origin::SELF_FILE.0 } else { !0 };
        let mut result = Value { origin: Origin(owner.origin.0 & keep), ..Value::default() };
        result.trail.clone_from(&owner.trail);
        // The last component of a path leads nowhere else.
        if matches!(name, "name" | "stem" | "suffix") && owner.names.iter().any(|n| n.starts_with("pathlib."))
        {
            result = result.without(super::flow::GIVEN);
        }
        for own in &owner.names {
            if let Some(class) = own.strip_prefix('@') {
                let class = class.trim_end_matches("()");
                let key = format!("{class}.{name}");
                if let Some(stored) = self.attributes.get(key.as_str()).cloned() {
                    result = self.described_by(stored, owner, at).or(&result);
                }
                if self.functions.contains_key(key.as_str()) {
                    result.names.push(format!("@{key}").into());
                } else if own.ends_with("()")
                    && !name.starts_with("__")
                    && !self.attributes.contains_key(key.as_str())
                    && let Some(found) = self.special(owner, "__getattr__", &[Value::text(name)], at)
                {
                    result = found.or(&result);
                }
                if let Some(bases) = self.attributes.get(class).cloned() {
                    for base in bases.names.iter().take(3) {
                        let inherited: Rc<str> = match base.strip_prefix('@') {
                            Some(base) => format!("@{base}.{name}").into(),
                            None => format!("{base}().{name}").into(),
                        };
                        // A handler of the library holds the body and the path of a request.
                        let held = self.origin_of(&inherited);
                        if held.has(Origin::REQUEST) {
                            result = Self::sourced(result.with_origin(held), name, at);
                        }
                        result.names.push(inherited);
                    }
                }
                continue;
            }
            if own.len() > 160 {
                continue;
            }
            if let Some(plain) = match (&**own, name) {
                (_, "__dict__") => Some(format!("{own}.__dict__")),
                ("builtins", _) if model::is_builtin(name) => Some(name.to_owned()),
                _ => None,
            } {
                if name == "__dict__" {
                    self.stored_any(&Value::name(own));
                }
                result.names.push(plain.into());
                continue;
            }
            if super::objects::is_namespace(own)
                && let Some(stored) = self.attributes.get(format!("{own}.{name}").as_str())
            {
                result = stored.clone().or(&result);
            }
            let known = self.named_member(own, name);
            let known = if self.is_written(own, name) { known.or(&Value::name("?written")) } else { known };
            let known = match known.names.first().cloned() {
                Some(full) => Self::sourced(known, &full, at),
                None => known,
            };
            result = known.or(&result);
        }
        if name == "__dict__" && result.names.is_empty() {
            result.names.push("?.__dict__".into());
        }
        if name.starts_with("__") {
            if self.emit {
                self.dunder(owner, name, at);
            }
            // `().__class__` can be reached from any object: it keeps a name of its own.
            if matches!(name, "__class__" | "__base__" | "__bases__" | "__mro__" | "__init__")
                && result.names.iter().all(|n| n.starts_with('?') || !n.contains("__"))
            {
                result.names.push("?class".into());
            }
        }
        result
    }

    /// True for a member that the file sets somewhere.
    fn is_written(&self, own: &str, name: &str) -> bool {
        let written = &self.memory.written;
        !written.is_empty()
            && (written.contains(format!("{own}.{name}").as_str())
                || written.contains(format!("{own}.*").as_str()))
    }

    /// Special attributes that lead from any object to the interpreter's internals.
    fn dunder(&mut self, owner: &Value, name: &str, at: (usize, usize)) {
        match name {
            "__subclasses__"
                if owner.names.iter().any(|n| {
                    &**n == "object"
                        || n.contains("__base")
                        || n.contains("__mro__")
                        || n.starts_with("?class")
                }) =>
            {
                self.fact("reflection.subclasses", at);
            }
            "__globals__" | "__builtins__" => {
                let escaped = owner.names.iter().any(|n| n.starts_with("?class"));
                if escaped {
                    self.fact("reflection.globals", at);
                }
            }
            _ => {}
        }
    }

    fn subscript(&mut self, subscript: &'a ruff_python_ast::ExprSubscript) -> Value {
        let owner = self.value(&subscript.value);
        if let Expr::Slice(slice) = &*subscript.slice {
            let mut bound = |e: &'a Option<Box<Expr>>| e.as_ref().map(|e| self.value(e));
            let (lower, upper, step) = (bound(&slice.lower), bound(&slice.upper), bound(&slice.step));
            let number = |v: &Option<Value>| match v {
                None => Some(None),
                Some(v) => v.as_int().map(Some).or(matches!(v.known, Some(Const::Nothing)).then_some(None)),
            };
            if owner.names.is_empty()
                && let (Some(lower), Some(upper), Some(step)) =
                    (number(&lower), number(&upper), number(&step))
                && let Some(value) = fold::slice(&owner, lower, upper, step.unwrap_or(1).clamp(-1024, 1024))
                    .filter(|_| step != Some(0))
            {
                self.spelled(&value, span(subscript.range()));
                return value;
            }
            return Value { known: None, ..owner }.without_origin(Origin::BACKUP);
        }
        let key = self.value(&subscript.slice);
        self.item(&owner, &key, span(subscript.range()))
    }

    /// Elements of a display, with unpacked ones expanded.
    fn listing(&mut self, elements: &'a [Expr]) -> Value {
        let mut items = Vec::with_capacity(elements.len());
        let mut spread = Value::default();
        for element in elements {
            let value = self.value(element);
            let is_spread = element.is_starred_expr() && value.names.is_empty();
            match if is_spread { value.elements() } else { None } {
                Some(inner) => items.extend(inner),
                None => {
                    spread = spread.made_of(&value);
                    items.push(value);
                }
            }
        }
        Value::list(items).made_of(&spread)
    }

    /// `owner[key]`.
    pub(super) fn item(&mut self, owner: &Value, key: &Value, at: (usize, usize)) -> Value {
        let mut result = Value::default();
        for own in &owner.names {
            if own.starts_with('@') {
                for method in ["__getitem__", "__missing__", "__class_getitem__"] {
                    if let Some(value) = self.special(owner, method, std::slice::from_ref(key), at) {
                        result = value.or(&result);
                        break;
                    }
                }
                continue;
            }
            if let Some(name) = self.program_at(own, key, at) {
                result.names.push(name);
                continue;
            }
            let Some(text) = key.as_whole_text() else {
                if own.ends_with(".__dict__") || own.starts_with("ctypes.") || &**own == "globals()" {
                    self.picks_unknown(&Value::name(own), key, at);
                }
                if let Some(base) = own.strip_suffix(".__dict__").filter(|_| key.origin.has(GIVEN)) {
                    result.names.push(any_of(base, key));
                    result.origin |= Origin(key.origin.0 & GIVEN.0);
                }
                result.names.push(format!("{own}[]").into());
                continue;
            };
            match &**own {
                "sys.modules" => result.names.push(text.into()),
                "globals()" | "locals()" | "vars()" => result = self.lookup(text).or(&result),
                "os.environ" => result = environment(text).or(&result),
                _ => match own.strip_suffix(".__dict__") {
                    Some(base) => {
                        let owner = Value::name(base);
                        let found = self.member(&owner, text, at);
                        self.reached(&found, key, at);
                        result = found.or(&result);
                    }
                    None => result.names.push(format!("{own}[]").into()),
                },
            }
        }
        if let Some(element) = fold::index(owner, key) {
            return element.or(&result);
        }
        let one = owner.is_named("os.environ") || key.as_whole_text().is_some_and(names_variable);
        let keep = if one { !Origin::ENV.0 } else { !0 };
        let listed = owner.names.iter().any(|n| n.ends_with(".__dict__"));
        // A function picked from a table by a caller's key: each is possible.
        if let Some(Const::Map(pairs)) = owner.known.as_ref().filter(|_| key.known.is_none()) {
            for (_, value) in
                pairs.iter().take(64).filter(|(_, v)| v.names.iter().any(|n| n.starts_with('@')))
            {
                result = Value { known: None, ..result.or(&Value { known: None, ..value.clone() }) };
            }
        }
        if listed {
            return result;
        }
        let trail = result.trail.clone().or_else(|| owner.trail.clone());
        Value { trail, ..result.with_origin(Origin(owner.origin.0 & keep)) }
    }

    /// Reports something dangerous reached by a name in a string; more severe when the string was assembled.
    pub(super) fn reached(&mut self, found: &Value, key: &Value, at: (usize, usize)) {
        let sensitive = found.names.iter().any(|name| {
            model::sink(name).is_some_and(|(l, _)| l != Language::Sql)
                || model::spawns(name).is_some()
                || matches!(&**name, "__import__" | "compile" | "ctypes.CDLL" | "marshal.loads")
        });
        if self.emit && sensitive {
            self.fact(
                if key.origin.has(Origin::COMPUTED) { "reflection.computed" } else { "reflection.constant" },
                at,
            );
        }
    }

    fn fstring(&mut self, fstring: &'a ruff_python_ast::ExprFString) -> Value {
        let mut text = String::new();
        let mut sum = Value::default();
        let mut pieces = 0;
        let mut chain = Vec::new();
        for part in fstring.value.iter() {
            match part {
                FStringPart::Literal(literal) => text.push_str(literal.as_str()),
                FStringPart::FString(inner) => {
                    for element in inner.elements.iter() {
                        match element {
                            InterpolatedStringElement::Literal(literal) => text.push_str(&literal.value),
                            InterpolatedStringElement::Interpolation(piece) => {
                                let value = self.value(&piece.expression);
                                sum = sum.made_of(&value);
                                pieces += 1;
                                if chain.is_empty() {
                                    chain.clone_from(&value.chain);
                                }
                                text.push_str(&value.text_or_hole());
                            }
                        }
                    }
                }
            }
        }
        let mut value = Value::text(&text).made_of(&sum);
        value.chain = chain;
        if pieces > 0 {
            value.origin |= Origin::COMPUTED;
            self.tell_computed(&value, span(fstring.range()));
            self.spelled(&value, span(fstring.range()));
        } else {
            self.tell_text(&text, span(fstring.range()));
        }
        value
    }

    /// Element that iterating over a value gives.
    pub(super) fn element(&self, iterated: &Value) -> Value {
        let first = if iterated.names.is_empty() { iterated.first() } else { None };
        match first {
            // Any element is possible: the first represents them with unknown content, unless it is a name.
            Some(first) if !first.names.is_empty() => first.made_of(iterated),
            Some(_) => Value::default().made_of(iterated),
            None => Value {
                names: iterated
                    .names
                    .iter()
                    .filter(|n| !n.starts_with('?') && n.len() < 160)
                    .map(|n| format!("{n}[]").into())
                    .collect(),
                ..Value::default().made_of(iterated)
            },
        }
    }

    fn lambda(&mut self, lambda: &'a ruff_python_ast::ExprLambda) -> Value {
        let mut scope = Scope::default();
        // A lambda in a function that is followed for one call differs in the next call.
        let frame = self.function.as_deref().and_then(|f| f.split_once('\'')).map_or("", |(_, id)| id);
        let name: Rc<str> = if frame.is_empty() {
            format!("lambda{}", u32::from(lambda.start())).into()
        } else {
            format!("lambda{}'{frame}", u32::from(lambda.start())).into()
        };
        self.keep_body(&name, lambda.parameters.as_deref(), Err(&lambda.body), None);
        let known = self.functions.entry(name.clone()).or_default().params.clone();
        for parameter in lambda.parameters.iter().flat_map(|p| p.iter_non_variadic_params()) {
            let own: Rc<str> = parameter.parameter.name.as_str().into();
            let value = known.iter().find(|(k, _)| *k == own).map(|(_, v)| v.clone()).unwrap_or_default();
            scope.vars.insert(own, value.with_origin(Origin::PARAM));
        }
        self.scopes.push(scope);
        let outer = std::mem::replace(&mut self.spot, 0);
        let result = self.value(&lambda.body);
        self.spot = outer;
        self.scopes.pop();
        let params: Vec<(Rc<str>, Value)> = match (&lambda.parameters, known.is_empty()) {
            (Some(p), true) => p
                .iter_non_variadic_params()
                .map(|p| (p.parameter.name.as_str().into(), Value::default()))
                .collect(),
            _ => known,
        };
        let function = self.functions.entry(name.clone()).or_default();
        function.params = params;
        function.returns = result;
        Value::name(&format!("@{name}"))
    }

    pub(super) fn add_return(&mut self, value: &Value) {
        if let Some(name) = self.function.clone() {
            let function = self.functions.entry(name).or_default();
            function.returns = value.clone().or(&function.returns);
        }
    }
}

/// An environment variable: the home folder by its usual name, others as text that a path can contain.
pub(super) fn environment(name: &str) -> Value {
    match name {
        "HOME" | "USERPROFILE" => Value::text("~").with_origin(Origin::HOME),
        "TMPDIR" | "TEMP" | "TMP" => Value::text("/tmp").with_origin(Origin::TEMP),
        "APPDATA" | "LOCALAPPDATA" | "PROGRAMDATA" => Value::text(&format!("%{name}%")),
        // Only the clients of these services have a use for them.
        "AWS_SECRET_ACCESS_KEY"
        | "AWS_SESSION_TOKEN"
        | "NPM_TOKEN"
        | "TWINE_PASSWORD"
        | "SSH_PRIVATE_KEY" => Value::default().with_origin(Origin::SECRET),
        _ => Value::default(),
    }
}

/// Joins paths: an absolute right side replaces the left.
pub(super) fn path_join(left: &Value, right: &Value) -> Value {
    let rest = right.text_or_hole();
    let text = if rest.starts_with('/') {
        rest
    } else {
        let mut text = left.text_or_hole();
        if !text.ends_with('/') {
            text.push('/');
        }
        text + &rest
    };
    let mut value = Value::text(&text).made_of(left).made_of(right);
    if text.starts_with(HOLE) && left.as_text().is_none() && right.as_text().is_none() {
        value.known = None;
    }
    value.names.clone_from(&left.names);
    value
}

/// Joins all values as one path.
pub(super) fn join_all(values: &[Value]) -> Value {
    values.iter().skip(1).fold(values.first().cloned().unwrap_or_default(), |sum, v| path_join(&sum, v))
}

/// Concatenates texts without a separator.
pub(super) fn concat_all(values: &[Value]) -> Value {
    values.iter().fold(Value::text(""), |sum, v| concat(&sum, v))
}
