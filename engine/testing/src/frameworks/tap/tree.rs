//! Nested documents of the Test Anything Protocol, versions 12 to 14, as JavaScript's programs print them. Any
//! line may come from a test itself: what cannot follow those before is kept as a reason for doubt.

use crate::case::{MAX_CASES, MAX_DETAIL_BYTES, MAX_NAME_BYTES, Status};
use crate::text::clip;
use hotcell_sandbox::text::counted;

use super::{Spoken, plan, spoken_by};

/// Maximum size of a title, in bytes.
const MAX_TITLE_BYTES: usize = MAX_NAME_BYTES / 2;
/// Maximum nesting of subtests.
const MAX_SUBTEST_DEPTH: usize = 32;

/// Habits of the program that prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Lines behind four spaces belong to a subtest; otherwise they are output.
    pub nested: bool,
    /// A comment is the name of the test to which the following points belong.
    pub headings: bool,
    /// A directive has no reason and is the end of its line: in ava's titles, which are not escaped, other ones are text.
    pub bare: bool,
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Names of the subtests around it, and its own.
    pub titles: Vec<String>,
    /// File that a hook of hotcell's named before it.
    pub file: Option<String>,
    /// Result; a test that failed as expected is skipped. `Errored` is not a test: a subtest that is wrong as a
    /// whole.
    pub status: Status,
    /// Reason for skipping, or of what is wrong with a subtest.
    pub reason: Option<String>,
    /// Duration in milliseconds, if it was printed.
    pub ms: Option<f64>,
    /// Block of diagnostics, without its indentation.
    pub details: String,
}

/// State at the end of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Why the input as a whole is not complete or contradicts itself.
    pub wrong: Option<String>,
    /// True when a test or a subtest is not good.
    pub bad: bool,
    /// True when it had neither a plan nor a point.
    pub silent: bool,
}

/// Parses line by line. A result is returned once a line follows that does not belong to it.
#[derive(Debug)]
pub struct Tree {
    style: Style,
    /// Open documents, the outermost first; never empty.
    docs: Vec<Document>,
    /// Announced name of the next subtest.
    next: Option<String>,
    heading: Option<String>,
    file: Option<String>,
    pending: Option<Pending>,
    bailed: Option<String>,
    found: usize,
    /// Milliseconds since the result before, set before a line and taken by one with a result without a duration.
    pub passed: Option<f64>,
}

#[derive(Debug, Default)]
struct Document {
    name: String,
    plan: Option<u64>,
    ran: u64,
    /// A plan that comes twice, or a number that is not the next one.
    disorder: bool,
    bad: bool,
    /// The point of this subtest, if it came before its body (`ok 1 - name {`).
    opened: Option<Point>,
}

/// A point, without the borrowed line.
#[derive(Clone, Debug)]
struct Point {
    good: bool,
    name: String,
    expected: bool,
    reason: Option<String>,
    ms: Option<f64>,
}

#[derive(Debug)]
struct Pending {
    indent: usize,
    /// True within a block of diagnostics.
    block: bool,
    /// `None` for a point whose subtests were reported.
    found: Option<Found>,
}

impl Document {
    fn planned(&mut self, count: u64) {
        self.disorder |= self.plan.is_some();
        self.plan = self.plan.or(Some(count));
    }

    /// Why it is not complete.
    fn wrong(&self) -> Option<String> {
        match self.plan {
            None => Some("it has no plan: it ended before all of its tests did".to_owned()),
            Some(plan) if plan != self.ran => {
                let were = if plan == 1 { "was" } else { "were" };
                Some(format!("{} {were} planned, and {} told of their end", counted(plan, "test"), self.ran))
            }
            Some(_) if self.disorder => {
                Some("its plan or its numbers contradict each other: something else printed some".to_owned())
            }
            Some(_) => None,
        }
    }
}

impl Tree {
    /// Parser for a program with these habits.
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self {
            style,
            docs: vec![Document::default()],
            next: None,
            heading: None,
            file: None,
            pending: None,
            bailed: None,
            found: 0,
            passed: None,
        }
    }

    /// Names of what seems to run now.
    #[must_use]
    pub fn running(&self) -> (Option<String>, Vec<String>) {
        let open = self.docs.iter().skip(1).map(|doc| doc.name.clone());
        let next = self.next.clone().or_else(|| self.heading.clone().filter(|_| self.docs.len() == 1));
        (self.file.clone(), open.chain(next).collect())
    }

    /// Takes a line.
    pub fn line(&mut self, line: &str, out: &mut Vec<Found>) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let body = line.trim_start_matches(' ');
        let indent = line.len() - body.len();
        if self.diagnostic(line, body, indent, out) || self.bailed.is_some() {
            return;
        }
        if let Some(why) = body.strip_prefix("Bail out!").filter(|_| self.style.nested || indent == 0) {
            self.bailed = Some(clip(why.trim(), MAX_TITLE_BYTES));
            return;
        }
        let level = match self.style.nested {
            true if indent.is_multiple_of(4) => indent / 4,
            false if indent == 0 => 0,
            _ => return,
        };
        let depth = self.docs.len() - 1;
        if level > depth + 1 || level >= MAX_SUBTEST_DEPTH {
            return;
        }
        if let Some(comment) = body.strip_prefix('#') {
            self.comment(level, comment.trim(), out);
        } else if body.trim_end() == "}" && level + 1 == depth {
            if let Some(point) = self.docs[depth].opened.take() {
                let child = self.docs.pop();
                self.take(level, indent, point, child, out);
            }
        } else if let Some((count, _)) = plan(body) {
            self.open(level);
            self.docs[level].planned(count);
        } else if let Some(point) = spoken_by(body, self.style.bare) {
            self.open(level);
            self.point(level, indent, &point, out);
        }
    }

    /// Handles the end of the input.
    pub fn end(&mut self, out: &mut Vec<Found>) -> Ended {
        self.flush(out);
        let mut open = None;
        while self.docs.len() > 1
            && let Some(doc) = self.docs.pop()
        {
            open = Some(format!("the subtest {} did not come to its end", doc.name));
            self.docs.last_mut().into_iter().for_each(|around| around.bad |= doc.bad);
        }
        let root = self.docs.first().map_or(Ended::default(), |root| Ended {
            // A run with failures is bad already: wrong numbers of its tests change nothing.
            wrong: root.wrong().filter(|_| !root.bad || root.plan != Some(root.ran)),
            bad: root.bad,
            silent: root.ran == 0 && root.plan.is_none() && open.is_none(),
        });
        let bailed = self.bailed.take().map(|why| format!("Bail out! {why}").trim_end().to_owned());
        Ended { wrong: bailed.or(open).or(root.wrong), ..root }
    }

    /// Takes a line that belongs to the point before it.
    fn diagnostic(&mut self, line: &str, body: &str, indent: usize, out: &mut Vec<Found>) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        let within = pending.indent + 2;
        if !pending.block {
            pending.block = body.trim_end() == "---" && indent == within;
            if pending.block {
                return true;
            }
        } else if body.is_empty() || indent >= within {
            if indent == within && body.trim_end() == "..." {
                self.flush(out);
            } else if let Some(found) = pending.found.as_mut().filter(|f| f.details.len() < MAX_DETAIL_BYTES)
            {
                found.details.push_str(line.get(within..).unwrap_or_default());
                found.details.push('\n');
            }
            return true;
        }
        self.flush(out);
        false
    }

    fn flush(&mut self, out: &mut Vec<Found>) {
        out.extend(self.pending.take().and_then(|pending| pending.found).map(|mut found| {
            found.details = dedented(&found.details);
            found
        }));
    }

    fn comment(&mut self, level: usize, text: &str, out: &mut Vec<Found>) {
        if let Some(name) = text.strip_prefix("Subtest").filter(|_| self.style.nested) {
            let name = name.trim_start_matches(':').trim();
            let name = if name.is_empty() { self.unnamed(level) } else { clip(name, MAX_TITLE_BYTES) };
            // It may be the first line of the subtest that was announced before. Before version 14, the name stood
            // within the subtest itself.
            if self.next.is_some() {
                self.open(level);
            }
            self.next = Some(name.replace("\\#", "#"));
            self.open(level);
            return;
        }
        // The counts behind the plan are not names.
        if !self.style.headings || level > 0 || self.docs[0].plan.is_some() {
            return;
        }
        if let Some(file) = text.strip_prefix("@hotcell file ") {
            self.file = Some(clip(file, MAX_TITLE_BYTES));
        } else if let Some(name) = text.strip_prefix("SKIP ") {
            let titles = vec![clip(name, MAX_TITLE_BYTES)];
            self.add(
                Found {
                    titles,
                    file: self.file.clone(),
                    status: Status::Skipped,
                    reason: None,
                    ms: None,
                    details: String::new(),
                },
                out,
            );
        } else {
            self.heading = Some(clip(text.strip_prefix("TODO ").unwrap_or(text), MAX_TITLE_BYTES));
        }
    }

    fn unnamed(&self, level: usize) -> String {
        format!("subtest {}", self.docs.get(level).map_or(0, |doc| doc.ran) + 1)
    }

    /// Opens the document of a level, unless it is open.
    fn open(&mut self, level: usize) {
        if level == self.docs.len() {
            let name = self.next.take().unwrap_or_else(|| self.unnamed(level - 1));
            self.docs.push(Document { name, ..Document::default() });
        }
    }

    fn point(&mut self, level: usize, indent: usize, point: &Spoken<'_>, out: &mut Vec<Found>) {
        let mut child = None;
        while self.docs.len() > level + 1 {
            child = self.docs.pop();
            if self.docs.len() > level + 1
                && let Some(lost) = &child
            {
                let why = "it did not come to its end".to_owned();
                self.trouble(&lost.name, why, out);
            }
        }
        let doc = &mut self.docs[level];
        doc.ran += 1;
        doc.disorder |= !point.number.is_empty() && point.number.parse() != Ok(doc.ran);
        let name = match point.name.is_empty() {
            true => child.as_ref().map_or_else(|| format!("test {}", doc.ran), |child| child.name.clone()),
            false => clip(&point.name.replace("\\#", "#"), MAX_TITLE_BYTES),
        };
        let opens = point.opens && self.style.nested && child.is_none();
        let name = if point.opens && !opens { name + " {" } else { name };
        let point = Point {
            good: point.good,
            name,
            expected: point.directive.is_some(),
            reason: point.reason().map(|reason| clip(reason, MAX_TITLE_BYTES)),
            ms: point.ms,
        };
        self.next = None;
        if opens {
            let name = point.name.clone();
            self.docs.push(Document { name, opened: Some(point), ..Document::default() });
            return;
        }
        self.take(level, indent, point, child, out);
    }

    /// Takes a point, and the subtest that it is about.
    fn take(
        &mut self,
        level: usize,
        indent: usize,
        point: Point,
        child: Option<Document>,
        out: &mut Vec<Found>,
    ) {
        self.flush(out);
        let passed = self.passed.take();
        let failed = !point.good && !point.expected;
        let whole = child.filter(|child| child.ran > 0 || child.plan.is_some_and(|plan| plan > 0));
        let titles = self.titles(&point.name);
        let doc = &mut self.docs[level];
        doc.bad |= failed || whole.as_ref().is_some_and(|child| child.bad);
        let status = match point {
            Point { expected: true, .. } => Status::Skipped,
            Point { good: true, .. } => Status::Passed,
            _ => Status::Failed,
        };
        let mut found = Found {
            titles,
            file: self.file.clone(),
            status,
            reason: point.reason,
            ms: point.ms.or(passed),
            details: String::new(),
        };
        let kept = match whole {
            None => Some(found),
            // Its own tests have told already.
            Some(child) if child.bad => None,
            Some(child) => {
                let wrong = child.wrong();
                (failed || wrong.is_some()).then(|| {
                    doc.bad = true;
                    found.status = Status::Errored;
                    found.reason = Some(wrong.unwrap_or_else(|| {
                        "the subtest failed as a whole, and each of its tests is good".to_owned()
                    }));
                    found
                })
            }
        };
        self.found += usize::from(kept.is_some());
        let found = kept.filter(|_| self.found <= MAX_CASES + 1);
        self.pending = Some(Pending { indent, block: false, found });
    }

    fn trouble(&mut self, name: &str, reason: String, out: &mut Vec<Found>) {
        let titles = self.titles(name);
        self.docs.last_mut().into_iter().for_each(|doc| doc.bad = true);
        let found = Found {
            titles,
            file: self.file.clone(),
            status: Status::Errored,
            reason: Some(reason),
            ms: None,
            details: String::new(),
        };
        self.flush(out);
        self.add(found, out);
    }

    fn add(&mut self, found: Found, out: &mut Vec<Found>) {
        self.found += 1;
        if self.found <= MAX_CASES + 1 {
            out.push(found);
        }
    }

    fn titles(&self, name: &str) -> Vec<String> {
        let open = self.docs.iter().skip(1).map(|doc| doc.name.clone());
        let heading = self.heading.clone().filter(|_| self.docs.len() == 1);
        open.chain(heading).chain([name.to_owned()]).collect()
    }
}

/// Lines without the indentation that they share.
fn dedented(text: &str) -> String {
    let blank = |line: &&str| line.trim().is_empty();
    let depth =
        text.lines().filter(|line| !blank(line)).map(|line| line.len() - line.trim_start().len()).min();
    text.lines().fold(String::with_capacity(text.len()), |mut all, line| {
        all.push_str(line.get(depth.unwrap_or(0)..).unwrap_or_default());
        all.push('\n');
        all
    })
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
