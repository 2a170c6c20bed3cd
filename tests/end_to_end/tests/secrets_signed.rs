//! Requests to AWS that are signed outside of the sandbox, and tokens of a GitHub App, with hosts of the test's own that check the
//! signatures by code of their own.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use hotcell_end_to_end::{Call, User, everyone, find};

use crate::network::server;

const PKI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/egress/tests/pki");
const ID: &str = "ASIAHOTCELLEXAMPLE";
const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "IQoJb3JpZ2luX2VjEXAMPLE//8=";
/// Public number of the app's key.
const MODULUS: &str = "B4244D8EB718954C4B59730071355B377545B6AFC75B8DE946EA12B44E9B7C72DBCD2B22FBD1EBC02122C049F1CA45A7468174B02FE1367114DEA36BBE26C1277180748298CB2ED4CDE76A911DD15335D69F64B834DF15DCC943211A621C67A89D1ABDC4DD05968602730F9904C479555550391B8EE42659C332C5B87FCAC51B620674DA9BF12FD73770585EB76DE6B4EDDA0F776DF45B580969D6817264B8F97FB05CD5D6585F840129D6B7D8E637B9C56AF9B11CDCB71314043E5D3298140DBDAC1D0F55A9EDDA10F57660B8FEC39120A8F90308FE2012E2DE8EBC166181E0EB5926E9400BD4EE2A4C490C849690B9F2CD6EFFDBA9C7557880A92087396391";

/// Checks each request: a statement for a token, a token, or a signature. Answers with a line of JSON.
const HOST: &str = r#"
import base64, datetime, hashlib, hmac, http.server, json, ssl, sys, urllib.parse
at, pki, ident, key, token, modulus = sys.argv[1:7]
issued = []
def mac(key, text): return hmac.new(key, text.encode(), hashlib.sha256).digest()
def quoted(text, safe='-_.~'): return urllib.parse.quote(text, safe=safe)
def signed(handler, body):
    # The signature that AWS would compute for what arrived.
    said = handler.headers['Authorization'] or ''
    if not said.startswith('AWS4-HMAC-SHA256 Credential=' + ident + '/'): return 'no signature of ours: ' + said
    parts = dict(part.strip().split('=', 1) for part in said[len('AWS4-HMAC-SHA256 '):].split(','))
    scope = parts['Credential'].split('/')[1:]
    names = parts['SignedHeaders'].split(';')
    path, _, query = handler.path.partition('?')
    pairs = sorted((quoted(k), quoted(v)) for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
    path = quoted(urllib.parse.unquote(path), '/-_.~') if scope[2] == 's3' else quoted(path, '/-_.~')
    digest = handler.headers.get('x-amz-content-sha256') or hashlib.sha256(body).hexdigest()
    if digest not in ('UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER') and digest != hashlib.sha256(body).hexdigest(): return 'another body'
    lines = [n + ':' + ' '.join(','.join(handler.headers.get_all(n)).split()) + '\n' for n in names]
    text = '\n'.join([handler.command, path, '&'.join(k + '=' + v for k, v in pairs), ''.join(lines), ';'.join(names), digest])
    date = handler.headers['x-amz-date']
    text = '\n'.join(['AWS4-HMAC-SHA256', date, '/'.join(scope), hashlib.sha256(text.encode()).hexdigest()])
    derived = ('AWS4' + key).encode()
    for part in scope: derived = mac(derived, part)
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    if abs((now - datetime.datetime.strptime(date, '%Y%m%dT%H%M%SZ')).total_seconds()) > 300: return 'another time'
    if handler.headers.get_all('x-amz-security-token') != [token]: return 'another token'
    return 'good for ' + '/'.join(scope[1:3]) if mac(derived, text).hex() == parts['Signature'] else 'another signature'
def stated(text):
    # RS256 by RFC 8017, 8.2.2.
    head, claims, signature = text.split('.')
    raw = lambda part: base64.urlsafe_b64decode(part + '=' * (-len(part) % 4))
    number = pow(int.from_bytes(raw(signature), 'big'), 65537, int(modulus, 16))
    prefix = bytes.fromhex('3031300d060960864801650304020105000420')
    want = prefix + hashlib.sha256((head + '.' + claims).encode()).digest()
    padded = b'\0\1' + b'\xff' * (256 - 3 - len(want)) + b'\0' + want
    return number.to_bytes(256, 'big') == padded and json.loads(raw(claims))['iss'] == '123456'
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        said = self.headers['Authorization'] or ''
        status, told = 200, {}
        if self.path == '/app/installations/78/access_tokens':
            status = 201 if stated(said[len('Bearer '):]) else 401
            # The first one is about to expire, which is seen at the first request of the program.
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=10 if not issued else 3600)
            issued.append('ghs_number%d-0123456789' % len(issued))
            told = dict(token=issued[-1], expires_at=end.strftime('%Y-%m-%dT%H:%M:%SZ'), permissions={'contents': 'read'})
        elif self.path == '/installation/token' and self.command == 'DELETE':
            print('ended', said, flush=True)
            return self.send_response(204) or self.send_header('Content-Length', '0') or self.end_headers()
        elif self.path.startswith('/repos'):
            told = dict(number=[issued.index(t) for t in issued if said == 'Bearer ' + t], wanted=len(issued), echo=said)
        else: told = dict(signed=signed(self, body), length=len(body))
        text = (json.dumps(told) + '\n').encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_PUT = do_DELETE = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer((at, 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(pki + '/host.pem', pki + '/host.key')
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Host {
    child: Child,
    at: String,
    port: String,
    /// A line for each token that is ended.
    said: BufReader<ChildStdout>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn host() -> Option<Host> {
    let at = server()?.at.to_string();
    let started = Command::new("/usr/bin/python3")
        .args(["-I", "-c", HOST, &at, PKI, ID, KEY, TOKEN, MODULUS])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = started.expect("python starts");
    let (mut port, mut said) = (String::new(), BufReader::new(child.stdout.take().expect("a pipe")));
    said.read_line(&mut port).expect("a port");
    Some(Host { child, at, port: port.trim().to_owned(), said })
}

impl Host {
    fn configuration(&self, user: &User, source: &str, more: &str) -> PathBuf {
        user.write("work/root.pem", std::fs::read(Path::new(PKI).join("root.pem")).expect("a root"));
        let text = format!(
            "network = [\"api.test={}:{}\"]\n[secrets.it]\nsource = \"{source}\"\nhost = \"api.test:{}\"\nca = \"root.pem\"\n{more}",
            self.at, self.port, self.port
        );
        user.write("work/config.toml", text)
    }
}

fn call(user: &User, config: &Path, words: &[&str]) -> Call {
    let (config, state) = (config.to_str().unwrap(), user.path("work/state"));
    user.hotcell(
        [&["run", "--config", config, "--state", state.to_str().unwrap(), "--guard", "off"], words].concat(),
    )
}

#[test]
fn requests_are_signed_with_keys_that_the_program_does_not_hold() {
    let Some(host) = host() else { return };
    let Some(_) = find("curl") else {
        println!("skipped: no curl");
        return;
    };
    everyone(|user| {
        // As `aws configure export-credentials` answers.
        let answer = format!(
            r#"{{"Version": 1, "AccessKeyId": "{ID}", "SecretAccessKey": "{KEY}", "SessionToken": "{TOKEN}", "Expiration": "2100-01-01T00:00:00Z"}}"#
        );
        let source = user.write("work/keys", format!("#!/bin/sh\necho '{answer}'\n"));
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).expect("a program");
        let source = format!("exec:{}", source.display());
        for (service, good, whole) in
            [("s3", "good for eu-west-1/s3", false), ("sqs", "good for eu-west-1/sqs", true)]
        {
            let more = format!(
                "kind = \"aws-sigv4\"\nregion = \"eu-west-1\"\nservice = \"{service}\"\nintercept = true\n"
            );
            let config = host.configuration(user, &source, &more);
            // Without a signature, with one by other keys, with a body, in parts, and by the host's own URL.
            let script = format!(
                "u=http://127.0.0.1:888/it; c='curl -sS --max-time 20'; \
                 $c \"$u/b/a%20b/~c?list-type=2&prefix=x+y%2Fz&delete\"; \
                 $c --aws-sigv4 aws:amz:us-east-1:ec2 -u DUMMY:DUMMY -H 'x-amz-meta-a:  b   c' \"$u/b/k?acl\"; \
                 $c -X POST --data-binary 0123456789 -H 'x-amz-date: 19700101T000000Z' \"$u/q\"; \
                 head -c 300000 /dev/zero | $c -T - -H 'Expect: 100-continue' \"$u/b/k\"; \
                 $c --aws-sigv4 aws:amz:us-east-1:s3 -u DUMMY:DUMMY https://api.test:{}/b/k; env",
                host.port
            );
            let ended =
                call(user, &config, &["--secret", "it", "--secret-env", "--", "/bin/sh", "-c", &script])
                    .end();
            let said = ended.code(0).text();
            let count = said.matches(good).count();
            // A body in parts is not signed for S3, and read whole for others. The stand-in reads none in parts.
            assert_eq!(count, 5, "{service} {said}");
            assert_eq!(said.contains(r#""length": 300000"#), whole, "{said}");
            assert!(said.contains(r#""length": 10"#) && said.contains("AWS_REGION=eu-west-1"), "{said}");
            for value in [KEY, TOKEN] {
                assert!(!said.contains(value) && !ended.stderr.contains(value), "{ended:#?}");
            }
        }
        for (value, word) in [
            ("just-a-token-0123456789", "ACCESS_KEY_ID:SECRET_ACCESS_KEY"),
            ("AKIDEXAMPLE:0123456", "shorter than 8 bytes"),
        ] {
            let more = "kind = \"aws-sigv4\"\nregion = \"eu-west-1\"\nservice = \"s3\"\n";
            let config = host.configuration(user, "env:HIDDEN_KEYS", more);
            let ended =
                call(user, &config, &["--secret", "it", "--", "/bin/true"]).env("HIDDEN_KEYS", value).end();
            ended.code(125).says_one_line(word);
            assert!(!ended.stderr.contains("0123456"), "{ended:#?}");
        }
    });
}

#[test]
fn tokens_of_an_app_are_made_anew_during_the_run() {
    everyone(|user| {
        let Some(mut host) = host() else { return };
        let key =
            user.write("work/app.pem", std::fs::read(Path::new(PKI).join("app.pkcs1.pem")).expect("a key"));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a file of the user's");
        let source = format!("file:{}", key.display());
        let app = |installation: u64| {
            format!(
                "github_app = {{ app = 123456, installation = {installation}, api = \"api.test:{}\" }}\n",
                host.port
            )
        };
        let script = "import urllib.request as u\nfor _ in '12': print(u.urlopen('http://127.0.0.1:888/it/repos', timeout=20).read().decode())\n";
        let config = host.configuration(user, &source, &app(78));
        let ended = call(user, &config, &["--secret", "it", "--", "/usr/bin/python3", "-c", script]).end();
        let said = ended.code(0).text();
        assert_eq!(said.matches(r#""number": [1], "wanted": 2"#).count(), 2, "{said}");
        assert!(!said.contains("0123456789") && said.contains("Bearer *****"), "{said}");
        let config = host.configuration(user, &source, &app(79));
        let ended = call(user, &config, &["--secret", "it", "--", "/bin/true"]).end();
        ended.code(125).says_one_line("no token");
        user.write("work/app.pem", "t0p-s3cret");
        let ended = call(user, &config, &["--secret", "it", "--", "/bin/true"]).end();
        ended.code(125).says_one_line("the app's private key is not a key in PEM");
        assert!(!ended.stderr.contains("s3cret"), "{ended:#?}");
        // The token that was valid at the end of the run was ended with it.
        host.child.kill().expect("the host ends");
        let mut said = String::new();
        host.said.read_to_string(&mut said).expect("lines");
        assert_eq!(said.matches("ended Bearer ghs_number1-0123456789\n").count(), 1, "{said}");
    });
}
