//! Archives made by 7-Zip 26.02, unchanged and modified.

use super::header::sum;
use crate::{Artifact, Limits, Pack, PartState, Report, Verdict, scan};
use proptest::prelude::*;
use std::sync::LazyLock;

static PACK: LazyLock<Pack> = LazyLock::new(|| Pack::builtin().expect("the rules that are built in"));

// `x/a.py` deletes `/home`; SOLID and FOLDERS also contain a folder, an empty file and `b.py`.
const LZMA: &str = "377abcaf271c0004d3b4acb926000000000000004a000000000000003c44793e00349b4a67b8523c73f79b707f28b641f946906f\
    a9a16fd9a126d3c1769aee953f666e724f000104060001092600070b01000123030101055d001000000c2500080a01fcb24bac00\
    0005011906000000000000110f0078002f0061002e007000790000001900150601002080a4810000";
const LZMA2: &str = "377abcaf271c0004b02b52a229000000000000004a000000000000007dbf18ea010024696d706f72742073687574696c0a736875\
    74696c2e726d7472656528272f686f6d6527290a000104060001092900070b010001212101000c2500080a01fcb24bac00000501\
    190c000000000000000000000000110f0078002f0061002e007000790000001900150601002080a4810000";
const COPY: &str = "377abcaf271c0004d9dc88e525000000000000003a0000000000000020bf4123696d706f72742073687574696c0a73687574696c\
    2e726d7472656528272f686f6d6527290a0104060001092500070b01000101000c2500080a01fcb24bac00000501110f0078002f\
    0061002e007000790000001900150601002080a4810000";
const DEFLATE: &str = "377abcaf271c00046e5e56b02a000000000000004a00000000000000d070075d012500daff696d706f72742073687574696c0a73\
    687574696c2e726d7472656528272f686f6d6527290a0104060001092a00070b010001030401080c2500080a01fcb24bac000005\
    01190c000000000000000000000000110f0078002f0061002e007000790000001900150601002080a4810000";
const BZIP2: &str = "377abcaf271c0004bec2c0b445000000000000004a000000000000001e51c105425a68393141592653591d177322000008d18000\
    1040e18266de00200021aa7a987a9906d41403000ac272c6adaa4e50c08e096bca828a7c74171e1772453850901d177322010406\
    0001094500070b010001030402020c2500080a01fcb24bac00000501190c000000000000000000000000110f0078002f0061002e\
    007000790000001900150601002080a4810000";
const BCJ: &str = "377abcaf271c0004fc5ecd8629000000000000004a000000000000006808994b010024696d706f72742073687574696c0a736875\
    74696c2e726d7472656528272f686f6d6527290a000104060001092900070b01000221210100040303010301000c252500080a01\
    fcb24bac00000501190400000000110f0078002f0061002e007000790000001900150601002080a4810000";
const DELTA: &str = "377abcaf271c0004bd8f4e292c000000000000005a00000000000000313336ed00349b4a67b387fa772f831ba222f8dca41ae54a\
    acbacc37754b4a0681799fafd913b4b7d1412753d7a7de000104060001092c00070b01000223030101055d001000002103010301\
    000c252500080a01fcb24bac00000501190f000000000000000000000000000000110f0078002f0061002e007000790000001900\
    150601002080a4810000";
const SOLID: &str = "377abcaf271c0004249667b18c000000000000002100000000000000da59d64801002a696d706f72742073687574696c0a736875\
    74696c2e726d7472656528272f686f6d6527290a78203d20310a000000813307ae0fd0f1b1fc9f3f4741040f710cfe0654e23d71\
    91716d071ced6981e2b6073a83d011ce4cdf87fd47f252832d960757ec043ac9d0f2d369ea050d4778edaaa61b0d9e07a2c62545\
    b6a5f55db5e49514bb262f5db48a680017062f01095d00070b01000123030101055d001000000c80820a011e72f9780000";
const FOLDERS: &str = "377abcaf271c0004837ad72c94000000000000002100000000000000c5e028e5010024696d706f72742073687574696c0a736875\
    74696c2e726d7472656528272f686f6d6527290a0001000578203d20310a000000813307ae319aca4646ca786b2abc718d7ed4f7\
    045561b74975b5b136880f08aa128656c0ff5c038db2d512906f9feb6002ed56d428774c612f555bbc043859a09fcb185566fd27\
    afdb9d9cae3eae8682d46ac7188f220ab63a22f85000000017063301096100070b01000123030101055d001000000c80920a016e\
    6c37cb0000";
const LINK: &str = "377abcaf271c00045e35907914000000000000004a00000000000000786acc9d01000f2e2e2f2e2e2f6574632f70617373776400\
    0104060001091400070b010001212101000c1000080a01036b40df00000501190c000000000000000000000000110f0078002f00\
    6c0069006e006b0000001900150601002080ffa10000";
const PPMD: &str = "377abcaf271c0004cee4e05c23000000000000004a00000000000000b6f8fba700690641b4baa2c2cdae79da32d1576dfabf8bbc\
    02058450362f9e2314162c951b20000104060001092300070b010001230304010506000001000c2500080a01fcb24bac00000501\
    1906000000000000110f0078002f0061002e007000790000001900150601002080a4810000";
const AES: &str = "377abcaf271c0004e7a38e5030000000000000005a000000000000007d79f20b7b75db09051de7637c23038e7953fe0556ed938f\
    6a1356f735b08d18e0fe5241ad11c690280421f694e4d5a603879a0e0104060001093000070b0100022406f1070112530fb6625d\
    290fa42044b82088cf0bbdbbd52121010001000c292500080a01fcb24bac00000501190100110f0078002f0061002e0070007900\
    00001900150601002080a4810000";
const AES_HEADER: &str = "377abcaf271c0004b248d93e90000000000000002e00000000000000a3636e279568c8ef5ac1ed011df11914d4e1e26090abacc0\
    a7f13a9d2a2046287136afd8988a12685276c5debdd3cd89c4d2525c237aef5dfca2c2d2270d6a9f5abba380885cd1f21c8a15fb\
    9be3f0f9bb31868e894b749521ddee5b2ce89a0146c31f7c3d3c72190e400cb7bb43e7f736113f9998d519e5a0e409f6c2907fa5\
    24c53188cc6e62d881f5e736f7cbf79e68c2de9217063001096000070b0100012406f1070112530f4781d81e2d0c135be96bd0c3\
    e5ee5af40c5a0a013925394b0000";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn read(bytes: Vec<u8>) -> Report {
    scan(&PACK, &Limits::default(), &Artifact::new("a.7z", bytes))
}

/// Replaces the only occurrence of `from` by `to`.
fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> =
        (0..=bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    let [at] = places[..] else { panic!("{from:?} stands at {places:?}") };
    sealed([&bytes[..at], to, &bytes[at + from.len()..]].concat())
}

/// Corrects the checksums of the headers, and extends the header to the end.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let offset = u64::from_le_bytes(bytes[12..20].try_into().expect("eight"));
    let begin = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(32));
    if let Some(begin) = begin.filter(|begin| *begin <= bytes.len()) {
        let size = (bytes.len() - begin) as u64;
        let own = sum(&bytes[begin..]);
        bytes[20..28].copy_from_slice(&size.to_le_bytes());
        bytes[28..32].copy_from_slice(&own.to_le_bytes());
    }
    let first = sum(&bytes[12..32]);
    bytes[8..12].copy_from_slice(&first.to_le_bytes());
    bytes
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[test]
fn archives_of_every_kind_are_read() {
    for (what, hex) in [
        ("lzma", LZMA),
        ("lzma2", LZMA2),
        ("copy", COPY),
        ("deflate", DEFLATE),
        ("bzip2", BZIP2),
        ("bcj", BCJ),
        ("delta", DELTA),
        ("solid", SOLID),
        ("folders", FOLDERS),
    ] {
        let report = read(bytes(hex));
        assert_eq!(report.verdict, Verdict::Quarantine, "{what} {:?}", report.coverage);
        assert_eq!(report.findings[0].part, "a.7z!x/a.py", "{what}");
        let unread = |state: &PartState| matches!(state, PartState::Skipped(_) | PartState::BytesOnly);
        assert!(
            !report.coverage.parts.iter().any(|part| unread(&part.state)),
            "{what} {:?}",
            report.coverage
        );
    }
    for hex in [SOLID, FOLDERS] {
        let parts: Vec<String> = read(bytes(hex)).coverage.parts.into_iter().map(|part| part.path).collect();
        for name in ["a.7z!x/empty", "a.7z!x/a.py", "a.7z!x/b.py"] {
            assert!(parts.iter().any(|part| part == name), "{name} in {parts:?}");
        }
    }
}

#[test]
fn unread_7z_parts_are_reported() {
    let copy = bytes(COPY);
    let link = bytes(LINK);
    let target = b"a/file/of/itself";
    let elsewhere = patched(
        &patched(&link, b"../../etc/passwd", target),
        b"\x03\x6b\x40\xdf",
        &sum(target).to_le_bytes(),
    );
    let name = |to: &str| patched(&copy, &wide("x/a.py"), &wide(to));
    // A second folder like the first one, which cannot be unpacked.
    let broken_beside = {
        let mut folders = bytes(FOLDERS);
        // The control byte of the second folder's only chunk.
        folders[32 + 41] = 0x7f;
        folders
    };
    for (what, bytes, wanted, reason) in [
        ("encrypted", bytes(AES), Verdict::Incomplete, "encrypted"),
        ("names encrypted", bytes(AES_HEADER), Verdict::Incomplete, "encrypted"),
        ("another method", bytes(PPMD), Verdict::Incomplete, "PPMd"),
        ("a broken folder", broken_beside, Verdict::Quarantine, "cannot be unpacked"),
        ("cut", copy[..copy.len() - 1].to_vec(), Verdict::Incomplete, "beyond its end"),
        ("no header", sealed(copy[..69].to_vec()), Verdict::Quarantine, "no header"),
        ("only the signature", copy[..6].to_vec(), Verdict::Incomplete, "first header"),
        ("an empty archive", sealed([&copy[..12], &[0; 20]].concat()), Verdict::Allow, ""),
        ("data behind", [&copy[..], &[b'x'; 40]].concat(), Verdict::Quarantine, ""),
        ("a name outside", name("../.py"), Verdict::Quarantine, ""),
        ("a link outside", link.clone(), Verdict::Review, ""),
        ("a link inside", elsewhere, Verdict::Allow, ""),
        ("a device", patched(&link, b"\x20\x80\xff\xa1", b"\x20\x80\xff\x21"), Verdict::Review, ""),
        ("a reparse point", patched(&link, b"\x20\x80\xff\xa1", b"\x20\x84\xff\xa1"), Verdict::Review, ""),
        (
            "names twice",
            patched(&copy, b"\x15\x06\x01\0\x20\x80\xa4\x81\0\0", b"\x0e\x01\0\x0e\x01\0\0\0"),
            Verdict::Quarantine,
            "twice",
        ),
        (
            "more files than streams",
            patched(&copy, b"\x05\x01\x11\x0f", b"\x05\x02\x11\x0f"),
            Verdict::Quarantine,
            "ends early",
        ),
        (
            "four gigabytes of dictionary",
            patched(&bytes(LZMA2), b"\x21\x21\x01\0\x0c", b"\x21\x21\x01\x28\x0c"),
            Verdict::Quarantine,
            "",
        ),
        (
            "an impossible dictionary",
            patched(&bytes(LZMA2), b"\x21\x21\x01\0\x0c", b"\x21\x21\x01\x29\x0c"),
            Verdict::Incomplete,
            "method 21",
        ),
        (
            "a terabyte of data",
            patched(&copy, b"\x09\x25\0", b"\x09\xff\0\0\0\0\0\x01\0\0\0"),
            Verdict::Quarantine,
            "",
        ),
        (
            "a terabyte unpacked",
            patched(&copy, b"\x0c\x25\0", b"\x0c\xff\0\0\0\0\0\x01\0\0\0"),
            Verdict::Quarantine,
            "ends early",
        ),
        (
            "many folders",
            patched(&copy, b"\x0b\x01\0\x01", b"\x0b\xff\xff\xff\xff\xff\0\0\0\0\0\x01"),
            Verdict::Quarantine,
            "at most",
        ),
        (
            "many files",
            patched(&copy, b"\x05\x01\x11\x0f", b"\x05\xf0\xff\xff\xff\xff\x11\x0f"),
            Verdict::Quarantine,
            "at most",
        ),
        // The file has no data; the data has no name.
        (
            "an anti item",
            patched(&copy, b"\x05\x01\x11\x0f", b"\x05\x01\x0e\x01\x80\x10\x01\x80\x11\x0f"),
            Verdict::Quarantine,
            "deletes",
        ),
        (
            "a folder that no file is in",
            patched(&copy, b"\x08\x0a\x01\xfc\xb2\x4b\xac\0\0", b"\x08\x0d\0\0\0"),
            Verdict::Quarantine,
            "no stream",
        ),
    ] {
        let report = read(bytes);
        let skipped = report.coverage.parts.iter().find_map(|part| match &part.state {
            PartState::Skipped(why) => Some(why.as_str()),
            _ => None,
        });
        assert_eq!(report.verdict, wanted, "{what}: {:?} {:?}", report.coverage.parts, report.findings);
        assert_eq!(skipped.is_some(), !reason.is_empty(), "{what}: {skipped:?}");
        assert!(skipped.unwrap_or("").contains(reason), "{what}: {skipped:?}");
    }
    let outside = read(name("../.py"));
    assert!(
        outside.findings.iter().any(|found| found.rule == "file.archive.outside"),
        "{:?}",
        outside.findings
    );
    let behind = read([&copy[..], &[b'x'; 40]].concat());
    assert!(behind.coverage.parts.iter().any(|part| part.path == "a.7z!at-127"), "{:?}", behind.coverage);
}

/// Reads a modified archive, and describes a violation.
fn harmless(changed: Vec<u8>) -> Result<(), String> {
    let begin = std::time::Instant::now();
    let report = read(changed);
    let most = 2 * Limits::default().time;
    if report.verdict == Verdict::Allow || begin.elapsed() > most {
        return Err(format!("{:?} {:?} {:?}", report.verdict, report.coverage.parts, begin.elapsed()));
    }
    Ok(())
}

#[test]
fn changed_7z_byte_hides_no_content() {
    for hex in [COPY, LZMA2, SOLID] {
        let whole = bytes(hex);
        // Another signature is another file type.
        for at in 6..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            let all = harmless(changed.clone()).and_then(|()| harmless(sealed(changed)));
            assert_eq!(all, Ok(()), "{hex} at {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_7z_bytes_hide_no_content(
        which in 0usize..9, at in 6usize..1000, byte: u8, again in 32usize..1000, other: u8, resealed: bool,
    ) {
        let mut changed = bytes([LZMA, LZMA2, COPY, DEFLATE, BZIP2, BCJ, DELTA, SOLID, FOLDERS][which]);
        let size = changed.len();
        changed[6 + (at - 6) % (size - 6)] = byte;
        if resealed {
            changed[32 + (again - 32) % (size - 32)] = other;
            changed = sealed(changed);
        }
        prop_assert_eq!(harmless(changed), Ok(()));
    }

    #[test]
    fn arbitrary_7z_header_is_read_safely(header in proptest::collection::vec(0u8..32, 0..200)) {
        let bytes = sealed([&b"7z\xbc\xaf\x27\x1c\0\x04"[..], &[0; 24], &header].concat());
        read(bytes);
    }
}
