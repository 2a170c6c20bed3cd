//! Names of foreign tools: behind the prefix of their server, so that no server can take a name of hotcell's or of another server. Pure.

use sha2::{Digest, Sha256};

/// Maximum length of a name that clients see.
pub const MAX_NAME_CHARS: usize = 60;
/// Maximum length of a prefix.
const MAX_PREFIX_CHARS: usize = 24;
/// Text between the prefix and the tool's own name; never in a prefix.
pub const SEPARATOR: &str = "__";
/// Number of digits of a digest behind a name that was changed.
const DIGEST_CHARS: usize = 8;

/// Prefix of a server: letters, digits, `-` and single `_`.
#[must_use]
pub fn prefix(server: &str) -> String {
    let mut prefix = String::new();
    for c in server.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c != '_' || (!prefix.is_empty() && !prefix.ends_with('_')) {
            prefix.push(c);
        }
    }
    prefix.truncate(MAX_PREFIX_CHARS);
    let prefix = prefix.trim_end_matches('_');
    if prefix.is_empty() { "server".to_owned() } else { prefix.to_owned() }
}

/// Name that clients see. One that had to be changed ends with a digest of the tool's own, so that two tools of a server stay two.
#[must_use]
pub fn name(prefix: &str, tool: &str) -> String {
    let plain: String = tool
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
        .collect();
    let room = MAX_NAME_CHARS - prefix.len() - SEPARATOR.len();
    if plain == tool && !tool.is_empty() && tool.len() <= room {
        return format!("{prefix}{SEPARATOR}{tool}");
    }
    let digest = hex::encode(Sha256::digest(tool));
    let kept: String = plain.chars().take(room - DIGEST_CHARS - 1).collect();
    format!("{prefix}{SEPARATOR}{kept}_{}", &digest[..DIGEST_CHARS])
}

/// Prefix in a name; `None` for a name without one.
#[must_use]
pub fn prefix_of(name: &str) -> Option<&str> {
    name.split_once(SEPARATOR).map(|(prefix, _)| prefix).filter(|prefix| !prefix.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_have_no_separator() {
        for (server, want) in [
            ("weather", "weather"),
            ("server-filesystem", "server-filesystem"),
            ("a.b", "a_b"),
            ("a__b", "a_b"),
            ("__a__", "a"),
            ("_", "server"),
            ("äö", "server"),
            ("abcdefghijklmnopqrstuvw.xyz", "abcdefghijklmnopqrstuvw"),
        ] {
            assert_eq!(prefix(server), want, "{server}");
        }
    }

    #[test]
    fn names_of_two_tools_are_two() {
        for (tool, want) in [("read", "fs__read"), ("__read", "fs____read"), ("a-b", "fs__a-b")] {
            assert_eq!(name("fs", tool), want, "{tool}");
        }
        let odd = ["a.b", "a/b", "a b", "", "\u{202e}", &"x".repeat(80), &format!("{}y", "x".repeat(79))];
        let names: std::collections::BTreeSet<_> = odd.iter().map(|tool| name("fs", tool)).collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
        assert_eq!((prefix_of("run_code"), prefix_of("__x"), prefix_of("a__b__c")), (None, None, Some("a")));
    }

    proptest! {
        #[test]
        fn names_are_plain_and_lead_back_to_their_server(server in ".{0,40}", tool in ".{0,90}") {
            let prefix = prefix(&server);
            let name = name(&prefix, &tool);
            prop_assert!(name.len() <= MAX_NAME_CHARS, "{name}");
            prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{name}");
            prop_assert_eq!(prefix_of(&name), Some(prefix.as_str()));
        }
    }
}
