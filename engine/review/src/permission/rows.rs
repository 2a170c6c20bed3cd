//! A request as it is stored: one row.

use std::collections::HashMap;

use hotcell_guard::quarantine::{Channel, Entry};
use hotcell_state::actor::Actor;
use hotcell_state::audit;
use hotcell_state::audit::{Problem, Subject};
use hotcell_state::time::{micros_since_1970, rfc3339};
use rusqlite::{Connection, OptionalExtension, Row as Columns, params};
use serde::{Deserialize, Serialize};

use crate::permission::subject::ApprovalSubject;

use super::report::{Approval, Decision};
use super::state::{Kind, State};
use super::{DEFAULT_LIFETIME, MAX_PENDING_REQUESTS, REQUEST_RETENTION};

/// A row of the table `approvals`.
#[derive(Clone, Debug)]
pub struct Row {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) asked_by: String,
    pub(crate) ask: String,
    /// Subject of the request.
    pub what: ApprovalSubject,
    pub(crate) reason: Option<String>,
    pub(crate) asked: u64,
    pub(crate) created: i64,
    pub(crate) expires: i64,
    pub(crate) state: State,
    pub(crate) decision: Option<Decision>,
    /// Digest of the latest ticket for a client's answer.
    pub ticket: Option<String>,
}

/// Action of a request in the audit log.
pub const ASK: &str = "approval_ask";

const COLUMNS: &str = "seq, id, kind, asked_by, ask, digest, what, reason, asked, created, expires, state, \
    decision, ticket";

fn broken(at: usize, why: impl std::fmt::Display) -> rusqlite::Error {
    let why = std::io::Error::other(format!("a row of the approvals is damaged: {why}"));
    rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, why.into())
}

fn text<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn read(row: &Columns<'_>) -> rusqlite::Result<Row> {
    let what: ApprovalSubject = serde_json::from_str(&row.get::<_, String>(6)?).map_err(|e| broken(6, e))?;
    let (kind, digest, ask): (String, String, String) = (row.get(2)?, row.get(5)?, row.get(4)?);
    // The columns are only for look-ups; the row's subject decides.
    if kind != what.kind().name() || digest != what.digest() || ask != what.ask() {
        return Err(broken(6, "it does not say what its digests are of"));
    }
    let state: String = row.get(11)?;
    let decision: Option<String> = row.get(12)?;
    Ok(Row {
        seq: row.get(0)?,
        id: row.get(1)?,
        asked_by: row.get(3)?,
        ask,
        what,
        reason: row.get(7)?,
        asked: row.get(8)?,
        created: row.get(9)?,
        expires: row.get(10)?,
        state: State::named(&state).ok_or_else(|| broken(11, "its state"))?,
        decision: decision.map(|d| serde_json::from_str(&d).map_err(|e| broken(12, e))).transpose()?,
        ticket: row.get(13)?,
    })
}

/// Now, in microseconds since 1970.
pub fn now() -> i64 {
    micros_since_1970(std::time::SystemTime::now())
}

/// True when the table exists: older databases lack it.
pub fn there(database: &Connection) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'approvals')";
    database.query_row(query, [], |row| row.get(0))
}

/// Number of requests that wait for a person.
pub fn pending(database: &Connection, now_us: i64) -> rusqlite::Result<u64> {
    if !there(database)? {
        return Ok(0);
    }
    let query = "SELECT count(*) FROM approvals WHERE state = ?1 AND expires > ?2";
    database.query_row(query, params![State::Pending.name(), now_us], |row| row.get(0))
}

/// At most `most` of these requests, newest first, without the first `skipped` ones.
pub fn pending_page(
    database: &Connection,
    now_us: i64,
    skipped: u64,
    most: u64,
) -> rusqlite::Result<Vec<Row>> {
    if !there(database)? {
        return Ok(Vec::new());
    }
    let query = format!(
        "SELECT {COLUMNS} FROM approvals WHERE state = ?1 AND expires > ?2
         ORDER BY created DESC, seq DESC LIMIT ?3 OFFSET ?4"
    );
    let mut statement = database.prepare(&query)?;
    statement.query_map(params![State::Pending.name(), now_us, most, skipped], read)?.collect()
}

/// All rows, newest first; with a channel, only its own.
pub fn all(database: &Connection, of: Option<&str>) -> rusqlite::Result<Vec<Row>> {
    if !there(database)? {
        return Ok(Vec::new());
    }
    let query = format!(
        "SELECT {COLUMNS} FROM approvals WHERE ?1 IS NULL OR asked_by = ?1 ORDER BY created DESC, seq DESC"
    );
    let mut statement = database.prepare(&query)?;
    statement.query_map([of], read)?.collect()
}

/// At most `most` rows: pending and approved ones first, each group newest first; with a channel, only its
/// own.
pub fn listed(
    database: &Connection,
    of: Option<&str>,
    now_us: i64,
    most: usize,
) -> rusqlite::Result<Vec<Row>> {
    if !there(database)? {
        return Ok(Vec::new());
    }
    let query = format!(
        "SELECT {COLUMNS} FROM approvals WHERE ?1 IS NULL OR asked_by = ?1
         ORDER BY state IN ('pending', 'approved') AND expires > ?2 DESC, created DESC, seq DESC LIMIT ?3"
    );
    let mut statement = database.prepare(&query)?;
    statement.query_map(params![of, now_us, i64::try_from(most).unwrap_or(i64::MAX)], read)?.collect()
}

/// A caller's unused approvals, newest first; with an `ask`, only those for it. At most as many as all
/// callers together may have pending.
pub fn approved(
    database: &Connection,
    asked_by: &str,
    ask: Option<&str>,
    now_us: i64,
) -> rusqlite::Result<Vec<Row>> {
    if !there(database)? {
        return Ok(Vec::new());
    }
    let query = format!(
        "SELECT {COLUMNS} FROM approvals WHERE asked_by = ?1 AND (?2 IS NULL OR ask = ?2) AND state = 'approved'
         AND expires > ?3 ORDER BY created DESC, seq DESC LIMIT ?4"
    );
    let most = i64::try_from(MAX_PENDING_REQUESTS).unwrap_or(i64::MAX);
    database.prepare(&query)?.query_map(params![asked_by, ask, now_us, most], read)?.collect()
}

/// The newest row for a caller's request.
pub fn of_ask(database: &Connection, asked_by: &str, ask: &str) -> rusqlite::Result<Option<Row>> {
    let query =
        format!("SELECT {COLUMNS} FROM approvals WHERE asked_by = ?1 AND ask = ?2 ORDER BY seq DESC LIMIT 1");
    database.query_row(&query, [asked_by, ask], read).optional()
}

/// The row with an id.
pub fn by_id(database: &Connection, id: &str) -> rusqlite::Result<Option<Row>> {
    let query = format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1");
    database.query_row(&query, [id], read).optional()
}

/// Rows of a kind in a state, of all callers.
pub fn of_kind(database: &Connection, kind: Kind, state: State) -> rusqlite::Result<Vec<Row>> {
    let query = format!("SELECT {COLUMNS} FROM approvals WHERE kind = ?1 AND state = ?2 ORDER BY seq");
    let mut statement = database.prepare(&query)?;
    statement.query_map([kind.name(), state.name()], read)?.collect()
}

/// Number of pending requests: of the caller, of all.
pub fn waiting(database: &Connection, asked_by: &str, now_us: i64) -> rusqlite::Result<(u64, u64)> {
    let query = "SELECT coalesce(sum(asked_by = ?1), 0), count(*) FROM approvals
                 WHERE state = 'pending' AND expires > ?2";
    database.query_row(query, params![asked_by, now_us], |row| Ok((row.get(0)?, row.get(1)?)))
}

impl Row {
    /// Writes the row: over the row with its number, or as a new one, whose number it gets.
    pub fn write(&mut self, database: &Connection) -> rusqlite::Result<()> {
        let seq = (self.seq > 0).then_some(self.seq);
        database.execute(
            &format!(
                "INSERT INTO approvals ({COLUMNS})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
                 ON CONFLICT (seq) DO UPDATE SET asked = excluded.asked, expires = excluded.expires,
                 state = excluded.state, decision = excluded.decision, ticket = excluded.ticket"
            ),
            params![
                seq,
                self.id,
                self.what.kind().name(),
                self.asked_by,
                self.ask,
                self.what.digest(),
                text(&self.what)?,
                self.reason,
                self.asked,
                self.created,
                self.expires,
                self.state.name(),
                self.decision.as_ref().map(text).transpose()?,
                self.ticket,
            ],
        )?;
        if self.seq == 0 {
            self.seq = database.last_insert_rowid();
        }
        Ok(())
    }

    /// Writes the row and an entry in the audit log.
    pub fn step(
        &mut self,
        database: &Connection,
        now_us: i64,
        actor: &Actor,
        action: &str,
    ) -> rusqlite::Result<()> {
        self.write(database)?;
        audit::append(database, now_us, actor, action, self.what.digest(), &self.after())
    }

    /// Records a person's decision.
    pub fn decide(
        &mut self,
        database: &Connection,
        state: State,
        (lasts, reason): (std::time::Duration, &str),
        actor: &Actor,
        now_us: i64,
    ) -> rusqlite::Result<()> {
        self.state = state;
        self.expires = now_us.saturating_add(i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX));
        self.ticket = None;
        self.decision = Some(Decision {
            by: actor.to_string(),
            channel: actor.channel.to_string(),
            reason: reason.to_owned(),
            time: rfc3339(now_us),
        });
        let action = if state == State::Approved { "approval_approve" } else { "approval_deny" };
        self.step(database, now_us, actor, action)
    }

    /// State for the audit log.
    pub fn after(&self) -> AfterApproval {
        AfterApproval {
            approval: self.id.clone(),
            kind: self.what.kind().name().to_owned(),
            asked_by: self.asked_by.clone(),
            ask: self.ask.clone(),
            state: self.state.name().to_owned(),
            expires_us: self.expires,
            reason: self.decision.as_ref().map(|d| d.reason.clone()).filter(|r| !r.is_empty()),
        }
    }

    /// Current state.
    pub fn at(&self, now_us: i64) -> State {
        self.state.at(self.expires, now_us)
    }

    /// The request as it is shown.
    pub fn shown(&self, now_us: i64) -> Approval {
        Approval {
            id: self.id.clone(),
            kind: self.what.kind(),
            asked_by: self.asked_by.clone(),
            digest: self.what.digest().to_owned(),
            detail: self.what.clone(),
            reason: self.reason.clone(),
            asked: self.asked,
            created: rfc3339(self.created),
            expires: rfc3339(self.expires),
            state: self.at(now_us),
            decision: self.decision.clone(),
        }
    }
}

/// Records expirations, and removes requests that were closed long ago.
pub fn sweep(database: &Connection, actor: &Actor, now_us: i64) -> rusqlite::Result<()> {
    let own = actor.by(Channel::Own);
    let query =
        format!("SELECT {COLUMNS} FROM approvals WHERE state IN ('pending', 'approved') AND expires <= ?1");
    let over: Vec<Row> = database.prepare(&query)?.query_map([now_us], read)?.collect::<Result<_, _>>()?;
    for mut row in over {
        row.state = State::Expired;
        row.ticket = None;
        row.step(database, now_us, &own, "approval_expire")?;
    }
    let remembered = i64::try_from(REQUEST_RETENTION.as_micros()).unwrap_or(i64::MAX);
    database.execute(
        "DELETE FROM approvals WHERE state IN ('denied', 'expired', 'used') AND expires <= ?1",
        [now_us.saturating_sub(remembered)],
    )?;
    Ok(())
}

/// Applies a decision on a quarantine item to the requests for it, and uses up the approval when a release
/// lets a run pass.
pub fn of_item(
    database: &Connection,
    (artifact, language): (&str, Option<&str>),
    asked_by: Option<&str>,
    becomes: State,
    reason: &str,
    actor: &Actor,
    now_us: i64,
) -> rusqlite::Result<()> {
    let from: &[State] = match becomes {
        State::Approved => &[State::Pending],
        State::Denied => &[State::Pending, State::Approved],
        _ => &[State::Approved],
    };
    for state in from {
        for mut row in of_kind(database, Kind::Release, *state)? {
            let ApprovalSubject::Release { artifact: of, language: run_as, .. } = &row.what else { continue };
            let same = of == artifact && run_as.as_deref() == language;
            let theirs = asked_by.is_none_or(|asked_by| asked_by == row.asked_by);
            if !same || !theirs || row.at(now_us) == State::Expired {
                continue;
            }
            match becomes {
                State::Approved | State::Denied => {
                    row.decide(database, becomes, (DEFAULT_LIFETIME, reason), actor, now_us)?;
                }
                over => {
                    row.state = over;
                    let action = if over == State::Used { "approval_use" } else { "approval_expire" };
                    row.step(database, now_us, actor, action)?;
                }
            }
        }
    }
    Ok(())
}

/// State of an approval after a step; the entry's `detail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AfterApproval {
    /// Id of the approval.
    pub approval: String,
    pub(crate) kind: String,
    pub(crate) asked_by: String,
    /// Digest of the whole request.
    pub ask: String,
    pub(crate) state: String,
    pub(crate) expires_us: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Approvals as the log knows them: the subject and the last state of each, by ids.
#[derive(Default)]
struct Audited(HashMap<String, (String, AfterApproval)>);

/// Approvals, for a check of the log.
pub fn audited() -> Box<dyn Subject> {
    Box::new(Audited::default())
}

impl Subject for Audited {
    fn take(&mut self, entry: &Entry) -> bool {
        let Ok(after) = serde_json::from_str::<AfterApproval>(&entry.detail) else { return false };
        self.0.insert(after.approval.clone(), (entry.subject.clone(), after));
        true
    }

    fn compare(&mut self, database: &Connection) -> Result<(), Problem> {
        for row in all(database, None)? {
            let stands = Some((row.what.digest().to_owned(), row.after()));
            if self.0.remove(&row.id) != stands {
                let why = "was changed past the log: it does not stand as its last entry says";
                return Err(Problem(format!("the approval {} {why}", row.id)));
            }
        }
        // Closed approvals are deleted after a while.
        let counts = |(_, after): &(String, AfterApproval)| ["pending", "approved"].contains(&&*after.state);
        match self.0.values().find(|one| counts(one)) {
            Some((_, after)) => {
                Err(Problem(format!("the approval {}, which the log knows, is gone", after.approval)))
            }
            None => Ok(()),
        }
    }
}
