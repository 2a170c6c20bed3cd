//! Measures the memory in the buffers of a sandbox's sockets, where no cgroup counts it. The kernel reports
//! each socket of a network namespace (`sock_diag(7)`) to a socket that was made in that namespace.
//!
//! `mem` of `/proc/net/sockstat` would be simpler, but is the sum over the whole host.

use crate::sys::{self, Fd};

/// Opens a socket to query the network namespace that this process is in.
pub fn ask() -> sys::Result<Fd> {
    sys::socket_diag()
}

const REQUEST: u16 = 0x001;
const DUMP: u16 = 0x300;
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Size of the header of each message: length, kind, flags, number, port.
const HEADER_LEN: usize = 16;

const UNIX: u8 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
const NETLINK: u8 = 16;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// One kind of socket: its query, and the layout of the answers.
struct Kind {
    family: u8,
    protocol: u8,
    /// Size of the request after its header. It is zero except for the value `show`: an offset, and the data
    /// to be reported.
    request: usize,
    show: (usize, u32),
    /// Offset of the attributes in an answer, and the attribute with the memory.
    attributes: usize,
    memory: u16,
}

/// Layouts of `struct inet_diag_req_v2`, `unix_diag_req` and `netlink_diag_req`, and of the corresponding
/// messages.
const KINDS: [Kind; 6] = [
    inet(INET, TCP),
    inet(INET6, TCP),
    inet(INET, UDP),
    inet(INET6, UDP),
    // Requests queue lengths and memory.
    Kind { family: UNIX, protocol: 0, request: 24, show: (12, 0x30), attributes: 16, memory: 5 },
    Kind { family: NETLINK, protocol: 255, request: 20, show: (8, 1), attributes: 28, memory: 0 },
];

const fn inet(family: u8, protocol: u8) -> Kind {
    // The third byte selects extensions; bit 6 selects memory, the seventh.
    Kind { family, protocol, request: 56, show: (2, 1 << 6), attributes: 72, memory: 7 }
}

/// Time limit of a query in nanoseconds, since a program can make it long with many sockets; after that only
/// the sockets seen so far count.
const QUERY_TIMEOUT_NS: u64 = 300_000_000;
/// Maximum size of one message of the kernel, in bytes.
const MAX_REPLY_BYTES: usize = 32 * 1024;
/// Maximum number of bytes in the queue of a socket pair whose sender is closed, by default
/// (`net.core.wmem_default`), however few bytes are reported.
const MAX_ORPHANED_BYTES: u64 = 212_992;

/// Number of bytes held by all sockets; 0 without a query descriptor, or where the kernel does not report it.
// Never inlined, like `tree::used`: its buffer would become part of the waiting function's frame.
#[inline(never)]
pub fn held(diag: Fd) -> u64 {
    if diag < 0 {
        return 0;
    }
    let mut buffer = [0u8; MAX_REPLY_BYTES];
    let begun = sys::now();
    let mut total = 0u64;
    for kind in &KINDS {
        let mut request = [0u8; HEADER_LEN + 56];
        let length = fill(kind, &mut request);
        if sys::write(diag, &request[..length]).is_err() {
            continue;
        }
        // The answer is complete when the call returns; each read makes its next part available.
        while let Ok(read) = sys::read(diag, &mut buffer) {
            let (bytes, more) = sum(kind, &buffer[..read]);
            total = total.saturating_add(bytes);
            if !more {
                break;
            }
            if sys::now() - begun > QUERY_TIMEOUT_NS {
                return total;
            }
        }
    }
    total
}

/// Writes a request for all sockets of a kind; returns its length.
fn fill(kind: &Kind, into: &mut [u8; HEADER_LEN + 56]) -> usize {
    let length = HEADER_LEN + kind.request;
    into[..4].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_ne_bytes());
    into[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    into[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
    let body = &mut into[HEADER_LEN..];
    body[0] = kind.family;
    body[1] = kind.protocol;
    let (at, show) = kind.show;
    if kind.family == NETLINK {
        body[at..at + 4].copy_from_slice(&show.to_ne_bytes());
        return length;
    }
    // Sockets in every state.
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    match kind.family {
        UNIX => body[at..at + 4].copy_from_slice(&show.to_ne_bytes()),
        _ => body[at] = show.to_ne_bytes()[0],
    }
    length
}

/// Number of bytes held by the sockets in one part of an answer, and whether there are more parts.
fn sum(kind: &Kind, mut messages: &[u8]) -> (u64, bool) {
    let mut total = 0u64;
    while let Some(length) = number(messages, 0).and_then(|n| usize::try_from(n).ok()) {
        let what = messages.get(4..6).map(|b| u16::from_ne_bytes([b[0], b[1]]));
        if length < HEADER_LEN || matches!(what, None | Some(ERROR | DONE)) {
            return (total, false);
        }
        let Some(message) = messages.get(HEADER_LEN..length) else { return (total, false) };
        total = total.saturating_add(socket(kind, message));
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    (total, true)
}

/// Number of bytes held by one socket, from its message.
fn socket(kind: &Kind, message: &[u8]) -> u64 {
    const UNIX_QUEUES: u16 = 4;
    const UNIX_SHUTDOWN: u16 = 6;
    const BOTH: u8 = 3;
    let mut rest = message.get(kind.attributes..).unwrap_or(&[]);
    let (mut memory, mut queued, mut hung_up) = (0, 0, false);
    while let Some((length, what)) = attribute(rest) {
        let Some(value) = rest.get(4..length) else { break };
        if what == kind.memory {
            // Received; sent and not yet freed; kept for retransmission; received while the owner was busy.
            let [received, sent, kept, behind] = [0, 2, 5, 7].map(|i| number(value, 4 * i).unwrap_or(0));
            memory = received + sent.max(kept) + behind;
        } else if kind.family == UNIX && what == UNIX_QUEUES {
            queued = number(value, 0).unwrap_or(0);
        } else if kind.family == UNIX && what == UNIX_SHUTDOWN {
            hung_up = value.first() == Some(&BOTH);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    // Data in a queue is charged to its sender; if the sender is closed, count it for the receiver.
    if hung_up && queued > 0 { memory + queued.max(MAX_ORPHANED_BYTES) } else { memory }
}

/// Length and kind of the first attribute.
fn attribute(bytes: &[u8]) -> Option<(usize, u16)> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    let length = usize::from(u16::from_ne_bytes([a, b]));
    (length >= 4).then_some((length, u16::from_ne_bytes([c, d])))
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*four).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn of(family: u8) -> &'static Kind {
        KINDS.iter().find(|kind| kind.family == family).unwrap()
    }

    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn attribute_of(what: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        padded([&length.to_ne_bytes()[..], &what.to_ne_bytes(), value].concat())
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn message(what: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_LEN + body.len()).unwrap();
        let head = [&length.to_ne_bytes()[..], &what.to_ne_bytes(), &[0; 10]].concat();
        padded([head, body.to_vec()].concat())
    }

    fn socket_of(kind: &Kind, attributes: &[Vec<u8>]) -> Vec<u8> {
        [vec![0; kind.attributes], attributes.concat()].concat()
    }

    #[test]
    fn socket_buffers_are_counted_as_memory() {
        let memory = words(&[100, 9, 20, 9, 9, 30, 9, 4, 9]);
        let inet = of(INET);
        let tcp = socket_of(inet, &[attribute_of(1, &[0; 3]), attribute_of(7, &memory)]);
        assert_eq!(socket(inet, &tcp), 134);
        let unix = of(UNIX);
        let stream = |queued: u32, shut: u8| {
            let queues = attribute_of(4, &words(&[queued, 0]));
            socket(unix, &socket_of(unix, &[queues, attribute_of(5, &memory), attribute_of(6, &[shut])]))
        };
        assert_eq!(stream(500, 0), 134, "its sender has it");
        assert_eq!(stream(500, 3), 134 + MAX_ORPHANED_BYTES);
        assert_eq!(stream(300_000, 3), 134 + 300_000);
        assert_eq!(stream(0, 3), 134);
    }

    #[test]
    fn socket_answers_end_and_malformed_ones_count_zero() {
        let inet = of(INET);
        let one =
            message(BY_FAMILY, &socket_of(inet, &[attribute_of(7, &words(&[5, 0, 0, 0, 0, 0, 0, 0, 0]))]));
        let end = message(DONE, &[0; 4]);
        assert_eq!(sum(inet, &[one.clone(), one.clone()].concat()), (10, true));
        assert_eq!(sum(inet, &[one.clone(), end, one.clone()].concat()), (5, false));
        assert_eq!(sum(inet, &message(ERROR, &[0; 20])), (0, false));
        for cut in 0..one.len() {
            sum(inet, &one[..cut]);
        }
        // Wrong lengths.
        for lie in [0u32, 3, 15, 17, u32::MAX] {
            let mut bad = one.clone();
            bad[..4].copy_from_slice(&lie.to_ne_bytes());
            sum(inet, &bad);
        }
        assert_eq!(socket(inet, &[vec![0; 72], vec![0, 0, 7, 0]].concat()), 0);
    }

    #[test]
    fn kernel_reports_unread_datagram_memory() {
        let diag = ask().unwrap();
        let before = held(diag);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[0; 30_000], socket.local_addr().unwrap()).unwrap();
        assert!(before > 0 || held(diag) >= 30_000, "{before}");
        sys::close(diag);
        assert_eq!(held(-1), 0);
    }
}
