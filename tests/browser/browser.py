"""A headless Chromium driven through chromedriver's WebDriver protocol: plain HTTP, nothing to install."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing() -> str | None:
    """What is not installed, or None."""
    for names, package in (
        (("chromium", "chromium-browser", "google-chrome"), "chromium"),
        (("chromedriver",), "chromium-driver"),
    ):
        if not any(map(shutil.which, names)):
            return f"no {names[0]} here (Debian: apt-get install {package})"
    return None


class Browser:
    def __init__(self, profile: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.base = f"http://127.0.0.1:{port}"
        options = {"args": [*ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        for attempt in range(100):  # until it listens
            try:
                found = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                break
            except urllib.error.URLError:
                if attempt == 99 or self.process.poll() is not None:
                    raise
                time.sleep(0.1)
        self.session = f"/session/{found['sessionId']}"

    def _call(self, method: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def post(self, path: str, **body):
        return self._call("POST", self.session + path, body)

    def open(self, path: Path, width: int, height: int, scheme: str) -> None:
        """The page at a device's size, in the light or dark that the system asks for."""
        phone = width < 600
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.post("/url", url=path.resolve().as_uri())

    def cdp(self, command: str, **params):
        return self.post("/goog/cdp/execute", cmd=command, params=params)

    def run(self, script: str, *arguments):
        """The value of a JavaScript function body."""
        return self.post("/execute/sync", script=script, args=list(arguments))

    def find(self, selector: str) -> dict:
        return self.post("/element", using="css selector", value=selector)

    def scroll_to(self, element: dict) -> None:
        """Bring it to the middle, and wait until the scrolling has been noticed."""
        script = """arguments[0].scrollIntoView({block: 'center', inline: 'center'});
        const done = arguments[1];
        requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)));"""
        self.post("/execute/async", script=script, args=[element])

    def click(self, element: dict) -> None:
        self.post(f"/element/{element[ELEMENT]}/click")

    def hover(self, element: dict) -> None:
        move = {"type": "pointerMove", "duration": 0, "origin": element, "x": 0, "y": 0}
        pointer = {"type": "pointer", "id": "mouse", "actions": [move]}
        self.post("/actions", actions=[pointer])

    def press(self, key: str) -> None:
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.post("/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def complaints(self) -> list[str]:
        """What the console said, errors and refused loads among it."""
        return [entry["message"] for entry in self.post("/se/log", type="browser")]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        data = self.cdp("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        try:
            self._call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(10)
