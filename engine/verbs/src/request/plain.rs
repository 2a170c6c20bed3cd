//! Plain runs: an installed program in a sandbox, and nothing else.
//!
//! Most runs name a program of the host and no more. They need neither a proxy nor images, workspaces, compilers or copies of files, and a
//! small program that starts them alone needs no code of these. What such a run is, is decided here; everything it does goes through the
//! functions of all other runs.

use std::ffi::OsString;

use hotcell_config::Configuration;
use hotcell_config::network::no_proxy;
use hotcell_report::RunReport;
use hotcell_review::guard::Passed;
use hotcell_review::whole_command::Input;
use hotcell_sandbox::policy::{Network, Policy, Stdin};
use hotcell_toolchain::Surroundings;

use super::programs::{Programs, show_environment, start};
use super::{Merged, RunRequest, RunTarget, set, sign};
use crate::changes::ChangePolicy;
use crate::{processors, variables};

/// A plain run, before its program is looked up and its code is scanned.
#[derive(Debug)]
pub struct PlainRun {
    request: RunRequest,
    argv: Vec<OsString>,
    merged: Merged,
}

/// A plain run that can be executed.
#[derive(Debug)]
pub struct PreparedPlain {
    /// Policy.
    pub policy: Policy,
    /// Variables that were to be passed through and are not set; for a warning.
    pub unset: Vec<OsString>,
    /// The guard's result; `None` when the guard is off or there is nothing to scan.
    pub scan: Option<Passed>,
}

impl PlainRun {
    /// The plain run of a request; `None` where it needs more, and where the configuration is wrong or cannot be merged.
    #[must_use]
    pub fn of(request: RunRequest, configuration: &Configuration) -> Option<Self> {
        let RunTarget::Program(argv) = request.what.clone() else { return None };
        let merged = request.merge_with(configuration, no_proxy).ok()?;
        is_plain(&request, &merged).then_some(Self { request, argv, merged })
    }

    /// Finds the program and its dependencies, completes the policy, and scans the code.
    ///
    /// # Errors
    /// An outcome in which nothing ran: not found, not executable, or refused.
    pub fn prepare<'i>(
        &'i self,
        around: &Surroundings,
        input: Option<&'i mut dyn Input>,
    ) -> Result<PreparedPlain, Box<RunReport>> {
        let Self { request, argv, merged } = self;
        let (mut policy, mut unset) = (merged.policy.clone(), Vec::new());
        let env = set(merged.env.clone(), &mut unset);
        policy.job.stdin = request.stdin.clone();
        let programs = Programs::Host(around, None);
        start(&mut policy, argv.clone(), programs, &env)?;
        show_environment(&mut policy, programs);
        variables::complete(&mut policy.job, policy.shape.network, processors::count());
        let whole = request.whole(&around.cwd, None, env, input);
        let scan = merged.gate.check(whole, policy.shape.confinement)?;
        Ok(PreparedPlain { policy, unset, scan })
    }
}

impl PreparedPlain {
    /// Adds the guard's report to an outcome.
    pub fn sign(&self, outcome: &mut RunReport) {
        sign(self.scan.as_ref(), outcome);
    }
}

/// True when a run needs nothing but its program, the guard and the sandbox. Each part of a request and of what it was merged to is named, so that a new
/// one is decided on here. Pure.
fn is_plain(request: &RunRequest, merged: &Merged) -> bool {
    let RunRequest { what, workspace, kept, settings: _, limits: _, stdin, keep } = request;
    let Merged { policy, env: _, gate: _, compile, image, state: _, secrets, hosts, upstream: _ } = merged;
    matches!(what, RunTarget::Program(_))
        && workspace.is_none()
        && kept.is_none()
        && *keep == ChangePolicy::default()
        && !matches!(stdin, Stdin::Terminal(_))
        && compile.is_none()
        && image.is_none()
        && secrets.secrets.is_empty()
        && hosts.rules().is_empty()
        && policy.shape.network != Network::Proxy
        && policy.job.proxy.is_none()
        && policy.job.binds.is_empty()
        && policy.job.toolchains.is_empty()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hotcell_config::{EnvSetting, Mode, Settings};
    use hotcell_sandbox::Limits;
    use hotcell_sandbox::policy::WindowSize;

    use super::super::{Language, Source};
    use super::*;

    fn request(words: &[&str]) -> RunRequest {
        RunRequest {
            what: RunTarget::Program(words.iter().map(OsString::from).collect()),
            workspace: None,
            kept: None,
            settings: hotcell_config::RunSettings::default(),
            limits: Limits::default(),
            stdin: Stdin::Null,
            keep: ChangePolicy::default(),
        }
    }

    fn configuration(text: &str) -> Configuration {
        let user = Settings::parse(text, Path::new("/c/config.toml")).unwrap();
        Configuration { user, ..Configuration::default() }
    }

    #[test]
    fn runs_that_need_more_than_a_sandbox_are_not_plain() {
        let is_plain =
            |request: &RunRequest, text: &str| PlainRun::of(request.clone(), &configuration(text)).is_some();
        let plain = request(&["/bin/true"]);
        let of = |change: fn(&mut RunRequest)| {
            let mut request = plain.clone();
            change(&mut request);
            request
        };
        for (request, want) in [
            (plain.clone(), true),
            (of(|r| r.stdin = Stdin::Piped), true),
            (of(|r| r.settings.env = vec![EnvSetting::Set("A".into(), "b".into())]), true),
            (of(|r| r.settings.guard = Some(Mode::Off)), true),
            (of(|r| r.settings.profile = Some("strict".into())), true),
            (of(|r| r.settings.profile = Some("no-such-profile".into())), false),
            (of(|r| r.stdin = Stdin::Terminal(WindowSize { rows: 1, columns: 1 })), false),
            (of(|r| r.workspace = Some(".".into())), false),
            (of(|r| r.keep.diff = true), false),
            (of(|r| r.settings.image = Some("python".into())), false),
            (of(|r| r.settings.network = Some("pypi.org:443".parse().unwrap())), false),
            (of(|r| r.settings.toolchains = vec!["/opt/x".into()]), false),
            (of(|r| r.settings.rules = Some("/rules".into())), true),
            (request(&["sh", "-c", "echo"]), true),
            (of(|r| r.what = RunTarget::Source(Language::Bash, Source::Text(Vec::new()), Vec::new())), false),
            (of(|r| r.settings.env = vec![EnvSetting::Set("BASH_ENV".into(), "/x".into())]), true),
        ] {
            assert_eq!(is_plain(&request, ""), want, "{request:?}");
        }
        for (text, want) in [
            ("", true),
            ("profile = \"strict\"", true),
            ("network = \"off\"", true),
            ("guard = \"off\"", true),
            ("[limits]\nmemory = \"64M\"", true),
            ("[env]\nA = \"b\"", true),
            ("network = [\"pypi.org:443\"]", false),
            ("image = \"python\"", false),
            ("ro = [\"/srv\"]", false),
            ("rw = [\"/srv\"]", false),
            ("toolchains = [\"/opt/x\"]", false),
            ("rules = \"/rules\"", true),
        ] {
            assert_eq!(is_plain(&plain, text), want, "{text}");
        }
    }
}
