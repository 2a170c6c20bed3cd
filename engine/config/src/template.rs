//! Text of a new configuration file.

/// A configuration with every key, commented out, each with its meaning and default. A line that begins with
/// `#` and a letter is a setting; one that begins with `#` and a blank is a comment. As it is, it sets nothing.
pub const TEMPLATE: &str = include_str!("../template.toml");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hotcell_sandbox::Limits;

    use super::*;
    use crate::settings::KEYS;
    use crate::{Mode, PoolSettings, QuarantineSettings, Settings};

    const FILE: &str = "/etc/hotcell/config.toml";

    /// The template with all settings in force.
    fn in_force() -> String {
        let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line != "#";
        TEMPLATE
            .lines()
            .map(|line| if is_setting(line) { &line[1..] } else { line })
            .fold(String::new(), |text, line| text + line + "\n")
    }

    fn parsed(text: &str) -> Settings {
        Settings::parse(text, Path::new(FILE)).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn template_sets_nothing() {
        assert_eq!(parsed(TEMPLATE), Settings::default());
    }

    #[test]
    fn template_settings_are_valid_and_state_defaults() {
        let settings = parsed(&in_force());
        let limits = Limits { cpus: Some(1.5), open_files: Some(1024), ..Limits::default() };
        assert_eq!(settings.run.limits.over(&Limits::default()), limits);
        assert_eq!(settings.pool, PoolSettings::default());
        let sessions = crate::SessionSettings { memory: Some(limits.memory), ..Default::default() };
        assert_eq!(settings.sessions, sessions);
        assert_eq!(settings.run.guard, Some(Mode::default()));
        let month = Some(std::time::Duration::from_secs(30 * 24 * 60 * 60));
        let quarantine = QuarantineSettings { retention: month, two_persons: Some(false) };
        assert_eq!(settings.quarantine, quarantine);
        let usual = crate::Configuration::default().default_wait();
        assert_eq!(settings.mcp.default_wait, Some(usual));
        let (grants, usual) = (settings.tools.policy(Vec::new()), crate::ToolSettings::default());
        assert_eq!(settings.tools.limits(), usual.limits());
        assert_eq!(grants.sandbox_memory, usual.policy(Vec::new()).sandbox_memory);
    }

    #[test]
    fn template_has_every_key() {
        let text = in_force();
        let (top, tables) = text.split_once("\n[").expect("tables");
        let names = |text: &str| -> Vec<String> {
            let keys = text.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.to_owned());
            keys.filter(|key| !key.starts_with('#')).collect()
        };
        for key in KEYS {
            // The former spelling of the table pool is not for new files.
            if key.name == "hot" {
                continue;
            }
            // Tables by names that are the operator's.
            if ["secrets", "models", "model_roles"].contains(&key.name) {
                let begins = [format!("{}.", key.name), format!("{}]", key.name)];
                assert!(
                    tables
                        .split("\n[")
                        .any(|table| begins.iter().any(|name| table.starts_with(name.as_str()))),
                    "{}",
                    key.name
                );
                continue;
            }
            if key.within.is_empty() {
                assert!(names(top).iter().any(|name| name == key.name), "{}", key.name);
                continue;
            }
            let found = tables.split("\n[").find(|table| table.starts_with(&format!("{}]", key.name)));
            let within = names(found.unwrap_or_else(|| panic!("there is no table {}", key.name)));
            for inner in key.within {
                assert!(within.iter().any(|name| name == inner.name), "{}.{}", key.name, inner.name);
            }
        }
    }
}
