//! Steps of the quarantine for front ends. Items scanned under other rules are scanned again first, from the
//! stored files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_config::Configuration;
use hotcell_guard::quarantine::{Channel, State};
use hotcell_guard::{
    Artifact, Executions, Held, Limits, PartState, Report, Verdict, Walk, merge, scan_path, unread,
};
use hotcell_sandbox::Confinement;
use hotcell_scanning::reader::Rules;
use hotcell_scanning::session::ScanState;
use hotcell_state::audit::{AuditLog, NewSubject};
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::{StateChoice, StateFolder};

use crate::quarantine::config::QuarantineConfig;
use crate::target::Target;

use super::error::{QuarantineError, StepContext};
use super::identity::{Identified, identify};
use super::item::Item;
use super::rows::is_serious;
use super::steps::Judged;
use super::store::Quarantine;
use super::{DEFAULT_RELEASE_LIFETIME, MAX_RELEASE_LIFETIME};

/// Maximum number of items scanned again for one list; the others are marked as not current.
const MAX_RESCANS: usize = 100;
/// Maximum number of findings per item in a list.
const MAX_LISTED_FINDINGS: usize = 20;
/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 1000;
/// Maximum number of runs of one release.
const MAX_USES: u32 = 1000;

/// The quarantine for one actor, under the rules in force.
#[derive(Debug)]
pub struct QuarantineService {
    keep: QuarantineConfig,
    rules: Rules,
    reading: ScanState,
}

/// A reader uses the first confinement that the host supports.
const CONFINEMENTS: [Confinement; 2] = [Confinement::Namespaces, Confinement::LandlockOnly];

type Done<T> = Result<T, ErrorReport>;

impl QuarantineService {
    /// The quarantine for this actor. Opens nothing yet.
    #[must_use]
    pub fn new(keep: QuarantineConfig, rules: Rules, reading: ScanState) -> Self {
        Self { keep, rules, reading }
    }

    /// The quarantine for the caller of a configuration; a named folder of rules takes precedence over the
    /// configured one.
    ///
    /// # Errors
    /// A report when the rules cannot be read, or the configuration has no caller.
    pub fn of(configuration: &Configuration, rules: Option<&Path>) -> Done<Self> {
        let configured =
            || configuration.environment.run.rules.as_deref().or(configuration.user.run.rules.as_deref());
        let pinned = [&configuration.environment, &configuration.user].map(|s| s.rules_digest.as_ref());
        let rules = crate::guard::rules(rules.or_else(configured), pinned.into_iter().flatten().next())?;
        let keep = QuarantineConfig::of(configuration);
        let keep = keep.ok_or_else(|| ErrorReport::new(Code::Internal, "nobody asks for the quarantine"))?;
        Ok(Self::new(keep, rules, configuration.reading()))
    }

    pub(crate) fn terms(&self) -> StepContext {
        self.keep.terms(&self.rules)
    }

    /// Channel whose items are visible: a model sees only those of its own channel.
    fn own(&self) -> Option<&Channel> {
        Some(&self.keep.channel).filter(|channel| matches!(channel, Channel::Model(_)))
    }

    /// Shows a model an item released for another caller as held.
    fn as_seen(&self, item: &mut Item) {
        let own = self.own().map(ToString::to_string);
        let only = item.release.as_ref().and_then(|release| release.only.as_ref());
        if item.state == State::Released && own.is_some() && only.is_some() && only != own.as_ref() {
            item.state = State::Held;
            item.release = None;
        }
    }

    fn open(&self) -> Done<Quarantine> {
        self.keep.open().map_err(|e| of_quarantine(&e))
    }

    pub(super) fn open_to_read(&self) -> Done<Option<Quarantine>> {
        let open = || {
            let Some(folder) = StateFolder::open_existing(self.keep.state.path()?)? else { return Ok(None) };
            Quarantine::open_to_read(folder)
        };
        open().map_err(|e: QuarantineError| of_quarantine(&e))
    }

    /// All items that the actor may see, the most recently refused first. When the quarantine cannot be
    /// written, items scanned under other rules stay as they are, and are marked as not current.
    ///
    /// # Errors
    /// A report when the quarantine cannot be read.
    pub fn list(&self) -> Done<Vec<Item>> {
        let Some(quarantine) = self.open_to_read()? else { return Ok(Vec::new()) };
        let terms = self.terms();
        let all = || quarantine.list(self.own(), &terms).map_err(|e| of_quarantine(&e));
        let mut items = all()?;
        let old: Vec<&Item> = items.iter().filter(|item| is_old(item)).take(MAX_RESCANS).collect();
        if !old.is_empty() {
            match self.open().and_then(|writing| self.reread(&writing, &old, &terms)) {
                Ok(()) => items = all()?,
                Err(why) => {
                    tracing::warn!(target: "hotcell_contents", "what was read under other rules is not read again: {why}");
                }
            }
        }
        for item in &mut items {
            item.findings.truncate(MAX_LISTED_FINDINGS);
            self.as_seen(item);
        }
        Ok(items)
    }

    /// An item by its id, or an unambiguous prefix of it.
    ///
    /// # Errors
    /// A report when no item matches, with the nearest id, or when the quarantine cannot be read.
    pub fn show(&self, id: &str) -> Done<Item> {
        let terms = self.terms();
        let read = |quarantine: &Quarantine| {
            let mut item = quarantine.show(id, self.own(), &terms).map_err(|e| of_quarantine(&e))?;
            self.as_seen(&mut item);
            Ok(item)
        };
        let Some(quarantine) = self.open_to_read()? else { return Err(nothing(id)) };
        let item = read(&quarantine)?;
        if !is_old(&item) {
            return Ok(item);
        }
        match self.open().and_then(|writing| self.reread(&writing, &[&item], &terms)) {
            Ok(()) => read(&quarantine),
            Err(why) => {
                tracing::warn!(target: "hotcell_contents", "it was read under other rules and is not read again: {why}");
                Ok(item)
            }
        }
    }

    /// Bytes of a stored file of an item, for a person.
    ///
    /// # Errors
    /// A report when they cannot be read, or do not match the digest.
    pub fn content(&self, sha256: &str) -> Done<Vec<u8>> {
        let quarantine = self.open_to_read()?.ok_or_else(|| nothing(sha256))?;
        quarantine.content(sha256).map_err(|e| of_quarantine(&e))
    }

    /// The item of an artifact, by its digest.
    ///
    /// # Errors
    /// A report when the quarantine cannot be read.
    pub fn of_artifact(&self, sha256: &str) -> Done<Option<Item>> {
        let Some(quarantine) = self.open_to_read()? else { return Ok(None) };
        let terms = self.terms();
        let item = quarantine.of_artifact(sha256, &terms).map_err(|e| of_quarantine(&e))?;
        // Items of other channels are invisible.
        Ok(item.filter(|item| quarantine.show(&item.id, self.own(), &terms).is_ok()))
    }

    /// Scans a file, or a folder with layers over it, as the gate would, and adds the id of the item if it is
    /// held.
    ///
    /// # Errors
    /// A report when it cannot be read.
    pub fn scan(&self, path: &Path, layers: &[PathBuf]) -> Done<Report> {
        let mut scan = self.reading.begin(self.rules.clone(), &CONFINEMENTS);
        let walk = Walk { gitignore: false, packages: false, executed: None };
        let mut read = |artifact: &Artifact| scan.read(artifact);
        let limits = Limits::default();
        let target = match layers {
            [] => Target::Path(path.to_owned(), Executions::default()),
            layers => Target::View(path.to_owned(), layers.to_vec(), Executions::default()),
        };
        let report = match layers {
            [] => scan_path(&limits, path, walk, &mut read, &mut |_| ()),
            layers => crate::workspace_scan::read(&limits, path, layers, &Executions::default(), &mut read),
        };
        let mut report =
            report.map_err(|e| ErrorReport::new(Code::InvalidValue, format!("it cannot be read: {e}")))?;
        scan.end().map_err(unreadable)?;
        if report.verdict >= Verdict::Incomplete {
            let item = self.held(target, &report)?;
            report.quarantine = item.map(|item| Held { id: item.id, state: item.state.name().to_owned() });
        }
        Ok(report)
    }

    /// Rules that items are scanned under.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The item of scanned code, if it is held already.
    ///
    /// # Errors
    /// A report when the code can no longer be read, or the quarantine cannot be read.
    pub fn held(&self, target: Target, report: &Report) -> Done<Option<Item>> {
        // Without a quarantine nothing is held.
        if matches!(self.keep.state, StateChoice::Nowhere) || self.open_to_read()?.is_none() {
            return Ok(None);
        }
        self.of_artifact(&identified(target, report)?.sha256)
    }

    /// Holds scanned code, as the gate would.
    ///
    /// # Errors
    /// A report when the code can no longer be read, or cannot be stored.
    pub fn hold(&self, target: Target, report: &Report) -> Done<Item> {
        let found = identified(target, report)?;
        // A release is left for the run that uses it.
        match self.of_artifact(&found.sha256)?.filter(|item| item.state == State::Released) {
            Some(item) => Ok(item),
            None => match self.open()?.judge(&found, report, &self.keep.actor(), &self.terms()) {
                Ok(Judged::Held { item, .. } | Judged::Released { item, .. }) => Ok(item),
                Err(e) => Err(of_quarantine(&e)),
            },
        }
    }

    /// Asks for a release.
    ///
    /// # Errors
    /// A report when the item is not found, the step is not allowed, or the database fails.
    pub fn request(&self, id: &str, reason: &str) -> Done<Item> {
        let reason = reasoned(reason)?;
        let terms = self.terms();
        self.existing(id)?.request(id, &reason, &self.keep.actor(), &terms).map_err(|e| of_quarantine(&e))
    }

    /// Allows `uses` runs (default: one) within `lasts` (default: [`DEFAULT_RELEASE_LIFETIME`]), exactly as
    /// scanned under the rules in force; with `shown`, only an item that is still as [`Item::shown`] said.
    ///
    /// # Errors
    /// A report when the item is not found or not as it was shown, the step is not allowed, or the database fails.
    pub fn release(
        &self,
        id: &str,
        shown: Option<&str>,
        reason: &str,
        lasts: Option<Duration>,
        uses: Option<u32>,
    ) -> Done<Item> {
        let reason = reasoned(reason)?;
        let (lasts, uses) = (lasts.unwrap_or(DEFAULT_RELEASE_LIFETIME), uses.unwrap_or(1));
        if lasts.is_zero() || lasts > MAX_RELEASE_LIFETIME {
            let why = "a release lasts longer than nothing and at most 365d";
            return Err(ErrorReport::new(Code::InvalidValue, why).parameter("expires"));
        }
        if !(1..=MAX_USES).contains(&uses) {
            let why = format!("a release is for 1 to {MAX_USES} runs");
            return Err(ErrorReport::new(Code::InvalidValue, why).parameter("max_uses"));
        }
        let item = self.current(id)?;
        let terms = self.terms();
        self.open()?
            .release_as_shown(&item.id, shown, &reason, (lasts, uses), &self.keep.actor(), &terms)
            .map_err(|e| of_quarantine(&e))
    }

    /// An item as scanned under the rules in force: a person releases what they can see now.
    pub fn current(&self, id: &str) -> Done<Item> {
        let item = self.show(id)?;
        if !item.current && item.state != State::Purged {
            let why = format!("{} was read under other rules and cannot be read again", item.id);
            return Err(ErrorReport::new(Code::State, why).hint("run it again, so that it is held anew"));
        }
        Ok(item)
    }

    /// Rejects an item; with `shown`, only one that is still as [`Item::shown`] said.
    ///
    /// # Errors
    /// A report when the item is not found or not as it was shown, the step is not allowed, or the database fails.
    pub fn reject(&self, id: &str, shown: Option<&str>, reason: &str) -> Done<Item> {
        let reason = reasoned(reason)?;
        let terms = self.terms();
        let (actor, open) = (self.keep.actor(), self.existing(id)?);
        open.reject_as_shown(id, shown, &reason, &actor, &terms).map_err(|e| of_quarantine(&e))
    }

    /// Removes an item's content, or that of all expired items.
    ///
    /// # Errors
    /// A report when the item is not found, the step is not allowed, or the database fails.
    pub fn purge(&self, id: Option<&str>) -> Done<Vec<Item>> {
        let terms = self.terms();
        let actor = &self.keep.actor();
        let purged = match id {
            Some(id) => self.existing(id)?.purge(id, actor, &terms).map(|item| vec![item]),
            None => match self.open_to_read()? {
                Some(_) => self.open()?.purge_expired(actor, &terms),
                None => Ok(Vec::new()),
            },
        };
        purged.map_err(|e| of_quarantine(&e))
    }

    /// Last entries of the audit log.
    ///
    /// # Errors
    /// A report when it cannot be read.
    pub fn audit(&self, most: u64) -> Done<AuditLog> {
        match self.open_to_read()? {
            Some(quarantine) => quarantine.audit(most).map_err(|e| of_quarantine(&e)),
            None => Ok(AuditLog::new(Vec::new(), 0)),
        }
    }

    /// Checks the audit log; `above` are the subjects of crates above this one: plugins and receipts. A problem that was
    /// found is in the result.
    ///
    /// # Errors
    /// A report when it cannot be read.
    pub fn verify(&self, noted: Option<&str>, above: &[NewSubject]) -> Done<AuditLog> {
        match self.open_to_read()? {
            Some(quarantine) => quarantine.verify(noted, above).map_err(|e| of_quarantine(&e)),
            None => {
                let folder =
                    StateFolder::open_existing(self.keep.state.path().map_err(|e| of_quarantine(&e.into()))?);
                let folder = folder.map_err(|e| of_quarantine(&e.into()))?;
                let mut log = AuditLog::new(Vec::new(), 0);
                if noted.is_some() || folder.is_some_and(|folder| hotcell_state::audit::has_head(&folder)) {
                    log.problem = Some("there is no log any more, and there was one".to_owned());
                }
                Ok(log)
            }
        }
    }

    /// The quarantine for writing, if it exists: asking for an unknown item creates nothing.
    fn existing(&self, id: &str) -> Done<Quarantine> {
        match self.open_to_read()? {
            Some(_) => self.open(),
            None => Err(nothing(id)),
        }
    }

    /// Scans items again under the rules in force.
    fn reread(&self, quarantine: &Quarantine, items: &[&Item], terms: &StepContext) -> Done<()> {
        let mut scan = self.reading.begin(self.rules.clone(), &CONFINEMENTS);
        let mut read = Vec::new();
        for item in items {
            let kept = quarantine.kept(&item.id).map_err(|e| of_quarantine(&e))?;
            let reports = kept.into_iter().map(|(file, bytes)| match bytes {
                Ok(bytes) => {
                    let mut artifact = Artifact::new(file.part.clone(), bytes);
                    artifact.language = file.language();
                    scan.read(&artifact)
                }
                Err(why) => unread(&file.part, PartState::Skipped(why.to_string()), Verdict::Incomplete),
            });
            read.push((item, reports.collect::<Vec<_>>()));
        }
        // Without a working reader the results mean nothing.
        scan.end().map_err(unreadable)?;
        for (item, reports) in read {
            let again = || {
                let report = joined(quarantine.report(&item.id)?, item, reports);
                quarantine.reread(&item.id, &report, &self.keep.actor(), terms)
            };
            again().map_err(|e: QuarantineError| of_quarantine(&e))?;
        }
        Ok(())
    }
}

fn unreadable(why: impl std::fmt::Display) -> ErrorReport {
    ErrorReport::new(Code::Internal, format!("nothing can be read: {why}"))
}

fn identified(target: Target, report: &Report) -> Done<Identified> {
    identify(&[target], report).map_err(|e| {
        ErrorReport::new(Code::InvalidValue, format!("it cannot be read again: {e}")).field("PATH")
    })
}

/// True when the item has to be scanned again.
fn is_old(item: &Item) -> bool {
    !item.current && item.state != State::Purged
}

/// Combines new reports on the stored files with the old report on the others.
fn joined(before: Report, item: &Item, reports: Vec<Report>) -> Report {
    let kept: Vec<&str> =
        item.files.iter().filter(|file| file.not_kept.is_none()).map(|file| file.part.as_str()).collect();
    let is_kept = |part: &str| {
        kept.iter().any(|file| part.strip_prefix(file).is_some_and(|r| r.is_empty() || r.starts_with('!')))
    };
    let mut now = merge("", reports);
    let mut rest = before;
    rest.findings.retain(|finding| !is_kept(&finding.part));
    rest.coverage.parts.retain(|part| !is_kept(&part.path));
    let left = item.left_out > 0
        || !rest.coverage.parts.is_empty()
        || rest.findings.iter().any(|finding| is_serious(finding.severity));
    if left {
        now.verdict = now.verdict.max(rest.verdict);
    }
    now.findings.extend(rest.findings);
    now.coverage.parts.extend(rest.coverage.parts);
    now
}

/// A person's reason, checked: not empty, of limited length, without characters that a terminal obeys.
///
/// # Errors
/// When it is empty or too long.
pub fn reasoned(reason: &str) -> Done<String> {
    let reason = reason.trim();
    let bad = |why: &str| ErrorReport::new(Code::InvalidValue, why).parameter("reason");
    if reason.is_empty() {
        return Err(bad("a reason cannot be empty").hint("say it in a few words: it stays in the audit log"));
    }
    if reason.chars().count() > MAX_REASON_CHARS {
        return Err(bad(&format!("a reason has at most {MAX_REASON_CHARS} characters")));
    }
    Ok(printable(reason))
}

fn nothing(id: &str) -> ErrorReport {
    let hint = "nothing is held; hotcell scan --quarantine holds what it finds".to_owned();
    of_quarantine(&QuarantineError::NoSuchItem { id: id.to_owned(), hint })
}

/// Converts an error of the quarantine into a report.
#[must_use]
pub fn of_quarantine(error: &QuarantineError) -> ErrorReport {
    match error {
        QuarantineError::NoSuchItem { id, hint } => {
            ErrorReport::new(Code::UnknownName, format!("there is no item {id:?} in quarantine"))
                .field("ID")
                .hint(hint)
        }
        QuarantineError::Ambiguous { .. } => {
            ErrorReport::new(Code::UnknownName, error.to_string()).field("ID")
        }
        QuarantineError::Illegal { .. }
        | QuarantineError::ForAnother { .. }
        | QuarantineError::Unreleasable { .. } => {
            ErrorReport::new(Code::InvalidValue, error.to_string()).field("ID")
        }
        QuarantineError::NotAsShown { id, .. } => ErrorReport::new(Code::Refused, error.to_string())
            .parameter("shown")
            .hint(format!("hotcell quarantine show {id} shows it as it is now")),
        QuarantineError::Busy | QuarantineError::Full => {
            ErrorReport::new(Code::Busy, error.to_string()).parameter("state")
        }
        _ => ErrorReport::new(Code::State, error.to_string()).parameter("state"),
    }
}
