//! The configuration in force. It can be replaced while the service runs: new jobs use the new one, and
//! running jobs can only lose rights.

use std::sync::Arc;

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, RunSettings};
use hotcell_egress::AllowList;
use hotcell_review::guard;
use hotcell_sandbox::Limits;
use hotcell_sandbox::policy::Stdin;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::request::{RunRequest, RunTarget};
use tokio::sync::watch;

/// A replaceable configuration. Clones share it.
#[derive(Clone, Debug)]
pub struct Current(watch::Sender<Arc<Configuration>>);

impl Current {
    pub fn new(configuration: Configuration) -> Self {
        Self(watch::Sender::new(Arc::new(configuration)))
    }

    /// The configuration in force.
    pub fn get(&self) -> Arc<Configuration> {
        Arc::clone(&self.0.borrow())
    }

    /// Replaces the configuration.
    pub fn replace(&self, configuration: Configuration) {
        self.0.send_replace(Arc::new(configuration));
    }

    /// Waits until the operator's configuration turns the network off, or no longer contains these rules,
    /// which only the operator may add.
    pub async fn withdrawn(&self, placed: &AllowList) {
        let is_withdrawn = |now: &Arc<Configuration>| is_off(now) || now.hosts().widened_by(placed).is_some();
        // `self` owns the sender, so it cannot be dropped.
        let _ = self.0.subscribe().wait_for(is_withdrawn).await;
    }
}

/// True when the operator's configuration turns the network off for everything.
pub fn is_off(configuration: &Configuration) -> bool {
    let Configuration { user, environment, .. } = configuration;
    environment.run.network.as_ref().or(user.run.network.as_ref()) == Some(&NetworkSetting::Off)
}

/// Checks that runs could start under a configuration: the files that it names exist and can be read.
///
/// # Errors
/// A report that names what is wrong.
pub fn check(configuration: &Configuration) -> Result<(), ErrorReport> {
    let run = RunRequest {
        kept: None,
        keep: ChangePolicy::default(),
        what: RunTarget::Program(vec!["true".into()]),
        workspace: None,
        settings: RunSettings::default(),
        limits: Limits::default(),
        stdin: Stdin::Null,
    };
    let merged = run.merge(configuration)?;
    let settings = &merged.gate.guard.settings;
    guard::rules(settings.rules.as_deref(), settings.digest.as_ref())?;
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("tools.signed_by");
    configuration.user.tools.required().map(drop).map_err(|e| bad(e.to_string()))
}

/// Keys of a new configuration that take effect only after the next start.
pub fn later(old: &Configuration, new: &Configuration) -> Vec<&'static str> {
    let (old, new) = (&old.user, &new.user);
    let differs = [
        ("pool", old.pool != new.pool),
        ("fleet", old.fleet != new.fleet),
        ("state", old.state != new.state),
        ("mcp.toolsets", old.mcp.toolsets != new.mcp.toolsets),
        ("mcp.servers", old.mcp.servers != new.mcp.servers),
        ("mcp.servers_listed", old.mcp.servers_listed != new.mcp.servers_listed),
        ("mcp.servers_text", old.mcp.servers_text != new.mcp.servers_text),
        ("mcp.server_callers", old.mcp.server_callers != new.mcp.server_callers),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::task::{Context, Waker};

    fn of(text: &str) -> Configuration {
        let user = hotcell_config::Settings::parse(text, Path::new("/etc/hotcell/config.toml")).unwrap();
        Configuration { user, ..Configuration::default() }
    }

    #[test]
    fn invalid_configuration_is_found_before_use() {
        for (text, word) in [
            ("", None),
            ("network = \"off\"\n[limits]\nmemory = \"64M\"", None),
            ("profile = \"strikt\"", Some("strict")),
            ("profile = \"./none.toml\"", Some("none.toml")),
            ("rules = \"/nowhere/at/all\"", Some("/nowhere/at/all")),
            ("[tools]\nsigned_by = \"/nowhere/at/all\"", Some("/nowhere/at/all")),
        ] {
            let said = check(&of(text)).map_err(|report| report.to_string());
            match word {
                None => assert_eq!(said, Ok(()), "{text}"),
                Some(word) => assert!(said.as_ref().is_err_and(|s| s.contains(word)), "{text}: {said:?}"),
            }
        }
    }

    #[test]
    fn settings_that_need_restart_are_named() {
        for (old, new, want) in [
            ("", "", &[][..]),
            ("", "network = \"off\"", &[]),
            ("[pool]\nper_shape = 1", "", &["pool"]),
            ("state = \"/a\"", "state = \"/b\"", &["state"]),
        ] {
            assert_eq!(later(&of(old), &of(new)), want, "{old} {new}");
        }
    }

    #[tokio::test]
    async fn network_is_off_by_operator_setting() {
        for (text, want) in
            [("", false), ("network = \"none\"", false), ("network = []", false), ("network = \"off\"", true)]
        {
            assert_eq!(is_off(&of(text)), want, "{text}");
        }
        let current = Current::new(of(""));
        let waits = current.clone();
        let waits = tokio::spawn(async move { waits.withdrawn(&AllowList::default()).await });
        current.replace(of("network = \"off\""));
        waits.await.unwrap();
        assert!(is_off(&current.get()));
    }

    #[test]
    fn host_address_is_withdrawn_with_operator_entry() {
        let place: AllowList = "db.test=10.0.0.5:5432,pypi.org:443".parse().unwrap();
        let placed = place.placed();
        for (before, after, want) in [
            ("[mcp]\nhosts = [\"db.test=10.0.0.5:5432\"]", "", true),
            ("[mcp]\nhosts = [\"db.test=10.0.0.5:5432\"]", "network = \"off\"", true),
            (
                "[mcp]\nhosts = [\"db.test=10.0.0.5:5432\"]",
                "[mcp]\nhosts = [\"db.test=10.0.0.6:5432\"]",
                true,
            ),
            ("[mcp]\nhosts = [\"db.test=10.0.0.5:5432\"]", "network = [\"db.test=10.0.0.5:5432\"]", false),
        ] {
            let current = Current::new(of(before));
            let mut withdrawn = std::pin::pin!(current.withdrawn(&placed));
            let mut now = Context::from_waker(Waker::noop());
            assert!(withdrawn.as_mut().poll(&mut now).is_pending(), "{before}");
            current.replace(of(after));
            assert_eq!(withdrawn.as_mut().poll(&mut now).is_ready(), want, "{after}");
        }
    }
}
