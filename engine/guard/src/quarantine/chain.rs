//! Digest chain of the audit log: each entry's digest covers the entry and the previous digest.
//!
//! The chain reveals entries that were changed, removed, added or moved inside the log. A user who can write
//! the whole log can forge it with new digests: only a digest noted elsewhere reveals that (the heads in
//! [`Chain::verify`]).

use std::borrow::Borrow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Predecessor digest of the first entry.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Sequence number, from 1.
    pub seq: u64,
    /// Time, in microseconds since 1970.
    pub time_us: i64,
    /// Channel used: `cli`, `web`, `mcp:CALLER`, `hotcell`.
    pub channel: String,
    /// User id and name.
    pub actor: String,
    /// Action.
    pub action: String,
    /// Digest of the artifact.
    pub subject: String,
    /// Reasons and terms.
    pub detail: String,
    /// Digest of the previous entry; 64 zeros for the first.
    pub prev: String,
    /// sha256, in hexadecimal, of `hotcell.audit/1` and the fields above, each as `LENGTH:TEXT,`.
    pub hash: String,
}

impl Entry {
    /// The correct digest of this entry.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let (seq, time) = (self.seq.to_string(), self.time_us.to_string());
        for field in [
            "hotcell.audit/1",
            &seq,
            &time,
            &self.channel,
            &self.actor,
            &self.action,
            &self.subject,
            &self.detail,
            &self.prev,
        ] {
            hash.update(field.len().to_string());
            hash.update(":");
            hash.update(field);
            hash.update(",");
        }
        hex::encode(hash.finalize())
    }

    /// Appends the entry to `last`: sets number, link and digest.
    #[must_use]
    pub fn after(mut self, last: Option<&Head>) -> Self {
        self.seq = last.map_or(1, |head| head.seq + 1);
        self.prev = last.map_or_else(|| GENESIS.to_owned(), |head| head.hash.clone());
        self.hash = self.digest();
        self
    }

    /// Head of a log that ends with this entry.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { seq: self.seq, hash: self.hash.clone() }
    }
}

/// Head of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// Number of the last entry.
    pub seq: u64,
    /// Digest of the last entry.
    pub hash: String,
}

/// Damage to a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A number is missing or out of order.
    #[error("entry {wanted} is missing: {found} stands in its place")]
    Missing {
        /// Expected number.
        wanted: u64,
        /// Number found.
        found: u64,
    },
    /// The digest does not match the fields.
    #[error("entry {0} was changed")]
    Changed(u64),
    /// The entry does not follow the previous one.
    #[error(
        "entry {0} does not follow the one before: what stood between was taken out, or it was made anew"
    )]
    Unlinked(u64),
    /// The log was longer.
    #[error("the log ends at entry {last}, and {known} was its end: what came after {last} was taken out")]
    Shortened {
        /// Last entry.
        last: u64,
        /// Known head.
        known: u64,
    },
    /// An entry with a known digest has another one.
    #[error("entry {0} is not the one that was noted as the log's end: the log was made anew")]
    Replaced(u64),
}

/// Verifies a log entry by entry.
#[derive(Debug, Default)]
pub struct Chain {
    last: Option<Head>,
}

impl Chain {
    /// Checks the next entry.
    ///
    /// # Errors
    /// [`Broken`] when the entry is damaged, or does not follow the last one.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Broken> {
        let wanted = self.last.as_ref().map_or(1, |head| head.seq + 1);
        if entry.seq != wanted {
            return Err(Broken::Missing { wanted, found: entry.seq });
        }
        if entry.digest() != entry.hash {
            return Err(Broken::Changed(entry.seq));
        }
        if entry.prev != self.last.as_ref().map_or(GENESIS, |head| head.hash.as_str()) {
            return Err(Broken::Unlinked(entry.seq));
        }
        self.last = Some(entry.head());
        Ok(())
    }

    /// Checks a whole log: every entry, and that each of the `known` heads is in it.
    ///
    /// # Errors
    /// [`Broken`] for the first damage found.
    pub fn verify(
        entries: impl IntoIterator<Item = impl Borrow<Entry>>,
        known: &[Head],
    ) -> Result<Option<Head>, Broken> {
        let mut chain = Self::default();
        for entry in entries {
            let entry = entry.borrow();
            chain.push(entry)?;
            if known.iter().any(|head| head.seq == entry.seq && head.hash != entry.hash) {
                return Err(Broken::Replaced(entry.seq));
            }
        }
        let last = chain.last.as_ref().map_or(0, |head| head.seq);
        match known.iter().map(|head| head.seq).max().filter(|known| *known > last) {
            Some(known) => Err(Broken::Shortened { last, known }),
            None => Ok(chain.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(texts: &[(String, String)]) -> Vec<Entry> {
        let mut all: Vec<Entry> = Vec::new();
        for (number, (action, detail)) in texts.iter().enumerate() {
            let entry = Entry {
                seq: 0,
                time_us: 1_000_000 + i64::try_from(number).unwrap(),
                channel: "cli".to_owned(),
                actor: "0 (root)".to_owned(),
                action: action.clone(),
                subject: "ab".to_owned(),
                detail: detail.clone(),
                prev: String::new(),
                hash: String::new(),
            };
            let head = all.last().map(Entry::head);
            all.push(entry.after(head.as_ref()));
        }
        all
    }

    fn head(log: &[Entry]) -> Vec<Head> {
        log.last().map(Entry::head).into_iter().collect()
    }

    #[test]
    fn shortened_log_fails_verification() {
        assert_eq!(Chain::verify(&[] as &[Entry], &[]), Ok(None));
        let all = log(&[("a".into(), "b".into()), ("c".into(), "d".into())]);
        assert_eq!(Chain::verify(&all, &head(&all)), Ok(Some(all[1].head())));
        let short = Chain::verify(&all[..1], &head(&all));
        assert_eq!(short, Err(Broken::Shortened { last: 1, known: 2 }));
        assert_eq!(Chain::verify(&[] as &[Entry], &head(&all)), Err(Broken::Shortened { last: 0, known: 2 }));
        // A head that was written before the last entry is valid.
        assert!(Chain::verify(&all, &head(&all[..1])).is_ok());
        let anew = log(&[("a".into(), "b".into()), ("c".into(), "e".into())]);
        assert_eq!(Chain::verify(&anew, &head(&all)), Err(Broken::Replaced(2)));
    }

    proptest! {
        #[test]
        fn any_log_change_fails_verification(
            texts in prop::collection::vec((".{0,8}", ".{0,8}"), 2..12),
            at in any::<prop::sample::Index>(),
            with in any::<prop::sample::Index>(),
            field in 0..9usize,
            what in 0..4usize,
        ) {
            let good = log(&texts);
            prop_assert!(Chain::verify(&good, &head(&good)).is_ok());
            let mut bad = good.clone();
            let (at, with) = (at.index(bad.len()), with.index(bad.len()));
            match what {
                0 => {
                    let entry = &mut bad[at];
                    match field {
                        0 => entry.seq += 1,
                        1 => entry.time_us += 1,
                        2 => entry.channel.push('x'),
                        3 => entry.actor.push('x'),
                        4 => entry.action.push('x'),
                        5 => entry.subject.push('x'),
                        6 => entry.detail.push('x'),
                        7 => entry.prev = hex::encode([7; 32]),
                        _ => entry.hash = hex::encode([7; 32]),
                    }
                }
                1 => drop(bad.remove(at)),
                2 => bad.swap(at, with),
                // Recomputes the following digests, as a knowledgeable attacker would.
                _ => {
                    bad[at].detail.push('x');
                    for n in at..bad.len() {
                        let before = n.checked_sub(1).map(|b| bad[b].head());
                        bad[n] = bad[n].clone().after(before.as_ref());
                    }
                }
            }
            prop_assume!(bad != good);
            prop_assert!(Chain::verify(&bad, &head(&good)).is_err());
        }

        #[test]
        fn fields_cannot_be_moved_into_each_other(a in ".{0,6}", b in ".{0,6}", cut in 0..6usize) {
            let joined = format!("{a}{b}");
            let cut = joined.floor_char_boundary(cut.min(joined.len()));
            let (c, d) = joined.split_at(cut);
            prop_assume!(c != a);
            let one = log(&[(a, b)]);
            let two = log(&[(c.to_owned(), d.to_owned())]);
            prop_assert_ne!(&one[0].hash, &two[0].hash);
        }
    }
}
