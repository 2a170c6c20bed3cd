//! Task scripts as written by models and people: almost none of them is refused.

use hotcell_guard::{Artifact, Limits, Pack, Verdict, scan};
use std::path::Path;
use std::time::Duration;

#[test]
fn ordinary_task_scripts_are_not_refused() -> Result<(), Box<dyn std::error::Error>> {
    let pack = Pack::builtin()?;
    let limits = Limits { time: Duration::from_secs(120), ..Limits::default() };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/benign");
    let mut files: Vec<_> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    let (mut refused, mut looked_at) = (Vec::new(), Vec::new());
    for path in &files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let report = scan(&pack, &limits, &Artifact::new(&*name, std::fs::read(path)?));
        let rules: Vec<_> = report.findings.iter().map(|f| f.rule.as_str()).take(5).collect();
        let line = format!("{name}: {:?} {}", report.verdict, rules.join(" "));
        match report.verdict {
            Verdict::Allow => {}
            Verdict::Review => looked_at.push(line),
            Verdict::Quarantine | Verdict::Incomplete => refused.push(line),
        }
    }
    println!("{} scripts, {} refused, {} at review", files.len(), refused.len(), looked_at.len());
    looked_at.iter().for_each(|line| println!("  {line}"));
    assert!(files.len() >= 300, "{} scripts", files.len());
    assert!(refused.len() * 100 <= files.len(), "{}", refused.join("\n"));
    assert!(looked_at.len() * 100 <= files.len() * 15, "{}", looked_at.join("\n"));
    Ok(())
}
