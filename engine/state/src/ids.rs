//! Ids: short ones as people type them, where an unambiguous prefix is enough and a mistyped id yields the one
//! that is meant, and unguessable names.

use hotcell_sandbox::layer::likely;

use crate::report::{Code, ErrorReport};

/// Maximum number of candidates listed for an ambiguous prefix.
const MAX_CANDIDATES: usize = 6;

/// Result of looking up an id.
#[derive(Debug, PartialEq, Eq)]
pub enum PrefixMatch {
    /// The only match.
    One(String),
    /// Several candidates for an ambiguous prefix.
    Several(Vec<String>),
    /// No match, with the id that is like it, if there is one.
    None(Option<String>),
}

/// Looks up a typed id among `ids`, which are lower case and most important first.
pub fn resolve_prefix(typed: &str, ids: &[String]) -> PrefixMatch {
    let asked = typed.trim().to_ascii_lowercase();
    let among: Vec<&String> = ids.iter().filter(|id| !asked.is_empty() && id.starts_with(&asked)).collect();
    match among[..] {
        [one] => PrefixMatch::One(one.clone()),
        [] => PrefixMatch::None(likely(&asked, ids.iter().map(String::as_str)).map(str::to_owned)),
        _ if among.iter().any(|id| **id == asked) => PrefixMatch::One(asked),
        _ => PrefixMatch::Several(among.into_iter().take(MAX_CANDIDATES).cloned().collect()),
    }
}

/// `bytes` random bytes from the kernel, in hexadecimal.
///
/// # Errors
/// A report when the kernel provides none.
pub fn random_hex(bytes: usize) -> Result<String, ErrorReport> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random)
        .map_err(|e| ErrorReport::new(Code::Internal, format!("the kernel gives no random numbers: {e}")))?;
    Ok(hex::encode(random))
}

/// An unguessable name of 128 bits.
pub fn handle(prefix: &str) -> Result<String, ErrorReport> {
    Ok(format!("{prefix}{}", random_hex(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_id_prefix_resolves() {
        let ids = ["ab12", "ab34", "cd"].map(str::to_owned);
        let one = |id: &str| PrefixMatch::One(id.to_owned());
        for (typed, want) in [
            ("ab12", one("ab12")),
            (" AB1 ", one("ab12")),
            ("c", one("cd")),
            ("ab", PrefixMatch::Several(vec!["ab12".to_owned(), "ab34".to_owned()])),
            ("ab13", PrefixMatch::None(Some("ab12".to_owned()))),
        ] {
            assert_eq!(resolve_prefix(typed, &ids), want, "{typed}");
        }
        assert_eq!(resolve_prefix("ab", &[]), PrefixMatch::None(None));
        for unlike in ["", "zz", "%"] {
            assert_eq!(resolve_prefix(unlike, &ids), PrefixMatch::None(None), "{unlike}");
        }
    }

    #[test]
    fn handles_are_long_and_never_the_same() {
        let all: std::collections::HashSet<_> = (0..1000).map(|_| handle("run_").unwrap()).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|h| h.len() == 4 + 32));
    }
}
