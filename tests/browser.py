"""A headless Chromium, driven by the DevTools protocol through two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
from itertools import count

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Chromium refuses its sandbox to root; without the others it asks for hosts of its maker.
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--remote-debugging-pipe",
)
PATIENCE = 60  # seconds


class Browser:
    """One page of a browser; `with` ends it.

    Args:
      profile: an empty folder, for what the browser stores.
    """

    def __init__(self, profile):
        read, self.commands = os.pipe()
        self.answers, write = os.pipe()
        pipes = f'exec "$@" 3<&{read} 4>&{write}'  # the protocol reads from 3 and writes to 4
        line = ["bash", "-c", pipes, "bash", PROGRAM, *OPTIONS, f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(line, pass_fds=(read, write), stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self.received, self.numbers, self.session, self.events = b"", count(1), {}, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.call("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = {}
        self.call("Browser.close")
        self.process.wait(20)
        os.close(self.commands)
        os.close(self.answers)

    def call(self, method, **params):
        """Calls a method of the protocol; returns its result."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params, **self.session}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        answer = self._next(lambda message: message.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self, wanted):
        """The next message that is wanted; events that come before it are kept."""
        while True:
            while b"\0" not in self.received:
                ready, _, _ = select.select([self.answers], [], [], PATIENCE)
                read = os.read(self.answers, 1 << 16) if ready else b""
                if not read:
                    raise RuntimeError(f"{PROGRAM} has ended, or is silent for {PATIENCE} s")
                self.received += read
            one, _, self.received = self.received.partition(b"\0")
            message = json.loads(one)
            if wanted(message):
                return message
            self.events.append(message.get("method"))

    def show(self, width, scheme, height=900):
        """Gives the window a width, and the system a preference for `light` or `dark`."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path):
        """Opens a file, or `path?query`, and waits until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        if "Page.loadEventFired" not in self.events:
            self._next(lambda message: message.get("method") == "Page.loadEventFired")

    def run(self, script):
        """The value of a JavaScript expression, awaited, as if a user had asked for it."""
        how = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        told = self.call("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in told:
            raise RuntimeError(told["exceptionDetails"]["exception"].get("description", "an exception"))
        return told["result"].get("value")

    def picture(self, **clip):
        """A PNG file of a rectangle of the page, such as x=0, y=0, width=420, height=900."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={**clip, "scale": 1})
        return base64.b64decode(shot["data"])
