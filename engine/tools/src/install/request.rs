//! Capabilities that a plugin requests.

use std::collections::{BTreeMap, BTreeSet};

use crate::capability::Origin;

/// Values of one kind that a plugin requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish<T> {
    /// Any value that a person chooses: the plugin has no manifest, only imports, or its manifest gives a reason instead of values.
    Any,
    /// Only these values.
    Only(T),
}

impl<T: Default> Default for Wish<T> {
    fn default() -> Self {
        Self::Only(T::default())
    }
}

/// Capabilities that a plugin requests. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Reason for reading folders. A person chooses the folders.
    pub read: Option<String>,
    /// Reason for writing in folders.
    pub write: Option<String>,
    /// Origins, each with a reason, which may be empty.
    pub net: Wish<BTreeMap<Origin, String>>,
    /// Reason for origins that a person chooses.
    pub any_net: Option<String>,
    /// Environment variables.
    pub env: Wish<BTreeSet<String>>,
    /// Keys of the plugin's settings.
    pub config: Wish<BTreeSet<String>>,
    /// Secrets, each with the origins that it may be sent to.
    pub secret: Wish<BTreeMap<String, BTreeSet<Origin>>>,
    /// Reason for sandboxed runs.
    pub sandbox: Option<String>,
    /// Reason for scans.
    pub guard: Option<String>,
}

impl Request {
    /// Request of a component without a manifest: everything that its imports could use (`at_most` of its
    /// description).
    #[must_use]
    pub fn of_imports(at_most: &[String]) -> Self {
        let has = |word: &str| at_most.iter().any(|a| a == word);
        let reason = |word: &str| has(word).then(|| "its imports can".to_owned());
        fn any<T: Default>(has: bool) -> Wish<T> {
            if has { Wish::Any } else { Wish::default() }
        }
        Self {
            read: reason("read"),
            write: reason("write"),
            net: any(has("net")),
            any_net: None,
            env: any(has("env")),
            config: any(has("config")),
            secret: any(has("secret")),
            sandbox: reason("sandbox"),
            guard: reason("guard"),
        }
    }

    /// The request in the words of `hotcell tool grant`, in a fixed order; `…` marks a value that a person
    /// chooses.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        fn all<T>(word: &str, wish: &Wish<T>, values: impl Fn(&T) -> Vec<String>) -> Vec<String> {
            match wish {
                Wish::Any => vec![format!("{word}=…")],
                Wish::Only(these) => values(these).into_iter().map(|v| format!("{word}={v}")).collect(),
            }
        }
        let names = |set: &BTreeSet<String>| set.iter().cloned().collect();
        let mut words = Vec::new();
        words.extend(self.read.is_some().then(|| "read=…".to_owned()));
        words.extend(self.write.is_some().then(|| "write=…".to_owned()));
        words.extend(all("net", &self.net, |these| these.keys().map(ToString::to_string).collect()));
        words.extend(all("env", &self.env, names));
        words.extend(all("config", &self.config, names));
        words.extend(all("secret", &self.secret, |these| {
            these.iter().flat_map(|(name, to)| to.iter().map(move |to| format!("{name}@{to}"))).collect()
        }));
        words.extend(self.sandbox.is_some().then(|| "sandbox".to_owned()));
        words.extend(self.guard.is_some().then(|| "guard".to_owned()));
        words
    }

    /// Reasons that the request gives: a word of [`Request::words`], and the reason.
    #[must_use]
    pub fn reasons(&self) -> Vec<(String, String)> {
        let mut reasons = Vec::new();
        let mut one = |word: String, why: &str| {
            if !why.is_empty() {
                reasons.push((word, why.to_owned()));
            }
        };
        for (word, why) in [("read=…", &self.read), ("write=…", &self.write), ("net=…", &self.any_net)]
        {
            one(word.to_owned(), why.as_deref().unwrap_or_default());
        }
        if let Wish::Only(places) = &self.net {
            places.iter().for_each(|(place, why)| one(format!("net={place}"), why));
        }
        for (word, why) in [("sandbox", &self.sandbox), ("guard", &self.guard)] {
            one(word.to_owned(), why.as_deref().unwrap_or_default());
        }
        reasons
    }
}
