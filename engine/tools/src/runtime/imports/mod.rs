//! hotcell's own imports: each request of a guest becomes an [`Ask`], and the reply becomes the result in
//! WIT. Makes no decisions about authority; the broker does.

mod bytes;
mod drafts;
mod execute;
mod report;
mod store;
#[cfg(test)]
mod tests;

use wasmtime::component::{HasSelf, Linker};

use crate::asker::Allowance;
use crate::questions::{MAX_LOG_LINES, MAX_OTHER_QUESTIONS, MAX_RUNS, MAX_SCANS};
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

/// Use of the resources that the WIT packages promise to limit, by one call.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Number of log lines that may still come.
    lines: u32,
    /// Last progress report: its time, and the amount done.
    progress: Option<(std::time::Instant, u64)>,
    runs: Allowance,
    scans: Allowance,
    /// Allowance for all other questions.
    questions: Allowance,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            lines: MAX_LOG_LINES,
            progress: None,
            runs: Allowance::new(MAX_RUNS),
            scans: Allowance::new(MAX_SCANS),
            questions: Allowance::new(MAX_OTHER_QUESTIONS),
        }
    }
}

pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    generated::Tool::add_to_linker::<_, HasSelf<State>>(linker, |state| state)?;
    drafts::add_to_linker(linker)
}
