//! Evaluates functions of the file with the arguments of one call.
//!
//! The arguments of a function are learnt from all its calls together, which is precise for one caller and
//! imprecise for many: `run("ls")` and `run("rm -rf /")` would become one call with either argument. Small
//! functions are therefore walked again for each call with a known argument, a limited number of times.

use super::{Python, Scope};
use crate::value::{Const, Origin, Value};
use ruff_python_ast::{Expr, Parameters, Stmt};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Maximum number of calls per file that are followed in this way.
const MAX_CALLS: u32 = 300;
/// Maximum nesting of followed calls.
const MAX_CALL_DEPTH: usize = 4;
/// Maximum size of a small function or loop body, in bytes of source.
pub(super) const MAX_INLINE_BYTES: usize = 1_200;
/// Maximum amount of source walked again for single calls, in bytes; the second walk of a file has a budget
/// of its own.
const MAX_REWALKED_BYTES: usize = 128 * 1024;

/// Parts of a function that are kept for later calls.
#[derive(Clone)]
pub(super) struct Body<'a> {
    params: Option<&'a Parameters>,
    code: Code<'a>,
    class: Option<Rc<str>>,
    /// Names of the enclosing function, if that was followed itself.
    around: Option<Rc<FxHashMap<Rc<str>, Value>>>,
}

#[derive(Clone, Copy)]
enum Code<'a> {
    Block(&'a [Stmt]),
    Expression(&'a Expr),
}

/// State of following calls.
#[derive(Default)]
pub(super) struct Inlining<'a> {
    pub(super) bodies: FxHashMap<Rc<str>, Body<'a>>,
    calls: u32,
    walked: usize,
    stack: Vec<Rc<str>>,
}

/// Source size of a block, in bytes.
pub(super) fn extent(block: &[Stmt]) -> usize {
    let (Some(first), Some(last)) = (block.first(), block.last()) else { return 0 };
    (last.range().end() - first.range().start()).to_usize()
}

impl<'a> Python<'_, '_, 'a> {
    /// Keeps a function's body.
    pub(super) fn keep_body(
        &mut self,
        name: &Rc<str>,
        params: Option<&'a Parameters>,
        body: Result<&'a [Stmt], &'a Expr>,
        class: Option<Rc<str>>,
    ) {
        let code = match body {
            Ok(block) if extent(block) <= MAX_INLINE_BYTES => Code::Block(block),
            Ok(_) => return,
            Err(expression) => Code::Expression(expression),
        };
        let around = if self.inlining.stack.is_empty() || self.scopes.len() < 2 {
            None
        } else {
            let scopes = self.scopes[1..].iter().flat_map(|scope| &scope.vars);
            Some(Rc::new(scopes.map(|(name, value)| (name.clone(), value.clone())).collect()))
        };
        self.inlining.bodies.insert(name.clone(), Body { params, code, class, around });
    }

    /// Result of a call, if following it may yield more than all calls together.
    pub(super) fn inline(
        &mut self,
        own: &str,
        args: &[Value],
        kwargs: &[(Rc<str>, Value)],
        at: (usize, usize),
    ) -> Option<Value> {
        // A tool that is silent about it may have its helpers send what it has read.
        let followed = if self.flow.silent {
            super::flow::GIVEN | Origin::SECRET | Origin::ENV | Origin::KEYS | Origin::HOST | Origin::OUTPUT
        } else {
            super::flow::GIVEN
        };
        let given = args.iter().chain(kwargs.iter().map(|(_, v)| v)).any(|v| v.origin.has(followed));
        let telling = |value: &Value| {
            value.names.iter().any(|n| !n.starts_with('?'))
                || matches!(
                    value.known,
                    Some(Const::Text(_) | Const::Bytes(_) | Const::List(_) | Const::Map(_))
                )
        };
        let closure = self.inlining.bodies.get(own)?.around.is_some();
        let exhausted = self.inlining.calls >= MAX_CALLS
            || self.inlining.walked >= MAX_REWALKED_BYTES
            || self.inlining.stack.len() >= MAX_CALL_DEPTH;
        if exhausted && given {
            self.fact("flow.bounded", at);
        }
        if exhausted
            || self.inlining.stack.iter().any(|name| &**name == own)
            || !closure && !given && !args.iter().chain(kwargs.iter().map(|(_, v)| v)).any(telling)
        {
            return None;
        }
        self.inlining.calls += 1;
        self.inlining.walked += match self.inlining.bodies.get(own)?.code {
            Code::Block(block) => extent(block),
            Code::Expression(expression) => expression.range().len().to_usize(),
        };
        let body = self.inlining.bodies.get(own)?.clone();
        let frame: Rc<str> = format!("{}'{}", own.split('\'').next()?, self.inlining.calls).into();
        let mut scope = Scope::default();
        if let Some(around) = &body.around {
            scope.vars.extend(around.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        self.fill(&mut scope, &body, args, kwargs);
        let scopes = self.scopes.split_off(1);
        let outer = (self.class.take(), self.function.replace(frame.clone()));
        self.class.clone_from(&body.class);
        let block = self.begin_body();
        for (name, value) in &scope.vars {
            if value.origin.has(super::flow::GIVEN) {
                scope.given_in.insert(name.clone(), self.branch_number());
            }
        }
        self.scopes.push(scope);
        self.pending.push(Vec::new());
        self.inlining.stack.push(own.into());
        self.depth += 1;
        let value = match body.code {
            Code::Block(block) => {
                self.block(block);
                self.functions.remove(&frame).map(|f| f.returns)
            }
            Code::Expression(expression) => Some(self.value(expression)),
        };
        self.depth -= 1;
        self.end_body(block);
        self.inlining.stack.pop();
        self.pending.pop();
        self.scopes.truncate(1);
        self.scopes.extend(scopes);
        (self.class, self.function) = outer;
        if given {
            return Some(value.unwrap_or_default());
        }
        value.filter(|v| v.known.is_some() || !v.names.is_empty())
    }

    /// Binds a body's parameters.
    fn fill(&mut self, scope: &mut Scope, body: &Body<'a>, args: &[Value], kwargs: &[(Rc<str>, Value)]) {
        let Some(params) = body.params else { return };
        let mut given = args.iter();
        for (at, parameter) in params.iter_non_variadic_params().enumerate() {
            let name: Rc<str> = parameter.parameter.name.as_str().into();
            let value = match &body.class {
                Some(class) if at == 0 => Some(Value::name(&format!("@{class}()"))),
                _ => given.next().cloned(),
            };
            let value = value
                .or_else(|| kwargs.iter().find(|(key, _)| *key == name).map(|(_, v)| v.clone()))
                .or_else(|| parameter.default.as_deref().map(|default| self.quietly(default)));
            // Input origins are learnt from all calls together; deep call chains would spread them to
            // everything.
            let mut value = value.unwrap_or_default();
            value.origin = Origin(value.origin.0 & !(Origin::INPUT | Origin::HOST).0);
            scope.vars.insert(name, value);
        }
        if let Some(rest) = &params.vararg {
            scope.vars.insert(rest.name.as_str().into(), Value::list(given.cloned().collect()));
        }
        if let Some(rest) = &params.kwarg {
            let pairs: Vec<_> = kwargs.iter().map(|(k, v)| (Value::text(k), v.clone())).collect();
            scope.vars.insert(rest.name.as_str().into(), Value::of(Const::Map(pairs.into())));
        }
    }

    /// Calls a special method of a class of the file: `__getattr__`, `__getitem__`, `__call__` …
    pub(super) fn special(
        &mut self,
        owner: &Value,
        method: &str,
        args: &[Value],
        at: (usize, usize),
    ) -> Option<Value> {
        let name = owner.names.iter().find_map(|name| {
            let key = format!("@{}.{method}", name.strip_prefix('@')?.trim_end_matches("()"));
            self.functions.contains_key(&key[1..]).then_some(key)
        })?;
        Some(self.invoke(&Value::name(&name), None, args, &[], at))
    }
}
