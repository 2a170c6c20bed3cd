//! A program that runs a command in a sandbox. `main` needs no call for that but [`hotcell_sandbox::run`].

use hotcell_sandbox::{Bytes, Cause, Policy};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let policy =
        Policy::new("sh").args(["-c", "echo inside as $(id -un); cat /etc/shadow"]).memory(Bytes::mib(64));
    let outcome = hotcell_sandbox::run(&policy).await;
    print!("{}", outcome.stdout.text.as_deref().unwrap_or_default());
    print!("{}", outcome.stderr.text.as_deref().unwrap_or_default());
    match outcome.cause {
        Cause::Exited => println!("exit code {}", outcome.exit_code.unwrap_or_default()),
        cause => println!("{cause:?}: {}", outcome.reason.as_deref().unwrap_or_default()),
    }
    let missing: Vec<_> =
        outcome.layers.states.iter().filter(|(layer, _)| !outcome.layers.is_on(**layer)).collect();
    println!("layers not in force: {missing:?}");
}
