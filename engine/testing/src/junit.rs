//! Reads JUnit XML as written by test frameworks. The file is hostile: no document type, no entities except
//! XML's own, and everything is limited.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::case::{
    MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_TEXT_BYTES, ReportError, Status,
};
use crate::text::{Budget, clip};

/// Maximum nesting of elements. Real reports need five levels.
const MAX_XML_DEPTH: usize = 16;
/// Maximum number of attributes read per element.
const MAX_ATTRIBUTES: usize = 64;

/// One `testcase`.
#[derive(Clone, Debug, PartialEq)]
pub struct TestCase {
    /// Attribute `classname`.
    pub classname: String,
    /// Attribute `name`.
    pub name: String,
    /// Attribute `file`.
    pub file: Option<String>,
    /// Attribute `line`, unchanged.
    pub line: Option<u32>,
    /// Attribute `time`, in milliseconds.
    pub duration_ms: f64,
    /// Worst of its `failure`, `error` and `skipped`.
    pub status: Status,
    /// `message` of that element.
    pub message: Option<String>,
    /// Text of that element.
    pub details: Option<String>,
    /// `system-out`.
    pub stdout: Option<String>,
    /// `system-err`.
    pub stderr: Option<String>,
}

/// Target of the next text.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Details,
    Stdout,
    Stderr,
}

/// Reads a whole document.
///
/// # Errors
/// [`ReportError::Broken`] when it is not a complete JUnit document within the limits.
pub fn parse(bytes: &[u8]) -> Result<Vec<TestCase>, ReportError> {
    let broken = |why: String| ReportError::Broken(why);
    let text =
        std::str::from_utf8(bytes).map_err(|e| broken(format!("not UTF-8 at byte {}", e.valid_up_to())))?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut read = Read::default();
    loop {
        let at = reader.buffer_position();
        match reader
            .read_event()
            .map_err(|e| broken(format!("{} at byte {at}", clip(&e.to_string(), 200))))?
        {
            Event::Eof => break,
            Event::DocType(_) => return Err(broken("it has a document type".to_owned())),
            Event::Start(tag) => read.open(&tag)?,
            Event::Empty(tag) => {
                read.open(&tag)?;
                read.close();
            }
            Event::End(_) => read.close(),
            Event::Text(t) => read.text(&t)?,
            Event::CData(t) => read.text(&t)?,
            Event::GeneralRef(entity) => {
                let character = resolve(&entity)?;
                read.text(character.encode_utf8(&mut [0; 4]))?;
            }
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
        }
    }
    if read.depth > 0 || !read.ended {
        return Err(broken("it ends before its last element does".to_owned()));
    }
    Ok(read.cases)
}

/// Character of a reference: one of XML's five, or one by number.
fn resolve(entity: &BytesRef<'_>) -> Result<char, ReportError> {
    let unknown = || ReportError::Broken("it has an entity of its own".to_owned());
    if let Some(character) = entity.resolve_char_ref().map_err(|_| unknown())? {
        return Ok(character);
    }
    let name: &str = entity;
    resolve_xml_entity(name).and_then(|text| text.chars().next()).ok_or_else(unknown)
}

/// Two texts in one, within the limit of one.
pub(crate) fn both(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) if first != second => {
            Some(clip(&format!("{first}\n\n{second}"), MAX_DETAIL_BYTES))
        }
        (first, second) => first.or(second),
    }
}

struct Read {
    cases: Vec<TestCase>,
    depth: usize,
    ended: bool,
    /// Depth of the open `testcase`.
    case: Option<usize>,
    /// Target of the text, the depth of its element, and the text so far.
    place: Option<(Place, usize, Tail)>,
    room: Budget,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            cases: Vec::new(),
            depth: 0,
            ended: false,
            case: None,
            place: None,
            room: Budget::new(MAX_TEXT_BYTES),
        }
    }
}

impl Read {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), ReportError> {
        let broken = |why: &str| Err(ReportError::Broken(why.to_owned()));
        let name = tag.local_name();
        if self.ended {
            return broken("something follows its last element");
        }
        if self.depth >= MAX_XML_DEPTH {
            return broken("its elements are too deep");
        }
        if self.depth == 0 && !matches!(name.as_ref(), "testsuites" | "testsuite") {
            return broken("it is not a JUnit report");
        }
        self.depth += 1;
        match (name.as_ref(), self.case) {
            ("testcase", None) => {
                if self.cases.len() >= MAX_CASES {
                    return broken("it has more cases than are read");
                }
                let case = self.case_of(tag)?;
                self.cases.push(case);
                self.case = Some(self.depth);
            }
            ("testcase", Some(_)) => return broken("a test lies in a test"),
            (kind @ ("failure" | "error" | "skipped"), Some(at)) if at + 1 == self.depth => {
                let status = match kind {
                    "failure" => Status::Failed,
                    "error" => Status::Errored,
                    _ => Status::Skipped,
                };
                let message =
                    attributes(tag)?.into_iter().find(|(name, _)| name == "message").map(|(_, value)| value);
                let Some(case) = self.cases.last_mut() else { return Ok(()) };
                let further = !case.status.is_good() && !status.is_good();
                if status > case.status {
                    case.status = status;
                    case.message = message.and_then(|m| self.room.keep(&m, MAX_MESSAGE_BYTES));
                    // Texts of several failures, as of subtests, are all kept.
                    case.details = case.details.take().filter(|_| further);
                    self.place = Some((Place::Details, self.depth, Tail::default()));
                } else if further {
                    self.place = Some((Place::Details, self.depth, Tail::default()));
                }
            }
            ("system-out", Some(at)) if at + 1 == self.depth => {
                self.place = Some((Place::Stdout, self.depth, Tail::default()));
            }
            ("system-err", Some(at)) if at + 1 == self.depth => {
                self.place = Some((Place::Stderr, self.depth, Tail::default()));
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some((place, _, text)) = self.place.take_if(|(_, depth, _)| *depth == self.depth)
            && let Some(case) = self.cases.last_mut()
        {
            let text = self.room.keep(text.finish().trim_matches('\n'), usize::MAX);
            match place {
                Place::Details => case.details = both(case.details.take(), text),
                Place::Stdout => case.stdout = text,
                Place::Stderr => case.stderr = text,
            }
        }
        if self.case == Some(self.depth) {
            self.case = None;
        }
        self.depth = self.depth.saturating_sub(1);
        self.ended = self.depth == 0;
    }

    fn text(&mut self, text: &str) -> Result<(), ReportError> {
        if let Some((_, _, kept)) = &mut self.place {
            kept.push(text);
        } else if self.depth == 0 && !text.trim().is_empty() {
            return Err(ReportError::Broken("there is text outside of its elements".to_owned()));
        }
        Ok(())
    }

    fn case_of(&mut self, tag: &BytesStart<'_>) -> Result<TestCase, ReportError> {
        let mut case = TestCase {
            classname: String::new(),
            name: String::new(),
            file: None,
            line: None,
            duration_ms: 0.0,
            status: Status::Passed,
            message: None,
            details: None,
            stdout: None,
            stderr: None,
        };
        for (name, value) in attributes(tag)? {
            match name.as_str() {
                "classname" => case.classname = clip(&value, MAX_NAME_BYTES),
                "name" => case.name = clip(&value, MAX_NAME_BYTES),
                "file" => case.file = Some(clip(&value, MAX_NAME_BYTES)),
                "line" => case.line = value.parse().ok(),
                // Google Test's word for a disabled test.
                "status" if value == "notrun" => case.status = Status::Skipped,
                "time" => case.duration_ms = seconds(&value).unwrap_or(0.0) * 1000.0,
                _ => {}
            }
        }
        let names = case.classname.len() + case.name.len() + case.file.as_ref().map_or(0, String::len);
        if !self.room.take(names) {
            return Err(ReportError::Broken("its names are too long".to_owned()));
        }
        Ok(case)
    }
}

/// A duration. Maven's surefire writes those from 1000 s on as `1,234.5`.
fn seconds(text: &str) -> Option<f64> {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let grouped = whole.split(',').skip(1).all(|group| group.len() == 3);
    let text = if grouped { whole.replace(',', "") + rest } else { text.to_owned() };
    text.parse().ok().filter(|seconds| (0.0..1e9).contains(seconds))
}

/// Attributes of an element, with references resolved.
fn attributes(tag: &BytesStart<'_>) -> Result<Vec<(String, String)>, ReportError> {
    let broken = |why: &str| ReportError::Broken(format!("an attribute {why}"));
    let mut all = Vec::new();
    // Finding repeated names compares each with each, so the number is limited.
    for attribute in tag.attributes().with_checks(false) {
        if all.len() >= MAX_ATTRIBUTES {
            return Err(broken("list is too long"));
        }
        let attribute = attribute.map_err(|_| broken("is not well formed"))?;
        let name = attribute.key.as_ref().to_owned();
        let value = unescape(&attribute.value).ok_or_else(|| broken("has an entity of its own"))?;
        if all.iter().any(|(known, _)| *known == name) {
            return Err(broken("comes twice"));
        }
        all.push((name, value));
    }
    Ok(all)
}

/// A value with references resolved.
fn unescape(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len().min(MAX_NAME_BYTES));
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let end = rest[at..].char_indices().take(12).find(|(_, c)| *c == ';')?.0 + at;
        let entity = &rest[at + 1..end];
        let character = match resolve_xml_entity(entity) {
            Some(text) => text.chars().next()?,
            None => BytesRef::new(entity).resolve_char_ref().ok()??,
        };
        out.push(character);
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

/// Text that arrives in pieces, of which head and tail are kept.
#[derive(Default)]
struct Tail {
    head: String,
    tail: String,
    left_out: usize,
}

impl Tail {
    fn push(&mut self, text: &str) {
        let room = (MAX_DETAIL_BYTES / 2).saturating_sub(self.head.len());
        let (head, rest) = if self.tail.is_empty() && self.left_out == 0 {
            text.split_at(text.floor_char_boundary(room))
        } else {
            ("", text)
        };
        self.head.push_str(head);
        self.tail.push_str(rest);
        if self.tail.len() > MAX_DETAIL_BYTES {
            let cut = self.tail.ceil_char_boundary(self.tail.len() - MAX_DETAIL_BYTES / 2);
            self.tail.drain(..cut);
            self.left_out += cut;
        }
    }

    fn finish(self) -> String {
        let Self { mut head, tail, mut left_out } = self;
        let cut = tail.ceil_char_boundary(tail.len().saturating_sub(MAX_DETAIL_BYTES / 2));
        left_out += cut;
        if left_out > 0 {
            head.push_str(&format!("\n… {left_out} bytes left out …\n"));
        }
        head.push_str(&tail[cut..]);
        head
    }
}

#[cfg(test)]
mod tests;
