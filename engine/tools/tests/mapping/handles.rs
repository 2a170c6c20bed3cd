//! Resources that a component exports: their functions as tools, and handles in schemas.

use hotcell_tools::LoadError;

use crate::wit::{component, description};

/// Functions as they are shown, each with its parameters and the handles' descriptions among all schemas.
fn tools(items: &str) -> Result<Vec<String>, LoadError> {
    let wit = format!("package t:t; interface i {{ {items} }} world w {{ export i; }}");
    let found = description(&component(&wit))?;
    let tools = found.exports.iter().map(|export| {
        let properties = export.input_schema["properties"].as_object().unwrap();
        let parameters: Vec<String> = properties
            .iter()
            .map(|(name, schema)| match schema["description"].as_str() {
                Some(about) if about.contains("uses it up") => format!("{name}=own"),
                Some(about) if about.contains("used again") => format!("{name}=borrow"),
                _ => name.clone(),
            })
            .collect();
        let gives = export.output_schema.to_string().contains("A handle of");
        format!("{}({}){}", export.function, parameters.join(","), if gives { " gives" } else { "" })
    });
    let left_out = found.left_out.iter().map(|left| format!("- {}: {}", left.function, left.message));
    Ok(tools.chain(left_out).collect())
}

#[test]
fn functions_of_resources_are_tools() {
    const R: &str = "resource r { constructor(n: u32); get: func() -> u32; make: static func() -> r; }";
    const DROP: &str = "drop-handle(handle=own)";
    for (items, wanted) in [
        (R, vec![DROP, "r.new(n) gives", "r.get(handle=borrow)", "r.make() gives"]),
        ("resource r; a: func() -> option<r>;", vec![DROP, "a() gives"]),
        ("resource r; a: func() -> result<list<tuple<r, u8>>, string>;", vec![DROP, "a() gives"]),
        // Errors are in no schema.
        ("resource r; a: func() -> result<u8, r>;", vec![DROP, "a()"]),
        (
            "resource r { constructor(); a: func(handle: u8); }",
            vec![DROP, "r.new() gives", "r.a(this-handle=borrow,handle)"],
        ),
        (
            "resource r { constructor(); } record x { r: r } a: func(x: x); b: func(r: borrow<r>);",
            vec![DROP, "r.new() gives", "a(x)", "b(r=borrow)"],
        ),
        // Without a function that gives one, there is nothing to drop.
        ("resource r { a: func(); }", vec!["r.a(handle=borrow)"]),
        (
            "resource r { constructor(); a: func() -> stream<u8>; }",
            vec![DROP, "r.new() gives", "- t:t/i#[method]r.a: its result: a stream has no form in JSON"],
        ),
    ] {
        let mut found = tools(items).unwrap_or_else(|error| panic!("{items}: {error}"));
        found.sort();
        let mut wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        wanted.sort();
        assert_eq!(found, wanted, "{items}");
    }
}

#[test]
fn handles_refer_to_own_resources() {
    let wit = "package t:t; interface host { resource h; } interface i { use host.{h}; resource r; a: func(h: h); b: func() -> r; }
        world w { import host; export i; }";
    let found = description(&component(wit)).unwrap();
    let shown: Vec<&str> = found.exports.iter().map(|export| export.function.as_str()).collect();
    assert_eq!(shown, ["drop-handle", "b"]);
    assert!(found.handles && found.left_out[0].message.contains("a resource (own) has no form"), "{found:?}");
    let found = description(&component("package t:t; world w { export a: func(); }")).unwrap();
    assert!(!found.handles);
}
