//! A plugin as it is stored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotcell_sandbox::FileId;
use hotcell_tools::sources::sha256;
use hotcell_tools::{Capability, Description, Held, Manifest, Request};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::audit::AfterTool;

/// One version of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// Its length.
    pub bytes: u64,
    /// What stays the same when it has something newer.
    pub place: String,
    /// Whether that is on this host.
    pub local: bool,
    /// Where exactly it came from.
    pub pinned: String,
    /// What it says of itself.
    pub description: Description,
    /// Its manifest, if it has one.
    pub manifest: Option<String>,
    /// The key that signed it, where one was named.
    pub signer: Option<String>,
}

impl Version {
    /// The manifest, read.
    pub fn manifest(&self) -> Option<Manifest> {
        // It was read when it came here.
        Manifest::parse(self.manifest.as_deref()?, Path::new(hotcell_tools::manifest::FILE)).ok()
    }

    /// What a person agrees to with it, in 64 hexadecimal digits: the component, its manifest, its source and who signed it.
    pub fn agreed(&self) -> String {
        let all = (&self.digest, &self.manifest, &self.place, &self.signer);
        // Strings only: they have a form in JSON.
        sha256(&serde_json::to_vec(&all).unwrap_or_default())
    }

    /// Whether it imports the store of values, which takes no grant.
    pub fn keeps(&self) -> bool {
        self.description.imports.iter().any(|import| import.starts_with("hotcell:tool/kv@"))
    }

    /// Its version, as its author counts; empty where the manifest says none.
    pub fn counted(&self) -> String {
        self.manifest().map(|manifest| manifest.version).unwrap_or_default()
    }

    /// What it asks for.
    pub fn request(&self) -> Request {
        match self.manifest() {
            Some(manifest) => manifest.request,
            // One that cannot be read any more asks for nothing.
            None if self.manifest.is_some() => Request::default(),
            None => Request::of_imports(&self.description.at_most),
        }
    }
}

/// A plugin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plugin {
    pub name: String,
    pub added_us: i64,
    pub version: Version,
    pub pending: Option<Version>,
}

/// A row of what is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub capability: Capability,
    pub identity: Option<FileId>,
}

impl Granted {
    /// Why it cannot be used now: its folder is gone, or another has its name.
    pub fn lost(&self) -> Option<String> {
        let (Capability::Read(path) | Capability::Write(path)) = &self.capability else { return None };
        // A link on the way would lead elsewhere than where it led then.
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

/// Every plugin, by name. A database of an older form has none.
pub(crate) fn all(database: &Connection) -> rusqlite::Result<Vec<Plugin>> {
    let there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'plugins'";
    if database.query_row(there, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Vec::new());
    }
    let mut statement = database.prepare(&format!("SELECT {COLUMNS} FROM plugins ORDER BY name"))?;
    statement.query_map([], plugin)?.collect()
}

/// A plugin by its name.
pub(crate) fn by_name(database: &Connection, name: &str) -> rusqlite::Result<Option<Plugin>> {
    let statement = format!("SELECT {COLUMNS} FROM plugins WHERE name = ?1");
    database.query_row(&statement, [name], plugin).optional()
}

impl Plugin {
    /// Adds it, or writes its versions.
    pub fn write(&self, database: &Connection) -> rusqlite::Result<()> {
        let pending = self.pending.as_ref().map(text).transpose()?;
        database.execute(
            "INSERT INTO plugins (name, added, version, pending) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET version = ?3, pending = ?4",
            params![self.name, self.added_us, text(&self.version)?, pending],
        )?;
        Ok(())
    }

    /// Takes it out, with everything that it has.
    pub fn remove(&self, database: &Connection) -> rusqlite::Result<()> {
        database.execute("DELETE FROM plugins WHERE name = ?1", [&self.name]).map(drop)
    }

    /// What is granted to its component, in order.
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
            // What this build does not understand is not granted.
            if let Ok(capability) = text.parse() {
                let identity =
                    identity.map(|(dev, ino)| FileId { dev: dev.cast_unsigned(), ino: ino.cast_unsigned() });
                all.push(Granted { capability, identity });
            }
        }
        Ok(all)
    }

    /// Grants something to its component.
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

    /// Takes it back; whether it was there.
    pub fn revoke(&self, database: &Connection, capability: &str) -> rusqlite::Result<bool> {
        let gone = database.execute(
            "DELETE FROM plugin_grants WHERE plugin = ?1 AND digest = ?2 AND capability = ?3",
            params![self.name, self.version.digest, capability],
        )?;
        Ok(gone > 0)
    }

    /// Makes `version` the one in force, with what was granted to the one before where `keeps`.
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

    /// How it stands, for the log.
    pub fn after(&self, database: &Connection) -> rusqlite::Result<AfterTool> {
        Ok(AfterTool {
            plugin: self.name.clone(),
            digest: self.version.digest.clone(),
            agreed: self.version.agreed(),
            pending: self.pending.as_ref().map(Version::agreed),
            granted: self.granted(database)?.iter().map(|g| g.capability.to_string()).collect(),
            removed: false,
        })
    }
}

/// All that was granted, as one.
pub(crate) fn held(granted: &[Granted]) -> Held {
    let mut held = Held::default();
    granted.iter().for_each(|one| held.add(one.capability.clone()));
    held
}

/// Which folders were granted, by their paths.
pub(crate) fn identities(granted: &[Granted]) -> BTreeMap<PathBuf, FileId> {
    let of = |one: &Granted| match &one.capability {
        Capability::Read(path) | Capability::Write(path) => Some((path.clone(), one.identity?)),
        _ => None,
    };
    granted.iter().filter_map(of).collect()
}

/// Where components are kept, by their digests.
#[derive(Clone, Debug)]
pub(crate) struct Components(pub PathBuf);

impl Components {
    /// The file of a digest.
    pub fn file(&self, digest: &str) -> PathBuf {
        self.0.join(format!("{digest}.wasm"))
    }

    /// Keeps a component, as a whole or not at all.
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

    /// Removes what no plugin has: also what somebody left who was stopped halfway. While nothing else is done.
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
