//! `hotcell worker --metrics ADDR`: counts for Prometheus and a page in JSON for `hotcell fleet status`, on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hotcell_fleet::cache::{Cache, Counts};
use hotcell_fleet::executor::Executor;
use hotcell_fleet::meter::{Meter, Reading};
use hotcell_server::metrics::text::{Family, Kind, Sample, render};
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.worker_status/1";
/// Maximum size of a request's head, in bytes.
const MAX_HEAD: usize = 8 << 10;
/// Time limit of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 8;

/// Sources of the counts.
#[derive(Clone)]
pub struct Sources {
    /// Name of the worker.
    pub name: String,
    /// Farm, or socket of the runner.
    pub serves: String,
    /// Maximum number of actions at once; 0 where the client of the runner decides.
    pub slots: usize,
    /// Counts.
    pub meter: Arc<Meter>,
    /// Sandboxes.
    pub executor: Arc<Executor>,
    /// Kept blobs.
    pub cache: Option<Arc<Cache>>,
}

/// State of a worker, at `/status` of its metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// Always `hotcell.worker_status/1`.
    pub schema: String,
    /// Name of the worker.
    pub name: String,
    /// Farm, or socket of the runner.
    pub serves: String,
    /// Maximum number of actions at once; 0 where the client of the runner decides.
    pub slots: usize,
    /// Actions that run.
    pub running: usize,
    /// Time since the oldest of them was taken, in seconds.
    pub oldest_s: Option<f64>,
    /// Time since the farm's last answer, in seconds.
    pub silent_s: Option<f64>,
    /// It takes no more actions.
    pub draining: bool,
    /// Memory that running actions may use, in bytes.
    pub memory_bytes: u64,
    /// Memory that all actions together may use, in bytes.
    pub total_memory_bytes: u64,
    /// Ended actions by result.
    pub results: std::collections::BTreeMap<String, u64>,
    /// Blobs that were taken from the cache.
    pub cache_hits: u64,
    /// Blobs that were not there.
    pub cache_misses: u64,
    /// Size of the kept blobs, in bytes.
    pub cache_bytes: u64,
}

impl Sources {
    /// The state as it is now.
    pub fn status(&self) -> WorkerStatus {
        let (reading, counts) = self.read();
        let (memory_bytes, total_memory_bytes) = self.executor.memory();
        WorkerStatus {
            schema: SCHEMA.to_owned(),
            name: self.name.clone(),
            serves: self.serves.clone(),
            slots: self.slots,
            running: reading.running,
            oldest_s: reading.oldest.map(|age| age.as_secs_f64()),
            silent_s: reading.silent.map(|age| age.as_secs_f64()),
            draining: reading.draining,
            memory_bytes,
            total_memory_bytes,
            results: reading.results.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect(),
            cache_hits: counts.hits,
            cache_misses: counts.misses,
            cache_bytes: counts.bytes,
        }
    }

    fn read(&self) -> (Reading, Counts) {
        let counts = self.cache.as_ref().map(|cache| cache.counts()).unwrap_or_default();
        (self.meter.read(), counts)
    }

    fn text(&self) -> String {
        let (reading, counts) = self.read();
        render(&families(&reading, &counts, self.slots, self.executor.memory()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn families(reading: &Reading, counts: &Counts, slots: usize, memory: (u64, u64)) -> Vec<Family> {
    let one = |name, kind, help, value: f64| Family {
        name,
        help,
        kind,
        samples: vec![Sample::new(Vec::new(), value)],
    };
    let seconds = |age: Option<Duration>| age.map_or(0.0, |age| age.as_secs_f64());
    let results = reading.results.iter();
    let results =
        results.map(|(word, count)| Sample::new(vec![("result", (*word).to_owned())], *count as f64));
    let (counter, gauge) = (Kind::Counter, Kind::Gauge);
    vec![
        Family {
            name: "hotcell_worker_actions_total",
            help: "Actions that ended, by result.",
            kind: counter,
            samples: results.collect(),
        },
        one(
            "hotcell_worker_action_seconds_total",
            counter,
            "Time of ended actions, from lease to answer.",
            reading.seconds,
        ),
        one("hotcell_worker_actions_running", gauge, "Actions that run now.", reading.running as f64),
        one("hotcell_worker_slots", gauge, "Maximum number of actions at once.", slots as f64),
        one(
            "hotcell_worker_memory_reserved_bytes",
            gauge,
            "Memory that running actions may use.",
            memory.0 as f64,
        ),
        one(
            "hotcell_worker_memory_bytes",
            gauge,
            "Memory that all actions together may use.",
            memory.1 as f64,
        ),
        one(
            "hotcell_worker_oldest_lease_seconds",
            gauge,
            "Time since the oldest running action was taken.",
            seconds(reading.oldest),
        ),
        one(
            "hotcell_worker_leases_taken_back_total",
            counter,
            "Leases that the farm took back.",
            reading.taken_back as f64,
        ),
        one(
            "hotcell_worker_farm_silent_seconds",
            gauge,
            "Time since the farm's last answer.",
            seconds(reading.silent),
        ),
        one(
            "hotcell_worker_draining",
            gauge,
            "1 when no more actions are taken.",
            f64::from(u8::from(reading.draining)),
        ),
        one(
            "hotcell_worker_cache_hits_total",
            counter,
            "Blobs taken from the worker's cache.",
            counts.hits as f64,
        ),
        one(
            "hotcell_worker_cache_hit_bytes_total",
            counter,
            "Size of the blobs taken from the worker's cache.",
            counts.hit_bytes as f64,
        ),
        one(
            "hotcell_worker_cache_misses_total",
            counter,
            "Blobs that were not in the worker's cache.",
            counts.misses as f64,
        ),
        one(
            "hotcell_worker_cache_wrong_total",
            counter,
            "Blobs of the cache with other bytes than their digest says.",
            counts.wrong as f64,
        ),
        one("hotcell_worker_cache_bytes", gauge, "Size of the worker's cache.", counts.bytes as f64),
    ]
}

/// Listens on loopback.
///
/// # Errors
/// [`ErrorReport`] when the address is not loopback, or cannot be bound.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ErrorReport> {
    let wrong = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--metrics");
    if !address.ip().is_loopback() {
        return Err(wrong(format!("{address} is not on loopback, and the metrics have no credentials"))
            .hint("name 127.0.0.1:PORT, and put a proxy in front for other machines"));
    }
    TcpListener::bind(address).await.map_err(|e| wrong(format!("{address} cannot be listened at: {e}")))
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, sources: Sources) {
    let places = Arc::new(tokio::sync::Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let sources = sources.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, answer(stream, &sources)).await;
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, sources: &Sources) -> std::io::Result<()> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_HEAD {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(&piece[..read]);
    }
    let (status, kind, body) = match route(&head) {
        Ok(Page::Metrics) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", sources.text()),
        Ok(Page::Status) => {
            let text = serde_json::to_string(&sources.status()).unwrap_or_default();
            ("200 OK", "application/json", text)
        }
        Err((status, why)) => (status, "text/plain; charset=utf-8", format!("{why}\n")),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Metrics,
    Status,
}

/// The page that a request's head asks for. A page of a browser must not read it under another name, so the host has to be
/// one of loopback.
fn route(head: &[u8]) -> Result<Page, (&'static str, &'static str)> {
    let bad = ("400 Bad Request", "this is not a request of HTTP/1");
    let text = std::str::from_utf8(head).map_err(|_| bad)?;
    let text = text.split_once("\r\n\r\n").ok_or(bad)?.0;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad);
    };
    if !version.starts_with("HTTP/1.") {
        return Err(bad);
    }
    let hosts: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim())
        .collect();
    let name = |host: &str| match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default().to_owned(),
        None => host.split(':').next().unwrap_or_default().to_ascii_lowercase(),
    };
    if !matches!(hosts.as_slice(), [host] if matches!(name(host).as_str(), "localhost" | "127.0.0.1" | "::1"))
    {
        return Err(("403 Forbidden", "the metrics are for localhost"));
    }
    if method != "GET" {
        return Err(("405 Method Not Allowed", "only GET"));
    }
    match path {
        "/metrics" => Ok(Page::Metrics),
        "/status" => Ok(Page::Status),
        _ => Err(("404 Not Found", "there are /metrics and /status")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_for_loopback() {
        for (head, want) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:9\r\n\r\n", Ok(Page::Metrics)),
            ("GET /status HTTP/1.1\r\nhost: [::1]:9\r\n\r\n", Ok(Page::Status)),
            ("GET /status HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", Ok(Page::Status)),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Err("404 Not Found")),
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", Err("405 Method Not Allowed")),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", Err("403 Forbidden")),
            ("GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", Err("403 Forbidden")),
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", Err("403 Forbidden")),
            ("GET /metrics HTTP/1.1\r\n\r\n", Err("403 Forbidden")),
            ("GET /metrics HTTP/2\r\nHost: localhost\r\n\r\n", Err("400 Bad Request")),
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n", Err("400 Bad Request")),
            ("\u{0}", Err("400 Bad Request")),
        ] {
            assert_eq!(route(head.as_bytes()).map_err(|(status, _)| status), want, "{head:?}");
        }
    }

    #[test]
    fn families_have_a_value_each() {
        let text = render(&families(&Meter::default().read(), &Counts::default(), 2, (1, 2)));
        assert!(
            text.contains("hotcell_worker_slots 2\n") && text.contains("{result=\"lost\"} 0\n"),
            "{text}"
        );
        assert_eq!(text.matches("# TYPE").count(), 15);
    }
}
