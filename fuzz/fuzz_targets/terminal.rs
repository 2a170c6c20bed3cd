//! Output of a program for a terminal, in two pieces: only text, colours and movement in the line pass the
//! filter.
#![no_main]

use hotcell_sandbox::text::terminal::Filter;
use hotcell_sandbox::text::{is_shown, printable};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let filtered = |pieces: &[&[u8]]| {
        let (mut filter, mut out) = (Filter::new(), Vec::new());
        pieces.iter().for_each(|piece| filter.push(piece, &mut out));
        filter.finish(&mut out);
        (out, filter.left_out())
    };
    let whole = filtered(&[bytes]);
    let (front, back) = bytes.split_at(bytes.len() / 2);
    assert_eq!(filtered(&[front, back]), whole);
    // Filtering the output again changes nothing, and each escape in it is one of the five allowed ones.
    assert_eq!(filtered(&[&whole.0]), (whole.0.clone(), 0));
    let text = std::str::from_utf8(&whole.0).expect("UTF-8");
    assert!(!text.chars().any(|c| c.is_control() && !"\n\r\t\u{8}\u{1b}".contains(c)));
    for sequence in text.split('\u{1b}').skip(1) {
        let end = sequence.find(|c: char| !"[0123456789;:".contains(c)).expect("an end");
        assert!(sequence.starts_with('[') && "mKCDG".contains(&sequence[end..=end]), "{sequence:?}");
    }
    let shown = printable(&String::from_utf8_lossy(bytes));
    assert!(shown.chars().all(is_shown));
});
