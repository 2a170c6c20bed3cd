//! A wrapped server's entry: its command and options as it was started last, so that it can be started by its name, and grants that a person adds to them.
//!
//! Grants count for the package or the command that they were given to, not for whatever has the name later.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use hotcell_config::EnvSetting;
use hotcell_config::network::NetworkSetting;
use hotcell_deps::package::{self, Ecosystem};
use hotcell_sandbox::policy::Bind;
use hotcell_sandbox::profile::BindText;
use serde::{Deserialize, Serialize};

use crate::args::{Cli, Command, McpCommand, WrapArgs};

/// Grant of forms for the user, behind the combined server.
pub const FORMS: &str = "ask=forms";
/// Grant of the client's folders, behind the combined server.
pub const FOLDERS: &str = "ask=folders";
/// Maximum number of grants of a server.
pub const MAX_GRANTS: usize = 200;

/// A server as it was started last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Options with absolute paths, each name followed by its value. Values of variables are not kept.
    pub options: Vec<String>,
    /// Command; empty for a server at an address.
    pub server: Vec<String>,
    /// Address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Source of the token for the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Token for the address, encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedToken>,
    /// Processes or connections behind the combined server, if not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u8>,
}

/// A token as it is kept: encrypted with a key that is kept elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedToken {
    /// Source of the key.
    pub key: String,
    /// Sealed text.
    pub text: String,
}

impl Entry {
    /// Address, package or command: two servers of one name are different ones by it.
    pub fn identity(&self) -> String {
        match &self.url {
            Some(url) => format!("url {url}"),
            None => identity(&self.server),
        }
    }
}

/// Grants, and the server that they were given to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grants {
    /// Package or command.
    pub of: String,
    /// Grants such as `ro=/srv/notes`.
    pub grants: Vec<String>,
}

/// Name of the package, or the whole command: two servers of one name are different ones by it.
pub fn identity(server: &[String]) -> String {
    match package::named(server) {
        Ok(Some(package)) => match package.ecosystem {
            Ecosystem::Npm => format!("npm {}", package.name),
            Ecosystem::Python => format!("pypi {}", package.name),
        },
        _ => server.join("\n"),
    }
}

/// Options as words with absolute paths; `None` when one is not UTF-8, so that it cannot be kept.
pub fn options(args: &WrapArgs, cwd: &Path) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |name: &str, value: OsString| {
        words.push(name.to_owned());
        words.push(value.into_string().ok()?);
        Some(())
    };
    for (name, binds, writable) in [("--ro", &args.ro, false), ("--rw", &args.rw, true)] {
        for bind in binds {
            add(name, text(&bind.at(cwd, writable)))?;
        }
    }
    if let Some(network) = &args.network {
        add("--network", network.to_string().into())?;
    }
    for secret in &args.secret {
        add("--secret", secret.to_string().into())?;
    }
    for variable in &args.env {
        let (EnvSetting::Set(name, _) | EnvSetting::Pass(name)) = variable;
        add("--env", name.clone())?;
    }
    for folder in &args.toolchain {
        add("--toolchain", cwd.join(folder).into())?;
    }
    if let Some(profile) = &args.profile {
        let is_file =
            profile.as_encoded_bytes().contains(&b'/') || profile.as_encoded_bytes().contains(&b'.');
        add("--profile", if is_file { cwd.join(profile).into() } else { profile.clone() })?;
    }
    if let Some(memory) = args.memory {
        add("--memory", memory.0.to_string().into())?;
    }
    if let Some(guard) = args.guard {
        add("--guard", guard.name().into())?;
    }
    Some(words)
}

fn text(bind: &Bind) -> OsString {
    let mut text = bind.host.clone().into_os_string();
    if bind.inside != bind.host || text.as_encoded_bytes().windows(2).any(|two| two == b":/") {
        text.push(":");
        text.push(&bind.inside);
    }
    text
}

/// Joins options: later ones win where only one can hold, hosts are added up, and nothing is there twice.
pub fn joined<'a>(lists: impl IntoIterator<Item = &'a [String]>) -> Vec<String> {
    let (mut words, mut single, mut hosts): (Vec<String>, BTreeMap<&str, &str>, Vec<&str>) =
        Default::default();
    let mut is_watched = false;
    for pair in lists.into_iter().flat_map(|list| list.chunks_exact(2)) {
        match (pair[0].as_str(), pair[1].as_str()) {
            ("--network", "none") => {}
            ("--network", more) => {
                // An empty list allows no host, and has what is asked for reported.
                is_watched |= more.is_empty();
                for host in more.split(',').filter(|host| !host.is_empty()) {
                    if !hosts.contains(&host) {
                        hosts.push(host);
                    }
                }
            }
            (name @ ("--profile" | "--memory" | "--guard"), value) => {
                single.insert(name, value);
            }
            _ if words.chunks_exact(2).any(|known| known == pair) => {}
            _ => words.extend_from_slice(pair),
        }
    }
    if !hosts.is_empty() || is_watched {
        words.extend(["--network".to_owned(), hosts.join(",")]);
    }
    words.extend(single.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]));
    words
}

/// Arguments of a start from words of an entry.
///
/// # Errors
/// A sentence, for words that are not options.
pub fn args(name: &str, options: &[String], server: &[String]) -> Result<WrapArgs, String> {
    let words = ["hotcell", "mcp", "wrap", "--name", name].into_iter().map(str::to_owned);
    let words = words.chain(options.iter().cloned()).chain(["--".to_owned()]).chain(server.iter().cloned());
    let cli = Cli::try_parse_from(words).map_err(|e| e.to_string())?;
    match cli.command {
        Command::Mcp(mcp) => match mcp.command {
            Some(McpCommand::Wrap(args)) => Ok(*args),
            _ => Err("not a wrapped server".to_owned()),
        },
        _ => Err("not a wrapped server".to_owned()),
    }
}

/// A grant in its one form, with absolute paths.
///
/// # Errors
/// A sentence, for what is not a grant.
pub fn grant(given: &str, cwd: &Path) -> Result<String, String> {
    let forms = "write ro=PATH, rw=PATH, network=HOST:PORT, env=NAME, ask=forms or ask=folders";
    let (kind, value) = given.split_once('=').ok_or_else(|| format!("{given:?} is not a grant; {forms}"))?;
    match kind {
        "ro" | "rw" => {
            let bind = BindText::parse(Path::new(value)).map_err(|e| e.to_string())?.at(cwd, kind == "rw");
            let text = text(&bind)
                .into_string()
                .map_err(|_| "a path that is not UTF-8 cannot be kept".to_owned())?;
            Ok(format!("{kind}={text}"))
        }
        "network" => match value.parse() {
            Ok(NetworkSetting::Hosts(_)) if !value.trim().is_empty() => Ok(given.to_owned()),
            Ok(_) => Err(format!("{given:?} names no host; {forms}")),
            Err(e) => Err(e.to_string()),
        },
        "env" => {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            match value.bytes().all(plain) && value.starts_with(|c: char| !c.is_ascii_digit()) {
                true => Ok(given.to_owned()),
                false => {
                    Err(format!("{value:?} is not the name of a variable; its value is yours at each start"))
                }
            }
        }
        "ask" if [FORMS, FOLDERS].contains(&given) => Ok(given.to_owned()),
        "ask" => Err(format!("{given:?}: a server can be allowed to ask for forms and folders; {forms}")),
        _ => Err(format!("{kind:?} cannot be granted; {forms}")),
    }
}

/// Options of grants; grants of requests to the client are not the sandbox's.
pub fn of_grants(grants: &[String]) -> Vec<String> {
    let option =
        |grant: &String| grant.split_once('=').map(|(kind, value)| [format!("--{kind}"), value.to_owned()]);
    grants.iter().filter(|grant| !grant.starts_with("ask=")).filter_map(option).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn entries_keep_their_options_and_no_values_of_variables() {
        let given = words(&[
            "--ro",
            "notes",
            "--rw",
            "/b:/x",
            "--network",
            "a.example:443",
            "--env",
            "A=s3cret",
            "--env",
            "B",
            "--memory",
            "2G",
            "--guard",
            "off",
            "--profile",
            "strict",
        ]);
        let server = words(&["npx", "-y", "x", "--flag"]);
        let parsed = args("n", &given, &server).unwrap();
        let kept = options(&parsed, Path::new("/home/u")).unwrap();
        let want = words(&[
            "--ro",
            "/home/u/notes",
            "--rw",
            "/b:/x",
            "--network",
            "a.example:443",
            "--env",
            "A",
            "--env",
            "B",
            "--profile",
            "strict",
            "--memory",
            "2147483648",
            "--guard",
            "off",
        ]);
        assert_eq!(kept, want);
        // Kept words give themselves again, wherever they are read.
        let again = args("n", &kept, &server).unwrap();
        assert_eq!(
            (options(&again, Path::new("/")).unwrap(), again.server, again.name),
            (kept, server, Some("n".to_owned()))
        );
    }

    #[test]
    fn options_are_joined() {
        for (lists, want) in [
            (vec![], vec![]),
            (
                vec![words(&["--ro", "/a", "--ro", "/b"]), words(&["--ro", "/a"])],
                words(&["--ro", "/a", "--ro", "/b"]),
            ),
            (
                vec![
                    words(&["--network", "a:1"]),
                    words(&["--network", "b:2,a:1"]),
                    words(&["--network", "none"]),
                ],
                words(&["--network", "a:1,b:2"]),
            ),
            (vec![words(&["--network", ""])], words(&["--network", ""])),
            (vec![words(&["--network", ""]), words(&["--network", "none"])], words(&["--network", ""])),
            (vec![words(&["--network", ""]), words(&["--network", "a:1"])], words(&["--network", "a:1"])),
            (
                vec![words(&["--memory", "1"]), words(&["--memory", "2", "--env", "A"])],
                words(&["--env", "A", "--memory", "2"]),
            ),
        ] {
            assert_eq!(joined(lists.iter().map(Vec::as_slice)), want, "{lists:?}");
        }
    }

    #[test]
    fn grants_have_one_form() {
        for (given, want) in [
            ("ro=a", Ok("ro=/home/a")),
            ("rw=/x:/y", Ok("rw=/x:/y")),
            ("ro=/a/../b", Ok("ro=/a/../b:/b")),
            ("network=api.example.com:443", Ok("network=api.example.com:443")),
            ("env=A_1", Ok("env=A_1")),
            ("ask=forms", Ok("ask=forms")),
            ("ask=folders", Ok("ask=folders")),
            ("ask=model", Err("to ask for forms and folders")),
            ("ro=", Err("")),
            ("network=none", Err("names no host")),
            ("network=", Err("names no host")),
            ("network= ", Err("names no host")),
            ("network=a b:1", Err("")),
            ("env=A=b", Err("not the name of a variable")),
            ("env=1A", Err("not the name of a variable")),
            ("write=/a", Err("cannot be granted")),
            ("ro", Err("is not a grant")),
        ] {
            match (grant(given, Path::new("/home")), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want),
                (Err(e), Err(says)) => assert!(e.contains(says), "{given}: {e}"),
                (got, _) => panic!("{given}: {got:?}"),
            }
        }
        let grants = words(&["ro=/a:/b", "ask=forms", "network=a=1.2.3.4:1"]);
        assert_eq!(of_grants(&grants), words(&["--ro", "/a:/b", "--network", "a=1.2.3.4:1"]));
    }

    #[test]
    fn servers_of_one_name_are_told_apart() {
        let id = |text: &[&str]| identity(&words(text));
        assert_eq!(id(&["npx", "-y", "@a/server@1", "/x"]), id(&["npm", "exec", "@a/server", "/y"]));
        assert_ne!(id(&["npx", "@a/server"]), id(&["npx", "@b/server"]));
        assert_ne!(id(&["npx", "server"]), id(&["uvx", "server"]));
        assert_ne!(id(&["python3", "/a.py"]), id(&["python3", "/b.py"]));
        let at = |url: &str| Entry { url: Some(url.to_owned()), ..Entry::default() }.identity();
        assert_ne!(at("https://a.example/"), at("https://b.example/"));
    }
}
