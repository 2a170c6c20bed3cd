//! `hotcell model`: language models in the user's configuration, checked, and asked.

pub mod ask;
pub mod spent;

use std::path::PathBuf;
use std::time::Duration;

use hotcell_clients::file;
use hotcell_config::{Settings, models};
use hotcell_models::check::{Check, WindowResult};
use hotcell_models::endpoint::DeclaredPrice;
use hotcell_models::ledger::{Call, Ledger, Purpose};
use hotcell_models::settings::{DEFAULT_ROLE, ROLES};
use hotcell_models::{
    Endpoint, EndpointError, ModelError, ModelSettings, PriceTable, Prompts, Provider, SettingsError,
};
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::StateFolder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::args::{AddModelArgs, Common, ModelCommand};
use crate::context::{configuration, configuration_file, runtime, state};
use crate::exit::printed;
use crate::terminal::notes;
use crate::{exit, usage};

/// Value of the `schema` field of a list.
pub const SCHEMA: &str = "hotcell.models/1";
/// Value of the `schema` field of a check.
pub const CHECK_SCHEMA: &str = "hotcell.model_check/1";
/// Time limit of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the list of models of a server that is added.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Role of calls that check a model.
const CHECK_ROLE: &str = "check";

/// Configured models.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelList {
    /// Always `hotcell.models/1`.
    pub schema: String,
    /// Models by name.
    pub models: Vec<Model>,
    /// For each role the names of its models, in the order in which they are asked.
    pub roles: std::collections::BTreeMap<String, Vec<String>>,
}

/// A configured model.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Name.
    pub name: String,
    /// Provider.
    pub provider: String,
    /// URL.
    pub url: String,
    /// Model at the provider.
    pub model: String,
    /// Source of the key, never the key.
    pub key: Option<String>,
    /// Window in tokens, if it is configured.
    pub window: Option<u32>,
    /// `full`, or `short` for very small models.
    pub prompts: Prompts,
    /// Price.
    pub price: ModelPrice,
}

/// Price of a model, in US dollars for a million tokens.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelPrice {
    /// `known`, `free` or `unknown`.
    pub kind: String,
    /// Input.
    pub input: Option<f64>,
    /// Input from the provider's cache.
    pub cached: Option<f64>,
    /// Output.
    pub output: Option<f64>,
    /// `configuration`, or the date of the published table.
    pub source: Option<String>,
}

/// Result of `hotcell model check`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checks {
    /// Always `hotcell.model_check/1`.
    pub schema: String,
    /// One check for each model.
    pub checks: Vec<Check>,
}

/// Runs the command; returns its exit status.
pub fn model(common: &Common, command: &ModelCommand) -> u8 {
    let answer = match command {
        ModelCommand::Add(args) => add(common, args),
        ModelCommand::List => list(common),
        ModelCommand::Check { name, window, timeout } => {
            check(common, name.as_deref(), *window, timeout.unwrap_or(CHECK_TIMEOUT))
        }
        ModelCommand::Remove { name } => remove(common, name),
        ModelCommand::Ask(args) => ask::ask(common, args),
    };
    answer.unwrap_or_else(|report| usage::fail(&report, common.json))
}

/// The models of the user's own file. A project's file must not name any, and is not read.
fn settings(common: &Common) -> Result<ModelSettings, ErrorReport> {
    Ok(configuration(common, None)?.user.models)
}

/// The report of a name that is not configured.
fn unknown(error: &SettingsError, field: &str) -> ErrorReport {
    match error {
        SettingsError::Nothing => none(),
        SettingsError::NoRole(role) => ErrorReport::new(Code::UnknownName, error.to_string())
            .field(field)
            .hint(format!("hotcell model add NAME --role {role} gives it one")),
        SettingsError::Unknown { .. } => ErrorReport::new(Code::UnknownName, error.to_string())
            .field(field)
            .hint("hotcell model list names them"),
        _ => ErrorReport::new(Code::InvalidValue, error.to_string()).field(field),
    }
}

fn none() -> ErrorReport {
    ErrorReport::new(Code::Configuration, "no model is configured").hint(
        "hotcell model add ollama takes the local Ollama's; hotcell model add --help names the other providers",
    )
}

/// The report of a call without a reply.
fn of_model(error: &ModelError) -> ErrorReport {
    match error {
        ModelError::NoEndpoint => none(),
        ModelError::Unavailable(_) => ErrorReport::new(Code::Refused, error.to_string())
            .hint("hotcell model check shows each model's answers"),
        ModelError::Request(_) => ErrorReport::new(Code::InvalidValue, error.to_string()),
        _ => ErrorReport::new(Code::Internal, error.to_string()),
    }
}

fn of_endpoint(error: &EndpointError) -> ErrorReport {
    let field = match error {
        EndpointError::Provider { .. } => "--provider",
        EndpointError::Name(_) => "NAME",
        EndpointError::Url { .. } | EndpointError::EmptyUrl | EndpointError::NoUrl(_) => "--url",
        EndpointError::ClearKey(_) | EndpointError::Key(_) => "--key",
        EndpointError::Model => "--model",
        _ => "--price",
    };
    ErrorReport::new(Code::InvalidValue, error.to_string()).field(field)
}

fn of_state(error: &dyn ToString) -> ErrorReport {
    ErrorReport::new(Code::State, error.to_string()).field("--state")
}

/// Opens the ledger before a call, so that no call is paid for without a record.
fn ledger(common: &Common) -> Result<Ledger, ErrorReport> {
    let choice = state(common, &configuration(common, None)?);
    let folder = StateFolder::open(choice.path().map_err(|e| of_state(&e))?).map_err(|e| of_state(&e))?;
    Ledger::open(&folder).map_err(|e| of_state(&e))
}

/// Records calls; one that fails is told, since the reply is there already.
fn record(ledger: &Ledger, calls: Result<Vec<Call>, hotcell_models::ledger::LedgerError>) {
    if let Err(error) = calls.and_then(|calls| ledger.record(&calls)) {
        notes::say(format!("warning: the call is not recorded: {error}"));
    }
}

fn internal(error: &anyhow::Error) -> ErrorReport {
    ErrorReport::new(Code::Internal, format!("{error:#}"))
}

fn add(common: &Common, args: &AddModelArgs) -> Result<u8, ErrorReport> {
    let provider = match &args.provider {
        Some(name) => name.parse::<Provider>().map_err(|e| of_endpoint(&e))?,
        None => args.name.parse::<Provider>().map_err(|_| not_named_as_provider(&args.name))?,
    };
    let new = |model: &str| {
        Endpoint::new(&args.name, provider, args.url.as_deref(), model, args.key.as_deref())
            .map_err(|e| of_endpoint(&e))
    };
    let mut endpoint = match &args.model {
        Some(model) => new(model)?,
        None => new(&only_model(new("unknown")?)?)?,
    };
    endpoint.window = args.window;
    endpoint.prompts = args.prompts;
    endpoint.price = args.price;
    let default = [DEFAULT_ROLE.to_owned()];
    let roles = if args.role.is_empty() { &default[..] } else { &args.role };
    for role in roles {
        hotcell_models::endpoint::check_name(role).map_err(|e| of_endpoint(&e).field("--role"))?;
    }
    let path = change(common, |text| models::with(text, &endpoint, roles, args.replace))?;
    if common.json {
        return list(common);
    }
    if !common.quiet {
        roles.iter().filter_map(|role| unasked(role)).for_each(notes::say);
        let (name, model) = (&endpoint.name, printable(&endpoint.model));
        notes::say(format!("{name} ({provider}, {model}) is in {} now", path.display()));
        if endpoint.lacks_key() {
            notes::say(format!(
                "{provider} takes requests with a key only: add {name} again with --key env:VARIABLE --replace"
            ));
        } else {
            notes::say(format!("next: hotcell model check {name}; hotcell model ask \"hello\""));
        }
    }
    Ok(0)
}

/// The error for a model whose name is not a provider's, where none is named.
fn not_named_as_provider(name: &str) -> ErrorReport {
    if hotcell_models::endpoint::check_name(name).is_err() {
        return of_endpoint(&EndpointError::Name(name.to_owned()));
    }
    let why = format!("{} is not a provider, so --provider is needed", printable(name));
    ErrorReport::new(Code::Usage, why).field("--provider").hint(hotcell_models::endpoint::providers(name))
}

/// Words about a role that no command asks by itself, which may be a mistyped one.
pub fn unasked(role: &str) -> Option<String> {
    if ROLES.contains(&role) {
        return None;
    }
    let near = likely(role, ROLES).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    Some(format!(
        "only model ask --role {role} and definitions of your own ask this role; {near}others ask {}",
        ROLES.join(", ")
    ))
}

/// The only model of a server, for users of a local one who do not know its name.
fn only_model(endpoint: Endpoint) -> Result<String, ErrorReport> {
    let runtime = runtime().map_err(|e| internal(&e))?;
    let url = endpoint.url.clone();
    let listed = runtime.block_on(hotcell_models::check::listed(endpoint, Instant::now() + LIST_TIMEOUT));
    let needed = |why: String| ErrorReport::new(Code::Usage, why).field("--model");
    match listed {
        Err(error) => Err(needed(format!("--model is needed: {url} does not list its models: {error}"))),
        Ok(mut names) if names.len() == 1 => Ok(names.remove(0)),
        Ok(names) => {
            let some: Vec<_> = names.iter().take(12).map(|name| printable(name)).collect();
            let more = if names.len() > some.len() { " …" } else { "" };
            Err(needed(format!("--model is needed: {url} lists {} models", names.len()))
                .hint(format!("such as {}{more}", some.join(", "))))
        }
    }
}

/// Changes the user's file; returns its path.
fn change(
    common: &Common,
    edit: impl FnOnce(&str) -> Result<String, models::EditError>,
) -> Result<PathBuf, ErrorReport> {
    let path = configuration_file(common)?;
    let original = file::read(&path)?;
    let text = original.as_ref().map(file::Original::text).unwrap_or_default();
    let new = edit(text).map_err(|error| {
        let report = |code| ErrorReport::new(code, error.to_string()).field("NAME");
        match &error {
            models::EditError::Exists(_) => report(Code::InvalidValue).hint("--replace replaces it"),
            models::EditError::Missing(_) => report(Code::UnknownName).hint("hotcell model list names them"),
            _ => ErrorReport::new(Code::Configuration, format!("{}: {error}", path.display())),
        }
    })?;
    // A file that hotcell cannot read would stop every command.
    Settings::parse(&new, &path).map_err(hotcell_config::of_file)?;
    if new == text {
        return Ok(path);
    }
    let kept = file::replace(&path, original.as_ref(), &new, false)?;
    // Only a table of ours has changed: the copy of the former text is for files of other programs.
    if let Some(kept) = kept {
        let _ = std::fs::remove_file(kept);
    }
    Ok(path)
}

fn remove(common: &Common, name: &str) -> Result<u8, ErrorReport> {
    settings(common)?.endpoint(name).map_err(|e| unknown(&e, "NAME"))?;
    let path = change(common, |text| models::without(text, name))?;
    if common.json {
        return list(common);
    }
    if !common.quiet {
        notes::say(format!("{name} is removed from {}", path.display()));
    }
    Ok(0)
}

fn list(common: &Common) -> Result<u8, ErrorReport> {
    let settings = settings(common)?;
    let prices = PriceTable::published();
    let models: Vec<_> = settings.endpoints.values().map(|endpoint| shown(endpoint, &prices)).collect();
    let list = ModelList { schema: SCHEMA.to_owned(), models, roles: settings.roles };
    if common.json {
        return Ok(printed(exit::print_json(&list), 0));
    }
    if list.models.is_empty() {
        if !common.quiet {
            notes::say(none());
        }
        return Ok(0);
    }
    Ok(printed(exit::print_text(&table(&list)), 0))
}

fn shown(endpoint: &Endpoint, prices: &PriceTable) -> Model {
    let known = |price: hotcell_models::Price, source: &str| ModelPrice {
        kind: "known".to_owned(),
        input: Some(price.input),
        cached: price.cached,
        output: Some(price.output),
        source: Some(source.to_owned()),
    };
    let other = |kind: &str| ModelPrice {
        kind: kind.to_owned(),
        input: None,
        cached: None,
        output: None,
        source: None,
    };
    let price = match endpoint.price {
        Some(DeclaredPrice::Free) => other("free"),
        Some(DeclaredPrice::Tokens(price)) => known(price, "configuration"),
        None if endpoint.is_local() => other("free"),
        None => match prices.price(endpoint.provider.name(), &endpoint.model) {
            Some(price) => known(price, &prices.date),
            None => other("unknown"),
        },
    };
    Model {
        name: endpoint.name.clone(),
        provider: endpoint.provider.name().to_owned(),
        url: endpoint.url.to_string(),
        model: endpoint.model.clone(),
        key: endpoint.key.as_ref().map(ToString::to_string),
        window: endpoint.window,
        prompts: endpoint.prompts,
        price,
    }
}

fn table(list: &ModelList) -> String {
    let rows: Vec<[String; 5]> = list
        .models
        .iter()
        .map(|model| {
            let price = match (model.price.input, model.price.output) {
                (Some(input), Some(output)) => format!("${input}/${output} per million"),
                _ => model.price.kind.clone(),
            };
            let key = model.key.clone().unwrap_or_else(|| "no key".to_owned());
            [model.name.clone(), model.provider.clone(), printable(&model.model), price, printable(&key)]
        })
        .collect();
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [wide(0), wide(1), wide(2), wide(3)];
    let mut text = String::new();
    for (row, model) in rows.iter().zip(&list.models) {
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(&format!("{}  {}\n", row[4], printable(&model.url)));
    }
    for (role, names) in &list.roles {
        text.push_str(&format!("role {role}: {}\n", names.join(", then ")));
    }
    text
}

fn check(
    common: &Common,
    name: Option<&str>,
    window: Option<u32>,
    timeout: Duration,
) -> Result<u8, ErrorReport> {
    let settings = settings(common)?;
    let endpoints: Vec<_> = match name {
        Some(name) => vec![settings.endpoint(name).map_err(|e| unknown(&e, "NAME"))?.clone()],
        None if settings.endpoints.is_empty() => return Err(none()),
        None => settings.endpoints.values().cloned().collect(),
    };
    let ledger = ledger(common)?;
    let purpose = Purpose::new(CHECK_ROLE, None, None).map_err(|e| of_state(&e))?;
    let runtime = runtime().map_err(|e| internal(&e))?;
    let mut checks = Checks { schema: CHECK_SCHEMA.to_owned(), checks: Vec::new() };
    for endpoint in &endpoints {
        let deadline = Instant::now() + timeout;
        let (check, replies) =
            runtime.block_on(hotcell_models::check(endpoint, window, deadline)).map_err(|e| of_model(&e))?;
        for reply in &replies {
            record(&ledger, Call::of_reply(&purpose, reply));
        }
        if !common.json {
            let _ = exit::print_text(&lines(&check));
        }
        checks.checks.push(check);
    }
    let code = u8::from(checks.checks.iter().any(|check| !check.good));
    if common.json {
        return Ok(printed(exit::print_json(&checks), code));
    }
    Ok(code)
}

/// A check, for people.
fn lines(check: &Check) -> String {
    let verdict = if check.good { "good" } else { "NOT GOOD" };
    let mut text = format!(
        "{verdict}  {} ({}, {}) at {}\n",
        check.name,
        check.provider,
        printable(&check.model),
        check.url
    );
    let mut row = |name: &str, value: &str| text.push_str(&format!("  {name:10} {}\n", printable(value)));
    match (&check.models, &check.models_problem, check.listed) {
        (Some(models), _, Some(true)) => row("models", &format!("{} listed, with this one", models.len())),
        (Some(models), ..) => {
            let some: Vec<_> = models.iter().take(8).map(String::as_str).collect();
            row("models", &format!("not among the {} listed: {}", models.len(), some.join(", ")));
        }
        (None, problem, _) => row("models", &format!("no list: {}", problem.as_deref().unwrap_or_default())),
    }
    match (&check.completion, &check.completion_problem) {
        (Some(answer), problem) => {
            let problem = problem.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
            let counts = if answer.counts_tokens { "" } else { "; the server counts no tokens" };
            row(
                "reply",
                &format!(
                    "{:?} by {} in {:.1} s, cost {}{counts}{problem}",
                    answer.text, answer.model, answer.seconds, answer.cost
                ),
            );
        }
        (None, problem) => row("reply", problem.as_deref().unwrap_or_default()),
    }
    match (&check.window, check.stated_window) {
        (Some(proof), _) => {
            let read = proof.read.map(|read| format!(" ({read} as it counts)")).unwrap_or_default();
            row(
                "window",
                &match proof.result {
                    WindowResult::Holds => {
                        format!("a prompt of about {} tokens{read} is read whole", proof.asked)
                    }
                    WindowResult::Cut => {
                        format!(
                            "CUT: of a prompt of about {} tokens{read} a part was left out in silence",
                            proof.asked
                        )
                    }
                    WindowResult::Refused => {
                        format!("refused: {}", proof.problem.as_deref().unwrap_or_default())
                    }
                    WindowResult::Unproven => format!(
                        "unproven: of about {} tokens{read} the model did not repeat the mark at the beginning",
                        proof.asked
                    ),
                },
            );
        }
        (None, Some(stated)) => row("window", &format!("{stated} tokens, as the server states")),
        (None, None) => row("window", "not stated by the server; --window N proves one"),
    }
    text
}
