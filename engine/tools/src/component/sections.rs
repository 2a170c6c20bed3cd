//! The outermost layer of a WebAssembly file: its kind, and its custom sections. wasmtime checks the rest.

use crate::LoadError;

/// Advice on how to make a component.
const MAKE: &str = "build it with `cargo build --target wasm32-wasip2`, or make a component of it with `wasm-tools component new`";

/// A section: its number, and its contents.
struct Section<'a> {
    id: u8,
    content: &'a [u8],
}

/// Checks that bytes look like a complete component, so that an error can say what they are instead.
///
/// # Errors
/// [`LoadError::NotAComponent`] when they are something else, or cut off.
pub fn check(wasm: &[u8]) -> Result<(), LoadError> {
    let no = |message: String| Err(LoadError::NotAComponent { message });
    match wasm {
        [] => no("it is empty".into()),
        _ if is_core(wasm) => no(format!("it is a core module, not a component: {MAKE}")),
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, rest @ ..] => {
            Sections(rest).try_for_each(|section| section.map(drop)).map_err(|at| LoadError::NotAComponent {
                message: format!(
                    "it is cut off: a section at byte {} does not end within the file",
                    wasm.len() - at
                ),
            })
        }
        [0, b'a', b's', b'm', version, _, 1, 0, ..] => {
            no(format!("it is a component of version {version}, and only 13 is known"))
        }
        [0, b'a', b's', b'm', ..] => no("it is cut off within its header".into()),
        [b'(', ..] | [b';', b';', ..] => {
            no("it is WebAssembly text: turn it into a component with `wasm-tools parse` first".into())
        }
        [0x7f, b'E', b'L', b'F', ..] => {
            no(format!("it is a program of this machine, not a component: {MAKE}"))
        }
        [0x1f, 0x8b, ..] => no("it is compressed with gzip: unpack it first".into()),
        _ => no("it is not WebAssembly".into()),
    }
}

pub(crate) fn is_core(wasm: &[u8]) -> bool {
    matches!(wasm, [0, b'a', b's', b'm', _, _, 0, 0, ..])
}

/// Whether this is a core module that carries its component's types.
pub(crate) fn is_unfinished(wasm: &[u8]) -> bool {
    let mut sections = Sections(wasm.get(8..).unwrap_or_default()).map_while(Result::ok);
    is_core(wasm)
        && sections
            .any(|section| named(&section).is_some_and(|(name, _)| name.starts_with(b"component-type")))
}

/// Contents of the outermost custom sections of this name, as far as the file can be read.
pub(crate) fn custom<'a>(wasm: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let sections = Sections(wasm.get(8..).unwrap_or_default()).map_while(Result::ok);
    sections.filter_map(move |section| {
        named(&section).filter(|(found, _)| *found == name.as_bytes()).map(|(_, content)| content)
    })
}

/// Returns the file with this custom section in place of all of its name; `None` removes them.
///
/// # Errors
/// As [`check`].
pub(crate) fn replace(wasm: &[u8], name: &str, content: Option<&[u8]>) -> Result<Vec<u8>, LoadError> {
    check(wasm)?;
    let mut out = wasm[..8].to_vec();
    for section in Sections(&wasm[8..]).map_while(Result::ok) {
        if named(&section).is_none_or(|(found, _)| found != name.as_bytes()) {
            append(&mut out, section.id, &[section.content]);
        }
    }
    if let Some(content) = content {
        let mut length = Vec::new();
        number(&mut length, name.len());
        append(&mut out, 0, &[&length, name.as_bytes(), content]);
    }
    Ok(out)
}

fn append(out: &mut Vec<u8>, id: u8, parts: &[&[u8]]) {
    out.push(id);
    number(out, parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The name and the content of a custom section.
fn named<'a>(section: &Section<'a>) -> Option<(&'a [u8], &'a [u8])> {
    if section.id != 0 {
        return None;
    }
    let (length, rest) = read(section.content)?;
    rest.split_at_checked(length)
}

/// Iterates over the sections after the header. An error is the number of bytes left at a section that does
/// not fit.
struct Sections<'a>(&'a [u8]);

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&id, rest) = self.0.split_first()?;
        let left = self.0.len();
        let section = read(rest).and_then(|(length, rest)| rest.split_at_checked(length));
        let Some((content, rest)) = section else {
            self.0 = &[];
            return Some(Err(left));
        };
        self.0 = rest;
        Some(Ok(Section { id, content }))
    }
}

/// A number of at most 32 bits (LEB128), and the bytes after it.
fn read(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()? as usize, &bytes[index + 1..]));
        }
    }
    None
}

fn number(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn invalid_component_is_named() {
        for (bytes, message) in [
            (&b""[..], "empty"),
            (b"\0asm\x01\0\0\0", "core module"),
            (b"\0asm\x0a\0\x01\0", "version 10"),
            (b"\0as", "not WebAssembly"),
            (b"\0asm\x0d", "cut off within its header"),
            (b"\0asm\x0d\0\x01\0\x01\x05ab", "cut off: a section at byte 8"),
            (b"\0asm\x0d\0\x01\0\x00\xff\xff\xff\xff\xff\x01", "cut off"),
            (b"(component)", "text"),
            (b"\x7fELF\x02", "program of this machine"),
            (b"#!/bin/sh", "not WebAssembly"),
        ] {
            let error = check(bytes).unwrap_err().to_string();
            assert!(error.contains(message), "{bytes:?}: {error}");
        }
        assert_eq!(check(EMPTY), Ok(()));
    }

    #[test]
    fn sections_are_replaced() {
        let once = replace(EMPTY, "a", Some(&[7; 300])).unwrap();
        let twice = replace(&once, "b", Some(b"two")).unwrap();
        let again = replace(&twice, "a", Some(b"three")).unwrap();
        assert_eq!(custom(&twice, "a").collect::<Vec<_>>(), [&[7; 300]]);
        assert_eq!(custom(&again, "a").collect::<Vec<_>>(), [b"three"]);
        assert_eq!(custom(&again, "b").collect::<Vec<_>>(), [b"two"]);
        assert_eq!(custom(&again, "c").count(), 0);
        assert_eq!(replace(&replace(&again, "a", None).unwrap(), "b", None).unwrap(), EMPTY);
    }

    proptest! {
        #[test]
        fn arbitrary_section_bytes_cause_no_panic(tail in proptest::collection::vec(any::<u8>(), 0..64)) {
            let wasm = [EMPTY, &tail].concat();
            let whole = check(&wasm).is_ok();
            prop_assert_eq!(replace(&wasm, "x", Some(b"y")).is_ok(), whole);
            prop_assert!(custom(&wasm, "x").map(<[u8]>::len).sum::<usize>() <= tail.len());
        }
    }
}
