//! Records of the requests through the proxy and its routes: counts, and rows up to a number. Pure.

use std::collections::BTreeMap;
use std::time::SystemTime;

/// Maximum number of rows of requests with secrets; further ones are only counted.
pub const MAX_ROWS: usize = 1000;
/// Maximum number of rows of requests without a secret: a number of its own, so that these cannot crowd out the others.
pub const MAX_PLAIN_ROWS: usize = 500;
/// Maximum length in bytes of a path in a row; a program controls it.
const MAX_PATH_LEN: usize = 300;

/// End of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The host answered.
    Answered,
    /// A rule refused the request, and nothing was sent.
    Denied,
    /// The host was not reached, or its answer was not usable.
    Failed,
    /// The run ended before the answer did.
    #[default]
    Unfinished,
}

impl Ending {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// One request through the proxy: through a route with a secret, or without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time at which its head had been read.
    pub at: SystemTime,
    /// Name of the secret; empty without one.
    pub secret: String,
    /// `HOST:PORT`.
    pub host: String,
    /// Method; `CONNECT`, `SOCKS` or `RELAY` for a connection whose content is not read.
    pub method: String,
    /// Path at the host, cut to 300 bytes; a query without its values. Empty where it is not seen.
    pub path: String,
    /// Status that the host answered with.
    pub status: Option<u16>,
    /// Bytes of the request's body that were sent; of all that was sent where the content is not read.
    pub sent: u64,
    /// Bytes of the answer's body, or of all that came.
    pub received: u64,
    /// The rule that allowed or denied the request, or why it failed.
    pub rule: String,
    /// End of the request.
    pub ending: Ending,
}

/// Counts of one secret, or of all requests without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests.
    pub requests: u64,
    /// Requests that a rule refused.
    pub denied: u64,
    /// Requests that did not reach the host, or whose answer was not usable.
    pub failed: u64,
    /// Bytes of the requests' bodies.
    pub sent: u64,
    /// Bytes of the answers' bodies.
    pub received: u64,
}

/// Requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Counts by secret; each secret of the run has an entry.
    pub counts: BTreeMap<String, Counts>,
    /// Requests without a secret.
    pub plain: Counts,
    /// The first [`MAX_ROWS`] requests with secrets and the first [`MAX_PLAIN_ROWS`] others, as they began.
    pub rows: Vec<Request>,
    /// Number of requests that have no row.
    pub left_out: u64,
}

impl Requests {
    /// No requests, for these secrets.
    #[must_use]
    pub fn of<'a>(secrets: impl Iterator<Item = &'a str>) -> Self {
        let counts = secrets.map(|name| (name.to_owned(), Counts::default())).collect();
        Self { counts, ..Self::default() }
    }

    /// Adds a request that begins; returns the number of its row.
    pub fn begin(&mut self, request: Request) -> Option<usize> {
        self.counts_of(&request.secret).requests += 1;
        // Each request before the maximum has a row.
        let (before, most) = match request.secret.as_str() {
            "" => (self.plain.requests, MAX_PLAIN_ROWS),
            _ => (self.counts.values().map(|counts| counts.requests).sum(), MAX_ROWS),
        };
        if before > most as u64 {
            self.left_out += 1;
            return None;
        }
        self.rows.push(request);
        Some(self.rows.len() - 1)
    }

    fn counts_of(&mut self, secret: &str) -> &mut Counts {
        match secret {
            "" => &mut self.plain,
            name => self.counts.entry(name.to_owned()).or_default(),
        }
    }

    /// Notes the end of a request.
    pub fn end(&mut self, row: Option<usize>, ended: Request) {
        let counts = self.counts_of(&ended.secret);
        counts.denied += u64::from(ended.ending == Ending::Denied);
        counts.failed += u64::from(ended.ending == Ending::Failed);
        counts.sent += ended.sent;
        counts.received += ended.received;
        if let Some(row) = row.and_then(|row| self.rows.get_mut(row)) {
            *row = ended;
        }
    }
}

/// A target for a row: the path, and the names of the query's parameters.
#[must_use]
pub fn without_values(path: &str, query: Option<&str>) -> String {
    let mut text = path.to_owned();
    if let Some(query) = query {
        let names = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}=…"),
            // Without a name, the text may be a value.
            None => "…".to_owned(),
        });
        text = format!("{text}?{}", names.collect::<Vec<_>>().join("&"));
    }
    text.truncate(text.floor_char_boundary(MAX_PATH_LEN));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_secret_have_rows_of_their_own() {
        let mut all = Requests::default();
        let plain = || Request { secret: String::new(), ..request(Ending::Denied) };
        for _ in 0..MAX_PLAIN_ROWS + 3 {
            let row = all.begin(plain());
            all.end(row, plain());
        }
        assert_eq!(all.begin(request(Ending::Answered)), Some(MAX_PLAIN_ROWS));
        assert_eq!((all.left_out, all.plain.requests, all.plain.denied), (3, 503, 503));
        assert_eq!((all.counts.len(), all.counts["gh"].requests), (1, 1));
    }

    fn request(ending: Ending) -> Request {
        Request {
            at: SystemTime::UNIX_EPOCH,
            secret: "gh".into(),
            host: "a.test:443".into(),
            method: "GET".into(),
            path: "/".into(),
            status: None,
            sent: 1,
            received: 2,
            rule: String::new(),
            ending,
        }
    }

    #[test]
    fn requests_are_counted_and_rows_bounded() {
        let mut all = Requests::default();
        for n in 0..MAX_ROWS + 5 {
            let ending = if n % 2 == 0 { Ending::Answered } else { Ending::Denied };
            let row = all.begin(request(Ending::Unfinished));
            assert_eq!(row.is_some(), n < MAX_ROWS);
            all.end(row, request(ending));
        }
        assert_eq!((all.rows.len(), all.rows[1].ending), (MAX_ROWS, Ending::Denied));
        let counts = &all.counts["gh"];
        assert_eq!((counts.requests, counts.denied, counts.sent, counts.received), (1005, 502, 1005, 2010));
    }

    #[test]
    fn query_values_are_left_out() {
        for (path, query, want) in
            [("/a", None, "/a"), ("/a", Some("x=1&y=2&token"), "/a?x=…&y=…&…"), ("/a", Some(""), "/a?…")]
        {
            assert_eq!(without_values(path, query), want);
        }
        assert!(without_values(&"/ä".repeat(500), None).len() <= MAX_PATH_LEN);
    }
}
