//! Parses a shell line, as in the scripts of `package.json`: its commands, and the operators between them.
//! Pure, and never guesses: unsupported syntax stays text for a shell.

/// Operator between a command and the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joiner {
    /// `&&`: run if that succeeded.
    And,
    /// `||`: run if that failed.
    Or,
    /// `;`, a new line, or the first command.
    Then,
}

impl Joiner {
    /// In shell syntax.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Then => ";",
        }
    }
}

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Text without quotes; meaningless if [`Word::open`].
    pub text: String,
    /// Source text.
    pub raw: String,
    /// True with an unquoted pattern of file names.
    pub pattern: bool,
    /// True with a variable or a command substitution.
    pub replaced: bool,
}

impl Word {
    /// True when only a shell can expand it.
    #[must_use]
    pub const fn open(&self) -> bool {
        self.pattern || self.replaced
    }

    /// A literal word.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), raw: quoted(text), pattern: false, replaced: false }
    }
}

/// Quotes a text as one word of a shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=./:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A command without pipes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// Assignments before it: names and values.
    pub variables: Vec<(String, Word)>,
    /// Program and arguments.
    pub words: Vec<Word>,
    /// Redirections, as written: `> out.txt`.
    pub redirections: Vec<String>,
}

/// Commands joined by pipes, or unsupported syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Source text.
    pub text: String,
    /// First command; `None` when only a shell can parse the text.
    pub first: Option<Simple>,
    /// Remaining pipeline, including the first `|`.
    pub into: Option<String>,
}

/// Parses a line. Every character except operators, blanks and comments is in the text of a pipeline.
#[must_use]
pub fn parse(line: &str) -> Vec<(Joiner, Pipeline)> {
    let mut found = Vec::new();
    let mut reader = Reader { line, at: 0 };
    let mut joiner = Joiner::Then;
    loop {
        reader.blanks(true);
        if reader.rest().is_empty() {
            return found;
        }
        let start = reader.at;
        let Some((pipeline, next)) = reader.pipeline() else {
            let text = line[start..].trim().to_owned();
            found.push((joiner, Pipeline { text, first: None, into: None }));
            return found;
        };
        found.push((joiner, pipeline));
        match next {
            Some(next) => joiner = next,
            None => return found,
        }
    }
}

/// Words that begin compound commands, or change how commands run.
const KEYWORDS: [&str; 16] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "}", "!",
    "function",
];

struct Reader<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Skips blanks and comments, and new lines where they have no meaning.
    fn blanks(&mut self, lines: bool) {
        loop {
            let rest = self.rest();
            if rest.starts_with("\\\n") {
                self.at += 2;
            } else if rest.starts_with([' ', '\t']) || lines && rest.starts_with(['\n', '\r']) {
                self.at += 1;
            } else if rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else {
                return;
            }
        }
    }

    /// A pipeline, and what follows it. `None` when only a shell can parse it; the position is then
    /// meaningless.
    fn pipeline(&mut self) -> Option<(Pipeline, Option<Joiner>)> {
        let start = self.at;
        let (mut first, mut into) = (None, None);
        loop {
            self.blanks(into.is_some());
            let command = if self.peek() == Some('(') {
                self.parentheses()?;
                // Targets of redirections belong to its text.
                let after = self.simple()?;
                if !after.words.is_empty() || !after.variables.is_empty() {
                    return None;
                }
                None
            } else {
                let simple = self.simple()?;
                if simple.words.is_empty() && simple.variables.is_empty() && simple.redirections.is_empty() {
                    return None;
                }
                Some(simple)
            };
            if into.is_none() {
                first = command;
            }
            let end = self.at;
            let rest = self.rest();
            let signs = [
                ("&&", Some(Joiner::And)),
                ("||", Some(Joiner::Or)),
                (";", Some(Joiner::Then)),
                ("\n", Some(Joiner::Then)),
                ("\r", Some(Joiner::Then)),
            ];
            let sign = signs.into_iter().find(|(sign, _)| rest.starts_with(sign));
            if sign.is_none() && rest.starts_with('|') && !rest.starts_with("|&") {
                into.get_or_insert(end);
                self.at += 1;
                continue;
            }
            let next = match sign {
                Some(_) if rest.starts_with(";;") => return None,
                Some((sign, next)) => {
                    self.at += sign.len();
                    next
                }
                None if rest.is_empty() => None,
                None => return None,
            };
            let text = self.line[start..end].trim().to_owned();
            let into = into.map(|at| self.line[at..end].trim().to_owned());
            return Some((Pipeline { text, first, into }, next));
        }
    }

    /// Skips text in parentheses.
    fn parentheses(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                '(' => {
                    depth += 1;
                    self.at += 1;
                }
                ')' => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Some(());
                    }
                }
                '#' => self.blanks(true),
                c if is_meta(c) => self.at += c.len_utf8(),
                _ => {
                    self.word()?;
                }
            }
        }
    }

    /// A command up to the next operator.
    fn simple(&mut self) -> Option<Simple> {
        let mut simple = Simple::default();
        loop {
            self.blanks(false);
            let rest = self.rest();
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if rest[digits..].starts_with(['<', '>']) {
                simple.redirections.push(self.redirection(digits)?);
                continue;
            }
            match self.peek() {
                None | Some('&' | '|' | ';' | '\n' | '\r') => break,
                Some('(' | ')') => return None,
                Some(_) => {}
            }
            let word = self.word()?;
            if simple.words.is_empty() {
                if KEYWORDS.contains(&word.raw.as_str()) {
                    return None;
                }
                if let Some((name, value)) = variable(&word) {
                    simple.variables.push((name, value));
                    continue;
                }
            }
            simple.words.push(word);
        }
        Some(simple)
    }

    fn redirection(&mut self, digits: usize) -> Option<String> {
        let start = self.at;
        self.at += digits;
        let sign =
            [">&", "<&", ">>", ">|", "<>", ">", "<"].into_iter().find(|s| self.rest().starts_with(s))?;
        // A here-document is handled elsewhere.
        if self.rest().starts_with("<<") {
            return None;
        }
        self.at += sign.len();
        self.blanks(false);
        if self.peek().is_none_or(is_meta) {
            return None;
        }
        self.word()?;
        Some(self.line[start..self.at].to_owned())
    }

    /// One word; `None` when a quote is not closed.
    fn word(&mut self) -> Option<Word> {
        let start = self.at;
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                _ if is_meta(c) => break,
                '\'' => {
                    let end = self.rest()[1..].find('\'')?;
                    word.text.push_str(&self.rest()[1..=end]);
                    self.at += end + 2;
                }
                '"' => self.double(&mut word)?,
                '\\' => {
                    self.at += 1;
                    let Some(next) = self.peek() else {
                        word.text.push('\\');
                        break;
                    };
                    self.at += next.len_utf8();
                    if next != '\n' {
                        word.text.push(next);
                    }
                }
                '$' | '`' => self.dollar(&mut word)?,
                _ => {
                    word.pattern |= matches!(c, '*' | '?' | '[');
                    word.replaced |= c == '~' && self.at == start;
                    word.text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.line[start..self.at].clone_into(&mut word.raw);
        (self.at > start).then_some(word)
    }

    fn double(&mut self, word: &mut Word) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                '"' => {
                    self.at += 1;
                    return Some(());
                }
                '\\' => {
                    self.at += 1;
                    let next = self.peek()?;
                    self.at += next.len_utf8();
                    match next {
                        '\n' => {}
                        '$' | '`' | '"' | '\\' => word.text.push(next),
                        _ => word.text.extend(['\\', next]),
                    }
                }
                '$' | '`' => self.dollar(word)?,
                c => {
                    word.text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// An expansion that begins with `$` or a backquote.
    fn dollar(&mut self, word: &mut Word) -> Option<()> {
        let rest = self.rest();
        if let Some(command) = rest.strip_prefix('`') {
            self.at += command.find('`')? + 2;
        } else if rest.starts_with("$(") {
            self.at += 1;
            self.parentheses()?;
        } else if rest.starts_with("${") {
            self.at += rest.find('}')? + 1;
        } else if rest[1..]
            .starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric() || "@*#?$!-".contains(c))
        {
            self.at += 2;
        } else {
            word.text.push('$');
            self.at += 1;
            return Some(());
        }
        word.replaced = true;
        Some(())
    }
}

const fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '&' | '|' | ';' | '<' | '>' | '(' | ')')
}

/// True for a valid variable name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

/// Name and value of a word `NAME=VALUE`.
pub(crate) fn variable(word: &Word) -> Option<(String, Word)> {
    let (name, raw) = word.raw.split_once('=').filter(|(name, _)| is_name(name))?;
    let text = word.text.get(name.len() + 1..).unwrap_or_default().to_owned();
    Some((
        name.to_owned(),
        Word { text, raw: raw.to_owned(), pattern: false, replaced: word.replaced || raw.starts_with('~') },
    ))
}

/// Value of a word, if all its expansions are `$NAME` or `${NAME}`; unknown variables are empty, as in a
/// shell.
pub(crate) fn value(word: &Word, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    if !word.replaced {
        return Some(word.text.clone());
    }
    let mut out = String::new();
    let mut rest = word.raw.as_str();
    let mut within = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => within = !within,
            '\'' if !within => {
                let end = rest.find('\'')?;
                out.push_str(&rest[..end]);
                rest = &rest[end + 1..];
            }
            '\\' => {
                let next = rest.chars().next()?;
                rest = &rest[next.len_utf8()..];
                if within && !"$`\"\\".contains(next) {
                    out.push('\\');
                }
                out.push(next);
            }
            '`' => return None,
            '$' => {
                let (name, after) = match rest.strip_prefix('{') {
                    Some(braced) => braced.split_once('}')?,
                    None => {
                        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                        rest.split_at(end.unwrap_or(rest.len()))
                    }
                };
                if !is_name(name) {
                    return None;
                }
                out.push_str(&known(name).unwrap_or_default());
                rest = after;
            }
            '~' if out.is_empty() && !within => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
