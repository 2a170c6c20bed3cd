//! `workspace_image`: a file of a workspace as a picture. A program of a caller's wrote it, so what it is comes from its own bytes, it
//! is bounded in bytes and in points, and the client gets what a reader in a sandbox encoded anew.

use base64::Engine as _;
use hotcell_scanning::pictures::checked;
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};

use crate::picture::{MAX_PICTURE_BYTES, Picture, may_be_shown};

use super::files::with;
use super::{blocking, input, parse, shown};

/// The picture as content of its own. It has no structured form: some clients show a model that alone.
pub async fn image(
    live: &Live,
    caller: &Caller,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorReport> {
    let asked: input::WorkspaceImage = parse(arguments)?;
    let path = asked.path.clone();
    let (size, bytes) =
        with(live, caller, &asked.workspace_id, move |workspace| workspace.read(&path, 0, MAX_PICTURE_BYTES))
            .await?;
    let name = shown(&asked.path);
    let Picture { kind, width, height } = may_be_shown(&name, size, &bytes)?;
    let own = live.clone();
    let anew = blocking(move || Ok(checked(own.engine(), &bytes))).await?;
    let bytes = anew.map_err(|why| {
        ErrorReport::new(Code::InvalidValue, format!("{name} is not shown: {why}")).field("path")
    })?;
    let words = format!("{name}, {kind}, {width} by {height} points, {size} bytes");
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Ok(CallToolResult::success(vec![ContentBlock::text(words), ContentBlock::image(data, kind)]))
}
