//! Names by which a model calls tools: `PLUGIN_FUNCTION`, at most 45 characters, all of which every client
//! accepts.
//!
//! A plugin's name has no `_`, so the first one ends it, and a plugin cannot take the name of another one's
//! tool.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::Export;

/// Maximum length of a name: clients put the server's name before it (`mcp__hotcell__`), and some models
/// accept fewer than 60 characters in all. A plugin's own name, at most 32 characters, always fits.
const MAX_NAME_LEN: usize = 45;

/// Names for the exports of one plugin, in order. A name contains the interface only if two functions have
/// the same name. Equal exports always get equal names, and all names differ, even if case is ignored.
#[must_use]
pub fn tool_names(plugin: &str, exports: &[Export]) -> Vec<String> {
    let short = |export: &Export| safe(&format!("{plugin}_{}", export.function));
    let with = |export: &Export, interface: fn(&str) -> &str| match &export.interface {
        Some(name) => safe(&format!("{plugin}_{}_{}", interface(name), export.function)),
        None => short(export),
    };
    let mut names: Vec<String> = exports.iter().map(short).collect();
    for interface in [last_part as fn(&str) -> &str, |name| name] {
        let count = counted(&names);
        for (name, export) in names.iter_mut().zip(exports) {
            if count[&name.to_lowercase()] > 1 {
                *name = with(export, interface);
            }
        }
    }
    let count = counted(&names);
    let mut taken = HashSet::new();
    for (name, export) in names.iter_mut().zip(exports) {
        let mut again = 0_u32;
        if name.len() > MAX_NAME_LEN || count[&name.to_lowercase()] > 1 {
            *name = hashed(name, &export.path, again);
        }
        while !taken.insert(name.to_lowercase()) {
            again += 1;
            *name = hashed(name, &export.path, again);
        }
    }
    names
}

/// `tools` of `example:pkg/tools@1.0.0`.
fn last_part(interface: &str) -> &str {
    let name = interface.split('@').next().unwrap_or(interface);
    name.rsplit('/').next().unwrap_or(name)
}

fn counted(names: &[String]) -> HashMap<String, usize> {
    let mut count = HashMap::new();
    for name in names {
        *count.entry(name.to_lowercase()).or_default() += 1;
    }
    count
}

fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Beginning of a name, and ten digits derived from the path.
fn hashed(name: &str, path: &str, again: u32) -> String {
    let digest = Sha256::digest(format!("{again}:{path}").as_bytes());
    let digits: String = hex::encode(&digest[..5]);
    // A safe name is ASCII.
    format!("{}_{digits}", &name[..name.len().min(MAX_NAME_LEN - 11)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn export(path: &str) -> Export {
        let (interface, function) = match path.split_once('#') {
            Some((interface, function)) => (Some(interface.to_owned()), function),
            None => (None, path),
        };
        Export {
            path: path.to_owned(),
            function: function.to_owned(),
            interface,
            description: String::new(),
            input_schema: serde_json::Value::Null,
            output_schema: serde_json::Value::Null,
        }
    }

    fn names(paths: &[&str]) -> Vec<String> {
        tool_names("data", &paths.iter().map(|path| export(path)).collect::<Vec<_>>())
    }

    #[test]
    fn names_stay_short_until_they_collide() {
        for (paths, expected) in [
            (&["get-row"][..], &["data_get-row"][..]),
            (&["a:b/tools@1.0.0#get"], &["data_get"]),
            (&["get", "a:b/tools@1.0.0#get"], &["data_get", "data_tools_get"]),
            (&["a:b/one#get", "a:b/two#get", "put"], &["data_one_get", "data_two_get", "data_put"]),
            (&["a:b/one@1.0.0#get", "c:d/one#get"], &["data_a_b_one_1_0_0_get", "data_c_d_one_get"]),
        ] {
            assert_eq!(names(paths), expected, "{paths:?}");
        }
    }

    #[test]
    fn long_names_end_in_a_digest() {
        let long = "f".repeat(100);
        let [name] = &names(&[&long])[..] else { panic!("one name") };
        assert_eq!(name.len(), MAX_NAME_LEN);
        assert!(name.starts_with("data_ffff"), "{name}");
        assert_eq!(names(&[&long]), names(&[&long]));
        assert_ne!(names(&[&long]), names(&[&format!("{long}g")]));
    }

    proptest! {
        #[test]
        fn tool_names_are_unique_and_valid(paths in proptest::collection::hash_set("([a-b]:[a-b]/[a-bA-B]{1,2}(@1)?#)?[a-bA-B]([a-b.]{0,2}|[a-b]{60,70})", 0..12)) {
            let exports: Vec<_> = paths.iter().map(|path| export(path)).collect();
            let names = tool_names("data", &exports);
            let different: HashSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
            prop_assert_eq!(different.len(), exports.len());
            for name in names {
                prop_assert!(name.len() <= MAX_NAME_LEN && name.starts_with("data_"), "{}", name);
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'), "{}", name);
            }
        }
    }
}
