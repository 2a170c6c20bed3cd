//! An action of a farm, checked against the operator's limits. Pure.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2::{Action, Command, platform::Property};
use hotcell_sandbox::units::{format_duration, parse_duration};
use hotcell_sandbox::{Bytes, Limits};

use crate::digest::Key;
use crate::error::FleetError;
use crate::once::{ONCE, is_id};

/// Beginning of the platform properties that lower a limit.
pub const LIMIT: &str = "hotcell-";
/// Maximum number of output paths.
const MAX_OUTPUTS: usize = 10_000;

/// A file or folder that an action may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPath {
    /// Path as the action names it, relative to its working folder.
    pub named: String,
    /// Path below the input root.
    pub path: PathBuf,
}

/// An action that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Program and arguments. A program with a relative path of several parts is below the input root.
    pub argv: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Start folder below the input root; may be empty.
    pub folder: PathBuf,
    /// Outputs.
    pub outputs: Vec<OutputPath>,
    /// Digest of the input root.
    pub root: Key,
    /// Limits: the operator's, or lower ones.
    pub limits: Limits,
    /// True when the result must not be stored.
    pub do_not_cache: bool,
    /// Id of a run that may not be run twice.
    pub once: Option<String>,
}

/// Checks an action and its command.
///
/// # Errors
/// [`FleetError`] of a wrong request, with the field: a path out of the input root, a limit above the operator's, a
/// platform property that asks for another kind of worker.
#[allow(deprecated, reason = "older clients send outputs and platform in these fields")]
pub fn check(action: &Action, command: &Command, operator: &Limits) -> Result<Checked, FleetError> {
    let root = Key::check(action.input_root_digest.as_ref(), "the input root")?;
    let folder = below(&command.working_directory, "working_directory")?;
    let argv = arguments(&command.arguments, &folder)?;
    let variables = command.environment_variables.iter();
    let env = environment(variables.map(|variable| (variable.name.clone(), variable.value.clone())))?;
    let named = if command.output_paths.is_empty() {
        command.output_files.iter().chain(&command.output_directories).collect::<Vec<_>>()
    } else {
        command.output_paths.iter().collect()
    };
    if named.len() > MAX_OUTPUTS {
        return Err(FleetError::request(format!("the command names more than {MAX_OUTPUTS} outputs")));
    }
    let output = |named: &String| {
        Ok(OutputPath { named: named.clone(), path: beside(&folder, named, "an output path")? })
    };
    let outputs = named.into_iter().map(output).collect::<Result<Vec<_>, _>>()?;
    let platform = action.platform.as_ref().or(command.platform.as_ref());
    let properties = platform.map(|platform| platform.properties.as_slice()).unwrap_or_default();
    let mut limits = narrow(properties, operator)?;
    if let Some(timeout) = &action.timeout {
        let asked = u64::try_from(timeout.seconds).ok().zip(u32::try_from(timeout.nanos).ok());
        let asked =
            asked.filter(|(_, nanos)| *nanos < 1_000_000_000).map(|(s, nanos)| Duration::new(s, nanos));
        let asked = asked.ok_or_else(|| FleetError::request("the time limit is not a time"))?;
        // Protobuf's zero, which some clients send for no limit of their own.
        if !asked.is_zero() {
            limits.wall = lower("timeout", asked, limits.wall, format_duration)?;
        }
    }
    let once =
        properties.iter().find(|property| property.name == ONCE).map(|property| property.value.clone());
    Ok(Checked { argv, env, folder, outputs, root, limits, do_not_cache: action.do_not_cache, once })
}

/// Checks a command line; a program with a relative path of several parts is below the input root.
///
/// # Errors
/// [`FleetError`] of a wrong request.
pub fn arguments(words: &[String], folder: &Path) -> Result<Vec<String>, FleetError> {
    let mut argv = words.to_vec();
    let Some(program) = argv.first_mut().filter(|program| !program.is_empty()) else {
        return Err(FleetError::request("the command has no program"));
    };
    if program.contains('/') && !program.starts_with('/') {
        *program =
            format!("./{}", below(&folder.join(&*program).to_string_lossy(), "the program")?.display());
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(FleetError::request("an argument has a zero byte"));
    }
    Ok(argv)
}

/// Checks variables.
///
/// # Errors
/// [`FleetError`] of a wrong request.
pub fn environment(
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Vec<(String, String)>, FleetError> {
    let env: Vec<_> = variables.collect();
    if let Some((name, _)) =
        env.iter().find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        return Err(FleetError::request(format!("a variable's name or value is not one: {name:?}")));
    }
    Ok(env)
}

/// Parses a relative path: `.` is left out, `..` is refused.
///
/// # Errors
/// [`FleetError`] of a wrong request.
pub fn below(text: &str, what: &str) -> Result<PathBuf, FleetError> {
    let bad = |why: &str| FleetError::request(format!("{what} {why}: {text:?}"));
    if text.contains('\0') {
        return Err(bad("has a zero byte"));
    }
    let mut path = PathBuf::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err(bad(&hotcell_verbs::upward::problem(text))),
            Component::RootDir | Component::Prefix(_) => return Err(bad("is absolute")),
        }
    }
    Ok(path)
}

/// A path below the input root that is relative to a folder there. `..` leads up by the names in the path, as far as the root.
///
/// # Errors
/// [`FleetError`] of a wrong request.
fn beside(folder: &Path, text: &str, what: &str) -> Result<PathBuf, FleetError> {
    let bad = |why: &str| FleetError::request(format!("{what} {why}: {text:?}"));
    if text.contains('\0') {
        return Err(bad("has a zero byte"));
    }
    let mut path = folder.to_owned();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            Component::ParentDir => return Err(bad("leads out with ..")),
            Component::RootDir | Component::Prefix(_) => return Err(bad("is absolute")),
        }
    }
    Ok(path)
}

/// The operator's limits, lowered by platform properties.
///
/// # Errors
/// [`FleetError`] of a wrong request: a property that this worker does not have, or a higher limit.
pub fn narrow(properties: &[Property], operator: &Limits) -> Result<Limits, FleetError> {
    let mut limits = operator.clone();
    for Property { name, value } in properties {
        let bad = || {
            FleetError::request(format!(
                "the platform property {name} has a value that is not one: {value:?}"
            ))
        };
        let size = |most: Bytes| {
            let asked: Bytes = value.parse().map_err(|_| bad())?;
            lower(name, asked.0, most.0, |bytes| Bytes(bytes).to_string()).map(Bytes)
        };
        let count = |most: u64| {
            let asked = value.parse().map_err(|_| bad())?;
            lower(name, asked, most, |count: u64| count.to_string())
        };
        match name.strip_prefix(LIMIT) {
            Some("memory") => limits.memory = size(limits.memory)?,
            Some("max-disk") => limits.disk = size(limits.disk)?,
            Some("max-output") => limits.output = size(limits.output)?,
            Some("max-files") => limits.files = count(limits.files)?,
            Some("max-processes") => {
                limits.processes = u32::try_from(count(limits.processes.into())?).map_err(|_| bad())?;
            }
            Some("cpu-time") => {
                let asked = parse_duration(value).map_err(|_| bad())?;
                let most = limits.cpu_time.unwrap_or(Duration::MAX);
                limits.cpu_time = Some(lower(name, asked, most, format_duration)?);
            }
            // Not a limit, but a promise of this kind of worker.
            _ if name == ONCE => {
                if !is_id(value) {
                    return Err(bad());
                }
            }
            _ if is_of_this_worker(name, value) => {}
            _ => {
                return Err(FleetError::request(format!(
                    "this worker does not have the platform property {name}={value}"
                )));
            }
        }
    }
    Ok(limits)
}

/// Properties that every worker of this kind meets.
fn is_of_this_worker(name: &str, value: &str) -> bool {
    match name {
        "OSFamily" => value.eq_ignore_ascii_case("linux"),
        "ISA" | "arch" => value.replace('-', "_") == std::env::consts::ARCH,
        "network" | "dockerNetwork" => matches!(value, "none" | "off" | "false"),
        _ => false,
    }
}

fn lower<T: PartialOrd + Copy + Default>(
    name: &str,
    asked: T,
    most: T,
    shown: impl Fn(T) -> String,
) -> Result<T, FleetError> {
    if asked > T::default() && asked <= most {
        return Ok(asked);
    }
    let (asked, most) = (shown(asked), shown(most));
    Err(FleetError::request(format!("{name} is {asked}; this worker's operator allows at most {most}")))
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::remote::execution::v2::Platform;
    use bazel_remote_apis::build::bazel::remote::execution::v2::command::EnvironmentVariable;
    use bazel_remote_apis::google::protobuf;

    use super::*;

    fn property(name: &str, value: &str) -> Property {
        Property { name: name.to_owned(), value: value.to_owned() }
    }

    fn checked(change: impl FnOnce(&mut Action, &mut Command)) -> Result<Checked, FleetError> {
        let mut action = Action { input_root_digest: Some(Key::of(b"").message()), ..Action::default() };
        let mut command = Command { arguments: vec!["sh".to_owned()], ..Command::default() };
        change(&mut action, &mut command);
        check(&action, &command, &Limits::default())
    }

    #[test]
    fn properties_only_narrow() {
        let operator = Limits::default();
        for (name, value, good) in [
            ("hotcell-memory", "64M", true),
            ("hotcell-memory", "4G", false),
            ("hotcell-memory", "0", false),
            ("hotcell-memory", "x", false),
            ("hotcell-max-processes", "8", true),
            ("hotcell-max-processes", "65", false),
            ("hotcell-max-files", "1", true),
            ("hotcell-cpu-time", "1s", true),
            ("hotcell-cpu-time", "2h", false),
            ("hotcell-network", "all", false),
            ("hotcell-once", "0123456789abcdef", true),
            ("hotcell-once", "../x", false),
            ("OSFamily", "Linux", true),
            ("OSFamily", "windows", false),
            ("network", "none", true),
            ("network", "host", false),
            ("container-image", "docker://evil", false),
        ] {
            assert_eq!(narrow(&[property(name, value)], &operator).is_ok(), good, "{name}={value}");
        }
        let limits = narrow(&[property("hotcell-memory", "64M")], &operator).unwrap();
        assert_eq!(limits, Limits { memory: Bytes::mib(64), ..operator });
    }

    #[test]
    fn paths_and_times_of_actions_are_checked() {
        type Change = fn(&mut Action, &mut Command);
        for (change, why) in [
            ((|_, command| command.arguments.clear()) as Change, "no program"),
            (|_, command| command.arguments[0] = String::new(), "no program"),
            (|_, command| command.arguments[0] = "../sh".to_owned(), "leads out"),
            (|_, command| command.working_directory = "/tmp".to_owned(), "absolute"),
            (|_, command| command.working_directory = "a/../..".to_owned(), "leads out"),
            (|_, command| command.output_paths = vec!["../x".to_owned()], "leads out"),
            (|_, command| command.output_paths = vec!["/x".to_owned()], "absolute"),
            (|_, command| command.output_paths = vec!["x\0".to_owned()], "zero byte"),
            (
                |_, command| {
                    command.working_directory = "a/b".to_owned();
                    command.output_paths = vec!["../../../x".to_owned()];
                },
                "leads out",
            ),
            (|_, command| command.output_paths = vec!["a/../../x".to_owned()], "leads out"),
            (|action, _| action.input_root_digest = None, "no digest"),
            (|action, _| action.timeout = Some(protobuf::Duration { seconds: 61, nanos: 0 }), "at most 60 s"),
            (|action, _| action.timeout = Some(protobuf::Duration { seconds: -1, nanos: 0 }), "not a time"),
            (|action, _| action.platform = Some(Platform { properties: vec![property("gpu", "1")] }), "gpu"),
            (
                |_, command| {
                    command.environment_variables =
                        vec![EnvironmentVariable { name: "A=B".to_owned(), value: String::new() }];
                },
                "variable",
            ),
        ] {
            let error = checked(change).unwrap_err();
            assert!(error.message.contains(why), "{error} for {why}");
        }
        let good = checked(|action, command| {
            command.working_directory = "w/./d".to_owned();
            command.arguments[0] = "bin/x".to_owned();
            command.output_paths = ["out", "", "../x", "../..", "y/../z"].map(str::to_owned).to_vec();
            action.timeout = Some(protobuf::Duration { seconds: 5, nanos: 0 });
        })
        .unwrap();
        assert_eq!((good.argv[0].as_str(), good.folder.to_str()), ("./w/d/bin/x", Some("w/d")));
        assert_eq!(good.limits.wall, Duration::from_secs(5));
        let outputs: Vec<_> = good.outputs.iter().map(|output| output.path.to_str().unwrap()).collect();
        assert_eq!(outputs, ["w/d/out", "w/d", "w/x", "", "w/d/z"]);
    }
}
