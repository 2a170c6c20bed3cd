//! Python byte code: names and constants from its marshalled tables, as evidence. The instructions, which
//! tell the arguments of each call, are not read, so byte code never counts as fully read.

use crate::report::PartState;
use std::fmt::Write as _;
use std::rc::Rc;

use crate::context::Cx;
use crate::language::Language;

/// Maximum depth of tables; each nested function takes three levels.
const MAX_TABLE_DEPTH: usize = 100;
/// Maximum number of values per file.
const MAX_VALUES: usize = 1_000_000;
/// Maximum size of the text written for the rules, in bytes.
const MAX_SOURCE_BYTES: usize = 256 << 10;
/// Maximum number of texts of one function that are tried as arguments.
const MAX_TEXTS: usize = 24;

/// True for byte code of Python 3.
pub(super) fn is_marked(bytes: &[u8]) -> bool {
    bytes.len() > 16 && bytes[2..4] == *b"\r\n" && (3_000..4_000).contains(&magic(bytes))
        // Older versions, by the form of the number.
        || bytes.len() > 16 && bytes[2..4] == *b"\r\n" && bytes[1] >= 0xf0 && !bytes[0].is_ascii()
}

/// True for byte code of 3.7 or later, whose second word tells how it is checked against its source.
pub(super) fn is_compared_by_flags(bytes: &[u8]) -> bool {
    is_marked(bytes) && (3_390..4_000).contains(&magic(bytes))
}

fn magic(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Reports the contents of a file's tables.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8]) {
    // Since 3.7: four bytes that tell how it is checked against its source.
    if magic(bytes) < 3_390 {
        return;
    }
    // By a digest of the source that the interpreter does not check.
    if bytes[4..8] == [1, 0, 0, 0] {
        cx.part_fact("pyc.unchecked");
    }
    let mut marshal =
        Marshal { bytes, at: 16, magic: magic(bytes), refs: Vec::new(), codes: Vec::new(), left: MAX_VALUES };
    if marshal.value(0).is_none() {
        return;
    }
    let source = source(&marshal.codes);
    cx.read_as(name, "pyc", "", false, |cx| {
        cx.child(Language::Python, &source, (0, 0), &["bytecode"]);
        PartState::BytesOnly
    });
}

/// A value, reduced to the relevant kinds.
#[derive(Clone)]
enum Value {
    Text(Rc<str>),
    Tuple(Rc<[Value]>),
    Other,
}

/// Names and texts of a code object.
struct Code {
    names: Vec<Rc<str>>,
    texts: Vec<Rc<str>>,
}

struct Marshal<'a> {
    bytes: &'a [u8],
    at: usize,
    magic: u16,
    refs: Vec<Value>,
    codes: Vec<Code>,
    left: usize,
}

impl<'a> Marshal<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let out = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(out)
    }

    fn long(&mut self) -> Option<usize> {
        usize::try_from(i32::from_le_bytes(self.take(4)?.try_into().ok()?)).ok()
    }

    /// Parses one value; `None` where the interpreter would fail.
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_TABLE_DEPTH {
            return None;
        }
        let kind = self.take(1)?[0];
        // Shared values get a number before their contents do.
        let place = (kind & 0x80 != 0).then(|| {
            self.refs.push(Value::Other);
            self.refs.len() - 1
        });
        let value = match kind & 0x7f {
            b'N' | b'F' | b'T' | b'S' | b'.' | b'0' => Value::Other,
            b'i' => self.take(4).map(|_| Value::Other)?,
            b'g' | b'I' => self.take(8).map(|_| Value::Other)?,
            b'y' => self.take(16).map(|_| Value::Other)?,
            b'l' => {
                let digits = i32::from_le_bytes(self.take(4)?.try_into().ok()?).unsigned_abs();
                self.take(usize::try_from(digits).ok()?.checked_mul(2)?)?;
                Value::Other
            }
            b'f' | b'x' => {
                for _ in 0..=usize::from(kind & 0x7f == b'x') {
                    let size = usize::from(self.take(1)?[0]);
                    self.take(size)?;
                }
                Value::Other
            }
            b's' | b'u' | b't' | b'a' | b'A' => {
                let size = self.long()?;
                self.text(size)?
            }
            b'z' | b'Z' => {
                let size = usize::from(self.take(1)?[0]);
                self.text(size)?
            }
            b'(' | b'[' | b'<' | b'>' => {
                let count = self.long()?;
                self.tuple(count, depth)?
            }
            b')' => {
                let count = usize::from(self.take(1)?[0]);
                self.tuple(count, depth)?
            }
            b'{' => {
                while !matches!(self.bytes.get(self.at)?, b'0') {
                    self.value(depth + 1)?;
                    self.value(depth + 1)?;
                }
                self.take(1)?;
                Value::Other
            }
            b':' => {
                for _ in 0..3 {
                    self.value(depth + 1)?;
                }
                Value::Other
            }
            b'r' => {
                let at = self.long()?;
                self.refs.get(at)?.clone()
            }
            b'c' => self.code(depth)?,
            _ => return None,
        };
        if let Some(place) = place {
            self.refs[place] = value.clone();
        }
        Some(value)
    }

    fn text(&mut self, size: usize) -> Option<Value> {
        let bytes = self.take(size)?;
        Some(std::str::from_utf8(bytes).map_or(Value::Other, |text| Value::Text(text.into())))
    }

    fn tuple(&mut self, count: usize, depth: usize) -> Option<Value> {
        // Every value takes at least a byte.
        if count > self.bytes.len() - self.at {
            return None;
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Some(Value::Tuple(items.into()))
    }

    /// Parses a code object, whose format changed in 3.8 and 3.11.
    fn code(&mut self, depth: usize) -> Option<Value> {
        let numbers = if (3_400..3_450).contains(&self.magic) { 6 } else { 5 };
        self.take(4 * numbers)?;
        self.value(depth + 1)?;
        let consts = self.value(depth + 1)?;
        let names = self.value(depth + 1)?;
        // Names of variables, the file, its own name; then the number of its first line, and its tables.
        for _ in 0..5 {
            self.value(depth + 1)?;
        }
        self.take(4)?;
        for _ in 0..=usize::from(self.magic >= 3_450) {
            self.value(depth + 1)?;
        }
        self.codes.push(Code { names: texts(&names), texts: texts(&consts) });
        Some(Value::Other)
    }
}

/// Texts in a tuple and in nested tuples: lists of words are constants of this form.
fn texts(value: &Value) -> Vec<Rc<str>> {
    match value {
        Value::Text(text) => vec![text.clone()],
        Value::Tuple(items) => items.iter().flat_map(texts).collect(),
        Value::Other => Vec::new(),
    }
}

/// Writes a source: for each function its names, in order, called with its texts.
fn source(codes: &[Code]) -> String {
    let mut out = String::new();
    let plain = |name: &str| {
        name.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    // Outermost first: its imports are visible to the others.
    for code in codes.iter().rev() {
        let names: Vec<&Rc<str>> = code.names.iter().filter(|name| plain(name)).collect();
        for name in &names {
            let _infallible = writeln!(out, "import {name}");
        }
        // `import os as o` yields both names in sequence, but so do other constructs; a name keeps all its
        // possible meanings.
        for pair in names.windows(2).take(64) {
            let _infallible = writeln!(out, "import {} as {}", pair[0], pair[1]);
        }
        for text in &code.texts {
            let _infallible = writeln!(out, "_ = {}", super::pickle::quoted(text));
        }
        let calls = names.iter().copied().map(ToString::to_string);
        let members = names.windows(2).map(|pair| format!("{}.{}", pair[0], pair[1]));
        let calls: Vec<String> = calls
            .filter(|name| matches!(name.as_str(), "exec" | "eval" | "compile" | "__import__"))
            .chain(members)
            .collect();
        for call in calls {
            let _infallible = writeln!(out, "{call}(unknown)");
            for text in code.texts.iter().filter(|text| text.len() < 4096).take(MAX_TEXTS) {
                let _infallible = writeln!(out, "{call}({})", super::pickle::quoted(text));
            }
        }
        if out.len() > MAX_SOURCE_BYTES {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::{Artifact, Limits, Pack, Verdict, scan};

    /// `import os; os.system(TEXT)` as marshalled by Python 3.11, without its instructions.
    fn code(flags: u8, text: &str) -> Vec<u8> {
        let short = |text: &str| [&[b'z', u8::try_from(text.len()).unwrap_or(0)], text.as_bytes()].concat();
        let name = short("m");
        [
            &[0xa7, 0x0d, 0x0d, 0x0a, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe3][..],
            &[0; 20],
            b"s\0\0\0\0)\x02",
            &short(text),
            b"N)\x02",
            &short("os"),
            &short("system"),
            b")\0s\0\0\0\0",
            &name,
            &name,
            &name,
            b"\x01\0\0\0s\0\0\0\0s\0\0\0\0",
        ]
        .concat()
    }

    #[test]
    fn byte_code_is_evidence_read_within_bounds() -> Result<(), Box<dyn std::error::Error>> {
        let pack = Pack::builtin()?;
        let whole = code(0, "rm -rf /home");
        let mut endless = code(0, "x")[..16].to_vec();
        endless.extend(b")\x01".repeat(100_000));
        let mut huge = code(0, "x")[..16].to_vec();
        huge.extend(b"(\xff\xff\xff\x7f");
        for (what, bytes, verdict, rule) in [
            ("a command", code(0, "id"), Verdict::Incomplete, Some("py.process.shell")),
            ("a dangerous one", whole.clone(), Verdict::Quarantine, Some("sh.delete.root")),
            ("nothing", code(0, "id").replace(b"system", b"getcwd"), Verdict::Incomplete, None),
            (
                "not compared with its source",
                code(1, "id").replace(b"system", b"getcwd"),
                Verdict::Incomplete,
                Some("file.pyc.unchecked"),
            ),
            ("compared", code(3, "id").replace(b"system", b"getcwd"), Verdict::Incomplete, None),
            ("cut off", whole[..60].to_vec(), Verdict::Incomplete, None),
            ("tuples in tuples", endless, Verdict::Incomplete, None),
            ("a length beyond the end", huge, Verdict::Incomplete, None),
        ] {
            let report = scan(&pack, &Limits::default(), &Artifact::new("x.pyc", bytes));
            let found = report.findings.iter().find(|f| f.rule != "text.binary").map(|f| f.rule.as_str());
            assert_eq!((report.verdict, found), (verdict, rule), "{what}: {:?}", report.findings);
        }
        Ok(())
    }

    trait Replace {
        fn replace(self, from: &[u8], to: &[u8]) -> Vec<u8>;
    }
    impl Replace for Vec<u8> {
        fn replace(mut self, from: &[u8], to: &[u8]) -> Vec<u8> {
            if let Some(at) = self.windows(from.len()).position(|w| w == from) {
                self.splice(at..at + from.len(), to.iter().copied());
            }
            self
        }
    }
}
