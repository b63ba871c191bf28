"""A headless Chromium, spoken to in the DevTools protocol over two pipes."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]
PATIENCE = 120  # seconds without an answer: something hangs


class Browser:
    """One page. complaints: what was written to the console; requests: all addresses that were asked for."""

    def __init__(self, profile):
        (to_read, self.output), (self.input, to_write) = (self._high(os.pipe()) for _ in range(2))
        self.process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=lambda: (os.dup2(to_read, 3), os.dup2(to_write, 4)),
        )
        os.close(to_read)
        os.close(to_write)
        self.count, self.pending, self.complaints, self.requests, self.session = 0, b"", [], [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    @staticmethod
    def _high(ends):
        """The same pipe by numbers that 3 and 4 cannot be."""
        found = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.output)
        os.close(self.input)
        self.process.terminate()
        self.process.wait(PATIENCE)

    def ask(self, method, **params):
        """The answer to one command."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.count:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.input], [], [], max(0, end - time.monotonic()))
            part = os.read(self.input, 1 << 20) if ready else b""
            assert part, "Chromium does not answer"
            self.pending += part
        first, _, self.pending = self.pending.partition(b"\0")
        message = json.loads(first)
        if message.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(message["params"])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message

    def open(self, path, width, height=844, dark=False):
        """Loads a file as a screen of that width has it; as a phone's where it is narrow."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=Path(path).resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        """The value of a script's expression."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"]["value"]

    def picture(self, path, height=None):
        """Saves the page, or its upper part, as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(found["data"]))

    def paper(self, path):
        """Saves the page as it is printed."""
        found = self.ask("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        Path(path).write_bytes(base64.b64decode(found["data"]))
