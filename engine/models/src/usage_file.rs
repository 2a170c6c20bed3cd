//! `api_usage.json`: a list of calls that other programs keep, `{"total_tokens": N, "usage_log": [{"agent", "tokens", "iteration"?,
//! "timestamp"}]}`, merged with the ledger both ways. No entry is lost, and none is counted twice.
//!
//! An entry is known by its own `id`, which entries of the ledger have, else by its content and its number among entries of equal content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hotcell_state::time::rfc3339;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::ledger::{Call, Ledger, LedgerError, LedgerReader, Purpose};
use crate::tokens::Cost;

/// Maximum size of a file.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum number of tokens of an entry, so that sums fit into 64 bits.
const MAX_ENTRY_TOKENS: u64 = 1_000_000_000_000;
/// Beginning of ids that are made of an entry's content.
const OF_CONTENT: &str = "f:";

/// Why a file is not merged. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read or written.
    #[error("{} cannot be {what}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Operation.
        what: &'static str,
        /// Reason.
        error: io::Error,
    },
    /// The file has another form.
    #[error("{} is not a list of usage: {why}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Entries that were added.
    pub added: usize,
    /// Entries that were there already.
    pub known: usize,
    /// Tokens by which the file's own total differs from the sum of its entries.
    pub missing: i128,
}

/// A file's entries, unchanged, with the ids that they are known by.
struct Entries {
    top: Map<String, Value>,
    log: Vec<(String, Value)>,
}

/// Adds a file's entries to the ledger.
///
/// # Errors
/// [`FileError`] when the file is not a list of usage, or the ledger cannot be written.
pub fn import(ledger: &Ledger, path: &Path) -> Result<Merged, FileError> {
    let bytes = read(path)?;
    let entries = Entries::parse(&bytes).map_err(|why| FileError::Form { path: path.into(), why })?;
    let call = |(at, (id, entry)): (usize, &(String, Value))| {
        call(id, entry).map_err(|why| format!("entry {}: {why}", at + 1))
    };
    let calls = entries.log.iter().enumerate().map(call).collect::<Result<Vec<_>, _>>();
    let calls = calls.map_err(|why| FileError::Form { path: path.into(), why })?;
    let added = ledger.record(&calls)?;
    Ok(Merged { added, known: calls.len() - added, missing: entries.missing() })
}

/// Adds the ledger's calls to a file, which is made if it does not exist and replaced as a whole. Other programs that merge into it by this
/// function wait for one another.
///
/// # Errors
/// [`FileError`] when the file is there and is not a list of usage, or cannot be written.
pub fn export(ledger: &LedgerReader, path: &Path) -> Result<Merged, FileError> {
    let failed = |what, error| FileError::Io { path: path.into(), what, error };
    // A link is followed, since its target is what others read.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Locked until the file is replaced; the file itself is another one then.
    let lock = File::open(folder).map_err(|e| failed("written", e))?;
    lock.lock().map_err(|e| failed("locked", e))?;
    let mut entries = match read(&target) {
        Ok(bytes) => Entries::parse(&bytes).map_err(|why| FileError::Form { path: path.into(), why })?,
        Err(FileError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Entries { top: Map::new(), log: Vec::new() }
        }
        Err(error) => return Err(error),
    };
    let calls = ledger.calls()?;
    let there: BTreeSet<String> = entries.log.iter().map(|(id, _)| id.clone()).collect();
    let missing = entries.missing();
    let new: Vec<_> = calls.iter().filter(|call| !there.contains(&call.id)).collect();
    let (added, known) = (new.len(), calls.len() - new.len());
    entries.log.extend(new.into_iter().map(|call| (call.id.clone(), entry(call))));
    let sum = entries.log.iter().map(|(_, entry)| entry["tokens"].as_u64().unwrap_or(0)).sum::<u64>();
    entries.top.insert("total_tokens".to_owned(), sum.into());
    let log = entries.log.into_iter().map(|(_, entry)| entry).collect();
    entries.top.insert("usage_log".to_owned(), Value::Array(log));
    let mut text = serde_json::to_vec_pretty(&entries.top).map_err(|e| failed("written", e.into()))?;
    text.push(b'\n');
    replace(&target, folder, &text).map_err(|e| failed("written", e))?;
    Ok(Merged { added, known, missing })
}

/// Replaces a file as a whole, with the rights that it had.
fn replace(target: &Path, folder: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    if let Ok(metadata) = target.metadata() {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |error| FileError::Io { path: path.into(), what: "read", error };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes"))));
    }
    Ok(bytes)
}

impl Entries {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut top: Map<String, Value> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        let log = match top.remove("usage_log") {
            Some(Value::Array(log)) => log,
            _ => return Err("it has no list usage_log".to_owned()),
        };
        let mut seen = BTreeMap::new();
        let mut known = Vec::with_capacity(log.len());
        for entry in log {
            let id = match entry["id"].as_str().filter(|id| is_id(id)) {
                Some(id) => id.to_owned(),
                None => {
                    let content =
                        json!([entry["agent"], entry["tokens"], entry["iteration"], entry["timestamp"]]);
                    let content = content.to_string();
                    let number = seen.entry(content.clone()).or_insert(0_u64);
                    *number += 1;
                    let digest = Sha256::digest(format!("{content}#{number}"));
                    let digits = digest.iter().take(16).map(|byte| format!("{byte:02x}"));
                    format!("{OF_CONTENT}{}", digits.collect::<String>())
                }
            };
            known.push((id, entry));
        }
        Ok(Self { top, log: known })
    }

    /// Tokens by which the file's total differs from its entries.
    fn missing(&self) -> i128 {
        let total = self.top.get("total_tokens").and_then(Value::as_u64);
        let sum: i128 = self.log.iter().map(|(_, e)| i128::from(e["tokens"].as_u64().unwrap_or(0))).sum();
        total.map_or(0, |total| i128::from(total) - sum)
    }
}

fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The row of an entry.
fn call(id: &str, entry: &Value) -> Result<Call, String> {
    let agent = entry["agent"].as_str().ok_or("agent is missing or not a text")?;
    let session = entry["session"].as_str();
    let tokens = entry["tokens"].as_u64().filter(|tokens| *tokens <= MAX_ENTRY_TOKENS);
    let tokens = tokens.ok_or("tokens is missing or not a whole number up to 1e12")?;
    let iteration = match &entry["iteration"] {
        Value::Null => None,
        number => {
            let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
            Some(number.ok_or("iteration is not a whole number")?)
        }
    };
    let stamp = &entry["timestamp"];
    let time = match stamp {
        Value::String(text) => micros(text),
        Value::Number(seconds) => seconds.as_f64().and_then(micros_of_seconds),
        _ => None,
    };
    let time_us =
        time.ok_or("timestamp is neither a time such as 2026-01-31T12:00:00 nor seconds since 1970")?;
    Ok(Call {
        id: id.to_owned(),
        time_us,
        purpose: Purpose::new(agent, session, iteration).map_err(|e| e.to_string())?,
        at: None,
        total: Some(tokens),
        tokens: None,
        cost: Cost::Unknown,
        taken_us: None,
        replied: true,
        stamp: Some(stamp.to_string()),
    })
}

/// The entry of a row. One that came from a file is as it was there.
fn entry(call: &Call) -> Value {
    let stamp = call.stamp.as_deref().and_then(|stamp| serde_json::from_str(stamp).ok());
    let mut entry = json!({
        "agent": call.purpose.role,
        "tokens": call.total.unwrap_or(0),
        "timestamp": stamp.unwrap_or_else(|| Value::String(rfc3339(call.time_us))),
    });
    if let Some(iteration) = call.purpose.iteration {
        entry["iteration"] = iteration.into();
    }
    if let Some(session) = &call.purpose.session {
        entry["session"] = session.as_str().into();
    }
    if !call.id.starts_with(OF_CONTENT) {
        entry["id"] = call.id.as_str().into();
        if let Some([_, _, model]) = &call.at {
            entry["model"] = model.as_str().into();
        }
    }
    entry
}

fn micros_of_seconds(seconds: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "in range")]
    (0.0..4e11).contains(&seconds).then(|| (seconds * 1e6).round() as i64)
}

/// Microseconds since 1970 of `2026-01-31T12:34:56.789Z`, also with a space, an offset, or no zone, which is taken for UTC. The days follow
/// Howard Hinnant's `days_from_civil`.
fn micros(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let number = |text: &str| -> Option<i64> {
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next()?)?, number(date.next()?)?, number(date.next()?)?);
    let rest = rest.strip_prefix(['T', ' ', 't'])?;
    let (clock, zone) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, "Z"),
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut clock = clock.split(':');
    let (hour, minute) = (number(clock.next()?)?, number(clock.next()?)?);
    let second = clock.next().map_or(Some(0), number)?;
    let valid =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !valid || clock.next().is_some() || date.next().is_some() {
        return None;
    }
    let micros = number(&format!("{:0<6}", fraction.get(..6).unwrap_or(fraction)))?;
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let digits = zone.get(1..)?.replace(':', "");
            let (hours, minutes) = digits.split_at_checked(2)?;
            let minutes = number(hours)? * 60 + number(minutes)?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute - offset) * 60_000_000 + second * 1_000_000 + micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_state::state::StateFolder;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_are_read_as_they_are_written(millis in 0..4_000_000_000_000_i64) {
            prop_assert_eq!(micros(&rfc3339(millis * 1000)), Some(millis * 1000));
        }
    }

    #[test]
    fn times_of_other_programs_are_read() {
        let noon = 1_769_860_800_000_000;
        for (text, want) in [
            ("2026-01-31T12:00:00", Some(noon)),
            ("2026-01-31 12:00:00.5", Some(noon + 500_000)),
            ("2026-01-31T12:00:00.123456789Z", Some(noon + 123_456)),
            ("2026-01-31T14:00:00+02:00", Some(noon)),
            ("2026-01-31T07:00-0500", Some(noon)),
            ("2026-01-31", None),
            ("2026-13-31T12:00:00", None),
            ("2026-01-31T25:00:00", None),
            ("yesterday at noon", None),
            ("é026-01-31T12:00:00", None),
            ("", None),
        ] {
            assert_eq!(micros(text), want, "{text}");
        }
    }

    struct Here {
        dir: tempfile::TempDir,
        folder: StateFolder,
    }

    impl Here {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let folder = StateFolder::open(&dir.path().join("state")).unwrap();
            Self { dir, folder }
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        }

        fn import(&self, path: &Path) -> Result<(usize, usize), String> {
            let merged = import(&Ledger::open(&self.folder).unwrap(), path).map_err(|e| e.to_string())?;
            Ok((merged.added, merged.known))
        }

        fn export(&self, path: &Path) -> (usize, usize) {
            let merged = export(&LedgerReader::open(&self.folder).unwrap(), path).unwrap();
            (merged.added, merged.known)
        }
    }

    const LOG: &str = r#"{"total_tokens": 30000, "note": "kept", "usage_log": [
        {"agent": "architect", "tokens": 1767, "timestamp": "2026-01-31T12:00:00.123456"},
        {"agent": "debugger", "tokens": 14119, "iteration": 1, "timestamp": 1769860800.5, "extra": [1]},
        {"agent": "debugger", "tokens": 14119, "iteration": 1, "timestamp": 1769860800.5}]}"#;

    #[test]
    fn merging_again_adds_nothing_and_loses_nothing() {
        let here = Here::new();
        let file = here.file("api_usage.json", LOG);
        assert_eq!(here.import(&file), Ok((3, 0)));
        assert_eq!(here.import(&file), Ok((0, 3)));
        assert_eq!(here.export(&file), (0, 3));
        let own = crate::ledger::Call {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
            time_us: 5_000_000,
            purpose: Purpose::new("coder", Some("s"), Some(2)).unwrap(),
            at: Some(["e", "ollama", "m"].map(str::to_owned)),
            total: Some(7),
            tokens: None,
            cost: Cost::Free,
            taken_us: None,
            replied: true,
            stamp: None,
        };
        Ledger::open(&here.folder).unwrap().record(&[own]).unwrap();
        assert_eq!(here.export(&file), (1, 3));
        assert_eq!(here.export(&file), (0, 4));
        assert_eq!(here.import(&file), Ok((0, 4)));
        let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((&json["total_tokens"], &json["note"]), (&(1767 + 2 * 14119 + 7).into(), &"kept".into()));
        assert_eq!(json["usage_log"][1]["extra"], json!([1]), "entries of others are unchanged");
        assert_eq!(json["usage_log"][3]["timestamp"], "1970-01-01T00:00:05.000Z");
        // Another installation takes all over, and gives back what it got.
        let other = Here::new();
        assert_eq!(other.import(&file), Ok((4, 0)));
        let copy = other.dir.path().join("copy.json");
        assert_eq!(other.export(&copy), (4, 0));
        assert_eq!(here.import(&copy), Ok((0, 4)));
        assert_eq!(other.export(&file), (0, 4));
    }

    #[test]
    fn files_of_another_form_are_refused_whole() {
        let here = Here::new();
        for (text, word) in [
            ("", "EOF"),
            ("[]", "invalid type"),
            ("{}", "no list usage_log"),
            (r#"{"usage_log": {}}"#, "no list usage_log"),
            (r#"{"usage_log": [{"tokens": 1, "timestamp": 0}]}"#, "entry 1: agent"),
            (r#"{"usage_log": [{"agent": "a", "tokens": -1, "timestamp": 0}]}"#, "entry 1: tokens"),
            (r#"{"usage_log": [{"agent": "a", "tokens": 1e30, "timestamp": 0}]}"#, "entry 1: tokens"),
            (r#"{"usage_log": [{"agent": "a", "tokens": 1}]}"#, "entry 1: timestamp"),
            (r#"{"usage_log": [{"agent": "a", "tokens": 1, "timestamp": 0, "iteration": -1}]}"#, "iteration"),
            (r#"{"usage_log": [{"agent": "a\u001b", "tokens": 1, "timestamp": 0}]}"#, "the role is"),
            (r#"{"usage_log": [{"agent": "a", "tokens": 1, "timestamp": 0}, 5]}"#, "entry 2: agent"),
        ] {
            let file = here.file("bad.json", text);
            let error = here.import(&file).unwrap_err();
            assert!(error.contains(word) && error.contains("bad.json"), "{text}: {error}");
        }
        assert!(LedgerReader::open(&here.folder).unwrap().calls().unwrap().is_empty());
        let bad = here.file("bad.json", "{\"other\": 1}");
        assert!(export(&LedgerReader::empty(), &bad).is_err());
        assert_eq!(std::fs::read_to_string(&bad).unwrap(), "{\"other\": 1}");
        assert!(here.import(here.dir.path()).unwrap_err().contains("not a file"));
        assert!(here.import(Path::new("/no/such")).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn exports_at_once_lose_no_row() {
        let here = Here::new();
        let file = here.dir.path().join("api_usage.json");
        std::thread::scope(|scope| {
            for writer in 0..6 {
                let file = &file;
                scope.spawn(move || {
                    let own = Here::new();
                    let entry = format!(
                        "{{\"usage_log\": [{{\"agent\": \"w{writer}\", \"tokens\": 1, \"timestamp\": 5}}]}}"
                    );
                    own.import(&own.file("one.json", &entry)).unwrap();
                    own.export(file);
                });
            }
        });
        let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((json["usage_log"].as_array().unwrap().len(), &json["total_tokens"]), (6, &6.into()));
    }
}
