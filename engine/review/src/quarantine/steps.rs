//! The steps of an item, each one transaction with its entry in the audit log.

use std::io;
use std::time::Duration;

use hotcell_guard::Report;
use hotcell_guard::quarantine::{Channel, Person, Persons, Release, State, Step, next};
use hotcell_state::actor::Actor;
use hotcell_state::audit;
use hotcell_state::time::rfc3339;
use rusqlite::Connection;

use crate::permission::State as Becomes;
use crate::permission::rows as approvals;

use super::error::{Done, MAX_ITEMS, QuarantineError, StepContext, io};
use super::identity::Identified;
use super::item::{Item, Statement, person_of};
use super::objects::Objects;
use super::rows::{self, File, Row};
use super::store::Quarantine;

/// Maximum total size of all stored files, in bytes.
const MAX_STORED_BYTES: u64 = 1 << 30;

/// Result for code that was about to run.
#[derive(Debug)]
pub enum Judged {
    /// A release lets it run once.
    Released {
        /// The item.
        item: Item,
        /// Identity of the person.
        by: String,
    },
    /// The code is held.
    Held {
        /// The item.
        item: Item,
        /// Reason why its last release no longer holds.
        ended: Option<String>,
    },
}

impl Quarantine {
    /// Holds refused code, or lets it run by a release, which then has one use less.
    pub fn judge(
        &self,
        found: &Identified,
        report: &Report,
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Judged> {
        let objects = self.objects()?;
        let language = rows::language_column(found.language);
        let judged = self.change(|database| {
            let mut ended = None;
            let known = rows::by_digest(database, &found.sha256, &language)?;
            if let Some(mut row) = known.clone().filter(|row| row.state == State::Released) {
                ended = row.ended(terms).or_else(|| found.unreleasable.clone());
                let channel = actor.channel.to_string();
                if ended.is_none() && row.is_for_another(&channel) {
                    let mut row =
                        self.hold(database, &objects, Some(row), found, report, &language, actor, terms)?;
                    // A caller that the release is not for sees the item as held.
                    row.state = State::Held;
                    let ended = Some("it is for another caller".to_owned());
                    let item = row.item(rows::files(database, row.seq)?, terms);
                    return Ok(Judged::Held { item, ended });
                }
                if ended.is_none()
                    && let Some(release) = &mut row.release
                {
                    release.uses -= 1;
                    row.last_seen = terms.now_us;
                    row.write(database)?;
                    audit::append(database, terms.now_us, actor, "use", &row.sha256, &row.after(None))?;
                    let spent = row.release.as_ref().is_some_and(|release| release.uses == 0);
                    if spent || row.only.is_some() {
                        row.approvals(database, row.only.as_deref(), Becomes::Used, "", actor, terms.now_us)?;
                    }
                    let by = row.decision.as_ref().map(|word| word.by.clone()).unwrap_or_default();
                    let mut item = row.item(Vec::new(), terms);
                    item.state = State::Released;
                    return Ok(Judged::Released { item, by });
                }
            }
            let row = self.hold(database, &objects, known, found, report, &language, actor, terms)?;
            Ok(Judged::Held { item: row.item(rows::files(database, row.seq)?, terms), ended })
        })?;
        self.forget_expired(terms);
        Ok(judged)
    }

    #[allow(clippy::too_many_arguments)]
    fn hold(
        &self,
        database: &Connection,
        objects: &Objects,
        known: Option<Row>,
        found: &Identified,
        report: &Report,
        language: &str,
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Row> {
        let persons = |row: &Row| persons(row, actor, terms);
        let names = &report.artifact.names;
        let mut row = match known {
            Some(row) if row.state != State::Purged => {
                let mut row = self.lapsed(database, row, actor, terms)?;
                row.seen += 1;
                row.last_seen = terms.now_us;
                row.two_persons |= terms.two_persons;
                row.named(names);
                if row.policy == terms.policy {
                    row.write(database)?;
                    rows::seen_by(database, row.seq, &actor.channel.to_string())?;
                    return Ok(row);
                }
                row
            }
            known => {
                if rows::count(database)? >= MAX_ITEMS {
                    return Err(QuarantineError::Full);
                }
                let (seq, id, seen) = match &known {
                    Some(row) => (row.seq, row.id.clone(), row.seen),
                    None => (0, fresh_id(database)?, 0),
                };
                let mut row = Row {
                    seq,
                    id,
                    sha256: found.sha256.clone(),
                    language: language.to_owned(),
                    state: State::Purged,
                    policy: String::new(),
                    report: rows::stored(report),
                    names: Vec::new(),
                    bytes: found.bytes,
                    submitted: terms.now_us,
                    last_seen: terms.now_us,
                    seen: seen + 1,
                    two_persons: terms.two_persons || known.as_ref().is_some_and(|row| row.two_persons),
                    unreleasable: None,
                    left_out: 0,
                    request: None,
                    decision: None,
                    release: None,
                    only: None,
                };
                row.named(names);
                row.state = step(&row, known.as_ref().map(|r| r.state), Step::Hold, actor, persons(&row))?;
                row
            }
        };
        // New, or scanned under other rules than before.
        let action = if row.policy.is_empty() { "hold" } else { "reread" };
        row.policy.clone_from(&terms.policy);
        row.report = rows::stored(report);
        row.unreleasable.clone_from(&found.unreleasable);
        row.left_out = found.left_out;
        row.write(database)?;
        let files = keep(database, objects, found)?;
        rows::replace_files(database, row.seq, &files)?;
        rows::seen_by(database, row.seq, &actor.channel.to_string())?;
        let verdict = row.report.verdict.name();
        let after = row.after(Some(verdict));
        audit::append(database, terms.now_us, actor, action, &row.sha256, &after)?;
        Ok(row)
    }

    /// Ends a release that is no longer valid, before anything else is done.
    fn lapsed(&self, database: &Connection, mut row: Row, actor: &Actor, terms: &StepContext) -> Done<Row> {
        if row.state == State::Released
            && let Some(why) = row.ended(terms)
        {
            let own = actor.by(Channel::Own);
            row.state = step(&row, Some(row.state), Step::Lapse, &own, persons(&row, &own, terms))?;
            row.approvals(database, row.only.as_deref(), Becomes::Expired, "", &own, terms.now_us)?;
            row.release = None;
            row.only = None;
            row.request = None;
            row.write(database)?;
            audit::append(database, terms.now_us, &own, "lapse", &row.sha256, &row.after(Some(&why)))?;
        }
        Ok(row)
    }

    /// Asks for a release. While a request is open, the first requester stays recorded.
    ///
    /// # Errors
    /// [`QuarantineError`] when the item is not found, the step is not allowed, or the database fails.
    pub fn request(&self, id: &str, reason: &str, actor: &Actor, terms: &StepContext) -> Done<Item> {
        let of = matches!(actor.channel, Channel::Model(_)).then_some(&actor.channel);
        self.change(|database| {
            let row = self.find(database, id, of)?;
            let mut row = self.lapsed(database, row, actor, terms)?;
            let before = row.state;
            if before == State::Released && of.is_some() {
                // A released item needs no request; a release for another caller is handled by an approval of
                // its own.
                if row.is_for_another(&actor.channel.to_string()) {
                    row.state = State::UnderReview;
                }
                return Ok(row.item(rows::files(database, row.seq)?, terms));
            }
            row.two_persons |= terms.two_persons;
            row.state = step(&row, Some(before), Step::Request, actor, persons(&row, actor, terms))?;
            if before == State::UnderReview && of.is_some() {
                // A model that asks again has asked already.
                return Ok(row.item(rows::files(database, row.seq)?, terms));
            }
            if before != State::UnderReview {
                row.request = Some(word(reason, actor, terms));
            }
            self.finish(database, row, Step::Request, Some(reason), actor, terms)
        })
    }

    /// Releases an item for a number of runs and a limited time, as scanned under the rules in force.
    ///
    /// # Errors
    /// [`QuarantineError`] when the item is not found, the step is not allowed, or the database fails.
    pub fn release(
        &self,
        id: &str,
        reason: &str,
        how: (Duration, u32),
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        self.release_as_shown(id, None, reason, how, actor, terms)
    }

    /// Like [`Quarantine::release`]; with `shown`, only an item that is still as [`Item::shown`] said.
    ///
    /// # Errors
    /// As [`Quarantine::release`], and [`QuarantineError::NotAsShown`].
    pub fn release_as_shown(
        &self,
        id: &str,
        shown: Option<&str>,
        reason: &str,
        how: (Duration, u32),
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        self.change(|database| self.release_for(database, id, (None, shown), reason, how, actor, terms))
    }

    /// Compares an item with what was shown to the person who decides, within the step.
    fn as_shown(row: &Row, shown: Option<&str>, terms: &StepContext) -> Done<()> {
        let item = row.item(Vec::new(), terms);
        match shown {
            Some(shown) if shown != item.shown => {
                let by = item.decision.as_ref().map(|word| format!(", by {} over {}", word.by, word.channel));
                let now =
                    format!("it is {} now{}", item.state.name().replace('_', " "), by.unwrap_or_default());
                Err(QuarantineError::NotAsShown { id: item.id, now })
            }
            _ => Ok(()),
        }
    }

    /// Like [`Quarantine::release_as_shown`], within a step; with a channel, only for its runs.
    #[allow(clippy::too_many_arguments)]
    pub fn release_for(
        &self,
        database: &Connection,
        id: &str,
        (only, shown): (Option<&str>, Option<&str>),
        reason: &str,
        (lasts, uses): (Duration, u32),
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        let row = self.find(database, id, None)?;
        let mut row = self.lapsed(database, row, actor, terms)?;
        Self::as_shown(&row, shown, terms)?;
        if let Some(only) = only
            && row.state == State::Released
            && row.is_for_another(only)
        {
            let other = row.only.unwrap_or_default();
            return Err(QuarantineError::ForAnother { id: row.id, other });
        }
        row.two_persons |= terms.two_persons;
        let persons = persons(&row, actor, terms);
        if let Some(only) = only.filter(|_| persons.two) {
            // The item has its first requester only, and another caller's request is decided on here.
            for requester in askers(database, &row, only, terms)? {
                step(&row, Some(row.state), Step::Release, actor, Persons { requester, ..persons.clone() })?;
            }
        }
        row.state = step(&row, Some(row.state), Step::Release, actor, persons)?;
        if let Some(why) = row.unreleasable {
            return Err(QuarantineError::Unreleasable { id: row.id, why });
        }
        let lasts = i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX);
        row.decision = Some(word(reason, actor, terms));
        row.only = only.map(str::to_owned);
        row.release = Some(Release {
            artifact: row.sha256.clone(),
            policy: terms.policy.clone(),
            expires_us: terms.now_us.saturating_add(lasts),
            uses,
        });
        row.approvals(database, only, Becomes::Approved, reason, actor, terms.now_us)?;
        self.finish(database, row, Step::Release, Some(reason), actor, terms)
    }

    /// Rejects an item, and ends its release.
    ///
    /// # Errors
    /// [`QuarantineError`] when the item is not found, the step is not allowed, or the database fails.
    pub fn reject(&self, id: &str, reason: &str, actor: &Actor, terms: &StepContext) -> Done<Item> {
        self.reject_as_shown(id, None, reason, actor, terms)
    }

    /// Like [`Quarantine::reject`]; with `shown`, only an item that is still as [`Item::shown`] said.
    ///
    /// # Errors
    /// As [`Quarantine::reject`], and [`QuarantineError::NotAsShown`].
    pub fn reject_as_shown(
        &self,
        id: &str,
        shown: Option<&str>,
        reason: &str,
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        self.change(|database| {
            let row = self.find(database, id, None)?;
            Self::as_shown(&self.lapsed(database, row, actor, terms)?, shown, terms)?;
            self.reject_within(database, id, reason, actor, terms)
        })
    }

    /// Like [`Quarantine::reject`], within a step.
    pub fn reject_within(
        &self,
        database: &Connection,
        id: &str,
        reason: &str,
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        let row = self.find(database, id, None)?;
        let mut row = self.lapsed(database, row, actor, terms)?;
        row.state = step(&row, Some(row.state), Step::Reject, actor, persons(&row, actor, terms))?;
        row.decision = Some(word(reason, actor, terms));
        (row.release, row.only) = (None, None);
        row.approvals(database, None, Becomes::Denied, reason, actor, terms.now_us)?;
        self.finish(database, row, Step::Reject, Some(reason), actor, terms)
    }

    /// Removes the content of an item; the row that records it stays.
    ///
    /// # Errors
    /// [`QuarantineError`] when the item is not found, the step is not allowed, or the database or a file
    /// fails.
    pub fn purge(&self, id: &str, actor: &Actor, terms: &StepContext) -> Done<Item> {
        let item = self.change(|database| {
            let row = self.find(database, id, None)?;
            self.purge_row(database, row, "asked for", actor, terms)
        })?;
        self.sweep()?;
        Ok(item)
    }

    /// Purges every expired item.
    ///
    /// # Errors
    /// [`QuarantineError`] when the database or a file fails.
    pub fn purge_expired(&self, actor: &Actor, terms: &StepContext) -> Done<Vec<Item>> {
        let retention = i64::try_from(terms.retention.as_micros()).unwrap_or(i64::MAX);
        let before = terms.now_us.saturating_sub(retention);
        let purged = self.change(|database| {
            let old = rows::all(database, None)?.into_iter().filter(|row| {
                let counts = row.state == State::Released && row.ended(terms).is_none();
                row.state != State::Purged && row.last_seen < before && !counts
            });
            old.map(|row| self.purge_row(database, row, "its time is over", actor, terms)).collect()
        })?;
        self.sweep()?;
        Ok(purged)
    }

    /// Removes expired items whenever an item is held. It can wait, so errors are ignored.
    fn forget_expired(&self, terms: &StepContext) {
        let retention = i64::try_from(terms.retention.as_micros()).unwrap_or(i64::MAX);
        let old: rusqlite::Result<bool> = self.database.query_row(
            "SELECT EXISTS (SELECT 1 FROM quarantine WHERE state <> 'purged' AND last_seen < ?1)",
            [terms.now_us.saturating_sub(retention)],
            |row| row.get(0),
        );
        if matches!(old, Ok(true))
            && let Err(error) = self.purge_expired(&Actor::here(Channel::Own), terms)
        {
            tracing::warn!("the quarantine keeps what is older than its retention: {error}");
        }
    }

    fn purge_row(
        &self,
        database: &Connection,
        mut row: Row,
        reason: &str,
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        row.state = step(&row, Some(row.state), Step::Purge, actor, persons(&row, actor, terms))?;
        row.report.findings.clear();
        row.report.coverage.parts.clear();
        (row.release, row.only, row.request) = (None, None, None);
        rows::replace_files(database, row.seq, &[])?;
        self.finish(database, row, Step::Purge, Some(reason), actor, terms)
    }

    /// Removes objects that no row names.
    fn sweep(&self) -> Done<()> {
        let _turn = self.turn()?;
        let known = rows::objects(&self.database)?;
        self.objects()?.sweep(&known).map_err(io("what is kept no longer cannot be removed"))
    }

    fn finish(
        &self,
        database: &Connection,
        mut row: Row,
        step: Step,
        reason: Option<&str>,
        actor: &Actor,
        terms: &StepContext,
    ) -> Done<Item> {
        row.write(database)?;
        audit::append(database, terms.now_us, actor, step.name(), &row.sha256, &row.after(reason))?;
        Ok(row.item(rows::files(database, row.seq)?, terms))
    }

    /// Stores a report on the stored files that was made under the rules in force. A release made under other
    /// rules ends.
    pub fn reread(&self, id: &str, report: &Report, actor: &Actor, terms: &StepContext) -> Done<Item> {
        self.change(|database| {
            let row = self.find(database, id, None)?;
            let mut row = self.lapsed(database, row, actor, terms)?;
            row.policy.clone_from(&terms.policy);
            let identity = std::mem::take(&mut row.report.artifact);
            row.report = rows::stored(report);
            row.report.artifact = identity;
            row.write(database)?;
            let verdict = row.report.verdict.name();
            let own = actor.by(Channel::Own);
            let after = row.after(Some(verdict));
            audit::append(database, terms.now_us, &own, "reread", &row.sha256, &after)?;
            Ok(row.item(rows::files(database, row.seq)?, terms))
        })
    }
}

impl Row {
    /// Updates the approvals that were requested for the item.
    fn approvals(
        &self,
        database: &Connection,
        asked_by: Option<&str>,
        becomes: Becomes,
        reason: &str,
        actor: &Actor,
        now_us: i64,
    ) -> rusqlite::Result<()> {
        let what = (self.sha256.as_str(), self.run_as());
        approvals::of_item(database, what, asked_by, becomes, reason, actor, now_us)
    }
}

fn persons(row: &Row, actor: &Actor, terms: &StepContext) -> Persons {
    Persons {
        // A changed configuration does not lift the rule that was in force when the item was held or
        // requested.
        two: row.two_persons || terms.two_persons,
        requester: row.request.as_ref().map(|word| word.person(&terms.team)),
        actor: Person::over(actor.uid, &actor.name, &actor.channel, &terms.team),
    }
}

/// Persons who asked over a channel for a run of an item, as the audit log names them; `None` stands for one that is not known, and for a log without any.
fn askers(
    database: &Connection,
    row: &Row,
    channel: &str,
    terms: &StepContext,
) -> rusqlite::Result<Vec<Option<Person>>> {
    let actors = audit::actors(database, (approvals::ASK, row.sha256.as_str()), channel)?;
    let persons: Vec<_> = actors.iter().map(|by| person_of(by, channel, &terms.team)).collect();
    Ok(if persons.is_empty() { vec![None] } else { persons })
}

fn step(row: &Row, from: Option<State>, step: Step, actor: &Actor, persons: Persons) -> Done<State> {
    next(from, step, &actor.channel, persons)
        .map_err(|why| QuarantineError::Illegal { id: row.id.clone(), why })
}

fn word(reason: &str, actor: &Actor, terms: &StepContext) -> Statement {
    Statement {
        by: actor.to_string(),
        uid: actor.uid,
        channel: actor.channel.to_string(),
        reason: reason.to_owned(),
        time: rfc3339(terms.now_us),
    }
}

/// Stores the files that need review, as far as there is room.
fn keep(database: &Connection, objects: &Objects, found: &Identified) -> Done<Vec<File>> {
    // Leftovers of a dead process may be what fills the disk.
    objects.sweep_unfinished().map_err(io("a file cannot be kept"))?;
    let mut kept = rows::kept_bytes(database)?;
    let mut files = Vec::new();
    for file in &found.files {
        let why = match &file.bytes {
            Err(why) => Some(why.clone()),
            Ok(_) if kept + file.size > MAX_STORED_BYTES => {
                Some(format!("the quarantine is full ({} MiB)", MAX_STORED_BYTES >> 20))
            }
            Ok(bytes) => {
                objects.put(bytes).map_err(io("a file cannot be kept"))?;
                kept += file.size;
                None
            }
        };
        files.push(File {
            part: file.part.clone(),
            language: rows::language_column(file.language),
            sha256: file.sha256.clone(),
            bytes: file.size,
            why,
        });
    }
    Ok(files)
}

fn fresh_id(database: &Connection) -> Done<String> {
    loop {
        let id = hotcell_state::ids::random_hex(4)
            .map_err(|e| io("an id cannot be made")(io::Error::other(e.to_string())))?;
        if rows::by_id(database, &id)?.is_none() {
            return Ok(id);
        }
    }
}
