//! Groups of calls that a rule names by one word: `@request`, `@upload`, `@lookup`, `@line`, `@evaluate`, `@engine`.
//!
//! A rule about data that leaves the machine is about every way out. A list of functions in each rule has gaps that differ from rule to
//! rule; a group is decided once, by the library and the method.

use super::golang;
use super::network::{is_of, is_request_of_javascript, is_request_of_python};
use crate::language::Language;

/// Tests if a canonical name of a function belongs to a group.
pub(super) type Group = fn(&str) -> bool;

/// Groups by name, and the functions of each language that has them.
const GROUPS: &[(&str, &[(Language, Group)])] = &[
    // Requests to an address of the web.
    (
        "request",
        &[
            (Language::Python, is_request_of_python),
            (Language::JavaScript, is_request_of_javascript),
            (Language::Go, golang::is_request),
            (Language::Rust, is_request_of_rust),
            (Language::Java, is_request_of_java),
        ],
    ),
    // Those that have a body.
    (
        "upload",
        &[
            (Language::Python, is_upload_of_python),
            (Language::JavaScript, is_upload_of_javascript),
            (Language::Go, golang::is_upload),
        ],
    ),
    // Questions to a server of names.
    (
        "lookup",
        &[
            (Language::Python, is_lookup_of_python),
            (Language::JavaScript, is_lookup_of_javascript),
            (Language::Go, golang::is_lookup),
        ],
    ),
    // Starts of what a command line says.
    ("line", &[(Language::Go, golang::is_line)]),
    // Interpreters that execute a text.
    ("evaluate", &[(Language::Go, golang::is_evaluation), (Language::Java, is_evaluation_of_java)]),
    // Queries of engines whose queries read files and the network.
    ("engine", &[(Language::Python, is_engine_of_python), (Language::JavaScript, is_engine_of_javascript)]),
];

/// The group of this name for a language.
///
/// # Errors
/// Says which groups there are, where there is no such group or the language does not have it.
pub(super) fn group(name: &str, language: Language) -> Result<Group, String> {
    let Some((_, languages)) = GROUPS.iter().find(|(known, _)| *known == name) else {
        let all: Vec<String> = GROUPS.iter().map(|(known, _)| format!("@{known}")).collect();
        return Err(format!("there is no group of calls '@{name}': use {}", all.join(", ")));
    };
    let own = language.rules();
    languages.iter().find(|(known, _)| *known == own).map(|(_, group)| *group).ok_or_else(|| {
        let all: Vec<&str> = languages.iter().map(|(known, _)| known.name()).collect();
        format!("@{name} is a group of calls of {}: list the calls", all.join(", "))
    })
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

/// Libraries of Rust whose functions and clients request an address.
const RUST_LIBRARIES: &[&str] = &["attohttpc", "isahc", "minreq", "reqwest", "surf", "ureq"];

fn is_request_of_rust(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    RUST_LIBRARIES.iter().any(|library| is_of(owner, library))
        && matches!(method, "get" | "post" | "put" | "patch" | "delete" | "head" | "request")
}

fn is_request_of_java(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    let class = owner.rsplit('.').next().unwrap_or(owner);
    match method {
        // `new URL(x).openStream()`, `url.openConnection()`.
        "openStream" | "openConnection" => true,
        "newBuilder" => class == "HttpRequest",
        "connect" => class == "Jsoup",
        "getForObject" | "getForEntity" | "postForObject" | "postForEntity" => true,
        _ => false,
    }
}

fn is_evaluation_of_java(name: &str) -> bool {
    let class = name.strip_prefix("new ").map(|class| class.rsplit('.').next().unwrap_or(class));
    matches!(class, Some("ScriptEngineManager" | "GroovyShell" | "GroovyScriptEngine"))
}

/// Modules of Python with such engines, and of JavaScript.
const ENGINES: &[&str] = &["chdb", "datafusion", "duckdb", "pyspark.sql.SparkSession"];
const ENGINES_OF_JAVASCRIPT: &[&str] =
    &["@duckdb/node-api", "@duckdb/duckdb-wasm", "chdb", "duckdb", "duckdb-async"];
/// Beginning of the name of a connection that is closed to files and the network.
pub(crate) const CLOSED_ENGINE: &str = "closed ";

/// True for a setting that closes an engine to files and the network.
pub(crate) fn closes_engine(text: &str) -> bool {
    let dense: String = text.chars().filter(|c| !c.is_whitespace() && *c != '\'').collect();
    let dense = dense.to_ascii_lowercase();
    ["enable_external_access=false", "enable_external_access=off", "enable_external_access=0"]
        .iter()
        .any(|setting| dense.contains(setting))
}

/// True for functions that connect to such an engine.
pub(crate) fn opens_engine(name: &str) -> bool {
    ENGINES.iter().chain(ENGINES_OF_JAVASCRIPT).any(|engine| is_of(name, engine))
}

fn is_engine_of_python(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    matches!(method, "sql" | "query" | "execute" | "query_df" | "from_query" | "executemany")
        && ENGINES.iter().any(|engine| is_of(owner, engine))
}

fn is_engine_of_javascript(name: &str) -> bool {
    let name = name.strip_prefix("new ").unwrap_or(name);
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    let asks = matches!(
        method,
        "all"
            | "each"
            | "exec"
            | "prepare"
            | "query"
            | "run"
            | "runAndRead"
            | "runAndReadAll"
            | "runAndReadUntil"
            | "stream"
            | "streamAndReadAll"
    );
    let owner = owner.strip_prefix("new ").unwrap_or(owner);
    asks && ENGINES_OF_JAVASCRIPT.iter().any(|engine| is_of(owner, engine))
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
    fn groups_of_other_languages() {
        for (language, name, call, is) in [
            (Language::Go, "request", "net/http.Client.Get", true),
            (Language::Go, "upload", "net/http.Client.Get", false),
            (Language::Go, "upload", "net/http.NewRequest", true),
            (Language::Go, "lookup", "net.LookupTXT", true),
            (Language::Go, "line", "github.com/bitfield/script.Exec", true),
            (Language::Go, "line", "os/exec.Command", false),
            (Language::Go, "evaluate", "github.com/robertkrimen/otto.New().Run", true),
            (Language::Rust, "request", "reqwest.blocking.Client.new().post", true),
            (Language::Rust, "request", "ureq.get", true),
            (Language::Rust, "request", "request.get", false),
            (Language::Java, "request", "java.net.http.HttpRequest.newBuilder", true),
            (Language::Java, "request", "Builder.newBuilder", false),
            (Language::Java, "evaluate", "new javax.script.ScriptEngineManager", true),
            (Language::Java, "evaluate", "new ScriptManager", false),
        ] {
            assert_eq!(group(name, language).unwrap()(call), is, "{language:?} {call}");
        }
    }

    #[test]
    fn engines_are_of_libraries_and_methods() {
        let python = group("engine", Language::Python).unwrap();
        for (name, is) in [
            ("duckdb.sql", true),
            ("duckdb.connect().cursor().execute", true),
            ("closed duckdb.connect().execute", false),
            ("duckdb.connect", false),
            ("sqlite3.connect().execute", false),
        ] {
            assert_eq!(python(name), is, "{name}");
        }
        let javascript = group("engine", Language::JavaScript).unwrap();
        for (name, is) in [
            ("new duckdb.Database().all", true),
            ("@duckdb/node-api.DuckDBInstance.create().connect().runAndReadAll", true),
            ("duckdb.Database", false),
            ("pg.Pool().query", false),
        ] {
            assert_eq!(javascript(name), is, "{name}");
        }
        for (text, is) in [
            ("SET enable_external_access = false", true),
            ("set enable_external_access='false';", true),
            ("SET enable_external_access = true", false),
            ("SELECT 1", false),
        ] {
            assert_eq!(closes_engine(text), is, "{text}");
        }
    }

    #[test]
    fn unknown_groups_are_refused_with_those_there_are() {
        assert!(group("requests", Language::Python).unwrap_err().contains("use @request, @upload, @lookup"));
        assert!(
            group("upload", Language::Sql).unwrap_err().contains("of python, javascript, go: list the calls")
        );
    }
}
