//! A second password: a function that checks a password against what is stored, and besides lets in who gives a constant one.

use super::walk::{Names, blocks, each, own, statements};
use super::words::{Lazy, Words};
use crate::hosts::{At, Expr, Kind, Program, Statement, last};
use rustc_hash::FxHashSet;

/// Minimum length of a password in plain text; shorter texts are states and choices.
const MIN_PASSWORD: usize = 6;

/// True for a source with the words of a check of passwords.
pub(super) fn may_hold(source: &str) -> bool {
    static PASSWORDS: Lazy = Lazy::new(|| Words::new(&["passw", "Passw", "PASSW", "pwd"]));
    static CHECKS: Lazy = Lazy::new(|| {
        Words::new(&[
            "verify",
            "compare",
            "check_password",
            "checkPassword",
            "checkpw",
            "uthenticate",
            "digest",
        ])
    });
    PASSWORDS.any_in(source) && CHECKS.any_in(source)
}

/// Form of the constant that a password is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Constant {
    /// The password itself; programs also compare with defaults and states, so what follows has to let the client in.
    Plain,
    /// Its digest.
    Digest,
}

/// Places where a second password is compared.
pub(super) fn second_passwords(program: &Program) -> Vec<At> {
    let testers = testers(program);
    let mut found = Vec::new();
    for (_, block) in blocks(program) {
        let names = Names::of(program, block);
        if !checks_password(block, &names) {
            continue;
        }
        statements(block, &mut |statement| {
            let compared = |test: &Expr| compares(test, true, &names, &testers);
            // `check(password) or password == "…"`.
            let beside =
                |test: &Expr| matches!(test, Expr::Or(all) if all.iter().any(|one| checks(one, &names)));
            let grants = match &statement.kind {
                Kind::If(test, yes, _) => match compared(test) {
                    Some(Constant::Digest) => !denies(yes),
                    Some(Constant::Plain) => !denies(yes) && (beside(test) || lets_in(yes)),
                    None => false,
                },
                Kind::Return(values) => values.iter().any(|value| {
                    compared(value).is_some_and(|form| form == Constant::Digest || beside(value))
                }),
                Kind::Bind(_, value) => {
                    compared(value).is_some_and(|form| form == Constant::Digest || beside(value))
                }
                _ => false,
            };
            if grants {
                found.push(statement.at);
            }
        });
    }
    found
}

/// Own functions that answer if they are given the second password.
fn testers(program: &Program) -> FxHashSet<usize> {
    let none = FxHashSet::default();
    let answers = |block: &[Statement]| match block.last() {
        Some(Statement { kind: Kind::Return(values), .. }) => {
            let names = Names::of(program, block);
            values.iter().any(|value| compares(value, true, &names, &none) == Some(Constant::Digest))
        }
        _ => false,
    };
    blocks(program).filter(|(_, block)| answers(block)).map(|(id, _)| id).collect()
}

/// True for a block that answers with something else than a text or a refusal, or sets something to true.
fn lets_in(block: &[Statement]) -> bool {
    let mut lets = false;
    statements(block, &mut |statement| {
        lets |= match &statement.kind {
            Kind::Return(values) => values.iter().any(|value| {
                !matches!(
                    value,
                    Expr::Nothing | Expr::Number(_) | Expr::Text(_) | Expr::Other(_) | Expr::List(_)
                )
            }),
            Kind::Bind(_, value) => matches!(**value, Expr::True),
            _ => false,
        };
    });
    lets
}

/// True for a block that ends by refusing.
fn denies(block: &[Statement]) -> bool {
    match block.last().map(|statement| &statement.kind) {
        Some(Kind::Raise(_)) => true,
        Some(Kind::Return(values)) => {
            values.iter().all(|value| matches!(value, Expr::Nothing | Expr::Number(0)))
        }
        Some(Kind::Block(inner)) => denies(inner),
        _ => false,
    }
}

/// Form of the constant password for which a test is true.
fn compares(test: &Expr, is_true: bool, names: &Names<'_>, testers: &FxHashSet<usize>) -> Option<Constant> {
    match test {
        Expr::Not(inner) => compares(inner, !is_true, names, testers),
        Expr::And(all) | Expr::Or(all) => {
            all.iter().filter_map(|one| compares(one, is_true, names, testers)).max()
        }
        Expr::Choice(test, ..) => compares(test, is_true, names, testers),
        Expr::Equal(left, right) => pair(left, right, names).filter(|_| is_true),
        Expr::In(left, right) => match &**right {
            Expr::List(all) if is_true => all.iter().filter_map(|one| pair(left, one, names)).max(),
            _ => None,
        },
        Expr::Call { function, args, .. } if is_true => match &args[..] {
            [(_, left), (_, right)] if compares_in_constant_time(last(function)) => pair(left, right, names),
            _ => {
                let is_tester = names.own_function(last(function)).is_some_and(|id| testers.contains(&id));
                is_tester.then_some(Constant::Digest)
            }
        },
        _ => None,
    }
}

fn compares_in_constant_time(name: &str) -> bool {
    matches!(
        name,
        "compare_digest"
            | "timingSafeEqual"
            | "safeCompare"
            | "safe_compare"
            | "constant_time_compare"
            | "safe_str_cmp"
            | "equals"
    )
}

/// Form of a constant beside a password, or beside a digest of one.
fn pair(left: &Expr, right: &Expr, names: &Names<'_>) -> Option<Constant> {
    [(left, right), (right, left)].iter().find_map(|(given, constant)| {
        let text = text(constant, names, 0)?;
        if is_digest(text) {
            return holds_password(given, names).then_some(Constant::Digest);
        }
        let is_plain = text.len() >= MIN_PASSWORD
            && text.bytes().all(|b| b.is_ascii_graphic())
            && !text.bytes().all(|b| b == b'*');
        let names_password = match given {
            Expr::Name(name) | Expr::Member(_, name) => is_password(name),
            _ => false,
        };
        (is_plain && names_password).then_some(Constant::Plain)
    })
}

/// Text that an expression is, through names and decoders.
pub(super) fn text<'p>(expression: &'p Expr, names: &Names<'p>, depth: usize) -> Option<&'p str> {
    const MAX_DEPTH: usize = 4;
    if depth > MAX_DEPTH {
        return None;
    }
    match expression {
        Expr::Text(text) => Some(text),
        Expr::Name(name) => text(names.meaning(name)?, names, depth + 1),
        Expr::Call { function, args, .. } => {
            let decodes = matches!(
                last(function),
                "fromhex" | "unhexlify" | "from" | "b64decode" | "encode" | "lower" | "toLowerCase"
            );
            let owner = match &**function {
                Expr::Member(owner, _) => Some(&**owner),
                _ => None,
            };
            let given = args.first().map(|(_, value)| value).or(owner).filter(|_| decodes)?;
            text(given, names, depth + 1)
        }
        _ => None,
    }
}

/// True for a digest in hexadecimal or base64.
fn is_digest(text: &str) -> bool {
    let hex =
        matches!(text.len(), 32 | 40 | 56 | 64 | 96 | 128) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let base64 = matches!(text.len(), 44 | 88)
        && text.ends_with('=')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/-_=".contains(&b));
    hex && text.bytes().any(|b| b.is_ascii_digit()) || base64
}

/// True for something made of what is called a password.
fn holds_password(expression: &Expr, names: &Names<'_>) -> bool {
    let mut holds = false;
    names.all(expression, &mut |part| {
        if let Expr::Name(name) | Expr::Member(_, name) = part {
            holds |= is_password(name);
        }
    });
    holds
}

/// True for names of passwords that a user gives.
fn is_password(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_of_store =
        ["hash", "field", "error", "input_type", "policy", "reset"].iter().any(|word| lower.contains(word));
    !is_of_store
        && (["password", "passwd", "passphrase", "passcode"].iter().any(|word| lower.contains(word))
            || matches!(&*lower, "pass" | "pwd" | "pw"))
}

/// True for a block that checks a password against what is stored.
fn checks_password(block: &[Statement], names: &Names<'_>) -> bool {
    let mut checks = false;
    statements(block, &mut |statement| {
        for expression in own(statement) {
            each(expression, &mut |part| checks |= checks_stored(part, names));
        }
    });
    checks
}

/// True for an expression with a check of a password against what is stored.
fn checks(expression: &Expr, names: &Names<'_>) -> bool {
    let mut checks = false;
    each(expression, &mut |part| checks |= checks_stored(part, names));
    checks
}

fn checks_stored(expression: &Expr, names: &Names<'_>) -> bool {
    match expression {
        Expr::Call { function, args, .. } => {
            let name = last(function);
            let lower = name.to_ascii_lowercase();
            let is_own_check =
                ["check", "verify", "validate", "compare", "authenticate", "is_valid", "isvalid", "match"]
                    .iter()
                    .any(|verb| lower.contains(verb));
            let is_open = !compares_in_constant_time(name)
                || args.iter().all(|(_, value)| text(value, names, 0).is_none());
            let given = args.iter().any(|(_, value)| holds_password(value, names));
            (is_own_check || compares_in_constant_time(name)) && is_open && given || name == "checkpw"
        }
        Expr::Equal(left, right) => {
            let is_stored = |one: &Expr| {
                matches!(one, Expr::Member(_, name) if is_stored(name)) || matches!(one, Expr::Index(..))
            };
            (is_stored(left) && holds_password(right, names))
                || (is_stored(right) && holds_password(left, names))
        }
        _ => false,
    }
}

/// True for names of members that hold a stored password.
fn is_stored(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["hash", "digest", "password", "passwd"].iter().any(|word| lower.contains(word))
}
