//! Shows the certificate of a run's own authority where clients look for those that they trust: `/etc/ssl/certs` inside is a copy of the
//! host's with this certificate added, and variables name it to clients that look elsewhere. The host's own folder is only read.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hotcell_egress::route::authority::HASH_LINK;
use hotcell_egress::route::{RunAuthority, java};
use hotcell_sandbox::policy::{Bind, Policy};
use hotcell_sandbox::temporary;
use tempfile::TempDir;

/// Folder of certificates, inside and on the host.
const FOLDER: &str = "/etc/ssl/certs";
/// Bundle in it: Debian's name, at which most clients are built to look.
const BUNDLE: &str = "ca-certificates.crt";
/// The run's own certificate in it.
const OWN: &str = "hotcell-run.pem";
/// Java's store in it.
const JAVA: &str = "java/cacerts";
/// Bundles of the host, the first that exists counts: Debian and Alpine, Fedora, openSUSE, BSD.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Maximum size in bytes of a file of the host that is copied.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of entries of the host's folder that are copied; Debian's has about 300.
const MAX_ENTRIES: usize = 4096;
/// Variables whose file replaces a client's own bundle.
const BUNDLE_VARIABLES: [&str; 8] = [
    "AWS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    // https://grpc.github.io/grpc/core/md_doc_environment_variables.html
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];
/// Variables whose file is added to a client's own bundle.
const ADDED_VARIABLES: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// Root file system of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The host's `/usr`.
    Host,
    /// An image: its own certificates are not read, and the host's bundle takes their place.
    Image,
}

/// Lets a policy show an authority's certificate; returns the folder that is shown, which has to stay until the run's end. The caller's
/// variables take precedence over those that are set here.
///
/// # Errors
/// A sentence, when the folder cannot be made, or the policy shows something else at its place.
pub fn show(authority: &RunAuthority, policy: &mut Policy, root: Root) -> Result<TempDir, String> {
    let place = Path::new(FOLDER);
    if let Some(bind) = policy.job.binds.iter().find(|bind| bind.inside.starts_with(place)) {
        let option = if bind.writable { "‹rw›" } else { "‹ro›" };
        return Err(format!(
            "{option} {}: {FOLDER} inside has the certificate by which connections are intercepted; name another place",
            bind.inside.display()
        ));
    }
    let folder = made(authority, root)
        .map_err(|e| format!("certificates cannot be kept for the run: {e}; make room in TMPDIR"))?;
    policy.job.binds.push(Bind {
        host: folder.path().join("certs"),
        inside: place.to_owned(),
        writable: false,
        copy_on_write: false,
        identity: None,
    });
    let named = BUNDLE_VARIABLES
        .map(|name| (name, BUNDLE))
        .into_iter()
        .chain(ADDED_VARIABLES.map(|name| (name, OWN)));
    let variables = named.map(|(name, file)| (OsString::from(name), place.join(file).into_os_string()));
    policy.job.env.splice(0..0, variables);
    Ok(folder)
}

/// A folder with `certs`, which is to be shown.
fn made(authority: &RunAuthority, root: Root) -> io::Result<TempDir> {
    let folder = temporary::folder()?;
    let certs = folder.path().join("certs");
    fs::create_dir(&certs)?;
    let own = authority.pem();
    write(&certs, OWN, own.as_bytes())?;
    symlink(OWN, certs.join(HASH_LINK))?;
    let bundle = BUNDLES.iter().find_map(|path| read(Path::new(path)));
    let mut bundle = bundle.unwrap_or_default();
    if bundle.last().is_some_and(|last| *last != b'\n') {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(own.as_bytes());
    write(&certs, BUNDLE, &bundle)?;
    if root == Root::Host {
        copied(Path::new(FOLDER), &certs)?;
        let java = read(&Path::new(FOLDER).join(JAVA));
        if let Some(store) =
            java.and_then(|store| java::with_certificate(&store, "hotcell-run", authority.certificate()))
        {
            fs::create_dir(certs.join("java"))?;
            open(&certs.join("java"))?;
            write(&certs, JAVA, &store)?;
        }
    }
    open(&certs)?;
    Ok(folder)
}

/// Copies links and files of a folder; those that exist already stay.
fn copied(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from).into_iter().flatten().flatten().take(MAX_ENTRIES) {
        let name = entry.file_name();
        let place = to.join(&name);
        if place.symlink_metadata().is_ok() {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => symlink(fs::read_link(entry.path())?, place)?,
            Ok(kind) if kind.is_file() => {
                if let Some(content) = read(&entry.path()) {
                    write(to, &name, &content)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A file of the host, unless it is missing or too large.
fn read(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_FILE_BYTES).then_some(content)
}

/// Writes a file that everybody can read: a sandbox may have another user id on the host.
fn write(folder: &Path, name: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(folder.join(name))?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(content)
}

/// Lets everybody enter a folder.
fn open(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use hotcell_egress::Secret;
    use hotcell_egress::route::rules::RequestRules;
    use hotcell_egress::route::{Route, Scheme};

    use super::*;

    fn authority() -> RunAuthority {
        let secret = Secret::new(b"t0p-s3cret/value".to_vec()).unwrap();
        let binding = "api.test".parse().unwrap();
        let route = Route::new("gh", binding, &Scheme::Bearer, &secret, RequestRules::default(), None);
        RunAuthority::new([&route.unwrap()]).unwrap()
    }

    #[test]
    fn certificate_is_in_bundle_and_by_its_hash_and_no_key_is() {
        let authority = authority();
        for root in [Root::Host, Root::Image] {
            let mut policy = Policy::new("true").env("PIP_CERT", "/mine");
            let folder = show(&authority, &mut policy, root).unwrap();
            let certs = folder.path().join("certs");
            let own = authority.pem();
            assert_eq!(fs::read_to_string(certs.join(HASH_LINK)).unwrap(), own);
            let bundle = fs::read_to_string(certs.join(BUNDLE)).unwrap();
            assert!(bundle.ends_with(&own), "{root:?}");
            let host = read(Path::new(BUNDLES[0])).unwrap_or_default();
            assert!(bundle.len() >= own.len() + host.len());
            let all = fs::read_dir(&certs).unwrap().count();
            let there = fs::read_dir(FOLDER).map(Iterator::count).unwrap_or_default();
            assert!(all >= if root == Root::Host { there } else { 3 }, "{root:?}: {all}");
            for entry in fs::read_dir(&certs).unwrap().flatten() {
                let text = fs::read(entry.path()).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&text).contains("PRIVATE KEY"), "{entry:?}");
            }
            assert_eq!(policy.job.binds[0].inside, Path::new(FOLDER));
            let set = |name: &str| {
                policy.job.env.iter().rev().find(|(known, _)| known == name).map(|(_, v)| v.clone())
            };
            assert_eq!(set("SSL_CERT_FILE").unwrap(), "/etc/ssl/certs/ca-certificates.crt");
            assert_eq!(set("AWS_CA_BUNDLE").unwrap(), "/etc/ssl/certs/ca-certificates.crt");
            assert_eq!(set("NODE_EXTRA_CA_CERTS").unwrap(), "/etc/ssl/certs/hotcell-run.pem");
            assert_eq!(set("PIP_CERT").unwrap(), "/mine");
        }
    }

    #[test]
    fn place_of_certificates_is_not_shared() {
        let mut policy = Policy::new("true").read_only("/usr", "/etc/ssl/certs/x");
        let error = show(&authority(), &mut policy, Root::Host).unwrap_err();
        assert!(error.contains("‹ro› /etc/ssl/certs/x"), "{error}");
    }
}
