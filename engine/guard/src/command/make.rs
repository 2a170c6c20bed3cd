//! Command lines in makefiles, pure: recipes in every syntax, and what is run while the file is read.

/// Command lines of a makefile that is a text of another program: recipes, and what is run while it is read. All of them:
/// the text is bounded, and a caller that cannot read each one has to say so.
pub(crate) fn recipes(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in text.lines() {
        let recipe = match line.strip_prefix('\t') {
            Some(recipe) => Some(recipe),
            None => line
                .split_once(';')
                .filter(|(rule, _)| rule.contains(':'))
                .or_else(|| line.split_once("!="))
                .map(|(_, recipe)| recipe),
        };
        let plain = recipe.map(|recipe| recipe.trim_start_matches(['@', '-', '+', ' ']));
        all.extend(plain.map(variables));
        calls(line, "shell", |_, inner| all.push(variables(inner)));
    }
    all
}

/// Calls `each` for every `$(NAME …)` and `${NAME …}`, with its offset and its contents.
pub(crate) fn calls(text: &str, name: &str, mut each: impl FnMut(usize, &str)) {
    for open in ["$(", "${"] {
        for (at, _) in text.match_indices(open) {
            let inner = &text[at + 2..];
            let Some(rest) = inner.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])) else {
                continue;
            };
            each(at, rest[..closing(rest)].trim_start());
        }
    }
}

/// Converts make's variables for the shell: `$(X)` is not a command there, `$$` is a dollar.
pub(crate) fn variables(recipe: &str) -> String {
    let mut out = String::with_capacity(recipe.len());
    let mut rest = recipe;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix(['(', '{']) {
            let end = closing(inner);
            let name = &inner[..end];
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            out.push_str(&match name {
                "MAKE" => "make".to_owned(),
                "SHELL" => "sh".to_owned(),
                name if plain => format!("${{{name}}}"),
                _ => "${MAKE_VALUE}".to_owned(),
            });
            rest = inner.get(end + 1..).unwrap_or("");
        } else {
            out.push_str("${MAKE_VALUE}");
            rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or("");
        }
    }
    out + rest
}

/// Offset of the closing bracket.
pub(crate) fn closing(inner: &str) -> usize {
    let mut depth = 1;
    inner
        .bytes()
        .position(|byte| {
            depth += match byte {
                b'(' | b'{' => 1,
                b')' | b'}' => -1,
                _ => 0,
            };
            depth == 0
        })
        .unwrap_or(inner.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_beyond_the_first_are_read() {
        for count in [1, 63, 64, 65, 500] {
            let mut text = String::from("all:\n");
            for number in 0..count {
                text.push_str(&format!("\techo {number}\n"));
            }
            text.push_str("last: ; id -u\n");
            let all = recipes(&text);
            assert_eq!(all.len(), count + 1, "{count}");
            assert_eq!(all.last().map(|last| last.trim()), Some("id -u"), "{count}");
        }
    }
}
