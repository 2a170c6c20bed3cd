//! Warnings of the libraries on standard error, in the format of hotcell's own lines. `-v` shows more of
//! them.

pub mod json;

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{Common, LogFormat};
use crate::options::in_options;
use crate::terminal::screen;
use hotcell_state::report::printable;

/// Starts logging. A line that cannot be written is lost: told by `eprintln!`, it would end the program, whose standard error is closed.
pub fn start(common: &Common, form: LogFormat) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => Level::ERROR,
        (false, 0) => Level::WARN,
        (false, 1) => Level::INFO,
        (false, 2) => Level::DEBUG,
        _ => Level::TRACE,
    };
    if form == LogFormat::Json {
        json::begin();
        let _ = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .log_internal_errors(false)
            .event_format(json::Json)
            .finish()
            .with(filter_fn(json::is_ours))
            .try_init();
        return;
    }
    // The protocol's library logs errors of clients; they are told directly, and this log is not for them.
    let protocol = if level <= Level::WARN { LevelFilter::OFF } else { level.into() };
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .event_format(Line)
        .finish()
        .with(Targets::new().with_default(level).with_target("rmcp", protocol))
        .try_init();
}

/// Maximum length of a line in characters.
const MAX_LINE_CHARS: usize = 2_000;

/// Formats events as `hotcell: warning: …`.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = FormattedFields::<N>::new(String::new());
        context.format_fields(fields.as_writer(), event)?;
        let word = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        let shown: String = printable(&in_options(&fields.fields)).chars().take(MAX_LINE_CHARS).collect();
        writeln!(out, "{}hotcell: {word}: {shown}", screen::begin_line())
    }
}
