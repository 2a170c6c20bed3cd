//! Reports which layers this host can enforce, determined by trying them: `hotcell.doctor/1`.
//!
//! [`examine`] makes throw-away sandboxes and runs canaries in them: a write that must fail, a write that
//! must succeed, a signal, a connection, more memory and more processes than allowed. Where two layers would
//! refuse the same thing, one of them is left out in a second sandbox, so that each answer is about one
//! layer; a third sandbox, with still fewer layers, shows that the canary would have succeeded. Version
//! numbers and the presence of files decide nothing; they only affect the wording of [`LayerReport::mend`].
//!
//! An examination never takes longer than [`EXAMINE_TIMEOUT`]: each canary has a time limit, and so have all
//! together.
//!
//! This is not a test against attacks: a canary shows that a layer is present, the attack suite that it
//! holds.

mod canary;
mod judge;
mod render;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::render::render;
use crate::BoxFuture;
pub use crate::advice::facts::HostReport;
pub use crate::advice::mend::apparmor_profile;
use crate::advice::{facts, mend};
use crate::engine::Engine;
use crate::layer::Layer;
use crate::outcome::LayerState;
use crate::policy::Shape;

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.doctor/1";
/// Maximum duration of [`examine`] on any host.
pub const EXAMINE_TIMEOUT: Duration = Duration::from_secs(9);

/// The layers and profiles that a host can enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doctor {
    /// Always `hotcell.doctor/1`.
    pub schema: String,
    /// The host. For information only: nothing is decided by it.
    pub host: HostReport,
    /// Every layer, outermost first.
    pub layers: BTreeMap<Layer, LayerReport>,
    /// Whether a sandbox of each profile can be made, by the profile's name.
    pub profiles: BTreeMap<String, Availability>,
}

/// The state of one layer, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerReport {
    /// `"on"`, `"off"`, or `"unavailable: reason"`.
    pub state: LayerState,
    /// The attempts made.
    pub tried: String,
    /// Results of the attempts.
    pub answer: String,
    /// Advice on making the layer available; `null` if none is needed.
    pub mend: Option<String>,
}

/// Whether a profile is available: `"available"`, or `"refused: reason"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Availability {
    /// A sandbox of this profile was made and a program ran in it.
    Available,
    /// The profile was refused; with the reason.
    Refused(String),
}

impl From<Availability> for String {
    fn from(availability: Availability) -> Self {
        match availability {
            Availability::Available => "available".into(),
            Availability::Refused(why) => format!("refused: {why}"),
        }
    }
}

impl From<String> for Availability {
    fn from(text: String) -> Self {
        match text.strip_prefix("refused: ") {
            Some(why) => Self::Refused(why.to_owned()),
            None if text == "available" => Self::Available,
            None => Self::Refused(text),
        }
    }
}

/// Describes this host without trying anything.
#[must_use]
pub fn host(engine: &Engine) -> HostReport {
    facts::look(engine.host().mapping).report
}

/// Determines which layers and which of these profiles this host can enforce.
///
/// Needs a tokio runtime with I/O and time. Takes well under a second on a host without problems, and never
/// longer than [`EXAMINE_TIMEOUT`].
pub fn examine<'a>(engine: &'a Engine, profiles: &'a [(String, Shape)]) -> BoxFuture<'a, Doctor> {
    Box::pin(async move {
        let facts = facts::look(engine.host().mapping);
        let (findings, profiles) = canary::try_all(engine, profiles, &facts).await;
        let mut layers = judge::judge(&findings);
        for (layer, report) in &mut layers {
            report.mend = mend::mend(*layer, &report.state, &facts);
            report.answer = mend::without_advice(&report.answer).to_owned();
            if let LayerState::Unavailable(why) = &mut report.state {
                *why = mend::without_advice(why).to_owned();
            }
        }
        let profiles = profiles
            .into_iter()
            .map(|profile| (profile.name, judge::availability(&profile.require, profile.ran, &layers)))
            .collect();
        Doctor { schema: SCHEMA.to_owned(), host: facts.report, layers, profiles }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::policy::Confinement;

    #[tokio::test]
    async fn host_report_is_complete_within_time() {
        let strict = Shape { require: Layer::ALL.into(), ..Shape::default() };
        let only = Shape { confinement: Confinement::LandlockOnly, ..Shape::default() };
        let profiles = [
            ("standard".to_owned(), Shape::default()),
            ("strict".to_owned(), strict),
            ("landlock-only".to_owned(), only),
        ];
        let start = Instant::now();
        let doctor = examine(&Engine::new(), &profiles).await;
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());

        let json = serde_json::to_value(&doctor).unwrap();
        assert_eq!(json["schema"], SCHEMA);
        for layer in Layer::ALL {
            let report = &json["layers"][layer.name()];
            let state = report["state"].as_str().unwrap();
            assert!(state == "on" || state == "off" || state.starts_with("unavailable: "), "{state}");
            assert!(!report["tried"].as_str().unwrap().is_empty(), "{layer}");
            assert!(!report["answer"].as_str().unwrap().is_empty(), "{layer}");
            assert_eq!(report["mend"].is_null(), state == "on", "{layer}: {report}");
        }
        for (name, _) in &profiles {
            let said = json["profiles"][name].as_str().unwrap();
            assert!(said == "available" || said.starts_with("refused: "), "{name}: {said}");
        }
        assert_eq!(serde_json::from_value::<Doctor>(json).unwrap(), doctor);
        assert!(render(&doctor, true).contains('\u{1b}'));
    }

    #[test]
    fn doctor_schema_has_contract_fields() {
        let schema = serde_json::to_value(schemars::schema_for!(Doctor)).unwrap();
        for field in ["schema", "host", "layers", "profiles"] {
            assert!(schema["properties"].get(field).is_some(), "{field}");
        }
        for text in ["available", "refused: no"] {
            let read: Availability = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), text);
        }
    }
}
