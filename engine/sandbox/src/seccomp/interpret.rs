//! For tests: a classic BPF interpreter as strict as the kernel's checker, and the meaning of rules evaluated
//! without compiling them.

use super::compile::{
    ABOVE, AND, ARCH, ARGUMENTS, AT_LEAST, EQUAL, Filter, JUMP, LOAD, MAX_INSTRUCTIONS, NUMBER, RET,
};
use super::rules::{Action, Condition, Selection, Test, Width};

/// One system call, as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) arch: u32,
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> u32 {
        assert!(offset.is_multiple_of(4) && offset < 64, "offset {offset}");
        match offset {
            NUMBER => self.number,
            ARCH => self.arch,
            8 | 12 => 0x1234_5678, // the instruction pointer, which is not used
            _ => {
                let place = usize::try_from(offset - ARGUMENTS).unwrap();
                let value = self.arguments[place / 8];
                let half = if place.is_multiple_of(8) { value & 0xffff_ffff } else { value >> 32 };
                u32::try_from(half).unwrap()
            }
        }
    }
}

/// Applies the kernel checker's rules: known instructions, jumps that stay inside, a return at the end.
pub(super) fn check(filter: &Filter) {
    let program = filter.instructions();
    assert!(!program.is_empty() && program.len() <= MAX_INSTRUCTIONS);
    assert_eq!(program.last().unwrap().code, RET);
    for (at, instruction) in program.iter().enumerate() {
        let farthest = match instruction.code {
            JUMP => usize::try_from(instruction.k).unwrap(),
            EQUAL | ABOVE | AT_LEAST => usize::from(instruction.jt.max(instruction.jf)),
            LOAD | AND | RET => 0,
            other => panic!("unknown instruction {other:#x}"),
        };
        assert!(at + 1 + farthest < program.len() || instruction.code == RET);
        if instruction.code == LOAD {
            assert!(instruction.k.is_multiple_of(4) && instruction.k < 64);
        }
    }
}

/// Runs a filter; returns its value, and the number of instructions executed.
pub(super) fn run(filter: &Filter, call: &Call) -> (u32, usize) {
    let program = filter.instructions();
    let (mut at, mut accumulator, mut steps) = (0, 0, 0);
    loop {
        let instruction = program[at];
        let k = instruction.k;
        at += 1;
        steps += 1;
        let holds = match instruction.code {
            LOAD => {
                accumulator = call.word(k);
                continue;
            }
            AND => {
                accumulator &= k;
                continue;
            }
            JUMP => {
                at += usize::try_from(k).unwrap();
                continue;
            }
            RET => return (k, steps),
            EQUAL => accumulator == k,
            ABOVE => accumulator > k,
            AT_LEAST => accumulator >= k,
            other => panic!("unknown instruction {other:#x}"),
        };
        at += usize::from(if holds { instruction.jt } else { instruction.jf });
    }
}

/// Evaluates the rules for a call of their own architecture, ignoring x32.
pub(super) fn decide(selection: &Selection, call: &Call) -> Action {
    let Some(rules) = selection.calls.get(&call.number) else {
        return selection.default;
    };
    let holds = |rule: &&super::rules::Rule| rule.conditions.iter().all(|c| test(c, call));
    rules.iter().find(holds).unwrap().action
}

fn test(condition: &Condition, call: &Call) -> bool {
    let mut value = call.arguments[usize::from(condition.argument)];
    if condition.width == Width::Int {
        value &= 0xffff_ffff;
    }
    value &= condition.mask;
    match &condition.test {
        Test::AnyOf(values) => values.contains(&value),
        Test::Not(other) => value != *other,
        Test::Below(limit) => value < *limit,
    }
}
