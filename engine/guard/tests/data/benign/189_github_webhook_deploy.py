"""Deploy on push: receives GitHub webhooks and updates the checkout."""
import hashlib
import hmac
import logging
import os
import subprocess
import threading

from flask import Flask, abort, request

SECRET = os.environ["WEBHOOK_SECRET"].encode()
REPO_DIR = os.environ.get("REPO_DIR", "/srv/app")
BRANCH = "refs/heads/main"

logging.basicConfig(level=logging.INFO)
app = Flask(__name__)
deploy_lock = threading.Lock()


def valid_signature(body, header):
    if not header or not header.startswith("sha256="):
        return False
    expected = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, header[7:])


def deploy():
    if not deploy_lock.acquire(blocking=False):
        app.logger.info("a deploy is already running")
        return
    try:
        for cmd in (
            "git fetch origin main",
            "git reset --hard origin/main",
            "venv/bin/pip install -q -r requirements.txt",
            "sudo systemctl restart app.service",
        ):
            app.logger.info("$ %s", cmd)
            subprocess.run(cmd, shell=True, cwd=REPO_DIR, check=True, timeout=300)
    except subprocess.SubprocessError:
        app.logger.exception("deploy failed")
    finally:
        deploy_lock.release()


@app.post("/hooks/github")
def hook():
    if not valid_signature(request.get_data(), request.headers.get("X-Hub-Signature-256")):
        abort(403)
    event = request.headers.get("X-GitHub-Event")
    if event == "ping":
        return "pong"
    payload = request.get_json()
    if event == "push" and payload.get("ref") == BRANCH:
        threading.Thread(target=deploy, daemon=True).start()
        return "deploying", 202
    return "ignored", 200


if __name__ == "__main__":
    app.run(port=9001)
