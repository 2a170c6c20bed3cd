//! `hotcell agent run` and `hotcell agent definitions`: verbs of agent definitions.

use std::sync::Arc;

use hotcell_config::Configuration;
use hotcell_definitions::catalog::Entry;
use hotcell_definitions::definition::Kind;
use hotcell_definitions::inputs::typed;
use hotcell_definitions::response::{Mode, Status};
use hotcell_definitions::tools::missing;
use hotcell_definitions::{
    Cache, Catalog, Definition, Inputs, Means, Options, PluginTools, Response, Source, Tools, execute,
};
use hotcell_plugins::Caller;
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::args::{AgentRunArgs, Common, VerbCommand};
use crate::context::{configuration, runtime, state};
use crate::exit::{self, printed};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::usage;

/// Value of the `schema` field of a list.
pub const SCHEMA: &str = "hotcell.agent_definitions/1";
/// Bar before words of others.
const BAR: &str = "| ";

/// Agent definitions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionList {
    /// Always `hotcell.agent_definitions/1`.
    pub schema: String,
    /// Definitions by name and version.
    pub definitions: Vec<Listed>,
    /// Files that cannot be used, with the reasons.
    pub broken: Vec<String>,
}

/// A definition.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// Name and version.
    pub verb: String,
    /// With its inputs; `?` marks those that may be left out.
    pub signature: String,
    /// Purpose.
    pub description: String,
    /// File, or `example`.
    pub source: String,
    /// JSON Schema of the inputs.
    pub inputs: Value,
    /// JSON Schema of the answer.
    pub returns: Value,
    /// Tools that it calls, in an order in which they can run.
    pub tools: Vec<ListedTool>,
    /// Whether the verb has a prompt, with which a configured model answers.
    pub prompt: bool,
}

/// A tool that a definition calls.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListedTool {
    /// Name in the definition.
    pub name: String,
    /// Tool.
    pub tool: String,
    /// Reason why it cannot be called now, with the command that changes it; `null` when it can.
    pub lacks: Option<String>,
}

/// Runs the command; returns its exit status.
pub fn agent(common: &Common, command: &VerbCommand) -> anyhow::Result<u8> {
    let runtime = runtime()?;
    let quick = runtime.block_on(async {
        tokio::select! {
            done = answer(common, command) => done,
            () = interrupted() => Ok(exit::INTERRUPTED),
        }
    });
    Ok(quick.unwrap_or_else(|report| {
        let json = common.json
            || matches!(command, VerbCommand::Run(args) if args.words.iter().any(|w| w == "--json"));
        usage::fail(&report, json)
    }))
}

async fn answer(common: &Common, command: &VerbCommand) -> Result<u8, ErrorReport> {
    // No project's configuration: a repository must not define what runs with the operator's grants.
    let configuration = configuration(common, None)?;
    let catalog = Catalog::read(configuration.user.agents.folder.as_deref());
    match command {
        VerbCommand::Run(args) => run(common, &configuration, &catalog, args).await,
        VerbCommand::Definitions { verb } => {
            definitions(common, &configuration, &catalog, verb.as_deref()).await
        }
    }
}

fn caller(configuration: &Configuration) -> Result<Arc<Caller>, ErrorReport> {
    let program = std::env::current_exe().map_err(|e| {
        ErrorReport::new(Code::Internal, format!("hotcell's own program cannot be found: {e}"))
    })?;
    Caller::new(configuration, program).map(Arc::new)
}

/// Options that stand among the inputs, and the inputs.
#[derive(Debug, Default, PartialEq)]
struct Words {
    json: bool,
    quiet: bool,
    data: bool,
    no_cache: bool,
    inputs: Map<String, Value>,
}

impl Words {
    fn read(definition: &Definition, args: &AgentRunArgs) -> Result<Self, ErrorReport> {
        let mut words = Self { data: args.data, no_cache: args.no_cache, ..Self::default() };
        for pair in &args.input {
            words.pair(definition, pair)?;
        }
        let mut rest = args.words.iter();
        while let Some(word) = rest.next() {
            let bad = |why: String| ErrorReport::new(Code::Usage, why).field(printable(word));
            match word.as_str() {
                "--json" => words.json = true,
                "-q" | "--quiet" => words.quiet = true,
                "--data" => words.data = true,
                "--no-cache" => words.no_cache = true,
                "--input" => {
                    let pair =
                        rest.next().ok_or_else(|| bad("--input is followed by NAME=VALUE".to_owned()))?;
                    words.pair(definition, pair)?;
                }
                _ => {
                    let Some(option) = word.strip_prefix("--") else {
                        let why = format!("{} is not expected; inputs are --NAME VALUE", printable(word));
                        return Err(bad(why));
                    };
                    let (name, value) = match option.split_once('=') {
                        Some((name, value)) => (name, Some(value.to_owned())),
                        None => (option, None),
                    };
                    let name = name.replace('-', "_");
                    let Some(input) = definition.inputs.get(&name) else {
                        return Err(unknown(definition, word, &name));
                    };
                    let value = match value {
                        Some(value) => value,
                        // A switch has no value unless one follows.
                        None if input.kind == Kind::Boolean
                            && rest.as_slice().first().is_none_or(|next| next.starts_with("--")) =>
                        {
                            "true".to_owned()
                        }
                        None => {
                            rest.next().cloned().ok_or_else(|| bad(format!("--{option} needs a value")))?
                        }
                    };
                    words.add(definition, &name, &value)?;
                }
            }
        }
        Ok(words)
    }

    fn pair(&mut self, definition: &Definition, pair: &str) -> Result<(), ErrorReport> {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            ErrorReport::new(Code::InvalidValue, format!("{}: it has no '='", printable(pair)))
                .field("--input")
        })?;
        self.add(definition, &name.replace('-', "_"), value)
    }

    fn add(&mut self, definition: &Definition, name: &str, value: &str) -> Result<(), ErrorReport> {
        match self.inputs.insert(name.to_owned(), typed(definition, name, value)) {
            None => Ok(()),
            Some(_) => {
                let why = format!("the input {} is given twice", printable(name));
                Err(ErrorReport::new(Code::Usage, why).field(name))
            }
        }
    }
}

fn unknown(definition: &Definition, word: &str, name: &str) -> ErrorReport {
    let why = format!("{} is no input of {}", printable(word), definition.signature());
    let report = ErrorReport::new(Code::UnknownOption, why).field(printable(word));
    match likely(name, definition.inputs.keys().map(String::as_str)) {
        Some(near) => report.hint(format!("did you mean --{}?", near.replace('_', "-"))),
        None if ["state", "config"].contains(&name) => report.hint(format!(
            "options of hotcell are written before the verb: hotcell agent run --{name} … VERB"
        )),
        None => report,
    }
}

async fn run(
    common: &Common,
    configuration: &Configuration,
    catalog: &Catalog,
    args: &AgentRunArgs,
) -> Result<u8, ErrorReport> {
    let definition = &catalog.find(&args.verb)?.definition;
    let words = Words::read(definition, args)?;
    let inputs = Inputs::check(definition, &words.inputs)?;
    let choice = state(common, configuration);
    let state = choice.path().map_err(|e| ErrorReport::new(Code::State, e.to_string()).field("--state"))?;
    let options = Options {
        means: match words.data {
            true => Err("--data was given".to_owned()),
            false => Means::of(&configuration.user.models, definition, state),
        },
        cache: (!words.no_cache).then(|| Cache::of(state)),
    };
    let caller = caller(configuration)?;
    let tools = PluginTools::new(Arc::clone(&caller), "command").await?;
    let response = execute(definition, &inputs, &tools, &options).await;
    caller.close().await;
    let code = response.exit_status();
    if common.json || words.json {
        return Ok(printed(exit::print_json(&response), code));
    }
    let text = shown(&response, common.quiet || words.quiet);
    Ok(printed(exit::print_text(&text), code))
}

/// A response for people: every word of others behind a bar, without invisible characters.
fn shown(response: &Response, quiet: bool) -> String {
    let metadata = &response.metadata;
    let mut text = format!("{}: {}\n", response.verb, printable(&response.summary));
    if !quiet {
        let mode = match metadata.mode {
            Mode::IdeIntegrated => "data of the tools",
            Mode::StandaloneAi => "answered by a model",
        };
        text.push_str(&format!("{mode}: {}\n", printable(&metadata.why)));
        if let Some(usage) = &metadata.usage {
            let cost = usage.dollars.map_or_else(|| usage.cost.clone(), |dollars| format!("${dollars:.4}"));
            let model = printable(metadata.llm_model.as_deref().unwrap_or("no model"));
            let tokens =
                usage.tokens.map_or_else(|| "tokens not counted".to_owned(), |n| format!("{n} tokens"));
            text.push_str(&format!("{model}: {} replies, {tokens}, {cost}\n", usage.replies));
        }
        let wide = metadata.tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or_default();
        for tool in &metadata.tools {
            let status = match (tool.status, tool.cached) {
                (Status::Done, true) => "kept",
                (Status::Done, false) => "done",
                (Status::Failed, _) => "FAILED",
                (Status::Skipped, _) => "skipped",
            };
            let why = tool.why.as_deref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
            text.push_str(&format!(
                "  {status:7} {:wide$}  {} ({} ms){why}\n",
                tool.name, tool.tool, tool.time_ms
            ));
        }
        if !metadata.defaults.is_empty() {
            text.push_str(&format!(
                "without data, so that these are defaults: {}\n",
                metadata.defaults.join(", ")
            ));
        }
    }
    let result = serde_json::to_string_pretty(&response.result).unwrap_or_default();
    text.push_str(&barred(&result, BAR));
    if response.raw_data.is_some() && !quiet {
        text.push_str(&format!(
            "{} ms; --json has the data of the tools as well\n",
            metadata.execution_time_ms
        ));
    }
    text
}

async fn definitions(
    common: &Common,
    configuration: &Configuration,
    catalog: &Catalog,
    verb: Option<&str>,
) -> Result<u8, ErrorReport> {
    let entries: Vec<&Entry> = match verb {
        Some(verb) => vec![catalog.find(verb)?],
        None => catalog.entries.iter().collect(),
    };
    let caller = caller(configuration)?;
    let tools = PluginTools::new(Arc::clone(&caller), "command").await?;
    let list = DefinitionList {
        schema: SCHEMA.to_owned(),
        definitions: entries.iter().map(|entry| listed(entry, &tools)).collect(),
        broken: catalog.broken.iter().map(|error| printable(&error.to_string())).collect(),
    };
    caller.close().await;
    let lacks = verb.is_some()
        && list.definitions.iter().any(|one| one.tools.iter().any(|tool| tool.lacks.is_some()));
    let code = u8::from(lacks || (verb.is_none() && !list.broken.is_empty()));
    if common.json {
        return Ok(printed(exit::print_json(&list), code));
    }
    for broken in list.broken.iter().filter(|_| verb.is_none()) {
        notes::say(format!("warning: {broken}"));
    }
    let text: String = match verb {
        None => list.definitions.iter().map(line).collect(),
        Some(_) => list.definitions.iter().map(page).collect(),
    };
    Ok(printed(exit::print_text(&text), code))
}

fn listed(entry: &Entry, tools: &PluginTools) -> Listed {
    let definition = &entry.definition;
    let tool = |name: &String| {
        let step = &definition.tools[name];
        let lacks = match tools.facts(&step.tool) {
            Ok(facts) => missing(&facts, &step.needs),
            Err(why) => Some(why),
        };
        ListedTool { name: name.clone(), tool: step.tool.clone(), lacks }
    };
    Listed {
        verb: definition.verb.to_string(),
        signature: definition.signature(),
        description: printable(&definition.description),
        source: match &entry.source {
            Source::Example => "example".to_owned(),
            Source::File(path) => path.display().to_string(),
        },
        inputs: definition.input_schema(),
        returns: definition.returns.clone(),
        tools: definition.layers.iter().flatten().map(tool).collect(),
        prompt: definition.prompt.is_some(),
    }
}

fn line(one: &Listed) -> String {
    let lacking = one.tools.iter().filter(|tool| tool.lacks.is_some()).count();
    let note = match lacking {
        0 => String::new(),
        _ => format!(
            " ({lacking} of {} tools cannot be called: hotcell agent definitions {})",
            one.tools.len(),
            one.verb
        ),
    };
    format!("{}{note}\n  {}\n", one.signature, one.description)
}

fn page(one: &Listed) -> String {
    let mut text = format!("{}\n  {}\n  from {}\n", one.signature, one.description, printable(&one.source));
    for (name, input) in one.inputs["properties"].as_object().into_iter().flatten() {
        let about = printable(input["description"].as_str().unwrap_or_default());
        let kind = input["type"].as_str().unwrap_or_default();
        text.push_str(&format!("  --{} {kind}: {about}\n", name.replace('_', "-")));
    }
    for tool in &one.tools {
        match &tool.lacks {
            None => text.push_str(&format!("  tool {}: {}\n", tool.name, tool.tool)),
            Some(why) => text.push_str(&format!(
                "  tool {}: {} CANNOT BE CALLED: {}\n",
                tool.name,
                tool.tool,
                printable(why)
            )),
        }
    }
    text.push_str(if one.prompt {
        "  answered by a model where one is configured\n"
    } else {
        "  answers with data only\n"
    });
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_become_inputs_by_their_types() {
        let catalog = Catalog::read(None);
        let definition = &catalog.find("review.analyze@v1").unwrap().definition;
        let read = |words: &[&str], input: &[&str]| {
            let own = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
            let args = AgentRunArgs {
                verb: String::new(),
                data: false,
                no_cache: false,
                input: own(input),
                words: own(words),
            };
            Words::read(definition, &args)
        };
        let wanted = json!({ "repo": "a/b", "pr_number": 7 });
        for (words, input) in [
            (&["--repo", "a/b", "--pr-number", "7"][..], &[][..]),
            (&["--repo=a/b", "--pr_number=7"], &[]),
            (&["--input", "repo=a/b", "--pr-number", "7"], &[]),
            (&[], &["repo=a/b", "pr-number=7"]),
        ] {
            assert_eq!(Value::Object(read(words, input).unwrap().inputs), wanted, "{words:?}");
        }
        let all = read(&["--repo", "a/b", "--json", "-q", "--data", "--no-cache"], &[]).unwrap();
        assert!(all.json && all.quiet && all.data && all.no_cache);
        for (words, word) in [
            (&["--rep", "a"][..], "did you mean --repo?"),
            (&["--repo"], "needs a value"),
            (&["a/b"], "inputs are --NAME VALUE"),
            (&["--repo", "a", "--repo", "b"], "given twice"),
            (&["--input", "repo"], "no '='"),
        ] {
            let error = read(words, &[]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
