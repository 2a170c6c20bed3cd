//! Advice for a refusal that is due to a missing layer.
//!
//! | module | idea |
//! | --- | --- |
//! | `facts` | facts about the host that the wording depends on |
//! | `mend` | how to make a layer available |
//! | `reasons` | reasons that the doctor gives, and the advice recognises |

pub(crate) mod facts;
pub(crate) mod mend;
pub(crate) mod reasons;

use crate::ids::Mapping;
use crate::refusal::{LACKS, Refusal};

/// Adds advice for this host to a refusal that is due to a missing layer.
pub(crate) fn advise(refusal: Refusal) -> Refusal {
    match refusal.layer {
        Some(layer) if refusal.message.contains(LACKS) => {
            let facts = facts::look(Mapping::of_this_process());
            Refusal { message: mend::line(layer, &refusal.message, &facts), ..refusal }
        }
        _ => refusal,
    }
}
