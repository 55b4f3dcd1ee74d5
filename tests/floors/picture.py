"""Draws floors as an SVG: a row of boxes for each floor, an arrow for each import. Knows no import."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.floors.structure import floors, imports_between, shortest_arrows

__all__ = ("drawn",)

_BOX_WIDTH, _BOX_HEIGHT = 132, 38
_GAP_X, _GAP_Y, _MARGIN = 18, 44, 16
_STYLE = (
    "text{font:14px sans-serif;fill:#1f2933;text-anchor:middle}"
    "rect{fill:#e6f4f1;stroke:#00897b;rx:6px}"
    "path{fill:none;stroke:#78909c;stroke-width:1.2}"
    "@media (prefers-color-scheme:dark){text{fill:#e4e7eb}rect{fill:#123c38;stroke:#4db6ac}path{stroke:#90a4ae}}"
)


def drawn(parent: str) -> str:
    """Return the picture of a package's children, the highest floor at the top. The same imports give the same bytes."""
    between = imports_between(parent)
    rows = floors(between)
    widest = max(len(row) for row in rows)
    width = 2 * _MARGIN + widest * _BOX_WIDTH + (widest - 1) * _GAP_X
    height = 2 * _MARGIN + len(rows) * _BOX_HEIGHT + (len(rows) - 1) * _GAP_Y
    places = _places(_ordered(rows, between), width)
    arrows = "\n".join(_arrow(places[above], places[below]) for above, below in shortest_arrows(between))
    boxes = "\n".join(_box(name.rpartition(".")[2], *place) for name, place in sorted(places.items()))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="The floors of {escape(parent)}">\n<style>{_STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8"/></marker></defs>\n'
        f"{arrows}\n{boxes}\n</svg>\n"
    )


def _ordered(rows: Sequence[list[str]], between: dict[str, set[str]]) -> list[list[str]]:
    """Return the rows with each box near the boxes above that import it, so that fewer arrows cross."""
    ordered: list[list[str]] = []
    middle: dict[str, float] = {}
    for row in rows:
        centres = {name: [middle[above] for above in middle if name in between[above]] for name in row}
        chosen = sorted(row, key=lambda name: (sum(centres[name]) / len(centres[name]) if centres[name] else 0.0, name))
        middle |= {name: at - (len(chosen) - 1) / 2 for at, name in enumerate(chosen)}
        ordered.append(chosen)
    return ordered


def _places(rows: Sequence[Sequence[str]], width: int) -> dict[str, tuple[float, float]]:
    places: dict[str, tuple[float, float]] = {}
    for floor, row in enumerate(rows):
        left = (width - len(row) * _BOX_WIDTH - (len(row) - 1) * _GAP_X) / 2
        for at, name in enumerate(row):
            places[name] = (left + at * (_BOX_WIDTH + _GAP_X), _MARGIN + floor * (_BOX_HEIGHT + _GAP_Y))
    return places


def _box(name: str, x: float, y: float) -> str:
    middle = f'x="{x + _BOX_WIDTH / 2:g}" y="{y + _BOX_HEIGHT / 2 + 5:g}"'
    return f'<rect x="{x:g}" y="{y:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"/><text {middle}>{escape(name)}</text>'


def _arrow(above: tuple[float, float], below: tuple[float, float]) -> str:
    x1, y1 = above[0] + _BOX_WIDTH / 2, above[1] + _BOX_HEIGHT
    x2, y2 = below[0] + _BOX_WIDTH / 2, below[1] - 1
    bend = (y2 - y1) / 2
    return f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}" marker-end="url(#tip)"/>'
