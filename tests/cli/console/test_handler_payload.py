"""The body of a message as the handler of its queue receives it."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

from mqflow import App, Message
from mqflow.cli.console.handler_payload import HandlerPayload, handler_payload
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.dead_letters.original_message import Restored
from mqflow_copybook import Copybook
from tests.cli.console.conftest import Bench

BODY = Restored(descriptor=MessageDescriptor(), data=b"\xc1\xc2")


class Line(Struct):
    price: Decimal


class Claim(Struct):
    holder: str
    lines: list[Line]
    raw: bytes = b"\xff"
    note: str | None = None
    is_paid: bool = True
    tags: list[str] = []


class Ebcdic:
    """A codec as a plugin has it: bytes in EBCDIC are the holder of a claim."""

    def __init__(self, fails: Callable[[], object] = lambda: None) -> None:
        self._fails = fails

    def decode(self, message: Message, payload_type: Any) -> Any:
        self._fails()
        return payload_type(message.body.decode("cp037"), [Line(Decimal("1.50")), Line(Decimal(2))])

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        raise NotImplementedError


def claims(codec: Any, *, where: Callable[[Message], bool] | None = None) -> App:
    app = App()

    @app.listener("CLAIMS.IN", codec=codec, where=where)
    async def pay(claim: Claim) -> None: ...

    return app


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


ROWS = (
    *(("holder", "AB"), ("lines.0.price", "1.50"), ("lines.1.price", "2"), ("raw", "ff"), ("note", "")),
    *(("is_paid", "true"), ("tags", "[]")),
)
READ = HandlerPayload(handler="pay", codec="Ebcdic", rows=ROWS)


@pytest.mark.parametrize(
    ("app", "queue", "expected"),
    [pytest.param(claims(Ebcdic()), "CLAIMS.IN", READ, id="the fields, each by its path"),
     pytest.param(claims(Ebcdic()), "ORDERS.IN", None, id="a queue without a handler"),
     pytest.param(claims(None), "CLAIMS.IN", None, id="no codec: the page shows JSON as it is"),
     pytest.param(claims(Ebcdic(), where=lambda _: False), "CLAIMS.IN", None, id="another handler wants it"),
     pytest.param(claims(Ebcdic(raising(ValueError("holder at offset 0: no text")))), "CLAIMS.IN",
         HandlerPayload(handler="pay", codec="Ebcdic", problem="holder at offset 0: no text"),
         id="a body that the handler cannot read"),
     pytest.param(claims(Ebcdic(raising(AttributeError("a defect")))), "CLAIMS.IN",
         HandlerPayload(handler="pay", codec="Ebcdic", problem="AttributeError: a defect"), id="a defect of the codec")],
)  # fmt: skip
def test_a_body_is_shown_as_its_handler_receives_it(app: App, queue: str, expected: HandlerPayload | None) -> None:
    assert expected == handler_payload(app, queue, BODY)


def test_a_body_with_very_many_fields_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "mqflow.cli.console.handler_payload._ROWS_MAX"
    for most in (len(ROWS), 2):
        monkeypatch.setattr(limit, most)

        found = handler_payload(claims(Ebcdic()), "CLAIMS.IN", BODY)

        assert found == HandlerPayload(handler="pay", codec="Ebcdic", rows=ROWS[:most], is_cut=most == 2)


COPYBOOK = """
       01  CLAIM.
           05  HOLDER              PIC X(4).
           05  LINE-COUNT          PIC S9(4) COMP.
           05  CLAIM-LINE OCCURS 0 TO 50 TIMES DEPENDING ON LINE-COUNT.
               10  PRICE           PIC S9(3)V99 COMP-3.
"""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("left_out", "shown"),
    [
        (0, '<th scope="row">claim_line.1.price</th><td class="value">-12.50</td>'),
        (1, "claim_line.1.price (PRICE PIC S9(3)V99 COMP-3) at offset 9: the body ends at offset 11"),
    ],
)
async def test_the_page_of_a_failed_message_has_the_fields_of_its_copybook(bench: Bench, left_out: int, shown: str) -> None:
    copybook = Copybook(COPYBOOK)
    body = copybook.to_bytes(
        {"holder": "<i>", "line_count": 2, "claim_line": [{"price": Decimal("1.00")}, {"price": Decimal("-12.50")}]}
    )
    described = MessageDescriptor(ccsid=37, encoding=785)
    identifier = bench.fail(body[: len(body) - left_out], descriptor=described).hex()
    app = App()

    @app.listener("ORDERS.IN", codec=copybook)
    async def book(claim: dict[str, Any]) -> None: ...

    bench.use(app)
    browser = await bench.browser().log_in()

    page = (await browser.get(f"/message?queue=ORDERS.BOQ&id={identifier}")).text

    assert "Body as book reads it (Copybook)" in page
    assert shown in page
    assert "<i>" not in page
