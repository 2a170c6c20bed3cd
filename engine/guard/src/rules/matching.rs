//! Finds the rules that match a fact.

use super::pack::{Index, Pack};
use crate::value::{Step, Value};
use std::rc::Rc;

use crate::language::Language;

/// Context of a call, as bits of [`Call::context`].
pub(crate) struct Spot;

impl Spot {
    /// In a loop.
    pub(crate) const LOOP: u32 = 1;
    /// In an endless loop.
    pub(crate) const ENDLESS: u32 = 2;
    /// In a loop over a file tree.
    pub(crate) const WALK: u32 = 4;
    /// At top level, executed when the file is loaded.
    pub(crate) const TOP: u32 = 8;
    /// With a computed name.
    pub(crate) const OBFUSCATED: u32 = 16;
    /// In a file that an installer, a test runner or an interpreter loads by itself.
    pub(crate) const INSTALL: u32 = 32;
    /// In an endless loop that waits for nothing and whose calls all return.
    pub(crate) const BUSY: u32 = 64;
    /// In a loop with one iteration per connection.
    pub(crate) const SERVES: u32 = 128;
    /// In a loop over a few constants of the program.
    pub(crate) const FEW_CONSTANTS: u32 = 256;
    /// A statement of a tool for models that does not say that it sends anything, with a result that nothing
    /// uses.
    pub(crate) const SILENT: u32 = 512;
    /// In a command that runs while a container image is built, whose system folders are the image's.
    pub(crate) const IMAGE: u32 = 1024;
    /// Under a condition, or behind one that leaves the block.
    pub(crate) const CHOSEN: u32 = 2048;
}

/// A call or a command.
pub(crate) struct Call<'a> {
    /// Canonical names of the function.
    pub(crate) names: &'a [Rc<str>],
    /// Last component as written, for calls on unknown values.
    pub(crate) method: Option<&'a str>,
    /// Receiver of a method call.
    pub(crate) receiver: Option<&'a Value>,
    /// Positional arguments.
    pub(crate) args: &'a [Value],
    /// Named arguments.
    pub(crate) kwargs: &'a [(Rc<str>, Value)],
    /// Bits of [`Spot`].
    pub(crate) context: u32,
}

/// Kind of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextKind {
    /// A string of a program, or a line of a configuration file.
    String,
    /// A comment or documentation.
    Comment,
}

impl Pack {
    /// Calls `hit` with the index of each rule that matches a call.
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
        for (holds, rules) in &index.groups {
            if holds(name) {
                self.check(rules, call, hit);
            }
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

    /// Way of the value whose origin a rule asks about, if it asks about one.
    pub(crate) fn trail<'v>(&self, rule: usize, call: &Call<'v>) -> Option<&'v Step> {
        self.compiled[rule].when.iter().find_map(|condition| condition.trail(call))
    }

    /// Calls `hit` with the index of each rule for a fact of the engine.
    pub(crate) fn facts(&self, language: Language, fact: &str, call: &Call<'_>, mut hit: impl FnMut(usize)) {
        let rules = self.indexes.get(&language.rules()).and_then(|index| index.facts.get(fact));
        let anywhere = self.indexes.get(&Language::Text).and_then(|index| index.facts.get(fact));
        for rules in rules.into_iter().chain(anywhere) {
            self.check(rules, call, &mut hit);
        }
    }

    /// Calls `hit` with each text rule that matches `text`, and the offset.
    pub(crate) fn text_hits(&self, kind: TextKind, text: &str, mut hit: impl FnMut(usize, usize)) {
        let texts = self.texts(kind);
        texts.filter.candidates(text, |at| {
            if let Some(start) = texts.each[at].find(text) {
                hit(texts.rules[at], start);
            }
        });
    }
}
