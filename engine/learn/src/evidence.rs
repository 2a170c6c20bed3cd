//! One run, as far as it says something about what its program lacks.

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Denial, MissingFiles, ProxiedRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason to distrust a run: the guard did not read its code, or distrusts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Nothing was read before the run.
    Unread,
    /// Not all of it could be read.
    Incomplete,
    /// The guard would have held it back.
    Quarantined,
}

impl Mark {
    /// The mark in words, for a comment.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unread => "the guard read none of its code",
            Self::Incomplete => "the guard could not read all of its code",
            Self::Quarantined => "the guard would quarantine its code",
        }
    }

    /// The mark of a run by the guard's report; `None` for code that was read whole and not quarantined.
    #[must_use]
    pub fn of(scan: Option<&serde_json::Value>) -> Option<Self> {
        let Some(scan) = scan else { return Some(Self::Unread) };
        match scan["verdict"].as_str() {
            Some("allow" | "review") => None,
            Some("quarantine") => Some(Self::Quarantined),
            // A verdict that is not known is no better than one that is missing.
            _ => Some(Self::Incomplete),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Id in the history.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The command as it was typed.
    pub command: Vec<String>,
    /// Denied calls and hosts.
    pub denials: Vec<Denial>,
    /// Files that were asked for and not there; `None` where that was not watched.
    pub missing: Option<MissingFiles>,
    /// Reason to distrust its code.
    pub mark: Option<Mark>,
}

impl Evidence {
    /// The evidence of a run: its report, and the rows of its requests.
    #[must_use]
    pub fn of(
        id: &str,
        started: &str,
        command: &[String],
        report: &RunReport,
        requests: &[ProxiedRequest],
    ) -> Self {
        let mut denials = report.denials.clone();
        // The list of denials has fewer rows than that of the requests.
        for request in
            requests.iter().filter(|request| request.ending == "denied" && request.secret.is_none())
        {
            let is_told = denials.iter().any(|denial| {
                denial.layer == "network" && denial.target.split(' ').next() == Some(request.host.as_str())
            });
            if !is_told && request.rule == "no rule allows it" {
                denials.push(Denial {
                    layer: "network".to_owned(),
                    operation: if request.path.is_empty() { "connect" } else { "http" }.to_owned(),
                    target: request.host.clone(),
                    errno: "denied by the proxy".to_owned(),
                    count: 1,
                });
            }
        }
        Self {
            id: id.to_owned(),
            started: started.to_owned(),
            command: command.to_vec(),
            denials,
            missing: report.missing.clone(),
            mark: Mark::of(report.scan.as_ref()),
        }
    }
}

/// Who wanted something, and how often, over all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// The commands that wanted it, each once.
    pub programs: Vec<String>,
    /// Ids of the runs in which it was wanted.
    pub runs: Vec<String>,
    /// Start of the first and of the last of these runs, RFC 3339.
    pub first: String,
    /// See `first`.
    pub last: String,
    /// Number of attempts in all of them.
    pub count: u64,
    /// Set if every run that wanted it has a mark: the least of them.
    pub mark: Option<Mark>,
}

impl Seen {
    /// Adds attempts of a run.
    pub fn add(&mut self, run: &Evidence, count: u64) {
        self.merge(&Self {
            programs: vec![run.command.join(" ")],
            runs: vec![run.id.clone()],
            first: run.started.clone(),
            last: run.started.clone(),
            count,
            mark: run.mark,
        });
    }

    /// Adds what was seen of another thing.
    pub fn merge(&mut self, other: &Self) {
        for program in &other.programs {
            if !self.programs.contains(program) {
                self.programs.push(program.clone());
            }
        }
        self.mark = match (self.runs.is_empty(), self.mark, other.mark) {
            (true, _, mark) => mark,
            (false, Some(one), Some(two)) => Some(one.min(two)),
            _ => None,
        };
        if self.runs.is_empty() || other.first < self.first {
            self.first.clone_from(&other.first);
        }
        if other.last > self.last {
            self.last.clone_from(&other.last);
        }
        for run in &other.runs {
            if !self.runs.contains(run) {
                self.runs.push(run.clone());
            }
        }
        self.count = self.count.saturating_add(other.count);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hotcell_sandbox::Cause;
    use serde_json::json;

    use super::*;

    pub fn denial(layer: &str, operation: &str, target: &str) -> Denial {
        Denial {
            layer: layer.to_owned(),
            operation: operation.to_owned(),
            target: target.to_owned(),
            errno: "denied by the proxy".to_owned(),
            count: 1,
        }
    }

    pub fn run(id: &str, denials: Vec<Denial>) -> Evidence {
        Evidence {
            id: id.to_owned(),
            started: format!("2026-11-28T10:00:0{}Z", id.len()),
            command: vec!["prog".to_owned()],
            denials,
            missing: None,
            mark: None,
        }
    }

    #[test]
    fn marks_follow_the_verdict() {
        for (scan, want) in [
            (None, Some(Mark::Unread)),
            (Some(json!({ "verdict": "allow" })), None),
            (Some(json!({ "verdict": "review" })), None),
            (Some(json!({ "verdict": "quarantine" })), Some(Mark::Quarantined)),
            (Some(json!({ "verdict": "incomplete" })), Some(Mark::Incomplete)),
            (Some(json!({ "verdict": "new" })), Some(Mark::Incomplete)),
            (Some(json!({})), Some(Mark::Incomplete)),
        ] {
            assert_eq!(Mark::of(scan.as_ref()), want, "{scan:?}");
        }
    }

    #[test]
    fn one_unmarked_run_removes_the_mark() {
        let mut seen = Seen::default();
        seen.add(&Evidence { mark: Some(Mark::Quarantined), ..run("a", Vec::new()) }, 2);
        seen.add(&Evidence { mark: Some(Mark::Unread), ..run("bb", Vec::new()) }, 1);
        assert_eq!((seen.count, seen.mark, seen.runs.len()), (3, Some(Mark::Unread), 2));
        seen.add(&run("ccc", Vec::new()), 1);
        assert_eq!((seen.mark, seen.first.as_str()), (None, "2026-11-28T10:00:01Z"));
        seen.add(&Evidence { mark: Some(Mark::Unread), ..run("d", Vec::new()) }, 1);
        assert_eq!((seen.mark, seen.last.as_str()), (None, "2026-11-28T10:00:03Z"));
    }

    #[test]
    fn denied_requests_beyond_the_list_of_denials_count() {
        let mut report = RunReport::without_a_run(Cause::Exited, "");
        report.denials = vec![denial("network", "http", "a.test:80")];
        let row = |host: &str, ending: &str, rule: &str| ProxiedRequest {
            secret: None,
            host: host.to_owned(),
            method: "CONNECT".to_owned(),
            path: String::new(),
            status: None,
            sent_bytes: 0,
            received_bytes: 0,
            ending: ending.to_owned(),
            rule: rule.to_owned(),
        };
        let none = "no rule allows it";
        let rows = [
            row("a.test:80", "denied", none),
            row("b.test:443", "denied", none),
            row("c.test:443", "answered", "c.test:443"),
            row("d.test:443", "denied", "its TLS names e.test"),
        ];
        let targets: Vec<_> = Evidence::of("a", "", &[], &report, &rows).denials;
        let targets: Vec<_> = targets.iter().map(|denial| denial.target.as_str()).collect();
        assert_eq!(targets, ["a.test:80", "b.test:443"]);
    }
}
