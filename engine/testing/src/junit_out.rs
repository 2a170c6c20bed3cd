//! A report as JUnit XML, for the programs that read it everywhere. <https://llg.cubic.org/docs/junit/>

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::case::{Case, Status};
use crate::report::TestReport;

/// The report as one XML document. What XML cannot hold is written as `?`.
///
/// # Errors
/// None but of the writer, which writes to memory.
pub fn junit(report: &TestReport) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let totals = &report.totals;
    let numbers = [
        ("tests", report.cases.len().to_string()),
        ("failures", totals.failed.to_string()),
        ("errors", (totals.errored + totals.not_finished).to_string()),
        ("skipped", totals.skipped.to_string()),
        ("time", seconds(totals.duration_ms)),
    ];
    let attributes = || numbers.iter().map(|(name, value)| (*name, value.as_str()));
    writer.create_element("testsuites").with_attributes(attributes()).write_inner_content(|writer| {
        let suite = writer.create_element("testsuite");
        suite
            .with_attribute(("name", report.framework.as_str()))
            .with_attributes(attributes())
            .write_inner_content(|writer| {
                report.cases.iter().try_for_each(|case| write_case(writer, case))
            })?;
        Ok(())
    })?;
    Ok(writer.into_inner())
}

fn write_case(writer: &mut Writer<Vec<u8>>, case: &Case) -> std::io::Result<()> {
    let (id, file) = (clean(&case.id), case.file.as_deref().map(clean));
    let line = case.line.map(|line| line.to_string());
    let time = seconds(case.duration_ms);
    let mut element = writer
        .create_element("testcase")
        .with_attribute(("classname", class_of(&id, &case.name).as_str()))
        .with_attribute(("name", clean(&case.name).as_str()))
        .with_attribute(("time", time.as_str()));
    if let Some(file) = &file {
        element = element.with_attribute(("file", file.as_str()));
    }
    if let Some(line) = &line {
        element = element.with_attribute(("line", line.as_str()));
    }
    element.write_inner_content(|writer| {
        let what = match case.status {
            Status::Passed => None,
            Status::Skipped => Some("skipped"),
            Status::Failed => Some("failure"),
            Status::Errored | Status::NotFinished => Some("error"),
        };
        if let Some(what) = what {
            let not_finished = (case.status == Status::NotFinished).then_some("not finished");
            let message = clean(case.message.as_deref().or(not_finished).unwrap_or_default());
            let element = writer.create_element(what).with_attribute(("message", message.as_str()));
            match &case.details {
                Some(details) => element.write_text_content(BytesText::new(&clean(details)))?,
                None => element.write_empty()?,
            };
        }
        for (name, text) in [("system-out", &case.stdout), ("system-err", &case.stderr)] {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                writer.create_element(name).write_text_content(BytesText::new(&clean(text)))?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// What stands before the name in an id, dotted.
fn class_of(id: &str, name: &str) -> String {
    let class = id.strip_suffix(name).unwrap_or_default().trim_end_matches([':', '.', '/']);
    class.trim_end_matches(".py").replace("::", ".").replace('/', ".")
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Without the characters that no XML document may hold.
fn clean(text: &str) -> String {
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if allowed(c) { c } else { '?' }).collect()
}
