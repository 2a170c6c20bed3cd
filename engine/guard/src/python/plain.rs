//! A module in the plain form in which checks of hosts are looked for.

use super::span;
use crate::hosts::{Expr as Plain, Kind, MAX_NESTING, Program, Statement};
use ruff_python_ast::{
    BoolOp, CmpOp, Comprehension, ExceptHandler, Expr, FStringPart, InterpolatedStringElement, Number,
    Parameters, Pattern, Stmt, UnaryOp,
};
use ruff_text_size::Ranged;

/// A module in plain form.
pub(super) fn program(body: &[Stmt]) -> Program {
    let mut lowering = Lowering { program: Program::default(), depth: 0 };
    let body = lowering.block(body);
    lowering.program.ended(body)
}

struct Lowering {
    program: Program,
    depth: usize,
}

impl Lowering {
    fn block(&mut self, body: &[Stmt]) -> Vec<Statement> {
        self.depth += 1;
        let mut out = Vec::new();
        if self.depth <= MAX_NESTING {
            for statement in body {
                let kind = self.statement(statement);
                out.push(Statement { at: span(statement.range()), kind });
            }
        }
        self.depth -= 1;
        out
    }

    fn statement(&mut self, statement: &Stmt) -> Kind {
        match statement {
            Stmt::FunctionDef(def) => {
                let params = params(Some(&def.parameters));
                let body = self.block(&def.body);
                Kind::Define(self.program.define(def.name.as_str(), params, body, span(def.range())))
            }
            Stmt::ClassDef(def) => Kind::Block(self.block(&def.body)),
            Stmt::Return(ret) => Kind::Return(ret.value.iter().map(|value| self.value(value)).collect()),
            Stmt::Assign(assign) => {
                let names = assign.targets.first().map(targets).unwrap_or_default();
                let value = self.value(&assign.value);
                self.program.bind(names, value)
            }
            Stmt::AugAssign(assign) => {
                let names = targets(&assign.target);
                let value = Plain::Other(vec![self.value(&assign.target), self.value(&assign.value)]);
                self.program.bind(names, value)
            }
            Stmt::AnnAssign(assign) => match &assign.value {
                Some(value) => {
                    let value = self.value(value);
                    self.program.bind(targets(&assign.target), value)
                }
                None => Kind::Block(Vec::new()),
            },
            Stmt::For(stmt) => {
                let names = targets(&stmt.target);
                let over = self.value(&stmt.iter);
                let over = self.program.over(&names, over);
                let mut body = self.block(&stmt.body);
                body.extend(self.block(&stmt.orelse));
                Kind::Loop(names, over, body)
            }
            Stmt::While(stmt) => {
                let test = self.value(&stmt.test);
                let over = self.program.over(&[], Plain::Other(vec![test]));
                let mut body = self.block(&stmt.body);
                body.extend(self.block(&stmt.orelse));
                Kind::Loop(Vec::new(), over, body)
            }
            Stmt::If(stmt) => {
                let test = self.value(&stmt.test);
                let yes = self.block(&stmt.body);
                let mut no = Vec::new();
                // Later branches are inside the earlier ones' other case.
                for clause in stmt.elif_else_clauses.iter().rev() {
                    let body = self.block(&clause.body);
                    no = match &clause.test {
                        Some(test) => {
                            let test = self.value(test);
                            let end = stmt.range().end().to_usize();
                            let at = (span(clause.range()).0, end);
                            vec![Statement { at, kind: Kind::If(test, body, no) }]
                        }
                        None => body,
                    };
                }
                Kind::If(test, yes, no)
            }
            Stmt::With(stmt) => {
                let mut body = Vec::new();
                for item in &stmt.items {
                    let value = self.value(&item.context_expr);
                    let kind = match &item.optional_vars {
                        Some(target) => self.program.bind(targets(target), value),
                        None => Kind::Run(value),
                    };
                    body.push(Statement { at: span(item.range()), kind });
                }
                body.extend(self.block(&stmt.body));
                Kind::Block(body)
            }
            Stmt::Match(stmt) => {
                let subject = self.value(&stmt.subject);
                let mut all = vec![Statement { at: span(stmt.subject.range()), kind: Kind::Run(subject) }];
                for case in &stmt.cases {
                    let body = self.block(&case.body);
                    let subject = self.value(&stmt.subject);
                    let test = match constant(&case.pattern) {
                        Some(constant) => Plain::Equal(Box::new(subject), Box::new(self.value(constant))),
                        None => Plain::Other(Vec::new()),
                    };
                    all.push(Statement { at: span(case.range()), kind: Kind::If(test, body, Vec::new()) });
                }
                Kind::Block(all)
            }
            Stmt::Raise(stmt) => Kind::Raise(stmt.exc.iter().map(|value| self.value(value)).collect()),
            Stmt::Try(stmt) => {
                let body = self.block(&stmt.body);
                let handlers = stmt
                    .handlers
                    .iter()
                    .map(|ExceptHandler::ExceptHandler(handler)| self.block(&handler.body))
                    .collect();
                let mut rest = self.block(&stmt.orelse);
                rest.extend(self.block(&stmt.finalbody));
                Kind::Try(body, handlers, rest)
            }
            Stmt::Assert(stmt) => Kind::Assert(self.value(&stmt.test)),
            Stmt::Expr(stmt) => Kind::Run(self.value(&stmt.value)),
            Stmt::Break(_) | Stmt::Continue(_) => Kind::Leave,
            _ => Kind::Block(Vec::new()),
        }
    }

    fn value(&mut self, expression: &Expr) -> Plain {
        self.depth += 1;
        let plain = if self.depth > MAX_NESTING { Plain::Other(Vec::new()) } else { self.plain(expression) };
        self.depth -= 1;
        plain
    }

    fn boxed(&mut self, expression: &Expr) -> Box<Plain> {
        Box::new(self.value(expression))
    }

    fn all(&mut self, all: &[Expr]) -> Vec<Plain> {
        all.iter().map(|one| self.value(one)).collect()
    }

    fn plain(&mut self, expression: &Expr) -> Plain {
        match expression {
            Expr::Name(name) => Plain::Name(name.id.as_str().into()),
            Expr::StringLiteral(text) => Plain::Text(text.value.to_str().into()),
            Expr::BytesLiteral(bytes) => {
                let bytes: Vec<u8> = bytes.value.bytes().collect();
                Plain::Text(String::from_utf8_lossy(&bytes).into())
            }
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(int) => Plain::Number(int.as_i64().unwrap_or(i64::MAX)),
                _ => Plain::Number(i64::MAX),
            },
            Expr::BooleanLiteral(flag) if flag.value => Plain::True,
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => Plain::Nothing,
            Expr::Attribute(attribute) => {
                Plain::Member(self.boxed(&attribute.value), attribute.attr.as_str().into())
            }
            Expr::Subscript(subscript) => match &*subscript.slice {
                Expr::StringLiteral(key) => {
                    Plain::Member(self.boxed(&subscript.value), key.value.to_str().into())
                }
                key => Plain::Index(self.boxed(&subscript.value), self.boxed(key)),
            },
            Expr::Call(call) => {
                // A function that gets a name where it is called is the function without it.
                let mut called = &*call.func;
                while let Expr::Named(named) = called {
                    called = &named.value;
                }
                let function = self.boxed(called);
                let mut args: Vec<(Box<str>, Plain)> =
                    call.arguments.args.iter().map(|arg| ("".into(), self.value(arg))).collect();
                for keyword in &call.arguments.keywords {
                    let name = keyword.arg.as_ref().map_or("**", |name| name.as_str());
                    args.push((name.into(), self.value(&keyword.value)));
                }
                Plain::Call { function, args, at: span(call.range()) }
            }
            Expr::Await(inner) => self.value(&inner.value),
            Expr::Starred(inner) => self.value(&inner.value),
            Expr::Named(named) => {
                let value = self.value(&named.value);
                match (targets(&named.target).pop(), self.program.bind(targets(&named.target), value)) {
                    (Some(name), Kind::Bind(_, value)) => Plain::Named(name, value),
                    _ => Plain::Other(Vec::new()),
                }
            }
            Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => Plain::Not(self.boxed(&unary.operand)),
            Expr::UnaryOp(unary) => match self.value(&unary.operand) {
                Plain::Number(number) if unary.op == UnaryOp::USub => Plain::Number(number.saturating_neg()),
                other => Plain::Other(vec![other]),
            },
            Expr::BoolOp(both) => {
                let all = self.all(&both.values);
                if both.op == BoolOp::And { Plain::And(all) } else { Plain::Or(all) }
            }
            Expr::Compare(compare) => {
                let ([op], [right]) = (&compare.ops[..], &compare.comparators[..]) else {
                    let mut all = self.all(&compare.comparators);
                    all.push(self.value(&compare.left));
                    return Plain::Other(all);
                };
                let (left, right) = (self.boxed(&compare.left), self.boxed(right));
                match op {
                    CmpOp::In => Plain::In(left, right),
                    CmpOp::NotIn => Plain::Not(Box::new(Plain::In(left, right))),
                    CmpOp::Eq | CmpOp::Is => Plain::Equal(left, right),
                    CmpOp::NotEq | CmpOp::IsNot => Plain::Not(Box::new(Plain::Equal(left, right))),
                    _ => Plain::Other(vec![*left, *right]),
                }
            }
            Expr::If(either) => {
                let test = self.boxed(&either.test);
                Plain::Choice(test, self.boxed(&either.body), self.boxed(&either.orelse))
            }
            Expr::List(list) => Plain::List(self.all(&list.elts)),
            Expr::Tuple(tuple) => Plain::List(self.all(&tuple.elts)),
            Expr::Set(set) => Plain::List(self.all(&set.elts)),
            Expr::Dict(dict) => {
                let mut all = Vec::new();
                for item in &dict.items {
                    all.extend(item.key.iter().map(|key| self.value(key)));
                    all.push(self.value(&item.value));
                }
                Plain::Other(all)
            }
            Expr::BinOp(binary) => Plain::Other(vec![self.value(&binary.left), self.value(&binary.right)]),
            Expr::FString(fstring) => {
                let mut all = Vec::new();
                for part in &fstring.value {
                    match part {
                        FStringPart::Literal(literal) => all.push(Plain::Text(literal.as_str().into())),
                        FStringPart::FString(inner) => {
                            for element in &inner.elements {
                                all.push(match element {
                                    InterpolatedStringElement::Literal(text) => {
                                        Plain::Text((&*text.value).into())
                                    }
                                    InterpolatedStringElement::Interpolation(piece) => {
                                        self.value(&piece.expression)
                                    }
                                });
                            }
                        }
                    }
                }
                Plain::Other(all)
            }
            Expr::ListComp(comp) => self.each(&comp.generators, &comp.elt),
            Expr::SetComp(comp) => self.each(&comp.generators, &comp.elt),
            Expr::Generator(comp) => self.each(&comp.generators, &comp.elt),
            Expr::Lambda(lambda) => {
                let value = self.value(&lambda.body);
                let at = span(lambda.body.range());
                let body = vec![Statement { at, kind: Kind::Return(vec![value]) }];
                let params = params(lambda.parameters.as_deref());
                Plain::Function(self.program.define("", params, body, span(lambda.range())))
            }
            Expr::Yield(inner) => Plain::Other(inner.value.iter().map(|inner| self.value(inner)).collect()),
            Expr::YieldFrom(inner) => Plain::Other(vec![self.value(&inner.value)]),
            _ => Plain::Other(Vec::new()),
        }
    }

    fn each(&mut self, generators: &[Comprehension], item: &Expr) -> Plain {
        let Some((first, rest)) = generators.split_first() else { return self.value(item) };
        let names = targets(&first.target);
        let over = self.value(&first.iter);
        let over = self.program.over(&names, over);
        let mut tests: Vec<Plain> = first.ifs.iter().map(|test| self.value(test)).collect();
        let inner = self.each(rest, item);
        let item = if tests.is_empty() {
            inner
        } else {
            tests.push(inner);
            Plain::And(tests)
        };
        Plain::Each { targets: names, over, item: Box::new(item) }
    }
}

/// Names of parameters, without the instance.
fn params(all: Option<&Parameters>) -> Vec<Box<str>> {
    let names = all.into_iter().flat_map(Parameters::iter_non_variadic_params);
    names
        .map(|param| param.parameter.name.as_str())
        .filter(|name| !matches!(*name, "self" | "cls"))
        .map(Into::into)
        .collect()
}

/// Names that a target binds; a member of something else is not a name.
fn targets(target: &Expr) -> Vec<Box<str>> {
    match target {
        Expr::Name(name) => vec![name.id.as_str().into()],
        Expr::Tuple(tuple) => tuple.elts.iter().flat_map(targets).collect(),
        Expr::List(list) => list.elts.iter().flat_map(targets).collect(),
        Expr::Starred(inner) => targets(&inner.value),
        _ => Vec::new(),
    }
}

/// Constant that a pattern matches.
fn constant(pattern: &Pattern) -> Option<&Expr> {
    match pattern {
        Pattern::MatchValue(value) => Some(&value.value),
        _ => None,
    }
}
