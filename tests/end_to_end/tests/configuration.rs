//! Configuration: precedence of its sources, and errors that name file, line and nearest key.

use hotcell_end_to_end::{User, everyone};

#[test]
fn later_configuration_source_wins() {
    everyone(|user| {
        let config = user.make_folder("home/.config/hotcell").join("config.toml");
        std::fs::write(&config, "[limits]\ntimeout = \"0\"\n").unwrap();
        // The user's file is read: its limit refuses the run.
        user.run(["true"]).end().code(125).says("timeout is 0");
        // The environment overrides the file, and options override both.
        user.run(["true"]).env("HOTCELL_TIMEOUT", "10s").end().code(0);
        let words = ["run", "--timeout", "10s", "--", "true"];
        user.hotcell(words).env("HOTCELL_TIMEOUT", "0").end().code(0);
        // Another file in its place.
        let other = user.write("work/other.toml", "");
        user.hotcell(["run", "--config", other.to_str().unwrap(), "--", "true"]).end().code(0);
        user.run(["true"]).env("HOTCELL_CONFIG", &other).end().code(0);
        std::fs::remove_file(config).unwrap();
    });
}

#[test]
fn project_configuration_only_tightens() {
    everyone(|user| {
        let project = user.make_folder("project");
        let file = |text: &str| user.write("project/hotcell.toml", text);
        let run = || user.run(["true"]).cwd(&project).end();
        file("[limits]\ntimeout = \"0s\"\n");
        run().code(125).says("timeout is 0");
        file("[limits]\nmemory = \"256M\"\nprocesses = 10\n");
        run().code(0);
        for (text, line, key) in [
            ("# a comment\n[limits]\nmemory = \"600M\"\n", 3, "limits.memory"),
            ("[limits]\ncpu_time = \"none\"\n", 2, "limits.cpu_time"),
            ("ro = [\"/etc\"]\n", 1, "ro"),
            ("\nrw = [\"/\"]\n", 2, "rw"),
            ("pass_env = [\"SECRET\"]\n", 1, "pass_env"),
            ("state = \"here\"\n", 1, "state"),
            ("profile = \"landlock-only\"\n", 1, "profile"),
        ] {
            file(text);
            run().code(125).says_one_line(&format!("hotcell.toml:{line}: {key}")).says("only tighten");
            let error = user.hotcell(["run", "--json", "--", "true"]).cwd(&project).end().code(125).json();
            assert_eq!((&error["code"], &error["field"]), (&"configuration".into(), &key.into()));
            // That file, found in the workspace.
            let workspace = ["run", "--workspace", project.to_str().unwrap(), "--", "true"];
            user.hotcell(workspace).end().code(125).says(key);
        }
        assert!(!project.join("here").exists());
        // Options on the command line are the user's own, so a project's file does not limit them.
        file("[limits]\nmemory = \"16M\"\n");
        user.hotcell(["run", "--memory", "1G", "--", "true"]).cwd(&project).end().code(0);
    });
}

#[test]
fn mistakes_name_file_line_and_nearest_key() {
    let user = User::me();
    for (text, place) in [
        (
            "[limits]\nmemroy = \"1M\"\n",
            "c.toml:2: unknown key \"limits.memroy\"; did you mean \"limits.memory\"?",
        ),
        ("profil = \"strict\"\n", "c.toml:1: unknown key \"profil\"; did you mean \"profile\"?"),
        ("[limits]\nmemory = \"much\"\n", "c.toml:2: "),
        ("require = [\"secomp\"]\n", "did you mean \"seccomp\"?"),
        ("profile = \"strcit\"\n", "did you mean \"strict\"?"),
        ("[[limits\n", "c.toml:1: "),
    ] {
        let file = user.write("work/c.toml", text);
        user.hotcell(["run", "--config", file.to_str().unwrap(), "--", "true"])
            .end()
            .code(125)
            .says_one_line(place);
    }
    user.run(["true"]).env("HOTCELL_MEMROY", "1M").end().code(125).says_one_line("HOTCELL_MEMORY");
    user.run(["true"]).env("HOTCELL_MEMORY", "much").end().code(125).says_one_line("HOTCELL_MEMORY");
    user.run(["true"]).env("HOTCELL_PROFILE", "strcit").end().code(125).says_one_line("strict");
}

#[test]
fn profiles_by_name_and_by_file() {
    everyone(|user| {
        user.hotcell(["run", "--profile", "standard", "--", "true"]).end().code(0);
        let file = user.write("work/mine.toml", "network = \"off\"\nenv = { WHO = \"mine\" }\n");
        let words = ["run", "--profile", file.to_str().unwrap(), "--", "sh", "-c", "echo $WHO"];
        user.hotcell(words).end().code(0).prints("mine\n");
        user.hotcell(["run", "--profile", "./mine.toml", "--", "sh", "-c", "echo $WHO"])
            .end()
            .code(0)
            .prints("mine\n");
        user.write("work/bad.toml", "\nnetwrok = \"off\"\n");
        let ended = user.hotcell(["run", "--profile", "bad.toml", "--", "true"]).end();
        ended.code(125).says_one_line("bad.toml:2: unknown key \"netwrok\"; did you mean \"network\"?");
    });
}

#[test]
fn strict_is_all_layers_or_a_refusal() {
    let user = User::me();
    let ended = user.hotcell(["run", "--json", "--profile", "strict", "--", "true"]).end();
    let outcome = ended.json();
    if ended.code == Some(0) {
        for (layer, state) in outcome["layers"].as_object().unwrap() {
            if !matches!(layer.as_str(), "landlock_abi" | "cgroup_version") {
                assert_eq!(state, "on", "{layer}");
            }
        }
    } else {
        ended.code(125);
        assert_eq!(outcome["cause"], "refused");
        assert!(outcome["reason"].as_str().unwrap().contains("requires the layer"), "{outcome:#}");
    }
}
