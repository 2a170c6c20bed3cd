//! `hotcell fleet status`: the queue of a farm, and the state of its hotcell workers.

use std::net::SocketAddr;
use std::time::Duration;

use hotcell_fleet::{Address, status, wire};
use hotcell_sandbox::Bytes;
use hotcell_state::report::printable;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::args::{Common, FleetStatusArgs};
use crate::context::{configuration, runtime};
use crate::worker_metrics::WorkerStatus;
use crate::{exit, usage};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.fleet_status/1";
/// Maximum size of a worker's answer, in bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// Time limit of a worker's answer.
const WORKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Output of `hotcell fleet status --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FleetStatus {
    /// Always `hotcell.fleet_status/1`.
    pub schema: String,
    /// State of the farm; `null` where none was named.
    pub farm: Option<Farm>,
    /// States of the workers that were named.
    pub workers: Vec<WorkerAnswer>,
}

/// State of a farm.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Farm {
    /// Address.
    pub address: String,
    /// Why it did not answer; `null` if it did.
    pub error: Option<String>,
    /// Lowest version of the API.
    pub api_low: Option<String>,
    /// Highest version of the API.
    pub api_high: Option<String>,
    /// It runs actions for this instance.
    pub executes: Option<bool>,
    /// Operations that wait; `null` where the farm does not tell.
    pub queued: Option<usize>,
    /// Operations that run.
    pub executing: Option<usize>,
    /// Time since the oldest waiting operation was queued, in seconds.
    pub oldest_queued_s: Option<u64>,
    /// Why the queue is not known.
    pub queue_error: Option<String>,
    /// Workers that the farm lists; `null` where it does not.
    pub workers: Option<Vec<Listed>>,
    /// Why they are not known.
    pub workers_error: Option<String>,
}

/// A worker that a farm lists.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Name.
    pub name: String,
    /// It takes actions.
    pub takes: bool,
    /// Actions that run on it.
    pub running: usize,
    /// Time since its last sign of life, in seconds.
    pub silent_s: Option<u64>,
}

/// Answer of a worker.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerAnswer {
    /// Address of its metrics.
    pub address: String,
    /// Why it did not answer; `null` if it did.
    pub error: Option<String>,
    /// Its state.
    pub status: Option<WorkerStatus>,
}

/// Runs the command; returns its exit status.
pub fn status(common: &Common, args: &FleetStatusArgs) -> anyhow::Result<u8> {
    let farm = configuration(common, None).and_then(|configuration| {
        let farm = args.farm.as_deref();
        farm.map(|farm| crate::farm::address(farm, "FARM", &args.reach, &configuration)).transpose()
    });
    let farm = match farm {
        Ok(farm) => farm,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let runtime = runtime()?;
    let found = runtime.block_on(async {
        let mut workers = Vec::new();
        for address in &args.worker {
            let asked = tokio::time::timeout(WORKER_TIMEOUT, ask(*address)).await;
            let asked = asked.unwrap_or_else(|_| Err("it did not answer within 10 s".to_owned()));
            let (status, error) = match asked {
                Ok(status) => (Some(status), None),
                Err(why) => (None, Some(why)),
            };
            workers.push(WorkerAnswer { address: address.to_string(), error, status });
        }
        let farm = match &farm {
            Some(address) => Some(of_farm(address).await),
            None => None,
        };
        FleetStatus { schema: SCHEMA.to_owned(), farm, workers }
    });
    runtime.shutdown_background();
    let failed = found.farm.as_ref().is_some_and(|farm| farm.error.is_some())
        || found.workers.iter().any(|worker| worker.error.is_some());
    let code = if failed { exit::REFUSED } else { 0 };
    let shown = if common.json { exit::print_json(&found) } else { exit::print_text(&text(&found)) };
    Ok(exit::printed(shown, code))
}

async fn of_farm(address: &Address) -> Farm {
    let mut farm = Farm { address: address.to_string(), ..Farm::default() };
    let looked = match wire::channel(address) {
        Ok(channel) => status::look(&channel, address).await,
        Err(error) => Err(error),
    };
    match looked {
        Err(error) => farm.error = Some(error.message),
        Ok(seen) => {
            (farm.api_low, farm.api_high) = (Some(seen.api.0), Some(seen.api.1));
            farm.executes = Some(seen.executes);
            match seen.queue {
                Ok(queue) => {
                    (farm.queued, farm.executing) = (Some(queue.queued), Some(queue.executing));
                    farm.oldest_queued_s = queue.oldest.map(|age| age.as_secs());
                }
                Err(why) => farm.queue_error = Some(why),
            }
            let listed = |worker: status::Registered| Listed {
                name: worker.name,
                takes: worker.takes,
                running: worker.running,
                silent_s: worker.silent.map(|age| age.as_secs()),
            };
            match seen.workers {
                Ok(workers) => farm.workers = Some(workers.into_iter().map(listed).collect()),
                Err(why) => farm.workers_error = Some(why),
            }
        }
    }
    farm
}

/// Asks a worker for its state.
async fn ask(address: SocketAddr) -> Result<WorkerStatus, String> {
    let failed = |error: std::io::Error| format!("it cannot be asked: {error}");
    let mut stream = TcpStream::connect(address).await.map_err(failed)?;
    let request = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await.map_err(failed)?;
    parse(&answer)
}

/// The state in an answer.
fn parse(answer: &[u8]) -> Result<WorkerStatus, String> {
    let text = String::from_utf8_lossy(answer);
    let not_ours = || "the server there is not a worker of hotcell".to_owned();
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(not_ours)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(not_ours());
    }
    serde_json::from_str(body).map_err(|_| not_ours())
}

/// Text for a person.
fn text(found: &FleetStatus) -> String {
    let mut lines = Vec::new();
    if let Some(farm) = &found.farm {
        match &farm.error {
            Some(why) => lines.push(why.clone()),
            None => {
                let version = |version: &Option<String>| version.clone().unwrap_or_default();
                let runs = if farm.executes == Some(true) { "runs actions" } else { "runs no actions" };
                lines.push(format!(
                    "{}: API {} to {}, {runs}",
                    farm.address,
                    version(&farm.api_low),
                    version(&farm.api_high)
                ));
                lines.push(match (farm.queued, farm.executing, farm.oldest_queued_s) {
                    (Some(queued), Some(executing), Some(oldest)) if queued > 0 => {
                        format!("  {queued} wait, the oldest for {oldest} s; {executing} run")
                    }
                    (Some(queued), Some(executing), _) => format!("  {queued} wait; {executing} run"),
                    _ => format!("  queue: {}", farm.queue_error.clone().unwrap_or_default()),
                });
                match &farm.workers {
                    None => {
                        lines.push(format!("  workers: {}", farm.workers_error.clone().unwrap_or_default()));
                    }
                    Some(workers) => lines.extend(workers.iter().map(|worker| {
                        let takes = if worker.takes { "" } else { ", takes no more" };
                        let silent =
                            worker.silent_s.map_or(String::new(), |age| format!(", seen {age} s ago"));
                        format!("  {}: {} run{silent}{takes}", worker.name, worker.running)
                    })),
                }
            }
        }
    }
    for worker in &found.workers {
        let Some(status) = &worker.status else {
            lines.push(format!("{}: {}", worker.address, worker.error.clone().unwrap_or_default()));
            continue;
        };
        let slots = if status.slots > 0 { format!(" of {}", status.slots) } else { String::new() };
        let ended: u64 = status.results.values().sum();
        let oldest = status.oldest_s.map_or(String::new(), |age| format!(", the oldest for {age:.0} s"));
        let drains = if status.draining { ", draining" } else { "" };
        let silent = status.silent_s.map_or(String::new(), |age| format!(", farm silent for {age:.0} s"));
        lines.push(format!(
            "{} ({}): {}{slots} run{oldest}, {ended} ended, memory {} of {}, cache {} with {} hits{silent}{drains}",
            status.name,
            worker.address,
            status.running,
            Bytes(status.memory_bytes),
            Bytes(status.total_memory_bytes),
            Bytes(status.cache_bytes),
            status.cache_hits,
        ));
    }
    lines.iter().map(|line| format!("{}\n", printable(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_servers_are_named() {
        let state = serde_json::to_string(&WorkerStatus::default()).unwrap();
        assert!(parse(format!("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{state}").as_bytes()).is_ok());
        for answer in ["", "SSH-2.0\r\n", "HTTP/1.1 404 Not Found\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n<html>"]
        {
            assert!(parse(answer.as_bytes()).unwrap_err().contains("not a worker"), "{answer}");
        }
    }

    #[test]
    fn states_are_shown_in_a_line_each() {
        let worker =
            WorkerStatus { name: "a\nb".to_owned(), slots: 2, running: 1, ..WorkerStatus::default() };
        let found = FleetStatus {
            schema: SCHEMA.to_owned(),
            farm: Some(Farm {
                queued: Some(3),
                executing: Some(1),
                oldest_queued_s: Some(7),
                ..Farm::default()
            }),
            workers: vec![
                WorkerAnswer { address: "127.0.0.1:1".to_owned(), error: None, status: Some(worker) },
                WorkerAnswer {
                    address: "127.0.0.1:2".to_owned(),
                    error: Some("gone".to_owned()),
                    status: None,
                },
            ],
        };
        let text = text(&found);
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("3 wait, the oldest for 7 s; 1 run") && text.contains("1 of 2 run"), "{text}");
    }
}
