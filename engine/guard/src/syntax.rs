//! Parsing with tree-sitter within the limits of a scan.

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser};

use crate::context::Cx;

/// Parses until the time limit: some texts are far more expensive than their length for a parser that tries
/// several readings at once.
pub(crate) fn parsed(cx: &mut Cx<'_>, parser: &mut Parser, text: &str) -> Option<tree_sitter::Tree> {
    let mut late =
        |_: &ParseState| if cx.late() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let options = ParseOptions::new().progress_callback(&mut late);
    parser.parse_with_options(&mut |at, _| text.as_bytes().get(at..).unwrap_or_default(), None, Some(options))
}
