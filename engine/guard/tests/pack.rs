//! Every built-in rule matches its own examples as it says.

use hotcell_guard::{Pack, PackError, failures, load_pack};

#[test]
fn builtin_rules_match_their_examples() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let wrong: Vec<String> = failures(&pack, |_| true).map(|failure| failure.to_string()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} rules' examples:\n{}",
        wrong.len(),
        pack.rules.len(),
        wrong.join("\n---\n")
    );
    Ok(())
}

#[test]
fn pack_without_matching_examples_is_refused() {
    let rule = |positive: &str, benign: &str| {
        format!(
            "id: x.y\nlanguage: Python\nseverity: warning\nmessage: m\nmetadata:\n  capability: c\n  positive: [{positive}]\n  benign: [{benign}]\nmatch:\n  call: [zz.run]\n"
        )
    };
    let load = |text: String| {
        load_pack([("own.yml".to_owned(), text)]).map(|_| ()).map_err(|error| error.to_string())
    };
    let (yes, no) = ("'import zz\n\n  zz.run()'", "'zz = 1'");
    assert_eq!(load(rule(&format!("{yes}, {yes}"), &format!("{no}, {no}"))), Ok(()));
    for (positive, benign, why) in [
        (format!("{yes}, {no}"), format!("{no}, {no}"), "misses"),
        (format!("{yes}, {yes}"), format!("{no}, {yes}"), "matches a benign"),
        (yes.to_owned(), format!("{no}, {no}"), "at least two"),
    ] {
        let error = load(rule(&positive, &benign)).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(load("id: [".to_owned()).is_err());
}
