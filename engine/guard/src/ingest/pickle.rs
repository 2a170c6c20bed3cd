//! Pickles, walked opcode by opcode without building anything: their calls are written as Python and checked
//! by Python's rules; a pickle that only builds data is read to its end without findings.

mod known;
mod nested;
mod opcodes;
mod render;

use crate::report::PartState;
use crate::value::Value;
use opcodes::{End, Item, Walk};

use crate::context::Cx;
use crate::language::Language;

/// A text as a Python literal.
pub(super) fn quoted(text: &str) -> String {
    render::quoted(text)
}

/// True for a pickle that begins with its protocol, which every writer since Python 2.3 puts first.
pub(super) fn is_marked(bytes: &[u8]) -> bool {
    bytes.len() > 2 && bytes[0] == 0x80 && (2..=5).contains(&bytes[1])
}

/// True when bytes of no other format are a pickle that calls something: loaders do not require a mark. Most
/// other bytes fail at once.
pub(super) fn is_unmarked(bytes: &[u8]) -> bool {
    let walk = Walk::over(bytes);
    makes_calls(&walk) || walk.globals.iter().any(|name| render::is_of_system(name))
}

fn makes_calls(walk: &Walk<'_>) -> bool {
    !walk.calls.is_empty()
        && (walk.end == End::Stop || walk.calls.iter().any(|c| matches!(c.callee, Item::Global(_))))
}

/// Pickle in a numpy array of objects; `None` for arrays of numbers, which are never executed.
pub(super) fn in_numpy(bytes: &[u8]) -> Option<&[u8]> {
    let (size, begin) = match bytes.get(6)? {
        1 => (u32::from(u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?)), 10),
        _ => (u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?), 12),
    };
    let end = begin + usize::try_from(size).ok()?;
    let header = String::from_utf8_lossy(bytes.get(begin..end)?);
    let body = &bytes[end..];
    let says_objects = ["|O'", "|O\"", "'O'", "\"O\""].iter().any(|kind| header.contains(kind));
    // Other spellings of the type of objects, such as `object`, `i4,O` and `\x4f`; also names of columns.
    let may_say_objects = ["O", "object", "\\"].iter().any(|piece| header.contains(piece));
    (says_objects || may_say_objects && (is_marked(body) || is_unmarked(body))).then_some(body)
}

/// Reads a pickle, and those that follow it in the same file.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8]) {
    read_nested(cx, name, bytes, 0);
}

fn read_nested(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    let mut values = Vec::new();
    cx.read_as(name, "pickle", "", false, |cx| {
        let mut rest = bytes;
        loop {
            let walk = Walk::over(rest);
            tell(cx, &walk);
            values.extend_from_slice(&walk.values);
            rest = &rest[walk.length..];
            match walk.end {
                End::Stop if is_marked(rest) || is_unmarked(rest) => {}
                // A loader stops here; the following bytes are not code.
                End::Stop => return PartState::Parsed,
                // A loader executes everything before the error.
                End::Broken => return PartState::BytesOnly,
                End::TooLong => {
                    cx.not_read("a pickle with too many opcodes");
                    return PartState::BytesOnly;
                }
            }
        }
    });
    // A pickle in a pickle that calls something is there to be loaded in turn.
    for value in values {
        let leads_on =
            |walk: &Walk<'_>| makes_calls(walk) || walk.end == End::Stop && !walk.values.is_empty();
        let Some(inner) = nested::decoded(value).filter(|inner| leads_on(&Walk::over(inner))) else {
            continue;
        };
        if depth == nested::MAX_DEPTH || cx.late() {
            cx.note_part(name, "pickle", PartState::Skipped("pickles in pickles, too deep".to_owned()));
            return;
        }
        read_nested(cx, &format!("{name}!value"), &inner, depth + 1);
    }
}

fn tell(cx: &mut Cx<'_>, walk: &Walk<'_>) {
    for name in &walk.globals {
        cx.fact_with(Language::Text, "pickle.name", (0, 0), &[Value::text(&render::canonical(name))], 0);
    }
    let is_needed = |name: &String| known::is_needed(name);
    for name in walk.globals.iter().filter(|name| !is_needed(name)) {
        cx.fact_with(Language::Text, "pickle.unlisted", (0, 0), &[Value::text(name)], 0);
    }
    if walk.chained {
        cx.fact(Language::Text, "pickle.chain", (0, 0));
    }
    if walk.unknown {
        cx.fact(Language::Text, "pickle.unknown_call", (0, 0));
    }
    match render::source(walk) {
        Some(source) => cx.child(Language::Python, &source, (0, 0), &["pickle"]),
        None => cx.not_read("a pickle with too many calls"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Artifact, Limits, Pack, Verdict, scan};

    const DATA: &[u8] = b"\x80\x03}q\x00(X\x01\x00\x00\x00aq\x01K\x01X\x01\x00\x00\x00bq\x02]q\x03(K\x01G?\xf0\x00\x00\x00\x00\x00\x00eu.";
    const SYSTEM: &[u8] = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.";

    #[test]
    fn pickle_calls_are_reported() -> Result<(), Box<dyn std::error::Error>> {
        let pack = Pack::builtin()?;
        let many = [&b"\x80\x02("[..], &b"K\x01".repeat(4_000_000), b"t."].concat();
        let calls = [
            &b"\x80\x02"[..],
            &b"cbuiltins\ngetattr\n(cx\ny\nVaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\ntR0"
                .repeat(40_000),
            b"N.",
        ]
        .concat();
        let doubling = [&b"\x80\x02ccollections\ndeque\n]"[..], &b"2\x86".repeat(200), b"\x85R."].concat();
        let npy = |what: &str, body: &[u8]| {
            let header = format!("{{'descr': '{what}', 'fortran_order': False, 'shape': (1,), }}\n");
            let size = u16::try_from(header.len()).unwrap_or(0).to_le_bytes();
            [&b"\x93NUMPY\x01\x00"[..], &size, header.as_bytes(), body].concat()
        };
        for (what, bytes, wanted) in [
            ("data", DATA.to_vec(), Verdict::Allow),
            ("data after data", [DATA, DATA].concat(), Verdict::Allow),
            ("classes", b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01.".to_vec(), Verdict::Allow),
            (
                "an enumeration",
                b"\x80\x02c__builtin__\ngetattr\ncx.y\nColour\nX\x03\x00\x00\x00red\x86R.".to_vec(),
                Verdict::Review,
            ),
            ("a command", SYSTEM.to_vec(), Verdict::Quarantine),
            ("a command and a line", [SYSTEM, b"\n"].concat(), Verdict::Quarantine),
            ("a command after data", [DATA, SYSTEM].concat(), Verdict::Quarantine),
            (
                "a command before a break",
                [&SYSTEM[..SYSTEM.len() - 1], b"\xff"].concat(),
                Verdict::Quarantine,
            ),
            ("text, without a mark", b"cos\nsystem\n(S'id'\ntR.".to_vec(), Verdict::Quarantine),
            ("without a mark, broken", b"cos\nsystem\n(S'id'\ntRRR".to_vec(), Verdict::Quarantine),
            ("an instance", b"(S'id'\nios\nsystem\n.".to_vec(), Verdict::Quarantine),
            (
                "through another module",
                b"\x80\x04\x8c\x06shutil\x8c\x09os.system\x93\x8c\x02id\x85R.".to_vec(),
                Verdict::Quarantine,
            ),
            (
                "through getattr",
                b"\x80\x02c__builtin__\ngetattr\n(c__builtin__\n__import__\n(Vos\ntRVsystem\ntR(Vid\ntR."
                    .to_vec(),
                Verdict::Quarantine,
            ),
            (
                "through a partial",
                b"cfunctools\npartial\n(cos\nsystem\nVid\ntR.".to_vec(),
                Verdict::Quarantine,
            ),
            (
                "as a state setter",
                b"\x80\x02cx\ny\n)\x81}V__setstate__\ncos\nsystem\nsbVid\nb.".to_vec(),
                Verdict::Quarantine,
            ),
            (
                "a list of words",
                b"csubprocess\nPopen\n((lVrm\naV-rf\naV/nowhere\natR.".to_vec(),
                Verdict::Quarantine,
            ),
            ("numbers of numpy", npy("<f8", &[0; 8]), Verdict::Allow),
            ("objects of numpy", npy("|O", SYSTEM), Verdict::Quarantine),
            ("what is registered elsewhere", b"\x80\x02\x82\x01)R.".to_vec(), Verdict::Review),
            ("cut off", DATA[..20].to_vec(), Verdict::Incomplete),
            ("a stack that is empty", b"\x80\x02R.".to_vec(), Verdict::Incomplete),
            (
                "lengths beyond the end",
                b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.".to_vec(),
                Verdict::Incomplete,
            ),
            ("marks in marks", [&b"\x80\x02"[..], &b"(".repeat(3_000_000)].concat(), Verdict::Incomplete),
            ("too many opcodes", many, Verdict::Incomplete),
            ("too many calls", calls, Verdict::Incomplete),
            ("a tree that doubles", doubling, Verdict::Allow),
        ] {
            let report = scan(&pack, &Limits::default(), &Artifact::new("x.bin", bytes));
            assert_eq!(report.verdict, wanted, "{what}: {:?} {:?}", report.coverage.parts, report.findings);
        }
        Ok(())
    }
}
