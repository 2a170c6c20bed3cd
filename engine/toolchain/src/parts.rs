//! The parts of an installation that are exposed to a sandbox: a reviewed table, by kind. Pure.
//!
//! An installation's folder may also hold other files: the settings and passwords of an application that
//! lives in a virtual environment, a repository, a home. So only the parts listed in this table are exposed,
//! never the whole folder. A part is added together with the program that needs it, and is left out where
//! people are told to keep secrets in it: `etc/conda/activate.d` and `conda-meta/state` of conda, `etc/npmrc`
//! of node, `conf/settings.xml` of Maven, `etc/php.ini`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A kind of installation, recognized by the entries at its top.
struct Kind {
    /// Entries that must all exist. A name with a slash is looked up, the others are taken from the folder's
    /// listing.
    signs: &'static [&'static str],
    /// Exposed parts, each with the reason.
    parts: &'static [(&'static str, &'static str)],
}

/// The table. `*` at the end of a part matches the rest of a name.
const KINDS: [Kind; 10] = [
    Kind {
        signs: &[],
        parts: &[
            ("bin", "programs"),
            ("sbin", "programs"),
            ("lib", "libraries, Python's and Ruby's standard libraries, lib/node_modules, lib/rustlib"),
            ("lib32", "libraries"),
            ("lib64", "libraries; in a virtual environment a link to lib"),
            ("libexec", "programs that programs start: cargo's and git's helpers"),
            ("include", "headers, for what is compiled against it"),
            ("share", "data: terminfo, locales, zoneinfo, manuals"),
            ("man", "manuals"),
        ],
    },
    // A virtual environment.
    Kind {
        signs: &["pyvenv.cfg"],
        parts: &[
            ("pyvenv.cfg", "Python finds its standard library by it"),
            (".gitignore", "written by venv and uv, always the same"),
            ("CACHEDIR.TAG", "written by uv, always the same"),
            (".lock", "uv's lock, empty"),
        ],
    },
    Kind {
        signs: &["conda-meta"],
        parts: &[
            ("conda-meta/history", "packages ask by it whether they run in conda"),
            ("ssl/cacert.pem", "certificates that OpenSSL of conda is built to read"),
            ("ssl/cert.pem", "the same by its other name"),
            ("ssl/openssl.cnf", "OpenSSL's settings as they were built in"),
            ("compiler_compat", "the linker that Python's own builds ask for"),
            ("x86_64-conda*", "the sysroot of conda's compilers"),
            ("aarch64-conda*", "the sysroot of conda's compilers"),
        ],
    },
    Kind {
        signs: &["include/node"],
        parts: &[
            ("CHANGELOG.md", "of the release"),
            ("LICENSE", "of the release"),
            ("README.md", "of the release"),
        ],
    },
    // Go itself, not a GOPATH, which has src and pkg too.
    Kind {
        signs: &["VERSION", "pkg", "src"],
        parts: &[
            ("VERSION", "go says by it which it is"),
            ("go.env", "go's defaults"),
            ("pkg", "compilers and linkers, headers for assembly"),
            ("src", "the standard library, which go compiles"),
            ("misc", "what runs WebAssembly, before Go 1.24"),
            ("api", "of the release"),
            ("doc", "of the release"),
            ("test", "of the release"),
            ("codereview.cfg", "of the release"),
            ("LICENSE", "of the release"),
            ("PATENTS", "of the release"),
            ("README.md", "of the release"),
            ("CONTRIBUTING.md", "of the release"),
            ("SECURITY.md", "of the release"),
        ],
    },
    // Java 9 and newer.
    Kind {
        signs: &["release", "legal", "lib"],
        parts: &[
            ("conf", "security and logging settings, without which java does not start"),
            ("jmods", "modules, for jlink and javac --release"),
            ("legal", "of the release"),
            ("release", "tools read the version there"),
            ("NOTICE", "of the release"),
            ("README", "of the release"),
        ],
    },
    // Java 8.
    Kind {
        signs: &["release", "jre", "lib"],
        parts: &[("jre", "the virtual machine"), ("release", "tools read the version there")],
    },
    Kind {
        signs: &["boot", "conf", "lib"],
        parts: &[
            ("boot", "Maven's class loader"),
            ("conf/logging", "Maven's logging settings"),
            ("conf/maven-system.properties", "Maven 4 does not start without"),
            ("conf/maven.properties", "the same, of its first versions"),
        ],
    },
    Kind {
        signs: &["dotnet", "shared"],
        parts: &[
            ("dotnet", "the program"),
            ("host", "its host"),
            ("shared", "its runtimes"),
            ("sdk", "its compilers"),
            ("packs", "what is compiled against"),
            ("templates", "of the release"),
            ("sdk-manifests", "of the release"),
        ],
    },
    // Homebrew's whole prefix is one installation; its programs are links into Cellar.
    Kind {
        signs: &["Cellar"],
        parts: &[
            ("Cellar", "the packages"),
            ("opt", "links to the packages, which programs name"),
            ("etc/ca-certificates", "certificates"),
            ("etc/openssl@3", "OpenSSL's settings and certificates"),
        ],
    },
];

/// The exposed parts of an installation: paths below it, and whether it has no other contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Existing paths below the installation, sorted.
    pub named: Vec<PathBuf>,
    /// The installation has no other contents, so that it may be mounted as a whole.
    pub all: bool,
}

/// The exposed parts of an installation with these names at its top; `there` tells whether a path below it
/// exists.
pub(super) fn of(names: &[OsString], there: impl Fn(&Path) -> bool) -> Parts {
    let has = |name: &str| names.iter().any(|n| n == OsStr::new(name));
    // A longer path is looked up only if its first component exists.
    let exists = |path: &str| match path.split_once('/') {
        None => has(path),
        Some((first, _)) => has(first) && there(Path::new(path)),
    };
    let mut parts = Parts::default();
    for kind in KINDS.iter().filter(|kind| kind.signs.iter().all(|sign| exists(sign))) {
        for (part, _) in kind.parts {
            if let Some(beginning) = part.strip_suffix('*') {
                let fitting = |n: &&OsString| n.to_str().is_some_and(|n| n.starts_with(beginning));
                parts.named.extend(names.iter().filter(fitting).map(PathBuf::from));
            } else if exists(part) {
                parts.named.push(PathBuf::from(part));
            }
        }
    }
    parts.named.sort();
    parts.named.dedup();
    let named_at_top = parts.named.iter().filter(|part| part.components().count() == 1).count();
    parts.all = !names.is_empty() && named_at_top == names.len();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_names(names: &str, deeper: &[&str]) -> (Vec<String>, bool) {
        let names: Vec<OsString> = names.split_whitespace().map(OsString::from).collect();
        let parts = of(&names, |path| deeper.iter().any(|d| Path::new(d) == path));
        (parts.named.iter().map(|p| p.display().to_string()).collect(), parts.all)
    }

    #[test]
    fn toolchain_kinds_show_listed_parts() {
        for (names, deeper, want, all) in [
            ("bin include lib share", &[][..], "bin include lib share", true),
            ("bin lib .env .git", &[], "bin lib", false),
            (
                "bin include lib lib64 pyvenv.cfg .gitignore",
                &[],
                ".gitignore bin include lib lib64 pyvenv.cfg",
                true,
            ),
            ("bin lib pyvenv.cfg .env src app.py", &[], "bin lib pyvenv.cfg", false),
            ("bin lib .gitignore", &[], "bin lib", false),
            (
                "bin conda-meta envs etc lib pkgs ssl x86_64-conda-linux-gnu",
                &["conda-meta/history", "conda-meta/state", "ssl/cacert.pem", "etc/conda"],
                "bin conda-meta/history lib ssl/cacert.pem x86_64-conda-linux-gnu",
                false,
            ),
            (
                "CHANGELOG.md LICENSE README.md bin include lib share",
                &["include/node"],
                "CHANGELOG.md LICENSE README.md bin include lib share",
                true,
            ),
            ("bin etc lib libexec share", &["lib/rustlib"], "bin lib libexec share", false),
            ("bin etc lib include", &["include/node"], "bin include lib", false),
            ("VERSION bin go.env lib pkg src", &[], "VERSION bin go.env lib pkg src", true),
            // A GOPATH with a user's own work.
            ("bin pkg src", &[], "bin", false),
            ("bin conf legal lib release", &[], "bin conf legal lib release", true),
            // A server's installation with passwords.
            ("bin conf lib webapps release", &[], "bin lib", false),
            ("bin jre lib release", &[], "bin jre lib release", true),
            ("bin boot conf lib", &["conf/logging", "conf/settings.xml"], "bin boot conf/logging lib", false),
            ("data db", &[], "", false),
            ("", &[], "", false),
        ] {
            let want: Vec<String> = want.split_whitespace().map(str::to_owned).collect();
            assert_eq!(of_names(names, deeper), (want, all), "{names}");
        }
    }

    #[test]
    fn toolchain_parts_have_reason_and_stay_below() {
        for (part, why) in KINDS.iter().flat_map(|kind| kind.parts) {
            assert!(!why.is_empty(), "{part}");
            assert!(crate::shim::below(part), "{part}");
        }
    }
}
