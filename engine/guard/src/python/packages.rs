//! Other names of functions of the standard library, and functions of packages that are one of them in another form: rules and flows know
//! the library's alone.

use super::Python;
use super::call::Named;
use crate::value::{Const, Value};
use std::rc::Rc;

/// Name of an instance of `ruamel.yaml` that builds any object.
pub(super) const UNSAFE_YAML: &str = "unsafe YAML()";

/// True for objects of `plumbum` that look up a program by its name: `local["ls"]`.
pub(super) fn looks_up_programs(name: &str) -> bool {
    name == "plumbum.local" || name.starts_with("plumbum.") && name.ends_with("Machine()")
}

/// Other spellings of a name's module.
pub(super) fn canonical(name: &str) -> &str {
    match name {
        "os.path.os" => "os",
        "posix.system" | "nt.system" => "os.system",
        "posix.fork" => "os.fork",
        "posix.unlink" | "nt.unlink" => "os.unlink",
        "posix.execv" => "os.execv",
        "posix.execve" => "os.execve",
        "posix.chmod" => "os.chmod",
        "posix.kill" => "os.kill",
        "_pickle.Unpickler" => "pickle.Unpickler",
        "_pickle.loads" | "cPickle.loads" => "pickle.loads",
        "builtins.eval" => "eval",
        "builtins.exec" => "exec",
        "builtins.compile" => "compile",
        "builtins.__import__" | "importlib.__import__" => "__import__",
        "builtins.getattr" => "getattr",
        "builtins.open" | "io.open" | "codecs.open" => "open",
        "builtins.input" => "input",
        "builtins.globals" => "globals",
        "cryptography.fernet.Fernet" => "Fernet",
        // Other functions of the library that delete a tree, or a file.
        "test.support.os_helper.rmtree"
        | "test.support.rmtree"
        | "shutil._rmtree_unsafe"
        | "shutil._rmtree_safe_fd"
        | "venv.EnvBuilder().clear_directory"
        | "tempfile.TemporaryDirectory()._rmtree"
        | "tempfile.TemporaryDirectory._rmtree"
        | "setuptools._distutils.dir_util.remove_tree"
        | "distutils.dir_util.remove_tree" => "shutil.rmtree",
        "test.support.os_helper.unlink" | "test.support.unlink" => "os.unlink",
        "test.support.os_helper.rmdir" | "test.support.rmdir" => "os.rmdir",
        "ruamel.yaml.load" => "yaml.load",
        "ruamel.yaml.load_all" => "yaml.load_all",
        "ruamel.yaml.unsafe_load" | "yaml.unsafe_load_all" => "yaml.unsafe_load",
        "yaml.full_load_all" => "yaml.full_load",
        "ruamel.yaml.Loader" | "ruamel.yaml.loader.Loader" | "yaml.CLoader" | "yaml.cyaml.CLoader" => {
            "yaml.Loader"
        }
        "ruamel.yaml.UnsafeLoader" | "ruamel.yaml.loader.UnsafeLoader" | "yaml.CUnsafeLoader" => {
            "yaml.UnsafeLoader"
        }
        "yaml.CFullLoader" => "yaml.FullLoader",
        // Packages that have the module `subprocess` again.
        "subprocess32.run" => "subprocess.run",
        "subprocess32.call" => "subprocess.call",
        "subprocess32.check_call" => "subprocess.check_call",
        "subprocess32.check_output" => "subprocess.check_output",
        "subprocess32.Popen" | "psutil.Popen" => "subprocess.Popen",
        "asyncio.subprocess.create_subprocess_shell" => "asyncio.create_subprocess_shell",
        "asyncio.subprocess.create_subprocess_exec" => "asyncio.create_subprocess_exec",
        other if other.starts_with(UNSAFE_YAML) => match other.rsplit('.').next() {
            Some("load" | "load_all") => "yaml.unsafe_load",
            _ => other,
        },
        other => ["gevent.", "eventlet.green."]
            .iter()
            .find_map(|package| other.strip_prefix(package).filter(|name| name.starts_with("subprocess.")))
            .or_else(|| carried_module(other))
            .unwrap_or(other),
    }
}

/// Modules of the library that other modules of the library import, and so carry as a member.
const CARRIED: &[&str] =
    &["builtins", "ctypes", "importlib", "marshal", "os", "pickle", "shutil", "socket", "subprocess", "sys"];

/// The module that another module of the library carries: `subprocess.os` and `random._os` are `os`.
fn carried_module(name: &str) -> Option<&'static str> {
    let (owner, last) = name.rsplit_once('.')?;
    let last = last.strip_prefix('_').unwrap_or(last);
    let carried = CARRIED.iter().find(|module| **module == last)?;
    let library = owner.split('.').next().unwrap_or(owner);
    // A module or a class of its own.
    let own = (owner, last) == ("asyncio", "subprocess") || owner.rsplit('.').next() == Some(last);
    (!own && !owner.contains('(') && crate::feed::PYTHON_MODULES.contains(&library)).then_some(carried)
}

/// Functions that give a text to a shell and return its output.
const SHELLS: &[&str] = &[
    "delegator.run",
    "envoy.run",
    "fabric.Connection().local",
    "fabric.api.local",
    "invoke.Context().run",
    "invoke.context.Context().run",
    "invoke.run",
    "sarge.capture_both",
    "sarge.capture_stdout",
    "sarge.run",
];
/// Functions that start a program from a list, and a shell from a text.
const TEXT_OR_LIST: &[&str] = &[
    "anyio.open_process",
    "anyio.run_process",
    "curio.subprocess.check_output",
    "curio.subprocess.run",
    "trio.lowlevel.open_process",
    "trio.run_process",
];

/// Function of the library, its arguments and its named ones, for a call of a package that starts a program: `sh.bash("-c", x)`,
/// `invoke.run(x)`, `anyio.run_process(["sh", "-c", x])`, `pexpect.spawn("sh", ["-c", x])`.
pub(super) fn as_of_subprocess(
    name: &str,
    args: &[Value],
    kwargs: &[Named],
) -> Option<(&'static str, Vec<Value>, Vec<Named>)> {
    let is_list = |value: &Value| matches!(value.known, Some(Const::List(_)));
    let shell = |text: &Value| Some(("subprocess.getoutput", vec![text.clone()], Vec::new()));
    let list = |program: Value, rest: &[Value]| {
        let words = std::iter::once(program).chain(rest.iter().cloned()).collect();
        Some(("subprocess.run", vec![Value::list(words)], kwargs.to_vec()))
    };
    if let Some(program) =
        ["sh.", "plumbum.cmd.", "plumbum.local.cmd."].iter().find_map(|of| name.strip_prefix(of))
    {
        let is_program = !program.is_empty() && !program.contains(['.', '(', '[']) && program != "Command";
        return is_program.then(|| list(Value::text(program), args)).flatten();
    }
    let first = args.first()?;
    if SHELLS.contains(&name) {
        return shell(first);
    }
    if TEXT_OR_LIST.contains(&name) {
        return if is_list(first) {
            Some(("subprocess.run", args.to_vec(), kwargs.to_vec()))
        } else {
            shell(first)
        };
    }
    if name == "pexpect.spawn" {
        let rest = args
            .get(1)
            .or_else(|| kwargs.iter().find(|(key, _)| &**key == "args").map(|(_, value)| value))?;
        return list(first.clone(), &rest.elements()?);
    }
    None
}

impl Python<'_, '_, '_> {
    /// Object of a package that its settings make dangerous or harmless.
    pub(super) fn made_by_package(
        &mut self,
        name: &str,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) -> Option<Value> {
        let named = |own: &str| kwargs.iter().find(|(key, _)| &**key == own).map(|(_, value)| value);
        match name {
            // Loads any object, as `yaml.unsafe_load` does.
            "ruamel.yaml.YAML" | "ruamel.yaml.main.YAML" => {
                let kind = named("typ").or_else(|| args.first())?;
                let all = if kind.as_text().is_some() { vec![kind.clone()] } else { kind.elements()? };
                all.iter().any(|one| one.as_whole_text() == Some("unsafe")).then(|| Value::name(UNSAFE_YAML))
            }
            // A connection that its settings close to files and the network.
            "duckdb.connect" => {
                let closes = |(key, value): &(Value, Value)| {
                    crate::rules::closes_engine(&format!("{}={}", key.text_or_hole(), value.text_or_hole()))
                };
                let settings = named("config").or_else(|| args.get(2)).and_then(|value| value.known.as_ref());
                let is_closed = matches!(settings, Some(Const::Map(pairs)) if pairs.iter().any(closes));
                (is_closed || self.flow.closes_engine)
                    .then(|| Value::name(&format!("{}{name}()", crate::rules::CLOSED_ENGINE)))
            }
            "setuptools.setup" | "distutils.core.setup" => {
                let own = named("name").and_then(Value::as_whole_text)?;
                let modules = ["packages", "py_modules"].iter().filter_map(|key| named(key)?.elements());
                let others: Vec<Value> = named("url").cloned().into_iter().chain(modules.flatten()).collect();
                let copied = crate::renamed::copied(own, others.iter().filter_map(Value::as_whole_text))?;
                self.fact_with("package.copied", &[Value::text(&copied)], at);
                None
            }
            _ => {
                let says =
                    || args.first().and_then(Value::as_whole_text).is_some_and(crate::rules::closes_engine);
                self.flow.closes_engine |= crate::rules::opens_engine(name) && says();
                None
            }
        }
    }

    /// Program that `plumbum` looks up by its name, or one that gets arguments: `local["sh"]["-c", line]`.
    pub(super) fn program_at(&mut self, own: &Rc<str>, key: &Value, at: (usize, usize)) -> Option<Rc<str>> {
        if own.starts_with("plumbum.cmd.") || own.starts_with("plumbum.local.cmd.") {
            let arguments = key.elements().filter(|_| matches!(key.known, Some(Const::List(_))));
            let arguments = arguments.unwrap_or_else(|| vec![key.clone()]);
            self.invoke(&Value::name(own), None, &arguments, &[], at);
            return Some(own.clone());
        }
        if !looks_up_programs(own) {
            return None;
        }
        match key.as_whole_text() {
            Some(program) => Some(format!("plumbum.cmd.{}", program.replace(['.', '(', '['], "_")).into()),
            None => {
                let words = Value::list(vec![key.clone()]);
                self.invoke(&Value::name("subprocess.run"), None, &[words], &[], at);
                Some(format!("{own}[]").into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_library() {
        for (name, plain) in [
            ("os.path.os", "os"),
            ("subprocess.os", "os"),
            ("random._os", "os"),
            ("app.os", "app.os"),
            ("subprocess.Popen().os", "subprocess.Popen().os"),
            ("asyncio.subprocess", "asyncio.subprocess"),
            ("socket.socket", "socket.socket"),
            ("gevent.subprocess.run", "subprocess.run"),
            ("eventlet.green.subprocess.Popen", "subprocess.Popen"),
            ("eventlet.green.time", "eventlet.green.time"),
        ] {
            assert_eq!(canonical(name), plain);
        }
    }

    #[test]
    fn packages_start_programs_as_the_library_does() {
        let text = |text: &str| Value::text(text);
        let words = Value::list(vec![text("sh"), text("-c"), text("x")]);
        for (name, args, function, first) in [
            ("sh.bash", vec![text("-c"), text("x")], "subprocess.run", 3),
            ("plumbum.cmd.sh", vec![text("-c"), text("x")], "subprocess.run", 3),
            ("anyio.run_process", vec![words.clone()], "subprocess.run", 3),
            (
                "pexpect.spawn",
                vec![text("sh"), Value::list(vec![text("-c"), text("x")])],
                "subprocess.run",
                3,
            ),
            ("invoke.run", vec![text("x")], "subprocess.getoutput", 1),
            ("trio.run_process", vec![text("x")], "subprocess.getoutput", 1),
        ] {
            let (found, args, _) = as_of_subprocess(name, &args, &[]).unwrap();
            assert_eq!((found, args[0].elements().map_or(0, |list| list.len())), (function, first), "{name}");
        }
        for name in ["sh.Command", "sh.contrib.git", "pexpect.spawn", "invoke.task", "os.system"] {
            assert!(as_of_subprocess(name, &[text("x")], &[]).is_none(), "{name}");
        }
    }
}
