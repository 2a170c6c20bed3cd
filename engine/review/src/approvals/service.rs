//! Steps of approvals for front ends: for a caller, who asks and uses, and for a person, who decides.

use std::time::Duration;

use hotcell_config::{AskedBy, Configuration};
use hotcell_guard::quarantine::{Channel, State as Held};
use hotcell_state::actor::Actor;
use hotcell_state::database::retry_while_busy;
use hotcell_state::ids::{PrefixMatch, random_hex, resolve_prefix};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_tools::install::sources::sha256;
use rusqlite::Connection;

use crate::permission::rows::{self, Row, now};
use crate::permission::state::{By, Illegal, Step, next};
use crate::permission::{
    Approval, ApprovalSubject, DEFAULT_LIFETIME, MAX_LIFETIME, MAX_PENDING_PER_CALLER, MAX_PENDING_REQUESTS,
    State,
};
use crate::quarantine::service::{of_quarantine, reasoned};
use crate::quarantine::{Quarantine, QuarantineError, QuarantineService};

use super::error::ApprovalError;

/// Maximum length of a caller's reason, in characters; the rest is cut off.
const MAX_REASON_CHARS: usize = 1000;
/// Maximum number of rows in a list.
const MAX_LISTED_ROWS: usize = 1000;

type Done<T> = Result<T, ErrorReport>;
type Within<T> = Result<T, ApprovalError>;

/// Check that a plugin's component may be granted capabilities: their parameters in this order.
pub type GrantCheck<'a> = dyn Fn(&str, &str, &[String]) -> Done<()> + 'a;

/// State of a caller's request.
#[derive(Clone, Debug)]
pub enum RequestStatus {
    /// A person approved it.
    Approved(Approval),
    /// Waiting for a person.
    Waits(Approval),
    /// A person denied it.
    Denied(Approval),
}

impl RequestStatus {
    /// The request.
    #[must_use]
    pub fn approval(&self) -> &Approval {
        match self {
            Self::Approved(approval) | Self::Waits(approval) | Self::Denied(approval) => approval,
        }
    }
}

/// Approvals of a state folder, for one actor.
#[derive(Clone, Debug)]
pub struct Approvals {
    configuration: Configuration,
    channel: Channel,
}

impl Approvals {
    /// Approvals for the caller of a configuration.
    ///
    /// # Errors
    /// A report when the configuration has no caller.
    pub fn of(configuration: &Configuration) -> Done<Self> {
        let asker = configuration.asker.as_ref();
        let (channel, _) =
            asker.ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks for the approvals"))?;
        Ok(Self { channel: channel.clone(), configuration: configuration.clone() })
    }

    /// Approvals for the person behind a caller's client, if the operator allows clients to ask one.
    #[must_use]
    pub fn through_the_client(&self) -> Option<Self> {
        let Channel::Model(caller) = &self.channel else { return None };
        self.elicitation().then(|| {
            let mut own = self.clone();
            own.channel = Channel::Elicited(caller.clone());
            if let Some((channel, _)) = &mut own.configuration.asker {
                *channel = own.channel.clone();
            }
            own
        })
    }

    /// The configuration in force for these steps.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// True when the operator allows clients to ask a person.
    #[must_use]
    pub fn elicitation(&self) -> bool {
        self.configuration.approvals() == AskedBy::Elicitation
    }

    /// The state folder's own key, for data that travels through clients.
    ///
    /// # Errors
    /// A report when it cannot be read or created.
    pub fn key(&self) -> Done<[u8; super::key::KEY_LEN]> {
        super::key::of(&self.folder()?)
    }

    fn actor(&self) -> Actor {
        Actor::here(self.channel.clone())
    }

    /// Channel whose requests are visible: that of one caller; `None` for all.
    fn own(&self) -> Option<String> {
        match &self.channel {
            Channel::Cli | Channel::Web | Channel::Team(_) | Channel::Own => None,
            Channel::Model(caller) | Channel::Elicited(caller) => {
                Some(Channel::Model(caller.clone()).to_string())
            }
        }
    }

    fn state(&self) -> Done<&hotcell_state::state::StateChoice> {
        let asker = self.configuration.asker.as_ref();
        asker.map(|(_, state)| state).ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks"))
    }

    fn folder(&self) -> Done<StateFolder> {
        let bad = |e: hotcell_state::state::StateError| of_quarantine(&e.into());
        StateFolder::open(self.state()?.path().map_err(bad)?).map_err(bad)
    }

    fn open(&self) -> Done<Quarantine> {
        Quarantine::open(self.folder()?).map_err(|e| of_quarantine(&e))
    }

    pub(super) fn read<T: Default>(&self, work: impl Fn(&Connection) -> Within<T>) -> Done<T> {
        let state = self.state()?.clone();
        let open = || -> Result<Option<Quarantine>, QuarantineError> {
            let Some(folder) = StateFolder::open_existing(state.path()?)? else { return Ok(None) };
            Quarantine::open_to_read(folder)
        };
        match open().map_err(|e| of_quarantine(&e))? {
            Some(store) => Ok(work(&store.database)?),
            None => Ok(T::default()),
        }
    }

    /// Requests that the actor may see, at most a thousand: pending and approved ones first, each group
    /// newest first.
    ///
    /// # Errors
    /// A report when they cannot be read.
    pub fn list(&self) -> Done<Vec<Approval>> {
        let (own, now) = (self.own(), now());
        let rows = self.read(|database| {
            Ok(retry_while_busy(|| rows::listed(database, own.as_deref(), now, MAX_LISTED_ROWS))?)
        })?;
        Ok(rows.iter().map(|row| row.shown(now)).collect())
    }

    /// A request by its id, or an unambiguous prefix of it.
    ///
    /// # Errors
    /// A report with the nearest id, when no request matches or several do.
    pub fn show(&self, id: &str) -> Done<Approval> {
        let row = self.read(|database| self.find(database, id).map(Some))?;
        match row {
            Some(row) => Ok(row.shown(now())),
            None => Err(no_such(id, None).into()),
        }
    }

    fn find(&self, database: &Connection, id: &str) -> Within<Row> {
        let all = retry_while_busy(|| rows::all(database, self.own().as_deref()))?;
        let ids: Vec<String> = all.iter().map(|row| row.id.clone()).collect();
        match resolve_prefix(id, &ids) {
            PrefixMatch::One(whole) => {
                all.into_iter().find(|row| row.id == whole).ok_or_else(|| no_such(id, None))
            }
            PrefixMatch::Several(among) => Err(ApprovalError::Ambiguous { id: id.to_owned(), among }),
            PrefixMatch::None(None) if !ids.is_empty() => Err(ApprovalError::NoSuch {
                id: id.to_owned(),
                hint: "hotcell approvals list shows what was asked for".to_owned(),
            }),
            PrefixMatch::None(near) => Err(no_such(id, near)),
        }
    }

    fn by<'a>(&'a self, row: &'a Row) -> By<'a> {
        By { channel: &self.channel, asked_by: &row.asked_by, elicitation: self.elicitation() }
    }

    /// State that a step leads to from a request's current state.
    fn step(&self, row: &Row, step: Step, now_us: i64) -> Within<State> {
        next(row.at(now_us), step, self.by(row)).map_err(|why: Illegal| ApprovalError::Illegal {
            id: row.id.clone(),
            step,
            why,
        })
    }

    /// Approves a request: exactly this request may be carried out once, by the caller who asked, within
    /// `lasts` (default: one day). `check` is the check of a grant to a plugin. The usual checks of a release or a grant still apply: an approval does not
    /// override them.
    ///
    /// # Errors
    /// A report when the request is not found, the step is not allowed, or `lasts` is too long; nothing is
    /// approved then.
    pub fn approve(
        &self,
        id: &str,
        reason: Option<&str>,
        lasts: Option<Duration>,
        check: &GrantCheck<'_>,
    ) -> Done<Approval> {
        self.approve_as_shown(id, None, reason, lasts, check)
    }

    /// Like [`Approvals::approve`]; with `shown`, a release only of an item that is still as
    /// [`Item::shown`](crate::quarantine::Item::shown) said.
    ///
    /// # Errors
    /// As [`Approvals::approve`], and a report when the item is not as it was shown.
    pub fn approve_as_shown(
        &self,
        id: &str,
        shown: Option<&str>,
        reason: Option<&str>,
        lasts: Option<Duration>,
        check: &GrantCheck<'_>,
    ) -> Done<Approval> {
        let lasts = lasts.unwrap_or(DEFAULT_LIFETIME);
        if lasts.is_zero() || lasts > MAX_LIFETIME {
            let why = "an approval lasts longer than nothing and at most 30d";
            return Err(ErrorReport::new(Code::InvalidValue, why).parameter("expires"));
        }
        let reason = reason.map(reasoned).transpose()?.unwrap_or_default();
        let asked = self.read(|database| self.find(database, id).map(Some))?;
        let asked = asked.ok_or_else(|| no_such(id, None))?;
        self.step(&asked, Step::Approve, now())?;
        let office = match &asked.what {
            ApprovalSubject::Release { item, artifact, .. } => {
                let office = QuarantineService::of(&self.configuration, None)?;
                if office.current(item)?.sha256 != *artifact {
                    return Err(changed(&asked.id, "the item of that id is another artifact now"));
                }
                Some(office)
            }
            ApprovalSubject::Grant { plugin, component, capabilities, .. } => {
                check(plugin, component, capabilities)?;
                None
            }
            ApprovalSubject::Network { .. } | ApprovalSubject::Protected { .. } => None,
        };
        if !asked.what.is_whole() {
            let why = format!(
                "{} was asked by an earlier release, which kept only the beginning of what it is for",
                asked.id
            );
            return Err(ErrorReport::new(Code::InvalidValue, why)
                .field(asked.id)
                .hint("deny it, and let the call be made again: it is kept whole then"));
        }
        let store = self.open()?;
        let actor = self.actor();
        let done = store.step(|database| -> Within<Approval> {
            let now = now();
            let mut row = self.find(database, &asked.id)?;
            self.step(&row, Step::Approve, now)?;
            row.decide(database, State::Approved, (lasts, &reason), &actor, now)?;
            if let (ApprovalSubject::Release { item, .. }, Some(office)) = (&row.what, &office) {
                let said = if reason.is_empty() { format!("approved as {}", row.id) } else { reason.clone() };
                let terms = office.terms();
                let whose = (Some(row.asked_by.as_str()), shown);
                store.release_for(database, item, whose, &said, (lasts, 1), &actor, &terms)?;
            }
            Ok(row.shown(now))
        });
        Ok(done?)
    }

    /// Denies a request, or revokes an approval that was not used.
    ///
    /// # Errors
    /// A report when the request is not found, or the step is not allowed.
    pub fn deny(&self, id: &str, reason: Option<&str>) -> Done<Approval> {
        let reason = reason.map(reasoned).transpose()?.unwrap_or_default();
        let asked = self.read(|database| self.find(database, id).map(Some))?;
        let asked = asked.ok_or_else(|| no_such(id, None))?;
        self.step(&asked, Step::Deny, now())?;
        let office = match &asked.what {
            ApprovalSubject::Release { .. } => Some(QuarantineService::of(&self.configuration, None)?),
            _ => None,
        };
        let store = self.open()?;
        let actor = self.actor();
        let done = store.step(|database| -> Within<Approval> {
            let now = now();
            let mut row = self.find(database, &asked.id)?;
            self.step(&row, Step::Deny, now)?;
            row.decide(database, State::Denied, (DEFAULT_LIFETIME, &reason), &actor, now)?;
            if let (ApprovalSubject::Release { item, .. }, Some(office)) = (&row.what, &office) {
                let terms = office.terms();
                let there = store.show(item, None, &terms)?;
                let others = there.release.as_ref().and_then(|release| release.only.as_ref());
                // A denial by one caller's client does not apply to the others.
                let decided = matches!(self.channel, Channel::Elicited(_))
                    || matches!(there.state, Held::Rejected | Held::Purged)
                    || there.state == Held::Released && others != Some(&row.asked_by);
                if !decided {
                    let said =
                        if reason.is_empty() { format!("denied as {}", row.id) } else { reason.clone() };
                    store.reject_within(database, item, &said, &actor, &terms)?;
                }
            }
            Ok(row.shown(now))
        });
        Ok(done?)
    }

    /// State of a caller's request. A request that is new is recorded once, and waits.
    ///
    /// # Errors
    /// A report when too many requests wait already, or the request cannot be written.
    pub fn ask(&self, what: &ApprovalSubject, reason: Option<&str>) -> Done<RequestStatus> {
        let asked_by = self.caller()?;
        let ask = what.ask();
        let actor = self.actor();
        let store = self.open()?;
        let done = store.step(|database| -> Within<RequestStatus> {
            let now = now();
            rows::sweep(database, &actor, now)?;
            if let Some(mut row) = rows::of_ask(database, &asked_by, &ask)? {
                match row.at(now) {
                    State::Approved => return Ok(RequestStatus::Approved(row.shown(now))),
                    State::Denied if now < row.expires => return Ok(RequestStatus::Denied(row.shown(now))),
                    State::Pending => {
                        row.asked += 1;
                        row.write(database)?;
                        return Ok(RequestStatus::Waits(row.shown(now)));
                    }
                    State::Denied | State::Expired | State::Used => {}
                }
            }
            let (own, all) = rows::waiting(database, &asked_by, now)?;
            if own >= MAX_PENDING_PER_CALLER || all >= MAX_PENDING_REQUESTS {
                return Err(ApprovalError::Full { own: own >= MAX_PENDING_PER_CALLER });
            }
            let reason =
                reason.map(|reason| reason.trim().chars().take(MAX_REASON_CHARS).collect::<String>());
            let mut row = Row {
                seq: 0,
                id: fresh_id(database)?,
                asked_by: asked_by.clone(),
                ask: ask.clone(),
                what: what.clone(),
                reason: reason.filter(|reason| !reason.is_empty()),
                asked: 1,
                created: now,
                expires: now.saturating_add(i64::try_from(DEFAULT_LIFETIME.as_micros()).unwrap_or(i64::MAX)),
                state: State::Pending,
                decision: None,
                ticket: None,
            };
            row.step(database, now, &actor, rows::ASK)?;
            Ok(RequestStatus::Waits(row.shown(now)))
        });
        Ok(done?)
    }

    /// Uses up the approval of a caller's request; `None` when there is no approval.
    ///
    /// # Errors
    /// A report when the database cannot be read or written.
    pub fn take(&self, what: &ApprovalSubject) -> Done<Option<Approval>> {
        self.take_of(Some(&what.ask()), |_| true)
    }

    /// Like [`Approvals::take`], for the first of the caller's approvals that `is` accepts.
    ///
    /// # Errors
    /// Like [`Approvals::take`].
    pub fn take_where(&self, is: impl Fn(&Row) -> bool) -> Done<Option<Approval>> {
        self.take_of(None, is)
    }

    fn take_of(&self, ask: Option<&str>, is: impl Fn(&Row) -> bool) -> Done<Option<Approval>> {
        let asked_by = self.caller()?;
        let there = |database: &Connection| -> Within<Option<Row>> {
            let now = now();
            let all = retry_while_busy(|| rows::approved(database, &asked_by, ask, now))?;
            Ok(all.into_iter().find(|row| row.at(now) == State::Approved && is(row)))
        };
        // Usually there is no approval; then there is no need to wait for a lock.
        if self.read(there)?.is_none() {
            return Ok(None);
        }
        let actor = self.actor();
        let store = self.open()?;
        let done = store.step(|database| -> Within<Option<Approval>> {
            let Some(mut row) = there(database)? else { return Ok(None) };
            let now = now();
            row.state = self.step(&row, Step::Use, now)?;
            row.step(database, now, &actor, "approval_use")?;
            Ok(Some(row.shown(now)))
        });
        Ok(done?)
    }

    /// Creates a ticket for one answer to a request's question, carried by the client. It invalidates earlier
    /// tickets.
    ///
    /// # Errors
    /// A report when asking through clients is not allowed, or the request no longer waits.
    pub fn ticket(&self, id: &str) -> Done<String> {
        let ticket = random_hex(16)?;
        let store = self.open()?;
        let done = store.step(|database| -> Within<()> {
            let mut row = self.find(database, id)?;
            self.step(&row, Step::Approve, now())?;
            row.ticket = Some(sha256(ticket.as_bytes()));
            Ok(row.write(database)?)
        });
        done?;
        Ok(ticket)
    }

    /// Redeems a ticket, which is valid once.
    ///
    /// # Errors
    /// A report when the ticket is not the latest one, or was redeemed already.
    pub fn redeem(&self, id: &str, ticket: &str) -> Done<()> {
        let store = self.open()?;
        let done = store.step(|database| -> Within<()> {
            let mut row = self.find(database, id)?;
            if row.ticket.take() != Some(sha256(ticket.as_bytes())) {
                let why = format!("the question of {} was answered already, or asked anew", row.id);
                return Err(ErrorReport::new(Code::InvalidValue, why).field("requestState").into());
            }
            Ok(row.write(database)?)
        });
        Ok(done?)
    }

    /// Channel of the caller; only callers can ask.
    fn caller(&self) -> Done<String> {
        match &self.channel {
            Channel::Model(_) => Ok(self.channel.to_string()),
            _ => Err(ErrorReport::new(Code::Internal, "only a caller asks for an approval")),
        }
    }
}

fn no_such(id: &str, near: Option<String>) -> ApprovalError {
    let hint = match near {
        Some(near) => format!("did you mean {near}? hotcell approvals list shows them"),
        None => "nothing was asked for".to_owned(),
    };
    ApprovalError::NoSuch { id: id.to_owned(), hint }
}

fn changed(id: &str, why: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{id}: {why}; nothing was allowed"))
        .field("ID")
        .hint("deny it; the same call asks anew")
}

fn fresh_id(database: &Connection) -> Within<String> {
    loop {
        let id = random_hex(4)?;
        if rows::by_id(database, &id)?.is_none() {
            return Ok(id);
        }
    }
}
