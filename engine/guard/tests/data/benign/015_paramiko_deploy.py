#!/usr/bin/env python3
"""Deploy the application over SSH."""
import argparse
import os
import sys
import tarfile
import tempfile
from datetime import datetime

import paramiko

EXCLUDE = {".git", "node_modules", "__pycache__", ".env", "venv"}


def build_tarball(source):
    fd, path = tempfile.mkstemp(suffix=".tar.gz")
    os.close(fd)
    with tarfile.open(path, "w:gz") as tar:
        tar.add(source, arcname=".", filter=lambda t: None if os.path.basename(t.name) in EXCLUDE else t)
    return path


def run(client, command):
    print(f"$ {command}")
    _, stdout, stderr = client.exec_command(command)
    code = stdout.channel.recv_exit_status()
    out = stdout.read().decode()
    if out:
        print(out, end="")
    if code != 0:
        raise RuntimeError(f"command failed ({code}): {stderr.read().decode()}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("host")
    ap.add_argument("--user", default="deploy")
    ap.add_argument("--key", default=os.path.expanduser("~/.ssh/id_ed25519"))
    ap.add_argument("--app", default="myapp")
    args = ap.parse_args()

    release = datetime.utcnow().strftime("%Y%m%d%H%M%S")
    base = f"/srv/{args.app}"
    tarball = build_tarball(".")

    client = paramiko.SSHClient()
    client.load_system_host_keys()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(args.host, username=args.user, key_filename=args.key)
        sftp = client.open_sftp()
        remote = f"/tmp/{args.app}-{release}.tar.gz"
        sftp.put(tarball, remote)
        sftp.close()

        run(client, f"mkdir -p {base}/releases/{release}")
        run(client, f"tar xzf {remote} -C {base}/releases/{release}")
        run(client, f"ln -sfn {base}/releases/{release} {base}/current")
        run(client, f"sudo systemctl restart {args.app}")
        run(client, f"rm -f {remote}")
        # keep the last five releases
        run(client, f"cd {base}/releases && ls -1t | tail -n +6 | xargs -r rm -rf")
        print("Deployed", release)
    except Exception as exc:
        print(f"Deployment failed: {exc}", file=sys.stderr)
        return 1
    finally:
        client.close()
        os.unlink(tarball)
    return 0


if __name__ == "__main__":
    sys.exit(main())
