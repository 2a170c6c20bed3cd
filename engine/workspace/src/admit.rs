//! Decides which changes a commit applies. There is one decision, for every caller.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::changes::Change;
use crate::environment::Environments;
use crate::folder::{Folder, Kind};
use crate::linked::{How, Lead, Places, linked};
use crate::protected::{Protection, Rule, folded, protected};
use crate::repository::Repositories;
use crate::stack::Stack;
use crate::twins::Twins;

/// Which protected names a commit applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allow {
    /// No protected name.
    #[default]
    Nothing,
    /// All protected names except git's own state, which cannot be reviewed in a diff.
    Names,
    /// All protected names, git's own state included.
    All,
}

impl From<bool> for Allow {
    /// Converts the option `--allow-protected`.
    fn from(allow_protected: bool) -> Self {
        if allow_protected { Self::All } else { Self::Nothing }
    }
}

/// Reason why a change is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The path is git's own state, of the repository in this folder.
    Git(PathBuf),
    /// The name is protected by this rule.
    Protected(&'static Rule),
    /// The name is hidden, and not one of those known to be data.
    Hidden,
    /// The path is a virtual environment, or lies in one: in this folder.
    Environment(PathBuf),
    /// The name may be the short name of something hidden.
    Short,
    /// The name has characters that are invisible.
    Unseen,
    /// Some file systems and tools take the name for that of another entry in its folder, whose path this is.
    Twin(PathBuf),
    /// The file is byte code, which Python makes again from its source.
    ByteCode,
    /// A protected name or git's settings lead to the path, or could not be read.
    Linked(Lead),
    /// The entry is a link, a device, a pipe or a socket.
    NoFile(Kind),
    /// A folder above the path is left out.
    Below,
    /// The change replaces a folder by a file, and something in the folder stays.
    NotEmpty,
}

impl Left {
    /// Whether a user can allow the change to be applied.
    #[must_use]
    pub const fn wants_yes(&self) -> bool {
        matches!(
            self,
            Self::Git(_)
                | Self::Protected(_)
                | Self::Hidden
                | Self::Short
                | Self::Unseen
                | Self::Twin(_)
                | Self::Environment(_)
                | Self::Linked(_)
        )
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Git(_) => f.write_str("git's own state is protected"),
            Self::Protected(rule) => write!(f, "{} is protected: {}", rule.name, rule.reason),
            Self::Hidden => f.write_str(
                "a hidden name is protected: it is not among those known to be data, and a tool may run it",
            ),
            Self::Linked(Lead { by, how: How::Link }) => {
                write!(f, "{} leads there, and is protected", by.display())
            }
            Self::Linked(Lead { by, how: How::Settings }) => {
                write!(f, "{} names it, and git may run what is there", by.display())
            }
            Self::Linked(Lead { by, how: How::Unread(why) }) => {
                let by = if by.as_os_str().is_empty() { Path::new(".") } else { by };
                write!(
                    f,
                    "{} could not be looked at ({why}), and what it may lead to is protected",
                    by.display()
                )
            }
            Self::Short => f.write_str(
                "a short name is protected: some file systems take it for another name, which may be hidden",
            ),
            Self::Unseen => f.write_str("a name with characters that nobody sees is protected"),
            Self::Twin(other) => write!(
                f,
                "some file systems take its name for {}, and a tool may take it in that one's place",
                other.display()
            ),
            Self::Environment(folder) => write!(
                f,
                "{} is a virtual environment, whose interpreter editors run, and is protected",
                if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.display()
            ),
            Self::ByteCode => {
                f.write_str("byte code is not taken over: Python makes it again from its source")
            }
            Self::NoFile(Kind::Link) => f.write_str("symbolic links are not taken over"),
            Self::NoFile(_) => f.write_str("devices, pipes and sockets are not taken over"),
            Self::Below => f.write_str("it lies in something that is left out"),
            Self::NotEmpty => f.write_str("in the folder that is there, something protected stays"),
        }
    }
}

/// Decides about the changes between two views.
#[derive(Debug)]
pub struct Judge<'s, 'f> {
    allow: Allow,
    repositories: Repositories<'s, 'f>,
    environments: Environments<'s, 'f>,
    twins: Twins<'s, 'f>,
    linked: Option<Places>,
}

impl<'s, 'f> Judge<'s, 'f> {
    /// Makes a judge. Unless `allow` permits protected names, looks up once where those of the original lead.
    ///
    /// # Errors
    /// When the original cannot be read.
    pub fn new(
        original: &Folder,
        before: &'s Stack<'f>,
        after: &'s Stack<'f>,
        allow: Allow,
    ) -> io::Result<Self> {
        let linked = if allow == Allow::Nothing { Some(linked(original)?) } else { None };
        let (repositories, environments) =
            (Repositories::new(before, after), Environments::new(before, after));
        let twins = Twins::new(before, after);
        Ok(Self { allow, repositories, environments, twins, linked })
    }

    /// Reason why a change is not applied; `None` when it is.
    ///
    /// # Errors
    /// When one of the views cannot be read.
    pub fn left(&mut self, change: &Change) -> io::Result<Option<Left>> {
        if self.allow != Allow::All
            && let Some(repository) = self.repositories.around(&change.path)?
        {
            return Ok(Some(Left::Git(repository)));
        }
        if let Some(kind @ (Kind::Link | Kind::Special | Kind::Whiteout)) = change.after.map(|node| node.kind)
        {
            return Ok(Some(Left::NoFile(kind)));
        }
        // Python runs byte code in place of its source when it claims to be up to date, and a diff cannot
        // show it.
        if self.allow != Allow::All && change.after.is_some() && is_byte_code(&change.path) {
            return Ok(Some(Left::ByteCode));
        }
        if self.allow != Allow::Nothing {
            return Ok(None);
        }
        Ok(match protected(&change.path) {
            Some(Protection::Named(rule)) => Some(Left::Protected(rule)),
            Some(Protection::Hidden) => Some(Left::Hidden),
            Some(Protection::Short) => Some(Left::Short),
            Some(Protection::Unseen) => Some(Left::Unseen),
            None => {
                if let Some(folder) = self.environments.around(change)? {
                    return Ok(Some(Left::Environment(folder)));
                }
                let lead = self.linked.as_ref().and_then(|places| places.leading_to(&change.path));
                match lead.cloned().map(Left::Linked) {
                    None if change.before.is_none() => self.twins.of(&change.path)?.map(Left::Twin),
                    lead => lead,
                }
            }
        })
    }
}

/// Whether a path is Python byte code, by its ending or because it lies in a `__pycache__` folder.
fn is_byte_code(path: &Path) -> bool {
    let names: Vec<String> = path.iter().map(|name| folded(&name.to_string_lossy())).collect();
    names.iter().any(|name| name == "__pycache__")
        || names.last().is_some_and(|name| name.ends_with(".pyc") || name.ends_with(".pyo"))
}

/// The changes that were left out, for people: each path with its reason, git's own state in one line per
/// repository, and byte code in one line. `how` says how to apply them, such as `--allow-protected takes it
/// over`.
#[must_use]
pub fn told(left: &[(PathBuf, Left)], how: &str) -> Vec<(PathBuf, String)> {
    let mut repositories: BTreeMap<&Path, usize> = BTreeMap::new();
    for (_, why) in left {
        if let Left::Git(repository) = why {
            *repositories.entry(repository).or_default() += 1;
        }
    }
    let state = repositories.into_iter().map(|(repository, paths)| {
        let named = if repository.as_os_str().is_empty() { Path::new(".") } else { repository };
        let paths = if paths == 1 { "1 path".to_owned() } else { format!("{paths} paths") };
        (named.to_owned(), format!("git's own state ({paths}) was left as it was; {how}"))
    });
    let byte_code: Vec<_> = left.iter().filter(|(_, why)| *why == Left::ByteCode).collect();
    let byte_code = byte_code.first().map(|(path, why)| {
        let more = if byte_code.len() > 1 {
            format!(" (and {} more such paths)", byte_code.len() - 1)
        } else {
            String::new()
        };
        (path.clone(), format!("{why}{more}"))
    });
    let others = left.iter().filter(|(_, why)| !matches!(why, Left::Git(_) | Left::ByteCode));
    state.chain(byte_code).chain(others.map(|(path, why)| (path.clone(), why.to_string()))).collect()
}
