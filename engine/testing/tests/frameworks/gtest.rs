//! Debian's Google Test, built by CMake or the compiler alone, on valid, broken and hostile projects.

use super::*;

fn with_gtest() -> bool {
    let lacks = [
        ("/usr/include/gtest/gtest.h", "libgtest-dev"),
        ("/usr/bin/cmake", "cmake"),
        ("/usr/bin/c++", "g++"),
        ("/usr/bin/make", "make"),
    ];
    let lacks: Vec<_> = lacks.iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, p)| *p).collect();
    if !lacks.is_empty() {
        println!("skipped: no Google Test (on Debian: apt-get install {})", lacks.join(" "));
    }
    lacks.is_empty()
}

fn large() -> Limits {
    Limits { memory: Bytes::mib(1024), wall: Duration::from_secs(240), disk: Bytes::mib(512), ..limits() }
}

async fn gtest(files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    run_with("gtest", Path::new("/usr"), files, selection, limits).await
}

async fn plain(files: &[(&str, &str)]) -> Ran {
    gtest(files, Selection::default(), large()).await
}

/// A test file with includes for all kinds of tests.
fn tests(text: &str) -> String {
    let headers =
        ["gtest/gtest.h", "cstdio", "cstdlib", "fstream", "string", "vector", "unistd.h", "signal.h"];
    let headers: String = headers.iter().map(|h| format!("#include <{h}>\n")).collect();
    format!("{headers}{text}\n")
}

const BAD: &str = "TEST(A, Bad) { EXPECT_EQ(1, 2); }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_kinds_and_filters_are_reported() {
    if !with_gtest() {
        return;
    }
    let many = tests(
        "TEST(Cart, Adds) { printf(\"hi\"); }\nTEST(Cart, Bad) {\n  EXPECT_EQ(1, 2) << \"why\";\n}\nTEST(Cart, Left) { GTEST_SKIP() << \"slow\"; }\n\
         TEST(Cart, DISABLED_Later) {}\nTEST(Throws, Now) { throw 3; }\nclass S : public testing::Test { protected: static void SetUpTestSuite() { FAIL() << \"set-up\"; } };\n\
         TEST_F(S, Never) {}\n",
    );
    let files = [
        ("sub dir/cart_test.cc", "#include <gtest/gtest.h>\nTEST(Not, Found) {}\n"),
        ("tests/cart_test.cc", many.as_str()),
        (
            "tests/sum_test.cpp",
            "#include \"sum.h\"\n#include <gtest/gtest.h>\nTEST(Sum, Of) { EXPECT_EQ(sum(1, 2), 3); }\n",
        ),
        ("tests/broken_test.cc", "#include <gtest/gtest.h>\nTEST(X, Y) {\n  undefined();\n}\n"),
        ("src/sum.cc", "#include \"sum.h\"\nint sum(int a, int b) { return a + b; }\n"),
        ("src/main.cc", "int main() { return 0; }\n"),
        ("include/sum.h", "int sum(int, int);\n"),
    ];
    let ran = plain(&files).await;
    ran.assert(Verdict::Failed, true, true);
    // Passed: adds, sum. Failed: bad, throws. Errored: the suite, the file. Skipped: left, later, never.
    assert_eq!(ran.counts(), [2, 2, 2, 3, 0], "{}", ran.told());
    let bad = ran.case("tests/cart_test::Cart.Bad");
    assert_eq!((bad.file.as_deref(), bad.line), (Some("tests/cart_test.cc"), Some(11)), "{}", ran.told());
    assert_eq!(bad.source.as_deref(), Some("EXPECT_EQ(1, 2) << \"why\";"));
    assert!(bad.message.as_deref().unwrap().ends_with("why"), "{}", ran.told());
    assert_eq!(ran.case("Cart.Adds").stdout.as_deref(), Some("hi"), "{}", ran.told());
    assert_eq!(
        (ran.case("::S").status, ran.case("Cart.Left").message.as_deref()),
        (Status::Errored, Some("slow"))
    );
    let broken = ran.case("tests/broken_test.cc");
    assert_eq!((broken.status, broken.line), (Status::Errored, Some(3)), "{}", ran.told());

    for (filter, want) in [
        ("tests/cart_test::Cart.Bad", &["tests/cart_test::Cart.Bad"][..]),
        ("Sum.*", &["tests/sum_test::Sum.Of"]),
    ] {
        let files: Vec<_> = files.iter().filter(|(name, _)| !name.contains("broken")).copied().collect();
        let ran = gtest(&files, filtered(filter), large()).await;
        let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, want, "{}", ran.told());
    }
    plain(&files[2..3]).await.assert(Verdict::Failed, true, true);
    plain(&[files[2], files[4], files[6]]).await.assert(Verdict::Passed, true, true);
    assert_eq!(plain(&files[4..5]).await.report.verdict, Verdict::Unusable);
}

/// Other tests of ctest, which runs them, and a file of tests that the build leaves out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_of_cmake_runs_the_other_tests_of_ctest() {
    if !with_gtest() {
        return;
    }
    let cmake = "cmake_minimum_required(VERSION 3.20)\nproject(a CXX)\nenable_testing()\nfind_package(GTest REQUIRED)\n\
                 add_executable(a a_test.cc)\ntarget_link_libraries(a GTest::gtest_main)\nadd_test(NAME all COMMAND a)\n\
                 add_executable(c c.cc)\nadd_test(NAME plain COMMAND c)\nadd_test(NAME lint.x COMMAND sh -c \"exit RESULT\")\n\
                 add_test(NAME off COMMAND c)\nset_tests_properties(off PROPERTIES DISABLED TRUE)\n\
                 add_test(NAME left COMMAND c)\nset_tests_properties(left PROPERTIES SKIP_RETURN_CODE 1)\n\
                 add_test(NAME bad COMMAND c)\nset_tests_properties(bad PROPERTIES WILL_FAIL TRUE)\n";
    let test = |suite: &str| format!("#include <gtest/gtest.h>\n\nTEST({suite}, Runs) {{}}\n");
    let good = cmake
        .replace("RESULT", "0")
        .replace("NAME plain", "NAME plain2")
        .replace("plain2 COMMAND c", "plain COMMAND true");
    let files = |cmake| {
        [
            ("CMakeLists.txt", cmake),
            ("a_test.cc", test("A")),
            ("left/b_test.cc", test("B")),
            ("third_party/x/c_test.cc", test("C")),
            ("c.cc", "int main() { return 1; }\n".to_owned()),
        ]
    };
    let bad = files(cmake.replace("RESULT", "3"));
    let bad: Vec<(&str, &str)> = bad.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let good = files(good);
    let good: Vec<(&str, &str)> = good.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let ran = plain(&good).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [4, 0, 0, 2, 0], "{}", ran.told());
    let want = "no test ran of files that seem to hold some: left/b_test.cc/B.Runs";
    assert_eq!(ran.report.reason.as_deref(), Some(want), "{}", ran.told());
    let ran = plain(&bad).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 0, 2, 2, 0], "{}", ran.told());
    assert_eq!(ran.case("ctest::plain").message.as_deref(), Some("ctest: Failed"), "{}", ran.told());
    for (filter, verdict, counts) in [
        ("A.*", Verdict::Passed, [1, 0, 0, 0, 0]),
        ("ctest::lint.x", Verdict::Failed, [0, 0, 1, 0, 0]),
        ("ctest::bad", Verdict::Passed, [1, 0, 0, 0, 0]),
    ] {
        let ran = gtest(&bad, filtered(filter), large()).await;
        ran.assert(verdict, true, true);
        assert_eq!((ran.counts(), &ran.report.reason), (counts, &None), "{filter}: {}", ran.told());
    }
}

/// A program starts as ctest starts it: with its arguments and variables. Where ctest starts it in several ways, it runs the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_program_starts_as_by_ctest() {
    if !with_gtest() {
        return;
    }
    let head = "cmake_minimum_required(VERSION 3.20)\nproject(a CXX)\nenable_testing()\nfind_package(GTest REQUIRED)\ninclude(GoogleTest)\n\
                add_executable(a a_test.cc)\ntarget_link_libraries(a GTest::gtest)\n";
    let test = tests(
        "static std::string word;\nTEST(A, Word) { EXPECT_EQ(word, \"a b\"); }\nTEST(A, Mode) { const char *mode = getenv(\"MODE\"); EXPECT_STREQ(mode, \"x y\"); }\n\
         int main(int count, char **words) { testing::InitGoogleTest(&count, words); if (count > 1) word = words[1]; return RUN_ALL_TESTS(); }",
    );
    let one = "add_test(NAME one COMMAND a \"a b\")\nset_tests_properties(one PROPERTIES ENVIRONMENT \"OTHER=1;MODE=x y\")\n";
    let two = "add_test(NAME two COMMAND a \"c\")\n";
    let each = "gtest_discover_tests(a EXTRA_ARGS \"a b\" PROPERTIES ENVIRONMENT \"MODE=x y\")\n";
    for (text, verdict, counts) in [
        (one.to_owned(), Verdict::Passed, [2, 0, 0, 0, 0]),
        (each.to_owned(), Verdict::Passed, [2, 0, 0, 0, 0]),
        (format!("{one}{two}"), Verdict::Failed, [2, 0, 1, 0, 0]),
        (String::new(), Verdict::Failed, [0, 2, 0, 0, 0]),
    ] {
        let cmake = format!("{head}{text}");
        let ran = plain(&[("CMakeLists.txt", &cmake), ("a_test.cc", &test)]).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{text}: {}", ran.told());
    }
}

/// A program that sets a filter itself lists and runs only some of its tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_filter_of_the_program_is_noted() {
    if !with_gtest() {
        return;
    }
    let main = |sets: &str| {
        format!(
            "TEST(A, Good) {{}}\n{BAD}int main(int count, char **words) {{\n  {sets}\n  testing::InitGoogleTest(&count, words);\n  {sets}\n  return RUN_ALL_TESTS();\n}}"
        )
    };
    let own = tests(&main("testing::GTEST_FLAG(filter) = \"A.Good\";"));
    let ran = plain(&[("a_test.cc", &own)]).await;
    ran.assert(Verdict::Passed, true, true);
    let reason = ran.report.reason.as_deref().unwrap_or_default();
    assert_eq!(reason, "a_test ran only the tests of a filter that it sets itself: A.Good", "{}", ran.told());
    plain(&[("a_test.cc", &tests(&main("")))]).await.assert(Verdict::Failed, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_fetch_content_is_local_and_errors_named() {
    if !with_gtest() {
        return;
    }
    let cmake = |more: &str| format!("cmake_minimum_required(VERSION 3.20)\nproject(a CXX)\n{more}\n");
    let fetched = cmake(
        "include(FetchContent)\nFetchContent_Declare(googletest URL https://example.org/googletest.zip)\nFetchContent_MakeAvailable(googletest)\n\
         add_executable(a a_test.cc)\ntarget_link_libraries(a GTest::gtest_main)\nadd_executable(b b.cc)\n",
    );
    let test = ("a_test.cc", "#include <gtest/gtest.h>\nTEST(A, B) {}\n");
    let files = [("CMakeLists.txt", fetched.as_str()), test, ("b.cc", "int main() {\n  return x;\n}\n")];
    let ran = plain(&files).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(
        (ran.case("a::A.B").status, ran.case("b.cc").line),
        (Status::Passed, Some(2)),
        "{}",
        ran.told()
    );
    let broken = cmake("find_package(NoSuchThing REQUIRED)");
    let ran = plain(&[("CMakeLists.txt", &broken), test]).await;
    ran.assert(Verdict::Failed, true, true);
    let case = ran.case("CMakeLists.txt");
    assert_eq!((case.status, case.line), (Status::Errored, Some(3)), "{}", ran.told());
    assert!(case.message.as_deref().unwrap().contains("NoSuchThing"), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_were_built_before() {
    if !with_gtest() {
        return;
    }
    let folder = project(&[("a.cc", &tests(&format!("TEST(A, Good) {{}}\n{BAD}")))]);
    let built = folder.path().join("cart_test");
    let words = ["a.cc", "-o", "cart_test", "-lgtest_main", "-lgtest", "-lpthread"];
    assert!(Command::new("/usr/bin/c++").args(words).current_dir(&folder).status().unwrap().success());
    let prebuilt = tempfile::tempdir().unwrap();
    std::fs::create_dir(prebuilt.path().join("bin")).unwrap();
    std::fs::copy(built, prebuilt.path().join("bin/cart_test")).unwrap();
    let found = hotcell_testing::detect(&ProjectFolder::open(prebuilt.path()).unwrap());
    assert_eq!(found[0].0.name(), "gtest");
    let session = session("gtest", Path::new("/usr"), prebuilt.path(), &Selection::default(), large());
    let ran = Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() };
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 1, 0, 0, 0], "{}", ran.told());
    assert_eq!(ran.case("bin/cart_test::A.Bad").status, Status::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_program_that_runs_none_of_its_tests_has_not_passed() {
    if !with_gtest() {
        return;
    }
    let main = |body: &str| {
        tests(&format!("{BAD}int main(int c, char **v) {{ testing::InitGoogleTest(&c, v); {body} }}\n"))
    };
    let good = tests("TEST(A, Good) {}\n");
    for body in ["return 0;", "exit(0);", "GTEST_FLAG_SET(filter, \"-*\"); return RUN_ALL_TESTS();"] {
        let ran = plain(&[("a_test.cc", &main(body)), ("b_test.cc", &good)]).await;
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.counts(), [1, 0, 1, 0, 0], "{body}: {}", ran.told());
        let message = ran.case("a_test").message.clone().unwrap_or_default();
        assert!(message.contains("RUN_ALL_TESTS()"), "{body}: {}", ran.told());
    }
    // Programs without tests pass, and those whose tests a filter leaves out.
    let none = tests("int main() { return 0; }\n");
    plain(&[("a_test.cc", &none), ("b_test.cc", &good)]).await.assert(Verdict::Passed, true, true);
    let both = [("a_test.cc", tests(BAD)), ("b_test.cc", good)];
    let files = [("a_test.cc", both[0].1.as_str()), ("b_test.cc", both[1].1.as_str())];
    gtest(&files, filtered("A.Good"), large()).await.assert(Verdict::Passed, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_gtest_program_leaves_observed_results() {
    if !with_gtest() {
        return;
    }
    let short = Limits { wall: Duration::from_secs(40), ..large() };
    let tight = Limits { memory: Bytes::mib(500), ..large() };
    for (does, limits, verdict) in [
        ("raise(SIGSEGV);", large(), Verdict::Unusable),
        ("_exit(0);", large(), Verdict::Unusable),
        ("exit(0);", large(), Verdict::Unusable),
        ("exit(1);", large(), Verdict::Unusable),
        ("abort();", large(), Verdict::Unusable),
        ("kill(getppid(), 9); pause();", large(), Verdict::Unusable),
        ("for (;;) pause();", short, Verdict::Limit),
        ("std::vector<std::string> all; for (;;) all.emplace_back(1 << 20, 'x');", tight, Verdict::Limit),
    ] {
        let text = tests(&format!("TEST(A, First) {{}}\nTEST(A, Ends) {{ {does} }}\nTEST(A, Last) {{}}\n"));
        let files = [("a_test.cc", text.as_str())];
        let mut ran = gtest(&files, Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "A.Ends") {
            ran = gtest(&files, Selection::default(), limits).await;
        }
        assert_eq!(ran.report.verdict, verdict, "{does}: {}", ran.told());
        ran.assert_not_passed();
        assert_eq!(ran.case("A.First").status, Status::Passed, "{does}: {}", ran.told());
        assert_eq!(ran.case("A.Ends").status, Status::NotFinished, "{does}: {}", ran.told());
        if does.ends_with("exit(0);") {
            let reason = ran.report.reason.as_deref().unwrap_or_default();
            let want = "a_test: the test program ended with exit code 0 before all of its tests were done: a test, or what it calls";
            assert!(reason.starts_with(want), "{does}: {}", ran.told());
        }
    }
}

/// A program that repeats its tests, or runs a part of them, by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_program_that_repeats_or_splits_its_tests() {
    if !with_gtest() {
        return;
    }
    let main = |sets: &str, test: &str| {
        tests(&format!(
            "TEST(A, Good) {{}}\nTEST(A, Other) {{ {test} }}\nint main(int count, char **words) {{\n  testing::InitGoogleTest(&count, words);\n  {sets}\n  return RUN_ALL_TESTS();\n}}"
        ))
    };
    let repeats = "testing::GTEST_FLAG(repeat) = 3;";
    let flaky = "static int n = 0; EXPECT_NE(++n, 2);";
    let splits = "setenv(\"GTEST_TOTAL_SHARDS\", \"2\", 1); setenv(\"GTEST_SHARD_INDEX\", \"0\", 1);";
    for (sets, test, verdict, counts, reason) in [
        (
            repeats,
            "",
            Verdict::Passed,
            [2, 0, 0, 0, 0],
            Some("a_test ran its tests 3 times, as it sets itself"),
        ),
        (
            repeats,
            flaky,
            Verdict::Failed,
            [1, 1, 0, 0, 0],
            Some("a_test ran its tests 3 times, as it sets itself"),
        ),
        (splits, "FAIL();", Verdict::Passed, [1, 0, 0, 1, 0], None),
    ] {
        let ran = plain(&[("a_test.cc", &main(sets, test))]).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{sets} {test}: {}", ran.told());
        if reason.is_some() {
            assert_eq!(ran.report.reason.as_deref(), reason, "{}", ran.told());
        }
    }
}

/// A program that sets how it prints, or that disabled tests run, is followed like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gtest_program_that_sets_its_flags() {
    if !with_gtest() {
        return;
    }
    let main = |sets: &str, test: &str| {
        tests(&format!(
            "TEST(A, Good) {{}}\nTEST(A, DISABLED_Off) {{ {test} }}\nint main(int count, char **words) {{\n  testing::InitGoogleTest(&count, words);\n  {sets}\n  return RUN_ALL_TESTS();\n}}"
        ))
    };
    let all = "testing::GTEST_FLAG(also_run_disabled_tests) = true;";
    for (sets, test, verdict, counts) in [
        (all.to_owned(), "", Verdict::Passed, [2, 0, 0, 0, 0]),
        (all.to_owned(), "FAIL();", Verdict::Failed, [1, 1, 0, 0, 0]),
        (format!("{all} testing::GTEST_FLAG(color) = \"yes\";"), "FAIL();", Verdict::Failed, [1, 1, 0, 0, 0]),
        (
            format!("{all} testing::GTEST_FLAG(print_time) = false;"),
            "FAIL();",
            Verdict::Failed,
            [1, 1, 0, 0, 0],
        ),
        (String::new(), "FAIL();", Verdict::Passed, [1, 0, 0, 1, 0]),
    ] {
        let ran = plain(&[("a_test.cc", &main(&sets, test))]).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{sets} {test}: {}", ran.told());
    }
}

/// Writes the program's own report, or the whole one.
const FORGE: &str = r#"
static void forge(const char *file, const std::string &text) { std::ofstream(file) << text; }
#define OWN "/home/sandbox/.hotcell-build/xml"
#define ALL "/home/sandbox/.hotcell-reports/gtest.txt"
static const std::string GOOD = "<testsuites><testsuite name='A'><testcase name='First' classname='A'/><testcase name='Bad' classname='A'/></testsuite></testsuites>";
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_reports_and_codes() {
    if !with_gtest() {
        return;
    }
    for (what, does) in [
        ("its report, and gone", "forge(OWN, GOOD); _exit(0);"),
        ("no lines", "fclose(stdout); forge(OWN, GOOD); _exit(0);"),
        ("the exit code", "atexit([] { _exit(0); });"),
        (
            "our lines",
            "puts(\"\\n@hotcell\\tend\\ta_test\\t0\\n@hotcell\\tdone\\t-\\t0\"); fflush(stdout); _exit(0);",
        ),
        ("no report", "atexit([] { remove(OWN); _exit(0); });"),
        ("an empty one", "atexit([] { forge(OWN, \"\"); });"),
        ("a cut one", "atexit([] { forge(OWN, GOOD.substr(0, 60)); });"),
        ("one that is none", "atexit([] { forge(OWN, \"\\n@hotcell\\tend\\ta_test\\t0\\n\"); });"),
        (
            "a deep one",
            "atexit([] { std::string deep = \"<testsuites>\"; for (int i = 0; i < 100000; i++) deep += \"<a>\"; forge(OWN, deep); });",
        ),
        ("one of 1 GB", "atexit([] { forge(OWN, \"\"); if (truncate(OWN, 1 << 30)) {} });"),
        ("a folder", "atexit([] { remove(OWN); if (system(\"mkdir \" OWN)) {} });"),
        ("the whole", "forge(ALL, \"@hotcell\\tdone\\t-\\t0\\n\"); atexit([] { _exit(0); });"),
        (
            "another test's",
            "atexit([] { forge(OWN, \"<testsuites><testcase classname='A' name='Other'/></testsuites>\"); });",
        ),
    ] {
        let bad = if what.contains("one") || what.contains("a folder") || what.contains("another") {
            "TEST(A, Bad) {}"
        } else {
            BAD
        };
        let text = tests(&format!("{FORGE}TEST(A, First) {{ {does} }}\n{bad}"));
        let ran = gtest(
            &[("a_test.cc", &text)],
            Selection::default(),
            Limits { disk: Bytes::mib(2048), ..large() },
        )
        .await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_compiler_is_explained() {
    if !with_gtest() {
        return;
    }
    let folder = project(&[("a_test.cc", "#include <gtest/gtest.h>\nTEST(A, B) {}\n")]);
    let session =
        session_with("gtest", Path::new("/usr"), folder.path(), &Selection::default(), large(), |policy| {
            only(policy, folder.path(), &["awk", "find", "grep", "mkdir", "sed", "sort", "xargs"])
        });
    let report = session.run(&Engine::new(), &mut |_| ()).await;
    assert_eq!(report.verdict, Verdict::NotInstalled, "{report:?}");
    assert!(report.reason.as_deref().unwrap().contains("apt-get install g++"), "{report:?}");
}
