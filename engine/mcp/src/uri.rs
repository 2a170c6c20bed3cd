//! URIs of resources.

use hotcell_server::Stream;

/// URI of a run's stream.
#[must_use]
pub fn uri_of_stream(run: &str, stream: Stream) -> String {
    format!("hotcell://runs/{run}/{}", stream.name())
}

/// URI of a run's receipt.
#[must_use]
pub fn uri_of_receipt(run: &str) -> String {
    format!("hotcell://runs/{run}/receipt")
}

/// URI of a receipt of a session, from 1: each reset ends a session with a receipt of its own.
#[must_use]
pub fn uri_of_session_receipt(session: &str, number: usize) -> String {
    format!("hotcell://session-receipts/{session}/{number}")
}

/// URI of a file that a run returned.
#[must_use]
pub fn uri_of_output(run: &str, path: &str) -> String {
    format!("hotcell://runs/{run}/files/{}", encoded(path))
}

/// URI of a file that a cell of a session returned.
#[must_use]
pub fn uri_of_session_file(session: &str, path: &str) -> String {
    format!("hotcell://sessions/{session}/{}", encoded(path))
}

/// Media type of an archive.
pub const TAR: &str = "application/x-tar";

/// URI of a workspace's archive.
#[must_use]
pub fn uri_of_archive(workspace: &str) -> String {
    format!("hotcell://exports/{workspace}")
}

/// URI of a tool's answer that was too long to be shown whole.
#[must_use]
pub fn uri_of_answer(id: &str) -> String {
    format!("hotcell://answers/{id}")
}

/// URI of a session's archive, with or without its events.
#[must_use]
pub fn uri_of_handoff(session: &str, audit: bool) -> String {
    let end = if audit { "" } else { "/no-audit" };
    format!("hotcell://handoffs/{session}{end}")
}

/// Decodes a percent-encoded path; `None` when it is not UTF-8 or a code is broken.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit = |b: u8| char::from(b).to_digit(16);
            u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes a path, slashes excepted.
pub(crate) fn encoded(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    path.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
