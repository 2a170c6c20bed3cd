//! Capabilities in force for a plugin: those that it requests, the operator's policy allows and a person
//! granted. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hotcell_sandbox::Bytes;

use crate::capability::{Capability, Held, Origin};
use crate::install::request::{Request, Wish};

/// Upper bound that an operator sets on grants. The default allows every grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Folders that may be granted, with the folders in them; `None` for any.
    pub folders: Option<Vec<PathBuf>>,
    /// Whether write access to folders may be granted. Default: true.
    pub write: bool,
    /// Origins that may be granted; `None` for any.
    pub net: Option<BTreeSet<Origin>>,
    /// Variables that may be granted; `None` for any.
    pub env: Option<BTreeSet<String>>,
    /// Secrets that may be granted; `None` for any.
    pub secrets: Option<BTreeSet<String>>,
    /// Whether sandboxed runs may be granted. Default: true.
    pub sandbox: bool,
    /// Whether scans may be granted. Default: true.
    pub guard: bool,
    /// Maximum memory of a sandboxed run. Default: 512 MiB.
    pub sandbox_memory: Bytes,
    /// Folders of hotcell's own. Neither they nor their parent folders can be granted.
    pub own: Vec<PathBuf>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            folders: None,
            write: true,
            net: None,
            env: None,
            secrets: None,
            sandbox: true,
            guard: true,
            sandbox_memory: Bytes::mib(512),
            own: Vec::new(),
        }
    }
}

/// Capabilities in force, and grants that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Capabilities in force.
    pub held: Held,
    /// Grants that are not in force.
    pub missing: Vec<Missing>,
}

/// A grant that is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The granted capability.
    pub capability: Capability,
    /// Reason it is not in force.
    pub why: String,
}

/// Intersects request, policy and grant.
#[must_use]
pub fn intersect(request: &Request, policy: &Policy, grant: &Held) -> InForce {
    let mut in_force = InForce::default();
    for capability in grant.capabilities() {
        let why = request.refuses(&capability).or_else(|| policy.refuses(&capability));
        match why {
            None => in_force.held.add(capability),
            Some(why) => in_force.missing.push(Missing { capability, why }),
        }
    }
    // A secret travels only on requests that are allowed anyway.
    let held = &mut in_force.held;
    for (name, to) in &mut held.secrets {
        let (kept, lost): (BTreeSet<Origin>, BTreeSet<Origin>) =
            std::mem::take(to).into_iter().partition(|origin| held.net.contains(origin));
        *to = kept;
        in_force.missing.extend(lost.into_iter().map(|origin| Missing {
            why: format!("net={origin} is not in force"),
            capability: Capability::Secret(name.clone(), Some(origin)),
        }));
    }
    held.secrets.retain(|_, to| !to.is_empty());
    in_force
}

/// Capabilities that a grant amounts to: a secret without an origin is granted for those that the plugin
/// requests.
///
/// # Errors
/// A sentence when the plugin does not request it, or the operator's policy forbids it.
pub fn expand(request: &Request, policy: &Policy, capability: Capability) -> Result<Vec<Capability>, String> {
    let all = match (&capability, &request.secret) {
        (Capability::Secret(name, None), Wish::Any) => {
            return Err(format!("it has no manifest that says where to; write secret={name}@https://HOST"));
        }
        (Capability::Secret(name, None), Wish::Only(these)) => match these.get(name) {
            Some(to) => to.iter().map(|to| Capability::Secret(name.clone(), Some(to.clone()))).collect(),
            None => vec![capability],
        },
        _ => vec![capability],
    };
    match all.iter().find_map(|one| request.refuses(one).or_else(|| policy.refuses(one))) {
        Some(why) => Err(why),
        None => Ok(all),
    }
}

fn only<T, K>(wish: &Wish<T>, has: impl FnOnce(&T) -> bool, what: &K) -> Option<String>
where
    K: std::fmt::Display + ?Sized,
{
    match wish {
        Wish::Any => None,
        Wish::Only(these) => (!has(these)).then(|| format!("its manifest does not ask for {what}")),
    }
}

impl Request {
    /// Whether everything in `held` was requested.
    #[must_use]
    pub fn covers(&self, held: &Held) -> bool {
        intersect(self, &Policy::default(), held).held == *held
    }

    /// Reason this capability was not requested; `None` if it was.
    fn refuses(&self, capability: &Capability) -> Option<String> {
        let none =
            |what: &Option<String>, word: &str| what.is_none().then(|| format!("it does not ask for {word}"));
        match capability {
            // Permission to write includes permission to read.
            Capability::Read(_) if self.write.is_some() => None,
            Capability::Read(_) => none(&self.read, "folders to read"),
            Capability::Write(_) => none(&self.write, "folders to write"),
            Capability::Net(origin) => only(&self.net, |these| these.contains_key(origin), origin),
            Capability::Env(name) => only(&self.env, |these| these.contains(name), name),
            Capability::Config(key) => only(&self.config, |these| these.contains(key), key),
            Capability::Secret(name, None) => only(&self.secret, |these| these.contains_key(name), name),
            Capability::Secret(name, Some(to)) => only(
                &self.secret,
                |these| these.get(name).is_some_and(|places| places.contains(to)),
                &format!("{name} towards {to}"),
            ),
            Capability::Sandbox => none(&self.sandbox, "sandboxed runs"),
            Capability::Guard => none(&self.guard, "scans"),
        }
    }
}

impl Policy {
    /// Reason the operator does not allow this capability; `None` if it is allowed.
    fn refuses(&self, capability: &Capability) -> Option<String> {
        let listed = |set: &Option<BTreeSet<String>>, name: &String, key: &str| {
            let allowed = set.as_ref().is_none_or(|set| set.contains(name));
            (!allowed).then(|| format!("{key} in your configuration does not name {name}"))
        };
        let switched = |on: bool, key: &str| (!on).then(|| format!("{key} = false in your configuration"));
        match capability {
            Capability::Read(path) => self.refuses_folder(path),
            Capability::Write(path) => {
                switched(self.write, "tools.write").or_else(|| self.refuses_folder(path))
            }
            Capability::Net(origin) => {
                let allowed = self.net.as_ref().is_none_or(|net| net.contains(origin));
                (!allowed).then(|| format!("tools.net in your configuration does not name {origin}"))
            }
            Capability::Env(name) => listed(&self.env, name, "tools.env"),
            Capability::Config(_) => None,
            Capability::Secret(name, _) => listed(&self.secrets, name, "tools.secrets"),
            Capability::Sandbox => switched(self.sandbox, "tools.sandbox"),
            Capability::Guard => switched(self.guard, "tools.guard"),
        }
    }

    fn refuses_folder(&self, path: &Path) -> Option<String> {
        if let Some(own) = self.own.iter().find(|own| own.starts_with(path) || path.starts_with(own)) {
            return Some(format!("hotcell keeps its own things in {}", own.display()));
        }
        let allowed = self.folders.as_ref().is_none_or(|all| all.iter().any(|f| path.starts_with(f)));
        (!allowed).then(|| format!("tools.folders in your configuration does not hold {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn held(words: &str) -> Held {
        let mut held = Held::default();
        words.split_whitespace().for_each(|word| held.add(word.parse().unwrap()));
        held
    }

    fn words(held: &Held) -> String {
        held.capabilities().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    fn set<T: std::str::FromStr + Ord>(words: &str) -> BTreeSet<T>
    where
        T::Err: std::fmt::Debug,
    {
        words.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }

    #[test]
    fn grant_needs_request_policy_and_person() {
        let why = || Some("so".to_owned());
        let a = "https://a.org:443";
        let asks = |f: fn(&mut Request)| {
            let mut request = Request::default();
            f(&mut request);
            request
        };
        let everything = Request::of_imports(
            &["read", "write", "net", "env", "config", "secret", "sandbox", "guard"].map(str::to_owned),
        );
        let rules = |f: fn(&mut Policy)| {
            let mut policy = Policy::default();
            f(&mut policy);
            policy
        };
        let free = Policy::default();
        for (request, policy, grant, want) in [
            (
                Request::default(),
                free.clone(),
                "read=/a write=/b net=https://a.org env=A config=k secret=S@https://a.org sandbox guard",
                String::new(),
            ),
            (everything.clone(), free.clone(), "", String::new()),
            (everything.clone(), free.clone(), "read=/a write=/b sandbox", "read=/a write=/b sandbox".into()),
            (
                Request { read: why(), ..Request::default() },
                free.clone(),
                "read=/a write=/b",
                "read=/a".into(),
            ),
            (
                Request { write: why(), ..Request::default() },
                free.clone(),
                "read=/a write=/b",
                "read=/a write=/b".into(),
            ),
            (
                asks(|r| {
                    r.net = Wish::Only(BTreeMap::from([("https://a.org".parse().unwrap(), String::new())]));
                }),
                free.clone(),
                "net=https://a.org net=https://b.org",
                format!("net={a}"),
            ),
            (asks(|r| r.env = Wish::Only(set("A"))), free.clone(), "env=A env=B", "env=A".into()),
            (
                everything.clone(),
                rules(|p| p.folders = Some(vec!["/srv".into()])),
                "read=/srv read=/srv/a read=/srvx read=/",
                "read=/srv read=/srv/a".into(),
            ),
            (everything.clone(), rules(|p| p.write = false), "read=/srv write=/srv", "read=/srv".into()),
            (
                everything.clone(),
                rules(|p| p.own = vec!["/home/me/state".into()]),
                "read=/home/me read=/home/me/state/x read=/home/me/work read=/",
                "read=/home/me/work".into(),
            ),
            (
                everything.clone(),
                rules(|p| p.net = Some(set("https://a.org"))),
                "net=https://a.org net=http://a.org",
                format!("net={a}"),
            ),
            (
                everything.clone(),
                rules(|p| p.secrets = Some(set("S"))),
                "net=https://a.org secret=S@https://a.org secret=T@https://a.org",
                format!("net={a} secret=S@{a}"),
            ),
            (
                everything.clone(),
                free.clone(),
                "net=https://a.org secret=S@https://b.org",
                format!("net={a}"),
            ),
            (
                everything.clone(),
                rules(|p| (p.sandbox, p.guard) = (false, false)),
                "sandbox guard",
                String::new(),
            ),
            (everything, rules(|p| p.env = Some(set(""))), "env=A config=k", "config=k".into()),
        ] {
            let in_force = intersect(&request, &policy, &held(grant));
            assert_eq!(words(&in_force.held), want, "{grant}");
            let (granted, kept) = (held(grant).capabilities().len(), in_force.held.capabilities().len());
            assert_eq!(in_force.missing.len(), granted - kept, "what is not in force is told: {grant}");
        }
    }

    #[test]
    fn secret_grant_expands_to_manifest_origins() {
        let to: BTreeSet<Origin> = set("https://a.org https://b.org");
        let request =
            Request { secret: Wish::Only(BTreeMap::from([("S".to_owned(), to)])), ..Request::default() };
        let policy = Policy::default();
        let expand = |request: &Request, text: &str| {
            let done = expand(request, &policy, text.parse().unwrap());
            done.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            expand(&request, "secret=S").unwrap(),
            "secret=S@https://a.org:443 secret=S@https://b.org:443"
        );
        assert_eq!(expand(&request, "secret=S@https://a.org").unwrap(), "secret=S@https://a.org:443");
        assert!(expand(&request, "secret=S@https://c.org").unwrap_err().contains("towards https://c.org"));
        assert!(expand(&request, "secret=T").unwrap_err().contains("does not ask for T"));
        assert!(expand(&request, "read=/x").unwrap_err().contains("folders to read"));
        let any = Request::of_imports(&["secret".to_owned()]);
        assert!(expand(&any, "secret=S").unwrap_err().contains("secret=S@"));
        assert_eq!(expand(&any, "secret=S@https://a.org").unwrap(), "secret=S@https://a.org:443");
    }

    fn capability() -> impl Strategy<Value = Capability> {
        let folder = prop::sample::select(vec!["/", "/a", "/a/b", "/c", "/own", "/own/x"]);
        let origin = prop::sample::select(vec!["https://a.org", "http://a.org", "https://b.org:8443"]);
        let origin = origin.prop_map(|text| text.parse::<Origin>().unwrap());
        let name = prop::sample::select(vec!["A", "B", "C"]).prop_map(str::to_owned);
        prop_oneof![
            folder.clone().prop_map(|f| Capability::Read(f.into())),
            folder.prop_map(|f| Capability::Write(f.into())),
            origin.clone().prop_map(Capability::Net),
            name.clone().prop_map(Capability::Env),
            name.clone().prop_map(Capability::Config),
            (name, origin).prop_map(|(n, o)| Capability::Secret(n, Some(o))),
            Just(Capability::Sandbox),
            Just(Capability::Guard),
        ]
    }

    fn some_held() -> impl Strategy<Value = Held> {
        prop::collection::vec(capability(), 0..12).prop_map(|all| {
            let mut held = Held::default();
            all.into_iter().for_each(|one| held.add(one));
            held
        })
    }

    /// A request for exactly these capabilities, as a manifest would make it.
    fn request_of(held: &Held) -> Request {
        let why = |is: bool| is.then(|| "so".to_owned());
        Request {
            read: why(!held.read.is_empty()),
            write: why(!held.write.is_empty()),
            any_net: None,
            net: Wish::Only(held.net.iter().map(|o| (o.clone(), String::new())).collect()),
            env: Wish::Only(held.env.clone()),
            config: Wish::Only(held.config.clone()),
            secret: Wish::Only(held.secrets.clone()),
            sandbox: why(held.sandbox),
            guard: why(held.guard),
        }
    }

    proptest! {
        #[test]
        fn held_grants_never_exceed_request_or_policy(asked in some_held(), allowed in some_held(), granted in some_held()) {
            let request = request_of(&asked);
            let folders: Vec<PathBuf> = allowed.read.iter().chain(&allowed.write).cloned().collect();
            let policy = Policy {
                folders: Some(folders.clone()),
                write: !allowed.write.is_empty(),
                net: Some(allowed.net.clone()),
                env: Some(allowed.env.clone()),
                secrets: Some(allowed.secrets.keys().cloned().collect()),
                sandbox: allowed.sandbox,
                guard: allowed.guard,
                own: vec!["/own".into()],
                ..Policy::default()
            };
            let InForce { held, missing } = intersect(&request, &policy, &granted);
            // Nothing beyond the grant.
            let all = granted.capabilities();
            prop_assert!(held.capabilities().iter().all(|one| all.contains(one)));
            prop_assert_eq!(held.capabilities().len() + missing.len(), all.len());
            // Nothing beyond the request.
            prop_assert!(held.read.is_empty() || !asked.read.is_empty() || !asked.write.is_empty());
            prop_assert!(held.write.is_empty() || !asked.write.is_empty());
            prop_assert!(held.net.is_subset(&asked.net) && held.env.is_subset(&asked.env) && held.config.is_subset(&asked.config));
            for (name, to) in &held.secrets {
                prop_assert!(!to.is_empty() && to.is_subset(&held.net));
                prop_assert!(asked.secrets.get(name).is_some_and(|places| to.is_subset(places)));
            }
            prop_assert!(held.sandbox <= (asked.sandbox && allowed.sandbox) && held.guard <= (asked.guard && allowed.guard));
            // Nothing beyond the policy.
            prop_assert!(held.net.is_subset(&allowed.net) && held.env.is_subset(&allowed.env));
            prop_assert!(held.secrets.keys().all(|name| allowed.secrets.contains_key(name)));
            for folder in held.read.iter().chain(&held.write) {
                prop_assert!(folders.iter().any(|f| folder.starts_with(f)));
                prop_assert!(!folder.starts_with("/own") && !Path::new("/own").starts_with(folder));
            }
            // Intersecting again changes nothing.
            prop_assert_eq!(intersect(&request, &policy, &held).held, held);
        }
    }
}
