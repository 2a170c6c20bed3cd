//! Untrusted text as HTML: escaped by the function that the command line uses, and then for HTML. Each escape is marked,
//! so that it can be told from the same characters in the text.

use hotcell_sandbox::text::html::escape_into;
use hotcell_sandbox::text::parameters::with_parameters;
use hotcell_state::report::{printable, printable_line};
use maud::{Markup, PreEscaped, html};

/// Untrusted text in one line, isolated from the reading order around it.
#[must_use]
pub fn said(text: &str) -> Markup {
    html! { bdi { (marked(&printable(text))) } }
}

/// A message of hotcell with its parameters as options of the command line, which the reader of the page has.
#[must_use]
pub fn in_options(message: &str) -> String {
    with_parameters(message, |key, value| {
        let option = format!("--{}", key.replace('_', "-"));
        value.map_or_else(|| option.clone(), |value| format!("{option} {value}"))
    })
}

/// The beginning of an untrusted text in one line; says how much is left out.
#[must_use]
pub fn beginning(text: &str, most: usize) -> Markup {
    match text.char_indices().nth(most) {
        None => said(text),
        Some((at, _)) => {
            let left = text[at..].chars().count();
            html! { (said(&text[..at])) span.more { "… " (left) " more " @if left == 1 { "character" } @else { "characters" } } }
        }
    }
}

/// A line of an untrusted text; tabs are kept.
#[must_use]
pub fn line(text: &str) -> Markup {
    marked(&printable_line(text))
}

/// Printable text with its escapes marked. A backslash before `u{` is doubled where it was one in the text, so that an
/// odd number of them begins an escape.
fn marked(printable: &str) -> Markup {
    let mut out = String::with_capacity(printable.len() + 16);
    let mut rest = printable;
    while let Some(at) = rest.find('\\') {
        let run = rest[at..].bytes().take_while(|b| *b == b'\\').count();
        let end = at + run;
        let escape =
            rest[end..].strip_prefix("u{").and_then(|after| after.find('}')).filter(|_| run % 2 == 1);
        match escape {
            Some(close) => {
                let stop = end + 2 + close + 1;
                escape_into(&rest[..end - 1], &mut out);
                out.push_str("<mark>");
                escape_into(&rest[end - 1..stop], &mut out);
                out.push_str("</mark>");
                rest = &rest[stop..];
            }
            None => {
                escape_into(&rest[..end], &mut out);
                rest = &rest[end..];
            }
        }
    }
    escape_into(rest, &mut out);
    PreEscaped(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_text_becomes_visible_text() {
        for (text, want) in [
            ("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"),
            ("</script><script>alert(1)</script>", "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("x\u{202e}y", "x<mark>\\u{202e}</mark>y"),
            ("\u{200b}", "<mark>\\u{200b}</mark>"),
            ("\x1b[2J", "<mark>\\u{1b}</mark>[2J"),
            ("\\u{202e}", "\\\\u{202e}"),
            ("\\\u{202e}", "\\\\<mark>\\u{202e}</mark>"),
            ("C:\\new", "C:\\new"),
            ("\\u{", "\\\\u{"),
        ] {
            assert_eq!(line(text).into_string(), want, "{text:?}");
            assert_eq!(said(text).into_string(), format!("<bdi>{want}</bdi>"), "{text:?}");
        }
        assert_eq!(in_options("raise ‹max_disk› or ‹network=none›"), "raise --max-disk or --network none");
        assert_eq!(line("a\tb").into_string(), "a\tb");
        assert_eq!(said("a\nb").into_string(), "<bdi>a\\nb</bdi>");
        assert_eq!(beginning("abc", 3).into_string(), "<bdi>abc</bdi>");
        assert!(beginning("abcd", 3).into_string().ends_with("1 more character</span>"));
    }

    proptest! {
        #[test]
        fn html_of_any_text_has_only_own_marks(text in any::<String>()) {
            let html = line(&text).into_string();
            let bare = html.replace("<mark>", "").replace("</mark>", "");
            prop_assert!(!bare.contains(['<', '>', '"', '\'']));
            prop_assert_eq!(html.matches("<mark>").count(), html.matches("</mark>").count());
            // Each mark is one escape, and there are as many as characters that were escaped by their number.
            for marked in html.split("<mark>").skip(1) {
                let inside = marked.split("</mark>").next().unwrap_or_default();
                prop_assert!(inside.starts_with("\\u{") && inside.ends_with('}'), "{}", inside);
            }
        }
    }
}
