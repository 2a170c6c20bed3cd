//! Names of packages that look like those of well-known ones: a letter more, less, changed, or two swapped. Pure.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::Ecosystem;

/// Maximum size of a lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 16 << 20;
/// Length below which names are too short to be told apart by one letter.
const MIN_LENGTH: usize = 5;

/// Packages of npm that are imitated, from its lists of most depended upon packages, and those of MCP servers.
const NPM: [&str; 72] = [
    "lodash",
    "react",
    "preact",
    "axios",
    "express",
    "chalk",
    "commander",
    "debug",
    "request",
    "moment",
    "async",
    "bluebird",
    "typescript",
    "webpack",
    "eslint",
    "prettier",
    "dotenv",
    "mongoose",
    "mongodb",
    "redis",
    "ioredis",
    "postgres",
    "mysql2",
    "sqlite3",
    "better-sqlite3",
    "node-fetch",
    "cross-env",
    "cross-fetch",
    "cross-spawn",
    "underscore",
    "inquirer",
    "yargs",
    "minimist",
    "semver",
    "rimraf",
    "mkdirp",
    "body-parser",
    "jsonwebtoken",
    "bcrypt",
    "bcryptjs",
    "nodemailer",
    "passport",
    "socket.io",
    "puppeteer",
    "playwright",
    "cheerio",
    "jquery",
    "angular",
    "svelte",
    "rxjs",
    "redux",
    "classnames",
    "colors",
    "color",
    "picocolors",
    "kleur",
    "ethers",
    "electron",
    "discord.js",
    "openai",
    "langchain",
    "fastify",
    "nextjs",
    "vite",
    "vitest",
    "mocha",
    "jest",
    "esbuild",
    "rollup",
    "undici",
    "zod",
    "zod-to-json-schema",
];
/// Packages of PyPI that are imitated, from its list of most downloaded packages.
const PYPI: [&str; 68] = [
    "requests",
    "urllib3",
    "certifi",
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "scikit-learn",
    "tensorflow",
    "keras",
    "torch",
    "pytorch",
    "boto3",
    "botocore",
    "setuptools",
    "python-dateutil",
    "charset-normalizer",
    "pyyaml",
    "cryptography",
    "jinja2",
    "flask",
    "django",
    "fastapi",
    "starlette",
    "uvicorn",
    "pydantic",
    "pydantic-core",
    "sqlalchemy",
    "psycopg2",
    "redis",
    "celery",
    "click",
    "colorama",
    "packaging",
    "virtualenv",
    "pytest",
    "coverage",
    "pillow",
    "opencv-python",
    "beautifulsoup4",
    "selenium",
    "playwright",
    "scrapy",
    "httpx",
    "aiohttp",
    "websockets",
    "paramiko",
    "openai",
    "anthropic",
    "langchain",
    "transformers",
    "tokenizers",
    "huggingface-hub",
    "protobuf",
    "grpcio",
    "markupsafe",
    "werkzeug",
    "itsdangerous",
    "idna",
    "attrs",
    "psutil",
    "simplejson",
    "termcolor",
    "tqdm",
    "rich",
    "typer",
    "jsonschema",
    "fastmcp",
];
/// Scopes of npm that are imitated.
const SCOPES: [&str; 10] = [
    "modelcontextprotocol",
    "anthropic-ai",
    "openai",
    "types",
    "babel",
    "angular",
    "vercel",
    "playwright",
    "google-cloud",
    "microsoft",
];

/// A locked package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Locked {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Well-known name that its name is almost.
    pub looks_like: Option<&'static str>,
}

/// Packages of the lock file in a folder that [`super::lock`] made, by name; without those that cannot be read, which are not installed either.
#[must_use]
pub fn locked(ecosystem: Ecosystem, folder: &Path) -> Vec<Locked> {
    let name = match ecosystem {
        Ecosystem::Npm => "package-lock.json",
        Ecosystem::Python => "requirements.txt",
    };
    let path = folder.join(name);
    let is_small = fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MAX_LOCK_BYTES);
    let text = if is_small { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    packages(ecosystem, &text)
}

fn packages(ecosystem: Ecosystem, lock: &str) -> Vec<Locked> {
    #[derive(Deserialize)]
    struct Lock {
        packages: std::collections::BTreeMap<String, Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        #[serde(default)]
        version: String,
    }
    let named = |name: &str, version: &str| Locked {
        looks_like: looks_like(ecosystem, name),
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let mut all: Vec<Locked> = match ecosystem {
        Ecosystem::Npm => {
            let Ok(lock) = serde_json::from_str::<Lock>(lock) else { return Vec::new() };
            let packages = lock.packages.iter();
            let packages =
                packages.filter_map(|(path, package)| Some((path.rsplit_once("node_modules/")?.1, package)));
            packages.map(|(name, package)| named(name, &package.version)).collect()
        }
        Ecosystem::Python => {
            let lines = lock.lines().filter_map(|line| line.split_whitespace().next()?.split_once("=="));
            lines.map(|(name, version)| named(name, version)).collect()
        }
    };
    all.sort();
    all.dedup();
    all
}

/// The well-known package, or scope, whose name is almost this one.
#[must_use]
pub fn looks_like(ecosystem: Ecosystem, name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let (scope, bare) = match name.strip_prefix('@').and_then(|name| name.split_once('/')) {
        Some((scope, bare)) => (Some(scope), bare),
        None => (None, name.as_str()),
    };
    match (ecosystem, scope) {
        (Ecosystem::Npm, Some(scope)) => near(scope, &SCOPES),
        (Ecosystem::Npm, None) => near(bare, &NPM),
        (Ecosystem::Python, _) => near(bare, &PYPI),
    }
}

fn near(name: &str, known: &'static [&'static str]) -> Option<&'static str> {
    if name.len() < MIN_LENGTH || known.contains(&name) {
        return None;
    }
    // Without its separators a name reads the same.
    let joined = |name: &str| name.replace(['-', '.'], "");
    known.iter().copied().find(|known| {
        known.len() >= MIN_LENGTH
            && (strsim::damerau_levenshtein(name, known) == 1 || joined(name) == joined(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_one_letter_from_well_known_ones_are_found() {
        use Ecosystem::{Npm, Python};
        for (ecosystem, name, want) in [
            (Python, "reqeusts", Some("requests")),
            (Python, "request", Some("requests")),
            (Python, "Python_DateUtil", None),
            (Python, "pythondateutil", Some("python-dateutil")),
            (Python, "requests", None),
            (Python, "idan", None),
            (Python, "mcp-server-time", None),
            (Npm, "lodahs", Some("lodash")),
            (Npm, "loadsh", Some("lodash")),
            (Npm, "crossenv", Some("cross-env")),
            (Npm, "preact", None),
            (Npm, "bcryptjs", None),
            (Npm, "@modelcontextprotoco/sdk", Some("modelcontextprotocol")),
            (Npm, "@modelcontextprotocol/sdk", None),
            (Npm, "@own/lodahs", None),
        ] {
            assert_eq!(looks_like(ecosystem, name), want, "{name}");
        }
        // None of the lists' names is taken for another of them.
        for (ecosystem, names) in [(Npm, &NPM[..]), (Python, &PYPI[..])] {
            assert!(names.iter().all(|name| looks_like(ecosystem, name).is_none()));
        }
    }

    #[test]
    fn lock_files_name_their_packages() {
        let lock = r#"{"packages": {"": {"name": "wrapped-server"}, "node_modules/a": {"version": "1.0.0"},
            "node_modules/a/node_modules/@s/lodahs": {"version": "2.0.0"}, "node_modules/lodahs": {"version": "3.0.0"}}}"#;
        let all = packages(Ecosystem::Npm, lock);
        let names: Vec<_> =
            all.iter().map(|one| (one.name.as_str(), one.version.as_str(), one.looks_like)).collect();
        assert_eq!(
            names,
            [("@s/lodahs", "2.0.0", None), ("a", "1.0.0", None), ("lodahs", "3.0.0", Some("lodash"))]
        );
        let all =
            packages(Ecosystem::Python, "reqeusts==1.0 --hash=sha256:00\nidna==3.10 --hash=sha256:11\n");
        assert_eq!(all.iter().filter_map(|one| one.looks_like).collect::<Vec<_>>(), ["requests"]);
        assert!(packages(Ecosystem::Npm, "nonsense").is_empty());
    }
}
