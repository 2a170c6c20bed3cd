//! Code that a command executes: the command lines, texts and files in it, according to its program's
//! grammar.

use rustc_hash::FxHashSet;

use crate::command::{self, As, Item, Piece, Word};
use crate::executed::Executed;
use crate::language::Language;
use crate::report::HandedSource;
use crate::rules::{basename, is_shell};
use crate::shell::{arguments, data};
use crate::value::{HOLE, Names, Origin, Value};

use super::{FROM_FILE, Shell, inherits};

/// Default for a source that tells its language itself.
const OWN: Executed = Executed::As(Language::Bash);
/// Maximum number of nested command lines; beyond it the script counts as not read.
const MAX_LINES: usize = 256;
/// Maximum number of arguments of a program text that are looked at.
const MAX_ARGUMENTS: usize = 64;
/// Maximum nesting of command lines in single words (`env -S`).
const MAX_SPLIT_DEPTH: usize = 8;

impl Shell<'_, '_> {
    /// Runs a command line: reports it, follows every command line that it may run in turn, and returns its
    /// output.
    pub(super) fn run(
        &mut self,
        argv: &[Value],
        stdin: &Value,
        at: (usize, usize),
        disguised: bool,
    ) -> Value {
        let opened = self.input.clone().filter(|_| inherits(stdin));
        self.run_in(argv, opened.as_ref().unwrap_or(stdin), at, disguised, 0)
    }

    fn run_in(
        &mut self,
        argv: &[Value],
        stdin: &Value,
        at: (usize, usize),
        disguised: bool,
        depth: usize,
    ) -> Value {
        let at = self.fixed.unwrap_or(at);
        self.here = at;
        let mut todo = vec![(0, argv.len())];
        let mut seen = FxHashSet::default();
        let mut printed: Option<Value> = None;
        while let Some((from, to)) = todo.pop() {
            let line = argv.get(from..to.min(argv.len())).unwrap_or(&[]);
            if line.is_empty() || !seen.insert((from, to)) || !self.cx.tick() {
                continue;
            }
            if seen.len() > MAX_LINES || depth > MAX_SPLIT_DEPTH {
                self.cx.not_read("too many programs start one another");
                break;
            }
            if line[0].as_whole_text().is_none() {
                self.hand_input(Language::Bash, line[0].origin);
                self.hand_files(As::Read(Language::Bash), &line[0].clone());
            }
            let Some(name) = line[0].as_text().map(|text| basename(text).to_owned()) else {
                self.tell("?", line, stdin, at, disguised);
                continue;
            };
            self.tell(&name, line, stdin, at, disguised);
            self.interpret(&name, line, stdin);
            self.copies(&name, line, stdin);
            self.binds(&name, line, stdin);
            self.fetches(&name, line);
            self.packs(&name, line);
            self.sends_token(&name, line, stdin);
            self.declared(&name, line);
            self.subscripts(&name, line);
            self.enters(&name, line);
            // Its command is applied to what it finds, not to the folder where it begins.
            let inner = if data::is_litter(&name, line) { Vec::new() } else { self.executed(line, stdin) };
            let mut values = Vec::new();
            if let Some(path) = self.hashed.get(&name).filter(|_| line[0].as_whole_text() == Some(&*name)) {
                let hashed: Vec<Value> = std::iter::once(path).chain(&line[1..]).cloned().collect();
                values.push(self.run_in(&hashed, stdin, at, disguised, depth + 1));
            }
            if inner.is_empty() {
                let used = self.captured;
                let called = if line[0].as_whole_text() == Some(&*name) {
                    self.called(&name, line, stdin, used)
                } else {
                    None
                };
                values.push(called.unwrap_or_else(|| self.output(&name, line, stdin)));
            }
            // The first one is processed first.
            for inner in inner.into_iter().rev() {
                match inner {
                    Inner::Part(begin, end) => todo.push((from + begin, from + end.min(line.len()))),
                    Inner::Words(words) => {
                        values.push(self.run_in(&words, stdin, at, disguised, depth + 1));
                    }
                }
            }
            for value in values {
                printed = Some(match printed {
                    Some(before) => before.or(&value),
                    None => value,
                });
            }
        }
        printed.unwrap_or_default()
    }

    /// Follows the code that a command executes by its own grammar: texts are read; files, standard input and
    /// unreadable languages are reported as executed. Returns the command lines inside it.
    fn executed(&mut self, argv: &[Value], stdin: &Value) -> Vec<Inner> {
        let words: Vec<Word<'_>> =
            argv.iter().enumerate().map(|(at, value)| Word { at, text: value.as_text() }).collect();
        let mut inner = Vec::new();
        if let Some(path) = words.first().and_then(|word| word.text) {
            self.hand_program(path);
        }
        if let Some(program) = argv.first() {
            self.runs_fetched(program, true);
        }
        let origin = |at: usize| argv.get(at).map(|value| value.origin).unwrap_or_default();
        for piece in command::pieces(&words) {
            match piece {
                Piece::Text(language, at, text) => {
                    let chain =
                        argv.get(at).map(|value| value.chain.clone()).filter(|chain| !chain.is_empty());
                    self.text_as(language, &text, origin(at), &chain.unwrap_or_else(|| vec!["quoted"]));
                    // `sh -c '. "$1"' _ FILE`, `sh -c '"$@"' _ sh FILE`: the words behind are its arguments.
                    if language == As::Read(Language::Bash) && has_arguments(&text) {
                        for word in
                            argv.iter().skip(at + 1).filter_map(Value::as_whole_text).take(MAX_ARGUMENTS)
                        {
                            self.hand_file(language, word.to_owned());
                        }
                        inner.extend([at + 1, at + 2].map(|from| Inner::Part(from, argv.len())));
                    }
                }
                Piece::File(language, _, path) if command::is_stdin(&path) => {
                    self.hand_stdin(language, stdin);
                }
                Piece::File(language, at, path) => {
                    // A program text in the word itself would have another name.
                    let word = argv.get(at).filter(|word| word.as_text() == Some(&*path));
                    self.runs_fetched(&word.cloned().unwrap_or_else(|| Value::text(&path)), false);
                    // `sh /dev/fd/3`, and what was copied or written to this name before.
                    match self.files.get(key(&path)).cloned() {
                        Some(content) if content.as_text().is_none() => self.hand_stdin(language, &content),
                        _ => {}
                    }
                    self.hand_file(language, path);
                }
                Piece::Module(_, name) => {
                    let path = name.replace('.', "/");
                    for path in [format!("{path}.py"), format!("{path}/__main__.py")] {
                        self.cx.hand(HandedSource::File(path), Executed::As(Language::Python));
                    }
                }
                // Words missing for `xargs` come from standard input, too.
                Piece::Missing(language) => self.hand_stdin(language, stdin),
                Piece::Stdin(language) => {
                    self.hand_stdin(language, stdin);
                    let name = words.first().and_then(|word| word.text).map_or("", basename);
                    // A known text, where `interpret` takes the operands for a script: `sqlite3 FILE`.
                    if let (As::Read(language), Some(text)) = (language, stdin.as_text())
                        && !arguments::reads_program_from_stdin(name, argv)
                    {
                        let chain =
                            if stdin.chain.is_empty() { vec!["heredoc"] } else { stdin.chain.clone() };
                        self.child(language, text, &chain);
                    }
                }
                // `bash <(cat)`, `python3 -c "$(cat)"`.
                Piece::Unknown(As::Read(language), at, why) => {
                    if why == command::NO_NAME && !origin(at).has(Origin::INPUT) {
                        self.cx.hand(HandedSource::File(HOLE.to_string()), Executed::As(language));
                    }
                    self.hand_input(language, origin(at));
                    if let Some(value) = argv.get(at) {
                        self.hand_files(As::Read(language), value);
                    }
                }
                Piece::Unknown(language, _, _) => self.unread(language),
                Piece::Folder(_, path) => self.cx.hand(HandedSource::Folder(path), OWN),
                Piece::Given(_, path) => {
                    let program = words.first().and_then(|word| word.text).map_or("", basename);
                    self.cx.hand(HandedSource::Given(path), Executed::Unread(program.to_owned()));
                }
                Piece::Line(from, to) => inner.push(Inner::Part(from, to)),
                Piece::Words(_, words) => {
                    inner.push(Inner::Words(words.iter().map(|word| given(argv, word)).collect()));
                }
                // Its input is read as a command line.
                Piece::Fed(_) => inner.push(Inner::Words(vec![Value::text("sh")])),
                Piece::Variable(name, value) => {
                    self.loaded(&name, &value);
                    for item in command::loads(&name, &value) {
                        if let Item::Stdin { language } = item {
                            self.hand_stdin(language, stdin);
                        }
                    }
                }
            }
        }
        inner
    }

    /// Follows a variable that makes programs load or execute something.
    pub(super) fn loaded(&mut self, name: &str, value: &str) {
        self.is_inspected |= name == "PYTHONINSPECT";
        // `GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!…'` is `git -c alias.x=!…`.
        if let Some(number) = name.strip_prefix("GIT_CONFIG_VALUE_")
            && let Some(setting) = self.variable(&format!("GIT_CONFIG_KEY_{number}")).as_whole_text()
        {
            let argv = ["git", "-c", &format!("{setting}={value}"), "status"].map(Value::text);
            self.executed(&argv, &Value::default());
            return;
        }
        for item in command::loads(name, value) {
            match item {
                Item::Text { language, text, .. } => {
                    self.text_as(language, &text, Origin::default(), &["quoted"]);
                }
                Item::File { language, path } | Item::Pattern { language, path } => {
                    self.hand_file(language, path);
                }
                Item::Folder { path } => self.cx.hand(HandedSource::Folder(path), OWN),
                Item::Unknown { .. } => self.unread(As::Unread("program")),
                Item::Given { .. } | Item::Stdin { .. } => {}
            }
        }
    }

    /// Follows substitutions in texts that bash evaluates as arithmetic, however they are quoted:
    /// `test -v 'a[$(…)]'`.
    pub(super) fn subscripts(&mut self, name: &str, argv: &[Value]) {
        let evaluates = matches!(
            name,
            "let"
                | "test"
                | "["
                | "[["
                | "declare"
                | "typeset"
                | "local"
                | "export"
                | "readonly"
                | "printf"
                | "read"
                | "unset"
                | "mapfile"
                | "readarray"
                | "wait"
                | "getopts"
        );
        // The words of `-W` are expanded.
        let completes = matches!(name, "compgen" | "complete");
        let words = argv.iter().skip(1).filter(|_| evaluates || completes).filter_map(Value::as_text);
        for word in words {
            if is_subscript(word) || completes && (word.contains("$(") || word.contains('`')) {
                self.expand_text(word);
            }
        }
    }

    /// Reads a program text.
    fn text_as(&mut self, language: As, text: &str, origin: Origin, chain: &[&'static str]) {
        match language {
            As::Read(language) => {
                if text.contains(HOLE) {
                    self.hand_input(language, origin);
                }
                self.child(language, text, chain);
            }
            _ if text.trim().is_empty() => {}
            _ => {
                for given in crate::listed::given(text) {
                    self.child(Language::Bash, &given, &["quoted", "shell"]);
                }
                self.unread(language);
            }
        }
    }

    /// Reports an executed text of this script in a language that the guard does not read.
    fn unread(&mut self, language: As) {
        let name = [Value::text(language.name())];
        self.cx.fact_with(Language::Bash, "shell.unread_text", self.here, &name, self.context);
        self.cx.hand(HandedSource::Text, Executed::Unread(language.name().to_owned()));
    }

    /// Reports a file that is executed, by name. A file that the script wrote itself is read as its own text.
    fn hand_file(&mut self, language: As, path: String) {
        self.runs_fetched(&Value::text(&path), false);
        match language {
            As::Read(language) => self.cx.hand(HandedSource::File(path), Executed::As(language)),
            As::Makefile => self.cx.hand(HandedSource::Makefile(path), Executed::As(Language::Bash)),
            As::Own => self.hand_program(&path),
            As::GitSettings => self.cx.hand(HandedSource::GitSettings(path), OWN),
            As::Variables => self.cx.hand(HandedSource::Variables(path), OWN),
            As::Unread(_) if self.files.contains_key(key(&path)) => self.unread(language),
            As::Unread(name) => self.cx.hand(HandedSource::File(path), Executed::Unread(name.to_owned())),
        }
    }

    /// Reports the standard input of a command as its program: the script's own, or a file by name.
    fn hand_stdin(&mut self, language: As, stdin: &Value) {
        let is_file = self.hand_files(language, stdin);
        let executed = match language {
            As::Read(language) => Executed::As(language),
            As::Unread(name) => Executed::Unread(name.to_owned()),
            As::Makefile => Executed::Unread("makefile".to_owned()),
            As::Own | As::GitSettings | As::Variables => return,
        };
        if inherits(stdin) {
            self.cx.hand(HandedSource::Stdin, executed);
        } else if !is_file && !matches!(language, As::Read(_)) {
            // A here-document, or the output of another command.
            if let (As::Makefile, Some(text)) = (language, stdin.as_text()) {
                for recipe in crate::command::make::recipes(text) {
                    self.child(Language::Bash, &recipe, &["heredoc", "recipe"]);
                }
            }
            self.unread(language);
        } else if stdin.as_text().is_none() {
            // Text that is put together when it runs.
            self.cx.hand(HandedSource::Text, executed);
        }
    }

    /// Reports the files that a value was made of; `false` without any.
    pub(super) fn hand_files(&mut self, language: As, value: &Value) -> bool {
        let files: Vec<String> =
            value.names.iter().filter_map(|name| name.strip_prefix(FROM_FILE)).map(str::to_owned).collect();
        for path in &files {
            self.hand_file(language, path.clone());
        }
        !files.is_empty()
    }

    /// Follows files that a command copies, links or moves, and those that it writes its input to.
    fn copies(&mut self, name: &str, argv: &[Value], stdin: &Value) {
        let words: Vec<&Value> = argv
            .iter()
            .skip(1)
            .filter(|word| word.as_text().is_some_and(|text| !text.starts_with('-')))
            .collect();
        let text = |word: &Value| word.as_whole_text().map(|path| key(path).to_owned());
        match name {
            "cp" | "mv" | "ln" | "install" | "rename" => {
                let [sources @ .., target] = words.as_slice() else { return };
                let Some(target) = text(target) else { return };
                for source in sources.iter().filter_map(|source| text(source)) {
                    let content =
                        self.files.get(&source).cloned().unwrap_or_else(|| super::content_of(&source));
                    let below = format!("{}/{}", target.trim_end_matches('/'), basename(&source));
                    self.files.insert(below, content.clone());
                    self.files.insert(target.clone(), content);
                }
            }
            // Variables that hold lines of a file.
            "read" | "mapfile" | "readarray" => {
                let names: Names =
                    stdin.names.iter().filter(|name| name.starts_with(FROM_FILE)).cloned().collect();
                for variable in words.iter().filter_map(|word| text(word)).filter(|_| !names.is_empty()) {
                    self.vars.insert(variable, Value { names: names.clone(), ..Value::default() });
                }
            }
            "tee" => {
                for path in words.iter().filter_map(|word| text(word)) {
                    self.files.insert(path, stdin.clone());
                }
            }
            "dd" => {
                let named = |key: &str| {
                    let mut words = argv.iter().filter_map(Value::as_whole_text);
                    words.find_map(|word| word.strip_prefix(key)).map(str::to_owned)
                };
                if let Some(target) = named("of=") {
                    let content = named("if=").map_or_else(|| stdin.clone(), |from| super::content_of(&from));
                    self.files.insert(key(&target).to_owned(), content);
                }
            }
            _ => {}
        }
    }

    /// Reports an unknown program text, which may come from the script's arguments, or from its standard
    /// input.
    fn hand_input(&mut self, language: Language, origin: Origin) {
        if origin.has(Origin::INPUT) {
            self.cx.hand(HandedSource::Arguments, Executed::As(language));
        }
        self.cx.hand(HandedSource::Stdin, Executed::As(language));
    }

    /// Reports a program by its path; a relative path may be in the project.
    fn hand_program(&mut self, path: &str) {
        if path.contains('/')
            && !["/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/opt/"].iter().any(|own| path.starts_with(own))
        {
            self.cx.hand(HandedSource::Program(path.to_owned()), Executed::As(Language::Bash));
        }
    }

    /// Texts that a command executes.
    fn interpret(&mut self, name: &str, argv: &[Value], stdin: &Value) {
        for (language, text) in arguments::programs(name, argv) {
            if text.as_whole_text().is_none() {
                self.hand_input(language, text.origin);
                self.hand_files(As::Read(language), &text);
            }
            let mut chain = text.chain.clone();
            if chain.is_empty() {
                chain.push("quoted");
            }
            if let Some(text) = text.as_text() {
                self.child(language, text, &chain);
            }
        }
        // Its text is expanded when the trap is taken, with the variables of this script.
        if name == "trap"
            && let Some(text) = argv.get(1).and_then(Value::as_whole_text).filter(|text| text.contains('$'))
        {
            self.capture(text);
        }
        if arguments::reads_program_from_stdin(name, argv)
            && let Some(text) = stdin.as_text()
        {
            if is_unknown_line(text) && is_shell(name) {
                self.cx.fact(Language::Bash, "shell.runs_unknown", self.here);
            }
            let language = arguments::language_of(name).unwrap_or(Language::Bash);
            let chain: Vec<&'static str> =
                if stdin.chain.is_empty() { vec!["heredoc"] } else { stdin.chain.clone() };
            self.child(language, text, &chain);
        }
        // Output of another command as a file: `bash <(echo …)`.
        if matches!(name, "." | "source") || arguments::language_of(name).is_some() {
            let printed = argv.iter().skip(1).find(|v| v.names.iter().any(|n| &**n == "<()"));
            if let Some(text) = printed.and_then(Value::as_text) {
                // The output of an unknown command has the command's name.
                let is_named = printed.is_some_and(|v| v.names.iter().any(|n| &**n != "<()"));
                if is_unknown_line(text) && !is_named && (matches!(name, "." | "source") || is_shell(name)) {
                    self.cx.fact(Language::Bash, "shell.runs_unknown", self.here);
                }
                let chain = printed.map(|v| v.chain.clone()).filter(|chain| !chain.is_empty());
                let language = arguments::language_of(name).unwrap_or(Language::Bash);
                self.child(language, text, &chain.unwrap_or_else(|| vec!["heredoc"]));
            }
        }
        // A file that the script wrote itself: `. x`, `sh x`, `./x`.
        let operand = argv.get(1).and_then(Value::as_text);
        let path =
            if matches!(name, "." | "source") || is_shell(name) || arguments::language_of(name).is_some() {
                operand
            } else {
                argv.first().and_then(Value::as_text)
            };
        if let Some(path) = path
            && let Some(content) = self.files.get(key(path)).cloned()
        {
            if let Some(text) = content.as_text() {
                let chain = if content.chain.is_empty() { vec!["file"] } else { content.chain.clone() };
                self.child(arguments::language_of(name).unwrap_or(Language::Bash), text, &chain);
            }
            if content.as_text().is_none() {
                self.hand_stdin(As::Read(arguments::language_of(name).unwrap_or(Language::Bash)), &content);
            }
            if content.origin.has(Origin::NET) && !super::fetched::is_saved(&content) {
                self.cx.fact_with(
                    Language::Bash,
                    "shell.runs_download",
                    self.here,
                    std::slice::from_ref(&content),
                    0,
                );
            }
            // A decoded text that a filter has changed, so that it is not known.
            if content.origin.has(Origin::DECODED) && content.as_text().is_none() {
                self.cx.fact(Language::Bash, "shell.runs_decoded", self.here);
            }
        }
    }
}

/// A word of a new command line: the argument that it was taken from, or a text.
fn given(argv: &[Value], word: &str) -> Value {
    let own = argv.iter().find(|value| match value.as_text() {
        Some(text) => text == word,
        None => word.trim_matches(HOLE).is_empty() && !word.is_empty(),
    });
    own.cloned().unwrap_or_else(|| Value::text(word))
}

/// Name under which a file's content is kept: without `./`, and of a descriptor its number.
pub(super) fn key(path: &str) -> &str {
    let descriptor = path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/"));
    let mut path = descriptor.unwrap_or(path);
    while let Some(rest) = path.strip_prefix("./") {
        path = rest.trim_start_matches('/');
    }
    path
}

/// Whether a program text has unknown pieces only, as `"$X"` has.
fn is_unknown_line(text: &str) -> bool {
    text.contains(HOLE) && text.chars().all(|c| c == HOLE || c.is_whitespace())
}

/// Whether a shell text uses its arguments.
fn has_arguments(text: &str) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches('{');
        rest.starts_with(|c: char| c.is_ascii_digit() || c == '@' || c == '*')
    })
}

/// Whether a text has a substitution in an index, as `a[$(…)]`.
pub(super) fn is_subscript(text: &str) -> bool {
    text.split_once('[').is_some_and(|(_, index)| index.contains("$(") || index.contains('`'))
}

/// A command line inside another one.
enum Inner {
    /// The words between these indices.
    Part(usize, usize),
    /// New words.
    Words(Vec<Value>),
}
