//! Reasons why an attempt at one endpoint failed, and which of them pass by themselves.

use std::time::Duration;

use hotcell_egress::{Secret, SecretError};
use hotcell_state::report::printable;

/// Maximum number of characters of a server's words in a message.
const MAX_WORDS: usize = 300;

/// Reason of a failed attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The key cannot be read; nothing was sent.
    #[error("{0}")]
    Key(String),
    /// The request cannot fit into the window; nothing was sent, since servers cut in silence.
    #[error("the request needs at least {least} tokens, and its window has {window}")]
    Window {
        /// Lower bound of the input, and the maximum of the output.
        least: u64,
        /// Window as configured.
        window: u32,
    },
    /// No connection; nothing was sent.
    #[error("no connection ({0})")]
    Connect(String),
    /// Nothing listens at an address of this machine; nothing was sent.
    #[error("no connection ({0}): no program listens at {1}")]
    NotListening(String, String),
    /// A status that is not a success.
    #[error("HTTP {status}{}{}", hint(*status), said(words))]
    Status {
        /// The status.
        status: u16,
        /// The server's words, shortened, without the key.
        words: String,
        /// Pause that the server asks for.
        retry_after: Option<Duration>,
    },
    /// A redirect, which is never followed: the key and the prompt are for the configured origin only.
    #[error("HTTP {status} sends to {to}, which is not followed; is the URL right?")]
    Redirect {
        /// The status.
        status: u16,
        /// Origin and path of the target.
        to: String,
    },
    /// The reply is too large.
    #[error("the reply is larger than {0} bytes")]
    TooLarge(usize),
    /// The reply broke off.
    #[error("the reply broke off ({0})")]
    Cut(String),
    /// No complete reply in time.
    #[error("no complete reply within {} s", .0.as_secs_f32().ceil())]
    Time(Duration),
    /// A web page in place of a reply.
    #[error("the reply is a web page{}; is the URL right?", said(.0))]
    WebPage(String),
    /// A reply that cannot be understood.
    #[error("{0}")]
    Reply(String),
}

fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => " (the key is not accepted)",
        404 => " (no such model or path)",
        402 => " (payment required)",
        429 => " (too many requests)",
        _ => "",
    }
}

fn said(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

impl Failure {
    /// Tells if another attempt at the endpoint may succeed: 429, 5xx, no connection. Errors of the request are not repeated, nor is a reply
    /// that broke off, which may have been paid for.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Connect(_) | Self::NotListening(..) => true,
            // 501: the server does not know the method.
            Self::Status { status, .. } => *status == 429 || (*status >= 500 && *status != 501),
            _ => false,
        }
    }

    /// Maximum number of attempts for this reason; `None` where time alone limits them. A server of this machine that is not there does not come by
    /// itself: one that is being restarted is there after the first pause.
    #[must_use]
    pub const fn most_attempts(&self) -> Option<u32> {
        match self {
            Self::NotListening(..) => Some(2),
            _ => None,
        }
    }

    /// Pause that the server asked for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Tells if the provider may have computed, and charged, a reply that did not arrive whole.
    #[must_use]
    pub fn maybe_charged(&self) -> bool {
        matches!(self, Self::Cut(_) | Self::Time(_) | Self::TooLarge(_) | Self::Reply(_))
    }
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Self {
        Self::Key(error.to_string())
    }
}

/// Words of a server for a message: one line of visible characters, shortened, and without the key, which servers repeat in errors.
#[must_use]
pub fn words(bytes: &[u8], key: Option<&Secret>) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if let Some(key) = key.and_then(|key| std::str::from_utf8(key.expose()).ok()) {
        text = text.replace(key, "***");
    }
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = printable(&one_line);
    match shown.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> Failure {
        Failure::Status { status, words: String::new(), retry_after: None }
    }

    #[test]
    fn only_passing_failures_are_repeated() {
        for code in [429, 500, 502, 503, 504, 529] {
            assert!(status(code).passes(), "{code}");
        }
        for code in [400, 401, 402, 403, 404, 408, 409, 413, 422, 501] {
            assert!(!status(code).passes(), "{code}");
        }
        let (far, here) =
            (Failure::Connect(String::new()), Failure::NotListening(String::new(), String::new()));
        assert!(far.passes() && far.most_attempts().is_none());
        assert!(here.passes() && here.most_attempts() == Some(2) && !here.maybe_charged());
        for once in [
            Failure::Cut(String::new()),
            Failure::Time(Duration::ZERO),
            Failure::TooLarge(1),
            Failure::Reply(String::new()),
        ] {
            assert!(!once.passes() && once.maybe_charged(), "{once}");
        }
        assert!(!status(500).maybe_charged());
    }

    #[test]
    fn words_of_servers_are_short_visible_and_without_the_key() {
        let key = Secret::new(b"sk-secret".to_vec()).unwrap();
        let text = "Bad key\n \"sk-secret\" \u{1b}[31mred\u{202e}";
        let shown = words(text.as_bytes(), Some(&key));
        assert!(shown.starts_with("Bad key \"***\"") && !shown.contains('\u{1b}'), "{shown}");
        assert!(!shown.contains('\u{202e}'));
        assert_eq!(words(&[b'a'; 5000], None).chars().count(), MAX_WORDS + 1);
    }
}
