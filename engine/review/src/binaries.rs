//! Binaries that may run unread: those whose bytes a person allowed, and those that an earlier run wrote and a commit took over.
//!
//! There is no table of them that could be changed: the audit log itself says which they are, entry by entry. They count for runs
//! from the command line, where the person types who allowed them, and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hotcell_guard::quarantine::Channel;
use hotcell_guard::{Artifact, Limits, PartState, Report, Severity, Verdict, Walk, scan_path, unread};
use hotcell_state::audit;
use hotcell_state::state::StateFolder;
use hotcell_state::time::micros_since_1970;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::quarantine::{Quarantine, QuarantineConfig, QuarantineError};
use crate::target::Target;
use crate::workspace_scan;

/// Actions of the log.
const ALLOW: &str = "binary_allow";
const WROTE: &str = "binary_wrote";
const FORGET: &str = "binary_forget";
/// Maximum number of binaries of one step.
const MAX_BINARIES: usize = 2_000;

/// How machine code begins: ELF, WebAssembly, PE, and Mach-O in its four spellings and with several in one.
const MARKS: [&[u8]; 8] = [
    b"\x7fELF",
    b"\0asm",
    b"MZ",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
];

/// Contents of a step in the audit log; the entry's `detail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterBinaries {
    /// The digests, and the name that each had.
    binaries: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// One that may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Binary {
    /// Digest.
    pub sha256: String,
    /// The name that it had.
    pub name: String,
    /// `allowed` by a person, or `written` by an earlier run.
    pub because: String,
    /// The person.
    pub by: String,
    /// When, in microseconds since 1970.
    pub time_us: i64,
}

/// The schema's name.
pub const SCHEMA: &str = "hotcell.binaries/1";

/// `hotcell.binaries/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct BinaryList {
    /// Always `hotcell.binaries/1`.
    pub schema: String,
    /// Those that may run; in an answer to a step, those of the step.
    pub binaries: Vec<Binary>,
}

impl BinaryList {
    /// A list of these.
    #[must_use]
    pub fn new(binaries: Vec<Binary>) -> Self {
        Self { schema: SCHEMA.to_owned(), binaries }
    }
}

fn is_machine_code(bytes: &[u8]) -> bool {
    MARKS.iter().any(|mark| bytes.starts_with(mark))
}

/// Whether all of a file was read: of a longer one the beginning, whose digest says nothing.
fn is_whole(artifact: &Artifact) -> bool {
    artifact.bytes.len() <= Limits::default().file_bytes
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Those that may run by the log, by their digests.
fn known(database: &Connection) -> rusqlite::Result<BTreeMap<String, Binary>> {
    let mut entries = database.prepare(
        "SELECT action, detail, actor, time_us FROM audit WHERE action IN (?1, ?2, ?3) ORDER BY seq",
    )?;
    let rows = entries.query_map([ALLOW, WROTE, FORGET], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, i64>(3)?,
        ))
    })?;
    let mut all = BTreeMap::new();
    for row in rows {
        let (action, detail, by, time_us) = row?;
        let Ok(after) = serde_json::from_str::<AfterBinaries>(&detail) else { continue };
        for (sha256, name) in after.binaries {
            let because = match action.as_str() {
                FORGET => {
                    all.remove(&sha256);
                    continue;
                }
                ALLOW => "allowed",
                // A person's word stays the better reason.
                _ if all.contains_key(&sha256) => continue,
                _ => "written",
            };
            let binary =
                Binary { sha256: sha256.clone(), name, because: because.to_owned(), by: by.clone(), time_us };
            all.insert(sha256, binary);
        }
    }
    Ok(all)
}

/// The machine code at and below a path, by its digests, with the names.
///
/// # Errors
/// It cannot be read, or is too much.
pub fn found(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let mut too_many = false;
    let walk = Walk { gitignore: false, packages: true, executed: None };
    let mut look = |artifact: &Artifact| {
        if is_machine_code(&artifact.bytes) && is_whole(artifact) {
            too_many |= all.len() >= MAX_BINARIES;
            all.insert(digest(&artifact.bytes), artifact.name.clone());
        }
        unread(&artifact.name, PartState::Inert, Verdict::Allow)
    };
    scan_path(&Limits::default(), path, walk, &mut look, &mut |_| ())?;
    if too_many {
        let why = format!("more than {MAX_BINARIES} binaries are in {}; name a folder of it", path.display());
        return Err(io::Error::other(why));
    }
    Ok(all)
}

/// Digests of the machine code among the files that a run wrote and a commit took over, each with its name.
pub fn written(project: &Path, paths: impl Iterator<Item = PathBuf>) -> BTreeMap<String, String> {
    let Ok(folder) = hotcell_workspace::Folder::open(project) else { return BTreeMap::new() };
    let read = |path: &PathBuf| {
        let mut bytes = Vec::new();
        let mut file = folder.file(path).ok()?;
        (&mut file).take(8).read_to_end(&mut bytes).ok()?;
        if !is_machine_code(&bytes) {
            return None;
        }
        let largest = Limits::default().file_bytes;
        file.take(largest as u64).read_to_end(&mut bytes).ok()?;
        (bytes.len() <= largest).then(|| (digest(&bytes), path.display().to_string()))
    };
    paths.filter_map(|path| read(&path)).take(MAX_BINARIES).collect()
}

fn step(
    keep: &QuarantineConfig,
    action: &str,
    binaries: BTreeMap<String, String>,
    reason: Option<String>,
) -> Result<(), QuarantineError> {
    let now_us = micros_since_1970(SystemTime::now());
    let quarantine = keep.open()?;
    // Of one its digest, of several that of the list of them.
    let subject = match binaries.keys().collect::<Vec<_>>().as_slice() {
        [one] => (*one).clone(),
        all => digest(all.iter().flat_map(|key| key.bytes()).collect::<Vec<_>>().as_slice()),
    };
    let after = AfterBinaries { binaries, reason };
    let actor = keep.actor();
    quarantine.step(|database| {
        audit::append(database, now_us, &actor, action, &subject, &after)?;
        Ok::<(), QuarantineError>(())
    })
}

/// Lets binaries run: names by digests.
///
/// # Errors
/// [`QuarantineError`] when the log cannot be written.
pub fn allow(
    keep: &QuarantineConfig,
    binaries: BTreeMap<String, String>,
    reason: Option<String>,
) -> Result<(), QuarantineError> {
    step(keep, ALLOW, binaries, reason)
}

/// Takes the permission back.
///
/// # Errors
/// [`QuarantineError`] when the log cannot be written.
pub fn forget(keep: &QuarantineConfig, binaries: BTreeMap<String, String>) -> Result<(), QuarantineError> {
    step(keep, FORGET, binaries, None)
}

/// Records the binaries that a run wrote and a commit took over.
pub fn note_written(keep: &QuarantineConfig, binaries: BTreeMap<String, String>) {
    if binaries.is_empty() || keep.channel != Channel::Cli {
        return;
    }
    if let Err(error) = step(keep, WROTE, binaries, None) {
        tracing::warn!("which binaries the run wrote cannot be noted: {error}");
    }
}

/// Binaries that may run, by their digests.
///
/// # Errors
/// [`QuarantineError`] when the log cannot be read.
pub fn allowed(keep: &QuarantineConfig) -> Result<BTreeMap<String, Binary>, QuarantineError> {
    let folder = StateFolder::open(keep.state.path()?)?;
    match Quarantine::open_to_read(folder)? {
        Some(quarantine) => Ok(known(&quarantine.database)?),
        None => Ok(BTreeMap::new()),
    }
}

/// A report after its binaries were weighed.
pub struct Weighed {
    /// The report with those that may run set aside.
    pub report: Report,
    /// Number of binaries that may run.
    pub may_run: usize,
    /// Paths for `allow-binary`, when only binaries keep the code from running; otherwise empty.
    pub in_the_way: Vec<PathBuf>,
}

/// The strictest verdict of a report's parts and findings.
fn least(report: &Report) -> Verdict {
    let finding = |severity| match severity {
        Severity::Critical => Verdict::Quarantine,
        Severity::Warning => Verdict::Review,
        Severity::Note => Verdict::Allow,
    };
    let found = report.findings.iter().map(|f| finding(f.severity));
    found.chain(report.coverage.parts.iter().map(|part| part.state.least())).max().unwrap_or(Verdict::Allow)
}

/// Weighs an incomplete report; `None` when no file of machine code is a reason for the verdict.
pub fn weigh(report: &Report, targets: &[Target], allowed: &BTreeMap<String, Binary>) -> Option<Weighed> {
    // Whatever else makes it incomplete is not undone here.
    if report.verdict != Verdict::Incomplete || least(report) != Verdict::Incomplete {
        return None;
    }
    let is_binary =
        |part: &hotcell_guard::Part| part.state == PartState::BytesOnly && !part.path.contains('!');
    let wanted: BTreeSet<&str> =
        report.coverage.parts.iter().filter(|part| is_binary(part)).map(|part| part.path.as_str()).collect();
    if wanted.is_empty() {
        return None;
    }
    let digests = digests(targets, &wanted);
    let mut weighed = report.clone();
    let mut left = Vec::new();
    let mut may_run = 0;
    for part in weighed.coverage.parts.iter_mut().filter(|part| is_binary(part)) {
        let of = digests.get(&part.path).filter(|all| !all.is_empty());
        // Two files of one name in what was read are both meant.
        let binaries = of.and_then(|all| all.iter().map(|one| allowed.get(one)).collect::<Option<Vec<_>>>());
        let Some(binary) = binaries.and_then(|all| all.first().copied()) else {
            left.push(part.path.clone());
            continue;
        };
        may_run += 1;
        part.state = PartState::SetAside(match binary.because.as_str() {
            "allowed" => format!("{} is not read; {} allowed these bytes", part.language, binary.by),
            _ => format!("{} is not read; an earlier run wrote these bytes", part.language),
        });
    }
    weighed.verdict = least(&weighed);
    let mut without = weighed.clone();
    without.coverage.parts.retain(|part| !is_binary(part));
    let base = targets.iter().find_map(|target| match target {
        Target::Path(base, _) => Some(base.clone()),
        _ => None,
    });
    let in_the_way = match base.filter(|_| !left.is_empty() && least(&without) < Verdict::Incomplete) {
        // Without its `.`, which a path typed as such has.
        Some(base) if base.is_dir() => {
            let base: PathBuf = base.components().collect();
            named(&left).into_iter().map(|path| base.join(path)).collect()
        }
        base => base.into_iter().collect(),
    };
    Some(Weighed { report: weighed, may_run, in_the_way })
}

/// Maximum number of paths in a command that a person is to copy.
const MAX_COMMAND_PATHS: usize = 6;

/// Short list of paths that covers these files and as little else as possible: their folders, or the files where a folder
/// would be the whole project, in which installed packages lie, too.
fn named(files: &[String]) -> Vec<&str> {
    if let [only] = files {
        return vec![only];
    }
    let folders: BTreeSet<&str> =
        files.iter().map(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder)).collect();
    let above = |folder: &str| {
        folder.match_indices('/').map(|(at, _)| &folder[..at]).any(|above| folders.contains(above))
    };
    let all: Vec<&str> = match folders.contains("") {
        true => files.iter().map(String::as_str).collect(),
        false => folders.iter().copied().filter(|folder| !above(folder)).collect(),
    };
    if all.len() > MAX_COMMAND_PATHS { vec![""] } else { all }
}

/// The digests of parts, which this process reads once more as the gate reads them: it does not trust the
/// reader on their bytes.
fn digests(targets: &[Target], wanted: &BTreeSet<&str>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let limits = Limits::default();
    for target in targets {
        let mut look = |artifact: &Artifact| {
            if wanted.contains(artifact.name.as_str()) && is_whole(artifact) {
                all.entry(artifact.name.clone()).or_default().insert(digest(&artifact.bytes));
            }
            unread(&artifact.name, PartState::Inert, Verdict::Allow)
        };
        // A target that cannot be read gives no digests, and its parts stay as they were.
        let _ = match target {
            Target::Path(path, executed) => {
                let walk = Walk { gitignore: false, packages: false, executed: Some(executed) };
                scan_path(&limits, path, walk, &mut look, &mut |_| ())
            }
            Target::View(base, layers, executed) => {
                workspace_scan::read(&limits, base, layers, executed, &mut look)
            }
            Target::Source(artifact) => Ok(look(artifact)),
            Target::Unread(..) => continue,
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_guard::{Executions, Part};
    use hotcell_state::state::StateChoice;
    use std::time::Duration;

    fn keep(folder: &Path) -> QuarantineConfig {
        QuarantineConfig {
            state: StateChoice::Named(folder.join("state")),
            channel: Channel::Cli,
            two_persons: false,
            team: std::collections::BTreeSet::new(),
            retention: Duration::from_secs(3600),
        }
    }

    fn part(path: &str, state: PartState) -> Part {
        Part { path: path.to_owned(), language: "elf".to_owned(), state }
    }

    fn report(parts: Vec<Part>) -> Report {
        let mut report = unread("project", PartState::Inert, Verdict::Allow);
        report.coverage.parts = parts;
        report.verdict = least(&report);
        report
    }

    #[test]
    fn allow_command_names_shortest_folders() {
        for (files, want) in [
            (&["a.so"][..], &["a.so"][..]),
            (&["pk/a.so"], &["pk/a.so"]),
            (&["pk/a.so", "pk/b.so"], &["pk"]),
            (&["pk/a.so", "pk/deep/b.so", "other/c.so"], &["other", "pk"]),
            (&["pk/a.so", "pkx/b.so"], &["pk", "pkx"]),
            (&["a.so", "pk/b.so"], &["a.so", "pk/b.so"]),
            (&["a/a.so", "b/a.so", "c/a.so", "d/a.so", "e/a.so", "f/a.so", "g/a.so"], &[""]),
        ] {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            assert_eq!(named(&files), want, "{files:?}");
        }
    }

    #[test]
    fn latest_log_entry_decides_allowed_binaries() {
        let dir = tempfile::tempdir().unwrap();
        let keep = keep(dir.path());
        let of = |names: &[&str]| -> BTreeMap<String, String> {
            names.iter().map(|name| (digest(name.as_bytes()), (*name).to_owned())).collect()
        };
        assert!(allowed(&keep).unwrap().is_empty());
        allow(&keep, of(&["a", "b"]), Some("ours".to_owned())).unwrap();
        note_written(&keep, of(&["b", "c"]));
        forget(&keep, of(&["a"])).unwrap();
        let model = QuarantineConfig { channel: Channel::Model("mcp:stdio".to_owned()), ..keep.clone() };
        note_written(&model, of(&["d"]));
        let all = allowed(&keep).unwrap();
        let mut told: Vec<_> = all.values().map(|b| (b.name.as_str(), b.because.as_str())).collect();
        told.sort_unstable();
        assert_eq!(told, [("b", "allowed"), ("c", "written")]);
    }

    #[test]
    fn allowed_machine_code_is_excused_by_digest() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(project.join(name), bytes).unwrap();
        write("a.so", b"\x7fELF a");
        write("b.so", b"\x7fELF b");
        let targets = [Target::Path(project.clone(), Executions::default())];
        let allowed = |names: &[&str]| -> BTreeMap<String, Binary> {
            let (because, by) = ("allowed".to_owned(), "me".to_owned());
            let one = |name: &&str| {
                let sha256 = digest(format!("\x7fELF {name}").as_bytes());
                let binary = Binary {
                    sha256: sha256.clone(),
                    name: (*name).to_owned(),
                    because: because.clone(),
                    by: by.clone(),
                    time_us: 1,
                };
                (sha256, binary)
            };
            names.iter().map(one).collect()
        };
        let code = |name: &str| part(name, PartState::BytesOnly);
        let skipped = || part("x.pl", PartState::Skipped("perl is not read".to_owned()));
        // Parts; what is allowed; the verdict afterwards, and what an offer names.
        let both = || vec![code("a.so"), code("b.so")];
        for (parts, names, verdict, offer) in [
            (both(), &[][..], Verdict::Incomplete, vec![project.join("a.so"), project.join("b.so")]),
            (both(), &["a"][..], Verdict::Incomplete, vec![project.join("b.so")]),
            (both(), &["a", "b"][..], Verdict::Review, vec![]),
            (both(), &["c"][..], Verdict::Incomplete, vec![project.join("a.so"), project.join("b.so")]),
            (vec![code("a.so"), skipped()], &["a"][..], Verdict::Incomplete, vec![]),
            (vec![code("a.so"), skipped()], &[][..], Verdict::Incomplete, vec![]),
            // In an archive, and gone meanwhile.
            (vec![code("a.so"), code("x.zip!a.so")], &["a"][..], Verdict::Incomplete, vec![]),
            (vec![code("gone.so")], &["a"][..], Verdict::Incomplete, vec![project.join("gone.so")]),
        ] {
            let what = format!("{parts:?} {names:?}");
            let weighed = weigh(&report(parts), &targets, &allowed(names)).expect("binaries");
            assert_eq!((weighed.report.verdict, weighed.in_the_way), (verdict, offer), "{what}");
        }
        assert!(weigh(&report(vec![skipped()]), &targets, &allowed(&["a"])).is_none());
        // One byte more.
        write("a.so", b"\x7fELF a!");
        let weighed = weigh(&report(vec![code("a.so")]), &targets, &allowed(&["a"])).expect("a binary");
        assert_eq!(weighed.report.verdict, Verdict::Incomplete);
        // A verdict that has another reason stays.
        let worse = Report { verdict: Verdict::Quarantine, ..report(both()) };
        assert!(weigh(&worse, &targets, &allowed(&["a", "b"])).is_none());
    }

    #[test]
    fn machine_code_is_known_by_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        std::fs::create_dir(dir.path().join("node_modules")).unwrap();
        write("a.so", b"\x7fELF\x02");
        write("b.txt", b"\0asm\x01\0\0\0");
        write("node_modules/c.node", b"\x7fELF\x01");
        write("d.py", b"print(1)\n");
        let mut names: Vec<_> = found(dir.path()).unwrap().into_values().collect();
        names.sort();
        assert_eq!(names, ["a.so", "b.txt", "node_modules/c.node"]);
        let paths = ["a.so", "d.py", "gone", "node_modules"].map(PathBuf::from);
        let written: Vec<_> = written(dir.path(), paths.into_iter()).into_values().collect();
        assert_eq!(written, ["a.so"]);
    }
}
