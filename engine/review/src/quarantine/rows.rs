//! An item as it is stored: one row, and the rows of its files.

use std::collections::HashMap;

use hotcell_guard::quarantine::{Entry, Release, State};
use hotcell_guard::{Kind, Language, PartState, Report, Severity};
use hotcell_state::audit::{Problem, Subject};
use hotcell_state::time::{micros_since_1970, rfc3339};
use rusqlite::{Connection, OptionalExtension, Row as Columns, params};
use serde::{Deserialize, Serialize};

use super::error::StepContext;
use super::item::{Item, Kept, ReleaseTerms, Statement};

/// Maximum number of findings stored per item.
const MAX_FINDINGS: usize = 500;
/// Maximum number of unread parts stored per item.
const MAX_PARTS: usize = 200;
/// Maximum number of names per item, and maximum length of a name in characters.
const NAME_LIMITS: (usize, usize) = (8, 1024);
/// Maximum length, in bytes, of any text in a report: a compromised reader could send long ones.
const MAX_TEXT_BYTES: usize = 4096;

/// A row of the table `quarantine`.
#[derive(Clone, Debug)]
pub struct Row {
    pub seq: i64,
    pub id: String,
    pub sha256: String,
    /// As written by `serde`; empty when it is not known.
    pub language: String,
    pub state: State,
    pub policy: String,
    pub report: Report,
    pub names: Vec<String>,
    pub bytes: u64,
    pub submitted: i64,
    pub last_seen: i64,
    pub seen: u64,
    pub two_persons: bool,
    pub unreleasable: Option<String>,
    pub left_out: u64,
    pub request: Option<Statement>,
    pub decision: Option<Statement>,
    pub release: Option<Release>,
    /// Channel that the release is for; `None` for any.
    pub only: Option<String>,
}

const COLUMNS: &str = "seq, id, sha256, language, state, policy, report, names, bytes, submitted, last_seen, seen, \
    two_persons, unreleasable, left_out, request, decision, release_policy, release_expires, release_uses, release_for";

/// The columns, for a database of any schema version.
fn columns(database: &Connection) -> rusqlite::Result<String> {
    let newest = crate::permission::rows::there(database)?;
    Ok(if newest { COLUMNS.to_owned() } else { COLUMNS.replace("release_for", "NULL") })
}

fn broken(at: usize, why: impl std::fmt::Display) -> rusqlite::Error {
    let why = std::io::Error::other(format!("a row of the quarantine is damaged: {why}"));
    rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, why.into())
}

fn parsed<T: serde::de::DeserializeOwned>(row: &Columns<'_>, at: usize) -> rusqlite::Result<T> {
    serde_json::from_str(&row.get::<_, String>(at)?).map_err(|e| broken(at, e))
}

fn word(row: &Columns<'_>, at: usize) -> rusqlite::Result<Option<Statement>> {
    row.get::<_, Option<String>>(at)?
        .map(|text| serde_json::from_str(&text).map_err(|e| broken(at, e)))
        .transpose()
}

fn text<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn read(row: &Columns<'_>) -> rusqlite::Result<Row> {
    let sha256: String = row.get(2)?;
    let state: String = row.get(4)?;
    let release = match (row.get(17)?, row.get(18)?, row.get(19)?) {
        (Some(policy), Some(expires_us), Some(uses)) => {
            Some(Release { artifact: sha256.clone(), policy, expires_us, uses })
        }
        _ => None,
    };
    Ok(Row {
        seq: row.get(0)?,
        id: row.get(1)?,
        sha256,
        language: row.get(3)?,
        state: State::named(&state).ok_or_else(|| broken(4, "its state"))?,
        policy: row.get(5)?,
        report: parsed(row, 6)?,
        names: parsed(row, 7)?,
        bytes: row.get(8)?,
        submitted: row.get(9)?,
        last_seen: row.get(10)?,
        seen: row.get(11)?,
        two_persons: row.get(12)?,
        unreleasable: row.get(13)?,
        left_out: row.get(14)?,
        request: word(row, 15)?,
        decision: word(row, 16)?,
        only: row.get(20)?,
        release,
    })
}

/// The row of an artifact.
pub fn by_digest(database: &Connection, sha256: &str, language: &str) -> rusqlite::Result<Option<Row>> {
    let query = format!("SELECT {} FROM quarantine WHERE sha256 = ?1 AND language = ?2", columns(database)?);
    database.query_row(&query, [sha256, language], read).optional()
}

/// The newest row of an artifact, in any language.
pub fn by_digest_alone(database: &Connection, sha256: &str) -> rusqlite::Result<Option<Row>> {
    let columns = columns(database)?;
    let query = format!("SELECT {columns} FROM quarantine WHERE sha256 = ?1 ORDER BY last_seen DESC LIMIT 1");
    database.query_row(&query, [sha256], read).optional()
}

/// The row with an id.
pub fn by_id(database: &Connection, id: &str) -> rusqlite::Result<Option<Row>> {
    let query = format!("SELECT {} FROM quarantine WHERE id = ?1", columns(database)?);
    database.query_row(&query, [id], read).optional()
}

/// All rows, the most recently refused first; with a channel, only those that it submitted.
pub fn all(database: &Connection, of: Option<&str>) -> rusqlite::Result<Vec<Row>> {
    let columns = columns(database)?;
    let query = format!(
        "SELECT {columns} FROM quarantine
         WHERE ?1 IS NULL OR seq IN (SELECT item FROM quarantine_seen WHERE channel = ?1)
         ORDER BY last_seen DESC, seq DESC"
    );
    let mut statement = database.prepare(&query)?;
    statement.query_map([of], read)?.collect()
}

impl Row {
    /// Writes the row: over the row with its number, or as a new one, whose number it gets.
    pub fn write(&mut self, database: &Connection) -> rusqlite::Result<()> {
        let seq = (self.seq > 0).then_some(self.seq);
        let word = |word: &Option<Statement>| word.as_ref().map(text).transpose();
        let release = self.release.as_ref();
        database.execute(
            &format!(
                "INSERT INTO quarantine ({COLUMNS})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                 ?21)
                 ON CONFLICT (seq) DO UPDATE SET
                 state = excluded.state, policy = excluded.policy, report = excluded.report, names = excluded.names,
                 bytes = excluded.bytes, submitted = excluded.submitted, last_seen = excluded.last_seen,
                 seen = excluded.seen, two_persons = excluded.two_persons, unreleasable = excluded.unreleasable,
                 left_out = excluded.left_out, request = excluded.request, decision = excluded.decision,
                 release_policy = excluded.release_policy, release_expires = excluded.release_expires,
                 release_uses = excluded.release_uses, release_for = excluded.release_for"
            ),
            params![
                seq,
                self.id,
                self.sha256,
                self.language,
                self.state.name(),
                self.policy,
                text(&self.report)?,
                text(&self.names)?,
                self.bytes,
                self.submitted,
                self.last_seen,
                self.seen,
                self.two_persons,
                self.unreleasable,
                self.left_out,
                word(&self.request)?,
                word(&self.decision)?,
                release.map(|r| &r.policy),
                release.map(|r| r.expires_us),
                release.map(|r| r.uses),
                self.only.as_ref().filter(|_| release.is_some()),
            ],
        )?;
        if self.seq == 0 {
            self.seq = database.last_insert_rowid();
        }
        Ok(())
    }

    /// State for the audit log.
    pub fn after(&self, reason: Option<&str>) -> After {
        let release = self.release.as_ref();
        After {
            id: self.id.clone(),
            language: self.language.clone(),
            state: self.state.name().to_owned(),
            reason: reason.map(str::to_owned),
            policy: release.map(|r| r.policy.clone()),
            expires_us: release.map(|r| r.expires_us),
            uses: release.map(|r| r.uses),
            only: self.only.clone().filter(|_| release.is_some()),
        }
    }

    /// Name of the language that it runs as.
    pub fn run_as(&self) -> Option<&'static str> {
        serde_json::from_str::<Language>(&self.language).ok().map(Language::name)
    }

    /// True when its release is for another channel.
    pub fn is_for_another(&self, channel: &str) -> bool {
        self.release.is_some() && self.only.as_ref().is_some_and(|only| only != channel)
    }

    /// Why its release is no longer valid; `None` while it is valid, or without a release.
    pub fn ended(&self, terms: &StepContext) -> Option<String> {
        let release = self.release.as_ref()?;
        release.covers(&self.sha256, &terms.policy, terms.now_us).err().map(|why| why.to_string())
    }

    /// The item as it is shown.
    pub fn item(&self, files: Vec<File>, terms: &StepContext) -> Item {
        let ended = self.ended(terms);
        let state = if self.state == State::Released && ended.is_some() { State::Held } else { self.state };
        let kept =
            |file: File| Kept { part: file.part, sha256: file.sha256, bytes: file.bytes, not_kept: file.why };
        let retention = i64::try_from(terms.retention.as_micros()).unwrap_or(i64::MAX);
        let mut item = Item {
            id: self.id.clone(),
            sha256: self.sha256.clone(),
            state,
            verdict: self.report.verdict,
            findings: self.report.findings.clone(),
            findings_total: self.report.findings.len() as u64,
            submitted: rfc3339(self.submitted),
            expires: rfc3339(self.last_seen.saturating_add(retention)),
            names: self.names.clone(),
            bytes: self.bytes,
            language: self.run_as().map(str::to_owned),
            seen: self.seen,
            last_seen: rfc3339(self.last_seen),
            policy: self.policy.clone(),
            current: self.policy == terms.policy,
            unread: self.report.coverage.parts.clone(),
            files: files.into_iter().map(kept).collect(),
            left_out: self.left_out,
            unreleasable: self.unreleasable.clone(),
            request: self.request.clone(),
            decision: self.decision.clone(),
            release: self.release.as_ref().map(|release| ReleaseTerms {
                expires: rfc3339(release.expires_us),
                uses: release.uses,
                policy: release.policy.clone(),
                only: self.only.clone(),
                ended,
            }),
            shown: String::new(),
        };
        item.shown = item.shown_as();
        item
    }

    /// Adds names, within the limits.
    pub fn named(&mut self, names: &[String]) {
        for name in names {
            let name: String = name.chars().take(NAME_LIMITS.1).collect();
            if self.names.len() < NAME_LIMITS.0 && !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }
}

/// A language as a column.
pub fn language_column(language: Option<Language>) -> String {
    language.and_then(|l| serde_json::to_string(&l).ok()).unwrap_or_default()
}

/// A report as it is stored: findings and unread parts, within the limits.
pub fn stored(report: &Report) -> Report {
    let mut report = report.clone();
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report.findings.truncate(MAX_FINDINGS);
    report.coverage.parts.retain(|part| part.state.kind() == Kind::NotRead);
    report.coverage.parts.truncate(MAX_PARTS);
    report.coverage.passes.clear();
    report.coverage.fingerprints.clear();
    let mut texts: Vec<&mut String> = report.artifact.names.iter_mut().collect();
    for f in &mut report.findings {
        f.derived_from.truncate(64);
        f.frames.truncate(64);
        texts.extend([&mut f.rule, &mut f.capability, &mut f.part, &mut f.message]);
        texts.extend(f.cwe.iter_mut().chain(&mut f.derived_from));
        texts.extend(f.frames.iter_mut().flat_map(|frame| frame.part.iter_mut().chain([&mut frame.name])));
    }
    for part in &mut report.coverage.parts {
        texts.extend([&mut part.path, &mut part.language]);
        if let PartState::Skipped(why) | PartState::SetAside(why) = &mut part.state {
            texts.push(why);
        }
    }
    for text in texts {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    }
    report.quarantine = None;
    report
}

/// True when findings of this severity need review.
pub fn is_serious(severity: Severity) -> bool {
    severity > Severity::Note
}

/// A row of the table `quarantine_files`.
#[derive(Clone, Debug)]
pub struct File {
    pub part: String,
    pub language: String,
    pub sha256: String,
    pub bytes: u64,
    /// Why it is not stored.
    pub why: Option<String>,
}

impl File {
    /// Language that it runs as.
    pub fn language(&self) -> Option<Language> {
        serde_json::from_str(&self.language).ok()
    }
}

/// Files of an item.
pub fn files(database: &Connection, item: i64) -> rusqlite::Result<Vec<File>> {
    let mut statement = database.prepare(
        "SELECT part, language, sha256, bytes, why FROM quarantine_files WHERE item = ?1 ORDER BY rowid",
    )?;
    let file = |row: &Columns<'_>| {
        Ok(File {
            part: row.get(0)?,
            language: row.get(1)?,
            sha256: row.get(2)?,
            bytes: row.get(3)?,
            why: row.get(4)?,
        })
    };
    statement.query_map([item], file)?.collect()
}

/// Replaces the files of an item.
pub fn replace_files(database: &Connection, item: i64, files: &[File]) -> rusqlite::Result<()> {
    database.execute("DELETE FROM quarantine_files WHERE item = ?1", [item])?;
    let mut insert = database.prepare(
        "INSERT INTO quarantine_files (item, part, language, sha256, bytes, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for file in files {
        insert.execute(params![item, file.part, file.language, file.sha256, file.bytes, file.why])?;
    }
    Ok(())
}

/// Records that a channel submitted an item.
pub fn seen_by(database: &Connection, item: i64, channel: &str) -> rusqlite::Result<()> {
    let insert = "INSERT OR IGNORE INTO quarantine_seen (item, channel) VALUES (?1, ?2)";
    database.execute(insert, params![item, channel]).map(drop)
}

/// True when a channel submitted an item.
pub fn was_seen_by(database: &Connection, item: i64, channel: &str) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM quarantine_seen WHERE item = ?1 AND channel = ?2)";
    database.query_row(query, params![item, channel], |row| row.get(0))
}

/// Digests of all objects that files of items name.
pub fn objects(database: &Connection) -> rusqlite::Result<std::collections::HashSet<String>> {
    let mut statement = database.prepare("SELECT DISTINCT sha256 FROM quarantine_files WHERE why IS NULL")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Total size of these objects, in bytes.
pub fn kept_bytes(database: &Connection) -> rusqlite::Result<u64> {
    let query = "SELECT coalesce(sum(bytes), 0) FROM
                 (SELECT DISTINCT sha256, bytes FROM quarantine_files WHERE why IS NULL)";
    database.query_row(query, [], |row| row.get(0))
}

/// Number of items that are not purged.
pub fn count(database: &Connection) -> rusqlite::Result<u64> {
    database.query_row("SELECT count(*) FROM quarantine WHERE state <> 'purged'", [], |row| row.get(0))
}

/// Current time, in microseconds since 1970.
pub fn now() -> i64 {
    micros_since_1970(std::time::SystemTime::now())
}

/// State of an item after a step; the entry's `detail`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    pub id: String,
    /// Language that the item runs as, as in its row.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub language: String,
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// Channel that a release is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
}

impl After {
    /// The fields that must equal those of the item's row: all but the reason.
    fn stands(&self) -> Self {
        Self { reason: None, ..self.clone() }
    }
}

/// Items as the log knows them: the subject and the last state of each, by ids.
#[derive(Default)]
struct Audited(HashMap<String, (String, After)>);

/// Items, for a check of the log.
pub fn audited() -> Box<dyn Subject> {
    Box::new(Audited::default())
}

impl Subject for Audited {
    fn take(&mut self, entry: &Entry) -> bool {
        let Ok(after) = serde_json::from_str::<After>(&entry.detail) else { return false };
        self.0.insert(after.id.clone(), (entry.subject.clone(), after));
        true
    }

    fn compare(&mut self, database: &Connection) -> Result<(), Problem> {
        // A database of an older hotcell lacks this column, and is read as it is.
        let only = if crate::permission::rows::there(database)? { "release_for" } else { "NULL" };
        let mut items = database.prepare(&format!(
            "SELECT id, sha256, language, state, release_policy, release_expires, release_uses, {only}
             FROM quarantine ORDER BY seq"
        ))?;
        let rows = items.query_map([], |row| {
            let (id, language, state) = (row.get(0)?, row.get(2)?, row.get(3)?);
            let (policy, expires_us, uses, only) = (row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?);
            let after = After { id, language, state, reason: None, policy, expires_us, uses, only };
            Ok((row.get::<_, String>(1)?, after))
        })?;
        let mut items = 0;
        for row in rows {
            let (subject, row) = row?;
            items += 1;
            let same = |(of, last): &(String, After)| *of == subject && last.stands() == row.stands();
            if !self.0.get(&row.id).is_some_and(same) {
                let why = "was changed past the log: it does not stand as its last entry says";
                return Err(Problem(format!("the item {} {why}", row.id)));
            }
        }
        if items != self.0.len() {
            return Err(Problem("an item that the log knows is gone".to_owned()));
        }
        Ok(())
    }
}
