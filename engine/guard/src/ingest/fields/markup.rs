//! Markup: programs that a build in XML starts, and scripts of a picture.

use super::{MAX_COMMANDS, bounded, command, piece, words};
use crate::command::make::variables;
use crate::context::Cx;
use crate::language::Language;
use crate::limits::too_deep;
use crate::report::PartState;

/// Maximum number of scripts of a page that are read.
const MAX_SCRIPTS: usize = 128;
/// Maximum number of handlers of a page that are read.
const MAX_HANDLERS: usize = 256;

/// Programs that MSBuild starts.
pub(super) fn msbuild(cx: &mut Cx<'_>, text: &str) {
    for tag in tags(text, "Exec") {
        if let Some(line) = attribute(bounded(cx, tag), "Command") {
            command(cx, text, &variables(&line), "<Exec");
        }
    }
    for name in ["PreBuildEvent", "PostBuildEvent", "PreLinkEvent", "Command"] {
        for inner in contents(text, name) {
            let inner = bounded(cx, inner);
            command(cx, text, &variables(&decoded(inner)), inner.trim());
        }
    }
}

/// Programs that Ant starts: `<exec executable="x"><arg value="y"/></exec>`.
pub(super) fn ant(cx: &mut Cx<'_>, text: &str) {
    for (at, _) in text.match_indices("<exec").take(MAX_COMMANDS) {
        let whole = piece(text, at);
        let whole = &whole[..whole.find("</exec").or_else(|| whole.find("/>")).unwrap_or(whole.len())];
        let Some(program) = attribute(bounded(cx, whole), "executable") else { continue };
        let mut line = vec![program];
        for tag in tags(whole, "arg") {
            line.extend(attribute(tag, "value"));
            let more = attribute(tag, "line").unwrap_or_default();
            line.extend(more.split_whitespace().map(str::to_owned));
        }
        words(cx, text, &line, "<exec");
    }
}

/// Programs that a Maven plugin starts: `<executable>x</executable>` with `<argument>y</argument>`.
pub(super) fn maven(cx: &mut Cx<'_>, text: &str) {
    ant(cx, text);
    for (at, _) in text.match_indices("<executable>").take(MAX_COMMANDS) {
        let whole = piece(text, at);
        let whole = &whole[..whole.find("</configuration").unwrap_or(whole.len())];
        let whole = bounded(cx, whole);
        let mut line: Vec<String> = contents(whole, "executable").into_iter().take(1).map(decoded).collect();
        line.extend(contents(whole, "argument").into_iter().map(decoded));
        words(cx, text, &line, "<executable>");
    }
}

/// Command lines of an editor's run configurations, external tools and watchers of files.
pub(super) fn idea(cx: &mut Cx<'_>, text: &str) {
    let (options, all) = options(text);
    if !all {
        cx.not_read("more or longer commands in a file than are read");
    }
    // The program of an external tool or a watcher, with its parameters behind it.
    for (at, (name, value)) in options.iter().enumerate() {
        let line = match &**name {
            "script_text" | "interpreter_path" => value.clone(),
            "command" | "program" => {
                let mut rest = options[at + 1..]
                    .iter()
                    .take_while(|(name, _)| !matches!(&**name, "command" | "program"));
                let parameters = rest.find(|(name, _)| matches!(&**name, "parameters" | "arguments"));
                format!("{value} {}", parameters.map_or("", |(_, value)| value))
            }
            _ => continue,
        };
        if !line.trim().is_empty() {
            command(cx, text, &line, "<option");
        }
    }
}

/// Options that hold a command or a part of one, by their names in lower case, and whether these are all.
fn options(text: &str) -> (Vec<(String, String)>, bool) {
    const OPEN: &str = "<option";
    let mut out = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(OPEN) {
        from += at + OPEN.len();
        let rest = piece(text, from);
        if !rest.starts_with(|c: char| c.is_whitespace()) {
            continue;
        }
        let whole = from + rest.len() == text.len();
        let Some(end) = end_of_tag(rest).or(whole.then_some(rest.len())) else { return (out, false) };
        let tag = &rest[..end];
        from += end;
        let name = attribute(tag, "name").unwrap_or_default().to_ascii_lowercase();
        let is_of_command = matches!(
            &*name,
            "script_text" | "interpreter_path" | "command" | "program" | "parameters" | "arguments"
        );
        if let Some(value) = attribute(tag, "value").filter(|_| is_of_command) {
            if out.len() == MAX_COMMANDS {
                return (out, false);
            }
            out.push((name, value));
        }
    }
    (out, true)
}

/// True when a picture or a page contains a script or a handler of events.
pub(super) fn is_active(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.contains("<script") || lower.contains("javascript:") || !handlers(text).is_empty()
}

/// Scripts of a picture or a page, handlers of events, and addresses that are scripts.
pub(super) fn page(cx: &mut Cx<'_>, text: &str) -> PartState {
    let mut state = PartState::Parsed;
    let scripts = scripts(text);
    if scripts.len() > MAX_SCRIPTS {
        state = PartState::SetAside("more scripts than are read in a page".to_owned());
    }
    for (tag, script) in scripts.into_iter().take(MAX_SCRIPTS) {
        let kind = attribute(tag, "type").unwrap_or_default().to_ascii_lowercase();
        // Others are data, or templates.
        if !kind.is_empty()
            && !kind.contains("javascript")
            && !kind.contains("ecmascript")
            && kind != "module"
        {
            continue;
        }
        let script = script.trim().trim_start_matches("<![CDATA[").trim_end_matches("]]>");
        // A page is only shown here: what cannot be read in it does not make the scan incomplete.
        if script.len() > cx.limits.parse_bytes || too_deep(script, cx.limits, false).is_some() {
            state = PartState::SetAside("a script of the page is too large or nested too deeply".to_owned());
            continue;
        }
        let at = crate::ingest::manifest::place(text, script);
        cx.child(Language::JavaScript, script, at, &["javascript"]);
    }
    for handler in handlers(text).into_iter().take(MAX_HANDLERS) {
        let at = crate::ingest::manifest::place(text, handler);
        cx.child(Language::JavaScript, &decoded(handler), at, &["javascript"]);
    }
    state
}

/// Start tags of scripts, without their names, and what is between them and the end tags.
fn scripts(text: &str) -> Vec<(&str, &str)> {
    let lower = text.to_ascii_lowercase();
    let mut out = Vec::new();
    let mut from = 0;
    while let Some(open) = lower[from..].find("<script").map(|at| from + at + "<script".len()) {
        let Some(begin) = lower[open..].find('>').map(|at| open + at + 1) else { break };
        let end = lower[begin..].find("</script").map_or(text.len(), |at| begin + at);
        out.push((&text[open..begin], &text[begin..end]));
        from = end;
    }
    out
}

/// Values of the attributes `onNAME="…"`, and of those that begin with `javascript:`.
fn handlers(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let lower = text.to_ascii_lowercase();
    for (at, _) in lower.match_indices(" on").take(MAX_COMMANDS) {
        let rest = piece(text, at + 3);
        let name = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let value = rest[name..].trim_start().strip_prefix('=').map(str::trim_start);
        if let Some(inner) = value.filter(|_| name > 2).and_then(in_quotes) {
            out.push(inner);
        }
    }
    for (at, mark) in lower.match_indices("javascript:").take(MAX_COMMANDS) {
        let before = text[..at].chars().next_back();
        if let Some(quote @ ('"' | '\'')) = before {
            out.extend(piece(text, at + mark.len()).split(quote).next());
        }
    }
    out.retain(|inner| !inner.trim().is_empty());
    out
}

fn in_quotes(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    value[1..].split_once(quote).map(|(inner, _)| inner)
}

/// Start tags of a name, up to `>`; a `>` in quotes belongs to the tag.
fn tags<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut out = Vec::new();
    for (at, open) in text.match_indices(&format!("<{name}")).take(MAX_COMMANDS) {
        let rest = piece(text, at + open.len());
        if !rest.starts_with(|c: char| c.is_whitespace()) {
            continue;
        }
        out.push(&rest[..end_of_tag(rest).unwrap_or(rest.len())]);
    }
    out
}

/// Place of the `>` that ends a tag.
fn end_of_tag(rest: &str) -> Option<usize> {
    let mut quote = None;
    let end = rest.char_indices().find(|(_, c)| {
        match (quote, *c) {
            (Some(mark), c) if c == mark => quote = None,
            (None, '"' | '\'') => quote = Some(*c),
            (None, '>') => return true,
            _ => {}
        }
        false
    });
    end.map(|(at, _)| at)
}

/// Value of an attribute, decoded.
fn attribute(tag: &str, name: &str) -> Option<String> {
    tag.match_indices(name).find_map(|(at, _)| {
        let begins = tag[..at].ends_with(|c: char| c.is_whitespace());
        let value = tag[at + name.len()..].trim_start().strip_prefix('=').filter(|_| begins)?;
        in_quotes(value.trim_start()).map(decoded)
    })
}

/// Contents of the elements of a name that contain only text.
fn contents<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}"));
    let begins = text.match_indices(&open).take(MAX_COMMANDS);
    begins
        .filter_map(|(at, open)| {
            let rest = piece(text, at + open.len());
            rest.split_once(&close).map(|(inner, _)| inner).or(Some(rest))
        })
        .collect()
}

/// Decodes the entities of XML.
fn decoded(text: impl AsRef<str>) -> String {
    let mut out = String::new();
    let mut rest = text.as_ref();
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').filter(|(name, _)| name.len() <= 8);
        let found = entity.and_then(|(name, rest)| Some((character(name)?, rest)));
        match found {
            Some((c, left)) => {
                out.push(c);
                rest = left;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    Some(match name {
        "quot" => '"',
        "apos" => '\'',
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        _ => {
            let number = name.strip_prefix('#')?;
            let hex = number.strip_prefix(['x', 'X']);
            let code = hex.map_or_else(|| number.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())?;
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::MAX_PIECE;
    use super::*;

    #[test]
    fn options_with_commands_are_not_hidden_by_others() {
        let bad = "<option name=\"SCRIPT_TEXT\" value=\"id\" />";
        let many = format!("{}{bad}", "<option name='a' value='b' />".repeat(5000));
        assert_eq!(options(&many), (vec![("script_text".to_owned(), "id".to_owned())], true));
        let (found, all) = options(&bad.repeat(MAX_COMMANDS + 1));
        assert_eq!((found.len(), all), (MAX_COMMANDS, false));
        let long = format!("<option name='SCRIPT_TEXT' value='{}id' />", " ".repeat(2 * MAX_PIECE));
        assert!(!options(&long).1);
        assert!(options("<options a='b'><option name='x'").1);
    }

    #[test]
    fn elements_and_attributes() {
        let text =
            "<Exec Command='a &gt; b &amp;&amp; c' X=\">\"/><Execute Command='d'/><argument>e</argument>";
        assert_eq!(tags(text, "Exec").len(), 1);
        assert_eq!(attribute(tags(text, "Exec")[0], "Command").as_deref(), Some("a > b && c"));
        assert_eq!(contents(text, "argument"), ["e"]);
        assert_eq!(decoded("&#x26;&#38;&nbsp;&"), "&&&nbsp;&");
        assert_eq!(handlers("<svg onload=\"f()\"><a href='javascript:g()'>"), ["f()", "g()"]);
        assert!(!is_active("<svg><path d='m'/></svg>"));
    }
}
