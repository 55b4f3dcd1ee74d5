"""A small client of WebDriver (the W3C protocol): a Chromium without a window, for the tests of the console."""

import base64
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.cli.conftest import free_port

__all__ = ("Chromium", "chromium")

_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
)


class Chromium:
    """One window."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._at = f"/session/{session}"

    def open(self, address: str) -> None:
        self._call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        """Run the body of a function in the page; a promise is waited for."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def shows(self, expected: str, of: str = "return document.title") -> bool:
        """Wait until a script of the page returns this text: a click can return before the next page is there.

        Never returns false: the time limit of the test ends a wait that is in vain.
        """
        while True:
            answer = self._client.post(f"{self._at}/execute/sync", json={"script": of, "args": []})
            if answer.status_code == 200 and answer.json()["value"] == expected:
                return True

    def click(self, xpath: str) -> None:
        self._on(xpath, "click", {})

    def type(self, xpath: str, text: str) -> None:
        self._on(xpath, "value", {"text": text})

    def keys(self, text: str) -> None:
        """Press keys where the focus is."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def size(self, width: int, height: int, *, is_mobile: bool, colours: str) -> None:
        """Set the size of the page, also below the least width of a window, and the colours that the person prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_mobile}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        self._devtools("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": colours}]})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def _on(self, xpath: str, action: str, body: dict[str, Any]) -> None:
        """Do something to an element. A live page can replace the element after it was found: then it is found again."""
        tries = 10
        while True:
            tries -= 1
            answer = self._client.post(f"{self._at}/element/{self._find(xpath)}/{action}", json=body)
            if answer.status_code == 200:
                return
            is_stale = "stale element" in answer.text
            assert is_stale, answer.json()["value"]
            assert tries, "the page replaced the element again and again"

    def _find(self, xpath: str) -> str:
        found: dict[str, str] = self._call("POST", "/element", {"using": "xpath", "value": xpath})
        return found[_ELEMENT]

    def _devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._client.request(method, self._at + path, json=body)
        value = answer.json()["value"]
        assert 200 == answer.status_code, value
        return value


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Give a new window. Skips the test if Debian's packages are not installed."""
    driver = shutil.which("chromedriver")
    browser = shutil.which("chromium")
    if driver is None or browser is None:
        pytest.skip("there is no chromium, or no chromedriver: apt-get install chromium chromium-driver")
    port = free_port()
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        assert any("started successfully" in line for line in process.stdout)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            options = {"goog:chromeOptions": {"binary": browser, "args": list(_ARGUMENTS)}}
            # An element that is looked for can come with the next page.
            wanted = {**options, "timeouts": {"implicit": 20_000}}
            answer = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()["value"]
            window = Chromium(client, answer["sessionId"])
            try:
                yield window
            finally:
                with suppress(httpx.HTTPError):
                    client.delete(f"/session/{answer['sessionId']}")
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
