//! Tests that keep a path in its folder, and a redirect on the program's own pages.

use super::check::{Checks, Danger, State};
use super::derive::{Root, What};
use super::{Expr, last};

/// Addresses or paths that a test vouches for: if it is true, and if it is false.
type Vouched = (Vec<Root>, Vec<Root>);

impl Checks<'_> {
    /// Answer of a call that asks about a path or a redirect; `None` where neither is asked about.
    pub(super) fn asks_inside(
        &mut self,
        name: &str,
        receiver: Option<&Expr>,
        values: &[&Expr],
        state: &State,
    ) -> Option<Vouched> {
        match self.danger {
            Danger::Path | Danger::Below => {
                let found = self.asks_path(name, values, state);
                // A function of another file of the package may be the check: `if containsDotDot(h.Name) {`.
                found.or_else(|| self.asks_elsewhere(receiver, name, values, state))
            }
            Danger::Redirect => self.asks_redirect(name, receiver, values, state),
            _ => None,
        }
    }

    fn asks_path(&mut self, name: &str, values: &[&Expr], state: &State) -> Option<Vouched> {
        let (subject, rest) = values.split_first()?;
        let root = vec![self.derive(subject, state)?.0];
        let text = rest.first().and_then(|affix| self.text(affix, 0));
        let names_parent = text.as_deref().is_some_and(|text| text.contains(".."));
        match name {
            "IsLocal" | "ValidPath" => Some((root, Vec::new())),
            // `strings.HasPrefix(rel, "..")`, `strings.Contains(name, "..")`: an absolute path passes these.
            "HasPrefix" | "Contains" if names_parent => {
                Some((Vec::new(), if self.danger == Danger::Below { root } else { Vec::new() }))
            }
            // `strings.HasPrefix(path, filepath.Clean(folder)+"/")`.
            "HasPrefix" => {
                let is_folder =
                    text.is_none_or(|text| text.contains('/') && text.contains(char::is_alphanumeric));
                Some((if is_folder { root } else { Vec::new() }, Vec::new()))
            }
            _ => None,
        }
    }

    fn asks_elsewhere(
        &mut self,
        receiver: Option<&Expr>,
        name: &str,
        values: &[&Expr],
        state: &State,
    ) -> Option<Vouched> {
        let is_builtin = matches!(name, "len" | "cap" | "string" | "append");
        if receiver.is_some() || is_builtin || self.danger != Danger::Below {
            return None;
        }
        let (root, _) = values.iter().rev().find_map(|value| self.derive(value, state))?;
        Some((vec![root.clone()], vec![root]))
    }

    fn asks_redirect(
        &mut self,
        name: &str,
        receiver: Option<&Expr>,
        values: &[&Expr],
        state: &State,
    ) -> Option<Vouched> {
        if name == "IsAbs" {
            return Some((Vec::new(), vec![self.derive(receiver?, state)?.0]));
        }
        let [subject, affix] = values else { return None };
        let text = self.text(affix, 0)?;
        let root = vec![self.derive(subject, state)?.0];
        match (name, &*text) {
            ("HasPrefix", text) if text.starts_with('/') && text != "//" => Some((root, Vec::new())),
            ("Contains", "://" | "//" | ":") => Some((Vec::new(), root)),
            _ => None,
        }
    }

    /// Answer of a comparison about a path or a redirect; `None` where it says nothing.
    pub(super) fn equals_inside(&mut self, one: &Expr, other: &Expr, state: &State) -> Option<Vouched> {
        let is_nothing = matches!(other, Expr::Nothing | Expr::True | Expr::Number(_));
        match self.danger {
            // `path == folder`, `filepath.Base(name) == name`.
            Danger::Path | Danger::Below if !is_nothing => {
                let is_empty = matches!(other, Expr::Text(text) if text.is_empty());
                let (root, _) = self.derive(one, state).filter(|_| !is_empty)?;
                Some((vec![root], Vec::new()))
            }
            // `u.Host == ""`.
            Danger::Redirect if matches!(other, Expr::Text(text) if text.is_empty()) => {
                let (root, what) = self.derive(one, state)?;
                let is_host = what == What::Host || matches!(last(one), "Host" | "Scheme");
                is_host.then(|| (vec![root], Vec::new()))
            }
            // `next[0] == '/'`.
            Danger::Redirect => match one {
                Expr::Index(owner, _) => Some((vec![self.derive(owner, state)?.0], Vec::new())),
                _ => None,
            },
            _ => None,
        }
    }
}
