//! `hotcell doctor --attack`: attacks on this host inside an arena, reported as text, as JSON and as a page.

use std::fs;

use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::Value;

/// Rows that run quickly: files, the program that started it, tracing; a test that is not a row; and one that is
/// not available.
const QUICK_ROWS: &str = "1,31,45,24,141";

fn attacked(user: &User, words: &[&str]) -> Option<Ended> {
    let mut all = vec!["doctor", "--attack"];
    all.extend_from_slice(words);
    let ended = user.hotcell(all).end();
    if ended.code == Some(125) && ended.stderr.contains("no arena") {
        println!("skipped: no arena for hostile programs on this host: {}", ended.stderr.trim());
        return None;
    }
    Some(ended)
}

#[test]
fn attack_table_shows_each_layer_removed() {
    everyone(|user| {
        let Some(ended) = attacked(user, &["--only", QUICK_ROWS]) else { return };
        let text = ended.code(0).text();
        for want in [
            "a001_read_denied_file",
            "a031_overwrite_proc_self_exe",
            "a024_protected_names_in_other_letters",
            "two walls",
            "a045_ptrace_sibling: a process may trace its own children",
            "gVisor is not to be had",
            "5 attacks in ",
            "Everything that was run held.",
        ] {
            assert!(text.contains(want), "no {want:?} in\n{text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("FAILED"), "{text}");
    });
}

#[test]
fn attack_json_and_html_agree() {
    everyone(|user| {
        let page = user.path("work/attacks.html");
        let words = ["--json", "--only", QUICK_ROWS, "--html", page.to_str().expect("text")];
        let Some(ended) = attacked(user, &words) else { return };
        let report = ended.code(0).json();
        assert_eq!(report["schema"], "hotcell.attacks/1");
        assert_eq!(
            (report["summary"]["attacks"].as_u64(), &report["summary"]["good"]),
            (Some(5), &Value::Bool(true))
        );
        assert!(
            report["host"]["kernel"].is_string() && report["date"].as_str().is_some_and(|d| d.ends_with('Z'))
        );
        let attacks = report["attacks"].as_array().expect("attacks");
        assert_eq!(
            attacks.iter().map(|a| a["number"].as_u64()).collect::<Vec<_>>(),
            [1, 24, 31, 45, 141].map(Some)
        );
        // Root's sandbox and an ordinary user's if the caller is root.
        let users = report["users"].as_array().expect("users").len();
        assert_eq!(users, if user.is_ordinary() || !hotcell_end_to_end::is_root() { 1 } else { 2 });
        let row = &attacks[0]["rows"][0];
        assert_eq!((&row["bare"], &row["all_on"]), (&"through".into(), &"stopped".into()), "{row:#}");
        for wall in ["mount_ns", "landlock"] {
            assert_eq!(row["walls"][wall], "stopped", "{row:#}");
        }

        let page = fs::read_to_string(page).expect("the page");
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        for attack in attacks {
            assert!(page.contains(&format!("<td>{}</td>", attack["number"])), "{}", attack["number"]);
        }
        assert!(page.contains(report["host"]["kernel"].as_str().expect("text")));
        assert!(!page.contains("<script") && !page.contains("http"), "it needs nothing from elsewhere");
    });
}

#[test]
fn invalid_attack_options_are_refused_first() {
    let user = User::me();
    for (words, line) in [
        (&["doctor", "--attack", "--only", "0"][..], "they are 1 to 168"),
        (&["doctor", "--attack", "--only", "169"], "they are 1 to 168"),
        (&["doctor", "--attack", "--only", "9-5"], "write 5-9"),
        (&["doctor", "--attack", "--only", "a031"], "is no attack"),
        (&["doctor", "--attack", "--only"], "--only"),
        (&["doctor", "--attack", "--html"], "--html"),
        (&["doctor", "--attack", "--html", ""], "--html"),
        (&["doctor", "--attack", "--only", "1", "--html", "/nowhere/x.html"], "cannot be written"),
        (&["doctor", "--attack", "--timeout", "soon"], "--timeout"),
        (&["doctor", "--only", "1"], "--attack"),
        (&["doctor", "--html", "x.html"], "--attack"),
        (&["doctor", "--atack"], "did you mean --attack?"),
    ] {
        user.hotcell(words).end().code(125).prints("").says_one_line(line);
    }
    // Attacks for which there is no time are named, and do not count as success.
    let late = user.hotcell(["doctor", "--attack", "--only", "1", "--timeout", "0s"]).end();
    if late.code != Some(125) {
        assert!(late.code(1).text().contains("1 not run"), "{late:#?}");
    }
    // Nothing at all was tried.
    user.hotcell(["doctor", "--attack", "--only", "141"]).end().code(1);
}

#[test]
fn arena_stages_refuse_direct_start() {
    everyone(|user| {
        let task =
            r#"{"user":"root","work":"nothing","base":"/srv/hotcell","as_root":true,"effort":"quick"}"#;
        for stage in ["init", "hop", "driver", "once"] {
            let ended = user.hotcell(["--hotcell-arena-stage", stage, task]).end();
            ended.code(1).prints("").says("this is no arena");
        }
        user.hotcell(["--hotcell-arena-stage", "nonsense"]).end().code(1).says("no stage nonsense");
    });
}
