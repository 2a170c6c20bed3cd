//! tox's settings: `tox.ini`, `setup.cfg`, `tox.toml`, `[tool.tox]` of `pyproject.toml`. Pure.

use std::collections::BTreeMap;

use toml::Value;

use super::{Place, SITE, TOP, Words, text};
use crate::frameworks::javascript::shell::{self, Word};
use crate::project::Project;

/// Placeholder for an environment's own temporary folder; the drivers create it (`start.py`).
const TEMPORARY: &str = "/tmp/hotcell-tox";

/// Maximum nesting of values.
const MAX_VALUE_DEPTH: usize = 8;

/// Sections of an ini file, each with its keys.
type Ini = BTreeMap<String, BTreeMap<String, String>>;

/// Reads the settings; `None` when the project has no settings of tox.
#[must_use]
pub fn read(project: &dyn Project) -> Option<Words> {
    if let Some(text) = text(project, "tox.ini") {
        return of_ini(&ini(&text), "tox.ini");
    }
    if let Some(text) = text(project, "setup.cfg").filter(|text| text.contains("[tox:tox]")) {
        return of_ini(&ini(&text), "setup.cfg");
    }
    if let Some(table) = text(project, "pyproject.toml").and_then(|text| text.parse::<toml::Table>().ok()) {
        let tox = table.get("tool").and_then(|tool| tool.get("tox"));
        if let Some(old) = tox.and_then(|tox| tox.get("legacy_tox_ini")).and_then(Value::as_str) {
            return of_ini(&ini(old), "pyproject.toml");
        }
        if let Some(tox) = tox {
            return of_toml(tox, "pyproject.toml");
        }
    }
    let table = text(project, "tox.toml")?.parse::<toml::Table>().ok()?;
    of_toml(&Value::Table(table), "tox.toml")
}

/// A folder below the project, reached with `cd` from another; `None` when it is elsewhere.
#[must_use]
pub fn folder(from: &str, to: &str) -> Option<String> {
    let (from, to) = match to.strip_prefix(TOP) {
        Some(rest) => ("", rest.trim_start_matches('/')),
        None => (from, to),
    };
    if to.starts_with('/') || to.contains(['{', '$', '~']) {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn ini(text: &str) -> Ini {
    let mut ini = Ini::new();
    let (mut section, mut key) = (String::new(), String::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.starts_with(['#', ';']) {
            continue;
        }
        let further = line.starts_with([' ', '\t']) && !key.is_empty();
        if bare.is_empty() {
            continue;
        }
        if further {
            if let Some(value) = ini.get_mut(&section).and_then(|keys| keys.get_mut(&key)) {
                value.push('\n');
                value.push_str(bare);
            }
        } else if let Some(name) = bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            name.0.trim().clone_into(&mut section);
            ini.entry(section.clone()).or_default();
            key.clear();
        } else if let Some((name, value)) = bare.split_once(['=', ':']) {
            name.trim().to_lowercase().replace('-', "_").clone_into(&mut key);
            ini.entry(section.clone()).or_default().insert(key.clone(), value.trim().to_owned());
        }
    }
    ini
}

/// Environments of a list: `py{38,39}, lint`, without those in braces.
fn listed(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' | '\n' | ' ' | '\t' if depth == 0 => out.push(String::new()),
            _ => {}
        }
        if let Some(last) = out.last_mut().filter(|_| !c.is_whitespace() && (depth > 0 || c != ',')) {
            last.push(c);
        }
    }
    out.retain(|name| !name.is_empty());
    out
}

/// True for an environment that checks something other than tests.
fn plain(name: &str) -> bool {
    let other = [
        "lint",
        "style",
        "docs",
        "doc",
        "mypy",
        "typing",
        "type",
        "pre-commit",
        "build",
        "release",
        "format",
        "flake8",
        "coverage-report",
        "report",
        "bench",
        "dev",
    ];
    !other.iter().any(|other| name.starts_with(other))
}

fn of_ini(ini: &Ini, file: &str) -> Option<Words> {
    let head = if ini.contains_key("tox:tox") { "tox:tox" } else { "tox" };
    let list = ini.get(head).and_then(|keys| keys.get("env_list").or_else(|| keys.get("envlist")));
    let list = list.map(|text| listed(text)).unwrap_or_default();
    let mut names = vec!["testenv".to_owned()];
    let own = |name: &String| {
        let section = format!("testenv:{name}");
        ini.contains_key(&section).then_some(section)
    };
    names.extend(list.iter().filter_map(own));
    let of_section = |section: &String| Some((section.clone(), Section { ini, section }.words()?));
    let all: Vec<(String, Words)> = names.iter().filter_map(of_section).collect();
    let mut rest: Vec<String> =
        ini.keys().filter(|name| name.starts_with("testenv:") && !names.contains(name)).cloned().collect();
    rest.retain(|name| plain(&name["testenv:".len()..]));
    choose(all, || rest.iter().filter_map(of_section).collect(), file)
}

/// Of several environments: the first one that runs tests; the others that tox starts by default are listed
/// as not followed.
fn choose(
    all: Vec<(String, Words)>,
    further: impl FnOnce() -> Vec<(String, Words)>,
    file: &str,
) -> Option<Words> {
    let tests = |all: &[(String, Words)]| {
        let at = |is: &dyn Fn(&Words) -> bool| all.iter().position(|(_, words)| is(words));
        at(&|words| !words.starts.is_empty())
            .or_else(|| at(&Words::tests))
            .or_else(|| at(&Words::names_tests))
    };
    let (mut all, at) = match tests(&all) {
        Some(at) => (all, at),
        None => {
            let further = further();
            let at = tests(&further)?;
            (further.into_iter().skip(at).take(1).collect(), 0)
        }
    };
    let (name, mut words) = all.remove(at);
    words.source = format!("{file} [{name}]");
    for (name, other) in all {
        let bare = name.trim_start_matches("testenv:").trim_start_matches("env.");
        let new =
            other.starts.iter().find(|start| words.starts.iter().all(|known| known.words != start.words));
        if let Some(start) = new.filter(|_| plain(bare)) {
            words.left.push(format!("{} ([{name}])", super::text_of(&start.words)));
        }
        words.tools.extend(other.tools);
    }
    Some(words)
}

struct Section<'a> {
    ini: &'a Ini,
    section: &'a str,
}

impl Section<'_> {
    fn get(&self, names: &[&str]) -> Option<&str> {
        let of = |section: &str| {
            let keys = self.ini.get(section)?;
            names.iter().find_map(|name| keys.get(*name)).map(String::as_str)
        };
        of(self.section).or_else(|| of("testenv"))
    }

    fn words(&self) -> Option<Words> {
        let commands = self.get(&["commands"])?;
        let mut words = Words::default();
        let mut place = Place::default();
        let put = |text: &str| put(text, &|key| self.named(key), 0);
        if let Some(to) = self.get(&["change_dir", "changedir"]) {
            match folder("", &put(to)) {
                Some(folder) => place.folder = folder,
                None => words.left.push(format!("changedir = {to}")),
            }
        }
        let joined = commands.replace("\\\n", " ");
        let factors = self.factors(&joined);
        for line in put(self.get(&["set_env", "setenv"]).unwrap_or_default()).lines() {
            let (rest, conditional) = unfactored(line);
            // One for other environments is not for this one.
            let head = &line[..line.len() - rest.len()];
            if conditional && !applies(head.trim().trim_end_matches(':'), &factors) {
                continue;
            }
            if let Some((name, value)) = rest.split_once('=') {
                set(&mut place, name.trim(), value.trim());
            }
        }
        let mut conditional = Vec::new();
        for line in joined.lines().flat_map(|line| put(line).lines().map(str::to_owned).collect::<Vec<_>>()) {
            let (line, factor) = unfactored(&line);
            let line = line.trim_start_matches(['-', '!', '@', ' ']);
            if line.is_empty() {
                continue;
            }
            let Some(list) = split(line) else {
                words.left.push(crate::text::clip(line, 200));
                continue;
            };
            if factor { conditional.push(list) } else { words.take(&list, &place) }
        }
        // Which of these runs depends on the environment: one that tests represents the others.
        let mut others = conditional.into_iter();
        if words.starts.is_empty()
            && let Some(list) = others.find(|list| {
                let mut one = Words::default();
                one.take(list, &place);
                !one.starts.is_empty()
            })
        {
            words.take(&list, &place);
        }
        for list in others {
            let mut one = Words::default();
            one.take(&list, &place);
            if one.tests() && words.starts.iter().all(|start| start.words != list) {
                words.left.push(super::text_of(&list));
            }
        }
        Some(words)
    }

    /// Factors of the environment that stands for all: the first one of tox's list that has a command of tests, else the
    /// first one that is not for something else.
    fn factors(&self, commands: &str) -> Vec<String> {
        let own = self.section.strip_prefix("testenv:").map(|name| vec![name.to_owned()]);
        let listed = || {
            let keys = self.ini.get("tox:tox").or_else(|| self.ini.get("tox"));
            let list = keys.and_then(|keys| keys.get("env_list").or_else(|| keys.get("envlist")));
            listed(list.map_or("", String::as_str)).iter().flat_map(|name| each(name)).collect()
        };
        let names: Vec<String> = own.unwrap_or_else(listed).into_iter().filter(|name| plain(name)).collect();
        let of = |name: &String| name.split('-').map(str::to_owned).collect::<Vec<_>>();
        let heads: Vec<&str> = commands
            .lines()
            .filter(|line| unfactored(line).1 && ["test", "unit"].iter().any(|word| line.contains(word)))
            .filter_map(|line| line.split_once(':').map(|(head, _)| head.trim()))
            .collect();
        let runs = |name: &&String| heads.iter().any(|head| applies(head, &of(name)));
        names.iter().find(runs).or(names.first()).map(of).unwrap_or_default()
    }

    /// Value of `[section]key`.
    fn named(&self, name: &str) -> Option<String> {
        let (section, key) = name.strip_prefix('[')?.split_once(']')?;
        let section = if section.is_empty() { self.section } else { section };
        self.ini.get(section)?.get(&key.to_lowercase()).cloned()
    }
}

/// Maximum number of environments that a name with braces stands for.
const MAX_ENVIRONMENTS: usize = 500;

/// Names that one with braces stands for: `py{38,39}-{a,b}`.
fn each(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut rest = name;
    while let Some((before, (inner, after))) =
        rest.split_once('{').and_then(|(before, inner)| Some((before, inner.split_once('}')?)))
    {
        let one = |all: &String| {
            inner.split(',').map(|part| format!("{all}{before}{}", part.trim())).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(one).take(MAX_ENVIRONMENTS).collect();
        rest = after;
    }
    all.iter().map(|start| format!("{start}{rest}")).collect()
}

/// Tells if a condition holds for an environment: `py39-a,!b`, each part with all of its factors.
fn applies(head: &str, factors: &[String]) -> bool {
    let is = |factor: &str| match factor.strip_prefix('!') {
        Some(other) => !factors.iter().any(|known| known == other),
        None => factor == "linux" || factors.iter().any(|known| known == factor),
    };
    listed(head).iter().flat_map(|part| each(part)).any(|part| part.split('-').all(is))
}

/// A line without leading factors, and true if there were some: `py39,!win: pytest`.
fn unfactored(line: &str) -> (&str, bool) {
    let Some((head, rest)) = line.split_once(": ").or_else(|| line.split_once(":\t")) else {
        return (line.trim(), false);
    };
    let is = |c: char| c.is_ascii_alphanumeric() || "{},!._- ".contains(c);
    let plain =
        !head.is_empty() && head.chars().all(is) && !head.contains(" -") && !head.trim().contains(' ');
    // `!win: pytest` applies here, and so do lines for Linux.
    let holds = head.split(',').any(|factor| {
        let factor = factor.trim();
        factor == "linux"
            || ["!win", "!win32", "!windows", "!mac", "!macos", "!darwin", "!pypy"].contains(&factor)
    });
    if plain { (rest.trim(), !holds) } else { (line.trim(), false) }
}

/// A value with tox's substitutions for braces; unknown ones are kept.
fn put(text: &str, named: &dyn Fn(&str) -> Option<String>, depth: usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        let mut open = 1_usize;
        let end = inner.char_indices().find_map(|(at, c)| {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            (open == 0).then_some(at)
        });
        let Some(end) = end.filter(|_| depth < MAX_VALUE_DEPTH) else {
            out.push_str(&rest[at..]);
            return out;
        };
        let name = &inner[..end];
        rest = &inner[end + 1..];
        let (head, default) = name.split_once(':').unwrap_or((name, ""));
        let within = |text: &str| put(text, named, depth + 1);
        match head {
            "posargs" => out.push_str(&within(default)),
            "toxinidir" | "tox_root" | "toxini_dir" => out.push_str(TOP),
            "envsitepackagesdir" | "env_site_packages_dir" => out.push_str(SITE),
            "envname" | "env_name" => out.push_str("py"),
            "envpython" | "env_python" => out.push_str("python"),
            "envbindir" | "env_bin_dir" => out.push_str("bin"),
            // A folder of its own: `pytest --basetemp` empties it.
            "envtmpdir" | "env_tmp_dir" | "envlogdir" | "env_log_dir" => out.push_str(TEMPORARY),
            "toxworkdir" | "work_dir" | "temp_dir" | "envdir" | "env_dir" => out.push_str("/tmp"),
            "/" => out.push('/'),
            "" if name == ":" => out.push(':'),
            "env" => {
                let default = default.split_once(':').map_or("", |(_, default)| default);
                out.push_str(&within(default));
            }
            _ => match named(name) {
                Some(value) => out.push_str(&within(&value)),
                None => out.push_str(&format!("{{{name}}}")),
            },
        }
    }
    out.push_str(rest);
    out
}

/// True for a value with an unknown substitution.
fn is_unknown(value: &str) -> bool {
    value.replace(TOP, "").replace(SITE, "").contains('{')
}

fn set(place: &mut Place, name: &str, value: &str) {
    // With an unknown substitution the variable would have a wrong value.
    let known = !is_unknown(value) && !name.is_empty();
    if known && !name.starts_with(['#', '{']) {
        place.variables.push((name.to_owned(), value.to_owned()));
    }
}

/// Words of a line, which is not run by a shell; `None` when a value is unknown.
fn split(line: &str) -> Option<Vec<Word>> {
    if is_unknown(line) {
        return None;
    }
    let mut parsed = shell::parse(line);
    let simple = match (parsed.len(), parsed.pop()) {
        (1, Some((_, pipeline))) if pipeline.into.is_none() => pipeline.first?,
        _ => return None,
    };
    if !simple.redirections.is_empty() || !simple.variables.is_empty() {
        return None;
    }
    let literal = |word: Word| Word::literal(if word.replaced { &word.raw } else { &word.text });
    Some(simple.words.into_iter().map(literal).collect())
}

fn of_toml(tox: &Value, file: &str) -> Option<Words> {
    let base = tox.get("env_run_base");
    let of = |name: String, env: Option<&Value>| {
        let get =
            |key: &str| env.and_then(|env| env.get(key)).or_else(|| base.and_then(|base| base.get(key)));
        let commands = get("commands")?.as_array()?;
        let mut words = Words::default();
        let mut place = Place::default();
        if let Some(to) = get("change_dir").and_then(Value::as_str) {
            match folder("", &put(to, &|_| None, 0)) {
                Some(folder) => place.folder = folder,
                None => words.left.push(format!("change_dir = {to}")),
            }
        }
        for (name, value) in get("set_env").and_then(Value::as_table).into_iter().flatten() {
            if let Some(value) = value.as_str() {
                set(&mut place, name, &put(value, &|_| None, 0));
            }
        }
        for command in commands {
            match array(command) {
                Some(list) => words.take(&list, &place),
                None => words.left.push(crate::text::clip(&command.to_string(), 200)),
            }
        }
        Some((name, words))
    };
    let envs = tox.get("env").and_then(Value::as_table);
    let env = |name: &str| Some((envs?.get(name)?, format!("env.{name}")));
    let list = tox.get("env_list").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let list: Vec<_> = list.filter_map(env).collect();
    let all = of("env_run_base".to_owned(), None)
        .into_iter()
        .chain(list.into_iter().filter_map(|(env, name)| of(name, Some(env))));
    let further = || {
        let named = envs.into_iter().flatten().filter(|(name, _)| plain(name));
        named.filter_map(|(name, env)| of(format!("env.{name}"), Some(env))).collect()
    };
    choose(all.collect(), further, file)
}

/// Words of a command in TOML.
fn array(command: &Value) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    for item in command.as_array()? {
        match item {
            Value::String(text) => {
                let text = put(text, &|_| None, 0);
                if is_unknown(&text) {
                    return None;
                }
                words.push(Word::literal(&text));
            }
            Value::Table(table) if table.get("replace").and_then(Value::as_str) == Some("posargs") => {
                let default = table.get("default").and_then(Value::as_array).into_iter().flatten();
                words.extend(
                    default.filter_map(Value::as_str).map(|text| Word::literal(&put(text, &|_| None, 0))),
                );
            }
            Value::Table(table) if table.get("replace").and_then(Value::as_str) == Some("env") => {
                words.push(Word::literal(table.get("default")?.as_str()?));
            }
            _ => return None,
        }
    }
    while words.first().is_some_and(|word| ["-", "!"].contains(&word.text.as_str())) {
        words.remove(0);
    }
    Some(words)
}
