//! Tests of the module above.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn by(path: &str) -> Option<&'static str> {
    protected(Path::new(path)).map(|why| match why {
        Protection::Named(rule) => rule.name.as_str(),
        Protection::Hidden => "hidden",
        Protection::Short => "short",
        Protection::Unseen => "unseen",
    })
}

#[test]
fn protected_names_file_parses_with_reasons() {
    let mut seen = HashSet::new();
    let mut sections = HashSet::new();
    for line in NAMES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            assert!(line.ends_with(']') && sections.insert(line), "{line}");
            continue;
        }
        let (names, reason) = line.split_once(" : ").expect(line);
        assert!(reason.len() >= 10 && !reason.contains(" : ") && !sections.is_empty(), "{line}");
        for name in names.split(' ') {
            assert!(seen.insert(name.to_lowercase()), "{name} stands twice");
            assert!(!name.is_empty() && !name.starts_with('/') && !name.ends_with('/'), "{line}");
            assert!(name.split('/').all(|name| name.replace('*', "").len() > 1), "{name} is too wide");
        }
    }
    assert!(sections.len() > 15 && seen.len() > 1000, "{} {}", sections.len(), seen.len());
    assert_eq!(rules().count() + lines(NAMES).filter(|(kind, ..)| is_data_section(kind)).count(), seen.len());
    // Names in the data sections are single hidden components.
    assert!(lines(NAMES).filter(|(kind, ..)| is_data_section(kind)).all(|(_, name, _)| !name.contains('/')));
}

#[test]
fn names_executed_by_tools_are_protected() {
    for (path, want) in [
        (".git/hooks/pre-commit", Some(".git")),
        ("vendor/x/.git/objects/aa/bb", Some(".git")),
        (".git/index", Some(".git")),
        (".GIT/Config", Some(".git")),
        (".vscode/.git/x", Some(".git")),
        (".mcp.json", Some(".mcp.json")),
        ("sub/.vscode/tasks.json", Some(".vscode")),
        (".github/workflows/ci.yml", Some(".github")),
        ("CLAUDE.md", Some("CLAUDE.md")),
        ("docs/claude.local.MD", Some("CLAUDE.*.md")),
        ("AGENTS.override.md", Some("AGENTS.*.md")),
        ("hotcell.toml", Some("hotcell.toml")),
        ("opencode.jsonc", Some("opencode.jsonc")),
        ("x.code-workspace", Some("*.code-workspace")),
        ("tools/bazel", Some("tools/bazel")),
        ("a/tools/bazel.exe", Some("tools/bazel.*")),
        ("_darcs/prefs/defaults", Some("_darcs")),
        ("web/vite.config.ts", Some("*.config.ts")),
        ("rust-toolchain.toml", Some("rust-toolchain.toml")),
        ("gradle/wrapper/gradle-wrapper.properties", Some("gradle/wrapper")),
        // Hidden, and not listed.
        (".nobody-knows", Some("hidden")),
        ("a/.nobody-knows/b", Some("hidden")),
        (".pytest_cache/.nobody-knows", Some("hidden")),
        ("ENVRC~1", Some("short")),
        ("src/b~1.py", Some("short")),
        ("a\\.nobody-knows", Some("hidden")),
        ("a/b\u{1b}[8m", Some("unseen")),
        ("a /b", Some("unseen")),
        // As read by file systems that fold names or drop invisible characters.
        (".v\u{17f}code/tasks.json", Some(".vscode")),
        (".g\u{200c}it/hooks/x", Some(".git")),
        (".git./hooks /x", Some(".git")),
        ("git~1/config", Some(".git")),
        ("a/\u{ff0e}envrc", Some(".envrc")),
        ("x\\.git\\config", Some(".git")),
        // Known as files only.
        (".gitignore/x", Some("hidden")),
        (".editorconfig/tasks.json", Some("hidden")),
        (".coverage.x/y", Some("hidden")),
        ("web/karma.conf.js", Some("*.conf.js")),
        ("vitest.workspace.ts", Some("*.workspace.ts")),
        // Files that people edit and no tool runs.
        (".gitignore", None),
        ("a/.dockerignore", None),
        (".editorconfig", None),
        (".env.example", None),
        (".pytest_cache/v/cache/lastfailed", None),
        (".coverage", None),
        ("node_modules/.package-lock.json", None),
        ("src/main.py", None),
        ("Makefile", None),
        ("package.json", None),
        ("Cargo.toml", None),
        ("pyproject.toml", None),
        ("github.py", None),
        ("docs/AGENTS.md.txt", None),
        ("vscode/tasks.json", None),
        ("src/config/index.ts", None),
        ("a.config.json", None),
        ("src/hooks/useThing.ts", None),
        ("tools/build", None),
        ("model.pth", None),
        ("a..b/c.", None),
    ] {
        assert_eq!(by(path), want, "{path}");
    }
}

/// Names that earlier versions let through, of every kind that a review tried.
#[test]
fn names_of_the_review_are_protected() {
    let all = "rust-toolchain.toml .helix/languages.toml a.code-workspace opencode.jsonc CLAUDE.local.md AGENTS.override.md \
        .agents/x crush.json .gitpod.yml .pdbrc .Rprofile .ghci .irbrc .perldb .bazelrc .bazelversion tools/bazel .pnp.cjs \
        lefthook.yaml lefthook-local.yml .tool-versions mise.local.toml .mise/config.toml .run/x .theia/x .dir-locals.el .sl/config \
        _darcs/prefs/defaults .reviewboardrc .repo/x .gclient .zlogout .env buildspec.yml .build.yml .tekton/x .git/remotes/x \
        .git/branches/x .git/objects/info/alternates .git/index .git/info/exclude .git/refs/heads/x .git/HEAD .git/packed-refs";
    for name in all.split_whitespace() {
        assert!(by(name).is_some(), "{name}");
        assert!(by(&format!("deep/{}", name.to_uppercase())).is_some(), "{name}");
    }
}

/// Settings that a language server, a linter, an agent, a pipeline or an interpreter reads from the folder,
/// without a leading dot.
#[test]
fn settings_that_are_not_hidden_are_protected() {
    let all = "rust-analyzer.toml rust-project.json buildServer.json gtags.conf ctags.d/x.ctags CMakeLists.txt.user CMakeLists.txt.user.4.9 \
        x.fsproj.user x.sqlproj.user obj/x.csproj.evil.targets obj/x.csproj.nuget.g.props phpcs.xml.dist phpstan.neon psalm.xml Steepfile \
        analysis_options.yaml cspell.json cspell.config.yaml babel.config.json knip.ts redocly.yaml dprint.json buf.yaml veridian.yml \
        gptme.toml codebuff.json fastmcp.json mcp.local.json fastagent.config.yaml hooks/hooks.json IDENTITY.md atlantis.yaml digger.yml \
        appspec.yml pantheon.yml docker-bake.override.hcl devshell.toml cabal.project.local pubspec_overrides.yaml rebar.config.script \
        packrat/init.R rlcompleter.py _pyrepl/readline.py wp-cli.yml git.exe project.inlang/settings.json nano-staged.js cog.toml";
    for name in all.split_whitespace() {
        assert!(by(name).is_some(), "{name}");
        assert!(by(&format!("deep/{}", name.to_uppercase())).is_some(), "{name}");
    }
    for free in [
        "src/analysis.rs",
        "cspell/words.txt",
        "hooks/useX.js",
        "user.ts",
        "auth.user.ts",
        "a.props",
        "identity.rs",
        "buf.gen.go",
    ] {
        assert_eq!(by(free), None, "{free}");
    }
}

#[test]
fn star_matches_any_characters() {
    for (pattern, name, want) in [
        ("a*", "abc", true),
        ("*.x", "a.x", true),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "acb", false),
        ("a*a", "a", false),
        ("a", "ab", false),
    ] {
        assert_eq!(fits(pattern, name), want, "{pattern} {name}");
    }
}

proptest! {
    #[test]
    fn spellings_of_protected_names_are_protected(
        at in 0usize..5000, upper in any::<u64>(), unseen in 0usize..40, tail in "[ .]{0,3}", above in "[a-z]{0,3}", below in "[a-z]{0,3}"
    ) {
        let all: Vec<_> = rules().collect();
        let name = all[at % all.len()].1.replace('*', "anything");
        let mut spelled = String::new();
        for (place, c) in name.chars().enumerate() {
            if place == unseen {
                spelled.push('\u{200d}');
            }
            if upper >> (place % 64) & 1 == 1 { spelled.extend(c.to_uppercase()) } else { spelled.push(c) }
        }
        let above = if above.is_empty() { above } else { format!("{above}/") };
        let below = if below.is_empty() { below } else { format!("/{below}") };
        let path = format!("{above}{spelled}{tail}{below}");
        prop_assert!(protected(Path::new(&path)).is_some(), "{path:?}");
    }

    #[test]
    fn hidden_names_are_protected_or_known_data(name in "\\.[^/\\\\]{1,12}") {
        let free = protected(Path::new(&name)).is_none();
        let names = spelling::names(&name);
        prop_assert!(!free || names.iter().all(|name| !is_hidden_name(name) || RULES.is_data(name, true)), "{name:?}");
    }
}
