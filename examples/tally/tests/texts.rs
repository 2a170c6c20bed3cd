//! Whole texts.

#[test]
fn sentence_has_commonest_word() {
    assert_eq!(tally::most("the cat saw the dog"), "the");
}

#[test]
fn empty_text_has_empty_commonest_word() {
    assert_eq!(tally::most(""), "");
}
