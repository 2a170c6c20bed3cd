//! Reads media ranges of `Accept` (RFC 9110 section 12.5.1) that the transport below does not know: it takes the
//! two types of the protocol only by their names, and answers curl's `*/*` and a missing header with 406.

use axum::http::{HeaderMap, HeaderValue, header};

/// Both types in which a request may be answered.
const BOTH: &str = "application/json, text/event-stream";

/// Writes both types into the header of a POST if its ranges cover them, or if it has no such header.
pub fn name_both_types(headers: &mut HeaderMap) {
    let values: Vec<_> = headers.get_all(header::ACCEPT).iter().collect();
    let Ok(values) = values.into_iter().map(HeaderValue::to_str).collect::<Result<Vec<_>, _>>() else {
        return;
    };
    if covers_both(&values.join(",")) {
        headers.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
    }
}

/// Whether a list of ranges covers both types of the protocol. An empty list covers everything.
fn covers_both(list: &str) -> bool {
    let ranges: Vec<_> = list.split(',').map(str::trim).filter(|range| !range.is_empty()).collect();
    ranges.is_empty()
        || ["application/json", "text/event-stream"].iter().all(|kind| {
            // The most specific range decides about a type, such as `text/html, */*;q=0`.
            let (group, _) = kind.split_once('/').unwrap_or((kind, ""));
            [(*kind).to_owned(), format!("{group}/*"), "*/*".to_owned()]
                .iter()
                .find_map(|name| ranges.iter().find_map(|range| weighs(range, name)))
                .unwrap_or(false)
        })
}

/// Whether a range has a weight above zero; none if it is not the named one.
fn weighs(range: &str, name: &str) -> Option<bool> {
    let mut parts = range.split(';').map(str::trim);
    let named = parts.next()?.eq_ignore_ascii_case(name);
    let weight = parts.find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().unwrap_or(1.0))
    });
    named.then_some(weight.unwrap_or(1.0) > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_both_types() {
        for (list, covers) in [
            ("", true),
            ("*/*", true),
            (" */* ;q=0.8", true),
            ("application/*, text/*", true),
            ("application/json, */*;q=0.1", true),
            ("APPLICATION/JSON, Text/Event-Stream", true),
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json", false),
            ("text/event-stream", false),
            ("application/*", false),
            ("text/html", false),
            ("*/*;q=0", false),
            ("*/*, text/event-stream;q=0.000", false),
            ("*/json", false),
        ] {
            assert_eq!(covers_both(list), covers, "{list:?}");
        }
    }

    #[test]
    fn headers_are_joined_and_replaced() {
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, HeaderValue::from_static("application/*"));
        headers.append(header::ACCEPT, HeaderValue::from_static("text/*;q=0.5"));
        name_both_types(&mut headers);
        assert_eq!(headers.get_all(header::ACCEPT).iter().collect::<Vec<_>>(), [BOTH]);
        headers.insert(header::ACCEPT, HeaderValue::from_bytes(b"*/*\xff").unwrap());
        name_both_types(&mut headers);
        assert_ne!(headers[header::ACCEPT], BOTH);
    }
}
