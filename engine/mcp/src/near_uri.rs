//! The resource that a wrong URI most likely means, among those of the caller. Pure.

use hotcell_sandbox::layer::likely;

/// The nearest of the known URIs, which begin with `scheme` as the wrong one has to: of its own kind, or else with the same rest under a kind of a
/// like name. Only the part that differs is compared, since all else is alike anyway.
pub fn near(scheme: &str, uri: &str, kinds: &[&str], known: &[String]) -> Option<String> {
    let rest = uri.strip_prefix(scheme)?;
    let (kind, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let kind = match kinds.contains(&kind) {
        true => kind,
        false => {
            let near = likely(kind, kinds.iter().copied())?;
            let below = if rest.is_empty() { String::new() } else { format!("/{rest}") };
            let meant = format!("{scheme}{near}{below}");
            if known.contains(&meant) {
                return Some(meant);
            }
            near
        }
    };
    let front = format!("{scheme}{kind}/");
    let of_kind: Vec<&str> = known.iter().filter_map(|uri| uri.strip_prefix(front.as_str())).collect();
    let (id, below) = rest.split_once('/').map_or((rest, None), |(id, below)| (id, Some(below)));
    let ids = || of_kind.iter().map(|known| known.split('/').next().unwrap_or(known));
    if !ids().any(|known| known == id) {
        let near = likely(id, ids())?;
        let whole = below.map_or_else(|| near.to_owned(), |below| format!("{near}/{below}"));
        let meant = if of_kind.contains(&whole.as_str()) { whole } else { near.to_owned() };
        // The id alone may be the name of nothing, as that of a workspace.
        return of_kind.contains(&meant.as_str()).then(|| format!("{front}{meant}"));
    }
    let beside = format!("{id}/");
    let near = likely(below?, of_kind.iter().filter_map(|known| known.strip_prefix(beside.as_str())))?;
    Some(format!("{front}{beside}{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 4] = ["runs", "tools", "workspaces", "doctor"];
    const KNOWN: [&str; 7] = [
        "hotcell://doctor",
        "hotcell://runs/run_ab12cd",
        "hotcell://runs/run_ab12cd/stdout",
        "hotcell://tools/run_code",
        "hotcell://tools/run_tests",
        "hotcell://workspaces/ws_77/src/main.py",
        "hotcell://workspaces/ws_77/README.md",
    ];

    fn meant(uri: &str) -> Option<String> {
        near("hotcell://", uri, &KINDS, &KNOWN.map(str::to_owned))
    }

    #[test]
    fn nearest_resource_is_named_by_the_part_that_differs() {
        for (uri, want) in [
            ("hotcell://tools/run_cod", Some("hotcell://tools/run_code")),
            ("hotcell://docter", Some("hotcell://doctor")),
            ("hotcell://tool/run_code", Some("hotcell://tools/run_code")),
            ("hotcell://tool/run_cod", Some("hotcell://tools/run_code")),
            ("hotcell://tools/run-tests", Some("hotcell://tools/run_tests")),
            ("hotcell://runs/run_ab12ce", Some("hotcell://runs/run_ab12cd")),
            ("hotcell://runs/run_ab12ce/stdout", Some("hotcell://runs/run_ab12cd/stdout")),
            ("hotcell://runs/run_ab12cd/stdot", Some("hotcell://runs/run_ab12cd/stdout")),
            ("hotcell://workspaces/ws_77/src/mian.py", Some("hotcell://workspaces/ws_77/src/main.py")),
            ("hotcell://workspaces/ws_78/README.md", Some("hotcell://workspaces/ws_77/README.md")),
            ("hotcell://workspaces/ws_78/none", None),
            ("hotcell://workspaces/ws_77/zzz", None),
            ("hotcell://tools/zzz", None),
            ("hotcell://tools", None),
            ("hotcell://nothing/run_code", None),
            ("hotcell://", None),
            ("file:///etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(meant(uri).as_deref(), want, "{uri}");
        }
    }

    proptest::proptest! {
        /// Whatever is asked for, only what the caller has is named.
        #[test]
        fn only_known_resources_are_named(end in "[a-z_/]{0,24}", at in 0..7_usize) {
            for uri in [format!("hotcell://{end}"), format!("{}{end}", KNOWN[at])] {
                if let Some(meant) = meant(&uri) {
                    proptest::prop_assert!(KNOWN.contains(&meant.as_str()), "{}: {}", uri, meant);
                }
            }
        }
    }
}
