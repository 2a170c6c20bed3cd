//! A server's log as JSON lines, for log collectors. Data sent by callers is left out.

use std::fmt::{self, Debug, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use hotcell_state::time::{micros_since_1970, rfc3339};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::MAX_LINE_CHARS;
use crate::options::in_options;

/// Target of events that may contain data sent by a caller, or messages of a program or plugin.
const CONTENTS: &str = "hotcell_contents";
/// Replacement for their message.
const LEFT_OUT: &str = "left out: it may have what a caller sent";

static ON: AtomicBool = AtomicBool::new(false);

/// Switches all output on standard error to JSON.
pub fn begin() {
    ON.store(true, Ordering::Relaxed);
    // The message of a panic may contain the data on which it failed.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        say("error", &format!("hotcell failed: panicked at {place}"));
    }));
}

/// Prints one of hotcell's lines, if the log is JSON; returns whether it is.
pub fn say(level: &str, message: &str) -> bool {
    if !ON.load(Ordering::Relaxed) {
        return false;
    }
    let fields = Map::from_iter([("message".to_owned(), json!(shortened(message)))]);
    let _ = std::io::stderr().write_all(line(&now(), level, "hotcell", fields).as_bytes());
    true
}

fn now() -> String {
    rfc3339(micros_since_1970(SystemTime::now()))
}

/// Whether an event may be in such a log: only hotcell's own events are known to contain no callers' data.
pub fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("hotcell")
}

fn line(time: &str, level: &str, target: &str, fields: Map<String, Value>) -> String {
    let mut all = Map::new();
    for (name, value) in [("time", time), ("level", level), ("target", target)] {
        all.insert(name.to_owned(), value.into());
    }
    all.extend(fields.into_iter().filter(|(name, _)| !["time", "level", "target"].contains(&name.as_str())));
    format!("{}\n", Value::Object(all))
}

fn shortened(text: &str) -> String {
    in_options(text).chars().take(MAX_LINE_CHARS).collect()
}

/// Formats events as `{"time":…,"level":…,"target":…,"message":…}`.
pub struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        if metadata.target() == CONTENTS {
            fields.put("message", LEFT_OUT.into());
            if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
                fields.put("at", format!("{file}:{line}").into());
            }
        } else {
            event.record(&mut fields);
        }
        let level = match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        out.write_str(&line(&now(), level, metadata.target(), fields.0))
    }
}

/// Collects the fields of an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.put(field.name(), shortened(&text).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), shortened(value).into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_line_is_one_bounded_object() {
        let fields = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<Map<_, _>>()
        };
        for (given, want) in [
            (fields(&[("message", "a\nb\u{1b}[2J\"")]), json!({ "message": "a\nb\u{1b}[2J\"" })),
            (fields(&[("level", "error"), ("message", "x")]), json!({ "message": "x" })),
            (fields(&[]), json!({})),
        ] {
            let line = line("T", "info", "hotcell", given);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            let mut read: Map<String, Value> = serde_json::from_str(&line).unwrap();
            let mut head = ["time", "level", "target"].map(|name| read.remove(name));
            assert_eq!(head.each_mut().map(Option::take), ["T", "info", "hotcell"].map(|v| Some(json!(v))));
            assert_eq!(Value::Object(read), want);
        }
        assert_eq!(shortened(&"ä".repeat(MAX_LINE_CHARS + 1)).chars().count(), MAX_LINE_CHARS);
    }
}
