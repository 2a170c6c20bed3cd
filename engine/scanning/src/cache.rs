//! Cache of scan reports: artifacts scanned before are not scanned again.
//!
//! The cache is a database of its own in the state folder, which only its owner can write; any process that
//! can write there could as well change the configuration. An entry that is damaged, from another build or
//! about another artifact is ignored, and a cache damaged as a whole is created anew.

use std::time::{Duration, Instant};

use hotcell_guard::{Report, SCHEMA, Severity, Verdict};
use hotcell_state::state::StateFolder;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use sha2::{Digest, Sha256};

/// File name of the database in the state folder.
pub const DATABASE: &str = "readings.db";
/// Schema version (`PRAGMA user_version`). Version 1 had a write-ahead log, and version 2 no reports of folders.
const VERSION: i64 = 3;
/// Files that SQLite may leave beside the database, by what their names have more: a rollback journal, and the log and index of version 1.
pub const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Maximum size in pages: 64 MiB in pages of 4 KiB, some 80,000 files without findings. When it is full, the
/// older half is removed.
const MAX_PAGES: u32 = 16 * 1024;
/// Maximum size of a stored report, in bytes.
const MAX_REPORT_BYTES: usize = 64 * 1024;
/// Maximum size of a stored report of a whole folder, in bytes: some 15,000 files without findings.
const MAX_FOLDER_REPORT_BYTES: usize = 1 << 20;
/// Maximum number of stored reports of whole folders.
const MAX_FOLDER_REPORTS: usize = 16;
/// Maximum size of the reports stored by one scan, in bytes.
const MAX_SCAN_BYTES: usize = 16 << 20;
/// Time limit for waiting while another process holds the database: a longer wait is worse than scanning
/// again.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum time for which look-ups that follow each other keep the database from being written, below [`BUSY_TIMEOUT`] of the process that waits to write.
const MAX_HELD: Duration = Duration::from_millis(50);

/// Digest of everything that a report depends on.
pub type Key = [u8; 32];

/// Reports of earlier scans, and new ones of this scan.
#[derive(Debug)]
pub struct ReportCache {
    database: Connection,
    /// Beginning of the transaction of look-ups. To begin one takes about 16 system calls, and a look-up in one takes few.
    held: Option<Instant>,
    new: Vec<(Key, Vec<u8>)>,
    /// New report of a folder.
    new_folder: Option<(Key, Vec<u8>)>,
    bytes: usize,
}

impl ReportCache {
    /// Opens the cache; `None`, with a log message, when it cannot be used.
    #[must_use]
    pub fn open(state: &StateFolder) -> Option<Self> {
        Self::sized(state, MAX_PAGES)
    }

    fn sized(state: &StateFolder, pages: u32) -> Option<Self> {
        let opened = connect(state, pages).or_else(|error| {
            let damaged = matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            );
            if !damaged {
                return Err(error);
            }
            for end in [""].into_iter().chain(BESIDE) {
                let _ = state.dir().remove_file(format!("{DATABASE}{end}"));
            }
            connect(state, pages)
        });
        match opened {
            Ok(database) => Some(Self { database, held: None, new: Vec::new(), new_folder: None, bytes: 0 }),
            Err(error) => {
                tracing::debug!("known reports cannot be used: {error}");
                None
            }
        }
    }

    /// Report of an artifact with this digest and size. Other processes cannot write between look-ups that follow each other and find something: a scan of
    /// artifacts that are all known is short, and one that finds nothing is about to wait for a reader.
    #[must_use]
    pub fn find(&mut self, key: &Key, sha256: &str, bytes: usize) -> Option<Report> {
        self.hold();
        let found = self.look(key, sha256, bytes);
        if found.is_none() {
            self.release();
        }
        found
    }

    /// Begins a transaction of look-ups, or keeps the present one if it is young.
    fn hold(&mut self) {
        if self.held.is_some_and(|since| since.elapsed() < MAX_HELD) {
            return;
        }
        self.release();
        // Without a transaction, each look-up is one.
        if self.database.execute_batch("BEGIN").is_ok() {
            self.held = Some(Instant::now());
        }
    }

    /// Ends the transaction of look-ups.
    fn release(&mut self) {
        if self.held.take().is_some()
            && let Err(error) = self.database.execute_batch("COMMIT")
        {
            tracing::debug!("known reports stay locked: {error}");
        }
    }

    fn look(&self, key: &Key, sha256: &str, bytes: usize) -> Option<Report> {
        let report = self.stored("SELECT report FROM reports WHERE key = ?1", key)?;
        let own = report.artifact.sha256 == sha256
            && report.artifact.bytes == bytes as u64
            && report.coverage.bytes_total == bytes as u64;
        own.then_some(report)
    }

    /// Report of a folder whose state is in this key.
    #[must_use]
    pub fn find_folder(&self, key: &Key) -> Option<Report> {
        self.stored("SELECT report FROM folders WHERE key = ?1", key)
    }

    /// A report that is whole and sound.
    fn stored(&self, sql: &str, key: &Key) -> Option<Report> {
        let row = || {
            let mut statement = self.database.prepare_cached(sql)?;
            statement.query_row([key], |row| row.get::<_, Vec<u8>>(0)).optional()
        };
        let row: Vec<u8> = row().ok()??;
        let (seal, text) = row.split_at_checked(32)?;
        if seal != sealed(key, text) {
            return None;
        }
        serde_json::from_slice(text).ok().filter(is_sound)
    }

    /// Holds a report until [`ReportCache::write`].
    pub fn add(&mut self, key: Key, report: &Report) {
        let Ok(text) = serde_json::to_vec(report) else { return };
        if is_sound(report) && text.len() <= MAX_REPORT_BYTES && self.bytes + text.len() <= MAX_SCAN_BYTES {
            self.bytes += text.len();
            let mut row = sealed(&key, &text).to_vec();
            row.extend(text);
            self.new.push((key, row));
        }
    }

    /// Holds a folder's report until [`ReportCache::write`].
    pub fn add_folder(&mut self, key: Key, report: &Report) {
        let Ok(text) = serde_json::to_vec(report) else { return };
        if is_sound(report) && text.len() <= MAX_FOLDER_REPORT_BYTES {
            self.new_folder = Some((key, [&sealed(&key, &text)[..], &text].concat()));
        }
    }

    /// Writes the new reports.
    pub fn write(&mut self) {
        self.release();
        if let Some(new) = self.new_folder.take()
            && let Err(error) = self.insert_folder(&new)
        {
            tracing::debug!("what was read of a folder is not remembered: {error}");
        }
        let new = std::mem::take(&mut self.new);
        if new.is_empty() {
            return;
        }
        let mut written = self.insert(&new);
        if written.as_ref().is_err_and(|e| e.sqlite_error_code() == Some(ErrorCode::DiskFull)) {
            let older = "DELETE FROM reports WHERE seq <= (SELECT (min(seq) + max(seq)) / 2 FROM reports)";
            written = self.database.execute(older, []).and_then(|_| self.insert(&new));
        }
        if let Err(error) = written {
            tracing::debug!("what was read is not remembered: {error}");
        }
    }

    fn insert_folder(&mut self, (key, row): &(Key, Vec<u8>)) -> rusqlite::Result<()> {
        let all = self.database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        all.execute("INSERT OR REPLACE INTO folders (key, report) VALUES (?1, ?2)", params![key, row])?;
        all.execute(&bound_folders(), [])?;
        all.commit()
    }

    fn insert(&mut self, new: &[(Key, Vec<u8>)]) -> rusqlite::Result<()> {
        let all = self.database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        {
            let mut one = all.prepare("INSERT OR REPLACE INTO reports (key, report) VALUES (?1, ?2)")?;
            for (key, row) in new {
                one.execute(params![key, row])?;
            }
        }
        all.commit()
    }
}

/// Statement that keeps the newest reports of folders.
fn bound_folders() -> String {
    format!("DELETE FROM folders WHERE seq <= (SELECT max(seq) FROM folders) - {MAX_FOLDER_REPORTS}")
}

fn connect(state: &StateFolder, pages: u32) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    if let Err(error) = state.touch(DATABASE) {
        tracing::debug!("{error}");
    }
    let database = Connection::open_with_flags(state.path().join(DATABASE), flags)?;
    database.busy_timeout(BUSY_TIMEOUT)?;
    // Log and index of a write-ahead log are made anew by the first of the processes that open it and removed by the last one, which takes several times
    // longer than a look-up. A rollback journal stays, and is written only with new reports. An entry destroyed by a power loss is recognised as damaged,
    // and its artifact is scanned again.
    database.execute_batch(&format!(
        "PRAGMA journal_mode = PERSIST; PRAGMA synchronous = OFF; PRAGMA max_page_count = {pages};"
    ))?;
    let form: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if form != VERSION {
        database.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             DROP TABLE IF EXISTS reports;
             DROP TABLE IF EXISTS folders;
             CREATE TABLE reports (seq INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, report BLOB NOT NULL) STRICT;
             CREATE TABLE folders (seq INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, report BLOB NOT NULL) STRICT;
             PRAGMA user_version = {VERSION};
             COMMIT;"
        ))?;
    }
    Ok(database)
}

/// Digest of a report and its key, to detect damage.
fn sealed(key: &Key, text: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(key).chain_update(text).finalize().into()
}

/// True when a report's verdict is not better than its findings and parts allow.
fn is_sound(report: &Report) -> bool {
    let worst = report.findings.iter().map(|f| f.severity).max().unwrap_or(Severity::Note);
    let found = match worst {
        Severity::Critical => Verdict::Quarantine,
        Severity::Warning => Verdict::Review,
        Severity::Note => Verdict::Allow,
    };
    let least = report.coverage.parts.iter().map(|part| part.state.least()).fold(found, Verdict::max);
    report.schema == SCHEMA && !report.coverage.parts.is_empty() && report.verdict >= least
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_guard::{Artifact, Limits, Pack, scan};

    fn folder() -> (tempfile::TempDir, StateFolder) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("state")).unwrap();
        (dir, state)
    }

    fn report(text: &str) -> Report {
        scan(&Pack::builtin().unwrap(), &Limits::default(), &Artifact::new("a.py", text))
    }

    fn find(known: &mut ReportCache, key: u8, report: &Report) -> Option<Report> {
        let bytes = usize::try_from(report.artifact.bytes).unwrap();
        known.find(&[key; 32], &report.artifact.sha256, bytes)
    }

    #[test]
    fn report_cache_finds_report_by_key() {
        let (_dir, state) = folder();
        let (good, bad) = (report("print(1)\n"), report("import shutil\nshutil.rmtree('/home')\n"));
        let mut known = ReportCache::open(&state).unwrap();
        known.add([1; 32], &good);
        known.add([2; 32], &bad);
        known.write();
        let mut known = ReportCache::open(&state).unwrap();
        assert_eq!(find(&mut known, 1, &good), Some(good.clone()));
        assert_eq!(find(&mut known, 2, &bad), Some(bad.clone()));
        assert_eq!(find(&mut known, 3, &good), None);
        assert_eq!(find(&mut known, 1, &bad), None, "another artifact's");
    }

    #[test]
    fn damaged_or_foreign_cached_report_is_ignored() {
        let (_dir, state) = folder();
        let bad = report("import shutil\nshutil.rmtree('/home')\n");
        let forged = Report { verdict: Verdict::Allow, ..bad.clone() };
        let text = serde_json::to_vec(&forged).unwrap();
        let honest = serde_json::to_vec(&bad).unwrap();
        let with_seal = |key: [u8; 32], text: &[u8]| [&sealed(&key, text)[..], text].concat();
        let mut known = ReportCache::open(&state).unwrap();
        for (key, row) in [
            (1_u8, with_seal([1; 32], &text)),
            (2, [&[0; 32][..], &honest].concat()),
            (3, with_seal([9; 32], &honest)),
            (4, b"short".to_vec()),
            (5, with_seal([5; 32], b"{}")),
            (6, with_seal([6; 32], &honest)),
        ] {
            known
                .database
                .execute("INSERT INTO reports (key, report) VALUES (?1, ?2)", params![[key; 32], row])
                .unwrap();
        }
        assert_eq!((1..=6).filter(|key| find(&mut known, *key, &bad).is_some()).collect::<Vec<_>>(), [6]);
        drop(known);
        std::fs::write(state.path().join(DATABASE), "no database").unwrap();
        let mut known = ReportCache::open(&state).unwrap();
        assert_eq!(find(&mut known, 6, &bad), None);
    }

    #[test]
    fn report_cache_keeps_newest_folders() {
        let (_dir, state) = folder();
        let report = report("import shutil\nshutil.rmtree('/home')\n");
        let mut known = ReportCache::open(&state).unwrap();
        let most = u8::try_from(MAX_FOLDER_REPORTS).unwrap();
        for key in 0..=most {
            known.add_folder([key; 32], &report);
            known.write();
        }
        assert_eq!((known.find_folder(&[0; 32]), known.find_folder(&[most + 1; 32])), (None, None));
        assert!((1..=most).all(|key| known.find_folder(&[key; 32]) == Some(report.clone())));
        // Neither is the other's.
        assert_eq!(find(&mut known, 1, &report), None);
        known.add([99; 32], &report);
        known.write();
        assert_eq!(known.find_folder(&[99; 32]), None);
        // Damaged, unsound, or too large.
        known
            .database
            .execute("UPDATE folders SET key = ?1 WHERE key = ?2", params![[77_u8; 32], [1_u8; 32]])
            .unwrap();
        assert_eq!(known.find_folder(&[77; 32]), None);
        let large = Report { schema: "x".repeat(MAX_FOLDER_REPORT_BYTES), ..report.clone() };
        for bad in [Report { verdict: Verdict::Allow, ..report }, large] {
            known.add_folder([55; 32], &bad);
            known.write();
            assert_eq!(known.find_folder(&[55; 32]), None);
        }
    }

    #[test]
    fn cache_lookups_make_and_remove_no_files() {
        let (_dir, state) = folder();
        let report = report("print(1)\n");
        // A cache of the version before becomes one of this version.
        let before = Connection::open(state.path().join(DATABASE)).unwrap();
        before
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE reports (a); PRAGMA user_version = 1;")
            .unwrap();
        drop(before);
        let mut known = ReportCache::open(&state).unwrap();
        known.add([1; 32], &report);
        known.write();
        drop(known);
        let files = || {
            let mut all: Vec<_> = std::fs::read_dir(state.path())
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.file_name().to_string_lossy().starts_with(DATABASE))
                .map(|entry| (entry.file_name(), std::os::unix::fs::DirEntryExt::ino(&entry)))
                .collect();
            all.sort();
            all
        };
        let first = files();
        assert_eq!(first.len(), 2, "the database and its journal: {first:?}");
        // Two at once, one of which writes.
        let (mut one, mut other) = (ReportCache::open(&state).unwrap(), ReportCache::open(&state).unwrap());
        assert_eq!(files(), first);
        assert_eq!(find(&mut other, 1, &report), Some(report.clone()));
        // A look-up that finds nothing lets the other write.
        assert_eq!(find(&mut other, 2, &report), None);
        one.add([2; 32], &report);
        one.write();
        assert_eq!(find(&mut other, 2, &report), Some(report.clone()));
        drop((one, other));
        assert_eq!(files(), first);
    }

    /// Look-ups that all find something, one after the other, for much longer than a process waits that has new reports.
    #[test]
    fn reports_are_written_between_lookups() {
        let (_dir, state) = folder();
        let report = report("print(1)\n");
        let mut one = ReportCache::open(&state).unwrap();
        one.add([1; 32], &report);
        one.write();
        let mut other = ReportCache::open(&state).unwrap();
        assert!(find(&mut other, 1, &report).is_some() && other.held.is_some());
        one.add([2; 32], &report);
        let writer = std::thread::spawn(move || one.write());
        let (began, mut found) = (Instant::now(), 0);
        while began.elapsed() < 4 * BUSY_TIMEOUT {
            found += usize::from(find(&mut other, 1, &report).is_some());
        }
        writer.join().unwrap();
        assert!(found > 100, "{found}");
        assert_eq!(find(&mut other, 2, &report), Some(report.clone()));
        assert_eq!(find(&mut other, 3, &report), None);
        assert!(other.held.is_none());
    }

    #[test]
    fn report_cache_is_bounded_and_keeps_newest() {
        let (_dir, state) = folder();
        let report = report("print(1)\n");
        let key = |n: u32| -> Key { Sha256::digest(n.to_le_bytes()).into() };
        for round in 0..20 {
            let mut known = ReportCache::sized(&state, 64).unwrap();
            (0..40).for_each(|n| known.add(key(round * 40 + n), &report));
            known.write();
        }
        let size = std::fs::metadata(state.path().join(DATABASE)).unwrap().len();
        assert!(size <= 64 * 4096, "{size}");
        let mut known = ReportCache::open(&state).unwrap();
        let mut there = |n| known.find(&key(n), &report.artifact.sha256, 9).is_some();
        assert!(there(799) && !there(0));
    }
}
