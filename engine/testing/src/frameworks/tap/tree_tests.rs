//! Documents of several programs, and what contradicts itself.

use super::*;
use proptest::prelude::*;

const FLAT: Style = Style { nested: false, headings: false, bare: false };
const TAPE: Style = Style { nested: false, headings: true, bare: false };
const NESTED: Style = Style { nested: true, headings: false, bare: false };
const AVA: Style = Style { bare: true, ..FLAT };

fn all(style: Style, text: &str) -> (Vec<Found>, Ended) {
    let (mut tree, mut out) = (Tree::new(style), Vec::new());
    text.lines().for_each(|line| tree.line(line, &mut out));
    let ended = tree.end(&mut out);
    (out, ended)
}

/// `+` passed, `-` failed, `~` skipped, `!` errored.
fn short(found: &[Found]) -> Vec<String> {
    let one = |found: &Found| {
        let sign = match found.status {
            Status::Passed => '+',
            Status::Failed => '-',
            Status::Skipped => '~',
            _ => '!',
        };
        let reason = found.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{sign}{}{reason}", found.titles.join("/"))
    };
    found.iter().map(one).collect()
}

#[test]
fn complete_tap_documents_are_read() {
    for (style, text, want) in [
        // Version 12, and one without numbers and names.
        (
            FLAT,
            "1..3\nok 1 - a\nnot ok 2 b # TODO later\nok 3 # skip no net\n",
            &["+a", "~b (later)", "~test 3 (no net)"][..],
        ),
        (FLAT, "ok\nnot ok\n1..2\n", &["+test 1", "-test 2"]),
        // ava: only a bare word at the end is a directive, and `not ok` goes with TODO, `ok` with SKIP.
        (
            AVA,
            "ok 1 - render # TODO list\nok 2 - render # skip link\nnot ok 3 - fails # todo now\nok 4 - left # SKIP\nnot ok 5 - later # TODO\nok 6 - a # TODO\nnot ok 7 - b # SKIP\nok 8 - c # skip\nok 9 - d # SKIP # SKIP\n1..9\n",
            &[
                "+render # TODO list",
                "+render # skip link",
                "-fails # todo now",
                "~left",
                "~later",
                "+a # TODO",
                "-b # SKIP",
                "+c # skip",
                "~d # SKIP",
            ],
        ),
        (FLAT, "TAP version 13\nnoise\nok 1 - a # b\n    ok 9 - inner\n1..1\n# tests 1\n", &["+a # b"]),
        // tape: comments are names until its plan.
        (
            TAPE,
            "TAP version 13\n# adds\nok 1 is equal\n# @hotcell file t/b.js\n# SKIP not now\n# TODO two\nnot ok 2 x # TODO\n\n1..2\n# tests 2\n# pass  2\n\n# ok\n",
            &["+adds/is equal", "~not now", "~two/x"],
        ),
        // node-tap 16 to 21: a name before its subtest; with tests of its own or none.
        (
            NESTED,
            "TAP version 14\n1..3\n# Subtest: a.js\n    # Subtest: s\n        ok 1 - x\n        not ok 2 - y\n          ---\n          at: here\n          ...\n        1..2\n        # failed 1 of 2 tests\n    not ok 1 - s # time=1ms\n    \n    ok 2 - top \\# level # time=2.5ms\n    1..2\nnot ok 1 - a.js # time=3ms\n  ---\n  exitCode: 1\n  ...\n\nok 2 - b.js # SKIP no tests found\n# Subtest: c.js\n    ok 1\n    1..1\nok 3 - c.js\n",
            &["+a.js/s/x", "-a.js/s/y", "+a.js/top # level", "~b.js (no tests found)", "+c.js/test 1"],
        ),
        // Older: the name within the subtest.
        (NESTED, "    # Subtest: s\n    ok 1 - x\n    1..1\nok 1 - s\n1..1\n", &["+s/x"]),
        // Without a name, and with braces.
        (NESTED, "    ok 1 - x\n    1..1\nok 1 - s\n1..1\n", &["+subtest 1/x"]),
        (
            NESTED,
            "ok 1 - s # time=2ms {\n    ok 1 - x\n    1..1\n}\nnot ok 2 - t {\n    1..0\n}\n1..2\n",
            &["+s/x", "-t"],
        ),
    ] {
        let (found, ended) = all(style, text);
        assert_eq!(short(&found), want, "{text}");
        let bad = want.iter().any(|one| one.starts_with('-'));
        assert_eq!(ended, Ended { wrong: None, bad, silent: false }, "{text}");
    }
    let (found, _) = all(
        TAPE,
        "# @hotcell file t/b.js\n# a\nnot ok 1 x # time=2.5ms\n  ---\n    expected: 1\n  ...\n1..1\n",
    );
    assert_eq!(found[0].file.as_deref(), Some("t/b.js"));
    assert_eq!((found[0].ms, found[0].details.as_str()), (Some(2.5), "expected: 1\n"));
}

#[test]
fn malformed_tap_is_never_good() {
    for (style, text, want, wrong) in [
        (FLAT, "", &[][..], "it has no plan"),
        (FLAT, "ok 1 - a\n", &["+a"], "it has no plan"),
        (FLAT, "1..2\nok 1 - a\n", &["+a"], "2 tests were planned, and 1"),
        (FLAT, "ok 1 - a\nok 2 - b\n1..1\n", &["+a", "+b"], "1 test was planned, and 2"),
        // A test that prints results of its own.
        (
            FLAT,
            "1..1\nok 1 - forged\nok 1 - a\nnot ok 2 - b\n1..2\n",
            &["+forged", "+a", "-b"],
            "1 test was planned, and 3",
        ),
        (FLAT, "ok 1 - a\nok 1 - forged\n1..2\n", &["+a", "+forged"], "its plan or its numbers"),
        (FLAT, "1..1\nok 1 - a\n1..1\n", &["+a"], "its plan or its numbers"),
        (FLAT, "ok 1 - a\nBail out! no disk\nok 2 - b\n1..2\n", &["+a"], "Bail out! no disk"),
        (
            FLAT,
            "1..1\nok 1 - a\n  ---\nnot ok 2 - hidden\n  ...\n",
            &["+a", "-hidden"],
            "1 test was planned, and 2",
        ),
        (NESTED, "# Subtest: a\n    ok 1 - x\n", &["+a/x"], "the subtest a did not come to its end"),
        (
            NESTED,
            "1..1\nok 1 - a {\n    ok 1 - x\n    1..1\n",
            &["+a/x"],
            "the subtest a did not come to its end",
        ),
        (NESTED, "    Bail out! why\nok 1\n1..1\n", &[], "Bail out! why"),
    ] {
        let (found, ended) = all(style, text);
        assert_eq!(short(&found), want, "{text}");
        assert!(ended.wrong.as_deref().is_some_and(|got| got.starts_with(wrong)), "{text}: {ended:?}");
    }
    // A subtest that is wrong as a whole is told once, if nothing in it was.
    for (text, want) in [
        (
            "    1..2\n    ok 1 - x\nok 1 - s\n1..1\n",
            &["+subtest 1/x", "!s (2 tests were planned, and 1 told of their end)"][..],
        ),
        (
            "    1..1\n    ok 1 - x\nnot ok 1 - s\n1..1\n",
            &["+subtest 1/x", "!s (the subtest failed as a whole, and each of its tests is good)"],
        ),
        ("    1..3\n    not ok 1 - x\nnot ok 1 - s\n1..1\n", &["-subtest 1/x"]),
        ("    1..1\n    not ok 1 - x\nok 1 - s\n1..1\n", &["-subtest 1/x"]),
        (
            "    ok 1 - x\n        ok 1 - y\nnot ok 1 - s\n1..1\n",
            &["+subtest 1/x", "+subtest 1/subtest 2/y", "!subtest 1/subtest 2 (it did not come to its end)"],
        ),
    ] {
        let (found, ended) = all(NESTED, text);
        assert_eq!(short(&found), want, "{text}");
        assert!(ended.bad, "{text}");
    }
}

proptest! {
    #[test]
    fn tap_failure_persists_in_arbitrary_text(text in "(ok|not ok| |    |#|1|\\.\\.|-|SKIP|todo|é|\n|---|\\.\\.\\.|\\{|\\}|# Subtest: a|Bail out!|1\\.\\.1){0,60}", nested: bool, headings: bool) {
        let (found, ended) = all(Style { nested, headings, bare: nested != headings }, &text);
        // A failure is not forgotten at the end.
        let bad = found.iter().any(|found| !found.status.is_good());
        prop_assert!(!bad || ended.bad);
        // Without a plan, nothing is complete.
        prop_assert!(text.contains("1..") || ended.wrong.is_some());
    }

    /// A failure is told as such wherever it stands among tests that are good.
    #[test]
    fn single_tap_failure_is_found(before in 0u64..20, behind in 0u64..20, deep in 0usize..4) {
        let indent = "    ".repeat(deep);
        let mut text: String = (0..deep).map(|level| format!("{}# Subtest: s\n", "    ".repeat(level))).collect();
        text.extend((1..=before).map(|n| format!("{indent}ok {n} - a\n")));
        text += &format!("{indent}not ok {} - b\n", before + 1);
        text.extend((1..=behind).map(|n| format!("{indent}ok {} - c\n", before + 1 + n)));
        text += &format!("{indent}1..{}\n", before + 1 + behind);
        for level in (0..deep).rev() {
            text += &format!("{0}not ok 1 - s\n{0}1..1\n", "    ".repeat(level));
        }
        let (found, ended) = all(NESTED, &text);
        prop_assert_eq!(found.len() as u64, before + 1 + behind);
        prop_assert_eq!(found.iter().filter(|found| found.status == Status::Failed).count(), 1);
        prop_assert_eq!(ended, Ended { wrong: None, bad: true, silent: false });
    }
}
