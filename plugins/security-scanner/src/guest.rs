//! Functions of `wit/security-scanner.wit`.

use std::fs;
use std::path::Path;

use crate::gather::{self, Gathered};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::security_scanner::security_scanner::{Finding, Guest, Report, Verdict};
use hotcell::guard::scan;
use hotcell::tool::progress;

/// Maximum number of bytes that the guard reads of one file.
const LONGEST: u64 = 1 << 20;

struct Plugin;
export!(Plugin);

/// Scans one artifact and adds its report. An error ends everything: the next scan would fail as well.
fn one(name: &str, content: &[u8], language: Option<&str>, into: &mut Gathered) -> Result<(), String> {
    let report = scan::scan(name, content, language).map_err(|error| match error {
        scan::Error::Denied => {
            "scans are not granted to this plugin: hotcell tool grant security-scanner guard".to_owned()
        }
        scan::Error::TooMany => format!("{name}: too many scans in one call, or too long"),
        scan::Error::Unavailable(why) => format!("there is no scan: {why}"),
    })?;
    let verdict = match report.verdict {
        scan::Verdict::Allow => gather::Verdict::Allow,
        scan::Verdict::Review => gather::Verdict::Review,
        scan::Verdict::Quarantine => gather::Verdict::Quarantine,
        scan::Verdict::Incomplete => gather::Verdict::Incomplete,
    };
    let findings = report.findings.into_iter().map(|f| gather::Finding {
        file: name.to_owned(),
        line: f.line,
        column: f.column,
        severity: f.severity,
        rule: f.rule,
        message: f.message,
    });
    into.add(verdict, findings.collect(), report.unread.into_iter().map(|why| format!("{name}: {why}")));
    Ok(())
}

fn report(all: Gathered) -> Report {
    let verdict = match all.verdict {
        gather::Verdict::Allow => Verdict::Allow,
        gather::Verdict::Review => Verdict::Review,
        gather::Verdict::Quarantine => Verdict::Quarantine,
        gather::Verdict::Incomplete => Verdict::Incomplete,
    };
    let findings = all.findings.into_iter().map(|f| Finding {
        file: f.file,
        line: f.line,
        column: f.column,
        severity: f.severity,
        rule: f.rule,
        message: f.message,
    });
    Report { verdict, files: all.files, findings: findings.collect(), more: all.more, unread: all.unread }
}

impl Guest for Plugin {
    fn scan_text(content: String, name: Option<String>, language: Option<String>) -> Result<Report, String> {
        let mut all = Gathered::new();
        one(name.as_deref().unwrap_or("text"), content.as_bytes(), language.as_deref(), &mut all)?;
        Ok(report(all))
    }

    fn scan_path(path: String, limit: Option<u32>) -> Result<Report, String> {
        let path = folders::path(&path)?;
        let mut all = Gathered::new();
        let meta = fs::metadata(&path).map_err(|e| folders::failed(&path, &e))?;
        if meta.is_dir() {
            let limit = limit.unwrap_or(200).min(1000);
            let (mut found, mut seen) = (Vec::new(), 0);
            let mut visit = |entry: folders::Entry, full: &Path| {
                if let Some(size) = entry.size {
                    seen += 1;
                    if seen <= limit {
                        found.push((entry.path, full.to_owned(), size));
                    }
                }
                seen <= limit
            };
            let enter = |name: &str| !name.starts_with('.') && name != "node_modules";
            all.more = !folders::walk(Path::new(&path), "", 64, &mut visit, &enter)?;
            let total = found.len() as u64;
            for (done, (name, full, size)) in (0..).zip(found) {
                progress::report(done, Some(total), Some(&name));
                file(&name, &full, size, &mut all)?;
            }
        } else {
            let full = Path::new(&path);
            file(full.file_name().and_then(|n| n.to_str()).unwrap_or("file"), full, meta.len(), &mut all)?;
        }
        Ok(report(all))
    }
}

fn file(name: &str, full: &Path, size: u64, all: &mut Gathered) -> Result<(), String> {
    if size > LONGEST {
        all.skip(format!("{name}: {size} bytes are more than {LONGEST}"));
        return Ok(());
    }
    match fs::read(full) {
        Ok(content) => one(name, &content, None, all),
        Err(error) => {
            all.skip(format!("{name}: {error}"));
            Ok(())
        }
    }
}
