"""Announce and discover services in the local network with UDP broadcasts."""
import json
import socket
import sys
import time

PORT = 50505
MAGIC = "svc-discovery-v1"


def announce(name, service_port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        message = json.dumps({"magic": MAGIC, "name": name, "port": service_port}).encode()
        print(f"announcing {name}:{service_port}, Ctrl-C to stop")
        while True:
            s.sendto(message, ("255.255.255.255", PORT))
            time.sleep(2)


def discover(seconds=6):
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", PORT))
        end = time.time() + seconds
        while time.time() < end:
            s.settimeout(max(0.1, end - time.time()))
            try:
                data, (ip, _) = s.recvfrom(1024)
                info = json.loads(data)
            except socket.timeout:
                break
            except ValueError:
                continue
            if info.get("magic") == MAGIC:
                found[(ip, info["port"])] = info["name"]
    for (ip, port), name in sorted(found.items()):
        print(f"{name:<20} {ip}:{port}")


if __name__ == "__main__":
    try:
        if len(sys.argv) == 3:
            announce(sys.argv[1], int(sys.argv[2]))
        else:
            discover()
    except KeyboardInterrupt:
        pass
