//! `hotcell run --lang`: each language compiled and run in sandboxes, with the compilers of this machine.

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{User, everyone, rust};
use serde_json::{Value, json};

/// A language to try.
struct Tried {
    name: &'static str,
    /// Program that the language needs, and Debian's package of it.
    needs: (&'static str, &'static str),
    /// Prints `LANGUAGE ARGUMENT` and exits with 3.
    good: &'static str,
    /// Does not compile, and the line of the error; 0 if nothing is compiled.
    bad: (&'static str, u64),
}

const TRIED: [Tried; 8] = [
    Tried {
        name: "c",
        needs: ("cc", "gcc"),
        good: "#include <math.h>\n#include <stdio.h>\n#include <string.h>\n\
               int main(int n, char **v) { printf(\"c %s\\n\", v[1]); return (int)sqrt(n + 7.0 + strlen(v[1]) - 1); }\n",
        bad: ("int main(void) {\n    return nothing;\n}\n", 2),
    },
    Tried {
        name: "cpp",
        needs: ("c++", "g++"),
        good: "#include <iostream>\nint main(int, char **v) { std::cout << \"cpp \" << v[1] << \"\\n\"; return 3; }\n",
        bad: ("#include <string>\nint main() { std::string s = 1; }\n", 2),
    },
    Tried {
        name: "go",
        needs: ("go", "golang-go"),
        good: "package main\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\
               func main() { fmt.Println(\"go\", os.Args[1]); os.Exit(3) }\n",
        bad: ("package main\nfunc main() {\n\tx := 1\n}\n", 3),
    },
    Tried {
        name: "java",
        needs: ("javac", "default-jdk-headless"),
        good: "public class Sum { record Pair(int a, int b) {}\n\
               public static void main(String[] words) { System.out.println(\"java \" + words[0]); System.exit(new Pair(1, 3).b()); } }\n",
        bad: ("public class Sum {\n    int x = \"text\";\n}\n", 2),
    },
    Tried {
        name: "typescript",
        needs: ("tsc", "node-typescript"),
        good: "const text = (word: string): string => `typescript ${word}`;\n\
               console.log(text(process.argv[2])); process.exit(3);\n",
        bad: ("const a = 1;\nconst b: number = \"text\";\n", 2),
    },
    Tried {
        name: "javascript",
        needs: ("node", "nodejs"),
        good: "console.log('javascript', process.argv[2]); process.exit(3);\n",
        bad: ("", 0),
    },
    Tried {
        name: "python",
        needs: ("/usr/bin/python3", "python3"),
        good: "import sys\nprint('python', sys.argv[1])\nsys.exit(3)\n",
        bad: ("", 0),
    },
    Tried { name: "bash", needs: ("bash", "bash"), good: "echo bash $1\nexit 3\n", bad: ("", 0) },
];

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn there((program, package): (&str, &str)) -> bool {
    let there = is_there(program);
    if !there {
        println!("skipped: no {program} (on Debian: apt-get install {package})");
    }
    there
}

fn is_there(program: &str) -> bool {
    std::env::split_paths(PATH).any(|folder| folder.join(program).is_file())
}

fn run(user: &User, path: &str, options: &[&str], language: &str, source: &str, code: i32) -> Value {
    let call = user.hotcell(["run", "--json", "--lang", language]).env("PATH", path);
    call.words(options).words(&["-", "--", "word"]).input(source).end().code(code).json()
}

fn good(outcome: &Value, tried: &str) {
    assert_eq!(outcome["stdout"]["text"], format!("{tried} word\n"), "{outcome:#}");
}

fn bad(outcome: &Value, line: u64) {
    let compile = &outcome["compile"];
    assert_eq!(compile["done"], false, "{outcome:#}");
    let first = &compile["diagnostics"].as_array().expect("rows")[0];
    assert_eq!((&first["line"], &first["severity"]), (&json!(line), &json!("error")), "{outcome:#}");
    assert!(first["file"].as_str().is_some_and(|file| !file.contains('/')), "{first}");
    assert_eq!(outcome["stdout"]["text"], "", "{outcome:#}");
    assert!(outcome["stderr"]["text"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(
        outcome["reason"].as_str().is_some_and(|why| why.contains("made no program: 1 error")),
        "{outcome:#}"
    );
}

#[test]
fn languages_run_and_report_compile_errors() {
    for tried in TRIED.iter().filter(|t| there(t.needs)) {
        everyone(|user| {
            let outcome = run(user, PATH, &[], tried.name, tried.good, 3);
            good(&outcome, tried.name);
            let (source, line) = tried.bad;
            assert_eq!(outcome["compile"].is_null(), line == 0, "{outcome:#}");
            if line != 0 {
                assert_eq!(outcome["compile"]["done"], true);
                let code = match tried.name {
                    "go" | "typescript" => 2,
                    _ => 1,
                };
                bad(&run(user, PATH, &[], tried.name, source, code), line);
            }
        });
    }
}

#[test]
fn languages_run_in_landlock_only_profile() {
    for tried in TRIED.iter().filter(|t| there(t.needs)) {
        everyone(|user| {
            let outcome = run(user, PATH, &["--profile", "landlock-only"], tried.name, tried.good, 3);
            good(&outcome, tried.name);
        });
    }
}

/// From Go 1.20 on its library is delivered as source: it is compiled once, and a run cannot change it for
/// the next one.
#[test]
fn go_standard_library_is_compiled_once() {
    let Some(go) = std::env::var_os("HOTCELL_TEST_GO").map(std::path::PathBuf::from) else {
        println!(
            "skipped: no newer Go: HOTCELL_TEST_GO names no folder (scripts/test installs one from PyPI)"
        );
        return;
    };
    let path = format!("{}/bin:{PATH}", go.display());
    const CACHE: &str = "/home/sandbox/.cache/go-build";
    let source = "package main\nimport (\n\t\"fmt\"\n\t\"os\"\n)\nfunc main() { fmt.Println(\"go\", os.Args[1]); os.Exit(3) }\n";
    let test = "package p\nimport (\n\t\"os\"\n\t\"testing\"\n)\nfunc TestMark(t *testing.T) {\n\tmark := \"CACHE/mark\"\n\t\
                if _, err := os.Stat(mark); err == nil {\n\t\tt.Fatal(\"there\")\n\t}\n\t\
                if err := os.WriteFile(mark, nil, 0o600); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n";
    everyone(|user| {
        let state = user.make_folder("state").display().to_string();
        let kept = || std::fs::read_dir(user.path("state/builds")).map_or(0, Iterator::count);
        good(&run(user, &path, &["--state", &state], "go", source, 3), "go");
        assert_eq!(kept(), 1);
        user.make_folder("work/p");
        user.write("work/p/go.mod", "module p\n\ngo 1.20\n");
        user.write("work/p/p_test.go", test.replace("CACHE", CACHE));
        for _ in 0..2 {
            let call = user.hotcell(["test", "--json", "--state", &state, "p"]).env("PATH", &path);
            let report = call.end().code(0).json();
            let mounts = report["outcome"]["mounts"].as_array().expect("rows");
            assert!(mounts.iter().any(|m| m["inside"] == CACHE && m["writable"] == true), "{report:#}");
            assert_eq!(kept(), 1);
        }
        // Like newer versions: a failure, a panic, and code that does not build.
        for folder in ["q", "q/panics", "q/broken", "q/far"] {
            user.make_folder(&format!("work/{folder}"));
        }
        let file = |imports: &str, body: &str| {
            format!(
                "package q\n\nimport (\n\t\"testing\"\n{imports})\n\nfunc TestIt(t *testing.T) {{\n\t{body}\n}}\n"
            )
        };
        user.write("work/q/go.mod", "module q\n\ngo 1.20\n");
        user.write(
            "work/q/a_test.go",
            file("", "t.Run(\"sub\", func(t *testing.T) { t.Errorf(\"got %d\", 3) })"),
        );
        user.write("work/q/panics/a_test.go", file("", "panic(\"oh no\")"));
        user.write("work/q/broken/a_test.go", file("", "undefined()"));
        user.write("work/q/far/a_test.go", file("\t\"example.org/far\"\n", "far.Away()"));
        let call = user.hotcell(["test", "--json", "--state", &state, "q"]).env("PATH", &path);
        let report = call.end().code(1).json();
        let cases = report["cases"].as_array().expect("rows");
        let mut told: Vec<Value> =
            cases.iter().map(|c| json!([c["id"], c["status"], c["line"], c["message"]])).collect();
        told.sort_by_key(ToString::to_string);
        let far = told.iter().find(|c| c[0] == "q/far").map(ToString::to_string).unwrap_or_default();
        assert!(far.contains("a dependency is not there") && far.contains("errored"), "{report:#}");
        told.retain(|c| c[0] != "q/far");
        let want = json!([
            ["q/broken", "errored", 8, "undefined: undefined"],
            ["q/panics::TestIt", "failed", 8, "panic: oh no"],
            ["q::TestIt", "failed", null, null],
            ["q::TestIt/sub", "failed", 8, "got 3"]
        ]);
        assert_eq!(json!(told), want, "{report:#}");
        // A person's own setting for the cache takes precedence.
        let words = ["test", "--json", "--state", &state, "--ro", "/srv:/home/sandbox/.cache", "p"];
        let report = user.hotcell(words).env("PATH", &path).end().json();
        let mounts = report["outcome"]["mounts"].as_array().expect("rows");
        assert!(mounts.iter().all(|m| m["inside"] != CACHE), "{report:#}");
    });
}

#[test]
fn rust_runs_with_user_toolchain() {
    let Some(toolchain) = rust() else { return };
    let path = format!("{}/bin:{PATH}", toolchain.display());
    everyone(|user| {
        let source =
            "fn main() { println!(\"rust {}\", std::env::args().nth(1).unwrap()); std::process::exit(3) }\n";
        let outcome = run(user, &path, &[], "rust", source, 3);
        good(&outcome, "rust");
        let outcome = run(user, &path, &[], "rust", "fn main() {\n    let _: u32 = \"text\";\n}\n", 1);
        bad(&outcome, 2);
        assert_eq!(outcome["compile"]["diagnostics"][0]["code"], "E0308");
    });
}

#[test]
fn sql_by_sqlite() {
    if !there(("sqlite3", "sqlite3")) {
        return;
    }
    everyone(|user| {
        user.write(
            "work/q.sql",
            "create table t(a); insert into t values (1), (41); select sum(a) from t;\n",
        );
        user.hotcell(["run", "--lang", "sql", "q.sql"]).end().code(0).prints("42\n");
        user.write("work/bad.sql", "select 1;\nselect * frm t;\n");
        user.hotcell(["run", "--lang", "sql", "bad.sql"]).end().code(1).prints("1\n").says("syntax error");
        // A database in the workspace, by an argument.
        user.make_folder("work/data");
        user.write("work/data/make.sql", "create table t(a); insert into t values (7);\n");
        let words =
            ["run", "--workspace", "data", "--commit", "--lang", "sql", "data/make.sql", "--", "all.db"];
        user.hotcell(words).end().code(0);
        user.write("work/data/read.sql", "select a from t;\n");
        let words = ["run", "--workspace", "data", "--lang", "sql", "data/read.sql", "--", "-csv", "all.db"];
        user.hotcell(words).end().code(0).prints("7\n");
    });
}

pub fn has_postgresql() -> bool {
    let bins = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let has = bins.map(|e| e.path()).any(|version| version.join("bin/initdb").exists());
    if !has {
        println!("skipped: no PostgreSQL (on Debian: apt-get install postgresql)");
    }
    has
}

/// Messages about a source are data for a model too, which also gets the output itself.
#[test]
fn sql_by_postgresql_over_mcp() {
    if !has_postgresql() {
        return;
    }
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let code = "select 1;\nselect\n    frm\nfrom t;\n";
        let answer = client.call("run_code", &json!({ "language": "postgresql", "code": code }));
        let content = &answer["structuredContent"];
        assert_eq!(content["exit_code"], 3, "{content:#}");
        assert_eq!(content["stdout"]["text"], "1\n", "{content:#}");
        let said = &content["compile"]["diagnostics"][0];
        assert_eq!((&said["line"], &said["message"]), (&json!(4), &json!("relation \"t\" does not exist")));
        assert!(content["stderr"]["text"].as_str().unwrap().contains("does not exist"), "{content:#}");
        client.end();
    });
}

#[test]
fn sql_by_postgresql() {
    if !has_postgresql() {
        return;
    }
    everyone(|user| {
        user.write(
            "work/q.sql",
            "create table t(a int generated always as identity, b text);\n\
             insert into t (b) values ('x'), ('y');\n\
             select json_agg(b order by a desc) from t;\nselect current_user, :'who';\n",
        );
        let words = ["run", "--lang", "postgresql", "q.sql", "--", "-v", "who=me"];
        user.hotcell(words).end().code(0).prints("[\"y\", \"x\"]\nsandbox|me\n");
        // Nothing of it stays for the next run.
        user.hotcell(words).end().code(0);
        user.write(
            "work/bad.sql",
            "select 1;\ndo $$ begin raise notice 'soon'; end $$;\nselect\n    frm\nfrom t;\nselect 2;\n",
        );
        user.hotcell(["run", "--lang", "postgresql", "bad.sql"])
            .end()
            .code(3)
            .prints("1\n")
            .says("relation \"t\" does not exist");
        let outcome = user.hotcell(["run", "--json", "--lang", "postgresql", "bad.sql"]).end().code(3).json();
        let rows: Vec<_> = outcome["compile"]["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| json!([d["file"], d["line"], d["column"], d["severity"], d["message"]]))
            .collect();
        let want = [
            json!(["bad.sql", 2, null, "note", "soon"]),
            json!(["bad.sql", 5, 6, "error", "relation \"t\" does not exist"]),
        ];
        assert_eq!(rows, want, "{outcome:#}");
        assert_eq!(outcome["compile"]["done"], true, "it ran: {outcome:#}");
        // Files written before the error count as for every program.
        user.make_folder("work/kept");
        user.write("work/kept/a.sql", "\\! echo 1 >made\nselect nope;\n");
        let words =
            ["run", "--json", "--workspace", "kept", "--guard", "off", "--lang", "postgresql", "kept/a.sql"];
        let outcome = user.hotcell(words).end().code(3).json();
        assert_eq!(outcome["changes"][0]["path"], "made", "{outcome:#}");
        assert_eq!(outcome["compile"]["diagnostics"][0]["line"], 2, "{outcome:#}");
        // The caller's own installation is not seen: neither its settings nor its server.
        user.hotcell([
            "run",
            "--lang",
            "postgresql",
            "--env",
            "PGHOST=/nowhere",
            "q.sql",
            "--",
            "-v",
            "who=me",
        ])
        .end()
        .code(0);
        user.hotcell(["run", "--lang", "postgresql", "nothing.sql"]).end().code(125);
    });
}

#[test]
fn workspace_source_sees_neighbouring_files() {
    if !there(("cc", "gcc")) {
        return;
    }
    everyone(|user| {
        user.make_folder("work/project");
        user.write("work/project/own.h", "#define ANSWER \"beside\"\n");
        user.write(
            "work/project/main.c",
            "#include <stdio.h>\n#include \"own.h\"\nint main(void) { puts(ANSWER); }\n",
        );
        for profile in ["standard", "landlock-only"] {
            let words =
                ["run", "--profile", profile, "--workspace", "project", "--lang", "c", "project/main.c"];
            user.hotcell(words).end().code(0).prints("beside\n");
        }
        assert!(!user.path("work/project/.compiled").exists());
    });
}

#[test]
fn compiler_has_separate_limits() {
    if !there(("c++", "g++")) {
        return;
    }
    everyone(|user| {
        // An array in the program takes its bytes in the file.
        let source = "char big[64 << 20] = { 1 };\nint main(void) { return big[0] - 1; }\n";
        let outcome = run(user, PATH, &["--disk", "8M"], "c", source, 1);
        assert_eq!(outcome["compile"]["done"], false, "{outcome:#}");
        // The default memory limit is that of compile steps: this needs more than a program's 256 MiB.
        let outcome = run(user, PATH, &[], "c", &source.replace("64", "300"), 0);
        assert_eq!(outcome["compile"]["done"], true, "{outcome:#}");
        // Takes a compiler longer than the limit.
        let source = "#include <regex>\nint main() { return std::regex_match(\"a\", std::regex(\"b\")); }\n";
        let outcome = run(user, PATH, &["--timeout", "50ms"], "cpp", source, 124);
        assert_eq!(outcome["compile"]["done"], false, "{outcome:#}");
        assert!(outcome["reason"].as_str().is_some_and(|why| why.starts_with("c++, before the program")));
    });
}

#[test]
fn compiler_without_output_is_no_success() {
    if !there(("javac", "default-jdk-headless")) {
        return;
    }
    everyone(|user| {
        let outcome = run(user, PATH, &[], "java", "// nothing\n", 125);
        assert_eq!((&outcome["cause"], &outcome["compile"]["done"]), (&json!("refused"), &json!(false)));
        user.write("work/long.py", vec![b'#'; (16 << 20) + 1]);
        user.hotcell(["run", "--lang", "python", "long.py"])
            .end()
            .code(125)
            .says_one_line("longer than 16 MiB");
    });
}

#[test]
fn missing_compilers_are_explained() {
    everyone(|user| {
        user.write("work/main.rs", "fn main() {}\n");
        if !is_there("rustc") {
            user.hotcell(["run", "--lang", "rust", "main.rs"])
                .env("PATH", PATH)
                .end()
                .code(127)
                .says_one_line("rustc is not there");
        }
        user.hotcell(["run", "--lang", "jav", "main.rs"]).end().code(125).says("java");
        if is_there("node") && !is_there("tsc") {
            user.write("work/main.ts", "console.log(1)\n");
            user.hotcell(["run", "--lang", "typescript", "main.ts"]).end().says("node");
        }
    });
}

#[test]
fn c_code_runs_over_mcp() {
    if !there(("cc", "gcc")) {
        return;
    }
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let code = "#include <stdio.h>\nint main(void) { puts(\"from c\"); return 4; }\n";
        let content = client.good("run_code", &json!({ "language": "c", "code": code }));
        assert_eq!(
            (&content["stdout"]["text"], &content["exit_code"]),
            (&json!("from c\n"), &json!(4)),
            "{content:#}"
        );
        let content =
            client.good("run_code", &json!({ "language": "c", "code": "int main(void) { return x; }" }));
        assert_eq!(content["compile"]["diagnostics"][0]["line"], 1, "{content:#}");
        assert!(
            content["stderr"]["text"].as_str().is_some_and(|text| text.contains("undeclared")),
            "{content:#}"
        );
        client.end();
    });
}
