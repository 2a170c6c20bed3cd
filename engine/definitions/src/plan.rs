//! Order of the tools of a verb. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// For each tool those that have to end before it.
pub type Needs = BTreeMap<String, BTreeSet<String>>;

/// Tools in layers: those of one layer can run in parallel after all earlier ones.
///
/// # Errors
/// A circle, beginning and ending with one tool: `a → b → a`.
pub fn layers(needs: &Needs) -> Result<Vec<Vec<String>>, String> {
    let (mut layers, mut done) = (Vec::new(), BTreeSet::new());
    while done.len() < needs.len() {
        let ready = |(name, of): &(&String, &BTreeSet<String>)| !done.contains(*name) && of.is_subset(&done);
        let layer: Vec<String> = needs.iter().filter(ready).map(|(name, _)| name.clone()).collect();
        if layer.is_empty() {
            return Err(circle(needs, &done));
        }
        done.extend(layer.iter().cloned());
        layers.push(layer);
    }
    Ok(layers)
}

/// Follows needs that are not done until a tool comes twice.
fn circle(needs: &Needs, done: &BTreeSet<String>) -> String {
    let mut path: Vec<&String> = needs.keys().find(|name| !done.contains(*name)).into_iter().collect();
    while let Some(last) = path.last() {
        let Some(next) = needs.get(*last).and_then(|of| of.iter().find(|name| !done.contains(*name))) else {
            break;
        };
        if let Some(at) = path.iter().position(|name| *name == next) {
            let mut names: Vec<&str> = path[at..].iter().map(|name| name.as_str()).collect();
            names.push(next);
            return names.join(" → ");
        }
        path.push(next);
    }
    path.into_iter().cloned().collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(text: &str) -> Needs {
        let set = |of: &str| of.split_whitespace().map(str::to_owned).collect();
        text.split(';')
            .filter_map(|one| one.split_once(':'))
            .map(|(name, of)| (name.trim().to_owned(), set(of)))
            .collect()
    }

    #[test]
    fn tools_are_ordered_and_circles_named() {
        for (text, want) in [
            ("", ""),
            ("a:; b:", "a b"),
            ("a: b; b:; c: a b", "b | a | c"),
            ("pull:; files: ; scan: files; analyze: pull files", "files pull | analyze scan"),
        ] {
            let layers: Vec<String> =
                layers(&needs(text)).unwrap().iter().map(|layer| layer.join(" ")).collect();
            assert_eq!(layers.join(" | "), want, "{text}");
        }
        for (text, want) in [
            ("a: a", "a → a"),
            ("a: b; b: a", "a → b → a"),
            ("x:; a: x b; b: c; c: b", "b → c → b"),
            ("a: b; b: c; c: d; d: b", "b → c → d → b"),
        ] {
            assert_eq!(layers(&needs(text)), Err(want.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn layers_hold_each_tool_once_after_its_needs(edges in proptest::collection::vec((0..8_u8, 0..8_u8), 0..24)) {
            let mut all: Needs = (0..8).map(|n: u8| (n.to_string(), BTreeSet::new())).collect();
            for (a, b) in edges {
                all.get_mut(&a.to_string()).unwrap().insert(b.to_string());
            }
            match layers(&all) {
                Ok(layers) => {
                    let mut seen = BTreeSet::new();
                    for layer in layers {
                        prop_assert!(layer.iter().all(|name| all[name].is_subset(&seen)));
                        seen.extend(layer);
                    }
                    prop_assert_eq!(seen.len(), 8);
                }
                Err(circle) => {
                    let names: Vec<&str> = circle.split(" → ").collect();
                    prop_assert!(names.len() > 1 && names.first() == names.last());
                    for pair in names.windows(2) {
                        prop_assert!(all[pair[0]].contains(pair[1]));
                    }
                }
            }
        }
    }
}
