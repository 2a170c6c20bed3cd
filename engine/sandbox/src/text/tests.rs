//! Tests the escaping against Unicode's own tables, from another crate, and against generated texts.

use std::collections::BTreeSet;

use proptest::prelude::*;
use regex_syntax::hir::{Class, HirKind};

use super::*;

/// All characters of a character class.
fn class(pattern: &str) -> BTreeSet<char> {
    let hir = regex_syntax::parse(pattern).unwrap();
    let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("{pattern}") };
    class.ranges().iter().flat_map(|range| range.start()..=range.end()).collect()
}

#[test]
fn control_and_hidden_characters_are_escaped() {
    for (text, want) in [
        ("a b é", "a b é"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[2J", "\\u{1b}[2J"),
        ("\u{202e}x", "\\u{202e}x"),
        ("a\u{3164}b\u{200b}c\u{e0041}\u{fe0f}\u{ad}", "a\\u{3164}b\\u{200b}c\\u{e0041}\\u{fe0f}\\u{ad}"),
        ("\u{a0}\u{3000}\u{2028}\u{2800}", "\\u{a0}\\u{3000}\\u{2028}\\u{2800}"),
        ("日本語 한국어 ελ हिन्दी e\u{301}", "日本語 한국어 ελ हिन्दी e\u{301}"),
        ("\u{301}e", "\\u{301}e"),
        ("e\u{301}\u{301}\u{301}\u{301}\u{301}", "e\u{301}\u{301}\u{301}\u{301}\\u{301}"),
        ("C:\\new \\d+ \\", "C:\\new \\d+ \\"),
        ("\\u{1b}", "\\\\u{1b}"),
        ("\\\u{1b}", "\\\\\\u{1b}"),
    ] {
        assert_eq!(printable(text), want, "{text:?}");
    }
}

#[test]
fn message_with_quoted_values_is_escaped_once() {
    let path = printable("a\x1b[31m");
    for (message, want) in [
        (format!("there is no framework {:?}", "a\x1b[31m"), "there is no framework \"a\\u{1b}[31m\""),
        (format!("there is no {path}"), "there is no a\\u{1b}[31m"),
        (format!("{:?}: {path}: \x1b", "\u{202e}"), "\"\\u{202e}\": a\\u{1b}[31m: \\u{1b}"),
        // A value with the characters of an escape is told apart where it is quoted.
        (format!("no {:?}", "\\u{1b}"), "no \"\\\\u{1b}\""),
        ("two\nlines\u{feff}".to_owned(), "two\\nlines\\u{feff}"),
        ("C:\\new \\\x1b".to_owned(), "C:\\new \\\\\\u{1b}"),
    ] {
        assert_eq!(printable_message(&message), want, "{message:?}");
        assert_eq!(printable_message(&printable_message(&message)), want, "{message:?}");
    }
}

/// Tests every code point against the tables of regex-syntax.
#[test]
fn hidden_characters_match_unicode_tables() {
    let hidden =
        class(r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Zs}\p{Default_Ignorable_Code_Point}\u{2800}--\u{20}]");
    let unassigned = class(r"\p{Cn}");
    let never = class(r"\p{Noncharacter_Code_Point}");
    let mut newer = 0;
    for c in '\0'..=char::MAX {
        if hidden.contains(&c) || never.contains(&c) {
            assert!(!is_shown(c), "{c:?} is shown");
        } else if unassigned.contains(&c) {
            newer += usize::from(is_shown(c));
        } else {
            assert!(is_shown(c), "{c:?} is hidden");
        }
    }
    // The standard library has Unicode 17, which assigned 4,803 more characters than Unicode 16.
    assert!(newer <= 4_803, "{newer} characters are shown that are not assigned");
    // Only marks without a width of their own.
    let marks = class(r"[\p{Mn}\p{Me}]");
    for c in marks.into_iter().filter(|c| is_shown(*c)) {
        assert!(is_mark(c), "{c:?} is no mark");
    }
}

/// Reverses the escaping.
fn unescaped(shown: &str) -> String {
    let mut text = String::new();
    let mut rest = shown;
    while let Some(c) = rest.chars().next() {
        if c != '\\' {
            text.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let run = rest.bytes().take_while(|b| *b == b'\\').count();
        rest = &rest[run..];
        let Some(hex) = rest.strip_prefix("u{") else {
            text.extend(std::iter::repeat_n('\\', run));
            continue;
        };
        text.extend(std::iter::repeat_n('\\', run / 2));
        if run % 2 == 0 {
            continue;
        }
        let (hex, behind) = hex.split_once('}').unwrap();
        text.push(char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap());
        rest = behind;
    }
    text
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        "[\\\\]{1,4}",
        "[\\\\]{0,3}u[{]1b[}]",
        Just("\u{301}".to_owned()),
        Just("\u{1160}".to_owned()),
        (0x80u32..0x4000).prop_map(|n| char::from_u32(n).unwrap().to_string()),
        (0xe_0000u32..0xe_0fff).prop_map(|n| char::from_u32(n).unwrap().to_string()),
        "[\\x00-\\x7f]{1,6}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

#[test]
fn nouns_follow_their_number() {
    for (count, want) in [(0, "0 tests"), (1, "1 test"), (2, "2 tests"), (11, "11 tests"), (21, "21 tests")] {
        assert_eq!(counted(count, "test"), want);
    }
}

proptest! {
    #[test]
    fn printable_text_hides_nothing_and_is_bounded(text in hostile()) {
        let shown = printable(&text);
        prop_assert!(shown.chars().all(is_shown), "{shown:?}");
        prop_assert!(shown.len() <= text.len() * 6, "{shown:?}");
        prop_assert!(!shown.chars().next().is_some_and(is_mark));
        let (mut marks, mut most) = (0, 0);
        for c in shown.chars() {
            marks = if is_mark(c) { marks + 1 } else { 0 };
            most = most.max(marks);
        }
        prop_assert!(most <= MAX_MARKS);
    }

    #[test]
    fn message_hides_nothing_and_is_escaped_once(text in hostile()) {
        let shown = printable_message(&text);
        prop_assert!(shown.chars().all(is_shown) && !shown.chars().next().is_some_and(is_mark), "{shown:?}");
        prop_assert_eq!(printable_message(&shown), shown.clone());
        let whole = printable(&text);
        prop_assert_eq!(printable_message(&whole), whole);
    }

    #[test]
    fn printable_text_is_injective(text in hostile()) {
        // Except for these three, which look the same as the two characters of their escape.
        let text = text.replace(['\n', '\r', '\t'], "");
        prop_assert_eq!(unescaped(&printable(&text)), text);
    }

    #[test]
    fn barred_text_has_bar_on_every_line(text in hostile(), lines in "[\n\r a\u{2028}\u{85}\t]{0,12}", columns in 6usize..40) {
        let text = format!("{text}{lines}{text}");
        for shown in [barred(&text, "  | "), barred_within(&text, "  | ", columns)] {
            prop_assert!(shown.is_empty() || shown.ends_with('\n'));
            // By every definition of a line end.
            for line in shown.strip_suffix('\n').unwrap_or("").split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}']) {
                prop_assert!(shown.is_empty() || line.starts_with("  | "), "{line:?}");
                prop_assert!(line.chars().all(|c| c == '\t' || is_shown(c)));
                prop_assert!(!line.chars().nth(4).is_some_and(is_mark));
            }
        }
        for line in barred_within(&text, "  | ", columns).lines() {
            prop_assert!(line.chars().count() <= columns.max(5) + 10, "{line:?}");
        }
    }
}
