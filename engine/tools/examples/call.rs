//! Calls a function of a component without granting it anything: `call COMPONENT FUNCTION [ARGUMENTS]`,
//! arguments as a JSON object.

use std::error::Error;
use std::sync::Arc;

use hotcell_tools::ask::Refused;
use hotcell_tools::{Ask, BoxFuture, Broker, CallRequest, Reply, Runtime, RuntimeOptions};

/// A broker that refuses everything.
struct Nothing;

impl Broker for Nothing {
    fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let why = match ask {
            Ask::Log { .. } | Ask::Progress { .. } => return Box::pin(async { Reply::Done }),
            other => Refused::Denied(format!("{other:?}")),
        };
        Box::pin(async { Reply::Refused { why } })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(component), Some(function)) = (words.next(), words.next()) else {
        return Err("usage: call COMPONENT FUNCTION [ARGUMENTS]".into());
    };
    let arguments = words.next().unwrap_or_else(|| "{}".to_owned());

    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let tools = runtime.load(&std::fs::read(&component)?)?;
    let request = CallRequest::new(&function, &arguments, Arc::new(Nothing));
    let answer = runtime.call(&tools, request).await?;
    println!("{}", answer.value);
    Ok(())
}
