//! `--intercept`: clients use a secret by the host's own URL, and neither its value nor a key of the run's authority is inside.

use std::path::PathBuf;

use hotcell_end_to_end::{everyone, find};

use crate::secrets::{VALUE, call, holding, host};

/// Asks for the same path by each client that is installed; a line each. `AT` is the host with its port.
const CLIENTS: &str = r#"
try() { name=$1; shift; command -v "$1" >/dev/null || { echo "$name missing"; return; }; echo "$name $("$@" 2>&1 | tr -d '\n')"; }
try curl curl -sS https://AT/v1/x
try wget wget -qO- https://AT/v1/x
try python /usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("https://AT/v1/x").read().decode())'
try node node -e 'fetch("https://AT/v1/x").then(r => r.text()).then(console.log, console.error)'
try git git ls-remote https://AT/v1/repository.git
echo "length $(head -c 300000 /dev/zero | tr '\0' a | curl -sS https://AT/v1/x --data-binary @- | wc -c)"
"#;

#[test]
fn clients_use_a_secret_by_the_url_of_its_host() {
    let Some(host) = host() else { return };
    if find("curl").is_none() {
        println!("skipped: no curl");
        return;
    }
    everyone(|user| {
        let config = host.configuration(user, "");
        let script = CLIENTS.replace("AT", &format!("api.test:{}", host.port));
        // The program's own variable takes precedence: this one would fail.
        // HTTP/2 where curl has it, whose :authority is the foreign name then.
        let two = "curl -V | grep -q HTTP2 && want=2 || want=1.1; \
                   curl -sS -o /dev/null -w \"version $want %{http_version}\\n\" https://AT/v1/x; \
                   curl -sS -o /dev/null -w 'foreign %{http_code}\\n' -H 'Host: evil.test' https://AT/v1/x; "
            .replace("AT", &format!("api.test:{}", host.port));
        let own = "echo $PIP_CERT; ls -l /etc/ssl/certs/5550a242.0 | grep -o 'hotcell-run.pem$'; touch /etc/ssl/certs/x && echo writable; true";
        let words =
            ["run", "--guard", "off", "--secret", "gh", "--intercept", "--env", "PIP_CERT=/mine", "--"];
        let ended =
            call(user, &config, &[&words[..], &["/bin/sh", "-c", &format!("{script}{two}{own}")]].concat())
                .end();
        for client in ["curl", "wget", "python", "node", "git"] {
            let line =
                ended.text().lines().find(|line| line.starts_with(client)).unwrap_or_default().to_owned();
            let good = line.contains(r#""good": [true]"#)
                || line.contains(&format!("{}\trefs/heads/main", "1".repeat(40)));
            assert!(good || line == format!("{client} missing"), "{client}: {ended:#?}");
        }
        // The host sends back what it was sent.
        let length = ended.text().split("length ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        assert!(length.is_some_and(|bytes: u32| bytes > 300_000), "{ended:#?}");
        let is_two = ["version 2 2\n", "version 1.1 1.1\n"].iter().any(|line| ended.text().contains(line));
        assert!(is_two && ended.text().contains("foreign 421\n"), "{ended:#?}");
        for line in ["/mine\n", "hotcell-run.pem\n"] {
            assert!(ended.text().contains(line), "{line}: {ended:#?}");
        }
        assert!(!ended.text().contains("writable"), "{ended:#?}");
    });
}

/// Shows the certificates and its own surroundings, asks with a foreign name in each place, and keeps its memory.
const ENEMY: &str = r#"
import glob, os, re, socket, ssl
host, port = os.environ['AT'].split(':')
at = host + ':' + port
def tunnel(place):
    s = socket.create_connection(('127.0.0.1', 888), 20)
    s.sendall(f'CONNECT {place} HTTP/1.1\r\n\r\n'.encode())
    return s, s.recv(4096)
def raw(text, name=host):
    try:
        s, _ = tunnel(at)
        s = ssl.create_default_context().wrap_socket(s, server_hostname=name)
        s.sendall(text.replace('AT', at).encode())
        out = b''
        while piece := s.recv(65536): out += piece
        print(out)
    except OSError as e: print('refused:', e)
ok = 'Host: AT\r\n'
raw('GET /v1/echo HTTP/1.1\r\nConnection: close\r\n' + ok + 'Authorization: Bearer mine\r\n\r\n')
raw('GET /v1/x HTTP/1.1\r\nHost: evil.test\r\n\r\n')
raw('GET /v1/x HTTP/1.1\r\n' + ok + 'Host: evil.test\r\n\r\n')
raw('GET https://evil.test/v1/x HTTP/1.1\r\n' + ok + '\r\n')
raw('GET /v2/x HTTP/1.1\r\n' + ok + '\r\n')
raw('POST /v1/x HTTP/1.1\r\n' + ok + 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
raw('GET /v1/x HTTP/1.1\r\n' + ok + '\r\n', name='evil.test')
s, _ = tunnel(at); s.sendall(f'GET /v1/x HTTP/1.1\r\nHost: {at}\r\n\r\n'.encode()); print(s.recv(4096))
print(tunnel('evil.test:443')[1])
print(dict(os.environ))
for folder, _, files in os.walk('/etc/ssl'):
    for name in files:
        try: text = open(os.path.join(folder, name), 'rb').read()
        except OSError: continue
        if b'PRIVATE KEY' in text: print('key in', name)
        if name == 'hotcell-run.pem': print(text.decode())
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + ['/proc/self/mountinfo']:
    try: print(path, open(path, 'rb').read())
    except OSError as e: print(path, e.strerror)
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as mem, open('/out/memory', 'wb') as out:
    for line in maps:
        start, end, access = re.match(r'(\w+)-(\w+) (\S+)', line).groups()
        if access.startswith('rw'):
            try: mem.seek(int(start, 16)); out.write(mem.read(int(end, 16) - int(start, 16)))
            except (OSError, OverflowError): pass
"#;

/// Beginning of a P-256 key as PKCS #8, behind its first length (RFC 5958, 5915).
const KEY: [u8; 28] = [
    0x02, 1, 0, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3,
    1, 7, 4, 0x6d, 0x30, 0x6b,
];

#[test]
fn neither_the_value_nor_the_authoritys_key_is_inside() {
    let Some(host) = host() else { return };
    everyone(|user| {
        let config = host.configuration(user, "intercept = true\n");
        let out = user.make_folder("work/out");
        let show = format!("{}:/out", out.display());
        let at = format!("AT=api.test:{}", host.port);
        let options =
            ["run", "--json", "-v", "--secret", "gh", "--guard", "off", "--rw", &show, "--env", &at];
        let words = [&options[..], &["--", "/usr/bin/python3", "-c", ENEMY]].concat();
        let ended = call(user, &config, &words).end();
        let outcome = ended.code(0).json();
        let said = outcome["stdout"]["text"].as_str().unwrap_or_default();
        assert!(said.contains(r#""good": [true]"#) && said.contains(&"*".repeat(VALUE.len())), "{said}");
        assert!(said.contains("BEGIN CERTIFICATE") && !said.contains("\nkey in "), "{said}");
        let statuses =
            ["421 ", "403 ", "400 "].map(|status| said.matches(&format!("HTTP/1.1 {status}")).count());
        assert_eq!((statuses, said.matches("refused: ").count()), ([2, 2, 3], 1), "{said}");
        let denials = outcome["denials"].to_string();
        for word in
            ["its TLS names evil.test", "evil.test:443", "its Host header is missing", "only sent over TLS"]
        {
            assert!(denials.contains(word), "{word}: {denials}");
        }
        let counts = &outcome["requests"]["secrets"]["gh"];
        assert_eq!(
            (counts["requests"].as_u64(), counts["failed"].as_u64()),
            (Some(1), Some(0)),
            "{outcome:#}"
        );
        let memory = std::fs::read(out.join("memory")).unwrap_or_default();
        assert!(
            memory.len() > 1 << 20 && !memory.windows(KEY.len()).any(|bytes| bytes == KEY),
            "{}",
            memory.len()
        );
        assert!(!ended.text().contains(VALUE) && !ended.stderr.contains(VALUE), "{ended:#?}");
        assert_eq!(holding(user.path("work").parent().expect("the user's folder")), Vec::<PathBuf>::new());
    });
}

#[test]
fn wrong_interception_ends_with_one_line() {
    everyone(|user| {
        let two = "[secrets.a]\nsource = \"env:HIDDEN_TOKEN\"\nhost = \"api.test/v1\"\nintercept = true\n";
        let config =
            user.write("work/config.toml", format!("{two}{}", two.replace("secrets.a", "secrets.b")));
        let shown = format!("{}:/etc/ssl/certs", user.make_folder("work/shown").display());
        for (words, word) in [
            (&["--intercept"][..], "this run has no secret"),
            (&["--secret", "a", "--secret", "b"], "a and b are secrets for the same host and prefix"),
            (
                &["--secret", "a", "--ro", &shown],
                "--ro /etc/ssl/certs: /etc/ssl/certs inside has the certificate",
            ),
        ] {
            let words = [&["run"], words, &["--", "/bin/true"]].concat();
            call(user, &config, &words).end().code(125).says_one_line(word);
        }
    });
}
