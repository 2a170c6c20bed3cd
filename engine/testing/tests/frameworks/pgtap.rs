//! Debian's pgTAP, in a PostgreSQL of its own, on valid, broken and hostile projects.

use super::*;

fn with_pgtap() -> bool {
    let found = std::fs::read_dir("/usr/share/postgresql").into_iter().flatten().flatten();
    let there = found.map(|e| e.path()).any(|version| {
        let bin = Path::new("/usr/lib/postgresql").join(version.file_name().unwrap()).join("bin/initdb");
        bin.exists() && version.join("extension/pgtap.control").exists()
    });
    if !there {
        println!("skipped: no pgTAP (on Debian: apt-get install postgresql postgresql-15-pgtap)");
    }
    there
}

fn large() -> Limits {
    Limits { memory: Bytes::mib(1024), wall: Duration::from_secs(90), disk: Bytes::mib(512), ..limits() }
}

async fn pgtap(files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    run_with("pgtap", Path::new("/usr"), files, selection, limits).await
}

const GOOD: &str = "SELECT plan(1);\nSELECT pass('fine');\nSELECT * FROM finish();\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgtap_kinds_and_filters_are_reported() {
    if !with_pgtap() {
        return;
    }
    let many = "BEGIN;\nSELECT plan(5);\nSELECT is(n, 2, 'two') FROM numbers;\nSELECT is(n, 3, 'three') FROM numbers;\nSELECT pass('two');\nSELECT skip('slow', 1);\n\
                SELECT todo('later', 1); SELECT fail('not yet');\nSELECT * FROM finish();\nROLLBACK;\n";
    let files = [
        ("schema.sql", "CREATE TABLE numbers (n int);\nINSERT INTO numbers VALUES (2);\n"),
        ("tests/many.sql", many),
        (
            "tests/wrong.sql",
            "SELECT plan(2);\nSELECT pass('before');\nSELECT * FROM nothing;\nSELECT * FROM finish();\n",
        ),
        ("tests/short.sql", "SELECT plan(3);\nSELECT pass('one');\nSELECT * FROM finish();\n"),
        ("tests/none.sql", "-- no plan()\n\\echo 1..0 # SKIP not here\n"),
        // Changes by one file do not affect the next.
        (
            "tests/own.sql",
            "CREATE TABLE own (); SELECT plan(1);\nSELECT hasnt_table('many');\nSELECT * FROM finish();\n",
        ),
        (
            "tests/own2.sql",
            "CREATE TABLE many (); SELECT plan(1);\nSELECT hasnt_table('own');\nSELECT * FROM finish();\n",
        ),
    ];
    let ran = pgtap(&files, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    // Passed: two, two (3), before, one, own, own2. Errored: wrong, short. Skipped: skip, todo, none.
    assert_eq!(ran.counts(), [6, 1, 2, 3, 0], "{}", ran.told());
    let three = ran.case("tests/many.sql::three");
    assert_eq!(
        (three.status, three.message.as_deref()),
        (Status::Failed, Some("        have: 2\n        want: 3")),
        "{}",
        ran.told()
    );
    let wrong = ran.case("tests/wrong.sql");
    assert_eq!(
        (wrong.line, wrong.source.as_deref()),
        (Some(3), Some("SELECT * FROM nothing;")),
        "{}",
        ran.told()
    );
    assert!(wrong.message.as_deref().unwrap().contains("\"nothing\" does not exist"));
    assert_eq!(ran.case("tests/short.sql").message.as_deref(), Some("3 tests were planned, and 1 ran"));
    assert!(ran.report.framework_version.is_some());

    let ran = pgtap(&files, filtered("tests/own.sql::x"), large()).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{}", ran.told());
    let broken = [("schema.sql", "SELECT 1;\nCREATE nonsense;\n"), ("tests/a.sql", GOOD)];
    let ran = pgtap(&broken, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(
        (ran.case("schema.sql").status, ran.case("schema.sql").line),
        (Status::Errored, Some(2)),
        "{}",
        ran.told()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_pgtap_file_leaves_observed_results() {
    if !with_pgtap() {
        return;
    }
    let short = Limits { wall: Duration::from_secs(25), ..large() };
    for (does, limits, verdict) in [
        ("SELECT pg_sleep(1000);", short, Verdict::Limit),
        ("SELECT pg_terminate_backend(pg_backend_pid());", large(), Verdict::Failed),
        ("\\! kill -9 $(head -n 1 /home/sandbox/.hotcell-pg/db/postmaster.pid)", large(), Verdict::Failed),
        ("\\q", large(), Verdict::Failed),
        ("\\! kill -9 $PPID", large(), Verdict::Failed),
    ] {
        let text = format!(
            "SELECT plan(3);\nSELECT pass('first');\n{does}\nSELECT pass('last');\nSELECT * FROM finish();\n"
        );
        let files = [("tests/a.sql", text.as_str())];
        let mut ran = pgtap(&files, Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "::test 2") {
            ran = pgtap(&files, Selection::default(), limits).await;
        }
        assert!(
            ran.report.verdict == verdict || ran.report.verdict == Verdict::Unusable,
            "{does}: {}",
            ran.told()
        );
        assert_eq!(ran.case("::first").status, Status::Passed, "{does}: {}", ran.told());
        if verdict == Verdict::Limit {
            assert_eq!(ran.case("::test 2").status, Status::NotFinished, "{does}: {}", ran.told());
        } else {
            assert_eq!(ran.case("tests/a.sql").status, Status::Errored, "{does}: {}", ran.told());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_reports_and_lines() {
    if !with_pgtap() {
        return;
    }
    let all = "/home/sandbox/.hotcell-reports/pgtap.txt";
    for (what, does) in [
        ("nothing", String::new()),
        ("the whole report", format!("\\! printf '@hotcell\\tdone\\t-\\t0\\n' >{all}")),
        ("no report", format!("\\! rm -f {all}; mkdir {all}")),
        ("one of 1 GB", format!("\\! truncate -s 1G {all}")),
        (
            "our lines",
            "\\! printf '\\n@hotcell\\tend\\ttests/a.sql\\t0\\n@hotcell\\tdone\\t-\\t0\\n'".to_owned(),
        ),
        ("what psql printed", "\\! rm -f /home/sandbox/.hotcell-pg/tap".to_owned()),
        ("another plan", "\\echo 1..1".to_owned()),
    ] {
        let text = format!(
            "SELECT plan(2);\nSELECT pass('good');\n{does}\nSELECT fail('bad');\nSELECT * FROM finish();\n"
        );
        let files = [("tests/a.sql", text.as_str()), ("tests/b.sql", GOOD)];
        let ran = pgtap(&files, Selection::default(), Limits { disk: Bytes::mib(2048), ..large() }).await;
        let want = if what == "nothing" { Verdict::Failed } else { Verdict::Unusable };
        assert_eq!(ran.report.verdict, want, "{what}: {}", ran.told());
    }
}
