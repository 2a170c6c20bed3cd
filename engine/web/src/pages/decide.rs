//! One request or artifact, with its whole text, and the decision.
//!
//! No is offered first and has the focus. Yes is offered behind the end of the text, and its token is given with the last
//! part only; each part but the first needs the token of the part before it.

use std::time::Duration;

use hotcell_guard::Finding;
use hotcell_learn::Suggested;
use hotcell_plugins::grant_check;
use hotcell_review::Approvals;
use hotcell_review::approvals::{Approval, ApprovalSubject};
use hotcell_review::quarantine::{Item, QuarantineService};
use hotcell_sandbox::text::counted;
use hotcell_sandbox::units::parse_duration;
use hotcell_state::report::{Code, ErrorReport};
use maud::{Markup, html};

use super::{Page, Shown};
use crate::form::{Fields, query};
use crate::frame::{Failure, Tab, Visit, seconds, table};
use crate::say::{beginning, in_options, said};
use crate::seal::Purpose;
use crate::site::{Site, SuggestionDecision};
use crate::subject::{Kind, Subject};
use crate::text::{Part, Place, part};

/// Maximum number of findings, names and hosts in a list; the text and the command line have all.
const MAX_LISTED: usize = 30;
/// Maximum number of suggested rules in the table.
const MAX_RULES: usize = 200;
/// Maximum length in bytes of a rule's name that is not broken into lines: longer than those of the guard's own rules.
const MAX_UNBROKEN: usize = 40;
/// Maximum length of a text in a list, in characters.
const MAX_LISTED_CHARS: usize = 300;
/// Times that a yes can last.
const LIFETIMES: [(&str, &str); 4] =
    [("1h", "an hour"), ("1d", "a day"), ("7d", "a week"), ("30d", "30 days")];

pub fn show(site: &Site, visit: &Visit, kind: &str, id: &str, fields: &Fields) -> Shown {
    let kind = Kind::named(kind).ok_or_else(Failure::nowhere)?;
    let subject = Subject::read(site, &site.configuration()?, kind, id)?;
    let shown = subject.shown();
    let from = match fields.given("from") {
        None => Place::default(),
        Some(token) => match site.seal.open(&visit.session, Purpose::Part, &shown, token) {
            Some(place) => Place::parse(&place),
            None => return Err(stale(&subject)),
        },
    };
    let part = part(&subject.sections, &|at| subject.load(at), from)?;
    let body = html! {
        (facts(&subject))
        (no(site, visit, &subject, &shown, from == Place::default()))
        @if let Some(item) = &subject.item { (findings(item)) }
        @if let Some(one) = &subject.suggested { (rules(one)) }
        section #text aria-label="The whole text" {
            h2 { "The whole text" }
            @if part.escapes > 0 {
                p.warn {
                    "Characters of this part that are invisible, change the reading order or control a terminal: " (part.escapes) ". Written as "
                    mark { "\\u{…}" } "."
                }
            }
            @if subject.sections.is_empty() && kind != Kind::Tools { p.note { "Nothing of it is kept." } }
            div #part { (part.html) }
            (end(site, visit, &subject, &shown, &part))
        }
    };
    let title = match (kind, subject.waits()) {
        (Kind::Request, true) => "A request waits",
        (Kind::Request, false) => "A request",
        (Kind::Item, true) => "An artifact waits",
        (Kind::Item, false) => "An artifact",
        (Kind::Tools, _) => "Tools of a server",
        (Kind::Suggestion, _) => "A suggested policy waits",
    };
    Ok(Page { tab: Some(Tab::Waiting), title: title.to_owned(), body })
}

/// Facts: what would be allowed, for whom, how long; and what was decided.
fn facts(subject: &Subject) -> Markup {
    let mut rows: Vec<(&str, Markup)> = Vec::new();
    if let Some(request) = &subject.request {
        rows.push(("Asked by", said(&request.asked_by)));
        rows.push(("A yes allows", allows(request)));
        rows.push((
            "Why",
            match &request.reason {
                Some(reason) => said(reason),
                None => html! { "The caller gave no reason." },
            },
        ));
        rows.push(("Asked", html! {
            (seconds(&request.created)) ", " (request.asked) @if request.asked == 1 { " time" } @else { " times" }
            ". Without a decision it ends " (seconds(&request.expires)) "."
        }));
        rows.push(("Digest", html! { code { (request.digest) } }));
        rows.push(("State", html! { (request.state.name()) }));
        if let Some(word) = &request.decision {
            rows.push(("Decided", html! {
                (request.state.name()) " by " (said(&word.by)) " over " (said(&word.channel)) ", " (seconds(&word.time))
                @if !word.reason.is_empty() { ": " (said(&word.reason)) }
            }));
        }
    }
    if let Some(item) = &subject.item {
        rows.extend(about(item, subject.kind));
    }
    if let Some(server) = &subject.server {
        rows.push(("Server", said(&server.name)));
        if !server.command.is_empty() {
            rows.push((
                "Command",
                html! { code { (beginning(&server.command.join(" "), MAX_LISTED_CHARS)) } },
            ));
        }
        rows.push(("A yes allows", html! {
            "Agents see and call exactly the tools below, and read the server's words in parentheses, beside what was accepted before and is as it was."
        }));
        if !server.held.is_empty() {
            rows.push(("Held", html! {
                (server.held.len() - server.changed.len()) " new, " (server.changed.len()) " changed since they were accepted"
            }));
        }
    }
    if let Some(one) = &subject.suggested {
        rows.push(("A yes allows", said(&one.allows)));
        rows.push(("For whom", said(&one.whom)));
        rows.push(("Wanted by", beginning(&one.wanted_by, MAX_LISTED_CHARS)));
        rows.push(("Since", html! { (seconds(&one.since)) }));
    }
    html! { dl.facts { @for (name, value) in &rows { dt { (name) } dd { (value) } } } }
}

fn allows(request: &Approval) -> Markup {
    let listed = |all: &[String]| {
        html! {
            ul {
                @for one in all.iter().take(MAX_LISTED) { li { (beginning(one, MAX_LISTED_CHARS)) } }
                @if all.len() > MAX_LISTED { li { (all.len() - MAX_LISTED) " more, which are in the text below" } }
            }
        }
    };
    match &request.detail {
        ApprovalSubject::Release { item, language, .. } => html! {
            "One run of the artifact " (said(item)) @if let Some(language) = language { " as " (said(language)) }
            ", by this caller alone. It runs in the sandbox."
        },
        ApprovalSubject::Grant { plugin, tool, capabilities, .. } => html! {
            "One call of " (beginning(tool, MAX_LISTED_CHARS)) " of the plugin " (beginning(plugin, MAX_LISTED_CHARS))
            ", with exactly the arguments below, may use:" (listed(capabilities))
        },
        ApprovalSubject::Network { tool, hosts, .. } => html! {
            "One " (beginning(tool, MAX_LISTED_CHARS)) ", exactly as below, may reach:" (listed(hosts))
        },
        ApprovalSubject::Protected { workspace, folder, paths, total, .. } => html! {
            "One commit of the workspace " (beginning(workspace, MAX_LISTED_CHARS)) " to "
            (beginning(folder, MAX_LISTED_CHARS)) " takes over exactly the changes below, with " (total)
            " protected names:" (listed(paths))
        },
    }
}

fn about(item: &Item, kind: Kind) -> Vec<(&'static str, Markup)> {
    let mut rows = Vec::new();
    if kind == Kind::Item {
        rows.push(("A yes allows", html! {
            "Runs of exactly these bytes" @if let Some(language) = &item.language { " as " (said(language)) }
            ", by anybody on this host who uses this state folder, as often and as long as you say at the end of the text. They run in the sandbox."
        }));
    }
    rows.push(("Artifact", html! { (item.id) ", " (item.bytes) " bytes, " code { (item.sha256) } }));
    rows.push((
        "Names",
        html! {
            @for (at, name) in item.names.iter().take(MAX_LISTED).enumerate() {
                @if at > 0 { ", " } (beginning(name, MAX_LISTED_CHARS))
            }
            @if item.names.len() > MAX_LISTED { " and " (item.names.len() - MAX_LISTED) " more" }
        },
    ));
    rows.push((
        "Verdict",
        html! { strong { (item.verdict.name()) } ", " (counted(item.findings_total, "finding")) },
    ));
    rows.push((
        "Refused",
        html! {
            (item.seen) @if item.seen == 1 { " time" } @else { " times" } ", last " (seconds(&item.last_seen))
        },
    ));
    if let Some(word) = &item.request {
        rows.push(("Asked for", html! {
            "by " (said(&word.by)) " over " (said(&word.channel)) ", " (seconds(&word.time)) ": " (said(&word.reason))
        }));
    }
    let not_kept: Vec<_> = item.files.iter().filter(|file| file.not_kept.is_some()).collect();
    if !not_kept.is_empty() || item.left_out > 0 {
        rows.push(("Not kept", html! {
            ul {
                @for file in not_kept.iter().take(MAX_LISTED) {
                    li { (beginning(&file.part, MAX_LISTED_CHARS)) ": " (said(file.not_kept.as_deref().unwrap_or_default())) }
                }
                @let more = not_kept.len().saturating_sub(MAX_LISTED) as u64 + item.left_out;
                @if more > 0 { li { (more) " more" } }
            }
        }));
    }
    if kind == Kind::Item {
        rows.push(("State", html! { (item.state.name().replace('_', " ")) }));
        if let Some(word) = &item.decision {
            rows.push(("Decided", html! {
                "by " (said(&word.by)) " over " (said(&word.channel)) ", " (seconds(&word.time)) ": " (said(&word.reason))
            }));
        }
    }
    if let Some(release) = &item.release {
        rows.push((
            "Released",
            html! {
                "for " (release.uses) " more " @if release.uses == 1 { "run" } @else { "runs" } ", until " (seconds(&release.expires))
                @if let Some(only) = &release.only { ", for " (said(only)) " alone" }
            },
        ));
    }
    rows
}

/// Findings of one rule in one file stand in one row, so that many of them hide no other.
fn grouped(findings: &[Finding]) -> Vec<(&Finding, usize)> {
    let mut groups: Vec<(&Finding, usize)> = Vec::new();
    for one in findings {
        let same = |(other, _): &&mut (&Finding, usize)| {
            (other.severity, &other.rule, &other.part) == (one.severity, &one.rule, &one.part)
        };
        match groups.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => groups.push((one, 1)),
        }
    }
    groups
}

fn findings(item: &Item) -> Markup {
    let row = |(one, count): &(&Finding, usize)| {
        let place = if one.line > 0 { format!("{}:{}", one.part, one.line) } else { one.part.clone() };
        vec![
            html! { (format!("{:?}", one.severity).to_lowercase()) },
            html! { span.n[one.rule.len() <= MAX_UNBROKEN] { (beginning(&one.rule, MAX_LISTED_CHARS)) } },
            html! {
                (beginning(&place, MAX_LISTED_CHARS))
                @if *count > 1 { " and " (count - 1) " more " @if *count == 2 { "place" } @else { "places" } }
            },
            html! { (beginning(&one.message, MAX_LISTED_CHARS)) },
        ]
    };
    let groups = grouped(&item.findings);
    let rows: Vec<_> = groups.iter().take(MAX_LISTED).map(row).collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Findings of the guard" }
            (table("Findings of the guard", &["Severity", "Rule", "Place", "Message"], &rows))
            @if groups.len() > MAX_LISTED {
                p.note { (groups.len() - MAX_LISTED) " more, by rule and file: hotcell quarantine show " (item.id) }
            }
        }
    }
}

/// Rules of a suggestion, and denied things that it does not have.
fn rules(one: &Suggested) -> Markup {
    let row = |rule: &[String; 3]| rule.iter().map(|cell| beginning(cell, MAX_LISTED_CHARS)).collect();
    let rows: Vec<Vec<Markup>> = one.rules.iter().take(MAX_RULES).map(row).collect();
    html! {
        h2 { "Would be allowed" }
        (table("Would be allowed", &["Rule", "Opens", "Wanted by"], &rows))
        @if one.rules.len() > MAX_RULES { p.note { (one.rules.len() - MAX_RULES) " more, which are in the text below" } }
        @if !one.refused.is_empty() {
            h2 { "Denied, and not suggested" }
            ul {
                @for [thing, why] in one.refused.iter().take(MAX_LISTED) {
                    li { (beginning(thing, MAX_LISTED_CHARS)) ": " (said(&in_options(why))) }
                }
                @if one.refused.len() > MAX_LISTED { li { (one.refused.len() - MAX_LISTED) " more" } }
            }
        }
    }
}

fn address(subject: &Subject) -> String {
    format!("/waiting/{}/{}", subject.kind.name(), subject.id())
}

/// The form of a no; it has the focus when the page opens.
fn no(site: &Site, visit: &Visit, subject: &Subject, shown: &str, focus: bool) -> Markup {
    if subject.kind == Kind::Tools {
        return html! {
            p.box.no {
                @if subject.waits() { "Without a yes they stay hidden from agents; there is nothing to do for a no." }
                @else { "Nothing is held." }
            }
        };
    }
    let (word, needs_reason) = match (subject.can_be_taken_back(), subject.kind) {
        (true, _) => ("Take it back", subject.kind == Kind::Item),
        (false, Kind::Request) => ("Deny", false),
        (false, Kind::Suggestion) => ("Drop it", false),
        (false, Kind::Item | Kind::Tools) => ("Reject", true),
    };
    if !(subject.waits() || subject.can_be_taken_back()) {
        return html! { p.box { "It is decided; there is nothing to do here." } };
    }
    if !visit.decides() {
        return html! { p.box { "This session is for reading; a link for deciding is needed." } };
    }
    html! {
        form.box.no method="post" action=(format!("{}/no", address(subject))) {
            input type="hidden" name="seen" value=(site.seal.seal(&visit.session, Purpose::Seen, shown, ""));
            label { "Reason" @if !needs_reason { " (may be empty)" }
                input name="reason" maxlength="1000" autocomplete="off" value=(if needs_reason { "read on the page" } else { "" });
            }
            button.no autofocus[focus] { (word) }
            span.note { @if subject.kind == Kind::Suggestion { "Nothing is written or granted." } @else { "It stays refused." } }
        }
    }
}

/// Behind the text: the way to the next part, or the form of a yes.
fn end(site: &Site, visit: &Visit, subject: &Subject, shown: &str, part: &Part) -> Markup {
    if let Some(next) = part.next {
        let token = site.seal.seal(&visit.session, Purpose::Part, shown, &next.to_string());
        let left: u64 = subject.sections.iter().skip(next.section).map(|section| section.bytes).sum();
        let left = left.saturating_sub(next.offset as u64);
        return html! {
            div #end {
                p { a #next rel="next" href=(format!("{}{}", address(subject), query(&[("from", &token)]))) {
                    "Next part"
                } " · " (counted(left, "byte")) " left. A yes is offered at the end." }
            }
        };
    }
    if !subject.waits() || !visit.decides() {
        return html! { div #end { p.note { "This is the end of the text." } } };
    }
    if let Some(why) = subject.obstacle() {
        return html! { div #end { p.box { "There is no yes here: " (said(&in_options(&why))) "." } } };
    }
    let word = match subject.kind {
        Kind::Request => "Allow it once",
        Kind::Item => "Release it",
        Kind::Tools => "Accept them",
        Kind::Suggestion => "Allow all of it",
    };
    html! {
        div #end {
            form.box.yes method="post" action=(format!("{}/yes", address(subject))) {
                p { "This is the end of the text." }
                input type="hidden" name="read" value=(site.seal.seal(&visit.session, Purpose::Read, shown, ""));
                @if subject.kind != Kind::Tools {
                    label { "Reason" @if subject.kind != Kind::Item { " (may be empty)" }
                        input name="reason" maxlength="1000" autocomplete="off" required[subject.kind == Kind::Item];
                    }
                    @if subject.kind != Kind::Suggestion {
                        label { "For"
                            select name="lasts" {
                                @for (value, name) in LIFETIMES {
                                    option value=(value) selected[value == "1d"] { (name) }
                                }
                            }
                        }
                    }
                }
                @if subject.kind == Kind::Item {
                    label { "Runs" input name="uses" type="number" min="1" max="1000" value="1"; }
                }
                button.yes { (word) }
            }
        }
    }
}

/// A decision that was asked for on a page that showed something else.
fn stale(subject: &Subject) -> Failure {
    let message = match (subject.waits(), &subject.request, &subject.item) {
        (false, Some(request), _) => match &request.decision {
            Some(word) => format!(
                "It was decided already: {} by {} over {}, {}.",
                request.state.name(),
                word.by,
                word.channel,
                seconds(&word.time)
            ),
            None => format!("It is {} already.", request.state.name()),
        },
        (false, None, None) => "Nothing is held any more.".to_owned(),
        (false, None, Some(item)) => match &item.decision {
            Some(word) => format!(
                "It was decided already: {} by {} over {}, {}.",
                item.state.name(),
                word.by,
                word.channel,
                seconds(&word.time)
            ),
            None => format!("It is {} already.", item.state.name()),
        },
        _ => "It is not as that page showed it, or the page was not read to its end.".to_owned(),
    };
    Failure { status: 409, title: "Nothing was changed", message, hint: None }
}

/// A decision that was carried out.
#[derive(Debug)]
pub struct Decided {
    /// Address of the page that shows it.
    pub address: String,
}

/// Carries out a decision from `POST /waiting/KIND/ID/yes` or `no`.
pub fn decide(site: &Site, visit: &Visit, path: &str, fields: &Fields) -> Result<Decided, Failure> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    if parts == ["waiting", "deny"] {
        return deny(site, visit, fields);
    }
    let ["waiting", kind, id, word] = parts[..] else { return Err(Failure::nowhere()) };
    let kind = Kind::named(kind).ok_or_else(Failure::nowhere)?;
    let (purpose, token) = match word {
        "yes" => (Purpose::Read, fields.get("read")),
        "no" => (Purpose::Seen, fields.get("seen")),
        _ => return Err(Failure::nowhere()),
    };
    let _turn = site.deciding.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let configuration = site.configuration_for(visit.channel())?;
    let subject = Subject::read(site, &configuration, kind, id)?;
    if site.seal.open(&visit.session, purpose, &subject.shown(), token).is_none() {
        return Err(stale(&subject));
    }
    let (id, reason) = (subject.id(), fields.given("reason"));
    match (kind, word) {
        (Kind::Request, "yes") => {
            possible(&subject)?;
            let lasts = lasts(fields)?;
            let item = subject.item.as_ref().map(|item| item.shown.as_str());
            let check = grant_check(&configuration);
            Approvals::of(&configuration)?.approve_as_shown(id, item, reason, Some(lasts), &check)?;
        }
        (Kind::Request, _) => {
            Approvals::of(&configuration)?.deny(id, reason)?;
        }
        (Kind::Tools, "yes") => {
            possible(&subject)?;
            let shown = subject.server.as_ref().map_or("", |server| server.shown.as_str());
            (site.sources.accept)(id, shown, visit.channel())?;
        }
        (Kind::Suggestion, word) => {
            let shown = subject.suggested.as_ref().map_or_else(String::new, |one| one.shown.clone());
            let reason = reason.map(str::to_owned);
            let yes = word == "yes";
            let (id, channel) = (id.to_owned(), visit.channel());
            (site.sources.decide_suggested)(SuggestionDecision { id, shown, yes, reason, channel })?;
            return Ok(Decided { address: "/waiting".to_owned() });
        }
        (Kind::Tools, _) => return Err(Failure::nowhere()),
        (Kind::Item, "yes") => {
            possible(&subject)?;
            let uses = fields.given("uses").unwrap_or("1").parse().map_err(|_| {
                ErrorReport::new(Code::InvalidValue, "the number of runs is a number from 1 to 1000")
            })?;
            let office = QuarantineService::of(&configuration, None)?;
            let (shown, reason) =
                (subject.item.as_ref().map(|item| item.shown.as_str()), reason.unwrap_or_default());
            office.release(id, shown, reason, Some(lasts(fields)?), Some(uses))?;
        }
        (Kind::Item, _) => {
            let (shown, reason) =
                (subject.item.as_ref().map(|item| item.shown.as_str()), reason.unwrap_or_default());
            QuarantineService::of(&configuration, None)?.reject(id, shown, reason)?;
        }
    }
    Ok(Decided { address: address(&subject) })
}

/// Whether a request can be denied together with others of its kind: not one for a release.
pub fn is_pickable(request: &Approval) -> bool {
    !matches!(request.detail, ApprovalSubject::Release { .. })
}

/// Denies several requests of one kind: all of them, or none where one is not as it was shown.
fn deny(site: &Site, visit: &Visit, fields: &Fields) -> Result<Decided, Failure> {
    let not = |message: &str| Failure {
        status: 409,
        title: "Nothing was changed",
        message: message.to_owned(),
        hint: None,
    };
    let _turn = site.deciding.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let configuration = site.configuration_for(visit.channel())?;
    let mut all: Vec<Approval> = Vec::new();
    for pick in fields.all("pick") {
        let (id, token) = pick.split_once('.').ok_or_else(Failure::nowhere)?;
        let subject = Subject::read(site, &configuration, Kind::Request, id)?;
        if site.seal.open(&visit.session, Purpose::Seen, &subject.shown(), token).is_none()
            || !subject.waits()
        {
            return Err(stale(&subject));
        }
        let request = subject.request.filter(is_pickable);
        let request = request.ok_or_else(|| not("A request for a release is decided on its own page."))?;
        if all.first().is_some_and(|first| first.kind != request.kind) {
            return Err(not("The picked requests are of several kinds: pick those of one kind."));
        }
        if all.iter().all(|other| other.id != request.id) {
            all.push(request);
        }
    }
    if all.is_empty() {
        return Err(not("No request was picked."));
    }
    let desk = Approvals::of(&configuration)?;
    for request in &all {
        desk.deny(&request.id, fields.given("reason"))?;
    }
    Ok(Decided { address: "/waiting".to_owned() })
}

fn possible(subject: &Subject) -> Result<(), Failure> {
    match subject.obstacle().filter(|_| subject.waits()) {
        None if subject.waits() => Ok(()),
        None => Err(stale(subject)),
        Some(why) => Err(Failure { status: 409, title: "Not possible", message: why, hint: None }),
    }
}

fn lasts(fields: &Fields) -> Result<Duration, Failure> {
    parse_duration(fields.given("lasts").unwrap_or("1d"))
        .map_err(|why| ErrorReport::new(Code::InvalidValue, format!("the time is not one: {why}")).into())
}
