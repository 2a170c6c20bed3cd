//! Opens the secrets of a run: reads their values, and gives the run's proxy a route for each.

use std::sync::Arc;
use std::time::SystemTime;

use hotcell_config::{ChosenSecrets, EnvSetting, SecretDefinition, UpstreamSetting, network, secrets};
use hotcell_egress::route::github_app::Tokens;
use hotcell_egress::route::{Route, RunAuthority, Supply};
use hotcell_egress::{AllowList, Way};
use hotcell_sandbox::policy::{Network, Policy};
use tempfile::TempDir;

use crate::{certificates, token_ends};

/// Stays until the end of a run.
#[derive(Debug, Default)]
pub struct Opened {
    /// Folder with the certificate of the run's authority.
    pub folder: Option<TempDir>,
    /// Tokens that were made for the run.
    pub tokens: MadeTokens,
}

/// Tokens of GitHub Apps by their secrets' names; those that still hold are ended when this is dropped, which does not wait for it.
#[derive(Debug, Default)]
pub struct MadeTokens(Vec<(String, Tokens)>);

impl Drop for MadeTokens {
    fn drop(&mut self) {
        for (name, tokens) in self.0.drain(..) {
            token_ends::begin(name, tokens);
        }
    }
}

/// Checks that hotcell sees what the rules of the network are for, and tells of rules that allow more than they seem to.
fn judged(chosen: &ChosenSecrets, hosts: &AllowList) -> Result<(), String> {
    let seen = |name: &str, port: u16| {
        let here = |definition: &SecretDefinition| {
            definition.intercept && definition.binding.host == name && definition.binding.port == port
        };
        chosen.secrets.iter().any(|(_, definition)| here(definition))
    };
    if let Some(rule) = hosts.hidden_by_tls(seen) {
        return Err(format!(
            "‹network› {rule}: within TLS hotcell sees no methods, no paths, no requests and no bodies, unless it is that of a \
             secret with ‹intercept›; write HOST:PORT alone, or such a secret"
        ));
    }
    for notice in hosts.notices() {
        tracing::warn!("‹network›: {notice}");
    }
    Ok(())
}

/// Gives a policy routes for these secrets, beside the hosts that it may reach, and adds the variables of clients in front of `env`, so
/// that a variable of the caller's takes precedence. For secrets that are intercepted, the policy shows the certificate of an authority
/// of the run's own. What is returned has to stay until the end of the run. `upstream`: the operator's own proxy, whose credential is read here.
///
/// # Errors
/// A sentence that names the secret, when its value cannot be read or used, or the policy has no sockets.
pub fn open(
    chosen: &ChosenSecrets,
    hosts: AllowList,
    policy: &mut Policy,
    env: &mut Vec<EnvSetting>,
    root: certificates::Root,
    upstream: Option<&UpstreamSetting>,
) -> Result<Opened, String> {
    judged(chosen, &hosts)?;
    let has_proxy = policy.job.proxy.is_some() || !chosen.secrets.is_empty();
    let upstream = upstream.filter(|_| has_proxy).map(UpstreamSetting::open).transpose()?;
    let Some((first, _)) = chosen.secrets.first() else {
        if upstream.is_some() {
            policy.job.proxy = Some(network::proxy_with(hosts, Vec::new(), None, upstream));
        }
        return Ok(Opened::default());
    };
    let mut made = MadeTokens::default();
    if policy.shape.network == Network::Off {
        return Err(format!(
            "the secret {first} needs a loopback, and profile or configuration allow no internet sockets at all; name a \
             profile with one, such as standard"
        ));
    }
    let (mut routes, mut intercepted) = (Vec::new(), Vec::new());
    for (name, definition) in &chosen.secrets {
        let supply = definition.supply(Arc::new(Way::new(&hosts, upstream.as_ref())));
        if let Supply::App(tokens) = &supply {
            made.0.push((name.clone(), tokens.clone()));
        }
        let fetched = supply.fetch().map_err(|e| format!("the secret {name}: {e}"))?;
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
            route = route.renewed(supply, at);
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
    policy.job.proxy = Some(network::proxy_with(hosts, routes, authority, upstream));
    if chosen.env {
        let variables = secrets::variables(&chosen.secrets).into_iter();
        env.splice(0..0, variables.map(|(name, value)| EnvSetting::Set(name.into(), value.into())));
    }
    Ok(Opened { folder, tokens: made })
}
