//! Combines many reports into one.

/// Maximum number of findings in a report.
pub(crate) const MOST_FINDINGS: usize = 500;
/// Maximum number of unread files in a report.
pub(crate) const MOST_UNREAD: usize = 100;

/// Result of a scan; a later variant is worse. A file that could not be read is worse than one that was read
/// and needs a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Allow,
    Review,
    Incomplete,
    Quarantine,
}

/// A finding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) severity: String,
    pub(crate) rule: String,
    pub(crate) message: String,
}

/// Report so far.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) verdict: Verdict,
    pub(crate) files: u32,
    pub(crate) findings: Vec<Finding>,
    pub(crate) more: bool,
    pub(crate) unread: Vec<String>,
}

impl Gathered {
    pub(crate) fn new() -> Self {
        Self { verdict: Verdict::Allow, files: 0, findings: Vec::new(), more: false, unread: Vec::new() }
    }

    /// Adds the report on one file.
    pub(crate) fn add(
        &mut self,
        verdict: Verdict,
        findings: Vec<Finding>,
        unread: impl IntoIterator<Item = String>,
    ) {
        self.files += 1;
        self.verdict = self.verdict.max(verdict);
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| order(a).cmp(&order(b)));
        self.more |= self.findings.len() > MOST_FINDINGS;
        self.findings.truncate(MOST_FINDINGS);
        self.note(unread);
    }

    /// Adds a file that was not scanned.
    pub(crate) fn skip(&mut self, why: String) {
        self.verdict = self.verdict.max(Verdict::Incomplete);
        self.note([why]);
    }

    fn note(&mut self, unread: impl IntoIterator<Item = String>) {
        self.unread.extend(unread);
        self.more |= self.unread.len() > MOST_UNREAD;
        self.unread.truncate(MOST_UNREAD);
    }
}

fn order(finding: &Finding) -> (usize, &str, u32, u32) {
    let severity = ["critical", "warning", "note"].iter().position(|s| *s == finding.severity);
    (severity.unwrap_or(usize::MAX), &finding.file, finding.line, finding.column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(file: &str, line: u32, severity: &str) -> Finding {
        let (rule, message) = ("r".to_owned(), String::new());
        Finding { file: file.into(), line, column: 1, severity: severity.into(), rule, message }
    }

    #[test]
    fn most_severe_findings_are_first() {
        let mut all = Gathered::new();
        all.add(Verdict::Review, vec![finding("b", 2, "note"), finding("b", 1, "note")], []);
        all.add(
            Verdict::Allow,
            vec![finding("a", 9, "note"), finding("c", 1, "critical")],
            ["part".to_owned()],
        );
        let order: Vec<_> = all.findings.iter().map(|f| format!("{}{}", f.file, f.line)).collect();
        assert_eq!(order, ["c1", "a9", "b1", "b2"]);
        assert_eq!((all.verdict, all.files, all.more), (Verdict::Review, 2, false));
        all.skip("too long".into());
        assert_eq!((all.verdict, all.files, all.unread.len()), (Verdict::Incomplete, 2, 2));
        all.add(Verdict::Quarantine, (0..600).map(|line| finding("d", line, "note")).collect(), []);
        assert_eq!((all.verdict, all.findings.len(), all.more), (Verdict::Quarantine, MOST_FINDINGS, true));
        assert_eq!(all.findings[0].severity, "critical");
    }
}
