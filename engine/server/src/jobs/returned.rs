//! Files of a run that are returned to its caller, held in memory beside its output.

use std::sync::{Arc, PoisonError};

use hotcell_report::RunReport;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::outputs::{
    IntoMemory, KeptOutputs, MAX_PATTERNS, OutputLimits, OutputPattern, OutputRequest,
};

use crate::run::RunContext;

/// Limits of the files of one run.
const LIMITS: OutputLimits = OutputLimits { files: 100, file: 8 << 20, all: 16 << 20 };

/// Parses the patterns of a request.
///
/// # Errors
/// A report that names the field.
pub fn patterns(texts: &[String]) -> Result<Vec<OutputPattern>, ErrorReport> {
    let wrong = |why: String| ErrorReport::new(Code::InvalidValue, why).field("outputs");
    if texts.len() > MAX_PATTERNS {
        return Err(wrong(format!(
            "outputs has {} patterns; at most {MAX_PATTERNS} are allowed",
            texts.len()
        )));
    }
    texts
        .iter()
        .map(|text| OutputPattern::parse(text))
        .collect::<Result<_, _>>()
        .map_err(|why| wrong(why).hint("name files that the run writes, such as *.png or dist/**"))
}

/// Files that a run has to return.
#[derive(Debug)]
pub struct Returned {
    /// Request for them.
    pub request: OutputRequest,
    kept: KeptOutputs,
}

impl Returned {
    /// Files that match, and with `folder` those below `/home/sandbox/outputs`.
    pub fn of(patterns: Vec<OutputPattern>, folder: bool) -> Self {
        let kept = KeptOutputs::default();
        let request = OutputRequest::new(patterns, folder, LIMITS, Box::new(IntoMemory(Arc::clone(&kept))));
        Self { request, kept }
    }

    /// Keeps them with the run.
    pub fn keep(&self, desk: &RunContext, report: &mut RunReport) {
        let files = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        desk.keep_files(files);
        let is_empty =
            |outputs: &mut hotcell_report::Outputs| outputs.files.is_empty() && outputs.left.is_empty();
        if report.outputs.as_mut().is_some_and(is_empty) {
            report.outputs = None;
        }
    }
}
