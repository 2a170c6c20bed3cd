//! Words of plugins, for a model.

use hotcell_plugins::failures::report_of;
use hotcell_state::report::ErrorReport;
use hotcell_tools::CallError;

use crate::MAX_CONTENT_CHARS;
use crate::fitted;
use crate::text::{barred, beginning};

/// Error of a call, without paths of this host.
pub(crate) fn failed(error: &CallError) -> ErrorReport {
    let mut report = report_of(error);
    match error {
        CallError::Arguments { .. } => report = report.hint("see the tool's input schema"),
        // The trace has names that the component's author chose, so each is on its own line behind a bar.
        CallError::Trap { message, frames, .. } => {
            report.message = format!("trapped:\n{message}");
            for (number, frame) in frames.iter().enumerate() {
                let word = if number == 0 { "in" } else { "called by" };
                report.message.push_str(&format!("\n  {word} {frame}"));
            }
        }
        CallError::Refused { message } => report.message = format!("the tool is not run:\n{message}"),
        // The message names files of this host.
        CallError::Host { message } => {
            tracing::warn!(target: "hotcell_contents", "a tool could not be run: {message}");
            report.message = "the tool could not be run on this host; hotcell's log says why".to_owned();
        }
        _ => {}
    }
    report
}

/// A plugin's text behind bars, with head and tail of what is too long for a model.
pub(crate) fn quoted(text: &str) -> String {
    let (mut words, mut room) = (barred(text), MAX_CONTENT_CHARS);
    while beginning(&words, MAX_CONTENT_CHARS) < words.len() && room > 64 {
        words = barred(&fitted::text(text, room).0);
        room = room / 4 * 3;
    }
    words
}
