//! An organisation's rules for code, for its authors: read from the operator's own files, or a baseline.
//!
//! `policies_path` names a folder with `style.md`, `security.md` and `custom.md`, each optional. In such a
//! file every second-level heading is a rule, and the text below it is its description. Without `security.md`
//! the rules are [`baseline`].

use std::fs::File;
use std::io::Read;
use std::path::Path;

use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum size of a file, in bytes. A longer file would be read neither by people nor by models.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Type of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyType {
    /// Style of code.
    Style,
    /// Security of code.
    Security,
    /// Other rules of the organisation.
    Custom,
}

impl PolicyType {
    /// Name of the type, and of its file without the extension.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Style => "style",
            Self::Security => "security",
            Self::Custom => "custom",
        }
    }
}

/// Origin of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The operator's file.
    File,
    /// Built into hotcell.
    Default,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Heading.
    pub title: String,
    /// Description.
    pub text: String,
}

/// Rules of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policies {
    /// Type of the rules.
    pub policy_type: PolicyType,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// Origin of the rules.
    pub source: Source,
}

/// Reads the rules of a type from the operator's folder, if there is one. Blocks.
///
/// # Errors
/// A report when a named folder or file cannot be read or has no rules: a typing error should not make the
/// baseline apply.
pub fn read(folder: Option<&Path>, policy_type: PolicyType) -> Result<Policies, ErrorReport> {
    let default = || match policy_type {
        PolicyType::Security => baseline(),
        PolicyType::Style | PolicyType::Custom => Vec::new(),
    };
    let text = match folder {
        None => None,
        Some(folder) => of_file(folder, &format!("{}.md", policy_type.name()))?,
    };
    let (rules, source) = match text {
        None => (default(), Source::Default),
        Some(text) => (rules(&text), Source::File),
    };
    if rules.is_empty() && source == Source::File {
        let why = format!("policies_path: {}.md has no rules", policy_type.name());
        return Err(ErrorReport::new(Code::Configuration, why)
            .field("policies_path")
            .hint("each begins with a heading of the second level: ## Its name"));
    }
    Ok(Policies { policy_type, rules, source })
}

/// Reads a file of the folder; `None` when the folder exists and the file does not.
fn of_file(folder: &Path, name: &str) -> Result<Option<String>, ErrorReport> {
    let bad = |why: String| {
        Err(ErrorReport::new(Code::Configuration, format!("policies_path: {why}")).field("policies_path"))
    };
    if !folder.is_dir() {
        return bad(format!("{} is not a folder", folder.display()));
    }
    let path = folder.join(name);
    match path.metadata() {
        Ok(about) if !about.is_file() => return bad(format!("{name} is not a file")),
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return bad(format!("{name} cannot be read: {e}")),
    }
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => bad(format!("{name} is longer than 256 KiB")),
        Ok(_) => Ok(Some(text)),
        Err(e) => bad(format!("{name} cannot be read: {e}")),
    }
}

/// Parses rules: second-level headings, and the text below each. Code blocks contain no headings.
#[must_use]
pub fn rules(text: &str) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let begin = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| begin.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        match line.strip_prefix("## ").filter(|_| fence.is_none()) {
            Some(title) => rules.push(Rule {
                title: title.trim().trim_end_matches('#').trim_end().to_owned(),
                text: String::new(),
            }),
            // Text above the first rule is for people.
            None => {
                if let Some(rule) = rules.last_mut() {
                    rule.text.push_str(line);
                    rule.text.push('\n');
                }
            }
        }
    }
    for rule in &mut rules {
        rule.text = rule.text.trim().to_owned();
    }
    rules.retain(|rule| !rule.title.is_empty());
    rules
}

/// Rules based on the ten risks of the OWASP Top 10:2025 (<https://owasp.org/Top10/2025/>), in hotcell's own
/// words.
#[must_use]
pub fn baseline() -> Vec<Rule> {
    let rule = |(title, text): (&str, &str)| Rule { title: title.to_owned(), text: text.to_owned() };
    BASELINE.map(rule).to_vec()
}

const BASELINE: [(&str, &str); 10] = [
    (
        "OWASP A01:2025 Broken access control",
        "Refuse by default. Check on the server, at each request, that this caller may do this to this object; never \
         by what the client sends or hides. Identifiers are no permission. Resolve paths and URLs first, then compare \
         them with what is allowed; a server that fetches addresses for others has a list of them.",
    ),
    (
        "OWASP A02:2025 Security misconfiguration",
        "Ship the strict settings as the default. No sample accounts, debug pages, open buckets or error pages with \
         internals. XML without external entities, cookies with Secure, HttpOnly and SameSite, and the same settings \
         in every environment, from files that are under review.",
    ),
    (
        "OWASP A03:2025 Software supply chain failures",
        "Add a dependency only for a reason, from the registry that is meant, by its exact name. Keep lock files with \
         digests in the repository, install from them, and remove what is no longer used. Nothing is downloaded and \
         run during a build that the lock file does not name.",
    ),
    (
        "OWASP A04:2025 Cryptographic failures",
        "No cryptography of your own. TLS with certificates checked; passwords by argon2id or scrypt; random values \
         for secrets from the system's generator; authenticated encryption. Keys and tokens never in source, logs, \
         URLs or error messages, and no secret is kept that is not needed.",
    ),
    (
        "OWASP A05:2025 Injection",
        "Keep data and commands apart: parameters for SQL, argument lists without a shell, templates that escape, \
         parsers in place of string concatenation. No eval, exec or deserialisation of objects on what comes from \
         outside. Check input against what is allowed, not against what is known to be bad.",
    ),
    (
        "OWASP A06:2025 Insecure design",
        "Say before writing who could misuse it and what stops them. Bound everything that a caller can make grow: \
         sizes, depth, counts, time, cost. Separate tenants in the design. Write a test for the misuse as well as for \
         the use.",
    ),
    (
        "OWASP A07:2025 Authentication failures",
        "Use the platform's log-in, not your own. New session identifiers after log-in, an end for each session, the \
         same answer for a wrong name and a wrong password, limits on attempts, and no default passwords. Compare \
         secrets in constant time.",
    ),
    (
        "OWASP A08:2025 Software or data integrity failures",
        "Check signature or digest before something from elsewhere is used: updates, plugins, scripts from other \
         hosts, cached and serialised data. What a client sent back is checked like new input. Builds and releases \
         come only from reviewed changes.",
    ),
    (
        "OWASP A09:2025 Security logging and alerting failures",
        "Log who did what, when and with which result for log-ins, refusals, changes of rights and what costs money; \
         without secrets or personal data, and with control characters escaped, so that nobody writes lines of their \
         own. Somebody must be told when it matters.",
    ),
    (
        "OWASP A10:2025 Mishandling of exceptional conditions",
        "Handle every error where something can be done about it, and fail closed: a check that could not be made is \
         a refusal. No empty catch, no ignored result, no half-finished transaction. Callers learn what they can do; \
         internals go to the log. Test what happens when memory, disk, time or a peer is missing.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_rules() {
        let text = "# Ours\n\nFor everybody.\n\n## Names ##\n\nShort.\n\n- not `x`\n### Why\nso\n```\n## no rule\n```\n##\n## \n## Errors\n";
        let all = rules(text);
        assert_eq!(all.iter().map(|r| r.title.as_str()).collect::<Vec<_>>(), ["Names", "Errors"]);
        assert_eq!(all[0].text, "Short.\n\n- not `x`\n### Why\nso\n```\n## no rule\n```\n##");
        assert_eq!(all[1].text, "");
        assert!(rules("# Only a title\ntext\n").is_empty() && rules("").is_empty());
        assert_eq!(rules("## A\r\nb\r\n"), [Rule { title: "A".into(), text: "b".into() }]);
    }

    #[test]
    fn policy_files_precede_baseline_and_mistakes_fail() {
        let folder = tempfile::tempdir().unwrap();
        let of = |policy_type| read(Some(folder.path()), policy_type);
        for (folder, kind) in [(None, PolicyType::Security), (Some(folder.path()), PolicyType::Security)] {
            let policies = read(folder, kind).unwrap();
            assert_eq!((policies.source, policies.rules.len()), (Source::Default, 10));
        }
        assert_eq!(of(PolicyType::Style).unwrap().rules, []);
        std::fs::write(folder.path().join("security.md"), "## One\nDo it.\n").unwrap();
        let policies = of(PolicyType::Security).unwrap();
        assert_eq!((policies.source, policies.rules.len()), (Source::File, 1));

        for (text, want) in [
            (&b"no heading"[..], "has no rules"),
            (b"## a\n\xff", "cannot be read"),
            (&vec![b'a'; 300 << 10], "longer than 256 KiB"),
        ] {
            std::fs::write(folder.path().join("custom.md"), text).unwrap();
            let why = of(PolicyType::Custom).unwrap_err().to_string();
            assert!(why.contains(want) && why.contains("custom.md"), "{why}");
        }
        std::fs::create_dir(folder.path().join("style.md")).unwrap();
        assert!(of(PolicyType::Style).unwrap_err().message.contains("style.md is not a file"));
        let nowhere = folder.path().join("nowhere");
        assert!(read(Some(&nowhere), PolicyType::Style).unwrap_err().message.contains("is not a folder"));
    }

    #[test]
    fn baseline_covers_owasp_top_ten() {
        let titles: Vec<_> = baseline().into_iter().map(|rule| rule.title).collect();
        for number in 1..=10 {
            assert!(titles[number - 1].starts_with(&format!("OWASP A{number:02}:2025 ")), "{titles:?}");
        }
    }
}
