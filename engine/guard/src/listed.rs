//! Command lines of a shell that stand in a source as texts in a row, whatever starts them: `"sh", "-c", "TEXT"` in a list, in arguments or in a chain of
//! calls. The readers of languages follow the calls that they know; these are of any library. Of programs in languages that
//! are not read, the texts that they give to a shell.

use std::sync::LazyLock;

use regex::Regex;

use crate::context::Cx;
use crate::decode::unescape;
use crate::language::Language;
use crate::value::HOLE;

/// Maximum number of command lines that are read of one source.
const MAX_COMMANDS: usize = 256;
/// Maximum length of a command line that pieces are added to, in bytes.
const MAX_COMMAND: usize = 64 * 1024;
/// Maximum length of the text before a command line that is looked at, in bytes.
const MAX_BEFORE: usize = 1024;
/// Letters of the kinds of texts in Python and Rust.
const PREFIX: [char; 4] = ['b', 'r', 'u', 'f'];

/// A shell, its option and the text, with what may stand between them.
static LISTED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"(?:["'`](?:[\w./-]*/)?(?:sh|bash|dash|zsh|ksh|ash)["'`](?:[\s,()\[\]{}.:&]|\bargs?\b|\bcmd\b|\bnew\b|\bString\b|\bvec!|\bb)*"#,
        r#"|\b(?:sh|bash|dash|zsh)[(\[]\s*)"#,
        r#"["']-[a-z]{0,4}c["'](?:[\s,()\[\]{}.:&+]|\bargs?\b|\bconcat!|\bString\b|\bfrom\b|\b[bruf]{1,2})*"#,
    ))
    .ok()
});
/// One text in quotes, at the start.
static TEXT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^(?s:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"#).ok());
/// A text, or anything else, that is put into a template.
static PUT_IN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\$\{\s*(?:'([^'\\]*)'|"([^"\\]*)"|[^{}]*)\s*\}"#).ok());

/// Words of many languages that give the next text to a shell, and a shell's option before a text in braces.
static GIVEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\b(?:sh|bash)\s+-[a-z]{0,4}c\s+",
        r"|\b(?:system|exec|shell_exec|passthru|popen[234e]?|capture[23]e?|proc_open|spawn|execute|sh)\b[\s(\[]*",
    ))
    .ok()
});
/// A text in braces or backticks, and the line of a debugger's command.
static BARE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(?:sh|bash)\s+-[a-z]{0,4}c\s+\{([^{}]*)\}|`([^`]+)`|\bqx\s*[{(/]([^{}()/]*)|(?m:^\s*(?:shell\s+|!)(.+)$)").ok()
});

/// Texts that a program in a language that is not read gives to a shell.
pub(crate) fn given(program: &str) -> Vec<String> {
    let (Some(given), Some(bare), Some(text)) = (&*GIVEN, &*BARE, &*TEXT) else { return Vec::new() };
    let quoted = given.find_iter(program).filter_map(|place| text.captures(&program[place.end()..]));
    let bare = bare.captures_iter(program);
    let all = quoted
        .chain(bare)
        .filter_map(|one| one.iter().skip(1).flatten().next().map(|text| unescape(text.as_str())));
    all.filter(|text| text.contains(' ')).take(MAX_COMMANDS).collect()
}

/// Reads the command lines of a source as scripts.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, source: &str) {
    if !matches!(
        language,
        Language::JavaScript
            | Language::TypeScript
            | Language::Python
            | Language::Go
            | Language::Rust
            | Language::C
            | Language::Cpp
            | Language::Java
    ) {
        return;
    }
    let is_test = is_test(&cx.path());
    let found = listed(source, &mut || cx.tick()).into_iter();
    let mut found: Vec<_> = found.map(|(at, text)| (at, text, steps(before(source, at), is_test))).collect();
    // A text is read once: first as what is run here.
    found.sort_by_key(|(_, _, steps)| steps.len());
    for (at, text, steps) in found {
        cx.child(Language::Bash, &text, (at, at + 1), steps);
    }
}

/// Texts behind a shell and its `-c`, with their places. `tick` says whether there is time for another step.
fn listed(source: &str, tick: &mut dyn FnMut() -> bool) -> Vec<(usize, String)> {
    let (Some(listed), Some(text)) = (&*LISTED, &*TEXT) else { return Vec::new() };
    if !source.contains("c\"") && !source.contains("c'") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (mut line, mut looked) = (0, 0);
    for place in listed.find_iter(source) {
        if found.len() >= MAX_COMMANDS || !tick() {
            break;
        }
        if let Some(end) = source[looked..place.start()].rfind('\n') {
            line = looked + end + 1;
        }
        looked = place.start();
        if in_comment(&source[line..looked]) || is_elsewhere(before(source, looked)) {
            continue;
        }
        let command = command(text, place.as_str(), &source[place.end()..], tick);
        if !command.is_empty() {
            found.push((place.start(), command));
        }
    }
    found
}

/// The text behind a shell's option, from the pieces that the language puts together: beside one another, with `+`, or in `concat!`. A piece that is
/// not known is a hole.
fn command(text: &Regex, shell: &str, rest: &str, tick: &mut dyn FnMut() -> bool) -> String {
    let mut command = String::new();
    let is_joined = shell.contains("concat!");
    let mut rest = rest;
    let mut prefix = &shell[shell.trim_end_matches(PREFIX).len()..];
    while command.len() < MAX_COMMAND
        && tick()
        && let Some(one) = text.captures(rest)
        && let Some(whole) = one.get(0)
    {
        let piece = [1, 2, 3].iter().find_map(|at| one.get(*at)).map_or("", |piece| piece.as_str());
        rest = rest[whole.end()..].trim_start();
        let is_template = whole.as_str().starts_with('`');
        if is_template {
            command.push_str(&put_in(&unescape(piece)));
        } else if prefix.contains('f') || rest.starts_with(".format(") {
            command.push_str(&with_holes(&unescape(piece)));
        } else {
            command.push_str(&unescape(piece));
        }
        let after = rest.strip_prefix('+').or_else(|| rest.strip_prefix(',').filter(|_| is_joined));
        rest = after.map_or(rest, str::trim_start);
        let next = rest.trim_start_matches(PREFIX);
        let is_text = next.starts_with(['"', '\'', '`']) && rest.len() - next.len() <= 2;
        if after.is_some() && !is_text && !rest.starts_with(')') {
            command.push(HOLE);
        }
        if !is_text {
            break;
        }
        prefix = &rest[..rest.len() - next.len()];
        rest = next;
    }
    command
}

/// A text of Python with what is put in, `{…}`, as holes.
fn with_holes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            out.push('{');
            rest = after;
        } else if let Some(end) = rest.find('}') {
            out.push(HOLE);
            rest = &rest[end + 1..];
        } else {
            out.push('{');
        }
    }
    out.push_str(rest);
    out.replace("}}", "}")
}

/// A text of a template, with texts that are put in, and holes for what is not known.
fn put_in(text: &str) -> String {
    let Some(put_in) = &*PUT_IN else { return text.to_owned() };
    let known = |put: &regex::Captures<'_>| {
        put.get(1).or_else(|| put.get(2)).map_or_else(|| HOLE.to_string(), |known| known.as_str().to_owned())
    };
    put_in.replace_all(text, known).into_owned()
}

/// The last text before a place, no longer than what is looked at.
fn before(source: &str, at: usize) -> &str {
    &source[source.ceil_char_boundary(at.saturating_sub(MAX_BEFORE))..at]
}

/// Whether the shell is started elsewhere: as an argument of another program, as in `["docker", "run", "image", "sh", …]`. A shell's own name may be there twice, and some programs start another one here.
fn is_elsewhere(before: &str) -> bool {
    const HERE: [&str; 11] =
        ["env", "sudo", "doas", "nohup", "timeout", "busybox", "nice", "ionice", "setsid", "stdbuf", "xargs"];
    const ELSEWHERE: [&str; 15] = [
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "oc",
        "ssh",
        "docker-compose",
        "lxc",
        "incus",
        "crictl",
        "multipass",
        "buildah",
        "flyctl",
        "heroku",
        "vagrant",
    ];
    let before = before.trim_end_matches(['b', 'r', 'u', '&']).trim_end();
    let mut words = Vec::new();
    let mut rest = before;
    while words.len() < 64
        && let Some(inner) = rest.strip_suffix(',').map(str::trim_end)
        && let Some(quote) = inner.chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`'))
    {
        let inner = &inner[..inner.len() - 1];
        let from = inner.rfind(quote);
        words.push(crate::rules::basename(&inner[from.map_or(0, |from| from + 1)..]));
        rest = inner[..from.unwrap_or(0)].trim_end_matches(['b', 'r', 'u', '&']).trim_end();
    }
    let is_any = |names: &[&str]| words.iter().any(|word| names.contains(word));
    match words.first() {
        Some(last) => is_any(&ELSEWHERE) || !last.ends_with("sh") && !is_any(&HERE),
        None => false,
    }
}

/// Steps to a command line behind a text: of a container that is described, or among the data of a test, it is for a person to review.
fn steps(before: &str, is_test: bool) -> &'static [&'static str] {
    if is_of_container(before) {
        &["shell", "container"]
    } else if is_test && is_data(before) {
        &["shell", "data"]
    } else {
        &["shell"]
    }
}

/// Whether a file holds tests, by its path.
fn is_test(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let is_of_tests = |folder: &str| {
        matches!(folder, "test" | "tests" | "__tests__" | "testdata" | "spec" | "specs" | "fixtures")
    };
    folders.split('/').any(is_of_tests)
        || name.starts_with("test_")
        || ["_test.", ".test.", ".spec."].iter().any(|part| name.contains(part))
}

/// Whether a text ends in data that no call gets, other than one that makes tests of data.
fn is_data(before: &str) -> bool {
    let mut depth = 0_usize;
    for (at, c) in before.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 0 => {
                let callee = &before[..at];
                return callee.ends_with("parametrize") || callee.ends_with(".each");
            }
            '(' => depth -= 1,
            _ => {}
        }
    }
    true
}

/// Whether a text ends in the command of a container that is described: `V1Container(…, command=[`.
fn is_of_container(before: &str) -> bool {
    let before = before.trim_end();
    if ["withCommand(", "withCmd(", "WithCmd("].iter().any(|call| before.ends_with(call)) {
        return true;
    }
    let Some(at) = before.rfind("V1Container(") else { return false };
    let inner = &before[at + "V1Container(".len()..];
    let depth = inner.chars().try_fold(0_usize, |depth, c| match c {
        '(' => Some(depth + 1),
        ')' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth.is_some() && (inner.ends_with("command=[") || inner.ends_with("args=["))
}

/// Whether a place is in a comment, by its line up to it.
fn in_comment(line: &str) -> bool {
    let start = line[..line.floor_char_boundary(MAX_BEFORE)].trim_start();
    if start.starts_with("//") || start.starts_with('#') || start.starts_with('*') {
        return true;
    }
    let mut rest = before(line, line.len());
    while let Some(at) = rest.find(['"', '\'', '`', '/']) {
        let mark = rest[at..].chars().next().unwrap_or('/');
        if rest[at..].starts_with("// ") {
            return true;
        }
        let after = &rest[at + 1..];
        // A text that ends on the line; an apostrophe need not be one.
        rest = match after.find(mark).filter(|_| mark != '/') {
            Some(end) => &after[end + 1..],
            None => after,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_sound() {
        assert!(LISTED.is_some() && TEXT.is_some() && GIVEN.is_some() && BARE.is_some() && PUT_IN.is_some());
    }

    #[test]
    fn texts_behind_a_shell_are_found() {
        for (source, want) in [
            (r#"new ProcessBuilder("sh", "-c", "id; ls").start();"#, Some("id; ls")),
            (r#"Runtime.getRuntime().exec(new String[]{"/bin/bash","-c","id"});"#, Some("id")),
            (r#"char *a[]={"sh","-c","a \"b\" | sh",0};"#, Some("a \"b\" | sh")),
            (r#"execl("/bin/sh", "sh", "-c", "a" " b", (char *)0);"#, Some("a b")),
            (r#"Deno.run({ cmd: ["sh", "-c", 'id'] });"#, Some("id")),
            (r#"new Deno.Command("sh", { args: ["-c", `id`] });"#, Some("id")),
            (r#"Bun.spawnSync(["bash", "-lc", "a" + "b"]);"#, Some("ab")),
            (r#"exec.Command("sh", "-c", "id").Run()"#, Some("id")),
            (r#"Command::new("sh").arg("-c").arg("id").status()"#, Some("id")),
            (r#"Command::new("bash").args(["-c", concat!("a", " | sh")])"#, Some("a | sh")),
            ("session.run(\"sh\", \"-c\",\n    'id', external=True)", Some("id")),
            (r#"sh.bash("-c", "id")"#, Some("id")),
            (r#"f(b"/bin/sh", [b"sh", b"-c", b"id"], [])"#, Some("id")),
            // Started elsewhere, comments and other programs.
            (r#"run(["docker", "run", "alpine", "sh", "-c", "id"])"#, None),
            ("// exec.Command(\"sh\", \"-c\", \"id\")", None),
            ("x = 1 // \"sh\", \"-c\", \"id\"", None),
            (r#"Command::new("git").arg("-c").arg("a=b")"#, None),
            (r#"["python", "-c", "id"]"#, None),
            (r#"["sh", "script.sh"]"#, None),
            (r#"["sh", "-c", command]"#, None),
            (r#"["fish", "-c", "id"]"#, None),
        ] {
            let found = listed(source, &mut || true);
            assert_eq!(found.first().map(|(_, text)| &**text), want, "{source}");
        }
    }

    #[test]
    fn texts_given_to_a_shell_are_found() {
        for (program, want) in [
            ("shell_exec(\"a | sh\");", Some("a | sh")),
            ("os.execute('a | sh')", Some("a | sh")),
            ("io.popen(\"a | sh\")", Some("a | sh")),
            ("system 'a | sh'", Some("a | sh")),
            ("exec sh -c {a | sh}", Some("a | sh")),
            ("spawn sh -c \"a | sh\"; expect eof", Some("a | sh")),
            ("shell a | sh", Some("a | sh")),
            ("puts `a | sh`", Some("a | sh")),
            ("print qx{a | sh}", Some("a | sh")),
            ("print 'a | sh'", None),
            ("puts \"system\"", None),
            ("system('id')", None),
        ] {
            assert_eq!(given(program).first().map(String::as_str), want, "{program}");
        }
    }

    #[test]
    fn pieces_that_are_not_known_are_holes() {
        let hole = |text: &str| text.replace('?', &HOLE.to_string());
        for (source, want) in [
            (r#"exec.Command("sh", "-c", "rm -rf /home/" + user)"#, "rm -rf /home/?"),
            (r#"new String[]{"sh", "-c", "rm -rf /home/" + user + "/x"}"#, "rm -rf /home/?"),
            (r#"["sh", "-c", f"rm -rf /home/{user}/x {{}}"]"#, "rm -rf /home/?/x {}"),
            (r#"["sh", "-c", "rm -rf /home/{}".format(user)]"#, "rm -rf /home/?"),
            (r#"["sh", "-c", "rm " f"-rf {x}"]"#, "rm -rf ?"),
            (r#".args(["-c", "x"]); Command::new("sh").arg("-c").arg(concat!("rm ", X))"#, "rm ?"),
            (r#"["sh", "-c", concat!("a", "b",)]"#, "ab"),
            ("[\"sh\", \"-c\", `rm ${x} ${'y'}`]", "rm ? y"),
            (r#"["sh", "-c", "rm -rf /home" + "/"]"#, "rm -rf /home/"),
            (r#"["sh", "-c", "rm -rf /home/", + user]"#, "rm -rf /home/"),
        ] {
            let found = listed(source, &mut || true);
            assert_eq!(found.first().map(|(_, text)| text.clone()), Some(hole(want)), "{source}");
        }
    }

    #[test]
    fn shells_started_elsewhere_are_told_from_those_behind_a_wrapper() {
        for (source, here) in [
            (r#"exec.Command("env", "sh", "-c", "id")"#, true),
            (r#"exec.Command("sudo", "-u", "x", "sh", "-c", "id")"#, true),
            (r#"exec.Command("/usr/bin/timeout", "10", "sh", "-c", "id")"#, true),
            (r#"exec.Command("busybox", "sh", "-c", "id")"#, true),
            (r#"_ = "// "; exec.Command("sh", "-c", "id")"#, true),
            (r#"let it = 'a'; f('"', "sh", "-c", "id")"#, false),
            (r#"exec.Command("sudo", "docker", "exec", "x", "sh", "-c", "id")"#, false),
            (r#"exec.Command("kubectl", "exec", "x", "--", "env", "sh", "-c", "id")"#, false),
            (r#"exec.Command("git", "sh", "-c", "id")"#, false),
            (r#"fn f<'a>(x: &'a str) {} // "sh", "-c", "id""#, false),
        ] {
            assert_eq!(!listed(source, &mut || true).is_empty(), here, "{source}");
        }
    }

    #[test]
    fn commands_of_containers_and_data_of_tests_are_for_a_person() {
        for (source, path, want) in [
            (r#"client.V1Container(name=str(x), command=["sh", "-c", "id"])"#, "a.py", "container"),
            (r#"client.V1Container(name=x); run(command=["sh", "-c", "id"])"#, "a.py", "shell"),
            (r#"container.withCommand("sh", "-c", "id")"#, "A.java", "container"),
            (r#"CASES = [["sh", "-c", "id"]]"#, "tests/a.py", "data"),
            (r#"CASES = [["sh", "-c", "id"]]"#, "a.py", "shell"),
            (r#"@pytest.mark.parametrize("c", [["sh", "-c", "id"]])"#, "test_a.py", "data"),
            (r#"start(["sh", "-c", "id"])"#, "test_a.py", "shell"),
            (r#"x = (f(y), ["sh", "-c", "id"])"#, "src/a.test.ts", "shell"),
            (r#"x = f(y); const z = ["sh", "-c", "id"];"#, "src/a.test.ts", "data"),
        ] {
            let at = listed(source, &mut || true)[0].0;
            assert_eq!(steps(before(source, at), is_test(path)).last(), Some(&want), "{path}: {source}");
        }
    }

    #[test]
    fn many_texts_in_a_row_are_read_up_to_bounds() {
        let row = r#""sh" "-c" "#.repeat(20_000);
        let mut steps = 0;
        let found = listed(&row, &mut || {
            steps += 1;
            true
        });
        assert_eq!(found.len(), MAX_COMMANDS);
        assert!(found.iter().all(|(_, text)| text.len() <= MAX_COMMAND + 2));
        assert!(listed(&row, &mut || false).is_empty());
        let skipped = r#""git", "sh", "-c", "id"; "#.repeat(20_000);
        let mut steps = 0;
        let found = listed(&skipped, &mut || {
            steps += 1;
            true
        });
        assert!(found.is_empty() && steps == 20_000, "{steps}");
    }
}
