//! Output of simple commands, for reading what they are piped into.

use super::Shell;
use super::tokens::{ENVIRONMENT, narrows_environment, prints_environment, prints_token};
use crate::decode;
use crate::value::{HOLE, Origin, Value};
use std::rc::Rc;

use crate::decode::unescape;

impl Shell<'_, '_> {
    /// Output of a command, given its input.
    pub(super) fn output(&mut self, name: &str, argv: &[Value], stdin: &Value) -> Value {
        let args = argv.get(1..).unwrap_or(&[]);
        let flag = |flags: &[&str]| args.iter().any(|v| v.as_text().is_some_and(|t| flags.contains(&t)));
        let decoded = |step: &'static str| {
            decode::apply(step, stdin).unwrap_or_else(|| {
                Value { names: stdin.names.clone(), ..Value::default() }
                    .with_origin(stdin.origin | Origin::DECODED)
            })
        };
        let secret = args.iter().any(|v| v.as_text().is_some_and(crate::rules::is_secret));
        let origin = stdin.origin | if secret { Origin::SECRET } else { Origin::default() };
        // Listings of the root or the home folder are far-reaching; filters pass their input on.
        let lists = matches!(name, "find" | "ls" | "fd" | "locate" | "du");
        let wide = lists && args.iter().any(|v| v.as_text().is_some_and(crate::rules::is_root_like));
        let origin = origin | if wide { Origin::WIDE } else { Origin::default() };
        // Arguments of a tool, out of the message that calls it.
        let of_tool = matches!(name, "jq" | "gojq" | "jaq")
            && args.iter().filter_map(Value::as_text).any(|filter| filter.contains(".arguments"));
        let origin = origin | if of_tool { Origin::CALLER } else { Origin::default() };
        // A filter passes on its input and the files that it is given.
        let narrows = narrows_environment(name, args);
        let passed = || {
            let is_kept = |n: &&Rc<str>| !(narrows && &***n == ENVIRONMENT);
            let fed = stdin
                .names
                .iter()
                .filter(|n| tells_of_environment(n) || n.starts_with(super::FROM_FILE))
                .filter(is_kept);
            let words = args.iter().filter_map(Value::as_whole_text);
            let files =
                words.filter(|word| !word.starts_with('-') && !word.contains("://") && word.len() < 256);
            let files = files.take(MAX_FILES).map(|path| Rc::from(format!("{}{path}", super::FROM_FILE)));
            fed.take(MAX_FILES).cloned().chain(files.collect::<Vec<_>>())
        };
        let unknown = || {
            let whole = prints_environment(name, args).then(|| Rc::from(ENVIRONMENT));
            let token = prints_token(name, args).then(|| Rc::from(crate::rules::SERVICE_TOKEN));
            let names = std::iter::once(Rc::from(name)).chain(whole).chain(token).chain(passed());
            Value { names: names.collect(), origin, ..Value::default() }
        };
        match name {
            "echo" => {
                let escapes = args
                    .first()
                    .and_then(Value::as_text)
                    .is_some_and(|t| t.starts_with('-') && t.contains('e'));
                let words = args.iter().skip_while(|v| {
                    v.as_text().is_some_and(|t| matches!(t, "-n" | "-e" | "-ne" | "-en" | "-E"))
                });
                let text = words.map(Value::text_or_hole).collect::<Vec<_>>().join(" ");
                carry(args, &if escapes { unescape(&text) } else { text }, escapes)
            }
            "printf" => {
                let Some(format) = args.first().and_then(Value::as_text) else { return Value::default() };
                let plain = unescape(format);
                let mut rest = args.iter().skip(1);
                let mut out = String::new();
                let mut chars = plain.chars();
                while let Some(c) = chars.next() {
                    if c != '%' {
                        out.push(c);
                        continue;
                    }
                    match chars.find(|c| c.is_alphabetic() || *c == '%') {
                        Some('%') | None => out.push('%'),
                        Some('b') => out
                            .push_str(&unescape(&rest.next().map_or_else(String::new, Value::text_or_hole))),
                        Some(_) => out.push_str(&rest.next().map_or_else(String::new, Value::text_or_hole)),
                    }
                }
                for extra in rest.take(64) {
                    out.push_str(&extra.text_or_hole());
                }
                carry(
                    args,
                    &out,
                    [format]
                        .into_iter()
                        .chain(
                            args.iter().skip(1).filter_map(Value::as_text).filter(|_| format.contains("%b")),
                        )
                        .any(|t| t.contains("\\x") || t.contains("\\0") || t.contains("\\1")),
                )
            }
            "cat" | "tee" if !args.iter().any(|v| v.as_text().is_some_and(|t| !t.starts_with('-'))) => {
                stdin.clone()
            }
            "cat" if !secret => args
                .first()
                .and_then(Value::as_text)
                .and_then(|path| self.files.get(path).cloned())
                .unwrap_or_else(unknown),
            "base64" if flag(&["-d", "-D", "--decode", "-di"]) => decoded("base64"),
            "base32" if flag(&["-d", "--decode"]) => decoded("base32"),
            "openssl" if flag(&["-d", "-base64"]) && flag(&["base64", "-base64", "-a"]) => decoded("base64"),
            "openssl" if flag(&["-d"]) => Value::default().with_origin(stdin.origin | Origin::DECODED),
            "xxd" if flag(&["-r", "-rp", "-r-p"]) || flag(&["-p"]) => decoded("hex"),
            "rev" => decoded("reversed"),
            "gunzip" | "zcat" | "gzip" => decoded("gzip"),
            "bunzip2" | "bzcat" => decoded("bzip2"),
            "xz" | "unxz" | "xzcat" => decoded("lzma"),
            "tr" => match (
                stdin.as_whole_text(),
                args.first().and_then(Value::as_text),
                args.get(1).and_then(Value::as_text),
            ) {
                (Some(text), Some("-d"), Some(set)) => {
                    Value::text(&text.chars().filter(|c| !ranges(set).contains(c)).collect::<String>())
                        .decoded_by("tr", stdin)
                }
                (Some(text), Some(from), Some(to)) => {
                    let (from, to) = (ranges(from), ranges(to));
                    let turn = |c: char| {
                        from.iter()
                            .position(|f| *f == c)
                            .and_then(|at| to.get(at).or(to.last()))
                            .copied()
                            .unwrap_or(c)
                    };
                    Value::text(&text.chars().map(turn).collect::<String>()).decoded_by("tr", stdin)
                }
                _ => unknown(),
            },
            "sed" => unknown(),
            "curl" | "wget" | "fetch" | "nc" | "ncat" | "aria2c" | "lwp-request" | "GET" | "http" | "dig"
            | "nslookup" => {
                let mut value = unknown().with_origin(Origin::NET);
                value.known = None;
                let urls = args.iter().filter_map(Value::as_text).filter(|t| t.contains("://")).take(4);
                value.names.extend(urls.map(|url| Rc::from(format!("fetch:{url}"))));
                value
            }
            "true" | ":" => Value::text(""),
            _ => unknown(),
        }
    }
}

/// Maximum number of files that the output of one command may come from.
const MAX_FILES: usize = 16;

/// Commands whose output keeps its meaning through filters and variables.
fn tells_of_environment(name: &str) -> bool {
    matches!(name, "env" | "printenv" | "history" | "set" | "export" | "declare")
        || matches!(name, ENVIRONMENT | crate::rules::SERVICE_TOKEN)
}

fn carry(args: &[Value], text: &str, escapes: bool) -> Value {
    let mut value = Value::text(text);
    for arg in args {
        value.origin |= arg.origin;
        let told = |n: &&Rc<str>| {
            tells_of_environment(n)
                || n.starts_with(super::FROM_FILE)
                || matches!(&***n, crate::rules::TOKEN | crate::rules::SERVICE_TOKEN)
        };
        value.names.extend(arg.names.iter().filter(told).take(MAX_FILES).cloned());
        if value.chain.is_empty() {
            value.chain.clone_from(&arg.chain);
        }
    }
    if escapes && text.contains(|c: char| c.is_ascii_graphic()) && !text.contains(HOLE) {
        value.chain.push("escapes");
        value.origin |= Origin::DECODED;
    }
    value
}

/// Expands `a-z`.
fn ranges(set: &str) -> Vec<char> {
    let chars: Vec<char> = set.trim_matches(['[', ']']).chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() && out.len() < 512 {
        if at + 2 < chars.len() && chars[at + 1] == '-' && chars[at] <= chars[at + 2] {
            out.extend((chars[at]..=chars[at + 2]).take(256));
            at += 3;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}
