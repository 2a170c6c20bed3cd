//! Whether lines that were typed are a whole cell, or more is to come. Pure; an interpreter would know better, but the text must not run
//! before it is whole.

use hotcell_sessions::Language;

/// Whether the text is a whole cell. An empty line ends one that is not.
pub fn is_whole(language: Language, text: &str) -> bool {
    if text.trim().is_empty() {
        return true;
    }
    let is_ended = text.ends_with("\n\n");
    let last = text.trim_end_matches('\n').lines().next_back().unwrap_or_default();
    match language {
        Language::Sql | Language::PostgreSql => is_ended || last.trim_end().ends_with(';'),
        _ if last.ends_with('\\') => false,
        _ if is_ended => depth(language, text) <= 0 || text.ends_with("\n\n\n"),
        _ if depth(language, text) > 0 => false,
        Language::Python => {
            let is_block = last.trim_end().ends_with(':') || last.starts_with([' ', '\t', '@']);
            !is_block
        }
        Language::Bash => words(text) <= 0,
        Language::Node | Language::TypeScript => true,
    }
}

/// Number of brackets that are open, outside of strings; also 1 within a string that may go on.
fn depth(language: Language, text: &str) -> i32 {
    let is_script = matches!(language, Language::Node | Language::TypeScript);
    let (mut depth, mut quote, mut rest) = (0, None::<&str>, text);
    while let Some(c) = rest.chars().next() {
        let mut step = c.len_utf8();
        match quote {
            Some(open) => {
                if c == '\\' && !(language == Language::Bash && open == "'") {
                    step += rest[step..].chars().next().map_or(0, char::len_utf8);
                } else if rest.starts_with(open) {
                    step = open.len();
                    quote = None;
                } else if c == '\n' && open.len() == 1 && language != Language::Bash && open != "`" {
                    quote = None;
                }
            }
            None => match c {
                '"' | '\'' | '`' => {
                    let of_python = language == Language::Python && c != '`';
                    let open = [r#"""""#, "'''"].into_iter().find(|open| of_python && rest.starts_with(open));
                    let one = match c {
                        '"' => "\"",
                        '\'' => "'",
                        _ => "`",
                    };
                    let open = open.unwrap_or(one);
                    step = open.len();
                    quote = Some(open);
                }
                '#' if !is_script => step = rest.find('\n').unwrap_or(rest.len()),
                '/' if is_script && rest.starts_with("//") => {
                    step = rest.find('\n').unwrap_or(rest.len());
                }
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            },
        }
        rest = &rest[step.max(1)..];
    }
    depth + i32::from(quote.is_some())
}

/// Number of a shell's compound commands that are open.
fn words(text: &str) -> i32 {
    let words = text.split(|c: char| c.is_whitespace() || c == ';');
    words
        .map(|word| match word {
            "if" | "case" | "do" => 1,
            "fi" | "esac" | "done" => -1,
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_until_a_cell_is_whole() {
        use Language::{Bash, Node, Python, Sql};
        for (language, text, want) in [
            (Python, "1 + 1\n", true),
            (Python, "def f():\n", false),
            (Python, "def f():\n    return 1\n", false),
            (Python, "def f():\n    return 1\n\n", true),
            (Python, "f(\n", false),
            (Python, "f(\n1)\n", true),
            (Python, "'('\n", true),
            (Python, "\"\"\"a\n", false),
            (Python, "# (\n", true),
            (Python, "a = '\\''\n", true),
            (Node, "function f() {\n", false),
            (Node, "function f() {\n}\n", true),
            (Node, "`a\n", false),
            (Bash, "for x in a; do\n", false),
            (Bash, "for x in a; do\necho\ndone\n", true),
            (Bash, "echo 'a\n", false),
            (Bash, "echo \\\n", false),
            (Sql, "select 1\n", false),
            (Sql, "select 1;\n", true),
            (Sql, "select 1\n\n", true),
            (Python, "\n", true),
            (Python, "(\n\n", false),
            (Python, "(\n\n\n", true),
        ] {
            assert_eq!(is_whole(language, text), want, "{text:?}");
        }
    }
}
