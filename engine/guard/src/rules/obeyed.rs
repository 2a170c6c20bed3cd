//! Files whose text agents obey by their names.

use super::path::basename;

/// True for the path of a file that agents obey by its name in every project, and not by where it lies.
pub(super) fn is_obeyed(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace('\\', "/");
    let base = basename(&path);
    let is_rule = [".mdc", ".instructions.md", ".chatmode.md"].iter().any(|ending| base.ends_with(ending));
    let within = |folder: &str| path.starts_with(folder) || path.contains(&format!("/{folder}"));
    is_rule
        || matches!(
            base,
            "agents.md"
                | "claude.md"
                | "claude.local.md"
                | "gemini.md"
                | "codex.md"
                | "skill.md"
                | "copilot-instructions.md"
                | ".cursorrules"
                | ".windsurfrules"
                | ".clinerules"
                | ".goosehints"
                | ".roorules"
        )
        || base.ends_with(".md") && [".claude/", ".cursor/rules/", ".clinerules/"].iter().any(|f| within(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obeyed_files_are_known_by_name() {
        for (path, is) in [
            ("AGENTS.md", true),
            ("a/.cursor/rules/x.mdc", true),
            ("~/.claude/commands/x.md", true),
            ("C:\\p\\CLAUDE.md", true),
            ("README.md", false),
            ("prompts/x.md", false),
            ("llms.txt", false),
            ("agents.py", false),
        ] {
            assert_eq!(is_obeyed(path), is, "{path}");
        }
    }
}
