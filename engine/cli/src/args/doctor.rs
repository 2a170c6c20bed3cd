//! Options of `hotcell doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_proof::coverage::LIST;
use hotcell_sandbox::units::parse_duration;

use crate::quote::quoted;

/// Arguments of `hotcell doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "--attack runs in an arena that no knock-out touches; as root for an ordinary user too.\n\
                  Exit status: 0 examined, and all attacks held; 1 an attack got through, or was not run in\n\
                  time; 125 refused: without an arena nothing runs, or the profile of --ready is not\n\
                  available; 130 interrupted."
)]
pub struct DoctorArgs {
    /// Attack this host's sandboxes: 158 attacks, each layer removed in turn
    #[arg(long)]
    pub attack: bool,
    /// Also write the results as a page that can be filed
    #[arg(long, value_name = "FILE", requires = "attack", value_parser = OsStringValueParser::new().try_map(super::written))]
    pub html: Option<PathBuf>,
    /// Exit with 125 where a sandbox of this profile cannot be made, for probes
    #[arg(long, value_name = "NAME", conflicts_with = "attack")]
    pub ready: Option<String>,
    /// Only these attacks, such as 31,45-50
    #[arg(long, value_name = "NUMBERS", requires = "attack", value_parser = numbers)]
    pub only: Option<Numbers>,
    /// Report attacks that are not done by then as not run [default: 60s]
    #[arg(long = "timeout", alias = "within", value_name = "TIME", requires = "attack", value_parser = parse_duration)]
    pub within: Option<Duration>,
}

/// Numbers of the list of attacks, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<u16>);

fn numbers(text: &str) -> Result<Numbers, String> {
    let last = LIST.last().map_or(0, |attack| attack.number);
    let is_one = |number: &u16| LIST.iter().any(|attack| attack.number == *number);
    let known = |word: &str| match word.trim().parse::<u16>() {
        Ok(number) if is_one(&number) => Ok(number),
        _ => Err(format!("{} is no attack; they are 1 to {last}, such as 31,45-50", quoted(word.trim()))),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                let (from, to) = (known(from)?, known(to)?);
                if from > to {
                    return Err(format!("{} ends before it begins; write {to}-{from}", part.trim()));
                }
                all.extend((from..=to).filter(is_one));
            }
            None => all.push(known(part)?),
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(Numbers(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        for (text, want) in [
            ("31", Some(vec![31])),
            ("45-47, 31,46", Some(vec![31, 45, 46, 47])),
            ("1-149", Some((1..=149).collect())),
            ("0", None),
            ("9999", None),
            ("9-5", None),
            ("5-", None),
            ("-5", None),
            ("", None),
            ("1,", None),
            ("a031", None),
            ("99999999999", None),
        ] {
            assert_eq!(numbers(text).ok().map(|n| n.0), want, "{text}");
        }
    }
}
