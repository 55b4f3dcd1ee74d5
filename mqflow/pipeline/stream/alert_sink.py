"""Sends each alert of `gold.poison_alert` to a webhook or a command, at least once.

A file beside the tables records each alert after the answer of the receiver. If the process is killed before this record, the
next run sends the alert again, with the same key. So a receiver must ignore an alert with a known key. Gold counts an open
window again in each round. An alert is sent when its row first exists, and not again when its numbers grow. This file loads no
Spark.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPException
from tempfile import TemporaryFile
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from msgspec import Struct

from mqflow.folders import Folder
from mqflow.pipeline.errors import PipelineError

__all__ = ("Alert", "AlertError", "Command", "Sender", "Webhook", "begin", "send")

_TIMEOUT_S: Final = 30
_SAID_BYTES: Final = 200
_URL: Final = re.compile(r"[!-~]+")
_KEY_DIGITS: Final = 32


class Alert(Struct, frozen=True, kw_only=True):
    """A row of `gold.poison_alert`. Times are microseconds since 1970."""

    qmgr: str | None
    queue: str | None
    handler: str | None
    window_start_us: int
    window_end_us: int
    messages: int
    poisoned: int
    poison_rate: float
    expected_rate: float
    score: float
    #: The MsgId of the first poison message, in hexadecimal digits.
    first_msg_id: str | None
    exc_class: str | None

    @property
    def key(self) -> str:
        """The idempotency key. In every process, the alerts for one window of one handler have the same key."""
        parts = (self.qmgr, self.queue, self.handler, self.window_start_us, self.window_end_us)
        return sha256(msgspec.json.encode(parts)).hexdigest()[:_KEY_DIGITS]

    @property
    def body(self) -> bytes:
        """The alert as a JSON object, with its key."""
        return msgspec.json.encode({"key": self.key, **msgspec.to_builtins(self)})


class AlertError(PipelineError):
    """A receiver did not take an alert. The stream keeps the alert, and sends it in the next round."""


class Sender(Protocol):
    """A receiver of alerts."""

    @property
    def name(self) -> str:
        """The name under which the sent alerts are recorded."""
        ...

    def send(self, alert: Alert) -> None:
        """Send the alert, and return after the receiver has taken it.

        Raises `AlertError` if the receiver refused the alert, or if nobody knows whether the receiver has taken it.
        """


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, because urllib asks the other address with GET, without the alert."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Return None, which makes urllib raise `HTTPError` with the status of the redirect."""


class Webhook(Struct, frozen=True):
    """An HTTP server that gets each alert as a POST. Any status from 200 to 299 means that the server has taken the alert.

    A redirect is a refusal.
    """

    url: str
    timeout_s: float = _TIMEOUT_S

    @property
    def name(self) -> str:
        """See `Sender`. The name is the same for every URL, so a new URL gets no alert that an old URL got."""
        return "webhook"

    def send(self, alert: Alert) -> None:
        """See `Sender`. Errors do not show the path of the URL, which is often a secret."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": alert.key}
        request = Request(self.url, alert.body, headers, method="POST")  # noqa: S310 - `check` allows http and https only
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.timeout_s):
                return
        except (OSError, HTTPException) as error:  # HTTPException: the answer is not HTTP
            if isinstance(error, HTTPError):
                error.close()
            parts = urlsplit(self.url)
            raise AlertError(f"The webhook {parts.scheme}://{parts.hostname} did not take an alert: {error}.") from error

    def check(self) -> None:
        """Raise `AlertError` if the URL cannot be that of a webhook. The error does not show the URL."""
        if not _is_web_address(self.url):
            raise AlertError(
                "The URL of the webhook must start with http:// or https://, and name a host. A port must be a number. Write "
                "spaces, and characters that are not ASCII, as %XX."
            )


class Command(Struct, frozen=True):
    """A program that gets each alert as JSON on its stdin, and the key as MQFLOW_ALERT_KEY.

    With exit code 0, the program has taken the alert.
    """

    arguments: tuple[str, ...]
    timeout_s: float = _TIMEOUT_S

    @property
    def name(self) -> str:
        """See `Sender`."""
        return "command"

    def send(self, alert: Alert) -> None:
        """See `Sender`. A program that runs longer than `timeout_s` is killed, and has not taken the alert."""
        refused = f"The alert command {self.arguments[0]} did not take an alert"
        # A file, not a pipe: a program that the command leaves running keeps its output open.
        with TemporaryFile() as errors:
            try:
                ended = subprocess.run(  # noqa: S603 - the user names the program
                    self.arguments,
                    input=alert.body,
                    env=os.environ | {"MQFLOW_ALERT_KEY": alert.key},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    timeout=self.timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise AlertError(f"{refused}: it ran longer than {self.timeout_s:g} s, and was killed.") from error
            except OSError as error:
                raise AlertError(f"{refused}: {error}.") from error
            if ended.returncode:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - _SAID_BYTES))
                text = errors.read(_SAID_BYTES).decode(errors="replace").strip()
                raise AlertError(f"{refused}: it ended with {ended.returncode}. {text}")


class _Known(Struct, frozen=True):
    """The contents of the file of a sender: the alerts that were there before its first start."""

    known: tuple[str, ...]


def begin(folder: Folder, sender: Sender, alerts: Sequence[Alert]) -> None:
    """Start the record of a sender in this folder: alerts that exist now are never sent. Later calls do nothing."""
    folder.make()
    with suppress(FileExistsError):
        folder.create(_file(sender), msgspec.json.encode(_Known(tuple(each.key for each in alerts))))


def send(folder: Folder, sender: Sender, alerts: Sequence[Alert]) -> int:
    """Send the alerts that the record of the sender does not have, the oldest first; return how many were sent.

    Raises `AlertError` at the first alert that was not taken. The alerts before it are recorded.
    """
    known = set(msgspec.json.decode(folder.read(_file(sender)), type=_Known).known)
    known |= {each.name.removeprefix(f"{sender.name}-") for each in folder.files()}
    new = {each.key: each for each in sorted(alerts, key=lambda each: each.window_end_us) if each.key not in known}
    for key, alert in new.items():
        sender.send(alert)
        with suppress(FileExistsError):  # another stream has sent the alert too
            folder.create(f"{sender.name}-{key}", alert.body)
    return len(new)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and bool(_URL.fullmatch(url))
    except ValueError:  # a port that is not a number, an address of IPv6 without its end
        return False


def _file(sender: Sender) -> str:
    return f"{sender.name}.json"
