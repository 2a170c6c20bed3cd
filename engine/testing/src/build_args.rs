//! `--build-arg`: options for the tool that builds a project's tests, if there is one and it accepts them.

use std::ffi::OsString;

use crate::framework::Command;
use crate::project::Project;

/// File in which hotcell's scripts find them, one per line.
const VARIABLE: &str = "HOTCELL_BUILD_ARGS";

/// Adds options to a framework's command.
///
/// # Errors
/// A sentence, when nothing is built, or hotcell does not pass this option on.
pub fn add(
    framework: &str,
    project: &dyn Project,
    args: &[String],
    command: &mut Command,
) -> Result<(), String> {
    if args.is_empty() {
        return Ok(());
    }
    let gradle = || {
        let files = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
        files.into_iter().any(|file| project.has(file))
    };
    let (tool, takes, is_taken): (_, _, fn(&str) -> bool) = match framework {
        "gtest" if project.has("CMakeLists.txt") => ("cmake", "-DNAME=VALUE", is_definition),
        "gtest" => return Err("there is no CMakeLists.txt: the compiler alone builds these tests".to_owned()),
        "junit" if project.has("pom.xml") => ("mvn", "-DNAME[=VALUE] and -PPROFILE", is_property),
        "junit" if gradle() => ("gradle", "-PNAME[=VALUE] and -DNAME[=VALUE]", is_property),
        "junit" => {
            return Err(
                "there is neither pom.xml nor build.gradle: the JDK's compiler alone builds these tests"
                    .to_owned(),
            );
        }
        "cargo" => (
            "cargo",
            "--features=LIST, --all-features, --no-default-features and --exclude=PACKAGE",
            is_for_cargo,
        ),
        "go" => ("go", "-tags=LIST", |arg| value_of(arg, "-tags=").is_some()),
        _ => return Err(format!("{framework} builds nothing; gtest, junit, cargo and go have it")),
    };
    if let Some(wrong) = args.iter().find(|arg| !is_taken(arg) || arg.contains(char::is_control)) {
        return Err(format!("{wrong:?} is nothing that {tool} is given here: it takes {takes}"));
    }
    match framework {
        "gtest" | "junit" => command.env.push((VARIABLE.into(), args.join("\n").into())),
        // After `cargo test` and `go test`. Where one program is chosen, there is nothing to take a package out of.
        _ => {
            let whole = command.argv.iter().any(|word| word == "--workspace");
            let args = args.iter().filter(|arg| whole || !arg.starts_with("--exclude="));
            let args: Vec<OsString> = args.map(OsString::from).collect();
            drop(command.argv.splice(2..2, args));
        }
    }
    Ok(())
}

/// When no tests were found: options of the project's own CMake that seem to enable tests.
#[must_use]
pub fn hint(framework: &str, project: &dyn Project) -> Option<String> {
    let text = project.read("CMakeLists.txt").filter(|_| framework == "gtest")?;
    let text = String::from_utf8_lossy(&text);
    let lower = text.to_ascii_lowercase();
    let names = lower.match_indices("option").filter_map(|(at, _)| {
        let rest = text[at..].get("option".len()..)?.trim_start().strip_prefix('(')?.trim_start();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = &rest[..rest.find(|c| !plain(c)).unwrap_or(rest.len())];
        (name.to_ascii_uppercase().contains("TEST") && name.len() <= 100).then_some(name)
    });
    let mut words: Vec<String> = names.take(3).map(|name| format!("‹build_arg=-D{name}=ON›")).collect();
    words.dedup();
    (!words.is_empty())
        .then(|| format!("CMakeLists.txt has options that may switch them on: {}", words.join(", ")))
}

fn value_of<'a>(arg: &'a str, head: &str) -> Option<&'a str> {
    arg.strip_prefix(head).filter(|value| !value.is_empty())
}

/// `-DNAME=VALUE` and `-DNAME:TYPE=VALUE`.
fn is_definition(arg: &str) -> bool {
    arg.strip_prefix("-D").and_then(|rest| rest.split_once('=')).is_some_and(|(name, _)| !name.is_empty())
}

fn is_property(arg: &str) -> bool {
    value_of(arg, "-D").or(value_of(arg, "-P")).is_some_and(|rest| !rest.starts_with(['=', ' ']))
}

fn is_for_cargo(arg: &str) -> bool {
    matches!(arg, "--all-features" | "--no-default-features")
        || value_of(arg, "--features=").or(value_of(arg, "--exclude=")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::Selection;
    use crate::frameworks::framework;

    #[derive(Debug)]
    struct Has(&'static str);

    impl Project for Has {
        fn files(&self) -> &[String] {
            &[]
        }
        fn read(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn has(&self, path: &str) -> bool {
            path == self.0
        }
    }

    #[test]
    fn options_about_tests_are_named() {
        #[derive(Debug)]
        struct Text(&'static str);
        impl Project for Text {
            fn files(&self) -> &[String] {
                &[]
            }
            fn read(&self, _: &str) -> Option<Vec<u8>> {
                Some(self.0.as_bytes().to_vec())
            }
            fn has(&self, _: &str) -> bool {
                true
            }
        }
        for (text, want) in [
            ("project(x)\noption(X_BUILD_TESTS \"Build\" OFF)\n", Some("‹build_arg=-DX_BUILD_TESTS=ON›")),
            ("OPTION ( b_Test )", Some("-Db_Test=ON")),
            ("cmake_dependent_option(\n  A_TESTING \"é\" OFF)", Some("-DA_TESTING=ON")),
            ("option(X_DOCS \"test\" OFF) option", None),
            ("option(é", None),
        ] {
            let got = hint("gtest", &Text(text));
            assert_eq!(got.is_some(), want.is_some(), "{text}: {got:?}");
            assert!(want.is_none_or(|part| got.unwrap().contains(part)), "{text}");
            assert_eq!(hint("cargo", &Text(text)), None);
        }
    }

    #[test]
    fn build_options_reach_builder_others_are_refused() {
        for (name, file, arg, want) in [
            ("gtest", "CMakeLists.txt", "-DX_BUILD_TESTS=ON", Ok("")),
            ("gtest", "CMakeLists.txt", "-DX:BOOL=a b;c", Ok("")),
            ("gtest", "CMakeLists.txt", "-DX", Err("it takes -DNAME=VALUE")),
            ("gtest", "CMakeLists.txt", "--build=/etc", Err("nothing that cmake is given here")),
            ("gtest", "CMakeLists.txt", "-P", Err("nothing that cmake")),
            ("gtest", "CMakeLists.txt", "-DX=a\nb", Err("nothing that cmake")),
            ("gtest", "a.cc", "-DX=1", Err("there is no CMakeLists.txt")),
            ("junit", "pom.xml", "-Drevision=2", Ok("")),
            ("junit", "pom.xml", "-Pfast", Ok("")),
            ("junit", "pom.xml", "deploy", Err("nothing that mvn")),
            ("junit", "build.gradle.kts", "-Pflag", Ok("")),
            ("junit", "build.gradle", "-I", Err("nothing that gradle")),
            ("junit", "A.java", "-Pflag", Err("neither pom.xml nor build.gradle")),
            ("cargo", "Cargo.toml", "--features=a,b", Ok("cargo test --features=a,b ")),
            ("cargo", "Cargo.toml", "--exclude=demo", Ok("cargo test --exclude=demo ")),
            ("cargo", "Cargo.toml", "--exclude", Err("--exclude=PACKAGE")),
            ("cargo", "Cargo.toml", "--features", Err("--all-features")),
            ("cargo", "Cargo.toml", "--config=x", Err("nothing that cargo")),
            ("go", "go.mod", "-tags=integration", Ok("go test -tags=integration ")),
            ("go", "go.mod", "-exec=/bin/sh", Err("it takes -tags=LIST")),
            ("pytest", "a.py", "-DX=1", Err("pytest builds nothing")),
            ("mocha", "a.js", "-DX=1", Err("mocha builds nothing")),
        ] {
            let framework = framework(name).unwrap();
            let mut command = framework.command(&Selection::default(), &Has(file)).unwrap();
            let got = add(name, &Has(file), &[arg.to_owned()], &mut command);
            let line = command.argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            match (want, got) {
                (Ok(head), Ok(())) => {
                    assert!(line.starts_with(head), "{name} {arg}: {line}");
                    let passed = command.env.iter().any(|(name, value)| name == VARIABLE && value == arg);
                    assert_eq!(passed, head.is_empty(), "{name} {arg}");
                }
                (Err(part), Err(why)) => assert!(why.contains(part), "{name} {arg}: {why}"),
                (want, got) => panic!("{name} {arg:?}: {got:?}, not {want:?}"),
            }
        }
    }
}
