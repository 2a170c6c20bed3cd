//! Programs with a terminal of the sandbox's own, typed into as a person would.

use std::path::Path;

use hotcell_end_to_end::everyone;

const PYTHON: &str = "/usr/bin/python3";
const TYPIST: &str = include_str!("interactive_terminal.py");

#[test]
fn terminal_has_job_control_and_is_restored() {
    everyone(|user| {
        let script = user.write("typist.py", TYPIST);
        let typist = user
            .program(Path::new(PYTHON))
            .arg(script)
            .arg(user.binary())
            .current_dir(user.path("work"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", user.path("home"))
            .output()
            .expect("the typist starts");
        assert!(typist.status.success(), "{}", String::from_utf8_lossy(&typist.stdout));
    });
}
