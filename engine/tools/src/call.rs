//! One call: a fresh store, an instance, arguments in, an answer out, and everything gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::SemaphorePermit;
use tokio_util::sync::CancellationToken;
use wasmtime::component::{ResourceAny, Val};
use wasmtime::{Store, UpdateDeadline};

use crate::asker::Asker;
use crate::component::{Place, Tool};
use crate::failure::{Failure, reached};
use crate::imports::Blob;
use crate::limiter::Reached;
use crate::mapping::{Blobs, Lifted, lift, lower};
use crate::state::State;
use crate::ticker::Running;
use crate::{Answer, Broker, CallError, Folder, Limit, Limits, Prepared, Runtime};

/// How long a guest may go on after its call was cancelled, to leave its files whole.
const GRACE: Duration = Duration::from_secs(1);

/// What to call, with what, and what it holds.
#[derive(Clone)]
pub struct CallRequest {
    /// A number of the caller's, under which the broker is asked.
    pub call: u64,
    /// Which function: [`crate::Export::path`].
    pub path: String,
    /// Its arguments: a JSON object.
    pub arguments: String,
    /// Folders that it sees, each under the name that it has on the host.
    pub folders: Vec<Folder>,
    /// Variables that it sees.
    pub env: Vec<(String, String)>,
    /// What it may use.
    pub limits: Limits,
    /// Who answers what it asks.
    pub broker: Arc<dyn Broker>,
    /// Set when nobody wants the answer any more. A guest that goes on is ended a second later.
    pub cancel: CancellationToken,
}

impl CallRequest {
    /// A call that holds nothing, with the default limits.
    #[must_use]
    pub fn new(path: &str, arguments: &str, broker: Arc<dyn Broker>) -> Self {
        Self {
            call: 0,
            path: path.to_owned(),
            arguments: arguments.to_owned(),
            folders: Vec::new(),
            env: Vec::new(),
            limits: Limits::default(),
            broker,
            cancel: CancellationToken::new(),
        }
    }
}

/// What is left of a call that has its answer: its memory and its places, given back when this is dropped, for which nobody who wants
/// the answer has to wait.
pub(crate) struct Spent<'a> {
    _store: Store<State>,
    _places: (Place, SemaphorePermit<'a>),
    _running: Running,
}

pub(crate) async fn call<'a>(
    runtime: &'a Runtime,
    prepared: &Prepared,
    request: CallRequest,
) -> Result<(Answer<String>, Spent<'a>), CallError> {
    let tool =
        prepared.tool(&request.path).ok_or_else(|| CallError::Unknown { name: request.path.clone() })?;
    let limits = &request.limits;
    let closed = |_| CallError::Host { message: "no more calls are taken".to_owned() };
    let wait = async {
        let own = prepared.place(limits.concurrent).await;
        runtime.calls.acquire().await.map(|all| (own, all)).map_err(closed)
    };
    let places = tokio::select! {
        biased;
        () = request.cancel.cancelled() => return Err(CallError::Cancelled),
        places = wait => places?,
    };
    let running = runtime.ticker.run();
    let started = Instant::now();
    let deadline = started + limits.wall;
    let asker = Asker::new(Arc::clone(&request.broker), request.call, deadline, request.cancel.clone());
    let state = State::new(&request.folders, &request.env, limits, asker)
        .map_err(|message| CallError::Host { message })?;
    let mut store = store(runtime, state, limits, deadline);
    let outcome = tokio::select! {
        biased;
        outcome = run(&mut store, prepared, tool, &request.arguments, limits) => outcome,
        // Also a guest that sleeps in the host is ended.
        () = tokio::time::sleep_until(deadline.into()) => Err(Reached(Limit::Wall).into()),
        () = ended(&request.cancel) => Err(CallError::Cancelled.into()),
    };
    let state = store.data();
    let printed = state.capture.take();
    let lifted = match outcome {
        // What WASI 0.3 prints cannot end the call at once.
        Ok(_) if printed.exceeded => return Err(reached(Limit::Output, limits)),
        Ok(lifted) => lifted,
        Err(failure) => return Err(failure.explain(state, &printed, limits)),
    };
    let answer = Answer {
        is_error: lifted.is_error,
        value: lifted.json,
        stdout: String::from_utf8_lossy(&printed.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&printed.stderr).into_owned(),
        denied: state.asker.denied(),
        wall_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        peak_memory: state.limiter.peak(),
    };
    Ok((answer, Spent { _store: store, _places: places, _running: running }))
}

fn store(runtime: &Runtime, state: State, limits: &Limits, deadline: Instant) -> Store<State> {
    let mut store = Store::new(&runtime.engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(usize::try_from(limits.copied.0).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    if let Some(table) = store.concurrent_resource_table() {
        table.set_max_capacity(limits.resources as usize);
    }
    store.set_epoch_deadline(1);
    // Every tick: others get the thread, clocks are looked at, and a guest that never sleeps is ended like one that does.
    store.epoch_deadline_callback(move |store| {
        if store.data().capture.exceeded() {
            return Err(Reached(Limit::Output).into());
        }
        if Instant::now() >= deadline {
            return Err(Reached(Limit::Wall).into());
        }
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}

async fn run(
    store: &mut Store<State>,
    prepared: &Prepared,
    tool: &Tool,
    arguments: &str,
    limits: &Limits,
) -> Result<Lifted, Failure> {
    let mut kept = Kept { store, failed: None };
    let arguments = lower(&tool.signature, arguments, limits, &mut kept).map_err(|error| kept.why(error))?;
    let store = kept.store;
    let instance = prepared.pre().instantiate_async(&mut *store).await?;
    let func = instance
        .get_func(&mut *store, tool.index)
        .ok_or_else(|| CallError::Host { message: "the function is lost".to_owned() })?;
    let mut results = vec![Val::Bool(false); func.ty(&*store).results().len()];
    func.call_async(&mut *store, &arguments, &mut results).await?;
    let mut kept = Kept { store, failed: None };
    lift(&tool.signature, &results, limits, &mut kept).map_err(|error| kept.why(error))
}

/// Done a while after the call was cancelled.
async fn ended(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// The blobs of a store, and what went wrong with them, which the mapping only has in words.
struct Kept<'a> {
    store: &'a mut Store<State>,
    failed: Option<wasmtime::Error>,
}

impl Kept<'_> {
    fn give(&mut self, bytes: Vec<u8>) -> wasmtime::Result<Val> {
        let resource = self.store.data_mut().keep(bytes)?;
        Ok(Val::Resource(ResourceAny::try_from_resource::<Blob>(resource, &mut *self.store)?))
    }

    fn take(&mut self, val: &Val) -> wasmtime::Result<Vec<u8>> {
        let Val::Resource(any) = val else { wasmtime::bail!("it is no blob") };
        let resource = any.try_into_resource::<Blob>(&mut *self.store)?;
        self.store.data_mut().release(resource)
    }

    fn noted<T>(&mut self, result: wasmtime::Result<T>) -> Result<T, String> {
        result.map_err(|error| {
            let message = format!("{error:#}");
            self.failed = Some(error);
            message
        })
    }

    /// Why the mapping failed.
    fn why(&mut self, error: CallError) -> Failure {
        self.failed.take().map_or(Failure::Call(error), Failure::Wasm)
    }
}

impl Blobs for Kept<'_> {
    fn give(&mut self, bytes: Vec<u8>) -> Result<Val, String> {
        let given = Self::give(self, bytes);
        self.noted(given)
    }

    fn take(&mut self, val: Val) -> Result<Vec<u8>, String> {
        let taken = Self::take(self, &val);
        self.noted(taken)
    }
}
