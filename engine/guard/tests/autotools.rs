//! Scripts as autoconf and libtool write them, which shell parsers of this crate do not read whole: their texts name
//! no commands by patterns, and hidden commands beside them are found all the same.

use hotcell_guard::{Artifact, Limits, Pack, Report, Verdict, scan};
use std::time::Duration;

/// Lines that configure scripts and ltmain.sh consist of.
const HONEST: &[&str] = &[
    "case `(set -o) 2>/dev/null` in #(\n  *posix*) :\n    set -o posix ;; #(\n  *sh) :\n     ;;\nesac",
    "case $f in\n  *.[cCFSifmso] | \\\n  *.ada | *.adb | *.c++ | *sh | \\\n  *.obj) y=1 ;;\nesac",
    "case $d in\n  ./ | /[cC]/* | \\\n  /etc/* | /usr/sbin/* | /usr/ucb/* ) ;;\nesac",
    "sed_dirname='s|/[^/]*$||'\n_G_finalslash='s|/*$|/|'",
    "as_me=`$as_expr X/\"$0\" : '.*/\\([^/][^/]*\\)/*$' \\| X\"$0\" : 'X\\(//\\)$'`",
    "x=`echo \"$3\" | sed -e 's/^\\([0-9]\\)/_\\1/' -e 's/[^a-zA-Z0-9_]/_/g'`",
    "host_os=`echo \"$host_os\" | sed 's/ /-/g'`",
    "cat <<_ACEOF >conftest.c\n/* end confdefs.h.  */\nint main (void) { for (p = s; *p; p++) if (*name) *url = 0; }\n_ACEOF",
    "program='\nstatic char *f (char * (*cat) (char **, int), char **p);\nfor (auto i = a; *sh; ++i) { *p; }\n'",
    "cat <<E\n*** ERROR, $lockfile exists and contains:\nlinker: $LD (gnu? $with_gnu_ld)\nE",
    "BASH_ENV=/dev/null\nENV=/dev/null\n(unset BASH_ENV) >/dev/null 2>&1\nPS4='+ '",
    "eval std_shrext=\\\"$shrext_cmds\\\"",
    "eval \"$cmd\" 2>&5",
    "if test \"$libobjs\" = \"\"; then\n  echo \"$progpath\" | $SED $basename\nfi",
];

/// Commands that are hidden by a pattern.
const HIDDEN: &[&str] =
    &["/b?n/id", "/???/c?t /etc/x", "/usr/b[i]n/pytho? -c x", "cd /bin; c?t x", "bin/ba[s]h x"];

/// Lines that a shell reads and tree-sitter does not, or that end the script with an error.
const ODD: &[&str] = &["", "if", "case x in", "fi", "x=${A[B-1}", "done <"];

fn read(pack: &Pack, text: String) -> Report {
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    scan(pack, &limits, &Artifact::new("ltmain.sh", text.into_bytes()))
}

fn has_pattern(report: &Report) -> bool {
    report.findings.iter().any(|finding| finding.rule == "sh.hidden.glob")
}

#[test]
fn honest_scripts_of_autotools_are_not_refused() {
    let pack = Pack::builtin().unwrap();
    let all = HONEST.join("\n");
    let pairs = HONEST.iter().flat_map(|a| HONEST.iter().map(move |b| format!("{a}\n{b}")));
    for text in pairs.chain([all]) {
        for odd in ODD {
            let text = format!("#!/bin/sh\n{text}\n{odd}\n");
            let report = read(&pack, text.clone());
            assert!(report.verdict <= Verdict::Review, "{text}\n{:?}", report.findings);
            assert!(odd.is_empty() || !has_pattern(&report), "{text}\n{:?}", report.findings);
        }
    }
}

#[test]
fn hidden_command_beside_honest_lines_is_found() {
    let pack = Pack::builtin().unwrap();
    for honest in HONEST {
        for hidden in HIDDEN {
            for odd in ODD {
                for text in [
                    format!("{honest}\n{hidden}\n{odd}\n"),
                    format!("{hidden}\n{honest}\n{odd}\n"),
                    format!("{odd}\n{honest}\n{hidden}\n"),
                ] {
                    assert!(has_pattern(&read(&pack, text.clone())), "{text}");
                }
            }
        }
    }
}

#[test]
fn long_list_of_arguments_leaves_script_read() {
    let pack = Pack::builtin().unwrap();
    let many: String = (0..5000).map(|n| format!("func_x file{n}\n")).collect();
    let report = read(&pack, many);
    assert_eq!(report.verdict, Verdict::Allow, "{:?}", report.coverage.parts);
    // Of files that it executes, all have to be known.
    let many: String = (0..5000).map(|n| format!("sh file{n}\n")).collect();
    assert_eq!(read(&pack, many).verdict, Verdict::Incomplete);
}
