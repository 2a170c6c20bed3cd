//! Packages that a request names, as `["numpy==2.1.3", "pandas"]`: parsed, locked once, installed by their lock in the cache that `--deps` has,
//! and read by the guard. The names are a caller's, and all that a registry says is hostile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotcell_config::{Configuration, RunSettings};
use hotcell_sandbox::Engine;
use hotcell_sandbox::policy::{HOME, PROJECT};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_toolchain::Surroundings;

use crate::package::{Ecosystem, Wanted, lock_wanted, npm_spec, python_spec, small};
use crate::{DepsError, PYTHON, Purpose, Scene, Step, first_read, provide};

/// Maximum number of packages in a request.
pub const MAX_NAMED: usize = 50;
/// Folder of locks in the state folder.
const LOCKS: &str = "package-locks";
/// Field of errors.
const FIELD: &str = "packages";

/// Packages of one registry, each once, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSet {
    ecosystem: Ecosystem,
    /// Versions or ranges by names.
    packages: BTreeMap<String, String>,
}

/// Packages that a run is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// `NAME==VERSION` of each, also of those that others need.
    pub versions: Vec<String>,
    /// Whether the packages were installed before.
    pub is_warm: bool,
    /// Verdict of the guard, where it is not allow.
    pub warning: Option<String>,
}

impl PackageSet {
    /// Parses specifications such as `numpy==2.1.3`, `numpy` or `left-pad@1`.
    ///
    /// # Errors
    /// A sentence, for one that is not a package by its name, for one that is named twice, and for too many.
    pub fn parse(ecosystem: Ecosystem, specs: &[String]) -> Result<Self, String> {
        if specs.len() > MAX_NAMED {
            return Err(format!("{} packages are named; at most {MAX_NAMED} are installed", specs.len()));
        }
        let mut packages = BTreeMap::new();
        for spec in specs {
            let (name, version) = match ecosystem {
                Ecosystem::Npm => npm_spec(spec.trim()),
                Ecosystem::Python => python_spec(&unspaced(spec)),
            }?;
            // PEP 503 for Python; npm's names have one form.
            let name = match ecosystem {
                Ecosystem::Npm => name,
                Ecosystem::Python => name.to_ascii_lowercase().replace(['_', '.'], "-"),
            };
            if packages.insert(name.clone(), version).is_some() {
                return Err(format!("the package {name} is named twice"));
            }
        }
        Ok(Self { ecosystem, packages })
    }

    /// As [`PackageSet::parse`], for a session of a language by its name.
    ///
    /// # Errors
    /// As [`PackageSet::parse`], and for a language without packages.
    pub fn of_language(language: &str, specs: &[String]) -> Result<Self, String> {
        let ecosystem = match language {
            "python" => Ecosystem::Python,
            "node" | "typescript" => Ecosystem::Npm,
            _ if specs.is_empty() => Ecosystem::Python,
            _ => {
                return Err(format!(
                    "packages are for sessions of python, node and typescript; {language} takes none"
                ));
            }
        };
        Self::parse(ecosystem, specs)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    fn words(&self) -> String {
        let all: Vec<&str> = self.packages.keys().map(String::as_str).collect();
        match all.as_slice() {
            few if few.len() <= 4 => few.join(", "),
            [first, .., last] => format!("{first} … {last} ({} packages)", all.len()),
            _ => String::new(),
        }
    }
}

/// Locks packages, unless that was done, installs what is locked, unless that was done, has the guard read it, and adds it to the settings of
/// a run without a workspace. A version that is not named is the newest of the first time, and stays.
///
/// # Errors
/// A report in one line: the registry has no such package, the packages do not go together, or the guard quarantines them.
pub async fn show(
    engine: &Engine,
    state: &StateFolder,
    (configuration, around): (&Configuration, &Surroundings),
    settings: &mut RunSettings,
    set: &PackageSet,
    say: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<Installed, ErrorReport> {
    let words = set.words();
    let of_deps = |error| one_line(error, &words);
    let packages: Vec<(&str, &str)> =
        set.packages.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
    let wanted = Wanted { ecosystem: set.ecosystem, named_by: FIELD, packages: &packages };
    let plan = wanted.plan();
    let folder = {
        let scene = Scene { configuration, around, project: around, settings };
        let digest = scene.digest(&plan, None).map_err(of_deps)?;
        let folder = state.path().join(LOCKS).join(format!("{}-{digest}", plan.installer.name()));
        if !folder.is_dir() {
            say(Step::Installs(&plan));
        }
        lock_wanted(engine, &scene, wanted, &folder).await.map_err(of_deps)?;
        folder
    };
    let mut is_warm = true;
    let mut noted = |step: Step<'_>| {
        is_warm &= !matches!(step, Step::Installs(_));
        say(step);
    };
    let scene = (folder.as_path(), around);
    let before = settings.binds.len();
    provide(engine, state, configuration, scene, (settings, Purpose::Run), &mut noted)
        .await
        .map_err(of_deps)?;
    let inside = match set.ecosystem {
        Ecosystem::Npm => Path::new(PROJECT).join("node_modules"),
        Ecosystem::Python => Path::new(HOME).join(PYTHON),
    };
    let added = settings.binds.len() - before;
    let shown = settings.binds.iter_mut().take(added).find(|bind| bind.inside == inside);
    let place: PathBuf = match shown {
        Some(bind) => {
            // Without a workspace, Node.js looks beside the home folder's files.
            if set.ecosystem == Ecosystem::Npm {
                bind.inside = Path::new(HOME).join("node_modules");
            }
            bind.host.clone()
        }
        None => {
            return Err(ErrorReport::new(Code::Internal, format!("nothing was installed of {words}")));
        }
    };
    let (own, mode, kept) = (configuration.clone(), settings.guard, folder.join(first_read::FILE));
    let reading =
        tokio::task::spawn_blocking(move || first_read::require(&own, mode, (&words, &place), Some(&kept)));
    let warning = reading
        .await
        .map_err(|error| ErrorReport::new(Code::Internal, format!("the packages were not read: {error}")))?
        .map_err(|report| report.parameter(FIELD))?;
    Ok(Installed { versions: versions(set.ecosystem, &folder), is_warm, warning })
}

/// A specification of PEP 508 without the blanks around its comparisons; other blanks stay, and are refused.
fn unspaced(spec: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.]".contains(c);
    let mut text = String::new();
    for word in spec.split_whitespace() {
        if text.ends_with(is_word) && word.starts_with(|c: char| is_word(c)) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

fn one_line(error: DepsError, words: &str) -> ErrorReport {
    let outcome = match error {
        DepsError::Wrong(report) => return report,
        DepsError::Refused(outcome) => outcome,
    };
    let why = outcome.reason.clone().unwrap_or_default().replace("‹deps›: ", "");
    ErrorReport::new(Code::Refused, format!("{words}: {why}"))
        .parameter(FIELD)
        .hint("name packages of the registry, such as numpy or numpy==2.1.3, in versions that go together")
}

/// Names with versions, out of the lock file.
fn versions(ecosystem: Ecosystem, folder: &Path) -> Vec<String> {
    match ecosystem {
        Ecosystem::Python => {
            let text = small(folder, Path::new("requirements.txt")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
        }
        Ecosystem::Npm => {
            let text = small(folder, Path::new("package-lock.json")).unwrap_or_default();
            let lock: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            let all = lock["packages"].as_object().into_iter().flatten();
            let one = |(path, about): (&String, &serde_json::Value)| {
                let name = path.rsplit_once("node_modules/")?.1;
                Some(format!("{name}=={}", about["version"].as_str()?))
            };
            all.filter_map(one).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_parsed_in_a_fixed_order_and_wrong_ones_explained() {
        let set = |ecosystem, specs: &[&str]| {
            PackageSet::parse(ecosystem, &specs.iter().map(|spec| (*spec).to_owned()).collect::<Vec<_>>())
        };
        let one = set(Ecosystem::Python, &["numpy == 2.1.3", "Foo_Bar[x]>=1"]).unwrap();
        assert_eq!(one, set(Ecosystem::Python, &["foo-bar[x]>=1", "numpy==2.1.3"]).unwrap());
        assert!(!one.is_empty());
        assert!(set(Ecosystem::Npm, &["@scope/a@^1", "b"]).is_ok());
        for (ecosystem, specs, want) in [
            (Ecosystem::Python, &["a", "A"][..], "named twice"),
            (Ecosystem::Python, &["--index-url=https://x"], "not a package of PyPI"),
            (Ecosystem::Python, &["a @ https://x/a.whl"], "not a package of PyPI"),
            (Ecosystem::Python, &["./a"], "not a package of PyPI"),
            (Ecosystem::Python, &["a\n--pre"], "not a package of PyPI"),
            (Ecosystem::Python, &["a b"], "not a package of PyPI"),
            (Ecosystem::Python, &[""], "not a package of PyPI"),
            (Ecosystem::Npm, &["git+ssh://x/a"], "not a package of npm"),
            (Ecosystem::Npm, &["../a"], "not a package of npm"),
            (Ecosystem::Python, &["a"; 51], "at most 50"),
        ] {
            let why = set(ecosystem, specs).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
    }
}
