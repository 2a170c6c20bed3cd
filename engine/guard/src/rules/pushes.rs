//! Addresses that a repository is pushed to, or that become a remote of it.

use super::network::is_of;
use super::path::basename;
use crate::value::{Const, Value};
use std::rc::Rc;

/// Address in the words of a command: `git push URL`, `git remote add NAME URL`.
pub(crate) fn pushed_to(words: &[Value]) -> Option<&Value> {
    let (program, rest) = words.split_first()?;
    if basename(program.as_whole_text()?).trim_end_matches(".exe") != "git" {
        return None;
    }
    let mut rest = rest.iter().peekable();
    // Options of git itself: `-C FOLDER`, `-c NAME=VALUE`, `--no-pager`.
    while let Some(option) = rest.next_if(|word| word.as_text().is_some_and(|text| text.starts_with('-'))) {
        if matches!(option.as_whole_text(), Some("-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace")) {
            rest.next();
        }
    }
    let verb = rest.next()?.as_whole_text()?;
    let operands = |takes_value: &[&str]| {
        let mut found = Vec::new();
        let mut words = rest.clone();
        while let Some(word) = words.next() {
            match word.as_text().filter(|text| text.starts_with('-') && text.len() > 1) {
                Some(option) if takes_value.contains(&option) => drop(words.next()),
                Some(_) => {}
                None => found.push(word),
            }
        }
        found
    };
    let target = match verb {
        "push" => operands(&["-o", "--push-option", "--receive-pack", "--exec"]).first().copied()?,
        "remote" => match operands(&["-t", "-m"])[..] {
            [verb, _, address, ..] if matches!(verb.as_whole_text(), Some("add" | "set-url")) => address,
            _ => return None,
        },
        _ => return None,
    };
    is_address(target).then_some(target)
}

/// Address in a call of a library: `repo.create_remote(name, url)`, `git.addRemote(name, url)`.
pub(crate) fn pushed_by(name: &str, args: &[Value], kwargs: &[(Rc<str>, Value)]) -> Option<Value> {
    let name = name.strip_prefix("new ").unwrap_or(name);
    let (owner, method) = name.rsplit_once('.')?;
    let named =
        kwargs.iter().find(|(key, _)| matches!(&**key, "url" | "remote_location")).map(|(_, value)| value);
    let of = |library: &str| is_of(owner, library);
    let position = match method {
        "create_remote" | "add_remote" => 1,
        "create" if owner.ends_with(".remotes") && of("pygit2") || owner == "git.Remote" => {
            1 + usize::from(owner == "git.Remote")
        }
        "create_anonymous" if of("pygit2") => 0,
        "set_url" if of("git") => 0,
        "set_url" if of("pygit2") => 1,
        "push" if owner.ends_with(".git") && of("git") => 0,
        "push" if owner == "dulwich.porcelain" => 1,
        "addRemote" if of("simple-git") => 1,
        "addRemote" | "push" if of("isomorphic-git") => usize::MAX,
        "push" if of("simple-git") => 0,
        "remote" | "raw" if of("simple-git") || owner.ends_with(".git") && of("git") => {
            return listed(method, args);
        }
        _ => return None,
    };
    let target = named.or_else(|| args.get(position))?;
    is_address(target).then(|| target.clone())
}

/// `git.remote(["add", name, url])`, `git.raw("push", url)`.
fn listed(method: &str, args: &[Value]) -> Option<Value> {
    let given = match args {
        [list] if matches!(list.known, Some(Const::List(_))) => list.elements()?,
        all => all.to_vec(),
    };
    let words =
        ["git"].into_iter().chain((method == "remote").then_some("remote")).map(Value::text).chain(given);
    pushed_to(&words.collect::<Vec<_>>()).cloned()
}

/// True for an address, and for a text whose beginning is not known; the name of a remote is neither.
fn is_address(target: &Value) -> bool {
    match target.as_whole_text() {
        Some(text) => {
            text.contains("://") || text.split_once(':').is_some_and(|(host, _)| host.contains(['.', '@']))
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_operands_of_push_and_remote() {
        let of = |line: &str| {
            let words: Vec<Value> = line
                .split(' ')
                .map(|word| if word == "?" { Value::default() } else { Value::text(word) })
                .collect();
            pushed_to(&words).map(Value::text_or_hole)
        };
        for (line, want) in [
            ("git push https://a.example/x.git HEAD:main", Some("https://a.example/x.git")),
            ("git -C /srv/x push --force -o ci.skip git@a.example:x.git", Some("git@a.example:x.git")),
            ("git push ?", Some("\u{fffc}")),
            ("git remote add copy https://a.example/x.git", Some("https://a.example/x.git")),
            ("/usr/bin/git remote set-url origin ?", Some("\u{fffc}")),
            ("git push origin main", None),
            ("git push", None),
            ("git remote -v", None),
            ("git pull https://a.example/x.git", None),
            ("hg push https://a.example/x", None),
        ] {
            assert_eq!(of(line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn addresses_are_arguments_of_libraries() {
        let text = Value::text;
        let url = || text("https://a.example/x.git");
        for (name, args, is) in [
            ("git.Repo().create_remote", vec![text("copy"), url()], true),
            ("git.Repo().git.push", vec![url(), text("HEAD")], true),
            ("git.Repo().git.remote", vec![text("add"), text("copy"), url()], true),
            ("git.Repo().remotes.origin.set_url", vec![url()], true),
            ("pygit2.Repository().remotes.create", vec![text("copy"), url()], true),
            ("dulwich.porcelain.push", vec![text("."), url()], true),
            ("simple-git.simpleGit().addRemote", vec![text("copy"), url()], true),
            ("simple-git().raw", vec![Value::list(vec![text("push"), url()])], true),
            ("git.Repo().git.push", vec![text("origin")], false),
            ("simple-git.simpleGit().push", vec![text("origin"), text("main")], false),
            ("list.push", vec![url()], false),
        ] {
            assert_eq!(pushed_by(name, &args, &[]).is_some(), is, "{name}");
        }
    }
}
