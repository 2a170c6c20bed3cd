//! Rules of one's own, and the check of rules against their examples.

use crate::rules::{Pack, PackError};
use crate::scan::scan_example;

/// The built-in rules followed by `files` (name, content); each new rule is checked against its examples.
///
/// # Errors
/// [`PackError`] for the first invalid file or rule.
pub fn load_pack(files: impl IntoIterator<Item = (String, String)>) -> Result<Pack, PackError> {
    let (pack, first) = Pack::unproven(files)?;
    let failure = pack.failures(first, |_| true, scan_example).next();
    failure.map_or(Ok(pack), Err)
}

/// Checks the rules of the `wanted` files against their own examples.
///
/// # Errors
/// [`PackError::Example`] for the first rule that misses a positive example, matches a benign one, or
/// cannot read one.
pub fn prove(pack: &Pack, wanted: impl Fn(&str) -> bool) -> Result<(), PackError> {
    failures(pack, wanted).next().map_or(Ok(()), Err)
}

/// All examples of the `wanted` files with another result than their rule says.
pub fn failures(pack: &Pack, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = PackError> {
    pack.failures(0, wanted, scan_example)
}
