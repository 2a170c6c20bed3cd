"""Deployment tasks: fab -H web1.example.com deploy"""
from datetime import datetime

from fabric import task
from invoke.exceptions import UnexpectedExit

APP = "/srv/shop"
REPO = "git@github.com:example/shop.git"
KEEP = 5


def release_dirs(c):
    out = c.run(f"ls -1 {APP}/releases", hide=True).stdout.split()
    return sorted(out)


@task
def deploy(c, branch="main"):
    release = datetime.now().strftime("%Y%m%d%H%M%S")
    path = f"{APP}/releases/{release}"
    c.run(f"git clone --depth 1 --branch {branch} {REPO} {path}")
    c.run(f"ln -s {APP}/shared/.env {path}/.env")
    c.run(f"ln -s {APP}/shared/media {path}/media")
    with c.cd(path):
        c.run("python3 -m venv venv && venv/bin/pip install -q -r requirements.txt")
        c.run("venv/bin/python manage.py migrate --noinput")
        c.run("venv/bin/python manage.py collectstatic --noinput -v0")
    c.run(f"ln -sfn {path} {APP}/current")
    c.sudo("systemctl reload gunicorn")
    for old in release_dirs(c)[:-KEEP]:
        c.run(f"rm -rf {APP}/releases/{old}")


@task
def rollback(c):
    current = c.run(f"basename $(readlink {APP}/current)", hide=True).stdout.strip()
    older = [r for r in release_dirs(c) if r < current]
    if not older:
        print("no older release")
        return
    c.run(f"ln -sfn {APP}/releases/{older[-1]} {APP}/current")
    c.sudo("systemctl reload gunicorn")
    print(f"rolled back from {current} to {older[-1]}")


@task
def logs(c, lines=100):
    try:
        c.sudo(f"journalctl -u gunicorn -n {lines} -f", pty=True)
    except (KeyboardInterrupt, UnexpectedExit):
        pass
