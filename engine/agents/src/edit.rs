//! Files in a model's answer: whole files or replaced pieces between plain markers. Fences are tolerated, elided bodies are not.
//!
//! ```text
//! FILE_START: src/name.py
//! the whole file, or blocks of <<<<<<< SEARCH, =======, >>>>>>> REPLACE
//! FILE_END
//! ```

mod elided;
mod fences;
mod pieces;

use crate::paths::{self, BadPath};

/// Maximum number of files in an answer.
pub const MAX_FILES: usize = 50;
/// Maximum size of a file in an answer.
pub const MAX_FILE_BYTES: usize = 512 * 1024;
/// Maximum length of a line that is looked at as a marker.
const MAX_MARKER_BYTES: usize = 600;

/// Files and explanation in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Explanation between `ANALYSIS_START` and `ANALYSIS_END`.
    pub analysis: Option<String>,
    /// Files with their whole new text.
    pub files: Vec<(String, String)>,
}

/// Why an answer cannot be used, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The answer is empty.
    #[error("the answer is empty")]
    Empty,
    /// The answer is cut.
    #[error(
        "the answer was cut at the limit of output; answer with fewer or shorter files, or with SEARCH and REPLACE blocks"
    )]
    Cut,
    /// There is no file.
    #[error(
        "no file was found; write FILE_START: path, the file, FILE_END, each marker on a line of its own"
    )]
    NoFile,
    /// A marker is missing.
    #[error("FILE_END is missing behind {0}")]
    NoEnd(String),
    /// Too many files.
    #[error("there are more than {MAX_FILES} files")]
    TooMany,
    /// A file is too large.
    #[error("{0} is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge(String),
    /// A file twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// A path.
    #[error(transparent)]
    Path(#[from] BadPath),
    /// Text left out.
    #[error("{path} leaves code out ({line:?}); write the whole file, or SEARCH and REPLACE blocks")]
    Elided {
        /// File.
        path: String,
        /// The line that stands for what is left out.
        line: String,
    },
    /// A file was emptied.
    #[error("{0} is empty")]
    Emptied(String),
    /// A block for a file that does not exist.
    #[error("{0} does not exist, so that there is nothing to search; write the whole file")]
    NothingToSearch(String),
    /// A block that does not apply.
    #[error("a SEARCH block for {path} {why}; nothing of the answer was applied")]
    Search {
        /// File.
        path: String,
        /// Reason, with the nearest lines.
        why: String,
    },
    /// The tests within a source.
    #[error("{0} has to keep its part from #[cfg(test)] on as it is")]
    InnerTests(String),
}

/// The project, as an answer sees it.
pub trait Files {
    /// Text of a file; `None` when there is nothing at the path.
    ///
    /// # Errors
    /// [`BadPath::NoFile`] when something else is there, or above it.
    fn text(&self, path: &str) -> Result<Option<String>, BadPath>;

    /// The file that a code block without a path is for.
    fn only(&self) -> Option<String>;

    /// Tells if a file that is a test by its name may be written.
    fn may_write_tests(&self) -> bool {
        false
    }

    /// Tells if a file is frozen, whatever its name is.
    fn is_frozen(&self, _path: &str) -> bool {
        false
    }

    /// Tells if tests within a source are given, so that they stay as they are.
    fn keeps_inner_tests(&self) -> bool {
        true
    }
}

/// Reads an answer. All of its files can be used, or none.
///
/// # Errors
/// [`Malformed`].
pub fn read(answer: &str, is_cut: bool, files: &dyn Files) -> Result<Edit, Malformed> {
    // Words after the only file's block may be cut; a file between markers may be followed by others.
    let has_markers = answer.contains("FILE_START");
    let may_be_whole = || files.only().is_some_and(|only| !fences::has_fences(&only));
    if is_cut && (has_markers || !may_be_whole() || !fences::has_whole(answer)) {
        return Err(Malformed::Cut);
    }
    if answer.trim().is_empty() {
        return Err(Malformed::Empty);
    }
    let (analysis, mut found) = marked(answer)?;
    if found.is_empty() {
        found = fences::files(answer, files.only().as_deref());
    }
    if found.is_empty() {
        return Err(Malformed::NoFile);
    }
    if found.len() > MAX_FILES {
        return Err(Malformed::TooMany);
    }
    let mut edit = Edit { analysis, files: Vec::new() };
    for (path, body) in found {
        paths::check(&path)?;
        if files.is_frozen(&path) || (paths::is_test(&path) && !files.may_write_tests()) {
            return Err(BadPath::Test(path).into());
        }
        if edit.files.iter().any(|(other, _)| *other == path) {
            return Err(Malformed::Twice(path));
        }
        let text = text_of(&path, &body, files)?;
        edit.files.push((path, text));
    }
    Ok(edit)
}

/// The new text of a file.
fn text_of(path: &str, body: &str, files: &dyn Files) -> Result<String, Malformed> {
    if body.len() > MAX_FILE_BYTES {
        return Err(Malformed::TooLarge(path.to_owned()));
    }
    let old = files.text(path)?;
    let text = if pieces::has(body) {
        let old = old.as_deref().ok_or_else(|| Malformed::NothingToSearch(path.to_owned()))?;
        let search = |why| Malformed::Search { path: path.to_owned(), why };
        pieces::apply(old, body).map_err(search)?
    } else {
        if let Some(line) = elided::line(body, old.as_deref().unwrap_or_default()) {
            let line = crate::text::line(line, 80);
            return Err(Malformed::Elided { path: path.to_owned(), line });
        }
        body.to_owned()
    };
    if text.len() > MAX_FILE_BYTES {
        return Err(Malformed::TooLarge(path.to_owned()));
    }
    let Some(old) = old else { return Ok(text) };
    // Models write line feeds only; a file with other ends of lines keeps them.
    let text = if old.contains("\r\n") { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text };
    if text.trim().is_empty() && !old.trim().is_empty() {
        return Err(Malformed::Emptied(path.to_owned()));
    }
    if files.keeps_inner_tests() && paths::inner_tests(path, &old) != paths::inner_tests(path, &text) {
        return Err(Malformed::InnerTests(path.to_owned()));
    }
    Ok(text)
}

/// An explanation, and paths with their texts.
type Marked = (Option<String>, Vec<(String, String)>);

/// Files between markers, and the explanation.
fn marked(answer: &str) -> Result<Marked, Malformed> {
    let (mut analysis, mut in_analysis) = (None::<String>, false);
    let mut files = Vec::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in answer.lines() {
        let marker = marker(line);
        match (&mut open, marker) {
            (None, Some(Marker::Start(path))) => (open, in_analysis) = (Some((path, Vec::new())), false),
            (None, Some(Marker::Analysis(begins))) => {
                in_analysis = begins;
                if begins {
                    analysis.get_or_insert_default();
                }
            }
            (None, _) => {
                if let Some(text) = analysis.as_mut().filter(|_| in_analysis) {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            (Some((path, lines)), Some(Marker::End)) => {
                files.push((std::mem::take(path), body(lines)));
                open = None;
            }
            // A file whose end was forgotten ends with its fence where the next one begins.
            (Some((path, lines)), Some(Marker::Start(next))) => {
                if !fences::is_closed(lines) {
                    return Err(Malformed::NoEnd(crate::text::line(path, 100)));
                }
                files.push((std::mem::take(path), body(lines)));
                open = Some((next, Vec::new()));
            }
            (Some((_, lines)), _) => lines.push(line),
        }
    }
    if let Some((path, lines)) = open {
        if !fences::is_closed(&lines) {
            return Err(Malformed::NoEnd(crate::text::line(&path, 100)));
        }
        files.push((path, body(&lines)));
    }
    Ok((analysis.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()), files))
}

enum Marker {
    Start(String),
    End,
    Analysis(bool),
}

fn marker(line: &str) -> Option<Marker> {
    if line.len() > MAX_MARKER_BYTES {
        return None;
    }
    let plain = |c: char| c.is_whitespace() || matches!(c, '*' | '`' | '#' | '<' | '>');
    let word = line.trim_matches(plain);
    if let Some(path) = word.strip_prefix("FILE_START") {
        let path = path
            .strip_prefix(':')
            .unwrap_or(path)
            .trim_matches(|c: char| plain(c) || matches!(c, '"' | '\''));
        return (!path.is_empty()).then(|| Marker::Start(path.to_owned()));
    }
    match word.trim_end_matches(':') {
        "ANALYSIS_START" => Some(Marker::Analysis(true)),
        "ANALYSIS_END" => Some(Marker::Analysis(false)),
        "FILE_END" => Some(Marker::End),
        _ => None,
    }
}

/// The text of a file, without a fence around all of it.
fn body(lines: &[&str]) -> String {
    let lines = fences::inner(lines);
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
