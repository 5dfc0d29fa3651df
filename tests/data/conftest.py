"""Shared pieces of the data tests: a cache folder, a config, a mirror if set, a misbehaving web server."""

import http.server
import os
import threading
import time
from pathlib import Path

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "network: asks the package index; skipped when it cannot be reached")


@pytest.fixture
def paths(tmp_path):
    return {"results": str(tmp_path / "results"), "datasets": str(tmp_path / "datasets"), "mirror": None}


@pytest.fixture
def mirror():
    place = os.environ.get("DGPBENCH_MIRROR")
    if not place or not (Path(place) / "github.com").is_dir():
        pytest.skip("needs a mirror folder: set DGPBENCH_MIRROR")
    return place


@pytest.fixture
def config(paths):
    """config(dataset, split=0, mirror=None, **protocol) -> what load_split reads of a composed config."""

    def make(dataset, split=0, mirror=None, **protocol):
        settings = {
            "name": "clean",
            "splits": 20,
            "split_rule": "shuffle",
            "train_fraction": 0.9,
            "scaling": "train",
            "validation": 0.0,
            "max_test": None,
            "fixed_test": True,
        }
        dataset = {"name": dataset} if isinstance(dataset, str) else dataset
        return {
            "dataset": dataset,
            "protocol": {**settings, **protocol},
            "split": split,
            "seed": 0,
            "paths": {**paths, "mirror": mirror},
        }

    return make


class Server:
    """Serves `content` on loopback; `script` holds what to do with the next requests, then all is well."""

    def __init__(self, content: bytes):
        self.content, self.script, self.requests = content, [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                act = outer.script.pop(0) if outer.script else "ok"
                if isinstance(act, int):
                    self.send_error(act)
                    return
                if act == "slow":
                    time.sleep(1.0)
                self.send_response(200)
                self.send_header("Content-Length", str(len(outer.content)))
                self.end_headers()
                if act == "cut":
                    self.wfile.write(outer.content[: len(outer.content) // 2])
                    return
                self.wfile.write(b"x" * len(outer.content) if act == "other" else outer.content)

            def log_message(self, *_):
                pass

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}"
        threading.Thread(target=self.httpd.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def server():
    made = Server(b"1,2,3\n" * 5000)
    yield made
    made.httpd.shutdown()
    made.httpd.server_close()
