//! Option grammars of programs: which options take a value, and which values are executed.

use super::{As, Piece, Word};
use crate::language::Language;
use crate::value::HOLE;

/// Kind of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A value that is not executed.
    Value,
    /// No value.
    Switch,
    /// The next argument is a value that is not executed, whatever else is in the cluster
    /// (`bash -oc pipefail TEXT`).
    Aside,
    /// A value that is not executed, only if attached.
    Attached,
    /// A program text.
    Text(As),
    /// A program text, in addition to the main program.
    Also(As),
    /// A file that is executed, in addition to the main program.
    File(As),
    /// File of the main program.
    Script(As),
    /// Folder that the program is started in.
    Folder,
    /// A Python module, executed as the main program.
    Module,
    /// No value: the first operand is a program text.
    First(As),
    /// No value: the program comes from standard input.
    Stdin(As),
    /// No value: standard input is read as a program after the main program.
    After(As),
    /// No value: operands are not programs.
    Data,
    /// `NAME=TEXT` with a shell text.
    Setting,
    /// A command line in one argument, split at blanks.
    Split,
    /// A command line in one argument, split at commas.
    Commas,
    /// No value: the following arguments are another command line.
    Line,
    /// No value: without a command, a shell is started (`sudo -s`).
    Shell,
    /// Two values that are not executed, the second one in the next argument.
    Pair,
}

/// Kind of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// Not executed.
    Data,
    /// The first is the program file, unless an option named one.
    Script(As),
    /// The first is a program text, unless an option gave one.
    Text(As),
    /// Each is a file that is executed.
    Each(As),
    /// Each after this many is a program text.
    Texts(usize, As),
    /// A command line after this many operands.
    Line(usize),
    /// A command line after variable assignments (`env`).
    Assigned,
    /// A command line whose arguments a shell joins, after this many operands.
    Joined(usize),
    /// Arguments of a shell after the name of a user, or a command line.
    User,
}

/// Argument grammar of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grammar {
    pub(super) short: &'static [(&'static str, Role)],
    pub(super) long: &'static [(&'static str, Role)],
    pub(super) operand: Operand,
    /// How standard input is executed when no program is named.
    pub(super) stdin: Option<As>,
    /// Program that is started, with this program's standard input, when none is named.
    pub(super) alone: Option<&'static str>,
    /// Options end at the first operand.
    pub(super) stops: bool,
    /// Options end at a program text.
    pub(super) text_ends: bool,
    /// Long options may have a single dash.
    pub(super) single: bool,
}

impl Grammar {
    pub(super) const NONE: Self = Self {
        short: &[],
        long: &[],
        operand: Operand::Data,
        stdin: None,
        alone: None,
        stops: true,
        text_ends: false,
        single: false,
    };

    /// Reads the arguments of a program.
    pub(super) fn read(&self, _name: &str, words: &[Word<'_>], out: &mut Vec<Piece>) {
        let mut state = State {
            has_program: false,
            first: None,
            data: false,
            alone: self.alone,
            doubt: 0,
            operands: Vec::new(),
        };
        let mut at = 1;
        while at < words.len() {
            let Some(text) = words[at].text else {
                state.operands.push(at);
                state.doubt += 1;
                at += 1;
                continue;
            };
            // For shells a single dash ends the options, too.
            let is_shell = matches!(self.operand, Operand::Script(As::Read(Language::Bash)));
            if text == "--" || is_shell && text == "-" {
                // `script -- COMMAND`, whose file is not named.
                if let (Operand::Line(skip), Some(_)) = (self.operand, self.alone)
                    && state.operands.len() < skip
                    && at + 1 < words.len()
                {
                    out.push(Piece::Line(at + 1, words.len()));
                }
                state.operands.extend(at + 1..words.len());
                break;
            }
            let dashed = text.len() > 1 && (text.starts_with('-') || self.takes_plus(text));
            if !dashed {
                if self.operand == Operand::Assigned && assigns(text) {
                    let (name, value) = text.split_once('=').unwrap_or((text, ""));
                    out.push(Piece::Variable(name.to_owned(), value.to_owned()));
                    at += 1;
                    continue;
                }
                state.operands.push(at);
                at += 1;
                if self.stops && state.doubt == 0 {
                    // `timeout 5 -k 1 x` is not an option; arguments after the last operand before a command
                    // line belong to that line.
                    let wanted = match self.operand {
                        Operand::Line(skip) | Operand::Joined(skip) => skip + 1,
                        _ => 1,
                    };
                    if state.operands.len() >= wanted {
                        state.operands.extend(at..words.len());
                        break;
                    }
                }
                continue;
            }
            match self.option(words, &mut at, &mut state, out) {
                Flow::On => {}
                Flow::Ends => {
                    state.operands.extend(at..words.len());
                    break;
                }
                Flow::Line => {
                    out.push(Piece::Line(at, words.len()));
                    return;
                }
                Flow::Done => return,
            }
        }
        self.finish(words, &state, out);
    }

    fn takes_plus(&self, text: &str) -> bool {
        text.starts_with('+') && self.short.iter().any(|(names, _)| names.contains('+'))
    }

    /// Reads one option argument; afterwards `at` is past it and its value.
    fn option(&self, words: &[Word<'_>], at: &mut usize, state: &mut State, out: &mut Vec<Piece>) -> Flow {
        let here = *at;
        let text = words[here].text.unwrap_or("");
        *at += 1;
        let body = text.trim_start_matches('-');
        let long = text.starts_with("--") || self.single && self.knows_long(body);
        if long {
            let (name, attached) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (body, None),
            };
            let exact: Vec<Role> =
                self.long.iter().filter(|(own, _)| *own == name).map(|(_, r)| *r).collect();
            let roles: Vec<Role> = if exact.is_empty() && text.starts_with("--") && name.len() > 1 {
                // Abbreviated long options, as in getopt_long.
                self.long.iter().filter(|(own, _)| own.starts_with(name)).map(|(_, r)| *r).collect()
            } else {
                exact
            };
            if roles.is_empty() {
                state.doubt += usize::from(attached.is_none());
                return Flow::On;
            }
            let mut flow = Flow::On;
            let mut takes = false;
            for role in roles {
                let value =
                    if wants(role) && attached.is_none() { Taken::Next } else { Taken::Here(attached) };
                takes |= matches!(value, Taken::Next) && role != Role::Attached;
                *at += usize::from(role == Role::Pair);
                let (place, value) = match value {
                    Taken::Here(value) => (here, value.map(str::to_owned)),
                    Taken::Next => (here + 1, words.get(here + 1).and_then(|w| w.text).map(str::to_owned)),
                };
                flow = flow.max(self.act(role, words, place, value, state, out));
            }
            *at += usize::from(takes);
            return flow;
        }
        let cluster = &text[1..];
        for (offset, letter) in cluster.char_indices() {
            let Some((_, role)) = self.short.iter().find(|(names, _)| names.contains(letter)) else {
                // Unknown options of an interpreter are switches; those of a program that starts others may
                // take values.
                let starts = matches!(
                    self.operand,
                    Operand::Line(_) | Operand::Joined(_) | Operand::Assigned | Operand::Texts(..)
                );
                state.doubt += usize::from(starts && offset + letter.len_utf8() == cluster.len());
                continue;
            };
            let rest = &cluster[offset + letter.len_utf8()..];
            if *role == Role::Aside {
                *at += 1;
                continue;
            }
            if !wants(*role) {
                let flow = self.act(*role, words, here, None, state, out);
                if flow != Flow::On {
                    return flow;
                }
                if *role == Role::Attached {
                    break;
                }
                continue;
            }
            let (place, value) = if rest.is_empty() {
                let value = words.get(*at).and_then(|w| w.text).map(str::to_owned);
                *at += 1;
                (here + 1, value)
            } else {
                (here, Some(rest.strip_prefix('=').filter(|_| !self.text_ends).unwrap_or(rest).to_owned()))
            };
            return self.act(*role, words, place, value, state, out);
        }
        Flow::On
    }

    fn knows_long(&self, body: &str) -> bool {
        let name = body.split_once('=').map_or(body, |(name, _)| name);
        self.long.iter().any(|(own, _)| *own == name)
    }

    fn act(
        &self,
        role: Role,
        words: &[Word<'_>],
        place: usize,
        value: Option<String>,
        state: &mut State,
        out: &mut Vec<Piece>,
    ) -> Flow {
        let word = words.get(place).map_or(place, |word| word.at);
        match (role, value) {
            (Role::Value | Role::Switch | Role::Attached | Role::Aside | Role::Pair, _) => {}
            (Role::Shell, _) => state.alone = Some("sh"),
            (Role::Text(language), Some(text)) => {
                state.has_program = true;
                out.push(Piece::Text(language, word, text));
                return if self.text_ends { Flow::Ends } else { Flow::On };
            }
            (Role::Text(language) | Role::Script(language), None) => {
                state.has_program = true;
                if place >= words.len() {
                    out.push(Piece::Missing(language));
                } else {
                    out.push(Piece::Unknown(language, word, "its text is not known".to_owned()));
                }
            }
            (Role::Also(language), Some(text)) => out.push(Piece::Text(language, word, text)),
            (Role::Folder, Some(path)) => out.push(Piece::Folder(word, path)),
            (Role::File(language), Some(path)) => out.push(Piece::File(language, word, path)),
            (Role::Script(language), Some(path)) => {
                state.has_program = true;
                out.push(Piece::File(language, word, path));
            }
            (Role::Module, Some(name)) => {
                state.has_program = true;
                super::tools::module(&name, words, place, out);
                return Flow::Done;
            }
            (Role::First(language), _) => state.first = Some(language),
            (Role::Stdin(language), _) => {
                state.has_program = true;
                out.push(Piece::Stdin(language));
            }
            (Role::After(language), _) => out.push(Piece::Stdin(language)),
            (Role::Data, _) => state.data = true,
            (Role::Setting, Some(text)) => {
                if let Some((_, command)) = text.split_once('=') {
                    let command = command.trim_start_matches('!').to_owned();
                    out.push(Piece::Text(super::table::SHELL, word, command));
                }
            }
            (Role::Split, Some(text)) => {
                let mut inner = super::tools::split(&text);
                inner.extend(words.iter().skip(place + 1).map(|w| w.text.unwrap_or("").to_owned()));
                // Options and variables of `env` precede the program.
                inner.insert(0, "env".to_owned());
                out.push(Piece::Words(word, inner));
                return Flow::Done;
            }
            (Role::Commas, Some(text)) => {
                out.push(Piece::Words(word, text.split(',').map(str::to_owned).collect()));
            }
            (Role::Line, _) => return Flow::Line,
            (
                Role::Also(_)
                | Role::File(_)
                | Role::Folder
                | Role::Module
                | Role::Setting
                | Role::Split
                | Role::Commas,
                None,
            ) => {}
        }
        Flow::On
    }

    fn finish(&self, words: &[Word<'_>], state: &State, out: &mut Vec<Piece>) {
        let operands = &state.operands;
        let word = |at: usize| (words[at].at, words[at].text);
        if let Some(language) = state.first {
            match operands.first().map(|at| word(*at)) {
                Some((at, Some(text))) => out.push(Piece::Text(language, at, text.to_owned())),
                Some((at, None)) => {
                    out.push(Piece::Unknown(language, at, "its text is not known".to_owned()));
                }
                None => out.push(Piece::Missing(language)),
            }
            return;
        }
        // Prints information and reads nothing. Tcl's interpreters have no such options.
        let tells =
            matches!(words, [_, word] if matches!(word.text, Some("--version" | "--help" | "-v" | "-V")));
        let is_unread = matches!(self.stdin, Some(As::Unread(name)) if name != "tcl");
        match self.operand {
            _ if state.data || tells && is_unread => return,
            Operand::Data => {}
            Operand::Script(language) if !state.has_program => {
                // After unknown options the first operand may be a value.
                for at in operands.iter().take(1 + state.doubt) {
                    match word(*at) {
                        (_, Some("-")) => out.push(Piece::Stdin(language)),
                        (at, Some(path)) => out.push(Piece::File(language, at, path.to_owned())),
                        (at, None) => {
                            out.push(Piece::Unknown(language, at, super::NO_NAME.to_owned()));
                        }
                    }
                }
                if !operands.is_empty() && state.doubt == 0 {
                    return;
                }
            }
            Operand::Script(_) => return,
            Operand::Text(language) => {
                for (at, text) in operands.iter().take(1).map(|at| word(*at)).filter(|_| !state.has_program) {
                    out.push(Piece::Text(language, at, text.unwrap_or("").to_owned()));
                }
                return;
            }
            Operand::Each(language) => {
                for (at, path) in operands.iter().map(|at| word(*at)) {
                    match path {
                        Some("-") => out.push(Piece::Stdin(language)),
                        Some(path) => out.push(Piece::File(language, at, path.to_owned())),
                        None => out.push(Piece::Unknown(language, at, super::NO_NAME.to_owned())),
                    }
                }
                if !operands.is_empty() {
                    return;
                }
            }
            Operand::Texts(skip, language) => {
                for (at, text) in operands.iter().skip(skip).map(|at| word(*at)) {
                    out.push(Piece::Text(language, at, text.unwrap_or("").to_owned()));
                }
                // After unknown options an operand may be the value of one, so that no text is left.
                if operands.len() > skip + state.doubt {
                    return;
                }
            }
            Operand::Line(_) | Operand::Assigned => {
                let skip = if let Operand::Line(skip) = self.operand { skip } else { 0 };
                // After unknown options the command line may begin at any operand.
                let lines = match state.doubt {
                    0 => operands.get(skip..).unwrap_or(&[]).iter().take(1),
                    _ => operands.iter().take(operands.len()),
                };
                out.extend(lines.filter(|_| !state.has_program).map(|from| Piece::Line(*from, words.len())));
                return Self::alone(words, state, skip, out);
            }
            Operand::Joined(skip) => {
                let lines = match state.doubt {
                    0 => operands.get(skip..).unwrap_or(&[]).iter().take(1),
                    _ => operands.iter().take(operands.len()),
                };
                for from in lines.filter(|_| !state.has_program) {
                    let joined: Vec<&str> = words[*from..].iter().map(|w| w.text.unwrap_or("")).collect();
                    out.push(Piece::Text(super::table::SHELL, words[*from].at, joined.join(" ")));
                    out.push(Piece::Line(*from, words.len()));
                }
                return Self::alone(words, state, skip, out);
            }
            Operand::User => {
                let named: Vec<usize> =
                    operands.iter().copied().filter(|at| word(*at).1 != Some("-")).collect();
                out.extend(named.iter().take(2).map(|from| Piece::Line(*from, words.len())));
                if named.len() > 1 {
                    let rest = named[1..]
                        .iter()
                        .map(|at| word(*at).1.map_or_else(|| HOLE.to_string(), str::to_owned));
                    out.push(Piece::Words(
                        words[0].at,
                        std::iter::once("sh".to_owned()).chain(rest).collect(),
                    ));
                    return;
                }
            }
        }
        Self::alone(words, state, operands.len(), out);
        if let Some(language) = self.stdin.filter(|_| !state.has_program) {
            out.push(Piece::Stdin(language));
        }
    }
}

impl Grammar {
    /// The program that is started when no command is left after this many operands.
    fn alone(words: &[Word<'_>], state: &State, skip: usize, out: &mut Vec<Piece>) {
        let tells = matches!(
            words,
            [_, word] if matches!(word.text, Some("--version" | "--help" | "-V" | "-h"))
        );
        // Each unknown option may take an operand as its value.
        let is_left = state.operands.len() > skip + state.doubt;
        if let Some(program) = state.alone.filter(|_| !state.has_program && !tells && !is_left) {
            out.push(Piece::Words(words[0].at, vec![program.to_owned()]));
        }
    }
}

struct State {
    has_program: bool,
    /// The first operand is a program text of this language.
    first: Option<As>,
    data: bool,
    /// Program that is started when none is named.
    alone: Option<&'static str>,
    /// Number of unknown options, each of which may take the next argument.
    doubt: usize,
    operands: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Flow {
    On,
    Ends,
    Line,
    Done,
}

enum Taken<'a> {
    Here(Option<&'a str>),
    Next,
}

const fn wants(role: Role) -> bool {
    matches!(
        role,
        Role::Value
            | Role::Text(_)
            | Role::Also(_)
            | Role::File(_)
            | Role::Folder
            | Role::Script(_)
            | Role::Module
            | Role::Setting
            | Role::Split
            | Role::Commas
            | Role::Pair
    )
}

/// True when an argument assigns a variable.
fn assigns(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains('/'))
}
