//! `hotcell receipt`: checks signed statements, and manages the keys.

pub mod make;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use hotcell_config::{KeySource, of_file};
use hotcell_receipts::envelope::{Envelope, MAX_ENVELOPE_BYTES};
use hotcell_receipts::keys::MAX_KEY_BYTES;
use hotcell_receipts::policy::Policy;
use hotcell_receipts::signer::{Signer, SignerError};
use hotcell_receipts::store::StoreError;
use hotcell_receipts::{
    Conditions, KeyRing, KeyStore, PublicKey, ReceiptError, Statement, Verified, tree, verify,
};
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::profile::read_text;
use hotcell_sandbox::text::counted;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::StateFolder;
use hotcell_state::time::{micros_since_1970, rfc3339};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Common, KeyCommand, ReceiptCommand, VerifyArgs};
use crate::context::{configuration, state};
use crate::exit::printed;
use crate::terminal::notes;
use crate::{exit, usage};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.receipts/1";
/// Name of the key that the configuration names, beside that of the state folder.
const CONFIGURED: &str = "the configured key";
/// Value of the `schema` field of keys.
pub const KEYS_SCHEMA: &str = "hotcell.receipt_keys/1";

/// Results of `hotcell receipt verify`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptList {
    /// Always `hotcell.receipts/1`.
    pub schema: String,
    /// Receipts, in the order of the files.
    pub receipts: Vec<Checked>,
    /// Kinds that the policy requires and of which no good receipt was given: `test_result`, `run`, `svr`, `agent_session`.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// One receipt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// File as named.
    pub file: String,
    /// True when the signature is by a trusted key and all conditions are met.
    pub good: bool,
    /// Reason why it is not good.
    pub problem: Option<String>,
    /// Identifier of the key that signed; `null` when no trusted key did.
    pub key: Option<String>,
    /// Name of that key.
    pub key_name: Option<String>,
    /// `PASSED` or `FAILED`, as the receipt states; `null` for other predicates, and without a good signature.
    pub stated: Option<hotcell_receipts::Stated>,
    /// The statement; `null` without a good signature.
    pub statement: Option<Statement>,
}

/// Keys of an installation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    /// Always `hotcell.receipt_keys/1`.
    pub schema: String,
    /// Keys.
    pub keys: Vec<Key>,
}

/// A public key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// Identifier: SHA-256 of the SubjectPublicKeyInfo.
    pub id: String,
    /// Name.
    pub name: String,
    /// PEM.
    pub public_key: String,
}

/// Runs the command; returns its exit status.
pub fn receipt(common: &Common, command: &ReceiptCommand) -> u8 {
    let answer = match command {
        ReceiptCommand::Verify(args) => verified(common, args),
        ReceiptCommand::Show { file } => show(common, file),
        ReceiptCommand::Key { command } => keys(common, command),
    };
    answer.unwrap_or_else(|report| usage::fail(&report, common.json))
}

fn verified(common: &Common, args: &VerifyArgs) -> Result<u8, ErrorReport> {
    let ring = if args.key.is_empty() {
        ring(common)?
    } else {
        let keys = args.key.iter().map(|file| public_key(file)).collect::<Result<Vec<_>, _>>()?;
        KeyRing::of(keys)
    };
    if ring.is_empty() {
        return Err(ErrorReport::new(Code::UnknownName, "there is no key to verify with")
            .field("--key")
            .hint("name a public key with --key FILE, or trust one: hotcell receipt key trust NAME FILE"));
    }
    let conditions = conditions(args)?;
    let policy = args.policy.as_deref().map(policy).transpose()?;
    let mut list = ReceiptList { schema: SCHEMA.to_owned(), receipts: Vec::new(), missing: Vec::new() };
    for file in &args.files {
        let bytes = read(file, MAX_ENVELOPE_BYTES).map_err(|e| unreadable(file, &e))?;
        list.receipts.push(checked(file, verify(&bytes, &ring), &conditions, policy.as_ref()));
    }
    if let Some(policy) = &policy {
        let good = list.receipts.iter().filter(|one| one.good);
        let good: Vec<_> =
            good.filter_map(|one| Some(one.statement.as_ref()?.predicate_type.as_str())).collect();
        list.missing = policy.missing(&good).into_iter().map(str::to_owned).collect();
    }
    let code = u8::from(list.receipts.iter().any(|one| !one.good) || !list.missing.is_empty());
    if common.json {
        return Ok(printed(exit::print_json(&list), code));
    }
    let mut text: String = list.receipts.iter().map(line).collect();
    for kind in &list.missing {
        let _ = writeln!(text, "MISSING   no good receipt of the kind {kind}, which the policy requires");
    }
    Ok(printed(exit::print_text(&text), code))
}

fn conditions(args: &VerifyArgs) -> Result<Conditions, ErrorReport> {
    let mut conditions = Conditions { passed: args.passed, ..Conditions::default() };
    if let Some(folder) = &args.folder {
        for file in &args.files {
            let bytes = read(file, MAX_ENVELOPE_BYTES).map_err(|e| unreadable(file, &e))?;
            if tree::is_below(folder, file) && !Envelope::is_alone(&bytes) {
                let why = format!(
                    "{} lies in the folder and is left out, but has keys that no receipt has, which nobody signed",
                    file.display()
                );
                return Err(ErrorReport::new(Code::InvalidValue, why)
                    .field("--folder")
                    .hint("move it out of the folder, or name another file"));
            }
        }
        let except: Vec<_> = args.files.iter().chain(&args.except).map(std::path::PathBuf::as_path).collect();
        let subject = tree::subject("", folder, &except)
            .map_err(|e| ErrorReport::new(Code::InvalidValue, e.to_string()).field("--folder"))?;
        conditions.subject.extend(subject.digest);
    }
    if let Some((name, digest)) = &args.subject {
        conditions.subject.insert(name.clone(), digest.clone());
    }
    if let Some(age) = args.max_age {
        conditions.within(age, micros_since_1970(std::time::SystemTime::now()));
    }
    Ok(conditions)
}

fn policy(file: &Path) -> Result<Policy, ErrorReport> {
    let text = read_text(file).and_then(|text| Policy::parse(&text, file));
    text.map_err(|e| ErrorReport { field: Some("--policy".to_owned()), ..of_file(e) })
}

/// Checks the conditions of the options, and those of the policy for receipts of this kind.
fn met(verified: &Verified, conditions: &Conditions, policy: Option<&Policy>) -> Result<(), ReceiptError> {
    conditions.check(verified)?;
    let Some(policy) = policy else { return Ok(()) };
    let kind = &verified.statement.predicate_type;
    match policy.conditions(kind, micros_since_1970(std::time::SystemTime::now())) {
        Some(conditions) => conditions.check(verified),
        None => Err(ReceiptError::Condition(format!("the policy names no receipts of type {kind}"))),
    }
}

fn checked(
    file: &Path,
    result: Result<Verified, ReceiptError>,
    conditions: &Conditions,
    policy: Option<&Policy>,
) -> Checked {
    let file = file.to_string_lossy().into_owned();
    match result {
        Ok(verified) => {
            let problem = met(&verified, conditions, policy).err().map(|e| e.to_string());
            Checked {
                file,
                good: problem.is_none(),
                problem,
                stated: verified.stated(),
                key: Some(verified.key),
                key_name: Some(verified.key_name),
                statement: Some(verified.statement),
            }
        }
        Err(error) => Checked {
            file,
            good: false,
            problem: Some(error.to_string()),
            key: None,
            key_name: None,
            stated: None,
            statement: None,
        },
    }
}

fn line(one: &Checked) -> String {
    let file = printable(&one.file);
    match (&one.problem, &one.key_name) {
        (Some(problem), _) => format!("NOT GOOD  {file}: {}\n", printable(problem)),
        (None, name) => {
            let states = match one.stated {
                Some(hotcell_receipts::Stated::Passed) => "states PASSED",
                Some(hotcell_receipts::Stated::Failed) => "states FAILED",
                None => "states no result that is known here",
            };
            format!(
                "good      {file}: {states}; signed by {}\n",
                printable(name.as_deref().unwrap_or_default())
            )
        }
    }
}

fn show(common: &Common, file: &Path) -> Result<u8, ErrorReport> {
    let bytes = read(file, MAX_ENVELOPE_BYTES).map_err(|e| unreadable(file, &e))?;
    let wrong = |e: &dyn ToString| ErrorReport::new(Code::InvalidValue, e.to_string()).field("FILE");
    let envelope = Envelope::parse(&bytes).map_err(|e| wrong(&e))?;
    let payload = envelope.payload_bytes().map_err(|e| wrong(&e))?;
    let statement: Statement = serde_json::from_slice(&payload).map_err(|e| wrong(&e))?;
    let trust = match verify(&bytes, &ring(common)?) {
        Ok(verified) => format!("signed by {} (key {})", verified.key_name, short(&verified.key)),
        Err(error) => format!("NOT VERIFIED: {error}"),
    };
    if common.json {
        return Ok(printed(exit::print_json(&statement), 0));
    }
    Ok(printed(exit::print_text(&page(&statement, &trust)), 0))
}

fn page(statement: &Statement, trust: &str) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:12} {}", printable(value));
    };
    row("signature", trust);
    row("type", &statement.predicate_type);
    for subject in &statement.subject {
        let digests: Vec<_> =
            subject.digest.iter().map(|(name, digest)| format!("{name}:{digest}")).collect();
        row("subject", &format!("{} {}", subject.name, digests.join(" ")));
    }
    let predicate = &statement.predicate;
    let about = &predicate["hotcell"];
    for (name, value) in [
        ("result", &predicate["result"]),
        ("properties", &predicate["properties"]),
        ("cause", if predicate["cause"].is_null() { &about["cause"] } else { &predicate["cause"] }),
        ("exit code", &predicate["exit_code"]),
        ("session", &session_of(&predicate["session"])),
        ("state", &predicate["state"]),
        ("score", &predicate["best"]["score"]),
        ("tests", &tests_of(&predicate["best"]["tests"])),
        ("models", &predicate["models"]),
        ("program", &predicate["program"]),
        ("policy", &predicate["policy_sha256"]),
        ("limits", &predicate["limits"]),
        ("image", &predicate["image"]),
        ("guard", &predicate["guard"]),
        ("verdict", &about["verdict"]),
        ("framework", &about["framework"]),
        ("denials", &predicate["denials"]),
        ("layers", if predicate["layers"].is_null() { &about["layers"] } else { &predicate["layers"] }),
        ("attempt", &about["attempt"]),
        ("run", &about["run"]),
        ("hotcell", &about["version"]),
        ("kernel", &about["kernel"]),
        ("log", &about["audit_head"]),
    ] {
        match value {
            serde_json::Value::Null => {}
            // A session and a scan have no run in the history.
            serde_json::Value::String(value) if value.is_empty() => {}
            serde_json::Value::String(value) => row(name, value),
            serde_json::Value::Object(all) => {
                let words: Vec<_> = all.iter().map(|(key, value)| format!("{key}={}", bare(value))).collect();
                row(name, &words.join(" "));
            }
            other => row(name, &other.to_string()),
        }
    }
    for (name, key) in [("passed", "passedTests"), ("flaky", "warnedTests"), ("failed", "failedTests")] {
        if let Some(tests) = predicate[key].as_array() {
            let some: Vec<_> = tests.iter().take(10).map(bare).collect();
            let more = if tests.len() > some.len() { ", …" } else { "" };
            row(name, &format!("{}: {}{more}", tests.len(), some.join(", ")));
        }
    }
    if let Some(time) = about["time_us"].as_i64() {
        row("time", &rfc3339(time));
    }
    text
}

/// The id of a session of models, or the steps of an interpreter session in words, else null.
fn session_of(session: &serde_json::Value) -> serde_json::Value {
    let count = |key: &str| session[key].as_u64().unwrap_or_default();
    if !session.is_object() {
        return session.clone();
    }
    let end = if session["closed"] == true { "closed" } else { "ended by itself or a limit" };
    let (cells, uploads) = (counted(count("cells"), "cell"), counted(count("uploads"), "piece"));
    let not_ok = count("not_ok");
    format!("{}: {cells}, {uploads} of files, {not_ok} not ok; {end}", bare(&session["language"])).into()
}

/// Counts of tests in words, else null.
fn tests_of(counts: &serde_json::Value) -> serde_json::Value {
    match (counts["good"].as_u64(), counts["of"].as_u64()) {
        (Some(good), Some(of)) => format!("{good} of {of} are good").into(),
        _ => serde_json::Value::Null,
    }
}

fn bare(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

fn keys(common: &Common, command: &KeyCommand) -> Result<u8, ErrorReport> {
    let (folder, settings) = (folder(common)?, configuration(common, None)?.user.receipts);
    let store = KeyStore::open(&folder).map_err(|e| of_store(&e))?;
    let configured = Signer::configured(&settings, &folder).map_err(|e| of_signer(&e))?;
    let elsewhere = settings.key != KeySource::State;
    let said = |line: String| {
        if !common.quiet && !common.json {
            notes::say(line);
        }
    };
    match command {
        KeyCommand::Show => {
            let key = match configured {
                Some(key) => key,
                None if elsewhere => {
                    let why = format!(
                        "receipts.key is {}, which is read once, when something is signed",
                        settings.key
                    );
                    return Err(ErrorReport::new(Code::Configuration, why)
                        .field("receipts.public_key")
                        .hint("name the file of its public key with receipts.public_key"));
                }
                None => store.own().map_err(|e| of_store(&e))?.public(),
            };
            if common.json {
                return Ok(printed(exit::print_json(&list([(key, "this installation".to_owned())])), 0));
            }
            said(format!("key {}", short(&key.id())));
            return Ok(printed(exit::print_text(&key.to_pem()), 0));
        }
        KeyCommand::List => {}
        KeyCommand::Rotate if elsewhere => {
            let why = format!("receipts.key is {}: that key is not hotcell's to replace", settings.key);
            return Err(ErrorReport::new(Code::Configuration, why).field("receipts.key").hint(
                "replace it there, and trust the former public key: hotcell receipt key trust NAME FILE",
            ));
        }
        KeyCommand::Rotate => {
            let (former, now) = store.rotate().map_err(|e| of_store(&e))?;
            said(format!(
                "key {} signs now; receipts of {} still verify here",
                short(&now.public().id()),
                short(&former.id())
            ));
            said(
                "give the new public key to those who trust the former one: hotcell receipt key show"
                    .to_owned(),
            );
        }
        KeyCommand::Trust { name, file } => {
            let key = public_key(file)?;
            store.trust(name, &key).map_err(|e| of_store(&e))?;
            said(format!("receipts of key {} are accepted from now on, as {name}", short(&key.id())));
        }
        KeyCommand::Distrust { name } => {
            store.distrust(name).map_err(|e| not_trusted(&store, name, &e))?;
            said(format!("receipts of {name} are no longer accepted"));
        }
    }
    let mut ring = store.ring().map_err(|e| of_store(&e))?;
    if let Some(key) = configured {
        ring.add(key, CONFIGURED);
    }
    let all = list(ring.iter().map(|(key, name)| (*key, name.to_owned())));
    if common.json {
        return Ok(printed(exit::print_json(&all), 0));
    }
    let text: String =
        all.keys.iter().map(|key| format!("{}  {}\n", short(&key.id), printable(&key.name))).collect();
    let text = if matches!(command, KeyCommand::List) { text } else { String::new() };
    Ok(printed(exit::print_text(&text), 0))
}

fn list(keys: impl IntoIterator<Item = (PublicKey, String)>) -> KeyList {
    let keys = keys.into_iter().map(|(key, name)| Key { id: key.id(), name, public_key: key.to_pem() });
    KeyList { schema: KEYS_SCHEMA.to_owned(), keys: keys.collect() }
}

fn folder(common: &Common) -> Result<StateFolder, ErrorReport> {
    let wrong = |e: &dyn ToString| ErrorReport::new(Code::State, e.to_string()).field("--state");
    let choice = state(common, &configuration(common, None)?);
    StateFolder::open(choice.path().map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))
}

/// Keys of this installation and those that it trusts; makes nothing.
fn ring(common: &Common) -> Result<KeyRing, ErrorReport> {
    let wrong = |e: &dyn ToString| ErrorReport::new(Code::State, e.to_string()).field("--state");
    let configuration = configuration(common, None)?;
    let choice = state(common, &configuration);
    let folder = StateFolder::open_existing(choice.path().map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    let Some(folder) = folder else { return Ok(KeyRing::default()) };
    let mut ring = match KeyStore::open_existing(&folder).map_err(|e| of_store(&e))? {
        Some(store) => store.ring().map_err(|e| of_store(&e))?,
        None => KeyRing::default(),
    };
    // A key that signed elsewhere is not needed to check other receipts.
    match Signer::configured(&configuration.user.receipts, &folder) {
        Ok(Some(key)) => ring.add(key, CONFIGURED),
        Ok(None) => {}
        Err(error) => tracing::warn!("the configured key is left out: {error}"),
    }
    Ok(ring)
}

fn of_signer(error: &SignerError) -> ErrorReport {
    ErrorReport::new(Code::Configuration, error.to_string()).field("receipts.key")
}

fn of_store(error: &StoreError) -> ErrorReport {
    let code = match error {
        StoreError::Name(_) | StoreError::Taken(_) => Code::InvalidValue,
        StoreError::Unknown(_) => Code::UnknownName,
        _ => Code::State,
    };
    ErrorReport::new(code, error.to_string())
}

/// The error of a key that cannot be distrusted, with the nearest name of one that is trusted.
fn not_trusted(store: &KeyStore, name: &str, error: &StoreError) -> ErrorReport {
    let report = of_store(error);
    let ring = match (error, store.ring()) {
        (StoreError::Unknown(_), Ok(ring)) => ring,
        _ => return report,
    };
    match likely(name, ring.iter().map(|(_, name)| name)) {
        Some(near) => report.hint(format!("did you mean {near}? hotcell receipt key list lists them")),
        None => report.hint("hotcell receipt key list lists them"),
    }
}

fn public_key(file: &Path) -> Result<PublicKey, ErrorReport> {
    let bytes = read(file, MAX_KEY_BYTES).map_err(|e| unreadable(file, &e))?;
    PublicKey::from_pem(&String::from_utf8_lossy(&bytes)).map_err(|e| {
        ErrorReport::new(Code::InvalidValue, format!("{}: {e}", file.display()))
            .field("--key")
            .hint("hotcell receipt key show prints one")
    })
}

fn read(file: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(std::io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(bytes)
}

fn unreadable(file: &Path, error: &std::io::Error) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{} cannot be read: {error}", file.display())).field("FILE")
}
