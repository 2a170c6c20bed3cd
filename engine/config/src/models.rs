//! Language models in a configuration file: `[models.NAME]` and `[model_roles]` added and removed, everything else kept byte for byte.

use hotcell_models::endpoint::DeclaredPrice;
use hotcell_models::{Endpoint, Price, Prompts};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

/// Key of the endpoints.
const MODELS: &str = "models";
/// Key of the roles.
const ROLES: &str = "model_roles";

/// Why a text is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is not TOML.
    #[error("it is not valid TOML: {0}")]
    Broken(String),
    /// A key has a value of another type.
    #[error("{0} is not a table of the form that can be changed; change it by hand")]
    Form(String),
    /// The name is in use.
    #[error("there is a model {0:?} already")]
    Exists(String),
    /// There is no such model.
    #[error("there is no model {0:?}")]
    Missing(String),
}

/// Adds a model, at the end of the lists of these roles. One of this name is replaced only with `replace`.
///
/// # Errors
/// [`EditError`] when the text cannot be edited, or the name is in use.
pub fn with(text: &str, endpoint: &Endpoint, roles: &[String], replace: bool) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let models = table(&mut document, MODELS)?;
    if models.contains_key(&endpoint.name) && !replace {
        return Err(EditError::Exists(endpoint.name.clone()));
    }
    models.insert(&endpoint.name, Item::Table(of(endpoint)));
    let lists = table(&mut document, ROLES)?;
    for role in roles {
        let list = lists.entry(role).or_insert(value(Array::new()));
        let list = list.as_array_mut().ok_or_else(|| EditError::Form(format!("{ROLES}.{role}")))?;
        if !list.iter().any(|name| name.as_str() == Some(&endpoint.name)) {
            list.push(endpoint.name.as_str());
        }
    }
    Ok(document.to_string())
}

/// Removes a model, and its name from all roles. A role without names is removed.
///
/// # Errors
/// [`EditError`] when the text cannot be edited, or has no such model.
pub fn without(text: &str, name: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let missing = || EditError::Missing(name.to_owned());
    let models = document.get_mut(MODELS).ok_or_else(missing)?;
    let models = models.as_table_like_mut().ok_or_else(|| EditError::Form(MODELS.to_owned()))?;
    models.remove(name).ok_or_else(missing)?;
    if models.is_empty() {
        document.remove(MODELS);
    }
    if let Some(roles) = document.get_mut(ROLES).and_then(Item::as_table_like_mut) {
        let mut empty = Vec::new();
        for (role, list) in roles.iter_mut() {
            let Some(list) = list.as_array_mut() else { continue };
            list.retain(|entry| entry.as_str() != Some(name));
            if list.is_empty() {
                empty.push(role.to_string());
            }
        }
        for role in empty {
            roles.remove(&role);
        }
        if roles.is_empty() {
            document.remove(ROLES);
        }
    }
    Ok(document.to_string())
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|e: toml_edit::TomlError| {
        EditError::Broken(e.message().lines().next().unwrap_or_default().to_owned())
    })
}

/// A table of the document, which is made if it is missing.
fn table<'a>(document: &'a mut DocumentMut, key: &str) -> Result<&'a mut Table, EditError> {
    let made = || {
        let mut table = Table::new();
        // `[models]` alone would be a line without meaning before `[models.NAME]`.
        table.set_implicit(key == MODELS);
        Item::Table(table)
    };
    document.entry(key).or_insert_with(made).as_table_mut().ok_or_else(|| EditError::Form(key.to_owned()))
}

fn of(endpoint: &Endpoint) -> Table {
    let mut table = Table::new();
    table.insert("provider", value(endpoint.provider.name()));
    table.insert("url", value(endpoint.url.as_str()));
    table.insert("model", value(&endpoint.model));
    if let Some(key) = &endpoint.key {
        table.insert("key", value(key.to_string()));
    }
    if let Some(window) = endpoint.window {
        table.insert("window", value(i64::from(window)));
    }
    if endpoint.prompts != Prompts::Full {
        table.insert("prompts", value(endpoint.prompts.name()));
    }
    match endpoint.price {
        None => {}
        Some(DeclaredPrice::Free) => {
            table.insert("price", value("free"));
        }
        Some(DeclaredPrice::Tokens(Price { input, cached, output })) => {
            let mut price = InlineTable::new();
            price.insert("input", input.into());
            if let Some(cached) = cached {
                price.insert("cached", cached.into());
            }
            price.insert("output", output.into());
            table.insert("price", value(price));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hotcell_models::Provider;

    use super::*;
    use crate::settings::Settings;

    fn endpoint(name: &str) -> Endpoint {
        let key = Some("env:KEY");
        Endpoint::new(name, Provider::OpenAi, None, "gpt-5", key).unwrap()
    }

    fn roles(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    const BEFORE: &str = "# mine\nprofile = 'strict' # keep\n\n[limits]\nmemory = \"64M\"\n";

    #[test]
    fn added_models_are_read_back_and_removed_without_a_trace() {
        let price = DeclaredPrice::Tokens(Price { input: 0.25, cached: Some(0.025), output: 2.0 });
        let first = Endpoint { window: Some(8192), price: Some(price), ..endpoint("a") };
        let second =
            Endpoint { price: Some(DeclaredPrice::Free), prompts: Prompts::Short, ..endpoint("b-2") };
        for before in ["", BEFORE] {
            let one = with(before, &first, &roles(&["default", "coder"]), false).unwrap();
            assert!(one.starts_with(before), "{one}");
            let two = with(&one, &second, &roles(&["default"]), false).unwrap();
            let read = Settings::parse(&two, Path::new("/c.toml")).unwrap().models;
            assert_eq!((&read.endpoints["a"], &read.endpoints["b-2"]), (&first, &second));
            assert_eq!(read.roles["default"], ["a", "b-2"]);
            assert_eq!(read.roles["coder"], ["a"]);
            assert_eq!(with(&two, &second, &roles(&["default"]), true).unwrap(), two);
            assert_eq!(with(&two, &second, &[], false), Err(EditError::Exists("b-2".to_owned())));
            let one_again = without(&two, "b-2").unwrap();
            assert_eq!(one_again, one);
            assert_eq!(without(&one_again, "a").unwrap(), before);
        }
    }

    #[test]
    fn texts_that_cannot_be_edited_are_refused() {
        let add = |text: &str| with(text, &endpoint("a"), &roles(&["default"]), false);
        assert!(matches!(add("a = "), Err(EditError::Broken(_))));
        assert_eq!(add("models = 5"), Err(EditError::Form("models".to_owned())));
        assert_eq!(add("[model_roles]\ndefault = 1"), Err(EditError::Form("model_roles.default".to_owned())));
        for text in ["", "[models.b]\n"] {
            assert_eq!(without(text, "a"), Err(EditError::Missing("a".to_owned())));
        }
    }
}
