#![allow(deprecated, reason = "SEP-2577 deprecates log messages and folders, which servers of today use")]
//! Facts that the parts of a connection share: the fault that ended it, and notifications of the server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::ErrorData;
use rmcp::model::{
    ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::error::foreign;
use crate::event::{Event, Progress};
use crate::host::{Host, capabilities, is_form};
use crate::notice::{Notice, notice};

/// Maximum number of notifications that wait for their reader; the newer ones are dropped.
const MAX_PROGRESS: usize = 64;
/// Maximum number of notifications that arrived before their call was registered.
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
    host: Option<Arc<dyn Host>>,
}

/// News of a call.
#[derive(Debug)]
pub enum News {
    /// Progress.
    Progress(Progress),
    /// Output and the like.
    Notice(Notice),
}

#[derive(Default)]
struct Followed {
    readers: HashMap<ProgressToken, mpsc::Sender<News>>,
    early: VecDeque<(Option<ProgressToken>, News)>,
}

impl Notes {
    pub fn new(events: broadcast::Sender<Event>, host: Option<Arc<dyn Host>>) -> Self {
        Self { events, progress: Arc::default(), host }
    }

    /// Gives a notice to the call that it names, or to the only one that is open.
    fn tell(&self, of: Option<&Value>, notice: Notice) {
        let mut followed = locked(&self.progress);
        let named = of.and_then(|token| serde_json::from_value::<ProgressToken>(token.clone()).ok());
        let reader = match (&named, followed.readers.len()) {
            (Some(token), _) => followed.readers.get(token),
            (None, 1) => followed.readers.values().next(),
            (None, _) => None,
        };
        let is_early = reader.is_none() && named.is_some();
        if let Some(reader) = reader {
            let _ = reader.try_send(News::Notice(notice));
        } else if is_early && followed.early.len() < MAX_EARLY {
            followed.early.push_back((named, News::Notice(notice)));
        }
    }

    /// Follows a call.
    pub fn follow(&self, token: &ProgressToken) -> mpsc::Receiver<News> {
        let (sender, receiver) = mpsc::channel(MAX_PROGRESS);
        let mut followed = locked(&self.progress);
        let early = std::mem::take(&mut followed.early);
        for (of, news) in early {
            if of.as_ref().is_none_or(|of| of == token) {
                let _ = sender.try_send(news);
            } else {
                followed.early.push_back((of, news));
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
        // A server that asks for what is not there gets no model, no form, and an empty list of folders.
        ClientConfig::new(capabilities(self.host.as_deref()), own)
    }

    async fn on_progress(&self, given: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let message = given.message.as_deref().map(foreign);
        let progress = Progress { done: given.progress, total: given.total, message };
        let mut followed = locked(&self.progress);
        if let Some(reader) = followed.readers.get(&given.progress_token) {
            let _ = reader.try_send(News::Progress(progress));
        } else if followed.early.len() < MAX_EARLY {
            followed.early.push_back((Some(given.progress_token), News::Progress(progress)));
        }
    }

    async fn on_logging_message(
        &self,
        given: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(notice) = notice(&given.data) {
            self.tell(given.data.get("progressToken"), notice);
        }
    }

    async fn on_resource_updated(
        &self,
        given: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let change = "modified".to_owned();
        self.tell(None, Notice::FileChange { path: foreign(&given.uri), change });
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let Some(host) = self.host.as_ref().filter(|host| host.has_forms()) else { return Ok(declined()) };
        let asked = serde_json::to_value(&asked).unwrap_or_default();
        if !is_form(&asked) {
            return Ok(declined());
        }
        let answer = host.form(asked).await.and_then(|answer| serde_json::from_value(answer).ok());
        Ok(answer.unwrap_or_else(declined))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let Some(host) = self.host.as_ref().filter(|host| host.has_folders()) else {
            return Ok(ListRootsResult::default());
        };
        let folders = host.folders().await;
        Ok(ListRootsResult::new(
            folders.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect(),
        ))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.events.send(Event::ToolsChanged);
    }
}
