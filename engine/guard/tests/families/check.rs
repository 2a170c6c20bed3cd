//! Verdicts of generated programs.

use hotcell_guard::{Artifact, Limits, Pack, PackError, Verdict, scan};
use std::time::Duration;

/// Programs of a kind: file name, text, and whether they are harmful.
pub type Programs = Vec<(&'static str, String, bool)>;

/// Fails, with all that are wrong, unless each harmful program is held for review and each honest one is allowed.
pub fn check(programs: &Programs) -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    let (harmful, honest): (Vec<_>, Vec<_>) = programs.iter().partition(|(_, _, is)| *is);
    assert!(honest.len() >= harmful.len().min(12), "{} honest of {}", honest.len(), programs.len());
    let mut wrong = Vec::new();
    for (file, text, is_harmful) in programs {
        let report = scan(&pack, &limits, &Artifact::new(*file, text.as_bytes()));
        let found = report.verdict >= Verdict::Review && report.verdict != Verdict::Incomplete;
        if found != *is_harmful || !is_harmful && report.verdict != Verdict::Allow {
            let rules: Vec<_> = report.findings.iter().map(|finding| &finding.rule).collect();
            wrong.push(format!("{:?} {rules:?} {file}:\n{text}", report.verdict));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), programs.len(), wrong.join("\n---\n"));
    Ok(())
}
