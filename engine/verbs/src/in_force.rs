//! The policy that is in force for a run, as receipts state it.

use hotcell_config::EnvSetting;
use hotcell_sandbox::policy::Limits;
use sha2::{Digest, Sha256};

use crate::request::Merged;

/// Policy of a run: its limits, and a digest of all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// SHA-256 of what separates the run from the host and what it is granted, as merged from all settings: shape, limits, mounts and toolchains
    /// as they were named, names of variables, hosts, names of secrets, mode of the guard. Neither the program nor its workspace, which have
    /// digests of their own, nor values of variables, which may be private.
    pub policy_sha256: String,
    /// Limits.
    pub limits: Limits,
}

impl Merged {
    /// The policy that is in force for a run with these settings.
    #[must_use]
    pub fn in_force(&self) -> InForce {
        let job = &self.policy.job;
        let env = self.env.iter().map(|setting| match setting {
            EnvSetting::Set(name, _) => format!("set {}", name.to_string_lossy()),
            EnvSetting::Pass(name) => format!("pass {}", name.to_string_lossy()),
        });
        let secrets = self.secrets.secrets.iter().map(|(name, _)| name);
        let toolchains = job.toolchains.iter().map(|path| path.to_string_lossy());
        let all = serde_json::json!({
            "shape": self.policy.shape,
            "limits": job.limits,
            "binds": job.binds,
            "toolchains": toolchains.collect::<Vec<_>>(),
            "env": env.collect::<Vec<_>>(),
            "network": self.hosts.to_string(),
            "secrets": secrets.collect::<Vec<_>>(),
            "guard": self.gate.guard.settings.mode.name(),
        });
        let policy_sha256 = hex::encode(Sha256::digest(all.to_string()));
        InForce { policy_sha256, limits: job.limits.clone() }
    }
}

#[cfg(test)]
mod tests {
    use hotcell_config::Configuration;
    use hotcell_sandbox::Bytes;
    use hotcell_sandbox::policy::{Bind, Confinement, Network};

    use super::*;
    use crate::request::{RunRequest, RunTarget};

    fn merged() -> Merged {
        let request = RunRequest {
            what: RunTarget::Program(vec!["true".into()]),
            workspace: None,
            kept: None,
            settings: hotcell_config::RunSettings::default(),
            limits: Limits::default(),
            stdin: hotcell_sandbox::policy::Stdin::Null,
            keep: crate::ChangePolicy::default(),
        };
        request.merge(&Configuration::default()).unwrap()
    }

    #[test]
    fn digest_changes_with_each_part_of_the_policy_and_with_nothing_else() {
        let plain = merged().in_force();
        assert_eq!(plain, merged().in_force());
        type Change = fn(&mut Merged);
        let changes: [(&str, Change); 7] = [
            ("memory", |all| all.policy.job.limits.memory = Bytes(1 << 20)),
            ("network", |all| all.policy.shape.network = Network::Off),
            ("confinement", |all| all.policy.shape.confinement = Confinement::LandlockOnly),
            ("hosts", |all| all.hosts = "pypi.org:443".parse().unwrap()),
            ("env", |all| all.env.push(EnvSetting::Pass("TERM".into()))),
            ("guard", |all| all.gate.guard.settings.mode = hotcell_config::Mode::Off),
            ("binds", |all| {
                let (host, inside) = ("/srv".into(), "/srv".into());
                all.policy.job.binds.push(Bind {
                    host,
                    inside,
                    writable: false,
                    copy_on_write: false,
                    identity: None,
                });
            }),
        ];
        let mut seen = vec![plain.policy_sha256.clone()];
        for (name, change) in changes {
            let mut all = merged();
            change(&mut all);
            let digest = all.in_force().policy_sha256;
            assert!(!seen.contains(&digest), "{name}");
            seen.push(digest);
        }
        let mut valued = merged();
        valued.env.push(EnvSetting::Set("A".into(), "1".into()));
        let mut other = merged();
        other.env.push(EnvSetting::Set("A".into(), "2".into()));
        assert_eq!(valued.in_force(), other.in_force(), "values are private");
        let mut other = merged();
        other.policy.job.argv = vec!["false".into()];
        assert_eq!(other.in_force(), plain, "the program has a digest of its own");
    }
}
