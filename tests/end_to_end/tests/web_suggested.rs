//! Suggested policies on the page: shown whole, written once after a yes, and never by themselves.

use hotcell_end_to_end::{User, everyone};
use serde_json::json;

use super::approvals::{audit_is_good, log};
use super::web::Page;

/// Learns that a program wants a file, and leaves the policy to a person; the paths of policy and file.
fn learnt(user: &User, name: &str) -> (String, String) {
    user.make_folder("work");
    let data = user.write("work/<b>data.txt", "hello").to_str().expect("a path").to_owned();
    let policy = user.path(&format!("work/{name}")).to_str().expect("a path").to_owned();
    let learn = [
        "learn",
        "--review",
        "--output",
        &policy,
        "--",
        "/usr/bin/python3",
        "-c",
        "import sys; open(sys.argv[1])",
        &data,
    ];
    user.hotcell(learn).end().code(0).says("waits as");
    assert!(!std::path::Path::new(&policy).exists(), "it was written without a yes");
    (policy, data)
}

/// Address of the only suggestion.
fn address(page: &Page, cookie: &str) -> Option<String> {
    let list = page.get("/waiting", cookie).good().to_owned();
    let rest = list.split("href=\"/waiting/suggestion/").nth(1)?;
    Some(format!("/waiting/suggestion/{}", rest.split('"').next().expect("an end")))
}

#[test]
fn learnt_policy_is_written_by_a_yes_alone() {
    everyone(|user| {
        let (policy, data) = learnt(user, "policy.toml");
        let page = Page::start(user, &[]);
        let (one, reader) = (page.session("decide"), page.session("read"));
        let path = address(&page, &one).expect("it waits");
        let shown = page.get(&path, &one);
        let body = shown.good();
        for text in
            ["&lt;b&gt;data.txt", "A yes allows", &policy, "Wanted by", "/usr/bin/python3", "Allow all of it"]
        {
            assert!(body.contains(text), "{text}: {body}");
        }
        assert!(!body.contains("<b>data"), "{body}");
        assert!(body.find("autofocus").unwrap() < body.find("Allow all of it").unwrap(), "no has the focus");
        let (read, seen) = (shown.field("read").expect("a yes"), shown.field("seen").expect("a no"));
        let yes = format!("{path}/yes");
        assert_eq!(page.post(&yes, &reader, &format!("read={read}")).status, 403);
        assert_eq!(page.post(&yes, &one, &format!("read={seen}")).status, 409, "it was not read");
        // Another file is there by now: nothing is replaced, and it still waits.
        std::fs::write(&policy, "mine").unwrap();
        assert_eq!(page.post(&yes, &one, &format!("read={read}")).status, 409);
        assert_eq!(std::fs::read_to_string(&policy).unwrap(), "mine");
        std::fs::remove_file(&policy).unwrap();
        assert_eq!(page.post(&yes, &one, &format!("read={read}")).status, 303);
        assert!(log(user).contains(&("policy_accept".to_owned(), "web".to_owned())), "{:?}", log(user));
        assert_eq!(page.post(&yes, &one, &format!("read={read}")).status, 404, "it was decided");
        assert_eq!(address(&page, &one), None);
        let run = ["run", "--config", &policy, "--", "/usr/bin/cat", &data];
        user.hotcell(run).end().code(0).prints("hello");
        audit_is_good(user);
    });
}

#[test]
fn policies_are_decided_on_the_command_line() {
    everyone(|user| {
        let (policy, data) = learnt(user, "cli.toml");
        let suggested = |words: &[&str]| user.hotcell(["runs", "suggested"]).words(words).end();
        let list = suggested(&["list", "--json"]).code(0).json();
        let one = &list["suggestions"][0];
        let (id, shown) = (one["id"].as_str().expect("an id"), one["shown"].as_str().expect("a digest"));
        assert!(suggested(&["list"]).code(0).text().contains(id));
        let page = suggested(&["show", &id[..6]]);
        for text in [&*data, &policy, shown, "/usr/bin/python3"] {
            assert!(page.code(0).text().contains(text), "{text}: {page:#?}");
        }
        suggested(&["show", "nothing"]).code(125).says("no suggested policy");
        suggested(&["take", id, "--shown", "00"]).code(125).says("is not what was shown");
        assert!(!std::path::Path::new(&policy).exists());
        // A process of an earlier release died while it decided.
        let file = |end: &str| user.path(&format!("home/.local/state/hotcell/suggestions/{id}.{end}"));
        std::fs::rename(file("json"), file("taken")).unwrap();
        suggested(&["take", id, "--shown", shown, "--reason", "looked at it"]).code(0);
        user.hotcell(["run", "--config", &policy, "--", "/usr/bin/cat", &data]).end().code(0).prints("hello");
        assert!(log(user).contains(&("policy_accept".to_owned(), "cli".to_owned())), "{:?}", log(user));
        suggested(&["take", id]).code(125).says("no suggested policy");
        let (policy, _) = learnt(user, "dismissed.toml");
        let list = suggested(&["list", "--json"]).code(0).json();
        suggested(&["dismiss", list["suggestions"][0]["id"].as_str().expect("an id")]).code(0);
        assert!(!std::path::Path::new(&policy).exists());
        assert!(log(user).contains(&("policy_deny".to_owned(), "cli".to_owned())), "{:?}", log(user));
        suggested(&["list"]).code(0).says("no suggested policy waits");
        audit_is_good(user);
    });
}

#[test]
fn denied_policy_is_not_written() {
    everyone(|user| {
        let (policy, _) = learnt(user, "other.toml");
        let (page, second) = (Page::start(user, &[]), Page::start(user, &[]));
        let (one, two) = (page.session("decide"), second.session("decide"));
        let path = address(&page, &one).expect("it waits");
        let (no, yes) =
            (page.get(&path, &one).field("seen").unwrap(), second.get(&path, &two).field("read").unwrap());
        // Two persons at once: one decision.
        let done = std::thread::scope(|all| {
            let no = all.spawn(|| page.post(&format!("{path}/no"), &one, &format!("seen={no}")).status);
            let yes = all.spawn(|| second.post(&format!("{path}/yes"), &two, &format!("read={yes}")).status);
            [no.join().unwrap(), yes.join().unwrap()]
        });
        assert_eq!(done.iter().filter(|status| **status == 303).count(), 1, "{done:?}");
        assert_eq!(std::path::Path::new(&policy).exists(), done[1] == 303);
        let said = log(user).into_iter().filter(|(action, _)| action.starts_with("policy_")).count();
        assert_eq!(said, 1);
        audit_is_good(user);
        user.hotcell(["learn", "--review", "--", "true"]).end().code(125).says("--output");
    });
}

#[test]
fn grants_that_a_server_lacked_wait_for_a_person() {
    everyone(|user| {
        let folder = "home/.local/state/hotcell/mcp-servers/calc";
        let parts = [
            "home/.local",
            "home/.local/state",
            "home/.local/state/hotcell",
            "home/.local/state/hotcell/mcp-servers",
            folder,
        ];
        for folder in parts {
            user.make_folder(folder);
        }
        user.write(
            format!("{folder}/entry.json"),
            json!({ "options": [], "server": ["node", "calc.js"] }).to_string(),
        );
        let denied = |target: &str| json!({ "layer": "network", "operation": "connect", "target": target, "errno": "EACCES", "count": 3 });
        let run = |hosts: &[&str]| {
            let grants: Vec<_> = hosts.iter().map(|host| format!("network={host}")).collect();
            let denials: Vec<_> = hosts.iter().map(|host| denied(host)).collect();
            json!([{ "began_us": 1, "ended_us": 2, "cause": "exited", "denials": denials, "grants": grants }])
        };
        user.write(format!("{folder}/denials.json"), run(&["api.example.com:443"]).to_string());
        let page = Page::start(user, &[]);
        let cookie = page.session("decide");
        let path = address(&page, &cookie).expect("it waits");
        let shown = page.get(&path, &cookie);
        assert!(shown.good().contains("network=api.example.com:443"), "{}", shown.body);
        let read = shown.field("read").expect("a yes");
        // It wants more by now: what was read is not what would be granted.
        user.write(
            format!("{folder}/denials.json"),
            run(&["api.example.com:443", "b.example:443"]).to_string(),
        );
        let yes = format!("{path}/yes");
        assert_eq!(page.post(&yes, &cookie, &format!("read={read}")).status, 409);
        let read = page.get(&path, &cookie).field("read").expect("a yes");
        assert_eq!(page.post(&yes, &cookie, &format!("read={read}")).status, 303);
        let servers = user.hotcell(["mcp", "servers", "list", "--json"]).end().code(0).json();
        let want = json!(["network=api.example.com:443", "network=b.example:443"]);
        assert_eq!(servers["servers"][0]["grants"], want);
        assert!(log(user).contains(&("mcp_server_grants".to_owned(), "web".to_owned())), "{:?}", log(user));
        assert_eq!(address(&page, &cookie), None);
        audit_is_good(user);
    });
}
