//! Names that make somebody else's program run code: what a program wrote there is not taken over unasked.

use std::path::Path;

/// Files and folders that are run or believed by tools of the project's owner, as path suffixes or whole names.
/// A name with a slash at its end stands for all that is below it.
const ANYWHERE: [&str; 32] = [
    ".git/hooks/",
    ".git/config",
    ".git/info/attributes",
    ".git/modules/",
    ".gitmodules",
    ".gitattributes",
    ".gitconfig",
    ".hg/hgrc",
    ".mcp.json",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    ".vimrc",
    ".exrc",
    ".ssh/",
    ".gnupg/",
    ".config/fish/",
    ".direnv/",
    ".pre-commit-config.yaml",
];

/// Settings of editors, agents and continuous integration.
const TOOLS: [&str; 27] = [
    ".vscode/",
    ".idea/",
    ".cursor/",
    ".cursorrules",
    ".zed/",
    ".windsurf/",
    ".windsurfrules",
    ".claude/",
    ".claude.json",
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    ".gemini/",
    ".codex/",
    ".aider.conf.yml",
    ".continue/",
    ".devcontainer/",
    ".github/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".buildkite/",
    "hotcell.toml",
    ".hotcell/",
];

/// The protected name that a path below a project falls under. Upper and lower case count as the same, because file
/// systems may think so.
#[must_use]
pub fn protected(path: &Path) -> Option<&'static str> {
    let lower = path.to_string_lossy().to_lowercase();
    let within = format!("/{lower}/");
    ANYWHERE.iter().chain(&TOOLS).copied().find(|name| {
        let wanted = name.to_lowercase();
        within.contains(&format!("/{}/", wanted.trim_end_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_run_is_protected() {
        for (path, by) in [
            (".git/hooks/pre-commit", Some(".git/hooks/")),
            ("vendor/x/.git/hooks/post-merge", Some(".git/hooks/")),
            (".git/config", Some(".git/config")),
            (".GIT/Config", Some(".git/config")),
            (".git/hooks", Some(".git/hooks/")),
            (".mcp.json", Some(".mcp.json")),
            ("sub/.vscode/tasks.json", Some(".vscode/")),
            (".github/workflows/ci.yml", Some(".github/")),
            ("home/.bashrc", Some(".bashrc")),
            ("CLAUDE.md", Some("CLAUDE.md")),
            ("hotcell.toml", Some("hotcell.toml")),
            (".git/index", None),
            (".git/objects/aa/bb", None),
            ("src/main.py", None),
            (".github.py", None),
            ("docs/AGENTS.md.txt", None),
            ("vscode/tasks.json", None),
        ] {
            assert_eq!(protected(Path::new(path)), by, "{path}");
        }
    }
}
