//! Results that are kept for a while, as files in the state folder, so that they serve several processes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_state::state::VERB_RESULTS;
use hotcell_state::time::micros_since_1970;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Maximum number of results.
const MAX_RESULTS: usize = 256;
/// Maximum size of a result that is kept, in bytes.
const MAX_RESULT_BYTES: usize = 1 << 20;
/// Maximum size of a file whose contents count, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Kept results.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

/// Identity of a call: nothing that could change its result is left out.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// sha256 of the tool's component.
    pub component: &'a str,
    /// Tool.
    pub tool: &'a str,
    /// Grants in force.
    pub granted: &'a [String],
    /// Arguments as JSON.
    pub arguments: &'a str,
    /// sha256 of the files that the arguments name.
    pub files: &'a [String],
}

impl Key<'_> {
    /// Name of the result's file.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { component, tool, granted, arguments, files } = self;
        hex(&Sha256::digest(json!([1, component, tool, granted, arguments, files]).to_string()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// sha256 of a regular file of at most 16 MiB; `None` for everything else. Blocks.
#[must_use]
pub fn digest(path: &Path) -> Option<String> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_FILE_BYTES).then(|| hex(&Sha256::digest(&bytes)))
}

impl Cache {
    /// The cache of a state folder, which is made when a result is kept.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self(state.join(VERB_RESULTS))
    }

    /// A result that is still valid. One that cannot be read is not valid.
    #[must_use]
    pub fn get(&self, name: &str, now: SystemTime) -> Option<Value> {
        let mut text = String::new();
        let limit = (MAX_RESULT_BYTES + 1024) as u64;
        File::open(self.0.join(name)).ok()?.take(limit).read_to_string(&mut text).ok()?;
        let mut kept: Value = serde_json::from_str(&text).ok()?;
        let (from, until) = (kept["from"].as_i64()?, kept["until"].as_i64()?);
        // A clock that was set back does not make results last longer.
        (from..until).contains(&micros_since_1970(now)).then(|| kept["value"].take())
    }

    /// Keeps a result; one that is too large or cannot be written is not kept, which costs a later call only.
    pub fn put(&self, name: &str, value: &Value, now: SystemTime, time: Duration) {
        let (from, until) = (micros_since_1970(now), micros_since_1970(now + time));
        let text = json!({ "from": from, "until": until, "value": value }).to_string();
        if text.len() > MAX_RESULT_BYTES {
            return;
        }
        if let Err(error) = self.write(name, &text) {
            tracing::debug!("a result of a verb's tool is not kept: {error}");
        }
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        self.make_room()?;
        let mut file = tempfile::NamedTempFile::new_in(&self.0)?;
        file.write_all(text.as_bytes())?;
        file.persist(self.0.join(name)).map_err(|e| e.error)?;
        Ok(())
    }

    /// Removes the oldest results, so that there is room for one more.
    fn make_room(&self) -> std::io::Result<()> {
        let mut all: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(&self.0)?
            .filter_map(|entry| {
                entry.ok().and_then(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
            })
            .collect();
        all.sort();
        for (_, path) in all.iter().take((all.len() + 1).saturating_sub(MAX_RESULTS)) {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_for_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::of(folder.path());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(cache.get("a", now), None);
        cache.put("a", &json!({ "x": 1 }), now, Duration::from_secs(300));
        for (seconds, want) in [(0, true), (299, true), (300, false), (9000, false)] {
            let at = now + Duration::from_secs(seconds);
            assert_eq!(cache.get("a", at), want.then(|| json!({ "x": 1 })), "{seconds}");
        }
        assert_eq!(cache.get("a", now - Duration::from_secs(1)), None);
        cache.put("b", &"x".repeat(MAX_RESULT_BYTES).into(), now, Duration::from_secs(300));
        assert_eq!(cache.get("b", now), None);
        for number in 0..MAX_RESULTS + 8 {
            cache.put(&format!("n{number}"), &Value::Null, now, Duration::from_secs(1));
        }
        assert_eq!(std::fs::read_dir(folder.path().join(VERB_RESULTS)).unwrap().count(), MAX_RESULTS);
    }

    #[test]
    fn each_part_of_a_call_counts() {
        let (none, some) = ([], ["x".to_owned()]);
        let base = Key { component: "c", tool: "t", granted: &none, arguments: "{}", files: &none };
        let others = [
            Key { component: "d", ..base },
            Key { tool: "u", ..base },
            Key { granted: &some, ..base },
            Key { arguments: "[]", ..base },
            Key { files: &some, ..base },
        ];
        assert!(others.iter().all(|key| key.name() != base.name()));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "1").unwrap();
        let first = digest(&file);
        std::fs::write(&file, "2").unwrap();
        assert!(first.is_some() && first != digest(&file));
        assert_eq!((digest(folder.path()), digest(&folder.path().join("no"))), (None, None));
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(digest(&folder.path().join("pipe")), None);
    }
}
