//! Measures how long a worker takes to lay a tree of 5,000 files: from the farm, from its cache, and what of it is the
//! copying of the files alone. `cargo run --release -p hotcell-farm --example lay`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2::Directory;
use hotcell_farm::{Farm, bazel_remote_apis, file, folder, hotcell_fleet};
use hotcell_fleet::cache::Cache;
use hotcell_fleet::cas::Cas;
use hotcell_fleet::lay::{self, Source};
use hotcell_fleet::tree::{Bounds, Entry, Tree};
use hotcell_fleet::{Address, wire};

const FOLDERS: usize = 50;
const FILES: usize = 100;
const ROUNDS: usize = 7;

fn main() {
    let dir = std::env::temp_dir().join(format!("hotcell-lay.{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let farm = Farm::start(Duration::from_secs(60));
    let below = (0..FOLDERS).map(|at| {
        let files = (0..FILES).map(|number| {
            let text = format!("file {number} of folder {at}\n").repeat(100);
            file(&format!("file{number:03}"), farm.storage.put(text.into_bytes()))
        });
        let key = farm.store(&Directory { files: files.collect(), ..Directory::default() });
        folder(&format!("folder{at:03}"), key)
    });
    let root = farm.store(&Directory { directories: below.collect(), ..Directory::default() });
    let address = Address::parse(&farm.url(), false).expect("an address");
    let cache = Arc::new(Cache::open(&dir.join("cache"), 1 << 30).expect("a cache"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut cold, mut warm, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    runtime.block_on(async {
        let channel = wire::channel(&address).expect("a channel");
        for round in 0..=ROUNDS {
            let cache = (round > 0).then(|| cache.clone());
            let mut source = Source { cas: Cas::new(&channel, &address), cache };
            if round == 1 {
                // Fills the cache.
                once(&mut source, root, &dir.join("fill")).await;
            }
            let (took, tree) = once(&mut source, root, &dir.join("tree")).await;
            (if round == 0 { &mut cold } else { &mut warm }).push(took);
            plain.push(copy(&tree, &dir));
        }
    });
    std::fs::remove_dir_all(&dir).expect("removed");
    let median = |list: &mut Vec<Duration>| {
        list.sort();
        list[list.len() / 2].as_secs_f64() * 1000.0
    };
    let (cold, warm, plain) = (median(&mut cold), median(&mut warm), median(&mut plain));
    println!("{} files: {cold:.0} ms from the farm, {warm:.0} ms from the cache", FOLDERS * FILES);
    println!("copying alone {plain:.0} ms on one processor; own time {:.0} ms", warm - plain);
}

async fn once(source: &mut Source, root: hotcell_fleet::digest::Key, to: &Path) -> (Duration, Tree) {
    std::fs::create_dir(to).expect("a folder");
    let folder = Arc::new(lay::Folder::open(to).expect("a folder"));
    let begin = Instant::now();
    let tree = lay::read(source, root, Bounds::default()).await.expect("a tree");
    lay::write(source, tree.clone(), &folder).await.expect("laid");
    let took = begin.elapsed();
    std::fs::remove_dir_all(to).expect("removed");
    (took, tree)
}

/// Copies the cached files of a tree to its places, without any check.
fn copy(tree: &Tree, dir: &Path) -> Duration {
    let to = dir.join("plain");
    let cached = dir.join("cache");
    if std::fs::read_dir(&cached).expect("a folder").count() < FILES {
        return Duration::MAX;
    }
    std::fs::create_dir(&to).expect("a folder");
    let begin = Instant::now();
    for (path, entry) in &tree.entries {
        match entry {
            Entry::File { key, .. } => {
                let name = key.name();
                let bytes =
                    std::fs::read(cached.join(name.split('/').next().unwrap_or_default())).expect("a blob");
                std::fs::write(to.join(path), bytes).expect("written");
            }
            _ => std::fs::create_dir(to.join(path)).expect("a folder"),
        }
    }
    let took = begin.elapsed();
    std::fs::remove_dir_all(&to).expect("removed");
    took
}
