//! Sandboxes kept ready for a user: a [`Pool`](hotcell_sandbox::pool::Pool) that one long-lived process serves to short-lived ones.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hotcell_daemon::Client;
//! use hotcell_sandbox::Policy;
//!
//! let client = Client::reach("/run/user/1000/hotcell".as_ref())?;
//! if let Ok(running) = client.spawn(&Policy::new("true")).await {
//!     println!("{:?}", running.wait().await.cause);
//! }
//! # Ok(()) }
//! ```
//!
//! A client does everything for a run except the sandbox itself: it reads the policy, and it looks at the
//! results. The [`Server`] makes the sandbox, or has one ready, follows the run, and reports on it. They
//! communicate over a socket in a private folder ([`place`]) with messages of a fixed format ([`wire`]), and
//! only where a sandbox of the server is equivalent to one that the client would make itself ([`peer`]). In
//! every other case the client is told before anything runs, and makes its own.
//!
//! | module | idea |
//! | --- | --- |
//! | [`Client`], [`Server`] | the two sides |
//! | [`place`] | the private folder with the socket |
//! | [`peer`], `proof` | whether both processes have the same rights and see the same host |
//! | [`wire`], `channel` | the messages, and how they are sent |
//! | `drop_elsewhere` | closing descriptors on another thread |

mod channel;
mod client;
mod drop_elsewhere;
pub mod peer;
pub mod place;
mod proof;
mod server;
pub mod wire;

pub use client::{Client, NotServed, Unreached, status, stop};
pub use server::{Attached, Bounds, Server};

use serde::{Deserialize, Serialize};

use hotcell_sandbox::host::Host;
use hotcell_sandbox::policy::{Confinement, FileId, Job, Policy, Stdin};

/// Protocol version that client and server must share, in addition to the version of hotcell.
pub const PROTOCOL: u32 = 3;
/// This version of hotcell.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum size of a policy that a server accepts, in bytes of JSON.
pub const MAX_POLICY_BYTES: u64 = 8 << 20;

/// The greeting of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The server's version of hotcell.
    pub version: String,
    /// Optional features that its sandboxes can have.
    pub offers: Offers,
    /// Number of the server's descriptor that holds the proof that this client may inspect the server.
    pub proof: i32,
}

/// Features of sandboxes that can differ between processes of the same host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Landlock's version; 0 for none.
    pub landlock: u32,
    /// Whether the filter can notify.
    pub notifications: bool,
    /// Whether cgroups can be made.
    pub cgroup: bool,
    /// Whether cgroups can enforce CPU quotas.
    pub cpus: bool,
    /// Whether time namespaces are available.
    pub time_ns: bool,
}

impl Offers {
    /// The features of a host as one process sees it.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        Self {
            landlock: *host.landlock.as_ref().unwrap_or(&0),
            notifications: host.notifications.is_ok(),
            cgroup: host.cgroup.is_ok(),
            cpus: host.cpus,
            time_ns: host.time_ns.is_ok(),
        }
    }

    /// Whether every feature is available, so that no other process can offer more.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.landlock > 0 && self.notifications && self.cgroup && self.cpus && self.time_ns
    }

    /// The first feature that `other` has and `self` lacks.
    #[must_use]
    pub fn lacks(&self, other: &Self) -> Option<&'static str> {
        [
            (self.landlock < other.landlock, "Landlock"),
            (!self.notifications && other.notifications, "seccomp notification"),
            (!self.cgroup && other.cgroup, "cgroups"),
            (!self.cpus && other.cpus, "shares of processors"),
            (!self.time_ns && other.time_ns, "time namespaces"),
        ]
        .into_iter()
        .find_map(|(lacks, name)| lacks.then_some(name))
    }
}

/// Status of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Status {
    /// The server's version of hotcell.
    pub version: String,
    /// The server's process id.
    pub pid: u32,
    /// Seconds since the server was started.
    pub uptime_s: u64,
    /// Runs in progress.
    pub running: u64,
    /// Idle sandboxes.
    pub ready: u64,
    /// Runs that got a sandbox that was ready.
    pub hot: u64,
    /// Runs among these that also got an interpreter that was ready.
    pub primed: u64,
    /// Runs whose sandbox was made for them.
    pub cold: u64,
    /// Runs that it declined and left to the client.
    pub declined: u64,
}

/// A policy in a request, together with the fields that are not serialized otherwise.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<P> {
    policy: P,
    /// Identity of each bind, in the order of the binds.
    identities: Vec<Option<FileId>>,
    /// Identity of each toolchain, in the order of the toolchains.
    toolchain_ids: Vec<Option<FileId>>,
    imports: Vec<String>,
}

/// Reason why a policy must not be sent to a server.
fn unfit(policy: &Policy) -> Option<&'static str> {
    let Policy { shape, job } = policy;
    let Job { proxy, stdin, workspace, layers, toolchains, binds, collects, .. } = job;
    let image = shape.image.iter().flat_map(|image| &image.layers);
    if shape.confinement == Confinement::LandlockOnly {
        // The service may end, and remove its temporary folders, while the client still looks at their
        // contents.
        return Some("its files would be the service's");
    }
    let mut paths =
        workspace.iter().chain(layers).chain(toolchains).chain(binds.iter().map(|b| &b.host)).chain(image);
    if proxy.is_some() {
        return Some("its way out is served by this process");
    }
    if !collects.is_empty() {
        return Some("what it changes beside its workspace is this process's");
    }
    if *stdin == Stdin::Socket {
        return Some("its standard input is a socket of this process");
    }
    if matches!(stdin, Stdin::Terminal(_)) {
        return Some("its terminal is held by this process");
    }
    if !shape.knocked_out.is_empty() {
        return Some("layers of it are switched off");
    }
    paths.any(|path| !path.is_absolute()).then_some("a path of it is relative")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::policy::{Shape, WindowSize};

    #[test]
    fn offers_missing_on_server_are_named() {
        let all = Offers { landlock: 6, notifications: true, cgroup: true, cpus: true, time_ns: true };
        let none = Offers::default();
        for (server, client, want) in [
            (all.clone(), all.clone(), None),
            (all.clone(), none.clone(), None),
            (none.clone(), none.clone(), None),
            (Offers { landlock: 5, ..all.clone() }, all.clone(), Some("Landlock")),
            (Offers { notifications: false, ..all.clone() }, all.clone(), Some("seccomp notification")),
            (Offers { cgroup: false, ..all.clone() }, all.clone(), Some("cgroups")),
            (Offers { cpus: false, ..all.clone() }, all.clone(), Some("shares of processors")),
            (Offers { time_ns: false, ..all.clone() }, all.clone(), Some("time namespaces")),
            (Offers { cgroup: false, ..all.clone() }, none.clone(), None),
        ] {
            assert_eq!(server.lacks(&client), want, "{server:?} {client:?}");
            assert!(want.is_none() || !server.is_complete() || server.landlock > 0);
        }
        assert!(all.is_complete() && !none.is_complete());
    }

    #[test]
    fn unsendable_policies_are_refused() {
        let plain = || Policy::new("true");
        assert_eq!(unfit(&plain().read_only("/a", "/a").workspace("/w").toolchain("/t")), None);
        for (policy, want) in [
            (plain().workspace("w"), "relative"),
            (plain().read_only("a", "/a"), "relative"),
            (plain().toolchain("t"), "relative"),
            (
                Policy {
                    job: Job { layers: vec!["l".into()], stdin: Stdin::Null, ..plain().job },
                    ..Policy::default()
                },
                "relative",
            ),
            (
                Policy {
                    job: Job { stdin: Stdin::Terminal(WindowSize::default()), ..plain().job },
                    ..Policy::default()
                },
                "terminal",
            ),
            (Policy { job: Job { stdin: Stdin::Socket, ..plain().job }, ..Policy::default() }, "socket"),
            (
                Policy {
                    shape: Shape { confinement: Confinement::LandlockOnly, ..plain().shape },
                    ..plain().workspace("/w")
                },
                "files would be the service's",
            ),
            (
                plain().without_layer(
                    hotcell_sandbox::Layer::Seccomp,
                    hotcell_sandbox::danger::WeakensTheSandbox,
                ),
                "switched off",
            ),
        ] {
            assert!(unfit(&policy).is_some_and(|why| why.contains(want)), "{want}");
        }
    }
}
