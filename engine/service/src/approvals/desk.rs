//! The steps as front ends take them: for a caller, which asks and uses, and for a person, who decides.

use std::time::Duration;

use hotcell_guard::quarantine::{Channel, State as Held};
use hotcell_tools::sources::sha256;
use rusqlite::Connection;

use super::error::ApprovalError;
use super::report::Approval;
use super::rows::{self, Row, now};
use super::state::{AskedBy, By, Illegal, State, Step, next};
use super::what::What;
use super::{LASTS, LONGEST, WAITING, WAITING_FOR_ONE};
use crate::actor::Actor;
use crate::config::Configuration;
use crate::database::patiently;
use crate::ids::{Meant, meant};
use crate::live::random_hex;
use crate::quarantine::office::{of_quarantine, reasoned};
use crate::quarantine::{Office, Quarantine, QuarantineError};
use crate::report::{Code, ErrorReport};
use crate::state::StateFolder;
use crate::tools::Plugins;

/// The longest reason of a caller, in characters; what is beyond is left out.
const REASON: usize = 1000;
/// Rows of a list.
const LISTED: usize = 1000;

type Done<T> = Result<T, ErrorReport>;
type Within<T> = Result<T, ApprovalError>;

/// Where it stands what a caller asked for.
#[derive(Clone, Debug)]
pub enum Standing {
    /// A person said yes.
    Approved(Approval),
    /// It waits for a person.
    Waits(Approval),
    /// A person said no.
    Denied(Approval),
}

impl Standing {
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
    /// For whoever asks by a configuration.
    ///
    /// # Errors
    /// A report when nobody asks.
    pub fn of(configuration: &Configuration) -> Done<Self> {
        let asker = configuration.asker.as_ref();
        let (channel, _) =
            asker.ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks for the approvals"))?;
        Ok(Self { channel: channel.clone(), configuration: configuration.clone() })
    }

    /// For the person behind a caller's client, where the operator lets clients ask one.
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

    /// Whether the operator lets clients ask a person.
    #[must_use]
    pub fn elicitation(&self) -> bool {
        self.configuration.approvals() == AskedBy::Elicitation
    }

    /// The state folder's own key for what travels through clients.
    ///
    /// # Errors
    /// A report when it cannot be read or made.
    pub fn key(&self) -> Done<[u8; super::key::LENGTH]> {
        super::key::of(&self.folder()?)
    }

    fn actor(&self) -> Actor {
        Actor::here(self.channel.clone())
    }

    /// The channel whose requests are there: those of one caller, or all of them.
    fn own(&self) -> Option<String> {
        match &self.channel {
            Channel::Cli | Channel::Own => None,
            Channel::Model(caller) | Channel::Elicited(caller) => {
                Some(Channel::Model(caller.clone()).to_string())
            }
        }
    }

    fn state(&self) -> Done<&crate::state::StateChoice> {
        let asker = self.configuration.asker.as_ref();
        asker.map(|(_, state)| state).ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks"))
    }

    fn folder(&self) -> Done<StateFolder> {
        let bad = |e: crate::state::StateError| of_quarantine(&e.into());
        StateFolder::open(self.state()?.path().map_err(bad)?).map_err(bad)
    }

    fn open(&self) -> Done<Quarantine> {
        Quarantine::open(self.folder()?).map_err(|e| of_quarantine(&e))
    }

    fn read<T: Default>(&self, work: impl Fn(&Connection) -> Within<T>) -> Done<T> {
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

    /// The requests that the actor may see, at most a thousand: what still counts before what is over, each the newest first.
    ///
    /// # Errors
    /// A report when they cannot be read.
    pub fn list(&self) -> Done<Vec<Approval>> {
        let (own, now) = (self.own(), now());
        let rows =
            self.read(|database| Ok(patiently(|| rows::listed(database, own.as_deref(), now, LISTED))?))?;
        Ok(rows.iter().map(|row| row.shown(now)).collect())
    }

    /// A request by its id, or the beginning of it.
    ///
    /// # Errors
    /// A report that names the nearest.
    pub fn show(&self, id: &str) -> Done<Approval> {
        let row = self.read(|database| self.find(database, id).map(Some))?;
        match row {
            Some(row) => Ok(row.shown(now())),
            None => Err(no_such(id, None).into()),
        }
    }

    fn find(&self, database: &Connection, id: &str) -> Within<Row> {
        let all = patiently(|| rows::all(database, self.own().as_deref()))?;
        let ids: Vec<String> = all.iter().map(|row| row.id.clone()).collect();
        match meant(id, &ids) {
            Meant::One(whole) => all.into_iter().find(|row| row.id == whole).ok_or_else(|| no_such(id, None)),
            Meant::Several(among) => Err(ApprovalError::Ambiguous { id: id.to_owned(), among }),
            Meant::None(near) => Err(no_such(id, near)),
        }
    }

    fn by<'a>(&'a self, row: &'a Row) -> By<'a> {
        By { channel: &self.channel, asked_by: &row.asked_by, elicitation: self.elicitation() }
    }

    /// Where a step leads from where a request stands now.
    fn step(&self, row: &Row, step: Step, now_us: i64) -> Within<State> {
        next(row.at(now_us), step, self.by(row)).map_err(|why: Illegal| ApprovalError::Illegal {
            id: row.id.clone(),
            step,
            why,
        })
    }

    /// Says yes: what is asked may be done once, by who asked, exactly so, within `lasts` (a day). What the yes is for is checked
    /// where it always is: what a release or a grant may not be, no yes makes it.
    ///
    /// # Errors
    /// A report that says why not; nothing is allowed then.
    pub fn approve(&self, id: &str, reason: Option<&str>, lasts: Option<Duration>) -> Done<Approval> {
        let lasts = lasts.unwrap_or(LASTS);
        if lasts.is_zero() || lasts > LONGEST {
            let why = "an approval lasts longer than nothing and at most 30d";
            return Err(ErrorReport::new(Code::InvalidValue, why).field("--expires"));
        }
        let reason = reason.map(reasoned).transpose()?.unwrap_or_default();
        let asked = self.read(|database| self.find(database, id).map(Some))?;
        let asked = asked.ok_or_else(|| no_such(id, None))?;
        self.step(&asked, Step::Approve, now())?;
        let office = match &asked.what {
            What::Release { item, artifact, .. } => {
                let office = Office::of(&self.configuration, None)?;
                if office.current(item)?.sha256 != *artifact {
                    return Err(changed(&asked.id, "the item of that id is another artifact now"));
                }
                Some(office)
            }
            What::Grant { plugin, component, capabilities, .. } => {
                let plugins = Plugins::of(&self.configuration)?;
                plugins.may_be_granted(plugin, component, capabilities)?;
                None
            }
            What::Network { .. } | What::Protected { .. } => None,
        };
        let store = self.open()?;
        let actor = self.actor();
        let done = store.step(|database| -> Within<Approval> {
            let now = now();
            let mut row = self.find(database, &asked.id)?;
            self.step(&row, Step::Approve, now)?;
            row.decide(database, State::Approved, (lasts, &reason), &actor, now)?;
            if let (What::Release { item, .. }, Some(office)) = (&row.what, &office) {
                let said = if reason.is_empty() { format!("approved as {}", row.id) } else { reason.clone() };
                let terms = office.terms();
                store.release_for(database, item, Some(&row.asked_by), &said, (lasts, 1), &actor, &terms)?;
            }
            Ok(row.shown(now))
        });
        Ok(done?)
    }

    /// Says no, or takes a yes back that was not used.
    ///
    /// # Errors
    /// A report that says why not.
    pub fn deny(&self, id: &str, reason: Option<&str>) -> Done<Approval> {
        let reason = reason.map(reasoned).transpose()?.unwrap_or_default();
        let asked = self.read(|database| self.find(database, id).map(Some))?;
        let asked = asked.ok_or_else(|| no_such(id, None))?;
        self.step(&asked, Step::Deny, now())?;
        let office = match &asked.what {
            What::Release { .. } => Some(Office::of(&self.configuration, None)?),
            _ => None,
        };
        let store = self.open()?;
        let actor = self.actor();
        let done = store.step(|database| -> Within<Approval> {
            let now = now();
            let mut row = self.find(database, &asked.id)?;
            self.step(&row, Step::Deny, now)?;
            row.decide(database, State::Denied, (LASTS, &reason), &actor, now)?;
            if let (What::Release { item, .. }, Some(office)) = (&row.what, &office) {
                let terms = office.terms();
                let there = store.show(item, None, &terms)?;
                let others = there.release.as_ref().and_then(|release| release.only.as_ref());
                // The no of one caller's client is no no for the others.
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

    /// Where it stands what a caller asks for. What nobody has decided yet is recorded, once, and waits.
    ///
    /// # Errors
    /// A report: too much waits already, or nothing can be written.
    pub fn ask(&self, what: &What, reason: Option<&str>) -> Done<Standing> {
        let asked_by = self.caller()?;
        let ask = what.ask();
        let actor = self.actor();
        let store = self.open()?;
        let done = store.step(|database| -> Within<Standing> {
            let now = now();
            rows::sweep(database, &actor, now)?;
            if let Some(mut row) = rows::of_ask(database, &asked_by, &ask)? {
                match row.at(now) {
                    State::Approved => return Ok(Standing::Approved(row.shown(now))),
                    State::Denied if now < row.expires => return Ok(Standing::Denied(row.shown(now))),
                    State::Pending => {
                        row.asked += 1;
                        row.write(database)?;
                        return Ok(Standing::Waits(row.shown(now)));
                    }
                    State::Denied | State::Expired | State::Used => {}
                }
            }
            let (own, all) = rows::waiting(database, &asked_by, now)?;
            if own >= WAITING_FOR_ONE || all >= WAITING {
                return Err(ApprovalError::Full { own: own >= WAITING_FOR_ONE });
            }
            let reason = reason.map(|reason| reason.trim().chars().take(REASON).collect::<String>());
            let mut row = Row {
                seq: 0,
                id: fresh_id(database)?,
                asked_by: asked_by.clone(),
                ask: ask.clone(),
                what: what.clone(),
                reason: reason.filter(|reason| !reason.is_empty()),
                asked: 1,
                created: now,
                expires: now.saturating_add(i64::try_from(LASTS.as_micros()).unwrap_or(i64::MAX)),
                state: State::Pending,
                decision: None,
                ticket: None,
            };
            row.step(database, now, &actor, "approval_ask")?;
            Ok(Standing::Waits(row.shown(now)))
        });
        Ok(done?)
    }

    /// Takes the yes to what a caller asks for: it is used then. Nothing where there is none.
    ///
    /// # Errors
    /// A report when nothing can be read or written.
    pub fn take(&self, what: &What) -> Done<Option<Approval>> {
        self.take_of(Some(&what.ask()), |_| true)
    }

    /// The same for the first of a caller's that is meant.
    ///
    /// # Errors
    /// As [`Approvals::take`].
    pub(crate) fn take_where(&self, is: impl Fn(&Row) -> bool) -> Done<Option<Approval>> {
        self.take_of(None, is)
    }

    fn take_of(&self, ask: Option<&str>, is: impl Fn(&Row) -> bool) -> Done<Option<Approval>> {
        let asked_by = self.caller()?;
        let there = |database: &Connection| -> Within<Option<Row>> {
            let now = now();
            let all = patiently(|| rows::approved(database, &asked_by, ask, now))?;
            Ok(all.into_iter().find(|row| row.at(now) == State::Approved && is(row)))
        };
        // Mostly there is nothing: nobody waits for a lock then.
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

    /// A ticket for one answer to the question of a request, by the client that carries it. An earlier one counts no more.
    ///
    /// # Errors
    /// A report: nobody may ask through clients, or it does not wait any more.
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

    /// Takes a ticket: it counts once.
    ///
    /// # Errors
    /// A report: it is not the one that was given out last, or was taken already.
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

    /// The channel of a caller: nobody else asks.
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
