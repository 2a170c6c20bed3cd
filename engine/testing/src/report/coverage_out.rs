//! Coverage files for other programs: LCOV's text and Cobertura's XML, with the project's own paths. Only
//! whether a line ran is known, so its count is 0 or 1.

use std::fmt::Write as _;
use std::path::Path;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::coverage::{Coverage, FileCoverage};

/// Format of `geninfo(1)`. Files are absolute paths below `project`.
#[must_use]
pub fn lcov(coverage: &Coverage, project: &Path) -> String {
    let mut out = String::new();
    for file in &coverage.files {
        // A name with a line break would become several lines.
        let path = project.join(&file.path).to_string_lossy().replace(['\n', '\r'], "?");
        let _ = writeln!(out, "TN:\nSF:{path}");
        for (line, ran) in &file.counted {
            let _ = writeln!(out, "DA:{line},{}", u8::from(*ran));
        }
        let _ = writeln!(out, "LF:{}\nLH:{}\nend_of_record", file.lines, file.covered);
    }
    out
}

/// Format of <https://github.com/cobertura/cobertura>, version 4: paths relative to `source`, the project's
/// folder. Each folder is a package, each file a class.
///
/// # Errors
/// When the XML writer fails; it writes to memory.
pub fn cobertura(coverage: &Coverage, project: &Path) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let mut packages: std::collections::BTreeMap<&str, Vec<&FileCoverage>> =
        std::collections::BTreeMap::new();
    for file in &coverage.files {
        packages.entry(file.path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default().push(file);
    }
    let (lines, covered) = (coverage.lines.to_string(), coverage.covered.to_string());
    writer
        .create_element("coverage")
        .with_attributes([
            ("line-rate", rate(coverage.covered, coverage.lines).as_str()),
            ("branch-rate", "0"),
            ("lines-covered", covered.as_str()),
            ("lines-valid", lines.as_str()),
            ("branches-covered", "0"),
            ("branches-valid", "0"),
            ("complexity", "0"),
            ("timestamp", "0"),
            ("version", "hotcell"),
        ])
        .write_inner_content(|writer| {
            writer.create_element("sources").write_inner_content(|writer| {
                let source = clean(&project.to_string_lossy());
                writer.create_element("source").write_text_content(BytesText::new(&source))?;
                Ok(())
            })?;
            writer.create_element("packages").write_inner_content(|writer| {
                packages.iter().try_for_each(|(folder, files)| package(writer, folder, files))
            })?;
            Ok(())
        })?;
    Ok(writer.into_inner())
}

fn package(writer: &mut Writer<Vec<u8>>, folder: &str, files: &[&FileCoverage]) -> std::io::Result<()> {
    let sum = |of: fn(&FileCoverage) -> u64| files.iter().map(|file| of(file)).sum::<u64>();
    let all = rate(sum(|file| file.covered), sum(|file| file.lines));
    let name = clean(&if folder.is_empty() { ".".to_owned() } else { folder.replace('/', ".") });
    writer
        .create_element("package")
        .with_attributes([
            ("name", name.as_str()),
            ("line-rate", &all),
            ("branch-rate", "0"),
            ("complexity", "0"),
        ])
        .write_inner_content(|writer| {
            writer
                .create_element("classes")
                .write_inner_content(|writer| files.iter().try_for_each(|file| class(writer, file)))?;
            Ok(())
        })?;
    Ok(())
}

fn class(writer: &mut Writer<Vec<u8>>, file: &FileCoverage) -> std::io::Result<()> {
    let path = clean(&file.path);
    let name = path.rsplit('/').next().unwrap_or(&path);
    let own = rate(file.covered, file.lines);
    writer
        .create_element("class")
        .with_attributes([
            ("name", name),
            ("filename", &path),
            ("line-rate", &own),
            ("branch-rate", "0"),
            ("complexity", "0"),
        ])
        .write_inner_content(|writer| {
            writer.create_element("methods").write_empty()?;
            writer.create_element("lines").write_inner_content(|writer| {
                file.counted.iter().try_for_each(|(line, ran)| {
                    let number = line.to_string();
                    let hits = if *ran { "1" } else { "0" };
                    let line = writer.create_element("line");
                    line.with_attributes([("number", number.as_str()), ("hits", hits), ("branch", "false")])
                        .write_empty()
                        .map(drop)
                })
            })?;
            Ok(())
        })?;
    Ok(())
}

/// A fraction with four decimals, with 1 only for complete coverage.
fn rate(covered: u64, lines: u64) -> String {
    let parts = covered.saturating_mul(10_000).checked_div(lines).unwrap_or(0);
    format!("{}.{:04}", parts / 10_000, parts % 10_000)
}

/// Replaces characters that are invalid in XML.
fn clean(text: &str) -> String {
    let allowed = |c: char| matches!(c, ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if allowed(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::{Form, parse};

    const TEXT: &str = "SF:/home/sandbox/project/pkg/a.py\nDA:1,3\nDA:2,0\nDA:9,1\nend_of_record\nSF:b.py\nDA:4,0\nend_of_record\n";

    #[test]
    fn coverage_export_uses_project_paths() {
        let coverage = parse(&Form::Lcov, TEXT.as_bytes()).unwrap();
        let text = lcov(&coverage, Path::new("/src/my shop"));
        assert_eq!(
            text,
            "TN:\nSF:/src/my shop/b.py\nDA:4,0\nLF:1\nLH:0\nend_of_record\nTN:\nSF:/src/my shop/pkg/a.py\nDA:1,1\nDA:2,0\nDA:9,1\nLF:3\nLH:2\nend_of_record\n"
        );
        // The output can be parsed again with the same result.
        let again =
            parse(&Form::Lcov, text.replace("/src/my shop", "/home/sandbox/project").as_bytes()).unwrap();
        assert_eq!(again, coverage);
        let xml = String::from_utf8(cobertura(&coverage, Path::new("/src/a&b")).unwrap()).unwrap();
        for part in [
            "line-rate=\"0.5000\"",
            "<source>/src/a&amp;b</source>",
            "<package name=\"pkg\" line-rate=\"0.6666\"",
            "<package name=\".\" line-rate=\"0.0000\"",
            "filename=\"pkg/a.py\"",
            "<line number=\"9\" hits=\"1\" branch=\"false\"/>",
        ] {
            assert!(xml.contains(part), "no {part} in {xml}");
        }
    }

    #[test]
    fn coverage_file_names_are_escaped() {
        let file = FileCoverage {
            path: "a\nDA:1,1\n<x>\u{1}".to_owned(),
            lines_percent: 100.0,
            lines: 1,
            covered: 1,
            missing: Vec::new(),
            counted: vec![(1, true)],
        };
        let coverage = Coverage { lines_percent: Some(100.0), lines: 1, covered: 1, files: vec![file] };
        assert_eq!(lcov(&coverage, Path::new("/p")).matches("\nDA:").count(), 1);
        let xml = String::from_utf8(cobertura(&coverage, Path::new("/p")).unwrap()).unwrap();
        assert!(!xml.contains("<x>") && !xml.contains('\u{1}'), "{xml}");
    }
}
