//! Scopes of tokens, as servers name them (RFC 6749, 3.3) and as commands ask for them.

/// Scopes of a list that spaces separate; `None` when one has characters that scopes do not have (RFC 6749, 3.3).
#[must_use]
pub fn scopes(list: &str) -> Option<Vec<&str>> {
    let all: Vec<&str> = list.split_ascii_whitespace().collect();
    let is_scope = |scope: &&str| scope.bytes().all(|b| matches!(b, b'!' | b'#'..=b'[' | b']'..=b'~'));
    (!all.is_empty() && all.iter().all(is_scope)).then_some(all)
}

/// Next command after a refusal for want of these scopes. Scopes that a shell would read otherwise are not shown as words of a command.
pub(crate) fn more_rights(list: Option<&str>) -> String {
    let is_plain = |scope: &&str| {
        scope.len() <= 100
            && !scope.starts_with('-')
            && scope.bytes().all(|b| b.is_ascii_alphanumeric() || b":._/+@-".contains(&b))
    };
    let wanted = list.and_then(scopes).filter(|all| all.len() <= 20 && all.iter().all(is_plain));
    match wanted {
        Some(all) => {
            let options: Vec<String> = all.iter().map(|scope| format!("‹right={scope}›")).collect();
            let options = options.join(" ");
            format!(
                "it wants more rights ({}): hotcell mcp servers login NAME --seal SOURCE {options} asks the user for them",
                all.join(" ")
            )
        }
        None => "hotcell mcp servers login NAME --seal SOURCE ‹right=SCOPE› asks the user for more rights"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_scopes_only_as_harmless_words() {
        for (list, shown) in [
            (Some("read write"), "‹right=read› ‹right=write›"),
            (
                Some("https://example.com/auth/drive.readonly"),
                "‹right=https://example.com/auth/drive.readonly›",
            ),
            (Some("a;rm"), "‹right=SCOPE›"),
            (Some("$(id)"), "‹right=SCOPE›"),
            (Some("--json"), "‹right=SCOPE›"),
            (Some("'"), "‹right=SCOPE›"),
            (Some("\u{1b}[2J"), "‹right=SCOPE›"),
            (Some(""), "‹right=SCOPE›"),
            (None, "‹right=SCOPE›"),
        ] {
            assert!(more_rights(list).contains(shown), "{list:?}: {}", more_rights(list));
        }
    }
}
