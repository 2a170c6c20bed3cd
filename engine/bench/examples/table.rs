//! Starts `/bin/true` in every way that this host offers, the given number of times: `cargo run --release
//! --example table -- 100`.

use hotcell_bench::{Options, Rows, bench};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1);
    let runs = words.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let rows = words.next().map_or(Ok(Rows::default()), |names| Rows::parse(&names))?;
    let report = bench(&Options { runs, rows, ..Options::default() }, &mut |_, _, _| {}).await;
    print!("{}", report.markdown());
    Ok(())
}
