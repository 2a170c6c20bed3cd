//! The next step that an answer advises, where the cause of the end alone does not show it.

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, Limit};
use hotcell_server::Requested;
use hotcell_state::report::printable;

/// The next step, where the cause alone does not show it. Output of the program is never part of it.
pub(crate) fn hint(outcome: &RunReport, request: &Requested) -> Option<String> {
    let reached =
        |limit: Limit| outcome.limits_hit.iter().rev().find(|hit| hit.limit == limit).map(|hit| hit.value);
    // Suggests more only where the operator allows more than was reached.
    let more = |limit: Limit, field: &str, most: Option<u64>| match (reached(limit), most) {
        (Some(value), Some(most)) if value < most => format!(", or ask for more with limits.{field}"),
        _ => "; more is not allowed here".to_owned(),
    };
    let most = request.most.as_ref();
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Some(match outcome.cause {
        Cause::WallLimit => {
            let most = most.map(|m| micros(m.wall));
            format!(
                "it did not end in time: look for an endless loop or a wait for input, or do less{}",
                more(Limit::Wall, "timeout_seconds", most)
            )
        }
        Cause::CpuLimit => {
            let most = most.map(|m| m.cpu_time.map_or(u64::MAX, micros));
            format!(
                "it computed for too long: look for an endless loop, or do less{}",
                more(Limit::CpuTime, "cpu_seconds", most)
            )
        }
        Cause::MemoryLimit => {
            format!(
                "it needed too much memory: process the data in pieces{}",
                more(Limit::Memory, "memory_mib", most.map(|m| m.memory.0))
            )
        }
        Cause::ProcessLimit => {
            format!(
                "it kept starting processes or threads beyond the limit: start fewer{}",
                more(Limit::Processes, "processes", most.map(|m| u64::from(m.processes)))
            )
        }
        Cause::DiskLimit | Cause::FileLimit => {
            format!(
                "it kept writing to a full disk: write less{}",
                more(Limit::Disk, "disk_mib", most.map(|m| m.disk.0))
            )
        }
        Cause::OutputLimit => {
            "it printed too much: print less, or write to a file and print parts of it".to_owned()
        }
        Cause::Cancelled => "it was cancelled; call again to run it anew".to_owned(),
        Cause::Signaled => "a signal ended it: a crash of the program, or it killed itself".to_owned(),
        Cause::Exited if outcome.exit_code != Some(0) => {
            return of_operator(request).or_else(|| of_network(outcome, request));
        }
        _ => return None,
    })
}

/// The next step for a failed command with a word that was meant for a shell.
fn of_operator(request: &Requested) -> Option<String> {
    let operator = request.operator.as_deref()?;
    Some(format!(
        "no shell reads argv, so that {operator} was an argument of the program: for a shell's line use [\"bash\", \"-c\", \"LINE\"]"
    ))
}

/// The next step for a failed run that was denied the network, or requested something outside its hosts.
fn of_network(outcome: &RunReport, request: &Requested) -> Option<String> {
    let denied = outcome.denials.iter().any(|d| d.layer == "network");
    match &request.hosts {
        Some(hosts) if denied => Some(format!(
            "it reached for an address that was not approved: only {} may be reached; name others in network",
            printable(hosts)
        )),
        Some(_) => None,
        None if denied => Some(
            "there is no network in the sandbox but a private loopback: give the program its data as files, or name \
             hosts in network, which a person has to approve"
                .to_owned(),
        ),
        None if request.may_fetch => Some(
            "it ran without network, where no name resolves and nothing can be downloaded: give the program its data as \
             files, or name hosts in network, which a person has to approve"
                .to_owned(),
        ),
        None => None,
    }
}

/// Whether a call mentions hosts: programs that download, or network calls and addresses in source code.
#[must_use]
pub(crate) fn speaks_of_hosts(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "http://",
        "https://",
        "urlopen",
        "requests.",
        "httpx",
        "aiohttp",
        "getaddrinfo",
        "gethostby",
        "create_connection",
        "socket.",
        "net.Dial",
        "net.connect",
        "fetch(",
        "wss://",
    ];
    // Programs that only reach for hosts, and the commands of others that download.
    const ALWAYS: [&str; 12] =
        ["curl", "wget", "ssh", "scp", "rsync", "ping", "nslookup", "dig", "host", "apt", "apt-get", "npx"];
    const COMMANDS: [(&str, &[&str]); 18] = [
        ("pip", &["install", "download", "wheel", "index", "search"]),
        ("pip3", &["install", "download", "wheel", "index", "search"]),
        ("pipx", &["install", "run"]),
        ("uv", &["pip", "sync", "add", "run", "tool", "lock"]),
        ("poetry", &["install", "add", "update", "lock"]),
        ("conda", &["install", "create", "update"]),
        ("npm", &["install", "i", "ci", "add", "update", "view", "exec", "create"]),
        ("yarn", &["install", "add", "up"]),
        ("pnpm", &["install", "i", "add", "update", "dlx"]),
        ("bun", &["install", "add", "update"]),
        ("cargo", &["add", "install", "fetch", "update", "search"]),
        ("go", &["get", "install", "mod"]),
        ("gem", &["install", "fetch", "update"]),
        ("bundle", &["install", "update"]),
        ("composer", &["install", "require", "update"]),
        ("git", &["clone", "fetch", "pull", "push", "ls-remote", "submodule"]),
        ("docker", &["pull", "push", "run", "build"]),
        ("apk", &["add", "update"]),
    ];
    if WORDS.iter().any(|word| text.contains(word)) {
        return true;
    }
    // Words as a shell, or a list of texts in source code, divides them.
    let ends = |c: char| c.is_whitespace() || "\"'`,;|&()[]{}$".contains(c);
    text.lines().any(|line| {
        let words: Vec<&str> = line.split(ends).filter(|word| !word.is_empty()).collect();
        let reaches = |at: usize| {
            let (Some(program), Some(next)) = (words.get(at), words.get(at + 1)) else { return false };
            let program = program.rsplit('/').next().unwrap_or(program);
            let always = at == 0 && *next != "=" && ALWAYS.contains(&program);
            always || COMMANDS.iter().any(|(known, commands)| *known == program && commands.contains(next))
        };
        (0..words.len()).any(reaches)
    })
}

#[cfg(test)]
mod tests {
    use super::super::summary;
    use super::*;
    use hotcell_sandbox::outcome::Denial;

    #[test]
    fn failed_outcomes_have_hint_or_reason() {
        for cause in [
            Cause::WallLimit,
            Cause::CpuLimit,
            Cause::MemoryLimit,
            Cause::ProcessLimit,
            Cause::DiskLimit,
            Cause::FileLimit,
            Cause::OutputLimit,
            Cause::Cancelled,
            Cause::Signaled,
        ] {
            assert!(hint(&RunReport::without_a_run(cause, ""), &Requested::default()).is_some(), "{cause:?}");
        }
        let refused = RunReport::without_a_run(Cause::Refused, "no landlock here;\nsee doctor");
        assert_eq!(
            (hint(&refused, &Requested::default()), summary(&refused).as_str()),
            (None, "no landlock here;\\nsee doctor")
        );
    }

    #[test]
    fn operators_of_a_shell_are_hinted_at_when_a_command_fails() {
        let request = Requested { operator: Some("|".to_owned()), ..Requested::default() };
        let mut outcome = RunReport::without_a_run(Cause::Exited, "");
        for (code, hinted) in [(2, true), (0, false)] {
            outcome.exit_code = Some(code);
            assert_eq!(
                hint(&outcome, &request).is_some_and(|text| text.contains("so that | was")),
                hinted,
                "{code}"
            );
        }
    }

    #[test]
    fn hint_offers_only_permitted_limits() {
        use hotcell_sandbox::outcome::{Evidence, LimitHit};
        let most = hotcell_sandbox::Limits::default();
        for (value, offered) in [(most.memory.0, false), (most.memory.0 / 2, true)] {
            let mut outcome = RunReport::without_a_run(Cause::MemoryLimit, "");
            let evidence = Evidence::Kernel;
            outcome.limits_hit.push(LimitHit { limit: Limit::Memory, value, at_us: 1, evidence });
            let request = Requested { most: Some(most.clone()), ..Requested::default() };
            let said = hint(&outcome, &request).unwrap();
            assert_eq!(said.contains("limits.memory_mib"), offered, "{said}");
        }
    }

    #[test]
    fn network_hint_matches_request_and_denials() {
        let denial = Denial {
            layer: "network".into(),
            operation: "connect".into(),
            target: "192.0.2.1:80".into(),
            errno: "EPERM".into(),
            count: 1,
        };
        let said = |hosts: Option<&str>, denied: bool, may_fetch: bool, code: i32| {
            let mut outcome = RunReport::without_a_run(Cause::Exited, "");
            outcome.exit_code = Some(code);
            outcome.denials.extend(denied.then(|| denial.clone()));
            let request = Requested { hosts: hosts.map(str::to_owned), may_fetch, ..Requested::default() };
            hint(&outcome, &request).unwrap_or_default()
        };
        for (hosts, denied, may_fetch, code, want) in [
            (None, true, false, 1, "there is no network"),
            (None, false, true, 1, "no name resolves"),
            (None, false, false, 1, ""),
            (None, true, true, 0, ""),
            (Some("pypi.org:443"), true, true, 1, "only pypi.org:443 may be reached"),
            (Some("pypi.org:443"), false, true, 1, ""),
        ] {
            let got = said(hosts, denied, may_fetch, code);
            assert!(if want.is_empty() { got.is_empty() } else { got.contains(want) }, "{got}");
        }
        for (text, want) in [
            ("pip install x", true),
            ("/usr/bin/curl -sS x", true),
            ("import urllib.request as u; u.urlopen(x)", true),
            ("python3 -m pip download six", true),
            ("set -e\ncd x && npm ci", true),
            ("set -e\nwget -q x.org/y", true),
            ("subprocess.run(['/usr/bin/git', 'clone', url])", true),
            ("out=$(cargo fetch)", true),
            ("pip list", false),
            ("git status; git log", false),
            ("host = 3\nping", false),
            ("print('curly')", false),
            ("python3 app.py", false),
        ] {
            assert_eq!(speaks_of_hosts(text), want, "{text}");
        }
    }
}
