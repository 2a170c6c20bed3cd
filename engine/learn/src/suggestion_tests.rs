//! Tests of the merged policy: never wider than what was seen.

use hotcell_sandbox::outcome::{Denial, FileUse, MissingFile, MissingFiles};
use proptest::prelude::*;

use super::*;
use crate::Mark;
use crate::evidence::tests::{denial, run};
use crate::files::Found;
use crate::files::tests::{Made, missing, own};

fn options() -> Options {
    Options { own: own(), ..Options::default() }
}

fn with_files(id: &str, denials: Vec<Denial>, files: Vec<MissingFile>) -> Evidence {
    Evidence { missing: Some(MissingFiles { files, left_out: 0 }), ..run(id, denials) }
}

fn rules(all: &Suggestion) -> (Vec<&str>, Vec<&str>) {
    let network = all.network.iter().map(|one| one.rule.as_str()).collect();
    (network, all.ro.iter().map(|one| one.rule.as_str()).collect())
}

#[test]
fn runs_are_merged_with_who_and_how_often() {
    let host = Made::default().file("/srv/a.csv");
    let connect = denial("network", "connect", "pypi.org:443");
    let lookup = denial("network", "dns", "pypi.org");
    let alone = denial("network", "dns", "db.test");
    let read = missing("/srv/a.csv", FileUse::Read);
    let one = with_files("a", vec![lookup, connect.clone()], vec![read.clone()]);
    let mut two = with_files("bb", vec![Denial { count: 4, ..connect }, alone], vec![read]);
    two.command = vec!["other".to_owned()];
    two.mark = Some(Mark::Quarantined);
    let all = suggest(&[one, two], &host, &options());
    assert_eq!(rules(&all), (vec!["pypi.org:443"], vec!["/srv/a.csv"]));
    let seen = &all.network[0].seen;
    assert_eq!((seen.count, seen.runs.len(), seen.mark), (5, 2, None));
    assert_eq!(seen.programs, ["prog", "other"]);
    let refused: Vec<_> = all.refused.iter().map(|one| (one.kind.as_str(), one.target.as_str())).collect();
    assert_eq!(refused, [("network", "db.test")]);
    // A rule that only code wanted which the guard would hold back.
    let only = Evidence {
        mark: Some(Mark::Quarantined),
        ..run("a", vec![denial("network", "connect", "c2.test:443")])
    };
    let text = suggest(&[only], &host, &options()).toml();
    assert!(text.contains("CAUTION: the guard would quarantine its code"), "{text}");
}

#[test]
fn siblings_stay_files_unless_folders_are_asked_for() {
    let names = ["a.csv", "b.csv", "c.csv", "d.csv"];
    let mut host = Made::default().folder("/srv/data", &names);
    for name in names {
        host = host.file(&format!("/srv/data/{name}"));
    }
    let read = |name: &str| missing(&format!("/srv/data/{name}"), FileUse::Read);
    let three = || names[..3].iter().map(|name| read(name)).collect::<Vec<_>>();
    let files = suggest(&[with_files("a", vec![], three())], &host, &options());
    assert_eq!(rules(&files).1, ["/srv/data/a.csv", "/srv/data/b.csv", "/srv/data/c.csv"]);
    let asked = Options { folders: true, ..options() };
    let folder = suggest(&[with_files("a", vec![], three())], &host, &asked);
    assert_eq!(rules(&folder).1, ["/srv/data"]);
    assert!(folder.ro[0].opens.ends_with("beside what was asked for: d.csv"), "{}", folder.ro[0].opens);
    let two = suggest(&[with_files("a", vec![], three().split_off(1))], &host, &asked);
    assert_eq!(rules(&two).1, ["/srv/data/b.csv", "/srv/data/c.csv"]);
    // A folder with something protected in it is never suggested.
    let host = host.folder("/srv/data", &["a.csv", "b.csv", "c.csv", "server.key"]);
    assert_eq!(suggest(&[with_files("a", vec![], three())], &host, &asked).ro.len(), 3);
    let whole = suggest(&[with_files("a", vec![], vec![missing("/srv/data", FileUse::Read)])], &host, &asked);
    assert!(whole.is_empty() && whole.refused.len() == 1, "{whole:?}");
}

#[test]
fn hostile_runs_get_no_secrets_and_leave_no_comment() {
    let host = Made::default()
        .file("/home/me/.ssh/id_rsa")
        .with("/srv/x", Found::File { real: "/home/me/.aws/credentials".into(), bytes: 1, readable: true })
        .file("/srv/ok\"]\nnetwork = [\"evil:1\"]");
    let files = vec![
        missing("/home/sandbox/.ssh/id_rsa", FileUse::Read),
        missing("/home/me/.ssh/id_rsa", FileUse::Read),
        missing("/srv/x", FileUse::Read),
        missing("/srv/ok\"]\nnetwork = [\"evil:1\"]", FileUse::Read),
    ];
    let denials = vec![
        denial("network", "connect", "evil.test:443\"]\nro = [\"/\"]"),
        denial("network", "connect", "169.254.169.254:80"),
        denial("seccomp", "ptrace", "0x1"),
    ];
    let mut one = with_files("a", denials, files);
    one.command = vec!["x\nnetwork = [\"evil.test:443\"]".to_owned()];
    let all = suggest(&[one], &host, &options());
    assert!(all.is_empty(), "{all:?}");
    assert_eq!(all.refused.len(), 7, "{all:?}");
    let text = all.toml();
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
}

/// Files of a made host, some of them protected, and questions about them.
fn asked_files() -> impl Strategy<Value = Vec<MissingFile>> {
    let name = prop_oneof![
        "/srv/[a-c]/[a-c]\\.(csv|key|sock)",
        "/home/(me|you)/[a-c](/\\.env)?",
        "/home/sandbox/(\\.ssh/)?[a-c]",
        "/(proc|etc|run)/[a-c]{1,2}",
        "(/[ -~]{1,6}){1,4}",
    ];
    let wanted = prop_oneof![Just(FileUse::Look), Just(FileUse::Read), Just(FileUse::Write)];
    proptest::collection::vec((name, wanted).prop_map(|(path, wanted)| missing(&path, wanted)), 0..12)
}

fn asked_hosts() -> impl Strategy<Value = Vec<Denial>> {
    let target = prop_oneof![
        "[a-c]\\.test:(80|443)",
        "(10|127|93)\\.0\\.0\\.[1-3]:443",
        "\\*\\.test:443",
        "[a-c]\\.test:443 \\(it is at 10\\.0\\.0\\.1\\)",
        "[ -~]{0,20}",
    ];
    let one = ("connect|http|dns|tls", target)
        .prop_map(|(operation, target)| denial("network", &operation, &target));
    proptest::collection::vec(one, 0..12)
}

/// A host on which every path that may be looked at is a file.
struct Full;

impl HostFiles for Full {
    fn look(&self, path: &Path) -> Found {
        assert_eq!(protected::reason(path, &own()), None);
        Found::File { real: path.to_owned(), bytes: 1, readable: true }
    }
}

proptest! {
    #[test]
    fn suggestion_is_never_wider_than_seen(
        hosts in proptest::collection::vec(asked_hosts(), 1..4),
        files in proptest::collection::vec(asked_files(), 1..4),
        folders: bool,
    ) {
        let runs: Vec<_> = hosts.iter().zip(&files).enumerate()
            .map(|(n, (hosts, files))| with_files(&"x".repeat(n + 1), hosts.clone(), files.clone()))
            .collect();
        let asked = Options { folders, ..options() };
        let all = suggest(&runs, &Full, &asked);
        for host in &all.network {
            let parsed = |text: &str| hotcell_egress::Host::parse_with_port(text.as_bytes());
            let mut denied = runs.iter().flat_map(|run| &run.denials).filter(|one| one.operation != "dns");
            let seen = denied.any(|one| parsed(&one.target) == parsed(&host.rule));
            prop_assert!(seen, "{} was not seen", host.rule);
        }
        for file in &all.ro {
            let (host, inside) = file.rule.split_once(':').unwrap_or((&file.rule, &file.rule));
            prop_assert_eq!(protected::reason(Path::new(host), &own()), None);
            let seen = runs.iter().flat_map(|run| &run.missing).flat_map(|missing| &missing.files);
            let mut seen = seen.filter(|one| one.wanted == FileUse::Read).map(|one| Path::new(&one.path));
            prop_assert!(seen.any(|path| path == Path::new(inside)), "{} was not seen", file.rule);
        }
        // The text is the policy, and has no other key.
        let table: toml::Table = toml::from_str(&all.toml()).unwrap();
        let texts = |key: &str| -> Vec<String> {
            let list = table.get(key).and_then(|list| list.as_array()).cloned().unwrap_or_default();
            list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
        };
        prop_assert_eq!(texts("network"), all.network.iter().map(|one| one.rule.clone()).collect::<Vec<_>>());
        prop_assert_eq!(texts("ro"), all.ro.iter().map(|one| one.rule.clone()).collect::<Vec<_>>());
        prop_assert!(table.keys().all(|key| key == "network" || key == "ro"));
        // The order of the runs does not matter.
        let backwards: Vec<_> = runs.iter().rev().cloned().collect();
        prop_assert!(suggest(&backwards, &Full, &asked).beyond(&all).is_empty());
    }
}
