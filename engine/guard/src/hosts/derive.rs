//! Pieces of addresses: which address an expression was made of, and which piece of it it is.

use super::check::{Checks, Danger, Known, State};
use super::condition::tests_something;
use super::{Expr, last};
use std::rc::Rc;

/// Address that pieces are made of: the name that it came in by, or a path of members.
pub(super) type Root = Rc<str>;

/// Piece of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The whole text.
    Whole,
    /// The address split into its pieces.
    Parsed,
    /// Its host, or what the host resolves to.
    Host,
    /// Something else made of it.
    Made,
}

/// Members that hold the host of an address.
fn is_host(name: &str) -> bool {
    matches!(
        name,
        "hostname"
            | "netloc"
            | "host"
            | "Host"
            | "Hostname"
            | "authority"
            | "origin"
            | "registered_domain"
            | "fqdn"
            | "domain"
            | "raw_host"
    )
}

/// Functions that split an address into its pieces.
fn splits(function: &Expr) -> bool {
    match last(function) {
        "urlparse" | "urlsplit" | "parse_url" | "URL" | "Url" | "furl" | "ParseRequestURI" => true,
        "parse" | "Parse" | "canParse" => match function {
            Expr::Member(owner, _) => matches!(last(owner), "url" | "urllib" | "URL" | "urlparse" | "parse"),
            _ => false,
        },
        _ => false,
    }
}

/// Methods and functions whose results are another form of what they are given.
fn keeps(name: &str) -> bool {
    matches!(
        name,
        "lower"
            | "upper"
            | "casefold"
            | "strip"
            | "lstrip"
            | "rstrip"
            | "trim"
            | "trimEnd"
            | "trimStart"
            | "toLowerCase"
            | "toUpperCase"
            | "toString"
            | "replace"
            | "encode"
            | "decode"
            | "removeprefix"
            | "removesuffix"
            | "str"
            | "String"
            | "string"
            | "ToLower"
            | "ToUpper"
            | "TrimSpace"
            | "TrimSuffix"
            | "TrimPrefix"
            | "geturl"
    )
}

impl Checks<'_> {
    /// Address that an expression is a piece of, and which piece.
    pub(super) fn derive(&mut self, expression: &Expr, state: &State) -> Option<(Root, What)> {
        if !self.step() {
            return None;
        }
        match expression {
            Expr::Name(name) => match state.env.get(&**name) {
                Some(Known::Piece(root, what)) => Some((root.clone(), *what)),
                Some(_) => None,
                None => Some((Rc::from(&**name), What::Whole)),
            },
            Expr::Member(owner, name) => {
                let (root, what) = self.derive(owner, state)?;
                // Each field of an entry of an archive is a value of its own.
                if self.danger.is_path() {
                    return Some((format!("{root}.{name}").into(), What::Whole));
                }
                match what {
                    What::Host => Some((root, What::Host)),
                    _ if is_host(name) => Some((root, What::Host)),
                    // An address with a known scheme is not an option.
                    What::Parsed
                        if self.danger == Danger::Option && matches!(&**name, "scheme" | "protocol") =>
                    {
                        Some((root, What::Host))
                    }
                    What::Whole => Some((format!("{root}.{name}").into(), What::Whole)),
                    What::Parsed if &**name == "href" => Some((root, What::Whole)),
                    // A scheme, a port and a path say nothing about the host.
                    What::Parsed => None,
                    What::Made => Some((root, What::Made)),
                }
            }
            Expr::Index(owner, key) => {
                let (root, what) = self.derive(owner, state)?;
                let is_third = matches!(**key, Expr::Number(2)) && is_split_at_slashes(owner);
                match (what, &**key) {
                    (What::Host, _) => Some((root, What::Host)),
                    (What::Parsed, Expr::Number(1)) => Some((root, What::Host)),
                    (What::Parsed, Expr::Number(_)) => None,
                    _ if is_third => Some((root, What::Host)),
                    _ => Some((root, What::Made)),
                }
            }
            Expr::Call { function, args, .. } => self.derive_call(function, args, state),
            Expr::Named(_, value) => self.derive(value, state),
            Expr::Or(all) => all.iter().find_map(|one| self.derive(one, state)),
            Expr::Choice(_, yes, no) => match (self.derive(yes, state), self.derive(no, state)) {
                (Some(yes), Some(no)) if yes != no => None,
                (yes, no) => yes.or(no),
            },
            Expr::Each { item, .. } => self.derive(item, state),
            Expr::List(all) | Expr::Other(all) => {
                let mut roots: Vec<Root> = Vec::new();
                for one in all {
                    if let Some((root, _)) = self.derive(one, state)
                        && !roots.contains(&root)
                    {
                        roots.push(root);
                    }
                }
                let is_one = roots.len() == 1 || self.danger.is_path();
                if is_one { roots.pop().map(|root| (root, What::Made)) } else { None }
            }
            _ => None,
        }
    }

    fn derive_call(
        &mut self,
        function: &Expr,
        args: &[(Box<str>, Expr)],
        state: &State,
    ) -> Option<(Root, What)> {
        let name = last(function);
        let first = args.first().map(|(_, first)| first);
        if splits(function) {
            return first.and_then(|first| self.derive(first, state)).map(|(root, _)| (root, What::Parsed));
        }
        let receiver = match function {
            Expr::Member(owner, _) => Some(&**owner),
            _ => None,
        };
        if self.is_own(function) {
            return self.called(name, args, state)?.result;
        }
        if tests_something(name) {
            return None;
        }
        // The last piece of a path decides where it leads to.
        if self.danger.is_path() && composes(name) {
            let piece = args.iter().rev().find_map(|(_, arg)| self.derive(arg, state));
            return piece.map(|(root, _)| (root, What::Made));
        }
        let of_receiver = receiver.and_then(|owner| self.derive(owner, state));
        if let Some((root, what)) = &of_receiver {
            if is_host(name) {
                return Some((root.clone(), What::Host));
            }
            if *what == What::Parsed && matches!(name, "geturl" | "toString" | "String" | "human_repr") {
                return Some((root.clone(), What::Whole));
            }
            if *what == What::Host || keeps(name) && *what != What::Parsed {
                return Some((root.clone(), *what));
            }
            if *what == What::Parsed {
                return None;
            }
        }
        let mut pieces: Vec<(Root, What)> = Vec::new();
        for (_, arg) in args {
            pieces.extend(self.derive(arg, state));
        }
        // A module, and the object that a method belongs to, is not a piece of an address: `module.f(x)`.
        let [only] = &pieces[..] else {
            if pieces.is_empty()
                && let Some((root, What::Whole)) = &of_receiver
                && let Some(path) = path(root, name, args)
            {
                return Some((path, What::Whole));
            }
            let (root, _) = if pieces.is_empty() { of_receiver? } else { pieces.first().cloned()? };
            let is_one = pieces.iter().all(|(other, _)| *other == root);
            return is_one.then_some((root, What::Made));
        };
        let (root, what) = only.clone();
        Some(match what {
            What::Host => (root, What::Host),
            _ if is_host(name) => (root, What::Made),
            What::Whole if keeps(name) => (root, What::Whole),
            _ => (root, What::Made),
        })
    }

    /// Addresses that an expression contains.
    pub(super) fn roots(&mut self, expression: &Expr, state: &State, out: &mut Vec<Root>) {
        if !self.step() {
            return;
        }
        if let Some((root, _)) = self.derive(expression, state) {
            out.push(root);
        }
        match expression {
            Expr::Call { args, function, .. } => {
                if let Expr::Member(owner, _) = &**function {
                    self.roots(owner, state, out);
                }
                args.iter().for_each(|(_, arg)| self.roots(arg, state, out));
            }
            Expr::List(all) | Expr::Other(all) | Expr::Or(all) => {
                all.iter().for_each(|one| self.roots(one, state, out));
            }
            Expr::Choice(_, yes, no) => {
                self.roots(yes, state, out);
                self.roots(no, state, out);
            }
            _ => {}
        }
    }
}

/// Functions whose result is a path that ends with their last argument.
fn composes(name: &str) -> bool {
    matches!(name, "Join" | "Rel" | "Clean" | "Abs" | "FromSlash" | "ToSlash" | "Sprintf" | "EvalSymlinks")
}

/// Path of a field that a method gets by its name: `request.args.get("url")`, or of the body of a request.
fn path(root: &str, name: &str, args: &[(Box<str>, Expr)]) -> Option<Root> {
    let key = match args.first() {
        Some((_, Expr::Text(key))) => key,
        None if matches!(name, "json" | "get_json" | "body" | "form" | "formData" | "text") => "",
        _ => return None,
    };
    Some(format!("{root}.{name}({key})").into())
}

/// `address.split("/")`.
fn is_split_at_slashes(expression: &Expr) -> bool {
    let Expr::Call { function, args, .. } = expression else { return false };
    let at_slashes = args.iter().any(|(_, arg)| matches!(arg, Expr::Text(text) if &**text == "/"));
    matches!(last(function), "split" | "Split") && at_slashes
}
