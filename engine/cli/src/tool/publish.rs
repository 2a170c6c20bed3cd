//! `hotcell tool publish`: a plugin to a registry, and its signature.

use std::path::{Path, PathBuf};

use hotcell_plugins::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::install::cosign::PrivateKey;
use hotcell_tools::install::manifest;
use hotcell_tools::install::sources::Source;
use hotcell_tools::install::sources::oci::Artifact;
use hotcell_tools::install::sources::publish::publish as send;
use serde_json::{Value, json};

use crate::args::Common;
use crate::context::{configuration, current_folder};
use crate::exit;
use crate::exit::printed;

/// Maximum size of one of Docker's configuration files, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Sends a plugin's folder or a component to a registry.
pub async fn publish(
    common: &Common,
    what: &Path,
    reference: &str,
    key: Option<&Path>,
) -> Result<u8, ErrorReport> {
    let bad = |field: &str, why: String| ErrorReport::new(Code::InvalidValue, why).field(field.to_owned());
    let artifact = Artifact::parse(reference).map_err(|e| bad("REFERENCE", e.to_string()))?;
    let key = match key {
        Some(path) => Some(PrivateKey::read(&current_folder().join(path)).map_err(|why| bad("--sign", why))?),
        None => None,
    };
    let place = built(&current_folder().join(what));
    let source =
        Source::parse(place.as_os_str(), &current_folder()).map_err(|e| bad("SOURCE", e.to_string()))?;
    let fetched = source.fetch().await.map_err(|e| bad("SOURCE", e.to_string()))?;
    // A component without tools could not be added.
    let program = std::env::current_exe().map_err(|e| {
        ErrorReport::new(Code::Internal, format!("hotcell's own program cannot be found: {e}"))
    })?;
    let caller = Caller::new(&configuration(common, None)?, program)?;
    let described = caller.hosts().describe(&fetched.wasm).await;
    caller.close().await;
    described.map_err(|e| bad("SOURCE", format!("{}: {e}", place.display())))?;
    let credentials = docker().and_then(|text| credentials(&text, artifact.host(), artifact.registry()));
    let published = send(&artifact, &fetched, key.as_ref(), credentials.as_deref()).await;
    let published = published.map_err(|e| bad("REFERENCE", e.to_string()))?;
    if common.json {
        let told = json!({ "published": published.pinned, "signature": published.signature });
        return Ok(printed(exit::print_json(&told), 0));
    }
    let key = if published.signature.is_some() { " --key PUBLIC.pem" } else { "" };
    let told = format!("{}\nto add it: hotcell tool add {}{key}\n", published.pinned, published.pinned);
    Ok(printed(exit::print_text(&told), 0))
}

/// Of a folder that a plugin is written in, what was built of it.
fn built(what: &Path) -> PathBuf {
    let has_component = |folder: &Path| {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().extension().is_some_and(|e| e == "wasm"))
    };
    let out = what.join("out");
    if what.join(manifest::FILE).is_file() && !has_component(what) && out.is_dir() {
        out
    } else {
        what.to_owned()
    }
}

/// Docker's configuration, which other tools for registries read too.
fn docker() -> Option<String> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker")))?;
    hotcell_tools::install::sources::file::text(&folder.join("config.json"), MAX_CONFIG_BYTES).ok()
}

/// `NAME:PASSWORD` in base64 of a registry, by the host that is asked or the one that was named.
fn credentials(text: &str, host: &str, registry: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let auths = value.get("auths")?.as_object()?;
    let of =
        |key: &str| auths.get(key)?.get("auth")?.as_str().filter(|auth| !auth.is_empty()).map(str::to_owned);
    let keys =
        [host.to_owned(), registry.to_owned(), format!("https://{host}"), format!("https://{host}/v1/")];
    keys.iter().find_map(|key| of(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_the_registry() {
        let text = r#"{"auths":{"ghcr.io":{"auth":"YTpi"},"https://index.docker.io/v1/":{"auth":"Yzpk"},"empty.org":{},"none.org":{"auth":""}}}"#;
        for (host, registry, found) in [
            ("ghcr.io", "ghcr.io", Some("YTpi")),
            ("index.docker.io", "docker.io", Some("Yzpk")),
            ("empty.org", "empty.org", None),
            ("none.org", "none.org", None),
            ("other.org", "other.org", None),
        ] {
            assert_eq!(credentials(text, host, registry).as_deref(), found, "{host}");
        }
        for text in ["", "{}", "[]", r#"{"auths":7}"#] {
            assert_eq!(credentials(text, "ghcr.io", "ghcr.io"), None, "{text}");
        }
    }

    #[test]
    fn plugin_folder_publishes_built_output() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(built(dir.path()), dir.path());
        std::fs::write(dir.path().join("plugin.toml"), "").unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        assert_eq!(built(dir.path()), dir.path().join("out"));
        std::fs::write(dir.path().join("a.wasm"), "").unwrap();
        assert_eq!(built(dir.path()), dir.path());
    }
}
