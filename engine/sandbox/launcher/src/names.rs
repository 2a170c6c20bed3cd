//! Lists the names in a folder. The only parser of `struct linux_dirent64`.

use core::ffi::CStr;

use crate::sys::{self, Errno, Fd};

/// Calls `each` for every name in the open folder except `.` and `..`; stops at the first error.
pub fn each(folder: Fd, mut each: impl FnMut(&CStr) -> sys::Result<()>) -> sys::Result<()> {
    let mut entries = [0u8; 4096];
    loop {
        let len = sys::getdents(folder, &mut entries)?;
        if len == 0 {
            return Ok(());
        }
        let mut rest = &entries[..len];
        // Offsets: inode, offset, record length at 16, type at 18, name at 19.
        while rest.len() > 19 {
            let record = usize::from(u16::from_ne_bytes([rest[16], rest[17]])).clamp(19, rest.len());
            let name = CStr::from_bytes_until_nul(&rest[19..record]).map_err(|_| Errno::INVAL)?;
            rest = &rest[record..];
            if name != c"." && name != c".." {
                each(name)?;
            }
        }
    }
}
