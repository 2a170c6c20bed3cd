//! `hotcell scan`: from paths to a report for people and for programs.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_config::RulesDigest;
use hotcell_guard::{
    Artifact, Executions, Fingerprint, Held, Limits, MAX_FINGERPRINTS, Pack, RECORD_FINGERPRINTS, Report,
    Verdict, Walk, load_pack, merge, sarif, scan_path,
};
use hotcell_review::quarantine::QuarantineService;
use hotcell_review::target::Target;
use hotcell_sandbox::Confinement;
use hotcell_sandbox::text::printable;
use hotcell_scanning::reader::Rules;
use hotcell_scanning::session::{Scan, ScanState};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::Language;

use crate::args::{Common, ScanArgs};
use crate::context::{configuration, current_folder};
use crate::exit::printed;
use crate::receipt::make::{Receipt, ReceiptOf};
use crate::render::scan;
use crate::{exit, usage};

/// Interval at which the name of the current file is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum length of a label in a feed, in characters.
const MAX_LABEL: usize = 100;

/// Runs the command; returns its exit status.
pub fn scan(common: &Common, args: &ScanArgs) -> u8 {
    let report = match read(common, args) {
        Ok(report) => report,
        Err(report) => return usage::fail(&report, common.json),
    };
    let code = match report.verdict {
        Verdict::Allow => 0,
        Verdict::Review => 1,
        Verdict::Incomplete | Verdict::Quarantine => 3,
    };
    if let Some(file) = &args.receipt {
        let made = configuration(common, None).and_then(|configuration| {
            let trees: Vec<_> = args.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
            Receipt::open(Some(file), &trees, &configuration, ReceiptOf::Command)
        });
        let signed = made.and_then(|mut receipt| {
            let wrong = |why| ErrorReport::new(Code::State, format!("--receipt: {why}")).field("--receipt");
            receipt.of_scan(&report).map_err(wrong)
        });
        if let Err(report) = signed {
            return usage::fail(&report, common.json);
        }
    }
    if args.sarif {
        return match office(common, args)
            .map(|office| office.rules().clone())
            .and_then(|rules| sarif_of(&report, rules))
        {
            Ok(log) => printed(exit::print_json(&log), code),
            Err(report) => usage::fail(&report, common.json),
        };
    }
    if common.json {
        return printed(exit::print_json(&report), code);
    }
    if args.fingerprint {
        return match fingerprints(&report) {
            Ok(lines) => {
                if lacks_fingerprints(&report) {
                    tracing::warn!(
                        "fingerprints are missing: not everything could be read, or a file or archive has more than {MAX_FINGERPRINTS} (hotcell scan -v says what was read)"
                    );
                }
                printed(exit::print_text(&lines), 0)
            }
            Err(report) => usage::fail(&report, false),
        };
    }
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    // With several paths, findings are listed by their full paths.
    let roots = if let [only] = &args.paths[..] { vec![only.clone()] } else { vec![PathBuf::new()] };
    printed(exit::print_text(&scan::page(&report, &scan::on_disk(&roots), colour, common.verbose > 0)), code)
}

/// Opens the quarantine, with the user's own rules: from the option, the environment, or the configuration.
fn office(common: &Common, args: &ScanArgs) -> Result<QuarantineService, ErrorReport> {
    let rules = args.rules.as_ref().map(|r| current_folder().join(r));
    QuarantineService::of(&configuration(common, None)?, rules.as_deref())
}

fn sarif_of(report: &Report, rules: Rules) -> Result<serde_json::Value, ErrorReport> {
    let pack = if rules.is_empty() { Pack::builtin() } else { load_pack(rules) };
    let pack = pack.map_err(|e| ErrorReport::new(Code::InvalidValue, e.to_string()).field("--rules"))?;
    Ok(sarif(report, &pack))
}

/// True when a report may lack fingerprints of what it is about.
fn lacks_fingerprints(report: &Report) -> bool {
    report.coverage.fingerprints.len() >= MAX_FINGERPRINTS
        || report.coverage.parts.iter().any(|part| part.state.least() == Verdict::Incomplete)
}

/// Lines of a feed with the fingerprints of a report, each with the end of its part's path as the label.
fn fingerprints(report: &Report) -> Result<String, ErrorReport> {
    let line = |own: &Fingerprint| {
        let path = printable(&own.part);
        let skipped = path.chars().count().saturating_sub(MAX_LABEL);
        let label: String = path.chars().skip(skipped).collect();
        format!("{}  {}\n", own.sha256, label.trim())
    };
    let lines: String = report.coverage.fingerprints.iter().map(line).collect();
    if lines.is_empty() {
        return Err(ErrorReport::new(
            Code::InvalidValue,
            "nothing there has a fingerprint: code has one from 8 tokens on, and data has none",
        )
        .field("PATH")
        .hint("hotcell scan -v says what was read, and as which language"));
    }
    Ok(lines)
}

fn read(common: &Common, args: &ScanArgs) -> Result<Report, ErrorReport> {
    let office = office(common, args)?;
    let reading = if args.no_cache { ScanState::default() } else { configuration(common, None)?.reading };
    if !office.rules().is_empty() {
        tracing::info!("rules_digest of the rules of your own: {}", RulesDigest::of(office.rules()));
    }
    let confinements = [Confinement::Namespaces, Confinement::LandlockOnly];
    let mut rules = office.rules().clone();
    if args.fingerprint {
        rules.push((RECORD_FINGERPRINTS.to_owned(), String::new()));
    }
    let mut scan = reading.begin(rules, &confinements);
    let limits = Limits::default();
    let walk = Walk { gitignore: !args.no_ignore, packages: args.packages, executed: None };
    let mut show = Show::new(common, args);
    let (mut reports, mut targets) = (Vec::new(), Vec::new());
    for path in &args.paths {
        let (report, target) = if path.as_os_str() == "-" {
            let artifact = Artifact::new("stdin", stdin(&limits)?);
            (scan.read(&artifact), Target::Source(artifact))
        } else {
            (
                one(&mut scan, &limits, path, walk, &mut show)?,
                Target::Path(path.clone(), Executions::default()),
            )
        };
        reports.push(report);
        targets.push(target);
    }
    show.end();
    scan.end().map_err(|why| {
        ErrorReport::new(Code::InvalidValue, format!("nothing can be read: {why}")).hint(
            "hotcell doctor says what this host lacks; with --rules, mend the rule or line that is named",
        )
    })?;
    for (report, target) in reports.iter_mut().zip(targets) {
        report.quarantine = hold(&office, report, target, args.quarantine)?;
    }
    // Code hosts expect paths from the repository's root, which is usually the current folder.
    if reports.len() > 1 || args.sarif {
        for (path, report) in args.paths.iter().zip(&mut reports).filter(|(path, _)| path.is_dir()) {
            let whole = |part: &mut String| *part = path.join(&*part).to_string_lossy().into_owned();
            report.coverage.parts.iter_mut().for_each(|p| whole(&mut p.path));
            report.findings.iter_mut().for_each(|f| whole(&mut f.part));
            report.coverage.fingerprints.iter_mut().for_each(|f| whole(&mut f.part));
        }
    }
    if reports.len() > 1 {
        let names: Vec<String> = args.paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let held = reports.iter().find_map(|report| report.quarantine.clone());
        let mut sum = merge("", reports);
        sum.quarantine = held;
        sum.artifact.names = names;
        return Ok(sum);
    }
    Ok(reports.remove(0))
}

/// Quarantines artifacts that a run would refuse, if that was requested; otherwise checks whether they are in
/// quarantine.
fn hold(
    office: &QuarantineService,
    report: &Report,
    target: Target,
    asked: bool,
) -> Result<Option<Held>, ErrorReport> {
    if report.verdict < Verdict::Incomplete {
        return Ok(None);
    }
    let item = if asked {
        Some(office.hold(as_it_runs(target), report)?)
    } else {
        office.held(target, report).unwrap_or_else(|why| {
            tracing::warn!("whether it is held is not known: {why}");
            None
        })
    };
    Ok(item.map(|item| Held { id: item.id, state: item.state.name().to_owned() }))
}

/// A source file is quarantined in the form in which `run --lang` would run it, so that a release applies to
/// that.
fn as_it_runs(target: Target) -> Target {
    let Target::Path(path, executed) = target else { return target };
    let Some(language) = path.extension().and_then(|end| Language::of_ending(end.to_str()?)) else {
        return Target::Path(path, executed);
    };
    let mut bytes = Vec::new();
    let most = Limits::default().file_bytes as u64 + 1;
    let read = std::fs::File::open(&path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    match read {
        Ok(_) => Target::Source(Artifact::new(path.to_string_lossy(), bytes).run_as(language.as_read())),
        // A folder of that name, or a missing file.
        Err(_) => Target::Path(path, executed),
    }
}

fn one(
    scan: &mut Scan,
    limits: &Limits,
    path: &Path,
    walk: Walk<'_>,
    show: &mut Show,
) -> Result<Report, ErrorReport> {
    let read = &mut |artifact: &Artifact| scan.read(artifact);
    scan_path(limits, path, walk, read, &mut |file| show.file(file)).map_err(|e| {
        ErrorReport::new(Code::InvalidValue, format!("{} cannot be scanned: {e}", path.display()))
            .field("PATH")
            .hint("name a file or a folder that you may read")
    })
}

fn stdin(limits: &Limits) -> Result<Vec<u8>, ErrorReport> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(limits.file_bytes as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| {
        ErrorReport::new(Code::Usage, format!("standard input cannot be read: {e}")).field("-")
    })?;
    Ok(bytes)
}

/// Shows on a terminal which file is being read.
struct Show {
    on: bool,
    last: Instant,
    files: u64,
}

impl Show {
    fn new(common: &Common, args: &ScanArgs) -> Self {
        let on = !common.json
            && !args.sarif
            && !common.quiet
            && io::stderr().is_terminal()
            && io::stdout().is_terminal();
        Self { on, last: Instant::now(), files: 0 }
    }

    fn file(&mut self, path: &Path) {
        self.files += 1;
        if self.on && self.last.elapsed() >= PROGRESS_INTERVAL {
            self.last = Instant::now();
            let name = path.to_string_lossy();
            let name = printable(&name[..name.floor_char_boundary(60)]);
            let _ = write!(io::stderr(), "\r\x1b[Kreading file {}: {name}", self.files);
        }
    }

    fn end(&self) {
        if self.on {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
