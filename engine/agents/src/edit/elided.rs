//! Lines that stand for code left out, such as `# ... rest of the file unchanged`.

/// Words that such a line has.
const WORDS: [&str; 12] = [
    "rest of",
    "remaining",
    "existing code",
    "unchanged",
    "same as before",
    "as before",
    "omitted",
    "previous code",
    "other functions",
    "other methods",
    "your code here",
    "implementation here",
];

/// The first line of a file that stands for code left out, unless the file had it before.
pub fn line<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.lines().find(|line| is_elided(line) && !before.lines().any(|old| old.trim() == line.trim()))
}

fn is_elided(line: &str) -> bool {
    let trimmed = line.trim();
    let starts = ["#", "//", "/*", "--", "<!--", "*", ";", "%"];
    let is_comment = starts.iter().any(|start| trimmed.starts_with(start));
    let dots = trimmed.contains("...") || trimmed.contains('…');
    let lower = trimmed.to_ascii_lowercase();
    let words = WORDS.iter().any(|word| lower.contains(word));
    // `...` alone is a body in Python; with a comment mark it stands for something.
    let only_dots = is_comment && dots && !trimmed.chars().any(char::is_alphanumeric);
    (is_comment && dots && words)
        || only_dots
        || (dots
            && words
            && (trimmed.starts_with("...") || trimmed.starts_with('…') || trimmed.starts_with('[')))
        || (is_comment && words && lower.contains("unchanged") && lower.contains("rest of"))
}
