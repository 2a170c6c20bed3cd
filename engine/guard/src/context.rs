//! State of one scan: the analysers report facts to it; their meaning is decided in `score`.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};

use crate::artifact::Called;
use crate::executed::Executed;
use crate::feed::Known;
use crate::language::Language;
use crate::limits::Limits;
use crate::natives::Natives;
use crate::report::{Frame, Handed, HandedSource, Part, PartState, Pass, Severity, StepKind};
use crate::rules::{Call, Pack, TextKind};
use crate::value::{Step, Value};

/// Reason for an unread part that might be read in another attempt.
pub(crate) const LATE: &str = "out of time";
/// Maximum number of external files that a file executes; beyond it the file counts as not read.
const MAX_HANDED_FILES: usize = 4096;
/// Maximum number of such files of all files of an archive together.
const MAX_HANDED: usize = 16 * MAX_HANDED_FILES;
/// Language of what a part executes beyond the recorded arguments of unknown programs: it counts only where the part
/// itself is executed.
const BEYOND: &str = "a further argument of a program";
/// Maximum nesting of scans of a text by itself.
const MAX_SCANS_APART: usize = 2;
/// Maximum length of such a path, in bytes: the system's own limit.
const MAX_HANDED_PATH: usize = 4096;

/// A rule's match, or a fact found by the engine itself.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) rule: usize,
    pub(crate) part: usize,
    /// File of an archive that it is in, by number; 0 for a file that is in none.
    pub(crate) unit: usize,
    /// First line, column, last line; from 1.
    pub(crate) place: (u32, u32, u32),
    pub(crate) chain: Vec<&'static str>,
    /// Way of the value that the rule asked about.
    pub(crate) frames: Vec<Frame>,
}

/// An executable text inside another one.
struct Child {
    language: Language,
    text: String,
    place: (u32, u32, u32),
    chain: Vec<&'static str>,
    depth: usize,
}

/// Place of the text that is being read.
#[derive(Default)]
struct Place {
    part: usize,
    lines: Vec<u32>,
    /// Offsets of bytes inside characters, to count columns in characters.
    inner: Vec<u32>,
    /// Fixed place of a text that is not contained verbatim in the file.
    fixed: Option<(u32, u32, u32)>,
    chain: Vec<&'static str>,
    depth: usize,
    install: bool,
}

/// Reads a text in a language, with the analyser of that language.
pub(crate) type Reader = fn(&mut Cx<'_>, Language, &str) -> PartState;

/// State of one scan.
pub(crate) struct Cx<'p> {
    pub(crate) pack: &'p Pack,
    pub(crate) limits: &'p Limits,
    reader: Reader,
    pub(crate) facts: Vec<Fact>,
    /// Capabilities and threats found in each file, with the first fact of each.
    pub(crate) seen: FxHashMap<(usize, &'p str), usize>,
    pub(crate) parts: Vec<Part>,
    pub(crate) bytes_seen: u64,
    /// Code outside the parts that they execute.
    pub(crate) executes: Vec<Handed>,
    handed: FxHashSet<Handed>,
    /// Values that the parts pass to functions of other files.
    pub(crate) passes: Vec<Pass>,
    /// Functions that get such values.
    pub(crate) called: Vec<Called>,
    /// Number of recorded arguments of unknown programs.
    given: usize,
    /// Number of records, and of such arguments among them, before the file that is being read.
    before: (usize, usize),
    /// Why some part could not be read.
    pub(crate) unread: Option<String>,
    /// Output of archives and decoders so far, in bytes.
    pub(crate) unpacked: usize,
    /// Number of archive entries so far.
    pub(crate) entries: usize,
    queue: VecDeque<Child>,
    /// Texts of this file that were queued so far, by digest: an author must not be able to pass one text off
    /// as another.
    queued: HashSet<(Language, [u8; 32])>,
    children: usize,
    steps: u64,
    /// File that is being read, and the number of files so far.
    unit: usize,
    units: usize,
    /// Parts that are cached byte code, which Python compares with its source, and the path of the source.
    pub(crate) caches: Vec<(String, String)>,
    /// Machine code in archives, and the packages that declare it.
    pub(crate) natives: Natives,
    /// Results of comparisons with the operator's feeds.
    pub(crate) known: Known,
    /// Number of scans that this one is apart from.
    nested: usize,
    started: Instant,
    place: Place,
    per_part: FxHashMap<(usize, usize, Severity), u32>,
    /// Files and rules with a recorded fact, and the severity of each.
    kept: FxHashSet<(usize, usize, Severity)>,
}

impl<'p> Cx<'p> {
    /// A scan that has not begun; `reader` reads a text in each language.
    pub(crate) fn new(pack: &'p Pack, limits: &'p Limits, reader: Reader) -> Self {
        Cx {
            pack,
            limits,
            reader,
            facts: Vec::new(),
            seen: FxHashMap::default(),
            parts: Vec::new(),
            bytes_seen: 0,
            executes: Vec::new(),
            handed: FxHashSet::default(),
            passes: Vec::new(),
            called: Vec::new(),
            given: 0,
            before: (0, 0),
            unread: None,
            unpacked: 0,
            entries: 0,
            queue: VecDeque::new(),
            queued: HashSet::new(),
            children: 0,
            steps: 0,
            unit: 0,
            units: 0,
            caches: Vec::new(),
            natives: Natives::default(),
            known: Known::default(),
            nested: 0,
            started: Instant::now(),
            place: Place::default(),
            per_part: FxHashMap::default(),
            kept: FxHashSet::default(),
        }
    }

    /// Reads a file of an archive: it is scored as a file of its own, with steps and texts of its own. Time, output
    /// and the number of entries are limited for all together.
    pub(crate) fn in_own_unit(&mut self, read: impl FnOnce(&mut Self)) {
        self.units += 1;
        let outer = (std::mem::replace(&mut self.unit, self.units), self.steps, self.children);
        let queued = std::mem::take(&mut self.queued);
        let before = std::mem::replace(&mut self.before, (self.executes.len(), self.given));
        (self.steps, self.children) = (0, 0);
        read(self);
        (self.unit, self.steps, self.children) = outer;
        self.queued = queued;
        self.before = before;
    }

    /// A scan of a text by itself, within the rest of this one's limits; `None` inside two such scans.
    pub(crate) fn apart(&self) -> Option<Cx<'p>> {
        let nested = self.nested + 1;
        (nested <= MAX_SCANS_APART).then(|| Cx {
            started: self.started,
            steps: self.steps,
            nested,
            ..Cx::new(self.pack, self.limits, self.reader)
        })
    }

    /// Number of steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Sets the number of steps to that of a scan apart.
    pub(crate) fn count(&mut self, steps: u64) {
        self.steps = self.steps.max(steps);
    }

    /// Counts a step; `false` once a limit of the scan is exceeded, which also makes it incomplete.
    pub(crate) fn tick(&mut self) -> bool {
        self.steps += 1;
        if self.steps > self.limits.steps {
            return self.stop("too many steps");
        }
        if self.steps.is_multiple_of(2048) && self.started.elapsed() > self.limits.time {
            return self.stop(LATE);
        }
        true
    }

    fn stop(&mut self, why: &str) -> bool {
        self.unread.get_or_insert_with(|| why.to_owned());
        false
    }

    /// True when the time limit is exceeded, for loops that do not count steps.
    pub(crate) fn late(&mut self) -> bool {
        self.started.elapsed() > self.limits.time && !self.stop(LATE)
    }

    /// Marks code that could be executed as not read.
    pub(crate) fn not_read(&mut self, why: impl Into<String>) {
        let why = why.into();
        self.unread.get_or_insert(why);
    }

    pub(crate) fn locate(&self, start: usize, end: usize) -> (u32, u32, u32) {
        if let Some(fixed) = self.place.fixed {
            return fixed;
        }
        let line_of = |at: usize| {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            self.place.lines.partition_point(|begin| *begin <= at).max(1)
        };
        let line = line_of(start);
        let begin = self.place.lines.get(line - 1).copied().unwrap_or(0) as usize;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let before = |at: usize| self.place.inner.partition_point(|inner| (*inner as usize) < at);
        let column = (start - begin.min(start)).saturating_sub(before(start) - before(begin.min(start))) + 1;
        (number(line), number(column), number(line_of(end.max(start + 1) - 1)))
    }

    fn hit(&mut self, rule: usize, span: (usize, usize), extra: &[&'static str]) {
        self.hit_by(rule, span, extra, None);
    }

    /// Records a match, with the way of the value that the rule asked about.
    fn hit_by(&mut self, rule: usize, span: (usize, usize), extra: &[&'static str], trail: Option<&Step>) {
        let mut chain = self.place.chain.clone();
        chain.extend_from_slice(extra);
        // A rule is more severe for a text that had to be decoded first.
        let severity = hardened(self.pack, rule, &chain);
        let count = self.per_part.entry((self.place.part, rule, severity)).or_default();
        *count += 1;
        if *count > 20 {
            return;
        }
        // The first fact of each rule is kept even when the list is full, so the verdict does not depend on
        // the limit.
        let is_new = self.kept.insert((self.unit, rule, severity));
        let full = self.facts.len() > self.limits.findings * 50;
        if full && !is_new {
            self.not_read("more was found than a report holds");
            return;
        }
        let place = self.locate(span.0, span.1);
        let known = |f: &Fact| {
            f.rule == rule
                && f.place == place
                && f.part == self.place.part
                && hardened(self.pack, rule, &f.chain) == severity
        };
        if self.facts.iter().rev().take(8).any(known) {
            return;
        }
        let metadata = &self.pack.rules[rule].metadata;
        let at = self.facts.len();
        for name in metadata.capability.iter().chain(&metadata.threat) {
            self.seen.entry((self.unit, name)).or_insert(at);
        }
        let frames = self.frames(trail, place);
        self.facts.push(Fact { rule, part: self.place.part, unit: self.unit, place, chain, frames });
    }

    /// Frames of a way, from its source to the matched call.
    pub(crate) fn frames(&self, trail: Option<&Step>, sink: (u32, u32, u32)) -> Vec<Frame> {
        let steps = std::iter::successors(trail, |step| step.before.as_deref());
        let mut frames: Vec<Frame> = steps
            .map(|step| {
                let (line, column, _) = self.locate(step.at.0, step.at.1);
                let plain = |c: &char| c.is_ascii_alphanumeric() || "_.()".contains(*c);
                let name = step.name.chars().filter(plain).take(40).collect();
                Frame { line, column, step: step.kind, name, part: None }
            })
            .collect();
        if frames.is_empty() {
            return frames;
        }
        frames.reverse();
        frames.push(Frame {
            line: sink.0,
            column: sink.1,
            step: StepKind::Sink,
            name: String::new(),
            part: None,
        });
        frames
    }

    /// Reports a call.
    pub(crate) fn call(&mut self, language: Language, call: &Call<'_>, span: (usize, usize)) {
        let pack = self.pack;
        let call = &Call { context: call.context | self.install_bit(), ..*call };
        pack.calls(language, call, |rule| self.hit_by(rule, span, &[], pack.trail(rule, call)));
        self.packages_of_call(language, call, span);
    }

    /// Reports a fact by the engine's own name for it.
    pub(crate) fn fact(&mut self, language: Language, name: &str, span: (usize, usize)) {
        self.fact_with(language, name, span, &[], 0);
    }

    /// Like [`Cx::fact`], with values that a rule can ask about, and the context.
    pub(crate) fn fact_with(
        &mut self,
        language: Language,
        name: &str,
        span: (usize, usize),
        args: &[Value],
        context: u32,
    ) {
        let context = context | self.install_bit();
        let call = Call { names: &[], method: None, receiver: None, args, kwargs: &[], context };
        let pack = self.pack;
        pack.facts(language, name, &call, |rule| self.hit_by(rule, span, &[], pack.trail(rule, &call)));
    }

    fn install_bit(&self) -> u32 {
        let install = if self.place.install { crate::rules::Spot::INSTALL } else { 0 };
        let image = self.place.chain.iter().any(|step| crate::transforms::is_of_image(step));
        install | if image { crate::rules::Spot::IMAGE } else { 0 }
    }

    /// Reports a text.
    pub(crate) fn text(&mut self, kind: TextKind, text: &str, span: (usize, usize), extra: &[&'static str]) {
        let pack = self.pack;
        // In long texts (embedded pages, licences) matches are placed by line; in short ones at the start of
        // the literal.
        let long = span.1 - span.0 > text.len() / 2 && text.len() > 200;
        pack.text_hits(kind, text, |rule, at| {
            let span = if long { (span.0 + at.min(span.1 - span.0), span.1) } else { span };
            self.hit(rule, span, extra);
        });
    }

    /// A string literal that looks encoded: its decoded contents are scanned, too.
    pub(crate) fn encoded(&mut self, text: &str, span: (usize, usize)) {
        if let Some((chain, plain)) = crate::decode::guess(text) {
            self.text(TextKind::String, &plain, span, &chain);
            if plain.contains("import ") || plain.contains("exec(") {
                self.child(Language::Python, &plain, span, &chain);
            } else if plain.contains("/bin/") || plain.contains("curl ") || plain.starts_with("rm ") {
                self.child(Language::Bash, &plain, span, &chain);
            }
        }
    }

    /// Queues an executable text; it is scanned after this one, and its findings are placed at `span`.
    pub(crate) fn child(
        &mut self,
        language: Language,
        text: &str,
        span: (usize, usize),
        chain: &[&'static str],
    ) {
        if text.trim().is_empty() || self.place.depth >= self.limits.depth {
            if self.place.depth >= self.limits.depth {
                self.not_read("code inside code, too deep");
            }
            return;
        }
        if !self.queued.insert((language, Sha256::digest(text).into())) {
            return;
        }
        self.children += 1;
        self.unpacked += text.len();
        if self.children > self.limits.children || self.unpacked > self.limits.unpacked_bytes {
            self.not_read("too much code inside code");
            return;
        }
        let mut own = self.place.chain.clone();
        own.extend_from_slice(chain);
        let place = self.locate(span.0, span.1);
        self.queue.push_back(Child {
            language,
            text: text.to_owned(),
            place,
            chain: own,
            depth: self.place.depth + 1,
        });
    }

    /// Reports code outside the part that the part executes. The caller of the scan has to scan it as that.
    pub(crate) fn hand(&mut self, source: HandedSource, executed: Executed) {
        match &source {
            HandedSource::File(path)
            | HandedSource::Program(path)
            | HandedSource::Makefile(path)
            | HandedSource::GitSettings(path)
            | HandedSource::Variables(path)
            | HandedSource::Folder(path)
            | HandedSource::Given(path) => {
                if path.is_empty() || path.len() > MAX_HANDED_PATH {
                    return;
                }
            }
            HandedSource::Text | HandedSource::Stdin | HandedSource::Arguments | HandedSource::Input => {}
        }
        let handed = Handed { part: self.path(), source, executed };
        if !self.handed.insert(handed.clone()) {
            return;
        }
        if matches!(handed.source, HandedSource::Given(_)) {
            if self.given - self.before.1 >= MAX_HANDED_FILES || self.executes.len() >= MAX_HANDED {
                self.hand(HandedSource::Text, Executed::Unread(BEYOND.to_owned()));
                return;
            }
            self.given += 1;
        } else if self.executes.len() - self.before.0 - (self.given - self.before.1) >= MAX_HANDED_FILES
            || self.executes.len() >= MAX_HANDED
        {
            self.not_read("too many files that are executed");
            return;
        }
        self.executes.push(handed);
    }

    /// Reads a part in a language, with everything that it executes.
    pub(crate) fn read_part(&mut self, path: &str, language: Language, text: &str, install: bool) {
        self.read_as(path, language.name(), text, install, |cx| cx.read(language, text));
    }

    /// Reads a part with its own `reader`, which queues the executable texts in it.
    pub(crate) fn read_as(
        &mut self,
        path: &str,
        label: &str,
        text: &str,
        install: bool,
        reader: impl FnOnce(&mut Self) -> PartState,
    ) {
        let part = self.parts.len();
        self.parts.push(Part { path: path.to_owned(), language: label.to_owned(), state: PartState::Parsed });
        let lines = line_starts(text);
        self.place = Place { part, lines, inner: inner_bytes(text), install, ..Place::default() };
        let before = self.unread.take();
        let state = reader(self);
        self.parts[part].state = state;
        while let Some(child) = self.queue.pop_front() {
            let Child { language, text, place, chain, depth } = child;
            self.place = Place { part, fixed: Some(place), chain, depth, install, ..Place::default() };
            self.read(language, &text);
        }
        if let Some(why) = &self.unread {
            self.parts[part].state = PartState::Skipped(why.clone());
        }
        self.unread = before.or(self.unread.take());
    }

    fn read(&mut self, language: Language, text: &str) -> PartState {
        (self.reader)(self, language, text)
    }

    /// True for the part itself, and not for a text inside it.
    pub(crate) fn is_outermost(&self) -> bool {
        self.place.depth == 0
    }

    /// Path of the part that is being read.
    pub(crate) fn path(&self) -> String {
        self.parts.get(self.place.part).map(|part| part.path.clone()).unwrap_or_default()
    }

    /// Reports a match on the tree.
    pub(crate) fn structural(&mut self, rule: usize, span: (usize, usize)) {
        self.hit(rule, span, &[]);
    }

    /// True within a file of an archive.
    pub(crate) fn is_in_archive(&self) -> bool {
        self.unit > 0
    }

    /// Records that a file is byte code that Python compares with this source before using it.
    pub(crate) fn note_cache(&mut self, path: &str, source: String) {
        if self.unit > 0 {
            self.caches.push((path.to_owned(), source));
        }
    }

    /// Records a part that is not read as a program.
    pub(crate) fn note_part(&mut self, path: &str, language: &str, state: PartState) {
        self.parts.push(Part { path: path.to_owned(), language: language.to_owned(), state });
    }

    /// Reports a fact about the last recorded part as a whole.
    pub(crate) fn part_fact(&mut self, name: &str) {
        let part = self.parts.len().saturating_sub(1);
        self.place = Place { part, fixed: Some((0, 0, 0)), ..Place::default() };
        self.fact(Language::Text, name, (0, 0));
    }
}

fn line_starts(text: &str) -> Vec<u32> {
    let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
    std::iter::once(0).chain(ends.map(|(at, _)| u32::try_from(at + 1).unwrap_or(u32::MAX))).collect()
}

fn inner_bytes(text: &str) -> Vec<u32> {
    if text.is_ascii() {
        return Vec::new();
    }
    let inner = text.bytes().enumerate().filter(|(_, byte)| byte & 0xc0 == 0x80);
    inner.map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX)).collect()
}

/// A warning in a text that had to be decoded first is critical: there is no reason to encode harmless code.
/// Code that only a service runs, on its own machines, is left for a person to review.
pub(crate) fn hardened(pack: &Pack, rule: usize, chain: &[&'static str]) -> Severity {
    let severity = pack.says(rule).0;
    if chain.iter().any(|step| crate::transforms::is_elsewhere(step)) {
        return severity.min(Severity::Warning);
    }
    let decoded = chain.iter().any(|step| crate::transforms::is_disguise(step));
    if decoded && severity == Severity::Warning { Severity::Critical } else { severity }
}
