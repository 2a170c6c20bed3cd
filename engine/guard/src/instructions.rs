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
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

/// True for names of arguments and fields that hold text for a model.
pub(crate) fn is_told(name: &str) -> bool {
    matches!(name, "description" | "instructions" | "system_prompt" | "system_message" | "doc")
}

/// Reports the paragraphs of a file of instructions.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, text: &str) {
    if !cx.is_outermost() || !is_instructions(&cx.path()) {
        return;
    }
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
