//! Durations of tests, kept in the state folder for a later split of the suite.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::Path;

use hotcell_state::state::{StateChoice, StateFolder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Folder below the state folder.
const FOLDER: &str = "test-times";
/// Maximum size of a file, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of tests whose times are kept.
const MAX_TESTS: usize = 100_000;

#[derive(Serialize, Deserialize)]
struct Kept {
    times: HashMap<String, u64>,
}

fn name(project: &Path, framework: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(project.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(framework.as_bytes());
    format!("{}.json", hex::encode(hash.finalize()))
}

/// Durations in milliseconds by id; `None` before the first run.
pub fn read(state: &StateChoice, project: &Path, framework: &str) -> Option<HashMap<String, u64>> {
    let folder = StateFolder::open_existing(state.path().ok()?).ok()??;
    let file = folder.path().join(FOLDER).join(name(project, framework));
    let mut text = Vec::new();
    std::fs::File::open(file).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    (!kept.times.is_empty()).then_some(kept.times)
}

/// Keeps durations, those of the first tests where there are too many.
pub fn write(
    state: &StateChoice,
    project: &Path,
    framework: &str,
    times: impl Iterator<Item = (String, u64)>,
) -> io::Result<()> {
    let folder = StateFolder::open(state.path().map_err(io::Error::other)?).map_err(io::Error::other)?;
    let folder = folder.path().join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    let text = serde_json::to_vec(&Kept { times: times.take(MAX_TESTS).collect() })?;
    if text.len() as u64 >= MAX_BYTES {
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(&text)?;
    file.persist(folder.join(name(project, framework)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_same_project_and_framework() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateChoice::Named(dir.path().join("state"));
        let of = |project: &str, framework: &str| read(&state, Path::new(project), framework);
        assert_eq!(of("/p", "pytest"), None);
        write(&state, Path::new("/p"), "pytest", [("a".to_owned(), 7)].into_iter()).unwrap();
        write(&state, Path::new("/q"), "pytest", [("a".to_owned(), 9)].into_iter()).unwrap();
        assert_eq!(of("/p", "pytest").unwrap()["a"], 7);
        assert_eq!(of("/p", "unittest"), None);
    }
}
