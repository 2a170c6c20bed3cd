//! Names of packages that resemble popular ones: one letter apart, or alike but for separators and look-alike letters.

use rustc_hash::{FxHashMap, FxHashSet};

/// Minimum length of two names that are compared. Short names are often one letter apart.
const MIN_LENGTH: usize = 5;
/// Maximum length of a name: npm's limit.
const MAX_LENGTH: usize = 214;
/// Letters that a name may have instead of another, or in addition.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-";

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Registry {
    Pypi,
    Npm,
}

impl Registry {
    /// Registry of this name in feeds.
    pub(crate) fn named(name: &str) -> Option<Registry> {
        match name {
            "pypi" => Some(Registry::Pypi),
            "npm" => Some(Registry::Npm),
            _ => None,
        }
    }

    /// Name in feeds and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Registry::Pypi => "pypi",
            Registry::Npm => "npm",
        }
    }

    /// Form in which names of one package are equal: in lower case, and for PyPI with one hyphen in place of hyphens,
    /// underscores and dots.
    fn normal(self, name: &str) -> String {
        if self == Registry::Npm {
            return name.to_ascii_lowercase();
        }
        let mut out = String::with_capacity(name.len());
        for c in name.chars() {
            let c = if matches!(c, '_' | '.') { '-' } else { c.to_ascii_lowercase() };
            if c != '-' || !out.ends_with('-') {
                out.push(c);
            }
        }
        out
    }

    /// True for a name that a package of the registry can have, or a module of Python.
    pub(crate) fn is_name(self, name: &str) -> bool {
        let is_plain = |part: &str| {
            !part.is_empty()
                && part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b))
        };
        name.len() <= MAX_LENGTH
            && match (self, name.strip_prefix('@').and_then(|scoped| scoped.split_once('/'))) {
                (Registry::Npm, Some((scope, name))) => is_plain(scope) && is_plain(name),
                _ => is_plain(name),
            }
    }
}

/// Resemblance of a name to a popular one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// A letter is missing, added, another one, or swapped with its neighbour.
    OneLetter,
    /// The names differ in separators, or in letters that look alike.
    Look,
}

/// Popular packages of a registry.
#[derive(Debug)]
pub(crate) struct Popular {
    registry: Registry,
    names: FxHashSet<Box<str>>,
    looks: FxHashMap<Box<str>, Box<str>>,
    /// Length of the longest name.
    longest: usize,
}

impl Popular {
    /// An empty list.
    pub(super) fn of(registry: Registry) -> Popular {
        Popular { registry, names: FxHashSet::default(), looks: FxHashMap::default(), longest: 0 }
    }

    /// Adds a name.
    pub(super) fn add(&mut self, name: &str) {
        let name = self.registry.normal(name);
        if name.len() >= MIN_LENGTH {
            self.looks.entry(look(&name).into()).or_insert_with(|| name.clone().into());
        }
        self.longest = self.longest.max(name.len());
        self.names.insert(name.into());
    }

    /// Popular package that a name resembles; `None` for the name of a popular package.
    pub(crate) fn resembled(&self, name: &str) -> Option<(&str, Likeness)> {
        let name = self.registry.normal(name);
        if name.len() < MIN_LENGTH || self.names.is_empty() || self.names.contains(name.as_str()) {
            return None;
        }
        if let Some(popular) = self.looks.get(look(&name).as_str()) {
            return Some((&**popular, Likeness::Look));
        }
        if name.len() > self.longest + 1 {
            return None;
        }
        let mut found: Option<&str> = None;
        one_letter_apart(&name, &mut |other| {
            // The first by name, so that the answer does not depend on the order of a table.
            let other = self.names.get(other).filter(|other| other.len() >= MIN_LENGTH);
            found = [found, other.map(|other| &**other)].into_iter().flatten().min();
        });
        found.map(|popular| (popular, Likeness::OneLetter))
    }
}

/// Form of a name in which names that look alike are equal: without separators, and with one letter for all that look
/// like it.
fn look(name: &str) -> String {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.' | '~' | '@' | '/'))
        .map(|c| match c {
            '0' => 'o',
            '1' | 'i' => 'l',
            '5' => 's',
            c => c,
        })
        .collect();
    plain.replace("rn", "m").replace("vv", "w")
}

/// Calls `each` with every text that is one edit away from a name: a letter left out, added or replaced, or two
/// neighbours swapped (Damerau-Levenshtein distance 1).
fn one_letter_apart(name: &str, each: &mut dyn FnMut(&str)) {
    if !name.is_ascii() || name.len() > MAX_LENGTH {
        return;
    }
    let mut try_bytes = |bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            each(text);
        }
    };
    let name = name.as_bytes();
    for at in 0..name.len() {
        let mut other = name.to_vec();
        for letter in LETTERS.iter().filter(|letter| **letter != name[at]) {
            other[at] = *letter;
            try_bytes(&other);
        }
        other[at] = name[at];
        if at + 1 < name.len() && name[at] != name[at + 1] {
            other.swap(at, at + 1);
            try_bytes(&other);
            other.swap(at, at + 1);
        }
        other.remove(at);
        try_bytes(&other);
    }
    for at in 0..=name.len() {
        let mut other = name.to_vec();
        other.insert(at, b'a');
        for letter in LETTERS {
            other[at] = *letter;
            try_bytes(&other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_resemble_popular_ones() {
        use Likeness::{Look, OneLetter};
        let of = |registry: Registry, names: &[&str]| {
            let mut popular = Popular::of(registry);
            names.iter().for_each(|name| popular.add(name));
            popular
        };
        let pypi = of(Registry::Pypi, &["requests", "python-dateutil", "numpy", "six", "click", "Jinja2"]);
        let npm = of(Registry::Npm, &["lodash", "@types/node", "lodash.merge"]);
        for (name, want) in [
            ("requests", None),
            ("Requests", None),
            ("reqeusts", Some(("requests", OneLetter))),
            ("request", Some(("requests", OneLetter))),
            ("requestss", Some(("requests", OneLetter))),
            ("requezts", Some(("requests", OneLetter))),
            ("equests", Some(("requests", OneLetter))),
            ("reqests-x", None),
            ("rquestss", None),
            ("python_dateutil", None),
            ("python.dateutil", None),
            ("pythondateutil", Some(("python-dateutil", Look))),
            ("python-date-util", Some(("python-dateutil", Look))),
            ("dateutil", None),
            ("nurnpy", Some(("numpy", Look))),
            ("l0dash", Some(("lodash", Look))),
            ("1odash", Some(("lodash", Look))),
            ("lodash.merge", None),
            ("lodash-merge", Some(("lodash.merge", Look))),
            ("types-node", Some(("@types/node", Look))),
            ("@types/nod", Some(("@types/node", OneLetter))),
            ("@types/nodes", Some(("@types/node", OneLetter))),
            ("sixx", None),
            ("sixxx", None),
            ("clcik", Some(("click", OneLetter))),
            ("clik", None),
            ("jinja", Some(("jinja2", OneLetter))),
            ("", None),
            ("числа", None),
        ] {
            let is_npm =
                want.is_some_and(|(popular, _)| npm.names.contains(popular)) || name.starts_with("lodash");
            assert_eq!(if is_npm { &npm } else { &pypi }.resembled(name), want, "{name}");
        }
        assert_eq!(Popular::of(Registry::Npm).resembled("requests"), None);
    }

    #[test]
    fn names_of_each_registry() {
        for (registry, name, is) in [
            (Registry::Pypi, "typing_extensions", true),
            (Registry::Pypi, "zope.interface", true),
            (Registry::Pypi, "@types/node", false),
            (Registry::Pypi, "a b", false),
            (Registry::Pypi, "", false),
            (Registry::Pypi, "-x", false),
            (Registry::Pypi, "числа", false),
            (Registry::Npm, "@types/node", true),
            (Registry::Npm, "lodash.merge", true),
            (Registry::Npm, "@types", false),
            (Registry::Npm, "@/x", false),
            (Registry::Npm, "a/b", false),
        ] {
            assert_eq!(registry.is_name(name), is, "{name}");
        }
        assert!(!Registry::Npm.is_name(&"a".repeat(215)));
    }

    proptest::proptest! {
        #[test]
        fn an_edit_is_one_letter_apart(name in "[a-z]{5,9}", at in 0_usize..5, letter in "[a-z]", kind in 0..4) {
            let mut bytes = name.clone().into_bytes();
            match kind {
                0 => _ = bytes.remove(at),
                1 => bytes.insert(at, letter.as_bytes()[0]),
                2 => bytes[at] = letter.as_bytes()[0],
                _ => bytes.swap(at, (at + 1) % name.len().min(5)),
            }
            let other = String::from_utf8(bytes).unwrap_or_default();
            let near = at + 1 < name.len().min(5) || kind != 3;
            let mut found = other == name || !near;
            one_letter_apart(&other, &mut |text| found |= text == name);
            proptest::prop_assert!(found, "{} {}", name, other);
        }
    }
}
