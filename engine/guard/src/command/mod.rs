//! Code that a command executes: its arguments, its environment and its standard input, read as the started
//! programs read them. Pure: a decision over data, used by the gate before a run and by the reader of shell
//! scripts.
//!
//! The meaning of programs is decided elsewhere: texts and files found here are scanned like any other
//! artifact.

mod awk;
mod edit;
mod environment;
pub(crate) mod git;
mod grammar;
mod holders;
mod lists;
pub(crate) mod make;
mod place;
mod table;
mod tools;
mod unknown;
mod wrappers;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::executed::Executed;
use crate::language::Language;
use crate::value::HOLE;

pub use place::{Files, NoFiles, Node};

/// Reason for not reading a file whose path is not a known word.
pub(crate) const NO_NAME: &str = "its name is not known";
/// Maximum number of programs in one command that start one another.
const MAX_PROGRAMS: usize = 16;
/// Maximum number of command lines that may be a started program.
const MAX_LINES: usize = 1024;
/// Maximum number of texts and files executed by one command; beyond it the command counts as not read.
const MAX_EXECUTED: usize = 256;

/// How something is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum As {
    /// As a language that the guard reads.
    Read(Language),
    /// As a language that the guard does not read, by name.
    Unread(&'static str),
    /// A makefile.
    Makefile,
    /// As git settings, which can contain commands.
    GitSettings,
    /// As lines of variables that a program sets for itself.
    Variables,
    /// As its own name, first line or format says.
    Own,
}

impl As {
    /// Name used in the names of parts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read(language) => language.name(),
            Self::Unread(name) => name,
            Self::Makefile => "makefile",
            Self::GitSettings => "git settings",
            Self::Variables => "variables",
            Self::Own => "program",
        }
    }

    /// Conversion for a scan; `None` when the file itself decides, and for files that are read by a special
    /// name.
    #[must_use]
    pub fn executed(self) -> Option<Executed> {
        match self {
            Self::Read(language) => Some(Executed::As(language)),
            Self::Unread(name) => Some(Executed::Unread(name.to_owned())),
            Self::Makefile | Self::GitSettings | Self::Variables | Self::Own => None,
        }
    }
}

/// Code that a command executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A program text in an argument or a variable.
    Text {
        /// Place: `argv[2] (python)`, `env BASH_ENV (shell)`.
        part: String,
        /// Program text.
        text: String,
        /// How it is executed.
        language: As,
    },
    /// A file of the working folder.
    File {
        /// Path in the working folder.
        path: String,
        /// How it is executed.
        language: As,
    },
    /// Standard input.
    Stdin {
        /// How it is executed.
        language: As,
    },
    /// Files of the working folder with a partly known path: [`crate::HOLE`] replaces unknown pieces.
    Pattern {
        /// Path.
        path: String,
        /// How they are executed.
        language: As,
    },
    /// A folder that a program is started in: relative paths may begin there.
    Folder {
        /// Path of the folder.
        path: String,
    },
    /// A file of the working folder that is given to an unknown program.
    Given {
        /// Path of the file.
        path: String,
        /// Name of the program.
        program: String,
    },
    /// Code that is executed and cannot be named before it runs.
    Unknown {
        /// Place of the code.
        part: String,
        /// Why it is not read.
        why: String,
    },
}

/// A command before it runs.
#[derive(Clone, Copy)]
pub struct Command<'a> {
    /// Program and its arguments.
    pub argv: &'a [OsString],
    /// Variables set for it, without those of every sandbox.
    pub env: &'a [(OsString, OsString)],
    /// True when standard input is connected to something.
    pub stdin: bool,
    /// Folder that it starts in.
    pub files: &'a dyn Files,
}

/// Code that a command executes, as far as its arguments, its variables and the file names tell.
#[must_use]
pub fn executed(command: &Command<'_>) -> Vec<Item> {
    let mut found = Found {
        command,
        out: Vec::new(),
        seen: BTreeSet::new(),
        lines: BTreeSet::new(),
        marks: Vec::new(),
        relative: BTreeSet::new(),
    };
    let words: Vec<Word<'_>> =
        command.argv.iter().enumerate().map(|(at, word)| Word { at, text: word.to_str() }).collect();
    found.environment(command.env.iter().map(|(name, value)| (name.to_str(), value.to_str())));
    found.line(&words, false, 0);
    if found.out.iter().any(|item| matches!(item, Item::Folder { .. })) {
        for (path, language) in std::mem::take(&mut found.relative) {
            found.add(Item::Pattern { path, language });
        }
    }
    found.out
}

/// True when the shell rules could ask about a command line without program texts. `false` only for programs
/// of a closed list, and for programs that no rule names and whose arguments are names and numbers.
#[must_use]
pub fn wants_reading(argv: &[OsString]) -> bool {
    let Some(first) = argv.first() else { return false };
    let Some(name) = first.to_str() else { return true };
    let name = program(crate::rules::basename(name));
    if lists::HARMLESS.contains(&&*name) {
        return false;
    }
    if lists::RULED.contains(&&*name) {
        return true;
    }
    // An argument of a program that starts others may be a program, and an interpreter's option may be one
    // that rules ask about.
    let starts = table::grammar(&name).is_some() || tools::knows(&name);
    !argv.iter().skip(1).all(|word| {
        let text = word.to_str().unwrap_or("-");
        plain(word.as_bytes())
            && !(starts && (text.starts_with('-') || lists::RULED.contains(&crate::rules::basename(text))))
    })
}

/// True when an argument is a name, a number, an option or a relative path, and no text rule could match it.
fn plain(word: &[u8]) -> bool {
    word.len() <= 64
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.=,+-/:@".contains(byte))
        && !word.starts_with(b"/")
        && !word.windows(2).any(|two| two == b".." || two == b"//" || two == b"/.")
        && !word.starts_with(b".")
        && !lists::TELLING.iter().any(|part| {
            let lower = word.to_ascii_lowercase();
            lower.windows(part.len()).any(|window| window == part.as_bytes())
        })
}

/// Code that a variable makes programs load or execute, in an unknown folder.
pub(crate) fn loads(name: &str, value: &str) -> Vec<Item> {
    environment::loads(name, value, &place::AnyFiles)
}

/// Names of programs that the guard knows.
pub(crate) fn programs() -> impl Iterator<Item = &'static str> {
    [lists::HARMLESS, lists::RULED, lists::DATA, lists::STARTERS].into_iter().flatten().copied()
}

/// True when a path is an alias of standard input.
pub(crate) fn is_stdin(path: &str) -> bool {
    path == "-" || place::is_stdin(path)
}

/// Real path of a file of the working folder that a program names; `None` when there is no such file.
#[must_use]
pub fn file(files: &dyn Files, path: &str) -> Option<String> {
    match place::resolve(files, path) {
        place::At::Inside(path, Node::File) => Some(path),
        _ => None,
    }
}

/// The command line in shell syntax, for the shell rules: each argument quoted, program texts left out.
#[must_use]
pub fn shell_line(argv: &[OsString], executed: &[Item]) -> String {
    let texts: BTreeSet<&str> = executed
        .iter()
        .filter_map(|item| match item {
            Item::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let quoted = argv.iter().map(|word| {
        let word = word.to_string_lossy();
        if texts.contains(&*word) { "''".to_owned() } else { quote(&word).into_owned() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell.
#[must_use]
pub fn quote(word: &str) -> Cow<'_, str> {
    let bare = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./:=,+@%-".contains(&byte))
        && !word.starts_with('=');
    // As the first word of a command it would be an assignment.
    if bare && !word.contains('=') {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
    }
}

/// Normalises a program's name: without version, kind of folder and extension; `python3.11` is `python`.
pub(crate) fn program(name: &str) -> Cow<'_, str> {
    let lower = name.trim_end_matches(".exe").trim_end_matches(".distrib").trim_end_matches("-static");
    if table::grammar(lower).is_some() || tools::knows(lower) {
        return Cow::Borrowed(lower);
    }
    let without = |name: &str| table::grammar(name).is_some() || tools::knows(name);
    let trimmed = lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if trimmed != lower && without(trimmed) {
        return Cow::Borrowed(trimmed);
    }
    let cut = lower.split(|c: char| c.is_ascii_digit()).next().unwrap_or(lower).trim_end_matches('-');
    if cut != lower && without(cut) { Cow::Borrowed(cut) } else { Cow::Borrowed(lower) }
}

/// A possibly unknown argument, and its index in the whole command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    /// Index in the whole command.
    pub(crate) at: usize,
    /// Text, if known.
    pub(crate) text: Option<&'a str>,
}

/// Code that one program executes according to its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A program text, and the index of its argument.
    Text(As, usize, String),
    /// A program text that is missing: the option that wants it is the last argument.
    Missing(As),
    /// A file, by the path in the argument.
    File(As, usize, String),
    /// A Python module.
    Module(usize, String),
    /// Standard input.
    Stdin(As),
    /// Another command line: from the first index to the second.
    Line(usize, usize),
    /// A command line with new words, in place of an argument.
    Words(usize, Vec<String>),
    /// A command line that comes from standard input: the index of the program that is given its words.
    Fed(usize),
    /// A variable for the started program.
    Variable(String, String),
    /// A folder that following relative paths may begin in.
    Folder(usize, String),
    /// Possibly a file, given to an unknown program.
    Given(usize, String),
    /// A program that cannot be named: the index of its argument, and the reason.
    Unknown(As, usize, String),
}

/// Code that a program executes according to its arguments; `words[0]` is the program.
pub(crate) fn pieces(words: &[Word<'_>]) -> Vec<Piece> {
    let Some(name) = words.first().and_then(|word| word.text) else { return Vec::new() };
    let name = program(crate::rules::basename(name));
    let mut out = Vec::new();
    match table::grammar(&name) {
        Some(grammar) => grammar.read(&name, words, &mut out),
        None if tools::knows(&name) => tools::read(&name, words, &mut out),
        None => unknown::read(&name, words, &mut out),
    }
    if matches!(&*name, "xargs" | "parallel") {
        unknown::fed(words, &mut out);
    }
    out
}

struct Found<'c> {
    command: &'c Command<'c>,
    out: Vec<Item>,
    seen: BTreeSet<String>,
    /// Command lines read so far.
    lines: BTreeSet<(bool, usize, String)>,
    /// Markers that xargs replaces by words of its input.
    marks: Vec<String>,
    /// Executed relative paths.
    relative: BTreeSet<(String, As)>,
}

impl Found<'_> {
    fn add(&mut self, item: Item) {
        if self.out.len() >= MAX_EXECUTED {
            if self.seen.insert("too many".to_owned()) {
                let why = format!("it executes more than {MAX_EXECUTED} texts and files");
                self.out.push(Item::Unknown { part: "argv".to_owned(), why });
            }
        } else if !self.out.contains(&item) {
            self.out.push(item);
        }
    }

    fn unknown(&mut self, at: usize, why: impl Into<String>) {
        self.add(Item::Unknown { part: format!("argv[{at}]"), why: why.into() });
    }

    fn environment<'v>(&mut self, all: impl Iterator<Item = (Option<&'v str>, Option<&'v str>)>) {
        for (name, value) in all {
            let (Some(name), Some(value)) = (name, value) else {
                self.add(Item::Unknown {
                    part: format!("env {}", name.unwrap_or("?")),
                    why: "it is not UTF-8".to_owned(),
                });
                continue;
            };
            for item in environment::loads(name, value, self.command.files) {
                self.add(item);
            }
        }
    }

    /// Reads a command line; `fed` when words come from standard input (`xargs`).
    fn line(&mut self, words: &[Word<'_>], fed: bool, depth: usize) {
        let Some(first) = words.first() else { return };
        let texts: Vec<&str> = words.iter().map(|word| word.text.unwrap_or("\0")).collect();
        // A program found by two readings is needed only once.
        if !self.lines.insert((fed, depth, texts.join("\0"))) {
            return;
        }
        if self.lines.len() > MAX_LINES {
            return self.unknown(first.at, format!("more than {MAX_LINES} lines may be its program's"));
        }
        if depth >= MAX_PROGRAMS {
            return self.unknown(first.at, format!("more than {MAX_PROGRAMS} programs start one another"));
        }
        let Some(name) = first.text else {
            return self.unknown(first.at, "it is not UTF-8");
        };
        if name.contains(HOLE) || name.contains("{}") {
            return self.unknown(first.at, "its program's name is known only when it runs");
        }
        if name.contains('/') {
            self.relative(name, As::Own);
            match place::resolve(self.command.files, name) {
                place::At::Inside(path, Node::File) => self.program_file(first.at, path, fed, depth),
                // A link in the project may be an alias of an interpreter.
                place::At::Outside(real) if real != name => {
                    let mut words = words.to_vec();
                    words[0].text = Some(&real);
                    return self.line(&words, fed, depth + 1);
                }
                _ => {}
            }
        }
        // A project folder in `PATH` may contain a program of this name.
        for (_, path) in self.command.env.iter().filter(|(name, _)| name == "PATH") {
            for folder in
                path.to_str().into_iter().flat_map(|path| path.split(':')).filter(|_| !name.contains('/'))
            {
                let path = format!("{}/{name}", if folder.is_empty() { "." } else { folder });
                if let place::At::Inside(path, Node::File) = place::resolve(self.command.files, &path) {
                    self.program_file(first.at, path, fed, depth);
                }
            }
        }
        let pieces = pieces(words);
        let base = program(crate::rules::basename(name)).into_owned();
        if base == "xargs" {
            for (at, word) in words.iter().enumerate() {
                let mark =
                    word.text.and_then(|t| t.strip_prefix("-I").or_else(|| t.strip_prefix("--replace=")));
                let next = words.get(at + 1).and_then(|next| next.text).unwrap_or("{}");
                self.marks.extend(mark.map(|mark| if mark.is_empty() { next } else { mark }.to_owned()));
            }
        }
        // Without a command of its own `parallel` reads whole ones.
        let has_line = pieces.iter().any(|piece| matches!(piece, Piece::Line(..)));
        let feeds = fed || has_line && matches!(base.as_str(), "xargs" | "parallel");
        for piece in pieces {
            match piece {
                Piece::Text(language, at, text) => {
                    let marked = |mark: &String| text.contains(mark.as_str());
                    if fed && (text.contains("{}") || self.marks.iter().any(marked)) {
                        self.stdin(language);
                    }
                    let part = format!("argv[{at}] ({})", language.name());
                    self.add(Item::Text { part, text, language });
                }
                Piece::Missing(language) if fed => self.stdin(language),
                Piece::Missing(_) => {}
                Piece::File(language, at, path) => self.file(language, at, &path),
                Piece::Module(_, name) => self.module(&name),
                Piece::Stdin(language) if fed => {
                    self.unknown(
                        first.at,
                        format!("{} is given its program's name when it runs", language.name()),
                    );
                }
                Piece::Stdin(language) => self.stdin(language),
                Piece::Line(from, to) => {
                    let inner = &words[from.min(words.len())..to.min(words.len())];
                    self.line(inner, feeds, depth + 1);
                }
                Piece::Words(at, inner) => {
                    let inner: Vec<Word<'_>> =
                        inner.iter().map(|text| Word { at, text: Some(text) }).collect();
                    self.line(&inner, feeds, depth + 1);
                }
                Piece::Fed(at) => self.unknown(at, "its program's name comes from standard input"),
                Piece::Variable(name, value) => {
                    self.environment([(Some(name.as_str()), Some(value.as_str()))].into_iter());
                }
                Piece::Folder(_, path) => self.add(Item::Folder { path }),
                // A program of the project is scanned itself.
                Piece::Given(..) if self.is_own(name) => {}
                Piece::Given(_, path) => {
                    if let place::At::Inside(path, Node::File) = place::resolve(self.command.files, &path) {
                        self.add(Item::Given { path, program: base.clone() });
                    }
                }
                Piece::Unknown(_, at, why) => self.unknown(at, why),
            }
        }
    }

    /// A relative path may begin in any folder that something is started in.
    fn relative(&mut self, path: &str, language: As) {
        if !path.starts_with('/') && !path.contains(HOLE) && self.relative.len() < MAX_EXECUTED {
            self.relative.insert((path.to_owned(), language));
        }
    }

    fn is_own(&self, program: &str) -> bool {
        program.contains('/') && matches!(place::resolve(self.command.files, program), place::At::Inside(..))
    }

    /// A file that the system executes: by the interpreter in its first line, by itself, or, when a program
    /// starts it like `execvp`, by a shell.
    fn program_file(&mut self, at: usize, path: String, fed: bool, depth: usize) {
        let head = self.command.files.head(Path::new(&path));
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line).trim_ascii();
            let Ok(line) = std::str::from_utf8(line) else {
                return self.unknown(at, "its first line is not UTF-8");
            };
            // The system passes the rest of the line as one argument.
            let (interpreter, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            let script = format!("./{path}");
            let words =
                [Some(interpreter), Some(rest.trim()).filter(|rest| !rest.is_empty()), Some(script.as_str())];
            let words: Vec<Word<'_>> =
                words.into_iter().flatten().map(|text| Word { at, text: Some(text) }).collect();
            self.add(Item::File { path: path.clone(), language: As::Own });
            return self.line(&words, fed, depth + 1);
        }
        let is_binary = head.starts_with(b"\x7fELF") || head.starts_with(b"PK") || head.starts_with(b"MZ");
        self.add(Item::File { path, language: if is_binary { As::Own } else { table::SHELL } });
    }

    fn stdin(&mut self, language: As) {
        if self.command.stdin {
            self.add(Item::Stdin { language });
        }
    }

    fn file(&mut self, language: As, at: usize, path: &str) {
        if path == "-" || place::is_stdin(path) {
            return self.stdin(language);
        }
        self.relative(path, language);
        if path.contains(HOLE) {
            return self.add(Item::Pattern { path: path.to_owned(), language });
        }
        match place::resolve(self.command.files, path) {
            // The main file in a package's description is looked up by the caller, who can read it.
            place::At::Inside(path, Node::Folder) if language == As::Read(Language::JavaScript) => {
                self.add(Item::File { path, language });
            }
            place::At::Inside(path, Node::Folder) if language == As::Read(Language::Python) => {
                self.main_of(&path);
            }
            place::At::Inside(path, Node::File) if language == As::Own => {
                self.program_file(at, path, false, 1);
            }
            place::At::Inside(path, _) => self.add(Item::File { path, language }),
            place::At::Circle => self.unknown(at, "its links lead in a circle"),
            // A link in the folder may be an alias of standard input.
            place::At::Outside(real) if place::is_stdin(&real) => self.stdin(language),
            place::At::Outside(_) | place::At::Nowhere => {}
        }
    }

    /// The main module of a folder or package, for Python.
    fn main_of(&mut self, folder: &str) {
        for name in ["__main__.py", "__init__.py"] {
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            self.file(As::Read(Language::Python), 0, &path);
        }
    }

    fn module(&mut self, name: &str) {
        let path = name.replace('.', "/");
        self.file(As::Read(Language::Python), 0, &format!("{path}.py"));
        self.main_of(&path);
    }
}

#[cfg(test)]
mod tests;
