//! Every listed way to hide code, one sample or more each; at most one in twenty may get a verdict below
//! review.

use hotcell_guard::{Artifact, Limits, Pack, Verdict, scan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    id: u32,
    file: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    hex: String,
    /// Number of spaces before the text.
    #[serde(default)]
    pad: usize,
    /// Number of empty lines before it.
    #[serde(default)]
    lines: usize,
    /// A piece to append, and how often.
    #[serde(default)]
    repeat: String,
    #[serde(default)]
    times: usize,
    #[serde(default)]
    at_least: Option<String>,
    #[serde(default)]
    missed: Option<String>,
}

#[test]
fn nearly_every_way_to_hide_is_found() -> Result<(), Box<dyn std::error::Error>> {
    let samples: Vec<Sample> = serde_yaml_ng::from_str(include_str!("data/evasions.yml"))?;
    let pack = Pack::builtin()?;
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for sample in &samples {
        let bytes = if sample.hex.is_empty() {
            format!(
                "{}{}{}{}",
                "\n".repeat(sample.lines),
                "",
                sample.text,
                sample.repeat.repeat(sample.times)
            )
            .into_bytes()
        } else {
            sample
                .hex
                .as_bytes()
                .chunks_exact(2)
                .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect()
        };
        let bytes =
            if sample.pad > 0 { [b"x = 1;".to_vec(), vec![b' '; sample.pad], bytes].concat() } else { bytes };
        let report = scan(&pack, &limits, &Artifact::new(&*sample.file, bytes));
        let wanted = if sample.at_least.as_deref() == Some("incomplete") {
            Verdict::Incomplete
        } else {
            Verdict::Review
        };
        let found = report.verdict >= wanted
            && (report.verdict != Verdict::Incomplete || wanted == Verdict::Incomplete);
        let group = groups.entry(group(sample.id)).or_default();
        group.1 += 1;
        group.0 += usize::from(found);
        if found == sample.missed.is_some() {
            wrong.push(format!(
                "{} {:?} {}: {:?}",
                sample.id,
                report.verdict,
                sample.file,
                sample.text.chars().take(90).collect::<String>()
            ));
        }
    }
    let (found, all) = groups.values().fold((0, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
    println!("{groups:?}\n{found} of {all}");
    assert!(
        wrong.is_empty(),
        "{groups:?}\n{} samples are not as the table says:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(found * 100 >= all * 95, "{found} of {all}");
    Ok(())
}

fn group(id: u32) -> &'static str {
    match id {
        1..=48 => "01-48 python",
        49..=50 => "49-50 notebook",
        51..=66 => "51-66 javascript",
        67..=91 => "67-91 shell",
        92..=100 => "92-100 sql",
        101..=104 => "101-104 rust",
        105 => "105 go",
        106 => "106 c",
        107 => "107 java",
        108 => "108 container",
        109..=112 => "109-112 delivery",
        113..=130 => "113-130 second list",
        131..=140 => "131-140 third list",
        141..=165 => "141-165 fourth list",
        166..=181 => "166-181 fifth list",
        182..=204 => "182-204 sixth list",
        205..=241 => "205-241 seventh list",
        301.. => "301-326 list of Go, shells and Java",
        _ => "242-271 eighth list",
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Neighbour {
    file: String,
    text: String,
}

#[test]
fn honest_neighbours_are_allowed() -> Result<(), Box<dyn std::error::Error>> {
    let neighbours: Vec<Neighbour> = serde_yaml_ng::from_str(include_str!("data/neighbours.yml"))?;
    let pack = Pack::builtin()?;
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    let mut wrong = Vec::new();
    for Neighbour { file, text } in neighbours {
        let report = scan(&pack, &limits, &Artifact::new(&*file, text.as_bytes()));
        if report.verdict != Verdict::Allow {
            let rules: Vec<_> = report.findings.iter().map(|finding| &finding.rule).collect();
            wrong.push(format!("{:?} {rules:?} {file}: {text:?}", report.verdict));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
