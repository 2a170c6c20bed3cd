//! `log`, `progress` and `cancelled`: communication with the people behind a call.

use std::time::{Duration, Instant};

use super::generated::hotcell::tool::{cancelled, log, progress};
use crate::Ask;
use crate::asker::line;
use crate::questions::PROGRESS_INTERVAL_MS;
use crate::runtime::state::State;

/// Maximum length of a log line, in bytes.
const MAX_LINE_BYTES: usize = 4_096;

/// Maximum length of a progress message, in bytes.
const MAX_MESSAGE_BYTES: usize = 256;

/// Minimum time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(PROGRESS_INTERVAL_MS);

impl log::Host for State {
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let (level, message) = match self.counts.lines {
            0 => return Ok(()),
            1 => ("warn", "further lines of this call are dropped".to_owned()),
            _ => (name(level), line(&message, MAX_LINE_BYTES)),
        };
        self.counts.lines -= 1;
        self.asker.ask(Ask::Log { level: level.to_owned(), message }).await;
        Ok(())
    }
}

impl progress::Host for State {
    async fn report(
        &mut self,
        done: u64,
        total: Option<u64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        let now = Instant::now();
        if self
            .counts
            .progress
            .is_some_and(|(last, before)| done < before || now.duration_since(last) < PROGRESS_INTERVAL)
        {
            return Ok(());
        }
        self.counts.progress = Some((now, done));
        let message = message.map(|message| line(&message, MAX_MESSAGE_BYTES));
        self.asker.ask(Ask::Progress { done, total, message }).await;
        Ok(())
    }
}

impl cancelled::Host for State {
    fn check(&mut self) -> wasmtime::Result<bool> {
        Ok(self.asker.cancel.is_cancelled())
    }
}

fn name(level: log::Level) -> &'static str {
    match level {
        log::Level::Debug => "debug",
        log::Level::Info => "info",
        log::Level::Warn => "warn",
        log::Level::Error => "error",
    }
}
