//! One call: a store, an instance, arguments in, an answer out. Everything is dropped then, unless the
//! instance is kept for the next call of its session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use wasmtime::component::{Instance, ResourceAny, Val};
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use crate::asker::Asker;
use crate::mapping::{Blobs, Lifted, lift, lower};
use crate::runtime::capture::Printed;
use crate::runtime::failure::{Failure, reached};
use crate::runtime::handles::Handles;
use crate::runtime::imports::Blob;
use crate::runtime::limiter::Reached;
use crate::runtime::prepared::{Place, Tool};
use crate::runtime::share::{Share, Shares};
use crate::runtime::state::State;
use crate::runtime::ticker::{Running, Ticker};
use crate::{Answer, Broker, CallError, Folder, Limit, Limits, Prepared};

/// Time for a guest to finish after its call was cancelled, so that it leaves its files intact.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Parts of a runtime that its calls share.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) ticker: &'a Ticker,
    /// Taken before an instance of the pool, so that a call waits where the pool would fail.
    pub(crate) calls: &'a Semaphore,
    pub(crate) shares: &'a Arc<Shares>,
}

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
    _store: Option<Kept>,
    _places: (Place, SemaphorePermit<'a>),
    _running: Running,
}

/// An instance with all that belongs to it, which further calls can use. One that trapped, reached a limit or
/// was cancelled is not used again.
pub struct Kept {
    store: Store<State>,
    /// Missing until the first call.
    instance: Option<Instance>,
    handles: Handles<ResourceAny>,
    /// Whether the current call has reached the guest.
    began: bool,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("handles", &self.handles.len()).finish_non_exhaustive()
    }
}

pub(crate) async fn call<'a>(
    parts: Parts<'a>,
    prepared: &Prepared,
    request: CallRequest,
    kept: Option<&mut Option<Kept>>,
) -> Result<(Answer<String>, Spent<'a>), CallError> {
    let tool =
        prepared.tool(&request.path).ok_or_else(|| CallError::Unknown { name: request.path.clone() })?;
    let limits = &request.limits;
    let (takes, gives) = tool.signature.handles();
    if kept.is_none() && (takes || gives) {
        let message = "its handles stand for what is in an instance, and this call has one of its own that ends with it".to_owned();
        return Err(CallError::Refused { message });
    }
    if let Some(Some(kept)) = &kept
        && gives
        && kept.handles.len() >= limits.handles as usize
    {
        let message = format!(
            "this session has {} handles of the plugin, and may have no more; free some of them first",
            limits.handles
        );
        return Err(CallError::Busy { message });
    }
    let closed = |_| CallError::Host { message: "no more calls are taken".to_owned() };
    let wait = async {
        let own = prepared.place(limits.concurrent).await;
        parts.calls.acquire().await.map(|all| (own, all)).map_err(closed)
    };
    let places = tokio::select! {
        biased;
        () = request.cancel.cancelled() => return Err(CallError::Cancelled),
        places = wait => places?,
    };
    let running = parts.ticker.run();
    let started = Instant::now();
    let deadline = started + limits.wall;
    let asker = Asker::new(Arc::clone(&request.broker), request.call, deadline, request.cancel.clone());
    let (mut none, keeps) = (None, kept.is_some());
    let kept = kept.unwrap_or(&mut none);
    // Taken out: whatever happens to this call, an instance that it did not leave in order is gone.
    let mut running_in = match kept.take() {
        Some(mut known) => {
            known.store.data_mut().begin(limits, asker);
            known
        }
        None => {
            let state = State::new(&request.folders, &request.env, limits, asker)
                .map_err(|message| CallError::Host { message })?;
            Kept::new(parts.engine, state, limits, keeps)
        }
    };
    running_in.begin(deadline, parts.shares.begin(prepared.number()));
    let outcome = tokio::select! {
        biased;
        outcome = running_in.run(prepared, tool, &request.arguments, limits) => outcome,
        // Also ends a guest that sleeps in the host.
        () = tokio::time::sleep_until(deadline.into()) => Err(Reached(Limit::Wall).into()),
        () = ended(&request.cancel) => Err(CallError::Cancelled.into()),
    };
    let state = running_in.store.data();
    let printed = state.capture.take();
    let outcome = if tool.signature.prints() { of_a_command(outcome, &printed, limits) } else { outcome };
    let lifted = match outcome {
        // Output by WASI 0.3 cannot end the call at once.
        Ok(_) if printed.exceeded => return Err(reached(Limit::Output, limits)),
        Ok(lifted) => lifted,
        Err(failure) => {
            let error = failure.explain(state, &printed, limits);
            if keeps && !running_in.began {
                running_in.handles.undo();
                *kept = Some(running_in);
            }
            return Err(error);
        }
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
    let rest = match keeps {
        true => {
            running_in.store.epoch_deadline_trap();
            *kept = Some(running_in);
            None
        }
        false => Some(running_in),
    };
    Ok((answer, Spent { _store: rest, _places: places, _running: running }))
}

impl Kept {
    fn new(engine: &Engine, state: State, limits: &Limits, keeps: bool) -> Self {
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(usize::try_from(limits.copied.0).unwrap_or(usize::MAX));
        // Those that the host gave to callers count here too, and have a limit of their own.
        let handles = (limits.handles as usize).saturating_mul(if keeps { 2 } else { 1 });
        store.set_max_component_handles(handles);
        if let Some(table) = store.concurrent_resource_table() {
            table.set_max_capacity(limits.resources as usize);
        }
        Self { store, instance: None, handles: Handles::default(), began: false }
    }

    /// Begins a call, which ends at `deadline`.
    fn begin(&mut self, deadline: Instant, share: Share) {
        self.began = false;
        self.store.set_epoch_deadline(1);
        let (share, threads) = (Arc::new(share), tokio::runtime::Handle::current().metrics().num_workers());
        // At every tick: yields the thread, checks clocks, and ends a guest that never sleeps like one that
        // does.
        self.store.epoch_deadline_callback(move |store| {
            if store.data().capture.exceeded() {
                return Err(Reached(Limit::Output).into());
            }
            if Instant::now() >= deadline {
                return Err(Reached(Limit::Wall).into());
            }
            let share = Arc::clone(&share);
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(async move { share.turn(threads).await })))
        });
    }

    async fn run(
        &mut self,
        prepared: &Prepared,
        tool: &Tool,
        arguments: &str,
        limits: &Limits,
    ) -> Result<Lifted, Failure> {
        let mut tables = self.tables(limits);
        let arguments =
            lower(&tool.signature, arguments, limits, &mut tables).map_err(|error| tables.why(error))?;
        self.handles.keep();
        self.began = true;
        let Some(index) = tool.index else { return self.drop_handle(&arguments).await };
        let store = &mut self.store;
        let instance = match self.instance {
            Some(instance) => instance,
            None => *self.instance.insert(prepared.pre().instantiate_async(&mut *store).await?),
        };
        let func = instance
            .get_func(&mut *store, index)
            .ok_or_else(|| CallError::Host { message: "the function is lost".to_owned() })?;
        let mut results = vec![Val::Bool(false); func.ty(&*store).results().len()];
        func.call_async(&mut *store, &arguments, &mut results).await?;
        let mut tables = self.tables(limits);
        lift(&tool.signature, &results, limits, &mut tables).map_err(|error| tables.why(error))
    }

    /// Frees a resource, with the component's own destructor.
    async fn drop_handle(&mut self, arguments: &[Val]) -> Result<Lifted, Failure> {
        let [Val::Resource(resource)] = arguments else {
            return Err(CallError::Host { message: "the handle is lost".to_owned() }.into());
        };
        resource.resource_drop_async(&mut self.store).await?;
        Ok(Lifted { is_error: false, json: "{}".to_owned() })
    }

    fn tables(&mut self, limits: &Limits) -> Tables<'_> {
        let most = limits.handles as usize;
        Tables { store: &mut self.store, handles: &mut self.handles, most, failed: None }
    }
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
    tokio::time::sleep(GRACE_PERIOD).await;
}

/// Blobs and handles of an instance, and the error they failed with, of which the mapping has only the text.
struct Tables<'a> {
    store: &'a mut Store<State>,
    handles: &'a mut Handles<ResourceAny>,
    /// Maximum number of handles.
    most: usize,
    failed: Option<wasmtime::Error>,
}

impl Tables<'_> {
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

impl Blobs for Tables<'_> {
    fn give(&mut self, bytes: Vec<u8>) -> Result<Val, String> {
        let given = Self::give(self, bytes);
        self.noted(given)
    }

    fn take(&mut self, val: Val) -> Result<Vec<u8>, String> {
        let taken = Self::take(self, &val);
        self.noted(taken)
    }

    fn resolve(&mut self, handle: &str, resource: Option<usize>, own: bool) -> Result<Val, String> {
        self.handles.resolve(handle, resource, own).map(Val::Resource)
    }

    fn name(&mut self, val: Val, name: &str, resource: usize) -> Result<String, String> {
        let Val::Resource(any) = val else { return Err("it is no resource".to_owned()) };
        if self.handles.len() >= self.most {
            return self.noted(Err(Reached(Limit::Handles).into()));
        }
        self.handles.add(name, resource, any)
    }
}
