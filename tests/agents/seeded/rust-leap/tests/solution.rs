use project::is_leap;

#[test]
fn fourth_years() {
    assert!(is_leap(2024));
    assert!(!is_leap(2023));
}

#[test]
fn centuries() {
    assert!(!is_leap(1900));
}

#[test]
fn fourth_centuries() {
    assert!(is_leap(2000));
}
