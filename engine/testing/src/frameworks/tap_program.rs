//! JavaScript's runners that print the Test Anything Protocol: tape, node-tap, ava, and programs of the project's
//! that print it. A driver of hotcell starts the program, hands on all that it prints, and says how it
//! ended; the tests run in another process, which has neither the pipe nor the report.

mod events;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use events::TapEvents;
use hotcell_sandbox::policy::HOME;
use serde::Deserialize;
use serde_json::json;

use crate::case::{
    Entry, FinalReport, MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_TEXT_BYTES,
    ReportError, Status,
};
use crate::event::EventReader;
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::javascript::script::Start;
use crate::frameworks::javascript::shell::Word;
use crate::frameworks::javascript::{self, Package, follow, options};
use crate::frameworks::lines::Lines;
use crate::frameworks::programs;
use crate::frameworks::tap::diagnostics;
use crate::frameworks::tap::tree::{Found, Style, Tree};
use crate::live::LiveLog;
use crate::project::{Project, first_with};
use crate::text::{Budget, clip};

const DRIVER: Reporter = Reporter {
    name: "hotcell_tap.cjs",
    text: concat!(
        include_str!("javascript/events.cjs"),
        include_str!("javascript/cases.cjs"),
        include_str!("javascript/steps.cjs"),
        include_str!("javascript/tap_driver.cjs")
    ),
};
/// Tells of which file a test of tape is.
const HOOK: Reporter = Reporter { name: "hotcell_tape.cjs", text: include_str!("javascript/tape_hook.cjs") };
/// Maximum length of a printed line, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Maximum number of files that are given to tape.
const MAX_FILES: usize = 2_000;

/// One of these runners.
#[derive(Debug)]
pub struct Printer {
    name: &'static str,
    /// Files in which it looks for its settings.
    settings: &'static [&'static str],
    /// Import statements of its tests.
    imported: &'static [&'static str],
    /// True when it selects tests by name.
    names: bool,
    style: Style,
}

/// tape.
pub const TAPE: Printer = Printer {
    name: "tape",
    settings: &[],
    imported: &["'tape'", "\"tape\""],
    names: false,
    style: Style { nested: false, headings: true, bare: false },
};

/// node-tap, and any other program that prints TAP.
pub const TAP: Printer = Printer {
    name: "tap",
    settings: &[".taprc"],
    imported: &["'tap'", "\"tap\""],
    names: true,
    style: Style { nested: true, headings: false, bare: false },
};

/// ava.
pub const AVA: Printer = Printer {
    name: "ava",
    settings: &["ava.config.js", "ava.config.cjs", "ava.config.mjs"],
    imported: &["'ava'", "\"ava\""],
    names: true,
    style: Style { nested: false, headings: false, bare: true },
};

impl Printer {
    /// Evidence for it, beside the script `test`.
    fn found(&self, package: &Package, project: &dyn Project) -> Option<Evidence> {
        let evidence = |strength, reason: String| Some(Evidence { strength, reason });
        if let Some(file) = self.settings.iter().find(|file| project.has(file)) {
            return evidence(Strength::Configured, format!("there is {file}"));
        }
        if let Some(file) = package.depending_on(self.name, project) {
            return evidence(Strength::Used, format!("{file} depends on {}", self.name));
        }
        let file = first_with(project, javascript::is_script, self.imported)?;
        evidence(Strength::Used, format!("{file} imports {}", self.name))
    }

    fn is_tape(&self) -> bool {
        self.name == TAPE.name
    }

    fn report_name(&self) -> String {
        format!("{}.txt", self.name)
    }

    /// Source files that import it.
    fn files(&self, project: &dyn Project, below: &str) -> Vec<String> {
        let below = below.trim_start_matches("./").trim_end_matches('/');
        let inside = |file: &str| {
            below.is_empty() || file.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'))
        };
        let tests = javascript::test_files(project, |_| false);
        let imports = |file: &String| {
            project.read(file).is_some_and(|text| {
                let text = String::from_utf8_lossy(&text);
                self.imported.iter().any(|name| text.contains(name))
            })
        };
        tests.into_iter().filter(|file| inside(file)).filter(imports).take(MAX_FILES).collect()
    }

    /// Arguments of the program: as in the project, or for what is selected.
    fn words(
        &self,
        start: Option<&Start>,
        selection: &Selection,
        project: &dyn Project,
    ) -> Result<Vec<Word>, CommandError> {
        let (by_name, by_path) = follow::asked(selection, project);
        let own = start.is_some_and(|start| start.own);
        let selects = self.names && !own;
        if by_name && !by_path && !selects {
            return Err(CommandError::Unsupported {
                framework: self.name,
                option: "‹filter› by name",
                hint: "name a file of the project: it has no option for names",
            });
        }
        let mut words = match start {
            Some(start) if own && !by_path => return Ok(start.arguments.clone()),
            Some(start) if !own => start.kept(by_name, by_path),
            _ => Vec::new(),
        };
        let path = selection.filter.as_deref().unwrap_or_default();
        let path = path.split("::").next().unwrap_or_default().trim_start_matches("./");
        let literal = |file: &str| Word::literal(&format!("./{file}"));
        let is_folder = by_path && project.read(path).is_none();
        if is_folder && own {
            return Err(CommandError::Unsupported {
                framework: self.name,
                option: "‹filter› with a folder",
                hint: "name a file: the script test starts a program of the project's",
            });
        }
        // tape knows patterns and files only, and without settings has no files of its own.
        if self.is_tape() && (is_folder || start.is_none() && !by_path) {
            let files = self.files(project, if is_folder { path } else { "" });
            // Without files it would succeed without tests.
            let none = files.is_empty().then(|| path.to_owned()).filter(|path| !path.is_empty());
            words.extend(files.iter().chain(&none).map(|file| literal(file)));
        } else if by_path {
            words.push(literal(path.trim_end_matches('/')));
        }
        Ok(words)
    }

    /// Name of the program in ids: a file if there is only one, which is all that runs.
    fn program(&self, start: Option<&Start>, words: &[Word], project: &dyn Project) -> String {
        let known = options::of(self.name);
        let own = start.is_some_and(|start| start.own);
        let rest = if own { Some(words) } else { known.and_then(|known| known.positional(words)) };
        let file = match rest.unwrap_or_default() {
            [word] | [word, ..] if (own || rest.is_some_and(|rest| rest.len() == 1)) && !word.open() => {
                Some(word.text.trim_start_matches("./").trim_end_matches('/').to_owned())
            }
            _ => None,
        };
        // node-tap names each file itself.
        let named = self.name == TAP.name && !own;
        match file.filter(|_| !named) {
            Some(file) if project.read(&file).is_some() => file,
            Some(file) if own && project.has(&file) => {
                let index = ["index.js", "index.mjs", "index.cjs"].map(|name| format!("{file}/{name}"));
                index.into_iter().find(|index| project.has(index)).unwrap_or(file)
            }
            _ => self.name.to_owned(),
        }
    }
}

impl Framework for Printer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::JavaScript
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let package = Package::read(project);
        package.weighed(self.name, self.found(&package, project))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        if selection.jobs.is_some() {
            return Err(CommandError::Unsupported {
                framework: self.name,
                option: "‹jobs›",
                hint: "leave it out: the project's settings decide",
            });
        }
        let package = Package::read(project);
        let follow::Followup { start, steps } = follow::follow(&package, self.name, selection);
        let own = start.is_some_and(|start| start.own);
        let words = self.words(start, selection, project)?;
        let program = self.program(start, &words, project);
        let mut node: Vec<String> = start.into_iter().flat_map(|s| &s.node).map(|w| w.text.clone()).collect();
        let mut reporters = vec![DRIVER];
        if self.is_tape() {
            node.extend([format!("--require={REPORTERS}/{}", HOOK.name)]);
            reporters.push(HOOK);
        }
        let style = Style { headings: self.style.headings || own, ..self.style };
        let plan = json!({
            "steps": steps, "words": follow::words(&words), "name": self.name, "own": own, "node": node,
            "program": program, "nested": style.nested, "headings": style.headings, "bare": style.bare && !own,
            // The others stop by themselves.
            "stops": self.is_tape() || own,
        });
        let argv = [
            "node".to_owned(),
            format!("{REPORTERS}/{}", DRIVER.name),
            format!("{HOME}/{REPORTS}/{}", self.report_name()),
            selection.filter.clone().unwrap_or_default(),
            if selection.fail_fast { "stop" } else { "" }.to_owned(),
            plan.to_string(),
        ];
        let all = selection.filter.is_none() && (!own || self.is_tape());
        Ok(Command {
            argv: argv.map(OsString::from).into(),
            env: start
                .into_iter()
                .flat_map(|start| &start.variables)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            reporters,
            reports: vec![Path::new(REPORTS).join(self.report_name())],
            live: LiveSource::Descriptor,
            files: if all { self.files(project, "") } else { Vec::new() },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        follow::followed(&Package::read(project), self.name, selection)
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<TapEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let mut entries = parse(files.first().ok_or(ReportError::Missing)?, live)?;
        programs::add_never_started(&mut entries, live);
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("the driver of the tests has no such exit code"),
        }
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split("::").take(1).collect()
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        let how = format!(
            "run `npm ci` in its folder, or `npm install --save-dev {what}` where it is not in package.json"
        );
        (what == self.name).then(|| format!("{what} is not installed in the project: {how}"))
    }
}

/// A started program, by the driver's word.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Program {
    /// Name in ids; empty when nothing was started.
    program: String,
    nested: bool,
    headings: bool,
    bare: bool,
    /// The project's folder in the sandbox.
    top: String,
    /// Files by the names that titles begin with.
    names: HashMap<String, String>,
}

/// How a program ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct End {
    code: i32,
    /// Last lines of its standard error.
    said: String,
    /// True when it was ended at the first failure.
    stopped: bool,
}

/// First line of the report.
#[derive(Debug, Deserialize)]
struct Head {
    #[serde(flatten)]
    program: Program,
    #[serde(flatten)]
    end: End,
    /// Number of bytes that follow.
    size: usize,
    #[serde(default)]
    cut: bool,
}

/// A line of the driver that other drivers do not have.
#[derive(Debug, Deserialize)]
#[serde(tag = "e", rename_all = "lowercase")]
enum Told {
    Program(Program),
    Tap { text: String },
    Exit(End),
}

impl Program {
    fn tree(&self) -> Tree {
        Tree::new(Style { nested: self.nested, headings: self.headings, bare: self.bare })
    }

    /// File and id of a result.
    fn id(&self, file: Option<&str>, titles: &[String]) -> (Option<String>, String) {
        let mut titles = titles.to_vec();
        let mut program = file.unwrap_or(&self.program).to_owned();
        // ava: the end of the file's name, and the title.
        if let Some(title) = titles.first_mut().filter(|_| !self.names.is_empty()) {
            let mut ends: Vec<usize> = title.match_indices(TITLE_SEPARATOR).map(|(at, _)| at).collect();
            ends.reverse();
            if let Some((at, file)) = ends.iter().find_map(|at| Some((*at, self.names.get(&title[..*at])?))) {
                program.clone_from(file);
                *title = title[at + TITLE_SEPARATOR.len()..].to_owned();
            }
        }
        // node-tap: the outermost subtest is a file.
        let all = match titles.first() {
            Some(first) if program == TAP.name && javascript::is_script(first) => titles,
            _ => [vec![program], titles].concat(),
        };
        let file = all.first().filter(|first| javascript::is_script(first)).cloned();
        (file, clip(&all.join("::"), MAX_NAME_BYTES))
    }

    fn message(&self, found: &Found) -> Option<String> {
        let bad = !found.status.is_good();
        let read = diagnostics::message(&found.details).filter(|_| bad);
        match (&found.reason, read) {
            (Some(reason), Some(read)) if found.status == Status::Errored => {
                Some(format!("{reason}\n{read}"))
            }
            (Some(reason), _) => Some(reason.clone()),
            (None, read) => read,
        }
    }

    /// Fault of a program as a whole; `None` when its tests have told of it, or it ran no tests.
    fn wrong(&self, ended: &crate::frameworks::tap::tree::Ended, end: &End) -> Option<String> {
        if end.stopped && ended.bad || ended.silent && end.code == 0 {
            return None;
        }
        let code = match end.code {
            0 => None,
            129..=192 => Some(format!("signal {} ended it", end.code - 128)),
            code => Some(format!("it ended with exit code {code}")),
        };
        let wrong = ended.wrong.clone().filter(|_| !ended.silent);
        let why = match (wrong, code) {
            (Some(wrong), Some(code)) => format!("{wrong}; {code}"),
            (Some(wrong), None) => wrong,
            (None, Some(code)) if !ended.bad => code,
            _ => return None,
        };
        let said = end.said.trim();
        let tail: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(12).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        Some(if tail.is_empty() { why } else { format!("{why}: {}", tail.join("\n")) })
    }

    /// Id of a program that is wrong as a whole. A coverage below its threshold is not the failure of a test.
    fn own_id(&self, ended: &crate::frameworks::tap::tree::Ended, end: &End) -> String {
        let threshold =
            ended.wrong.is_none() && !ended.bad && end.said.contains("oes not meet global threshold");
        if threshold { "coverage threshold".to_owned() } else { clip(&self.program, MAX_NAME_BYTES) }
    }
}

/// Separates the file and the title of ava's tests.
const TITLE_SEPARATOR: &str = " › ";

/// Parses a report: a line of JSON, and what the program printed.
///
/// # Errors
/// [`ReportError::Broken`] when it is not complete.
pub fn parse(bytes: &[u8], live: &LiveLog) -> Result<Vec<Entry>, ReportError> {
    let broken = |why: &str| Err(ReportError::Broken(why.to_owned()));
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return broken("it has no first line") };
    let Ok(head) = serde_json::from_slice::<Head>(&bytes[..end]) else {
        return broken("its first line is not what it should be");
    };
    let text = &bytes[end + 1..];
    if text.len() != head.size || head.cut {
        return broken("it has not the size that is said, or more than is read");
    }
    let Head { program, end, .. } = head;
    if program.program.is_empty() {
        return if text.is_empty() { Ok(Vec::new()) } else { broken("it is of no program") };
    }
    let (mut tree, mut found) = (program.tree(), Vec::new());
    let mut lines = Lines::new(MAX_LINE_BYTES);
    lines.push(text, |line, _| tree.line(line, &mut found));
    lines.end(|line, _| tree.line(line, &mut found));
    let ended = tree.end(&mut found);
    let mut room = Budget::new(MAX_TEXT_BYTES);
    let mut entries = Vec::new();
    for found in &found {
        let (file, id) = program.id(found.file.as_deref(), &found.titles);
        if entries.len() >= MAX_CASES || !room.take(2 * id.len()) {
            return broken("it has more than is read");
        }
        // Of several tests with one name the times were added up.
        let seen = live.position(&id).map(|at| &live.seen()[at]);
        let each = seen.map_or(0.0, |seen| {
            seen.duration_ms / f64::from(u32::try_from(seen.ends.len().max(1)).unwrap_or(u32::MAX))
        });
        entries.push(Entry {
            file,
            message: program.message(found).and_then(|m| room.keep(&m, MAX_MESSAGE_BYTES)),
            details: room.keep(&found.details, MAX_DETAIL_BYTES),
            ..Entry::bare(&id, found.status, found.ms.unwrap_or(each))
        });
    }
    if let Some(wrong) = program.wrong(&ended, &end) {
        let id = program.own_id(&ended, &end);
        entries.push(Entry {
            message: room.keep(&wrong, MAX_MESSAGE_BYTES),
            details: room.keep(end.said.trim_end(), MAX_DETAIL_BYTES),
            ..Entry::bare(&id, Status::Errored, 0.0)
        });
    }
    Ok(entries)
}

#[cfg(test)]
#[path = "tap_program_tests.rs"]
mod tests;
