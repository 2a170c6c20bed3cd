//! Java projects built with Debian's Maven and Gradle, offline with Debian's repository.

use super::*;

const REPOSITORY: &str = "/usr/share/maven-repo/org/apache/maven/plugins/maven-surefire-plugin";

fn with_maven() -> bool {
    let needs = [
        ("/usr/bin/javac", "default-jdk-headless"),
        ("/usr/bin/mvn", "maven"),
        (REPOSITORY, "libsurefire-java"),
        (
            "/usr/share/maven-repo/org/apache/maven/plugins/maven-compiler-plugin",
            "libmaven-compiler-plugin-java",
        ),
        (
            "/usr/share/maven-repo/org/apache/maven/plugins/maven-resources-plugin",
            "libmaven-resources-plugin-java",
        ),
        ("/usr/share/java/junit-jupiter-api.jar", "junit5"),
    ];
    let lacks: Vec<_> = needs.iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, p)| *p).collect();
    if !lacks.is_empty() {
        println!("skipped: no Maven (on Debian: apt-get install {})", lacks.join(" "));
    }
    lacks.is_empty()
}

/// Debian's Gradle, 4.4.1, starts with Java 17 and not with Java 21.
fn with_gradle() -> bool {
    static STARTS: OnceLock<bool> = OnceLock::new();
    let starts = *STARTS.get_or_init(|| {
        let version = Command::new("/usr/bin/gradle").arg("--version").stdin(Stdio::null()).output();
        version.is_ok_and(|done| done.status.success())
    });
    if !Path::new("/usr/bin/gradle").exists() {
        println!("skipped: no Gradle (on Debian: apt-get install gradle)");
    } else if !starts {
        println!("skipped: Debian's Gradle does not start with this Java");
    }
    starts
}

fn large() -> Limits {
    Limits {
        memory: Bytes::mib(1536),
        wall: Duration::from_secs(240),
        disk: Bytes::mib(512),
        processes: 512,
        ..limits()
    }
}

async fn built(files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    run_with("junit", Path::new("/usr"), files, selection, limits).await
}

/// A `pom.xml` with additional dependencies and modules.
fn pom(name: &str, more: &str, dependencies: &str) -> String {
    format!(
        "<project xmlns='http://maven.apache.org/POM/4.0.0'><modelVersion>4.0.0</modelVersion>\
         <groupId>x</groupId><artifactId>{name}</artifactId><version>1</version>{more}\
         <properties><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target>\
         <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>\
         <dependencies>{dependencies}</dependencies></project>"
    )
}

fn depends(group: &str, artifact: &str, version: &str) -> String {
    format!(
        "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
    )
}

fn jupiter() -> String {
    depends("org.junit.jupiter", "junit-jupiter", "5.9.2")
}

/// A class of tests with these members, in the package `a`.
fn class(name: &str, members: &str) -> String {
    format!(
        "package a;\nimport org.junit.jupiter.api.*;\nimport org.junit.jupiter.params.*;\nimport org.junit.jupiter.params.provider.*;\nimport java.util.*;\n\
         import static org.junit.jupiter.api.Assertions.*;\n@TestMethodOrder(MethodOrderer.MethodName.class)\nclass {name} {{\n{members}\n}}\n"
    )
}

const CART: &str =
    "package a;\npublic class Cart { public static int add(int a, int b) { return a + b; } }\n";
const MANY_TESTS: &str = "@Test void adds() { System.out.println(\"hi\"); assertEquals(3, Cart.add(1, 2)); }
@Test void bad() {
  assertEquals(4, Cart.add(1, 2), \"why\");
}
@Test void errs() { throw new IllegalStateException(\"x\"); }
@Test @Disabled(\"slow\") void left() {}
@Test @DisplayName(\"told otherwise\") void named() {}
@Test void info(TestInfo about) {}
@Nested class In { @Test void deep() {} }
@TestFactory List<DynamicTest> made() { return List.of(DynamicTest.dynamicTest(\"one\", () -> {}), DynamicTest.dynamicTest(\"two\", () -> fail())); }
@ParameterizedTest @CsvSource({\"1,a\", \"2,b\"}) void two(int n, String s) {}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maven_reports_each_test() {
    if !with_maven() {
        return;
    }
    let pom = pom("shop", "", &jupiter());
    let many = class("ManyTest", MANY_TESTS);
    let before = class(
        "BeforeTest",
        "@BeforeAll static void no() { throw new RuntimeException(\"set-up\"); }\n@Test void never() {}",
    );
    let after = class(
        "AfterTest",
        "@AfterAll static void no() { throw new RuntimeException(\"tear\"); }\n@Test void was() {}",
    );
    let off = format!(
        "package a;\n{}",
        "import org.junit.jupiter.api.*;\n@Disabled(\"all\") class OffTest { @Test void one() {} @Test void two() {} }"
    );
    let files = [
        ("pom.xml", pom.as_str()),
        ("src/main/java/a/Cart.java", CART),
        ("src/test/java/a/ManyTest.java", &many),
        ("src/test/java/a/BeforeTest.java", &before),
        ("src/test/java/a/AfterTest.java", &after),
        ("src/test/java/a/OffTest.java", &off),
        ("src/test/resources/word.txt", "w"),
        // From another run: it is ignored.
        (
            "target/surefire-reports/TEST-a.GoneTest.xml",
            "<testsuite><testcase classname='a.GoneTest' name='x'/></testsuite>",
        ),
    ];
    let ran = built(&files, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    // Passed: adds, named, info, deep, made[1], two[1], two[2]. Failed: bad, made[2]. Errored: errs, never, was.
    assert_eq!(ran.counts(), [7, 2, 3, 3, 0], "{}", ran.told());
    let bad = ran.case("a.ManyTest::bad()");
    assert_eq!(
        (bad.file.as_deref(), bad.line, bad.source.as_deref()),
        (Some("src/test/java/a/ManyTest.java"), Some(11), Some("assertEquals(4, Cart.add(1, 2), \"why\");")),
        "{}",
        ran.told()
    );
    assert_eq!(bad.message.as_deref(), Some("why ==> expected: <4> but was: <3>"));
    assert_eq!(ran.case("::two(int, String)[2]").status, Status::Passed, "{}", ran.told());
    assert_eq!(ran.case("::never()").status, Status::Errored, "{}", ran.told());
    assert_eq!(ran.case("::was()").status, Status::Errored, "{}", ran.told());

    for (filter, verdict, want) in [
        ("adds", Verdict::Passed, &["a.ManyTest::adds()"][..]),
        ("src/test/java/a/AfterTest.java", Verdict::Failed, &["a.AfterTest::was()"]),
    ] {
        let ran = built(&files, filtered(filter), large()).await;
        ran.assert(verdict, true, true);
        let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, want, "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maven_modules_with_junit4_and_errors_are_reported() {
    if !with_maven() {
        return;
    }
    let modules = "<packaging>pom</packaging><modules><module>old</module><module>new</module></modules>";
    let top = pom("top", modules, "");
    let (old, new) = (pom("old", "", &depends("junit", "junit", "4.x")), pom("new", "", &jupiter()));
    let old_test = "package b;\npublic class OldTest { @org.junit.Test public void old() {} @org.junit.Ignore(\"no\") @org.junit.Test public void off() {}\n\
                    @org.junit.Test public void bad() { org.junit.Assert.fail(\"it is\"); } }\n";
    let good = class("NewTest", "@Test void b() {}");
    let files = [
        ("pom.xml", top.as_str()),
        ("old/pom.xml", &old),
        ("old/src/test/java/b/OldTest.java", old_test),
        ("new/pom.xml", &new),
        ("new/src/test/java/a/NewTest.java", &good),
    ];
    let ran = built(&files, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 1, 0, 1, 0], "{}", ran.told());
    assert_eq!(ran.case("b.OldTest::bad").message.as_deref(), Some("it is"), "{}", ran.told());

    // Code that does not compile is a case, with its place.
    let broken = class("BrokenTest", "@Test void b() { return y; }");
    let files = [
        ("pom.xml", new.as_str()),
        ("src/test/java/a/NewTest.java", &good),
        ("src/test/java/a/BrokenTest.java", &broken),
    ];
    let ran = built(&files, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    let case = ran.case("src/test/java/a/BrokenTest.java");
    assert_eq!((case.status, case.line), (Status::Errored, Some(9)), "{}", ran.told());
    assert_eq!(ran.counts(), [0, 0, 1, 0, 0], "{}", ran.told());

    // So is a build that is broken otherwise.
    let ran = built(
        &[("pom.xml", "<project>junit</wrong>"), ("a/XTest.java", &good)],
        Selection::default(),
        large(),
    )
    .await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.case("pom.xml").status, Status::Errored, "{}", ran.told());

    // A package that was never fetched is named.
    let lacking = pom("lacking", "", &(jupiter() + &depends("org.example", "nowhere", "1.2")));
    let ran = built(
        &[("pom.xml", &lacking), ("src/test/java/a/NewTest.java", &good)],
        Selection::default(),
        large(),
    )
    .await;
    assert_eq!(ran.report.verdict, Verdict::NotInstalled, "{}", ran.told());
    let reason = ran.report.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("org.example:nowhere:jar:1.2 is not among"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_maven_tests_leave_observed_results() {
    if !with_maven() {
        return;
    }
    // Maven comes to its tests in 10 s of a processor, and in four times as much beside the other tests here.
    let short = Limits { wall: Duration::from_secs(80), ..large() };
    for (does, limits, verdict) in [
        ("System.exit(0);", large(), Verdict::Unusable),
        ("for (;;) Thread.sleep(1000);", short, Verdict::Limit),
    ] {
        let text = class(
            "ATest",
            &format!(
                "@Test void a() {{}}\n@Test void b() throws Exception {{ {does} }}\n@Test void c() {{}}"
            ),
        );
        let pom = pom("ends", "", &jupiter());
        let files = [("pom.xml", pom.as_str()), ("src/test/java/a/ATest.java", text.as_str())];
        let mut ran = built(&files, Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "::b()") {
            ran = built(&files, Selection::default(), limits).await;
        }
        assert_eq!(ran.report.verdict, verdict, "{does}: {}", ran.told());
        ran.assert_not_passed();
        assert_eq!(ran.case("::a()").status, Status::Passed, "{does}: {}", ran.told());
        assert_eq!(ran.case("::b()").status, Status::NotFinished, "{does}: {}", ran.told());
    }
    // JUnit 4's tests are known from reports only; here settings let a build continue without them.
    let ignored = "<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><configuration><testFailureIgnore>true</testFailureIgnore>\
                   <reuseForks>false</reuseForks></configuration></plugin></plugins></build>";
    let (old, exits) = (
        pom("old", ignored, &depends("junit", "junit", "4.x")),
        "package b;\npublic class OldTest { @org.junit.Test public void old() { System.exit(0); } }\n",
    );
    let good = "package b;\npublic class GoodTest { @org.junit.Test public void good() {} }\n";
    let files = [
        ("pom.xml", old.as_str()),
        ("src/test/java/b/GoodTest.java", good),
        ("src/test/java/b/OldTest.java", exits),
    ];
    let ran = built(&files, Selection::default(), large()).await;
    assert_eq!(ran.case("b.GoodTest::good").status, Status::Passed, "{}", ran.told());
    assert_ne!(ran.report.verdict, Verdict::Passed, "{}", ran.told());
    // A forged report.
    let forge = "@Test void a() throws Exception { java.nio.file.Files.writeString(java.nio.file.Path.of(\"target/surefire-reports/TEST-x.xml\"),
        \"<testsuite><testcase classname='a.ATest' name='z'/></testsuite>\"); }";
    let (pom, text) = (pom("forges", "", &jupiter()), class("ATest", forge));
    let files =
        [("pom.xml", pom.as_str()), ("src/test/java/a/ATest.java", &text), ("target/surefire-reports/x", "")];
    let ran = built(&files, Selection::default(), large()).await;
    assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
    ran.assert_not_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gradle_reports_each_test() {
    if !with_maven() || !with_gradle() {
        return;
    }
    let build = "apply plugin: 'java'\nrepositories { maven { url 'file:///usr/share/maven-repo' } }\ndependencies { testCompile 'junit:junit:4.x' }\n";
    let test = "package a;\nimport org.junit.*;\nimport static org.junit.Assert.*;\npublic class OldTest {\n  @Test public void good() { assertEquals(3, Cart.add(1, 2)); }\n\
                  @Test public void bad() { assertEquals(\"why\", 4, Cart.add(1, 2)); }\n  @Test public void errs() { throw new IllegalStateException(\"x\"); }\n\
                  @Ignore(\"slow\") @Test public void off() {}\n}\n";
    let files = [
        ("build.gradle", build),
        ("src/main/java/a/Cart.java", CART),
        ("src/test/java/a/OldTest.java", test),
    ];
    let ran = built(&files, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 2, 0, 1, 0], "{}", ran.told());
    let details = ran.case("a.OldTest::errs").details.clone().unwrap_or_default();
    assert_eq!(
        details.lines().collect::<Vec<_>>(),
        ["java.lang.IllegalStateException: x", "\tat a.OldTest.errs(OldTest.java:7)"],
        "{}",
        ran.told()
    );
    let good = built(&files, filtered("a.OldTest::good"), large()).await;
    good.assert(Verdict::Passed, true, true);
    assert_eq!(good.counts(), [1, 0, 0, 0, 0], "{}", good.told());

    // In Gradle, a process that exits with 0 counts as done.
    let exits = "package a;\nimport org.junit.*;\npublic class AfterTest {\n  @AfterClass public static void gone() { System.exit(0); }\n  @Test public void was() {}\n}\n";
    let good = "package a;\npublic class OldTest { @org.junit.Test public void never() {} }\n";
    let early = [files[0], ("src/test/java/a/AfterTest.java", exits), ("src/test/java/a/OldTest.java", good)];
    let ran = built(&early, Selection::default(), large()).await;
    assert_ne!(ran.report.verdict, Verdict::Passed, "{}", ran.told());

    let broken = [
        files[0],
        ("src/test/java/a/OldTest.java", "package a;\nclass OldTest { int f() { return y; } } // junit\n"),
    ];
    let ran = built(&broken, Selection::default(), large()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.case("src/test/java/a/OldTest.java").line, Some(2), "{}", ran.told());

    let lacking = build.replace("junit:junit:4.x", "org.example:nowhere:1.2");
    let ran = built(&[("build.gradle", &lacking), files[1], files[2]], Selection::default(), large()).await;
    assert_eq!(ran.report.verdict, Verdict::NotInstalled, "{}", ran.told());
    let reason = ran.report.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("org.example:nowhere"), "{reason}");
}
