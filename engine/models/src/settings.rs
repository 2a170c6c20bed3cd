//! The tables `models` and `model_roles` of the operator's configuration. A project's file must not have them: the operator of an endpoint
//! sees every prompt.

use std::collections::BTreeMap;

use hotcell_sandbox::layer::likely;
use serde::{Deserialize, Deserializer};

use crate::endpoint::{DeclaredPrice, Endpoint, EndpointError, Prompts, Provider, check_name};
use crate::tokens::Price;

/// Role whose endpoints are used for roles without a list of their own.
pub const DEFAULT_ROLE: &str = "default";
/// Roles that hotcell's commands ask.
pub const ROLES: [&str; 6] = [DEFAULT_ROLE, "architect", "tester", "coder", "debugger", "reviewer"];

/// Configured endpoints, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoints(pub BTreeMap<String, Endpoint>);

/// Endpoints and the roles that they are used for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Endpoints by name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// For each role the names of endpoints, the one that is asked first first.
    pub roles: BTreeMap<String, Vec<String>>,
}

/// A role or a name that is not configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Nothing is configured.
    #[error("no model is configured")]
    Nothing,
    /// An unknown endpoint.
    #[error("there is no model {name:?}{}", nearest.as_ref().map(|n| format!("; did you mean {n:?}?")).unwrap_or_default())]
    Unknown {
        /// Name as written.
        name: String,
        /// Nearest configured name.
        nearest: Option<String>,
    },
    /// A role without endpoints.
    #[error("the role {0:?} has no models, and there is no list for the role \"default\"")]
    NoRole(String),
    /// A name.
    #[error(transparent)]
    Name(#[from] EndpointError),
}

/// One table `models.NAME` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of models")]
struct Written {
    provider: Provider,
    url: Option<String>,
    model: String,
    key: Option<String>,
    window: Option<u32>,
    price: Option<WrittenPrice>,
    #[serde(default)]
    prompts: Prompts,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenPrice {
    Word(String),
    Tokens(Price),
}

impl<'de> Deserialize<'de> for Endpoints {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = BTreeMap::<String, Written>::deserialize(from)?;
        let read = written.into_iter().map(|(name, written)| {
            let endpoint = endpoint(&name, &written);
            endpoint
                .map(|e| (name.clone(), e))
                .map_err(|e| serde::de::Error::custom(format!("models.{name}: {e}")))
        });
        read.collect::<Result<_, _>>().map(Self)
    }
}

fn endpoint(name: &str, written: &Written) -> Result<Endpoint, EndpointError> {
    let (url, key) = (written.url.as_deref(), written.key.as_deref());
    let mut endpoint = Endpoint::new(name, written.provider, url, &written.model, key)?;
    if written.window.is_some_and(|window| window < 512) {
        return Err(EndpointError::Window);
    }
    endpoint.window = written.window;
    endpoint.prompts = written.prompts;
    endpoint.price = match &written.price {
        None => None,
        Some(WrittenPrice::Word(word)) if word == "free" => Some(DeclaredPrice::Free),
        Some(WrittenPrice::Tokens(price)) if price.is_valid() => Some(DeclaredPrice::Tokens(*price)),
        Some(_) => return Err(EndpointError::Price),
    };
    Ok(endpoint)
}

impl ModelSettings {
    /// Joins both tables, and checks that roles name configured endpoints.
    ///
    /// # Errors
    /// [`SettingsError`] for a role's name that is not valid, or an endpoint that is not there.
    pub fn new(endpoints: Endpoints, roles: BTreeMap<String, Vec<String>>) -> Result<Self, SettingsError> {
        let settings = Self { endpoints: endpoints.0, roles };
        for (role, names) in &settings.roles {
            check_name(role)?;
            for name in names {
                settings.endpoint(name)?;
            }
        }
        Ok(settings)
    }

    /// An endpoint by its name.
    ///
    /// # Errors
    /// [`SettingsError::Unknown`] with the nearest name; [`SettingsError::Nothing`] without any endpoint.
    pub fn endpoint(&self, name: &str) -> Result<&Endpoint, SettingsError> {
        if self.endpoints.is_empty() {
            return Err(SettingsError::Nothing);
        }
        self.endpoints.get(name).ok_or_else(|| SettingsError::Unknown {
            name: name.to_owned(),
            nearest: likely(name, self.endpoints.keys().map(String::as_str)).map(str::to_owned),
        })
    }

    /// Endpoints of a role, in order: its own list, else that of the role `default`, else the only endpoint.
    ///
    /// # Errors
    /// [`SettingsError`] when nothing is configured, or no list is for the role.
    pub fn of_role(&self, role: &str) -> Result<Vec<Endpoint>, SettingsError> {
        check_name(role)?;
        let lists = [role, DEFAULT_ROLE].into_iter().find_map(|role| self.roles.get(role));
        match lists.filter(|names| !names.is_empty()) {
            Some(names) => names.iter().map(|name| self.endpoint(name).cloned()).collect(),
            None if self.endpoints.is_empty() => Err(SettingsError::Nothing),
            None if self.endpoints.len() == 1 => Ok(self.endpoints.values().cloned().collect()),
            None => Err(SettingsError::NoRole(role.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        models: Option<Endpoints>,
        #[serde(default)]
        model_roles: BTreeMap<String, Vec<String>>,
    }

    fn read(text: &str) -> Result<ModelSettings, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        ModelSettings::new(file.models.unwrap_or_default(), file.model_roles).map_err(|e| e.to_string())
    }

    const TWO: &str = "[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nwindow = 8192\n\
        [models.b]\nprovider = \"openai\"\nmodel = \"gpt-5\"\nkey = \"env:KEY\"\nprice = { input = 1, output = 2.5 }\n";

    #[test]
    fn roles_name_endpoints_in_order() {
        let settings =
            read(&format!("{TWO}[model_roles]\ndefault = [\"b\", \"a\"]\ncoder = [\"a\"]\n")).unwrap();
        let names = |role: &str| {
            let all = settings.of_role(role).unwrap();
            all.into_iter().map(|e| e.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!((names("coder").as_str(), names("tester").as_str()), ("a", "b a"));
        let price = Price { input: 1.0, cached: None, output: 2.5 };
        assert_eq!(settings.endpoints["b"].price, Some(DeclaredPrice::Tokens(price)));
        assert_eq!(settings.endpoints["a"].window, Some(8192));
        assert_eq!(read("").unwrap().of_role("coder"), Err(SettingsError::Nothing));
        assert_eq!(read(TWO).unwrap().of_role("x"), Err(SettingsError::NoRole("x".to_owned())));
        let one = read("[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nprice = \"free\"\n").unwrap();
        assert_eq!(one.of_role("x").unwrap().len(), 1);
    }

    #[test]
    fn mistakes_in_the_tables_are_named() {
        for (text, word) in [
            ("[models.a]\nprovider = \"olama\"\nmodel = \"m\"", "did you mean ollama? there are openai, "),
            ("[models.a]\nprovider = \"ollama\"", "missing field `model`"),
            ("[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nurk = \"x\"", "unknown field `urk`"),
            ("[models.A]\nprovider = \"ollama\"\nmodel = \"m\"", "not a name"),
            ("[models.a]\nprovider = \"openai\"\nmodel = \"m\"\nkey = \"sk-0123456789\"", "is not a source"),
            ("[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nprice = \"cheap\"", "a price is \"free\""),
            (
                "[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nprice = { input = -1, output = 1 }",
                "a price is",
            ),
            ("[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nwindow = 5", "at least 512"),
            ("[models.a]\nprovider = \"ollama\"\nmodel = \"m\"\nprompts = \"shrt\"", "`full` or `short`"),
            (
                "[models.aa]\nprovider = \"ollama\"\nmodel = \"m\"\n[model_roles]\nx = [\"ab\"]",
                "did you mean \"aa\"",
            ),
            ("[model_roles]\nx = [\"a\"]", "no model is configured"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.lines().last().unwrap_or_default().contains("0123456789"), "{error}");
        }
    }
}
