//! Receipts as they are kept: rows of the database, so that a receipt and its entry in the audit log are one transaction.

use rusqlite::{Connection, OptionalExtension, params};

/// Schema version in which the table is there.
const FORM: i64 = 9;

/// SQL that keeps a receipt.
const KEEP: &str =
    "INSERT INTO receipts (digest, about, envelope) VALUES (?1, ?2, ?3) ON CONFLICT (digest) DO NOTHING";
/// SQL that counts receipts about the same.
const COUNT: &str = "SELECT count(*) FROM receipts WHERE about = ?1";

/// Compiles the statements of [`keep`] and [`count`], which the connection keeps.
///
/// # Errors
/// When the schema cannot be read.
pub fn prepare(database: &Connection) -> rusqlite::Result<()> {
    [KEEP, COUNT].into_iter().try_for_each(|sql| database.prepare_cached(sql).map(drop))
}

/// Keeps a receipt; call this within the step that notes it in the log. `about` is the digest of what it is about.
///
/// # Errors
/// When the database cannot be written.
pub fn keep(database: &Connection, digest: &str, about: &str, envelope: &str) -> rusqlite::Result<()> {
    database.prepare_cached(KEEP)?.execute(params![digest, about, envelope]).map(drop)
}

/// The kept receipt with this digest.
///
/// # Errors
/// When the database cannot be read.
pub fn read(database: &Connection, digest: &str) -> rusqlite::Result<Option<String>> {
    if !is_there(database)? {
        return Ok(None);
    }
    let select = "SELECT envelope FROM receipts WHERE digest = ?1";
    database.query_row(select, [digest], |row| row.get(0)).optional()
}

/// Number of kept receipts about this.
///
/// # Errors
/// When the database cannot be read.
pub fn count(database: &Connection, about: &str) -> rusqlite::Result<u64> {
    database.prepare_cached(COUNT)?.query_row([about], |row| row.get(0))
}

/// Calls `each` with the digest and the envelope of every kept receipt.
///
/// # Errors
/// When the database cannot be read.
pub fn each(database: &Connection, mut each: impl FnMut(String, String)) -> rusqlite::Result<()> {
    if !is_there(database)? {
        return Ok(());
    }
    let mut all = database.prepare("SELECT digest, envelope FROM receipts ORDER BY digest")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

/// False in a database that an earlier release wrote, when it is opened to read.
fn is_there(database: &Connection) -> rusqlite::Result<bool> {
    database.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).map(|form| form >= FORM)
}
