//! Variables that make a program load or execute something.

use super::place::{Files, Node};
use super::{As, Item, Word, place, table, tools};
use crate::language::Language;

/// Kinds of variables, by how programs use their values.
enum Load {
    /// A shell text.
    Text,
    /// Files, separated by these characters, executed as this.
    Files(As, &'static [char]),
    /// Folders that modules are loaded from; those of the project are scanned with it.
    Folders,
    /// Options of an interpreter, as on its command line.
    Options(&'static str),
    /// A git folder.
    Repository,
    /// Code in a language that the guard does not read.
    Unread(&'static str),
}

const SHELL: As = table::SHELL;
const PYTHON: As = As::Read(Language::Python);

fn load(name: &str) -> Option<Load> {
    Some(match name {
        "BASH_ENV" | "ENV" | "ZDOTDIR" | "GIT_ASKPASS" | "SSH_ASKPASS" | "SUDO_ASKPASS" => {
            Load::Files(SHELL, &['\0'])
        }
        "PROMPT_COMMAND"
        | "PS0"
        | "PS1"
        | "PS2"
        | "PS4"
        | "PAGER"
        | "EDITOR"
        | "VISUAL"
        | "BROWSER"
        | "MANPAGER"
        | "LESSOPEN"
        | "LESSCLOSE"
        | "FCEDIT"
        | "SUDO_EDITOR"
        | "GIT_SSH_COMMAND"
        | "GIT_SSH"
        | "GIT_EXTERNAL_DIFF"
        | "GIT_PAGER"
        | "GIT_EDITOR"
        | "GIT_SEQUENCE_EDITOR"
        | "GIT_PROXY_COMMAND"
        | "RSYNC_RSH"
        | "CVS_RSH"
        | "TAR_OPTIONS_COMMAND"
        | "RUSTC_WRAPPER"
        | "RUSTC_WORKSPACE_WRAPPER"
        | "RUSTC"
        | "RUSTDOC"
        | "CC"
        | "CXX"
        | "LD"
        | "AR"
        | "npm_config_script_shell"
        | "npm_config_shell"
        | "MAKE"
        | "PYTHONBREAKPOINT_COMMAND"
        | "VIMINIT"
        | "EXINIT"
        | "LESSEDIT"
        | "XZ_OPT_COMMAND" => match name {
            "VIMINIT" | "EXINIT" => Load::Unread("vim script"),
            _ => Load::Text,
        },
        "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" | "GIT_CONFIG" => Load::Files(As::GitSettings, &['\0']),
        "GIT_CONFIG_PARAMETERS" => Load::Unread("git settings"),
        "GIT_DIR" | "GIT_COMMON_DIR" => Load::Repository,
        "TAR_OPTIONS" => Load::Options("tar"),
        "MAKEFLAGS" | "GNUMAKEFLAGS" | "MFLAGS" => Load::Options("make"),
        "MAKEFILES" => Load::Files(As::Makefile, &[' ']),
        "NODE_OPTIONS" => Load::Options("node"),
        "RUBYOPT" => Load::Options("ruby"),
        "PERL5OPT" => Load::Unread("perl"),
        "PERL5DB" => Load::Unread("perl"),
        "LUA_INIT" => Load::Unread("lua"),
        "R_PROFILE" | "R_PROFILE_USER" => Load::Files(As::Unread("r"), &['\0']),
        "PYTHONSTARTUP" => Load::Files(PYTHON, &['\0']),
        "LD_PRELOAD" | "LD_AUDIT" | "GCONV_PATH" => Load::Files(As::Own, &[' ', ':']),
        "JAVA_TOOL_OPTIONS" | "_JAVA_OPTIONS" | "JDK_JAVA_OPTIONS" => Load::Options("java"),
        "CLASSPATH" => Load::Files(As::Own, &[':']),
        "PYTHONPATH" | "PYTHONHOME" | "PYTHONUSERBASE" | "PERL5LIB" | "RUBYLIB" | "NODE_PATH"
        | "LUA_PATH" | "LUA_CPATH" | "LD_LIBRARY_PATH" | "GIT_EXEC_PATH" | "GIT_TEMPLATE_DIR" | "PATH"
        | "PHP_INI_SCAN_DIR" | "PHPRC" | "TCLLIBPATH" | "R_LIBS" | "R_LIBS_USER" => Load::Folders,
        _ if name.starts_with("BASH_FUNC_") => Load::Text,
        _ if name.starts_with("GIT_CONFIG_VALUE_") => Load::Text,
        _ if name.starts_with("CARGO_TARGET_")
            && (name.ends_with("_RUNNER") || name.ends_with("_LINKER")) =>
        {
            Load::Text
        }
        _ => return None,
    })
}

/// Texts and files that a variable makes programs execute.
pub(super) fn loads(name: &str, value: &str, files: &dyn Files) -> Vec<Item> {
    let mut out = Vec::new();
    let text = |text: &str| Item::Text {
        part: format!("env {name} ({})", SHELL.name()),
        text: text.to_owned(),
        language: SHELL,
    };
    if value.trim().is_empty() {
        return out;
    }
    match load(name) {
        None | Some(Load::Folders) => {}
        Some(Load::Repository) => {
            let hooks = super::git::HOOKS.iter().map(|hook| (format!("{value}/hooks/{hook}"), As::Own));
            for (path, language) in hooks.chain([(format!("{value}/config"), As::GitSettings)]) {
                if let place::At::Inside(path, Node::File) = place::resolve(files, &path) {
                    out.push(Item::File { path, language });
                }
            }
        }
        Some(Load::Unread(language)) => out.push(Item::Text {
            part: format!("env {name} ({language})"),
            text: value.to_owned(),
            language: As::Unread(language),
        }),
        Some(Load::Text) => {
            // `BASH_FUNC_x%%=() { …; }` is a function body.
            let body = value.strip_prefix("()").map(|body| format!("f () {body}"));
            out.push(text(body.as_deref().unwrap_or(value)));
        }
        Some(Load::Files(language, between)) => {
            // The shell expands the values of BASH_ENV and ENV.
            if language == SHELL && value.contains(['$', '`']) {
                out.push(text(&format!("\"{value}\"")));
            }
            for path in value.split(between).filter(|path| !path.is_empty()) {
                if let place::At::Inside(path, Node::File) = place::resolve(files, path) {
                    out.push(Item::File { path, language });
                } else if place::is_stdin(path) {
                    out.push(Item::Stdin { language });
                }
            }
        }
        Some(Load::Options(program)) => {
            let mut words = vec![program.to_owned()];
            words.extend(tools::split(value));
            let words: Vec<Word<'_>> = words.iter().map(|word| Word { at: 0, text: Some(word) }).collect();
            for piece in super::pieces(&words) {
                match piece {
                    super::Piece::Text(language, _, text) => out.push(Item::Text {
                        part: format!("env {name} ({})", language.name()),
                        text,
                        language,
                    }),
                    super::Piece::File(language, _, path) => {
                        if let place::At::Inside(path, Node::File) = place::resolve(files, &path) {
                            out.push(Item::File { path, language });
                        }
                    }
                    _ => {}
                }
            }
            // A module or an agent in an interpreter's own option syntax.
            for word in tools::split(value) {
                let path = word.split_once([':', '=']).map_or(word.as_str(), |(_, path)| path);
                if word.starts_with("-javaagent") || word.starts_with("-agentpath") {
                    if let place::At::Inside(path, Node::File) = place::resolve(files, path) {
                        out.push(Item::File { path, language: As::Own });
                    }
                } else if word.starts_with("data:") || path.starts_with("data:") {
                    out.push(Item::Unknown {
                        part: format!("env {name}"),
                        why: "a program in an address is not read".to_owned(),
                    });
                }
            }
        }
    }
    out
}
