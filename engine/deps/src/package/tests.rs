use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn commands_name_packages_programs_and_arguments() {
    type Row<'a> = (&'a str, Ecosystem, &'a str, &'a str, Option<&'a str>, &'a [&'a str]);
    let rows: [Row<'_>; 13] = [
        ("npx -y @scope/server /data", Ecosystem::Npm, "@scope/server", "", None, &["/data"]),
        ("npx server@1.2.x --flag", Ecosystem::Npm, "server", "1.2.x", None, &["--flag"]),
        ("/usr/bin/npx --yes -p @s/p@^2 prog a", Ecosystem::Npm, "@s/p", "^2", Some("prog"), &["a"]),
        ("pnpm dlx server@1 a", Ecosystem::Npm, "server", "1", None, &["a"]),
        ("yarn dlx -q -p @s/p prog", Ecosystem::Npm, "@s/p", "", Some("prog"), &[]),
        ("bunx server", Ecosystem::Npm, "server", "", None, &[]),
        ("bun x server --flag", Ecosystem::Npm, "server", "", None, &["--flag"]),
        ("npm exec --package=p -- prog", Ecosystem::Npm, "p", "", Some("prog"), &[]),
        (
            "uvx mcp-server-time --local-timezone UTC",
            Ecosystem::Python,
            "mcp-server-time",
            "",
            None,
            &["--local-timezone", "UTC"],
        ),
        ("uvx mcp-server-git==0.6.2", Ecosystem::Python, "mcp-server-git", "==0.6.2", None, &[]),
        ("uvx pkg@1.0", Ecosystem::Python, "pkg", "==1.0", None, &[]),
        ("uvx --from pkg[cli]>=1,<2 prog", Ecosystem::Python, "pkg", "[cli]>=1,<2", Some("prog"), &[]),
        ("pipx run pkg@latest", Ecosystem::Python, "pkg", "", None, &[]),
    ];
    for (line, ecosystem, name, version, program, args) in rows {
        let got = named(&words(line)).unwrap().unwrap();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let program = program.map(str::to_owned);
        let want = NamedPackage { ecosystem, name: name.into(), version: version.into(), program, args };
        assert_eq!(got, want, "{line}");
    }
    for line in [
        "node server.js",
        "python3 -m server",
        "/opt/server",
        "npm run x",
        "pnpm run x",
        "yarn x",
        "bun x.ts",
        "uv run x",
        "",
    ] {
        assert_eq!(named(&words(line)), Ok(None), "{line}");
    }
}

/// Whatever leads elsewhere than to a registry is refused, and nothing of a name becomes an option, a path or code.
#[test]
fn commands_with_addresses_paths_and_options_are_refused() {
    for line in [
        "npx",
        "npx -y",
        "npx git+https://x.org/a.git",
        "npx https://x.org/a.tgz",
        "npx ./local",
        "npx ../x",
        "npx user/repo",
        "npx @scope",
        "npx @a/b/c",
        "npx name@file:../x",
        "npx name@npm:other",
        "npx -c evil",
        "npx --registry=https://evil.org x",
        "npx -p",
        "uvx",
        "uvx --index-url https://evil.org x",
        "uvx git+https://x.org/a",
        "uvx --from ./x prog",
        "uvx name@https://x.org/a.whl",
        "uvx x;y",
        "uvx x==1\u{202e}",
        "uvx -r",
    ] {
        assert!(named(&words(line)).is_err(), "{line}: {:?}", named(&words(line)));
    }
    let newline = ["uvx".to_owned(), "x\n--index-url=https://evil.org".to_owned()];
    assert!(named(&newline).is_err());
}

#[test]
fn npm_program_is_found_below_the_package_only() {
    let of = |name: &str, program: Option<&str>| NamedPackage {
        ecosystem: Ecosystem::Npm,
        name: name.to_owned(),
        version: String::new(),
        program: program.map(str::to_owned),
        args: Vec::new(),
    };
    for (manifest, program, want) in [
        (r#"{"bin":"dist/index.js"}"#, None, Some("dist/index.js")),
        (r#"{"bin":{"server":"./a.js","other":"b.js"}}"#, None, Some("a.js")),
        (r#"{"bin":{"x":"a.js"}}"#, None, Some("a.js")),
        (r#"{"bin":{"x":"a.js","y":"b.js"}}"#, None, None),
        (r#"{"bin":{"x":"a.js","y":"b.js"}}"#, Some("y"), Some("b.js")),
        (r#"{"bin":{"x":"../../etc/passwd"}}"#, None, None),
        (r#"{"bin":{"x":"/etc/passwd"}}"#, None, None),
        (r#"{"bin":[]}"#, None, None),
        ("{}", None, None),
    ] {
        let got = npm_program(manifest.as_bytes(), &of("@scope/server", program)).ok();
        assert_eq!(got.as_deref(), want.map(Path::new), "{manifest} {program:?}");
    }
}

#[test]
fn python_entry_points_are_identifiers() {
    let text = "[gui_scripts]\nno = a:b\n[console_scripts]\nserver = pkg.main:run\nx=y:z [extra]\n";
    let scripts = console_scripts(text);
    assert_eq!(scripts.len(), 2);
    assert_eq!(python_target(&scripts[0].1), Some(("pkg.main".into(), "run".into())));
    assert_eq!(python_target(&scripts[1].1), Some(("y".into(), "z".into())));
    for target in ["a", "a:", ":b", "a:b;c", "a b:c", "os:system('x')", "a:b.c", "a.:b", "1a:b"] {
        assert_eq!(python_target(target), None, "{target}");
    }
    assert!(is_named("mcp_server_time-1.0.dist-info", "mcp-server-time"));
    assert!(!is_named("mcp_server-1.0.dist-info", "mcp-server-time"));
}

#[test]
fn report_of_pip_becomes_requirements_with_digests() {
    let row = |name: &str, url: &str, digest: &str| {
        serde_json::json!({
            "metadata": { "name": name, "version": "1.0" },
            "download_info": { "url": url, "archive_info": { "hashes": { "sha256": digest } } },
        })
    };
    let report =
        |rows: Vec<serde_json::Value>| serde_json::json!({ "version": "1", "install": rows }).to_string();
    let digest = "a".repeat(64);
    let good = report(vec![row("mcp", "https://files.pythonhosted.org/a.whl", &digest)]);
    assert_eq!(requirements(good.as_bytes()), Ok(format!("mcp==1.0 --hash=sha256:{digest}\n")));
    for rows in [
        vec![],
        vec![row("a\n--index-url x", "https://files.pythonhosted.org/a.whl", &digest)],
        vec![row("a", "http://files.pythonhosted.org/a.whl", &digest)],
        vec![row("a", "file:///etc/passwd", &digest)],
        vec![row("a", "https://files.pythonhosted.org/a.whl", "short")],
    ] {
        let report = report(rows);
        assert!(requirements(report.as_bytes()).is_err(), "{report}");
    }
    assert!(requirements(b"{").is_err());
}
