//! Walks over the plain form of a program.

use crate::hosts::{Expr, Kind, Program, Statement};
use rustc_hash::FxHashMap;

/// Maximum number of names that are replaced, one after another, by the expressions that they are bound to.
const MAX_NAMES: usize = 4;

/// Calls `visit` with each statement of a block and of the blocks in it, functions apart.
pub(super) fn statements<'p>(block: &'p [Statement], visit: &mut impl FnMut(&'p Statement)) {
    for statement in block {
        visit(statement);
        match &statement.kind {
            Kind::If(_, yes, no) => {
                statements(yes, visit);
                statements(no, visit);
            }
            Kind::Loop(_, _, body) | Kind::Block(body) => statements(body, visit),
            Kind::Try(body, handlers, rest) => {
                statements(body, visit);
                handlers.iter().for_each(|handler| statements(handler, visit));
                statements(rest, visit);
            }
            _ => {}
        }
    }
}

/// Expressions of a statement, those of the blocks in it apart.
pub(super) fn own(statement: &Statement) -> Vec<&Expr> {
    match &statement.kind {
        Kind::Bind(_, value) | Kind::Loop(_, value, _) => vec![value],
        Kind::If(test, ..) | Kind::Assert(test) | Kind::Run(test) => vec![test],
        Kind::Return(values) | Kind::Raise(values) => values.iter().collect(),
        _ => Vec::new(),
    }
}

/// True for a block that ends its function, or the round of a loop.
pub(super) fn diverts(block: &[Statement]) -> bool {
    match block.last().map(|statement| &statement.kind) {
        Some(Kind::Return(_) | Kind::Raise(_) | Kind::Leave) => true,
        Some(Kind::Block(inner)) => diverts(inner),
        _ => false,
    }
}

/// Parts of an expression.
pub(super) fn parts(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::Member(inner, _) | Expr::Not(inner) => vec![inner],
        Expr::Index(left, right) | Expr::In(left, right) | Expr::Equal(left, right) => vec![left, right],
        Expr::Call { function, args, .. } => {
            std::iter::once(&**function).chain(args.iter().map(|(_, value)| value)).collect()
        }
        Expr::Each { over, item, .. } => vec![over, item],
        Expr::And(all) | Expr::Or(all) | Expr::List(all) | Expr::Other(all) => all.iter().collect(),
        Expr::Choice(test, yes, no) => vec![test, yes, no],
        Expr::Named(_, value) => vec![value],
        _ => Vec::new(),
    }
}

/// Calls `visit` with an expression and everything in it, functions apart.
pub(super) fn each<'p>(expression: &'p Expr, visit: &mut impl FnMut(&'p Expr)) {
    visit(expression);
    parts(expression).into_iter().for_each(|part| each(part, visit));
}

/// Names of a function, or of the module, and the expressions that they are bound to.
pub(super) struct Names<'p> {
    program: &'p Program,
    bound: FxHashMap<&'p str, &'p Expr>,
}

impl<'p> Names<'p> {
    pub(super) fn of(program: &'p Program, block: &'p [Statement]) -> Names<'p> {
        let mut bound = FxHashMap::default();
        statements(block, &mut |statement| {
            if let Kind::Bind(names, value) = &statement.kind
                && let [name] = &names[..]
            {
                bound.insert(&**name, &**value);
            }
        });
        Names { program, bound }
    }

    /// Expression that a name is bound to, in the function or, once, in the module.
    pub(super) fn meaning(&self, name: &str) -> Option<&'p Expr> {
        self.bound.get(name).copied().or_else(|| self.program.constants.get(name)?.as_deref())
    }

    /// Number of a function of the program.
    pub(super) fn own_function(&self, name: &str) -> Option<usize> {
        self.program.by_name.get(name).copied().flatten()
    }

    /// Calls `visit` with everything in an expression and in what its names are bound to.
    pub(super) fn all(&self, expression: &'p Expr, visit: &mut impl FnMut(&'p Expr)) {
        self.followed(expression, MAX_NAMES, visit);
    }

    fn followed(&self, expression: &'p Expr, names: usize, visit: &mut impl FnMut(&'p Expr)) {
        let mut found = Vec::new();
        each(expression, &mut |part| {
            visit(part);
            if let Expr::Name(name) = part {
                found.extend(self.meaning(name));
            }
        });
        if names > 0 {
            found.into_iter().for_each(|value| self.followed(value, names - 1, visit));
        }
    }
}

/// The module's outermost block and the body of each function, with the functions' numbers.
pub(super) fn blocks(program: &Program) -> impl Iterator<Item = (usize, &[Statement])> {
    let functions = program.functions.iter().enumerate().map(|(id, function)| (id, &function.body[..]));
    std::iter::once((usize::MAX, &program.body[..])).chain(functions)
}
