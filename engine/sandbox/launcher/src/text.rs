//! Small strings in a fixed buffer, NUL-terminated for the kernel.

use core::ffi::CStr;
use core::fmt::{self, Write};

/// At most 255 bytes of text.
pub type Text = Buffer<256>;

/// Text in a buffer of `N` bytes. If it does not fit, [`Buffer::cstr`] fails instead of truncating it.
pub struct Buffer<const N: usize> {
    bytes: [u8; N],
    len: usize,
    overflow: bool,
}

impl<const N: usize> Buffer<N> {
    pub fn of(arguments: fmt::Arguments<'_>) -> Self {
        let mut text = Self { bytes: [0; N], len: 0, overflow: false };
        text.overflow = text.write_fmt(arguments).is_err();
        text
    }

    /// The text; if it did not fit, an impossible path, which the kernel refuses.
    pub fn cstr(&self) -> &CStr {
        if self.overflow {
            return c"";
        }
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Write for Buffer<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        if end >= self.bytes.len() {
            return Err(fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}
