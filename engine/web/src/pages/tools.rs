//! Plugins with their grants, and foreign MCP servers with the tools of them that are held.

use hotcell_plugins::Plugins;
use hotcell_plugins::report::{State, Tool};
use maud::{Markup, html};

use super::{Page, Shown};
use crate::frame::{Tab, table};
use crate::say::{beginning, said};
use crate::site::{Site, WrappedServer};

/// Maximum number of tools and servers.
const MAX_ROWS: usize = 100;
/// Maximum length of a text in a row, in characters.
const MAX_ROW_CHARS: usize = 120;
/// Maximum length of the reason why a server's files cannot be read, in characters: a path and a place in it.
const MAX_PROBLEM_CHARS: usize = 400;

pub fn show(site: &Site) -> Shown {
    let tools = Plugins::of(&site.configuration()?)?.list()?.tools;
    let servers = (site.sources.servers)()?;
    let rows: Vec<_> = tools.iter().take(MAX_ROWS).map(tool).collect();
    let wrapped: Vec<_> = servers.iter().take(MAX_ROWS).map(server).collect();
    let body = html! {
        h2 { "Tools as components " span.count { (tools.len()) } }
        @if rows.is_empty() {
            p.note { "No tools are added: " code { "hotcell tool add PLUGIN|SOURCE" } "." }
        } @else {
            (table("Tools", &["Tool", "Description", "Granted", "Asks for", "State"], &rows))
        }
        @if tools.len() > MAX_ROWS { p.note { (tools.len() - MAX_ROWS) " more: hotcell tool list" } }
        h2 { "Wrapped MCP servers " span.count { (servers.len()) } }
        @if wrapped.is_empty() {
            p.note { "No server was wrapped: " code { "hotcell mcp wrap --name NAME -- PROGRAM …" } "." }
        } @else {
            (table("Wrapped MCP servers", &["Server", "Command", "Grants", "Packages", "Tools"], &wrapped))
        }
        @if servers.len() > MAX_ROWS { p.note { (servers.len() - MAX_ROWS) " more: hotcell mcp servers list" } }
    };
    Ok(Page { tab: Some(Tab::Tools), title: "Tools and servers".to_owned(), body })
}

fn words(all: &[String]) -> Markup {
    html! {
        @for (at, one) in all.iter().take(8).enumerate() { @if at > 0 { ", " } (beginning(one, MAX_ROW_CHARS)) }
        @if all.len() > 8 { " and " (all.len() - 8) " more" }
    }
}

fn tool(one: &Tool) -> Vec<Markup> {
    let state = match one.state {
        State::Ready if !one.offered => "not offered",
        State::Ready => "ready",
        State::UpdateWaits => "an update waits: hotcell tool inspect, accept",
    };
    vec![
        said(&one.name),
        beginning(&one.description, MAX_ROW_CHARS),
        words(&one.granted),
        words(&one.requested),
        html! { (state) },
    ]
}

fn server(one: &WrappedServer) -> Vec<Markup> {
    if let Some(problem) = &one.problem {
        let way = format!("hotcell mcp servers remove {}", one.name);
        let why = html! { strong { "unreadable" } ": " (beginning(problem, MAX_PROBLEM_CHARS)) "; " code { (said(&way)) } " forgets it" };
        return vec![said(&one.name), html! {}, html! {}, html! {}, why];
    }
    vec![
        said(&one.name),
        beginning(&one.command.join(" "), MAX_ROW_CHARS),
        words(&one.grants),
        words(&one.packages),
        html! {
            (one.accepted.len()) " accepted"
            @if !one.held.is_empty() {
                ", " a href=(format!("/waiting/tools/{}", one.name)) { strong { (one.held.len()) " held" } }
            }
        },
    ]
}
