//! Requests of a run as an HTTP archive, HAR 1.2. Pure.
//!
//! The archive has what the rows have: no headers, cookies or bodies, no values of a query, and no value of a secret.

use hotcell_state::history::{RequestList, RequestReport};
use serde_json::{Value, json};

/// The archive.
pub fn archive(list: &RequestList) -> Value {
    let left = match list.left_out {
        0 => String::new(),
        n => format!("; {n} more requests were only counted"),
    };
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": "hotcell", "version": env!("CARGO_PKG_VERSION") },
        "comment": format!(
            "run {}; headers, bodies, durations and values of queries are not recorded{left}", list.id
        ),
        "entries": list.requests.iter().map(entry).collect::<Vec<_>>(),
    } })
}

fn entry(row: &RequestReport) -> Value {
    let request = &row.request;
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    // The content of a tunnel is not seen: it has a scheme of its own, so that no reader takes it for a page.
    let scheme = match (&request.secret, path) {
        (Some(_), _) => "https",
        (None, "") => "tunnel",
        (None, _) => "http",
    };
    let names = query.split('&').filter(|pair| !pair.is_empty());
    let query: Vec<_> = names
        .map(|pair| json!({ "name": pair.split('=').next().unwrap_or_default(), "value": "" }))
        .collect();
    let none = Vec::<Value>::new;
    let mut entry = json!({
        "startedDateTime": row.time,
        "time": 0,
        "request": {
            "method": request.method,
            "url": format!("{scheme}://{}{path}", request.host),
            "httpVersion": "HTTP/1.1",
            "cookies": none(),
            "headers": none(),
            "queryString": query,
            "headersSize": -1,
            "bodySize": request.sent_bytes,
        },
        "response": {
            "status": request.status.unwrap_or(0),
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": none(),
            "headers": none(),
            "content": { "size": request.received_bytes, "mimeType": "x-unknown" },
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": request.received_bytes,
        },
        "cache": {},
        "timings": { "send": 0, "wait": 0, "receive": 0 },
        "_ending": request.ending,
        "_rule": request.rule,
    });
    if let Some(secret) = &request.secret {
        entry["_secret"] = json!(secret);
    }
    entry
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::outcome::ProxiedRequest;

    use super::*;

    fn row(secret: Option<&str>, method: &str, path: &str) -> RequestReport {
        RequestReport {
            time: "2026-11-28T10:00:00.000000Z".to_owned(),
            request: ProxiedRequest {
                secret: secret.map(str::to_owned),
                host: "a.test:443".to_owned(),
                method: method.to_owned(),
                path: path.to_owned(),
                status: secret.map(|_| 200),
                sent_bytes: 1,
                received_bytes: 2,
                ending: "answered".to_owned(),
                rule: "a.test:443".to_owned(),
            },
        }
    }

    #[test]
    fn archive_has_addresses_without_values_of_queries() {
        let list = RequestList {
            schema: String::new(),
            id: "ab12".to_owned(),
            secrets: std::collections::BTreeMap::new(),
            plain: None,
            left_out: 3,
            requests: vec![
                row(Some("gh"), "GET", "/v1/x?page=…&…"),
                row(None, "CONNECT", ""),
                row(None, "POST", "/y"),
            ],
        };
        let archive = archive(&list);
        assert!(archive["log"]["comment"].as_str().unwrap().contains("3 more"), "{archive}");
        let urls: Vec<_> =
            archive["log"]["entries"].as_array().unwrap().iter().map(|one| &one["request"]["url"]).collect();
        assert_eq!(urls, ["https://a.test:443/v1/x", "tunnel://a.test:443", "http://a.test:443/y"]);
        let first = &archive["log"]["entries"][0];
        assert_eq!(first["request"]["queryString"][0], json!({ "name": "page", "value": "" }));
        assert_eq!((&first["_secret"], &first["response"]["status"]), (&json!("gh"), &json!(200)));
        assert_eq!(archive["log"]["entries"][1]["response"]["status"], json!(0));
    }
}
