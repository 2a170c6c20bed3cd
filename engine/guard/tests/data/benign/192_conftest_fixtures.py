"""Shared pytest fixtures."""
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


@pytest.fixture
def clean_env(monkeypatch):
    """Remove all APP_ variables from the environment."""
    for name in list(os.environ):
        if name.startswith("APP_"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def config_dir(tmp_path, monkeypatch):
    path = tmp_path / "config"
    path.mkdir()
    (path / "settings.json").write_text(json.dumps({"debug": True}))
    monkeypatch.setenv("APP_CONFIG_DIR", str(path))
    return path


class FakeServer(HTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), FakeHandler)
        self.responses = {}
        self.requests = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def reply(self, method, path, status=200, body=None):
        self.responses[(method, path)] = (status, json.dumps(body or {}).encode())


class FakeHandler(BaseHTTPRequestHandler):
    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.server.requests.append((self.command, self.path, self.rfile.read(length)))
        status, body = self.server.responses.get((self.command, self.path), (404, b"{}"))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def log_message(self, *args):
        pass


@pytest.fixture
def fake_server():
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run slow tests")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="needs --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
