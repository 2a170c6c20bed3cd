//! Arguments about the sandbox of a run or of tests.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_config::network::NetworkSetting;
use hotcell_config::{EnvSetting, Mode, RunSettings, SecretOption, SecretSettings, parse_layers};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::{BindText, LimitSettings, Span};
use hotcell_sandbox::units::parse_duration;

use super::{LIMITS, path};

/// Options of every command that makes a sandbox.
#[derive(Args, Clone, Debug, Default)]
pub struct SandboxArgs {
    /// standard, strict, landlock-only or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Show a file or folder, read-only
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub ro: Vec<BindText>,
    /// Show a file or folder, writable on the host itself
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub rw: Vec<BindText>,
    /// Run in an image instead of the host's /usr (hotcell image list)
    #[arg(long, value_name = "NAME", help_heading = "What it sees")]
    pub image: Option<String>,
    /// Show a toolchain's folder, and put it on PATH
    #[arg(long, value_name = "DIR", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(path))]
    pub toolchain: Vec<PathBuf>,
    /// Set a variable, or pass one through
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| variable(&text)))]
    pub env: Vec<EnvSetting>,
    /// Reachable hosts (*.NAME, NAME=ADDRESS) [default: none]
    #[arg(long, value_name = "HOST:PORT,…", help_heading = "What it sees", value_parser = network)]
    pub network: Option<NetworkSetting>,
    /// Token that stays outside: NAME=env:VARIABLE@HOST (or file:, fd:)
    #[arg(long, value_name = "SECRET", help_heading = "What it sees")]
    pub secret: Vec<SecretOption>,
    /// Set the base-URL variables of usual clients (OPENAI_BASE_URL, PIP_INDEX_URL, …) for these secrets
    #[arg(long, help_heading = "What it sees", hide = true)]
    pub secret_env: bool,
    /// Let programs use these secrets without a base URL: TLS to their hosts ends at the proxy, with a certificate of the run's own
    #[arg(long, help_heading = "What it sees", hide = true)]
    pub intercept: bool,
    /// Install packages of lock files, once, from their registries only
    #[arg(long, help_heading = "What it sees")]
    pub deps: bool,
    /// Do not record this run in the history (hotcell runs list)
    #[arg(long, hide = true)]
    pub no_history: bool,
    /// Scan it first: enforce, report (but run) or off [default: enforce]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub guard: Option<Mode>,
    /// Your own rules for the guard
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Refuse to run without these layers
    #[arg(long, value_name = "LAYER,…", help_heading = "Limits", value_parser = parse_layers)]
    pub require: Vec<std::collections::BTreeSet<hotcell_sandbox::Layer>>,
}

/// Limits of a run.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = LIMITS)]
pub struct LimitArgs {
    /// Memory of all processes, without scratch [default: 512M, test 2G]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    pub(super) memory: Option<Bytes>,
    /// Wall-clock time [default: 60s, test 10m]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration)]
    pub(super) timeout: Option<Duration>,
    /// CPU time of all processes, or none [default: 60s, test none]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME")]
    pub(super) cpu_time: Option<Span>,
    /// Processes and threads [default: 64, test 512]
    #[arg(long = "max-processes", alias = "processes", allow_negative_numbers = true, value_name = "N")]
    pub(super) processes: Option<u32>,
    /// Bytes written to scratch [default: 256M, test 4G]
    #[arg(long = "max-disk", alias = "disk", allow_negative_numbers = true, value_name = "SIZE")]
    pub(super) disk: Option<Bytes>,
    /// Files made in scratch [default: 65536, test 1000000]
    #[arg(long = "max-files", alias = "files", allow_negative_numbers = true, value_name = "N")]
    pub(super) files: Option<u64>,
    /// Captured bytes of each output stream [default: 1M, test 4M]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    pub(super) capture: Option<Bytes>,
    /// Bytes of both output streams together [default: 64M, test 256M]
    #[arg(long = "max-output", alias = "output", allow_negative_numbers = true, value_name = "SIZE")]
    pub(super) output: Option<Bytes>,
    /// Processors kept busy at once, such as 1.5
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = processors)]
    pub(super) cpus: Option<f64>,
    /// Descriptors per process [default: 1024, as ordinary user 768]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub(super) open_files: Option<u64>,
}

impl LimitArgs {
    /// Converts the options to settings.
    pub fn settings(&self) -> LimitSettings {
        LimitSettings {
            memory: self.memory,
            timeout: self.timeout,
            cpu_time: self.cpu_time,
            processes: self.processes,
            disk: self.disk,
            files: self.files,
            capture: self.capture,
            output: self.output,
            cpus: self.cpus,
            open_files: self.open_files,
        }
    }
}

impl SandboxArgs {
    /// Converts the options to settings; relative paths are resolved against `cwd`.
    pub fn settings(&self, cwd: &Path) -> RunSettings {
        let binds = [(&self.ro, false), (&self.rw, true)]
            .into_iter()
            .flat_map(|(binds, writable)| binds.iter().map(move |bind| bind.at(cwd, writable)))
            .collect();
        RunSettings {
            secrets: SecretSettings::of_options(&self.secret, self.secret_env, self.intercept),
            profile: self.profile.clone(),
            network: self.network.clone(),
            proc: None,
            require: self.require.iter().flatten().copied().collect(),
            limits: self.limits.settings(),
            env: self.env.clone(),
            image: self.image.clone(),
            binds,
            toolchains: self.toolchain.iter().map(|t| cwd.join(t)).collect(),
            guard: self.guard,
            rules: self.rules.as_ref().map(|r| cwd.join(r)),
        }
    }
}

pub(super) fn mode(text: &str) -> Result<Mode, String> {
    text.parse()
}

pub(super) fn network(text: &str) -> Result<NetworkSetting, String> {
    match text.parse() {
        Ok(NetworkSetting::Off) => {
            Err("off is for profiles and configuration; none is a private loopback".to_owned())
        }
        parsed => parsed.map_err(|e| e.to_string()),
    }
}

pub(super) fn variable(text: &OsStr) -> Result<EnvSetting, String> {
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    };
    if name.is_empty() {
        return Err("a variable needs a name; write NAME=VALUE, or NAME to pass it through".to_owned());
    }
    let name = OsStr::from_bytes(name).to_owned();
    Ok(match value {
        Some(value) => EnvSetting::Set(name, OsString::from_vec(value.to_vec())),
        None => EnvSetting::Pass(name),
    })
}

/// Most processors that a limit can name: the kernel has at most 8,192 (`CONFIG_NR_CPUS`), and quotas of cgroups overflow far above.
const MAX_PROCESSORS: f64 = 8192.0;

/// Parses a share of processors. A share that is too small is refused with the other limits.
pub(super) fn processors(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| !number.is_nan());
    let number = number.ok_or_else(|| "is not a number; write one such as 1.5".to_owned())?;
    match number <= MAX_PROCESSORS {
        true => Ok(number),
        false => Err(format!("is more than {MAX_PROCESSORS} processors; write a number such as 1.5")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_as_people_write_them() {
        let set = |n: &str, v: &str| Some(EnvSetting::Set(n.into(), v.into()));
        for (text, want) in [
            ("A=b", set("A", "b")),
            ("A=", set("A", "")),
            ("A=b=c", set("A", "b=c")),
            ("A", Some(EnvSetting::Pass("A".into()))),
            ("=b", None),
            ("", None),
        ] {
            assert_eq!(variable(OsStr::new(text)).ok(), want, "{text}");
        }
    }
}
