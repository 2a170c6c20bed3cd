//! The target `test` of a `Makefile`: its recipe with the file's variables expanded. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Place, Words, text};
use crate::frameworks::javascript::shell::{self, Word};
use crate::project::Project;

/// Targets that run tests, the likeliest first.
const TARGETS: [&str; 5] = ["test", "tests", "check", "unittest", "unit"];
/// Maximum number of lines named that only make can follow.
const MAX_UNCLEAR: usize = 4;
/// Maximum number of targets that are followed.
const MAX_TARGETS: usize = 100;
/// Maximum nesting of variables.
const MAX_NESTING_DEPTH: usize = 8;

/// Rules by the names of their targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Makefile {
    variables: BTreeMap<String, String>,
    /// Prerequisites and recipe.
    rules: BTreeMap<String, (Vec<String>, Vec<String>)>,
    /// Variables of single targets: name, operator, value, and if it is exported.
    of_targets: BTreeMap<String, Vec<(String, &'static str, String, bool)>>,
    /// Variables that the commands get, by name.
    exported: BTreeSet<String>,
    /// True when the commands get all variables.
    exports_all: bool,
    /// True when a recipe is one script for one shell.
    one_shell: bool,
    /// Targets that need no rule: those of `.PHONY`, and files of the project.
    there: BTreeSet<String>,
    /// Lines that only make can follow.
    unclear: Vec<String>,
}

/// Reads the target; `None` when there is no such target.
#[must_use]
pub fn read(project: &dyn Project) -> Option<Words> {
    let (file, text) = ["GNUmakefile", "Makefile", "makefile"]
        .iter()
        .find_map(|file| Some((*file, text(project, file)?)))?;
    let mut makefile = parse(&text);
    let target = TARGETS.iter().find(|target| makefile.rules.contains_key(**target))?;
    let needed = makefile.rules.values().flat_map(|(before, _)| before).filter(|name| project.has(name));
    let needed: Vec<String> = needed.cloned().collect();
    makefile.there.extend(needed);
    let mut words = Words { source: format!("{file}, target {target}"), ..Words::default() };
    makefile.follow(target, &Place::default(), &mut words, &mut Vec::new());
    let unclear = makefile.unclear.iter().take(MAX_UNCLEAR).map(|line| crate::text::clip(line, 200));
    words.left.extend(unclear);
    Some(words)
}

/// A branch of a conditional.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// True when its lines count.
    active: bool,
    /// True when this or an earlier branch counts.
    taken: bool,
}

fn parse(text: &str) -> Makefile {
    let mut makefile = Makefile::default();
    let mut open: Vec<String> = Vec::new();
    let mut branches: Vec<Branch> = Vec::new();
    let joined = text.replace("\\\r\n", "\\\n");
    let mut lines = joined.lines().peekable();
    while let Some(line) = lines.next() {
        let mut line = line.trim_end().to_owned();
        while line.ends_with('\\') && lines.peek().is_some() {
            line.pop();
            line = format!("{} {}", line.trim_end(), lines.next().unwrap_or_default().trim());
        }
        if !line.starts_with('\t') && makefile.branch(line.trim(), &mut branches) {
            continue;
        }
        if branches.iter().any(|branch| !branch.active) {
            continue;
        }
        if let Some(recipe) = line.strip_prefix('\t') {
            for target in &open {
                if let Some((_, lines)) = makefile.rules.get_mut(target) {
                    lines.push(recipe.trim().to_owned());
                }
            }
            continue;
        }
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with("define ") {
            // Its value has several lines.
            makefile.unclear.push(line.to_owned());
            lines.by_ref().find(|line| line.trim() == "endef");
            continue;
        }
        if line.starts_with("include ") {
            makefile.unclear.push(line.to_owned());
            continue;
        }
        if makefile.assigned(line) {
            continue;
        }
        open.clear();
        if let Some((targets, rest)) =
            line.split_once(':').filter(|(targets, _)| !targets.contains(['$', '=']))
        {
            let rest = rest.trim_start_matches(':').trim();
            let targets: Vec<String> = targets.split_whitespace().map(str::to_owned).collect();
            if makefile.of_targets(&targets, rest) {
                continue;
            }
            let (before, recipe) = rest.split_once(';').unwrap_or((rest, ""));
            let before: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
            match targets.first().map(String::as_str) {
                Some(".PHONY") => makefile.there.extend(before.iter().cloned()),
                Some(".ONESHELL") => makefile.one_shell = true,
                Some(".EXPORT_ALL_VARIABLES") => makefile.exports_all = true,
                _ => {}
            }
            for target in targets {
                let rule = makefile.rules.entry(target.clone()).or_default();
                rule.0.extend(before.clone());
                rule.1.extend((!recipe.trim().is_empty()).then(|| recipe.trim().to_owned()));
                open.push(target);
            }
        }
    }
    makefile
}

/// Name, operator and value of an assignment.
fn assignment(line: &str) -> Option<(&str, &'static str, &str)> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let sign = [":::=", "::=", ":=", "?=", "+=", "="].into_iter().find(|sign| rest.starts_with(sign))?;
    (!name.is_empty()).then(|| (name, sign, rest[sign.len()..].trim()))
}

/// A line without the words in front of an assignment, and if one of them exports it.
fn bare(mut line: &str) -> (&str, bool) {
    let mut exported = false;
    while let Some((word, rest)) = line.split_once(char::is_whitespace) {
        match word {
            "export" => exported = true,
            "override" | "private" => {}
            _ => break,
        }
        line = rest.trim_start();
    }
    (line, exported)
}

/// Both sides of `(a,b)`, `"a" "b"` or `'a' 'b'`.
fn sides(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        let mut depth = 0_usize;
        let comma = inner.char_indices().find(|(_, c)| {
            match c {
                '(' | '{' => depth += 1,
                ')' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            *c == ',' && depth == 0
        });
        let (at, _) = comma?;
        return Some((inner[..at].trim(), inner[at + 1..].trim()));
    }
    let quoted = |text: &str| {
        let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        text[1..].find(quote).map(|end| end + 1)
    };
    let end = quoted(text)?;
    let rest = text[end + 1..].trim_start();
    let last = quoted(rest).filter(|last| last + 1 == rest.len())?;
    Some((&text[1..end], &rest[1..last]))
}

impl Makefile {
    /// Adds a rule with a recipe of lines for a shell.
    pub(crate) fn rule(&mut self, target: &str, recipe: Vec<String>) {
        self.rules.insert(target.to_owned(), (Vec::new(), recipe));
    }

    /// Sorts in what a target runs.
    pub(crate) fn target(&self, target: &str, words: &mut Words) {
        self.follow(target, &Place::default(), words, &mut Vec::new());
    }

    /// Takes a line of a conditional. The variables are those of the file: a sandbox has hardly any of its own. Of a
    /// condition that only make can evaluate the first branch is taken, and it is named.
    fn branch(&mut self, line: &str, branches: &mut Vec<Branch>) -> bool {
        let (word, rest) = line
            .split_once([' ', '\t', '('])
            .map_or((line, ""), |(word, _)| (word, line[word.len()..].trim()));
        let inside = branches.iter().all(|branch| branch.active);
        match word {
            "ifdef" | "ifndef" | "ifeq" | "ifneq" => {
                let holds = inside && self.holds(word, rest);
                branches.push(Branch { active: holds, taken: holds });
            }
            "else" => {
                let Some(last) = branches.pop() else { return true };
                let around = branches.iter().all(|branch| branch.active);
                let (word, rest) = rest
                    .split_once([' ', '\t', '('])
                    .map_or((rest, ""), |(word, _)| (word, rest[word.len()..].trim()));
                let open = around && !last.taken;
                let holds = open && (word.is_empty() || word.starts_with('#') || self.holds(word, rest));
                branches.push(Branch { active: holds, taken: last.taken || holds });
            }
            "endif" => {
                branches.pop();
            }
            _ => return false,
        }
        true
    }

    fn holds(&mut self, word: &str, rest: &str) -> bool {
        let rest = rest.split(" #").next().unwrap_or_default().trim();
        let known = match word {
            "ifdef" | "ifndef" => {
                let there =
                    self.expand(rest, 0).map(|name| self.variables.get(&name).is_some_and(|v| !v.is_empty()));
                there.map(|there| there == (word == "ifdef"))
            }
            _ => sides(rest)
                .and_then(|(one, other)| Some((self.expand(one, 0)?, self.expand(other, 0)?)))
                .map(|(one, other)| (one == other) == (word == "ifeq")),
        };
        known.unwrap_or_else(|| {
            self.unclear.push(format!("{word} {rest}"));
            true
        })
    }

    /// Takes an assignment, or a line that exports variables.
    fn assigned(&mut self, line: &str) -> bool {
        match line.split_whitespace().next() {
            Some("export") if line == "export" => {
                self.exports_all = true;
                return true;
            }
            Some("unexport") => {
                let names: Vec<&str> = line.split_whitespace().skip(1).collect();
                self.exported.retain(|name| !names.contains(&name.as_str()));
                self.exports_all &= !names.is_empty();
                return true;
            }
            _ => {}
        }
        let (rest, exported) = bare(line);
        let Some((name, sign, value)) = assignment(rest) else {
            if exported {
                self.exported.extend(rest.split_whitespace().map(str::to_owned));
            }
            return exported;
        };
        self.set(name, sign, value);
        if exported {
            self.exported.insert(name.to_owned());
        }
        true
    }

    fn set(&mut self, name: &str, sign: &str, value: &str) {
        // Expanded now: it may have its own name in it.
        let expanded = || self.expand(value, 0).map(|value| value.replace('$', "$$"));
        let value = match sign {
            ":=" | "::=" | ":::=" => expanded().unwrap_or_else(|| value.to_owned()),
            _ => value.to_owned(),
        };
        let known = self.variables.entry(name.to_owned()).or_default();
        match sign {
            "+=" if !known.is_empty() => *known = format!("{known} {value}"),
            "?=" if !known.is_empty() => {}
            _ => *known = value,
        }
    }

    /// Takes what follows the targets when it is an assignment: `test: export MODE = ci`.
    fn of_targets(&mut self, targets: &[String], rest: &str) -> bool {
        let (rest, exported) = bare(rest);
        let Some((name, sign, value)) = assignment(rest) else { return false };
        for target in targets {
            let own = self.of_targets.entry(target.clone()).or_default();
            own.push((name.to_owned(), sign, value.to_owned(), exported));
        }
        true
    }

    /// Environment of the commands: the variables that make exports. Those that only make can expand are named.
    fn environment(&self, base: &Place, words: &mut Words) -> Place {
        let mut place = base.clone();
        let usual = |name: &&String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let all = self.variables.keys().filter(usual).filter(|_| self.exports_all);
        let names: BTreeSet<&String> = all.chain(&self.exported).collect();
        for name in names {
            // make does not export this variable.
            let Some(value) = self.variables.get(name).filter(|_| name != "SHELL") else { continue };
            match self.expand(value, 0) {
                Some(value) => place.variables.push((name.clone(), value)),
                None => {
                    let text = crate::text::clip(&format!("export {name} = {value}"), 200);
                    if !words.left.contains(&text) {
                        words.left.push(text);
                    }
                }
            }
        }
        place
    }

    fn follow(&self, target: &str, base: &Place, words: &mut Words, open: &mut Vec<String>) {
        if open.len() >= MAX_TARGETS || open.iter().any(|known| known == target) {
            return;
        }
        let Some((before, recipe)) = self.rules.get(target) else {
            if !self.there.contains(target) {
                words.left.push(crate::text::clip(&format!("make {target}"), 200));
            }
            return;
        };
        // They also apply to what the target needs.
        let own = self.of_targets.get(target).map(|own| {
            let mut scoped = self.clone();
            for (name, sign, value, exported) in own {
                scoped.set(name, sign, value);
                scoped.exported.extend(exported.then(|| name.clone()));
            }
            scoped
        });
        let this = own.as_ref().unwrap_or(self);
        open.push(target.to_owned());
        for target in before.iter().filter(|target| *target != "|" && !target.contains('%')) {
            match this.expand(target, 0) {
                Some(targets) => {
                    targets.split_whitespace().for_each(|target| this.follow(target, base, words, open));
                }
                None => words.left.push(crate::text::clip(&format!("make {target}"), 200)),
            }
        }
        let mut place = this.environment(base, words);
        for line in recipe {
            let line = line.trim_start_matches(['@', '-', '+', ' ']);
            match this.expand(line, 0) {
                Some(line) => {
                    let after = this.line(&line, &place, words, open);
                    if this.one_shell {
                        place = after;
                    }
                }
                None => words.left.push(crate::text::clip(line, 200)),
            }
        }
    }

    /// Follows the targets that `make` is started with; false when it reads another file, or gets variables.
    fn make(&self, arguments: &[Word], place: &Place, words: &mut Words, open: &mut Vec<String>) -> bool {
        const ALONE: [&str; 11] = [
            "-s",
            "--silent",
            "--quiet",
            "-k",
            "--keep-going",
            "-B",
            "--always-make",
            "-j",
            "--jobs",
            "--no-print-directory",
            "-e",
        ];
        let mut targets: Vec<&str> = Vec::new();
        let mut number = false;
        for word in arguments {
            let text = word.text.as_str();
            let joined = text.starts_with("-j") || text.starts_with("--jobs=") || text.starts_with("-O");
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            match () {
                () if word.open() => return false,
                () if number && digits => {}
                () if ALONE.contains(&text) || joined => {}
                () if text.starts_with('-') || text.contains('=') => return false,
                () => targets.push(text),
            }
            number = matches!(text, "-j" | "--jobs");
        }
        if targets.is_empty() || !place.folder.is_empty() {
            return false;
        }
        targets.into_iter().for_each(|target| self.follow(target, place, words, open));
        true
    }

    /// A recipe line with the file's variables expanded; `None` when make itself would run a command.
    fn expand(&self, line: &str, depth: usize) -> Option<String> {
        let mut out = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let close = match rest.chars().next()? {
                '$' => {
                    out.push('$');
                    rest = &rest[1..];
                    continue;
                }
                '(' => ')',
                '{' => '}',
                _ => return None,
            };
            let (name, after) = rest[1..].split_once(close)?;
            rest = after;
            // Tests run on Linux.
            if matches!(name.trim(), "shell uname" | "shell uname -s") {
                out.push_str("Linux");
                continue;
            }
            if name == "MAKE" {
                out.push_str("make");
                continue;
            }
            if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
                || depth >= MAX_NESTING_DEPTH
            {
                return None;
            }
            match (self.variables.get(name), name) {
                (Some(value), _) => out.push_str(&self.expand(value, depth + 1)?),
                (None, "PYTHON") => out.push_str("python3"),
                (None, "CURDIR") => out.push_str(super::TOP),
                (None, _) => {}
            }
        }
        out.push_str(rest);
        (out.len() < 1 << 16).then_some(out)
    }

    /// Sorts in a line of a recipe; returns where it leaves the shell.
    fn line(&self, line: &str, base: &Place, words: &mut Words, open: &mut Vec<String>) -> Place {
        let mut place = base.clone();
        for (_, pipeline) in shell::parse(line) {
            let Some(simple) = pipeline.first.as_ref() else {
                words.left.push(crate::text::clip(&pipeline.text, 200));
                continue;
            };
            let known = |place: &Place, word: &Word| {
                shell::value(word, &|name| {
                    place
                        .variables
                        .iter()
                        .rev()
                        .find(|(known, _)| known == name)
                        .map(|(_, value)| value.clone())
                })
            };
            let mut own = place.clone();
            let mut unknown = false;
            for (name, value) in &simple.variables {
                match known(&own, value) {
                    Some(value) => own.variables.push((name.clone(), value)),
                    None => unknown = true,
                }
            }
            let program = simple.words.first().map(|word| word.text.as_str()).unwrap_or_default();
            match program {
                "" => place = own,
                "cd" => {
                    let to = simple.words.get(1).filter(|word| !word.open()).map(|word| word.text.clone());
                    match to.and_then(|to| super::tox::folder(&place.folder, &to)) {
                        Some(folder) => place.folder = folder,
                        None => {
                            words.left.push(crate::text::clip(line, 200));
                            return place;
                        }
                    }
                }
                "export" => {
                    for word in &simple.words[1..] {
                        let Some((name, value)) = shell::variable(word) else { continue };
                        match known(&place, &value) {
                            Some(value) => place.variables.push((name, value)),
                            None => words.left.push(crate::text::clip(&pipeline.text, 200)),
                        }
                    }
                }
                "make" | "gmake" => {
                    if !self.make(&simple.words[1..], &own, words, open) {
                        words.left.push(crate::text::clip(&pipeline.text, 200));
                    }
                }
                _ if unknown || simple.words.iter().any(|word| word.replaced) => {
                    words.left.push(crate::text::clip(&pipeline.text, 200));
                }
                _ => words.take(&simple.words, &own),
            }
        }
        place
    }
}
