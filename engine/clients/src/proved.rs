//! Proof that a new text of a settings file has an entry, and that nothing else differs. Pure.

use serde_json::{Map, Value};

use super::{Entry, Found, Problem, understood};

/// Compares two files as values: the new one has the entry, or lacks it for `None`, and everything else is equal.
///
/// # Errors
/// [`Problem::Unsafe`] otherwise.
pub(crate) fn proved(
    mut old: Value,
    mut new: Value,
    key: &str,
    name: &str,
    entry: Option<&Entry>,
) -> Result<(), Problem> {
    let taken = |of: &mut Value| of.get_mut(key)?.as_object_mut()?.shift_remove(name);
    let same = match (taken(&mut new), entry) {
        (Some(there), Some(entry)) => understood(&there) == Found::Program(entry.clone()),
        (None, None) => true,
        _ => false,
    };
    taken(&mut old);
    // Tables created for the entry are empty now, and a heading without servers may be gone.
    for of in [&mut old, &mut new] {
        let empty = of.get(key).is_some_and(|v| v.is_null() || v.as_object().is_some_and(Map::is_empty));
        if empty && let Some(fields) = of.as_object_mut() {
            fields.shift_remove(key);
        }
    }
    if same && old == new { Ok(()) } else { Err(Problem::Unsafe) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_entry_may_differ() {
        let entry = Entry { command: "/h".to_owned(), args: vec!["mcp".to_owned()], ..Entry::default() };
        let ours = json!({ "command": "/h", "args": ["mcp"] });
        let whole = |servers: Value| json!({ "a": 1, "servers": servers });
        for (old, new, entry, good) in [
            (whole(json!({})), whole(json!({ "h": ours })), Some(&entry), true),
            (json!({ "a": 1 }), whole(json!({ "h": ours })), Some(&entry), true),
            (whole(Value::Null), whole(json!({ "h": ours })), Some(&entry), true),
            (whole(json!({ "h": ours })), whole(json!({})), None, true),
            (whole(json!({ "h": ours })), json!({ "a": 1 }), None, true),
            (whole(json!({ "h": ours })), whole(json!({ "h": ours })), None, false),
            (whole(json!({})), whole(json!({ "h": { "command": "/other" } })), Some(&entry), false),
            (whole(json!({ "x": 1 })), whole(json!({ "h": ours })), Some(&entry), false),
            (whole(json!({})), json!({ "a": 2, "servers": { "h": ours } }), Some(&entry), false),
            (whole(json!({})), whole(json!({})), Some(&entry), false),
        ] {
            assert_eq!(proved(old.clone(), new.clone(), "servers", "h", entry).is_ok(), good, "{old} {new}");
        }
    }
}
