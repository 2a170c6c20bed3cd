"""Control service for the Raspberry Pi: JSON lines over TCP, authenticated with an HMAC."""
import hashlib
import hmac
import json
import os
import socketserver
import subprocess
import time

SECRET = os.environ["PI_SECRET"].encode()
MAX_SKEW = 30

COMMANDS = {
    "uptime": ["uptime", "-p"],
    "temperature": ["vcgencmd", "measure_temp"],
    "disk": ["df", "-h", "/"],
    "restart-kodi": ["sudo", "systemctl", "restart", "kodi"],
    "reboot": ["sudo", "reboot"],
}


def sign(command, ts):
    return hmac.new(SECRET, f"{command}:{ts}".encode(), hashlib.sha256).hexdigest()


def execute(request):
    command, ts, mac = request["command"], int(request["ts"]), request["mac"]
    if abs(time.time() - ts) > MAX_SKEW or not hmac.compare_digest(sign(command, ts), mac):
        return {"error": "authentication failed"}
    if command not in COMMANDS:
        return {"error": "unknown command", "commands": sorted(COMMANDS)}
    proc = subprocess.run(COMMANDS[command], capture_output=True, text=True, timeout=20)
    return {"code": proc.returncode, "output": proc.stdout or proc.stderr}


class Handler(socketserver.StreamRequestHandler):
    timeout = 30

    def handle(self):
        for line in self.rfile:
            try:
                reply = execute(json.loads(line))
            except (ValueError, KeyError, TypeError):
                reply = {"error": "bad request"}
            except subprocess.TimeoutExpired:
                reply = {"error": "timeout"}
            print(self.client_address[0], reply.get("error", "ok"))
            self.wfile.write(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("0.0.0.0", 7070), Handler) as server:
        server.serve_forever()
