//! Links that work once, and the sessions that they begin. In memory only: all of them end with the server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time after which a session that was not used ends.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(12 * 3600);
/// Maximum number of sessions; a new one ends the one that was not used for the longest time.
pub const MAX_SESSIONS: usize = 32;
/// Maximum number of unused links; a new one ends the oldest.
pub const MAX_LINKS: usize = 32;

/// Right of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees every page.
    Reader,
    /// Also decides.
    Decider,
}

/// An open session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Right of the session.
    pub role: Role,
    last_used: Instant,
}

/// Links and sessions, by their secrets.
#[derive(Debug, Default)]
pub struct Sessions {
    links: Vec<(String, Role)>,
    open: HashMap<String, Session>,
}

impl Sessions {
    /// Adds a link with this secret.
    pub fn add_link(&mut self, secret: String, role: Role) {
        if self.links.len() >= MAX_LINKS {
            self.links.remove(0);
        }
        self.links.push((secret, role));
    }

    /// Uses up a link, and begins a session with this secret. `None` when there is no such link, or it was used.
    pub fn start(&mut self, link: &str, session: String, now: Instant) -> Option<Role> {
        let at = self.links.iter().position(|(secret, _)| same(secret, link))?;
        let (_, role) = self.links.remove(at);
        self.sweep(now);
        if self.open.len() >= MAX_SESSIONS
            && let Some(oldest) = self
                .open
                .iter()
                .min_by_key(|(_, session)| session.last_used)
                .map(|(secret, _)| secret.clone())
        {
            self.open.remove(&oldest);
        }
        self.open.insert(session, Session { role, last_used: now });
        Some(role)
    }

    /// Role of a session, which is used by this.
    pub fn role(&mut self, session: &str, now: Instant) -> Option<Role> {
        self.sweep(now);
        let found = self.open.get_mut(session)?;
        found.last_used = now;
        Some(found.role)
    }

    /// Ends a session.
    pub fn end(&mut self, session: &str) {
        self.open.remove(session);
    }

    fn sweep(&mut self, now: Instant) {
        self.open.retain(|_, session| now.saturating_duration_since(session.last_used) < SESSION_TIMEOUT);
    }
}

/// Compares secrets in a time that does not depend on where they differ.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_begins_one_session() {
        let (mut all, now) = (Sessions::default(), Instant::now());
        all.add_link("a".to_owned(), Role::Reader);
        all.add_link("b".to_owned(), Role::Decider);
        for (link, session, want) in [
            ("", "s0", None),
            ("ab", "s0", None),
            ("b", "s1", Some(Role::Decider)),
            ("b", "s2", None),
            ("a", "s3", Some(Role::Reader)),
            ("a", "s4", None),
        ] {
            assert_eq!(all.start(link, session.to_owned(), now), want, "{link} {session}");
        }
        assert_eq!(
            ["s0", "s1", "s2", "s3", "s4"].map(|session| all.role(session, now)),
            [None, Some(Role::Decider), None, Some(Role::Reader), None]
        );
        all.end("s1");
        assert_eq!(all.role("s1", now), None);
    }

    #[test]
    fn unused_session_ends() {
        let (mut all, begin) = (Sessions::default(), Instant::now());
        all.add_link("a".to_owned(), Role::Decider);
        all.start("a", "s".to_owned(), begin);
        let later = begin + SESSION_TIMEOUT - Duration::from_secs(1);
        assert!(all.role("s", later).is_some());
        assert!(all.role("s", later + SESSION_TIMEOUT - Duration::from_secs(1)).is_some(), "it was used");
        assert_eq!(all.role("s", later + SESSION_TIMEOUT * 2), None);
    }

    #[test]
    fn links_and_sessions_are_bounded() {
        let (mut all, begin) = (Sessions::default(), Instant::now());
        for n in 0..MAX_LINKS + 1 {
            all.add_link(format!("l{n}"), Role::Reader);
        }
        assert_eq!(all.start("l0", "x".to_owned(), begin), None, "it made room");
        for n in 0..MAX_SESSIONS + 1 {
            all.add_link(format!("m{n}"), Role::Reader);
            let now = begin + Duration::from_secs(n as u64);
            assert!(all.start(&format!("m{n}"), format!("s{n}"), now).is_some());
        }
        let now = begin + Duration::from_secs(60);
        assert_eq!(all.role("s0", now), None);
        assert!(all.role("s1", now).is_some());
        assert_eq!(all.open.len(), MAX_SESSIONS);
    }
}
