//! Reads a Debian package: its name and version, its maintainer scripts, and its files.

use std::io::{self, Read};
use std::path::Path;

use super::ar::Ar;
use super::control::paragraphs;
use crate::stream::Plain;

/// Maximum size in bytes of the uncompressed control archive; Debian's own are below 1 MiB.
const MAX_CONTROL_BYTES: u64 = 32 << 20;
/// Maximum size of the control file, in bytes.
const MAX_CONTROL_FILE_BYTES: u64 = 1 << 20;
/// Maximum size of a package's uncompressed files, in bytes.
const MAX_DATA_BYTES: u64 = 16 << 30;
/// Maximum compression ratio of a package; documentation and tables reach some hundreds.
const MAX_RATIO: u64 = 2000;

/// Metadata of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// Maintainer scripts, which dpkg would run as root during installation and hotcell does not run.
    pub scripts: Vec<String>,
}

/// A package that is being read: its metadata, then its files as a tar archive.
pub struct Deb<R: Read> {
    /// Metadata of the package.
    pub about: About,
    data: Plain<Ar<R>>,
}

impl<R: Read> Deb<R> {
    /// Reads a package up to its files.
    ///
    /// # Errors
    /// When the data is not a package of format 2, or is cut off.
    pub fn open(from: R) -> io::Result<Self> {
        let mut ar = Ar::new(from)?;
        let first = ar.next_member()?.ok_or_else(|| bad("is empty"))?;
        let mut format = String::new();
        (&mut ar).take(16).read_to_string(&mut format)?;
        if first.name != "debian-binary" || !format.starts_with("2.") {
            return Err(bad("is not a Debian package of format 2"));
        }
        let mut about = None;
        while let Some(member) = ar.next_member()? {
            if member.name.starts_with("control.tar") {
                about = Some(read_control(Plain::new(&mut ar, MAX_RATIO, MAX_CONTROL_BYTES)?)?);
            } else if member.name.starts_with("data.tar") {
                let about = about.ok_or_else(|| bad("has files before it says what it is"))?;
                return Ok(Self { about, data: Plain::new(ar, MAX_RATIO, MAX_DATA_BYTES)? });
            } else if !member.name.starts_with('_') {
                return Err(bad("has a member that packages do not have"));
            }
        }
        Err(bad("has no files"))
    }

    /// The files, as a tar archive.
    pub fn files(&mut self) -> &mut impl Read {
        &mut self.data
    }

    /// Reads the rest, so that truncation or damage after the last file is noticed.
    ///
    /// # Errors
    /// When the rest is cut off or damaged.
    pub fn finish(self) -> io::Result<()> {
        self.data.finish().map(|_| ())
    }
}

fn read_control(from: impl Read) -> io::Result<About> {
    let mut archive = tar::Archive::new(from);
    let (mut text, mut scripts) = (None, Vec::new());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        match path.strip_prefix("./").unwrap_or(&path).to_str() {
            Some("control") => {
                let mut read = String::new();
                if (&mut entry).take(MAX_CONTROL_FILE_BYTES + 1).read_to_string(&mut read)? as u64
                    > MAX_CONTROL_FILE_BYTES
                {
                    return Err(bad("has a control file without end"));
                }
                text = Some(read);
            }
            Some(name @ ("preinst" | "postinst")) => scripts.push(name.to_owned()),
            _ => {}
        }
    }
    let text = text.ok_or_else(|| bad("has no control file"))?;
    let paragraphs =
        paragraphs(&text).map_err(|line| bad(&format!("has a control file with a bad line {line}")))?;
    let field = |name: &str| {
        let value = paragraphs.first().and_then(|p| p.get(name)).filter(|v| !v.is_empty());
        value.map(str::to_owned).ok_or_else(|| bad(&format!("does not say its {name}")))
    };
    scripts.sort();
    Ok(About { name: field("Package")?, version: field("Version")?, scripts })
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Opens a package's file.
///
/// # Errors
/// As [`Deb::open`], and when the file cannot be read.
pub fn open(path: &Path) -> io::Result<Deb<io::BufReader<std::fs::File>>> {
    Deb::open(io::BufReader::with_capacity(1 << 16, std::fs::File::open(path)?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::debian::ar::tests::archive;
    use std::io::Write as _;

    /// Makes a tar archive of entries: kind, path, link target or content.
    pub fn tar_of(entries: &[(u8, &str, &str)]) -> Vec<u8> {
        let mut out = tar::Builder::new(Vec::new());
        for (kind, path, text) in entries {
            let mut header = tar::Header::new_gnu();
            let content = if *kind == b'0' { text.as_bytes() } else { b"" };
            header.set_entry_type(tar::EntryType::new(*kind));
            header.set_mode(0o6755);
            header.set_mtime(7);
            header.set_size(content.len() as u64);
            // Written to the raw fields, to allow hostile names.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            if *kind != b'0' {
                header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
            }
            header.set_cksum();
            out.append(&header, content).unwrap();
        }
        out.into_inner().unwrap()
    }

    pub fn control(name: &str) -> Vec<u8> {
        let text = format!("Package: {name}\nVersion: 1.0-1\nArchitecture: all\n");
        tar_of(&[
            (b'5', "./", ""),
            (b'0', "./control", &text),
            (b'0', "./postinst", "#!/bin/sh\n"),
            (b'0', "./md5sums", ""),
        ])
    }

    pub fn package(name: &str, entries: &[(u8, &str, &str)]) -> Vec<u8> {
        let mut packed =
            lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
        packed.write_all(&tar_of(entries)).unwrap();
        let data = packed.finish().unwrap();
        archive(&[("debian-binary", b"2.0\n"), ("control.tar", &control(name)), ("data.tar.xz", &data)])
    }

    #[test]
    fn deb_package_yields_metadata_and_files() {
        let bytes = package("dash", &[(b'5', "./bin/", ""), (b'0', "./bin/dash", "hello")]);
        let mut deb = Deb::open(&bytes[..]).unwrap();
        let about = About { name: "dash".into(), version: "1.0-1".into(), scripts: vec!["postinst".into()] };
        assert_eq!(deb.about, about);
        let mut tar = Vec::new();
        deb.files().read_to_end(&mut tar).unwrap();
        assert_eq!(tar, tar_of(&[(b'5', "./bin/", ""), (b'0', "./bin/dash", "hello")]));
        for length in 0..bytes.len() {
            let result = Deb::open(&bytes[..length]).and_then(|mut deb| {
                io::copy(deb.files(), &mut io::sink())?;
                deb.finish()
            });
            // The padding byte of the last member may be missing.
            assert!(result.is_err() || length + 1 == bytes.len(), "{length} of {}", bytes.len());
        }
    }

    #[test]
    fn invalid_deb_package_is_refused() {
        let control = control("a");
        let nameless = tar_of(&[(b'0', "./control", "Version: 1\n")]);
        let broken = tar_of(&[(b'0', "./control", "Version\n")]);
        let without = tar_of(&[]);
        let head = ("debian-binary", &b"2.0\n"[..]);
        for (members, word) in [
            (&[][..], "empty"),
            (&[("data.tar", &b""[..])], "format 2"),
            (&[("debian-binary", b"3.0\n")], "format 2"),
            (&[head, ("data.tar", b"")], "before it says"),
            (&[head, ("control.tar", &control)], "no files"),
            (&[head, ("other", b"")], "do not have"),
            (&[head, ("control.tar", &nameless), ("data.tar", b"")], "does not say its Package"),
            (&[head, ("control.tar", &broken), ("data.tar", b"")], "bad line 1"),
            (&[head, ("control.tar", &without), ("data.tar", b"")], "no control file"),
        ] {
            let error = Deb::open(&archive(members)[..]).err().unwrap().to_string();
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
