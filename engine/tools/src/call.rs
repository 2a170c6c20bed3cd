//! One call: a fresh store, an instance, arguments in, an answer out, and everything dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::SemaphorePermit;
use tokio_util::sync::CancellationToken;
use wasmtime::component::{ResourceAny, Val};
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use crate::asker::Asker;
use crate::capture::Printed;
use crate::component::{Place, Tool};
use crate::failure::{Failure, reached};
use crate::imports::Blob;
use crate::limiter::Reached;
use crate::mapping::{Blobs, Lifted, lift, lower};
use crate::share::Share;
use crate::state::State;
use crate::ticker::Running;
use crate::{Answer, Broker, CallError, Folder, Limit, Limits, Prepared, Runtime};

/// Time for a guest to finish after its call was cancelled, so that it leaves its files intact.
const GRACE: Duration = Duration::from_secs(1);

/// Request for a call: function, arguments and capabilities.
#[derive(Clone)]
pub struct CallRequest {
    /// Number chosen by the caller, which identifies the call to the broker.
    pub call: u64,
    /// Function to call: [`crate::Export::path`].
    pub path: String,
    /// Arguments: a JSON object.
    pub arguments: String,
    /// Folders that the guest can access, each at the same path as on the host.
    pub folders: Vec<Folder>,
    /// Environment variables of the guest.
    pub env: Vec<(String, String)>,
    /// Limits of the call.
    pub limits: Limits,
    /// Broker that answers the guest's questions.
    pub broker: Arc<dyn Broker>,
    /// Cancelled when the answer is no longer wanted. A guest that goes on is ended a second later.
    pub cancel: CancellationToken,
}

impl CallRequest {
    /// Creates a call without capabilities, with the default limits.
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

/// Rest of an answered call: its memory and its permits, released on drop. A caller need not wait for that to
/// get the answer.
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
    let share = runtime.shares.begin(prepared.number());
    let mut store = store(runtime, state, limits, deadline, share);
    let outcome = tokio::select! {
        biased;
        outcome = run(&mut store, prepared, tool, &request.arguments, limits) => outcome,
        // Also ends a guest that sleeps in the host.
        () = tokio::time::sleep_until(deadline.into()) => Err(Reached(Limit::Wall).into()),
        () = ended(&request.cancel) => Err(CallError::Cancelled.into()),
    };
    let state = store.data();
    let printed = state.capture.take();
    let outcome = if tool.signature.prints() { of_a_command(outcome, &printed, limits) } else { outcome };
    let lifted = match outcome {
        // Output by WASI 0.3 cannot end the call at once.
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

fn store(runtime: &Runtime, state: State, limits: &Limits, deadline: Instant, share: Share) -> Store<State> {
    let mut store = Store::new(&runtime.engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(usize::try_from(limits.copied.0).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    if let Some(table) = store.concurrent_resource_table() {
        table.set_max_capacity(limits.resources as usize);
    }
    store.set_epoch_deadline(1);
    let (share, threads) = (Arc::new(share), tokio::runtime::Handle::current().metrics().num_workers());
    // At every tick: yields the thread, checks clocks, and ends a guest that never sleeps like one that does.
    store.epoch_deadline_callback(move |store| {
        if store.data().capture.exceeded() {
            return Err(Reached(Limit::Output).into());
        }
        if Instant::now() >= deadline {
            return Err(Reached(Limit::Wall).into());
        }
        let share = Arc::clone(&share);
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(async move { share.turn(threads).await })))
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

/// The answer of a command: its output, whether it returned or exited.
fn of_a_command(
    outcome: Result<Lifted, Failure>,
    printed: &Printed,
    limits: &Limits,
) -> Result<Lifted, Failure> {
    let is_error = match &outcome {
        Ok(lifted) => lifted.is_error,
        Err(Failure::Wasm(error)) => match error.downcast_ref::<I32Exit>() {
            Some(I32Exit(status)) => *status != 0,
            None => return outcome,
        },
        Err(_) => return outcome,
    };
    if printed.exceeded {
        return outcome;
    }
    // Programs report failures on standard error.
    let said = if is_error && !printed.stderr.is_empty() { &printed.stderr } else { &printed.stdout };
    let said = String::from_utf8_lossy(said);
    let value = match (is_error, said.trim().is_empty()) {
        (true, true) => serde_json::json!({ "error": null }),
        (true, false) => serde_json::json!({ "error": said }),
        (false, _) => serde_json::json!({ "result": said }),
    };
    let json = value.to_string();
    if json.len() as u64 > limits.result.0 {
        return Err(Reached(Limit::Result).into());
    }
    Ok(Lifted { is_error, json })
}

/// Completes a while after the call was cancelled.
async fn ended(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Blobs of a store, and the error they failed with, of which the mapping has only the text.
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

    /// The reason the mapping failed.
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
