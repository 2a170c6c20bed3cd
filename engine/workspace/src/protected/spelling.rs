//! Spellings of a name that some file system treats as the same name.

use unicode_normalization::UnicodeNormalization;

/// Splits a path into folded names as the most lenient file system reads it, also at backslashes. For a name
/// with a colon the part before the colon is added, since NTFS takes that for the file (`a::$DATA`).
pub(super) fn names(path: &str) -> Vec<String> {
    path.split(['/', '\\']).map(folded).collect()
}

/// Folds a name: applies compatibility forms and lower case, and removes marks on an `i`, invisible
/// characters, the name of an NTFS stream, and trailing dots and spaces; the short name of `.git` becomes
/// `.git`. Covers HFS+, APFS and NTFS, and ext4, f2fs and ZFS with case folding.
pub fn folded(name: &str) -> String {
    let lower = if name.is_ascii() { name.to_ascii_lowercase() } else { folded_letters(name) };
    let file = match lower.split_once(':') {
        Some((file, _)) if !file.is_empty() => file,
        _ => &lower,
    };
    match file.trim_end_matches([' ', '.']) {
        "git~1" => ".git".to_owned(),
        "" => lower,
        trimmed => trimmed.to_owned(),
    }
}

fn folded_letters(name: &str) -> String {
    let seen = name.chars().filter(|c| !is_ignorable(*c));
    // Lower case first for letters without a compatibility form, then again for the result of that form.
    let lower: String = seen.nfkd().flat_map(char::to_lowercase).collect();
    let lower = lower.replace(['ß', 'ẞ'], "ss").replace('ı', "i").replace("i\u{307}", "i");
    lower.nfkc().filter(|c| !is_ignorable(*c)).flat_map(char::to_lowercase).collect()
}

/// Whether a name may be a short name that NTFS or VFAT generates beside a long one: up to eight characters
/// that end with `~` and a number, and an extension of up to three. Such a name may refer to any hidden name.
pub(super) fn is_short(folded: &str) -> bool {
    let (base, extension) = folded.split_once('.').unwrap_or((folded, ""));
    let number = base.rsplit_once('~').map(|(_, number)| number);
    base.chars().count() <= 8
        && extension.chars().count() <= 3
        && !extension.contains('.')
        && number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        && !base.starts_with('~')
}

/// Whether an unfolded name has parts that a reader cannot see: control characters, invisible characters,
/// characters that change the reading direction, blanks other than a space, or spaces at either end.
pub(super) fn is_unseen(name: &str) -> bool {
    let is_unseen = |c: char| c.is_control() || is_ignorable(c) || c.is_whitespace() && c != ' ';
    name.starts_with(' ') || name.ends_with(' ') || name.chars().any(is_unseen)
}

/// Unicode's Default_Ignorable_Code_Point.
pub(crate) fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_fold_to_it() {
        for (name, want) in [
            (".GIT", ".git"),
            (".g\u{131}t", ".git"),
            (".G\u{130}T", ".git"),
            ("\u{ff0e}git", ".git"),
            (".\u{ff47}\u{ff49}\u{ff54}", ".git"),
            (".g\u{200c}it\u{feff}", ".git"),
            (".git . .", ".git"),
            ("GIT~1", ".git"),
            (".git::$INDEX_ALLOCATION", ".git"),
            (".v\u{17f}code", ".vscode"),
            ("hoo\u{212a}s", "hooks"),
            ("o\u{fb03}ce", "office"),
            ("Stra\u{df}e", "strasse"),
            ("e\u{301}", "\u{e9}"),
            ("..", ".."),
            (":x", ":x"),
        ] {
            assert_eq!(folded(name), want, "{name:?}");
        }
    }

    #[test]
    fn invisible_characters_in_names_are_detected() {
        for name in [
            "a\nb",
            "b\u{1b}[8m",
            "\u{202e}gpj.sh",
            "a\u{200b}.py",
            "a\u{a0}b",
            "x ",
            " x",
            "\u{2028}",
            "a\tb",
            "\u{3164}",
        ] {
            assert!(is_unseen(name), "{name:?}");
        }
        for name in
            ["a b.txt", "\u{e4}.py", "\u{65e5}\u{672c}.md", "a-b_c.d", "e\u{301}", "\u{1f600}.png", ""]
        {
            assert!(!is_unseen(name), "{name:?}");
        }
    }

    #[test]
    fn short_names_are_known_by_their_form() {
        let all = ["envrc~1", "vscode~2", "github~1", "mcp~1.jso", "a~12", "claude~1.md"];
        assert!(all.iter().all(|name| is_short(name)));
        let none = ["a.py", "x~", "file.txt~1~", "~1", "long-name~1", "a~b", "a~1.html", "a.b~1", "~$doc~1"];
        assert!(!none.iter().any(|name| is_short(name)), "{none:?}");
    }
}
