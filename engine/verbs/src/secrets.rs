//! Opens the secrets of a run: reads their values, and gives the run's proxy a route for each.

use std::time::SystemTime;

use hotcell_config::{ChosenSecrets, EnvSetting, network, secrets};
use hotcell_egress::AllowList;
use hotcell_egress::route::{Route, RunAuthority};
use hotcell_sandbox::policy::{Network, Policy};
use tempfile::TempDir;

use crate::certificates;

/// Gives a policy routes for these secrets, beside the hosts that it may reach, and adds the variables of clients in front of `env`, so
/// that a variable of the caller's takes precedence. For secrets that are intercepted, the policy shows the certificate of an authority
/// of the run's own, from a folder that has to stay until its end.
///
/// # Errors
/// A sentence that names the secret, when its value cannot be read or used, or the policy has no sockets.
pub fn open(
    chosen: &ChosenSecrets,
    hosts: AllowList,
    policy: &mut Policy,
    env: &mut Vec<EnvSetting>,
    root: certificates::Root,
) -> Result<Option<TempDir>, String> {
    let Some((first, _)) = chosen.secrets.first() else { return Ok(None) };
    if policy.shape.network == Network::Off {
        return Err(format!(
            "the secret {first} needs a loopback, and profile or configuration allow no internet sockets at all; name a \
             profile with one, such as standard"
        ));
    }
    let (mut routes, mut intercepted) = (Vec::new(), Vec::new());
    for (name, definition) in &chosen.secrets {
        let fetched = definition.source.fetch().map_err(|e| format!("the secret {name}: {e}"))?;
        if fetched.expires_at.is_some_and(|at| at <= SystemTime::now()) {
            return Err(format!(
                "the secret {name} has expired already; mend its source, or this host's clock"
            ));
        }
        let roots = definition.roots.as_deref();
        let (binding, rules) = (definition.binding.clone(), definition.rules.clone());
        let route = Route::new(name, binding, &definition.scheme, &fetched.secret, rules, roots);
        let mut route = route.map_err(|e| format!("the secret {name}: {e}"))?;
        if let Some(at) = fetched.expires_at {
            route = route.renewed(definition.source.clone(), at);
        }
        if definition.intercept {
            intercepted.push(route.clone());
        }
        routes.push(route);
    }
    let (mut authority, mut folder) = (None, None);
    if !intercepted.is_empty() {
        let made = RunAuthority::new(&intercepted).map_err(|e| e.to_string())?;
        folder = Some(certificates::show(&made, policy, root)?);
        authority = Some(made);
    }
    policy.shape.network = Network::Proxy;
    policy.job.proxy = Some(network::proxy_with(hosts, routes, authority));
    if chosen.env {
        let variables = secrets::variables(&chosen.secrets).into_iter();
        env.splice(0..0, variables.map(|(name, value)| EnvSetting::Set(name.into(), value.into())));
    }
    Ok(folder)
}
