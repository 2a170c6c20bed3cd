//! One engine for all components of a process. Two processes with the same build read each other's compiled forms, whatever their
//! [`RuntimeOptions`].

use std::hash::{Hash, Hasher};

use tokio::sync::Semaphore;
use wasmtime::component::Linker;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy};

use crate::call::Spent;
use crate::state::State;
use crate::ticker::Ticker;
use crate::{
    Answer, BoxFuture, CallError, CallRequest, Description, LoadError, Prepared, call, compiled, component,
    http_bounds, imports,
};

/// A guest's stack. A parser's recursion is deep, so it is twice what wasmtime gives by default.
pub(crate) const STACK: usize = 1 << 20;

/// Elements that a table of the pool can hold: five times what [`crate::Limits`] allow by default, so that the limit and not the pool
/// says no. Only address space.
const TABLE_ELEMENTS: usize = 100_000;

/// Where instances get their memory from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// A pool that is reserved once: about a terabyte of address space by default, of which nothing is used until it is touched.
    #[default]
    Pooled,
    /// Memory is mapped for every call, which costs some ten microseconds more: for processes whose address space is limited.
    OnDemand,
}

/// How a [`Runtime`] is set up.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Calls at the same time, of all components together; further ones wait. 64.
    pub calls: u32,
    /// Where instances get their memory from.
    pub allocation: Allocation,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self { calls: 64, allocation: Allocation::default() }
    }
}

/// An engine, what it links components with, and the clock that interrupts them. One is enough for a process; calls need a tokio
/// runtime with its clock.
pub struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) ticker: Ticker,
    /// Stands before the pool, so that a call waits where it would fail.
    pub(crate) calls: Semaphore,
}

impl Runtime {
    /// Sets one up.
    ///
    /// # Errors
    ///
    /// [`LoadError::Host`] when the pool cannot be reserved (see [`Allocation`]) or a thread cannot be started.
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
        Ok(Self { engine, linker, ticker, calls: Semaphore::new(options.calls.max(1) as usize) })
    }

    /// A text that is the same for builds and machines that read each other's compiled forms.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.engine)
    }

    /// Compiles a component to the form that [`Self::load_compiled`] reads.
    ///
    /// # Errors
    ///
    /// [`LoadError`], as for [`Self::load`].
    pub fn compile(&self, wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let component = component::compile(&self.engine, wasm)?;
        component::serialize(&component)
    }

    /// Compiles a component and says what it is, by one compilation.
    ///
    /// # Errors
    ///
    /// [`LoadError`], as for [`Self::load`].
    pub fn describe(&self, wasm: &[u8]) -> Result<(Description, Vec<u8>), LoadError> {
        let component = component::compile(&self.engine, wasm)?;
        component::check_imports(&self.linker, &component)?;
        let description = crate::describe::describe(&component, &self.engine, wasm)?;
        Ok((description, component::serialize(&component)?))
    }

    /// Compiles a component and makes it ready, in this process. Compiling takes time and memory as the component's author likes, so
    /// do it in a confined process for what is not trusted.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: what the bytes are instead of a component, or which of its imports nobody provides, or why it is no tool.
    pub fn load(&self, wasm: &[u8]) -> Result<Prepared, LoadError> {
        Prepared::new(&self.linker, &component::compile(&self.engine, wasm)?)
    }

    /// Makes ready what [`Self::compile`] gave.
    ///
    /// **The file is machine code that runs as it is.** The caller knows by a message authentication code, or because nobody else
    /// could write it, that this program wrote it.
    ///
    /// # Errors
    ///
    /// [`LoadError::Stale`] for the form of another build; [`LoadError::Host`] when the file cannot be read.
    pub fn load_compiled(&self, file: std::fs::File) -> Result<Prepared, LoadError> {
        Prepared::new(&self.linker, &compiled::read(&self.engine, file)?)
    }

    /// Calls a tool in a fresh instance, which is gone when the future is done or dropped.
    ///
    /// # Errors
    ///
    /// [`CallError`]; a tool that says that it failed has answered ([`Answer::is_error`]).
    pub fn call<'a>(
        &'a self,
        prepared: &'a Prepared,
        request: CallRequest,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        let host = |error: serde_json::Error| CallError::Host { message: error.to_string() };
        Box::pin(async move {
            let (answer, spent) = call::call(self, prepared, request).await?;
            drop(spent);
            answer.read().map_err(host)
        })
    }

    /// The same, with the value as the text that was written, for whoever passes it on to somebody who reads it in any case, and
    /// with the instance, to be dropped when that is done.
    pub(crate) fn call_for_text<'a>(
        &'a self,
        prepared: &'a Prepared,
        request: CallRequest,
    ) -> BoxFuture<'a, Result<(Answer<String>, Spent<'a>), CallError>> {
        Box::pin(call::call(self, prepared, request))
    }
}

/// The same as [`Runtime::fingerprint`], without a pool: for whoever only names files.
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
        // The compiler whose output is verified and fuzzed most; the quick one has had most of the memory errors.
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        // Guests are stopped by the clock. Counting instructions (fuel) would cost them twice as much and say nothing of time.
        .epoch_interruption(true)
        .consume_fuel(false)
        // The rest of a call's stack is the host's, for what guests call.
        .max_wasm_stack(STACK)
        .async_stack_size(2 << 20)
        // Stacks are used again by other components' calls. Should compiled code ever read what it has not written, it reads zeros.
        .async_stack_zeroing(true)
        // Data segments are mapped, not copied.
        .memory_init_cow(true)
        // Traps are told by their kind. A table from machine code to wasm would make compiled forms a third longer.
        .generate_address_map(false)
        .wasm_backtrace_max_frames(None)
        // WASI 0.3 is made of the asynchronous component model.
        .wasm_component_model_async(true)
        .concurrency_support(true);
    // What no toolchain for components needs, and what each has had its own mistakes. Shared memory, garbage collection, exceptions
    // and stack switching are not even compiled in. Several memories stay on, because calls between composed components are made of
    // them; a module of a guest's own has one, see the pool.
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
        // As many as `Limits` allow by default for each call, so that no call takes another's. A component of a common toolchain has
        // three to six, of which one has a memory and two have a table.
        .total_core_instances(calls.saturating_mul(32))
        .total_memories(calls.saturating_mul(4))
        .total_tables(calls.saturating_mul(8))
        // Functions of WASI 0.3 that run side by side have a stack each.
        .total_stacks(calls.saturating_mul(2))
        .max_tables_per_module(8)
        .max_memories_per_module(1)
        .table_elements(TABLE_ELEMENTS)
        // Whole 4 GiB, so that no access needs a check; `Limits::memory` is counted as memories grow.
        .max_memory_size(1 << 32)
        // Tables of what an instance imports and exports: interpreters with all of WASI linked need more than the default of 1 MiB.
        .max_core_instance_size(4 << 20)
        .max_component_instance_size(8 << 20)
        // Slots are emptied by the kernel and not by writing zeros: for guests that touch little that is three times quicker, and what
        // an idle process holds stays small.
        .linear_memory_keep_resident(0)
        .table_keep_resident(0)
        // The part of a stack that nearly every call touches.
        .async_stack_keep_resident(16 << 10);
    pool
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    // All of WASI is there for everybody. What it can reach is what the call's context holds, which by default is nothing.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    wasmtime_wasi::p3::add_to_linker(&mut linker)?;
    wasmtime_wasi_http::p3::add_to_linker(&mut linker)?;
    http_bounds::add_to_linker(&mut linker)?;
    imports::add_to_linker(&mut linker)?;
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_forms_do_not_depend_on_how_memory_is_had() {
        let pooled = Runtime::new(&RuntimeOptions { calls: 2, ..RuntimeOptions::default() }).expect("a pool");
        let fingerprint = pooled.fingerprint();
        assert_eq!(fingerprint.len(), 64);
        assert_eq!(fingerprint, build_fingerprint().expect("an engine"));
    }
}
