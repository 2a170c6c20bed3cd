//! Runs real programs through the public API: the environment of a sandbox, its view of the host, its limits,
//! and its remains. Every test works as root and as an ordinary user unless it says otherwise.

mod basics;
mod deaths;
mod floods;
mod folders;
mod hostile_primes;
mod hot;
mod images;
mod leftovers;
mod limits;
mod network;
mod plain;
mod primed;
mod weak;

use hotcell_sandbox::{Outcome, Policy};

/// A policy that runs a shell script with nothing granted.
fn sh(script: &str) -> Policy {
    Policy::new("sh").args(["-c", script])
}

async fn run(policy: &Policy) -> Outcome {
    hotcell_sandbox::run(policy).await
}

fn stdout(outcome: &Outcome) -> &str {
    outcome.stdout.text.as_deref().unwrap_or_default()
}

/// Formats an outcome for assertions.
fn told(outcome: &Outcome) -> String {
    serde_json::to_string_pretty(outcome).unwrap_or_else(|e| e.to_string())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
