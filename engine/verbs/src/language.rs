//! Languages whose source files can be run: how to compile a source, and how to run the result. Pure.

mod diagnostics;
mod java;
mod names;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hotcell_guard::Language as Read;
use hotcell_sandbox::policy::{HOME, PROJECT_NAME};

pub use diagnostics::{Said, read as read_diagnostics, read_psql};
pub use names::meant;

/// Output of a compiler, below the home folder: a program, or a folder.
pub const COMPILED: &str = ".compiled";

/// Folder in which Debian installs each version of PostgreSQL.
const POSTGRES_FOLDER: &str = "/usr/lib/postgresql/";
/// Starts a PostgreSQL and has psql read the source.
const PSQL: &str = include_str!("language/postgresql.sh");

/// A language whose source files can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// `python3 FILE`
    Python,
    /// `bash FILE`
    Bash,
    /// `node FILE`
    JavaScript,
    /// `tsc` and `node`, or a `node` that reads TypeScript
    TypeScript,
    /// `go build`
    Go,
    /// `rustc`
    Rust,
    /// `cc`
    C,
    /// `c++`
    Cpp,
    /// `javac` and `java`
    Java,
    /// `sqlite3`
    Sql,
    /// `psql`, in a PostgreSQL of its own
    PostgreSql,
}

/// Compiler family, by the format of its diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// `FILE:LINE:COLUMN: error: …`, as in GCC, Clang and Go.
    Gnu,
    /// One JSON object per line.
    Rustc,
    /// `FILE:LINE: error: …`, the source line and a caret.
    Javac,
    /// `FILE(LINE,COLUMN): error TS1005: …`
    Tsc,
}

/// A compile step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compile {
    /// The compiler and its arguments.
    pub argv: Vec<OsString>,
    /// Compiler family.
    pub compiler: Compiler,
    /// True when the output at [`COMPILED`] is a folder, not one program.
    pub folder: bool,
    /// Required variables.
    pub env: Vec<(OsString, OsString)>,
}

/// Steps to run a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Compile step; `None` for interpreted languages.
    pub compile: Option<Compile>,
    /// Command to run, without the caller's arguments; its program is looked up on the host unless it was
    /// compiled.
    pub argv: Vec<OsString>,
    /// True when the program is the compiled one.
    pub native: bool,
    /// Variables for the program.
    pub env: Vec<(OsString, OsString)>,
}

/// Paths inside the sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Source file.
    pub source: &'a Path,
    /// Home folder.
    pub home: &'a Path,
    /// The `tsc` to use; `None` when only node can read TypeScript.
    pub tsc: Option<&'a [OsString]>,
}

impl Language {
    /// Every language, with its name.
    pub const ALL: [(&'static str, Self); 11] = [
        ("python", Self::Python),
        ("bash", Self::Bash),
        ("javascript", Self::JavaScript),
        ("typescript", Self::TypeScript),
        ("go", Self::Go),
        ("rust", Self::Rust),
        ("c", Self::C),
        ("cpp", Self::Cpp),
        ("java", Self::Java),
        ("sql", Self::Sql),
        ("postgresql", Self::PostgreSql),
    ];

    /// Name of the language.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, language)| *language == self).map_or("", |(name, _)| name)
    }

    /// Language that the guard scans a source as.
    #[must_use]
    pub const fn as_read(self) -> Read {
        match self {
            Self::Python => Read::Python,
            Self::Bash => Read::Bash,
            Self::JavaScript => Read::JavaScript,
            Self::TypeScript => Read::TypeScript,
            Self::Go => Read::Go,
            Self::Rust => Read::Rust,
            Self::C => Read::C,
            Self::Cpp => Read::Cpp,
            Self::Java => Read::Java,
            Self::Sql | Self::PostgreSql => Read::Sql,
        }
    }

    /// Language for a file extension.
    #[must_use]
    pub fn of_ending(ending: &str) -> Option<Self> {
        Some(match ending {
            "py" => Self::Python,
            "sh" | "bash" => Self::Bash,
            "js" | "mjs" | "cjs" => Self::JavaScript,
            "ts" | "mts" | "cts" => Self::TypeScript,
            "go" => Self::Go,
            "rs" => Self::Rust,
            "c" => Self::C,
            "cc" | "cpp" | "cxx" => Self::Cpp,
            "java" => Self::Java,
            "sql" => Self::Sql,
            "psql" | "pgsql" => Self::PostgreSql,
            _ => return None,
        })
    }

    /// Default file name for a source. Java requires the name of its public class.
    #[must_use]
    pub fn file_name(self, text: &[u8]) -> String {
        match self {
            Self::Python => "main.py".to_owned(),
            Self::Bash => "main.sh".to_owned(),
            Self::JavaScript => "main.js".to_owned(),
            Self::TypeScript => "main.ts".to_owned(),
            Self::Go => "main.go".to_owned(),
            Self::Rust => "main.rs".to_owned(),
            Self::C => "main.c".to_owned(),
            Self::Cpp => "main.cpp".to_owned(),
            Self::Java => {
                let types = java::types(text);
                let named = types.iter().find(|t| t.public).or(types.first());
                format!("{}.java", named.map_or("Main", |t| t.name.as_str()))
            }
            Self::Sql | Self::PostgreSql => "main.sql".to_owned(),
        }
    }

    /// Dialect of the language in an image with this `PATH`: an image with PostgreSQL on it is meant for
    /// that.
    #[must_use]
    pub fn in_image(self, path: &str) -> Self {
        match self {
            Self::Sql if path.split(':').any(|folder| folder.starts_with(POSTGRES_FOLDER)) => {
                Self::PostgreSql
            }
            language => language,
        }
    }

    /// True for compiled languages; TypeScript is compiled only if there is a compiler.
    #[must_use]
    pub const fn is_compiled(self) -> bool {
        matches!(self, Self::TypeScript | Self::Go | Self::Rust | Self::C | Self::Cpp | Self::Java)
    }

    /// Steps to run a source at these paths.
    #[must_use]
    pub fn steps(self, text: &[u8], at: Places<'_>) -> Steps {
        let source = at.source.as_os_str();
        let out = at.home.join(COMPILED);
        let interpreted = |argv: &[&OsStr]| Steps {
            compile: None,
            argv: argv.iter().map(OsString::from).collect(),
            native: false,
            env: Vec::new(),
        };
        let native = |compiler, argv: &[&str], env: &[(&str, &str)]| Steps {
            compile: Some(Compile {
                argv: argv
                    .iter()
                    .map(OsString::from)
                    .chain([out.clone().into(), source.to_owned()])
                    .collect(),
                compiler,
                folder: false,
                env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            }),
            argv: vec![out.clone().into()],
            native: true,
            env: Vec::new(),
        };
        match self {
            Self::Python => interpreted(&["python3".as_ref(), source]),
            Self::Bash => interpreted(&["bash".as_ref(), source]),
            Self::JavaScript => interpreted(&["node".as_ref(), source]),
            Self::Sql => {
                let mut read = OsString::from(".read '");
                read.push(source);
                read.push("'");
                interpreted(&["sqlite3", "-batch", "-bail", "-cmd"].map(OsStr::new)).with_argument(read)
            }
            Self::PostgreSql => {
                let script = [hotcell_testing::frameworks::pgtap::POSTGRES, PSQL].concat();
                interpreted(&["sh", "-c", &script, "postgresql"].map(OsStr::new))
                    .with_argument(source.to_owned())
            }
            Self::C => {
                let mut steps =
                    native(Compiler::Gnu, &["cc", "-O1", "-Wall", "-fdiagnostics-color=never", "-o"], &[]);
                steps.link("-lm");
                steps
            }
            Self::Cpp => native(
                Compiler::Gnu,
                &["c++", "-std=gnu++20", "-O1", "-Wall", "-fdiagnostics-color=never", "-o"],
                &[],
            ),
            Self::Rust => native(
                Compiler::Rustc,
                &[
                    "rustc",
                    "--edition=2021",
                    "-Copt-level=1",
                    "--crate-name=main",
                    "--error-format=json",
                    "-o",
                ],
                &[],
            ),
            // Go keeps its data below HOME, which is fine.
            Self::Go => native(
                Compiler::Gnu,
                &["go", "build", "-o"],
                &[("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOENV", "off")],
            ),
            Self::Java => Steps {
                compile: Some(Compile {
                    argv: ["javac", "-encoding", "UTF-8", "-g", "-d"]
                        .map(OsString::from)
                        .into_iter()
                        .chain([out.clone().into(), source.to_owned()])
                        .collect(),
                    compiler: Compiler::Javac,
                    folder: true,
                    env: Vec::new(),
                }),
                argv: ["java".into(), "-cp".into(), out.into(), java::main_class(text).into()].into(),
                native: false,
                env: Vec::new(),
            },
            Self::TypeScript => typescript(&at, &out),
        }
    }
}

/// `tsc` writes the output for `HOME/a/b.ts` to `OUT/a/b.js`.
fn typescript(at: &Places<'_>, out: &Path) -> Steps {
    let Some(tsc) = at.tsc else {
        return Steps {
            compile: None,
            argv: ["node".into(), "--experimental-strip-types".into(), at.source.as_os_str().to_owned()]
                .into(),
            native: false,
            env: Vec::new(),
        };
    };
    let ending = match at.source.extension().and_then(OsStr::to_str) {
        Some("mts") => "mjs",
        Some("cts") => "cjs",
        _ => "js",
    };
    let below = at.source.strip_prefix(at.home).unwrap_or(at.source);
    let made = out.join(below).with_extension(ending);
    let options = [
        "--pretty",
        "false",
        "--target",
        "es2022",
        "--module",
        "commonjs",
        "--moduleResolution",
        "node",
        "--esModuleInterop",
        "--skipLibCheck",
    ];
    let mut argv = tsc.to_vec();
    argv.extend(options.map(OsString::from));
    argv.extend(["--rootDir".into(), at.home.as_os_str().to_owned(), "--outDir".into(), out.into()]);
    argv.push(at.source.as_os_str().to_owned());
    Steps {
        compile: Some(Compile { argv, compiler: Compiler::Tsc, folder: true, env: Vec::new() }),
        argv: ["node".into(), made.into()].into(),
        native: false,
        // The source is beside its packages; the compiled output is not.
        env: vec![("NODE_PATH".into(), project_modules(at.home).into())],
    }
}

fn project_modules(home: &Path) -> PathBuf {
    home.join(PROJECT_NAME).join("node_modules")
}

impl Steps {
    fn with_argument(mut self, argument: OsString) -> Self {
        self.argv.push(argument);
        self
    }

    fn link(&mut self, library: &str) {
        if let Some(compile) = &mut self.compile {
            compile.argv.push(library.into());
        }
    }
}

/// A sandbox path as users know it: relative to the project, or the source's own name.
#[must_use]
pub fn outside_name(path: &str) -> &str {
    let below = path.strip_prefix(HOME).map_or(path, |rest| rest.trim_start_matches('/'));
    let below = below.trim_start_matches("../").trim_start_matches("./");
    below.strip_prefix("project/").unwrap_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(language: Language, source: &str, tsc: Option<&[OsString]>) -> Steps {
        language.steps(
            b"class A { public static void main(String[] a) {} }",
            Places { source: Path::new(source), home: Path::new(HOME), tsc },
        )
    }

    #[test]
    fn compiled_output_path_matches_run_path() {
        for (_, language) in Language::ALL {
            let steps = steps(language, "/home/sandbox/x", Some(&["tsc".into()]));
            let all = steps.compile.iter().flat_map(|c| &c.argv).chain(&steps.argv);
            assert!(all.clone().any(|a| a.to_string_lossy().contains("/home/sandbox/x")), "{language:?}");
            if let Some(compile) = &steps.compile {
                let out = OsString::from("/home/sandbox/.compiled");
                assert!(compile.argv.contains(&out), "{language:?}");
                assert!(
                    steps.argv.iter().any(|a| a.to_string_lossy().starts_with("/home/sandbox/.compiled"))
                );
                assert_eq!(steps.native, !compile.folder);
            }
        }
    }

    #[test]
    fn sql_is_postgresql_in_an_image_of_it() {
        for (language, path, want) in [
            (Language::Sql, "/usr/lib/postgresql/15/bin:/usr/bin", Language::PostgreSql),
            (Language::Sql, "/usr/bin:/bin", Language::Sql),
            (Language::Sql, "/opt/usr/lib/postgresql/15/bin", Language::Sql),
            (Language::C, "/usr/lib/postgresql/15/bin", Language::C),
        ] {
            assert_eq!(language.in_image(path), want, "{path}");
        }
    }

    #[test]
    fn typescript_is_found_again() {
        let tsc = ["tsc".into()];
        for (source, made) in [
            ("/home/sandbox/a.ts", "/home/sandbox/.compiled/a.js"),
            ("/home/sandbox/project/src/a.mts", "/home/sandbox/.compiled/project/src/a.mjs"),
        ] {
            assert_eq!(steps(Language::TypeScript, source, Some(&tsc)).argv[1], made);
        }
        assert!(steps(Language::TypeScript, "a.ts", None).compile.is_none());
    }

    #[test]
    fn java_source_is_named_after_public_class() {
        for (text, name) in [
            ("class A {} public class B { }", "B.java"),
            ("class A {}", "A.java"),
            ("// nothing", "Main.java"),
        ] {
            assert_eq!(Language::Java.file_name(text.as_bytes()), name);
        }
    }

    #[test]
    fn diagnostics_lose_sandbox_path_prefix() {
        for (inside, outside) in [
            ("/home/sandbox/main.c", "main.c"),
            ("/home/sandbox/project/src/a.c", "src/a.c"),
            ("../main.go", "main.go"),
            ("./main.go", "main.go"),
            ("/usr/include/stdio.h", "/usr/include/stdio.h"),
        ] {
            assert_eq!(outside_name(inside), outside);
        }
    }
}
