//! Replaced pieces of a file: `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE`.

/// Number of lines shown around the place that is most like a block that was not found.
const NEAR_LINES: usize = 6;

/// Tells if a body has such blocks.
pub fn has(body: &str) -> bool {
    body.lines().any(is_search) && body.lines().any(is_replace)
}

fn is_search(line: &str) -> bool {
    line.trim_end().starts_with("<<<<<<<") && line.contains("SEARCH")
}

fn is_middle(line: &str) -> bool {
    line.trim_end() == "======="
}

fn is_replace(line: &str) -> bool {
    line.trim_end().starts_with(">>>>>>>") && line.contains("REPLACE")
}

/// Applies all blocks to a text.
///
/// # Errors
/// Words for the model: which block was not found or is ambiguous.
pub fn apply(text: &str, body: &str) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (search, replace) in blocks(body)? {
        let at = find(&lines, &search)?;
        let shift = indent_of(&lines[at..at + search.len()], &search);
        let new: Vec<String> = replace.iter().map(|line| shifted(line, &shift)).collect();
        drop(lines.splice(at..at + search.len(), new));
    }
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

type Block<'a> = (Vec<&'a str>, Vec<&'a str>);

fn blocks(body: &str) -> Result<Vec<Block<'_>>, String> {
    let mut all = Vec::new();
    let mut open: Option<(Vec<&str>, Option<Vec<&str>>)> = None;
    for line in body.lines() {
        match &mut open {
            None if is_search(line) => open = Some((Vec::new(), None)),
            None => {}
            Some((_, replace @ None)) if is_middle(line) => *replace = Some(Vec::new()),
            Some((search, None)) => search.push(line),
            Some((search, Some(replace))) if is_replace(line) => {
                all.push((std::mem::take(search), std::mem::take(replace)));
                open = None;
            }
            Some((_, Some(replace))) => replace.push(line),
        }
    }
    if open.is_some() { Err("has no ======= or no >>>>>>> REPLACE".to_owned()) } else { Ok(all) }
}

/// The place of some lines: exactly, else up to white space around each.
fn find(lines: &[String], search: &[&str]) -> Result<usize, String> {
    if search.iter().all(|line| line.trim().is_empty()) {
        return Err("has nothing to search".to_owned());
    }
    let places = |same: fn(&str, &str) -> bool| -> Vec<usize> {
        let fits = |at: &usize| lines[*at..].iter().zip(search).all(|(line, wanted)| same(line, wanted));
        (0..(lines.len() + 1).saturating_sub(search.len())).filter(fits).collect()
    };
    let mut found = places(|line, wanted| line.trim_end() == wanted.trim_end());
    if found.is_empty() {
        found = places(|line, wanted| line.trim() == wanted.trim());
    }
    match found[..] {
        [at] => Ok(at),
        [] => Err(format!("was not found; the lines most like it are:\n{}", nearest(lines, search))),
        _ => Err(format!("is in {} places; take more lines into it", found.len())),
    }
}

fn nearest(lines: &[String], search: &[&str]) -> String {
    let count = |at: usize| {
        let window = &lines[at..lines.len().min(at + search.len())];
        search.iter().filter(|wanted| window.iter().any(|line| line.trim() == wanted.trim())).count()
    };
    let best = (0..lines.len()).rev().max_by_key(|at| count(*at)).unwrap_or(0);
    lines[best..lines.len().min(best + search.len().max(NEAR_LINES))].join("\n")
}

/// The indentation that the file has beyond that of the block.
fn indent_of(lines: &[String], search: &[&str]) -> String {
    let pair = lines.iter().zip(search).find(|(line, _)| !line.trim().is_empty());
    let Some((line, wanted)) = pair else { return String::new() };
    let space = |text: &str| text[..text.len() - text.trim_start().len()].to_owned();
    space(line).strip_suffix(space(wanted).as_str()).unwrap_or_default().to_owned()
}

fn shifted(line: &str, shift: &str) -> String {
    if line.trim().is_empty() { line.to_owned() } else { format!("{shift}{line}") }
}
