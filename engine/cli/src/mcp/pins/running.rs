//! Pins of a server while it runs: its lines are compared with what is accepted, what it offers is kept, and requests for what is held are answered.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_mcp::pin::{
    Accepted, Checked, Kind, MAX_TOOLS, Offered, OrderReader, Page, asked, check, has_invisible, held_answer,
    learnt, one_line, refusal,
};
use hotcell_state::report::{barred, printable};

use super::known::lock;
use super::offered::{count, take};
use super::{Known, keep};
use crate::mcp::servers::{OFFERED, read, write};
use crate::terminal::notes;

/// Interval between writings of what a server offers.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Number of writings of a process that do not wait for that interval: what a person looks at next is there at once.
const FREE_WRITES: u32 = 16;
/// Maximum number of lines about what is held in the life of a server.
const MAX_TOLD: u32 = 20;

/// Maximum number of pages of the first list: a list without end must not keep a server new.
const MAX_PAGES: u32 = 100;

/// Pins of one server, while it runs.
#[derive(Debug)]
pub struct Pins {
    folder: PathBuf,
    name: String,
    known: Known,
    offered: BTreeMap<String, Offered>,
    /// Kinds of which no list was accepted before this process: the entries of the first one are, and later ones are held.
    new: BTreeSet<Kind>,
    /// Accepted ones could not be written: nothing more is accepted by this process.
    is_unkept: bool,
    /// Pages of the first list of each kind so far.
    pages: BTreeMap<Kind, u32>,
    /// Times of the last writings of what is offered, for a list and for words, and whether that changed since.
    written: [Option<Instant>; 2],
    is_dirty: bool,
    /// Number of writings so far.
    writes: u32,
    /// Names that were held when it was last told, and how often it was told.
    told: (Vec<String>, u32),
}

impl Pins {
    /// Pins of a server by its folder.
    ///
    /// # Errors
    /// When a file of pins cannot be read.
    pub fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let known = Known::read(folder)?;
        let new = Kind::ALL.into_iter().filter(|kind| !known.lists.contains(kind)).collect();
        let offered = read(&folder.join(OFFERED))?.unwrap_or_default();
        let (folder, name) = (folder.to_owned(), name.to_owned());
        let told = (Vec::new(), 0);
        let (is_unkept, is_dirty) = (false, false);
        Ok(Self {
            folder,
            name,
            known,
            offered,
            new,
            is_unkept,
            pages: BTreeMap::new(),
            written: [None; 2],
            is_dirty,
            writes: 0,
            told,
        })
    }

    /// Looks at a line of the server; returns the line that the client gets. A line that is not JSON is not a message of the protocol, and is shown
    /// on standard error in its place.
    pub fn pass(&mut self, line: Vec<u8>) -> Vec<u8> {
        if serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_err() {
            let text = String::from_utf8_lossy(&line[..line.len().min(2000)]).into_owned();
            if !text.trim().is_empty() {
                notes::write(&barred(&text, "| "));
            }
            return Vec::new();
        }
        let line = one_line(line);
        let mut checked = check(&line, Some(&self.known.all));
        if checked.is_unread {
            notes::say(
                "a line of the server cannot be checked for its lists and instructions, and is not passed on",
            );
            return refusal(&line).unwrap_or_default();
        }
        let first: Vec<Kind> =
            self.new.iter().copied().filter(|kind| checked.page(*kind) != Page::Other).collect();
        let is_first = !first.is_empty();
        let is_introduction = !learnt(&checked, &self.known.all).is_empty();
        let is_gone = checked.absent.iter().any(|key| self.offered.contains_key(&**key));
        if checked.offered.is_empty() && checked.held.is_empty() && !is_first && !is_introduction && !is_gone
        {
            return line;
        }
        // A person may have accepted them since this process began, and another process of the server may have introduced itself.
        if (!checked.held.is_empty() || is_introduction) && self.refresh() {
            checked = check(&line, Some(&self.known.all));
        }
        if self.learn_words(&checked) {
            checked = check(&line, Some(&self.known.all));
        }
        for kind in first.into_iter().filter(|kind| self.new.contains(kind)).collect::<Vec<_>>() {
            let pages = self.pages.entry(kind).or_default();
            *pages += 1;
            let pages = *pages;
            if self.learn(kind, pages, &checked) {
                checked = check(&line, Some(&self.known.all));
            }
            if checked.page(kind) != Page::More || pages >= MAX_PAGES {
                self.new.remove(&kind);
            }
        }
        // Words that were there once and are no longer: a later acceptance, which may be meant for a tool, is not of them.
        for key in checked.absent.iter().filter(|key| !checked.offered.contains_key(&***key)) {
            self.is_dirty |= self.offered.remove(&**key).is_some();
        }
        self.is_dirty |= take(&mut self.offered, std::mem::take(&mut checked.offered), &self.known.all);
        let of = usize::from(!checked.is_list());
        if self.due_after(self.written[of]).is_some_and(|due| due.is_zero()) {
            self.written[of] = Some(Instant::now());
            self.save();
        }
        if !checked.held.is_empty() && checked.held != self.told.0 && self.told.1 < MAX_TOLD {
            self.told = (checked.held.clone(), self.told.1 + 1);
            let held: Vec<_> = checked.held.iter().take(8).map(|name| printable(name)).collect();
            notes::say(format!(
                "held back: {} (new, changed since you accepted them, or with invisible characters or orders to a model); read them: hotcell mcp servers show {}",
                held.join(", "),
                self.name
            ));
        }
        checked.replaced.unwrap_or(line)
    }

    /// Time until what is offered should be written, for a server that says nothing more; `None` when it is.
    pub fn due(&self) -> Option<Duration> {
        self.due_after(self.written.into_iter().max().flatten())
    }

    /// As [`Pins::due`], after a writing. A server that offers something else each time must not keep the disk busy.
    fn due_after(&self, written: Option<Instant>) -> Option<Duration> {
        let since = written.filter(|_| self.writes >= FREE_WRITES).map(|written| written.elapsed());
        let left = since.map_or(Duration::ZERO, |since| WRITE_INTERVAL.saturating_sub(since));
        self.is_dirty.then_some(left)
    }

    /// Writes what is offered, if that changed.
    pub fn finish(&mut self) {
        if self.is_dirty {
            self.written = [Some(Instant::now()); 2];
        }
        self.save();
    }

    fn save(&mut self) {
        if !std::mem::take(&mut self.is_dirty) {
            return;
        }
        self.writes = self.writes.saturating_add(1);
        if let Err(error) = write(&self.folder.join(OFFERED), &self.offered) {
            notes::say(format!("what {} offers cannot be kept: {error}", self.name));
        }
    }

    /// Answer to a line of the client that asks for a held prompt or resource; `None` where the line passes to the server.
    pub fn refuse(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let held = asked(line).into_iter().find(|asked| self.is_held(asked.kind, &asked.own))?;
        let (kind, own): (_, String) = (held.kind.noun(), printable(&held.own).chars().take(100).collect());
        let why = format!(
            "the {kind} {own} is held back: it is new, or has changed since a person accepted it; a person reads it with hotcell mcp servers show {}",
            self.name
        );
        Some(held_answer(line, &why).unwrap_or_default())
    }

    /// Whether an entry of a list is held, by its own name or address. Where no further entries of the kind can be remembered, an unknown one may be one of them.
    pub fn is_held(&mut self, kind: Kind, own: &str) -> bool {
        let key = kind.key(own);
        let Some(offered) = self.offered.get(&key).map(|offered| offered.sha256.clone()) else {
            return count(&self.offered, kind) >= MAX_TOOLS;
        };
        if self.known.all.get(&key) != Some(&offered) {
            // A person may have accepted it since this process began.
            self.refresh();
        }
        self.known.all.get(&key) != Some(&offered)
    }

    /// Reads again what is accepted; whether that changed. Files that are gone change nothing.
    fn refresh(&mut self) -> bool {
        let Ok(now) = Known::read(&self.folder) else { return false };
        if now == Known::default() || now == self.known {
            return false;
        }
        // A list that another process of the server accepted is the first one.
        self.new.retain(|kind| self.known.lists.contains(kind) || !now.lists.contains(kind));
        self.known = now;
        true
    }

    /// Accepts entries of the first list of a kind, except those with characters that a person does not see or orders to a model; whether there are any. An empty list is
    /// remembered, too.
    fn learn(&mut self, kind: Kind, pages: u32, checked: &Checked) -> bool {
        let mut entries = Accepted::new();
        let count = self.known.count(kind);
        let is_plain = |(key, offered): &(&String, &Offered)| {
            Kind::of(key) == Some(kind) && offered.is_whole() && !has_invisible(&offered.tool)
        };
        let mut orders = OrderReader::default();
        for (key, offered) in checked.offered.iter().filter(is_plain) {
            let is_new = count + entries.len() < MAX_TOOLS && !self.known.all.contains_key(key);
            if is_new && !orders.finds(&offered.tool) {
                entries.insert(key.clone(), offered.sha256.clone());
            }
        }
        let is_more = !entries.is_empty();
        if !is_more && pages > 1 {
            return false;
        }
        let mut is_first = true;
        let is_kept = self.keep(checked, |known, folder| {
            is_first = known.add_list(folder, kind, entries)?;
            Ok(())
        });
        if !is_first {
            self.new.remove(&kind);
        }
        is_kept && (is_more || !is_first)
    }

    /// Accepts the words of a first introduction; whether there are any.
    fn learn_words(&mut self, checked: &Checked) -> bool {
        let new = learnt(checked, &self.known.all);
        !new.is_empty() && self.keep(checked, |known, folder| known.add_words(folder, new))
    }

    /// Adds to what is accepted, in the files first; whether that could be done. Others stay held: the next start would accept whatever it is given then.
    fn keep(&mut self, checked: &Checked, add: impl FnOnce(&mut Known, &Path) -> io::Result<()>) -> bool {
        if self.is_unkept {
            return false;
        }
        let locked = lock(&self.folder).and_then(|lock| add(&mut self.known, &self.folder).map(|()| lock));
        let _lock = match locked {
            Ok(lock) => lock,
            Err(error) => {
                self.is_unkept = true;
                notes::say(format!(
                    "the accepted lists and words of {} cannot be written, and are held back: {error}; make room in the state folder, and start it again",
                    self.name
                ));
                return false;
            }
        };
        // Definitions of lists that other processes accepted stay, too.
        let all = Known::read(&self.folder).map_or_else(|_| self.known.all.clone(), |now| now.all);
        if let Err(error) = keep(&self.folder, &all, &checked.offered) {
            notes::say(format!("the accepted definitions of {} cannot be kept: {error}", self.name));
        }
        true
    }
}

#[cfg(test)]
mod tests;
