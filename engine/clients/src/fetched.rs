//! Programs that take hotcell from a package registry each time they start it: the words of their entries, and how to tell that they started
//! this program. Pure.

use std::path::{Component, Path};

/// Program that takes a package from a registry, and starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetcher {
    /// `npx`, from npm.
    Npx,
    /// `uvx`, from PyPI.
    Uvx,
}

impl Fetcher {
    /// All fetchers.
    pub const ALL: [Self; 2] = [Self::Npx, Self::Uvx];

    /// Name of its command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
        }
    }

    /// Arguments with which it starts one version of hotcell, in front of hotcell's own. npx does not ask (`-y`): a client cannot answer.
    #[must_use]
    pub fn words(self, version: &str) -> Vec<String> {
        let package = format!("hotcell@{version}");
        match self {
            Self::Npx => vec!["-y".to_owned(), package],
            Self::Uvx => vec![package],
        }
    }

    /// The one in whose cache a program lies, from where it goes when the cache is cleaned.
    ///
    /// npx installs into `_npx/HASH` of npm's cache (npm's libnpmexec), uvx into `archive-vN` or `environments-vN` of uv's
    /// (<https://docs.astral.sh/uv/reference/internals/>).
    #[must_use]
    pub fn of(program: &Path) -> Option<Self> {
        let names: Vec<&str> = program
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        let of_uv = |name: &str| {
            let number = name.strip_prefix("archive-v").or_else(|| name.strip_prefix("environments-v"));
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let npx = |part: &[&str]| part[0] == "_npx" && part[2] == "node_modules";
        let uvx = |part: &[&str]| of_uv(part[0]) && part[2] == "bin";
        if names.windows(3).any(npx) {
            Some(Self::Npx)
        } else if names.windows(3).any(uvx) {
            Some(Self::Uvx)
        } else {
            None
        }
    }

    /// The arguments behind those of [`Self::words`], of a command that starts any version of hotcell.
    pub(crate) fn behind<'a>(command: &str, args: &'a [String]) -> Option<&'a [String]> {
        let fetcher = Self::ALL.into_iter().find(|fetcher| fetcher.name() == command)?;
        let (first, rest) = args.split_first()?;
        let (package, behind) = match fetcher {
            Self::Npx if ["-y", "--yes"].contains(&first.as_str()) => rest.split_first()?,
            _ => (first, rest),
        };
        (package == "hotcell" || package.starts_with("hotcell@")).then_some(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;

    #[test]
    fn cache_of_program_tells_fetcher() {
        for (program, want) in [
            ("/root/.npm/_npx/1f2e3d/node_modules/hotcell-linux-x64/bin/hotcell", Some(Fetcher::Npx)),
            ("/home/a/.cache/uv/archive-v0/Xq3_z/bin/hotcell", Some(Fetcher::Uvx)),
            ("/home/a/.cache/uv/environments-v2/ab12/bin/hotcell", Some(Fetcher::Uvx)),
            ("/usr/lib/node_modules/hotcell-linux-x64/bin/hotcell", None),
            ("/home/a/.local/share/uv/tools/hotcell/bin/hotcell", None),
            ("/home/a/archive-vault/x/bin/hotcell", None),
            ("/home/a/archive-v/x/bin/hotcell", None),
            ("/home/a/_npx/hotcell", None),
            ("hotcell", None),
        ] {
            assert_eq!(Fetcher::of(Path::new(program)), want, "{program}");
        }
    }

    #[test]
    fn fetched_entry_is_ours() {
        let entry = |words: &[&str]| Entry {
            command: words[0].to_owned(),
            args: words[1..].iter().map(|word| (*word).to_owned()).collect(),
            ..Entry::default()
        };
        for (words, want) in [
            (&["npx", "-y", "hotcell@0.1.0", "mcp", "--stdio"][..], true),
            (&["npx", "--yes", "hotcell", "mcp"], true),
            (&["npx", "hotcell@latest", "mcp"], true),
            (&["uvx", "hotcell@0.1.0", "mcp", "--stdio"], true),
            (&["uvx", "hotcell@0.1.0"], false),
            (&["uvx", "-y", "hotcell", "mcp"], false),
            (&["npx", "-y", "hotcell-other@1", "mcp"], false),
            (&["npx", "-y", "@a/hotcell", "mcp"], false),
            (&["npx", "-y"], false),
            (&["npx"], false),
            (&["pipx", "hotcell", "mcp"], false),
        ] {
            assert_eq!(entry(words).is_ours(), want, "{words:?}");
        }
        for fetcher in Fetcher::ALL {
            let mut args = fetcher.words("1.2.3-rc.1");
            args.push("mcp".to_owned());
            assert_eq!(Fetcher::behind(fetcher.name(), &args), Some(&["mcp".to_owned()][..]));
        }
    }
}
