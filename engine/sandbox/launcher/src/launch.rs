//! The launcher's loop: serves requests from the supervisor's socket, descriptor 0, one at a time.
//!
//! The launcher ends when the supervisor does (end of file), and every sandbox ends with it (`PDEATHSIG` and
//! the life pipe). Nothing here depends on a program: no sandbox's data is read.

use crate::init::{self, Inherited};
use crate::procfs::{self, write as write_file};
use core::ffi::CStr;

use crate::report::{At, Failure, Log, tell_failure};
use crate::sys::{self, CloneArgs, Errno, Fd};
use crate::template::{self, HOST};
use crate::text::Text;
use crate::wire::{
    CloneRequest, IdMap, List, MAX_MESSAGE, MAX_RELAYS, NAMES_PORT, PROXY_PORT, Request, Setup, Step, detail,
    setup, tell, template_ops,
};

const SUPERVISOR: Fd = 0;
const MAX_TEMPLATES: usize = 64;
const MAX_IDMAPS: usize = 16;

struct Launcher {
    /// The host's root folder.
    host: Fd,
    /// The host's `/proc`, for the maps of new user namespaces.
    proc: Fd,
    /// A pipe that is never written to: its end of file tells an init that the launcher has ended.
    life: [Fd; 2],
    templates: [Fd; MAX_TEMPLATES],
    /// User namespaces that represent owner maps, by the map.
    idmaps: [Option<(IdMap, Fd)>; MAX_IDMAPS],
    next_idmap: usize,
    network: Network,
    /// Whether the launcher is in a user namespace of its own, so that its sandboxes have the host id of the
    /// user who started it.
    own_user: bool,
}

/// State of the network namespace that this process is in. Making one is half of all the work for a sandbox,
/// so it is made ahead while idle; every sandbox gets an unused one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    /// The host's namespace: sandboxes make their own.
    Host,
    /// A fresh namespace, for the next sandbox.
    Fresh,
    /// A namespace that was given to a sandbox.
    Used,
}

/// Delay in milliseconds between a sandbox and making the next network namespace; by then the sandbox has
/// been set up and started.
const IDLE_DELAY_MS: i64 = 3;

/// Entry point of the launcher. Never returns.
pub fn main() -> ! {
    sys::set_name(c"hotcell-launch");
    sys::setsid(); // so that no keystroke of the terminal reaches the launcher
    sys::default_signals();
    sys::block_signals(0);
    sys::reap_by_kernel();
    sys::umask(0);
    let Ok(buffer) = sys::map(-1, MAX_MESSAGE) else { sys::exit(1) };
    let Ok(life) = sys::pipe() else { sys::exit(1) };
    let mut launcher = Launcher {
        host: -1,
        proc: -1,
        life,
        templates: [-1; MAX_TEMPLATES],
        idmaps: [None; MAX_IDMAPS],
        next_idmap: 0,
        network: Network::Host,
        own_user: false,
    };
    loop {
        if launcher.network == Network::Used {
            let mut socket = [sys::PollFd { fd: SUPERVISOR, events: sys::POLLIN, revents: 0 }];
            if sys::poll(&mut socket, IDLE_DELAY_MS) == Ok(0) {
                // A failure recurs and is reported when the next sandbox is requested.
                let _ = launcher.renew_network();
            }
        }
        match sys::receive(SUPERVISOR, buffer) {
            Ok(message) if message.len == 0 => sys::exit(0),
            Ok(message) => {
                launcher.serve(&buffer[..message.len], message.fds());
                message.close_all();
            }
            Err(Errno::INTR) => {}
            Err(Errno::PROTO) => {
                answer(0, Err(Failure { step: Step::Decode, errno: Errno::PROTO, detail: 0 }));
            }
            Err(_) => sys::exit(1),
        }
    }
}

/// Answers a request on the supervisor's socket.
fn answer(tag: u32, result: Result<Option<Fd>, Failure>) {
    let mut log = Log::new();
    let tag = u64::from(tag) << 32;
    let sent = match result {
        Ok(None) => log.tell(SUPERVISOR, tell::DONE, [tag, 0, 0], &[]),
        Ok(Some(fd)) => {
            let sent = log.tell(SUPERVISOR, tell::DONE, [tag, 0, 0], &[fd]);
            sys::close(fd);
            // If the kernel refuses to send the descriptor, only this request fails; running sandboxes go on.
            sent.or_else(|errno| {
                let numbers = [tag | Step::CloneMount as u64, u64::from(errno.0.unsigned_abs()), 8];
                log.tell(SUPERVISOR, tell::FAILED, numbers, &[])
            })
        }
        Err(f) => {
            let numbers = [tag | f.step as u64, u64::from(f.errno.0.unsigned_abs()), f.detail];
            log.tell(SUPERVISOR, tell::FAILED, numbers, &[])
        }
    };
    if sent.is_err() {
        sys::exit(1);
    }
}

impl Launcher {
    fn serve(&mut self, bytes: &[u8], fds: &[Fd]) {
        let Ok((tag, request)) = Request::decode(bytes) else {
            return answer(0, Err(Failure { step: Step::Decode, errno: Errno::PROTO, detail: 0 }));
        };
        let done = match request {
            Request::Hello { own_user_ns, own_mounts, own_network, uid, gid } => {
                self.hello(own_user_ns, own_mounts, own_network, uid, gid).map(|()| None)
            }
            Request::Template { id, len } => self.template(id, len, fds).map(|()| None),
            Request::Forget { id } => self.forget(id).map(|()| None),
            Request::Clone(request) => self.clone_mount(&request).map(Some),
            Request::Remove(folders) => self.remove_at_end(folders),
            Request::Spawn(mut setup) => {
                // Everything about a sandbox is reported on its own socket.
                let Some((&control, given)) = fds.split_first() else {
                    return answer(tag, Err(Failure { step: Step::Decode, errno: Errno::BADF, detail: 0 }));
                };
                let born = self.give_network(&mut setup).and_then(|()| self.spawn(&setup, control, given));
                if let Err(failure) = born {
                    let _ = tell_failure(&mut Log::new(), control, failure);
                }
                return;
            }
        };
        answer(tag, done);
    }

    /// Waits for the supervisor's end, then removes the folders once their last processes have ended.
    fn remove_at_end(&self, folders: List<'_, &CStr>) -> ! {
        let mut socket = [sys::PollFd { fd: SUPERVISOR, events: 0, revents: 0 }];
        while !matches!(sys::poll(&mut socket, -1), Ok(n) if n > 0) {}
        for pause in 0..200 {
            let mut left = false;
            for folder in folders {
                let relative = &folder.to_bytes_with_nul()[1..];
                let Ok(relative) = CStr::from_bytes_with_nul(relative) else { continue };
                left |= matches!(sys::rmdir(self.host, relative), Err(e) if e != Errno::NOENT);
            }
            if !left {
                break;
            }
            let _ = sys::poll(&mut [], 1 + pause / 10);
        }
        // Also remove the folder around them, unless it contains other processes' groups.
        for folder in folders {
            let bytes = folder.to_bytes();
            let parent = bytes.iter().rposition(|b| *b == b'/').and_then(|slash| bytes.get(1..slash));
            if let Some(parent) = parent.and_then(|p| core::str::from_utf8(p).ok()) {
                let _ = sys::rmdir(self.host, Text::of(format_args!("{parent}")).cstr());
            }
        }
        sys::exit(0)
    }

    fn hello(&mut self, user: bool, mounts: bool, network: bool, uid: u32, gid: u32) -> Result<(), Failure> {
        let mut flags = 0;
        for (wanted, flag) in
            [(user, sys::CLONE_NEWUSER), (mounts, sys::CLONE_NEWNS), (network, sys::CLONE_NEWNET)]
        {
            if wanted {
                flags |= flag;
            }
        }
        if flags != 0 {
            sys::unshare(flags).at_item(Step::Hello, detail::hello::NAMESPACES)?;
        }
        if user {
            write_file(sys::AT_FDCWD, c"/proc/self/setgroups", b"deny")
                .at_item(Step::Hello, detail::hello::SETGROUPS)?;
            let map = Text::of(format_args!("{uid} {uid} 1\n"));
            write_file(sys::AT_FDCWD, c"/proc/self/uid_map", map.bytes())
                .at_item(Step::Hello, detail::hello::UID_MAP)?;
            let map = Text::of(format_args!("{gid} {gid} 1\n"));
            write_file(sys::AT_FDCWD, c"/proc/self/gid_map", map.bytes())
                .at_item(Step::Hello, detail::hello::GID_MAP)?;
            share_of_this_user();
        }
        // Backs up each program's own limit (see the plan), also where the inherited hard limit is 0, if
        // permitted.
        let _ = sys::set_rlimit(0, sys::RLIMIT_CORE, 1, 1);
        if network {
            sys::loopback_up().at_item(Step::Hello, detail::hello::LOOPBACK)?;
            self.network = Network::Fresh;
        }
        self.own_user = user;
        if user && network {
            nobody_waits_with_descriptors(sys::AT_FDCWD, c"/proc/sys/net/unix/max_dgram_qlen");
        }
        let host = if mounts {
            own_root().at_item(Step::Hello, detail::hello::OWN_ROOT)?;
            HOST
        } else {
            c"/"
        };
        // No other process may inspect a process that holds other sandboxes' descriptors. Not earlier: the
        // files of /proc/self would belong to root, and an ordinary user could not write the maps above.
        sys::prctl(sys::PR_SET_DUMPABLE, 0).at_item(Step::Hello, detail::hello::DUMPABLE)?;
        self.host = sys::openat(sys::AT_FDCWD, host, sys::O_PATH | sys::O_DIRECTORY, 0)
            .at_item(Step::Hello, detail::hello::HOST)?;
        self.proc = sys::openat(self.host, c"proc", sys::O_PATH | sys::O_DIRECTORY, 0)
            .at_item(Step::Hello, detail::hello::PROC)?;
        Ok(())
    }

    /// Enters a new network namespace with its loopback up.
    fn renew_network(&mut self) -> Result<(), Failure> {
        sys::unshare(sys::CLONE_NEWNET).at_item(Step::Network, detail::network::NAMESPACE)?;
        sys::loopback_up().at_item(Step::Network, detail::network::LOOPBACK)?;
        if self.own_user {
            nobody_waits_with_descriptors(self.proc, c"sys/net/unix/max_dgram_qlen");
        }
        self.network = Network::Fresh;
        Ok(())
    }

    /// Gives the next child this process's unused network namespace.
    fn give_network(&mut self, setup: &mut Setup<'_>) -> Result<(), Failure> {
        if self.network == Network::Used {
            self.renew_network()?;
        }
        if self.network == Network::Fresh {
            self.network = Network::Used;
            setup.namespaces &= !sys::CLONE_NEWNET;
        }
        Ok(())
    }

    fn template(&mut self, id: u32, len: u64, fds: &[Fd]) -> Result<(), Failure> {
        let slot = self.slot(id)?;
        let len = usize::try_from(len).map_err(|_| Errno::INVAL).at(Step::Template)?;
        let memory = sys::map(*fds.first().ok_or(Errno::BADF).at(Step::Template)?, len).at(Step::Template)?;
        let place = Text::of(format_args!("/t{id}"));
        let built = template_ops(memory).map_err(|_| Errno::PROTO).at(Step::Decode).and_then(|ops| {
            match sys::mkdirat(sys::AT_FDCWD, place.cstr(), 0o755) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e).at(Step::Template),
            }
            template::build(place.cstr(), self.host, ops)
        });
        // SAFETY: `ops` and everything borrowed from the mapping ended with the expression above.
        unsafe { sys::unmap(memory) };
        self.templates[slot] = built?;
        Ok(())
    }

    fn slot(&self, id: u32) -> Result<usize, Failure> {
        usize::try_from(id)
            .ok()
            .filter(|&slot| slot < MAX_TEMPLATES && self.templates[slot] < 0)
            .ok_or(Errno::INVAL)
            .at_item(Step::Template, detail::template::NUMBER)
    }

    fn forget(&mut self, id: u32) -> Result<(), Failure> {
        let root = usize::try_from(id).ok().and_then(|slot| self.templates.get_mut(slot));
        let root = root.filter(|fd| **fd >= 0).ok_or(Errno::NOENT).at(Step::Template)?;
        sys::close(core::mem::replace(root, -1));
        template::remove(Text::of(format_args!("/t{id}")).cstr()).at(Step::Template)
    }

    fn clone_mount(&mut self, request: &CloneRequest<'_>) -> Result<Fd, Failure> {
        let resolve = sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_SYMLINKS;
        let found = sys::openat2(self.host, request.path, sys::O_PATH, resolve)
            .at_item(Step::CloneMount, detail::clone_mount::OPEN)?;
        let clone = self.clone_found(found, request);
        sys::close(found);
        clone
    }

    fn clone_found(&mut self, found: Fd, request: &CloneRequest<'_>) -> Result<Fd, Failure> {
        let stat = sys::fstat(found).at_item(Step::CloneMount, detail::clone_mount::STAT)?;
        if (stat.dev, stat.ino) != (request.dev, request.ino) {
            // The file was replaced after the policy was checked.
            return Err(Errno::STALE).at_item(Step::CloneMount, detail::clone_mount::REPLACED);
        }
        let clone =
            sys::open_tree_clone(found, c"", true).at_item(Step::CloneMount, detail::clone_mount::CLONE)?;
        let attributes = self.set_attributes(clone, request);
        if attributes.is_err() {
            sys::close(clone);
        }
        attributes.map(|()| clone)
    }

    fn set_attributes(&mut self, clone: Fd, request: &CloneRequest<'_>) -> Result<(), Failure> {
        let mut set = sys::MOUNT_ATTR_NOSUID;
        if !request.devices {
            set |= sys::MOUNT_ATTR_NODEV;
        }
        if request.read_only {
            set |= sys::MOUNT_ATTR_RDONLY;
        }
        sys::mount_setattr(clone, true, set, -1)
            .at_item(Step::CloneMount, detail::clone_mount::ATTRIBUTES)?;
        if let Some(map) = request.idmap {
            let userns = self.owner_map(map)?;
            sys::mount_setattr(clone, true, sys::MOUNT_ATTR_IDMAP, userns)
                .at_item(Step::CloneMount, detail::clone_mount::OWNER)?;
        }
        Ok(())
    }

    /// A user namespace that represents `map`; made once and cached.
    fn owner_map(&mut self, map: IdMap) -> Result<Fd, Failure> {
        if let Some((_, fd)) = self.idmaps.iter().flatten().find(|(known, _)| *known == map) {
            return Ok(*fd);
        }
        let fd = self.make_owner_map(map).at_item(Step::CloneMount, detail::clone_mount::OWNER_MAP)?;
        let slot = &mut self.idmaps[self.next_idmap % MAX_IDMAPS];
        self.next_idmap += 1;
        if let Some((_, old)) = slot.replace((map, fd)) {
            sys::close(old);
        }
        Ok(fd)
    }

    fn make_owner_map(&self, map: IdMap) -> sys::Result<Fd> {
        let hold = sys::pipe()?;
        let args = CloneArgs {
            flags: sys::CLONE_NEWUSER,
            exit_signal: u64::from(sys::SIGCHLD.unsigned_abs()),
            ..CloneArgs::default()
        };
        let pid = sys::fork(&args)?;
        if pid == 0 {
            // The child keeps the namespace alive until the launcher has opened it.
            sys::close(hold[1]);
            let _ = sys::read(hold[0], &mut [0]);
            sys::exit(0);
        }
        let (uids, gids) = ((map.from_uid, map.to_uid), (map.from_gid, map.to_gid));
        let fd = self.write_maps(pid, uids, gids, false).and_then(|()| {
            sys::openat(self.proc, Text::of(format_args!("{pid}/ns/user")).cstr(), sys::O_RDONLY, 0)
        });
        sys::close(hold[0]);
        sys::close(hold[1]);
        fd
    }

    /// Writes single-id maps: `(inside, outside)`.
    fn write_maps(
        &self,
        pid: i32,
        uids: (u32, u32),
        gids: (u32, u32),
        deny_setgroups: bool,
    ) -> sys::Result<()> {
        if deny_setgroups {
            let path = Text::of(format_args!("{pid}/setgroups"));
            write_file(self.proc, path.cstr(), b"deny")?;
        }
        for (file, (inside, outside)) in [("uid_map", uids), ("gid_map", gids)] {
            let path = Text::of(format_args!("{pid}/{file}"));
            write_file(self.proc, path.cstr(), Text::of(format_args!("{inside} {outside} 1\n")).bytes())?;
        }
        Ok(())
    }

    fn spawn<'a>(&mut self, setup: &'a Setup<'a>, control: Fd, given: &[Fd]) -> Result<(), Failure> {
        let started = sys::now();
        let (cgroup, prime) = if setup.flags & setup::PRIME == 0 {
            (given, &[][..])
        } else {
            let own = 1 + setup.prime.mounts.len();
            given
                .len()
                .checked_sub(own)
                .and_then(|n| given.split_at_checked(n))
                .ok_or(Errno::BADF)
                .at(Step::Prime)?
        };
        let tree = if setup.flags & setup::ROOT != 0 {
            let root =
                usize::try_from(setup.template).ok().and_then(|slot| self.templates.get(slot)).copied();
            let root = root.filter(|fd| *fd >= 0).ok_or(Errno::NOENT).at(Step::CloneMount)?;
            sys::open_tree_clone(root, c"", true).at(Step::CloneMount)?
        } else {
            -1
        };
        let born = self.proxy_sockets(setup).and_then(|sockets| {
            let born = self.fork_init(setup, control, cgroup, (tree, prime, &sockets), started);
            // From here on they are the supervisor's alone: who closes them closes the only way out.
            sockets.close();
            born
        });
        sys::close(tree);
        born
    }

    /// The sockets of a sandbox's proxy, in the network namespace that it is about to get; for one without, that for names alone, or
    /// none.
    fn proxy_sockets(&self, setup: &Setup<'_>) -> Result<ProxySockets, Failure> {
        const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
        let mut sockets = ProxySockets { fds: [-1; 3 + MAX_RELAYS], count: 0 };
        let own: &[(u16, bool)] = match setup.flags & (setup::PROXY | setup::NAMES) {
            0 => return Ok(sockets),
            setup::NAMES => &[(NAMES_PORT, true)],
            _ => &[(PROXY_PORT, false), (NAMES_PORT, true), (NAMES_PORT, false)],
        };
        if self.network == Network::Host {
            // Questions for names are only reported; without a namespace made ahead they are not.
            return if setup.flags & setup::PROXY == 0 {
                Ok(sockets)
            } else {
                Err(Errno::PERM).at_item(Step::Network, detail::network::LISTEN)
            };
        }
        let own = own.iter().map(|&(port, datagrams)| (LOOPBACK, port, datagrams));
        let relays = setup.relays.map(|(at, port)| (at, port, false));
        for (slot, (at, port, datagrams)) in sockets.fds.iter_mut().zip(own.chain(relays)) {
            match sys::loopback_socket(at, port, datagrams) {
                Ok(socket) => *slot = socket,
                Err(errno) => {
                    sockets.close();
                    return Err(errno).at_item(Step::Network, detail::network::LISTEN);
                }
            }
            sockets.count += 1;
        }
        Ok(sockets)
    }

    fn fork_init<'a>(
        &self,
        setup: &'a Setup<'a>,
        control: Fd,
        cgroup: &[Fd],
        (tree, prime, sockets): (Fd, &[Fd], &ProxySockets),
        started: u64,
    ) -> Result<(), Failure> {
        let go = sys::pipe().at(Step::Fork)?;
        let mut pidfd: Fd = -1;
        let mut args = CloneArgs {
            // If the launcher has no namespace ready, the runner makes it while init mounts.
            flags: (setup.namespaces & !sys::CLONE_NEWNET) | sys::CLONE_PIDFD,
            pidfd: &raw mut pidfd as u64,
            exit_signal: u64::from(sys::SIGCHLD.unsigned_abs()),
            ..CloneArgs::default()
        };
        if let (true, Some(&group)) = (setup.flags & setup::CGROUP_V2 != 0, cgroup.first()) {
            args.flags |= sys::CLONE_INTO_CGROUP;
            args.cgroup = u64::from(group.unsigned_abs());
        }
        // The child inherits this setting. While it is 0, only root may write the child's maps; init sets it
        // to 0 again.
        let ordinary = setup.flags & setup::PRIVILEGED_MAP == 0;
        if ordinary {
            let _ = sys::prctl(sys::PR_SET_DUMPABLE, 1);
        }
        let forked = sys::fork(&args);
        if ordinary && forked != Ok(0) {
            let _ = sys::prctl(sys::PR_SET_DUMPABLE, 0);
        }
        let pid = match forked {
            Ok(pid) => pid,
            Err(errno) => {
                go.into_iter().for_each(sys::close);
                return Err(Failure { step: Step::Fork, errno, detail: 0 });
            }
        };
        if pid == 0 {
            sys::close(go[1]);
            sys::close(self.life[1]);
            sockets.close();
            let inherited =
                Inherited { control, cgroup, tree, prime, go: go[0], life: self.life[0], started };
            init::run(setup, &inherited);
        }
        let forked = sys::now();
        let first_to_go =
            procfs::write(self.proc, Text::of(format_args!("{pid}/oom_score_adj")).cstr(), b"1000");
        let mapped = if setup.namespaces & sys::CLONE_NEWUSER == 0 {
            Ok(())
        } else {
            let (uids, gids) = ((setup.inside.0, setup.outside.0), (setup.inside.1, setup.outside.1));
            self.write_maps(pid, uids, gids, ordinary)
        };
        let mut log = Log::new();
        log.done_at(Step::Decode, started);
        log.done_at(Step::Fork, forked);
        log.done(Step::Map);
        let told =
            mapped.at(Step::Map).and(first_to_go.at_item(Step::Fork, detail::fork::FIRST)).and_then(|()| {
                // The supervisor holds the sandbox's life in its hand before the sandbox does anything.
                let mut fds = [pidfd; 1 + 3 + MAX_RELAYS];
                fds[1..].copy_from_slice(&sockets.fds);
                let fds = &fds[..=sockets.count];
                log.tell(control, tell::BORN, [u64::from(pid.unsigned_abs()), 0, 0], fds).at(Step::Fork)?;
                sys::write(go[1], b"g").at(Step::Fork)
            });
        sys::close(pidfd);
        go.into_iter().for_each(sys::close); // on failure no byte was written: the child sees the end of file and ends
        told.map(drop)
    }
}

/// The sockets of a sandbox's proxy: its own three, then those of its relays.
struct ProxySockets {
    fds: [Fd; 3 + MAX_RELAYS],
    count: usize,
}

impl ProxySockets {
    fn close(&self) {
        self.fds[..self.count].iter().copied().for_each(sys::close);
    }
}

/// Keeps, of what the kernel counts for each user of the host, a share for that user's own programs: all sandboxes of this launcher
/// together have half of the default. Each has a ceiling of its own too, where these cannot be written.
fn share_of_this_user() {
    let ceilings: [(&CStr, &[u8]); 2] =
        [(c"/proc/sys/user/max_inotify_instances", b"64"), (c"/proc/sys/user/max_inotify_watches", b"4096")];
    for (ceiling, value) in ceilings {
        let _ = write_file(sys::AT_FDCWD, ceiling, value);
    }
}

/// Removes the maximum length of datagram queues in this process's network namespace: only the sender's
/// buffer limits them.
///
/// The kernel checks the number of a user's descriptors in flight before a sender waits for space in the
/// queue, and adds the sender's afterwards (from Linux 6.10 on). Senders that wait at the same time could
/// each exceed the limit by 253 descriptors.
fn nobody_waits_with_descriptors(dir: Fd, file: &CStr) {
    let _ = write_file(dir, file, b"2147483647");
}

/// Replaces the host's tree by a small one of the launcher's own, with the host's at [`HOST`].
fn own_root() -> sys::Result<()> {
    // Later mounts of the host propagate here; mounts made here do not propagate to the host.
    sys::mount(c"", c"/", c"", sys::MS_REC | sys::MS_SLAVE, c"")?;
    sys::mount(
        c"hotcell",
        c"/tmp",
        c"tmpfs",
        sys::MS_NOSUID | sys::MS_NODEV,
        c"size=1m,nr_inodes=1024,mode=0700",
    )?;
    sys::mkdirat(sys::AT_FDCWD, c"/tmp/host", 0o700)?;
    sys::chdir(c"/tmp")?;
    sys::pivot_root(c".", c"host")?;
    sys::chdir(c"/")
}
