//! The three states of a part: read as what will execute it, certainly data, not read. Only the first two
//! allow the verdict `allow`, and a file that its name, its first line or the command marks as executed never
//! counts as data because of its contents.

use std::path::Path;
use std::time::Duration;

use hotcell_guard::folder::{Seen, place};
use hotcell_guard::{
    Artifact, Executed, Executions, Kind, Language, Limits, Pack, Report, Verdict, Walk, scan, scan_path,
};

/// First bytes of files that are never executed, of machine code, of archives and of Python's data.
const MAGICS: &[&[u8]] = &[
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"%PDF-",
    b"OTTO",
    b"\0\x01\0\0",
    b"wOFF",
    b"wOF2",
    b"RIFF",
    b"OggS",
    b"ID3",
    b"fLaC",
    b"SQLite format 3\0",
    b"PAR1",
    b"\xde\x12\x04\x95",
    b"\x95\x04\x12\xde",
    b"\0\0\x01\0",
    b"TZif",
    b"\x7fELF",
    b"MZ",
    b"\xca\xfe\xba\xbe",
    b"\xfe\xed\xfa",
    b"\0asm",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    b"\x5d\0\0",
    b"7z\xbc\xaf\x27\x1c",
    b"\x93NUMPY",
    b"\x80\x04",
    b"x\x0c\r\n",
    b"PACK",
    b"DIRC",
];

const PYTHON: &str = "=0\nimport shutil\nshutil.rmtree('/home')\n";
const SHELL: &str = "=0\nrm -rf /home\n";
const SCRIPT: &str = "=0\nrequire('child_process').execSync('rm -rf /home')\n";

fn limits() -> Limits {
    Limits { time: Duration::from_secs(120), ..Limits::default() }
}

fn one(pack: &Pack, artifact: &Artifact) -> Report {
    scan(pack, &limits(), artifact)
}

fn with(magic: &[u8], text: &str) -> Vec<u8> {
    [magic, text.as_bytes()].concat()
}

/// True when a report asks for review, and does not call the file data.
fn forbids(report: &Report) -> bool {
    report.verdict > Verdict::Allow
        && report.coverage.parts.iter().any(|part| part.state.kind() != Kind::Data)
}

#[test]
fn magic_bytes_do_not_excuse_program_names() {
    let pack = Pack::builtin().unwrap();
    for magic in MAGICS {
        for (ending, text) in [
            ("py", PYTHON),
            ("pyw", PYTHON),
            ("pth", "=0\nimport shutil;shutil.rmtree('/home')\n"),
            ("sh", SHELL),
            ("bash", SHELL),
            ("zsh", SHELL),
            ("js", SCRIPT),
            ("mjs", SCRIPT),
            ("ts", SCRIPT),
            ("ps1", "=0\nRemove-Item -Recurse -Force C:\\\n"),
            ("sql", "=0;\nDROP DATABASE x;\n"),
        ] {
            let report = one(&pack, &Artifact::new(format!("a.{ending}"), with(magic, text)));
            let parts = &report.coverage.parts;
            assert!(
                parts.iter().any(|part| part.state.kind() != Kind::Data),
                "{magic:x?} .{ending}: {parts:?}"
            );
            // A shell continues after unknown words; the others run the file if the magic is valid in their
            // syntax.
            let word = magic.iter().all(u8::is_ascii_alphanumeric);
            let ruled = !matches!(ending, "ps1" | "sql");
            if word && ruled || matches!(ending, "sh" | "bash" | "zsh") {
                assert!(report.verdict > Verdict::Allow, "{magic:x?} .{ending}: {parts:?}");
            }
        }
    }
}

#[test]
fn magic_bytes_do_not_excuse_executed_files() {
    let pack = Pack::builtin().unwrap();
    for magic in MAGICS {
        for (executed, text) in [
            (Executed::As(Language::Python), PYTHON),
            (Executed::As(Language::Bash), SHELL),
            (Executed::As(Language::JavaScript), SCRIPT),
            (Executed::Unread("perl".to_owned()), "=0;\nsystem('id');\n"),
        ] {
            for name in ["a", "a.csv", "a.md", "a.txt", "a.png", "a.json", "LICENSE"] {
                let artifact = Artifact::new(name, with(magic, text));
                let report = one(&pack, &artifact.executed_as(std::slice::from_ref(&executed)));
                let states: Vec<_> =
                    report.coverage.parts.iter().filter(|p| p.language == executed.name()).collect();
                assert!(
                    states.iter().any(|p| p.state.kind() != Kind::Data),
                    "{magic:x?} {name} {executed:?}"
                );
                let least = if matches!(executed, Executed::As(Language::Bash)) {
                    Verdict::Quarantine
                } else if matches!(executed, Executed::Unread(_)) {
                    Verdict::Incomplete
                } else {
                    // The prefix decides if the rest is still a program in the language.
                    Verdict::Allow
                };
                assert!(report.verdict >= least, "{magic:x?} {name} {executed:?}: {:?}", report.verdict);
            }
        }
    }
}

#[test]
fn shebang_line_counts_under_every_name() {
    let pack = Pack::builtin().unwrap();
    for name in [
        "a",
        "a.csv",
        "a.md",
        "a.txt",
        "a.png",
        "a.json",
        "Makefile",
        "package.json",
        "a.yml",
        "Dockerfile",
        "a.ipynb",
    ] {
        for (first, text) in
            [("#!/bin/sh", SHELL), ("#!/usr/bin/env -S python3 -E", PYTHON), ("#! /usr/bin/node", SCRIPT)]
        {
            let text = format!("{first}\n{}", text.split_once('\n').unwrap().1);
            let report = one(&pack, &Artifact::new(name, text));
            assert_eq!(report.verdict, Verdict::Quarantine, "{name} {first}: {:?}", report.coverage.parts);
        }
        for program in [
            "perl",
            "ruby",
            "php",
            "awk",
            "gawk",
            "tclsh",
            "wish",
            "lua5.4",
            "Rscript",
            "fish",
            "escript",
            "osascript",
            "own",
        ] {
            let report = one(&pack, &Artifact::new(name, format!("#!/usr/bin/env {program}\nx = 1\n")));
            assert!(forbids(&report), "{name} {program}: {:?}", report.coverage.parts);
        }
    }
}

#[test]
fn languages_that_are_not_read_are_named() {
    let pack = Pack::builtin().unwrap();
    for name in [
        "a.pl",
        "A.PM",
        "a.rb",
        "Rakefile",
        "a.php",
        "a.phtml",
        "a.awk",
        "a.tcl",
        "a.lua",
        "a.jl",
        "a.bat",
        "a.cmd",
        "a.vbs",
        "a.fish",
        "a.csh",
        "a.cs",
        "a.csx",
        "a.kt",
        "a.kts",
        "a.groovy",
        "build.gradle",
        "Jenkinsfile",
        "a.scala",
        "a.clj",
        "a.exs",
        "a.erl",
        "a.hs",
        "a.ml",
        "a.el",
        "a.scm",
        "a.vim",
        "a.swift",
        "a.dart",
        "a.nim",
        "a.nix",
        "a.vue",
        "a.fsx",
    ] {
        let report = one(&pack, &Artifact::new(name, "x = 1\n"));
        assert_eq!(report.verdict, Verdict::Review, "{name}: {:?}", report.coverage.parts);
        assert_eq!(report.coverage.not_read, 1, "{name}: {:?}", report.coverage);
        let run = Artifact::new(name, "x = 1\n").executed_as(&[Executed::Unread("own".to_owned())]);
        assert_eq!(one(&pack, &run).verdict, Verdict::Incomplete, "{name}");
    }
}

#[test]
fn shell_and_debugger_start_files_are_programs() {
    let pack = Pack::builtin().unwrap();
    let mut names: Vec<String> = ["", "bash", "zsh", "ksh", "dash", "mksh", "own"]
        .iter()
        .flat_map(|shell| {
            ["rc", "_profile", "profile", "login", "_logout", "env"].map(|end| format!(".{shell}{end}"))
        })
        .filter(|name| name != ".rc")
        .collect();
    for end in ["in", "bak", "orig", "old", "dist", "example", "sample"] {
        names.extend(["a.sh", "configure.bash", "x.zsh"].map(|script| format!("{script}.{end}")));
    }
    names.extend(
        [
            ".envrc",
            "a.envrc",
            ".bash_aliases",
            "x.bash-completion",
            ".bash.d",
            "a.sh~",
            "PKGBUILD",
            "x.ebuild",
            "x.zsh-theme",
        ]
        .map(str::to_owned),
    );
    for name in &names {
        for path in [name.clone(), format!("d/{name}"), name.to_uppercase()] {
            let report = one(&pack, &Artifact::new(&*path, "export A=1\nrm -rf /home\n"));
            assert_eq!(report.verdict, Verdict::Quarantine, "{path}: {:?}", report.coverage.parts);
        }
    }
    for name in [".pdbrc", ".pythonrc", ".pythonrc.py", ".pystartup"] {
        for text in ["import shutil\nshutil.rmtree('/home')\n", "import shutil; shutil.rmtree('/home')\n"] {
            assert_eq!(one(&pack, &Artifact::new(name, text)).verdict, Verdict::Quarantine, "{name}");
        }
    }
    for text in
        ["!import shutil; shutil.rmtree('/home')\nq\n", "b 3\n! __import__('shutil').rmtree('/home')\nc\n"]
    {
        assert_eq!(one(&pack, &Artifact::new(".pdbrc", text)).verdict, Verdict::Quarantine, "{text}");
    }
    for (name, text) in [
        (".eslintrc", "{\n  \"extends\": [\"a\", \"b:recommended\"],\n  \"rules\": {\"no-eval\": 2}\n}\n"),
        (".babelrc", "{\"presets\": [\"@babel/env\"]}\n"),
        (".prettierrc", "singleQuote: true\ntabWidth: 2\n"),
        (".pylintrc", "[MASTER]\nignore=a,b\n\n[MESSAGES CONTROL]\ndisable=C0111, # why\n    R0903\n"),
        (
            ".coveragerc",
            "[run]\nbranch = True\nomit =\n    */tests/*\n[report]\nexclude_lines =\n    if __name__ == .__main__.:\n    def __repr__\n",
        ),
        (".flake8rc", "[flake8]\nmax-line-length = 100\n"),
        (".nvmrc", "v18.12.0\n"),
        (".yarnrc", "registry \"https://registry.yarnpkg.com\"\n"),
        (".npmrc", "save-exact=true\n"),
        (".inputrc", "set editing-mode vi\n\"\\e[A\": history-search-backward\n"),
        (".wgetrc", "tries = 20\n"),
        (".condarc", "channels:\n  - conda-forge\n"),
        (".env", "# secrets of nobody\nA=1\nB=\"x y\"\nC=x y\n"),
        (".env.example", "A=\nB=\n"),
        (".envrc", "export A=1\nlayout python\n"),
        (".profile", "PATH=$HOME/bin:$PATH\n"),
        (".stylelintrc", "{ \"extends\": \"x\" }\n"),
        (".pdbrc", "b a.py:3\nalias pi p %1\n"),
    ] {
        let report = one(&pack, &Artifact::new(name, text));
        assert_eq!(
            report.verdict,
            Verdict::Allow,
            "{name}: {:?} {:?}",
            report.coverage.parts,
            report.findings
        );
    }
}

#[test]
fn large_file_needs_data_head_and_name() {
    let pack = Pack::builtin().unwrap();
    let limits = Limits { file_bytes: 1 << 10, ..limits() };
    let large = |head: &[u8]| [head, &b"1,2,3\n".repeat(400)].concat();
    for (name, head, verdict) in [
        ("a.csv", &b"a,b,c\n"[..], Verdict::Review),
        ("a.json", b"[", Verdict::Review),
        ("a.png", b"\x89PNG\r\n\x1a\n", Verdict::Review),
        ("a", b"\x89PNG\r\n\x1a\n", Verdict::Review),
        ("a.bin", b"\x01\x02\x03", Verdict::Review),
        ("a", b"a,b,c\n", Verdict::Incomplete),
        ("a.md", b"a\n", Verdict::Incomplete),
        ("a.csv", b"#!/bin/sh\n", Verdict::Incomplete),
        ("a.png", b"#!/usr/bin/perl\n", Verdict::Incomplete),
        ("a.py", b"\x89PNG\r\n\x1a\n", Verdict::Incomplete),
        ("a.csv", b"PK\x03\x04", Verdict::Incomplete),
        ("a.csv", b"\x7fELF", Verdict::Incomplete),
        ("Makefile", b"GIF8", Verdict::Incomplete),
        (".husky/pre-push", b"GIF8", Verdict::Incomplete),
        (".zlogin", b"GIF8", Verdict::Incomplete),
        ("a.rb", b"GIF8", Verdict::Incomplete),
    ] {
        let file = Artifact::new(name, large(head));
        let report = scan(&pack, &limits, &file);
        assert_eq!(report.verdict, verdict, "{name} {head:x?}: {:?}", report.coverage.parts);
        for executed in [Executed::As(Language::Bash), Executed::Unread("perl".to_owned())] {
            let run = file.clone().executed_as(std::slice::from_ref(&executed));
            assert_eq!(scan(&pack, &limits, &run).verdict, Verdict::Incomplete, "{name} as {executed:?}");
        }
        let run = file.run_as(Language::Python);
        assert_eq!(scan(&pack, &limits, &run).verdict, Verdict::Incomplete, "{name} as Python");
    }
}

#[test]
fn executed_file_ignores_its_own_name() {
    let pack = Pack::builtin().unwrap();
    for (language, names) in [
        ("perl", &["a.pl", "a.pm", "a.t", "a.txt", "a", "cpanfile"][..]),
        ("ruby", &["a.rb", "Rakefile", "a.gemspec", "a.csv", "a"]),
        ("php", &["a.php", "a.phtml", "a.html", "a"]),
        ("lua", &["a.lua", "a.json", "a"]),
        ("awk", &["a.awk", "a.txt"]),
        ("tcl", &["a.tcl", "a.md"]),
        ("fish", &["a.fish", "a"]),
    ] {
        for name in names {
            for text in
                ["x = 1\n".to_owned(), format!("#!/usr/bin/{language}\nuse x;\n"), format!("#!{language}\n")]
            {
                let file = Artifact::new(*name, &*text);
                let lying = one(&pack, &file).verdict;
                assert!(lying <= Verdict::Review, "{name} {text:?}: {lying:?}");
                let run = file.executed_as(&[Executed::Unread(language.to_owned())]);
                assert_eq!(one(&pack, &run).verdict, Verdict::Incomplete, "{name} {text:?}");
            }
        }
    }
}

#[test]
fn text_and_data_stay_allowed() {
    let pack = Pack::builtin().unwrap();
    for (name, bytes) in [
        ("README.md", &b"# A project\n\nRun `make`.\n"[..]),
        ("LICENSE", b"Permission is hereby granted, free of charge\n"),
        ("a.csv", b"a,b\n1,2\n"),
        ("a.json", b"{\"a\": [1, 2]}\n"),
        ("a.toml", b"a = 1\n"),
        ("a.ini", b"[a]\nb = 1\n"),
        (".gitignore", b"target/\n"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0"),
        ("a.woff2", b"wOF2\0\x01\0\0\0\0"),
        ("a.bin", b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        ("poetry.lock", b"[[package]]\nname = \"a\"\n"),
        ("a.t", b"a table of times\n"),
        ("a.d", b"target/a.o: a.c a.h\n"),
        ("build", b"how to build\n"),
    ] {
        let report = one(&pack, &Artifact::new(name, bytes));
        assert_eq!(report.verdict, Verdict::Allow, "{name}: {:?}", report.coverage.parts);
        assert_eq!(report.coverage.not_read, 0, "{name}");
        assert_eq!(report.coverage.read + report.coverage.data, report.coverage.parts.len() as u64);
    }
}

/// A zip of many parts with harmless findings, and a hostile one at this position.
fn flooded(parts: usize, at: usize, evil: &str) -> Vec<u8> {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for number in 0..=parts {
        zip.start_file(format!("{number:04}.py"), stored).unwrap();
        let noise: String = (0..22).map(|n| format!("os.remove(x{n})\n")).collect();
        let text = if number == at { evil.to_owned() } else { format!("import os\n{noise}x={number}\n") };
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn full_part_list_retains_worst_finding() {
    let pack = Pack::builtin().unwrap();
    let parts = 600;
    for at in [0, parts / 2, parts] {
        let evil = "import shutil\nshutil.rmtree('/home')\n";
        let report = one(&pack, &Artifact::new("a.zip", flooded(parts, at, evil)));
        assert_eq!(report.verdict, Verdict::Quarantine, "at {at}");
        let report = one(&pack, &Artifact::new("a.zip", flooded(parts, at, "x = 1\n")));
        assert!(report.verdict >= Verdict::Incomplete, "{:?}: a full list is not read", report.verdict);
    }
}

#[test]
fn repeated_rule_still_reports_hidden_code() {
    let pack = Pack::builtin().unwrap();
    let plain: String = (0..40).map(|n| format!("os.system(x{n})\n")).collect();
    let hidden = "exec(__import__('base64').b64decode('aW1wb3J0IG9zCm9zLnN5c3RlbSh4KQ=='))\n";
    let alone = one(&pack, &Artifact::new("a.py", format!("import os\n{hidden}")));
    let behind = one(&pack, &Artifact::new("a.py", format!("import os\n{plain}{hidden}")));
    assert_eq!(alone.verdict, Verdict::Quarantine);
    assert_eq!(behind.verdict, Verdict::Quarantine);
}

#[test]
fn equal_hashes_do_not_share_results() {
    let pack = Pack::builtin().unwrap();
    // Two commands with equal hashes under a hash without a key.
    let same = ": 'o6SQKTX1GcUmBxxxxxxxxxxxxxxxxz:LrLbBq";
    for (first, second) in [
        (
            format!("{same}';echo x/home -f; echo done here"),
            format!("{same}';rm -r /home -f; echo done here"),
        ),
        ("id".to_owned(), "rm -rf /home".to_owned()),
        ("ls -l /tmp".to_owned(), "rm -rf /home".to_owned()),
    ] {
        let text = format!("import os\nos.system({first:?})\nos.system({second:?})\n");
        assert_eq!(one(&pack, &Artifact::new("a.py", text)).verdict, Verdict::Quarantine, "{first}");
    }
}

#[test]
fn encodings_that_turn_letters_into_others_are_refused() {
    let pack = Pack::builtin().unwrap();
    for name in [
        "unicode_escape",
        "unicode-escape",
        "Unicode_Escape",
        "UNICODE--ESCAPE",
        "raw_unicode_escape",
        "rot13",
        "punycode",
    ] {
        for line in [
            "# coding: {}",
            "# -*- coding: {} -*-",
            "# vim: set fileencoding={} :",
            "# coding coding:{}",
            "#!/usr/bin/python3\n# coding={}",
        ] {
            let text = format!("{}\nx = 1\n", line.replace("{}", name));
            assert_eq!(one(&pack, &Artifact::new("a.py", &*text)).verdict, Verdict::Quarantine, "{text}");
            let far =
                format!("#{}{}\nx = 1\n", " ".repeat(5000), line.replace("{}", name).trim_start_matches('#'));
            if !line.contains('\n') {
                assert_eq!(
                    one(&pack, &Artifact::new("a.py", far)).verdict,
                    Verdict::Quarantine,
                    "{name} far away"
                );
            }
        }
    }
    for text in [
        "# coding: utf-8\nx = 1\n",
        "# coding: latin-1\nx = 1\n",
        "# about unicode_escape\nx = 1\n",
        "x = 'coding: rot13'\n",
    ] {
        assert_eq!(one(&pack, &Artifact::new("a.py", text)).verdict, Verdict::Allow, "{text}");
    }
}

struct Tree(std::path::PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hotcell-states-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn scan(&self, pack: &Pack, executed: Option<&Executions>) -> Report {
        let walk = Walk { gitignore: false, packages: false, executed };
        scan_path(&limits(), &self.0, walk, &mut |file| scan(pack, &limits(), file), &mut |_| ()).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const EVIL: &str = "import shutil\nshutil.rmtree('/home')\n";
const DIGEST: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn programs_in_git_folders_are_read() {
    let pack = Pack::builtin().unwrap();
    for root in ["", "a/", "a/b/c/", ".git/modules/x/"] {
        for at in [
            "evil.py",
            "objects/evil.py",
            "objects/01/evil.py",
            "hooks/pre-commit.py",
            "refs/heads/evil.py",
            "logs/evil.py",
            "info/evil.py",
            "x/.git/objects/evil.py",
        ] {
            let tree = Tree::new("git");
            tree.write(&format!("{root}.git/objects/info/packs"), "");
            tree.write(&format!("{root}.git/HEAD"), "ref: refs/heads/main\n");
            let before = tree.scan(&pack, None);
            assert_eq!(before.verdict, Verdict::Allow, "{:?}", before.coverage.parts);
            assert!(before.coverage.parts.iter().any(|part| part.language == "git"), "it is named");
            tree.write(&format!("{root}.git/{at}"), EVIL);
            let report = tree.scan(&pack, None);
            assert_eq!(report.verdict, Verdict::Quarantine, "{root}.git/{at}");
            assert_ne!(report.artifact.sha256, before.artifact.sha256, "it counts in a release");
        }
    }
}

#[test]
fn git_hooks_and_settings_are_read_as_commands() {
    let pack = Pack::builtin().unwrap();
    for (name, text) in [
        (".git/hooks/post-checkout", "rm -rf /home\n"),
        ("a/.git/hooks/pre-commit", "#!/bin/sh\nrm -rf /home\n"),
        (".husky/pre-push", "rm -rf /home\n"),
        (".git/config", "[core]\n\tfsmonitor = rm -rf /home\n"),
        (".git/config", "[core] sshCommand = \"rm -rf /home\"\n"),
        (".git/config", "[alias]\n\tx = !rm -rf /home\n"),
        (".git/modules/x/config", "[filter \"x\"]\n\tsmudge = rm -rf /home\n"),
        (".gitconfig", "[credential]\n\thelper = !rm -rf /home\n"),
    ] {
        assert_eq!(one(&pack, &Artifact::new(name, text)).verdict, Verdict::Quarantine, "{name}: {text}");
    }
    let honest = "[core]\n\tbare = false\n\tpager = less -R\n[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[alias]\n\tst = status\n";
    assert_eq!(one(&pack, &Artifact::new(".git/config", honest)).verdict, Verdict::Allow);
}

#[test]
fn executed_files_are_read_in_any_folder() {
    let pack = Pack::builtin().unwrap();
    let object = [&b"x\x01"[..], &[1; 16], b"\nrm -rf /home\n"].concat();
    for (name, bytes) in [
        (format!(".git/objects/01/{}", &DIGEST[2..]), object),
        ("node_modules/x/run".to_owned(), b"rm -rf /home\n".to_vec()),
        ("v/bin/run".to_owned(), b"rm -rf /home\n".to_vec()),
        ("data.csv".to_owned(), b"rm -rf /home\n".to_vec()),
    ] {
        let tree = Tree::new("executed");
        tree.write("v/pyvenv.cfg", "home = /usr/bin\n");
        tree.write("v/bin/python", "");
        tree.write(&name, &bytes);
        std::os::unix::fs::symlink(&name, tree.0.join("link")).unwrap();
        assert!(tree.scan(&pack, None).verdict <= Verdict::Review, "{name}");
        for path in [&*name, "link"] {
            let mut executed = Executions::default();
            executed.add(Path::new(path), Executed::As(Language::Bash));
            assert_eq!(tree.scan(&pack, Some(&executed)).verdict, Verdict::Quarantine, "{name} as {path}");
        }
    }
}

#[test]
fn virtual_environment_needs_real_layout() {
    let pack = Pack::builtin().unwrap();
    for (settings, interpreter, file, verdict) in [
        ("", None, "v/e.py", Verdict::Quarantine),
        ("", Some("v/bin/python"), "v/bin/e.py", Verdict::Quarantine),
        ("home = /usr/bin\n", None, "v/bin/e.py", Verdict::Quarantine),
        ("home =\n", Some("v/bin/python"), "v/bin/e.py", Verdict::Quarantine),
        ("home = /usr/bin\n", Some("v/bin/python"), "v/e.py", Verdict::Quarantine),
        ("home = /usr/bin\n", Some("v/bin/python"), "v/lib/e.py", Verdict::Quarantine),
        ("home = /usr/bin\n", Some("v/bin/python"), "v/own/e.py", Verdict::Quarantine),
        ("home = /usr/bin\n", Some("v/bin/python"), "v/bin/e.py", Verdict::Review),
        ("home = /usr/bin\n", Some("v/bin/python3"), "v/lib/python3.11/site-packages/e.py", Verdict::Review),
    ] {
        let tree = Tree::new("venv");
        tree.write("v/pyvenv.cfg", settings);
        if let Some(interpreter) = interpreter {
            tree.write(interpreter, "");
        }
        tree.write(file, EVIL);
        assert_eq!(tree.scan(&pack, None).verdict, verdict, "{settings:?} {interpreter:?} {file}");
        let is_there = |at: &Path| tree.0.join(at).symlink_metadata().is_ok();
        let open = |at: &Path| std::fs::File::open(tree.0.join(at)).ok();
        let packages = matches!(
            place(Path::new(file), &Seen { is_there: &is_there, open: &open }),
            hotcell_guard::folder::Place::Packages(_)
        );
        assert_eq!(packages, verdict == Verdict::Review, "a view says the same of {file}");
    }
}

#[test]
fn python_caches_are_named_and_hide_nothing() {
    let pack = Pack::builtin().unwrap();
    let code = |flags: u8| [&[0xa7, 0x0d, b'\r', b'\n', flags, 0, 0, 0][..], &[0; 24]].concat();
    let zip = flooded(0, 0, EVIL);
    for (name, bytes, verdict) in [
        ("main.cpython-311.pyc", code(0), Verdict::Review),
        ("main.cpython-311.opt-2.pyc", code(3), Verdict::Review),
        ("main.cpython-311-pytest-8.3.4.pyc", code(0), Verdict::Review),
        ("main.cpython-311.pyc", code(1), Verdict::Incomplete),
        ("other.cpython-311.pyc", code(0), Verdict::Incomplete),
        ("main.z.pyc", code(0), Verdict::Incomplete),
        ("main.z.pyc", zip.clone(), Verdict::Quarantine),
        ("main.cpython-311.pyc", zip.clone(), Verdict::Quarantine),
        ("main.cpython-311.pyc", [code(0), zip].concat(), Verdict::Incomplete),
        ("main.cpython-311.pyc", EVIL.into(), Verdict::Quarantine),
        ("main.py", EVIL.into(), Verdict::Quarantine),
    ] {
        let tree = Tree::new("cache");
        tree.write("main.py", "print(1)\n");
        tree.write(&format!("__pycache__/{name}"), bytes);
        let report = tree.scan(&pack, None);
        assert!(report.verdict >= verdict, "{name}: {:?} {:?}", report.verdict, report.coverage.parts);
        assert!(report.verdict == verdict || verdict >= Verdict::Incomplete, "{name}: {:?}", report.verdict);
    }
}

/// Prose and other languages with a line that begins like Python are not read as Python; a Python program
/// without a name is.
#[test]
fn python_is_recognised_by_program_text() {
    let pack = Pack::builtin().unwrap();
    let languages = |name: &str, text: &str| -> Vec<String> {
        let report = one(&pack, &Artifact::new(name, text));
        report.coverage.parts.into_iter().map(|part| part.language).collect()
    };
    let news = format!("Version 2:\n{}import of zones works: see (#12\n", "- a fix (#123)\n".repeat(300));
    for (name, text) in [
        ("NEWS", news.as_str()),
        ("README", "from now on: call it\nclass of things\n"),
        ("CHANGES.txt", "import foo bar:\n"),
        ("a.pl", "use strict;\nprint(1):\nimport x;\n"),
        ("a.rb", "class A\n  def x: 1\nend\n"),
        ("a.exs", "import Foo\ndef f do: 1\n"),
    ] {
        assert!(!languages(name, text).contains(&"python".to_owned()), "{name}: {:?}", languages(name, text));
    }
    for name in ["program", "data.txt"] {
        assert!(languages(name, "import os\nos.system('id')\n").contains(&"python".to_owned()), "{name}");
    }
    // A file that the command executes is read as the language that executes it, whatever it looks like.
    let executed = [Executed::As(Language::Python)];
    let report = one(&pack, &Artifact::new("NEWS", news.as_str()).executed_as(&executed));
    assert!(report.coverage.parts.iter().any(|part| part.language == "python"));
}
