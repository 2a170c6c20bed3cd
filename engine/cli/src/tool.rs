//! `hotcell tool`: plugins and what they may do, and their tools.

use std::ffi::OsStr;
use std::io::{IsTerminal, Read};

use hotcell_service::report::{Code, ErrorReport, printable};
use hotcell_service::tools::report::{State, Tool};
use hotcell_service::tools::{AddOptions, Added, Caller, Inspection, Plugins, ToolList, Uncalled};
use hotcell_tools::{Answer, CallError};

use crate::args::{Common, ToolCommand};
use crate::author;
use crate::{configuration, current_folder, exit, interrupted, notes, printed, runtime, usage};

/// The longest arguments, in bytes.
const LONGEST: u64 = 16 << 20;
/// A tool answered with an error.
const SAID_NO: u8 = 1;
/// A limit.
const LIMIT: u8 = 124;
/// Digits of a digest that people are shown.
const DIGITS: usize = 12;

/// Runs the command; its exit status.
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
            if list.tools.is_empty() {
                say("no plugins yet; hotcell tool add FILE|DIR|URL|oci://REF loads one");
            }
            Ok(show(common, &list, &table(&list)))
        }
        ToolCommand::List { plugin: Some(plugin) } => shown(common, &plugins.list_of(plugin)?),
        ToolCommand::Add { source, key, signature, replace } => {
            let options = AddOptions { key: key.clone(), signature: signature.clone(), replace: *replace };
            let caller = caller()?;
            let (name, added) = plugins.add(source, &cwd, &options, caller.hosts()).await?;
            caller.close().await;
            match added {
                Added::New => say(&format!(
                    "{name} is added and holds nothing; hotcell tool grant {name} … gives it something"
                )),
                Added::Updated => say(&format!("{name} is updated")),
                Added::Same => say(&format!("{name} is there already, the same")),
                Added::Waits => {
                    say(&format!(
                        "a newer {name} waits, the old one is used; look at it: hotcell tool accept {name}"
                    ));
                }
            }
            shown(common, &plugins.list_of(&name)?)
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
        ToolCommand::Call { name, args } => {
            let arguments = arguments(args)?;
            let caller = caller()?;
            let answer = caller.call(name, &arguments).await;
            caller.close().await;
            said(common, name, answer)
        }
        ToolCommand::Grant { plugin, capabilities } => {
            shown(common, &plugins.grant(plugin, capabilities, &cwd)?)
        }
        ToolCommand::Revoke { plugin, capabilities, .. } => {
            shown(common, &plugins.revoke(plugin, capabilities, &cwd)?)
        }
        ToolCommand::Accept { plugin, digest: Some(digest) } => {
            shown(common, &plugins.accept(plugin, digest)?)
        }
        ToolCommand::New { folder, lang } => Ok(author::new(common, folder, *lang)),
        ToolCommand::Build { folder, component, out } => {
            Ok(author::build(common, folder, component.as_deref(), out.as_deref()))
        }
        ToolCommand::Test { folder, out } => author::test(common, folder, out.as_deref()).await,
        ToolCommand::Accept { plugin, digest: None } => {
            let page = plugins.waiting(plugin)?;
            let text = waiting(&page);
            Ok(show(common, &page, &text))
        }
    }
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

/// What `--args` names.
fn arguments(named: &OsStr) -> Result<String, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--args");
    let mut text = String::new();
    let shown = named.to_string_lossy();
    let read = |from: &mut dyn Read, text: &mut String| from.take(LONGEST + 1).read_to_string(text);
    let done = if shown == "-" {
        read(&mut std::io::stdin().lock(), &mut text)
    } else if let Some(file) = shown.strip_prefix('@') {
        let mut file = std::fs::File::open(current_folder().join(file))
            .map_err(|e| bad(format!("{file}: cannot be opened: {e}")))?;
        read(&mut file, &mut text)
    } else {
        text = shown.into_owned();
        Ok(text.len())
    };
    done.map_err(|e| bad(format!("the arguments cannot be read: {e}")))?;
    if text.len() as u64 > LONGEST {
        return Err(bad(format!("the arguments have more than {LONGEST} bytes")));
    }
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Object(_)) => Ok(text),
        Ok(_) => Err(bad("the arguments are a JSON object, such as {\"path\": \"a.txt\"}".to_owned())),
        Err(e) => Err(bad(format!("the arguments are no JSON: {e}"))
            .hint("quote them for the shell: --args '{\"path\": \"a.txt\"}'")),
    }
}

/// What a call came to, printed.
fn said(common: &Common, name: &str, answer: Result<Answer, Uncalled>) -> Result<u8, ErrorReport> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Uncalled::Report(report)) => return Err(report),
        Err(Uncalled::Call(error)) => {
            let code = if matches!(error, CallError::Limit { .. }) { LIMIT } else { exit::REFUSED };
            let kind = match &error {
                CallError::Unknown { .. } => Code::UnknownName,
                CallError::Arguments { .. } => Code::InvalidValue,
                _ => Code::Internal,
            };
            let mut report = ErrorReport::new(kind, format!("{name}: {error}"));
            if matches!(error, CallError::Arguments { .. }) {
                report = report.field("--args").hint("hotcell tool inspect PLUGIN --json shows the schema");
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
                notes::say(format!("{name}: {}", printable(line)));
            }
        }
    }
    let code = if answer.is_error { SAID_NO } else { 0 };
    if common.json {
        return Ok(printed(exit::print_text(&format!("{}\n", answer.value.get())), code));
    }
    let text = text_of(&answer);
    if answer.is_error {
        eprintln!("hotcell: {name}: {}", printable(text.trim_end()));
        return Ok(code);
    }
    // To a person's terminal no component sends what moves the cursor or colours.
    let text = match std::io::stdout().is_terminal() {
        true => text.lines().map(|line| printable(line) + "\n").collect(),
        false => text,
    };
    Ok(printed(exit::print_text(&text), code))
}

/// An answer for people: its one text as it is, else JSON on lines.
fn text_of(answer: &Answer) -> String {
    let value: serde_json::Value = serde_json::from_str(answer.value.get()).unwrap_or_default();
    let alone =
        value.as_object().filter(|object| object.len() == 1).and_then(|object| object.values().next());
    let text = match (alone, answer.is_error) {
        (Some(serde_json::Value::String(text)), _) => text.clone(),
        (Some(alone), true) => alone.to_string(),
        _ => serde_json::to_string_pretty(&value).unwrap_or_default(),
    };
    if text.ends_with('\n') { text } else { text + "\n" }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(60).collect()
}

fn table(list: &ToolList) -> String {
    if list.tools.is_empty() {
        return String::new();
    }
    let width = list.tools.iter().map(|t| t.name.len()).max().unwrap_or(0).clamp(4, 40);
    let mut text = format!("{:<width$}  {:<12}  WHAT IT SAYS OF ITSELF\n", "NAME", "PLUGIN");
    for tool in &list.tools {
        let line = format!("{:<width$}  {:<12}  {}", tool.name, tool.plugin, first_line(&tool.description));
        text.push_str(printable(line.trim_end()).as_str());
        text.push('\n');
    }
    text
}

fn lines(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let line = |(name, value): (&str, String)| printable(&format!("{name:<12} {value}")) + "\n";
    rows.into_iter().filter(|(_, value)| !value.is_empty()).map(line).collect()
}

/// A plugin with its tools, a line for each thing that there is to say.
fn plugin_text(list: &ToolList) -> String {
    let Some(first) = list.tools.first() else { return String::new() };
    let Tool { plugin, digest, requested, granted, not_in_force, state, .. } = first;
    let mut rows = vec![("plugin", plugin.clone()), ("digest", digest.clone())];
    rows.extend(requested.iter().map(|word| ("asks for", word.clone())));
    rows.extend(granted.iter().map(|word| ("may", word.clone())));
    rows.extend(not_in_force.iter().map(|n| ("may not", format!("{}: {}", n.capability, n.why))));
    if *state == State::UpdateWaits {
        rows.push(("waits", format!("a newer version: hotcell tool accept {plugin}")));
    }
    rows.extend(list.tools.iter().map(|tool| {
        let what = first_line(&tool.description);
        ("tool", if what.is_empty() { tool.name.clone() } else { format!("{} – {what}", tool.name) })
    }));
    lines(rows)
}

/// A component's page.
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
    let at_most = page.capabilities_at_most.join(" ");
    rows.push(("can at most", if at_most.is_empty() { "compute".to_owned() } else { at_most }));
    for export in &page.exports {
        rows.push(("tool", export.tool.clone()));
        rows.extend(export.description.lines().map(|line| ("", format!("  {line}"))));
    }
    rows.extend(page.left_out.iter().map(|l| ("no tool", format!("{}: {}", l.function, l.message))));
    rows.extend(page.imports.iter().map(|import| ("imports", import.clone())));
    lines(rows) + &changes(page)
}

/// What stands between the lines that two texts have in common at their beginnings and at their ends: also where lines only changed
/// places, something is shown.
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

/// What a person has to see before a version is accepted.
fn waiting(page: &Inspection) -> String {
    let Some(update) = &page.update else { return String::new() };
    let short: String = update.id.chars().take(DIGITS).collect();
    let accept = format!("to accept it: hotcell tool accept {} {short}\n", page.plugin);
    changes(page) + &accept
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn whatever_changed_is_shown() {
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
