//! Machine code that a package declares: a file that a wheel's RECORD lists with the digest of its bytes, or an
//! extension module named as its loader wants it.
//!
//! It stays unread, and a person should look at it. Nothing can run it inside the archive: interpreters load
//! machine code from files only, and a file that a command unpacks before it runs it is reported with the
//! command.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::report::{Part, PartState};

/// Maximum number of lines of a RECORD that are taken.
const MAX_LINES: usize = 20_000;
/// Maximum length, in bytes, of a RECORD that is taken.
const MAX_RECORD: usize = 4 << 20;
/// Kinds of machine code that packages contain.
const KINDS: &[&str] = &["elf", "pe", "mach-o", "wasm"];

/// Declarations of the packages in an artifact, and machine code in its archives.
#[derive(Default)]
pub(crate) struct Natives {
    /// Digests by the path of each file that a wheel's RECORD lists; the path begins with the archive's.
    listed: HashMap<String, HashSet<[u8; 32]>>,
    /// Archives with the description of a package, each with the folder that it is in.
    packages: HashSet<String>,
    /// Parts that are machine code, each with the digest of its bytes.
    code: Vec<(usize, [u8; 32])>,
}

/// Path of an entry in its innermost archive, and the archive's own path with the mark behind it.
fn of_archive(path: &str) -> Option<(&str, &str)> {
    path.rfind('!').map(|at| path.split_at(at + 1))
}

impl Natives {
    /// Notes what a file of an archive declares about others: RECORD of a wheel, `package.json` or PKG-INFO in the
    /// outermost folder.
    pub(crate) fn declare(&mut self, path: &str, bytes: &[u8]) {
        let Some((archive, own)) = of_archive(path) else { return };
        let Some((folder, name)) = own.trim_start_matches("./").split_once('/') else { return };
        match name {
            "RECORD" if folder.ends_with(".dist-info") && bytes.len() <= MAX_RECORD => {
                for line in String::from_utf8_lossy(bytes).lines().take(MAX_LINES) {
                    let Some((file, digest)) = listed(line) else { continue };
                    self.listed.entry(format!("{archive}{file}")).or_default().insert(digest);
                }
            }
            "package.json" | "PKG-INFO" => _ = self.packages.insert(format!("{archive}{folder}/")),
            _ => {}
        }
    }

    /// Notes that a part of an archive, by its number, is machine code of this kind.
    pub(crate) fn note(&mut self, part: usize, what: &str, bytes: &[u8]) {
        if KINDS.contains(&what) {
            self.code.push((part, Sha256::digest(bytes).into()));
        }
    }

    /// Sets the machine code aside that its package declares.
    pub(crate) fn settle(&self, parts: &mut [Part]) {
        for (part, digest) in &self.code {
            let Some(part) = parts.get_mut(*part).filter(|part| part.state == PartState::BytesOnly) else {
                continue;
            };
            let is_listed = self.listed.get(&part.path).is_some_and(|all| all.contains(digest));
            let why = if is_listed {
                "which the wheel's RECORD lists"
            } else if self.is_of_package(&part.path) {
                "named as a module of the package"
            } else {
                continue;
            };
            part.state = PartState::SetAside(format!("{} is not read; machine code {why}", part.language));
        }
    }

    fn is_of_package(&self, path: &str) -> bool {
        let (archive, own) = of_archive(path).unwrap_or(("", path));
        let folder = own.trim_start_matches("./").split('/').next().unwrap_or("");
        is_module(own) && self.packages.contains(&format!("{archive}{folder}/"))
    }
}

/// `pkg/mod.so,sha256=…,1234`, also with the path in quotation marks.
fn listed(line: &str) -> Option<(&str, [u8; 32])> {
    let mut fields = line.trim_end().rsplitn(3, ',');
    let (_size, digest, path) = (fields.next()?, fields.next()?, fields.next()?);
    let digest = URL_SAFE_NO_PAD.decode(digest.strip_prefix("sha256=")?).ok()?;
    let path = path.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(path);
    Some((path, digest.try_into().ok()?))
}

/// True for a file that Python, Node or a WebAssembly loader would load as a module by its name.
fn is_module(path: &str) -> bool {
    let name = crate::rules::basename(path);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    match ending {
        "node" | "wasm" => !stem.is_empty(),
        "so" | "pyd" => {
            let (module, tag) = stem.split_once('.').unwrap_or((stem, "abi3"));
            let starts = module.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            starts
                && module.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && (tag == "abi3" || ["cpython-", "cp3", "pypy"].iter().any(|begin| tag.starts_with(begin)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_are_recognised() {
        for (path, want) in [
            ("p/_x.cpython-311-x86_64-linux-gnu.so", true),
            ("p/_x.abi3.so", true),
            ("p/_x.so", true),
            ("p/_x.cp311-win_amd64.pyd", true),
            ("p/_x.pypy310-pp73-x86_64-linux-gnu.so", true),
            ("build/Release/a-b.node", true),
            ("dist/a.wasm", true),
            ("p/lib-x.so", false),
            ("p/libx.so.1", false),
            ("p/x.sh.so", false),
            ("p/.so", false),
            ("p/.node", false),
            ("bin/x", false),
            ("x.exe", false),
            ("x.dll", false),
            ("so", false),
        ] {
            assert_eq!(is_module(path), want, "{path}");
        }
    }

    #[test]
    fn record_lines_give_path_and_digest() {
        let digest: [u8; 32] = Sha256::digest(b"x").into();
        let coded = URL_SAFE_NO_PAD.encode(digest);
        for (line, want) in [
            (format!("p/a.so,sha256={coded},1"), Some("p/a.so")),
            (format!("\"p/a,b.so\",sha256={coded},1\r"), Some("p/a,b.so")),
            (format!("p/a.so,sha512={coded},1"), None),
            (format!("p/a.so,sha256={},1", &coded[1..]), None),
            (format!("sha256={coded},1"), None),
            ("p.dist-info/RECORD,,".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(listed(&line), want.map(|path| (path, digest)), "{line}");
        }
    }
}
