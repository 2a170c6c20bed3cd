//! Images: a run in a stored image beside one on the host's root; and the import of an OCI archive of 500 MB
//! beside GNU tar unpacking its layer.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_images::{Digest, Limits, Source, Store, import};
use hotcell_sandbox::{Engine, Policy};
use serde_json::{Value, json};

use crate::Options;

/// Number of files in the large layer, and bytes of each.
const FILES: usize = 5_000;
const BYTES: usize = 100_000;
/// Number of layers of the image in the run benchmark.
const LAYERS: usize = 6;
const ROUNDS: usize = 5;

/// Measures the table.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let work = tempfile::tempdir()?;
    let store = Store::open(&work.path().join("store"))?;
    runs(options, report, &store, work.path()).await?;
    for compressed in [false, true] {
        imports(report, &store, work.path(), compressed)?;
    }
    Ok(())
}

/// Runs `/bin/true` on the host's root, in an image that the launcher has already mounted, and in one that it
/// mounts first.
async fn runs(options: &Options, report: &mut Report, store: &Store, work: &Path) -> Result<()> {
    let busybox = ["/usr/bin/busybox", "/bin/busybox"].map(Path::new).into_iter().find(|p| p.exists());
    let busybox = std::fs::read(busybox.context("a static busybox is needed: install busybox-static")?)?;
    let mut layers = vec![archive(&[("bin/true".to_owned(), &busybox)])?];
    for layer in 1..LAYERS {
        let files: Vec<(String, &[u8])> =
            (0..500).map(|n| (format!("usr/{layer}/{n}"), &b"text"[..])).collect();
        layers.push(archive(&files)?);
    }
    layout(&work.join("small"), &layers, false)?;
    import(store, "small", &Source::Images(work.join("small"), None), &Limits::default())?;
    let held = store.hold("small")?;
    let image = hotcell_verbs::images::root(&held);
    let [mut host, mut mounted, mut first] = [const { Vec::new() }; 3].map(Samples::from_iter);
    let engine = Engine::new();
    let inside = Policy::new("/bin/true").image(image);
    for policy in [&Policy::new("/bin/true"), &inside] {
        ensure!(engine.run(policy).await.success(), "{:?}", engine.run(policy).await.reason);
    }
    for round in 0..options.runs {
        for (policy, samples) in [(&Policy::new("/bin/true"), &mut host), (&inside, &mut mounted)] {
            let begin = Instant::now();
            engine.run(policy).await;
            samples.push(micros(begin));
        }
        // A mountpoint that no earlier run had, so the launcher makes a root for it.
        let new = inside.clone().read_only("/etc/hostname", format!("/mnt/{round}"));
        let begin = Instant::now();
        ensure!(engine.run(&new).await.success(), "a root of its own");
        first.push(micros(begin));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let what = format!("/bin/true in an image of {LAYERS} layers");
    report.row(Row::of_times(&what, "on the host's root", &host));
    report.row(Row::of_times(&what, "in the image", &mounted));
    report.row(Row::of_times(&what, "in the image, mounted for it, with a folder shown", &first));
    report.at_most(
        "an image, more than the host's root",
        (mounted.median() - host.median()) / 1000.0,
        5.0,
        " ms",
    );
    report.at_most("an image mounted first, more", (first.median() - host.median()) / 1000.0, 5.0, " ms");
    Ok(())
}

/// Imports an archive of 500 MB, and unpacks it with tar, in turn.
fn imports(report: &mut Report, store: &Store, work: &Path, compressed: bool) -> Result<()> {
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = (0..BYTES * 2)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Compresses like text, to about a half.
            b"etaoin shrdlu\nxyz"[(noise >> 60) as usize]
        })
        .collect();
    let files: Vec<(String, &[u8])> =
        (0..FILES).map(|n| (format!("d{}/f{n}", n / 100), &bytes[n * 7 % BYTES..][..BYTES])).collect();
    let folder = work.join(format!("large-{compressed}"));
    let layer = layout(&folder, &[archive(&files)?], compressed)?;
    let whole = folder.with_extension("tar");
    let tar = |words: &[&str], at: &Path| -> Result<()> {
        ensure!(Command::new("tar").args(words).arg(at).status()?.success(), "tar failed");
        Ok(())
    };
    tar(&["--create", "--file", &whole.to_string_lossy(), "-C", &folder.to_string_lossy()], Path::new("."))?;
    let [mut imported, mut unpacked, mut synced] = [const { Vec::new() }; 3].map(Samples::from_iter);
    for _ in 0..ROUNDS {
        let out = work.join("out");
        std::fs::create_dir(&out)?;
        settle()?;
        let begin = Instant::now();
        tar(&["--extract", "-C", &out.to_string_lossy(), "--file"], &layer)?;
        unpacked.push(micros(begin));
        ensure!(Command::new("sync").arg("-f").arg(&out).status()?.success(), "sync failed");
        synced.push(micros(begin));
        std::fs::remove_dir_all(&out)?;
        settle()?;
        let begin = Instant::now();
        import(store, "large", &Source::Images(whole.clone(), None), &Limits::default())?;
        imported.push(micros(begin));
        store.remove("large")?;
    }
    let what = format!("OCI archive of 500 MB, {}", if compressed { "gzip" } else { "not compressed" });
    report.row(Row::of_times(&what, "imported, on the disk", &imported));
    report.row(Row::of_times(&what, "its layer by `tar -x`", &unpacked));
    report.row(Row::of_times(&what, "its layer by `tar -x`, and `sync -f`", &synced));
    report.at_most(&format!("{what}: import to `tar -x`"), imported.median() / unpacked.median(), 1.3, " x");
    report.at_most(
        &format!("{what}: import to `tar -x` and sync"),
        imported.median() / synced.median(),
        1.3,
        " x",
    );
    Ok(())
}

/// Flushes data of other processes, so that writing it is not part of our times.
fn settle() -> Result<()> {
    ensure!(Command::new("sync").status()?.success(), "sync failed");
    Ok(())
}

fn archive(files: &[(String, &[u8])]) -> Result<Vec<u8>> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(bytes.len() as u64);
        out.append_data(&mut header, name, *bytes)?;
    }
    Ok(out.into_inner()?)
}

/// Writes a layout; returns the file of its last layer.
fn layout(folder: &Path, layers: &[Vec<u8>], compressed: bool) -> Result<std::path::PathBuf> {
    std::fs::create_dir_all(folder.join("blobs/sha256"))?;
    let put = |bytes: &[u8]| -> Result<Value> {
        let digest = Digest::of(bytes);
        std::fs::write(folder.join("blobs/sha256").join(digest.hex()), bytes)?;
        Ok(json!({ "mediaType": "x", "digest": digest, "size": bytes.len() }))
    };
    let config = json!({
        "architecture": hotcell_images::source::HOST_ARCHITECTURE, "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| Digest::of(l)).collect::<Vec<_>>() },
    });
    let config = put(config.to_string().as_bytes())?;
    let mut rows = Vec::new();
    for layer in layers {
        let mut gzip = Vec::new();
        if compressed {
            let mut out = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::new(6));
            out.write_all(layer)?;
            out.finish()?;
        }
        rows.push(put(if compressed { &gzip } else { layer })?);
    }
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": rows }).to_string();
    let layer = rows.last().and_then(|row| row["digest"].as_str()).and_then(Digest::parse);
    let index = json!({ "schemaVersion": 2, "manifests": [put(manifest.as_bytes())?] });
    std::fs::write(folder.join("index.json"), index.to_string())?;
    std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(folder.join("blobs/sha256").join(layer.context("a layer")?.hex()))
}
