//! `hotcell mcp check`.

use std::collections::BTreeMap;
use std::fmt::Write;

use hotcell_mcp::probe::{ProbeError, Seen, Start, probe};
use hotcell_service::report::{Code, ErrorReport, printable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::install::{ours, place, told};
use super::{Client, Entry, Found, Problem};
use crate::args::{CheckArgs, Common};
use crate::{exit, notes, printed};

/// The name of this form in its `schema` field.
pub const SCHEMA: &str = "hotcell.mcp_check/1";

/// What a server offers to a client.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Always `hotcell.mcp_check/1`.
    pub schema: String,
    /// Whose entry it was; null for this program itself.
    pub client: Option<Client>,
    /// The client's file; null without a client.
    pub file: Option<String>,
    /// How the server was started.
    pub entry: Entry,
    /// The name that it gives itself.
    pub server: String,
    /// Its version.
    pub version: String,
    /// The revision of the protocol that was spoken.
    pub revision: String,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// URIs of its resources.
    pub resources: Vec<String>,
    /// Templates of URIs.
    pub templates: Vec<String>,
    /// Names of its prompts.
    pub prompts: Vec<String>,
    /// What this host can enforce for it: each profile, `available` or `refused: why`; null for a server that is no hotcell.
    pub profiles: Option<BTreeMap<String, String>>,
    /// How long each answer took, in order; the first has the start of the server in it.
    pub answers: Vec<Answered>,
    /// From the end of its input to its own, in microseconds; null when it had to be killed.
    pub end_us: Option<u64>,
}

/// One answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// What was asked.
    pub request: String,
    /// In microseconds.
    pub us: u64,
}

/// `hotcell mcp check`; its exit status.
///
/// # Errors
/// No such entry; a server that does not start, answer, or speak the protocol.
pub fn check(common: &Common, args: &CheckArgs) -> Result<u8, ErrorReport> {
    let (file, entry) = match args.client {
        Some(client) => {
            let (file, entry) = written(client, args)?;
            (Some(file), entry)
        }
        None if args.place.project || args.place.file.is_some() => {
            let option = if args.place.project { "--project" } else { "--file" };
            return Err(ErrorReport::new(Code::Usage, format!("{option} needs a client"))
                .field(option)
                .hint("name it with --client"));
        }
        None => (None, ours(common, false)?),
    };
    if !common.quiet && !common.json && filled_in(&entry) {
        notes::say("the entry has a $ that the client itself may fill in; here it is taken as it stands");
    }
    let start = Start {
        program: entry.command.clone(),
        args: entry.args.clone(),
        env: entry.env.clone(),
        folder: None,
    };
    let seen = probe(&start, args.within).map_err(|e| failed(&e, args.client))?;
    let checked = checked(args.client, file, entry, seen);
    let shown = if common.json { exit::print_json(&checked) } else { exit::print_text(&text(&checked)) };
    Ok(printed(shown, 0))
}

/// The entry that a client has.
fn written(client: Client, args: &CheckArgs) -> Result<(String, Entry), ErrorReport> {
    let (place, name) = (place(client, &args.place)?, args.place.name.as_str());
    let shown = place.path.display().to_string();
    let missing = Problem::Missing(name.to_owned(), Vec::new());
    let Some(original) = place.read()? else {
        let mut report = told(&missing, client, &place.path);
        report.message = format!("there is no {shown}");
        return Err(report);
    };
    match client.read(original.text(), name).map_err(|p| told(&p, client, &place.path))? {
        Found::Program(entry) => Ok((shown, entry)),
        Found::Address(address) => {
            let why = format!("{shown}: {name} is a server at {address}, which no command starts");
            Err(ErrorReport::new(Code::InvalidValue, why)
                .field(name)
                .hint("only entries with a command are checked"))
        }
        Found::Other(why) => {
            let why = format!("{shown}: {name} cannot be started: {why}");
            Err(ErrorReport::new(Code::InvalidValue, why).field(name))
        }
    }
}

/// Whether an entry has what some clients replace by the value of a variable.
fn filled_in(entry: &Entry) -> bool {
    let mut words = entry.args.iter().chain(entry.env.values()).chain([&entry.command]);
    words.any(|word| word.contains('$'))
}

fn failed(error: &ProbeError, client: Option<Client>) -> ErrorReport {
    let again = client.map_or_else(String::new, |c| {
        format!("hotcell mcp install --client {} --replace writes it anew", c.name())
    });
    let report = ErrorReport::new(Code::InvalidValue, error.to_string());
    match error {
        ProbeError::NotFound(program) if again.is_empty() => report.field(program),
        ProbeError::NotFound(program) => report.field(program).hint(again),
        ProbeError::TooLate { .. } => report.hint("--within gives it longer"),
        _ => report,
    }
}

fn checked(client: Option<Client>, file: Option<String>, entry: Entry, seen: Seen) -> Checked {
    let profiles = seen.doctor.as_ref().and_then(|d| d["profiles"].as_object()).map(|profiles| {
        let said = |v: &serde_json::Value| printable(v.as_str().unwrap_or_default());
        profiles.iter().map(|(name, v)| (printable(name), said(v))).collect()
    });
    Checked {
        schema: SCHEMA.to_owned(),
        client,
        file,
        entry,
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
    let mut words = vec![checked.entry.command.as_str()];
    words.extend(checked.entry.args.iter().map(String::as_str));
    let mut line = |what: &str, said: &str| {
        let _ = writeln!(text, "{what:<10} {said}");
    };
    line("server", &format!("{} {}, MCP {}", checked.server, checked.version, checked.revision));
    line("started as", &printable(&words.join(" ")));
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
    let answers = checked.answers.iter().map(|a| format!("{} {}", a.request, notes::time(a.us)));
    line("answers", &answers.collect::<Vec<_>>().join(", "));
    match checked.end_us {
        Some(us) => line("end", &format!("{} after its input", notes::time(us))),
        None => line("end", "it had to be killed"),
    }
    text
}
