//! Compiles and describes one component in a process of its own, which can be ended: an input made for it can
//! keep a compiler busy for long, and compilers read hostile bytes.

use hotcell_sandbox::{Cause, Engine, Policy};

use crate::protocol::{FromHost, MAX_COMPILED_BYTES, MAX_COMPONENT_BYTES, MAX_DESCRIPTION_BYTES, ToHost};
use crate::{Description, LoadError};

use super::HostsOptions;
use super::checked::check_description;
use super::link::Cut;
use super::start::{Started, epitaph, last};

/// The description of a component, and its compiled form.
///
/// # Errors
/// The compiler's own error; [`LoadError::NotAComponent`] when the component is too large;
/// [`LoadError::Compile`] when the compiler took too much time or memory, or sent an invalid answer;
/// [`LoadError::Host`] when its process cannot be started.
pub async fn compile(
    engine: &Engine,
    policy: &Policy,
    wasm: Vec<u8>,
    options: &HostsOptions,
) -> Result<(Description, Vec<u8>), LoadError> {
    let patience = options.compile_time;
    let failed = |message: String| LoadError::Compile { message };
    if wasm.len() > MAX_COMPONENT_BYTES {
        let message = format!("it has {} bytes, and {MAX_COMPONENT_BYTES} are possible", wasm.len());
        return Err(LoadError::NotAComponent { message });
    }
    let Started { link, mut incoming, stop, ended, .. } =
        Started::start(engine, policy, options.patience).await?;
    incoming.set_longest(MAX_COMPILED_BYTES + MAX_DESCRIPTION_BYTES);
    let asked = ToHost::Compile { wasm }.encode().map_err(|e| failed(e.to_string()))?;
    let answered = tokio::time::timeout(patience, async {
        // If sending fails, the process has ended, which the read below reports.
        let _ = link.send(asked).await;
        link.receive(&mut incoming).await
    });
    match answered.await.map(|answer| answer.and_then(|frame| FromHost::decode(frame).map_err(Cut::Broken))) {
        Ok(Ok(FromHost::Compiled { description, code })) => {
            check_description(&description)
                .map_err(|violation| failed(format!("the compiler failed: {violation}")))?;
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
