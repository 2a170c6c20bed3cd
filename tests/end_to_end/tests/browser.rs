//! Debian's Chromium in a sandbox: its own sandbox is off, since the outer one holds.

use std::path::Path;

use hotcell_end_to_end::everyone;

const CHROMIUM: &str = "/usr/lib/chromium/chromium";
const PAGE: &str = "<!doctype html><title>t</title><body style='background:#8f8'><h1>Hello</h1>\
                    <script>document.title = 'ran'; document.body.append(document.title)</script>";

#[test]
fn chromium_takes_a_picture_in_a_sandbox() {
    if !Path::new(CHROMIUM).exists() {
        println!(
            "skipped: {CHROMIUM} is not there (on Debian: apt-get install --no-install-recommends chromium)"
        );
        return;
    }
    everyone(|user| {
        user.write("work/page.html", PAGE);
        let own = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let quiet = ["--disable-background-networking", "--log-level=3"];
        let run = ["run", "--workspace", ".", "--memory", "1G", "--max-processes", "256"];
        let shot =
            ["--screenshot=page.png", "--window-size=400,300", "file:///home/sandbox/project/page.html"];
        let words: Vec<&str> = run
            .into_iter()
            .chain(["--output-files", "out=page.png", "--"])
            .chain(own)
            .chain(quiet)
            .chain(shot)
            .collect();
        user.hotcell(words).end().code(0);
        let picture = std::fs::read(user.path("work/out/page.png")).expect("a picture");
        assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() > 1000, "{}", picture.len());
        // Without the option for its own sandbox it does not start: none is made inside of the outer one.
        let words = [
            "run",
            "--memory",
            "1G",
            "--max-processes",
            "256",
            "--",
            CHROMIUM,
            "--headless",
            "--dump-dom",
            "about:blank",
        ];
        let refused = user.hotcell(words).end();
        assert_ne!(refused.code, Some(0), "{refused:#?}");
    });
}
