//! Follows the script `test` of a `package.json` to the commands that run tests: its variables, its framework
//! with all arguments, and the commands before and after it. Pure.

mod managers;

use std::collections::BTreeMap;

use self::managers::skip;
use super::options;
use super::shell::{self, Joiner, Pipeline, Simple, Word, quoted};

/// Maximum nesting of scripts.
const MAX_SCRIPT_DEPTH: usize = 12;
/// Maximum number of commands in a plan.
const MAX_STEPS: usize = 200;

/// Unsupported programs that run tests.
const FOREIGN: [&str; 14] = [
    "uvu",
    "qunit",
    "lab",
    "borp",
    "playwright",
    "cypress",
    "wdio",
    "nightwatch",
    "testcafe",
    "web-test-runner",
    "wtr",
    "zora",
    "japa",
    "bats",
];

/// A start of a supported framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Name of the framework on hotcell's command line.
    pub framework: &'static str,
    /// Variables set for it, in order; later ones replace earlier ones with the same name.
    pub variables: Vec<(String, String)>,
    /// Arguments for node itself. For node's own runner these are all its options, with `--test`.
    pub node: Vec<Word>,
    /// Arguments of the framework. For node's own runner these are files.
    pub arguments: Vec<Word>,
    /// True when node runs a file of the project's, which is the first argument, and not the framework's program.
    pub own: bool,
}

/// A part of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A sequence of commands.
    All(Vec<(Joiner, Step)>),
    /// Commands for a shell, and the unsupported test runner among them.
    Run(String, Option<&'static str>),
    /// A start of tests, and its form for a shell.
    Start(Box<Start>, String),
}

/// A plan for a script: its starts of tests, and its other commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Commands of the script.
    pub steps: Step,
    /// Deviations from the script, for people.
    pub notes: Vec<String>,
}

impl Plan {
    /// Starts of tests, in order.
    #[must_use]
    pub fn starts(&self) -> Vec<&Start> {
        fn of<'a>(step: &'a Step, out: &mut Vec<&'a Start>) {
            match step {
                Step::All(all) => all.iter().for_each(|(_, step)| of(step, out)),
                Step::Start(start, _) => out.push(start),
                Step::Run(..) => {}
            }
        }
        let mut out = Vec::new();
        of(&self.steps, &mut out);
        out
    }

    /// Unsupported test runners, in order.
    #[must_use]
    pub fn foreign(&self) -> Vec<&'static str> {
        fn of(step: &Step, out: &mut Vec<&'static str>) {
            match step {
                Step::All(all) => all.iter().for_each(|(_, step)| of(step, out)),
                Step::Run(_, Some(name)) => out.push(name),
                Step::Run(..) | Step::Start(..) => {}
            }
        }
        let mut out = Vec::new();
        of(&self.steps, &mut out);
        out
    }
}

/// Input of a plan.
#[derive(Clone, Copy)]
pub struct Scripts<'a> {
    /// Scripts by name.
    pub scripts: &'a BTreeMap<String, String>,
    /// Framework of the tests in a file of the project's, if node runs that file by itself.
    pub tests_of: &'a dyn Fn(&str) -> Option<&'static str>,
}

/// Plan for `npm test`. `None` without a script `test`.
#[must_use]
pub fn plan(scripts: Scripts<'_>) -> Option<Plan> {
    scripts.scripts.get("test")?;
    let mut reader = Reader { scripts, open: Vec::new(), steps: 0, notes: Vec::new() };
    let steps = reader.script("test", &[], &mut Variables::default())?;
    Some(Plan { steps, notes: reader.notes })
}

/// Variables that are set at a command.
#[derive(Clone, Debug, Default)]
struct Variables(Vec<(String, String)>);

impl Variables {
    fn get(&self, name: &str) -> Option<String> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value));
    }

    /// Assignments in front of a shell command.
    fn before(&self, text: &str) -> String {
        let all: Vec<String> =
            self.0.iter().map(|(name, value)| format!("export {name}={}; ", quoted(value))).collect();
        all.concat() + text
    }
}

struct Reader<'a> {
    scripts: Scripts<'a>,
    /// Scripts that are being read.
    open: Vec<String>,
    steps: usize,
    notes: Vec<String>,
}

impl Reader<'_> {
    /// A script with the ones that npm runs around it, and with additional arguments.
    fn script(&mut self, name: &str, more: &[Word], variables: &mut Variables) -> Option<Step> {
        let text = self.scripts.scripts.get(name)?;
        if self.open.len() >= MAX_SCRIPT_DEPTH || self.open.iter().any(|open| open == name) {
            return None;
        }
        self.open.push(name.to_owned());
        let text = more.iter().fold(text.clone(), |text, word| text + " " + &word.raw);
        let mut all = Vec::new();
        let names =
            [format!("pre{name}"), format!("post{name}")].map(|n| (!self.open.contains(&n)).then_some(n));
        let beside = names.map(|n| n.and_then(|n| self.scripts.scripts.get(&n).cloned()));
        if let Some(before) = &beside[0] {
            all.push((Joiner::And, self.line(before, &mut variables.clone())));
        }
        all.push((Joiner::And, self.line(&text, &mut variables.clone())));
        if let Some(after) = &beside[1] {
            all.push((Joiner::And, self.line(after, &mut variables.clone())));
        }
        self.open.pop();
        Some(one(all))
    }

    fn line(&mut self, text: &str, variables: &mut Variables) -> Step {
        let whole = |variables: &Variables| Step::Run(variables.before(text), None);
        let line = shell::parse(text);
        // A command that changes the shell itself cannot run separately.
        let changes = |pipeline: &Pipeline| {
            let first = pipeline.first.as_ref().and_then(|simple| simple.words.first());
            first.is_some_and(|word| {
                [
                    "cd", "pushd", "set", ".", "source", "alias", "unset", "ulimit", "umask", "trap", "exec",
                    "shopt",
                ]
                .contains(&word.text.as_str())
                    || word.replaced
            })
        };
        let exit = |pipeline: &Pipeline| {
            pipeline.first.as_ref().is_some_and(|simple| {
                simple.words.first().is_some_and(|w| matches!(w.text.as_str(), "exit" | "return"))
            })
        };
        // The last one may still end the whole line.
        let ends = line.iter().rev().skip(1).any(|(_, pipeline)| exit(pipeline));
        let first_exec = line.len() == 1
            && line[0].1.first.as_ref().is_some_and(|s| s.words.first().is_some_and(|w| w.text == "exec"));
        if ends || !first_exec && line.iter().any(|(_, pipeline)| changes(pipeline)) {
            return whole(variables);
        }
        let mut all = Vec::new();
        for (joiner, pipeline) in line {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return whole(variables);
            }
            // A variable for the following commands.
            if let Some(simple) = pipeline.first.as_ref().filter(|_| pipeline.into.is_none())
                && let Some(set) = exported(simple, variables)
            {
                let Some(set) = set else { return whole(variables) };
                set.into_iter().for_each(|(name, value)| variables.set(&name, value));
                continue;
            }
            let step = self.pipeline(&pipeline, variables);
            all.push((joiner, step));
        }
        one(all)
    }

    fn pipeline(&mut self, pipeline: &Pipeline, variables: &Variables) -> Step {
        let run = |tests| Step::Run(variables.before(&pipeline.text), tests);
        let Some(simple) = &pipeline.first else { return run(None) };
        let mut own = variables.clone();
        for (name, word) in &simple.variables {
            let Some(value) = shell::value(word, &|name| own.get(name)) else { return run(None) };
            own.set(name, value);
        }
        let noted = self.notes.len();
        let mut told = Told { prints: pipeline.into.as_deref().is_some_and(reads_tap), ..Told::default() };
        let step = self.command(&simple.words, Vec::new(), own, &mut told);
        let lost: Vec<&String> = simple.redirections.iter().filter(|to| !is_lost(to)).collect();
        match step {
            Some(Step::Start(start, _)) => {
                if let Some(into) = &pipeline.into {
                    self.notes.push(format!("not followed of the script: {into}"));
                } else if !lost.is_empty() {
                    let lost: Vec<&str> = lost.into_iter().map(String::as_str).collect();
                    self.notes.push(format!("not followed of the script: {}", lost.join(" ")));
                }
                self.notes.extend(told.wrapper.map(without));
                Step::Start(start, variables.before(&pipeline.text))
            }
            // The output is redirected, which only a shell can do.
            Some(step) if pipeline.into.is_none() && lost.is_empty() => {
                self.notes.extend(told.wrapper.map(without));
                step
            }
            _ => {
                self.notes.truncate(noted);
                run(told.foreign)
            }
        }
    }

    /// Known effect of a command: tests, a script, or nothing that has to run. `node` are arguments for
    /// node that preceded the command.
    fn command(
        &mut self,
        words: &[Word],
        node: Vec<Word>,
        mut variables: Variables,
        told: &mut Told,
    ) -> Option<Step> {
        let first = words.first()?;
        if first.open() {
            return None;
        }
        let rest = &words[1..];
        let start = |framework, node: Vec<Word>, arguments: &[Word]| {
            let start = Start {
                framework,
                variables: variables.0.clone(),
                node,
                arguments: arguments.to_vec(),
                own: false,
            };
            Some(Step::Start(Box::new(start), String::new()))
        };
        let name = program(&first.text);
        match name {
            "env" | "cross-env" => {
                let mut rest = rest;
                while let Some((word, more)) = rest.split_first() {
                    let text = word.text.split_once('=').filter(|(name, _)| shell::is_name(name));
                    let Some((name, _)) = text else { break };
                    // A shell has removed the quotes around the whole word.
                    let value = match word.replaced {
                        true => shell::variable(word)
                            .and_then(|(_, value)| shell::value(&value, &|name| variables.get(name))),
                        false => text.map(|(_, value)| value.to_owned()),
                    };
                    let name = name.to_owned();
                    variables.set(&name, value?);
                    rest = more;
                }
                if rest.first()?.text.starts_with('-') {
                    return None;
                }
                self.command(rest, node, variables, told)
            }
            "exec" | "command" | "time" | "npx" | "bunx" | "pnpx" => {
                let alone = [
                    "--no-install",
                    "--no",
                    "--yes",
                    "-y",
                    "--",
                    "-q",
                    "--quiet",
                    "--offline",
                    "--prefer-offline",
                ];
                let rest = skip(rest, &alone);
                if rest.first()?.text.starts_with('-') {
                    return None;
                }
                let mut rest = rest.to_vec();
                // `npx jest@29`.
                if let Some((bare, _)) = rest[0].text.split_once('@').filter(|(bare, _)| !bare.is_empty()) {
                    rest[0] = Word::literal(bare);
                }
                self.command(&rest, node, variables, told)
            }
            "npm" | "pnpm" | "yarn" | "bun" => self.manager(name, rest, variables, told),
            "run-s" | "npm-run-all" | "npm-run-all2" | "run-p" => self.run_all(rest, &mut variables),
            "c8" | "nyc" => {
                let options = options::of(name)?;
                let wrapped = options.positional(rest)?;
                // A threshold affects the result and cannot be measured here, so the whole command is left to
                // the script itself.
                let own = &rest[..rest.len() - wrapped.len()];
                let checks = |word: &Word| {
                    matches!(word.text.as_str(), "--check-coverage" | "--check-coverage=true" | "--100")
                };
                if own.iter().any(checks) || wrapped.first()?.text == "check-coverage" {
                    told.foreign = Some(if name == "c8" { "c8" } else { "nyc" });
                    return None;
                }
                if matches!(wrapped.first()?.text.as_str(), "report" | "merge" | "instrument") {
                    self.notes.push(format!("not run of the script: {name} {}", wrapped.first()?.text));
                    return Some(Step::All(Vec::new()));
                }
                told.wrapper = Some(if name == "c8" { "c8" } else { "nyc" });
                self.command(wrapped, node, variables, told)
            }
            "node" | "nodejs" | "tsx" => {
                let options = options::of("node")?;
                let file = options.positional(rest).unwrap_or_default();
                let own = &rest[..rest.len() - file.len()];
                if own.iter().any(Word::open) {
                    return None;
                }
                let mut flags = node;
                if name == "tsx" {
                    flags.extend(["--import", "tsx"].map(Word::literal));
                }
                flags.extend_from_slice(own);
                if own.iter().any(|word| {
                    matches!(
                        word.text.as_str(),
                        "-e" | "--eval" | "-p" | "--print" | "-c" | "--check" | "--run"
                    )
                }) {
                    return None;
                }
                if own.iter().any(|word| word.text == "--test") {
                    return start("node", flags, file);
                }
                let script = file.first().filter(|word| !word.open())?;
                if script.text.contains("node_modules/") {
                    return self.command(file, flags, variables, told);
                }
                let path = script.text.trim_start_matches("./").trim_end_matches('/').to_owned();
                match (self.scripts.tests_of)(&path).or(told.prints.then_some("tap")) {
                    Some("node") if file.len() > 1 => None,
                    Some("node") => {
                        flags.push(Word::literal("--test"));
                        start("node", flags, file)
                    }
                    Some(framework) => match start(framework, flags, file) {
                        Some(Step::Start(mut start, text)) => {
                            start.own = true;
                            Some(Step::Start(start, text))
                        }
                        _ => None,
                    },
                    None => None,
                }
            }
            "tape" => start("tape", node, rest),
            "tap" => start("tap", node, rest),
            "ava" => start("ava", node, rest),
            "mocha" | "_mocha" => start("mocha", node, rest),
            "jest" | "jest-cli" => start("jest", node, rest),
            "jasmine" => start("jasmine", node, rest),
            "karma" if rest.first().is_some_and(|word| word.text == "start") => start("karma", node, rest),
            "ng" if rest.first().is_some_and(|word| matches!(word.text.as_str(), "test" | "t")) => {
                start("karma", node, rest)
            }
            "vitest" => {
                let options = options::of("vitest")?;
                let sub = options.positional(rest).and_then(|words| words.first());
                match sub.map(|word| word.text.as_str()) {
                    Some("bench" | "list" | "related" | "init") => None,
                    _ => start("vitest", node, rest),
                }
            }
            _ => {
                told.foreign = FOREIGN.into_iter().find(|known| *known == name);
                None
            }
        }
    }
}

/// Further facts about a command, beside what it starts.
#[derive(Debug, Default)]
struct Told {
    /// A program that measures coverage around it.
    wrapper: Option<&'static str>,
    /// An unsupported test runner.
    foreign: Option<&'static str>,
    /// True when what it prints goes to a program that reads TAP.
    prints: bool,
}

/// True for a program that shows TAP in another form: `| tap-spec`.
fn reads_tap(into: &str) -> bool {
    let mut words = into.trim_start_matches(['|', ' ']).split_whitespace().map(program);
    let first = words.find(|word| !["npx", "-y", "--yes", "--no-install"].contains(word)).unwrap_or_default();
    first.starts_with("tap-") || ["faucet", "tnyan", "tspec", "tape-dot"].contains(&first)
}

fn without(wrapper: &str) -> String {
    format!("run without {wrapper}: its coverage and thresholds are not measured")
}

fn one(mut all: Vec<(Joiner, Step)>) -> Step {
    match all.len() {
        1 => all.remove(0).1,
        _ => Step::All(all),
    }
}

/// Name of a program: `mocha` for `./node_modules/.bin/mocha`, `node_modules/mocha/bin/mocha.js` and
/// `node_modules/mocha/bin/_mocha`.
fn program(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = [".js", ".cjs", ".mjs", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    // A file of the project with the same name is another program.
    if path.contains('/') && !path.contains("node_modules/") && !path.starts_with("/usr/") {
        path
    } else {
        name
    }
}

/// True when an output is discarded.
fn is_lost(to: &str) -> bool {
    let to = to.replace(' ', "");
    to.ends_with("/dev/null") || to.ends_with("&1") || to.ends_with("&2")
}

/// Variables that a command sets for the following ones; `None` inside for a value that only a shell knows.
#[allow(clippy::option_option)]
fn exported(simple: &Simple, variables: &Variables) -> Option<Option<Vec<(String, String)>>> {
    let mut set = variables.clone();
    let all: Vec<(String, Word)> = match simple.words.split_first() {
        Some((word, rest)) if word.text == "export" && simple.variables.is_empty() => {
            match rest.iter().map(shell::variable).collect() {
                Some(all) => all,
                None => return Some(None),
            }
        }
        // A shell variable, which is passed on only if it was in the environment before.
        None if !simple.variables.is_empty() => return Some(None),
        _ => return None,
    };
    for (name, word) in &all {
        match shell::value(word, &|name| set.get(name)) {
            Some(value) => set.set(name, value),
            None => return Some(None),
        }
    }
    Some(Some(set.0))
}

impl Start {
    /// Arguments without those that only affect the display of results or the number of workers; when tests
    /// are selected by name or by file, also without the project's own selection of that kind.
    #[must_use]
    pub fn kept(&self, names: bool, files: bool) -> Vec<Word> {
        let known = options::of(self.framework);
        known.map_or_else(|| self.arguments.clone(), |known| known.keep(&self.arguments, names, files))
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
