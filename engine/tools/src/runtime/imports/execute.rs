//! `hotcell:sandbox/run` and `hotcell:guard/scan`: services of the rest of the engine for a guest.

use std::time::Duration;

use super::generated::hotcell::guard::scan;
use super::generated::hotcell::sandbox::run;
use crate::ask::{Blob, Refused};
use crate::runtime::state::State;
use crate::{Ask, Reply};

/// Maximum size of an artifact to be scanned, in bytes.
const MAX_ARTIFACT_BYTES: usize = 1 << 20;

impl run::Host for State {
    // A guest makes one such call at a time, so there is never a second run beside the first.
    async fn run(&mut self, request: run::Request) -> wasmtime::Result<Result<run::Outcome, run::Error>> {
        if request.argv.is_empty() {
            return Ok(Err(run::Error::Invalid("argv is empty: name a program".to_owned())));
        }
        if !self.counts.runs.take(1) {
            return Ok(Err(run::Error::TooMany));
        }
        let wanted = request.timeout_ms.map(|wanted| Duration::from_millis(wanted.into()));
        let ask = Ask::Sandbox {
            argv: request.argv,
            files: request.files.into_iter().map(|file| (file.path, Blob(file.content))).collect(),
            stdin: request.stdin.map(Blob),
            env: request.env,
            timeout_ms: self.asker.milliseconds(wanted),
            memory: request.memory,
        };
        Ok(match self.asker.ask(ask).await {
            Reply::Ran { cause, exit_code, stdout, stderr, truncated, reason, wall_ms } => Ok(run::Outcome {
                cause,
                exit_code,
                stdout: stdout.0,
                stderr: stderr.0,
                truncated,
                reason,
                wall_ms,
            }),
            Reply::Refused { why: Refused::Denied(_) } => Err(run::Error::Denied),
            Reply::Refused { why: Refused::TooMuch(_) | Refused::Full } => Err(run::Error::TooMany),
            Reply::Refused { why: Refused::Invalid(what) } => Err(run::Error::Invalid(what)),
            other => Err(run::Error::Unavailable(lacking(other))),
        })
    }
}

impl scan::Host for State {
    async fn scan(
        &mut self,
        name: String,
        content: Vec<u8>,
        language: Option<String>,
    ) -> wasmtime::Result<Result<scan::Report, scan::Error>> {
        if content.len() > MAX_ARTIFACT_BYTES || !self.counts.scans.take(1) {
            return Ok(Err(scan::Error::TooMany));
        }
        Ok(match self.asker.ask(Ask::Scan { name, content: Blob(content), language }).await {
            Reply::Scanned { verdict, language, findings, unread } => match self::verdict(&verdict) {
                Some(verdict) => Ok(scan::Report {
                    verdict,
                    language,
                    findings: findings.into_iter().map(finding).collect(),
                    unread,
                }),
                None => Err(scan::Error::Unavailable(format!("the verdict '{verdict}' is not known"))),
            },
            Reply::Refused { why: Refused::Denied(_) } => Err(scan::Error::Denied),
            Reply::Refused { why: Refused::TooMuch(_) | Refused::Full } => Err(scan::Error::TooMany),
            other => Err(scan::Error::Unavailable(lacking(other))),
        })
    }
}

fn verdict(name: &str) -> Option<scan::Verdict> {
    Some(match name {
        "allow" => scan::Verdict::Allow,
        "review" => scan::Verdict::Review,
        "quarantine" => scan::Verdict::Quarantine,
        "incomplete" => scan::Verdict::Incomplete,
        _ => return None,
    })
}

fn finding(of: crate::ask::Finding) -> scan::Finding {
    scan::Finding {
        rule: of.rule,
        severity: of.severity,
        message: of.message,
        line: of.line,
        column: of.column,
    }
}

fn lacking(reply: Reply) -> String {
    match reply {
        Reply::Refused { why: Refused::Unavailable(what) | Refused::Invalid(what) } => what,
        _ => "the broker answered something else".to_owned(),
    }
}
