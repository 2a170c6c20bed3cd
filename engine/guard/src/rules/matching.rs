//! From what the analysers saw to the rules that match it.

use super::pack::{Index, Pack};
use super::schema::Language;
use crate::value::Value;
use std::rc::Rc;

/// Where a call stands, as bits of [`Call::context`].
pub(crate) struct Spot;

impl Spot {
    /// In a loop.
    pub(crate) const LOOP: u32 = 1;
    /// In a loop that nothing ends.
    pub(crate) const ENDLESS: u32 = 2;
    /// In a loop over the files of a tree.
    pub(crate) const WALK: u32 = 4;
    /// Runs when the file is loaded.
    pub(crate) const TOP: u32 = 8;
    /// Its name was computed.
    pub(crate) const OBFUSCATED: u32 = 16;
    /// In a file that an installer, a test runner or an interpreter loads by itself.
    pub(crate) const INSTALL: u32 = 32;
    /// In an endless loop that waits for nothing and whose calls all return.
    pub(crate) const BUSY: u32 = 64;
    /// In a loop that goes round when somebody connects.
    pub(crate) const SERVES: u32 = 128;
    /// In a loop over a few things that stand in the program.
    pub(crate) const FEW: u32 = 256;
}

/// A call or a command.
pub(crate) struct Call<'a> {
    /// Canonical names of what is called.
    pub(crate) names: &'a [Rc<str>],
    /// The last component as it is written, for calls of something unknown.
    pub(crate) method: Option<&'a str>,
    /// What the method is called on.
    pub(crate) receiver: Option<&'a Value>,
    /// By position.
    pub(crate) args: &'a [Value],
    /// By name.
    pub(crate) kwargs: &'a [(Rc<str>, Value)],
    /// Bits of [`Spot`].
    pub(crate) context: u32,
}

/// What a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextKind {
    /// A string of a program, or a line of a configuration.
    String,
    /// A comment or documentation.
    Comment,
}

impl Pack {
    /// The rules that match a call, by index.
    pub(crate) fn calls(&self, language: Language, call: &Call<'_>, mut hit: impl FnMut(usize)) {
        let Some(index) = self.indexes.get(&language.rules()) else { return };
        for name in call.names {
            self.lookup(index, name, call, &mut hit);
        }
        if call.names.is_empty()
            && let Some(method) = call.method
            && let Some(rules) = index.methods.get(method)
        {
            self.check(rules, call, &mut hit);
        }
    }

    fn lookup(&self, index: &Index, name: &str, call: &Call<'_>, hit: &mut impl FnMut(usize)) {
        if let Some(rules) = index.names.get(name) {
            self.check(rules, call, hit);
        }
        if let Some((_, method)) = name.rsplit_once('.')
            && let Some(rules) = index.methods.get(method)
        {
            self.check(rules, call, hit);
        }
        let head = name.split(['.', '(']).next().unwrap_or(name);
        if index.heads.contains(head) {
            for (prefix, rules) in &index.prefixes {
                if name.starts_with(&**prefix) {
                    self.check(rules, call, hit);
                }
            }
        }
    }

    fn check(&self, rules: &[usize], call: &Call<'_>, hit: &mut impl FnMut(usize)) {
        for rule in rules {
            if self.conditions_hold(*rule, call) {
                hit(*rule);
            }
        }
    }

    pub(super) fn conditions_hold(&self, rule: usize, call: &Call<'_>) -> bool {
        let compiled = &self.compiled[rule];
        compiled.when.iter().all(|c| c.holds(call)) && !compiled.unless.iter().any(|c| c.holds(call))
    }

    /// The rules for something that the engine itself tells.
    pub(crate) fn facts(&self, language: Language, fact: &str, call: &Call<'_>, mut hit: impl FnMut(usize)) {
        let rules = self.indexes.get(&language.rules()).and_then(|index| index.facts.get(fact));
        let anywhere = self.indexes.get(&Language::Text).and_then(|index| index.facts.get(fact));
        for rules in rules.into_iter().chain(anywhere) {
            self.check(rules, call, &mut hit);
        }
    }

    /// The text rules that match `text`: rule and where.
    pub(crate) fn text_hits(&self, kind: TextKind, text: &str, mut hit: impl FnMut(usize, usize)) {
        let texts = self.texts(kind);
        texts.filter.candidates(text, |at| {
            if let Some(start) = texts.each[at].find(text) {
                hit(texts.rules[at], start);
            }
        });
    }
}
