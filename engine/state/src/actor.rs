//! The user who takes a step, as the kernel reports it: never a name that a caller supplies.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use hotcell_guard::quarantine::Channel;

/// The login user ID: it survives `su` and `sudo`, and only a privileged process can set it.
const LOGIN: &str = "/proc/self/loginuid";
/// Value of the login user ID where no user logged in, as in a service or a container.
const NO_LOGIN_UID: u32 = u32::MAX;

/// User who acts, and the channel used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user who logged in, else the process's real user.
    pub uid: u32,
    /// The user's name; empty when the uid has no name.
    pub name: String,
    /// Channel used.
    pub channel: Channel,
}

impl Actor {
    /// The user who started this process. The kernel and the list of users are asked once for each real user of the process.
    #[must_use]
    pub fn here(channel: Channel) -> Self {
        /// The process's real user, with the user who acts and its name.
        static KNOWN: Mutex<Option<(u32, u32, String)>> = Mutex::new(None);
        let real = nix::unistd::getuid().as_raw();
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let (uid, name) = match &*known {
            Some((of, uid, name)) if *of == real => (*uid, name.clone()),
            _ => {
                let login = std::fs::read_to_string(LOGIN).unwrap_or_default();
                let uid = person(&login, real);
                let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
                let name = user.map(|user| user.name).unwrap_or_default();
                *known = Some((real, uid, name.clone()));
                (uid, name)
            }
        };
        Self { uid, name, channel }
    }

    /// This user on another channel.
    #[must_use]
    pub fn by(&self, channel: Channel) -> Self {
        Self { channel, ..self.clone() }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => write!(f, "{}", self.uid),
            name => write!(f, "{} ({name})", self.uid),
        }
    }
}

fn person(login: &str, real: u32) -> u32 {
    login.trim().parse().ok().filter(|uid| *uid != NO_LOGIN_UID).unwrap_or(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_user_precedes_real_user() {
        for (login, real, want) in
            [("1000", 0, 1000), ("1000\n", 0, 1000), ("4294967295", 7, 7), ("", 7, 7), ("x", 7, 7)]
        {
            assert_eq!(person(login, real), want, "{login:?}");
        }
    }
}
