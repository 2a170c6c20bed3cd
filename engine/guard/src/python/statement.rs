//! Statements: bindings, control flow, definitions.

use super::packages::canonical;
use super::{Pending, Python, Scope, span};
use crate::value::{Const, Origin, Value};
use ruff_python_ast::{ExceptHandler, Expr, Stmt};
use ruff_text_size::Ranged;
use std::rc::Rc;

use crate::feed::Registry;
use crate::language::Language;
use crate::report::StepKind;
use crate::rules::{Spot, TextKind};

impl<'a> Python<'_, '_, 'a> {
    pub(super) fn block(&mut self, body: &'a [Stmt]) {
        let outer = self.spot;
        for statement in body {
            if !self.cx.tick() {
                break;
            }
            self.statement(statement);
            // Statements behind `if …: continue` are under a condition.
            if let Stmt::If(stmt) = statement
                && super::guards::diverts(&stmt.body)
            {
                self.spot |= Spot::CHOSEN;
            }
        }
        self.spot = outer;
    }

    fn statement(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(def) => {
                let name = self.qualified(def.name.as_str());
                let mut value = Value::name(&format!("@{name}"));
                for decorator in def.decorator_list.iter().rev() {
                    value = self.decorated(decorator, &value);
                }
                for parameter in def.parameters.iter_non_variadic_params() {
                    if let Some(default) = &parameter.default {
                        self.value(default);
                    }
                }
                let is_static = def
                    .decorator_list
                    .iter()
                    .any(|d| matches!(&d.expression, Expr::Name(n) if n.id.as_str() == "staticmethod"));
                let class =
                    self.class.clone().filter(|_| self.scopes.last().is_some_and(|s| s.class) && !is_static);
                self.functions.entry(name.as_str().into()).or_default().method = class.is_some();
                let key: Rc<str> = name.as_str().into();
                let within = self.class.clone().filter(|_| class.is_some());
                self.enter_by(&key, &def.decorator_list, within.as_deref(), def.name.as_str());
                self.bind(def.name.as_str(), value);
                self.define(Pending {
                    name: name.as_str().into(),
                    params: &def.parameters,
                    body: &def.body,
                    class,
                });
            }
            Stmt::ClassDef(def) => self.class(def),
            Stmt::Return(ret) => {
                if let Some(expression) = &ret.value {
                    let value = self.value(expression);
                    self.returned(&value, span(ret.range()));
                }
            }
            Stmt::Delete(del) => del.targets.iter().for_each(|target| drop(self.value(target))),
            Stmt::Assign(assign) => {
                let value = self.value(&assign.value);
                for target in &assign.targets {
                    self.assign(target, value.clone());
                }
            }
            Stmt::AugAssign(assign) => {
                let (old, new) = (self.value(&assign.target), self.value(&assign.value));
                if self.emit
                    && self.spot & Spot::BUSY != 0
                    && (new.as_text().is_some()
                        || old.as_text().is_some()
                        || assign.op == ruff_python_ast::Operator::Mult)
                {
                    self.fact("memory.endless", span(assign.range()));
                }
                self.oversize(assign.op, &old, &new, span(assign.range()));
                let value = super::fold::binary(assign.op, &old, &new);
                self.assign(&assign.target, value);
            }
            Stmt::AnnAssign(assign) => {
                self.annotated(&assign.annotation);
                if let Some(value) = &assign.value {
                    let value = self.value(value);
                    self.assign(&assign.target, value);
                }
            }
            Stmt::For(stmt) => {
                let iterated = self.value(&stmt.iter);
                let element = self.element(&iterated);
                self.assign(&stmt.target, element);
                let endless = iterated
                    .names
                    .iter()
                    .any(|n| n.starts_with("itertools.count()") || n.starts_with("iter()"))
                    && !super::loops::ends(&stmt.body);
                let few = self.spot & Spot::LOOP == 0
                    && iterated.names.is_empty()
                    && iterated.count().is_some_and(|count| count <= 64);
                let outer = self.spot;
                self.spot =
                    if few { self.spot | Spot::FEW_CONSTANTS } else { self.spot & !Spot::FEW_CONSTANTS };
                let each = self.each_of(&iterated, &stmt.body).filter(|_| few);
                match each {
                    // A short loop over a few constants is walked once for each.
                    Some(items) => {
                        for item in items {
                            self.assign(&stmt.target, item);
                            self.looped(&stmt.body, false, false);
                        }
                    }
                    None => self.looped(&stmt.body, endless, iterated.origin.has(Origin::TREE)),
                }
                self.spot = outer;
                self.block(&stmt.orelse);
            }
            Stmt::While(stmt) => {
                if self.emit
                    && super::loops::proof_of_work(&self.source[span(stmt.range()).0..span(stmt.range()).1])
                {
                    self.fact("loop.proof_of_work", span(stmt.range()));
                }
                let test = self.value(&stmt.test);
                let endless = test.truth() == Some(true)
                    && super::loops::is_constant(&stmt.test)
                    && !super::loops::ends(&stmt.body);
                if endless && self.emit {
                    self.endless_loop(stmt);
                }
                let outer = self.spot;
                if endless && super::loops::is_busy(&stmt.body) {
                    self.spot |= Spot::BUSY;
                }
                self.looped(&stmt.body, endless && !super::loops::waits(&stmt.body), false);
                self.spot = outer;
                self.block(&stmt.orelse);
            }
            Stmt::If(stmt) => self.conditional(stmt),
            Stmt::With(stmt) => {
                for item in &stmt.items {
                    let value = self.value(&item.context_expr);
                    let value = self.entered(value, span(item.context_expr.range()));
                    if let Some(target) = &item.optional_vars {
                        self.assign(target, value);
                    }
                }
                self.block(&stmt.body);
            }
            Stmt::Match(stmt) => {
                let subject = self.value(&stmt.subject);
                for case in &stmt.cases {
                    self.pattern(&case.pattern, &subject);
                    if let Some(guard) = &case.guard {
                        self.value(guard);
                    }
                    self.branch(&case.body);
                }
            }
            Stmt::Raise(stmt) => {
                stmt.exc.iter().chain(&stmt.cause).for_each(|e| drop(self.value(e)));
            }
            Stmt::Try(stmt) => {
                self.block(&stmt.body);
                for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                    self.branch(&handler.body);
                }
                self.block(&stmt.orelse);
                self.block(&stmt.finalbody);
            }
            Stmt::Assert(stmt) => {
                self.value(&stmt.test);
                stmt.msg.iter().for_each(|e| drop(self.value(e)));
                let checked = self.checked(&stmt.test);
                self.trust(&checked.if_true);
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    self.imported(module, span(alias.range()));
                    match &alias.asname {
                        Some(name) => self.bind(name.as_str(), Value::name(module)),
                        None => {
                            let top = module.split('.').next().unwrap_or(module);
                            self.bind(top, Value::name(top));
                        }
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |m| m.as_str());
                let dots = ".".repeat(import.level as usize);
                if import.level == 0 {
                    self.imported(module, span(import.range()));
                }
                for alias in &import.names {
                    let name = alias.name.as_str();
                    if name == "*" {
                        if self.emit {
                            self.cx.pass_on(None, &format!("{dots}{module}"), span(alias.range()));
                        }
                        self.bind_star(module);
                        continue;
                    }
                    let full = if module.is_empty() {
                        format!("{dots}{name}")
                    } else {
                        format!("{dots}{module}.{name}")
                    };
                    if self.emit && self.function.is_none() {
                        let own = alias.asname.as_ref().map_or(name, |n| n.as_str());
                        self.cx.pass_on(Some(own), &full, span(alias.range()));
                    }
                    let value = self.named(canonical(&full));
                    self.bind(alias.asname.as_ref().map_or(name, |n| n.as_str()), value);
                }
            }
            Stmt::Global(stmt) => {
                for name in &stmt.names {
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.globals.insert(name.as_str().into());
                    }
                }
            }
            Stmt::Expr(stmt) => {
                if let Expr::StringLiteral(doc) = &*stmt.value {
                    if self.emit {
                        self.cx.text(TextKind::Comment, doc.value.to_str(), span(doc.range()), &[]);
                    }
                    return;
                }
                let outer = self.spot;
                if self.flow.silent {
                    self.spot |= Spot::SILENT;
                }
                self.value(&stmt.value);
                self.spot = outer;
                self.after_statement(&stmt.value);
            }
            Stmt::IpyEscapeCommand(command) if self.emit => {
                self.notebook_line(command.kind, &command.value, span(command.range()));
            }
            Stmt::TypeAlias(_)
            | Stmt::Nonlocal(_)
            | Stmt::Pass(_)
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::IpyEscapeCommand(_) => {}
        }
    }

    fn conditional(&mut self, stmt: &'a ruff_python_ast::StmtIf) {
        self.value(&stmt.test);
        let outer = self.spot;
        // `if __name__ == "__main__"` chooses nothing.
        if !super::guards::is_main(&stmt.test) {
            self.spot |= Spot::CHOSEN;
        }
        self.branches(stmt);
        self.spot = outer;
    }

    fn branches(&mut self, stmt: &'a ruff_python_ast::StmtIf) {
        let checked = self.checked(&stmt.test);
        self.with_checked(&checked.if_true, |py| py.branch(&stmt.body));
        for clause in &stmt.elif_else_clauses {
            if let Some(test) = &clause.test {
                self.value(test);
                let own = self.checked(test);
                self.with_checked(&own.if_true, |py| py.branch(&clause.body));
            } else {
                self.with_checked(&checked.if_false, |py| py.branch(&clause.body));
            }
        }
        if super::guards::diverts(&stmt.body) {
            self.trust(&checked.if_false);
        }
        if let [last] = &stmt.elif_else_clauses[..]
            && last.test.is_none()
            && super::guards::diverts(&last.body)
        {
            self.trust(&checked.if_true);
        }
    }

    /// The few constants of a short loop, if walking it for each of them may yield more.
    fn each_of(&self, iterated: &Value, body: &[Stmt]) -> Option<Vec<Value>> {
        let Some(Const::List(items)) = iterated.known.as_ref().filter(|_| iterated.names.is_empty()) else {
            return None;
        };
        let telling = |item: &Value| {
            matches!(item.known, Some(Const::Text(_) | Const::List(_))) && item.origin == Origin::default()
                || !item.names.is_empty()
        };
        let short = super::inline::extent(body) <= super::inline::MAX_INLINE_BYTES / 2
            && (1..=12).contains(&items.len());
        (short && items.iter().all(telling)).then(|| items.to_vec())
    }

    fn looped(&mut self, body: &'a [Stmt], endless: bool, walk: bool) {
        let outer = self.spot;
        self.spot |= Spot::LOOP;
        if super::loops::serves(body) {
            self.spot |= Spot::SERVES;
        }
        if endless {
            self.spot |= Spot::ENDLESS;
        }
        if walk {
            self.spot |= Spot::WALK;
        }
        self.branch(body);
        self.spot = outer;
    }

    fn qualified(&self, name: &str) -> String {
        match (&self.class, &self.function) {
            (Some(class), _) if self.scopes.last().is_some_and(|s| s.class) => format!("{class}.{name}"),
            (_, Some(function)) => format!("{function}.{name}"),
            _ => name.to_owned(),
        }
    }

    pub(super) fn define(&mut self, pending: Pending<'a>) {
        let names =
            pending.params.iter_non_variadic_params().map(|p| p.parameter.name.as_str().into()).collect();
        self.signatures.insert(pending.name.clone(), names);
        for parameter in pending.params.iter() {
            parameter.annotation().into_iter().for_each(|hint| self.annotated(hint));
        }
        self.keep_validator(&pending);
        self.keep_body(&pending.name, Some(pending.params), Ok(pending.body), pending.class.clone());
        if let Some(list) = self.pending.last_mut() {
            list.push(pending);
        }
    }

    fn class(&mut self, def: &'a ruff_python_ast::StmtClassDef) {
        let name: Rc<str> = self.qualified(def.name.as_str()).into();
        let mut bases = Value::default();
        if let Some(arguments) = &def.arguments {
            for base in &arguments.args {
                let value = self.value(base);
                bases = value.or(&bases);
            }
            for keyword in &arguments.keywords {
                self.value(&keyword.value);
            }
        }
        self.attributes.insert(name.clone(), bases);
        let outer = self.class.replace(name.clone());
        self.scopes.push(Scope { class: true, ..Scope::default() });
        self.pending.push(Vec::new());
        self.block(&def.body);
        for statement in &def.body {
            if let Stmt::Assign(assign) = statement
                && let [Expr::Name(target)] = &assign.targets[..]
            {
                let value = self.quietly(&assign.value);
                self.keep_field(&name, target.id.as_str(), value);
            }
        }
        self.fields(&name, &def.body);
        self.flush();
        self.scopes.pop();
        self.class = outer;
        let mut value = Value::name(&format!("@{name}"));
        for decorator in def.decorator_list.iter().rev() {
            value = self.decorated(decorator, &value);
        }
        self.bind(def.name.as_str(), value);
    }

    fn decorated(&mut self, decorator: &'a ruff_python_ast::Decorator, value: &Value) -> Value {
        let at = span(decorator.range());
        let callee = self.value(&decorator.expression);
        if callee.is_named("exec")
            || callee.is_named("eval")
            || callee.names.iter().any(|n| super::model::sink(n).is_some_and(|(l, _)| l == Language::Bash))
        {
            self.fact("decorator.exec", at);
        }
        self.invoke(&callee, None, std::slice::from_ref(value), &[], at).or(value)
    }

    fn returned(&mut self, value: &Value, at: (usize, usize)) {
        let Some(name) = self.function.clone() else { return };
        if self.flow.entries.contains_key(&name) {
            self.fact_with("tool.answers", std::slice::from_ref(value), at);
        }
        if self.emit
            && (name.ends_with("__reduce__") || name.ends_with("__reduce_ex__"))
            && let Some(Const::List(items)) = &value.known
            && let Some(callee) = items.first().filter(|c| c.names.iter().any(|n| !n.starts_with('@')))
        {
            let dangerous = callee.names.iter().any(|n| {
                super::model::sink(n).is_some()
                    || super::model::spawns(n).is_some()
                    || matches!(&**n, "eval" | "exec")
            });
            if dangerous {
                self.fact("pickle.payload", at);
            }
            let args = items.get(1).and_then(Value::elements).unwrap_or_default();
            self.invoke(&callee.clone(), None, &args, &[], at);
        }
        let function = self.functions.entry(name).or_default();
        function.returns = value.clone().or(&function.returns);
    }

    pub(super) fn assign(&mut self, target: &'a Expr, value: Value) {
        match target {
            Expr::Name(name) => {
                let value = Self::bound_at(value, StepKind::Bound, name.id.as_str(), span(name.range()));
                self.bind(name.id.as_str(), value);
            }
            Expr::Tuple(tuple) => self.unpack(&tuple.elts, &value),
            Expr::List(list) => self.unpack(&list.elts, &value),
            Expr::Starred(starred) => self.assign(&starred.value, Value::default().made_of(&value)),
            Expr::Attribute(attribute) => {
                let owner = self.value(&attribute.value);
                let at = span(attribute.range());
                let value = Self::bound_at(value, StepKind::Stored, attribute.attr.as_str(), at);
                self.stored(&owner, attribute.attr.as_str(), &value, at);
            }
            Expr::Subscript(subscript) => {
                let owner = self.value(&subscript.value);
                let key = self.value(&subscript.slice);
                if self.emit && owner.is_named("os.environ") {
                    self.fact_with("env.set", &[key.clone(), value.clone()], span(subscript.range()));
                }
                if self.emit {
                    let at = span(subscript.range());
                    self.filled(&subscript.value, &owner, &key, &value, at);
                }
                // A container carries the origin of its content.
                if let Expr::Name(name) = &*subscript.value {
                    let trail = value.trail.clone();
                    let merged = owner.with_origin(value.origin);
                    if let Some(slot) =
                        self.scopes.iter_mut().rev().find_map(|s| s.vars.get_mut(name.id.as_str()))
                    {
                        slot.origin |= merged.origin;
                        slot.trail = slot.trail.take().or(trail);
                    }
                }
            }
            _ => {}
        }
    }

    fn unpack(&mut self, targets: &'a [Expr], value: &Value) {
        let starred = targets.iter().position(|target| matches!(target, Expr::Starred(_)));
        let items = value.elements().filter(|items| match starred {
            Some(_) => items.len() + 1 >= targets.len(),
            None => items.len() == targets.len(),
        });
        for (at, target) in targets.iter().enumerate() {
            let piece = match &items {
                // A starred target takes what is assigned to no other.
                Some(_) if starred == Some(at) => Value { known: None, chain: Vec::new(), ..value.clone() },
                Some(items) => {
                    let from_end = starred.is_some_and(|star| star < at);
                    let item = &items[if from_end { items.len() + at - targets.len() } else { at }];
                    Value {
                        trail: item.trail.clone().or_else(|| value.trail.clone()),
                        ..item.clone().with_origin(Origin(value.origin.0 & !Origin::COMPUTED.0))
                    }
                }
                None => Value { known: None, chain: Vec::new(), ..value.clone() },
            };
            self.assign(target, piece);
        }
    }

    /// `owner.name = value`.
    pub(super) fn stored(&mut self, owner: &Value, name: &str, value: &Value, at: (usize, usize)) {
        if matches!(name, "__doc__" | "description" | "instructions") {
            self.fact_with("model.text", std::slice::from_ref(value), at);
        }
        for own in &owner.names {
            if let Some(class) = own.strip_prefix('@') {
                let key: Rc<str> = format!("{}.{name}", class.trim_end_matches("()")).into();
                let older = self.attributes.get(&key).cloned().unwrap_or_default();
                self.attributes.insert(key, value.clone().or(&older));
                continue;
            }
            let place = format!("{own}.{name}");
            self.memory.written.insert(place.as_str().into());
            if super::objects::is_namespace(own) {
                self.keep_field(own, name, value.clone());
            }
            if self.emit {
                self.fact_with(&format!("set:{place}"), std::slice::from_ref(value), at);
            }
        }
    }

    /// `owner[name] = value` and the like, with a name that is not known.
    pub(super) fn stored_any(&mut self, owner: &Value) {
        for own in owner.names.iter().filter(|own| !own.starts_with('@')) {
            let own = own.strip_suffix(".__dict__").unwrap_or(own);
            self.memory.written.insert(format!("{own}.*").into());
        }
    }

    fn imported(&mut self, module: &str, at: (usize, usize)) {
        if self.emit {
            let name: Rc<str> = format!("import {module}").into();
            let top: Rc<str> = format!("import {}", module.split('.').next().unwrap_or(module)).into();
            let names = if name == top { vec![name] } else { vec![name, top] };
            let call = crate::rules::Call {
                names: &names,
                method: None,
                receiver: None,
                args: &[],
                kwargs: &[],
                context: self.spot,
            };
            self.cx.call(Language::Python, &call, at);
            self.cx.module(Registry::Pypi, module, at);
        }
    }

    fn bind_star(&mut self, module: &str) {
        let names: &[&str] = match module {
            "os" => &["system", "popen", "remove", "unlink", "fork", "walk", "execv", "environ", "kill"],
            "subprocess" => &["run", "Popen", "call", "check_output", "check_call", "getoutput"],
            "socket" => &["socket", "create_connection", "AF_INET", "SOCK_STREAM"],
            "shutil" => &["rmtree", "move", "copy"],
            "base64" => &["b64decode", "b85decode", "a85decode", "b32decode"],
            "pickle" => &["loads", "load"],
            "ctypes" => &["CDLL", "windll", "CFUNCTYPE"],
            _ => &[],
        };
        for name in names {
            self.bind(name, Value::name(&format!("{module}.{name}")));
        }
    }

    pub(super) fn notebook_line(
        &mut self,
        kind: ruff_python_ast::IpyEscapeKind,
        text: &str,
        at: (usize, usize),
    ) {
        use ruff_python_ast::IpyEscapeKind as Kind;
        match kind {
            Kind::Shell | Kind::ShCap => self.cx.child(Language::Bash, text, at, &["shell"]),
            Kind::Magic | Kind::Magic2 => {
                let (magic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                match magic {
                    "system" | "sx" | "bash" | "sh" | "script" => {
                        self.cx.child(Language::Bash, rest, at, &["shell"]);
                    }
                    "time" | "timeit" | "prun" | "capture" => {
                        self.cx.child(Language::Python, rest, at, &["python"]);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
