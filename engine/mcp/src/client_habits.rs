//! Answers as certain clients need them, where they read them otherwise than the protocol has it.

use rmcp::model::{CallToolResult, ContentBlock};

/// Beginnings of the names of clients that show a model the structured content alone, so that pictures beside it are lost (Codex 0.169).
const STRUCTURED_ALONE: [&str; 1] = ["codex"];

/// Leaves the structured content out of an answer with pictures for a client that would drop them. Its text has the fields as JSON.
pub fn keep_pictures(client: &str, result: &mut CallToolResult) {
    let client = client.to_ascii_lowercase();
    let has = |is: fn(&ContentBlock) -> bool| result.content.iter().any(is);
    if STRUCTURED_ALONE.iter().any(|name| client.starts_with(name))
        && has(|block| matches!(block, ContentBlock::Image(_)))
        && has(|block| matches!(block, ContentBlock::Text(_)))
    {
        result.structured_content = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_content_goes_only_where_it_hides_a_picture() {
        let (text, picture) = (ContentBlock::text("{}"), ContentBlock::image("iVBOR", "image/png"));
        for (client, content, stays) in [
            ("codex-mcp-client", vec![text.clone(), picture.clone()], false),
            ("Codex", vec![picture.clone(), text.clone()], false),
            ("codex-mcp-client", vec![text.clone()], true),
            // Without a text the fields would be lost.
            ("codex-mcp-client", vec![picture.clone()], true),
            ("claude-code", vec![text.clone(), picture.clone()], true),
            ("", vec![text, picture], true),
        ] {
            let mut result = CallToolResult::success(content);
            result.structured_content = Some(serde_json::json!({}));
            keep_pictures(client, &mut result);
            assert_eq!(result.structured_content.is_some(), stays, "{client} {:?}", result.content);
        }
    }
}
