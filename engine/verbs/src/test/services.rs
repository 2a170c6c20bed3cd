//! Services that run in the tests' sandbox, and commands that run before the tests.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;

use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::{Confinement, Network, Policy};
use hotcell_testing::framework::REPORTERS;
use hotcell_testing::frameworks::pgtap::POSTGRES;
use hotcell_testing::{TestReport, Verdict};

/// File name of the script in the folder of reporters.
pub const SCRIPT: &str = "hotcell_services.sh";
/// Time limit until a service answers, in seconds.
const SERVICE_TIMEOUT_SECS: u32 = 60;
/// Exit code of the script when a step before the tests failed.
const NOT_BEGUN_STATUS: i32 = 97;
/// Maximum number of lines of a service's output in the reason.
const MAX_OUTPUT_LINES: usize = 4;

/// A service for the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// A new PostgreSQL in scratch space.
    Postgres,
    /// A new Redis.
    Redis,
    /// A command of the operator.
    Command(String),
}

impl FromStr for Service {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.trim() {
            "postgres" | "postgresql" => Self::Postgres,
            "redis" => Self::Redis,
            _ => Self::Command(text.to_owned()),
        })
    }
}

/// Services and commands for a run of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Services, in starting order.
    pub services: Vec<Service>,
    /// Commands that succeed when the operator's services answer; without any, each of these services has to
    /// listen on a port.
    pub ready: Vec<String>,
    /// Commands that run when all services answer.
    pub before: Vec<String>,
}

impl Beside {
    /// True when there are no services and commands.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.services.is_empty() && self.ready.is_empty() && self.before.is_empty()
    }

    /// All commands with their options, for the guard.
    pub fn commands(&self) -> Vec<(&'static str, &str)> {
        let services = self.services.iter().filter_map(|service| match service {
            Service::Command(command) => Some(("--service", command.as_str())),
            Service::Postgres | Service::Redis => None,
        });
        let ready = self.ready.iter().map(|command| ("--service-ready", command.as_str()));
        let before = self.before.iter().map(|command| ("--before", command.as_str()));
        services.chain(ready).chain(before).collect()
    }

    /// Text of the script.
    pub fn script() -> String {
        [POSTGRES, include_str!("services.sh")].concat()
    }

    /// Makes the script start the program of a policy.
    ///
    /// # Errors
    /// A sentence that says why this confinement cannot hold services.
    pub fn wrap(&self, policy: &mut Policy) -> Result<(), String> {
        if policy.shape.confinement == Confinement::LandlockOnly {
            return Err("‹service› and ‹before› need a network and processes of the sandbox's own, which the profile landlock-only has not: take another profile".to_owned());
        }
        if policy.shape.network == Network::Off && !self.services.is_empty() {
            return Err("‹service› needs the sandbox's loopback, which ‹network=off› and the profile strict take away: use ‹network=none›".to_owned());
        }
        let mut words: Vec<OsString> = vec![
            "/bin/sh".into(),
            format!("{REPORTERS}/{SCRIPT}").into(),
            SERVICE_TIMEOUT_SECS.to_string().into(),
        ];
        let mut add = |kind: &str, value: &str| words.extend([kind.into(), value.into()]);
        for service in &self.services {
            match service {
                Service::Postgres => add("postgres", ""),
                Service::Redis => add("redis", ""),
                Service::Command(command) => add("service", command),
            }
        }
        for command in &self.ready {
            add("ready", command);
        }
        for command in &self.before {
            add("before", command);
        }
        words.push("--".into());
        words.append(&mut policy.job.argv);
        policy.job.argv = words;
        if !self.ready.is_empty() {
            policy.job.env.push(("HOTCELL_READY".into(), "1".into()));
        }
        Ok(())
    }

    /// Restores a report to that of the tests alone: their command, and the reason if they never began.
    pub fn tell(report: &mut TestReport) {
        let shown = Path::new(REPORTERS).join(SCRIPT);
        if report.command.get(1).is_some_and(|word| Path::new(word) == shown)
            && let Some(at) = report.command.iter().position(|word| word == "--")
        {
            report.command.drain(..=at);
            if let (Some(interpreter), Some(program)) = (&mut report.interpreter, report.command.first()) {
                interpreter.path.clone_from(program);
            }
        }
        let Outcome { cause, exit_code, stderr, .. } = &*report.outcome;
        if *cause != Cause::Exited || *exit_code != Some(NOT_BEGUN_STATUS) || !report.cases.is_empty() {
            return;
        }
        if let Some(why) = stderr.text.as_deref().and_then(reason) {
            report.verdict = Verdict::Refused;
            report.reason = Some(hotcell_sandbox::text::printable_message(&format!("no test ran: {why}")));
        }
    }
}

/// The failure reported by the script, with the last lines of the program that it started.
fn reason(stderr: &str) -> Option<String> {
    let (_, said) = stderr.rsplit_once("\nhotcell-service: ")?;
    let mut lines = said.lines();
    let what = lines.next()?.to_owned();
    let printed: Vec<&str> = lines.filter_map(|line| line.strip_prefix("hotcell-service| ")).collect();
    let last = printed.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    let last: Vec<&str> = last.collect();
    let last = last[last.len().saturating_sub(MAX_OUTPUT_LINES)..].join(" / ");
    Some(if last.is_empty() { what } else { format!("{what}; it printed last: {last}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy::new("python3").args(["a", "--", "b"])
    }

    #[test]
    fn service_option_is_name_or_command() {
        for (text, want) in [
            ("postgres", Service::Postgres),
            ("postgresql", Service::Postgres),
            (" redis ", Service::Redis),
            ("redis-server --port 1", Service::Command("redis-server --port 1".to_owned())),
            ("Postgres", Service::Command("Postgres".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
    }

    #[test]
    fn services_wrap_command_in_order() {
        let beside = Beside {
            services: vec![Service::Command("x --".to_owned()), Service::Redis],
            ready: vec!["r".to_owned()],
            before: vec!["b 1".to_owned()],
        };
        let mut wrapped = policy();
        beside.wrap(&mut wrapped).unwrap();
        let words: Vec<_> = wrapped.job.argv.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[3..].join("|"), "service|x --|redis||ready|r|before|b 1|--|python3|a|--|b");
        assert_eq!(beside.commands(), [("--service", "x --"), ("--service-ready", "r"), ("--before", "b 1")]);
    }

    #[test]
    fn services_without_own_network_are_refused() {
        let beside = Beside { services: vec![Service::Redis], ..Beside::default() };
        let mut off = policy();
        off.shape.network = Network::Off;
        assert!(beside.wrap(&mut off).unwrap_err().contains("‹network=off›"));
        let mut landlock = policy();
        landlock.shape.confinement = Confinement::LandlockOnly;
        assert!(beside.wrap(&mut landlock).unwrap_err().contains("landlock-only"));
    }

    #[test]
    fn service_failure_reason_is_last_script_message() {
        for (stderr, want) in [
            (
                "x\n\nhotcell-service: a ended\nhotcell-service| 1\nhotcell-service| \nhotcell-service| 2\n",
                Some("a ended; it printed last: 1 / 2"),
            ),
            ("\nhotcell-service: a ended\n", Some("a ended")),
            ("\nhotcell-service: old\n\nhotcell-service: new\n", Some("new")),
            ("nothing", None),
        ] {
            assert_eq!(reason(stderr).as_deref(), want, "{stderr:?}");
        }
    }
}
