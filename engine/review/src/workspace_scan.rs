//! Scans a workspace before a run: the folder itself, and the changes of earlier runs.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hotcell_guard::folder::{Place, Seen, cache, history, packages_unread, place};
use hotcell_guard::{
    Artifact, Executions, Limits, PartState, Report, Verdict, Walk, merge, scan_path, unread,
};
use hotcell_workspace::{Folder, Kind, Layer, Stack, changes};

/// Maximum number of paths examined.
const MAX_PATHS: usize = 2_000_000;

/// Scans a folder with layers over it, the topmost first, as one artifact. `executed` are the files of the
/// view that the run's command executes.
///
/// # Errors
/// When the folder or a layer cannot be read; a path below it that cannot be read is in the report.
pub fn read(
    limits: &Limits,
    base: &Path,
    layers: &[PathBuf],
    executed: &Executions,
    scan: &mut dyn FnMut(&Artifact) -> Report,
) -> io::Result<Report> {
    let folder = Folder::open(base)?;
    let open = layers.iter().map(|l| Folder::ours(l)).collect::<io::Result<Vec<_>>>()?;
    let all: Vec<_> = open.iter().map(Layer::over).collect();
    let changed = changes(&Stack::new([], &folder), &all, &[], MAX_PATHS)?;
    let view = Stack::new(all, &folder);

    let hidden: HashSet<String> = changed.iter().map(|c| c.path.to_string_lossy().into_owned()).collect();
    let executed = executed.through_links(&|at| view.link(at).ok());
    let walk = Walk { gitignore: false, packages: false, executed: Some(&executed) };
    let mut unless_changed = |file: &Artifact| {
        // A name that is not valid UTF-8 may be another's after replacement.
        if hidden.contains(&file.name) && !file.name.contains('\u{fffd}') {
            return unread(&file.name, PartState::Inert, Verdict::Allow);
        }
        scan(file)
    };
    let mut reports = vec![scan_path(limits, base, walk, &mut unless_changed, &mut |_| ())?];
    let is_there = |path: &Path| view.node(path).is_ok_and(|node| node.is_some());
    let is_file =
        |path: &Path| view.node(path).is_ok_and(|node| node.is_some_and(|node| node.kind == Kind::File));
    let open = |path: &Path| is_file(path).then(|| view.file(path).ok()).flatten();
    let seen = Seen { is_there: &is_there, open: &open };
    let (mut packages, mut histories) = (BTreeSet::new(), BTreeSet::new());
    for change in &changed {
        let name = change.path.to_string_lossy();
        let link = |says: String| {
            let mut report = unread(&name, PartState::Inert, Verdict::Allow);
            report.artifact.sha256 = says;
            report
        };
        let Some(node) = change.after else {
            // The walk of the folder has reported it already.
            if change.before.is_some_and(|was| was.kind == Kind::Link) {
                reports.push(link("deleted".to_owned()));
            }
            continue;
        };
        if node.kind == Kind::Folder {
            continue;
        }
        let place =
            if executed.of(&change.path).is_empty() { place(&change.path, &seen) } else { Place::Ordinary };
        reports.push(match (node.kind, place) {
            (_, Place::History(folder)) => {
                if !histories.insert(folder.clone()) {
                    continue;
                }
                history(&folder.to_string_lossy())
            }
            (_, Place::Packages(folder)) => {
                if !packages.insert(folder.clone()) {
                    continue;
                }
                packages_unread(&folder.to_string_lossy())
            }
            (Kind::Link, _) => link(format!("-> {}", view.link(&change.path)?.to_string_lossy())),
            (_, Place::Cache) => cache(&name),
            (_, Place::Ordinary) => match bytes(&view, &change.path, limits) {
                Ok(bytes) => scan(&Artifact::new(name, bytes).executed_as(executed.of(&change.path))),
                Err(error) => unread(&name, PartState::Skipped(error.to_string()), Verdict::Incomplete),
            },
        });
    }
    Ok(merge(&base.to_string_lossy(), reports))
}

/// Reads at most one byte more than may be scanned; the scan then refuses the file.
fn bytes(view: &Stack<'_>, path: &Path, limits: &Limits) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    view.file(path)?.take(limits.file_bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::Confinement;
    use hotcell_scanning::session::ScanState;
    use hotcell_workspace::store::{NewFile, Quota, Source, Store};

    #[test]
    fn non_utf8_name_hides_no_other_file() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let name = |byte: u8| std::path::PathBuf::from(OsStr::from_bytes(&[byte, b'.', b'p', b'y']));
        std::fs::write(project.join(name(0xff)), "import shutil\nshutil.rmtree('/home')\n").unwrap();
        let store = Store::open(&dir.path().join("state"), Quota::default(), None).unwrap();
        let mut workspace = store.create(Source::Folder(project)).unwrap();
        workspace.write(&[NewFile { path: name(0xfe), bytes: b"1\n".into(), executable: false }]).unwrap();
        let (base, layers) = workspace.mount();
        let mut scan = ScanState::default().begin(Vec::new(), &[Confinement::Namespaces]);
        let report =
            read(&Limits::default(), &base, &layers, &Executions::default(), &mut |file| scan.read(file))
                .unwrap();
        scan.end().unwrap();
        assert_eq!(report.verdict, Verdict::Quarantine, "{report:?}");
    }

    #[test]
    fn workspace_scan_reads_current_state() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let hostile = "import shutil\nshutil.rmtree('/home')\n";
        std::fs::write(project.join("a.py"), hostile).unwrap();
        std::fs::write(project.join("b.py"), "print(1)\n").unwrap();
        let store = Store::open(&dir.path().join("state"), Quota::default(), None).unwrap();
        let mut workspace = store.create(Source::Folder(project)).unwrap();
        let new =
            |path: &str, text: &str| NewFile { path: path.into(), bytes: text.into(), executable: false };
        for (file, verdict) in [
            (new("b.py", "print(2)\n"), Verdict::Quarantine),
            (new("a.py", "print(3)\n"), Verdict::Allow),
            (new("__pycache__/a.cpython-311.pyc", "no byte code"), Verdict::Allow),
            (new("__pycache__/a.z.pyc", "PK\u{5}\u{6}"), Verdict::Incomplete),
            (new("__pycache__/a.z.pyc", "x"), Verdict::Allow),
            (new(".git/HEAD", "ref: refs/heads/main\n"), Verdict::Allow),
            (new(".git/objects/evil.py", hostile), Verdict::Quarantine),
            (new(".git/objects/evil.py", "print(4)\n"), Verdict::Allow),
            (
                new("__pycache__/a.cpython-311.pyc", "\u{2}\u{e}\r\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
                Verdict::Review,
            ),
            (new("node_modules/x/evil.py", hostile), Verdict::Review),
            (new("c.py", hostile), Verdict::Quarantine),
        ] {
            let shown = file.path.display().to_string();
            workspace.write(&[file]).unwrap();
            let (base, layers) = workspace.mount();
            let mut scan = ScanState::default().begin(Vec::new(), &[Confinement::Namespaces]);
            let report =
                read(&Limits::default(), &base, &layers, &Executions::default(), &mut |file| scan.read(file))
                    .unwrap();
            scan.end().unwrap();
            assert_eq!(report.verdict, verdict, "{shown}: {report:?}");
        }
    }
}
