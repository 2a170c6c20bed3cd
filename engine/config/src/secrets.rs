//! Secrets that a run uses without holding them: what the operator defines, which of them a run uses, and the variables by which clients
//! find their base URLs. Values are read when the run begins, by the caller that opens the routes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use hotcell_egress::SecretSource;
use hotcell_egress::limit::RequestLimits;
use hotcell_egress::program::ValueSource;
use hotcell_egress::route::aws::Scope;
use hotcell_egress::route::github_app::{GitHubApp, Reach, Tokens};
use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Binding, Scheme, Supply, check_name};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::network::PROXY_PORT;
use hotcell_state::report::{Code, ErrorReport};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Maximum number of secrets of a run.
const MAX_SECRETS: usize = 16;
/// Value of variables for keys: clients refuse to start without one, and the route replaces it.
const NO_KEY: &str = "held-outside-the-sandbox";

/// A secret as the operator defines it; it has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretDefinition {
    /// Where its value is read.
    pub source: ValueSource,
    /// The host that it is for.
    pub binding: Binding,
    /// How it is sent.
    pub scheme: Scheme,
    /// Rules for its requests.
    pub rules: RequestRules,
    /// Root certificates (PEM) for the host, in place of the system's.
    pub roots: Option<PathBuf>,
    /// Whether a project's own file may name it.
    pub projects: bool,
    /// Whether callers over MCP may ask a person for its use in one run.
    pub mcp: bool,
    /// Variables that are set to the base URL and this path, with `--secret-env`.
    pub env: BTreeMap<String, String>,
    /// Whether connections to its host are intercepted, so that programs use it without a base URL.
    pub intercept: bool,
    /// The app whose private key the source has, and whose tokens are the values.
    pub github_app: Option<GitHubApp>,
}

impl SecretDefinition {
    /// Who gives its values. `way`: the run's way to hosts.
    #[must_use]
    pub fn supply(&self, way: Arc<dyn Reach>) -> Supply {
        match &self.github_app {
            None => Supply::Source(self.source.clone()),
            Some(app) => Supply::App(Tokens::new(app.clone(), self.source.clone(), self.roots.clone(), way)),
        }
    }
}

/// Secrets of one source of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretSettings {
    /// Definitions by name.
    pub defined: BTreeMap<String, SecretDefinition>,
    /// Names of those that the run uses.
    pub used: Vec<String>,
    /// Whether to set the variables by which clients find their base URLs.
    pub env: Option<bool>,
    /// Intercept connections to the hosts of all secrets of the run.
    pub intercept: bool,
    /// Name that options define twice, and differently.
    pub twice: Option<String>,
}

/// Secrets that a run uses, with the hosts that it may reach beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenSecrets {
    /// Name and definition of each.
    pub secrets: Vec<(String, SecretDefinition)>,
    /// Whether to set the variables by which clients find their base URLs.
    pub env: bool,
}

/// The option's value: a defined secret's name, or a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretOption {
    /// Name of the secret.
    pub name: String,
    /// Definition, where one is given.
    pub definition: Option<SecretDefinition>,
}

impl FromStr for SecretOption {
    type Err = String;

    /// Parses `NAME` or `NAME=SOURCE@HOST[:PORT][/PREFIX]`. Messages never contain the text, which may be a value by mistake.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write NAME=SOURCE@HOST, with env:VARIABLE, file:/PATH, fd:NUMBER, keyring:NAME or exec:/PATH as SOURCE, \
                            or the NAME of one in your configuration";
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        if check_name(name).is_err() {
            return Err(format!("it begins with no name of letters, digits, - and _; {FORM}"));
        }
        let Some(rest) = rest else { return Ok(Self { name: name.to_owned(), definition: None }) };
        // A path may have an @; the names of variables and numbers have none, and a prefix may.
        let path = rest.starts_with("file:") || rest.starts_with("exec:");
        let at = if path { rest.rfind('@') } else { rest.find('@') };
        let Some(at) = at else { return Err(format!("no host is named that it is for; {FORM}")) };
        let source: ValueSource = rest[..at].parse().map_err(|_| {
            format!("its source is not env:VARIABLE, file:/PATH, fd:NUMBER, keyring:NAME or exec:/PATH, and a value itself is not accepted; {FORM}")
        })?;
        let binding: Binding =
            rest[at + 1..].parse().map_err(|e: hotcell_egress::route::RouteError| e.to_string())?;
        let definition = SecretDefinition {
            source,
            scheme: Scheme::usual(&binding.host),
            binding,
            rules: RequestRules::default(),
            roots: None,
            projects: false,
            mcp: false,
            env: BTreeMap::new(),
            intercept: false,
            github_app: None,
        };
        Ok(Self { name: name.to_owned(), definition: Some(definition) })
    }
}

impl fmt::Display for SecretOption {
    /// The option as it is written; it has no value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.definition {
            None => f.write_str(&self.name),
            Some(definition) => write!(f, "{}={}@{}", self.name, definition.source, definition.binding),
        }
    }
}

impl SecretSettings {
    /// Settings of options.
    #[must_use]
    pub fn of_options(options: &[SecretOption], env: bool, intercept: bool) -> Self {
        let mut settings = Self { env: env.then_some(true), intercept, ..Self::default() };
        for option in options {
            settings.used.push(option.name.clone());
            if let Some(definition) = &option.definition {
                let before = settings.defined.insert(option.name.clone(), definition.clone());
                if before.is_some_and(|before| before != *definition) {
                    settings.twice = Some(option.name.clone());
                }
            }
        }
        settings
    }
}

/// Chooses the secrets of a run. The request's definitions take precedence over the user's; a project's file may name those that the
/// user's offers to projects, and those that the request uses anyway.
///
/// # Errors
/// [`ErrorReport`] that names the secret, when one is named that is not defined or not offered, or there are too many.
pub fn choose(
    user: &SecretSettings,
    project: Option<&SecretSettings>,
    request: &SecretSettings,
) -> Result<ChosenSecrets, ErrorReport> {
    if let Some(name) = &request.twice {
        let message = format!("the secret {name:?} is defined twice, and differently");
        return Err(ErrorReport::new(Code::InvalidValue, message)
            .parameter("secret")
            .hint("give each secret a name of its own"));
    }
    let defined = |name: &str| request.defined.get(name).or_else(|| user.defined.get(name));
    let mut names: Vec<&String> = Vec::new();
    for name in &request.used {
        if defined(name).is_none() {
            let known: Vec<&str> = user.defined.keys().map(String::as_str).collect();
            let report = ErrorReport::new(
                Code::UnknownName,
                format!("there is no secret {name:?} in your configuration"),
            )
            .parameter("secret");
            return Err(match likely(name, known.iter().copied()) {
                Some(near) => report.hint(format!("did you mean {near}? there are {}", known.join(", "))),
                None => {
                    report.hint(format!("define it: ‹secret={name}=env:VARIABLE@HOST›, or [secrets.{name}]"))
                }
            });
        }
        names.push(name);
    }
    for name in project.iter().flat_map(|project| &project.used) {
        let offered = user.defined.get(name).is_some_and(|definition| definition.projects);
        if !offered && !request.used.contains(name) {
            let message = format!(
                "the project's own file names the secret {name:?}, which your configuration does not offer to projects"
            );
            return Err(ErrorReport::new(Code::Configuration, message).field("secrets").hint(format!(
                "allow it for this run with ‹secret={name}›, or for all projects with projects = true in [secrets.{name}]"
            )));
        }
        names.push(name);
    }
    let mut secrets: Vec<(String, SecretDefinition)> = Vec::new();
    for name in names {
        if let Some(definition) = defined(name).filter(|_| secrets.iter().all(|(known, _)| known != name)) {
            let mut definition = definition.clone();
            definition.intercept |= request.intercept;
            secrets.push((name.clone(), definition));
        }
    }
    if request.intercept && secrets.is_empty() {
        let message = "connections are only intercepted to hosts of secrets, and this run has no secret";
        return Err(ErrorReport::new(Code::InvalidValue, message)
            .parameter("intercept")
            .hint("name one with ‹secret›, or leave ‹intercept› out"));
    }
    if request.env == Some(true) && secrets.is_empty() {
        let message = "variables are set for secrets, and this run has no secret";
        return Err(ErrorReport::new(Code::InvalidValue, message)
            .parameter("secret_env")
            .hint("name one with ‹secret›, or leave ‹secret_env› out"));
    }
    if secrets.len() > MAX_SECRETS {
        let message =
            format!("{} secrets are to be used, and a run has at most {MAX_SECRETS}", secrets.len());
        return Err(ErrorReport::new(Code::InvalidValue, message).parameter("secret"));
    }
    let said = request.env.or_else(|| project.and_then(|project| project.env)).or(user.env);
    Ok(ChosenSecrets { secrets, env: said.unwrap_or(false) })
}

/// A secret in words, for a person who approves its use: where it is sent, with which requests. It has no value.
#[must_use]
pub fn shown(name: &str, definition: &SecretDefinition) -> String {
    let by = if definition.intercept { " and its own URL" } else { "" };
    format!("secret {name} for {}, {} (at {}{by})", definition.binding, definition.rules, base_url(name))
}

/// Base URL of a secret inside, without a slash at its end.
#[must_use]
pub fn base_url(name: &str) -> String {
    format!("http://127.0.0.1:{PROXY_PORT}/{name}")
}

/// Variables by which clients find the base URLs of these secrets: by the secret's name, `NAME_BASE_URL`; those of the host's usual clients;
/// and those of the definition. Pure.
#[must_use]
pub fn variables(secrets: &[(String, SecretDefinition)]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut set = |name: String, value: String| {
        if all.iter().all(|(known, _)| *known != name) {
            all.push((name, value));
        }
    };
    let mut rewritten = Vec::new();
    for (name, definition) in secrets {
        let base = base_url(name);
        let plain = definition.binding.prefix.is_empty();
        for (variable, path) in &definition.env {
            set(variable.clone(), format!("{base}{path}"));
        }
        let upper = name.to_ascii_uppercase().replace('-', "_");
        let mut usual = |variable: &str, value: String| set(variable.to_owned(), value);
        if let Scheme::AwsSigV4(scope) = &definition.scheme {
            usual(&format!("AWS_ENDPOINT_URL_{}", service_id(scope, &definition.binding.host)), base.clone());
            // Tools refuse to start without keys and region; what they sign is signed anew.
            usual("AWS_ACCESS_KEY_ID", NO_KEY.to_owned());
            usual("AWS_SECRET_ACCESS_KEY", NO_KEY.to_owned());
            usual("AWS_REGION", scope.region().to_owned());
            usual("AWS_DEFAULT_REGION", scope.region().to_owned());
        }
        match definition.binding.host.as_str() {
            "api.openai.com" => {
                let base = if plain { format!("{base}/v1") } else { base.clone() };
                usual("OPENAI_BASE_URL", base.clone());
                usual("OPENAI_API_BASE", base);
                usual("OPENAI_API_KEY", NO_KEY.to_owned());
            }
            "api.anthropic.com" => {
                usual("ANTHROPIC_BASE_URL", base.clone());
                usual("ANTHROPIC_API_KEY", NO_KEY.to_owned());
            }
            "generativelanguage.googleapis.com" => {
                usual("GOOGLE_GEMINI_BASE_URL", base.clone());
                usual("GEMINI_API_KEY", NO_KEY.to_owned());
            }
            "api.github.com" => usual("GITHUB_API_URL", base.clone()),
            "registry.npmjs.org" => {
                usual("npm_config_registry", format!("{base}/"));
                // A package's own address is in the registry's answer, and would lead around the route.
                usual("npm_config_replace_registry_host", "always".to_owned());
            }
            "pypi.org" => {
                let index = if plain { format!("{base}/simple/") } else { format!("{base}/") };
                usual("PIP_INDEX_URL", index.clone());
                usual("UV_DEFAULT_INDEX", index);
            }
            "index.crates.io" => usual(&format!("CARGO_REGISTRIES_{upper}_INDEX"), format!("sparse+{base}/")),
            host @ ("github.com" | "gitlab.com") => {
                rewritten.push((
                    format!("url.{base}/.insteadOf"),
                    format!("https://{host}{}/", definition.binding.prefix),
                ));
            }
            _ => {}
        }
        set(format!("{upper}_BASE_URL"), base);
    }
    // Git's configuration by variables: git-config(1), GIT_CONFIG_COUNT.
    if !rewritten.is_empty() {
        all.push(("GIT_CONFIG_COUNT".to_owned(), rewritten.len().to_string()));
        for (number, (key, value)) in rewritten.into_iter().enumerate() {
            all.push((format!("GIT_CONFIG_KEY_{number}"), key));
            all.push((format!("GIT_CONFIG_VALUE_{number}"), value));
        }
    }
    all
}

/// Name of a service in `AWS_ENDPOINT_URL_…` (<https://docs.aws.amazon.com/sdkref/latest/guide/ss-endpoints-table.html>): its first name,
/// or that of its host where several services sign as one.
fn service_id(scope: &Scope, host: &str) -> String {
    let first = host.split('.').next().unwrap_or_default();
    let name = match scope.service() {
        "bedrock" if first.starts_with("bedrock") => first,
        "logs" => "cloudwatch-logs",
        "monitoring" => "cloudwatch",
        "secretsmanager" => "secrets-manager",
        "states" => "sfn",
        "elasticfilesystem" => "efs",
        "elasticloadbalancing" => "elastic-load-balancing-v2",
        "es" => "opensearch",
        "events" => "eventbridge",
        service => service,
    };
    name.to_ascii_uppercase().replace('-', "_")
}

/// Raw form of a definition.
#[derive(Debug, serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { source = \"env:TOKEN\", host = \"api.example.com\" }"
)]
pub(crate) struct WrittenSecret {
    source: String,
    host: String,
    #[serde(default)]
    kind: Option<Kind>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    header: Option<String>,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    service: Option<String>,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    encoded_slash: bool,
    #[serde(default)]
    max_body: Option<Bytes>,
    #[serde(default)]
    rate: Option<String>,
    #[serde(default)]
    ca: Option<PathBuf>,
    #[serde(default)]
    projects: bool,
    #[serde(default)]
    mcp: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    intercept: bool,
    #[serde(default)]
    github_app: Option<WrittenApp>,
}

/// Raw form of an app.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { app = 123456, installation = 7890 }")]
struct WrittenApp {
    app: Identifier,
    installation: u64,
    #[serde(default)]
    api: Option<String>,
    #[serde(default)]
    repositories: Vec<String>,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(untagged, expecting = "a number or a client ID")]
enum Identifier {
    Number(u64),
    Text(String),
}

impl WrittenApp {
    /// The app of a secret for this host.
    fn app(self, host: &str) -> Result<GitHubApp, String> {
        let usual = matches!(host, "github.com" | "api.github.com" | "uploads.github.com");
        let api = match self.api {
            Some(api) => api,
            None if usual => "api.github.com".to_owned(),
            None => {
                return Err(format!("github_app needs api for {host}, such as \"{host}/api/v3\""));
            }
        };
        let app = GitHubApp {
            app: match self.app {
                Identifier::Number(number) => number.to_string(),
                Identifier::Text(text) => text,
            },
            installation: self.installation,
            api: api.parse().map_err(|e: hotcell_egress::route::RouteError| e.to_string())?,
            repositories: self.repositories,
            permissions: self.permissions,
        };
        app.check().map(|()| app).map_err(|why| format!("github_app: {why}"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Bearer,
    Basic,
    #[serde(rename = "aws-sigv4")]
    AwsSigV4,
}

/// Raw form of the key `secrets`: tables of definitions, or in a project's file names.
#[derive(Debug)]
pub(crate) enum WrittenSecrets {
    /// `[secrets.NAME]`.
    Defined(BTreeMap<String, WrittenSecret>),
    /// `secrets = ["NAME"]`.
    Used(Vec<String>),
}

impl Default for WrittenSecrets {
    fn default() -> Self {
        Self::Used(Vec::new())
    }
}

impl<'de> Deserialize<'de> for WrittenSecrets {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = WrittenSecrets;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "tables [secrets.NAME], or in a project's file a list of names such as [\"github\"]",
                )
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<WrittenSecrets, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element::<String>()? {
                    names.push(name);
                }
                Ok(WrittenSecrets::Used(names))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenSecrets, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, secret)) = map.next_entry()? {
                    all.insert(name, secret);
                }
                Ok(WrittenSecrets::Defined(all))
            }
        }
        from.deserialize_any(Words)
    }
}

impl WrittenSecrets {
    /// Settings of a file in this folder. The error has the key, and a sentence without any value.
    pub(crate) fn settings(self, base: &Path, env: Option<bool>) -> Result<SecretSettings, (String, String)> {
        let mut settings = SecretSettings { env, ..SecretSettings::default() };
        match self {
            Self::Used(names) => {
                for name in &names {
                    check_name(name).map_err(|e| ("secrets".to_owned(), e.to_string()))?;
                }
                settings.used = names;
            }
            Self::Defined(all) => {
                for (name, written) in all {
                    let bad = |why: String| (format!("secrets.{name}"), why);
                    check_name(&name).map_err(|e| bad(e.to_string()))?;
                    let definition = written.definition(base).map_err(bad)?;
                    settings.defined.insert(name, definition);
                }
            }
        }
        Ok(settings)
    }
}

impl WrittenSecret {
    fn definition(self, base: &Path) -> Result<SecretDefinition, String> {
        let source: ValueSource = self.source.parse().map_err(|_| {
            "source is env:VARIABLE, file:/PATH, fd:NUMBER, keyring:NAME or exec:/PATH; a value itself is not accepted"
                .to_owned()
        })?;
        let binding: Binding =
            self.host.parse().map_err(|e: hotcell_egress::route::RouteError| e.to_string())?;
        let (region, service) = (self.region.as_deref(), self.service.as_deref());
        let scheme = scheme(self.kind, self.header.as_deref(), self.user, (region, service), &binding.host)?;
        let github_app = self.github_app.map(|app| app.app(&binding.host)).transpose()?;
        if github_app.is_some() && matches!(source, ValueSource::Read(SecretSource::Fd(_))) {
            return Err(
                "a private key of a GitHub App is read for each token, and a descriptor once: use file:/PATH"
                    .to_owned(),
            );
        }
        let rules = RequestRules::new(&self.methods, &self.paths, &self.deny, self.encoded_slash);
        let limits = RequestLimits {
            max_body: self.max_body.map(|Bytes(most)| most),
            rate: self.rate.as_deref().map(str::parse).transpose()?,
        };
        for (variable, path) in &self.env {
            let letters = variable.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !letters || variable.is_empty() || !(path.is_empty() || path.starts_with('/')) {
                return Err(format!(
                    "env: {variable:?} = {path:?} is not a variable with a path such as \"/simple\" or \"\""
                ));
            }
        }
        Ok(SecretDefinition {
            source,
            binding,
            scheme,
            rules: rules.map_err(|e| e.to_string())?.limited(limits),
            roots: self.ca.map(|path| base.join(path)),
            projects: self.projects,
            mcp: self.mcp,
            env: self.env,
            intercept: self.intercept,
            github_app,
        })
    }
}

/// How a secret is sent, by its keys or its host.
fn scheme(
    kind: Option<Kind>,
    header: Option<&str>,
    user: Option<String>,
    (region, service): (Option<&str>, Option<&str>),
    host: &str,
) -> Result<Scheme, String> {
    let usual = Scheme::usual(host);
    let signs = kind == Some(Kind::AwsSigV4) || (kind.is_none() && matches!(usual, Scheme::AwsSigV4(_)));
    match (kind, header, user) {
        (None | Some(Kind::AwsSigV4), None, None) if signs => {
            let said = Scope::of_host(host);
            let region = region.or(said.as_ref().map(Scope::region));
            let service = service.or(said.as_ref().map(Scope::service));
            let (Some(region), Some(service)) = (region, service) else {
                return Err(format!(
                    "kind = \"aws-sigv4\" needs region and service, since the name {host} does not say them"
                ));
            };
            let scope = Scope::new(region, service).ok_or(
                "region and service are words of small letters, digits and -, such as \"eu-central-1\" and \"s3\"",
            )?;
            Ok(Scheme::AwsSigV4(scope))
        }
        _ if region.is_some() || service.is_some() => {
            Err("region and service are keys of kind = \"aws-sigv4\" alone".to_owned())
        }
        (None, Some(header), None) => Scheme::header(header).map_err(|e| e.to_string()),
        (Some(Kind::Bearer), None, None) => Ok(Scheme::Bearer),
        (Some(Kind::Basic), None, user) => Ok(Scheme::Basic(checked_user(user)?)),
        (None, None, None) => Ok(usual),
        (None, None, user) if matches!(usual, Scheme::Basic(_)) => Ok(Scheme::Basic(checked_user(user)?)),
        _ => Err(
            "name one of kind = \"bearer\", kind = \"basic\" (with user, where the value is a password), \
                  kind = \"aws-sigv4\", and header"
                .to_owned(),
        ),
    }
}

fn checked_user(user: Option<String>) -> Result<Option<String>, String> {
    match user {
        Some(user) if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) => {
            Err("user is a name without a colon".to_owned())
        }
        user => Ok(user),
    }
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
