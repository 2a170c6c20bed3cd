//! `hotcell bench`: every row is named, whatever this host lacks; errors; the picture.

use std::collections::BTreeSet;

use hotcell_end_to_end::{User, Weak, everyone, find, is_root};
use serde_json::Value;

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("rows")
}

/// Asserts that the exit status is 125 exactly if a row of hotcell's own has no number.
fn exit_status_fits(report: &Value, code: Option<i32>) {
    let ours = |row: &&Value| row["variant"] == "cold" || row["variant"] == "hot";
    let failed: Vec<&Value> =
        rows(report).iter().filter(ours).filter(|row| !row["failed"].is_null()).collect();
    assert_eq!(code, Some(if failed.is_empty() { 0 } else { 125 }), "{failed:#?}");
}

#[test]
fn bench_rows_are_measured_or_explained() {
    everyone(|user| {
        let ended = user.hotcell(["bench", "--quick", "--runs", "3", "--json"]).end();
        let report = ended.json();
        exit_status_fits(&report, ended.code);
        assert!(
            report["host"]["processors"].as_u64().is_some_and(|n| n > 0)
                && report["host"]["load"].is_number()
        );
        let named: BTreeSet<(&str, &str)> = rows(&report)
            .iter()
            .map(|row| (row["what"].as_str().expect("what"), row["variant"].as_str().expect("variant")))
            .collect();
        let start = "start of /bin/true";
        let mut want = vec![
            (start, "bare"),
            (start, "floor"),
            (start, "cold"),
            (start, "hot"),
            ("… tmpfs workspace", "hot"),
            ("… bound workspace", "hot"),
            ("… overlay workspace", "hot"),
            ("python3 -c print(1)", "bare"),
            ("pytest, two tests and a JUnit report", "bare"),
            ("node FILE with console.log(1)", "bare"),
            ("memory of an idle sandbox", "hot"),
        ];
        for what in
            ["starts, 1 in flight", "starts, 2 in flight", "starts, 8 in flight", "starts, 64 in flight"]
        {
            want.extend([(what, "bare"), (what, "cold"), (what, "hot")]);
        }
        let lacks: Vec<_> = want.into_iter().filter(|row| !named.contains(row)).collect();
        assert!(lacks.is_empty(), "no {lacks:?} in {named:?}");
        for row in rows(&report) {
            let numbers =
                ["p50_us", "per_second", "memory_bytes"].into_iter().any(|field| row[field].is_number());
            assert!(numbers != row["failed"].is_string(), "{row:#}");
        }
        let peers: Vec<&str> = report["peers"]
            .as_array()
            .expect("peers")
            .iter()
            .filter_map(|peer| peer["name"].as_str())
            .collect();
        assert_eq!(peers, ["bubblewrap", "nsjail", "firejail", "unshare", "podman", "docker", "sandlock"]);
        for peer in report["peers"].as_array().expect("peers") {
            let measured = named.contains(&(start, peer["name"].as_str().expect("a name")));
            assert!(measured != peer["missing"].is_string(), "{peer:#}");
        }
        // Targets that were missed are listed too.
        let checks = report["checks"].as_array().expect("checks");
        assert!(checks.len() >= 6, "{checks:#?}");
        for check in checks {
            assert!(
                check["measured"].is_number() || (check["met"] == false && check["why"].is_string()),
                "{check:#}"
            );
        }
        assert!(
            report["steps_failed"].is_string() || report["steps_us"]["(total)"].is_number(),
            "{report:#}"
        );
    });
}

#[test]
fn bench_writes_picture_and_page() {
    everyone(|user| {
        user.make_folder("work");
        let words = [
            "bench",
            "--quick",
            "--runs",
            "3",
            "--only",
            "bare,hot,steps",
            "--peers",
            "none",
            "--svg",
            "p.svg",
        ];
        let ended = user.hotcell(words).end();
        let page = ended.text();
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
        assert!(page.contains("hot start / bare") && !page.contains("bubblewrap"), "{ended:#?}");
        let picture = std::fs::read_to_string(user.path("work/p.svg")).expect("a picture");
        let mut reader = quick_xml::Reader::from_str(&picture);
        let mut texts = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Start(tag) if tag.name().as_ref() == "text" => texts += 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert!(texts > 20 && picture.starts_with("<svg "), "{picture}");
    });
}

#[test]
fn bench_mistakes_name_alternatives() {
    let user = User::me();
    user.write("work/file", "");
    for (words, near) in [
        (&["--only", "hott"][..], "did you mean hot?"),
        (&["--only", ""], "no row is named"),
        (&["--peers", "dokcer"], "did you mean docker?"),
        (&["--runs", "0"], "write a number from 1 to 100000"),
        (&["--svg", "file/p.svg"], "cannot be written"),
    ] {
        let ended = user.hotcell(["bench", "--quick"]).words(words).end();
        ended.code(125).says_one_line(near).prints("");
    }
    let error = user.hotcell(["bench", "--json", "--peers", "bubblewarp"]).end();
    assert_eq!(error.code(125).json()["code"], "invalid_value");
}

#[test]
fn bench_runs_on_host_lacking_programs() {
    if !is_root() {
        println!("skipped: only root can make a mount namespace");
        return;
    }
    // Without other sandboxes, without an interpreter, and without a memory file system to bind from.
    let user = User::me();
    let folder = user.make_folder("programs");
    for name in ["unshare", "sh", "mount"] {
        let program = find(name).expect("a program of every host");
        std::os::unix::fs::symlink(program, folder.join(name)).expect("a link");
    }
    let weak = Weak::default().mounts("mount -t proc proc /dev/shm");
    let mut call = user.hotcell_on(&weak, ["bench", "--quick", "--runs", "3", "--json"]);
    call.add(["--only", "bare,cold,tmpfs,python", "--peers", "bubblewrap,nsjail,docker"]);
    let ended = call.env("PATH", &folder).end();
    let report = ended.json();
    let failed = |what: &str| {
        let row = rows(&report).iter().find(|row| row["what"] == what);
        row.and_then(|row| row["failed"].as_str()).map(str::to_owned)
    };
    assert!(failed("… tmpfs workspace").is_some(), "{report:#}");
    assert!(failed("python3 -c print(1)").is_some_and(|why| why.contains("python3")), "{report:#}");
    for peer in report["peers"].as_array().expect("peers") {
        assert!(peer["missing"].as_str().is_some_and(|why| why.ends_with("is not on PATH")), "{peer:#}");
    }
    let cold = rows(&report).iter().find(|row| row["variant"] == "cold").expect("cold");
    assert!(cold["p50_us"].is_number(), "{cold:#}");
}
