//! Escapes text for HTML and XML.

/// Appends `text` to `out` with the five characters that have a meaning in HTML and XML escaped; the result can be text and the value of a
/// quoted attribute. Invisible characters stay: [`printable`](super::printable) replaces those.
///
/// ```
/// let mut out = String::new();
/// hotcell_sandbox::text::html::escape_into("<b>'&\"", &mut out);
/// assert_eq!(out, "&lt;b&gt;&#39;&amp;&quot;");
/// ```
pub fn escape_into(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}
