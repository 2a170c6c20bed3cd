//! Source of a run's sandbox: the service, if one is running and may be used; otherwise this process.

use std::path::PathBuf;
use std::sync::OnceLock;

use hotcell_daemon::{Client, NotServed, Unreached, place};
use hotcell_sandbox::{BoxFuture, Engine, Policy, Refusal, Running, Spawn};

use crate::context::folder;

/// The folder with the service's socket.
pub fn place() -> Option<PathBuf> {
    place::usual(folder("XDG_RUNTIME_DIR"), folder("XDG_STATE_HOME"), folder("HOME"))
}

/// The source of sandboxes for one command.
#[derive(Debug)]
pub struct Backend {
    client: Option<Client>,
    engine: OnceLock<Engine>,
    make: fn() -> Engine,
}

impl Backend {
    /// Looks for the service, unless `cold` is set. Without a service, this process starts its own launcher.
    pub fn open(cold: bool, make: fn() -> Engine) -> Self {
        let client = if cold { None } else { place().and_then(|folder| reach(&folder)) };
        let way = Self { client, engine: OnceLock::new(), make };
        if way.client.is_none() {
            way.engine();
        }
        way
    }

    /// This process's own engine.
    pub fn engine(&self) -> &Engine {
        self.engine.get_or_init(self.make)
    }

    /// Leaves the remains of its sandboxes to its launcher, if there is one.
    pub fn leave(self) {
        if let Some(engine) = self.engine.into_inner() {
            engine.leave();
        }
    }
}

fn reach(folder: &std::path::Path) -> Option<Client> {
    match Client::reach(folder) {
        Ok(client) => Some(client),
        // Most users have no service, and need not be told.
        Err(Unreached::Place(why)) if why.is_absence() => None,
        Err(why) => {
            say(&why.to_string(), why.is_wrong());
            None
        }
    }
}

/// Reports a problem as a warning; that there is no service, or not for this run, is only logged.
fn say(why: &str, wrong: bool) {
    if wrong {
        tracing::warn!("{why}; this run makes its own sandbox");
    } else {
        tracing::info!("cold: {why}");
    }
}

impl Spawn for Backend {
    fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            if let Some(client) = &self.client {
                match client.spawn(policy).await {
                    Ok(running) => {
                        tracing::info!("run by the service");
                        return Ok(running);
                    }
                    // How far the run came is unknown, so it must not be run twice.
                    Err(NotServed::Lost(refusal)) => return Err(refusal),
                    Err(NotServed::Cold { why, wrong }) => say(&why, wrong),
                }
            }
            self.engine().spawn(policy).await
        })
    }
}
