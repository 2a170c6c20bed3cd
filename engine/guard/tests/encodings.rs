//! Encodings: declarations in a file affect only Python's reading, marks and zeros have no effect on
//! interpreters that read plain bytes, and an honest file in its own encoding is unaffected.

use std::sync::LazyLock;
use std::time::Duration;

use hotcell_guard::{Artifact, Executed, Language, Limits, Pack, Report, Verdict, scan};
use proptest::prelude::*;

/// Every label of the encoding standard.
const LABELS: &str = "
    866 ansi_x3.4-1968 arabic ascii asmo-708 big5 big5-hkscs chinese cn-big5 cp1250 cp1251 cp1252 cp1253
    cp1254 cp1255 cp1256 cp1257 cp1258 cp819 cp866 csbig5 cseuckr cseucpkdfmtjapanese csgb2312 csibm866
    csiso2022jp csiso2022kr csiso58gb231280 csiso88596e csiso88596i csiso88598e csiso88598i csisolatin1
    csisolatin2 csisolatin3 csisolatin4 csisolatin5 csisolatin6 csisolatin9 csisolatinarabic
    csisolatincyrillic csisolatingreek csisolatinhebrew cskoi8r csksc56011987 csmacintosh csshiftjis
    csunicode cyrillic dos-874 ecma-114 ecma-118 elot_928 euc-jp euc-kr gb18030 gb2312 gb_2312 gb_2312-80 gbk
    greek greek8 hebrew hz-gb-2312 ibm819 ibm866 iso-10646-ucs-2 iso-2022-cn iso-2022-cn-ext iso-2022-jp
    iso-2022-kr iso-8859-1 iso-8859-10 iso-8859-11 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16 iso-8859-2
    iso-8859-3 iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-8859-7 iso-8859-8 iso-8859-8-e
    iso-8859-8-i iso-8859-9 iso-ir-100 iso-ir-101 iso-ir-109 iso-ir-110 iso-ir-126 iso-ir-127 iso-ir-138
    iso-ir-144 iso-ir-148 iso-ir-149 iso-ir-157 iso-ir-58 iso8859-1 iso8859-10 iso8859-11 iso8859-13
    iso8859-14 iso8859-15 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9
    iso88591 iso885910 iso885911 iso885913 iso885914 iso885915 iso88592 iso88593 iso88594 iso88595 iso88596
    iso88597 iso88598 iso88599 iso_8859-1 iso_8859-15 iso_8859-1:1987 iso_8859-2 iso_8859-2:1987 iso_8859-3
    iso_8859-3:1988 iso_8859-4 iso_8859-4:1988 iso_8859-5 iso_8859-5:1988 iso_8859-6 iso_8859-6:1987
    iso_8859-7 iso_8859-7:1987 iso_8859-8 iso_8859-8:1988 iso_8859-9 iso_8859-9:1989 koi koi8 koi8-r koi8-ru
    koi8-u koi8_r korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 l1 l2 l3 l4 l5 l6 l9 latin1 latin2
    latin3 latin4 latin5 latin6 logical mac macintosh ms932 ms_kanji replacement shift-jis shift_jis sjis
    sun_eu_greek tis-620 ucs-2 unicode unicode-1-1-utf-8 unicode11utf8 unicode20utf8 unicodefeff unicodefffe
    us-ascii utf-16 utf-16be utf-16le utf-8 utf8 visual windows-1250 windows-1251 windows-1252 windows-1253
    windows-1254 windows-1255 windows-1256 windows-1257 windows-1258 windows-31j windows-874 windows-949
    x-cp1250 x-cp1251 x-cp1252 x-cp1253 x-cp1254 x-cp1255 x-cp1256 x-cp1257 x-cp1258 x-euc-jp x-gbk
    x-mac-cyrillic x-mac-roman x-mac-ukrainian x-sjis x-unicode20utf8 x-user-defined x-x-big5
";

/// Names of Python encodings that change ASCII letters and are missing from the standard.
const OF_PYTHON: &str = "
    utf_7 UTF-7 u7 utf_16 utf-16-le UTF_16_BE utf-32 utf_32_le u16 u32 hz hz_gb iso2022_jp_2 iso2022_jp_2004 iso2022_kr cp037
    cp500 cp1026 cp1140 cp273 cp424 ibm037 ebcdic_cp_us shift_jisx0213 shift_jis_2004 rot13 unicode_escape punycode
";

/// Names and contents of files that an interpreter would execute.
const FILES: &[(&str, &str)] = &[
    ("a.sh", "rm -rf /home\n"),
    (".bashrc", "rm -rf /home\n"),
    (".git/hooks/pre-commit", "rm -rf /home\n"),
    ("Makefile", "all:\n\trm -rf /home\n"),
    (".git/config", "[alias]\n\tx = !rm -rf /home\n"),
    ("Dockerfile", "FROM x\nRUN rm -rf /home\n"),
    ("a.py", "import shutil\nshutil.rmtree('/home')\n"),
];

static PACK: LazyLock<Pack> = LazyLock::new(|| Pack::builtin().unwrap());

fn read(artifact: &Artifact) -> Report {
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    scan(&PACK, &limits, artifact)
}

fn refused(name: &str, bytes: &[u8]) {
    let report = read(&Artifact::new(name, bytes));
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
    assert!(report.verdict >= Verdict::Incomplete, "{name} {shown:?}: {:?}", report.coverage.parts);
}

fn names() -> Vec<&'static str> {
    LABELS.split_whitespace().chain(OF_PYTHON.split_whitespace()).collect()
}

/// A comment that declares an encoding: in the first line, the second, after code, and in another form.
fn declaring(place: usize, name: &str) -> String {
    match place {
        0 => format!("# coding: {name}\n"),
        1 => format!("\n# -*- coding: {name} -*-\n"),
        2 => format!("x=1\n# vim: set fileencoding={name} :\n"),
        _ => format!("#\n#coding={name}\r\n"),
    }
}

#[test]
fn encoding_labels_hide_no_line() {
    for (name, text) in FILES {
        for label in names() {
            refused(name, [declaring(0, label).as_bytes(), text.as_bytes()].concat().as_slice());
        }
    }
}

#[test]
fn python_encoding_labels_alone_are_refused() {
    for label in OF_PYTHON.split_whitespace() {
        for place in [0, 1, 3] {
            refused("a.py", format!("{}x = 1\n", declaring(place, label)).as_bytes());
            let csv = Artifact::new("a.csv", format!("{}x = 1\n", declaring(place, label)));
            let run = csv.executed_as(&[Executed::As(Language::Python)]);
            assert!(read(&run).verdict >= Verdict::Incomplete, "{label} in what is executed as Python");
        }
        // Python does not look there.
        let text = format!("x = 1\n# coding: {label}\n");
        assert_eq!(read(&Artifact::new("a.py", text)).verdict, Verdict::Allow, "{label} behind code");
    }
}

#[test]
fn utf16_like_beginning_hides_no_bytes() {
    for (name, text) in FILES.iter().filter(|(name, _)| *name != "a.py" && *name != ".git/config") {
        for first in [&b"\xff\xfe"[..], b"\xfe\xff", b"\xff\xfe=1", b"\xff\xfe#\0"] {
            refused(name, &[first, b"\n", text.as_bytes()].concat());
        }
        for zeros in [2, 64, 70, 500] {
            refused(name, &[&b"#\0".repeat(zeros)[..], b"\xff\n", text.as_bytes()].concat());
        }
    }
    // To make and to a shell, the magic number of a data format is an ordinary word.
    for magic in ["GIF8", "RIFF", "OggS", "ID3", "PAR1", "OTTO"] {
        refused("Makefile", format!("{magic}=1\nall:\n\trm -rf /home\n").as_bytes());
        refused(".husky/pre-push", format!("{magic}=1\nrm -rf /home\n").as_bytes());
    }
    refused("a.sh", b"\xef\xbb\xbf#;rm -rf /home\n");
}

#[test]
fn honest_files_in_other_encodings_stay_allowed() {
    let wide = |text: &str| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    let shift_jis = b"x = '\x93\xfa\x96\x7b\x8c\xea'\n";
    for (name, bytes) in [
        ("a.py", b"# -*- coding: latin-1 -*-\nx = '\xe9t\xe9'\n".to_vec()),
        ("b.py", b"# coding: cp1252\nx = '\x93a\x94'\n".to_vec()),
        ("c.py", [&b"# coding: shift_jis\n"[..], shift_jis].concat()),
        ("d.py", b"# coding: euc-jp\nx = '\xc6\xfc\xcb\xdc'\n".to_vec()),
        ("e.py", b"# coding: gbk\nx = '\xd6\xd0\xce\xc4'\n".to_vec()),
        ("f.py", b"#!/usr/bin/python3\n# vim: set fileencoding=koi8-r :\nx = '\xd2'\n".to_vec()),
        ("g.py", b"\xef\xbb\xbfx = 1\n".to_vec()),
        ("a.sh", b"#!/bin/sh\n# -*- coding: utf-8 -*-\necho hi\n".to_vec()),
        ("b.sh", b"\xef\xbb\xbfecho hi\n".to_vec()),
        ("a.csv", wide("a,b\r\n1,2\r\n")),
        ("a.txt", wide("Guten Tag\r\n")),
        ("a.ps1", wide("Write-Output 'hi'\r\n")),
        ("a.sql", wide("SELECT 1;\r\n")),
        ("Makefile", b"\xef\xbb\xbfall:\n\techo hi\n".to_vec()),
    ] {
        let report = read(&Artifact::new(name, bytes));
        assert_eq!(
            report.verdict,
            Verdict::Allow,
            "{name}: {:?} {:?}",
            report.coverage.parts,
            report.findings
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn encoding_declaration_hides_no_line(
        label in prop::sample::select(names()),
        place in 0usize..4,
        file in prop::sample::select(FILES),
        marks in "[-_A-Za-z0-9.]{0,3}",
    ) {
        let (name, text) = file;
        // git stops reading at code before it.
        prop_assume!(name != ".git/config" || place != 2);
        let declared = declaring(place, &format!("{label}{marks}"));
        // The text before the program is invalid in its language: a shell and make continue after it.
        let text = if name == "Makefile" && place == 2 { format!("{}{text}", declared.replace("x=1", "x:=1")) }
            else { format!("{declared}{text}") };
        let report = read(&Artifact::new(name, text.clone()));
        prop_assert!(report.verdict >= Verdict::Incomplete, "{name} {text:?}: {:?}", report.coverage.parts);
    }
}
