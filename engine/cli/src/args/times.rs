//! Time limits on the command line.

use std::time::Duration;

use hotcell_sandbox::units::parse_duration;

/// Longest time limit: a longer one is a slip, and no clock that adds it to the present overflows.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Parses a time limit such as `60s`: longer than 0, so that something can happen in it, and at most 365 days.
///
/// # Errors
/// Words that say which times are possible.
pub fn time_limit(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|e| e.to_string())?;
    if time.is_zero() || time > LONGEST {
        return Err("a time here is longer than 0 and at most 365d; write one such as 60s".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn time_limits_are_neither_nothing_nor_endless() {
        for text in ["0", "0s", "0.0h", "366d", "8761h", "1e9", "99999999999999999999d", "-1s", "", "soon"] {
            assert!(time_limit(text).is_err(), "{text}");
        }
        for (text, seconds) in [("1ms", 0.001), ("60", 60.0), ("365d", 31_536_000.0)] {
            assert_eq!(time_limit(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
    }

    #[test]
    fn options_with_a_time_limit_refuse_what_is_none() {
        for command in [
            &["mcp", "check", "--timeout"][..],
            &["mcp", "servers", "login", "a", "--timeout"],
            &["mcp", "servers", "try", "a", "--timeout"],
            &["mcp", "wrap", "--idle"],
            &["call", "a", "b", "--timeout"],
            &["model", "check", "--timeout"],
            &["model", "ask", "a", "--timeout"],
            &["fix", ".", "--timeout"],
            &["review", ".", "--timeout"],
            &["session", "python", "--cell-timeout"],
            &["serve", "--idle-exit"],
        ] {
            for (value, good) in [("0", false), ("0s", false), ("400d", false), ("5s", true)] {
                let words: Vec<OsString> =
                    ["hotcell"].iter().chain(command).chain(&[value]).map(OsString::from).collect();
                let refused = match Cli::try_parse_from(words) {
                    Ok(_) => false,
                    Err(error) => error.kind() == clap::error::ErrorKind::ValueValidation,
                };
                assert_eq!(refused, !good, "{command:?} {value}");
            }
        }
    }
}
