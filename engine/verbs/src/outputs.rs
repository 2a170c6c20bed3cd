//! Files of a run that were asked for by patterns, copied out by the rules of a commit: regular files alone, no links, no devices, no
//! protected names, bounded in number and size.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use globset::{GlobBuilder, GlobMatcher};
use hotcell_report::{LeftOut, OutputFile, Outputs};
use hotcell_sandbox::Home;
use hotcell_sandbox::policy::{HOME, PROJECT, PROJECT_NAME};
use hotcell_workspace::placed::place;
use hotcell_workspace::{Change, Folder, Kind, protected};

/// Folder below the home folder whose files are taken without a pattern, where a caller wants them.
pub const FOLDER: &str = "outputs";
/// Maximum number of patterns of one request.
pub const MAX_PATTERNS: usize = 32;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 512;
/// Maximum number of entries of the home folder that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// Maximum depth of folders that are looked into.
const MAX_DEPTH: usize = 24;
/// Maximum number of files that are named as left out.
const MAX_LEFT: usize = 100;

/// Pattern of files, in the words of shells: `*`, `?`, `[a-z]`, `{a,b}` and `**`.
#[derive(Clone, Debug)]
pub struct OutputPattern {
    /// The pattern as it was given, for messages.
    text: String,
    matcher: GlobMatcher,
    base: Base,
}

/// Folder that a pattern counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The folder that the program starts in.
    Start,
    /// The workspace.
    Project,
    /// The home folder.
    Home,
}

impl OutputPattern {
    /// Parses a pattern: relative to the folder that the program starts in, or below the home folder by its absolute path. One that ends
    /// with a slash means everything in that folder.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let no = |why: &str| Err(format!("{text:?} {why}"));
        if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
            return Err(format!("a pattern has 1 to {MAX_PATTERN_BYTES} bytes, and this one {}", text.len()));
        }
        if text.contains('\0') {
            return no("has a zero byte");
        }
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return no(&format!("{}; name files below the folder", crate::upward::problem(text)));
        }
        let (base, rest) = if let Ok(rest) = path.strip_prefix(PROJECT) {
            (Base::Project, rest)
        } else if let Ok(rest) = path.strip_prefix(HOME) {
            (Base::Home, rest)
        } else if path.is_absolute() {
            return Err(format!("{text:?} lies outside {HOME}; only files below it are copied out"));
        } else {
            (Base::Start, path)
        };
        let plain: PathBuf = rest.components().filter(|part| *part != Component::CurDir).collect();
        let mut glob = plain.to_string_lossy().into_owned();
        if text.ends_with('/') || glob.is_empty() {
            glob = if glob.is_empty() { "**".to_owned() } else { format!("{glob}/**") };
        }
        let built = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
        let matcher = built.map_err(|error| format!("{text:?} is no pattern: {error}"))?.compile_matcher();
        Ok(Self { text: text.to_owned(), matcher, base })
    }

    /// Folder below the start folder that has all matches: the pattern up to its first part with a wildcard. `None` for a pattern of the home
    /// folder.
    #[must_use]
    pub fn start(&self) -> Option<String> {
        let plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        let glob = self.matcher.glob().glob();
        let parts: Vec<_> = glob.split('/').take_while(plain).collect();
        (self.base != Base::Home).then(|| parts.join("/"))
    }

    /// Whether the pattern matches a path below the home folder of a sandbox without a workspace.
    #[must_use]
    pub fn matches_home(&self, path: &Path) -> bool {
        self.matches(path, false, false)
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches a path below the workspace, or else below the home folder.
    fn matches(&self, path: &Path, in_project: bool, has_project: bool) -> bool {
        let is_here = match self.base {
            Base::Start => in_project == has_project,
            Base::Project => in_project,
            Base::Home => !in_project,
        };
        is_here && self.matcher.is_match(path)
    }
}

/// Whether an entry may be copied out by its kind and name: the name, or the reason against it. `None` stands for a kind that is neither a
/// file nor a link.
///
/// # Errors
/// The reason.
pub fn may_copy(path: &Path, kind: Option<Kind>) -> Result<String, String> {
    match kind {
        Some(Kind::File) => {}
        Some(Kind::Link) => return Err("it is a link; only files are copied out".to_owned()),
        _ => return Err("it is a device, a pipe or a socket; only files are copied out".to_owned()),
    }
    let Some(name) = path.to_str().filter(|name| !name.chars().any(char::is_control)) else {
        return Err("its name has control characters, or is not UTF-8".to_owned());
    };
    if protected(path).is_some() {
        return Err("programs run or obey files of this name; it is protected".to_owned());
    }
    Ok(name.to_owned())
}

/// Limits of copied files.
#[derive(Clone, Copy, Debug)]
pub struct OutputLimits {
    /// Number of files.
    pub files: usize,
    /// Size of each, in bytes.
    pub file: u64,
    /// Size of all, in bytes.
    pub all: u64,
}

/// Destination of copied files.
pub trait OutputSink: Send + std::fmt::Debug {
    /// Takes a file of `bytes` bytes, which may still grow; `pattern` is the number of the pattern that matched, `None` for the folder of
    /// outputs. Returns the place of the copy on the host, if it has one.
    ///
    /// # Errors
    /// The reason why it is not taken.
    fn take(
        &mut self,
        pattern: Option<usize>,
        path: &str,
        file: File,
        bytes: u64,
    ) -> Result<Option<String>, String>;
}

/// Folders of the host as destinations, one for each pattern.
#[derive(Debug)]
pub struct IntoFolders(pub Vec<(PathBuf, Folder)>);

impl OutputSink for IntoFolders {
    fn take(
        &mut self,
        pattern: Option<usize>,
        path: &str,
        file: File,
        bytes: u64,
    ) -> Result<Option<String>, String> {
        let (name, folder) =
            pattern.and_then(|at| self.0.get(at)).ok_or_else(|| "no folder was named for it".to_owned())?;
        let to = name.join(path);
        place(folder, Path::new(path), file, bytes).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(Some(to.to_string_lossy().into_owned()))
    }
}

/// Memory as destination: the files by their paths.
pub type KeptOutputs = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Memory as destination.
#[derive(Debug)]
pub struct IntoMemory(pub KeptOutputs);

impl OutputSink for IntoMemory {
    fn take(
        &mut self,
        _: Option<usize>,
        path: &str,
        file: File,
        bytes: u64,
    ) -> Result<Option<String>, String> {
        let mut text = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, bytes.saturating_add(1)), &mut text)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        if text.len() as u64 > bytes {
            return Err("it grew while it was copied".to_owned());
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_owned(), text));
        Ok(None)
    }
}

/// A request for files of a run, filled when the run has ended. Copies of it share what was collected.
#[derive(Clone, Debug)]
pub struct OutputRequest(Arc<Mutex<Collecting>>);

#[derive(Debug)]
struct Collecting {
    patterns: Vec<OutputPattern>,
    found: Vec<bool>,
    /// Whether the files below [`FOLDER`] are taken without a pattern.
    folder: bool,
    has_project: bool,
    limits: OutputLimits,
    sink: Box<dyn OutputSink>,
    outputs: Outputs,
    bytes: u64,
    left_out: usize,
}

impl OutputRequest {
    /// A request for the files that match; with `folder` also for those below `/home/sandbox/outputs`.
    #[must_use]
    pub fn new(
        patterns: Vec<OutputPattern>,
        folder: bool,
        limits: OutputLimits,
        sink: Box<dyn OutputSink>,
    ) -> Self {
        let found = vec![false; patterns.len()];
        Self(Arc::new(Mutex::new(Collecting {
            patterns,
            found,
            folder,
            has_project: false,
            limits,
            sink,
            outputs: Outputs::default(),
            bytes: 0,
            left_out: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, Collecting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the files below [`FOLDER`] are taken without a pattern; the folder is then made before the program starts.
    #[must_use]
    pub fn takes_folder(&self) -> bool {
        self.state().folder
    }

    /// Says that the program starts in a workspace.
    pub fn of_workspace(&self) {
        self.state().has_project = true;
    }

    /// Takes files among the changes of a workspace, which lie in `upper`. Blocks.
    pub fn from_changes(&self, changes: &[Change], upper: &Folder) {
        let mut state = self.state();
        for change in changes {
            if let Some(node) = change.after {
                state.offer(&change.path, true, (node.kind, node.bytes), || upper.file(&change.path));
            }
        }
    }

    /// Takes files of the home folder of a run that has ended. Blocks.
    pub fn from_home(&self, home: &Home) {
        let mut state = self.state();
        let wants_all = state
            .patterns
            .iter()
            .any(|pattern| pattern.base == Base::Home || pattern.base == Base::Start && !state.has_project);
        if !wants_all && !state.folder {
            return;
        }
        let start = PathBuf::from(if wants_all { "" } else { FOLDER });
        let walked = home
            .folder()
            .as_fd()
            .try_clone_to_owned()
            .map(Folder::from_fd)
            .and_then(|folder| state.walk(&folder, start));
        if let Err(error) = walked {
            state.leave(HOME, format!("not all of it was looked at: {error}"));
        }
    }

    /// Whether a file below the workspace was asked for.
    #[must_use]
    pub fn wants(&self, path: &Path) -> bool {
        let state = self.state();
        state.patterns.iter().any(|pattern| pattern.matches(path, true, state.has_project))
    }

    /// Folders below the workspace that have all files asked for.
    ///
    /// # Errors
    /// The pattern that looks elsewhere.
    pub fn starts(&self) -> Result<Vec<String>, String> {
        let state = self.state();
        state.patterns.iter().map(|pattern| pattern.start().ok_or_else(|| pattern.text.clone())).collect()
    }

    /// Takes a file of another machine's workspace, by its path there. Blocks.
    pub fn from_elsewhere(&self, path: &Path, file: io::Result<File>, bytes: u64) {
        self.state().offer(path, true, (Kind::File, bytes), || file);
    }

    /// Says that the changes cannot be read, and so no file of them.
    pub fn failed(&self, why: &dyn std::fmt::Display) {
        self.state().leave(PROJECT, format!("cannot be read: {why}"));
    }

    /// The result. Patterns that matched nothing are told as left out.
    #[must_use]
    pub fn finish(&self) -> Outputs {
        let mut state = self.state();
        let missing = state.patterns.iter().zip(&state.found).filter(|(_, found)| !**found);
        let missing: Vec<String> = missing.map(|(pattern, _)| pattern.text.clone()).collect();
        for text in missing {
            state.leave(&text, "matches no file that the run wrote".to_owned());
        }
        let mut outputs = std::mem::take(&mut state.outputs);
        if state.left_out > MAX_LEFT {
            let why = format!("{} more were left out", state.left_out - MAX_LEFT);
            outputs.left.push(LeftOut { path: String::new(), why });
        }
        outputs
    }
}

impl Collecting {
    fn leave(&mut self, path: &str, why: String) {
        self.left_out += 1;
        if self.left_out <= MAX_LEFT {
            self.outputs.left.push(LeftOut { path: path.to_owned(), why });
        }
    }

    fn walk(&mut self, home: &Folder, start: PathBuf) -> io::Result<()> {
        let (mut waiting, mut entries) = (vec![(start, 0)], 0);
        while let Some((folder, depth)) = waiting.pop() {
            let names = match home.names(&folder) {
                Ok(names) => names,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // Replaced by a link or by a file.
                Err(error) => {
                    self.leave(&folder.to_string_lossy(), format!("it cannot be read: {error}"));
                    continue;
                }
            };
            for name in names {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} entries")));
                }
                if folder.as_os_str().is_empty() && name == PROJECT_NAME {
                    continue;
                }
                let path = folder.join(name);
                let Ok(Some(node)) = home.node(&path) else { continue };
                if node.kind == Kind::Folder {
                    if depth >= MAX_DEPTH {
                        return Err(io::Error::other(format!("it is deeper than {MAX_DEPTH} folders")));
                    }
                    waiting.push((path, depth + 1));
                } else {
                    self.offer(&path, false, (node.kind, node.bytes), || home.file(&path));
                }
            }
        }
        Ok(())
    }

    /// Takes an entry, if a pattern matches it.
    fn offer(
        &mut self,
        path: &Path,
        in_project: bool,
        (kind, bytes): (Kind, u64),
        open: impl FnOnce() -> io::Result<File>,
    ) {
        if kind == Kind::Folder || kind == Kind::Whiteout {
            return;
        }
        let has_project = self.has_project;
        let pattern = self.patterns.iter().position(|p| p.matches(path, in_project, has_project));
        if let Some(at) = pattern {
            self.found[at] = true;
        } else if !(self.folder && !in_project && path.starts_with(FOLDER)) {
            return;
        }
        let name = path.to_string_lossy();
        match self.may_take(path, (kind, bytes)).and_then(|name| {
            let file = open().map_err(|error| format!("it cannot be read: {error}"))?;
            let to = self.sink.take(pattern, &name, file, bytes)?;
            Ok(OutputFile { path: name, bytes, to })
        }) {
            Ok(file) => {
                self.bytes += bytes;
                self.outputs.files.push(file);
            }
            Err(why) => self.leave(&name, why),
        }
    }

    /// Whether an entry that was asked for may be taken: its name, or the reason.
    fn may_take(&self, path: &Path, (kind, bytes): (Kind, u64)) -> Result<String, String> {
        let name = may_copy(path, Some(kind))?;
        let OutputLimits { files, file, all } = self.limits;
        if self.outputs.files.iter().any(|taken| taken.path == name) {
            return Err("another file of this path was copied out before".to_owned());
        }
        if self.outputs.files.len() >= files {
            return Err(format!("at most {files} files are copied out"));
        }
        if bytes > file {
            return Err(format!("it has {bytes} bytes, of which at most {file} are copied out"));
        }
        if self.bytes.saturating_add(bytes) > all {
            return Err(format!("the files together have more than {all} bytes"));
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stay_within_the_sandbox() {
        for (text, why) in [
            ("", "1 to 512 bytes"),
            ("../x", "leads out"),
            ("a/../../x", "leads out"),
            ("a/b/../*.xml", "\"a/b/../*.xml\" has a part .., which is not followed; write \"a/*.xml\""),
            ("/etc/passwd", "outside /home/sandbox"),
            ("/home/sandboxes/x", "outside"),
            ("a\0b", "zero byte"),
            ("a[", "is no pattern"),
        ] {
            let said = OutputPattern::parse(text).unwrap_err();
            assert!(said.contains(why), "{text:?}: {said}");
        }
        for (text, path, in_project, has_project, want) in [
            ("*.xml", "a.xml", true, true, true),
            ("*.xml", "b/a.xml", true, true, false),
            ("**/*.xml", "b/a.xml", true, true, true),
            ("./a.xml", "a.xml", true, true, true),
            ("dist/", "dist/a/b", true, true, true),
            ("dist/", "distant", true, true, false),
            ("a.xml", "a.xml", false, true, false),
            ("a.xml", "a.xml", false, false, true),
            ("/home/sandbox/outputs/*", "outputs/a", false, true, true),
            ("/home/sandbox/outputs/*", "outputs/a", true, true, false),
            ("/home/sandbox/project/*", "a", true, true, true),
        ] {
            let pattern = OutputPattern::parse(text).unwrap();
            assert_eq!(pattern.matches(Path::new(path), in_project, has_project), want, "{text} {path}");
        }
    }

    #[test]
    fn entries_that_are_refused_are_named_with_the_reason() {
        let kept = KeptOutputs::default();
        let limits = OutputLimits { files: 2, file: 10, all: 12 };
        let request = OutputRequest::new(
            vec![OutputPattern::parse("**").unwrap(), OutputPattern::parse("none*").unwrap()],
            false,
            limits,
            Box::new(IntoMemory(Arc::clone(&kept))),
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        for (path, kind, bytes) in [
            ("link", Kind::Link, 0),
            ("pipe", Kind::Special, 0),
            (".git/config", Kind::File, 1),
            ("a\x1b[31m", Kind::File, 1),
            ("long", Kind::File, 11),
            ("one", Kind::File, 8),
            ("one", Kind::File, 8),
            ("more", Kind::File, 5),
            ("two", Kind::File, 4),
            ("three", Kind::File, 0),
            ("gone", Kind::Whiteout, 0),
        ] {
            std::fs::write(&file, vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
            request.state().offer(Path::new(path), false, (kind, bytes), || File::open(&file));
        }
        let Outputs { files, left } = request.finish();
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(kept.lock().unwrap().len(), 2);
        let said = left.iter().map(|left| format!("{}: {}\n", left.path, left.why)).collect::<String>();
        for want in [
            "link: it is a link",
            "pipe: it is a device",
            ".git/config: programs run",
            "control characters",
            "long: it has 11 bytes",
            "one: another file",
            "more: the files together",
            "three: at most 2 files",
            "none*: matches no file",
        ] {
            assert!(said.contains(want), "{want} in {said}");
        }
        assert_eq!(left.len(), 9, "{said}");
    }
}
