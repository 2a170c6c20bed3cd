//! The root file system of the `host` image: the host's `/usr` read-only, a minimal `/etc` and `/dev`, mountpoints.
//!
//! [`HostRoot::look`] reads what this host has; [`ops`], which is pure, decides what the root consists of.
//! The launcher builds the root once and clones it for every sandbox. With an image ([`image_ops`]), the
//! image's layers replace the host's folders, and only the sandbox's own files of `/etc` come from hotcell.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::encode::Op;
use crate::policy::{HOME, ImageRoot, Link};

/// Top-level folders that are links into `/usr` on a merged-usr distribution, and folders elsewhere.
const TOP: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Device nodes that a program may use.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// The controlling terminal of the process that opens it. A program starts in a session without a terminal,
/// so this is one that it made itself. Password prompts and terminal tests open it by this name.
pub const TERMINAL: &str = "tty";
/// Files of `/etc` that are shown when present: libraries, time zone, names of services and locales, which system
/// this is, TLS defaults, where manual pages are, what Maven and R consist of. Nothing here names users, hosts or secrets of the host.
///
/// The list is reviewed name by name: what links of `/usr` lead to would be longer, and of it `environment`, `ssl/private` and R's
/// `Renviron.site` are where hosts keep passwords.
const ETC_FILES: [&str; 21] = [
    "ld.so.cache",
    "os-release",
    "host.conf",
    "locale.alias",
    "manpath.config",
    "localtime",
    "timezone",
    "protocols",
    "services",
    "mime.types",
    "magic",
    "debian_version",
    "ssl/openssl.cnf",
    "maven/m2.conf",
    "R/Makeconf",
    "R/Renviron",
    "R/javaconf",
    "R/ldpaths",
    "R/repositories",
    "X11/rgb.txt",
    "octave.conf",
];
/// Folders of `/etc` that programs in `/usr` link into.
const ETC_FOLDERS: [&str; 11] = [
    "alternatives",
    "ant",
    "fonts",
    "groff",
    "groovy",
    "julia",
    "maven/logging",
    "openmpi",
    "perl",
    "ssl/certs",
    "terminfo",
];
/// Folders of `/etc` by prefix: run-time configuration of language runtimes.
const ETC_PREFIXES: [&str; 3] = ["ImageMagick-", "java-", "python3"];
/// Maximum size of a file of `/etc` that is copied, in bytes.
const MAX_ETC_FILE_BYTES: u64 = 1 << 20;

/// Kind of a top-level folder of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Top {
    /// A symbolic link, and its target.
    Link(PathBuf),
    /// A folder.
    Folder,
}

/// The parts of this host that sandboxes have in their root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRoot {
    /// Those of `bin`, `lib` and so on that exist.
    pub top: Vec<(&'static str, Top)>,
    /// Files of `/etc` with their contents.
    pub etc_files: Vec<(String, Vec<u8>)>,
    /// Files of `/etc` that are links into `/usr`, with their targets. They stay links because on some
    /// systems, for example, the name of the time zone is found in the link's target alone.
    pub etc_links: Vec<(String, PathBuf)>,
    /// Folders of `/etc`.
    pub etc_folders: Vec<String>,
    /// Whether `localhost` is also `::1`. Programs choose addresses, and tests skip themselves, depending on
    /// this.
    pub localhost_v6: bool,
    /// Device nodes.
    pub devices: Vec<&'static str>,
}

impl HostRoot {
    /// Inspects this host.
    pub fn look() -> Self {
        let mut host = Self::default();
        for name in TOP {
            let path = Path::new("/").join(name);
            match path.symlink_metadata() {
                Ok(m) if m.is_symlink() => {
                    if let Ok(says) = path.read_link() {
                        host.top.push((name, Top::Link(says)));
                    }
                }
                Ok(m) if m.is_dir() => host.top.push((name, Top::Folder)),
                _ => {}
            }
        }
        for name in ETC_FILES {
            let path = Path::new("/etc").join(name);
            if let Some(says) = path.read_link().ok().filter(|says| leads_into_usr(says)) {
                host.etc_links.push((name.to_owned(), says));
            } else if let Some(content) = read_small(&path) {
                host.etc_files.push((name.to_owned(), content));
            }
        }
        host.etc_folders.extend(
            ETC_FOLDERS.into_iter().filter(|name| Path::new("/etc").join(name).is_dir()).map(str::to_owned),
        );
        for entry in std::fs::read_dir("/etc").into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if ETC_PREFIXES.iter().any(|p| name.starts_with(p)) && entry.path().is_dir() {
                host.etc_folders.push(name);
            }
        }
        host.etc_folders.sort();
        host.localhost_v6 =
            read_small(Path::new("/etc/hosts")).is_none_or(|hosts| names_v6_localhost(&hosts));
        host.devices = DEVICES.into_iter().filter(|d| Path::new("/dev").join(d).exists()).collect();
        host
    }

    /// Top-level folders that are not links: they need an access rule of their own.
    pub fn folders(&self) -> impl Iterator<Item = &'static str> {
        self.top.iter().filter(|(_, top)| *top == Top::Folder).map(|(name, _)| *name)
    }
}

/// Whether the target of a link in `/etc` leads into `/usr` and not out of it again.
fn leads_into_usr(says: &Path) -> bool {
    let rest = says.strip_prefix("/usr").or_else(|_| says.strip_prefix("../usr"));
    rest.is_ok_and(|rest| rest.components().all(|part| matches!(part, Component::Normal(_))))
}

/// Whether a hosts file maps `localhost` to `::1`.
fn names_v6_localhost(hosts: &[u8]) -> bool {
    String::from_utf8_lossy(hosts).lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        words.next() == Some("::1") && words.any(|name| name == "localhost")
    })
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    // Room for the whole file and the read that finds its end: without it, it takes a dozen reads of growing size.
    let size = metadata.len().min(MAX_ETC_FILE_BYTES) + 64;
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(MAX_ETC_FILE_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_ETC_FILE_BYTES).then_some(content)
}

/// A mountpoint in the root for a mount that comes with a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Absolute path inside.
    pub inside: PathBuf,
    /// True for a folder, false for a file.
    pub folder: bool,
}

/// Mountpoints, and aliases of a workspace.
type Given<'a> = (&'a BTreeSet<Place>, &'a BTreeSet<Link>);

/// Names that lead to addresses of the sandbox's own loopback.
pub type Names = BTreeMap<String, Ipv4Addr>;

/// Operations that build the root, in order. With `names`, the name server is on its loopback, and its
/// `/etc/hosts` lists these names.
pub fn ops<'a>(host: &'a HostRoot, given: Given<'_>, names: Option<&Names>, user: u32) -> Vec<Op<'a>> {
    let mut root = Builder::default();
    root.bind("/usr", "usr", false);
    for (name, top) in &host.top {
        match top {
            Top::Link(says) => root.link(name, says.as_os_str()),
            Top::Folder => root.bind(&format!("/{name}"), name, false),
        }
    }
    own_etc(&mut root, host, names, user);
    host_etc(&mut root, host);
    mountpoints(&mut root, host, given);
    root.ops
}

/// Operations that build the root of an image, in order: hotcell's own files, and below them the layers.
pub fn image_ops<'a>(
    image: &ImageRoot,
    host: &'a HostRoot,
    given: Given<'_>,
    names: Option<&Names>,
    user: u32,
) -> Vec<Op<'a>> {
    let mut root = Builder::default();
    own_etc(&mut root, host, names, user);
    mountpoints(&mut root, host, given);
    root.ops.extend(image.layers.iter().map(|layer| Op::Layer(cstring(layer))));
    root.ops
}

fn mountpoints(root: &mut Builder<'_>, host: &HostRoot, (places, links): Given<'_>) {
    dev(root, host);
    root.folder("proc");
    root.folder("run");
    root.folder("tmp");
    root.folder("var/tmp");
    root.folder(HOME.trim_start_matches('/'));
    for place in places {
        let path = place.inside.as_os_str().as_bytes();
        let relative = OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path));
        if place.folder {
            root.folder(relative);
        } else {
            root.file(relative, 0o444, &b""[..]);
        }
    }
    for (at, says) in links {
        let path = at.strip_prefix("/").unwrap_or(at);
        // If another link lies below this one, it is a folder instead.
        if !root.folders.contains(path) && !links.iter().any(|(l, _)| l != at && l.starts_with(at)) {
            root.link(path, says.as_os_str());
        }
    }
}

/// Adds the files of `/etc` that identify user and host: alike in every sandbox.
fn own_etc(root: &mut Builder<'_>, host: &HostRoot, names: Option<&Names>, user: u32) {
    let passwd = format!(
        "root:x:0:0:root:/:/usr/sbin/nologin\n\
         sandbox:x:{user}:{user}:sandbox:{HOME}:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
    );
    root.file("etc/passwd", 0o444, passwd.into_bytes());
    let group = format!("root:x:0:\ntty:x:5:\nsandbox:x:{user}:\nnogroup:x:65534:\n");
    root.file("etc/group", 0o444, group.into_bytes());
    root.file("etc/hostname", 0o444, &b"sandbox\n"[..]);
    let localhost = if host.localhost_v6 { "localhost " } else { "" };
    let mut hosts = format!("127.0.0.1\tlocalhost sandbox\n::1\t{localhost}ip6-localhost ip6-loopback\n");
    hosts.extend(names.into_iter().flatten().map(|(name, at)| format!("{at}\t{name}\n")));
    root.file("etc/hosts", 0o444, hosts.into_bytes());
    let (dns, server) = if names.is_some() {
        (" dns", "nameserver 127.0.0.1\n")
    } else {
        ("", "# this sandbox has no name server\n")
    };
    let switch =
        format!("passwd: files\ngroup: files\nhosts: files{dns}\nservices: files\nprotocols: files\n");
    root.file("etc/nsswitch.conf", 0o444, switch.into_bytes());
    root.file("etc/resolv.conf", 0o444, server.as_bytes());
    root.link("etc/mtab", OsStr::new("/proc/self/mounts"));
}

fn host_etc<'a>(root: &mut Builder<'a>, host: &'a HostRoot) {
    for (name, content) in &host.etc_files {
        root.file(format!("etc/{name}"), 0o444, content.as_slice());
    }
    for (name, says) in &host.etc_links {
        root.link(format!("etc/{name}"), says.as_os_str());
    }
    for name in &host.etc_folders {
        root.bind(&format!("/etc/{name}"), &format!("etc/{name}"), false);
    }
}

fn dev(root: &mut Builder<'_>, host: &HostRoot) {
    for name in host.devices.iter().chain([&TERMINAL]) {
        root.file(format!("dev/{name}"), 0o666, &b""[..]);
        root.ops.push(Op::Bind(cstring(format!("/dev/{name}")), cstring(format!("dev/{name}")), true));
    }
    root.folder("dev/pts");
    root.folder("dev/shm");
    root.folder("dev/mqueue");
    // Covers forbidden files of /proc; it cannot be opened.
    root.file("dev/.masked", 0, &b""[..]);
    root.file("dev/.primer.js", 0o444, hotcell_launcher::NODE_PRIMER.as_bytes());
    for (name, says) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        root.link(format!("dev/{name}"), OsStr::new(says));
    }
}

/// Collects operations and creates each parent folder once.
#[derive(Default)]
struct Builder<'a> {
    ops: Vec<Op<'a>>,
    folders: BTreeSet<PathBuf>,
}

impl<'a> Builder<'a> {
    fn parents(&mut self, path: &Path) {
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            self.folder(parent);
        }
    }
    fn folder(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if self.folders.contains(path) {
            return;
        }
        self.parents(path);
        self.folders.insert(path.to_owned());
        self.ops.push(Op::Dir(cstring(path), 0o755));
    }
    fn file(&mut self, path: impl AsRef<Path>, mode: u32, content: impl Into<Cow<'a, [u8]>>) {
        let path = path.as_ref();
        self.parents(path);
        self.ops.push(Op::File(cstring(path), mode, content.into()));
    }
    fn link(&mut self, path: impl AsRef<Path>, says: &OsStr) {
        let path = path.as_ref();
        self.parents(path);
        self.ops.push(Op::Link(cstring(path), cstring(says)));
    }
    fn bind(&mut self, host: &str, inside: &str, devices: bool) {
        self.folder(inside);
        self.ops.push(Op::Bind(cstring(host), cstring(inside), devices));
    }
}

/// Converts text to a C string. Paths with NUL are refused much earlier, when the policy is read.
pub fn cstring(text: impl AsRef<OsStr>) -> CString {
    let bytes = text.as_ref().as_bytes();
    CString::new(bytes.split(|b| *b == 0).next().unwrap_or_default()).expect("no NUL is left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_folders_precede_their_contents() {
        let host = HostRoot {
            top: vec![("bin", Top::Link("usr/bin".into())), ("lib", Top::Folder)],
            etc_files: vec![("ssl/openssl.cnf".into(), b"x".to_vec())],
            etc_links: vec![("localtime".into(), "/usr/share/zoneinfo/UTC".into())],
            etc_folders: vec!["alternatives".into(), "ssl/certs".into()],
            devices: vec!["null"],
            ..HostRoot::default()
        };
        let places = [
            Place { inside: "/opt/tool/a".into(), folder: true },
            Place { inside: "/data/file".into(), folder: false },
        ];
        let links =
            ["/root/project", "/opt/tool", "/root"].map(|at| (PathBuf::from(at), PathBuf::from("/there")));
        let names = Names::from([("db.internal".to_owned(), Ipv4Addr::new(127, 0, 0, 2))]);
        let made =
            ops(&host, (&places.into_iter().collect(), &links.into_iter().collect()), Some(&names), 1000);
        let hosts = made.iter().find_map(|op| match op {
            Op::File(path, _, text) if path.to_bytes() == b"etc/hosts" => std::str::from_utf8(text).ok(),
            _ => None,
        });
        assert!(hosts.is_some_and(|hosts| hosts.ends_with("127.0.0.2\tdb.internal\n")), "{hosts:?}");
        let mut seen = BTreeSet::from([PathBuf::new()]);
        for op in &made {
            let (Op::Dir(path, _) | Op::File(path, ..) | Op::Link(path, _) | Op::Bind(_, path, _)) = op
            else {
                panic!("a layer without an image");
            };
            let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
            assert!(!path.is_absolute(), "{path:?}");
            match op {
                Op::Bind(..) => assert!(seen.contains(&path), "nothing to bind onto: {path:?}"),
                _ => {
                    assert!(seen.contains(path.parent().expect("a parent")), "{path:?} has no folder");
                    assert!(seen.insert(path.clone()), "{path:?} twice");
                }
            }
        }
        let says = |path: &str| {
            made.iter().find_map(|op| match op {
                Op::Link(at, says) if at.to_bytes() == path.as_bytes() => says.to_str().ok(),
                _ => None,
            })
        };
        assert_eq!([says("root/project"), says("opt/tool"), says("root")], [Some("/there"), None, None]);
        assert!(seen.contains(Path::new("opt/tool/a")) && seen.contains(Path::new("data/file")));
    }

    #[test]
    fn localhost_has_the_addresses_that_it_has_outside() {
        for (hosts, v6) in [
            ("127.0.0.1 localhost\n::1\tip6-localhost localhost # both\n", true),
            ("127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n", false),
            ("127.0.0.1 localhost\n# ::1 localhost\n", false),
            ("", false),
        ] {
            assert_eq!(names_v6_localhost(hosts.as_bytes()), v6, "{hosts}");
        }
    }

    #[test]
    fn links_into_usr_remain_links() {
        for (says, stays) in [
            ("/usr/share/zoneinfo/Europe/Berlin", true),
            ("../usr/lib/os-release", true),
            ("/usr/../root/secret", false),
            ("../usr/../../root/secret", false),
            ("/usrlocal/file", false),
            ("usr/lib/os-release", false),
            ("/run/other", false),
        ] {
            assert_eq!(leads_into_usr(Path::new(says)), stays, "{says}");
        }
    }
}
