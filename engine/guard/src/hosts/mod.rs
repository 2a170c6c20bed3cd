//! Checks of the host of an address before it is requested, in any language: membership in a list, a comparison, a pattern, a
//! prefix, a test for private addresses, where a failure leaves the function.
//!
//! Each language turns its syntax into the plain form here, and one walk decides over it. Names, comments and texts of a
//! program say nothing: only a test of something that was derived from the address itself counts.

mod check;
mod condition;
mod derive;
mod inside;
#[cfg(test)]
mod tests;

pub(crate) use check::{Asked, Danger};

use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Place in a text: first byte and the byte after the last.
pub(crate) type At = (usize, usize);
/// Number of a function of the program.
pub(crate) type FunctionId = usize;

/// Maximum nesting of statements and expressions that languages turn into the plain form; deeper ones check nothing.
pub(crate) const MAX_NESTING: usize = 120;
/// Maximum number of steps for all questions about a program; later questions are answered with "not checked".
const MAX_STEPS: usize = 2_000_000;

/// Expression in plain form.
#[derive(Debug)]
pub(crate) enum Expr {
    /// A name.
    Name(Box<str>),
    /// A text, or the text of a pattern.
    Text(Box<str>),
    /// Null, none, false.
    Nothing,
    /// True.
    True,
    /// A whole number.
    Number(i64),
    /// `owner.name`, or `owner["name"]`.
    Member(Box<Expr>, Box<str>),
    /// `owner[key]`.
    Index(Box<Expr>, Box<Expr>),
    /// A call, or a construction; arguments with their names, which are empty for those by position.
    Call { function: Box<Expr>, args: Vec<(Box<str>, Expr)>, at: At },
    /// A function without a name.
    Function(FunctionId),
    /// An item made for each element of something.
    Each { targets: Vec<Box<str>>, over: Rc<Expr>, item: Box<Expr> },
    /// A negation.
    Not(Box<Expr>),
    /// All of these.
    And(Vec<Expr>),
    /// The first of these that is true.
    Or(Vec<Expr>),
    /// `left in right`.
    In(Box<Expr>, Box<Expr>),
    /// `left == right`.
    Equal(Box<Expr>, Box<Expr>),
    /// One of two, by a test.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A list of elements.
    List(Vec<Expr>),
    /// `name := value` inside an expression.
    Named(Box<str>, Rc<Expr>),
    /// Something made of these.
    Other(Vec<Expr>),
}

/// Statement in plain form.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Its place.
    pub(crate) at: At,
    /// Its kind.
    pub(crate) kind: Kind,
}

/// Kind of a statement.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Names that get the results of an expression.
    Bind(Vec<Box<str>>, Rc<Expr>),
    /// A test with its two blocks.
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// A test that has to hold.
    Assert(Expr),
    /// An expression.
    Run(Expr),
    /// The end of the function, with its results.
    Return(Vec<Expr>),
    /// The end of the function without results.
    Raise(Vec<Expr>),
    /// The end of a loop, or of one round of it.
    Leave,
    /// A block that is repeated, for each element of something.
    Loop(Vec<Box<str>>, Rc<Expr>, Vec<Statement>),
    /// A block, the blocks that failures lead to, and the one behind it.
    Try(Vec<Statement>, Vec<Vec<Statement>>, Vec<Statement>),
    /// A function.
    Define(FunctionId),
    /// A block.
    Block(Vec<Statement>),
}

/// Function of a program.
#[derive(Debug)]
pub(crate) struct Function {
    params: Vec<Box<str>>,
    pub(crate) body: Vec<Statement>,
    at: At,
}

/// Program in plain form.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) body: Vec<Statement>,
    pub(crate) functions: Vec<Function>,
    /// Functions by name; `None` for a name that several have.
    pub(crate) by_name: FxHashMap<Box<str>, Option<FunctionId>>,
    /// Expressions that names are bound to; `None` for a name with several, or of a parameter.
    pub(crate) constants: FxHashMap<Box<str>, Option<Rc<Expr>>>,
    steps: usize,
}

impl Program {
    /// Adds a function; `name` is empty for one without a name.
    pub(crate) fn define(
        &mut self,
        name: &str,
        params: Vec<Box<str>>,
        body: Vec<Statement>,
        at: At,
    ) -> FunctionId {
        let id = self.functions.len();
        for param in &params {
            self.constants.insert(param.clone(), None);
        }
        self.functions.push(Function { params, body, at });
        if !name.is_empty() {
            self.name(name, id);
        }
        id
    }

    /// Names a function.
    pub(crate) fn name(&mut self, name: &str, id: FunctionId) {
        self.by_name.entry(name.into()).and_modify(|known| *known = None).or_insert(Some(id));
    }

    /// Binds names to an expression.
    pub(crate) fn bind(&mut self, names: Vec<Box<str>>, value: Expr) -> Kind {
        let value = Rc::new(value);
        for name in &names {
            if let Expr::Function(id) = *value {
                self.name(name, id);
            }
            let one = (names.len() == 1).then(|| value.clone());
            self.constants.entry(name.clone()).and_modify(|known| *known = None).or_insert(one);
        }
        Kind::Bind(names, value)
    }

    /// Expression that elements come from, for the names that they are bound to.
    pub(crate) fn over(&mut self, names: &[Box<str>], over: Expr) -> Rc<Expr> {
        let over = Rc::new(over);
        for name in names {
            let known = Some(over.clone());
            self.constants.entry(name.clone()).and_modify(|known| *known = None).or_insert(known);
        }
        over
    }

    /// Ends the program with its outermost statements.
    pub(crate) fn ended(mut self, body: Vec<Statement>) -> Program {
        self.body = body;
        self
    }
}

/// Last name of what is called.
pub(crate) fn last(function: &Expr) -> &str {
    match function {
        Expr::Name(name) | Expr::Member(_, name) => name,
        _ => "",
    }
}
