//! `--output-files DIR=GLOB`: files of a run that are copied to folders of the host.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};

use hotcell_config::typed;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::outputs::{IntoFolders, MAX_PATTERNS, OutputLimits, OutputPattern, OutputRequest};
use hotcell_workspace::Folder;

/// Name of the option.
const OPTION: &str = "--output-files";
/// Reason for the refusal of `-` as a place to write to.
pub const STANDARD_OUTPUT: &str = "- would be standard output, which has the program's output or the report; name a path (./- is one called -)";
/// Limits of what is copied.
const LIMITS: OutputLimits = OutputLimits { files: 10_000, file: 1 << 30, all: 4 << 30 };

/// A folder of the host, and the files that are copied there.
#[derive(Clone, Debug)]
pub struct OutputFiles {
    folder: PathBuf,
    pattern: OutputPattern,
}

impl OutputFiles {
    /// Parses `DIR=GLOB`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("-", _)) => Err(STANDARD_OUTPUT.to_owned()),
            Some((folder, glob)) if !folder.is_empty() => {
                Ok(Self { folder: folder.into(), pattern: OutputPattern::parse(glob)? })
            }
            _ => Err(format!("{text:?} names no folder; write DIR=GLOB, such as out=coverage.xml")),
        }
    }
}

/// The request of these options, with their folders made and opened; `trees` are folders out of which no link of theirs may lead.
pub fn request(
    options: &[OutputFiles],
    cwd: &Path,
    trees: &[PathBuf],
) -> Result<Option<OutputRequest>, ErrorReport> {
    if options.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String, hint: &str| ErrorReport::new(Code::InvalidValue, why).field(OPTION).hint(hint);
    if options.len() > MAX_PATTERNS {
        let why = format!("{OPTION} was given {} times, and {MAX_PATTERNS} are allowed", options.len());
        return Err(wrong(why, "a pattern may name alternatives: {a,b}.xml"));
    }
    let mut folders = Vec::new();
    for OutputFiles { folder, .. } in options {
        let unusable = |error: &dyn std::fmt::Display| {
            let why = format!("{OPTION} {}: {error}", folder.display());
            wrong(why, "name a folder that can be written")
        };
        let real = typed::real_from(cwd, folder, trees).map_err(|error| unusable(&error))?;
        DirBuilder::new().recursive(true).create(&real).map_err(|error| unusable(&error))?;
        folders.push((folder.clone(), Folder::open(&real).map_err(|error| unusable(&error))?));
    }
    let patterns = options.iter().map(|option| option.pattern.clone()).collect();
    Ok(Some(OutputRequest::new(patterns, false, LIMITS, Box::new(IntoFolders(folders)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_a_folder_and_a_pattern() {
        for (text, why) in [
            ("coverage.xml", "names no folder"),
            ("=coverage.xml", "names no folder"),
            ("out=", "1 to 512 bytes"),
            ("out=../x", "leads out"),
        ] {
            assert!(OutputFiles::parse(text).unwrap_err().contains(why), "{text}");
        }
        let parsed = OutputFiles::parse("out=a=b.xml").unwrap();
        assert_eq!(parsed.folder, Path::new("out"));
    }
}
