"""List the devices that answer a ping in the local network."""
import argparse
import ipaddress
import platform
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor


def ping(ip):
    count = "-n" if platform.system() == "Windows" else "-c"
    result = subprocess.run(
        ["ping", count, "1", "-W", "1", str(ip)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return ip if result.returncode == 0 else None


def hostname(ip):
    try:
        return socket.gethostbyaddr(str(ip))[0]
    except OSError:
        return "-"


def arp_table():
    try:
        out = subprocess.check_output(["ip", "neigh"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return {}
    return dict(re.findall(r"^(\S+) .*lladdr (\S+)", out, re.M))


def own_network():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 80))  # no packet is sent for UDP
        return ipaddress.ip_network(s.getsockname()[0] + "/24", strict=False)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("network", nargs="?", help="default: own /24")
    args = ap.parse_args()
    net = ipaddress.ip_network(args.network, strict=False) if args.network else own_network()
    if not net.is_private:
        ap.error("only private networks please")
    with ThreadPoolExecutor(64) as pool:
        alive = [ip for ip in pool.map(ping, net.hosts()) if ip]
    macs = arp_table()
    for ip in alive:
        print(f"{str(ip):<16} {macs.get(str(ip), '-'):<18} {hostname(ip)}")
    print(f"{len(alive)} hosts up in {net}")


if __name__ == "__main__":
    main()
