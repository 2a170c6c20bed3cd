//! Workspaces over a folder of 50,000 files: created, changed by a run, diffed, forked, committed. `cp -a` of
//! the same folder shows the cost of a copy.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_sandbox::{Engine, Limits, Policy};
use hotcell_workspace::store::{Quota, Source, Store, Workspace};
use hotcell_workspace::{Folder, diff};

use crate::Options;

/// Number of folders, with a hundred files each.
const FOLDERS: usize = 500;
/// Number of files that a run changes before the diff.
const DIFFED_FILES: usize = 100;
/// Number of files that runs change before the commit.
const COMMITTED_FILES: usize = 1000;
const ROUNDS: usize = 10;
const MAX_DIFF_BYTES: usize = 64 << 20;

/// Measures the table.
pub async fn measure(_options: &Options, report: &mut Report) -> Result<()> {
    let work = tempfile::tempdir()?;
    let tree = work.path().join("tree");
    for folder in 0..FOLDERS {
        let folder = tree.join(folder.to_string());
        std::fs::create_dir_all(&folder)?;
        for file in 0..100 {
            std::fs::write(folder.join(file.to_string()), "a line of text\n".repeat(8))?;
        }
    }
    let store = Store::open(&work.path().join("state"), Quota::default(), None)?;
    let engine = Engine::new();
    engine.run(&Policy::new("/bin/true")).await;

    let [mut ready, mut diffed, mut forked, mut committed] =
        [const { Vec::new() }; 4].map(Samples::from_iter);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let mut workspace = store.create(Source::Folder(tree.clone()))?;
        run(&engine, &mut workspace, "true").await?;
        ready.push(micros(begin));

        run(
            &engine,
            &mut workspace,
            &format!("for d in $(seq 0 {}); do echo x >> $d/1; done", DIFFED_FILES - 1),
        )
        .await?;
        let begin = Instant::now();
        let found = workspace.changes()?;
        let text = workspace.with_view(|before, after| diff(before, after, &found, MAX_DIFF_BYTES))?;
        diffed.push(micros(begin));
        ensure!(found.len() == DIFFED_FILES && text.len() > DIFFED_FILES * 100, "{} changes", found.len());

        let begin = Instant::now();
        let fork = workspace.fork()?;
        forked.push(micros(begin));
        drop(fork);

        let each = COMMITTED_FILES / FOLDERS;
        let script = format!(
            "for d in $(seq 0 {}); do for f in $(seq 2 {}); do echo x >> $d/$f; done; done",
            FOLDERS - 1,
            1 + each
        );
        workspace.discard(None)?;
        run(&engine, &mut workspace, &script).await?;
        let begin = Instant::now();
        let done = workspace.commit(false, None)?.done.len();
        committed.push(micros(begin));
        ensure!(done == COMMITTED_FILES, "{done} paths were taken over");
    }
    let begin = Instant::now();
    copy(&tree, &work.path().join("copy"))?;
    let copied: Samples = std::iter::once(micros(begin)).collect();

    let what = "workspace over 50,000 files";
    report.row(Row::of_times(what, "made, and /bin/true run in it", &ready));
    report.row(Row::of_times(what, "`cp -a`", &copied));
    report.row(Row::of_times(what, "diff of 100 changed files", &diffed));
    report.row(Row::of_times(what, "fork", &forked));
    report.row(Row::of_times(what, "commit of 1,000 files", &committed));
    report.at_most("workspace ready, with a run", ready.median() / 1000.0, 20.0, " ms");
    report.at_most("diff of 100 changed files", diffed.median() / 1000.0, 50.0, " ms");
    report.at_most("fork", forked.median() / 1000.0, 5.0, " ms");
    report.at_most("commit of 1,000 files", committed.median() / 1000.0, 200.0, " ms");
    Ok(())
}

/// Runs a script in a workspace and adds its changes to it.
async fn run(engine: &Engine, workspace: &mut Workspace<'_>, script: &str) -> Result<()> {
    let (folder, layers) = workspace.mount();
    let mut policy =
        Policy::new("/bin/sh").args(["-c", script]).workspace(folder).limits(Limits::for_tests());
    policy.shape.ceilings = policy.job.limits.clone();
    policy.job.layers = layers;
    let finished = engine.spawn(&policy).await.map_err(|e| anyhow::anyhow!(e.message))?.finish().await;
    ensure!(finished.outcome.success(), "{:?}", finished.outcome);
    if let Some(mut changed) = finished.changed {
        changed.settle().await?;
        workspace.absorb(&Folder::from_fd(changed.folder.try_clone()?), changed.whole, &[])?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    ensure!(Command::new("cp").arg("-a").args([from, to]).status()?.success(), "cp failed");
    Ok(())
}
