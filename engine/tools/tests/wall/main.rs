//! Components in tool host processes. The test program also serves as the tool host, and as programs in place
//! of one that was taken over.

mod bounds;
mod fake;
mod kept;
mod lies;
mod place;
mod real;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("tool-host") => return hotcell_tools::serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Some("fake") => fake::run(&words[2]),
        _ => {}
    }
    let trials =
        bounds::TESTS.iter().chain(kept::TESTS).chain(lies::TESTS).chain(place::TESTS).chain(real::TESTS);
    let trials = trials.map(|(name, test)| {
        Trial::test(*name, || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(test());
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
