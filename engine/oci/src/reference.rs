//! Names of what a registry has: `oci://HOST[:PORT]/NAME[:TAG][@sha256:…]`, by the grammar of the distribution project's reference package.

use std::fmt;

/// Scheme of a name.
pub const SCHEME: &str = "oci://";
/// Maximum length of a repository's name, in bytes.
const MAX_REPOSITORY_BYTES: usize = 255;
/// Maximum length of a tag, in bytes.
const MAX_TAG_BYTES: usize = 128;
/// Docker Hub as it is named, as it was named before, and as it is asked.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_HOST: &str = "index.docker.io";
/// Tag of a name without tag and digest.
const DEFAULT_TAG: &str = "latest";

/// Name of a manifest in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Reasons that a text is not such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// There is no host before the first `/`.
    #[error("it names no registry: oci://HOST[:PORT]/NAME[:TAG|@sha256:…]")]
    NoRegistry,
    /// The host is not valid.
    #[error("its registry is not a valid HOST[:PORT]")]
    Host,
    /// The repository's name is not valid.
    #[error(
        "its repository is not valid: lower-case letters and digits, with single '.' or '_', '__' or hyphens between them, in parts between '/', at most {MAX_REPOSITORY_BYTES} bytes"
    )]
    Repository,
    /// The tag is not valid.
    #[error("its tag is not valid: letters, digits, '_', '.' and '-', at most {MAX_TAG_BYTES} bytes")]
    Tag,
    /// The digest is not valid.
    #[error("its digest is not valid: sha256: and 64 lower-case hexadecimal digits")]
    Digest,
}

impl Reference {
    /// Parses a name, with or without [`SCHEME`]. The tag is `latest` where neither tag nor digest is given.
    ///
    /// # Errors
    /// [`ReferenceError`] for the first part that is not valid.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (registry, rest) = rest.split_once('/').ok_or(ReferenceError::NoRegistry)?;
        if !(registry.contains(['.', ':']) || registry == "localhost") {
            return Err(ReferenceError::NoRegistry);
        }
        if !is_registry(registry) {
            return Err(ReferenceError::Host);
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, digest.is_none().then_some(DEFAULT_TAG)),
        };
        let registry = if registry == DOCKER_HUB_HOST { DOCKER_HUB } else { registry };
        let repository = match registry == DOCKER_HUB && !repository.contains('/') {
            true => format!("library/{repository}"),
            false => repository.to_owned(),
        };
        if repository.len() > MAX_REPOSITORY_BYTES || !repository.split('/').all(is_part) {
            return Err(ReferenceError::Repository);
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag);
        }
        if digest.is_some_and(|digest| sha256(digest).is_none()) {
            return Err(ReferenceError::Digest);
        }
        let (tag, digest) = (tag.map(str::to_owned), digest.map(str::to_owned));
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }

    /// Registry as it was named: `HOST[:PORT]`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Registry as it is asked: Docker Hub's differs from its name.
    #[must_use]
    pub fn host(&self) -> &str {
        if self.registry == DOCKER_HUB { DOCKER_HUB_HOST } else { &self.registry }
    }

    /// Name of the repository in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Tag, if the name has one, or neither tag nor digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Digest, `sha256:` with 64 lower-case hexadecimal digits, if the name has one.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Digest if the name has one, otherwise the tag: what a registry is asked for.
    #[must_use]
    pub fn version(&self) -> &str {
        self.digest().or(self.tag()).unwrap_or(DEFAULT_TAG)
    }
}

impl fmt::Display for Reference {
    /// The whole name, without the scheme.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Bytes of a digest: `sha256:` with 64 lower-case hexadecimal digits. Other spellings would be other names of one digest.
pub(crate) fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits =
        text.strip_prefix("sha256:").filter(|digits| !digits.contains(|c: char| c.is_ascii_uppercase()))?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

/// Whether a text is a host name or IPv4 address with an optional port.
fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label) && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is a part of a repository's name between two `/`.
fn is_part(text: &str) -> bool {
    let is_letter = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_separator = |s: &[u8]| matches!(s, b"." | b"_" | b"__") || s.iter().all(|b| *b == b'-');
    let (bytes, ends) = (text.as_bytes(), [text.as_bytes().first(), text.as_bytes().last()]);
    ends.iter().all(|end| end.is_some_and(is_letter))
        && bytes.split(is_letter).filter(|between| !between.is_empty()).all(is_separator)
}

/// Whether a text is a tag.
fn is_tag(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= MAX_TAG_BYTES
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_of_a_name_are_found() {
        let digest = format!("sha256:{}", "0f".repeat(32));
        for (text, registry, repository, version) in [
            ("oci://localhost:5000/a/b:1", "localhost:5000", "a/b", "1"),
            ("localhost/a", "localhost", "a", "latest"),
            ("oci://example.org/a", "example.org", "a", "latest"),
            ("oci://docker.io/python:3", "docker.io", "library/python", "3"),
            ("oci://index.docker.io/a/b", "docker.io", "a/b", "latest"),
            (&format!("oci://example.org/a@{digest}"), "example.org", "a", &digest),
            (&format!("oci://example.org/a:1@{digest}"), "example.org", "a", &digest),
            ("oci://10.0.0.1:80/a-b__c.d/e_f:V-1.x_", "10.0.0.1:80", "a-b__c.d/e_f", "V-1.x_"),
        ] {
            let found = Reference::parse(text).unwrap();
            assert_eq!(
                (found.registry(), found.repository(), found.version()),
                (registry, repository, version)
            );
            assert_eq!(Reference::parse(&found.to_string()).unwrap(), found, "{text}");
        }
        assert_eq!(Reference::parse("docker.io/a").unwrap().host(), "index.docker.io");
    }

    #[test]
    fn wrong_part_of_a_name_is_told() {
        let upper = format!("oci://a.org/a@sha256:{}", "0F".repeat(32));
        let long = format!("oci://a.org/{}", "a".repeat(256));
        let tag = format!("oci://a.org/a:{}", "a".repeat(129));
        for (text, want) in [
            ("oci://python:3", ReferenceError::NoRegistry),
            ("oci://library/python", ReferenceError::NoRegistry),
            ("oci://", ReferenceError::NoRegistry),
            ("", ReferenceError::NoRegistry),
            ("oci://[::1]:5000/a", ReferenceError::Host),
            ("oci://a.org:/a", ReferenceError::Host),
            ("oci://a.org:x/a", ReferenceError::Host),
            ("oci://u@a.org/a", ReferenceError::Host),
            ("oci://-a.org/a", ReferenceError::Host),
            ("oci://a..org/a", ReferenceError::Host),
            ("oci://example.org/UPPER", ReferenceError::Repository),
            ("oci://a.org/", ReferenceError::Repository),
            ("oci://a.org/a//b", ReferenceError::Repository),
            ("oci://a.org/../b", ReferenceError::Repository),
            ("oci://a.org/a___b", ReferenceError::Repository),
            ("oci://a.org/a._b", ReferenceError::Repository),
            ("oci://a.org/a?b", ReferenceError::Repository),
            (&long, ReferenceError::Repository),
            ("oci://a.org/a:", ReferenceError::Tag),
            ("oci://a.org/a:.b", ReferenceError::Tag),
            ("oci://a.org/a:b/c", ReferenceError::Tag),
            (&tag, ReferenceError::Tag),
            ("oci://a.org/a@sha256:00", ReferenceError::Digest),
            ("oci://a.org/a@sha512:00", ReferenceError::Digest),
            (&upper, ReferenceError::Digest),
        ] {
            assert_eq!(Reference::parse(text), Err(want), "{text}");
        }
    }

    proptest! {
        /// `oci-client` has the grammar as a regular expression.
        #[test]
        fn names_are_those_of_another_parser(
            text in "(localhost|a\\.org|docker\\.io|index\\.docker\\.io|[a.:-]{1,5}):?[0-9]{0,2}/[a-c/._-]{1,8}(:[a-z._-]{0,3})?(@sha256:(0{64}|0{63}))?",
        ) {
            let theirs: Result<oci_client::Reference, _> = text.parse();
            match (Reference::parse(&text), theirs) {
                (Ok(ours), Ok(theirs)) => {
                    prop_assert_eq!(ours.registry(), theirs.registry());
                    prop_assert_eq!(ours.host(), theirs.resolve_registry());
                    prop_assert_eq!(ours.repository(), theirs.repository());
                    prop_assert_eq!((ours.tag(), ours.digest()), (theirs.tag(), theirs.digest()));
                    prop_assert_eq!(ours.to_string(), theirs.whole());
                }
                // A name without a registry is Docker Hub's there.
                (Err(ReferenceError::NoRegistry), _) | (Err(_), Err(_)) => {}
                (ours, theirs) => prop_assert!(false, "{text}: {ours:?}, {theirs:?}"),
            }
        }
    }
}
