//! Access control of a lookup: every file system query goes through here. On the operator's behalf all paths
//! may be looked at; on the project's behalf only the project, the system and paths that the operator's own
//! settings lead to. Barred paths are not touched, so that neither the answer nor its timing reveals
//! anything.

use std::ffi::OsString;
use std::path::Path;

use super::files::{Kind, MAX_TEXT_BYTES};
use super::operator::Operator;
use super::walk;

/// Result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// A file of this type exists.
    There(Kind),
    /// There is no such file.
    Absent,
    /// Not permitted: the path was not looked at.
    Barred,
}

/// A query on behalf of the operator or of the project.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    operator: &'a Operator<'a>,
    /// The path comes from the project or a caller.
    led: bool,
    /// The path was typed by a person, who did not choose the targets of its links.
    typed: bool,
}

impl<'a> Sight<'a> {
    /// For paths that come from the operator.
    pub fn of_the_operator(operator: &'a Operator<'a>) -> Self {
        Self { operator, led: false, typed: false }
    }

    /// For paths that come from the project or a caller, if `led`.
    pub fn led(self, led: bool) -> Self {
        Self { led, ..self }
    }

    /// For a path that the operator typed.
    pub fn typed(self) -> Self {
        Self { typed: true, ..self }
    }

    /// For the target of a link at this place.
    pub fn after_a_link_at(self, link: &Path) -> Self {
        let is_typed = self.typed && !self.operator.is_of_the_machine(link);
        self.led(self.led || is_typed || self.operator.is_foreign(link))
    }

    /// Whether a path lies in the project, or at a place of unknown trust.
    pub fn is_of_the_project(self, path: &Path) -> bool {
        self.operator.is_foreign(path)
    }

    /// The type of the file at `path`, without following a link at its end. No link may occur before its end.
    pub fn look(self, path: &Path) -> Seen {
        if self.led && !self.operator.lets_look_at(path) {
            return Seen::Barred;
        }
        self.operator.fs().look(path).map_or(Seen::Absent, Seen::There)
    }

    /// Whether a walk may end at this path, which was looked at: it is more than a folder on the way to
    /// permitted paths.
    pub fn may_end_at(self, real: &Path) -> bool {
        !self.led || self.operator.leads_to(real)
    }

    /// The first bytes of a file, by its canonical path.
    pub fn head(self, real: &Path, most: usize) -> Option<Vec<u8>> {
        self.may_end_at(real).then(|| self.operator.fs().head(real, most))?
    }

    /// A small text file, by its canonical path.
    pub fn text(self, real: &Path) -> Option<String> {
        self.head(real, MAX_TEXT_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A small text file that may be the project's. A link at its end is not followed, and a link on the way
    /// may not lead out of the paths that the project may use; otherwise a message could quote any file of
    /// the host.
    pub fn own_text(self, path: &Path) -> Option<String> {
        let folder = walk::real(self, path.parent()?)?;
        let real = folder.join(path.file_name()?);
        // A link of the project may or may not have led there.
        let sight = self.led(self.led || self.operator.is_foreign(path));
        match sight.look(&real) {
            Seen::There(Kind::File { .. }) => sight.text(&real),
            _ => None,
        }
    }

    /// The names in a folder, by its canonical path.
    pub fn names(self, real: &Path) -> Vec<OsString> {
        if !self.may_end_at(real) {
            return Vec::new();
        }
        self.operator.fs().names(real)
    }
}
