//! Debian's JUnit, on valid, broken and hostile projects.

use super::*;

fn with_junit() -> bool {
    let lacks =
        [("/usr/bin/javac", "default-jdk-headless"), ("/usr/share/java/junit-jupiter-api.jar", "junit5")];
    let lacks: Vec<_> = lacks.iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, p)| *p).collect();
    if !lacks.is_empty() {
        println!("skipped: no JUnit (on Debian: apt-get install {})", lacks.join(" "));
    }
    lacks.is_empty()
}

fn large() -> Limits {
    Limits { memory: Bytes::mib(1024), wall: Duration::from_secs(120), disk: Bytes::mib(256), ..limits() }
}

async fn junit(files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    run_with("junit", Path::new("/usr"), files, selection, limits).await
}

async fn plain(files: &[(&str, &str)]) -> Ran {
    junit(files, Selection::default(), large()).await
}

/// A class of this name with these members.
fn class(name: &str, members: &str) -> String {
    let imports = [
        "org.junit.jupiter.api.*",
        "java.nio.file.*",
        "java.util.*",
        "static org.junit.jupiter.api.Assertions.*",
    ];
    let imports: String = imports.map(|i| format!("import {i};\n")).concat();
    format!("{imports}@TestMethodOrder(MethodOrderer.MethodName.class)\nclass {name} {{\n{members}\n}}\n")
}

const BAD: &str = "@Test void b() { fail(\"it does not work\"); }";
const GOOD: &str = "@Test void b() {}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn junit_kinds_and_filters_are_reported() {
    if !with_junit() {
        return;
    }
    let many = format!(
        "package a;\n{}",
        class(
            "ManyTest",
            "@Test void adds() { System.out.println(\"hi\"); }\n@Test void bad() {\n  assertEquals(1, 2, \"why\");\n}\n\
             @Test void errs() { throw new IllegalStateException(\"x\"); }\n@Test @Disabled(\"slow\") void left() {}\n\
             @Test void assumed() { Assumptions.assumeTrue(false); }\n@Nested class In { @Test void deep() {} }\n\
             @TestFactory List<DynamicTest> made() { return List.of(DynamicTest.dynamicTest(\"one\", () -> {}), DynamicTest.dynamicTest(\"two\", () -> fail())); }\n\
             @org.junit.jupiter.params.ParameterizedTest @org.junit.jupiter.params.provider.MethodSource(\"none\") void each(int n) {}",
        )
    );
    let before = class(
        "BeforeTest",
        "@BeforeAll static void no() { throw new RuntimeException(\"set-up\"); }\n@Test void never() {}",
    );
    let after = class(
        "AfterTest",
        "@AfterAll static void no() { throw new RuntimeException(\"tear\"); }\n@Test void was() {}",
    );
    let old = "public class OldTest { @org.junit.Test public void old() {} @org.junit.Ignore @org.junit.Test public void off() {} }";
    let files = [
        ("src/test/java/a/ManyTest.java", many.as_str()),
        ("BeforeTest.java", &before),
        ("AfterTest.java", &after),
        ("OldTest.java", old),
        ("Broken.java", "class Broken {\n  int f() { return y; }\n}\n"),
        ("UsesTest.java", "class UsesTest { @org.junit.jupiter.api.Test void f() { new Broken().f(); } }"),
    ];
    let ran = plain(&files).await;
    ran.assert(Verdict::Failed, true, true);
    // Passed: adds, deep, one, old. Failed: bad, two. Errored: errs, each, never, was, two files.
    // Skipped: left, assumed, off.
    assert_eq!(ran.counts(), [4, 2, 6, 3, 0], "{}", ran.told());
    let bad = ran.case("a.ManyTest::bad()");
    assert_eq!(
        (bad.file.as_deref(), bad.line),
        (Some("src/test/java/a/ManyTest.java"), Some(10)),
        "{}",
        ran.told()
    );
    assert_eq!(bad.source.as_deref(), Some("assertEquals(1, 2, \"why\");"));
    assert_eq!(bad.message.as_deref(), Some("why ==> expected: <1> but was: <2>"));
    assert_eq!(ran.case("::adds()").stdout.as_deref(), Some("hi"), "{}", ran.told());
    assert_eq!(ran.case("::left()").message.as_deref(), Some("slow"), "{}", ran.told());
    let broken = ran.case("Broken.java");
    assert_eq!((broken.status, broken.line), (Status::Errored, Some(2)), "{}", ran.told());
    assert!(ran.report.interpreter.is_some());

    for (filter, want) in [
        ("a.ManyTest::bad()", &["a.ManyTest::bad()"][..]),
        ("a.ManyTest::made()[2]", &["a.ManyTest::made()[1]", "a.ManyTest::made()[2]"]),
        ("AfterTest.java", &["AfterTest::was()"]),
        ("deep", &["a.ManyTest$In::deep()"]),
    ] {
        let ran = junit(&files[..4], filtered(filter), large()).await;
        let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, want, "{}", ran.told());
    }
    assert_eq!(junit(&files[..4], filtered("nothing"), large()).await.report.verdict, Verdict::Unusable);
    plain(&[("OldTest.java", "public class OldTest { @org.junit.Test public void old() {} }")]).await.assert(
        Verdict::Passed,
        true,
        true,
    );
}

/// JUnit 5 leaves such tests out without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_junit_never_runs_are_noted() {
    if !with_junit() {
        return;
    }
    let never = "@Test private void a() { fail(); }\n@Test static void b() { fail(); }\n@Test int c() { return fail(); }\n\
                 class In { @Test void d() { fail(); } }\n@Test void e() {}\n@Nested class Deep { @Test void f() {} }";
    let ran = plain(&[("NeverTest.java", &class("NeverTest", never))]).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [2, 0, 0, 0, 0], "{}", ran.told());
    let want = "JUnit does not run these tests, nor say so: a in NeverTest.java:7 (private), b in NeverTest.java:8 (static), \
                c in NeverTest.java:9 (not void), d in NeverTest.java:10 (in an inner class without @Nested)";
    assert_eq!(ran.report.reason.as_deref(), Some(want), "{}", ran.told());
    let ran = plain(&[("GoodTest.java", &class("GoodTest", GOOD))]).await;
    assert_eq!((ran.report.verdict, &ran.report.reason), (Verdict::Passed, &None), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_junit_runner_leaves_observed_results() {
    if !with_junit() {
        return;
    }
    let short = Limits { wall: Duration::from_secs(20), ..large() };
    let tight = Limits { memory: Bytes::mib(300), ..large() };
    for (does, limits, verdict) in [
        ("System.exit(0);", large(), Verdict::Unusable),
        ("System.exit(1);", large(), Verdict::Unusable),
        ("Runtime.getRuntime().halt(0);", large(), Verdict::Unusable),
        ("Runtime.getRuntime().halt(2);", large(), Verdict::Unusable),
        ("System.exit(7);", large(), Verdict::Unusable),
        ("throw new OutOfMemoryError(\"gone\");", large(), Verdict::Unusable),
        (
            "new ProcessBuilder(\"kill\", \"-9\", \"\" + ProcessHandle.current().pid()).start().waitFor(); Thread.sleep(9000);",
            large(),
            Verdict::Unusable,
        ),
        ("for (;;) Thread.sleep(1000);", short, Verdict::Limit),
        (
            "List<Object> all = new ArrayList<>(); for (;;) { byte[] b = new byte[1 << 20]; Arrays.fill(b, (byte) 1); all.add(b); }",
            tight,
            Verdict::Limit,
        ),
    ] {
        let text = class(
            "ATest",
            &format!(
                "@Test void a() {{}}\n@Test void b() throws Exception {{ {does} }}\n@Test void c() {{}}"
            ),
        );
        let files = [("ATest.java", text.as_str())];
        let mut ran = junit(&files, Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "::b()") {
            ran = junit(&files, Selection::default(), limits).await;
        }
        assert_eq!(ran.report.verdict, verdict, "{does}: {}", ran.told());
        ran.assert_not_passed();
        assert_eq!(ran.case("::a()").status, Status::Passed, "{does}: {}", ran.told());
        assert_eq!(ran.case("::b()").status, Status::NotFinished, "{does}: {}", ran.told());
        let reason = ran.report.reason.clone().unwrap_or_default();
        assert!(!reason.contains("could not begin;"), "{does}: {reason}");
        assert_eq!(
            reason.contains("JUnit broke off: java.lang.OutOfMemoryError: gone"),
            does.starts_with("throw"),
            "{does}: {reason}"
        );
    }
}

/// Helpers for forging tests.
const FORGE: &str = "static final Path REPORT = Path.of(\"/home/sandbox/.hotcell-reports/junit.txt\");
static String xml(String more) { return \"<testsuite><testcase classname='ATest' name='b()'/>\" + more + \"</testsuite>\"; }
static String whole(String xml) { return \"@hotcell\\tprogram\\ta\\n@hotcell\\tfile\\ta\\t\" + xml.length() + \"\\n\" + xml + \"\\n@hotcell\\tend\\ta\\t0\\n@hotcell\\tdone\\t-\\t0\\n\"; }
static void forge(String text) throws Exception { Files.createDirectories(REPORT.getParent()); Files.writeString(REPORT, text); }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_reports_and_codes() {
    if !with_junit() {
        return;
    }
    for (what, does, rest) in [
        ("the report, and gone", "forge(whole(xml(\"\"))); Runtime.getRuntime().halt(0);", BAD),
        (
            "the end",
            "Files.writeString(Path.of(\"/proc/self/fd/3\"), \"{\\\"e\\\":\\\"finish\\\",\\\"exit\\\":0}\\n\"); forge(whole(xml(\"\"))); Runtime.getRuntime().halt(0);",
            BAD,
        ),
        ("nonsense", "Files.writeString(Path.of(\"/proc/self/fd/3\"), \"\\nxxx\\n\");", GOOD),
        ("a folder", "Files.createDirectories(REPORT);", GOOD),
        (
            "a link",
            "Files.createDirectories(REPORT.getParent()); Files.createSymbolicLink(REPORT, Path.of(\"/home/sandbox/other\"));",
            GOOD,
        ),
    ] {
        let text = class("ATest", &format!("{FORGE}@Test void a() throws Exception {{ {does} }}\n{rest}"));
        let ran = plain(&[("ATest.java", &text)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}

/// Code that replaces a report, in a listener of the project that runs last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_junit_reports_do_not_pass() {
    if !with_junit() {
        return;
    }
    let listener = |does: &str| {
        format!(
            "import java.nio.file.*; import org.junit.platform.launcher.*;
             public class Late implements TestExecutionListener {{
               static void put(String name, String text) throws Exception {{ try (var all = Files.newDirectoryStream(Path.of(\"/tmp\"), \"junit*\")) {{ for (Path p : all) Files.writeString(p.resolve(name), text); }} }}
               public void testPlanExecutionFinished(TestPlan plan) {{ try {{ {does} }} catch (Exception e) {{ throw new RuntimeException(e); }} }} }}"
        )
    };
    let good = class("ATest", GOOD);
    for (what, does) in [
        ("one more", "put(\"TEST-x.xml\", \"<testsuite><testcase classname='X' name='y'/></testsuite>\");"),
        ("a cut one", "put(\"TEST-x.xml\", \"<testsuite><testcase\");"),
        ("a deep one", "put(\"TEST-x.xml\", \"<testsuite>\" + \"<a>\".repeat(100000));"),
        ("one with a document type", "put(\"TEST-x.xml\", \"<!DOCTYPE a [<!ENTITY x 'y'>]><testsuite/>\");"),
        (
            "a failed one",
            "put(\"TEST-x.xml\", \"<testsuite><testcase classname='ATest' name='b()'><failure/></testcase></testsuite>\");",
        ),
        (
            "one of 100 MB",
            "try (var f = new java.io.RandomAccessFile(Files.newDirectoryStream(Path.of(\"/tmp\"), \"junit*\").iterator().next().resolve(\"TEST-x.xml\").toFile(), \"rw\")) { f.setLength(100 << 20); }",
        ),
        (
            "none",
            "for (Path d : Files.newDirectoryStream(Path.of(\"/tmp\"), \"junit*\")) for (Path p : Files.newDirectoryStream(d)) Files.delete(p);",
        ),
    ] {
        let files = [
            ("ATest.java", good.as_str()),
            ("Late.java", &listener(does)),
            ("resources/META-INF/services/org.junit.platform.launcher.TestExecutionListener", "Late\n"),
        ];
        let ran = plain(&files).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}
