//! Tokens of a text, without comments and white space. A scanner over characters: it knows how each language writes
//! comments and texts, and nothing of their grammar.

use crate::language::Language;

/// Way in which a language writes comments and texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Python,
    Shell,
    JavaScript,
    Go,
    Rust,
    /// C, C++ and Java.
    C,
    Sql,
    PowerShell,
    /// Neither comments nor texts are known.
    Plain,
}

impl Style {
    pub(super) fn of(language: Language) -> Style {
        match language {
            Language::Python => Style::Python,
            Language::Bash => Style::Shell,
            Language::JavaScript | Language::TypeScript => Style::JavaScript,
            Language::Go => Style::Go,
            Language::Rust => Style::Rust,
            Language::C | Language::Cpp | Language::Java => Style::C,
            Language::Sql => Style::Sql,
            Language::PowerShell => Style::PowerShell,
            Language::Dockerfile | Language::Yaml | Language::Text => Style::Plain,
        }
    }

    /// Name in fingerprints.
    pub(super) fn name(self) -> &'static str {
        match self {
            Style::Python => "python",
            Style::Shell => "shell",
            Style::JavaScript => "javascript",
            Style::Go => "go",
            Style::Rust => "rust",
            Style::C => "c",
            Style::Sql => "sql",
            Style::PowerShell => "powershell",
            Style::Plain => "plain",
        }
    }

    /// True for languages in which `import` names modules of others.
    pub(super) fn imports(self) -> bool {
        matches!(self, Style::Python | Style::JavaScript | Style::C)
    }

    pub(super) fn ignores_case(self) -> bool {
        matches!(self, Style::Sql | Style::PowerShell)
    }

    /// Length of the comment that a text begins with; `separate` after white space or an operator.
    fn comment(self, rest: &str, separate: bool) -> Option<usize> {
        let to_end = || Some(rest.find('\n').unwrap_or(rest.len()));
        let closed = |end: &str| Some(rest[2..].find(end).map_or(rest.len(), |at| 2 + at + end.len()));
        match self {
            Style::Python if rest.starts_with('#') => to_end(),
            Style::Shell if rest.starts_with('#') && separate => to_end(),
            Style::JavaScript | Style::Go | Style::Rust | Style::C if rest.starts_with("//") => to_end(),
            Style::JavaScript | Style::Go | Style::Rust | Style::C | Style::Sql if rest.starts_with("/*") => {
                closed("*/")
            }
            Style::Sql if rest.starts_with("--") => to_end(),
            Style::PowerShell if rest.starts_with("<#") => closed("#>"),
            Style::PowerShell if rest.starts_with('#') => to_end(),
            _ => None,
        }
    }

    /// Notation of the text literal that a text begins with.
    fn quote(self, rest: &str) -> Option<Quote> {
        let mark = match (self, rest.chars().next()?) {
            (Style::Plain, _) => return None,
            (Style::Rust, '\'') => {
                return is_character(rest).then_some(Quote { mark: "'", escape: Some('\\'), lines: false });
            }
            (_, '\'') => "'",
            (_, '"') => "\"",
            (Style::JavaScript | Style::Go, '`') => "`",
            _ => return None,
        };
        let triple = if mark == "'" { "'''" } else { "\"\"\"" };
        let quote = |escape, lines| Quote { mark, escape, lines };
        Some(match self {
            Style::Python if rest.starts_with(triple) => {
                Quote { mark: triple, escape: Some('\\'), lines: true }
            }
            Style::Shell if mark == "'" => quote(None, true),
            Style::Shell => quote(Some('\\'), true),
            Style::Go if mark == "`" => quote(None, true),
            Style::JavaScript if mark == "`" => quote(Some('\\'), true),
            Style::Rust => quote(Some('\\'), true),
            Style::Sql => quote(None, true),
            Style::PowerShell if mark == "'" => quote(None, true),
            Style::PowerShell => quote(Some('`'), true),
            _ => quote(Some('\\'), false),
        })
    }
}

/// A way to write a text literal.
struct Quote {
    mark: &'static str,
    escape: Option<char>,
    /// True when it may contain the end of a line.
    lines: bool,
}

impl Quote {
    /// Content of the literal that a text begins with, and the length of the whole. A literal without an end goes to the
    /// end of the line, or of the text.
    fn content<'t>(&self, rest: &'t str) -> (&'t str, usize) {
        let begin = self.mark.len();
        let mut chars = rest[begin..].char_indices();
        while let Some((at, c)) = chars.next() {
            let at = begin + at;
            if Some(c) == self.escape {
                chars.next();
            } else if rest[at..].starts_with(self.mark) {
                return (&rest[begin..at], at + self.mark.len());
            } else if c == '\n' && !self.lines {
                return (&rest[begin..at], at);
            }
        }
        (&rest[begin..], rest.len())
    }
}

/// True for a literal of one character in Rust, and not for the name of a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), Some(_)) => true,
        (Some(_), Some(end)) => end == '\'',
        _ => false,
    }
}

/// Words of a shell that a command follows.
pub(super) const COMMANDS_FOLLOW: &[&str] = &["do", "then", "else", "elif", "if", "while", "until", "time"];

/// A piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name, a key word or a number.
    Word(&'t str),
    /// Content of a text literal.
    Text(&'t str),
    /// A character of an operator, or a bracket. In a shell also a blank between words, and `\n` between commands.
    Sign(char),
}

/// Tokens of a text in their order.
pub(super) struct Tokens<'t> {
    style: Style,
    rest: &'t str,
    /// True at the beginning, after white space and after an operator.
    separate: bool,
    /// True where a value may begin: a slash there begins a pattern in JavaScript.
    value: bool,
    /// Length of the rest behind a line in which a pattern has no end, so that no line is searched again.
    endless: usize,
    /// White space before the rest, in a shell: `\n` for the end of a command.
    gap: Option<char>,
    /// True in a shell behind a word, after which white space counts.
    joined: bool,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(style: Style, text: &'t str) -> Self {
        Tokens {
            style,
            rest: text,
            separate: true,
            value: true,
            endless: usize::MAX,
            gap: None,
            joined: false,
        }
    }

    /// Takes `length` bytes.
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Length of the pattern that the rest begins with; none in a line in which another one has no end.
    fn pattern(&mut self) -> Option<usize> {
        if self.rest.len() > self.endless {
            return None;
        }
        let length = pattern(self.rest);
        if length.is_none() {
            self.endless = self.rest.find('\n').map_or(0, |end| self.rest.len() - end);
        }
        length
    }

    /// Skips white space, comments, continued lines and the ends of statements.
    fn skip(&mut self) {
        loop {
            let rest =
                self.rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | '\u{feff}'));
            if rest.len() < self.rest.len() {
                let skipped = &self.rest[..self.rest.len() - rest.len()];
                let ends = self.gap == Some('\n') || skipped.contains(['\n', ';']);
                self.gap = Some(if ends { '\n' } else { ' ' });
                (self.rest, self.separate) = (rest, true);
            }
            if let Some(length) = self.style.comment(self.rest, self.separate) {
                self.take(length);
            } else if self.rest.starts_with("\\\n") || self.rest.starts_with("\\\r\n") {
                let length = if self.rest.starts_with("\\\n") { 2 } else { 3 };
                self.take(length);
                (self.gap, self.separate) = (self.gap.or(Some(' ')), true);
            } else {
                return;
            }
        }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        self.skip();
        let first = self.rest.chars().next()?;
        let gap = self.gap.take().filter(|_| self.joined && !matches!(first, '|' | '&' | '(' | ')'));
        if let Some(gap) = gap {
            self.joined = false;
            return Some(Token::Sign(gap));
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut separate = false;
        let token = if let Some(quote) = self.style.quote(self.rest) {
            let (content, length) = quote.content(self.rest);
            self.take(length);
            Token::Text(content)
        } else if self.style == Style::JavaScript
            && first == '/'
            && self.value
            && let Some(length) = self.pattern()
        {
            Token::Text(self.take(length))
        } else if is_part(first) {
            let length = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
            let word = self.take(length);
            // The prefix of a text: `rb'…'`.
            if self.style == Style::Python
                && word.len() <= 2
                && word.bytes().all(|b| b"rbfuRBFU".contains(&b))
                && self.rest.starts_with(['\'', '"'])
            {
                return self.next();
            }
            Token::Word(word)
        } else {
            self.take(first.len_utf8());
            separate = matches!(first, '&' | '|' | '(' | ')');
            Token::Sign(first)
        };
        self.separate = separate;
        self.value = match token {
            Token::Word(word) => {
                matches!(word, "return" | "typeof" | "case" | "in" | "of" | "delete" | "void")
            }
            Token::Text(_) => false,
            Token::Sign(sign) => !matches!(sign, ')' | ']' | '}' | '<'),
        };
        self.joined = self.style == Style::Shell
            && match token {
                Token::Word(word) => !COMMANDS_FOLLOW.contains(&word),
                Token::Text(_) => true,
                Token::Sign(sign) => !matches!(sign, '|' | '&' | '(' | ')' | '{'),
            };
        Some(token)
    }
}

/// Length of the pattern (`/[^"]/g`) that a text begins with.
fn pattern(rest: &str) -> Option<usize> {
    let (mut class, mut escaped) = (false, false);
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class = true,
            ']' => class = false,
            '/' if !class => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_comments_of_each_style() {
        for (style, text, want) in [
            (Style::Python, "a='b#c' # d", "a = [b#c]"),
            (Style::Python, "x=rb\"\"\"a\n'b'\"\"\"+1", "x = [a\n'b'] + 1"),
            (Style::Python, "'open\nx", "[open] x"),
            (Style::Python, "a \\\n+ b", "a + b"),
            (Style::Shell, "echo a#b \"c\\\"d\" # e\n(#f\n)", "echo   a # b   [c\\\"d] ( )"),
            (Style::Shell, "a='b\\'; c", "a = [b\\] \n c"),
            (Style::JavaScript, "x=/['\"/]/g.test(y)/2//z", "x = [/['\"/]/] g . test ( y ) / 2"),
            (Style::JavaScript, "a/b/c", "a / b / c"),
            (Style::JavaScript, "`a\n'b` /* c */ d", "[a\n'b] d"),
            (Style::Go, "`a\\` + 'b'", "[a\\] + [b]"),
            (Style::Rust, "f::<'a>('\\'', 'b', \"c\")", "f : : < ' a > ( [\\'] , [b] , [c] )"),
            (Style::C, "\"a\" /* x", "[a]"),
            (Style::Sql, "a 'b' -- c\n/* d */ e", "a [b] e"),
            (Style::PowerShell, "\"a`\"b\" <# c #> d # e", "[a`\"b] d"),
            (Style::Plain, "'a b' # c", "' a b ' # c"),
            (Style::JavaScript, "x = </a b/>", "x = < / a b / >"),
            (Style::JavaScript, "(/[/ (/b/\n(/b/", "( / [ / ( / b / ( [/b/]"),
        ] {
            let shown: Vec<String> = Tokens::new(style, text)
                .map(|token| match token {
                    Token::Word(word) => word.to_owned(),
                    Token::Text(text) => format!("[{text}]"),
                    Token::Sign(sign) => sign.to_string(),
                })
                .collect();
            assert_eq!(shown.join(" "), want, "{style:?} {text}");
        }
    }

    #[test]
    fn patterns_without_an_end_take_linear_time() {
        let text = "/[".repeat(1 << 20);
        let begun = std::time::Instant::now();
        assert_eq!(Tokens::new(Style::JavaScript, &text).count(), 1 << 21);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
