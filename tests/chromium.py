"""A real browser for tests: headless Chromium, spoken to over a pipe by its own protocol."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)

LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from 3 and answers on 4."""


class Browser:
    """One tab. Everything it complains of, and every address it asks for, is kept."""

    def __init__(self, commands, answers):
        self._commands, self._answers, self._number = commands, answers, 0
        self.complaints, self.requests = [], []
        self._session = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def show(self, address, width, height=900, scheme="light"):
        """Open a page in a window of that size, and wait until it is complete."""
        self.complaints, self.requests = [], []
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._ask("Page.navigate", url=address)
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression):
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path):
        """All of the page as a PNG file."""
        data = self._ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _ask(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self):
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "Chromium has gone."
            data += byte
        message = json.loads(data)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown" or (
            method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert")
        ):
            self.complaints.append(parameters)
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"])
        return message


@contextmanager
def browser():
    """Start Chromium, and end it."""
    to_read, to_write = os.pipe()
    answers, answering = os.pipe()
    # these must be out of the way of 3 and 4, and no code may run between fork and exec beside JAX's threads
    commands, results = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, answering))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(commands), str(results), PROGRAM, *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands, results),
        )
        for end in (to_read, answering, commands, results):
            os.close(end)
        try:
            with os.fdopen(answers, "rb") as stream:
                yield Browser(to_write, stream)
        finally:
            os.close(to_write)
            process.terminate()
            process.wait(20)
