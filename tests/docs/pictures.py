"""Draws the pictures of the pages as SVG files: boxes at the crossings of a grid, and arrows between them.

`python -m tests.docs.pictures` writes them. The states and the delays of the reconnection come from the tables of mqflow.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

from mqflow.policy.reconnect.delays import LADDER
from mqflow.runtime.connection.supervisor_states import CONNECTION

__all__ = ("made",)

_IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 186, 44, 76, 44, 16
_STYLE: Final = (
    "text{font:13px sans-serif;fill:#1f2933;text-anchor:middle}.label{fill:#52606d}"
    "rect{fill:#e6f4f1;stroke:#00897b}.question rect{fill:#fff4e0;stroke:#ef8f00}.end rect{fill:#e8eaf6;stroke:#5c6bc0}"
    "path{fill:none;stroke:#78909c;stroke-width:1.2}.start{text-anchor:start}.random{fill:#b2dfdb}"
    "@media (prefers-color-scheme:dark){text{fill:#e4e7eb}.label{fill:#9aa5b1}rect{fill:#123c38;stroke:#4db6ac}"
    ".question rect{fill:#4a3410;stroke:#ffb74d}.end rect{fill:#283593;stroke:#9fa8da}path{stroke:#90a4ae}"
    ".random{fill:#00695c}}"
)


class _Arrow(Struct, frozen=True):
    """An arrow between two boxes, through further crossings of the grid."""

    start: str
    end: str
    label: str = ""
    via: tuple[tuple[float, float], ...] = ()
    #: Moves the arrow sideways, for two arrows between the same boxes.
    shift: float = 0.0


class _Picture(Struct, frozen=True):
    """The boxes of a picture by their text, each with its column, its row and its kind; and the arrows."""

    title: str
    boxes: Mapping[str, tuple[float, float, str]]
    arrows: Sequence[_Arrow]


def _drawn(picture: _Picture) -> str:
    """Return the SVG. The same picture gives the same bytes."""
    places = [(x, y) for x, y, _ in picture.boxes.values()] + [point for arrow in picture.arrows for point in arrow.via]
    columns, rows = max(x for x, _ in places), max(y for _, y in places)
    body = [*(_arrow(picture, arrow) for arrow in picture.arrows), *(_box(text, *at) for text, at in picture.boxes.items())]
    return _svg(picture.title, _centre(columns, 0)[0] + _WIDTH / 2, _centre(0, rows)[1] + _HEIGHT / 2, body)


def _drawn_ladder() -> str:
    """Return the delays of the reconnection as bars: the fixed part, and behind it the random part."""
    unit = 15  # for each second
    body = []
    for row, (fixed_s, random_s) in enumerate(LADDER):
        y, fixed, random = _MARGIN + row * 30, fixed_s * unit, random_s * unit
        name = f"attempt {row + 1}" + (" and later" if row == len(LADDER) - 1 else "")
        seconds = f"{fixed_s:g} s to {fixed_s + random_s:g} s"
        body.append(
            f'<text class="start" x="{_MARGIN}" y="{y + 15}">{name}</text>'
            f'<rect x="150" y="{y}" width="{fixed:g}" height="20"/>'
            f'<rect class="random" x="{150 + fixed:g}" y="{y}" width="{random:g}" height="20"/>'
            f'<text class="start" x="{158 + fixed + random:g}" y="{y + 15}">{seconds}</text>'
        )
    return _svg("The wait before each attempt to reconnect", 720, _MARGIN + len(LADDER) * 30 - 10, body)


def _svg(title: str, right: float, bottom: float, body: Sequence[str]) -> str:
    width, height = right + _MARGIN, bottom + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8"/></marker></defs>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _centre(x: float, y: float) -> tuple[float, float]:
    return _MARGIN + _WIDTH / 2 + x * (_WIDTH + _GAP_X), _MARGIN + _HEIGHT / 2 + y * (_HEIGHT + _GAP_Y)


def _box(text: str, x: float, y: float, kind: str) -> str:
    middle, height = _centre(x, y)
    lines = text.split("\n")
    corner = _HEIGHT / 2 if kind == "end" else 6
    rows = "".join(
        f'<text x="{middle:g}" y="{height + 5 + (at - (len(lines) - 1) / 2) * 16:g}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    place = f'x="{middle - _WIDTH / 2:g}" y="{height - _HEIGHT / 2:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{corner:g}"'
    return f'<g class="{kind}"><rect {place}/>{rows}</g>'


def _arrow(picture: _Picture, arrow: _Arrow) -> str:
    boxes = [picture.boxes[arrow.start][:2], *arrow.via, picture.boxes[arrow.end][:2]]
    points = [_centre(*at) for at in boxes]
    first, last = _border(points[0], points[1]), _border(points[-1], points[-2])
    (x1, y1), (x2, y2) = (first, points[1] if arrow.via else last)
    level = abs(y1 - y2) < 1
    shift_x, shift_y = (0.0, arrow.shift) if level else (arrow.shift, 0.0)
    line = "L".join(f"{x + shift_x:g} {y + shift_y:g}" for x, y in [first, *points[1:-1], last])
    x, y = (x1 + x2) / 2 + shift_x, (y1 + y2) / 2 + shift_y
    place = f'class="label" x="{x:g}" y="{y - 6:g}"' if level else f'class="label start" x="{x + 7:g}" y="{y + 4:g}"'
    return f'<path d="M{line}" marker-end="url(#tip)"/>' + (
        f"<text {place}>{escape(arrow.label)}</text>" if arrow.label else ""
    )


def _border(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Return the point at which a line from the centre of a box leaves the box."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    part = min(_WIDTH / 2 / abs(dx) if dx else 9e9, _HEIGHT / 2 / abs(dy) if dy else 9e9)
    return centre[0] + dx * part, centre[1] + dy * part


_LIFE: Final = _Picture(
    "The life of a message",
    {
        "queue": (1, 0, "end"),
        "poison?": (1, 1, "question"),
        "decode": (1, 2, "box"),
        "handler": (1, 3, "box"),
        "put its messages": (1, 4, "box"),
        "commit": (1, 5, "end"),
        "move": (0, 4, "box"),
        "back out:\nBackoutCount + 1": (2, 2, "end"),
        "final, or at the threshold?": (2, 3, "question"),
        "move ": (2, 4, "box"),
    },
    (
        _Arrow("queue", "poison?", "get"),
        _Arrow("poison?", "decode", "no"),
        _Arrow("poison?", "move", "yes", ((0, 1),)),
        _Arrow("decode", "move", "undecodable", ((0, 2),)),
        _Arrow("decode", "handler"),
        _Arrow("handler", "put its messages", "returns"),
        _Arrow("handler", "final, or at the threshold?", "raises"),
        _Arrow("final, or at the threshold?", "back out:\nBackoutCount + 1", "no"),
        _Arrow("final, or at the threshold?", "move ", "yes"),
        _Arrow("back out:\nBackoutCount + 1", "queue", "pause", ((2, 0),)),
        _Arrow("put its messages", "commit"),
        _Arrow("move", "commit", "", ((0, 5),)),
        _Arrow("move ", "commit", "", ((2, 5),)),
    ),
)
_POISON: Final = _Picture(
    "Where a poison message goes",
    {
        "poison message": (0, 0, "end"),
        "BOQNAME:\ndoes it take the message?": (0, 1, "question"),
        "on the\nbackout requeue queue": (1, 1, "end"),
        "did its sender set\nMQRO_DISCARD_MSG?": (0, 2, "question"),
        "discarded": (1, 2, "end"),
        "DEADQ:\ndoes it take the message?": (0, 3, "question"),
        "on the dead-letter queue,\nwith an MQDLH": (1, 3, "end"),
        "stays on its queue,\nand the listener pauses": (0, 4, "end"),
    },
    (
        _Arrow("poison message", "BOQNAME:\ndoes it take the message?"),
        _Arrow("BOQNAME:\ndoes it take the message?", "on the\nbackout requeue queue", "yes"),
        _Arrow("BOQNAME:\ndoes it take the message?", "did its sender set\nMQRO_DISCARD_MSG?", "no, or no such queue"),
        _Arrow("did its sender set\nMQRO_DISCARD_MSG?", "discarded", "yes"),
        _Arrow("did its sender set\nMQRO_DISCARD_MSG?", "DEADQ:\ndoes it take the message?", "no"),
        _Arrow("DEADQ:\ndoes it take the message?", "on the dead-letter queue,\nwith an MQDLH", "yes"),
        _Arrow("DEADQ:\ndoes it take the message?", "stays on its queue,\nand the listener pauses", "no, or no such queue"),
    ),
)
_DOUBT: Final = _Picture(
    "A commit whose answer is lost",
    {
        "application:\nMQCMIT": (0, 0, "box"),
        "queue manager: the unit\nof work is committed": (1, 0, "box"),
        "application:\ncommitted or backed out?": (0, 1, "question"),
    },
    (
        _Arrow("application:\nMQCMIT", "queue manager: the unit\nof work is committed"),
        _Arrow(
            "queue manager: the unit\nof work is committed",
            "application:\ncommitted or backed out?",
            "the answer is lost",
            ((1, 1),),
        ),
    ),
)
_STATES: Final = {"Unreached": (0, 0), "Connected": (1, 0), "Lost": (0, 1), "Returning": (1, 1), "Reconnecting": (0, 2)}


def _states() -> _Picture:
    """Return the states of a connection. An event that changes no state has no arrow."""
    both = {(start.value, end.value) for start, _, end in CONNECTION}
    arrows = [
        _Arrow(
            start.value,
            end.value,
            event.value,
            ((1, 2),) if (start.value, end.value) == ("Reconnecting", "Returning") else (),
            0.0 if (end.value, start.value) not in both else 40.0 if end.value == "Lost" else -40.0,
        )
        for start, event, end in CONNECTION
        if start is not end
    ]
    return _Picture("The states of a connection", {name: (x, y, "box") for name, (x, y) in _STATES.items()}, arrows)


_PICTURES: Final[Mapping[str, _Picture]] = {
    "life-of-a-message": _LIFE,
    "poison-message": _POISON,
    "commit-in-doubt": _DOUBT,
    "connection-states": _states(),
}


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file with its text."""
    for name, picture in _PICTURES.items():
        yield _IMAGES / f"{name}.svg", _drawn(picture)
    yield _IMAGES / "reconnection-delays.svg", _drawn_ladder()


if __name__ == "__main__":
    for file, text in made():
        file.write_text(text)
