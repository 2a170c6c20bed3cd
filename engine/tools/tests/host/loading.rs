//! Loading of valid and invalid components.

use hotcell_tools::{CallError, CallRequest, LoadError};

use crate::support::{component, module, nobody, run, runtime};

const PLAIN: &str = r#"(component (core module $m (func (export "run"))) (core instance $i (instantiate $m))
    (func (export "run") (canon lift (core func $i "run"))))"#;

fn load(wasm: &[u8]) -> LoadError {
    runtime().load(wasm).err().expect("it is not to be loaded")
}

#[test]
fn non_component_is_refused_by_kind() {
    let whole = wat::parse_str(PLAIN).expect("a component");
    let two_memories = wat::parse_str(
        PLAIN.replace("(func (export \"run\"))", "(memory 1) (memory 1) (func (export \"run\"))"),
    );
    for (wasm, wanted) in [
        (wat::parse_str("(module)").expect("a module"), "core module"),
        (b"\x7fELF and so on".to_vec(), "machine code"),
        (b"(component)".to_vec(), "no WebAssembly component"),
        (Vec::new(), "no WebAssembly component"),
        (whole[..whole.len() - 1].to_vec(), "cut off"),
        (whole[..9].to_vec(), "cut off"),
    ] {
        let error = load(&wasm);
        assert!(
            matches!(&error, LoadError::NotAComponent { message } if message.contains(wanted)),
            "{wanted}: {error:?}"
        );
    }
    let error = load(&two_memories.expect("a component"));
    assert!(matches!(&error, LoadError::Compile { .. }), "{error:?}");
}

#[test]
fn component_prefixes_are_harmless() {
    let whole = wat::parse_str(PLAIN).expect("a component");
    // A component cut off between two sections is valid; the last sections are only names.
    let loaded = (0..whole.len()).filter(|end| runtime().load(&whole[..*end]).is_ok());
    assert!(loaded.count() < 4);
}

#[test]
fn proposals_that_no_toolchain_needs_are_off() {
    for core in [
        r#"(memory i64 1) (func (export "run"))"#,
        r#"(memory 1 1 shared) (func (export "run"))"#,
        r#"(func (export "run") (return_call 0))"#,
        r#"(type (struct)) (func (export "run"))"#,
        r#"(tag) (func (export "run"))"#,
    ] {
        let error =
            load(&wat::parse_str(PLAIN.replace("(func (export \"run\"))", core)).expect("a component"));
        assert!(
            matches!(&error, LoadError::NotAComponent { message } if message.contains("switched off")),
            "{core}: {error:?}"
        );
    }
}

#[test]
fn unknown_imports_are_listed() {
    let importing = |name: &str| {
        let text = PLAIN.replacen(
            "(component",
            &format!(r#"(component (import "{name}" (instance (export "f" (func)))) "#),
            1,
        );
        match load(&wat::parse_str(text).expect("a component")) {
            LoadError::Imports { imports } => imports.join(" "),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(importing("acme:rocket/launch@1.2.3"), "acme:rocket/launch@1.2.3");
    assert!(importing("wasi:cli/environment@0.9.0").contains("wasi:cli/environment@0.9.0"));
    assert!(importing("hotcell:tool/kv@0.1.0").contains("hotcell:tool/kv@0.1.0"));
}

#[test]
fn component_without_function_is_no_tool() {
    let error = load(&wat::parse_str("(component)").expect("a component"));
    assert_eq!(error, LoadError::NoTools);
}

#[tokio::test]
async fn compiled_form_loads_as_same_component() {
    let wasm = wat::parse_str(PLAIN).expect("a component");
    let (description, compiled) = runtime().describe(&wasm).expect("a description");
    assert_eq!(description.exports.len(), 1);
    assert_eq!(runtime().compile(&wasm).expect("a compiled form").len(), compiled.len());
    let load = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, bytes).expect("written");
        std::io::Seek::rewind(&mut file).expect("rewound");
        runtime().load_compiled(file)
    };
    let prepared = load(&compiled).expect("it loads");
    assert_eq!(prepared.paths().collect::<Vec<_>>(), ["run"]);
    run(&prepared, |_| {}).await.expect("it runs");
    for bytes in [&wasm[..], b"", b"\x7fELF"] {
        assert_eq!(load(bytes).err(), Some(LoadError::Stale));
    }
}

#[tokio::test]
async fn unknown_function_is_not_called() {
    let request = CallRequest::new("jump", "{}", nobody());
    let error = runtime().call(&module(r#"(func (export "run"))"#), request).await.expect_err("no such tool");
    assert_eq!(error, CallError::Unknown { name: "jump".to_owned() });
}

// Between two components with a memory each, wasmtime inserts code that uses both memories.
#[tokio::test]
async fn composed_components_hand_each_other_texts() {
    let composed = component(
        r#"(component
            (component $inner
                (core module $m (memory (export "memory") 1)
                    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 512))
                    (func (export "f") (param i32 i32) (result i32) (i32.add (local.get 1) (i32.load8_u (local.get 0)))))
                (core instance $i (instantiate $m))
                (func (export "f") (param "s" string) (result u32)
                    (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
            (component $outer
                (import "f" (func $f (param "s" string) (result u32)))
                (core module $memory (memory (export "memory") 1) (data (i32.const 8) "hello"))
                (core instance $memory (instantiate $memory))
                (core func $f (canon lower (func $f) (memory (core memory $memory "memory"))))
                (core module $m (import "" "f" (func $f (param i32 i32) (result i32)))
                    (func (export "run") (result i32) (call $f (i32.const 8) (i32.const 5))))
                (core instance $i (instantiate $m (with "" (instance (export "f" (func $f))))))
                (func (export "run") (result u32) (canon lift (core func $i "run"))))
            (instance $inner (instantiate $inner))
            (instance $outer (instantiate $outer (with "f" (func $inner "f"))))
            (export "run" (func $outer "run")))"#,
    );
    let answer = run(&composed, |_| {}).await.expect("an answer");
    assert_eq!(answer.value.get(), format!(r#"{{"result":{}}}"#, 5 + u32::from(b'h')));
}
