//! Leases: given to workers with a free slot, taken back, and given to another worker when one is silent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::longrunning::operations_server::Operations;
use bazel_remote_apis::google::longrunning::{
    CancelOperationRequest, DeleteOperationRequest, GetOperationRequest, ListOperationsRequest,
    ListOperationsResponse, Operation, WaitOperationRequest,
};
use bazel_remote_apis::google::protobuf::Timestamp;
use bazel_remote_apis::google::{protobuf, rpc};
use hotcell_fleet::bots::{
    ACTIVE, BOT_OK, BotSession, CANCELLED, COMPLETED, CreateBotSessionRequest, Lease, PENDING,
    UpdateBotSessionRequest,
};
use hotcell_fleet::digest::Key;
use hotcell_fleet::wire::{now, pack, unpack};
use reapi::execution_stage::Value as Stage;
use tokio::sync::Notify;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Time that a worker's question waits for a lease.
const POLL: Duration = Duration::from_millis(1100);
/// Full name of the API's messages.
const REAPI: &str = "build.bazel.remote.execution.v2";

struct Job {
    action: Key,
    /// Session that has it.
    by: Option<String>,
    /// Number of times that it was given to a worker.
    given: usize,
    taken_back: bool,
    ended: Option<(rpc::Status, Option<reapi::ActionResult>)>,
}

struct Session {
    seen: Instant,
    capacity: usize,
    status: i32,
}

#[derive(Default)]
struct Held {
    jobs: BTreeMap<String, Job>,
    sessions: BTreeMap<String, Session>,
    number: usize,
    silent: bool,
    /// Seconds by which the farm's clock is ahead.
    ahead: i64,
}

/// The scheduler.
pub struct Scheduler {
    lease: Duration,
    held: Mutex<Held>,
    news: Notify,
}

impl Scheduler {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, held: Mutex::default(), news: Notify::new() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an action.
    pub fn queue(&self, action: Key) -> String {
        let mut held = self.held();
        held.number += 1;
        let id = format!("lease-{}", held.number);
        held.jobs.insert(id.clone(), Job { action, by: None, given: 0, taken_back: false, ended: None });
        drop(held);
        self.news.notify_waiters();
        id
    }

    /// End of a lease.
    #[must_use]
    pub fn ended(&self, id: &str) -> Option<(rpc::Status, Option<reapi::ActionResult>)> {
        self.held().jobs.get(id)?.ended.clone()
    }

    /// Number of times that a lease was given to a worker.
    #[must_use]
    pub fn given(&self, id: &str) -> usize {
        self.held().jobs.get(id).map_or(0, |job| job.given)
    }

    /// Takes a lease back.
    pub fn take_back(&self, id: &str) {
        if let Some(job) = self.held().jobs.get_mut(id) {
            job.taken_back = true;
        }
        self.news.notify_waiters();
    }

    /// Sets the farm's clock ahead by this many seconds, or back.
    pub fn set_clock(&self, ahead: i64) {
        self.held().ahead = ahead;
    }

    /// Answers no worker any more, or again.
    pub fn silent(&self, silent: bool) {
        self.held().silent = silent;
        self.news.notify_waiters();
    }

    /// Number of workers that take leases.
    #[must_use]
    pub fn workers(&self) -> usize {
        let fresh = |session: &&Session| session.seen.elapsed() < self.lease && session.status == BOT_OK;
        self.held().sessions.values().filter(fresh).count()
    }

    async fn create(&self, request: CreateBotSessionRequest) -> Result<BotSession, Status> {
        if request.parent != "main" {
            return Err(Status::invalid_argument(format!("Invalid instance name: [{}]", request.parent)));
        }
        let mut session = request.bot_session.unwrap_or_default();
        {
            let mut held = self.held();
            held.number += 1;
            session.name = format!("session-{}", held.number);
        }
        self.update(session).await
    }

    async fn update(&self, session: BotSession) -> Result<BotSession, Status> {
        let begin = Instant::now();
        if self.held().silent {
            std::future::pending::<()>().await;
        }
        let mut waits = session.status == BOT_OK && session.leases.iter().all(|lease| lease.state == ACTIVE);
        loop {
            let news = self.news.notified();
            let answer = self.step(&session)?;
            let is_new = answer.leases.len() != session.leases.len()
                || answer.leases.iter().any(|lease| lease.state != ACTIVE);
            if is_new || !waits {
                return Ok(answer);
            }
            let left = POLL.saturating_sub(begin.elapsed());
            waits = tokio::time::timeout(left, news).await.is_ok();
        }
    }

    /// Takes what a worker reports, and gives it what it may have.
    fn step(&self, session: &BotSession) -> Result<BotSession, Status> {
        let mut held = self.held();
        let capacity = session
            .worker
            .as_ref()
            .and_then(|worker| worker.configs.iter().find(|pair| pair.key == "capacity")?.value.parse().ok());
        let capacity = capacity.unwrap_or(1);
        let seen = Session { seen: Instant::now(), capacity, status: session.status };
        held.sessions.insert(session.name.clone(), seen);
        let dead: Vec<String> = held
            .sessions
            .iter()
            .filter(|(_, other)| other.seen.elapsed() > self.lease)
            .map(|(name, _)| name.clone())
            .collect();
        for name in dead {
            held.sessions.remove(&name);
            for job in held.jobs.values_mut().filter(|job| job.by.as_deref() == Some(&name)) {
                job.by = None;
            }
        }
        // An answer that never arrived: the worker ends a question when an action ends. BuildGrid gives such a lease again.
        let unknown = |id: &String| session.leases.iter().all(|lease| lease.id != *id);
        for (_, job) in
            held.jobs.iter_mut().filter(|(id, job)| job.by.as_deref() == Some(&session.name) && unknown(id))
        {
            job.by = None;
        }
        let mut answer = BotSession { leases: Vec::new(), ..session.clone() };
        for lease in &session.leases {
            let Some(job) = held.jobs.get_mut(&lease.id) else { continue };
            if job.by.as_deref() != Some(&session.name) {
                continue;
            }
            if job.taken_back {
                job.by = None;
                let aborted = rpc::Status { code: tonic::Code::Cancelled as i32, ..rpc::Status::default() };
                job.ended = Some((aborted, None));
                answer.leases.push(Lease { state: CANCELLED, ..lease.clone() });
            } else if lease.state == COMPLETED {
                let result = lease
                    .result
                    .as_ref()
                    .and_then(|any| unpack(&format!("{REAPI}.ActionResult"), any, &[]).ok());
                let status = lease.status.clone().unwrap_or_default();
                job.by = None;
                // As a farm does: another worker may have room.
                if status.code != tonic::Code::Unavailable as i32 {
                    job.ended = Some((status, result));
                }
            } else {
                answer.leases.push(Lease { state: ACTIVE, ..lease.clone() });
            }
        }
        let free = if session.status == BOT_OK { capacity.saturating_sub(answer.leases.len()) } else { 0 };
        let waiting = held.jobs.iter_mut().filter(|(_, job)| job.by.is_none() && job.ended.is_none());
        for (id, job) in waiting.take(free) {
            (job.by, job.given) = (Some(session.name.clone()), job.given + 1);
            answer.leases.push(Lease {
                id: id.clone(),
                state: PENDING,
                payload: Some(pack(&format!("{REAPI}.Digest"), &job.action.message())),
                ..Lease::default()
            });
        }
        let seconds = i64::try_from(self.lease.as_secs()).unwrap_or(i64::MAX);
        answer.expire_time = Some(Timestamp { seconds: now().seconds + held.ahead + seconds, nanos: 0 });
        Ok(answer)
    }

    /// Slots of all workers.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.held().sessions.values().map(|session| session.capacity).sum()
    }
}

/// Future of an answer.
type Answer = Pin<Box<dyn Future<Output = Result<Response<BotSession>, Status>> + Send>>;

/// The scheduler's service.
#[derive(Clone)]
pub struct BotsServer(pub Arc<Scheduler>);

impl NamedService for BotsServer {
    const NAME: &'static str = "google.devtools.remoteworkers.v1test2.Bots";
}

struct Create(Arc<Scheduler>);

impl UnaryService<CreateBotSessionRequest> for Create {
    type Response = BotSession;
    type Future = Answer;

    fn call(&mut self, request: Request<CreateBotSessionRequest>) -> Answer {
        let scheduler = self.0.clone();
        Box::pin(async move { scheduler.create(request.into_inner()).await.map(Response::new) })
    }
}

struct Update(Arc<Scheduler>);

impl UnaryService<UpdateBotSessionRequest> for Update {
    type Response = BotSession;
    type Future = Answer;

    fn call(&mut self, request: Request<UpdateBotSessionRequest>) -> Answer {
        let scheduler = self.0.clone();
        Box::pin(async move {
            let session = request.into_inner().bot_session.unwrap_or_default();
            scheduler.update(session).await.map(Response::new)
        })
    }
}

impl Service<http::Request<Body>> for BotsServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let scheduler = self.0.clone();
        Box::pin(async move {
            if request.uri().path().ends_with("/CreateBotSession") {
                Ok(Grpc::new(ProstCodec::default()).unary(Create(scheduler), request).await)
            } else {
                Ok(Grpc::new(ProstCodec::default()).unary(Update(scheduler), request).await)
            }
        })
    }
}

#[tonic::async_trait]
impl Operations for Scheduler {
    async fn list_operations(
        &self,
        _request: Request<ListOperationsRequest>,
    ) -> Result<Response<ListOperationsResponse>, Status> {
        let held = self.held();
        let operation = |(id, job): (&String, &Job)| {
            let stage = match (&job.ended, &job.by) {
                (Some(_), _) => Stage::Completed,
                (None, Some(_)) => Stage::Executing,
                (None, None) => Stage::Queued,
            };
            let metadata = reapi::ExecuteOperationMetadata { stage: stage as i32, ..Default::default() };
            Operation {
                name: id.clone(),
                metadata: Some(pack(&format!("{REAPI}.ExecuteOperationMetadata"), &metadata)),
                done: job.ended.is_some(),
                ..Operation::default()
            }
        };
        let operations = held.jobs.iter().map(operation).collect();
        Ok(Response::new(ListOperationsResponse { operations, ..Default::default() }))
    }

    async fn get_operation(&self, _: Request<GetOperationRequest>) -> Result<Response<Operation>, Status> {
        Err(Status::unimplemented("GetOperation"))
    }

    async fn delete_operation(
        &self,
        _: Request<DeleteOperationRequest>,
    ) -> Result<Response<protobuf::Empty>, Status> {
        Err(Status::unimplemented("DeleteOperation"))
    }

    async fn cancel_operation(
        &self,
        _: Request<CancelOperationRequest>,
    ) -> Result<Response<protobuf::Empty>, Status> {
        Err(Status::unimplemented("CancelOperation"))
    }

    async fn wait_operation(&self, _: Request<WaitOperationRequest>) -> Result<Response<Operation>, Status> {
        Err(Status::unimplemented("WaitOperation"))
    }
}
