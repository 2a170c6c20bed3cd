//! The key `approvals` of the configuration.

use serde::Deserialize;

/// Who is asked: the key `approvals` of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedBy {
    /// Only a person on the command line.
    #[default]
    Cli,
    /// Also a person through the caller's own client, which could answer by itself.
    Elicitation,
}

impl std::str::FromStr for AskedBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cli" => Ok(Self::Cli),
            "elicitation" => Ok(Self::Elicitation),
            _ => Err("is cli or elicitation".to_owned()),
        }
    }
}
