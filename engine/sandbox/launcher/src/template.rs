//! Builds a root file system from a list of operations, which is made elsewhere.
//!
//! Without layers it is a tmpfs with bind mounts of host folders. With the layers of an image it is a
//! read-only overlay of them, with the tmpfs as its topmost layer.

use core::ffi::CStr;

use crate::report::{At, Failure};
use crate::sys::{self, Errno, Fd};
use crate::text::Buffer;
use crate::wire::{List, MAX_IMAGE_LAYERS, OVERLAY, Step, TemplateOp};

/// Mountpoint of the host's tree, once the launcher has a root of its own.
pub const HOST: &CStr = c"/host";

/// Builds the tree on a fresh tmpfs at `place` and makes all of it read-only. Returns its root.
///
/// # Errors
/// When an operation fails; the detail is its number.
pub fn build(place: &CStr, host: Fd, ops: List<'_, TemplateOp<'_>>) -> Result<Fd, Failure> {
    // Small: the tmpfs holds only names, links and a few files of /etc.
    sys::mount(
        c"hotcell",
        place,
        c"tmpfs",
        sys::MS_NOSUID | sys::MS_NODEV,
        c"size=4m,nr_inodes=4096,mode=0755",
    )
    .at(Step::Template)?;
    match fill(place, host, ops) {
        Ok(root) => Ok(root),
        Err(failure) => {
            let _ = remove(place);
            Err(failure)
        }
    }
}

/// Removes a tree, including the tmpfs below an overlay.
///
/// # Errors
/// When there is no tree at `place`.
pub fn remove(place: &CStr) -> sys::Result<()> {
    sys::umount(place, sys::MNT_DETACH)?;
    let _ = sys::umount(place, sys::MNT_DETACH);
    Ok(())
}

fn fill(place: &CStr, host: Fd, ops: List<'_, TemplateOp<'_>>) -> Result<Fd, Failure> {
    let mut root = sys::openat(sys::AT_FDCWD, place, sys::O_PATH | sys::O_DIRECTORY, 0).at(Step::Template)?;
    let mut layers = Layers { fds: [-1; MAX_IMAGE_LAYERS + 1], count: 0 };
    let mut parent = Parent { folder: [0; LONGEST_PARENT], len: 0, fd: -1 };
    let mut done = Ok(());
    for (number, op) in ops.enumerate() {
        done = match &op {
            TemplateOp::Layer(path) => layers.add(host, path),
            _ => apply(root, host, &op, &mut parent),
        }
        .at_item(Step::Template, number);
        if done.is_err() {
            break;
        }
    }
    parent.forget();
    done?;
    if layers.count > 0 {
        let top = root;
        let shown = show(place, top, &layers).at_item(Step::Template, OVERLAY);
        layers.fds.iter().take(layers.count).chain([&top]).for_each(|fd| sys::close(*fd));
        root = shown?;
    }
    sys::mount_setattr(root, true, sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID, -1).at(Step::Template)?;
    Ok(root)
}

/// The layers of an image, the topmost first, held open.
struct Layers {
    fds: [Fd; MAX_IMAGE_LAYERS + 1],
    count: usize,
}

impl Layers {
    fn add(&mut self, host: Fd, path: &CStr) -> sys::Result<()> {
        let slot =
            self.fds.get_mut(self.count).filter(|_| self.count < MAX_IMAGE_LAYERS).ok_or(Errno::INVAL)?;
        let resolve = sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_SYMLINKS;
        *slot = sys::openat2(host, path, sys::O_PATH | sys::O_DIRECTORY, resolve)?;
        self.count += 1;
        Ok(())
    }
}

/// Formats `lowerdir=` of an overlay with descriptors, so that a colon or comma in a path has no special
/// meaning.
impl core::fmt::Display for Layers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let host = HOST.to_str().unwrap_or_default();
        self.fds.iter().take(self.count).try_for_each(|fd| write!(f, ":{host}/proc/self/fd/{fd}"))
    }
}

/// Mounts an overlay of the layers, with `top` as the topmost, over `top`, and moves its devices there.
/// Returns the root.
fn show(place: &CStr, top: Fd, layers: &Layers) -> sys::Result<Fd> {
    let host = HOST.to_str().unwrap_or_default();
    let options = Buffer::<4096>::of(format_args!("lowerdir={host}/proc/self/fd/{top}{layers},userxattr"));
    let flags = sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV;
    sys::mount(c"image", place, c"overlay", flags, options.cstr())?;
    let root = sys::openat(sys::AT_FDCWD, place, sys::O_PATH | sys::O_DIRECTORY, 0)?;
    // An overlay does not show mounts inside its layers, and hides /dev of the image.
    let devices = sys::open_tree_clone(top, c"dev", true)?;
    let moved = sys::openat2(root, c"dev", sys::O_PATH, RESOLVE).and_then(|at| {
        let moved = sys::move_mount(devices, at, c"");
        sys::close(at);
        moved
    });
    sys::close(devices);
    moved.map(|()| root)
}

fn apply(root: Fd, host: Fd, op: &TemplateOp<'_>, last: &mut Parent) -> sys::Result<()> {
    match op {
        TemplateOp::Dir(path, mode) => {
            last.of(root, path, |parent, name| match sys::mkdirat(parent, name, *mode) {
                Err(Errno::EXIST) => Ok(()),
                other => other,
            })
        }
        TemplateOp::Link(path, says) => {
            last.of(root, path, |parent, name| sys::symlinkat(says, parent, name))
        }
        TemplateOp::File(path, mode, content) => last.of(root, path, |parent, name| {
            let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW;
            let file = match sys::openat(parent, name, flags, *mode) {
                // The mountpoint already exists in a folder of the host.
                Err(Errno::EXIST) if content.is_empty() => return Ok(()),
                file => file?,
            };
            let result = write_all(file, content);
            sys::close(file);
            result
        }),
        TemplateOp::Bind(from, to, devices) => {
            // The mount may cover it.
            last.forget();
            let source = sys::openat2(host, from, sys::O_PATH, RESOLVE)?;
            let result = bind(source, root, to, *devices);
            sys::close(source);
            result
        }
        // Layers are handled separately.
        TemplateOp::Layer(_) => Err(Errno::INVAL),
    }
}

/// Resolve links only inside the tree at hand: neither out of the new root nor out of the host's.
const RESOLVE: u64 = sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_MAGICLINKS;

/// Longest path of a folder that is kept open, in bytes; longer ones are opened for each of their files.
const LONGEST_PARENT: usize = 64;

/// The folder of the last operation, kept open: most of a root's files follow one another in `/etc`.
struct Parent {
    folder: [u8; LONGEST_PARENT],
    len: usize,
    /// Descriptor, or -1.
    fd: Fd,
}

impl Parent {
    /// Opens the folder that contains `path`, unless it is still open, and calls `act` with the last component.
    fn of(
        &mut self,
        root: Fd,
        path: &CStr,
        act: impl FnOnce(Fd, &CStr) -> sys::Result<()>,
    ) -> sys::Result<()> {
        let bytes = path.to_bytes();
        let Some(slash) = bytes.iter().rposition(|b| *b == b'/') else { return act(root, path) };
        let name =
            CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[slash + 1..]).map_err(|_| Errno::INVAL)?;
        let above = &bytes[..slash];
        if self.fd < 0 || self.folder.get(..self.len) != Some(above) {
            self.forget();
            let mut text = [0u8; 4096];
            text.get_mut(..slash).ok_or(Errno::INVAL)?.copy_from_slice(above);
            let folder = CStr::from_bytes_until_nul(&text).map_err(|_| Errno::INVAL)?;
            let parent = sys::openat2(root, folder, sys::O_PATH | sys::O_DIRECTORY, RESOLVE)?;
            let Some(kept) = self.folder.get_mut(..slash) else {
                let result = act(parent, name);
                sys::close(parent);
                return result;
            };
            kept.copy_from_slice(above);
            (self.len, self.fd) = (slash, parent);
        }
        act(self.fd, name)
    }

    /// Closes it.
    fn forget(&mut self) {
        if self.fd >= 0 {
            sys::close(core::mem::replace(&mut self.fd, -1));
        }
    }
}

/// Binds read-only from the start, so that no later operation creates a folder on the host.
fn bind(source: Fd, root: Fd, to: &CStr, devices: bool) -> sys::Result<()> {
    let clone = sys::open_tree_clone(source, c"", true)?;
    let nodev = if devices { 0 } else { sys::MOUNT_ATTR_NODEV };
    let attributes = sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID | nodev;
    let result = sys::mount_setattr(clone, true, attributes, -1)
        .and_then(|()| sys::openat2(root, to, sys::O_PATH, RESOLVE))
        .and_then(|place| {
            let moved = sys::move_mount(clone, place, c"");
            sys::close(place);
            moved
        });
    sys::close(clone);
    result
}

fn write_all(file: Fd, mut bytes: &[u8]) -> sys::Result<()> {
    while !bytes.is_empty() {
        let n = sys::write(file, bytes)?;
        bytes = &bytes[n..];
    }
    Ok(())
}
