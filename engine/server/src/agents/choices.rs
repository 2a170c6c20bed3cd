//! Models and prompts that callers choose among those of the operator. Nothing that a caller sends names an address, a key or a text of a prompt.

use std::path::{Path, PathBuf};

use hotcell_models::ModelSettings;
use hotcell_models::check::{Check, check};
use hotcell_models::ledger::Call;
use hotcell_models::{Ledger, Purpose};
use hotcell_sandbox::layer::likely;
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport, printable};
use tokio::time::{Duration, Instant};

use crate::registry::Live;
use crate::running_agents::Agent;

/// Folder of prompts, below that of agent definitions.
const PROMPTS: &str = "prompts";
/// End of a prompt's file.
const END: &str = "md";
/// Maximum size of a prompt, in bytes.
const MAX_PROMPT_BYTES: u64 = 32 * 1024;
/// Time limit for a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// Role under which the ledger has checks.
const CHECK_ROLE: &str = "check";

impl Live {
    /// Checks a configured model, and uses it for the caller's agent from now on if it replies. Returns the check and the model before.
    ///
    /// # Errors
    /// A report when no such model is configured, or the ledger cannot be written.
    pub async fn agent_model(
        &self,
        caller: &Caller,
        agent: Agent,
        model: &str,
    ) -> Result<(Check, Option<String>), ErrorReport> {
        let settings: ModelSettings = self.configuration().user.models.clone();
        let endpoint = settings.endpoint(model).map_err(|e| {
            let names: Vec<&str> = settings.endpoints.keys().map(String::as_str).collect();
            let hint = if names.is_empty() {
                "the operator configures one with hotcell model add".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            ErrorReport::new(Code::UnknownName, e.to_string()).field("model").hint(hint)
        })?;
        let state = |e: hotcell_models::ledger::LedgerError| ErrorReport::new(Code::State, e.to_string());
        let (report, replies) = check(endpoint, None, Instant::now() + CHECK_TIMEOUT)
            .await
            .map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))?;
        let folder = self.state_folder();
        let purpose = Purpose::new(CHECK_ROLE, None, None).map_err(state)?;
        tokio::task::spawn_blocking(move || {
            let ledger = Ledger::open(&folder)?;
            for reply in &replies {
                ledger.record(&Call::of_reply(&purpose, reply)?)?;
            }
            Ok(())
        })
        .await
        .map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))?
        .map_err(state)?;
        let mut chosen = self.agents().chosen(caller, agent);
        let before = chosen.model.clone();
        if report.good {
            chosen.model = Some(model.to_owned());
            self.agents().table().choices.insert((caller.to_string(), agent), chosen);
        }
        Ok((report, before))
    }

    /// Uses a prompt of the operator for the caller's agent from the next session or review on; `None` goes back to hotcell's own words. Blocks.
    ///
    /// # Errors
    /// A report with the operator's prompts, when there is no such prompt.
    pub fn agent_prompt(
        &self,
        caller: &Caller,
        agent: Agent,
        prompt: Option<&str>,
    ) -> Result<Option<String>, ErrorReport> {
        let folder = self.configuration().user.agents.folder.as_ref().map(|folder| folder.join(PROMPTS));
        let text = prompt.map(|name| read(folder.as_deref(), name).map(|text| (name.to_owned(), text)));
        let mut chosen = self.agents().chosen(caller, agent);
        let before = chosen.prompt.take().map(|(name, _)| name);
        chosen.prompt = text.transpose()?;
        self.agents().table().choices.insert((caller.to_string(), agent), chosen);
        Ok(before)
    }
}

/// Names of the prompts in a folder, sorted.
fn names(folder: Option<&Path>) -> Vec<String> {
    let entries = folder.and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
    let name = |path: PathBuf| {
        let is_prompt = path.extension().is_some_and(|end| end == END);
        path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_prompt).map(str::to_owned)
    };
    let mut all: Vec<String> = entries.filter_map(|entry| name(entry.path())).collect();
    all.sort();
    all
}

fn read(folder: Option<&Path>, name: &str) -> Result<String, ErrorReport> {
    let all = names(folder);
    let wrong = |why: String| ErrorReport::new(Code::UnknownName, why).field("prompt");
    // Only a name in the list becomes a path.
    let Some((folder, known)) = folder.zip(all.iter().find(|known| *known == name)) else {
        let near = likely(name, all.iter().map(String::as_str));
        let hint = match (near, all.is_empty()) {
            (Some(near), _) => format!("did you mean {near}?"),
            (None, true) => {
                "the operator writes prompts as NAME.md into the folder prompts of the folder of agent definitions".to_owned()
            }
            (None, false) => format!("there are {}", all.join(", ")),
        };
        return Err(wrong(format!("the operator has no prompt {:?}", printable(name))).hint(hint));
    };
    let path = folder.join(known).with_extension(END);
    let size = path.metadata().map(|meta| meta.len()).unwrap_or(u64::MAX);
    if size > MAX_PROMPT_BYTES {
        return Err(wrong(format!(
            "the prompt {known} cannot be read, or has more than {MAX_PROMPT_BYTES} bytes"
        )));
    }
    std::fs::read_to_string(&path).map_err(|e| {
        tracing::warn!("the prompt {known} cannot be read: {e}");
        wrong(format!("the prompt {known} cannot be read; hotcell's log says why"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_chosen_by_names_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("strict.md"), "Be strict.").unwrap();
        std::fs::write(dir.path().join("other.txt"), "x").unwrap();
        let folder = Some(dir.path());
        assert_eq!(read(folder, "strict").unwrap(), "Be strict.");
        assert_eq!(names(folder), ["strict"]);
        for (name, hint) in [
            ("strct", "did you mean strict?"),
            ("other", ""),
            ("../outside", ""),
            ("/etc/passwd", ""),
            ("", ""),
        ] {
            let error = read(folder, name).unwrap_err();
            assert!(error.hint.is_some_and(|said| said.contains(hint)), "{name}");
        }
        assert!(read(None, "strict").unwrap_err().hint.is_some_and(|hint| hint.contains("NAME.md")));
    }
}
