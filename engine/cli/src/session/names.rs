//! Names that complete what is typed: those of the language, and those of the cells before. The interpreter is not asked: what it says is the
//! cells' own. Pure.

use std::collections::BTreeSet;

use hotcell_sessions::Language;

/// Maximum number of names of cells that are remembered.
const MAX_NAMES: usize = 10_000;

const PYTHON: &str = "False None True and as assert async await break class continue def del elif else except finally for from global if import in is \
    lambda nonlocal not or pass raise return try while with yield abs all any bool bytes callable chr dict dir enumerate filter float format frozenset \
    getattr hasattr hash help hex id input int isinstance issubclass iter len list map max min next object open ord pow print range repr reversed round set \
    setattr slice sorted str sum super tuple type vars zip Exception KeyError IndexError TypeError ValueError RuntimeError StopIteration";
const NODE: &str = "async await break case catch class const continue debugger default delete do else export extends false finally for function if import in \
    instanceof let new null return static super switch this throw true try typeof undefined var void while yield Array Boolean Buffer Date Error JSON Map Math \
    Number Object Promise RegExp Set String Symbol URL console globalThis isFinite isNaN parseFloat parseInt process require setTimeout structuredClone";
const BASH: &str = "alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function getopts if in local printf pwd read \
    readonly return select set shift source test then trap type unset until wait while awk cat cp cut date find grep head ls mkdir mv rm sed sort tail tr uniq wc xargs";
const SQL: &str = "ALTER AND AS ASC BETWEEN BY CASE CREATE CROSS DELETE DESC DISTINCT DROP ELSE END EXISTS EXPLAIN FROM GROUP HAVING IN INDEX INNER INSERT INTEGER \
    INTO IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER PRAGMA PRIMARY KEY REAL SELECT SET TABLE TEXT UNION UNIQUE UPDATE VALUES VIEW WHERE WITH";

/// Names so far.
#[derive(Debug)]
pub struct Names {
    language: Language,
    all: BTreeSet<String>,
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Names {
    /// The names of a language.
    pub fn of(language: Language) -> Self {
        let words = match language {
            Language::Python => PYTHON,
            Language::Node | Language::TypeScript => NODE,
            Language::Bash => BASH,
            Language::Sql | Language::PostgreSql => SQL,
        };
        Self { language, all: words.split_whitespace().map(str::to_owned).collect() }
    }

    /// Adds the names of a cell.
    pub fn add(&mut self, cell: &str) {
        for name in cell.split(|c| !is_of_name(c)) {
            let is_name = name.len() > 1 && !name.starts_with(|c: char| c.is_numeric());
            if is_name && self.all.len() < MAX_NAMES {
                self.all.insert(name.to_owned());
            }
        }
    }

    /// Beginning of the name before the cursor, and what may stand in its place.
    pub fn complete(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let before = line.get(..cursor).unwrap_or(line);
        let begin = before
            .rfind(|c| !is_of_name(c))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let name = &before[begin..];
        // In place of a tab at the beginning of a line.
        if name.is_empty() {
            let is_indent = before.is_empty() || before.ends_with(['\n', ' ', '\t']);
            return (begin, if is_indent { vec!["    ".to_owned()] } else { Vec::new() });
        }
        let matches = |known: &str| match self.language {
            Language::Sql | Language::PostgreSql => {
                known.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            }
            _ => known.starts_with(name),
        };
        (begin, self.all.iter().filter(|known| matches(known) && *known != name).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_complete_what_is_before_the_cursor() {
        let mut names = Names::of(Language::Python);
        names.add("first_value = 1\nfirst_other = first_value + x2\n3e5");
        for (line, want) in [
            ("print(fir", (6, &["first_other", "first_value"][..])),
            ("x.is_", (2, &[])),
            ("wh", (0, &["while"])),
            ("", (0, &["    "])),
            ("a(", (2, &[])),
            ("é + fir", (5, &["first_other", "first_value"])),
        ] {
            let (begin, all) = names.complete(line, line.len());
            assert_eq!(
                (begin, all.iter().map(String::as_str).collect::<Vec<_>>()),
                (want.0, want.1.to_vec()),
                "{line:?}"
            );
        }
        for sql in [Language::Sql, Language::PostgreSql] {
            assert_eq!(Names::of(sql).complete("sel", 3), (0, vec!["SELECT".to_owned()]));
        }
        assert_eq!(names.complete("whxyz", 2).1, ["while"]);
        for cursor in 0..10 {
            names.complete("日本 wh", cursor);
        }
    }
}
