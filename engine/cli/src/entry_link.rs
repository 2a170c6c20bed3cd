//! The name of a link that stands for `hotcell worker-entry`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Name of a link to this program that is such an entry: NativeLink's `entrypoint` takes no arguments.
const LINK: &str = "hotcell-worker-entry";
/// Name of the command.
pub const COMMAND: &str = "worker-entry";

/// The words of a command line, where the program's name may stand for the command: then all others are the action's, and
/// the policy is in a file beside the link.
pub fn words(words: Vec<OsString>) -> Vec<OsString> {
    let Some(program) = words.first().map(PathBuf::from) else { return words };
    if program.file_name() != Some(OsStr::new(LINK)) {
        return words;
    }
    let policy = program.with_extension("toml");
    let has_policy = program.is_absolute() && policy.is_file();
    let config = [OsString::from("--config"), policy.into()];
    let mut whole = vec![words[0].clone(), COMMAND.into()];
    whole.extend(config.into_iter().filter(|_| has_policy));
    whole.push("--".into());
    whole.extend(words.into_iter().skip(1));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn links_stand_for_the_command() {
        assert_eq!(words(of(&["hotcell", "run", "--", "x"])), of(&["hotcell", "run", "--", "x"]));
        assert_eq!(
            words(of(&["/opt/hotcell-worker-entry", "--config", "/evil", "worker-entry"])),
            of(&["/opt/hotcell-worker-entry", "worker-entry", "--", "--config", "/evil", "worker-entry"])
        );
        // An action cannot say that its variables are the operator's.
        assert_eq!(
            words(of(&["/opt/hotcell-worker-entry", "worker-entry", "--cleared", "--", "x"])),
            of(&["/opt/hotcell-worker-entry", "worker-entry", "--", "worker-entry", "--cleared", "--", "x"])
        );
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("hotcell-worker-entry");
        let policy = dir.path().join("hotcell-worker-entry.toml");
        std::fs::write(&policy, "").unwrap();
        let (link, policy) = (link.to_str().unwrap(), policy.to_str().unwrap());
        assert_eq!(
            words(of(&[link, "sleep", "5"])),
            of(&[link, "worker-entry", "--config", policy, "--", "sleep", "5"])
        );
    }
}
