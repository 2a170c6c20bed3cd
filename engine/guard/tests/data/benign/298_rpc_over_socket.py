"""JSON-RPC like calls over a plain TCP socket."""
import json
import socket
import socketserver
import sys

REGISTRY = {}


def expose(fn):
    REGISTRY[fn.__name__] = fn
    return fn


@expose
def add(a, b):
    return a + b


@expose
def reverse(text):
    return text[::-1]


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            try:
                req = json.loads(line)
                result = REGISTRY[req["method"]](*req.get("args", []), **req.get("kwargs", {}))
                reply = {"id": req.get("id"), "result": result}
            except KeyError as e:
                reply = {"error": f"unknown method or missing key {e}"}
            except Exception as e:
                reply = {"error": f"{type(e).__name__}: {e}"}
            self.wfile.write(json.dumps(reply).encode() + b"\n")


class RemoteError(Exception):
    pass


class Client:
    def __init__(self, host, port):
        self._sock = socket.create_connection((host, port), timeout=10)
        self._file = self._sock.makefile("rwb")
        self._id = 0

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self._id += 1
            self._file.write(json.dumps({"id": self._id, "method": name, "args": args, "kwargs": kwargs}).encode() + b"\n")
            self._file.flush()
            reply = json.loads(self._file.readline())
            if "error" in reply:
                raise RemoteError(reply["error"])
            return reply["result"]
        return call


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        with socketserver.ThreadingTCPServer(("127.0.0.1", 6200), Handler) as server:
            server.serve_forever()
    else:
        c = Client("127.0.0.1", 6200)
        print(c.add(2, 3), c.reverse("hello"))
        try:
            c.nope()
        except RemoteError as e:
            print("error:", e)
