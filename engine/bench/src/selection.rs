//! Selection of rows and peers.

use hotcell_sandbox::layer::likely;

use crate::peers::Peer;

/// A row, or a group of related rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowName {
    /// `posix_spawn` and wait.
    Bare,
    /// The floor, a C program.
    Floor,
    /// A cold start: a sandbox made for the run.
    Cold,
    /// A hot start: a sandbox that is ready.
    Hot,
    /// A hot start with a workspace that is bound from memory.
    Tmpfs,
    /// A hot start with a writable folder of the host.
    Bind,
    /// A hot start with a copy-on-write workspace.
    Overlay,
    /// Python outside and inside.
    Python,
    /// pytest outside and inside.
    Pytest,
    /// Node.js outside and inside.
    Node,
    /// Runs per second.
    Throughput,
    /// Memory of idle sandboxes.
    Memory,
    /// Durations of the steps of a start.
    Steps,
}

impl RowName {
    /// All rows, in the order of the report.
    pub const ALL: [Self; 13] = [
        Self::Bare,
        Self::Floor,
        Self::Cold,
        Self::Hot,
        Self::Tmpfs,
        Self::Bind,
        Self::Overlay,
        Self::Python,
        Self::Pytest,
        Self::Node,
        Self::Throughput,
        Self::Memory,
        Self::Steps,
    ];

    /// Name of the row.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Floor => "floor",
            Self::Cold => "cold",
            Self::Hot => "hot",
            Self::Tmpfs => "tmpfs",
            Self::Bind => "bind",
            Self::Overlay => "overlay",
            Self::Python => "python",
            Self::Pytest => "pytest",
            Self::Node => "node",
            Self::Throughput => "throughput",
            Self::Memory => "memory",
            Self::Steps => "steps",
        }
    }

    /// Whether the row is in the table of starts of `/bin/true`.
    #[must_use]
    pub const fn is_start(self) -> bool {
        matches!(
            self,
            Self::Bare | Self::Floor | Self::Cold | Self::Hot | Self::Tmpfs | Self::Bind | Self::Overlay
        )
    }
}

/// The selected rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows(Vec<RowName>);

impl Default for Rows {
    fn default() -> Self {
        Self(RowName::ALL.to_vec())
    }
}

impl Rows {
    /// Parses names separated by commas.
    ///
    /// # Errors
    /// A message with the unknown name and the nearest known one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let row = |name: &str| named(name, "row", &RowName::ALL.map(|row| (row.name(), row)));
        names(text)
            .map(row)
            .collect::<Result<Vec<_>, _>>()
            .and_then(|rows| if rows.is_empty() { Err("no row is named".to_owned()) } else { Ok(Self(rows)) })
    }

    /// Whether this row is selected.
    #[must_use]
    pub fn has(&self, row: RowName) -> bool {
        self.0.contains(&row)
    }

    /// Whether any row of starts is selected.
    #[must_use]
    pub fn has_start(&self) -> bool {
        self.0.iter().any(|row| row.is_start())
    }
}

/// The selected peers; all by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(pub Vec<Peer>);

impl Default for Peers {
    fn default() -> Self {
        Self(Peer::ALL.to_vec())
    }
}

impl Peers {
    /// Parses `none`, or names separated by commas; names of programs are accepted too.
    ///
    /// # Errors
    /// A message with the unknown name and the nearest known one.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let mut known = Peer::ALL.map(|peer| (peer.name(), peer)).to_vec();
        known.push((Peer::Bubblewrap.program(), Peer::Bubblewrap));
        names(text).map(|name| named(name, "peer", &known)).collect::<Result<Vec<_>, _>>().and_then(|peers| {
            if peers.is_empty() {
                Err("no peer is named; none is `none`".to_owned())
            } else {
                Ok(Self(peers))
            }
        })
    }
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn named<T: Copy>(name: &str, kind: &str, known: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, found)) = known.iter().find(|(known, _)| *known == name) {
        return Ok(*found);
    }
    let all: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
    let near = likely(name, all.iter().copied()).map(|near| format!("did you mean {near}? "));
    let near = near.unwrap_or_default();
    Err(format!("there is no {kind} {name:?}; {near}there are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_name() {
        for (text, want) in [
            ("hot", Ok(vec![RowName::Hot])),
            ("bare, memory,", Ok(vec![RowName::Bare, RowName::Memory])),
            ("", Err("no row is named")),
            ("hott", Err("did you mean hot?")),
            ("bare,stps", Err("did you mean steps?")),
            ("zzz", Err("\"zzz\"; there are bare, ")),
        ] {
            match (Rows::parse(text), want) {
                (Ok(rows), Ok(want)) => assert_eq!(rows.0, want, "{text}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (got, want) => panic!("{text}: {got:?}, not {want:?}"),
            }
        }
        assert!(RowName::ALL.into_iter().all(|row| Rows::default().has(row)));
    }

    #[test]
    fn peers_by_name() {
        assert_eq!(Peers::parse("none"), Ok(Peers(Vec::new())));
        assert_eq!(Peers::parse("bwrap,docker"), Ok(Peers(vec![Peer::Bubblewrap, Peer::Docker])));
        for (text, part) in
            [("bublewrap", "did you mean bubblewrap?"), ("none,docker", "no peer \"none\""), (",", "no peer")]
        {
            let why = Peers::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
