//! First line that a client sends through a tunnel: a request of HTTP, or another protocol. Pure.

/// Maximum length in bytes of a first line: longer text without a line end counts as a request, and is then
/// rejected.
const MAX_FIRST_LINE_BYTES: usize = 4 * 1024;

/// Whether the first bytes of a tunnel begin a line like an HTTP request of any version: with `HTTP/` in it,
/// or with a second word that is a path or names a host. `None` when more bytes are needed. In doubt the
/// answer is yes, since data that a lenient server takes for a request must not pass unchecked.
#[must_use]
pub fn looks_like_a_request(bytes: &[u8]) -> Option<bool> {
    // Servers skip empty lines before a request.
    // Bytes that some servers treat as blanks, beyond those of the standard.
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | 0x0b | 0x0c | 0x1c..=0x1f | 0x85 | 0xa0);
    let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n') && !blank(b)).unwrap_or(bytes.len());
    let line = &bytes[start..];
    let end = line.iter().position(|b| *b == b'\n');
    let line = &line[..end.unwrap_or(line.len())];
    let mut words = line.split(blank).filter(|word| !word.is_empty());
    let method = words.next().unwrap_or_default();
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if !method.iter().all(token) {
        return Some(false);
    }
    // Binary protocols also have letters as first bytes, but with zero bytes between them, and may never end
    // a line. A zero byte does not keep a server from parsing on, so the part before it counts.
    let binary = line.contains(&0) && !method.iter().all(u8::is_ascii_alphabetic);
    if binary && is_git(method) {
        return Some(false);
    }
    if !binary && end.is_none() {
        return (bytes.len() > MAX_FIRST_LINE_BYTES).then_some(true);
    }
    let version = line.windows(5).any(|word| word.eq_ignore_ascii_case(b"HTTP/"));
    Some(version || !method.is_empty() && words.next().is_some_and(is_target))
}

/// Whether a word begins a request of git's own protocol: its length in four hexadecimal digits, and a
/// service name. A path follows.
fn is_git(word: &[u8]) -> bool {
    let (length, service) = word.split_at(word.len().min(4));
    length.iter().all(u8::is_ascii_hexdigit)
        && [&b"git-upload-pack"[..], b"git-receive-pack", b"git-upload-archive"].contains(&service)
}

/// Whether a word may be the target of a request without a version (HTTP/0.9): a path, or text with a host in
/// it.
fn is_target(word: &[u8]) -> bool {
    let begins = |with: &[u8]| word.get(..with.len()).is_some_and(|word| word.eq_ignore_ascii_case(with));
    let has_host = word.windows(2).any(|pair| pair.iter().all(|b| matches!(b, b'/' | b'\\')));
    has_host || begins(b"/") || begins(b"http:") || begins(b"https:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_tunnels() {
        for (bytes, want) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(true)),
            (b"\r\n\r\nfoo / http/1.1\n", Some(true)),
            (b"PRI * HTTP/2.0\r\n", Some(true)),
            (b"GET / HT", None),
            (b"", None),
            (b"SSH-2.0-OpenSSH_9\r\n", Some(false)),
            (b"EHLO me\r\n", Some(false)),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Some(false)),
            (b"*1\r\n$4\r\nPING\r\n", Some(false)),
            (b"GET http://b.com/\r\n", Some(true)),
            (b"\r\nget\tHTTP://b.com/x\n", Some(true)),
            (b"GET //b.com\n", Some(true)),
            (b"GET http:b.com\n", Some(true)),
            (b"get key\r\n", Some(false)),
            (b"MAIL FROM:<a@b.com>\r\n", Some(false)),
            (b"GET /\x01 HTTP/1.1\n", Some(true)),
            (b" GET / HTTP/1.1\n", Some(true)),
            (b"GET / HTTP/1.1\0", None),
            (b"0032git-upload-pack /p\0host=a.com\0", Some(false)),
            (b"AMQP\0\0\x09\x01", Some(false)),
            (b"0\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0", Some(false)),
            (b"X! http://b.com/\0", Some(true)),
            (b"0032GET http://b.com/ HTTP/1.1\0", Some(true)),
            (&[b'x'; MAX_FIRST_LINE_BYTES + 1], Some(true)),
            (&[b'x'; MAX_FIRST_LINE_BYTES], None),
        ] {
            assert_eq!(looks_like_a_request(bytes), want, "{bytes:?}");
        }
    }
}
