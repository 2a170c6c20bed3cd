"""Sends requests within TLS to api.test, each on a connection of its own. 77 when an answer has the secret, else 0; prints the number of ordinary pages.

Arguments: `proxy` or `direct`, an address, a port, then requests with escapes; `h2:AUTHORITY` is one of HTTP/2. HOST stands for api.test with the port.
"""
import re
import socket
import ssl
import sys


def frame(kind, flags, stream, content):
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def block(fields):
    """Fields as literals without an index (RFC 7541, 6.2.2)."""
    return b"".join(bytes([0, len(name)]) + name + bytes([len(value)]) + value for name, value in fields)


def of_http_2(authority):
    fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority), (b":path", b"/")]
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, block(fields))


def connected():
    if through == "direct":
        return socket.create_connection((address, int(port)), 10)
    stream = socket.create_connection(("127.0.0.1", 888), 10)
    stream.sendall(b"CONNECT " + host + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += stream.recv(1) or b"\r\n\r\n"
    return stream


def ask(request):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    is_two = request.startswith(b"h2:")
    context.set_alpn_protocols(["h2" if is_two else "http/1.1"])
    data = b""
    try:
        with context.wrap_socket(connected(), server_hostname="api.test") as stream:
            stream.sendall(of_http_2(request[3:]) if is_two else request)
            while piece := stream.recv(4096):
                data += piece
                # The connection stays open.
                if ended(data) if is_two else whole(data):
                    break
    except OSError:
        pass
    return data + bodies(data) if is_two else data


def whole(data):
    """The answer of HTTP/1.1 is there as far as its length says."""
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return length is not None and len(body) >= int(length[1])


def ended(data):
    """Stream 1 or the connection of HTTP/2 has ended."""
    while len(data) >= 9:
        length, kind, flags = int.from_bytes(data[:3], "big"), data[3], data[4]
        if kind in (3, 7) or kind in (0, 1) and flags & 1:
            return True
        data = data[9 + length:]
    return False


def bodies(data):
    """The bodies of HTTP/2 without their frames, at which a text may be parted. Fields are not searched, since they may be coded."""
    found = b""
    while len(data) >= 9:
        length, kind = int.from_bytes(data[:3], "big"), data[3]
        found += data[9:9 + length] if kind == 0 else b""
        data = data[9 + length:]
    return found


through, address, port = sys.argv[1:4]
host = b"api.test:" + port.encode()
answers = []
for word in sys.argv[4:]:
    text = word.replace("HOST", host.decode()).replace("PORT", port)
    answers.append(ask(text.encode().decode("unicode_escape").encode("latin-1")))
print(sum(b"a page" in answer for answer in answers), "pages")
sys.exit(77 if any(b"HOTCELL-SECRET" in answer for answer in answers) else 0)
