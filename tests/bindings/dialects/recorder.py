"""A `Dialect` that records the arguments of each call, and answers as the test says. Reads the structures by their layouts."""

import ctypes
from collections.abc import Callable
from typing import Any

from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.structures import Structure
from mqflow.mqi.c_structures import Layout
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("Recorder", "told")


class Recorder:
    """Offers `Dialect`. An answer is a tuple, or a function of the arguments; without one, a call succeeds."""

    name = "recorder"
    built_for = "9.4"

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.calls: list[tuple[Any, ...]] = []

    def on(self, clock: Clock = SYSTEM_CLOCK) -> BoundConnection:
        """Return a connection with the Hconn 5."""
        dialect: Any = self
        return BoundConnection(dialect, 5, "QM1", clock)

    def check(self, options: ConnectOptions) -> None:
        """There is nothing that it cannot do."""

    def __getattr__(self, call: str) -> Callable[..., Any]:
        """Return the call of this name."""

        def record(*arguments: Any) -> Any:
            self.calls.append((call, *arguments))
            assert len(self.calls) < 100, "the adapter calls again and again"
            answer = self.answers.get(call, _SUCCEEDS.get(call, (0, 0)))
            return answer(*arguments) if callable(answer) else answer

        return record


_SUCCEEDS: dict[str, Any] = {
    "connect": lambda _: (5, 0, 0),
    "open": lambda _hconn, od, _options: (7, od, 0, 0),
    "put": lambda _hconn, _hobj, md, pmo, _body: (md, pmo, 0, 0),
    "put1": lambda _hconn, _od, md, pmo, _body: (md, pmo, 0, 0),
    "get": lambda _hconn, _hobj, md, gmo, _room: (b"", md, gmo, 0, 0, 0),
    "inquire": lambda _hconn, _hobj, selectors: ({each: 1 if each < 2001 else b"TEXT" for each in selectors}, 0, 0),
    "subscribe": lambda _hconn, sd, hobj: (sd, hobj or 8, 9, 0, 0),
    "request": lambda _hconn, _hsub, _action, sro: (sro, 0, 0),
}


def told(structure: Structure, layout: Layout, data: bytes) -> dict[str, object]:
    """Return the fields that differ from their initial values. A variable-length string or a pointer comes as its bytes.

    A pointer is valid during the call only.
    """
    usual, found = structure.pack(), dict[str, object]()
    for field in layout.fields.values():
        raw = data[field.offset : field.offset + field.length]
        number = int.from_bytes(raw, "little", signed=True)
        if field.name.endswith(("VSBufSize", "VSLength", "VSCCSID")) or raw == usual[field.offset :][: field.length]:
            continue
        name = field.name.removesuffix("Ptr").removesuffix("VS")
        if field.name.endswith("VSPtr"):
            room, length, ccsid = (
                int.from_bytes(data[layout.fields[name + part].offset :][:4], "little", signed=True)
                for part in ("VSBufSize", "VSLength", "VSCCSID")
            )
            found[name] = (ctypes.string_at(number, length + 1), room, ccsid)
        elif field.name.endswith("Ptr"):
            found[name] = ctypes.string_at(number)
        else:
            found[name] = raw.rstrip(b"\0") if field.kind.endswith("s") else number
    return found
