//! Clients and connections of the network, by the canonical names of libraries.

use crate::value::{Const, HOLE, Value};

/// Modules of Python whose objects send and receive over a network.
const MODULES: &[&str] = &[
    "aiohttp",
    "anyio.connect_tcp",
    "asyncio.open_connection",
    "curl_cffi.requests",
    "ftplib",
    "http.client",
    "httplib2",
    "httpx",
    "imaplib",
    "multiprocessing.connection.Client",
    "nntplib",
    "paho.mqtt.client.Client",
    "paramiko.SFTPClient",
    "paramiko.Transport",
    "poplib",
    "pycurl",
    "requests",
    "smtplib",
    "socket",
    "socketio",
    "ssl.SSLContext().wrap_socket",
    "ssl.create_default_context().wrap_socket",
    "ssl.wrap_socket",
    "telnetlib",
    "tornado.httpclient",
    "tornado.websocket",
    "trio.open_tcp_stream",
    "urllib.request",
    "urllib3",
    "websocket",
    "websockets",
    "xmlrpc.client",
    "zmq",
];
/// Modules below them whose objects serve, or only hold settings and values.
const OTHERS: &[&str] = &[
    "aiohttp.web",
    "requests.structures",
    "requests.utils",
    "socket.gethostname",
    "urllib3.util",
    "urllib.request.Request",
    "websockets.serve",
];
/// Modules of JavaScript, and the beginnings of names of their objects.
const CLIENTS: &[&str] = &[
    "dns",
    "http",
    "https",
    "http2",
    "net",
    "tls",
    "dgram",
    "ws",
    "axios",
    "got",
    "request",
    "socket.io-client",
    "ky",
    "superagent",
    "undici",
    "needle",
    "mqtt",
    "nodemailer",
    "amqplib",
    "basic-ftp",
    "ssh2-sftp-client",
    "ssh2",
    "imapflow",
    "ioredis",
    "kafkajs",
    "nats",
    "redis",
    "telegraf",
];

/// Clients of the web among the modules of Python, and among those of JavaScript.
const WEB_MODULES: &[&str] = &[
    "aiohttp.ClientSession",
    "curl_cffi.requests",
    "httpx",
    "requests",
    "tornado.httpclient",
    "urllib.request",
];
const WEB_CLIENTS: &[&str] =
    &["axios", "got", "http", "http2", "https", "ky", "needle", "request", "superagent", "undici"];

/// True for `name` itself and for what it contains or returns.
pub(super) fn is_of(name: &str, module: &str) -> bool {
    name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '(', '[']))
}

/// True for modules of Python that speak to the network, their clients and connections.
pub(super) fn is_connection(name: &str) -> bool {
    MODULES.iter().any(|module| is_of(name, module)) && !OTHERS.iter().any(|module| is_of(name, module))
}

/// True for calls of Python that return what the other end of a connection sends.
pub(crate) fn receives(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    let method = method.strip_prefix("async_").unwrap_or(method);
    let is_one = matches!(
        method,
        "get"
            | "post"
            | "put"
            | "patch"
            | "request"
            | "fetch"
            | "stream"
            | "urlopen"
            | "ws_connect"
            | "connect"
            | "receive"
            | "receive_bytes"
            | "receive_json"
            | "receive_str"
            | "receive_text"
            | "recv"
            | "recv_json"
            | "recv_multipart"
            | "recv_string"
            | "read"
            | "read_until"
            | "read_some"
            | "readexactly"
            | "readline"
            | "readuntil"
            | "retr"
            | "retrlines"
            | "open_connection"
    );
    // A connected socket is not what it receives.
    is_one && is_connection(owner) && !(method == "connect" && is_of(owner, "socket"))
        || is_connection(name) && method == "open_connection"
}

/// Libraries of Python and JavaScript that ask a language model.
const MODEL_CLIENTS: &[&str] = &[
    "openai",
    "anthropic",
    "google.generativeai",
    "google.genai",
    "ollama",
    "litellm",
    "mistralai",
    "groq",
    "cohere",
    "langchain_openai",
    "langchain_anthropic",
    "langchain_ollama",
    "@anthropic-ai/sdk",
    "@google/generative-ai",
    "@google/genai",
    "@mistralai/mistralai",
    "groq-sdk",
    "ai",
];

/// True for calls that return what a language model answers.
pub(crate) fn asks_model(name: &str) -> bool {
    let name = name.strip_prefix("new ").unwrap_or(name);
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    let asks = matches!(
        method,
        "create"
            | "generate_content"
            | "generateContent"
            | "generateText"
            | "chat"
            | "generate"
            | "completion"
            | "acompletion"
            | "complete"
            | "invoke"
            | "ainvoke"
    );
    asks && MODEL_CLIENTS.iter().any(|client| is_of(owner, client))
}

/// True for an address whose host is not known: `url`, `https://` and something unknown.
pub(crate) fn is_open_address(value: &Value) -> bool {
    match &value.known {
        Some(Const::Map(pairs)) => pairs.iter().any(|(key, value)| {
            matches!(key.as_whole_text(), Some("url" | "uri" | "host" | "hostname" | "baseURL" | "base_url"))
                && is_open_address(value)
        }),
        Some(_) => value.as_text().is_some_and(|text| {
            text.split_once("://").map_or(text, |(_, rest)| rest).trim_start().starts_with(HOLE)
        }),
        None => true,
    }
}

/// True for calls of JavaScript that request an address, or open it in a browser.
pub(crate) fn requests_address(name: &str) -> bool {
    let name = name.strip_prefix("new ").unwrap_or(name);
    if matches!(name, "fetch" | "node-fetch" | "axios" | "got" | "ky" | "needle" | "request" | "cross-fetch")
    {
        return true;
    }
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    let opens = method == "goto" && (owner.starts_with("puppeteer") || owner.starts_with("playwright"));
    opens || is_request(method) && WEB_CLIENTS.iter().any(|client| is_of(owner, client))
}

/// True for calls of JavaScript that request an address.
pub(crate) fn is_request_of_javascript(name: &str) -> bool {
    !name.ends_with(".goto") && requests_address(name)
}

/// Functions of Python that request an address and have another form than the clients of [`WEB_MODULES`].
const REQUESTS: &[&str] = &[
    "http.client.HTTPConnection().request",
    "http.client.HTTPSConnection().request",
    "httplib2.Http().request",
    "aiohttp.request",
    "urllib.urlopen",
    "urllib.urlretrieve",
    "urllib2.urlopen",
    "urllib2.Request",
    "urllib3.request",
    "urllib3.PoolManager().request",
    "urllib3.PoolManager().urlopen",
    "wget.download",
];

/// True for calls of Python that request an address, or make the request that another call sends.
pub(super) fn is_request_of_python(name: &str) -> bool {
    let Some((owner, method)) = name.rsplit_once('.') else { return false };
    let asks = is_request(method)
        || matches!(method, "urlopen" | "urlretrieve" | "ws_connect" | "Request" | "download");
    // `real = requests.Session.request` is a method without an object, of which a wrapper is made.
    if owner
        .rsplit('.')
        .next()
        .is_some_and(|last| last.starts_with(char::is_uppercase) && !last.ends_with(')'))
    {
        return false;
    }
    // `requests.get(u).json().get(k)` reads an answer.
    let is_answer =
        || owner.split('.').any(|part| part.split_once('(').is_some_and(|(called, _)| is_request(called)));
    asks && (REQUESTS.contains(&name)
        || WEB_MODULES.iter().any(|module| is_of(owner, module))
            && !OTHERS.iter().any(|module| is_of(owner, module))
            && !is_answer())
}

/// Position of the address in a call of Python that requests one, or opens it in a browser.
pub(crate) fn address_at(name: &str) -> Option<usize> {
    let (owner, method) = name.rsplit_once('.')?;
    if method == "goto" {
        return Some(0);
    }
    let is_web = WEB_MODULES.iter().any(|module| is_of(owner, module));
    let takes_method = matches!(method, "request" | "stream");
    (is_web && (is_request(method) || matches!(method, "urlopen" | "urlretrieve" | "ws_connect")))
        .then_some(usize::from(takes_method))
}

/// True for methods of clients of the web that take an address.
fn is_request(method: &str) -> bool {
    matches!(
        method,
        "get" | "post" | "put" | "patch" | "delete" | "head" | "options" | "request" | "fetch" | "stream"
    )
}

/// True for clients and connections of JavaScript.
pub(super) fn is_client(name: &str) -> bool {
    let name = name.strip_prefix("new ").unwrap_or(name);
    CLIENTS.iter().any(|module| name.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '('])))
        || ["WebSocket", "XMLHttpRequest", "Socket("].iter().any(|class| name.contains(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_known_by_their_library() {
        for (name, is) in [
            ("requests", true),
            ("requests.Session()", true),
            ("aiohttp.ClientSession().ws_connect()", true),
            ("asyncio.open_connection()[]", true),
            ("http.client.HTTPSConnection()", true),
            ("requests_cache", false),
            ("http.server.HTTPServer()", false),
            ("aiohttp.web.Response()", false),
            ("urllib.request.Request()", false),
            ("os", false),
        ] {
            assert_eq!(is_connection(name), is, "{name}");
        }
    }

    #[test]
    fn addresses_are_known_by_the_client_and_its_method() {
        for (name, at) in [
            ("requests.get", Some(0)),
            ("requests.Session().request", Some(1)),
            ("httpx.AsyncClient().stream", Some(1)),
            ("aiohttp.ClientSession().get", Some(0)),
            ("urllib.request.urlopen", Some(0)),
            ("playwright.async_api.Page.goto", Some(0)),
            ("paramiko.SFTPClient().get", None),
            ("requests.structures", None),
            ("os.environ.get", None),
        ] {
            assert_eq!(address_at(name), at, "{name}");
        }
        for (name, is) in [
            ("fetch", true),
            ("axios.create().get", true),
            ("https.request", true),
            ("puppeteer.launch().newPage().goto", true),
            ("redis.createClient().get", false),
            ("router.goto", false),
            ("dns.resolve", false),
        ] {
            assert_eq!(requests_address(name), is, "{name}");
        }
    }

    #[test]
    fn hosts_of_addresses_are_open_where_nothing_names_them() {
        for (address, open) in [
            ("\u{fffc}", true),
            ("https://\u{fffc}/x", true),
            ("http://\u{fffc}", true),
            ("https://a.example.invalid/\u{fffc}", false),
            ("https://a\u{fffc}", false),
            ("/x/\u{fffc}", false),
            ("", false),
        ] {
            assert_eq!(is_open_address(&Value::text(address)), open, "{address}");
        }
        let settings = |key: &str| Value::of(Const::Map(vec![(Value::text(key), Value::default())].into()));
        assert!(is_open_address(&settings("url")));
        assert!(!is_open_address(&settings("body")));
        assert!(is_open_address(&Value::default()));
        assert!(!is_open_address(&Value::int(1)));
    }

    #[test]
    fn models_are_asked_through_their_clients() {
        for (name, is) in [
            ("openai.OpenAI().chat.completions.create", true),
            ("openai().chat.completions.create", true),
            ("anthropic.Anthropic().messages.create", true),
            ("ollama.chat", true),
            ("ai.generateText", true),
            ("openai.OpenAI", false),
            ("airflow.models.create", false),
            ("create", false),
        ] {
            assert_eq!(asks_model(name), is, "{name}");
        }
    }

    #[test]
    fn received_values_are_known_by_the_method() {
        for (name, is) in [
            ("requests.Session().request", true),
            ("aiohttp.ClientSession().ws_connect", true),
            ("asyncio.open_connection", true),
            ("httpx.AsyncClient().get", true),
            ("websockets.sync.client.connect", true),
            ("socket.socket().connect", false),
            ("requests.Session().close", false),
            ("requests.structures.CaseInsensitiveDict().get", false),
            ("os.environ.get", false),
            ("get", false),
        ] {
            assert_eq!(receives(name), is, "{name}");
        }
    }
}
