//! Scans folders and counts verdicts: `measure [--each] [--folders] [--json=FILE] [--time=SECONDS] DIR…`. Each file is
//! one artifact, with `--folders` each direct subfolder; the worst verdict below a direct subfolder of DIR is that project's. `--json` writes each report as a
//! line, to compare two builds. A debug build needs a longer time limit than four seconds for one artifact.

use hotcell_guard::{Artifact, Limits, Pack, Severity, Verdict, Walk, scan, scan_path};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pack = Pack::builtin()?;
    let mut limits = Limits::default();
    if let Some(seconds) = std::env::args().find_map(|arg| arg.strip_prefix("--time=").map(str::to_owned)) {
        limits.time = std::time::Duration::from_secs(seconds.parse()?);
    }
    let json = std::env::args().find_map(|arg| arg.strip_prefix("--json=").map(str::to_owned));
    let mut json = json.map(std::fs::File::create).transpose()?;
    let each = std::env::args().any(|arg| arg == "--each");
    let folders = std::env::args().any(|arg| arg == "--folders");
    for root in std::env::args().skip(1).filter(|arg| !arg.starts_with("--")) {
        let mut files = Vec::new();
        if folders {
            let entries = std::fs::read_dir(&root)?.flatten().map(|entry| entry.path());
            files.extend(entries.filter(|path| path.is_dir()));
            files.sort();
        } else {
            collect(Path::new(&root), &mut files);
        }
        let (mut verdicts, mut rules, mut projects) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut bytes, mut slowest) = (0usize, (std::time::Duration::ZERO, PathBuf::new()));
        let begin = Instant::now();
        for path in &files {
            let start = Instant::now();
            let report = if folders {
                let walk = Walk { gitignore: false, packages: false, executed: None };
                let mut read = |artifact: &Artifact| scan(&pack, &limits, artifact);
                scan_path(&limits, path, walk, &mut read, &mut |_| ())?
            } else {
                let Ok(content) = std::fs::read(path) else { continue };
                scan(&pack, &limits, &Artifact::new(path.to_string_lossy(), content))
            };
            bytes += usize::try_from(report.artifact.bytes)?;
            slowest = slowest.max((start.elapsed(), path.clone()));
            if let Some(out) = &mut json {
                writeln!(out, "{}", serde_json::to_string(&report)?)?;
            }
            *verdicts.entry(format!("{:?}", report.verdict)).or_insert(0) += 1;
            let project = path
                .strip_prefix(&root)?
                .components()
                .next()
                .map(|c| c.as_os_str().to_string_lossy().into_owned());
            let worst = projects.entry(project.unwrap_or_default()).or_insert(Verdict::Allow);
            *worst = report.verdict.max(*worst);
            if report.verdict == Verdict::Allow {
                continue;
            }
            let mut seen: Vec<&str> = Vec::new();
            for finding in report.findings.iter().filter(|f| f.severity > Severity::Note) {
                if !seen.contains(&finding.rule.as_str()) {
                    seen.push(&finding.rule);
                    *rules.entry(finding.rule.clone()).or_insert(0) += 1;
                    if each {
                        println!(
                            "  {:?} {:?} {} {}:{} {}",
                            report.verdict,
                            finding.severity,
                            finding.rule,
                            path.display(),
                            finding.line,
                            finding.derived_from.join(">")
                        );
                    }
                }
            }
            for part in report.coverage.parts.iter().filter(|part| each && part.why_not_read().is_some()) {
                println!("  {:?} {} {} {:?}", report.verdict, path.display(), part.path, part.state);
            }
        }
        let time = begin.elapsed();
        println!(
            "{root}: {} files, {bytes} bytes, {time:.2?} ({:.1} MB/s), slowest {:.2?} {}",
            files.len(),
            rate(bytes, time),
            slowest.0,
            slowest.1.display()
        );
        for (verdict, count) in &verdicts {
            let (low, high) = wilson(*count, files.len());
            println!(
                "  {verdict}: {count} ({:.2} %, 95 % between {low:.2} and {high:.2})",
                percent(*count, files.len())
            );
        }
        let mut worst: BTreeMap<Verdict, Vec<&str>> = BTreeMap::new();
        for (name, verdict) in &projects {
            worst.entry(*verdict).or_default().push(name);
        }
        for (verdict, names) in worst {
            let shown = if verdict == Verdict::Allow { &[][..] } else { &names[..] };
            println!("  {} of {} projects {verdict:?} {shown:?}", names.len(), projects.len());
        }
        let mut rules: Vec<_> = rules.into_iter().collect();
        rules.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        println!("  rules {rules:?}");
    }
    Ok(())
}

/// Megabytes a second.
#[allow(clippy::cast_precision_loss)]
fn rate(bytes: usize, time: std::time::Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

#[allow(clippy::cast_precision_loss)]
fn percent(count: usize, all: usize) -> f64 {
    100.0 * count as f64 / all.max(1) as f64
}

/// Wilson interval for a proportion, in percent.
#[allow(clippy::cast_precision_loss)]
fn wilson(count: usize, all: usize) -> (f64, f64) {
    let (n, p, z) = (all.max(1) as f64, percent(count, all) / 100.0, 1.96_f64);
    let middle = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 100.0 / (1.0 + z * z / n);
    ((middle - spread).max(0.0) * scale, (middle + spread) * scale)
}

fn collect(path: &Path, out: &mut Vec<PathBuf>) {
    let Ok(meta) = path.symlink_metadata() else { return };
    if meta.is_file() {
        out.push(path.to_owned());
    } else if meta.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| collect(entry, out));
    }
}
