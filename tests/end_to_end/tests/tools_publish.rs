//! A plugin's way to a registry and back, with a signature, and what an author sees while writing one.

use hotcell_end_to_end::{User, everyone};
use hotcell_registry::Registry;

use serde_json::Value;

use super::tools::{SAYS, configure, write};

/// A private key, and the public one beside it.
fn keys(user: &User, name: &str) {
    let of = |end: &str| format!("work/{name}{end}");
    let (private, public) = (user.path(&of(".pem")), user.path(&of(".pub.pem")));
    let run = |arguments: &[&str]| {
        let done = std::process::Command::new("openssl").args(arguments).output().expect("openssl");
        assert!(done.status.success(), "{done:?}");
    };
    let (key, out) = (private.to_str().unwrap(), public.to_str().unwrap());
    run(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key]);
    run(&["pkey", "-in", key, "-pubout", "-out", out]);
    // The user who runs hotcell reads them.
    for end in [".pem", ".pub.pem"] {
        let text = std::fs::read(user.path(&of(end))).unwrap();
        user.write(of(end), text);
    }
}

#[test]
fn published_plugin_is_added_with_key() {
    let Some(registry) = Registry::start() else { return };
    let user = User::me();
    for name in ["mine", "other"] {
        keys(&user, name);
    }
    write(&user, "says.wasm", SAYS);
    let to = |tag: &str| format!("{}/tools/says:{tag}", registry.address);
    let from = |tag: &str| format!("oci://{}", to(tag));
    let add = |tag: &str, more: &[&str]| user.hotcell(["tool", "add", &from(tag)]).words(more).end();
    let publish = |more: &[&str]| user.hotcell(["tool", "publish"]).words(more).end();

    assert!(publish(&["says.wasm", &to("one")]).code(0).text().contains("@sha256:"));
    add("one", &["--key", "mine.pub.pem"]).code(125).says("no signature in the registry");
    let told = publish(&["says.wasm", &to("one"), "--sign", "mine.pem", "--json"]);
    let told: Value = serde_json::from_slice(&told.code(0).stdout).unwrap();
    let pinned = told["published"].as_str().unwrap().to_owned();
    assert!(pinned.contains("/tools/says@sha256:") && told["signature"].as_str().unwrap().ends_with(".sig"));
    add("one", &["--key", "other.pub.pem"]).code(125).says("another key");
    add("one", &["--key", "mine.pem"]).code(125).says("BEGIN PUBLIC KEY");
    add("one", &["--key", "mine.pub.pem", "--signature", "mine.pem"]).code(125).says("without --signature");
    add("one", &["--key", "mine.pub.pem"]).code(0).says("says is added");
    let page = user.hotcell(["tool", "inspect", "says", "--json"]).end().code(0).json();
    assert_eq!(page["source"], pinned.as_str());
    assert!(page["signatures"][0].as_str().unwrap().starts_with("cosign:"), "{page}");
    user.hotcell(["tool", "call", "says_echo", "text=x"]).end().code(0).prints("x\n");
    user.hotcell(["tool", "add", "says.wasm", "--replace", "--key", "mine.pub.pem"])
        .end()
        .code(125)
        .says("signed with minisign");
    // The operator requires it of every plugin, also of those that are there.
    configure(&user, "[tools]\nsigned_by = \"mine.pub.pem\"\n");
    user.write("home/.config/hotcell/mine.pub.pem", std::fs::read(user.path("work/mine.pub.pem")).unwrap());
    user.hotcell(["tool", "call", "says_echo", "text=x"]).end().code(0).prints("x\n");
    user.write("home/.config/hotcell/mine.pub.pem", std::fs::read(user.path("work/other.pub.pem")).unwrap());
    user.hotcell(["tool", "call", "says_echo", "text=x"])
        .end()
        .code(125)
        .says("not signed by the required key");

    user.write("work/text.wasm", "hello");
    let digest = format!("{}@sha256:{}", to("one").trim_end_matches(":one"), "0".repeat(64));
    for (arguments, why) in [
        (&["gone.wasm", "localhost:1/a:1"][..], "cannot be opened"),
        (&["text.wasm", "localhost:1/a:1"], "text.wasm"),
        (&["says.wasm", "a"], "names no registry"),
        (&["says.wasm", "localhost:1/a:1"], "localhost:1"),
        (&["says.wasm", &digest], "name a tag"),
        (&["says.wasm", "localhost:1/a:1", "--sign", "none.pem"], "none.pem"),
        (&["says.wasm", "localhost:1/a:1", "--sign", "mine.pub.pem"], "openssl genpkey"),
    ] {
        publish(arguments).code(125).says(why);
    }
}

#[test]
fn tool_dev_reports_builds_and_mistakes() {
    everyone(|user| {
        user.hotcell(["tool", "dev", "gone", "--once"]).end().code(125).says("gone is not there");
        let endless = user.hotcell(["tool", "dev", ".", "--json"]).end();
        assert!(endless.code(125).text().contains("--once"), "{endless:#?}");
        user.hotcell(["tool", "dev", ".", "text=x"]).end().code(125).says("--call");
    });
}
