//! Secrets over MCP: a call names one of the operator's, a person approves exactly this run, and the program uses it without holding it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotcell_end_to_end::everyone;
use hotcell_end_to_end::mcp::{Local, SESSIONS};
use serde_json::json;

use crate::approvals::{approvals, audit_is_good, id_in};
use crate::secrets::{VALUE, host};
use crate::tools::configure;

#[test]
fn secret_is_used_by_the_approved_run_once() {
    let Some(host) = host() else { return };
    everyone(|user| {
        let token = user.write("work/token", VALUE);
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))
            .expect("a file of the user's");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/egress/tests/pki/root.pem");
        let root = user.write("work/root.pem", std::fs::read(root).expect("a root"));
        let rule = format!("api.test={}:{}", host.at, host.port);
        let definition = |name: &str, more: &str| {
            format!(
                "[secrets.{name}]\nsource = \"file:{}\"\nhost = \"api.test:{}/v1\"\nca = \"{}\"\n{more}",
                token.display(),
                host.port,
                root.display()
            )
        };
        let offered = definition("gh", "methods = [\"GET\"]\nmcp = true\n");
        configure(user, &format!("[mcp]\nhosts = [\"{rule}\"]\n{offered}{}", definition("own", "")));
        let mut client = Local::start(user, SESSIONS);
        let code = "import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:888/gh/x', timeout=20).read().decode())\n";
        let call = |network: &[&str]| json!({ "language": "python", "code": code, "network": network });
        let both = call(&[&rule, "secret:gh"]);
        let said = client.bad("run_code", &both);
        let id = id_in(&said);
        let shown = format!("secret gh for api.test:{}/v1, GET only (at http://127.0.0.1:888/gh)", host.port);
        let page = approvals(user, &["show", &id]).code(0).text();
        assert!(page.contains(&shown) && !page.contains(VALUE), "{page}");
        approvals(user, &["approve", &id]).code(0);
        // The host alone is another request.
        assert_ne!(id_in(&client.bad("run_code", &call(&[&rule]))), id);
        let ran = client.good("run_code", &both);
        let text = ran["stdout"]["text"].as_str().unwrap_or_default();
        assert!(text.contains(r#""good": [true]"#) && !ran.to_string().contains(VALUE), "{ran:#}");
        assert_ne!(id_in(&client.bad("run_code", &both)), id, "once");
        for wrong in ["secret:own", "secret:zz", "secret:", "secret:gh=env:PATH@evil.test"] {
            let said = client.bad("run_code", &call(&[wrong]));
            assert!(said.contains("there are: gh"), "{wrong}: {said}");
        }
        // Tests: the value is read after the approval only, and for the approved files.
        let suite = |body: &str| {
            let test = format!(
                "import unittest, urllib.request as u\nclass T(unittest.TestCase):\n    def test_it(self):\n        {body}\n"
            );
            json!({ "files": [{ "path": "test_a.py", "content": test }], "framework": "unittest", "network": [&rule, "secret:gh"] })
        };
        let good = suite(
            "told = u.urlopen('http://127.0.0.1:888/gh/x', timeout=20).read().decode(); self.assertIn('[true]', told); print(told)",
        );
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644))
            .expect("a file of the user's");
        let id = id_in(&client.bad("run_tests", &good));
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))
            .expect("a file of the user's");
        assert!(approvals(user, &["show", &id]).code(0).text().contains(&shown));
        approvals(user, &["approve", &id]).code(0);
        assert_ne!(id_in(&client.bad("run_tests", &suite("self.fail()"))), id);
        let ran = client.good("run_tests", &good);
        assert!(ran["verdict"] == "passed" && !ran.to_string().contains(VALUE), "{ran:#}");
        assert_ne!(id_in(&client.bad("run_tests", &good)), id, "once");
        client.end();
        audit_is_good(user);
    });
}

/// Says what the host answered, and its own variables, as a message of the protocol.
const SERVER: &str = r"
import json, os, urllib.request
answer = urllib.request.urlopen(os.environ['GH_BASE_URL'] + '/x', timeout=20).read().decode()
print(json.dumps({'jsonrpc': '2.0', 'method': 'told', 'params': {'answer': answer, 'own': dict(os.environ)}}), flush=True)
";

#[test]
fn wrapped_server_uses_a_secret_that_it_does_not_hold() {
    let Some(host) = host() else { return };
    everyone(|user| {
        let config = host.configuration(user, "");
        let (config, state) = (config.to_str().unwrap(), user.path("work/state"));
        let words = ["mcp", "wrap", "--config", config, "--state", state.to_str().unwrap(), "--guard", "off"];
        let server = ["--secret", "gh", "--", "/usr/bin/python3", "-c", SERVER];
        let ended = user.hotcell([&words[..], &server].concat()).env("HIDDEN_TOKEN", VALUE).end();
        let told = ended.code(0).text();
        assert!(told.contains(r#"\"good\": [true]"#) && !told.contains(VALUE), "{ended:#?}");
        let wrong = [&words[..], &["--secret", "gh=t0p-s3cret@api.test", "--", "/bin/true"]].concat();
        let ended = user.hotcell(wrong).end();
        ended.code(125).says("a value itself is not accepted");
        assert!(!ended.stderr.contains("t0p-s3cret"), "{ended:#?}");
    });
}
