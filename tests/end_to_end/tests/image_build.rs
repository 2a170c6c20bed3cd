//! Images built from Debian's archive: by any user, once, and usable for runs.

use std::path::Path;

use hotcell_end_to_end::{Ended, User, everyone};

use crate::serve::{Service, until};

fn image(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["image"]).words(words).end()
}

fn has(program: &str) -> bool {
    let there = Path::new("/usr/bin").join(program).exists();
    if !there {
        println!("skipped: no {program}");
    }
    there
}

#[test]
fn image_is_built_from_file_and_used() {
    if !has("apt-get") {
        return;
    }
    everyone(|user| {
        user.write(
            "work/small.toml",
            "languages = [\"bash\", \"python\"]\nprime = [\"csv\"]\nenv = { GREETING = \"hello\" }\nlinks = { \"usr/bin/awk\" = \"mawk\" }\n\
             [debian]\npackages = [\"bash\", \"coreutils\", \"dash\", \"mawk\", \"python3-minimal\"]\n",
        );
        let built = image(user, &["--json", "build", "./small.toml"]).code(0).json();
        let row = &built["images"][0];
        assert_eq!((&built["schema"], &row["name"]), (&"hotcell.images/1".into(), &"small".into()));
        assert_eq!(row["languages"], serde_json::json!(["bash", "python"]));
        assert_eq!(row["details"]["prime"], serde_json::json!(["csv"]));
        let notes = row["details"]["notes"].to_string();
        assert!(notes.contains("scripts of packages that were not run"), "{notes}");
        // The archive has not changed meanwhile, so nothing is built again.
        image(user, &["build", "small.toml"]).code(0).says("nothing to do");
        assert_eq!(image(user, &["--json", "list"]).code(0).json()["images"][0]["digest"], row["digest"]);

        let run = user.shell(
            ["--image", "small"],
            "echo $GREETING; awk 'BEGIN { print 6 * 7 }'; touch /usr/x; ls /usr/games",
        );
        let said = run.end();
        assert_eq!(said.text(), "hello\n42\n");
        said.says("Read-only file system");
        let script = "import re, sys; print(sys.prefix, re.__cached__.startswith('/usr/lib'))";
        let said = user.hotcell(["run", "--image", "small", "--", "python3", "-c", script]).end();
        assert_eq!(said.code(0).text(), "/usr True\n");
        // In a service, the image's Python has imported its preloaded modules once an interpreter is ready.
        let service = Service::start(user, &[]);
        let asked =
            ["run", "--image", "small", "--", "python3", "-c", "import sys; print('csv' in sys.modules)"];
        until("a Python that waited serves", || {
            service.with(user.hotcell(asked)).end().code(0).text() == "True\n"
        });
        service.stop(user);
        // Compiled ahead of time, if a sandbox was available.
        if !notes.contains("not compiled ahead") {
            let script = "import re, os, sys; sys.exit(not os.path.exists(re.__cached__))";
            user.hotcell(["run", "--image", "small", "--", "python3", "-c", script]).end().code(0);
        }
    });
}

#[test]
fn invalid_image_definition_is_named() {
    everyone(|user| {
        user.write("work/bad.toml", "[debian]\nsuit = \"x\"\npackages = [\"dash\"]\n");
        for (named, word) in [
            ("pyhton", "did you mean \"python\""),
            ("bad.toml", "did you mean \"debian.suite\""),
            ("./none.toml", "cannot be read"),
        ] {
            image(user, &["build", named]).code(125).says(word);
        }
        user.hotcell(["run", "--image", "python", "--", "true"])
            .end()
            .code(125)
            .says("hotcell image build python");
    });
}
