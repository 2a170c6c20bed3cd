//! Rules in ast-grep's own form: they load unchanged, match their examples, and are refused when they are
//! invalid.

use hotcell_guard::{Artifact, Limits, Pack, PartState, Report, Verdict, load_pack, scan};

/// As written by a user of ast-grep, with our metadata.
const PYTHON: &str = r##"
id: own-tempfile-mktemp
language: python
severity: error
message: mktemp returns a name that somebody else can take first.
note: |
  Use NamedTemporaryFile.
rule:
  any:
    - pattern: tempfile.mktemp($$$ARGS)
    - all:
        - pattern: $MOD.mktemp($$$)
        - not: { pattern: self.mktemp($$$) }
  inside:
    kind: function_definition
    stopBy: end
constraints:
  MOD: { regex: ^tmp }
metadata:
  capability: files.race
  cwe: CWE-377
  positive:
    - "def f():\n    return tempfile.mktemp('x')\n"
    - "def f():\n    if x:\n        return tmpfiles.mktemp()\n"
  benign:
    - "tempfile.mktemp()\n"
    - "def f():\n    return other.mktemp()\n"
"##;

const JAVASCRIPT: &str = r##"
id: own-inner-html
language: JavaScript
severity: warning
message: Text becomes markup.
url: https://example.org/inner-html
utils:
  literal:
    any: [{ kind: string }, { kind: number }]
rule:
  pattern: $E.innerHTML = $TEXT
  not:
    has: { field: right, matches: literal }
fix: $E.textContent = $TEXT
files: ["**/*.js", "**/*.ts"]
ignores:
  - glob: VENDOR/**
    caseInsensitive: true
metadata:
  capability: dom.markup
  positive:
    - "#!file web/a.js\nbox.innerHTML = name + '!'\n"
    - "#!file b.ts\nfunction f(x: string) { document.body.innerHTML = x }\n"
  benign:
    - "#!file a.js\nbox.innerHTML = 'x'\n"
    - "#!file vendor/a.js\nbox.innerHTML = name\n"
"##;

const GO: &str = r##"
id: own-tls-unverified
language: Go
severity: info
message: Whoever answers is believed.
rule:
  kind: keyed_element
  regex: ^InsecureSkipVerify:\s*true$
  inside:
    kind: composite_literal
    stopBy: end
    has: { field: type, regex: 'tls\.Config$' }
  follows: { kind: keyed_element, stopBy: end }
metadata:
  capability: net.unverified
  positive:
    - "package a\nvar c = &tls.Config{ServerName: n, InsecureSkipVerify: true}\n"
    - "package a\nfunc f() { g(tls.Config{A: 1, B: 2, InsecureSkipVerify: true}) }\n"
  benign:
    - "package a\nvar c = &tls.Config{ServerName: n, InsecureSkipVerify: false}\n"
    - "package a\nvar c = &own.Config{ServerName: n, InsecureSkipVerify: true}\n"
"##;

fn pack(texts: &[&str]) -> Pack {
    let files = texts.iter().enumerate().map(|(n, text)| (format!("own{n}.yml"), (*text).to_owned()));
    load_pack(files).unwrap_or_else(|error| panic!("{error}"))
}

fn read(pack: &Pack, name: &str, text: &str) -> Report {
    scan(pack, &Limits::default(), &Artifact::new(name, text))
}

/// A rule in one language with these examples.
fn rule(language: &str, rule: &str, positive: [&str; 2], benign: [&str; 2]) -> String {
    format!(
        "id: own-rule\nlanguage: {language}\nseverity: warning\nmessage: m\nrule: {rule}\nmetadata: {{ capability: c, positive: {positive:?}, \
         benign: {benign:?} }}\n"
    )
}

#[test]
fn rules_of_ast_grep_load_as_they_are() {
    let pack = pack(&[PYTHON, JAVASCRIPT, GO]);
    let report = read(&pack, "a.py", "x = 1\ndef f():\n    é = tempfile.mktemp(\n      'x')\n");
    let found = &report.findings[0];
    assert_eq!((&*found.rule, found.line, found.column, found.end_line), ("own-tempfile-mktemp", 3, 9, 4));
    assert_eq!(
        found.message,
        "mktemp returns a name that somebody else can take first. Use NamedTemporaryFile."
    );
    assert_eq!(found.cwe.as_deref(), Some("CWE-377"));
    assert_eq!(report.verdict, Verdict::Quarantine, "error is critical");
    assert_eq!(read(&pack, "a.js", "a.innerHTML = b\n").verdict, Verdict::Review);
    let note = read(&pack, "a.go", "package a\nvar c = tls.Config{A: b, InsecureSkipVerify: true}\n");
    assert_eq!((note.verdict, note.findings.len()), (Verdict::Allow, 1), "{note:?}");
}

#[test]
fn ast_grep_patterns_match_in_each_language() {
    for (language, rule_text, positive, benign) in [
        ("Bash", "{ pattern: zap $X }", ["zap a", "a && zap 'b'"], ["echo zap a", "zip a"]),
        (
            "TypeScript",
            "{ pattern: 'zap($X as any)' }",
            ["zap(a as any)", "b = zap(1 as any)"],
            ["zap(a)", "zip(a as any)"],
        ),
        (
            "Tsx",
            "{ kind: jsx_element }",
            ["#!file a.tsx\nx = <b>c</b>", "#!file b.tsx\nf(<b>c</b>)"],
            ["x = 1", "#!file a.tsx\ny = b"],
        ),
        (
            "Rust",
            "{ pattern: zap($X) }",
            ["fn f() { zap(1) }", "fn f() { a(zap(x)) }"],
            ["fn f() { zap() }", "fn zap(x: u8) {}"],
        ),
        (
            "C",
            "{ pattern: 'zap($X);' }",
            ["int f(void) { zap(1); }", "int f(void) { za\\\np(x); }"],
            ["int f(void) { zap(1, 2); }", "int zap;"],
        ),
        (
            "c++",
            "{ pattern: '$A->zap($X)' }",
            ["int f() { a->zap(1); }", "int f() { g(a->zap(x)); }"],
            ["int f() { a.zap(1); }", "int zap;"],
        ),
        (
            "Java",
            "{ pattern: $A.zap($X) }",
            ["class A { void f() { a.zap(1); } }", "class A { int x = b.z\\u0061p(2); }"],
            ["class A { int zap; }", "class A { int x = a.zip(1); }"],
        ),
        (
            "PowerShell",
            "{ kind: command, regex: '(?i)^invoke-zap' }",
            ["Invoke-Zap a", "if ($x) { invoke-zap }"],
            ["Get-Zap a", "# Invoke-Zap a"],
        ),
    ] {
        pack(&[&rule(language, rule_text, positive, benign)]);
    }
}

#[test]
fn artifact_comments_disable_no_rule() {
    let pack = pack(&[PYTHON, JAVASCRIPT]);
    for (name, text) in [
        (
            "a.py",
            "# ast-grep-ignore\n\ndef f():\n    # ast-grep-ignore: own-tempfile-mktemp\n    tempfile.mktemp() # ast-grep-ignore\n",
        ),
        (
            "a.js",
            "// ast-grep-ignore\n\n// ast-grep-ignore: own-inner-html\na.innerHTML = b // ast-grep-ignore\n",
        ),
    ] {
        assert!(read(&pack, name, text).findings.iter().any(|f| f.rule.starts_with("own-")), "{name}");
    }
}

#[test]
fn rules_match_embedded_and_broken_code() {
    let pack =
        pack(&[JAVASCRIPT, &rule("Bash", "{ pattern: zap $X }", ["zap a", "zap b"], ["zip a", "zip b"])]);
    let inner = read(&pack, "a.py", "import os\nos.system('zap me')\n");
    assert!(
        inner.findings.iter().any(|f| f.rule == "own-rule" && f.line == 2 && f.derived_from == ["shell"])
    );
    assert!(
        read(&pack, "a.js", "let = = (\na.innerHTML = b\n")
            .findings
            .iter()
            .any(|f| f.rule == "own-inner-html")
    );
    assert!(read(&pack, "src/x/a.js", "a.innerHTML = b\n").verdict == Verdict::Review);
    assert!(read(&pack, "src/vendor/a.js", "a.innerHTML = b\n").verdict == Verdict::Allow);
}

#[test]
fn tree_rules_obey_limits() {
    let pack = pack(&[&rule(
        "Go",
        "{ pattern: zap($X) }",
        ["package a\nvar x = zap(1)", "package a\nvar x = zap(2)"],
        ["package a", "package b"],
    )]);
    let late = Limits { steps: 500, ..Limits::default() };
    let long = format!("package a\nvar x = []int{{{}}}\n", "1, ".repeat(1000));
    let report = scan(&pack, &late, &Artifact::new("a.go", long.as_str()));
    assert_eq!(report.verdict, Verdict::Incomplete);
    let deep = format!("package a\nvar x = {}1\n", "-".repeat(30_000));
    let report = read(&pack, "a.go", &deep);
    assert!(
        matches!(&report.coverage.parts[0].state, PartState::Skipped(why) if why.contains("too deeply")),
        "{report:?}"
    );
}

#[test]
fn invalid_rules_are_refused_with_reason() {
    let good = ["'a'", "'b'"];
    let with = |language: &str, text: &str| rule(language, text, good, ["c", "d"]);
    for (text, reason) in [
        (with("Python", "{ kind: no_such_kind }"), "no_such_kind"),
        (with("Python", "{ regex: '(' }"), "regex"),
        (with("Python", "{ regex: 'a' }"), "kind"),
        (with("Python", "{ patern: a }"), "unknown field `patern`"),
        (with("Python", "{ pattern: a, inside: { kind: call, stopby: end } }"), "unknown field `stopby`"),
        (
            with("Python", "{ pattern: a, not: { any: [{ has: { kind: call, feild: x } }] } }"),
            "unknown field `feild`",
        ),
        (with("Python", "{ pattern: a, field: x }"), "unknown field `field`"),
        (
            with("Python", "{ pattern: a, matches: u }\nutils: { u: { inside: { kind: call, end: 1 } } }"),
            "unknown field `end`",
        ),
        (with("Python", "{ matches: nothing }"), "nothing"),
        (with("Python", "{ pattern: '' }"), "pattern"),
        (with("Sql", "{ pattern: a }"), "match: in the others"),
        (with("Python", "{ pattern: a }\nmatch: { call: [a] }"), "two rules"),
        (with("Python", "{ pattern: a }\nconstraint: {}"), "unknown field `constraint`"),
        (with("Python", "{ pattern: a }\nfiles: ['[']"), "unclosed"),
        (with("Python", "{ pattern: a }").replace("capability", "capabilty"), "unknown field `capabilty`"),
        (with("Python", "{ pattern: a }").replace("severity: warning", "severity: off"), "off"),
        (with("Python", "{ pattern: zap }"), "misses a positive example"),
        (rule("Python", "{ pattern: a }", ["a", "f(a)"], ["b", "a"]), "matches a benign example"),
    ] {
        let error = load_pack([("own.yml".to_owned(), text.clone())]).expect_err(&text).to_string();
        assert!(error.contains(reason) && error.starts_with("own.yml: rule own-rule: "), "{reason}: {error}");
    }
    let bare = "id: own-rule\nlanguage: Python\nseverity: warning\nmessage: m\nrule: { pattern: a }\n";
    let error = load_pack([("own.yml".to_owned(), bare.to_owned())]).expect_err(bare).to_string();
    assert!(error.contains("metadata"), "{error}");
}
