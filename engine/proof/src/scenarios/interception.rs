//! Requests within TLS that the proxy ends, to a host with a secret: those that name another host, bring a credential of their own, or look for the value in the
//! answer.
//!
//! The host believes what it is told, so that each attack gets through where the program reaches it directly. Beside each, an ordinary request is answered.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, RunAuthority, Scheme};
use hotcell_egress::{Egress, Secret};
use hotcell_sandbox::Outcome;
use hotcell_sandbox::network::SharedProxy;

use super::egress::{ADDRESS, Names, Way, python};
use super::{Place, Said, check, good, io_error, run};
use crate::decoys::SECRET;
use crate::run::THROUGH;

const HOST: &str = include_str!("../../programs/tls_host.py");
const PROGRAM: &str = include_str!("../../programs/within_tls.py");
/// Certificate and key of the host, and the root that signed it.
const TLS: [(&str, &str); 3] = [
    ("host.pem", include_str!("../../programs/tls/host.pem")),
    ("host.key", include_str!("../../programs/tls/host.key")),
    ("root.pem", include_str!("../../programs/tls/root.pem")),
];
/// A request that is answered with a page.
const ORDINARY: &str = r"GET / HTTP/1.1\r\nHost: HOST\r\n\r\n";

/// A host outside the sandbox; it ends with this.
struct Host {
    child: Child,
    port: String,
    root: PathBuf,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Host {
    fn start(place: &Place<'_>) -> Result<Self, String> {
        let folder = place.folder("tls")?;
        for (name, text) in TLS {
            std::fs::write(folder.join(name), text).map_err(io_error)?;
        }
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", HOST, ADDRESS]).args([folder.join("host.pem"), folder.join("host.key")]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(io_error)?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let host = Self { child, port: line.trim().to_owned(), root: folder.join("root.pem") };
        match read {
            Some(Ok(_)) if !host.port.is_empty() => Ok(host),
            other => Err(format!("the host with TLS did not start: {other:?}")),
        }
    }

    /// A proxy that has a secret for the host, and ends its TLS.
    fn proxy(&self) -> Result<SharedProxy, String> {
        let value = Secret::new(SECRET.as_bytes().to_vec()).map_err(|e| e.to_string())?;
        let binding = format!("api.test:{}", self.port).parse();
        let binding = binding.map_err(|e: hotcell_egress::route::RouteError| e.to_string())?;
        let rules = RequestRules::default();
        let route = Route::new("gh", binding, &Scheme::Bearer, &value, rules, Some(&self.root));
        let routes = [route.map_err(|e| e.to_string())?];
        let list = format!("api.test={ADDRESS}:{}", self.port).parse();
        let list = list.map_err(|e: hotcell_egress::RuleError| e.to_string())?;
        let authority = RunAuthority::new(&routes).map_err(|e| e.to_string())?;
        let egress = Egress::new(list).resolver(Names::default()).routes(routes).intercept(authority);
        Ok(SharedProxy::new(Way::new(egress)))
    }

    /// Sends requests from a sandbox; what was answered, and whether the secret was in it.
    fn asked(&self, requests: &[&str]) -> Result<(bool, Outcome), String> {
        let arguments = [&["proxy", ADDRESS, self.port.as_str()], requests].concat();
        let (outcome, _) = run(&python(PROGRAM, &arguments).proxy(self.proxy()?))?;
        match outcome.exit_code {
            Some(0) => Ok((false, outcome)),
            Some(THROUGH) => Ok((true, outcome)),
            code => Err(format!("{code:?}: {:?}", outcome.stderr)),
        }
    }

    /// Checks that a request gets through without sandbox and proxy.
    fn is_an_attack(&self, request: &str) -> Result<(), String> {
        let arguments = ["-c", PROGRAM, "direct", ADDRESS, self.port.as_str(), request];
        let bare = Command::new("/usr/bin/python3").args(arguments).stdout(Stdio::null()).status();
        let code = bare.map_err(io_error)?.code();
        check(code == Some(THROUGH), || format!("bare, {request} does not get through: {code:?}"))
    }

    /// Checks that these requests bring this many pages and no secret; and, if they are refused, that it is told.
    fn expect(&self, requests: &[&str], pages: usize) -> Result<(), String> {
        let (through, outcome) = self.asked(requests)?;
        let said = String::from_utf8_lossy(&outcome.stdout.to_bytes()).trim().to_owned();
        check(!through && said == format!("{pages} pages"), || {
            format!("{requests:?}: {through} {said}: {:?}", outcome.denials)
        })?;
        let is_told = pages == requests.len() || !outcome.denials.is_empty();
        check(is_told, || format!("{requests:?}: no denial is told"))
    }
}

/// Requests that name another host, of which none reaches the host; an ordinary one does.
fn refused(place: &Place<'_>, requests: &[&str], ordinary: &str) -> Result<(), String> {
    let host = Host::start(place)?;
    for request in requests {
        host.expect(&[request], 0)?;
    }
    host.expect(&[ordinary], 1)
}

pub(crate) fn another_host(place: &Place<'_>) -> Result<Said, String> {
    let requests = [
        r"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        r"GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n",
        r"GET / HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n",
        r"GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.test\r\n\r\n",
        r"GET / HTTP/1.1\r\nHost: evil.test\r\nHost: HOST\r\n\r\n",
    ];
    attacks(place, &requests)?;
    refused(place, &requests, ORDINARY)?;
    good(format!("{} requests whose Host is not that of CONNECT end before the host", requests.len()))
}

pub(crate) fn another_target(place: &Place<'_>) -> Result<Said, String> {
    let requests = [
        r"GET https://evil.test/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
        r"GET http://evil.test/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
        r"GET https://evil.test:PORT/ HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n",
        r"CONNECT evil.test:443 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    ];
    attacks(place, &requests)?;
    refused(place, &requests, ORDINARY)?;
    good(format!("{} requests whose target is another host end before the host", requests.len()))
}

pub(crate) fn another_authority(place: &Place<'_>) -> Result<Said, String> {
    // The host itself speaks HTTP/1.1, in which these are requests with another Host.
    attacks(place, &[r"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"])?;
    refused(place, &["h2:evil.test", "h2:evil.test:PORT", "h2:evil.test@HOST"], "h2:HOST")?;
    good("3 streams whose :authority is not the host of CONNECT end before the host")
}

pub(crate) fn own_credential(place: &Place<'_>) -> Result<Said, String> {
    let requests = [
        r"GET / HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer mine\r\n\r\n",
        r"GET / HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer mine\r\nAuthorization: Bearer mine\r\n\r\n",
        r"GET / HTTP/1.1\r\nHost: HOST\r\naUTHORIZATION:Bearer mine\r\n\r\n",
        r"GET / HTTP/1.1\r\nHost: HOST\r\nConnection: authorization\r\nAuthorization: Bearer mine\r\n\r\n",
    ];
    attacks(place, &requests)?;
    let host = Host::start(place)?;
    host.expect(&requests, requests.len())?;
    host.expect(&[ORDINARY], 1)?;
    good(format!("{} credentials of the program's own do not go beside the secret", requests.len()))
}

pub(crate) fn repeated_secret(place: &Place<'_>) -> Result<Said, String> {
    attacks(place, &[r"GET / HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer HOTCELL-SECRET\r\n\r\n"])?;
    let host = Host::start(place)?;
    // Fields of HTTP/2 come back in a code, in which the program does not look for it; bodies as they are.
    host.expect(&[ORDINARY, "h2:HOST"], 2)?;
    good(
        "the value that its host repeats in header and body does not come back in the body, by either version of HTTP, nor in HTTP/1.1's header",
    )
}

/// Checks that each of these gets through to the host directly.
fn attacks(place: &Place<'_>, requests: &[&str]) -> Result<(), String> {
    let host = Host::start(place)?;
    requests.iter().try_for_each(|request| host.is_an_attack(request))
}
