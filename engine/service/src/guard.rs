//! The gate: what is about to run is read before it runs.
//!
//! The guard is triage: the sandbox is what holds. It refuses what is dangerous on the face of it, and what could not
//! be read, and leaves the report in the outcome.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_guard::{Artifact, Held, Limits, PYTHON_CACHE, Report, Severity, Verdict, Walk, merge};
use hotcell_sandbox::Confinement;
use hotcell_sandbox::layer::nearest;
use hotcell_sandbox::outcome::{Cause, Outcome};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::quarantine::Keep;
use crate::reader::Rules;
use crate::reading::Reading;
use crate::report::{Code, ErrorReport};
use crate::view;

/// Places that a model is told.
const MOST_PLACES: usize = 20;

/// What the guard does before a run, from strict to lax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Refuses what is quarantined or could not be read; warns of what asks for a look.
    #[default]
    Enforce,
    /// Scans and reports; refuses nothing.
    Report,
    /// Scans nothing.
    Off,
}

impl Mode {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Report => "report",
            Self::Off => "off",
        }
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Enforce, Self::Report, Self::Off];
        all.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let near = nearest(text, all.map(Self::name)).unwrap_or("enforce");
            format!("did you mean {near}? there are enforce, report and off")
        })
    }
}

/// How to guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// What it does.
    pub mode: Mode,
    /// A folder with rules of the user's own.
    pub rules: Option<PathBuf>,
    /// The digest that these have to have.
    pub digest: Option<RulesDigest>,
    /// Where what is refused is held. Without it, it is only refused.
    pub keep: Option<Keep>,
    /// What is kept between readings.
    pub reading: Reading,
}

/// What is about to run.
#[derive(Debug)]
pub enum Target {
    /// A file or a folder.
    Path(PathBuf),
    /// A folder with layers over it, the topmost first.
    View(PathBuf, Vec<PathBuf>),
    /// A file that will be run as a language.
    Source(Artifact),
}

/// What the gate says of a run that may begin.
#[derive(Clone, Debug)]
pub struct Passed {
    /// What was found.
    pub report: Report,
    /// One line for a person, where a look is asked for.
    pub warning: Option<String>,
}

impl Passed {
    /// Whether byte code stands beside sources: the interpreter has to be told not to use it, since it was not read.
    #[must_use]
    pub fn has_python_cache(&self) -> bool {
        self.report.coverage.parts.iter().any(|part| part.language == PYTHON_CACHE)
    }
}

impl Guard {
    /// Reads what is about to run.
    ///
    /// # Errors
    /// An outcome in which nothing ran: quarantined, or refused because the rules cannot be loaded.
    pub fn check(
        &self,
        targets: &[Target],
        confinement: Confinement,
    ) -> Result<Option<Passed>, Box<Outcome>> {
        if self.mode == Mode::Off || targets.is_empty() {
            return Ok(None);
        }
        let refused = |why: String| Box::new(Outcome::without_a_run(Cause::Refused, why));
        let rules = rules(self.rules.as_deref(), self.digest.as_ref())
            .map_err(|report| refused(report.to_string()))?;
        let mut scan = self.reading.begin(rules, &[confinement]);
        let limits = Limits::default();
        let mut reports = Vec::new();
        for target in targets {
            reports.push(match target {
                Target::Source(artifact) => scan.read(artifact),
                Target::View(base, layers) => view::read(&limits, base, layers, &mut |file| scan.read(file))
                    .map_err(|e| refused(format!("the workspace cannot be read: {e}")))?,
                // Ignore files are the project's own words.
                Target::Path(path) => {
                    let walk = Walk { gitignore: false, packages: false };
                    hotcell_guard::scan_path(&limits, path, walk, &mut |file| scan.read(file), &mut |_| ())
                        .map_err(|e| refused(format!("{} cannot be scanned: {e}", path.display())))?
                }
            });
        }
        let ended = scan.end();
        let report = match (reports.len(), reports.pop()) {
            (1, Some(only)) => only,
            (_, last) => merge("run", reports.into_iter().chain(last)),
        };
        if let Err(why) = ended {
            // With the report of what was not read: nothing is wrong with the program or with what it needs.
            let mut outcome = refused(format!("what is to run cannot be read before it runs: {why}"));
            outcome.scan = serde_json::to_value(&report).ok();
            return Err(outcome);
        }
        self.decide(report, targets).map(Some)
    }
}

/// What a folder of rules is pinned by: sha256 over the names and texts of its rule files in the order of their names, each
/// preceded by its length in bytes (64 bits, the lowest byte first); in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesDigest(String);

impl RulesDigest {
    /// Of these rules. Where their folder lies does not count.
    #[must_use]
    pub fn of(rules: &Rules) -> Self {
        let mut hash = Sha256::new();
        for field in rules.iter().flat_map(|(name, text)| [name.rsplit('/').next().unwrap_or(name), text]) {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Self(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for RulesDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RulesDigest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(format!(
            "{text:?} is not a digest, which is 64 hexadecimal digits; hotcell scan -v --rules DIR says it"
        ))
    }
}

impl<'de> Deserialize<'de> for RulesDigest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The rules of a folder, for a reader; none where none is named, which stands for those that come with hotcell.
///
/// # Errors
/// A folder that cannot be read, or without rules; rules that are not those of the digest, or a digest without a folder.
pub fn rules(folder: Option<&Path>, pinned: Option<&RulesDigest>) -> Result<Rules, ErrorReport> {
    let files = folder.map_or_else(|| Ok(Rules::new()), rules_in)?;
    let Some(pinned) = pinned else { return Ok(files) };
    let changed = |why: String| ErrorReport::new(Code::InvalidValue, why).field("rules_digest");
    let Some(folder) = folder else {
        return Err(changed(format!("the rules are pinned to {pinned}, and no folder of rules is named"))
            .hint("set rules to their folder, or take rules_digest out of the configuration and HOTCELL_RULES_DIGEST"));
    };
    let found = RulesDigest::of(&files);
    if found == *pinned {
        return Ok(files);
    }
    Err(changed(format!(
        "the rules in {} are not the pinned ones: their digest is {found}, and rules_digest is {pinned}",
        folder.display()
    ))
    .hint("look at what changed in them; if it is meant, set rules_digest (or HOTCELL_RULES_DIGEST) to the first"))
}

fn rules_in(folder: &Path) -> Result<Rules, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--rules");
    let unreadable =
        |e: std::io::Error| bad(format!("the rules in {} cannot be read: {e}", folder.display()));
    let mut files = Rules::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|e| e == "yml" || e == "yaml") {
            files.push((path.display().to_string(), std::fs::read_to_string(&path).map_err(unreadable)?));
        }
    }
    if files.is_empty() {
        return Err(bad(format!("there are no rules (*.yml) in {}", folder.display())));
    }
    files.sort();
    Ok(files)
}

/// A report in a line: what is worst, where, and how much more there is.
#[must_use]
pub fn sentence(report: &Report) -> String {
    use hotcell_guard::PartState;
    let counted = report.findings.iter().filter(|f| f.severity > Severity::Note).count();
    let unread: Vec<_> = report
        .coverage
        .parts
        .iter()
        .filter_map(|part| match &part.state {
            PartState::Skipped(why) => Some((part, why.clone())),
            PartState::BytesOnly => Some((part, format!("{} is not read", part.language))),
            _ => None,
        })
        .collect();
    if report.verdict == Verdict::Incomplete
        && let Some((part, why)) = unread.first()
    {
        let more = if unread.len() > 1 { format!(", and {} more", unread.len() - 1) } else { String::new() };
        return format!("could not be read completely: {}: {why}{more}", part.path);
    }
    match report.findings.first().filter(|f| f.severity > Severity::Note) {
        Some(first) => {
            let more = if counted > 1 { format!(", and {} more", counted - 1) } else { String::new() };
            let line = if first.line > 0 { format!(":{}", first.line) } else { String::new() };
            format!("{}{line}: {} ({}){more}", first.part, first.message.trim_end_matches('.'), first.rule)
        }
        None => "nothing to say".to_owned(),
    }
}

/// What a model is told: rules and places. Messages and excerpts are for people, and a person decides.
pub fn for_a_model(outcome: &mut Outcome) {
    let Some(report) = outcome.scan.take().and_then(|scan| serde_json::from_value::<Report>(scan).ok())
    else {
        return;
    };
    let places = || report.findings.iter().filter(|f| f.severity > Severity::Note);
    if outcome.cause == Cause::Quarantined {
        let place = places().next().map_or_else(
            || "something could not be read".to_owned(),
            |f| format!("rule {} at {}:{}", f.rule, f.part, f.line),
        );
        let next = report.quarantine.as_ref().map_or_else(
            || "A person can look at it with hotcell scan and decide".to_owned(),
            |held| {
                let Held { id, state } = held;
                format!("It is held as {id} ({state}): a person decides, and quarantine_request asks for it")
            },
        );
        outcome.reason = Some(format!(
            "quarantined: {place}; nothing was run. {next}; change the code if it does not need this"
        ));
    }
    let findings = places_of(&report);
    outcome.scan = Some(serde_json::json!({
        "verdict": report.verdict, "findings": findings, "quarantine": report.quarantine,
    }));
}

/// The findings above a note as a model may know them: rule and place.
#[must_use]
pub fn places_of(report: &Report) -> Vec<serde_json::Value> {
    let serious = report.findings.iter().filter(|f| f.severity > Severity::Note).take(MOST_PLACES);
    let place = |f: &hotcell_guard::Finding| serde_json::json!({ "rule": f.rule, "severity": f.severity, "part": f.part, "line": f.line });
    serious.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_decide_what_is_refused() {
        let source = |text: &str| Target::Source(Artifact::new("x.py", text));
        let hostile = "import shutil\nshutil.rmtree('/home')\n";
        let cause = |mode, text: &str| {
            let guard = Guard { mode, ..Guard::default() };
            guard
                .check(&[source(text)], Confinement::Namespaces)
                .map(|passed| passed.map(|p| p.report.verdict))
                .map_err(|o| o.cause)
        };
        assert_eq!(cause(Mode::Enforce, hostile), Err(Cause::Quarantined));
        assert_eq!(cause(Mode::Report, hostile), Ok(Some(Verdict::Quarantine)));
        assert_eq!(cause(Mode::Off, hostile), Ok(None));
        assert_eq!(cause(Mode::Enforce, "print(1)\n"), Ok(Some(Verdict::Allow)));
        assert_eq!(cause(Mode::Enforce, &"(".repeat(1000)), Err(Cause::Quarantined));
    }

    #[test]
    fn a_model_is_told_rule_and_place() {
        let hostile = Target::Source(Artifact::new("x.py", "import shutil\nshutil.rmtree('/home')\n"));
        let guard = Guard::default();
        let mut outcome = *guard.check(&[hostile], Confinement::Namespaces).unwrap_err();
        let message = outcome.scan.as_ref().unwrap()["findings"][0]["message"].as_str().unwrap().to_owned();
        for_a_model(&mut outcome);
        let told = serde_json::to_string(&outcome).unwrap();
        assert!(told.contains("x.py:2") && !told.contains(message.trim_end_matches('.')), "{told}");
        assert_eq!(outcome.scan.unwrap()["findings"][0]["line"], 2);
    }

    #[test]
    fn rules_that_changed_since_they_were_pinned_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("b.yml", "b");
        write("a.yaml", "a");
        write("README.md", "not a rule");
        let path = Some(folder.path());
        let pinned = RulesDigest::of(&rules(path, None).unwrap());
        assert_eq!(rules(path, Some(&pinned)).unwrap().len(), 2);
        assert_eq!(
            pinned.to_string().to_uppercase().parse(),
            Ok(pinned.clone()),
            "upper case is the same digest"
        );
        let elsewhere = |folder: &str, first: &str| {
            let file = |name: &str, text: &str| (format!("{folder}/{name}"), text.to_owned());
            RulesDigest::of(&vec![file("a.yaml", first), file("b.yml", "b")])
        };
        assert_eq!(elsewhere("/x", "a"), pinned, "the folder does not count");
        assert_ne!(elsewhere("/x", "ab"), pinned);
        write("README.md", "changed");
        assert!(rules(path, Some(&pinned)).is_ok());
        for (name, text) in [("b.yml", "c"), ("c.yml", "b")] {
            write(name, text);
            let why = rules(path, Some(&pinned)).unwrap_err().to_string();
            let found = RulesDigest::of(&rules(path, None).unwrap()).to_string();
            assert!(
                why.contains(&found) && why.contains(&pinned.to_string()) && why.contains("rules_digest"),
                "{why}"
            );
        }
        assert!(rules(None, Some(&pinned)).unwrap_err().to_string().contains("no folder of rules is named"));
        let guard = Guard { rules: Some(folder.path().into()), digest: Some(pinned), ..Guard::default() };
        let outcome =
            guard.check(&[Target::Source(Artifact::new("x.py", "1"))], Confinement::Namespaces).unwrap_err();
        assert_eq!(outcome.cause, Cause::Refused);
        assert!(outcome.reason.unwrap_or_default().contains("not the pinned ones"));
    }

    #[test]
    fn rules_that_are_not_there_are_refused() {
        let guard = Guard { rules: Some("/nowhere/at/all".into()), ..Guard::default() };
        let outcome =
            guard.check(&[Target::Source(Artifact::new("x.py", "1"))], Confinement::Namespaces).unwrap_err();
        assert_eq!(outcome.cause, Cause::Refused);
        assert!(outcome.reason.unwrap_or_default().contains("/nowhere/at/all"));
    }
}
