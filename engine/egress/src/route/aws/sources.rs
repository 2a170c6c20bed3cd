//! Objects that a request to S3 takes from, which headers name: by the paths that rules judge them by. Pure.

use super::{Bucket, bucket_of};
use crate::route::head::Asked;
use crate::route::rules::NormalPath;

/// Header with the object that is copied.
const COPY: &str = "x-amz-copy-source";
/// Header with the object that is renamed, and so removed: by its bucket and key, or by its key alone.
const RENAME: &str = "x-amz-rename-source";

/// An object that a request takes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of the object.
    pub path: String,
    /// Methods of requests that would do to the object as much.
    pub methods: &'static [&'static str],
}

/// Objects that a request takes from, for which rules for paths hold as for its own. `host`: host that it goes to; `path`: path there.
///
/// # Errors
/// A sentence for one that is named in another way than by its path, or is in another bucket than the host's.
pub fn sources(asked: &Asked, host: &str, path: &str) -> Result<Vec<Source>, String> {
    let mut all = Vec::new();
    for (name, value) in asked.headers() {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let methods: &[&str] = match name.as_str() {
            COPY => &["GET"],
            RENAME => &["GET", "DELETE"],
            _ => continue,
        };
        let text = String::from_utf8_lossy(value.trim_ascii());
        let text = text.split('?').next().unwrap_or_default();
        let source = format!("/{}", text.strip_prefix('/').unwrap_or(text));
        let normal = NormalPath::parse(&source, true).map_err(|why| format!("{name}: {why}"))?;
        if normal.to_string().to_ascii_lowercase().starts_with("/arn:") {
            return Err(format!("{name} names its object by an ARN, and rules for paths cannot see which"));
        }
        let read = readings(&source, name == RENAME, host, path).map_err(|why| format!("{name}: {why}"))?;
        all.extend(read.into_iter().map(|path| Source { path, methods }));
    }
    Ok(all)
}

/// Paths that an object's name may stand for in requests to a host; rules have to allow each.
fn readings(source: &str, is_renamed: bool, host: &str, path: &str) -> Result<Vec<String>, String> {
    let (bucket, key) = split_bucket(source);
    match bucket_of(host) {
        Bucket::InHost(own) if is_renamed => {
            let mut all = vec![source.to_owned()];
            all.extend((bucket == own).then_some(key));
            Ok(all)
        }
        Bucket::InHost(own) if bucket == own => Ok(vec![key]),
        Bucket::InHost(own) => Err(format!(
            "its object is not in the bucket {own} of this host, and rules for paths are for that one"
        )),
        form => {
            let mut all = vec![source.to_owned()];
            if is_renamed {
                let own = path.trim_start_matches('/').split('/').next().unwrap_or_default();
                all.push(format!("/{own}{source}"));
            }
            // A host of another name may have its bucket in front, too.
            let in_front =
                host.strip_prefix(&bucket).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if form == Bucket::Unknown && !bucket.is_empty() && in_front {
                all.push(key);
            }
            Ok(all)
        }
    }
}

/// The bucket in front of a path, decoded, and the path behind it. A slash between them may be encoded.
fn split_bucket(path: &str) -> (String, String) {
    let path = path.strip_prefix('/').unwrap_or(path);
    let ends = ["/", "%2F", "%2f"].into_iter().filter_map(|slash| Some((path.find(slash)?, slash.len())));
    let (end, length) = ends.min().unwrap_or((path.len(), 0));
    let bucket = NormalPath::parse(&format!("/{}", &path[..end]), true).map(|path| path.to_string());
    let bucket = bucket.unwrap_or_default().trim_start_matches('/').to_owned();
    (bucket, format!("/{}", &path[end + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::head::{Authority, request};

    fn of(host: &str, header: &str) -> Result<Vec<(String, usize)>, String> {
        let text = format!("PUT /mine/k HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n");
        let asked = request(text.as_bytes(), Authority::Host(host, 443)).unwrap().unwrap().0;
        let all = sources(&asked, host, "/mine/k")?;
        Ok(all.into_iter().map(|source| (source.path, source.methods.len())).collect())
    }

    #[test]
    fn sources_are_read_as_the_host_reads_its_paths() {
        let (own, common, custom) =
            ("box.s3.eu-central-1.amazonaws.com", "s3.eu-central-1.amazonaws.com", "minio.example.com");
        let of_custom = "box.minio.example.com";
        for (host, header, want) in [
            (own, "x-amz-copy-source: box/private/x", &[("/private/x", 1)][..]),
            (own, "X_Amz_Copy_Source: /box/private/x?versionId=1", &[("/private/x", 1)]),
            (own, "x-amz-copy-source: %62ox%2fprivate/x", &[("/private/x", 1)]),
            (own, "x-amz-copy-source: box%2Fprivate%2Fx", &[("/private%2Fx", 1)]),
            (own, "x-amz-copy-source: box", &[("/", 1)]),
            (own, "x-amz-rename-source: private/x", &[("/private/x", 2)]),
            (own, "x-amz-rename-source: box/private/x", &[("/box/private/x", 2), ("/private/x", 2)]),
            (own, "x-own: box/a", &[]),
            (common, "x-amz-copy-source: box/private/x", &[("/box/private/x", 1)]),
            (common, "x-amz-copy-source: s3/private/x", &[("/s3/private/x", 1)]),
            (common, "x-amz-rename-source: private/x", &[("/private/x", 2), ("/mine/private/x", 2)]),
            (custom, "x-amz-copy-source: box/private/x", &[("/box/private/x", 1)]),
            (of_custom, "x-amz-copy-source: box/private/x", &[("/box/private/x", 1), ("/private/x", 1)]),
            (of_custom, "x-amz-copy-source: bo/private/x", &[("/bo/private/x", 1)]),
            (
                of_custom,
                "x-amz-copy-source: box.minio.example.com/x",
                &[("/box.minio.example.com/x", 1), ("/x", 1)],
            ),
        ] {
            let want: Vec<(String, usize)> =
                want.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect();
            assert_eq!(of(host, header), Ok(want), "{host} {header}");
        }
        for (host, header, word) in [
            (own, "x-amz-copy-source: pub/x", "not in the bucket box"),
            (own, "x-amz-copy-source: boxes/x", "not in the bucket box"),
            (own, "x-amz-copy-source: Box/x", "not in the bucket box"),
            (own, "x-amz-copy-source: box%20/x", "not in the bucket box"),
            (own, "x-amz-copy-source: %2Fbox/x", "slashes in a row"),
            (own, "x-amz-copy-source: box/a/../x", "segment"),
            (own, "x-amz-copy-source: arn:aws:s3:::box/x", "ARN"),
            (own, "x-amz-rename-source: %61rn:aws:s3:::box/x", "ARN"),
        ] {
            let got = of(host, header);
            assert!(got.clone().is_err_and(|why| why.contains(word)), "{host} {header}: {got:?}");
        }
    }
}
