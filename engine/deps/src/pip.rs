//! Requirements files, and the words of pip.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_testing::Project;

use crate::plan::{Installer, LockError, MADE, Plan, bad, host, is_plain, text};

/// pip, without questions, a cache of its own, or packages whose own code would run.
pub const INSTALL: [&str; 10] = [
    "python3",
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-input",
    "--no-cache-dir",
    "--retries=1",
    "--quiet",
    // Source packages would run their own code.
    "--only-binary=:all:",
];

/// Plan for requirements files. <https://pip.pypa.io/en/stable/reference/requirements-file-format/>
pub fn pip(project: &dyn Project, files: &[&str]) -> Result<Plan, LockError> {
    let mut hosts = BTreeSet::new();
    let mut seen = BTreeMap::new();
    for file in files {
        let bytes = text(project, file)?;
        let whole = String::from_utf8(bytes).unwrap_or_default().replace("\r\n", "\n").replace("\\\n", " ");
        // Characters that other parsers may take for a line end or another encoding are refused.
        if whole.is_empty() || whole.bytes().any(|b| !matches!(b, b'\n' | b'\t' | b' '..=b'~')) {
            return Err(bad(file, "is empty, or has characters other than plain text"));
        }
        // pip gets exactly the lines that were understood here.
        let mut kept = String::new();
        for line in whole.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            requirement(file, line, files, &mut hosts)?;
            kept.push_str(line);
            kept.push('\n');
        }
        let bytes = kept.into_bytes();
        seen.insert((*file).to_owned(), bytes);
    }
    // Defaults when they name no index, or in addition to extra ones.
    if !seen.values().any(|text| names_an_index(text)) {
        hosts.extend(["pypi.org:443", "files.pythonhosted.org:443"].map(str::to_owned));
    }
    Ok(pip_install(files, files, seen, hosts, &[]))
}

/// pip with requirements files: it reads those in `read`, and sees no others.
pub fn pip_install(
    locks: &[&str],
    read: &[&str],
    files: BTreeMap<String, Vec<u8>>,
    hosts: BTreeSet<String>,
    more: &[&str],
) -> Plan {
    let target = format!("{MADE}/python");
    let (into, named) = (format!("--target={target}"), read.iter().map(|file| format!("-r{file}")));
    // In this order, since an index in one file may replace that of an earlier one.
    let named: Vec<String> = named.collect();
    let mut words = INSTALL.to_vec();
    words.push(&into);
    words.extend(more);
    words.extend(named.iter().map(String::as_str));
    Installer::Pip.plan(locks, files, hosts, &words, &target)
}

fn names_an_index(text: &[u8]) -> bool {
    text.split(|b| *b == b'\n').any(|line| line.starts_with(b"-i") || line.starts_with(b"--index-url"))
}

/// Parses one line: a package at one version, or a known option.
pub(crate) fn requirement(
    file: &str,
    line: &str,
    files: &[&str],
    hosts: &mut BTreeSet<String>,
) -> Result<(), LockError> {
    if line.contains("${") {
        return Err(bad(file, format!("{line:.100} names a variable, and none is set here")));
    }
    if let Some(option) = line.strip_prefix('-') {
        let (name, value) = option.split_once(['=', ' ']).unwrap_or((option, ""));
        let value = value.trim();
        return match name {
            "r" | "-requirement" | "c" | "-constraint" if files.contains(&value) => Ok(()),
            "i" | "-index-url" | "-extra-index-url" => {
                // An index can refer to files on another host.
                hosts.insert(host(file, value)?);
                if value.contains("//pypi.org/") {
                    hosts.insert("files.pythonhosted.org:443".to_owned());
                }
                Ok(())
            }
            "-require-hashes" | "-prefer-binary" if value.is_empty() => Ok(()),
            "-only-binary" if value == ":all:" => Ok(()),
            _ => Err(bad(
                file,
                format!("-{option:.100} is not done here; take it out, or install by yourself"),
            )),
        };
    }
    let mut words = line.split(" --");
    let package = words.next().unwrap_or_default();
    if let Some(option) =
        words.find(|word| !word.starts_with("hash=sha") || word.trim().contains([' ', '\t']))
    {
        return Err(bad(
            file,
            format!("--{option:.100} is not done here; take it out, or install by yourself"),
        ));
    }
    let package = package.split(';').next().unwrap_or_default().trim();
    let (name, version) = package.split_once("==").unwrap_or((package, ""));
    let name = name.split('[').next().unwrap_or_default().trim();
    match is_plain(name) && is_plain(version.trim()) {
        true => Ok(()),
        false => Err(bad(
            file,
            format!(
                "{line:.100} is not one version of a package (NAME==VERSION); pip-compile or pip freeze write such a file"
            ),
        )),
    }
}
