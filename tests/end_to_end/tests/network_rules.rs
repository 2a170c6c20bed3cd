//! `--network` with rules for requests, rules that deny, and wildcards below public suffixes.

use hotcell_end_to_end::{everyone, find};

use crate::network::server;

#[test]
fn rules_for_requests_hold_for_what_is_seen() {
    let Some(server) = server() else { return };
    if find("curl").is_none() {
        println!("skipped: no curl");
        return;
    }
    everyone(|user| {
        let port = server.port;
        let rules = format!(
            "GET|HEAD m.test={at}:{port}/simple,PUT m.test={at}:{port}/up body=4,!m.test:{port}/simple/private,d.test={at}:{port},!d.test:{port}",
            at = server.at
        );
        let script = format!(
            "m=http://m.test:{port}; for p in $m/simple/x $m/x \"-X DELETE $m/simple/x\" $m/simple/PRIVATE \"--path-as-is $m/simple/../x\" \
             $m/simple/a%2fb \"-X PUT -d abcde $m/up\" \"-p $m/simple/x\" http://d.test:{port}/; do \
             curl -sS -o /dev/null -w '%{{http_code}},' $p 2>/dev/null; done"
        );
        let words = ["run", "--json", "--guard", "off", "--network", &rules, "--", "/bin/sh", "-c", &script];
        let outcome = user.hotcell(words).end().code(0).json();
        let codes = outcome["stdout"]["text"].as_str().unwrap_or_default();
        assert_eq!(codes, "200,403,403,403,403,403,413,000,403,", "{outcome:#}");
        let denials = outcome["denials"].to_string();
        for word in
            ["not what its rule allows", "of a tunnel are not seen", "the rule !d.test", "the rule !m.test"]
        {
            assert!(denials.contains(word), "{word}: {denials}");
        }
    });
}

#[test]
fn rules_that_mean_something_else_are_named() {
    everyone(|user| {
        for (rules, word) in [
            ("*.co.uk:443", "everybody can register a name below co.uk"),
            ("get a.test:80", "\"get\" is no method"),
            ("a.test:80 body=lots", "is no size"),
            ("a.test:80 rate=60", "is no rate"),
            ("a.test:80/x/../y", "a segment . or .."),
            ("!a.test:80 rate=1/s", "has no limits"),
            ("GET a.test:443/simple", "within TLS hotcell sees no methods"),
            ("a.test:443,!POST a.test:443", "within TLS hotcell sees no methods"),
        ] {
            let ended = user.hotcell(["run", "--network", rules, "--", "/bin/true"]).end();
            ended.code(125).says_one_line(word);
        }
        let ended = user.hotcell(["run", "--network", "*.github.io:443", "--", "/bin/true"]).end();
        ended.code(0).says("*.github.io:443 allows the hosts of everybody");
    });
}
