//! Ids of artifacts: the session, and the number of the artifact in it. Pure.

use std::fmt;
use std::str::FromStr;

/// Id of an artifact: `8a874cba3173-2`, where 0 is the given code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactId {
    /// Session.
    pub session: String,
    /// Number.
    pub number: usize,
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.session, self.number)
    }
}

impl FromStr for ArtifactId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (session, number) = text.split_once('-')?;
            let is_id = session.len() == 12 && session.bytes().all(|b| b.is_ascii_hexdigit());
            Some(Self { session: session.to_owned(), number: number.parse().ok()? }).filter(|_| is_id)
        };
        parse()
            .ok_or_else(|| "an artifact_id is a session_id with a number, such as 8a874cba3173-2".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifact_ids_round_trip() {
        let id: ArtifactId = "8a874cba3173-2".parse().unwrap();
        assert_eq!(
            (id.session.as_str(), id.number, id.to_string().as_str()),
            ("8a874cba3173", 2, "8a874cba3173-2")
        );
        for bad in [
            "",
            "8a874cba3173",
            "8a874cba3173-",
            "8a874cba3173-x",
            "8a-1",
            "../874cba3173-1",
            "8a874cba3173--1",
        ] {
            assert!(bad.parse::<ArtifactId>().is_err(), "{bad}");
        }
    }
}
