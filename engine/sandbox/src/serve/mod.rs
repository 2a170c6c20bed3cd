//! A [`Pool`](crate::pool::Pool) that other processes of the same user may use: one that lives, for those that come and go.
//!
//! A client does everything that a run needs but the sandbox itself: it reads the policy, and it looks at what the run left. The
//! [`Server`] makes the sandbox, or has one ready, follows the run, and tells. They speak over a socket in a private
//! folder ([`place`]) in messages of a fixed form ([`wire`]), and only where a sandbox of the server's is as good as one that the
//! client would make itself ([`peer`]). In every other case the client is told so before anything runs, and makes its own.

mod aside;
mod channel;
mod client;
pub mod peer;
pub mod place;
mod proof;
mod server;
pub mod wire;

pub(crate) use client::Relay;
pub use client::{Client, NotServed, Unreached, status, stop};
pub use server::{Bounds, Server};

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::policy::{Confinement, FileId, Job, Policy, Stdin};

/// What both have to be of, beside this very version of hotcell.
pub const PROTOCOL: u32 = 2;
/// This version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest policy that a server takes, in bytes of JSON.
pub const LONGEST_POLICY: u64 = 8 << 20;

/// What a server says first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its version of hotcell.
    pub version: String,
    /// The layers of its host that it can have.
    pub offers: Offers,
    /// The number of its descriptor in which the proof is that this client may look into it.
    pub proof: i32,
}

/// What sandboxes of a process can have that not all of the same host can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Landlock's version; 0 without.
    pub landlock: u32,
    /// The filter can notify.
    pub notifications: bool,
    /// It can make cgroups.
    pub cgroup: bool,
    /// They hold shares of processors.
    pub cpus: bool,
    /// There are time namespaces.
    pub time_ns: bool,
}

impl Offers {
    /// Of a host as one process sees it.
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

    /// Whether nothing is missing that can be: who looks for more finds none.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.landlock > 0 && self.notifications && self.cgroup && self.cpus && self.time_ns
    }

    /// What another has and this one lacks.
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

/// How a server is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Status {
    /// Its version of hotcell.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began.
    pub uptime_s: u64,
    /// Runs under way.
    pub running: u64,
    /// Sandboxes that wait.
    pub ready: u64,
    /// Runs that got a sandbox that was ready.
    pub hot: u64,
    /// Of these, those whose interpreter was ready in it.
    pub primed: u64,
    /// Runs whose sandbox was made for them.
    pub cold: u64,
    /// Runs that it left to whoever asked.
    pub declined: u64,
}

/// A policy on its way: with what is no part of one that is written down.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<P> {
    policy: P,
    /// Which files the binds have to be, in their order.
    identities: Vec<Option<FileId>>,
    imports: Vec<String>,
}

/// Why a policy is never sent to a server.
fn unfit(policy: &Policy) -> Option<&'static str> {
    let Policy { shape, job } = policy;
    let Job { proxy, stdin, workspace, layers, toolchains, binds, .. } = job;
    let image = shape.image.iter().flat_map(|image| &image.layers);
    if shape.confinement == Confinement::LandlockOnly {
        // The service may end, and its temporary folders with it, while what they hold is looked at.
        return Some("its files would be the service's");
    }
    let mut paths =
        workspace.iter().chain(layers).chain(toolchains).chain(binds.iter().map(|b| &b.host)).chain(image);
    if proxy.is_some() {
        return Some("its way out is served by this process");
    }
    if *stdin == Stdin::Socket {
        return Some("its standard input is a socket of this process");
    }
    if !shape.knocked_out.is_empty() {
        return Some("layers of it are switched off");
    }
    paths.any(|path| !path.is_absolute()).then_some("a path of it is relative")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Shape;

    #[test]
    fn who_lacks_what() {
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
    fn what_is_never_sent() {
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
            (Policy { job: Job { stdin: Stdin::Socket, ..plain().job }, ..Policy::default() }, "socket"),
            (
                Policy {
                    shape: Shape { confinement: Confinement::LandlockOnly, ..plain().shape },
                    ..plain().workspace("/w")
                },
                "files would be the service's",
            ),
            (plain().without_layer(crate::Layer::Seccomp, crate::danger::WeakensTheSandbox), "switched off"),
        ] {
            assert!(unfit(&policy).is_some_and(|why| why.contains(want)), "{want}");
        }
    }
}
