//! The ledger of usage: one row for each call in the database of the state folder, which any number of processes may write at once.

use std::time::SystemTime;

use hotcell_state::database::{self, DatabaseError, PooledConnection, retry_while_busy, transaction};
use hotcell_state::ids;
use hotcell_state::state::StateFolder;
use hotcell_state::time::micros_since_1970;
use rusqlite::{Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::{ModelError, Reply, Tried};
use crate::tokens::{Cost, Money, Tokens};

/// Value of the `schema` field of a report.
pub const SCHEMA: &str = "hotcell.usage/1";
/// Maximum length of the name of a role or a session.
pub const MAX_LABEL_CHARS: usize = 128;

/// Purpose of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Role, such as `coder`.
    pub role: String,
    /// Session.
    pub session: Option<String>,
    /// Iteration within the session.
    pub iteration: Option<u32>,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Id.
    pub id: String,
    /// Time at which it ended, in microseconds since 1970.
    pub time_us: i64,
    /// Purpose.
    pub purpose: Purpose,
    /// Endpoint, kind of provider and model; `None` for an entry of a file.
    pub at: Option<[String; 3]>,
    /// Tokens in all; `None` when the server did not count.
    pub total: Option<u64>,
    /// Tokens by kind.
    pub tokens: Option<Tokens>,
    /// Cost.
    pub cost: Cost,
    /// Time that it took, in microseconds.
    pub taken_us: Option<i64>,
    /// False when no reply arrived, but may have been charged.
    pub replied: bool,
    /// Time as a file has it, as JSON.
    pub stamp: Option<String>,
}

/// Key by which a report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Role.
    Role,
    /// Session.
    Session,
    /// Session and iteration.
    Iteration,
    /// Model.
    Model,
    /// Day (UTC).
    Day,
}

/// Usage, counted by something.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    /// Always `hotcell.usage/1`.
    pub schema: String,
    /// Key by which it is counted.
    pub by: By,
    /// Rows, the most expensive first, days in their order.
    pub rows: Vec<Usage>,
    /// Sum of all rows; its key is empty.
    pub total: Usage,
}

/// Usage of some calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Role, session, model or day; empty for calls without one.
    pub key: String,
    /// Iteration; only when it is counted by iteration.
    pub iteration: Option<u32>,
    /// Number of calls.
    pub calls: u64,
    /// Number of those that may have been charged although no reply arrived.
    pub without_reply: u64,
    /// Tokens of all calls that were counted.
    pub tokens: u64,
    /// Of these, input that was read anew. Entries of files have only the sum.
    pub fresh: u64,
    /// Of these, input from the provider's cache.
    pub cached: u64,
    /// Of these, output.
    pub output: u64,
    /// Number of calls whose tokens were not counted.
    pub uncounted: u64,
    /// Sum of the known costs, in US dollars.
    pub dollars: f64,
    /// Number of calls that were free.
    pub free: u64,
    /// Number of calls of unknown cost, which `dollars` does not have.
    pub unknown: u64,
}

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The database cannot be opened.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A query failed.
    #[error("the ledger of usage: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// No random numbers.
    #[error("{0}")]
    Random(String),
    /// A name of a role or a session.
    #[error("{what} is empty, longer than {MAX_LABEL_CHARS} characters, or has an invisible one")]
    Label {
        /// The role or the session.
        what: &'static str,
    },
}

impl Purpose {
    /// A purpose with checked names.
    ///
    /// # Errors
    /// [`LedgerError::Label`].
    pub fn new(role: &str, session: Option<&str>, iteration: Option<u32>) -> Result<Self, LedgerError> {
        label("the role", role)?;
        if let Some(session) = session {
            label("the session", session)?;
        }
        Ok(Self { role: role.to_owned(), session: session.map(str::to_owned), iteration })
    }
}

/// Checks a name, which is printed in tables.
pub(crate) fn label(what: &'static str, name: &str) -> Result<(), LedgerError> {
    let good = !name.trim().is_empty()
        && name.chars().count() <= MAX_LABEL_CHARS
        && name.chars().all(hotcell_sandbox::text::is_shown);
    if good { Ok(()) } else { Err(LedgerError::Label { what }) }
}

impl Call {
    /// Rows of a reply: its own, and one for each endpoint that may have charged for a reply that did not arrive.
    ///
    /// # Errors
    /// [`LedgerError::Random`] when the kernel provides no random numbers.
    pub fn of_reply(purpose: &Purpose, reply: &Reply) -> Result<Vec<Self>, LedgerError> {
        let mut calls = Self::of_tried(purpose, &reply.passed_over)?;
        calls.push(Self {
            id: id()?,
            time_us: micros_since_1970(SystemTime::now()),
            purpose: purpose.clone(),
            at: Some([reply.endpoint.clone(), reply.provider.name().to_owned(), reply.model.clone()]),
            total: reply.tokens.map(Tokens::total),
            tokens: reply.tokens,
            cost: reply.cost,
            taken_us: i64::try_from(reply.time.as_micros()).ok(),
            replied: true,
            stamp: None,
        });
        Ok(calls)
    }

    /// Rows of a call without a reply, for those endpoints that may have charged for it.
    ///
    /// # Errors
    /// [`LedgerError::Random`] when the kernel provides no random numbers.
    pub fn of_error(purpose: &Purpose, error: &ModelError) -> Result<Vec<Self>, LedgerError> {
        match error {
            ModelError::Unavailable(tried) => Self::of_tried(purpose, tried),
            _ => Ok(Vec::new()),
        }
    }

    fn of_tried(purpose: &Purpose, tried: &[Tried]) -> Result<Vec<Self>, LedgerError> {
        let charged = tried.iter().filter(|tried| tried.maybe_charged);
        let call = |tried: &Tried| {
            Ok(Self {
                id: id()?,
                time_us: micros_since_1970(SystemTime::now()),
                purpose: purpose.clone(),
                at: Some([tried.endpoint.clone(), tried.provider.name().to_owned(), tried.model.clone()]),
                total: None,
                tokens: None,
                cost: if tried.free { Cost::Free } else { Cost::Unknown },
                taken_us: i64::try_from(tried.time.as_micros()).ok(),
                replied: false,
                stamp: None,
            })
        };
        charged.map(call).collect()
    }
}

/// Rounded once, so that a sum has no more digits than its parts.
#[expect(clippy::cast_precision_loss, reason = "for people")]
fn dollars(picodollars: u128) -> f64 {
    picodollars as f64 / 1e12
}

fn id() -> Result<String, LedgerError> {
    ids::random_hex(16).map_err(|e| LedgerError::Random(e.to_string()))
}

/// The ledger, open for writing.
pub struct Ledger(PooledConnection);

impl Ledger {
    /// Opens the ledger, and creates it when it is missing.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn open(folder: &StateFolder) -> Result<Self, LedgerError> {
        Ok(Self(database::open_to_write(folder)?))
    }

    /// Adds rows, all or none of them. A row whose id is there already is left out; returns the number of those that were added.
    ///
    /// # Errors
    /// [`LedgerError::Sqlite`].
    pub fn record(&self, calls: &[Call]) -> Result<usize, LedgerError> {
        const SQL: &str = "INSERT OR IGNORE INTO model_calls (id, time_us, role, session, iteration, endpoint, provider, model, tokens, \
            fresh, cached, output, cost, picodollars, time_taken_us, replied, stamp) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
        let add = || {
            transaction(&self.0, || {
                let mut statement = self.0.prepare_cached(SQL)?;
                let mut added = 0;
                for call in calls {
                    let [endpoint, provider, model] = match &call.at {
                        Some(at) => at.each_ref().map(|name| Some(name.as_str())),
                        None => [None; 3],
                    };
                    let money = match call.cost {
                        Cost::Known(Money(picodollars)) => Some(picodollars),
                        Cost::Free | Cost::Unknown => None,
                    };
                    added += statement.execute(params![
                        call.id,
                        call.time_us,
                        call.purpose.role,
                        call.purpose.session,
                        call.purpose.iteration,
                        endpoint,
                        provider,
                        model,
                        call.total,
                        call.tokens.map(|tokens| tokens.fresh),
                        call.tokens.map(|tokens| tokens.cached),
                        call.tokens.map(|tokens| tokens.output),
                        call.cost.name(),
                        money,
                        call.taken_us,
                        call.replied,
                        call.stamp,
                    ])?;
                }
                Ok(added)
            })
        };
        Ok(retry_while_busy(add)?)
    }
}

/// The ledger, open for reading.
pub struct LedgerReader(Option<PooledConnection>);

impl LedgerReader {
    /// Opens the ledger; one that does not exist yet is empty.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn open(folder: &StateFolder) -> Result<Self, LedgerError> {
        const SQL: &str = "SELECT count(*) FROM sqlite_master WHERE name = 'model_calls'";
        let Some((connection, _)) = database::open_to_read(folder)? else { return Ok(Self(None)) };
        // A database of an earlier version, to which nothing was written since, has no table.
        let tables: i64 = retry_while_busy(|| connection.query_row(SQL, [], |row| row.get(0)))?;
        Ok(Self((tables > 0).then_some(connection)))
    }

    /// A ledger without rows.
    #[must_use]
    pub fn empty() -> Self {
        Self(None)
    }

    /// Counts usage, of one session or of all.
    ///
    /// # Errors
    /// [`LedgerError::Sqlite`].
    pub fn report(&self, by: By, session: Option<&str>) -> Result<UsageReport, LedgerError> {
        // Parts of constant text only. Money is summed in two parts, since a sum of picodollars could leave 64 bits.
        let (key, iteration, order) = match by {
            By::Role => ("role", "NULL", "picos DESC, all_tokens DESC, 1"),
            By::Session => ("coalesce(session, '')", "NULL", "picos DESC, all_tokens DESC, 1"),
            By::Iteration => ("coalesce(session, '')", "iteration", "1, 2"),
            By::Model => ("coalesce(model, '')", "NULL", "picos DESC, all_tokens DESC, 1"),
            By::Day => ("date(time_us / 1000000, 'unixepoch')", "NULL", "1"),
        };
        let sql = format!(
            "SELECT {key}, {iteration}, count(*), sum(replied = 0), coalesce(sum(tokens), 0) AS all_tokens, coalesce(sum(fresh), 0), \
             coalesce(sum(cached), 0), coalesce(sum(output), 0), sum(tokens IS NULL), \
             coalesce(sum(picodollars / 1000000), 0) AS picos, coalesce(sum(picodollars % 1000000), 0), sum(cost = 'free'), \
             sum(cost = 'unknown') FROM model_calls WHERE ?1 IS NULL OR session = ?1 GROUP BY 1, 2 ORDER BY {order}"
        );
        let read = |row: &Row<'_>| {
            let (micros, picos): (u64, u64) = (row.get(9)?, row.get(10)?);
            let picodollars = u128::from(micros) * 1_000_000 + u128::from(picos);
            let usage = Usage {
                key: row.get(0)?,
                iteration: row.get(1)?,
                calls: row.get(2)?,
                without_reply: row.get(3)?,
                tokens: row.get(4)?,
                fresh: row.get(5)?,
                cached: row.get(6)?,
                output: row.get(7)?,
                uncounted: row.get(8)?,
                dollars: dollars(picodollars),
                free: row.get(11)?,
                unknown: row.get(12)?,
            };
            Ok((usage, picodollars))
        };
        let rows = match &self.0 {
            None => Vec::new(),
            Some(connection) => retry_while_busy(|| {
                connection.prepare(&sql)?.query_map([session], read)?.collect::<Result<Vec<_>, _>>()
            })?,
        };
        let (mut total, mut sum) = (Usage::default(), 0_u128);
        for (row, picodollars) in &rows {
            total.calls += row.calls;
            total.without_reply += row.without_reply;
            total.tokens += row.tokens;
            total.fresh += row.fresh;
            total.cached += row.cached;
            total.output += row.output;
            total.uncounted += row.uncounted;
            sum += picodollars;
            total.free += row.free;
            total.unknown += row.unknown;
        }
        total.dollars = dollars(sum);
        let rows = rows.into_iter().map(|(row, _)| row).collect();
        Ok(UsageReport { schema: SCHEMA.to_owned(), by, rows, total })
    }

    /// All rows, in the order in which they were recorded.
    ///
    /// # Errors
    /// [`LedgerError::Sqlite`].
    pub fn calls(&self) -> Result<Vec<Call>, LedgerError> {
        const SQL: &str = "SELECT id, time_us, role, session, iteration, endpoint, provider, model, tokens, fresh, cached, output, cost, \
            picodollars, time_taken_us, replied, stamp FROM model_calls ORDER BY seq";
        let read = |row: &Row<'_>| {
            let at: [Option<String>; 3] = [row.get(5)?, row.get(6)?, row.get(7)?];
            let tokens: [Option<u64>; 3] = [row.get(9)?, row.get(10)?, row.get(11)?];
            let (cost, money): (String, Option<u64>) = (row.get(12)?, row.get(13)?);
            Ok(Call {
                id: row.get(0)?,
                time_us: row.get(1)?,
                purpose: Purpose { role: row.get(2)?, session: row.get(3)?, iteration: row.get(4)? },
                at: match at {
                    [Some(endpoint), Some(provider), Some(model)] => Some([endpoint, provider, model]),
                    _ => None,
                },
                total: row.get(8)?,
                tokens: match tokens {
                    [Some(fresh), Some(cached), Some(output)] => Some(Tokens { fresh, cached, output }),
                    _ => None,
                },
                cost: match (cost.as_str(), money) {
                    ("known", Some(money)) => Cost::Known(Money(money)),
                    ("free", _) => Cost::Free,
                    _ => Cost::Unknown,
                },
                taken_us: row.get(14)?,
                replied: row.get(15)?,
                stamp: row.get(16)?,
            })
        };
        let Some(connection) = &self.0 else { return Ok(Vec::new()) };
        Ok(retry_while_busy(|| connection.prepare(SQL)?.query_map([], read)?.collect::<Result<Vec<_>, _>>())?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::endpoint::Provider;
    use crate::message::Stop;

    fn folder() -> (tempfile::TempDir, StateFolder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        (dir, folder)
    }

    fn reply(model: &str, tokens: Option<Tokens>, cost: Cost) -> Reply {
        Reply {
            text: String::new(),
            calls: Vec::new(),
            stop: Stop::End,
            endpoint: "e".to_owned(),
            provider: Provider::Ollama,
            model: model.to_owned(),
            tokens,
            cost,
            time: Duration::from_millis(5),
            attempts: 1,
            passed_over: Vec::new(),
        }
    }

    #[test]
    fn usage_is_counted_by_role_session_model_and_day() {
        let (_dir, folder) = folder();
        let reader = || LedgerReader::open(&folder).unwrap();
        assert_eq!(reader().report(By::Role, None).unwrap().total, Usage::default());
        let ledger = Ledger::open(&folder).unwrap();
        let tokens = |n| Some(Tokens { fresh: n, cached: 2 * n, output: 3 * n });
        let rows = [
            ("coder", Some("s1"), Some(1), reply("a", tokens(10), Cost::Known(Money(1_500_000_000_000)))),
            ("coder", Some("s1"), Some(2), reply("a", tokens(20), Cost::Free)),
            ("coder", Some("s1"), Some(2), reply("b", tokens(1), Cost::Free)),
            ("tester", Some("s2"), None, reply("b", None, Cost::Unknown)),
            (
                "tester",
                None,
                None,
                reply("b", tokens(1), Cost::Known(Money(u64::try_from(i64::MAX).unwrap()))),
            ),
            (
                "tester",
                None,
                None,
                reply("b", tokens(1), Cost::Known(Money(u64::try_from(i64::MAX).unwrap()))),
            ),
        ];
        for (role, session, iteration, reply) in rows {
            let purpose = Purpose::new(role, session, iteration).unwrap();
            assert_eq!(ledger.record(&Call::of_reply(&purpose, &reply).unwrap()).unwrap(), 1);
        }
        let keys = |by, session| {
            let report = reader().report(by, session).unwrap();
            report.rows.iter().map(|row| (row.key.clone(), row.calls, row.tokens)).collect::<Vec<_>>()
        };
        let row = |key: &str, calls, tokens| (key.to_owned(), calls, tokens);
        assert_eq!(keys(By::Role, None), [row("tester", 3, 12), row("coder", 3, 186)]);
        assert_eq!(keys(By::Role, Some("s1")), [row("coder", 3, 186)]);
        assert_eq!(keys(By::Session, None), [row("", 2, 12), row("s1", 3, 186), row("s2", 1, 0)]);
        assert_eq!(keys(By::Model, Some("s1")), [row("a", 2, 180), row("b", 1, 6)]);
        assert_eq!(keys(By::Iteration, Some("s1")), [row("s1", 1, 60), row("s1", 2, 126)]);
        assert_eq!(keys(By::Day, None).len(), 1);
        let total = reader().report(By::Role, Some("s1")).unwrap().total;
        assert_eq!((total.dollars, total.free, total.unknown, total.uncounted), (1.5, 2, 0, 0));
        let all = reader().report(By::Role, None).unwrap().total;
        assert_eq!((all.unknown, all.uncounted), (1, 1));
        assert!(all.dollars > 18_000_000.0, "the sum left 64 bits: {}", all.dollars);
        let calls = reader().calls().unwrap();
        assert_eq!(calls.len(), 6);
        // Rows that are there already are not added again.
        assert_eq!(ledger.record(&calls).unwrap(), 0);
        assert_eq!(reader().calls().unwrap(), calls);
    }

    #[test]
    fn calls_that_may_have_been_charged_are_recorded() {
        let tried = |maybe_charged, free| Tried {
            endpoint: "e".to_owned(),
            provider: Provider::OpenAi,
            model: "m".to_owned(),
            attempts: 1,
            time: Duration::ZERO,
            why: String::new(),
            maybe_charged,
            free,
        };
        let purpose = Purpose::new("r", None, None).unwrap();
        let all = vec![tried(true, false), tried(false, false), tried(true, true)];
        let rows = Call::of_error(&purpose, &ModelError::Unavailable(all)).unwrap();
        let costs: Vec<_> = rows.iter().map(|row| (row.cost, row.replied)).collect();
        assert_eq!(costs, [(Cost::Unknown, false), (Cost::Free, false)]);
        assert!(Call::of_error(&purpose, &ModelError::NoEndpoint).unwrap().is_empty());
    }

    #[test]
    fn labels_that_would_disturb_a_table_are_refused() {
        for bad in ["", " ", "a\nb", "a\u{1b}[2J", "a\u{202e}", &"x".repeat(MAX_LABEL_CHARS + 1)] {
            assert!(Purpose::new(bad, None, None).is_err() && Purpose::new("r", Some(bad), None).is_err());
        }
        assert!(Purpose::new("Küche 1", Some("s/1"), Some(0)).is_ok());
    }

    #[test]
    fn processes_write_at_once() {
        let (_dir, folder) = folder();
        let path = folder.path().to_owned();
        let purpose = Purpose::new("r", None, None).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let ledger = Ledger::open(&StateFolder::open(&path).unwrap()).unwrap();
                    for _ in 0..20 {
                        let calls = Call::of_reply(&purpose, &reply("m", None, Cost::Free)).unwrap();
                        assert_eq!(ledger.record(&calls).unwrap(), 1);
                    }
                });
            }
        });
        assert_eq!(LedgerReader::open(&folder).unwrap().calls().unwrap().len(), 160);
    }
}
