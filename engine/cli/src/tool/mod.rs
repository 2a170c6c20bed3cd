//! `hotcell tool`: plugins with their permissions, and their tools.

pub(crate) mod arguments;
pub(crate) mod author;
pub(crate) mod dev;
mod lacking;
pub(crate) mod publish;

use std::ffi::OsStr;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use hotcell_plugins::failures::{exit_of, report_of};
use hotcell_plugins::report::{State, Tool};
use hotcell_plugins::{
    AddOptions, Added, Beyond, Caller, Choice, Inspection, InvokeError, Plugins, ToolList,
};
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use hotcell_tools::{Answer, CallError, is_without_reason};

use crate::args::{Common, ToolCommand};
use crate::context::{configuration, current_folder, runtime};
use crate::exit::printed;
use crate::quote::for_shell;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::tool::dev::Dev;
use crate::tool::lacking::{lacking, lapsed};
use crate::{exit, usage};

/// Maximum size of the arguments in bytes.
const MAX_ARGUMENT_BYTES: u64 = 16 << 20;
/// Exit status when a tool answered with an error.
const TOOL_ERROR_STATUS: u8 = 1;
/// Maximum number of functions that `tool add` lists because they are not tools.
const MAX_OMITTED_FUNCTIONS: usize = 10;
/// Bytes of what a tool printed last that stand for a reason that it does not give.
const MAX_PRINTED_BYTES: usize = 2_000;
/// Description of a plugin whose instances are kept.
const KEEPS: &str = "an instance for each caller between its calls";
/// Digits of a digest that people are shown.
const DIGEST_DIGITS: usize = 12;

/// Runs the command; returns its exit status.
pub fn tool(common: &Common, command: &ToolCommand) -> anyhow::Result<u8> {
    let runtime = runtime()?;
    let answered = runtime.block_on(async {
        tokio::select! {
            answered = answer(common, command) => answered,
            () = interrupted() => Ok(exit::INTERRUPTED),
        }
    });
    Ok(answered.unwrap_or_else(|report| usage::fail(&report, common.json)))
}

async fn answer(common: &Common, command: &ToolCommand) -> Result<u8, ErrorReport> {
    let configuration = configuration(common, None)?;
    let plugins = Plugins::of(&configuration)?;
    let cwd = current_folder();
    let caller = || Caller::new(&configuration, std::env::current_exe().map_err(|e| nowhere(&e))?);
    let say = |line: &str| {
        if !common.json && !common.quiet {
            notes::say(line);
        }
    };
    match command {
        ToolCommand::List { plugin: None } => {
            let list = plugins.list()?;
            let serving = plugins.serving()?;
            if list.tools.is_empty() && serving.is_empty() {
                say("no plugins yet; hotcell tool add FILE|DIR|URL|oci://REF loads one");
            }
            let is_without_tools = |plugin: &str| !list.tools.iter().any(|tool| tool.plugin == plugin);
            serving
                .iter()
                .filter(|one| is_without_tools(&one.plugin))
                .filter_map(|one| serves(&plugins, &one.plugin, true))
                .for_each(|line| say(&line));
            Ok(show(common, &list, &table(&list)))
        }
        ToolCommand::List { plugin: Some(plugin) } => {
            let list = plugins.list_of(plugin)?;
            if list.tools.is_empty() {
                serves(&plugins, plugin, true).into_iter().for_each(|line| say(&line));
            }
            shown(common, &list)
        }
        ToolCommand::Add { source, key, signature, replace } => {
            let options = AddOptions { key: key.clone(), signature: signature.clone(), replace: *replace };
            let caller = caller()?;
            let (name, added) = plugins.add(source, &cwd, &options, caller.hosts()).await?;
            caller.close().await;
            match added {
                Added::New => say(&fresh(&plugins, &name)),
                Added::Updated => say(&format!("{name} is updated")),
                Added::Same => say(&format!("{name} is there already, the same")),
                Added::Waits => {
                    say(&format!(
                        "another version of {name} waits, the present one is used; look at it: hotcell tool accept {name}"
                    ));
                }
            }
            left_out(&plugins, &name).iter().for_each(|line| say(line));
            let list = plugins.list_of(&name)?;
            serves(&plugins, &name, list.tools.is_empty()).into_iter().for_each(|line| say(&line));
            shown(common, &list)
        }
        ToolCommand::Remove { plugin } => {
            plugins.remove(plugin)?;
            let list = plugins.list()?;
            Ok(show(common, &list, ""))
        }
        ToolCommand::Inspect { what } => {
            let caller = caller()?;
            let page = plugins.inspect(what, &cwd, caller.hosts()).await?;
            caller.close().await;
            Ok(show(common, &page, &page_of(&page)))
        }
        ToolCommand::Call { name, args, pairs } => {
            let arguments = match pairs.is_empty() {
                true => given_arguments(args)?,
                false => arguments::arguments(pairs, &schema_of(&plugins, name))?,
            };
            not_offered(&plugins, name)?;
            let caller = caller()?;
            let answer = caller.call(name, &arguments).await;
            let failed = match &answer {
                Ok(answer) => answer.is_error,
                Err(uncalled) => matches!(uncalled, InvokeError::Call(CallError::Trap { .. })),
            };
            // A call that was refused, or ended its instance, left nothing.
            let answered = answer.as_ref().is_ok_and(|answer| !answer.is_error);
            let beyond = if failed { caller.beyond(name, &arguments) } else { Beyond::default() };
            caller.close().await;
            // No plugin's name has an underscore.
            let plugin = name.split_once('_').map_or(&**name, |(plugin, _)| plugin);
            let code = said(common, name, plugin, answer)?;
            if answered && let Some(line) = kept(&plugins, name) {
                say(&line);
            }
            let lapsed = if failed { lapsed(&plugins, name) } else { Vec::new() };
            lacking(name, &beyond, &lapsed).into_iter().for_each(|line| say(&line));
            Ok(code)
        }
        ToolCommand::Grant { plugin, capabilities } => {
            shown(common, &plugins.grant(plugin, capabilities, &cwd)?)
        }
        ToolCommand::Revoke { plugin, capabilities, .. } => {
            shown(common, &plugins.revoke(plugin, capabilities, &cwd)?)
        }
        ToolCommand::Offer { plugin, only, hide, .. } => {
            let choice = match (only.is_empty(), hide.is_empty()) {
                (false, _) => Choice::Only(only.clone()),
                (_, false) => Choice::Hide(hide.clone()),
                _ => Choice::All,
            };
            shown(common, &plugins.offer(plugin, &choice)?)
        }
        ToolCommand::Accept { plugin, digest: Some(digest) } => {
            shown(common, &plugins.accept(plugin, digest)?)
        }
        ToolCommand::New { folder, lang } => Ok(author::new(common, folder, *lang)),
        ToolCommand::Build { folder, component, out } => {
            Ok(author::build(common, folder, component.as_deref(), out.as_deref()))
        }
        ToolCommand::Test { folder, out } => author::test(common, folder, out.as_deref()).await,
        ToolCommand::Dev { folder, once, call, pairs } => {
            let asked = Dev { folder, once: *once, call: call.as_deref(), pairs };
            dev::dev(common, &asked).await
        }
        ToolCommand::Publish { source, reference, sign } => {
            publish::publish(common, source, reference, sign.as_deref()).await
        }
        ToolCommand::Accept { plugin, digest: None } => {
            let page = plugins.waiting(plugin)?;
            let text = waiting(&page);
            Ok(show(common, &page, &text))
        }
    }
}

/// The schema of a tool's arguments; null if there is no such tool, which the call will report.
fn schema_of(plugins: &Plugins, name: &str) -> serde_json::Value {
    let tools = plugins.list().map(|list| list.tools).unwrap_or_default();
    tools.into_iter().find(|tool| tool.name == name).map(|tool| tool.input_schema).unwrap_or_default()
}

/// A person is told how a tool that is not offered comes to be; to everybody else there is no such tool.
fn not_offered(plugins: &Plugins, name: &str) -> Result<(), ErrorReport> {
    let tools = plugins.list().map(|list| list.tools).unwrap_or_default();
    match tools.into_iter().find(|tool| tool.name == name && !tool.offered) {
        None => Ok(()),
        Some(tool) => {
            let report = ErrorReport::new(Code::UnknownName, format!("the tool {name:?} is not offered"));
            let hint = format!("hotcell tool offer {} --all offers all of its tools", tool.plugin);
            Err(report.field("NAME").hint(hint))
        }
    }
}

/// A command is a session of its own.
fn kept(plugins: &Plugins, name: &str) -> Option<String> {
    let tools = plugins.list().map(|list| list.tools).unwrap_or_default();
    let tool = tools.into_iter().find(|tool| tool.name == name && tool.session)?;
    Some(format!(
        "what {} keeps, and its handles, end with this command; a client of hotcell mcp has them for longer",
        tool.plugin
    ))
}

/// A plugin that is new: whether there is anything to grant.
fn fresh(plugins: &Plugins, name: &str) -> String {
    let (asks, _) = plugins.requests_and_serves(name).unwrap_or_default();
    if asks.is_empty() {
        return format!("{name} is added; it asks for nothing and holds nothing");
    }
    let asks = asks.join(" ");
    format!(
        "{name} is added and holds nothing; it asks for {asks}: hotcell tool grant {name} … gives it that"
    )
}

/// Resources and prompts of a plugin that was added, if it has any.
fn serves(plugins: &Plugins, name: &str, has_no_tools: bool) -> Option<String> {
    let (_, serves) = plugins.requests_and_serves(name).ok()?;
    let none = if has_no_tools { "; it has no tools" } else { "" };
    (!serves.is_empty())
        .then(|| format!("{name} serves {} to clients of hotcell mcp{none}", serves.join(" and ")))
}

/// Exported functions that are not tools, with the reasons.
fn left_out(plugins: &Plugins, name: &str) -> Vec<String> {
    let left_out = plugins.left_out(name).unwrap_or_default();
    let more = left_out.len().saturating_sub(MAX_OMITTED_FUNCTIONS);
    let line = |(function, why): &(String, String)| {
        format!("{} is no tool: {}", printable(function), printable(why))
    };
    let mut lines: Vec<String> = left_out.iter().take(MAX_OMITTED_FUNCTIONS).map(line).collect();
    if more > 0 {
        lines.push(format!("and {more} more; hotcell tool inspect {name} names all"));
    }
    lines
}

fn nowhere(error: &std::io::Error) -> ErrorReport {
    ErrorReport::new(Code::Internal, format!("hotcell's own program cannot be found: {error}"))
}

fn show<T: serde::Serialize>(common: &Common, value: &T, text: &str) -> u8 {
    printed(if common.json { exit::print_json(value) } else { exit::print_text(text) }, 0)
}

fn shown(common: &Common, list: &ToolList) -> Result<u8, ErrorReport> {
    Ok(show(common, list, &plugin_text(list)))
}

/// Reads the arguments given by `--args`.
pub fn given_arguments(named: &OsStr) -> Result<String, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--args");
    let mut text = String::new();
    let read =
        |from: &mut dyn Read, text: &mut String| from.take(MAX_ARGUMENT_BYTES + 1).read_to_string(text);
    if named == "-" {
        read(&mut std::io::stdin().lock(), &mut text)
            .map_err(|e| bad(format!("the arguments on standard input cannot be read: {e}")))?;
    } else if let Some(file) = named.as_bytes().strip_prefix(b"@") {
        let path = current_folder().join(OsStr::from_bytes(file));
        std::fs::File::open(&path)
            .and_then(|mut file| read(&mut file, &mut text))
            .map_err(|e| bad(format!("the arguments in {} cannot be read: {e}", path.display())))?;
    } else {
        // Bytes that are not UTF-8 would reach the tool as other characters.
        let given = named.to_str();
        given.ok_or_else(|| bad("the arguments are not UTF-8, as JSON is".to_owned()))?.clone_into(&mut text);
    }
    if text.len() as u64 > MAX_ARGUMENT_BYTES {
        return Err(bad(format!("the arguments have more than {MAX_ARGUMENT_BYTES} bytes")));
    }
    if text.trim().is_empty() {
        return Err(bad("the arguments are empty; write {} for none".to_owned()));
    }
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Object(_)) => Ok(text),
        Ok(_) => Err(bad("the arguments are a JSON object, such as {\"path\": \"a.txt\"}".to_owned())),
        Err(e) => Err(bad(format!("the arguments are no JSON: {e}"))
            .hint("quote them for the shell: --args '{\"path\": \"a.txt\"}'")),
    }
}

/// Prints the result of a call, and returns the exit status. `component` is what `tool inspect` takes.
pub fn said(
    common: &Common,
    name: &str,
    component: &str,
    answer: Result<Answer, InvokeError>,
) -> Result<u8, ErrorReport> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(InvokeError::Report(report)) => return Err(report),
        Err(InvokeError::Call(error)) => {
            let code = exit_of(&error);
            let mut report = report_of(&error);
            report.message = format!("{name}: {}", report.message);
            if matches!(error, CallError::Arguments { .. }) {
                let shows = format!("hotcell tool inspect {} --json shows the schema", for_shell(component));
                report = report.field("--args").hint(shows);
            }
            let failed = usage::fail(&report, common.json);
            return Ok(if failed == exit::REFUSED { code } else { failed });
        }
    };
    if !common.quiet {
        for denied in &answer.denied {
            notes::say(format!("{name} was denied {denied}"));
        }
        if common.verbose > 0 {
            for line in answer.stdout.lines().chain(answer.stderr.lines()) {
                notes::say(format!("{name}: {line}"));
            }
        }
    }
    let code = if answer.is_error { TOOL_ERROR_STATUS } else { 0 };
    if common.json {
        return Ok(printed(exit::print_json_text(&format!("{}\n", answer.value.get())), code));
    }
    let text = text_of(&answer);
    if answer.is_error {
        notes::say(format!("{name}: {}", text.trim_end()));
        return Ok(code);
    }
    // On a terminal, a component must not be able to move the cursor or set colours.
    let text = match std::io::stdout().is_terminal() {
        true => barred(&text, ""),
        false => text,
    };
    Ok(printed(exit::print_text(&text), code))
}

/// An answer for people: its text if there is only one, otherwise JSON on several lines.
fn text_of(answer: &Answer) -> String {
    let value: serde_json::Value = serde_json::from_str(answer.value.get()).unwrap_or_default();
    let alone =
        value.as_object().filter(|object| object.len() == 1).and_then(|object| object.values().next());
    let text = match (alone, answer.is_error) {
        // Programs say on standard error why they fail.
        (Some(error), true) if is_without_reason(error) => match answer.stderr.trim() {
            "" => "it says that it failed, and gives no reason".to_owned(),
            printed => {
                let from = printed.len().saturating_sub(MAX_PRINTED_BYTES);
                let from = (from..=printed.len()).find(|at| printed.is_char_boundary(*at)).unwrap_or(0);
                format!("it says that it failed; it printed: {}", &printed[from..])
            }
        },
        (Some(serde_json::Value::String(text)), _) => text.clone(),
        (Some(alone), true) => alone.to_string(),
        _ => serde_json::to_string_pretty(&value).unwrap_or_default(),
    };
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// Maximum number of characters of a description in a table.
const MAX_SAID: usize = 60;

/// The first line of a description; one that is too long ends with its last whole word.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    let Some((end, _)) = line.char_indices().nth(MAX_SAID) else { return line.to_owned() };
    let cut = &line[..end];
    let whole = cut.rfind(' ').map_or(cut, |at| &cut[..at]);
    format!("{}…", whole.trim_end_matches([' ', ',', ';', ':', '.']))
}

/// Width of a column of names.
fn width<'a>(names: impl Iterator<Item = &'a str>, least: usize) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(least, 40)
}

fn table(list: &ToolList) -> String {
    if list.tools.is_empty() {
        return String::new();
    }
    let name = width(list.tools.iter().map(|tool| &*tool.name), 4);
    let plugin = width(list.tools.iter().map(|tool| &*tool.plugin), 6);
    let mut text = format!("{:<name$}  {:<plugin$}  WHAT IT SAYS OF ITSELF\n", "NAME", "PLUGIN");
    for tool in &list.tools {
        let hidden = if tool.offered { "" } else { "(not offered) " };
        let says = first_line(&tool.description);
        let line = format!("{:<name$}  {:<plugin$}  {hidden}{says}", tool.name, tool.plugin);
        text.push_str(printable(line.trim_end()).as_str());
        text.push('\n');
    }
    text
}

fn lines(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let line = |(name, value): (&str, String)| printable(&format!("{name:<12} {value}")) + "\n";
    rows.into_iter().filter(|(_, value)| !value.is_empty()).map(line).collect()
}

/// A plugin with its tools, with one line for each fact.
fn plugin_text(list: &ToolList) -> String {
    let Some(first) = list.tools.first() else { return String::new() };
    let Tool { plugin, digest, requested, granted, session, not_in_force, state, .. } = first;
    let mut rows = vec![("plugin", plugin.clone()), ("digest", digest.clone())];
    rows.extend(requested.iter().map(|word| ("asks for", word.clone())));
    rows.extend(granted.iter().map(|word| ("may", word.clone())));
    rows.extend(session.then(|| ("keeps", KEEPS.to_owned())));
    rows.extend(not_in_force.iter().map(|n| ("may not", format!("{}: {}", n.capability, n.why))));
    if *state == State::UpdateWaits {
        rows.push(("waits", format!("another version: hotcell tool accept {plugin}")));
    }
    rows.extend(list.tools.iter().map(|tool| {
        let what = first_line(&tool.description);
        let word = if tool.offered { "tool" } else { "not offered" };
        (word, if what.is_empty() { tool.name.clone() } else { format!("{} – {what}", tool.name) })
    }));
    lines(rows)
}

/// The page of a component.
fn page_of(page: &Inspection) -> String {
    let mut rows = vec![
        ("plugin", page.plugin.clone()),
        ("from", page.source.clone()),
        ("digest", page.digest.clone()),
        ("bytes", page.bytes.to_string()),
    ];
    if let Some(manifest) = &page.manifest {
        rows.push(("version", manifest.version.clone()));
        rows.push(("is for", manifest.description.clone()));
        rows.extend(manifest.requested.iter().map(|word| match manifest.reasons.get(word) {
            Some(why) => ("asks for", format!("{word}: {why}")),
            None => ("asks for", word.clone()),
        }));
    }
    rows.extend(page.signatures.iter().map(|key| ("signed by", key.clone())));
    // Its imports could use more than it asks for; only what is asked for can be granted.
    if page.manifest.as_ref().is_none_or(|manifest| manifest.requested.is_empty()) {
        rows.push(("asks for", "nothing".to_owned()));
    }
    let at_most = page.capabilities_at_most.join(" ");
    rows.push(("could use", if at_most.is_empty() { "compute".to_owned() } else { at_most }));
    rows.extend((!page.serves.is_empty()).then(|| ("serves", page.serves.join(" "))));
    rows.extend(page.session.then(|| ("keeps", KEEPS.to_owned())));
    for export in &page.exports {
        rows.push((if export.offered { "tool" } else { "not offered" }, export.tool.clone()));
        rows.extend(export.description.lines().map(|line| ("", format!("  {line}"))));
    }
    rows.extend(page.left_out.iter().map(|l| ("no tool", format!("{}: {}", l.function, l.message))));
    rows.extend(page.imports.iter().map(|import| ("imports", import.clone())));
    lines(rows) + &changes(page)
}

/// The lines between the common beginning and the common end of two texts, so that something is shown even if
/// lines were only reordered.
fn between<'a>(before: &'a str, after: &'a str) -> impl Iterator<Item = String> + 'a {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let head = same(&mut old.iter().zip(&new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let middle = |lines: Vec<&'a str>| lines[head..lines.len() - tail].to_vec();
    let (gone, come) = (middle(old), middle(new));
    let gone = gone.into_iter().map(|line| format!("  - {line}"));
    gone.chain(come.into_iter().map(|line| format!("  + {line}")))
}

fn changes(page: &Inspection) -> String {
    let Some(update) = &page.update else { return String::new() };
    let mut rows = vec![("waits", update.source.clone()), ("its digest", update.digest.clone())];
    rows.extend(update.signatures.iter().map(|key| ("signed by", key.clone())));
    rows.extend(update.changes.iter().map(|line| ("", line.clone())));
    for told in &update.told {
        rows.push(("", format!("{} of {}:", told.what, told.tool)));
        rows.extend(between(told.before.as_deref().unwrap_or_default(), &told.after).map(|line| ("", line)));
    }
    rows.extend(update.grants.iter().map(|grant| ("keeps", grant.clone())));
    lines(rows)
}

/// Everything that a person has to see before a version is accepted.
fn waiting(page: &Inspection) -> String {
    let Some(update) = &page.update else { return String::new() };
    let short: String = update.id.chars().take(DIGEST_DIGITS).collect();
    // The component's digest does not cover the manifest, the source and the signature, which are accepted
    // too.
    let accept = format!(
        "to accept it: hotcell tool accept {} {short}\n({short}… is the digest of all that is shown here; \"its digest\" above is that of the component alone)\n",
        page.plugin
    );
    changes(page) + &accept
}

#[cfg(test)]
mod tests {
    use super::{between, first_line, width};

    #[test]
    fn long_descriptions_end_at_a_word() {
        let words = "a word ".repeat(20);
        for (text, want) in [
            ("short\nmore", "short".to_owned()),
            ("", String::new()),
            (&"x".repeat(60), "x".repeat(60)),
            (&"x".repeat(61), format!("{}…", "x".repeat(60))),
            (&words, format!("{}a…", "a word ".repeat(8))),
            (&format!("{}, and more", "é".repeat(58)), format!("{}…", "é".repeat(58))),
        ] {
            assert_eq!(first_line(text), want, "{text}");
            assert!(first_line(text).chars().count() <= 61);
        }
        for (names, want) in
            [(&[][..], 6), (&["a"], 6), (&["a-plugin-of-a-name"], 18), (&[words.as_str()], 40)]
        {
            assert_eq!(width(names.iter().copied(), 6), want, "{names:?}");
        }
    }

    #[test]
    fn text_changes_are_shown() {
        for (before, after, shown) in [
            ("", "a", "  + a"),
            ("a", "", "  - a"),
            ("a\nb\nc", "a\nx\nc", "  - b|  + x"),
            ("a\nb", "b\na", "  - a|  - b|  + b|  + a"),
            ("a\na", "a", "  - a"),
            ("a", "a", ""),
        ] {
            assert_eq!(between(before, after).collect::<Vec<_>>().join("|"), shown, "{before:?} {after:?}");
        }
    }
}
