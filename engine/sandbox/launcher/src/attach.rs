//! Mounts a job's host folders at their places inside: bound, sealed or copy-on-write.

use core::ffi::CStr;

use crate::copy;
use crate::release::Release;
use crate::report::{At, Failure, Log};
use crate::sys::{self, Errno, Fd};
use crate::text::Text;
use crate::wire::{How, Job, JobMount, MAX_LAYERS, Setup, Step, setup};

/// Descriptor of scratch while mounts are attached; one of the fixed numbers of init, see there.
pub const SCRATCH: Fd = 12;

/// Attaches the job's mounts and sets the size of scratch for the job. Returns a bit for each mount that is a
/// copy.
pub fn attach(
    job: &Job<'_>,
    release: &Release<'_>,
    setup: &Setup<'_>,
    log: &mut Log,
) -> Result<u64, Failure> {
    let mut copies = 0;
    if setup.flags & setup::SCRATCH != 0 && job.scratch_bytes != 0 {
        let size = Text::of(format_args!("size={},nr_inodes={}", job.scratch_bytes, job.scratch_files));
        sys::mount(c"", c"/tmp", c"", sys::MS_REMOUNT | sys::MS_NOSUID | sys::MS_NODEV, size.cstr())
            .at(Step::Scratch)?;
    }
    let mut layers = Layers::default();
    let mut number = 0;
    for mount in job.mounts {
        let fd = release.mount(mount.fd).at_item(Step::Mounts, number)?;
        let copied = match mount.how {
            How::Layer => layers.push(fd, number).map(|()| false),
            _ => attach_one(&mount, fd, number, &mut layers),
        };
        if copied.at_item(Step::Mounts, number)? {
            copies |= 1 << number;
        }
        number += usize::from(mount.how != How::Layer);
    }
    for (path, says) in job.links {
        link(path, says).at_item(Step::Mounts, number)?;
        number += 1;
    }
    log.done(Step::Mounts);
    Ok(copies)
}

/// Makes a symbolic link and its parent folders; a folder, if it has no target.
fn link(path: &CStr, says: &CStr) -> sys::Result<()> {
    if says.is_empty() {
        let made = mountpoint(&JobMount { fd: 0, how: How::Bind, dir: true, target: path })?;
        sys::close(made);
        return Ok(());
    }
    let bytes = path.to_bytes_with_nul();
    let slash = bytes.iter().rposition(|b| *b == b'/').ok_or(Errno::INVAL)?;
    let name = CStr::from_bytes_with_nul(&bytes[slash + 1..]).map_err(|_| Errno::INVAL)?;
    let mut text = [0u8; 4096];
    text.get_mut(..slash).ok_or(Errno::INVAL)?.copy_from_slice(&bytes[..slash]);
    let folder = CStr::from_bytes_until_nul(&text).map_err(|_| Errno::INVAL)?;
    let folder = mountpoint(&JobMount { fd: 0, how: How::Bind, dir: true, target: folder })?;
    let made = match sys::symlinkat(says, folder, name) {
        // Two paths of one job may be the same.
        Err(Errno::EXIST) => Ok(()),
        made => made,
    };
    sys::close(folder);
    made
}

/// Layers for the next copy-on-write folder, the topmost first, attached below scratch: an overlay's layers
/// must be mounted in this namespace.
#[derive(Default)]
struct Layers {
    fds: [Fd; MAX_LAYERS + 1],
    count: usize,
}

impl Layers {
    fn push(&mut self, fd: Fd, number: usize) -> sys::Result<()> {
        let place = Text::of(format_args!("low{number}-{}", self.count));
        *self.fds.get_mut(self.count).ok_or(Errno::INVAL)? = fd;
        sys::mkdirat(SCRATCH, place.cstr(), 0o755)?;
        sys::move_mount(fd, SCRATCH, place.cstr())?;
        self.count += 1;
        Ok(())
    }

    /// Takes the layers pushed so far, leaving none.
    fn take(&mut self) -> Self {
        core::mem::take(self)
    }

    fn all(&self) -> &[Fd] {
        &self.fds[..self.count]
    }

    /// Detaches the layers again: the overlay keeps its own references, and entries in `mountinfo` would tell
    /// the program where its folder is on the host.
    fn forget(&self) -> sys::Result<()> {
        self.all().iter().try_for_each(|layer| forget(*layer))
    }
}

/// Formats the layers as `lowerdir=` of an overlay.
impl core::fmt::Display for Layers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (number, layer) in self.all().iter().enumerate() {
            let before = if number == 0 { "lowerdir=" } else { ":" };
            write!(f, "{before}/proc/self/fd/{layer}")?;
        }
        Ok(())
    }
}

/// Attaches one mount; true when it had to be copied.
fn attach_one(mount: &JobMount<'_>, fd: Fd, number: usize, layers: &mut Layers) -> sys::Result<bool> {
    let place = mountpoint(mount)?;
    let attached = match mount.how {
        How::Sealed => seal(fd, place, number).map(|()| false),
        How::CopyOnWrite => {
            layers.push(fd, number).and_then(|()| copy_on_write(&layers.take(), place, number))
        }
        How::Bind | How::Layer => sys::move_mount(fd, place, c"").map(|()| false),
    };
    sys::close(place);
    attached
}

/// Shows layers as one folder whose changes go to scratch, into `up` with the mount's number; true when it
/// had to be copied.
fn copy_on_write(layers: &Layers, place: Fd, number: usize) -> sys::Result<bool> {
    let [up, work] = ["up", "work"].map(|name| Text::of(format_args!("{name}{number}")));
    for name in [&up, &work] {
        sys::mkdirat(SCRATCH, name.cstr(), 0o755)?;
    }
    let upper = sys::openat(SCRATCH, up.cstr(), sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    let mounted = overlay(layers, upper, place, number);
    let copied = match mounted {
        Ok(()) => layers.forget().map(|()| false),
        Err(_) => copy_instead(layers, upper, place, number).map(|()| true),
    };
    sys::close(upper);
    copied
}

fn overlay(layers: &Layers, upper: Fd, place: Fd, number: usize) -> sys::Result<()> {
    // Test whether attributes can be set: an overlay uses one to mark a folder that replaces a lower one. A
    // tmpfs before kernel 6.6 has none, so that removing a folder would fail with EIO later.
    sys::fsetxattr(upper, c"user.hotcell", b"1")?;
    let options = Text::of(format_args!(
        "{layers},upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{SCRATCH}/work{number},userxattr"
    ));
    sys::mount(c"workspace", own_fd(place).cstr(), c"overlay", sys::MS_NOSUID | sys::MS_NODEV, options.cstr())
}

/// A path to an open file of this process, for calls that take only paths.
fn own_fd(fd: Fd) -> Text {
    Text::of(format_args!("/proc/self/fd/{fd}"))
}

/// Shows a folder through a read-only overlay, in which its sockets and pipes are separate objects, so that
/// the host's listeners cannot be reached. Without overlay support, the folder itself is shown read-only.
fn seal(fd: Fd, place: Fd, number: usize) -> sys::Result<()> {
    let [low, empty] = ["low", "empty"].map(|name| Text::of(format_args!("{name}{number}")));
    for name in [&low, &empty] {
        sys::mkdirat(SCRATCH, name.cstr(), 0o755)?;
    }
    let at = sys::openat(SCRATCH, low.cstr(), sys::O_PATH | sys::O_DIRECTORY, 0)?;
    let moved = sys::move_mount(fd, at, c"");
    sys::close(at);
    moved?;
    let options =
        Text::of(format_args!("lowerdir=/proc/self/fd/{fd}:/proc/self/fd/{SCRATCH}/empty{number},userxattr"));
    let flags = sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV;
    match sys::mount(c"sealed", own_fd(place).cstr(), c"overlay", flags, options.cstr()) {
        Ok(()) => forget(fd),
        Err(_) => sys::mount(own_fd(fd).cstr(), own_fd(place).cstr(), c"", sys::MS_BIND | sys::MS_REC, c""),
    }
}

/// Detaches a layer; an overlay that uses it keeps it.
fn forget(layer: Fd) -> sys::Result<()> {
    sys::umount(own_fd(layer).cstr(), sys::MNT_DETACH)
}

/// Copies the folder into scratch and shows the copy. Several layers are read through an overlay that is
/// never written to.
fn copy_instead(layers: &Layers, upper: Fd, place: Fd, number: usize) -> sys::Result<()> {
    let merged = Text::of(format_args!("merged{number}"));
    if layers.count > 1 {
        sys::mkdirat(SCRATCH, merged.cstr(), 0o755)?;
        let place = Text::of(format_args!("/proc/self/fd/{SCRATCH}/merged{number}"));
        let flags = sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV;
        let options = Text::of(format_args!("{layers},userxattr"));
        sys::mount(c"workspace", place.cstr(), c"overlay", flags, options.cstr())?;
    }
    let low = Text::of(format_args!("low{number}-0"));
    let source = if layers.count > 1 { &merged } else { &low };
    let lower = sys::openat(SCRATCH, source.cstr(), sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    let copied = copy::tree(lower, upper);
    if layers.count > 1 {
        sys::umount(own_fd(lower).cstr(), sys::MNT_DETACH)?;
    }
    sys::close(lower);
    layers.forget()?;
    copied?;
    let source = Text::of(format_args!("/proc/self/fd/{SCRATCH}/up{number}"));
    sys::mount(source.cstr(), own_fd(place).cstr(), c"", sys::MS_BIND, c"")
}

/// Opens a mountpoint, creating missing components (in scratch; elsewhere the template has them). Links are
/// not followed: the workspace may already be mounted, and its links would lead elsewhere.
pub fn mountpoint(mount: &JobMount<'_>) -> sys::Result<Fd> {
    let folder_flags = sys::O_PATH | sys::O_DIRECTORY;
    let mut at = sys::openat(sys::AT_FDCWD, c"/", folder_flags, 0)?;
    let path = mount.target.to_bytes();
    let mut names = path.split(|b| *b == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let mut text = [0u8; 256];
        text.get_mut(..name.len()).ok_or(Errno::INVAL)?.copy_from_slice(name);
        let name = CStr::from_bytes_until_nul(&text).map_err(|_| Errno::INVAL)?;
        let last_file = names.peek().is_none() && !mount.dir;
        let flags = if last_file { sys::O_PATH } else { folder_flags };
        let open = || sys::openat2(at, name, flags, sys::RESOLVE_NO_SYMLINKS);
        let next = match open() {
            Err(Errno::NOENT) if last_file => {
                sys::close(sys::openat(at, name, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, 0o644)?);
                open()
            }
            Err(Errno::NOENT) => {
                sys::mkdirat(at, name, 0o755)?;
                open()
            }
            next => next,
        };
        sys::close(at);
        at = next?;
    }
    Ok(at)
}
