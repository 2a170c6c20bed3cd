//! Destruction that waits for a date: until then the program does what it says.

use super::walk::{Names, blocks, diverts, each, own, statements};
use super::words::{Lazy, Words};
use crate::hosts::{At, Expr, Kind, Program, Statement, last};

/// Smallest number that counts as a time in seconds: 2020.
const MIN_TIME: i64 = 1_577_836_800;

/// True for a source that asks for the time and destroys something.
pub(super) fn may_hold(source: &str) -> bool {
    static MOMENTS: Lazy = Lazy::new(|| {
        Words::new(&[
            "UTC(",
            "Date(",
            "Date.parse(",
            "date(",
            "datetime(",
            "fromisoformat(",
            "strptime(",
            "time()",
            "Date.now()",
        ])
    });
    static TIMES: Lazy = Lazy::new(|| Words::new(&["Date", "date", "time"]));
    static DESTROYERS: Lazy = Lazy::new(|| {
        Words::new(&["rm", "unlink", "write", "remove", "truncate", "drop", "delete", "exec", "system"])
    });
    MOMENTS.any_in(source) && TIMES.any_in(source) && DESTROYERS.any_in(source)
}

/// Places of tests for a fixed date on which something is destroyed.
pub(super) fn waiting(program: &Program) -> Vec<At> {
    let mut found = Vec::new();
    for (_, block) in blocks(program) {
        let names = Names::of(program, block);
        within(block, &names, program, &mut found);
    }
    found
}

fn within(block: &[Statement], names: &Names<'_>, program: &Program, found: &mut Vec<At>) {
    for (at, statement) in block.iter().enumerate() {
        match &statement.kind {
            Kind::If(test, yes, no) => {
                let waits = is_of_date(test, names);
                let destroyed = destroys(yes, program) || destroys(no, program);
                // `if (Date.now() < DATE) return;`
                let behind = diverts(yes) && no.is_empty() && destroys(&block[at + 1..], program);
                if waits && (destroyed || behind) {
                    found.push(statement.at);
                }
                within(yes, names, program, found);
                within(no, names, program, found);
            }
            Kind::Loop(_, _, body) | Kind::Block(body) => within(body, names, program, found),
            Kind::Try(body, handlers, rest) => {
                within(body, names, program, found);
                handlers.iter().for_each(|handler| within(handler, names, program, found));
                within(rest, names, program, found);
            }
            _ => {}
        }
    }
}

/// True for a test that compares the time with a fixed date.
fn is_of_date(test: &Expr, names: &Names<'_>) -> bool {
    let (mut now, mut date) = (false, false);
    names.all(test, &mut |part| match part {
        Expr::Call { function, args, .. } => {
            let name = last(function);
            let is_empty = args.is_empty();
            now |= matches!(name, "now" | "utcnow" | "today" | "time" | "getTime" | "Date") && is_empty;
            let is_fixed = args.iter().all(|(_, value)| matches!(value, Expr::Text(_) | Expr::Number(_)));
            let has_date = args.iter().any(|(_, value)| match value {
                Expr::Text(text) => holds_year(text),
                Expr::Number(number) => (2020..2100).contains(number) || is_time(*number),
                _ => false,
            });
            date |= matches!(
                name,
                "UTC"
                    | "Date"
                    | "parse"
                    | "date"
                    | "datetime"
                    | "fromisoformat"
                    | "strptime"
                    | "fromtimestamp"
                    | "Timestamp"
            ) && is_fixed
                && has_date;
        }
        Expr::Number(number) => date |= is_time(*number),
        _ => {}
    });
    now && date
}

fn is_time(number: i64) -> bool {
    (MIN_TIME..2 * MIN_TIME).contains(&number) || (MIN_TIME * 1000..2000 * MIN_TIME).contains(&number)
}

/// True for a text that begins with a year of this century and a separator.
fn holds_year(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > 6
        && text.starts_with("20")
        && bytes[2].is_ascii_digit()
        && bytes[3].is_ascii_digit()
        && matches!(bytes[4], b'-' | b'/')
}

/// True for a block, with the functions of the program that it calls, that deletes, overwrites or drops something.
fn destroys(block: &[Statement], program: &Program) -> bool {
    const MAX_CALLS: usize = 2;
    destroys_within(block, program, MAX_CALLS)
}

fn destroys_within(block: &[Statement], program: &Program, calls: usize) -> bool {
    let mut found = false;
    let mut called = Vec::new();
    statements(block, &mut |statement| {
        for expression in own(statement) {
            each(expression, &mut |part| match part {
                Expr::Call { function, .. } => {
                    found |= is_destructive(function);
                    called.extend(program.by_name.get(last(function)).copied().flatten());
                }
                Expr::Function(id) => called.push(*id),
                _ => {}
            });
        }
    });
    found
        || calls > 0
            && called.iter().any(|id| {
                program
                    .functions
                    .get(*id)
                    .is_some_and(|function| destroys_within(&function.body, program, calls - 1))
            })
}

fn is_destructive(function: &Expr) -> bool {
    let owner = match function {
        Expr::Member(owner, _) => last(owner),
        _ => "",
    };
    match last(function) {
        "rmtree" | "rmSync" | "unlink" | "unlinkSync" | "rmdirSync" | "rimraf" | "removedirs"
        | "truncate" | "truncateSync" | "dropDatabase" | "drop_database" | "drop_all" | "flushall"
        | "flushAll" | "delete_many" | "deleteMany" | "write_bytes" | "write_text" | "writeFileSync"
        | "system" | "execSync" => true,
        "remove" | "rename" | "replace" => owner == "os",
        "rm" | "rmdir" | "writeFile" => matches!(owner, "fs" | "fsp" | "promises" | "os" | "shell" | ""),
        _ => false,
    }
}
