//! Shell: the same command in other spellings.

use crate::{Transform, base64, decoy, hex};

/// Transforms that preserve the script's behaviour.
pub const ALL: &[Transform] = &[
    ("quotes in words", |text| commands(text, |word| half(word, "''"))),
    ("backslash in words", |text| commands(text, |word| half(word, "\\"))),
    ("broken words", |text| commands(text, |word| half(word, "\\\n"))),
    ("quoted words", |text| commands(text, |word| Some(format!("\"{word}\"")))),
    ("ansi-c words", |text| {
        commands(text, |word| {
            Some(format!(
                "$'\\x{}'",
                hex(word)
                    .as_bytes()
                    .chunks(2)
                    .map(|pair| String::from_utf8_lossy(pair).into_owned())
                    .collect::<Vec<_>>()
                    .join("\\x")
            ))
        })
    }),
    ("variable for a word", |text| {
        let first = text.split_whitespace().next().filter(|word| is_command(word))?;
        Some(format!("zq={first}\n$zq{}", text.trim_start().strip_prefix(first)?))
    }),
    ("pieces in variables", |text| {
        let first = text.split_whitespace().next().filter(|word| is_command(word) && word.len() > 1)?;
        let (front, back) = first.split_at(first.len() / 2);
        Some(format!("zq={front}; zr={back}\n$zq${{zr}}{}", text.trim_start().strip_prefix(first)?))
    }),
    ("ifs", |text| simple(text).then(|| text.replace(' ', "${IFS}"))),
    ("tabs", |text| simple(text).then(|| text.replace(' ', " \t "))),
    ("continued lines", |text| simple(text).then(|| text.replace(' ', " \\\n  "))),
    ("comments", |text| {
        Some(format!("{}{text}{}", decoy("# "), if text.contains("<<") { "" } else { " # nothing" }))
    }),
    ("eval", |text| single(text).map(|quoted| format!("eval {quoted}"))),
    ("bash -c", |text| single(text).map(|quoted| format!("bash -c {quoted}"))),
    ("env sh -c", |text| single(text).map(|quoted| format!("env X=1 nohup sh -c {quoted}"))),
    ("trap", |text| single(text).map(|quoted| format!("trap {quoted} EXIT"))),
    ("here-document", |text| (!text.contains("ZQ")).then(|| format!("sh <<'ZQ'\n{text}\nZQ\n"))),
    ("here-string", |text| single(text).map(|quoted| format!("bash <<< {quoted}"))),
    ("base64", |text| Some(format!("echo {} | base64 -d | sh", base64(text)))),
    ("xxd", |text| Some(format!("echo {} | xxd -r -p | bash", hex(text)))),
    ("printf", |text| {
        let escaped: String = text.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        Some(format!("printf '{escaped}' | sh"))
    }),
    ("process substitution", |text| single(text).map(|quoted| format!("bash <(echo {quoted})"))),
    ("command substitution", |text| single(text).map(|quoted| format!("eval \"$(printf %s {quoted})\""))),
    ("in a function", |text| Some(format!("zq() {{\n{text}\n}}\nzq\n"))),
    ("in an if", |text| Some(format!("if true; then\n{text}\nfi\n"))),
    ("in a loop", |text| Some(format!("for zq in 1; do\n{text}\ndone\n"))),
    ("in a subshell", |text| Some(format!("(\n{text}\n)\n"))),
    ("in a group", |text| Some(format!("true && {{\n{text}\n}}\n"))),
    ("in a case", |text| Some(format!("case x in\nx)\n{text}\n;;\nesac\n"))),
    ("in the background", |text| simple(text).then(|| format!("{text} >/dev/null 2>&1 &"))),
    ("in python", |text| Some(format!("#!file a.py\nimport os\nos.system({})\n", crate::quoted(text)))),
    ("in javascript", |text| {
        Some(format!("#!file a.js\nrequire('child_process').execSync({})\n", crate::quoted(text)))
    }),
];

/// Transforms after which the code is not executed.
pub const HARMLESS: &[Transform] = &[
    ("in comments", |text| {
        Some(text.lines().map(|line| format!("# {line}\n")).collect::<String>() + "true\n")
    }),
    ("echoed", |text| single(text).map(|quoted| format!("echo {quoted}"))),
];

/// True for a word that names a program.
fn is_command(word: &str) -> bool {
    let reserved = [
        "if", "for", "while", "until", "case", "do", "then", "else", "fi", "done", "esac", "function",
        "select",
    ];
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b))
        && !reserved.contains(&word)
        && !word.starts_with('-')
}

/// True for one command without quotes and expansions.
fn simple(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b" ./-_:=@,~*".contains(&b))
        && text.split(' ').next().is_some_and(|word| !word.contains('='))
}

/// The text as one word in single quotes.
fn single(text: &str) -> Option<String> {
    Some(format!("'{}'", text.replace('\'', "'\\''")))
}

fn half(word: &str, insert: &str) -> Option<String> {
    (word.len() > 1).then(|| format!("{}{insert}{}", &word[..1], &word[1..]))
}

/// Rewrites the first word of every line that begins with a program's name.
fn commands(text: &str, rewrite: impl Fn(&str) -> Option<String>) -> Option<String> {
    // Within a here-document or a word over several lines, the first word is not a command.
    if text.contains("<<")
        || text.lines().count() > 1 && text.contains(['\'', '"', '\\'])
        || text.contains("()")
    {
        return None;
    }
    let mut changed = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let word = line.split([' ', '\t', ';', '|', '&', '<', '>', ')']).next().unwrap_or_default();
            match rewrite(word).filter(|_| is_command(word)) {
                Some(new) => {
                    changed = true;
                    format!("{new}{}", &line[word.len()..])
                }
                None => line.to_owned(),
            }
        })
        .collect();
    changed.then(|| lines.join("\n"))
}
