//! Requests to AWS, signed outside of the sandbox with keys that the program never holds (Signature Version 4).
//!
//! Not for `SigV4a`, which signs for several regions, and not for signatures of parts of a body.

use std::fmt;

use zeroize::Zeroizing;

use super::RouteError;
use crate::redact::MIN_REDACTED_BYTES;
use crate::secret::Secret;

pub mod request;
mod sign;
pub mod sources;

/// Region of hosts that are for all of them (<https://docs.aws.amazon.com/general/latest/gr/rande.html#global-endpoints>).
const GLOBAL_REGION: &str = "us-east-1";
/// Domains of AWS whose names say service and region.
const DOMAINS: [&str; 3] = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];
/// Services whose signatures have another name than their hosts.
const SIGNED_AS: [(&str, &str); 8] = [
    ("bedrock-runtime", "bedrock"),
    ("bedrock-agent", "bedrock"),
    ("bedrock-agent-runtime", "bedrock"),
    ("email", "ses"),
    ("git-codecommit", "codecommit"),
    ("queue", "sqs"),
    ("s3-accesspoint", "s3"),
    ("transcribestreaming", "transcribe"),
];

/// The region and the service that signatures are for. Both are the operator's: a client's own signature decides neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    region: String,
    service: String,
}

impl Scope {
    /// A scope of these words; `None` unless both have 1 to 64 small letters, digits and `-`.
    #[must_use]
    pub fn new(region: &str, service: &str) -> Option<Self> {
        let word = |text: &str| {
            (1..=64).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        (word(region) && word(service))
            .then(|| Self { region: region.to_owned(), service: service.to_owned() })
    }

    /// The scope that a host's name says, such as `s3.eu-central-1.amazonaws.com`; `None` for other names.
    ///
    /// ```
    /// use hotcell_egress::route::aws::Scope;
    /// let scope = Scope::of_host("bedrock-runtime.eu-west-1.amazonaws.com").unwrap();
    /// assert_eq!((scope.region(), scope.service()), ("eu-west-1", "bedrock"));
    /// ```
    #[must_use]
    pub fn of_host(host: &str) -> Option<Self> {
        let rest = DOMAINS.iter().find_map(|domain| host.strip_suffix(domain))?;
        let labels: Vec<&str> = rest.split('.').collect();
        let (region, service) = match labels[..] {
            [.., service, "dualstack", region] if is_region(region) => (region, service),
            [.., service, region] if is_region(region) => (region, service),
            // OpenSearch: the domain, the region, `es`.
            [.., region, service] if is_region(region) => (region, service),
            // S3's first names: s3-REGION.
            [.., service] if service.strip_prefix("s3-").is_some_and(is_region) => (&service[3..], "s3"),
            [.., service] => (GLOBAL_REGION, service),
            [] => return None,
        };
        let signed = SIGNED_AS.iter().find(|(name, _)| *name == service);
        Self::new(region, signed.map_or(service, |(_, signed)| signed))
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The service as it is in signatures.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Whether the service is S3, which has rules of its own for paths and bodies.
    fn is_s3(&self) -> bool {
        matches!(self.service(), "s3" | "s3-object-lambda" | "s3-outposts")
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.service, self.region)
    }
}

/// Where requests to a host name their bucket of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bucket<'a> {
    /// In front of the path.
    InPath,
    /// In front of the host's name: this one.
    InHost(&'a str),
    /// In one of both.
    Unknown,
}

/// Where requests to a host name their bucket: the names of AWS say it (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html>).
fn bucket_of(host: &str) -> Bucket<'_> {
    let Some(rest) = DOMAINS.iter().find_map(|domain| host.strip_suffix(domain)) else {
        return Bucket::Unknown;
    };
    // Endpoints of a private network have names of their own in front.
    if rest.ends_with(".vpce") {
        return Bucket::Unknown;
    }
    let is_service =
        |label: &str| label == "s3" || label.starts_with("s3-") || label.starts_with("s3express-");
    let labels = || rest.split('.');
    let Some(behind) = labels().rev().position(is_service) else { return Bucket::Unknown };
    let behind: usize = labels().rev().take(behind + 1).map(|label| label.len() + 1).sum();
    match rest.len().checked_sub(behind) {
        None => Bucket::InPath,
        Some(end) => Bucket::InHost(&rest[..end]),
    }
}

/// Whether a word is a region, such as `eu-central-1` and `us-gov-west-1`.
fn is_region(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let letters = |part: &&str| part.len() >= 2 && part.bytes().all(|b| b.is_ascii_lowercase());
    match parts.split_last() {
        Some((number, names)) => {
            names.len() >= 2
                && names[0].len() <= 4
                && names.iter().all(letters)
                && (1..=2).contains(&number.len())
                && number.bytes().all(|b| b.is_ascii_digit())
        }
        None => false,
    }
}

/// Keys of an account. No `Debug`; the memory is overwritten when they are dropped.
pub struct Keys {
    id: String,
    key: Zeroizing<Vec<u8>>,
    token: Option<Zeroizing<Vec<u8>>>,
}

impl Keys {
    /// Keys of the value `ACCESS_KEY_ID:SECRET_ACCESS_KEY`, with `:SESSION_TOKEN` behind it for temporary ones.
    ///
    /// # Errors
    /// [`RouteError::Keys`] for another form, [`RouteError::Short`] for a key that cannot be masked.
    pub fn of(name: &str, secret: &Secret) -> Result<Self, RouteError> {
        let form = || RouteError::Keys(name.to_owned());
        let mut parts = secret.expose().split(|b| *b == b':');
        let (Some(id), Some(key), token, None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(form());
        };
        let word = |b: &u8| b.is_ascii_alphanumeric() || b"_-".contains(b);
        let graphic = |part: &[u8]| part.iter().all(u8::is_ascii_graphic);
        if !(8..=128).contains(&id.len())
            || !id.iter().all(word)
            || !graphic(key)
            || !token.is_none_or(graphic)
        {
            return Err(form());
        }
        if key.len() < MIN_REDACTED_BYTES || token.is_some_and(|token| token.len() < MIN_REDACTED_BYTES) {
            return Err(RouteError::Short(name.to_owned()));
        }
        Ok(Self {
            id: String::from_utf8_lossy(id).into_owned(),
            key: Zeroizing::new(key.to_vec()),
            token: token.map(|token| Zeroizing::new(token.to_vec())),
        })
    }

    /// Parts that are masked in answers. The identifier is left out: it is in addresses and names.
    pub fn masked(&self) -> impl Iterator<Item = &Zeroizing<Vec<u8>>> {
        [&self.key].into_iter().chain(&self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_name_their_scope() {
        for (host, want) in [
            ("s3.eu-central-1.amazonaws.com", Some("s3 in eu-central-1")),
            ("bucket.with.dots.s3.eu-central-1.amazonaws.com", Some("s3 in eu-central-1")),
            ("s3.dualstack.us-gov-west-1.amazonaws.com", Some("s3 in us-gov-west-1")),
            ("s3-eu-west-1.amazonaws.com", Some("s3 in eu-west-1")),
            ("bucket.s3-eu-west-1.amazonaws.com", Some("s3 in eu-west-1")),
            ("s3.amazonaws.com", Some("s3 in us-east-1")),
            ("bucket.s3.amazonaws.com", Some("s3 in us-east-1")),
            ("iam.amazonaws.com", Some("iam in us-east-1")),
            ("sts.ap-southeast-2.amazonaws.com", Some("sts in ap-southeast-2")),
            ("bedrock-runtime.us-east-1.amazonaws.com", Some("bedrock in us-east-1")),
            ("a1b2.execute-api.eu-west-3.amazonaws.com", Some("execute-api in eu-west-3")),
            ("search-x.eu-west-1.es.amazonaws.com", Some("es in eu-west-1")),
            ("dynamodb.cn-north-1.amazonaws.com.cn", Some("dynamodb in cn-north-1")),
            ("lambda.eu-north-1.api.aws", Some("lambda in eu-north-1")),
            ("email.eu-west-1.amazonaws.com", Some("ses in eu-west-1")),
            ("amazonaws.com", None),
            ("s3.eu-central-1.amazonaws.com.evil.test", None),
            ("s3.eu-central-1.evilamazonaws.com", None),
            ("minio.example.com", None),
        ] {
            assert_eq!(Scope::of_host(host).map(|scope| scope.to_string()).as_deref(), want, "{host}");
        }
        for (region, service) in [("", "s3"), ("eu-1", ""), ("EU-1", "s3"), ("a/b", "s3"), ("eu-1", "s3\r\n")]
        {
            assert_eq!(Scope::new(region, service), None);
        }
    }

    #[test]
    fn hosts_name_their_bucket() {
        let own = Bucket::InHost;
        for (host, want) in [
            ("s3.eu-central-1.amazonaws.com", Bucket::InPath),
            ("s3.amazonaws.com", Bucket::InPath),
            ("s3-eu-west-1.amazonaws.com", Bucket::InPath),
            ("s3.dualstack.us-gov-west-1.amazonaws.com", Bucket::InPath),
            ("s3-fips.dualstack.us-east-1.amazonaws.com", Bucket::InPath),
            ("box.s3.amazonaws.com", own("box")),
            ("box.s3.eu-central-1.amazonaws.com", own("box")),
            ("box.s3-eu-west-1.amazonaws.com", own("box")),
            ("box.with.dots.s3.dualstack.eu-central-1.amazonaws.com", own("box.with.dots")),
            ("my.s3.s3.cn-north-1.amazonaws.com.cn", own("my.s3")),
            ("box.s3-accelerate.amazonaws.com", own("box")),
            ("point-1234.s3-accesspoint.eu-west-1.amazonaws.com", own("point-1234")),
            ("box--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com", own("box--use1-az4--x-s3")),
            ("box.bucket.vpce-1a2b-5e6f.s3.us-east-1.vpce.amazonaws.com", Bucket::Unknown),
            ("sqs.eu-west-1.amazonaws.com", Bucket::Unknown),
            ("minio.example.com", Bucket::Unknown),
            ("box.s3.example.com", Bucket::Unknown),
        ] {
            assert_eq!(bucket_of(host), want, "{host}");
        }
    }

    #[test]
    fn keys_are_two_or_three_parts() {
        let of = |text: &str| Keys::of("aws", &Secret::new(text.as_bytes().to_vec()).unwrap());
        for (text, parts) in [
            ("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+b", 1),
            ("ASIAEXAMPLE:wJalrXUtnFEMI/K7MDENG+b:IQoJb3JpZ2luX2Vj//8=", 2),
        ] {
            let keys = of(text).map_err(|e| e.to_string()).unwrap();
            assert_eq!(keys.masked().count(), parts);
        }
        for (text, word) in [
            ("wJalrXUtnFEMIK7MDENG", "ACCESS_KEY_ID:SECRET_ACCESS_KEY"),
            ("AKIDEXAMPLE:", "shorter"),
            ("AKIDEXAMPLE:short", "shorter"),
            ("AKIDEXAMPLE:wJalrXUtnFEMI:", "shorter"),
            ("AKIDEXAMPLE:wJalrXUtnFEMI:aaaaaaaaaaa:b", "ACCESS_KEY_ID"),
            ("AKID EXAMPLE:wJalrXUtnFEMI", "ACCESS_KEY_ID"),
            ("AKIDEXAMPLE:wJalr XUtnFEMI", "ACCESS_KEY_ID"),
        ] {
            let error = of(text).err().unwrap().to_string();
            assert!(error.contains(word) && !error.contains("wJalr"), "{text}: {error}");
        }
    }
}
