//! Commands whose input or targets are data: interpreters that are given their program as an argument, and `find`
//! where it deletes only files that tools leave behind.

use super::Shell;
use crate::language::Language;
use crate::report::{Severity, Verdict};
use crate::score;
use crate::value::Value;

/// Maximum size, in bytes, of a program text that is checked: longer ones are not filters.
const MAX_FILTER_BYTES: usize = 4096;
/// Modules of Python that read standard input as data when they are started with `-m`.
const MODULES: &[&str] =
    &["json.tool", "base64", "gzip", "quopri", "tokenize", "ast", "html.parser", "pprint"];
/// Modules that a filter in Python may import: none of them executes what it is given.
const IMPORTS: &[&str] = &[
    "sys",
    "json",
    "re",
    "csv",
    "math",
    "itertools",
    "collections",
    "datetime",
    "time",
    "textwrap",
    "html",
    "urllib.parse",
    "base64",
    "hashlib",
    "xml",
    "string",
    "statistics",
    "operator",
    "functools",
    "pprint",
    "yaml",
    "toml",
    "tomllib",
    "configparser",
    "ast",
    "difflib",
    "unicodedata",
    "struct",
    "binascii",
    "zlib",
    "gzip",
    "random",
    "decimal",
    "io",
];
/// Modules that a filter in JavaScript may load.
const REQUIRES: &[&str] =
    &["fs", "path", "util", "url", "assert", "readline", "querystring", "crypto", "buffer", "os"];
/// Pieces of a text that stores its input, executes something, or hides what it does.
const NOT_A_FILTER: &[&str] = &[
    "exec",
    "eval",
    "compile",
    "system",
    "spawn",
    "popen",
    "Popen",
    "fork",
    "syscall",
    "qx",
    "open",
    "write",
    "append",
    "truncate",
    "environ",
    "ENV",
    "INSPECT",
    "__",
    "getattr",
    "globals",
    "locals",
    "builtins",
    "modules",
    "import_module",
    "Function",
    "constructor",
    "process.binding",
    "child_process",
    "vm",
    "Worker",
    "pickle",
    "marshal",
    "breakpoint",
    "interact",
    "chdir",
    "rename",
    "unlink",
    "remove",
    "mkdir",
    "chmod",
    "link",
    "socket",
    "connect",
    "send",
];
/// Further pieces for Perl and Ruby, whose texts the guard does not parse.
const NOT_A_LINE_FILTER: &[&str] = &[
    "`",
    "do",
    "require",
    "use",
    "sub",
    "&",
    "->",
    "*{",
    "%x",
    "ee",
    "(?{",
    "(??{",
    "BEGIN",
    "END",
    "load",
    "<",
    ">",
    "|",
    "tie",
    "can",
    "require_relative",
    "$0",
    "-i",
    "instance",
];
/// Names of files that tools leave behind, as patterns of `find -name`.
const LITTER: &[&str] = &[
    "core",
    "core.[0-9]*",
    "*.pyc",
    "*.pyo",
    "*.py[co]",
    "*.py[cod]",
    "*.pyd",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".DS_Store",
    "._*",
    "Thumbs.db",
    "*~",
    "*.swp",
    "*.swo",
    "*.orig",
    "*.rej",
    "*.o",
    "*.lo",
    "*.la",
    "*.tmp",
    "npm-debug.log",
    "npm-debug.log*",
    "yarn-error.log",
];

impl Shell<'_, '_> {
    /// True when a command reads its standard input as data: its program is an argument, is known, and neither
    /// executes nor stores what it reads.
    pub(super) fn reads_data(&mut self, name: &str, argv: &[Value]) -> bool {
        let words: Option<Vec<&str>> = argv.iter().skip(1).map(Value::as_whole_text).collect();
        // An interpreter that becomes interactive after its program reads further programs.
        let Some(words) = words.filter(|_| !self.is_inspected) else { return false };
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match (base, program(base, &words)) {
            (_, Some(text)) if text.len() > MAX_FILTER_BYTES => false,
            ("python" | "pypy", Some(text)) => {
                is_python_filter(text) && self.is_harmless(Language::Python, text)
            }
            ("node" | "nodejs", Some(text)) => {
                is_javascript_filter(text) && self.is_harmless(Language::JavaScript, text)
            }
            ("perl" | "ruby", Some(text)) => {
                is_filter(text) && !NOT_A_LINE_FILTER.iter().any(|piece| text.contains(piece))
            }
            ("python" | "pypy", None) => {
                words.first() == Some(&"-m") && words.get(1).is_some_and(|name| MODULES.contains(name))
            }
            _ => false,
        }
    }

    /// Reads a text apart from this scan: true when there is nothing to say about it, and it executes nothing from
    /// elsewhere.
    fn is_harmless(&mut self, language: Language, text: &str) -> bool {
        let Some(mut apart) = self.cx.apart() else { return false };
        apart.read_part("program", language, text, false);
        let (verdict, findings) = score::decide(&apart);
        let is_quiet = findings.iter().all(|finding| finding.severity == Severity::Note);
        let harmless = verdict == Verdict::Allow && is_quiet && apart.executes.is_empty();
        let steps = apart.steps();
        self.cx.count(steps);
        harmless
    }
}

/// Program text of an interpreter's command line without options that load or start anything else.
fn program<'w>(base: &str, words: &[&'w str]) -> Option<&'w str> {
    let at = words.iter().position(|word| !is_plain_option(base, word))?;
    let option = words[at];
    let is_program = match base {
        "python" | "pypy" => option
            .strip_prefix('-')
            .and_then(|w| w.strip_suffix('c'))
            .is_some_and(|w| are_plain(w, "BEIsSuOq")),
        "node" | "nodejs" => matches!(option, "-e" | "-p" | "-pe" | "--eval" | "--print"),
        // Only with `-n` or `-p`, which make it a filter of lines.
        "perl" | "ruby" => option
            .strip_prefix('-')
            .and_then(|w| w.strip_suffix('e'))
            .is_some_and(|w| are_plain(w, "nplaw0123456789") && w.contains(['n', 'p'])),
        _ => false,
    };
    // Further options of the interpreter, which Python and Perl do not take after the program.
    let rest = words.get(at + 2..).unwrap_or(&[]);
    let ends =
        !matches!(base, "node" | "nodejs" | "perl" | "ruby") || !rest.iter().any(|w| w.starts_with('-'));
    is_program.then_some(())?;
    words.get(at + 1).copied().filter(|_| ends)
}

/// True for an option before the program that changes neither what is executed nor from where.
fn is_plain_option(base: &str, word: &str) -> bool {
    matches!(base, "python" | "pypy")
        && word.strip_prefix('-').is_some_and(|w| !w.is_empty() && are_plain(w, "BEIsSuOq"))
}

fn are_plain(letters: &str, known: &str) -> bool {
    letters.chars().all(|c| known.contains(c))
}

fn is_filter(text: &str) -> bool {
    let own = text
        .replace("sys.stdout.write", "")
        .replace("sys.stderr.write", "")
        .replace("process.stdout.write", "")
        .replace("re.compile", "");
    !NOT_A_FILTER.iter().any(|piece| own.contains(piece))
}

fn is_python_filter(text: &str) -> bool {
    let listed = |name: &str| {
        let name = name.trim();
        let name = name.split(" as ").next().unwrap_or(name).trim();
        IMPORTS
            .iter()
            .any(|own| name == *own || name.strip_prefix(own).is_some_and(|rest| rest.starts_with('.')))
    };
    is_filter(text)
        && text.split([';', '\n']).map(str::trim).all(|line| {
            if let Some(names) = line.strip_prefix("import ") {
                names.split(',').all(listed)
            } else if let Some((module, names)) =
                line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
            {
                listed(module) && !names.contains("import")
            } else {
                !line.contains("import")
            }
        })
}

fn is_javascript_filter(text: &str) -> bool {
    let loaded = text.match_indices("require").all(|(at, word)| {
        let rest = text[at + word.len()..].trim_start();
        let name = rest.strip_prefix('(').map(str::trim_start).and_then(|rest| {
            let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
            rest[1..].split_once(quote)
        });
        name.is_some_and(|(name, rest)| {
            REQUIRES.contains(&name.strip_prefix("node:").unwrap_or(name))
                && rest.trim_start().starts_with(')')
        })
    });
    is_filter(text) && loaded && !text.contains("import")
}

/// True when `find` deletes nothing but litter: before its first action there is a test for such a name, and nothing
/// inverts or joins tests.
pub(super) fn is_litter(name: &str, argv: &[Value]) -> bool {
    let words: Option<Vec<&str>> = argv.iter().skip(1).map(Value::as_whole_text).collect();
    let Some(words) = words.filter(|_| name == "find") else { return false };
    let joins = ["-o", "-or", "!", "-not", "(", ")", ",", "-files0-from", "-follow", "-L"];
    let action = words.iter().position(|word| {
        matches!(*word, "-delete" | "-exec" | "-execdir" | "-ok" | "-okdir") || word.starts_with("-fprint")
    });
    let Some(action) = action else { return false };
    let actions =
        words.iter().filter(|word| matches!(**word, "-delete" | "-exec" | "-execdir" | "-ok" | "-okdir"));
    let named = words[..action]
        .windows(2)
        .any(|pair| matches!(pair[0], "-name" | "-iname") && LITTER.contains(&pair[1]));
    // The program takes the file alone: `rm -rf {} /home` has more.
    let rest = &words[action + 1..];
    let alone = words[action] == "-delete" && rest.is_empty()
        || matches!(
            rest,
            ["rm" | "/bin/rm" | "unlink", "{}", ";" | "+"]
                | ["rm" | "/bin/rm", "-f" | "-rf" | "-fr" | "-r" | "-v" | "-fv", "{}", ";" | "+"]
        );
    named && alone && actions.count() == 1 && !words.iter().any(|word| joins.contains(word))
}
