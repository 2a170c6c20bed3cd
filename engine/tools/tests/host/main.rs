//! The host in one process: its limits, what it refuses to load, what it asks, and what a guest cannot reach.

mod folders;
mod http;
mod imports;
mod limits;
mod loading;
mod repeated;
mod support;
mod told;
mod wasi3;
