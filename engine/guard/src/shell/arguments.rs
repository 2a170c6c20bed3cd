//! Program texts in the arguments of commands, beyond those of the program table.

use crate::language::Language;
use crate::rules::is_shell;
use crate::value::Value;

/// Language of an interpreter.
pub(super) fn language_of(name: &str) -> Option<Language> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(match base {
        "python" | "pypy" | "ipython" => Language::Python,
        "node" | "nodejs" | "deno" | "bun" => Language::JavaScript,
        "psql" | "mysql" | "sqlite" | "mariadb" | "duckdb" => Language::Sql,
        "pwsh" | "powershell" => Language::PowerShell,
        _ if is_shell(name) => Language::Bash,
        _ => return None,
    })
}

/// Arguments of a command line that are programs themselves.
pub(super) fn programs(name: &str, argv: &[Value]) -> Vec<(Language, Value)> {
    let mut out = Vec::new();
    let after = |flags: &[&str]| -> Vec<Value> {
        argv.windows(2)
            .filter(|w| w[0].as_text().is_some_and(|t| flags.contains(&t)))
            .map(|w| w[1].clone())
            .collect()
    };
    let clustered = |letter: char| -> Vec<Value> {
        argv.windows(2)
            .skip(1)
            .filter(|w| {
                w[0].as_text().is_some_and(|t| {
                    t.starts_with('-') && !t.starts_with("--") && t.ends_with(letter) && t.len() <= 6
                })
            })
            .map(|w| w[1].clone())
            .collect()
    };
    let joined = |from: usize| {
        argv.iter().skip(from).fold(Value::text(""), |sum, v| {
            crate::value::concat(&crate::value::concat(&sum, &Value::text(" ")), v)
        })
    };
    match name {
        "eval" => {
            let mut text = joined(1);
            text.chain = argv
                .iter()
                .skip(1)
                .find(|v| !v.chain.is_empty())
                .map(|v| v.chain.clone())
                .unwrap_or_default();
            out.push((Language::Bash, text));
        }
        "trap" => out.extend(argv.get(1).map(|v| (Language::Bash, v.clone()))),
        "alias" => out.extend(argv.iter().skip(1).map(|v| (Language::Bash, after_equals(v)))),
        "su" | "runuser" => out.extend(clustered('c').into_iter().map(|v| (Language::Bash, v))),
        "watch" | "parallel" if argv.len() == 2 => out.push((Language::Bash, argv[1].clone())),
        "ssh" if argv.len() >= 3 => out.extend(argv.last().map(|v| (Language::Bash, v.clone()))),
        "psql" | "mysql" | "mariadb" => {
            out.extend(
                after(&["-c", "-e", "--command", "--execute"]).into_iter().map(|v| (Language::Sql, v)),
            );
        }
        "sqlite3" | "duckdb" => out.extend(argv.iter().skip(2).map(|v| (Language::Sql, v.clone()))),
        "pwsh" | "powershell" => {
            out.extend(
                after(&["-Command", "-c", "-command", "/c"]).into_iter().map(|v| (Language::PowerShell, v)),
            );
            for encoded in
                after(&["-EncodedCommand", "-enc", "-e", "-ec", "-encodedcommand", "-Enc", "-EncodedC"])
            {
                if let Some(plain) =
                    crate::decode::apply("base64", &encoded).and_then(|v| crate::decode::apply("utf-16", &v))
                {
                    out.push((Language::PowerShell, plain));
                }
            }
        }
        "cmd" => out.extend(after(&["/c", "/C", "/k", "/K"]).into_iter().map(|v| (Language::Bash, v))),
        "git" => out.extend(
            after(&["-c"])
                .into_iter()
                .filter(|v| {
                    v.as_text()
                        .is_some_and(|t| t.contains("=!") || t.contains("pager=") || t.contains("Command="))
                })
                .map(|v| (Language::Bash, after_equals(&v))),
        ),
        "awk" | "gawk" | "mawk" | "nawk" => {
            out.extend(argv.iter().skip(1).filter_map(awk_system).map(|v| (Language::Bash, v)));
        }
        _ => {}
    }
    match language_of(name) {
        Some(Language::Bash) => out.extend(clustered('c').into_iter().map(|v| (Language::Bash, v))),
        Some(Language::Python) => out.extend(clustered('c').into_iter().map(|v| (Language::Python, v))),
        Some(Language::JavaScript) => out.extend(
            after(&["-e", "--eval", "-p", "--print", "-pe"]).into_iter().map(|v| (Language::JavaScript, v)),
        ),
        _ => {}
    }
    out
}

fn after_equals(value: &Value) -> Value {
    let text = value.as_text().unwrap_or("");
    Value::text(text.split_once('=').map_or(text, |(_, command)| command.trim_start_matches('!')))
}

/// Argument of awk's `system()`, or of a pipe into a command.
fn awk_system(value: &Value) -> Option<Value> {
    let text = value.as_text()?;
    let from = text.find("system(")? + "system(".len();
    let inner = text[from..].trim_start_matches(['"', ' ']);
    Some(Value::text(&inner[..inner.find(['"', ')']).unwrap_or(inner.len())]))
}

/// True when an interpreter reads its program from standard input because no script is named.
pub(super) fn reads_program_from_stdin(name: &str, argv: &[Value]) -> bool {
    if language_of(name).is_none() && !matches!(name, "perl" | "ruby" | "php") {
        return false;
    }
    let mut words = argv.iter().skip(1).map(|v| v.as_text().unwrap_or("x"));
    let is_program = |w: &str| {
        matches!(w, "-c" | "-e" | "--eval" | "-m" | "-p" | "--print" | "-pe")
            // `perl -ne`, `ruby -lane`.
            || matches!(name, "perl" | "ruby") && w.starts_with('-') && !w.starts_with("--") && w.ends_with(['e', 'E'])
    };
    !words.clone().any(is_program) && words.all(|w| w.starts_with('-') || w == "/dev/stdin")
        || argv.iter().any(|v| v.as_text() == Some("-s"))
}
