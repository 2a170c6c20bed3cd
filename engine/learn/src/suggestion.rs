//! All runs merged into one suggested policy. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Seen};
use crate::files::{self, FileDecision, HostFiles};
use crate::hosts::{self, HostDecision};
use crate::protected::{self, Own};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.suggestion/1";
/// Maximum number of suggested hosts, and of suggested files: a list that a person reads.
pub const MAX_RULES: usize = 100;
/// Maximum number of refused things in a list; further ones are counted.
const MAX_REFUSED: usize = 100;
/// Number of files of one folder from which the folder is suggested, if a person asks for folders.
const SIBLINGS: usize = 3;

/// Choices of the person who asks.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The user's home and hotcell's folders.
    pub own: Own,
    /// Suggests addresses in private networks, too.
    pub private: bool,
    /// Suggests folders: those that were opened, and those of at least three files.
    pub folders: bool,
}

/// A run that a suggestion is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LearntFrom {
    /// Id in the history; empty if the run is not there.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The command.
    pub command: Vec<String>,
    /// Whether files that were asked for and missing were watched.
    pub files_watched: bool,
}

/// A suggested host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostRule {
    /// `HOST:PORT`, as the key `network` takes it.
    pub rule: String,
    /// Description of the access that it gives.
    pub opens: String,
    /// Who wanted it.
    #[serde(flatten)]
    pub seen: Seen,
}

/// A suggested file or folder, read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileRule {
    /// `HOST` or `HOST:INSIDE`, as the key `ro` takes it.
    pub rule: String,
    /// Description of the access that it gives.
    pub opens: String,
    /// Who wanted it.
    #[serde(flatten)]
    pub seen: Seen,
}

/// A thing that was denied and is not suggested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// `network`, `file` or `call`.
    pub kind: String,
    /// Host and port, path, or name of the system call. The program says it, and can say anything.
    pub target: String,
    /// Why it is not suggested.
    pub reason: String,
    /// Who wanted it.
    #[serde(flatten)]
    pub seen: Seen,
}

/// Result of a run with the suggested policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// Whether there was one.
    pub made: bool,
    /// Why there was none.
    pub why_not: Option<String>,
    /// Id of the run in the history.
    pub run: Option<String>,
    /// Whether the program ended with 0, or as it did before, and lacks nothing more that a rule could give.
    pub sufficed: Option<bool>,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Things that it was still denied and that are not among those refused before.
    pub still_denied: Vec<String>,
}

/// A policy that would allow what the runs were denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// Always `hotcell.suggestion/1`.
    pub schema: String,
    /// The runs that it is from.
    pub runs: Vec<LearntFrom>,
    /// Hosts, by name.
    pub network: Vec<HostRule>,
    /// Files, by path.
    pub ro: Vec<FileRule>,
    /// Things that were denied and are not suggested.
    pub refused: Vec<Refused>,
    /// Number of further things that are not listed.
    pub left_out: u64,
    /// Result of a run with this policy; `null` where the runs are of the history only.
    pub replay: Option<Replay>,
}

impl Suggestion {
    /// Whether nothing is suggested.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.network.is_empty() && self.ro.is_empty()
    }

    /// Rules of this suggestion that another one lacks.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let hosts = self.network.iter().map(|host| &host.rule);
        let known = |rule: &String| {
            other.network.iter().any(|host| host.rule == *rule)
                || other.ro.iter().any(|file| file.rule == *rule)
        };
        hosts.chain(self.ro.iter().map(|file| &file.rule)).filter(|rule| !known(rule)).cloned().collect()
    }
}

/// A file or folder that may be suggested.
struct Candidate {
    host: PathBuf,
    inside: PathBuf,
    opens: String,
    seen: Seen,
}

/// Merges runs into one policy.
#[must_use]
pub fn suggest(runs: &[Evidence], files: &impl HostFiles, options: &Options) -> Suggestion {
    let mut all = Merging::default();
    for run in runs {
        for denial in &run.denials {
            if denial.layer != "network" {
                let why = "a call that no program needs is denied in every policy";
                all.refuse("call", &denial.operation, why, run, denial.count);
                continue;
            }
            match hosts::decide(denial, options.private) {
                HostDecision::Suggest(rule) => all.hosts.entry(rule).or_default().add(run, denial.count),
                HostDecision::NameOnly(name) => all.names.entry(name).or_default().add(run, denial.count),
                HostDecision::Refuse(why) => {
                    let target = denial.target.split(" (").next().unwrap_or_default();
                    all.refuse("network", target, &why, run, denial.count);
                }
            }
        }
        let missing = run.missing.iter().flat_map(|missing| &missing.files);
        for file in missing {
            match files::decide(file, &options.own, files) {
                FileDecision::Suggest { host, inside, bytes } => {
                    let opens = format!("this file of {bytes} bytes, for reading");
                    all.file(host, inside, opens, run, file.count);
                }
                FileDecision::Folder { host, inside, entries } => {
                    let wide = protected::is_too_wide(&host, &options.own)
                        || has_protected(&host, &entries, &options.own);
                    if options.folders && !wide {
                        let opens = opens_folder(&entries, &[]);
                        all.file(host, inside, opens, run, file.count);
                    } else {
                        let why = if wide {
                            "a folder that holds more than anybody reads, or something protected"
                        } else {
                            "a folder, with all below it: ‹folders› suggests folders"
                        };
                        all.refuse("file", &file.path, why, run, file.count);
                    }
                }
                FileDecision::Refuse(why) => all.refuse("file", &file.path, &why, run, file.count),
                FileDecision::Elsewhere => {}
            }
        }
        all.left_out += run.missing.as_ref().map_or(0, |missing| missing.left_out);
    }
    all.finish(runs, files, options)
}

/// Description of the access that a folder gives, beside the files that were asked for.
fn opens_folder(entries: &[String], asked: &[String]) -> String {
    let others: Vec<_> = entries.iter().filter(|name| !asked.contains(name)).collect();
    let named: Vec<_> = others.iter().take(8).map(|name| name.as_str()).collect();
    let more = others.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match named.is_empty() {
        true => "this folder and all that is ever put there, for reading".to_owned(),
        false => format!(
            "this folder and all that is ever put there, for reading; beside what was asked for: {}{more}",
            named.join(", ")
        ),
    }
}

fn has_protected(folder: &Path, entries: &[String], own: &Own) -> bool {
    entries.iter().any(|name| protected::reason(&folder.join(name), own).is_some())
}

#[derive(Default)]
struct Merging {
    hosts: BTreeMap<String, Seen>,
    /// Names that were looked up.
    names: BTreeMap<String, Seen>,
    /// By path inside.
    files: BTreeMap<PathBuf, Candidate>,
    refused: BTreeMap<(String, String, String), Seen>,
    left_out: u64,
}

impl Merging {
    fn refuse(&mut self, kind: &str, target: &str, why: &str, run: &Evidence, count: u64) {
        let key = (kind.to_owned(), target.to_owned(), why.to_owned());
        self.refused.entry(key).or_default().add(run, count);
    }

    fn file(&mut self, host: PathBuf, inside: PathBuf, opens: String, run: &Evidence, count: u64) {
        let key = inside.clone();
        let new = || Candidate { host, inside, opens, seen: Seen::default() };
        self.files.entry(key).or_insert_with(new).seen.add(run, count);
    }

    fn finish(mut self, runs: &[Evidence], files: &impl HostFiles, options: &Options) -> Suggestion {
        // A name that a rule covers was looked up on the way.
        for (name, seen) in std::mem::take(&mut self.names) {
            let covered =
                self.hosts.keys().any(|rule| rule.rsplit_once(':').is_some_and(|(host, _)| host == name));
            if !covered {
                let why = "looked up, and its port was not seen: name it as NAME:PORT; a program that uses no proxy needs \
                           NAME=ADDRESS:PORT";
                self.refused.insert(("network".to_owned(), name, why.to_owned()), seen);
            }
        }
        if options.folders {
            self.files = widened(std::mem::take(&mut self.files), files, &options.own);
        }
        let mut left_out = self.left_out;
        let mut bounded = |count: usize, most: usize| left_out += count.saturating_sub(most) as u64;
        bounded(self.hosts.len(), MAX_RULES);
        bounded(self.files.len(), MAX_RULES);
        bounded(self.refused.len(), MAX_REFUSED);
        let network = self.hosts.into_iter().take(MAX_RULES).map(|(rule, seen)| HostRule {
            opens: format!("all that {rule} serves, and sending it all that the program can read"),
            rule,
            seen,
        });
        let ro = self.files.into_values().take(MAX_RULES).map(|one| FileRule {
            rule: bind(&one.host, &one.inside),
            opens: one.opens,
            seen: one.seen,
        });
        let refused = self.refused.into_iter().take(MAX_REFUSED);
        let refused = refused.map(|((kind, target, reason), seen)| Refused { kind, target, reason, seen });
        Suggestion {
            schema: SCHEMA.to_owned(),
            runs: runs
                .iter()
                .map(|run| LearntFrom {
                    id: run.id.clone(),
                    started: run.started.clone(),
                    command: run.command.clone(),
                    files_watched: run.missing.is_some(),
                })
                .collect(),
            network: network.collect(),
            ro: ro.collect(),
            refused: refused.collect(),
            left_out,
            replay: None,
        }
    }
}

/// Replaces three files or more of one folder by the folder, where that is not too wide.
fn widened(
    files: BTreeMap<PathBuf, Candidate>,
    host_files: &impl HostFiles,
    own: &Own,
) -> BTreeMap<PathBuf, Candidate> {
    let mut by_folder: BTreeMap<(PathBuf, PathBuf), Vec<Candidate>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (inside, one) in files {
        // A link's folder is not the folder of the file that it leads to.
        let parents = (one.host.parent().map(Path::to_owned), inside.parent().map(Path::to_owned));
        match parents {
            (Some(host), Some(above)) if one.host.file_name() == inside.file_name() => {
                by_folder.entry((host, above)).or_default().push(one);
            }
            _ => {
                all.insert(inside, one);
            }
        }
    }
    for ((host, inside), members) in by_folder {
        let entries = match host_files.look_at_folder(&host, own) {
            Some(entries) if members.len() >= SIBLINGS => entries,
            _ => {
                all.extend(members.into_iter().map(|one| (one.inside.clone(), one)));
                continue;
            }
        };
        let asked: Vec<_> = members
            .iter()
            .filter_map(|one| Some(one.host.file_name()?.to_string_lossy().into_owned()))
            .collect();
        let mut seen = Seen::default();
        for one in &members {
            seen.merge(&one.seen);
        }
        let opens = opens_folder(&entries, &asked);
        all.insert(inside.clone(), Candidate { host, inside, opens, seen });
    }
    all
}

/// Questions about folders.
trait Folders: HostFiles {
    /// The entries of a folder that may be suggested.
    fn look_at_folder(&self, folder: &Path, own: &Own) -> Option<Vec<String>> {
        if protected::is_too_wide(folder, own) || protected::reason(folder, own).is_some() {
            return None;
        }
        match self.look(folder) {
            files::Found::Folder { real, entries }
                if real == folder && !has_protected(folder, &entries, own) =>
            {
                Some(entries)
            }
            _ => None,
        }
    }
}

impl<T: HostFiles> Folders for T {}

/// A value of the key `ro`.
fn bind(host: &Path, inside: &Path) -> String {
    match host == inside {
        true => host.to_string_lossy().into_owned(),
        false => format!("{}:{}", host.display(), inside.display()),
    }
}

#[cfg(test)]
#[path = "suggestion_tests.rs"]
mod tests;
