//! Languages of sessions, their interpreters, and the drivers that read cells there.

use std::ffi::OsString;

use hotcell_sandbox::layer::likely;
use hotcell_verbs::Language as Source;
use hotcell_verbs::language::meant;

const PYTHON_DRIVER: &str = include_str!("drivers/driver.py");
const POSTGRESQL_DRIVER: &str = include_str!("drivers/postgresql.py");
const NODE_DRIVER: &str = include_str!("drivers/driver.js");
/// Moves the socket away from standard input, and copies both streams for the marks, for a driver that cannot do that itself.
const AWAY: &str = "exec 9<&0 7>&1 8>&2 </dev/null; exec \"$1\" -e \"$0\" \"$2\"";

/// A language of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript, by Node.js.
    Node,
    /// TypeScript, whose types Node.js takes off.
    TypeScript,
    /// Bash, driven by Python 3.
    Bash,
    /// SQLite in memory, driven by Python 3.
    Sql,
    /// PostgreSQL, a server of the session's own, driven by Python 3.
    PostgreSql,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 6] =
        [Self::Python, Self::Node, Self::TypeScript, Self::Bash, Self::Sql, Self::PostgreSql];

    /// Name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::TypeScript => "typescript",
            Self::Bash => "bash",
            Self::Sql => "sql",
            Self::PostgreSql => "postgresql",
        }
    }

    /// The language of a name, or of an alias such as `py`, `javascript` or `postgres`.
    ///
    /// # Errors
    /// A sentence with the nearest name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name);
        let of_name = |name: &str| Self::ALL.into_iter().find(|language| language.name() == name);
        let found = meant(name, |name| if name == "javascript" { Some(Self::Node) } else { of_name(name) });
        found.ok_or_else(|| {
            let near = likely(name, known()).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            format!("there are no sessions of {name:?}; {near}there are {}", known().join(", "))
        })
    }

    /// Language that the guard reads cells as.
    pub(crate) const fn source(self) -> Source {
        match self {
            Self::Python => Source::Python,
            Self::Node => Source::JavaScript,
            Self::TypeScript => Source::TypeScript,
            Self::Bash => Source::Bash,
            Self::Sql => Source::Sql,
            Self::PostgreSql => Source::PostgreSql,
        }
    }

    /// Program that is looked for, with arguments that do nothing.
    pub(crate) fn idle(self) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Python | Self::Bash | Self::Sql | Self::PostgreSql => &["python3", "-c", "0"],
            Self::Node | Self::TypeScript => &["node", "-e", "0"],
        };
        words.iter().map(OsString::from).collect()
    }

    /// Command line with the driver, from that of the program that was found.
    pub(crate) fn driven(self, found: &[OsString]) -> Vec<OsString> {
        let program = found.first().cloned().unwrap_or_default();
        match self {
            Self::Node | Self::TypeScript => {
                vec!["sh".into(), "-c".into(), AWAY.into(), NODE_DRIVER.into(), program, self.name().into()]
            }
            _ => {
                let mut argv = vec![program, "-c".into(), PYTHON_DRIVER.into(), self.name().into()];
                if self == Self::PostgreSql {
                    argv.push(POSTGRESQL_DRIVER.into());
                }
                argv
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_wrong_ones_explained() {
        for language in Language::ALL {
            assert_eq!(Language::parse(language.name()), Ok(language));
        }
        for (alias, language) in [
            ("javascript", Language::Node),
            ("JS", Language::Node),
            ("nodejs", Language::Node),
            ("postgres", Language::PostgreSql),
            ("Python", Language::Python),
            ("py", Language::Python),
            ("python3.12", Language::Python),
            ("ts", Language::TypeScript),
            ("shell", Language::Bash),
            ("sqlite", Language::Sql),
        ] {
            assert_eq!(Language::parse(alias), Ok(language), "{alias}");
        }
        for (name, near) in [
            ("pyhton", "did you mean python?"),
            ("postgresq", "did you mean postgresql?"),
            ("ruby", "there are python, node, typescript, bash, sql, postgresql"),
        ] {
            let why = Language::parse(name).unwrap_err();
            assert!(why.contains(near), "{why}");
        }
    }
}
