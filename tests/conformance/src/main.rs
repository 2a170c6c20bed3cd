//! A server with the tools, resources and prompts that the MCP conformance suite needs, on the HTTP transport
//! of hotcell-mcp: this tests everything between a socket and a handler. None of this is in the product.
//!
//! The server prints its address and serves until its standard input ends.

#![forbid(unsafe_code)]
#![allow(deprecated, reason = "logging, sampling and roots are tested because revision 2025-11-25 has them")]

mod content;
mod input;
mod server;
mod tasks;

use std::io::Read;

use hotcell_mcp::HttpOptions;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = HttpOptions {
        address: ([127, 0, 0, 1], 0).into(),
        passed: None,
        tokens: None,
        hosts: Vec::new(),
        plain: false,
    };
    match hotcell_mcp::http::listen(options).await {
        Ok(listening) => {
            println!("http://{}{}", listening.address(), hotcell_mcp::http::PATH);
            let (ended, end) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                let _ = ended.send(());
            });
            let fixtures = server::Fixtures::default();
            let stop = async {
                let _ = end.await;
            };
            listening.serve_with(move || fixtures.clone(), stop, || async {}).await;
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
