//! Classes of values that a rule can name, and their definitions; the words in them are in `words`.

use super::path::{is_home_whole, is_of_an_image, is_root_like, is_temporary, is_whole_system};
use super::program::{is_of_settings, pass_code, reads_options};
use super::when::texts;
use super::words::{
    SECRET, executes, harmless, is_address, is_device, is_disk, is_dump, is_known_installer, is_loopback,
    is_mailbox, is_of_database, is_of_system, is_payee, is_program_file, is_public_address, is_setuid_mode,
    is_shell, is_unsafe_loader, names_backups, prints_environment, prints_for_eval, tells_of_host,
};
use crate::value::{Const, HOLE, Origin, Value};
use regex::Regex;
use std::sync::LazyLock;

/// Tests if a value belongs to a class.
pub(super) type Class = fn(&Value) -> bool;

/// Name of the value of a user whom a program picks by rank.
pub(crate) const ADMINISTRATOR: &str = "<administrator>";
/// Name of the value of a variable that holds a credential.
pub(crate) const TOKEN: &str = "<token>";
/// Name of the value of a variable that holds a credential of a service whose clients are started by scripts: a request may
/// carry it, a file that is sent may not.
pub(crate) const SERVICE_TOKEN: &str = "<token of a service>";

pub(super) fn text_is(value: &Value, test: impl Fn(&str) -> bool) -> bool {
    texts(value).any(test)
}

pub(super) fn matches(regex: &LazyLock<Option<Regex>>, value: &Value) -> bool {
    text_is(value, |text| text.len() < 4096 && regex.as_ref().is_some_and(|r| r.is_match(text)))
}

/// Finds a class by its name in rules.
pub(super) fn class(name: &str) -> Option<Class> {
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
        "whole_system" => |v| {
            text_is(v, is_whole_system)
                || (v.origin.has(Origin::HOME) && v.as_text().is_none_or(is_home_whole))
                || v.origin.has(Origin::WIDE)
        },
        // An evaluator that calls no more than its functions.
        "limited_evaluator" => |v| v.names.iter().any(|name| name.starts_with("simpleeval.")),
        // An instance, a function or a class of the file: its members lead anywhere.
        "own_object" => |v| v.names.iter().any(|name| name.starts_with('@')),
        // A list with an option that takes code, and a part that is not known.
        "code_unknown" => |v| match &v.known {
            Some(Const::List(items)) => {
                let takes_code = |item: &Value| {
                    item.as_text()
                        .is_some_and(|t| matches!(t, "-c" | "-e" | "--eval" | "-p" | "--print" | "-pe"))
                };
                items
                    .windows(2)
                    .any(|pair| takes_code(&pair[0]) && pair[1].known.is_none() && pair[1].names.is_empty())
            }
            _ => false,
        },
        // A query of MongoDB with JavaScript, for the database to execute, that a caller has a part in.
        "database_code" => |v| holds_database_code(v, 0),
        // A user whom the program picks by rank.
        "administrator" => |v| v.names.iter().any(|name| name.starts_with(ADMINISTRATOR)),
        // An address that a currency is paid to.
        "payee" => |v| text_is(v, is_payee),
        // A file in memory, not the path of one.
        "in_memory" => |v| v.names.iter().any(|name| matches!(&**name, "io.BytesIO()" | "io.StringIO()")),
        // Text that a template or a filter of markup made.
        "rendered" => |v| {
            v.names.iter().any(|name| {
                ["render", "escape", "clean", "sanitize", "to_html"].iter().any(|part| name.contains(part))
            })
        },
        // A file, or the path of one, whose text agents obey.
        "obeyed" => |v| {
            text_is(v, super::obeyed::is_obeyed)
                || v.names.iter().filter_map(|n| n.strip_prefix("file:")).any(super::obeyed::is_obeyed)
        },
        // A connection to a database, or a pool of them.
        "database" => {
            |v| v.names.iter().any(|name| is_of_database(name.strip_prefix("new ").unwrap_or(name)))
        }
        // The answer of a server of Go's library, or what writes to it.
        "web_answer" => |v| v.is_named("net/http.ResponseWriter"),
        // A template of Go's library.
        "template_engine" => |v| {
            v.names.iter().any(|name| name.starts_with("text/template") || name.starts_with("html/template"))
        },
        // A function or class of a library other than those that serve files.
        "serves_no_files" => |v| {
            let serves = |name: &str| {
                name.starts_with(['@', '?'])
                    || ["Handler", "Static", "Flask"].iter().any(|part| name.contains(part))
            };
            !v.names.is_empty() && !v.names.iter().any(|name| serves(name))
        },
        "image_path" => |v| text_is(v, is_of_an_image),
        "temporary" => |v| v.origin.has(Origin::TEMP) || text_is(v, is_temporary),
        "absolute" => |v| {
            !v.origin.has(Origin::TEMP)
                && text_is(v, |t| {
                    (t.starts_with('/') || t.starts_with("C:\\") || t.starts_with('~')) && !is_temporary(t)
                })
        },
        "system" => |v| text_is(v, is_of_system),
        // The standard files of package uploads and of netrc are read by ordinary clients; they count once
        // they are sent.
        "secret" => |v| {
            matches(&SECRET, v)
                && !text_is(v, |t| t.ends_with(".netrc") || t.ends_with(".pypirc") || t.ends_with(".npmrc"))
        },
        "persist" => super::persist::is_persist,
        "package_settings" => super::persist::is_of_packages,
        "device" => |v| text_is(v, is_device),
        "backups" => {
            |v| text_is(v, names_backups) && !v.origin.has(Origin::TEMP) && !text_is(v, is_temporary)
        }
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
        // Only values that this program has pickled itself.
        "own_pickle" => |v| {
            let own = |n: &std::rc::Rc<str>| is_dump(n.strip_suffix("()").unwrap_or(n));
            !v.names.is_empty() && v.names.iter().all(own)
        },
        // A memory protection without the execute bit.
        "not_executable" => |v| v.as_int().is_some_and(|n| n & 4 == 0),
        "unsafe_loader" => |v| v.names.iter().any(|n| is_unsafe_loader(n)),
        "setuid_word" => |v| text_is(v, |t| is_setuid_mode(t) || t.starts_with("cap_")),
        "from_shell" => |v| v.names.iter().any(|n| is_shell(n)),
        "from_net_tool" => {
            |v| v.names.iter().any(|n| matches!(&**n, "nc" | "ncat" | "netcat" | "telnet" | "openssl"))
        }
        "known_installer" => |v| {
            let mut from = v.names.iter().filter_map(|n| n.strip_prefix("fetch:")).peekable();
            from.peek().is_some() && from.all(is_known_installer)
        },
        "fetched_by_address" => {
            |v| v.names.iter().filter_map(|n| n.strip_prefix("fetch:")).any(is_public_address)
        }
        // A text of which nothing is known.
        "unknown_text" => |v| v.as_text().is_none_or(|t| t.trim_matches(HOLE).trim().is_empty()),
        // An address without encryption, other than of this machine.
        "plain_http" => |v| {
            text_is(v, |t| {
                t.split_once("http://").is_some_and(|(_, rest)| !is_loopback(&format!("http://{rest}")))
            })
        },
        // A device that holds a file system.
        "disk" => |v| text_is(v, is_disk),
        // A mode that writes: `O_WRONLY` (1), `O_RDWR` (2), `"w"`, `"r+"`.
        "writing" => |v| {
            v.names.iter().any(|n| &**n == "O_WRONLY")
                || v.as_int().is_some_and(|n| matches!(n & 3, 1 | 2))
                || v.as_text().is_some_and(|t| t.len() < 5 && t.contains(['w', 'a', '+']))
        },
        // A function that executes what it is given.
        "executor" => |v| v.names.iter().any(|n| executes(n)),
        // A service of rpyc that gives its clients the whole interpreter.
        "executes_clients" => |v| {
            v.names.iter().any(|n| {
                n.starts_with("rpyc") && (n.ends_with(".SlaveService") || n.ends_with(".ClassicService"))
            })
        },
        // `true` itself; [`Value::truth`] also accepts any non-empty text.
        "yes" => |v| matches!(v.known, Some(Const::Bool(true))),
        "zero" => |v| v.as_int() == Some(0),
        "public_address" => |v| text_is(v, is_public_address),
        // A value that a caller may have passed, at least in one branch.
        "given" => |v| v.origin.has(Origin::PARAM),
        "from_elsewhere" => |v| {
            v.origin.has(Origin::NET | Origin::DECODED | Origin::UNPACKED | Origin::REQUEST | Origin::TEMP)
        },
        "empty" => |v| match &v.known {
            Some(Const::Map(pairs)) => pairs.is_empty(),
            Some(Const::List(items)) => items.is_empty(),
            _ => false,
        },
        "root_bind" => |v| text_is(v, |t| t.starts_with("/:/") || t == "host" || t.contains("docker.sock")),
        // A command line that passes code to its interpreter: `-c`, `-e`.
        "code_list" => |v| text_is(v, |t| matches!(t, "-c" | "-e" | "--eval" | "-Command" | "/c" | "-p")),
        // A terminal program started from a menu.
        "own_tool" => |v| match &v.known {
            Some(Const::List(items)) => items.first().and_then(Value::as_whole_text).is_some_and(|first| {
                matches!(first, "ssh" | "less" | "vim" | "nano" | "tmux" | "man" | "psql" | "htop")
            }),
            _ => false,
        },
        // A known program with arguments, none of which is code.
        "fixed_program" => |v| match &v.known {
            Some(Const::List(items)) => {
                items.first().is_some_and(|first| first.as_whole_text().is_some()) && !pass_code(items)
            }
            _ => false,
        },
        // A program whose options `-c` and `-e` take no code.
        "reads_options" => |v| text_is(v, reads_options),
        // A program that the file or its settings name, with arguments, none of which is code.
        "own_program" => |v| match &v.known {
            Some(Const::List(items)) => items.first().is_some_and(is_of_settings) && !pass_code(items),
            _ => false,
        },
        // `name==` or `--option=` before the unknown part: a value, not a program.
        "net_piece" => |v| {
            v.as_text().and_then(|t| t.split(HOLE).next()).is_some_and(|t| {
                t.ends_with(['=', '@', ':', '/'])
                    && t.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphanumeric())
                    && !t.contains(char::is_whitespace)
            })
        },
        // A variable that holds a credential of a service.
        "token" => |v| v.names.iter().any(|name| &**name == TOKEN),
        // A connection, or a client of the network.
        "network_client" => |v| v.names.iter().any(|name| super::network::is_client(name)),
        "connection" => |v| v.names.iter().any(|name| super::network::is_connection(name)),
        "output_stream" => {
            |v| v.names.iter().any(|n| matches!(&**n, "process.stdout" | "process.stderr" | "console"))
        }
        // A fixed address for copies in the settings of a mail.
        "hidden_copy" => |v| match &v.known {
            Some(Const::Map(pairs)) => pairs.iter().any(|(key, value)| {
                key.as_whole_text().is_some_and(|key| matches!(key, "bcc" | "Bcc" | "BCC" | "BccAddresses"))
                    && text_is(value, is_mailbox)
            }),
            _ => false,
        },
        // Settings of a check of tokens that leave out the signature.
        "unverified" => |v| has_field(v, "verify_signature", false, 0),
        // Settings of a window whose pages reach Node.js.
        "page_with_node" => |v| has_field(v, "nodeIntegration", true, 0),
        "mailbox" => |v| text_is(v, is_mailbox),
        // Settings that pass each mail on to a fixed address.
        "forwarding" => |v| holds_mailbox(v, FORWARDS, 0),
        // Settings of an event, a document or a room that let a fixed address take part.
        "fixed_guest" => |v| holds_mailbox(v, GUESTS, 0),
        // Outcome of a test that passed, or of a run in which none failed.
        "passing" => |v| v.as_int() == Some(0) || text_is(v, |text| text == "passed"),
        "error_stream" => |v| v.names.iter().any(|n| n.contains("stderr") || &**n == "console.error"),
        // An unpickler that looks up any name, not a class of the file that restricts it.
        "unpickler" => |v| v.names.iter().any(|n| !n.starts_with('@') && n.ends_with("Unpickler()")),
        // A shell, or a program from elsewhere.
        "shell_or_received" => {
            |v| v.origin.has(Origin::NET | Origin::DECODED | Origin::UNPACKED) || text_is(v, is_shell)
        }
        "shell_or_request" => |v| v.origin.has(Origin::REQUEST) || text_is(v, is_shell),
        // A text of which nothing is known.
        "whole_hole" => |v| text_is(v, |t| t.chars().all(|c| c == HOLE) && !t.is_empty()),
        "loopback" => |v| text_is(v, is_loopback),
        "from_host" => |v| v.origin.has(Origin::SECRET) || v.names.iter().any(|n| tells_of_host(n)),
        "from_environment" => |v| v.names.iter().any(|n| prints_environment(n)),
        // Output of well-known programs made for `eval`, or a constant text.
        "known_eval" => |v| {
            v.names.iter().any(|n| prints_for_eval(n))
                || !v.origin.has(Origin::COMPUTED) && v.as_text().is_some_and(|t| !t.contains(HOLE))
        },
        "huge" => |v| v.as_int().is_some_and(|n| n >= 1 << 31),
        "harmless" => |v| v.as_text().is_some_and(harmless),
        // Bits of `mprotect`: PROT_EXEC is 4.
        "runnable" => |v| v.as_int().is_some_and(|n| (1..8).contains(&n) && n & 4 != 0),
        // PAGE_EXECUTE and its kinds are 0x10 to 0x80.
        "runnable_page" => |v| v.as_int().is_some_and(|n| matches!(n, 0x10 | 0x20 | 0x40 | 0x80)),
        "executable" => |v| v.as_int().is_some_and(|n| n & 0o111 != 0),
        "setuid" => {
            |v| v.as_int().is_some_and(|n| n & 0o6000 != 0 && n <= 0o7777) || text_is(v, is_setuid_mode)
        }
        "world" => |v| v.as_int().is_some_and(|n| n & 0o777 == 0o777),
        "public" => |v| text_is(v, |t| matches!(t, "" | "0.0.0.0" | "::")),
        // An interpreter that reads its program from standard input.
        "fed_interpreter" => super::interpreter::is_fed_interpreter,
        "shell_name" => |v| text_is(v, is_shell),
        "url" => |v| text_is(v, |t| t.contains("://")),
        "address" => |v| text_is(v, is_address),
        "executable_name" => |v| text_is(v, is_program_file),
        _ => return None,
    })
}

/// True for a map in which this field, at most two levels deep, is this constant.
fn has_field(value: &Value, field: &str, want: bool, depth: usize) -> bool {
    const MAX_DEPTH: usize = 2;
    match &value.known {
        Some(Const::Map(pairs)) => pairs.iter().take(64).any(|(key, inner)| {
            key.as_whole_text() == Some(field) && matches!(inner.known, Some(Const::Bool(is)) if is == want)
                || depth < MAX_DEPTH && has_field(inner, field, want, depth + 1)
        }),
        _ => false,
    }
}

/// Fields that pass mails on.
const FORWARDS: &[&str] =
    &["forward", "forwardAsAttachmentTo", "forwardTo", "forward_to", "forwardingEmail", "redirectTo"];
/// Fields with those who take part.
const GUESTS: &[&str] = &[
    "attendees",
    "collaborators",
    "emailAddress",
    "emails",
    "guests",
    "invitees",
    "members",
    "participants",
    "readers",
    "recipients",
    "shared_with",
    "viewers",
    "writers",
];

/// True for a map in which one of these fields holds a mail address of which every piece is known.
fn holds_mailbox(value: &Value, fields: &[&str], depth: usize) -> bool {
    const MAX_DEPTH: usize = 6;
    const MAX_ENTRIES: usize = 64;
    if depth > MAX_DEPTH {
        return false;
    }
    match &value.known {
        Some(Const::Map(pairs)) => pairs.iter().take(MAX_ENTRIES).any(|(key, inner)| {
            key.as_whole_text().is_some_and(|key| fields.contains(&key)) && has_mailbox(inner, 0)
                || holds_mailbox(inner, fields, depth + 1)
        }),
        Some(Const::List(items)) => {
            items.iter().take(MAX_ENTRIES).any(|item| holds_mailbox(item, fields, depth + 1))
        }
        _ => false,
    }
}

fn has_mailbox(value: &Value, depth: usize) -> bool {
    const MAX_DEPTH: usize = 4;
    match &value.known {
        Some(Const::Map(pairs)) if depth < MAX_DEPTH => {
            pairs.iter().take(16).any(|(_, inner)| has_mailbox(inner, depth + 1))
        }
        Some(Const::List(items)) if depth < MAX_DEPTH => {
            items.iter().take(16).any(|inner| has_mailbox(inner, depth + 1))
        }
        _ => value.as_whole_text().is_some_and(is_mailbox),
    }
}

/// True for a query with JavaScript in it that a caller gave: `{$where: text}`, `{$function: {body: text}}`, also in the
/// stages of a pipeline.
fn holds_database_code(value: &Value, depth: usize) -> bool {
    const MAX_DEPTH: usize = 6;
    const MAX_ENTRIES: usize = 64;
    if depth > MAX_DEPTH || !is_given(value) {
        return false;
    }
    let is_function = |name: &str| matches!(name, "$function" | "$accumulator");
    match &value.known {
        Some(Const::List(items)) => {
            items.iter().take(MAX_ENTRIES).any(|item| holds_database_code(item, depth + 1))
        }
        Some(Const::Map(pairs)) => pairs.iter().take(MAX_ENTRIES).any(|(key, inner)| {
            let name = key.as_whole_text().unwrap_or("");
            name == "$where" && is_given(inner)
                || is_function(name) && has_given_body(inner)
                || holds_database_code(inner, depth + 1)
        }),
        _ => false,
    }
}

fn is_given(value: &Value) -> bool {
    value.origin.has(Origin::CALLER | Origin::REQUEST)
}

/// True for the description of a function whose text a caller gave; its arguments are data.
fn has_given_body(value: &Value) -> bool {
    let is_body = |name: &str| matches!(name, "body" | "init" | "accumulate" | "merge" | "finalize");
    match &value.known {
        Some(Const::Map(pairs)) => {
            pairs.iter().any(|(key, inner)| key.as_whole_text().is_some_and(is_body) && is_given(inner))
        }
        _ => is_given(value),
    }
}
