#!/usr/bin/env python3
"""Run a command with secrets from Vault in its environment.

    vault_env_run.py secret/data/myapp -- ./manage.py migrate
"""
import os
import sys

import requests


def vault_token():
    if "VAULT_TOKEN" in os.environ:
        return os.environ["VAULT_TOKEN"]
    try:
        with open(os.path.expanduser("~/.vault-token")) as f:
            return f.read().strip()
    except FileNotFoundError:
        sys.exit("no Vault token: run `vault login` first")


def read_secret(path):
    addr = os.environ.get("VAULT_ADDR", "https://127.0.0.1:8200").rstrip("/")
    r = requests.get(
        f"{addr}/v1/{path}",
        headers={"X-Vault-Token": vault_token()},
        verify=os.environ.get("VAULT_CACERT", True),
        timeout=10,
    )
    if r.status_code == 403:
        sys.exit("permission denied by Vault")
    r.raise_for_status()
    data = r.json()["data"]
    return data.get("data", data)


def main():
    if "--" not in sys.argv or sys.argv.index("--") < 2:
        sys.exit(__doc__)
    split = sys.argv.index("--")
    paths, command = sys.argv[1:split], sys.argv[split + 1:]
    if not command:
        sys.exit("no command given")
    env = dict(os.environ)
    env.pop("VAULT_TOKEN", None)
    for path in paths:
        env.update({k.upper(): str(v) for k, v in read_secret(path).items()})
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main()
