//! File names, and patterns for them.

/// Whether a name matches a pattern of `*` and `?`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Position after the last star, and the part of the name that it has matched.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, eaten)) = star else { return false };
                star = Some((at, eaten + 1));
                p = at + 1;
                n = eaten + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_stars_and_question_marks() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*.rs", "lib.rs", true),
            ("*.rs", "lib.rsx", false),
            ("?.rs", "a.rs", true),
            ("?.rs", "ab.rs", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("*ä?", "bäc", true),
            ("", "a", false),
            ("**", "a", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
