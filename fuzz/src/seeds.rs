//! Where the targets begin: the examples of the rules and the ways to hide.
//!
//! A program without libFuzzer cannot be linked with code that is built for it, so a target does this when it is asked.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use hotcell_guard::{Artifact, Language, Limits, scan};
use hotcell_tools::ask::Blob;
use hotcell_tools::protocol::FromHost;
use hotcell_tools::{Answer, Ask, CallError, LoadError};
use serde::Deserialize;

use crate::{NAMES, PACK, TREES};

#[derive(Deserialize)]
struct Sample {
    file: String,
    #[serde(default)]
    text: String,
}

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

struct Seeds {
    folder: PathBuf,
    count: u32,
}

impl Seeds {
    fn add(&mut self, target: &str, parts: &[&[u8]]) -> std::io::Result<()> {
        let folder = self.folder.join(target);
        std::fs::create_dir_all(&folder)?;
        self.count += 1;
        std::fs::write(folder.join(format!("seed-{}", self.count)), parts.concat())
    }

    /// A text as the target of its language takes it.
    fn text(&mut self, language: Language, text: &str) -> std::io::Result<()> {
        let tree = |name: &str| TREES.iter().position(|tree| *tree == name).map(|at| at as u8);
        let chosen = match language {
            Language::Python => return self.add("python", &[text.as_bytes()]),
            Language::Bash => return self.add("shell", &[text.as_bytes()]),
            Language::JavaScript | Language::TypeScript => return self.add("javascript", &[text.as_bytes()]),
            Language::Sql => return self.add("sql", &[text.as_bytes()]),
            Language::Go => tree("a.go"),
            Language::Rust => tree("a.rs"),
            Language::C => tree("a.c"),
            Language::Cpp => tree("a.cpp"),
            Language::Java => tree("a.java"),
            Language::PowerShell => tree("a.ps1"),
            _ => None,
        };
        match chosen {
            Some(tree) => self.add("tree", &[&[tree], text.as_bytes()]),
            None => self.file("a.txt", text.as_bytes()),
        }
    }

    /// A file as the target of files takes it.
    fn file(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let at = NAMES.iter().position(|known| *known == name).unwrap_or(0) as u8;
        self.add("ingest", &[&[at], bytes])
    }
}

/// Writes them below the folder that `HOTCELL_FUZZ_SEEDS` names, if it does: one folder for each target.
pub fn write_if_asked() {
    if let Some(folder) = std::env::var_os("HOTCELL_FUZZ_SEEDS")
        && let Err(error) = write(Path::new(&folder))
    {
        panic!("the seeds cannot be written: {error}");
    }
}

/// One message of each kind that a tool host says.
fn tool_host() -> Anything<Vec<FromHost>> {
    let answer = Answer {
        is_error: false,
        value: serde_json::value::RawValue::from_string("{\"result\":[1,\"x\"]}".to_owned())?,
        stdout: "out".to_owned(),
        stderr: String::new(),
        denied: vec!["net=https://a.com:443".to_owned()],
        wall_us: 7,
        peak_memory: 65_536,
    };
    let description = serde_json::json!({
        "exports": [{ "path": "a#f", "function": "f", "interface": "a", "description": "d",
                      "input_schema": { "type": "object" }, "output_schema": { "type": "object" } }],
        "left_out": [], "imports": ["wasi:cli/exit@0.2.0"], "at_most": ["net"], "manifest": "[plugin]",
    });
    let description = Box::new(serde_json::from_value(description)?);
    let trap = CallError::Trap {
        message: "unreachable".to_owned(),
        denied: vec!["net=https://a.com:443".to_owned()],
        frames: vec!["f".to_owned()],
    };
    let http = Ask::Http {
        method: "GET".to_owned(),
        url: "https://a.com/".to_owned(),
        headers: vec![("a".to_owned(), Blob(b"b".to_vec()))],
        body: Blob(b"c".to_vec()),
        timeout_ms: 5,
    };
    Ok(vec![
        FromHost::Ready(Ok(())),
        FromHost::Ready(Err(LoadError::NoTools)),
        FromHost::Compiled { description, code: b"code".to_vec() },
        FromHost::Loaded { plugin: 1 },
        FromHost::NotLoaded { plugin: 1, error: LoadError::Stale },
        FromHost::Done { call: 2, result: Box::new(Ok(answer)) },
        FromHost::Done { call: 2, result: Box::new(Err(trap)) },
        FromHost::Asked { ask: 1, call: 2, what: http },
        FromHost::Asked { ask: 1, call: 2, what: Ask::KvKeys { prefix: "k".to_owned() } },
        FromHost::Withdrawn { ask: 1 },
    ])
}

/// Ways to hide. By a path of this file, since a second crate has these modules.
const HIDING: &str = include_str!("../../engine/guard/tests/data/evasions.yml");

/// Writes the seeds below `folder`: one folder for each target.
///
/// # Errors
///
/// When a file cannot be written, or a seed cannot be made.
pub fn write(folder: &Path) -> Anything<()> {
    let mut seeds = Seeds { folder: folder.to_owned(), count: 0 };
    for rule in &PACK.rules {
        for example in rule.metadata.positive.iter().chain(&rule.metadata.benign) {
            match example.strip_prefix("#!file ").and_then(|text| text.split_once('\n')) {
                Some((name, text)) => seeds.file(name.trim(), text.as_bytes())?,
                None => seeds.text(rule.language, example)?,
            }
        }
    }
    for sample in serde_yaml_ng::from_str::<Vec<Sample>>(HIDING)? {
        seeds.file(&sample.file, sample.text.as_bytes())?;
        let language = match sample.file.rsplit('.').next() {
            Some("py") => Language::Python,
            Some("sh") => Language::Bash,
            Some("js") => Language::JavaScript,
            Some("sql") => Language::Sql,
            _ => continue,
        };
        seeds.text(language, &sample.text)?;
    }
    let program = b"import os\nos.system('id')\n";
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(program.len() as u64);
    header.set_cksum();
    tar.append_data(&mut header, "x/a.py", &program[..])?;
    let tar = tar.into_inner()?;
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("x/a.py", zip::write::SimpleFileOptions::default())?;
    zip.write_all(program)?;
    let zip = zip.finish()?.into_inner();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&tar)?;
    let gzip = gzip.finish()?;
    // Made by 7-Zip: a program as it is, and a header that is not packed.
    let seven = b"7z\xbc\xaf'\x1c\0\x04\xd9\xdc\x88\xe5%\0\0\0\0\0\0\0:\0\0\0\0\0\0\0 \xbf\
        A#import shutil\nshutil.rmtree(\
        '/home')\n\x01\x04\x06\0\x01\x09%\0\x07\x0b\x01\0\x01\x01\0\x0c%\0\x08\n\x01\
        \xfc\xb2K\xac\0\0\x05\x01\x11\x0f\0x\0/\0a\0.\0p\0y\0\0\0\x19\0\x15\x06\x01\
        \0 \x80\xa4\x81\0\0";
    seeds.file("a", seven)?;
    for (name, bytes) in [("a.tar", &tar), ("a.zip", &zip), ("a.tgz", &gzip), ("a", &zip)] {
        seeds.file(name, bytes)?;
    }
    for (at, data) in [
        &b"cHJpbnQoMSk="[..],
        b"OBZGS3TUFAYSS===",
        b"aA9Ma",
        b"E,oZ1F",
        b"x\x9c\x03\0\0\0\0\x01",
        &gzip,
        b"BZh91AY&SY",
        b"\xfd7zXZ\0",
        b"cevag(1)",
        b"p\0r\0",
    ]
    .iter()
    .enumerate()
    {
        seeds.add("decoder", &[&[at as u8], data])?;
    }
    for text in ["print(1)\n", "import shutil\nshutil.rmtree('/home')\n"] {
        let report = scan(&PACK, &Limits::default(), &Artifact::new("a.py", text));
        seeds.add("answer", &[&serde_json::to_vec(&report)?])?;
    }
    for text in [
        &b"GET http://a.com/p HTTP/1.1\r\nHost: a.com\r\nConnection: x\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"CONNECT [::1]:443 HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        b"\x05\x01\0\x03\x05a.com\x01\xbb",
        b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0\x01a\x03com\0\0\x01\0\x01",
        b"a.com:443,*.b.com:80,x=10.0.0.1:1,[fd00::1]:2",
        b"\x16\x03\x01\0\x05\x01\0\0\x01\0",
    ] {
        seeds.add("egress", &[text])?;
    }
    for text in [
        &b"GET /v1/ HTTP/1.1\r\nHost: api.test\r\nAuthorization: mine\r\nConnection: close, x\r\n\r\n"[..],
        b"POST /gh/x?a=b HTTP/1.1\r\nHost: 127.0.0.1:888\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /v1/x\r\nLink: <t0p-s3cret/value>; rel=next\r\nContent-Length: 0\r\n\r\n",
    ] {
        seeds.add("routes", &[text])?;
    }
    for text in [
        &b"\x1b[1;38;5;8mred\x1b[0m\x1b[K\r"[..],
        b"\x1b]52;c;eA==\x07\x1b]0;t\x1b\\\x1b[?1049h\x1b[8m",
        "\u{9b}2J\u{9d}0;t\u{9c}\u{202e}".as_bytes(),
        b"\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\\x9b6n\xc0\x9b",
    ] {
        seeds.add("terminal", &[text])?;
        seeds.add("screen", &[&[24, 80, 10, 20], text])?;
    }
    for text in [
        &b"\x1b[?1049h\x1b[2J\x1b[5;5Hx\x1b[1;3r\x1bM\x1b[?2004l\x1b[?1000h\x1b(0q\x1b(B"[..],
        b"print(1)\r\x1b[A\x1b[D\x7f\x15x = 1\n\x04",
        b"C-Left",
        "\u{4f60}\u{597d}\u{0301}\t\u{1f468}\u{200d}\u{1f469}\r\n".as_bytes(),
    ] {
        seeds.add("screen", &[&[3, 9, 40, 60], text])?;
    }
    let junit = "<testsuites><testsuite name=\"pytest\" tests=\"1\"><testcase classname=\"a\" name=\"b\" time=\"0.1\">\
                 <failure message=\"m\">t&amp;</failure><system-out>o</system-out></testcase></testsuite></testsuites>";
    let tap = "TAP version 14\n1..3\n# Subtest: a.js\n    ok 1 - x # time=1ms\n    not ok 2 - y # TODO later\n      ---\n      at:\n        fileName: a.js\n        lineNumber: 3\n      ...\n    1..2\nok 1 - a.js\nok 2 - b {\n    1..0 # SKIP none\n}\nnot ok 3 - c\n  ---\n    expected: |-\n      1\n    stack: x (/p/a.js:1:2)\n  ...\nBail out! no\n";
    let printed = format!(
        "{{\"program\":\"tap\",\"nested\":true,\"top\":\"/p\",\"code\":1,\"size\":{}}}\n{tap}",
        tap.len()
    );
    for text in [junit, tap, &printed] {
        seeds.add("junit", &[text.as_bytes()])?;
    }
    let mut layer = tar::Builder::new(Vec::new());
    for (kind, name, says) in [
        (tar::EntryType::Directory, "usr/", ""),
        (tar::EntryType::Symlink, "bin", "usr/bin"),
        (tar::EntryType::Regular, "usr/.wh.old", ""),
        (tar::EntryType::Regular, "usr/.wh..wh..opq", ""),
        (tar::EntryType::Link, "again", "usr/.wh.name"),
        (tar::EntryType::Char, "null", ""),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o4755);
        if !says.is_empty() {
            header.set_link_name(says)?;
        }
        layer.append_data(&mut header, name, std::io::empty())?;
    }
    let layer = layer.into_inner()?;
    for bytes in [&layer, &tar, &gzip] {
        seeds.add("image", &[&[0], bytes])?;
    }
    let digest = format!("sha256:{}", "0".repeat(64));
    let index = format!("{{\"manifests\":[{{\"digest\":\"{digest}\",\"platform\":{{\"os\":\"linux\"}}}}]}}");
    seeds.add("image", &[&[1], index.as_bytes()])?;
    let config =
        format!("{{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{{\"diff_ids\":[\"{digest}\"]}}}}");
    seeds.add("image", &[&[2], config.as_bytes()])?;
    for (target, texts) in ["mcp_stdio", "mcp_http"].into_iter().zip(hotcell_mcp::fuzzing::seeds()) {
        for text in texts {
            seeds.add(target, &[&[255], &text])?;
        }
    }
    for message in tool_host()? {
        seeds.add("tool_host", &[&[255], &message.encode()?])?;
    }
    for text in [
        "{}",
        "{\"a\":1,\"b\":[true,null],\"value\":{\"tag\":\"a\",\"value\":-1.5e3}}",
        "[\"a\",\"AP8=\",\"9007199254740993\",\"NaN\",\"\\u00e9\"]",
        "{\"ok\":null}",
        "{\"some\":null}",
        "null",
        "255",
        "\"x\"",
    ] {
        for types in 0..24u16 {
            seeds.add("mapping", &[&types.to_le_bytes(), &(types + 7).to_le_bytes(), text.as_bytes()])?;
        }
    }
    // The protocol's version, a request's kind, a number.
    seeds.add("wire", &[&2u32.to_le_bytes(), &[0; 16]])?;
    Ok(())
}
