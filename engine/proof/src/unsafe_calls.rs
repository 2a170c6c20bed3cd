//! System calls without a safe wrapper. The only module here with `unsafe`.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

use nix::libc;

const MOUNT_ATTR_RDONLY: u64 = 1;

/// Argument of `mount_setattr(2)`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_ns: u64,
}

/// Makes a mount, and all mounts below it if `below`, read-only or writable.
pub(crate) fn set_read_only(path: &str, read_only: bool, below: bool) -> io::Result<()> {
    let path = CString::new(path)?;
    let attr = MountAttr {
        set: if read_only { MOUNT_ATTR_RDONLY } else { 0 },
        clear: if read_only { 0 } else { MOUNT_ATTR_RDONLY },
        propagation: 0,
        user_ns: 0,
    };
    // SAFETY: `path` is a NUL-terminated string and `attr` a structure of the passed size; both outlive the
    // call, which only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            if below { libc::AT_RECURSIVE } else { 0 },
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings up the loopback interface of the present network namespace, and adds a second address outside
/// 127.0.0.0/8.
pub(crate) fn loopback_up(second: std::net::Ipv4Addr) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: an `ifreq` of zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    // SAFETY: the descriptor is open and the request is an `ifreq` that outlives the call, as SIOCSIFFLAGS
    // expects.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo:1") {
        *to = from.cast_signed();
    }
    let address = libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(2),
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(second).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: both structures have 16 bytes, and any bytes are a `sockaddr`.
    request.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) };
    // SAFETY: as above, as SIOCSIFADDR expects.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
