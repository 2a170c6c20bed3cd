//! Programs that keep their supervisor busy: events that end a run take precedence, even on a runtime with
//! one thread.

use std::time::{Duration, Instant};

use hotcell_sandbox::{Bytes, Cause, Engine, Policy};

use crate::{run, sh, told};

/// Maximum delay between the wall-clock limit and the end of a run: generous for slow machines, since a
/// starved supervisor would never end it.
const END_TIMEOUT: Duration = Duration::from_secs(20);

async fn ends(policy: &Policy, cause: Cause) {
    let begun = Instant::now();
    // A timer of a starved runtime never fires, so another thread reports the failure.
    let (done, waits) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if waits.recv_timeout(END_TIMEOUT * 3) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("the supervisor hears nothing but the program");
            std::process::abort();
        }
    });
    let outcome = run(policy).await;
    drop(done);
    watch.join().expect("watched");
    assert_eq!(outcome.cause, cause, "{}", told(&outcome));
    assert!(begun.elapsed() < END_TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn refused_calls_in_loop_meet_wall_limit() {
    let script = "import os, socket, threading\n\
        def ask():\n\
        \x20   while True:\n\
        \x20       try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('10.0.0.1', 9))\n\
        \x20       except OSError: pass\n\
        os.fork(); os.fork()\n\
        [threading.Thread(target=ask).start() for _ in range(8)]\n";
    let policy = Policy::new("/usr/bin/python3").args(["-c", script]).wall(Duration::from_secs(1));
    ends(&policy, Cause::WallLimit).await;
}

#[tokio::test]
async fn output_in_small_pieces_meets_wall_limit() {
    let script = "for i in 1 2 3 4; do while :; do printf x; printf y >&2; done & done; wait";
    ends(&sh(script).wall(Duration::from_secs(1)), Cause::WallLimit).await;
}

#[tokio::test]
async fn unread_events_meet_output_limit() {
    let mut policy = sh("yes >&3").events();
    policy.job.limits.output = Bytes::mib(1);
    ends(&policy, Cause::OutputLimit).await;
}

#[tokio::test]
async fn flood_does_not_delay_other_runs() {
    let engine = Engine::new();
    let flood =
        sh("for i in 1 2 3 4; do while :; do printf x; done & done; wait").wall(Duration::from_secs(2));
    let other = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        let outcome = engine.run(&sh("echo other")).await;
        assert_eq!(outcome.cause, Cause::Exited, "{}", told(&outcome));
        begun.elapsed()
    };
    let (flooded, took) = tokio::join!(engine.run(&flood), other);
    assert_eq!(flooded.cause, Cause::WallLimit, "{}", told(&flooded));
    assert!(took < Duration::from_millis(1600), "it waited for the flood to end: {took:?}");
}
