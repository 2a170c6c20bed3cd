//! Parts of a receipt from before its run starts: the key, and facts about the run.

use hotcell_config::Configuration;
use hotcell_guard::quarantine::Channel;
use hotcell_receipts::{Issuer, Subject};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_verbs::in_force::InForce;

/// The maker of receipts, if each run gets one. The key is read now: a service that cannot sign does not start.
pub(crate) fn issuer(
    configuration: &Configuration,
    state: &StateFolder,
) -> Result<Option<Issuer>, ErrorReport> {
    let asker = Some((Channel::Own, StateChoice::Named(state.path().to_owned())));
    let configuration = Configuration { asker, ..configuration.clone() };
    Issuer::always(&configuration).map_err(|error| {
        ErrorReport::new(Code::Configuration, format!("receipts.always: {error}")).field("receipts")
    })
}

/// Facts for a run's receipt that are known before it starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiptFacts {
    pub subjects: Vec<Subject>,
    pub in_force: Option<InForce>,
    pub image: Option<String>,
    pub image_digest: Option<String>,
    pub guard: Option<String>,
}
