//! Commands that a library runs elsewhere: on another machine, on a device, or in a container or a pod.
//!
//! Libraries give them in many forms, which differ in the place of the command alone. Rules and flows know one form, the command itself.

use super::network::is_of;
use crate::value::{Const, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::LazyLock;

/// Form of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A line for a shell of another machine, or several.
    Lines,
    /// A program with its arguments, as a list or a text.
    Words,
}

/// Place of a command in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Position, if the call may give it by one.
    position: Option<usize>,
    /// Names of the argument, or of a field of the last argument.
    names: &'static [&'static str],
    form: Form,
}

/// Beginning of the owner's name, methods, place.
type Known = (&'static str, &'static [&'static str], Place);

const fn line(position: usize, names: &'static [&'static str]) -> Place {
    Place { position: Some(position), names, form: Form::Lines }
}
const fn words(position: usize, names: &'static [&'static str]) -> Place {
    Place { position: Some(position), names, form: Form::Words }
}
const fn named(names: &'static [&'static str], form: Form) -> Place {
    Place { position: None, names, form }
}

/// Libraries of Python; an empty owner is any object, for methods that no other library has.
const PYTHON: &[Known] = &[
    ("ansible_runner", &["run"], named(&["module_args"], Form::Lines)),
    ("ansible_runner", &["run_command"], named(&["cmdline_args"], Form::Words)),
    ("asyncssh", &["run", "create_process"], line(0, &["command"])),
    ("boto3", &["send_command"], named(&["Parameters"], Form::Lines)),
    ("fabric", &["run", "sudo"], line(0, &["command"])),
    ("libtmux", &["send_keys"], line(0, &["cmd"])),
    (
        "netmiko",
        &["send_command", "send_command_timing", "send_command_expect", "write_channel"],
        line(0, &["command_string"]),
    ),
    ("netmiko", &["send_config_set", "send_multiline"], line(0, &["config_commands", "commands"])),
    ("paramiko", &["send", "sendall"], line(0, &["s"])),
    ("parallel_ssh", &["run_command"], line(0, &["command"])),
    ("pexpect", &["sendline", "send", "run_command"], line(0, &["s", "command"])),
    ("plumbum", &["run", "popen"], line(0, &["cmd"])),
    ("pssh", &["run_command"], line(0, &["command"])),
    // Texts of PowerShell.
    ("pypsrp", &["execute_ps", "add_script"], words(0, &["script"])),
    ("winrm", &["run_ps"], words(0, &["script"])),
    ("pypsrp", &["execute_cmd"], line(0, &["command"])),
    ("salt", &["cmd", "cmd_async"], line(2, &["arg"])),
    (
        "scrapli",
        &["send_command", "send_commands", "send_config", "send_configs"],
        line(0, &["command", "commands", "config", "configs"]),
    ),
    ("spur", &["run", "spawn"], words(0, &["command"])),
    ("ssh2.session", &["execute"], line(0, &["command"])),
    ("telnetlib", &["write"], line(0, &["buffer"])),
    ("telnetlib3", &["write"], line(0, &["data"])),
    ("winrm", &["run_cmd"], line(0, &["command"])),
    ("aiodocker", &["exec"], words(0, &["cmd"])),
    ("kr8s", &["exec"], words(0, &["command"])),
    ("testcontainers", &["exec"], words(0, &["command"])),
    ("kubernetes", &["stream"], named(&["command"], Form::Words)),
    ("kubernetes", &["write_stdin"], line(0, &["data"])),
    ("", &["exec_run"], words(0, &["cmd"])),
    ("", &["exec_create"], words(1, &["cmd"])),
    (
        "",
        &["connect_get_namespaced_pod_exec", "connect_post_namespaced_pod_exec"],
        named(&["command"], Form::Words),
    ),
];

/// Libraries of JavaScript.
const JAVASCRIPT: &[Known] = &[
    ("ssh2", &["exec"], line(0, &[])),
    ("ssh2-promise", &["exec", "spawn"], line(0, &[])),
    ("node-ssh", &["exec", "execCommand"], line(0, &[])),
    ("simple-ssh", &["exec"], line(0, &["in"])),
    ("ssh-exec", &["ssh-exec"], line(0, &[])),
    ("dockerode", &["exec"], named(&["Cmd"], Form::Words)),
    ("dockerode", &["createContainer"], named(&["Cmd"], Form::Words)),
    ("dockerode", &["run"], words(1, &[])),
    ("@kubernetes/client-node", &["exec"], words(3, &[])),
    ("@aws-sdk/client-ssm", &["SendCommandCommand"], named(&["Parameters"], Form::Lines)),
    ("telnet-client", &["exec", "send", "write"], line(0, &[])),
];

/// Names of the objects of a container's service.
const CONTAINERS: &[&str] = &["docker", "podman"];

/// Entries by method.
type ByMethod = FxHashMap<&'static str, Vec<(&'static str, Place)>>;

static OF_PYTHON: LazyLock<ByMethod> = LazyLock::new(|| by_method(PYTHON));
static OF_JAVASCRIPT: LazyLock<ByMethod> = LazyLock::new(|| by_method(JAVASCRIPT));

fn by_method(known: &[Known]) -> ByMethod {
    let mut all = ByMethod::default();
    for (owner, methods, place) in known {
        for method in *methods {
            all.entry(method).or_default().push((owner, *place));
        }
    }
    all
}

/// The command of a call of Python that runs one elsewhere.
pub(crate) fn remote_of_python(name: &str, args: &[Value], kwargs: &[(Rc<str>, Value)]) -> Option<Value> {
    place_of_python(name).and_then(|place| command(place, args, kwargs)).filter(|_| !is_closed(args, kwargs))
}

/// The command of a call of JavaScript that runs one elsewhere; `kwargs` are the fields of its last argument.
pub(crate) fn remote_of_javascript(name: &str, args: &[Value], kwargs: &[(Rc<str>, Value)]) -> Option<Value> {
    let place = place(&OF_JAVASCRIPT, name.strip_prefix("new ").unwrap_or(name))?;
    command(place, args, kwargs).filter(|_| !is_closed(args, kwargs))
}

/// Position of the command line in a call of Python that gives it to a shell of another machine.
pub(crate) fn line_at(name: &str) -> Option<usize> {
    place_of_python(name).filter(|place| place.form == Form::Lines)?.position
}

fn place_of_python(name: &str) -> Option<Place> {
    let (owner, method) = name.rsplit_once('.')?;
    // `docker.from_env().containers.run(image, command)`.
    if matches!(method, "run" | "create")
        && owner.ends_with(".containers")
        && CONTAINERS.iter().any(|of| is_of(owner, of))
    {
        return Some(words(1, &["command"]));
    }
    // `stdin, _, _ = client.exec_command("bash -s")`, `process = await c.create_process("bash")`.
    if method == "write"
        && (owner.trim_end_matches("[]").ends_with("exec_command()")
            || owner.ends_with("create_process().stdin"))
    {
        return Some(line(0, &["data"]));
    }
    place(&OF_PYTHON, name)
}

fn place(known: &ByMethod, name: &str) -> Option<Place> {
    let (owner, method) = name.rsplit_once('.').unwrap_or((name, name));
    let owner = owner.strip_prefix("new ").unwrap_or(owner);
    let found = known.get(method)?.iter().find(|(of, _)| of.is_empty() || is_of(owner, of));
    found.map(|(_, place)| *place)
}

fn command(place: Place, args: &[Value], kwargs: &[(Rc<str>, Value)]) -> Option<Value> {
    let by_name = kwargs.iter().find(|(key, _)| place.names.contains(&&**key)).map(|(_, value)| value);
    let given = by_name.or_else(|| args.get(place.position?)).map(content)?;
    // Each element is a line of its own, not an argument of the first.
    let is_open = matches!(&given.known, Some(Const::List(lines)) if lines.iter().any(|line| line.as_whole_text().is_none()));
    if place.form == Form::Lines && is_open {
        return Some(Value { known: None, ..given });
    }
    Some(given)
}

/// Commands in a map: `Parameters={"commands": [line]}`.
fn content(value: &Value) -> Value {
    match &value.known {
        Some(Const::Map(pairs)) => {
            let of_commands =
                |key: &Value| key.as_whole_text().is_some_and(|key| matches!(key, "commands" | "in" | "Cmd"));
            pairs
                .iter()
                .find(|(key, _)| of_commands(key))
                .map_or_else(|| value.clone(), |(_, commands)| commands.clone())
        }
        _ => value.clone(),
    }
}

/// True for a container without a network and without folders of the host: what runs in it stays in it.
fn is_closed(args: &[Value], kwargs: &[(Rc<str>, Value)]) -> bool {
    const OPENS: &[&str] = &[
        "volumes",
        "mounts",
        "privileged",
        "devices",
        "cap_add",
        "pid_mode",
        "Binds",
        "Mounts",
        "Privileged",
    ];
    let mut fields: Vec<(&str, &Value)> = kwargs.iter().map(|(key, value)| (&**key, value)).collect();
    for settings in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
        if let Some(Const::Map(pairs)) = &settings.known {
            fields.extend(pairs.iter().filter_map(|(key, value)| Some((key.as_whole_text()?, value))));
        }
    }
    let is_off = |(key, value): &(&str, &Value)| match *key {
        "network_disabled" | "NetworkDisabled" => matches!(value.known, Some(Const::Bool(true))),
        "network_mode" | "NetworkMode" | "network" => value.as_whole_text() == Some("none"),
        _ => false,
    };
    fields.iter().any(is_off) && !fields.iter().any(|(key, _)| OPENS.contains(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_known_by_library_and_method() {
        for (name, position) in [
            ("asyncssh.connect().run", Some(Some(0))),
            ("fabric.Connection().sudo", Some(Some(0))),
            ("paramiko.Transport().open_session().send", Some(Some(0))),
            ("paramiko.SSHClient().exec_command()[].write", Some(Some(0))),
            ("docker.from_env().containers.run", Some(Some(1))),
            ("docker.from_env().containers.get().exec_run", Some(Some(0))),
            ("kubernetes.stream.stream", Some(None)),
            ("boto3.client().send_command", Some(None)),
            ("asyncio.run", None),
            ("fabricator.run", None),
            ("docker.from_env().images.build", None),
            ("subprocess.run", None),
        ] {
            assert_eq!(place_of_python(name).map(|place| place.position), position, "{name}");
        }
        for (name, position) in [
            ("ssh2.Client().exec", Some(Some(0))),
            ("dockerode().getContainer().exec", Some(None)),
            ("@aws-sdk/client-ssm.SendCommandCommand", Some(None)),
            ("ssh-exec", Some(Some(0))),
            ("child_process.exec", None),
            ("regex.exec", None),
        ] {
            assert_eq!(place(&OF_JAVASCRIPT, name).map(|place| place.position), position, "{name}");
        }
    }

    #[test]
    fn commands_are_given_by_position_name_or_field() {
        let text = Value::text;
        let map = |pairs: Vec<(&str, Value)>| {
            Value::of(Const::Map(
                pairs.into_iter().map(|(key, value)| (Value::text(key), value)).collect::<Vec<_>>().into(),
            ))
        };
        let list = || Value::list(vec![text("ls")]);
        let name = |key: &str, value: Value| (Rc::<str>::from(key), value);
        let found = |value: Option<Value>| value.map(|value| value.first().unwrap_or(value).text_or_hole());
        let run = "docker.from_env().containers.run";
        for (call, args, kwargs, command) in [
            (run, vec![text("i"), text("l")], vec![], Some("l")),
            (run, vec![text("i")], vec![name("command", text("k"))], Some("k")),
            (run, vec![text("i")], vec![], None),
            (run, vec![text("i"), text("l")], vec![name("network_mode", text("none"))], None),
            (
                run,
                vec![text("i"), text("l")],
                vec![name("network_mode", text("none")), name("volumes", list())],
                Some("l"),
            ),
            (
                "boto3.client().send_command",
                vec![],
                vec![name("Parameters", map(vec![("commands", list())]))],
                Some("ls"),
            ),
        ] {
            let want = command.map(|text| text.chars().next().unwrap_or_default().to_string());
            assert_eq!(
                found(remote_of_python(call, &args, &kwargs)).map(|t| t[..1].to_owned()),
                want,
                "{call}"
            );
        }
        let given = remote_of_javascript(
            "new dockerode().createContainer",
            &[map(vec![("Cmd", list())])],
            &[name("Cmd", list())],
        );
        assert_eq!(found(given), Some("ls".to_owned()));
        assert_eq!(line_at("asyncssh.connect().run"), Some(0));
        assert_eq!(line_at("docker.from_env().containers.run"), None);
    }
}
