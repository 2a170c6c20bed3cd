//! Feeds of the operator: fingerprints of known code and names that resemble popular packages yield notes, which change
//! no verdict.

use hotcell_guard::{
    Artifact, Limits, Pack, PackError, RECORD_FINGERPRINTS, Report, Severity, Verdict, load_pack, scan,
};

/// Popular packages; the feed of the tests.
const FEED: &str =
    "# Names for tests.\npypi requests python-dateutil colorama\nnpm lodash express @types/node\n";

fn with(feed: &str) -> Result<Pack, PackError> {
    load_pack([("/rules/test.feed".to_owned(), feed.to_owned())])
}

fn of(pack: &Pack, name: &str, source: &str) -> Report {
    scan(pack, &Limits::default(), &Artifact::new(name, source))
}

/// Line and message of each note of a feed.
fn notes(report: &Report) -> Vec<(u32, String)> {
    let notes = report.findings.iter().filter(|finding| finding.rule.starts_with("feed."));
    notes
        .map(|finding| {
            assert_eq!(finding.severity, Severity::Note, "{finding:?}");
            (finding.line, finding.message.clone())
        })
        .collect()
}

#[test]
fn names_of_packages_are_compared_where_they_are_named() -> Result<(), PackError> {
    let pack = with(FEED)?;
    let without = Pack::builtin()?;
    for (file, source, line, popular) in [
        ("a.py", "import os\nimport reqeusts\n", 2, "requests"),
        ("a.py", "from colourama.x import y\n", 1, "colorama"),
        ("a.js", "const x = require('lodahs')\n", 1, "lodash"),
        ("a.js", "\nimport x from 'expresss/lib/a'\n", 2, "express"),
        ("a.js", "export * from '@types/nodes'\n", 1, "@types/node"),
        ("a.mjs", "const x = await import('l0dash')\n", 1, "lodash"),
        ("a.ts", "import type { A } from '@typse/node'\n", 1, "@types/node"),
        ("package.json", "{\n\"name\": \"lodash-\",\n\"version\": \"1.0.0\"}", 2, "lodash"),
        ("package.json", "{\"name\": \"mine\",\n \"dependencies\": {\n \"expres\": \"1\"}}", 3, "express"),
        ("requirements.txt", "six\nreqests>=2  # http\n", 2, "requests"),
        ("pyproject.toml", "[project]\nname = \"requestss\"\n", 2, "requests"),
        (
            "pyproject.toml",
            "[project]\nname = \"x\"\ndependencies = [\n\"pythondateutil>=2\"]\n",
            4,
            "python-dateutil",
        ),
        ("pyproject.toml", "[tool.poetry.dependencies]\npython = \"3\"\nreqests = \"*\"\n", 3, "requests"),
        ("setup.cfg", "[metadata]\nname = c0lorama\n", 2, "colorama"),
        ("setup.cfg", "[options]\ninstall_requires =\n  six\n  co1orama\n", 4, "colorama"),
        ("setup.py", "from setuptools import setup\nsetup(name='reqeusts', version='1')\n", 2, "requests"),
        (
            "setup.py",
            "import setuptools\nsetuptools.setup(name='x', install_requires=['six', 'clorama>1'])\n",
            2,
            "colorama",
        ),
        ("PKG-INFO", "Metadata-Version: 2.1\nName: requets\n\nName: reqeusts\n", 2, "requests"),
        ("x.dist-info/METADATA", "Name: x\nRequires-Dist: co1orama (>=1)\n", 2, "colorama"),
        ("a.sh", "pip install -q six reqeusts==2\n", 1, "requests"),
        ("a.sh", "npm i lodahs@1.0\n", 1, "lodash"),
        ("a.sh", "pip -q install reqeusts\n", 1, "requests"),
        ("a.sh", "python3 -m pip install reqeusts\n", 1, "requests"),
        ("a.sh", "\nuv pip install reqeusts\n", 2, "requests"),
        ("a.sh", "npm --silent i lodahs\n", 1, "lodash"),
        ("a.sh", "npm i own@npm:lodahs@1\n", 1, "lodash"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires='reqeusts>1')\n", 2, "requests"),
        (
            "setup.py",
            "from setuptools import setup\nsetup(extras_require={'x': ['six', 'reqeusts']})\n",
            2,
            "requests",
        ),
        ("package.json", "{\"dependencies\": {\n\"own\": \"npm:lodahs@1\"}}", 2, "lodash"),
    ] {
        let report = of(&pack, file, source);
        let found = notes(&report);
        assert_eq!(found.len(), 1, "{file} {source} {found:?}");
        assert_eq!(found[0].0, line, "{file} {source}");
        assert!(found[0].1.contains(&format!(" {popular},")), "{file} {source} {found:?}");
        let plain = of(&without, file, source);
        assert_eq!((report.verdict, notes(&plain)), (plain.verdict, Vec::new()), "{file} {source}");
    }
    for (file, source) in [
        ("a.py", "import requests, dateutil, colorama\nfrom . import reqeusts\nfrom .reqeusts import x\n"),
        ("a.py", "x = 'import reqeusts'\n# import reqeusts\n"),
        ("a.py", "from python_dateutil import x\nimport requests.auth\n"),
        ("a.js", "require('./lodahs'); require('lodash/fp'); require('node:lodahs')\n"),
        ("package.json", "{\"dependencies\": {\"reqeusts\": \"1\", \"lodash\": \"4\"}}"),
        ("requirements.txt", "Requests\n-r lodahs\npython.dateutil\n# reqeusts\n"),
        ("a.sh", "pip download x\necho install reqeusts\nnpm run lodahs\n"),
        ("notes.txt", "Name: reqeusts\n"),
        ("a.py", "from __future__ import x\nimport _pytest, urllib2, httplib, StringIO\n"),
        ("a.sh", "python3 -m venv lodahs\nnpm --silent run lodahs\n"),
    ] {
        assert_eq!(notes(&of(&pack, file, source)), Vec::new(), "{file} {source}");
    }
    Ok(())
}

#[test]
fn limits_of_comparisons_are_noted_once() -> Result<(), PackError> {
    let pack = with(FEED)?;
    let letters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
    let many = (0..8).flat_map(|at| letters.iter().map(move |c| (at, *c))).map(|(at, c)| {
        let mut name = "requests".to_owned();
        name.insert(at, c);
        format!("{name}\n")
    });
    let report = of(&pack, "requirements.txt", &many.take(90).collect::<String>());
    assert_eq!(report.findings.iter().filter(|f| f.rule == "feed.similar_name").count(), 64);
    assert_eq!(report.findings.iter().filter(|f| f.rule == "feed.limit").count(), 1);
    let many: String = (0..4200).map(|at| format!("zzzzzz{at}\n")).collect();
    let report = of(&pack, "requirements.txt", &many);
    assert_eq!(notes(&report).len(), 1, "{:?}", report.findings);
    assert!(report.findings.iter().any(|f| f.rule == "feed.limit"));
    Ok(())
}

#[test]
fn known_code_is_noted_in_files_archives_and_unread_languages() -> Result<(), PackError> {
    let code = "import os\ndef go(a):\n    return os.path.join(a, 'x')\nprint(go('y'))\n";
    let like =
        "# changed\nimport os\ndef run(b):  # it's\n\treturn os.path.join(b,\n\t\t\"x\")\nprint(run('y'))\n";
    let perl = "#!/usr/bin/perl\nmy $a = 'x';  print $a . \"\\n\";\n";
    let plain = load_pack([(RECORD_FINGERPRINTS.to_owned(), String::new())])?;
    let digest = |name: &str, source: &str| -> String {
        let all = of(&plain, name, source).coverage.fingerprints;
        assert_eq!(all.len(), 1, "{name} {all:?}");
        all[0].sha256.clone()
    };
    let feed = format!("{}  a campaign\n{}  a dropper in Perl\n", digest("a.py", code), digest("a.pl", perl));
    let pack = with(&feed)?;
    for (name, source, label) in [
        ("a.py", code, Some("a campaign")),
        ("b.py", like, Some("a campaign")),
        ("b.py", "import os\ndef run(b):\n\treturn os.path.join(b, 'z')\nprint(run('y'))\n", None),
        ("c.pl", "#!/usr/bin/perl\n\nmy $a =\t'x';\nprint $a . \"\\n\";\n", Some("a dropper in Perl")),
        ("c.pl", "#!/usr/bin/perl\nmy $b = 'x';  print $b . \"\\n\";\n", None),
        ("a.txt", code, Some("a campaign")),
    ] {
        let report = of(&pack, name, source);
        let found = notes(&report);
        assert_eq!(found.len(), usize::from(label.is_some()), "{name} {found:?}");
        assert!(label.is_none_or(|label| found[0].1.contains(&format!("{label:?}"))), "{name} {found:?}");
        assert_eq!(report.verdict, of(&Pack::builtin()?, name, source).verdict, "{name}");
    }
    assert_eq!(of(&pack, "b.py", like).verdict, Verdict::Allow);
    assert_eq!(of(&Pack::builtin()?, "a.py", code).coverage.fingerprints, Vec::new(), "without a feed");
    assert_eq!(of(&pack, "a.py", code).coverage.fingerprints, Vec::new(), "not asked for");
    let large = "a = f(b, 1, 2)\n".repeat(1 << 19);
    assert_eq!(of(&plain, "a.py", &large).coverage.fingerprints, Vec::new(), "larger than what is parsed");
    // An entry of an archive.
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(like.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "p/b.py", like.as_bytes()).map_err(|_| PackError::Feed {
        file: String::new(),
        line: 0,
        problem: "tar".to_owned(),
    })?;
    let bytes = tar.into_inner().unwrap_or_default();
    let report = scan(&pack, &Limits::default(), &Artifact::new("p.tar", bytes));
    let known: Vec<_> = report.findings.iter().filter(|finding| finding.rule == "feed.known_code").collect();
    assert_eq!(known.len(), 1, "{report:?}");
    assert_eq!(known[0].part, "p.tar!p/b.py");
    Ok(())
}

#[test]
fn feeds_count_into_the_digest_and_bad_ones_are_refused() -> Result<(), PackError> {
    let (one, two) = (with("pypi a\n")?, with("pypi b\n")?);
    let none = Pack::builtin()?;
    assert!(one.digest != two.digest && one.digest != none.digest && two.digest != none.digest);
    let refused = with("# x\npypi requests\nreqeusts\n").map(|_| ()).map_err(|error| error.to_string());
    let why = "/rules/test.feed: line 3: \"reqeusts\" is not a fingerprint, which is 64 hexadecimal digits, and not pypi or npm";
    assert_eq!(refused, Err(why.to_owned()));
    Ok(())
}
