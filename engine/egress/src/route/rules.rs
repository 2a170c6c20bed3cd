//! Rules for the requests of a route: methods and paths, on one spelling of the path. Pure.

use std::fmt;

use crate::limit::{RequestLimits, size_text};

/// Maximum number of rules of each kind, which are written by hand.
const MAX_RULES: usize = 64;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path does not begin with `/`.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// The path has a byte that a URL cannot have.
    #[error("the path has a byte that URLs have not, or a backslash")]
    Character,
    /// A `%` without two hexadecimal digits.
    #[error("the path has a % without two hexadecimal digits")]
    Escape,
    /// An encoded byte that servers read differently.
    #[error("the path has an encoded slash, backslash, percent sign or control character, or is not UTF-8")]
    Encoded,
    /// A segment `.` or `..`.
    #[error("the path has a segment . or ..")]
    Dots,
    /// An empty segment.
    #[error("the path has two slashes in a row")]
    Empty,
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?}: {why}")]
pub struct RulesError {
    /// The rule as written.
    pub rule: String,
    /// The problem, and how to mend it.
    pub why: String,
}

/// A path in one spelling, so that two spellings of one path are not judged differently: escapes are decoded, an encoded slash stays `%2F`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath(Vec<u8>);

impl NormalPath {
    /// Reads a path without its query. `encoded_slash`: a `%2F` is accepted, as names of npm packages have it.
    ///
    /// # Errors
    /// [`PathError`] for a path that two servers could read differently.
    pub fn parse(path: &str, encoded_slash: bool) -> Result<Self, PathError> {
        let bytes = path.as_bytes();
        if bytes.first() != Some(&b'/') {
            return Err(PathError::NotAbsolute);
        }
        let mut normal = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'%' => {
                    let digits = bytes.get(at..at + 2).and_then(|digits| std::str::from_utf8(digits).ok());
                    let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                    let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    match value.ok_or(PathError::Escape)? {
                        b'/' if encoded_slash => normal.extend_from_slice(b"%2F"),
                        b'/' | b'\\' | b'%' | 0..0x20 | 0x7f => return Err(PathError::Encoded),
                        value => normal.push(value),
                    }
                    at += 2;
                }
                b'\\' | b'#' | b'?' | 0..=0x20 | 0x7f.. => return Err(PathError::Character),
                byte => normal.push(byte),
            }
        }
        // Overlong forms (`%c0%ae` for a dot) are read by some servers, and are not UTF-8 (RFC 3629, 10).
        if std::str::from_utf8(&normal).is_err() {
            return Err(PathError::Encoded);
        }
        let all = segments(&normal);
        // Some servers cut parameters off (`..;x`) before they resolve dots.
        let dots = |segment: &Vec<u8>| matches!(without_parameters(segment).trim_ascii(), b"." | b"..");
        if all.iter().any(dots) {
            return Err(PathError::Dots);
        }
        // The first is in front of the first slash, and the last may be behind the last one.
        if all.iter().skip(1).rev().skip(1).any(Vec::is_empty) {
            return Err(PathError::Empty);
        }
        Ok(Self(normal))
    }

    /// The path `/`.
    #[must_use]
    pub fn root() -> Self {
        Self(vec![b'/'])
    }

    /// Whether this path is `rule` or below it. A slash at the rule's end makes no difference.
    pub(crate) fn is_within(&self, rule: &Self) -> bool {
        within(&self.0, &rule.0)
    }

    /// Like `is_within`, for a rule that denies: also where only some servers would read it so (letter case, parameters, encoded slashes and question marks, dots and spaces at a name's end, which Windows leaves out).
    pub(crate) fn may_be_within(&self, rule: &Self) -> bool {
        within(&lenient(&self.0), &lenient(&rule.0))
    }
}

fn within(path: &[u8], rule: &[u8]) -> bool {
    let rule = rule.strip_suffix(b"/").unwrap_or(rule);
    path.strip_prefix(rule).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

/// Segments between slashes, encoded ones too.
fn segments(path: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"%2F").or((byte == b'/').then_some(after)) {
            all.push(Vec::new());
            rest = after;
        } else {
            all.last_mut().unwrap_or(&mut Vec::new()).push(byte);
            rest = after;
        }
    }
    all
}

fn without_parameters(segment: &[u8]) -> &[u8] {
    segment.split(|b| *b == b';').next().unwrap_or_default()
}

fn without_end(segment: &[u8]) -> &[u8] {
    let cut = segment.iter().position(|b| matches!(b, b'?' | b'#')).unwrap_or(segment.len());
    let end = segment[..cut].iter().rposition(|b| !matches!(b, b'.' | b' ')).map_or(0, |last| last + 1);
    &segment[..end]
}

fn lenient(path: &[u8]) -> Vec<u8> {
    let all = segments(&path.to_ascii_lowercase().replace_encoded());
    let all: Vec<&[u8]> = all.iter().map(|segment| without_end(without_parameters(segment))).collect();
    let last = all.len().saturating_sub(1);
    // A segment of which nothing is left, such as `;x`, is left out by the servers that read it so.
    let kept = all.iter().enumerate().filter(|(at, segment)| *at == 0 || *at == last || !segment.is_empty());
    kept.map(|(_, segment)| *segment).collect::<Vec<_>>().join(&b'/')
}

/// The encoded slash in upper case again.
trait ReplaceEncoded {
    fn replace_encoded(self) -> Self;
}

impl ReplaceEncoded for Vec<u8> {
    fn replace_encoded(mut self) -> Self {
        for at in 0..self.len().saturating_sub(2) {
            if &self[at..at + 3] == b"%2f" {
                self[at + 2] = b'F';
            }
        }
        self
    }
}

/// A path of a rule, as written and in one spelling, with a method for those that deny.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathRule {
    written: String,
    method: Option<String>,
    path: NormalPath,
}

/// Decision on a request, with the rule that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request may go on.
    Allowed(String),
    /// The request is refused.
    Denied(String),
}

/// Rules for the requests of a route. The default allows every method and path.
///
/// ```
/// use hotcell_egress::route::rules::{NormalPath, RequestRules, Verdict};
/// let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
/// let rules = RequestRules::new(&texts(&["GET"]), &texts(&["/v1/"]), &texts(&["/v1/keys"]), false).unwrap();
/// let judge = |method, path| rules.judge(method, &NormalPath::parse(path, false).unwrap());
/// assert!(matches!(judge("GET", "/v1/models"), Verdict::Allowed(_)));
/// assert!(matches!(judge("GET", "/v1/%6beys"), Verdict::Denied(_)));
/// assert!(matches!(judge("POST", "/v1/models"), Verdict::Denied(_)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRules {
    methods: Vec<String>,
    paths: Vec<PathRule>,
    deny: Vec<PathRule>,
    encoded_slash: bool,
    limits: RequestLimits,
}

impl RequestRules {
    /// Rules from texts: methods, paths, and paths that are denied, each with a method in front or without (`DELETE /v1/files`). An empty
    /// list of methods or paths allows all. `encoded_slash`: a `%2F` in a path is accepted.
    ///
    /// # Errors
    /// [`RulesError`] for the first text that is not a method or a path.
    pub fn new(
        methods: &[String],
        paths: &[String],
        deny: &[String],
        encoded_slash: bool,
    ) -> Result<Self, RulesError> {
        for list in [methods, paths, deny] {
            if let Some(rule) = list.get(MAX_RULES) {
                let why = format!("a list has at most {MAX_RULES} rules");
                return Err(RulesError { rule: rule.clone(), why });
            }
        }
        let bad = |rule: &str, why: &str| RulesError { rule: rule.to_owned(), why: why.to_owned() };
        for method in methods {
            if !is_method(method) {
                return Err(bad(
                    method,
                    "a method is written in capitals, such as GET; CONNECT and TRACE never pass",
                ));
            }
        }
        let path = |written: &str, denies: bool| {
            let (method, path) = match written.split_once(' ') {
                Some((method, path)) if denies && is_method(method) => (Some(method.to_owned()), path.trim()),
                _ => (None, written),
            };
            let path = NormalPath::parse(path, encoded_slash).map_err(|why| {
                bad(written, &format!("{why}; a path is written as /v1/models, without * and query"))
            })?;
            if path.0.contains(&b'*') {
                return Err(bad(written, "a path stands for itself and all below it; write it without *"));
            }
            Ok(PathRule { written: written.to_owned(), method, path })
        };
        Ok(Self {
            methods: methods.to_vec(),
            paths: paths.iter().map(|text| path(text, false)).collect::<Result<_, _>>()?,
            deny: deny.iter().map(|text| path(text, true)).collect::<Result<_, _>>()?,
            encoded_slash,
            limits: RequestLimits::default(),
        })
    }

    /// Sets limits of each request.
    #[must_use]
    pub const fn limited(mut self, limits: RequestLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits of each request.
    #[must_use]
    pub const fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// Whether paths are judged, so that a path with two readings has to be refused.
    #[must_use]
    pub const fn judges_paths(&self) -> bool {
        !self.paths.is_empty() || !self.deny.is_empty()
    }

    /// Whether a `%2F` is accepted in a path.
    #[must_use]
    pub const fn accepts_encoded_slash(&self) -> bool {
        self.encoded_slash
    }

    /// Whether only some methods are allowed, or denied.
    #[must_use]
    pub fn judges_methods(&self) -> bool {
        !self.methods.is_empty() || self.deny.iter().any(|rule| rule.method.is_some())
    }

    /// Judges a request; rules that deny come first.
    #[must_use]
    pub fn judge(&self, method: &str, path: &NormalPath) -> Verdict {
        let denies = |rule: &&PathRule| {
            rule.method.as_ref().is_none_or(|denied| denied == method) && path.may_be_within(&rule.path)
        };
        if let Some(rule) = self.deny.iter().find(denies) {
            return Verdict::Denied(format!("deny {}", rule.written));
        }
        if !self.methods.is_empty() && !self.methods.iter().any(|allowed| allowed == method) {
            return Verdict::Denied(format!("methods {}", self.methods.join(" ")));
        }
        match self.paths.iter().find(|rule| path.is_within(&rule.path)) {
            Some(rule) => Verdict::Allowed(format!("paths {}", rule.written)),
            None if self.paths.is_empty() => Verdict::Allowed("any path".to_owned()),
            None => Verdict::Denied("no entry of paths".to_owned()),
        }
    }
}

impl fmt::Display for RequestRules {
    /// The rules in words, for a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written =
            |rules: &[PathRule]| rules.iter().map(|rule| rule.written.as_str()).collect::<Vec<_>>().join(" ");
        let mut parts = Vec::new();
        if !self.methods.is_empty() {
            parts.push(format!("{} only", self.methods.join(" ")));
        }
        if !self.paths.is_empty() {
            parts.push(format!("below {}", written(&self.paths)));
        }
        if !self.deny.is_empty() {
            parts.push(format!("never {}", written(&self.deny)));
        }
        if let Some(most) = self.limits.max_body {
            parts.push(format!("bodies up to {}", size_text(most)));
        }
        if let Some(rate) = self.limits.rate {
            parts.push(format!("{rate} requests"));
        }
        if parts.is_empty() {
            parts.push("every request".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}

/// Whether a word is a method that a route passes on. TRACE would send the request's headers back.
#[must_use]
pub fn is_method(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 32
        && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
        && !matches!(word, "CONNECT" | "TRACE" | "TRACK")
}

impl fmt::Display for NormalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(methods: &[&str], paths: &[&str], deny: &[&str]) -> RequestRules {
        let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        RequestRules::new(&texts(methods), &texts(paths), &texts(deny), true)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn paths_have_one_spelling_or_are_refused() {
        for (path, want) in [
            ("/", Ok("/")),
            ("/v1/models", Ok("/v1/models")),
            ("/v1/", Ok("/v1/")),
            ("/%76%31/a%20b", Ok("/v1/a b")),
            ("/a/@b%2fc", Err(PathError::Encoded)),
            ("/a%5cb", Err(PathError::Encoded)),
            ("/a%00", Err(PathError::Encoded)),
            ("/a%0d%0aX", Err(PathError::Encoded)),
            ("/%252e%252e/", Err(PathError::Encoded)),
            ("/a%2", Err(PathError::Escape)),
            ("/a%zz", Err(PathError::Escape)),
            ("/a%+1", Err(PathError::Escape)),
            ("/../a", Err(PathError::Dots)),
            ("/a/..", Err(PathError::Dots)),
            ("/a/%2e%2E/b", Err(PathError::Dots)),
            ("/a/..;x=1/b", Err(PathError::Dots)),
            ("/a/.%2e%3bx/b", Err(PathError::Dots)),
            ("/a/./b", Err(PathError::Dots)),
            ("/a/..%20/b", Err(PathError::Dots)),
            ("/a/%c0%ae%c0%ae/b", Err(PathError::Encoded)),
            ("/a%ff", Err(PathError::Encoded)),
            ("/%c3%a4", Ok("/ä")),
            ("//a", Err(PathError::Empty)),
            ("/a//b", Err(PathError::Empty)),
            ("/a//", Err(PathError::Empty)),
            ("//", Err(PathError::Empty)),
            ("/a\\b", Err(PathError::Character)),
            ("/a#b", Err(PathError::Character)),
            ("/a?b", Err(PathError::Character)),
            ("/a\0", Err(PathError::Character)),
            ("/ä", Err(PathError::Character)),
            ("v1", Err(PathError::NotAbsolute)),
            ("", Err(PathError::NotAbsolute)),
        ] {
            let got = NormalPath::parse(path, false).map(|path| path.to_string());
            assert_eq!(got, want.map(str::to_owned), "{path}");
        }
        assert_eq!(NormalPath::parse("/@a%2fb", true).unwrap().to_string(), "/@a%2Fb");
        assert_eq!(NormalPath::parse("/a%2f..%2Fb", true), Err(PathError::Dots));
        assert_eq!(NormalPath::parse("/a%2f%2fb", true), Err(PathError::Empty));
    }

    #[test]
    fn requests_are_judged_with_denials_first() {
        let some =
            rules(&["GET", "POST"], &["/v1/", "/repos/acme"], &["/v1/keys", "POST /repos/acme/x", "/@a%2Fb"]);
        for (method, path, want) in [
            ("GET", "/v1/models", Ok("paths /v1/")),
            ("GET", "/v1", Ok("paths /v1/")),
            ("GET", "/v12", Err("no entry of paths")),
            ("GET", "/V1/models", Err("no entry of paths")),
            ("GET", "/", Err("no entry of paths")),
            ("DELETE", "/v1/models", Err("methods GET POST")),
            ("GET", "/v1/keys", Err("deny /v1/keys")),
            ("GET", "/v1/KEYS/1", Err("deny /v1/keys")),
            ("GET", "/v1/keys;x/1", Err("deny /v1/keys")),
            ("GET", "/v1/;/keys", Err("deny /v1/keys")),
            ("GET", "/;a=b/v1/;x=1/;/keys;y/1", Err("deny /v1/keys")),
            ("GET", "/v1/%20/keys", Err("deny /v1/keys")),
            ("GET", "/v1/.../keys", Err("deny /v1/keys")),
            ("GET", "/v1/;/models", Ok("paths /v1/")),
            ("GET", "/v1/k%65ys", Err("deny /v1/keys")),
            ("GET", "/v1%2fkeys", Err("deny /v1/keys")),
            ("GET", "/v1/keyset", Ok("paths /v1/")),
            ("GET", "/repos/acme/x", Ok("paths /repos/acme")),
            ("POST", "/repos/acme/x/y", Err("deny POST /repos/acme/x")),
            ("GET", "/@a/b", Err("deny /@a%2Fb")),
        ] {
            let got = some.judge(method, &NormalPath::parse(path, true).unwrap());
            let want = match want {
                Ok(rule) => Verdict::Allowed(rule.to_owned()),
                Err(rule) => Verdict::Denied(rule.to_owned()),
            };
            assert_eq!(got, want, "{method} {path}");
        }
        let all = RequestRules::default();
        assert_eq!(
            all.judge("PUT", &NormalPath::parse("/", false).unwrap()),
            Verdict::Allowed("any path".into())
        );
    }

    #[test]
    fn wrong_rules_are_named() {
        let new = |methods: &[&str], paths: &[&str], deny: &[&str]| {
            let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
            RequestRules::new(&texts(methods), &texts(paths), &texts(deny), false).unwrap_err().to_string()
        };
        assert!(new(&["get"], &[], &[]).contains("capitals"));
        assert!(new(&["TRACE"], &[], &[]).contains("never pass"));
        assert!(new(&[], &["v1"], &[]).contains("slash"));
        assert!(new(&[], &["/v1/*"], &[]).contains("without *"));
        assert!(new(&[], &["GET /v1"], &[]).contains("GET /v1"));
        assert!(new(&[], &[], &["/a/../b"]).contains(".."));
        let many: Vec<String> = (0..=MAX_RULES).map(|n| format!("/{n}")).collect();
        assert!(RequestRules::new(&[], &many, &[], false).is_err());
    }

    proptest! {
        #[test]
        fn spelling_never_changes_the_verdict(
            path in "(/[a-c]{1,2}){1,4}", which in proptest::collection::vec(any::<bool>(), 12),
        ) {
            let rules = rules(&[], &["/a"], &["/a/b"]);
            let mut slashes = true;
            let spelled: String = path.bytes().enumerate().map(|(at, b)| {
                slashes = b == b'/';
                if !slashes && which[at % which.len()] { format!("%{b:02x}") } else { char::from(b).to_string() }
            }).collect();
            let (plain, spelled) = (NormalPath::parse(&path, true).unwrap(), NormalPath::parse(&spelled, true).unwrap());
            prop_assert_eq!(&plain, &spelled);
            let verdict = rules.judge("GET", &plain);
            prop_assert_eq!(&verdict, &rules.judge("GET", &spelled));
            let segments: Vec<&str> = path.split('/').skip(1).collect();
            let denied = segments[0] != "a" || segments.get(1) == Some(&"b");
            prop_assert_eq!(matches!(verdict, Verdict::Denied(_)), denied, "{}", path);
        }

        #[test]
        fn accepted_path_is_its_own_normal_form_or_free_of_ambiguity(path in "/[ -~]{0,20}", slash in any::<bool>()) {
            if let Ok(normal) = NormalPath::parse(&path, slash) {
                let text = normal.to_string();
                prop_assert!(!text.contains("//") && !text.contains('\\') && !text.contains('\0'));
                prop_assert!(text.split('/').all(|s| s != "." && s != ".."));
                prop_assert!(slash || !text.contains('%'));
            }
        }

        #[test]
        fn arbitrary_paths_cause_no_panic(path in ".{0,40}") {
            let _ = NormalPath::parse(&path, true);
        }
    }
}
