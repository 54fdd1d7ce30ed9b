"""Chromium with one page, driven by its debugging pipe: keys as a person presses them, and questions to the page."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowRight": 39, "ArrowDown": 40}
TEXTS = {"Enter": "\r", " ": " "}
LONGEST_WAIT = 120.0
FOCUSED = """(() => {
  const one = document.activeElement, style = getComputedStyle(one), after = getComputedStyle(one, "::after");
  const drawn = [style, after].some((s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0);
  const box = one.getBoundingClientRect();
  const seen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const name = one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.[0]?.textContent;
  return { tag: one.tagName.toLowerCase(), id: one.id, name, drawn, seen };
})()"""


class RefusedCommand(Exception):
    """The browser answered a command with an error."""


class Chromium:
    """A browser of its own profile. It is asked over file descriptors 3 and 4, so no port is taken."""

    def __init__(self, program: str, profile: Path, size: str = "1280,900") -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--window-size={size}",
        ]
        command = [program, *options, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        # The shell moves the pipes to the two numbers that Chromium reads, which the parent may use for something else.
        moved = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", moved, *command],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._sent, self._session = b"", 0, None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Page.bringToFront")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command, and wait for its answer. Events of the browser are passed over."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                part = os.read(self._in, 65536)
                assert part, "Chromium ended"
                self._buffer += part
            text, self._buffer = self._buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RefusedCommand(answer["error"]["message"])
                result: dict[str, Any] = answer["result"]
                return result

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + LONGEST_WAIT
        while True:
            # A page that is just being left refuses every question.
            with suppress(RefusedCommand):
                if self.ask(expression):
                    return
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def open(self, url: str, heading: str) -> None:
        """Open a page anew, and wait for the heading of its view."""
        self.send("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.send("Page.navigate", url=url)
        self.wait_for_view(heading)

    def wait_for_view(self, heading: str) -> None:
        text = json.dumps(heading)
        self.wait(f"document.querySelector('#main:not([aria-busy]) h1')?.textContent === {text}")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release one key."""
        pressed: dict[str, Any] = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": KEYS[key],
        }
        pressed["modifiers"] = 8 if shift else 0
        text = {"text": TEXTS[key]} if key in TEXTS else {}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **pressed, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def focused(self) -> dict[str, Any]:
        """The element that has the focus: tag, id, name, whether an outline is drawn, whether it is in sight."""
        found: dict[str, Any] = self.ask(FOCUSED)
        return found

    def tab_to(self, condition: str, most: int = 200) -> dict[str, Any]:
        """Press Tab until the element with the focus, `e`, fits a JavaScript condition."""
        for _ in range(most):
            self.press("Tab")
            if self.ask(f"((e) => {condition})(document.activeElement)"):
                return self.focused()
        raise AssertionError(f"no element with {condition} within {most} tabs; the last was {self.focused()}")

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        self.process.wait(timeout=LONGEST_WAIT)
        os.close(self._out)
        os.close(self._in)
