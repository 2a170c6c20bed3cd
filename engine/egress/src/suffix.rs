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

/// A public suffix that is a name or lies below it, so that everybody can have names below that name; a registry's goes before a company's.
///
/// ```
/// use hotcell_egress::suffix::{SuffixOwner, suffix_within};
/// assert_eq!(suffix_within("github.io"), Some(("github.io", SuffixOwner::Company)));
/// assert_eq!(suffix_within("core.windows.net").map(|(_, owner)| owner), Some(SuffixOwner::Company));
/// assert_eq!(suffix_within("example.co.uk"), None);
/// ```
#[must_use]
pub fn suffix_within(name: &str) -> Option<(&str, SuffixOwner)> {
    if let Some(owner) = public_suffix(name) {
        return Some((name, owner));
    }
    if name.is_empty() {
        return None;
    }
    let mut owner = SuffixOwner::Registry;
    for line in LIST.lines() {
        if line == PRIVATE {
            owner = SuffixOwner::Company;
        }
        // Each name directly below the base of a wildcard is a suffix.
        let is_base = line.strip_prefix("*.") == Some(name);
        let is_below = line.strip_suffix(name).is_some_and(|front| front.ends_with('.'));
        if is_base || is_below && !line.starts_with(['!', '#']) {
            return Some((line, owner));
        }
    }
    None
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
    fn suffixes_below_a_name_are_found() {
        use SuffixOwner::{Company, Registry};
        for (name, want) in [
            ("co.uk", Some(("co.uk", Registry))),
            ("github.io", Some(("github.io", Company))),
            ("kobe.jp", Some(("*.kobe.jp", Registry))),
            ("example.com", None),
            ("api.github.com", None),
            ("pypi.org", None),
            ("city.kobe.jp", None),
            ("", None),
        ] {
            assert_eq!(suffix_within(name), want, "{name}");
        }
        for name in
            ["amazonaws.com", "compute.amazonaws.com", "core.windows.net", "on.aws", "platform.sh", "run.app"]
        {
            assert_eq!(suffix_within(name).map(|(_, owner)| owner), Some(Company), "{name}");
        }
        // A wider wildcard does not get around it: each suffix is within the names above it.
        for line in LIST.lines().filter(|line| !line.starts_with(['#', '!'])).step_by(7) {
            let mut above = line.strip_prefix("*.").unwrap_or(line);
            while above.contains('.') {
                assert!(suffix_within(above).is_some(), "{above} of {line}");
                above = above.split_once('.').map_or("", |(_, parent)| parent);
            }
        }
    }

    #[test]
    fn list_is_whole() {
        let lines: Vec<&str> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 8000 && lines.iter().all(|line| line.contains('.') && line.is_ascii()));
        assert_eq!(LIST.lines().filter(|line| *line == PRIVATE).count(), 1);
    }
}
