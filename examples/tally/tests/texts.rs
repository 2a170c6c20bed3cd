//! Whole texts.

#[test]
fn a_sentence() {
    assert_eq!(tally::most("the cat saw the dog"), "the");
}

#[test]
fn an_empty_text_has_a_most() {
    assert_eq!(tally::most(""), "");
}
