//! Finds the place for a rustc flag that preserves the project's own flags. cargo uses the flags of all
//! matching targets together, or else those of the build, and joins lists with equal keys.
//! <https://doc.rust-lang.org/cargo/reference/config.html#buildrustflags>

use toml::{Table, Value};

/// Value of `--config` that adds a flag for every program built here, beside those in a project's
/// `.cargo/config.toml`.
pub fn adding(flag: &str, config: &str) -> String {
    let config: Table = config.parse().unwrap_or_default();
    let build = config.get("build").and_then(|build| build.get("rustflags"));
    let targets = config.get("target").and_then(Value::as_table);
    let with_flags: Vec<&String> = targets
        .into_iter()
        .flatten()
        .filter(|(_, target)| target.get("rustflags").is_some())
        .map(|(name, _)| name)
        .collect();
    // A text and a list cannot be joined.
    if with_flags.is_empty() && !build.is_some_and(Value::is_str) {
        return format!("build.rustflags={}", list(&[flag.to_owned()]));
    }
    let mut flags = match build {
        Some(Value::String(words)) => words.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(words)) => words.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    if with_flags.iter().any(|target| may_be_here(target)) {
        flags.clear();
    }
    flags.push(flag.to_owned());
    format!("target.\"cfg(all())\".rustflags={}", list(&flags))
}

/// True when a target's name, or its condition, may match this machine.
fn may_be_here(target: &str) -> bool {
    match target.strip_prefix("cfg(") {
        None => target.starts_with(std::env::consts::ARCH) && target.contains("linux"),
        Some(says) => {
            let elsewhere = ["windows", "macos", "apple", "android", "wasm"];
            says.contains("not(") || !elsewhere.iter().any(|word| says.contains(word))
        }
    }
}

fn list(flags: &[String]) -> String {
    Value::from(flags.to_vec()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_rustflags_are_preserved() {
        let here = format!("[target.{}-unknown-linux-gnu]\n", std::env::consts::ARCH);
        let all = |flags: &str| format!("target.\"cfg(all())\".rustflags=[{flags}]");
        for (config, want) in [
            (String::new(), "build.rustflags=[\"-Cx\"]".to_owned()),
            ("not toml [".to_owned(), "build.rustflags=[\"-Cx\"]".to_owned()),
            ("[build]\nrustflags = [\"-g\"]".to_owned(), "build.rustflags=[\"-Cx\"]".to_owned()),
            ("[build]\nrustflags = \"-g --cfg  a\"".to_owned(), all("\"-g\", \"--cfg\", \"a\", \"-Cx\"")),
            // Only flags replace flags.
            (
                format!("{here}linker = \"lld\"\n[build]\nrustflags = [\"-g\"]"),
                "build.rustflags=[\"-Cx\"]".to_owned(),
            ),
            (format!("{here}rustflags = [\"-a\"]\n[build]\nrustflags = [\"-g\"]"), all("\"-Cx\"")),
            (
                "target.'cfg(unix)'.rustflags = [\"-a\"]\nbuild.rustflags = [\"-g\"]".to_owned(),
                all("\"-Cx\""),
            ),
            (
                "[target.'cfg(windows)']\nrustflags = [\"-a\"]\n[build]\nrustflags = [\"-g\"]".to_owned(),
                all("\"-g\", \"-Cx\""),
            ),
            (
                "[target.'cfg(not(windows))']\nrustflags = [\"-a\"]\n[build]\nrustflags = [\"-g\"]"
                    .to_owned(),
                all("\"-Cx\""),
            ),
            ("[target.wasm32-wasip2]\nrustflags = \"-a\"".to_owned(), all("\"-Cx\"")),
        ] {
            assert_eq!(adding("-Cx", &config), want, "{config}");
        }
    }
}
