//! Secrets as configuration and options define them.

use super::*;
use crate::settings::Settings;

fn option(text: &str) -> SecretOption {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn file(text: &str) -> SecretSettings {
    Settings::parse(text, Path::new("/etc/config.toml")).unwrap_or_else(|e| panic!("{text}: {e}")).run.secrets
}

#[test]
fn option_names_source_and_host_and_never_repeats_a_literal() {
    let got = option("gh=env:TOKEN@api.github.com/repos/@me");
    let definition = got.definition.unwrap();
    assert_eq!((got.name.as_str(), definition.source.to_string().as_str()), ("gh", "env:TOKEN"));
    assert_eq!(
        (definition.binding.to_string().as_str(), definition.scheme),
        ("api.github.com/repos/@me", Scheme::Bearer)
    );
    let definition = option("x=file:/a@b/token@api.anthropic.com:444").definition.unwrap();
    assert_eq!(definition.source.to_string(), "file:/a@b/token");
    assert_eq!(definition.scheme, Scheme::Header("x-api-key".into()));
    let definition = option("gh=exec:/usr/bin/gh auth token@api.github.com").definition.unwrap();
    assert_eq!(definition.source.to_string(), "exec:/usr/bin/gh auth token");
    assert_eq!(option("gh"), SecretOption { name: "gh".into(), definition: None });
    for text in [
        "gh",
        "gh=env:TOKEN@api.github.com/repos/@me",
        "x=file:/a@b/token@api.test:444",
        "k=keyring:a:b@api.test",
    ] {
        assert_eq!(option(text).to_string(), text);
    }
    for (text, word) in [
        ("gh=ghp_0123456789@api.github.com", "not accepted"),
        ("gh=ghp_0123456789", "no host"),
        ("ghp:0123456789", "no name"),
        ("gh=env:ghp_0123456789", "no host"),
        ("gh=token:ghp_0123456789@api.github.com", "not accepted"),
        ("gh=exec:gh@api.github.com", "exec:/PATH"),
        ("=env:A@b.test", "no name"),
        ("gh=env:A@http://api.github.com", "TLS"),
        ("gh=env:A@", "no host"),
        ("gh=env:A@10.0.0.1", "name"),
    ] {
        let error = text.parse::<SecretOption>().unwrap_err();
        assert!(error.contains(word) && !error.contains("0123456789"), "{text}: {error}");
    }
}

#[test]
fn file_defines_kinds_rules_and_variables() {
    let all = file(
        "[secrets.gh]\nsource = \"env:TOKEN\"\nhost = \"api.github.com\"\nmethods = [\"GET\"]\npaths = [\"/repos\"]\nprojects = true\nmcp = true\n\
         max_body = \"1MiB\"\nrate = \"60/m\"\n\
         [secrets.npm]\nsource = \"file:/run/npm\"\nhost = \"npm.test/api\"\nkind = \"basic\"\nuser = \"me\"\nca = \"ca.pem\"\n\
         encoded_slash = true\nenv = { npm_config_registry = \"/\" }\nintercept = true\n\
         [secrets.own]\nsource = \"fd:7\"\nhost = \"a.test\"\nheader = \"X-Acme\"\n\
         [secrets.s3]\nsource = \"env:AWS\"\nhost = \"s3.eu-central-1.amazonaws.com\"\n\
         [secrets.minio]\nsource = \"env:AWS\"\nhost = \"minio.test\"\nkind = \"aws-sigv4\"\nregion = \"home\"\nservice = \"s3\"\n\
         [secrets.app]\nsource = \"file:/run/app.pem\"\nhost = \"github.com/acme\"\n\
         github_app = { app = 123456, installation = 78, repositories = [\"app\"], permissions = { contents = \"read\" } }\n",
    );
    let scheme = |name: &str| all.defined[name].scheme.clone();
    assert_eq!(scheme("s3"), Scheme::AwsSigV4(Scope::new("eu-central-1", "s3").unwrap()));
    assert_eq!(scheme("minio"), Scheme::AwsSigV4(Scope::new("home", "s3").unwrap()));
    let app = all.defined["app"].github_app.clone().unwrap();
    assert_eq!(
        (app.app.as_str(), app.installation, app.api.to_string()),
        ("123456", 78, "api.github.com".to_owned())
    );
    assert_eq!(scheme("app"), Scheme::Basic(Some("x-access-token".into())));
    assert!(all.defined["gh"].rules.judges_methods() && all.defined["gh"].projects);
    let limits = all.defined["gh"].rules.limits();
    assert_eq!((limits.max_body, limits.rate), (Some(1 << 20), "60/m".parse().ok()));
    assert_eq!(all.defined["npm"].rules.limits(), RequestLimits::default());
    assert_eq!(
        shown("gh", &all.defined["gh"]),
        "secret gh for api.github.com, GET only, below /repos, bodies up to 1M, 60/m requests (at http://127.0.0.1:888/gh)"
    );
    assert!(
        shown("own", &all.defined["own"]).contains("a.test, every request (at") && !all.defined["own"].mcp
    );
    assert_eq!(all.defined["npm"].scheme, Scheme::Basic(Some("me".into())));
    assert_eq!(all.defined["npm"].roots.as_deref(), Some(Path::new("/etc/ca.pem")));
    assert!(all.defined["npm"].intercept && !all.defined["own"].intercept);
    assert_eq!(all.defined["own"].scheme, Scheme::Header("x-acme".into()));
    let start = "[secrets.x]\nsource = \"env:A\"\nhost = \"a.test\"\n";
    for (text, word) in [
        (format!("{start}kind = \"basic\"\nheader = \"x-y\"\n"), "name one of"),
        (format!("{start}header = \"Host\"\n"), "not a header"),
        (format!("{start}user = \"me\"\n"), "name one of"),
        (format!("{start}methods = [\"get\"]\n"), "capitals"),
        (format!("{start}max_body = \"1X\"\n"), "size"),
        (format!("{start}rate = \"60\"\n"), "no rate"),
        (format!("{start}kind = \"aws-sigv4\"\n"), "needs region and service"),
        (format!("{start}kind = \"aws-sigv4\"\nregion = \"EU\"\nservice = \"s3\"\n"), "small letters"),
        (format!("{start}region = \"eu-central-1\"\n"), "aws-sigv4"),
        (format!("{start}kind = \"aws-sigv4\"\nheader = \"x-y\"\n"), "name one of"),
        (format!("{start}github_app = {{ app = 1, installation = 2 }}\n"), "needs api"),
        (format!("{start}github_app = {{ app = 1, installation = 2, api = \"http://a.test\" }}\n"), "TLS"),
        (format!("{start}github_app = {{ app = \"\", installation = 2, api = \"a.test\" }}\n"), "client ID"),
        (format!("{start}github_app = {{ app = 1, api = \"a.test\" }}\n"), "installation"),
        (
            "[secrets.x]\nsource = \"fd:7\"\nhost = \"github.com\"\ngithub_app = { app = 1, installation = 2 }\n".to_owned(),
            "descriptor once",
        ),
        (format!("{start}sauce = \"env:B\"\n"), "sauce"),
        ("[secrets.x]\nsource = \"ghp_0123456789\"\nhost = \"a.test\"\n".to_owned(), "not accepted"),
        ("[secrets.x]\nsource = \"env:A\"\nhost = \"http://a.test\"\n".to_owned(), "TLS"),
        ("[secrets.\"a b\"]\nsource = \"env:A\"\nhost = \"a.test\"\n".to_owned(), "name of a secret"),
        ("secrets = \"gh\"\n".to_owned(), "list of names"),
    ] {
        let error = Settings::parse(&text, Path::new("/etc/config.toml")).unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains("0123456789"), "{text}: {error}");
    }
}

#[test]
fn projects_use_only_what_is_offered_to_them() {
    let user = file(
        "[secrets.open]\nsource = \"env:A\"\nhost = \"a.test\"\nprojects = true\n\
         [secrets.own]\nsource = \"env:B\"\nhost = \"b.test\"\n",
    );
    let none = SecretSettings::default();
    let names = |project: &str, request: &[&str]| {
        let options: Vec<SecretOption> = request.iter().map(|text| option(text)).collect();
        let chosen = choose(&user, Some(&file(project)), &SecretSettings::of_options(&options, false, false));
        chosen.map(|chosen| chosen.secrets.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    };
    assert_eq!(names("", &[]).unwrap(), [""; 0]);
    assert_eq!(names("secrets = [\"open\"]", &[]).unwrap(), ["open"]);
    assert_eq!(names("secrets = [\"own\"]", &["own"]).unwrap(), ["own"]);
    assert_eq!(names("", &["own", "x=env:X@x.test"]).unwrap(), ["own", "x"]);
    for (project, request, word) in [
        ("secrets = [\"own\"]", &[][..], "does not offer"),
        ("secrets = [\"none\"]", &[], "does not offer"),
        ("", &["oen"], "did you mean"),
        ("", &["zzzz"], "‹secret=zzzz=env:"),
    ] {
        let error = names(project, request).unwrap_err().to_string();
        assert!(error.contains(word), "{project} {request:?}: {error}");
    }
    // The request's definition takes precedence.
    let request = SecretSettings::of_options(&[option("own=env:C@c.test")], true, false);
    let chosen = choose(&user, None, &request).unwrap();
    assert!(!chosen.secrets[0].1.intercept);
    assert_eq!((chosen.secrets[0].1.binding.host.as_str(), chosen.env), ("c.test", true));
    assert_eq!(choose(&user, None, &none).unwrap(), ChosenSecrets::default());
    // Interception is for all secrets of the request, those of the project's file too, and for none without one.
    let request = SecretSettings::of_options(&[option("own")], false, true);
    let chosen = choose(&user, Some(&file("secrets = [\"open\"]")), &request).unwrap();
    assert_eq!(
        chosen.secrets.iter().map(|(_, definition)| definition.intercept).collect::<Vec<_>>(),
        [true; 2]
    );
    for (env, intercept) in [(false, true), (true, false)] {
        let error = choose(&user, None, &SecretSettings::of_options(&[], env, intercept)).unwrap_err();
        assert!(error.to_string().contains("no secret"), "{error}");
    }
    // One name stands for one secret.
    let twice = |second: &str| {
        let options = [option("x=env:X@x.test"), option(second)];
        choose(&user, None, &SecretSettings::of_options(&options, false, false))
    };
    for (second, count) in [("x=env:X@x.test", 1), ("x", 1), ("y=env:X@x.test", 2)] {
        assert_eq!(twice(second).unwrap().secrets.len(), count, "{second}");
    }
    for second in ["x=env:X@y.test", "x=env:Y@x.test", "x=env:X@x.test/p"] {
        assert!(twice(second).unwrap_err().to_string().contains("twice"), "{second}");
    }
}

#[test]
fn variables_lead_to_base_urls() {
    let secrets: Vec<(String, SecretDefinition)> = [
        "openai=env:A@api.openai.com",
        "claude=env:A@api.anthropic.com",
        "my-pip=env:A@pypi.org",
        "npm=env:A@registry.npmjs.org",
        "git=env:A@github.com/acme",
        "corp=env:A@llm.corp.test/v1",
        "llm=env:A@bedrock-runtime.eu-west-1.amazonaws.com",
    ]
    .iter()
    .map(|text| option(text))
    .map(|option| (option.name, option.definition.unwrap()))
    .collect();
    let all: BTreeMap<String, String> = variables(&secrets).into_iter().collect();
    for (name, value) in [
        ("OPENAI_BASE_URL", "http://127.0.0.1:888/openai/v1"),
        ("OPENAI_API_KEY", NO_KEY),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:888/claude"),
        ("PIP_INDEX_URL", "http://127.0.0.1:888/my-pip/simple/"),
        ("MY_PIP_BASE_URL", "http://127.0.0.1:888/my-pip"),
        ("npm_config_registry", "http://127.0.0.1:888/npm/"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:888/git/.insteadOf"),
        ("GIT_CONFIG_VALUE_0", "https://github.com/acme/"),
        ("CORP_BASE_URL", "http://127.0.0.1:888/corp"),
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:888/llm"),
        ("AWS_SECRET_ACCESS_KEY", NO_KEY),
        ("AWS_REGION", "eu-west-1"),
    ] {
        assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
    }
}
