//! `workspace_image`: a file of a workspace as a picture. A program of a caller's wrote it, so what it is comes from its own bytes, it
//! is bounded in bytes and in points, and nothing of it is decoded here: the client's own reader is what looks into it.

use base64::Engine as _;
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};

use crate::picture::{Picture, picture};

use super::files::with;
use super::{input, parse, shown};

/// Maximum size of a picture, in bytes. In base64 it stays below what clients take in one message.
pub(crate) const MAX_PICTURE_BYTES: usize = 1 << 20;
/// Maximum length of a side, in points: models take no more, and what unpacks to more is not a plot.
const MAX_SIDE_LEN: u32 = 8_000;

/// Whether a picture is shown, and why not.
pub(crate) fn may_be_shown(path: &str, bytes: u64, of: &[u8]) -> Result<Picture, ErrorReport> {
    let no =
        |why: String, hint: &str| Err(ErrorReport::new(Code::InvalidValue, why).field("path").hint(hint));
    let Some(picture) = picture(of) else {
        return no(format!("{path} is neither a PNG nor a JPEG"), "workspace_read gives its text or bytes");
    };
    let Picture { width, height, .. } = picture;
    let smaller = "make it smaller, for instance with fewer dots per inch";
    if bytes > MAX_PICTURE_BYTES as u64 {
        return no(
            format!("{path} has {bytes} bytes, of which at most {MAX_PICTURE_BYTES} are shown"),
            smaller,
        );
    }
    if !(1..=MAX_SIDE_LEN).contains(&width) || !(1..=MAX_SIDE_LEN).contains(&height) {
        return no(format!("{path} has {width} by {height} points; a side has 1 to {MAX_SIDE_LEN}"), smaller);
    }
    Ok(picture)
}

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
    let words = format!("{name}, {kind}, {width} by {height} points, {size} bytes");
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Ok(CallToolResult::success(vec![ContentBlock::text(words), ContentBlock::image(data, kind)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png_of(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    #[test]
    fn large_ones_are_refused_with_their_measure() {
        for (size, width, height, want) in [
            (100, 8_000, 1, ""),
            (1 << 20, 1, 1, ""),
            ((1 << 20) + 1, 1, 1, "1048577 bytes"),
            (100, 8_001, 1, "8001 by 1 points"),
            (100, 1, u32::MAX, "4294967295 points"),
            (100, 0, 1, "0 by 1 points"),
        ] {
            let said = may_be_shown("p.png", size, &png_of(width, height)).err().map(|e| e.to_string());
            assert_eq!(said.is_none(), want.is_empty(), "{said:?}");
            assert!(said.unwrap_or_default().contains(want), "{want}");
        }
    }
}
