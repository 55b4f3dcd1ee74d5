"""Helpers for most tests of handlers: define queues, and run an application in virtual time until its messages are handled."""

from typing import Any

import anyio
import pytest

from mqflow import App
from mqflow.testing.kit import Found, QueueManagerKit

__all__ = ("defining", "moved", "run_for")


def defining(*others: str, dead_letter_queue: str = "", **attributes: str | int) -> Any:
    """Return a fixture that defines the queue IN with these attributes, and the other queues, for each test of a module."""

    @pytest.fixture(autouse=True)
    def queues(mq: QueueManagerKit) -> None:
        for name in others:
            mq.define(name)
        mq.define("IN", "QLOCAL", **attributes)
        if dead_letter_queue:
            mq.mqsc(f"ALTER QMGR DEADQ({dead_letter_queue})")

    return queues


async def run_for(
    mq: QueueManagerKit, seconds: float, app: App, *bodies: object, queue: str = "IN", user: str = "", **fields: Any
) -> None:
    """Run the application for some seconds after these messages have come to the queue."""
    async with mq.run(app, user=user):
        for body in bodies:
            await mq.put(queue, body, **fields)
        await anyio.sleep(seconds)


async def moved(
    mq: QueueManagerKit, app: App, body: object, to: str = "BOQ", *, queue: str = "IN", within_s: float = 60, **fields: Any
) -> Found:
    """Run the application until a message of the queue has brought a message to another queue; return that message."""
    async with mq.run(app):
        await mq.put(queue, body, **fields)
        [found] = await mq.drain(to, within_s=within_s)
    return found
