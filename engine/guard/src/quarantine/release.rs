//! A release by a person: of this artifact, scanned under these rules, for a number of runs and a limited
//! time.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::limits::Limits;

/// A release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Digest of the artifact.
    pub artifact: String,
    /// Digest of the scan's conditions: [`policy_digest`].
    pub policy: String,
    /// Time when it ends, in microseconds since 1970.
    pub expires_us: i64,
    /// Number of runs left.
    pub uses: u32,
}

/// Why a release does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncovered {
    /// The artifact differs, if only by one byte.
    #[error("it is of another artifact")]
    OtherArtifact,
    /// The rules, the version of hotcell, or the limits differ.
    #[error("it was made under other rules")]
    OtherPolicy,
    /// The release has expired.
    #[error("it has expired")]
    Expired,
    /// No runs are left.
    #[error("it is used up")]
    UsedUp,
}

impl Release {
    /// Checks that the release lets an artifact run now.
    ///
    /// # Errors
    /// [`Uncovered`], the first reason in this order: artifact, policy, time, uses.
    pub fn covers(&self, artifact: &str, policy: &str, now_us: i64) -> Result<(), Uncovered> {
        if self.artifact != artifact {
            return Err(Uncovered::OtherArtifact);
        }
        if self.policy != policy {
            return Err(Uncovered::OtherPolicy);
        }
        if now_us >= self.expires_us {
            return Err(Uncovered::Expired);
        }
        if self.uses == 0 {
            return Err(Uncovered::UsedUp);
        }
        Ok(())
    }
}

/// Digest of everything that a scan's result depends on besides the artifact: this build of the crate
/// ([`crate::BUILD`]), the user's own rules (file names without folders, and texts), and the limits. sha256
/// in hexadecimal.
#[must_use]
pub fn policy_digest(rules: &[(String, String)], limits: &Limits) -> String {
    let mut hash = Sha256::new();
    let limits = format!("{limits:?}");
    let base = ["hotcell-guard", crate::BUILD, &limits];
    let names =
        rules.iter().flat_map(|(name, text)| [name.rsplit('/').next().unwrap_or(name), text.as_str()]);
    for field in base.into_iter().chain(names) {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_covers_only_released_artifact() {
        let release = |uses| Release { artifact: "a".into(), policy: "p".into(), expires_us: 100, uses };
        for (uses, artifact, policy, now, want) in [
            (1, "a", "p", 0, Ok(())),
            (1, "a", "p", 99, Ok(())),
            (1, "a", "p", 100, Err(Uncovered::Expired)),
            (0, "a", "p", 0, Err(Uncovered::UsedUp)),
            (1, "b", "p", 0, Err(Uncovered::OtherArtifact)),
            (1, "a", "q", 0, Err(Uncovered::OtherPolicy)),
            (0, "b", "q", 100, Err(Uncovered::OtherArtifact)),
        ] {
            assert_eq!(release(uses).covers(artifact, policy, now), want, "{uses} {artifact} {policy} {now}");
        }
    }

    #[test]
    fn policy_digest_covers_rules_and_limits() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let limits = Limits::default();
        let of = policy_digest;
        let builtin = of(&[], &limits);
        assert_ne!(builtin, of(&[file("a.yml", "x")], &limits));
        assert_ne!(of(&[file("a.yml", "x")], &limits), of(&[file("a.yml", "y")], &limits));
        assert_ne!(of(&[file("a.yml", "x")], &limits), of(&[file("a.yml", ""), file("x", "")], &limits));
        assert_eq!(of(&[file("/here/a.yml", "x")], &limits), of(&[file("/there/a.yml", "x")], &limits));
        assert_ne!(builtin, of(&[], &Limits { depth: 7, ..Limits::default() }));
    }
}
