//! Finds the interpreter that a version manager's shim would start, from the manager's own files.
//!
//! Shims are never run: they would have the caller's rights, and some managers read code from the project.

use std::path::{Component, Path, PathBuf};

use super::files::Kind;
use super::sight::Sight;
use super::{Surroundings, walk};

/// A version manager with the layout `versions/NAME/bin`.
struct Manager {
    name: &'static str,
    variable: &'static str,
    file: &'static str,
}

const MANAGERS: [Manager; 7] = [
    Manager { name: "pyenv", variable: "PYENV_VERSION", file: ".python-version" },
    Manager { name: "rbenv", variable: "RBENV_VERSION", file: ".ruby-version" },
    Manager { name: "nodenv", variable: "NODENV_VERSION", file: ".node-version" },
    Manager { name: "goenv", variable: "GOENV_VERSION", file: ".go-version" },
    Manager { name: "jenv", variable: "JENV_VERSION", file: ".java-version" },
    Manager { name: "plenv", variable: "PLENV_VERSION", file: ".perl-version" },
    Manager { name: "phpenv", variable: "PHPENV_VERSION", file: ".php-version" },
];

/// The target of a shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// This file, and the project's version file if that chose it.
    File(PathBuf, Option<PathBuf>),
    /// The system's program, from the rest of the search path.
    System,
    /// No program, with the reason and a remedy.
    Nothing { why: String, hint: String },
}

/// Resolves the shim `name` in the folder `shims`.
pub(super) fn resolve(sight: Sight<'_>, around: &Surroundings, shims: &Path, name: &str) -> Target {
    let root = shims.parent().unwrap_or(shims);
    let shim =
        walk::real(sight, &shims.join(name)).and_then(|real| sight.head(&real, 4096)).unwrap_or_default();
    let shim = String::from_utf8_lossy(&shim).into_owned();
    if walk::exists(sight, &root.join("versions")) {
        let folder = root.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let manager = MANAGERS
            .iter()
            .find(|m| folder.trim_start_matches('.') == m.name)
            .or_else(|| MANAGERS.iter().find(|m| shim.contains(&format!("/{}\" exec", m.name))))
            .or_else(|| MANAGERS.iter().find(|m| walk::exists(sight, &root.join("bin").join(m.name))))
            .or_else(|| {
                // The root has another name, but its variable tells which manager it is.
                (around.value("PYENV_ROOT").map(Path::new) == Some(root)).then_some(&MANAGERS[0])
            });
        if let Some(manager) = manager {
            return versions(sight, around, root, name, manager);
        }
    }
    if walk::exists(sight, &root.join("installs")) {
        return installs(sight, around, root, name);
    }
    Target::Nothing {
        why: "it is the shim of a version manager that hotcell does not know".to_owned(),
        hint: format!("name the real program instead; the manager's `which {name}` prints it"),
    }
}

/// Parses the versions in a version file, in order: words and lines, `#` begins a comment.
pub(super) fn asked(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ':'))
        .filter(|word| !word.is_empty() && below(word))
        .take(32)
        .map(str::to_owned)
        .collect()
}

/// Whether `name`, which may come from a hostile project, stays below the folder that it is joined to.
pub(super) fn below(name: &str) -> bool {
    !name.contains('\0') && Path::new(name).components().all(|c| matches!(c, Component::Normal(_)))
}

/// Whether `name` denotes an environment inside an installed version: `3.12.1/envs/web`.
fn is_inner(name: &str, installed: &[String]) -> bool {
    let mut parts = name.split('/');
    let version = parts.next().is_some_and(|version| installed.iter().any(|i| i == version));
    version && parts.next() == Some("envs") && parts.next().is_some() && parts.next().is_none()
}

/// The installed version to which `asked` refers: the same one, or the newest that begins with it (`3.12.4`
/// for `3.12`).
pub(super) fn best<'a>(asked: &str, installed: &'a [String]) -> Option<&'a str> {
    if let Some(exact) = installed.iter().find(|i| *i == asked) {
        return Some(exact);
    }
    let numbers = |rest: &str| -> Option<Vec<u64>> { rest.split('.').map(|n| n.parse().ok()).collect() };
    let newest = |prefix: &str| {
        installed
            .iter()
            .filter_map(|i| Some((numbers(i.strip_prefix(prefix)?.strip_prefix('.')?)?, i)))
            .max()
            .map(|(_, i)| i.as_str())
    };
    let bare = ["python-", "ruby-", "v"].iter().find_map(|p| asked.strip_prefix(p));
    newest(asked).or_else(|| {
        let bare = bare?;
        installed.iter().map(String::as_str).find(|i| *i == bare).or_else(|| newest(bare))
    })
}

fn versions(sight: Sight<'_>, around: &Surroundings, root: &Path, name: &str, manager: &Manager) -> Target {
    let folder = root.join("versions");
    let installed = texts(sight, &folder);
    let mut said_by = None;
    let (wanted, from) = if let Some(value) = around.value(manager.variable).and_then(|v| v.to_str()) {
        (asked(value), manager.variable.to_owned())
    } else {
        around
            .upwards()
            .map(|d| d.join(manager.file))
            .chain([root.join("version")])
            .find_map(|file| {
                let wanted = asked(&sight.own_text(&file)?);
                (!wanted.is_empty()).then(|| {
                    said_by = sight.is_of_the_project(&file).then(|| file.clone());
                    (wanted, file.display().to_string())
                })
            })
            .unwrap_or_else(|| (vec!["system".to_owned()], format!("{}'s default", manager.name)))
    };
    let mut missing = None;
    for version in &wanted {
        if version == "system" {
            return Target::System;
        }
        let there =
            if is_inner(version, &installed) { Some(version.as_str()) } else { best(version, &installed) };
        match there.map(|v| folder.join(v)).filter(|v| walk::exists(sight, v)) {
            None => missing = missing.or(Some(version)),
            Some(version) if runs(sight, &version.join("bin").join(name)) => {
                return Target::File(version.join("bin").join(name), said_by);
            }
            Some(_) => {}
        }
    }
    let (tool, variable) = (manager.name, manager.variable);
    if let Some(version) = missing {
        return Target::Nothing {
            why: format!("{from} asks {tool} for {version}, which is not installed"),
            hint: format!("run `{tool} install {version}`, or set {variable}"),
        };
    }
    let has: Vec<&str> = installed
        .iter()
        .map(String::as_str)
        .filter(|v| runs(sight, &folder.join(v).join("bin").join(name)))
        .collect();
    Target::Nothing {
        why: format!("{from} asks {tool} for {}, which has no {name}", wanted.join(", ")),
        hint: match has.first() {
            Some(first) => format!("{} has it: set {variable}={first}", has.join(", ")),
            None => format!("install {name} into that version"),
        },
    }
}

/// Resolves a shim of asdf or mise: `installs/TOOL/VERSION/bin/NAME`.
fn installs(sight: Sight<'_>, around: &Surroundings, root: &Path, name: &str) -> Target {
    let folder = root.join("installs");
    let mut found = Vec::new();
    for tool in texts(sight, &folder).into_iter().take(256) {
        let installed = texts(sight, &folder.join(&tool));
        let has = |v: &str| runs(sight, &folder.join(&tool).join(v).join("bin").join(name));
        if !installed.iter().any(|v| has(v)) {
            continue;
        }
        let (wanted, said_by) = chosen(sight, around, &tool);
        for version in &wanted {
            match version.as_str() {
                "system" => return Target::System,
                version => {
                    if let Some(v) = best(version, &installed)
                        && has(v)
                    {
                        let file = folder.join(&tool).join(v).join("bin").join(name);
                        return Target::File(file, said_by);
                    }
                }
            }
        }
        if !wanted.is_empty() {
            return Target::Nothing {
                why: format!(
                    "{tool} {} is asked for, which is not installed or has no {name}",
                    wanted.join(", ")
                ),
                hint: format!(
                    "install it with your version manager, or choose one of: {}",
                    installed.join(", ")
                ),
            };
        }
        found.extend(
            installed.iter().filter(|v| has(v)).map(|v| folder.join(&tool).join(v).join("bin").join(name)),
        );
    }
    // `20` and `latest` are usually links to `20.11.0`.
    let mut real: Vec<PathBuf> = found.iter().filter_map(|f| walk::real(sight, f)).collect();
    real.sort();
    real.dedup();
    match (&real[..], found.pop()) {
        ([one], _) => Target::File(one.clone(), None),
        ([], _) | (_, None) => Target::Nothing {
            why: format!("it is a shim, and no installed tool has {name}"),
            hint: "install the tool with your version manager".to_owned(),
        },
        (_, Some(example)) => Target::Nothing {
            why: "it is a shim, several versions are installed, and none is chosen".to_owned(),
            hint: format!(
                "choose one in .tool-versions, or name the real program, such as {}",
                example.display()
            ),
        },
    }
}

/// The versions chosen for one tool of asdf or mise, and the project's file if that chose them.
fn chosen(sight: Sight<'_>, around: &Surroundings, tool: &str) -> (Vec<String>, Option<PathBuf>) {
    let upper = tool.to_uppercase().replace('-', "_");
    for variable in [format!("MISE_{upper}_VERSION"), format!("ASDF_{upper}_VERSION")] {
        if let Some(value) = around.value(&variable).and_then(|v| v.to_str()) {
            return (asked(value), None);
        }
    }
    let said_by = |file: PathBuf| sight.is_of_the_project(&file).then_some(file);
    let short = |t: &str| {
        if t == "nodejs" { "node".to_owned() } else { t.to_owned() }
    };
    let same = |t: &str| short(t) == short(tool);
    let home = around.home.iter().map(PathBuf::clone);
    for folder in around.upwards().chain(home.clone()) {
        for file in ["mise.local.toml", "mise.toml", ".mise.toml", ".config/mise.toml"] {
            let file = folder.join(file);
            if let Some(versions) = sight.own_text(&file).and_then(|t| in_toml(&t, same)) {
                return (versions, said_by(file));
            }
        }
        let file = folder.join(".tool-versions");
        if let Some(text) = sight.own_text(&file) {
            for line in text.lines() {
                if let Some((t, rest)) = line.trim().split_once(char::is_whitespace)
                    && same(t)
                {
                    return (asked(rest), said_by(file));
                }
            }
        }
    }
    let versions = home
        .map(|h| h.join(".config/mise/config.toml"))
        .find_map(|f| in_toml(&sight.text(&walk::real(sight, &f)?)?, same));
    (versions.unwrap_or_default(), None)
}

fn in_toml(text: &str, same: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let table: toml::Table = text.parse().ok()?;
    let tools = table.get("tools")?.as_table()?;
    let value = tools.iter().find(|(name, _)| same(name)).map(|(_, v)| v)?;
    let version = |v: &toml::Value| -> Option<String> {
        let text = v.as_str().or_else(|| v.as_table()?.get("version")?.as_str())?;
        below(text).then(|| text.to_owned())
    };
    Some(match value {
        toml::Value::Array(all) => all.iter().filter_map(version).collect(),
        one => version(one).into_iter().collect(),
    })
}

fn runs(sight: Sight<'_>, file: &Path) -> bool {
    matches!(walk::look(sight, file), Some(Kind::File { executable: true, .. }))
}

fn texts(sight: Sight<'_>, folder: &Path) -> Vec<String> {
    let real = walk::real(sight, folder).unwrap_or_else(|| folder.to_path_buf());
    sight.names(&real).into_iter().filter_map(|n| n.into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_files_as_people_write_them() {
        for (text, want) in [
            ("3.12.1\n", vec!["3.12.1"]),
            ("3.12 3.11 # two\n# none\nsystem\n", vec!["3.12", "3.11", "system"]),
            ("3.12:pypy3.10", vec!["3.12", "pypy3.10"]),
            ("3.12/envs/web", vec!["3.12/envs/web"]),
            ("../../.ssh /etc . a/../b", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(asked(text), want, "{text}");
        }
    }

    #[test]
    fn partial_version_selects_newest_installation() {
        let installed: Vec<String> =
            ["3.12.1", "3.12.10", "3.12.9", "3.1.2", "3.12-dev", "pypy3.10"].map(String::from).into();
        for (asked, want) in [
            ("3.12.9", Some("3.12.9")),
            ("3.12", Some("3.12.10")),
            ("3", Some("3.12.10")),
            ("python-3.12.1", Some("3.12.1")),
            ("v3.1", Some("3.1.2")),
            ("pypy3.10", Some("pypy3.10")),
            ("3.13", None),
            ("", None),
        ] {
            assert_eq!(best(asked, &installed), want, "{asked}");
        }
    }
}
