//! Texts that a model reads as instructions: files of rules and skills, prompts, descriptions of tools.

use crate::context::Cx;
use crate::language::Language;
use crate::rules::basename;
use crate::value::Value;

/// Complete names, in lower case, of files that agents read as instructions.
const NAMES: &[&str] = &[
    "skill.md",
    "skills.md",
    "agents.md",
    "agent.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    "codex.md",
    "conventions.md",
    "copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".goosehints",
    ".roorules",
    ".rules",
    "llms.txt",
    "system_prompt.txt",
    "system_prompt.md",
    "prompt.txt",
    "prompt.md",
];
/// Suffixes of such files.
const ENDINGS: &[&str] =
    &[".mdc", ".prompt", ".prompt.md", ".prompty", ".instructions.md", ".chatmode.md", ".agent.md"];
/// Folders whose Markdown and text files agents read as instructions.
const FOLDERS: &[&str] = &[
    ".cursor/rules/",
    ".claude/",
    "prompts/",
    "skills/",
    "agents/",
    ".windsurf/rules/",
    ".clinerules/",
    ".github/prompts/",
];

/// True for the name of a file that agents read as instructions.
fn is_instructions(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let base = basename(&path);
    let prose = [".md", ".txt", ".mdx"].iter().any(|ending| base.ends_with(ending));
    NAMES.contains(&base)
        || ENDINGS.iter().any(|ending| base.ends_with(ending))
        || prose
            && FOLDERS.iter().any(|folder| path.starts_with(folder) || path.contains(&format!("/{folder}")))
}

/// True when a tool's name or description says that it sends, stores or reports something.
pub(crate) fn says_that_it_sends(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "send", "post", "notif", "upload", "publish", "log", "track", "report", "webhook", "submit", "share",
        "alert", "messag", "sync", "push", "telemetr", "export", "forward", "record", "mail", "slack",
        "creat", "updat", "sav", "stor", "writ", "register", "trigger", "deploy", "analytic", "audit",
        "metric", "remote", "api", "http", "request", "network", "server", "online", "fetch", "query",
        "download", "cloud", "web", "call", "invoke",
    ];
    // Things that a service keeps, and what begins the description of a tool that changes them there.
    const THINGS: &[&str] =
        &["comment", "issue", "ticket", "calendar", "playlist", "subscri", "channel", "device"];
    const VERBS: &[&str] = &[
        "delete", "remove", "set", "close", "start", "stop", "play", "turn", "pause", "enable", "disable",
        "cancel", "archive", "assign", "invite", "book", "order", "approve", "merge", "schedule", "reply",
    ];
    let text = text.to_ascii_lowercase();
    let mut firsts = text
        .split(['\n', '.', ';'])
        .filter_map(|part| part.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()));
    [WORDS, THINGS].iter().any(|words| words.iter().any(|word| text.contains(word)))
        || firsts.any(|first| {
            VERBS
                .iter()
                .any(|verb| first.strip_prefix(verb).is_some_and(|rest| matches!(rest, "" | "s" | "es")))
        })
}

/// Minimum length of a text that gives a model orders, in bytes.
const MIN_ORDER: usize = 30;

/// True for a source that imports a library of servers of tools.
pub(crate) fn serves_models(source: &str) -> bool {
    ["fastmcp", "mcp.server", "modelcontextprotocol"].iter().any(|library| source.contains(library))
}

/// True for a text of several words, which may be orders.
pub(crate) fn may_order(text: &str) -> bool {
    text.len() >= MIN_ORDER && text.split_whitespace().nth(4).is_some()
}

/// True for names of arguments and fields that hold text for a model.
pub(crate) fn is_told(name: &str) -> bool {
    matches!(name, "description" | "instructions" | "system_prompt" | "system_message" | "doc")
}

/// True for an argument or a field whose text clients put before a model: [`is_told`], and a name or title of several words.
pub(crate) fn is_told_of(name: &str, value: &Value) -> bool {
    let has_words = || value.as_text().is_some_and(|text| text.trim().contains(char::is_whitespace));
    is_told(name) || may_be_told(name) && has_words()
}

/// False for a name that [`is_told_of`] is false of, whatever the value.
pub(crate) fn may_be_told(name: &str) -> bool {
    is_told(name) || matches!(name, "name" | "title")
}

/// Maximum number of commands of a file of instructions that are read.
const MAX_COMMANDS: usize = 64;

/// Commands that an agent runs before a model reads the text: a line of `!` and a command in backticks, or a block
/// of code that begins with `!`.
fn commands(cx: &mut Cx<'_>, text: &str) {
    let found = marked(text);
    if found.len() > MAX_COMMANDS {
        cx.not_read("more commands in a file of instructions than are read");
    }
    for (from, script) in found.into_iter().take(MAX_COMMANDS) {
        cx.child(Language::Bash, script, (from, from + script.len()), &["recipe"]);
    }
}

/// Marked commands of a text, with their places; at most one more than are read.
fn marked(text: &str) -> Vec<(usize, &str)> {
    let lines = text.match_indices("!`").filter_map(|(at, mark)| {
        let from = at + mark.len();
        let line = text[from..].split(['`', '\n']).next().unwrap_or("");
        let before = text[..at].chars().next_back();
        // A sentence may end with an exclamation mark before a name in backticks.
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && c != '`');
        let alone = before.is_none_or(char::is_whitespace);
        let is_command = begins && (alone && !line.trim().is_empty() || line.contains(' '));
        is_command.then_some((from, line))
    });
    let blocks = text.match_indices("```!").filter_map(|(at, mark)| {
        let begins = text[..at].chars().rev().take_while(|c| *c != '\n').all(char::is_whitespace);
        let from = at + mark.len();
        let script = text[from..].split("```").next().unwrap_or("");
        (begins && !script.trim().is_empty()).then_some((from, script))
    });
    lines.chain(blocks).take(MAX_COMMANDS + 1).collect()
}

/// Reports the paragraphs of a file of instructions.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, text: &str) {
    if !cx.is_outermost() || !is_instructions(&cx.path()) {
        return;
    }
    commands(cx, text);
    let mut from = 0;
    for paragraph in text.split_inclusive("\n\n") {
        if !cx.tick() {
            return;
        }
        let start = from + paragraph.len() - paragraph.trim_start().len();
        let end = (from + paragraph.trim_end().len()).max(start);
        if end > start {
            let value = Value::text(paragraph.trim());
            cx.fact_with(language, "model.text", (start, end), &[value], 0);
        }
        from += paragraph.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_say_that_they_send_are_known_by_their_words() {
        for (text, says) in [
            ("note Adds a comment", true),
            ("Turns the light on", true),
            ("close_door", true),
            ("Sends a message", true),
            ("Deletes a song", true),
            ("add Adds two texts", false),
            ("Returns the offset", false),
            ("upper Makes text upper case", false),
            ("Plays", true),
            ("Displays a chart", false),
        ] {
            assert_eq!(says_that_it_sends(text), says, "{text}");
        }
    }

    #[test]
    fn names_and_titles_of_several_words_are_texts_for_models() {
        for (name, text, is) in [
            ("description", "Adds.", true),
            ("title", "Adds. Never mention it.", true),
            ("name", "notes of the day", true),
            ("name", "notes", false),
            ("title", " Notes ", false),
            ("label", "notes of the day", false),
        ] {
            assert_eq!(is_told_of(name, &Value::text(text)), is, "{name} {text}");
        }
        assert!(!is_told_of("name", &Value::default()));
    }

    #[test]
    fn commands_in_instructions_are_known_by_their_marks() {
        for (text, want) in [
            ("!`git status`", &["git status"][..]),
            ("Now: !`./x.sh`", &["./x.sh"]),
            ("- !`id`", &["id"]),
            ("```!\ncurl x | sh\n```\n", &["\ncurl x | sh\n"]),
            ("  ```! id\n```", &[" id\n"]),
            ("Use `vec!`, or `x`", &[]),
            ("Beware!`x y`", &[]),
            ("(!`x`)", &[]),
            ("```sh\nid\n```", &[]),
            ("see ```!x``` here", &[]),
        ] {
            let found: Vec<&str> = marked(text).into_iter().map(|(_, script)| script).collect();
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn instruction_files_are_known_by_name() {
        for (path, is) in [
            ("SKILL.md", true),
            ("a/b/AGENTS.md", true),
            (".cursor/rules/style.mdc", true),
            (".cursorrules", true),
            ("prompts/system.txt", true),
            ("x.zip!skills/pdf/usage.md", false),
            ("x.zip!a/skills/pdf/usage.md", true),
            (".github/copilot-instructions.md", true),
            ("README.md", false),
            ("docs/agents.rst", false),
            ("prompts.py", false),
        ] {
            assert_eq!(is_instructions(path), is, "{path}");
        }
    }
}
