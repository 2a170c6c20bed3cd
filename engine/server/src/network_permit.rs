//! Network permit of a run: checked again when it starts, since it waited, and revoked when the operator
//! withdraws it.

use std::sync::Arc;

use hotcell_egress::AllowList;

use crate::network_requests::{Approved, offered_now};

use super::current::{Current, is_off};

/// Reason of a run that ends because the operator withdrew the network.
pub const WITHDRAWN: &str = "stopped: the operator withdrew the network while it ran";

/// Hosts that a person and the operator let a run reach; empty for most runs.
#[derive(Clone, Debug)]
pub struct NetworkPermit {
    approved: Option<Arc<Approved>>,
    /// Rules that only the operator's own list may contain.
    placed: AllowList,
    current: Current,
}

impl NetworkPermit {
    pub fn new(approved: Option<Arc<Approved>>, current: Current) -> Self {
        let placed = approved.as_ref().map(|approved| approved.hosts.placed()).unwrap_or_default();
        Self { approved, placed, current }
    }

    /// True for a run without a permit.
    pub fn is_none(&self) -> bool {
        self.approved.is_none()
    }

    /// Checks that the operator still allows a network, and still lists the rules that only they may add.
    ///
    /// # Errors
    /// A sentence that says what is no longer allowed.
    pub fn named(&self) -> Result<(), String> {
        let now = self.current.get();
        if !self.is_none() && is_off(&now) {
            return Err("the operator withdrew the network; nothing ran".to_owned());
        }
        for secret in self.approved.iter().flat_map(|approved| &approved.secrets) {
            if offered_now(&secret.name, &now.user.run.secrets).as_ref() != Some(&secret.shown) {
                return Err(format!(
                    "the operator changed or withdrew the secret {}; nothing ran",
                    secret.name
                ));
            }
        }
        match now.hosts().widened_by(&self.placed) {
            None => Ok(()),
            Some(rule) => Err(format!("{rule}: the operator does not name this place any more; nothing ran")),
        }
    }

    /// Checks that the run to start is the approved one. Reads its workspace. Blocks.
    ///
    /// # Errors
    /// Like [`Approved::still`].
    pub fn still(&self) -> Result<(), String> {
        self.approved.as_ref().map_or(Ok(()), |approved| approved.still())
    }

    /// Waits until the permit is revoked; forever without a permit.
    pub async fn withdrawn(&self) {
        match self.is_none() {
            true => std::future::pending().await,
            false => self.current.withdrawn(&self.placed).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::OnceLock;

    use super::*;
    use hotcell_config::{Configuration, Settings};

    #[test]
    fn queued_run_rechecks_the_secrets_of_its_approval() {
        let definition = |host: &str, mcp: bool| {
            format!("[secrets.gh]\nsource = \"env:A\"\nhost = \"{host}\"\nmcp = {mcp}\n")
        };
        let current = |text: &str| {
            let user = Settings::parse(text, Path::new("/etc/hotcell/config.toml")).unwrap();
            Current::new(Configuration { user, ..Configuration::default() })
        };
        let before = Settings::parse(&definition("a.test", true), Path::new("/etc/config.toml")).unwrap();
        let secrets =
            crate::network_requests::secrets(&["secret:gh".to_owned()], &before.run.secrets).unwrap();
        for (now, good) in [
            (definition("a.test", true), true),
            (definition("a.test", false), false),
            (definition("evil.test", true), false),
            (String::new(), false),
        ] {
            let (hosts, call, ask) = (AllowList::default(), serde_json::Value::Null, OnceLock::new());
            let approved =
                Approved { tool: "run_code", hosts, secrets: secrets.clone(), call, place: None, ask };
            let said = NetworkPermit::new(Some(Arc::new(approved)), current(&now)).named();
            assert_eq!(said.is_ok(), good, "{now}: {said:?}");
        }
    }

    #[test]
    fn queued_run_rechecks_operator_permission() {
        let place = "mcp.hosts = [\"db.test=10.0.0.5:5432\"]\n";
        for (hosts, configuration, word) in [
            (None, "network = \"off\"", None),
            (Some("pypi.org:443"), "", None),
            (Some("pypi.org:443"), "network = \"off\"", Some("withdrew the network")),
            (Some("db.test=10.0.0.5:5432"), place, None),
            (Some("db.test=10.0.0.5:5432"), "", Some("db.test")),
            (Some("db.test=10.0.0.5:5432"), "network = \"off\"", Some("withdrew the network")),
        ] {
            let user = Settings::parse(configuration, Path::new("/etc/hotcell/config.toml")).unwrap();
            let current = Current::new(Configuration { user, ..Configuration::default() });
            let approved = hosts.map(|hosts| {
                let (hosts, call, ask) = (hosts.parse().unwrap(), serde_json::Value::Null, OnceLock::new());
                Arc::new(Approved { tool: "run_tests", hosts, secrets: Vec::new(), call, place: None, ask })
            });
            let said = NetworkPermit::new(approved, current).named();
            match word {
                None => assert_eq!(said, Ok(()), "{hosts:?} {configuration}"),
                Some(word) => assert!(said.is_err_and(|s| s.contains(word)), "{hosts:?} {configuration}"),
            }
        }
    }
}
