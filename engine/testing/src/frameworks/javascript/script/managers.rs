//! Scripts that a script runs by a package manager (`npm run x`) or by `npm-run-all`. Pure.

use super::{Reader, Step, Told, Variables, one};
use crate::frameworks::javascript::shell::{self, Joiner, Word};

impl Reader<'_> {
    /// `npm run x`, `yarn x` and the like.
    pub(super) fn manager(
        &mut self,
        name: &str,
        words: &[Word],
        mut variables: Variables,
        told: &mut Told,
    ) -> Option<Step> {
        let silent = ["-s", "--silent", "-q", "--quiet", "--if-present"];
        let words = skip(words, &silent);
        let (verb, rest) = words.split_first()?;
        if verb.open() {
            return None;
        }
        let (script, rest) = match verb.text.as_str() {
            "run" | "run-script" | "rum" | "urn" => {
                let rest = skip(rest, &silent);
                let (script, rest) = rest.split_first()?;
                (script.text.clone(), rest)
            }
            "test" | "t" | "tst" if name != "bun" => ("test".to_owned(), rest),
            "start" | "stop" | "restart" if name != "bun" => (verb.text.clone(), rest),
            "exec" | "x" => {
                let rest = skip(rest, &["--", "--no", "--yes", "-y", "--silent", "-s"]);
                if rest.first()?.text.starts_with('-') {
                    return None;
                }
                return self.command(rest, Vec::new(), variables, told);
            }
            text if name != "npm" && !text.starts_with('-') => {
                if name == "bun" || !self.scripts.scripts.contains_key(text) {
                    // A program of an installed package.
                    return if name == "bun" {
                        None
                    } else {
                        self.command(words, Vec::new(), variables, told)
                    };
                }
                (text.to_owned(), rest)
            }
            _ => return None,
        };
        let optional = words.iter().chain(rest).any(|word| word.text == "--if-present");
        if optional && !self.scripts.scripts.contains_key(&script) {
            return Some(Step::All(Vec::new()));
        }
        let rest = skip(rest, &silent);
        // npm takes the options before `--` itself.
        let more = match rest.split_first() {
            Some((word, more)) if word.text == "--" => more,
            _ if name == "npm" && rest.iter().any(|word| word.text.starts_with('-')) => return None,
            _ => rest,
        };
        self.script(&script, more, &mut variables)
    }

    /// `run-s a 'b:*'` and similar commands. Parallel commands are run one after the other.
    pub(super) fn run_all(&mut self, words: &[Word], variables: &mut Variables) -> Option<Step> {
        let alone = [
            "-s",
            "--serial",
            "--sequential",
            "-p",
            "--parallel",
            "--silent",
            "-l",
            "--print-label",
            "-n",
            "--print-name",
            "--aggregate-output",
        ];
        let mut all = Vec::new();
        for word in words {
            if alone.contains(&word.text.as_str()) {
                continue;
            }
            if word.replaced || word.text.starts_with('-') {
                return None;
            }
            let (script, more) = word.text.split_once(' ').unwrap_or((&word.text, ""));
            let mut parsed = shell::parse(more);
            let more = match parsed.len() {
                0 => Vec::new(),
                1 => parsed.remove(0).1.first.map(|simple| simple.words)?,
                _ => return None,
            };
            let more =
                if more.first().is_some_and(|word| word.text == "--") { &more[1..] } else { &more[..] };
            let names: Vec<String> = match script.contains('*') {
                true => self.scripts.scripts.keys().filter(|name| matches(script, name)).cloned().collect(),
                false => vec![script.to_owned()],
            };
            if names.is_empty() {
                return None;
            }
            for name in names {
                all.push((Joiner::And, self.script(&name, more, &mut variables.clone())?));
            }
        }
        (!all.is_empty()).then(|| one(all))
    }
}

/// Skips these options at the front of the words.
pub(super) fn skip<'a>(mut words: &'a [Word], known: &[&str]) -> &'a [Word] {
    while let Some((first, rest)) = words.split_first() {
        if !known.contains(&first.text.as_str()) {
            break;
        }
        words = rest;
    }
    words
}

/// Matches a pattern of `npm-run-all` with a script's name: `*` matches anything but `:`, `**` anything.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut patterns, mut names) = (pattern.split(':'), name.split(':'));
    loop {
        match (patterns.next(), names.next()) {
            (None, None) => return true,
            (Some("**"), Some(_)) => return true,
            (Some(part), Some(own)) => {
                let fits = match part.split_once('*') {
                    Some((head, tail)) => {
                        own.len() >= head.len() + tail.len() && own.starts_with(head) && own.ends_with(tail)
                    }
                    None => part == own,
                };
                if !fits {
                    return false;
                }
            }
            _ => return false,
        }
    }
}
