//! Tool servers and web servers in varied styles: each dangerous one has a finding that its honest twin does not
//! have, and nothing of a twin follows a value from a caller to a sink.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_guard::{Artifact, Limits, Pack, Report, Severity, Verdict, Walk, scan, scan_path};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: String,
    files: BTreeMap<String, String>,
    /// Pieces to replace, to make the honest server.
    twin: Vec<(String, String)>,
    /// Reason why the dangerous one is not told from its twin.
    missed: Option<String>,
    /// Reason why the honest one has a finding.
    noisy: Option<String>,
}

fn of(pack: &Pack, files: &BTreeMap<String, String>) -> Report {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let walk = Walk { gitignore: false, packages: false, executed: None };
    let limits = Limits { time: std::time::Duration::from_secs(120), ..Limits::default() };
    scan_path(
        &limits,
        dir.path(),
        walk,
        &mut |artifact: &Artifact| scan(pack, &limits, artifact),
        &mut |_| (),
    )
    .unwrap()
}

fn loud(report: &Report) -> BTreeSet<&str> {
    report.findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.rule.as_str()).collect()
}

#[test]
fn dangerous_servers_are_told_from_their_honest_twins() {
    let servers: Vec<Server> = serde_yaml_ng::from_str(include_str!("data/servers.yml")).unwrap();
    let pack = Pack::builtin().unwrap();
    let (mut found, mut quiet, mut wrong) = (0, 0, Vec::new());
    for server in &servers {
        let mut twin = server.files.clone();
        for (from, to) in &server.twin {
            assert!(twin.values().any(|text| text.contains(from)), "{}: {from}", server.name);
            twin.values_mut().for_each(|text| *text = text.replace(from, to));
        }
        let (bad, good) = (of(&pack, &server.files), of(&pack, &twin));
        let (of_bad, of_good) = (loud(&bad), loud(&good));
        let told = bad.verdict > Verdict::Allow && of_bad.difference(&of_good).next().is_some();
        let silent =
            !of_good.iter().any(|rule| rule.contains(".flow.")) && good.verdict < Verdict::Quarantine;
        found += usize::from(told);
        quiet += usize::from(silent);
        if told == server.missed.is_some() || silent == server.noisy.is_some() {
            wrong.push(format!(
                "{}: {:?} {of_bad:?}; twin {:?} {of_good:?}",
                server.name, bad.verdict, good.verdict
            ));
        }
    }
    println!("{found} of {} found, {quiet} twins quiet", servers.len());
    assert!(
        wrong.is_empty(),
        "{found} of {} found, {quiet} twins quiet\n{}",
        servers.len(),
        wrong.join("\n")
    );
}
