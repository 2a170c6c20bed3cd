//! Persons, and whether two of them may be one: users of the host by their id, members of a team by the name that the operator's proxy gives.

use std::collections::BTreeSet;
use std::fmt;

use super::state::Channel;

/// Beginning of the channel of a team's page.
const TEAM: &str = "web:";
/// Beginnings of the channels of callers.
const CALLERS: [&str; 2] = ["mcp:", "elicitation:"];
/// Callers without a name of their own, which may be anyone's.
const UNNAMED: [&str; 2] = ["stdio", "everybody"];

/// A person, as far as a step's record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// User id on the host: on a team's page that of its server, which all of the team share.
    uid: u32,
    /// Name of that user; empty when it has none.
    user: String,
    /// Name of the caller over whose connection the step was taken.
    caller: Option<String>,
    /// Name in the team, where the person is known to be of it.
    member: Option<String>,
    /// Whether the step was taken on the team's page.
    on_page: bool,
}

impl Person {
    /// The person of a step over a channel, as the audit log names it. `team` are the names that may use the team's page. A model's request counts
    /// as its caller's, if the caller has the name of a member, else as one of the user whose server it uses.
    #[must_use]
    pub fn new(uid: u32, user: &str, channel: &str, team: &BTreeSet<String>) -> Self {
        let on_page = channel.strip_prefix(TEAM);
        let caller = CALLERS.iter().find_map(|beginning| channel.strip_prefix(beginning));
        let known = caller.into_iter().chain([user]).find(|name| team.contains(*name));
        let member = on_page.or(known).map(str::to_owned);
        let caller = caller.filter(|name| !name.is_empty() && !UNNAMED.contains(name)).map(str::to_owned);
        Self { uid, user: user.to_owned(), caller, member, on_page: on_page.is_some() }
    }

    /// The person of a step over a channel.
    #[must_use]
    pub fn over(uid: u32, user: &str, channel: &Channel, team: &BTreeSet<String>) -> Self {
        Self::new(uid, user, &channel.to_string(), team)
    }

    /// Whether the two may be one person: by their user id, or by a caller's name, whether or not it is of the team. On a team's page, names decide
    /// alone between two members, since all of the team share the user id of the server; a person who is not known to the team may be any member
    /// by that id.
    #[must_use]
    pub fn may_be(&self, other: &Self) -> bool {
        if (self.on_page || other.on_page)
            && let (Some(one), Some(two)) = (&self.member, &other.member)
        {
            return is_one(one, two);
        }
        self.uid == other.uid || self.is_called_as(other) || other.is_called_as(self)
    }

    /// Whether the caller's or the member's name here is one of the other's names.
    fn is_called_as(&self, other: &Self) -> bool {
        let names = || [&other.caller, &other.member].into_iter().flatten().chain([&other.user]);
        [&self.caller, &self.member].into_iter().flatten().any(|one| names().any(|two| is_one(one, two)))
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member {
            Some(member) => f.write_str(member),
            None => write!(f, "user {}", self.uid),
        }
    }
}

/// Whether two names may be those of one person: a proxy may name `Bob@example.com` who is `bob` on the host.
fn is_one(one: &str, two: &str) -> bool {
    let local = |name: &str| name.split('@').next().unwrap_or_default().to_ascii_lowercase();
    local(one) == local(two)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server of the page and of callers is user 900, `hotcell`.
    #[test]
    fn persons_are_compared_by_user_or_by_name_in_the_team() {
        let team: BTreeSet<_> = ["alice", "bob", "carol@example.com"].map(str::to_owned).into();
        let of = |(uid, user, channel): (u32, &str, &str)| Person::new(uid, user, channel, &team);
        let (server, bob) = ((900, "hotcell", "cli"), (1000, "bob", "cli"));
        let page = |channel| (900, "hotcell", channel);
        for (asks, decides, want) in [
            // Without the page: users of the host.
            (bob, bob, true),
            (bob, server, false),
            (page("mcp:stdio"), server, true),
            (page("mcp:alice"), server, true),
            ((1000, "bob", "mcp:stdio"), bob, true),
            ((1000, "bob", "mcp:stdio"), (1001, "carol", "mcp:stdio"), false),
            // A caller's name is compared with that of a user, of the team or not.
            (page("mcp:alice"), (1003, "alice", "cli"), true),
            (page("mcp:alice@example.com"), (1003, "alice", "cli"), true),
            (page("mcp:alice"), bob, false),
            (page("mcp:dave"), (1002, "dave", "cli"), true),
            (page("mcp:Dave@example.com"), (1002, "dave", "cli"), true),
            (page("mcp:dave"), (901, "other", "mcp:dave"), true),
            (page("mcp:dave"), bob, false),
            (page("mcp:dave"), (1002, "", "cli"), false),
            (page("elicitation:dave"), (1002, "dave", "cli"), true),
            ((901, "other", "mcp:bob@example.com"), page("web:bob"), true),
            ((901, "other", "mcp:dave"), page("web:bob"), false),
            // Names of the team.
            (page("mcp:alice"), page("web:bob"), false),
            (page("mcp:bob"), page("web:bob"), true),
            (page("web:alice"), page("web:bob"), false),
            (page("web:bob"), page("web:bob"), true),
            (page("web:bob"), page("web:Bob@example.com"), true),
            // A user of the host with a name of the team, by another id, too.
            (bob, page("web:bob"), true),
            (bob, page("web:alice"), false),
            ((1001, "carol", "cli"), page("web:carol@example.com"), true),
            ((1000, "bob", "mcp:stdio"), page("web:bob"), true),
            ((1000, "bob", "mcp:stdio"), page("web:alice"), false),
            ((900, "bob", "cli"), page("web:alice"), false),
            // The person behind the server's own user may be any member.
            (server, page("web:bob"), true),
            (page("mcp:stdio"), page("web:bob"), true),
            (page("mcp:ci"), page("web:bob"), true),
            (page("elicitation:ci"), page("web:bob"), true),
            ((1002, "dave", "cli"), page("web:bob"), false),
        ] {
            assert_eq!(of(asks).may_be(&of(decides)), want, "{asks:?} {decides:?}");
            assert_eq!(of(decides).may_be(&of(asks)), want, "{decides:?} {asks:?}");
        }
    }
}
