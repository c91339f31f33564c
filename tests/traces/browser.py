"""A real headless Chromium, driven over the DevTools protocol through a pair of pipes: no port, no other package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MISSING = (
    "This test needs Chromium, and it is not there. Install Debian's package: apt-get install chromium "
    "(make test does so where it may), or name the program in CHROMIUM."
)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--window-size=1240,900",
]
COMPLAINTS = (
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
    "Audits.issueAdded",
    "Page.javascriptDialogOpening",
)
PATIENCE_S = 30

# It reads commands from 3, and answers at 4.
START = """
import os, sys
from fcntl import F_DUPFD, fcntl
for pipe, place in [(fcntl(int(sys.argv[1]), F_DUPFD, 9), 3), (fcntl(int(sys.argv[2]), F_DUPFD, 9), 4)]:
    os.dup2(pipe, place)
os.execvp(sys.argv[3], sys.argv[3:])
"""

Answer = dict[str, Any]


class BrowserError(Exception):
    """The browser is missing, has gone, or refuses."""


def chromium_program() -> str:
    """The program.

    Raises:
        BrowserError: there is none.
    """
    named = os.environ.get("CHROMIUM")
    program = shutil.which(named) if named else shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise BrowserError(MISSING)
    return program


class Browser:
    """One browser with an empty profile."""

    def __init__(self) -> None:
        program = chromium_program()
        self._profile = tempfile.mkdtemp(prefix="chromium")
        reads, self._out = os.pipe()
        self._in, writes = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-c", START, str(reads), str(writes)),
                *(program, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"),
            ],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._left = b""
        self._number = 0
        self.heard: list[Answer] = []
        """Events, in order."""

    def close(self) -> None:
        """End it, and remove its profile."""
        os.close(self._out)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **params: Any) -> Answer:
        """What the browser answers to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self.heard.append(answer)

    def wait_for(self, method: str, session: str) -> Answer:
        """The next event of that name, heard or to come; it is then forgotten."""
        while True:
            for event in self.heard:
                if event.get("method") == method and event.get("sessionId") == session:
                    self.heard.remove(event)
                    return event["params"]
            self.heard.append(self._read())

    def _read(self) -> Answer:
        ends = time.monotonic() + PATIENCE_S
        while b"\0" not in self._left:
            if not select.select([self._in], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise BrowserError(f"Chromium has not answered within {PATIENCE_S} s")
            more = os.read(self._in, 1 << 20)
            if not more:
                raise BrowserError("Chromium has ended")
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)


class Page:
    """One tab, which shows a file."""

    def __init__(self, browser: Browser, file: Path, *, scheme: str = "light", script: bool = True) -> None:
        self._browser = browser
        self._script = script
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.heard.clear()
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.do(f"{domain}.enable")
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.do("Emulation.setScriptExecutionDisabled", value=not script)
        self.url = file.resolve().as_uri()
        began = time.perf_counter()
        self.do("Page.navigate", url=self.url)
        browser.wait_for("Page.loadEventFired", self._session)
        self.loading_s = time.perf_counter() - began

    def do(self, method: str, **params: Any) -> Answer:
        """A command for this tab."""
        return self._browser.call(method, self._session, **params)

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def get(self, expression: str) -> Any:
        """The value of an expression, as JSON has it; a promise is awaited."""
        answer = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2_000])
        return answer["result"].get("value")

    def settled(self) -> None:
        """Wait until what was done is on the screen."""
        self.do("Page.bringToFront")  # nothing is drawn of a tab behind another
        if self._script:
            self.get("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        else:
            self.picture(0, 1)

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        down = {"type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text}
        self.do("Input.dispatchKeyEvent", **down)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settled()

    def complaints(self) -> list[str]:
        """What the browser said of the page: errors, violations of its policy, exceptions."""
        self.settled()
        return [
            json.dumps(event["params"])[:600]
            for event in self._browser.heard
            if event.get("sessionId") == self._session and event["method"] in COMPLAINTS
        ]

    def requested(self) -> list[str]:
        """The addresses that were asked for, beside the page itself."""
        requests = [
            event["params"]["request"]["url"]
            for event in self._browser.heard
            if event.get("method") == "Network.requestWillBeSent" and event.get("sessionId") == self._session
        ]
        return [address for address in requests if address.partition("#")[0] != self.url]

    def picture(self, top: int, height: int) -> bytes:
        """A part of the page as PNG: pixels from its top, and how many."""
        width = self.get("innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        answer = self.do("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])
