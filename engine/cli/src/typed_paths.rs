//! Paths on the command line: no link of a clone leads one of them out of that clone.
//!
//! One rule for all options. The name of an option's value, as help shows it, says how a path stands in it, so
//! that a new option with a known name is held to the rule without a word here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use hotcell_config::typed;
use hotcell_sandbox::profile::parse_bind;
use hotcell_state::report::{Code, ErrorReport};

use crate::quote::quoted;

/// How a path stands in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Not at all, or as a path in a workspace; or where it is named only to take something back.
    No,
    /// As the whole word.
    Whole,
    /// As the whole word; these words are not paths.
    But(&'static [&'static str]),
    /// Before `:/INSIDE`.
    Bind,
    /// As a word with a slash, or with `.toml` at its end; others are names.
    Slash,
    /// As the whole word, or before a `#`; words with `://` are addresses.
    Source,
    /// Before `=`.
    Before,
    /// Behind an `@`.
    At,
    /// Between commas, with a slash.
    List,
    /// Behind `ro=` or `rw=`, before `:/INSIDE`.
    Grant,
    /// Behind `file:`, before the last `@`.
    Secret,
}

/// Arguments whose form does not follow from their value's name: command, id, form.
const OWN: [(&str, &str, Form); 7] = [
    ("run", "file", Form::But(&["-"])),
    ("run", "stdin", Form::But(&["-", "null"])),
    ("scan", "paths", Form::But(&["-"])),
    ("workspace export", "file", Form::But(&["-"])),
    ("workspace read", "path", Form::No),
    ("workspace write", "path", Form::No),
    ("workspace delete", "path", Form::No),
];

/// Names of values, with their forms. Grants (`CAPABILITY`) are checked by the service, which takes them back
/// without a look at the path.
const NAMES: &[(&[&str], Form)] = &[
    (&["DIR", "FILE", "PATH", "SPEC", "FILE|BASE64"], Form::Whole),
    (&["HOST[:INSIDE]"], Form::Bind),
    (&["PROFILE", "NAME|FILE"], Form::Slash),
    (&["SOURCE", "PLUGIN|SOURCE"], Form::Source),
    (&["DIR=GLOB"], Form::Before),
    (&["JSON|@FILE|-"], Form::At),
    (&["VERSION,…"], Form::List),
    (&["GRANT"], Form::Grant),
    (&["SECRET"], Form::Secret),
    (
        &[
            "--NAME VALUE",
            "ADDR",
            "ARG",
            "CAPABILITY",
            "CODE",
            "COMMAND",
            "DEPTH",
            "DIGEST",
            "DIGEST|PATH",
            "FARM",
            "FORM",
            "FUNCTION",
            "GLOB",
            "HOST",
            "HOST:PORT,…",
            "ID",
            "K/N",
            "KIND",
            "KEY=TEXT|KEY:=JSON",
            "LANG",
            "LANGUAGE",
            "LAYER,…",
            "LIMIT",
            "JSON",
            "MODE",
            "MODEL",
            "N",
            "N|auto",
            "NAME",
            "NAME=VALUE",
            "VERB",
            "NAME[=VALUE]",
            "NAME[==VERSION]",
            "NAME,…",
            "NAME|COMMAND",
            "NUMBER",
            "NUMBERS",
            "PEERS|none",
            "PLUGIN",
            "PRICE",
            "PROGRAM",
            "PROMPT",
            "PROVIDER",
            "REFERENCE",
            "ROLE",
            "ROWS",
            "SERVER",
            "SHELL",
            "SIZE",
            "SNAPSHOT",
            "TEXT",
            "TIME",
            "UNIX",
            "TOOL",
            "TOOL,…",
            "TOOLSET,…",
            "URL",
            "WHAT",
        ],
        Form::No,
    ),
];

/// The form of an argument of a command, such as `tool add`; `None` when neither table knows it.
fn form(command: &str, arg: &Arg) -> Option<Form> {
    let id = arg.get_id().as_str();
    if let Some((.., form)) = OWN.iter().find(|(of, named, _)| *of == command && *named == id) {
        return Some(*form);
    }
    let name = value_name(arg);
    let found = NAMES.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, form)| *form);
    match found {
        // `tool new NAME` makes a folder.
        Some(Form::No) if is_path(arg) && name == "NAME" => Some(Form::Whole),
        found => found,
    }
}

/// Whether an argument is parsed to a path.
fn is_path(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>()
}

/// The paths in a word, relative to `cwd`.
fn paths(form: Form, word: &OsStr, cwd: &Path) -> Vec<PathBuf> {
    let text = word.to_string_lossy();
    let whole = || vec![PathBuf::from(word)];
    match form {
        Form::No => Vec::new(),
        Form::But(words) if words.iter().any(|other| *other == word) => Vec::new(),
        Form::Whole | Form::But(_) => whole(),
        Form::Bind => parse_bind(Path::new(word), cwd, false).map(|bind| bind.host).into_iter().collect(),
        Form::Slash if text.contains('/') || text.ends_with(".toml") => whole(),
        Form::Source if text.contains("://") => Vec::new(),
        Form::Source if text.starts_with("file:") => {
            word.as_bytes().get(5..).map(|file| OsStr::from_bytes(file).into()).into_iter().collect()
        }
        Form::Source => {
            let before = word.as_bytes().iter().rposition(|byte| *byte == b'#');
            let before = before.filter(|at| *at > 0);
            let before = before.map(|at| PathBuf::from(OsStr::from_bytes(&word.as_bytes()[..at])));
            whole().into_iter().chain(before).collect()
        }
        Form::At => word
            .as_bytes()
            .strip_prefix(b"@")
            .map(|file| OsStr::from_bytes(file).into())
            .into_iter()
            .collect(),
        Form::List => {
            text.split(',').map(str::trim).filter(|one| one.contains('/')).map(PathBuf::from).collect()
        }
        Form::Before => text.split_once('=').map(|(folder, _)| PathBuf::from(folder)).into_iter().collect(),
        Form::Grant => text
            .split_once('=')
            .filter(|(kind, _)| matches!(*kind, "ro" | "rw"))
            .and_then(|(_, path)| parse_bind(Path::new(path), cwd, false).ok())
            .map(|bind| bind.host)
            .into_iter()
            .collect(),
        Form::Secret => text
            .split_once("file:")
            .map(|(_, rest)| PathBuf::from(rest.rsplit_once('@').map_or(rest, |(path, _)| path)))
            .into_iter()
            .collect(),
        Form::Slash => Vec::new(),
    }
}

/// Checks every path that was typed; those of defaults are not.
///
/// The project of `run` and `test` counts as a clone also where it is not a repository.
///
/// # Errors
/// The first path that a link leads out of its clone, with the option.
pub fn check(command: &Command, matches: &ArgMatches, cwd: &Path) -> Result<(), ErrorReport> {
    let (mut of, mut given, mut names) = (command, matches, Vec::new());
    let mut typed = Vec::new();
    loop {
        let name = names.join(" ");
        for arg in of.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let id = arg.get_id().as_str();
            if given.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            let form = form(&name, arg).unwrap_or(Form::Whole);
            for word in given.get_raw(id).into_iter().flatten() {
                let found = paths(form, word, cwd);
                // Words of the other forms may have a secret, and are checked by their own parsers.
                let is_shown =
                    matches!(form, Form::Whole | Form::But(_) | Form::Source | Form::Before | Form::At);
                if is_shown && found.iter().any(|path| path.as_os_str().is_empty()) {
                    return Err(of_nothing(arg, word));
                }
                typed.extend(found.into_iter().map(|path| (arg, path)));
            }
        }
        let Some((next, inner)) = given.subcommand() else { break };
        let Some(sub) = of.find_subcommand(next) else { break };
        names.push(next);
        (of, given) = (sub, inner);
    }
    // The project comes first: the other paths are checked against it.
    let is_project =
        |arg: &Arg| names == ["test"] && arg.get_id() == "project" || arg.get_id() == "workspace";
    typed.sort_by_key(|(arg, _)| !is_project(arg));
    let mut trees = Vec::new();
    for (arg, path) in typed {
        let option = name(arg);
        let real = typed::real_from(cwd, &path, &trees).map_err(|astray| {
            let why = format!("{option} {}: {astray}", quoted(&path.to_string_lossy()));
            ErrorReport::new(Code::InvalidValue, why).field(&option)
        })?;
        if is_project(arg) {
            trees.push(real);
        }
    }
    Ok(())
}

/// The error for an empty path, which would otherwise be the current folder: mostly a variable of the shell that is not set.
fn of_nothing(arg: &Arg, word: &OsStr) -> ErrorReport {
    let option = name(arg);
    let why = format!("{option} {}: names no file or folder", quoted(&word.to_string_lossy()));
    ErrorReport::new(Code::InvalidValue, why)
        .field(option)
        .hint("write one; the current folder is written as .")
}

/// An argument as it is written: its option, or the name of its value.
fn name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| value_name(arg), |long| format!("--{long}"))
}

fn value_name(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first());
    name.map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    /// Every argument that takes a value, with the name of its command.
    fn arguments(of: &Command, name: &str, all: &mut Vec<(String, Arg)>) {
        let with_value = of.get_arguments().filter(|arg| arg.get_action().takes_values());
        all.extend(with_value.map(|arg| (name.to_owned(), arg.clone())));
        for sub in of.get_subcommands() {
            arguments(sub, format!("{name} {}", sub.get_name()).trim(), all);
        }
    }

    fn all() -> Vec<(String, Arg)> {
        let mut command = Cli::command();
        command.build();
        let mut found = Vec::new();
        arguments(&command, "", &mut found);
        found
    }

    #[test]
    fn arguments_have_listed_value_forms() {
        let all = all();
        for (command, arg) in &all {
            let found = form(command, arg);
            assert!(found.is_some(), "{command}: the name of the value of {arg} is in no table");
            let inside = OWN.iter().any(|(of, id, _)| of == command && arg.get_id() == id);
            let taken_back = value_name(arg) == "DIGEST|PATH";
            assert!(
                !is_path(arg) || found != Some(Form::No) || inside || taken_back,
                "{command}: {arg} is a path that is not checked"
            );
        }
        // No row is left over.
        let names: BTreeSet<String> = all.iter().map(|(_, arg)| value_name(arg)).collect();
        for name in NAMES.iter().flat_map(|(names, _)| *names) {
            assert!(names.contains(*name), "no argument has a value {name}");
        }
        for (command, id, _) in OWN {
            assert!(all.iter().any(|(of, arg)| of == command && arg.get_id() == id), "{command}: no {id}");
        }
    }

    /// Words of a command line with this argument; positional ones before it are filled.
    fn line(command: &str, arg: &Arg, value: &str) -> Vec<OsString> {
        let mut words: Vec<String> =
            ["hotcell"].into_iter().chain(command.split_whitespace()).map(Into::into).collect();
        match arg.get_long() {
            Some(long) => words.extend([format!("--{long}"), value.to_owned()]),
            None => {
                words.extend((1..arg.get_index().unwrap_or(1)).map(|_| "x".to_owned()));
                words.push(value.to_owned());
            }
        }
        words.into_iter().map(Into::into).collect()
    }

    #[test]
    fn path_options_refuse_links_out_of_clone() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        for folder in ["clone/.git", "clone/real", "private"] {
            std::fs::create_dir_all(cwd.join(folder)).unwrap();
        }
        symlink("../private", cwd.join("clone/out")).unwrap();
        symlink("real", cwd.join("clone/in")).unwrap();
        let mut checked = 0;
        for (command, arg) in all() {
            let say = |at: &str| match form(&command, &arg).unwrap() {
                Form::No => None,
                Form::Bind => Some(vec![format!("{at}/x:/x"), format!("{at}/x")]),
                Form::At => Some(vec![format!("@{at}/x")]),
                Form::List => Some(vec![format!("3.11,{at}/x")]),
                Form::Source => Some(vec![format!("{at}/x"), format!("{at}/x#y"), format!("file:{at}/x")]),
                Form::Grant => Some(vec![format!("ro={at}/x"), format!("rw={at}/x:/x")]),
                Form::Before => Some(vec![format!("{at}/x=*.xml")]),
                // Only an absolute path is taken.
                Form::Secret => Some(vec![format!("a=file:{}/x@h.test", cwd.join(at).display())]),
                _ => Some(vec![at.to_owned(), format!("{at}/x")]),
            };
            for (at, refused) in [("clone/out", true), ("clone/in", false), ("private", false)] {
                for value in say(at).into_iter().flatten() {
                    let words = line(&command, &arg, &value);
                    let mut parser = Cli::command().ignore_errors(true);
                    let matches = parser.try_get_matches_from_mut(&words).unwrap();
                    let answer = check(&parser, &matches, &cwd);
                    assert_eq!(answer.is_err(), refused, "{words:?}: {answer:?}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 100, "{checked}");
    }

    #[test]
    fn no_option_takes_an_empty_path_for_the_current_folder() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        let mut checked = 0;
        for (command, arg) in all() {
            let value = match form(&command, &arg).unwrap() {
                Form::Whole | Form::But(_) | Form::Source => "",
                Form::Before => "=*.xml",
                Form::At => "@",
                _ => continue,
            };
            let words = line(&command, &arg, value);
            let mut parser = Cli::command();
            // An argument's own parser may refuse it first.
            let Err(error) = parser.try_get_matches_from_mut(&words) else {
                let matches = Cli::command().get_matches_from(&words);
                let said = check(&parser, &matches, &cwd).map_err(|report| report.to_string());
                let is_refused = said.as_ref().is_err_and(|said| said.contains("names no file or folder"));
                assert!(is_refused, "{words:?}: {said:?}");
                checked += 1;
                continue;
            };
            let kinds = [
                clap::error::ErrorKind::InvalidValue,
                clap::error::ErrorKind::ValueValidation,
                clap::error::ErrorKind::MissingRequiredArgument,
                clap::error::ErrorKind::ArgumentConflict,
            ];
            assert!(kinds.contains(&error.kind()), "{words:?}: {error}");
        }
        assert!(checked > 2, "{checked}");
    }

    #[test]
    fn non_path_words_are_not_checked() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join(".git")).unwrap();
        for name in ["-", "null", "standard", "python", "oci:", "3.11"] {
            symlink("/etc", cwd.join(name)).unwrap();
        }
        let answer = |words: &[&str]| {
            let mut parser = Cli::command();
            let matches = parser.try_get_matches_from_mut(words).unwrap();
            check(&parser, &matches, &cwd).is_ok()
        };
        for (words, fine) in [
            (&["hotcell", "run", "--stdin", "-", "--", "cat"] as &[&str], true),
            (&["hotcell", "run", "--stdin", "null", "--", "cat"], true),
            (&["hotcell", "run", "--stdin", "./-", "--", "cat"], false),
            (&["hotcell", "run", "--stdin", "3.11", "--", "cat"], false),
            (&["hotcell", "run", "--lang", "bash", "-"], true),
            (&["hotcell", "run", "--profile", "standard", "--", "cat"], true),
            (&["hotcell", "run", "--profile", "standard/x", "--", "cat"], false),
            (&["hotcell", "scan", "-"], true),
            (&["hotcell", "scan", "null"], false),
            (&["hotcell", "image", "build", "python"], true),
            (&["hotcell", "image", "import", "oci://host/x"], true),
            (&["hotcell", "test", ".", "--python", "3.11"], true),
            (&["hotcell", "test", ".", "--junit", "./-"], false),
            (&["hotcell", "run", "--", "cat", "null"], true),
            (&["hotcell", "--config", "null", "runs", "list"], false),
            (&["hotcell", "runs", "list", "--config", "null"], false),
        ] {
            assert_eq!(answer(words), fine, "{words:?}");
        }
    }

    /// Places that hotcell writes to: command, and id of the argument.
    const WRITTEN: [(&str, &str); 25] = [
        ("agent export", "to"),
        ("agent resume", "out"),
        ("agent resume", "receipt"),
        ("bench", "svg"),
        ("doctor", "html"),
        ("fix", "receipt"),
        ("learn", "policy"),
        ("make", "out"),
        ("make", "receipt"),
        ("man", "dir"),
        ("run", "output_files"),
        ("run", "receipt"),
        ("runs show", "har"),
        ("runs suggest", "policy"),
        ("scan", "receipt"),
        ("session", "pictures"),
        ("session", "receipt"),
        ("session exec", "pictures"),
        ("test", "coverage_cobertura"),
        ("test", "coverage_lcov"),
        ("test", "junit"),
        ("test", "output_files"),
        ("test", "receipt"),
        ("tool build", "out"),
        ("usage export", "file"),
    ];

    #[test]
    fn standard_output_is_no_place_to_write_to() {
        let mut refused = BTreeSet::new();
        for (command, arg) in all() {
            let value = if value_name(&arg) == "DIR=GLOB" { "-=x" } else { "-" };
            let mut words = line(&command, &arg, value);
            if let (Some(long), "-=x") = (arg.get_long(), value) {
                words.truncate(words.len() - 2);
                words.push(format!("--{long}={value}").into());
            }
            let said = Cli::command().try_get_matches_from(words).err();
            let said = said.map(|error| error.to_string()).unwrap_or_default();
            if said.contains(crate::outputs::STANDARD_OUTPUT) {
                assert!(!said.trim_end().is_empty() && said.contains("'-"), "{command} {arg}: {said}");
                refused.insert((command.clone(), arg.get_id().to_string()));
            } else if is_path(&arg) || value_name(&arg).contains("FILE") {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let writes =
                    ["Write ", " write ", "Copy files", "Draw "].iter().any(|word| help.contains(word));
                assert!(!writes, "{command} {arg} takes -: {help}");
            }
        }
        let all: BTreeSet<_> = WRITTEN.map(|(command, id)| (command.to_owned(), id.to_owned())).into();
        assert_eq!(refused, all);
    }

    #[test]
    fn run_project_is_a_clone_without_repository() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join("p")).unwrap();
        symlink("../private", cwd.join("p/out")).unwrap();
        for (words, fine) in [
            (&["hotcell", "run", "--rules", "p/out", "--workspace", "p", "--", "cat"] as &[&str], false),
            (&["hotcell", "run", "--rules", "p/out", "--", "cat"], true),
            (&["hotcell", "test", "--rules", "p/out", "p"], false),
            (&["hotcell", "test", "p", "--shard", "1/2", "--shard-times", "p/out/x"], false),
        ] {
            let mut parser = Cli::command();
            let matches = parser.try_get_matches_from_mut(words).unwrap();
            assert_eq!(check(&parser, &matches, &cwd).is_ok(), fine, "{words:?}");
        }
    }
}
