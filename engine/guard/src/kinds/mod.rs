//! Kinds of harm that the plain form of a program shows, in any language that has one: a second password that opens every
//! account, a constant that makes a client an administrator, the token of one service that goes to another one, destruction
//! that waits for a date.

mod administrators;
mod dates;
mod logins;
mod tokens;
mod walk;
mod words;

use crate::hosts::{At, Program};

/// Kind by the name of its fact: the test of a source that may show it, and its places.
type Kind = (&'static str, fn(&str) -> bool, fn(&Program) -> Vec<At>);

const KINDS: &[Kind] = &[
    ("login.second_password", logins::may_hold, logins::second_passwords),
    ("login.constant_administrator", administrators::may_hold, administrators::by_constant),
    ("token.shared", tokens::may_hold, tokens::shared_tokens),
    ("bomb.date", dates::may_hold, dates::waiting),
];

/// True for a source that may show one of the kinds; the plain form is made only then.
pub(crate) fn may_show(source: &str) -> bool {
    KINDS.iter().any(|(_, may_hold, _)| may_hold(source))
}

/// Facts of a program with their places.
pub(crate) fn shown(source: &str, program: &Program) -> Vec<(&'static str, At)> {
    let kinds = KINDS.iter().filter(|(_, may_hold, _)| may_hold(source));
    kinds.flat_map(|(fact, _, places)| places(program).into_iter().map(|at| (*fact, at))).collect()
}
