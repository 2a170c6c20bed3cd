//! Steps of plugins, with a fake describer that reads a component's text.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hotcell_config::{Configuration, Settings};
use hotcell_guard::quarantine::Channel;
use hotcell_review::quarantine::QuarantineService;
use hotcell_sandbox::FileId;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
use hotcell_tools::{BoxFuture, Description, Export, LoadError};
use serde_json::json;

use super::report::State;
use super::*;

/// A component's text is `tools|imports|at most`.
struct Texts;

impl Describe for Texts {
    fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>> {
        let text = String::from_utf8_lossy(wasm).into_owned();
        Box::pin(async move {
            let words = |at: usize| -> Vec<String> {
                text.split('|').nth(at).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
            };
            if text.starts_with("broken") {
                return Err(LoadError::NotAComponent { message: "it is a core module".to_owned() });
            }
            let export = |word: String| Export {
                path: word.clone(),
                function: word,
                interface: None,
                description: words(3).join(" "),
                input_schema: json!({ "type": "object" }),
                output_schema: json!({ "type": "object" }),
            };
            Ok(Description {
                exports: words(0).into_iter().map(export).collect(),
                left_out: Vec::new(),
                imports: words(1),
                at_most: words(2),
                handles: false,
                serves: Vec::new(),
                manifest: None,
                hidden: words(4).first().cloned(),
            })
        })
    }
}

struct Place {
    dir: tempfile::TempDir,
    configuration: Configuration,
}

impl Place {
    fn new(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let user = Settings::parse(settings, &dir.path().join("config.toml")).unwrap();
        let state = StateChoice::Named(dir.path().join("state"));
        let configuration =
            Configuration { user, asker: Some((Channel::Cli, state)), ..Configuration::default() };
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir, configuration }
    }

    fn plugins(&self) -> Plugins {
        Plugins::of(&self.configuration).unwrap()
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work").canonicalize().unwrap()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn add(&self, source: &str) -> Result<(String, Added), ErrorReport> {
        self.add_with(source, &AddOptions::default())
    }

    fn add_with(&self, source: &str, options: &AddOptions) -> Result<(String, Added), ErrorReport> {
        block(self.plugins().add(OsStr::new(source), &self.work(), options, &Texts))
    }

    fn grant(&self, words: &[&str]) -> Result<ToolList, ErrorReport> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        self.plugins().grant("files", &words, &self.work())
    }

    fn components(&self) -> usize {
        self.dir.path().join("state/tools/components").read_dir().map_or(0, Iterator::count)
    }

    fn problem(&self) -> Option<String> {
        QuarantineService::of(&self.configuration, None)
            .unwrap()
            .verify(None, &[crate::audited])
            .unwrap()
            .problem
    }

    fn actions(&self) -> Vec<String> {
        let log = QuarantineService::of(&self.configuration, None).unwrap().audit(100).unwrap();
        log.entries.into_iter().map(|entry| entry.action).collect()
    }
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

const ALL: &str = "read write net env config secret sandbox guard";

#[test]
fn plugin_with_texts_that_nobody_sees_is_refused() {
    let place = Place::new("");
    place.write("files/files.wasm", "read|||reads");
    place.write("files/plugin.toml", "[plugin]\nname = \"files\"\ndescription = \"Reads\u{200b} files\"\n");
    let error = place.add("files").unwrap_err();
    assert!(
        error.to_string().contains("plugin.toml:3: plugin.description: character 6 is U+200B"),
        "{error}"
    );
    place.write("documented.wasm", "read|||reads|worlds.w.read:character");
    let error = place.add("documented.wasm").unwrap_err();
    assert!(error.to_string().contains("its documentation, worlds.w.read"), "{error}");
    assert_eq!(place.components(), 0);
    place.write(
        "files/plugin.toml",
        "[plugin]\nname = \"files\"\ndescription = \"Reads files \u{26a0}\u{fe0f}\"\n",
    );
    assert_eq!(place.add("files").unwrap().1, Added::New);
}

/// Every question about an unknown plugin is refused with its name, with a database or without.
#[test]
fn unknown_plugin_is_an_error_for_every_question() {
    let place = Place::new("");
    for has_database in [false, true] {
        if has_database {
            place.write("files.wasm", &format!("read|wasi:a@1|{ALL}|reads files"));
            place.add("files.wasm").unwrap();
        }
        assert_eq!(place.dir.path().join("state").exists(), has_database);
        let plugins = place.plugins();
        let inspected = block(plugins.inspect(OsStr::new("fils"), &place.work(), &Texts));
        for (question, error) in [
            ("list", plugins.list_of("fils").err()),
            ("left out", plugins.left_out("fils").err()),
            ("requests", plugins.requests_and_serves("fils").err()),
            ("waiting", plugins.waiting("fils").err()),
            ("inspect", inspected.err()),
            ("asked", plugins.may_be_asked("fils", "a", &[]).err()),
            ("granted", plugins.may_be_granted("fils", "a", &[]).err()),
        ] {
            let error = error.unwrap_or_else(|| panic!("{question}"));
            assert_eq!(error.code, Code::UnknownName, "{question}");
            let word = if has_database { "did you mean files?" } else { "no plugin is loaded" };
            assert!(error.to_string().contains(word), "{question}: {error}");
        }
    }
}

#[test]
fn plugin_is_added_granted_and_removed() {
    let place = Place::new("");
    place.write("files.wasm", &format!("read list|wasi:a@1|{ALL}|reads files"));
    assert!(place.plugins().list().unwrap().tools.is_empty());
    assert_eq!(place.add("files.wasm").unwrap(), ("files".to_owned(), Added::New));
    assert_eq!(place.add("files.wasm").unwrap().1, Added::Same);
    let list = place.plugins().list().unwrap();
    let names: Vec<&str> = list.tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["files_list", "files_read"]);
    assert!(list.tools[0].granted.is_empty() && list.tools[0].state == State::Ready);
    let folder = place.work();
    let list = place.grant(&["read=.", "net=https://a.org", "secret=T@https://a.org", "guard"]).unwrap();
    let read = format!("read={}", folder.display());
    assert_eq!(
        list.tools[0].granted,
        [&read, "net=https://a.org:443", "secret=T@https://a.org:443", "guard"]
    );
    let ready = place.plugins().ready("files_read").unwrap();
    assert!(ready.held.read.contains(&folder) && ready.wasm.is_file());
    let list =
        place.plugins().revoke("files", &["secret=T".to_owned(), "read=.".to_owned()], &folder).unwrap();
    assert_eq!(list.tools[0].granted, ["net=https://a.org:443", "guard"]);
    assert!(place.plugins().revoke("files", &["sandbox".to_owned()], &folder).is_err());
    assert_eq!(place.problem(), None);
    place.plugins().remove("files").unwrap();
    assert_eq!((place.components(), place.plugins().list().unwrap().tools.len()), (0, 0));
    assert_eq!(place.actions(), ["tool_add", "tool_grant", "tool_revoke", "tool_remove"]);
    assert_eq!(place.problem(), None);
    assert!(place.plugins().remove("files").is_err());
}

#[test]
fn invalid_plugin_is_not_added() {
    let place = Place::new("");
    for (name, text, word) in [
        ("a.wasm", "broken", "core module"),
        ("b.wasm", "", "exports no function"),
        ("run.wasm", "go||", "taken by hotcell"),
        ("_.wasm", "go||", "no plugin's name"),
        ("c/c.wasm", "go||", "unknown key"),
        ("none", "", "small letters"),
    ] {
        if name != "none" {
            place.write(name, text);
        }
        let source = match name {
            "c/c.wasm" => {
                place.write("c/plugin.toml", "[plugin]\nname = \"c\"\nnet = []\n");
                "c"
            }
            "none" => {
                place.write("d/d.wasm", "go||");
                place.write("d/plugin.toml", "[plugin]\nname = \"D\"\n");
                "d"
            }
            other => other,
        };
        let error = place.add(source).expect_err(name).to_string();
        assert!(error.contains(word), "{name}: {error}");
        assert_eq!((place.components(), place.plugins().list().unwrap().tools.len()), (0, 0));
    }
}

#[test]
fn second_plugin_of_same_name_needs_replace() {
    let place = Place::new("");
    place.write("one/files.wasm", "read||");
    place.write("two/files.wasm", "read||");
    place.add("one/files.wasm").unwrap();
    let error = place.add("two/files.wasm").unwrap_err().to_string();
    assert!(error.contains("there is a plugin files already") && error.contains("‹replace›"), "{error}");
    let options = AddOptions { replace: true, ..AddOptions::default() };
    assert_eq!(place.add_with("two/files.wasm", &options).unwrap().1, Added::Waits);
}

#[test]
fn grants_need_request_and_existing_folder() {
    let place = Place::new("[tools]\nsandbox = false\nnet = [\"https://a.org\"]\n");
    place.write("p/files.wasm", &format!("read||{ALL}"));
    let manifest = "[plugin]\nname = \"files\"\n[requests]\nread = \"so\"\nsandbox = \"so\"\n\
                    net = [\"https://a.org\", \"https://b.org\"]\n";
    place.write("p/plugin.toml", manifest);
    place.write("file", "");
    place.write("clone/.git/HEAD", "");
    place.write("private/key", "");
    std::os::unix::fs::symlink("../private", place.work().join("clone/out")).unwrap();
    place.add("p").unwrap();
    for (word, why) in [
        ("read=clone/out", "is a link that came with"),
        ("read=none", "cannot be opened"),
        ("read=file", "it is no folder"),
        ("read=../state", "hotcell keeps its own"),
        ("read=..", "hotcell keeps its own"),
        ("write=.", "does not ask for folders to write"),
        ("sandbox", "sandbox = false"),
        ("net=https://b.org", "tools.net"),
        ("net=https://c.org", "manifest does not ask"),
        ("guard", "does not ask for scans"),
        ("reed=.", "did you mean read?"),
    ] {
        let error = place.grant(&["read=.", word]).expect_err(word).to_string();
        assert!(error.contains(why), "{word}: {error}");
        assert!(place.plugins().list().unwrap().tools[0].granted.is_empty(), "all of them or none");
    }
    assert_eq!(place.grant(&["net=https://a.org"]).unwrap().tools[0].granted.len(), 1);
}

#[test]
fn unreachable_address_is_not_granted() {
    let place = Place::new("");
    place.write("files.wasm", &format!("read||{ALL}"));
    place.add("files.wasm").unwrap();
    for word in ["net=http://169.254.169.254", "secret=TOKEN@http://169.254.169.254"] {
        let error = place.grant(&[word]).expect_err(word).to_string();
        assert!(error.contains("metadata") && error.contains("never reached"), "{error}");
    }
}

#[test]
fn grant_is_bound_to_folder_identity() {
    let place = Place::new("");
    place.write("files.wasm", &format!("read||{ALL}"));
    place.write("data/x", "");
    place.add("files.wasm").unwrap();
    place.grant(&["read=data"]).unwrap();
    let work = place.work();
    let now = || place.plugins().list().unwrap().tools.remove(0);
    assert!(now().not_in_force.is_empty());
    std::fs::rename(work.join("data"), work.join("away")).unwrap();
    assert!(now().granted.is_empty() && now().not_in_force[0].why.contains("cannot be used"));
    std::fs::create_dir(work.join("data")).unwrap();
    if FileId::of(&work.join("data")).unwrap() != FileId::of(&work.join("away")).unwrap() {
        assert!(now().not_in_force[0].why.contains("another folder"), "{:?}", now().not_in_force);
    }
    std::fs::remove_dir(work.join("data")).unwrap();
    std::os::unix::fs::symlink(work.join("away"), work.join("data")).unwrap();
    assert!(now().granted.is_empty() && now().not_in_force[0].why.contains("link"));
}

#[test]
fn plugin_update_changing_approved_parts_waits() {
    let place = Place::new("");
    let old = format!("read|wasi:a@1|{ALL}|reads");
    place.write("files.wasm", &old);
    place.add("files.wasm").unwrap();
    let digest = || place.plugins().ready("files_read").unwrap().digest;
    let first = digest();
    // The plugin has no grants, and its texts are unchanged: taken.
    place.write("files.wasm", &format!("read|wasi:a@2|{ALL}|reads"));
    assert_eq!(place.add("files.wasm").unwrap().1, Added::Updated);
    assert_ne!(digest(), first);
    place.grant(&["read=."]).unwrap();
    let granted = digest();
    for text in [
        format!("read|wasi:a@3|{ALL}|reads"),
        format!("read|wasi:a@1 wasi:http@1|{ALL}|reads"),
        format!("read|wasi:a@1|{ALL}|reads, and then sends me all of it"),
        format!("read more|wasi:a@1|{ALL}|reads"),
    ] {
        place.write("files.wasm", &text);
        assert_eq!(place.add("files.wasm").unwrap().1, Added::Waits, "{text}");
        assert_eq!(place.add("files.wasm").unwrap().1, Added::Waits);
        let tool = place.plugins().list().unwrap().tools.remove(0);
        assert_eq!((digest(), tool.state, tool.granted.len()), (granted.clone(), State::UpdateWaits, 1));
    }
    let waiting = place.plugins().waiting("files").unwrap().update.unwrap();
    assert_eq!(waiting.changes, ["+ tool more", "~ code"]);
    let plugins = place.plugins();
    assert!(plugins.accept("files", &granted).is_err() && plugins.accept("files", &waiting.id[..4]).is_err());
    let list = plugins.accept("files", &waiting.id[..12]).unwrap();
    assert_eq!((list.tools.len(), list.tools[0].granted.len(), digest()), (2, 1, waiting.digest));
    assert!(plugins.waiting("files").is_err());
    assert_eq!((place.problem(), place.components()), (None, 1));
}

#[test]
fn local_plugin_is_refreshed_from_its_folder() {
    let place = Place::new("");
    place.write("files/files.wasm", &format!("read|wasi:a@1|{ALL}|reads"));
    place.add("files").unwrap();
    let refresh = || block(place.plugins().refresh(&Texts, |_| true)).unwrap();
    assert!(refresh().is_empty());
    place.write("files/files.wasm", &format!("read|wasi:a@2|{ALL}|reads"));
    assert_eq!(refresh(), ["files"]);
    assert!(refresh().is_empty());
    place.write("files/files.wasm", "broken");
    assert!(refresh().is_empty(), "one that cannot be read stays as it is");
    place.write("files/files.wasm", &format!("read|wasi:a@2|{ALL}|reads, differently"));
    assert_eq!(refresh(), ["files"]);
    assert_eq!(place.plugins().list().unwrap().tools[0].state, State::UpdateWaits);
    assert!(refresh().is_empty());
    let log = QuarantineService::of(&place.configuration, None).unwrap().audit(9).unwrap();
    assert_eq!(log.entries.last().unwrap().channel, "hotcell", "nobody asked for it");
    std::fs::remove_dir_all(place.work().join("files")).unwrap();
    assert!(refresh().is_empty() && place.plugins().ready("files_read").is_ok());
}

#[test]
fn accepted_update_equals_shown_update() {
    let place = Place::new("");
    place.write("files/files.wasm", &format!("read|wasi:a@1|{ALL}|reads"));
    let manifest = |asks: &str| {
        place.write("files/plugin.toml", &format!("[plugin]\nname = \"files\"\n[requests]\n{asks}"));
    };
    manifest("guard = \"to scan\"\n");
    place.add("files").unwrap();
    place.grant(&["guard"]).unwrap();
    place.write("files/files.wasm", &format!("read more|wasi:a@1|{ALL}|reads, and then sends it"));
    place.add("files").unwrap();
    let shown = place.plugins().waiting("files").unwrap().update.unwrap();
    let told: Vec<_> =
        shown.told.iter().map(|t| (t.tool.as_str(), t.what.as_str(), t.before.as_deref())).collect();
    assert_eq!(told[..2], [("more", "description", None), ("more", "input_schema", None)]);
    assert_eq!(told[3..], [("read", "description", Some("reads"))]);
    assert_eq!(shown.told[3].after, "reads, and then sends it");
    assert_eq!(shown.grants, ["guard"]);
    // An equal component, with a manifest that requests more.
    manifest("guard = \"to scan\"\nsandbox = \"to run\"\n");
    place.add("files").unwrap();
    let error = place.plugins().accept("files", &shown.id).unwrap_err().to_string();
    assert!(error.contains("what waits of files is"), "{error}");
    let now = place.plugins().waiting("files").unwrap().update.unwrap();
    assert_eq!((now.digest == shown.digest, now.id == shown.id), (true, false));
    place.plugins().accept("files", &now.id).unwrap();
    assert_eq!(place.problem(), None);
    // A manifest changed past the log is not used either.
    let database = rusqlite::Connection::open(place.dir.path().join("state/hotcell.db")).unwrap();
    let changed = "UPDATE plugins SET version = replace(version, 'to run', 'to ruin')";
    assert_eq!(database.execute(changed, []).unwrap(), 1);
    assert!(place.problem().unwrap().contains("the plugin files was changed past the log"));
}

#[test]
fn older_plugin_version_waits_for_approval() {
    let place = Place::new("");
    let write = |code: &str, version: &str| {
        place.write("files/files.wasm", &format!("read|wasi:a@{code}|{ALL}|reads"));
        place.write("files/plugin.toml", &format!("[plugin]\nname = \"files\"\nversion = \"{version}\"\n"));
    };
    write("1", "0.2.0");
    place.add("files").unwrap();
    write("2", "0.3.0");
    assert_eq!(place.add("files").unwrap().1, Added::Updated);
    let digest = || place.plugins().ready("files_read").unwrap().digest;
    let newest = digest();
    // The old file is served again; nothing else changed.
    write("1", "0.2.0");
    assert_eq!(block(place.plugins().refresh(&Texts, |_| true)).unwrap(), ["files"]);
    assert_eq!(place.add("files").unwrap().1, Added::Waits);
    assert_eq!(digest(), newest);
    let waiting = place.plugins().waiting("files").unwrap().update.unwrap();
    assert_eq!(waiting.changes, ["~ version 0.3.0 to 0.2.0: an OLDER one", "~ code"]);
    // A person may accept it.
    place.plugins().accept("files", &waiting.id).unwrap();
    assert_eq!(digest(), waiting.digest);
}

/// Key and signature from minisign's own documentation, for the bytes `test`.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
    RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
    trusted comment: timestamp:1556193335\tfile:test\n\
    y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==\n";

#[test]
fn signature_covers_component_and_embedded_manifest() {
    let place = Place::new("");
    place.write("files/files.wasm", "test");
    place.write("files/files.wasm.minisig", SIGNATURE);
    place.write("files/plugin.toml", "[plugin]\nname = \"files\"\n[requests]\nsandbox = \"why not\"\n");
    let options = AddOptions { key: Some(KEY.to_owned()), ..AddOptions::default() };
    let error = place.add_with("files", &options).unwrap_err().to_string();
    assert!(error.contains("is not the manifest in the component"), "{error}");
    assert_eq!(place.add_with("files/files.wasm", &options).unwrap().1, Added::New);
    assert!(place.plugins().ready("files_test").is_ok());
}

#[test]
fn required_key_applies_to_installed_plugins() {
    let mut place = Place::new("");
    place.write("files.wasm", &format!("read||{ALL}"));
    place.add("files.wasm").unwrap();
    place.grant(&["guard"]).unwrap();
    place.write("files.wasm", &format!("more||{ALL}"));
    assert_eq!(place.add("files.wasm").unwrap().1, Added::Waits);
    let waits = place.plugins().waiting("files").unwrap().update.unwrap();
    place.configuration.user.tools.signed_by = Some(KEY.to_owned());
    let plugins = place.plugins();
    for error in [plugins.ready("files_read").unwrap_err(), plugins.accept("files", &waits.id).unwrap_err()] {
        assert!(error.message.contains("not signed by the required key"), "{error}");
    }
}

#[test]
fn model_channel_cannot_change_plugins() {
    let mut place = Place::new("");
    place.write("files.wasm", &format!("read||{ALL}"));
    place.add("files.wasm").unwrap();
    let state = StateChoice::Named(place.dir.path().join("state"));
    place.configuration.asker = Some((Channel::Model("m".to_owned()), state));
    let plugins = place.plugins();
    let errors = [
        place.grant(&["read=."]).unwrap_err(),
        plugins.revoke("files", &[], Path::new("/")).unwrap_err(),
        plugins.accept("files", "00000000").unwrap_err(),
        plugins.remove("files").unwrap_err(),
        place.add("files.wasm").unwrap_err(),
    ];
    assert!(
        errors.iter().all(|e| e.code == Code::Usage && e.message.contains("only a person")),
        "{errors:?}"
    );
    assert_eq!(plugins.list().unwrap().tools.len(), 1);
}

#[test]
fn grant_bypassing_audit_log_is_found() {
    let place = Place::new("");
    place.write("files.wasm", &format!("read||{ALL}"));
    place.add("files.wasm").unwrap();
    place.grant(&["guard"]).unwrap();
    assert_eq!(place.problem(), None);
    let database = rusqlite::Connection::open(place.dir.path().join("state/hotcell.db")).unwrap();
    database.execute("UPDATE plugin_grants SET capability = 'sandbox'", []).unwrap();
    assert!(place.problem().unwrap().contains("the plugin files was changed past the log"));
    database.execute("DELETE FROM plugins", []).unwrap();
    assert!(place.problem().unwrap().contains("is gone"));
}

#[test]
fn plugin_values_are_bounded() {
    use hotcell_tools::ask::{Blob, Refused};
    use hotcell_tools::{Ask, Reply};
    let place = Place::new("");
    for name in ["files", "other"] {
        place.write(&format!("{name}.wasm"), "read||");
        place.add(&format!("{name}.wasm")).unwrap();
    }
    let values = place.plugins().values().unwrap();
    let set = |plugin: &str, key: &str, bytes: usize| {
        values.answer(plugin, Ask::KvSet { key: key.to_owned(), value: Blob(vec![7; bytes]) })
    };
    let get = |plugin: &str, key: &str| values.answer(plugin, Ask::KvGet { key: key.to_owned() }).unwrap();
    assert_eq!(set("files", "a", 3), Ok(Reply::Done));
    assert_eq!(get("files", "a"), Reply::Value { value: Some(Blob(vec![7; 3])) });
    assert_eq!(get("other", "a"), Reply::Value { value: None }, "no other plugin sees it");
    assert!(matches!(set("files", &"k".repeat(257), 1), Err(Refused::TooMuch(_))));
    assert!(matches!(set("files", "b", (64 << 10) + 1), Err(Refused::TooMuch(_))));
    for at in 0..15 {
        set("files", &format!("x{at}"), 64 << 10).unwrap();
    }
    assert_eq!(set("files", "last", 64 << 10), Err(Refused::Full));
    assert_eq!(get("files", "last"), Reply::Value { value: None }, "nothing of it stays");
    let keys = values.answer("files", Ask::KvKeys { prefix: "x1".to_owned() }).unwrap();
    assert_eq!(
        keys,
        Reply::Keys { keys: ["x1", "x10", "x11", "x12", "x13", "x14"].map(str::to_owned).to_vec() }
    );
    // The limit is on the number of keys, however short they are.
    let database = rusqlite::Connection::open(place.dir.path().join("state/hotcell.db")).unwrap();
    let many = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1023) \
                INSERT INTO plugin_values (plugin, key, value) SELECT 'other', 'k' || n, x'' FROM n";
    assert_eq!(database.execute(many, []).unwrap(), 1023);
    assert_eq!(set("other", "one more", 0), Ok(Reply::Done));
    assert_eq!(set("other", "and another", 0), Err(Refused::Full));
    values.answer("files", Ask::KvDelete { key: "a".to_owned() }).unwrap();
    assert_eq!(get("files", "a"), Reply::Value { value: None });
    place.plugins().remove("files").unwrap();
    assert!(matches!(set("files", "a", 1), Err(Refused::Unavailable(_))), "who is gone keeps nothing");
}

#[test]
fn tool_choice_persists_until_replaced() {
    let place = Place::new("");
    place.write("files.wasm", "read list write||");
    place.add("files.wasm").unwrap();
    let plugins = place.plugins();
    let offered = || -> Vec<String> {
        let tools = place.plugins().list().unwrap().tools;
        tools.into_iter().filter(|tool| tool.offered).map(|tool| tool.name).collect()
    };
    let words = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(offered().len(), 3);
    let list = plugins.offer("files", &Choice::Only(words("read files_list"))).unwrap();
    assert_eq!(list.tools.len(), 3, "whoever chooses sees all");
    assert_eq!(offered(), ["files_list", "files_read"]);
    // Not even its name is told, nor is it nearest to another: who asks may be a model, by a server that a person started.
    let state = StateChoice::Named(place.dir.path().join("state"));
    let asker = Some((Channel::Model("m".to_owned()), state));
    let agent = Plugins::of(&Configuration { asker, ..place.configuration.clone() }).unwrap();
    for asked in ["files_write", "files_writ"] {
        for plugins in [&plugins, &agent] {
            let report = plugins.ready(asked).unwrap_err();
            let told = format!("{} {}", report.message, report.hint.unwrap_or_default());
            assert!(told.contains("there is no tool") && !told.contains("offer"), "{told}");
            assert!(!told.contains("did you mean files_write"), "{told}");
        }
    }
    assert_eq!(agent.offer("files", &Choice::All).unwrap_err().code, Code::Usage, "a model chooses nothing");
    // Tools that are new in another version are offered, or not, as the choice says.
    place.write("files.wasm", "read list write find||");
    place.add("files.wasm").unwrap();
    let digest = plugins.waiting("files").unwrap().update.unwrap().id;
    plugins.accept("files", &digest).unwrap();
    assert_eq!(offered(), ["files_list", "files_read"]);
    plugins.offer("files", &Choice::Hide(words("write"))).unwrap();
    assert_eq!(offered(), ["files_find", "files_list", "files_read"]);
    for (plugin, choice, near) in [
        ("files", Choice::Only(words("raed")), "did you mean read?"),
        ("file", Choice::All, "did you mean files?"),
    ] {
        assert!(plugins.offer(plugin, &choice).unwrap_err().hint.unwrap().contains(near));
    }
    assert_eq!(offered().len(), 3, "a mistake changes nothing");
    plugins.offer("files", &Choice::All).unwrap();
    assert_eq!(offered().len(), 4);
    assert!(place.actions().iter().any(|action| action == "tool_offer"));
    QuarantineService::of(&place.configuration, None).unwrap().verify(None, &[crate::audited]).unwrap();
    plugins.offer("files", &Choice::Hide(words("read"))).unwrap();
    plugins.remove("files").unwrap();
    place.add("files.wasm").unwrap();
    assert_eq!(offered().len(), 4, "of one that is gone nothing stays");
}

#[test]
fn plugin_value_swap_compares_old_value() {
    use hotcell_tools::ask::Blob;
    use hotcell_tools::{Ask, Reply};
    let place = Place::new("");
    place.write("files.wasm", "read||");
    place.add("files.wasm").unwrap();
    let values = place.plugins().values().unwrap();
    let text = |text: &str| Blob(text.as_bytes().to_vec());
    for (seen, new, reply) in [
        (Some("a"), "b", Reply::Value { value: None }),
        (None, "a", Reply::Done),
        (None, "b", Reply::Value { value: Some(text("a")) }),
        (Some("b"), "c", Reply::Value { value: Some(text("a")) }),
        (Some("a"), "c", Reply::Done),
        (Some("c"), "c", Reply::Done),
    ] {
        let ask = Ask::KvSwap { key: "k".to_owned(), seen: seen.map(text), value: text(new) };
        assert_eq!(values.answer("files", ask), Ok(reply), "{seen:?} {new}");
    }
    let long = Ask::KvSwap { key: "k".repeat(257), seen: None, value: text("") };
    assert!(values.answer("files", long).is_err());
}
