//! Output of a program that has a terminal, in two pieces and with a change of size between: what passes the filter is listed, what it changed
//! is undone, and the screen as text holds to its size.
#![no_main]

use hotcell_sandbox::text::terminal::Filter;
use hotcell_terminals::{Screen, Size, keys, lines::Lines, picture, typed::Typed};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [rows, columns, more_rows, more_columns, rest @ ..] = bytes else { return };
    let filtered = |pieces: &[&[u8]]| {
        let (mut filter, mut out) = (Filter::of_screen(), Vec::new());
        pieces.iter().for_each(|piece| filter.push(piece, &mut out));
        filter.finish(&mut out);
        let passed = out.clone();
        filter.undo(&mut out);
        (passed, out, filter.left_out())
    };
    let (front, back) = rest.split_at(rest.len() / 2);
    let whole = filtered(&[rest]);
    assert_eq!(filtered(&[front, back]), whole);
    let text = std::str::from_utf8(&whole.1).expect("UTF-8");
    let passes = "\n\r\t\u{8}\u{7}\u{b}\u{c}\u{e}\u{f}\u{1b}";
    assert!(!text.chars().any(|c| c.is_control() && !passes.contains(c)));
    for sequence in text.split('\u{1b}').skip(1) {
        // No string, no query, no reset: those begin or end with other characters.
        let first = sequence.chars().next().expect("a sequence");
        assert!("[78MDE=>()".contains(first), "{sequence:?}");
        if let Some(control) = sequence.strip_prefix('[') {
            let end = control.find(|c| ('@'..='~').contains(&c)).expect("an end");
            let last = &control[end..=end];
            assert!(!"cntxy".contains(last), "{sequence:?}");
            assert!(!control[..end].contains(['>', '<', '=', '$', '\'', '"', '*']), "{sequence:?}");
        }
    }
    let size =
        |rows: u8, columns: u8| Size { rows: u16::from(rows % 40) + 1, columns: u16::from(columns % 60) + 1 };
    let mut screen = Screen::new(size(*rows, *columns));
    screen.push(front);
    screen.resize(size(*more_rows, *more_columns));
    screen.push(back);
    let now = screen.size();
    assert_eq!(now, size(*more_rows, *more_columns));
    assert!(screen.lines().all(|line| line.len() == usize::from(now.columns)));
    let (row, column) = screen.cursor();
    assert!(row < usize::from(now.rows) && column < usize::from(now.columns));
    assert!(!screen.text().chars().any(|c| c.is_control() && c != '\n'));
    assert!(picture::svg(&screen).matches("<svg").count() == 1);
    for lines in [Lines::Answers, Lines::Code, Lines::Shell, Lines::Debugger, Lines::Escapes("--restricted")]
    {
        Typed::default().push(rest, lines);
    }
    if let Ok(name) = std::str::from_utf8(rest) {
        let _ = keys::bytes(name, false);
    }
});
