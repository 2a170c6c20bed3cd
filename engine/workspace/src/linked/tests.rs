//! Tests of the module above.

use std::os::unix::fs::symlink;

use super::*;

/// Makes files from paths and contents. A path that ends with `/` is a folder, a content that begins with
/// `->` a link. `ROOT` becomes the project's own path.
fn project(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let at = dir.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        let text = text.replace("ROOT", dir.to_str().unwrap());
        match text.strip_prefix("->") {
            Some(says) => symlink(says, at).unwrap(),
            None if path.ends_with('/') => std::fs::create_dir_all(at).unwrap(),
            None => std::fs::write(at, text).unwrap(),
        }
    }
}

/// Which of `paths` something leads to, with a workspace at `below`.
fn protects(files: &[(&str, &str)], below: &str, paths: &[&str]) -> Vec<bool> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    project(&dir, files);
    let places = linked(&Folder::open(&dir.join(below)).unwrap()).unwrap();
    paths.iter().map(|path| places.leading_to(Path::new(path)).is_some()).collect()
}

#[test]
fn paths_named_in_git_settings_are_protected() {
    let bare = "[core]\n\tbare = false\n";
    for (files, below, named, free) in [
        (&[(".git/config", "[core] hooksPath = tools/hooks")][..], "", "tools/hooks/pre-commit", "tools/x"),
        (&[(".git/config", "[core]\nhooksPath = too\\\nls/hooks\n")], "", "tools/hooks/x", "tools/x"),
        (&[(".git/config", "[core]\nhooksPath = \"tools/\"hooks\n")], "", "tools/hooks/x", "tools/x"),
        (&[(".git/config", "[core]\nhooksPath = ROOT/tools\n")], "", "tools/x", "too"),
        (&[(".git/config.worktree", "[core]\nhooksPath = tools\n")], "", "tools/x", "too"),
        (&[(".git/config", "[core]\nhooksPath = .\n")], "", "pre-push", "pre-pushed"),
        (
            &[(".git/config", "[core]\nhooksPath = tools/here\n"), ("tools", "->real")],
            "",
            "real/here/x",
            "real/x",
        ),
        (&[(".git/config", "[include]\npath = ../conf/a\n")], "", "conf/a", "conf/b"),
        (
            &[
                (".git/config", "[includeIf \"x:y\"]\npath = ../conf/a\n"),
                ("conf/a", "[include]\npath=b"),
                ("conf/b", "[core]\nfsmonitor=tools/fs"),
            ],
            "",
            "tools/fs",
            "conf/c",
        ),
        (
            &[(".git", "gitdir: ROOT/meta\n"), ("meta/config", "[core]\nhooksPath = tools\n")],
            "",
            "tools/x",
            "too",
        ),
        (&[(".git", "->meta"), ("meta/config", "[core]\nhooksPath = tools\n")], "", "tools/x", "too"),
        (&[(".git", "gitdir: meta\n"), ("meta/", "")], "", "meta/any", "met"),
        (
            &[
                ("main/.git/config", "[core]\nhooksPath = tools\n"),
                ("main/.git/worktrees/w/commondir", "../..\n"),
                ("w/.git", "gitdir: ../main/.git/worktrees/w\n"),
            ],
            "w",
            "tools/x",
            "too",
        ),
        (&[(".git/config", "[core]\nhooksPath = sub/tools\n"), ("sub/", "")], "sub", "tools/x", "too"),
        (&[(".git/config", "[alias]\nst = !cd sub && tools/st\n"), ("sub/", "")], "sub", "tools/st", "too"),
        (&[("a/sub/.git/config", "[core]\nhooksPath = tools\n")], "", "a/sub/tools/x", "tools/x"),
        (&[("a/sub/.git/config", "[core]\nhooksPath = ..\n")], "", "a/commit-msg", "a/x"),
        (&[(".git/config", bare), (".git/hooks", "->../tools")], "", "tools/pre-commit", "too"),
        (&[(".git/config", "->../tools/config"), ("tools/config", bare)], "", "tools/config", "tools/x"),
        (
            &[
                ("b/HEAD", ""),
                ("b/objects/", ""),
                ("b/refs/", ""),
                ("b/config", "[core]\nfsmonitor = ../fs\n"),
            ],
            "",
            "fs",
            "b/c",
        ),
        (&[(".git/config", "[filter \"x\"]\nprocess = sh -c 'tools/f %f'\n")], "", "tools/f", "tools/g"),
        (&[(".git/config", "[merge \"x\"]\ndriver = tools/m %O %A\n")], "", "tools/m", "tools/g"),
        (&[(".git/config", "[core]\nattributesFile = conf/attrs\n")], "", "conf/attrs", "conf/x"),
        (&[(".git/config", "[diff]\nexternal = tools/d\n")], "", "tools/d", "tools/g"),
        (&[(".git/config", "[core]\nsshCommand = ssh -F conf/ssh\n")], "", "conf/ssh", "conf/x"),
        (&[(".git/config", "[core]\nhooksPath = tools\n")], "", "TOOLS/x", "too"),
    ] {
        assert_eq!(protects(files, below, &[named, free]), [true, false], "{files:?}");
    }
}

#[test]
fn separate_work_tree_is_another_base() {
    let files = [
        ("b/HEAD", ""),
        ("b/commondir", "."),
        ("b/config", "[core]\nworktree = ../w\n"),
        ("b/config.worktree", "[core]\nhooksPath = tools\n"),
    ];
    assert_eq!(protects(&files, "", &["w/tools/x", "w/x", "x"]), [true, false, false]);
}

#[test]
fn protected_link_to_project_protects_everything() {
    for link in [".vscode", "sub/.idea"] {
        let says = if link.contains('/') { "->.." } else { "->." };
        assert_eq!(
            protects(&[(link, says), ("sub/", "")], "", &["tasks.json", "sub/x"]),
            [true; 2],
            "{link}"
        );
    }
}

#[test]
fn usual_git_settings_protect_nothing() {
    let usual = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
        [remote \"origin\"]\n\turl = git@github.com:me/src.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
        [branch \"main\"]\n\tremote = .\n\tmerge = refs/heads/main\n[user]\n\tname = src docs\n[credential]\n\thelper = store\n";
    let paths = ["src/a", "docs/a", "main", "store", "refs/heads/main", "heads", "origin", "x"];
    assert_eq!(protects(&[(".git/config", usual)], "", &paths), [false; 8]);
}

#[test]
fn home_is_a_folder_around_the_project() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    project(&dir, &[("p/.git/config", "[core]\nhooksPath = ~/p/tools\n[alias]\nst = !$HOME/p/st\n")]);
    let places = linked(&Folder::open(&dir.join("p")).unwrap()).unwrap();
    assert!(["tools/x", "st"].iter().all(|path| places.leading_to(Path::new(path)).is_some()));
}

#[test]
fn unreadable_settings_protect_possible_targets() {
    for (files, paths, want) in [
        (&[(".git/config", "[core\n")][..], ["a", "sub/a"], [true, true]),
        (&[("sub/.git/config", "[core]\nx = \"\n")], ["a", "sub/a"], [false, true]),
        (&[(".git/config/", "")], ["a", "sub/a"], [true, true]),
        (&[(".git/config", "[include]\npath=x\n"), (".git/x", "!")], ["a", "sub/a"], [true, true]),
        // Git takes neither for a repository.
        (&[("sub/.git", ""), (".git", "no")], ["a", "sub/a"], [false, false]),
    ] {
        assert_eq!(protects(files, "", &paths), want, "{files:?}");
    }
}

#[test]
fn excess_names_protect_everything() {
    let dir = tempfile::tempdir().unwrap();
    for name in 0..3000 {
        std::fs::write(dir.path().join(format!("f{name}")), "").unwrap();
    }
    project(dir.path(), &[(".claude/z/y/link", "->../../../real")]);
    let folder = Folder::open(dir.path()).unwrap();
    let protects = |most, path: &str| {
        look(&folder, most)
            .unwrap()
            .leading_to(Path::new(path))
            .map(|lead| matches!(lead.how, How::Unread(_)))
    };
    assert_eq!([protects(9999, "real"), protects(9999, "x")], [Some(false), None]);
    assert_eq!(protects(100, "x"), Some(true));
}

#[test]
fn links_with_protected_names_protect_where_they_lead() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    project(
        &dir,
        &[
            (".git/hooks/pre-commit", "->../../scripts/check"),
            ("docs/", ""),
            ("scripts/deep/", ""),
            (".claude/skills", "->../docs/deep/.."),
            (".envrc", "->two"),
            ("two", "->scripts/deep/env"),
            (".netrc", "->/etc/passwd"),
            (".claude/out", "->../../outside"),
            ("loop", "->loop"),
            (".profile", "->loop"),
            ("CLAUDE.md", "->AGENTS.md"),
            ("free", "->src"),
            ("sub/.vscode/tasks.json", "->../../cfg/t.json"),
            (".bashrc", "->ROOT/cfg/env"),
            (".zshrc", "->way/chk"),
            ("way", "->real"),
            ("real/", ""),
            ("node_modules/.bin/x", "->../x/bin/x.js"),
            (".gopath/src/x", "->../.."),
        ],
    );
    let places = linked(&Folder::open(&dir).unwrap()).unwrap();
    let mut found: Vec<_> = places
        .all()
        .map(|(place, lead)| (place.to_str().unwrap().to_owned(), lead.by.to_str().unwrap().to_owned()))
        .collect();
    found.sort();
    let want = [
        ("cfg/env", ".bashrc"),
        ("cfg/t.json", "sub/.vscode/tasks.json"),
        ("docs", ".claude/skills"),
        ("real/chk", ".zshrc"),
        ("scripts/check", ".git/hooks/pre-commit"),
        ("scripts/deep/env", ".envrc"),
        ("two", ".envrc"),
        ("way", ".zshrc"),
    ];
    assert_eq!(found, want.map(|(place, by)| (place.to_owned(), by.to_owned())));
}
