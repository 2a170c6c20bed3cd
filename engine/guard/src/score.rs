//! Turns facts into findings and a verdict. The only place that decides.

use crate::report::{Finding, Severity, Verdict};
use crate::rules::Pack;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

use crate::context::{Cx, hardened};
use crate::report::counts;

/// Minimum number of different kinds of warnings in one file that are dangerous together.
pub(crate) const MIN_WARNING_KINDS: usize = 4;

/// Kinds of warnings of one file.
#[derive(Default)]
struct Kinds<'p> {
    plain: FxHashSet<&'p str>,
    /// Those that hide something, such as a name that is assembled from pieces.
    hidden: FxHashSet<&'p str>,
}

impl Kinds<'_> {
    fn are_dangerous_together(&self) -> bool {
        self.plain.len() >= MIN_WARNING_KINDS || !self.hidden.is_empty() && !self.plain.is_empty()
    }
}

/// Findings, strictest first, and the verdict: that of the worst file.
pub(crate) fn decide(cx: &Cx<'_>) -> (Verdict, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut files: FxHashMap<usize, Kinds<'_>> = FxHashMap::default();
    let mut worst = Severity::Note;
    for fact in &cx.facts {
        let rule = &cx.pack.rules[fact.rule];
        let severity = hardened(cx.pack, fact.rule, &fact.chain);
        worst = worst.max(severity);
        if counts(severity) {
            let kinds = files.entry(fact.unit).or_default();
            if rule.metadata.obfuscation { &mut kinds.hidden } else { &mut kinds.plain }
                .insert(kind(cx.pack, fact.rule));
        }
        findings.push(Finding {
            frames: fact.frames.clone(),
            ..finding(cx, fact.rule, fact.part, fact.place, &fact.chain, severity)
        });
    }
    // Files in order, so that a report is always the same.
    let units: BTreeSet<usize> = cx.facts.iter().map(|fact| fact.unit).collect();
    for (rule, parts) in &cx.pack.combinations {
        for unit in &units {
            let first = |name: &String| cx.seen.get(&(*unit, name.as_str())).copied();
            let places: Option<Vec<usize>> = parts.iter().map(|any| any.iter().find_map(first)).collect();
            let Some(fact) = places.and_then(|places| places.last().map(|at| &cx.facts[*at])) else {
                continue;
            };
            let severity: Severity = cx.pack.says(*rule).0;
            worst = worst.max(severity);
            if counts(severity) {
                files.entry(*unit).or_default().plain.insert(kind(cx.pack, *rule));
            }
            findings.push(finding(cx, *rule, fact.part, fact.place, &fact.chain, severity));
        }
    }
    // Notes about the operator's feeds: they count nowhere above.
    findings.extend(cx.known.notes.iter().cloned());
    findings.sort_by(|a, b| {
        b.severity.cmp(&a.severity).then((&a.part, a.line, a.column).cmp(&(&b.part, b.line, b.column)))
    });
    findings.truncate(cx.limits.findings);
    let together = files.values().any(Kinds::are_dangerous_together);
    let found = if worst == Severity::Critical || together {
        Verdict::Quarantine
    } else if worst == Severity::Warning {
        Verdict::Review
    } else {
        Verdict::Allow
    };
    let unread = if cx.unread.is_some() { Verdict::Incomplete } else { Verdict::Allow };
    let verdict = cx.parts.iter().map(|part| part.state.least()).fold(found.max(unread), Verdict::max);
    (verdict, findings)
}

/// `persistence`, `credentials`: the capability or threat up to its first dot, so that two rules for one
/// subject count once.
fn kind(pack: &Pack, rule: usize) -> &str {
    pack.says(rule).1.split('.').next().unwrap_or("")
}

fn finding(
    cx: &Cx<'_>,
    rule: usize,
    part: usize,
    place: (u32, u32, u32),
    chain: &[&'static str],
    severity: Severity,
) -> Finding {
    let says = &cx.pack.rules[rule];
    Finding {
        rule: says.id.clone(),
        severity,
        capability: cx.pack.says(rule).1.to_owned(),
        part: cx.parts.get(part).map(|p| p.path.clone()).unwrap_or_default(),
        line: place.0,
        column: place.1,
        end_line: place.2,
        cwe: says.metadata.cwe.clone(),
        message: says.message.trim().to_owned(),
        derived_from: chain.iter().map(|step| (*step).to_owned()).collect(),
        frames: Vec::new(),
    }
}
