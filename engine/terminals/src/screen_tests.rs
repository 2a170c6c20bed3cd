use super::*;
use proptest::prelude::*;

fn shown(rows: u16, columns: u16, output: &[u8]) -> String {
    let mut screen = Screen::new(Size { rows, columns });
    screen.push(output);
    screen.text()
}

#[test]
fn sequences_paint_as_terminals_do() {
    for (output, want) in [
        (&b"a\r\nb"[..], "a\nb"),
        (b"abcdefghij", "abcdefgh\nij"),
        (b"abcdefgh\r\nx", "abcdefgh\nx"),
        (b"1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"),
        (b"abc\x1b[2D_", "a_c"),
        (b"abc\x08\x08\x1b[K", "a"),
        (b"a\tb", "a      b"),
        (b"x\x1b[3;3Hy\x1b[H\x1b[2K", "\n\n  y"),
        (b"one\r\ntwo\x1b[1;1H\x1b[L", "\none\ntwo"),
        (b"one\r\ntwo\x1b[1;1H\x1b[9999M", ""),
        (b"abcd\x1b[1G\x1b[2@", "  abcd"),
        (b"abcd\x1b[1G\x1b[2P", "cd"),
        (b"abcd\x1b[2G\x1b[2X", "a  d"),
        (b"abcd\x1b[1G\x1b[4hxy\x1b[4l", "xyabcd"),
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n", "1\n3\n\n4"),
        (b"1\r\n2\x1b[H\x1bM", "\n1\n2"),
        (b"main\x1b[?1049h\x1b[Hother\x1b[?1049l", "main"),
        (b"main\x1b[?1049h\x1b[Hother", "other"),
        (b"\x1b(0lqk\x1b(B", "┌─┐"),
        (b"\x1b)0\x0eq\x0fq", "─q"),
        (b"a\x1b7\x1b[3;3Hb\x1b8c", "ac\n\n  b"),
        (b"\x1b[?7labcdefghij", "abcdefgj"),
        (b"a\x1b]0;title\x07b\x1b[6nc\x1bPq\x1b\\d", "abcd"),
        ("e\u{301}x".as_bytes(), "e\u{301}x"),
        ("日本語日本".as_bytes(), "日本語日\n本"),
        ("a日本語本".as_bytes(), "a日本語\n本"),
        ("日本\x1b[2Gx".as_bytes(), " x本"),
        ("日本\x1b[1Gx".as_bytes(), "x 本"),
    ] {
        assert_eq!(shown(4, 8, output), want, "{}", String::from_utf8_lossy(output));
    }
}

#[test]
fn state_is_told() {
    let mut screen = Screen::new(Size { rows: 4, columns: 8 });
    screen.push(b"\x1b[?1h\x1b[?25l\x1b[?2004h\x1b[?1049h\x07\x1b[2;3H\x1b[c");
    assert!(screen.has_application_keys() && !screen.has_cursor() && screen.marks_pasted_text());
    assert!(screen.is_alternate());
    assert_eq!((screen.cursor(), screen.bells(), screen.left_out()), ((1, 2), 1, 1));
}

#[test]
fn resize_keeps_lines_around_the_cursor() {
    let mut screen = Screen::new(Size { rows: 4, columns: 8 });
    screen.push("1\r\n2\r\n3\r\n4 日本".as_bytes());
    screen.resize(Size { rows: 2, columns: 3 });
    assert_eq!((screen.text().as_str(), screen.cursor()), ("3\n4", (1, 2)));
    screen.push(b"\x1b[K\x1b[1Px\x1b[2J");
    screen.resize(Size { rows: 3, columns: 20 });
    assert_eq!(screen.size(), Size { rows: 3, columns: 20 });
}

/// Pieces that are likely to do something.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let sequence = ("[A-Za-z@`]", proptest::collection::vec(0u32..12, 0..3), any::<bool>()).prop_map(
        |(last, numbers, private)| {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!("\x1b[{}{}{last}", if private { "?" } else { "" }, numbers.join(";")).into_bytes()
        },
    );
    let modes = proptest::sample::select(vec![6u16, 7, 25, 47, 1048, 1049])
        .prop_flat_map(|mode| any::<bool>().prop_map(move |on| (mode, on)))
        .prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into_bytes());
    let piece = prop_oneof![
        sequence,
        modes,
        "[a-z日本\u{301}\r\n\t\u{8}]{0,12}".prop_map(String::into_bytes),
        "\u{1b}[78MDE=>]".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_output_leaves_whole_lines(
        output in output(),
        sizes in proptest::collection::vec((1u16..6, 1u16..12), 1..4),
    ) {
        let size = |(rows, columns)| Size { rows, columns };
        let mut screen = Screen::new(size(sizes[0]));
        let pieces: Vec<_> = output.chunks(output.len() / sizes.len() + 1).collect();
        for (at, sized) in sizes.iter().enumerate() {
            screen.resize(size(*sized));
            if let Some(piece) = pieces.get(at) {
                screen.push(piece);
            }
            prop_assert_eq!(screen.size(), size(*sized));
            prop_assert_eq!(screen.lines().count(), usize::from(sized.0));
            for line in screen.lines() {
                prop_assert_eq!(line.len(), usize::from(sized.1));
                let width: usize = line.iter().filter_map(|cell| cell.character).map(width).sum();
                prop_assert_eq!(width, line.len(), "{:?}", line);
            }
            let (row, column) = screen.cursor();
            prop_assert!(row < usize::from(sized.0) && column < usize::from(sized.1));
            prop_assert!(!screen.text().chars().any(|c| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn pieces_of_any_size_paint_alike(output in output(), at in 0usize..200) {
        let size = Size { rows: 5, columns: 10 };
        let (mut whole, mut cut) = (Screen::new(size), Screen::new(size));
        whole.push(&output);
        let at = at.min(output.len());
        cut.push(&output[..at]);
        cut.push(&output[at..]);
        prop_assert_eq!(whole.text(), cut.text());
        prop_assert_eq!(whole.cursor(), cut.cursor());
    }
}
