//! Invented answers of `hotcell call --simulate`: labelled in each part, and never a success.

use std::time::Duration;

use hotcell_client::tiers::chunks;
use serde_json::json;

use super::{CALL_SCHEMA, Called};
use crate::args::{CallArgs, Common};
use crate::exit::{self, printed};
use crate::terminal::notes;

/// Time between two parts of an invented answer.
const CHUNK_INTERVAL: Duration = Duration::from_millis(500);
/// Prints an invented answer, part by part; returns the exit status, which is that of a refusal.
pub async fn print(common: &Common, args: &CallArgs, passed_over: Vec<String>) -> u8 {
    let mut text = String::new();
    for chunk in chunks() {
        tokio::time::sleep(CHUNK_INTERVAL).await;
        text.push_str(&chunk);
        if !common.json && exit::print_text(&chunk).is_err() {
            return exit::REFUSED;
        }
    }
    if common.json {
        let called = Called {
            schema: CALL_SCHEMA.to_owned(),
            server: args.server.clone(),
            tool: args.tool.clone(),
            content: vec![json!({ "type": "text", "text": text })],
            structured: None,
            is_error: true,
            denials: Vec::new(),
            grants: Vec::new(),
            simulated: true,
            passed_over,
        };
        return printed(exit::print_json(&called), exit::REFUSED);
    }
    notes::say("the answer is invented: no server took the call");
    exit::REFUSED
}
