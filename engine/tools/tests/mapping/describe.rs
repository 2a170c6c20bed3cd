//! Descriptions of components: functions, their documentation, imports.

use std::fs;

use hotcell_tools::LoadError;
use hotcell_tools::component::docs::{self, embed};
use hotcell_tools::component::sections;
use serde_json::json;

use crate::wit::{component, description};

const WIT: &str = "package a:b@1.2.0;

interface types {
    /// How warm something is.
    record degree {
        /// In Celsius.
        value: f64,
        other: u8,
    }
}

/// Weather.
interface tools {
    use types.{degree};

    /// What is wanted.
    enum kind {
        /// Rain and snow.
        wet,
        dry,
    }

    /// Says how warm it is.
    ///
    /// In any town.
    ///
    /// `town`: its name.
    /// `other`: there is no such parameter.
    warm: func(town: string, kind: option<kind>) -> result<degree, string>;
    bare: func();
}

world w {
    import wasi:http/outgoing-handler@0.2.6;
    export tools;
    /// Counts.
    export count: func(n: u32) -> u32;
}

package wasi:http@0.2.6 {
    interface outgoing-handler { handle: func(); }
}
";

/// The component with the documentation of its WIT.
fn documented(manifest: Option<&str>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("world.wit"), WIT).unwrap();
    embed(&component(WIT), folder.path(), manifest).unwrap()
}

#[test]
fn component_description_lists_documented_exports() {
    let found = description(&documented(Some("name = \"weather\""))).unwrap();
    let paths: Vec<_> = found.exports.iter().map(|export| export.path.as_str()).collect();
    assert_eq!(paths, ["a:b/tools@1.2.0#bare", "a:b/tools@1.2.0#warm", "count"]);
    let [bare, warm, count] = &found.exports[..] else { panic!("three") };
    assert_eq!((warm.interface.as_deref(), warm.function.as_str()), (Some("a:b/tools@1.2.0"), "warm"));
    assert_eq!((count.interface.as_deref(), count.function.as_str()), (None, "count"));
    assert_eq!(
        warm.description,
        "Says how warm it is.\n\nIn any town.\n\n`other`: there is no such parameter."
    );
    assert_eq!((bare.description.as_str(), count.description.as_str()), ("", "Counts."));
    assert_eq!(
        warm.input_schema,
        json!({
            "type": "object",
            "properties": {
                "town": { "type": "string", "description": "its name." },
                "kind": { "anyOf": [
                    { "type": "string", "enum": ["wet", "dry"], "description": "What is wanted.\nwet: Rain and snow." },
                    { "type": "null" },
                ] },
            },
            "required": ["town"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        warm.output_schema,
        json!({
            "type": "object",
            "description": "How warm something is.",
            "properties": {
                "value": { "description": "In Celsius.", "anyOf": [{ "type": "number" }, { "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] }] },
                "other": { "type": "integer", "minimum": 0, "maximum": 255 },
            },
            "required": ["value", "other"],
            "additionalProperties": false,
        })
    );
    assert_eq!(found.imports, ["a:b/types@1.2.0", "wasi:http/outgoing-handler@0.2.6"]);
    assert_eq!(found.at_most, ["net"]);
    assert_eq!(found.manifest.as_deref(), Some("name = \"weather\""));
    assert!(found.left_out.is_empty());
}

#[test]
fn undocumented_component_has_no_descriptions() {
    let found = description(&component(WIT)).unwrap();
    assert!(found.exports.iter().all(|export| export.description.is_empty()));
    assert_eq!(found.manifest, None);
    assert!(!found.exports[1].input_schema.to_string().contains("description"));
}

#[test]
fn repeated_embedding_replaces_documentation() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("world.wit"), WIT.replace("Counts.", "Counts well.")).unwrap();
    let again = embed(&documented(Some("old")), folder.path(), None).unwrap();
    let found = description(&again).unwrap();
    assert_eq!((found.exports[2].description.as_str(), found.manifest), ("Counts well.", None));
}

#[test]
fn hostile_sections_are_no_documentation() {
    let plain = component(WIT);
    let behind = |mut wasm: Vec<u8>, name: &str, content: &[u8]| {
        let mut section = vec![u8::try_from(name.len()).unwrap()];
        section.extend_from_slice(name.as_bytes());
        section.extend_from_slice(content);
        wasm.push(0);
        let mut length = section.len();
        while length > 0x7f {
            wasm.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        wasm.push(u8::try_from(length).unwrap());
        wasm.extend_from_slice(&section);
        wasm
    };
    let with = |name: &str, content: &[u8]| behind(plain.clone(), name, content);
    let deep = format!("\u{1}{}", "[".repeat(100_000));
    let large = format!("\u{1}{{\"docs\":\"{}\"}}", "a".repeat(1 << 20));
    for content in [
        &b""[..],
        b"\x01",
        b"\x01{",
        b"\x02{}",
        b"\x01[]",
        b"\x01{\"worlds\":7}",
        b"\xff\xfe",
        deep.as_bytes(),
        large.as_bytes(),
    ] {
        let found = description(&with("package-docs", content)).unwrap();
        assert_eq!(found, description(&plain).unwrap());
    }
    // Eight sections are read, as in a component that was composed of others.
    let says = b"\x01{\"worlds\":{\"w\":{\"func_exports\":{\"count\":{\"docs\":\"Counts.\"}}}}}";
    for (before, said) in [(7, "Counts."), (8, "")] {
        let many = (0..before).fold(plain.clone(), |wasm, _| behind(wasm, "package-docs", b"\x01{}"));
        let found = description(&behind(many, "package-docs", says)).unwrap();
        assert_eq!(found.exports[2].description, said, "behind {before} others");
    }
    let found = description(&with("hotcell-plugin", b"\xff\xfe")).unwrap();
    assert_eq!(found.manifest, None);
    let found = description(&with("hotcell-plugin", &vec![b'#'; 1 << 20])).unwrap();
    assert_eq!(found.manifest, None);
    // A model sees the documentation, so it is sanitized.
    let poisoned = "\u{1}{\"worlds\":{\"w\":{\"func_exports\":{\"count\":{\"docs\":\"Co\u{200b}unts\u{202e}.\\u001b[2J\u{e0041}\"}}}}}";
    let found = description(&with("package-docs", poisoned.as_bytes())).unwrap();
    assert_eq!(found.exports[2].description, "Counts.[2J");
    let hidden = found.hidden.expect("a place");
    assert!(hidden.starts_with("worlds.w.func_exports.count: character 3 is U+200B"), "{hidden}");
    let long =
        format!("\u{1}{{\"worlds\":{{\"w\":{{\"funcs\":{{\"count\":\"{}\"}}}}}}}}", "a".repeat(100_000));
    let found = description(&with("package-docs", long.as_bytes())).unwrap();
    assert_eq!(found.exports[2].description.chars().count(), 2_000);
}

#[test]
fn same_shaped_types_keep_own_documentation() {
    let wit = "package a:b;
        interface one { /// One.
            record row { n: u8 } f: func() -> row; }
        interface two { /// Two.
            record row { n: u8 } f: func() -> row; }
        interface three { record row { n: u8 } f: func() -> row; }
        world w { export one; export two; export three; }";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("world.wit"), wit).unwrap();
    let found = description(&embed(&component(wit), folder.path(), None).unwrap()).unwrap();
    let said: Vec<_> = found
        .exports
        .iter()
        .map(|export| (export.path.as_str(), export.output_schema.get("description")))
        .collect();
    let [one, two] = ["One.", "Two."].map(|text| json!(text));
    assert_eq!(said, [("a:b/one#f", Some(&one)), ("a:b/three#f", None), ("a:b/two#f", Some(&two))]);
}

#[test]
fn unmappable_functions_are_omitted_by_name() {
    let wit = |more: &str| {
        format!(
            "package a:b; interface host {{ resource file; }}
            interface i {{ use host.{{file}};
                open: func() -> file; look: func(at: list<borrow<file>>) -> u8; wait: func(s: stream<u8>); later: func() -> future<u8>; {more} }}
            world w {{ import host; export i; }}"
        )
    };
    let found = description(&component(&wit("fine: func();"))).unwrap();
    assert_eq!(found.exports.len(), 1);
    let left: Vec<_> =
        found.left_out.iter().map(|left| format!("{} {}", left.function, left.message)).collect();
    for (line, words) in left.iter().zip([
        ["a:b/i#later", "its result: a future"],
        ["a:b/i#look", "parameter 'at': a resource (borrow)"],
        ["a:b/i#open", "its result: a resource (own)"],
        ["a:b/i#wait", "parameter 's': a stream"],
    ]) {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    assert_eq!(left.len(), 4);
    match description(&component(&wit(""))) {
        Err(LoadError::Signature { function, .. }) => assert_eq!(function, "a:b/i#later"),
        other => panic!("{other:?}"),
    }
    assert_eq!(description(&component("package a:b; world w {}")), Err(LoadError::NoTools));
}

#[test]
fn types_without_end_are_refused() {
    let doubled = |depth: u32| {
        let types: String =
            (1..=depth).map(|n| format!("type t{n} = tuple<t{}, t{}>;", n - 1, n - 1)).collect();
        format!(
            "package a:b; interface i {{ type t0 = u8; {types} f: func(p: t{depth}); }} world w {{ export i; }}"
        )
    };
    let nested = |depth: usize| {
        format!(
            "package a:b; interface i {{ f: func(p: {}string{}); }} world w {{ export i; }}",
            "list<".repeat(depth),
            ">".repeat(depth)
        )
    };
    let long =
        format!("package a:b; interface i {{ f: func({}: u8); }} world w {{ export i; }}", "a".repeat(65));
    for (wit, fits) in
        [(doubled(9), true), (doubled(12), false), (nested(60), true), (nested(64), false), (long, false)]
    {
        match description(&component(&wit)) {
            Ok(_) => assert!(fits),
            Err(LoadError::Signature { message, .. }) => {
                assert!(!fits && message.contains("than"), "{message}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn embedding_failure_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("world.wit");
    for (wit, wasm, message) in [
        ("package a:b; world w { export f: func(x: nothing); }", component(WIT), "nothing"),
        (WIT, b"\0asm\x01\0\0\0".to_vec(), "core module"),
        (WIT, b"#!/bin/sh".to_vec(), "not WebAssembly"),
    ] {
        fs::write(&file, wit).unwrap();
        let error = embed(&wasm, folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(embed(&component(WIT), &folder.path().join("missing"), None).is_err());
    fs::write(&file, WIT).unwrap();
    let large = "#".repeat(1 << 20);
    assert!(
        embed(&component(WIT), folder.path(), Some(&large)).unwrap_err().to_string().contains("the manifest")
    );
    let long = WIT.replace("Counts.", &"a".repeat(1 << 20));
    fs::write(&file, long).unwrap();
    assert!(
        embed(&component(WIT), folder.path(), None).unwrap_err().to_string().contains("the documentation")
    );
}

#[test]
fn core_module_becomes_component_when_built() {
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("test.wit", WIT).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let mut module = wit_component::dummy_module(&resolve, world, wit_parser::ManglingAndAbi::Standard32);
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        wit_component::StringEncoding::UTF8,
    )
    .unwrap();
    assert!(matches!(sections::check(&module), Err(LoadError::NotAComponent { .. })));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("world.wit"), WIT).unwrap();
    let built = embed(&module, folder.path(), Some("x = 1")).unwrap();
    assert_eq!(sections::check(&built), Ok(()));
    assert_eq!(docs::manifest(&built).as_deref(), Some("x = 1"));
    assert_eq!(description(&built).unwrap().exports.len(), 3);
}

/// Modules as compilers for WASI 0.1 make them, a library and a program.
#[test]
fn modules_of_wasi_p1_become_components() {
    const WRITE: &str = r#"(import "wasi_snapshot_preview1" "fd_write"
        (func (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)"#;
    let library = r#"(func (export "_initialize")) (func (export "answer") (result i32) (i32.const 42))"#;
    let program = r#"(func (export "_start"))"#;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("world.wit"), "package a:b; world plugin { export answer: func() -> u32; }")
        .unwrap();
    for (imports, body, path) in [
        (WRITE, library, "answer"),
        ("", library, "answer"),
        (WRITE, program, "wasi:cli/run@0.2."),
        (r#"(memory (export "memory") 1)"#, program, "wasi:cli/run@0.2."),
    ] {
        let module = wat::parse_str(format!("(module {imports} {body})")).unwrap();
        let built = embed(&module, folder.path(), Some("x = 1")).unwrap();
        let made = description(&built).unwrap();
        assert_eq!(made.exports.len(), 1, "{body}");
        assert!(made.exports[0].path.starts_with(path), "{}", made.exports[0].path);
        assert_eq!(docs::manifest(&built).as_deref(), Some("x = 1"));
    }
    let unknown = r#"(module (import "wasi_snapshot_preview9" "f" (func)) (func (export "answer") (result i32) (i32.const 1)))"#;
    let error = embed(&wat::parse_str(unknown).unwrap(), folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("wasi_snapshot_preview9"), "{error}");
}
