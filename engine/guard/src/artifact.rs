//! Input of a scan: bytes and the name that they were submitted under.

use crate::executed::Executed;
use crate::language::Language;
use crate::report::Argument;
use serde::{Deserialize, Serialize};

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
    /// Functions of it that get values from the caller of a tool or a route through another file.
    pub called: Vec<Called>,
}

impl Artifact {
    /// A file called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Artifact {
        Artifact {
            name: name.into(),
            bytes: bytes.into(),
            language: None,
            executed: Vec::new(),
            called: Vec::new(),
        }
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

    /// Sets the functions that get values from the caller of a tool or a route through another file.
    #[must_use]
    pub fn called_by(mut self, called: &[Called]) -> Artifact {
        self.called = called.to_vec();
        self
    }
}

/// A function of a part that gets a value from the caller of a tool or a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Called {
    /// Part that defines the function.
    pub part: String,
    /// The function: `run`, `Runner.run`.
    pub function: String,
    /// Argument.
    pub argument: Argument,
    /// Origins of the value, as bits.
    #[serde(default)]
    pub origin: u32,
    /// True when a tool that does not say that it sends anything calls it.
    #[serde(default)]
    pub silent: bool,
}

impl Called {
    /// True when a parameter of a function gets this value. A class's arguments are those of its `__init__`.
    pub(crate) fn is(&self, part: &str, function: &str, position: usize, name: &str) -> bool {
        self.part == part
            && self.is_of(function)
            && match &self.argument {
                Argument::Position(at) => *at as usize == position,
                Argument::Name(own) => own == name || own == SPREAD,
            }
    }

    /// True for this function; a class means its `__init__`, and a name that is not known any function of the file.
    pub(crate) fn is_of(&self, function: &str) -> bool {
        means(&self.function, function)
            || function.strip_suffix(".__init__").is_some_and(|class| means(&self.function, class))
    }
}

/// Name of an argument that is spread over parameters: `f(**given)`.
pub(crate) const SPREAD: &str = "**";
/// Mark of the part of a name that is not known: `?` is any function of a file, `on_?` one that begins with `on_`.
pub(crate) const ANY: char = '?';

/// True when the name by which a file calls a function of another one means this function.
pub(crate) fn means(name: &str, function: &str) -> bool {
    match name.strip_suffix(ANY) {
        Some(begin) => function.strip_prefix(begin).is_some_and(|rest| !rest.contains('.')),
        None => name == function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_functions_as_far_as_they_are_known() {
        for (name, function, is) in [
            ("run", "run", true),
            ("run", "runs", false),
            ("?", "run", true),
            ("?", "Runner.run", false),
            ("on_?", "on_start", true),
            ("on_?", "run", false),
            ("Runner.?", "Runner.run", true),
            ("Runner.?", "run", false),
        ] {
            assert_eq!(means(name, function), is, "{name} {function}");
        }
        let called = |argument| Called {
            part: "a.py".to_owned(),
            function: "?".to_owned(),
            argument,
            origin: 0,
            silent: false,
        };
        assert!(called(Argument::Name(SPREAD.to_owned())).is("a.py", "run", 3, "x"));
        assert!(!called(Argument::Name("y".to_owned())).is("a.py", "run", 3, "x"));
        assert!(called(Argument::Position(0)).is("a.py", "Runner.__init__", 0, "x"));
        assert!(!called(Argument::Position(0)).is("b.py", "run", 0, "x"));
    }
}
