//! Prewarmed sandboxes: even if one was made while another's program ran, nothing passes between them.

use std::time::{Duration, Instant};

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Cause, Engine, Outcome, Policy};

use crate::engine;
use crate::run::THROUGH;

use super::{Place, Said, check, good, io_error};

/// Number of ready sandboxes of one shape.
const READY_SANDBOXES: usize = 2;
/// Time limit for a pool to fill up.
const FILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum number of kinds of leftovers that are found within one sandbox.
const MIN_LEFTOVER_KINDS: usize = 8;

pub(crate) fn nothing_passes(place: &Place<'_>) -> Result<Said, String> {
    good(engine::block_on(passing(place)).map_err(io_error)??)
}

/// Leaves every kind of leftover in one sandbox, and looks for them in sandboxes made before, meanwhile and
/// afterwards.
async fn passing(place: &Place<'_>) -> Result<String, String> {
    let attack = |arguments: &[&str]| {
        let granted = place.base.join("granted");
        let policy = place.attack(arguments).arg(place.decoys.fill("file={ro}"));
        policy.read_only(&granted, &granted)
    };
    let (look, leave) = (attack(&["find_left"]), attack(&["leave_all", "seconds=30"]));
    let pool = Pool::new(Engine::new(), PoolOptions { each: READY_SANDBOXES, ..PoolOptions::default() });

    // Shows that leftovers are found within one sandbox.
    let same = pool.run(&attack(&["leave_all", "seconds=0", "find=1"])).await;
    let note = said(&same);
    let found =
        note.split_once(" left things found").and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
    check(same.exit_code == Some(THROUGH) && found.is_some_and(|n: usize| n >= MIN_LEFTOVER_KINDS), || {
        format!("nothing to be found in one sandbox: {:?} {note}", same.cause)
    })?;

    clean(&pool, &look, "before").await?;
    full(&pool).await?;
    let running = pool.spawn(&leave).await.map_err(|refusal| refusal.message)?;
    check(pool.ready() < READY_SANDBOXES, || {
        "the program that leaves things did not get one made ahead".to_owned()
    })?;
    full(&pool).await?;
    // Both ready sandboxes: one was made before the program left anything, one while it ran.
    for _ in 0..READY_SANDBOXES {
        clean(&pool, &look, "meanwhile").await?;
    }
    let marked = super::Process::with_word("leave_all");
    check(!marked.is_empty(), || "the program that leaves things had ended".to_owned())?;
    drop(running);
    full(&pool).await?;
    for _ in 0..READY_SANDBOXES {
        clean(&pool, &look, "afterwards").await?;
    }
    // Waits for sandboxes that are still being made, which would otherwise appear after the pool is cleared.
    full(&pool).await?;
    pool.clear();
    check(pool.engine().settle(FILL_TIMEOUT).await, || "what waited is not gone".to_owned())?;
    Ok(format!("{} kinds left, none found by {} runs", found.unwrap_or_default(), 2 * READY_SANDBOXES + 1))
}

fn said(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr.to_bytes()).trim().to_owned()
}

/// Checks that the next sandbox of the pool has no leftovers.
async fn clean(pool: &Pool, look: &Policy, when: &str) -> Result<(), String> {
    let outcome = pool.run(look).await;
    check(outcome.cause == Cause::Exited && outcome.exit_code == Some(0), || {
        format!("{when}: {:?} {:?} {:?} {}", outcome.cause, outcome.exit_code, outcome.reason, said(&outcome))
    })
}

/// Waits until the pool is full.
async fn full(pool: &Pool) -> Result<(), String> {
    let begun = Instant::now();
    while pool.ready() < READY_SANDBOXES {
        check(begun.elapsed() < FILL_TIMEOUT, || {
            format!("{} sandboxes are ready, not {READY_SANDBOXES}", pool.ready())
        })?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
