//! Reads the container format of a Debian package: an `ar` archive of a few members with short names.
//!
//! Accepts only the form in `deb(5)`: names of up to 16 characters without a folder, sizes in decimal digits,
//! members in sequence. The long names of GNU and BSD are rejected.

use std::io::{self, Read};

const MAGIC: &[u8; 8] = b"!<arch>\n";

/// Header of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name, printable ASCII without `/`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

/// The members of an archive, in order.
pub struct Ar<R> {
    from: R,
    /// Unread bytes of the current member, without its padding byte.
    left: u64,
    odd: bool,
}

impl<R: Read> Ar<R> {
    /// Starts reading an archive.
    ///
    /// # Errors
    /// When the data is not an `ar` archive.
    pub fn new(mut from: R) -> io::Result<Self> {
        let mut magic = [0; 8];
        from.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(bad("is not an ar archive"));
        }
        Ok(Self { from, left: 0, odd: false })
    }

    /// Skips the rest of the current member, and returns the next one; `None` at the end.
    ///
    /// # Errors
    /// When the archive is cut off, or a header is malformed.
    pub fn next_member(&mut self) -> io::Result<Option<Member>> {
        let skip = self.left;
        if io::copy(&mut (&mut self.from).take(skip), &mut io::sink())? != skip {
            return Err(cut_off());
        }
        self.left = 0;
        let mut head = [0; 60];
        // The padding byte after the last member may be missing.
        let mut filled = 0;
        let mut pad = [0; 1];
        if std::mem::take(&mut self.odd) && self.from.read(&mut pad)? == 0 {
            return Ok(None);
        }
        while filled < head.len() {
            match self.from.read(&mut head[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(cut_off()),
                Ok(count) => filled += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let member = parse_head(&head)?;
        (self.left, self.odd) = (member.size, member.size % 2 == 1);
        Ok(Some(member))
    }
}

/// Reads the current member.
impl<R: Read> Read for Ar<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        match self.from.read(&mut buffer[..most])? {
            0 => Err(cut_off()),
            count => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}

fn parse_head(head: &[u8; 60]) -> io::Result<Member> {
    if &head[58..] != b"`\n" {
        return Err(bad("has a head without its end mark"));
    }
    let name = head[..16].trim_ascii_end();
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let good = !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b'/');
    let size = std::str::from_utf8(head[48..58].trim_ascii_end()).ok();
    let size = size.filter(|s| s.bytes().all(|b| b.is_ascii_digit())).and_then(|s| s.parse().ok());
    match (good, size) {
        (true, Some(size)) => Ok(Member { name: String::from_utf8_lossy(name).into_owned(), size }),
        (false, _) => Err(bad("has a member whose name a package does not have")),
        (_, None) => Err(bad("has a member whose size is not a number")),
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "is cut off")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for (name, bytes) in members {
            out.extend(
                format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, bytes.len()).bytes(),
            );
            out.extend_from_slice(bytes);
            out.extend((bytes.len() % 2 == 1).then_some(b'\n'));
        }
        out
    }

    fn read_all(bytes: &[u8]) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut ar = Ar::new(bytes)?;
        let mut out = Vec::new();
        while let Some(member) = ar.next_member()? {
            let mut content = Vec::new();
            ar.read_to_end(&mut content)?;
            assert_eq!(content.len() as u64, member.size);
            out.push((member.name, content));
        }
        Ok(out)
    }

    #[test]
    fn members_are_read_in_order_and_skipped() {
        let bytes = archive(&[("debian-binary", b"2.0\n"), ("control.tar.xz/", b"abc"), ("data.tar", b"")]);
        let names: Vec<_> = read_all(&bytes).unwrap();
        let want = [("debian-binary", &b"2.0\n"[..]), ("control.tar.xz", b"abc"), ("data.tar", b"")];
        assert_eq!(names, want.map(|(n, b)| (n.to_owned(), b.to_vec())));
        let mut ar = Ar::new(&bytes[..]).unwrap();
        let skipped: Vec<_> = std::iter::from_fn(|| ar.next_member().unwrap()).map(|m| m.size).collect();
        assert_eq!(skipped, [4, 3, 0]);
        // Without the last padding byte.
        let odd = archive(&[("a", b"abc")]);
        assert_eq!(read_all(&odd[..odd.len() - 1]).unwrap(), [("a".to_owned(), b"abc".to_vec())]);
    }

    #[test]
    fn malformed_ar_archive_is_refused() {
        let good = archive(&[("a", b"abcd")]);
        for (at, with, word) in [
            (0, &b"?"[..], "not an ar"),
            (8 + 58, b"x", "end mark"),
            (8, b"../../etc/pwd   ", "name"),
            (8, b"/12             ", "name"),
            (8, b"#1/20           ", "name"),
            (8, b"                ", "name"),
            (8, b"a\0b             ", "name"),
            (8, b"\xff              ", "name"),
            (8 + 48, b"-4        ", "size"),
            (8 + 48, b"+4        ", "size"),
            (8 + 48, b"          ", "size"),
            (8 + 48, b"0x4       ", "size"),
            (8 + 48, b"9999999999", "cut off"),
        ] {
            let mut bytes = good.clone();
            bytes[at..at + with.len()].copy_from_slice(with);
            let error = read_all(&bytes).unwrap_err().to_string();
            assert!(error.contains(word), "{at} {with:?}: {error}");
        }
        for length in 0..good.len() {
            let whole = length == 8;
            assert_eq!(read_all(&good[..length]).is_ok(), whole, "{length}");
        }
    }

    proptest! {
        #[test]
        fn ar_archive_round_trips(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..5)) {
            let members: Vec<(&str, &[u8])> = contents.iter().map(|c| ("name", c.as_slice())).collect();
            let read = read_all(&archive(&members)).unwrap();
            prop_assert_eq!(read.into_iter().map(|(_, c)| c).collect::<Vec<_>>(), contents);
        }

        #[test]
        fn arbitrary_ar_bytes_cause_no_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
            if magic {
                bytes.splice(0..0, *MAGIC);
            }
            drop(read_all(&bytes));
        }
    }
}
