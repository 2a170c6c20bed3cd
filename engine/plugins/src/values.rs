//! Values that plugins store: a small key-value store for each plugin, in the database.

use std::path::PathBuf;

use hotcell_state::database;
use hotcell_state::database::transaction;
use hotcell_state::state::StateFolder;
use hotcell_tools::ask::{Blob, Refused};
use hotcell_tools::{Ask, Reply};
use rusqlite::{Connection, OptionalExtension, params};

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 256;
/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 64 << 10;
/// Maximum number of keys per plugin.
const MAX_KEYS: u64 = 1024;
/// Maximum size of a plugin's keys and values, in bytes.
const MAX_PLUGIN_BYTES: u64 = 1 << 20;

/// State folder that contains the values.
#[derive(Clone, Debug)]
pub struct Values(pub PathBuf);

impl Values {
    /// Answers one request. Blocks on the disk.
    pub fn answer(&self, plugin: &str, ask: Ask) -> Result<Reply, Refused> {
        let unavailable =
            |e: &dyn std::fmt::Display| Refused::Unavailable(format!("the values cannot be used: {e}"));
        let state = StateFolder::open(&self.0).map_err(|e| unavailable(&e))?;
        let database = database::open_to_write(&state).map_err(|e| unavailable(&e))?;
        let long = |key: &str| key.len() > MAX_KEY_BYTES;
        match &ask {
            Ask::KvGet { key } | Ask::KvDelete { key } if long(key) => return Err(too_large()),
            Ask::KvSet { key, value } | Ask::KvSwap { key, value, .. }
                if long(key) || value.0.len() > MAX_VALUE_BYTES =>
            {
                return Err(too_large());
            }
            _ => {}
        }
        transaction(&database, || of(&database, plugin, ask)).map_err(|Stopped(why)| why)
    }
}

/// Error that rolls back a transaction.
struct Stopped(Refused);

impl From<rusqlite::Error> for Stopped {
    fn from(error: rusqlite::Error) -> Self {
        Self(Refused::Unavailable(format!("the values cannot be used: {error}")))
    }
}

fn too_large() -> Refused {
    Refused::TooMuch(format!("a key has at most {MAX_KEY_BYTES} bytes, a value {MAX_VALUE_BYTES}"))
}

fn of(database: &Connection, plugin: &str, ask: Ask) -> Result<Reply, Stopped> {
    match ask {
        Ask::KvGet { key } => {
            let query = "SELECT value FROM plugin_values WHERE plugin = ?1 AND key = ?2";
            let value: Option<Vec<u8>> =
                database.query_row(query, [plugin, &key], |row| row.get(0)).optional()?;
            Ok(Reply::Value { value: value.map(Blob) })
        }
        Ask::KvSwap { key, seen, value } => {
            // All of it is one transaction.
            match of(database, plugin, Ask::KvGet { key: key.clone() })? {
                Reply::Value { value: now } if now != seen => Ok(Reply::Value { value: now }),
                _ => of(database, plugin, Ask::KvSet { key, value }),
            }
        }
        Ask::KvSet { key, value } => {
            database.execute(
                "INSERT OR REPLACE INTO plugin_values (plugin, key, value) VALUES (?1, ?2, ?3)",
                params![plugin, key, value.0],
            )?;
            let sum = "SELECT count(*), coalesce(sum(length(CAST(key AS BLOB)) + length(value)), 0)
                       FROM plugin_values WHERE plugin = ?1";
            let (keys, bytes): (u64, u64) =
                database.query_row(sum, [plugin], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if keys > MAX_KEYS || bytes > MAX_PLUGIN_BYTES {
                return Err(Stopped(Refused::Full));
            }
            Ok(Reply::Done)
        }
        Ask::KvDelete { key } => {
            database.execute("DELETE FROM plugin_values WHERE plugin = ?1 AND key = ?2", [plugin, &key])?;
            Ok(Reply::Done)
        }
        Ask::KvKeys { prefix } => {
            let mut rows =
                database.prepare("SELECT key FROM plugin_values WHERE plugin = ?1 ORDER BY key")?;
            let keys = rows.query_map([plugin], |row| row.get::<_, String>(0))?;
            let keys =
                keys.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|key| key.starts_with(&prefix));
            Ok(Reply::Keys { keys: keys.collect() })
        }
        _ => Err(Stopped(Refused::Invalid("no question about values".to_owned()))),
    }
}
