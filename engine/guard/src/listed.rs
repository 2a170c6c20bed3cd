//! Command lines of a shell that stand in a source as texts in a row, whatever starts them: `"sh", "-c", "TEXT"` in a list, in arguments or in a chain of
//! calls, and templates tagged `$`. The readers of languages follow the calls that they know; these are of any library. Of programs in languages that
//! are not read, the texts that they give to a shell.

use std::sync::LazyLock;

use regex::Regex;

use crate::context::Cx;
use crate::decode::unescape;
use crate::language::Language;
use crate::value::HOLE;

/// Maximum number of command lines that are read of one source.
const MAX_COMMANDS: usize = 256;

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
/// A template tagged `$`, with settings of the tag: `$`, `$.sync`, `$({ … })`.
static TAGGED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?s)(?:^|[^\w$`])\$(?:\.\w+|\([^()`]{0,120}\))?`((?:[^`\\]|\\.)*)`").ok());
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
    let is_script = matches!(language, Language::JavaScript | Language::TypeScript);
    if !is_script
        && !matches!(
            language,
            Language::Python | Language::Go | Language::Rust | Language::C | Language::Cpp | Language::Java
        )
    {
        return;
    }
    let mut found = listed(source);
    if is_script {
        found.extend(tagged(source));
    }
    for (at, text) in found.into_iter().take(MAX_COMMANDS) {
        cx.child(Language::Bash, &text, (at, at + 1), &["shell"]);
    }
}

/// Texts behind a shell and its `-c`, with their places.
fn listed(source: &str) -> Vec<(usize, String)> {
    let (Some(listed), Some(text)) = (&*LISTED, &*TEXT) else { return Vec::new() };
    if !source.contains("c\"") && !source.contains("c'") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for place in listed.find_iter(source) {
        if in_comment(source, place.start()) || is_argument(source, place.start()) {
            continue;
        }
        let mut rest = &source[place.end()..];
        let mut command = String::new();
        // Texts that the language puts together: beside one another, with `+`, or in `concat!`.
        let is_joined = place.as_str().contains("concat!");
        while let Some(one) = text.captures(rest) {
            let piece = [1, 2, 3].iter().find_map(|at| one.get(*at)).map_or("", |piece| piece.as_str());
            command.push_str(&unescape(piece));
            let Some(whole) = one.get(0) else { break };
            rest = rest[whole.end()..].trim_start();
            rest = match rest.strip_prefix('+').or_else(|| rest.strip_prefix(',').filter(|_| is_joined)) {
                Some(after) => after.trim_start(),
                None => rest,
            };
        }
        if !command.is_empty() {
            found.push((place.start(), command));
        }
    }
    found
}

/// Whether the shell is an argument of another program, as in `["docker", "run", "image", "sh", …]`: then it is started elsewhere. A shell's own name
/// may be there twice.
fn is_argument(source: &str, at: usize) -> bool {
    let before = source[..at].trim_end_matches(['b', 'r', 'u', '&']).trim_end();
    let Some(before) = before.strip_suffix(',') else { return false };
    let before = before.trim_end();
    let Some(quote) = before.chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`')) else {
        return false;
    };
    let inner = &before[..before.len() - 1];
    let word = &inner[inner.rfind(quote).map_or(0, |from| from + 1)..];
    !word.ends_with("sh")
}

/// Whether a place is in a comment, by the beginning of its line.
fn in_comment(source: &str, at: usize) -> bool {
    let line = &source[source[..at].rfind('\n').map_or(0, |from| from + 1)..at];
    let code = line.trim_start();
    code.starts_with("//") || code.starts_with('#') || code.starts_with('*') || line.contains("// ")
}

/// Texts of templates tagged `$`, with their places; what is put in and not known is a hole.
fn tagged(source: &str) -> Vec<(usize, String)> {
    let (Some(tagged), Some(put_in)) = (&*TAGGED, &*PUT_IN) else { return Vec::new() };
    if !source.contains('`') {
        return Vec::new();
    }
    let all = tagged.captures_iter(source).filter_map(|one| one.get(1));
    let all = all.filter(|text| !in_comment(source, text.start()));
    all.map(|text| {
        let command = put_in.replace_all(text.as_str(), |put: &regex::Captures<'_>| {
            match put.get(1).or_else(|| put.get(2)) {
                Some(known) => format!("'{}'", known.as_str().replace('\'', "'\\''")),
                None => HOLE.to_string(),
            }
        });
        (text.start(), command.into_owned())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_sound() {
        assert!(
            LISTED.is_some()
                && TEXT.is_some()
                && GIVEN.is_some()
                && BARE.is_some()
                && TAGGED.is_some()
                && PUT_IN.is_some()
        );
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
            let found = listed(source);
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
    fn tagged_templates_are_found() {
        let hole = format!("ls {HOLE} x");
        for (source, want) in [
            ("await $`id | sh`;", Some("id | sh")),
            ("$.sync`id`", Some("id")),
            ("$({ shell: true })`id`", Some("id")),
            ("$`ls ${folder} x`", Some(hole.as_str())),
            ("$`sh -c ${'a | sh'}`", Some("sh -c 'a | sh'")),
            ("await Bun.$`id`", Some("id")),
            ("html`<b>`; a$`x`", None),
            ("`$`; `id`", None),
            ("// $`id`", None),
        ] {
            assert_eq!(tagged(source).first().map(|(_, text)| &**text), want, "{source}");
        }
    }
}
