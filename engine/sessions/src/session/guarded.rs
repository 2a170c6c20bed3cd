//! Lets the guard read cells and the files that are put in, before the interpreter gets them.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use hotcell_guard::Artifact;
use hotcell_review::target::Target;
use hotcell_review::whole_command::{Feed, Whole};
use hotcell_state::report::{Code, ErrorReport};

use super::{MAX_EARLIER_BYTES, Session};
use crate::uploads::Staged;

impl Session {
    /// Copies a piece for the guard, and lets it read the file.
    pub(super) async fn stage(&self, path: &str, bytes: &[u8], append: bool) -> Result<Staged, ErrorReport> {
        let refused = |why: String| {
            ErrorReport::new(Code::Refused, format!("{path} was not written: {why}")).field("path")
        };
        let (uploads, below, piece) = (Arc::clone(&self.uploads), path.to_owned(), bytes.to_vec());
        let copying = tokio::task::spawn_blocking(move || {
            let mut uploads = uploads.lock().unwrap_or_else(PoisonError::into_inner);
            uploads.stage(&below, &piece, append).map(|staged| (staged, uploads.folder()))
        });
        let copied = copying.await.map_err(|error| refused(error.to_string()))?;
        let (staged, folder) = copied.map_err(refused)?;
        let Some(folder) = folder.filter(|_| staged.is_read) else { return Ok(staged) };
        match self.check(Some(folder), None).await {
            Ok(()) => Ok(staged),
            Err(why) => {
                self.uploads.lock().unwrap_or_else(PoisonError::into_inner).undo(&staged);
                Err(refused(why))
            }
        }
    }

    /// Lets the guard read copies of uploads, a source, or both together.
    ///
    /// # Errors
    /// The reason why it refuses them.
    async fn check(&self, folder: Option<PathBuf>, source: Option<Artifact>) -> Result<(), String> {
        let (gate, confinement, read_as) =
            (self.gate.clone(), self.confinement, self.language.source().as_read());
        let checked = tokio::task::spawn_blocking(move || {
            let whole = Whole {
                workspace: folder.map(|folder| (folder, Vec::new())),
                argv: Vec::new(),
                source: source.map(|source| Target::Source(source.run_as(read_as))),
                inside: None,
                env: Vec::new(),
                feed: Feed::Nothing,
                hidden: Vec::new(),
                own_rules: false,
                beside: Vec::new(),
                provided: Vec::new(),
            };
            gate.check(whole, confinement).map(drop)
        });
        match checked.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(mut report)) => {
                if self
                    .gate
                    .keep
                    .as_ref()
                    .is_some_and(|keep| keep.channel != hotcell_guard::quarantine::Channel::Cli)
                {
                    hotcell_review::guard::for_a_model(&mut report);
                }
                Err(report.outcome.reason.unwrap_or_else(|| "the guard refused it".to_owned()))
            }
            Err(error) => Err(format!("the guard did not read it: {error}")),
        }
    }

    /// Lets the guard read a cell together with those before it, and with the files that were put in.
    pub(super) async fn read(&self, code: &str) -> Result<(), String> {
        let whole = {
            let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
            format!("{earlier}{code}\n")
        };
        let name = self.language.source().file_name(whole.as_bytes());
        let folder = self.uploads.lock().unwrap_or_else(PoisonError::into_inner).folder();
        let artifact = Artifact::new(name, whole.clone().into_bytes());
        self.check(folder, Some(artifact)).await.map_err(|why| {
            format!("{why} (read together with the earlier cells; the state is still there)")
        })?;
        let mut from = whole.len().saturating_sub(MAX_EARLIER_BYTES);
        while !whole.is_char_boundary(from) {
            from -= 1;
        }
        let line = whole[from..].find('\n').filter(|_| from > 0).map_or(from, |at| from + at + 1);
        whole[line..].clone_into(&mut self.earlier.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}
