//! Other sandboxes: which exist, the exact command that starts `/bin/true` in each, and why one cannot run
//! here.
//!
//! Each runs the same program with its own equivalent features: namespaces, no network, a root of read-only
//! system folders. Limits and filters of ours are not added; its own defaults are kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use crate::ways::TRUE;

/// Another sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `bwrap`.
    Bubblewrap,
    /// `nsjail`.
    Nsjail,
    /// `firejail`.
    Firejail,
    /// `unshare` of util-linux: namespaces and nothing else.
    Unshare,
    /// `podman`, with a local image.
    Podman,
    /// `docker`, with a local image.
    Docker,
    /// `sandlock`.
    Sandlock,
}

/// Facts about this host that a command depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Folders of the root beside `/usr`, with the target of those that are links.
    pub folders: Vec<(&'static str, Option<PathBuf>)>,
    /// Image for sandboxes that run images.
    pub image: Option<String>,
}

/// Result of looking for a peer.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PeerRow {
    /// Name of the peer.
    pub name: String,
    /// Measured command, word by word; empty where the program does not exist.
    pub command: Vec<String>,
    /// Reason why it is not measured.
    pub missing: Option<String>,
}

/// Timeout for the first start of a peer.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of images that are tried.
const MAX_IMAGES: usize = 3;

impl Peer {
    /// All peers, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Bubblewrap,
        Self::Nsjail,
        Self::Firejail,
        Self::Unshare,
        Self::Podman,
        Self::Docker,
        Self::Sandlock,
    ];

    /// Name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Nsjail => "nsjail",
            Self::Firejail => "firejail",
            Self::Unshare => "unshare",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Sandlock => "sandlock",
        }
    }

    /// Name of the program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bwrap",
            other => other.name(),
        }
    }

    const fn runs_images(self) -> bool {
        matches!(self, Self::Podman | Self::Docker)
    }

    /// Command that starts `/bin/true` in it.
    #[must_use]
    pub fn command(self, place: &Place) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.program().into()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        match self {
            Self::Bubblewrap => {
                add(&["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"]);
                add(&[
                    "--uid",
                    "1000",
                    "--gid",
                    "1000",
                    "--hostname",
                    "sandbox",
                    "--ro-bind",
                    "/usr",
                    "/usr",
                ]);
                for (name, link) in &place.folders {
                    let path = format!("/{name}");
                    match link.as_deref().and_then(Path::to_str) {
                        Some(says) => add(&["--symlink", says, &path]),
                        None => add(&["--ro-bind", &path, &path]),
                    }
                }
                add(&["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc"]);
                add(&["--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/sandbox"]);
                add(&["--chdir", "/home/sandbox"]);
            }
            Self::Nsjail => {
                add(&["-Mo", "--really_quiet", "--user", "1000", "--group", "1000", "--hostname", "sandbox"]);
                add(&["--bindmount_ro", "/usr"]);
                for (name, link) in &place.folders {
                    match link.as_deref().and_then(Path::to_str) {
                        Some(says) => add(&["--symlink", &format!("{says}:/{name}")]),
                        None => add(&["--bindmount_ro", &format!("/{name}")]),
                    }
                }
                add(&["--tmpfsmount", "/tmp", "--"]);
            }
            Self::Firejail => add(&[
                "--quiet",
                "--noprofile",
                "--net=none",
                "--private",
                "--nonewprivs",
                "--caps.drop=all",
                "--seccomp",
            ]),
            Self::Unshare => add(&[
                "--user",
                "--map-root-user",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--net",
                "--ipc",
                "--uts",
                "--cgroup",
                "--time",
            ]),
            Self::Podman | Self::Docker => {
                add(&["run", "--rm", "--pull=never", "--network=none", "--entrypoint", TRUE]);
                add(&[place.image.as_deref().unwrap_or("IMAGE")]);
                return words;
            }
            Self::Sandlock => {
                add(&["run", "-r", "/usr"]);
                for (name, _) in &place.folders {
                    add(&["-r", &format!("/{name}")]);
                }
                add(&["-r", "/etc", "--"]);
            }
        }
        add(&[TRUE]);
        words
    }
}

impl Place {
    /// Facts about this host, without an image.
    #[must_use]
    pub fn look() -> Self {
        let names = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
        let there = names.into_iter().filter_map(|name| {
            let path = Path::new("/").join(name);
            path.symlink_metadata().ok()?;
            Some((name, path.read_link().ok()))
        });
        Self { folders: there.collect(), image: None }
    }
}

/// Looks for a peer and tries its command once.
#[must_use]
pub fn look_for(peer: Peer) -> (PeerRow, Option<Vec<OsString>>) {
    let mut row = PeerRow { name: peer.name().to_owned(), ..PeerRow::default() };
    if !is_on_path(peer.program()) {
        row.missing = Some(format!("{} is not on PATH", peer.program()));
        return (row, None);
    }
    let mut place = Place::look();
    let images = if peer.runs_images() { images(peer) } else { Ok(vec![String::new()]) };
    let tried = images.and_then(|images| {
        let mut last = Err("there is no image; it pulls none".to_owned());
        for image in images.into_iter().take(MAX_IMAGES) {
            place.image = (!image.is_empty()).then_some(image);
            let command = peer.command(&place);
            last = within(&mut crate::ways::command(&command)).map(|_| command);
            if last.is_ok() {
                break;
            }
        }
        last
    });
    let shown = peer.command(&place);
    row.command = shown.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match tried {
        Ok(command) => (row, Some(command)),
        Err(why) => {
            row.missing = Some(why);
            (row, None)
        }
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let executable = |file: &Path| nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok();
    std::env::split_paths(&path).any(|folder| {
        let file = folder.join(program);
        file.is_file() && executable(&file)
    })
}

/// The local images.
fn images(peer: Peer) -> Result<Vec<String>, String> {
    let mut list = Command::new(peer.program());
    let text = within(list.args(["images", "--quiet"]).stdin(Stdio::null()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Runs a command with a timeout; returns its output, or the first line of its error output.
fn within(command: &mut Command) -> Result<String, String> {
    let (mut out, mut err) = (tempfile()?, tempfile()?);
    let copies = out.try_clone().and_then(|out| Ok((out, err.try_clone()?))).map_err(|e| e.to_string())?;
    let mut child = command.stdout(copies.0).stderr(copies.1).spawn().map_err(|e| e.to_string())?;
    let until = Instant::now() + START_TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", START_TIMEOUT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.success() {
        return text_of(&mut out);
    }
    let said = text_of(&mut err)?;
    let first = said.lines().map(str::trim).find(|line| !line.is_empty());
    Err(first.map_or_else(|| status.to_string(), |line| line.chars().take(200).collect()))
}

/// A private file for output, instead of a pipe: processes that a killed command leaves behind could keep a
/// pipe open.
fn tempfile() -> Result<std::fs::File, String> {
    tempfile::tempfile().map_err(|e| format!("a temporary file: {e}"))
}

fn text_of(file: &mut std::fs::File) -> Result<String, String> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_their_commands() {
        let place = Place {
            folders: vec![("bin", Some("usr/bin".into())), ("lib64", None)],
            image: Some("1a2b".to_owned()),
        };
        for (peer, want) in [
            (
                Peer::Bubblewrap,
                "bwrap --unshare-all --unshare-user --die-with-parent --new-session --clearenv --uid 1000 --gid 1000 \
                 --hostname sandbox --ro-bind /usr /usr --symlink usr/bin /bin --ro-bind /lib64 /lib64 \
                 --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache --proc /proc --dev /dev --tmpfs /tmp \
                 --tmpfs /home/sandbox --chdir /home/sandbox /bin/true",
            ),
            (
                Peer::Nsjail,
                "nsjail -Mo --really_quiet --user 1000 --group 1000 --hostname sandbox --bindmount_ro /usr \
                 --symlink usr/bin:/bin --bindmount_ro /lib64 --tmpfsmount /tmp -- /bin/true",
            ),
            (
                Peer::Firejail,
                "firejail --quiet --noprofile --net=none --private --nonewprivs --caps.drop=all --seccomp /bin/true",
            ),
            (
                Peer::Unshare,
                "unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc --net --ipc --uts \
                 --cgroup --time /bin/true",
            ),
            (Peer::Podman, "podman run --rm --pull=never --network=none --entrypoint /bin/true 1a2b"),
            (Peer::Docker, "docker run --rm --pull=never --network=none --entrypoint /bin/true 1a2b"),
            (Peer::Sandlock, "sandlock run -r /usr -r /bin -r /lib64 -r /etc -- /bin/true"),
        ] {
            let words: Vec<String> =
                peer.command(&place).into_iter().map(|word| word.into_string().expect("text")).collect();
            assert_eq!(words.join(" "), want);
        }
    }

    #[test]
    fn failed_peer_command_is_explained() {
        for (words, want) in [
            (&["sh", "-c", "echo; echo ' no right ' >&2; exit 3"][..], Err("no right")),
            (&["sh", "-c", "exit 3"], Err("exit status: 3")),
            (&["sh", "-c", "echo good"], Ok("good\n")),
            (&["/nonexistent/program"], Err("No such file or directory (os error 2)")),
        ] {
            let got = within(Command::new(words[0]).args(&words[1..]));
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{words:?}");
        }
        assert!(is_on_path("sh") && !is_on_path("no-such-program-anywhere"));
    }
}
