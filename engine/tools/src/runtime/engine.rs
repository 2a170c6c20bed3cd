//! One engine for all components of a process. Two processes with the same build can read each other's
//! compiled components, whatever their [`RuntimeOptions`].

use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::component::Linker;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy};

use crate::limits::STACK_BYTES;
use crate::runtime::call::{Kept, Parts, Spent};
use crate::runtime::http::bounds;
use crate::runtime::share::Shares;
use crate::runtime::state::State;
use crate::runtime::ticker::Ticker;
use crate::runtime::{call, compiled, imports, prepared, provided};
use crate::{Answer, BoxFuture, CallError, CallRequest, Description, LoadError, Prepared};

/// Maximum number of frames of a trap's backtrace to look at: enough for an endless recursion of frames of 256
/// bytes to show its caller.
const MAX_FRAMES: usize = 4_096;

/// Maximum number of elements in a table of the pool: five times the default in [`crate::Limits`], so that
/// the limit is reached before the pool's own bound. Costs only address space.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Source of the memory of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// A pool that is reserved once: about a terabyte of address space by default, which takes no memory
    /// until it is touched.
    #[default]
    Pooled,
    /// Memory that is mapped for every call, at a cost of some ten microseconds: for processes whose address
    /// space is limited.
    OnDemand,
}

/// Options of a [`Runtime`].
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Maximum number of calls at the same time, over all components; further ones wait. Default: 64.
    pub calls: u32,
    /// Source of the memory of instances.
    pub allocation: Allocation,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self { calls: 64, allocation: Allocation::default() }
    }
}

/// An engine, its linker for components, and the clock that interrupts them. One is enough for a process;
/// calls need a tokio runtime with its clock.
pub struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) ticker: Ticker,
    /// Taken before an instance of the pool, so that a call waits where the pool would fail.
    pub(crate) calls: Semaphore,
    pub(crate) shares: Arc<Shares>,
}

impl Runtime {
    /// Creates a runtime.
    ///
    /// # Errors
    ///
    /// [`LoadError::Host`] when the pool cannot be reserved (see [`Allocation`]) or a thread cannot be
    /// started.
    pub fn new(options: &RuntimeOptions) -> Result<Self, LoadError> {
        let engine = Engine::new(&config(options)).map_err(|error| host(&match options.allocation {
            Allocation::Pooled => format!(
                "the pool for instances cannot be reserved: {error:#}; raise the limit of address space (ulimit -v), or map memory for every call (Allocation::OnDemand)"
            ),
            Allocation::OnDemand => format!("the engine cannot be set up: {error:#}"),
        }))?;
        let linker =
            linker(&engine).map_err(|error| host(&format!("the imports cannot be linked: {error:#}")))?;
        let ticker = Ticker::start(&engine)
            .map_err(|error| host(&format!("the clock's thread cannot be started: {error}")))?;
        Ok(Self {
            engine,
            linker,
            ticker,
            calls: Semaphore::new(options.calls.max(1) as usize),
            shares: Arc::default(),
        })
    }

    fn parts(&self) -> Parts<'_> {
        Parts { engine: &self.engine, ticker: &self.ticker, calls: &self.calls, shares: &self.shares }
    }

    /// Fingerprint, equal for builds and machines that can read each other's compiled components.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.engine)
    }

    /// Compiles a component to the form that [`Self::load_compiled`] reads.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`Self::load`].
    pub fn compile(&self, wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let component = prepared::compile(&self.engine, wasm)?;
        prepared::serialize(&component)
    }

    /// Compiles and describes a component in one compilation.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`Self::load`].
    pub fn describe(&self, wasm: &[u8]) -> Result<(Description, Vec<u8>), LoadError> {
        provided::check(wasm)?;
        let component = prepared::compile(&self.engine, wasm)?;
        prepared::check_imports(&self.linker, &component)?;
        let description = crate::component::describe::describe(&component, &self.engine, wasm)?;
        Ok((description, prepared::serialize(&component)?))
    }

    /// Compiles, describes and loads a component in one compilation.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`Self::load`].
    pub fn describe_and_load(&self, wasm: &[u8]) -> Result<(Description, Prepared), LoadError> {
        provided::check(wasm)?;
        let component = prepared::compile(&self.engine, wasm)?;
        let prepared = Prepared::new(&self.linker, &component)?;
        Ok((crate::component::describe::describe(&component, &self.engine, wasm)?, prepared))
    }

    /// Compiles and loads a component in this process. Its author controls how much time and memory compiling
    /// takes, so compile untrusted components in a confined process.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotAComponent`] when the bytes are not a component, [`LoadError::Imports`] for imports
    /// that this host does not provide, [`LoadError::NoTools`] or [`LoadError::Signature`] when it is not a
    /// tool, [`LoadError::Compile`] when compiling fails, [`LoadError::Host`] when the image of its memory
    /// cannot be made.
    pub fn load(&self, wasm: &[u8]) -> Result<Prepared, LoadError> {
        provided::check(wasm)?;
        Prepared::new(&self.linker, &prepared::compile(&self.engine, wasm)?)
    }

    /// Loads the output of [`Self::compile`].
    ///
    /// **The file is machine code that runs unchecked.** The caller must be sure that this program wrote it:
    /// by a message authentication code, or because no other user could write it.
    ///
    /// # Errors
    ///
    /// [`LoadError::Stale`] for the output of another build; [`LoadError::Host`] when the file cannot be
    /// read.
    pub fn load_compiled(&self, file: std::fs::File) -> Result<Prepared, LoadError> {
        Prepared::new(&self.linker, &compiled::read(&self.engine, file)?)
    }

    /// Calls a tool in a fresh instance, which is dropped when the future completes or is dropped.
    ///
    /// # Errors
    ///
    /// [`CallError`] when the call fails; a tool that reports an error of its own has answered
    /// ([`Answer::is_error`]).
    pub fn call<'a>(
        &'a self,
        prepared: &'a Prepared,
        request: CallRequest,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        let host = |error: serde_json::Error| CallError::Host { message: error.to_string() };
        Box::pin(async move {
            let (answer, spent) = call::call(self.parts(), prepared, request, None).await?;
            drop(spent);
            answer.read().map_err(host)
        })
    }

    /// Like [`Self::call`], in an instance that is kept for further calls: `kept` is empty for the first one,
    /// and after a call that failed within the instance, whose handles are gone then. Folders, variables and
    /// limits of its memory are those of the first call.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`Self::call`].
    pub fn call_kept<'a>(
        &'a self,
        prepared: &'a Prepared,
        request: CallRequest,
        kept: &'a mut Option<Kept>,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        let host = |error: serde_json::Error| CallError::Host { message: error.to_string() };
        Box::pin(async move {
            let (answer, _) = call::call(self.parts(), prepared, request, Some(kept)).await?;
            answer.read().map_err(host)
        })
    }

    /// Like [`Self::call`], but returns the value as the text that the tool wrote, for callers that only pass
    /// it on to a reader that parses it anyway; also returns the instance, to be dropped afterwards.
    pub(crate) fn call_for_text<'a>(
        &'a self,
        prepared: &'a Prepared,
        request: CallRequest,
        kept: Option<&'a mut Option<Kept>>,
    ) -> BoxFuture<'a, Result<(Answer<String>, Spent<'a>), CallError>> {
        Box::pin(call::call(self.parts(), prepared, request, kept))
    }
}

/// Like [`Runtime::fingerprint`], but without a pool: for callers that only name files.
///
/// # Errors
///
/// [`LoadError::Host`] when the processor is not supported.
pub fn build_fingerprint() -> Result<String, LoadError> {
    let options = RuntimeOptions { calls: 1, allocation: Allocation::OnDemand };
    let engine = Engine::new(&config(&options))
        .map_err(|error| host(&format!("the engine cannot be set up: {error:#}")))?;
    Ok(fingerprint(&engine))
}

fn fingerprint(engine: &Engine) -> String {
    struct Digest(blake3::Hasher);
    impl Hasher for Digest {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut digest = Digest(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut digest);
    digest.0.finalize().to_hex().to_string()
}

fn host(message: &str) -> LoadError {
    LoadError::Host { message: message.to_owned() }
}

fn config(options: &RuntimeOptions) -> Config {
    let mut config = Config::new();
    config
        // Cranelift's output is verified and fuzzed most; the quick compiler has had most of the memory
        // errors.
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        // The clock stops guests. Counting instructions (fuel) would double their run time and say nothing
        // about time.
        .epoch_interruption(true)
        .consume_fuel(false)
        // The rest of a call's stack is for host functions that guests call.
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(2 << 20)
        // Stacks are reused by calls of other components. If compiled code ever read memory that it has not
        // written, it would read zeros.
        .async_stack_zeroing(true)
        // Data segments are mapped, not copied.
        .memory_init_cow(true)
        // Traps are reported by kind and by function names. The map from machine code to wasm, which source
        // lines need, would make compiled components a third larger.
        .generate_address_map(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(MAX_FRAMES))
        // WASI 0.3 is built on the asynchronous component model.
        .wasm_component_model_async(true)
        .concurrency_support(true);
    // Features that no toolchain for components needs, and that each have had bugs of their own. Shared
    // memory, garbage collection, exceptions and stack switching are not even compiled in. Multiple memories
    // stay on, because calls between composed components use them; a guest's own module has one, see the
    // pool.
    config
        .wasm_memory64(false)
        .wasm_gc(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .shared_memory(false);
    config.allocation_strategy(match options.allocation {
        Allocation::Pooled => InstanceAllocationStrategy::Pooling(pool(options.calls.max(1))),
        Allocation::OnDemand => InstanceAllocationStrategy::OnDemand,
    });
    config
}

fn pool(calls: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        // Per call as many as `Limits` allow by default, so that no call takes another's. A component of a
        // common toolchain has three to six, of which one has a memory and two have a table.
        .total_core_instances(calls.saturating_mul(32))
        .total_memories(calls.saturating_mul(4))
        .total_tables(calls.saturating_mul(8))
        // Concurrent functions of WASI 0.3 have a stack each.
        .total_stacks(calls.saturating_mul(2))
        .max_tables_per_module(8)
        .max_memories_per_module(1)
        .table_elements(MAX_TABLE_ELEMENTS)
        // A full 4 GiB, so that no access needs a check; `Limits::memory` is counted as memories grow.
        .max_memory_size(1 << 32)
        // Space for an instance's imports and exports: interpreters with all of WASI linked need more than
        // the default of 1 MiB.
        .max_core_instance_size(4 << 20)
        .max_component_instance_size(8 << 20)
        // The kernel clears slots, instead of writes of zeros: for guests that touch little that is three
        // times quicker, and an idle process holds little memory.
        .linear_memory_keep_resident(0)
        .table_keep_resident(0)
        // The part of a stack that nearly every call touches stays resident.
        .async_stack_keep_resident(16 << 10);
    pool
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    // All of WASI is linked for every component. The call's context decides what it can reach, which by
    // default is nothing.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    wasmtime_wasi::p3::add_to_linker(&mut linker)?;
    wasmtime_wasi_http::p3::add_to_linker(&mut linker)?;
    bounds::add_to_linker(&mut linker)?;
    imports::add_to_linker(&mut linker)?;
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_form_is_independent_of_allocation() {
        let pooled = Runtime::new(&RuntimeOptions { calls: 2, ..RuntimeOptions::default() }).expect("a pool");
        let fingerprint = pooled.fingerprint();
        assert_eq!(fingerprint.len(), 64);
        assert_eq!(fingerprint, build_fingerprint().expect("an engine"));
    }
}
