#!/usr/bin/env python3
"""Install a systemd user timer for a command.

    systemd_timer_installer.py backup --on-calendar daily -- /home/me/bin/backup.sh --full
"""
import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

UNIT_DIR = Path.home() / ".config" / "systemd" / "user"

SERVICE = """[Unit]
Description={name} (installed by timer script)

[Service]
Type=oneshot
ExecStart={command}
Nice=10
"""

TIMER = """[Unit]
Description=Timer for {name}

[Timer]
OnCalendar={calendar}
Persistent=true
RandomizedDelaySec=120

[Install]
WantedBy=timers.target
"""


def systemctl(*args):
    subprocess.run(["systemctl", "--user", *args], check=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("name")
    ap.add_argument("--on-calendar", default="daily")
    ap.add_argument("--remove", action="store_true")
    ap.add_argument("command", nargs="*")
    args = ap.parse_args()
    service, timer = UNIT_DIR / f"{args.name}.service", UNIT_DIR / f"{args.name}.timer"

    if args.remove:
        systemctl("disable", "--now", timer.name)
        for unit in (service, timer):
            unit.unlink(missing_ok=True)
        systemctl("daemon-reload")
        return
    if not args.command:
        ap.error("a command is required")
    exe = shutil.which(args.command[0]) or sys.exit(f"{args.command[0]} not found")
    subprocess.run(["systemd-analyze", "calendar", args.on_calendar], check=True)

    UNIT_DIR.mkdir(parents=True, exist_ok=True)
    command = shlex.join([exe, *args.command[1:]])
    service.write_text(SERVICE.format(name=args.name, command=command))
    timer.write_text(TIMER.format(name=args.name, calendar=args.on_calendar))
    systemctl("daemon-reload")
    systemctl("enable", "--now", timer.name)
    systemctl("list-timers", timer.name)


if __name__ == "__main__":
    main()
