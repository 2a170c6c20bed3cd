"""Asks the sandbox's proxy for hosts, in every way it speaks. 77 when one of them was reached, 0 when none was.

Arguments: a port, then hosts; `tls:HOST:NAME` is a connection to HOST with TLS for NAME, `direct:ADDRESS` one without proxy.
"""
import socket
import ssl
import sys

SECRET = b"HOTCELL-SECRET"


def talk(*messages):
    """Sends each message after an answer to the one before; all that was answered."""
    answers = b""
    try:
        with socket.create_connection(("127.0.0.1", 888), 10) as proxy:
            for number, message in enumerate(messages):
                proxy.sendall(message)
                if number + 1 < len(messages):
                    answer = proxy.recv(4096)
                    answers += answer
                    if not answer:
                        return answers
            while piece := proxy.recv(4096):
                answers += piece
    except OSError:
        pass
    return answers


def connect(host, port):
    return b"CONNECT " + host + b":" + port + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"


def greeting(name):
    """The first message of TLS with this server."""
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def ways(word, port):
    number = int(port).to_bytes(2, "big")
    if word.startswith("tls:"):
        _, host, name = word.split(":")
        yield connect(host.encode(), port), greeting(name)
        return
    host = word.encode("latin-1").decode("unicode_escape").encode("latin-1")
    request = b"GET / HTTP/1.1\r\nHost: " + host + b":" + port + b"\r\n\r\n"
    yield connect(host, port), request
    yield (b"GET http://" + host + b":" + port + b"/ HTTP/1.1\r\nHost: " + host + b":" + port + b"\r\n\r\n",)
    yield b"\5\1\0", b"\5\1\0\3" + bytes([len(host)]) + host + number, request
    for family, kind in ((socket.AF_INET, 1), (socket.AF_INET6, 4)):
        try:
            address = socket.inet_pton(family, host.decode().strip("[]"))
        except (OSError, ValueError):
            continue
        yield b"\5\1\0", b"\5\1\0" + bytes([kind]) + address + number, request


def direct(address, port):
    try:
        with socket.create_connection((address, int(port)), 10) as server:
            server.sendall(b"GET / HTTP/1.1\r\n\r\n")
            return server.recv(4096)
    except OSError:
        return b""


port = sys.argv[1].encode()
reached = False
for word in sys.argv[2:]:
    if word.startswith("direct:"):
        answers = [direct(word.removeprefix("direct:"), port)]
    else:
        answers = [talk(*messages) for messages in ways(word, port)]
    if any(SECRET in answer for answer in answers):
        print("reached", word)
        reached = True
sys.exit(77 if reached else 0)
