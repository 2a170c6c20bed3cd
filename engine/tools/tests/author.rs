//! The work of a plugin author: a new plugin of each language builds, and passes its own cases. The compilers
//! are searched in their usual places: `RUSTC` or rustup's for `wasm32-wasip2`, `componentize-py` and
//! `componentize-js` on the search path.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hotcell_tools::author::{AuthorError, Cases, Language, build, create, finish, run};
use hotcell_tools::component::sections;
use hotcell_tools::{Ask, BoxFuture, Broker, CallRequest, Reply, Runtime, RuntimeOptions};

async fn from_nothing_to_passed(language: Language) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("word-count");
    create(&folder, "word-count", language).unwrap();
    let built = match build(&folder, &folder.join("dist")) {
        Err(AuthorError::Missing { what, remedy }) => {
            println!("skipped: no {what} for a plugin in {language:?} ({remedy})");
            return;
        }
        other => other.unwrap_or_else(|error| panic!("{language:?}: {error}")),
    };
    assert!(built.component.ends_with("dist/word-count.wasm") && built.manifest.is_file());
    let wasm = fs::read(&built.component).unwrap();
    assert_eq!((wasm.len() as u64, sections::check(&wasm)), (built.size, Ok(())));
    let runtime = Runtime::new(&RuntimeOptions { calls: 4, ..RuntimeOptions::default() }).unwrap();
    let (description, _) = runtime.describe(&wasm).unwrap();
    let paths: Vec<_> = description.exports.iter().map(|export| export.path.as_str()).collect();
    assert_eq!(paths, ["local:word-count/tools@0.1.0#count"], "{language:?}");
    let count = &description.exports[0];
    assert_eq!(count.description, "Counts the words and lines of a text.", "{language:?}");
    assert_eq!(count.input_schema["properties"]["text"]["description"], "the text.");
    assert!(description.manifest.unwrap().contains("word-count"));
    let cases = Cases::parse(&fs::read_to_string(folder.join("tests/cases.toml")).unwrap()).unwrap();
    let tried = run(&runtime, &wasm, &cases, &place.path().join("scratch")).await.unwrap();
    assert_eq!(tried.len(), 4);
    for one in tried {
        assert_eq!(one.wrong, Vec::<String>::new(), "{language:?}");
    }
}

#[tokio::test]
async fn rust_plugin_builds_and_passes() {
    from_nothing_to_passed(Language::Rust).await;
}

#[tokio::test]
async fn python_plugin_builds_and_passes() {
    from_nothing_to_passed(Language::Python).await;
}

#[tokio::test]
async fn c_plugin_builds_and_passes() {
    from_nothing_to_passed(Language::C).await;
}

#[tokio::test]
async fn javascript_plugin_builds_and_passes() {
    from_nothing_to_passed(Language::JavaScript).await;
}

/// A program for any WASI host: it prints, reads its input and exits.
#[tokio::test]
async fn wasi_command_is_a_tool() {
    const PROGRAM: &str = r#"
        use std::io::Read;
        fn main() {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input).unwrap();
            println!("{:?} {:?}", std::env::args().count(), input);
            eprintln!("{}", std::fs::read_dir("/").is_err());
        }"#;
    let place = tempfile::tempdir().unwrap();
    let (source, made) = (place.path().join("main.rs"), place.path().join("main.wasm"));
    fs::write(&source, PROGRAM).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2021", "--target", "wasm32-wasip2", "-O", "-o"]).arg(&made).arg(&source);
    if let Some(linker) = std::env::var_os("CARGO_TARGET_WASM32_WASIP2_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    let told = rustc
        .output()
        .map(|output| (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()));
    match told {
        Ok((true, _)) => {}
        Ok((false, why)) if !why.contains("target may not be installed") => panic!("{why}"),
        _ => {
            println!("skipped: no compiler with the target wasm32-wasip2");
            return;
        }
    }
    let wasm = fs::read(&made).unwrap();
    let runtime = Runtime::new(&RuntimeOptions { calls: 4, ..RuntimeOptions::default() }).unwrap();
    let prepared = runtime.load(&wasm).unwrap();
    let (description, _) = runtime.describe(&wasm).unwrap();
    assert_eq!(description.exports.len(), 1, "{description:?}");
    let request = CallRequest::new(&description.exports[0].path, "{}", Arc::new(Nothing));
    let answer = runtime.call(&prepared, request).await.unwrap();
    assert_eq!((answer.is_error, answer.value.get()), (false, r#"{"result":"0 \"\"\n"}"#));
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("0 \"\"\n", "true\n"));
}

struct Nothing;

impl Broker for Nothing {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(async { Reply::Done })
    }
}

#[test]
fn manifest_that_cannot_be_built_is_explained() {
    let place = tempfile::tempdir().unwrap();
    let (folder, out) = (place.path().join("p"), place.path().join("out"));
    fs::create_dir(&folder).unwrap();
    let refused = || finish(&folder, Some(&place.path().join("none.wasm")), &out).unwrap_err();
    assert!(matches!(refused(), AuthorError::Folder { missing: "plugin.toml", .. }));
    for (text, want) in [
        ("[plugin", "plugin.toml:1"),
        ("[plugin]\nname = 5", "plugin.toml:2"),
        ("[plugin]\nname = \"foo_bar\"", "\"foo_bar\" is no plugin's name"),
        ("[plugin]\nname = \"../a\"", "is no plugin's name"),
        ("[plugin]\nname = \"\"", "is no plugin's name"),
        ("[plugin]\nname = \"doctor\"", "taken by hotcell itself"),
        ("[plugin]\nversion = \"1\"", "name"),
        (
            "[plugin]\nname = \"a\"\ndescription = \"Ad\u{200b}ds\"",
            "plugin.toml:3: plugin.description: character 3 is U+200B",
        ),
        (
            "[plugin]\nname = \"a\"\n[requests]\nread = \"so\\u202e\"",
            "plugin.toml:4: requests.read: character 3 is U+202E",
        ),
        ("", "plugin"),
    ] {
        fs::write(folder.join("plugin.toml"), text).unwrap();
        let error = refused();
        assert!(matches!(error, AuthorError::Manifest(_)), "{text:?}: {error}");
        assert!(error.to_string().contains(want), "{text:?}: {error}");
        assert!(!out.exists(), "nothing is made");
    }
}

#[test]
fn faults_of_an_interface_are_told_with_their_place() {
    let place = tempfile::tempdir().unwrap();
    let (folder, out) = (place.path().join("a-b"), place.path().join("out"));
    create(&folder, "a-b", Language::Rust).unwrap();
    let wit = |function: &str, world: &str| {
        format!(
            "package local:a-b@0.1.0;\ninterface tools {{\n    {function}\n}}\nworld plugin {{\n    {world}\n}}\n"
        )
    };
    for (function, world, want) in [
        ("one: func(a: strng);", "export tools;", "plugin.wit:3:18: name `strng` does not exist"),
        ("one: func(a: string)", "export tools;", "plugin.wit:4:1: expected ';'"),
        ("one: func(); one: func();", "export tools;", "plugin.wit:3:18: "),
        ("list: func();", "export tools;", "plugin.wit:3:5: "),
        ("one: func();", "export nothing;", "plugin.wit:6:12: "),
        ("one: func();", "import foo:bar/baz@1.0.0;", "plugin.wit:6:12: package 'foo:bar@1.0.0' not found"),
        (
            "/// Ad\u{200b}ds.\n    one: func();",
            "export tools;",
            "interfaces.tools.funcs.one: character 3 is U+200B",
        ),
    ] {
        fs::write(folder.join("wit/plugin.wit"), wit(function, world)).unwrap();
        let error = build(&folder, &out).unwrap_err().to_string();
        assert!(error.contains(want) && !error.contains("failed to"), "{want}: {error}");
    }
}

#[test]
fn new_plugin_needs_valid_name_and_folder() {
    let place = tempfile::tempdir().unwrap();
    for name in ["", "A", "a_b", "a-", "-a", "a--b", "1a", "a-1", "../a", &"a".repeat(33)] {
        let error = create(&place.path().join("x"), name, Language::Rust).unwrap_err();
        assert!(matches!(error, AuthorError::Name { .. }), "{name}: {error}");
    }
    let folder = place.path().join("plugin");
    let files = create(&folder, "a1-b", Language::Python).unwrap();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        assert!(!text.contains("NAME"), "{}", file.display());
    }
    assert!(matches!(create(&folder, "a", Language::Rust), Err(AuthorError::Exists { .. })));
    assert!("cobol".parse::<Language>().is_err());
}

#[test]
fn build_of_other_folder_names_missing_file() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let error = build(place.path(), &out).unwrap_err().to_string();
    assert!(error.contains("plugin.toml"), "{error}");
    for (manifest, message) in [
        ("", "plugin.toml:1"),
        ("[plugin]\nname = \"a\"", "Cargo.toml, app.py, package.json or src/plugin.c"),
    ] {
        fs::write(place.path().join("plugin.toml"), manifest).unwrap();
        let error = build(place.path(), &out).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[tokio::test]
async fn cases_with_unknown_function_or_outside_files_fail() {
    let wat = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func (export "f") (canon lift (core func $i "f"))))"#;
    let wasm = wat::parse_str(wat).unwrap();
    let runtime = Runtime::new(&RuntimeOptions { calls: 2, ..RuntimeOptions::default() }).unwrap();
    let place = tempfile::tempdir().unwrap();
    let tried = async |text: &str| run(&runtime, &wasm, &Cases::parse(text).unwrap(), place.path()).await;
    let good = tried("[[case]]\ntool = \"f\"\nexact = {}").await.unwrap();
    assert!(good[0].wrong.is_empty(), "{good:?}");
    let bad = tried("[[case]]\ntool = \"f\"\nexpect = { a = 1 }").await.unwrap();
    assert_eq!(bad[0].wrong, ["/a is missing"]);
    for (text, message) in [
        ("[[case]]\ntool = \"g\"\nexact = {}", "case 1: 'g' is no function; there are "),
        ("[files]\n\"../x\" = \"\"\n[[case]]\ntool = \"f\"\nexact = {}", "'../x' is not below the folder"),
    ] {
        let error = tried(text).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(!Path::new("../x").exists());
}
