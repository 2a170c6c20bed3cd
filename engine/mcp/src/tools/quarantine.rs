//! Tools for quarantined items. A model learns rules and locations, and may request a review; only a user
//! decides.

use hotcell_guard::quarantine::State;
use hotcell_guard::{Finding, Kind, Report, Severity};
use hotcell_review::approvals::{Approval, ApprovalSubject, Approvals, RequestStatus, State as Waiting};
use hotcell_review::quarantine::Item;
use hotcell_sandbox::text::counted;
use hotcell_server::{Caller, Live, RunDir};
use hotcell_state::report::ErrorReport;
use rmcp::model::{CallToolResult, JsonObject};

use crate::approvals::{mark, needed};

use super::{answered, blocking, input, one_of, output, parse, shown};

/// Maximum number of findings in one answer.
const MAX_FINDINGS: usize = 50;
/// Maximum number of items in one answer.
const MAX_ITEMS: usize = 100;
/// Maximum length of a path, in characters.
const MAX_PATH_CHARS: usize = 300;

type Answered = Result<CallToolResult, ErrorReport>;

pub async fn scan(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::ScanArtifact = parse(arguments)?;
    let files = input::files(asked.files)?;
    if asked.workspace_id.is_some() != files.is_empty() {
        return Err(one_of("workspace_id", "files"));
    }
    let (held, owner) = (live.clone(), caller.clone());
    let report = blocking(move || {
        let place = match asked.workspace_id {
            Some(id) => RunDir::Pinned(held.workspaces().get(&owner, &id)?.kept()?),
            None => RunDir::Temporary(held.workspaces().temporary(&files)?),
        };
        let layers = place.kept().map(|kept| kept.mount().1).unwrap_or_default();
        held.office(&owner)?.scan(&place.folder(), &layers).map_err(|report| {
            tracing::info!(target: "hotcell_contents", "an artifact was not scanned: {report}");
            ErrorReport::new(report.code, "the files cannot be read here; doctor says what is missing")
        })
    });
    let scanned = scanned(&report.await?);
    let mut words = format!(
        "{}: {}; {} read, {} data, {} not read",
        scanned.verdict,
        counted(scanned.findings.len() as u64 + scanned.omitted, "place"),
        counted(scanned.read, "part"),
        scanned.data,
        scanned.not_read
    );
    words.push_str(&lines(&scanned.findings, &scanned.unread));
    Ok(answered(&scanned, words))
}

pub async fn list(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let _: input::Nothing = parse(arguments)?;
    let (held, owner) = (live.clone(), caller.clone());
    let items = blocking(move || held.office(&owner)?.list().map_err(without_host)).await?;
    let omitted = items.len().saturating_sub(MAX_ITEMS) as u64;
    let items: Vec<_> = items.iter().take(MAX_ITEMS).map(listed).collect();
    let lines: Vec<_> = items.iter().map(|i| format!("{} {} {}", i.id, i.state, i.verdict)).collect();
    let words = if lines.is_empty() { "nothing was refused".to_owned() } else { lines.join("\n") };
    Ok(answered(&output::Refused { items, omitted }, words))
}

pub async fn show(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::QuarantineShow = parse(arguments)?;
    let (held, owner) = (live.clone(), caller.clone());
    let item = blocking(move || {
        let item = held.office(&owner)?.show(&asked.id).map_err(without_host)?;
        let standing = standing(&held.approvals(&owner)?, &item).map_err(without_host)?;
        Ok((item, standing))
    });
    let (item, standing) = item.await?;
    Ok(told(&item, standing.map(Ok).as_ref()))
}

pub async fn request(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::QuarantineRequest = parse(arguments)?;
    let (held, owner) = (live.clone(), caller.clone());
    let ask = move || {
        let item = held.office(&owner)?.request(&asked.id, &asked.reason).map_err(without_host)?;
        // An item that cannot be released can only be run by a user.
        let asks = item.state == State::UnderReview && item.unreleasable.is_none();
        let standing = asks.then(|| {
            let what = ApprovalSubject::Release {
                item: item.id.clone(),
                artifact: item.sha256.clone(),
                language: item.language.clone(),
            };
            held.approvals(&owner)?.ask(&what, Some(&asked.reason))
        });
        Ok((item, standing))
    };
    let (item, standing) = blocking(ask).await?;
    Ok(told(&item, standing.as_ref()))
}

/// The newest pending request for an item.
fn standing(desk: &Approvals, item: &Item) -> Result<Option<RequestStatus>, ErrorReport> {
    let is = |approval: &Approval| {
        let (artifact, language) = (&item.sha256, &item.language);
        approval.state == Waiting::Pending
            && matches!(&approval.detail, ApprovalSubject::Release { artifact: a, language: l, .. } if a == artifact && l == language)
    };
    Ok(desk.list()?.into_iter().find(is).map(RequestStatus::Waits))
}

/// Keeps errors about a tool's arguments; a model is told of other errors without details of the host.
fn without_host(report: ErrorReport) -> ErrorReport {
    use hotcell_state::report::Code;
    let field = report.field.as_deref().map(str::to_lowercase);
    match report.code {
        Code::UnknownName => {
            let why = "there is no such item among those of yours";
            ErrorReport::new(report.code, why).field("id").hint("quarantine_list lists them")
        }
        Code::InvalidValue => ErrorReport { field, ..report },
        _ => {
            tracing::warn!("the quarantine cannot be used: {report}");
            ErrorReport::new(report.code, "the quarantine cannot be used now")
        }
    }
}

fn told(item: &Item, standing: Option<&Result<RequestStatus, ErrorReport>>) -> CallToolResult {
    let mut about = described(item);
    match standing {
        Some(Ok(standing)) => about.hint = needed(standing).hint,
        Some(Err(report)) => about.hint = format!("nobody was asked: {report}"),
        None => {}
    }
    let mut words = format!("{}: {}; {}", about.id, about.state, about.hint);
    words.push_str(&lines(&about.findings, &about.unread));
    let mut result = answered(&about, words);
    if let Some(Ok(standing)) = standing {
        mark(&mut result, standing);
    }
    result
}

fn lines(findings: &[output::Place], unread: &[String]) -> String {
    let found = findings.iter().map(|f| format!("\n{} at {}:{}", f.rule, shown(&f.part), f.line));
    found.chain(unread.iter().map(|part| format!("\nnot read: {}", shown(part)))).collect()
}

fn place(finding: &Finding) -> output::Place {
    output::Place {
        rule: finding.rule.clone(),
        severity: match finding.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
        .to_owned(),
        part: short(&finding.part),
        line: finding.line,
    }
}

fn short(path: &str) -> String {
    path.chars().take(MAX_PATH_CHARS).collect()
}

fn serious(findings: &[Finding]) -> (Vec<output::Place>, u64) {
    let all: Vec<_> = findings.iter().filter(|f| f.severity > Severity::Note).collect();
    (all.iter().take(MAX_FINDINGS).map(|f| place(f)).collect(), all.len().saturating_sub(MAX_FINDINGS) as u64)
}

fn unread<'a>(parts: impl Iterator<Item = &'a hotcell_guard::Part>) -> Vec<String> {
    let unread = parts.filter(|part| part.state.kind() == Kind::NotRead);
    unread.take(MAX_FINDINGS).map(|p| short(&p.path)).collect()
}

fn scanned(report: &Report) -> output::Scanned {
    let (findings, omitted) = serious(&report.findings);
    output::Scanned {
        verdict: report.verdict.name().to_owned(),
        findings,
        omitted,
        unread: unread(report.coverage.parts.iter()),
        read: report.coverage.read,
        data: report.coverage.data,
        not_read: report.coverage.not_read,
        quarantine_id: report.quarantine.as_ref().map(|held| held.id.clone()),
        quarantine_state: report.quarantine.as_ref().map(|held| held.state.clone()),
    }
}

fn listed(item: &Item) -> output::RefusedItem {
    output::RefusedItem {
        id: item.id.clone(),
        state: item.state.name().to_owned(),
        verdict: item.verdict.name().to_owned(),
        submitted: item.submitted.clone(),
        seen: item.seen,
    }
}

fn described(item: &Item) -> output::Shown {
    let (findings, omitted) = serious(&item.findings);
    let release = item.release.as_ref().filter(|release| release.ended.is_none());
    let hint = match item.state {
        State::Held => "quarantine_request asks a person for a release; or change the code",
        State::UnderReview => "a person decides; ask again later",
        State::Released => "run exactly the same again",
        State::Rejected => "a person said no; change the code",
        State::Purged => "nothing of it is kept; run it again to have it held again",
    };
    output::Shown {
        id: item.id.clone(),
        state: item.state.name().to_owned(),
        verdict: item.verdict.name().to_owned(),
        findings,
        omitted,
        unread: unread(item.unread.iter()),
        runs_left: release.map(|release| release.uses),
        released_until: release.map(|release| release.expires.clone()),
        hint: hint.to_owned(),
    }
}
