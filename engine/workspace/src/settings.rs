//! Parses git's settings as git does. Pure. Used for commits and by the guard. See `git-config(1)`.

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Section in lower case, such as `core`; for the form `[a.b]` the part before the dot.
    pub section: String,
    /// Name in lower case, such as `hookspath`.
    pub name: String,
    /// Value without quotes; `None` for a name alone, which means true.
    pub value: Option<Vec<u8>>,
}

/// Number of the first line that git would reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine(
    /// The line number, counted from 1.
    pub usize,
);

/// All settings of a file, in order.
///
/// # Errors
/// [`BadLine`] with the first line that git would reject.
pub fn settings(text: &[u8]) -> Result<Vec<Setting>, BadLine> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { text, at: 0, line: 1 };
    let all = reader.all();
    all.ok_or(BadLine(reader.line))
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    /// The next byte. LF and CRLF both become a line end, and so does the end of the file.
    fn next(&mut self) -> Option<u8> {
        let mut byte = *self.text.get(self.at)?;
        if byte == b'\r' && self.text.get(self.at + 1) == Some(&b'\n') {
            self.at += 1;
            byte = b'\n';
        }
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    fn all(&mut self) -> Option<Vec<Setting>> {
        let (mut all, mut section, mut comment) = (Vec::new(), String::new(), false);
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => comment = false,
                // Git's own parser stops there, others may not.
                0 => return None,
                _ if comment => {}
                b' ' | b'\t' | b'\r' => {}
                b'#' | b';' => comment = true,
                b'[' => section = self.section()?,
                letter if letter.is_ascii_alphabetic() => all.push(self.setting(&section, letter)?),
                _ => return None,
            }
        }
        Some(all)
    }

    /// After `[`: the section's name up to `]`, or a name and a quoted subsection.
    fn section(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.next()? {
                b']' => break,
                b' ' | b'\t' | b'\r' => {
                    self.subsection()?;
                    break;
                }
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return None,
            }
        }
        Some(name.split('.').next().unwrap_or_default().to_owned())
    }

    fn subsection(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                b' ' | b'\t' | b'\r' => {}
                b'"' => break,
                _ => return None,
            }
        }
        loop {
            match self.next()? {
                b'"' => break,
                b'\n' | 0 => return None,
                b'\\' if matches!(self.next()?, b'\n' | 0) => return None,
                _ => {}
            }
        }
        (self.next()? == b']').then_some(())
    }

    fn setting(&mut self, section: &str, first: u8) -> Option<Setting> {
        let mut name = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = self.next().unwrap_or(b'\n');
        while byte.is_ascii_alphanumeric() || byte == b'-' {
            name.push(char::from(byte.to_ascii_lowercase()));
            byte = self.next().unwrap_or(b'\n');
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next().unwrap_or(b'\n');
        }
        let value = match byte {
            b'\n' => None,
            b'=' => Some(self.value()?),
            _ => return None,
        };
        Some(Setting { section: section.to_owned(), name, value })
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut quoted, mut comment) = (Vec::new(), false, false);
        // Spaces that belong to the value when more of it follows.
        let mut spaces = Vec::new();
        loop {
            let mut byte = match self.next().unwrap_or(b'\n') {
                b'\n' => return (!quoted).then_some(value),
                0 => return None,
                _ if comment => continue,
                byte @ (b' ' | b'\t' | b'\r') if !quoted => {
                    if !value.is_empty() {
                        spaces.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !quoted => {
                    comment = true;
                    continue;
                }
                byte => byte,
            };
            value.append(&mut spaces);
            match byte {
                b'"' => {
                    quoted = !quoted;
                    continue;
                }
                b'\\' => match self.next()? {
                    b'\n' => continue,
                    b't' => byte = b'\t',
                    b'b' => byte = 8,
                    b'n' => byte = b'\n',
                    escaped @ (b'\\' | b'"') => byte = escaped,
                    _ => return None,
                },
                _ => {}
            }
            value.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Vec<(String, String, Option<String>)>> {
        let all = settings(text.as_bytes()).ok()?;
        let text = |value: Vec<u8>| String::from_utf8(value).unwrap();
        Some(all.into_iter().map(|one| (one.section, one.name, one.value.map(text))).collect())
    }

    #[test]
    fn git_setting_spellings_are_read_alike() {
        for text in [
            "[core]\n\thooksPath = a/b\n",
            "[core] hooksPath = a/b",
            "\u{feff}[CORE]HOOKSPATH=a/b # why\n",
            "[core]\r\nhooksPath=a/b\r\n",
            "[core]\nhooksPath = a\\\n/b\n",
            "[core]\nhooksPath = \"a/\"b\n",
            "[core]\nhooksPath = \"a/b\" ; why\n",
            "[core \"x ] y\\\"\"] hooksPath = a/b",
            "[core.x]\nhooksPath = a/b\n",
            "# [user]\n; x\n [core]\n\n hooksPath\t=\ta/b  \n",
        ] {
            assert_eq!(
                read(text).unwrap_or_default(),
                [("core".to_owned(), "hookspath".to_owned(), Some("a/b".to_owned()))],
                "{text:?}"
            );
        }
    }

    #[test]
    fn values_are_as_git_reads_them() {
        for (value, want) in [
            ("a  b ", Some("a  b")),
            ("\" a \"", Some(" a ")),
            ("a\\tb\\n\\\\\\\"", Some("a\tb\n\\\"")),
            ("\"a#;\" # no", Some("a#;")),
            ("", Some("")),
            ("\"open", None),
            ("a\\qb", None),
            ("a\0b", None),
        ] {
            let got = read(&format!("[x]\ny = {value}\n")).map(|all| all[0].2.clone().unwrap());
            assert_eq!(got.as_deref(), want, "{value:?}");
        }
        assert_eq!(read("[x]\ny\n").unwrap()[0].2, None);
        for text in ["[x", "[x\n]", "[x \"y]\n", "[x y]", "=a", "[x]\ny z", "[x_y]", "[x]\n1 = 2"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(settings(b"[a]\nb = c\n!\n"), Err(BadLine(3)));
    }

    proptest! {
        #[test]
        fn quoted_git_setting_round_trips(value in "[ -~\t\n]{0,24}", break_at in 0usize..30, section in "[a-z][a-z0-9-]{0,6}", name in "[a-zA-Z][a-zA-Z0-9-]{0,8}") {
            let mut quoted = String::from("\"");
            for (place, c) in value.chars().enumerate() {
                if place == break_at {
                    quoted.push_str("\\\n");
                }
                match c {
                    '\n' => quoted.push_str("\\n"),
                    '"' | '\\' => quoted.extend(['\\', c]),
                    c => quoted.push(c),
                }
            }
            let text = format!("[{section} \"any\"] {name} = {quoted}\" # no\n");
            prop_assert_eq!(read(&text), Some(vec![(section, name.to_lowercase(), Some(value))]));
        }

        #[test]
        fn arbitrary_settings_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = settings(&bytes);
        }
    }
}
