//! The token of one service in requests to another one, too.

use super::walk::{Names, blocks, each, own, statements};
use super::words::{Lazy, Words};
use crate::hosts::{At, Expr, Program, last};
use std::collections::BTreeMap;

/// Maximum number of requests that are compared.
const MAX_REQUESTS: usize = 256;

/// True for a source with two addresses and a token.
pub(super) fn may_hold(source: &str) -> bool {
    static TOKENS: Lazy =
        Lazy::new(|| Words::new(&["TOKEN", "API_KEY", "APIKEY", "SECRET", "PASSWORD", "_PAT", "ACCESS_KEY"]));
    TOKENS.any_in(source) && source.match_indices("://").nth(1).is_some()
}

/// Places of requests with a token that goes to an unrelated host elsewhere in the program, each later one of a token once.
pub(super) fn shared_tokens(program: &Program) -> Vec<At> {
    let mut requests: Vec<(String, String, At)> = Vec::new();
    for (_, block) in blocks(program) {
        let names = Names::of(program, block);
        statements(block, &mut |statement| {
            for expression in own(statement) {
                each(expression, &mut |part| {
                    if requests.len() < MAX_REQUESTS
                        && let Some((host, tokens, at)) = request(part, &names)
                    {
                        requests.extend(tokens.into_iter().map(|token| (token, host.clone(), at)));
                    }
                });
            }
        });
    }
    let mut hosts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut found = Vec::new();
    for (token, host, at) in &requests {
        let known = hosts.entry(token).or_default();
        if known.iter().any(|other| !are_related(other, host)) && !known.contains(&&**host) {
            found.push(*at);
        }
        known.push(host);
    }
    found
}

/// Host and tokens of a request, or of a client that is made for a host.
fn request(call: &Expr, names: &Names<'_>) -> Option<(String, Vec<String>, At)> {
    let Expr::Call { function, args, at } = call else { return None };
    let is_request = matches!(
        last(function),
        "get"
            | "post"
            | "put"
            | "patch"
            | "delete"
            | "head"
            | "request"
            | "fetch"
            | "urlopen"
            | "Request"
            | "stream"
            | "ws_connect"
            | "axios"
            | "got"
            | "ky"
            | "create"
            | "extend"
            | "Client"
            | "AsyncClient"
            | "ClientSession"
    );
    if !is_request {
        return None;
    }
    let host = args.iter().find_map(|(_, value)| host(value, names, 0)).filter(|host| !is_local(host))?;
    let mut tokens = Vec::new();
    for (_, value) in args {
        names.all(value, &mut |part| tokens.extend(token(part)));
    }
    tokens.sort();
    tokens.dedup();
    (!tokens.is_empty()).then_some((host, tokens, *at))
}

/// Host of an address whose beginning is known.
fn host(expression: &Expr, names: &Names<'_>, depth: usize) -> Option<String> {
    const MAX_DEPTH: usize = 6;
    if depth > MAX_DEPTH {
        return None;
    }
    match expression {
        Expr::Text(text) => {
            let (scheme, rest) = text.split_once("://")?;
            let host = rest.split(['/', '?', '#', ':']).next()?.rsplit('@').next()?;
            (matches!(scheme, "http" | "https" | "ws" | "wss") && host.contains('.'))
                .then(|| host.to_ascii_lowercase())
        }
        Expr::Name(name) => host(names.meaning(name)?, names, depth + 1),
        // The first piece of a text, or a field of settings.
        Expr::Other(all) => all.iter().find_map(|one| host(one, names, depth + 1)),
        Expr::Call { args, .. } => args.iter().find_map(|(_, value)| host(value, names, depth + 1)),
        _ => None,
    }
}

/// Variable of the environment, or setting, that holds a token.
fn token(expression: &Expr) -> Option<String> {
    match expression {
        // `process.env.X`, `os.environ["X"]`, `settings.X`.
        Expr::Member(_, name) => is_token(name).then(|| (**name).to_owned()),
        Expr::Call { function, args, .. }
            if matches!(last(function), "getenv" | "get" | "env" | "getOrThrow") =>
        {
            match args.first() {
                Some((_, Expr::Text(name))) => is_token(name).then(|| (**name).to_owned()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// True for names in capitals of what a service asks for.
fn is_token(name: &str) -> bool {
    let is_constant =
        name.len() > 4 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    is_constant
        && ["TOKEN", "API_KEY", "APIKEY", "SECRET", "PASSWORD", "_PAT", "ACCESS_KEY"]
            .iter()
            .any(|end| name.ends_with(end))
}

fn is_local(host: &str) -> bool {
    host.starts_with("127.")
        || host.ends_with(".local")
        || host.ends_with(".localhost")
        || host.starts_with("localhost")
}

/// True for hosts of one domain, or of names that belong together: `github.com` and `githubusercontent.com`.
fn are_related(one: &str, other: &str) -> bool {
    const FAMILIES: &[&[&str]] = &[
        &["microsoft", "microsoftonline", "azure", "windows", "office", "live", "sharepoint"],
        &["google", "googleapis", "gmail", "youtube"],
        &["github", "ghcr"],
        &["facebook", "instagram", "whatsapp"],
        &["twitter", "x"],
        &["huggingface", "hf"],
        &["amazon", "amazonaws", "aws"],
        &["atlassian", "bitbucket", "jira"],
    ];
    let (one, other) = (label(one), label(other));
    one == other
        || one.len() > 3 && other.starts_with(one)
        || other.len() > 3 && one.starts_with(other)
        || FAMILIES.iter().any(|family| family.contains(&one) && family.contains(&other))
}

/// Label of the registered domain: `example` of `api.example.co.uk`.
fn label(host: &str) -> &str {
    let labels: Vec<&str> = host.split('.').collect();
    let under_country =
        labels.len() > 2 && matches!(labels[labels.len() - 2], "co" | "com" | "org" | "net" | "ac" | "gov");
    let at = labels.len().saturating_sub(if under_country { 3 } else { 2 });
    labels.get(at).copied().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_owner_are_related() {
        for (one, other, related) in [
            ("api.github.com", "uploads.github.com", true),
            ("github.com", "raw.githubusercontent.com", true),
            ("graph.microsoft.com", "login.microsoftonline.com", true),
            ("a.example.co.uk", "b.example.co.uk", true),
            ("api.github.com", "stats.tool.example", false),
            ("a.one.co.uk", "a.two.co.uk", false),
        ] {
            assert_eq!(are_related(one, other), related, "{one} {other}");
        }
    }

    #[test]
    fn tokens_are_known_by_name() {
        for (name, is) in [
            ("GITHUB_TOKEN", true),
            ("OPENAI_API_KEY", true),
            ("CSRF_TOKEN_NAME", false),
            ("token", false),
            ("TOKENS", false),
            ("PAGE", false),
        ] {
            assert_eq!(is_token(name), is, "{name}");
        }
    }
}
