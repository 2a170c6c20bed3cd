//! Numbers and lists of a 7z header, none of which may exceed the remaining bytes.

/// Maximum number of folders, packed streams and files: more than are read of any archive.
pub(super) const MAX_ITEMS: u64 = 1 << 16;
/// Maximum number of coders per folder, and of streams per coder.
const MAX_CODERS: usize = 32;

pub(super) type Told<T> = Result<T, String>;

/// Remaining bytes.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, size: usize) -> Told<&'a [u8]> {
        let (own, rest) = self.0.split_at_checked(size).ok_or("its header ends early")?;
        self.0 = rest;
        Ok(own)
    }

    pub(super) fn byte(&mut self) -> Told<u8> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn fixed(&mut self, width: usize) -> Told<u64> {
        Ok(self.bytes(width)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// A number of one to nine bytes: the leading ones of the first byte give the number of following bytes,
    /// and its remaining bits are the top of the number.
    pub(super) fn number(&mut self) -> Told<u64> {
        let first = self.byte()?;
        let follow = first.leading_ones();
        let low = self.fixed(follow as usize)?;
        let top = u64::from(first) & (0x7f >> follow);
        Ok(low | top.checked_shl(8 * follow).unwrap_or(0))
    }

    /// A number of following bytes.
    pub(super) fn size(&mut self) -> Told<usize> {
        let number = self.number()?;
        let size = usize::try_from(number).ok().filter(|size| *size <= self.0.len());
        size.ok_or_else(|| format!("its header names {number} bytes, and ends before"))
    }

    /// A number of items.
    pub(super) fn count(&mut self) -> Told<usize> {
        let number = self.number()?;
        let count = usize::try_from(number).ok().filter(|_| number <= MAX_ITEMS);
        count.ok_or_else(|| format!("its header names {number} things, at most {MAX_ITEMS} are read"))
    }

    pub(super) fn small(&mut self) -> Told<usize> {
        let number = self.number()?;
        let small = usize::try_from(number).ok().filter(|number| *number <= MAX_CODERS);
        small.ok_or_else(|| {
            format!("its header has {number} coders or streams, at most {MAX_CODERS} are read")
        })
    }

    pub(super) fn bits(&mut self, count: usize) -> Told<Vec<bool>> {
        let bytes = self.bytes(count.div_ceil(8))?;
        Ok((0..count).map(|at| bytes[at / 8] & (0x80 >> (at % 8)) != 0).collect())
    }

    /// Flags for `count` items: true for those with a value.
    pub(super) fn defined(&mut self, count: usize) -> Told<Vec<bool>> {
        if self.byte()? == 0 { self.bits(count) } else { Ok(vec![true; count]) }
    }

    pub(super) fn sums(&mut self, count: usize) -> Told<Vec<Option<u32>>> {
        let defined = self.defined(count)?;
        let sum = |there: bool| if there { Ok(u32::try_from(self.fixed(4)?).ok()) } else { Ok(None) };
        defined.into_iter().map(sum).collect()
    }

    pub(super) fn inside(&mut self) -> Told<()> {
        if self.byte()? == 0 { Ok(()) } else { Err("parts of its header lie elsewhere".to_owned()) }
    }

    pub(super) fn expect(&mut self, section: u64) -> Told<()> {
        let found = self.number()?;
        if found == section {
            Ok(())
        } else {
            Err(format!("its header has section {found} where {section} belongs"))
        }
    }
}
