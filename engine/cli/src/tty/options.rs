//! The options of `hotcell run` about a terminal.

use std::io::{self, IsTerminal};

use hotcell_sandbox::profile::Span;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::request::{RunTarget, Source};

use super::choice::{self, Circumstances};
use super::session::{self, Session};
use crate::args::{Common, RunArgs};

/// The caller's side of the program's terminal, if it gets one.
pub fn session(common: &Common, args: &RunArgs, what: &RunTarget) -> Result<Option<Session>, ErrorReport> {
    let given = is_terminal_given(common, args, what)?;
    let is_typed = io::stdin().is_terminal() && args.stdin.as_ref().is_none_or(|word| word == "-");
    Ok(given.then(|| Session::new(is_typed)))
}

/// Decides whether the program gets a terminal.
pub fn is_terminal_given(common: &Common, args: &RunArgs, what: &RunTarget) -> Result<bool, ErrorReport> {
    let terminals = [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
    let given = choice::choose(&Circumstances {
        asked: if args.tty { Some(true) } else { args.no_tty.then_some(false) },
        terminals,
        json: common.json,
        names_input: args.stdin.is_some(),
        reads_source: args.stdin.is_none() && matches!(what, RunTarget::Source(_, Source::Text(_), _)),
        words: if let RunTarget::Program(words) = what { words } else { &[] },
    })?;
    if args.idle.is_some() && !given {
        return Err(ErrorReport::new(Code::Usage, "--idle means nothing without a terminal")
            .field("--idle")
            .hint("add --tty, or take it out; --timeout ends every run"));
    }
    Ok(given)
}

/// Completes when nothing was typed and nothing printed for the time of `--idle`.
pub fn idle(args: &RunArgs, session: Option<&Session>) -> impl Future<Output = ()> + use<> {
    let activity = session.map(|session| session.activity.clone());
    let timeout = match args.idle {
        None => Some(session::IDLE_TIMEOUT),
        Some(Span::Of(timeout)) => Some(timeout),
        Some(Span::Unlimited) => None,
    };
    async move {
        match (activity, timeout) {
            (Some(activity), Some(timeout)) => activity.idle(timeout).await,
            _ => std::future::pending().await,
        }
    }
}
