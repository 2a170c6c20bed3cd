//! The gate gets the whole command: code in its arguments, its standard input, its variables and its files is
//! read in the language that executes it, each beside a harmless twin that runs.

use hotcell_end_to_end::{User, everyone, find, mcp::Local};
use serde_json::{Value, json};

/// Dangerous on the face of it, and inert: there is no such folder.
const PYTHON: &str = "print('RAN')\nimport os\nos.system('rm -rf /home/')\n";
const SHELL: &str = "echo RAN\nrm -rf /home/\n";
const SCRIPT: &str = "console.log('RAN')\nrequire('child_process').execSync('rm -rf /home/')\n";

/// The text without its dangerous lines.
fn twin(text: &str) -> String {
    let harmless = |line: &&str| !line.contains("rm -rf");
    text.lines().filter(harmless).map(|line| format!("{line}\n")).collect()
}

/// Asserts that the dangerous text is refused, and its twin runs.
#[track_caller]
fn tells_apart(what: &str, run: &dyn Fn(&str) -> hotcell_end_to_end::Ended, text: &str) {
    let refused = run(text);
    assert_eq!(refused.text(), "", "{what}: {refused:#?}");
    refused.code(125).says("quarantined");
    let ran = run(&twin(text));
    assert!(ran.text().contains("RAN"), "{what}: {ran:#?}");
    ran.code(0);
}

#[test]
fn code_in_words_is_read() {
    everyone(|user| {
        for wrapper in [&[][..], &["env", "A=1"], &["nice", "-n", "1", "timeout", "20"]] {
            for (words, text) in
                [(&["python3", "-c"][..], PYTHON), (&["python3", "-Iuc"], PYTHON), (&["bash", "-ec"], SHELL)]
            {
                let run =
                    |text: &str| user.hotcell(["run", "--"]).words(wrapper).words(words).words(&[text]).end();
                tells_apart(&format!("{wrapper:?} {words:?}"), &run, text);
            }
        }
        if find("node").is_some() {
            tells_apart("node", &|text| user.hotcell(["run", "--", "node", "-e", text]).end(), SCRIPT);
        }
        let nested = |text: &str| {
            let line = format!("python3 -c \"{}\"", text.replace('\n', ";").replace(";;", ";"));
            user.hotcell(["run", "--", "sh", "-c", &line]).end()
        };
        tells_apart("python3 in sh", &nested, PYTHON);
        // A command line is read like a script.
        user.hotcell(["run", "--", "rm", "-rf", "/home/"]).end().code(125).says("sh.delete.root");
        user.hotcell(["run", "--", "rm", "-rf", "nothing"]).end().code(0);
        // A language that the guard cannot read is named.
        let perl = user.hotcell(["run", "--", "perl", "-e", "print 'RAN'"]).end();
        perl.code(125).prints("").says("argv[2] (perl)").says("perl is not read");
        user.hotcell(["run", "--guard", "report", "--", "perl", "-e", "print 'RAN'"])
            .end()
            .code(0)
            .prints("RAN");
        user.hotcell(["run", "--guard", "off", "--", "python3", "-c", PYTHON]).end().code(0).prints("RAN\n");
    });
}

#[test]
fn standard_input_is_read_where_it_is_executed() {
    everyone(|user| {
        for (words, text) in [
            (&["python3", "-"][..], PYTHON),
            (&["python3"], PYTHON),
            (&["bash"], SHELL),
            (&["sh", "-s", "x"], SHELL),
            (&["sh", "-c", "python3 -"], PYTHON),
            (&["sh", "-c", "cat | sh"], SHELL),
            (&["python3", "-c", "import sys; exec(sys.stdin.read())"], PYTHON),
        ] {
            let run = |text: &str| user.hotcell(["run", "--"]).words(words).input(text).end();
            tells_apart(&format!("{words:?}"), &run, text);
            let run = |text: &str| {
                user.write("work/input", text);
                user.hotcell(["run", "--stdin", "input", "--"]).words(words).end()
            };
            tells_apart(&format!("{words:?} from a file"), &run, text);
        }
        // Input that is only data is not read.
        user.hotcell(["run", "--", "cat"]).input(SHELL).end().code(0).prints(SHELL);
        let long = format!("# {}\necho RAN\n", "x".repeat(5 << 20));
        let refused = user.hotcell(["run", "--", "bash"]).input(long.clone()).end();
        refused.code(125).says("standard input (shell)").says("4 MiB");
        let ran = user.hotcell(["run", "--guard", "report", "--", "bash"]).input(long.clone()).end();
        ran.code(0).prints("RAN\n");
        user.hotcell(["run", "--", "wc", "-c"]).input(long).end().code(0);
    });
}

#[test]
fn command_files_are_read_by_their_executor() {
    everyone(|user| {
        let run_python = "import runpy\nrunpy.run_path('notes.md')\n";
        let loader = "from importlib.machinery import SourceFileLoader\nSourceFileLoader('m', 'notes.md').load_module()\n";
        for (what, files, words, at, text) in [
            ("a table as Python", &[][..], &["python3", "data.csv"][..], "data.csv", PYTHON),
            ("by a link", &[], &["python3", "link"], "data.csv", PYTHON),
            ("behind options", &[], &["env", "python3", "-u", "./data.csv"], "data.csv", PYTHON),
            ("a shell script without a first line", &[], &["bash", "setup"], "setup", SHELL),
            ("a shell script that the system cannot start", &[], &["env", "./setup"], "setup", SHELL),
            ("a module", &[], &["python3", "-m", "cProfile", "data.csv"], "data.csv", PYTHON),
            ("by runpy", &[("main.py", run_python)], &["python3", "main.py"], "notes.md", PYTHON),
            ("by a loader", &[("main.py", loader)], &["python3", "main.py"], "notes.md", PYTHON),
            (
                "by exec of a file",
                &[("main.py", "exec(open('notes.md').read())\n")],
                &["python3", "main.py"],
                "notes.md",
                PYTHON,
            ),
            ("by a shell script", &[("main.sh", ". ./notes.md\n")], &["sh", "main.sh"], "notes.md", SHELL),
            (
                "by a subprocess",
                &[("main.py", "import subprocess\nsubprocess.run(['python3', 'notes.md'])\n")],
                &["python3", "main.py"],
                "notes.md",
                PYTHON,
            ),
            (
                "a makefile",
                &[],
                &["make", "-sf", "notes.md"],
                "notes.md",
                "all:\n\t@echo RAN\n\t@rm -rf /home/\n",
            ),
            (
                "an included makefile",
                &[("Makefile", "include notes.md\n")],
                &["make", "-s"],
                "notes.md",
                "all:\n\t@echo RAN\n\t@rm -rf /home/\n",
            ),
        ] {
            if words[0] == "make" && find("make").is_none() {
                continue;
            }
            let folder = user.make_folder("work/p");
            for (name, text) in files {
                user.write(format!("work/p/{name}"), text);
            }
            if words.contains(&"link") {
                std::os::unix::fs::symlink("data.csv", folder.join("link")).expect("a link");
            }
            let run = |text: &str| {
                user.write_program(format!("work/p/{at}"), text);
                user.hotcell(["run", "--workspace", "p", "--"]).words(words).end()
            };
            tells_apart(what, &run, text);
            std::fs::remove_dir_all(folder).expect("removed");
        }
    });
}

#[test]
fn variables_that_load_code_are_read() {
    everyone(|user| {
        user.make_folder("work/p");
        for (variable, words, text) in [
            ("BASH_ENV=start", &["bash", "-c", ":"][..], SHELL),
            ("BASH_FUNC_ls%%=() {  TEXT}", &["bash", "-c", "ls"], "echo RAN;\nrm -rf /home/;\n"),
        ] {
            let run = |text: &str| {
                user.write("work/p/start", text);
                let variable = variable.replace("TEXT", &text.replace('\n', " "));
                user.hotcell(["run", "--workspace", "p", "--env", &variable, "--"]).words(words).end()
            };
            tells_apart(variable, &run, text);
        }
    });
}

#[test]
fn release_covers_complete_command() {
    let user = User::me();
    let run = |words: &[&str]| user.hotcell(["run", "--json", "--"]).words(words).end();
    let refused = run(&["python3", "-c", PYTHON]).code(125).json();
    let id = refused["scan"]["quarantine"]["id"].as_str().expect("it is held").to_owned();
    user.hotcell(["quarantine", "release", &id, "--reason", "a test"]).end().code(0);
    run(&["python3", "-c", &format!("{PYTHON}#")]).code(125);
    run(&["bash", "-c", PYTHON]).code(125);
    run(&["python3", "-c", PYTHON]).code(0);
    run(&["python3", "-c", PYTHON]).code(125);
}

#[test]
fn mcp_command_is_refused_for_its_code() {
    let user = User::me();
    let mut client = Local::start(&user, hotcell_end_to_end::mcp::STATELESS);
    let cause =
        |client: &mut Local, tool: &str, arguments: &Value| client.good(tool, arguments)["cause"].clone();
    let quoted = |text: &str| format!("python3 -c '{}'", text.replace('\'', "'\\''"));
    for (text, want) in [(PYTHON.to_owned(), "quarantined"), (twin(PYTHON), "exited")] {
        for (tool, arguments) in [
            ("run_code", json!({ "language": "python", "code": text })),
            ("run_command", json!({ "argv": ["python3", "-c", text] })),
            ("run_command", json!({ "argv": ["python3", "-"], "stdin": text })),
            ("run_command", json!({ "argv": ["bash", "-c", quoted(&text)] })),
            ("run_command", json!({ "argv": ["bash"], "stdin": quoted(&text) })),
            (
                "run_code",
                json!({ "language": "python", "code": "import sys; exec(sys.stdin.read())", "stdin": text }),
            ),
        ] {
            assert_eq!(cause(&mut client, tool, &arguments), want, "{tool} {arguments:#}");
        }
    }
}
