//! Conditions of a rule, compiled, and the classes that values belong to.

use super::matching::Call;
use super::path::{basename, is_home_whole, is_root_like, is_temporary};
use super::pattern::Pattern;
use super::schema::When;
use crate::value::{Const, HOLE, Origin, Value};
use regex::Regex;
use std::sync::LazyLock;

/// A condition, ready to be asked.
#[derive(Debug)]
pub(super) struct Condition {
    arg: Vec<Selector>,
    is: Vec<Class>,
    not: Vec<Class>,
    matches: Option<Pattern>,
    origin: Origin,
    absent: bool,
    flag: Vec<String>,
    context: u32,
}

#[derive(Debug)]
enum Selector {
    Position(usize),
    Any,
    Operand,
    Receiver,
    Keyword(String),
}

type Class = fn(&Value) -> bool;

impl Condition {
    /// Checked and looked up; a pattern that is `proven` is compiled with its first use.
    pub(super) fn of(when: &When, proven: bool) -> Result<Condition, String> {
        let class = |name: &String| class(name).ok_or_else(|| format!("unknown class {name}"));
        let mut origin = Origin::default();
        for name in &when.origin {
            origin |= Origin::named(name).ok_or_else(|| format!("unknown origin {name}"))?;
        }
        let mut context = 0;
        for name in &when.context {
            context |= context_bit(name).ok_or_else(|| format!("unknown context {name}"))?;
        }
        Ok(Condition {
            arg: when
                .arg
                .as_deref()
                .unwrap_or("")
                .split('|')
                .filter(|s| !s.is_empty())
                .map(selector)
                .collect(),
            is: when.is.iter().map(class).collect::<Result<_, _>>()?,
            not: when.not.iter().map(class).collect::<Result<_, _>>()?,
            matches: when.matches.clone().map(|text| Pattern::of(text, proven)).transpose()?,
            origin,
            absent: when.absent,
            flag: when.flag.clone(),
            context,
        })
    }

    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        self.matches.as_ref().is_none_or(Pattern::is_sound)
    }

    pub(super) fn holds(&self, call: &Call<'_>) -> bool {
        if self.context != 0 && call.context & self.context == 0 {
            return false;
        }
        if !self.flag.is_empty() && !self.flag.iter().any(|flag| has_flag(call.args, flag)) {
            return false;
        }
        if self.arg.is_empty() {
            return true;
        }
        let mut given = false;
        for selector in &self.arg {
            let mut check = |value: &Value| {
                given = true;
                self.value_holds(value)
            };
            let found = match selector {
                Selector::Position(at) => call.args.get(*at).is_some_and(&mut check),
                Selector::Keyword(name) => {
                    call.kwargs.iter().filter(|(key, _)| **key == **name).any(|(_, value)| check(value))
                }
                Selector::Receiver => call.receiver.is_some_and(&mut check),
                Selector::Any => {
                    let named =
                        call.kwargs.iter().filter(|(key, _)| &**key != "command_name").map(|(_, v)| v);
                    call.args.iter().chain(named).any(&mut check)
                }
                Selector::Operand => call
                    .args
                    .iter()
                    .filter(|v| v.as_text().is_none_or(|t| !t.starts_with('-') || t == "-"))
                    .any(&mut check),
            };
            if found && !self.absent {
                return true;
            }
        }
        self.absent && !given
    }

    fn value_holds(&self, value: &Value) -> bool {
        self.absent
            || (self.is.is_empty() || self.is.iter().any(|class| class(value)))
                && !self.not.iter().any(|class| class(value))
                && (self.origin == Origin::default() || value.origin.has(self.origin))
                && self.matches.as_ref().is_none_or(|regex| texts(value).any(|text| regex.is_match(text)))
    }
}

/// The texts in a value: itself, or the elements of a list one level deep.
fn texts(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match &value.known {
        Some(Const::List(items)) => Box::new(items.iter().take(64).filter_map(Value::as_text)),
        Some(Const::Map(pairs)) => {
            Box::new(pairs.iter().take(64).flat_map(|(k, v)| [k.as_text(), v.as_text()]).flatten())
        }
        _ => Box::new(value.as_text().into_iter()),
    }
}

fn selector(name: &str) -> Selector {
    match name {
        "any" => Selector::Any,
        "operand" => Selector::Operand,
        "receiver" => Selector::Receiver,
        _ => name.parse().map_or_else(|_| Selector::Keyword(name.to_owned()), Selector::Position),
    }
}

/// Whether a command line has an option: one letter is looked for in clusters (`-rf`), more as `--recursive` or `-name`.
fn has_flag(args: &[Value], flag: &str) -> bool {
    args.iter().filter_map(Value::as_text).take_while(|text| *text != "--").any(|text| {
        if let Some(long) = text.strip_prefix("--") {
            flag.len() > 1 && (long == flag || long.split('=').next() == Some(flag))
        } else if let Some(short) = text.strip_prefix('-') {
            if flag.len() == 1 {
                short.contains(flag) && short.chars().all(|c| c.is_ascii_alphanumeric())
            } else {
                short == flag
            }
        } else {
            false
        }
    })
}

/// Where a call stands, as bits.
pub(super) fn context_bit(name: &str) -> Option<u32> {
    use super::matching::Spot;
    Some(match name {
        "loop" => Spot::LOOP,
        "endless" => Spot::ENDLESS,
        "walk" => Spot::WALK,
        "top" => Spot::TOP,
        "obfuscated" => Spot::OBFUSCATED,
        "install" => Spot::INSTALL,
        "busy" => Spot::BUSY,
        "serves" => Spot::SERVES,
        _ => return None,
    })
}

static SECRET: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(^|[/\\~])(\.ssh[/\\](id_|.*_rsa|.*_key|identity|\*)|\.ssh[/\\]?$|\.aws[/\\]credentials|\.gnupg|\.kube[/\\]config|\.docker[/\\]config\.json",
        r"|\.git-credentials|\.netrc$|\.pgpass|\.npmrc$|\.pypirc$|\.bash_history|\.zsh_history|\.config[/\\]gcloud|\.azure[/\\]",
        r"|etc[/\\]shadow|etc[/\\]gshadow|etc[/\\]sudoers|\.mozilla[/\\]firefox|logins\.json|key[34]\.db|cookies\.sqlite|login data|local state$",
        r"|user data[/\\]|wallet\.dat|\.electrum|\.bitcoin|\.ethereum|exodus[/\\]|leveldb|keychains?[/\\]|proc[/\\](self|\d+|\x{fffc})[/\\](environ|mem)",
        r"|var[/\\]run[/\\]secrets|serviceaccount[/\\]token|\.config[/\\]gh[/\\]hosts|\.terraform\.d[/\\]credentials|\.password-store",
        r"|windows[/\\]system32[/\\]config[/\\]sam)"
    ))
    .ok()
});

static PERSIST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(\.bashrc|\.zshrc|\.bash_profile|\.profile|\.bash_login|\.zprofile|etc/profile(\.d/|$)|\.bash_logout|config\.fish)$",
        r"|etc/(cron|rc\.local|init\.d|systemd/system|ld\.so\.preload|sudoers|pam\.d|profile\.d|environment$|passwd$|shadow$|hosts$)",
        r"|\.config/(systemd/user|autostart)|launch(agents|daemons)/|start menu.programs.startup|\.ssh[/\\]authorized_keys|var/spool/cron",
        r"|(sitecustomize|usercustomize)\.py$|\.pth$|\.git/hooks/|currentversion\\run|lib/systemd/system|\.vscode/tasks\.json|\.xinitrc|\.xprofile"
    ))
    .ok()
});

fn text_is(value: &Value, test: impl Fn(&str) -> bool) -> bool {
    texts(value).any(test)
}

fn matches(regex: &LazyLock<Option<Regex>>, value: &Value) -> bool {
    text_is(value, |text| text.len() < 4096 && regex.as_ref().is_some_and(|r| r.is_match(text)))
}

/// A command line that only prints, lists or clears, without anything that a shell would expand.
fn harmless(text: &str) -> bool {
    const WORDS: [&str; 34] = [
        "clear", "cls", "echo", "ls", "dir", "pwd", "date", "git", "title", "color", "pause", "true",
        "false", "stty", "tput", "uname", "make", "cargo", "npm", "pip", "pytest", "python", "python3",
        "node", "cd", "mkdir", "cat", "ffmpeg", "gcc", "clang", "go", "rustc", "start", "ver",
    ];
    if text.contains([';', '|', '`', '$', '<', '>', HOLE, '\n']) || text.replace("&&", "").contains('&') {
        return false;
    }
    text.split("&&").all(|command| {
        // What another command interpreter is only handed.
        let command =
            ["cmd /c ", "command /c "].iter().find_map(|by| command.strip_prefix(by)).unwrap_or(command);
        let first = command.split_whitespace().next().unwrap_or("");
        // `mode con`, `TITLE x`: console dressing is written in any case.
        let known = WORDS.contains(&first.to_ascii_lowercase().as_str());
        let interpreter = matches!(first, "python" | "python3" | "node");
        known && !(interpreter && command.contains(" -"))
    })
}

fn class(name: &str) -> Option<Class> {
    Some(match name {
        "constant" => |v| v.known.is_some() && v.as_text().is_none_or(|t| !t.contains(HOLE)),
        "dynamic" => |v| v.known.is_none() || v.as_text().is_some_and(|t| t.contains(HOLE)),
        "unknown" => |v| v.known.is_none() && v.names.is_empty(),
        "computed" => |v| v.origin.has(Origin::COMPUTED),
        "true" => |v| v.truth() == Some(true),
        "maybe_true" => |v| v.truth() != Some(false),
        "text" => |v| v.as_text().is_some(),
        "list" => |v| matches!(v.known, Some(Const::List(_))),
        "root_path" => |v| {
            text_is(v, is_root_like)
                || (v.origin.has(Origin::HOME) && v.as_text().is_none_or(is_home_whole))
                || v.origin.has(Origin::WIDE)
        },
        "temporary" => |v| v.origin.has(Origin::TEMP) || text_is(v, is_temporary),
        "absolute" => |v| {
            !v.origin.has(Origin::TEMP)
                && text_is(v, |t| {
                    (t.starts_with('/') || t.starts_with("C:\\") || t.starts_with('~')) && !is_temporary(t)
                })
        },
        "system" => |v| {
            text_is(v, |t| {
                [
                    "/etc/",
                    "/usr/",
                    "/bin/",
                    "/boot",
                    "/lib",
                    "/sbin",
                    "/var/log",
                    "/sys/",
                    "/proc/sys",
                    "C:\\Windows",
                    "/root/",
                ]
                .iter()
                .any(|start| t.starts_with(start))
            })
        },
        // The standard files of package uploads and of netrc are read by ordinary clients; they count once they are sent.
        "secret" => |v| {
            matches(&SECRET, v)
                && !text_is(v, |t| t.ends_with(".netrc") || t.ends_with(".pypirc") || t.ends_with(".npmrc"))
        },
        "persist" => |v| matches(&PERSIST, v),
        "device" => |v| text_is(v, is_device),
        // A text whose unknown pieces are names or inside quotes, not statements.
        "template" => |v| {
            v.as_text().is_some_and(|t| {
                t.contains(HOLE)
                    && t.match_indices(HOLE).all(|(at, _)| {
                        ["def ", "class ", ".", "'", "\""].iter().any(|before| t[..at].ends_with(before))
                    })
            })
        },
        "module_dict" => |v| v.names.iter().any(|n| n.ends_with(".__dict__")),
        "negative" => |v| v.as_int().is_some_and(|n| n < 0),
        "unsafe_loader" => |v| {
            v.names.iter().any(|n| {
                matches!(
                    &**n,
                    "yaml.Loader" | "yaml.UnsafeLoader" | "yaml.FullLoader" | "yaml.loader.UnsafeLoader"
                )
            })
        },
        "setuid_word" => |v| text_is(v, |t| is_setuid_mode(t) || t.starts_with("cap_")),
        "from_shell_or_net" => |v| {
            v.names
                .iter()
                .any(|n| is_shell(n) || matches!(&**n, "nc" | "ncat" | "netcat" | "telnet" | "openssl"))
        },
        "from_host" => |v| {
            v.origin.has(Origin::SECRET)
                || v.names.iter().any(|n| {
                    matches!(
                        &**n,
                        "env"
                            | "printenv"
                            | "whoami"
                            | "id"
                            | "hostname"
                            | "uname"
                            | "ifconfig"
                            | "ip"
                            | "tar"
                            | "history"
                            | "ps"
                            | "set"
                    )
                })
        },
        // What well-known programs print for `eval`, or a text that is not put together at all.
        "known_eval" => |v| {
            v.names.iter().any(|n| {
                matches!(
                    &**n,
                    "ssh-agent"
                        | "dircolors"
                        | "brew"
                        | "direnv"
                        | "pyenv"
                        | "starship"
                        | "conda"
                        | "rbenv"
                        | "opam"
                        | "resize"
                        | "minikube"
                        | "keychain"
                        | "lesspipe"
                        | "zoxide"
                        | "register-python-argcomplete"
                )
            }) || !v.origin.has(Origin::COMPUTED) && v.as_text().is_some_and(|t| !t.contains(HOLE))
        },
        "huge" => |v| v.as_int().is_some_and(|n| n >= 1 << 31),
        "harmless" => |v| v.as_text().is_some_and(harmless),
        "executable" => |v| v.as_int().is_some_and(|n| n & 0o111 != 0),
        "setuid" => {
            |v| v.as_int().is_some_and(|n| n & 0o6000 != 0 && n <= 0o7777) || text_is(v, is_setuid_mode)
        }
        "world" => |v| v.as_int().is_some_and(|n| n & 0o777 == 0o777),
        "public" => |v| text_is(v, |t| matches!(t, "" | "0.0.0.0" | "::")),
        "shell_name" => |v| text_is(v, is_shell),
        "url" => |v| text_is(v, |t| t.contains("://")),
        "address" => |v| text_is(v, is_address),
        "executable_name" => |v| {
            text_is(v, |t| {
                let base = basename(t).to_ascii_lowercase();
                [".exe", ".dll", ".scr", ".bat", ".ps1", ".vbs", ".elf", ".cmd", ".hta"]
                    .iter()
                    .any(|end| base.ends_with(end))
            })
        },
        _ => return None,
    })
}

fn is_device(text: &str) -> bool {
    let Some(name) = text.strip_prefix("/dev/") else {
        return text.to_ascii_lowercase().starts_with(r"\\.\physicaldrive") || text.starts_with(r"\\.\C:");
    };
    ["sd", "hd", "vd", "nvme", "xvd", "mmcblk", "disk", "mapper/", "mem", "kmem", "port", "loop", "md"]
        .iter()
        .any(|d| name.starts_with(d))
}

fn is_setuid_mode(text: &str) -> bool {
    matches!(text, "u+s" | "+s" | "g+s" | "ug+s" | "u+xs" | "a+s")
        || text.len() >= 4 && text.len() <= 5 && text.chars().all(|c| c.is_digit(8)) && {
            let bits = i64::from_str_radix(text, 8).unwrap_or(0);
            bits & 0o6000 != 0
        }
}

/// The base name of a shell.
pub(crate) fn is_shell(text: &str) -> bool {
    matches!(
        basename(text).trim_end_matches(".exe"),
        "sh" | "bash"
            | "zsh"
            | "dash"
            | "ksh"
            | "ash"
            | "fish"
            | "csh"
            | "tcsh"
            | "cmd"
            | "powershell"
            | "pwsh"
            | "busybox"
    )
}

/// A numeric address outside of this machine and of private networks' documentation uses.
fn is_address(text: &str) -> bool {
    let host = text.split("://").last().unwrap_or(text).split(['/', ':']).next().unwrap_or("");
    host.parse::<std::net::Ipv4Addr>().is_ok_and(|a| !a.is_loopback() && !a.is_unspecified())
}

/// Whether a path holds credentials, keys, cookies or wallets.
pub(crate) fn is_secret(path: &str) -> bool {
    path.len() < 4096 && SECRET.as_ref().is_some_and(|regex| regex.is_match(path))
}
