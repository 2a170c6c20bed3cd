//! Copies of packages under a name that is one letter apart from the one that their own description gives elsewhere: in the
//! address of the repository or the home page, or as the name that the code is imported by.

/// Minimum length of the names; short ones are often one letter apart.
const MIN_LENGTH: usize = 5;
/// Hosts of repositories whose addresses end with a project's name.
const HOSTS: &[&str] = &["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/// Name of the package that a description copies, out of the addresses and names of modules in it.
pub(crate) fn copied<'n>(name: &str, others: impl Iterator<Item = &'n str>) -> Option<String> {
    let own = plain(name);
    others
        .filter_map(
            |other| if other.contains("://") || other.contains('@') { project(other) } else { Some(other) },
        )
        .map(plain)
        .find(|other| is_one_edit(&own, other))
}

/// Name of the project that an address of a repository ends with.
fn project(address: &str) -> Option<&str> {
    let path = HOSTS.iter().find_map(|host| address.split_once(host).map(|(_, path)| path))?;
    let name = path.trim_start_matches(['/', ':']).split(['/', '#', '?']).nth(1)?;
    Some(name.strip_suffix(".git").unwrap_or(name))
}

/// A name without its scope, in lower case, with one kind of separator.
fn plain(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase().replace(['_', '.'], "-");
    name.trim_end_matches("-js").trim_start_matches("node-").trim_start_matches("python-").to_owned()
}

/// True for names of which one has a letter more, less or another one, or two neighbours swapped. A plural and a number at the end
/// are ordinary.
fn is_one_edit(one: &str, other: &str) -> bool {
    if one == other || one.len().min(other.len()) < MIN_LENGTH || one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let (short, long) = if one.len() <= other.len() {
        (one.as_bytes(), other.as_bytes())
    } else {
        (other.as_bytes(), one.as_bytes())
    };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short_rest, long_rest) = (&short[same..], &long[same..]);
    if short.len() < long.len() {
        let is_ordinary = same == short.len() && (long[same] == b's' || long[same].is_ascii_digit());
        return short_rest == &long_rest[1..] && !is_ordinary && long[same] != b'-';
    }
    let is_number =
        short_rest.len() == 1 && (short_rest[0].is_ascii_digit() || long_rest[0].is_ascii_digit());
    short_rest[1..] == long_rest[1..] && !is_number
        || short_rest.len() > 1
            && short_rest[0] == long_rest[1]
            && short_rest[1] == long_rest[0]
            && short_rest[2..] == long_rest[2..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_one_letter_apart_from_their_project() {
        for (name, other, want) in [
            ("reqeusts", "https://github.com/psf/requests", Some("requests")),
            ("expresss", "git+https://github.com/expressjs/express.git", None),
            ("exppress", "git+https://github.com/expressjs/express.git", Some("express")),
            ("lodahs", "lodash", Some("lodash")),
            ("colourama", "colorama", Some("colorama")),
            ("requests", "https://github.com/psf/requests", None),
            ("urllib3", "urllib", None),
            ("attrs", "attr", None),
            ("python-dateutil", "https://github.com/dateutil/dateutil", None),
            ("@babel/core", "https://github.com/babel/babel", None),
            ("left-pad", "leftpad", None),
            ("requests", "https://requests.readthedocs.io", None),
        ] {
            assert_eq!(copied(name, std::iter::once(other)).as_deref(), want, "{name}");
        }
    }
}
