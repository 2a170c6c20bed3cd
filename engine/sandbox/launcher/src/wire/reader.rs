//! Values from bytes that anybody may have written: numbers, strings and lists, each length checked, nothing allocated.

use core::ffi::CStr;

/// A message that cannot be read: too short, a bad length, or a value that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads values from bytes, front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
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

    /// One byte.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// When fewer than four bytes are left.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Malformed)
    }

    /// A 64-bit number.
    ///
    /// # Errors
    /// When fewer than eight bytes are left.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| Malformed)
    }

    /// Bytes behind their length.
    ///
    /// # Errors
    /// When the length exceeds what is left.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// A string behind its length, NUL at its end and nowhere else.
    ///
    /// # Errors
    /// When the length exceeds what is left, or the NUL is missing or misplaced.
    pub fn cstr(&mut self) -> Result<&'a CStr, Malformed> {
        CStr::from_bytes_with_nul(self.bytes()?).map_err(|_| Malformed)
    }

    /// A counted list, checked whole by `item` before it is returned; it can then be walked without errors.
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
    /// Of nothing.
    #[must_use]
    pub const fn empty(item: fn(&mut Reader<'a>) -> Result<T, Malformed>) -> Self {
        Self { count: 0, reader: Reader::new(&[]), item }
    }
    /// How many items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }
    /// Whether there is none.
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
