//! The most that a component can do, read from its imports before it ever runs.
//!
//! A toolchain imports more than a program uses: every Rust component imports folders, variables and sockets.
//! Sockets are not listed, because no grant opens them: outgoing traffic is HTTP.

/// Imports, without version, and the capabilities that each can use.
const OPENS: &[(&str, &[&str])] = &[
    ("wasi:cli/environment", &["env"]),
    ("wasi:filesystem/preopens", &["read", "write"]),
    ("wasi:http/outgoing-handler", &["net"]),
    ("wasi:http/client", &["net"]),
    ("hotcell:tool/config", &["config"]),
    ("wasi:config/runtime", &["config"]),
    ("wasi:config/store", &["config"]),
    ("hotcell:tool/secret", &["secret"]),
    ("hotcell:sandbox/run", &["sandbox"]),
    ("hotcell:guard/scan", &["guard"]),
];

/// Words of [`crate::Description::at_most`] for these imports, in a fixed order.
#[must_use]
pub fn at_most<'a>(imports: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let imports: Vec<_> = imports.into_iter().map(|name| name.split('@').next().unwrap_or(name)).collect();
    let words = ["read", "write", "net", "env", "config", "secret", "sandbox", "guard"];
    let open =
        |word: &&str| OPENS.iter().any(|(import, words)| words.contains(word) && imports.contains(import));
    words.into_iter().filter(open).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_determine_needed_capabilities() {
        for (imports, words) in [
            (&[][..], &[][..]),
            (
                &[
                    "wasi:clocks/wall-clock@0.2.6",
                    "wasi:random/random@0.2.6",
                    "hotcell:tool/log@0.1.0",
                    "hotcell:tool/kv@0.1.0",
                ],
                &[],
            ),
            (&["wasi:sockets/tcp@0.2.6", "wasi:sockets/ip-name-lookup@0.2.6"], &[]),
            (&["wasi:filesystem/types@0.2.6"], &[]),
            (&["wasi:filesystem/preopens@0.2.6", "wasi:filesystem/types@0.2.6"], &["read", "write"]),
            (&["wasi:filesystem/preopens@0.3.0", "wasi:cli/environment"], &["read", "write", "env"]),
            (&["wasi:http/outgoing-handler@0.2.6"], &["net"]),
            (&["wasi:http/client@0.3.0"], &["net"]),
            (
                &[
                    "hotcell:guard/scan@0.1.0",
                    "hotcell:sandbox/run@0.1.0",
                    "hotcell:tool/secret@0.1.0",
                    "hotcell:tool/config@0.1.0",
                ],
                &["config", "secret", "sandbox", "guard"],
            ),
            (&["wasi:http/outgoing-handler-of-mine"], &[]),
            (&["wasi:config/store@0.2.0-draft", "wasi:keyvalue/store@0.2.0-draft"], &["config"]),
            (&["wasi:config/runtime@0.2.0-draft"], &["config"]),
        ] {
            assert_eq!(at_most(imports.iter().copied()), words, "{imports:?}");
        }
    }
}
