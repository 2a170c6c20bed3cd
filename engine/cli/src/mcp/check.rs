//! `hotcell mcp check`.

use std::collections::BTreeMap;
use std::fmt::Write;

use hotcell_clients::file::seen;
use hotcell_clients::{Address, Client, Entry, Found, Places, Problem, json, understood};
use hotcell_mcp::probe::{ProbeError, Seen, Start, probe};
use hotcell_mcp::probe_http::{self, At};
use hotcell_state::report::{Code, ErrorReport, printable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{By, CheckArgs, Common};
use crate::exit;
use crate::exit::printed;
use crate::terminal::notes;

use super::install::{again, having, told};
use super::own_entry::ours;

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.mcp_check/1";

/// The features that a server offers to a client.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Always `hotcell.mcp_check/1`.
    pub schema: String,
    /// Client whose entry it was; null for this program itself.
    pub client: Option<Client>,
    /// The client's file; null without a client.
    pub file: Option<String>,
    /// How the server was started; null for one that is there already.
    pub entry: Option<Entry>,
    /// Where it is; null for one that was started.
    pub address: Option<String>,
    /// The name that it gives itself.
    pub server: String,
    /// The server's version.
    pub version: String,
    /// Protocol revision that was used.
    pub revision: String,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// URIs of its resources.
    pub resources: Vec<String>,
    /// Templates of resource URIs.
    pub templates: Vec<String>,
    /// Names of its prompts.
    pub prompts: Vec<String>,
    /// Profiles that this host can enforce for the server: each `available` or `refused: why`; null for a
    /// server that is not hotcell.
    pub profiles: Option<BTreeMap<String, String>>,
    /// Duration of each answer, in order; the first includes the start of the server.
    pub answers: Vec<Answered>,
    /// Conditions that this check cannot see, but that also decide whether the client reaches it.
    pub unseen: Vec<String>,
    /// From the end of its input to its own, in microseconds; null when it had to be killed, or was there already.
    pub end_us: Option<u64>,
}

/// Timing of one answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// Name of the request.
    pub request: String,
    /// Duration in microseconds.
    pub us: u64,
}

/// Runs `hotcell mcp check`; returns its exit status.
///
/// # Errors
/// [`ErrorReport`] when there is no such entry, or the server does not start, answer, or speak the protocol.
pub fn check(common: &Common, args: &CheckArgs) -> Result<u8, ErrorReport> {
    let (file, found) = match args.client {
        Some(client) => {
            let (file, found) = written(client, args)?;
            (Some(file), found)
        }
        None if args.place.project || args.place.file.is_some() => {
            let option = if args.place.project { "--project" } else { "--file" };
            return Err(ErrorReport::new(Code::Usage, format!("{option} needs a client"))
                .field(option)
                .hint("name it with --client"));
        }
        None => (None, Tried::Program(ours(common, false, By::Path)?)),
    };
    if !common.quiet && !common.json && filled_in(&found) {
        notes::say("the entry has a $ that the client itself may fill in; here it is taken as it stands");
    }
    let seen = match &found {
        Tried::Program(entry) => {
            let start = Start {
                program: entry.command.clone(),
                args: entry.args.clone(),
                env: entry.env.clone(),
                folder: None,
            };
            probe(&start, args.within).map_err(|e| failed(&e, args))?
        }
        Tried::Address(address) => {
            let headers = headers(address, |name| std::env::var(name).ok())?;
            let at = At { address: address.url.clone(), headers };
            probe_http::probe(&at, args.within).map_err(|e| failed(&e, args))?
        }
    };
    let checked = checked(args.client, file, &found, seen);
    let shown = if common.json { exit::print_json(&checked) } else { exit::print_text(&text(&checked)) };
    Ok(printed(shown, 0))
}

/// Server that a client would use.
enum Tried {
    Program(Entry),
    Address(Address),
}

/// The headers of an entry, with those that the client takes from the environment.
fn headers(
    address: &Address,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, ErrorReport> {
    let mut headers = address.headers.clone();
    for (header, name) in &address.from_variables {
        let value = variable(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            ErrorReport::new(
                Code::InvalidValue,
                format!("the entry takes {header} from {name}, which is not set"),
            )
            .field(name)
            .hint("set it where the client runs, and here")
        })?;
        let bearer = header == "Authorization" && !value.contains(' ');
        headers.insert(header.clone(), if bearer { format!("Bearer {value}") } else { value });
    }
    Ok(headers)
}

/// The entry that a client has.
fn written(client: Client, args: &CheckArgs) -> Result<(String, Tried), ErrorReport> {
    let (place, name) = (having(client, &args.place)?, args.place.name.as_str());
    let shown = place.path.display().to_string();
    let problem = |problem: &Problem| told(problem, client, &place.path, &args.place);
    // The client follows links, so this does too; nothing is written here.
    let text =
        if args.place.project { place.read()?.map(|o| o.text().to_owned()) } else { seen(&place.path)? };
    let Some(text) = text else {
        let mut report = problem(&Problem::Missing(name.to_owned(), Vec::new()));
        report.message = format!("there is no {shown}");
        return Err(report);
    };
    let whole = json::whole_value(&client.kind(), &text);
    let blocked = |why: String| {
        let why = format!("{shown}: {name} is not started: {why}");
        Err(ErrorReport::new(Code::InvalidValue, why).field(name))
    };
    if let Some(why) = whole.as_ref().and_then(|whole| excluded(whole, name)) {
        return blocked(why);
    }
    // In a folder these clients join its own file to the user's. They start nothing in one that is not trusted.
    if matches!(client, Client::GeminiCli | Client::QwenCode) && !args.place.project {
        let file = client.file(true, &Places::here(), std::path::Path::exists);
        let text = file.as_deref().map(seen).transpose()?.flatten();
        let own = text.and_then(|text| json::whole_value(&client.kind(), &text));
        if let Some(why) = own.and_then(|own| excluded(&own, name)) {
            let file = file.unwrap_or_default();
            return blocked(format!("{why}, in {}", file.display()));
        }
    }
    if whole.as_ref().is_some_and(|whole| switched_off(whole, name)) && client == Client::ClaudeCode {
        return blocked("disabledMcpServers of this folder names it; /mcp switches it on".to_owned());
    }
    // Claude Code prefers an entry for this folder alone to the one for all folders.
    let local = whole.as_ref().filter(|_| client == Client::ClaudeCode && !args.place.project);
    let local = local.and_then(|whole| {
        whole.get("projects")?.get(crate::context::current_folder().to_str()?)?.get("mcpServers")?.get(name)
    });
    let found = match local {
        Some(said) => understood(said),
        None => client.read(&text, name).map_err(|p| problem(&p))?,
    };
    match found {
        Found::Program(entry) => Ok((shown, Tried::Program(entry))),
        Found::Address(address) if address.older => {
            let why =
                format!("{shown}: {name} is a server of the older transport (SSE), which is not checked");
            Err(ErrorReport::new(Code::InvalidValue, why).field(name).hint(
                "the client's own list says whether it reaches it; hotcell serves the newer one alone (http)",
            ))
        }
        Found::Address(address) => Ok((shown, Tried::Address(address))),
        Found::Other(why) => {
            let why = format!("{shown}: {name} cannot be started: {why}");
            Err(ErrorReport::new(Code::InvalidValue, why).field(name))
        }
    }
}

/// The reason why a client's other settings keep it from starting a server, for Gemini CLI and Qwen Code.
fn excluded(whole: &serde_json::Value, name: &str) -> Option<String> {
    let list = |key: &str| whole.get("mcp")?.get(key)?.as_array();
    let names = |all: &Vec<serde_json::Value>| all.iter().any(|one| one == name);
    if list("excluded").is_some_and(names) {
        return Some("mcp.excluded names it".to_owned());
    }
    let allowed = list("allowed").filter(|all| !all.is_empty());
    allowed.is_some_and(|all| !names(all)).then(|| "mcp.allowed does not name it".to_owned())
}

/// Whether Claude Code keeps a server switched off in the current folder.
fn switched_off(whole: &serde_json::Value, name: &str) -> bool {
    let current = crate::context::current_folder();
    let own = current.to_str().and_then(|folder| whole.get("projects")?.get(folder));
    let off = own.and_then(|own| own.get("disabledMcpServers")?.as_array());
    off.is_some_and(|off| off.iter().any(|one| one == name))
}

/// Whether an entry has what some clients replace by the value of a variable.
fn filled_in(found: &Tried) -> bool {
    let has = |word: &String| word.contains('$') || word.contains("{env:");
    match found {
        Tried::Program(entry) => entry.args.iter().chain(entry.env.values()).chain([&entry.command]).any(has),
        Tried::Address(address) => address.headers.values().chain([&address.url]).any(has),
    }
}

/// An address as it is shown: what stands in front of its host, and behind its path, may be a secret.
fn bare(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return printable(url) };
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit('@').next().unwrap_or_default();
    printable(&format!("{scheme}://{host}{}", path.map_or_else(String::new, |path| format!("/{path}"))))
}

fn failed(error: &ProbeError, args: &CheckArgs) -> ErrorReport {
    let again = args.client.map_or_else(String::new, |c| match (error, args.place.project) {
        // A project's entry has no path, so writing it again would change nothing.
        (ProbeError::NotFound(_), true) => "put a link to hotcell into a folder of PATH".to_owned(),
        (ProbeError::Unreached { .. }, _) => String::new(),
        _ => format!(
            "hotcell mcp install --client {}{} --replace writes it anew",
            c.name(),
            again(&args.place)
        ),
    });
    let report = ErrorReport::new(Code::InvalidValue, error.to_string());
    match error {
        ProbeError::NotFound(program) if again.is_empty() => report.field(program),
        ProbeError::NotFound(program) => report.field(program).hint(again),
        ProbeError::TooLate { .. } => report.hint("--timeout gives it longer"),
        ProbeError::Unreached { .. } => {
            report.hint("start the server there first, such as hotcell mcp --http; no proxy was asked")
        }
        _ => report,
    }
}

fn checked(client: Option<Client>, file: Option<String>, found: &Tried, seen: Seen) -> Checked {
    let profiles = seen.doctor.as_ref().and_then(|d| d["profiles"].as_object()).map(|profiles| {
        let said = |v: &serde_json::Value| printable(v.as_str().unwrap_or_default());
        profiles.iter().map(|(name, v)| (printable(name), said(v))).collect()
    });
    let (entry, address) = match found {
        Tried::Program(entry) => (Some(entry.clone()), None),
        Tried::Address(address) => (None, Some(bare(&address.url))),
    };
    let mut unseen: Vec<String> =
        client.and_then(|client| client.kind().unseen).map(str::to_owned).into_iter().collect();
    if let Tried::Address(address) = found {
        unseen.push(
            "a proxy that the client goes through, and a token that it got by signing in (OAuth)".to_owned(),
        );
        if address.helper {
            unseen.push("the headers that headersHelper gives it".to_owned());
        }
    }
    Checked {
        schema: SCHEMA.to_owned(),
        client,
        file,
        entry,
        address,
        unseen,
        server: seen.name,
        version: seen.version,
        revision: seen.revision,
        tools: seen.tools,
        resources: seen.resources,
        templates: seen.templates,
        prompts: seen.prompts,
        profiles,
        answers: seen.times_us.into_iter().map(|(request, us)| Answered { request, us }).collect(),
        end_us: seen.end_us,
    }
}

fn text(checked: &Checked) -> String {
    let mut text = String::new();
    let mut line = |what: &str, said: &str| {
        let _ = writeln!(text, "{what:<10} {said}");
    };
    line("server", &format!("{} {}, MCP {}", checked.server, checked.version, checked.revision));
    if let Some(entry) = &checked.entry {
        let mut words = vec![entry.command.as_str()];
        words.extend(entry.args.iter().map(String::as_str));
        line("started as", &printable(&words.join(" ")));
    }
    if let Some(address) = &checked.address {
        line("at", address);
    }
    if let (Some(client), Some(file)) = (checked.client, &checked.file) {
        line("for", &format!("{}, by {}", client.kind().title, printable(file)));
    }
    for (what, all) in
        [("tools", &checked.tools), ("prompts", &checked.prompts), ("templates", &checked.templates)]
    {
        line(
            what,
            &format!(
                "{}{}",
                all.len(),
                if all.is_empty() { String::new() } else { format!(": {}", all.join(" ")) }
            ),
        );
    }
    line("resources", &checked.resources.len().to_string());
    for (profile, state) in checked.profiles.iter().flatten() {
        line("profile", &format!("{profile}: {state}"));
    }
    for unseen in &checked.unseen {
        line("not seen", unseen);
    }
    let answers = checked.answers.iter().map(|a| format!("{} {}", a.request, notes::time(a.us)));
    line("answers", &answers.collect::<Vec<_>>().join(", "));
    match checked.end_us {
        Some(us) => line("end", &format!("{} after its input", notes::time(us))),
        None if checked.entry.is_none() => {}
        None => line("end", "it had to be killed"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_secrets() {
        for (url, want) in [
            ("http://127.0.0.1:8808/mcp", "http://127.0.0.1:8808/mcp"),
            ("https://me:s3cret@host/mcp?key=s3cret#s3cret", "https://host/mcp"),
            ("https://host?key=s3cret", "https://host"),
            ("https://me:s3c@ret@host/a@b", "https://host/a@b"),
        ] {
            assert_eq!(bare(url), want);
        }
    }

    #[test]
    fn headers_are_those_that_the_client_would_send() {
        let entry = serde_json::json!({
            "url": "http://h/mcp", "http_headers": { "X-A": "1" }, "env_http_headers": { "X-B": "B" },
            "bearer_token_env_var": "TOKEN"
        });
        let Found::Address(address) = understood(&entry) else { panic!("an address") };
        let all = headers(&address, |name| Some(format!("v{name}"))).unwrap();
        let all: Vec<_> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(all, [("Authorization", "Bearer vTOKEN"), ("X-A", "1"), ("X-B", "vB")]);
        assert!(headers(&address, |_| None).unwrap_err().to_string().contains("is not set"));
        for (entry, want) in [
            (
                serde_json::json!({ "httpUrl": "http://h", "headers": { "Authorization": "Bearer x" } }),
                "Bearer x",
            ),
            (
                serde_json::json!({ "url": "http://h", "requestOptions": { "headers": { "Authorization": "y" } } }),
                "y",
            ),
            (serde_json::json!({ "uri": "http://h", "headers": { "Authorization": "z" } }), "z"),
        ] {
            let Found::Address(address) = understood(&entry) else { panic!("{entry}") };
            assert_eq!(headers(&address, |_| None).unwrap()["Authorization"], want);
        }
        let older = serde_json::json!({ "type": "sse", "url": "http://h" });
        assert!(matches!(understood(&older), Found::Address(address) if address.older));
        let off = serde_json::json!({ "url": "http://h", "disabled": true });
        assert!(matches!(understood(&off), Found::Other(_)));
    }
}
