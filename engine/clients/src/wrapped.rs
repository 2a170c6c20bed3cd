//! Entries of servers behind `hotcell mcp wrap`: the words of such an entry, and the entry that it was before. Pure.

use crate::Entry;
use crate::fetched::Fetcher;

/// Words between the program and its options.
const WRAP: [&str; 2] = ["mcp", "wrap"];

/// An entry behind hotcell, which `hotcell` starts (program and first arguments): under its name, with the variables that the entry sets passed on
/// by name.
#[must_use]
pub fn wrapped(entry: &Entry, name: &str, (hotcell, first): (&str, &[String])) -> Entry {
    let mut args = first.to_vec();
    args.extend(WRAP.map(str::to_owned));
    args.extend(["--name".to_owned(), name.to_owned()]);
    args.extend(entry.env.keys().flat_map(|variable| ["--env".to_owned(), variable.clone()]));
    args.extend(["--".to_owned(), entry.command.clone()]);
    args.extend(entry.args.iter().cloned());
    Entry { command: hotcell.to_owned(), args, env: entry.env.clone() }
}

/// Whether an entry starts its server by `hotcell mcp wrap`.
#[must_use]
pub fn is_wrapped(entry: &Entry) -> bool {
    entry.is_ours() && own_words(entry).iter().map(String::as_str).take(2).eq(WRAP)
}

/// Hotcell's own words of an entry that starts it: without those of npx or uvx.
fn own_words(entry: &Entry) -> &[String] {
    Fetcher::behind(&entry.command, &entry.args).unwrap_or(&entry.args)
}

/// The entry that was wrapped; `None` for another one.
#[must_use]
pub fn unwrapped(entry: &Entry) -> Option<Entry> {
    if !is_wrapped(entry) {
        return None;
    }
    let words = own_words(entry);
    let behind = words.iter().position(|word| word == "--")? + 1;
    let mut words = words[behind..].iter().cloned();
    Some(Entry { command: words.next()?, args: words.collect(), env: entry.env.clone() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wrapped_entry_passes_variables_by_name() {
        let env = [("API_KEY".to_owned(), "s3cret".to_owned())].into();
        let entry =
            Entry { command: "npx".to_owned(), args: vec!["-y".to_owned(), "server".to_owned()], env };
        let now = wrapped(&entry, "notes", ("hotcell", &[]));
        assert_eq!(
            now.args,
            ["mcp", "wrap", "--name", "notes", "--env", "API_KEY", "--", "npx", "-y", "server"]
        );
        assert!(!now.args.iter().any(|word| word.contains("s3cret")));
        assert_eq!((now.env, is_wrapped(&entry)), (entry.env.clone(), false));
    }

    proptest! {
        #[test]
        fn unwrapping_gives_the_entry_back(
            command in "[a-z/-]{1,12}", args in proptest::collection::vec("[a-z -]{0,8}", 0..5),
            env in proptest::collection::btree_map("[A-Z]{1,4}", "[a-z]{0,4}", 0..3), name in "[a-z]{1,8}",
        ) {
            let entry = Entry { command, args, env };
            let fetched = Fetcher::ALL.map(|fetcher| (fetcher.name(), fetcher.words("1.2.3")));
            for (hotcell, first) in [("hotcell", vec![])].into_iter().chain(fetched) {
                let now = wrapped(&entry, &name, (hotcell, &first));
                prop_assert!(now.args.starts_with(&first));
                let back = unwrapped(&now);
                prop_assert_eq!(back.as_ref(), Some(&entry));
            }
        }
    }
}
