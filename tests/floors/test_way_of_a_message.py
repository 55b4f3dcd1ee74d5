"""The two lists in docs/architecture.md, of a healthy and of a poison message, name the files in the order of their calls."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.app.handlers.context import Context
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.policy.poison.disposition import Outcome
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"

#: Files that the lists name and that an embedded queue manager in memory does not run: two protocols, and the way to IBM MQ.
NOT_CALLED = frozenset({
    "mqflow/runtime/connection/session.py",
    "mqflow/verbs.py",
    "mqflow/bindings/connection.py",
})  # fmt: skip


class Layer:
    """A middleware that changes nothing."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        """Call the handler."""
        return await call_next(delivery)


def listed(beginning: str) -> list[str]:
    """Return the files of the numbered list behind the paragraph that begins so."""
    [numbered] = re.findall(rf"^{beginning}.*?:\n\n(1\. .*?)\n\n(?!\d\. )", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [file for file in re.findall(r"`(mqflow/[\w/]+\.py)`", numbered) if file not in NOT_CALLED]


@contextmanager
def files_called() -> Iterator[list[str]]:
    """Record the file of each call of a function of mqflow inside the block, in order."""
    called = list[str]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and (path := Path(frame.f_code.co_filename)).is_relative_to(ROOT / "mqflow"):
            called.append(path.relative_to(ROOT).as_posix())

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


def out_of_order(files: list[str], called: list[str]) -> list[str]:
    """Return the files that are not called after the files before them."""
    left = iter(called)
    return [file for file in files if file not in left]


async def handled(mq: QueueManagerKit, body: str) -> list[str]:
    """Return the files that one message passes."""
    mq.mqsc(
        "DEFINE QLOCAL('IN') BOTHRESH(2) BOQNAME('BOQ')",
        *(f"DEFINE QLOCAL('{queue}')" for queue in ("BOQ", "OUT", "DECISIONS")),
    )
    app = App(settings=Settings(disposition_queue="DECISIONS"), middleware=[Layer()])

    @app.listener("IN")
    async def book(body: bytes, ctx: Context) -> None:
        if body == b"poison":
            raise ValueError("no such order")
        await ctx.put("OUT", body)

    await mq.put("IN", body.encode())
    with files_called() as called:
        await run_for(mq, 5, app)
    assert mq.depth("OUT" if body == "healthy" else "BOQ") == 1
    return called


@pytest.mark.parametrize(
    ("body", "beginning"), [("healthy", "A message that a handler completes"), ("poison", "A poison message leaves this path")]
)
async def test_a_message_passes_the_files_in_the_order_of_the_page(mq: QueueManagerKit, body: str, beginning: str) -> None:
    files = listed(beginning)

    assert len(files) > 8
    assert [] == out_of_order(files, await handled(mq, body))
