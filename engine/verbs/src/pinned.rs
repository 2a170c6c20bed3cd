//! A pinned workspace as a run uses it: its state at the start of the run, which others cannot remove, and
//! the way to write its changes back.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_sandbox::policy::{FileId, Limits};
use hotcell_sandbox::temporary;
use hotcell_testing::{Entry, Project};
use hotcell_toolchain::{Fs, Host, Kind as Seen};
use hotcell_workspace::store::{Pinned, Quota, Source, Store, StoreError, Workspace};
use hotcell_workspace::{Folder, Kind, Layer, Stack};

/// Time limit for a finished run to wait for exclusive access to its workspace.
const WORKSPACE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of bytes read of a project's file; the rest of a longer file is ignored.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of names read of one folder.
const MAX_NAMES: usize = 20_000;

/// A workspace in the state in which it was pinned.
#[derive(Debug)]
pub struct PinnedWorkspace {
    store: Arc<Store>,
    pinned: Pinned,
}

impl PinnedWorkspace {
    /// Pins a workspace.
    ///
    /// # Errors
    /// [`StoreError`] when there is no workspace with this id.
    pub fn pin(store: &Arc<Store>, id: &str) -> Result<Arc<Self>, StoreError> {
        Ok(Arc::new(Self { store: Arc::clone(store), pinned: store.pin(id)? }))
    }

    /// The pinned state.
    #[must_use]
    pub fn pinned(&self) -> &Pinned {
        &self.pinned
    }

    /// Paths to mount: the folder, and the layers over it, topmost first.
    #[must_use]
    pub fn mount(&self) -> (PathBuf, Vec<PathBuf>) {
        self.pinned.mount()
    }

    /// True when the workspace has changes over its folder.
    #[must_use]
    pub fn has_layers(&self) -> bool {
        !self.mount().1.is_empty()
    }

    /// True when the workspace is over a host folder, and not over a folder of the store.
    #[must_use]
    pub fn is_over_a_folder(&self) -> bool {
        matches!(self.pinned.summary().source, Source::Folder(_))
    }

    /// Opens the workspace itself, in its current state.
    ///
    /// # Errors
    /// [`StoreError`] when the workspace is gone, or others hold it for longer than the time limit.
    pub fn take(&self) -> Result<Workspace<'_>, StoreError> {
        self.store.take_within(self.pinned.id(), WORKSPACE_TIMEOUT)
    }

    /// Copies the state to a plain folder, for a sandbox without overlay mounts.
    ///
    /// # Errors
    /// [`StoreError`] when the copy exceeds the limits of disk and files, or a file operation fails.
    pub fn copy(&self, limits: &Limits) -> Result<tempfile::TempDir, StoreError> {
        let folder = temporary::folder()?;
        let most = Quota { bytes: limits.disk.0, files: limits.files };
        self.pinned.copy_to(&Folder::open(folder.path())?, most)?;
        Ok(folder)
    }

    /// The state for readers without a mount.
    ///
    /// # Errors
    /// When the folder or a layer cannot be opened.
    pub fn view(&self) -> io::Result<View> {
        let (base, layers) = self.mount();
        View::open(&base, &layers)
    }
}

/// Layers over a folder, held open.
#[derive(Debug)]
pub struct View {
    at: PathBuf,
    base: Folder,
    layers: Vec<Folder>,
    files: Vec<String>,
}

impl View {
    fn open(base: &Path, layers: &[PathBuf]) -> io::Result<Self> {
        Ok(Self {
            at: base.to_owned(),
            base: Folder::open(base)?,
            layers: layers.iter().map(|l| Folder::ours(l)).collect::<io::Result<_>>()?,
            files: Vec::new(),
        })
    }

    /// Lists the files, for use as a project of tests.
    #[must_use]
    pub fn as_project(mut self) -> Self {
        let entries = |folder: &str| {
            let all = self.stack().list(Path::new(folder)).unwrap_or_default();
            let entry = |(path, node): (PathBuf, hotcell_workspace::Node)| {
                let kind = match node.kind {
                    Kind::File => Entry::File,
                    Kind::Folder => Entry::Folder,
                    _ => Entry::Other,
                };
                Some((path.file_name()?.to_str()?.to_owned(), kind))
            };
            all.into_iter().take(MAX_NAMES).filter_map(entry).collect()
        };
        let files = hotcell_testing::list(entries);
        self.files = files;
        self
    }

    fn stack(&self) -> Stack<'_> {
        Stack::new(self.layers.iter().map(Layer::over), &self.base)
    }

    /// First `most` bytes of a file in the view.
    fn beginning(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stack().file(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

impl Project for View {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.beginning(Path::new(path), MAX_FILE_BYTES)
    }

    fn has(&self, path: &str) -> bool {
        self.stack().node(Path::new(path)).is_ok_and(|node| node.is_some())
    }
}

/// The host's file system, with the view replacing its folder. Links in the view are not followed.
impl Fs for View {
    fn look(&self, path: &Path) -> Option<Seen> {
        let Ok(own) = path.strip_prefix(&self.at) else { return Host.look(path) };
        if own.as_os_str().is_empty() {
            return Some(Seen::Folder);
        }
        let stack = self.stack();
        let node = stack.node(own).ok()??;
        Some(match node.kind {
            Kind::Folder => Seen::Folder,
            Kind::Link => Seen::Link(stack.link(own).ok()?),
            Kind::File => {
                use std::os::unix::fs::MetadataExt;
                let about = stack.file(own).ok()?.metadata().ok()?;
                Seen::File { executable: node.mode & 0o111 != 0, id: (about.dev(), about.ino()) }
            }
            Kind::Whiteout | Kind::Special => Seen::Other,
        })
    }

    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        match path.strip_prefix(&self.at) {
            Ok(own) => self.beginning(own, most as u64),
            Err(_) => Host.head(path, most),
        }
    }

    fn names(&self, folder: &Path) -> Vec<OsString> {
        let Ok(own) = folder.strip_prefix(&self.at) else { return Host.names(folder) };
        let all = self.stack().list(own).unwrap_or_default();
        all.into_iter().take(MAX_NAMES).filter_map(|(path, _)| path.file_name().map(OsString::from)).collect()
    }

    fn id(&self, real: &Path) -> Option<FileId> {
        // Files in the view do not exist on the host under that path.
        real.strip_prefix(&self.at).is_err().then(|| Host.id(real))?
    }
}
