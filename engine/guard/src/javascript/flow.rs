//! Values on their way: from the caller of a tool or a route, and through the functions and callbacks of a
//! file.

use super::guards;
use super::{Js, Name, span};
use crate::report::Argument::Position;
use crate::report::StepKind;
use crate::value::{Const, Names, Origin, Value};
use oxc_ast::ast::{
    Argument, BindingPattern, CallExpression, Expression, FormalParameters, IfStatement, ObjectExpression,
    ObjectPropertyKind, PropertyKey,
};
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, Span};
use rustc_hash::FxHashMap;

/// Origins that follow a value into functions.
pub(super) const FOLLOWED: Origin = Origin(
    Origin::CALLER.0
        | Origin::NET.0
        | Origin::SECRET.0
        | Origin::ENV.0
        | Origin::DECODED.0
        | Origin::UNPACKED.0
        | Origin::HOST.0
        | Origin::OUTPUT.0
        | Origin::FILE.0
        | Origin::MODEL.0,
);
/// Maximum number of learning walks of a file with entry points or functions that learn something.
pub(super) const MAX_LEARNING_WALKS: u32 = 3;

/// Origins of a value that follow it into functions and out of them; of a path below the home folder that one, too.
fn followed(value: &Value) -> Origin {
    const BELOW_HOME: u32 = Origin::HOME.0 | Origin::TREE.0;
    let is_path = value.origin.has(Origin::HOME) && value.as_text().is_some();
    Origin(value.origin.0 & (FOLLOWED.0 | if is_path { BELOW_HOME } else { 0 }))
}

/// Form of a parameter.
enum Shape {
    Name(Name),
    Object(Vec<(String, Shape)>),
    Nothing,
}

/// Function of the file, by the place where it begins.
#[derive(Default)]
struct Function {
    params: Vec<Shape>,
    returns: Value,
}

/// Knowledge that is kept from one walk to the next.
#[derive(Default)]
pub(super) struct Flow {
    functions: FxHashMap<u32, Function>,
    /// Methods by name; `None` for a name that several have.
    methods: FxHashMap<String, Option<u32>>,
    /// Functions that are being walked.
    pub(super) within: Vec<u32>,
    /// Number of this walk, from 1.
    pub(super) walk: u32,
    /// True when this walk taught a function something.
    pub(super) learnt: bool,
    /// Files that were written, and their content.
    pub(super) saved: Vec<(String, Value)>,
    /// True for a file that is a server of tools.
    pub(super) serves_models: bool,
    /// True for a file that closes the engines of its queries to files and the network.
    pub(super) closes_engine: bool,
}

fn shape(pattern: &BindingPattern<'_>) -> Shape {
    match pattern {
        BindingPattern::BindingIdentifier(name) => Shape::Name(Js::declared(name)),
        BindingPattern::ObjectPattern(object) => Shape::Object(
            object
                .properties
                .iter()
                .filter_map(|property| match &property.key {
                    PropertyKey::StaticIdentifier(key) => {
                        Some((key.name.to_string(), shape(&property.value)))
                    }
                    _ => None,
                })
                .collect(),
        ),
        BindingPattern::AssignmentPattern(pattern) => shape(&pattern.left),
        BindingPattern::ArrayPattern(_) => Shape::Nothing,
    }
}

/// Function that an expression is: where it begins, and its parameters.
pub(super) fn function<'e, 'a>(expression: &'e Expression<'a>) -> Option<(u32, &'e FormalParameters<'a>)> {
    match expression.get_inner_expression() {
        Expression::ArrowFunctionExpression(arrow) => Some((arrow.span.start, &arrow.params)),
        Expression::FunctionExpression(function) => Some((function.span.start, &function.params)),
        _ => None,
    }
}

/// True for expressions that can be a callback.
fn may_be_function(expression: &Expression<'_>) -> bool {
    function(expression).is_some()
        || matches!(
            expression.get_inner_expression(),
            Expression::Identifier(_) | Expression::StaticMemberExpression(_)
        )
}

/// True for methods that call a function with the value that they belong to.
fn hands_its_value(method: &str) -> bool {
    matches!(method, "then" | "on" | "once" | "addEventListener" | "map" | "forEach")
}

/// True for methods that register a tool with its handler.
fn registers_tool(method: &str) -> bool {
    matches!(method, "tool" | "registerTool" | "setRequestHandler" | "addTool" | "defineTool")
}

/// True for methods that register a route with its handler, on a server or a router.
fn registers_route(method: &str, owner: &str) -> bool {
    matches!(method, "get" | "post" | "put" | "delete" | "patch" | "all" | "ws")
        && matches!(owner, "app" | "router" | "api" | "server" | "fastify" | "routes" | "web")
}

impl<'a> Js<'_, '_, '_> {
    /// Remembers a function.
    pub(super) fn begin_function(&mut self, start: u32, params: &FormalParameters<'_>) {
        self.flow.within.push(start);
        self.begin_unused(None);
        self.flow.functions.entry(start).or_insert_with(|| Function {
            params: params.items.iter().map(|item| shape(&item.pattern)).collect(),
            returns: Value::default(),
        });
    }

    pub(super) fn end_function(&mut self) {
        self.end_unused();
        self.flow.within.pop();
    }

    /// Names a declared function, so that calls find it.
    pub(super) fn name_function(&mut self, name: Name, start: u32) {
        self.vars.entry(name).or_insert_with(|| Value::name(&format!("?@{start}")));
    }

    pub(super) fn name_method(&mut self, name: &str, start: u32) {
        let known = self.flow.methods.entry(name.to_owned()).or_insert(Some(start));
        if *known != Some(start) {
            *known = None;
        }
    }

    /// A result of the function that is being walked.
    pub(super) fn returned(&mut self, value: &Value) {
        let Some(function) = self.flow.within.last().and_then(|start| self.flow.functions.get_mut(start))
        else {
            return;
        };
        let origin = followed(value);
        let followed = Value {
            origin,
            known: value.known.clone().filter(|_| origin.has(Origin::HOME)),
            trail: value.trail.clone(),
            ..Value::default()
        };
        if followed.origin.0 & !function.returns.origin.0 != 0 {
            self.flow.learnt = true;
        }
        function.returns = std::mem::take(&mut function.returns).or(&followed);
    }

    /// Function of the file that is called.
    pub(super) fn own(&self, callee: &Value, method: Option<&str>) -> Option<u32> {
        let by_name = callee.names.iter().find_map(|name| name.strip_prefix("?@")?.parse().ok());
        by_name.or_else(|| {
            let plain = callee.names.iter().all(|n| n.starts_with('?'));
            self.flow.methods.get(method?).copied().flatten().filter(|_| plain)
        })
    }

    /// Functions of the file that a call may call: one, or the entries of a table.
    fn all_own(&self, callee: &Value, method: Option<&str>) -> Vec<u32> {
        let named: Vec<u32> =
            callee.names.iter().filter_map(|name| name.strip_prefix("?@")?.parse().ok()).collect();
        if named.is_empty() { self.own(callee, method).into_iter().collect() } else { named }
    }

    /// Results of a function of the file, for what rules ask about.
    pub(super) fn own_result(&self, callee: &Value, method: Option<&str>) -> Option<Value> {
        let all = self.all_own(callee, method).into_iter();
        all.filter_map(|start| Some(self.flow.functions.get(&start)?.returns.clone())).reduce(|a, b| a.or(&b))
    }

    /// Teaches the function of the file that a call calls, in the walks before the last.
    pub(super) fn taught(&mut self, call: &CallExpression<'a>) {
        let possible = match call.callee.get_inner_expression() {
            Expression::Identifier(name) => {
                let own = self.referred(name);
                self.vars.get(&own).is_some_and(|v| v.names.iter().any(|n| n.starts_with("?@")))
            }
            Expression::StaticMemberExpression(member) => {
                self.flow.methods.contains_key(member.property.name.as_str())
            }
            Expression::PrivateFieldExpression(member) => {
                self.flow.methods.contains_key(&format!("#{}", member.field.name))
            }
            // An entry of a table, by a key that is known later.
            Expression::ComputedMemberExpression(member) => {
                matches!(member.expression, Expression::Identifier(_) | Expression::StaticMemberExpression(_))
                    && matches!(member.object, Expression::Identifier(_))
            }
            _ => false,
        };
        if possible && !self.emit {
            let (callee, _, method) = self.callee(&call.callee);
            let args = self.arguments(&call.arguments);
            self.teach(&callee, method.as_deref(), &args, call.span);
        }
    }

    /// Teaches a function of the file where its arguments come from.
    pub(super) fn teach(&mut self, callee: &Value, method: Option<&str>, args: &[Value], at: Span) {
        for start in self.all_own(callee, method) {
            self.silent_too(start);
            let args: Vec<Value> = args
                .iter()
                .map(|value| match value.trail {
                    Some(_) => {
                        value.clone().stepped(StepKind::Passed, method.unwrap_or("function"), span(at))
                    }
                    None => value.clone(),
                })
                .collect();
            self.learn(start, &args);
        }
    }

    /// Number of parameters of a function.
    pub(super) fn parameters(&self, start: u32) -> usize {
        self.flow.functions.get(&start).map_or(0, |function| function.params.len())
    }

    pub(super) fn learn(&mut self, start: u32, args: &[Value]) {
        let Some(function) = self.flow.functions.remove(&start) else { return };
        for (shape, value) in function.params.iter().zip(args) {
            self.fill(shape, value);
        }
        self.flow.functions.insert(start, function);
    }

    /// Names the first parameter of a function.
    pub(super) fn names_parameter(&mut self, start: u32, name: &str) {
        let first = self.flow.functions.get(&start).and_then(|function| function.params.first());
        if let Some(Shape::Name(own)) = first {
            let own = own.clone();
            self.vars.insert(own, Value::name(name));
        }
    }

    fn fill(&mut self, shape: &Shape, value: &Value) {
        match shape {
            Shape::Name(name) => {
                let origin = followed(value);
                let known = match &value.known {
                    // A field that its schema closes keeps that.
                    Some(Const::Map(_)) if origin.has(Origin::CALLER) => value.known.clone(),
                    Some(Const::Text(_)) if origin.has(Origin::HOME) => value.known.clone(),
                    _ => None,
                };
                let names: Names =
                    value.names.iter().filter(|name| is_shared(name)).take(1).cloned().collect();
                if origin == Origin::default() && names.is_empty() {
                    return;
                }
                let older = self.vars.get(name).cloned().unwrap_or_default();
                if origin.0 & !older.origin.0 != 0 || names.iter().any(|name| !older.is_named(name)) {
                    self.flow.learnt = true;
                }
                let value = Value { origin, known, trail: value.trail.clone(), names, ..Value::default() };
                self.vars.insert(name.clone(), value.or(&older));
            }
            Shape::Object(fields) => {
                for (key, inner) in fields {
                    let member = self.member(value, key);
                    self.fill(inner, &member);
                }
            }
            Shape::Nothing => {}
        }
    }

    /// Teaches the functions that a call is given: handlers of tools and routes, and callbacks.
    pub(super) fn callbacks(&mut self, call: &CallExpression<'a>) {
        if !call.arguments.iter().any(|a| a.as_expression().is_some_and(may_be_function)) {
            return;
        }
        // `(0, server.tool)(…)`.
        let callee = match call.callee.get_inner_expression() {
            Expression::SequenceExpression(list) => list.expressions.last().unwrap_or(&call.callee),
            _ => &call.callee,
        };
        let (object, method) = match callee.get_inner_expression() {
            Expression::StaticMemberExpression(member) => {
                (&member.object, member.property.name.as_str().to_owned())
            }
            Expression::ComputedMemberExpression(member) => {
                let key = self.value(&member.expression);
                (&member.object, key.as_whole_text().unwrap_or_default().to_owned())
            }
            _ => return self.called_back(call, None),
        };
        let method = method.as_str();
        let owner = match object.get_inner_expression() {
            Expression::Identifier(name) => name.name.as_str(),
            Expression::StaticMemberExpression(inner) => inner.property.name.as_str(),
            _ => "",
        };
        let first_is_path = call.arguments.first().is_some_and(|a| match a {
            Argument::StringLiteral(text) => text.value.starts_with('/'),
            Argument::TemplateLiteral(_) => true,
            _ => false,
        });
        let tool = registers_tool(method) && call.arguments.len() >= 2;
        // `fastify.route({ url, handler })`.
        if method == "route"
            && let Some(Argument::ObjectExpression(object)) = call.arguments.first()
        {
            let mut handled = false;
            for property in &object.properties {
                if let ObjectPropertyKind::ObjectProperty(property) = property
                    && property.key.is_specific_static_name("handler")
                {
                    self.handles(&property.value, &[], false);
                    handled = true;
                }
            }
            if handled {
                return;
            }
        }
        let route = registers_route(method, owner) && first_is_path && call.arguments.len() >= 2;
        let connected = self.accepts_connections(method, call);
        let served = method == "createServer" || connected;
        if tool || route || served {
            let fields = if connected { super::classes::OF_CONNECTION } else { &[] };
            let of_server = fields.iter().map(|name| (*name).to_owned());
            let closed: Vec<String> = call
                .arguments
                .iter()
                .filter_map(|argument| match argument {
                    Argument::ObjectExpression(object) => Some(object),
                    _ => None,
                })
                .flat_map(|object| {
                    let mut fields = guards::closed_fields(object, self.source);
                    for property in &object.properties {
                        if let ObjectPropertyKind::ObjectProperty(property) = property
                            && let Expression::ObjectExpression(inner) = &property.value
                        {
                            fields.extend(guards::closed_fields(inner, self.source));
                        }
                    }
                    fields
                })
                .chain(of_server)
                .collect();
            let silent = tool && method != "setRequestHandler" && self.hides_sending(&call.arguments);
            let from = usize::from(route);
            let is_closed = tool
                && call.arguments.iter().any(|argument| match argument {
                    Argument::ObjectExpression(object) => guards::all_closed(object, self.source),
                    _ => false,
                });
            for argument in call.arguments.iter().skip(from) {
                if let Some(handler) = argument.as_expression() {
                    // Nothing that the caller gives is a text.
                    if is_closed && self.is_of_another_file(handler) {
                        continue;
                    }
                    self.handles(handler, &closed, silent);
                }
            }
            return;
        }
        self.called_back(call, Some(method));
    }

    fn is_of_another_file(&mut self, handler: &Expression<'a>) -> bool {
        let value = self.value(handler);
        function(handler).is_none()
            && value.names.iter().any(|name| name.starts_with('.'))
            && self.own(&value, None).is_none()
    }

    /// A handler of a tool or a route: its first parameter is what the caller gives.
    fn handles(&mut self, handler: &Expression<'a>, closed: &[String], silent: bool) {
        // `this.run.bind(this)`.
        if let Expression::CallExpression(call) = handler.get_inner_expression()
            && let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression()
            && member.property.name == "bind"
        {
            return self.handles(&member.object, closed, silent);
        }
        let start = match function(handler) {
            Some((start, params)) => {
                self.flow.functions.entry(start).or_insert_with(|| Function {
                    params: params.items.iter().map(|item| shape(&item.pattern)).collect(),
                    returns: Value::default(),
                });
                start
            }
            None => {
                let value = self.value(handler);
                match self.own(&value, None) {
                    Some(start) => start,
                    None => {
                        // A function of another file.
                        let at = span(handler.span());
                        let given = Value::default().with_origin(Origin::CALLER);
                        let given = given.stepped(StepKind::Source, "caller", at);
                        for name in value.names.iter().filter(|name| self.emit && name.starts_with('.')) {
                            self.cx.pass(name, Position(0), &given, silent, at);
                        }
                        return;
                    }
                }
            }
        };
        let pairs: Vec<(Value, Value)> =
            closed.iter().map(|key| (Value::text(key), Value::name("?closed"))).collect();
        let at = span(handler.span());
        let given =
            Value { known: (!pairs.is_empty()).then(|| Const::Map(pairs.into())), ..Value::default() };
        let given = given.with_origin(Origin::CALLER).stepped(StepKind::Source, "caller", at);
        self.learn(start, &[given]);
        if silent {
            self.is_silent(start);
        }
    }

    /// Handlers in the object that describes a tool: `{ description, execute: async ({ cmd }) => … }`.
    pub(super) fn described(&mut self, object: &ObjectExpression<'a>) {
        let key = |property: &ObjectPropertyKind<'a>| match property {
            ObjectPropertyKind::ObjectProperty(property) => match &property.key {
                PropertyKey::StaticIdentifier(name) => Some(name.name.to_string()),
                _ => None,
            },
            ObjectPropertyKind::SpreadProperty(_) => None,
        };
        let has = |name: &str| object.properties.iter().any(|p| key(p).as_deref() == Some(name));
        let schema =
            ["parameters", "inputSchema", "schema", "args", "input_schema"].iter().any(|name| has(name));
        // A tool without a description has a name and a schema of parameters at least.
        let named = has("name") && ["parameters", "inputSchema", "input_schema"].iter().any(|name| has(name));
        if !(has("description") && schema || named) {
            return;
        }
        let said = self.says_of(object);
        let silent = said.is_some_and(|said| !crate::instructions::says_that_it_sends(&said));
        for property in &object.properties {
            if let ObjectPropertyKind::ObjectProperty(inner) = property
                && matches!(
                    key(property).as_deref(),
                    Some("execute" | "handler" | "func" | "invoke" | "run" | "call")
                )
            {
                self.handles(&inner.value, &[], silent);
            }
        }
    }

    /// Callbacks: `.then(f)`, `readFile(path, f)`, `.on('data', f)`, `.map(f)`.
    fn called_back(&mut self, call: &CallExpression<'a>, method: Option<&str>) {
        let starts: Vec<u32> = call
            .arguments
            .iter()
            .filter_map(|argument| {
                let expression = argument.as_expression()?;
                let (start, params) = function(expression)?;
                self.flow.functions.entry(start).or_insert_with(|| Function {
                    params: params.items.iter().map(|item| shape(&item.pattern)).collect(),
                    returns: Value::default(),
                });
                Some(start)
            })
            .collect();
        if self.emit && method.is_some_and(hands_its_value) {
            self.executed_by_name(call);
        }
        if starts.is_empty() {
            return;
        }
        let (callee, receiver, _) = self.callee(&call.callee);
        let passed = match method {
            Some(
                "then" | "on" | "once" | "addEventListener" | "map" | "forEach" | "filter" | "flatMap"
                | "pipe" | "find" | "some",
            ) => receiver.unwrap_or_default(),
            // A promise's failure is not its value.
            Some("use") => return self.hooked(call, &receiver.unwrap_or_default()),
            Some("catch" | "finally") => return,
            _ => {
                let args: Vec<Value> = call
                    .arguments
                    .iter()
                    .filter_map(Argument::as_expression)
                    .filter(|e| function(e).is_none())
                    .map(|e| self.value(e))
                    .collect();
                let mut value = self.result(&callee, receiver.as_ref(), method, &args);
                // The caller chose the path or the command, not what comes back.
                value = value.without(Origin::CALLER);
                if callee.is_named("child_process.exec") || callee.is_named("child_process.execFile") {
                    value = value.with_origin(Origin::OUTPUT);
                }
                value
            }
        };
        let passed = Value { known: None, names: Names::new(), ..passed };
        let all = [passed.clone(), passed.clone(), passed];
        for start in starts {
            self.learn(start, &all);
        }
    }

    /// Reports functions of the language and of libraries that execute what they are called with, given as callbacks:
    /// `.then(eval)`.
    fn executed_by_name(&mut self, call: &CallExpression<'a>) {
        const EXECUTES: &[&str] = &[
            "eval",
            "Function",
            "vm.runInThisContext",
            "vm.runInNewContext",
            "child_process.exec",
            "child_process.execSync",
        ];
        for argument in call.arguments.iter().filter_map(Argument::as_expression) {
            let is_name = matches!(
                argument.get_inner_expression(),
                Expression::Identifier(_) | Expression::StaticMemberExpression(_)
            );
            let callback = if is_name { self.value(argument) } else { continue };
            if callback.names.iter().any(|name| EXECUTES.contains(&&**name)) {
                let (_, receiver, _) = self.callee(&call.callee);
                let given = Value { known: None, names: Names::new(), ..receiver.unwrap_or_default() };
                self.invoke(&callback, None, None, &[given], call.span);
            }
        }
    }

    /// Walks a condition, with what it vouches for.
    pub(super) fn conditional(&mut self, it: &IfStatement<'a>) {
        self.visit_expression(&it.test);
        let found = guards::checked(&it.test);
        let names = |js: &Self, all: &[&Expression<'_>]| -> Vec<Name> {
            all.iter()
                .filter_map(|e| match e {
                    Expression::Identifier(name) => Some(js.referred(name)),
                    _ => None,
                })
                .collect()
        };
        let (if_true, if_false) = (names(self, &found.if_true), names(self, &found.if_false));
        let before = self.trusted(&if_true);
        self.visit_statement(&it.consequent);
        self.restore(before);
        if let Some(alternate) = &it.alternate {
            let before = self.trusted(&if_false);
            self.visit_statement(alternate);
            self.restore(before);
            if guards::diverts(alternate) {
                self.trusted(&if_true);
            }
        }
        if guards::diverts(&it.consequent) {
            self.trusted(&if_false);
        }
    }

    /// Counts these names as checked; the values that they had.
    fn trusted(&mut self, names: &[Name]) -> Vec<(Name, Value)> {
        let mut before = Vec::new();
        for name in names {
            if let Some(value) = self.vars.get_mut(name)
                && value.origin.has(Origin::CALLER)
            {
                before.push((name.clone(), value.clone()));
                *value = std::mem::take(value).without(Origin::CALLER);
            }
        }
        before
    }

    fn restore(&mut self, before: Vec<(Name, Value)>) {
        for (name, value) in before {
            self.vars.insert(name, value);
        }
    }

    /// Remembers a file that is written.
    pub(super) fn saves(&mut self, name: &str, args: &[Value]) {
        let [path, content, ..] = args else { return };
        let written =
            matches!(name, "fs.writeFile" | "fs.writeFileSync" | "fs.appendFileSync" | "fs-extra.outputFile");
        if !written {
            return;
        }
        let key = path.text_or_hole();
        let known = key.chars().filter(char::is_ascii_alphanumeric).count();
        if known >= 3 && self.flow.saved.len() < 256 {
            self.flow.saved.push((key.trim_start_matches("./").to_owned(), content.clone()));
        }
    }

    /// Reports a call that starts or loads a file that was written.
    pub(super) fn starts(&mut self, name: &str, args: &[Value], at: Span) {
        let started = name.starts_with("child_process.")
            || matches!(name, "require" | "import" | "execa.command" | "shelljs.exec");
        if !started || self.flow.saved.is_empty() {
            return;
        }
        let plain = |text: &str| text.trim_matches(['"', '\'']).trim_start_matches("./").to_owned();
        let first = args.first().map_or_else(String::new, Value::text_or_hole);
        let mut lines: Vec<Vec<String>> = first
            .split([';', '&', '|', '\n'])
            .map(|line| line.split_whitespace().map(plain).collect())
            .collect();
        if let Some(Const::List(items)) = args.get(1).and_then(|v| v.known.as_ref()) {
            let rest = items.iter().take(16).map(|item| plain(&item.text_or_hole()));
            lines.push(std::iter::once(plain(&first)).chain(rest).collect());
        }
        let mentions =
            |key: &str| lines.iter().any(|line| crate::rules::started(line).iter().any(|word| word == key));
        let found = self.flow.saved.iter().find(|(key, _)| mentions(key)).map(|(_, content)| content.clone());
        if let Some(content) = found {
            let language = crate::language::Language::JavaScript;
            self.cx.fact_with(language, "saved.run", span(at), &[content], 0);
        }
    }
}

/// True for objects that all code of a page shares: a change of one by a function reaches the others.
fn is_shared(name: &str) -> bool {
    matches!(name, "ethereum" | "solana" | "phantom.solana" | "tronWeb" | "tronWeb.trx")
}
