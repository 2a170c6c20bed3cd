import ftplib
import json
import os
import sys
from pathlib import Path

LOCAL = Path("public")
STATE = Path(".ftp_state.json")


class Uploader:
    def __init__(self, host, user, password, base="/"):
        self.ftp = ftplib.FTP_TLS(host, timeout=30)
        self.ftp.login(user, password)
        self.ftp.prot_p()
        self.base = base.rstrip("/")
        self.made = set()

    def mkdirs(self, remote):
        parts = remote.strip("/").split("/")[:-1]
        path = self.base
        for part in parts:
            path += "/" + part
            if path in self.made:
                continue
            try:
                self.ftp.mkd(path)
            except ftplib.error_perm as e:
                if not str(e).startswith("550"):
                    raise
            self.made.add(path)

    def upload(self, local, remote):
        self.mkdirs(remote)
        with open(local, "rb") as f:
            self.ftp.storbinary(f"STOR {self.base}/{remote}", f)

    def delete(self, remote):
        try:
            self.ftp.delete(f"{self.base}/{remote}")
        except ftplib.error_perm as e:
            print(f"cannot delete {remote}: {e}")


def main():
    try:
        up = Uploader(os.environ["FTP_HOST"], os.environ["FTP_USER"], os.environ["FTP_PASS"], os.environ.get("FTP_BASE", "/"))
    except KeyError as e:
        sys.exit(f"missing environment variable {e}")
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    current = {p.relative_to(LOCAL).as_posix(): p.stat().st_mtime for p in LOCAL.rglob("*") if p.is_file()}
    for name, mtime in sorted(current.items()):
        if state.get(name) != mtime:
            print("upload", name)
            up.upload(LOCAL / name, name)
            state[name] = mtime
            STATE.write_text(json.dumps(state))
    for name in sorted(set(state) - set(current)):
        print("delete", name)
        up.delete(name)
        del state[name]
    STATE.write_text(json.dumps(state))
    up.ftp.quit()


if __name__ == "__main__":
    main()
