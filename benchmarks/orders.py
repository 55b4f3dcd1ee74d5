"""The message of the benchmarks: 1,024 bytes of JSON, an order with twelve lines, and its typed payload."""

from typing import Final

import msgspec
from msgspec import Struct

__all__ = ("BODY", "Order", "decode")

_BODY_BYTES: Final = 1_024


class Line(Struct, gc=False):
    """One line of an order."""

    sku: str
    quantity: int
    price: float


class Order(Struct, gc=False):
    """The payload of the handlers."""

    id: int
    customer: str
    tags: list[str]
    lines: list[Line]
    note: str


def _body() -> bytes:
    lines = [Line(sku=f"SKU-{number:05}", quantity=number + 1, price=9.99 + number) for number in range(12)]
    order = Order(id=4711, customer="C-000042", tags=["new", "paid", "export"], lines=lines, note="")
    order.note = "x" * (_BODY_BYTES - len(msgspec.json.encode(order)))
    return msgspec.json.encode(order)


BODY: Final = _body()
decode: Final = msgspec.json.Decoder(Order).decode
