//! Settings of a client.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::ClientLifecycleMode;

use crate::backoff::Backoff;
use crate::host::Host;

/// Bounds, and what happens when a connection is lost.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time until a new server has answered `initialize`. Default: 60 s, since a package may be installed first.
    pub connect_within: Duration,
    /// Time for a list or a ping. Default: 30 s.
    pub list_within: Duration,
    /// Maximum size of a message in bytes. Default: 16 MiB. Over HTTP, an answer that is not an event stream is bound to 16 MiB in any case.
    pub max_message_bytes: usize,
    /// Maximum number of tools. Default: 2,000.
    pub max_tools: usize,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// Attempts in a row after a lost connection until the client gives up. Default: `None`, never. `Some(0)`: no attempt.
    pub attempts: Option<u32>,
    /// Revision of the protocol.
    pub revision: Revision,
    /// Answers what a server asks of its client. Default: `None`, all of it is refused.
    pub host: Option<Arc<dyn Host>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(60),
            list_within: Duration::from_secs(30),
            max_message_bytes: 16 << 20,
            max_tools: 2_000,
            backoff: Backoff::default(),
            attempts: None,
            revision: Revision::default(),
            host: None,
        }
    }
}

/// Revision of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revision {
    /// 2025-11-25 and older, beginning with `initialize`: nearly every server of today.
    #[default]
    Initialize,
    /// 2026-07-28, beginning with `server/discover`; with `initialize` for a server that does not know it.
    Discover,
}

impl Revision {
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
        }
    }
}
