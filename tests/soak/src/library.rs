//! `hotcell-soak library MARK`: runs through the library in one process with one engine, as in a service.
//!
//! Each line on standard input, `SEED COUNT`, is answered with one line of JSON. In a peaceful round every
//! run must be correct; in the others the launcher is killed, and each run is correct or reports a failure;
//! the next one must work.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Cause, Confinement, Engine, Outcome, Policy, Shape};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::task::JoinSet;

use crate::dice::Dice;

/// Time limit for leftovers of the runs to disappear.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);

/// Result of one order.
#[derive(Debug, Default)]
struct Report {
    runs: u64,
    /// Number of killed launchers.
    killed: u64,
    /// Number of runs whose future was dropped.
    given_up: u64,
    wrong: Vec<String>,
}

/// Works on orders until there are no more.
pub fn serve(mark: &str) -> Result<(), Box<dyn std::error::Error>> {
    // Before anything else: it may move this process to a cgroup of its own.
    let engine = Engine::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    engine.keep_ready(1);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (seed, count) = line.split_once(' ').ok_or("an order is SEED COUNT")?;
        let (seed, count) = (seed.parse()?, count.parse()?);
        let report = runtime.block_on(order(&engine, seed, count, mark));
        let folders = engine.cgroup_folders();
        println!(
            "{}",
            json!({"runs": report.runs, "killed": report.killed, "given_up": report.given_up,
                   "wrong": report.wrong, "cgroup_folders": folders})
        );
        std::io::stdout().flush()?;
    }
    Ok(())
}

async fn order(engine: &Engine, seed: u64, count: u64, mark: &str) -> Report {
    let mut report = Report::default();
    let mut dice = Dice::new(seed, 0);
    while report.runs < count {
        let violent = dice.chance(15);
        // With 0, the launcher is killed between runs.
        let at_once = if violent { dice.below(4) } else { 1 + dice.below(4) }.min(count - report.runs);
        let mut round = JoinSet::new();
        for n in 0..at_once {
            let dice = Dice::new(dice.roll(), n);
            round.spawn(one(engine.clone(), dice, format!("{mark}-{}", report.runs + n)));
        }
        if violent {
            tokio::time::sleep(dice.time(60)).await;
            let launcher = engine.launcher_id().await.and_then(|id| i32::try_from(id).ok());
            if let Some(id) = launcher.filter(|id| kill(Pid::from_raw(*id), Signal::SIGKILL).is_ok()) {
                report.killed += 1;
                // The kernel takes a moment; a run that is requested meanwhile belongs to the killed ones.
                while crate::processes::read(id).is_some_and(|p| p.state != 'Z') {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        report.runs += at_once;
        while let Some(done) = round.join_next().await {
            match done {
                Ok(Done::Right) => {}
                Ok(Done::GivenUp) => report.given_up += 1,
                Ok(Done::Lost(_)) if violent => {}
                Ok(Done::Lost(why) | Done::Wrong(why)) => report.wrong.push(why),
                Err(e) => report.wrong.push(e.to_string()),
            }
        }
    }
    let began = Instant::now();
    // Dropped runs end in the background; only then do they count as finished.
    tokio::time::sleep(Duration::from_millis(100)).await;
    if !engine.settle(CLEANUP_TIMEOUT).await {
        report.wrong.push(format!("not settled {} s after the last run", began.elapsed().as_secs()));
    }
    report
}

/// Result of one run.
enum Done {
    Right,
    GivenUp,
    /// The run reports a failure: correct only if its launcher was killed.
    Lost(String),
    Wrong(String),
}

fn judge(what: &str, outcome: &Outcome, cause: Cause, printed: Option<&str>) -> Done {
    let told = || format!("library, {what}: {}", serde_json::to_string(outcome).unwrap_or_default());
    if matches!(outcome.cause, Cause::Internal | Cause::Refused) {
        return Done::Lost(told());
    }
    let text = outcome.stdout.text.as_deref();
    let right = outcome.cause == cause && printed.is_none_or(|printed| text == Some(printed));
    if right { Done::Right } else { Done::Wrong(told()) }
}

fn sh(script: &str, mark: &str) -> Policy {
    Policy::new("sh").args(["-c", script, mark])
}

/// Runs until it is ended, with a daemon of its own.
fn stays(mark: &str) -> Policy {
    sh("setsid sh -c 'sleep 600; :' $0 & echo $0; sleep 600; :", mark)
}

async fn one(engine: Engine, mut dice: Dice, mark: String) -> Done {
    let line = format!("{mark}\n");
    match dice.below(12) {
        0 | 1 => {
            let code = i32::try_from(dice.below(100)).unwrap_or(0);
            let outcome = engine.run(&sh(&format!("echo $0; exit {code}"), &mark)).await;
            match judge("own status", &outcome, Cause::Exited, Some(&line)) {
                Done::Right if outcome.exit_code != Some(code) => Done::Wrong(format!("{outcome:?}")),
                done => done,
            }
        }
        2 | 3 => {
            let text = format!("{:x}", dice.roll()).repeat(30);
            let outcome = engine.run(&Policy::new("printf").args(["%s", &text, &mark])).await;
            judge("last words", &outcome, Cause::Exited, Some(&format!("{text}{mark}")))
        }
        4 => {
            let outcome = engine.run(&sh("(sleep 600 &) ; echo $0", &mark)).await;
            judge("daemon", &outcome, Cause::Exited, Some(&line))
        }
        5 => {
            let mut policy = sh("echo $0 >$HOME/x; cat $HOME/x", &mark);
            policy.shape.confinement = Confinement::LandlockOnly;
            // Without a user namespace the limit counts all processes of an ordinary user.
            policy.job.limits.processes = 4096;
            judge("landlock only", &engine.run(&policy).await, Cause::Exited, Some(&line))
        }
        6 => {
            let policy = stays(&mark).wall(Duration::from_millis(100));
            judge("wall clock", &engine.run(&policy).await, Cause::WallLimit, None)
        }
        7 => match engine.spawn(&stays(&mark)).await {
            Ok(running) => {
                let canceller = running.canceller();
                let after = dice.time(60);
                let (outcome, ()) = tokio::join!(running.wait(), async {
                    tokio::time::sleep(after).await;
                    canceller.cancel();
                });
                judge("cancelled", &outcome, Cause::Cancelled, None)
            }
            Err(refusal) => Done::Lost(refusal.message),
        },
        // Dropped half-way, with its output followed or not.
        8 => match engine.spawn(&stays(&mark)).await {
            Ok(mut running) => {
                let output = if dice.chance(50) { running.output() } else { None };
                tokio::time::sleep(dice.time(60)).await;
                drop((running, output));
                Done::GivenUp
            }
            Err(refusal) => Done::Lost(refusal.message),
        },
        // Dropped at any step of its creation.
        9 => {
            let _ = tokio::time::timeout(dice.time(25), engine.run(&stays(&mark))).await;
            Done::GivenUp
        }
        // Prewarmed, and used or not.
        10 => match engine.acquire(&Shape::default()).await {
            Ok(sandbox) => {
                tokio::time::sleep(dice.time(20)).await;
                if dice.chance(50) {
                    return Done::GivenUp;
                }
                match sandbox.release(&Policy::new("echo").arg(&mark).job).await {
                    Ok(running) => judge("made ahead", &running.wait().await, Cause::Exited, Some(&line)),
                    Err(refusal) => Done::Lost(refusal.message),
                }
            }
            Err(refusal) => Done::Lost(refusal.message),
        },
        // Its output is requested but not read.
        _ => match engine.spawn(&sh("seq 1 20000; echo $0", &mark)).await {
            Ok(mut running) => {
                drop(running.output());
                judge("nobody reads", &running.wait().await, Cause::Exited, None)
            }
            Err(refusal) => Done::Lost(refusal.message),
        },
    }
}
