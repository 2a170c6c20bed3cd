//! Input of a scan: bytes and the name that they were submitted under.

use crate::executed::Executed;
use crate::language::Language;

/// A file, in memory.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Path as the user knows it. Only the last component and the folders above it are used, as hints.
    pub name: String,
    /// Contents.
    pub bytes: Vec<u8>,
    /// Language that it will run as, if known: it is scanned as this, too, whatever it looks like.
    pub language: Option<Language>,
    /// Further languages that the run's command executes it as: it is scanned as each of these, too.
    pub executed: Vec<Executed>,
}

impl Artifact {
    /// A file called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Artifact {
        Artifact { name: name.into(), bytes: bytes.into(), language: None, executed: Vec::new() }
    }

    /// Sets the language that it will run as.
    #[must_use]
    pub fn run_as(mut self, language: Language) -> Artifact {
        self.language = Some(language);
        self
    }

    /// Sets the languages that the run's command executes it as.
    #[must_use]
    pub fn executed_as(mut self, executed: &[Executed]) -> Artifact {
        self.executed = executed.to_vec();
        self
    }
}
