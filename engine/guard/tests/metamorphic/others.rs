//! Go, Rust, C, C++, Java and PowerShell: blanks, comments and line ends.

use crate::{Transform, decoy};

/// Transforms that preserve the program's behaviour.
pub const ALL: &[Transform] = &[
    ("comments", |text| spread(text, "/* x */")),
    ("newlines", |text| spread(text, "\n\t")),
    ("carriage returns", |text| {
        (!text.contains('`') && !text.contains("\\\n")).then(|| text.replace('\n', "\r\n"))
    }),
    ("decoy", |text| Some(format!("{}{text}", decoy("// ")))),
];

/// Transforms after which the code is not executed.
pub const HARMLESS: &[Transform] =
    &[("in comments", |text| Some(text.lines().map(|line| format!("// {line}\n")).collect()))];

/// PowerShell ignores the case of names, and backticks in them.
pub const POWERSHELL: &[Transform] = &[
    ("upper case", |text| (!text.contains(['\'', '"'])).then(|| text.to_uppercase())),
    ("decoy", |text| Some(format!("{}{text}", decoy("# ")))),
    ("in a block", |text| Some(format!("if ($true) {{\n{text}\n}}\n"))),
    ("in a function", |text| Some(format!("function Zq {{\n{text}\n}}\nZq\n"))),
];

/// Inserts a text after every bracket outside of literals and preprocessor lines.
fn spread(text: &str, insert: &str) -> Option<String> {
    if text.contains(['`', '#']) || text.contains("//") || text.contains("/*") || text.contains("'\"'") {
        return None;
    }
    let (mut out, mut quoted, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        out.push(c);
        if !quoted && "(,".contains(c) {
            out.push_str(insert);
        }
    }
    (out != text).then_some(out)
}
