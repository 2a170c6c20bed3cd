//! Suggested policies that wait for a person: those that `hotcell learn --review` kept, and grants that wrapped servers lacked.
//!
//! Nothing here is in force before a person says yes. A yes writes one new file, or the grants of one server, and the audit log has it. Each decision
//! holds a lock, and what waits is removed last: after a crash it still waits, and the same decision can be taken again.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use hotcell_config::{Configuration, typed};
use hotcell_learn::{Suggested, Suggestion};
use hotcell_receipts::Subject;
use hotcell_review::quarantine::{QuarantineConfig, QuarantineError};
use hotcell_sandbox::text::counted;
use hotcell_state::audit;
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_state::time::{micros_since_1970, rfc3339};
use hotcell_web::SuggestionDecision;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::context::current_folder;
use crate::mcp::{denials, servers};

pub mod verbs;

/// Folder of the state folder with policies that wait.
const FOLDER: &str = "suggestions";
/// Maximum number of policies that wait: a person reads each.
const MAX_WAITING: usize = 100;
/// Maximum size of one, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Beginning of an id of a server's grants; ids of policies are hexadecimal digits.
const SERVER: &str = "server-";
/// Lock file of the folder, held during a decision.
const LOCK: &str = "lock";
/// Time limit for waiting for another decision.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Actions in the audit log.
const ACCEPT: &str = "policy_accept";
const DENY: &str = "policy_deny";

/// A policy that waits.
#[derive(Debug, Serialize, Deserialize)]
struct Waiting {
    /// File that a yes writes.
    file: PathBuf,
    /// When it was kept, in microseconds since 1970.
    time_us: i64,
    suggestion: Suggestion,
}

/// State after a decision, in the audit log.
#[derive(Serialize)]
struct After<'a> {
    file: &'a Path,
    rules: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

fn state_error(why: &dyn ToString) -> ErrorReport {
    ErrorReport::new(Code::State, format!("the suggested policies: {}", why.to_string())).field("--state")
}

fn folder(choice: &StateChoice) -> Result<PathBuf, ErrorReport> {
    let state =
        StateFolder::open(choice.path().map_err(|e| state_error(&e))?).map_err(|e| state_error(&e))?;
    Ok(state.path().join(FOLDER))
}

/// Lets policies wait again that a process of an earlier release was deciding on when it died: `ID.taken` was its mark. Call this under [`turn`].
fn give_back(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".taken").filter(|id| is_id(id)) else { continue };
        match fs::rename(folder.join(&name), folder.join(format!("{id}.json"))) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Waits for the end of another decision.
fn turn(folder: &Path) -> Result<Flock<fs::File>, ErrorReport> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| state_error(&e))?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK));
    let mut file = file.map_err(|e| state_error(&e))?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((_, Errno::EWOULDBLOCK)) if Instant::now() >= until => {
                let why = "another hotcell decides on a suggested policy";
                return Err(ErrorReport::new(Code::Busy, why).hint("try again"));
            }
            Err((back, Errno::EWOULDBLOCK)) => back,
            Err((_, e)) => return Err(state_error(&e)),
        };
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn digest(text: &str) -> String {
    Subject::sha256("", text.as_bytes()).digest.into_values().next().unwrap_or_default()
}

/// Keeps a suggestion for a person; its id. `file` is what a yes writes.
///
/// # Errors
/// [`ErrorReport`] when too many wait, or it cannot be kept.
pub fn keep(choice: &StateChoice, suggestion: &Suggestion, file: &Path) -> Result<String, ErrorReport> {
    let folder = folder(choice)?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|e| state_error(&e))?;
    if kept(&folder).map_err(|e| state_error(&e))?.len() >= MAX_WAITING {
        let why = format!("{MAX_WAITING} suggested policies wait already");
        return Err(ErrorReport::new(Code::Busy, why)
            .field("--review")
            .hint("decide on them first: hotcell runs suggested list, or hotcell web"));
    }
    let id = random_hex(6)?;
    let time_us = micros_since_1970(SystemTime::now());
    let waiting = Waiting { file: file.to_owned(), time_us, suggestion: suggestion.clone() };
    let text = serde_json::to_vec(&waiting).map_err(|e| state_error(&e))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(state_error(&format!("this one has more than {MAX_BYTES} bytes")));
    }
    write_new(&folder.join(format!("{id}.json")), &text, 0o600).map_err(|e| state_error(&e))?;
    Ok(id)
}

/// Writes a new file, which has its name only when it is whole, where the file system has hard links.
fn write_new(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
    let random = random_hex(6).map_err(|e| io::Error::other(e.to_string()))?;
    let new = folder.join(format!(".hotcell-{random}.new"));
    write_under(&new, bytes, mode)?;
    // A link never replaces a file.
    let linked = fs::hard_link(&new, file);
    drop(fs::remove_file(&new));
    match linked {
        Err(e) if has_no_links(&e) => write_under(file, bytes, mode)?,
        other => other?,
    }
    sync_names(folder).inspect_err(|_| drop(fs::remove_file(file)))
}

fn write_under(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut to = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    let written = to.write_all(bytes).and_then(|()| to.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(file)))
}

/// Whether a file system has no hard links, by the error of one.
fn has_no_links(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS))
}

/// Confirms the names in a folder, where its file system can.
fn sync_names(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if e.raw_os_error().map(Errno::from_raw) == Some(Errno::EINVAL) => Ok(()),
        other => other,
    }
}

/// Policies that wait: id and file.
fn kept(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut all = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // `taken`: see `give_back`.
        let id = name.strip_suffix(".json").or_else(|| name.strip_suffix(".taken"));
        if let Some(id) = id.filter(|id| is_id(id)) {
            all.push((id.to_owned(), folder.join(&name)));
        }
    }
    Ok(all)
}

fn is_id(id: &str) -> bool {
    id.len() == 12 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

fn read(file: &Path) -> io::Result<Waiting> {
    if fs::symlink_metadata(file)?.len() > MAX_BYTES {
        return Err(io::Error::other(format!("{} is larger than {MAX_BYTES} bytes", file.display())));
    }
    serde_json::from_slice(&fs::read(file)?).map_err(io::Error::other)
}

/// Suggestions that wait, the oldest first, then grants of servers by name. One that cannot be read is left out with a warning, and so is a server.
///
/// # Errors
/// [`ErrorReport`] when a folder cannot be read.
pub fn list(choice: &StateChoice) -> Result<Vec<Suggested>, ErrorReport> {
    let folder = folder(choice)?;
    let mut policies = Vec::new();
    for (id, file) in kept(&folder).map_err(|e| state_error(&e))? {
        match read(&file) {
            Ok(one) => policies.push((one.time_us, policy(&id, &one))),
            // A person decided on it after its name was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            // Decisions on the others go on.
            Err(e) => tracing::warn!("{}: this suggested policy cannot be read: {e}", file.display()),
        }
    }
    policies.sort_by_key(|(time_us, _)| *time_us);
    let mut all: Vec<_> = policies.into_iter().map(|(_, one)| one).collect();
    for server in servers::list(choice)? {
        let unread = |why: &dyn std::fmt::Display| {
            tracing::warn!(
                "the files of the server {} cannot be read: {}",
                server.name,
                printable(&why.to_string())
            );
        };
        match (&server.problem, grants(choice, &server)) {
            (Some(why), _) => unread(why),
            (None, Ok(wanted)) => all.extend(wanted),
            (None, Err(report)) => unread(&report),
        }
    }
    Ok(all)
}

fn policy(id: &str, one: &Waiting) -> Suggested {
    let suggestion = &one.suggestion;
    let text = suggestion.toml();
    let mut commands: Vec<_> = suggestion.runs.iter().map(|run| run.command.join(" ")).collect();
    commands.dedup();
    let hosts = suggestion.network.iter().map(|rule| ("network", &rule.rule, &rule.opens, &rule.seen));
    let files = suggestion.ro.iter().map(|rule| ("ro", &rule.rule, &rule.opens, &rule.seen));
    let rules = hosts.chain(files).map(|(key, rule, opens, seen)| {
        let mark = seen.mark.map(|mark| format!("; CAUTION: {}", mark.words())).unwrap_or_default();
        let programs: Vec<_> = seen.programs.iter().map(String::as_str).collect();
        let (times, runs) = (counted(seen.count, "time"), counted(seen.runs.len(), "run"));
        let wanted = format!("{}, {times} in {runs}{mark}", programs.join("; "));
        [format!("{key} {rule}"), opens.clone(), wanted]
    });
    let refused = suggestion.refused.iter();
    Suggested {
        id: id.to_owned(),
        title: commands.first().cloned().unwrap_or_default(),
        allows: format!("The file {} is written, with exactly the text below.", one.file.display()),
        whom: "Runs that name this file with --config, and no others.".to_owned(),
        wanted_by: commands.join("; "),
        since: rfc3339(one.time_us),
        rules: rules.collect(),
        refused: refused.map(|one| [format!("{} {}", one.kind, one.target), one.reason.clone()]).collect(),
        shown: digest(&format!("{}\n{text}", one.file.display())),
        text,
    }
}

/// Grants that the last runs of a server lacked; `None` when it has them all.
fn grants(choice: &StateChoice, server: &servers::Server) -> Result<Option<Suggested>, ErrorReport> {
    // A name that is not one of a folder has no entry.
    let folder = servers::folder(choice, &server.name)?;
    let Some(kept) = denials::of(&folder, &server.name).map_err(|e| state_error(&e))? else {
        return Ok(None);
    };
    let lacking: Vec<_> = kept.grants.iter().filter(|grant| !server.grants.contains(grant)).collect();
    // A server whose command is not kept cannot be granted anything.
    if lacking.is_empty() || server.command.is_empty() {
        return Ok(None);
    }
    let text: String = lacking.iter().map(|grant| format!("{grant}\n")).collect();
    let times = |grant: &str| {
        let target = grant.split_once('=').map_or(grant, |(_, target)| target);
        let count: u64 =
            kept.denials.iter().filter(|one| one.target.starts_with(target)).map(|one| one.count).sum();
        format!("the server {}, {} in its last runs", server.name, counted(count, "time"))
    };
    let opens = |grant: &str| {
        let host = grant.strip_prefix("network=").unwrap_or(grant);
        format!("all that {host} serves, and sending it all that the server can read")
    };
    let other = |one: &&hotcell_sandbox::outcome::Denial| {
        !lacking
            .iter()
            .any(|grant| grant.split_once('=').is_some_and(|(_, target)| one.target.starts_with(target)))
    };
    Ok(Some(Suggested {
        id: format!("{SERVER}{}", server.name),
        title: format!("server {}", server.name),
        allows: "These grants are added to the server's own, from its next start on.".to_owned(),
        whom: format!("The wrapped server {}: {}", server.name, server.command.join(" ")),
        wanted_by: format!("the server {}", server.name),
        since: rfc3339(kept_since(&folder)),
        rules: lacking.iter().map(|grant| [(*grant).clone(), opens(grant), times(grant)]).collect(),
        refused: kept
            .denials
            .iter()
            .filter(other)
            .map(|one| {
                [
                    format!("{} {} {}", one.layer, one.operation, one.target),
                    "no grant would allow it".to_owned(),
                ]
            })
            .collect(),
        shown: digest(&format!("{}\n{}\n{text}", server.name, server.command.join("\n"))),
        text,
    }))
}

fn kept_since(folder: &Path) -> i64 {
    let time = fs::metadata(denials::file(folder)).and_then(|all| all.modified());
    micros_since_1970(time.unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Carries out a decision.
///
/// # Errors
/// [`ErrorReport`] when it was decided already or is another one by now, or a file or the audit log cannot be written.
pub fn decide(configuration: &Configuration, decision: &SuggestionDecision) -> Result<(), ErrorReport> {
    let config =
        QuarantineConfig::of(configuration).ok_or_else(|| state_error(&"there is no state folder"))?;
    let gone = || {
        ErrorReport::new(Code::Refused, "it was decided already, or is not as that page showed it")
            .hint("look at the list as it is now")
    };
    let waiting = folder(&config.state)?;
    let _turn = turn(&waiting)?;
    give_back(&waiting).map_err(|e| state_error(&e))?;
    if let Some(name) = decision.id.strip_prefix(SERVER) {
        let server = servers::list(&config.state)?.into_iter().find(|server| server.name == name);
        let server = server.ok_or_else(gone)?;
        let one =
            grants(&config.state, &server)?.filter(|one| one.shown == decision.shown).ok_or_else(gone)?;
        let wanted: Vec<String> = one.text.lines().map(str::to_owned).collect();
        let folder = servers::folder(&config.state, name)?;
        let reason = decision.reason.as_deref();
        match decision.yes {
            true => servers::add_grants(configuration, &folder, name, false, &wanted, reason)?,
            false => servers::drop_wanted(&config, name, &wanted, reason)?,
        }
        denials::forget(&folder);
        return Ok(());
    }
    if !is_id(&decision.id) {
        return Err(gone());
    }
    let file = waiting.join(format!("{}.json", decision.id));
    let one = match read(&file) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(gone()),
        other => other.map_err(|e| state_error(&e))?,
    };
    if policy(&decision.id, &one).shown != decision.shown {
        return Err(gone());
    }
    carry_out(&config, decision, &one)?;
    fs::remove_file(&file).map_err(|e| state_error(&e))
}

fn carry_out(
    config: &QuarantineConfig,
    decision: &SuggestionDecision,
    one: &Waiting,
) -> Result<(), ErrorReport> {
    let text = one.suggestion.toml();
    let hosts = one.suggestion.network.iter().map(|rule| &*rule.rule);
    let rules = hosts.chain(one.suggestion.ro.iter().map(|rule| &*rule.rule)).collect();
    let after = After { file: &one.file, rules, reason: decision.reason.as_deref() };
    if !decision.yes {
        return note(config, DENY, &text, &after);
    }
    let bad = |why: &dyn std::fmt::Display| {
        let why = format!("{} cannot be written: {why}", printable(&one.file.display().to_string()));
        ErrorReport::new(Code::Refused, why)
            .hint("a policy is only written to a new file, in a folder that is there")
    };
    let real = typed::real_from(&current_folder(), &one.file, &[]).map_err(|e| bad(&e))?;
    match write_new(&real, text.as_bytes(), 0o666) {
        // A process that died after it had written the file.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_text(&real, &text) => {
            return note(config, ACCEPT, &text, &after);
        }
        other => other.map_err(|e| bad(&e))?,
    }
    // Without its entry in the log there is no policy.
    note(config, ACCEPT, &text, &after).inspect_err(|_| drop(fs::remove_file(&real)))
}

/// Whether a file is an ordinary one with exactly this text.
fn is_text(file: &Path, text: &str) -> bool {
    let same = |all: fs::Metadata| all.is_file() && all.len() == text.len() as u64;
    fs::symlink_metadata(file).is_ok_and(same) && fs::read(file).is_ok_and(|bytes| bytes == text.as_bytes())
}

fn note(config: &QuarantineConfig, action: &str, text: &str, after: &After<'_>) -> Result<(), ErrorReport> {
    let (actor, now_us) = (config.actor(), micros_since_1970(SystemTime::now()));
    let noted = config.open().and_then(|quarantine| {
        quarantine.step(|database| {
            audit::append(database, now_us, &actor, action, &digest(text), after)?;
            Ok::<(), QuarantineError>(())
        })
    });
    noted.map_err(|e| state_error(&e))
}

#[cfg(test)]
mod tests;
