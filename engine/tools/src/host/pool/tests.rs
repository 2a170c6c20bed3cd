use std::collections::BTreeMap;

use crate::{Held, Origin};

use super::slot::{MAX_CODE_BYTES, MAX_PLUGINS, has_room};
use super::*;

fn plugin() -> Plugin {
    Plugin {
        name: "a".to_owned(),
        digest: "0".repeat(64),
        wasm: "/srv/a.wasm".into(),
        held: Held::default(),
        identities: BTreeMap::new(),
        env: Vec::new(),
        limits: Limits::default(),
        alone: false,
        session: None,
    }
}

#[test]
fn plugin_with_grants_gets_own_process() {
    let origin = Origin { scheme: "https".to_owned(), host: "example.org".to_owned(), port: 443 };
    let with = |change: &dyn Fn(&mut Plugin)| {
        let mut plugin = plugin();
        change(&mut plugin);
        Class::of(&plugin)
    };
    let own = Class::Own("a".to_owned());
    assert_eq!(with(&|_| ()), Class::Bare);
    assert_eq!(with(&|p| p.limits.wall = Duration::from_secs(600)), Class::Bare);
    assert_eq!(with(&|p| p.held.read = ["/srv".into()].into()), own);
    assert_eq!(with(&|p| p.held.write = ["/srv".into()].into()), own);
    assert_eq!(with(&|p| p.held.net = [origin.clone()].into()), own);
    assert_eq!(with(&|p| p.held.secrets = [("a".to_owned(), [origin.clone()].into())].into()), own);
    assert_eq!(with(&|p| p.held.config = ["a".to_owned()].into()), own);
    assert_eq!(with(&|p| p.held.env = ["a".to_owned()].into()), own);
    assert_eq!(with(&|p| p.held.sandbox = true), own);
    assert_eq!(with(&|p| p.held.guard = true), own);
    assert_eq!(with(&|p| p.env = vec![("A".to_owned(), String::new())]), own);
    assert_eq!(with(&|p| p.limits.memory = Bytes::mib(65)), own);
    assert_eq!(with(&|p| p.limits.concurrent = 17), own);
    assert_eq!(with(&|p| p.session = Some("a".to_owned())), own);
}

#[test]
fn writable_folder_is_listed_once() {
    let held = Held {
        read: ["/srv/a".into(), "/srv/b".into()].into(),
        write: ["/srv/b".into(), "/srv/c".into()].into(),
        ..Held::default()
    };
    let folders = folders_of(&Plugin { held, ..plugin() });
    let folders: Vec<_> = folders.iter().map(|f| (f.path.to_str().unwrap(), f.writable)).collect();
    assert_eq!(folders, [("/srv/a", false), ("/srv/b", true), ("/srv/c", true)]);
}

#[test]
fn call_ends_are_classified_as_clean() {
    let limit = |limit| CallError::Limit { limit, value: String::new() };
    for (error, clean) in [
        (CallError::Cancelled, true),
        (CallError::Trap { message: String::new(), denied: Vec::new(), frames: Vec::new() }, true),
        (CallError::Unknown { name: String::new() }, true),
        (limit(Limit::Memory), true),
        (limit(Limit::Result), true),
        (limit(Limit::Wall), false),
        (limit(Limit::Stack), true),
        (CallError::Host { message: String::new() }, false),
    ] {
        assert_eq!(is_clean(&Err(error.clone())), clean, "{error:?}");
    }
}

#[test]
fn shared_process_has_bounded_plugins_and_code() {
    for (plugins, code, room) in [
        (0, 0, true),
        (MAX_PLUGINS - 1, MAX_CODE_BYTES - 1, true),
        (MAX_PLUGINS, 0, false),
        (0, MAX_CODE_BYTES, false),
    ] {
        assert_eq!(has_room(plugins, code), room, "{plugins} {code}");
    }
}
