//! Opens the secrets of a run: reads their values, and gives the run's proxy a route for each.

use hotcell_config::{ChosenSecrets, EnvSetting, network, secrets};
use hotcell_egress::AllowList;
use hotcell_egress::route::Route;
use hotcell_sandbox::policy::{Network, Policy};

/// Gives a policy routes for these secrets, beside the hosts that it may reach, and adds the variables of clients in front of `env`, so
/// that a variable of the caller's takes precedence.
///
/// # Errors
/// A sentence that names the secret, when its value cannot be read or used, or the policy has no sockets.
pub fn open(
    chosen: &ChosenSecrets,
    hosts: AllowList,
    policy: &mut Policy,
    env: &mut Vec<EnvSetting>,
) -> Result<(), String> {
    let Some((first, _)) = chosen.secrets.first() else { return Ok(()) };
    if policy.shape.network == Network::Off {
        return Err(format!(
            "the secret {first} needs a loopback, and profile or configuration allow no internet sockets at all; name a \
             profile with one, such as standard"
        ));
    }
    let mut routes = Vec::new();
    for (name, definition) in &chosen.secrets {
        let value = definition.source.read().map_err(|e| format!("the secret {name}: {e}"))?;
        let roots = definition.roots.as_deref();
        let (binding, rules) = (definition.binding.clone(), definition.rules.clone());
        let route = Route::new(name, binding, &definition.scheme, &value, rules, roots);
        routes.push(route.map_err(|e| format!("the secret {name}: {e}"))?);
    }
    policy.shape.network = Network::Proxy;
    policy.job.proxy = Some(network::proxy_with(hosts, routes));
    if chosen.env {
        let variables = secrets::variables(&chosen.secrets).into_iter();
        env.splice(0..0, variables.map(|(name, value)| EnvSetting::Set(name.into(), value.into())));
    }
    Ok(())
}
