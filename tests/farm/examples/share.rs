//! Measures hotcell's share of an action, at a farm in this process: from the lease to the program's start, and from its
//! end to the answer. `HOTCELL_BIN=… cargo run -p hotcell-farm --example share`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2::Directory;
use bazel_remote_apis::google::protobuf::Timestamp;
use hotcell_farm::hotcell_fleet::verdict;
use hotcell_farm::{Farm, bazel_remote_apis, file, until};

const ROUNDS: usize = 60;

fn main() {
    let binary = std::env::var_os("HOTCELL_BIN").expect("HOTCELL_BIN");
    let farm = Farm::start(Duration::from_secs(60));
    let state = std::env::temp_dir().join(format!("hotcell-share.{}", std::process::id()));
    let mut worker = Command::new(binary)
        .args(["worker", "--quiet", "--jobs", "1", "--bots", &farm.url(), "--state"])
        .arg(&state)
        .env_remove("HOTCELL_BIN")
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the worker starts");
    until("the worker connects", || farm.scheduler.workers() == 1);
    let input = file("in.txt", farm.storage.put(b"input\n".to_vec()));
    let root = farm.store(&Directory { files: vec![input], ..Directory::default() });
    let (mut before, mut around, mut after, mut whole) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begin = Instant::now();
        let (status, result) = farm.end(&farm.script(root, &format!("cat in.txt; true {round}")));
        whole.push(begin.elapsed());
        let result = result.unwrap_or_else(|| panic!("{status:?}"));
        let metadata = result.execution_metadata.expect("metadata");
        let time = |stamp: Option<Timestamp>| {
            let stamp = stamp.expect("a time");
            Duration::new(u64::try_from(stamp.seconds).unwrap_or(0), u32::try_from(stamp.nanos).unwrap_or(0))
        };
        let (start, end) =
            (time(metadata.execution_start_timestamp), time(metadata.execution_completed_timestamp));
        let outcome = metadata.auxiliary_metadata.iter().find(|any| any.type_url.ends_with(verdict::OUTCOME));
        let outcome: serde_json::Value =
            serde_json::from_slice(&outcome.expect("an outcome").value).expect("JSON");
        let program = Duration::from_micros(outcome["usage"]["wall_us"].as_u64().unwrap_or(0));
        before.push(start.saturating_sub(time(metadata.worker_start_timestamp)));
        around.push((end - start).saturating_sub(program));
        after.push(time(metadata.worker_completed_timestamp).saturating_sub(end));
    }
    worker.kill().expect("the worker ends");
    let _ = worker.wait();
    let _ = std::fs::remove_dir_all(&state);
    for (what, list) in [
        ("lease to sandbox (action, command and input, from farm and cache)", &mut before),
        ("sandbox around the program", &mut around),
        ("end to answer (outputs)", &mut after),
        ("whole, with the farm's own time", &mut whole),
    ] {
        list.sort();
        println!("{what}: median {:.1} ms", list[list.len() / 2].as_secs_f64() * 1000.0);
    }
}
