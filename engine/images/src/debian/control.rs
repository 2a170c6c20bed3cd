//! Parses Debian control files: paragraphs of `Field: value`, continued by lines that begin with a blank. See
//! `deb-control(5)` and `deb822(5)`.

/// A paragraph: fields in order, names as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paragraph(Vec<(String, String)>);

impl Paragraph {
    /// Value of a field, whose name is matched without regard to case. Continuation lines are separated by
    /// newlines.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Words of a field; empty when the field is absent.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).unwrap_or_default().split_ascii_whitespace()
    }
}

/// Parses paragraphs; comment lines are ignored.
///
/// # Errors
/// The number of the first line, counted from 1, that is neither a field nor the continuation of one.
pub fn paragraphs(text: &str) -> Result<Vec<Paragraph>, usize> {
    let mut all = vec![Paragraph::default()];
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let present = all.last_mut().ok_or(number + 1)?;
        if line.trim().is_empty() {
            if !present.0.is_empty() {
                all.push(Paragraph::default());
            }
        } else if line.starts_with([' ', '\t']) {
            let (_, value) = present.0.last_mut().ok_or(number + 1)?;
            value.push('\n');
            value.push_str(line.trim());
        } else {
            let (name, value) = line.split_once(':').ok_or(number + 1)?;
            let good = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
            if !good || present.get(name).is_some() {
                return Err(number + 1);
            }
            present.0.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    all.retain(|paragraph| !paragraph.0.is_empty());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paragraphs_fields_and_continued_lines() {
        let text = "# a comment\nPackage: dash\nDescription: short\n long\n# between\n .\n\tmore\n\n\n  \nPackage: b\nEmpty:\n";
        let read = paragraphs(text).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].get("package"), Some("dash"));
        assert_eq!(read[0].get("Description"), Some("short\nlong\n.\nmore"));
        assert_eq!(read[0].words("description").count(), 4);
        assert_eq!((read[1].get("Empty"), read[1].get("None")), (Some(""), None));
        assert_eq!(paragraphs("").unwrap(), []);
    }

    #[test]
    fn invalid_control_line_is_numbered() {
        for (text, line) in [
            ("x", 1),
            ("A: b\nno", 2),
            (" first", 1),
            ("A: b\n\n x", 3),
            ("A: b\na: c", 2),
            (": x", 1),
            ("a b: c", 1),
        ] {
            assert_eq!(paragraphs(text), Err(line), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_control_text_causes_no_panic(text in "[ -~\n\t#:]{0,200}") {
            drop(paragraphs(&text));
        }
    }
}
