//! Steps of a session, which are its cells and the pieces of files that are put in, by their digests: for who states what ran. Bounded, however many there are.

use sha2::{Digest, Sha256};

/// Maximum number of steps that are listed: some 150 bytes each in a receipt, which has 4 KB without them. All of them are in the digest.
pub const MAX_LISTED: usize = 32;

/// Status of a step whose end was not followed: its caller went away, and the next one began.
const LOST: &str = "lost";

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A cell; the input is its code.
    Cell,
    /// A piece of a file; the input is its path, a zero byte and the piece.
    Upload,
}

impl StepKind {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Upload => "upload",
        }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kind.
    pub kind: StepKind,
    /// SHA-256 of the input.
    pub sha256: String,
    /// Name of the status; `lost` where the end was not followed.
    pub status: &'static str,
}

/// All steps of a session.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    listed: Vec<Step>,
    cells: u64,
    uploads: u64,
    not_ok: u64,
    inputs: Sha256,
    all: Sha256,
    open: Option<(StepKind, String)>,
}

impl Steps {
    /// Begins a step with this input, which ends the one before.
    pub(crate) fn begin(&mut self, kind: StepKind, input: &[&[u8]]) {
        self.end(LOST);
        let mut digest = Sha256::new();
        input.iter().for_each(|part| digest.update(part));
        self.open = Some((kind, hex::encode(digest.finalize())));
    }

    /// Ends the step that has begun, if it has not ended yet.
    pub(crate) fn end(&mut self, status: &'static str) {
        let Some((kind, sha256)) = self.open.take() else { return };
        match kind {
            StepKind::Cell => self.cells += 1,
            StepKind::Upload => self.uploads += 1,
        }
        self.not_ok += u64::from(status != "ok");
        let name = kind.name();
        self.inputs.update(format!("{name}\0{sha256}\n"));
        self.all.update(format!("{name}\0{sha256}\0{status}\n"));
        if self.listed.len() < MAX_LISTED {
            self.listed.push(Step { kind, sha256, status });
        }
    }

    /// The first steps, at most [`MAX_LISTED`].
    #[must_use]
    pub fn listed(&self) -> &[Step] {
        &self.listed
    }

    /// Number of cells, those that the guard refused included.
    #[must_use]
    pub const fn cells(&self) -> u64 {
        self.cells
    }

    /// Number of pieces of files.
    #[must_use]
    pub const fn uploads(&self) -> u64 {
        self.uploads
    }

    /// Number of steps with another status than `ok`.
    #[must_use]
    pub const fn not_ok(&self) -> u64 {
        self.not_ok
    }

    /// SHA-256 of one line for each step: kind and digest, with a zero byte between.
    #[must_use]
    pub fn inputs_sha256(&self) -> String {
        hex::encode(self.inputs.clone().finalize())
    }

    /// As [`Steps::inputs_sha256`], with a zero byte and the status behind.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex::encode(self.all.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_in_the_digests_and_the_first_ones_in_the_list() {
        let of = |steps: &[(StepKind, &str, Option<&'static str>)]| {
            let mut all = Steps::default();
            for (kind, input, status) in steps {
                all.begin(*kind, &[input.as_bytes()]);
                if let Some(status) = status {
                    all.end(status);
                }
            }
            all.end("died");
            all.end("died");
            all
        };
        let base = [(StepKind::Cell, "a", Some("ok")), (StepKind::Upload, "b", Some("ok"))];
        let first = of(&base);
        assert_eq!((first.cells(), first.uploads(), first.not_ok()), (1, 1, 0));
        let line = format!("cell\0{}\n", hex::encode(Sha256::digest("a")));
        assert_eq!(of(&base[..1]).inputs_sha256(), hex::encode(Sha256::digest(line)));
        for (steps, same_inputs, not_ok) in [
            ([(StepKind::Cell, "a", Some("error")), base[1]], true, 1),
            ([base[0], (StepKind::Upload, "b", None)], true, 1),
            ([(StepKind::Cell, "a", None), base[1]], true, 1),
            ([(StepKind::Cell, "c", Some("ok")), base[1]], false, 0),
            ([(StepKind::Upload, "a", Some("ok")), base[1]], false, 0),
            ([base[1], base[0]], false, 0),
        ] {
            let other = of(&steps);
            assert_eq!(other.inputs_sha256() == first.inputs_sha256(), same_inputs, "{steps:?}");
            assert_ne!(other.sha256(), first.sha256(), "{steps:?}");
            assert_eq!(other.not_ok(), not_ok, "{steps:?}");
        }
        let statuses = |all: &Steps| all.listed().iter().map(|step| step.status).collect::<Vec<_>>();
        assert_eq!(
            statuses(&of(&[(StepKind::Cell, "a", None), (StepKind::Cell, "a", None)])),
            [LOST, "died"]
        );
        let many = vec![base[0]; MAX_LISTED + 1];
        let (all, fewer) = (of(&many), of(&many[1..]));
        assert_eq!(all.listed(), fewer.listed());
        assert_ne!(all.sha256(), fewer.sha256());
        assert_eq!(all.cells(), MAX_LISTED as u64 + 1);
    }
}
