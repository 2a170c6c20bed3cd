//! `hotcell review`: evidence about a project or a file, and a model's opinion.

mod page;

use std::path::PathBuf;

use hotcell_agents::driver::Driver;
use hotcell_agents::{Depth, ReviewReport, ReviewRequest, Subject};
use hotcell_config::typed;
use hotcell_state::report::{Code, ErrorReport};

use crate::agents::{bench, driven, folder, limits};
use crate::args::{Common, DepthArg, ReviewArgs};
use crate::context::{configuration, current_folder};
use crate::exit::printed;
use crate::options::in_options;
use crate::{exit, usage};

/// Maximum of output tokens of an answer.
const MAX_OUTPUT_TOKENS: u32 = 4096;

/// Runs the command; returns its exit status.
pub fn review(common: &Common, args: &ReviewArgs) -> u8 {
    match run(common, args) {
        Ok(Some(report)) => print(common, report),
        Ok(None) => exit::INTERRUPTED,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn print(common: &Common, mut report: ReviewReport) -> u8 {
    report.no_tests = report.no_tests.as_deref().map(in_options);
    let code = u8::from(report.has_findings());
    let result = if common.json { exit::print_json(&report) } else { exit::print_text(&page::page(&report)) };
    printed(result, code)
}

fn run(common: &Common, args: &ReviewArgs) -> Result<Option<ReviewReport>, ErrorReport> {
    let bad = |why: String| {
        ErrorReport::new(Code::InvalidValue, format!("{}: {why}", args.path.display())).field("PATH")
    };
    let cwd = current_folder();
    typed::real_from(&cwd, &args.path, &[]).map_err(|e| bad(e.to_string()))?;
    let path = cwd
        .join(&args.path)
        .canonicalize()
        .map_err(|e| bad(format!("{e}; name a folder or a file that exists")))?;
    let limits = limits(&args.budget)?;
    let is_folder = path.is_dir();
    let project: Option<PathBuf> = is_folder.then(|| path.clone());
    let configuration = configuration(common, project)?;
    let folder = folder(common)?;
    let bench = bench(&folder)?;
    let workspace = if is_folder { Some(bench.make(&path)?) } else { None };
    let subject = match &workspace {
        Some(id) => Subject::Workspace { id: id.clone(), artifact: None, changed: Vec::new() },
        None => Subject::File(path.clone()),
    };
    let request = ReviewRequest {
        subject,
        name: path.to_string_lossy().into_owned(),
        depth: match args.depth {
            DepthArg::Quick => Depth::Quick,
            DepthArg::Standard => Depth::Standard,
            DepthArg::Comprehensive => Depth::Comprehensive,
        },
        model: args.model.clone(),
        limits,
        framework: args.framework.clone(),
        max_output_tokens: MAX_OUTPUT_TOKENS,
        task: None,
        base_prompt: None,
    };
    let work = async |driver: &Driver<'_>| driver.review(&request).await;
    let ended = driven(common, &configuration, (&folder, bench.clone()), (args.timeout, None, None), work);
    if let Some(id) = &workspace {
        bench.remove(id);
    }
    ended?.transpose()
}
