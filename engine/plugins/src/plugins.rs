//! Installed plugins, and which of their grants are in force.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hotcell_config::Configuration;
use hotcell_review::quarantine::service::of_quarantine;
use hotcell_review::quarantine::{Quarantine, QuarantineError};
use hotcell_sandbox::FileId;
use hotcell_sandbox::layer::likely;
use hotcell_state::actor::Actor;
use hotcell_state::database::{DataVersion, PooledConnection, seen_at_once};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_tools::component::serves::{Served, words};
use hotcell_tools::install::grant::{Missing, Policy, intersect};
use hotcell_tools::mapping::names::tool_names;
use hotcell_tools::{Capability, Export, Held, Request};
use rusqlite::Connection;

use super::offer::Offer;
use super::report::{Inspection, NotInForce, SCHEMA, State, Tool, ToolList};
use super::rows::{self, Components, Granted, Plugin, Version};
use super::values::Values;
use super::{AddOptions, Describe, ToolSettings};

pub(crate) type Done<T> = Result<T, ErrorReport>;

/// Folder name in the state folder.
const FOLDER: &str = "tools";

/// Plugins of a state folder, for one actor.
#[derive(Clone, Debug)]
pub struct Plugins {
    state: StateChoice,
    /// The operator's settings, which can be replaced.
    settings: Arc<RwLock<Arc<ToolSettings>>>,
    pub(crate) actor: Actor,
    /// Folder of the user's configuration, which contains secrets.
    home: Option<PathBuf>,
    /// Plugins as last read, valid until the database changes.
    stock: Arc<Mutex<Option<Known>>>,
}

/// All plugins, by name.
type PluginCache = Vec<CachedPlugin>;
/// Plugins, with the version of the data at which they were read.
type Known = (DataVersion, Arc<PluginCache>);

/// A plugin with its grants, read once for many calls.
pub struct CachedPlugin {
    plugin: Plugin,
    granted: Vec<Granted>,
    /// Capabilities that it requests.
    request: Request,
    /// Names of its tools, in the order of its exports.
    names: Vec<String>,
    /// Which of them are offered.
    offer: Offer,
}

impl CachedPlugin {
    /// Reads the grants of a plugin from the database.
    pub fn of(plugin: Plugin, database: &Connection) -> rusqlite::Result<Self> {
        let granted = plugin.granted(database)?;
        let names = tool_names(&plugin.name, &plugin.version.description.exports);
        let offer = plugin.offer(database)?;
        Ok(Self { granted, request: plugin.version.request(), names, offer, plugin })
    }

    /// One of its tools that are offered.
    fn export(&self, tool: &str) -> Option<&Export> {
        if !self.offer.has(tool) {
            return None;
        }
        let exports = &self.plugin.version.description.exports;
        self.names.iter().zip(exports).find_map(|(name, export)| (name == tool).then_some(export))
    }

    /// A callable tool, with its grants that are in force.
    fn ready(&self, path: &str, granted: &[Granted], held: Held, components: &Components) -> Ready {
        let Version { digest, .. } = &self.plugin.version;
        Ready {
            session: self.plugin.version.session(),
            standing: held.clone(),
            identities: rows::identities(granted),
            keeps: self.plugin.version.keeps(),
            wasm: components.file(digest),
            digest: digest.clone(),
            path: path.to_owned(),
            plugin: self.plugin.name.clone(),
            request: self.request.clone(),
            held,
        }
    }
}

impl std::fmt::Debug for CachedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.plugin.name)
    }
}

/// A callable tool, with its grants.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Plugin name.
    pub plugin: String,
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// File of the component.
    pub wasm: PathBuf,
    /// Function: [`hotcell_tools::Export::path`].
    pub path: String,
    /// Capabilities that its plugin requests.
    pub request: Request,
    /// Grants in force, with what was approved for this call.
    pub held: Held,
    /// Grants in force, without that.
    pub standing: Held,
    /// Whether the call is made in an instance that is kept for its caller.
    pub session: bool,
    /// True when it stores values, which must be out of reach of other plugins' code.
    pub keeps: bool,
    /// Identities of its granted folders at the time of the grant.
    pub identities: BTreeMap<PathBuf, FileId>,
}

/// Kinds of things that a plugin serves to clients beside its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Plugin name.
    pub plugin: String,
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// `resources`, `prompts`.
    pub serves: Vec<&'static str>,
}

/// A failure inside a transaction.
pub struct Failed(pub ErrorReport);

impl From<ErrorReport> for Failed {
    fn from(report: ErrorReport) -> Self {
        Self(report)
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self(
            ErrorReport::new(Code::State, format!("the plugins cannot be read or written: {error}"))
                .parameter("state"),
        )
    }
}

impl From<QuarantineError> for Failed {
    fn from(error: QuarantineError) -> Self {
        Self(of_quarantine(&error))
    }
}

impl Plugins {
    /// Plugins for the caller of a configuration.
    ///
    /// # Errors
    /// A report when the configuration has no caller.
    pub fn of(configuration: &Configuration) -> Done<Self> {
        let asker = configuration.asker.clone();
        let (channel, state) =
            asker.ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks for the plugins"))?;
        Ok(Self {
            state,
            settings: Arc::new(RwLock::new(Arc::new(configuration.user.tools.clone()))),
            actor: Actor::here(channel),
            home: configuration.home.clone(),
            stock: Arc::default(),
        })
    }

    /// The operator's settings.
    #[must_use]
    pub fn settings(&self) -> Arc<ToolSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the settings, for all clones.
    pub fn set(&self, settings: ToolSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Folder of the user's configuration.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Folder for compiled components; created private to this user.
    ///
    /// # Errors
    /// A report when it cannot be created.
    pub fn cache(&self) -> Done<PathBuf> {
        let folder = self.folder()?;
        hotcell_state::state::make_private(folder.dir(), FOLDER).map_err(|e| self.of_io(&e))?;
        let tools = folder.dir().open_dir(FOLDER).map_err(|e| self.of_io(&e))?;
        hotcell_state::state::make_private(&tools, "compiled").map_err(|e| self.of_io(&e))?;
        Ok(folder.path().join(FOLDER).join("compiled"))
    }

    /// Store of the plugins' values.
    pub fn values(&self) -> Done<Values> {
        Ok(Values(self.folder()?.path().to_owned()))
    }

    fn of_io(&self, error: &std::io::Error) -> ErrorReport {
        let why = format!("the folder of the tools cannot be used: {error}");
        ErrorReport::new(Code::State, why).parameter("state")
    }

    fn folder(&self) -> Done<StateFolder> {
        let bad = |e: hotcell_state::state::StateError| {
            ErrorReport::new(Code::State, e.to_string()).parameter("state")
        };
        StateFolder::open(self.state.path().map_err(bad)?).map_err(bad)
    }

    /// Opens the database for writing.
    pub fn open(&self) -> Done<(Quarantine, Components)> {
        let folder = self.folder()?;
        let components = Components(folder.path().join(FOLDER).join("components"));
        let store = Quarantine::open(folder).map_err(|e| of_quarantine(&e))?;
        Ok((store, components))
    }

    /// Reads from the database, if it exists.
    pub fn read<T: Default>(
        &self,
        work: impl FnOnce(&PooledConnection, &Components) -> Result<T, Failed>,
    ) -> Done<T> {
        self.read_or(|| Ok(T::default()), work)
    }

    /// Reads from the database about one plugin, which does not exist without a database.
    pub fn read_of<T>(
        &self,
        plugin: &str,
        work: impl FnOnce(&PooledConnection, &Components) -> Result<T, Failed>,
    ) -> Done<T> {
        self.read_or(|| Err(unknown(plugin, &[])), work)
    }

    fn read_or<T>(
        &self,
        missing: impl FnOnce() -> Done<T>,
        work: impl FnOnce(&PooledConnection, &Components) -> Result<T, Failed>,
    ) -> Done<T> {
        let open = || -> Result<Option<(Quarantine, Components)>, QuarantineError> {
            let Some(folder) = StateFolder::open_existing(self.state.path()?)? else { return Ok(None) };
            let components = Components(folder.path().join(FOLDER).join("components"));
            Ok(Quarantine::open_to_read(folder)?.map(|store| (store, components)))
        };
        match open().map_err(|e| of_quarantine(&e))? {
            Some((store, components)) => work(&store.database, &components).map_err(|Failed(report)| report),
            None => missing(),
        }
    }

    /// All plugins with their grants; read again when the database has changed.
    fn stock(&self, database: &PooledConnection) -> Result<Arc<PluginCache>, Failed> {
        let seen = database.seen()?;
        let lock = || self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, stock)) = &*lock()
            && *at == seen
        {
            return Ok(Arc::clone(stock));
        }
        let stock: rusqlite::Result<PluginCache> =
            rows::all(database)?.into_iter().map(|plugin| CachedPlugin::of(plugin, database)).collect();
        let stock = Arc::new(stock?);
        *lock() = Some((seen, Arc::clone(&stock)));
        Ok(stock)
    }

    /// The operator's policy. Hotcell's own folders are never granted.
    pub fn policy(&self) -> Policy {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let state = self.state.path().ok().map(real);
        let home = self.home.as_deref().map(real);
        self.settings().policy(state.into_iter().chain(home).collect())
    }

    /// Grants that are in force for a plugin with this request, and those that are not.
    fn in_force(&self, request: &Request, granted: &[Granted]) -> (Held, Vec<NotInForce>) {
        let told =
            |capability: &Capability, why: String| NotInForce { capability: capability.to_string(), why };
        let lost = granted.iter().filter_map(|one| Some(told(&one.capability, one.lost()?)));
        let mut missing: Vec<NotInForce> = lost.collect();
        let is_lost = |one: &&Granted| !missing.iter().any(|m| m.capability == one.capability.to_string());
        let usable: Vec<Granted> = granted.iter().filter(is_lost).cloned().collect();
        let joined = intersect(request, &self.policy(), &rows::held(&usable));
        missing.extend(joined.missing.into_iter().map(|Missing { capability, why }| told(&capability, why)));
        (joined.held, missing)
    }

    /// Checks the operator's requirement of a signature, which also applies to plugins installed earlier.
    pub fn check_signer(&self, version: &Version) -> Done<()> {
        let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("tools.signed_by");
        let Some(required) = self.settings().required().map_err(|e| bad(e.to_string()))? else {
            return Ok(());
        };
        if version.signer.as_deref() == Some(required.base64()) {
            return Ok(());
        }
        let why = format!("the component from {} is not signed by the required key", version.pinned);
        Err(bad(why).hint("add a signed one: hotcell tool add --replace SOURCE"))
    }

    /// Tools of all plugins.
    ///
    /// # Errors
    /// A report when they cannot be read.
    pub fn list(&self) -> Done<ToolList> {
        let tools = self.read(|database, _| {
            let mut tools = Vec::new();
            for shelved in self.stock(database)?.iter() {
                tools.extend(self.tools_of(shelved));
            }
            Ok(tools)
        })?;
        Ok(ToolList { schema: SCHEMA.to_owned(), tools })
    }

    /// Exported functions of a plugin that are not tools, each with the reason.
    ///
    /// # Errors
    /// A report when there is no such plugin.
    pub fn left_out(&self, name: &str) -> Done<Vec<(String, String)>> {
        self.read_of(name, |database, _| {
            let left_out = find(database, name)?.version.description.left_out;
            Ok(left_out.into_iter().map(|one| (one.function, one.message)).collect())
        })
    }

    /// Capabilities that a plugin requests, and the kinds of things that it serves beside its tools.
    ///
    /// # Errors
    /// A report with the nearest name, when there is no such plugin.
    pub fn requests_and_serves(&self, name: &str) -> Done<(Vec<String>, Vec<&'static str>)> {
        self.read_of(name, |database, _| {
            let known = CachedPlugin::of(find(database, name)?, database)?;
            Ok((known.request.words(), words(&known.plugin.version.description)))
        })
    }

    /// Tools of one plugin.
    ///
    /// # Errors
    /// A report with the nearest name, when there is no such plugin.
    pub fn list_of(&self, name: &str) -> Done<ToolList> {
        let tools = self.read_of(name, |database, _| {
            Ok(self.tools_of(&CachedPlugin::of(find(database, name)?, database)?))
        })?;
        Ok(ToolList { schema: SCHEMA.to_owned(), tools })
    }

    pub(crate) fn tools_of(
        &self,
        CachedPlugin { plugin, granted, request, names, offer }: &CachedPlugin,
    ) -> Vec<Tool> {
        let (held, not_in_force) = self.in_force(request, granted);
        let granted: Vec<String> = held.capabilities().iter().map(ToString::to_string).collect();
        let exports = &plugin.version.description.exports;
        let requested = request.words();
        let state = if plugin.pending.is_some() { State::UpdateWaits } else { State::Ready };
        let named = names.iter().cloned().zip(exports);
        let tools = named.map(|(name, export)| Tool {
            offered: offer.has(&name),
            name,
            plugin: plugin.name.clone(),
            digest: plugin.version.digest.clone(),
            description: export.description.clone(),
            input_schema: export.input_schema.clone(),
            output_schema: export.output_schema.clone(),
            granted: granted.clone(),
            session: plugin.version.session(),
            requested: requested.clone(),
            not_in_force: not_in_force.clone(),
            state,
        });
        let mut tools: Vec<Tool> = tools.collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    }

    /// A tool by its name, ready to be called.
    ///
    /// # Errors
    /// A report with the nearest tool, when there is no such tool.
    pub fn ready(&self, tool: &str) -> Done<Ready> {
        self.ready_with(tool, &[])
    }

    /// Like [`Plugins::ready`], without blocking, for a tool whose plugin requests no capabilities, so that
    /// no grants have to be checked; `None` when more has to be read.
    pub fn ready_at_once(&self, tool: &str) -> Option<Ready> {
        let folder = StateFolder::open_existing(self.state.path().ok()?).ok()??;
        let seen = seen_at_once(&folder)?;
        let stock = match &*self.stock.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, stock)) if *at == seen => Arc::clone(stock),
            _ => return None,
        };
        let (shelved, export) = stock.iter().find_map(|shelved| Some((shelved, shelved.export(tool)?)))?;
        // Where a signature is required, its key would have to be read from a file first.
        let nothing = shelved.request.words().is_empty() && self.settings().signed_by.is_none();
        let components = Components(folder.path().join(FOLDER).join("components"));
        nothing.then(|| shelved.ready(&export.path, &[], Held::default(), &components))
    }

    /// Like [`Plugins::ready`], with additional capabilities for one call.
    pub fn ready_with(&self, tool: &str, once: &[String]) -> Done<Ready> {
        let (found, known) = self.read(|database, components| {
            let stock = self.stock(database)?;
            for shelved in stock.iter() {
                let Some(export) = shelved.export(tool) else { continue };
                self.check_signer(&shelved.plugin.version)?;
                let mut granted = shelved.granted.clone();
                granted.extend(self.permitted(&shelved.plugin, once, Path::new("/"))?);
                let (held, _) = self.in_force(&shelved.request, &granted);
                let mut ready = shelved.ready(&export.path, &granted, held, components);
                if !once.is_empty() {
                    ready.standing = self.in_force(&shelved.request, &shelved.granted).0;
                    // A running instance cannot be given a folder or a variable, and must not keep it.
                    let Held { read, write, env, .. } = &ready.standing;
                    let held = &ready.held;
                    ready.session &= (read, write, env) == (&held.read, &held.write, &held.env);
                }
                return Ok((Some(ready), Vec::new()));
            }
            let all = stock.iter().flat_map(|shelved| shelved.names.iter().map(move |name| (shelved, name)));
            // Of what is not offered not even the names are told: who asks may be a model.
            let offered = all.filter(|(shelved, name)| shelved.offer.has(name)).map(|(_, name)| name.clone());
            Ok((None, offered.collect::<Vec<_>>()))
        })?;
        found.ok_or_else(|| {
            let report =
                ErrorReport::new(Code::UnknownName, format!("there is no tool {tool:?}")).field("NAME");
            match likely(tool, known.iter().map(String::as_str)) {
                Some(near) => report.hint(format!("did you mean {near}? hotcell tool list shows them")),
                None if !known.is_empty() => report.hint("hotcell tool list names them"),
                None => report.hint("no plugin is loaded; hotcell tool add FILE|DIR|URL|oci://REF loads one"),
            }
        })
    }

    /// Plugins that serve resources or prompts.
    ///
    /// # Errors
    /// A report when they cannot be read.
    pub fn serving(&self) -> Done<Vec<Serving>> {
        self.read(|database, _| {
            let stock = self.stock(database)?;
            let all = stock.iter().map(|CachedPlugin { plugin, .. }| Serving {
                plugin: plugin.name.clone(),
                digest: plugin.version.digest.clone(),
                serves: words(&plugin.version.description),
            });
            Ok(all.filter(|one| !one.serves.is_empty()).collect())
        })
    }

    /// A function that serves something, ready to be called; `None` when the plugin does not serve it.
    pub fn ready_to_serve(&self, plugin: &str, served: Served) -> Done<Option<Ready>> {
        self.read(|database, components| {
            let stock = self.stock(database)?;
            let Some(shelved) = stock.iter().find(|shelved| shelved.plugin.name == plugin) else {
                return Ok(None);
            };
            let Some(path) = served.path(&shelved.plugin.version.description) else { return Ok(None) };
            self.check_signer(&shelved.plugin.version)?;
            let (held, _) = self.in_force(&shelved.request, &shelved.granted);
            Ok(Some(shelved.ready(path, &shelved.granted, held, components)))
        })
    }

    /// Inspects an installed plugin, or a component that is not installed.
    ///
    /// # Errors
    /// A report when `what` is neither, or cannot be read.
    pub async fn inspect(
        &self,
        what: &std::ffi::OsStr,
        cwd: &Path,
        describer: &dyn Describe,
    ) -> Done<Inspection> {
        let known = what.to_str().filter(|name| hotcell_tools::install::manifest::is_name(name).is_ok());
        if let Some(name) = known {
            let there = self.read(|database, _| {
                let Some(plugin) = rows::by_name(database, name)? else { return Ok(None) };
                let granted = plugin.granted(database)?;
                let pending = plugin.pending.as_ref().map(|pending| (pending, granted.as_slice()));
                let page = Inspection::of(&plugin.name, &plugin.version, pending);
                Ok(Some(page.with(&plugin.offer(database)?)))
            })?;
            if let Some(page) = there {
                return Ok(page);
            }
            if !cwd.join(name).exists() {
                self.read_of(name, |database, _| find(database, name).map(drop))?;
            }
        }
        let looked = self.look(what, cwd, &AddOptions::default(), describer).await?;
        Ok(Inspection::of(&looked.name, &looked.version, None))
    }
}

/// A plugin by its name.
pub fn find(database: &Connection, name: &str) -> Result<Plugin, Failed> {
    if let Some(plugin) = rows::by_name(database, name)? {
        return Ok(plugin);
    }
    let known: Vec<String> = rows::all(database)?.into_iter().map(|p| p.name).collect();
    Err(Failed(unknown(name, &known)))
}

fn unknown(name: &str, known: &[String]) -> ErrorReport {
    let report = ErrorReport::new(Code::UnknownName, format!("there is no plugin {name:?}")).field("PLUGIN");
    match likely(name, known.iter().map(String::as_str)) {
        Some(near) => report.hint(format!("did you mean {near}? hotcell tool list shows them")),
        None if !known.is_empty() => report.hint("hotcell tool list names them"),
        None => report.hint("no plugin is loaded; hotcell tool add FILE|DIR|URL|oci://REF loads one"),
    }
}
