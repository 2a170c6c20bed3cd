//! Public suffixes: names below which anybody can register one of their own, such as `co.uk` and `github.io`. Pure.

/// Suffixes of at least two labels, a line each.
const LIST: &str = include_str!("../data/public_suffixes.txt");
/// Line between the suffixes of registries and those of companies.
const PRIVATE: &str = "# private";

/// Owner of a public suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuffixOwner {
    /// A registry of domain names.
    Registry,
    /// A company that gives names below its own to its customers.
    Company,
}

/// Whether a name is a public suffix, and whose. Names of one label are not looked for. `name`: in small letters, without a dot at its end.
///
/// ```
/// use hotcell_egress::suffix::{SuffixOwner, public_suffix};
/// assert_eq!(public_suffix("co.uk"), Some(SuffixOwner::Registry));
/// assert_eq!(public_suffix("github.io"), Some(SuffixOwner::Company));
/// assert_eq!(public_suffix("example.co.uk"), None);
/// ```
#[must_use]
pub fn public_suffix(name: &str) -> Option<SuffixOwner> {
    let parent = name.split_once('.').map_or("", |(_, parent)| parent);
    let mut owner = SuffixOwner::Registry;
    let mut found = None;
    for line in LIST.lines() {
        if line == PRIVATE {
            owner = SuffixOwner::Company;
        } else if line.strip_prefix('!') == Some(name) {
            return None;
        } else if found.is_none()
            && (line == name || line.strip_prefix("*.").is_some_and(|above| above == parent))
        {
            found = Some(owner);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_found_with_their_owners() {
        use SuffixOwner::{Company, Registry};
        for (name, want) in [
            ("co.uk", Some(Registry)),
            ("com.au", Some(Registry)),
            ("gov.uk", Some(Registry)),
            ("x.ck", Some(Registry)),
            ("www.ck", None),
            ("city.kobe.jp", None),
            ("x.kobe.jp", Some(Registry)),
            ("github.io", Some(Company)),
            ("githubusercontent.com", Some(Company)),
            ("herokuapp.com", Some(Company)),
            ("github.com", None),
            ("example.com", None),
            ("pythonhosted.org", None),
            ("me.github.io", None),
            ("example.co.uk", None),
            ("# private", None),
            ("", None),
        ] {
            assert_eq!(public_suffix(name), want, "{name}");
        }
    }

    #[test]
    fn list_is_whole() {
        let lines: Vec<&str> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 8000 && lines.iter().all(|line| line.contains('.') && line.is_ascii()));
        assert_eq!(LIST.lines().filter(|line| *line == PRIVATE).count(), 1);
    }
}
