//! Facts that the parts of a connection share: the fault that ended it, and notifications of the server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::{broadcast, mpsc};

use crate::error::foreign;
use crate::event::{Event, Progress};

/// Maximum number of progress notifications that wait for their reader; the newer ones are dropped.
const MAX_PROGRESS: usize = 64;
/// Maximum number of progress notifications that arrived before their call was registered.
const MAX_EARLY: usize = 32;

/// A lock whose holder never panics half way.
fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kind of a fault, as far as it says whether a request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request did not reach the server, or the server refused it before it was carried out.
    NotDone,
    /// The request may have been carried out.
    MayBeDone,
}

/// The first fault of a connection.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<Mutex<Option<String>>>);

impl Fault {
    /// Notes a fault; the first one counts.
    pub fn note(&self, why: impl Into<String>) {
        locked(&self.0).get_or_insert_with(|| why.into());
    }

    /// Whether both are of one connection.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The fault, if there was one.
    pub fn why(&self) -> Option<String> {
        locked(&self.0).clone()
    }
}

/// Handler of what a server sends unasked.
#[derive(Clone)]
pub struct Notes {
    events: broadcast::Sender<Event>,
    progress: Arc<Mutex<Followed>>,
}

#[derive(Default)]
struct Followed {
    readers: HashMap<ProgressToken, mpsc::Sender<Progress>>,
    early: VecDeque<(ProgressToken, Progress)>,
}

impl Notes {
    pub fn new(events: broadcast::Sender<Event>) -> Self {
        Self { events, progress: Arc::default() }
    }

    /// Follows the progress of a call.
    pub fn follow(&self, token: &ProgressToken) -> mpsc::Receiver<Progress> {
        let (sender, receiver) = mpsc::channel(MAX_PROGRESS);
        let mut followed = locked(&self.progress);
        let early = std::mem::take(&mut followed.early);
        for (of, progress) in early {
            if of == *token {
                let _ = sender.try_send(progress);
            } else {
                followed.early.push_back((of, progress));
            }
        }
        followed.readers.insert(token.clone(), sender);
        receiver
    }

    /// Forgets a call.
    pub fn forget(&self, token: &ProgressToken) {
        locked(&self.progress).readers.remove(token);
    }
}

impl ClientHandler for Notes {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("hotcell", env!("CARGO_PKG_VERSION"));
        // No capability. A server that asks all the same gets no model, no form, and an empty list of folders.
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_progress(&self, given: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let message = given.message.as_deref().map(foreign);
        let progress = Progress { done: given.progress, total: given.total, message };
        let mut followed = locked(&self.progress);
        if let Some(reader) = followed.readers.get(&given.progress_token) {
            let _ = reader.try_send(progress);
        } else if followed.early.len() < MAX_EARLY {
            followed.early.push_back((given.progress_token, progress));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.events.send(Event::ToolsChanged);
    }
}
