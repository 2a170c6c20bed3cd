//! Reason why nothing was run.

use crate::layer::Layer;
use crate::outcome::{Cause, LayerState, Outcome};

/// Phrase that precedes the attempted operation in a refusal for a missing layer; it marks the refusals for
/// which advice is useful.
pub const LACKS: &str = "cannot be had: ";

/// The reason why nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// `refused`, `not_found`, `not_executable` or `internal`.
    pub cause: Cause,
    /// The layer that was not available.
    pub layer: Option<Layer>,
    /// Resource that this process lacked for a moment.
    pub lacks: Option<Lack>,
    /// Description of the failure, with advice.
    pub message: String,
}

/// Resource that a process may lack for a moment. Other runs give some back when they end, so a retry may
/// succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// File descriptors of its own.
    Descriptors,
}

/// The advice in every message about descriptors that this process lacks.
pub(crate) const MORE_DESCRIPTORS: &str = "raise `ulimit -n` or run fewer at once";

impl Refusal {
    /// A policy that cannot be met.
    pub fn new(message: impl Into<String>) -> Self {
        Self { cause: Cause::Refused, layer: None, lacks: None, message: message.into() }
    }
    /// A failure inside hotcell.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { cause: Cause::Internal, layer: None, lacks: None, message: message.into() }
    }
    /// This process has no descriptor left for what `message` says.
    pub(crate) fn without_descriptors(message: &str) -> Self {
        Self { lacks: Some(Lack::Descriptors), ..Self::internal(format!("{message}; {MORE_DESCRIPTORS}")) }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        let Refusal { cause, layer, lacks: _, message } = refusal;
        let mut outcome = Self::without_a_run(cause, message.clone());
        outcome.layers.states.extend(layer.map(|layer| (layer, LayerState::Unavailable(message))));
        outcome
    }
}
