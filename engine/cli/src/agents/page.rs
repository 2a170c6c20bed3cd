//! A session on one screen.

use hotcell_agents::machine::Ask;
use hotcell_agents::report::{CandidateReport, IterationRow, SessionList};
use hotcell_agents::{Phase, SessionReport};
use hotcell_sandbox::text::printable_line;
use hotcell_testing::Verdict;

/// Maximum length of a reason in the table, in characters.
const MAX_WHY_CHARS: usize = 70;

/// The page, without the diff.
pub fn page(report: &SessionReport) -> String {
    let mut text = headline(report) + "\n";
    text.push_str(&report.made.as_ref().map(super::make::page).unwrap_or_default());
    if report.made.is_some() && report.candidates.iter().all(|candidate| candidate.workspace.is_none()) {
        text.push_str(&format!("cost: {}\n", cost(report)));
        return text;
    }
    text.push_str("  candidate  answer  asked         tests       score  run\n");
    let before = &report.before;
    let run = before.run.as_deref().unwrap_or("-");
    text.push_str(&format!(
        "  {:<10} {:<7} {:<13} {:<11} {:<6} {run}\n",
        "-",
        "-",
        if report.made.is_some() { "stub" } else { "as it was" },
        of(before.good, before.of),
        "-"
    ));
    for candidate in &report.candidates {
        candidate.iterations.iter().for_each(|row| text.push_str(&line(candidate, row)));
    }
    if let Some(best) = &report.best {
        let points =
            best.score.points.iter().map(|point| format!("{} {}/{}", point.name, point.earned, point.of));
        let failed = best.score.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str());
        let failed: Vec<&str> = failed.collect();
        let gates = if failed.is_empty() {
            "all gates passed".to_owned()
        } else {
            format!("gates not passed: {}", failed.join(", "))
        };
        text.push_str(&format!(
            "best: candidate {}, answer {}, by {}; {} in {}; score {} ({}); {gates}\n",
            best.candidate,
            best.iteration,
            best.chosen_by,
            counted(best.lines, "line"),
            counted(best.files.len() as u64, "file"),
            best.score.score,
            points.collect::<Vec<_>>().join(", ")
        ));
    } else {
        text.push_str(if report.made.is_some() { "best: none\n" } else { "best: the code as it was\n" });
    }
    if let Some(first) = report.conflicts.first() {
        let more = match report.conflicts.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        text.push_str(&format!(
            "changed in the project since: {}{more}; --commit takes nothing over until it is as it was\n",
            printable_line(first)
        ));
    }
    text.push_str(&format!("cost: {}\n", cost(report)));
    if let Some(out) = report.made.as_ref().filter(|made| made.written).and_then(|made| made.out.as_ref()) {
        text.push_str(&format!("written to {}\n", printable_line(out)));
    }
    text
}

/// A number with its noun, which has an s unless there is one.
pub(super) fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn headline(report: &SessionReport) -> String {
    let id = report.id.as_deref().unwrap_or("-");
    let (good, all) = report
        .best
        .as_ref()
        .map_or((report.before.good, report.before.of), |best| (best.tests.good, best.tests.of));
    let tests = match &report.made {
        Some(made) if made.tests.is_none() => "there are no tests yet".to_owned(),
        _ => format!("{good} of {all} tests are good"),
    };
    let done = if report.made.is_some() { "made" } else { "fixed" };
    if report.made.is_some() && report.best.is_none() && report.state == Phase::Idle {
        return format!("planned; session {id}");
    }
    match (report.state, &report.reason) {
        (Phase::Converged, _) => format!("{done}: {tests}; session {id}"),
        (Phase::Idle, _) if report.best.as_ref().is_some_and(|best| best.accepted) => {
            format!("{done}: {tests}; session {id}")
        }
        (Phase::Idle, _) => format!("accepted as it is: {tests}; session {id}"),
        (state, reason) => {
            let word = match state {
                Phase::Failed => "failed".to_owned(),
                Phase::Escalated => format!("not {done}"),
                _ => "not finished".to_owned(),
            };
            let reason = reason.as_ref().map(|reason| format!(" ({})", why(reason))).unwrap_or_default();
            format!("{word}{reason}: {tests}; session {id}")
        }
    }
}

pub(super) fn why(reason: &hotcell_agents::machine::Reason) -> String {
    use hotcell_agents::machine::Reason;
    match reason {
        Reason::MaxIterationsReached => {
            "the maximum of iterations is reached; fix and make take --iterations for more of the code (the tests have three)".to_owned()
        }
        Reason::StagnationDetected => "the model made no progress".to_owned(),
        Reason::OscillationDetected => "the model repeats itself".to_owned(),
        Reason::TimeoutExceeded => "the time of --budget is over".to_owned(),
        Reason::DangerousOutputDetected => "the guard quarantined it".to_owned(),
        Reason::MalformedAnswers => "three answers in a row could not be used".to_owned(),
        Reason::BudgetSpent(which) => {
            format!("the budget of {which} does not allow another call; --budget raises it")
        }
        Reason::TestsProveNothing => "the tests pass on wrong versions of the code as well".to_owned(),
        Reason::Overtaken => "another candidate was accepted".to_owned(),
        Reason::EndpointUnavailable(why) => printable_line(why),
        Reason::Aborted => "aborted".to_owned(),
    }
}

fn of(good: u64, all: u64) -> String {
    format!("{good} of {all}")
}

fn line(candidate: &CandidateReport, row: &IterationRow) -> String {
    let asked = match row.ask {
        Ask::First => "first",
        Ask::Again => "again",
        Ask::Repair => "repair",
        Ask::Fresh => "fresh sample",
    };
    let answer = row.iteration.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let start = format!("  {:<10} {answer:<7} {asked:<13}", candidate.number);
    match (&row.unusable, &row.tests, row.score) {
        (Some(why), ..) => {
            let why: String = printable_line(&why.replace('\n', " ")).chars().take(MAX_WHY_CHARS).collect();
            format!("{start} not usable: {why}\n")
        }
        (None, Some(tests), Some(score)) => {
            let run = tests.run.as_deref().unwrap_or("-");
            let result = match tests.verdict {
                Verdict::Quarantined => "refused".to_owned(),
                _ => of(tests.good, tests.of),
            };
            format!("{start} {result:<11} {score:<6} {run}\n")
        }
        _ => format!("{start}\n"),
    }
}

fn cost(report: &SessionReport) -> String {
    let usage = &report.usage;
    let calls = if usage.calls == 1 { "call" } else { "calls" };
    let more = if usage.uncounted > 0 { "+" } else { "" };
    let mut text = format!("{} {calls}, {}{more} tokens", usage.calls, usage.tokens);
    if usage.dollars > 0.0 {
        text.push_str(&format!(", ${:.4}", usage.dollars));
    }
    for (count, word) in
        [(usage.free, "free"), (usage.unknown, "of unknown cost"), (usage.without_reply, "without a reply")]
    {
        if count > 0 {
            text.push_str(&format!(", {count} {word}"));
        }
    }
    format!("{text}, {:.1} s", report.seconds)
}

/// The list of sessions.
pub fn list(list: &SessionList) -> String {
    let line = |session: &hotcell_agents::report::SessionEntry| {
        format!(
            "{}  {}  {:<4} {:<11} {}\n",
            session.id,
            session.started,
            session.kind,
            session.state,
            printable_line(&session.project)
        )
    };
    list.sessions.iter().map(line).collect()
}
