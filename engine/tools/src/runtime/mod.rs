//! Running components with wasmtime.
//!
//! | module | idea |
//! | --- | --- |
//! | [`engine`] | one engine for all components of a process |
//! | [`mod@prepared`], `compiled`, `provided` | a component that is ready to be called; its machine code; its imports |
//! | [`call`], `state`, `counts`, `handles` | one call, and the contents of its store |
//! | `limiter`, `ticker`, `share`, `capture` | memory, time, turns and output of calls |
//! | `imports`, `http` | functions of the host that a guest may call |
//! | `failure` | reason a call failed |

pub mod call;
pub(crate) mod capture;
pub(crate) mod compiled;
pub(crate) mod counts;
pub mod engine;
pub(crate) mod failure;
pub(crate) mod handles;
pub(crate) mod http;
pub(crate) mod imports;
pub(crate) mod limiter;
pub mod prepared;
pub(crate) mod provided;
pub(crate) mod share;
pub(crate) mod state;
pub(crate) mod ticker;
