//! The `hotcell` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    hotcell::whole()
}
