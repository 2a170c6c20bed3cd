//! The host in one process: its limits, the components that it refuses to load, its questions to the broker,
//! and its isolation of guests.

mod folders;
mod http;
mod imports;
mod limits;
mod loading;
mod repeated;
mod support;
mod told;
mod wasi3;
