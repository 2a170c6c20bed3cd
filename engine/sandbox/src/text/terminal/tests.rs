//! Tests the filter with a table, and its properties with generated streams.

use proptest::prelude::*;

use super::*;

fn whole(bytes: &[u8]) -> (Vec<u8>, u64) {
    let mut filter = Filter::new();
    let mut out = Vec::new();
    filter.push(bytes, &mut out);
    filter.finish(&mut out);
    (out, filter.left_out())
}

#[test]
fn terminal_streams_are_filtered() {
    for (bytes, want, left_out) in [
        (&b"plain\r\n\ttext\x08"[..], &b"plain\r\n\ttext\x08"[..], 0),
        ("é 日本 \u{202e}".as_bytes(), "é 日本 \u{202e}".as_bytes(), 0),
        (b"\x1b[31mred\x1b[0m\x1b[m", b"\x1b[31mred\x1b[0m\x1b[0m", 0),
        (b"\x1b[38;5;8mx\x1b[48;2;1;8;3my\x1b[4:3m", b"\x1b[38;5;8mx\x1b[48;2;1;8;3my\x1b[4:3m", 0),
        (b"\x1b[K\x1b[2K\x1b[3C\x1b[D\x1b[10G", b"\x1b[K\x1b[2K\x1b[3C\x1b[D\x1b[10G", 0),
        // Conceal, in every form.
        (b"\x1b[8mx", b"x", 1),
        (b"\x1b[1;8;31mx", b"\x1b[1;31mx", 1),
        (b"\x1b[08mx\x1b[;8mx", b"x\x1b[0mx", 2),
        (b"\x1b[8:1mx\x1b[38;8mx\x1b[38;2;1;8mx", b"xxx", 3),
        (b"\x1b[4294967304mx", b"x", 1),
        (b"\x1b[11m\x1b[>4;1m\x1b[?25l\x1b[ m", b"", 4),
        // Underline colours, and forms of colours that not every terminal knows.
        (
            b"\x1b[58:5:9m\x1b[58:2::1:2:3m\x1b[38:2:1:2:3m",
            b"\x1b[58:5:9m\x1b[58:2::1:2:3m\x1b[38:2:1:2:3m",
            0,
        ),
        (b"\x1b[58;5;8mx\x1b[31;58;5;8mx\x1b[58;2;8;8;8mx", b"xxx", 3),
        (b"\x1b[38:1mx\x1b[48:0mx\x1b[38:mx\x1b[38:3:1:1:1mx\x1b[38:5mx\x1b[38:5:1:1mx", b"xxxxxx", 6),
        (b"\x1b[38:2:1:2mx\x1b[4:6mx\x1b[4:3:1mx\x1b[4:3m", b"xxx\x1b[4:3m", 3),
        // Strings of all kinds with both terminators.
        (b"a\x1b]52;c;eA==\x07b\x1b]0;t\x1b\\c", b"abc", 2),
        (b"a\x1bPq\x07#0\x1b\\b\x1b_G\x1b\\c\x1b^p\x1b\\d\x1bXs\x1b\\e", b"abcde", 4),
        (b"a\x9d0;t\x9cb\x9052\x9cc", b"abc", 2),
        ("a\u{9d}0;tĜ\u{9c}b\u{9b}2Jc".as_bytes(), b"abc", 2),
        (b"\x1b]0;t\x1b[31mx", b"\x1b[31mx", 1),
        // tmux's passthrough around another sequence.
        (b"\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\x", b"x", 3),
        // Overlong encodings of controls.
        (b"\xc0\x9b2J\xe0\x80\x9bA", "\u{fffd}\u{fffd}".as_bytes(), 3),
        // Screen, other lines, modes, queries, character sets, resets.
        (b"\x1b[2J\x1b[H\x1b[5A\x1b[B\x1b[1;1f\x1b[3d\x1b[r\x1b[S\x1b[L\x1b[5i", b"", 10),
        (b"\x1b[?1049h\x1b[?1000h\x1b[6n\x1b[c\x1b[>c\x1b[?2026$p\x1b[21t\x1b[4h", b"", 8),
        (b"\x1bc\x1b7\x1b8\x1bM\x1b(0\x1b#8\x1b=\x1b%G\x1bH", b"", 9),
        (b"\0\x05\x07\x0b\x0c\x0e\x0f\x7f", b"", 8),
        // Cancelled, nested and unterminated.
        (b"\x1b[31\x18mx\x1b]0;t\x1ax", b"mxx", 2),
        (b"\x1b[3\x1b[32mx", b"\x1b[32mx", 1),
        (b"\x1b[3\n1mx", b"\n\x1b[31mx", 0),
        (b"x\x1b]0;never", b"x", 1),
        (b"x\x1b[31", b"x", 1),
        (b"x\xe2\x82", "x\u{fffd}".as_bytes(), 1),
        (b"\xe2A\xff", "\u{fffd}A\u{fffd}".as_bytes(), 0),
    ] {
        let (out, count) = whole(bytes);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
        assert_eq!((shown(&out), count), (shown(want), left_out), "{}", shown(bytes));
    }
    let long = [b"\x1b[", &[b'1'; 200][..], b"mx"].concat();
    assert_eq!(whole(&long), (b"x".to_vec(), 1));
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        prop::collection::vec(0x80u8..0xa0, 0..3),
        "[0-9;:?<=>!$ \\x00-\\x1f]{0,8}".prop_map(String::into_bytes),
        any::<char>().prop_map(|c| c.to_string().into_bytes()),
        "[\\x1b\\u{9b}\\u{9d}\\u{90}\\u{9c}]".prop_map(String::into_bytes),
        "\\x1b\\[0{0,1}(4|38|48|58)[;:]0{0,1}[0-8]?([;:][0-9]{0,3}){0,5}m".prop_map(String::into_bytes),
        "\\x1b[\\[\\]P_^X(\\\\]?[?>]?[0-9;:]{0,9}[a-zA-Z]?".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Checks the output with a parser other than the filter's: nothing harmful may be left.
fn is_harmless(out: &[u8]) -> Result<(), String> {
    let mut rest = std::str::from_utf8(out).map_err(|e| e.to_string())?;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\u{1b}' {
            if c.is_control() && !"\n\r\t\u{8}".contains(c) {
                return Err(format!("the control {c:?}"));
            }
            continue;
        }
        let body = rest.strip_prefix('[').ok_or("an escape that is no CSI")?;
        let end = body.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':').ok_or("no end")?;
        let (parameters, last) = (&body[..end], body.as_bytes()[end]);
        if !b"mKCDG".contains(&last) {
            return Err(format!("CSI {parameters} {}", char::from(last)));
        }
        // 8 only as a colour's index or component.
        let plain: Vec<&str> = parameters.split(';').collect();
        let mut at = 0;
        while last == b'm' && at < plain.len() {
            match plain[at].trim_start_matches('0') {
                "58" => return Err("parts of a colour as attributes".to_owned()),
                colon if colon.contains(':') => {
                    let parts: Vec<&str> = colon.split(':').collect();
                    let kind = parts[1].trim_start_matches('0');
                    let known = match parts[0] {
                        "4" => parts.len() == 2 && matches!(kind, "" | "1" | "2" | "3" | "4" | "5"),
                        "38" | "48" | "58" => {
                            kind == "5" && parts.len() == 3 || kind == "2" && (5..7).contains(&parts.len())
                        }
                        _ => false,
                    };
                    if !known {
                        return Err(format!("the sub-parameters {colon}"));
                    }
                }
                "38" | "48" => at += if plain[at + 1] == "5" { 2 } else { 4 },
                "8" => return Err("conceal".to_owned()),
                _ => {}
            }
            at += 1;
        }
        rest = &body[end + 1..];
    }
    Ok(())
}

proptest! {
    #[test]
    fn terminal_filter_passes_text_and_colours_only(bytes in stream()) {
        let (out, _) = whole(&bytes);
        prop_assert_eq!(is_harmless(&out), Ok(()));
        prop_assert!(out.len() <= bytes.len() * 3);
        // Filtering the filter's own output changes nothing.
        prop_assert_eq!(whole(&out), (out.clone(), 0));
    }

    #[test]
    fn pieces_do_not_matter(bytes in stream(), cuts in prop::collection::vec(0usize..200, 0..8)) {
        let (mut filter, mut out) = (Filter::new(), Vec::new());
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            filter.push(&bytes[from..cut], &mut out);
            // Whatever another stream writes next, no sequence or character is left open.
            prop_assert_eq!(is_harmless(&out), Ok(()));
            prop_assert!(filter.held.len() <= MAX_SEQUENCE && filter.partial.len() < 4);
            from = cut;
        }
        filter.finish(&mut out);
        prop_assert_eq!((out, filter.left_out()), whole(&bytes));
    }
}
