//! Network requests of a run: the exact subject that a person approves, including every byte that the run
//! starts with.

use std::io;
use std::sync::OnceLock;

use hotcell_config::SecretSettings;
use hotcell_egress::AllowList;
use hotcell_review::approvals::content::Content;
use hotcell_review::permission::subject::{ApprovalSubject, MAX_TEXT_BYTES, readable, whole};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_workspace::diff;
use serde_json::Value;

use super::workspaces::RunDir;

/// Beginning of an entry that names a secret in place of a host.
const SECRET: &str = "secret:";
/// Maximum number of hosts and secrets per run.
const MAX_HOSTS: usize = 16;
/// Arguments that do not affect what runs.
const ASIDE: [&str; 3] = ["network", "wait_ms", "idempotency_key"];
/// Maximum size of a diff, in bytes: one byte more than a person may be asked to read, so that a longer one
/// is noticed.
const MAX_DIFF_BYTES: usize = MAX_TEXT_BYTES + 1;

/// Parses the hosts that a caller names. Only the operator may say where a name is, and which addresses of
/// private networks may be reached: a rule of that sort must be in the operator's own list, even if a person
/// would approve it.
///
/// # Errors
/// A report when a host is invalid or only the operator may name it, or there are too many.
pub fn hosts(named: &[String], operators: &AllowList) -> Result<Option<AllowList>, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("network");
    if named.len() > MAX_HOSTS {
        return Err(bad(format!("network names {} hosts; allowed are {MAX_HOSTS}", named.len())));
    }
    if named.is_empty() {
        return Ok(None);
    }
    let list = AllowList::of(named.iter().map(String::as_str).filter(|one| !one.starts_with(SECRET)))
        .map_err(|e| bad(format!("network: {e}")).hint("each is HOST:PORT, such as pypi.org:443"))?;
    // A person would be asked to let it reach what it denies.
    if named.iter().all(|one| one.starts_with('!')) {
        let why = "network: these rules only deny, and a run reaches nothing that no rule allows";
        return Err(bad(why.to_owned()).hint("leave them out, or name the hosts that it needs as HOST:PORT"));
    }
    if let Some(rule) = operators.widened_by(&list.placed()) {
        let why =
            format!("network: {rule}: only the operator says where a name is, or names a private address");
        return Err(bad(why).hint("name a public host as HOST:PORT; the operator can put such a rule in mcp.hosts of the configuration"));
    }
    if operators.widened_by(&list).is_some()
        && let Some(notice) = list.notices().first()
    {
        return Err(bad(format!("network: {notice}")));
    }
    Ok(Some(list))
}

/// A secret that a call names, as it was when it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    /// Its name.
    pub name: String,
    /// Its host and rules, for the person who approves.
    pub shown: String,
}

/// The secrets that a caller names, each as `secret:NAME`: those of the operator's configuration that are offered over MCP. A caller
/// never says where one is sent.
///
/// # Errors
/// A report for a name that is not offered.
pub fn secrets(named: &[String], offered: &SecretSettings) -> Result<Vec<NamedSecret>, ErrorReport> {
    let names = named.iter().filter_map(|one| one.strip_prefix(SECRET));
    let found = names.map(|name| match offered_now(name, offered) {
        Some(shown) => Ok(NamedSecret { name: name.to_owned(), shown }),
        None => {
            let known = offered.defined.iter().filter(|(_, definition)| definition.mcp);
            let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
            let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("network: there is no secret of this name for callers; there are: {there}");
            Err(ErrorReport::new(Code::InvalidValue, why)
                .field("network")
                .hint("the operator offers one with mcp = true in [secrets.NAME] of the configuration"))
        }
    });
    found.collect()
}

/// A secret in words, if the operator offers it now.
pub(crate) fn offered_now(name: &str, offered: &SecretSettings) -> Option<String> {
    let definition = offered.defined.get(name).filter(|definition| definition.mcp);
    definition.map(|definition| hotcell_config::secrets::shown(name, definition))
}

/// Checks that a run is still the approved one: between approval and start the folder below its workspace may
/// change.
#[derive(Debug)]
pub struct Approved {
    /// Tool that was called.
    pub tool: &'static str,
    /// Hosts.
    pub hosts: AllowList,
    /// Secrets.
    pub secrets: Vec<NamedSecret>,
    /// Arguments of the call.
    pub call: Value,
    /// Workspace id and run folder.
    pub place: Option<(String, RunDir)>,
    /// Digest of the approved request; empty until it is approved.
    pub ask: OnceLock<String>,
}

impl Approved {
    /// Subject of the request in the current state. Blocks.
    ///
    /// # Errors
    /// Like [`asked`].
    pub fn what(&self) -> Result<ApprovalSubject, ErrorReport> {
        let place = self.place.as_ref().map(|(id, place)| (id.as_str(), place));
        asked(self.tool, (&self.hosts, &self.secrets), &self.call, place)
    }

    /// Checks that the run is still the approved one. Blocks.
    ///
    /// # Errors
    /// A sentence with the difference, or with the reason why the workspace cannot be read.
    pub fn still(&self) -> Result<(), String> {
        let now = self.what().map_err(|report| report.to_string())?;
        if self.ask.get() == Some(&now.ask()) {
            return Ok(());
        }
        Err("what the run starts with is not what was approved: it changed meanwhile; nothing ran, and the same call asks anew".to_owned())
    }
}

/// Subject of the network request for a run with these arguments. Reads the whole workspace. Blocks.
///
/// # Errors
/// A report when the workspace cannot be read, or is too large.
pub fn asked(
    tool: &str,
    (hosts, secrets): (&AllowList, &[NamedSecret]),
    arguments: &Value,
    workspace: Option<(&str, &RunDir)>,
) -> Result<ApprovalSubject, ErrorReport> {
    let mut run = sorted(arguments);
    if let Value::Object(fields) = &mut run {
        fields.retain(|name, _| !ASIDE.contains(&name.as_str()));
    }
    let mut content = Content::default();
    content.text(tool.as_bytes());
    content.text(run.to_string().as_bytes());
    let mut shown = readable(&run);
    if let Some((_, RunDir::Pinned(kept))) = workspace {
        let pinned = kept.pinned();
        let bad = |error: io::Error| {
            let why = format!("the workspace cannot be read for an approval: {error}");
            ErrorReport::new(Code::InvalidValue, why)
                .field("workspace_id")
                .hint("use a smaller workspace, or run it without network")
        };
        let of_store = |e: hotcell_workspace::store::StoreError| bad(io::Error::other(e.to_string()));
        let changes = pinned.changes().map_err(of_store)?;
        let read = pinned.with_view(|before, view| {
            content.view(view)?;
            diff(before, view, &changes, MAX_DIFF_BYTES)
        });
        let changed = read.map_err(of_store)?;
        shown.push_str("What the workspace has beside its folder:\n");
        shown.push_str(&changed);
    }
    Ok(ApprovalSubject::Network {
        tool: tool.to_owned(),
        hosts: hosts
            .rules()
            .iter()
            .map(ToString::to_string)
            .chain(secrets.iter().map(|secret| secret.shown.clone()))
            .collect(),
        workspace: workspace.map(|(id, _)| id.to_owned()),
        content: content.finish(),
        shown: whole(shown).map_err(|report| report.field("network"))?,
    })
}

/// A value with sorted fields: the same call may send them in another order.
#[must_use]
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort();
            Value::Object(names.into_iter().map(|name| (name.clone(), sorted(&fields[name]))).collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(tool: &str, hosts: &[&str], arguments: &Value) -> ApprovalSubject {
        let list = AllowList::of(hosts.iter().copied()).unwrap();
        asked(tool, (&list, &[]), arguments, None).unwrap()
    }

    #[test]
    fn request_identity_covers_all_run_fields() {
        let base =
            json!({ "argv": ["a"], "env": { "A": "1", "B": "2" }, "network": ["x.org:1"], "wait_ms": 1 });
        let again =
            json!({ "wait_ms": 9, "env": { "B": "2", "A": "1" }, "argv": ["a"], "idempotency_key": "k" });
        let first = ask("run_command", &["x.org:1"], &base);
        assert_eq!(first, ask("run_command", &["x.org:1"], &again));
        for (tool, hosts, arguments) in [
            ("run_code", "x.org:1", base.clone()),
            ("run_command", "x.org:2", base.clone()),
            ("run_command", "x.org:1", json!({ "argv": ["b"], "env": { "A": "1", "B": "2" } })),
            ("run_command", "x.org:1", json!({ "argv": ["a"], "env": { "A": "2", "B": "1" } })),
            ("run_command", "x.org:1", json!({ "argv": ["a"], "env": { "A": "1", "B": "2" }, "stdin": "x" })),
        ] {
            assert_ne!(first.ask(), ask(tool, &[hosts], &arguments).ask(), "{tool} {hosts} {arguments}");
        }
    }

    #[test]
    fn requested_hosts_need_port_and_are_limited() {
        let list = AllowList::default();
        let named = |all: &[&str]| hosts(&all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(), &list);
        assert!(named(&[]).unwrap().is_none());
        assert_eq!(named(&["pypi.org:443"]).unwrap().unwrap().rules().len(), 1);
        assert!(named(&["pypi.org"]).unwrap_err().to_string().contains("pypi.org:443"));
        assert!(named(&["a.org:1"; MAX_HOSTS + 1]).is_err());
        for (rules, refused) in [
            (&["!a.org:1"][..], true),
            (&["!a.org:1", "!*.b.org:2"], true),
            (&["!a.org:1", "*.org.test:1"], false),
            (&["secret:gh", "!a.org:1"], false),
        ] {
            let error = named(rules).err().map(|error| error.to_string());
            assert_eq!(error.is_some_and(|error| error.contains("only deny")), refused, "{rules:?}");
        }
    }

    #[test]
    fn secrets_are_the_operators_that_are_offered() {
        let text = "[secrets.gh]\nsource = \"env:A\"\nhost = \"api.test/v1\"\nmethods = [\"GET\"]\nmcp = true\n\
                    [secrets.own]\nsource = \"env:B\"\nhost = \"b.test\"\n";
        let offered = hotcell_config::Settings::parse(text, std::path::Path::new("/etc/config.toml"))
            .unwrap()
            .run
            .secrets;
        let named =
            |all: &[&str]| secrets(&all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(), &offered);
        assert_eq!(named(&["pypi.org:443"]).unwrap(), []);
        let found = named(&["pypi.org:443", "secret:gh"]).unwrap();
        assert!(found[0].name == "gh" && found[0].shown.contains("api.test/v1, GET only"), "{found:?}");
        for wrong in ["secret:own", "secret:", "secret:gh=env:C@evil.test", "secret:zz"] {
            let error = named(&[wrong]).unwrap_err().to_string();
            assert!(error.contains("there are: gh"), "{error}");
        }
        // With a secret alone, the proxy is there and allows no host.
        let both = ["secret:gh".to_owned()];
        assert!(hosts(&both, &AllowList::default()).unwrap().unwrap().is_empty());
        let what = |secrets: &[NamedSecret]| {
            asked("run_code", (&AllowList::default(), secrets), &Value::Null, None).unwrap()
        };
        let ApprovalSubject::Network { hosts, .. } = what(&found) else { panic!("another subject") };
        assert_eq!(hosts, [found[0].shown.clone()]);
        assert_ne!(what(&found).ask(), what(&[]).ask());
    }

    #[test]
    fn host_addresses_come_from_operator_only() {
        let operators: AllowList = "db.test=10.0.0.5:5432,10.0.0.7:80,pypi.org:443".parse().unwrap();
        for (named, own, listed) in [
            ("pypi.org:443", true, true),
            ("1.1.1.1:443", true, true),
            ("db.test=10.0.0.5:5432", false, true),
            ("10.0.0.7:80", false, true),
            ("10.0.0.7:81", false, false),
            ("db.test=10.0.0.6:5432", false, false),
            ("pypi.org=1.1.1.1:443", false, false),
            ("192.168.0.1:80", false, false),
            ("[fd00::1]:80", false, false),
            ("127.0.0.1:80", false, false),
            ("GET db.test=10.0.0.5:5432/x", false, true),
            ("GET pypi.org:80/simple", true, true),
            ("*.github.io:443", false, false),
            ("*.co.uk:443", false, false),
            ("169.254.169.254:80", false, false),
        ] {
            let asked = [named.to_owned()];
            assert_eq!(hosts(&asked, &AllowList::default()).is_ok(), own, "{named}");
            assert_eq!(hosts(&asked, &operators).is_ok(), listed, "{named}");
        }
    }
}
