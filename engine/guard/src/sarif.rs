//! Converts a report to SARIF 2.1.0 (OASIS, errata 01), for code hosts and editors.
//!
//! A place in an archive or a notebook cell is given as the containing file, without a line, since other
//! tools cannot open it. The part's own name and line are in the logical location.

use crate::report::{Finding, Frame, Report, Severity, Verdict};
use crate::rules::Pack;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// Rule id for parts that were not read.
const UNREAD: &str = "guard.unread";
/// Name of the first and only taxonomy, which contains the weaknesses.
const CWE: &str = "CWE";

/// Properties of a rule, from the pack or, for the engine's own findings, from the finding.
struct Says<'a> {
    severity: Severity,
    message: &'a str,
    what: &'a str,
    cwe: Option<&'a str>,
}

/// The report as a SARIF log. Paths are unchanged, so for a code host they have to be relative to the
/// repository's root. Rules without findings are left out. Results of a released artifact are suppressed.
#[must_use]
pub fn sarif(report: &Report, pack: &Pack) -> Value {
    let rules = rules(report, pack);
    let index: BTreeMap<&str, usize> = rules.keys().enumerate().map(|(at, id)| (*id, at)).collect();
    let weaknesses: BTreeSet<&str> = rules.values().filter_map(|says| says.cwe).collect();
    let weaknesses: Vec<&str> = weaknesses.into_iter().collect();
    let files: BTreeSet<&str> = report.coverage.parts.iter().map(|part| file(&part.path).0).collect();
    let unread: Vec<Value> = report.coverage.parts.iter().filter_map(notification).collect();
    let mut seen = BTreeMap::new();
    let results: Vec<Value> = report.findings.iter().map(|f| result(report, f, &index, &mut seen)).collect();
    let mut driver = json!({
        "name": "hotcell",
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules.iter().map(|(id, says)| rule(id, says, &weaknesses)).collect::<Vec<_>>(),
        "notifications": [{
            "id": UNREAD,
            "shortDescription": { "text": "Something that could be executed was not read." },
        }],
    });
    let mut run = json!({
        "results": results,
        "columnKind": "unicodeCodePoints",
        "artifacts": files.iter().map(|name| json!({ "location": { "uri": uri(name) } })).collect::<Vec<_>>(),
        "invocations": [{
            "executionSuccessful": unread.is_empty(),
            "toolExecutionNotifications": unread,
        }],
        "properties": { "verdict": report.verdict, "sha256": report.artifact.sha256, "rules": pack.digest },
    });
    if !weaknesses.is_empty() {
        driver["supportedTaxonomies"] = json!([{ "name": CWE, "index": 0 }]);
        run["taxonomies"] = json!([{
            "name": CWE,
            "organization": "MITRE",
            "informationUri": "https://cwe.mitre.org/",
            "shortDescription": { "text": "The MITRE Common Weakness Enumeration" },
            "taxa": weaknesses.iter().map(|id| json!({ "id": id, "helpUri": help(id) })).collect::<Vec<_>>(),
        }]);
    }
    run["tool"] = json!({ "driver": driver });
    json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] })
}

/// Rules with findings, by id.
fn rules<'a>(report: &'a Report, pack: &'a Pack) -> BTreeMap<&'a str, Says<'a>> {
    let mut rules = BTreeMap::new();
    for finding in &report.findings {
        rules.entry(finding.rule.as_str()).or_insert_with(|| Says {
            severity: finding.severity,
            message: &finding.message,
            what: &finding.capability,
            cwe: finding.cwe.as_deref(),
        });
    }
    for (at, rule) in pack.rules.iter().enumerate() {
        if let Some(says) = rules.get_mut(rule.id.as_str()) {
            let (severity, what) = pack.says(at);
            *says = Says { severity, message: rule.message.trim(), what, cwe: rule.metadata.cwe.as_deref() };
        }
    }
    rules
}

fn rule(id: &str, says: &Says<'_>, weaknesses: &[&str]) -> Value {
    let mut tags = vec!["security".to_owned()];
    let mut rule = json!({
        "id": id,
        "shortDescription": { "text": says.message },
        "defaultConfiguration": { "level": level(says.severity) },
    });
    if let Some(cwe) = says.cwe {
        tags.push(format!("external/cwe/{}", cwe.to_ascii_lowercase()));
        rule["helpUri"] = json!(help(cwe));
        rule["relationships"] = json!([{
            "target": {
                "id": cwe,
                "index": weaknesses.binary_search(&cwe).unwrap_or_default(),
                "toolComponent": { "name": CWE, "index": 0 },
            },
            "kinds": ["superset"],
        }]);
    }
    // Code hosts sort by this number, on a scale to ten.
    let number = match says.severity {
        Severity::Critical => "9.0",
        Severity::Warning => "5.0",
        Severity::Note => "1.0",
    };
    rule["properties"] = json!({ "tags": tags, "security-severity": number, "capability": says.what });
    rule
}

fn result(
    report: &Report,
    finding: &Finding,
    index: &BTreeMap<&str, usize>,
    seen: &mut BTreeMap<String, u32>,
) -> Value {
    let mut message = finding.message.clone();
    if !finding.derived_from.is_empty() {
        message.push_str(" Seen through ");
        message.push_str(&finding.derived_from.join(" > "));
        message.push('.');
    }
    let mut result = json!({
        "ruleId": finding.rule,
        "ruleIndex": index.get(finding.rule.as_str()),
        "level": level(finding.severity),
        "message": { "text": message },
        "locations": [location(&finding.part, finding)],
        "partialFingerprints": { "hotcellPlace/v1": fingerprint(finding, seen) },
    });
    if !finding.derived_from.is_empty() {
        result["properties"] = json!({ "derivedFrom": finding.derived_from });
    }
    if !finding.frames.is_empty() && !file(&finding.part).1 {
        let steps: Vec<Value> = finding.frames.iter().map(|frame| step(&finding.part, frame)).collect();
        result["codeFlows"] = json!([{ "threadFlows": [{ "locations": steps }] }]);
    }
    if let Some(held) = report.quarantine.as_ref().filter(|held| held.state == "released") {
        result["suppressions"] = json!([{
            "kind": "external",
            "status": "accepted",
            "justification": format!("A person released it from quarantine: {}", held.id),
        }]);
    }
    result
}

/// Step of a value's way, as a location of a thread flow.
fn step(part: &str, frame: &Frame) -> Value {
    let part = frame.part.as_deref().unwrap_or(part);
    let said = format!("{} {}", frame.step.name(), frame.name);
    json!({
        "location": {
            "physicalLocation": {
                "artifactLocation": { "uri": uri(file(part).0) },
                "region": { "startLine": frame.line, "startColumn": frame.column },
            },
            "message": { "text": said.trim_end() },
        },
    })
}

/// Fingerprint of a match that survives added lines above it: rule, part, transforms, and an index among
/// equal matches.
fn fingerprint(finding: &Finding, seen: &mut BTreeMap<String, u32>) -> String {
    let mut hash = Sha256::new();
    for word in [&finding.rule, &finding.part].into_iter().chain(&finding.derived_from) {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    let place = hex::encode(&hash.finalize()[..16]);
    let count = seen.entry(place.clone()).or_default();
    *count += 1;
    format!("{place}:{count}")
}

fn location(part: &str, finding: &Finding) -> Value {
    let (file, inside) = file(part);
    let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
    if inside {
        let line = if finding.line > 0 { format!(":{}", finding.line) } else { String::new() };
        let logical = json!([{ "fullyQualifiedName": format!("{part}{line}") }]);
        return json!({ "physicalLocation": physical, "logicalLocations": logical });
    }
    if finding.line > 0 {
        let end = finding.end_line.max(finding.line);
        let mut region = json!({ "startLine": finding.line, "endLine": end });
        if finding.column > 0 {
            region["startColumn"] = json!(finding.column);
        }
        physical["region"] = region;
    }
    json!({ "physicalLocation": physical })
}

/// Notification that a part was not read, if it was not.
fn notification(part: &crate::report::Part) -> Option<Value> {
    let why = part.why_not_read()?;
    Some(json!({
        "level": if part.state.least() >= Verdict::Incomplete { "error" } else { "warning" },
        "descriptor": { "id": UNREAD, "index": 0 },
        "message": { "text": format!("{} was not read: {why}", part.path) },
        "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri(file(&part.path).0) } } }],
    }))
}

/// Containing file of a part, and true when the part is only a piece of it.
fn file(part: &str) -> (&str, bool) {
    part.split_once('!').map_or((part, false), |(file, _)| (file, true))
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn help(cwe: &str) -> String {
    format!("https://cwe.mitre.org/data/definitions/{}.html", cwe.trim_start_matches("CWE-"))
}

/// A path as a URI reference: relative paths stay relative, without a leading `./`.
fn uri(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut out = String::from(if absolute { "file://" } else { "" });
    let path = path.trim_start_matches("./");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Held, Part, Verdict};
    use crate::{Artifact, Limits, PackError, PartState, scan, unread};

    fn log(name: &str, text: &str) -> Result<(Report, Value), PackError> {
        let pack = Pack::builtin()?;
        let report = scan(&pack, &Limits::default(), &Artifact::new(name, text));
        let log = sarif(&report, &pack);
        Ok((report, log))
    }

    #[test]
    fn sarif_result_has_rule_cwe_and_region() -> Result<(), PackError> {
        let (_, log) = log("src/a b.py", "\nimport os\n'ä'; os.system('rm -rf /home')\nos.system('id')\n")?;
        let run = &log["runs"][0];
        let number =
            |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let results = run["results"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(results.len() > 2, "{log:#}");
        for result in results {
            let rule = &run["tool"]["driver"]["rules"][number(&result["ruleIndex"])];
            assert_eq!(rule["id"], result["ruleId"]);
            let weakness = &rule["relationships"][0]["target"];
            let taxon = &run["taxonomies"][0]["taxa"][number(&weakness["index"])];
            assert_eq!(taxon["id"], weakness["id"]);
        }
        let first = &results[0];
        assert_eq!((&first["ruleId"], &first["level"]), (&json!("sh.delete.root"), &json!("error")));
        let place = &first["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "src/a%20b.py");
        assert_eq!(place["region"], json!({ "startLine": 3, "startColumn": 6, "endLine": 3 }), "characters");
        assert_eq!(run["invocations"][0]["executionSuccessful"], true);
        assert!(first.get("suppressions").is_none());
        Ok(())
    }

    #[test]
    fn sarif_fingerprint_survives_moved_lines() -> Result<(), PackError> {
        let prints = |log: &Value| -> Vec<String> {
            let results = log["runs"][0]["results"].as_array().cloned().unwrap_or_default();
            results.iter().map(|r| r["partialFingerprints"].to_string()).collect()
        };
        let text = "import os\nos.system('id')\nos.system('id')\n";
        let (before, after) =
            (prints(&log("a.py", text)?.1), prints(&log("a.py", &format!("\n\n{text}"))?.1));
        assert_eq!(before, after);
        assert_ne!(before, prints(&log("b.py", text)?.1));
        let different: BTreeSet<&String> = before.iter().collect();
        assert_eq!(different.len(), before.len());
        Ok(())
    }

    #[test]
    fn sarif_reports_unread_parts_and_releases() -> Result<(), PackError> {
        let pack = Pack::builtin()?;
        let unread = unread("x.so", PartState::BytesOnly, Verdict::Incomplete);
        let invocation = &sarif(&unread, &pack)["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
        assert_eq!(invocation["toolExecutionNotifications"][0]["descriptor"]["id"], UNREAD);
        for (state, suppressed) in [("held", false), ("rejected", false), ("released", true)] {
            let (mut report, _) = log("a.py", "import os\nos.system('id')\n")?;
            report.quarantine = Some(Held { id: "q1".to_owned(), state: state.to_owned() });
            let result = sarif(&report, &pack)["runs"][0]["results"][0].clone();
            assert_eq!(result.get("suppressions").is_some(), suppressed, "{state}");
        }
        Ok(())
    }

    #[test]
    fn sarif_names_file_of_nested_part() -> Result<(), PackError> {
        let (mut report, _) = log("a.py", "import os\nos.system('id')\n")?;
        for finding in &mut report.findings {
            finding.part = "d/a.zip!x/a.py".to_owned();
        }
        let part = Part { path: "d/a.zip!x/a.py".to_owned(), ..report.coverage.parts[0].clone() };
        report.coverage.parts = vec![part.clone(), part];
        let run = sarif(&report, &Pack::builtin()?)["runs"][0].clone();
        assert_eq!(run["artifacts"], json!([{ "location": { "uri": "d/a.zip" } }]));
        let place = &run["results"][0]["locations"][0];
        assert_eq!(place["physicalLocation"], json!({ "artifactLocation": { "uri": "d/a.zip" } }));
        assert_eq!(place["logicalLocations"][0]["fullyQualifiedName"], "d/a.zip!x/a.py:2");
        Ok(())
    }

    #[test]
    fn paths_become_references() {
        for (path, reference) in [
            ("./a.py", "a.py"),
            ("/a/b.py", "file:///a/b.py"),
            ("a b#%?\u{202e}.py", "a%20b%23%25%3F%E2%80%AE.py"),
            ("c:x", "c%3Ax"),
        ] {
            assert_eq!(uri(path), reference);
        }
    }
}
