//! Compiles and describes one component in a process of its own, which can be ended: compilers take long over what is made
//! for it, and read hostile bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use hotcell_sandbox::{Cause, Engine, Policy};

use super::link::Cut;
use super::start::{Started, epitaph, last};
use crate::protocol::{
    FromHost, LONGEST_COMPILED, LONGEST_COMPONENT, LONGEST_DESCRIPTION, ToHost, Violation,
};
use crate::{Description, LoadError};

/// Functions, and imports.
const MOST_NAMES: usize = 1_000;
/// Bytes of one of their names.
const LONGEST_NAME: usize = 1_024;
/// Bytes of a function's documentation.
const LONGEST_TEXT: usize = 64 << 10;
/// Bytes of a manifest.
const LONGEST_MANIFEST: usize = 256 << 10;
/// What a component can do at most, in all the words that there are.
const WORDS: [&str; 8] = ["config", "env", "guard", "net", "read", "sandbox", "secret", "write"];

/// The description of a component, and its compiled form.
///
/// # Errors
/// What the compiler says of it; [`LoadError::Compile`] when it took too long or too much, or told nonsense.
pub async fn compile(
    engine: &Engine,
    policy: &Policy,
    wasm: Vec<u8>,
    patience: Duration,
) -> Result<(Description, Vec<u8>), LoadError> {
    let failed = |message: String| LoadError::Compile { message };
    if wasm.len() > LONGEST_COMPONENT {
        let message = format!("it has {} bytes, and {LONGEST_COMPONENT} are possible", wasm.len());
        return Err(LoadError::NotAComponent { message });
    }
    let Started { link, mut incoming, stop, ended, .. } = Started::start(engine, policy).await?;
    incoming.set_longest(LONGEST_COMPILED + LONGEST_DESCRIPTION);
    let asked = ToHost::Compile { wasm }.encode().map_err(|e| failed(e.to_string()))?;
    let answered = tokio::time::timeout(patience, async {
        // Where it cannot be sent, the process has ended, which is read next.
        let _ = link.send(asked).await;
        link.receive(&mut incoming).await
    });
    match answered.await.map(|answer| answer.and_then(|frame| FromHost::decode(frame).map_err(Cut::Broken))) {
        Ok(Ok(FromHost::Compiled { description, code })) => {
            check(&description).map_err(|violation| failed(format!("the compiler failed: {violation}")))?;
            Ok((*description, code))
        }
        Ok(Ok(FromHost::NotLoaded { error, .. })) => Err(error),
        Ok(Ok(_)) => Err(failed("the compiler failed: it said something else".to_owned())),
        Ok(Err(Cut::Broken(violation))) => Err(failed(format!("the compiler failed: {violation}"))),
        Ok(Err(Cut::Closed)) => {
            let outcome = last(&stop, ended).await;
            Err(failed(match &outcome {
                Some(outcome) if outcome.cause == Cause::MemoryLimit => {
                    "the compiler needs more memory than it may use".to_owned()
                }
                outcome => format!("the compiler failed: {}", epitaph(outcome.as_ref())),
            }))
        }
        Err(_) => Err(failed(format!("the compiler takes more than {patience:?}"))),
    }
}

/// The process that wrote this may have been taken over by the component: lengths, numbers and words are as agreed, or
/// nothing is taken.
fn check(description: &Description) -> Result<(), Violation> {
    let Description { exports, left_out, imports, at_most, manifest } = description;
    let no = |what: &str| Err(Violation::new(format!("a description with {what}")));
    if [exports.len(), left_out.len(), imports.len()].iter().any(|many| *many > MOST_NAMES) {
        return no("too many names");
    }
    let names = exports.iter().flat_map(|e| [Some(&e.path), Some(&e.function), e.interface.as_ref()]);
    if names.flatten().chain(imports).any(|name| name.is_empty() || name.len() > LONGEST_NAME) {
        return no("a name that is too long, or empty");
    }
    let paths: BTreeSet<&String> = exports.iter().map(|e| &e.path).collect();
    if paths.len() != exports.len() {
        return no("a function twice");
    }
    if exports.iter().any(|e| e.description.len() > LONGEST_TEXT)
        || manifest.as_ref().is_some_and(|m| m.len() > LONGEST_MANIFEST)
    {
        return no("a text that is too long");
    }
    if exports.iter().any(|e| !e.input_schema.is_object() || !e.output_schema.is_object()) {
        return no("a schema that is none");
    }
    if at_most.len() > WORDS.len() || at_most.iter().any(|word| !WORDS.contains(&&**word)) {
        return no("unknown capabilities");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Export;
    use serde_json::json;

    #[test]
    fn a_description_is_as_agreed_or_not_taken() {
        let export = |path: &str| Export {
            path: path.to_owned(),
            function: "f".to_owned(),
            interface: None,
            description: String::new(),
            input_schema: json!({}),
            output_schema: json!({}),
        };
        let good = Description {
            exports: vec![export("a"), export("b")],
            left_out: Vec::new(),
            imports: vec!["wasi:cli/exit@0.2.0".to_owned()],
            at_most: WORDS.map(str::to_owned).to_vec(),
            manifest: Some("name = \"a\"".to_owned()),
        };
        assert_eq!(check(&good), Ok(()));
        let refused = |change: &dyn Fn(&mut Description)| {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(check(&bad).is_err(), "{bad:?}");
        };
        refused(&|d| d.exports[1].path = "a".to_owned());
        refused(&|d| d.exports[1].path = String::new());
        refused(&|d| d.exports[1].interface = Some("x".repeat(2_000)));
        refused(&|d| d.exports[1].description = "x".repeat(100_000));
        refused(&|d| d.exports[1].input_schema = json!([]));
        refused(&|d| d.imports = vec!["x".to_owned(); 2_000]);
        refused(&|d| d.at_most = vec!["everything".to_owned()]);
        refused(&|d| d.manifest = Some("x".repeat(1 << 20)));
    }
}
