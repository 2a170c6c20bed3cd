use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

struct Project(BTreeMap<String, String>, Option<String>);

impl Files for Project {
    fn text(&self, path: &str) -> Result<Option<String>, BadPath> {
        if path == "link.py" { Err(BadPath::NoFile(path.to_owned())) } else { Ok(self.0.get(path).cloned()) }
    }
    fn only(&self) -> Option<String> {
        self.1.clone()
    }
}

const OLD: &str = "def add(a, b):\n    return a - b\n\n\ndef two():\n    return 2\n";

fn project() -> Project {
    let rust = "fn a() {}\n#[cfg(test)]\nmod tests {}\n";
    let files = [("calc.py", OLD), ("lib.rs", rust), ("note.py", "# ... the rest of it is unchanged\n")];
    Project(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into(), Some("calc.py".to_owned()))
}

fn one(answer: &str) -> Result<(String, String), Malformed> {
    read(answer, false, &project()).map(|mut edit| {
        assert_eq!(edit.files.len(), 1, "{edit:?}");
        edit.files.remove(0)
    })
}

#[test]
fn files_are_found_as_models_write_them() {
    for answer in [
        "FILE_START: calc.py\nx = 1\nFILE_END\n",
        "ANALYSIS_START\nIt subtracts.\nANALYSIS_END\nFILE_START: calc.py\nx = 1\nFILE_END",
        "Sure!\n**FILE_START: calc.py**\n```python\nx = 1\n```\nFILE_END\nDone.",
        "FILE_START: `calc.py`\r\nx = 1\r\nFILE_END\r\n",
        "FILE_START calc.py\n```\nx = 1\n```\n",
        "```python calc.py\nx = 1\n```",
        "Here is `calc.py`:\n\n```python\nx = 1\n```\nDone.",
        "```python\n# calc.py\nx = 1\n```",
        "The code is wrong, so that this is the corrected version of it now:\n```python\nx = 1\n```\nand use it:\n```python\nprint(1)\n```",
    ] {
        let (path, text) = one(answer).unwrap_or_else(|e| panic!("{answer}: {e}"));
        assert_eq!(path, "calc.py", "{answer}");
        assert_eq!(text.replace("# calc.py\n", ""), "x = 1\n", "{answer}");
    }
    let edit = read(
        "ANALYSIS_START\nwhy\nANALYSIS_END\nFILE_START: a.py\n1\nFILE_END\nFILE_START: b.py\n2\nFILE_END",
        false,
        &project(),
    );
    let edit = edit.unwrap();
    assert_eq!((edit.analysis.as_deref(), edit.files.len()), (Some("why"), 2));
}

#[test]
fn pieces_are_replaced_exactly_or_up_to_indentation() {
    let piece = |search: &str, replace: &str| {
        one(&format!(
            "FILE_START: calc.py\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\nFILE_END"
        ))
    };
    let want = OLD.replace("a - b", "a + b");
    assert_eq!(piece("    return a - b", "    return a + b").unwrap().1, want);
    assert_eq!(piece("return a - b", "return a + b").unwrap().1, want);
    for (search, word) in
        [("return a * b", "return a - b"), ("", "nothing to search"), ("    return", "not found")]
    {
        let why = piece(search, "x").unwrap_err().to_string();
        assert!(why.contains(word), "{search}: {why}");
    }
    let twice = Project([("t.py".to_owned(), "x\nx\n".to_owned())].into(), None);
    let answer = "FILE_START: t.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\nFILE_END";
    assert!(read(answer, false, &twice).unwrap_err().to_string().contains("2 places"));
    let missing = answer.replace("t.py", "n.py");
    assert!(matches!(read(&missing, false, &project()), Err(Malformed::NothingToSearch(_))));
}

#[test]
fn answers_that_cannot_be_used_say_why() {
    let file = |path: &str, text: &str| format!("FILE_START: {path}\n{text}\nFILE_END\n");
    for (answer, word) in [
        (String::new(), "empty"),
        ("I cannot do that.".to_owned(), "FILE_START: path"),
        ("FILE_START: calc.py\nx = 1\n".to_owned(), "FILE_END is missing"),
        (file("../x.py", "x"), "not a path within"),
        (file("/etc/passwd", "x"), "not a path within"),
        (file(".git/hooks/pre-commit", "x"), "protected"),
        (file("tests/test_a.py", "x"), "is a test"),
        (file("conftest.py", "x"), "is a test"),
        (file("link.py", "x"), "not a plain file"),
        (
            file("calc.py", "def add(a, b):\n    return a + b\n\n# ... rest of the code unchanged ..."),
            "leaves code out",
        ),
        (file("calc.py", "def add():\n    pass\n# ..."), "leaves code out"),
        (file("new.js", "// ... existing code ..."), "leaves code out"),
        (file("calc.py", ""), "is empty"),
        (file("calc.py", "x").repeat(2), "twice"),
        (file("lib.rs", "fn a() {}\n#[cfg(test)]\nmod tests { #[test] fn t() {} }"), "#[cfg(test)]"),
        (file("lib.rs", "fn a() {}"), "#[cfg(test)]"),
        (file("big.py", &"x".repeat(MAX_FILE_BYTES + 1)), "larger"),
        ((0..=MAX_FILES).map(|n| file(&format!("a{n}.py"), "x")).collect(), "more than"),
    ] {
        let why = read(&answer, false, &project()).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn cut_answers_count_only_when_the_only_file_is_whole() {
    let several = Project(project().0, None);
    for (answer, only, of) in [
        ("```python\nx = 1\n```\nThis is", Some("x = 1\n"), None),
        ("Here:\n```python\nx = 1\n```\nand use it:\n```python\nprint(", None, None),
        // The block may be the beginning of a file with fences of its own.
        ("```md\n# T\n```sh\nls\n```\nmore", None, None),
        ("```md\n# T\n```sh\nls\n```\nmore\n```\nThis", None, None),
        ("```python\nx = \"\"\"\n```\nf()\n", None, None),
        ("```python\ndef f():\n    '''It.\n    ```\n    f()\n", None, None),
        ("```js\n/*\n```\nf()\n", None, None),
        ("````python\nx = 1\n```\nf()\n", None, None),
        ("~~~python\nx = 1\n```\nf()\n", None, None),
        ("```python\nx = 1", None, None),
        ("x = 1", None, None),
        ("", None, None),
        ("FILE_START: calc.py\nx\nFILE_END\n", None, None),
        ("```\nFILE_START: calc.py\nx\nFILE_END\n```\n", None, None),
    ] {
        let text = |read: Result<Edit, Malformed>| read.map(|edit| edit.files[0].1.clone()).ok();
        assert_eq!(text(read(answer, true, &project())).as_deref(), only, "{answer}");
        assert_eq!(text(read(answer, true, &several)), of, "{answer}");
    }
    assert_eq!(read("FILE_START: calc.py\nx\nFILE_END\n", true, &project()), Err(Malformed::Cut));
    for (only, is_taken) in [("calc.py", true), ("README.md", false), ("notes.TXT", false), ("README", false)]
    {
        let read = read("```\nx = 1\n```\nThis is", true, &Project(project().0, Some(only.to_owned())));
        assert_eq!(read.is_ok(), is_taken, "{only}");
    }
}

#[test]
fn code_that_only_looks_elided_is_taken() {
    for text in [
        "def f(): ...",
        "x = [...]",
        "class A(Protocol):\n    def f(self):\n        ...",
        "# wait for the rest of the data",
        "print('...')",
    ] {
        assert!(one(&format!("FILE_START: new.py\n{text}\nFILE_END")).is_ok(), "{text}");
    }
    // The file itself has such a line.
    assert!(one("FILE_START: note.py\n# ... the rest of it is unchanged\nx = 1\nFILE_END").is_ok());
}

proptest! {
    #[test]
    fn any_answer_is_read_without_panic(answer in "(FILE_START: |FILE_END|calc.py|<<<<<<< SEARCH|=======|>>>>>>> REPLACE|```|\n|\n|x|é| ){0,40}") {
        let _ = read(&answer, false, &project());
    }

    #[test]
    fn whole_files_survive_the_format(lines in proptest::collection::vec("[a-z =()é]{0,12}", 1..20)) {
        let text = lines.join("\n");
        prop_assume!(!text.trim().is_empty());
        let (path, read) = one(&format!("FILE_START: calc.py\n{text}\nFILE_END")).unwrap();
        prop_assert_eq!((path.as_str(), read), ("calc.py", text + "\n"));
    }
}

/// Code that is made: its own tests within sources are not given ones.
struct Made(Project);

impl Files for Made {
    fn text(&self, path: &str) -> Result<Option<String>, BadPath> {
        self.0.text(path)
    }
    fn only(&self) -> Option<String> {
        self.0.only()
    }
    fn keeps_inner_tests(&self) -> bool {
        false
    }
}

#[test]
fn tests_within_a_source_stay_unless_the_code_is_made() {
    for (text, same) in [
        ("fn b() {}\n#[cfg(test)]\nmod tests {}", true),
        ("fn b() {}", false),
        ("#[cfg(test)]\nmod other {}", false),
    ] {
        let answer = format!("FILE_START: lib.rs\n{text}\nFILE_END\n");
        let given = read(&answer, false, &project());
        assert_eq!(given.is_ok(), same, "{text}: {given:?}");
        assert!(read(&answer, false, &Made(project())).is_ok(), "{text}");
    }
}
