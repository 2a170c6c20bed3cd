"""Set up my tray application for the current Windows user."""
import argparse
import ctypes
import os
import subprocess
import sys
import winreg
from pathlib import Path

ENV_KEY = r"Environment"


def get_user_env(name):
    with winreg.OpenKey(winreg.HKEY_CURRENT_USER, ENV_KEY) as key:
        try:
            return winreg.QueryValueEx(key, name)[0]
        except FileNotFoundError:
            return ""


def set_user_env(name, value):
    kind = winreg.REG_EXPAND_SZ if "%" in value else winreg.REG_SZ
    with winreg.OpenKey(winreg.HKEY_CURRENT_USER, ENV_KEY, 0, winreg.KEY_SET_VALUE) as key:
        winreg.SetValueEx(key, name, 0, kind, value)


def add_to_path(folder):
    parts = [p for p in get_user_env("Path").split(";") if p]
    if any(os.path.normcase(p) == os.path.normcase(str(folder)) for p in parts):
        return
    set_user_env("Path", ";".join(parts + [str(folder)]))
    print("added to PATH:", folder)


def broadcast():
    # tell running programs that the environment was changed
    ctypes.windll.user32.SendMessageTimeoutW(0xFFFF, 0x1A, 0, "Environment", 2, 5000, None)


def create_shortcut(target, name):
    startup = Path(os.environ["APPDATA"]) / r"Microsoft\Windows\Start Menu\Programs\Startup"
    link = startup / f"{name}.lnk"
    script = (
        f"$s = (New-Object -ComObject WScript.Shell).CreateShortcut('{link}');"
        f"$s.TargetPath = '{target}'; $s.WorkingDirectory = '{target.parent}'; $s.Save()"
    )
    subprocess.run(["powershell", "-NoProfile", "-Command", script], check=True)
    print("autostart entry:", link)


def main():
    if sys.platform != "win32":
        sys.exit("this script is for Windows")
    ap = argparse.ArgumentParser()
    ap.add_argument("app", type=Path)
    ap.add_argument("--autostart", action="store_true")
    args = ap.parse_args()
    app = args.app.resolve()
    set_user_env("MYTRAY_HOME", str(app.parent))
    add_to_path(app.parent)
    broadcast()
    if args.autostart:
        create_shortcut(app, "MyTray")


if __name__ == "__main__":
    main()
