//! Files of a run that are copied out: `--output-files`, and `outputs` over MCP.

use std::os::unix::fs::PermissionsExt;

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{User, everyone};
use serde_json::json;

const SCRIPT: &str = "mkdir -p dist .git; echo 1 > dist/a.whl; chmod 755 dist/a.whl; ln -s /etc/passwd dist/b.whl; \
                      mkfifo dist/c.whl; echo x > .git/hook; echo new > made.txt";

#[test]
fn files_are_copied_by_the_rules_of_a_commit() {
    everyone(|user| {
        let project = user.make_folder("work/project");
        user.write("work/project/old.txt", "old");
        let out = user.path("work/out");
        let run = |glob: &str| {
            let option = format!("{}={glob}", out.display());
            let words = ["run", "--json", "--workspace", project.to_str().expect("UTF-8"), "--output-files"];
            user.hotcell(words.into_iter().chain([option.as_str(), "--", "bash", "-c", SCRIPT])).end()
        };
        let ended = run("**");
        ended.code(125);
        let outputs = &ended.json()["outputs"];
        let files: Vec<_> =
            outputs["files"].as_array().expect("files").iter().map(|f| f["path"].clone()).collect();
        assert_eq!(files, [json!("dist/a.whl"), json!("made.txt")], "{outputs:#}");
        let left = outputs["left"].to_string();
        for why in ["it is a link", "a device, a pipe or a socket", "protected"] {
            assert!(left.contains(why), "{why}: {left}");
        }
        let copied = std::fs::metadata(out.join("dist/a.whl")).expect("a copy");
        assert_eq!(copied.permissions().mode() & 0o111, 0);
        assert!(
            !out.join("old.txt").exists() && !out.join(".git").exists() && !out.join("dist/b.whl").exists()
        );
        assert!(!project.join("made.txt").exists());
        // Another's file stays.
        std::fs::write(out.join("made.txt"), "mine").expect("a file");
        let ended = run("made.txt");
        ended.code(125);
        assert!(
            ended.json()["outputs"]["left"][0]["why"].to_string().contains("another file"),
            "{}",
            ended.text()
        );
        assert_eq!(std::fs::read_to_string(out.join("made.txt")).expect("a file"), "mine");
    });
}

#[test]
fn wrong_patterns_are_refused_before_anything_runs() {
    let user = User::me();
    for (option, why) in [
        ("coverage.xml", "names no folder"),
        ("out=../x", "leads out"),
        ("out=/etc/passwd", "outside /home/sandbox"),
        ("out=a[", "is no pattern"),
        ("/proc/nowhere/out=a", "/proc/nowhere/out"),
    ] {
        user.hotcell(["run", "--output-files", option, "--", "true"]).end().code(125).says(why);
    }
    // A run without a workspace starts in its home folder.
    let out = user.path("work/home");
    let option = format!("{}=*.txt", out.display());
    user.hotcell(["run", "--output-files", &option, "--", "bash", "-c", "echo 1 > a.txt"])
        .end()
        .code(0)
        .says("copied out: 1 file");
    assert_eq!(std::fs::read_to_string(out.join("a.txt")).expect("a copy"), "1\n");
}

#[test]
fn run_code_returns_files_and_pictures() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let code = "import os, struct, zlib\n\
                    def chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n\
                    png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 2, 1, 8, 0, 0, 0, 0)) \
                    + chunk(b'IDAT', zlib.compress(b'\\0ab')) + chunk(b'IEND', b'')\n\
                    open('plot.png', 'wb').write(png)\n\
                    open('/home/sandbox/outputs/table.csv', 'w').write('a,b\\n')\n\
                    os.symlink('/etc/passwd', 'link.png')\n";
        let answer = client
            .call("run_code", &json!({ "language": "python", "code": code, "outputs": ["*.png", "none"] }));
        let outputs = &answer["structuredContent"]["outputs"];
        let paths: Vec<_> =
            outputs["files"].as_array().expect("files").iter().map(|f| f["path"].clone()).collect();
        assert_eq!(paths, [json!("plot.png"), json!("outputs/table.csv")], "{answer:#}");
        let said = answer["content"][0]["text"].as_str().expect("a text");
        // Returned files are not gone with the folder.
        assert!(said.contains("added link.png") && !said.contains("added plot.png"), "{said}");
        assert!(said.contains("link.png: it is a link") && said.contains("none: matches no file"), "{said}");
        let content = answer["content"].as_array().expect("content");
        assert!(
            content.iter().any(|one| one["type"] == "image" && one["mimeType"] == "image/png"),
            "{answer:#}"
        );
        let uri = outputs["files"][1]["uri"].as_str().expect("a URI");
        assert!(content.iter().any(|one| one["type"] == "resource_link" && one["uri"] == uri), "{answer:#}");
        let read = client.request("resources/read", json!({ "uri": uri }));
        assert_eq!(read["result"]["contents"][0]["text"], "a,b\n", "{read:#}");
        let wrong = client.bad("run_code", &json!({ "language": "python", "code": "", "outputs": ["../x"] }));
        assert!(wrong.contains("leads out"), "{wrong}");
        // In a workspace, of a command.
        let argv = json!(["bash", "-c", "echo 1 > a.txt; echo 2 > b.log"]);
        let made = client.good("workspace_create", &json!({}));
        let answer = client.good(
            "run_command",
            &json!({ "argv": argv, "workspace_id": made["workspace_id"], "outputs": ["*.txt"] }),
        );
        assert_eq!(answer["outputs"]["files"][0]["path"], "a.txt", "{answer:#}");
        assert_eq!(answer["outputs"]["files"].as_array().map(Vec::len), Some(1), "{answer:#}");
    });
}
