//! The gate: code is scanned before it runs.
//!
//! The guard is triage; the sandbox is the protection. The guard refuses code that is plainly dangerous or
//! could not be read, and leaves its report in the outcome.

use std::path::Path;
use std::time::SystemTime;

use hotcell_config::typed;
use hotcell_config::{GuardSettings, Mode, RulesDigest};
use hotcell_guard::{Held, Limits, PYTHON_CACHE, PartState, Report, Severity, Verdict, Walk, merge, unread};
use hotcell_report::RunReport;
use hotcell_sandbox::Confinement;
use hotcell_sandbox::outcome::Cause;
use hotcell_scanning::reader::Rules;
use hotcell_scanning::session::{Scan, ScanState};
use hotcell_state::report::{Code, ErrorReport};

use crate::target::Target;
use crate::whole_command::{Done, Whole};
use crate::workspace_scan;

/// Maximum number of findings in an answer to a model.
const MAX_FINDINGS: usize = 20;

/// Result of the gate for a run that may begin.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Scan report.
    pub report: Report,
    /// One line for people, when the code needs review.
    pub warning: Option<String>,
    /// One line for people about files hidden from the run.
    pub note: Option<String>,
}

impl Passed {
    /// True when byte code lies beside sources: it was not read, so the interpreter has to be told to ignore
    /// it.
    #[must_use]
    pub fn has_python_cache(&self) -> bool {
        self.report.coverage.parts.iter().any(|part| part.language == PYTHON_CACHE)
    }
}

/// The guard: its settings, and the state that it keeps between scans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Settings.
    pub settings: GuardSettings,
    /// State kept between scans.
    pub reading: ScanState,
}

/// Result of scanning a command.
#[derive(Debug)]
pub struct Scanned {
    /// Report on the whole command.
    pub report: Report,
    /// Targets that a release has to name.
    pub targets: Vec<Target>,
}

impl Guard {
    /// Scans the code to be run; `None` when the guard is off or there is nothing to scan.
    ///
    /// # Errors
    /// The outcome of the refused run, when the rules cannot be loaded or the code cannot be read.
    pub fn scan(
        &self,
        mut whole: Whole<'_>,
        confinement: Confinement,
    ) -> Result<Option<Scanned>, Box<RunReport>> {
        let GuardSettings { mode, rules: folder, digest } = &self.settings;
        whole.own_rules = folder.is_some();
        if *mode == Mode::Off || whole.is_empty() {
            return Ok(None);
        }
        let refused = |why: String| Box::new(RunReport::without_a_run(Cause::Refused, why));
        let rules =
            rules(folder.as_deref(), digest.as_ref()).map_err(|report| refused(report.to_string()))?;
        let mut scan = self.reading.begin(rules, &[confinement]);
        let read = whole.read(&mut |target| read(&mut scan, target).map_err(refused));
        let ended = scan.end();
        let Done { mut reports, targets } = read?;
        let report = match (reports.len(), reports.pop()) {
            (1, Some(only)) => only,
            (_, last) => merge("run", reports.into_iter().chain(last)),
        };
        if let Err(unstarted) = ended {
            // The report says what was not read; it accuses neither the program nor its dependencies.
            let mut outcome = refused(format!("what is to run cannot be read before it runs: {unstarted}"));
            outcome.layers = unstarted.layers;
            outcome.scan = serde_json::to_value(&report).ok();
            return Err(outcome);
        }
        Ok(Some(Scanned { report, targets }))
    }
}

fn read(scan: &mut Scan, target: &Target) -> Result<Report, String> {
    let limits = Limits::default();
    match target {
        Target::Source(artifact) => Ok(scan.read(artifact)),
        Target::Unread(part, why) => Ok(unread(part, PartState::Skipped(why.clone()), Verdict::Incomplete)),
        Target::View(base, layers, executed) => {
            workspace_scan::read(&limits, base, layers, executed, &mut |file| scan.read(file))
                .map_err(|e| format!("the workspace cannot be read: {e}"))
        }
        // Ignore files belong to the project, and are not trusted.
        Target::Path(path, executed) => {
            let walk = Walk { gitignore: false, packages: false, executed: Some(executed) };
            let made = |scan: &mut Scan| {
                hotcell_guard::scan_path(&limits, path, walk, &mut |file| scan.read(file), &mut |_| ())
            };
            scan.folder(path, &walk, SystemTime::now(), made)
                .map_err(|e| format!("{} cannot be scanned: {e}", path.display()))
        }
    }
}

/// Reads the rules and feeds of a folder; without a folder the list is empty, which means the built-in rules.
///
/// # Errors
/// When the folder cannot be read or holds neither rules nor feeds, when the rules do not match the digest, and when there
/// is a digest but no folder.
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
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).parameter("rules");
    let unreadable =
        |e: std::io::Error| bad(format!("the rules in {} cannot be read: {e}", folder.display()));
    let mut files = Rules::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|e| e == "yml" || e == "yaml" || e == "feed") {
            // The folder may be a clone's, and its links are others' words.
            let absolute = std::path::absolute(&path).map_err(unreadable)?;
            typed::real_from(Path::new("/"), &absolute, &[]).map_err(|astray| bad(astray.to_string()))?;
            files.push((path.display().to_string(), std::fs::read_to_string(&path).map_err(unreadable)?));
        }
    }
    if files.is_empty() {
        return Err(bad(format!("there are no rules (*.yml) and no feeds (*.feed) in {}", folder.display())));
    }
    files.sort();
    Ok(files)
}

/// Machine code, by its language in a report: a run with it says so each time.
const MACHINE_CODE: [&str; 4] = ["elf", "pe", "mach-o", "wasm"];

/// True when the only reason for review is files in a known language or format that hotcell does not read and
/// that nothing is known to execute, and none is machine code.
pub fn is_only_there(report: &Report) -> bool {
    report.verdict == Verdict::Review
        && report.findings.iter().all(|finding| finding.severity == Severity::Note)
        && report.coverage.parts.iter().all(|part| {
            part.state.least() == Verdict::Allow
                || matches!(part.state, PartState::SetAside(_))
                    && !part.language.is_empty()
                    && !MACHINE_CODE.contains(&&*part.language)
        })
}

/// One-line summary of a report: the worst finding, its place, and the number of others.
#[must_use]
pub fn sentence(report: &Report) -> String {
    let counted = report.findings.iter().filter(|f| f.severity > Severity::Note).count();
    let mut unread: Vec<_> =
        report.coverage.parts.iter().filter_map(|part| part.why_not_read().map(|why| (part, why))).collect();
    // Parts that make the report incomplete come first.
    unread.sort_by_key(|(part, _)| std::cmp::Reverse(part.state.least()));
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
        None => match unread.first() {
            Some((part, why)) => {
                let more =
                    if unread.len() > 1 { format!(", and {} more", unread.len() - 1) } else { String::new() };
                format!("not everything was read: {}: {why}{more}", part.path)
            }
            None => "nothing to say".to_owned(),
        },
    }
}

/// Reduces the outcome for a model to rules and places. Messages and excerpts are for people, who decide.
pub fn for_a_model(outcome: &mut RunReport) {
    let Some(report) = outcome.scan.take().and_then(|scan| serde_json::from_value::<Report>(scan).ok())
    else {
        return;
    };
    let places = || report.findings.iter().filter(|f| f.severity > Severity::Note);
    if outcome.cause == Cause::Quarantined {
        let gap = || report.coverage.parts.iter().find_map(|part| Some((&part.path, part.why_not_read()?)));
        let place = match (places().next(), gap()) {
            (Some(f), _) => format!("rule {} at {}:{}", f.rule, f.part, f.line),
            (None, Some((path, why))) => format!("{path} could not be read: {why}"),
            (None, None) => "something could not be read".to_owned(),
        };
        let next = report.quarantine.as_ref().map_or_else(
            || "A person can look at it with hotcell scan and decide".to_owned(),
            |held| {
                let Held { id, state } = held;
                format!("It is held as {id} ({state}): a person decides, and quarantine_request (toolset guard) asks for it")
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

/// Findings above a note, reduced for a model to rule and place.
#[must_use]
pub fn places_of(report: &Report) -> Vec<serde_json::Value> {
    let serious = report.findings.iter().filter(|f| f.severity > Severity::Note).take(MAX_FINDINGS);
    let place = |f: &hotcell_guard::Finding| serde_json::json!({ "rule": f.rule, "severity": f.severity, "part": f.part, "line": f.line });
    serious.map(place).collect()
}

#[cfg(test)]
mod tests {
    use hotcell_guard::Artifact;

    use super::*;

    fn of(settings: GuardSettings) -> Guard {
        Guard { settings, ..Guard::default() }
    }

    #[test]
    fn files_that_are_only_there_are_not_machine_code() {
        let aside = || PartState::SetAside("not read".to_owned());
        for (language, state, want) in [
            ("perl", aside(), true),
            ("packages", aside(), true),
            ("", aside(), false),
            ("elf", aside(), false),
            ("pe", aside(), false),
            ("mach-o", aside(), false),
            ("wasm", aside(), false),
            ("python", PartState::Parsed, true),
            ("elf", PartState::BytesOnly, false),
        ] {
            let mut report = hotcell_guard::unread("x", state, Verdict::Review);
            report.coverage.parts[0].language = language.to_owned();
            assert_eq!(is_only_there(&report), want, "{language} {report:?}");
        }
    }

    #[test]
    fn rules_changed_after_pinning_are_refused() {
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
            RulesDigest::of(&[file("a.yaml", first), file("b.yml", "b")])
        };
        assert_eq!(elsewhere("/x", "a"), pinned, "the folder does not count");
        assert_ne!(elsewhere("/x", "ab"), pinned);
        write("README.md", "changed");
        assert!(rules(path, Some(&pinned)).is_ok());
        for (name, text) in [("b.yml", "c"), ("c.yml", "b"), ("known.feed", "pypi requests")] {
            write(name, text);
            let why = rules(path, Some(&pinned)).unwrap_err().to_string();
            let found = RulesDigest::of(&rules(path, None).unwrap()).to_string();
            assert!(
                why.contains(&found) && why.contains(&pinned.to_string()) && why.contains("rules_digest"),
                "{why}"
            );
        }
        assert!(rules(None, Some(&pinned)).unwrap_err().to_string().contains("no folder of rules is named"));
        let guard = of(GuardSettings {
            rules: Some(folder.path().into()),
            digest: Some(pinned),
            ..GuardSettings::default()
        });
        let outcome =
            guard.scan(Whole::of_source(Artifact::new("x.py", "1")), Confinement::Namespaces).unwrap_err();
        assert_eq!(outcome.cause, Cause::Refused);
        assert!(outcome.reason.as_deref().unwrap_or_default().contains("not the pinned ones"));
    }

    #[test]
    fn missing_rules_are_refused() {
        let guard = of(GuardSettings { rules: Some("/nowhere/at/all".into()), ..GuardSettings::default() });
        let outcome =
            guard.scan(Whole::of_source(Artifact::new("x.py", "1")), Confinement::Namespaces).unwrap_err();
        assert_eq!(outcome.cause, Cause::Refused);
        assert!(outcome.reason.as_deref().unwrap_or_default().contains("/nowhere/at/all"));
    }

    #[test]
    fn rule_link_leading_out_of_clone_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in ["clone/.git", "clone/rules", "own"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        std::fs::write(home.join("a.yml"), "secret").unwrap();
        std::fs::write(home.join("clone/b.yml"), "theirs").unwrap();
        for (link, to) in [("clone/rules/b.yml", "../b.yml"), ("own/a.yml", "../a.yml")] {
            std::os::unix::fs::symlink(to, home.join(link)).unwrap();
        }
        assert_eq!(rules(Some(&home.join("clone/rules")), None).unwrap()[0].1, "theirs");
        assert_eq!(rules(Some(&home.join("own")), None).unwrap()[0].1, "secret");
        std::os::unix::fs::symlink("../../a.yml", home.join("clone/rules/a.yml")).unwrap();
        let why = rules(Some(&home.join("clone/rules")), None).unwrap_err().to_string();
        assert!(why.contains("is a link that came with"), "{why}");
    }
}
