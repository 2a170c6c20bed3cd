import concurrent.futures
import re
import subprocess
import sys

COMMAND = "df -P / | tail -1 | awk '{print $5}'; uptime -p; free -m | awk '/Mem/ {printf \"%d\\n\", $3 * 100 / $2}'"


def check(host):
    try:
        p = subprocess.run(
            ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host, COMMAND],
            capture_output=True, text=True, timeout=20,
        )
    except subprocess.TimeoutExpired:
        return host, None, "timeout"
    if p.returncode:
        return host, None, p.stderr.strip().splitlines()[-1] if p.stderr else f"exit {p.returncode}"
    disk, up, mem = p.stdout.strip().splitlines()
    return host, (int(disk.rstrip("%")), int(mem), up.removeprefix("up ")), None


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "hosts.txt"
    hosts = [h for h in (re.sub(r"#.*", "", line).strip() for line in open(path)) if h]
    problems = 0
    print(f"{'host':<30} {'disk':>5} {'mem':>5}  uptime")
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        for host, data, error in pool.map(check, hosts):
            if error:
                problems += 1
                print(f"{host:<30} ERROR {error}")
                continue
            disk, mem, up = data
            flag = " !" if disk > 85 or mem > 90 else ""
            problems += bool(flag)
            print(f"{host:<30} {disk:>4}% {mem:>4}%  {up}{flag}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
