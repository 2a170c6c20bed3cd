//! Requests within TLS of the run's own authority: which secret a path is for. Pure.

use super::Route;
use super::rules::{NormalPath, PathError};

/// Why a path is for no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outside {
    /// The path is below the prefix of no secret.
    #[error("the path is below the prefix of no secret for this host")]
    Prefix,
    /// The path has two readings, and prefixes decide.
    #[error("{0}")]
    Path(#[from] PathError),
}

/// Number of the route that a path at a host is for: of `routes`, the one with the longest prefix that the path is below. Where a prefix
/// decides, a path with two readings is for none.
///
/// # Errors
/// [`Outside`] when the path is for none.
pub fn chosen<'r>(routes: impl Iterator<Item = (usize, &'r Route)>, path: &str) -> Result<usize, Outside> {
    let mut routes: Vec<(usize, &Route)> = routes.collect();
    let prefix = |route: &Route| route.binding().prefix.len();
    routes.sort_by_key(|(_, route)| std::cmp::Reverse(prefix(route)));
    if let [(number, route)] = routes[..]
        && prefix(route) == 0
    {
        return Ok(number);
    }
    for (number, route) in routes {
        let path = NormalPath::parse(path, route.rules().accepts_encoded_slash())?;
        let below = match route.binding().prefix.as_str() {
            "" => NormalPath::root(),
            prefix => NormalPath::parse(prefix, false)?,
        };
        if path.is_within(&below) {
            return Ok(number);
        }
    }
    Err(Outside::Prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::rules::RequestRules;
    use crate::route::{Binding, Scheme};
    use crate::secret::Secret;
    use proptest::prelude::*;

    fn routes(bindings: &[&str]) -> Vec<Route> {
        let made = bindings.iter().map(|text| {
            let secret = Secret::new(b"t0p-s3cret/value".to_vec()).unwrap();
            let binding: Binding = text.parse().unwrap();
            Route::new("gh", binding, &Scheme::Bearer, &secret, RequestRules::default(), None).unwrap()
        });
        made.collect()
    }

    fn of(routes: &[Route], path: &str) -> Result<usize, Outside> {
        chosen(routes.iter().enumerate(), path)
    }

    #[test]
    fn path_is_for_the_longest_prefix() {
        let several = routes(&["a.test", "a.test/acme", "a.test/acme/app"]);
        let below = routes(&["a.test/acme"]);
        let one = routes(&["a.test"]);
        let dots = Err(Outside::Path(PathError::Dots));
        let encoded = Err(Outside::Path(PathError::Encoded));
        for (path, of_several, of_below, of_one) in [
            ("/", Ok(0), Err(Outside::Prefix), Ok(0)),
            ("/acme", Ok(1), Ok(0), Ok(0)),
            ("/acme/", Ok(1), Ok(0), Ok(0)),
            ("/acm%65/x", Ok(1), Ok(0), Ok(0)),
            ("/acme/app", Ok(2), Ok(0), Ok(0)),
            ("/acme/application", Ok(1), Ok(0), Ok(0)),
            ("/acmeter", Ok(0), Err(Outside::Prefix), Ok(0)),
            ("/ACME", Ok(0), Err(Outside::Prefix), Ok(0)),
            ("/acme/../x", dots, dots, Ok(0)),
            ("/x/%2e%2e/acme", dots, dots, Ok(0)),
            ("/acme%2fapp", encoded, encoded, Ok(0)),
        ] {
            let got = [of(&several, path), of(&below, path), of(&one, path)];
            assert_eq!(got, [of_several, of_below, of_one], "{path}");
        }
        assert_eq!(of(&[], "/"), Err(Outside::Prefix));
    }

    proptest! {
        #[test]
        fn path_for_a_prefix_is_below_it(path in "/[a-c./%25eE]{0,12}") {
            let routes = routes(&["a.test/a", "a.test/a/b"]);
            if let Ok(number) = of(&routes, &path) {
                let normal = NormalPath::parse(&path, false).unwrap().to_string();
                let prefix = &routes[number].binding().prefix;
                prop_assert!(normal == *prefix || normal.starts_with(&format!("{prefix}/")), "{}", path);
                prop_assert!(number == 1 || !normal.starts_with("/a/b/"), "{}", path);
            }
        }
    }
}
