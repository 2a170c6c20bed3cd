//! Tests the filter of a whole screen with a table, and its properties with generated streams.

use proptest::prelude::*;

use super::super::Filter;

fn whole(bytes: &[u8]) -> (Vec<u8>, u64) {
    let mut filter = Filter::of_screen();
    let mut out = Vec::new();
    filter.push(bytes, &mut out);
    filter.finish(&mut out);
    (out, filter.left_out())
}

fn undone(bytes: &[u8]) -> String {
    let (mut filter, mut out) = (Filter::of_screen(), Vec::new());
    filter.push(bytes, &mut out);
    filter.finish(&mut out);
    out.clear();
    filter.undo(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn screen_programs_pass_unchanged() {
    for bytes in [
        &b"text \x1b[1;31mred\x1b[0m\r\n\x07"[..],
        "é 日本\u{1f600}".as_bytes(),
        b"\x1b[?1049h\x1b[?1h\x1b=\x1b[1;24r\x1b[H\x1b[2J\x1b[24;1H~\x1b[K\x1b[?25l\x1b[?12l\x1b[?25h",
        b"\x1b[A\x1b[3B\x1b[5C\x1b[D\x1b[E\x1b[F\x1b[7G\x1b[9;80H\x1b[2;3f\x1b[4d\x1b[3`\x1b[2a\x1b[2e",
        b"\x1b[@\x1b[2L\x1b[2M\x1b[P\x1b[3X\x1b[S\x1b[2T\x1b[I\x1b[Z\x1b[4b\x1b[J\x1b[1K",
        b"\x1b7\x1b8\x1bD\x1bE\x1bM\x1b(0lqk\x1b(B\x0e\x0f\x1b>\x1b[s\x1b[u\x1b[4h\x1b[4l",
        b"\x1b[?2004h\x1b[?1000;1006h\x1b[?1002l\x1b[?1004h\x1b[?2026h\x1b[2 q\x1b[?7l\x1b[?1048h",
    ] {
        assert_eq!(whole(bytes), (bytes.to_vec(), 0), "{}", bytes.escape_ascii());
    }
}

#[test]
fn sequences_beyond_the_screen_are_dropped() {
    for (bytes, want, left_out) in [
        // Clipboard, titles, colours, links, marks, progress, notifications.
        (&b"a\x1b]52;c;eA==\x07b\x1b]0;t\x1b\\c\x1b]2;t\x07d"[..], &b"abcd"[..], 3),
        (b"\x1b]52;c;?\x07\x1b]10;?\x07\x1b]11;?\x1b\\\x1b]4;1;?\x07\x1b]4;1;red\x07", b"", 5),
        (
            b"\x1b]8;;http://x\x1b\\x\x1b]8;;\x1b\\\x1b]133;A\x07\x1b]777;notify;a;b\x07\x1b]1337;File=:\x07",
            b"x",
            5,
        ),
        (b"\x1bktitle\x1b\\x", b"x", 1),
        ("\u{9d}52;c;eA==\u{9c}x\x1b]0;t".as_bytes(), b"x", 2),
        // Queries: DSR, DA, DECID, DECRQM, DECRQSS, XTGETTCAP, XTVERSION, sizes, kitty's keyboard, ENQ.
        (b"\x1b[5n\x1b[6n\x1b[?6n\x1b[?996n\x1b[c\x1b[0c\x1b[>c\x1b[=c\x1bZ", b"", 9),
        (b"\x1b[?2026$p\x1b[4$p\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b[>q\x1b[>0q\x1b[x\x1b[?u\x05", b"", 9),
        (b"\x1b[14t\x1b[18t\x1b[21t\x1b[22;0;0t\x1b[23t\x1b[8;30;90t\x1b[3;0;0t", b"", 7),
        ("\u{9b}6n\u{9b}c\u{90}$qm\u{9c}".as_bytes(), b"", 3),
        (b"\x9b6n\x9bc\x90$qm\x9c", b"", 3),
        // Pictures, passthrough, printing, resets, saved modes, character sets, tab stops.
        (b"\x1bPq#0\x1b\\\x1b_Ga=q;\x1b\\\x1bPtmux;\x1b\x1b[6n\x1b\\\x1b^p\x1b\\\x1bXs\x1b\\", b"", 7),
        (
            b"\x1b[5i\x1b[4i\x1b[?5i\x1b[0i\x1bc\x1b[?1049s\x1b[?1049r\x1b[?s\x1b%G\x1b%@\x1b#8\x1b(U\x1b*0",
            b"",
            13,
        ),
        (b"\x1b[!p\x1b(A\x1b)A\x1b(K\x1b(>", b"", 5),
        (
            b"\x1bH\x1b[g\x1b[3g\x1b[3J\x1b[?J\x1b[8m\x1b[>4;2m\x1b[>1u\x1b[<u\x1b[=1;1u\x1b[7q\x1b[9 q",
            b"",
            12,
        ),
        // Modes that are not on the list, alone and among those that are.
        (b"\x1b[?3h\x1b[?5h\x1b[?69h\x1b[?80h\x1b[?1007h\x1b[?9001h\x1b[20h\x1b[2h\x1b[12h\x1b[?h", b"", 10),
        (b"\x1b[?3;25;5h\x1b[?1034;1h", b"\x1b[?25h\x1b[?1h", 2),
        (b"\x1b[?025h\x1b[?65537;25h", b"\x1b[?25h\x1b[?25h", 1),
        // Parameters that are out of place.
        (
            b"\x1b[99999A\x1b[1:2H\x1b[1;2;3H\x1b[1;2;3;4;5T\x1b[1 A\x1b[1?A\x1b[?1A\x1b[+1A\x1b[1u\x1b[1s",
            b"",
            10,
        ),
        // Cancelled, nested and unterminated.
        (b"\x1b[6\x18n\x1b]0;t\x1ax\x1b[?1049", b"nx", 3),
        (b"\x1b(\x1b[6nx\x1b(", b"x", 3),
    ] {
        let (out, count) = whole(bytes);
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!((shown(&out), count), (shown(want), left_out), "{}", shown(bytes));
    }
}

#[test]
fn changes_of_the_screen_are_undone() {
    for (bytes, want) in [
        (&b"text\r\n"[..], ""),
        (b"\x1b[?2004h$ exit\r\n\x1b[?2004l\r", ""),
        (b"\x1b[31mx", "\x1b[0m"),
        (b"\x1b[?25l\x1b[?1h\x1b=", "\x1b[?1l\x1b[?25h\x1b>"),
        (b"\x1b[?1049h\x1b[1;24r\x1b[5;5Hx", "\x1b[r\x1b[?1049l"),
        (b"\x1b[?1049h\x1b[1;24r\x1b[?1049l", "\x1b7\x1b[r\x1b8"),
        (b"\x1b[?47h", "\x1b[?47l"),
        (b"\x1b[?1049h\x1b7\x1b[?1049l", "\x1b[9999;1H"),
        (b"\x1b[H\x1b[2J", "\x1b[9999;1H"),
        (b"\x1b[2;9r\x1b[?6h", "\x1b[?6l\x1b[r\x1b[9999;1H"),
        (b"\x1b[?1000;1006;1004h\x1b[?1000l", "\x1b[?1004l\x1b[?1006l"),
        (b"\x1b[?2026h\x1b(0\x1b[4h\x1b[5 q", "\x1b[?2026l\x1b[4l\x1b(B\x0f\x1b[0 q"),
        (b"\x1b[?7l\x1b[?7h\x1b[?12h", "\x1b[?12l"),
    ] {
        assert_eq!(undone(bytes), want, "{}", bytes.escape_ascii());
    }
    let mut filter = Filter::of_screen();
    filter.push(b"\x1b[?1003h\x1b[?1003l", &mut Vec::new());
    assert!(filter.reported());
    filter.undo(&mut Vec::new());
    assert!(filter.reported(), "what was sent meanwhile may still come");
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        prop::collection::vec(0x80u8..0xa0, 0..3),
        "[0-9;:?<=>!$ \\x00-\\x1f]{0,8}".prop_map(String::into_bytes),
        any::<char>().prop_map(|c| c.to_string().into_bytes()),
        "[\\x1b\\u{9b}\\u{9d}\\u{90}\\u{9c}]".prop_map(String::into_bytes),
        "\\x1b\\[[?>=<]?(1049|25|1000|6|52|2004|47|3|4)?(;[0-9]{0,4}){0,2}[ !$\"]?[a-zA-Z@`]"
            .prop_map(String::into_bytes),
        "\\x1b[\\[\\]P_^Xk()#% 78DEMHZc=>\\\\]?[?>]?[0-9;:]{0,9}[a-zA-Z]?".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Checks the output with a parser other than the filter's: every escape in it is on the list.
fn is_listed(out: &[u8]) -> Result<(), String> {
    let mut rest = std::str::from_utf8(out).map_err(|e| e.to_string())?;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\u{1b}' {
            if c.is_control() && !"\n\r\t\u{8}\u{7}\u{b}\u{c}\u{e}\u{f}".contains(c) {
                return Err(format!("the control {c:?}"));
            }
            continue;
        }
        if let Some(body) = rest.strip_prefix('[') {
            let end = body.find(|c: char| ('@'..='~').contains(&c)).ok_or("no end")?;
            let (parameters, last) = (&body[..end], &body[end..=end]);
            let listed = match parameters.strip_prefix('?') {
                Some(modes) => {
                    "hl".contains(last)
                        && modes.split(';').all(|mode| {
                            mode == "1048" || super::MODES.iter().any(|(known, _)| known.to_string() == mode)
                        })
                }
                None if parameters.contains(['<', '=', '>', '?', '$', '"', '\'']) => false,
                None if "hl".contains(last) => parameters == "4",
                None if "su".contains(last) => parameters.is_empty(),
                None if last == "q" => parameters.ends_with(' '),
                None if last == "J" => !parameters.contains('3'),
                None => !parameters.contains([' ', '!']) && !"cginptxy{}|~w".contains(last),
            };
            if !listed {
                return Err(format!("CSI {parameters} {last}"));
            }
            rest = &body[end + 1..];
        } else if let Some(body) = rest.strip_prefix(['(', ')']) {
            rest = body.strip_prefix(['0', 'B']).ok_or("a character set")?;
        } else {
            rest = rest.strip_prefix(['7', '8', 'D', 'E', 'M', '=', '>']).ok_or(format!("ESC {rest:.4}"))?;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn screen_filter_never_passes_unlisted_sequences(bytes in stream()) {
        let (out, _) = whole(&bytes);
        prop_assert_eq!(is_listed(&out), Ok(()));
        prop_assert!(out.len() <= bytes.len() * 3);
        prop_assert_eq!(whole(&out), (out.clone(), 0));
        prop_assert_eq!(is_listed(undone(&bytes).as_bytes()), Ok(()));
        // Nothing is left to undo after what undoes it.
        let mut filter = Filter::of_screen();
        filter.push(&out, &mut Vec::new());
        let mut undo = Vec::new();
        filter.undo(&mut undo);
        let mut twice = Vec::new();
        filter.undo(&mut twice);
        prop_assert!(twice.is_empty());
    }

    #[test]
    fn screen_filter_passes_text_unchanged(text in "[^\\x00-\\x1f\\x7f-\\u{9f}]{0,60}") {
        prop_assert_eq!(whole(text.as_bytes()), (text.into_bytes(), 0));
    }

    #[test]
    fn pieces_of_a_screen_do_not_matter(bytes in stream(), cuts in prop::collection::vec(0usize..200, 0..8)) {
        let (mut filter, mut out) = (Filter::of_screen(), Vec::new());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            filter.push(&bytes[from..cut], &mut out);
            prop_assert_eq!(is_listed(&out), Ok(()));
            from = cut;
        }
        filter.finish(&mut out);
        prop_assert_eq!((out, filter.left_out()), whole(&bytes));
    }
}
