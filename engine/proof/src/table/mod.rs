//! The attacks, as data. Their numbers are those of the project's list of attacks.

mod calls;
mod files;
mod kernel_files;
mod leaks;
mod namespaces;
mod neighbours;
mod network;
mod processes;
mod resources;
mod spellings;

use crate::words::{Layer, User, Wall};

/// The program of a row. In arguments `{secret}` and the like stand for what [`crate::decoys`] made.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// One of the C programs, by its name, with arguments.
    C(&'static str, &'static [&'static str]),
    /// A script in `programs/` for `/usr/bin/python3`.
    Python(&'static str, &'static [&'static str]),
    /// A script in `programs/` for `/bin/bash`.
    Shell(&'static str, &'static [&'static str]),
}

/// Expected result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It is an attack, and it is stopped.
    Stopped,
    /// It is legitimate, and it works.
    Works,
    /// It never ends by itself; the outcome's cause must be this.
    Ends(&'static str),
}

/// How it is shown that an attack is one.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// It gets through the sandbox with the row's walls out.
    WallsOut,
    /// It gets through without a sandbox; the reason why walls alone cannot show it.
    Bare(&'static str),
    /// As `Bare` when root starts the sandbox, whose program then has another id; else as `WallsOut`.
    BareAsRoot(&'static str),
    /// It cannot be shown without risking the machine; the reason.
    Never(&'static str),
}

/// Who starts the sandbox in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// Root only.
    Root,
    /// An ordinary user only.
    User,
    /// Each.
    Both,
}

impl Users {
    /// Whether this user is among them.
    #[must_use]
    pub fn includes(self, user: User) -> bool {
        matches!((self, user), (Self::Both, _) | (Self::Root, User::Root) | (Self::User, User::User))
    }
}

/// One setting of a row's policy. Everything else is [`crate::engine`]'s default for attacks.
#[derive(Clone, Copy, Debug)]
pub enum Set {
    /// Memory, MiB.
    MemoryMib(u64),
    /// Processes and threads.
    Processes(u32),
    /// Scratch, MiB.
    DiskMib(u64),
    /// Files in scratch.
    Files(u64),
    /// Wall clock, seconds.
    WallSeconds(u64),
    /// CPU time, seconds.
    CpuSeconds(u64),
    /// Written to both output streams together, MiB.
    OutputMib(u64),
    /// No internet sockets at all.
    NetworkOff,
    /// The folder with the decoys' sockets, read-only at its own place.
    ShowSockets,
}

/// One attack.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number in the list.
    pub number: u16,
    /// Name, in words.
    pub name: &'static str,
    /// The program.
    pub probe: Probe,
    /// Walls that should stop it, each alone.
    pub walls: &'static [Wall],
    /// Who starts the sandbox.
    pub users: Users,
    /// Layers without which the row says nothing.
    pub needs: &'static [Layer],
    /// Expected result.
    pub expect: Expect,
    /// Why only one wall can exist.
    pub single_wall: Option<&'static str>,
    /// How it is shown that it is an attack.
    pub proof: Proof,
    /// Settings of the policy.
    pub set: &'static [Set],
    /// Causes and signals that count as stopped, besides exit code 0.
    pub stopped_by: &'static [&'static str],
    /// For whom it gets through, or does not work, in the confinement without namespaces, and why.
    pub open_without_namespaces: Option<(Users, &'static str)>,
    /// A layer that holds it there all the same, where a host offers it.
    pub closed_by: Option<Layer>,
    /// Walls that count for an ordinary user only, since as root the matter is another.
    pub user_walls: &'static [Wall],
    /// Walls that count for root only.
    pub root_walls: &'static [Wall],
    /// The first version of Landlock that is a wall against it.
    pub landlock_from: u32,
}

impl Row {
    /// An attack that these walls should stop.
    #[must_use]
    pub const fn attack(number: u16, name: &'static str, probe: Probe, walls: &'static [Wall]) -> Self {
        Self {
            number,
            name,
            probe,
            walls,
            users: Users::Both,
            needs: &[],
            expect: Expect::Stopped,
            single_wall: None,
            proof: Proof::WallsOut,
            set: &[],
            stopped_by: &[],
            open_without_namespaces: None,
            closed_by: None,
            landlock_from: 1,
            user_walls: &[],
            root_walls: &[],
        }
    }
    /// Something that must work.
    #[must_use]
    pub const fn works(number: u16, name: &'static str, probe: Probe) -> Self {
        Self { expect: Expect::Works, ..Self::attack(number, name, probe, &[]) }
    }
    /// Something that must be ended with this cause.
    #[must_use]
    pub const fn ends(number: u16, name: &'static str, probe: Probe, cause: &'static str) -> Self {
        Self { expect: Expect::Ends(cause), ..Self::attack(number, name, probe, &[Wall::Supervisor]) }
    }
    /// Why only one wall can exist.
    #[must_use]
    pub const fn single(self, why: &'static str) -> Self {
        Self { single_wall: Some(why), ..self }
    }
    /// Shown without a sandbox, and why.
    #[must_use]
    pub const fn bare(self, why: &'static str) -> Self {
        Self { proof: Proof::Bare(why), ..self }
    }
    /// Shown without a sandbox when root starts it: its program never has root's id.
    #[must_use]
    pub const fn other_id(self) -> Self {
        Self { proof: Proof::BareAsRoot("the program never has the id of who started it"), ..self }
    }
    /// Not shown, and why.
    #[must_use]
    pub const fn unproven(self, why: &'static str) -> Self {
        Self { proof: Proof::Never(why), ..self }
    }
    /// Settings of the policy.
    #[must_use]
    pub const fn set(self, set: &'static [Set]) -> Self {
        Self { set, ..self }
    }
    /// Causes and signals that count as stopped.
    #[must_use]
    pub const fn stopped_by(self, stopped_by: &'static [&'static str]) -> Self {
        Self { stopped_by, ..self }
    }
    /// Who starts the sandbox.
    #[must_use]
    pub const fn users(self, users: Users) -> Self {
        Self { users, ..self }
    }
    /// Layers without which the row says nothing.
    #[must_use]
    pub const fn needs(self, needs: &'static [Layer]) -> Self {
        Self { needs, ..self }
    }
    /// For whom it gets through, or does not work, in the confinement without namespaces, and why.
    #[must_use]
    pub const fn open(self, users: Users, why: &'static str) -> Self {
        Self { open_without_namespaces: Some((users, why)), ..self }
    }
    /// The layer that holds what is [open](Self::open), on hosts that offer it.
    #[must_use]
    pub const fn unless(self, layer: Layer) -> Self {
        Self { closed_by: Some(layer), ..self }
    }
    /// The first version of Landlock that is a wall.
    #[must_use]
    pub const fn landlock_from(self, landlock_from: u32) -> Self {
        Self { landlock_from, ..self }
    }
    /// Further walls for an ordinary user.
    #[must_use]
    pub const fn for_user(self, user_walls: &'static [Wall]) -> Self {
        Self { user_walls, ..self }
    }
    /// Further walls for root.
    #[must_use]
    pub const fn for_root(self, root_walls: &'static [Wall]) -> Self {
        Self { root_walls, ..self }
    }

    /// The name of its tests: `a031_overwrite_proc_self_exe`.
    #[must_use]
    pub fn test_name(&self) -> String {
        format!("a{:03}_{}", self.number, self.name)
    }
    /// The walls that count for this user.
    pub fn walls_for(&self, user: User) -> impl Iterator<Item = Wall> {
        let more = match user {
            User::Root => self.root_walls,
            User::User => self.user_walls,
        };
        self.walls.iter().chain(more).copied()
    }
    /// Whether a layer that is on, on a kernel with this version of Landlock (0: none), can stand in the way of the attack.
    #[must_use]
    pub fn counts(&self, layer: Layer, landlock: u32) -> bool {
        layer != Layer::Landlock || landlock >= self.landlock_from
    }
    /// Whether the bare kernel refuses this user.
    #[must_use]
    pub fn kernel_stops(&self, user: User) -> bool {
        self.walls_for(user).any(|w| w == Wall::Kernel)
    }
    /// Whether one of its walls is never off.
    #[must_use]
    pub fn has_lasting_wall(&self, user: User) -> bool {
        self.walls_for(user).any(|w| matches!(w, Wall::Supervisor | Wall::Launcher))
    }
    /// How it is shown for this user.
    #[must_use]
    pub const fn proof_for(&self, user: User) -> Proof {
        match (self.proof, user) {
            (Proof::BareAsRoot(_), User::User) => Proof::WallsOut,
            (proof, _) => proof,
        }
    }
    /// Whether the row is run for this user.
    #[must_use]
    pub fn is_for(&self, user: User) -> bool {
        self.users.includes(user)
    }
    /// Why it is open to this user's program in the confinement without namespaces, with these layers in force.
    #[must_use]
    pub fn open_for(&self, user: User, in_force: &[Layer]) -> Option<&'static str> {
        let closed = self.closed_by.is_some_and(|layer| in_force.contains(&layer));
        self.open_without_namespaces.filter(|(users, _)| !closed && users.includes(user)).map(|(_, why)| why)
    }
}

const USER: Wall = Wall::Layer(Layer::UserNs);
const MOUNT: Wall = Wall::Layer(Layer::MountNs);
const PID: Wall = Wall::Layer(Layer::PidNs);
const NET: Wall = Wall::Layer(Layer::NetNs);
const IPC: Wall = Wall::Layer(Layer::IpcNs);
const UTS: Wall = Wall::Layer(Layer::UtsNs);
const LANDLOCK: Wall = Wall::Layer(Layer::Landlock);
const SECCOMP: Wall = Wall::Layer(Layer::Seccomp);
const CGROUP: Wall = Wall::Layer(Layer::Cgroup);
const RLIMITS: Wall = Wall::Layer(Layer::Rlimits);
const NNP: Wall = Wall::Layer(Layer::NoNewPrivs);
const CAPS: Wall = Wall::Layer(Layer::Capabilities);
const KERNEL: Wall = Wall::Kernel;
const SUPERVISOR: Wall = Wall::Supervisor;
const LAUNCHER: Wall = Wall::Launcher;

/// The program is never root inside, so that with its walls out it is still an ordinary user.
const NOT_ROOT_INSIDE: &str = "the program is an ordinary id inside even with these walls out";
/// The arena's own user namespace is the reason.
const FIRST_NS: &str = "only root of the first user namespace may, and the arena never gives that";
/// A layer that is looked at by itself.
const ITSELF: &str = "the row looks at this layer itself";
/// Calls against which only the filter stands.
const FILTER_ONLY: &str = "any process may call it; only the filter can refuse it";

const FILES: &[Wall] = &[MOUNT, LANDLOCK];
const SECRET: &[&str] = &["secret={secret}", "ro={ro}", "pid={pid}"];

const fn c(name: &'static str, args: &'static [&'static str]) -> Probe {
    Probe::C(name, args)
}
const fn a(number: u16, name: &'static str, probe: Probe, walls: &'static [Wall]) -> Row {
    Row::attack(number, name, probe, walls)
}

/// Every row, in the order of the list.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [
        files::ROWS,
        kernel_files::ROWS,
        calls::ROWS,
        namespaces::ROWS,
        network::ROWS,
        processes::ROWS,
        resources::ROWS,
        leaks::ROWS,
        neighbours::ROWS,
        spellings::ROWS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn older_landlock_version_does_not_count() {
        let row = Row::attack(1, "x", Probe::Shell("x", &[]), &[]);
        for (from, layer, version, want) in [
            (1, Layer::Landlock, 1, true),
            (1, Layer::Landlock, 0, false),
            (6, Layer::Landlock, 5, false),
            (6, Layer::Landlock, 6, true),
            (6, Layer::PidNs, 0, true),
        ] {
            assert_eq!(row.landlock_from(from).counts(layer, version), want, "{from} {layer} {version}");
        }
    }

    #[test]
    fn names_are_unique_and_sorted_by_number() {
        let mut seen = BTreeSet::new();
        let mut last = 0;
        for row in rows() {
            assert!(seen.insert(row.test_name()), "{} twice", row.test_name());
            assert!(row.number >= last, "{} is out of order", row.test_name());
            last = row.number;
            assert!(
                row.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn attacks_have_two_layers_or_a_reason() {
        for row in rows().filter(|r| r.expect == Expect::Stopped) {
            let mut some_user_has_one = false;
            for user in User::ALL.into_iter().filter(|u| row.is_for(*u)) {
                let walls: Vec<_> = row.walls_for(user).collect();
                assert!(!walls.is_empty(), "{}", row.test_name());
                let one = walls.len() < 2;
                some_user_has_one |= one;
                assert!(
                    !one || row.single_wall.is_some(),
                    "{} as {}: {walls:?}",
                    row.test_name(),
                    user.name()
                );
            }
            assert_eq!(
                some_user_has_one,
                row.single_wall.is_some(),
                "{} has two walls and a reason for one",
                row.test_name()
            );
        }
    }
}
