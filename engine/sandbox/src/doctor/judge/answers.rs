//! Text of the canaries -> their answers.

use std::collections::BTreeMap;

/// Answers printed by one script of canaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    sections: BTreeMap<String, Vec<String>>,
    attempts: BTreeMap<String, bool>,
}

impl Answers {
    /// Parses `== name` with the lines below it, and `? name yes|no`. Other lines are ignored.
    pub fn parse(text: &str) -> Self {
        let mut answers = Self::default();
        let mut section = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("== ") {
                section = Some(name.to_owned());
                answers.sections.entry(name.to_owned()).or_default();
            } else if let Some((name, answer)) = line.strip_prefix("? ").and_then(|l| l.split_once(' ')) {
                match answer {
                    "yes" => drop(answers.attempts.insert(name.to_owned(), true)),
                    "no" => drop(answers.attempts.insert(name.to_owned(), false)),
                    _ => {}
                }
            } else if let Some(lines) = section.as_ref().and_then(|name| answers.sections.get_mut(name)) {
                lines.push(line.to_owned());
            }
        }
        answers
    }

    /// Whether an attempt succeeded; `None` if it was not made.
    pub(super) fn attempt(&self, name: &str) -> Option<bool> {
        self.attempts.get(name).copied()
    }

    /// The lines of a file; `None` if it could not be read or was empty.
    pub(super) fn lines(&self, section: &str) -> Option<&[String]> {
        self.sections.get(section).map(Vec::as_slice).filter(|lines| !lines.is_empty())
    }

    /// A field of `/proc/self/status`.
    pub(super) fn status(&self, field: &str) -> Option<&str> {
        let line = |l: &'_ String| l.split_once(':').filter(|(name, _)| *name == field).is_some();
        self.lines("status")?.iter().find(|l| line(l))?.split_once(':').map(|(_, value)| value.trim())
    }

    /// The hard limit in a line of `/proc/self/limits`.
    pub(super) fn hard_limit(&self, name: &str) -> Option<&str> {
        let line = self.lines("limits")?.iter().find_map(|l| l.strip_prefix(name))?;
        line.split_ascii_whitespace().nth(1)
    }

    /// The id of a namespace, from a line such as `… user -> user:[4026531837]`.
    pub(super) fn namespace(&self, kind: &str) -> Option<&str> {
        self.lines("namespaces")?.iter().find_map(|line| {
            let (before, id) = line.split_once(" -> ")?;
            (before.split_ascii_whitespace().next_back()? == kind).then_some(id)
        })
    }
}
