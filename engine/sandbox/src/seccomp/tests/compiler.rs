//! Tests that compiling keeps the meaning of rules.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::compile::{JUMP, RET_KILL, compile};
use super::super::interpret::{Call, check, decide, run};
use super::super::rules::{Action, Condition, Rule, Selection, Test, Width};
use super::super::{Arch, Options, program, program_rules};
use super::{ALLOW, DENY, NONE, NOTIFY, all_option_sets, answer, call};

/// Numbers close to each other, so that equal values and runs occur.
fn values() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 2, 5, u64::from(u32::MAX), 1 << 32, 1 << 33, u64::MAX];
    prop_oneof![
        proptest::sample::select(edges.to_vec()),
        0..20_u64,
        (0..4_u64, 0..4_u64).prop_map(|(high, low)| high << 32 | low),
        any::<u64>(),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    proptest::sample::select(vec![ALLOW, DENY, NOTIFY, NONE, Action::Kill])
}

fn conditions() -> impl Strategy<Value = Condition> {
    let masks = prop_oneof![Just(u64::MAX), values()];
    let tests = (0..3_u8, proptest::collection::vec(values(), 1..4));
    (0..6_u8, any::<bool>(), masks, tests).prop_map(|(argument, int, mask, (kind, values))| {
        let (width, all) = if int { (Width::Int, u64::from(u32::MAX)) } else { (Width::Full, u64::MAX) };
        let mask = mask & all;
        let test = match kind {
            0 => Test::AnyOf(values.iter().map(|value| value & mask).collect()),
            1 => Test::Not(values[0] & mask),
            _ => Test::Below(values[0] & mask),
        };
        Condition { argument, width, mask, test }
    })
}

fn selections() -> impl Strategy<Value = Selection> {
    let rule = (actions(), proptest::collection::vec(conditions(), 1..4))
        .prop_map(|(action, conditions)| Rule { action, conditions });
    let rules = (proptest::collection::vec(rule, 0..4), actions()).prop_map(|(mut rules, last)| {
        rules.push(Rule { action: last, conditions: Vec::new() });
        rules
    });
    let calls = proptest::collection::btree_map(0..300_u32, rules, 0..60);
    (calls, actions()).prop_map(|(calls, default)| Selection { default, calls })
}

fn calls() -> impl Strategy<Value = (u32, [u64; 6])> {
    (0..302_u32, proptest::array::uniform6(values()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn compiled_rules_decide_as_the_rules_do(
        selection in selections(),
        notify: bool,
        calls in proptest::collection::vec(calls(), 200),
    ) {
        for arch in Arch::ALL {
            let filter = compile(arch, notify, &selection);
            check(&filter);
            for (number, arguments) in &calls {
                let call = call(arch, *number, arguments);
                let wanted = answer(decide(&selection, &call), notify);
                prop_assert_eq!(run(&filter, &call).0, wanted);
                let foreign = Call { arch: call.arch ^ 1, ..call };
                prop_assert_eq!(run(&filter, &foreign).0, RET_KILL);
            }
        }
    }

    #[test]
    fn shipped_filters_match_their_rules(
        bits in 0..Options::COUNT,
        number in prop_oneof![0..480_u32, any::<u32>()],
        arguments in proptest::array::uniform6(values()),
    ) {
        let options = all_option_sets().nth(bits).unwrap();
        for arch in Arch::ALL {
            let call = call(arch, number, &arguments);
            if arch == Arch::X86_64 && number >= 0x4000_0000 {
                continue;
            }
            let selection = program_rules().select(arch.table(), options);
            let wanted = answer(decide(&selection, &call), options.notify);
            prop_assert_eq!(run(program(arch, options), &call).0, wanted);
        }
    }
}

#[test]
fn far_targets_are_reached() {
    // Consecutive calls, each with a long chain of its own: only far jumps.
    let chain = |seed: u64| {
        let mut rules: Vec<Rule> = (0..20)
            .map(|step| Rule {
                action: if step % 2 == 0 { ALLOW } else { DENY },
                conditions: vec![Condition {
                    argument: 0,
                    width: Width::Full,
                    mask: u64::MAX,
                    test: Test::AnyOf(vec![seed << 32 | step]),
                }],
            })
            .collect();
        rules.push(Rule { action: NONE, conditions: Vec::new() });
        rules
    };
    let calls: BTreeMap<u32, Vec<Rule>> = (0..50).map(|n| (n * 2, chain(n.into()))).collect();
    let selection = Selection { default: Action::Kill, calls };
    let filter = compile(Arch::X86_64, true, &selection);
    check(&filter);
    assert!(filter.instructions().iter().any(|i| i.code == JUMP));
    for number in 0..101 {
        for step in 0..21 {
            let argument = u64::from(number / 2) << 32 | step;
            let call = call(Arch::X86_64, number, &[argument]);
            let wanted = answer(decide(&selection, &call), true);
            assert_eq!(run(&filter, &call).0, wanted);
        }
    }
}
