//! Pins of a server behind the combined one.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hotcell_mcp::combined::Pinned;
use hotcell_mcp::pin::Kind;
use serde_json::Value;

use super::{Pins, held, meant};

/// Pins of a server by its folder. Where they cannot be read, all is held, and nothing counts as accepted by name.
#[derive(Debug)]
pub struct OfServer {
    /// Its folder.
    pub folder: PathBuf,
    /// Its name.
    pub name: String,
    /// True for a server at an address. The wrap of another one takes what is held out of its lines.
    pub is_address: bool,
}

impl Pinned for OfServer {
    fn held(&self, kind: Kind, entries: &[Value]) -> Vec<String> {
        if !self.is_address {
            return Vec::new();
        }
        held(&self.folder, &self.name, kind, entries).unwrap_or_else(|error| {
            tracing::error!(
                "{}: all of its {} are held, since the accepted ones cannot be read: {error}",
                self.name,
                kind.list()
            );
            entries.iter().filter_map(|one| kind.own_of(one)).map(str::to_owned).collect()
        })
    }

    fn is_held(&self, kind: Kind, own: &str) -> bool {
        let is_held = || Pins::open(&self.folder, &self.name).map(|mut pins| pins.is_held(kind, own));
        self.is_address && is_held().unwrap_or(true)
    }

    fn meant(&self) -> BTreeSet<String> {
        meant(&self.folder).unwrap_or_else(|error| {
            tracing::warn!("{}: what a person accepted by name cannot be read: {error}", self.name);
            BTreeSet::new()
        })
    }
}
