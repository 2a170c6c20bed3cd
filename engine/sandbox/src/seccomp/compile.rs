//! The assembler: a [`Selection`] of rules becomes classic BPF.
//!
//! First a graph is built: runs of adjacent system call numbers with the same rules become ranges, the ranges
//! a balanced tree of comparisons, and equal parts of the graph exist once. Then the graph is written from
//! its end to its beginning, so that the target of every jump is already known. A conditional jump reaches
//! 255 instructions; a target further away gets a trampoline right behind the jump: a copy of the target if
//! it is a return, otherwise a `BPF_JA` with its 32-bit offset. Later jumps (earlier in the program) use the
//! trampoline too.
//!
//! The compiler emits only instructions that the kernel can emulate to find calls that are always allowed
//! (`LD`, `AND`, `JA`, `JEQ`, `JGE`, `JGT`, `RET`), so for plain `allow` rules no filter is run at all.

use std::collections::{BTreeMap, HashMap};

use super::Arch;
use super::rules::{Action, Condition, Rule, Selection, Test, Width};

/// Maximum number of instructions that the kernel accepts (`BPF_MAXINSNS`).
pub(super) const MAX_INSTRUCTIONS: usize = 4096;

pub(super) const RET_KILL: u32 = 0x8000_0000;
pub(super) const RET_ERRNO: u32 = 0x0005_0000;
pub(super) const RET_NOTIFY: u32 = 0x7fc0_0000;
pub(super) const RET_ALLOW: u32 = 0x7fff_0000;
pub(super) const EPERM: u32 = 1;
pub(super) const ENOSYS: u32 = 38;
pub(super) const ENOPROTOOPT: u32 = 92;
pub(super) const EOPNOTSUPP: u32 = 95;

pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub(super) const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
pub(super) const RET: u16 = 0x06; // BPF_RET | BPF_K
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
pub(super) const ABOVE: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
pub(super) const AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K

/// Offsets in `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCH: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;

/// Calls of x32 have this bit in their number and the architecture of x86_64.
const X32: u32 = 0x4000_0000;
/// System call number -1, used to make no call; the kernel itself answers `ENOSYS`.
const NO_CALL: u32 = u32::MAX;

/// One classic BPF instruction: the layout of the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a condition holds.
    pub jt: u8,
    /// Instructions to skip when the condition does not hold.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// A compiled filter, ready for `SECCOMP_SET_MODE_FILTER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

impl Filter {
    /// The instructions.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Number of instructions; the kernel accepts up to 4096.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a filter is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The instructions as the kernel expects them in memory, 8 bytes each, in this machine's byte order.
    #[must_use]
    pub fn as_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.0.len());
        for instruction in &self.0 {
            bytes.extend(instruction.code.to_ne_bytes());
            bytes.extend([instruction.jt, instruction.jf]);
            bytes.extend(instruction.k.to_ne_bytes());
        }
        bytes
    }
}

/// Compiles rules.
pub(super) fn compile(arch: Arch, notify: bool, selection: &Selection) -> Filter {
    let mut graph = Graph { notify, nodes: Vec::new(), known: HashMap::new() };
    let mut leaves: Vec<(u32, NodeId)> = ranges(arch, selection, &mut graph).into_iter().collect();
    // Merge runs of numbers with the same decision.
    leaves.dedup_by_key(|leaf| leaf.1);
    let tree = graph.tree(&leaves);
    let number = graph.node(Node::Load(NUMBER, tree));
    let kill = graph.action(Action::Kill);
    let test = graph.branch(EQUAL, arch.audit(), number, kill);
    let root = graph.node(Node::Load(ARCH, test));
    let filter = Writer::write(&graph.nodes, root);
    debug_assert!(filter.len() <= MAX_INSTRUCTIONS, "too many rules for one filter");
    filter
}

/// The decision for every call and for the gaps between them, by first number from 0 up.
fn ranges(arch: Arch, selection: &Selection, graph: &mut Graph) -> BTreeMap<u32, NodeId> {
    let default = graph.action(selection.default);
    let mut ranges = BTreeMap::from([(0, default)]);
    for (&number, rules) in &selection.calls {
        ranges.insert(number, graph.decide(rules));
        ranges.insert(number + 1, default);
    }
    if arch == Arch::X86_64 {
        ranges.insert(X32, graph.action(Action::Kill));
        ranges.insert(NO_CALL, graph.action(Action::Enosys));
    }
    ranges
}

/// The return value for an action.
fn answer(action: Action, notify: bool) -> u32 {
    match (action, notify) {
        (Action::Allow, _) | (Action::Notify, false) => RET_ALLOW,
        (Action::Deny | Action::Notify, true) => RET_NOTIFY,
        (Action::Deny, false) => RET_ERRNO | EPERM,
        (Action::Enosys, _) => RET_ERRNO | ENOSYS,
        (Action::NoSuchOption, _) => RET_ERRNO | ENOPROTOOPT,
        (Action::Unsupported, _) => RET_ERRNO | EOPNOTSUPP,
        (Action::Kill, _) => RET_KILL,
    }
}

type NodeId = usize;

/// A node of the filter's graph, with its successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    Return(u32),
    /// Load the word at an offset.
    Load(u32, NodeId),
    And(u32, NodeId),
    Branch {
        code: u16,
        k: u32,
        yes: NodeId,
        no: NodeId,
    },
}

struct Graph {
    notify: bool,
    nodes: Vec<Node>,
    known: HashMap<Node, NodeId>,
}

/// Contents of the accumulator: the unmasked word at this offset, if known.
type Loaded = Option<u32>;

impl Graph {
    fn node(&mut self, node: Node) -> NodeId {
        *self.known.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn branch(&mut self, code: u16, k: u32, yes: NodeId, no: NodeId) -> NodeId {
        if yes == no {
            return yes;
        }
        self.node(Node::Branch { code, k, yes, no })
    }

    fn action(&mut self, action: Action) -> NodeId {
        self.node(Node::Return(answer(action, self.notify)))
    }

    /// Builds a balanced search for the number in the accumulator among ranges, by their first numbers.
    fn tree(&mut self, leaves: &[(u32, NodeId)]) -> NodeId {
        if let [(_, leaf)] = leaves {
            return *leaf;
        }
        let (low, high) = leaves.split_at(leaves.len() / 2);
        let (no, yes) = (self.tree(low), self.tree(high));
        self.branch(AT_LEAST, high[0].0, yes, no)
    }

    /// Builds the rules of one call; the accumulator holds its number.
    fn decide(&mut self, rules: &[Rule]) -> NodeId {
        self.rules(rules, None, &mut HashMap::new())
    }

    /// `rules` are the remaining rules; `done` caches the node for each number of remaining rules and
    /// [`Loaded`].
    fn rules(
        &mut self,
        rules: &[Rule],
        loaded: Loaded,
        done: &mut HashMap<(usize, Loaded), NodeId>,
    ) -> NodeId {
        let Some((rule, rest)) = rules.split_first() else {
            // The parser refuses such files; if it happens anyway, deny.
            return self.action(Action::Deny);
        };
        if rule.conditions.is_empty() {
            return self.action(rule.action);
        }
        if let Some(&node) = done.get(&(rules.len(), loaded)) {
            return node;
        }
        let node = self.conditions(rule, &rule.conditions, rest, loaded, done);
        done.insert((rules.len(), loaded), node);
        node
    }

    /// Builds the remaining conditions of `rule`, then its action; on failure, the other rules.
    fn conditions(
        &mut self,
        rule: &Rule,
        conditions: &[Condition],
        rest: &[Rule],
        loaded: Loaded,
        done: &mut HashMap<(usize, Loaded), NodeId>,
    ) -> NodeId {
        let Some((condition, further)) = conditions.split_first() else {
            return self.action(rule.action);
        };
        // The continuation depends on the contents of the accumulator: the word that was tested last.
        let mut exits = |graph: &mut Self, word: &Word| {
            let loaded = (word.mask == u32::MAX).then_some(word.offset);
            let yes = graph.conditions(rule, further, rest, loaded, done);
            let no = graph.rules(rest, loaded, done);
            (yes, no)
        };
        let (high, low) = words(condition);
        let low_exits = exits(self, &low);
        if low_exits.0 == low_exits.1 && matches!(self.nodes[low_exits.0], Node::Return(_)) {
            return low_exits.0;
        }
        let Some(high) = high else {
            let test = self.low(&condition.test, low_exits);
            return self.look(&low, loaded, test);
        };
        let (yes, no) = exits(self, &high);
        let inner = |graph: &mut Self, test: &Test| {
            let test = graph.low(test, low_exits);
            graph.look(&low, None, test)
        };
        let test = match &condition.test {
            Test::AnyOf(values) => {
                let mut by_upper: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
                for &value in values {
                    by_upper.entry(upper(value)).or_default().push(value);
                }
                by_upper.into_iter().rev().fold(no, |next, (key, values)| {
                    let inner = inner(self, &Test::AnyOf(values));
                    self.branch(EQUAL, key, inner, next)
                })
            }
            Test::Not(value) => {
                let inner = inner(self, &condition.test);
                self.branch(EQUAL, upper(*value), inner, yes)
            }
            Test::Below(value) => {
                let inner = inner(self, &condition.test);
                let below = self.branch(EQUAL, upper(*value), inner, yes);
                self.branch(ABOVE, upper(*value), no, below)
            }
        };
        self.look(&high, loaded, test)
    }

    /// Loads and masks a word before `next`.
    fn look(&mut self, word: &Word, loaded: Loaded, next: NodeId) -> NodeId {
        let next = match word.mask {
            u32::MAX => next,
            mask => self.node(Node::And(mask, next)),
        };
        if loaded == Some(word.offset) {
            return next;
        }
        self.node(Node::Load(word.offset, next))
    }

    /// Tests the lower half, which is in the accumulator.
    fn low(&mut self, test: &Test, (yes, no): (NodeId, NodeId)) -> NodeId {
        match test {
            Test::AnyOf(values) => {
                values.iter().rev().fold(no, |next, &value| self.branch(EQUAL, lower(value), yes, next))
            }
            Test::Not(value) => self.branch(EQUAL, lower(*value), no, yes),
            Test::Below(value) => self.branch(AT_LEAST, lower(*value), no, yes),
        }
    }
}

/// Half of an argument, and the mask applied to it.
struct Word {
    offset: u32,
    mask: u32,
}

/// The halves of the argument that a condition tests: the upper one only if needed.
fn words(condition: &Condition) -> (Option<Word>, Word) {
    let offset = ARGUMENTS + 8 * u32::from(condition.argument);
    let low = Word { offset, mask: lower(condition.mask) };
    let high = Word { offset: offset + 4, mask: upper(condition.mask) };
    let needed = condition.width == Width::Full && high.mask != 0;
    (needed.then_some(high), low)
}

#[expect(clippy::cast_possible_truncation, reason = "that is its purpose")]
fn lower(value: u64) -> u32 {
    value as u32
}

fn upper(value: u64) -> u32 {
    lower(value >> 32)
}

/// Writes a graph as a program, starting at its end.
struct Writer<'a> {
    nodes: &'a [Node],
    /// Instructions in reverse order.
    code: Vec<Instruction>,
    /// Index in `code` of each node, or of its stand-in.
    places: Vec<Option<usize>>,
}

impl<'a> Writer<'a> {
    fn write(nodes: &'a [Node], root: NodeId) -> Filter {
        let mut writer = Self { nodes, code: Vec::new(), places: vec![None; nodes.len()] };
        writer.place(root);
        // Nothing is written after the root, so reversing puts it first.
        writer.code.reverse();
        Filter(writer.code)
    }

    fn place(&mut self, id: NodeId) {
        if self.places[id].is_some() {
            return;
        }
        match self.nodes[id] {
            Node::Return(value) => self.push(RET, 0, 0, value),
            Node::Load(offset, next) => {
                self.place_next(next);
                self.push(LOAD, 0, 0, offset);
            }
            Node::And(mask, next) => {
                self.place_next(next);
                self.push(AND, 0, 0, mask);
            }
            Node::Branch { code, k, yes, no } => {
                self.place(no);
                self.place(yes);
                let (jt, jf) = loop {
                    match (self.near(yes), self.near(no)) {
                        (Some(jt), Some(jf)) => break (jt, jf),
                        (None, _) => self.stand_in(yes),
                        (_, None) => self.stand_in(no),
                    }
                };
                self.push(code, jt, jf, k);
            }
        }
        self.places[id] = Some(self.code.len() - 1);
    }

    /// Ensures that `next` directly follows the instruction that is pushed next.
    fn place_next(&mut self, next: NodeId) {
        self.place(next);
        if self.skipped(next) != 0 {
            self.stand_in(next);
        }
    }

    /// Number of instructions that the instruction pushed next must skip to reach a node already written.
    fn skipped(&self, id: NodeId) -> usize {
        let place = self.places[id].expect("targets are placed before what jumps to them");
        self.code.len() - 1 - place
    }

    fn near(&self, id: NodeId) -> Option<u8> {
        u8::try_from(self.skipped(id)).ok()
    }

    /// Writes a copy of a return, or an unconditional jump, within reach of the next instruction.
    fn stand_in(&mut self, id: NodeId) {
        match self.nodes[id] {
            Node::Return(value) => self.push(RET, 0, 0, value),
            _ => {
                let skip = u32::try_from(self.skipped(id)).expect("a program far below 4 GiB");
                self.push(JUMP, 0, 0, skip);
            }
        }
        self.places[id] = Some(self.code.len() - 1);
    }

    fn push(&mut self, code: u16, jt: u8, jf: u8, k: u32) {
        self.code.push(Instruction { code, jt, jf, k });
    }
}
