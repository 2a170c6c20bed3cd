//! Output of programs on a terminal that would interpret it, and hotcell's own lines beside it.

use hotcell_end_to_end::{User, everyone};

/// Clipboard, title, cleared screen, other screen, a query, mouse, conceal, cursor of the line above.
const HOSTILE: &str =
    r"\033]52;c;eA==\a\033]0;t\033\\\033[2J\033[?1049h\033[6n\033[?1000h\033P$q\033\\\2332J\033[8m\033[A";

#[test]
fn terminal_receives_text_and_colours_only() {
    everyone(|user| {
        let script = format!("printf '{HOSTILE}seen \\033[31mred'");
        let shown = user.shell([], &script).in_a_terminal();
        let (theirs, ours) = shown.split_once("\r\n").unwrap_or_else(|| panic!("{shown:?}"));
        assert_eq!(theirs, "seen \x1b[31mred\x1b[0m", "{shown:?}");
        // On lines of their own, after a reset.
        assert!(ours.starts_with("\x1b[0m\r\x1b[Khotcell: left out: 10 control sequences"), "{shown:?}");
        assert!(ours.lines().all(|line| line.starts_with("\x1b[0m")), "{shown:?}");
        assert!(ours.contains("hotcell: exited with 0"), "{shown:?}");
    });
}

#[test]
fn own_terminal_lines_start_new_and_reset_colours() {
    let user = User::me();
    let script = r"printf 'hotcell: all good: '; sleep .3; printf '\033[31m' >&2; sleep .3; exit 3";
    let shown = user.shell([], script).in_a_terminal();
    let line =
        shown.lines().find(|line| line.contains("exited with 3")).unwrap_or_else(|| panic!("{shown:?}"));
    assert!(line.starts_with("\x1b[0m\r\x1b[K") && !line.contains("all good"), "{shown:?}");
    let quiet = user.shell(["--quiet"], r"printf '\033[30;40m'").in_a_terminal();
    assert_eq!(quiet, "\x1b[30;40m\x1b[0m");
}

#[test]
fn raw_terminal_output_ends_with_reset() {
    let user = User::me();
    let shown = user.shell(["--raw"], r"printf 'x\033[8m\033]0;never ended'").in_a_terminal();
    let (theirs, ours) = shown.split_once("hotcell: ").unwrap_or_else(|| panic!("{shown:?}"));
    assert!(theirs.starts_with("x\x1b[8m\x1b]0;never ended\x1b\\\r\n\x1b[0m"), "{shown:?}");
    assert!(ours.starts_with("exited with 0"), "{shown:?}");
    user.hotcell(["run", "--raw", "--json", "--", "true"]).end().code(125);
    user.hotcell(["run", "--raw", "--", "true"]).end().code(0).silent();
}

#[test]
fn piped_output_is_raw_and_terminal_json_escaped() {
    let user = User::me();
    let hostile = user.shell([], r"printf '\033]0;t\a\033[8m\2332J'").end();
    assert_eq!(hostile.code(0).stdout, b"\x1b]0;t\x07\x1b[8m\x9b2J");
    // U+009B and U+202E.
    let words = ["run", "--json", "--", "printf", r"\302\2332J\342\200\256"];
    let shown = user.hotcell(words).in_a_terminal();
    assert!(!shown.contains(['\u{9b}', '\u{202e}']) && shown.contains(r"\u009b2J\u202e"), "{shown:?}");
    assert_eq!(user.hotcell(words).end().json()["stdout"]["text"], "\u{9b}2J\u{202e}");
}

#[test]
fn program_alone_on_a_terminal_says_how_to_begin() {
    everyone(|user| {
        let shown = user.hotcell::<[&str; 0], _>([]).in_a_terminal();
        for word in ["layers     ", "profiles   ", "hotcell run -- id", "hotcell init", "hotcell --help"] {
            assert!(shown.contains(word), "no {word:?} in {shown}");
        }
        assert!(shown.lines().count() < 15, "{shown}");
        // Elsewhere a missing command is an error.
        user.hotcell::<[&str; 0], _>([]).end().code(125).prints("");
    });
}
