//! Bytes of a server that are not messages of the protocol: shown, and limited.

use tokio::sync::broadcast;

use crate::error::foreign;
use crate::event::Event;
use crate::notes::Fault;

/// Maximum number of bytes between two messages that are not of the protocol.
pub const MAX_NOISE_BYTES: usize = 1 << 20;

/// Counts the bytes since the last message.
pub struct Noise {
    bytes: usize,
    events: broadcast::Sender<Event>,
    fault: Fault,
}

impl Noise {
    /// Noise of a connection that begins.
    pub const fn new(events: broadcast::Sender<Event>, fault: Fault) -> Self {
        Self { bytes: 0, events, fault }
    }

    /// Begins to count again, since a message came.
    pub const fn reset(&mut self) {
        self.bytes = 0;
    }

    /// Takes bytes that are not a message, and tells them unless they are to be counted only; `None`, with a fault, when there were too many.
    pub fn push(&mut self, bytes: &[u8], is_told: bool) -> Option<()> {
        self.bytes += bytes.len() + 1;
        if !is_told && self.bytes <= MAX_NOISE_BYTES {
            return Some(());
        }
        let text = foreign(&String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]));
        if self.bytes > MAX_NOISE_BYTES {
            self.fault.note(format!(
                "the server does not speak MCP: more than {MAX_NOISE_BYTES} bytes without a message, the last of them {text}"
            ));
            return None;
        }
        let _ = self.events.send(Event::Noise(text));
        Some(())
    }
}
