//! The imports of our own: what a guest asks becomes an [`Ask`], and the reply becomes what WIT says. Decides nothing about
//! authority; that is the broker's.

mod bytes;
mod execute;
mod report;
mod store;
#[cfg(test)]
mod tests;

use wasmtime::component::{HasSelf, Linker};

use crate::asker::Allowance;
use crate::questions::{LINES, QUESTIONS, RUNS, SCANS};
use crate::state::State;

pub(crate) use bytes::Blob;

#[allow(missing_docs, reason = "written by a macro, documented in WIT")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "hotcell:tool/tool",
        imports: {
            "hotcell:tool/cancelled": trappable,
            "hotcell:tool/blob": trappable,
            default: async | trappable,
        },
        with: {
            "hotcell:tool/blob.blob": super::bytes::Blob,
            "hotcell:tool/secret.handle": super::store::Secret,
        },
    });
}

/// What a call has used of what the WIT packages promise to limit.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Lines of the log that may still come.
    lines: u32,
    /// The last report of progress: when, and how much was done.
    progress: Option<(std::time::Instant, u64)>,
    runs: Allowance,
    scans: Allowance,
    /// Every other question.
    questions: Allowance,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            lines: LINES,
            progress: None,
            runs: Allowance::new(RUNS),
            scans: Allowance::new(SCANS),
            questions: Allowance::new(QUESTIONS),
        }
    }
}

pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    generated::Tool::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}
