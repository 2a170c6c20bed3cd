//! Tests of accepted and rejected filter files.

use proptest::prelude::*;

use super::super::Arch;
use super::super::rules::{Action, Rules, Test, Width};
use super::ALL_ON;

#[test]
fn mistakes_are_found_with_their_line() {
    #[rustfmt::skip]
    let table: &[(&str, usize, &str)] = &[
        ("allow read", 1, "default is not set"),
        ("default enosys\ndefault kill", 2, "set twice"),
        ("default allow", 1, "enosys or kill only"),
        ("default deny", 1, "enosys or kill only"),
        ("default", 1, "one action expected"),
        ("default enosys\n\npermit read", 3, "unknown action \"permit\""),
        ("default enosys\nallow", 2, "no system call"),
        ("default enosys\nallow raed", 2, "\"raed\""),
        ("default enosys\nallow read read", 2, "twice in one rule"),
        ("default enosys\nallow read\nallow read", 3, "never reached: line 2"),
        ("default enosys\nallow read\ndeny read when internet", 3, "never reached"),
        ("default enosys\nallow read if int0 == 1", 2, "no rule decides"),
        ("default enosys\nallow read when internet", 2, "no rule decides"),
        ("default enosys\nallow read when wifi", 2, "unknown option \"wifi\""),
        ("default enosys\nallow read when", 2, "an option expected"),
        ("default enosys\nallow read when not", 2, "unknown option \"not\""),
        ("default enosys\nallow read when internet when internet", 2, "one when expected"),
        ("default enosys\nallow read if", 2, "a test expected"),
        ("default enosys\nallow read if int0 == 1 and", 2, "a test expected"),
        ("default enosys\nallow read if int0 == 1 if int1 == 1", 2, "one if expected"),
        ("default enosys\nallow read if int6 == 1", 2, "arg0 to arg5"),
        ("default enosys\nallow read if int == 1", 2, "arg0 to arg5"),
        ("default enosys\nallow read if reg0 == 1", 2, "arg0 to arg5"),
        ("default enosys\nallow read if int0 = 1", 2, "== VALUE"),
        ("default enosys\nallow read if int0 == 1 2", 2, "== VALUE"),
        ("default enosys\nallow read if int0 in", 2, "== VALUE"),
        ("default enosys\nallow read if int0 > 1", 2, "== VALUE"),
        ("default enosys\nallow read if int0 & == 1", 2, "neither a number"),
        ("default enosys\nallow read if int0 == FOO", 2, "\"FOO\" is neither"),
        ("default enosys\nallow read if int0 == -1", 2, "\"-1\" is neither"),
        ("default enosys\nallow read if int0 == 1|", 2, "\"\" is neither"),
        ("default enosys\nallow read if int0 == 0x", 2, "\"0x\" is neither"),
        ("default enosys\nallow read if arg0 == 0x10000000000000000", 2, "is neither"),
        ("default enosys\nallow read if int0 == 0x100000000", 2, "more than 32 bits"),
        ("default enosys\nallow read if int0 & 0x1ffffffff == 1", 2, "more than 32 bits"),
        ("default enosys\nallow read if int0 & 4 == 2", 2, "outside the mask 0x4"),
        ("default enosys\nallow read if int0 & 4 in 4 6", 2, "outside the mask 0x4"),
        ("default enosys\nallow read if int0 < 0", 2, "below 0"),
        ("default enosys\ndefine a 1", 2, "capital letters"),
        ("default enosys\ndefine 1 1", 2, "capital letters"),
        ("default enosys\ndefine A", 2, "a name and a value"),
        ("default enosys\ndefine A B", 2, "\"B\" is neither"),
        ("default enosys\ndefine A 1\ndefine A 2", 3, "defined twice"),
        ("default enosys\ndefine A 1\nallow read", 2, "not used"),
        ("default enosys\nnotify sendmsg", 2, "bind, connect and sendto only"),
        ("default enosys\ndeny connect if int0 == 1\nnotify connect", 3, "ambiguous"),
        ("default enosys\nallow read\n  if int0 == 1", 2, "no rule decides"),
    ];
    for (text, line, part) in table {
        let message = Rules::parse(text).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("line {line}: ")) && message.contains(part),
            "{text:?}: {message}"
        );
    }
}

#[test]
fn lines_continue_and_values_combine() {
    let text = "default kill # everything else\n\
        define A 0x10\ndefine B A|0o2\n\
        allow read # why\n  write if int0 & B == A|2 and # both\n\targ1 < 5\n\
        deny read write\n";
    let rules = Rules::parse(text).unwrap();
    let selection = rules.select(Arch::X86_64.table(), ALL_ON);
    assert_eq!(selection.default, Action::Kill);
    assert_eq!(selection.calls[&0], selection.calls[&1]);
    let conditions = &selection.calls[&1][0].conditions;
    assert_eq!(conditions.len(), 2);
    assert_eq!(conditions[0].mask, 0x12);
    assert_eq!(conditions[0].test, Test::AnyOf(vec![0x12]));
    assert_eq!(conditions[1].width, Width::Full);
    assert_eq!(conditions[1].test, Test::Below(5));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_rule_text_causes_no_panic(text in "([a-z0-9_&|=!<# \n]|allow|deny|read|if|in|int0|and|when|not)*") {
        drop(Rules::parse(&text));
    }
}
