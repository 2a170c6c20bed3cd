//! Names that make somebody else's program run code: what a program wrote there is not taken over unasked.

use std::path::Path;

/// Files and folders that are run or believed by tools of the project's owner, as path suffixes or whole names.
/// A name with a slash at its end stands for all that is below it.
const ANYWHERE: &[&str] = &[
    ".git/hooks/",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/worktrees/",
    ".git/rebase-merge/",
    ".git/rebase-apply/",
    ".git/sequencer/",
    ".git/info/attributes",
    ".git/modules/",
    ".gitmodules",
    ".gitattributes",
    ".gitconfig",
    ".lfsconfig",
    ".husky/",
    ".githooks/",
    ".hg/hgrc",
    ".hg/hgrc-not-shared",
    ".hg/sharedpath",
    ".jj/repo/",
    ".mcp.json",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".xprofile",
    ".cshrc",
    ".tcshrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".yarn/",
    ".pnpmfile.cjs",
    ".cargo/config",
    ".cargo/config.toml",
    ".mvn/",
    ".gdbinit",
    ".lldbinit",
    ".tmux.conf",
    ".pypirc",
    ".netrc",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".ssh/",
    ".gnupg/",
    ".config/fish/",
    ".config/git/",
    ".config/autostart/",
    ".config/systemd/",
    ".direnv/",
    ".mise.toml",
    "mise.toml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
];

/// Settings of editors, agents and continuous integration.
const TOOLS: &[&str] = &[
    ".vscode/",
    ".vs/",
    ".fleet/",
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
    ".clinerules",
    ".roo/",
    ".kiro/",
    ".opencode/",
    "opencode.json",
    ".devcontainer/",
    ".github/",
    ".gitlab-ci.yml",
    ".gitlab/",
    ".gitea/",
    ".forgejo/",
    ".woodpecker/",
    ".woodpecker.yml",
    ".drone.yml",
    ".cirrus.yml",
    "appveyor.yml",
    ".appveyor.yml",
    ".circleci/",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".buildkite/",
    "hotcell.toml",
    ".hotcell/",
];

/// The protected name that a path below a project falls under. Names count as the same that file systems may take for the
/// same: in upper and lower case, with characters that nobody sees, with dots and spaces at the end.
#[must_use]
pub fn protected(path: &Path) -> Option<&'static str> {
    let names: Vec<_> = path.to_string_lossy().split('/').map(folded).collect();
    let within = format!("/{}/", names.join("/"));
    ANYWHERE.iter().chain(TOOLS).copied().find(|name| {
        let wanted = name.to_lowercase();
        within.contains(&format!("/{}/", wanted.trim_end_matches('/')))
    })
}

/// A name as the least careful file system reads it: ext4 and f2fs that fold case, NTFS, HFS+.
fn folded(name: &str) -> String {
    let seen: String = name.chars().filter(|c| !is_ignorable(*c)).collect();
    let lower = seen.to_lowercase().replace('\u{17f}', "s");
    // NTFS drops them at the end, and has short names.
    match lower.trim_end_matches([' ', '.']) {
        "git~1" => ".git".to_owned(),
        "" => lower,
        trimmed => trimmed.to_owned(),
    }
}

/// Unicode's Default_Ignorable_Code_Point.
fn is_ignorable(c: char) -> bool {
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
            (".git/commondir", Some(".git/commondir")),
            (".git/config.worktree", Some(".git/config.worktree")),
            (".git/worktrees/x/commondir", Some(".git/worktrees/")),
            (".husky/pre-commit", Some(".husky/")),
            (".yarn/releases/yarn.cjs", Some(".yarn/")),
            // As file systems that fold names, or drop what nobody sees, read them.
            (".v\u{17f}code/tasks.json", Some(".vscode/")),
            (".g\u{200c}it/hooks/x", Some(".git/hooks/")),
            (".git\u{200b}/hoo\u{212a}s/x", Some(".git/hooks/")),
            (".git./hooks /x", Some(".git/hooks/")),
            ("git~1/config", Some(".git/config")),
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
