use project::initials;

#[test]
fn capitals() {
    assert_eq!(initials("Ada Lovelace"), "AL");
}

#[test]
fn small_letters() {
    assert_eq!(initials("grace hopper"), "GH");
}

#[test]
fn nothing() {
    assert_eq!(initials(""), "");
}
