//! Functions of packages and of other runtimes that are a function of Node's by another name: rules and flows know Node's alone.

use super::Js;
use crate::value::{Const, Value};

/// Canonical name of a module: without its scheme, and for one whose functions are those of another module, the other's. A package that
/// is a function, such as `cross-spawn`, has the name of Node's.
pub(super) fn module(name: &str) -> &str {
    let name = name.strip_prefix("node:").unwrap_or(name);
    match name {
        "execa" | "cross-spawn" | "nano-spawn" | "@npmcli/promise-spawn" => SPAWN,
        "child-process-promise" | "promisify-child-process" | "mz/child_process" => "child_process",
        _ => name.strip_suffix("/promises").filter(|base| RETURN_PROMISES.contains(base)).unwrap_or(name),
    }
}

/// Name of the function that starts a program.
const SPAWN: &str = "child_process.spawn";
/// Modules of Node with the member `promises`, whose functions do as the module's own.
const RETURN_PROMISES: &[&str] = &["dns", "fs", "readline", "stream", "timers"];
/// Packages that have the functions of `fs` beside functions of their own.
const EXTEND_FS: &[&str] = &["fs-extra", "graceful-fs", "mz/fs"];
/// Beginnings of the names of those own functions.
const OWN_OF_FS_EXTRA: &[&str] = &[
    "copy", "empty", "ensure", "create", "mkdirp", "mkdirs", "move", "output", "path", "read", "remove",
    "write",
];

/// Canonical name of a module's or an object's member, however it was imported: `import { promises as fs } from "fs"`,
/// `require("fs").promises` and `fs/promises` are one, and so are `execa`'s functions and `spawn`.
pub(super) fn member(owner: &str, name: &str) -> String {
    match (owner, name) {
        (_, "default") => owner,
        (owner, "promises") if RETURN_PROMISES.contains(&owner) => owner,
        (owner, name) if EXTEND_FS.contains(&owner) && !is_own_of_fs_extra(name) => {
            return member("fs", name);
        }
        // Packages that are `spawn` have more functions as members.
        (SPAWN, "sync" | "execaSync") => "child_process.spawnSync",
        (SPAWN, "execa" | "execaNode" | "node" | "spawn") => SPAWN,
        (SPAWN, "command" | "commandSync" | "execaCommand" | "execaCommandSync") => "execa.command",
        (SPAWN, "shell" | "shellSync") => "child_process.exec",
        (SPAWN, "$") => "execa.$",
        ("tinyexec", "exec" | "x" | "xSync") | ("@actions/exec", "exec" | "getExecOutput") => SPAWN,
        ("node-pty" | "@lydell/node-pty" | "@homebridge/node-pty-prebuilt-multiarch", "spawn") => SPAWN,
        ("Deno" | "Bun", name) => match of_another_runtime(name) {
            Some(function) => return format!("fs.{function}"),
            None => return format!("{owner}.{name}"),
        },
        (owner, name) => return format!("{owner}.{name}"),
    }
    .to_owned()
}

/// Function of `fs` that a function of Deno or Bun is, by name and argument.
fn of_another_runtime(name: &str) -> Option<&'static str> {
    Some(match name {
        "writeTextFile" | "writeFile" | "write" => "writeFile",
        "writeTextFileSync" | "writeFileSync" => "writeFileSync",
        "readTextFile" | "readFile" | "file" => "readFile",
        "readTextFileSync" | "readFileSync" => "readFileSync",
        "readDir" => "readdir",
        "readDirSync" => "readdirSync",
        "remove" => "rm",
        "removeSync" => "rmSync",
        "rename" => "rename",
        "renameSync" => "renameSync",
        "symlink" => "symlink",
        "symlinkSync" => "symlinkSync",
        "copyFile" => "copyFile",
        "copyFileSync" => "copyFileSync",
        _ => return None,
    })
}

/// True for functions of `fs-extra` that `fs` does not have.
fn is_own_of_fs_extra(name: &str) -> bool {
    let of_fs = matches!(
        name,
        "copyFile"
            | "copyFileSync"
            | "createReadStream"
            | "createWriteStream"
            | "read"
            | "readSync"
            | "readv"
            | "readvSync"
            | "write"
            | "writeSync"
            | "writev"
            | "writevSync"
            | "writeFile"
            | "writeFileSync"
            | "readFile"
            | "readFileSync"
            | "readdir"
            | "readdirSync"
            | "readlink"
            | "readlinkSync"
    );
    !of_fs && OWN_OF_FS_EXTRA.iter().any(|start| name.starts_with(start))
}

/// True for modules that come with Node.
pub(super) fn is_module(name: &str) -> bool {
    matches!(name, "dns" | "fs" | "http" | "net" | "os" | "path" | "tls" | "util" | "vm" | "zlib")
        || crate::feed::NODE_MODULES.contains(&name)
}

/// Function of Node's, and its arguments, for a call of another runtime that gives them in another form: `Bun.spawn(["sh", "-c", x])`,
/// `new Deno.Command("sh", { args: ["-c", x] })`.
pub(super) fn as_of_node(name: &str, args: &[Value]) -> Option<(&'static str, Vec<Value>)> {
    let first = args.first()?;
    let words = match name {
        "Bun.spawn" | "Bun.spawnSync" | "Deno.run" => property(first, "cmd").unwrap_or(first),
        "new Deno.Command" => {
            let list = args.get(1).and_then(|options| property(options, "args")).cloned();
            return Some((SPAWN, std::iter::once(first.clone()).chain(list).collect()));
        }
        _ => return None,
    };
    let spawned = match words.elements().as_deref() {
        Some([program, rest @ ..]) => vec![program.clone(), Value::list(rest.to_vec())],
        _ => vec![Value::default().made_of(words)],
    };
    Some((SPAWN, spawned))
}

/// Value of a key of an object that is written out.
pub(super) fn property<'v>(object: &'v Value, key: &str) -> Option<&'v Value> {
    let Some(Const::Map(pairs)) = &object.known else { return None };
    pairs.iter().find(|(name, _)| name.as_whole_text() == Some(key)).map(|(_, value)| value)
}

impl Js<'_, '_, '_> {
    /// True for a connection to an engine that settings or a query of the file close to files and the network.
    pub(super) fn closes_engine(&mut self, name: &str, args: &[Value]) -> bool {
        if !crate::rules::opens_engine(name.strip_prefix("new ").unwrap_or(name)) {
            return false;
        }
        let closes = |(key, value): &(Value, Value)| {
            crate::rules::closes_engine(&format!("{}={}", key.text_or_hole(), value.text_or_hole()))
        };
        let is_closed = |value: &Value| match &value.known {
            Some(Const::Map(pairs)) => pairs.iter().any(closes),
            _ => value.as_whole_text().is_some_and(crate::rules::closes_engine),
        };
        self.flow.closes_engine |= args.iter().any(is_closed);
        self.flow.closes_engine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_names_of_node() {
        for (from, name, canonical) in [
            ("fs", "promises", "fs"),
            ("node:fs/promises", "writeFile", "fs.writeFile"),
            ("dns/promises", "resolve4", "dns.resolve4"),
            ("fs-extra", "readFile", "fs.readFile"),
            ("fs-extra", "outputFile", "fs-extra.outputFile"),
            ("execa", "execa", "child_process.spawn"),
            ("execa", "execaSync", "child_process.spawnSync"),
            ("execa", "$", "execa.$"),
            ("cross-spawn", "sync", "child_process.spawnSync"),
            ("child-process-promise", "exec", "child_process.exec"),
            ("Deno", "writeTextFile", "fs.writeFile"),
            ("Deno", "env", "Deno.env"),
            ("lodash", "default", "lodash"),
            ("lodash/promises", "x", "lodash/promises.x"),
        ] {
            assert_eq!(member(module(from), name), canonical, "{from} {name}");
        }
    }

    #[test]
    fn commands_of_other_runtimes_have_a_program_and_a_list() {
        let words = Value::list(["sh", "-c", "x"].map(Value::text).to_vec());
        let map =
            |key: &str, value: &Value| Value::of(Const::Map(vec![(Value::text(key), value.clone())].into()));
        let rest = Value::list(["-c", "x"].map(Value::text).to_vec());
        for (name, args) in [
            ("Bun.spawn", vec![words.clone()]),
            ("Bun.spawnSync", vec![map("cmd", &words)]),
            ("Deno.run", vec![map("cmd", &words)]),
            ("new Deno.Command", vec![Value::text("sh"), map("args", &rest)]),
        ] {
            let (function, args) = as_of_node(name, &args).unwrap();
            assert_eq!(function, SPAWN);
            assert_eq!(args.first().and_then(Value::as_whole_text), Some("sh"), "{name}");
            assert_eq!(args.get(1).and_then(Value::elements).map(|list| list.len()), Some(2), "{name}");
        }
        assert!(as_of_node("Bun.serve", &[Value::default()]).is_none());
    }
}
