//! Runs its arguments in a sandbox and prints the outcome as JSON.

use hotcell_sandbox::Policy;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut argv = std::env::args_os().skip(1);
    let Some(program) = argv.next() else {
        eprintln!("usage: run PROGRAM [ARG…]");
        std::process::exit(125);
    };
    let policy = Policy::new(program).args(argv);
    let outcome = hotcell_sandbox::run(&policy).await;
    match serde_json::to_string_pretty(&outcome) {
        Ok(text) => println!("{text}"),
        Err(e) => eprintln!("{e}"),
    }
}
