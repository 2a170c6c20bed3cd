//! Files that a run returned, in its answer: each as a link to its resource, and small pictures as pictures, encoded anew by a reader in
//! a sandbox.

use base64::Engine as _;
use hotcell_report::RunReport;
use hotcell_sandbox::Engine;
use hotcell_sandbox::text::counted;
use hotcell_scanning::pictures::checked;
use hotcell_server::Run;
use hotcell_state::report::printable;
use rmcp::model::{ContentBlock, Resource};
use serde_json::{Map, Value, json};

use crate::picture::{MAX_PICTURE_BYTES, may_be_shown};
use crate::uri::uri_of_output;

/// Maximum number of files that are listed.
const MAX_LISTED: usize = 30;
/// Maximum number of files that are named as left out.
const MAX_LEFT: usize = 10;
/// Maximum number of pictures that are shown.
const MAX_PICTURES: usize = 4;
/// Maximum size of all pictures that are shown, in bytes.
const MAX_PICTURES_BYTES: usize = 2 * MAX_PICTURE_BYTES;

/// Adds the files that a run returned to both forms of its answer; returns their links and pictures.
pub fn add(
    engine: &Engine,
    run: &Run,
    outcome: &RunReport,
    fields: &mut Map<String, Value>,
    words: &mut String,
) -> Vec<ContentBlock> {
    let Some(outputs) = &outcome.outputs else { return Vec::new() };
    let (mut rows, mut links, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    let mut room = MAX_PICTURES_BYTES;
    for file in outputs.files.iter().take(MAX_LISTED) {
        let Some(bytes) = run.file(&file.path) else { continue };
        let (uri, name) = (uri_of_output(&run.id, &file.path), printable(&file.path));
        rows.push(json!({ "path": file.path, "bytes": file.bytes, "uri": uri }));
        words.push_str(&format!("returned: {name}, {}\n", counted(file.bytes, "byte")));
        let mut resource = Resource::new(uri, name.clone()).with_size(file.bytes);
        if let Some(kind) = crate::picture::kind(&bytes) {
            resource = resource.with_mime_type(kind);
            match may_be_shown(&name, file.bytes, &bytes) {
                Ok(picture) if pictures.len() < MAX_PICTURES && bytes.len() <= room => {
                    match checked(engine, &bytes) {
                        Ok(anew) => {
                            room = room.saturating_sub(anew.len());
                            let data = base64::engine::general_purpose::STANDARD.encode(&anew);
                            pictures.push(ContentBlock::image(data, picture.kind));
                        }
                        Err(why) => {
                            words.push_str(&format!("not shown, only linked: {name}: {}\n", printable(&why)));
                        }
                    }
                }
                Ok(_) => {
                    words.push_str(&format!("{name} is not shown, only linked: there are enough pictures\n"));
                }
                Err(report) => words.push_str(&format!("not shown, only linked: {}\n", report.message)),
            }
        }
        links.push(ContentBlock::resource_link(resource));
    }
    let omitted = outputs.files.len() - rows.len();
    if omitted > 0 {
        words.push_str(&format!("({}, among the resources)\n", counted(omitted, "more file")));
    }
    let left: Vec<_> = outputs.left.iter().take(MAX_LEFT).collect();
    for left in &left {
        words.push_str(&format!("not returned: {}: {}\n", printable(&left.path), printable(&left.why)));
    }
    fields.insert("outputs".into(), json!({ "files": rows, "left": left }));
    links.extend(pictures);
    links
}
