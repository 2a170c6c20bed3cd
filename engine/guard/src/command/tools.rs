//! Programs with an argument syntax of their own: find, git, make, socat, deno, programs that start others,
//! and Python modules.

use super::table::SHELL;
use super::{As, Piece, Word, edit, git, holders, unknown};
use crate::language::Language;

const PYTHON: As = As::Read(Language::Python);
const JS: As = As::Read(Language::JavaScript);
const CMAKE: As = As::Unread("cmake");
/// Maximum number of start folders of one search.
const MAX_STARTS: usize = 16;

/// True when [`read`] handles a program of this name.
pub(super) fn knows(name: &str) -> bool {
    matches!(
        name,
        "find"
            | "fd"
            | "fdfind"
            | "git"
            | "make"
            | "gmake"
            | "bmake"
            | "awk"
            | "gawk"
            | "mawk"
            | "nawk"
            | "original-awk"
            | "sed"
            | "gsed"
            | "socat"
            | "deno"
            | "bun"
            | "coverage"
            | "uv"
            | "poetry"
            | "pipenv"
            | "hatch"
            | "rye"
            | "pdm"
            | "npx"
            | "npm"
            | "pnpm"
            | "yarn"
            | "go"
            | "docker"
            | "podman"
            | "kubectl"
            | "alias"
            | "cd"
            | "pushd"
            | "chdir"
            | "cmake"
            | "ctest"
    ) || holders::knows(name)
        || is_loader(name)
}

/// The dynamic loader, which executes the program in its arguments.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so"
}

/// Code that these programs execute according to their arguments.
pub(super) fn read(name: &str, words: &[Word<'_>], out: &mut Vec<Piece>) {
    match name {
        "find" | "fd" | "fdfind" => find(words, out),
        "git" => git::read(words, out),
        "make" | "gmake" | "bmake" => make(words, out),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => edit::read_awk(words, out),
        "sed" | "gsed" => edit::read_sed(words, out),
        "socat" => socat(words, out),
        "deno" | "bun" => deno(words, out),
        // Each starts the command after its own subcommand.
        "coverage" => python_script(words, &["run"], out),
        "uv" | "poetry" | "pipenv" | "hatch" | "rye" | "pdm" | "npx" | "npm" | "pnpm" | "yarn" => {
            if matches!(name, "poetry" | "pipenv" | "hatch") && text(words, 1) == Some("shell") {
                out.push(Piece::Words(words[1].at, vec!["sh".to_owned()]));
            }
            starter(name, words, out);
        }
        "go" => go(words, out),
        "docker" | "podman" | "kubectl" => container(words, out),
        "alias" => {
            for word in words.iter().skip(1) {
                if let Some((_, text)) = word.text.and_then(|text| text.split_once('=')) {
                    out.push(Piece::Text(SHELL, word.at, text.to_owned()));
                }
            }
        }
        "cd" | "pushd" | "chdir" => {
            let folder = words.iter().skip(1).find(|word| word.text.is_none_or(|t| !t.starts_with('-')));
            let hole = crate::value::HOLE.to_string();
            out.extend(folder.map(|word| Piece::Folder(word.at, word.text.map_or(hole, str::to_owned))));
        }
        "cmake" | "ctest" => cmake(words, out),
        _ if holders::knows(name) => holders::read(name, words, out),
        _ if is_loader(name) => loader(words, out),
        _ => {}
    }
}

pub(super) fn text<'a>(words: &[Word<'a>], at: usize) -> Option<&'a str> {
    words.get(at).and_then(|word| word.text)
}

/// `ld.so [OPTION]… PROGRAM`.
fn loader(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let mut at = 1;
    while let Some(word) = text(words, at).filter(|word| word.starts_with("--")) {
        let valued = matches!(
            word,
            "--library-path"
                | "--inhibit-rpath"
                | "--audit"
                | "--preload"
                | "--argv0"
                | "--glibc-hwcaps-prepend"
        );
        if matches!(word, "--audit" | "--preload")
            && let Some(path) = text(words, at + 1)
        {
            out.push(Piece::File(As::Own, words[at + 1].at, path.to_owned()));
        }
        at += if valued { 2 } else { 1 };
    }
    if at < words.len() {
        out.push(Piece::Line(at, words.len()));
        if let Some(path) = text(words, at) {
            out.push(Piece::File(As::Own, words[at].at, path.to_owned()));
        }
    }
}

/// Each command after `-exec` and similar options.
fn find(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let begins = |at: usize| {
        matches!(
            text(words, at),
            Some("-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch")
        )
    };
    for at in (1..words.len()).filter(|at| begins(*at)) {
        let end = (at + 1..words.len())
            .find(|end| matches!(text(words, *end), Some(";" | "+")))
            .unwrap_or(words.len());
        out.push(Piece::Line(at + 1, end));
        let starts = (1..words.len())
            .take_while(|at| text(words, *at).is_some_and(|t| !t.starts_with(['-', '(', '!'])))
            .filter_map(|at| text(words, at))
            .take(MAX_STARTS);
        let starts: Vec<&str> = if text(words, at).is_some_and(|t| t.ends_with("dir")) {
            // Each is started in the folder of the file found.
            out.push(Piece::Folder(words[at].at, crate::value::HOLE.to_string()));
            vec![""]
        } else {
            starts.collect()
        };
        let starts = if starts.is_empty() { vec![""] } else { starts };
        for line in unknown::filled(&words[at + 1..end], &starts) {
            out.push(Piece::Words(words.get(at + 1).map_or(at, |word| word.at), line));
        }
    }
}

/// `cmake -E env PROGRAM …`, `cmake -P FILE`, `ctest -S FILE`.
fn cmake(words: &[Word<'_>], out: &mut Vec<Piece>) {
    for at in 1..words.len() {
        let Some(word) = text(words, at) else { continue };
        let script = match word {
            "-P" | "-S" | "-SP" | "-C" | "--build-and-test" if word != "-S" || is_ctest(words) => {
                text(words, at + 1).map(str::to_owned)
            }
            _ => word.strip_prefix("-P").or_else(|| word.strip_prefix("-C")).map(str::to_owned),
        };
        if let Some(path) = script.filter(|path| !path.is_empty()) {
            // A file with a name of cmake's is read as such by the walk.
            let language = if path.to_ascii_lowercase().ends_with(".cmake") { As::Own } else { CMAKE };
            out.push(Piece::File(language, words[at].at, path));
        }
        if word == "-E" {
            // `env`, `time` and `chdir FOLDER`, with variables and options before the program.
            match text(words, at + 1) {
                Some("env" | "time" | "bench") => {
                    let begins = (at + 2..words.len())
                        .find(|at| text(words, *at).is_none_or(|t| !t.starts_with('-') && !t.contains('=')));
                    out.extend(begins.map(|from| Piece::Line(from, words.len())));
                }
                Some("chdir") if at + 3 < words.len() => {
                    out.extend(
                        text(words, at + 2).map(|folder| Piece::Folder(words[at + 2].at, folder.to_owned())),
                    );
                    out.push(Piece::Line(at + 3, words.len()));
                }
                _ => {}
            }
            return;
        }
        if matches!(word, "--build-command" | "--test-command") {
            out.push(Piece::Line(at + 1, words.len()));
        }
        if let Some((name, value)) = word.split_once('=').filter(|(name, _)| name.starts_with("-D"))
            && (name.contains("COMPILER") || name.contains("LAUNCHER") || name.contains("PROGRAM"))
        {
            out.push(Piece::Words(words[at].at, value.split(';').map(str::to_owned).collect()));
        }
    }
}

fn is_ctest(words: &[Word<'_>]) -> bool {
    text(words, 0).is_some_and(|name| crate::rules::basename(name).starts_with("ctest"))
}

/// Options of make that take the next argument as their value, unless it is attached.
const MAKE_VALUED: &[&str] =
    &["--include-dir", "--old-file", "--assume-old", "--what-if", "--new-file", "--assume-new"];

fn make(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let mut folder = String::new();
    let mut files: Vec<(usize, String)> = Vec::new();
    let mut at = 0;
    while at + 1 < words.len() {
        at += 1;
        let place = words[at].at;
        let Some(word) = words[at].text else { continue };
        let (name, attached) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        if word.starts_with("--") && name.len() > 2 {
            let is = |own: &str| own.starts_with(name) && (name.len() > 3 || own == name);
            let value = |at: &mut usize| match attached {
                Some(value) => Some(value.to_owned()),
                None => {
                    *at += 1;
                    text(words, *at).map(str::to_owned)
                }
            };
            if is("--file") || is("--makefile") {
                files.extend(value(&mut at).map(|path| (words[at.min(words.len() - 1)].at, path)));
            } else if is("--eval") {
                let code = value(&mut at);
                let place = words[at.min(words.len() - 1)].at;
                out.extend(code.map(|code| Piece::Text(As::Makefile, place, code)));
            } else if is("--directory") {
                folder.push_str(&value(&mut at).map(|path| format!("{path}/")).unwrap_or_default());
                out.push(Piece::Folder(place, folder.clone()));
            } else if MAKE_VALUED.iter().any(|own| is(own)) && attached.is_none() {
                at += 1;
            }
        } else if word.len() > 1 && word.starts_with('-') {
            // A cluster: the first letter that takes a value takes the rest of the word, or the next
            // argument.
            let Some(offset) = word.find(['f', 'C', 'E', 'I', 'o', 'W']) else { continue };
            let (letter, rest) = (&word[offset..=offset], &word[offset + 1..]);
            let value = if rest.is_empty() {
                at += 1;
                text(words, at).unwrap_or("").to_owned()
            } else {
                rest.to_owned()
            };
            let place = words.get(at).map_or(place, |word| word.at);
            match letter {
                "f" => files.push((place, value)),
                "C" => {
                    folder.push_str(&format!("{value}/"));
                    out.push(Piece::Folder(place, folder.clone()));
                }
                "E" => out.push(Piece::Text(As::Makefile, place, value)),
                _ => {}
            }
        } else if let Some(command) = attached {
            let name = name.trim_end_matches([':', '+', '?', '!']);
            if name == "SHELL" {
                out.push(Piece::Words(place, split(command)));
            } else if command.contains("$(") || command.contains("${") || word.contains("!=") {
                out.push(Piece::Text(As::Makefile, place, word.to_owned()));
            } else if command.contains([';', '|', '&', '`', '\n', ' ']) || name == ".SHELLFLAGS" {
                // Where recipes use the variable is unknown; as a separate command, its value shows what it would
                // run there.
                out.push(Piece::Text(SHELL, place, command.to_owned()));
            }
        }
    }
    if files.is_empty() {
        let names = ["GNUmakefile", "makefile", "Makefile"];
        files.extend(names.iter().map(|name| (words.first().map_or(0, |word| word.at), (*name).to_owned())));
    }
    for (place, path) in files {
        if path == "-" {
            out.push(Piece::Stdin(As::Makefile));
        } else if path.starts_with('/') {
            out.push(Piece::File(As::Makefile, place, path));
        } else {
            out.push(Piece::File(As::Makefile, place, format!("{folder}{path}")));
        }
    }
}

/// `EXEC:` and `SYSTEM:` addresses.
fn socat(words: &[Word<'_>], out: &mut Vec<Piece>) {
    for word in words.iter().skip(1) {
        let Some(address) = word.text else { continue };
        for half in address.split("!!") {
            let (kind, rest) = half.split_once(':').unwrap_or((half, ""));
            if matches!(kind.to_ascii_lowercase().as_str(), "exec" | "system" | "shell") {
                out.push(Piece::Text(SHELL, word.at, rest.split(',').next().unwrap_or(rest).to_owned()));
            }
        }
    }
}

fn deno(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let mut operands = Vec::new();
    let mut at = 1;
    while at < words.len() {
        let word = words[at].text.unwrap_or("");
        let (name, attached) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        match name {
            "-e" | "--eval" | "-p" | "--print" | "--eval-file" | "-r" | "--preload" | "--require"
            | "--import" => {
                let (place, value) = match attached {
                    Some(value) => (words[at].at, Some(value)),
                    None => (words.get(at + 1).map_or(0, |w| w.at), text(words, at + 1)),
                };
                let file = !matches!(name, "-e" | "--eval" | "-p" | "--print");
                // deno's `-r` and `--reload` take no separate value.
                if let Some(value) = value {
                    out.push(if file {
                        Piece::File(JS, place, value.to_owned())
                    } else {
                        Piece::Text(JS, place, value.to_owned())
                    });
                }
                at += usize::from(attached.is_none() && !file);
            }
            _ if word.starts_with('-') && word.len() > 1 => {}
            _ => operands.push(at),
        }
        at += 1;
    }
    let Some(first) = operands.first() else {
        if !out.iter().any(|piece| matches!(piece, Piece::Text(..))) {
            out.push(Piece::Stdin(JS));
        }
        return;
    };
    let second = operands.get(1);
    match text(words, *first) {
        Some("eval") => out
            .extend(second.and_then(|at| Some(Piece::Text(JS, words[*at].at, text(words, *at)?.to_owned())))),
        Some("run" | "test" | "bench" | "serve" | "x") => {
            for at in operands.iter().skip(1).take(2) {
                match text(words, *at) {
                    Some("-") => out.push(Piece::Stdin(JS)),
                    Some(path) => out.push(Piece::File(JS, words[*at].at, path.to_owned())),
                    None => {}
                }
            }
        }
        Some("repl") => out.push(Piece::Stdin(JS)),
        Some("-") => out.push(Piece::Stdin(JS)),
        Some(path) => out.push(Piece::File(JS, words[*first].at, path.to_owned())),
        None => {}
    }
}

/// `coverage run FILE`.
fn python_script(words: &[Word<'_>], commands: &[&str], out: &mut Vec<Piece>) {
    if !text(words, 1).is_some_and(|word| commands.contains(&word)) {
        return;
    }
    if let Some(module) = (2..words.len()).find(|at| text(words, *at) == Some("-m")) {
        if let Some(name) = text(words, module + 1) {
            out.push(Piece::Module(words[module + 1].at, name.to_owned()));
        }
        return;
    }
    // An argument after an option may be its value.
    for word in words.iter().skip(2).filter(|w| w.text.is_some_and(|t| !t.starts_with('-'))).take(4) {
        out.push(Piece::File(PYTHON, word.at, word.text.unwrap_or("").to_owned()));
    }
}

/// `uv run PROGRAM …`, `npx -c TEXT`, `npm exec -- PROGRAM …`.
fn starter(name: &str, words: &[Word<'_>], out: &mut Vec<Piece>) {
    for at in 1..words.len() {
        let word = text(words, at).unwrap_or("");
        if matches!(name, "npx" | "npm" | "pnpm")
            && matches!(word, "-c" | "--call")
            && let Some(code) = text(words, at + 1)
        {
            out.push(Piece::Text(SHELL, words[at + 1].at, code.to_owned()));
        }
        for option in ["--prefix", "--cwd", "--dir", "--directory", "-C"] {
            let attached = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('='));
            let next = (word == option).then(|| text(words, at + 1)).flatten();
            out.extend(attached.or(next).map(|path| Piece::Folder(words[at].at, path.to_owned())));
        }
        if let Some(code) = word.strip_prefix("--call=") {
            out.push(Piece::Text(SHELL, words[at].at, code.to_owned()));
        }
    }
    let begins =
        (1..words.len()).find(|at| matches!(text(words, *at), Some("run" | "exec" | "x" | "dlx" | "tool")));
    let from = match (name, begins) {
        ("npx", _) => 1,
        (_, Some(at)) => at + 1,
        _ => return,
    };
    let mut first = None;
    for at in from..words.len() {
        let word = text(words, at).unwrap_or("");
        if word == "-m" && name == "uv" {
            out.extend(text(words, at + 1).map(|module| Piece::Module(words[at + 1].at, module.to_owned())));
        }
        if !word.starts_with('-') && !matches!(word, "run" | "exec") {
            first.get_or_insert(at);
            // After an option that takes a value; the rest belongs to the program.
            out.push(Piece::Line(at, words.len()));
            if at > from + 6 || !text(words, at - 1).is_some_and(|before| before.starts_with('-')) {
                break;
            }
        }
    }
    // `uv run FILE` executes the file as Python.
    if let Some(at) = first.filter(|_| matches!(name, "uv" | "pdm" | "rye" | "hatch"))
        && let Some(path) = text(words, at)
    {
        out.push(Piece::File(PYTHON, words[at].at, path.to_owned()));
    }
}

/// `go run FILE…`, and programs named in its options.
fn go(words: &[Word<'_>], out: &mut Vec<Piece>) {
    for at in 1..words.len() {
        let word = text(words, at).unwrap_or("");
        let body = word.trim_start_matches('-');
        let (name, attached) = body.split_once('=').map_or((body, None), |(n, v)| (n, Some(v)));
        if word.starts_with('-')
            && matches!(name, "exec" | "toolexec" | "vettool")
            && let Some(value) = attached.or_else(|| text(words, at + 1))
        {
            out.push(Piece::Words(words[at].at, split(value)));
        }
        if !word.starts_with('-') && text(words, 1) == Some("run") && word.ends_with(".go") {
            out.push(Piece::File(As::Read(Language::Go), words[at].at, word.to_owned()));
        }
    }
}

/// `docker exec CONTAINER PROGRAM …`.
fn container(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let Some(exec) = (1..words.len()).find(|at| text(words, *at) == Some("exec")) else { return };
    let target = (exec + 1..words.len()).find(|at| text(words, *at).is_some_and(|t| !t.starts_with('-')));
    if let Some(mut from) = target.map(|at| at + 1) {
        from += usize::from(text(words, from) == Some("--"));
        if from < words.len() {
            out.push(Piece::Line(from, words.len()));
        }
    }
}

/// Python modules that execute a script, a text or standard input; `place` is the index of the module's name.
pub(super) fn module(name: &str, words: &[Word<'_>], place: usize, out: &mut Vec<Piece>) {
    let at = words.get(place).map_or(place, |word| word.at);
    out.push(Piece::Module(at, name.to_owned()));
    let rest = words.get(place + 1..).unwrap_or(&[]);
    let script = |out: &mut Vec<Piece>, most: usize| {
        for word in rest.iter().filter(|w| w.text.is_some_and(|t| !t.starts_with('-') || t == "-")).take(most)
        {
            match word.text {
                Some("-") => out.push(Piece::Stdin(PYTHON)),
                Some(path) => out.push(Piece::File(PYTHON, word.at, path.to_owned())),
                None => {}
            }
        }
    };
    match name {
        "runpy" | "pdb" | "trace" | "cProfile" | "profile" | "bdb" | "tracemalloc" | "idlelib"
        | "idlelib.idle" | "doctest" | "debugpy" | "kernprof" | "memory_profiler" | "viztracer"
        | "IPython" | "ptpython" | "bpython" | "pyinstrument" => {
            for (n, word) in rest.iter().enumerate() {
                if matches!(word.text, Some("-m" | "--module"))
                    && let Some(inner) = rest.get(n + 1).and_then(|w| w.text)
                {
                    out.push(Piece::Module(rest[n + 1].at, inner.to_owned()));
                }
                if matches!(word.text, Some("-c"))
                    && let Some(code) = rest.get(n + 1)
                {
                    out.push(Piece::Text(PYTHON, code.at, code.text.unwrap_or("").to_owned()));
                }
            }
            // Options take values; each of the first arguments may be the script.
            script(out, 4);
            if name == "pdb" {
                out.push(Piece::Stdin(PYTHON));
            }
        }
        "coverage" => {
            let mut inner = vec![words[place]];
            inner.extend_from_slice(rest);
            python_script(&inner, &["run"], out);
        }
        "timeit" => {
            for (n, word) in rest.iter().enumerate() {
                let Some(code) = word.text else { continue };
                if let Some(attached) = ["-s", "--setup="].iter().find_map(|p| code.strip_prefix(p)) {
                    let code = if attached.is_empty() {
                        rest.get(n + 1).and_then(|w| w.text).unwrap_or("")
                    } else {
                        attached
                    };
                    out.push(Piece::Text(PYTHON, word.at, code.to_owned()));
                } else if !code.starts_with('-') {
                    out.push(Piece::Text(PYTHON, word.at, code.to_owned()));
                }
            }
        }
        "code" | "asyncio" | "codeop" => out.push(Piece::Stdin(PYTHON)),
        "pytest" | "unittest" | "py.test" | "nose" => script(out, 64),
        "sqlite3" => {
            for word in rest.iter().skip(1) {
                out.push(Piece::Text(As::Read(Language::Sql), word.at, word.text.unwrap_or("").to_owned()));
            }
            out.push(Piece::Stdin(As::Read(Language::Sql)));
        }
        _ => {}
    }
}

/// Splits a text as `env -S` does: quotes and backslashes, without expansion.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(c),
            (_, '\\') => match chars.next() {
                Some('n') => word.get_or_insert_default().push('\n'),
                Some('t') => word.get_or_insert_default().push('\t'),
                Some('_') if quote.is_none() => words.extend(word.take()),
                Some('_') => word.get_or_insert_default().push(' '),
                Some('c') | None => break,
                Some(other) => word.get_or_insert_default().push(other),
            },
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
