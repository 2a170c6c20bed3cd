//! Possible values of an expression.

use super::packages::{is_module, member, module};
use super::{Js, Name, fold};
use crate::artifact::ANY;
use crate::decode;
use crate::value::{Const, HOLE, Names, Origin, Value, concat, names_variable};
use oxc_ast::ast::{
    Argument, ArrayExpressionElement, CallExpression, Expression, ObjectPropertyKind, PropertyKey,
    TemplateLiteral,
};
use smallvec::smallvec;
use std::rc::Rc;

/// True for names of the global object.
fn is_global(name: &str) -> bool {
    matches!(name, "globalThis" | "window" | "self" | "global" | "top" | "parent" | "frames")
}

impl Js<'_, '_, '_> {
    pub(super) fn value(&mut self, expression: &Expression<'_>) -> Value {
        if !self.cx.tick() {
            return Value::default();
        }
        match expression {
            Expression::StringLiteral(text) => Value::text(text.value.as_str()),
            Expression::TemplateLiteral(template) => self.template(template),
            #[allow(clippy::cast_possible_truncation)]
            Expression::NumericLiteral(number) => Value::int(number.value as i64),
            Expression::BooleanLiteral(flag) => Value::of(Const::Bool(flag.value)),
            Expression::NullLiteral(_) => Value::of(Const::Nothing),
            Expression::Identifier(name) => {
                let own = self.referred(name);
                self.stands_for(&own, name.name.as_str())
            }
            Expression::ArrayExpression(array) => {
                let mut items = Vec::new();
                for element in &array.elements {
                    match element {
                        ArrayExpressionElement::SpreadElement(spread) => {
                            let value = self.value(&spread.argument);
                            let few = value.elements().filter(|all| all.len() <= fold::MAX_FOLLOWED_ELEMENTS);
                            items.extend(
                                few.unwrap_or_else(|| vec![Value::default().with_origin(value.origin)]),
                            );
                        }
                        ArrayExpressionElement::Elision(_) => items.push(Value::default()),
                        other => {
                            items.push(other.as_expression().map_or_else(Value::default, |e| self.value(e)));
                        }
                    }
                }
                Value::list(items)
            }
            Expression::ObjectExpression(object) => {
                let mut pairs = Vec::new();
                let mut sum = Value::default();
                let mut spread_modules = Names::new();
                for property in &object.properties {
                    let ObjectPropertyKind::ObjectProperty(property) = property else {
                        // `{ ...process.env }`.
                        if let ObjectPropertyKind::SpreadProperty(spread) = property {
                            let value = self.value(&spread.argument);
                            // An object that holds the environment among other things is not the environment.
                            let whole = value.is_named("process.env");
                            // `{ ...require('fs') }` has the members of the module.
                            spread_modules.extend(value.names.iter().filter(|name| is_module(name)).cloned());
                            sum = sum.made_of(&if whole { value } else { value.without(Origin::ENV) });
                        }
                        continue;
                    };
                    let key = match &property.key {
                        PropertyKey::StaticIdentifier(name) => Value::text(name.name.as_str()),
                        other => other.as_expression().map_or_else(Value::default, |e| self.value(e)),
                    };
                    let value = self.value(&property.value);
                    sum = sum.made_of(&value);
                    pairs.push((key, value));
                }
                let mut object = Value::of(Const::Map(pairs.into())).made_of(&sum);
                object.names.extend(spread_modules);
                object
            }
            Expression::ArrowFunctionExpression(arrow) => Value {
                names: smallvec!["?function".into(), format!("?@{}", arrow.span.start).into()],
                ..Value::default()
            },
            Expression::FunctionExpression(function) => Value {
                names: smallvec!["?function".into(), format!("?@{}", function.span.start).into()],
                ..Value::default()
            },
            Expression::ThisExpression(_) => self.instance(),
            Expression::ClassExpression(class) => Value::name(&format!("?class.{}", class.span.start)),
            Expression::AssignmentExpression(assign) => self.value(&assign.right),
            Expression::AwaitExpression(inner) => self.value(&inner.argument),
            Expression::ParenthesizedExpression(inner) => self.value(&inner.expression),
            Expression::TSTypeAssertion(inner) => self.value(&inner.expression),
            Expression::TSInstantiationExpression(inner) => self.value(&inner.expression),
            Expression::TSAsExpression(inner) => self.value(&inner.expression),
            Expression::TSNonNullExpression(inner) => self.value(&inner.expression),
            Expression::TSSatisfiesExpression(inner) => self.value(&inner.expression),
            Expression::SequenceExpression(list) => {
                list.expressions.last().map_or_else(Value::default, |e| self.value(e))
            }
            Expression::ConditionalExpression(either) => {
                let (yes, no) = (self.value(&either.consequent), self.value(&either.alternate));
                yes.or(&no)
            }
            Expression::LogicalExpression(either) => {
                let (left, right) = (self.value(&either.left), self.value(&either.right));
                let goes_on = match either.operator.as_str() {
                    "||" => left.truth() == Some(false),
                    "&&" => left.truth() == Some(true),
                    _ => matches!(left.known, Some(Const::Nothing)),
                };
                if goes_on { right.or(&left) } else { left.or(&right) }
            }
            Expression::BinaryExpression(binary) => {
                let (left, right) = (self.value(&binary.left), self.value(&binary.right));
                match binary.operator.as_str() {
                    "+" => concat(&left, &right),
                    operator if fold::binary(operator, &left, &right).is_some() => {
                        fold::binary(operator, &left, &right).unwrap_or_default()
                    }
                    "^" => Value::default().with_origin(
                        left.origin
                            | right.origin
                            | if left.as_int().is_none() { Origin::DECODED } else { Origin::default() },
                    ),
                    _ => Value::default().with_origin(left.origin | right.origin),
                }
            }
            Expression::UnaryExpression(unary) => {
                match (unary.operator.as_str(), self.value(&unary.argument).as_int()) {
                    ("-", Some(number)) => Value::int(number.saturating_neg()),
                    ("+", Some(number)) => Value::int(number),
                    _ => Value::default(),
                }
            }
            Expression::StaticMemberExpression(member) => {
                let owner = self.value(&member.object);
                self.member(&owner, member.property.name.as_str())
            }
            Expression::PrivateFieldExpression(member) => {
                let owner = self.value(&member.object);
                self.member(&owner, &format!("#{}", member.field.name))
            }
            Expression::ComputedMemberExpression(member) => {
                let owner = self.value(&member.object);
                let key = self.value(&member.expression);
                self.at(&owner, &key)
            }
            Expression::ChainExpression(chain) => match &chain.expression {
                oxc_ast::ast::ChainElement::CallExpression(call) => self.called(call),
                other => other.as_member_expression().map_or_else(Value::default, |member| {
                    let owner = self.value(member.object());
                    member
                        .static_property_name()
                        .map_or_else(Value::default, |name| self.member(&owner, name))
                }),
            },
            Expression::CallExpression(call) => self.called(call),
            Expression::NewExpression(new) => {
                let callee = self.value(&new.callee);
                let args = self.arguments(&new.arguments);
                let value = self.result(&callee, None, None, &args);
                self.made(&callee, value)
            }
            Expression::TaggedTemplateExpression(tagged) => {
                let tag = self.value(&tagged.tag);
                if tag.is_named("String.raw") {
                    self.template(&tagged.quasi)
                } else {
                    self.own_result(&tag, None).unwrap_or_default()
                }
            }
            Expression::ImportExpression(import) => {
                let source = self.value(&import.source);
                source.as_whole_text().map_or_else(Value::default, |text| Value::name(module(text)))
            }
            _ => Value::default(),
        }
    }

    fn stands_for(&self, own: &Name, name: &str) -> Value {
        if let Some(value) = self.vars.get(own) {
            return value.clone();
        }
        // Usually a parameter. Module loaders and page wrappers pass these under their own names.
        if let Name::Declared(symbol) = own
            && (self.scoping.symbol_flags(*symbol).is_function()
                || !(is_global(name) || matches!(name, "require" | "module" | "process" | "document")))
        {
            return Value::default();
        }
        if is_global(name) {
            return Value::name("globalThis");
        }
        origin_of(Value::name(name))
    }

    /// A property of the global object, which may be a top-level declaration of the script.
    fn global(&self, name: &str) -> Value {
        let outermost = self.scoping.get_root_binding(name.into());
        self.stands_for(&outermost.map_or_else(|| Name::Global(name.to_owned()), Name::Declared), name)
    }

    pub(super) fn template(&mut self, template: &TemplateLiteral<'_>) -> Value {
        let mut out = Value::text("");
        for (at, quasi) in template.quasis.iter().enumerate() {
            let text = quasi.value.cooked.as_ref().unwrap_or(&quasi.value.raw);
            out = concat(&out, &Value::text(text.as_str()));
            if let Some(expression) = template.expressions.get(at) {
                let value = self.value(expression);
                out = concat(
                    &out,
                    &if value.known.is_some() {
                        value
                    } else {
                        Value::text(&HOLE.to_string()).made_of(&value).with_origin(Origin::COMPUTED)
                    },
                );
            }
        }
        if template.expressions.is_empty() {
            out.origin = Origin(out.origin.0 & !Origin::COMPUTED.0);
        }
        out
    }

    /// `owner[key]`.
    fn at(&mut self, owner: &Value, key: &Value) -> Value {
        if let Some(text) = key.as_whole_text().filter(|_| key.as_int().is_none()) {
            let found = self.member(owner, text);
            return found.with_origin(Origin(key.origin.0 & (Origin::COMPUTED.0 | Origin::DECODED.0)));
        }
        if let (Some(items), Some(at)) = (owner.elements().filter(|_| owner.names.is_empty()), key.as_int())
            && let Some(item) = usize::try_from(at).ok().and_then(|at| items.get(at))
        {
            return item.clone();
        }
        let mut names = self.entries(owner);
        names.extend(owner.names.iter().filter(|n| n.len() < 160).map(|n| format!("{n}[]").into()));
        // Any function of another file, by a name that a caller gives.
        if key.origin.has(Origin::CALLER) {
            let files = owner.names.iter().filter(|n| n.starts_with('.') && n.len() < 160);
            names.extend(files.map(|n| format!("{n}.{ANY}").into()));
        }
        Value { names, ..Value::default().made_of(owner) }
    }

    /// `owner.name`.
    pub(super) fn member(&mut self, owner: &Value, name: &str) -> Value {
        // A single environment variable is not the whole environment.
        let one = owner.is_named("process.env") || names_variable(name);
        let keep = if one { !Origin::ENV.0 } else { !0 };
        let mut out = Value { origin: Origin(owner.origin.0 & keep), ..Value::default() };
        out.trail.clone_from(&owner.trail);
        if let Some(Const::Map(pairs)) = &owner.known
            && let Some((_, value)) = pairs.iter().rev().find(|(key, _)| key.as_text() == Some(name))
        {
            return value.clone();
        }
        if owner.is_named("process.env") {
            match name {
                "HOME" | "USERPROFILE" => return Value::text("~").with_origin(Origin::HOME),
                // The folder of the project that a package is installed in.
                "APPDATA" | "LOCALAPPDATA" | "INIT_CWD" => return Value::text(&format!("%{name}%")),
                // Only the clients of these services have a use for them.
                "NPM_TOKEN" | "AWS_SECRET_ACCESS_KEY" | "AWS_SESSION_TOKEN" | "SSH_PRIVATE_KEY" => {
                    return Value::default().with_origin(Origin::SECRET);
                }
                _ => {}
            }
        }
        for own in &owner.names {
            if own.len() > 160 || own.starts_with("?@") {
                continue;
            }
            if own.starts_with("?this.") || own.starts_with("?class.") {
                if let Some(value) = self.held(own, name) {
                    out = value.or(&out);
                }
                continue;
            }
            let full: String = match (&**own, name) {
                ("globalThis", name) if is_global(name) => "globalThis".to_owned(),
                ("globalThis", name) => {
                    let value = self.global(name);
                    out = value.or(&out);
                    continue;
                }
                // Any function leads to the constructor of functions in one step.
                ("?function" | "?method", "constructor") => "Function".to_owned(),
                ("?function", "__proto__") | ("Function", "prototype") => "?function".to_owned(),
                ("?function", "call" | "apply" | "bind") => "?function".to_owned(),
                ("Object", "constructor") | ("String" | "Array" | "Number" | "Boolean", "constructor") => {
                    "Function".to_owned()
                }
                ("?constructor", "constructor") => "Function".to_owned(),
                ("process.mainModule" | "module" | "require.main", "require") => "require".to_owned(),
                ("process.mainModule.constructor" | "module.constructor" | "module", "_load")
                | ("require", "main.require") => "require".to_owned(),
                (own, name) => member(own, name),
            };
            out = origin_of(Value::name(&full)).or(&out);
        }
        // Functions of the file are values like any other here.
        let is_own = |n: &Rc<str>| ["?@", "?this.", "?class."].iter().any(|kind| n.starts_with(kind));
        if owner.names.iter().all(is_own) {
            if name == "constructor" {
                out.names.push("?constructor".into());
            } else if owner.known.is_some() && !matches!(name, "length") {
                // A method of a literal.
                out.names.push("?method".into());
            }
        }
        out
    }

    pub(super) fn arguments(&mut self, arguments: &[Argument<'_>]) -> Vec<Value> {
        let mut out = Vec::new();
        for argument in arguments {
            match argument {
                Argument::SpreadElement(spread) => {
                    let value = self.value(&spread.argument);
                    out.extend(
                        value.elements().unwrap_or_else(|| vec![Value::default().with_origin(value.origin)]),
                    );
                }
                other => out.push(other.as_expression().map_or_else(Value::default, |e| self.value(e))),
            }
        }
        out
    }

    pub(super) fn called(&mut self, call: &CallExpression<'_>) -> Value {
        if let Some(value) = self.small_function(call) {
            return value;
        }
        let (callee, receiver, method) = self.callee(&call.callee);
        let args = self.arguments(&call.arguments);
        self.result(&callee, receiver.as_ref(), method.as_deref(), &args)
    }

    /// Function, receiver and method name of a call.
    pub(super) fn callee(&mut self, callee: &Expression<'_>) -> (Value, Option<Value>, Option<String>) {
        match callee {
            Expression::StaticMemberExpression(member) => {
                let owner = self.value(&member.object);
                let name = member.property.name.to_string();
                (self.member(&owner, &name), Some(owner), Some(name))
            }
            Expression::PrivateFieldExpression(member) => {
                let owner = self.value(&member.object);
                let name = format!("#{}", member.field.name);
                (self.member(&owner, &name), Some(owner), Some(name))
            }
            Expression::ComputedMemberExpression(member) => {
                let owner = self.value(&member.object);
                let key = self.value(&member.expression);
                let name = key.as_whole_text().map(str::to_owned);
                (self.at(&owner, &key), Some(owner), name)
            }
            Expression::ParenthesizedExpression(inner) => self.callee(&inner.expression),
            // `(0, client.send)(…)`, as compilers of TypeScript write it.
            Expression::SequenceExpression(list) if !list.expressions.is_empty() => {
                self.callee(&list.expressions[list.expressions.len() - 1])
            }
            other => (self.value(other), None, None),
        }
    }

    /// Result of a call.
    pub(super) fn result(
        &mut self,
        callee: &Value,
        receiver: Option<&Value>,
        method: Option<&str>,
        args: &[Value],
    ) -> Value {
        let mut origin = args.iter().fold(callee.origin, |sum, v| sum | v.origin)
            | receiver.map_or(Origin::default(), |r| r.origin);
        let trail = args.iter().chain(receiver).find_map(|v| v.trail.clone());
        let own = self.own_result(callee, method);
        let cleans = callee.names.iter().any(|n| {
            matches!(
                &**n,
                "Number"
                    | "parseInt"
                    | "parseFloat"
                    | "Number.parseInt"
                    | "encodeURIComponent"
                    | "path.basename"
                    | "fs.readFile"
                    | "fs.readFileSync"
                    | "shell-quote.quote"
                    | "Boolean"
                    | "shell-escape"
            )
        });
        // An entry of a fixed table, picked by a key.
        let picks = matches!(method, Some("get" | "find" | "indexOf"))
            && receiver.is_some_and(|r| !r.origin.has(Origin::CALLER));
        if own.is_some() || cleans || picks {
            origin = Origin(origin.0 & !Origin::CALLER.0);
        }
        // A program gets its environment and does not return it.
        let starts = |n: &Rc<str>| n.starts_with("child_process.") || &**n == "execa.command";
        if callee.names.iter().any(starts) {
            origin = Origin(origin.0 & !Origin::ENV.0);
        }
        // A list is made of what its callback returns.
        if matches!(method, Some("map" | "flatMap"))
            && let Some(element) = args.first().and_then(|callback| self.own_result(callback, None))
        {
            origin |= element.origin;
        }
        // A promise holds what its callback returns.
        let after = if method == Some("then") {
            args.first().and_then(|callback| self.own_result(callback, None))
        } else {
            None
        };
        if after.is_some() {
            origin = Origin(origin.0 & !Origin::CALLER.0);
        }
        if let (Some(owner), Some(method)) = (receiver.filter(|r| r.known.is_some()), method)
            && let Some(value) = fold::method(owner, method, args)
        {
            return value.with_origin(owner.origin);
        }
        // Another alphabet: `bytes.toString('hex')`.
        let alphabet = args.first().and_then(Value::as_whole_text);
        if method == Some("toString") && matches!(alphabet, Some("hex" | "base64" | "base64url"))
            || callee.names.iter().any(|name| matches!(&**name, "btoa" | "window.btoa"))
        {
            origin |= Origin::ENCODED;
        }
        // A module that is itself a function is named without an origin: `import get from 'node-fetch'`.
        origin |= callee.names.iter().fold(Origin::default(), |sum, name| sum | origin_by_name(name));
        origin |= super::reach::listed(callee, args);
        origin |= super::reach::found(callee, args);
        origin |= callee.names.iter().fold(Origin::default(), |sum, name| sum | self.message(name, args));
        let mut out = Value::default();
        for name in callee.names.iter().filter(|name| !name.starts_with("?@") && !name.starts_with("?this."))
        {
            let first = args.first();
            let text = first.and_then(Value::as_whole_text);
            let value = match &**name {
                "require" | "module.require" | "process.binding" | "process.getBuiltinModule" | "import" => {
                    text.into_iter().for_each(|module| self.classes.uses(module));
                    text.map_or_else(Value::default, |t| Value::name(module(t)))
                }
                "module.createRequire" | "createRequire" => Value::name("require"),
                "atob" | "Buffer.from" | "window.atob" => decoded(name, args),
                "String.fromCharCode" | "String.fromCodePoint" => characters(args),
                "unescape" | "decodeURIComponent" | "decodeURI" => {
                    first.and_then(|v| decode::apply("url", v)).unwrap_or_default()
                }
                "String.fromCharCode.apply" | "String.fromCodePoint.apply" => {
                    characters(&args.get(1).and_then(Value::elements).unwrap_or_default())
                }
                "String.fromCharCode.call" | "String.fromCodePoint.call" => {
                    characters(args.get(1..).unwrap_or(&[]))
                }
                "Array.from" | "Array.of" if args.len() == 1 => {
                    let items = first
                        .and_then(Value::elements)
                        .filter(|all| all.len() <= fold::MAX_FOLLOWED_ELEMENTS);
                    items.map_or_else(Value::default, |items| Value {
                        chain: first.map(|v| v.chain.clone()).unwrap_or_default(),
                        ..Value::list(items)
                    })
                }
                "String.raw" | "String" => first.cloned().unwrap_or_default(),
                "Object.assign" => assigned(args),
                "Reflect.get" => match (first, args.get(1)) {
                    (Some(owner), Some(key)) => self.at(&owner.clone(), &key.clone()),
                    _ => Value::default(),
                },
                // The prototype of a function leads to the constructor of functions, as the function itself does.
                "Object.getPrototypeOf" | "Reflect.getPrototypeOf"
                    if first.is_some_and(|f| f.is_named("?function") || f.is_named("Function.prototype")) =>
                {
                    Value::name("?function")
                }
                "Reflect.construct" => first.map_or_else(Value::default, |f| Value {
                    names: f.names.iter().map(|n| format!("{n}()").into()).collect(),
                    ..Value::default()
                }),
                "parseInt" | "Number" => {
                    first.and_then(Value::as_int).map_or_else(Value::default, Value::int)
                }
                "path.join" | "path.resolve" | "path.posix.join" => super::spelled::joined_path(args),
                "fs.readFile" | "fs.readFileSync" | "fs.createReadStream"
                    if first.and_then(Value::as_text).is_some_and(crate::rules::is_secret) =>
                {
                    Value::name(&format!("{name}()")).with_origin(Origin::SECRET | Origin::FILE)
                }
                "fs.createWriteStream" => Value {
                    names: smallvec![format!("{name}()").into()],
                    ..Value::list(args.first().cloned().into_iter().collect())
                },
                "os.homedir" => Value::text("~").with_origin(Origin::HOME),
                "util.promisify" => first.cloned().unwrap_or_default(),
                // These keep the text unchanged.
                _ if matches!(
                    method,
                    Some("toString" | "text" | "json" | "trim" | "then" | "data" | "bind")
                ) =>
                {
                    receiver.cloned().unwrap_or_default()
                }
                _ if self.closes_engine(name, args) => Value::name(&format!(
                    "{}{}()",
                    crate::rules::CLOSED_ENGINE,
                    &name[..name.floor_char_boundary(150)]
                )),
                _ => Value::name(&format!("{}()", &name[..name.floor_char_boundary(150)])),
            };
            out = value.or(&out);
        }
        if callee.names.iter().all(|n| n.starts_with("?@"))
            && matches!(method, Some("toString" | "text" | "json" | "trim"))
        {
            out = receiver.cloned().unwrap_or_default();
        }
        if let Some(after) = after {
            out = after.or(&out.without(Origin::CALLER));
        }
        if let Some(own) = own {
            out = out.or(&own);
        }
        if cleans {
            out = out.without(Origin::CALLER);
        }
        let out = out.with_origin(Origin(origin.0 & !Origin::COMPUTED.0));
        Value { trail: out.trail.clone().or(trail), ..out }
    }
}

/// Result of `Object.assign`: the first object, with the fields of the others that are known.
fn assigned(args: &[Value]) -> Value {
    let pairs: Vec<(Value, Value)> = args
        .iter()
        .filter_map(|value| match &value.known {
            Some(Const::Map(pairs)) => Some(pairs.iter().cloned()),
            _ => None,
        })
        .flatten()
        .take(fold::MAX_FOLLOWED_ELEMENTS)
        .collect();
    let names = args.first().map(|target| target.names.clone()).unwrap_or_default();
    Value { names, known: (!pairs.is_empty()).then(|| Const::Map(pairs.into())), ..Value::default() }
}

fn decoded(name: &str, args: &[Value]) -> Value {
    let Some(first) = args.first() else { return Value::default() };
    let step = match (name, args.get(1).and_then(Value::as_text)) {
        ("Buffer.from", Some("hex")) => "hex",
        ("Buffer.from", Some("base64" | "base64url")) | ("atob" | "window.atob", _) => "base64",
        // Numbers of characters.
        ("Buffer.from", None) if matches!(first.known, Some(Const::List(_))) => {
            let text = first.as_bytes().map(|bytes| Value::bytes(&bytes).decoded_by("characters", first));
            return text.unwrap_or_default();
        }
        _ => return Value { names: Names::new(), ..first.clone() },
    };
    let value = decode::apply(step, first);
    value.map_or_else(
        || Value::default().with_origin(Origin::DECODED | first.origin),
        |v| match v.as_text() {
            Some(text) => Value { known: Value::text(text).known, ..v.clone() },
            None => v,
        },
    )
}

pub(super) fn characters(args: &[Value]) -> Value {
    let text: Option<String> = args
        .iter()
        .map(|v| v.as_int().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32))
        .collect();
    match text {
        Some(text) if text.chars().count() > 2 => Value { chain: vec!["characters"], ..Value::text(&text) }
            .with_origin(Origin::DECODED | Origin::COMPUTED),
        Some(text) => Value::text(&text).with_origin(Origin::COMPUTED),
        // A single unknown character is ordinary; it hides something if a key was mixed in.
        None => {
            let mixed =
                args.iter().fold(Origin::default(), |sum, v| sum | Origin(v.origin.0 & Origin::DECODED.0));
            Value::default()
                .with_origin(mixed | if args.len() > 2 { Origin::UNPACKED } else { Origin::default() })
        }
    }
}

/// Adds where what a name holds, or a call returns, comes from.
pub(super) fn origin_of(mut value: Value) -> Value {
    if let Some(name) = value.names.first() {
        value.origin |= origin_by_name(name);
    }
    value
}

fn origin_by_name(name: &str) -> Origin {
    match name {
        "process.env" => Origin::ENV,
        "process.argv" | "prompt" | "location.search" | "location.hash" => Origin::INPUT,
        "document.cookie"
        | "localStorage"
        | "chrome.cookies"
        | "chrome.cookies.getAll"
        | "chrome.webRequest.onBeforeRequest.addListener"
        | "chrome.webRequest.onBeforeSendHeaders.addListener"
        | "chrome.webRequest.onSendHeaders.addListener"
        | "chrome.webRequest.onHeadersReceived.addListener"
        | "browser.cookies.getAll"
        | "browser.webRequest.onBeforeRequest.addListener"
        | "browser.webRequest.onBeforeSendHeaders.addListener"
        | "browser.webRequest.onSendHeaders.addListener"
        | "browser.webRequest.onHeadersReceived.addListener" => Origin::SECRET,
        "XMLHttpRequest"
        | "EventSource"
        | "eventsource.EventSource"
        | "eventsource"
        | "dns.resolveTxt"
        | "dns.resolve" => Origin::NET,
        "child_process.execSync" | "child_process.spawnSync" | "child_process.execFileSync" => Origin::OUTPUT,
        "fs.readFile" | "fs.readFileSync" | "fs.createReadStream" => Origin::FILE,
        "fs.readdir" | "fs.readdirSync" | "fs.globSync" | "glob.globSync" | "glob.sync" => Origin::TREE,
        "os.hostname" | "os.userInfo" | "os.networkInterfaces" => Origin::HOST,
        "os.homedir" => Origin::HOME,
        "os.tmpdir" => Origin::TEMP,
        "crypto.createDecipheriv"
        | "crypto.createDecipher"
        | "zlib.inflateSync"
        | "zlib.gunzipSync"
        | "zlib.brotliDecompressSync"
        | "CryptoJS.AES.decrypt" => Origin::DECODED,
        _ if crate::rules::is_request_of_javascript(name) => Origin::NET,
        _ if crate::rules::asks_model(name) => Origin::MODEL,
        _ => Origin::default(),
    }
}
