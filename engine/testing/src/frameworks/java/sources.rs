//! Tests in the source files of a Java project: those that JUnit never runs, although they are marked as tests, and the files of
//! which some should run. Pure.

use crate::project::Project;
use crate::text::clip;

/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum number of bytes that are searched of one file.
const MAX_SEARCHED_BYTES: usize = 256 << 10;
/// Maximum number of tests that a note lists.
const MAX_LISTED: usize = 6;
/// Annotations of methods that are tests.
const MARKS: [&str; 5] = ["Test", "ParameterizedTest", "RepeatedTest", "TestTemplate", "TestFactory"];
/// Words that begin the declaration of a type.
const TYPES: [&str; 4] = ["class", "interface", "enum", "record"];

/// A method that is marked as a test.
#[derive(Debug, PartialEq, Eq)]
struct Method<'a> {
    name: &'a str,
    line: usize,
    /// Why JUnit 5 does not run it.
    never: Option<&'static str>,
    /// True in the type that the file is named after, if that can be instantiated.
    main: bool,
}

/// Note about tests that JUnit 5 leaves out without a word. JUnit 4 fails for them.
pub(super) fn never_run(project: &dyn Project) -> Option<String> {
    let mut found = Vec::new();
    for (path, text) in texts(project) {
        let code = code_of(&text);
        let never = |method: Method<'_>| {
            Some(format!("{} in {path}:{} ({})", clip(method.name, 100), method.line, method.never?))
        };
        found.extend(methods(&code, stem(path)).into_iter().filter_map(never));
    }
    let more = if found.len() > MAX_LISTED { ", …" } else { "" };
    let tests = if found.len() == 1 { "this test" } else { "these tests" };
    let listed = found.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    (!found.is_empty()).then(|| format!("JUnit does not run {tests}, nor say so: {listed}{more}"))
}

/// Files of which some tests should run: only the build's own folder of tests, where there is a build.
pub(super) fn files(project: &dyn Project, is_built: bool) -> Vec<String> {
    let holds = |(path, text): &(&String, String)| {
        (!is_built || format!("/{path}").contains("/src/test/java/"))
            && methods(&code_of(text), stem(path)).iter().any(|method| method.main && method.never.is_none())
    };
    texts(project).filter(holds).map(|(path, _)| path.clone()).collect()
}

/// Java files that use JUnit.
fn texts(project: &dyn Project) -> impl Iterator<Item = (&String, String)> {
    let files = project.files().iter().filter(|path| path.ends_with(".java")).take(MAX_SEARCHED_FILES);
    files.filter_map(|path| {
        let text = project.read(path)?;
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_SEARCHED_BYTES)]).into_owned();
        text.contains("org.junit.").then_some((path, text))
    })
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".java").unwrap_or(name)
}

/// A text without its comments and quoted texts, with the same lines.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if let Some(text) = rest.strip_prefix("\"\"\"") {
            quoted(text, "\"\"\"") + 3
        } else if rest.starts_with('/') {
            code.push('/');
            1
        } else {
            quoted(&rest[1..], &rest[..1]) + 1
        };
        code.extend(rest[..end].chars().filter(|c| *c == '\n'));
        code.push(' ');
        rest = &rest[end..];
    }
    code.push_str(rest);
    code
}

/// Length of a quoted text with its end.
fn quoted(text: &str, end: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            _ if text[at..].starts_with(end) => return at + end.len(),
            '\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            _ => at += c.len_utf8(),
        }
    }
    text.len()
}

/// A word, or a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut all = Vec::new();
    for (number, mut rest) in code.lines().enumerate() {
        while let Some(c) = rest.chars().next() {
            let end =
                if is_word(c) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { c.len_utf8() };
            if !c.is_whitespace() {
                all.push(Token { text: &rest[..end], line: number + 1 });
            }
            rest = &rest[end..];
        }
    }
    all
}

/// A type whose members are being read.
#[derive(Debug)]
struct Type {
    /// Why JUnit 5 finds no test in it.
    never: Option<&'static str>,
    main: bool,
    /// True when the types in it are static without a word.
    holds_static: bool,
}

/// Methods that are marked as tests, in order. `stem` is the file's name.
fn methods<'a>(code: &'a str, stem: &str) -> Vec<Method<'a>> {
    let jupiter = code.contains("org.junit.jupiter.")
        && !code.contains("import org.junit.Test;")
        && !code.contains("import org.junit.*;");
    let tokens = tokens(code);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    // Index behind the bracket that belongs to the one at `at`.
    let behind = |mut at: usize| {
        let (open, close) = if text(at) == "(" { ("(", ")") } else { ("{", "}") };
        let mut depth = 0;
        while at < tokens.len() {
            depth += usize::from(text(at) == open);
            depth -= usize::from(text(at) == close);
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    };
    let (mut found, mut types): (Vec<Method<'a>>, Vec<Type>) = (Vec::new(), Vec::new());
    let (mut words, mut marks): (Vec<&'a str>, Vec<String>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "@" if text(at + 1) != "interface" => {
                let mut name = text(at + 1).to_owned();
                at += 2;
                while text(at) == "." {
                    name = name + "." + text(at + 1);
                    at += 2;
                }
                marks.push(name);
                at = if text(at) == "(" { behind(at) } else { at };
            }
            "(" => {
                if let (Some(around), Some((&name, before))) = (types.last(), words.split_last()) {
                    let is_old = |mark: &str| !mark.contains("jupiter") && (mark.contains('.') || !jupiter);
                    let last = |mark: &str| mark.rsplit('.').next().is_some_and(|last| MARKS.contains(&last));
                    let test = marks.iter().find(|mark| last(mark));
                    if let Some(mark) = test.filter(|_| !before.contains(&"abstract") && !before.is_empty()) {
                        let never = if is_old(mark) { None } else { why(mark, before).or(around.never) };
                        found.push(Method { name, line: token.line, never, main: around.main });
                    }
                    // One declaration has one list of parameters.
                    marks.clear();
                }
                at = behind(at);
            }
            "{" => {
                let kind = words.iter().position(|word| TYPES.contains(word)).filter(|kind| {
                    kind + 1 < words.len() && !words.contains(&"new") && !words[..*kind].contains(&"void")
                });
                match kind {
                    Some(kind) => {
                        types.push(inside(&words, kind, &marks, types.last(), stem));
                        at += 1;
                    }
                    None => at = behind(at),
                }
                words.clear();
                marks.clear();
            }
            ";" | "}" => {
                if token.text == "}" {
                    types.pop();
                }
                words.clear();
                marks.clear();
                at += 1;
            }
            word => {
                let is_word = word.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
                // `Other.class` begins no declaration.
                if is_word && (at == 0 || text(at - 1) != ".") {
                    words.push(word);
                }
                at += 1;
            }
        }
    }
    found
}

/// Why JUnit 5 does not run a method with these words before its name.
fn why(mark: &str, before: &[&str]) -> Option<&'static str> {
    let is_factory = mark.ends_with("TestFactory");
    let is_void = before.last() == Some(&"void");
    if before.contains(&"private") {
        Some("private")
    } else if before.contains(&"static") {
        Some("static")
    } else if is_factory == is_void {
        Some(if is_factory { "a factory that is void" } else { "not void" })
    } else {
        None
    }
}

/// The type that this declaration begins.
fn inside(words: &[&str], kind: usize, marks: &[String], around: Option<&Type>, stem: &str) -> Type {
    let is_nested = marks.iter().any(|mark| mark.rsplit('.').next() == Some("Nested"));
    let is_static = words[..kind].contains(&"static")
        || words[kind] != "class"
        || around.is_some_and(|around| around.holds_static);
    let never = match around {
        Some(around) if around.never.is_some() => around.never,
        Some(_) if !is_static && !is_nested => Some("in an inner class without @Nested"),
        Some(_) if is_static && is_nested => Some("in a @Nested class that is static"),
        _ => None,
    };
    let is_made = matches!(words[kind], "class" | "record") && !words[..kind].contains(&"abstract");
    let main =
        around.is_none_or(|around| around.main) && is_made && (around.is_some() || words[kind + 1] == stem);
    Type { never, main, holds_static: words[kind] == "interface" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<(String, Option<&'static str>, bool)> {
        let code = code_of(text);
        methods(&code, "ATest").into_iter().map(|m| (m.name.to_owned(), m.never, m.main)).collect()
    }

    #[test]
    fn tests_that_junit_never_runs_are_found() {
        let inner = "in an inner class without @Nested";
        for (members, want) in [
            ("@Test void a() {}", None),
            ("@Test public void a() throws Exception { run(() -> { private(); }); }", None),
            ("@Test private void a() {}", Some("private")),
            ("@Test static void a() {}", Some("static")),
            ("@Test int a() { return 1; }", Some("not void")),
            ("@Test List<String> a() { return null; }", Some("not void")),
            ("@Test <T> void a() {}", None),
            ("@DisplayName(\"a (b) {\") @Test @Tag(\"x\") private void a() {}", Some("private")),
            ("@org.junit.jupiter.api.Test private void a() {}", Some("private")),
            (
                "@ParameterizedTest(name = \"x\") @ValueSource(ints = {1, 2}) static void a(int n) {}",
                Some("static"),
            ),
            ("@RepeatedTest(3) String a() { return \"\"; }", Some("not void")),
            ("@TestFactory Stream<DynamicTest> a() { return null; }", None),
            ("@TestFactory void a() {}", Some("a factory that is void")),
            ("class In { @Test void a() {} }", Some(inner)),
            ("class In { class Deep { @Test void a() {} } }", Some(inner)),
            ("@Nested class In { @Test void a() {} }", None),
            ("@Nested class In { @Nested class Deep { @Test void a() {} } }", None),
            ("@Nested static class In { @Test void a() {} }", Some("in a @Nested class that is static")),
            ("static class In { @Test void a() {} }", None),
            ("Class<?> c = Other.class;\nint[] n = {1, 2};\n@Test void a() {}", None),
            (
                "/* private */ @Test // static\n void a() { char c = '{'; String s = \"\"\"\n} \"quoted\" {\"\"\"; }",
                None,
            ),
            ("Object o = new Object() { private void x() {} };\n@Test void a() {}", None),
            ("private static void helper() {}\n@Test void a() {}", None),
        ] {
            let text = format!(
                "import org.junit.jupiter.api.*;\npublic class ATest extends Base<X> {{\n{members}\n}}\n"
            );
            assert_eq!(read(&text), [("a".to_owned(), want, true)], "{members}");
        }
        // JUnit 4 fails for such tests, and tells so.
        assert_eq!(
            read("import org.junit.Test;\nclass ATest { @Test private void a() {} }"),
            [("a".to_owned(), None, true)]
        );
        assert!(
            read("import org.junit.jupiter.api.*;\n@Test @interface Fast {}\nclass X { void f() {} }")
                .is_empty()
        );
    }

    #[test]
    fn main_type_is_that_of_the_file() {
        for (text, want) in [
            ("class ATest { @Test void a() {} }", true),
            ("abstract class ATest { @Test void a() {} }", false),
            ("interface ATest { @Test default void a() {} }", false),
            ("class Other { @Test void a() {} }", false),
            ("class ATest { @Nested class In { @Test void a() {} } }", true),
            ("final class ATest<T extends Comparable<T>> implements X { @Test void a() {} }", true),
        ] {
            let text = format!("import org.junit.jupiter.api.*;\n{text}");
            assert_eq!(read(&text), [("a".to_owned(), None, want)], "{text}");
        }
    }

    #[derive(Debug)]
    struct Files(Vec<String>);

    impl Project for Files {
        fn files(&self) -> &[String] {
            &self.0
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            let members =
                if path.contains("Bad") { "@Test private void a() {}" } else { "@Test void a() {}" };
            let text =
                format!("import org.junit.jupiter.api.Test;\nclass {} {{\n  {members}\n}}", stem(path));
            Some(text.into_bytes())
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|file| file == path)
        }
    }

    #[test]
    fn note_lists_tests_that_never_run() {
        let files = |names: &[&str]| Files(names.iter().map(|name| (*name).to_owned()).collect());
        let project =
            files(&["src/test/java/BadTest.java", "src/test/java/GoodTest.java", "x/GoodTest.java"]);
        let note = never_run(&project).unwrap();
        assert_eq!(
            note,
            "JUnit does not run this test, nor say so: a in src/test/java/BadTest.java:3 (private)"
        );
        assert_eq!(super::files(&project, true), ["src/test/java/GoodTest.java"]);
        assert_eq!(super::files(&project, false), ["src/test/java/GoodTest.java", "x/GoodTest.java"]);
        let many: Vec<String> = (0..8).map(|n| format!("Bad{n}.java")).collect();
        let note = never_run(&Files(many)).unwrap();
        assert!(note.starts_with("JUnit does not run these tests") && note.ends_with("), …"), "{note}");
        assert_eq!(never_run(&files(&["GoodTest.java", "a.txt"])), None);
    }

    proptest! {
        #[test]
        fn arbitrary_java_causes_no_panic(text in "(@Test|@|class |private |void |a|\\(|\\)|\\{|\\}|;|\"|'|\\\\|/\\*|//|\n|ä|\\.){0,40}") {
            let code = code_of(&text);
            prop_assert_eq!(code.matches('\n').count(), text.matches('\n').count());
            let _ = methods(&code, "ATest");
        }
    }
}
