//! Clients and connections of the network, by the canonical names of libraries.

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
];

/// True for `name` itself and for what it contains or returns.
fn is_of(name: &str, module: &str) -> bool {
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
