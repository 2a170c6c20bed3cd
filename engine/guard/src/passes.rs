//! Values that a part passes to functions of other files, and those that it gets from them.

use crate::artifact::{ANY, Called, means};
use crate::context::Cx;
use crate::report::{Argument, Pass, StepKind};
use crate::value::{Origin, Value};

/// Maximum number of recorded values that parts pass to functions of other files.
const MAX_PASSES: usize = 256;
/// Maximum length of a name in such a record, in bytes.
const MAX_PASSED_NAME: usize = 200;
/// Origins of values that are followed into functions of other files.
pub(crate) const PASSED: Origin =
    Origin(Origin::CALLER.0 | Origin::REQUEST.0 | Origin::SECRET.0 | Origin::ENV.0 | Origin::KEYS.0);

impl Cx<'_> {
    /// Records that the part passes a value to a function that may be another file's.
    pub(crate) fn pass(
        &mut self,
        target: &str,
        argument: Argument,
        value: &Value,
        silent: bool,
        at: (usize, usize),
    ) {
        if target.len() > MAX_PASSED_NAME
            || matches!(&argument, Argument::Name(name) if name.len() > MAX_PASSED_NAME)
        {
            return;
        }
        let mut frames = self.frames(value.trail.as_deref(), self.locate(at.0, at.1));
        if let Some(last) = frames.last_mut() {
            last.step = StepKind::Passed;
            last.name = target.rsplit('.').next().unwrap_or(target).chars().take(40).collect();
        }
        let origin = value.origin.0 & PASSED.0;
        let pass = Pass { part: self.path(), target: target.to_owned(), argument, origin, silent, frames };
        let is_known = |p: &Pass| {
            p.target == pass.target
                && p.argument == pass.argument
                && p.part == pass.part
                && (p.origin, p.silent) == (origin, silent)
        };
        if self.passes.len() < MAX_PASSES && !self.passes.iter().any(is_known) {
            self.passes.push(pass);
        }
    }

    /// Passes on to another file what this part gets for a function that it only re-exports: `target` by its own
    /// name, or with each function's name appended when `name` is `None`.
    pub(crate) fn pass_on(&mut self, name: Option<&str>, target: &str, at: (usize, usize)) {
        if self.called.is_empty() {
            return;
        }
        let part = self.path();
        let all: Vec<Called> = self.called.iter().filter(|called| called.part == part).cloned().collect();
        for called in all {
            let (first, rest) = called.function.split_once('.').unwrap_or((&called.function, ""));
            let full = match name {
                Some(name) if !means(first, name) => continue,
                Some(_) if rest.is_empty() => target.to_owned(),
                Some(_) => format!("{target}.{rest}"),
                None if called.function == "default" => target.to_owned(),
                None => format!("{target}.{}", called.function),
            };
            let from = format!("{}()", called.function);
            let value = Value::default().with_origin(Origin(called.origin));
            let value = value.stepped(StepKind::Source, &from, at);
            self.pass(&full, called.argument.clone(), &value, called.silent, at);
        }
    }

    /// Origins of a parameter of a function that gets a value from another file.
    pub(crate) fn called_with(&self, function: &str, position: usize, name: &str) -> Origin {
        if self.called.is_empty() {
            return Origin::default();
        }
        let part = self.path();
        let all = self.called.iter().filter(|called| called.is(&part, function, position, name));
        all.fold(Origin::default(), |sum, called| sum | Origin(called.origin))
    }

    /// True when a tool of another file that does not say that it sends anything calls a function.
    pub(crate) fn is_called_silently(&self, function: &str) -> bool {
        !self.called.is_empty() && {
            let part = self.path();
            let is_meant = |called: &Called| !called.function.ends_with(ANY) && called.is_of(function);
            self.called.iter().any(|called| called.silent && called.part == part && is_meant(called))
        }
    }
}
