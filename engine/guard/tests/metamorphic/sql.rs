//! SQL: case, blanks, comments, and the programs that send it.

use crate::{Transform, quoted};

/// Transforms that preserve the statements' behaviour.
pub const ALL: &[Transform] = &[
    ("lower case", |text| outside(text, |c| c.to_ascii_lowercase().to_string())),
    ("mixed case", |text| {
        let mut upper = false;
        outside(text, |c| {
            upper = !upper;
            if upper { c.to_ascii_uppercase().to_string() } else { c.to_ascii_lowercase().to_string() }
        })
    }),
    ("comments for blanks", |text| {
        outside(text, |c| if c == ' ' { "/**/".to_owned() } else { c.to_string() })
    }),
    ("lines for blanks", |text| {
        outside(text, |c| if c == ' ' { " -- x\n".to_owned() } else { c.to_string() })
    }),
    ("tabs for blanks", |text| outside(text, |c| if c == ' ' { "\t \t".to_owned() } else { c.to_string() })),
    ("decoy", |text| special(text).then(|| format!("-- SELECT 1\nSELECT 'DELETE FROM t;';\n{text}"))),
    ("in a transaction", |text| {
        special(text).then(|| format!("BEGIN;\n{};\nCOMMIT;\n", text.trim_end_matches([';', '\n'])))
    }),
    ("in python", |text| {
        Some(format!("#!file a.py\nimport sqlite3\nsqlite3.connect('x').execute({})\n", quoted(text)))
    }),
    ("in javascript", |text| {
        let head = "#!file a.js\nconst c = require('pg');\nnew c.Client()";
        special(text).then(|| format!("{head}.query({})\n", quoted(text)))
    }),
    ("in a client's command", |text| {
        (special(text) && !text.contains('\'')).then(|| format!("#!file a.sh\npsql -c '{text}'\n"))
    }),
];

/// Transforms after which the code is not executed.
pub const HARMLESS: &[Transform] = &[
    ("in comments", |text| {
        Some(text.lines().map(|line| format!("-- {line}\n")).collect::<String>() + "SELECT 1;\n")
    }),
    ("in a text", |text| Some(format!("SELECT '{}';\n", text.replace('\'', "''")))),
];

/// True for a statement, rather than a client's own command at the beginning of a line.
fn special(text: &str) -> bool {
    !text.contains('\\') && !text.starts_with('.') && !text.to_ascii_uppercase().contains("DELIMITER")
}

/// Rewrites characters outside of quotes and comments.
fn outside(text: &str, mut rewrite: impl FnMut(char) -> String) -> Option<String> {
    if !special(text)
        || text.contains('$')
        || text.contains("--")
        || text.contains("/*")
        || text.contains('#')
    {
        return None;
    }
    let mut quote = None;
    let mut out = String::new();
    for c in text.chars() {
        match quote {
            None if "'\"`".contains(c) => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => {}
        }
        if quote.is_none() && !"'\"`".contains(c) { out.push_str(&rewrite(c)) } else { out.push(c) }
    }
    (out != text).then_some(out)
}
