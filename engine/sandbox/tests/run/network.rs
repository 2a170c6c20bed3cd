//! The sockets of a proxy: in the sandbox's own network, served from outside, and closed when they are not
//! served.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use hotcell_sandbox::network::{Proxy, Serving, SharedProxy, Sockets};
use hotcell_sandbox::outcome::Denial;
use hotcell_sandbox::{Cause, Confinement, Layer, Network, Policy};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

use crate::{run, sh, stdout, told};

/// Greets every connection, and echoes each datagram.
#[derive(Debug, Default)]
struct Greeter(AtomicU32);

struct Greeting(JoinHandle<()>);

impl Proxy for Greeter {
    fn serve(&self, sockets: Sockets) -> io::Result<Box<dyn Serving>> {
        let number = self.0.fetch_add(1, Ordering::AcqRel);
        let (proxy, names) = (TcpListener::from_std(sockets.proxy)?, UdpSocket::from_std(sockets.names)?);
        Ok(Box::new(Greeting(tokio::spawn(async move {
            let mut bytes = [0; 64];
            loop {
                tokio::select! {
                    Ok((mut client, _)) = proxy.accept() => {
                        let _ = client.write_all(format!("run {number}").as_bytes()).await;
                    }
                    Ok((length, from)) = names.recv_from(&mut bytes) => {
                        let _ = names.send_to(&bytes[..length], from).await;
                    }
                }
            }
        }))))
    }
}

impl Serving for Greeting {
    fn finish(self: Box<Self>) -> Vec<Denial> {
        self.0.abort();
        let [layer, operation, target, errno] =
            ["network", "http", "a.test:80", "denied by the proxy"].map(str::to_owned);
        vec![Denial { layer, operation, target, errno, count: 2 }]
    }
}

const CLIENT: &str = "
import os, socket
proxy = os.environ['https_proxy'].removeprefix('http://').split(':')
try: print(socket.create_connection((proxy[0], int(proxy[1]))).recv(9).decode())
except OSError as e: print(e.errno)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
try:
    s.connect(('127.0.0.1', 53)); s.send(b'name'); print(s.recv(9).decode())
except OSError as e: print(e.errno)
try: socket.create_server(('127.0.0.1', 888))
except OSError as e: print(e.errno)
try: socket.create_connection(('198.51.100.7', 81))
except OSError as e: print(e.errno)
";

fn client() -> Policy {
    Policy::new("/usr/bin/python3").args(["-c", CLIENT])
}

#[tokio::test]
async fn proxy_serves_each_run_without_route() {
    let policy = client().proxy(SharedProxy::new(Greeter::default()));
    for number in 0..3 {
        let outcome = run(&policy).await;
        assert_eq!(stdout(&outcome), format!("run {number}\nname\n13\n101\n"), "{}", told(&outcome));
        let row = outcome.denials.last().expect("the proxy's row");
        assert_eq!((row.operation.as_str(), row.target.as_str(), row.count), ("http", "a.test:80", 2));
    }
}

#[tokio::test]
async fn sockets_without_proxy_are_closed() {
    let mut policy = client();
    policy.shape.network = Network::Proxy;
    let outcome = run(&policy).await;
    assert_eq!(stdout(&outcome), "111\n111\n13\n101\n", "{}", told(&outcome));
}

#[tokio::test]
async fn proxy_settings_need_proxied_sandbox() {
    // A socket for names is there without one too.
    let proxied = "grep -c nameserver /etc/resolv.conf; grep -c 'hosts: files dns' /etc/nsswitch.conf; echo $HTTP_PROXY";
    let policy = sh(proxied).proxy(SharedProxy::new(Greeter::default()));
    let (with, without) = (run(&policy).await, run(&sh(proxied)).await);
    assert_eq!(stdout(&with), "1\n1\nhttp://127.0.0.1:888\n", "{}", told(&with));
    assert_eq!(stdout(&without), "1\n1\n\n", "{}", told(&without));
    let own = run(&policy.clone().env("HTTP_PROXY", "own")).await;
    assert_eq!(stdout(&own), "1\n1\nown\n", "{}", told(&own));
}

#[tokio::test]
async fn proxy_without_network_namespace_is_refused() {
    let mut policy = client().proxy(SharedProxy::new(Greeter::default()));
    policy.shape.confinement = Confinement::LandlockOnly;
    let outcome = run(&policy).await;
    assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
    assert!(!outcome.layers.is_on(Layer::NetNs));
    // A job with a proxy, in a shape without sockets for it.
    policy.shape.confinement = Confinement::Namespaces;
    policy.shape.network = Network::Loopback;
    assert_eq!(run(&policy).await.cause, Cause::Refused);
}

/// Names are unknown at once, and the report has those that were asked for; this machine's own are in the made hosts file.
#[tokio::test]
async fn names_asked_without_network_are_reported() {
    let script = "import socket as s, time\n\
        for name in ('localhost', 'sandbox', 'pypi.test', 'deep.pypi.test', 'pypi.test'):\n    \
            since = time.time()\n    \
            try: s.getaddrinfo(name, 443); print(name, 'is there')\n    \
            except s.gaierror as e: print(name, e.errno == s.EAI_NONAME, time.time() - since < 2)\n";
    let policy = Policy::new("python3").args(["-c", script]);
    let outcome = run(&policy).await;
    let want = "localhost is there\nsandbox is there\npypi.test True True\ndeep.pypi.test True True\npypi.test True True\n";
    assert_eq!(stdout(&outcome), want, "{}", told(&outcome));
    let rows: Vec<_> =
        outcome.denials.iter().map(|d| (d.layer.as_str(), d.operation.as_str(), d.target.as_str())).collect();
    assert_eq!(
        rows,
        [("network", "dns", "pypi.test"), ("network", "dns", "deep.pypi.test")],
        "{}",
        told(&outcome)
    );
    // A program that asks for nothing has nothing in the report.
    assert!(run(&sh("true")).await.denials.is_empty());
}

/// glibc leaves out address families for which a machine has loopback addresses only.
#[tokio::test]
async fn local_names_resolve_with_addrconfig_flag() {
    let script = "import socket as s\n\
        for host, family in (('127.0.0.1', s.AF_INET), ('::1', s.AF_INET6), ('localhost', s.AF_INET), ('localhost', 0)):\n    \
            print(host, s.getaddrinfo(host, 80, family, s.SOCK_STREAM, 0, s.AI_ADDRCONFIG)[0][4][1])\n\
        for family, host in ((s.AF_INET, '192.0.2.1'), (s.AF_INET, '169.254.169.254'), (s.AF_INET6, '2001:db8::1')):\n    \
            try: s.socket(family).connect((host, 80))\n    \
            except OSError as e: print(host, e.strerror)\n";
    let outcome = run(&Policy::new("python3").args(["-c", script])).await;
    let want = "127.0.0.1 80\n::1 80\nlocalhost 80\nlocalhost 80\n192.0.2.1 Network is unreachable\n\
        169.254.169.254 Network is unreachable\n2001:db8::1 Network is unreachable\n";
    assert_eq!(stdout(&outcome), want, "{}", told(&outcome));
}
