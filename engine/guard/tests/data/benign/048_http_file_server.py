"""HTTP server for a directory with PUT upload support (LAN use only)."""
import argparse
import functools
import os
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class UploadHandler(SimpleHTTPRequestHandler):
    max_size = 200 * 1024 * 1024

    def do_PUT(self):
        path = self.translate_path(self.path)
        root = os.path.realpath(self.directory)
        if not os.path.realpath(path).startswith(root + os.sep):
            self.send_error(403)
            return
        length = int(self.headers.get("Content-Length", 0))
        if length > self.max_size:
            self.send_error(413, "file too large")
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        created = not os.path.exists(path)
        with open(path, "wb") as f:
            remaining = length
            while remaining:
                chunk = self.rfile.read(min(65536, remaining))
                if not chunk:
                    break
                f.write(chunk)
                remaining -= len(chunk)
        self.send_response(201 if created else 204)
        self.end_headers()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("-p", "--port", type=int, default=8000)
    ap.add_argument("-d", "--directory", default=".")
    ap.add_argument("-b", "--bind", default="127.0.0.1")
    args = ap.parse_args()
    handler = functools.partial(UploadHandler, directory=args.directory)
    with ThreadingHTTPServer((args.bind, args.port), handler) as srv:
        print(f"http://{args.bind}:{args.port}/")
        try:
            srv.serve_forever()
        except KeyboardInterrupt:
            pass
