//! The hostile programs, embedded at build time, so that users of this crate need no compiler.

use std::io;

/// The static multi-call program; empty when it could not be built.
const ATTACK: &[u8] = include_bytes!(env!("HOTCELL_ATTACK_PROGRAM"));
/// Reason why it could not be built.
const LACKS: Option<&str> = option_env!("HOTCELL_ATTACK_LACKS");

/// The scripts, by the names that rows use.
pub(crate) const SCRIPTS: &[(&str, &[u8])] = &[
    ("asyncio_wakeup.py", include_bytes!("../programs/asyncio_wakeup.py")),
    ("dev_tcp.sh", include_bytes!("../programs/dev_tcp.sh")),
    ("fork_bomb.sh", include_bytes!("../programs/fork_bomb.sh")),
    ("python_connect.py", include_bytes!("../programs/python_connect.py")),
    ("through_proxy.py", include_bytes!("../programs/through_proxy.py")),
];

/// The static multi-call program with all attacks in C.
///
/// # Errors
/// When this build has no such program, with the reason.
pub fn attack() -> io::Result<&'static [u8]> {
    match LACKS {
        Some(why) => Err(io::Error::other(format!("this build has no hostile programs: {why}"))),
        None => Ok(ATTACK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Probe, rows};

    #[test]
    fn row_scripts_exist() {
        for row in rows() {
            if let Probe::Python(name, _) | Probe::Shell(name, _) = row.probe {
                assert!(SCRIPTS.iter().any(|(script, _)| *script == name), "{name}");
            }
        }
        assert!(attack().is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
    }
}
