//! A sandbox that is ready for its one job: release sends it the job, and it becomes a run.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_launcher::wire::{How, MAX_LETTER, setup, tell};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::cgroup::Group;
use crate::ids::Mapping;
use crate::launcher::{self, Trouble};
use crate::layer::Layer;
use crate::plan::{self, ShapePlan, Source};
use crate::policy::{HOME, Job, Stdin};
use crate::refusal::Refusal;
use crate::running::{Given, Here, Running};
use crate::shared::{
    CROWD_RETRY_INTERVAL, CROWD_TIMEOUT, Shared, Slot, group_limits, out_of_descriptors, refusal_of,
};
use crate::supervise::{Ends, Stop, Task};
use crate::terminal::Terminal;
use crate::{BoxFuture, alias, failure, host, host_scratch, socket, sources, streams};

/// A sandbox that is ready for one job. Dropping it unused ends it.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) control: OwnedFd,
    pub(crate) group: Option<Group>,
    pub(crate) plan: ShapePlan,
    pub(crate) slot: Slot,
    /// The program's own folder, if the sandbox has no root of its own.
    pub(crate) scratch: Option<host_scratch::Scratch>,
    pub(crate) asked: Instant,
    pub(crate) made: Instant,
    /// Messages that the sandbox sent while it waited.
    pub(crate) heard: Vec<socket::Message>,
    /// CPU time that its cgroup had used when it was ready; not charged to the run.
    pub(crate) spent: Duration,
    /// The program's standard input, output and error, if the sandbox was made ahead.
    pub(crate) ahead: Option<Ahead>,
}

/// Descriptors of a job, made before the job is known.
#[derive(Debug)]
pub(crate) struct Ahead {
    null: OwnedFd,
    stdout: Pipe,
    stderr: Pipe,
}

/// The reading end, which stays in this process, and the writing end.
type Pipe = (OwnedFd, OwnedFd);

/// Time limit until a sandbox is ready for its job.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

impl Sandbox {
    /// Waits until the sandbox is ready for its job; for sandboxes made ahead.
    pub(crate) async fn settled(mut self) -> Result<Self, Refusal> {
        let lost = |e: std::io::Error| Refusal::internal(format!("the sandbox cannot be heard: {e}"));
        let ready = async {
            loop {
                let Some(message) = launcher::receive(self.control.as_fd()).await.map_err(lost)? else {
                    return Err(Refusal::internal("the sandbox ended before it was ready"));
                };
                let said = message.tell().map_err(lost)?;
                if said.kind == tell::FAILED {
                    return Err(refusal_of(&Trouble::Failed(launcher::failure(said.a, said.b, said.c))));
                }
                let is_ready = said.kind == tell::READY;
                self.heard.push(message);
                if is_ready {
                    return Ok(());
                }
            }
        };
        let slow =
            |_| Refusal::internal(format!("the sandbox was not ready in {} s", READY_TIMEOUT.as_secs()));
        tokio::time::timeout(READY_TIMEOUT, ready).await.map_err(slow)??;
        self.spent = self.group.as_ref().and_then(|group| group.sample().ok()?.cpu).unwrap_or_default();
        self.ahead = Some(Ahead { null: null()?, stdout: self.pipe()?, stderr: self.pipe()? });
        Ok(self)
    }

    /// Sends the job to the sandbox.
    ///
    /// # Errors
    /// [`Refusal`] when the job asks for more than the shape has; the sandbox is destroyed then.
    pub fn release<'a>(self, job: &'a Job) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let sources = sources::find(job)?;
            self.start(job, sources).await
        })
    }

    /// Whether the sandbox is still waiting: it has sent no message and has not ended. `poll(2)`
    pub(crate) fn is_waiting(&self) -> bool {
        let mut polled = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO) == Ok(0)
    }

    /// Sets the time of the request: the time that the sandbox waited before is not the run's.
    pub(crate) fn asked_at(self, now: Instant) -> Self {
        Self { asked: now, made: now, ..self }
    }

    pub(crate) async fn start(mut self, job: &Job, mut sources: Vec<Source>) -> Result<Running, Refusal> {
        if !self.plan.rooted {
            sources::follow_links(&mut sources);
        }
        let host = &self.shared.host;
        let home = self.scratch.as_ref().map_or(Path::new(HOME), host_scratch::Scratch::path);
        // In a user namespace of its own only its own tasks count, and with root's mapping it has an id of
        // its own.
        let shared_id = !self.plan.layers.is_on(Layer::UserNs) && host.mapping != Mapping::Privileged;
        let beside = shared_id.then(host::tasks_of_this_user);
        let aliases = if self.plan.rooted {
            alias::links(job, self.plan.image.as_ref(), &sources)
        } else {
            alias::Links::default()
        };
        let plan = plan::job(job, &sources, &aliases.scratch, home, &self.plan, host, beside)?;
        for (name, why) in &aliases.left {
            tracing::info!(target: "hotcell_contents", "{} leads nowhere inside: {why}", name.display());
        }
        if let Some(group) = self.group.as_mut().filter(|_| job.limits != self.plan.ceilings) {
            group.limit(&group_limits(&job.limits)).map_err(|e| Refusal {
                layer: Some(Layer::Cgroup),
                ..Refusal::new(format!("the limits of the job cannot be set: {e}"))
            })?;
        }
        if let Some(scratch) = &self.scratch {
            scratch.fill(&sources, &job.limits)?;
            scratch.make_folders(&job.folders)?;
        }
        let mut mounts = Vec::new();
        // Without mounts, the rules apply to whichever file has the name when they are made, so check the
        // identity here.
        for source in sources.iter().filter(|source| !self.plan.rooted && source.identity.is_some()) {
            let now = source.host.metadata().map_err(|e| sources::no_such_folder(&source.host, &e))?;
            sources::is_meant(source, &now)?;
        }
        for source in sources.iter().filter(|source| self.plan.rooted && !self.plan.has(source)) {
            mounts.push(self.shared.clone_mount(source, self.plan.setup.outside).await?);
        }
        let (null, (stdout, stdout_writer), (stderr, stderr_writer)) = match self.ahead.take() {
            Some(Ahead { null, stdout, stderr }) => (Some(null), stdout, stderr),
            None => (None, self.pipe()?, self.pipe()?),
        };
        let (stdin, stdin_end) = match (&job.stdin, null) {
            (Stdin::Null, Some(null)) => (null, None),
            (stdin, _) => self.stdin(stdin)?,
        };
        let mut given = vec![stdout_writer, stderr_writer];
        given.append(&mut mounts);
        let events = if job.events { Some(self.pipe()?) } else { None };
        let released = Instant::now();
        let primed = self.plan.setup.flags & setup::PRIME != 0;
        if self.direct().is_some() && (!plan.job.mounts.is_empty() || plan.job.scratch_bytes != 0) {
            return Err(Refusal::internal("this sandbox was made for a job that needs no mounts"));
        }
        let (chunks, receiver) = mpsc::channel(64);
        let (events_sender, events_receiver) = mpsc::channel(64);
        let (events, events_writer) = events.unzip();
        given.extend(events_writer);
        let number = |inside: &PathBuf| {
            let here = |mount: &crate::encode::JobMount| {
                mount.how == How::CopyOnWrite && mount.target.to_bytes() == inside.as_os_str().as_bytes()
            };
            plan.job.mounts.iter().position(here).map(|number| (number, inside.clone()))
        };
        let collects = job.collects.iter().filter_map(number).collect();
        let watches = self.plan.watches();
        let first_job_mount = self.plan.mounts.len();
        let mut all_mounts = self.plan.mounts;
        all_mounts.extend(plan.mounts);
        let mut here = Box::new(Here {
            ends: Ends {
                control: self.control,
                group: self.group,
                layers: self.plan.layers,
                mounts: all_mounts,
                first_job_mount,
                watches,
                asks_for_end: self.plan.setup.flags & setup::PID_NS == 0,
            },
            task: Task {
                limits: job.limits.clone(),
                streams: streams::Ends {
                    output: [stdout, stderr],
                    chunks: None,
                    events: events.map(|pipe| (pipe, events_sender)),
                    released,
                },
                program: job.argv.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
                folder: plan.job.cwd.to_string_lossy().into_owned(),
                proxy: job.proxy.clone(),
                asked: self.asked,
                ready: self.made,
                released,
                heard: self.heard,
                spent: self.spent,
                collects,
                given,
            },
            shared: self.shared,
            slot: self.slot,
            scratch: self.scratch,
        });
        let to = direct_of(&here.task.heard).unwrap_or(here.ends.control.as_fd());
        let fds: Vec<_> =
            [stdin.as_fd()].into_iter().chain(here.task.given.iter().map(AsFd::as_fd)).collect();
        // Steps after this must not fail: after a refusal the caller may take another sandbox, but a job must
        // run only once.
        send_patiently(to, &plan.job.encode(), &fds, primed).await?;
        // Close at once: a writer learns only by this end being closed that there is no reader.
        drop(stdin);
        let (stdin_end, terminal) = match stdin_end {
            Some(Given::Terminal(socket)) => {
                let terminal = Terminal::receive(socket).await.map_err(|e| without_terminal(&e))?;
                let writer =
                    terminal.as_ref().map(Terminal::writer).transpose().map_err(|e| without_terminal(&e))?;
                if let Some(terminal) = &terminal {
                    here.task.streams.output[0] = terminal.reader().map_err(|e| without_terminal(&e))?;
                }
                // Without one, the sandbox reports why.
                (writer.map(Given::Writer), terminal)
            }
            other => (other, None),
        };
        Ok(Running {
            follow: Some(here),
            chunks: (chunks, Some(receiver)),
            events: job.events.then_some(events_receiver),
            stdin: stdin_end,
            terminal,
            stop: Arc::new(Stop::default()),
            handle: None,
        })
    }

    fn direct(&self) -> Option<BorrowedFd<'_>> {
        direct_of(&self.heard)
    }

    /// A pipe whose reading end does not block, and whose writing end the program can also reopen through
    /// `/dev/stdout`.
    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Refusal> {
        let (reader, writer) =
            nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| out_of_descriptors(e.into()))?;
        set_nonblocking(&reader)?;
        self.give(&writer);
        Ok((reader, writer))
    }

    fn give(&self, fd: &OwnedFd) {
        if self.shared.host.mapping == Mapping::Privileged {
            let (uid, gid) = self.plan.setup.outside;
            let _ = nix::unistd::fchown(fd, Some(uid.into()), Some(gid.into()));
        }
    }

    fn stdin(&self, stdin: &Stdin) -> Result<(OwnedFd, Option<Given>), Refusal> {
        Ok(match stdin {
            Stdin::Null => (null()?, None),
            Stdin::Bytes(bytes) => {
                let memory = socket::sealed(c"stdin", bytes).map_err(out_of_descriptors)?;
                // Writing moved the offset, so reopen the file at its start.
                let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
                let fresh = std::fs::File::open(path).map_err(out_of_descriptors)?.into();
                self.give(&fresh);
                (fresh, None)
            }
            Stdin::Piped => {
                let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
                    .map_err(|e| out_of_descriptors(e.into()))?;
                self.give(&reader);
                set_nonblocking(&writer)?;
                let writer = pipe::Sender::from_owned_fd(writer).map_err(out_of_descriptors)?;
                (reader, Some(Given::Writer(writer)))
            }
            Stdin::Terminal(_) => {
                let (ours, theirs) = socket::pair().map_err(out_of_descriptors)?;
                (theirs, Some(Given::Terminal(ours)))
            }
            Stdin::Socket => {
                let (ours, theirs) = UnixStream::pair().map_err(out_of_descriptors)?;
                (theirs.into(), Some(Given::Socket(ours)))
            }
        })
    }
}

fn without_terminal(error: &io::Error) -> Refusal {
    Refusal::internal(format!("the terminal of the program cannot be used: {error}"))
}

/// The socket that takes the job directly, if the sandbox sent one; otherwise the job goes to process 1.
fn direct_of(heard: &[socket::Message]) -> Option<BorrowedFd<'_>> {
    heard.iter().find_map(|message| {
        let said = message.tell().ok().filter(|said| said.kind == tell::READY && said.b == 1);
        said.and(message.fds.first()).map(AsFd::as_fd)
    })
}

/// Sends a job, retrying for a while where the kernel temporarily refuses this user's descriptors.
async fn send_patiently(
    control: BorrowedFd<'_>,
    job: &[u8],
    fds: &[BorrowedFd<'_>],
    in_memory: bool,
) -> Result<(), Refusal> {
    let until = Instant::now() + CROWD_TIMEOUT;
    loop {
        let sent = send_job(control, job, fds, in_memory)?;
        if !sent.is_err_and(|e| e.raw_os_error() == Some(libc::ETOOMANYREFS)) {
            // A sandbox that could not be made has reported that on this socket already, so another send
            // error adds nothing.
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Refusal::internal(failure::CROWDED));
        }
        tokio::time::sleep(CROWD_RETRY_INTERVAL).await;
    }
}

/// Sends a job in the message itself, or in a memfd if it is long or is read by a waiting interpreter.
fn send_job(
    control: BorrowedFd<'_>,
    job: &[u8],
    fds: &[BorrowedFd<'_>],
    in_memory: bool,
) -> Result<io::Result<()>, Refusal> {
    let len = (job.len() as u64).to_le_bytes();
    if !in_memory && job.len() <= MAX_LETTER {
        match socket::send(control, &[&len, job].concat(), fds) {
            // The message is larger than the kernel allows for a socket.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EMSGSIZE | libc::ENOBUFS | libc::EAGAIN)) => {}
            sent => return Ok(sent),
        }
    }
    let memory = socket::sealed(c"hotcell-job", job).map_err(out_of_descriptors)?;
    let all: Vec<_> = [memory.as_fd()].into_iter().chain(fds.iter().copied()).collect();
    Ok(socket::send(control, &len, &all))
}

/// Opens a `/dev/null` for this program alone: flags set on a shared description would apply to all who share
/// it.
fn null() -> Result<OwnedFd, Refusal> {
    std::fs::File::open("/dev/null")
        .map(OwnedFd::from)
        .map_err(|e| Refusal::internal(format!("/dev/null: {e}")))
}

fn set_nonblocking(fd: &OwnedFd) -> Result<(), Refusal> {
    let flag = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
    nix::fcntl::fcntl(fd, flag).map(drop).map_err(|e| out_of_descriptors(e.into()))
}
