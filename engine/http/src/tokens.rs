//! Authentication of network callers: tokens in a file of the state folder that only its owner can read.
//!
//! One caller per line, `NAME TOKEN`; `#` begins a comment. The operator adds lines for further callers.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use hotcell_state::caller::Caller;
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use nix::fcntl::{Flock, FlockArg};

/// File name in the state folder.
const FILE: &str = "mcp-tokens";
/// Minimum length of a token: 128 bits in hexadecimal.
const MIN_TOKEN_LEN: usize = 32;
/// Maximum length of a token.
const MAX_TOKEN_LEN: usize = 256;
/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Names of callers without a token: the process that starts the server, and all callers where no token is
/// needed. Tokens must not have these names.
pub const NOT_TOKENS: [&str; 2] = ["stdio", "everybody"];

/// The tokens of a service.
#[derive(Clone)]
pub struct Tokens {
    /// Shared between clones.
    all: Arc<RwLock<Vec<(Caller, String)>>>,
    path: PathBuf,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).field("callers", &self.callers()).finish()
    }
}

impl Tokens {
    /// Reads the file, and creates it with one token when it is missing.
    ///
    /// # Errors
    /// A report when others can read the file, a line is invalid, or a system call fails.
    pub fn open(state: &StateFolder) -> Result<Self, ErrorReport> {
        let path = state.path().join(FILE);
        let bad = |why: String| {
            ErrorReport::new(Code::State, format!("{}: {why}", path.display()))
                .hint("mend it, or remove it: a new one is made")
        };
        let io = |e: io::Error| bad(e.to_string());
        if state.dir().symlink_metadata(FILE).map_or(true, |about| about.len() == 0) {
            let mut new = OpenOptions::new();
            new.write(true).create(true).mode(0o600).custom_flags(nix::libc::O_NONBLOCK);
            let file = state.dir().open_with(FILE, &new).map_err(io)?;
            // Another service may start at the same time, or may have died halfway.
            let mut file =
                Flock::lock(file.into_std(), FlockArg::LockExclusive).map_err(|(_, e)| io(e.into()))?;
            let about = file.metadata().map_err(io)?;
            if about.len() == 0 && about.is_file() && about.mode() & 0o077 == 0 {
                writeln!(file, "default {}", random_hex(32)?).map_err(io)?;
            }
        }
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nix::libc::O_NONBLOCK);
        let file = state.dir().open_with(FILE, &options).map_err(io)?.into_std();
        let about = file.metadata().map_err(io)?;
        if !about.is_file() || about.mode() & 0o077 != 0 {
            return Err(bad(format!("others can read it (mode {:04o}); chmod 600", about.mode() & 0o7777)));
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(io)?;
        let all = parse(&text).map_err(bad)?;
        Ok(Self { all: Arc::new(RwLock::new(all)), path })
    }

    /// Replaces the tokens of all clones by those in `read`, a new result of [`Tokens::open`].
    pub fn replace(&self, read: &Self) {
        let all = read.all().clone();
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Removes, in all clones, the tokens that are not in `read`: a removed token must stop working even if
    /// the rest of the configuration is invalid. Returns the number of removed tokens.
    pub fn narrow(&self, read: &Self) -> usize {
        let left = read.all().clone();
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let before = all.len();
        all.retain(|one| left.contains(one));
        before - all.len()
    }

    fn all(&self) -> RwLockReadGuard<'_, Vec<(Caller, String)>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of callers.
    #[must_use]
    pub fn callers(&self) -> usize {
        self.all().len()
    }

    /// Caller of a token. The time taken does not depend on which part of the token is wrong.
    #[must_use]
    pub fn caller(&self, token: &[u8]) -> Option<Caller> {
        let mut found = None;
        for (caller, known) in self.all().iter() {
            if same(known.as_bytes(), token) {
                found = Some(caller.clone());
            }
        }
        found
    }
}

/// Compares all bytes, whether or not an earlier one differs.
fn same(known: &[u8], given: &[u8]) -> bool {
    let mut differs = u8::from(known.len() != given.len());
    for (at, byte) in known.iter().enumerate() {
        differs |= byte ^ given.get(at).copied().unwrap_or(!byte);
        differs = std::hint::black_box(differs);
    }
    differs == 0
}

fn parse(text: &str) -> Result<Vec<(Caller, String)>, String> {
    let mut all: Vec<(Caller, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| Err(format!("line {}: {why}", at + 1));
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, token] = words[..] else { return wrong("is not NAME TOKEN") };
        if !(MIN_TOKEN_LEN..=MAX_TOKEN_LEN).contains(&token.len())
            || !token.bytes().all(|b| b.is_ascii_graphic())
        {
            return wrong("the token is not 32 to 256 printable characters; openssl rand -hex 32 makes one");
        }
        if NOT_TOKENS.contains(&name) {
            return wrong("the name is that of callers without a token; choose another");
        }
        if all.iter().any(|(n, t)| *n == Caller::new(name) || t == token) {
            return wrong("the name or the token is there twice");
        }
        all.push((Caller::new(name), token.to_owned()));
    }
    if all.is_empty() { Err("there is no token in it".to_owned()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn token_file_is_private_and_persistent() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("s")).unwrap();
        let path = Tokens::open(&state).unwrap().path().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let token = text.split_whitespace().nth(1).unwrap().to_owned();
        assert_eq!(
            (std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, token.len()),
            (0o600, 64)
        );
        let tokens = Tokens::open(&state).unwrap();
        assert_eq!(tokens.caller(token.as_bytes()), Some(Caller::new("default")));
        for wrong in
            ["", "default", &token[..63], &format!("{token}0"), &token.to_uppercase().replace('A', "B")]
        {
            assert_eq!(tokens.caller(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(!format!("{tokens:?}").contains(&token));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Tokens::open(&state).unwrap_err().message.contains("0644"));
    }

    #[test]
    fn concurrent_services_share_one_token() {
        let dir = tempfile::tempdir().unwrap();
        let open = || StateFolder::open(&dir.path().join("s")).unwrap();
        // A process that dies before it writes leaves an empty file.
        let path = open().path().join(FILE);
        let mut options = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create(true), 0o600).open(&path).unwrap();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| Tokens::open(&open()).unwrap())).collect();
            let all: Vec<_> = all.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(all.iter().all(|t| *t.all() == *all[0].all()));
        });
    }

    #[test]
    fn removed_token_is_invalid_in_all_clones() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("s")).unwrap();
        let with = |callers: &[char]| {
            let line = |c: &char| format!("{c} {}\n", c.to_string().repeat(MIN_TOKEN_LEN));
            std::fs::write(state.path().join(FILE), callers.iter().map(line).collect::<String>()).unwrap();
            Tokens::open(&state).unwrap()
        };
        drop(Tokens::open(&state).unwrap());
        let tokens = with(&['a', 'b']);
        let clone = tokens.clone();
        assert_eq!(tokens.narrow(&with(&['b', 'c'])), 1);
        let opens = |c: char| clone.caller(c.to_string().repeat(MIN_TOKEN_LEN).as_bytes()).is_some();
        assert_eq!(['a', 'b', 'c'].map(opens), [false, true, false]);
        tokens.replace(&with(&['b', 'c']));
        assert_eq!(['a', 'b', 'c'].map(opens), [false, true, true]);
    }

    #[test]
    fn lines_are_callers() {
        let (a, b) = ("a".repeat(32), "b".repeat(32));
        assert_eq!(parse(&format!("# x\n\nme {a}\n you  {b} \n")).unwrap().len(), 2);
        for (text, why) in [
            (String::new(), "no token"),
            ("me".to_owned(), "line 1"),
            (format!("me {a} x"), "line 1"),
            ("me short".to_owned(), "32 to 256"),
            (format!("me {a}\nme {b}"), "line 2"),
            (format!("me {a}\nyou {a}"), "twice"),
            (format!("stdio {a}"), "without a token"),
        ] {
            assert!(parse(&text).unwrap_err().contains(why), "{text}");
        }
    }
}
