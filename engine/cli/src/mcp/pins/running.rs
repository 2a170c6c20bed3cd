//! Pins of a server's tools while it runs: its lines are compared with the accepted tools, and what it offers is kept.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_mcp::pin::{
    Accepted, Checked, MAX_TOOLS, Offered, Page, check, has_invisible, one_line, refusal,
};
use hotcell_state::report::{barred, printable};

use super::keep;
use crate::mcp::servers::{ACCEPTED, OFFERED, read, write};
use crate::terminal::notes;

/// Interval between writings of what a server offers.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of lines about held tools in the life of a server.
const MAX_TOLD: u32 = 20;

/// Maximum number of pages of the first list: a list without end must not keep a server new.
const MAX_PAGES: u32 = 100;

/// Pins of one server, while it runs.
#[derive(Debug)]
pub struct Pins {
    folder: PathBuf,
    name: String,
    accepted: Accepted,
    offered: BTreeMap<String, Offered>,
    /// Nothing was accepted before this process: the tools of its first list are, and later ones are held.
    is_new: bool,
    /// Pages of the first list so far.
    pages: u32,
    /// Time of the last writing of what is offered, and whether that changed since.
    written: Option<Instant>,
    is_dirty: bool,
    /// Names that were held when it was last told, and how often it was told.
    told: (Vec<String>, u32),
}

impl Pins {
    /// Pins of a server by its folder.
    ///
    /// # Errors
    /// When a file of pins cannot be read.
    pub fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let accepted: Option<Accepted> = read(&folder.join(ACCEPTED))?;
        let is_new = accepted.is_none();
        let offered = read(&folder.join(OFFERED))?.unwrap_or_default();
        let accepted = accepted.unwrap_or_default();
        let (folder, name) = (folder.to_owned(), name.to_owned());
        let told = (Vec::new(), 0);
        Ok(Self { folder, name, accepted, offered, is_new, pages: 0, written: None, is_dirty: false, told })
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
        let mut checked = check(&line, Some(&self.accepted));
        if checked.is_unread {
            notes::say("a line of the server cannot be checked for its tools, and is not passed on");
            return refusal(&line).unwrap_or_default();
        }
        let is_first = self.is_new && checked.page != Page::Other;
        if checked.offered.is_empty() && checked.held.is_empty() && !is_first {
            return line;
        }
        // A person may have accepted them since this process began.
        if !checked.held.is_empty()
            && let Ok(Some(now)) = read::<Accepted>(&self.folder.join(ACCEPTED))
            && now != self.accepted
        {
            self.accepted = now;
            checked = check(&line, Some(&self.accepted));
        }
        if is_first {
            self.pages += 1;
            if self.learn(&checked) {
                checked = check(&line, Some(&self.accepted));
            }
            self.is_new = checked.page == Page::More && self.pages < MAX_PAGES;
        }
        for (name, tool) in std::mem::take(&mut checked.offered) {
            let is_known = self.offered.contains_key(&name);
            if (is_known || self.offered.len() < MAX_TOOLS) && self.offered.get(&name) != Some(&tool) {
                self.offered.insert(name, tool);
                self.is_dirty = true;
            }
        }
        // A server that offers something else each time must not keep the disk busy.
        if self.written.is_none_or(|written| written.elapsed() >= WRITE_INTERVAL) {
            self.finish();
        }
        if !checked.held.is_empty() && checked.held != self.told.0 && self.told.1 < MAX_TOLD {
            self.told = (checked.held.clone(), self.told.1 + 1);
            let held: Vec<_> = checked.held.iter().take(8).map(|name| printable(name)).collect();
            notes::say(format!(
                "held back: {} (new, changed since you accepted the tools, or with invisible characters); read them: hotcell mcp servers show {}",
                held.join(", "),
                self.name
            ));
        }
        checked.replaced.unwrap_or(line)
    }

    /// Writes what is offered, if that changed.
    pub fn finish(&mut self) {
        if !std::mem::take(&mut self.is_dirty) {
            return;
        }
        self.written = Some(Instant::now());
        if let Err(error) = write(&self.folder.join(OFFERED), &self.offered) {
            notes::say(format!("what {} offers cannot be kept: {error}", self.name));
        }
    }

    /// Accepts tools of the first list, except those with characters that a person does not see; whether there are any. An empty list is remembered, too.
    fn learn(&mut self, checked: &Checked) -> bool {
        let before = self.accepted.len();
        for (name, offered) in checked.offered.iter().filter(|(_, offered)| !has_invisible(&offered.tool)) {
            if self.accepted.len() < MAX_TOOLS {
                self.accepted.entry(name.clone()).or_insert_with(|| offered.sha256.clone());
            }
        }
        let is_more = self.accepted.len() > before;
        if is_more || self.pages == 1 {
            let kept = write(&self.folder.join(ACCEPTED), &self.accepted)
                .and_then(|()| keep(&self.folder, &self.accepted, &checked.offered));
            if let Err(error) = kept {
                notes::say(format!("the accepted tools of {} cannot be kept: {error}", self.name));
            }
        }
        is_more
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn passed(pins: &mut Pins, tools: &Value, next: Option<&str>) -> Vec<String> {
        let mut result = json!({ "tools": tools });
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        let line = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
        let line: Value = serde_json::from_slice(&pins.pass(line.into_bytes())).unwrap();
        let tools = line["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn lines_that_only_a_client_reads_are_answered_by_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut pins = Pins::open(folder.path(), "s").unwrap();
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for odd in ["1e999", r#""\ud800""#, &deep] {
            let line = format!("{{\"id\":3,\"result\":{{\"tools\":[{{\"name\":\"evil\"}}],\"x\":{odd}}}}}\n");
            let passed: Value = serde_json::from_slice(&pins.pass(line.into_bytes())).unwrap();
            assert_eq!((&passed["id"], &passed["error"]["code"]), (&json!(3), &json!(-32603)), "{passed}");
        }
        for line in [
            &b"{\"id\":3,\"result\":{\"tools\":[{\"name\":\"evil\"}]},\"result\":{}}\n"[..],
            b"{\"id\":3,\"Result\":{\"Tools\":[{\"name\":\"evil\"}]}}\n",
        ] {
            let passed: Value = serde_json::from_slice(&pins.pass(line.to_vec())).unwrap();
            assert_eq!((&passed["id"], &passed["error"]["code"]), (&json!(3), &json!(-32603)), "{passed}");
        }
        let nameless = b"{\"id\":3,\"result\":{\"tools\":[{\"Name\":\"evil\"}]}}\n";
        let passed: Value = serde_json::from_slice(&pins.pass(nameless.to_vec())).unwrap();
        assert_eq!(passed["result"]["tools"], json!([]), "{passed}");
        let returns = b"{\"a\":\r{\"id\":3,\"result\":{\"tools\":[{\"name\":\"evil\"}]}}\r}\n";
        assert!(!pins.pass(returns.to_vec()).contains(&b'\r'));
        let text = b"{\"id\":4,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\\ud83d\"}]}}\n";
        assert_eq!(pins.pass(text.to_vec()), text, "byte for byte");
    }

    #[test]
    fn tools_behind_the_first_list_are_held() {
        let (a, b, c) = (json!({ "name": "a" }), json!({ "name": "b" }), json!({ "name": "c" }));
        let folder = tempfile::tempdir().unwrap();
        let mut pins = Pins::open(folder.path(), "s").unwrap();
        // Both pages are the first list.
        assert_eq!(passed(&mut pins, &json!([a]), Some("1")), ["a"]);
        assert_eq!(passed(&mut pins, &json!([b]), None), ["b"]);
        assert_eq!(passed(&mut pins, &json!([a, b, c]), None), ["a", "b"]);
        pins.finish();
        assert_eq!(
            passed(&mut Pins::open(folder.path(), "s").unwrap(), &json!([c]), None),
            Vec::<String>::new()
        );
        // An empty list is a first list, and one without end ends.
        let folder = tempfile::tempdir().unwrap();
        let mut pins = Pins::open(folder.path(), "s").unwrap();
        assert!(passed(&mut pins, &json!([]), None).is_empty());
        assert!(passed(&mut pins, &json!([a]), None).is_empty());
        assert!(passed(&mut Pins::open(folder.path(), "s").unwrap(), &json!([a]), None).is_empty());
        let folder = tempfile::tempdir().unwrap();
        let mut pins = Pins::open(folder.path(), "s").unwrap();
        for number in 0..MAX_PAGES {
            passed(&mut pins, &json!([]), Some(&number.to_string()));
        }
        assert!(passed(&mut pins, &json!([a]), None).is_empty());
    }
}
