//! The guard's reading of packages before anything of them runs, done once and kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_config::{Configuration, Mode, RulesDigest};
use hotcell_guard::{Artifact, Coverage, Limits, Part, PartState, Report, Verdict, Walk, scan_path};
use hotcell_review::quarantine::QuarantineService;
use hotcell_sandbox::Confinement;
use hotcell_state::report::{Code, ErrorReport, printable};
use serde::{Deserialize, Serialize};

/// File with what the guard said of installed packages.
pub const FILE: &str = "read.json";
/// Maximum size of that file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Verdict of the guard on packages, with the conditions under which it holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    /// Folder of the packages. It is kept under the digest of their lock, and nothing writes there after the installation.
    packages: PathBuf,
    /// Build of the guard with its rules.
    guard: String,
    /// Digest of the user's own rules.
    rules: String,
    verdict: Verdict,
    /// Words behind the verdict.
    why: String,
}

/// Has the guard read packages, or takes its former word from `kept`: of the same folder, by this guard with these rules. What is quarantined
/// or was not read whole is read again each time. Returns a line to show, for packages that are not plainly good.
///
/// # Errors
/// [`ErrorReport`] when the packages are quarantined, or cannot be read. Blocks.
pub fn require(
    configuration: &Configuration,
    mode: Option<Mode>,
    (name, packages): (&str, &Path),
    kept: Option<&Path>,
) -> Result<Option<String>, ErrorReport> {
    let mode =
        mode.or(configuration.environment.run.guard).or(configuration.user.run.guard).unwrap_or_default();
    if mode == Mode::Off {
        return Ok(None);
    }
    let rules = RulesDigest::of(QuarantineService::of(configuration, None)?.rules()).to_string();
    let is_current = |reading: &Reading| {
        reading.packages == packages && reading.guard == hotcell_guard::BUILD && reading.rules == rules
    };
    let former = kept.and_then(read);
    let reading = match former.filter(is_current) {
        Some(reading) => reading,
        None => {
            let report = installed(configuration, packages)?;
            let reading = Reading {
                packages: packages.to_owned(),
                guard: hotcell_guard::BUILD.to_owned(),
                rules,
                verdict: report.verdict,
                why: words(&report),
            };
            if let Some(kept) = kept.filter(|_| is_lasting(report.verdict, &report.coverage))
                && let Err(error) = write(kept, &reading)
            {
                tracing::info!("what the guard said is not kept in {}: {error}", kept.display());
            }
            reading
        }
    };
    let Reading { verdict, why, .. } = reading;
    match (verdict, mode) {
        (Verdict::Quarantine, Mode::Enforce) => {
            let hint = "read that place; ‹guard=report› runs it all the same, in its sandbox";
            Err(ErrorReport::new(Code::Refused, format!("{name} is quarantined{why}")).hint(hint))
        }
        (Verdict::Allow, _) => Ok(None),
        (verdict, _) => Ok(Some(format!("guard: {name}: {}{}", verdict.name(), printable(&why)))),
    }
}

/// Reads a folder of packages, vendored ones included.
fn installed(configuration: &Configuration, folder: &Path) -> Result<Report, ErrorReport> {
    let office = QuarantineService::of(configuration, None)?;
    let confinements = [Confinement::Namespaces, Confinement::LandlockOnly];
    let mut scan = configuration.reading.begin(office.rules().clone(), &confinements);
    let walk = Walk { gitignore: false, packages: true, executed: None };
    let read = &mut |artifact: &Artifact| scan.read(artifact);
    let report = scan_path(&Limits::default(), folder, walk, read, &mut |_| ());
    let wrong = |why: String| ErrorReport::new(Code::InvalidValue, why).field("PATH");
    scan.end().map_err(|why| wrong(format!("nothing can be read: {why}")))?;
    report.map_err(|e| wrong(format!("{} cannot be scanned: {e}", folder.display())))
}

fn read(path: &Path) -> Option<Reading> {
    let file = fs::File::open(path).ok()?;
    serde_json::from_reader(io::Read::take(file, MAX_FILE_BYTES)).ok()
}

/// Writes the file whole: other processes see the former one or this one.
fn write(path: &Path, reading: &Reading) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    serde_json::to_writer(&mut file, reading)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

/// Whether another reading would come to the same word: a part that was skipped may have been so for time or memory, and what is quarantined
/// is read again.
fn is_lasting(verdict: Verdict, coverage: &Coverage) -> bool {
    let is_left = |part: &Part| matches!(part.state, PartState::Skipped(_) | PartState::SetAside(_));
    verdict != Verdict::Quarantine && !coverage.parts.iter().any(is_left)
}

/// The worst finding, or the files that cannot be read.
fn words(report: &Report) -> String {
    let worst = report.findings.iter().max_by_key(|finding| finding.severity);
    let unread = report.coverage.parts.iter().filter(|part| part.state.least() >= Verdict::Incomplete);
    match (unread.clone().next(), worst) {
        // Machine code of a package is the usual reason.
        (Some(part), _) if report.verdict == Verdict::Incomplete => {
            format!(": {} files cannot be read, such as {}", unread.count(), part.path)
        }
        (_, Some(finding)) => {
            format!(": {}:{}: {} ({})", finding.part, finding.line, finding.message, finding.rule)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_lasts_where_everything_was_read_or_never_can_be() {
        let part = |state: &PartState| Part {
            path: "server.py".to_owned(),
            language: "python".to_owned(),
            state: state.clone(),
        };
        let skipped = PartState::Skipped("the reader ran out of time".to_owned());
        let aside = PartState::SetAside("too long".to_owned());
        for (verdict, states, want) in [
            (Verdict::Allow, &[PartState::Parsed][..], true),
            (Verdict::Review, &[PartState::Recovered, PartState::Inert], true),
            (Verdict::Incomplete, &[PartState::BytesOnly], true),
            (Verdict::Incomplete, &[PartState::BytesOnly, skipped], false),
            (Verdict::Review, &[aside], false),
            (Verdict::Quarantine, &[PartState::Parsed], false),
        ] {
            let coverage = Coverage::of(states.iter().map(part).collect());
            assert_eq!(is_lasting(verdict, &coverage), want, "{verdict:?} {states:?}");
        }
    }
}
