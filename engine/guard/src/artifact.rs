//! What is scanned: bytes and the name that they came under.

use crate::rules::Language;

/// A file, in memory.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its path as the user knows it. Only the last component and the folders above it are read, as hints.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// What it will be run as, when that is known: it is read as this too, whatever it looks like.
    pub language: Option<Language>,
}

impl Artifact {
    /// A file called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Artifact {
        Artifact { name: name.into(), bytes: bytes.into(), language: None }
    }

    /// The same, to be run as `language`.
    #[must_use]
    pub fn run_as(mut self, language: Language) -> Artifact {
        self.language = Some(language);
        self
    }
}
