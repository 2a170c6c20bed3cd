//! The memory functions that compiled code calls by name and that a C library would provide.
//!
//! Used only in the freestanding executable. The byte loops are written so that the compiler cannot turn them
//! back into calls of themselves: string instructions where available, volatile accesses elsewhere.

/// # Safety
/// Same contract as `memcpy(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(dest: *mut u8, src: *const u8, n: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller promises `n` readable and writable bytes; the direction flag is clear by the ABI.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") n => _, inout("rdi") dest => _, inout("rsi") src => _,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for i in 0..n {
        // SAFETY: `i < n`, and the caller promises `n` readable and writable bytes.
        unsafe { dest.add(i).write_volatile(src.add(i).read_volatile()) };
    }
    dest
}

/// # Safety
/// Same contract as `memmove(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(dest: *mut u8, src: *const u8, n: usize) -> *mut u8 {
    if (dest as usize).wrapping_sub(src as usize) >= n {
        // SAFETY: no byte of the source is overwritten before it is read when copying upwards.
        return unsafe { memcpy(dest, src, n) };
    }
    for i in (0..n).rev() {
        // SAFETY: `i < n`, and the caller promises `n` readable and writable bytes.
        unsafe { dest.add(i).write_volatile(src.add(i).read_volatile()) };
    }
    dest
}

/// # Safety
/// Same contract as `memset(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(dest: *mut u8, byte: i32, n: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller promises `n` writable bytes; the direction flag is clear by the ABI.
    unsafe {
        core::arch::asm!("rep stosb", inout("rcx") n => _, inout("rdi") dest => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for i in 0..n {
        // SAFETY: `i < n`, and the caller promises `n` writable bytes.
        unsafe { dest.add(i).write_volatile(byte as u8) };
    }
    dest
}

/// # Safety
/// Same contract as `memcmp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: `i < n`, and the caller promises `n` readable bytes on both sides.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// Same contract as `bcmp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, n) }
}

/// # Safety
/// Same contract as `strlen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(s: *const u8) -> usize {
    let mut n = 0;
    // SAFETY: the caller promises a NUL within the object.
    while unsafe { s.add(n).read_volatile() } != 0 {
        n += 1;
    }
    n
}
