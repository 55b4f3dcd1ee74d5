"""A queue manager in memory with failed messages, and the console on it, called as an ASGI application: no port is opened."""

import re
from contextlib import nullcontext
from html import unescape
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from mqflow import App
from mqflow.app.config.settings import LedgerSettings, Settings
from mqflow.app.run.decision_ledger import DecisionLedger, MessageEvent
from mqflow.cli.console.access import Access
from mqflow.cli.console.audit import AuditLog
from mqflow.cli.console.changes import Changes
from mqflow.cli.console.desk import Desk
from mqflow.cli.console.views import console
from mqflow.cli.watching.status_report import StatusReport
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.moved_message import Why
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import QueueManager
from mqflow.world import World

HERE = "http://localhost:8161"
SCRIPT = """
DEFINE QLOCAL('ORDERS.IN') BOTHRESH(1) BOQNAME('ORDERS.BOQ')
DEFINE QLOCAL('ORDERS.BOQ')
DEFINE QLOCAL('DEAD.LETTERS')
ALTER QMGR DEADQ(DEAD.LETTERS)
"""
TABLE = """REASON(MQRC_Q_FULL) DESTQ(ORDERS.IN) ACTION(FWD) FWDQ(ORDERS.BOQ)
DESTQ(OTHER) ACTION(FWD) FWDQ(NONE)
DESTQ(THIRD) ACTION(DISCARD)
"""
FAILED = Why(queue="ORDERS.IN", outcome="failed", error="ValueError", text="no price", frame="shop.py:9 in book")
UNDECODABLE = Why(queue="ORDERS.IN", outcome="undecodable", error="DecodeError")
TEXT = MessageDescriptor(format="MQSTR", ccsid=1208)
LOGIN = {"person": "amelie"}


class Bench:
    """A console with its queue manager and its clock."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock))
        assert 0 == mqsc.run(SCRIPT, self.queue_manager.administration).exit_code()
        self.connection = self.queue_manager.connect()
        self.reports: list[StatusReport] = []
        self.settings = Settings(url="embedded::memory:?qmgr=QM1", ledger=LedgerSettings(file=str(folder / "decisions.db")))
        self.rules = folder / "rules.tab"
        self.rules.write_text(TABLE)
        self.audit = folder / "audit.jsonl"
        self.access = Access(self.clock)
        #: The queue manager as the console reaches it.
        self.reached: QueueManager = self.queue_manager
        self.use(None)

    def use(self, app: App | None) -> None:
        """Let the console know the handlers of this application."""
        self.desk = Desk(
            lambda: nullcontext(self.reached), self.settings, lambda: self.reports, self.clock, rules=(self.rules,), app=app
        )
        self.changes = Changes(self.desk, AuditLog(self.audit, self.clock), app)

    def fail(self, body: bytes, why: Why = FAILED, descriptor: MessageDescriptor = TEXT, queue: str = "ORDERS.BOQ") -> bytes:
        """Put a failed message on the backout queue; return its MsgId."""
        moved, data = moved_message.to_backout_queue(descriptor, body, folders=(moved_message.folder(why),))
        return self.connection.put1(queue, moved, data, PutOption.NO_SYNCPOINT).descriptor.message_id

    def record(self, *events: MessageEvent) -> None:
        """Write these events to the ledger."""
        ledger = DecisionLedger(Path(self.settings.ledger.file), record="all")
        for event in events:
            ledger(event)
        ledger.close()

    def depths(self, *queues: str) -> tuple[int, ...]:
        return tuple(self.queue_manager.administration.queue_status(queue).depth for queue in queues)

    def app(self, *, may_change: bool = True) -> ASGIApp:
        return console(self.desk, self.access, self.changes if may_change else None)

    def browser(self, *, may_change: bool = True) -> "Browser":
        return Browser(self.app(may_change=may_change), self.access.token)


class Browser(httpx.AsyncClient):
    """A client that sends forms like a browser, and logs in at the first use."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        super().__init__(transport=httpx.ASGITransport(app=app), base_url=HERE, headers={"Origin": HERE})
        self._token = token

    async def log_in(self) -> "Browser":
        answer = await self.post("/login", data={**LOGIN, "token": self._token})
        assert 303 == answer.status_code
        return self

    async def press(self, page: httpx.Response, label: str, **fields: str) -> httpx.Response:
        """Send the form of the page whose button has this label."""
        forms = re.findall(r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', page.text, re.DOTALL)
        [(action, inside)] = [(action, inside) for action, inside in forms if f">{label}</button>" in inside]
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', inside))
        return await self.post(action, data={name: unescape(value) for name, value in hidden.items()} | fields)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
