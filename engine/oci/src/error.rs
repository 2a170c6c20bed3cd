//! Errors of a registry, each with the name of what was asked for.

/// Reasons that a registry, or another server, gave nothing that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The request failed, or was refused.
    #[error("{place}: {why}")]
    Unreadable {
        /// Name of what was asked for.
        place: String,
        /// Reason, and what to do.
        why: String,
    },
    /// The content has another digest than it must have.
    #[error("{place} has the digest sha256:{}, and must have sha256:{}", hex::encode(.found), hex::encode(.promised))]
    Digest {
        /// Name of the content.
        place: String,
        /// SHA-256 digest that it must have.
        promised: [u8; 32],
        /// SHA-256 digest that it has.
        found: [u8; 32],
    },
    /// The answer is too long.
    #[error("{place} is longer than {most} bytes")]
    Long {
        /// Name of the content.
        place: String,
        /// Maximum size in bytes.
        most: u64,
    },
}

impl RegistryError {
    pub(crate) fn unreadable(place: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Unreadable { place: place.to_string(), why: why.to_string() }
    }
}

/// Adds the causes of an error to `text`, the text for the outermost one: some errors' outermost message says only that sending failed.
#[must_use]
pub fn with_causes(mut text: String, error: &dyn std::error::Error) -> String {
    let mut inner = error.source();
    while let Some(cause) = inner {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        inner = cause.source();
    }
    text
}
