//! Encodes the messages that `hotcell_launcher::wire` decodes. A property test checks that the two agree.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::io;

use hotcell_launcher::wire::{How, IdMap, VERSION, op, request};

/// A message under construction.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Starts a message of the current version.
    pub fn new() -> Self {
        let mut w = Self::default();
        w.u32(VERSION);
        w
    }
    /// A request to the launcher. Its tag is 0 until [`set_tag`].
    fn request(kind: u32) -> Self {
        let mut w = Self::new();
        w.u32(0);
        w.u32(kind);
        w
    }
    /// The finished bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }
    pub fn bool(&mut self, v: bool) {
        self.0.push(u8::from(v));
    }
    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    /// Appends bytes with their length in front. A `u32` is enough: no message comes near 4 GiB.
    pub fn bytes(&mut self, v: &[u8]) {
        self.count(v.len());
        self.0.extend_from_slice(v);
    }
    pub fn cstr(&mut self, v: &CStr) {
        self.bytes(v.to_bytes_with_nul());
    }
    pub fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        for item in items {
            each(self, item);
        }
    }
    fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("no message holds 4 GiB"));
    }
}

/// Sets a request's tag, so that its answer can be told from the answer to a request whose caller gave up
/// waiting.
pub fn set_tag(request: &mut [u8], tag: u32) {
    request[4..8].copy_from_slice(&tag.to_le_bytes());
}

/// The first message to a launcher.
pub fn hello(own_user_ns: bool, own_mounts: bool, own_network: bool, uid: u32, gid: u32) -> Vec<u8> {
    let mut w = Writer::request(request::HELLO);
    w.bool(own_user_ns);
    w.bool(own_mounts);
    w.bool(own_network);
    w.u32(uid);
    w.u32(gid);
    w.finish()
}

/// Asks to build a template from the operations in the memfd that is sent with this message.
pub fn template(id: u32, len: usize) -> Vec<u8> {
    let mut w = Writer::request(request::TEMPLATE);
    w.u32(id);
    w.u64(len as u64);
    w.finish()
}

/// Asks to forget a template.
pub fn forget(id: u32) -> Vec<u8> {
    let mut w = Writer::request(request::FORGET);
    w.u32(id);
    w.finish()
}

/// Asks to remove these folders when the supervisor has ended.
pub fn remove(folders: &[CString]) -> Vec<u8> {
    let mut w = Writer::request(request::REMOVE);
    w.list(folders, |w, folder| w.cstr(folder));
    w.finish()
}

/// Asks to clone the mount at a host path.
pub fn clone_mount(path: &CStr, dev: u64, ino: u64, read_only: bool, idmap: Option<IdMap>) -> Vec<u8> {
    let mut w = Writer::request(request::CLONE);
    w.cstr(path);
    w.u64(dev);
    w.u64(ino);
    w.bool(read_only);
    w.bool(false);
    w.bool(idmap.is_some());
    if let Some(map) = idmap {
        for id in [map.from_uid, map.from_gid, map.to_uid, map.to_gid] {
            w.u32(id);
        }
    }
    w.finish()
}

/// One step of a template; a file's contents may be the host's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op<'a> {
    /// A folder with its mode.
    Dir(CString, u32),
    /// A file with its mode and contents.
    File(CString, u32, Cow<'a, [u8]>),
    /// A symbolic link and its target.
    Link(CString, CString),
    /// Bind mount of a host path at a path in the root; the flag allows device nodes.
    Bind(CString, CString, bool),
    /// A host folder used as a lower layer, below everything else and below the layers named before it.
    Layer(CString),
}

/// Size from which on the contents of a file are written by themselves: a copy in memory would take longer than a system call.
const LARGE_BYTES: usize = 4096;

/// Writes the operations of a template; returns their length.
///
/// # Errors
/// When a write fails.
pub fn write_ops(ops: &[Op<'_>], to: &mut impl io::Write) -> io::Result<usize> {
    let (mut w, mut len) = (Writer::default(), 0);
    w.count(ops.len());
    for op in ops {
        match op {
            Op::Dir(path, mode) => {
                w.u8(op::DIR);
                w.cstr(path);
                w.u32(*mode);
            }
            Op::File(path, mode, content) => {
                w.u8(op::FILE);
                w.cstr(path);
                w.u32(*mode);
                if content.len() < LARGE_BYTES {
                    w.bytes(content);
                } else {
                    w.count(content.len());
                    for part in [&std::mem::take(&mut w).finish(), &content[..]] {
                        to.write_all(part)?;
                        len += part.len();
                    }
                }
            }
            Op::Link(path, says) => {
                w.u8(op::LINK);
                w.cstr(path);
                w.cstr(says);
            }
            Op::Bind(from, to, devices) => {
                w.u8(op::BIND);
                w.cstr(from);
                w.cstr(to);
                w.bool(*devices);
            }
            Op::Layer(path) => {
                w.u8(op::LAYER);
                w.cstr(path);
            }
        }
    }
    let rest = w.finish();
    to.write_all(&rest)?;
    Ok(len + rest.len())
}

/// A Landlock ruleset as planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ruleset {
    /// Handled file system rights.
    pub fs: u64,
    /// Handled network rights.
    pub net: u64,
    /// Scopes.
    pub scoped: u64,
    /// Rights at and below a path.
    pub rules: Vec<(u64, CString)>,
}

/// A sandbox to be made, as planned; see `wire::Setup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Setup {
    pub flags: u32,
    pub namespaces: u64,
    pub inside: (u32, u32),
    pub outside: (u32, u32),
    pub template: u32,
    pub scratch_bytes: u64,
    pub scratch_files: u64,
    pub hostname: Vec<u8>,
    pub masks: Vec<CString>,
    pub landlock: Ruleset,
    pub filter: Vec<u8>,
    pub init_filter: Vec<u8>,
    /// Mounts for a runtime that is started ahead.
    pub prime_mounts: Vec<(CString, bool)>,
    /// Programs, arguments and environment of that runtime; empty for none.
    pub prime: [Vec<CString>; 3],
    /// Address and port of further sockets that listen.
    pub relays: Vec<([u8; 4], u16)>,
}

impl Setup {
    /// Encodes the request to the launcher.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::request(request::SPAWN);
        w.u32(self.flags);
        w.u64(self.namespaces);
        for id in [self.inside.0, self.inside.1, self.outside.0, self.outside.1] {
            w.u32(id);
        }
        w.u32(self.template);
        w.u64(self.scratch_bytes);
        w.u64(self.scratch_files);
        w.bytes(&self.hostname);
        w.list(&self.masks, |w, path| w.cstr(path));
        w.u64(self.landlock.fs);
        w.u64(self.landlock.net);
        w.u64(self.landlock.scoped);
        w.list(&self.landlock.rules, rule);
        w.bytes(&self.filter);
        w.bytes(&self.init_filter);
        w.list(&self.prime_mounts, |w, (target, folder)| {
            w.cstr(target);
            w.bool(*folder);
        });
        for strings in &self.prime {
            w.list(strings, |w, text| w.cstr(text));
        }
        w.list(&self.relays, |w, (at, port)| {
            w.u32(u32::from_be_bytes(*at));
            w.u32((*port).into());
        });
        w.finish()
    }
}

fn rule(w: &mut Writer, (rights, path): &(u64, CString)) {
    w.u64(*rights);
    w.cstr(path);
}

/// A mount of a job, as planned; its descriptor is sent with the message, in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMount {
    pub how: How,
    pub dir: bool,
    pub target: CString,
}

/// A job, as planned; see `wire::Job`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub scratch_bytes: u64,
    pub scratch_files: u64,
    pub memory: u64,
    pub mounts: Vec<JobMount>,
    pub links: Vec<(CString, CString)>,
    pub rules: Vec<(u64, CString)>,
    pub rlimits: Vec<(u32, u64, u64)>,
    pub events: bool,
    pub terminal: u32,
    pub cwd: CString,
    pub programs: Vec<CString>,
    pub argv: Vec<CString>,
    pub env: Vec<CString>,
}

impl Job {
    /// Encodes the job into the bytes for the memfd.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u64(self.scratch_bytes);
        w.u64(self.scratch_files);
        w.u64(self.memory);
        let mut number = 0;
        w.list(&self.mounts, |w, mount| {
            w.u32(number);
            number += 1;
            w.u8(mount.how as u8);
            w.bool(mount.dir);
            w.cstr(&mount.target);
        });
        w.list(&self.links, |w, (at, says)| {
            w.cstr(at);
            w.cstr(says);
        });
        w.list(&self.rules, rule);
        w.list(&self.rlimits, |w, (resource, soft, hard)| {
            w.u32(*resource);
            w.u64(*soft);
            w.u64(*hard);
        });
        w.bool(self.events);
        w.u32(self.terminal);
        w.cstr(&self.cwd);
        for list in [&self.programs, &self.argv, &self.env] {
            w.list(list, |w, text| w.cstr(text));
        }
        w.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_launcher::wire::{self, TemplateOp};
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = CString> {
        proptest::collection::vec(1u8..=255, 0..40).prop_map(|b| CString::new(b).expect("no NUL in 1..=255"))
    }
    fn rules() -> impl Strategy<Value = Vec<(u64, CString)>> {
        proptest::collection::vec((any::<u64>(), text()), 0..5)
    }
    fn own<'a>(list: wire::List<'a, (u64, &'a CStr)>) -> Vec<(u64, CString)> {
        list.map(|(rights, path)| (rights, path.to_owned())).collect()
    }

    fn operation() -> impl Strategy<Value = Op<'static>> {
        let content = prop_oneof![0usize..40, LARGE_BYTES - 2..LARGE_BYTES + 2];
        let content = (content, any::<u8>()).prop_map(|(len, byte)| Cow::from(vec![byte; len]));
        prop_oneof![
            (text(), any::<u32>()).prop_map(|(path, mode)| Op::Dir(path, mode)),
            (text(), any::<u32>(), content).prop_map(|(path, mode, content)| Op::File(path, mode, content)),
            (text(), text()).prop_map(|(path, says)| Op::Link(path, says)),
            (text(), text(), any::<bool>()).prop_map(|(from, to, devices)| Op::Bind(from, to, devices)),
            text().prop_map(Op::Layer),
        ]
    }

    proptest! {
        #[test]
        fn written_operations_are_read(ops in proptest::collection::vec(operation(), 0..6)) {
            let mut bytes = Vec::new();
            let len = write_ops(&ops, &mut bytes).expect("a write to memory");
            prop_assert_eq!(len, bytes.len());
            let read = wire::template_ops(&bytes).expect("operations");
            let back: Vec<Op<'_>> = read
                .map(|op| match op {
                    TemplateOp::Dir(path, mode) => Op::Dir(path.to_owned(), mode),
                    TemplateOp::File(path, mode, content) => Op::File(path.to_owned(), mode, content.into()),
                    TemplateOp::Link(path, says) => Op::Link(path.to_owned(), says.to_owned()),
                    TemplateOp::Bind(from, to, devices) => Op::Bind(from.to_owned(), to.to_owned(), devices),
                    TemplateOp::Layer(path) => Op::Layer(path.to_owned()),
                })
                .collect();
            prop_assert_eq!(back, ops);
        }

        #[test]
        fn encoded_setup_round_trips(
            numbers in any::<(u32, u64, (u32, u32), (u32, u32), u32, u64, u64)>(),
            masks in proptest::collection::vec(text(), 0..5),
            landlock in (any::<(u64, u64, u64)>(), rules()),
            filter in proptest::collection::vec(any::<u8>(), 0..64),
            relays in proptest::collection::vec(any::<([u8; 4], u16)>(), 0..=wire::MAX_RELAYS),
        ) {
            let ((fs, net, scoped), rules) = landlock;
            let (flags, namespaces, inside, outside, template, scratch_bytes, scratch_files) = numbers;
            let prime = [masks.clone(), Vec::new(), masks.clone()];
            let prime_mounts = masks.iter().map(|mask| (mask.clone(), flags % 2 == 0)).collect();
            let sent = Setup {
                prime, prime_mounts, relays,
                flags, namespaces, inside, outside, template, scratch_bytes, scratch_files, masks,
                landlock: Ruleset { fs, net, scoped, rules }, init_filter: filter.clone(), filter,
                hostname: b"sandbox".to_vec(),
            };
            let bytes = sent.encode();
            let Ok((0, wire::Request::Spawn(got))) = wire::Request::decode(&bytes) else { panic!("not a spawn") };
            let back = Setup {
                flags: got.flags, namespaces: got.namespaces, inside: got.inside, outside: got.outside,
                template: got.template, scratch_bytes: got.scratch_bytes, scratch_files: got.scratch_files,
                hostname: got.hostname.to_vec(), masks: got.masks.map(CStr::to_owned).collect(),
                landlock: Ruleset {
                    fs: got.landlock.fs, net: got.landlock.net, scoped: got.landlock.scoped,
                    rules: own(got.landlock.rules),
                },
                filter: got.filter.to_vec(), init_filter: got.init_filter.to_vec(),
                prime_mounts: got.prime.mounts.map(|(target, folder)| (target.to_owned(), folder)).collect(),
                prime: [got.prime.programs, got.prime.argv, got.prime.env].map(|list| list.map(CStr::to_owned).collect()),
                relays: got.relays.collect(),
            };
            prop_assert_eq!(back, sent);
        }

        #[test]
        fn encoded_job_round_trips(
            argv in proptest::collection::vec(text(), 0..6),
            env in proptest::collection::vec(text(), 0..6),
            rules in rules(),
            rlimits in proptest::collection::vec(any::<(u32, u64, u64)>(), 0..4),
            mounts in proptest::collection::vec((any::<bool>(), any::<bool>(), text()), 0..4),
            links in proptest::collection::vec((text(), text()), 0..3),
            (cwd, events, terminal) in (text(), any::<bool>(), any::<u32>()),
        ) {
            let mounts = mounts.into_iter().map(|(sealed, dir, target)| JobMount {
                how: if sealed { How::Sealed } else { How::CopyOnWrite }, dir, target,
            }).collect();
            let sent = Job {
                scratch_bytes: 7, scratch_files: 9, memory: 11, mounts, links, rules, rlimits, events, terminal, cwd,
                programs: argv.clone(), argv, env,
            };
            let bytes = sent.encode();
            let got = wire::Job::decode(&bytes).expect("a job");
            let back = Job {
                scratch_bytes: got.scratch_bytes, scratch_files: got.scratch_files, memory: got.memory,
                mounts: got.mounts.map(|m| JobMount { how: m.how, dir: m.dir, target: m.target.to_owned() })
                    .collect(),
                links: got.links.map(|(at, says)| (at.to_owned(), says.to_owned())).collect(),
                rules: own(got.rules), rlimits: got.rlimits.collect(), events: got.events, terminal: got.terminal, cwd: got.cwd.to_owned(),
                programs: got.programs.map(CStr::to_owned).collect(),
                argv: got.argv.map(CStr::to_owned).collect(), env: got.env.map(CStr::to_owned).collect(),
            };
            prop_assert_eq!(back, sent);
        }
    }
}
