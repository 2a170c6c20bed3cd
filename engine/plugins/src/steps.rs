//! Add, update, accept, grant, revoke, remove: each one atomic transaction with its entry in the audit log.

use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use hotcell_config::Configuration;
use hotcell_guard::quarantine::Channel;
use hotcell_sandbox::FileId;
use hotcell_state::actor::Actor;
use hotcell_state::audit;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::time::micros_since_1970;
use hotcell_tools::Capability;
use hotcell_tools::install::grant::expand;
use hotcell_tools::install::signature::Key;
use hotcell_tools::install::sources::Source;
use hotcell_tools::mapping::names::tool_names;
use rusqlite::Connection;

use super::adding::{AddOptions, Describe};
use super::fetch::Looked;
use super::http::unreachable;
use super::offer::{Choice, Offer};
use super::plugins::{CachedPlugin, Done, Failed, Plugins, find};
use super::report::{Inspection, SCHEMA, ToolList, difference};
use super::rows::{self, AfterTool, Granted, Plugin};

/// Minimum number of digits of a digest prefix.
const MIN_DIGEST_DIGITS: usize = 8;

/// Result of adding a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// A new plugin.
    New,
    /// Replaced the plugin's version.
    Updated,
    /// Waiting for a person, who sees its changes.
    Waits,
    /// Installed already.
    Same,
}

impl Plugins {
    /// Only a person on the command line may give rights.
    fn person(&self) -> Done<()> {
        if self.actor.channel == Channel::Cli {
            return Ok(());
        }
        let why = "only a person on the command line changes plugins and what is granted to them";
        Err(ErrorReport::new(Code::Usage, why).hint("ask the operator: hotcell tool …"))
    }

    fn step<T>(&self, work: impl FnOnce(&Connection, &rows::Components) -> Result<T, Failed>) -> Done<T> {
        let (store, components) = self.open()?;
        let done = store.step(|database| work(database, &components));
        // Removes components that no plugin has (any more).
        let _ = store.step(|database| components.sweep(database).map_err(Failed::from));
        done.map_err(|Failed(report)| report)
    }

    /// Adds a plugin, or another version of one.
    ///
    /// # Errors
    /// A report when the source, the component, the manifest or the signature is invalid, or another plugin
    /// has the name. Nothing is stored then.
    pub async fn add(
        &self,
        source: &OsStr,
        cwd: &Path,
        options: &AddOptions,
        describer: &dyn Describe,
    ) -> Done<(String, Added)> {
        self.person()?;
        let looked = self.look(source, cwd, options, describer).await?;
        let name = looked.name.clone();
        Ok((name, self.keep(&looked, options.replace)?))
    }

    /// Checks plugins from this host that may have changed according to `may`. A version with no further
    /// rights and unchanged texts for models is taken; others wait for a person. Returns the names of changed
    /// plugins.
    ///
    /// # Errors
    /// A report when the plugins cannot be read. A single plugin that cannot be read again stays as it is.
    pub async fn refresh(
        &self,
        describer: &dyn Describe,
        mut may: impl FnMut(&Plugin) -> bool,
    ) -> Done<Vec<String>> {
        let mut all = self.read(|database, _| Ok(rows::all(database)?))?;
        all.retain(|plugin| plugin.version.local && may(plugin));
        let mut own = self.clone();
        own.actor = self.actor.by(Channel::Own);
        let mut changed = Vec::new();
        for plugin in all {
            match own.newer(&plugin, describer).await {
                Ok(true) => changed.push(plugin.name),
                Ok(false) => {}
                Err(why) => {
                    tracing::warn!(target: "hotcell_contents", "the plugin {} stays as it is: {why}", plugin.name);
                }
            }
        }
        Ok(changed)
    }

    async fn newer(&self, plugin: &Plugin, describer: &dyn Describe) -> Done<bool> {
        let place = &plugin.version.place;
        let source = Source::parse(place.as_ref(), Path::new("/"));
        let source = source.map_err(|e| ErrorReport::new(Code::InvalidValue, e.to_string()))?;
        let Ok(fetched) = source.fetch().await else { return Ok(false) };
        let digest = hotcell_tools::install::sources::sha256(&fetched.wasm);
        let beside = fetched.manifest.as_ref().map(|(text, _)| text);
        let same = |v: &rows::Version| {
            let manifest = beside.or(v.description.manifest.as_ref());
            v.digest == digest && v.manifest.as_ref() == manifest
        };
        if same(&plugin.version) || plugin.pending.as_ref().is_some_and(same) {
            return Ok(false);
        }
        // The new version counts as signed only by the signer of the last one.
        let key = plugin.version.signer.as_deref().and_then(|key| Key::parse(key, Path::new("/")).ok());
        let signs = |key: &Key| key.check(&fetched.wasm, fetched.signature.as_deref()).is_ok();
        let key = key.filter(signs).map(|key| key.base64().to_owned());
        let options = AddOptions { key, ..AddOptions::default() };
        let looked = self.look_at(&source, Path::new("/"), &options, describer).await?;
        if looked.name != plugin.name {
            let why = format!("its manifest calls it {:?} now; add it again by hand", looked.name);
            return Err(ErrorReport::new(Code::InvalidValue, why));
        }
        Ok(self.keep(&looked, false)? != Added::Same)
    }

    fn keep(&self, looked: &Looked, replace: bool) -> Done<Added> {
        self.step(|database, components| {
            let version = &looked.version;
            let put = || {
                components.put(&version.digest, &looked.wasm).map_err(|e| {
                    ErrorReport::new(Code::State, format!("the component cannot be kept: {e}"))
                        .parameter("state")
                })
            };
            let Some(mut plugin) = rows::by_name(database, &looked.name)? else {
                put()?;
                let plugin = Plugin {
                    name: looked.name.clone(),
                    added_us: now(),
                    version: version.clone(),
                    pending: None,
                };
                plugin.write(database)?;
                self.log(database, "tool_add", &plugin)?;
                return Ok(Added::New);
            };
            if plugin.version.place != version.place && !replace {
                let why = format!("there is a plugin {} already, from {}", plugin.name, plugin.version.place);
                let hint = format!(
                    "remove it first (hotcell tool remove {}), or say ‹replace›: what changes is shown then",
                    plugin.name
                );
                return Err(ErrorReport::new(Code::InvalidValue, why).field("SOURCE").hint(hint).into());
            }
            if plugin.version == *version {
                if plugin.pending.take().is_some() {
                    plugin.write(database)?;
                    self.log(database, "tool_update", &plugin)?;
                    return Ok(Added::Updated);
                }
                return Ok(Added::Same);
            }
            if plugin.pending.as_ref() == Some(version) {
                return Ok(Added::Waits);
            }
            put()?;
            let granted = !plugin.granted(database)?.is_empty();
            let signed = version.signer.is_some() && version.signer == plugin.version.signer;
            let elsewhere = plugin.version.place != version.place;
            if elsewhere || difference(&plugin.name, &plugin.version, version).asks_a_person(granted, signed)
            {
                plugin.pending = Some(version.clone());
                plugin.write(database)?;
                self.log(database, "tool_update_waits", &plugin)?;
                return Ok(Added::Waits);
            }
            plugin.take(database, version.clone(), true)?;
            self.log(database, "tool_update", &plugin)?;
            Ok(Added::Updated)
        })
    }

    /// Accepts the waiting version, named by a prefix of [`super::report::Update::id`], so that the version
    /// accepted is the one that was shown. It gets the grants of the previous version.
    ///
    /// # Errors
    /// A report when no version waits, or another one does.
    pub fn accept(&self, name: &str, digest: &str) -> Done<ToolList> {
        self.person()?;
        self.step(|database, _| {
            let mut plugin = find(database, name)?;
            let Some(pending) = plugin.pending.clone() else { return Err(nothing_waits(name).into()) };
            let (digest, agreed) = (digest.to_ascii_lowercase(), pending.agreed());
            if digest.len() < MIN_DIGEST_DIGITS || !agreed.starts_with(&digest) {
                let why = format!("what waits of {name} is {agreed}");
                let hint = format!("look at it first: hotcell tool accept {name}");
                return Err(ErrorReport::new(Code::InvalidValue, why).field("DIGEST").hint(hint).into());
            }
            self.check_signer(&pending)?;
            plugin.take(database, pending, true)?;
            self.log(database, "tool_accept", &plugin)?;
            self.listed(database, &plugin)
        })
    }

    /// The waiting version, for a person to inspect.
    ///
    /// # Errors
    /// A report when no version waits.
    pub fn waiting(&self, name: &str) -> Done<Inspection> {
        let page = self.read_of(name, |database, _| {
            let plugin = find(database, name)?;
            let granted = plugin.granted(database)?;
            let page = |pending| Inspection::of(name, &plugin.version, Some((pending, &granted)));
            Ok(plugin.pending.as_ref().map(page))
        })?;
        page.ok_or_else(|| nothing_waits(name))
    }

    /// Grants capabilities to the plugin's component, all of them or none. A folder's path is relative to
    /// `cwd`.
    ///
    /// # Errors
    /// A report when a capability is invalid, was not requested or violates the operator's policy, or its
    /// folder does not exist.
    pub fn grant(&self, name: &str, words: &[String], cwd: &Path) -> Done<ToolList> {
        self.person()?;
        self.step(|database, _| {
            let plugin = find(database, name)?;
            let now = now();
            for one in self.permitted(&plugin, words, cwd)? {
                plugin.grant(database, &one, now, &self.actor.to_string())?;
            }
            self.log(database, "tool_grant", &plugin)?;
            self.listed(database, &plugin)
        })
    }

    /// Grants for these capabilities, if they may be granted to the plugin.
    pub fn permitted(&self, plugin: &Plugin, words: &[String], cwd: &Path) -> Done<Vec<Granted>> {
        self.permitted_if(plugin, words, cwd, true)
    }

    /// Like [`Plugins::permitted`], but folders are accessed only if `look`: a caller must not learn which
    /// ones exist.
    fn permitted_if(&self, plugin: &Plugin, words: &[String], cwd: &Path, look: bool) -> Done<Vec<Granted>> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let (request, policy, name) = (plugin.version.request(), self.policy(), &plugin.name);
        let mut all = Vec::new();
        for word in words {
            let bad = |why: String| {
                let asks = match request.words() {
                    all if all.is_empty() => format!("{name} asks for nothing"),
                    all => format!("{name} asks for {}", all.join(" ")),
                };
                ErrorReport::new(Code::InvalidValue, format!("{word}: {why}")).field("CAPABILITY").hint(asks)
            };
            let capability = parse(word)?;
            let (capability, identity) = match capability {
                // Resolved when a person approves.
                other if !look => Ok((other, None)),
                Capability::Read(path) => located(&path, cwd).map(|(p, i)| (Capability::Read(p), Some(i))),
                Capability::Write(path) => located(&path, cwd).map(|(p, i)| (Capability::Write(p), Some(i))),
                other => Ok((other, None)),
            }
            .map_err(|why| {
                ErrorReport::new(Code::InvalidValue, format!("{word}: {why}")).field("CAPABILITY")
            })?;
            for capability in expand(&request, &policy, capability).map_err(bad)? {
                if let Capability::Net(to) | Capability::Secret(_, Some(to)) = &capability
                    && let Some(what) = unreachable(to)
                {
                    return Err(bad(format!("{} is {what}, which is never reached", to.host)));
                }
                all.push(Granted { capability, identity });
            }
        }
        Ok(all)
    }

    /// Checks that these capabilities could be granted to the plugin's component now, permanently or for one
    /// call.
    ///
    /// # Errors
    /// A report when the component is another one, or a capability cannot be granted.
    pub fn may_be_granted(&self, name: &str, component: &str, words: &[String]) -> Done<()> {
        self.may_be(name, component, words, true)
    }

    /// Checks that a person may be asked for these capabilities, without access to folders.
    ///
    /// # Errors
    /// Like [`Plugins::may_be_granted`], except that missing folders are not noticed.
    pub fn may_be_asked(&self, name: &str, component: &str, words: &[String]) -> Done<()> {
        self.may_be(name, component, words, false)
    }

    fn may_be(&self, name: &str, component: &str, words: &[String], look: bool) -> Done<()> {
        self.read_of(name, |database, _| {
            let plugin = find(database, name)?;
            if plugin.version.digest != component {
                let why = format!("the plugin {name} is another component now ({})", plugin.version.digest);
                return Err(ErrorReport::new(Code::InvalidValue, why)
                    .field("ID")
                    .hint("nothing was allowed; deny it, and the same call asks anew")
                    .into());
            }
            self.permitted_if(&plugin, words, Path::new("/"), look)?;
            Ok(())
        })
    }

    /// Revokes grants; an empty list revokes all.
    ///
    /// # Errors
    /// A report when one of them was not granted. Nothing is revoked then.
    pub fn revoke(&self, name: &str, words: &[String], cwd: &Path) -> Done<ToolList> {
        self.person()?;
        self.step(|database, _| {
            let plugin = find(database, name)?;
            let granted = plugin.granted(database)?;
            for word in words {
                let asked = parse(word)?;
                let resolve_prefix = |one: &&Granted| is_meant(&asked, &one.capability, cwd);
                let all: Vec<&Granted> = granted.iter().filter(resolve_prefix).collect();
                if all.is_empty() {
                    let told: Vec<String> = granted.iter().map(|g| g.capability.to_string()).collect();
                    let hint = if told.is_empty() {
                        "nothing is".to_owned()
                    } else {
                        format!("granted is {}", told.join(" "))
                    };
                    let why = format!("{word} is not granted to {name}");
                    return Err(ErrorReport::new(Code::InvalidValue, why)
                        .field("CAPABILITY")
                        .hint(hint)
                        .into());
                }
                for one in all {
                    plugin.revoke(database, &one.capability.to_string())?;
                }
            }
            if words.is_empty() {
                for one in &granted {
                    plugin.revoke(database, &one.capability.to_string())?;
                }
            }
            self.log(database, "tool_revoke", &plugin)?;
            self.listed(database, &plugin)
        })
    }

    /// Offers these tools of a plugin to callers, and no others.
    ///
    /// # Errors
    /// A report that names the nearest tool to one that there is not.
    pub fn offer(&self, name: &str, choice: &Choice) -> Done<ToolList> {
        self.person()?;
        self.step(|database, _| {
            let plugin = find(database, name)?;
            let tools = tool_names(&plugin.name, &plugin.version.description.exports);
            plugin.choose(database, &Offer::of(choice, &plugin.name, &tools)?)?;
            self.log(database, "tool_offer", &plugin)?;
            self.listed(database, &plugin)
        })
    }

    /// Removes a plugin with its grants and its stored values.
    ///
    /// # Errors
    /// A report when there is no such plugin.
    pub fn remove(&self, name: &str) -> Done<()> {
        self.person()?;
        self.step(|database, _| {
            let plugin = find(database, name)?;
            plugin.remove(database)?;
            let after = AfterTool {
                plugin: plugin.name,
                digest: plugin.version.digest.clone(),
                agreed: plugin.version.agreed(),
                pending: None,
                granted: Vec::new(),
                offer: None,
                removed: true,
            };
            append(database, &self.actor, "tool_remove", &after)
        })
    }

    fn listed(&self, database: &Connection, plugin: &Plugin) -> Result<ToolList, Failed> {
        let tools = self.tools_of(&CachedPlugin::of(plugin.clone(), database)?);
        Ok(ToolList { schema: SCHEMA.to_owned(), tools })
    }

    fn log(&self, database: &Connection, action: &str, plugin: &Plugin) -> Result<(), Failed> {
        append(database, &self.actor, action, &plugin.after(database)?)
    }
}

/// The check of a grant for [`hotcell_review::Approvals::approve`]: the plugin's component and its capabilities may be granted now.
pub fn grant_check(
    configuration: &Configuration,
) -> impl Fn(&str, &str, &[String]) -> Result<(), ErrorReport> + '_ {
    |plugin, component, capabilities| {
        Plugins::of(configuration)?.may_be_granted(plugin, component, capabilities)
    }
}

fn append(database: &Connection, actor: &Actor, action: &str, after: &AfterTool) -> Result<(), Failed> {
    Ok(audit::append(database, now(), actor, action, &after.digest, after)?)
}

fn now() -> i64 {
    micros_since_1970(SystemTime::now())
}

fn nothing_waits(name: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("no other version of {name} waits")).field("PLUGIN")
}

fn parse(word: &str) -> Result<Capability, ErrorReport> {
    word.parse().map_err(|e: hotcell_tools::capability::CapabilityError| {
        ErrorReport::new(Code::InvalidValue, e.to_string()).field("CAPABILITY")
    })
}

/// A folder as it is granted: its canonical path, and which one it is. No link of a clone's leads out of it.
fn located(path: &Path, cwd: &Path) -> Result<(std::path::PathBuf, FileId), String> {
    hotcell_config::typed::real_from(cwd, path, &[]).map_err(|astray| astray.to_string())?;
    let path = cwd.join(path);
    let real = path.canonicalize().map_err(|e| format!("the folder cannot be opened: {e}"))?;
    let plain =
        real.to_str().is_some_and(|text| !text.contains(['*', '?']) && !text.chars().any(char::is_control));
    if !plain {
        return Err("its path is not UTF-8, or has *, ? or a control character".to_owned());
    }
    if !real.is_dir() {
        let folder = real.parent().unwrap_or(&real).display();
        return Err(format!("it is no folder; grant the folder that it is in: {folder}"));
    }
    let identity = FileId::of(&real).map_err(|e| format!("the folder cannot be opened: {e}"))?;
    Ok((real, identity))
}

/// True when revoking `asked` includes this grant.
fn is_meant(asked: &Capability, granted: &Capability, cwd: &Path) -> bool {
    let same = |asked: &Path, granted: &Path| {
        let path = cwd.join(asked);
        path == granted || path.canonicalize().is_ok_and(|real| real == granted)
    };
    match (asked, granted) {
        (Capability::Read(a), Capability::Read(b)) | (Capability::Write(a), Capability::Write(b)) => {
            same(a, b)
        }
        (Capability::Secret(a, None), Capability::Secret(b, _)) => a == b,
        _ => asked == granted,
    }
}
