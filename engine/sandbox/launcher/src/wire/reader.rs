//! Reads values from untrusted bytes: numbers, strings and lists, with each length checked and nothing
//! allocated.

use core::ffi::CStr;

/// Error for a message that cannot be decoded: too short, with a bad length, or with an invalid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads values from bytes, front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        if n > self.rest.len() {
            return Err(Malformed);
        }
        let (front, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(front)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// Reads a 32-bit number.
    ///
    /// # Errors
    /// When fewer than four bytes are left.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Malformed)
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// When fewer than eight bytes are left.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| Malformed)
    }

    /// Reads bytes preceded by their length.
    ///
    /// # Errors
    /// When the length exceeds what is left.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// Reads a string preceded by its length, with a NUL at its end and nowhere else.
    ///
    /// # Errors
    /// When the length exceeds what is left, or the NUL is missing or misplaced.
    pub fn cstr(&mut self) -> Result<&'a CStr, Malformed> {
        CStr::from_bytes_with_nul(self.bytes()?).map_err(|_| Malformed)
    }

    /// Reads a list preceded by its number of items. All items are checked by `item` first, so that the list
    /// can be iterated without errors.
    pub(super) fn list<T>(
        &mut self,
        item: fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<List<'a, T>, Malformed> {
        let count = self.u32()?;
        let start = *self;
        for _ in 0..count {
            item(self)?;
        }
        Ok(List { count, reader: start, item })
    }
}

/// A list that was checked when it was decoded.
#[derive(Clone, Copy, Debug)]
pub struct List<'a, T> {
    count: u32,
    reader: Reader<'a>,
    item: fn(&mut Reader<'a>) -> Result<T, Malformed>,
}

impl<'a, T> List<'a, T> {
    /// An empty list.
    #[must_use]
    pub const fn empty(item: fn(&mut Reader<'a>) -> Result<T, Malformed>) -> Self {
        Self { count: 0, reader: Reader::new(&[]), item }
    }
    /// Number of items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }
    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<T> Iterator for List<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.count = self.count.checked_sub(1)?;
        (self.item)(&mut self.reader).ok()
    }
}
