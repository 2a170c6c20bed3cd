//! Scan sessions: reports of earlier scans are looked up, other artifacts go to a reader, and a service keeps
//! its readers for later scans.

use std::fmt::Debug;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use hotcell_guard::{Artifact, BUILD, Limits, PartState, Report, is_repeatable};
use hotcell_sandbox::Confinement;
use hotcell_state::state::StateFolder;
use sha2::{Digest, Sha256};

use crate::cache::{Key, ReportCache};
use crate::reader::{Reader, Rules, Span, Unstarted, lost};
use crate::unchanged;

/// Maximum number of idle readers.
const MAX_IDLE_READERS: usize = 2;

/// State shared by scans. Clones share it; the default keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct ScanState {
    kept: Option<Arc<Kept>>,
    /// Caller whose reports are looked up and stored, when callers must learn nothing from each other.
    caller: Option<Arc<str>>,
}

#[derive(Debug)]
struct Kept {
    /// State folder with the known reports.
    state: PathBuf,
    /// Idle readers of a service, with the settings they were started with; `None` for a single scan.
    idle: Option<Mutex<Vec<(Kind, Reader)>>>,
}

/// Settings that must match to reuse a reader: rules and confinements.
type Kind = (Key, Vec<Confinement>);

impl PartialEq for ScanState {
    fn eq(&self, other: &Self) -> bool {
        self.kept.as_ref().map(Arc::as_ptr) == other.kept.as_ref().map(Arc::as_ptr)
            && self.caller == other.caller
    }
}

impl Eq for ScanState {}

impl ScanState {
    /// State for one scan, with known reports in this state folder.
    #[must_use]
    pub fn once(state: &Path) -> Self {
        Self::of(Kept { state: state.to_owned(), idle: None })
    }

    /// Like [`ScanState::once`], but readers are kept for later scans, until [`ScanState::close`].
    #[must_use]
    pub fn lasting(state: &Path) -> Self {
        Self::of(Kept { state: state.to_owned(), idle: Some(Mutex::default()) })
    }

    fn of(kept: Kept) -> Self {
        Self { kept: Some(Arc::new(kept)), caller: None }
    }

    /// The state for one of several callers: artifacts that another caller had scanned are scanned again, so
    /// that the scan's duration tells nothing about others. Readers are shared.
    #[must_use]
    pub fn of_caller(&self, caller: &str) -> Self {
        Self { kept: self.kept.clone(), caller: Some(caller.into()) }
    }

    /// Begins a scan. Starts no process yet.
    #[must_use]
    pub fn begin(&self, rules: Rules, confinements: &[Confinement]) -> Scan {
        let known = self.kept.as_ref().and_then(|kept| match StateFolder::open(&kept.state) {
            Ok(state) => ReportCache::open(&state),
            Err(error) => {
                tracing::debug!("known reports cannot be used: {error}");
                None
            }
        });
        let mut base = Sha256::new();
        base.update(BUILD);
        base.update(format!("{:?}", Limits::default()));
        for (name, text) in &rules {
            field(&mut base, name.as_bytes());
            field(&mut base, text.as_bytes());
        }
        let kind = (base.clone().finalize().into(), confinements.to_vec());
        if let Some(caller) = &self.caller {
            field(&mut base, caller.as_bytes());
        }
        Scan { reading: self.clone(), rules, kind, base, known, found: false, reader: None }
    }

    fn take(&self, kind: &Kind) -> Option<Reader> {
        let mut idle = self.idle()?;
        let at = idle.iter().position(|(own, _)| own == kind)?;
        Some(idle.swap_remove(at).1)
    }

    /// Puts a reader back if it lost no process; the one idle for longest is dropped.
    fn put(&self, kind: Kind, reader: Reader) {
        if reader.has_lost() {
            return;
        }
        let oldest = self.idle().and_then(|mut idle| {
            idle.push((kind, reader));
            (idle.len() > MAX_IDLE_READERS).then(|| idle.remove(0))
        });
        drop(oldest);
    }

    fn idle(&self) -> Option<std::sync::MutexGuard<'_, Vec<(Kind, Reader)>>> {
        let idle = self.kept.as_ref()?.idle.as_ref()?;
        Some(idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the idle readers.
    pub fn close(&self) {
        let all = self.idle().map(|mut idle| std::mem::take(&mut *idle));
        drop(all);
    }

    fn span(&self) -> Span {
        if self.idle().is_some() { Span::Lasting } else { Span::OneScan }
    }
}

/// A scan in progress. It is completed by [`Scan::end`].
#[derive(Debug)]
pub struct Scan {
    reading: ScanState,
    rules: Rules,
    kind: Kind,
    /// Hash state with the common start of all keys: build, limits, rules.
    base: Sha256,
    known: Option<ReportCache>,
    /// True once a report was found under these rules, which proves that they are valid.
    found: bool,
    /// The reader, or the reason for its failure, once one was needed.
    reader: Option<Result<Reader, Unstarted>>,
}

impl Scan {
    /// Scans one artifact. Parts that cannot be read are in the report.
    pub fn read(&mut self, artifact: &Artifact) -> Report {
        let digest = Sha256::digest(&artifact.bytes);
        let sha256: String = hex::encode(digest);
        let key = self.key(artifact, &digest);
        let known = self.known.as_mut().and_then(|known| known.find(&key, &sha256, artifact.bytes.len()));
        if let Some(mut report) = known {
            self.found = true;
            report.artifact.names = vec![artifact.name.clone()];
            return report;
        }
        let mut report = match self.reader() {
            Ok(reader) => reader.read(artifact),
            Err(why) => lost(artifact, why),
        };
        report.artifact.sha256 = sha256;
        if !is_repeatable(&report) {
            self.known = None;
        }
        if let Some(known) = &mut self.known {
            known.add(key, &report);
        }
        report
    }

    /// Report of a folder as one artifact, for a way of scanning it: that of an earlier scan in the same way, if no entry of the folder changed since; else what
    /// `read` makes, by [`Scan::read`] of its files and nothing outside of the folder. `now` is the present time.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn folder(
        &mut self,
        folder: &Path,
        way: &dyn Debug,
        now: SystemTime,
        read: impl FnOnce(&mut Self) -> io::Result<Report>,
    ) -> io::Result<Report> {
        let before = self.known.as_ref().and_then(|_| unchanged::state(folder, now));
        let Some(before) = before else { return read(self) };
        let mut hash = self.base.clone();
        field(&mut hash, folder.as_os_str().as_bytes());
        field(&mut hash, format!("{way:?}").as_bytes());
        let key = hash.chain_update(before.digest).finalize().into();
        if let Some(report) = self.known.as_ref().and_then(|known| known.find_folder(&key)) {
            self.found = true;
            return Ok(report);
        }
        // A report is to be used again: what a program still changes by a mapping has to be seen then.
        let is_noted = before.is_settled && unchanged::write_out(folder);
        let report = read(self)?;
        // A file that could not be read may be read the next time.
        let is_whole = !report.coverage.parts.iter().any(|part| matches!(part.state, PartState::Skipped(_)));
        if is_whole
            && is_noted
            && let Some(known) = &mut self.known
            && unchanged::state(folder, now).as_ref() == Some(&before)
        {
            known.add_folder(key, &report);
        }
        Ok(report)
    }

    /// Key of an artifact's report: everything that the report depends on. The whole name counts, since parts
    /// are named after it.
    fn key(&self, artifact: &Artifact, digest: &[u8]) -> Key {
        let mut hash = self.base.clone();
        hash.update(digest);
        field(&mut hash, artifact.language.map_or("", hotcell_guard::Language::name).as_bytes());
        for executed in &artifact.executed {
            field(&mut hash, format!("{executed:?}").as_bytes());
        }
        for called in &artifact.called {
            field(&mut hash, format!("{called:?}").as_bytes());
        }
        field(&mut hash, artifact.name.as_bytes());
        hash.finalize().into()
    }

    fn reader(&mut self) -> Result<&Reader, &str> {
        let reader = self.reader.get_or_insert_with(|| match self.reading.take(&self.kind) {
            Some(reader) => Ok(reader),
            None => Reader::start(self.rules.clone(), &self.kind.1, self.reading.span()),
        });
        reader.as_ref().map_err(|unstarted| &*unstarted.why)
    }

    /// Ends the scan: new reports are stored unless a reader failed, and the reader is kept or ended.
    ///
    /// # Errors
    /// [`Unstarted`] when nothing could be read: no sandbox, or an invalid rule.
    pub fn end(mut self) -> Result<(), Unstarted> {
        // The user's own rules must be checked even when there is nothing to scan.
        if !self.rules.is_empty() && !self.found {
            let _ = self.reader();
        }
        match self.reader.take() {
            None => {
                if let Some(mut known) = self.known.take() {
                    known.write();
                }
                Ok(())
            }
            Some(Err(unstarted)) => Err(unstarted),
            Some(Ok(reader)) => {
                if let Some(mut known) = self.known.take().filter(|_| !reader.has_lost()) {
                    known.write();
                }
                self.reading.put(self.kind, reader);
                Ok(())
            }
        }
    }
}

fn field(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_guard::{Argument, Called, Executed, Language, Verdict};

    const HOSTILE: &str = "import shutil\nshutil.rmtree('/home')\n";

    /// Scans artifacts; returns also if a reader was needed.
    fn read(reading: &ScanState, rules: &Rules, artifacts: &[Artifact]) -> (Vec<Report>, bool) {
        let mut scan = reading.begin(rules.clone(), &[Confinement::Namespaces]);
        let reports = artifacts.iter().map(|a| scan.read(a)).collect();
        let asked = scan.reader.is_some();
        scan.end().unwrap();
        (reports, asked)
    }

    #[test]
    fn scan_cache_hits_skip_reader() {
        let state = tempfile::tempdir().unwrap();
        let reading = ScanState::once(&state.path().join("state"));
        let artifacts = [Artifact::new("a.py", "print(1)\n"), Artifact::new("b.py", HOSTILE)];
        let (first, asked) = read(&reading, &Rules::new(), &artifacts);
        assert!(asked);
        assert_eq!(first[1].verdict, Verdict::Quarantine);
        assert_eq!(read(&reading, &Rules::new(), &artifacts), (first.clone(), false));
        let cold = ScanState::default();
        assert_eq!(read(&cold, &Rules::new(), &artifacts), (first.clone(), true));
        assert_eq!(read(&cold, &Rules::new(), &artifacts), (first, true));
    }

    #[test]
    fn scan_cache_key_covers_artifact_and_rules() {
        let state = tempfile::tempdir().unwrap();
        let reading = ScanState::once(&state.path().join("state"));
        let plain = Artifact::new("a", "print(1)\n");
        let none = Rules::new();
        assert!(read(&reading, &none, std::slice::from_ref(&plain)).1);
        for other in [
            Artifact::new("setup.py", "print(1)\n"),
            plain.clone().run_as(Language::Python),
            plain.clone().executed_as(&[Executed::As(Language::Bash)]),
            plain.clone().executed_as(&[Executed::Unread("perl".to_owned())]),
            plain.clone().called_by(&[Called {
                part: "a".to_owned(),
                function: "run".to_owned(),
                argument: Argument::Position(0),
                origin: 1,
                silent: false,
            }]),
            Artifact::new("a", "print(2)\n"),
        ] {
            assert!(read(&reading, &none, std::slice::from_ref(&other)).1, "{other:?}");
            assert!(!read(&reading, &none, &[other]).1);
        }
        let (alice, bob) = (reading.of_caller("alice"), reading.of_caller("bob"));
        for own in [&alice, &bob] {
            assert!(read(own, &none, std::slice::from_ref(&plain)).1, "another caller had it read");
            assert!(!read(own, &none, std::slice::from_ref(&plain)).1);
        }
        let rule = "id: own.x\nlanguage: Python\nseverity: warning\nmessage: m\nmetadata:\n  capability: c\n  \
                    positive: ['import zz\n\n  zz.run()', 'import zz as y\n\n  y.run()']\n  benign: ['zz = 1', 'zz = 2']\n\
                    match:\n  call: [zz.run]\n";
        let rules = vec![("own.yml".to_owned(), rule.to_owned())];
        assert!(read(&reading, &rules, std::slice::from_ref(&plain)).1);
        assert!(!read(&reading, &rules, &[plain]).1);
    }

    /// A folder is scanned again when an entry of it, the rules, the caller or the way changed, or when its files are young.
    #[test]
    fn unchanged_folders_are_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("a.py"), HOSTILE).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(25));
        let later = SystemTime::now() + std::time::Duration::from_secs(3600);
        if unchanged::state(&project, later).is_none() {
            return;
        }
        let reading = ScanState::once(&dir.path().join("state"));
        // Scans the folder's file; returns also if that was needed.
        let scan_by = |reading: &ScanState, rules: &Rules, way: &str, now| {
            let mut scan = reading.begin(rules.clone(), &[Confinement::Namespaces]);
            let mut asked = false;
            let report = scan.folder(&project, &way, now, |scan| {
                asked = true;
                Ok(scan.read(&Artifact::new("a.py", std::fs::read(project.join("a.py"))?)))
            });
            scan.end().unwrap();
            (report.unwrap().verdict, asked)
        };
        let none = Rules::new();
        let scan = |way: &str, now| scan_by(&reading, &none, way, now);
        for asked in [true, true] {
            assert_eq!(scan("", SystemTime::now()), (Verdict::Quarantine, asked), "young files");
        }
        assert_eq!(scan("", later), (Verdict::Quarantine, true));
        assert_eq!(
            (scan("", later), scan("", SystemTime::now())),
            ((Verdict::Quarantine, false), (Verdict::Quarantine, false))
        );
        assert!(scan("other", later).1 && !scan("other", later).1);
        assert!(scan_by(&reading.of_caller("alice"), &none, "", later).1);
        assert!(scan_by(&ScanState::default(), &none, "", later).1, "nothing is kept");
        let modified = std::fs::metadata(project.join("a.py")).unwrap().modified().unwrap();
        std::fs::write(project.join("a.py"), "print(1)\n".repeat(4)).unwrap();
        std::fs::File::options()
            .write(true)
            .open(project.join("a.py"))
            .unwrap()
            .set_modified(modified)
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(25));
        assert_eq!((scan("", later), scan("", later)), ((Verdict::Allow, true), (Verdict::Allow, false)));
        // A failed scan leaves no report.
        let mut failing = reading.begin(none.clone(), &[Confinement::Namespaces]);
        assert!(failing.folder(&project, &"failing", later, |_| Err(io::Error::other("no"))).is_err());
        failing.end().unwrap();
        assert!(scan("failing", later).1);
    }

    /// A report is not kept when the folder changed while it was made, or when a file of it was not read.
    #[test]
    fn reports_of_changing_or_unread_folders_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(3600);
        if unchanged::state(&project, later).is_none() {
            return;
        }
        let reading = ScanState::once(&dir.path().join("state"));
        let good = || scan_of("print(1)\n");
        let unread = || hotcell_guard::unread("x", PartState::Skipped("no".to_owned()), Verdict::Incomplete);
        let change = || std::fs::write(project.join(format!("{:?}", SystemTime::now())), "").unwrap();
        type Make<'m> = &'m dyn Fn() -> Report;
        let makes: [(Make<'_>, bool); 3] = [
            (&unread, false),
            (
                &|| {
                    change();
                    good()
                },
                false,
            ),
            (&good, true),
        ];
        for (make, kept) in makes {
            std::thread::sleep(std::time::Duration::from_millis(25));
            for asked in [true, !kept] {
                let mut scan = reading.begin(Rules::new(), &[Confinement::Namespaces]);
                let mut made = false;
                let read = |_: &mut Scan| {
                    made = true;
                    Ok(make())
                };
                scan.folder(&project, &"", later, read).unwrap();
                scan.end().unwrap();
                assert_eq!(made, asked, "{kept}");
            }
        }
    }

    fn scan_of(text: &str) -> Report {
        let pack = hotcell_guard::Pack::builtin().unwrap();
        hotcell_guard::scan(&pack, &Limits::default(), &Artifact::new("a.py", text))
    }

    #[test]
    fn invalid_rules_fail_scan_without_artifacts() {
        let scan = ScanState::default().begin(vec![("a.yml".to_owned(), "id: [".to_owned())], &[]);
        assert!(scan.end().is_err());
    }

    #[test]
    fn idle_readers_are_limited_to_two() {
        let state = tempfile::tempdir().unwrap();
        let reading = ScanState::lasting(state.path());
        let begin = || reading.begin(Rules::new(), &[Confinement::Namespaces]);
        let mut scans = [begin(), begin(), begin()];
        for (at, scan) in scans.iter_mut().enumerate() {
            scan.read(&Artifact::new("a.py", format!("print({at})\n")));
        }
        scans.into_iter().for_each(|scan| scan.end().unwrap());
        assert_eq!(reading.idle().unwrap().len(), MAX_IDLE_READERS);
        let other = (begin().kind.0, vec![Confinement::LandlockOnly]);
        assert!(reading.take(&other).is_none());
        assert!(reading.take(&begin().kind).is_some());
        reading.close();
        assert!(reading.idle().unwrap().is_empty());
    }
}
