//! Files whose fields a tool executes: settings of editors and agents, units and menu entries of a system,
//! build descriptions, lists of dependencies.
//!
//! A table assigns each file name its form. A form's reader finds the commands, which are read as shell, and
//! the places that dependencies come from. The file is also read as it would be without this.

mod build;
mod dependencies;
mod ini;
mod json;
mod markup;
mod ninja;
mod recipes;
mod tasks;
mod yaml;

use super::manifest::place;
use crate::context::Cx;
use crate::language::Language;
use crate::report::PartState;
use crate::rules::basename;

pub(super) use dependencies::{in_npmrc, in_package};
pub(super) use tasks::read as read_toml;
pub(super) use yaml::read as read_yaml;

/// Maximum nesting of a value that is searched for commands.
const MAX_DEPTH: usize = 64;
/// Maximum number of commands of a file of each kind: more than a scan reads as code inside code.
const MAX_COMMANDS: usize = 600;
/// Maximum size of a call or an element with a command, in bytes.
const MAX_PIECE: usize = 16 << 10;

/// Text from an offset on, as far as a call or an element may reach.
fn piece(text: &str, from: usize) -> &str {
    let rest = &text[from..];
    &rest[..rest.floor_char_boundary(MAX_PIECE)]
}

/// Marks the file as not read when a call or an element does not end within such a piece.
fn bounded<'t>(cx: &mut Cx<'_>, whole: &'t str) -> &'t str {
    if whole.len() + 4 >= MAX_PIECE {
        cx.not_read("a command longer than is read");
    }
    whole
}

/// Form of a file whose fields are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// JSON with comments; the tool names which fields are commands.
    Json(json::Tool),
    Ini(ini::Tool),
    Gyp,
    Meson,
    MsBuild,
    Ant,
    Maven,
    Bazelrc,
    Requirements,
    Terraform,
    Just,
    Procfile,
    CloudInit,
    Cron,
    /// Settings of an editor of JetBrains.
    Idea,
    Ninja,
    /// A picture or a page.
    Page,
}

impl Form {
    /// Texts that each command begins with, in forms that are searched for them.
    fn marks(self) -> &'static [&'static str] {
        match self {
            Form::Gyp => &["!(", "!@(", "action"],
            Form::Meson => &["run_command", "_script", "command"],
            Form::MsBuild => &["<Exec", "<Command>", "Event>"],
            Form::Ant => &["<exec"],
            Form::Maven => &["<exec", "<executable>"],
            Form::Bazelrc => &["_command", "--run_under", "--test_wrapper", "--credential_helper"],
            Form::Terraform => &["\"local-exec\"", "\"external\""],
            _ => &[],
        }
    }
}

/// Complete names of files, in lower case; a name with `/` is the end of a path.
const NAMES: &[(&str, Form)] = &[
    (".vscode/tasks.json", Form::Json(json::Tool::Commands)),
    (".vscode/mcp.json", Form::Json(json::Tool::Commands)),
    (".vscode/launch.json", Form::Json(json::Tool::Commands)),
    (".vscode/settings.json", Form::Json(json::Tool::Editor)),
    (".zed/tasks.json", Form::Json(json::Tool::Commands)),
    (".zed/settings.json", Form::Json(json::Tool::Commands)),
    (".claude/settings.json", Form::Json(json::Tool::Commands)),
    (".claude/settings.local.json", Form::Json(json::Tool::Commands)),
    (".claude.json", Form::Json(json::Tool::Commands)),
    (".claude-plugin/plugin.json", Form::Json(json::Tool::Commands)),
    ("hooks/hooks.json", Form::Json(json::Tool::Commands)),
    (".cursor/hooks.json", Form::Json(json::Tool::Commands)),
    (".cursor/mcp.json", Form::Json(json::Tool::Commands)),
    (".gemini/settings.json", Form::Json(json::Tool::Commands)),
    (".qwen/settings.json", Form::Json(json::Tool::Commands)),
    ("gemini-extension.json", Form::Json(json::Tool::Commands)),
    ("opencode.json", Form::Json(json::Tool::Commands)),
    ("opencode.jsonc", Form::Json(json::Tool::Commands)),
    ("crush.json", Form::Json(json::Tool::Commands)),
    (".crush.json", Form::Json(json::Tool::Commands)),
    (".mcp.json", Form::Json(json::Tool::Commands)),
    ("mcp.json", Form::Json(json::Tool::Commands)),
    ("mcp_config.json", Form::Json(json::Tool::Commands)),
    ("mcp-config.json", Form::Json(json::Tool::Commands)),
    ("mcp_settings.json", Form::Json(json::Tool::Commands)),
    ("mcp-servers.json", Form::Json(json::Tool::Commands)),
    ("claude_desktop_config.json", Form::Json(json::Tool::Commands)),
    ("devcontainer.json", Form::Json(json::Tool::Container)),
    (".devcontainer.json", Form::Json(json::Tool::Container)),
    ("composer.json", Form::Json(json::Tool::Scripts)),
    ("deno.json", Form::Json(json::Tool::Scripts)),
    ("deno.jsonc", Form::Json(json::Tool::Scripts)),
    ("vercel.json", Form::Json(json::Tool::Builds)),
    ("railway.json", Form::Json(json::Tool::Builds)),
    ("firebase.json", Form::Json(json::Tool::Builds)),
    ("tauri.conf.json", Form::Json(json::Tool::Builds)),
    ("nodemon.json", Form::Json(json::Tool::Builds)),
    ("meson.build", Form::Meson),
    (".bazelrc", Form::Bazelrc),
    ("setup.cfg", Form::Ini(ini::Tool::Setup)),
    ("tox.ini", Form::Ini(ini::Tool::Tox)),
    ("autorun.inf", Form::Ini(ini::Tool::Autorun)),
    ("pip.conf", Form::Ini(ini::Tool::Pip)),
    ("pip.ini", Form::Ini(ini::Tool::Pip)),
    ("justfile", Form::Just),
    (".justfile", Form::Just),
    ("procfile", Form::Procfile),
    ("pom.xml", Form::Maven),
    ("build.xml", Form::Ant),
    ("requirements.txt", Form::Requirements),
    ("constraints.txt", Form::Requirements),
    ("user-data", Form::CloudInit),
    ("crontab", Form::Cron),
    ("pylintrc", Form::Ini(ini::Tool::Pylint)),
    (".pylintrc", Form::Ini(ini::Tool::Pylint)),
];

/// Extensions.
const ENDINGS: &[(&str, Form)] = &[
    ("code-workspace", Form::Json(json::Tool::Commands)),
    ("gyp", Form::Gyp),
    ("gypi", Form::Gyp),
    ("csproj", Form::MsBuild),
    ("vbproj", Form::MsBuild),
    ("fsproj", Form::MsBuild),
    ("vcxproj", Form::MsBuild),
    ("proj", Form::MsBuild),
    ("targets", Form::MsBuild),
    ("props", Form::MsBuild),
    ("desktop", Form::Ini(ini::Tool::Desktop)),
    ("service", Form::Ini(ini::Tool::Unit)),
    ("socket", Form::Ini(ini::Tool::Unit)),
    ("mount", Form::Ini(ini::Tool::Unit)),
    ("swap", Form::Ini(ini::Tool::Unit)),
    ("tf", Form::Terraform),
    ("just", Form::Just),
    ("ninja", Form::Ninja),
    ("svg", Form::Page),
    ("html", Form::Page),
    ("htm", Form::Page),
    ("xhtml", Form::Page),
];

/// Form of a file of this name, if a tool executes its fields.
fn by_name(name: &str) -> Option<Form> {
    let lower = name.to_ascii_lowercase().replace('\\', "/");
    let base = basename(&lower);
    let is = |wanted: &str| {
        wanted == base
            || wanted.contains('/')
                && lower.strip_suffix(wanted).is_some_and(|above| above.is_empty() || above.ends_with('/'))
    };
    if let Some((_, form)) = NAMES.iter().find(|(wanted, _)| is(wanted)) {
        return Some(*form);
    }
    let (stem, ending) = base.rsplit_once('.').unwrap_or((base, ""));
    if ending == "txt"
        && (stem.starts_with("requirements")
            || stem.ends_with("requirements")
            || lower.contains("requirements/"))
    {
        return Some(Form::Requirements);
    }
    let above = lower.strip_suffix(base).unwrap_or("");
    if ending == "xml" && (above.starts_with(".idea/") || above.contains("/.idea/"))
        || base.ends_with(".run.xml")
    {
        return Some(Form::Idea);
    }
    if above.ends_with("cron.d/") {
        return Some(Form::Cron);
    }
    if base.ends_with(".mcp.json") {
        return Some(Form::Json(json::Tool::Commands));
    }
    ENDINGS.iter().find(|(wanted, _)| *wanted == ending).map(|(_, form)| *form)
}

/// True when a tool executes fields of a file of this name. Pictures and pages do not count: their scripts
/// can do nothing to the machine.
pub(super) fn is_named(name: &str) -> bool {
    by_name(name).is_some_and(|form| form != Form::Page)
}

/// Reads the executed fields of a file; of any other file nothing.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, text: &str) {
    let Some(form) = by_name(name) else { return };
    if form == Form::Page && !markup::is_active(text) {
        return;
    }
    let (label, install) = match form {
        Form::Json(_) => ("json settings", false),
        Form::Ini(tool) => (tool.label(), false),
        Form::Gyp => ("gyp", true),
        Form::Meson => ("meson", true),
        Form::MsBuild => ("msbuild", true),
        Form::Ant => ("ant", false),
        Form::Maven => ("maven", false),
        Form::Bazelrc => ("bazelrc", false),
        Form::Requirements => ("requirements", false),
        Form::Terraform => ("terraform", false),
        Form::Just => ("justfile", false),
        Form::Procfile => ("procfile", false),
        Form::CloudInit => ("cloud-init", false),
        Form::Cron => ("crontab", false),
        Form::Idea => ("editor settings", false),
        Form::Ninja => ("ninja", false),
        Form::Page => ("page", false),
    };
    cx.read_as(name, label, text, install, |cx| {
        if form.marks().iter().any(|mark| text.matches(mark).count() > MAX_COMMANDS) {
            cx.not_read("more commands in a file than are read");
        }
        match form {
            Form::Json(tool) => return json::read(cx, text, tool),
            Form::Ini(tool) => ini::read(cx, text, tool),
            Form::Gyp => build::gyp(cx, text),
            Form::Meson => build::meson(cx, text),
            Form::MsBuild => markup::msbuild(cx, text),
            Form::Ant => markup::ant(cx, text),
            Form::Maven => markup::maven(cx, text),
            Form::Bazelrc => build::bazelrc(cx, text),
            Form::Requirements => dependencies::requirements(cx, text),
            Form::Terraform => build::terraform(cx, text),
            Form::Just => recipes::just(cx, text),
            Form::Procfile => recipes::procfile(cx, text),
            Form::CloudInit => yaml::cloud_init(cx, text),
            Form::Cron => recipes::cron(cx, text),
            Form::Idea => markup::idea(cx, text),
            Form::Ninja => return ninja::read(cx, text),
            Form::Page => return markup::page(cx, text),
        }
        PartState::Parsed
    });
}

/// Reads a command line of the shell; `near` is text of the file close to it.
fn command(cx: &mut Cx<'_>, text: &str, line: &str, near: &str) {
    let mut at = place(text, line);
    if at == (0, 1) {
        at = place(text, near);
    }
    cx.child(Language::Bash, line, at, &["recipe"]);
}

/// Reads a command line that is a list of words.
fn words(cx: &mut Cx<'_>, text: &str, words: &[String], near: &str) {
    command(cx, text, &quoted(words), near);
}

/// Words as a line of a shell script.
fn quoted(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b))
    };
    let quote = |word: &String| {
        if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Replaces expressions such as `{{ x }}` or `${{ x }}` by an unknown word.
fn without_expressions(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        out.push_str(before);
        out.push_str("${VALUE}");
        rest = after.split_once(close).map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    out
}

/// Texts in quotes, in order, up to the first name with a colon behind it outside of them. Backslashes
/// escape the next character.
fn literals(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let mut word = String::new();
                while let Some(inner) = chars.next() {
                    match inner {
                        '\\' => word.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
                        inner if inner == c => break,
                        inner => word.push(inner),
                    }
                }
                // `'''…'''` is an empty text, a text, and an empty text.
                if !word.is_empty() {
                    out.push(word);
                }
            }
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            ':' => break,
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_name() {
        for (name, want) in [
            ("a/.vscode/tasks.json", true),
            ("tasks.json", false),
            ("x.vscode/tasks.json", false),
            (".mcp.json", true),
            ("a/b.csproj", true),
            ("x.service", true),
            ("requirements-dev.txt", true),
            ("requirements/test.txt", true),
            ("notes.txt", false),
            ("a.json", false),
            ("a.svg", false),
        ] {
            assert_eq!(is_named(name), want, "{name}");
        }
    }

    #[test]
    fn texts_in_quotes() {
        assert_eq!(literals("'a', \"b c\", check: 'd'"), ["a", "b c"]);
        assert_eq!(literals("'''a'''"), ["a"]);
        assert_eq!(literals("'it\\'s' # 'x'\n'y'"), ["it's", "y"]);
        assert_eq!(quoted(&["a".to_owned(), "b 'c'".to_owned()]), "a 'b '\\''c'\\'''");
    }
}
