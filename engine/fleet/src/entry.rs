//! Entry for NativeLink's `entrypoint`: its worker runs this in place of each action's command, in the action's work
//! directory, and reads the side-channel file afterwards. Pure.
//!
//! Source: `LocalWorkerConfig` and `EnvironmentSource` in `nativelink-config/src/cas_server.rs`, and
//! `process_side_channel_file` in `nativelink-worker/src/running_actions_manager.rs` of TraceMachina/nativelink.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;

use crate::error::FleetError;
use crate::verdict;

/// Variable with the path of the side-channel file; `additional_environment` of the worker's configuration sets it to
/// `"side_channel_file"`.
pub const SIDE_CHANNEL: &str = "HOTCELL_SIDE_CHANNEL_FILE";
/// Variable with the action's time limit in milliseconds: `"timeout_millis"` there.
pub const TIMEOUT: &str = "HOTCELL_TIMEOUT_MILLIS";

/// Failure that NativeLink knows: the action took too long.
const TIMED_OUT: &str = "timeout";
/// Failure that it does not know: it then fails the action by an internal error, in place of a result with an exit code.
/// There is no word for a worker's own failure.
const INFRASTRUCTURE: &str = "infrastructure";

/// Answer to NativeLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Exit status of the entry.
    pub exit_code: u8,
    /// Text of the side-channel file; `None` for no file.
    pub side_channel: Option<String>,
    /// Line for the action's standard error; may be empty.
    pub message: String,
}

/// Tells how a run ended.
#[must_use]
pub fn end(report: &RunReport) -> End {
    let verdict = verdict::of_report(report);
    let failure = match report.cause {
        Cause::WallLimit => Some(TIMED_OUT),
        Cause::Internal | Cause::Refused | Cause::Cancelled => Some(INFRASTRUCTURE),
        _ => None,
    };
    let says_itself = matches!(report.cause, Cause::Exited | Cause::Signaled);
    End {
        exit_code: verdict.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125),
        side_channel: failure.map(|word| format!("{{\"failure\":\"{word}\"}}\n")),
        message: if says_itself { String::new() } else { verdict.message },
    }
}

/// Checks the path of the side-channel file. An action's own variables come after those of the operator, so a client can
/// put any path here: it has to be a name of 32 hexadecimal digits, as NativeLink makes them, in a folder above the work
/// directory; and the caller creates it anew.
///
/// # Errors
/// [`FleetError`] of a wrong request.
pub fn side_channel(path: &Path, work: &Path) -> Result<PathBuf, FleetError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_name = name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let is_above = path.parent().is_some_and(|parent| parent != work && work.starts_with(parent));
    if path.is_absolute() && is_name && is_above {
        return Ok(path.to_owned());
    }
    Err(FleetError::request(format!(
        "{SIDE_CHANNEL} is not a file that NativeLink makes for this action: {}",
        path.display()
    )))
}

/// Time limit of an action: the client's, and never above the operator's.
///
/// # Errors
/// [`FleetError`] of a wrong request: a text that is not a number of milliseconds.
pub fn timeout(text: &str, operator: Duration) -> Result<Duration, FleetError> {
    let millis: u64 = text
        .parse()
        .map_err(|_| FleetError::request(format!("{TIMEOUT} is not a number of milliseconds: {text:?}")))?;
    Ok(if millis == 0 { operator } else { Duration::from_millis(millis).min(operator) })
}

/// True when the process was started by the dynamic linker, from `/proc/self/auxv`: then variables of a client, such as
/// `LD_PRELOAD`, had code run in it before its first line.
#[must_use]
pub fn is_dynamic(auxv: &[u8]) -> bool {
    /// `AT_BASE` of `getauxval(3)`: address of the dynamic linker.
    const BASE: u64 = 7;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    auxv.chunks_exact(16).any(|pair| number(&pair[..8]) == BASE && number(&pair[8..]) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let report = |cause, code: Option<i32>, signal: Option<&str>| {
            let mut report = RunReport::without_a_run(cause, "why");
            (report.exit_code, report.signal) = (code, signal.map(str::to_owned));
            report
        };
        for (report, exit_code, failure) in [
            (report(Cause::Exited, Some(0), None), 0, None),
            (report(Cause::Exited, Some(125), None), 125, None),
            (report(Cause::Signaled, None, Some("SIGSEGV")), 139, None),
            (report(Cause::WallLimit, None, None), 124, Some("timeout")),
            (report(Cause::MemoryLimit, None, None), 124, None),
            (report(Cause::NotFound, None, None), 127, None),
            (report(Cause::Quarantined, None, None), 125, None),
            (report(Cause::Refused, None, None), 125, Some("infrastructure")),
            (report(Cause::Internal, None, None), 125, Some("infrastructure")),
        ] {
            let end = end(&report);
            assert_eq!(end.exit_code, exit_code, "{report:?}");
            let text = failure.map(|word| format!("{{\"failure\":\"{word}\"}}\n"));
            assert_eq!(end.side_channel, text, "{report:?}");
        }
    }

    #[test]
    fn side_channels_of_clients_are_refused() {
        let work = Path::new("/w/a1/work/sub");
        let name = "0123456789abcdef0123456789ABCDEF";
        for (path, good) in [
            (format!("/w/a1/{name}"), true),
            (format!("/w/a1/work/{name}"), true),
            (format!("/w/a1/work/sub/{name}"), false),
            (format!("/etc/{name}"), false),
            (format!("/w/a2/{name}"), false),
            (format!("/w/a1/../../etc/{name}"), false),
            (format!("a1/{name}"), false),
            ("/w/a1/authorized_keys".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(side_channel(Path::new(&path), work).is_ok(), good, "{path}");
        }
    }

    #[test]
    fn timeouts_only_narrow() {
        let most = Duration::from_secs(60);
        assert_eq!(timeout("1500", most).unwrap(), Duration::from_millis(1500));
        assert_eq!(timeout("0", most).unwrap(), most);
        assert_eq!(timeout("999999999", most).unwrap(), most);
        assert!(timeout("", most).is_err() && timeout("-1", most).is_err());
    }

    #[test]
    fn linker_is_seen_in_the_auxiliary_vector() {
        let auxv = |pairs: &[(u64, u64)]| -> Vec<u8> {
            pairs.iter().flat_map(|(key, value)| [key.to_ne_bytes(), value.to_ne_bytes()].concat()).collect()
        };
        assert!(is_dynamic(&auxv(&[(3, 1), (7, 4096), (0, 0)])));
        assert!(!is_dynamic(&auxv(&[(3, 1), (7, 0), (0, 0)])));
        assert!(!is_dynamic(&auxv(&[(3, 1), (0, 0)])));
    }
}
