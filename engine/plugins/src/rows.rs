//! A plugin as it is stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use hotcell_guard::quarantine::Entry;
use hotcell_sandbox::FileId;
use hotcell_state::audit::{Problem, Subject};
use hotcell_tools::install::sources::sha256;
use hotcell_tools::{Capability, Description, Held, Manifest, Request};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::offer::Offer;

/// One version of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Place that stays the same for newer versions.
    pub place: String,
    /// True when that place is on this host.
    pub local: bool,
    /// Exact source.
    pub pinned: String,
    /// Description by the component itself.
    pub description: Description,
    /// Manifest, if it has one.
    pub manifest: Option<String>,
    /// Key that signed it, if one was named.
    pub signer: Option<String>,
}

impl Version {
    /// The parsed manifest.
    pub fn manifest(&self) -> Option<Manifest> {
        // Validated when it was added.
        Manifest::parse(self.manifest.as_deref()?, Path::new(hotcell_tools::install::manifest::FILE)).ok()
    }

    /// Digest of everything that a person agrees to, 64 hexadecimal digits: the component, its manifest, its
    /// source and its signer.
    pub fn agreed(&self) -> String {
        let all = (&self.digest, &self.manifest, &self.place, &self.signer);
        // Strings can always be written as JSON.
        sha256(&serde_json::to_vec(&all).unwrap_or_default())
    }

    /// Whether the component imports the key-value store, which needs no grant, by hotcell's name or WASI's.
    pub fn keeps(&self) -> bool {
        let stores = ["hotcell:tool/kv@", "wasi:keyvalue/"];
        self.description.imports.iter().any(|import| stores.iter().any(|store| import.starts_with(store)))
    }

    /// Whether an instance is kept for a caller between its calls: its manifest says so, or its functions give
    /// handles.
    pub fn session(&self) -> bool {
        self.description.handles || self.manifest().is_some_and(|manifest| manifest.session)
    }

    /// Version given by its author; empty when the manifest has none.
    pub fn counted(&self) -> String {
        self.manifest().map(|manifest| manifest.version).unwrap_or_default()
    }

    /// Capabilities that it requests.
    pub fn request(&self) -> Request {
        match self.manifest() {
            Some(manifest) => manifest.request,
            // A version with an unreadable manifest requests nothing.
            None if self.manifest.is_some() => Request::default(),
            None => Request::of_imports(&self.description.at_most),
        }
    }
}

/// A plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    pub(crate) name: String,
    pub(crate) added_us: i64,
    pub(crate) version: Version,
    pub(crate) pending: Option<Version>,
}

/// A row of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub(crate) capability: Capability,
    pub(crate) identity: Option<FileId>,
}

impl Granted {
    /// Why it cannot be used now: its folder is gone, or was replaced.
    pub fn lost(&self) -> Option<String> {
        let (Capability::Read(path) | Capability::Write(path)) = &self.capability else { return None };
        // A link on the way could lead elsewhere than at the time of the grant.
        let now = path.canonicalize().and_then(|canonical| match canonical == *path {
            true => FileId::of(path),
            false => Err(std::io::Error::other("it is reached by a link now")),
        });
        match now {
            Ok(now) if Some(now) == self.identity => None,
            Ok(_) => Some("another folder has its name now; grant it again".to_owned()),
            Err(e) => Some(format!("the folder cannot be used: {e}")),
        }
    }
}

const COLUMNS: &str = "name, added, version, pending";

fn plugin(row: &Row<'_>) -> rusqlite::Result<Plugin> {
    let parse = |at: usize, text: &str| {
        serde_json::from_str::<Version>(text)
            .map_err(|e| rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, e.into()))
    };
    let pending: Option<String> = row.get(3)?;
    Ok(Plugin {
        name: row.get(0)?,
        added_us: row.get(1)?,
        version: parse(2, &row.get::<_, String>(2)?)?,
        pending: pending.map(|text| parse(3, &text)).transpose()?,
    })
}

fn text(version: &Version) -> rusqlite::Result<String> {
    serde_json::to_string(version).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// All plugins, by name. Older databases have none.
pub fn all(database: &Connection) -> rusqlite::Result<Vec<Plugin>> {
    let there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'plugins'";
    if database.query_row(there, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Vec::new());
    }
    let mut statement = database.prepare(&format!("SELECT {COLUMNS} FROM plugins ORDER BY name"))?;
    statement.query_map([], plugin)?.collect()
}

/// A plugin by its name.
pub fn by_name(database: &Connection, name: &str) -> rusqlite::Result<Option<Plugin>> {
    let statement = format!("SELECT {COLUMNS} FROM plugins WHERE name = ?1");
    database.query_row(&statement, [name], plugin).optional()
}

impl Plugin {
    /// Adds the plugin, or updates its versions.
    pub fn write(&self, database: &Connection) -> rusqlite::Result<()> {
        let pending = self.pending.as_ref().map(text).transpose()?;
        database.execute(
            "INSERT INTO plugins (name, added, version, pending) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET version = ?3, pending = ?4",
            params![self.name, self.added_us, text(&self.version)?, pending],
        )?;
        Ok(())
    }

    /// Removes the plugin with all its data.
    pub fn remove(&self, database: &Connection) -> rusqlite::Result<()> {
        database.execute("DELETE FROM plugins WHERE name = ?1", [&self.name]).map(drop)
    }

    /// Grants of its component, in order.
    pub fn granted(&self, database: &Connection) -> rusqlite::Result<Vec<Granted>> {
        let mut rows = database.prepare_cached(
            "SELECT capability, dev, ino FROM plugin_grants WHERE plugin = ?1 AND digest = ?2 ORDER BY capability",
        )?;
        let rows = rows.query_map([&self.name, &self.version.digest], |row| {
            let (dev, ino): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
            Ok((row.get::<_, String>(0)?, dev.zip(ino)))
        })?;
        let mut all = Vec::new();
        for row in rows {
            let (text, identity) = row?;
            // A capability unknown to this build is not granted.
            if let Ok(capability) = text.parse() {
                let identity =
                    identity.map(|(dev, ino)| FileId { dev: dev.cast_unsigned(), ino: ino.cast_unsigned() });
                all.push(Granted { capability, identity });
            }
        }
        Ok(all)
    }

    /// Adds a grant to its component.
    pub fn grant(
        &self,
        database: &Connection,
        one: &Granted,
        now_us: i64,
        actor: &str,
    ) -> rusqlite::Result<()> {
        let identity = one.identity.map(|i| (i.dev.cast_signed(), i.ino.cast_signed())).unzip();
        database.execute(
            "INSERT OR REPLACE INTO plugin_grants (plugin, digest, capability, dev, ino, granted, actor)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.name,
                self.version.digest,
                one.capability.to_string(),
                identity.0,
                identity.1,
                now_us,
                actor
            ],
        )?;
        Ok(())
    }

    /// Revokes a grant; returns true if it existed.
    pub fn revoke(&self, database: &Connection, capability: &str) -> rusqlite::Result<bool> {
        let gone = database.execute(
            "DELETE FROM plugin_grants WHERE plugin = ?1 AND digest = ?2 AND capability = ?3",
            params![self.name, self.version.digest, capability],
        )?;
        Ok(gone > 0)
    }

    /// Puts `version` in force; it gets the previous version's grants if `keeps`.
    pub fn take(&mut self, database: &Connection, version: Version, keeps: bool) -> rusqlite::Result<()> {
        if keeps {
            database.execute(
                "INSERT OR REPLACE INTO plugin_grants
                 SELECT plugin, ?3, capability, dev, ino, granted, actor FROM plugin_grants
                 WHERE plugin = ?1 AND digest = ?2",
                params![self.name, self.version.digest, version.digest],
            )?;
        }
        database.execute(
            "DELETE FROM plugin_grants WHERE plugin = ?1 AND digest <> ?2",
            params![self.name, version.digest],
        )?;
        (self.version, self.pending) = (version, None);
        self.write(database)
    }

    /// Which of its tools are offered. A database of an older form knows no choice; what this build does not understand offers
    /// nothing.
    pub fn offer(&self, database: &Connection) -> rusqlite::Result<Offer> {
        let there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'plugin_offers'";
        if database.query_row(there, [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(Offer::default());
        }
        let query = "SELECT offer FROM plugin_offers WHERE plugin = ?1";
        let text: Option<String> = database.query_row(query, [&self.name], |row| row.get(0)).optional()?;
        let nothing = || Offer::Only(BTreeSet::new());
        Ok(text.map_or_else(Offer::default, |text| serde_json::from_str(&text).unwrap_or_else(|_| nothing())))
    }

    /// Offers these of its tools.
    pub fn choose(&self, database: &Connection, offer: &Offer) -> rusqlite::Result<()> {
        if offer.is_all() {
            let delete = "DELETE FROM plugin_offers WHERE plugin = ?1";
            return database.execute(delete, [&self.name]).map(drop);
        }
        let text =
            serde_json::to_string(offer).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        let insert = "INSERT OR REPLACE INTO plugin_offers (plugin, offer) VALUES (?1, ?2)";
        database.execute(insert, params![self.name, text]).map(drop)
    }

    /// How it stands, for the log.
    pub fn after(&self, database: &Connection) -> rusqlite::Result<AfterTool> {
        Ok(AfterTool {
            plugin: self.name.clone(),
            digest: self.version.digest.clone(),
            agreed: self.version.agreed(),
            pending: self.pending.as_ref().map(Version::agreed),
            granted: self.granted(database)?.iter().map(|g| g.capability.to_string()).collect(),
            offer: Some(self.offer(database)?).filter(|offer| !offer.is_all()),
            removed: false,
        })
    }
}

/// State of a plugin after a step; the entry's `detail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AfterTool {
    pub(crate) plugin: String,
    /// Digest of its component.
    pub digest: String,
    /// Digest of everything that a person agreed to: also its manifest, its source, its signer.
    #[serde(default)]
    pub agreed: String,
    /// Digest of the version that waits for a person's agreement, computed like `agreed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
    /// Granted capabilities, in order.
    pub granted: Vec<String>,
    /// Which of its tools are offered, where not all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) removed: bool,
}

/// Plugins as the log knows them: the last state of each, by names.
#[derive(Default)]
struct Audited(HashMap<String, AfterTool>);

/// Plugins, for a check of the log.
#[must_use]
pub fn audited() -> Box<dyn Subject> {
    Box::new(Audited::default())
}

impl Subject for Audited {
    fn take(&mut self, entry: &Entry) -> bool {
        let Ok(after) = serde_json::from_str::<AfterTool>(&entry.detail) else { return false };
        self.0.insert(after.plugin.clone(), after);
        true
    }

    fn compare(&mut self, database: &Connection) -> Result<(), Problem> {
        self.0.retain(|_, after| !after.removed);
        for row in all(database)? {
            let stands = row.after(database)?;
            if self.0.remove(&row.name) != Some(stands) {
                let why = "was changed past the log: it does not stand as its last entry says";
                return Err(Problem(format!("the plugin {} {why}", row.name)));
            }
        }
        match self.0.keys().cloned().min() {
            Some(name) => Err(Problem(format!("the plugin {name}, which the log knows, is gone"))),
            None => Ok(()),
        }
    }
}

/// All grants combined.
pub fn held(granted: &[Granted]) -> Held {
    let mut held = Held::default();
    granted.iter().for_each(|one| held.add(one.capability.clone()));
    held
}

/// Identities of the granted folders, by their paths.
pub fn identities(granted: &[Granted]) -> BTreeMap<PathBuf, FileId> {
    let of = |one: &Granted| match &one.capability {
        Capability::Read(path) | Capability::Write(path) => Some((path.clone(), one.identity?)),
        _ => None,
    };
    granted.iter().filter_map(of).collect()
}

/// Folder of components, by their digests.
#[derive(Clone, Debug)]
pub struct Components(pub PathBuf);

impl Components {
    /// File of a digest.
    pub fn file(&self, digest: &str) -> PathBuf {
        self.0.join(format!("{digest}.wasm"))
    }

    /// Stores a component, atomically.
    pub fn put(&self, digest: &str, wasm: &[u8]) -> std::io::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let mut file = tempfile::Builder::new().prefix("new-").tempfile_in(&self.0)?;
        file.write_all(wasm)?;
        file.as_file().sync_all()?;
        file.persist(self.file(digest)).map_err(|e| e.error)?;
        std::fs::File::open(&self.0)?.sync_all()
    }

    /// Removes components that no plugin has, including leftovers of interrupted steps. Call this while no
    /// step is in progress.
    pub fn sweep(&self, database: &Connection) -> rusqlite::Result<()> {
        let plugins = all(database)?;
        let versions = plugins.iter().flat_map(|p| std::iter::once(&p.version).chain(&p.pending));
        let used: std::collections::HashSet<PathBuf> = versions.map(|v| self.file(&v.digest)).collect();
        let Ok(entries) = self.0.read_dir() else { return Ok(()) };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if !used.contains(&path)
                && let Err(error) = std::fs::remove_file(&path)
            {
                tracing::debug!("{} stays: {error}", path.display());
            }
        }
        Ok(())
    }
}
