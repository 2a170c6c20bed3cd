//! Resources left for other processes while a run holds as many as it can get: descriptors in flight,
//! terminals, inotify instances.

use std::time::Duration;

use hotcell_sandbox::{Layer, Policy};

use crate::run::{STOPPED, THROUGH};

use super::{Place, Said, check, good, io_error, run, wait_until};

/// Time limit for a run to acquire everything.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) fn while_a_run_holds_everything(place: &Place<'_>) -> Result<Said, String> {
    let (code, said) = neighbour(place, &[])?;
    check(code == Some(STOPPED), || format!("a neighbour lacks something: {said}"))?;
    // Without the defence the neighbour lacks something, or the run would have proved nothing.
    if nix::unistd::geteuid().is_root() {
        return good(format!("{said}; each sandbox has a host user of its own"));
    }
    let (code, lacks) = neighbour(place, &[Layer::Rlimits])?;
    check(code == Some(THROUGH), || format!("without rlimits nothing is taken either: {lacks}"))?;
    good(format!("{said}; without rlimits {lacks}"))
}

/// Result of a program of the same user while a run without these layers holds everything; with all layers,
/// another sandbox is run too.
fn neighbour(place: &Place<'_>, without: &[Layer]) -> Result<(Option<i32>, String), String> {
    let folder = place.folder("neighbour")?;
    let ready = folder.join("ready");
    let argument = format!("ready={}", ready.display());
    let policy = place.attack(&["hold_everything", &argument]).read_write(&folder, &folder);
    let mut holder = place.other(&[], &policy, without)?.spawn().map_err(io_error)?;
    let holds = wait_until(ACQUIRE_TIMEOUT, || ready.exists());
    let look = || std::process::Command::new(place.base.join("bin/attack")).arg("neighbour").output();
    let mut found = look();
    // Another arena of this user may hold a resource for a moment, while the run holds its resources all the
    // time.
    let fine = |found: &std::io::Result<std::process::Output>| {
        found.as_ref().is_ok_and(|found| found.status.code() == Some(STOPPED))
    };
    if without.is_empty() {
        wait_until(ACQUIRE_TIMEOUT, || {
            let is_fine = fine(&found);
            if !is_fine {
                found = look();
            }
            is_fine
        });
    }
    let another = without.is_empty().then(|| run(&Policy::new("/bin/true")));
    // Killing it also ends its sandbox.
    let _ = holder.kill();
    let _ = holder.wait();
    super::after_kills();
    check(holds, || format!("the run did not hold everything within {} s", ACQUIRE_TIMEOUT.as_secs()))?;
    if let Some(another) = another {
        let (outcome, _) = another.map_err(|e| format!("no other run begins: {e}"))?;
        check(outcome.success(), || format!("another run: {:?} {:?}", outcome.cause, outcome.reason))?;
    }
    let found = found.map_err(io_error)?;
    Ok((found.status.code(), String::from_utf8_lossy(&found.stderr).trim().to_owned()))
}
