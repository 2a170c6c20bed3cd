//! A subject of a decision: what a yes would allow, for whom, and the whole text that it is about.

use hotcell_config::Configuration;
use hotcell_guard::quarantine::State as Held;
use hotcell_learn::Suggested;
use hotcell_review::Approvals;
use hotcell_review::approvals::{Approval, ApprovalSubject, State};
use hotcell_review::quarantine::{Item, QuarantineService};
use hotcell_state::report::{Code, ErrorReport};

use crate::site::{Site, WrappedServer};
use crate::text::Section;

/// Kind of what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A caller's request.
    Request,
    /// A refused artifact.
    Item,
    /// Tools of a foreign MCP server that are held.
    Tools,
    /// A policy or grants that were learnt from what was denied.
    Suggestion,
}

impl Kind {
    /// Name in addresses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Item => "item",
            Self::Tools => "tools",
            Self::Suggestion => "suggestion",
        }
    }

    /// Finds a kind by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Request, Self::Item, Self::Tools, Self::Suggestion]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Where a section's bytes are.
#[derive(Debug)]
enum Content {
    Text(String),
    Object(String),
}

/// Something that waits, or that was decided.
#[derive(Debug)]
pub struct Subject {
    pub kind: Kind,
    pub request: Option<Approval>,
    /// The item, or the item that a request is about.
    pub item: Option<Item>,
    /// The server whose tools are held.
    pub server: Option<WrappedServer>,
    /// The suggestion.
    pub suggested: Option<Suggested>,
    pub sections: Vec<Section>,
    contents: Vec<Content>,
    office: QuarantineService,
}

impl Subject {
    /// Reads it by its id.
    ///
    /// # Errors
    /// A report when it is not found, or cannot be read.
    pub fn read(
        site: &Site,
        configuration: &Configuration,
        kind: Kind,
        id: &str,
    ) -> Result<Self, ErrorReport> {
        let office = QuarantineService::of(configuration, None)?;
        let (request, item, server, suggested) = (None, None, None, None);
        let (sections, contents) = (Vec::new(), Vec::new());
        let mut subject = Self { kind, request, item, server, suggested, sections, contents, office };
        match kind {
            Kind::Request => {
                let request = Approvals::of(configuration)?.show(id)?;
                let words = std::iter::once(request.detail.sentence()).chain(request.detail.lines());
                let words: String = words.map(|line| line + "\n").collect();
                subject.add("The request, in the caller's own words", &words);
                if let ApprovalSubject::Release { item, artifact, .. } = &request.detail {
                    subject.item = subject.office.show(item).ok().filter(|item| item.sha256 == *artifact);
                }
                subject.request = Some(request);
            }
            Kind::Item => subject.item = Some(subject.office.show(id)?),
            Kind::Tools => {
                let server = (site.sources.servers)()?.into_iter().find(|server| server.name == id);
                let server = server.ok_or_else(|| {
                    ErrorReport::new(Code::UnknownName, format!("there is no wrapped server {id:?}"))
                })?;
                for (name, tool) in &server.held {
                    // A server's words about itself are a text.
                    let whole = match tool {
                        serde_json::Value::String(words) => words.clone(),
                        tool => serde_json::to_string_pretty(tool).unwrap_or_default(),
                    };
                    match server.changed.get(name) {
                        Some(lines) => {
                            subject.add(&format!("{name}: lines that changed"), lines);
                            subject.add(&format!("{name}: as it is now"), &whole);
                        }
                        None => subject.add(&format!("{name}: new"), &whole),
                    }
                }
                subject.server = Some(server);
            }
            Kind::Suggestion => {
                let one = site.suggested()?.into_iter().find(|one| one.id == id);
                let one = one.ok_or_else(|| {
                    ErrorReport::new(
                        Code::UnknownName,
                        format!("no suggestion {id:?} waits: it was decided, or never there"),
                    )
                })?;
                subject.add("The text that a yes writes", &one.text);
                subject.suggested = Some(one);
            }
        }
        let there = subject.item.as_ref().filter(|item| item.state != Held::Purged);
        for file in there.map(|item| item.files.clone()).unwrap_or_default() {
            if file.not_kept.is_none() {
                subject.sections.push(Section { title: file.part, bytes: file.bytes });
                subject.contents.push(Content::Object(file.sha256));
            }
        }
        Ok(subject)
    }

    fn add(&mut self, title: &str, text: &str) {
        self.sections.push(Section { title: title.to_owned(), bytes: text.len() as u64 });
        self.contents.push(Content::Text(text.to_owned()));
    }

    /// Bytes of a section.
    ///
    /// # Errors
    /// A report when a stored file cannot be read, or does not match its digest.
    pub fn load(&self, at: usize) -> Result<Vec<u8>, ErrorReport> {
        match self.contents.get(at) {
            Some(Content::Text(text)) => Ok(text.clone().into_bytes()),
            Some(Content::Object(sha256)) => self.office.content(sha256),
            None => Ok(Vec::new()),
        }
    }

    /// Whole id.
    pub fn id(&self) -> &str {
        match (&self.request, &self.item, &self.server) {
            (Some(request), _, _) => &request.id,
            (None, Some(item), _) => &item.id,
            (None, None, Some(server)) => &server.name,
            (None, None, None) => self.suggested.as_ref().map_or("", |one| &one.id),
        }
    }

    /// Whether the subject waits for a decision.
    pub fn waits(&self) -> bool {
        match (&self.request, &self.item) {
            (Some(request), _) => request.state == State::Pending,
            (None, Some(item)) => matches!(item.state, Held::Held | Held::UnderReview),
            (None, None) => {
                self.suggested.is_some() || self.server.as_ref().is_some_and(|server| !server.held.is_empty())
            }
        }
    }

    /// Whether an earlier yes can be taken back.
    pub fn can_be_taken_back(&self) -> bool {
        match (&self.request, &self.item) {
            (Some(request), _) => request.state == State::Approved,
            (None, Some(item)) => item.state == Held::Released,
            (None, None) => false,
        }
    }

    /// Why there is no yes on the page, whatever was read; `None` when there is one at the end of the text.
    pub fn obstacle(&self) -> Option<String> {
        if let Some(request) = &self.request {
            if !request.detail.is_whole() {
                return Some(
                    "only the beginning of it was kept by an earlier release: let the call be made again"
                        .to_owned(),
                );
            }
            if !matches!(request.detail, ApprovalSubject::Release { .. }) {
                return None;
            }
        }
        if self.server.is_some() || self.suggested.is_some() {
            return None;
        }
        let Some(item) = &self.item else {
            return Some("the item that it is about is not there any more, or is another one".to_owned());
        };
        if let Some(why) = &item.unreleasable {
            return Some(format!("it cannot be released: {why}"));
        }
        if !item.current {
            return Some(
                "it was scanned under other rules and cannot be scanned again: run it again".to_owned(),
            );
        }
        let not_kept =
            item.files.iter().filter(|file| file.not_kept.is_some()).count() as u64 + item.left_out;
        if not_kept > 0 {
            return Some(format!(
                "{not_kept} of its files are not kept, so that the page cannot show all of it: hotcell quarantine release {} \
                 --reason TEXT decides on the command line",
                item.id
            ));
        }
        if item.files.is_empty() {
            return Some(format!(
                "nothing of it is kept, so that the page cannot show it: hotcell quarantine release {} --reason TEXT decides on \
                 the command line",
                item.id
            ));
        }
        None
    }

    /// All that a decision depends on, as text: a decision on a page that showed something else is refused. Without
    /// counts and times that change whenever a caller asks again, and without the difference between held and asked
    /// for, so that a caller cannot make each page stale.
    pub fn shown(&self) -> String {
        let request = self.request.as_ref().map(|one| {
            serde_json::json!([one.id, one.state, one.asked_by, one.detail, one.reason, one.decision])
        });
        let item = self.item.as_ref().map(|one| {
            let waits = matches!(one.state, Held::Held | Held::UnderReview);
            let state = if waits { "waits" } else { one.state.name() };
            serde_json::json!([
                one.id,
                one.sha256,
                state,
                one.language,
                one.verdict,
                one.findings,
                one.policy,
                one.current,
                one.files,
                one.left_out,
                one.unreleasable,
                one.decision,
                one.release
            ])
        });
        let server = self.server.as_ref().map(|one| (&one.name, &one.shown, &one.command, &one.grants));
        let suggested = self.suggested.as_ref().map(|one| (&one.id, &one.shown, &one.text));
        serde_json::json!([self.kind.name(), request, item, server, suggested]).to_string()
    }
}
