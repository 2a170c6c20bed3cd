//! A constant that makes a client an administrator: a client that sends it has the rights of one.

use super::logins::text;
use super::walk::{Names, blocks, each, own, statements};
use super::words::{Lazy, Words};
use crate::hosts::{At, Expr, Kind, Program, last};

/// Minimum length of such a constant.
const MIN_CONSTANT: usize = 8;

/// True for a source that names an administrator.
pub(super) fn may_hold(source: &str) -> bool {
    static ROLES: Lazy =
        Lazy::new(|| Words::new(&["admin", "superuser", "root'", "root\"", "owner'", "owner\""]));
    static REQUESTS: Lazy = Lazy::new(|| Words::new(&["eader", "oken", "query", "args", "cookie"]));
    ROLES.any_in(source) && REQUESTS.any_in(source)
}

/// Places of tests for a constant that answer with an administrator.
pub(super) fn by_constant(program: &Program) -> Vec<At> {
    let mut found = Vec::new();
    for (_, block) in blocks(program) {
        let names = Names::of(program, block);
        statements(block, &mut |statement| {
            if let Kind::If(test, yes, _) = &statement.kind
                && asks_for_constant(test, &names)
                && makes_administrator(yes)
            {
                found.push(statement.at);
            }
        });
    }
    found
}

/// True for a test that holds where something is equal to a constant which is hard to guess.
fn asks_for_constant(test: &Expr, names: &Names<'_>) -> bool {
    match test {
        Expr::And(all) | Expr::Or(all) => all.iter().any(|one| asks_for_constant(one, names)),
        Expr::Equal(left, right) => [(left, right), (right, left)].iter().any(|(given, constant)| {
            let is_open = !matches!(&***given, Expr::Text(_) | Expr::Number(_) | Expr::Nothing | Expr::True);
            is_open && text(constant, names, 0).is_some_and(is_secret)
        }),
        _ => false,
    }
}

/// True for a text of letters and digits, unlike words and addresses.
fn is_secret(text: &str) -> bool {
    text.len() >= MIN_CONSTANT
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:+=!$#@".contains(&b))
        && text.bytes().filter(u8::is_ascii_digit).count() >= 2
        && text.bytes().any(|b| b.is_ascii_alphabetic())
}

/// True for a block that answers with, or sets, an administrator.
fn makes_administrator(block: &[crate::hosts::Statement]) -> bool {
    let mut makes = false;
    statements(block, &mut |statement| {
        if matches!(statement.kind, Kind::Return(_) | Kind::Bind(..) | Kind::Run(_)) {
            for expression in own(statement) {
                each(expression, &mut |part| {
                    makes |= match part {
                        Expr::Text(text) => is_rank(text),
                        Expr::Call { args, .. } => args.iter().any(|(name, value)| {
                            matches!(
                                &**name,
                                "is_admin" | "is_superuser" | "is_staff" | "admin" | "superuser"
                            ) && matches!(value, Expr::True)
                        }),
                        Expr::Equal(left, _) => matches!(last(left), "is_admin" | "is_superuser"),
                        _ => false,
                    };
                });
            }
        }
    });
    makes
}

fn is_rank(text: &str) -> bool {
    matches!(
        &*text.to_ascii_lowercase(),
        "admin" | "administrator" | "superuser" | "superadmin" | "root" | "owner" | "isadmin" | "is_admin"
    )
}
