//! Settings as `key = value` in sections: units and menu entries of a system, settings of Python's tools.

use super::{command, dependencies};
use crate::context::Cx;
use crate::language::Language;

/// Tool that reads a file, and so its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Desktop,
    Unit,
    Setup,
    Tox,
    Autorun,
    Pip,
    Pylint,
}

impl Tool {
    /// Name of such a part in a report.
    pub(super) fn label(self) -> &'static str {
        match self {
            Tool::Desktop => "desktop entry",
            Tool::Unit => "systemd unit",
            Tool::Setup => "setup.cfg",
            Tool::Tox => "tox",
            Tool::Autorun => "autorun",
            Tool::Pip => "pip settings",
            Tool::Pylint => "pylint settings",
        }
    }
}

/// Reads a file.
pub(super) fn read(cx: &mut Cx<'_>, text: &str, tool: Tool) {
    for (key, value) in settings(text, matches!(tool, Tool::Setup | Tool::Tox | Tool::Pip | Tool::Pylint)) {
        let key = key.to_ascii_lowercase();
        match tool {
            Tool::Pylint if key == "init-hook" => {
                let code = value.trim_matches(['"', '\'']);
                cx.child(Language::Python, code, crate::ingest::manifest::place(text, code), &["recipe"]);
            }
            Tool::Desktop if matches!(&*key, "exec" | "tryexec") => {
                command(cx, text, &without_codes(&value), &value);
            }
            Tool::Unit if key.starts_with("exec") => {
                // Prefixes that change how the program is started.
                let line = value.trim_start_matches(['@', '-', ':', '+', '!', '|']);
                command(cx, text, &specifiers(line), line);
            }
            Tool::Autorun if matches!(&*key, "open" | "shellexecute") || key.starts_with("shell\\") => {
                command(cx, text, &value, &value);
            }
            Tool::Tox
                if key.starts_with("commands")
                    || matches!(&*key, "install_command" | "list_dependencies_command") =>
            {
                for line in value.lines().map(|line| line.trim().trim_start_matches(['-', '!']).trim()) {
                    command(cx, text, &super::without_expressions(line, "{", "}"), line);
                }
            }
            Tool::Tox if key == "deps" => dependencies::requirements_in(cx, text, &value),
            Tool::Setup
                if matches!(&*key, "setup_requires" | "install_requires" | "tests_require" | "requires") =>
            {
                dependencies::requirements_in(cx, text, &value);
            }
            Tool::Setup if key == "name" => {
                cx.requirement(&value, || crate::ingest::manifest::place(text, &value));
            }
            Tool::Pip if matches!(&*key, "index-url" | "extra-index-url" | "find-links" | "index") => {
                for url in value.split_whitespace() {
                    dependencies::from(cx, text, url, url);
                }
            }
            _ => {}
        }
    }
}

/// Keys and values. With `indented`, an indented line continues a value; otherwise a backslash at the end does.
fn settings(text: &str, indented: bool) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let bare = line.trim();
        if open {
            if let Some((_, value)) = out.last_mut() {
                value.push_str(bare.trim_end_matches('\\'));
            }
            open = bare.ends_with('\\');
            continue;
        }
        if bare.is_empty() || bare.starts_with(['#', ';', '[']) {
            continue;
        }
        if indented && line.starts_with([' ', '\t']) {
            if let Some((_, value)) = out.last_mut() {
                value.push('\n');
                value.push_str(bare);
            }
            continue;
        }
        let Some((key, value)) = bare.split_once('=').or_else(|| bare.split_once(':').filter(|_| indented))
        else {
            continue;
        };
        open = !indented && value.ends_with('\\');
        out.push((key.trim().to_owned(), value.trim().trim_end_matches('\\').to_owned()));
    }
    out
}

/// `%U` and other codes of a menu entry.
fn without_codes(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => {
                if chars.next() == Some('%') {
                    out.push('%');
                }
            }
            // A backslash is doubled: the value itself is escaped, too.
            '\\' => out.push(chars.next().unwrap_or('\\')),
            c => out.push(c),
        }
    }
    out
}

/// `%i` and other specifiers of a unit, as a variable; `%%` is a percent sign, `$$` a dollar.
fn specifiers(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('%', Some('h')) => {
                chars.next();
                out.push('~');
            }
            ('%', Some('%')) | ('$', Some('$')) => {
                out.push(c);
                chars.next();
            }
            ('%', Some(letter)) if letter.is_ascii_alphabetic() => {
                chars.next();
                out.push_str("${SPECIFIER}");
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_both_kinds() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(settings("[a]\n# x\nb = c\nd=e \\\n  f\n", false), [pair("b", "c"), pair("d", "e f")]);
        assert_eq!(settings("[a]\nb =\n  c\n  d\ne: f\n", true), [pair("b", "\nc\nd"), pair("e", "f")]);
        assert_eq!(without_codes("x %U --y=100%%"), "x  --y=100%");
        assert_eq!(specifiers("x %i %h/a %%"), "x ${SPECIFIER} ~/a %");
    }
}
