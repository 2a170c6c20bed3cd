//! What this host can enforce, found out by trying: `hotcell.doctor/1`.
//!
//! [`examine`] makes throw-away sandboxes and lets canaries run in them: a write that must fail, one that must
//! succeed, a signal, a connection, more memory and more processes than allowed. Where two walls would refuse
//! the same thing, one of them is left out in a second sandbox, so that each answer is one layer's own; and a
//! third, with fewer walls still, shows that the canary would have come through. No version number and no
//! file's presence decides anything; they only choose the words of [`LayerReport::mend`].
//!
//! It never takes longer than [`LONGEST`]: each canary has a limit, and so have all together.
//!
//! Not for attacks: a canary shows that a layer is there, the attack suite that it holds.

mod canary;
mod host;
mod judge;
mod mend;
mod render;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::mend::apparmor_profile;
pub use self::render::render;
use crate::BoxFuture;
use crate::engine::Engine;
use crate::failure::LACKS;
use crate::ids::Mapping;
use crate::layer::Layer;
use crate::outcome::LayerState;
use crate::plan::Refusal;
use crate::policy::Shape;

/// The name of this form in its `schema` field.
pub const SCHEMA: &str = "hotcell.doctor/1";
/// The longest that [`examine`] takes, whatever the host does.
pub const LONGEST: Duration = Duration::from_secs(9);

/// What a host can enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doctor {
    /// Always `hotcell.doctor/1`.
    pub schema: String,
    /// Which host this is. For information: nothing is decided by it.
    pub host: HostReport,
    /// Every layer, outermost first.
    pub layers: BTreeMap<Layer, LayerReport>,
    /// Whether a sandbox of each profile can be made, by the profile's name.
    pub profiles: BTreeMap<String, Availability>,
}

/// Which host this is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The machine, as `uname -m` prints it.
    pub arch: String,
    /// The kind of container that this process seems to be in; `null` for none.
    pub container: Option<String>,
    /// Whose rights hotcell has: `root`, `root of a user namespace`, or `user N`.
    pub user: String,
}

/// What was found out about one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerReport {
    /// `"on"`, `"off"`, or `"unavailable: why"`.
    pub state: LayerState,
    /// What was tried.
    pub tried: String,
    /// What came back.
    pub answer: String,
    /// What would mend it; `null` where nothing needs mending.
    pub mend: Option<String>,
}

/// Whether a profile can be had: `"available"`, or `"refused: why"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Availability {
    /// A sandbox of this profile was made and a program ran in it.
    Available,
    /// It was refused, and why.
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

/// A refusal with what would mend it on this host, where a layer is what lacks.
pub(crate) fn advise(refusal: Refusal) -> Refusal {
    match refusal.layer {
        Some(layer) if refusal.message.contains(LACKS) => {
            let facts = host::look(Mapping::of_this_process());
            Refusal { message: mend::line(layer, &refusal.message, &facts), ..refusal }
        }
        _ => refusal,
    }
}

/// Which host this is, without trying anything.
#[must_use]
pub fn host(engine: &Engine) -> HostReport {
    host::look(engine.host().mapping).report
}

/// Finds out what this host can enforce, and which of these profiles can be had.
///
/// Needs a tokio runtime with I/O and time. Takes well under a second on a host where all is well, and never
/// longer than [`LONGEST`].
pub fn examine<'a>(engine: &'a Engine, profiles: &'a [(String, Shape)]) -> BoxFuture<'a, Doctor> {
    Box::pin(async move {
        let facts = host::look(engine.host().mapping);
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
    async fn this_host_is_examined_in_time_and_the_report_is_complete() {
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
    fn the_schema_has_the_contract_s_fields() {
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
