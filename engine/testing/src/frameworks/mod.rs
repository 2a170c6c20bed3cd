//! The list of the frameworks, and how the one of a project is found.
//!
//! | module | idea |
//! | --- | --- |
//! | [`pytest`], [`unittest`], [`django`] | Python, with hotcell's own drivers |
//! | [`mod@cargo`], [`nextest`], [`libtest`], [`golang`], [`runner`] | Rust and Go: compiled, each test program started through a hotcell script |
//! | [`gtest`], [`native`], [`programs`], [`lines`] | Google Test; following programs that a script starts, and their lines |
//! | [`node`] | node's own runner, mocha, jasmine, karma, vitest |
//! | [`pgtap`], [`tap`] | tests in SQL; the Test Anything Protocol |
//! | [`tap_program`] | tape, node-tap, ava, and other programs in JavaScript that print TAP |
//! | [`java`] | JUnit, driven by a hotcell program in Java |
//! | [`python`], [`javascript`] | reading a hostile project's configuration and scripts |
//! | [`jest`], [`jest_report`] | jest and its report |

pub mod cargo;
pub mod django;
pub mod golang;
pub mod gtest;
pub mod java;
pub mod javascript;
pub mod jest;
pub mod jest_report;
pub mod libtest;
pub mod lines;
pub mod native;
pub mod nextest;
pub mod node;
pub mod others;
pub mod pgtap;
pub mod programs;
pub mod pytest;
pub mod python;
pub mod runner;
pub mod tap;
pub mod tap_program;
#[cfg(test)]
mod tests;
pub mod unittest;

use crate::framework::{Evidence, Framework, Strength};
use crate::project::Project;

/// Every framework; with equal evidence, earlier ones take precedence.
#[must_use]
pub fn frameworks() -> &'static [&'static dyn Framework] {
    &[
        &pytest::Pytest,
        &unittest::Unittest,
        &django::Django,
        &jest::Jest,
        &node::VITEST,
        &node::KARMA,
        &node::MOCHA,
        &node::JASMINE,
        &node::NODE,
        &tap_program::TAPE,
        &tap_program::TAP,
        &tap_program::AVA,
        &cargo::Cargo,
        &nextest::Nextest,
        &golang::Go,
        &gtest::GoogleTest,
        &java::Junit,
        &pgtap::PgTap,
    ]
}

/// Finds a framework by its name.
#[must_use]
pub fn framework(name: &str) -> Option<&'static dyn Framework> {
    frameworks().iter().copied().find(|f| f.name() == name)
}

/// Frameworks that a project seems to use, the likeliest first.
#[must_use]
pub fn detect(project: &dyn Project) -> Vec<(&'static dyn Framework, Evidence)> {
    let mut found: Vec<_> = frameworks().iter().filter_map(|f| Some((*f, f.detect(project)?))).collect();
    found.sort_by_key(|(_, evidence)| std::cmp::Reverse(evidence.strength));
    found
}

/// A framework with the same evidence as the likeliest, if the choice is ambiguous: both are configured, or
/// tests use both. pytest also runs unittest's tests.
#[must_use]
pub fn rival<'a>(
    found: &'a [(&'static dyn Framework, Evidence)],
) -> Option<&'a (&'static dyn Framework, Evidence)> {
    let [(first, best), (second, other), ..] = found else { return None };
    let same = best.strength == other.strength && best.strength > Strength::Shaped;
    let python = (first.name(), second.name()) == ("pytest", "unittest");
    found.get(1).filter(|_| same && !python)
}
