//! Endless loops and recursion, and unbounded growth.

use super::{Pending, Python, model, span};
use crate::value::{Const, Value};
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, Operator, Stmt, StmtWhile};
use ruff_text_size::Ranged;

/// Maximum that a single expression may request: 512 MiB, or as many elements.
const MAX_ALLOCATION: i64 = 1 << 29;

#[derive(Default)]
struct Body {
    ends: bool,
    waits: bool,
    serves: bool,
    calls: u32,
    quiet_calls: u32,
    inner: u32,
}

impl<'a> Visitor<'a> for Body {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Return(_) | Stmt::Raise(_) => self.ends = true,
            Stmt::Break(_) if self.inner == 0 => self.ends = true,
            Stmt::While(_) | Stmt::For(_) => {
                self.inner += 1;
                walk_stmt(self, stmt);
                self.inner -= 1;
            }
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            _ => walk_stmt(self, stmt),
        }
    }
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Yield(_) | Expr::YieldFrom(_) | Expr::Await(_) => self.ends = true,
            Expr::Call(call) => {
                self.calls += 1;
                let name = called(&call.func);
                self.serves |= name == "accept";
                if model::waits(name) {
                    self.waits = true;
                }
                if matches!(name, "exit" | "quit" | "_exit" | "abort") {
                    self.ends = true;
                }
                if matches!(
                    name,
                    "print"
                        | "append"
                        | "extend"
                        | "fork"
                        | "Popen"
                        | "start"
                        | "Thread"
                        | "Process"
                        | "write"
                        | "open"
                        | "randint"
                        | "random"
                        | "urandom"
                        | "add"
                        | "insert"
                        | "bytearray"
                        | "str"
                        | "int"
                        | "range"
                        | "len"
                        | "hash"
                        | "sha256"
                        | "md5"
                        | "hexdigest"
                        | "encode"
                        | "system"
                        | "sqrt"
                        | "choice"
                        | "sendto"
                        | "getattr"
                ) {
                    self.quiet_calls += 1;
                }
                walk_expr(self, expr);
            }
            Expr::Lambda(_) => {}
            _ => walk_expr(self, expr),
        }
    }
}

/// Last name of the called function, also through an alias: `(n := x.name)`, `getattr(x, 'name')`.
pub(super) fn called(func: &Expr) -> &str {
    match func {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        Expr::Named(named) => called(&named.value),
        Expr::Call(call) if called(&call.func) == "getattr" => match call.arguments.args.get(1) {
            Some(Expr::StringLiteral(name)) => name.value.to_str(),
            _ => "",
        },
        _ => "",
    }
}

fn body_of(body: &[Stmt]) -> Body {
    let mut found = Body::default();
    for stmt in body {
        found.visit_stmt(stmt);
    }
    found
}

/// True when nothing is waited for, and every call in the body is known to return.
pub(super) fn is_busy(body: &[Stmt]) -> bool {
    let body = body_of(body);
    !body.waits && body.calls == body.quiet_calls
}

/// True when a condition consists of literals only.
pub(super) fn is_constant(test: &Expr) -> bool {
    match test {
        Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) | Expr::StringLiteral(_) => true,
        Expr::UnaryOp(op) => is_constant(&op.operand),
        Expr::Compare(compare) => is_constant(&compare.left) && compare.comparators.iter().all(is_constant),
        Expr::List(list) => list.elts.iter().all(is_constant),
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_constant),
        _ => false,
    }
}

/// True when something in the body can leave the loop.
pub(super) fn ends(body: &[Stmt]) -> bool {
    body_of(body).ends
}

/// True when the body waits for something.
pub(super) fn waits(body: &[Stmt]) -> bool {
    body_of(body).waits
}

/// True when each iteration begins with a new connection.
pub(super) fn serves(body: &[Stmt]) -> bool {
    body_of(body).serves
}

impl<'a> Python<'_, '_, 'a> {
    /// Reports an endless loop that only uses CPU time: it waits for nothing, and every call in it is known
    /// to return.
    pub(super) fn endless_loop(&mut self, stmt: &'a StmtWhile) {
        if is_busy(&stmt.body) {
            self.fact("loop.endless", span(stmt.range()));
        }
    }

    /// Reports a function that calls itself before anything could stop it.
    pub(super) fn endless_recursion(&mut self, pending: &Pending<'a>) {
        let own = pending.name.rsplit('.').next().unwrap_or(&pending.name);
        for stmt in pending.body {
            let expression = match stmt {
                Stmt::Expr(stmt) => &*stmt.value,
                Stmt::Assign(stmt)
                    if !stmt.targets.iter().any(|t| matches!(t, Expr::Name(n) if n.id.as_str() == own)) =>
                {
                    &*stmt.value
                }
                Stmt::Return(stmt) => match &stmt.value {
                    Some(value) => &**value,
                    None => return,
                },
                Stmt::Pass(_) | Stmt::Import(_) | Stmt::AugAssign(_) => continue,
                _ => return,
            };
            if calls_itself(expression, own, pending.class.is_some()) {
                self.fact("recursion.endless", span(stmt.range()));
                return;
            }
            if matches!(stmt, Stmt::Return(_)) {
                return;
            }
        }
    }

    /// Multiplications and powers with too large a result.
    pub(super) fn oversize(&mut self, op: Operator, left: &Value, right: &Value, at: (usize, usize)) {
        match op {
            Operator::Mult => {
                let (sized, times) = if right.as_int().is_some() { (left, right) } else { (right, left) };
                let one = match &sized.known {
                    Some(Const::Text(text)) => text.len(),
                    Some(Const::Bytes(bytes)) => bytes.len(),
                    Some(Const::List(items)) => items.len() * 8,
                    _ => return,
                };
                let total =
                    times.as_int().unwrap_or(0).saturating_mul(i64::try_from(one).unwrap_or(i64::MAX));
                if total >= MAX_ALLOCATION {
                    self.fact("memory.huge", at);
                }
            }
            Operator::Pow => {
                if let (Some(base), Some(power)) = (left.as_int(), right.as_int())
                    && base > 1
                    && power >= 10_000_000
                {
                    self.fact("memory.huge", at);
                }
            }
            Operator::LShift
                if left.as_int().is_some() && right.as_int().is_some_and(|n| n > 4_000_000_000) =>
            {
                self.fact("memory.huge", at);
            }
            _ => {}
        }
    }

    /// A list with too many elements.
    pub(super) fn huge_list(&mut self, iterated: &Value, at: (usize, usize)) {
        if iterated.names.iter().any(|n| &**n == "?huge" || &**n == "itertools.count()") {
            self.fact("memory.huge", at);
        }
    }

    /// Constructors that allocate memory by a number.
    pub(super) fn huge_call(&mut self, name: &str, args: &[Value], at: (usize, usize)) {
        let first = args.first().and_then(Value::as_int).unwrap_or(0);
        match name {
            "bytearray"
            | "bytes"
            | "os.urandom"
            | "numpy.zeros"
            | "numpy.ones"
            | "numpy.empty"
            | "numpy.random.rand"
            | "torch.zeros"
            | "ctypes.create_string_buffer"
            | "secrets.token_bytes"
                if first >= MAX_ALLOCATION =>
            {
                self.fact("memory.huge", at);
            }
            "list" | "tuple" | "set" | "sorted" | "sum" | "max" => {
                if let Some(iterated) =
                    args.first().filter(|_| matches!(name, "list" | "tuple" | "set" | "sorted"))
                {
                    self.huge_list(&iterated.clone(), at);
                }
            }
            "*.truncate" => {}
            _ => {}
        }
    }
}

fn calls_itself(expression: &Expr, own: &str, method: bool) -> bool {
    match expression {
        Expr::Call(call) => {
            let mut func = &*call.func;
            while let Expr::Named(named) = func {
                func = &named.value;
            }
            let itself = match func {
                Expr::Name(name) => !method && name.id.as_str() == own,
                Expr::Attribute(attribute) => {
                    method
                        && attribute.attr.as_str() == own
                        && matches!(&*attribute.value, Expr::Name(n) if n.id.as_str() == "self")
                }
                _ => false,
            };
            itself || call.arguments.args.iter().any(|a| calls_itself(a, own, method))
        }
        Expr::BinOp(op) => calls_itself(&op.left, own, method) || calls_itself(&op.right, own, method),
        Expr::Tuple(tuple) => tuple.elts.iter().any(|e| calls_itself(e, own, method)),
        _ => false,
    }
}

/// A loop that hashes with a counter: recognised by its words, since every library has its own functions.
pub(super) fn proof_of_work(text: &str) -> bool {
    let hashes = ["sha256(", "sha512(", "sha3_", "scrypt(", "blake2", "double_sha", "argon2", "randomx"];
    text.len() < 4096
        && text.contains("nonce")
        && text.contains("+= 1")
        && hashes.iter().any(|h| text.contains(h))
}
