//! Images built by hand from the host's static busybox: a layout as in the OCI specification.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::find;

/// `sha256:` and the hexadecimal digest.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

/// Architecture of this machine, as images name it.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// An entry of an archive.
#[derive(Clone, Debug)]
pub enum Entry<'a> {
    /// A program or file with its mode.
    File(u32, &'a [u8]),
    /// A folder.
    Folder,
    /// A symbolic link with its target.
    Link(&'a str),
}

/// An archive with these entries.
#[must_use]
pub fn archive(entries: &[(&str, Entry<'_>)]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, entry) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match entry {
            Entry::File(mode, bytes) => {
                header.set_mode(*mode);
                header.set_size(bytes.len() as u64);
                out.append_data(&mut header, name, *bytes).expect("written");
            }
            Entry::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                out.append_data(&mut header, name, std::io::empty()).expect("written");
            }
            Entry::Link(says) => {
                header.set_entry_type(tar::EntryType::Symlink);
                out.append_link(&mut header, name, says).expect("written");
            }
        }
    }
    out.into_inner().expect("written")
}

/// Two layers: a shell with its commands, and a file that the second layer deletes and replaces. `None`
/// without a static busybox.
#[must_use]
pub fn layers() -> Option<[Vec<u8>; 2]> {
    let busybox = std::fs::read(find("busybox")?).ok()?;
    let mut entries = vec![
        ("usr/bin/busybox", Entry::File(0o4755, &busybox[..])),
        ("bin", Entry::Link("usr/bin")),
        ("etc/old", Entry::File(0o600, b"old\n")),
        ("etc/which", Entry::File(0o644, b"lower\n")),
        ("opt/gone/x", Entry::File(0o644, b"x")),
        ("srv", Entry::Folder),
    ];
    let names: Vec<String> =
        ["sh", "cat", "ls", "id", "env", "touch", "echo"].iter().map(|n| format!("usr/bin/{n}")).collect();
    entries.extend(names.iter().map(|name| (name.as_str(), Entry::Link("busybox"))));
    let upper = [
        ("etc/.wh.old", Entry::File(0o644, b"")),
        ("etc/which", Entry::File(0o644, b"upper\n")),
        ("opt/.wh..wh..opq", Entry::File(0o644, b"")),
        ("opt/new", Entry::File(0o644, b"")),
    ];
    Some([archive(&entries), archive(&upper)])
}

/// Writes a layout of these layers into a folder; returns the path of its manifest.
pub fn layout(folder: &Path, layers: &[Vec<u8>]) -> PathBuf {
    std::fs::create_dir_all(folder.join("blobs/sha256")).expect("made");
    let put = |bytes: &[u8]| -> Value {
        let digest = digest(bytes);
        std::fs::write(blob(folder, &digest), bytes).expect("written");
        json!({ "mediaType": "application/octet-stream", "digest": digest, "size": bytes.len() })
    };
    let config = json!({
        "architecture": architecture(), "os": "linux",
        "config": { "Env": ["PATH=/bin", "GREETING=hello", "HOME=/root"] },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| digest(l)).collect::<Vec<_>>() },
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put(config.to_string().as_bytes()),
        "layers": layers.iter().map(|l| put(l)).collect::<Vec<_>>(),
    });
    let row = put(manifest.to_string().as_bytes());
    let name = blob(folder, row["digest"].as_str().expect("a digest"));
    let index = json!({ "schemaVersion": 2, "manifests": [row] });
    std::fs::write(folder.join("index.json"), index.to_string()).expect("written");
    std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("written");
    name
}

/// Path of a blob.
#[must_use]
pub fn blob(folder: &Path, digest: &str) -> PathBuf {
    folder.join("blobs/sha256").join(digest.trim_start_matches("sha256:"))
}
