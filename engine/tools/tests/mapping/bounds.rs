//! Limits on the size of a component's description.

use hotcell_tools::LoadError;

use crate::wit::{component, description};

/// `many` functions with a parameter of this type.
fn functions(many: usize, types: &str, ty: &str) -> Vec<u8> {
    let functions: String = (0..many).map(|n| format!("fn{n}: func(p: {ty});\n")).collect();
    component(&format!("package a:b; interface i {{ {types}\n{functions} }} world w {{ export i; }}"))
}

fn refused(wasm: &[u8]) -> String {
    match description(wasm) {
        Err(LoadError::Signature { message, .. }) => message,
        other => panic!("{:?}", other.map(|description| description.exports.len())),
    }
}

#[test]
fn functions_per_component_are_limited() {
    assert_eq!(description(&functions(512, "", "u8")).unwrap().exports.len(), 512);
    let message = refused(&functions(513, "", "u8"));
    assert!(message.contains("more than 512 functions"), "{message}");
}

#[test]
fn schemas_have_total_size_limit() {
    let long = "a".repeat(60);
    let fields: String = (0..200).map(|n| format!("{long}{n:04}: u8, ")).collect();
    let record = format!("record r {{ {fields} }}");
    assert_eq!(description(&functions(50, &record, "r")).unwrap().exports.len(), 50);
    let message = refused(&functions(500, &record, "r"));
    assert!(message.contains("larger than 4 MiB"), "{message}");
}
