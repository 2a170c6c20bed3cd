//! Files that a command saves what it fetches to, and commands that execute such a file later.

use crate::language::Language;
use crate::rules::basename;
use crate::value::{HOLE, Origin, Value};

use super::Shell;
use super::execute::key;

/// Name of the content of a file that was fetched under a name of its own.
const SAVED: &str = "<saved>";
/// Maximum number of addresses of one command that are followed.
const MAX_URLS: usize = 32;
/// Folders that a program is found in by its bare name.
const PROGRAMS: &[&str] = &[
    "/usr/local/bin/",
    "/usr/bin/",
    "/bin/",
    "/usr/local/sbin/",
    "/usr/sbin/",
    "/sbin/",
    "~/.local/bin/",
    "~/bin/",
];

/// A command line of a program that fetches: addresses, and the names of the files that it writes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fetch {
    urls: Vec<String>,
    /// Files by name; `-` is standard output.
    files: Vec<String>,
    folder: Option<String>,
    /// The file's name is the last part of the address.
    own_names: bool,
}

impl Shell<'_, '_> {
    /// Records the files that a command saves what it fetches to.
    pub(super) fn fetches(&mut self, name: &str, argv: &[Value]) {
        let words: Vec<String> = argv.iter().skip(1).map(path_of).collect();
        self.unpacks(name, &words);
        let fetch = if self.fetchers.contains(name) { by_function(&words) } else { fetch(name, &words) };
        let Some(fetch) = fetch.or_else(|| copied(name, &words)) else { return };
        let mut content = Value::name(SAVED).with_origin(Origin::NET);
        content.names.extend(fetch.urls.iter().map(|url| format!("fetch:{url}").into()));
        for path in fetch.paths() {
            self.fetched.insert(basename(&path).to_owned(), content.clone());
            self.files.insert(key(&path).to_owned(), content.clone());
        }
    }

    /// Follows archives that were fetched: a packed file keeps its name, and what else is in one is not known.
    fn unpacks(&mut self, name: &str, words: &[String]) {
        let found = words.iter().find_map(|word| {
            let content = self.files.get(key(word)).or_else(|| self.fetched.get(basename(word)))?;
            is_saved(content).then(|| (word.clone(), content.clone()))
        });
        let Some((path, content)) = found else { return };
        match name {
            "gunzip" | "bunzip2" | "unxz" | "gzip" | "bzip2" | "xz" | "uncompress" | "zstd" | "unzstd" => {
                if let Some((stem, _)) = path.rsplit_once('.') {
                    self.fetched.insert(basename(stem).to_owned(), content.clone());
                    self.files.insert(key(stem).to_owned(), content);
                }
            }
            "tar" | "unzip" | "7z" | "7za" | "bsdtar" | "cpio" | "unrar" => self.unpacked = Some(content),
            "dpkg" | "rpm" | "apt" | "apt-get" | "dnf" | "yum" | "apk" | "zypper" | "insmod"
            | "installer" | "msiexec" => {
                let content = [content];
                self.cx.fact_with(Language::Bash, "shell.installs_saved", self.here, &content, self.context);
            }
            _ => {}
        }
    }

    /// Reports that a file that was fetched is executed: as a program, or by an interpreter.
    pub(super) fn runs_fetched(&mut self, path: &Value, as_program: bool) {
        let path = path_of(path);
        let mut content = self.files.get(key(&path)).filter(|content| is_saved(content));
        if content.is_none() && as_program && !path.contains('/') {
            let found = PROGRAMS.iter().find_map(|folder| self.files.get(&format!("{folder}{path}")));
            content = found.filter(|content| is_saved(content));
        }
        // The script may have changed the folder in between.
        let is_here = path.starts_with("./") || !as_program && !path.contains('/');
        if content.is_none() && is_here && !self.files.contains_key(key(&path)) {
            content = self.fetched.get(basename(&path));
        }
        if let Some(content) = content.cloned() {
            self.cx.fact_with(Language::Bash, "shell.runs_fetched", self.here, &[content], self.context);
            return;
        }
        // A file that may have been in the archive: the script did not write it, and no system has it.
        let may_be =
            path.contains(['/', '.']) && !path.starts_with('/') && !self.files.contains_key(key(&path));
        if let Some(content) = self.unpacked.clone().filter(|_| may_be) {
            self.cx.fact_with(Language::Bash, "shell.runs_unpacked", self.here, &[content], self.context);
        }
    }
}

/// True for the content of a file that was fetched under a name of its own.
pub(super) fn is_saved(content: &Value) -> bool {
    content.names.iter().any(|name| &**name == SAVED)
}

/// True for a function's body that fetches.
pub(super) fn fetches_in(body: &str) -> bool {
    ["curl", "wget", "aria2c"].iter().any(|name| body.contains(name))
}

/// Call of the script's own function that fetches: an address, and the file to write.
fn by_function(words: &[String]) -> Option<Fetch> {
    let is_url =
        |word: &&String| ["http://", "https://", "ftp://"].iter().any(|scheme| word.starts_with(scheme));
    let urls: Vec<String> = words.iter().filter(is_url).take(MAX_URLS).cloned().collect();
    let named = words
        .iter()
        .filter(|word| !is_url(word) && !word.starts_with('-') && !word.contains(char::is_whitespace));
    let files: Vec<String> = named.cloned().collect();
    (!urls.is_empty()).then_some(Fetch { own_names: files.is_empty(), urls, files, folder: None })
}

/// A copy from a numeric address by another program: `scp x@192.0.2.1:/a b`, `tftp -g -r a 192.0.2.1`.
fn copied(name: &str, words: &[String]) -> Option<Fetch> {
    let host = |word: &str| {
        let host = word.rsplit('@').next().unwrap_or(word).split(':').next().unwrap_or("");
        host.parse::<std::net::Ipv4Addr>().is_ok()
    };
    let operands: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let (from, files) = match name {
        "scp" | "rsync" => {
            let (to, from) = operands.split_last()?;
            let from = from.iter().find(|word| word.contains(':') && host(word))?;
            let own = basename(from.rsplit(':').next().unwrap_or(from));
            (*from, vec![(*to).clone(), format!("{}/{own}", to.trim_end_matches('/'))])
        }
        "tftp" | "ftpget" => {
            let from = operands.iter().find(|word| host(word))?;
            (
                *from,
                operands.iter().filter(|word| *word != from).map(|word| basename(word).to_owned()).collect(),
            )
        }
        _ => return None,
    };
    let url = from.split(':').next().unwrap_or(from).rsplit('@').next().unwrap_or(from).to_owned();
    Some(Fetch { urls: vec![url], files, ..Fetch::default() })
}

/// Text of a word as the name of a file: of a temporary file that the script made itself, and of one in a temporary
/// folder, with the command's name.
pub(super) fn path_of(word: &Value) -> String {
    let made = || word.names.iter().any(|name| &**name == "mktemp");
    match word.as_text() {
        Some(text) if text.trim_matches(HOLE).is_empty() && made() => "<mktemp>".to_owned(),
        Some(text) if text.starts_with(HOLE) && made() => text.replacen(HOLE, "<mktemp>", 1),
        Some(text) => text.to_owned(),
        None if made() => "<mktemp>".to_owned(),
        None => HOLE.to_string(),
    }
}

impl Fetch {
    /// Names of the files that are written.
    fn paths(&self) -> Vec<String> {
        let mut all: Vec<String> = self.files.iter().filter(|file| *file != "-").cloned().collect();
        if self.own_names {
            all.extend(self.urls.iter().filter_map(|url| own_name(url)));
        }
        // An unknown name is the name of any file.
        all.retain(|path| !path.trim_matches(HOLE).is_empty() && path != "/dev/null");
        if let Some(folder) = self.folder.as_ref().map(|folder| folder.trim_end_matches('/')) {
            all.iter_mut()
                .filter(|path| !path.starts_with('/'))
                .for_each(|path| *path = format!("{folder}/{path}"));
        }
        all
    }
}

/// Name under which a program saves an address that it is given no name for.
fn own_name(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (_, path) = rest.split_once('/')?;
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or("");
    Some(if name.is_empty() { "index.html" } else { name }.to_owned())
}

/// Short options of a program that take a value.
fn takes_value(name: &str, option: char) -> bool {
    match name {
        "curl" => "AbcCdDeEFhHKmPQrtTuUwxXyYz".contains(option),
        "wget" => "aABDeiIlQRtTUwX".contains(option),
        "aria2c" => "ijkmsxtV".contains(option),
        _ => false,
    }
}

/// Reads the command line of a program that fetches; `None` for any other program.
fn fetch(name: &str, words: &[String]) -> Option<Fetch> {
    if !matches!(name, "curl" | "wget" | "aria2c" | "axel" | "fetch") {
        return None;
    }
    let mut found = Fetch { own_names: name != "curl", ..Fetch::default() };
    let (file, folder) = match name {
        "wget" => ('O', 'P'),
        "aria2c" => ('o', 'd'),
        _ => ('o', '\0'),
    };
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if let Some(long) = word.strip_prefix("--") {
            let (option, attached) =
                long.split_once('=').map_or((long, None), |(o, v)| (o, Some(v.to_owned())));
            let is_file = matches!(option, "output" | "output-document" | "out");
            let is_folder = matches!(option, "output-dir" | "directory-prefix" | "dir");
            found.own_names |= matches!(option, "remote-name" | "remote-name-all");
            let other = matches!(
                option,
                "header"
                    | "user-agent"
                    | "data"
                    | "user"
                    | "request"
                    | "retry"
                    | "max-time"
                    | "connect-timeout"
                    | "referer"
                    | "cookie"
                    | "proxy"
                    | "cacert"
                    | "data-raw"
                    | "form"
                    | "write-out"
                    | "retry-delay"
            );
            let value = if is_file || is_folder || other || option == "url" {
                at += usize::from(attached.is_none());
                attached.or_else(|| words.get(at - 1).cloned())
            } else {
                None
            };
            match value {
                Some(value) if is_file => found.files.push(value),
                Some(value) if is_folder => found.folder = Some(value),
                Some(value) if option == "url" => found.urls.push(value),
                _ => {}
            }
        } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
            for (begin, letter) in short.char_indices() {
                let is_own = letter == file || letter == folder;
                if !is_own && !takes_value(name, letter) {
                    found.own_names |= name == "curl" && letter == 'O';
                    continue;
                }
                let attached = &short[begin + letter.len_utf8()..];
                let value =
                    if attached.is_empty() { words.get(at).cloned() } else { Some(attached.to_owned()) };
                at += usize::from(attached.is_empty());
                match value {
                    Some(value) if letter == file => found.files.push(value),
                    Some(value) if is_own => found.folder = Some(value),
                    _ => {}
                }
                break;
            }
        } else if found.urls.len() < MAX_URLS {
            found.urls.push(word.clone());
        }
    }
    // A name of its own replaces the one in the address.
    if name != "curl" && !found.files.is_empty() {
        found.own_names = false;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_fetch_writes() {
        for (line, want) in [
            ("curl -o x.sh http://h/y", &["x.sh"][..]),
            ("curl -ox.sh http://h/y", &["x.sh"]),
            ("curl -fsSLo x.sh http://h/y", &["x.sh"]),
            ("curl --output=x.sh http://h/y", &["x.sh"]),
            ("curl http://h/y --output x.sh", &["x.sh"]),
            ("curl -sSLO http://h/a/y.sh?z=1", &["y.sh"]),
            ("curl -O http://h/a -O http://h/b", &["a", "b"]),
            ("curl --output-dir d -O http://h/a", &["d/a"]),
            ("curl -H Accept:x http://h/y", &[]),
            ("curl -o - http://h/y", &[]),
            ("wget http://h/y", &["y"]),
            ("wget h/y", &["y"]),
            ("wget -q http://h/y/", &["index.html"]),
            ("wget http://h/y -O /tmp/x", &["/tmp/x"]),
            ("wget -qO/tmp/x http://h/y", &["/tmp/x"]),
            ("wget -qO- http://h/y", &[]),
            ("wget -P /tmp http://h/y", &["/tmp/y"]),
            ("wget --directory-prefix=/tmp http://h/y", &["/tmp/y"]),
            ("wget -U agent http://h/y", &["y"]),
            ("aria2c -d /tmp -o x http://h/y", &["/tmp/x"]),
            ("echo http://h/y", &[]),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let name = words.next().unwrap_or_default();
            let found = fetch(&name, &words.collect::<Vec<_>>()).map(|fetch| fetch.paths());
            assert_eq!(found.unwrap_or_default(), want, "{line}");
        }
    }
}
