//! Checks that the tests that the documentation names for hostile components exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of such tests, relative to this crate.
const PLACES: [&str; 3] = ["src", "tests", "../plugins/src"];

fn sources(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}

/// Names of test functions: by an attribute, or in a table of `libtest-mimic`.
fn tests() -> BTreeSet<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeSet::new();
    PLACES.iter().for_each(|place| sources(&here.join(place), &mut files));
    let mut tests = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a file");
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            match function.and_then(|rest| rest.split_once('(')) {
                Some((name, _)) if marked => {
                    tests.insert(name.to_owned());
                    marked = false;
                }
                _ => {
                    marked =
                        (marked && line.starts_with("#[")) || ["#[test]", "#[tokio::test]"].contains(&line);
                }
            }
            // `("name", || Box::pin(name()))`.
            if let Some((name, _)) = line.strip_prefix("(\"").and_then(|rest| rest.split_once("\", ||")) {
                tests.insert(name.to_owned());
            }
        }
    }
    tests
}

#[test]
fn component_attack_table_names_existing_tests() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/attacks.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("<!-- component table -->").expect("the table");
    let (table, _) = rest.split_once("<!-- end of component table -->").expect("its end");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    let tests = tests();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [attack, wall, named] = cells[..] else { panic!("three cells: {row}") };
        assert!(!attack.trim().is_empty() && !wall.trim().is_empty(), "{row}");
        let named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "a row without a test: {row}");
        for name in named {
            assert!(tests.contains(name), "there is no test {name}, which the table names");
        }
    }
    assert!(!tests.contains("sources"), "what is no test is not taken for one");
}
