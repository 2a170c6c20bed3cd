//! Checks that a program makes before it uses a value: membership in an allow-list, a whole match of a
//! pattern, a folder that a path has to lie in. Pure functions over the syntax.

use ruff_python_ast::{BoolOp, CmpOp, ExceptHandler, Expr, ExprCall, Stmt, UnaryOp};

/// Names that a test vouches for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checked<'a> {
    /// If the test is true.
    pub(super) if_true: Vec<&'a str>,
    /// If the test is false.
    pub(super) if_false: Vec<&'a str>,
}

impl<'a> Checked<'a> {
    fn when(name: Option<&'a str>) -> Self {
        Checked { if_true: name.into_iter().collect(), if_false: Vec::new() }
    }

    fn negated(self) -> Self {
        Checked { if_true: self.if_false, if_false: self.if_true }
    }
}

/// Tells which argument a function of the file checks, if its answer is true only for checked ones.
pub(super) type Predicates<'p> = dyn Fn(&str) -> Vec<usize> + 'p;

/// Names that `test` vouches for.
pub(super) fn checked<'a>(test: &'a Expr, predicates: &Predicates<'_>) -> Checked<'a> {
    match test {
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => checked(&unary.operand, predicates).negated(),
        Expr::BoolOp(both) => {
            let each = both.values.iter().map(|value| checked(value, predicates));
            let mut sum = Checked::default();
            for one in each {
                match both.op {
                    // All are true, so each vouches; which of them is false is unknown.
                    BoolOp::And => sum.if_true.extend(one.if_true),
                    BoolOp::Or => sum.if_false.extend(one.if_false),
                }
            }
            sum
        }
        Expr::Compare(compare) => {
            let ([op], [right]) = (&compare.ops[..], &compare.comparators[..]) else {
                return Checked::default();
            };
            compared(&compare.left, *op, right)
        }
        Expr::Call(call) => called(call, predicates),
        Expr::Named(named) => checked(&named.value, predicates),
        _ => Checked::default(),
    }
}

fn compared<'a>(left: &'a Expr, op: CmpOp, right: &'a Expr) -> Checked<'a> {
    let fixed = |side: &Expr| {
        matches!(
            side,
            Expr::StringLiteral(_) | Expr::NumberLiteral(_) | Expr::BytesLiteral(_) | Expr::NoneLiteral(_)
        )
    };
    match op {
        // A text that contains something forbidden is a list of what is bad, not of what is allowed.
        CmpOp::In if !fixed(left) && root(right) != root(left) => {
            // `base in path.parents`.
            match right {
                Expr::Attribute(parents) if parents.attr.as_str() == "parents" => {
                    Checked::when(root(&parents.value))
                }
                _ => Checked::when(root(left)),
            }
        }
        CmpOp::Eq | CmpOp::Is if fixed(right) && !matches!(right, Expr::NoneLiteral(_)) => {
            Checked::when(root(left))
        }
        // `os.path.commonpath([base, path]) == base`.
        CmpOp::Eq => match left {
            Expr::Call(call) if last(&call.func) == Some("commonpath") => {
                Checked::when(call.arguments.args.first().and_then(in_list))
            }
            _ => Checked::default(),
        },
        CmpOp::NotIn => compared(left, CmpOp::In, right).negated(),
        CmpOp::NotEq => compared(left, CmpOp::Eq, right).negated(),
        // `PATTERN.fullmatch(x) is None`.
        CmpOp::Is | CmpOp::IsNot if matches!(right, Expr::NoneLiteral(_)) => {
            let matched = match left {
                Expr::Call(call) => called(call, &|_| Vec::new()),
                _ => Checked::default(),
            };
            if op == CmpOp::Is { matched.negated() } else { matched }
        }
        _ => Checked::default(),
    }
}

fn called<'a>(call: &'a ExprCall, predicates: &Predicates<'_>) -> Checked<'a> {
    let args = &call.arguments.args;
    let func = unnamed(&call.func);
    let receiver = match func {
        Expr::Attribute(attribute) => root(&attribute.value),
        _ => None,
    };
    match last(func) {
        // With a path of its own before it, `startswith` compares folders.
        Some("isalnum" | "isdigit" | "isidentifier" | "isdecimal" | "isnumeric" | "is_relative_to") => {
            Checked::when(receiver)
        }
        Some("startswith") if args.first().is_some_and(is_place) => Checked::when(receiver_path(func)),
        Some("fullmatch") => Checked::when(args.last().and_then(root)),
        // A pattern that matches the beginning is whole if it says where the end is.
        Some("match" | "search") if args.first().is_some_and(is_whole_pattern) => {
            Checked::when(args.last().and_then(root))
        }
        Some("match") if args.len() == 1 && receiver.is_some_and(is_constant_name) => {
            Checked::when(args.last().and_then(root))
        }
        Some("all") if args.len() == 1 => match &args[0] {
            // `all(c in ALLOWED for c in x)`.
            Expr::Generator(each) => {
                let over = each.generators.first().map(|first| (root(&first.target), root(&first.iter)));
                let inner = checked(&each.elt, predicates);
                match over {
                    Some((Some(item), Some(whole))) if inner.if_true.contains(&item) => {
                        Checked::when(Some(whole))
                    }
                    _ => Checked::default(),
                }
            }
            _ => Checked::default(),
        },
        Some(name) => {
            let places = predicates(name);
            Checked {
                if_true: places.iter().filter_map(|at| args.get(*at).and_then(root)).collect(),
                if_false: Vec::new(),
            }
        }
        None => Checked::default(),
    }
}

/// Path that a `startswith` is asked of, if it was made whole: `os.path.realpath(p).startswith(base)`.
fn receiver_path(func: &Expr) -> Option<&str> {
    let Expr::Attribute(attribute) = func else { return None };
    root(&attribute.value)
}

/// True for a name or a call, which may be a folder: a literal text may be any prefix.
fn is_place(argument: &Expr) -> bool {
    match argument {
        Expr::StringLiteral(text) => text.value.to_str().starts_with('/') && text.value.to_str().len() > 2,
        Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_) | Expr::BinOp(_) | Expr::FString(_) => true,
        _ => false,
    }
}

fn is_whole_pattern(pattern: &Expr) -> bool {
    match pattern {
        Expr::StringLiteral(text) => {
            let text = text.value.to_str();
            text.starts_with(['^', '\\']) && (text.ends_with('$') || text.ends_with("\\Z"))
        }
        _ => false,
    }
}

fn is_constant_name(name: &str) -> bool {
    name.len() > 2 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Last name of what is called.
fn last(func: &Expr) -> Option<&str> {
    match func {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}

fn in_list(list: &Expr) -> Option<&str> {
    let items = match list {
        Expr::List(list) => &list.elts,
        Expr::Tuple(tuple) => &tuple.elts,
        _ => return None,
    };
    items.iter().rev().find_map(|item| root(item).filter(|name| !is_constant_name(name)))
}

/// Expression that a name is bound to in place.
fn unnamed(expression: &Expr) -> &Expr {
    match expression {
        Expr::Named(named) => &named.value,
        other => other,
    }
}

/// Name whose value an expression is a form or a piece of: `x`, `x.strip()`, `str(x)`, `x.split()[0]`.
pub(super) fn root(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Subscript(subscript) => match &*subscript.slice {
            // A field of a mapping is checked, not the mapping.
            Expr::StringLiteral(_) => None,
            _ => root(&subscript.value),
        },
        Expr::Call(call) => match unnamed(&call.func) {
            Expr::Attribute(attribute) => match attribute.attr.as_str() {
                "lower" | "upper" | "strip" | "casefold" | "split" | "resolve" | "absolute"
                | "removeprefix" | "removesuffix" | "encode" | "decode" | "lstrip" | "rstrip" => {
                    root(&attribute.value)
                }
                "abspath" | "realpath" | "normpath" => call.arguments.args.first().and_then(root),
                _ => None,
            },
            Expr::Name(name) if matches!(name.id.as_str(), "str" | "Path" | "list" | "tuple" | "set") => {
                call.arguments.args.first().and_then(root)
            }
            _ => None,
        },
        _ => None,
    }
}

/// True when control never reaches the end of a block.
pub(super) fn diverts(block: &[Stmt]) -> bool {
    match block.last() {
        Some(Stmt::Return(_) | Stmt::Raise(_) | Stmt::Continue(_) | Stmt::Break(_)) => true,
        Some(Stmt::If(stmt)) => {
            diverts(&stmt.body)
                && stmt.elif_else_clauses.last().is_some_and(|clause| clause.test.is_none())
                && stmt.elif_else_clauses.iter().all(|clause| diverts(&clause.body))
        }
        Some(Stmt::Expr(stmt)) => match &*stmt.value {
            Expr::Call(call) => matches!(last(&call.func), Some("exit" | "abort" | "_exit" | "quit")),
            _ => false,
        },
        _ => false,
    }
}

/// How a function of the file checks its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Validator {
    /// Positions of parameters that are checked where the function returns at all.
    pub(super) returns: Vec<usize>,
    /// Positions of parameters that are checked where its answer is true.
    pub(super) answers: Vec<usize>,
}

/// How a function checks its parameters, by its first level of statements.
pub(super) fn validator(params: &[&str], body: &[Stmt]) -> Validator {
    let mut found = Validator::default();
    collect(params, body, &mut found);
    found
}

fn collect(params: &[&str], body: &[Stmt], found: &mut Validator) {
    let note = |names: &[&str], into: &mut Vec<usize>| {
        for at in names.iter().filter_map(|name| params.iter().position(|p| p == name)) {
            if !into.contains(&at) {
                into.push(at);
            }
        }
    };
    for (at, statement) in body.iter().enumerate() {
        match statement {
            Stmt::If(stmt) => {
                let tests = checked(&stmt.test, &|_| Vec::new());
                match stmt.body.last() {
                    Some(Stmt::Raise(_)) => note(&tests.if_false, &mut found.returns),
                    Some(Stmt::Return(ret)) if is_false(ret.value.as_deref()) => {
                        note(&tests.if_false, &mut found.answers);
                    }
                    // `if x in ALLOWED: return True` before `return False`.
                    Some(Stmt::Return(_)) if body[at + 1..].iter().any(ends_false) => {
                        note(&tests.if_true, &mut found.answers);
                    }
                    _ => {}
                }
            }
            Stmt::Return(ret) => {
                if let Some(value) = &ret.value {
                    note(&checked(value, &|_| Vec::new()).if_true, &mut found.answers);
                }
            }
            Stmt::Assert(stmt) => note(&checked(&stmt.test, &|_| Vec::new()).if_true, &mut found.returns),
            Stmt::Try(stmt) => {
                let raised = |ExceptHandler::ExceptHandler(handler): &ExceptHandler| diverts(&handler.body);
                if stmt.handlers.iter().all(raised) {
                    collect(params, &stmt.body, found);
                }
            }
            Stmt::With(stmt) => collect(params, &stmt.body, found),
            _ => {}
        }
    }
}

fn is_false(value: Option<&Expr>) -> bool {
    match value {
        None | Some(Expr::NoneLiteral(_)) => true,
        Some(Expr::BooleanLiteral(flag)) => !flag.value,
        _ => false,
    }
}

fn ends_false(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Return(ret) if is_false(ret.value.as_deref()))
}

/// True for the test of a module if it is the program: `__name__ == "__main__"`.
pub(super) fn is_main(test: &Expr) -> bool {
    matches!(test, Expr::Compare(compare) if matches!(&*compare.left, Expr::Name(name) if name.id.as_str() == "__name__"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruff_python_parser::parse_module;

    /// Checks of the first `if` of a program: names if true, names if false.
    fn of(source: &str) -> Option<(Vec<String>, Vec<String>)> {
        let parsed = parse_module(source).ok()?;
        let Stmt::If(stmt) = parsed.syntax().body.first()? else { return None };
        let known = |name: &str| if name == "is_safe" { vec![0] } else { Vec::new() };
        let found = checked(&stmt.test, &known);
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        Some((owned(found.if_true), owned(found.if_false)))
    }

    #[test]
    fn tests_vouch_for_names() {
        for (test, if_true, if_false) in [
            ("x in ALLOWED", &["x"][..], &[][..]),
            ("x not in ALLOWED", &[], &["x"]),
            ("not x in ('a', 'b')", &[], &["x"]),
            ("x.split()[0] not in ALLOWED", &[], &["x"]),
            ("x.lower().strip() in names", &["x"], &[]),
            ("x == 'ls'", &["x"], &[]),
            ("x != 'ls'", &[], &["x"]),
            ("x not in A or y not in B", &[], &["x", "y"]),
            ("x in A and y in B", &["x", "y"], &[]),
            ("re.fullmatch(r'[a-z]+', x)", &["x"], &[]),
            ("not re.match(r'^[a-z]+$', x)", &[], &["x"]),
            ("NAME.match(x) is None", &[], &["x"]),
            ("NAME.fullmatch(x) is not None", &["x"], &[]),
            ("not p.is_relative_to(base)", &[], &["p"]),
            ("not p.resolve().is_relative_to(base)", &[], &["p"]),
            ("base not in p.parents", &[], &["p"]),
            ("not os.path.realpath(p).startswith(base)", &[], &["p"]),
            ("os.path.commonpath([BASE, p]) != BASE", &[], &["p"]),
            ("x.isalnum()", &["x"], &[]),
            ("not is_safe(x)", &[], &["x"]),
            ("all(c in OK for c in x)", &["x"], &[]),
            // Lists of what is bad, and tests of something else.
            ("';' in x", &[], &[]),
            ("x", &[], &[]),
            ("x in x", &[], &[]),
            ("x in A or y", &[], &[]),
            ("x not in A and y", &[], &[]),
            ("x is None", &[], &[]),
            ("len(x) > 10", &[], &[]),
            ("re.match('[a-z]', x)", &[], &[]),
            ("args['cmd'] in ALLOWED", &[], &[]),
            ("Path(p).suffix in ENDINGS", &[], &[]),
            ("x.startswith('ls')", &[], &[]),
            ("is_other(x)", &[], &[]),
        ] {
            let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
            assert_eq!(of(&format!("if {test}: pass")), Some((owned(if_true), owned(if_false))), "{test}");
        }
    }

    #[test]
    fn functions_check_their_parameters() {
        for (body, returns, answers) in [
            ("if x not in A: raise ValueError(x)\n return x", &[0][..], &[][..]),
            ("return x in A", &[], &[0]),
            ("if x not in A: return False\n return True", &[], &[0]),
            ("if x in A: return True\n return False", &[], &[0]),
            ("assert y in A", &[1], &[]),
            ("try:\n  if x not in A: raise E\n except E:\n  raise", &[0], &[]),
            ("if ';' in x: raise E", &[], &[]),
            ("if x in A: print(x)", &[], &[]),
            ("return x", &[], &[]),
        ] {
            let parsed = parse_module(&format!("def f(x, y):\n {body}\n"));
            let Some(Stmt::FunctionDef(def)) = parsed.as_ref().ok().and_then(|p| p.syntax().body.first())
            else {
                panic!("{body}")
            };
            let found = validator(&["x", "y"], &def.body);
            assert_eq!((&found.returns[..], &found.answers[..]), (returns, answers), "{body}");
        }
    }
}
