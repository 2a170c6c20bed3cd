#!/usr/bin/env python3
"""Development helper around docker compose.

    ./dev.py up
    ./dev.py logs api
    ./dev.py reset-db
"""
import subprocess
import sys

COMPOSE = ["docker", "compose", "-f", "docker-compose.yml", "-f", "docker-compose.dev.yml"]


def compose(*args, check=True):
    return subprocess.run([*COMPOSE, *args], check=check)


def up(*services):
    compose("up", "-d", "--build", *services)
    compose("ps")


def down():
    compose("down", "--remove-orphans")


def logs(*services):
    compose("logs", "-f", "--tail=100", *services, check=False)


def shell(service="api"):
    compose("exec", service, "sh", "-c", "command -v bash >/dev/null && exec bash || exec sh", check=False)


def reset_db():
    if input("This deletes the local database. Continue? [y/N] ") != "y":
        return
    compose("stop", "api", "worker")
    compose("exec", "-T", "db", "psql", "-U", "app", "-d", "postgres", "-c", "DROP DATABASE IF EXISTS app WITH (FORCE)")
    compose("exec", "-T", "db", "createdb", "-U", "app", "app")
    compose("run", "--rm", "api", "alembic", "upgrade", "head")
    compose("run", "--rm", "api", "python", "-m", "app.seed")
    compose("start", "api", "worker")


COMMANDS = {f.__name__.replace("_", "-"): f for f in (up, down, logs, shell, reset_db)}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: dev.py {{{'|'.join(COMMANDS)}}}")
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except subprocess.CalledProcessError as e:
        sys.exit(e.returncode)
    except KeyboardInterrupt:
        pass
