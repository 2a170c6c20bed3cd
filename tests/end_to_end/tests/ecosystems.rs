//! Clients of six ecosystems use one secret, by a base URL and by the host's own URL, without a setting that turns checks off.

use hotcell_end_to_end::{everyone, find, rust};

use crate::secrets::{VALUE, call, host};

/// Asks by each client that is installed, at the URL `$U`; a line each. What it says has to come from the host, which answers 401 without
/// the credential.
const CLIENTS: &str = r#"
cd /tmp && export HOME=/tmp
try() { name=$1; shift; { command -v "$1" && { test "$1" != env || command -v "$name"; }; } >/dev/null 2>&1 || { echo "$name: missing"; return; }; echo "$name: $("$@" 2>&1 | tr '\n' ' ')"; }
try curl curl -sS $U/v1/registry/go/example.test/acme/@v/list
try wget wget -qO- $U/v1/registry/go/example.test/acme/@v/list
try git git ls-remote $U/v1/repository.git
try urllib /usr/bin/python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())' $U/v1/registry/go/example.test/acme/@v/list
for module in requests httpx; do
  try $module $CLIENTS/bin/python -c "import sys, $module; print($module.get(sys.argv[1]).text)" $U/v1/registry/go/example.test/acme/@v/list
done
if $CLIENTS/bin/python -c 'import h2, httpx' 2>/dev/null; then
  try http2 $CLIENTS/bin/python -c "import sys, httpx; r = httpx.Client(http2=True).get(sys.argv[1]); print(r.http_version, r.text)" $U/v1/registry/go/example.test/acme/@v/list
else echo 'http2: missing'; fi
try pip pip3 index versions acme --index-url $U/v1/registry/simple/ --disable-pip-version-check --no-cache-dir
try npm npm view acme version --registry $U/v1/registry/npm/
try node node -e 'fetch(process.argv[1]).then(r => r.text()).then(console.log, console.error)' $U/v1/registry/go/example.test/acme/@v/list
try go env GOPROXY=$U/v1/registry/go GONOSUMDB='*' GOFLAGS=-mod=mod GOPATH=/tmp/go GOCACHE=/tmp/gc GOTOOLCHAIN=local go list -m -versions example.test/acme
printf 'import java.net.*; public class X { public static void main(String[] a) throws Exception { System.out.println(new String(new URL(a[0]).openStream().readAllBytes())); } }' >X.java
try java java -Xmx64m -XX:TieredStopAtLevel=1 $JAVA X.java $U/v1/registry/go/example.test/acme/@v/list
mkdir -p c/src && echo >c/src/lib.rs
printf '[package]\nname = "x"\nversion = "0.1.0"\n[dependencies]\nacme = { version = "1", registry = "gh" }\n' >c/Cargo.toml
try cargo env CARGO_REGISTRIES_GH_INDEX=sparse+$U/v1/registry/cargo/ CARGO_HOME=/tmp/ch cargo generate-lockfile --manifest-path c/Cargo.toml
test ! -e c/Cargo.lock || echo "locked: $(grep -A1 'name = "acme"' c/Cargo.lock | tr '\n' ' ')"
"#;

/// Words of each client that was answered.
const ANSWERS: [(&str, &str); 12] = [
    ("curl", "v1.0.0"),
    ("wget", "v1.0.0"),
    ("git", "refs/heads/main"),
    ("urllib", "v1.0.0"),
    ("requests", "v1.0.0"),
    ("httpx", "v1.0.0"),
    ("http2", "v1.0.0"),
    ("pip", "acme (1.0)"),
    ("npm", "1.0.0"),
    ("node", "v1.0.0"),
    ("go", "example.test/acme v1.0.0"),
    ("java", "v1.0.0"),
];

#[test]
fn clients_of_six_ecosystems_use_one_secret() {
    let Some(host) = host() else { return };
    if find("curl").is_none() {
        println!("skipped: no curl");
        return;
    }
    // A virtual environment with requests and httpx.
    let clients = std::env::var("HOTCELL_TEST_CLIENTS").unwrap_or_else(|_| "/nowhere".to_owned());
    let (variable, shown) = (format!("CLIENTS={clients}"), ["--ro", &clients]);
    let shown = if clients == "/nowhere" { &[][..] } else { &shown[..] };
    let rust = rust().map(|folder| folder.display().to_string());
    let toolchain: Vec<&str> = rust.iter().flat_map(|folder| ["--toolchain", folder]).collect();
    everyone(|user| {
        let config = host.configuration(user, "");
        let text = std::fs::read_to_string(&config).expect("a configuration");
        // Base URLs of the clients count from the host's root.
        let config = user.write("work/config.toml", text.replace("/v1\"", "\""));
        let own = format!("U=https://api.test:{}", host.port);
        let java = "JAVA=-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=888";
        for options in [
            &["--secret-env", "--env", "U=http://127.0.0.1:888/gh", "--env", "JAVA="][..],
            &["--intercept", "--env", &own, "--env", java],
        ] {
            let words = [
                &["run", "--guard", "off", "--secret", "gh", "--memory", "1G", "--env", &variable],
                shown,
                &toolchain[..],
                options,
                &["--", "/bin/sh", "-c", CLIENTS],
            ]
            .concat();
            let ended = call(user, &config, &words).end();
            ended.code(0);
            for (client, answer) in ANSWERS {
                let start = format!("{client}: ");
                let line =
                    ended.text().lines().find(|line| line.starts_with(&start)).unwrap_or_default().to_owned();
                if line == format!("{start}missing") {
                    println!("skipped: no {client}");
                    continue;
                }
                assert!(line.contains(answer), "{client}: {options:?} {ended:#?}");
            }
            // Its client has HTTP/2 where the connection has TLS.
            if !ended.text().contains("http2: missing") {
                let version =
                    if options.contains(&"--intercept") { "http2: HTTP/2 " } else { "http2: HTTP/1.1 " };
                assert!(ended.text().contains(version), "{options:?} {ended:#?}");
            }
            if ended.text().contains("cargo: missing") {
                println!("skipped: no cargo");
            } else {
                assert!(
                    ended.text().contains("locked: name = \"acme\" version = \"1.0.0\""),
                    "{options:?} {ended:#?}"
                );
            }
            assert!(!ended.text().contains(VALUE) && !ended.stderr.contains(VALUE), "{ended:#?}");
        }
    });
}
