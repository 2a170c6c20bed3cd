//! Fenced code, as models write it without being asked: around a file between markers, or in place of markers.

use std::path::Path;

/// Tells if a line opens or closes a fence.
fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// First and last line that are not blank.
fn span(lines: &[&str]) -> Option<(usize, usize)> {
    let first = lines.iter().position(|line| !line.trim().is_empty())?;
    let last = lines.iter().rposition(|line| !line.trim().is_empty())?;
    Some((first, last))
}

/// Tells if a fence that the lines begin with is closed at their end.
pub fn is_closed(lines: &[&str]) -> bool {
    span(lines).is_some_and(|(first, last)| first < last && is_fence(lines[first]) && closes(lines[last]))
}

fn closes(line: &str) -> bool {
    is_fence(line) && line.trim().chars().all(|c| c == '`' || c == '~')
}

/// The lines without a fence around all of them.
pub fn inner<'a, 'b>(lines: &'b [&'a str]) -> &'b [&'a str] {
    match span(lines) {
        Some((first, last)) if is_closed(lines) => &lines[first + 1..last],
        _ => lines,
    }
}

/// Tells if an answer that is cut has one block, which is whole: a file may have fences of its own, in a text of many lines or a comment, and then the first closing
/// line ends nothing. In doubt it is not whole.
pub fn has_whole(answer: &str) -> bool {
    let lines: Vec<&str> = answer.lines().collect();
    let fences: Vec<usize> = (0..lines.len()).filter(|at| is_fence(lines[*at])).collect();
    let [first, last] = fences[..] else { return false };
    let mark = |line: &str| line.chars().take_while(|c| matches!(c, '`' | '~')).collect::<String>();
    let inner = lines[first + 1..last].join("\n");
    let is_even = |quote: &str| inner.matches(quote).count().is_multiple_of(2);
    closes(lines[last])
        && !mark(lines[first]).is_empty()
        && mark(lines[first]) == mark(lines[last])
        && ["\"", "\"\"\"", "'''", "`"].into_iter().all(is_even)
        && inner.matches("/*").count() == inner.matches("*/").count()
        && inner.matches("<!--").count() == inner.matches("-->").count()
}

/// Tells if files of this name are texts in which fences are usual.
pub fn has_fences(path: &str) -> bool {
    let end = Path::new(path).extension().and_then(|end| end.to_str()).unwrap_or_default();
    ["md", "markdown", "mdx", "qmd", "rmd", "rst", "txt", "adoc", ""].contains(&&*end.to_ascii_lowercase())
}

/// Files in fences. The path stands behind the fence's language, in the line before, or in a comment in the first line; a block without one is
/// that of the only file.
pub fn files(answer: &str, only: Option<&str>) -> Vec<(String, String)> {
    let (mut named, mut plain) = (Vec::new(), Vec::new());
    let mut before = "";
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in answer.lines() {
        match &mut open {
            None if is_fence(line) => {
                let path = line.split_whitespace().find_map(in_word).or_else(|| in_line(before));
                open = Some((path.unwrap_or_default(), Vec::new()));
            }
            None if !line.trim().is_empty() => before = line,
            None => {}
            Some((path, lines)) if closes(line) => {
                let mut text = lines.join("\n") + "\n";
                if path.is_empty()
                    && let Some(first) = lines.first().filter(|first| is_comment(first))
                    && let Some(found) = in_line(first)
                {
                    *path = found;
                }
                if lines.is_empty() {
                    text.clear();
                }
                let all = if path.is_empty() { &mut plain } else { &mut named };
                all.push((std::mem::take(path), text));
                (open, before) = (None, "");
            }
            Some((_, lines)) => lines.push(line),
        }
    }
    match (named.is_empty(), only) {
        (true, Some(only)) => plain.into_iter().take(1).map(|(_, text)| (only.to_owned(), text)).collect(),
        _ => named,
    }
}

fn is_comment(line: &str) -> bool {
    ["#", "//", "--", "/*", "<!--"].iter().any(|start| line.trim_start().starts_with(start))
}

/// A path in a line that has little else.
fn in_line(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() > 6 { None } else { words.into_iter().find_map(in_word) }
}

/// A word that looks like a path of a file.
fn in_word(word: &str) -> Option<String> {
    let word = word.trim_start_matches("```");
    let word = word.split_once(':').filter(|(_, path)| path.contains('.')).map_or(word, |(_, path)| path);
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '/' | '_' | '-'));
    let word = word.trim_end_matches(['.', ':']);
    let end = Path::new(word).extension()?.to_str()?;
    let is_end = (1..=5).contains(&end.len())
        && end.chars().all(|c| c.is_ascii_alphanumeric())
        && !end.chars().all(|c| c.is_ascii_digit());
    is_end.then(|| word.to_owned())
}
