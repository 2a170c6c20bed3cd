//! The client of a role, for callers that go on without a model.

use hotcell_models::settings::SettingsError;
use hotcell_models::{Client, ModelSettings, Money};
use hotcell_state::report::{Code, ErrorReport};

use super::ask::{check_prices, unknown};
use crate::budget::Limits;

pub(crate) use super::ask::{most, room, used};

/// Why there is no client.
pub(crate) enum NoClient {
    /// A model or role that is not configured.
    Settings(SettingsError),
    /// A budget that these endpoints do not fit, or a client that cannot be made.
    Other(ErrorReport),
}

impl NoClient {
    /// The reason as a report.
    pub(crate) fn report(self) -> ErrorReport {
        match self {
            Self::Settings(error) => unknown(&error),
            Self::Other(report) => report,
        }
    }
}

/// The client of a named model, or of a role.
pub(crate) fn client(
    models: &ModelSettings,
    model: Option<&str>,
    role: &str,
    limits: &Limits,
) -> Result<Client, NoClient> {
    let endpoints = match model {
        Some(name) => vec![models.endpoint(name).map_err(NoClient::Settings)?.clone()],
        None => models.of_role(role).map_err(NoClient::Settings)?,
    };
    if let Some(limit) = limits.picodollars {
        check_prices(&endpoints, Money(limit)).map_err(NoClient::Other)?;
    }
    Client::new(endpoints).map_err(|e| NoClient::Other(ErrorReport::new(Code::Internal, e.to_string())))
}

/// Checks that the models of a session are configured, or the named one is, and that a budget of money fits their prices.
///
/// # Errors
/// A report that says how to configure one.
pub fn ready(models: &ModelSettings, model: Option<&str>, limits: &Limits) -> Result<(), ErrorReport> {
    for role in [super::ask::REPAIR_ROLE, super::ask::FRESH_ROLE] {
        client(models, model, role, limits).map_err(NoClient::report)?;
    }
    Ok(())
}
