//! Groups of calls that a rule names by one word: `@request`, `@upload`, `@lookup`.
//!
//! A rule about data that leaves the machine is about every way out. A list of functions in each rule has gaps that differ from rule to
//! rule; a group is decided once, by the library and the method.

use super::network::{is_of, is_request_of_javascript, is_request_of_python};
use crate::language::Language;

/// Tests if a canonical name of a function belongs to a group.
pub(super) type Group = fn(&str) -> bool;

/// Groups by name, for Python and for JavaScript.
const GROUPS: &[(&str, Group, Group)] = &[
    // Requests to an address of the web.
    ("request", is_request_of_python, is_request_of_javascript),
    // Those that have a body.
    ("upload", is_upload_of_python, is_upload_of_javascript),
    // Questions to a server of names.
    ("lookup", is_lookup_of_python, is_lookup_of_javascript),
];

/// The group of this name for a language.
///
/// # Errors
/// Says which groups there are, where there is no such group or the language has no groups.
pub(super) fn group(name: &str, language: Language) -> Result<Group, String> {
    let found = GROUPS.iter().find(|(known, ..)| *known == name);
    match (found, language.rules()) {
        (Some((_, python, _)), Language::Python) => Ok(*python),
        (Some((_, _, javascript)), Language::JavaScript) => Ok(*javascript),
        (Some(_), _) => Err(format!("@{name} is a group of calls of Python and JavaScript: list the calls")),
        (None, _) => {
            let all: Vec<String> = GROUPS.iter().map(|(known, ..)| format!("@{known}")).collect();
            Err(format!("there is no group of calls '@{name}': use {}", all.join(", ")))
        }
    }
}

fn is_upload_of_python(name: &str) -> bool {
    let method = name.rsplit('.').next().unwrap_or(name);
    matches!(method, "post" | "put" | "patch" | "request" | "Request") && is_request_of_python(name)
}

fn is_upload_of_javascript(name: &str) -> bool {
    let method = name.rsplit_once('.').map(|(_, method)| method);
    name == "navigator.sendBeacon"
        || !matches!(method, Some("get" | "head" | "options" | "delete")) && is_request_of_javascript(name)
}

fn is_lookup_of_python(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    match method {
        "gethostbyname" | "gethostbyname_ex" | "gethostbyaddr" => owner == "socket",
        // Also of a loop of asyncio.
        "getaddrinfo" => ["anyio", "asyncio", "socket"].iter().any(|module| is_of(owner, module)),
        "resolve" | "query" | "resolve_name" | "canonical_name" | "gethostbyname_async" => {
            ["dns.resolver", "dns.asyncresolver", "aiodns.DNSResolver"]
                .iter()
                .any(|module| is_of(owner, module))
        }
        "udp" | "tcp" | "tls" | "https" | "udp_with_fallback" => {
            matches!(owner, "dns.query" | "dns.asyncquery")
        }
        _ => false,
    }
}

fn is_lookup_of_javascript(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    // `dns.resolve4`, `new dns.Resolver().resolveTxt`, `Deno.resolveDns`.
    let of_node = is_of(owner.strip_prefix("new ").unwrap_or(owner), "dns")
        && (method.starts_with("lookup") || method.starts_with("resolve"));
    of_node || name == "Deno.resolveDns"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_libraries_and_methods() {
        let names = |language, calls: &[&str]| -> Vec<String> {
            let of = |name| group(name, language).unwrap();
            let (request, upload, lookup) = (of("request"), of("upload"), of("lookup"));
            let letters = |call: &&str| {
                [(request, 'r'), (upload, 'u'), (lookup, 'l')]
                    .iter()
                    .filter(|(is, _)| is(call))
                    .map(|(_, c)| *c)
                    .collect()
            };
            calls.iter().map(letters).collect()
        };
        for library in
            ["requests", "requests.Session()", "httpx", "httpx.AsyncClient()", "aiohttp.ClientSession()"]
        {
            let calls =
                ["get", "patch", "head", "utils.quote", "get().json().get"].map(|m| format!("{library}.{m}"));
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            assert_eq!(names(Language::Python, &calls), ["r", "ru", "r", "", ""], "{library}");
        }
        let calls = [
            "urllib.request.urlopen",
            "urllib.request.Request",
            "http.client.HTTPSConnection().request",
            "os.environ.get",
            "socket.gethostbyname",
            "dns.resolver.resolve",
            "dns.resolver.Resolver().query",
            "asyncio.get_event_loop().getaddrinfo",
            "socket.gethostname",
            "page.goto",
            "requests.Session.request",
        ];
        assert_eq!(names(Language::Python, &calls), ["r", "ru", "ru", "", "l", "l", "l", "l", "", "", ""]);
        let calls = [
            "fetch",
            "axios.create().put",
            "https.get",
            "new undici.Client().request",
            "undici.request",
            "dns.resolve4",
            "dns.Resolver().resolveTxt",
            "new dns.Resolver().resolve",
            "Deno.resolveDns",
            "dnsmasq.resolve",
            "dns.setServers",
            "map.get",
        ];
        assert_eq!(
            names(Language::JavaScript, &calls),
            ["ru", "ru", "r", "ru", "ru", "l", "l", "l", "l", "", "", ""]
        );
    }

    #[test]
    fn unknown_groups_are_refused_with_those_there_are() {
        assert!(group("requests", Language::Python).unwrap_err().contains("use @request, @upload, @lookup"));
        assert!(group("request", Language::Go).unwrap_err().contains("list the calls"));
    }
}
