//! JavaScript projects: `package.json`, the commands in its script `test`, and the names of test files.
//!
//! | module | idea |
//! | --- | --- |
//! | [`shell`] | a shell line -> its commands |
//! | [`options`] | options of runners, and which of them hotcell sets itself |
//! | [`script`] | the script `test` -> the commands that start tests, with all arguments and variables |
//! | [`members`] | packages of a workspace -> what their own scripts start |
//! | [`follow`] | the script for the driver of one framework, and notes on the rest |

pub mod follow;
pub mod members;
pub mod options;
pub mod script;
pub mod shell;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::framework::{Evidence, Strength};
use crate::project::{Project, first_with};

/// Extensions of JavaScript and TypeScript files.
const ENDINGS: [&str; 8] = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"];
/// Maximum number of files searched for calls of `test` and similar functions.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum number of bytes that are searched of one file.
const MAX_SEARCHED_BYTES: usize = 64 << 10;
/// Import statements of node's own runner.
pub(crate) const NODE_TEST: [&str; 2] = ["'node:test'", "\"node:test\""];
/// Maximum number of packages of a workspace that are read.
const MAX_MEMBERS: usize = 200;

/// Test configuration in a `package.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// The script `test`.
    pub script: String,
    /// The plan made from that script.
    pub plan: Option<script::Plan>,
    /// True when it contains settings of jest.
    pub jest: bool,
    /// Dependencies, including those for development.
    pub depends: Vec<String>,
    /// The packages of its workspace, by file, with their dependencies.
    pub members: Vec<(String, Vec<String>)>,
    /// The packages of its workspace whose own script `test` starts a test runner.
    pub tested: Vec<members::Member>,
}

impl Package {
    /// Reads the file in the project's folder; empty when it does not exist or cannot be read.
    #[must_use]
    pub fn read(project: &dyn Project) -> Self {
        let Some(json) = project.has("package.json").then(|| manifest(project, "package.json")).flatten()
        else {
            return Self::default();
        };
        let is_workspace = members::is_workspace(&json, project);
        let members = project.files().iter().filter(|file| is_workspace && file.ends_with("/package.json"));
        let members = members
            .take(MAX_MEMBERS)
            .filter_map(|file| Some((file.clone(), dependencies(&manifest(project, file)?))));
        let scripts: BTreeMap<String, String> = json["scripts"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
            .collect();
        let depends = dependencies(&json);
        let tests_of = |path: &str| tests_of(project, path, &depends);
        Self {
            script: scripts.get("test").cloned().unwrap_or_default(),
            plan: script::plan(script::Scripts { scripts: &scripts, tests_of: &tests_of }),
            jest: json["jest"].is_object(),
            depends,
            members: members.collect(),
            tested: members::tested(&json, project),
        }
    }

    /// File that names a package as a dependency: its own, or that of a package of its workspace beside tests of node's own
    /// runner, which would take the others' tests for its own.
    #[must_use]
    pub fn depending_on(&self, name: &str, project: &dyn Project) -> Option<&str> {
        let names = |depends: &[String]| depends.iter().any(|own| own == name);
        if names(&self.depends) {
            return Some("package.json");
        }
        let (file, _) = self.members.iter().find(|(_, depends)| names(depends))?;
        first_with(project, is_script, &NODE_TEST).map(|_| file.as_str())
    }

    /// Framework that the script `test` starts first. `ng test` counts as karma only with further evidence.
    #[must_use]
    pub fn starts(&self) -> Option<&'static str> {
        let starts = self.plan.as_ref().map(script::Plan::starts).unwrap_or_default();
        starts.into_iter().find(|start| !follow::is_angular(start)).map(|start| start.framework)
    }

    /// Evidence for a framework; the script `test` decides.
    #[must_use]
    pub(crate) fn weighed(&self, framework: &str, other: Option<Evidence>) -> Option<Evidence> {
        match self.starts() {
            Some(first) if first == framework => {
                let reason = format!("package.json tests by {framework}");
                Some(Evidence { strength: Strength::Configured, reason })
            }
            Some(_) => other.map(|other| Evidence { strength: other.strength.min(Strength::Used), ..other }),
            None => other,
        }
    }
}

fn manifest(project: &dyn Project, file: &str) -> Option<Value> {
    serde_json::from_slice(&project.read(file)?).ok()
}

/// Dependencies of a package, including those for development.
fn dependencies(json: &Value) -> Vec<String> {
    let names = ["dependencies", "devDependencies"].into_iter().filter_map(|key| json[key].as_object());
    names.flat_map(|all| all.keys().cloned()).collect()
}

/// Framework of the tests in a file that node runs by itself: by what it imports, or for a file of tests, which may
/// only load the others, by the one package of tests that there is.
fn tests_of(project: &dyn Project, path: &str, depends: &[String]) -> Option<&'static str> {
    let index = || ["index.js", "index.mjs", "index.cjs"].map(|name| format!("{path}/{name}"));
    let file = match is_script(path) {
        true => path.to_owned(),
        false => [format!("{path}.js")].into_iter().chain(index()).find(|file| project.has(file))?,
    };
    let text = project.read(&file)?;
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_SEARCHED_BYTES)]);
    let imports =
        |name: &str| ['\'', '"'].iter().any(|quote| text.contains(&format!("{quote}{name}{quote}")));
    if text.contains("node:test") {
        return Some("node");
    }
    let printers = [("tape", "tape"), ("tap", "tap"), ("zora", "tap")];
    if let Some((_, framework)) = printers.into_iter().find(|(name, _)| imports(name)) {
        return Some(framework);
    }
    let others = ["ava", "jest", "mocha", "vitest", "jasmine", "karma", "qunit", "uvu"];
    let mut known = printers.into_iter().filter(|(name, _)| depends.iter().any(|has| has == name));
    let (_, framework) = known.next()?;
    let alone = known.next().is_none() && !depends.iter().any(|has| others.contains(&has.as_str()));
    (alone && like_tests(&file)).then_some(framework)
}

/// True for JavaScript and TypeScript, except files that only declare types.
pub(crate) fn is_script(file: &str) -> bool {
    ENDINGS.iter().any(|end| file.ends_with(end)) && !file.ends_with(".d.ts")
}

/// True when jest takes a file for tests by default.
#[must_use]
pub fn for_jest(file: &str) -> bool {
    let stem = file.rsplit_once('.').map_or("", |(stem, _)| stem);
    is_script(file)
        && (stem.ends_with(".test")
            || stem.ends_with(".spec")
            || file.split('/').rev().skip(1).any(|folder| folder == "__tests__"))
}

/// A pattern that matches only this text. A `::` of an id separates titles, which are joined by spaces.
/// Several tests with one title all match; the numbers in the ids of later ones are ignored.
#[must_use]
pub fn pattern_of(titles: &str) -> String {
    let mut pattern = String::with_capacity(titles.len() + 8);
    pattern.push('^');
    let (bare, number) = titles.rsplit_once(" #").unwrap_or((titles, ""));
    let numbered = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    for (i, title) in if numbered { bare } else { titles }.split("::").enumerate() {
        if i > 0 {
            pattern.push_str("(?:::| )");
        }
        escape_into(title, &mut pattern);
    }
    if numbered {
        pattern.push_str("(?: #");
        pattern.push_str(number);
        pattern.push_str(")?");
    }
    pattern.push('$');
    pattern
}

/// Files of a project that seem to contain tests, by place and calls, whatever they import: those that a
/// framework selects by name (`named`), and those in a test folder, or with a test name, that call `test`,
/// `it`, `describe` or `suite`.
#[must_use]
pub fn test_files(project: &dyn Project, named: impl Fn(&str) -> bool) -> Vec<String> {
    let mut left = MAX_SEARCHED_FILES;
    let mut holds = |file: &str| {
        if !is_script(file) || !like_tests(file) || left == 0 {
            return false;
        }
        left -= 1;
        project.read(file).is_some_and(|text| {
            calls_tests(&String::from_utf8_lossy(&text[..text.len().min(MAX_SEARCHED_BYTES)]))
        })
    };
    project.files().iter().filter(|file| named(file) || holds(file)).cloned().collect()
}

/// True when a file is in a test folder, or has a test name.
fn like_tests(file: &str) -> bool {
    let word = |text: &str| {
        let mut parts = text.split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| ["test", "tests", "spec", "specs"].contains(&part.to_ascii_lowercase().as_str()))
    };
    // Data of tests is not a test.
    let data = |folder: &str| {
        ["fixtures", "__fixtures__", "fixture", "__snapshots__", "__mocks__"].contains(&folder)
    };
    let (folders, name) = file.rsplit_once('/').unwrap_or(("", file));
    !folders.split('/').any(data)
        && (folders.split('/').any(word) || word(name.rsplit_once('.').map_or(name, |(stem, _)| stem)))
}

/// True when a text has a line that begins with a call of `test` or a similar function.
fn calls_tests(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let rest = [".only", ".concurrent", ".each", ".serial"]
            .iter()
            .find_map(|more| rest.strip_prefix(more))
            .unwrap_or(rest);
        ["test", "it", "describe", "suite", "specify", "context"].contains(&name)
            && rest.strip_prefix('(').is_some_and(|rest| {
                rest.trim_start().starts_with(['\'', '"', '`', '[']) || rest.trim().is_empty()
            })
    })
}

/// Appends a text, escaped for a pattern.
pub fn escape_into(text: &str, pattern: &mut String) {
    for c in text.chars() {
        if r"\^$.*+?()[]{}|/".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_recognised_by_name() {
        for (file, want) in [
            ("a.test.js", true),
            ("a.spec.ts", true),
            ("src/__tests__/a.tsx", true),
            ("__tests__/deep/a.js", true),
            ("test/a.js", false),
            ("test.mjs", false),
            ("lib/a-test.cjs", false),
            ("a.test.d.ts", false),
            ("a.test.json", false),
            ("latest.js", false),
            ("", false),
        ] {
            assert_eq!(for_jest(file), want, "{file}");
        }
    }

    #[test]
    fn title_pattern_matches_its_titles() {
        assert_eq!(pattern_of("Cart::adds (1 + 2)"), r"^Cart(?:::| )adds \(1 \+ 2\)$");
        assert_eq!(pattern_of("a.b/c"), r"^a\.b\/c$");
        assert_eq!(pattern_of("a::b #2"), r"^a(?:::| )b(?: #2)?$");
        assert_eq!(pattern_of("a #b"), "^a #b$");
    }

    #[test]
    fn test_files_without_imports_are_recognised() {
        for (file, text, want) in [
            ("test/a.js", "it('a', () => {})", true),
            ("test/integration/b.js", "describe(\n  'x', () => {})", true),
            ("a-test.js", "  test.only(`a`, () => {})", true),
            ("src/spec/x.ts", "suite(\"s\", () => {})", true),
            ("test/helper.js", "module.exports = it\nexit('a')\ntest()\nit.x('a')", false),
            ("test/fixtures/a.js", "it('a', () => {})", false),
            ("lib/latest.js", "it('a', () => {})", false),
            ("test/a.json", "it('a')", false),
        ] {
            assert_eq!(is_script(file) && like_tests(file) && calls_tests(text), want, "{file}");
        }
    }

    /// Runs the driver's own function in node, where it is installed.
    #[test]
    fn files_with_only_are_known_by_their_statements() {
        let rows = [
            ("fit('a', () => {});", true),
            ("describe('x', () => { fit(`a`, f); });", true),
            ("fdescribe.each`a`('x')", true),
            ("test.only('don\\'t', () => {})", true),
            ("test.concurrent.only('a')", true),
            ("it.only.each([1])('a')", true),
            ("glob('src/**/*.js'); it.only('a'); // */", true),
            ("const m = make();\nmodel.fit(xs);", false),
            ("fitAddon.fit();", false),
            ("  const r = fit(xs);", false),
            ("expect(fit(x)).toBe(1);", false),
            ("myfit('a')", false),
            ("x.test.only('a')", false),
            ("$it.only('a')", false),
            ("it('test.only leaves others out', f)", false),
            ("const s = \"it.only('a')\";", false),
            ("const s = `\nfit('a')\n`;", false),
            ("// fit('a')\nit('b')", false),
            ("/*\nfit('a') */", false),
            ("", false),
        ];
        let texts: Vec<&str> = rows.iter().map(|(text, _)| *text).collect();
        let script = format!(
            "{}\nconsole.log(JSON.stringify({}.map(hasOnly)));",
            include_str!("javascript/events.cjs"),
            serde_json::to_string(&texts).unwrap()
        );
        let Ok(ran) = std::process::Command::new("node").args(["-e", &script]).output() else {
            println!("skipped: no node");
            return;
        };
        let said: Vec<bool> = serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        for ((text, want), got) in rows.iter().zip(said) {
            assert_eq!(got, *want, "{text}");
        }
    }
}
