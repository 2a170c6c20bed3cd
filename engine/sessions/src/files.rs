//! Files of a session: which of them a cell returns, which names may be put in, and what is kept of them. Pure.
//!
//! The interpreter lists and reads its files itself, in its sandbox: nothing of the host is opened by a name of its, and a forged list or
//! file is a false result of its own session alone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Component, Path};
use std::sync::Arc;

use hotcell_report::LeftOut;
use hotcell_verbs::outputs::{FOLDER, OutputPattern, may_copy};
use hotcell_workspace::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum size of a file that a cell returns, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of files that a cell returns, and of all their bytes.
pub const MAX_FILES: usize = 100;
const MAX_ALL_BYTES: u64 = 16 << 20;
/// Maximum size of a piece that is put into a session, in bytes.
pub const MAX_PUT_BYTES: usize = 1 << 20;
/// Maximum length of a path, in bytes.
const MAX_PATH_BYTES: usize = 512;
/// Maximum number of entries of a list that are looked at, and of files whose last state is remembered.
const MAX_LISTED: usize = 20_000;
/// Maximum number of files that are named as left out.
const MAX_LEFT: usize = 20;
/// Maximum size of all files that are kept of a session, in bytes.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// A file that a cell returned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CellFile {
    /// Path below the home folder, or `cell-3.csv` for a form of the third cell's value.
    pub path: String,
    /// Contents; in base64 in JSON.
    #[serde(serialize_with = "in_base64", deserialize_with = "of_base64")]
    #[schemars(with = "String")]
    pub bytes: Arc<[u8]>,
}

fn in_base64<S: serde::Serializer>(bytes: &Arc<[u8]>, to: S) -> Result<S::Ok, S::Error> {
    use base64::Engine as _;
    to.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn of_base64<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Arc<[u8]>, D::Error> {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(String::deserialize(from)?);
    decoded.map(Into::into).map_err(serde::de::Error::custom)
}

/// An entry of the home folder, as the interpreter lists it: path below the home folder, `file`, `link` or another kind, size in bytes,
/// time of the last change in nanoseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Listed(pub String, pub String, pub u64, pub u64);

/// Last state of files below the folder of outputs: size and time.
pub type Seen = HashMap<String, (u64, u64)>;

/// Files that a cell has to return, with their sizes, and those that it does not.
#[derive(Debug, Default)]
pub struct Selection {
    /// Paths and sizes.
    pub wanted: Vec<(String, u64)>,
    /// Paths or patterns, and the reasons.
    pub left: Vec<LeftOut>,
    left_out: usize,
}

impl Selection {
    /// Says that a file is not returned.
    pub fn leave(&mut self, path: &str, why: String) {
        self.left_out += 1;
        if self.left_out <= MAX_LEFT {
            self.left.push(LeftOut { path: path.chars().take(MAX_PATH_BYTES).collect(), why });
        }
    }
}

/// Selects entries: those that match a pattern, and those below the folder of outputs that changed since `seen`.
pub fn select(listed: &[Listed], patterns: &[OutputPattern], seen: &mut Seen) -> Selection {
    let mut selection = Selection::default();
    let mut found = vec![false; patterns.len()];
    let (mut all, mut taken) = (0, HashSet::new());
    for Listed(name, kind, bytes, changed) in listed.iter().take(MAX_LISTED) {
        let path = Path::new(name);
        if !is_below(path) || !taken.insert(name.as_str()) {
            continue;
        }
        let pattern = patterns.iter().position(|pattern| pattern.matches_home(path));
        if let Some(at) = pattern {
            found[at] = true;
        }
        let is_output = path.starts_with(FOLDER);
        let state = (*bytes, *changed);
        let is_new = is_output && seen.get(name) != Some(&state);
        if is_new && seen.len() < MAX_LISTED {
            seen.insert(name.clone(), state);
        }
        if pattern.is_none() && !is_new {
            continue;
        }
        let kind = match kind.as_str() {
            "file" => Some(Kind::File),
            "link" => Some(Kind::Link),
            _ => None,
        };
        let may = may_copy(path, kind).and_then(|_| {
            if *bytes > MAX_FILE_BYTES {
                Err(format!("it has {bytes} bytes, of which at most {MAX_FILE_BYTES} are returned"))
            } else if selection.wanted.len() >= MAX_FILES {
                Err(format!("at most {MAX_FILES} files are returned"))
            } else if all + bytes > MAX_ALL_BYTES {
                Err(format!("the files together have more than {MAX_ALL_BYTES} bytes"))
            } else {
                Ok(())
            }
        });
        match may {
            Ok(()) => {
                all += bytes;
                selection.wanted.push((name.clone(), *bytes));
            }
            Err(why) => selection.leave(name, why),
        }
    }
    for (pattern, _) in patterns.iter().zip(found).filter(|(_, found)| !found) {
        selection.leave(pattern.text(), "matches no file below the home folder".to_owned());
    }
    selection
}

fn is_below(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_PATH_BYTES
        && path.components().next().is_some()
        && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Path below the home folder that a file may be put to.
///
/// # Errors
/// A sentence with the reason.
pub fn put_path(text: &str) -> Result<&str, String> {
    let below =
        text.strip_prefix(hotcell_sandbox::policy::HOME).map_or(text, |rest| rest.trim_start_matches('/'));
    if text.contains('\0') || !is_below(Path::new(below)) {
        return Err(format!(
            "{:?} is not the path of a file below the home folder, such as data.csv",
            text.chars().take(80).collect::<String>()
        ));
    }
    Ok(below)
}

/// Files of a session that are kept for later reads, the newest.
#[derive(Debug, Default)]
pub struct KeptFiles {
    files: VecDeque<CellFile>,
    bytes: usize,
}

impl KeptFiles {
    /// Keeps a file, in place of an older one of its path.
    pub fn keep(&mut self, file: &CellFile) {
        if let Some(at) = self.files.iter().position(|kept| kept.path == file.path)
            && let Some(old) = self.files.remove(at)
        {
            self.bytes -= old.bytes.len();
        }
        self.bytes += file.bytes.len();
        self.files.push_back(file.clone());
        while self.bytes > MAX_KEPT_BYTES
            && let Some(old) = self.files.pop_front()
        {
            self.bytes -= old.bytes.len();
        }
    }

    /// Contents of a file.
    pub fn get(&self, path: &str) -> Option<Arc<[u8]>> {
        self.files.iter().find(|file| file.path == path).map(|file| Arc::clone(&file.bytes))
    }

    /// Paths and sizes.
    pub fn list(&self) -> Vec<(String, u64)> {
        self.files.iter().map(|file| (file.path.clone(), file.bytes.len() as u64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: &str, bytes: u64, changed: u64) -> Listed {
        Listed(path.to_owned(), kind.to_owned(), bytes, changed)
    }

    #[test]
    fn files_are_selected_by_pattern_and_by_change() {
        let patterns = ["*.csv", "none.*"].map(|text| OutputPattern::parse(text).unwrap());
        let mut seen = Seen::new();
        let list = [
            entry("a.csv", "file", 3, 1),
            entry("a.csv", "file", 3, 1),
            entry("b.txt", "file", 3, 1),
            entry("l.csv", "link", 3, 1),
            entry("d.csv", "other", 0, 1),
            entry("big.csv", "file", MAX_FILE_BYTES + 1, 1),
            entry("../x.csv", "file", 3, 1),
            entry("/etc/y.csv", "file", 3, 1),
            entry("outputs/plot.svg", "file", 5, 1),
        ];
        let first = select(&list, &patterns, &mut seen);
        let names: Vec<&str> = first.wanted.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a.csv", "outputs/plot.svg"]);
        let left: Vec<_> = first.left.iter().map(|left| (left.path.as_str(), left.why.as_str())).collect();
        for (at, (path, why)) in
            [("l.csv", "a link"), ("d.csv", "a device"), ("big.csv", "4194305"), ("none.*", "no file")]
                .into_iter()
                .enumerate()
        {
            assert!(left[at].0 == path && left[at].1.contains(why), "{left:?}");
        }
        assert!(select(&list, &[], &mut seen).wanted.is_empty());
        let changed = [entry("outputs/plot.svg", "file", 5, 2)];
        assert_eq!(select(&changed, &[], &mut seen).wanted.len(), 1);
    }

    #[test]
    fn paths_of_files_that_are_put_stay_below_the_home_folder() {
        for (text, want) in [
            ("data.csv", Some("data.csv")),
            ("a/b.csv", Some("a/b.csv")),
            ("/home/sandbox/a", Some("a")),
            ("/etc/passwd", None),
            ("../a", None),
            ("a/../../b", None),
            ("", None),
            ("a\0b", None),
            ("/home/sandbox", None),
        ] {
            assert_eq!(put_path(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn kept_files_are_bounded_and_replaced() {
        let mut kept = KeptFiles::default();
        let file =
            |path: &str, bytes: usize| CellFile { path: path.to_owned(), bytes: vec![0; bytes].into() };
        kept.keep(&file("a", 1));
        kept.keep(&file("a", 2));
        assert_eq!(kept.list(), [("a".to_owned(), 2)]);
        for at in 0..9 {
            kept.keep(&file(&at.to_string(), 4 << 20));
        }
        assert!(kept.get("a").is_none() && kept.get("8").is_some() && kept.bytes <= MAX_KEPT_BYTES);
    }

    proptest::proptest! {
        #[test]
        fn selected_paths_lie_below_the_home_folder(path in "[a./\\\\]{0,12}") {
            let patterns = [OutputPattern::parse("**").unwrap()];
            let chosen = select(&[entry(&path, "file", 1, 1)], &patterns, &mut Seen::new());
            for (path, _) in chosen.wanted {
                proptest::prop_assert!(Path::new(&path).components().all(|part| matches!(part, Component::Normal(_))));
            }
        }
    }
}
