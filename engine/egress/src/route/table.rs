//! The operator's table of secrets for clients of hotcell's own, such as plugins, whose requests have no route: which requests a secret may
//! go with, by the rules that hold for runs, and its value as it is now.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::head;
use super::rules::{NormalPath, RequestRules, Verdict};
use super::{Binding, Supply};
use crate::http::Body;
use crate::limit::Allowance;
use crate::redact::MIN_REDACTED_BYTES;
use crate::secret::Secret;

/// Time before its end from which a value is fetched anew.
const MARGIN: Duration = Duration::from_secs(30);

/// A secret of the table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who gives its values.
    pub supply: Supply,
    /// Host and prefix.
    pub binding: Binding,
    /// Rules for its requests.
    pub rules: RequestRules,
}

/// A request that a secret is to go with.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Whether the request is sent over TLS.
    pub is_tls: bool,
    /// Name or address of the host.
    pub host: &'a str,
    /// Port.
    pub port: u16,
    /// Method.
    pub method: &'a str,
    /// Path.
    pub path: &'a str,
    /// Length of its body in bytes.
    pub length: u64,
}

/// Whether a header of a client's own may go with a secret: not one that makes the request another one than its method and path say, or that
/// would let the value come back in parts.
#[must_use]
pub fn goes_with_secrets(header: &str) -> bool {
    head::goes_beside(header)
}

impl Entry {
    /// Checks that the secret may go with a request.
    ///
    /// # Errors
    /// A sentence with the rule that denies it.
    pub fn judge(&self, asking: Asking<'_>) -> Result<(), String> {
        let Self { binding, rules, .. } = self;
        if !asking.is_tls {
            return Err("a secret is only sent over TLS; use https".to_owned());
        }
        if (asking.host, asking.port) != (binding.host.as_str(), binding.port) {
            return Err(format!("it is for {}", binding.authority()));
        }
        if !binding.prefix.is_empty() {
            let path = NormalPath::parse(asking.path, rules.accepts_encoded_slash());
            let below = NormalPath::parse(&binding.prefix, false);
            let (path, below) = path.and_then(|path| Ok((path, below?))).map_err(|why| why.to_string())?;
            if !path.is_within(&below) {
                return Err(format!("it is for paths below {}", binding.prefix));
            }
        }
        if let Verdict::Denied(rule) = head::judged(binding, rules, asking.method, asking.path) {
            return Err(format!("{} of this path is not allowed: {rule}", asking.method));
        }
        match rules.limits().max_body {
            Some(most) if rules.limits().is_too_large(Body::Length(asking.length)) => {
                Err(format!("the body has more than {most} bytes"))
            }
            _ => Ok(()),
        }
    }
}

/// Values of a table while hotcell serves clients: fetched when they are needed, and those that expire kept until shortly before.
#[derive(Default)]
pub struct Values {
    kept: Mutex<BTreeMap<String, Kept>>,
    allowances: Mutex<BTreeMap<String, Allowance>>,
}

struct Kept {
    secret: Arc<Secret>,
    expires_at: Option<SystemTime>,
    /// Who gave it: another supply of the name gives its own.
    supply: Supply,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values(…)")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Values {
    /// The value of a secret. Blocks for 20 s at most, where a program or an app gives it.
    ///
    /// # Errors
    /// A sentence, when its source gives none, or one that cannot be masked or has expired.
    pub fn value(&self, name: &str, entry: &Entry) -> Result<Arc<Secret>, String> {
        let valid = |kept: &&Kept| {
            kept.supply.is_that_of(&entry.supply)
                && kept.expires_at.is_none_or(|at| at > SystemTime::now() + MARGIN)
        };
        if let Some(kept) = lock(&self.kept).get(name).filter(valid) {
            return Ok(Arc::clone(&kept.secret));
        }
        let fetched = entry.supply.fetch().map_err(|e| format!("the secret {name}: {e}"))?;
        if fetched.secret.expose().len() < MIN_REDACTED_BYTES {
            return Err(format!(
                "the secret {name} is shorter than {MIN_REDACTED_BYTES} bytes, too short to be removed from what a host answers"
            ));
        }
        if fetched.expires_at.is_some_and(|at| at <= SystemTime::now()) {
            return Err(format!(
                "the secret {name} has expired already; mend its source, or this host's clock"
            ));
        }
        let secret = Arc::new(fetched.secret);
        if entry.supply.is_asked_once() {
            let (expires_at, supply) = (fetched.expires_at, entry.supply.clone());
            let kept = Kept { secret: Arc::clone(&secret), expires_at, supply };
            lock(&self.kept).insert(name.to_owned(), kept);
        }
        Ok(secret)
    }

    /// Counts a request with a secret.
    ///
    /// # Errors
    /// A sentence, when the rate of its rules allows no further one now.
    pub fn count(&self, name: &str, entry: &Entry) -> Result<(), String> {
        let Some(rate) = entry.rules.limits().rate else { return Ok(()) };
        let now = Instant::now();
        let mut allowances = lock(&self.allowances);
        let allowance = allowances.entry(name.to_owned()).or_insert_with(|| Allowance::new(rate, now));
        allowance.take(now).map_err(|wait| {
            format!(
                "more than {rate} requests with the secret {name}; the next one is in {:.1} s",
                wait.as_secs_f64()
            )
        })
    }

    /// Forgets values and counts, since the table was read anew; not what came from a descriptor, which gives its value once.
    pub fn clear(&self) {
        lock(&self.kept).retain(|_, kept| kept.supply.gives_once());
        lock(&self.allowances).clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::limit::RequestLimits;

    fn entry(binding: &str, source: &str) -> Entry {
        let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rules = RequestRules::new(&texts(&["GET", "POST"]), &[], &texts(&["/v1/keys"]), false).unwrap();
        Entry {
            supply: Supply::Source(source.parse().unwrap()),
            binding: binding.parse().unwrap(),
            rules: rules.limited(RequestLimits { max_body: Some(4), rate: "2/h".parse().ok() }),
        }
    }

    #[test]
    fn requests_are_judged_as_those_of_runs() {
        let (one, below) = (entry("a.test", "env:T"), entry("a.test:8443/v1", "env:T"));
        let good =
            Asking { is_tls: true, host: "a.test", port: 443, method: "GET", path: "/v1/x", length: 4 };
        for (entry, asking, word) in [
            (&one, good, ""),
            (&one, Asking { is_tls: false, ..good }, "TLS"),
            (&one, Asking { host: "evil.test", ..good }, "it is for a.test"),
            (&one, Asking { host: "a.test.evil.test", ..good }, "it is for a.test"),
            (&one, Asking { port: 8443, ..good }, "it is for a.test"),
            (&one, Asking { method: "DELETE", ..good }, "DELETE of this path"),
            (&one, Asking { method: "get", ..good }, "not allowed"),
            (&one, Asking { path: "/v1/k%65ys", ..good }, "not allowed"),
            (&one, Asking { path: "/v1/../v1/keys", ..good }, "not allowed"),
            (&one, Asking { length: 5, ..good }, "more than 4 bytes"),
            (&below, Asking { port: 8443, ..good }, ""),
            (&below, Asking { port: 8443, path: "/v2", ..good }, "below /v1"),
            (&below, Asking { port: 8443, path: "/v12", ..good }, "below /v1"),
        ] {
            let judged = entry.judge(asking);
            match word {
                "" => assert_eq!(judged, Ok(()), "{asking:?}"),
                word => assert!(judged.clone().unwrap_err().contains(word), "{asking:?} {judged:?}"),
            }
        }
        let values = Values::default();
        assert_eq!([values.count("t", &one), values.count("t", &one)], [Ok(()), Ok(())]);
        assert!(values.count("t", &one).unwrap_err().contains("more than 2/h"));
        values.clear();
        assert_eq!(values.count("t", &one), Ok(()));
    }

    #[test]
    fn values_of_descriptors_stay() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"t0p-s3cret").unwrap();
        drop(writer);
        let number = reader.as_raw_fd();
        let values = Values::default();
        for _ in 0..2 {
            let got = values.value("t", &entry("a.test", &format!("fd:{number}"))).unwrap();
            assert_eq!(got.expose(), b"t0p-s3cret");
            values.clear();
        }
        // Another name or another descriptor has no part in it.
        assert!(values.value("other", &entry("a.test", &format!("fd:{number}"))).is_err());
        assert!(values.value("t", &entry("a.test", "fd:1000000")).is_err());
    }

    #[test]
    fn headers_that_change_the_request_or_part_the_answer_go_with_no_secret() {
        for good in
            ["authorization", "X-Api-Key", "cookie", "content-type", "accept", "x-range", "rangefinder"]
        {
            assert!(goes_with_secrets(good), "{good}");
        }
        for bad in [
            "Range",
            "If_Range",
            "Destination",
            "X_HTTP-Method_Override",
            "x-original-url",
            "Forwarded",
            "X-Forwarded-Host",
            "Proxy_Authorization",
            "transfer-encoding",
        ] {
            assert!(!goes_with_secrets(bad), "{bad}");
        }
    }

    #[test]
    fn values_are_those_of_their_own_supply() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho t0p-s3cret-of-{name}\n")).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            entry("a.test", &format!("exec:{}", path.display()))
        };
        let (values, old, new) = (Values::default(), program("old"), program("new"));
        // A request that began with the old definition ends behind the change.
        values.clear();
        for (entry, want) in [(&old, "old"), (&new, "new"), (&new, "new"), (&old, "old")] {
            let got = values.value("t", entry).unwrap();
            assert_eq!(got.expose(), format!("t0p-s3cret-of-{want}").as_bytes());
        }
    }

    #[test]
    fn programs_are_asked_until_their_values_expire() {
        let folder = tempfile::tempdir().unwrap();
        let (count, program) = (folder.path().join("count"), folder.path().join("program"));
        let ask = |end: &str| {
            let text = format!(
                "#!/bin/sh\necho x >>{}\necho '{{\"value\": \"t0p-s3cret\", \"expires_at\": \"{end}\"}}'\n",
                count.display()
            );
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let (values, entry) =
                (Values::default(), entry("a.test", &format!("exec:{}", program.display())));
            let got = [values.value("t", &entry), values.value("t", &entry)];
            got.map(|got| got.map(|secret| secret.expose().to_vec()))
        };
        let good = Ok(b"t0p-s3cret".to_vec());
        assert_eq!(ask("2100-01-01T00:00:00Z"), [good.clone(), good]);
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
        for got in ask("2001-01-01T00:00:00Z") {
            let why = got.unwrap_err();
            assert!(why.contains("expired already") && !why.contains("t0p"), "{why}");
        }
    }
}
