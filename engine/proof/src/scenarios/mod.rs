//! Special tests, which an exit code cannot decide: they examine the outcome, or the host, around one run or
//! many.

mod commits;
mod deaths;
mod egress;
mod interception;
mod leaks;
mod memory;
mod neighbours;
mod outcomes;
mod pool;
mod poor_hosts;
mod sharing;
mod sources;
mod workspaces;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Cause, Layer, Outcome, Policy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::cgroups::count_below;
use crate::decoys::Decoys;
use crate::engine;
use crate::task::{Effort, STAGE};

/// Environment of a special test.
#[derive(Debug)]
pub struct Place<'a> {
    /// Folder of the arena.
    pub base: &'a Path,
    /// Targets of the attacks.
    pub decoys: &'a Decoys,
    /// Number of repetitions.
    pub effort: Effort,
}

/// Result of a special test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Passed, with a number or two for the reader.
    Good(String),
    /// Not applicable here, with the reason.
    Skipped(String),
    /// Failed, with the reason.
    Bad(String),
}

/// One special test.
#[derive(Debug)]
pub struct Special {
    /// Name of the test, with the attack's number, as for rows.
    pub name: &'static str,
    /// The test, run inside the arena.
    pub run: fn(&Place<'_>) -> Result<Said, String>,
}

impl Special {
    /// Number of the attack.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.name.get(1..4).and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }
}

const fn special(name: &'static str, run: fn(&Place<'_>) -> Result<Said, String>) -> Special {
    Special { name, run }
}

/// All special tests.
pub const ALL: &[Special] = &[
    special("a010_parent_swapped_while_it_is_bound", sources::swapped),
    special("a012_nul_is_refused_and_never_cuts", sources::nul),
    special("a015_nothing_is_committed_to_a_workspace", workspaces::uncommitted),
    special("a015_links_and_devices_committed", commits::planted),
    special("a016_links_and_pipes_of_a_workspace", workspaces::links_and_pipes),
    special("a016_links_and_pipes_copied_out", commits::copied_out),
    special("a017_file_swapped_while_it_is_copied", workspaces::swapped_while_copied),
    special("a017_folder_swapped_while_it_is_committed", commits::swapped_while_committed),
    special("a021_protected_names_made_later", workspaces::later_names),
    special("a021_protected_names_committed", commits::names),
    special("a022_no_ghost_mountpoint_is_left", sources::ghosts),
    special("a023_folder_within_a_folder", workspaces::nested_grants),
    special("a024_protected_names_in_other_letters", commits::other_letters),
    special("a029_owner_of_what_was_written", workspaces::owners),
    special("a030_written_on_the_host_and_executed", sharing::busy),
    special("a070_locks_are_not_shared", sharing::locks),
    special("a073_supervisor_killed_no_call_passes", deaths::supervisor_killed_while_asked),
    special("a083_spellings_through_the_proxy", egress::spellings),
    special("a084_names_that_lead_elsewhere", egress::rebinding),
    special("a085_names_like_an_allowed_one", egress::suffixes),
    special("a086_an_empty_list_denies_all", egress::empty_list),
    special("a087_tls_through_an_allowed_relay", egress::relay),
    special("a087_header_of_the_proxy_protocol", egress::another_client),
    special("a087_host_of_another_within_tls", interception::another_host),
    special("a087_target_of_another_within_tls", interception::another_target),
    special("a087_authority_of_another_in_http_2", interception::another_authority),
    special("a088_redirect_carries_no_secret", egress::redirect),
    special("a088_secret_of_a_route_is_nowhere_inside", egress::secret_of_a_route),
    special("a088_credential_beside_a_secret", interception::own_credential),
    special("a088_secret_repeated_by_its_host", interception::repeated_secret),
    special("a089_tunnel_of_names", egress::names),
    special("a090_nobody_serves_the_proxy", egress::nobody_serves),
    special("a091_one_list_a_run", egress::one_list_a_run),
    special("a092_around_the_proxy", egress::around_the_proxy),
    special("a095_sockets_in_folders_of_a_policy", sharing::sockets_in_folders),
    special("a099_listening_inside_is_unreachable", sharing::listening),
    special("a102_bomb_without_a_cgroup", poor_hosts::bomb_without_a_cgroup),
    special("a108_output_held_by_a_child_does_not_hang", outcomes::held_output),
    special("a109_compiler_ends_with_its_time", deaths::compiler),
    special("a110_supervisor_killed_all_dies", deaths::supervisor_killed),
    special("a111_killed_while_it_starts", deaths::killed_while_it_starts),
    special("a115_in_the_background_of_a_terminal", sharing::background_of_a_terminal),
    special("a116_cause_of_a_memory_bomb", memory::cause),
    special("a119_child_out_of_memory", memory::child),
    special("a120_no_swap", memory::no_swap),
    special("a121_kept_output_is_first_and_last_half", outcomes::kept_output),
    special("a122_supervisor_memory_is_flat", outcomes::flat_memory),
    special("a123_binary_output_is_kept", outcomes::binary),
    special("a124_cpu_and_wall_are_told_apart", outcomes::cpu_and_wall),
    special("a128_partial_output_is_kept", outcomes::partial),
    special("a131_no_cgroup_is_left", leaks::no_cgroup),
    special("a132_no_descriptor_is_left", leaks::no_descriptor),
    special("a133_environment_is_built_anew", outcomes::environment),
    special("a134_no_host_path_is_in_sight", sources::host_paths),
    special("a136_nothing_passes_to_the_next_run", leaks::next_run),
    special("a136_nothing_passes_through_a_pool", pool::nothing_passes),
    special("a137_no_user_namespaces", poor_hosts::no_user_namespaces),
    special("a138_every_landlock_version", poor_hosts::landlock_versions),
    special("a139_no_cgroup_delegation", poor_hosts::no_cgroups),
    special("a140_in_a_container", poor_hosts::container),
    special("a142_no_notifications", poor_hosts::no_notifications),
    special("a143_what_is_left_for_a_neighbour", neighbours::while_a_run_holds_everything),
];

impl Place<'_> {
    /// Policy that runs one of the hostile programs.
    fn attack(&self, arguments: &[&str]) -> Policy {
        let bin = self.base.join("bin");
        Policy::new(bin.join("attack"))
            .args(arguments.iter().map(|a| self.decoys.fill(a)))
            .read_only(&bin, &bin)
    }

    /// Makes an empty folder in the arena.
    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.base.join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(io_error)?;
        Ok(path)
    }

    /// Command of a separate process that runs a policy and prints the outcome, as [`once`] does. `around`, if
    /// not empty, are arguments of the attack program, which then starts the process.
    fn other(&self, around: &[&str], policy: &Policy, without: &[Layer]) -> Result<Command, String> {
        let task = Once { policy: policy.clone(), without: without.to_vec() };
        let task = serde_json::to_string(&task).map_err(|e| e.to_string())?;
        Ok(self.stage(around, &["once", &task]))
    }

    /// Command of a stage of the arena in a separate process.
    fn stage(&self, around: &[&str], stage: &[&str]) -> Command {
        let driver = self.base.join("bin/driver");
        let mut command = match around.split_first() {
            None => Command::new(&driver),
            Some(_) => {
                let mut command = Command::new(self.base.join("bin/attack"));
                command.args(around).arg("--").arg(&driver);
                command
            }
        };
        command.arg(STAGE).args(stage).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts a separate process that runs a policy, without waiting for it.
    fn start(&self, policy: &Policy) -> Result<Child, String> {
        self.other(&[], policy, &[])?.spawn().map_err(io_error)
    }

    /// Runs a policy in a separate process and waits for its outcome.
    fn outcome_of_other(
        &self,
        around: &[&str],
        policy: &Policy,
        without: &[Layer],
    ) -> Result<Outcome, Missed> {
        told(self.other(around, policy, without).map_err(Missed::Failed)?)
    }
}

/// Parses the output of a process as JSON.
fn told<T: serde::de::DeserializeOwned>(mut command: Command) -> Result<T, Missed> {
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| Missed::Failed(io_error(e)))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).map_err(|e| Missed::Failed(e.to_string())),
        Some(crate::run::MISSING) => Err(Missed::Precondition(said)),
        _ => Err(Missed::Failed(format!("{}: {said}", output.status))),
    }
}

/// Reason why another process printed no outcome.
#[derive(Debug)]
enum Missed {
    /// The host cannot be imitated here.
    Precondition(String),
    /// Another reason.
    Failed(String),
}

/// Task of [`once`].
#[derive(Debug, Serialize, Deserialize)]
struct Once {
    policy: Policy,
    without: Vec<Layer>,
}

/// A stage of the arena: runs one policy like a program that uses the library, and prints its outcome as
/// JSON.
///
/// # Errors
/// When the argument is not a valid task.
pub fn once(task: &str) -> io::Result<i32> {
    let Once { policy, without } = serde_json::from_str(task)?;
    let policy = without
        .into_iter()
        .fold(policy, |p, layer| p.without_layer(layer, hotcell_sandbox::danger::WeakensTheSandbox));
    println!("{}", serde_json::to_string(&engine::outcome(&policy)?)?);
    Ok(0)
}

/// Starts an engine, which removes the leftovers of killed supervisors (cgroups, scratch folders).
fn after_kills() {
    drop(hotcell_sandbox::Engine::new());
}

/// Runs a policy; an outcome without a run is an error.
fn run(policy: &Policy) -> Result<(Outcome, Duration), String> {
    let start = Instant::now();
    let outcome = engine::outcome(policy).map_err(io_error)?;
    if outcome.cause == Cause::Refused || outcome.cause == Cause::Internal {
        return Err(format!("{:?}: {}", outcome.cause, outcome.reason.unwrap_or_default()));
    }
    Ok((outcome, start.elapsed()))
}

/// Runs a policy; returns its standard output.
fn printed(policy: &Policy) -> Result<String, String> {
    let (outcome, _) = run(policy)?;
    Ok(String::from_utf8_lossy(&outcome.stdout.to_bytes()).into_owned())
}

/// Policy that runs a shell script.
fn shell(script: &str) -> Policy {
    Policy::new("/bin/sh").args(["-c", script])
}

fn check(holds: bool, what: impl Fn() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn good(text: impl Into<String>) -> Result<Said, String> {
    Ok(Said::Good(text.into()))
}

#[allow(clippy::needless_pass_by_value)] // the signature that map_err needs
fn io_error(error: io::Error) -> String {
    error.to_string()
}

/// A process that is visible from here.
#[derive(Debug)]
struct Process {
    pid: Pid,
    parent: i32,
    name: String,
    command: Vec<u8>,
}

impl Process {
    fn all() -> impl Iterator<Item = Self> {
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (left, right) = stat.rsplit_once(')')?;
            let mut fields = right.split_whitespace();
            let state = fields.next()?;
            let parent = fields.next()?.parse().ok()?;
            let name = left.split_once('(')?.1.to_owned();
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            // Zombies are inactive.
            (state != "Z" && state != "X").then_some(Self { pid: Pid::from_raw(pid), parent, name, command })
        })
    }

    /// Processes with this word on their command line, except for the harness's own.
    fn with_word(word: &str) -> Vec<Self> {
        Self::all()
            .filter(|p| p.command.windows(word.len()).any(|w| w == word.as_bytes()))
            .filter(|p| !p.command.windows(STAGE.len()).any(|w| w == STAGE.as_bytes()))
            .collect()
    }

    fn child_of(parent: u32, name: &str) -> Option<Self> {
        Self::all().find(|p| u32::try_from(p.parent) == Ok(parent) && p.name == name)
    }

    fn signal(&self, signal: Signal) {
        // The process may be gone already.
        let _ = kill(self.pid, signal);
    }
}

/// Waits until a condition holds; returns false when it does not within `patience`.
fn wait_until(patience: Duration, mut what: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if what() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Number of visible cgroups.
fn groups() -> usize {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controller, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            let root = Path::new("/sys/fs/cgroup");
            // Only the arena's own folder, since other cgroups come and go.
            path.contains("hotcell-arena").then(|| {
                count_below(&root.join(if controller.is_empty() { "unified" } else { controller }).join(path))
                    + count_below(&root.join(path))
            })
        })
        .sum()
}
