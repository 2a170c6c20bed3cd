//! The frame of every page: head, navigation, foot. Its words are hotcell's own.

use hotcell_guard::quarantine::Channel;
use hotcell_state::report::{Code, ErrorReport};
use maud::{DOCTYPE, Markup, html};

use crate::say::{in_options, said};
use crate::seal::Purpose;
use crate::sessions::Role;
use crate::site::Site;

/// The reader of a page.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Permissions of the session.
    pub role: Role,
    /// Secret of the session; in team mode a name that no session has.
    pub session: String,
    /// The person, in team mode.
    pub person: Option<String>,
}

impl Visit {
    /// Channel of the decisions.
    pub fn channel(&self) -> Channel {
        self.person.clone().map_or(Channel::Web, Channel::Team)
    }

    /// Whether decisions are offered.
    pub fn decides(&self) -> bool {
        self.role == Role::Decider
    }
}

/// Places of the navigation, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Waiting,
    Runs,
    Tests,
    Agents,
    Tools,
    Doctor,
    Usage,
}

const TABS: [(Tab, &str, &str); 7] = [
    (Tab::Waiting, "/waiting", "Waiting"),
    (Tab::Runs, "/runs", "Runs"),
    (Tab::Tests, "/tests", "Tests"),
    (Tab::Agents, "/agents", "Agents"),
    (Tab::Tools, "/tools", "Tools and servers"),
    (Tab::Doctor, "/doctor", "This host"),
    (Tab::Usage, "/usage", "Usage"),
];

/// An answer that is not a page as asked for.
#[derive(Debug)]
pub struct Failure {
    /// Status.
    pub status: u16,
    /// Title, of hotcell's own words.
    pub title: &'static str,
    /// Message; it may contain untrusted text.
    pub message: String,
    /// Advice.
    pub hint: Option<String>,
}

impl Failure {
    /// No such page.
    pub fn nowhere() -> Self {
        Self { status: 404, title: "Not found", message: "There is no such page.".to_owned(), hint: None }
    }
}

impl From<ErrorReport> for Failure {
    fn from(report: ErrorReport) -> Self {
        let (status, title) = match report.code {
            Code::UnknownName => (404, "Not found"),
            Code::InvalidValue | Code::NeedsApproval | Code::Refused => (409, "Not possible"),
            Code::Busy => (503, "Busy"),
            _ => (500, "It cannot be read"),
        };
        Self { status, title, message: report.message, hint: report.hint }
    }
}

fn head(title: &str, onward: Option<&str>) -> Markup {
    html! {
        head {
            @if let Some(path) = onward { meta http-equiv="refresh" content=(format!("0; url={path}")); }
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · hotcell" }
            link rel="stylesheet" href="/style.css";
            link rel="icon" href="/icon.svg" type="image/svg+xml";
            script src="/script.js" defer {}
        }
    }
}

/// A page. `waiting` is the number in the navigation, `None` where it cannot be told.
pub fn page(
    site: &Site,
    visit: &Visit,
    (tab, title): (Option<Tab>, &str),
    waiting: Option<u64>,
    body: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                a.skip href="#main" { "To the content" }
                header {
                    strong { "hotcell" }
                    nav aria-label="Pages" {
                        ul {
                            @for (of, path, name) in TABS {
                                li {
                                    a href=(path) aria-current=[(tab == Some(of)).then_some("page")] {
                                        (name)
                                        @if let (Tab::Waiting, Some(waiting)) = (of, waiting) {
                                            @if waiting > 0 { " " span.count { (waiting) span.hidden { " waiting" } } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                main id="main" tabindex="-1" {
                    h1 { (title) }
                    p #news role="status" {}
                    (body)
                }
                footer {
                    @if let Some(person) = &visit.person {
                        p {
                            "You are " strong { (said(person)) }
                            @if visit.decides() { ", and decide in this name." } @else { ", and may read." }
                        }
                    } @else {
                        form method="post" action="/leave" {
                            input type="hidden" name="token" value=(site.seal.seal(&visit.session, Purpose::Change, "", ""));
                            @if visit.decides() { "This session decides. " } @else { "This session is for reading. " }
                            button { "End it" }
                        }
                    }
                }
            }
        }
    }
}

/// A page for those without a session: a message, and possibly a way on.
pub fn bare(title: &str, message: &str, onward: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, onward))
            body {
                main id="main" {
                    h1 { (title) }
                    p { (message) }
                    @if let Some(path) = onward { p { a href=(path) { "Go on" } } }
                }
            }
        }
    }
}

/// The body of an answer that is not a page as asked for.
pub fn failure(failure: &Failure, back: &str) -> Markup {
    html! {
        div.box.bad {
            p { (said(&in_options(&failure.message))) }
            @if let Some(hint) = &failure.hint { p { (said(&in_options(hint))) } }
        }
        p { a href=(back) { "Look at it as it is now" } }
    }
}

/// A table that is wider than a narrow screen: it scrolls in its own frame, by keyboard too.
pub fn table(label: &str, heads: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table class=[(heads.len() > 3).then_some("broad")] {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// Links to the pages before and after this one of a long list.
pub fn pages(at: u64, each: u64, total: u64, address: &dyn Fn(u64) -> String) -> Markup {
    let last = total.div_ceil(each).max(1);
    html! {
        @if last > 1 {
            nav.pages aria-label="Pages of the list" {
                @if at > 1 { a href=(address(at - 1)) rel="prev" { "Newer" } }
                span { "Page " (at) " of " (last) " · " (total) " in all" }
                @if at < last { a href=(address(at + 1)) rel="next" { "Older" } }
            }
        }
    }
}

/// A time without its fraction.
pub fn seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, _)) => whole.replace('T', " ") + "Z",
        None => time.to_owned(),
    }
}
